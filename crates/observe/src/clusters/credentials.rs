//! Problems of the credentials of a Link: those of the controller, and those of Linkerd. Pure.
//!
//! `check` has rules for these, and `status` shows them with the Link.

use hints::suggest::{ClusterFlags, Suggested};
use jiff::{SignedDuration, Timestamp};
use mirror_core::{
    api::{conditions::INSECURE_TLS, tls::InsecureTls},
    mirror::{has_discovery, link_status::expiry},
};

use super::snapshot::{Destination, Known, LinkCredentials, LinkSnapshot};
use crate::finding::{Finding, Level, causes::Cause};

/// If Linkerd's Secret is younger than its Link by more than this, it was created late, or again.
const LATE: SignedDuration = SignedDuration::from_mins(1);

/// All problems, each with a remedy. The remedy of the first also solves the others.
///
/// `links` are all Links of the cluster that has this one. `None` if no problem is known, but not everything could be
/// read.
pub fn problems(
    link: &LinkSnapshot,
    links: &[LinkSnapshot],
    destination: &Known<Destination>,
    now: Timestamp,
    flags: &ClusterFlags,
) -> Option<Vec<Finding>> {
    let (own, theirs) = (own(link), destination.as_ref().ok());
    let recorded = || expiring_condition(link);
    let mut found = Vec::new();
    found.extend(insecure(link).map(Finding::from));
    found.extend(theirs.and_then(|theirs| missing(link, theirs, flags)));
    found.extend(theirs.and_then(|theirs| ignored(link, theirs, flags)));
    found.extend(theirs.and_then(|theirs| dangerous(link, theirs, flags)));
    found.extend(own.map_or_else(recorded, |own| expiring(link, own, now, flags)));
    if let Some(theirs) = theirs {
        found.extend(differs(link, links, theirs, flags));
        found.extend(expiring_at_linkerd(link, theirs, now, flags));
        found.extend(unused(link, theirs, flags));
    }
    for other in found.iter_mut().skip(1) {
        other.is_consequence = true;
    }
    let all_known = own.is_some() && theirs.is_some();
    (all_known || !found.is_empty()).then_some(found)
}

/// The credentials in the Link's own Secret, if known.
pub fn own(link: &LinkSnapshot) -> Option<&LinkCredentials> {
    link.credentials.as_ref()?.as_ref().ok()
}

/// The problem if the connection is not secure. Without access to Secrets, this is read from the Link's status.
pub fn insecure(link: &LinkSnapshot) -> Option<String> {
    match own(link) {
        Some(own) => own.insecure.map(InsecureTls::problem),
        None => Some(link.problem_condition(INSECURE_TLS)?.1.to_owned()),
    }
}

/// The problem if the token of the Link's own Secret is about to expire, or has expired.
pub fn expiring(
    link: &LinkSnapshot,
    own: &LinkCredentials,
    now: Timestamp,
    flags: &ClusterFlags,
) -> Option<Finding> {
    expiring_at(own.expiry?, link, now, flags)
}

/// The same for a token that expires at this time.
fn expiring_at(
    expiry: Timestamp,
    link: &LinkSnapshot,
    now: Timestamp,
    flags: &ClusterFlags,
) -> Option<Finding> {
    let problem = expiry::problem(expiry, now, "renew it")?;
    let found = if expiry <= now {
        Finding::broken(Cause::CredentialsExpired, problem)
    } else {
        Finding {
            level: Level::Warning,
            ..problem.into()
        }
    };
    Some(found.fixed_by(&rotate(link, flags)))
}

/// The command that replaces the credentials of a Link.
pub fn rotate(link: &LinkSnapshot, flags: &ClusterFlags) -> Suggested {
    flags.mc(
        "rotate {} --namespace {}",
        &[link.cluster(), link.namespace()],
    )
}

/// The same problem from the Link's status, for users who may not read Secrets.
fn expiring_condition(link: &LinkSnapshot) -> Option<Finding> {
    let (status, message) = link.condition("CredentialsExpiring")?;
    (status == "True").then(|| message.into())
}

/// The problem if Linkerd has no Secret of its own for the target cluster, which it needs for remote discovery and for
/// federated Services.
pub fn missing(link: &LinkSnapshot, theirs: &Destination, flags: &ClusterFlags) -> Option<Finding> {
    let is_there = theirs.credentials.contains_key(link.cluster());
    (needs_linkerd(link) && !is_there).then(|| {
        let what = format!(
            "namespace {} has no Secret for this cluster, so remote discovery and federated Services do not work",
            theirs.namespace
        );
        let restart = flags.restart_destination(&theirs.namespace);
        let found = Finding::broken(Cause::LinkerdSecretMissing, what);
        found.fixed_by(&flags.link()).fixed_by(&restart)
    })
}

/// The problem if Linkerd ignores its Secret, because it is incomplete.
pub fn ignored(link: &LinkSnapshot, theirs: &Destination, flags: &ClusterFlags) -> Option<Finding> {
    let known = theirs.credentials.get(link.cluster())?;
    let (namespace, name) = (&theirs.namespace, &known.name);
    (needs_linkerd(link) && !known.lacks.is_empty()).then(|| {
        let delete = flags.kubectl("-n {} delete secret {}", &[namespace, name]);
        let what = format!(
            "Linkerd ignores the Secret {namespace}/{name}, which lacks {}",
            known.lacks.join(", ")
        );
        let restart = flags.restart_destination(&theirs.namespace);
        let found = Finding::broken(Cause::LinkerdSecretIgnored, what).fixed_by(&delete);
        found.fixed_by(&flags.link()).fixed_by(&restart)
    })
}

/// The problem if Linkerd's Secret makes it run a program, or read a file, which whoever wrote the Secret has chosen. Versions
/// of Linkerd before edge-26.9.1 do that.
pub fn dangerous(
    link: &LinkSnapshot,
    theirs: &Destination,
    flags: &ClusterFlags,
) -> Option<Finding> {
    let known = theirs.credentials.get(link.cluster())?;
    let (namespace, name) = (&theirs.namespace, &known.name);
    let uses = known.uses?;
    let what = format!(
        "the kubeconfig in the Secret {namespace}/{name} uses {uses}, so whoever wrote it acts as linkerd-destination"
    );
    let delete = flags.kubectl("-n {} delete secret {}", &[namespace, name]);
    let found = Finding::from(what).fixed_by(&delete);
    Some(found.fixed_by(&flags.link()))
}

/// Whether a Link needs Linkerd to connect to the target cluster: for remote discovery or federated Services.
pub fn needs_linkerd(link: &LinkSnapshot) -> bool {
    let spec = &link.link.spec;
    let discovers =
        spec.remote_discovery_selector.is_some() || spec.federated_service_selector.is_some();
    discovers && has_discovery(&link.link)
}

/// The other Links to the cluster of a Link.
pub fn others_to_its_cluster<'l>(
    link: &'l LinkSnapshot,
    links: &'l [LinkSnapshot],
) -> impl Iterator<Item = &'l LinkSnapshot> {
    let is_other =
        move |other: &&LinkSnapshot| other.cluster() == link.cluster() && other.id() != link.id();
    links.iter().filter(is_other)
}

/// The problem if the two Secrets hold different tokens. Linkerd has one Secret for a cluster, so of several Links to
/// it, in the namespaces of several installations, only one needs to have Linkerd's token.
pub fn differs(
    link: &LinkSnapshot,
    links: &[LinkSnapshot],
    theirs: &Destination,
    flags: &ClusterFlags,
) -> Option<Finding> {
    let known = theirs.credentials.get(link.cluster())?;
    let differs = needs_linkerd(link) && own(link)?.token != known.token;
    let mut others = others_to_its_cluster(link, links);
    let may_have_it = |other| own(other).is_none_or(|own| own.token == known.token);
    (differs && known.lacks.is_empty() && !others.any(may_have_it)).then(|| {
        let what = "the tokens in Linkerd's Secret and in the controller's Secret differ";
        Finding::degraded(Cause::LinkerdCredentialsDiffer, what).fixed_by(&rotate(link, flags))
    })
}

/// The problem if the token of Linkerd's Secret is about to expire, or has expired, and is not that of the Link's own
/// Secret.
pub fn expiring_at_linkerd(
    link: &LinkSnapshot,
    theirs: &Destination,
    now: Timestamp,
    flags: &ClusterFlags,
) -> Option<Finding> {
    let known = theirs.credentials.get(link.cluster())?;
    if own(link).is_some_and(|own| own.token == known.token) {
        return None;
    }
    let found = expiring_at(known.expiry?, link, now, flags)?;
    Some(Finding {
        evidence: format!("Linkerd's Secret: {}", found.evidence),
        ..found
    })
}

/// The problem if Linkerd does not use its Secret. Its destination controller reads credentials when it starts or when
/// their Secret is created, and ignores later changes (`cluster_store.go`). Nor does it follow federated Services that
/// named the cluster before the Secret was created (`federated_service_watcher.go`).
pub fn unused(link: &LinkSnapshot, theirs: &Destination, flags: &ClusterFlags) -> Option<Finding> {
    let known = theirs.credentials.get(link.cluster())?;
    let started = theirs.started?;
    if !needs_linkerd(link) || !known.lacks.is_empty() {
        return None;
    }
    let linked = link.link.metadata.creation_timestamp.as_ref();
    let is_late = |created: Timestamp| {
        created > started && linked.is_some_and(|linked| created.duration_since(linked.0) > LATE)
    };
    let why = if theirs.is_outdated(link.cluster()) {
        "linkerd-destination started before its credentials were changed, and does not use the new ones"
    } else if known.created.is_some_and(is_late) {
        "linkerd-destination started before its credentials were created, and the Link is older, so it may not follow \
         the Services that were there before"
    } else {
        return None;
    };
    let restart = flags.restart_destination(&theirs.namespace);
    Some(Finding::degraded(Cause::LinkerdSecretStale, why).fixed_by(&restart))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
    use serde_json::json;

    use super::*;
    use crate::clusters::{
        fixtures::{condition, link},
        snapshot::LinkerdCredentials,
    };

    const NOW: &str = "2026-11-21T12:00:00Z";

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// A Link to east whose Secret has this token, and Linkerd with that one.
    fn with(own: Option<&str>, theirs: &str) -> (LinkSnapshot, Destination) {
        let mut link = link("east", &json!({}));
        link.link.spec.remote_discovery_selector = Some(LabelSelector::default());
        link.credentials = Some(own.map_or_else(
            || Err("forbidden".into()),
            |token| {
                Ok(LinkCredentials {
                    token: Some(token.into()),
                    ..LinkCredentials::default()
                })
            },
        ));
        let credentials = LinkerdCredentials {
            token: Some(theirs.into()),
            ..LinkerdCredentials::default()
        };
        let destination = Destination {
            namespace: "linkerd".into(),
            credentials: [("east".to_owned(), credentials)].into(),
            started: Some(time("2026-11-20T00:00:00Z")),
            pods: 1,
        };
        (link, destination)
    }

    /// The beginning of each problem.
    fn found(link: &LinkSnapshot, destination: &Known<Destination>) -> Option<Vec<String>> {
        let problems = problems(link, &[], destination, time(NOW), &ClusterFlags::default())?;
        let short = |text: &str| text.split([';', ',']).next().map(str::to_owned);
        Some(
            problems
                .iter()
                .filter_map(|found| short(&found.line()))
                .collect(),
        )
    }

    #[test]
    fn valid_credentials_have_no_problems() {
        let (link, theirs) = with(Some("a"), "a");
        assert_eq!(found(&link, &Ok(theirs)), Some(vec![]));
    }

    #[test]
    fn insecure_connection_is_the_first_problem_even_without_access_to_secrets() {
        let (mut link, theirs) = with(Some("a"), "b");
        let theirs = Ok(theirs);
        let own = link.credentials.as_mut().unwrap().as_mut().unwrap();
        own.insecure = Some(InsecureTls::Unverified);
        let found = problems(&link, &[], &theirs, time(NOW), &ClusterFlags::default()).unwrap();
        assert_eq!(found[0].evidence, InsecureTls::Unverified.problem());
        assert_eq!(found.len(), 2);
        // The Secret is newer than the Link's status.
        let status = |status: &str| json!({ "conditions": [condition("InsecureTLS", status, "not safe", 1)] });
        let found = |status: &serde_json::Value, credentials| {
            let mut link = crate::clusters::fixtures::link("east", status);
            link.credentials = credentials;
            insecure(&link)
        };
        let safe = || Some(Ok(LinkCredentials::default()));
        let refused = || Some(Err("forbidden".into()));
        assert_eq!(found(&status("True"), safe()), None);
        assert_eq!(
            found(&status("True"), refused()).as_deref(),
            Some("not safe")
        );
        assert_eq!(found(&status("True"), None).as_deref(), Some("not safe"));
        assert_eq!(found(&status("False"), None), None);
    }

    #[test]
    fn unreadable_credentials_do_not_hide_other_problems() {
        let refused = || Err("forbidden".into());
        let (link, theirs) = with(Some("a"), "a");
        assert_eq!(found(&link, &refused()), None);
        let (unread, _) = with(None, "a");
        assert_eq!(
            found(&unread, &Ok(theirs.clone())),
            None,
            "no difference is claimed"
        );
        assert_eq!(found(&unread, &refused()), None);

        let mut expired = link;
        let at = Some(time(NOW));
        expired
            .credentials
            .as_mut()
            .unwrap()
            .as_mut()
            .unwrap()
            .expiry = at;
        let own = "the token expired on 2026-11-21 12:00 UTC";
        assert_eq!(found(&expired, &refused()), Some(vec![own.to_owned()]));
        let mut changed = theirs;
        changed.credentials.get_mut("east").unwrap().changed = at;
        let theirs = "linkerd-destination started before its credentials were changed";
        assert_eq!(found(&unread, &Ok(changed)), Some(vec![theirs.to_owned()]));
    }

    #[test]
    fn status_of_the_link_replaces_a_secret_that_may_not_be_read() {
        let (unread, theirs) = with(None, "a");
        let found = |status: &str| {
            let condition = condition("CredentialsExpiring", status, "the token expires", 1);
            let mut link = link("east", &json!({"conditions": [condition]}));
            link.credentials.clone_from(&unread.credentials);
            found(&link, &Ok(theirs.clone()))
        };
        assert_eq!(found("True"), Some(vec!["the token expires".to_owned()]));
        assert_eq!(found("False"), None);
    }

    #[test]
    fn remedy_of_the_first_problem_solves_the_others() {
        let (mut link, mut theirs) = with(Some("a"), "b");
        let at = Some(time(NOW));
        link.credentials.as_mut().unwrap().as_mut().unwrap().expiry = at;
        let known = theirs.credentials.get_mut("east").unwrap();
        (known.expiry, known.changed) = (at, at);
        let expected = [
            "the token expired on 2026-11-21 12:00 UTC",
            "the tokens in Linkerd's Secret and in the controller's Secret differ",
            "Linkerd's Secret: the token expired on 2026-11-21 12:00 UTC",
            "linkerd-destination started before its credentials were changed",
        ];
        assert_eq!(found(&link, &Ok(theirs.clone())).unwrap(), expected);
        theirs.credentials.clear();
        let expected = [
            "namespace linkerd has no Secret for this cluster",
            expected[0],
        ];
        assert_eq!(found(&link, &Ok(theirs)).unwrap(), expected);
    }

    #[test]
    fn incomplete_secret_of_linkerd_is_the_only_problem_of_it() {
        let (link, mut theirs) = with(Some("a"), "b");
        let known = theirs.credentials.get_mut("east").unwrap();
        known.name = "mine".into();
        known.changed = Some(time(NOW));
        known.lacks = vec!["the type x".into(), "the annotation y".into()];
        let found = problems(&link, &[], &Ok(theirs), time(NOW), &ClusterFlags::default()).unwrap();
        let found: Vec<String> = found.iter().map(Finding::told).collect();
        assert_eq!(
            found,
            [
                "Linkerd ignores the Secret linkerd/mine, which lacks the type x, the annotation y: run `kubectl -n \
                 linkerd delete secret mine`, then `linkerd-mc link`, then `kubectl -n linkerd rollout restart \
                 deployment/linkerd-destination`"
            ]
        );
    }

    #[test]
    fn secret_that_was_created_late_needs_a_restart() {
        let (mut link, mut theirs) = with(Some("a"), "a");
        for (linked, created, expected) in [
            ("2026-11-20T12:00:00Z", "2026-11-20T12:01:00Z", false),
            ("2026-11-20T12:00:00Z", "2026-11-20T12:01:01Z", true),
            ("2026-11-20T12:00:00Z", "2026-11-20T11:00:00Z", false),
            // Linkerd's destination controller has started since.
            ("2026-11-19T12:00:00Z", "2026-11-19T23:00:00Z", false),
        ] {
            let creation = serde_json::from_value(json!(linked)).unwrap();
            link.link.metadata.creation_timestamp = Some(creation);
            theirs.credentials.get_mut("east").unwrap().created = Some(time(created));
            let late = "linkerd-destination started before its credentials were created";
            let expected: Vec<String> = expected.then(|| late.to_owned()).into_iter().collect();
            let found = found(&link, &Ok(theirs.clone()));
            assert_eq!(found, Some(expected), "{linked} {created}");
        }
    }

    #[test]
    fn of_links_to_one_cluster_one_has_the_token_of_linkerd() {
        let (link, theirs) = with(Some("a"), "b");
        let other = |cluster: &str, token: Option<&str>| {
            let (mut other, _) = with(token, "b");
            other.link.spec.target_cluster_name = cluster.into();
            other.link.metadata.namespace = Some("other".into());
            other
        };
        for (other, expected) in [
            (other("east", Some("b")), false),
            (other("east", None), false),
            (other("east", Some("c")), true),
            (other("north", Some("b")), true),
        ] {
            let links = [link.clone(), other];
            assert_eq!(
                differs(&link, &links, &theirs, &ClusterFlags::default()).is_some(),
                expected
            );
        }
    }

    #[test]
    fn gateway_only_link_needs_no_secret_of_linkerd() {
        let (mut link, mut theirs) = with(Some("a"), "b");
        link.link.spec.remote_discovery_selector = None;
        theirs.credentials.get_mut("east").unwrap().changed = Some(time(NOW));
        assert_eq!(found(&link, &Ok(theirs.clone())), Some(vec![]));
        theirs.credentials.clear();
        assert_eq!(found(&link, &Ok(theirs)), Some(vec![]));
    }
}
