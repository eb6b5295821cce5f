//! A cluster is unlinked and linked again, many times, while requests go to what stays: the federated Service has its
//! own Pods all the time, and the other cluster's while it is linked.

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use anyhow::{Context as _, ensure};
use tokio::time::Instant;

use super::{of, without_failures};
use crate::{
    load::{Load, Tally},
    rig::{
        NAMESPACE, Rig,
        mirrors::{FEDERATED, FOLLOWS},
    },
    table::{Row, seconds},
};

const TIMES: usize = 20;
/// Longer than a proxy takes that hears of it.
const HEARD: Duration = Duration::from_secs(10);

/// `unlink --apply`
pub(super) async fn applied(rig: &mut Rig) -> anyhow::Result<Row> {
    let unlink = ["unlink", "--cluster-name", "east", "--apply", "--yes"];
    let rounds = rounds(rig, FOLLOWS, async |rig| {
        rig.west.linkerd_mc(&unlink).map(|_| ())
    })
    .await?;
    rounds.all_right()
}

/// `unlink | kubectl delete -f -`
pub(super) async fn printed(rig: &mut Rig) -> anyhow::Result<Row> {
    let rounds = rounds(rig, FOLLOWS, async |rig| {
        let printed = rig.west.linkerd_mc(&["unlink", "--cluster-name", "east"])?;
        delete(rig, &printed).await
    })
    .await?;
    rounds.all_right()
}

/// What was applied is deleted as it is, Secrets first: nobody can hold what hangs on that. How long the Secrets are gone
/// before the Link is, and what comes of it, is measured.
pub(super) async fn at_once(rig: &mut Rig) -> anyhow::Result<Row> {
    let mut took = Duration::ZERO;
    let rounds = rounds(rig, HEARD, async |rig| {
        let printed = rig.link_gen()?;
        let began = Instant::now();
        delete(rig, &printed).await?;
        took = took.max(began.elapsed());
        Ok(())
    })
    .await?;
    ensure!(rounds.missing == 0, "{rounds:?}");
    let mut row = without_failures(&[(FEDERATED.to_owned(), rounds.tally)].into())?;
    row.oracle = format!("stale after {} of {TIMES}", rounds.stale);
    Ok(row.with(format!("all objects were gone within {}", seconds(took))))
}

/// What came of the rounds.
#[derive(Debug)]
struct Rounds {
    /// How many left endpoints that should have gone.
    stale: usize,
    /// How many lacked endpoints after linking again.
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

/// Unlinks and links again. `limit` is how long the proxy may take to forget the endpoints.
async fn rounds(
    rig: &mut Rig,
    limit: Duration,
    mut unlink: impl AsyncFnMut(&Rig) -> anyhow::Result<()>,
) -> anyhow::Result<Rounds> {
    let target = rig.target(FEDERATED).await?;
    let load = Load::start(&rig.client, std::slice::from_ref(&target));
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

/// Whether the proxy comes to have these endpoints for the federated Service.
async fn has(rig: &Rig, endpoints: &BTreeSet<SocketAddr>, limit: Duration) -> bool {
    let service = format!("{NAMESPACE}/{FEDERATED}");
    rig.oracle.agrees(&service, endpoints, limit).await.is_ok()
}

/// `kubectl delete`
async fn delete(rig: &Rig, objects: &str) -> anyhow::Result<()> {
    let delete = ["delete", "--ignore-not-found", "-f", "-"];
    let deleted = rig.west.plane.kubectl_stdin(&delete, objects);
    deleted.await.map(|_| ())
}
