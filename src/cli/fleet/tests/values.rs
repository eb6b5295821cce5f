//! Values of `install` in the file.

use std::path::Path;

use hints::hint::hint_of;
use links::fleet::loaded::parse;
use manifests::values::Values;

use super::planned::loaded;

#[test]
fn values_of_a_cluster_are_over_those_of_all() {
    let loaded = loaded(
        "name: f
install:
  controller: {replicas: 2, image: {name: registry.example.com/mc}}
  podLabels: {team: mesh}
  protectedNamespaces: [a, b]
clusters:
- name: east
  install:
    controller: {replicas: 3}
    gateway: {serviceType: NodePort}
    protectedNamespaces: [c]
- name: west
links: [{mesh: all}]
",
    );
    let of = |n: usize| {
        let values = loaded.fleet.clusters[n].install.clone();
        values.over(&Values::default()).unwrap().0
    };
    let (east, west) = (of(0), of(1));
    assert_eq!((east.controller.replicas, west.controller.replicas), (3, 2));
    assert_eq!(east.gateway.service_type, "NodePort");
    assert_eq!(
        west.gateway.service_type,
        Values::default().gateway.service_type
    );
    for values in [&east, &west] {
        assert_eq!(values.controller.image.name, "registry.example.com/mc");
        assert_eq!(values.pod_labels["team"], "mesh");
    }
    let protected = |values: Values| values.protected_namespaces.unwrap_or_default();
    assert_eq!(protected(east), ["c"]);
    assert_eq!(protected(west), ["a", "b"]);
}

#[test]
fn unknown_and_invalid_values_are_errors_with_their_lines() {
    for (values, what, hint) in [
        (
            "{}\n    gateway: x",
            "cannot read fleet.yaml",
            "it must be one YAML document",
        ),
        (
            "3",
            "invalid install in fleet.yaml, line 4: must be a map of values, got 3",
            "install: Values",
        ),
        (
            "\n    gateway:\n      replica: 2",
            "unknown value gateway.replica (fleet.yaml, line 6)",
            "did you mean gateway.replicas?",
        ),
        (
            "\n    gateway:\n      port: 4143\n      replicas: many",
            "the value gateway.replicas (fleet.yaml, line 7) must be",
            "`linkerd-mc install --print-values`",
        ),
        (
            "\n    gateway: [1]",
            "the value gateway (fleet.yaml, line 5) must be a map",
            "set the keys below it",
        ),
    ] {
        let text = format!(
            "name: f\nclusters:\n- name: east\n  install: {values}\n- name: west\nlinks: []\n"
        );
        let read = parse("fleet.yaml", &text, Path::new(""), "linkerd");
        let error = read.err().unwrap_or_else(|| panic!("accepted: {text}"));
        let (said, hinted) = (error.to_string(), hint_of(&error).unwrap_or_default());
        assert!(said.starts_with(what), "{text}\n{said}");
        assert!(hinted.starts_with(hint), "{text}\n{hinted}");
    }
}
