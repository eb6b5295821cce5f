//! Checks of the extension, its CRD, and the Links themselves.

use std::collections::{BTreeMap, BTreeSet};

use mirror_core::{
    api::{labels, link::LinkObject},
    mirror::{Host, Target},
};

use super::rule::{INSTALL_AGAIN, Verdict};
use crate::{
    clusters::{
        snapshot::{FullSnapshot, LinkSnapshot, ReadErrorKind, annotation},
        topology,
    },
    finding::Finding,
};

/// Prefix of `linkerd.io/created-by` on objects of linkerd-mc.
const OUR_CLI: &str = "linkerd-mc/cli";
/// Prefix of `linkerd.io/created-by` on objects of `linkerd multicluster`.
const LINKERD_CLI: &str = "linkerd/cli";

pub fn extension_installed(snapshot: &FullSnapshot) -> Verdict {
    match &snapshot.extension_namespaces {
        Err(why) => Verdict::stop(format!("cannot list Namespaces: {why}")),
        Ok(namespaces) if namespaces.is_empty() => {
            let (key, value) = (labels::EXTENSION, labels::EXTENSION_NAME);
            Verdict::stop(not_installed(
                snapshot,
                &format!("no Namespace has the label {key}={value}"),
            ))
        }
        Ok(_) => Verdict::Pass,
    }
}

/// The problem of a cluster without the extension.
fn not_installed(snapshot: &FullSnapshot, what: &str) -> Finding {
    let install = snapshot.cluster.flags.install();
    Finding::from(format!("{what}; install the extension")).fixed_by(&install)
}

pub fn crd_exists(snapshot: &FullSnapshot) -> Verdict {
    match &snapshot.serves_links {
        Err(why) => return Verdict::stop(format!("cannot list the API resources: {why}")),
        Ok(false) => {
            let what = "multicluster.linkerd.io/v1alpha3 Link not found";
            return match &snapshot.cluster.links {
                Err(why) if why.kind == ReadErrorKind::OldLinks => Verdict::stop(format!(
                    "{what}: {why}; upgrade Linkerd's extension, or move to linkerd-mc"
                )),
                _ => Verdict::stop(not_installed(snapshot, what)),
            };
        }
        Ok(true) => {}
    }
    match &snapshot.may_list_links {
        Err(why) => Verdict::stop(format!("cannot check the permission to list Links: {why}")),
        Ok(false) => Verdict::stop("not permitted to list Links in all namespaces"),
        Ok(true) => Verdict::Pass,
    }
}

pub fn crd_up_to_date(snapshot: &FullSnapshot) -> Verdict {
    let crd = match &snapshot.crd {
        Err(why) => return Verdict::warn(format!("cannot read the CRD: {why}")),
        Ok(crd) => crd,
    };
    let missing = crd.missing();
    if missing.is_empty() {
        return Verdict::Pass;
    }
    Verdict::fail(format!(
        "the CRD lacks {}, so the state of Links cannot be shown: {INSTALL_AGAIN}",
        missing.join(", ")
    ))
}

pub fn valid(snapshot: &FullSnapshot) -> Verdict {
    let links = match &snapshot.cluster.links {
        Err(why) => return Verdict::stop(format!("cannot list Links: {why}")),
        Ok(links) if links.is_empty() => return Verdict::Skip,
        Ok(links) => links,
    };
    let mut problems: Vec<_> = links
        .iter()
        .flat_map(|link| invalid(snapshot, link))
        .collect();
    let mut by_cluster: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for link in links.iter().filter(|link| !link.cluster().is_empty()) {
        by_cluster.entry(link.cluster()).or_default().push(link);
    }
    for (cluster, links) in &by_cluster {
        if let [_, _, ..] = links.as_slice() {
            let names: Vec<_> = links.iter().map(|link| link.id().to_string()).collect();
            problems.push(Finding::from(format!(
                "Links {} have the same target cluster {cluster}; delete all but one of them",
                names.join(", ")
            )));
        }
    }
    if problems.is_empty() {
        Verdict::PassWith(by_cluster.into_keys().map(str::to_owned).collect())
    } else {
        Verdict::Fail(problems)
    }
}

fn invalid(snapshot: &FullSnapshot, link: &LinkSnapshot) -> Vec<Finding> {
    let mut problems = Vec::new();
    // Parsed as by the controller. The default for headless Services cannot make a Link invalid.
    let object = LinkObject {
        link: link.link.clone(),
        unreadable: link.unreadable.clone(),
    };
    if let Err(error) = Target::parse_object(&object, false) {
        problems.push(error.to_string());
    }
    let (port, probes) = (
        &link.link.spec.gateway_port,
        &link.link.spec.probe_spec.port,
    );
    if !link.link.spec.gateway_address.is_empty() && !port.is_empty() && port == probes {
        problems.push(format!(
            "port {port} of the gateway is the one for probes too"
        ));
    }
    for host in Host::parse_list(&link.link.spec.gateway_address) {
        if let Host::Name(name) = host
            && let Some(why) = Host::objection(&name)
        {
            problems.push(format!("invalid spec.gatewayAddress {name:?}: {why}"));
        }
    }
    if link.unreadable.is_none() && link.link.spec.cluster_credentials_secret.is_empty() {
        problems.push("spec.clusterCredentialsSecret is empty".to_owned());
    }
    problems
        .into_iter()
        .map(|problem| {
            let edit = snapshot.cluster.flags.kubectl(
                "-n {} edit links.multicluster.linkerd.io {}",
                &[link.namespace(), link.name()],
            );
            let what = format!("Link {}: {problem}; correct it", link.id());
            Finding::from(what).fixed_by(&edit)
        })
        .collect()
}

pub fn names(snapshot: &FullSnapshot) -> Verdict {
    if snapshot.links().is_empty() {
        return Verdict::Skip;
    }
    let clusters: BTreeSet<_> = snapshot.links().iter().map(LinkSnapshot::cluster).collect();
    let clusters: Vec<_> = clusters.into_iter().collect();
    let pairs = clusters.iter().enumerate();
    let pairs =
        pairs.flat_map(|(at, one)| clusters[at + 1..].iter().map(move |other| (one, other)));
    let alike = pairs.filter_map(|(one, other)| topology::equal_mirror_names(one, other));
    let reserved = clusters
        .iter()
        .filter_map(|cluster| topology::reserved_name(cluster));
    Verdict::of(reserved.chain(alike).collect())
}

pub fn clock(snapshot: &FullSnapshot) -> Verdict {
    match client::clock_differs(snapshot.ahead, "the API server") {
        Some(why) => Verdict::Warn(vec![why.into()]),
        None => Verdict::Pass,
    }
}

pub fn versions(snapshot: &FullSnapshot) -> Verdict {
    if snapshot.links().is_empty() {
        return Verdict::Skip;
    }
    let problems = snapshot.links().iter().filter_map(|link| {
        let created_by = annotation(&link.link.metadata, labels::CREATED_BY);
        match created_by.split_once(' ') {
            Some((OUR_CLI, version)) if version == snapshot.version => None,
            Some((OUR_CLI, version)) => Some(format!(
                "Link {} was created by version {version}, but this CLI is {}",
                link.id(),
                snapshot.version
            )),
            // Versions of `linkerd` do not match ours.
            Some((LINKERD_CLI, _)) => None,
            _ => Some(format!("Link {}: unable to determine version", link.id())),
        }
    });
    Verdict::of(problems.collect())
}
