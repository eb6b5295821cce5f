//! Values as people type them, in flags and in files: each with its rule. Errors are that rule.

use std::{net::IpAddr, time::Duration};

use manifests::{
    link::{ClusterName, ClusterNameError},
    values::refuse_taken,
};
use mirror_core::api::{
    duration::{DurationError, parse_go_duration},
    names::{MAX_SUBDOMAIN, is_dns_label},
    selector::SelectorError,
    selector_text::parse_selector,
};

/// Parses the name of a namespace.
pub fn namespace(text: &str) -> Result<String, String> {
    if is_dns_label(text) {
        Ok(text.to_owned())
    } else {
        Err(
            "must be a DNS label: up to 63 lowercase letters, digits and '-', starting and ending with a letter or digit"
                .to_owned(),
        )
    }
}

/// Parses the name of an object such as a ServiceAccount: DNS labels joined by dots.
pub fn object_name(text: &str) -> Result<String, String> {
    if text.len() <= MAX_SUBDOMAIN && text.split('.').all(is_dns_label) {
        Ok(text.to_owned())
    } else {
        Err("must consist of lowercase letters, digits, '-' and '.', and start and end with a letter or digit".to_owned())
    }
}

/// Parses the name of an account of another cluster. It is also the name of a `ClusterRole` and of its binding, so it
/// must not be one that Kubernetes or the extension itself needs. Nor may it be the account of all Pods of the namespace.
pub fn account_name(text: &str) -> Result<String, String> {
    refuse_taken(text)?;
    object_name(text)
}

/// Parses a label selector, and returns it as it was typed.
pub fn selector(text: &str) -> Result<String, SelectorError> {
    parse_selector(text).map(|_| text.to_owned())
}

/// Parses a registry of images: a host, with a port and a path if needed; empty for none.
pub fn registry(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-:/".contains(c);
    if text.contains("://") || !text.chars().all(allowed) {
        return Err("must be a host and a path, such as registry.example.com/linkerd".to_owned());
    }
    Ok(text.to_owned())
}

/// Parses the address of an API server. A host alone means https.
pub fn server_address(text: &str) -> Result<String, String> {
    let url = if text.contains("://") {
        text.to_owned()
    } else {
        format!("https://{text}")
    };
    let uri: http::Uri = url.parse().unwrap_or_default();
    let (host, authority) = (
        uri.host(),
        uri.authority().map(http::uri::Authority::as_str),
    );
    let (Some(host), Some(authority)) = (host.filter(|host| !host.is_empty()), authority) else {
        return Err("must be a URL such as https://east.example.com:6443".to_owned());
    };
    let port = authority
        .strip_prefix(host)
        .map(|rest| match rest.strip_prefix(':') {
            Some(port) => port.parse::<u16>().is_ok_and(|port| port != 0),
            None => rest.is_empty(),
        });
    match port {
        None => Err("must not have a user or a password".to_owned()),
        Some(false) => Err("must have a port from 1 to 65535, or none".to_owned()),
        Some(true) if !["https", "http"].contains(&uri.scheme_str().unwrap_or_default()) => {
            Err("must begin with https://".to_owned())
        }
        Some(true) if text.contains(['?', '#']) => Err("must not have a query".to_owned()),
        Some(true) => Ok(url),
    }
}

/// Parses the address of an API server, and returns it as it was typed.
pub fn api_addr(text: &str) -> Result<String, String> {
    server_address(text).map(|_| text.to_owned())
}

/// Parses an IP address or a host name.
pub fn host(text: &str) -> Result<String, String> {
    let text = text.trim();
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    // As in URLs, a name whose last label is a number is an IPv4 address.
    let numeric = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = name.len() <= 253
        && name.split('.').all(is_dns_label)
        && !name.rsplit('.').next().is_some_and(numeric);
    if is_name || text.parse::<IpAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    Err("must be an IP address or a host name, without a port".to_owned())
}

/// Parses a duration such as `30s` or `1h30m`.
pub fn duration(text: &str) -> Result<Duration, DurationError> {
    parse_go_duration(text)
}

/// Parses a timeout, which is not zero.
pub fn timeout(text: &str) -> Result<Duration, String> {
    match duration(text) {
        Ok(Duration::ZERO) => Err("must be longer than 0, such as 10s".to_owned()),
        Ok(duration) => Ok(duration),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses the name of a target cluster, and returns it as it was typed.
pub fn cluster_name(text: &str) -> Result<String, ClusterNameError> {
    text.parse().map(|_: ClusterName| text.to_owned())
}

/// Parses days, such as `30d`, or any other duration.
pub fn days_or_duration(text: &str) -> Result<Duration, String> {
    let days = text.trim().strip_suffix('d').map(str::parse::<u32>);
    match days {
        Some(Ok(days)) => Ok(Duration::from_secs(u64::from(days) * 86_400)),
        _ => duration(text).map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_durations_are_in_days_or_as_all_others() {
        let hours = |hours: u64| Ok(Duration::from_secs(hours * 3600));
        assert_eq!(days_or_duration("30d"), hours(720));
        assert_eq!(days_or_duration("720h"), hours(720));
        for text in ["d", "1.5d", "-1d", "soon", ""] {
            assert!(days_or_duration(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_server_address_has_a_host() {
        for (text, url) in [
            ("https://east:6443", "https://east:6443"),
            ("east:6443", "https://east:6443"),
            ("192.0.2.1", "https://192.0.2.1"),
            ("[2001:db8::1]:6443", "https://[2001:db8::1]:6443"),
            ("http://east/a/b", "http://east/a/b"),
        ] {
            assert_eq!(server_address(text).as_deref(), Ok(url));
        }
        for text in ["", "https://", "a b", "https://a b"] {
            assert!(server_address(text).is_err(), "{text:?}");
        }
    }
}
