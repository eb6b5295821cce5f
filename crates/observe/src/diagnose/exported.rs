//! Whether a target cluster exports a Service, as its context shows it, or else as the status of the Link suggests.

use std::collections::BTreeMap;

use mirror_core::{
    api::{
        consent::ExportConsent, k8s::Service, labels as l, link::LinkObject, metadata::ResourceId,
        preference::linked_clusters, text::in_brief,
    },
    mirror::{FEDERATED_SUFFIX, Target, member, mode},
};

use super::{context::PathContext, subject};
use crate::{
    clusters::{
        misspelled::{Misspelled, ServiceLabels, misspelled},
        request_path::TargetFacts,
        snapshot::LinkSnapshot,
    },
    finding::{Finding, causes::Cause},
};

/// Why a Service is no candidate for mirroring, or for membership.
pub fn not_exported(
    way: &PathContext<'_>,
    link: &LinkSnapshot,
    remote: &str,
    federated: bool,
) -> Option<Finding> {
    let cluster = link.cluster();
    let namespace = &way.facts.service.namespace;
    let (label, value) = selecting_label(link, federated);
    let fixed = |finding: Finding| {
        finding.fixed_in(way.commands, cluster, |flags| {
            flags.kubectl(
                "-n {} label service {} {}={} --overwrite",
                &[namespace, remote, &label, &value],
            )
        })
    };
    let Some(target) = way.facts.target_of(cluster) else {
        let evidence = format!(
            "the status of Link {} lists no Service {namespace}/{remote}; with --target, it is looked up",
            link.id()
        );
        return Some(fixed(Finding::broken(Cause::NotExported, evidence)));
    };
    match &target.service {
        Err(_) => {
            let evidence = format!(
                "the status of Link {} lists no Service {namespace}/{remote}",
                link.id()
            );
            Some(fixed(Finding::broken(Cause::NotExported, evidence)))
        }
        Ok(None) => Some(missing(way, cluster, remote)),
        Ok(Some(service)) if !is_selected(way, link, service, federated) => {
            let labels = service.metadata.labels.iter();
            let labels = labels.filter(|(key, _)| l::is_of_service_mirrors(key));
            let labels: Vec<String> = labels
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            let has = match labels.as_slice() {
                [] => "has no label of the multicluster extension".to_owned(),
                labels => format!("has {}", labels.join(", ")),
            };
            let evidence = format!(
                "Service {namespace}/{remote} is in {cluster}, and no selector of Link {} selects it: it {has}",
                link.id()
            );
            let meant = meant(way, link, service, &evidence);
            Some(meant.unwrap_or_else(|| fixed(Finding::broken(Cause::NotExported, evidence))))
        }
        Ok(Some(service)) => to_others(way, cluster, service),
    }
}

/// The finding if the target cluster exports a Service to other clusters only.
fn to_others(way: &PathContext<'_>, cluster: &str, service: &Service) -> Option<Finding> {
    let ResourceId { namespace, name } = service.metadata.resource_id();
    let own = &way.facts.source.config.as_ref().ok()?.identity_trust_domain;
    let annotation = service.metadata.annotations.get(l::EXPORT_TO)?;
    let (why, value) = match ExportConsent::of(|key| service.metadata.annotations.get(key)) {
        Ok(consent) if consent.includes(own) => return None,
        Ok(_) => (
            format!("does not export {namespace}/{name} to {own}"),
            format!("{annotation},{own}"),
        ),
        Err(why) => (
            format!("exports {namespace}/{name} to no cluster: {why}"),
            own.clone(),
        ),
    };
    let evidence = format!(
        "{cluster} {why} (annotation {}: {})",
        l::EXPORT_TO,
        in_brief(annotation)
    );
    let found = Finding::broken(Cause::ExportedToOthers, evidence);
    let set = format!("{}={value}", l::EXPORT_TO);
    Some(found.fixed_in(way.commands, cluster, |flags| {
        flags.kubectl(
            "-n {} annotate service {} {} --overwrite",
            &[&namespace, &name, &set],
        )
    }))
}

/// The finding if a label of the Service or the selector of the Link is misspelled: only that is changed then.
fn meant(
    way: &PathContext<'_>,
    link: &LinkSnapshot,
    service: &Service,
    evidence: &str,
) -> Option<Finding> {
    let cluster = link.cluster();
    let labels = service.metadata.labels.iter();
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let id = service.metadata.resource_id();
    let alone = ServiceLabels {
        services: BTreeMap::from([(id, labels.collect())]),
        are_all: true,
    };
    let broken = |evidence| Finding::broken(Cause::NotExported, evidence);
    Some(match misspelled(&link.link, &alone).into_iter().next()? {
        found @ Misspelled::Label { .. } => {
            let evidence = found.to_string();
            let Misspelled::Label {
                service,
                found,
                meant,
            } = found
            else {
                return None;
            };
            let ResourceId { namespace, name } = &service;
            let set = format!("{}={}", meant.0, meant.1);
            broken(evidence).fixed_in(way.commands, cluster, |flags| {
                let label: [&str; 4] = [namespace, name, &set, &found.0];
                if found.0 == meant.0 {
                    flags.kubectl("-n {} label service {} {} --overwrite", &label)
                } else {
                    flags.kubectl("-n {} label service {} {} {}- --overwrite", &label)
                }
            })
        }
        Misspelled::Selector {
            field,
            found,
            meant,
            ..
        } => {
            let evidence = format!(
                "{evidence}, and the {field} of the Link is {}={}",
                found.0, found.1
            );
            let selector = format!("{}={}", meant.0, meant.1);
            let link = way
                .commands
                .link_with_selector(cluster, link.namespace(), field, &selector);
            broken(evidence).fixed_by(&link)
        }
    })
}

/// The command that exports a Service through the gateway.
pub fn labelled(
    way: &PathContext<'_>,
    link: Option<&LinkSnapshot>,
    target: &TargetFacts,
    found: Finding,
) -> Finding {
    let usual = || (l::EXPORTED.to_owned(), "true".to_owned());
    let (label, value) = link.map_or_else(usual, |link| selecting_label(link, false));
    let ResourceId { namespace, name } = &target.remote;
    found.fixed_in(way.commands, &target.cluster, |flags| {
        flags.kubectl(
            "-n {} label service {} {}={} --overwrite",
            &[namespace, name, &label, &value],
        )
    })
}

/// A label with which the Link selects a Service.
fn selecting_label(link: &LinkSnapshot, federated: bool) -> (String, String) {
    let spec = &link.link.spec;
    let (selector, usual) = if federated {
        (&spec.federated_service_selector, (l::FEDERATED, "member"))
    } else {
        (&spec.selector, (l::EXPORTED, "true"))
    };
    let labels = selector.iter().filter(|s| s.match_expressions.is_none());
    let mut labels = labels.flat_map(|selector| selector.match_labels.iter().flatten());
    match (labels.next(), labels.next()) {
        (Some((key, value)), None) => (key.clone(), value.clone()),
        _ => (usual.0.to_owned(), usual.1.to_owned()),
    }
}

/// The target cluster has no such Service.
pub fn missing(way: &PathContext<'_>, cluster: &str, remote: &str) -> Finding {
    let namespace = &way.facts.service.namespace;
    let meant = subject::similar(way.facts);
    let meant = meant.map(|name| format!("; did you mean {namespace}/{name}?"));
    let evidence = format!(
        "{cluster} has no Service {namespace}/{remote}{}",
        meant.unwrap_or_default()
    );
    Finding::broken(Cause::MissingInTarget, evidence).fixed_in(way.commands, cluster, |flags| {
        flags.kubectl("-n {} get services", &[namespace])
    })
}

/// Whether a Link selects a Service of its target cluster; unknown means yes.
fn is_selected(
    way: &PathContext<'_>,
    link: &LinkSnapshot,
    service: &Service,
    federated: bool,
) -> bool {
    let object = LinkObject {
        link: link.link.clone(),
        unreadable: link.unreadable.clone(),
    };
    let Ok(target) = Target::parse_object(&object, false) else {
        return true;
    };
    if federated {
        return member(&target, service);
    }
    mode(&target, service).is_some()
        || member(&target, service) && is_preferred(way, link, service.metadata.name())
}

/// Whether the federated Service of a member prefers a cluster, which is mirrored then; unknown means yes.
fn is_preferred(way: &PathContext<'_>, link: &LinkSnapshot, member: &str) -> bool {
    way.facts.source.neighbours.as_ref().map_or(true, |others| {
        let federated = others.get(&format!("{member}{FEDERATED_SUFFIX}"));
        let federated = federated.filter(|federated| federated.is_mirror);
        let prefers = federated.map_or("", |federated| &federated.prefers);
        linked_clusters(prefers).any(|preferred| preferred == link.cluster())
    })
}
