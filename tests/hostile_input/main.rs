//! Input of unknown origin: random bytes for each of the properties that the fuzz targets hold as well, and commands with
//! bad flags, kubeconfigs and API servers.

mod commands;
mod properties;

use proptest::{collection::vec, prelude::*};

/// Cases per property, unless `PROPTEST_CASES` says otherwise.
const CASES: u32 = 1_000;
/// The same where a case renders all of `install`.
const RENDERED: u32 = 100;
/// Most bytes of one input.
const LENGTH: usize = 256;

fn config(cases: u32) -> ProptestConfig {
    let wanted = std::env::var("PROPTEST_CASES").ok();
    ProptestConfig {
        cases: wanted.and_then(|n| n.parse().ok()).unwrap_or(cases),
        max_shrink_iters: 2_000,
        ..ProptestConfig::default()
    }
}

/// Bytes, many of them small, so that many choices are among the first ones.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![any::<u8>(), 0u8..16, 32u8..127], 0..LENGTH)
}

proptest! {
    #![proptest_config(config(CASES))]

    #[test]
    fn credentials_are_used_or_refused_and_never_printed(data in bytes()) {
        properties::kubeconfig(&data);
    }

    #[test]
    fn links_of_any_shape_are_accepted_or_refused(data in bytes()) {
        properties::link(&data);
    }

    #[test]
    fn excluded_labels_and_annotations_are_on_no_mirror(data in bytes()) {
        properties::exclusions(&data);
    }

    #[test]
    fn names_are_valid_or_refused(data in bytes()) {
        properties::names(&data);
    }

    #[test]
    fn only_allowed_addresses_are_used(data in bytes()) {
        properties::networks(&data);
    }

    #[test]
    fn selectors_match_as_kubernetes_says(data in bytes()) {
        properties::selector(&data);
    }
}

proptest! {
    #![proptest_config(config(RENDERED))]

    #[test]
    fn values_are_refused_by_name_or_rendered_as_they_are(data in bytes()) {
        properties::values(&data);
    }
}

type Holds = fn(&[u8]);

/// Inputs that have broken a property once.
#[test]
fn each_seed_of_the_fuzz_targets_holds() {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds");
    let targets: [(&str, Holds); 7] = [
        ("kubeconfig", properties::kubeconfig),
        ("link", properties::link),
        ("exclusions", properties::exclusions),
        ("names", properties::names),
        ("networks", properties::networks),
        ("selector", properties::selector),
        ("values", properties::values),
    ];
    for (target, holds) in targets {
        let files: Vec<_> = std::fs::read_dir(format!("{seeds}/{target}"))
            .unwrap()
            .collect();
        assert!(files.len() > 1, "{target} has {} seeds", files.len());
        for file in files {
            holds(&std::fs::read(file.unwrap().path()).unwrap());
        }
    }
}
