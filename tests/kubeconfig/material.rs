//! Certificates and keys of the kinds that kubeconfigs have.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair,
    PKCS_ED25519, SigningKey as _,
};

/// The names in the certificates of servers.
const NAMES: [&str; 6] = [
    "127.0.0.1",
    "0.0.0.0",
    "::1",
    "localhost",
    "api.invalid",
    "other.invalid",
];

/// A certificate and its key, as PEM.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// A certificate authority, and what it has issued.
pub(crate) struct Material {
    pub(crate) authority: String,
    pub(crate) server: Pair,
    pub(crate) client: Pair,
    /// The client's certificate in version 1 of X.509, without extensions.
    pub(crate) v1: String,
    pub(crate) rsa: Pair,
    pub(crate) rsa_v1: String,
    pub(crate) ed25519: Pair,
}

/// A key of RSA, which takes long to generate. It is used for nothing else.
const RSA: &str = include_str!("rsa.key");

impl Material {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let issued = |names: &[&str], key: KeyPair| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            let mut params = CertificateParams::new(names).unwrap();
            params.distinguished_name.push(DnType::CommonName, "client");
            let certificate = params.signed_by(&key, &issuer).unwrap();
            let pair = Pair {
                certificate: certificate.pem(),
                key: key.serialize_pem(),
            };
            (pair, without_extensions(&certificate, issuer.key()))
        };
        let (client, v1) = issued(&[], KeyPair::generate().unwrap());
        let (rsa, rsa_v1) = issued(&[], KeyPair::from_pem(RSA).unwrap());
        Self {
            authority: issuer.pem(),
            server: issued(&NAMES, KeyPair::generate().unwrap()).0,
            client,
            v1,
            rsa,
            rsa_v1,
            ed25519: issued(&[], KeyPair::generate_for(&PKCS_ED25519).unwrap()).0,
        }
    }
}

/// A certificate in version 1, as OpenSSL makes it by default.
fn without_extensions(certificate: &Certificate, issuer: &KeyPair) -> String {
    let whole = certificate.der();
    let parts = children(children(whole)[0]);
    let algorithm = children(whole)[1];
    // All but the version at the start and the extensions at the end.
    let kept: Vec<u8> = parts
        .iter()
        .filter(|part| part[0] & 0xe0 != 0xa0)
        .flat_map(|part| part.to_vec())
        .collect();
    let content = sequence(&kept);
    let mut signature = vec![0];
    signature.extend(issuer.sign(&content).unwrap());
    let signature = tagged(0x03, &signature);
    let whole = sequence(&[content, algorithm.to_vec(), signature].concat());
    pem("CERTIFICATE", &whole)
}

/// The key in PKCS #8 in the older encoding of its kind: PKCS #1 or SEC 1.
pub(crate) fn older(pkcs8: &str, label: &str) -> String {
    let base64: String = pkcs8
        .lines()
        .filter(|line| !line.starts_with('-'))
        .collect();
    let whole = BASE64_STANDARD.decode(base64).unwrap();
    let parts = children(&whole);
    let (algorithm, inner) = (parts[1], parts[2]);
    let inner = &inner[content(inner).0..];
    if label.starts_with("RSA") {
        return pem(label, inner);
    }
    // The curve is in the key, too.
    let (start, public) = children(inner)
        .into_iter()
        .partition::<Vec<_>, _>(|part| part[0] != 0xa1);
    let curve = tagged(0xa0, children(algorithm)[1]);
    pem(
        label,
        &sequence(&[start.concat(), curve, public.concat()].concat()),
    )
}

pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    let base64 = BASE64_STANDARD.encode(der);
    let lines = base64.as_bytes().chunks(64).map(String::from_utf8_lossy);
    let lines: Vec<_> = lines.collect();
    format!(
        "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
        lines.join("\n")
    )
}

/// Where the content of a DER value starts and ends.
fn content(value: &[u8]) -> (usize, usize) {
    let short = usize::from(value[1]);
    if short < 0x80 {
        return (2, 2 + short);
    }
    let start = 2 + (short - 0x80);
    let length = value[2..start]
        .iter()
        .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    (start, start + length)
}

/// The values in a DER value.
fn children(value: &[u8]) -> Vec<&[u8]> {
    let (start, end) = content(value);
    let mut rest = &value[start..end];
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (child, after) = rest.split_at(content(rest).1);
        found.push(child);
        rest = after;
    }
    found
}

fn sequence(of: &[u8]) -> Vec<u8> {
    tagged(0x30, of)
}

fn tagged(tag: u8, of: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(of.len()).unwrap().to_be_bytes();
    let length = match (high, low) {
        (0, 0..0x80) => vec![low],
        (0, _) => vec![0x81, low],
        _ => vec![0x82, high, low],
    };
    [&[tag], &length[..], of].concat()
}
