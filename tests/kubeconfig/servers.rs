//! Small servers on loopback that log what arrives: API servers with and without TLS, and proxies in front of them.

use std::{
    io,
    sync::{Arc, Mutex},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rustls::{
    DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    server::danger::{ClientCertVerified, ClientCertVerifier},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject as _};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use crate::material::{Material, Pair};

/// The TLS of all servers, and the clients that they know.
pub(crate) struct Tls {
    acceptor: TlsAcceptor,
    clients: Vec<(&'static str, CertificateDer<'static>)>,
}

impl Tls {
    pub(crate) fn new(material: &Material) -> Self {
        let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let Pair { certificate, key } = &material.server;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(Arc::new(Anybody))
            .with_single_cert(
                vec![der(certificate)],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
            )
            .unwrap();
        Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            clients: vec![
                ("client", der(&material.client.certificate)),
                ("v1", der(&material.v1)),
                ("rsa", der(&material.rsa.certificate)),
                ("rsa v1", der(&material.rsa_v1)),
                ("ed25519", der(&material.ed25519.certificate)),
            ],
        }
    }

    fn client(&self, presented: &CertificateDer<'_>) -> &'static str {
        let mut known = self.clients.iter();
        let found = known.find(|(_, certificate)| certificate == presented);
        found.map_or("unknown", |(name, _)| name)
    }
}

/// Asks for a certificate, and takes any.
#[derive(Debug)]
struct Anybody;

impl ClientCertVerifier for Anybody {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// What has arrived, each event once, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, event: String) {
        let mut events = self.0.lock().unwrap();
        if !events.contains(&event) {
            events.push(event);
        }
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// The servers of one run.
pub(crate) struct Servers {
    log: Log,
    tasks: JoinSet<()>,
    /// Names of ports in templates, and the ports.
    pub(crate) ports: Vec<(&'static str, u16)>,
}

#[derive(Clone, Copy)]
enum Kind {
    Http,
    Tls,
    Proxy,
    TlsProxy,
    Socks,
}

impl Servers {
    pub(crate) async fn start(tls: &Arc<Tls>) -> Self {
        let log = Log::default();
        let mut ports = Vec::new();
        let mut listeners = Vec::new();
        for (name, kind, host) in [
            ("TLS", Kind::Tls, "127.0.0.1"),
            ("TLS6", Kind::Tls, "::1"),
            ("HTTP", Kind::Http, "127.0.0.1"),
            ("PROXY", Kind::Proxy, "127.0.0.1"),
            ("PROXY6", Kind::Proxy, "::1"),
            ("TLSPROXY", Kind::TlsProxy, "127.0.0.1"),
            ("SOCKS", Kind::Socks, "127.0.0.1"),
        ] {
            let listener = TcpListener::bind((host, 0)).await.unwrap();
            ports.push((name, listener.local_addr().unwrap().port()));
            listeners.push((kind, listener));
        }
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
        ports.push(("CLOSED", closed.local_addr().unwrap().port()));
        let inner = Arc::new(Inner {
            log: log.clone(),
            tls: tls.clone(),
            ports: ports.clone(),
        });
        let mut tasks = JoinSet::new();
        for (kind, listener) in listeners {
            let inner = inner.clone();
            tasks.spawn(async move {
                let mut connections = JoinSet::new();
                while let Ok((stream, _)) = listener.accept().await {
                    let inner = inner.clone();
                    connections.spawn(async move { inner.serve(kind, stream).await });
                }
            });
        }
        Self { log, tasks, ports }
    }

    /// Ends the servers, so that their connections are closed. Returns what arrived.
    pub(crate) async fn end(mut self) -> Vec<String> {
        self.tasks.shutdown().await;
        self.log.take()
    }
}

struct Inner {
    log: Log,
    tls: Arc<Tls>,
    ports: Vec<(&'static str, u16)>,
}

impl Inner {
    /// A text with the names of ports.
    fn named(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, port) in &self.ports {
            text = text.replace(&format!(":{port}"), &format!(":{name}"));
        }
        text
    }

    async fn serve(&self, kind: Kind, stream: TcpStream) -> io::Result<()> {
        match kind {
            Kind::Http => self.api("http", stream).await,
            Kind::Tls => self.tls(stream).await,
            Kind::Proxy => self.proxy("proxy", stream).await,
            Kind::TlsProxy => {
                let Ok(stream) = self.tls.acceptor.accept(stream).await else {
                    self.log.add("tls proxy: no handshake".to_owned());
                    return Ok(());
                };
                self.proxy("tls proxy", stream).await
            }
            Kind::Socks => self.socks(stream).await,
        }
    }

    async fn tls(&self, stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
        let Ok(stream) = self.tls.acceptor.accept(stream).await else {
            self.log.add("tls: no handshake".to_owned());
            return Ok(());
        };
        let connection = stream.get_ref().1;
        let presented = connection.peer_certificates().and_then(<[_]>::first);
        let client = presented.map_or("nobody", |certificate| self.tls.client(certificate));
        let name = connection.server_name().unwrap_or("-");
        self.log.add(format!("tls: name {name}, client {client}"));
        self.api("https", stream).await
    }

    /// Answers requests of the API.
    async fn api(
        &self,
        scheme: &str,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
    ) -> io::Result<()> {
        while let Some(head) = read_head(&mut stream).await? {
            self.log_request(scheme, &head);
            let (status, body) = if head.starts_with("GET ") && head.contains("/version?") {
                (
                    "200 OK",
                    r#"{"major":"1","minor":"33","gitVersion":"v1.33.0"}"#,
                )
            } else {
                (
                    "403 Forbidden",
                    r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Forbidden","code":403,"message":"no"}"#,
                )
            };
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
            );
            stream.write_all(answer.as_bytes()).await?;
        }
        Ok(())
    }

    fn log_request(&self, scheme: &str, head: &str) {
        let target = head.split(' ').nth(1).unwrap_or_default();
        // The paths of both programs differ, so only what comes before them counts.
        let api = ["/version", "/api/", "/apis/"];
        let end = api.iter().filter_map(|part| target.find(part)).min();
        let before = self.named(&target[..end.unwrap_or(target.len())]);
        let host = self.named(&header(head, "host").unwrap_or_default());
        let mut who: Vec<String> = head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value))
            .filter(|(name, _)| {
                ["authorization", "proxy-authorization"].contains(&name.as_str())
                    || name.starts_with("impersonate-")
            })
            .map(|(name, value)| format!(" {name}={value:?}"))
            .collect();
        who.sort();
        self.log
            .add(format!("{scheme}: {host} {before}{}", who.concat()));
    }

    /// A proxy for CONNECT and for whole URLs. It leads to the servers of this run, whatever name it is asked for.
    async fn proxy(
        &self,
        name: &str,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
    ) -> io::Result<()> {
        let Some(head) = read_head(&mut stream).await? else {
            return Ok(());
        };
        let authorization =
            header(&head, "proxy-authorization").map_or_else(String::new, |value| {
                let encoded = value.trim_start_matches("Basic ");
                let plain = BASE64_STANDARD.decode(encoded).unwrap_or_default();
                format!(" as {:?}", String::from_utf8_lossy(&plain))
            });
        let mut words = head.split(' ');
        if words.next() != Some("CONNECT") {
            self.log.add(format!("{name}: whole URL{authorization}"));
            self.log_request("http", &head);
            let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
            return stream.write_all(answer.as_bytes()).await;
        }
        let target = words.next().unwrap_or_default().to_owned();
        self.log.add(format!(
            "{name}: CONNECT {}{authorization}",
            self.named(&target)
        ));
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
        self.forward(&target, stream).await
    }

    async fn forward(
        &self,
        target: &str,
        stream: impl AsyncRead + AsyncWrite + Unpin,
    ) -> io::Result<()> {
        let is_http = self.named(target).ends_with(":HTTP");
        if is_http {
            return self.api("http", stream).await;
        }
        self.tls(stream).await
    }

    async fn socks(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut start = [0; 2];
        stream.read_exact(&mut start).await?;
        let mut methods = vec![0; start[1].into()];
        stream.read_exact(&mut methods).await?;
        let mut who = String::new();
        if methods.contains(&2) {
            stream.write_all(&[5, 2]).await?;
            stream.read_u8().await?; // the version
            let user = read_text(&mut stream).await?;
            let password = read_text(&mut stream).await?;
            who = format!(" as {user:?} {password:?}");
            stream.write_all(&[1, 0]).await?;
        } else {
            stream.write_all(&[5, 0]).await?;
        }
        let mut request = [0; 4];
        stream.read_exact(&mut request).await?;
        let host = match request[3] {
            1 => {
                let mut ip = [0; 4];
                stream.read_exact(&mut ip).await?;
                std::net::Ipv4Addr::from(ip).to_string()
            }
            4 => {
                let mut ip = [0; 16];
                stream.read_exact(&mut ip).await?;
                format!("[{}]", std::net::Ipv6Addr::from(ip))
            }
            _ => read_text(&mut stream).await?,
        };
        let port = stream.read_u16().await?;
        let target = format!("{host}:{port}");
        self.log.add(format!("socks: {}{who}", self.named(&target)));
        stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
        self.forward(&target, stream).await
    }
}

async fn read_text(stream: &mut TcpStream) -> io::Result<String> {
    let length = stream.read_u8().await?;
    let mut text = vec![0; length.into()];
    stream.read_exact(&mut text).await?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The head of the next request; `None` at the end.
async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).await? == 0 {
            return Ok(None);
        }
        head.push(byte[0]);
    }
    Ok(Some(String::from_utf8_lossy(&head).into_owned()))
}

fn header(head: &str, name: &str) -> Option<String> {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    let found = lines.find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.to_owned())
}
