//! What Linkerd's own control plane would have in a cluster, as far as the multicluster extension looks at it.

use std::sync::OnceLock;
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use crate::certificates::trust_anchor;
use crate::crds;
use crate::plane::ControlPlane;
use crate::wait::eventually;

const NAMESPACE: &str = "linkerd";
const ESTABLISH_LIMIT: Duration = Duration::from_secs(30);

/// The facts of a Linkerd installation. The default is a fresh one of this process: all control planes that are given
/// it trust each other.
#[derive(Clone, Debug)]
pub struct LinkerdOptions {
    /// `identityTrustDomain`.
    pub trust_domain: String,
    /// `clusterDomain`.
    pub cluster_domain: String,
    /// `identityTrustAnchorsPEM`: the anchor that all share by default; another one from [`trust_anchor`].
    pub trust_anchors: Option<String>,
    /// `proxy.ports.outbound`.
    pub outbound_port: u16,
    /// `cniEnabled`.
    pub cni_enabled: bool,
    /// `enableEndpointSlices`.
    pub endpoint_slices: bool,
    /// `linkerdVersion`.
    pub version: String,
}

impl Default for LinkerdOptions {
    fn default() -> Self {
        Self {
            trust_domain: "cluster.local".into(),
            cluster_domain: "cluster.local".into(),
            trust_anchors: None,
            outbound_port: 4140,
            cni_enabled: false,
            endpoint_slices: true,
            version: "edge-26.7.3".into(),
        }
    }
}

impl LinkerdOptions {
    fn anchors(&self) -> anyhow::Result<String> {
        static SHARED: OnceLock<String> = OnceLock::new();
        if let Some(anchors) = &self.trust_anchors {
            return Ok(anchors.clone());
        }
        let fresh = trust_anchor()?;
        Ok(SHARED.get_or_init(|| fresh).clone())
    }

    /// The document under the key `values` of `linkerd-config`.
    fn values(&self, anchors: &str) -> String {
        let Self {
            trust_domain,
            cluster_domain,
            outbound_port,
            cni_enabled,
            endpoint_slices,
            version,
            trust_anchors: _,
        } = self;
        let indented = anchors.trim_end().replace('\n', "\n  ");
        format!(
            "cliVersion: linkerd/cli {version}\n\
             clusterDomain: {cluster_domain}\n\
             clusterNetworks: 10.0.0.0/8,100.64.0.0/10,172.16.0.0/12,192.168.0.0/16,fd00::/8\n\
             cniEnabled: {cni_enabled}\n\
             controllerReplicas: 1\n\
             enableEndpointSlices: {endpoint_slices}\n\
             identity:\n  externalCA: false\n  issuer:\n    scheme: linkerd.io/tls\n\
             identityTrustAnchorsPEM: |\n  {indented}\n\
             identityTrustDomain: {trust_domain}\n\
             linkerdVersion: {version}\n\
             proxy:\n  ports:\n    admin: 4191\n    control: 4190\n    inbound: 4143\n    outbound: {outbound_port}\n"
        )
    }
}

impl ControlPlane {
    /// Installs what Linkerd would: its namespace, `linkerd-config`, the trust roots, and the policy CRDs, established.
    /// Another call updates it, perhaps with other options.
    pub async fn linkerd(&self, options: &LinkerdOptions) -> anyhow::Result<()> {
        let client = self.client();
        let apply = PatchParams::apply("control-plane").force();
        let anchors = options.anchors()?;

        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in crds::all() {
            let name = definition["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let applied = definitions
                .patch(&name, &apply, &Patch::Apply(&definition))
                .await;
            applied.with_context(|| format!("failed to apply the definition of {name}"))?;
        }
        Api::<Namespace>::all(client.clone())
            .patch(NAMESPACE, &apply, &Patch::Apply(&namespace()))
            .await
            .context("failed to apply the namespace of Linkerd")?;
        let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
        for map in [
            config_map(
                "linkerd-config",
                "controller",
                "values",
                &options.values(&anchors),
            ),
            config_map(
                "linkerd-identity-trust-roots",
                "identity",
                "ca-bundle.crt",
                &anchors,
            ),
        ] {
            let name = map["metadata"]["name"].as_str().unwrap_or_default();
            let applied = maps.patch(name, &apply, &Patch::Apply(&map)).await;
            applied.with_context(|| format!("failed to apply ConfigMap {name}"))?;
        }
        eventually(
            "the policy CRDs to be established",
            ESTABLISH_LIMIT,
            async || {
                let list = definitions.list(&kube::api::ListParams::default()).await?;
                let ours = list
                    .iter()
                    .filter(|definition| definition.name_any().ends_with(crds::SUFFIX));
                Ok(
                    (ours.filter(|definition| is_established(definition)).count()
                        == crds::all().len())
                    .then_some(()),
                )
            },
        )
        .await
    }
}

fn namespace() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": NAMESPACE,
            "labels": { "linkerd.io/is-control-plane": "true", "linkerd.io/control-plane-ns": NAMESPACE },
        },
    })
}

fn config_map(name: &str, component: &str, key: &str, text: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "labels": {
                "linkerd.io/control-plane-component": component,
                "linkerd.io/control-plane-ns": NAMESPACE,
            },
        },
        "data": { key: text },
    })
}

fn is_established(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Established" && condition.status == "True")
}
