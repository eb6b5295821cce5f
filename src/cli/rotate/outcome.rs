//! The result of the rotation of each link.

use serde::Serialize;

/// The result of one link.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct RotationOutcome {
    pub(in crate::cli) cluster: String,
    pub(in crate::cli) result: Ending,
    /// Why it failed, or was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) reason: Option<String>,
    #[serde(flatten)]
    pub(in crate::cli) done: RotationDetails,
}

/// The kind of result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) enum Ending {
    /// New credentials are in use, and the old token is revoked or kept on purpose.
    Rotated,
    /// The Secrets have new credentials, but Linkerd uses the old ones until it restarts (`--no-restart`).
    RestartNeeded,
    /// The credentials are not old enough.
    Skipped,
    /// The source cluster uses the token that it was handed, and the target cluster can revoke older ones.
    InUse,
    /// The target cluster has a new token, which the source cluster has to take.
    HandedOver,
    /// The target cluster has revoked the tokens before the one in use.
    Revoked,
    /// It would be rotated.
    Planned,
    /// Something failed; the message says which token works.
    Failed,
}

/// What was done for one link.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct RotationDetails {
    /// Token Secret of the new credentials, with its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) token_secret: Option<String>,
    /// In a dry run: whether a token would be created.
    #[serde(skip)]
    pub(in crate::cli) creates: bool,
    /// In a dry run: whether Linkerd would be restarted.
    #[serde(skip)]
    pub(in crate::cli) restarts: bool,
    /// The start of the SHA-256 of the kubeconfig in use, as the Link's status has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) credentials_fingerprint: Option<String>,
    /// Token Secrets that were deleted.
    pub(in crate::cli) revoked: Vec<String>,
    /// Token Secrets that were kept, because other links or Linkerd may still use them.
    pub(in crate::cli) kept: Vec<String>,
    /// When the old token expires, if it does. Such a token has no Secret, and cannot be revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) old_token_expires: Option<String>,
}
