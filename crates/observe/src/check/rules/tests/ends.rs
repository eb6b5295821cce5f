//! Tests of the failures after which no later check runs.

use super::*;
use crate::clusters::snapshot::{ReadError, ReadErrorKind};

#[test]
fn no_check_runs_after_a_fatal_failure() {
    let mut snapshot = well();
    snapshot.serves_links = Ok(false);
    let results = evaluate(&snapshot);
    assert_eq!(results.len(), 2);
    assert_eq!(
        results[1].hint.as_deref(),
        Some("https://linkerd.io/2/checks/#l5d-multicluster-link-crd-exists")
    );
}

#[test]
fn a_crd_of_an_older_linkerd_is_named_and_not_installed_over() {
    let mut snapshot = well();
    snapshot.serves_links = Ok(false);
    snapshot.cluster.links = Err(ReadError::new(ReadErrorKind::OldLinks, "only v1alpha2"));
    let result = evaluate(&snapshot).pop().unwrap();
    let why = "Link not found: only v1alpha2";
    assert!(result.text().contains(why), "{}", result.text());
    assert!(result.actions.is_empty(), "{:?}", result.actions);
}

#[test]
fn invalid_link_is_reported_and_others_are_checked() {
    let mut snapshot = well();
    east(&mut snapshot).unreadable = Some("spec.selector.matchLabels: no text".into());
    let results = evaluate(&snapshot);
    let level = |what| find(&results, what).map(|result| result.level);
    assert_eq!(level("Link resources are valid"), Some(Some(Level::Error)));
    assert_eq!(
        level("multicluster extension proxies are healthy"),
        Some(None)
    );
    // A mirror may belong to the Link that cannot be read.
    assert_eq!(level("all mirror services are part of a Link"), None);
}
