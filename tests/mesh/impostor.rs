//! A client without a proxy: it speaks TLS by itself, with a certificate that was made by hand.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use rcgen::{CertificateParams, DistinguishedName, ExtendedKeyUsagePurpose, KeyPair, SanType};
use rustls::{ClientConfig, RootCertStore, crypto::ring::default_provider};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use crate::rig::Issuer;

/// The protocol in which proxies say where a connection should lead, and how such a connection begins.
const ALPN: &[u8] = b"transport.l5d.io/v1";
const PREFACE: &[u8] = b"transport.l5d.io/v1\r\n\r\n";
/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(10);

/// A gateway, as an impostor sees it.
pub(crate) struct Gate<'g> {
    pub(crate) address: SocketAddr,
    pub(crate) identity: &'g str,
    /// The trust anchor, as PEM.
    pub(crate) anchor: &'g str,
    /// Host and port of a Service behind it.
    pub(crate) service: (&'g str, u16),
    /// The authority of a request of HTTP. Unlike a proxy, an impostor can choose another one than the Service. Without it,
    /// the gateway gets bytes whose protocol it does not know.
    pub(crate) authority: Option<&'g str>,
}

impl Gate<'_> {
    /// Sends a request as a workload with these names, which this issuer has signed: `DNS:…` or `URI:…`. Returns the first
    /// line of the answer, or an error if the proxy ends the connection.
    pub(crate) async fn ask_as(&self, issuer: &Issuer, names: &[&str]) -> anyhow::Result<String> {
        let exchange = async {
            let stream = TcpStream::connect(self.address).await?;
            let connector = TlsConnector::from(Arc::new(self.config(issuer, names)?));
            let name = ServerName::try_from(self.identity.to_owned())?;
            let mut stream = connector.connect(name, stream).await?;
            stream.write_all(&self.request()?).await?;
            let mut answer = Vec::new();
            // The end of the connection may be abrupt, after the answer.
            let read = stream.read_to_end(&mut answer).await;
            if answer.is_empty() {
                read?;
            }
            let answer = String::from_utf8_lossy(&answer);
            let first = answer.lines().next().context("no answer")?;
            anyhow::Ok(first.to_owned())
        };
        timeout(LIMIT, exchange)
            .await
            .context("no answer in time")?
    }

    /// A header that leads to the Service, and a request. The header is a message in the encoding of protocol buffers: the
    /// port (1), the name (2), and for HTTP the protocol (3), HTTP/1 (its field 1).
    fn request(&self) -> anyhow::Result<Vec<u8>> {
        let (host, port) = self.service;
        let length = u8::try_from(host.len())?;
        let mut header = vec![
            0x08,
            u8::try_from(port & 0x7f)? | 0x80,
            u8::try_from(port >> 7)?,
        ];
        header.extend([&[0x12, length], host.as_bytes()].concat());
        if self.authority.is_some() {
            header.extend([0x1a, 0x02, 0x0a, 0x00]);
        }
        let host = self.authority.unwrap_or(host);
        let size = u32::try_from(header.len())?.to_be_bytes();
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        Ok([PREFACE, &size, &header, request.as_bytes()].concat())
    }

    fn config(&self, issuer: &Issuer, names: &[&str]) -> anyhow::Result<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.anchor.as_bytes())?)?;
        let (leaf, key) = leaf(issuer, names)?;
        let issuer = CertificateDer::from_pem_slice(issuer.certificate.as_bytes())?;
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let config = config.with_safe_default_protocol_versions()?;
        let config = config.with_root_certificates(roots);
        let mut config = config.with_client_auth_cert(vec![leaf, issuer], key)?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(config)
    }
}

/// The certificate of a workload, and its key.
fn leaf(
    issuer: &Issuer,
    names: &[&str],
) -> anyhow::Result<(CertificateDer<'static>, PrivateKeyDer<'static>)> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    for name in names {
        let (kind, name) = name.split_once(':').context("a name without its kind")?;
        params.subject_alt_names.push(match kind {
            "DNS" => SanType::DnsName(name.try_into()?),
            _ => SanType::URI(name.try_into()?),
        });
    }
    let signing = KeyPair::from_pem(&issuer.key)?;
    let signing = rcgen::Issuer::from_ca_cert_pem(&issuer.certificate, signing)?;
    let key = KeyPair::generate()?;
    let leaf = params.signed_by(&key, &signing)?;
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    Ok((leaf.der().clone(), key))
}
