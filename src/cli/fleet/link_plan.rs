//! What one link of a fleet needs in both clusters. Pure.

use jiff::Timestamp;

use super::{
    accounts::{account_writes, token},
    change::PlannedWrite,
    facts::{AccountFacts, ClusterFacts, TargetSide, kubeconfig},
    loaded::{LoadedFleet, LoadedLink},
    source_writes::SourceWrites,
};
use crate::{
    cli::{
        link::taken::objection,
        link_gen::{KubeconfigTarget, Remark},
    },
    manifests::{kubeconfig::Secret, link::ClusterName},
};

/// What has to be written for one link.
pub(super) struct LinkPlan {
    /// In the target cluster, and first.
    pub(super) account: Vec<PlannedWrite>,
    /// In the source cluster, in this order. Without a token of the account, the credentials are not those to write.
    pub(super) source: Vec<PlannedWrite>,
    /// The token of the account, if there is one.
    pub(super) token: Option<Secret>,
    /// What the user has to know.
    pub(super) remarks: Vec<Remark>,
}

/// Why a link cannot be made, and which cluster is to blame.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LinkObstacle {
    pub(super) cluster: ClusterName,
    pub(super) why: String,
}

/// A link, and what is known of its clusters.
pub(super) struct LinkCase<'c> {
    pub(super) loaded: &'c LoadedFleet,
    pub(super) link: &'c LoadedLink,
    pub(super) source: &'c ClusterFacts,
    pub(super) target: &'c ClusterFacts,
    pub(super) now: Timestamp,
}

impl LinkCase<'_> {
    /// Plans the link, with the accounts that the target cluster has.
    pub(super) fn plan(&self, accounts: &AccountFacts) -> Result<LinkPlan, LinkObstacle> {
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
        let (fleet, namespace) = (&self.loaded.fleet.name, &self.loaded.namespace);
        let name = source.to_string();
        let token = token(accounts, &name, held.first(), self.now);
        let account = account_writes(fleet, namespace, &name, accounts, token.is_some());
        let account = account.map_err(in_target)?;
        let mut remarks = Vec::new();
        let made = self
            .link
            .objects(self.loaded, side, token.as_ref(), &mut remarks);
        let objects = made.map_err(|error| in_target(format!("{error:#}")))?;
        let secrets = objects.secrets();
        let secrets = secrets.filter_map(|secret| writes.of_secret(secret, token.is_some()));
        let source = secrets.chain(writes.of_link(&objects.link)).collect();
        Ok(LinkPlan {
            account,
            source,
            token,
            remarks,
        })
    }

    /// The kubeconfigs of the Secrets that are there: the controller's, and Linkerd's.
    fn held(&self) -> Vec<KubeconfigTarget> {
        let name = self.link.ends.target.credentials_secret();
        let namespaces = [&self.loaded.namespace, &self.loaded.linkerd];
        let secrets = namespaces.map(|namespace| self.source.credentials(namespace, &name));
        secrets
            .into_iter()
            .flatten()
            .filter_map(kubeconfig)
            .collect()
    }

    /// Why the Link that is there cannot be used: it may be one to another cluster.
    fn leads_elsewhere(
        &self,
        side: &TargetSide,
        held: &[KubeconfigTarget],
        accounts: &AccountFacts,
    ) -> Option<String> {
        let target = &self.link.ends.target;
        let evidence = held.iter().map(|held| {
            let account = held.account.as_ref();
            let account = account.filter(|account| account.namespace == self.loaded.namespace);
            let known = account.and_then(|account| accounts.account(&account.name));
            held.evidence(&side.facts.context.cluster, known)
        });
        let evidence: Vec<_> = evidence.collect();
        let why = objection(&evidence)?;
        Some(format!("the Link {target} {why}; unlink it first"))
    }
}

fn obstacle(cluster: &ClusterName, why: String) -> LinkObstacle {
    LinkObstacle {
        cluster: cluster.clone(),
        why,
    }
}
