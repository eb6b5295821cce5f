//! Time from the label that exports a Service to the first answer.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use kube::{
    api::{DeleteParams, Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::{
    load::until_answered,
    rig::{
        NAMESPACE, Rig,
        mirrors::{address_of, target},
        wait::SOON,
        workloads::service,
    },
    table::{Row, percentile},
};

const TIMES: usize = 20;
/// More than this would be felt. It is mostly the time that Linkerd needs to find a new Service.
const LIMIT: Duration = Duration::from_secs(5);

/// Exports Services, one after the other, and sends requests to each mirror as soon as it exists.
pub(super) async fn to_first_answer(rig: &mut Rig) -> anyhow::Result<Row> {
    let mut times = Vec::new();
    let mut requests = 0;
    for number in 0..TIMES {
        let name = format!("late-{number}");
        let (took, asked) = timeout(SOON, first_answer(rig, &name))
            .await
            .with_context(|| format!("no answer from the mirror of {name}"))??;
        times.push(took);
        requests += asked;
        let services = rig.east.services(NAMESPACE);
        services.delete(&name, &DeleteParams::default()).await?;
    }
    let [half, most] = [50, 99].map(|percent| percentile(&mut times, percent));
    ensure!(
        most < LIMIT,
        "{most:?} to the first answer (limit {LIMIT:?})"
    );
    let [half, most] = [half, most].map(|time| time.as_millis());
    Ok(Row {
        requests,
        failed: 0,
        oracle: "-".to_owned(),
        measured: format!("p50 {half} ms, p99 {most} ms of {TIMES}"),
    })
}

/// The time to the first answer, and the number of requests until then.
async fn first_answer(rig: &Rig, name: &str) -> anyhow::Result<(Duration, u64)> {
    let label = "mirror.linkerd.io/exported";
    let services = rig.east.services(NAMESPACE);
    let unexported = serde_json::from_value(service(name, "example.com/exported", "not-yet"))?;
    services.create(&PostParams::default(), &unexported).await?;
    let mirror = format!("{name}-east");
    let only = watcher::Config::default().fields(&format!("metadata.name={mirror}"));
    let mut mirrors = watcher(rig.west.services(NAMESPACE), only)
        .applied_objects()
        .boxed();

    let started = Instant::now();
    let exported = json!({ "metadata": { "labels": { label: "true" } } });
    services
        .patch(name, &PatchParams::default(), &Patch::Merge(exported))
        .await?;
    let address = loop {
        let event = mirrors.try_next().await?;
        if let Some(address) = address_of(&event.context("the watch has ended")?) {
            break address;
        }
    };
    let requests = until_answered(&rig.source.client, &target(&mirror, address)).await?;
    Ok((started.elapsed(), requests))
}
