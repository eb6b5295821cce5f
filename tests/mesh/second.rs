//! A second opinion on mirrors: Linkerd's own service mirror and ours follow the same random histories of a target
//! cluster, each in a source cluster of its own. At rest, their mirrors are the same, but for the differences that
//! docs/differences.md lists.
//!
//! There are no proxies: only objects are compared. `LINKERD_MC_MESH_HISTORIES` sets the number of histories,
//! `LINKERD_MC_MESH_SEED` repeats those of an earlier run.

mod clusters;
mod history;
mod known;
mod seen;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use control_plane::eventually;

use self::{
    clusters::Clusters,
    history::{History, Step},
    known::agreed,
};
use crate::{isolation::Place, table::Row};

/// Histories of a usual run.
const HISTORIES: u64 = 12;
/// Steps of a history.
const STEPS: usize = 14;
/// How long both service mirrors may take until they are at rest. Linkerd's sends five requests a second.
const REST: Duration = Duration::from_secs(30);

/// Compares the mirrors after each history.
pub(crate) async fn opinions(place: &Arc<Place>) -> anyhow::Result<Row> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let histories = number("LINKERD_MC_MESH_HISTORIES").unwrap_or(HISTORIES);
    let seed = number("LINKERD_MC_MESH_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("a second opinion: {histories} histories, LINKERD_MC_MESH_SEED={seed}");
    let clusters = Box::pin(Clusters::start(place)).await?;
    let (mut known, mut wrong) = (BTreeMap::new(), Vec::new());
    for number in 0..histories {
        let history = History::random(seed.wrapping_add(number), number, STEPS);
        if let Err(error) = follow(&clusters, &history, &mut known).await {
            let steps = history.steps.iter().map(|step| format!("\n  {step:?}"));
            let steps: String = steps.collect();
            println!("history {number} of seed {seed}: {error:#}{steps}");
            wrong.push(number);
        }
    }
    known::are_listed(&known.keys().copied().collect::<Vec<_>>())?;
    let differences: Vec<String> = known
        .iter()
        .map(|(row, count)| format!("{row}: {count}"))
        .collect();
    println!("differences that are known: {}", differences.join(", "));
    ensure!(
        wrong.is_empty(),
        "histories that end differently: {wrong:?}"
    );
    Ok(Row::of(&BTreeMap::new()).with(format!(
        "{histories} histories of {STEPS} steps, seed {seed}; known differences: {}",
        differences.join(", ")
    )))
}

/// Lets both follow a history, and compares what they have at rest.
async fn follow(
    clusters: &Clusters,
    history: &History,
    known: &mut BTreeMap<&'static str, u64>,
) -> anyhow::Result<()> {
    clusters.create(&history.namespace).await?;
    clusters.take(&history.namespace, &Step::Last).await?;
    for (at, step) in history.steps.iter().enumerate() {
        clusters.take(&history.namespace, step).await?;
        // Linkerd's loses changes that come while it works on the one before (W-3, W-6), and our tests of such are
        // others. It has one queue, and puts a change into it again at most twice.
        for again in 0..2 {
            clusters.mark(&history.namespace, 2 * at + again).await?;
        }
    }
    let last = Mutex::new(Vec::new());
    let compared = eventually("both to have the same mirrors", REST, async || {
        let [ours, theirs] = clusters.seen(&history.namespace).await?;
        let target = clusters.target(&history.namespace).await?;
        let (found, differences) = agreed(ours, theirs, &target);
        let same = differences.is_empty().then_some(found);
        *last.lock().expect("nobody panics") = differences;
        Ok(same)
    })
    .await;
    let differences = last.into_inner().expect("nobody panics");
    let compared = compared.with_context(|| format!("{differences:#?}"))?;
    for row in compared {
        *known.entry(row).or_default() += 1;
    }
    clusters.delete(&history.namespace).await
}
