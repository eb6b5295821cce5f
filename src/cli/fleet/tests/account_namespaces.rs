//! Accounts in a namespace of their own.

use super::{
    planned::{FILE, installed, loaded, short},
    rendered::{objects, render_with, targets},
};
use crate::cli::fleet::{extension::ExtensionFiles, layout::FleetFiles};

/// The file with this namespace of accounts.
fn with_key(namespace: &str) -> String {
    format!("{FILE}serviceAccountNamespace: {namespace}\n")
}

#[test]
fn accounts_are_in_the_namespace_of_the_file() {
    let loaded = loaded(&with_key("access"));
    let (mut east, west) = (
        installed("east", "192.0.2.1"),
        installed("west", "192.0.2.2"),
    );
    assert_eq!(
        short(&loaded, [&east, &west]),
        [
            "east create ClusterRole /west: the account of west",
            "east create ServiceAccount access/west: the account of west",
            "east create Secret access/west-token: the account of west",
            "east create ClusterRoleBinding /west: the account of west",
            "west create Secret linkerd-multicluster/cluster-credentials-east: link, line 3",
            "west create Secret linkerd/cluster-credentials-east: link, line 3",
            "west create Link linkerd-multicluster/east: link, line 3",
        ]
    );
    // Nobody else makes it.
    east.accounts.lacks_namespace = true;
    assert_eq!(
        short(&loaded, [&east, &west]),
        [
            "east: the namespace access of accounts does not exist; create it with `kubectl --context east create namespace access`"
        ]
    );
}

#[test]
fn rendered_accounts_are_in_the_namespace_of_the_file() {
    let (loaded, targets) = (loaded(&with_key("access")), targets(&["east", "west"]));
    let none = FleetFiles::new();
    let files = render_with(&loaded, &targets, None, &ExtensionFiles::Kept, &none).files;
    let account = objects(&files, "east/accounts/west.yaml");
    let namespaces = account.iter().map(|object| {
        let subject = &object["subjects"][0]["namespace"];
        let own = &object["metadata"]["namespace"];
        let namespace = own.as_str().or(subject.as_str());
        format!(
            "{} {}",
            object["kind"].as_str().unwrap(),
            namespace.unwrap_or("-")
        )
    });
    assert_eq!(
        namespaces.collect::<Vec<_>>(),
        [
            "ClusterRole -",
            "ServiceAccount access",
            "Secret access",
            "ClusterRoleBinding access",
        ]
    );
    let link = &objects(&files, "west/links/east.yaml")[0];
    assert_eq!(link["metadata"]["namespace"], "linkerd-multicluster");
}
