//! Problems of the credentials of a Link: those of the controller, and those of Linkerd. Pure.
//!
//! `check` has rules for these, and `status` shows them with the Link.

use jiff::Timestamp;

use super::snapshot::{Destination, Known, LinkCredentials, LinkSnapshot};
use crate::{
    api::conditions::INSECURE_TLS,
    mirror::{status::expiry, target::tls::InsecureTls},
};

/// All problems, each with a remedy. The remedy of the first also solves the others.
///
/// `None` if no problem is known, but not everything could be read.
pub(crate) fn problems(
    link: &LinkSnapshot,
    destination: &Known<Destination>,
    now: Timestamp,
) -> Option<Vec<String>> {
    let (own, theirs) = (own(link), destination.as_ref().ok());
    let told = || expiring_condition(link);
    let mut found = Vec::new();
    found.extend(insecure(link));
    found.extend(theirs.and_then(|theirs| missing(link, theirs)));
    found.extend(own.map_or_else(told, |own| expiring(link, own, now)));
    if let Some(theirs) = theirs {
        found.extend(differs(link, theirs));
        found.extend(expiring_at_linkerd(link, theirs, now));
        found.extend(unused(link, theirs));
    }
    let all_known = own.is_some() && theirs.is_some();
    (all_known || !found.is_empty()).then_some(found)
}

/// The credentials in the Link's own Secret, if known.
pub(crate) fn own(link: &LinkSnapshot) -> Option<&LinkCredentials> {
    link.credentials.as_ref()?.as_ref().ok()
}

/// The connection is not secure. Without access to Secrets, this is read from the Link's status.
pub(crate) fn insecure(link: &LinkSnapshot) -> Option<String> {
    match own(link) {
        Some(own) => own.insecure.map(InsecureTls::problem),
        None => Some(link.trouble(INSECURE_TLS)?.1.to_owned()),
    }
}

/// The token of the Link's own Secret is about to expire, or has.
pub(crate) fn expiring(
    link: &LinkSnapshot,
    own: &LinkCredentials,
    now: Timestamp,
) -> Option<String> {
    expiry::problem(own.expiry?, now, link.cluster())
}

/// The same, from the Link's status, for users who may not read Secrets.
fn expiring_condition(link: &LinkSnapshot) -> Option<String> {
    let (status, message) = link.condition("CredentialsExpiring")?;
    (status == "True").then(|| message.to_owned())
}

/// Linkerd needs its own Secret for each target cluster of remote discovery and federated Services.
pub(crate) fn missing(link: &LinkSnapshot, theirs: &Destination) -> Option<String> {
    let is_there = theirs.credentials.contains_key(link.cluster());
    (needs_linkerd(link) && !is_there).then(|| {
        format!(
            "namespace {} has no Secret for this cluster, so remote discovery and federated Services do not work; \
             create it with `linkerd-mc link` or `linkerd-mc link-gen`",
            theirs.namespace
        )
    })
}

/// Whether a Link needs Linkerd to connect to the target cluster: for remote discovery or federated Services.
fn needs_linkerd(link: &LinkSnapshot) -> bool {
    let spec = &link.link.spec;
    spec.remote_discovery_selector.is_some() || spec.federated_service_selector.is_some()
}

/// The two Secrets hold different tokens.
pub(crate) fn differs(link: &LinkSnapshot, theirs: &Destination) -> Option<String> {
    let known = theirs.credentials.get(link.cluster())?;
    let differs = needs_linkerd(link) && own(link)?.token != known.token;
    differs.then(|| {
        format!(
            "the tokens in Linkerd's Secret and in the controller's Secret differ; replace both with \
             `linkerd-mc rotate --cluster-name {}`",
            link.cluster()
        )
    })
}

/// The token of Linkerd's Secret is about to expire, or has, and is not that of the Link's own Secret.
pub(crate) fn expiring_at_linkerd(
    link: &LinkSnapshot,
    theirs: &Destination,
    now: Timestamp,
) -> Option<String> {
    let known = theirs.credentials.get(link.cluster())?;
    if own(link).is_some_and(|own| own.token == known.token) {
        return None;
    }
    let problem = expiry::problem(known.expiry?, now, link.cluster())?;
    Some(format!("Linkerd's Secret: {problem}"))
}

/// Linkerd's destination controller reads credentials when it starts or when their Secret is created, and ignores later
/// changes (`cluster_store.go`).
pub(crate) fn unused(link: &LinkSnapshot, theirs: &Destination) -> Option<String> {
    let changed = theirs.credentials.get(link.cluster())?.changed?;
    (changed > theirs.started?).then(|| {
        format!(
            "linkerd-destination started before its credentials were changed, and does not use the new ones; restart \
             it with `kubectl -n {} rollout restart deployment/linkerd-destination`",
            theirs.namespace
        )
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
    use serde_json::json;

    use super::*;
    use crate::clusters::{
        link_summary::tests::{condition, link},
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
        };
        (link, destination)
    }

    /// The beginning of each problem.
    fn found(link: &LinkSnapshot, destination: &Known<Destination>) -> Option<Vec<String>> {
        let problems = problems(link, destination, time(NOW))?;
        let short = |text: String| text.split([';', ',']).next().map(str::to_owned);
        Some(problems.into_iter().filter_map(short).collect())
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
        let told = problems(&link, &theirs, time(NOW)).unwrap();
        assert_eq!(told[0], InsecureTls::Unverified.problem());
        assert_eq!(told.len(), 2);
        // The Secret is newer than the Link's status.
        let status = |status: &str| json!({ "conditions": [condition("InsecureTLS", status, "not safe", 1)] });
        let told = |status: &serde_json::Value, credentials| {
            let mut link = crate::clusters::link_summary::tests::link("east", status);
            link.credentials = credentials;
            insecure(&link)
        };
        let safe = || Some(Ok(LinkCredentials::default()));
        let refused = || Some(Err("forbidden".to_owned()));
        assert_eq!(told(&status("True"), safe()), None);
        assert_eq!(
            told(&status("True"), refused()).as_deref(),
            Some("not safe")
        );
        assert_eq!(told(&status("True"), None).as_deref(), Some("not safe"));
        assert_eq!(told(&status("False"), None), None);
    }

    #[test]
    fn unreadable_credentials_do_not_hide_other_problems() {
        let refused = || Err("forbidden".to_owned());
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
        let told = |status: &str| {
            let condition = condition("CredentialsExpiring", status, "the token expires", 1);
            let mut link = link("east", &json!({"conditions": [condition]}));
            link.credentials.clone_from(&unread.credentials);
            found(&link, &Ok(theirs.clone()))
        };
        assert_eq!(told("True"), Some(vec!["the token expires".to_owned()]));
        assert_eq!(told("False"), None);
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
    fn gateway_only_link_needs_no_secret_of_linkerd() {
        let (mut link, mut theirs) = with(Some("a"), "b");
        link.link.spec.remote_discovery_selector = None;
        assert_eq!(found(&link, &Ok(theirs.clone())), Some(vec![]));
        theirs.credentials.clear();
        assert_eq!(found(&link, &Ok(theirs)), Some(vec![]));
    }
}
