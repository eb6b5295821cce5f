//! Whether a Link can be used, and its controller reaches the target cluster.

use mirror_core::{
    api::{
        conditions::{self as c, credentials_expiring, credentials_valid},
        duration::utc,
        link::LinkObject,
    },
    mirror::Target,
};

use super::{context::PathContext, layer::LayerReport};
use crate::{
    clusters::{credentials, link_findings, snapshot::LinkSnapshot},
    finding::{Finding, Level, causes::Cause},
};

/// What is wrong with the Link itself.
pub fn invalid(way: &PathContext<'_>, link: &LinkSnapshot, level: Level) -> Option<Finding> {
    // Parsed as by the controller. The default for headless Services cannot make a Link invalid.
    let object = LinkObject {
        link: link.link.clone(),
        unreadable: link.unreadable.clone(),
    };
    let parsed = Target::parse_object(&object, false);
    let stalled = way.problem(link, c::STALLED);
    let stalled = stalled.map(|(reason, message)| format!("{reason}: {message}"));
    let problem = parsed.err().map(|error| error.to_string()).or(stalled)?;
    let evidence = format!("Link {}: {problem}", link.id());
    let edit = way.commands.source.kubectl(
        "-n {} edit links.multicluster.linkerd.io {}",
        &[link.namespace(), link.name()],
    );
    let found = Finding::new(Cause::LinkInvalid, level, evidence);
    Some(found.since(link.since(c::STALLED)).fixed_by(&edit))
}

/// Why the controller does not reach the target cluster, by the conditions of the Link.
pub fn broken(
    way: &PathContext<'_>,
    link: &LinkSnapshot,
    level: Level,
    report: &mut LayerReport,
) -> Option<Finding> {
    let (cluster, namespace) = (link.cluster(), link.namespace());
    let status = way.status(link);
    let said = |type_: &str| {
        let found = status.and_then(|status| status.condition(type_));
        found.filter(|found| found.status == "False")
    };
    let evidence = |what: &str, reason: &str, message: &str| {
        let message = if message.is_empty() {
            String::new()
        } else {
            format!(" ({message})")
        };
        format!("Link {} has {what} {reason}{message}", link.id())
    };
    let rotate = || way.commands.rotate(cluster, namespace);
    let relink = || way.commands.link(cluster, namespace);
    if let Some(found) = said(c::CREDENTIALS_VALID) {
        let evidence = evidence("CredentialsValid False:", &found.reason, &found.message);
        // With new credentials that fail, the old ones are still in use.
        let level = match found.reason.as_str() {
            credentials_valid::CREDENTIALS_FAIL => Level::Warning,
            _ => level,
        };
        let found = Finding::new(Cause::CredentialsUnusable, level, evidence);
        let since = link.since(c::CREDENTIALS_VALID);
        return Some(found.since(since).fixed_by(&relink()));
    }
    let expired = has_expired(way, link);
    let Some(found) = said(c::CONNECTED) else {
        if let Some(expired) = expired {
            return Some(
                Finding::new(Cause::CredentialsExpired, level, expired).fixed_by(&rotate()),
            );
        }
        let connected = status.and_then(|status| status.condition(c::CONNECTED));
        if connected.is_some_and(|connected| connected.status == "True") {
            report.see(format!("Link {} is connected to {cluster}", link.id()));
        }
        return None;
    };
    let evidence = evidence("Connected False:", &found.reason, &found.message);
    let (cause, command) = match link_findings::cause(c::CONNECTED, &found.reason)? {
        Cause::CredentialsRefused if expired.is_some() => (Cause::CredentialsExpired, rotate()),
        cause @ Cause::CredentialsRefused => (cause, rotate()),
        cause @ Cause::CertificateInvalid => (cause, relink()),
        cause => {
            let source = &way.commands.source;
            (cause, source.mc("status --cluster-name {}", &[cluster]))
        }
    };
    let found = Finding::new(cause, level, evidence);
    Some(found.since(link.since(c::CONNECTED)).fixed_by(&command))
}

fn has_expired(way: &PathContext<'_>, link: &LinkSnapshot) -> Option<String> {
    if let Some(expiry) = credentials::own(link).and_then(|own| own.expiry) {
        return (expiry <= way.facts.now).then(|| {
            let expiry = utc(expiry);
            format!(
                "the token in the Secret of Link {} expired at {expiry}",
                link.id()
            )
        });
    }
    let (reason, message) = way.problem(link, c::CREDENTIALS_EXPIRING)?;
    (reason == credentials_expiring::EXPIRED).then(|| message.to_owned())
}
