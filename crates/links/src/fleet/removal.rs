//! What a fleet has made, and the file does not name any more. Pure.

use std::collections::BTreeMap;

use hints::suggest::ClusterFlags;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use manifests::link::ClusterName;

use crate::{
    fleet::{
        deletions::{ClusterRemoval, gone, of_account, uses},
        facts::{ClusterFacts, is_of},
        former::FormerCase,
        hand_over::{flags, revoke},
        loaded::LoadedFleet,
        part::UsedClusters,
    },
    inventory::{LINK, SECRET},
    steps::{LinkStep, StepPart},
};

/// What is known of the clusters; an error says why nothing is.
pub type KnownClusters<'k> = BTreeMap<&'k ClusterName, Result<&'k ClusterFacts, &'k str>>;

/// Finds what has to go in one cluster: Links and their Secrets, and accounts.
pub fn removal(
    loaded: &LoadedFleet,
    name: &ClusterName,
    known: &KnownClusters<'_>,
    used: &UsedClusters,
    renamed: &BTreeMap<ClusterName, ClusterName>,
) -> ClusterRemoval {
    let Some(Ok(facts)) = known.get(name) else {
        return ClusterRemoval::default();
    };
    let mut removal = ClusterRemoval::default();
    let fleet = &loaded.fleet.name;
    let links = facts.links.iter().filter(|link| is_of(*link, fleet));
    let links = links.filter(|link| !loaded.wants(name, &link.spec.target_cluster_name));
    for link in links {
        if let Some(why) = facts.unreadable.get(&link.name_any()) {
            removal.problems.push(format!(
                "the Link {} is not in the file, and stays because it cannot be decoded: {why}",
                link.name_any()
            ));
            continue;
        }
        let target = &link.spec.target_cluster_name;
        let parsed = target.parse::<ClusterName>();
        let new = parsed.as_ref().ok().and_then(|target| renamed.get(target));
        let part = StepPart::Link(target.clone());
        removal
            .steps
            .push(replaced(gone(LINK, &link.metadata, part), new));
        match parsed {
            Ok(target) if known.contains_key(&target) || new.is_some() => {}
            Ok(target) if !used.contains(&target) => {
                removal.targets.insert(target);
            }
            _ => removal.problems.push(format!(
                "the account {name} in {target} stays: {target} is not in the file; pass --also {target} to delete it there, \
                 or delete what {} prints for it",
                revoke(loaded, &ClusterFlags::default(), &name.to_string())
            )),
        }
    }
    let unused = facts.credentials.iter();
    let unused = unused.filter(|secret| is_unused(loaded, name, facts, secret));
    let unused = unused.filter_map(|secret| {
        let part = StepPart::Credentials(target_of(secret)?);
        Some(gone(SECRET, &secret.metadata, part))
    });
    removal.steps.extend(unused);
    for source in facts.accounts.names_of(fleet) {
        let is_wanted = |source: &ClusterName| loaded.wants(source, &name.to_string());
        let parsed = source.parse::<ClusterName>().ok();
        let parsed = parsed.map(|source| renamed.get(&source).cloned().unwrap_or(source));
        if let Some(wanted) = parsed.as_ref().filter(|source| is_wanted(source)) {
            let former = FormerCase {
                loaded,
                target: name,
                accounts: &facts.accounts,
                name: &source,
                source: wanted,
            };
            former.removal(known.get(wanted).copied(), used, &mut removal);
            continue;
        }
        if let Some(source) = parsed.clone().filter(|source| !used.contains(source)) {
            removal.sources.insert(source);
            continue;
        }
        let own = facts.accounts.account(&source).into_iter();
        let own = own.chain(facts.accounts.former.named(&source));
        let uids: Vec<String> = own.filter_map(ResourceExt::uid).collect();
        let known = parsed
            .as_ref()
            .and_then(|source| known.get_key_value(source));
        match users(loaded, name, &source, &uids, known) {
            Ok(()) => {
                let of = parsed.map_or_else(|| source.clone(), |source| source.to_string());
                let objects = of_account(fleet, &source, &of, &facts.accounts);
                removal.steps.extend(objects);
            }
            Err(why) => removal.problems.push(why),
        }
    }
    removal
}

/// Whether a Secret of a cluster is the fleet's, and no Link needs it.
fn is_unused(
    loaded: &LoadedFleet,
    name: &ClusterName,
    facts: &ClusterFacts,
    secret: &Secret,
) -> bool {
    let own = secret.name_any();
    let target = target_of(secret);
    let target = target.as_deref();
    let is_wanted = target.is_some_and(|target| loaded.wants(name, target));
    // Links of other namespaces need Linkerd's.
    let is_linkerds = secret.namespace().as_ref() == Some(&loaded.linkerd);
    let mut elsewhere = facts.elsewhere.iter();
    let is_shared = elsewhere.any(|link| target == Some(&link.spec.target_cluster_name));
    // A Link that cannot be decoded stays, and may need any of them.
    let mut links = facts.links.iter();
    let is_needed = is_wanted
        || is_linkerds && is_shared
        || !facts.unreadable.is_empty()
        || links.any(|link| {
            !is_of(link, &loaded.fleet.name) && link.spec.cluster_credentials_secret == own
        });
    is_of(secret, &loaded.fleet.name) && !is_needed
}

/// The target cluster that credentials are for.
fn target_of(secret: &Secret) -> Option<String> {
    ClusterName::in_secret(&secret.name_any()).map(str::to_owned)
}

/// Fails if a cluster may still use its account in another one, `there`. `known` are the cluster and what was read of it.
fn users(
    loaded: &LoadedFleet,
    there: &ClusterName,
    source: &str,
    uids: &[String],
    known: Option<(&&ClusterName, &Result<&ClusterFacts, &str>)>,
) -> Result<(), String> {
    let stays = |why: String| Err(format!("the ServiceAccount {source} stays: {why}"));
    let (name, facts) = match known {
        Some((name, Ok(facts))) => (name, facts),
        Some((_, Err(_))) => return stays(format!("{source} was not read, and may use it")),
        None => {
            return stays(format!(
                "{source} is not in the file, and may use the account; pass --also {source}, or if it does not exist any more, \
                 delete what {} prints for this cluster",
                revoke(loaded, &flags(loaded, there), source)
            ));
        }
    };
    // Also one of the fleet, if a Link that the fleet does not have any more keeps it.
    let staying = facts.credentials.iter();
    let mut staying = staying.filter(|secret| !is_unused(loaded, name, facts, secret));
    match staying.find(|secret| uses(secret, uids)) {
        Some(secret) => stays(format!(
            "the Secret {} in {source}, which {}, uses it",
            secret.name_any(),
            if is_of(secret, &loaded.fleet.name) {
                "a Link needs"
            } else {
                "is not the fleet's"
            }
        )),
        None => Ok(()),
    }
}

/// The deletion of a Link to a cluster that may have a new name.
fn replaced(mut step: LinkStep, new: Option<&ClusterName>) -> LinkStep {
    if let Some(new) = new {
        step.change.why = format!("its cluster is called {new} in the file");
        step.change.replaced_by = Some(new.to_string());
    }
    step
}
