//! Rotations whose write of the controller's Secret fails although the Secret has the new token afterwards.

use std::{
    path::{Path, PathBuf},
    process::Child,
    sync::Arc,
};

use control_plane::{Asked, Interceptor, Verdict};
use tokio::sync::Notify;

use super::{Rotation, is_accepted, minted, result, token};
use crate::support::{installation::NAMESPACE, planes::alone};

/// Whom the API server of the source cluster takes the program for.
const USER: &str = "rotating";
const GROUPS: [&str; 1] = ["system:masters"];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn token_that_a_secret_has_is_not_deleted_after_a_failed_write() {
    let alone = alone().await;
    let rotation = Rotation::between(&alone).await;
    result(&rotation.run(&["-o=json"]));
    let way = rotation.source.intercept(Some((USER, &GROUPS))).unwrap();
    let config = rotation.config_through(&way);

    rotation.the_answer_is_lost(&way, &config).await;
    rotation.another_run_is_faster(&way, &config).await;
}

/// From now on, writes of the controller's Secret have this verdict, and are told to `reached`.
fn judge_writes(way: &Interceptor, reached: &Arc<Notify>, verdict: Verdict) {
    let reached = reached.clone();
    let own = format!("/namespaces/{NAMESPACE}/secrets/cluster-credentials-turn");
    way.judge(move |asked: &Asked| {
        if asked.method.as_str() == "PATCH" && asked.uri.path().ends_with(&own) {
            reached.notify_one();
            verdict.clone()
        } else {
            Verdict::Forward
        }
    });
}

/// The messages of a run that must have failed.
fn failure(running: Child) -> String {
    let ended = running.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    said
}

impl Rotation {
    /// Kubeconfigs of both clusters. The one of the source cluster leads through a proxy.
    fn config_through(&self, way: &Interceptor) -> PathBuf {
        let source = self.source.kubeconfig_through(&way.url(), USER, &GROUPS);
        let paths = [source.unwrap(), self.far.kubeconfig().to_owned()];
        std::env::join_paths(paths).unwrap().into()
    }

    /// The API server executes the write, and the program does not hear of it.
    async fn the_answer_is_lost(&self, way: &Interceptor, config: &Path) {
        let before = self.kubeconfig().await;
        let (reached, lost) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        judge_writes(way, &reached, Verdict::LoseAnswer(lost.clone()));
        let running = self.start(config);
        lost.notified().await;
        way.forward();
        way.cut();
        let said = failure(running);
        let after = self.kubeconfig().await;
        assert_ne!(token(&after), token(&before));
        let why = format!("the Secret {NAMESPACE}/cluster-credentials-turn has its token");
        assert!(said.contains(&why), "{said}");
        for kubeconfig in [&before, &after] {
            is_accepted(&self.far, &token(kubeconfig), true).await;
        }

        let next = self.run(&["-o=json"]);
        let continues = "continuing with the token Secret";
        assert!(next.stderr.contains(continues), "{}", next.stderr);
        assert_eq!(result(&next)["result"], "rotated");
        self.both_have(&token(&after)).await;
        is_accepted(&self.far, &token(&before), false).await;
        assert_eq!(minted(&self.far).await.len(), 1);
    }

    /// A run was killed after it had created a token. Two runs continue with it, and one of them has read the Secrets
    /// before the other one writes them.
    async fn another_run_is_faster(&self, way: &Interceptor, config: &Path) {
        let (reached, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        judge_writes(way, &reached, Verdict::Hold);
        let mut killed = self.start(config);
        reached.notified().await;
        killed.kill().unwrap();
        killed.wait().unwrap();
        assert_eq!(minted(&self.far).await.len(), 2);

        judge_writes(way, &reached, Verdict::ForwardAfter(go_on.clone()));
        let slow = self.start(config);
        reached.notified().await;
        assert_eq!(result(&self.run(&["-o=json"]))["result"], "rotated");
        go_on.notify_one();
        let said = failure(slow);
        assert!(!said.contains("deleted the token Secret"), "{said}");
        let now = token(&self.kubeconfig().await);
        self.both_have(&now).await;
        assert_eq!(minted(&self.far).await.len(), 1);
        is_accepted(&self.far, &now, true).await;
    }
}
