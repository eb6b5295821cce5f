//! What the objects on pages permit: nothing that a thief of the controller's token can use, no cluster-wide issuer below
//! the trust anchor, no store of credentials for all namespaces, and no role that is worth a cluster without the page
//! saying so. Nor does a script leave credentials where others of the machine or the cluster can read them.

use serde_json::Value;

use crate::{
    book::{documents, files_in},
    markdown::Document,
    read,
};

/// The controller may list all Secrets here.
const EXTENSION: &str = "linkerd-multicluster";
/// The type of the Secrets that the controller reads there.
const OF_LINKS: &str = "mirror.linkerd.io/remote-kubeconfig";
/// Linkerd keeps the key of its issuer here.
const LINKERD: &str = "linkerd";
/// What no recipe needs, because it can name the Secrets that it reads.
const ISSUER: &str = "reads the key of Linkerd's issuer";
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
            Some(ISSUER)
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
        if object["spec"]["secretStoreRef"]["kind"] == "ClusterSecretStore" {
            wrong.push(format!("all namespaces can read {}", metadata["name"]));
        }
        if let Some(worth) = worth(&object)
            && (!page.contains(WARNING) || worth.ends_with(ISSUER))
        {
            wrong.push(format!(
                "a role is worth more than it should be, or than the page says: {worth}"
            ));
        }
    }
    for block in Document::parse(page).blocks {
        if block.info.split(' ').next() != Some("yaml") {
            wrong.extend(exposed(&block.text));
        }
    }
    wrong
}

/// The lines of a script, or of examples in a help text, that leave credentials where others can read them.
fn exposed(script: &str) -> Vec<String> {
    let joined = script.replace("\\\n", " ");
    let is_private = joined.contains("umask 077");
    let why = |line: &str| {
        let has_credentials = ["link-gen", "fleet credentials", "get secret", "$secret"]
            .iter()
            .any(|part| line.contains(part));
        if line.contains("create secret") && line.contains(EXTENSION) {
            Some("the controller may list it")
        } else if line.contains("--token \"$") {
            Some("the arguments of a program have the token")
        } else if has_credentials && line.contains(" > ") && !is_private {
            Some("others of the machine can read the file")
        } else if has_credentials
            && line.contains("kubectl")
            && line.contains(" apply ")
            && !line.contains("--server-side")
        {
            Some("an annotation has the token")
        } else {
            None
        }
    };
    let found = joined.lines().filter_map(|line| Some((why(line)?, line)));
    found.map(|(why, line)| format!("{why}: {line}")).collect()
}

#[test]
fn no_page_gives_more_than_it_says() {
    let mut wrong = Vec::new();
    for path in documents() {
        let found = faults(&read(&path)).into_iter();
        wrong.extend(found.map(|fault| format!("{}: {fault}", path.display())));
    }
    for path in files_in("examples", "yaml") {
        let found = faults(&format!("```yaml\n{}\n```\n", read(&path))).into_iter();
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
                "> **Whoever has it**\n{}",
                role("Role", LINKERD, "{resources: [secrets], verbs: [list]}")
            ),
            1,
        ),
        (
            format!(
                "> **Whoever has it**\n{}",
                role("ClusterRole", "''", "{resources: [pods], verbs: [create]}")
            ),
            0,
        ),
        (
            page(
                "kind: ExternalSecret\nmetadata: {name: e}\nspec: {secretStoreRef: {kind: ClusterSecretStore}}",
            ),
            1,
        ),
    ] {
        assert_eq!(faults(&text).len(), expected, "{text}: {:?}", faults(&text));
    }
}

#[test]
fn what_a_script_exposes_is_found() {
    for (script, expected) in [
        (
            "kubectl -n linkerd-multicluster \\\n  create secret generic x",
            1,
        ),
        (
            "kubectl config set-credentials east --token \"$($secret)\"",
            1,
        ),
        ("linkerd-mc link-gen > east.yaml", 1),
        ("(umask 077; linkerd-mc link-gen > east.yaml)", 0),
        (
            "$secret -o jsonpath='{.data.token}' \\\n  | base64 -d > token",
            1,
        ),
        (
            "linkerd-mc link-gen \\\n  | kubectl --context west apply -f -",
            1,
        ),
        (
            "linkerd-mc link-gen \\\n  | kubectl --context west apply --server-side -f -",
            0,
        ),
        ("linkerd-mc install | kubectl apply -f -", 0),
    ] {
        let found = exposed(script);
        assert_eq!(found.len(), expected, "{script}: {found:?}");
    }
}
