//! What goes when it leaves the file, and what stays although it has left it.

use kube::ResourceExt as _;

use super::planned::{FILE, done, lines, loaded, plan_with};
use crate::cli::fleet::part::UsedClusters;

/// The file without its link.
fn without_link() -> String {
    FILE.replace("{target: east, source: west}", "")
}

#[test]
fn account_of_a_link_that_left_the_fleet_stays() {
    let [east, mut west] = done(&loaded(FILE));
    // Somebody has taken the Link out of the fleet, and its Secrets still have the label.
    west.links[0].labels_mut().clear();
    let plan = plan_with(
        &loaded(&without_link()),
        &UsedClusters::default(),
        &[("east", Ok(&east)), ("west", Ok(&west))],
    );
    assert_eq!(
        lines(&plan),
        [
            "east: the ServiceAccount west stays: the Secret cluster-credentials-east in west, which a Link needs, uses it"
        ]
    );
}
