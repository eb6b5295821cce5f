//! Issuers that may sign some names alone, and clusters with one trust domain.

use rcgen::{CertificateParams, CustomExtension, KeyPair};

use super::*;
use crate::clusters::certificates::IssuerCertificate;

/// An issuer that may sign names of this cluster alone.
pub fn issuer(from: &str, until: &str) -> IssuerCertificate {
    let (own, _) = authority(&["DNS:identity.linkerd.west.example", "URI:west.example"]);
    IssuerCertificate {
        validity: valid(from, until),
        chain: vec![own],
    }
}

/// A certificate that permits these names, as DER and PEM.
fn authority(permitted: &[&str]) -> (Vec<u8>, String) {
    let tlv =
        |tag: u8, content: &[u8]| [&[tag, u8::try_from(content.len()).unwrap()], content].concat();
    let subtrees = permitted.iter().flat_map(|name| {
        let (kind, base) = name.split_once(':').unwrap();
        let tag = if kind == "DNS" { 0x82 } else { 0x86 };
        tlv(0x30, &tlv(tag, base.as_bytes()))
    });
    let subtrees: Vec<u8> = subtrees.collect();
    let mut params = CertificateParams::default();
    if !subtrees.is_empty() {
        let content = tlv(0x30, &tlv(0xa0, &subtrees));
        let constraints = CustomExtension::from_oid_content(&[2, 5, 29, 30], content);
        params.custom_extensions = vec![constraints];
    }
    let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
    (made.der().to_vec(), made.pem())
}

/// An issuer below these authorities, the lowest one first, with the names that each permits.
pub fn chained(snapshot: &mut FullSnapshot, permitted: &[&[&str]]) {
    let issuer = snapshot.issuer.as_mut().unwrap();
    let chain = permitted.iter().map(|names| authority(names));
    issuer.chain = chain.map(|(der, _)| der).collect();
}

/// A trust anchor with the name of the authorities of [`chained`], which permits names of this cluster alone.
pub fn constrained_anchor() -> String {
    authority(&["DNS:west.example", "URI:west.example"]).1
}

#[test]
fn clusters_with_one_trust_domain_are_listed() {
    let described = |theirs: &str| {
        let mut snapshot = well();
        target(&mut snapshot).config = Ok(config_in(theirs));
        let results = evaluate(&snapshot);
        let found = find(&results, "trust domains of linked clusters are known").unwrap();
        assert_eq!(found.level, None);
        found.description.clone()
    };
    let plain = "trust domains of linked clusters are known";
    assert_eq!(described("east.example"), plain);
    assert_eq!(
        described("west.example"),
        format!(
            "{plain}\n\t* east: west.example, as this cluster, so policies by name cannot tell its workloads from those of \
             this cluster"
        )
    );
}
