//! The proxy on the way to an API server: that of the kubeconfig, or of the environment as Go's programs read it. Pure.
//!
//! kube compares `NO_PROXY` with the address of the proxy, and uses `HTTPS_PROXY` for loopback and plain HTTP. So it is not
//! asked.

use std::net::IpAddr;

use http::{Uri, uri::Scheme};
use ipnet::IpNet;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use hints::hint::fail;

/// The variables that name proxies, each with the spelling that comes second.
const HTTPS_PROXY: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
const HTTP_PROXY: [&str; 2] = ["HTTP_PROXY", "http_proxy"];
const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// A proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyServer {
    pub kind: ProxyKind,
    /// Its address, without user and password.
    pub address: Uri,
    /// User and password.
    pub user: Option<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyKind {
    /// A proxy for HTTP, itself with TLS or without.
    Http,
    Socks,
}

impl ProxyServer {
    /// The proxy on the way to `server`: the explicit one, or that of the variables.
    pub fn on_way_to(
        server: &Uri,
        explicit: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Option<Self>> {
        if let Some(url) = explicit.filter(|url| !url.is_empty()) {
            let proxy = Self::parse(url).filter(|_| !url.starts_with("socks5h:"));
            return proxy.map(Some).ok_or_else(|| {
                fail(
                    "proxy-url: not a proxy",
                    "use a URL with http://, https:// or socks5:// for proxy-url of the cluster in the kubeconfig",
                )
            });
        }
        let first = |names: [&str; 2]| {
            let mut values = names.into_iter().filter_map(&variable);
            values.find(|value| !value.is_empty())
        };
        let is_https = server.scheme() == Some(&Scheme::HTTPS);
        let (names, port) = if is_https {
            (HTTPS_PROXY, 443)
        } else {
            (HTTP_PROXY, 80)
        };
        let Some(url) = first(names) else {
            return Ok(None);
        };
        let host = server.host().unwrap_or_default().to_ascii_lowercase();
        let port = server.port_u16().unwrap_or(port);
        if is_exempt(&host, port, &first(NO_PROXY).unwrap_or_default()) {
            return Ok(None);
        }
        // As for curl and Go, `proxy:3128` is a proxy for HTTP.
        let proxy = Self::parse(&url).or_else(|| Self::parse(&format!("http://{url}")));
        proxy.map(Some).ok_or_else(|| {
            fail(
                format!("the variable {} names no proxy", names[0]),
                format!(
                    "use a URL with http://, https:// or socks5:// for {}, or exempt the cluster with NO_PROXY",
                    names[0]
                ),
            )
        })
    }

    /// The proxy of a configuration.
    pub fn of_url(url: &Uri) -> Option<Self> {
        Self::parse(&url.to_string())
    }

    fn parse(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        let (kind, port) = match scheme.as_str() {
            "http" => (ProxyKind::Http, 80),
            "https" => (ProxyKind::Http, 443),
            "socks5" | "socks5h" => (ProxyKind::Socks, 1080),
            _ => return None,
        };
        let authority = rest.split(['/', '?', '#']).next()?;
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        if user.is_some_and(|user| !is_encoded(user)) {
            return None;
        }
        let user = user.map(|user| {
            let (name, password) = user.split_once(':').unwrap_or((user, ""));
            (decoded(name), decoded(password))
        });
        let address: Uri = format!("{scheme}://{host}").parse().ok()?;
        let has_host = address.host().is_some_and(|host| !host.is_empty());
        let address = match address.port() {
            Some(_) => address,
            None => format!("{scheme}://{host}:{port}").parse().ok()?,
        };
        has_host.then_some(Self {
            kind,
            address,
            user,
        })
    }

    /// Its URL for a configuration, with user and password.
    pub fn url(&self) -> Option<Uri> {
        let authority = self.address.authority()?;
        let scheme = match self.kind {
            ProxyKind::Http => self.address.scheme_str()?,
            ProxyKind::Socks => "socks5",
        };
        let user = self.user.as_ref().map(|(name, password)| {
            let encoded = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
            format!("{}:{}@", encoded(name), encoded(password))
        });
        let url = format!("{scheme}://{}{authority}", user.unwrap_or_default());
        url.parse().ok()
    }
}

/// Whether each percent sign begins an encoded byte.
fn is_encoded(text: &str) -> bool {
    let is_byte =
        |part: &str| part.len() >= 2 && part.bytes().take(2).all(|b| b.is_ascii_hexdigit());
    text.split('%').skip(1).all(is_byte)
}

/// Whether no proxy is used for a host: loopback, or what `NO_PROXY` lists. Items that mean nothing are ignored.
fn is_exempt(host: &str, port: u16, list: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let ip: Option<IpAddr> = host.parse().ok();
    let ip = ip.map(|ip| ip.to_canonical());
    if host == "localhost" || ip.is_some_and(|ip| ip.is_loopback()) {
        return true;
    }
    let items = list.split(',').map(|item| item.trim().to_lowercase());
    items.filter(|item| !item.is_empty()).any(|item| {
        if item == "*" {
            return true;
        }
        if let Ok(network) = item.parse::<IpNet>() {
            return ip.is_some_and(|ip| canonical(network).contains(&ip));
        }
        let (name, only) = with_port(&item);
        if only.is_some_and(|only| only != port.to_string()) || name.is_empty() {
            return false;
        }
        if let Ok(item) = name.parse::<IpAddr>() {
            return ip == Some(item.to_canonical());
        }
        // `.example` and `*.example` are the names below example; `example` is that name too.
        match name.strip_prefix("*.").or_else(|| name.strip_prefix('.')) {
            Some(above) => is_below(host, above),
            None => host == name || is_below(host, name),
        }
    })
}

/// IPv4 addresses that are written as IPv6 ones, such as `::ffff:10.0.0.0/104`, are a network of IPv4.
fn canonical(network: IpNet) -> IpNet {
    let mapped = match network {
        IpNet::V6(mapped) => mapped.trunc().network().to_ipv4_mapped(),
        IpNet::V4(_) => None,
    };
    let length = network.prefix_len().checked_sub(96);
    let of_v4 = mapped.zip(length);
    let of_v4 = of_v4.and_then(|(address, length)| IpNet::new(address.into(), length).ok());
    of_v4.unwrap_or(network)
}

fn is_below(host: &str, name: &str) -> bool {
    host.strip_suffix(name)
        .is_some_and(|rest| rest.ends_with('.'))
}

/// A host or an address, and its port if it has one.
fn with_port(item: &str) -> (&str, Option<&str>) {
    if let Some(rest) = item.strip_prefix('[')
        && let Some((address, rest)) = rest.split_once(']')
    {
        return (address, rest.strip_prefix(':'));
    }
    match item.split_once(':') {
        Some((name, port)) if !port.contains(':') => (name, Some(port)),
        _ => (item, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_way(
        server: &str,
        explicit: Option<&str>,
        variables: &[(&str, &str)],
    ) -> Result<String, String> {
        let server = server.parse().unwrap();
        let variable = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let found = ProxyServer::on_way_to(&server, explicit, variable);
        let found = found.map_err(|error| error.to_string())?;
        Ok(found.map_or_else(String::new, |proxy| {
            let user = proxy
                .user
                .map(|(name, password)| format!("{name} {password} "));
            format!("{}{}", user.unwrap_or_default(), proxy.address)
        }))
    }

    #[test]
    fn proxies_of_the_environment_are_those_of_go() {
        const P: &str = "http://proxy:3128/";
        for (server, variables, expected) in [
            (
                "https://api.east",
                &[("HTTPS_PROXY", "http://proxy:3128")][..],
                P,
            ),
            ("https://api.east", &[("https_proxy", "proxy:3128")], P),
            (
                "https://api.east",
                &[("HTTPS_PROXY", ""), ("https_proxy", "proxy:3128")],
                P,
            ),
            ("https://api.east", &[("HTTP_PROXY", "proxy:3128")], ""),
            ("http://api.east", &[("HTTP_PROXY", "proxy:3128")], P),
            ("http://api.east", &[("HTTPS_PROXY", "proxy:3128")], ""),
            (
                "https://127.0.0.1:6443",
                &[("HTTPS_PROXY", "proxy:3128")],
                "",
            ),
            ("https://[::1]:6443", &[("HTTPS_PROXY", "proxy:3128")], ""),
            ("https://localhost", &[("HTTPS_PROXY", "proxy:3128")], ""),
            (
                "https://api.east",
                &[("HTTPS_PROXY", "http://me:p%40@proxy")],
                "me p@ http://proxy:80/",
            ),
            (
                "https://api.east",
                &[("HTTPS_PROXY", "socks5h://proxy")],
                "socks5h://proxy:1080/",
            ),
        ] {
            let found = on_way(server, None, variables);
            assert_eq!(found.as_deref(), Ok(expected), "{server} {variables:?}");
        }
    }

    #[test]
    fn no_proxy_is_compared_with_the_server() {
        let exempt = |host: &str, list: &str| is_exempt(host, 6443, list);
        for list in [
            "api.east",
            "east",
            ".east",
            "*.east",
            "*",
            "x,, api.east ",
            "API.EAST",
            "api.east:6443",
        ] {
            assert!(exempt("api.east", list), "{list}");
        }
        for list in [
            "",
            ",",
            "pi.east",
            "api.east:443",
            "proxy",
            "a b",
            "10.0.0.0/99",
            "api.east.x",
        ] {
            assert!(!exempt("api.east", list), "{list}");
        }
        assert!(!exempt("east", ".east"));
        assert!(exempt("10.1.2.3", "10.0.0.0/8"));
        assert!(exempt("10.1.2.3", "10.1.2.3:6443"));
        assert!(exempt("10.1.2.3", "::ffff:10.0.0.0/104"));
        assert!(!exempt("11.1.2.3", "::ffff:10.0.0.0/104"));
        assert!(!exempt("10.1.2.3", "::/0"));
        assert!(exempt("[::ffff:10.1.2.3]", "10.0.0.0/8"));
        assert!(exempt("[::ffff:127.0.0.1]", ""));
        assert!(exempt("[fd00::1]", "fd00::1"));
        assert!(exempt("[fd00::1]", "[fd00::1]:6443"));
        assert!(!exempt("10.1.2.3", "10.1.2.4"));
    }

    #[test]
    fn proxy_of_the_kubeconfig_comes_before_all_variables() {
        let variables = [("HTTPS_PROXY", "http://other"), ("NO_PROXY", "*")];
        let found = on_way("https://127.0.0.1", Some("socks5://me@proxy:1"), &variables);
        assert_eq!(found.as_deref(), Ok("me  socks5://proxy:1/"));
        for url in ["proxy:3128", "ftp://proxy", "socks5h://proxy", "http://"] {
            let error = on_way("https://api.east", Some(url), &[]).unwrap_err();
            assert!(error.contains("proxy-url"), "{url}: {error}");
        }
        let error = on_way("https://api.east", None, &[("HTTPS_PROXY", "http://a b")]);
        assert_eq!(
            error,
            Err("the variable HTTPS_PROXY names no proxy".to_owned())
        );
    }
}
