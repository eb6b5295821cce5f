//! Keys and certificates of the mesh: one root for all clusters, an issuer for each, and the signing requests of
//! proxies.

use std::{fs, path::Path};

use anyhow::Context as _;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    GeneralSubtree, IsCa, KeyPair, KeyUsagePurpose, NameConstraints,
};

use super::cluster::linkerd_mc;

/// The trust domain of clusters that share one.
const COMMON: &str = "cluster.local";

/// Which names the workloads of a cluster have, and which ones its issuer may sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// One trust domain for all clusters. Each issuer may sign all names.
    Common,
    /// A trust domain for each cluster. Its issuer may sign no other names.
    Own,
}

impl Trust {
    /// The trust domain of a cluster.
    pub(crate) fn domain(self, cluster: &str) -> String {
        match self {
            Self::Common => COMMON.to_owned(),
            Self::Own => format!("{cluster}.example"),
        }
    }
}

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

    /// A new issuer under it for this trust domain. The command that users have makes those that are constrained.
    pub(crate) fn issuer(&self, trust: Trust, domain: &str) -> anyhow::Result<Issuer> {
        if trust == Trust::Own {
            return self.constrained(domain);
        }
        self.sign(&authority(
            &format!("identity.linkerd.{domain}"),
            BasicConstraints::Constrained(0),
        )?)
    }

    /// An issuer that may sign DNS names of this trust domain alone, and all URIs.
    pub(crate) fn constrained_by_dns(&self, domain: &str) -> anyhow::Result<Issuer> {
        let name = format!("identity.linkerd.{domain}");
        let mut params = authority(&name, BasicConstraints::Constrained(0))?;
        params.name_constraints = Some(NameConstraints {
            permitted_subtrees: vec![GeneralSubtree::DnsName(name)],
            excluded_subtrees: Vec::new(),
        });
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> anyhow::Result<Issuer> {
        let key = KeyPair::generate()?;
        let certificate = params
            .signed_by(&key, &self.0)
            .context("failed to sign an issuer")?;
        Ok(Issuer {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }

    fn constrained(&self, domain: &str) -> anyhow::Result<Issuer> {
        let folder = tempfile::tempdir()?;
        let path = |file: &str| folder.path().join(file).display().to_string();
        let [anchor, anchor_key] = ["ca.crt", "ca.key"].map(path);
        fs::write(&anchor, self.certificate())?;
        fs::write(&anchor_key, self.0.key().serialize_pem())?;
        let name = path(domain);
        let files = ["--anchor", &anchor, "--anchor-key", &anchor_key];
        let issuer = ["trust", "issuer", &name, "--trust-domain", domain];
        linkerd_mc(Path::new("none"), &[&issuer[..], &files].concat())?;
        Ok(Issuer {
            certificate: fs::read_to_string(format!("{name}.crt"))?,
            key: fs::read_to_string(format!("{name}.key"))?,
        })
    }
}

/// The identity of a ServiceAccount of a cluster in the common trust domain.
pub(crate) fn name(account: &str, namespace: &str) -> String {
    name_in(COMMON, account, namespace)
}

/// The identity of a ServiceAccount.
pub(crate) fn name_in(trust_domain: &str, account: &str, namespace: &str) -> String {
    format!("{account}.{namespace}.serviceaccount.identity.linkerd.{trust_domain}")
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
