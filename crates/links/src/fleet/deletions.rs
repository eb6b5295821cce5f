//! What is deleted in a cluster of a fleet. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use manifests::link::ClusterName;

use crate::{
    fleet::facts::{AccountFacts, account_of, is_of},
    inventory::{
        ApiKind, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ListedObject, SECRET, SERVICE_ACCOUNT,
    },
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

/// The objects of an account that the fleet has made, in all namespaces.
pub fn of_account<'f>(
    fleet: &'f str,
    name: &'f str,
    facts: &'f AccountFacts,
) -> impl Iterator<Item = LinkStep> + 'f {
    fn own<'o, K: kube::Resource + 'o>(
        kind: ApiKind,
        fleet: &'o str,
        name: &'o str,
        all: impl Iterator<Item = &'o K> + 'o,
    ) -> impl Iterator<Item = LinkStep> + 'o {
        let own = all.filter(move |object| is_of(*object, fleet));
        let own = own.filter(move |object| object.name_any() == name);
        own.map(move |object| gone(kind, object, StepPart::Account(name.to_owned())))
    }
    let former = &facts.former;
    let tokens = facts.tokens.iter().chain(&former.tokens);
    let tokens =
        tokens.filter(move |token| is_of(*token, fleet) && account_of(token) == Some(name));
    let tokens = tokens.map(|token| gone(SECRET, token, StepPart::Account(name.to_owned())));
    let accounts = facts.accounts.iter().chain(&former.accounts);
    own(CLUSTER_ROLE_BINDING, fleet, name, facts.bindings.iter())
        .chain(own(SERVICE_ACCOUNT, fleet, name, accounts))
        .chain(tokens)
        .chain(own(CLUSTER_ROLE, fleet, name, facts.roles.iter()))
}

/// The deletion of an object that is not in the file.
pub fn gone(kind: ApiKind, object: &impl kube::Resource, part: StepPart) -> LinkStep {
    let listed = ListedObject::new(kind, object.meta());
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
