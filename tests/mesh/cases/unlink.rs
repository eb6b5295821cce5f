//! A cluster is unlinked and linked again, many times, while requests go to what stays.

use anyhow::{Context as _, ensure};

use super::{of, without_failures};
use crate::{
    load::Load,
    rig::{
        NAMESPACE, Rig,
        mirrors::{FEDERATED, FOLLOWS},
    },
    table::Row,
};

const TIMES: usize = 20;

/// `unlink --apply`, then link again: the federated Service has its own Pods all the time and the other cluster's
/// while it is linked.
pub(super) async fn applied(rig: &mut Rig) -> anyhow::Result<Row> {
    let target = rig.target(FEDERATED).await?;
    let load = Load::start(&rig.client, std::slice::from_ref(&target));
    let service = format!("{NAMESPACE}/{FEDERATED}");
    let linked = rig.expected(FEDERATED);
    let own = rig.expected_unlinked();
    rig.oracle.agrees(&service, &linked, FOLLOWS).await?;
    load.count_anew();
    let (mut stale, mut missing) = (0, 0);
    for _ in 0..TIMES {
        let unlink = ["unlink", "--cluster-name", "east", "--apply", "--yes"];
        rig.west.linkerd_mc(&unlink).context("failed to unlink")?;
        stale += u32::from(rig.oracle.agrees(&service, &own, FOLLOWS).await.is_err());
        rig.link().await?;
        missing += u32::from(rig.oracle.agrees(&service, &linked, FOLLOWS).await.is_err());
    }
    let tallies = load.finish().await?;
    ensure!(
        stale + missing == 0,
        "of {TIMES} rounds {stale} left stale endpoints, {missing} lacked endpoints; {}",
        of(&tallies, FEDERATED)?
    );
    let row = without_failures(&tallies)?;
    Ok(row.with(format!("{TIMES} rounds")))
}
