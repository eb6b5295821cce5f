//! Whether the connection to a target cluster is safe from attackers on the network. The controller and the commands
//! share this rule.

use super::conditions::insecure_tls;

/// Why a connection to an API server is not safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsecureTls {
    /// Nothing is encrypted.
    Plain,
    /// The API server's certificate is not verified.
    Unverified,
}

impl InsecureTls {
    /// Checks the settings of a kubeconfig: the address of the API server, and `insecure-skip-tls-verify`. `None` if
    /// the connection is safe.
    pub fn of(server: &str, skips_verification: bool) -> Option<Self> {
        let scheme = server
            .trim_start()
            .split_once("://")
            .map(|(scheme, _)| scheme);
        if scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("http")) {
            Some(Self::Plain)
        } else {
            skips_verification.then_some(Self::Unverified)
        }
    }

    /// The reason of the condition `InsecureTLS`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Plain => insecure_tls::NOT_ENCRYPTED,
            Self::Unverified => insecure_tls::CERTIFICATE_NOT_VERIFIED,
        }
    }

    /// What is wrong.
    pub fn what(self) -> &'static str {
        match self {
            Self::Plain => {
                "requests to the target's API server are not encrypted (http://), so they have no token"
            }
            Self::Unverified => {
                "the certificate of the target's API server is not verified (insecure-skip-tls-verify)"
            }
        }
    }

    /// What an attacker can do.
    pub fn danger(self) -> &'static str {
        match self {
            Self::Plain => "an attacker on the network can change what is mirrored",
            Self::Unverified => {
                "an attacker on the network can steal the token and change what is mirrored"
            }
        }
    }

    /// A remedy.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Plain => "pass an address with https:// to --api-server-address",
            Self::Unverified => {
                "use a kubeconfig with the certificate-authority of the cluster instead of insecure-skip-tls-verify"
            }
        }
    }

    /// What is wrong with a Link, and a remedy.
    pub fn problem(self) -> String {
        format!(
            "{}: {}; link again, and {}",
            self.what(),
            self.danger(),
            self.remedy()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_is_safe_with_tls_and_a_certificate_that_is_verified() {
        use InsecureTls::{Plain, Unverified};
        for (server, skips, expected) in [
            ("https://192.0.2.1:6443", false, None),
            ("https://192.0.2.1:6443", true, Some(Unverified)),
            ("HTTPS://192.0.2.1", false, None),
            ("http://192.0.2.1:8080", false, Some(Plain)),
            ("http://192.0.2.1:8080", true, Some(Plain)),
            ("HTTP://192.0.2.1", false, Some(Plain)),
            (" http://192.0.2.1", false, Some(Plain)),
            ("https://http.example", false, None),
            ("", false, None),
        ] {
            assert_eq!(
                InsecureTls::of(server, skips),
                expected,
                "{server:?} {skips}"
            );
        }
    }
}
