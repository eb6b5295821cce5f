//! Checks of whose names the issuer of a cluster may sign, and of what tells the workloads of clusters apart.

use manifests::signable_names::SignableNames;
use mirror_core::api::link::LinkerdConfig;

use super::{rule::Verdict, targets::per_direct_link};
use crate::{
    clusters::{
        certificates::IssuerCertificate,
        snapshot::{FullSnapshot, Known, LinkSnapshot},
        trust_anchors,
    },
    finding::Finding,
};

/// Where a trust domain and an issuer for each cluster are explained.
const REMEDY: &str = "give each cluster an issuer of its own trust domain (docs/trust.md)";

/// Whether the issuer of this cluster may sign names of other clusters, and those of its own workloads.
pub fn issuer_names(snapshot: &FullSnapshot) -> Verdict {
    if snapshot.links().is_empty() {
        return Verdict::Skip;
    }
    let Ok(issuer) = &snapshot.issuer else {
        let why = "not checked; see the check of its end";
        return Verdict::Warn(vec![Finding::consequence(why)]);
    };
    let (domain, anchors) = match &snapshot.cluster.config {
        Err(why) => return Verdict::warn(format!("not checked, because {why}")),
        Ok(config) => (
            &*config.identity_trust_domain,
            &config.identity_trust_anchors_pem,
        ),
    };
    let Some(names) = names(issuer, anchors) else {
        return Verdict::warn("not checked, because its name constraints cannot be read");
    };
    if !names.includes(domain) {
        return Verdict::fail(format!(
            "the name constraints of Linkerd's issuer do not permit names of the trust domain {domain} of this cluster, so \
             proxies refuse the certificates of its workloads; make an issuer for {domain} (docs/trust.md)"
        ));
    }
    let clusters = snapshot.links().iter().map(LinkSnapshot::cluster);
    let clusters = clusters.collect::<Vec<_>>().join(", ");
    let may = match (names.dns_outside(domain), names.uris_outside(domain)) {
        (false, false) => return Verdict::Pass,
        (false, true) => {
            "its name constraints say nothing of URIs, so it may sign the SPIFFE identity of every workload"
        }
        (true, false) => "its name constraints permit the names of workloads of other clusters",
        (true, true) => "it may sign the names of all workloads of all clusters",
    };
    Verdict::warn(format!(
        "{may}: whoever has its key can be any of them, for each cluster that shares a trust anchor ({clusters}); {REMEDY}"
    ))
}

/// The names that the issuer may sign. Its chain may end below a trust anchor that is constrained too.
fn names(issuer: &IssuerCertificate, anchors: &str) -> Option<SignableNames> {
    let anchors = trust_anchors::parse(anchors).unwrap_or_default();
    let top = issuer.chain.last()?;
    let above = anchors
        .iter()
        .filter(|anchor| trust_anchors::signs(anchor, top));
    let mut above: Vec<_> = above.collect();
    // Of several anchors with one name, nothing here tells which one signed.
    above.truncate(usize::from(above.len() == 1));
    let chain = issuer.chain.iter().chain(above);
    SignableNames::below(chain.map(Vec::as_slice))
}

/// The clusters whose workloads have names in the trust domain of this cluster too.
pub fn trust_domains(snapshot: &FullSnapshot) -> Verdict {
    let of =
        |config: &Known<LinkerdConfig>| Some(config.as_ref().ok()?.identity_trust_domain.clone());
    let theirs = |link: &LinkSnapshot| of(&link.target.as_ref()?.as_ref().ok()?.config);
    let verdict = per_direct_link(snapshot, |link| theirs(link).map(|_| vec![]));
    let own = of(&snapshot.cluster.config);
    let same = snapshot
        .links()
        .iter()
        .filter(|link| own.is_some() && theirs(link) == own);
    let same = same.map(|link| {
        format!(
            "{}: {}, as this cluster, so policies by name cannot tell its workloads from those of this cluster",
            link.cluster(),
            own.as_deref().unwrap_or_default()
        )
    });
    let same: Vec<String> = same.collect();
    match verdict {
        Verdict::Pass if !same.is_empty() => Verdict::PassWith(same),
        verdict => verdict,
    }
}
