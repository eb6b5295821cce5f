//! Checks of the credentials of Links, and of their target clusters.

use std::collections::{BTreeMap, BTreeSet};

use hints::suggest::ClusterFlags;
use mirror_core::{
    api::{labels, members::remote_members, metadata::ResourceId},
    mirror::{DEFAULT_DOMAIN, is_through_gateway},
};

use super::rule::{INSTALL_AGAIN, Verdict};
use crate::{
    clusters::{
        credentials,
        linkerd_way::leads_elsewhere,
        misspelled::{Misspelled, misspelled},
        snapshot::{AccessRule, Destination, FullSnapshot, LinkSnapshot, ReadErrorKind},
        trust_anchors,
    },
    finding::{Finding, causes::Cause},
};

/// What to say of a check that needs credentials which were refused.
pub const NOT_CHECKED: &str = "not checked; see the check of its credentials";
/// Permissions that the credentials of a Link need: for our controller's watches, for the control plane's remote
/// discovery, for these checks, and those that every ServiceAccount has.
#[rustfmt::skip]
const NEEDED: &[Permission] = &[
    ("", &["services", "endpoints", "pods"], None, READ),
    ("discovery.k8s.io", &["endpointslices"], None, READ),
    ("apps", &["replicasets"], None, READ),
    ("batch", &["jobs"], None, READ),
    ("policy.linkerd.io", &["servers"], None, READ),
    ("", &["configmaps"], Some("linkerd-config"), &["get"]),
    ("", &["configmaps"], Some(labels::LINKERD_TRUST_ROOTS), &["get"]),
    ("", &["events"], None, &["create", "patch"]),
    ("events.k8s.io", &["events"], None, &["create", "patch"]),
    ("authorization.k8s.io", &["selfsubjectaccessreviews", "selfsubjectrulesreviews"], None, &["create"]),
    ("authentication.k8s.io", &["selfsubjectreviews"], None, &["create"]),
    // Since Kubernetes 1.37.
    ("certificates.k8s.io", &["clustertrustbundles"], None, READ),
];

/// Resources of [`NEEDED`] that nothing needs in gateway mode.
const ONLY_LINKERDS: [&str; 6] = [
    "endpoints",
    "pods",
    "replicasets",
    "jobs",
    "servers",
    "events",
];

/// API group, resources, the name if limited to one, verbs.
type Permission = (
    &'static str,
    &'static [&'static str],
    Option<&'static str>,
    &'static [&'static str],
);
const READ: &[&str] = &["get", "list", "watch"];

pub fn access(snapshot: &FullSnapshot) -> Verdict {
    per_link(snapshot, |link| {
        if let Some(Err(why)) = &link.credentials {
            let missing = || Finding::broken(Cause::CredentialsUnusable, why.text());
            return Some(vec![match why.kind {
                ReadErrorKind::NotFound => missing().fixed_by(&snapshot.cluster.flags.link()),
                _ => why.text().into(),
            }]);
        }
        if is_through_gateway(&link.link) {
            // Only the controller connects to it.
            let connected = link.condition("Connected");
            let problem = connected.filter(|(status, _)| *status != "True");
            return Some(problem.map(|(_, why)| why.into()).into_iter().collect());
        }
        Some(match link.target.as_ref()? {
            Err(why) if why.kind == ReadErrorKind::Unauthorized => {
                let rotate = credentials::rotate(link, &snapshot.cluster.flags);
                let what = "the API server refuses the token, which was revoked or has expired";
                vec![Finding::broken(Cause::CredentialsRefused, what).fixed_by(&rotate)]
            }
            Err(why) => vec![why.text().into()],
            Ok(target) => match &target.denied {
                Err(why) => vec![format!("cannot check permissions: {why}").into()],
                Ok(denied) if denied.is_empty() => vec![],
                Ok(denied) => vec![format!("not permitted: {}", denied.join(", ")).into()],
            },
        })
    })
}

pub fn destination(snapshot: &FullSnapshot) -> Verdict {
    let known = match &snapshot.destination {
        Ok(known) => known,
        Err(why) => {
            return Verdict::warn(format!("cannot read Linkerd's credentials: {why}"));
        }
    };
    let verdict = per_link(snapshot, |link| {
        let missing = credentials::missing(link, known, &snapshot.cluster.flags);
        let ignored = credentials::ignored(link, known, &snapshot.cluster.flags);
        let dangerous = credentials::dangerous(link, known, &snapshot.cluster.flags);
        let differs = credentials::differs(link, snapshot.links(), known, &snapshot.cluster.flags);
        let all = [missing, ignored, dangerous, differs];
        Some(all.into_iter().flatten().collect())
    });
    let mut unlinked = unlinked(snapshot, known);
    if unlinked.is_empty() {
        return verdict;
    }
    if let Verdict::Fail(problems) | Verdict::Warn(problems) = verdict {
        unlinked.extend(problems);
    }
    Verdict::Fail(unlinked)
}

/// Clusters that Linkerd has no Secret for, although Services name them. Clusters whose Link needs the Secret are left
/// out: [`credentials::missing`] finds them.
fn unlinked(snapshot: &FullSnapshot, known: &Destination) -> Vec<Finding> {
    let mut naming = BTreeMap::<&str, Vec<ResourceId>>::new();
    for mirror in snapshot.mirrors.iter().flatten() {
        let metadata = &mirror.metadata;
        let listed = |key: &str| {
            let list = metadata.annotations.get(key);
            list.filter(|_| key == labels::REMOTE_DISCOVERY)
        };
        let mirrored = metadata.label(labels::REMOTE_DISCOVERY);
        let mirrored = Some(mirrored).filter(|cluster| !cluster.is_empty());
        let clusters: BTreeSet<_> = remote_members(listed)
            .map(|(_, cluster)| cluster)
            .chain(mirrored)
            .collect();
        for cluster in clusters {
            let services = naming.entry(cluster).or_default();
            services.push(metadata.resource_id());
        }
    }
    let is_told = |cluster: &str| {
        let mut links = snapshot.links().iter();
        links.any(|link| link.cluster() == cluster && credentials::needs_linkerd(link))
    };
    naming.retain(|cluster, _| !known.credentials.contains_key(*cluster) && !is_told(cluster));
    let namespace = &known.namespace;
    let problem = |(cluster, services): (&str, Vec<ResourceId>)| {
        let first = services.first()?;
        let more = match services.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let restart = snapshot.cluster.flags.restart_destination(namespace);
        let what = format!(
            "namespace {namespace} has no Secret for this cluster, but Service {first}{more} names it, so Linkerd cannot \
             follow its endpoints; link the cluster again, or remove what names it; then restart linkerd-destination"
        );
        Some(Finding::from(what).of(cluster).fixed_by(&restart))
    };
    naming.into_iter().filter_map(problem).collect()
}

pub fn destination_way(snapshot: &FullSnapshot) -> Verdict {
    let Ok(known) = &snapshot.destination else {
        return Verdict::Skip;
    };
    per_link(snapshot, |link| {
        let flags = &snapshot.cluster.flags;
        let elsewhere = leads_elsewhere(link, snapshot.links(), known, flags);
        Some(elsewhere.into_iter().collect())
    })
}

pub fn destination_is_current(snapshot: &FullSnapshot) -> Verdict {
    let Ok(known) = &snapshot.destination else {
        return Verdict::Skip;
    };
    per_link(snapshot, |link| {
        let expiring =
            credentials::expiring_at_linkerd(link, known, snapshot.now, &snapshot.cluster.flags);
        let unused = credentials::unused(link, known, &snapshot.cluster.flags);
        Some(expiring.into_iter().chain(unused).collect())
    })
}

pub fn expiry(snapshot: &FullSnapshot) -> Verdict {
    per_link(snapshot, |link| {
        let expiring = credentials::expiring(
            link,
            credentials::own(link)?,
            snapshot.now,
            &snapshot.cluster.flags,
        );
        Some(expiring.into_iter().collect())
    })
}

/// Tokens that never expire are in a Secret of the target cluster too.
pub fn endless(snapshot: &FullSnapshot) -> Verdict {
    per_link(snapshot, |link| {
        let Some(namespace) = &credentials::own(link)?.endless_in else {
            return Some(vec![]);
        };
        let listed = if namespace == labels::MULTICLUSTER_NAMESPACE {
            "; the controller there may read it, because its Secret is in this controller's namespace"
        } else {
            ""
        };
        let what = format!("the token of an account in {namespace} never expires{listed}");
        let rotate = credentials::rotate(link, &snapshot.cluster.flags);
        Some(vec![Finding::from(what).fixed_by(&rotate)])
    })
}

pub fn tls(snapshot: &FullSnapshot) -> Verdict {
    per_link(snapshot, |link| {
        let known = credentials::own(link).is_some();
        let insecure = credentials::insecure(link);
        (known || insecure.is_some()).then(|| insecure.into_iter().map(Finding::from).collect())
    })
}

pub fn excess(snapshot: &FullSnapshot) -> Verdict {
    per_direct_link(snapshot, |link| {
        let target = link.target.as_ref()?.as_ref().ok()?;
        let rules = target.rules.as_ref().ok()?;
        let excess = excess_of(rules, credentials::needs_linkerd(link)).map(Finding::from);
        Some(excess.into_iter().collect())
    })
}

/// Permissions beyond [`NEEDED`], or beyond those of them that gateway mode needs: resources with their verbs.
fn excess_of(rules: &[AccessRule], is_full: bool) -> Option<String> {
    let mut excess = BTreeMap::<String, Vec<&str>>::new();
    for rule in rules {
        for group in &rule.groups {
            for resource in &rule.resources {
                for verb in &rule.verbs {
                    if is_needed(group, resource, (&rule.names, is_full), verb) {
                        continue;
                    }
                    let verbs = excess.entry(full_name(group, resource)).or_default();
                    if !verbs.contains(&verb.as_str()) {
                        verbs.push(verb);
                    }
                }
            }
        }
    }
    if excess.is_empty() {
        return None;
    }
    let list: Vec<_> = excess
        .iter()
        .map(|(resource, verbs)| format!("{resource} ({})", verbs.join(" ")))
        .collect();
    let advice = if is_full {
        format!("in that cluster, {INSTALL_AGAIN}")
    } else {
        "this Link needs neither remote discovery nor Linkerd: give it an account of `allow --mode gateway`".to_owned()
    };
    Some(format!(
        "unneeded permissions: {}; {advice}",
        list.join(", ")
    ))
}

fn is_needed(group: &str, resource: &str, (names, is_full): (&[String], bool), verb: &str) -> bool {
    let is_needed = |named: Option<&str>| {
        NEEDED.iter().any(|(groups, resources, name, verbs)| {
            *groups == group
                && resources.contains(&resource)
                && verbs.contains(&verb)
                && (name.is_none() || *name == named)
                && (is_full || !ONLY_LINKERDS.contains(&resource))
        })
    };
    if names.is_empty() {
        is_needed(None)
    } else {
        names.iter().all(|name| is_needed(Some(name)))
    }
}

fn full_name(group: &str, resource: &str) -> String {
    match group {
        "" => resource.to_owned(),
        "*" if resource == "*" => "everything".to_owned(),
        group => format!("{resource}.{group}"),
    }
}

pub fn trust_anchors(snapshot: &FullSnapshot) -> Verdict {
    if snapshot.links().is_empty() {
        return Verdict::Skip;
    }
    let local = match &snapshot.cluster.config {
        Err(why) => return Verdict::fail(format!("cannot read linkerd-config: {why}")),
        Ok(config) => match trust_anchors::parse(&config.identity_trust_anchors_pem) {
            Err(why) => return Verdict::fail(format!("trust anchors of this cluster: {why}")),
            Ok(anchors) => anchors,
        },
    };
    per_direct_link(snapshot, |link| {
        let target = link.target.as_ref()?.as_ref().ok()?;
        let theirs = match &target.config {
            Err(why) => return Some(vec![format!("cannot read linkerd-config: {why}").into()]),
            Ok(config) => match trust_anchors::parse(&config.identity_trust_anchors_pem) {
                Err(why) => return Some(vec![format!("trust anchors: {why}").into()]),
                Ok(anchors) => anchors,
            },
        };
        let mut problems = Vec::new();
        for (missing, place) in [
            (theirs.difference(&local), "this cluster"),
            (local.difference(&theirs), "the target cluster"),
        ] {
            let missing: Vec<_> = missing.map(|der| trust_anchors::describe(der)).collect();
            if !missing.is_empty() {
                let missing = missing.join(", ");
                problems.push(format!("not trusted in {place}: {missing}").into());
            }
        }
        Some(problems)
    })
}

/// A gateway serves only names in the domain of its cluster, and its identity, like those of all workloads, is in the trust
/// domain of its cluster.
pub fn domains(snapshot: &FullSnapshot) -> Verdict {
    per_direct_link(snapshot, |link| {
        let target = link.target.as_ref()?.as_ref().ok()?;
        let config = target.config.as_ref().ok()?;
        let found = cluster_domain(link, &config.cluster_domain, &snapshot.cluster.flags);
        let others = trust_domain(snapshot, link, &config.identity_trust_domain);
        Some(found.into_iter().chain(others).collect())
    })
}

fn cluster_domain(link: &LinkSnapshot, theirs: &str, flags: &ClusterFlags) -> Option<Finding> {
    let spec = &link.link.spec;
    let named = match &*spec.target_cluster_domain {
        "" => DEFAULT_DOMAIN,
        named => named,
    };
    if spec.gateway_address.is_empty() || theirs.is_empty() || named == theirs {
        return None;
    }
    let edit = flags.kubectl(
        "-n {} edit links.multicluster.linkerd.io {}",
        &[link.namespace(), link.name()],
    );
    let what = format!(
        "the gateway serves names in {theirs}, and mirrors lead to names in {named}: set spec.targetClusterDomain to {theirs}"
    );
    Some(Finding::from(what).fixed_by(&edit))
}

/// What names another trust domain than that of the target cluster.
fn trust_domain(snapshot: &FullSnapshot, link: &LinkSnapshot, theirs: &str) -> Vec<Finding> {
    let gateway = &link.link.spec.gateway_identity;
    let of_gateway = (!gateway.is_empty() && !gateway.ends_with(&format!(".{theirs}")))
        .then(|| format!("the Link expects the gateway to be {gateway}"));
    let known = snapshot.destination.as_ref().ok();
    let known = known.and_then(|known| known.credentials.get(link.cluster()));
    let named = known.map(|known| &known.trust_domain);
    let named = named.filter(|named| !named.is_empty() && *named != theirs);
    let of_linkerd = named.map(|named| format!("Linkerd expects its workloads in {named}"));
    let wrong = of_gateway.into_iter().chain(of_linkerd);
    let wrong = wrong.filter(|_| !theirs.is_empty());
    let told = wrong.map(|wrong| {
        let what = format!(
            "its trust domain is {theirs}, and {wrong}, so proxies refuse its certificates; link it again"
        );
        Finding::from(what).fixed_by(&snapshot.cluster.flags.link())
    });
    told.collect()
}

/// Labels that look as if they should export a Service, and do not.
pub fn export_labels(snapshot: &FullSnapshot) -> Verdict {
    per_direct_link(snapshot, |link| {
        let target = link.target.as_ref()?.as_ref().ok()?;
        let labels = target.labels.as_ref().ok()?;
        let found = misspelled(&link.link, labels);
        let flags = &snapshot.cluster.flags;
        Some(found.iter().map(|found| told(found, link, flags)).collect())
    })
}

/// What is misspelled. A selector is corrected in this cluster, a label in the other one.
fn told(found: &Misspelled, link: &LinkSnapshot, flags: &ClusterFlags) -> Finding {
    let what = found.to_string();
    match found {
        Misspelled::Label { .. } => what.into(),
        Misspelled::Selector { .. } => {
            let link = [link.namespace(), link.name()];
            Finding::from(what)
                .fixed_by(&flags.kubectl("-n {} edit links.multicluster.linkerd.io {}", &link))
        }
    }
}

/// Evaluates every Link. `None` if nothing is known about it: a warning, because the first of these checks reports the
/// reason as an error.
pub fn per_link(
    snapshot: &FullSnapshot,
    judge: impl Fn(&LinkSnapshot) -> Option<Vec<Finding>>,
) -> Verdict {
    per_each(snapshot.links().iter(), judge)
}

/// The same for Links whose API server is asked from here, and not only by the controller through the gateway.
pub fn per_direct_link(
    snapshot: &FullSnapshot,
    judge: impl Fn(&LinkSnapshot) -> Option<Vec<Finding>>,
) -> Verdict {
    per_each(direct_links(snapshot), judge)
}

/// The Links whose API server is asked from here.
pub fn direct_links(snapshot: &FullSnapshot) -> impl Iterator<Item = &LinkSnapshot> {
    let links = snapshot.links().iter();
    links.filter(|link| !is_through_gateway(&link.link))
}

fn per_each<'l>(
    links: impl Iterator<Item = &'l LinkSnapshot>,
    judge: impl Fn(&LinkSnapshot) -> Option<Vec<Finding>>,
) -> Verdict {
    let mut links = links.peekable();
    if links.peek().is_none() {
        return Verdict::Skip;
    }
    let (mut problems, mut unknown) = (Vec::new(), Vec::new());
    for link in links {
        let cluster = link.cluster();
        match judge(link) {
            Some(found) => problems.extend(found.into_iter().map(|problem| problem.of(cluster))),
            None => unknown.push(Finding::consequence(NOT_CHECKED).of(cluster)),
        }
    }
    if problems.is_empty() && !unknown.is_empty() {
        return Verdict::Warn(unknown);
    }
    problems.append(&mut unknown);
    Verdict::of(problems)
}

#[cfg(test)]
mod tests {
    use manifests::{
        install::{RemoteAccess, allow, install},
        render::Manifest,
        values::Values,
    };

    use super::*;

    #[test]
    fn permissions_of_accounts_are_needed_in_their_mode() {
        let rules = |manifest: Manifest, name: &str| {
            let objects = manifest.into_objects().unwrap();
            let role = objects.iter().find(|object| {
                object["kind"] == "ClusterRole" && object["metadata"]["name"] == name
            });
            let rules = role.unwrap()["rules"].as_array().unwrap().iter();
            let rules = rules.map(|rule| {
                let list = |field: &str| {
                    let list = rule[field].as_array().into_iter().flatten();
                    list.filter_map(|text| text.as_str().map(str::to_owned))
                        .collect()
                };
                AccessRule {
                    groups: list("apiGroups"),
                    resources: list("resources"),
                    names: list("resourceNames"),
                    verbs: list("verbs"),
                }
            });
            rules.collect::<Vec<_>>()
        };
        let installed = install("mc", &Values::default()).unwrap();
        let full = rules(installed, labels::REMOTE_ACCESS_ACCOUNT);
        let allowed = allow("mc", &["west".to_owned()], RemoteAccess::Gateway, false);
        let gateway = rules(allowed.unwrap(), "west");
        assert_eq!(excess_of(&full, true), None);
        assert_eq!(excess_of(&gateway, false), None);
        let excess = excess_of(&full, false).unwrap();
        assert!(excess.contains("pods (list get watch)") && excess.contains("--mode gateway"));
    }
}
