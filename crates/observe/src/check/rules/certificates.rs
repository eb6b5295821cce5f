//! Checks of the certificates of meshes, before they end, and of the clocks by which they are valid.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use mirror_core::api::{
    duration::{parse_go_duration, utc_minute},
    link::LinkerdConfig,
};

use super::{
    rule::Verdict,
    targets::{direct_links, per_direct_link},
};
use crate::{
    clusters::{
        certificates::{CertificateAge, Validity},
        snapshot::{FullSnapshot, Known},
        trust_anchors,
    },
    finding::Finding,
};

/// How much clocks may differ, unless Linkerd's configuration says something else: by so much, Linkerd dates certificates
/// back.
const CLOCK_SKEW: Duration = Duration::from_secs(20);

/// Problems of certificates, and whether one of them is certain to fail requests.
#[derive(Default)]
struct CertificateProblems {
    problems: Vec<Finding>,
    is_broken: bool,
}

impl CertificateProblems {
    fn add(&mut self, problem: String, is_broken: bool) {
        self.problems.push(problem.into());
        self.is_broken |= is_broken;
    }

    /// The problem of a certificate that has one, with what to do.
    fn judge(&mut self, what: &str, validity: Validity, now: Timestamp, remedy: &str) {
        let (said, at) = match validity.at(now) {
            CertificateAge::Valid => return,
            CertificateAge::Early => ("is not valid before", validity.from),
            CertificateAge::EndsSoon => ("ends on", validity.until),
            CertificateAge::Ended => ("ended on", validity.until),
        };
        let is_broken = validity.at(now) != CertificateAge::EndsSoon;
        self.add(
            format!("{what} {said} {}; {remedy}", utc_minute(at)),
            is_broken,
        );
    }

    fn verdict(self) -> Verdict {
        if self.problems.is_empty() {
            Verdict::Pass
        } else if self.is_broken {
            Verdict::Fail(self.problems)
        } else {
            Verdict::Warn(self.problems)
        }
    }
}

/// The anchors in force of this cluster and of each target cluster.
pub fn anchors(snapshot: &FullSnapshot) -> Verdict {
    if snapshot.links().is_empty() {
        return Verdict::Skip;
    }
    let mut found = CertificateProblems::default();
    let now = snapshot.now;
    anchors_of("this cluster", &snapshot.cluster.config, now, &mut found);
    for link in direct_links(snapshot) {
        match &link.target {
            Some(Ok(target)) => anchors_of(link.cluster(), &target.config, now, &mut found),
            _ => found.add(
                format!("{}: {}", link.cluster(), super::targets::NOT_CHECKED),
                false,
            ),
        }
    }
    found.verdict()
}

/// The anchors of one cluster. Of one that has ended, requests fail only if there is no other.
fn anchors_of(
    cluster: &str,
    config: &Known<LinkerdConfig>,
    now: Timestamp,
    found: &mut CertificateProblems,
) {
    let pem = config
        .as_ref()
        .map(|config| &config.identity_trust_anchors_pem);
    let anchors = pem.map_err(ToString::to_string);
    let anchors = match anchors.and_then(|pem| trust_anchors::parse(pem)) {
        Ok(anchors) => anchors,
        Err(why) => return found.add(format!("{cluster}: not checked, because {why}"), false),
    };
    let known: Vec<_> = anchors
        .iter()
        .filter_map(|der| Some((der, Validity::of_der(der)?)))
        .collect();
    let is_in_force = |validity: &Validity| {
        matches!(
            validity.at(now),
            CertificateAge::Valid | CertificateAge::EndsSoon
        )
    };
    let others = known.iter().any(|(_, validity)| is_in_force(validity));
    let was_broken = found.is_broken;
    for (der, validity) in known {
        let remedy = match validity.at(now) {
            CertificateAge::Ended if others => {
                "remove it, if no issuer is below it (docs/trust.md)"
            }
            _ => "change it before its end, in all linked clusters (docs/trust.md)",
        };
        let what = format!("{cluster}: trust anchor {}", trust_anchors::subject(der));
        found.judge(&what, validity, now, remedy);
    }
    found.is_broken = was_broken || (found.is_broken && !others);
}

/// The certificate with which Linkerd signs those of the proxies of this cluster.
pub fn issuer(snapshot: &FullSnapshot) -> Verdict {
    if snapshot.links().is_empty() {
        return Verdict::Skip;
    }
    let mut found = CertificateProblems::default();
    match &snapshot.issuer {
        Err(why) => found.add(format!("not checked, because {why}"), false),
        Ok(issuer) => found.judge(
            "Linkerd's issuer certificate",
            issuer.validity,
            snapshot.now,
            "renew it (docs/trust.md): without a valid issuer, proxies get no certificates, and mTLS ends with theirs",
        ),
    }
    found.verdict()
}

/// The certificates of proxies, which these renew before the end.
pub fn of_proxies(snapshot: &FullSnapshot) -> Verdict {
    if snapshot.links().is_empty() {
        return Verdict::Skip;
    }
    let certificates = match &snapshot.certificates {
        Err(why) => return Verdict::warn(format!("not checked, because {why}")),
        Ok(certificates) => certificates,
    };
    if let Some(why) = certificates.problem() {
        return Verdict::warn(format!("not checked, because {why}"));
    }
    if certificates.seen.is_empty() {
        return Verdict::Skip;
    }
    let mut found = CertificateProblems::default();
    for (pod, validity) in &certificates.seen {
        found.judge(
            &format!("the certificate of the proxy of pod {pod}"),
            *validity,
            snapshot.now,
            "the proxy should have a new one: look at the Pods of linkerd-identity and at the issuer",
        );
    }
    found.verdict()
}

/// The clocks of the API servers: a certificate that a proxy has just got is not valid yet by a clock that is behind.
pub fn clocks(snapshot: &FullSnapshot) -> Verdict {
    let allowed = allowed_skew(snapshot);
    per_direct_link(snapshot, |link| {
        let target = link.target.as_ref()?.as_ref().ok()?;
        let ahead = target.ahead - snapshot.ahead;
        if ahead.abs() <= allowed {
            return Some(vec![]);
        }
        let way = if ahead.is_negative() {
            "behind"
        } else {
            "ahead of"
        };
        let what = format!(
            "the clock of its API server is {} s {way} that of this cluster's; from {} s on, proxies refuse new certificates \
             of the other cluster as not valid yet: synchronise the clocks of the nodes, such as by NTP",
            ahead.abs().as_secs(),
            allowed.as_secs()
        );
        Some(vec![what.into()])
    })
}

/// By how much Linkerd dates certificates back.
fn allowed_skew(snapshot: &FullSnapshot) -> SignedDuration {
    let config = snapshot.cluster.config.as_ref().ok();
    let identity = config.and_then(|config| config.rest.get("identity"));
    let text = identity.and_then(|identity| identity.pointer("/issuer/clockSkewAllowance"));
    let text = text.and_then(serde_json::Value::as_str);
    let configured = text.and_then(|text| parse_go_duration(text).ok());
    SignedDuration::try_from(configured.unwrap_or(CLOCK_SKEW)).unwrap_or(SignedDuration::MAX)
}
