//! Finds the Services that exist because a cluster is linked to this one.

use std::collections::BTreeMap;

use client::Cluster;
use k8s_openapi::api::core::v1::Service;
use kube::{
    api::{ListParams, PartialObjectMeta},
    core::ObjectMeta,
};
use manifests::{link::ClusterName, render::ObjectName};
use mirror_core::api::{
    labels,
    members::{local_member, remote_members},
};

use crate::{inventory as objects, inventory::ListedObject};

/// Services that exist because of a link.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Mirrors {
    pub own: Vec<ListedObject>,
    /// Its probe Service.
    pub probes: Vec<ListedObject>,
    /// Federated Services that have no other member.
    pub federated: Vec<ListedObject>,
    /// Federated Services that have other members too.
    pub shared: Vec<ObjectName>,
}

impl Mirrors {
    /// Services of the installation whose Links are in `namespace`, and Services that name no installation.
    pub async fn gather(
        cluster: &Cluster,
        name: &ClusterName,
        namespace: &str,
    ) -> anyhow::Result<Self> {
        Self::gather_if(cluster, name, |of| of.is_none_or(|of| of == namespace)).await
    }

    /// Only Services that name this installation.
    pub async fn gather_named(
        cluster: &Cluster,
        name: &ClusterName,
        namespace: &str,
    ) -> anyhow::Result<Self> {
        Self::gather_if(cluster, name, |of| of == Some(namespace)).await
    }

    /// Services whose installation, if they name one, is one of these.
    async fn gather_if(
        cluster: &Cluster,
        name: &ClusterName,
        is_meant: impl Fn(Option<&str>) -> bool,
    ) -> anyhow::Result<Self> {
        let services = cluster.all::<PartialObjectMeta<Service>>();
        let list = async |selector: String| {
            let params = ListParams::default().labels(&selector);
            cluster
                .request("list mirrors", services.list_metadata(&params))
                .await
        };
        let (own, federated) = futures::try_join!(
            list(format!("{}={name}", labels::CLUSTER_NAME)),
            list(format!(
                "{}=true,!{}",
                labels::MIRRORED_SERVICE,
                labels::CLUSTER_NAME
            )),
        )?;
        let of_installation = |metadata: &ObjectMeta| {
            let annotations = metadata.annotations.as_ref();
            let known = annotations.and_then(|all| all.get(labels::INSTALLATION));
            is_meant(known.map(String::as_str))
        };
        let [own, federated] = [own, federated].map(|list| {
            let all = list.items.into_iter().map(|object| object.metadata);
            all.filter(of_installation).collect::<Vec<ObjectMeta>>()
        });
        Ok(Self::sort(&name.to_string(), &own, &federated))
    }

    /// Sorts Services by whether they exist only for `cluster`. `own` has its label, `federated` are all federated ones.
    fn sort(cluster: &str, own: &[ObjectMeta], federated: &[ObjectMeta]) -> Self {
        let listed = |meta: &ObjectMeta| ListedObject::new(objects::SERVICE, meta);
        let has = |map: &Option<BTreeMap<String, String>>, key: &str| {
            map.as_ref().is_some_and(|map| map.contains_key(key))
        };
        // A Service with only the cluster's label belongs to somebody else.
        let (probes, others): (Vec<_>, Vec<_>) = own
            .iter()
            .partition(|meta| has(&meta.labels, labels::MIRRORED_GATEWAY));
        let of_mirrors = |meta: &&ObjectMeta| has(&meta.labels, labels::MIRRORED_SERVICE);
        let mut mirrors = Self {
            own: others.into_iter().filter(of_mirrors).map(listed).collect(),
            probes: probes.into_iter().map(listed).collect(),
            ..Default::default()
        };
        for meta in federated {
            let annotation = |key: &str| Some(meta.annotations.as_ref()?.get(key)?.as_str());
            let is_of_cluster = |(_, of): (&str, &str)| of == cluster;
            if !remote_members(annotation).any(is_of_cluster) {
                continue;
            }
            let all = remote_members(annotation).all(is_of_cluster);
            if local_member(annotation).is_some() || !all {
                mirrors.shared.push(listed(meta).object);
            } else {
                mirrors.federated.push(listed(meta));
            }
        }
        mirrors
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.own.len() + self.probes.len() + self.federated.len() + self.shared.len()
    }

    /// Services that are deleted with the link.
    pub fn into_own(self) -> impl Iterator<Item = ListedObject> {
        [self.probes, self.own, self.federated]
            .into_iter()
            .flatten()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_server::TestServer;

    fn path(identity: &ObjectName) -> String {
        let namespace = identity.namespace.as_deref().unwrap_or_default();
        format!("{namespace}/{}", identity.name)
    }

    fn metas(all: serde_json::Value) -> Vec<ObjectMeta> {
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn only_services_of_the_cluster_alone_are_deleted() {
        let own = metas(json!([
            { "name": "web-east", "namespace": "shop", "labels": { "mirror.linkerd.io/mirrored-service": "true" } },
            { "name": "probe-east", "namespace": "mc", "labels": { "mirror.linkerd.io/mirrored-gateway": "true" } },
            { "name": "mine", "namespace": "shop", "labels": { "mirror.linkerd.io/cluster-name": "east" } },
        ]));
        let remote = "multicluster.linkerd.io/remote-discovery";
        let local = "multicluster.linkerd.io/local-discovery";
        let federated = metas(json!([
            { "name": "only-east", "namespace": "shop", "annotations": { remote: "a@east,b@east" } },
            { "name": "with-north", "namespace": "shop", "annotations": { remote: "a@east,a@north" } },
            { "name": "with-local", "namespace": "shop", "annotations": { remote: "a@east", local: "a" } },
            { "name": "without", "namespace": "shop", "annotations": { remote: "a@eastern" } },
            { "name": "empty", "namespace": "shop", "annotations": { remote: "", local: "a" } },
        ]));
        let Mirrors {
            own,
            probes,
            federated,
            shared,
        } = Mirrors::sort("east", &own, &federated);
        let paths = |all: &[ListedObject]| {
            let all = all.iter().map(|listed| path(&listed.object));
            all.collect::<Vec<_>>()
        };
        assert_eq!(paths(&own), ["shop/web-east"]);
        assert_eq!(paths(&probes), ["mc/probe-east"]);
        assert_eq!(paths(&federated), ["shop/only-east"]);
        let shared: Vec<String> = shared.iter().map(path).collect();
        assert_eq!(shared, ["shop/with-north", "shop/with-local"]);
    }

    #[tokio::test]
    async fn service_that_has_changed_meanwhile_is_not_deleted() {
        let service = |version: &str, members: &str| {
            json!({
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {
                    "name": "web", "namespace": "shop", "uid": "first", "resourceVersion": version,
                    "labels": { labels::MIRRORED_SERVICE: "true" },
                    "annotations": { labels::REMOTE_DISCOVERY: members },
                },
            })
        };
        let server = TestServer::new(vec![service("1", "web@east")]);
        let (cluster, east) = (server.cluster(), "east".parse().unwrap());
        let gather = async || Mirrors::gather(&cluster, &east, "mc").await.unwrap();
        let mut seen = gather().await.into_own();
        let seen = seen.next().unwrap();

        // Another cluster joins while the prompt waits.
        server.replace(vec![service("2", "web@east,web@north")]);
        let refused = seen.delete(&cluster).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "cannot delete the Service shop/web: it has changed meanwhile"
        );
        assert_eq!(gather().await.shared.len(), 1);

        // Deleted and created again.
        server.replace(vec![service("3", "web@east")]);
        let now = gather().await.into_own().next().unwrap();
        let mut again = service("3", "web@east");
        again["metadata"]["uid"] = "second".into();
        server.replace(vec![again]);
        now.delete(&cluster).await.unwrap_err();

        let now = gather().await.into_own().next().unwrap();
        now.delete(&cluster).await.unwrap();
        assert_eq!(gather().await, Mirrors::default());
        // It is gone already.
        now.delete(&cluster).await.unwrap();
    }
}
