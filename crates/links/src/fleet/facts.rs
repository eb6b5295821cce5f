//! What was read of one cluster of a fleet, before anything is written. Without a client, so that plans are made of it
//! in tests.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::{
    core::v1::{Secret, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{ResourceExt as _, core::ObjectMeta};
use manifests::{
    kubeconfig::{ClusterEntry, Secret as Token},
    link::ClusterName,
};
use mirror_core::api::{labels, link::Link};
use observe::clusters::snapshot::Destination;

use crate::{
    inventory::{ApiKind, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, SECRET, SERVICE_ACCOUNT},
    link::{api_server::ApiServerFacts, facts::LinkFacts},
    link_credentials::TokenAccount,
};

/// One cluster.
#[derive(Default)]
pub struct ClusterFacts {
    /// The UID of its Namespace kube-system, which no other cluster has; `None` if the user may not read it.
    pub uid: Option<String>,
    /// Whether it has the CRD of Links.
    pub has_links: bool,
    /// The Links of the fleet's namespace.
    pub links: Vec<Link>,
    /// Why some of them cannot be decoded, by their names.
    pub unreadable: BTreeMap<String, String>,
    /// The Links of other namespaces.
    pub elsewhere: Vec<Link>,
    /// Credentials of Links, in that namespace and in Linkerd's.
    pub credentials: Vec<Secret>,
    /// What other clusters use.
    pub accounts: AccountFacts,
    /// What links to it need, if there are any; or why that is not known.
    pub target: Option<Result<TargetSide, String>>,
    /// Which credentials Linkerd has; or why that is not known. Only if accounts are in two namespaces.
    pub destination: Option<Result<Destination, String>>,
}

/// A cluster that is linked already, and of which a file is made.
#[derive(Default)]
pub struct ImportedCluster {
    /// The UID of its Namespace kube-system; `None` if the user may not read it.
    pub uid: Option<String>,
    pub context: String,
    /// The name that the context suggests.
    pub derived: Option<ClusterName>,
    /// The cluster, as the user's kubeconfig has it.
    pub entry: ClusterEntry,
    /// Addresses and port of its gateway; `None` if it was not read.
    pub gateway: Option<(Vec<String>, u16)>,
    /// The Links of the namespace.
    pub links: Vec<Link>,
    /// Why some of them cannot be decoded, by their names.
    pub unreadable: BTreeMap<String, String>,
    /// Their credentials, and those of Linkerd.
    pub credentials: Vec<Secret>,
    /// The accounts that others may use.
    pub accounts: Vec<ServiceAccount>,
}

/// The accounts in one cluster, in the fleet's namespace for them.
#[derive(Clone, Default)]
pub struct AccountFacts {
    /// Whether this namespace is missing.
    pub lacks_namespace: bool,
    pub accounts: Vec<ServiceAccount>,
    /// The Secrets with their tokens.
    pub tokens: Vec<Secret>,
    /// A token that was just requested.
    pub requested: Option<Token>,
    pub roles: Vec<ClusterRole>,
    pub bindings: Vec<ClusterRoleBinding>,
    pub former: FormerAccounts,
}

/// An object of an account, or a token of it.
pub struct AccountObject<'f> {
    /// Name of the account.
    pub account: &'f str,
    pub kind: ApiKind,
    pub metadata: &'f ObjectMeta,
}

impl AccountObject<'_> {
    /// Whether the fleet of this name has made it.
    pub fn is_of(&self, fleet: &str) -> bool {
        label(self.metadata) == Some(fleet)
    }

    /// Whether the fleet of this name has made it, but before its file had an ID.
    pub fn was_of(&self, fleet: &str) -> bool {
        is_former_label(label(self.metadata), fleet)
    }
}

/// Accounts of other namespaces that bindings of the fleet are for: where they were before the file named this one.
#[derive(Clone, Default)]
pub struct FormerAccounts {
    pub accounts: Vec<ServiceAccount>,
    /// The Secrets with their tokens.
    pub tokens: Vec<Secret>,
}

impl FormerAccounts {
    /// The accounts with this name, each in another namespace.
    pub fn named(&self, name: &str) -> impl Iterator<Item = &ServiceAccount> {
        let accounts = self.accounts.iter();
        accounts.filter(move |account| account.name_any() == name)
    }

    /// The namespaces of the accounts with this name; `None` if there are none.
    pub fn namespaces(&self, name: &str) -> Option<String> {
        let all: Vec<String> = self
            .named(name)
            .filter_map(kube::ResourceExt::namespace)
            .collect();
        (!all.is_empty()).then(|| all.join(", "))
    }
}

impl AccountFacts {
    /// All objects of accounts, in all namespaces, in the order in which they are deleted.
    pub fn objects(&self) -> impl Iterator<Item = AccountObject<'_>> {
        fn named<'a, K: kube::Resource + 'a>(
            kind: ApiKind,
            all: impl IntoIterator<Item = &'a K>,
        ) -> impl Iterator<Item = AccountObject<'a>> {
            all.into_iter().map(move |object| AccountObject {
                account: object.meta().name.as_deref().unwrap_or_default(),
                kind,
                metadata: object.meta(),
            })
        }
        let tokens = self.tokens.iter().chain(&self.former.tokens);
        let tokens = tokens.filter_map(|token| {
            Some(AccountObject {
                account: account_of(token)?,
                kind: SECRET,
                metadata: &token.metadata,
            })
        });
        let accounts = self.accounts.iter().chain(&self.former.accounts);
        named(CLUSTER_ROLE_BINDING, &self.bindings)
            .chain(named(SERVICE_ACCOUNT, accounts))
            .chain(tokens)
            .chain(named(CLUSTER_ROLE, &self.roles))
    }

    /// The names of the accounts of which a fleet has made something. What is left of one that was removed in part counts
    /// too.
    pub fn names_of(&self, fleet: &str) -> BTreeSet<String> {
        let own = self.objects().filter(|object| object.is_of(fleet));
        own.map(|object| object.account.to_owned()).collect()
    }

    /// Whether an account has a token, or a Secret for one, also one that a rotation has made for its link.
    pub fn has_token(&self, account: &str) -> bool {
        let mut tokens = self.tokens.iter();
        self.account(account).is_some() && tokens.any(|token| account_of(token) == Some(account))
    }

    /// A copy with this account, which was just made. Other tokens stay, because the credentials of a link may have one.
    pub fn with(&self, account: ServiceAccount, token: Token) -> Self {
        let mut all = self.clone();
        let name = account.name_any();
        all.accounts.retain(|known| known.name_any() != name);
        all.accounts.push(account);
        all.requested = Some(token);
        all
    }

    /// The account of a token; `namespace` is that of the accounts.
    pub fn account_in(&self, namespace: &str, of: &TokenAccount) -> Option<&ServiceAccount> {
        if of.namespace == namespace {
            return self.account(&of.name);
        }
        let mut former = self.former.named(&of.name);
        former.find(|account| account.namespace().as_ref() == Some(&of.namespace))
    }

    /// A ServiceAccount.
    pub fn account(&self, name: &str) -> Option<&ServiceAccount> {
        let mut accounts = self.accounts.iter();
        accounts.find(|account| account.name_any() == name)
    }
}

/// What links to a cluster need to know of it.
pub struct TargetSide {
    pub facts: LinkFacts,
    /// What is only known inside of it.
    pub inside: ApiServerFacts,
}

impl ClusterFacts {
    /// Credentials with this namespace and name.
    pub fn credentials(&self, namespace: &str, name: &str) -> Option<&Secret> {
        let mut all = self.credentials.iter();
        all.find(|secret| {
            secret.namespace().as_deref() == Some(namespace) && secret.name_any() == name
        })
    }
}

/// Whether the fleet of this name has made an object.
pub fn is_of(object: &impl kube::Resource, fleet: &str) -> bool {
    fleet_of(object).is_some_and(|name| name == fleet)
}

/// Whether the fleet of this name has made an object, but before its file had an ID.
pub fn was_of(object: &impl kube::Resource, fleet: &str) -> bool {
    is_former_label(fleet_of(object), fleet)
}

fn is_former_label(label: Option<&str>, fleet: &str) -> bool {
    let before = fleet.split_once('.').map(|(name, _)| name);
    before.is_some() && label == before
}

/// Another fleet that has made an object. What was made before the file had an ID may be its own, or that of a file of the
/// same name without one.
pub fn other_fleet<'o>(object: &'o impl kube::Resource, fleet: &str) -> Option<&'o str> {
    fleet_of(object).filter(|other| *other != fleet && !was_of(object, fleet))
}

/// The fleet that has made an object.
pub fn fleet_of(object: &impl kube::Resource) -> Option<&str> {
    label(object.meta())
}

fn label(metadata: &ObjectMeta) -> Option<&str> {
    let labels = metadata.labels.as_ref()?;
    labels.get(labels::FLEET).map(String::as_str)
}

/// The account that a Secret with a token is for.
pub fn account_of(token: &Secret) -> Option<&str> {
    let of = token.annotations().get(labels::SERVICE_ACCOUNT_NAME);
    of.map(String::as_str)
}
