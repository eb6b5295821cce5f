//! What sessions with target clusters are started from. Which Link has one is decided in `links.rs`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;

use super::absorb::{Kubeconfigs, absorb_by_name, kubeconfig};
use crate::{
    api::conditions::credentials_valid,
    controller::{
        session::{Outbox, Session, Shared, Spec},
        watch::Event,
    },
    mirror::Names,
};

/// Starts sessions, and knows the credentials for them.
pub(super) struct Sessions {
    secrets: Kubeconfigs,
    shared: Shared,
    outbox: Outbox,
    started: u64,
}

impl Sessions {
    pub(super) fn new(secrets: Kubeconfigs, shared: Shared, outbox: Outbox) -> Self {
        Self {
            secrets,
            shared,
            outbox,
            started: 0,
        }
    }

    pub(super) fn on_secrets_event(&mut self, change: Event<Secret>) {
        absorb_by_name(&mut self.secrets, change, |secret| kubeconfig(&secret));
    }

    /// The kubeconfig in a Secret; or why there is none: the reason, and a sentence.
    pub(super) fn kubeconfig(&self, secret: &str) -> Result<Arc<[u8]>, (&'static str, String)> {
        match self.secrets.get(secret) {
            Some(Some(kubeconfig)) => Ok(kubeconfig.clone()),
            Some(None) => {
                let what = format!("Secret {secret} has no key kubeconfig");
                Err((credentials_valid::SECRET_MALFORMED, what))
            }
            None => {
                let what = format!(
                    "Secret {secret} of type mirror.linkerd.io/remote-kubeconfig not found"
                );
                Err((credentials_valid::SECRET_MISSING, what))
            }
        }
    }

    /// Starts a session. Where there are more Services than the limit, `first` are taken in first.
    pub(super) fn start(&mut self, link: &str, spec: Spec, first: Names) -> Session {
        self.started += 1;
        let outbox = self.outbox.clone();
        Session::start(link, self.started, spec, first, &self.shared, outbox)
    }
}
