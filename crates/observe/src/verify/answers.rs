//! What canaries answer: whose identity they saw.

use mirror_core::api::{link::LinkerdConfig, text::in_brief};

/// The account of the canaries.
const ACCOUNT: &str = "default";

/// The identity of the client in this namespace.
pub fn client_identity(config: &LinkerdConfig, linkerd: &str, namespace: &str) -> String {
    format!(
        "{ACCOUNT}.{namespace}.serviceaccount.identity.{linkerd}.{}",
        config.identity_trust_domain
    )
}

/// The identity that a canary has seen. Fails if there is none, or another than expected.
pub fn seen_identity(seen: Option<&str>, expected: Option<&str>) -> Result<String, String> {
    let seen = seen.ok_or("the canary saw no identity: the request did not come through Linkerd's proxies with mutual TLS")?;
    match expected {
        Some(expected) if expected != seen => Err(format!(
            "the canary saw {}, and should have seen {expected}",
            in_brief(seen)
        )),
        _ => Ok(seen.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canary_has_to_see_the_expected_identity() {
        let seen = Some("a.b.c");
        assert_eq!(seen_identity(seen, seen), Ok("a.b.c".into()));
        assert_eq!(seen_identity(seen, None), Ok("a.b.c".into()));
        for (seen, why) in [
            (seen, "the canary saw a.b.c, and should have seen x"),
            (None, "the canary saw no identity"),
        ] {
            let found = seen_identity(seen, Some("x")).unwrap_err();
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
