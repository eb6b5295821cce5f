//! The same kubeconfigs, environments and flags for kubectl and for linkerd-mc: what arrives at API servers and proxies, and
//! whether plugins run, has to be the same, except for the documented differences.
//!
//! `LINKERD_MC_KUBECONFIG_CASES` and `LINKERD_MC_KUBECONFIG_SEED` set the number of cases and the seed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod case;
mod known;
mod material;
mod run;
mod servers;
mod tables;

use std::{collections::BTreeMap, sync::Arc};

use control_plane::Assets;
use fastrand::Rng;
use futures::{StreamExt as _, stream};

use self::{
    case::Case,
    known::known,
    material::Material,
    run::{Outcome, Programs, both},
    servers::Tls,
};

/// How many cases run side by side.
const AT_ONCE: usize = 6;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

/// Whether both programs did the same, or what is documented.
fn is_expected(case: &Case, outcomes: &[Outcome; 2]) -> bool {
    outcomes[0].is_like(&outcomes[1]) || known(case, outcomes).is_some()
}

/// The smallest case that still differs, and what both programs do with it.
async fn smallest(
    programs: &Programs,
    mut case: Case,
    mut found: [Outcome; 2],
) -> (Case, [Outcome; 2]) {
    'smaller: loop {
        for smaller in case.smaller().collect::<Vec<_>>() {
            let outcomes = both(programs, &smaller).await;
            if !is_expected(&smaller, &outcomes) {
                (case, found) = (smaller, outcomes);
                continue 'smaller;
            }
        }
        return (case, found);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubeconfigs_mean_what_they_mean_for_kubectl() {
    let material = Material::new("own");
    let programs = &Programs {
        kubectl: Assets::locate().unwrap().program("kubectl"),
        tls: Arc::new(Tls::new(&material)),
        material,
        other: Material::new("other"),
    };
    let count = number("LINKERD_MC_KUBECONFIG_CASES", 150);
    let mut random = Rng::with_seed(number("LINKERD_MC_KUBECONFIG_SEED", 1));
    let cases: Vec<Case> = (0..count).map(|_| Case::draw(&mut random)).collect();
    let runs = stream::iter(cases).map(async |case| {
        let outcomes = both(programs, &case).await;
        if is_expected(&case, &outcomes) {
            return None;
        }
        Some(smallest(programs, case, outcomes).await)
    });
    let differing: Vec<_> = runs
        .buffer_unordered(AT_ONCE)
        .filter_map(async |found| found)
        .collect()
        .await;
    let mut kinds: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for (case, [kubectl, ours]) in &differing {
        let text = format!("kubectl:    {kubectl}\nlinkerd-mc: {ours}");
        let kind = kinds.entry(format!("{:?}", case.0)).or_insert((0, text));
        kind.0 += 1;
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    let list: Vec<String> = kinds
        .iter()
        .map(|(kind, (count, text))| format!("{count} × {kind}\n{text}\n"))
        .collect();
    assert!(
        differing.is_empty(),
        "{} of {count} cases differ, of {} kinds:\n{}",
        differing.len(),
        kinds.len(),
        list.join("\n")
    );
}
