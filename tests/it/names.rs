//! The program as a plugin of a real kubectl, which finds it on the `PATH`.

use std::{os::unix::fs::symlink, process::Command};

use control_plane::eventually;

use crate::support::{SOON, planes::hub, program::run};

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_runs_the_program_as_its_plugin() {
    let hub = hub().await;
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("kubectl-linkerd_mc");
    symlink(env!("CARGO_BIN_EXE_linkerd-mc"), &plugin).unwrap();
    let kubectl = |args: &[&str]| {
        let output = Command::new(hub.west.kubectl_program())
            .args(args)
            .env("PATH", folder.path())
            .env("KUBECONFIG", hub.west.kubeconfig())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        String::from_utf8(output.stdout).unwrap()
    };
    let list = kubectl(&["plugin", "list"]);
    assert!(list.contains(plugin.to_str().unwrap()), "{list}");
    let help = kubectl(&["linkerd-mc", "status", "--help"]);
    assert!(help.contains("Usage: kubectl linkerd-mc status "), "{help}");
    // Other tests change the links between two runs, so compare until both are the same.
    eventually("the same drawing by both ways", SOON, async || {
        let graph = kubectl(&["linkerd-mc", "status", "-o", "mermaid"]);
        let own = run(hub.west.kubeconfig(), &["status", "-o", "mermaid"]).data();
        Ok((graph == own).then_some(()))
    })
    .await
    .unwrap();
}
