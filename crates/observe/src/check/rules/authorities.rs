//! The check of the CAs of API servers that the controller reaches through gateways.

use std::collections::BTreeSet;

use mirror_core::mirror::is_through_gateway;

use super::{rule::Verdict, targets::per_link};
use crate::{
    clusters::{
        credentials,
        snapshot::{FullSnapshot, LinkSnapshot},
    },
    finding::Finding,
};

/// The certificates of all API servers behind gateways have one name, so only their CAs tell them apart. That of this
/// cluster is the one in the user's kubeconfig.
pub fn apart(snapshot: &FullSnapshot) -> Verdict {
    per_link(snapshot, |link| {
        if !is_through_gateway(&link.link) {
            return Some(vec![]);
        }
        let own = authorities(link)?;
        let others = snapshot.links().iter();
        let others = others.filter(|other| other.cluster() != link.cluster());
        let others = others.filter_map(|other| Some((other.cluster(), authorities(other)?)));
        let here = ("this cluster", &snapshot.cluster.identity.authorities);
        let sharing = others.chain([here]).filter(|(_, of)| !own.is_disjoint(of));
        let sharing: BTreeSet<_> = sharing.map(|(cluster, _)| cluster).collect();
        if sharing.is_empty() {
            return Some(vec![]);
        }
        let what = format!(
            "its API server has the same CA as that of {}: behind a gateway, all have the name kubernetes.default.svc, so one \
             that was taken over could pose as another, and get the token; give each cluster a CA of its own for its API \
             server, and until then an issuer of its own, so that none can pose as the gateway (docs/trust.md)",
            Vec::from_iter(sharing).join(", ")
        );
        Some(vec![Finding::from(what)])
    })
}

fn authorities(link: &LinkSnapshot) -> Option<&BTreeSet<Vec<u8>>> {
    Some(&credentials::own(link)?.identity.authorities)
}
