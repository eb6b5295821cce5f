//! Accounts that a fleet has in other namespaces, because its file named another one before. Each goes when nothing uses it
//! any more.

use client::{fingerprint, kubeconfig_in};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::ResourceExt as _;
use manifests::{link::ClusterName, render::ObjectName};

use crate::{
    fleet::{
        accounts::{LinkAccount, binding},
        deletions::{ClusterRemoval, gone, of_account, uses},
        facts::{AccountFacts, ClusterFacts, account_of, is_of},
        hand_over::flags,
        loaded::LoadedFleet,
        part::UsedClusters,
    },
    inventory::{SECRET, SERVICE_ACCOUNT},
    steps::{Action, LinkStep, StepChange, StepPart},
};

/// An account of a source cluster that stays in the file, and that may be in other namespaces too.
pub struct FormerCase<'c> {
    pub loaded: &'c LoadedFleet,
    pub target: &'c ClusterName,
    pub accounts: &'c AccountFacts,
    /// Name of the account.
    pub name: &'c str,
    pub source: &'c ClusterName,
}

impl FormerCase<'_> {
    /// Plans the removal of the account in other namespaces. `read` is what is known of the source cluster.
    pub fn removal(
        &self,
        read: Option<Result<&ClusterFacts, &str>>,
        used: &UsedClusters,
        removal: &mut ClusterRemoval,
    ) {
        let (fleet, source) = (&self.loaded.fleet.name, self.source);
        let former = self.accounts.former.named(self.name);
        let former: Vec<&ServiceAccount> = former.filter(|of| is_of(*of, fleet)).collect();
        let uid = read.and_then(|read| read.ok()?.uid.as_deref());
        let own = LinkAccount::of(self.loaded, source, uid, self.accounts).name;
        // It goes when there is one in its place.
        if former.is_empty() || self.accounts.account(&own).is_none() {
            return;
        }
        if !used.contains(source) {
            let left = former.iter().map(|account| self.left(account));
            removal.not_done.extend(left);
            return;
        }
        let uids: Vec<String> = former.iter().filter_map(|of| of.uid()).collect();
        let used_by = match read {
            Some(Ok(facts)) => self.used_by(facts, &uids),
            _ => Some(format!("{source} was not read, and may use it")),
        };
        if let Some(why) = used_by {
            let stays = former
                .iter()
                .map(|of| format!("the ServiceAccount {} stays: {why}", path(of)));
            removal.problems.extend(stays);
        } else if own == self.name {
            removal.steps.extend(self.steps(&former));
        } else {
            let source = source.to_string();
            let all = of_account(fleet, self.name, &source, self.accounts);
            removal.steps.extend(all);
        }
    }

    /// What is said if the source cluster is not used.
    fn left(&self, account: &ServiceAccount) -> String {
        let namespace = account.namespace().unwrap_or_default();
        let delete = flags(self.loaded, self.target)
            .kubectl("-n {} delete serviceaccount {}", &[&namespace, self.name]);
        format!(
            "the ServiceAccount {} stays: {} was not read, and may use it; when it does not, delete it with {delete}",
            path(account),
            self.source
        )
    }

    /// What in the source cluster may use accounts with these UIDs, if something may.
    fn used_by(&self, facts: &ClusterFacts, uids: &[String]) -> Option<String> {
        let (source, target) = (self.source, self.target.to_string());
        if let Some(secret) = facts.credentials.iter().find(|secret| uses(secret, uids)) {
            let (namespace, name) = (secret.namespace().unwrap_or_default(), secret.name_any());
            return Some(format!("the Secret {namespace}/{name} in {source} uses it"));
        }
        let mut links = facts.links.iter();
        let link = links.find(|link| link.spec.target_cluster_name == target)?;
        let secret = &link.spec.cluster_credentials_secret;
        let held = facts.credentials(&self.loaded.namespace, secret);
        let held = held
            .and_then(kubeconfig_in)
            .map(|text| fingerprint(&text.0));
        let status = link.status.as_ref();
        if held.is_none() || status.and_then(|of| of.credentials_fingerprint.clone()) != held {
            return Some(format!(
                "the controller in {source} does not use its new credentials yet"
            ));
        }
        match &facts.destination {
            Some(Ok(linkerd)) => {
                let has_read = !linkerd.credentials.contains_key(&target)
                    || linkerd.started.is_none()
                    || linkerd.is_current(&target);
                let restart = flags(self.loaded, source).restart_destination(&self.loaded.linkerd);
                (!has_read).then(|| {
                    format!(
                        "linkerd-destination in {source} has not restarted since it got new credentials, and still uses it; \
                         restart it with {restart}"
                    )
                })
            }
            Some(Err(why)) => Some(format!("linkerd-destination in {source} may use it: {why}")),
            None => Some(format!("linkerd-destination in {source} may use it")),
        }
    }

    /// The accounts and their tokens go, and then the binding is for the new account alone.
    fn steps(&self, former: &[&ServiceAccount]) -> Vec<LinkStep> {
        let part = || StepPart::Former(self.source.to_string());
        let accounts = former.iter();
        let accounts = accounts.map(|account| gone(SERVICE_ACCOUNT, &account.metadata, part()));
        let tokens = self.accounts.former.tokens.iter();
        let tokens = tokens.filter(|token| {
            is_of(*token, &self.loaded.fleet.name) && account_of(token) == Some(self.name)
        });
        let tokens = tokens.map(|token| gone(SECRET, &token.metadata, part()));
        let why = format!(
            "the account is in the namespace {} now",
            self.loaded.accounts
        );
        let binding = binding(self.loaded, self.name).and_then(|binding| {
            let name = ObjectName::of(&binding)?;
            Some(LinkStep {
                change: StepChange::of("patch", &name, String::new()),
                action: Action::Apply(binding),
                part: part(),
            })
        });
        let mut steps: Vec<LinkStep> = accounts.chain(tokens).chain(binding).collect();
        for step in &mut steps {
            step.change.why.clone_from(&why);
        }
        steps
    }
}

/// Namespace and name.
fn path(account: &ServiceAccount) -> String {
    let namespace = account.namespace().unwrap_or_default();
    format!("{namespace}/{}", account.name_any())
}
