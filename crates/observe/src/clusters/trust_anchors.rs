//! Trust anchors: certificates that two meshes must share to trust each other. Compared as sets.

use std::collections::BTreeSet;

use rustls_pki_types::{CertificateDer, pem::PemObject as _};

use super::certificates::Validity;

/// Certificates, DER.
pub type Anchors = BTreeSet<Vec<u8>>;

/// Reads a PEM bundle. Order, repetition and text between certificates do not matter.
pub fn parse(pem: &str) -> Result<Anchors, String> {
    let mut anchors = Anchors::new();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|_| "invalid certificate".to_owned())?;
        anchors.insert(certificate.to_vec());
    }
    if anchors.is_empty() {
        return Err("no certificate found".to_owned());
    }
    Ok(anchors)
}

/// Describes a certificate by its subject, serial number and last day.
pub fn describe(der: &[u8]) -> String {
    let Ok((_, certificate)) = x509_parser::parse_x509_certificate(der) else {
        return "unreadable certificate".to_owned();
    };
    let until = Validity::of_der(der).map_or_else(
        || "unknown".to_owned(),
        |validity| validity.until.strftime("%Y-%m-%d").to_string(),
    );
    format!(
        "{} (serial {}, until {until})",
        certificate.subject(),
        certificate.raw_serial_as_string().replace(':', "")
    )
}

/// The subject of a certificate.
pub fn subject(der: &[u8]) -> String {
    let parsed = x509_parser::parse_x509_certificate(der);
    parsed.map_or_else(
        |_| "unreadable certificate".to_owned(),
        |(_, certificate)| certificate.subject().to_string(),
    )
}

/// Whether a certificate names this one as the authority above it.
pub fn signs(anchor: &[u8], certificate: &[u8]) -> bool {
    let parse = x509_parser::parse_x509_certificate;
    let (Ok((_, anchor)), Ok((_, certificate))) = (parse(anchor), parse(certificate)) else {
        return false;
    };
    anchor.subject().as_raw() == certificate.issuer().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clusters::fixtures::{A, B};

    #[test]
    fn a_bundle_is_a_set() {
        let both = parse(&format!("{A}{B}")).unwrap();
        assert_eq!(both.len(), 2);
        assert_eq!(both, parse(&format!("# first\n{B}\n\n{A}{B}")).unwrap());
        assert!(both.is_superset(&parse(A).unwrap()));
        assert_ne!(parse(A), parse(B));
    }

    #[test]
    fn bundle_without_certificate_is_an_error() {
        for text in [
            "",
            "no PEM",
            "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
        ] {
            parse(text).unwrap_err();
        }
    }

    #[test]
    fn certificate_is_described_by_subject_serial_and_last_day() {
        let anchors = parse(A).unwrap();
        let described = describe(anchors.first().unwrap());
        insta::assert_snapshot!(described, @"CN=root.linkerd.cluster.local (serial 00a1, until 2036-11-18)");
        assert_eq!(describe(b"no DER"), "unreadable certificate");
    }
}
