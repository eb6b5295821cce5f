//! What a token Secret is, and what there is to know of an account to have others made.

use std::time::Duration;

use client::Cluster;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret as KubernetesSecret;
use kube::Api;
use manifests::kubeconfig::Secret;

use crate::link_credentials::TokenAccount;

/// How long a token is valid, unless somebody says otherwise.
pub const USUAL: Duration = Duration::from_secs(90 * 86_400);

/// How long a token is to be valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// [`USUAL`], if the API server grants enough of it; otherwise until its Secret is deleted.
    Usual,
    /// This time, or as much of it as the API server grants.
    Of(Duration),
    /// Until its Secret is deleted.
    Endless,
}

impl Lifetime {
    /// The time that is asked for.
    pub fn asked(self) -> Option<Duration> {
        match self {
            Self::Usual => Some(USUAL),
            Self::Of(asked) => Some(asked),
            Self::Endless => None,
        }
    }
}

/// The token Secrets of an account. Kubernetes revokes a token when its Secret is deleted.
pub struct Tokens<'a> {
    pub(super) target: &'a Cluster,
    pub(super) account: &'a TokenAccount,
    /// The ID of the link, which new Secrets have as a label. It is not known without the source cluster; then they have
    /// the label of the fleet.
    pub(super) link: Option<String>,
    /// The fleet of the link, whose accounts belong to one source cluster each.
    pub(super) fleet: Option<String>,
    pub(super) lifetime: Lifetime,
    pub(super) api: Api<KubernetesSecret>,
}

/// A token Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSecret {
    pub name: String,
    /// The UID of the Secret. Another one may get its name.
    pub uid: Option<String>,
    /// The token; `None` for one that is bound to the Secret, unless it was just requested.
    pub text: Option<Secret>,
    pub created: Option<Timestamp>,
    pub owner: TokenOwner,
}

/// A run that was interrupted this long ago, or less, is continued. Older tokens are not put into use again.
const RECENT: SignedDuration = SignedDuration::from_hours(1);

/// In place of the name of the Secret, for a token that was requested. No Secret can have this name.
pub const REQUESTED: &str = "(requested)";

impl TokenSecret {
    /// The name of its Secret; `None` for a token that was requested, which is in none.
    pub fn secret(&self) -> Option<&str> {
        Some(self.name.as_str()).filter(|name| *name != REQUESTED)
    }

    /// Whether a run that created it, and that was interrupted, may be continued.
    pub fn is_recent(&self, now: Timestamp) -> bool {
        self.created.is_some_and(|at| at >= now - RECENT)
    }

    /// Whether a token is the one in this Secret, or is bound to it.
    pub fn is(&self, token: &Secret) -> bool {
        let bound_to = || TokenAccount::of(token).and_then(|of| of.bound_to);
        self.text.as_ref() == Some(token) || self.uid.is_some() && bound_to() == self.uid
    }
}

/// Who uses a token, by the label of its Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenOwner {
    /// Only this link.
    This,
    /// Only another link.
    Another,
    /// It has no such label: all links may use it, such as one that is bound to the Secret of `install` or
    /// `allow`.
    Unknown,
}
