//! Reads the Secrets with Linkerd's credentials, also without the right to list all Secrets of Linkerd, such as the key of
//! its issuer.

use std::collections::BTreeSet;

use client::requests::list_all;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt as _};
use mirror_core::api::labels;

/// How many Secrets are read at the same time.
const READS_AT_ONCE: usize = 8;

/// Linkerd's credentials that a selector matches. If listing Secrets is not permitted, those of `clusters` under the names
/// that `link` gives them. This fails unless all of them are there, because a Secret with another name cannot be seen.
pub async fn linkerd_secrets(
    secrets: &Api<Secret>,
    selector: &str,
    clusters: &BTreeSet<String>,
) -> kube::Result<Vec<Secret>> {
    match list_all(secrets, selector).await {
        Err(kube::Error::Api(status)) if status.code == 403 && !clusters.is_empty() => {
            let reads = clusters.iter().map(|cluster| by_name(secrets, cluster));
            let reads = stream::iter(reads).buffered(READS_AT_ONCE);
            let found: Vec<_> = reads.try_collect().await?;
            let found: Option<_> = found.into_iter().collect();
            found.ok_or(kube::Error::Api(status))
        }
        listed => listed,
    }
}

async fn by_name(secrets: &Api<Secret>, cluster: &String) -> kube::Result<Option<Secret>> {
    let name = format!("{}{cluster}", labels::CREDENTIALS_PREFIX);
    let found = secrets.get_opt(&name).await?;
    let is_of = |secret: &Secret| secret.labels().get(labels::CREDENTIALS_CLUSTER) == Some(cluster);
    Ok(found.filter(is_of))
}

#[cfg(test)]
mod tests {
    use client::of_test_server;
    use http::{Request, Response};
    use http_body_util::StreamBody;
    use hyper::body::{Bytes, Frame};
    use kube::{ResourceExt, client::Body};
    use serde_json::json;

    use super::*;

    /// What is found for these clusters where listing is not permitted, and which error is left.
    async fn found(clusters: &[&str]) -> Result<Vec<String>, String> {
        let client = of_test_server(|request: Request<Body>| async move {
            let path = request.uri().path();
            let name = path
                .rsplit_once("/secrets/")
                .map(|(_, name)| name.to_owned());
            let (code, reason, message) = match name.as_deref() {
                None => (403, "Forbidden", "list"),
                Some("cluster-credentials-denied") => (403, "Forbidden", "get"),
                Some("cluster-credentials-none") => (404, "NotFound", ""),
                Some(_) => (200, "", ""),
            };
            let labels = json!({ labels::CREDENTIALS_CLUSTER: "east" });
            let answer = if code == 200 {
                json!({ "metadata": { "name": name, "labels": labels } })
            } else {
                json!({ "status": "Failure", "message": message, "reason": reason, "code": code })
            };
            let frames = stream::iter([Ok(Frame::data(Bytes::from(answer.to_string())))]).boxed();
            let answer = Response::builder().status(code);
            Ok(answer.body(StreamBody::new(frames))?)
        });
        let secrets = Api::namespaced(client, "linkerd");
        let clusters = clusters.iter().copied().map(str::to_owned).collect();
        match linkerd_secrets(&secrets, labels::CREDENTIALS_CLUSTER, &clusters).await {
            Ok(found) => Ok(found.iter().map(ResourceExt::name_any).collect()),
            Err(kube::Error::Api(status)) => Err(status.message),
            Err(other) => Err(other.to_string()),
        }
    }

    #[tokio::test]
    async fn secrets_that_may_not_be_listed_are_read_by_name_or_not_at_all() {
        let refused = |verb: &str| Err(verb.to_owned());
        for (clusters, expected) in [
            (
                &["east"][..],
                Ok(vec!["cluster-credentials-east".to_owned()]),
            ),
            // No Secret can be named, or one of them could have another name.
            (&[], refused("list")),
            (&["east", "none"], refused("list")),
            // Of another cluster.
            (&["east", "west"], refused("list")),
            (&["east", "denied"], refused("get")),
        ] {
            assert_eq!(found(clusters).await, expected, "{clusters:?}");
        }
    }
}
