//! What one link of a fleet needs in both clusters. Pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret as KubernetesSecret;
use kube::ResourceExt as _;
use manifests::{kubeconfig::Secret, link::ClusterName};
use mirror_core::api::metadata::cluster_uid;

use crate::{
    fleet::{
        accounts::{LinkAccount, account_writes, token},
        facts::{AccountFacts, ClusterFacts, TargetSide},
        loaded::{LoadedFleet, LoadedLink},
        source_writes::SourceWrites,
    },
    link::{remark::Remark, taken::objection},
    link_credentials::{KubeconfigTarget, TokenAccount, by_uid},
    steps::LinkStep,
};

/// What has to be written for one link.
pub struct LinkPlan {
    /// In the target cluster, and first.
    pub account: Vec<LinkStep>,
    /// In the source cluster, in this order. Without a token of the account, the credentials are not those to write.
    pub source: Vec<LinkStep>,
    /// Name of the account.
    pub name: String,
    /// The token of the account, if there is one.
    pub token: Option<Secret>,
    /// What the user has to know.
    pub remarks: Vec<Remark>,
}

/// Why a link cannot be made, and which cluster is to blame.
#[derive(Debug, PartialEq, Eq)]
pub struct LinkObstacle {
    pub cluster: ClusterName,
    pub why: String,
}

/// A link, and what is known of its clusters.
pub struct LinkCase<'c> {
    pub loaded: &'c LoadedFleet,
    pub link: &'c LoadedLink,
    pub source: &'c ClusterFacts,
    pub target: &'c ClusterFacts,
    pub now: Timestamp,
}

impl LinkCase<'_> {
    /// Plans the link, with the accounts that the target cluster has.
    pub fn plan(&self, accounts: &AccountFacts) -> Result<LinkPlan, LinkObstacle> {
        let (source, target) = (&self.link.ends.source, &self.link.ends.target);
        let in_source = |why: String| obstacle(source, why);
        let in_target = |why: String| obstacle(target, why);
        let writes = SourceWrites {
            loaded: self.loaded,
            link: self.link,
            source: self.source,
        };
        if let Some(why) = writes.obstacle() {
            return Err(in_source(why));
        }
        let side = match &self.target.target {
            Some(Ok(side)) => side,
            Some(Err(why)) => return Err(in_target(why.clone())),
            None => return Err(in_target("nothing is known of it as a target".to_owned())),
        };
        let held = self.held();
        if let Some(why) = self.leads_elsewhere(side, &held, accounts) {
            return Err(in_source(why));
        }
        let own = self.account(accounts, &held);
        let token = token(
            accounts,
            &own.name,
            held.first().map(|(_, held)| held),
            self.now,
        );
        let account = account_writes(self.loaded, target, &own, accounts, token.is_some());
        let account = account.map_err(in_target)?;
        let mut remarks = Vec::new();
        let link = self.link.with_account(&own.name);
        // An account that is there has another token when the link is made.
        let is_there = token.is_none() && accounts.account(&own.name).is_some();
        let stand_in = TokenAccount::named(&self.loaded.accounts, &own.name).stand_in(None);
        let shown = token.clone().or_else(|| is_there.then_some(stand_in));
        let made = link.objects(self.loaded, side, shown.as_ref(), &mut remarks);
        let objects = made.map_err(|error| in_target(format!("{error:#}")))?;
        let secrets = objects.secrets();
        let secrets = secrets.filter_map(|secret| writes.of_secret(secret, token.is_some()));
        let link = writes.of_link(&objects.link).map_err(in_source)?;
        let source = secrets.chain(link).collect();
        Ok(LinkPlan {
            account,
            source,
            name: own.name,
            token,
            remarks,
        })
    }

    /// The account of the source cluster in the target cluster.
    fn account(
        &self,
        accounts: &AccountFacts,
        held: &[(&KubernetesSecret, KubeconfigTarget)],
    ) -> LinkAccount {
        let (loaded, uid) = (self.loaded, self.source.uid.as_deref());
        let mut own = LinkAccount::of(loaded, &self.link.ends.source, uid, accounts);
        own.access = self.link.access();
        let mut held = held.iter().filter_map(|(_, held)| held.account.as_ref());
        own.moves |= held.any(|of| of.name == own.name && of.namespace != loaded.accounts);
        own
    }

    /// The Secrets that are there, the controller's and Linkerd's, with their kubeconfigs.
    fn held(&self) -> Vec<(&KubernetesSecret, KubeconfigTarget)> {
        let name = self.link.ends.target.credentials_secret();
        let namespaces = [&self.loaded.namespace, &self.loaded.linkerd];
        let secrets = namespaces.map(|namespace| self.source.credentials(namespace, &name));
        let found = secrets.into_iter().flatten();
        found
            .filter_map(|secret| Some((secret, KubeconfigTarget::of_secret(secret)?)))
            .collect()
    }

    /// Why the Link that is there cannot be used: it may be one to another cluster.
    fn leads_elsewhere(
        &self,
        side: &TargetSide,
        held: &[(&KubernetesSecret, KubeconfigTarget)],
        accounts: &AccountFacts,
    ) -> Option<String> {
        let target = &self.link.ends.target;
        if self.loaded.consent.replaced.contains(target) {
            return None;
        }
        let actual = self.target.uid.as_deref();
        let mut links = self.source.links.iter();
        let link = links.find(|link| link.name_any() == target.to_string());
        let of_link = link.and_then(cluster_uid);
        let evidence = held.iter().map(|(secret, held)| {
            let recorded = cluster_uid(*secret).or(of_link);
            let account = held.account.as_ref();
            let known = account.and_then(|of| accounts.account_in(&self.loaded.accounts, of));
            held.leads_to((recorded, actual), &side.facts.context.cluster, known)
        });
        let evidence: Vec<_> = evidence.chain(by_uid(of_link, actual)).collect();
        let why = objection(&evidence)?;
        Some(format!(
            "the Link {target} {why}; if {target} was built again, pass --replace {target}"
        ))
    }
}

fn obstacle(cluster: &ClusterName, why: String) -> LinkObstacle {
    LinkObstacle {
        cluster: cluster.clone(),
        why,
    }
}
