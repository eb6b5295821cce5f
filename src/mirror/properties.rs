//! Properties of the core, held against clusters in memory: whatever happened before, and in whatever order the
//! controller hears of it, it comes to rest, in the same state, and never touches what is not ours.
//!
//! Where what stands depends on what stood before, on purpose:
//! - who has a name keeps it (`claims.rs`);
//! - while the liveness of a gateway is unknown, endpoints stay as ready as they are, and while its addresses
//!   are, they stay as they are;
//! - a headless mirror without endpoints keeps its form;
//! - a cluster that cannot be seen, or whose Link cannot be read, keeps what it has;
//! - what is left of Links that are gone is removed only if we have written it.

mod acts;
mod cluster;
mod lab;

use proptest::prelude::*;

use self::{
    acts::{Act, history},
    lab::Lab,
};

/// Cases per property, unless `PROPTEST_CASES` says otherwise.
const CASES: u32 = 2_000;

fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: cases.unwrap_or(CASES),
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    }
}

/// Things happen, and the controller gets some of its work done in between.
fn live(acts: &[Act], seed: u64, create_namespaces: bool) -> Lab {
    let mut lab = Lab::new(seed, create_namespaces);
    for act in acts {
        lab.act(act);
        for _ in 0..lab.dice.below(8) {
            lab.step();
        }
    }
    lab
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn whatever_happens_the_keys_that_are_marked_are_enough(
        acts in history(14),
        seed: u64,
        create_namespaces: bool,
    ) {
        let mut lab = live(&acts, seed, create_namespaces);
        lab.drain();
        lab.is_settled();
    }
}
