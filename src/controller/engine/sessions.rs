//! Starts sessions with target clusters, and keeps the credentials for them. `links.rs` decides which Link has one.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;

use crate::{
    api::{conditions::credentials_valid, labels as l},
    controller::{
        session::{Outbox, Session, Shared, Spec},
        watch::Event,
    },
    mirror::Names,
};

/// Why credentials cannot be used: a reason of the condition, and a sentence.
pub(super) type CredentialsProblem = (&'static str, String);

/// Starts sessions, and keeps the credentials for them.
pub(super) struct Sessions {
    /// Kubeconfigs by name of their Secret, with `None` for a Secret without one. `None` until listed.
    secrets: Option<BTreeMap<String, Option<Arc<[u8]>>>>,
    shared: Shared,
    outbox: Outbox,
    started: u64,
}

impl Sessions {
    pub(super) fn new(shared: Shared, outbox: Outbox) -> Self {
        Self {
            secrets: None,
            shared,
            outbox,
            started: 0,
        }
    }

    pub(super) fn on_secrets_event(&mut self, change: Event<Secret>) {
        let secrets = self.secrets.get_or_insert_default();
        match change {
            Event::List { objects, .. } => {
                let objects = objects.iter();
                *secrets = objects.map(|s| (s.name_any(), kubeconfig(s))).collect();
            }
            Event::Apply(secret) => drop(secrets.insert(secret.name_any(), kubeconfig(&secret))),
            Event::Delete(secret) => drop(secrets.remove(&secret.name_any())),
        }
    }

    /// Finds the kubeconfig in a Secret. `None` until Secrets have been listed.
    pub(super) fn kubeconfig(&self, secret: &str) -> Option<Result<Arc<[u8]>, CredentialsProblem>> {
        let found = match self.secrets.as_ref()?.get(secret) {
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
        };
        Some(found)
    }

    /// Starts a session. If there are more Services than the limit, those in `first` have priority.
    pub(super) fn start(&mut self, link: &str, spec: Spec, first: Names) -> Session {
        self.started += 1;
        let outbox = self.outbox.clone();
        Session::start(link, self.started, spec, first, &self.shared, outbox)
    }
}

fn kubeconfig(secret: &Secret) -> Option<Arc<[u8]>> {
    let data = secret.data.as_ref()?.get(l::KUBECONFIG_KEY)?;
    Some(Arc::from(data.0.as_slice()))
}
