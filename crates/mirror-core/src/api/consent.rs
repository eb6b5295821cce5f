//! To which clusters a Service is exported, as an annotation of the Service says.

use std::{collections::BTreeSet, fmt};

use thiserror::Error;

use super::{
    labels::EXPORT_TO,
    names::{MAX_SUBDOMAIN, is_dns_label},
    text::short,
};

/// Maximum number of trust domains in one annotation.
const MOST: usize = 64;

/// The clusters to which a Service is exported, by the trust domains of their workloads. A gateway can verify these, unlike
/// names of clusters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExportConsent {
    /// All clusters.
    All,
    /// Those with one of these trust domains.
    Only(BTreeSet<String>),
}

/// Why the annotation is invalid. The Service is then exported to no cluster.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConsentError {
    /// It has no text.
    #[error("it is empty (leave it out to export to all clusters)")]
    Empty,
    /// One of the items is no trust domain.
    #[error("invalid trust domain {0:?}")]
    Domain(String),
    /// It names too many.
    #[error("more than {MOST} trust domains")]
    TooMany,
}

impl ExportConsent {
    /// Reads the annotation of a Service.
    pub fn of<'a>(annotation: impl Fn(&str) -> Option<&'a str>) -> Result<Self, ConsentError> {
        let Some(text) = annotation(EXPORT_TO) else {
            return Ok(Self::All);
        };
        if text.trim().is_empty() {
            return Err(ConsentError::Empty);
        }
        let mut domains = BTreeSet::new();
        for domain in text.split(',').map(str::trim) {
            if !is_trust_domain(domain) {
                return Err(ConsentError::Domain(short(domain)));
            }
            domains.insert(domain.to_owned());
            if domains.len() > MOST {
                return Err(ConsentError::TooMany);
            }
        }
        Ok(Self::Only(domains))
    }

    /// Whether workloads of this trust domain may use the Service.
    pub fn includes(&self, trust_domain: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(domains) => domains.contains(trust_domain),
        }
    }
}

impl fmt::Display for ExportConsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all clusters"),
            Self::Only(domains) => {
                let domains: Vec<&str> = domains.iter().map(String::as_str).collect();
                f.write_str(&domains.join(", "))
            }
        }
    }
}

/// Whether a text can be a trust domain: a DNS name in lower case.
fn is_trust_domain(text: &str) -> bool {
    text.len() <= MAX_SUBDOMAIN && text.split('.').all(is_dns_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: Option<&str>) -> Result<ExportConsent, ConsentError> {
        ExportConsent::of(|key| text.filter(|_| key == EXPORT_TO))
    }

    #[test]
    fn service_is_exported_to_the_trust_domains_that_it_names() {
        let all = of(None).unwrap();
        assert!(all.includes("west.example"));
        assert_eq!(all.to_string(), "all clusters");
        for (text, shown) in [
            ("west.example", "west.example"),
            (
                " west.example , north.example",
                "north.example, west.example",
            ),
            ("west.example,west.example", "west.example"),
            ("cluster.local", "cluster.local"),
        ] {
            let consent = of(Some(text)).unwrap();
            assert_eq!(consent.to_string(), shown, "{text:?}");
            let first = shown.split(", ").next().unwrap();
            assert!(consent.includes(first), "{text:?}");
            for other in ["", "example", "east.example", "a.west.example"] {
                assert!(!consent.includes(other), "{text:?} {other:?}");
            }
        }
    }

    #[test]
    fn invalid_annotations_export_to_nobody_and_say_why() {
        let long = format!("{}a", "a.".repeat(127));
        let many: Vec<String> = (0..65).map(|n| format!("c{n}")).collect();
        for (text, why) in [
            ("", "it is empty (leave it out to export to all clusters)"),
            (
                " \n",
                "it is empty (leave it out to export to all clusters)",
            ),
            (",", "invalid trust domain \"\""),
            ("west.example,", "invalid trust domain \"\""),
            ("*", "invalid trust domain \"*\""),
            ("*.example", "invalid trust domain \"*.example\""),
            ("West.example", "invalid trust domain \"West.example\""),
            ("west.example.", "invalid trust domain \"west.example.\""),
            (
                "west.example north.example",
                "invalid trust domain \"west.example north.example\"",
            ),
            (
                "spiffe://west.example",
                "invalid trust domain \"spiffe://west.example\"",
            ),
            (&long, &format!("invalid trust domain {:?}", short(&long))),
            (&many.join(","), "more than 64 trust domains"),
        ] {
            assert_eq!(of(Some(text)).unwrap_err().to_string(), why, "{text:?}");
        }
    }
}
