//! Claims of the documents that were untrue once, each with the test that holds what it says. Who changes the behaviour
//! sees the test fail; who changes the sentence sees this one.

use std::{fs, path::Path};

use crate::{book::documents, exists, markdown::Document, read, root};

/// A page, what it says, and the test that holds it.
#[rustfmt::skip]
const CLAIMS: [(&str, &str, &str); 16] = [
    ("docs/troubleshooting.md", "`0/1`: the [gateway](#gateways) is dead. `0/0`: no Pod of `web` is ready in `east`", "mirror::desired::endpoints::tests::endpoints_are_as_ready_as_the_gateway_and_absent_for_services_without_endpoints"),
    ("docs/export.md", "| Is missing (`0/0`) | The Service has no ready Pod in `east`", "mirror::desired::endpoints::tests::endpoints_are_as_ready_as_the_gateway_and_absent_for_services_without_endpoints"),
    ("docs/night.md", "| `0/0` | `web` has no ready Pod in `east`", "mirror::desired::endpoints::tests::endpoints_are_as_ready_as_the_gateway_and_absent_for_services_without_endpoints"),
    ("docs/performance.md", "The leader renews its Lease every 2 s", "controller::lease::settings::tests::a_leader_renews_every_two_seconds_and_is_replaced_after_thirty"),
    ("docs/reliability.md", "The leader renews its Lease every 2 s", "controller::lease::settings::tests::a_leader_renews_every_two_seconds_and_is_replaced_after_thirty"),
    ("docs/night.md", "The leader renews the Lease every 2 s", "controller::lease::settings::tests::a_leader_renews_every_two_seconds_and_is_replaced_after_thirty"),
    ("README.md", "When nothing changes, no mirror is written", "controller::virtual_time::rest::nothing_is_written_for_a_day_nor_after_a_restart"),
    ("docs/drain.md", "`drain --dry-run` prints the kubectl command that sets the annotation", "it::drain::drained_cluster_leaves_federated_services_that_have_other_members_and_rejoins"),
    ("docs/ci.md", "with `--wait 0s`, the drain is only written", "it::drain::drain_applies_after_a_restart_and_to_an_unreachable_cluster"),
    ("docs/security.md", "It may create and change Events", "it::rbac::roles_are_sufficient_and_each_verb_in_them_is_used"),
    ("docs/pictures/trust.svg", "token: may read, and create Events", "it::rbac::roles_are_sufficient_and_each_verb_in_them_is_used"),
    ("docs/permissions.md", "These roles are enough for that", "it::viewers::roles_for_people_who_only_look_are_sufficient_and_each_verb_in_them_is_used"),
    ("docs/rotate.md", "The users in the kubeconfig need only these permissions", "it::rotate::refused::rotation_that_would_break_something_is_refused"),
    ("docs/concepts.md", "Nothing is written to a target cluster, except Events about Services that cannot be mirrored", "it::rbac::roles_are_sufficient_and_each_verb_in_them_is_used"),
    ("docs/concepts.md", "before a mirror is removed, the target cluster is asked once more", "it::outages::outage_removes_nothing_and_only_changes_are_written_after_it"),
    ("README.md", "There are no nodes and no proxies in it, so no requests flow", "it::examples::every_page_works_as_it_is_written"),
];

#[test]
fn each_claim_stands_in_its_page_and_a_test_holds_it() {
    let mut wrong = Vec::new();
    for (page, claim, test) in CLAIMS {
        if !read(page).contains(claim) {
            wrong.push(format!("{page} does not say {claim:?}"));
        }
        if !exists(test) {
            wrong.push(format!("{claim:?}: there is no test {test}"));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

/// Messages that a page quotes, and the source that prints them.
const QUOTED: [(&str, &str, &str); 8] = [
    ("docs/troubleshooting.md", "is not ready after", "src/cli"),
    ("docs/laptop.md", "is linked to", "src/cli"),
    ("docs/migrate.md", "Nothing to do.", "src/cli"),
    (
        "docs/permissions.md",
        "remote cluster access credentials are valid",
        "crates/observe/src/check",
    ),
    (
        "docs/fleet.md",
        "Linkerd uses its current credentials",
        "crates/observe/src/check",
    ),
    (
        "docs/night.md",
        "Linkerd uses its current credentials",
        "crates/observe/src/check",
    ),
    (
        "docs/night.md",
        "Linkerd has the credentials of each Link",
        "crates/observe/src/check",
    ),
    (
        "docs/trust.md",
        "clusters share trust anchors",
        "crates/observe/src/check",
    ),
];

#[test]
fn quoted_messages_are_ones_that_the_program_prints() {
    for (page, message, folder) in QUOTED {
        assert!(read(page).contains(message), "{page}: {message:?}");
        let printed = sources(Path::new(folder)).any(|text| text.contains(message));
        assert!(
            printed,
            "{page} quotes {message:?}, which {folder} does not print"
        );
    }
}

/// Tables that a page shows, by the names of their columns.
#[test]
fn tables_of_status_on_pages_have_its_columns() {
    let known: String = sources(Path::new("src/cli")).collect();
    let (mut found, mut wrong) = (0, Vec::new());
    for path in documents() {
        for block in Document::parse(&read(&path)).blocks {
            let head = block.text.lines().next().unwrap_or_default();
            if block.info != "text"
                || !["NAMESPACE ", "CLUSTER "]
                    .iter()
                    .any(|b| head.starts_with(b))
            {
                continue;
            }
            found += 1;
            let unknown = |column: &&str| !known.contains(&format!("(\"{column}\")"));
            wrong.extend(head.split_whitespace().filter(unknown).map(str::to_owned));
        }
    }
    assert!(found >= 2, "only {found} tables found");
    assert_eq!(wrong, [""; 0], "columns that no table has");
}

/// The texts of all sources in a folder.
fn sources(folder: &Path) -> std::vec::IntoIter<String> {
    let mut found = Vec::new();
    let entries = fs::read_dir(root().join(folder)).expect("there are sources");
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(read(&path));
        }
    }
    found.into_iter()
}
