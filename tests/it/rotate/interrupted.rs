//! Rotations that fail or are killed, and changes that somebody else makes during a rotation.

use std::io::{BufRead as _, BufReader};

use control_plane::eventually;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{Rotation, is_accepted, minted, result, token};
use crate::support::{
    SOON,
    controller::{Controller, signal},
    credentials::put,
    planes::alone,
};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn interrupted_rotation_is_continued_and_a_failed_one_is_undone() {
    let alone = alone().await;
    let mut rotation = Rotation::between(&alone).await;
    result(&rotation.run(&["-o=json"]));
    let before = rotation.kubeconfig().await;

    rotation.controller.kill();
    rotation
        .a_controller_that_is_away_changes_nothing(&before)
        .await;
    rotation.killed_while_it_waits(&before).await;
    rotation.an_interrupt_says_what_to_do(&before).await;
    rotation.controller = Controller::start(&rotation.source, &[]);
    rotation.the_next_run_continues(&before).await;
    rotation.a_token_that_was_put_back_is_not_revoked().await;
}

impl Rotation {
    /// Without a controller, the wait for it times out, and `rotate` undoes its changes.
    async fn a_controller_that_is_away_changes_nothing(&self, before: &str) {
        let failed = self.run(&["--wait=1s"]);
        assert_eq!(failed.code, 1);
        for part in [
            "does not use the new credentials",
            "restored the Secret",
            "deleted the token Secret",
        ] {
            assert!(failed.stderr.contains(part), "{}", failed.stderr);
        }
        assert_eq!(self.kubeconfig().await, before);
        self.both_have(&token(before)).await;
        assert_eq!(minted(&self.far).await.len(), 1);
        is_accepted(&self.far, &token(before), true).await;
    }

    /// At the kill, the controller's Secret has the new token, and Linkerd's Secret still has the old one.
    async fn killed_while_it_waits(&self, before: &str) {
        let mut running = self.start(&self.config);
        eventually("the new token in the Secret", SOON, async || {
            Ok((self.kubeconfig().await != before).then_some(()))
        })
        .await
        .unwrap();
        running.kill().unwrap();
        running.wait().unwrap();
        is_accepted(&self.far, &token(before), true).await;
        assert_eq!(minted(&self.far).await.len(), 2);
    }

    /// Ctrl-C and SIGTERM while it waits for a controller, which does not run.
    async fn an_interrupt_says_what_to_do(&self, before: &str) {
        for name in ["INT", "TERM"] {
            let mut waits = self.start(&self.config);
            let lines = BufReader::new(waits.stderr.take().unwrap()).lines();
            let mut lines = lines.map_while(Result::ok);
            assert!(lines.any(|line| line.contains("continuing with the token Secret")));
            signal(name, waits.id());
            assert_eq!(
                lines.last().as_deref(),
                Some(
                    "interrupted: a part of this may be done, and all tokens that are in use are valid; run the same \
                     command again, which does the rest"
                )
            );
            assert_eq!(waits.wait().unwrap().code(), Some(130), "{name}");
        }
        is_accepted(&self.far, &token(before), true).await;
    }

    /// `--older-than` does not skip a rotation that was interrupted.
    async fn the_next_run_continues(&self, before: &str) {
        let continued = self.run(&["--older-than=1h", "-o=json"]);
        assert!(
            continued
                .stderr
                .contains("continuing with the token Secret"),
            "{}",
            continued.stderr
        );
        assert_eq!(result(&continued)["result"], "rotated");
        self.both_have(&token(&self.kubeconfig().await)).await;
        is_accepted(&self.far, &token(before), false).await;
        assert_eq!(minted(&self.far).await.len(), 1);
        let skipped = result(&self.run(&["--older-than=1h", "-o=json"]));
        assert_eq!(skipped["result"], "skipped");
    }

    /// While Linkerd restarts, somebody writes the old token back into a Secret.
    async fn a_token_that_was_put_back_is_not_revoked(&self) {
        let before = self.kubeconfig().await;
        self.rolls_out(false).await;
        let running = self.start(&self.config);
        eventually("the restart", SOON, async || {
            let own = self.kubeconfig().await;
            let theirs = super::linkerds(&self.source, "turn").await;
            Ok((own != before && token(&own) == token(&theirs)).then_some(()))
        })
        .await
        .unwrap();
        put(&self.source, "turn", Some(&before)).await;
        self.rolls_out(true).await;
        let ended = running.wait_with_output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{said}");
        let why = "does not have the new token any more, so nothing was revoked";
        assert!(said.contains(why), "{said}");
        is_accepted(&self.far, &token(&before), true).await;
        assert_eq!(minted(&self.far).await.len(), 2);
        assert_eq!(result(&self.run(&["-o=json"]))["result"], "rotated");
        is_accepted(&self.far, &token(&before), false).await;
        assert_eq!(minted(&self.far).await.len(), 1);
    }

    /// Sets the status of Linkerd's destination controller, so that its rollout is complete or not.
    async fn rolls_out(&self, complete: bool) {
        let observed = if complete { 1_000_000 } else { 0 };
        let status = Patch::Merge(json!({ "status": { "observedGeneration": observed } }));
        let patched: Deployment = self
            .deployments
            .patch_status("linkerd-destination", &PatchParams::default(), &status)
            .await
            .unwrap();
        assert!(patched.status.is_some());
    }
}
