//! Kubeconfigs that a fleet file names. Whoever may change the file chooses them.

use std::{fs, path::Path};

use hints::hint::hint_of;
use links::fleet::loaded::{LoadedFleet, load_offline};

use crate::cli::{common::args::Global, fleet::plugins::PluginFlags};

/// What a kubeconfig may not have, and how it is called, with these fields of the cluster and of the user.
const REFUSED: [(&str, &str, &str); 7] = [
    ("", "exec: {command: touch, args: [RAN]}", "an exec plugin"),
    (
        "",
        "auth-provider: {name: gcp, config: {cmd-path: touch, cmd-args: RAN}}",
        "an auth provider",
    ),
    (
        "",
        "auth-provider: {name: oidc}, token: x",
        "an auth provider",
    ),
    ("", "tokenFile: token", "a tokenFile"),
    (
        "",
        "client-certificate: /etc/hostname, client-key-data: eA==",
        "a client-certificate file",
    ),
    (
        "",
        "client-certificate-data: eA==, client-key: ../key",
        "a client-key file",
    ),
    (
        "certificate-authority: /etc/hostname",
        "token: x",
        "a certificate-authority file",
    ),
];

/// A kubeconfig with these fields, and another context that is never used.
fn kubeconfig(folder: &Path, cluster: &str, user: &str) -> String {
    let user = user.replace("RAN", &folder.join("ran").display().to_string());
    format!(
        "contexts:
- {{name: other, context: {{cluster: other, user: other}}}}
- {{name: east, context: {{cluster: east, user: me}}}}
clusters:
- {{name: other, cluster: {{server: 'https://127.0.0.1:1'}}}}
- {{name: east, cluster: {{server: 'https://127.0.0.1:1', {cluster}}}}}
users:
- {{name: other, user: {{token: x}}}}
- {{name: me, user: {{{user}}}}}
"
    )
}

const CLUSTERS: &str = "[{name: east, kubeconfig: own}, {name: west}]";
const CONTEXTS: &str = "[{contexts: east, kubeconfig: own}, {name: west}]";
const PROFILES: &str =
    "[{clusterProfiles: {context: east, namespace: fleet}, kubeconfig: own}, {name: west}]";

/// Writes the file of a fleet with these clusters.
fn fleet(folder: &Path, clusters: &str) -> std::path::PathBuf {
    let file = folder.join("fleet.yaml");
    let text = format!("name: f\nclusters: {clusters}\nlinks: [{{mesh: all}}]\n");
    fs::write(&file, text).unwrap();
    file
}

/// Reads a file and makes a client for each of its clusters.
async fn used(folder: &Path, clusters: &str) -> anyhow::Result<()> {
    let global = Global {
        kubeconfig: Some(folder.join("mine")),
        linkerd_namespace: "linkerd".to_owned(),
        ..Global::default()
    };
    let file = fleet(folder, clusters);
    let loaded: LoadedFleet = PluginFlags::default().load(&global, &file).await?;
    for cluster in &loaded.fleet.clusters {
        loaded.connect(&global.access(), &cluster.name).await?;
    }
    Ok(())
}

#[tokio::test]
async fn kubeconfig_that_a_file_names_runs_no_program_and_reads_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(
        folder.join("mine"),
        kubeconfig(folder, "", "token: x").replace("east", "west"),
    )
    .unwrap();
    fs::write(folder.join("token"), "x").unwrap();
    for (cluster, user, what) in REFUSED {
        fs::write(folder.join("own"), kubeconfig(folder, cluster, user)).unwrap();
        for clusters in [CLUSTERS, CONTEXTS, PROFILES] {
            let error = used(folder, clusters).await.expect_err(user);
            let own = folder.join("own");
            let expected = format!(
                "the kubeconfig {} may not have {what}, because a fleet file names it",
                own.display()
            );
            let chain: Vec<String> = error.chain().map(ToString::to_string).collect();
            assert!(chain.contains(&expected), "{clusters}: {chain:?}");
            let hint = hint_of(&error).unwrap();
            assert!(hint.contains("KUBECONFIG"), "{hint}");
        }
        assert!(!folder.join("ran").exists(), "{user}");
    }
}

#[tokio::test]
async fn data_in_a_kubeconfig_that_a_file_names_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let exec = "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: touch, args: [RAN]}";
    let mine = kubeconfig(folder, "", exec);
    fs::write(folder.join("mine"), mine.replace("east", "west")).unwrap();
    let own = kubeconfig(folder, "tls-server-name: east", "token: x");
    fs::write(folder.join("own"), own).unwrap();
    let global = Global {
        kubeconfig: Some(folder.join("mine")),
        linkerd_namespace: "linkerd".to_owned(),
        ..Global::default()
    };
    let file = fleet(folder, CONTEXTS);
    let loaded = load_offline(&global.access(), global.linkerd_flag(), &file).unwrap();
    let [own, mine] = [0, 1].map(|at| &loaded.fleet.clusters[at].name);
    loaded.connect(&global.access(), own).await.unwrap();
    // The user's own kubeconfig may run programs, also for a context that the file names.
    let error = loaded.connect(&global.access(), mine).await.err().unwrap();
    assert_eq!(
        error.root_cause().to_string(),
        "executable touch printed no valid ExecCredential"
    );
    assert!(folder.join("ran").exists());
}
