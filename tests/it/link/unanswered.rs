//! Links whose writes fail although the API server executes them.

use std::{path::PathBuf, sync::Arc};

use control_plane::{Asked, Verdict};
use tokio::sync::Notify;

use super::{link_west, stored};
use crate::support::{installation::NAMESPACE, planes::hub};

/// Whom the API server of the source cluster takes the program for.
const USER: &str = "linking";
const GROUPS: [&str; 1] = ["system:masters"];

#[tokio::test(flavor = "multi_thread")]
async fn secret_whose_write_was_not_answered_is_deleted() {
    let (east, west) = hub().await.pair();
    let way = west.intercept(Some((USER, &GROUPS))).unwrap();
    let through = west.kubeconfig_through(&way.url(), USER, &GROUPS).unwrap();
    let config = std::env::join_paths([&through, east.kubeconfig()]).unwrap();
    let lost = Arc::new(Notify::new());
    let (own, executed) = ("secrets/cluster-credentials-unanswered", lost.clone());
    way.judge(move |asked: &Asked| {
        if asked.method.as_str() == "PATCH" && asked.uri.path().ends_with(own) {
            Verdict::LoseAnswer(executed.clone())
        } else {
            Verdict::Forward
        }
    });
    let config = PathBuf::from(config);
    let linking =
        tokio::task::spawn_blocking(move || link_west(&config, "east", "unanswered", &[]));
    lost.notified().await;
    assert!(stored(west, "unanswered").await[0].is_some());
    way.forward();
    way.cut();
    let said = linking.await.unwrap().failure();
    let deleted = format!("deleted the new Secret {NAMESPACE}/cluster-credentials-unanswered");
    assert!(said.contains(&deleted), "{said}");
    assert_eq!(stored(west, "unanswered").await, [None, None]);
}
