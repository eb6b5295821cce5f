//! Makes the certificates of a mesh: a trust anchor, and issuers below it that may sign the names of one cluster alone.

use std::time::Duration;

use anyhow::Context as _;
use hints::hint::{HintExt as _, fail};
use jiff::Timestamp;
use mirror_core::api::duration::utc_minute;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, DnType, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData as _,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject as _};
use x509_parser::{certificate::X509Certificate, time::ASN1Time};

use crate::signable_names::SignableNames;

/// By how much certificates are dated back, for clocks that are behind.
const BACKDATED: Duration = Duration::from_secs(60);
/// The name of trust anchors. Linkerd reads only their keys.
const ANCHOR: &str = "root.linkerd.cluster.local";
/// Extension `nameConstraints`, of RFC 5280.
const NAME_CONSTRAINTS: &[u64] = &[2, 5, 29, 30];
/// The algorithm of a key on the curve P-256, in PKCS #8.
const P256: &[u8] = &[
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
    0xce, 0x3d, 0x03, 0x01, 0x07,
];

/// A certificate and its key, as PEM.
#[derive(Debug)]
pub struct KeyedCertificate {
    /// The certificate.
    pub certificate: String,
    /// The key, in PKCS #8.
    pub key: String,
}

/// What the issuer of one cluster has to be.
#[derive(Clone, Debug)]
pub struct IssuerRequest {
    /// The namespace of Linkerd's control plane.
    pub linkerd: String,
    /// The trust domain of the cluster.
    pub trust_domain: String,
    /// How long it is valid.
    pub lifetime: Duration,
    /// Whether it signs Linkerd's issuer, and not the certificates of proxies.
    pub signs_issuer: bool,
}

/// A trust anchor that signs issuers.
pub struct Anchor {
    certificate: CertificateDer<'static>,
    key: KeyPair,
}

/// Makes a trust anchor, which may sign all names.
pub fn new_anchor(lifetime: Duration, now: Timestamp) -> anyhow::Result<KeyedCertificate> {
    let params = authority(ANCHOR, BasicConstraints::Unconstrained, (now, lifetime))?;
    let made = CertifiedIssuer::self_signed(params, KeyPair::generate()?);
    let made = made.context("cannot sign the trust anchor")?;
    Ok(KeyedCertificate {
        certificate: made.pem(),
        key: made.key().serialize_pem(),
    })
}

impl Anchor {
    /// Reads a certificate and its key.
    pub fn read(certificate: &[u8], key: &[u8]) -> anyhow::Result<Self> {
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
        let found = found.context("the certificate of the trust anchor is not valid PEM")?;
        let [certificate] = <[_; 1]>::try_from(found).map_err(|found| {
            fail(
                format!(
                    "the file of the trust anchor has {} certificates, not one",
                    found.len()
                ),
                "write the certificate that belongs to the key into a file of its own",
            )
        })?;
        let anchor = Self {
            certificate,
            key: read_key(key)?,
        };
        if anchor.parsed()?.public_key().raw != anchor.key.subject_public_key_info() {
            return Err(fail(
                "the key does not belong to the certificate of the trust anchor",
                "pass both files of the same trust anchor",
            ));
        }
        Ok(anchor)
    }

    fn parsed(&self) -> anyhow::Result<X509Certificate<'_>> {
        let parsed = x509_parser::parse_x509_certificate(&self.certificate);
        let (_, parsed) = parsed.context("cannot read the certificate of the trust anchor")?;
        Ok(parsed)
    }

    /// Makes an issuer that may sign names of one trust domain alone.
    pub fn issue(
        &self,
        wanted: &IssuerRequest,
        now: Timestamp,
    ) -> anyhow::Result<KeyedCertificate> {
        self.refuse(wanted, now)?;
        let (name, depth) = if wanted.signs_issuer {
            ("ca", 1)
        } else {
            ("identity", 0)
        };
        let domain = format!("{}.{}", wanted.linkerd, wanted.trust_domain);
        let name = format!("{name}.{domain}");
        let validity = (now, wanted.lifetime);
        let mut params = authority(&name, BasicConstraints::Constrained(depth), validity)?;
        params.use_authority_key_identifier_extension = true;
        let permitted = permitted(&format!("identity.{domain}"), &wanted.trust_domain);
        params.custom_extensions = vec![permitted];
        let key = KeyPair::generate()?;
        let issuer = Issuer::from_ca_cert_der(&self.certificate, &self.key);
        let made = issuer.and_then(|issuer| params.signed_by(&key, &issuer));
        let made = made.context("cannot sign the issuer")?;
        let (_, parsed) = x509_parser::parse_x509_certificate(made.der())?;
        anyhow::ensure!(
            parsed.issuer().as_raw() == self.parsed()?.subject().as_raw(),
            "cannot write the subject of the trust anchor into the issuer"
        );
        Ok(KeyedCertificate {
            certificate: made.pem(),
            key: key.serialize_pem(),
        })
    }

    /// Why nobody would accept what this anchor signs.
    fn refuse(&self, wanted: &IssuerRequest, now: Timestamp) -> anyhow::Result<()> {
        let anchor = self.parsed()?;
        let basic = anchor.basic_constraints()?;
        let basic = basic.filter(|basic| basic.value.ca);
        let usage = anchor.key_usage()?;
        let may_sign = usage.is_none_or(|usage| usage.value.key_cert_sign());
        let Some(basic) = basic.filter(|_| may_sign) else {
            return Err(fail(
                "the certificate of the trust anchor is not that of an authority, so it cannot sign an issuer",
                "make a trust anchor with `linkerd-mc trust anchor ca`",
            ));
        };
        let needed = 1 + u32::from(wanted.signs_issuer);
        if let Some(length) = basic.value.path_len_constraint
            && length < needed
        {
            return Err(fail(
                format!(
                    "the path length of the trust anchor is {length}, and this issuer needs {needed}"
                ),
                "make another trust anchor with `linkerd-mc trust anchor ca`",
            ));
        }
        let names = SignableNames::below([&*self.certificate]);
        let names = names.context("cannot read the name constraints of the trust anchor")?;
        if !names.includes(&wanted.trust_domain) {
            return Err(fail(
                format!(
                    "the trust anchor may not sign names of the trust domain {}",
                    wanted.trust_domain
                ),
                "pass a trust domain that its name constraints permit, or make another trust anchor",
            ));
        }
        let time = |at: ASN1Time| Timestamp::from_second(at.timestamp());
        let (from, until) = (
            time(anchor.validity().not_before)?,
            time(anchor.validity().not_after)?,
        );
        let left = Duration::try_from(until.duration_since(now)).unwrap_or_default();
        if left.is_zero() || from > now {
            return Err(fail(
                format!(
                    "the trust anchor is valid from {} until {}, and not now",
                    utc_minute(from),
                    utc_minute(until)
                ),
                "make a new trust anchor with `linkerd-mc trust anchor ca`, and look at docs/trust.md for how to change it",
            ));
        }
        if wanted.lifetime > left {
            return Err(fail(
                format!(
                    "the issuer would be valid after the trust anchor, which ends on {}",
                    utc_minute(until)
                ),
                format!("pass --lifetime={}h or less", left.as_secs() / 3600),
            ));
        }
        Ok(())
    }
}

/// Reads a key in PKCS #8, or in SEC 1 as step and openssl write it.
fn read_key(pem: &[u8]) -> anyhow::Result<KeyPair> {
    let hint = || {
        "the key has to be ECDSA P-256, without a password; convert it with `openssl pkcs8 -topk8 -nocrypt -in ca.key -out \
         plain.key`"
            .to_owned()
    };
    let what = || "cannot read the key of the trust anchor".to_owned();
    let key = PrivateKeyDer::from_pem_slice(pem).hint(what, hint)?;
    let key = match key {
        PrivateKeyDer::Sec1(key) => {
            let content = [
                &[0x02, 0x01, 0x00][..],
                P256,
                &tlv(0x04, key.secret_sec1_der()),
            ];
            PrivatePkcs8KeyDer::from(tlv(0x30, &content.concat())).into()
        }
        key => key,
    };
    KeyPair::try_from(&key).hint(what, hint)
}

/// The certificate of an authority, as [`ANCHOR`] and issuers have it.
fn authority(
    name: &str,
    constraints: BasicConstraints,
    (now, lifetime): (Timestamp, Duration),
) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new([name.to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(constraints);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let too_long = || fail("invalid --lifetime: it is too long", "pass a shorter one");
    let until = now.checked_add(lifetime).map_err(|_| too_long())?;
    let time = |at: Timestamp| ASN1Time::from_timestamp(at.as_second());
    params.not_before = time(now - BACKDATED)?.to_datetime();
    params.not_after = time(until)?.to_datetime();
    Ok(params)
}

/// The extension that permits DNS names below `dns` and URIs of the host `uri` alone. `rcgen` cannot write constraints of
/// URIs.
fn permitted(dns: &str, uri: &str) -> CustomExtension {
    let subtree = |tag: u8, base: &str| tlv(0x30, &tlv(tag, base.as_bytes()));
    let subtrees = [subtree(0x82, dns), subtree(0x86, uri)].concat();
    let content = tlv(0x30, &tlv(0xa0, &subtrees));
    let mut extension = CustomExtension::from_oid_content(NAME_CONSTRAINTS, content);
    extension.set_criticality(true);
    extension
}

/// A value in DER, of at most 64 KiB.
fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let [.., high, low] = content.len().to_be_bytes();
    let length: &[u8] = match content.len() {
        0..0x80 => &[low],
        0x80..0x100 => &[0x81, low],
        _ => &[0x82, high, low],
    };
    [&[tag], length, content].concat()
}

#[cfg(test)]
mod tests;
