//! The limit of this machine: the same objects, written by bare parallel requests.

use std::time::{Duration, Instant};

use control_plane::ControlPlane;

use crate::objects::{all, client, create, delete, namespace, namespaces, service};

/// Time to create, and time to delete, `count` Services with a slice each.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    pub create: Duration,
    pub delete: Duration,
}

/// Measures the limit on `plane`.
pub async fn measure(plane: &ControlPlane, count: usize, round: &str) -> Limit {
    let client = client(plane).await;
    let prefix = format!("limit-{round}");
    namespaces(&client, &prefix).await;
    let name = |index: usize| format!("bare-{index}");
    let started = Instant::now();
    all((0..count).map(|index| {
        // Selectors would make Kubernetes write slices of its own beside ours; mirrors have none.
        let labels = serde_json::json!({ "mirror": "no" });
        let mut service = service(&namespace(&prefix, index), &name(index), labels);
        service.spec.selector = linkerd_mc::api::map::Map::default();
        create(client.clone(), service, true)
    }))
    .await;
    let created = started.elapsed();
    let started = Instant::now();
    all((0..count).map(|index| {
        let namespace = namespace(&prefix, index);
        delete(
            client.clone(),
            namespace,
            name(index),
            format!("{}-bench", name(index)),
        )
    }))
    .await;
    Limit {
        create: created,
        delete: started.elapsed(),
    }
}
