//! What is deleted in a cluster of a fleet. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Secret;
use kube::core::ObjectMeta;
use manifests::link::ClusterName;

use crate::{
    fleet::facts::AccountFacts,
    inventory::{ApiKind, ListedObject},
    link_credentials::KubeconfigTarget,
    steps::{Action, LinkStep, StepChange, StepPart},
};

/// What has to go in one cluster.
#[derive(Debug, Default)]
pub struct ClusterRemoval {
    pub steps: Vec<LinkStep>,
    /// What stays for now, and why.
    pub problems: Vec<String>,
    /// Target clusters that are not used, with accounts that nobody needs after this.
    pub targets: BTreeSet<ClusterName>,
    /// Source clusters that are not used, whose accounts are not in the file.
    pub sources: BTreeSet<ClusterName>,
    /// What is not done, because clusters that it needs are not used.
    pub not_done: Vec<String>,
}

/// Whether credentials have a token of one of the accounts with these UIDs.
pub fn uses(secret: &Secret, uids: &[String]) -> bool {
    let account = KubeconfigTarget::of_secret(secret).and_then(|of| of.account);
    let uid = account.and_then(|account| account.uid);
    uid.is_some_and(|uid| uids.contains(&uid))
}

/// The deletions of the objects of an account that the fleet has made for a source cluster, in all namespaces.
pub fn of_account(
    fleet: &str,
    name: &str,
    source: &str,
    facts: &AccountFacts,
) -> impl Iterator<Item = LinkStep> {
    let own = facts.objects();
    let own = own.filter(move |object| object.account == name && object.is_of(fleet));
    own.map(|object| {
        let part = StepPart::Account(source.to_owned());
        gone(object.kind, object.metadata, part)
    })
}

/// The deletion of an object that is not in the file.
pub fn gone(kind: ApiKind, metadata: &ObjectMeta, part: StepPart) -> LinkStep {
    let listed = ListedObject::new(kind, metadata);
    // The controller writes the status of a Link all the time.
    let object = match part {
        StepPart::Link(_) => listed.in_any_version(),
        _ => listed,
    };
    LinkStep {
        change: StepChange::of("delete", &object.object, "not in the file".to_owned()),
        action: Action::Delete(object),
        part,
    }
}
