//! The stylesheet and the script, which are in the page itself, and the policy that permits nothing else.

use std::sync::LazyLock;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::HeaderValue;
use ring::digest::{SHA256, digest};

/// The stylesheet.
pub const STYLE: &str = include_str!("../../assets/style.css");
/// The script.
pub const SCRIPT: &str = include_str!("../../assets/script.js");

/// What the page may do.
pub static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
        hash(STYLE),
        hash(SCRIPT)
    );
    HeaderValue::try_from(policy).expect("a policy is ASCII")
});

/// A hash, as policies have it.
fn hash(text: &str) -> String {
    let hash = BASE64_STANDARD.encode(digest(&SHA256, text.as_bytes()));
    format!("sha256-{hash}")
}
