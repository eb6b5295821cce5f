//! Random bytes for each property.

use proptest::{collection::vec, prelude::*};

use crate::properties;

/// One of so many cases is run if a case renders all of `install`.
const RENDERED: u32 = 20;
/// Most bytes of one input.
const LENGTH: usize = 256;

/// One of so many cases: of the 256 that proptest tries by default, or the 1,000 of `.ci/run` (`PROPTEST_CASES`).
fn config(one_of: u32) -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: usual.cases.div_ceil(one_of),
        max_shrink_iters: 2_000,
        ..usual
    }
}

/// Bytes, many of them small, so that many choices are among the first ones.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![any::<u8>(), 0u8..16, 32u8..127], 0..LENGTH)
}

proptest! {
    #![proptest_config(config(1))]

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
