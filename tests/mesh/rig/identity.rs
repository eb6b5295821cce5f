//! Keys and certificates of the mesh: one root for all clusters, an issuer for each, and the signing requests of
//! proxies.

use anyhow::Context as _;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
    KeyUsagePurpose,
};

/// The root that all clusters trust.
pub(crate) struct Root(CertifiedIssuer<'static, KeyPair>);

/// The issuer of a cluster, as PEM.
pub(crate) struct Issuer {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// What a proxy needs to ask for its certificate.
pub(crate) struct Request {
    /// The key, PKCS #8 as DER.
    pub(crate) key: Vec<u8>,
    /// The signing request, as DER.
    pub(crate) request: Vec<u8>,
}

impl Root {
    /// A new root.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let params = authority(
            "root.linkerd.cluster.local",
            BasicConstraints::Unconstrained,
        )?;
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?);
        Ok(Self(issuer.context("failed to make the root")?))
    }

    /// Its certificate, as PEM.
    pub(crate) fn certificate(&self) -> String {
        self.0.pem()
    }

    /// A new issuer under it.
    pub(crate) fn issuer(&self) -> anyhow::Result<Issuer> {
        let params = authority(
            "identity.linkerd.cluster.local",
            BasicConstraints::Constrained(0),
        )?;
        let key = KeyPair::generate()?;
        let certificate = params
            .signed_by(&key, &self.0)
            .context("failed to sign an issuer")?;
        Ok(Issuer {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

/// The identity of a ServiceAccount.
pub(crate) fn name(account: &str, namespace: &str) -> String {
    format!("{account}.{namespace}.serviceaccount.identity.linkerd.cluster.local")
}

/// A key and a signing request for this identity, with no other subject.
pub(crate) fn request(name: &str) -> anyhow::Result<Request> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new([name.to_owned()])?;
    params.distinguished_name = DistinguishedName::new();
    let request = params
        .serialize_request(&key)
        .context("failed to make a signing request")?;
    Ok(Request {
        key: key.serialize_der(),
        request: request.der().to_vec(),
    })
}

fn authority(name: &str, constraints: BasicConstraints) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new([name.to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(constraints);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}
