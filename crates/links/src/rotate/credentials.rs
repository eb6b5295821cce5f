//! The Secrets of a link in the source cluster: their tokens are replaced, and put back.

use anyhow::Context as _;
use client::{Cluster, fingerprint, kubeconfig_in};
use hints::hint::HintExt as _;
use k8s_openapi::{ByteString, api::core::v1::Secret as KubernetesSecret};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use manifests::kubeconfig::Secret;
use mirror_core::api::labels;
use serde_json::json;

use crate::link_credentials::KubeconfigTarget;

/// A credentials Secret. No `Debug`: it holds credentials.
pub struct Stored {
    namespace: String,
    name: String,
    /// Its resourceVersion: a write fails if somebody else has changed it.
    version: Option<String>,
    /// The kubeconfig as it was read.
    original: ByteString,
    pub target: KubeconfigTarget,
    /// The token in it.
    pub token: Secret,
    /// Whether the kubeconfig was replaced.
    is_written: bool,
}

impl Stored {
    /// Reads a Secret. Fails if it has no kubeconfig with a token.
    pub fn read(secret: &KubernetesSecret) -> anyhow::Result<Self> {
        let (namespace, name) = (secret.namespace().unwrap_or_default(), secret.name_any());
        let found = kubeconfig_in(secret).context("it contains no kubeconfig");
        let read = found.and_then(|original| {
            let target =
                KubeconfigTarget::of(&original.0).context("its kubeconfig is not valid")?;
            let token = target.token.clone();
            let token = token.context("the first user of its kubeconfig has no token")?;
            Ok((original.clone(), target, token))
        });
        let (original, target, token) = read.hint(
            || format!("cannot use the Secret {namespace}/{name}"),
            || "link the cluster again, which makes credentials that can be rotated".to_owned(),
        )?;
        Ok(Self {
            namespace,
            name,
            version: secret.resource_version(),
            original,
            target,
            token,
            is_written: false,
        })
    }

    /// Namespace and name.
    pub fn path(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The fingerprint of the kubeconfig, as it was read.
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.original.0)
    }

    /// Whether the Secret has this token, as it was read.
    pub fn has(&self, token: &Secret) -> bool {
        self.token == *token
    }

    /// Replaces the token, unless the Secret has it already. Returns the fingerprint of the kubeconfig, and whether the
    /// Secret was written.
    pub async fn put(
        &mut self,
        cluster: &Cluster,
        token: &Secret,
    ) -> anyhow::Result<(String, bool)> {
        if self.has(token) {
            return Ok((self.fingerprint(), false));
        }
        let kubeconfig = self.target.with_token(token)?;
        let data = ByteString(kubeconfig.expose().as_bytes().to_vec());
        self.write(cluster, &data).await?;
        self.is_written = true;
        Ok((fingerprint(&data.0), true))
    }

    /// Writes back the kubeconfig that was read, if it was replaced and nobody else has changed it since. Returns
    /// whether it was written.
    pub async fn restore(&mut self, cluster: &Cluster) -> anyhow::Result<bool> {
        if !self.is_written {
            return Ok(false);
        }
        let original = self.original.clone();
        self.write(cluster, &original).await?;
        self.is_written = false;
        Ok(true)
    }

    /// Whether the Secret in the cluster has this token now.
    pub async fn holds(&self, cluster: &Cluster, token: &Secret) -> anyhow::Result<bool> {
        let what = format!("read the Secret {}", self.path());
        let live = cluster
            .request(&what, self.api(cluster).get_opt(&self.name))
            .await?;
        Ok(live.is_some_and(|live| Self::read(&live).is_ok_and(|live| live.has(token))))
    }

    async fn write(&mut self, cluster: &Cluster, data: &ByteString) -> anyhow::Result<()> {
        let patch = json!({
            "metadata": { "resourceVersion": self.version },
            "data": { labels::KUBECONFIG_KEY: data },
        });
        let (api, params, patch) = (
            self.api(cluster),
            PatchParams::default(),
            Patch::Merge(&patch),
        );
        let what = format!("write the Secret {}", self.path());
        let patched = cluster
            .request(&what, api.patch(&self.name, &params, &patch))
            .await?;
        self.version = patched.resource_version();
        Ok(())
    }

    fn api(&self, cluster: &Cluster) -> Api<KubernetesSecret> {
        cluster.api(&self.namespace)
    }
}
