//! Keys and certificates: one authority a control plane, for its serving certificate and for everyone who logs in with
//! a certificate; and a trust anchor, as Linkerd's identity has one.

use anyhow::Context as _;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// A certificate with its key, both as PEM.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// The authority that a control plane trusts.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new(name: &str) -> anyhow::Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?);
        Ok(Self(issuer.context("failed to make an authority")?))
    }

    pub(crate) fn certificate(&self) -> String {
        self.0.pem()
    }

    /// A certificate of the API server.
    pub(crate) fn server(&self) -> anyhow::Result<Identity> {
        let names = [
            "127.0.0.1",
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
        ];
        let mut params = CertificateParams::new(names.map(String::from))?;
        params
            .distinguished_name
            .push(DnType::CommonName, "kube-apiserver");
        self.issue(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A certificate that the API server takes as `user`, a member of `groups`.
    pub(crate) fn client(&self, user: &str, groups: &[&str]) -> anyhow::Result<Identity> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        for group in groups {
            params
                .distinguished_name
                .push(DnType::OrganizationName, *group);
        }
        self.issue(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn issue(
        &self,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
    ) -> anyhow::Result<Identity> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate()?;
        let certificate = params
            .signed_by(&key, &self.0)
            .context("failed to sign a certificate")?;
        Ok(Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

/// A fresh pair of keys, private and public, as PEM.
pub(crate) fn key_pair() -> anyhow::Result<(String, String)> {
    let key = KeyPair::generate()?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

/// A new self-signed trust anchor, as PEM: what Linkerd holds in `identityTrustAnchorsPEM`.
pub fn trust_anchor() -> anyhow::Result<String> {
    Ok(Authority::new("root.linkerd.cluster.local")?.certificate())
}
