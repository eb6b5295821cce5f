//! What authorities are made, and which are refused.

use rcgen::{DnType, IsCa, KeyPair, PKCS_ED25519};
use x509_parser::extensions::GeneralName;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

fn now() -> Timestamp {
    "2026-11-29T12:00:00Z".parse().unwrap()
}

fn wanted(trust_domain: &str) -> IssuerRequest {
    IssuerRequest {
        linkerd: "linkerd".to_owned(),
        trust_domain: trust_domain.to_owned(),
        lifetime: HOUR,
        signs_issuer: false,
    }
}

fn anchor_of(made: &KeyedCertificate) -> anyhow::Result<Anchor> {
    Anchor::read(made.certificate.as_bytes(), made.key.as_bytes())
}

/// An anchor that lives for ten hours, after this change.
fn changed(change: impl FnOnce(&mut CertificateParams)) -> KeyedCertificate {
    let validity = (now(), 10 * HOUR);
    let mut params = authority("root", BasicConstraints::Unconstrained, validity).unwrap();
    change(&mut params);
    let made = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    KeyedCertificate {
        certificate: made.pem(),
        key: made.key().serialize_pem(),
    }
}

#[test]
fn issuer_may_sign_the_names_of_its_trust_domain_alone() {
    // Names of more than 127 bytes have longer lengths.
    let long = format!("{0}.{0}.{0}.{0}.example", "a".repeat(55));
    for (domain, signs_issuer, depth) in [
        ("east.example", false, 0),
        ("east.example", true, 1),
        (&long, false, 0),
    ] {
        let anchor = anchor_of(&new_anchor(10 * HOUR, now()).unwrap()).unwrap();
        let request = IssuerRequest {
            signs_issuer,
            linkerd: "mesh".to_owned(),
            ..wanted(domain)
        };
        let made = anchor.issue(&request, now()).unwrap();
        let der = CertificateDer::from_pem_slice(made.certificate.as_bytes()).unwrap();
        let (_, issuer) = x509_parser::parse_x509_certificate(&der).unwrap();
        let constraints = issuer.name_constraints().unwrap().unwrap();
        assert!(constraints.critical);
        let permitted = constraints.value.permitted_subtrees.as_ref().unwrap();
        let bases: Vec<_> = permitted.iter().map(|subtree| &subtree.base).collect();
        let dns = format!("identity.mesh.{domain}");
        assert_eq!(
            bases,
            [&GeneralName::DNSName(&dns), &GeneralName::URI(domain)]
        );
        assert_eq!(constraints.value.excluded_subtrees, None);
        let basic = issuer.basic_constraints().unwrap().unwrap();
        assert!(basic.critical && basic.value.ca);
        assert_eq!(basic.value.path_len_constraint, Some(depth));
        let validity = issuer.validity();
        assert_eq!(validity.not_before.timestamp(), now().as_second() - 60);
        assert_eq!(validity.not_after.timestamp(), now().as_second() + 3600);
        issuer
            .verify_signature(Some(anchor.parsed().unwrap().public_key()))
            .unwrap();
        // The key is the one of the certificate, and proxies accept P-256 alone.
        let key = read_key(made.key.as_bytes()).unwrap();
        assert_eq!(issuer.public_key().raw, key.subject_public_key_info());
        assert_eq!(key.algorithm(), &rcgen::PKCS_ECDSA_P256_SHA256);
        let names = SignableNames::below([&*der]).unwrap();
        assert!(names.includes(domain) && !names.includes("west.example"));
        assert!(!names.dns_outside(domain) && !names.uris_outside(domain));
    }
}

#[test]
fn keys_as_step_and_openssl_write_them_are_read() {
    // `openssl ecparam -name prime256v1 -genkey`, with the parameters of the curve.
    let certificate = include_bytes!("testdata/sec1.crt");
    let key = include_bytes!("testdata/sec1.key");
    let now = "2027-01-01T00:00:00Z".parse().unwrap();
    let anchor = Anchor::read(certificate, key).unwrap();
    anchor.issue(&wanted("east.example"), now).unwrap();
}

#[test]
fn anchors_that_cannot_sign_this_issuer_are_refused() {
    let depth =
        |depth| changed(|params| params.is_ca = IsCa::Ca(BasicConstraints::Constrained(depth)));
    let of_west = || permitted("identity.linkerd.west.example", "west.example");
    let cases: [(KeyedCertificate, IssuerRequest, &str); 8] = [
        (
            changed(|params| params.is_ca = IsCa::NoCa),
            wanted("east.example"),
            "not that of an authority",
        ),
        (
            changed(|params| params.key_usages = vec![KeyUsagePurpose::DigitalSignature]),
            wanted("east.example"),
            "not that of an authority",
        ),
        (
            depth(0),
            wanted("east.example"),
            "the path length of the trust anchor is 0, and this issuer needs 1",
        ),
        (
            depth(1),
            IssuerRequest {
                signs_issuer: true,
                ..wanted("east.example")
            },
            "the path length of the trust anchor is 1, and this issuer needs 2",
        ),
        (
            changed(|params| params.custom_extensions = vec![of_west()]),
            wanted("east.example"),
            "may not sign names of the trust domain east.example",
        ),
        (
            changed(|params| params.not_after = params.not_before),
            wanted("east.example"),
            "and not now",
        ),
        (
            changed(|params| params.not_before = params.not_after),
            wanted("east.example"),
            "and not now",
        ),
        (
            changed(|_| {}),
            IssuerRequest {
                lifetime: 11 * HOUR,
                ..wanted("east.example")
            },
            "valid after the trust anchor, which ends on 2026-11-29 22:00 UTC",
        ),
    ];
    for (made, request, expected) in cases {
        let refused = anchor_of(&made).unwrap().issue(&request, now());
        let why = refused.unwrap_err().to_string();
        assert!(why.contains(expected), "{why}");
    }
    // One that is constrained to this trust domain, or to the depth that is needed, can.
    for made in [
        changed(|params| params.custom_extensions = vec![of_west()]),
        depth(1),
        changed(|params| {
            params
                .distinguished_name
                .push(DnType::OrganizationName, "Wést");
        }),
    ] {
        let anchor = anchor_of(&made).unwrap();
        anchor.issue(&wanted("west.example"), now()).unwrap();
    }
}

#[test]
fn files_that_are_no_anchor_are_refused() {
    let [one, other] = [(), ()].map(|()| new_anchor(HOUR, now()).unwrap());
    let both = format!("{}{}", one.certificate, other.certificate);
    let sealed =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let other_kind = KeyPair::generate_for(&PKCS_ED25519)
        .unwrap()
        .serialize_pem();
    for (certificate, key, expected) in [
        (
            &one.certificate,
            &*other.key,
            "the key does not belong to the certificate",
        ),
        (
            &one.certificate,
            &other_kind,
            "the key does not belong to the certificate",
        ),
        (&both, &one.key, "has 2 certificates, not one"),
        (&one.key, &one.key, "has 0 certificates, not one"),
        (
            &one.certificate,
            sealed,
            "cannot read the key of the trust anchor",
        ),
        (
            &one.certificate,
            &one.certificate,
            "cannot read the key of the trust anchor",
        ),
    ] {
        let refused = Anchor::read(certificate.as_bytes(), key.as_bytes());
        let why = refused.err().map(|why| why.to_string()).unwrap_or_default();
        assert!(why.contains(expected), "{why}");
    }
}
