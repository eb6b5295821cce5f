//! What canaries answer: whose identity they saw.

use std::collections::BTreeMap;

use mirror_core::api::{link::LinkerdConfig, text::in_brief};

/// The header that Linkerd's inbound proxy sets: the identity of the client, which mutual TLS has proven.
const CLIENT_ID: &str = "l5d-client-id";
/// The account of the canaries.
const ACCOUNT: &str = "default";

/// The identity of the client in this namespace.
pub fn client_identity(config: &LinkerdConfig, linkerd: &str, namespace: &str) -> String {
    format!(
        "{ACCOUNT}.{namespace}.serviceaccount.identity.{linkerd}.{}",
        config.identity_trust_domain
    )
}

/// The identity in the headers that a canary was sent. Fails if there is none, or another than expected.
pub fn seen_identity(headers: &str, expected: Option<&str>) -> Result<String, String> {
    let headers: BTreeMap<String, Vec<String>> = serde_json::from_str(headers)
        .map_err(|_| format!("somebody else answered: {:?}", in_brief(headers)))?;
    let seen = headers
        .into_iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(CLIENT_ID))
        .and_then(|(_, values)| values.into_iter().next())
        .ok_or("the canary saw no identity: the request did not come through Linkerd's proxies with mutual TLS")?;
    match expected {
        Some(expected) if expected != seen => Err(format!(
            "the canary saw {}, and should have seen {expected}",
            in_brief(&seen)
        )),
        _ => Ok(seen),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canary_has_to_see_the_expected_identity() {
        let headers = r#"{"Accept-Encoding":["gzip"],"L5d-Client-Id":["a.b.c"]}"#;
        assert_eq!(seen_identity(headers, Some("a.b.c")), Ok("a.b.c".into()));
        assert_eq!(seen_identity(headers, None), Ok("a.b.c".into()));
        for (headers, expected, why) in [
            (headers, "x", "the canary saw a.b.c, and should have seen x"),
            (r#"{"Host":["x"]}"#, "x", "the canary saw no identity"),
            (
                "upstream connect error",
                "x",
                "somebody else answered: \"upstream connect error\"",
            ),
        ] {
            let found = seen_identity(headers, Some(expected)).unwrap_err();
            assert!(found.starts_with(why), "{found}");
        }
    }

    #[test]
    fn the_identity_of_the_client_is_that_of_its_account() {
        let config = LinkerdConfig {
            identity_trust_domain: "mesh.example".into(),
            ..LinkerdConfig::default()
        };
        assert_eq!(
            client_identity(&config, "linkerd", "verify"),
            "default.verify.serviceaccount.identity.linkerd.mesh.example"
        );
    }
}
