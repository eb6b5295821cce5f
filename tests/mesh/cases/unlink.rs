//! A cluster is unlinked and linked again, many times, while requests go to the federated Service. It has its local
//! Pods all the time, and those of the other cluster while that is linked.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use control_plane::{Fault, eventually};
use k8s_openapi::{api::core::v1::Secret, jiff::SignedDuration};
use kube::Api;

use super::{of, without_failures};
use crate::{
    load::{Load, Tally},
    rig::{
        NAMESPACE, Rig,
        cluster::EXTENSION,
        mirrors::{FEDERATED, FOLLOWS},
    },
    table::{Row, seconds},
};

const TIMES: usize = 20;
/// A proxy gets a change of endpoints within this time.
const HEARD: Duration = Duration::from_secs(10);

/// How long a request takes to an API server that is far away, and its answer back.
const DISTANCES: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_millis(75),
    Duration::from_millis(150),
];

/// `unlink --apply`
pub(super) async fn applied(rig: &mut Rig) -> anyhow::Result<Row> {
    let rounds = rounds(rig, FOLLOWS, async |rig| rig.unlink()).await?;
    rounds.all_right()
}

/// Links to a cluster whose API server is far away. Linkerd takes longer to add it than the controller to connect, and does
/// not follow a federated Service that names it before that.
pub(super) async fn far_away(rig: &mut Rig) -> anyhow::Result<Row> {
    let target = rig.target(FEDERATED).await?;
    let load = Load::start(&rig.source.client, std::slice::from_ref(&target));
    let federated = format!("{NAMESPACE}/{FEDERATED}");
    let (all, own) = (rig.expected(FEDERATED), rig.expected_unlinked());
    rig.source.oracle.agrees(&federated, &all, FOLLOWS).await?;
    load.count_anew();
    let mut joined = Vec::new();
    for delay in DISTANCES {
        rig.unlink()?;
        rig.source.oracle.agrees(&federated, &own, FOLLOWS).await?;
        rig.east_api.set(Fault::Delay(delay));
        let began = Instant::now();
        rig.link().await?;
        let followed = rig.source.oracle.agrees(&federated, &all, FOLLOWS).await;
        followed.with_context(|| format!("{delay:?} away"))?;
        joined.push(seconds(began.elapsed()));
        rig.east_api.set(Fault::None);
    }
    let row = without_failures(&load.finish().await?)?;
    Ok(row.with(format!(
        "proxies have the members of a cluster that is {DISTANCES:?} away {} after `link-gen`",
        joined.join(", ")
    )))
}

/// `unlink | kubectl delete -f -`
pub(super) async fn printed(rig: &mut Rig) -> anyhow::Result<Row> {
    let rounds = rounds(rig, FOLLOWS, by_hand).await?;
    rounds.all_right()
}

/// Deletes what `unlink` prints, and again when it prints the Secrets: the controller has removed the memberships then.
pub(super) async fn by_hand(rig: &Rig) -> anyhow::Result<()> {
    let unlink = ["unlink", "--cluster-name", "east"];
    let printed = rig.west.linkerd_mc(&unlink)?;
    delete(rig, &printed).await?;
    if printed.contains("kind: Secret") {
        return Ok(());
    }
    eventually("the Secrets to be printed", FOLLOWS, async || {
        let printed = rig.west.linkerd_mc(&unlink)?;
        if !printed.contains("kind: Secret") {
            return Ok(None);
        }
        delete(rig, &printed).await.map(Some)
    })
    .await
}

/// Deletes everything that was applied at once, the Secrets first. No result is guaranteed for this, so the case only
/// measures how long the Secret of Linkerd is deleted before the Link, and the effect.
pub(super) async fn at_once(rig: &mut Rig) -> anyhow::Result<Row> {
    let mut gap = SignedDuration::ZERO;
    let rounds = rounds(rig, HEARD, async |rig| {
        let printed = rig.link_gen()?;
        delete(rig, &printed).await?;
        gap = gap.max(secret_before_link(rig)?);
        Ok(())
    })
    .await?;
    ensure!(rounds.missing == 0, "{rounds:?}");
    let mut row = without_failures(&[(FEDERATED.to_owned(), rounds.tally)].into())?;
    row.oracle = format!("stale after {} of {TIMES}", rounds.stale);
    Ok(row.with(format!(
        "Linkerd's Secret was deleted up to {} ms before the Link",
        gap.as_millis()
    )))
}

/// How long Linkerd's Secret was deleted before the Link, the last time.
fn secret_before_link(rig: &Rig) -> anyhow::Result<SignedDuration> {
    let audit = rig.west.plane.audit_since(0)?;
    let deleted = |resource: &str, namespace: &str| {
        let mut all = audit.iter().rev();
        let last = all.find(|event| {
            event.verb == "delete"
                && event.is_write()
                && event.resource == resource
                && event.namespace == namespace
        });
        let last = last.with_context(|| format!("no deletion of {resource} in the audit log"));
        last.map(|event| event.noted)
    };
    let (link, secret) = (deleted("links", EXTENSION)?, deleted("secrets", "linkerd")?);
    Ok(link.duration_since(secret))
}

/// Results of the rounds.
#[derive(Debug)]
struct Rounds {
    /// Number of rounds with endpoints that should have been removed.
    stale: usize,
    /// Number of rounds with missing endpoints after linking again.
    missing: usize,
    tally: Tally,
}

impl Rounds {
    fn all_right(self) -> anyhow::Result<Row> {
        ensure!(
            self.stale + self.missing == 0,
            "of {TIMES} rounds {} left stale endpoints, {} lacked endpoints; {}",
            self.stale,
            self.missing,
            self.tally
        );
        let row = without_failures(&[(FEDERATED.to_owned(), self.tally)].into())?;
        Ok(row.with(format!("{TIMES} rounds")))
    }
}

/// Unlinks and links again. `limit` is how long the proxy may take to remove the endpoints.
async fn rounds(
    rig: &mut Rig,
    limit: Duration,
    mut unlink: impl AsyncFnMut(&Rig) -> anyhow::Result<()>,
) -> anyhow::Result<Rounds> {
    let target = rig.target(FEDERATED).await?;
    let load = Load::start(&rig.source.client, std::slice::from_ref(&target));
    let linked = rig.expected(FEDERATED);
    let own = rig.expected_unlinked();
    ensure!(
        has(rig, &linked, FOLLOWS).await,
        "the endpoints were not right before"
    );
    load.count_anew();
    let (mut stale, mut missing) = (0, 0);
    for _ in 0..TIMES {
        unlink(rig).await.context("failed to unlink")?;
        secrets_are_gone(rig).await?;
        stale += usize::from(!has(rig, &own, limit).await);
        rig.link().await?;
        missing += usize::from(!has(rig, &linked, FOLLOWS).await);
    }
    let tallies = load.finish().await?;
    Ok(Rounds {
        stale,
        missing,
        tally: of(&tallies, FEDERATED)?.clone(),
    })
}

/// Fails unless both credentials Secrets are deleted.
async fn secrets_are_gone(rig: &Rig) -> anyhow::Result<()> {
    for namespace in [EXTENSION, "linkerd"] {
        let secrets: Api<Secret> = Api::namespaced(rig.west.plane.client(), namespace);
        let found = secrets.get_metadata_opt("cluster-credentials-east").await?;
        ensure!(found.is_none(), "the Secret in {namespace} is left");
    }
    Ok(())
}

/// Whether the proxy gets these endpoints for the federated Service in time.
async fn has(rig: &Rig, endpoints: &BTreeSet<SocketAddr>, limit: Duration) -> bool {
    let service = format!("{NAMESPACE}/{FEDERATED}");
    rig.source
        .oracle
        .agrees(&service, endpoints, limit)
        .await
        .is_ok()
}

/// `kubectl delete`
async fn delete(rig: &Rig, objects: &str) -> anyhow::Result<()> {
    let delete = ["delete", "--ignore-not-found", "-f", "-"];
    let deleted = rig.west.plane.kubectl_stdin(&delete, objects);
    deleted.await.map(|_| ())
}
