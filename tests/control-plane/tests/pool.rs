//! Control planes that tests use one after another.

use std::fmt::Debug;

use control_plane::{ControlPlane, Pool};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, Service, ServiceAccount};
use kube::api::{ListParams, PostParams};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::json;

/// Namespace, name and UID of an object.
type Uid = (Option<String>, String, Option<String>);

/// The objects of one kind.
async fn uids<K>(plane: &ControlPlane) -> anyhow::Result<Vec<Uid>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let (all, every) = (Api::<K>::all(plane.client()), ListParams::default());
    let found = all.list(&every).await?.items.into_iter();
    Ok(found
        .map(|object| (object.namespace(), object.name_any(), object.uid()))
        .collect())
}

/// Namespaces, accounts, Secrets and maps.
async fn objects(plane: &ControlPlane) -> anyhow::Result<[Vec<Uid>; 4]> {
    Ok([
        uids::<Namespace>(plane).await?,
        uids::<ServiceAccount>(plane).await?,
        uids::<Secret>(plane).await?,
        uids::<ConfigMap>(plane).await?,
    ])
}

/// The state of a control plane with `token.yaml` and a namespace.
const READER: &str = "reader";

#[tokio::test]
async fn used_control_plane_is_as_new_for_the_next_test() -> anyhow::Result<()> {
    static POOL: Pool = Pool::new();
    let prepare = async |plane: &ControlPlane| {
        plane.apply(include_str!("token.yaml")).await?;
        let arguments = ["create", "namespace", "old"];
        plane.kubectl(&arguments).await.map(drop)
    };
    let first = POOL.take_prepared("first", READER, prepare).await?;
    let new = objects(&first).await?;
    let pids = first.pids();

    // Objects come and go, also those of a new kind, and those that kube-controller-manager creates.
    first.install_gateway_api().await?;
    let service = json!({
        "metadata": { "name": "more" }, "spec": { "clusterIP": "10.96.0.77", "ports": [{ "port": 80 }] },
    });
    let service: Service = serde_json::from_value(service)?;
    let services = |plane: &ControlPlane| Api::<Service>::namespaced(plane.client(), "default");
    services(&first)
        .create(&PostParams::default(), &service)
        .await?;
    first.kubectl(&["create", "namespace", "new"]).await?;
    first
        .kubectl(&["delete", "serviceaccount", "reader"])
        .await?;
    first.kubectl(&["delete", "namespace", "old"]).await?;
    first.pause_api_server()?;
    drop(first);

    let second = POOL.take_prepared("second", READER, prepare).await?;
    assert_eq!(second.pids(), pids);
    let context = second.kubectl(&["config", "current-context"]).await?;
    assert_eq!(context.trim(), "second");
    assert_eq!(objects(&second).await?, new);
    let kinds = second.kubectl(&["api-resources", "-o", "name"]).await?;
    assert!(!kinds.contains("gateway.networking.k8s.io"), "{kinds}");
    // The address of the Service is free again.
    services(&second)
        .create(&PostParams::default(), &service)
        .await?;

    // While it is lent, another caller gets another one.
    let third = POOL.take_prepared("third", READER, prepare).await?;
    assert_ne!(third.pids(), pids);
    drop(second);
    // A control plane without an API server is not lent again.
    third.kill_api_server()?;
    drop(third);
    let fourth = POOL.take("fourth").await?;
    assert_eq!(fourth.pids(), pids);
    // Nothing is prepared, and what was prepared before is as it was.
    let namespaces = fourth.kubectl(&["get", "namespaces", "-o", "name"]).await?;
    assert!(!namespaces.contains("old"), "{namespaces}");
    drop(fourth);
    let fifth = POOL.take_prepared("fifth", READER, prepare).await?;
    assert_eq!(fifth.pids(), pids);
    assert_eq!(objects(&fifth).await?, new);
    Ok(())
}
