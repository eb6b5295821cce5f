//! Starts sessions with target clusters, and keeps the credentials for them. `links.rs` decides which Link has one.

use std::{collections::BTreeMap, sync::Arc};

use client::kubeconfig_in;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use mirror_core::{api::conditions::credentials_valid, mirror::Names};

use crate::{
    session::{Outbox, Session, Shared, Spec},
    watch::Event,
};

/// Why credentials cannot be used: a reason of the condition, and a sentence.
pub type CredentialsProblem = (&'static str, String);

/// Starts sessions, and keeps the credentials for them.
pub struct Sessions {
    /// By name of the Secret. `None` until listed.
    secrets: Option<BTreeMap<String, StoredCredentials>>,
    shared: Shared,
    outbox: Outbox,
    started: u64,
}

/// What is kept of a Secret with credentials.
struct StoredCredentials {
    /// `None` if the Secret has no kubeconfig.
    kubeconfig: Option<Arc<[u8]>>,
    created: Option<Timestamp>,
}

impl Sessions {
    pub fn new(shared: Shared, outbox: Outbox) -> Self {
        Self {
            secrets: None,
            shared,
            outbox,
            started: 0,
        }
    }

    pub fn on_secrets_event(&mut self, change: Event<Secret>) {
        let secrets = self.secrets.get_or_insert_default();
        match change {
            Event::List { objects, .. } => {
                let objects = objects.iter();
                *secrets = objects.map(|s| (s.name_any(), stored(s))).collect();
            }
            Event::Apply(secret) => drop(secrets.insert(secret.name_any(), stored(&secret))),
            Event::Delete(secret) => drop(secrets.remove(&secret.name_any())),
        }
    }

    /// Finds the kubeconfig in a Secret. `None` until Secrets have been listed.
    pub fn kubeconfig(&self, secret: &str) -> Option<Result<Arc<[u8]>, CredentialsProblem>> {
        let stored = self.secrets.as_ref()?.get(secret);
        if secret.is_empty() {
            let what = "spec.clusterCredentialsSecret is empty: it has to be the name of the Secret with the kubeconfig";
            return Some(Err((credentials_valid::SECRET_MISSING, what.to_owned())));
        }
        let found = match stored.map(|stored| &stored.kubeconfig) {
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

    /// When a Secret was created, if it is there.
    pub fn created(&self, secret: &str) -> Option<Timestamp> {
        self.secrets.as_ref()?.get(secret)?.created
    }

    /// Starts a session. If there are more Services than the limit, those in `first` have priority.
    pub fn start(&mut self, link: &str, spec: Spec, first: Names) -> Session {
        self.started += 1;
        let outbox = self.outbox.clone();
        Session::start(link, self.started, spec, first, &self.shared, outbox)
    }
}

fn stored(secret: &Secret) -> StoredCredentials {
    StoredCredentials {
        kubeconfig: kubeconfig_in(secret).map(|kubeconfig| Arc::from(kubeconfig.0.as_slice())),
        created: secret.creation_timestamp().map(|time| time.0),
    }
}
