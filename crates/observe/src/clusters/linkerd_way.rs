//! Whether Linkerd's Secret for a target cluster leads where it should. Pure.
//!
//! `link` writes one kubeconfig into both Secrets, unless the controller alone goes through a gateway. Then an annotation of
//! the Link says at which address Linkerd reaches the API server.

use client::{Identity, server_of};
use hints::suggest::ClusterFlags;
use kube::ResourceExt as _;
use mirror_core::{api::labels, mirror::is_through_gateway};

use super::{
    credentials::{needs_linkerd, others_to_its_cluster, own},
    snapshot::{Destination, LinkSnapshot},
};
use crate::finding::Finding;

/// The problem if Linkerd's Secret leads elsewhere than to the API server of the Link. Linkerd has one Secret for a
/// cluster, so of several Links to it, only one needs to have its way.
pub fn leads_elsewhere(
    link: &LinkSnapshot,
    links: &[LinkSnapshot],
    theirs: &Destination,
    flags: &ClusterFlags,
) -> Option<Finding> {
    let known = theirs.credentials.get(link.cluster())?;
    let way = known.identity.as_ref()?;
    let what = difference(link, way).filter(|_| needs_linkerd(link) && known.lacks.is_empty())?;
    let mut others = others_to_its_cluster(link, links);
    if others.any(|other| difference(other, way).is_none()) {
        return None;
    }
    let (namespace, name) = (&theirs.namespace, &known.name);
    let what = format!("the kubeconfig in Linkerd's Secret {namespace}/{name} has {what}");
    Some(Finding::warning(what).fixed_by(&flags.link()))
}

/// What differs from the way of the Link, if that is known.
fn difference(link: &LinkSnapshot, way: &Identity) -> Option<String> {
    let set = link.link.annotations();
    let set = set.get(labels::DISCOVERY_API_SERVER);
    if let Some(at) = set.filter(|_| is_through_gateway(&link.link)) {
        let differs = server_of(&at.parse().ok()?) != way.server;
        return differs.then(|| format!("the server {}, and the Link names {at}", way.server));
    }
    let own = &own(link)?.identity;
    if own.server != way.server {
        return Some(format!(
            "the server {}, and the controller's has {}",
            way.server, own.server
        ));
    }
    let what = if own.authorities != way.authorities {
        "certificate authority"
    } else if own.way != way.way {
        "proxy-url or tls-server-name"
    } else {
        return None;
    };
    Some(format!("another {what} than the controller's"))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
    use serde_json::json;

    use super::*;
    use crate::clusters::{
        fixtures::{self, identity},
        snapshot::{LinkCredentials, LinkerdCredentials},
    };

    const DISCOVERY: &str = r#"{"addresses":["192.0.2.7"],"port":4143,"identity":"gw","service":"mc/api","discovery":true}"#;
    const CONTROLLER_ONLY: &str =
        r#"{"addresses":["192.0.2.7"],"port":4143,"identity":"gw","service":"mc/api"}"#;

    /// A Link that needs Linkerd, with these annotations, whose own Secret leads there.
    fn link(annotations: &[(&str, &str)], own: Option<Identity>) -> LinkSnapshot {
        let mut link = fixtures::link("east", &json!({}));
        link.link.spec.remote_discovery_selector = Some(LabelSelector::default());
        let annotations = annotations.iter();
        let annotations = annotations.map(|(key, value)| ((*key).into(), (*value).into()));
        link.link.metadata.annotations = Some(annotations.collect());
        let own = own.ok_or_else(|| "forbidden".into());
        link.credentials = Some(own.map(|identity| LinkCredentials {
            identity,
            ..LinkCredentials::default()
        }));
        link
    }

    fn found(link: &LinkSnapshot, links: &[LinkSnapshot], theirs: Option<Identity>) -> String {
        let known = LinkerdCredentials {
            name: "of-east".into(),
            identity: theirs,
            ..LinkerdCredentials::default()
        };
        let theirs = Destination {
            namespace: "linkerd".into(),
            credentials: [("east".to_owned(), known)].into(),
            ..Destination::default()
        };
        let found = leads_elsewhere(link, links, &theirs, &ClusterFlags::default());
        let found = found.map(|found| found.evidence).unwrap_or_default();
        let begin = "the kubeconfig in Linkerd's Secret linkerd/of-east has ";
        found.strip_prefix(begin).unwrap_or(&found).to_owned()
    }

    #[test]
    fn linkerds_way_is_that_of_the_controller_unless_the_link_says_another() {
        let direct = &[][..];
        let both = &[(labels::API_GATEWAY, DISCOVERY)][..];
        let at = "https://API.example/";
        let only = [
            (labels::API_GATEWAY, CONTROLLER_ONLY),
            (labels::DISCOVERY_API_SERVER, at),
        ];
        let (east, gateway) = (
            || identity("east.example:443", "ca"),
            || identity("api-east.mc.svc:8443", "ca"),
        );
        let proxied = || Identity {
            way: "proxy".into(),
            ..east()
        };
        for (set, own, theirs, expected) in [
            (direct, east(), east(), ""),
            (
                direct,
                east(),
                identity("bad.example:443", "ca"),
                "the server bad.example:443, and the controller's has east.example:443",
            ),
            (
                direct,
                east(),
                identity("east.example:443", "bad"),
                "another certificate authority than the controller's",
            ),
            (
                direct,
                east(),
                proxied(),
                "another proxy-url or tls-server-name than the controller's",
            ),
            (both, gateway(), gateway(), ""),
            (
                both,
                gateway(),
                east(),
                "the server east.example:443, and the controller's has api-east.mc.svc:8443",
            ),
            (&only, gateway(), identity("api.example:443", "other"), ""),
            (
                &only,
                gateway(),
                gateway(),
                "the server api-east.mc.svc:8443, and the Link names https://API.example/",
            ),
            // Left from before the Link went through the gateway: Linkerd is not needed.
            (&only[..1], gateway(), east(), ""),
        ] {
            let link = link(set, Some(own));
            assert_eq!(
                found(&link, &[], Some(theirs.clone())),
                expected,
                "{set:?} {theirs:?}"
            );
        }
    }

    #[test]
    fn what_is_unknown_or_the_way_of_another_link_to_the_cluster_is_no_problem() {
        let (here, there) = (
            || identity("east.example:443", "ca"),
            || identity("there.example:443", "ca"),
        );
        let of = |own| link(&[], own);
        assert_eq!(found(&of(None), &[], Some(there())), "");
        assert_eq!(found(&of(Some(here())), &[], None), "");
        for (own, is_right) in [(Some(there()), true), (None, true), (Some(here()), false)] {
            let mut other = of(own);
            other.link.metadata.namespace = Some("other".into());
            let found = found(&of(Some(here())), &[other], Some(there()));
            assert_eq!(found.is_empty(), is_right, "{found}");
        }
    }
}
