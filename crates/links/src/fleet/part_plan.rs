//! What one link of a fleet needs in one of its clusters, if the other one is not used. Nothing is concluded about what
//! only the other cluster knows. Pure.

use std::collections::BTreeSet;

use kube::ResourceExt as _;
use manifests::{
    kubeconfig::Secret,
    link::{ApiServerAccess, LinkTarget, SETTINGS, link},
};
use mirror_core::api::{
    labels,
    link::{Link, LinkerdConfig},
};

use crate::{
    fleet::{
        accounts::{LinkAccount, account_writes},
        facts::{ClusterFacts, is_of},
        loaded::{LoadedFleet, LoadedLink},
        part::LinkPart,
        source_writes::SourceWrites,
    },
    steps::LinkStep,
};

/// Annotations that say which cluster is the target, and how its API server is reached. The credentials have to fit them.
const WAY: [&str; 3] = [
    labels::CLUSTER_UID,
    labels::API_GATEWAY,
    labels::DISCOVERY_API_SERVER,
];

/// What is planned for a part of a link, and what needs the other cluster.
#[derive(Default)]
pub struct PartPlan {
    pub writes: Vec<LinkStep>,
    pub not_done: Vec<NotDone>,
    /// Whether the source cluster needs credentials that only the target cluster can make.
    pub needs_credentials: bool,
}

/// What is not done without the other cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotDone {
    /// There is no Link.
    Link,
    /// Somebody else has made the Link.
    TakingOver,
    /// The Link has no gateway, and should have one.
    Gateway,
    /// There are no credentials of the fleet.
    Credentials,
    /// An account is not in the file.
    AccountRemoval,
}

impl NotDone {
    /// What is said of it, for these other clusters.
    pub fn text(self, others: &BTreeSet<String>) -> String {
        let others = others.iter().map(String::as_str).collect::<Vec<_>>();
        let others = others.join(", ");
        match self {
            Self::Link => format!(
                "no Link is created to {others}: it needs facts of its target cluster, which was not read"
            ),
            Self::Credentials => format!(
                "no credentials are written for {others}: only the target cluster has the token"
            ),
            Self::TakingOver => format!(
                "not taken over: the Link to {others}, which others have made, and whose target cluster was not read"
            ),
            Self::Gateway => format!(
                "the Link to {others} stays without a gateway: it needs facts of its target cluster, which was not read"
            ),
            Self::AccountRemoval => {
                format!("the account of {others} stays: its cluster was not read, and may use it")
            }
        }
    }
}

/// A part of a link, and what is known of the only cluster that is used.
pub struct PartCase<'c> {
    pub loaded: &'c LoadedFleet,
    pub link: &'c LoadedLink,
    pub facts: &'c ClusterFacts,
}

impl PartCase<'_> {
    /// Plans the part. `Err` says why it cannot be done.
    pub fn plan(&self, part: LinkPart) -> Result<PartPlan, String> {
        match part {
            LinkPart::Source => self.in_source(),
            LinkPart::Target => self.in_target(),
            LinkPart::Whole => Ok(PartPlan::default()),
        }
    }

    /// The account of the source cluster.
    fn in_target(&self) -> Result<PartPlan, String> {
        if let Some(Err(why)) = &self.facts.target {
            return Err(why.clone());
        }
        let (target, accounts) = (&self.link.ends.target, &self.facts.accounts);
        // Which of its tokens the link has, only the source cluster knows.
        let mut account = LinkAccount::named(self.loaded, &self.link.ends.source);
        account.access = self.link.access();
        let has_token = accounts.has_token(&account.name);
        let writes = account_writes(self.loaded, target, &account, accounts, has_token)?;
        let is_new = |write: &LinkStep| {
            let change = &write.change;
            change.verb == "create" && ["ServiceAccount", "Secret"].contains(&change.kind.as_str())
        };
        Ok(PartPlan {
            needs_credentials: writes.iter().any(is_new),
            writes,
            ..PartPlan::default()
        })
    }

    /// The settings of the Link that is there.
    fn in_source(&self) -> Result<PartPlan, String> {
        let (loaded, link) = (self.loaded, self.link);
        let writes = SourceWrites {
            loaded,
            link,
            source: self.facts,
        };
        if let Some(why) = writes.obstacle() {
            return Err(why);
        }
        let name = link.ends.target.to_string();
        let mut links = self.facts.links.iter();
        let old = links.find(|link| link.name_any() == name);
        let mut plan = PartPlan::default();
        match old {
            None => plan.not_done.push(NotDone::Link),
            Some(old) if !is_of(old, &loaded.fleet.name) => {
                plan.not_done.push(NotDone::TakingOver);
            }
            Some(old) => {
                let has_none = old.spec.gateway_address.is_empty();
                plan.not_done
                    .extend((has_none && link.args.gateway).then_some(NotDone::Gateway));
                let wanted = with_facts_of(old, loaded, link);
                plan.writes.extend(writes.of_link(&wanted)?);
            }
        }
        if !self.has_credentials() {
            plan.not_done.push(NotDone::Credentials);
        }
        plan.needs_credentials = !plan.not_done.is_empty();
        Ok(plan)
    }

    /// Whether the fleet has made all Secrets that the link needs. Nothing is known of what should be in them.
    fn has_credentials(&self) -> bool {
        let (loaded, args) = (self.loaded, &self.link.args);
        let name = self.link.ends.target.credentials_secret();
        let is_there = |namespace: &String| {
            let secret = self.facts.credentials(namespace, &name);
            secret.is_some_and(|secret| is_of(secret, &loaded.fleet.name))
        };
        is_there(&loaded.namespace) && (args.is_without_discovery() || is_there(&loaded.linkerd))
    }
}

/// The Link as the file says. What only its target cluster can say stays as it is in the `old` one.
fn with_facts_of(old: &Link, loaded: &LoadedFleet, wanted: &LoadedLink) -> Link {
    let (args, spec) = (&wanted.args, &old.spec);
    let target = LinkTarget {
        name: wanted.ends.target.clone(),
        uid: None,
        config: LinkerdConfig {
            cluster_domain: spec.target_cluster_domain.clone(),
            ..LinkerdConfig::default()
        },
        linkerd_namespace: loaded.linkerd.clone(),
        api_server: ApiServerAccess::Direct(Secret::new("")),
        gateway: None,
    };
    let mut made = link(&target, &args.namespace, &args.options).link;
    if args.gateway && !spec.gateway_address.is_empty() {
        for setting in SETTINGS.iter().filter(|setting| setting.needs_gateway) {
            setting.set(&mut made, &args.options);
        }
        let new = &mut made.spec;
        new.gateway_address = match args.set_addresses().as_slice() {
            [] => spec.gateway_address.clone(),
            set => set.join(","),
        };
        new.gateway_port = match args.gateway_port {
            0 => spec.gateway_port.clone(),
            port => port.to_string(),
        };
        new.gateway_identity.clone_from(&spec.gateway_identity);
        new.probe_spec.clone_from(&spec.probe_spec);
    }
    let kept = WAY.iter().filter_map(|key| {
        let value = old.annotations().get(*key)?;
        Some(((*key).to_owned(), value.clone()))
    });
    made.annotations_mut().extend(kept);
    made
}
