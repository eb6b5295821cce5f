//! What the objects on pages permit: nothing that a thief of the controller's token can use, no cluster-wide issuer below
//! the trust anchor, and no role that is worth a cluster without the page saying so.

use serde_json::Value;

use crate::{book::documents, markdown::Document, read};

/// The controller may list all Secrets here.
const EXTENSION: &str = "linkerd-multicluster";
/// The type of the Secrets that the controller reads there.
const OF_LINKS: &str = "mirror.linkerd.io/remote-kubeconfig";
/// Linkerd keeps the key of its issuer here.
const LINKERD: &str = "linkerd";
/// How a page says what a role is worth.
const WARNING: &str = "> **Whoever ";

/// The objects in the blocks of a page.
fn objects(page: &str) -> Vec<Value> {
    let blocks = Document::parse(page).blocks.into_iter();
    let yaml = blocks.filter(|block| block.info.split(' ').next() == Some("yaml"));
    let documents = yaml.flat_map(|block| {
        let documents = block.text.split("\n---\n").map(str::to_owned);
        documents.collect::<Vec<_>>()
    });
    // Blocks with parts of an object are none.
    let parsed = documents.filter_map(|text| serde_saphyr::from_str::<Value>(&text).ok());
    parsed.filter(|object| object["kind"].is_string()).collect()
}

fn list(rule: &Value, field: &str) -> Vec<String> {
    let values = rule[field].as_array().into_iter().flatten();
    values
        .filter_map(|value| value.as_str().map(str::to_owned))
        .collect()
}

/// Whether a rule permits one of these verbs for a resource, whatever its name.
fn permits(rule: &Value, resource: &str, verbs: &[&str]) -> bool {
    let has = |field: &str, wanted: &[&str]| {
        let values = list(rule, field);
        values
            .iter()
            .any(|value| value == "*" || wanted.contains(&value.as_str()))
    };
    rule["resourceNames"].is_null() && has("resources", &[resource]) && has("verbs", verbs)
}

/// Why a role is worth a cluster.
fn worth(object: &Value) -> Option<String> {
    let everywhere = object["kind"] == "ClusterRole";
    let of_linkerd = object["kind"] == "Role" && object["metadata"]["namespace"] == LINKERD;
    let rules = object["rules"].as_array().into_iter().flatten();
    let mut found = rules.filter_map(|rule| {
        if permits(rule, "secrets", &["get", "list", "watch"]) && (everywhere || of_linkerd) {
            Some("reads the key of Linkerd's issuer")
        } else if permits(rule, "secrets", &["create", "patch", "update"]) && everywhere {
            Some("gets a token of every account")
        } else if permits(rule, "pods", &["create"]) && (everywhere || of_linkerd) {
            Some("runs Pods with any account")
        } else {
            None
        }
    });
    found
        .next()
        .map(|why| format!("{} {why}", object["metadata"]["name"]))
}

/// What is wrong with the recipes of a page.
fn faults(page: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for object in objects(page) {
        let (kind, metadata) = (
            object["kind"].as_str().unwrap_or_default(),
            &object["metadata"],
        );
        if kind == "Secret" && metadata["namespace"] == EXTENSION && object["type"] != OF_LINKS {
            wrong.push(format!(
                "the controller may list the Secret {}",
                metadata["name"]
            ));
        }
        if kind == "ClusterIssuer" {
            wrong.push(format!("{} signs for all namespaces", metadata["name"]));
        }
        if let Some(worth) = worth(&object)
            && !page.contains(WARNING)
            && !page.contains("including the key of Linkerd's issuer")
        {
            wrong.push(format!("the page does not say that {worth}"));
        }
    }
    let blocks = Document::parse(page).blocks.into_iter();
    for script in blocks.filter(crate::markdown::Block::is_shell) {
        let joined = script.text.replace("\\\n", " ");
        let creates = |line: &&str| line.contains("create secret") && line.contains(EXTENSION);
        wrong.extend(
            joined
                .lines()
                .filter(creates)
                .map(|line| format!("the controller may list it: {line}")),
        );
    }
    wrong
}

#[test]
fn no_page_gives_more_than_it_says() {
    let mut wrong = Vec::new();
    for path in documents() {
        let found = faults(&read(&path)).into_iter();
        wrong.extend(found.map(|fault| format!("{}: {fault}", path.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_a_page_gives_is_found() {
    let page = |yaml: &str| format!("```yaml\n{yaml}\n```\n");
    let role = |kind: &str, namespace: &str, rule: &str| {
        page(&format!(
            "kind: {kind}\nmetadata: {{name: r, namespace: {namespace}}}\nrules:\n- {rule}"
        ))
    };
    let secret = |namespace: &str, kind: &str| {
        page(&format!(
            "kind: Secret\nmetadata: {{name: s, namespace: {namespace}}}\ntype: {kind}"
        ))
    };
    for (text, expected) in [
        (secret(EXTENSION, "Opaque"), 1),
        (secret(EXTENSION, OF_LINKS), 0),
        (secret("other", "Opaque"), 0),
        (page("kind: ClusterIssuer\nmetadata: {name: i}"), 1),
        (
            role(
                "ClusterRole",
                "''",
                "{resources: [pods], verbs: [list, create]}",
            ),
            1,
        ),
        (
            role("ClusterRole", "''", "{resources: ['*'], verbs: ['*']}"),
            1,
        ),
        (
            role("ClusterRole", "''", "{resources: [pods], verbs: [list]}"),
            0,
        ),
        (
            role("ClusterRole", "''", "{resources: [secrets], verbs: [get]}"),
            1,
        ),
        (
            role(
                "ClusterRole",
                "''",
                "{resources: [secrets], verbs: [get], resourceNames: [a]}",
            ),
            0,
        ),
        (
            role("Role", LINKERD, "{resources: [secrets], verbs: [list]}"),
            1,
        ),
        (
            role("Role", "other", "{resources: [secrets], verbs: [list]}"),
            0,
        ),
        (
            format!(
                "> **Whoever**\n\n> **Whoever has it**\n{}",
                role("Role", LINKERD, "{resources: [secrets], verbs: [list]}")
            ),
            0,
        ),
        (
            "```sh\nkubectl -n linkerd-multicluster \\\n  create secret generic x\n```\n"
                .to_owned(),
            1,
        ),
    ] {
        assert_eq!(faults(&text).len(), expected, "{text}: {:?}", faults(&text));
    }
}
