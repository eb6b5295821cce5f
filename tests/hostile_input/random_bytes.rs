//! Random bytes for each property.

use proptest::{collection::vec, prelude::*};

use crate::properties;

/// Cases of the property that renders all of `install`, which takes a twentieth of a second each time.
const RENDERED: u32 = 100;
/// Most bytes of one input.
const LENGTH: usize = 256;

/// The properties try 256 cases, as proptest does by default, or as many as `PROPTEST_CASES` says, which is stronger than
/// a number here.
fn config() -> ProptestConfig {
    ProptestConfig {
        max_shrink_iters: 2_000,
        ..ProptestConfig::default()
    }
}

/// Bytes, many of them small, so that many choices are among the first ones.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![any::<u8>(), 0u8..16, 32u8..127], 0..LENGTH)
}

proptest! {
    #![proptest_config(config())]

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
    #![proptest_config(ProptestConfig { cases: RENDERED, ..config() })]

    #[test]
    fn values_are_refused_by_name_or_rendered_as_they_are(data in bytes()) {
        properties::values(&data);
    }
}
