//! One context of a kubeconfig, the environment and the flags → the configuration of a client, which is all that leads to
//! a cluster: address, proxy, TLS and user.
//!
//! The rules are those of kubectl. kube's own ([`Config::from_custom_kubeconfig`]) differ: it reads proxies of the
//! environment in another way, and takes what kubectl refuses.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hints::hint::{HintExt as _, fail};
use http::Uri;
use kube::{
    Config,
    config::{AuthInfo, Cluster, ExecConfig, ExecInteractiveMode, Kubeconfig},
};
use rustls::RootCertStore;
use rustls_pki_types::{CertificateDer, pem::PemObject as _};

use super::{
    config::{impersonate, is_encrypted, secret_text},
    exec::{EXEC_V1, EXEC_V1BETA1},
    kubeconfig::KubeconfigEntry,
    proxy::ProxyServer,
};

/// Maximum length of an API server's address, in bytes. With a request's path it must fit into 64 KiB.
const ADDRESS_MAX: usize = 4096;

/// What flags say about a cluster and its user.
#[derive(Clone, Debug, Default)]
pub struct Flags<'a> {
    /// The address of the API server, in place of the kubeconfig's.
    pub server: Option<Uri>,
    /// Whom to act as.
    pub user: Option<&'a str>,
    pub groups: &'a [String],
}

/// Why a context cannot be used, and the entry that says so. Quotes no value of the kubeconfig.
#[derive(Debug)]
pub struct Unusable {
    pub entry: KubeconfigEntry,
    pub why: anyhow::Error,
}

/// The configuration of a context.
pub fn resolve(
    kubeconfig: &Kubeconfig,
    name: &str,
    flags: &Flags<'_>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Config, Unusable> {
    let contexts = &mut kubeconfig.contexts.iter();
    let context = contexts.find(|named| named.name == name);
    let context = context.and_then(|named| named.context.as_ref());
    let of_context = |what: &str| Unusable {
        entry: KubeconfigEntry::Context(name.to_owned()),
        why: anyhow::Error::msg(what.to_owned()),
    };
    let context = context.ok_or_else(|| of_context("it is empty"))?;
    let clusters = &mut kubeconfig.clusters.iter();
    let cluster = clusters.find(|named| named.name == context.cluster);
    let cluster = cluster.and_then(|named| named.cluster.as_ref());
    // As for kubectl, an address is enough.
    let none = Cluster::default();
    let without = flags.server.is_some().then_some(&none);
    let cluster = cluster
        .or(without)
        .ok_or_else(|| of_context("its cluster is not in the kubeconfig"))?;
    let users = &mut kubeconfig.auth_infos.iter();
    let user = users.find(|named| Some(&named.name) == context.user.as_ref());
    let user = user.and_then(|named| named.auth_info.clone());

    let of_cluster = |why| Unusable {
        entry: KubeconfigEntry::Cluster(context.cluster.clone()),
        why,
    };
    let mut config = way(cluster, flags.server.as_ref(), variable).map_err(of_cluster)?;
    if let Some(namespace) = some(context.namespace.as_ref()) {
        config.default_namespace = namespace;
    }
    let user = checked_user(
        user.unwrap_or_default(),
        cluster,
        flags,
        is_encrypted(&config),
    );
    config.auth_info = user.map_err(|why| Unusable {
        entry: KubeconfigEntry::User(context.user.clone().unwrap_or_default()),
        why,
    })?;
    Ok(config)
}

/// The configuration of a Pod in its own cluster, with flags.
pub fn with_flags(mut config: Config, flags: &Flags<'_>) -> anyhow::Result<Config> {
    if let Some(server) = &flags.server {
        config.cluster_url = server.clone();
    }
    impersonate(&mut config.auth_info, flags.user, flags.groups)?;
    Ok(config)
}

/// A configuration of a cluster, without a user.
fn way(
    cluster: &Cluster,
    flag: Option<&Uri>,
    variable: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<Config> {
    let server = cluster.server.as_deref().unwrap_or_default();
    let mut config = Config::new(match flag {
        Some(server) => server.clone(),
        None => address(server)?,
    });
    // As kubectl does, it is read in any case.
    let authority = content(
        "certificate-authority",
        cluster.certificate_authority_data.as_ref(),
        cluster.certificate_authority.as_ref(),
    )?;
    if is_encrypted(&config) {
        config.root_cert = authority.map(|pem| authorities(&pem)).transpose()?;
    }
    config.accept_invalid_certs = cluster.insecure_skip_tls_verify == Some(true);
    if config.accept_invalid_certs && config.root_cert.is_some() {
        return Err(fail(
            "there are a certificate-authority, which would be ignored, and insecure-skip-tls-verify",
            "remove one of them from the cluster in the kubeconfig; only the certificate authority makes requests safe",
        ));
    }
    config.disable_compression = cluster.disable_compression == Some(true);
    // As for kubectl, the name belongs to the address of the kubeconfig.
    config.tls_server_name = some(cluster.tls_server_name.as_ref()).filter(|_| flag.is_none());
    let proxy =
        ProxyServer::on_way_to(&config.cluster_url, cluster.proxy_url.as_deref(), variable)?;
    config.proxy_url = proxy.and_then(|proxy| proxy.url());
    Ok(config)
}

/// The address of the flag `--api-addr`, which needs no scheme.
pub fn address_of_flag(server: &str) -> anyhow::Result<Uri> {
    let url = if server.contains("://") {
        address(server)
    } else {
        address(&format!("https://{server}"))
    };
    url.hint(
        || format!("invalid --api-addr {server:?}"),
        || "pass a URL with https://, or a host with a port".to_owned(),
    )
}

fn address(server: &str) -> anyhow::Result<Uri> {
    let invalid = |why: &str| {
        fail(
            format!("server: {why}"),
            "use a URL with https:// and a host for server of the cluster in the kubeconfig",
        )
    };
    if server.is_empty() {
        return Err(invalid("there is none"));
    }
    let url: Uri = server
        .parse()
        .map_err(|_| invalid("not a URL with https:// and a host"))?;
    let authority = url.authority().map_or("", |authority| authority.as_str());
    if authority.contains('@') {
        return Err(invalid("it has a user name"));
    }
    if url.query().is_some() {
        return Err(invalid("it has a query"));
    }
    let is_url = ["https", "http"].contains(&url.scheme_str().unwrap_or_default());
    if !is_url || url.host().is_none_or(str::is_empty) || server.len() > ADDRESS_MAX {
        return Err(invalid("not a URL with https:// and a host"));
    }
    Ok(url)
}

fn unusable<T>(why: impl Into<String>) -> anyhow::Result<T> {
    Err(anyhow::Error::msg(why.into()))
}

/// As for kubectl, an empty text is none.
fn some(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.is_empty()).cloned()
}

/// Base64 as Go reads it: it ignores line breaks.
fn without_line_breaks(data: &str) -> String {
    data.chars().filter(|c| !"\r\n".contains(*c)).collect()
}

/// The certificates to trust.
fn authorities(pem: &[u8]) -> anyhow::Result<Vec<Vec<u8>>> {
    let found = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
    // As Go, leaves out what is no certificate.
    let is_valid = |der: &CertificateDer<'_>| RootCertStore::empty().add(der.clone()).is_ok();
    let found: Vec<Vec<u8>> = found.filter(is_valid).map(|der| der.to_vec()).collect();
    if found.is_empty() {
        return unusable("certificate-authority: not PEM, or without a certificate");
    }
    Ok(found)
}

/// What a field with data, or one with the path of a file, stands for. Both are refused, because one would be ignored.
fn content(
    field: &str,
    data: Option<&String>,
    file: Option<&String>,
) -> anyhow::Result<Option<Vec<u8>>> {
    match (some(data), some(file)) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => unusable(format!(
            "{field} and {field}-data are both there, and one would be ignored"
        )),
        (Some(data), None) => {
            let data = BASE64_STANDARD.decode(without_line_breaks(&data));
            data.map(Some)
                .or_else(|_| unusable(format!("{field}-data: not base64")))
        }
        (None, Some(file)) => {
            let read = std::fs::read(file);
            read.map(Some)
                .or_else(|error| unusable(format!("{field}: cannot read the file: {error}")))
        }
    }
}

/// A user as kubectl takes it, with the content of its files. `may_run`: whether its plugin may run.
fn checked_user(
    mut user: AuthInfo,
    cluster: &Cluster,
    flags: &Flags<'_>,
    may_run: bool,
) -> anyhow::Result<AuthInfo> {
    for text in [&mut user.token_file, &mut user.username] {
        *text = text.take().filter(|text| !text.is_empty());
    }
    let token = secret_text(&user, "token");
    let password = secret_text(&user, "password");
    let has_token = token.is_some() || user.token_file.is_some();
    if has_token && (user.username.is_some() || password.is_some()) {
        return unusable("there are a token, and a user name or a password: only one is allowed");
    }
    user.token = token.map(Into::into);
    user.password = password.map(Into::into);
    let certificate = content(
        "client-certificate",
        user.client_certificate_data.as_ref(),
        user.client_certificate.as_ref(),
    )?;
    // Without a certificate, the key means nothing.
    let mut key = None;
    if certificate.is_some() {
        let data = secret_text(&user, "client-key-data");
        key = content("client-key", data.as_ref(), user.client_key.as_ref())?;
        if key.is_none() {
            return unusable("client-certificate: there is no client-key");
        }
    }
    (user.client_certificate, user.client_key) = (None, None);
    user.client_certificate_data = certificate.map(|pem| BASE64_STANDARD.encode(pem));
    user.client_key_data = key.map(|pem| BASE64_STANDARD.encode(pem).into());
    if user.exec.is_some() && user.auth_provider.is_some() {
        return unusable("there are an exec plugin and an auth-provider: only one is allowed");
    }
    if let Some(exec) = user.exec.as_mut() {
        check_plugin(exec, may_run)?;
        if exec.provide_cluster_info {
            let info = (&as_told(cluster, flags)).try_into();
            exec.cluster =
                Some(info.or_else(|_| unusable("exec: an extension of the cluster is invalid"))?);
        }
    }
    impersonate(&mut user, flags.user, flags.groups)?;
    Ok(user)
}

/// A cluster as its plugin is told of it.
fn as_told(cluster: &Cluster, flags: &Flags<'_>) -> Cluster {
    let mut told = cluster.clone();
    let data = told.certificate_authority_data.as_deref();
    told.certificate_authority_data = data.map(without_line_breaks);
    for text in [&mut told.proxy_url, &mut told.certificate_authority] {
        *text = some(text.as_ref());
    }
    // As for kubectl, what follows the path does not count. Without a path, it stays.
    let end = |server: &String| {
        let url: Option<Uri> = server.parse().ok();
        let has_path = url.is_some_and(|url| url.path().len() > 1);
        server.find(['?', '#']).filter(|_| has_path)
    };
    if let Some(server) = &mut told.server
        && let Some(end) = end(server)
    {
        server.truncate(end);
    }
    if let Some(server) = &flags.server {
        told.server = Some(server.to_string().trim_end_matches('/').to_owned());
        told.tls_server_name = None;
    }
    told
}

/// Checks an exec plugin as kubectl does. Its version matters only if it may run.
fn check_plugin(exec: &mut ExecConfig, may_run: bool) -> anyhow::Result<()> {
    if some(exec.command.as_ref()).is_none() {
        return unusable("exec: there is no command");
    }
    let Some(version) = some(exec.api_version.as_ref()) else {
        return unusable("exec: there is no apiVersion");
    };
    if may_run && ![EXEC_V1, EXEC_V1BETA1].contains(&version.as_str()) {
        return Err(fail(
            "exec: the apiVersion is not supported",
            format!("use {EXEC_V1} or {EXEC_V1BETA1}; a newer version of the plugin may know them"),
        ));
    }
    let mut variables = exec.env.iter().flatten();
    if variables.any(|of| of.get("name").is_none_or(String::is_empty)) {
        return unusable("exec: a variable in env has no name");
    }
    if exec.interactive_mode.is_none() {
        if version == EXEC_V1 {
            return unusable("exec: there is no interactiveMode, which v1 needs");
        }
        exec.interactive_mode = Some(ExecInteractiveMode::IfAvailable);
    }
    Ok(())
}
