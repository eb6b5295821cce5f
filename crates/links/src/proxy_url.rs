//! The URL of a proxy on the way to an API server, which may have a password.

use manifests::kubeconfig::Secret;

/// A proxy, or that there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyUrl(Option<Secret>);

impl ProxyUrl {
    /// The proxy of a kubeconfig.
    pub fn of(url: Option<&str>) -> Self {
        Self(url.map(Secret::new))
    }

    /// Its URL, as a kubeconfig has it.
    pub fn url(&self) -> Option<&str> {
        self.0.as_ref().map(Secret::expose)
    }

    /// The URL without user and password, or `none`.
    pub fn shown(&self) -> String {
        let Some(url) = self.url() else {
            return NO_PROXY.to_owned();
        };
        let Some((scheme, rest)) = url.split_once("://") else {
            return "a proxy".to_owned();
        };
        let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
        format!("{scheme}://{host}")
    }
}

const NO_PROXY: &str = "none";

/// Parses the URL of a proxy, of the kinds that this client and Linkerd's support. Messages do not quote it.
pub fn proxy_url(text: &str) -> Result<ProxyUrl, &'static str> {
    if text == NO_PROXY {
        return Ok(ProxyUrl(None));
    }
    let uri: http::Uri = text.parse().unwrap_or_default();
    let is_known = ["http", "https", "socks5"].contains(&uri.scheme_str().unwrap_or_default());
    let has_host = uri.host().is_some_and(|host| !host.is_empty());
    let is_bare = ["", "/"].contains(&uri.path()) && uri.query().is_none() && !text.contains('#');
    if is_known && has_host && is_bare && uri.port().is_none_or(|port| port.as_u16() != 0) {
        return Ok(ProxyUrl(Some(Secret::new(text.trim_end_matches('/')))));
    }
    Err(
        "must be a URL such as http://proxy.example.com:3128 or socks5://proxy.example.com:1080, or none",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_has_a_kind_and_a_host_and_its_password_is_not_shown() {
        for (text, shown) in [
            ("none", "none"),
            ("http://proxy:3128", "http://proxy:3128"),
            ("https://proxy/", "https://proxy"),
            (
                "socks5://me:s3cret@192.0.2.1:1080",
                "socks5://192.0.2.1:1080",
            ),
        ] {
            let proxy = proxy_url(text).unwrap();
            assert_eq!(proxy.shown(), shown);
            assert!(!format!("{proxy:?}").contains("s3cret"));
        }
        for text in [
            "",
            "proxy:3128",
            "ftp://proxy",
            "http://",
            "http://proxy:0",
            "http://proxy/a?b",
            "http://s3cret s3cret",
        ] {
            let refused = proxy_url(text).unwrap_err();
            assert!(!refused.contains("s3cret"), "{text:?}");
        }
    }
}
