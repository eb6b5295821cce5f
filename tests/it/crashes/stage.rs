//! Creates and clears the namespace, Links and Services of one run.

use control_plane::Lent;
use k8s_openapi::api::core::v1::{Endpoints, Namespace, Secret, Service};
use kube::{
    Api,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use linkerd_mc::api::{labels as l, link::Link};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::scenarios::Scenario;
use crate::support::{
    gateway_api,
    installation::NAMESPACE,
    links::{links, objects},
    objects::{create, join, services, slices, web},
    planes::Alone,
};

/// A Service of the source cluster that belongs to no Link.
pub(super) const BYSTANDER: &str = "bystander";

/// Where one run takes place: a namespace in both clusters, and a Link.
pub(super) struct Stage {
    pub(super) source: Lent,
    pub(super) far: Lent,
    /// Address of the API server of `far` in the Links.
    far_url: String,
    pub(super) namespace: String,
    pub(super) cluster: String,
}

impl Stage {
    pub(super) async fn new(
        planes: &Alone,
        far_url: String,
        scenario: &Scenario,
        run: usize,
    ) -> Self {
        let stage = Self {
            source: planes.source.clone(),
            far: planes.far.clone(),
            far_url,
            namespace: format!("ns-{run:03}-{}", scenario.name.replace(' ', "-")),
            cluster: format!("c{run:03}"),
        };
        for plane in [&stage.source, &stage.far] {
            let metadata = ObjectMeta {
                name: Some(stage.namespace.clone()),
                ..ObjectMeta::default()
            };
            let namespace = Namespace {
                metadata,
                ..Namespace::default()
            };
            Api::all(plane.client())
                .create(&PostParams::default(), &namespace)
                .await
                .unwrap();
        }
        create(&stage.source, &stage.namespace, &web(BYSTANDER, "no")).await;
        stage
    }

    /// Name of the second target cluster, if there is one.
    pub(super) fn second(&self) -> String {
        format!("{}-b", self.cluster)
    }

    /// Creates a Link to this cluster, as `link-gen` prints it.
    pub(super) async fn link(&self, cluster: &str) {
        /// The name of the cluster in the printed objects. No other part of their text contains it.
        const MODEL: &str = "modelcluster";
        static PRINTED: OnceCell<Vec<String>> = OnceCell::const_new();
        let printed = PRINTED.get_or_init(async || {
            let address = format!("--api-server-address={}", self.far_url);
            let flags = ["--enable-headless-services", &address];
            let objects = objects(&self.far, MODEL, &flags);
            objects.iter().map(Value::to_string).collect()
        });
        for text in printed.await {
            let text = text
                // The Links to both clusters select members whose label has the name of the first cluster.
                .replace(
                    &format!("\"{}\":\"{MODEL}", l::FEDERATED),
                    &format!("\"{}\":\"{}", l::FEDERATED, self.cluster),
                )
                .replace(MODEL, cluster);
            let object: Value = serde_json::from_str(&text).unwrap();
            let parameters = PostParams::default();
            if object["kind"] == "Secret" {
                let secret: Secret = serde_json::from_value(object).unwrap();
                let namespace = secret.metadata.namespace.clone().unwrap();
                Api::<Secret>::namespaced(self.source.client(), &namespace)
                    .create(&parameters, &secret)
                    .await
                    .unwrap();
            } else {
                let link: Link = serde_json::from_value(object).unwrap();
                links(&self.source)
                    .create(&parameters, &link)
                    .await
                    .unwrap();
            }
        }
    }

    pub(super) async fn unlink(&self, cluster: &str) {
        links(&self.source)
            .delete(cluster, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// Sets or removes an annotation of the Link.
    pub(super) async fn annotate(&self, what: &str, value: Option<&str>) {
        let annotations = json!({ "metadata": { "annotations": { what: value } } });
        links(&self.source)
            .patch(
                &self.cluster,
                &PatchParams::default(),
                &Patch::Merge(annotations),
            )
            .await
            .unwrap();
    }

    /// Deletes the credentials of the Link.
    pub(super) async fn without_credentials(&self) {
        let secrets: Api<Secret> = Api::namespaced(self.source.client(), NAMESPACE);
        let name = format!("cluster-credentials-{}", self.cluster);
        secrets
            .delete(&name, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// Creates a member in both clusters.
    pub(super) async fn member(&self) {
        for plane in [&self.source, &self.far] {
            let value = if plane.url() == self.source.url() {
                "swept"
            } else {
                &self.cluster
            };
            join(plane, &self.namespace, "member", value, "no").await;
        }
    }

    /// Creates a mirror of Linkerd's service mirror, with its Endpoints.
    pub(super) async fn linkerds_mirror(&self, service: &str) {
        let name = format!("{service}-{}", self.cluster);
        let metadata = json!({
            "name": name,
            "labels": { l::MIRRORED_SERVICE: "true", l::CLUSTER_NAME: self.cluster },
            "annotations": { l::REMOTE_FQ_NAME: format!("{service}.{}.svc.cluster.local", self.namespace) },
        });
        let mirror: Service = serde_json::from_value(json!({
            "metadata": metadata, "spec": { "ports": [{ "name": "http", "port": 80 }] },
        }))
        .unwrap();
        let endpoints: Endpoints = serde_json::from_value(json!({
            "metadata": metadata,
            "subsets": [{ "addresses": [{ "ip": "192.0.2.99" }], "ports": [{ "name": "http", "port": 4143 }] }],
        }))
        .unwrap();
        let parameters = PostParams::default();
        services(&self.source, &self.namespace)
            .create(&parameters, &mirror)
            .await
            .unwrap();
        Api::<Endpoints>::namespaced(self.source.client(), &self.namespace)
            .create(&parameters, &endpoints)
            .await
            .unwrap();
    }

    /// Deletes objects that would be work for the controllers of later runs.
    pub(super) async fn clear(&self) {
        let all = ListParams::default();
        let now = DeleteParams::default();
        for plane in [&self.far, &self.source] {
            if plane.url() == self.source.url() {
                links(plane).delete_collection(&now, &all).await.unwrap();
                let kind = ListParams::default().fields(&format!("type={}", l::CREDENTIALS_TYPE));
                let secrets: Api<Secret> = Api::namespaced(plane.client(), NAMESPACE);
                secrets.delete_collection(&now, &kind).await.unwrap();
                let probes = ListParams::default().labels(&format!("{}=true", l::MIRRORED_GATEWAY));
                services(plane, NAMESPACE)
                    .delete_collection(&now, &probes)
                    .await
                    .unwrap();
                slices(plane, NAMESPACE)
                    .delete_collection(&now, &probes)
                    .await
                    .unwrap();
            }
            if plane.url() == self.source.url() {
                gateway_api::routes(plane, &self.namespace, "HTTPRoute")
                    .delete_collection(&now, &all)
                    .await
                    .unwrap();
            }
            services(plane, &self.namespace)
                .delete_collection(&now, &all)
                .await
                .unwrap();
            slices(plane, &self.namespace)
                .delete_collection(&now, &all)
                .await
                .unwrap();
        }
    }
}
