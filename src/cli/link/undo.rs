//! Undoes what a link has written. What the cluster has now counts: a write may have succeeded although its answer was lost,
//! and somebody else may have written since.

use client::{Cluster, ReadError, ReadErrorKind, kubeconfig_in};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use links::{
    inventory::{self, ListedObject, SECRET},
    link::source::Before,
    link_credentials::have_same_kubeconfig,
};
use mirror_core::api::{labels::KUBECONFIG_KEY, link::Link};
use serde_json::json;

/// Whether the API server has refused a write, so that it was certainly not executed.
pub fn is_refused(error: &anyhow::Error) -> bool {
    use ReadErrorKind::{Conflict, Forbidden, NotFound, Unauthorized};
    let found = error
        .chain()
        .find_map(|step| step.downcast_ref::<ReadError>());
    found.is_some_and(|found| matches!(found.kind, Unauthorized | Forbidden | NotFound | Conflict))
}

/// `Err` if a Link is not as it was `before`, or may not be.
pub async fn changed_link(
    cluster: &Cluster,
    link: &Link,
    before: Option<&Link>,
) -> Result<(), String> {
    let (namespace, name) = (link.namespace().unwrap_or_default(), link.name_any());
    let api = cluster.api::<Link>(&namespace);
    let live = cluster.request("read the Link", api.get_metadata_opt(&name));
    let live = live.await.map_err(|error| format!("{error:#}"))?;
    let version = |uid: Option<String>, generation: Option<i64>| Some((uid?, generation?));
    let before = before.and_then(|link| version(link.uid(), link.metadata.generation));
    let live = live.and_then(|link| version(link.uid(), link.metadata.generation));
    if before == live {
        Ok(())
    } else {
        Err(format!("the Link {name} was changed"))
    }
}

/// If a Secret has the `new` credentials, deletes it if it is new, or restores its credentials. Returns what was done. `Err`
/// says why it is not as it was `before`.
pub async fn put_back(
    cluster: &Cluster,
    new: &Secret,
    before: &Before,
) -> Result<Option<&'static str>, String> {
    let old = match before {
        Before::Unknown => return Err("you may not read it".to_owned()),
        Before::Missing => None,
        Before::Found(old) => Some(&**old),
    };
    let text = |error: anyhow::Error| format!("{error:#}");
    let (namespace, name) = (new.namespace().unwrap_or_default(), new.name_any());
    let live = cluster.get::<Secret>("read the Secret", &namespace, &name);
    let live = match (live.await.map_err(text)?, old) {
        (None, None) => return Ok(None),
        (Some(live), Some(old)) if have_same_kubeconfig(&live, old) => return Ok(None),
        (Some(live), _) if have_same_kubeconfig(&live, new) => live,
        _ => return Err("somebody else has changed it meanwhile".to_owned()),
    };
    let Some(old) = old else {
        let made = ListedObject::new(SECRET, &live.metadata);
        made.delete(cluster).await.map_err(text)?;
        return Ok(Some("deleted the new Secret"));
    };
    let patch = json!({
        "metadata": { "resourceVersion": live.metadata.resource_version },
        "data": { KUBECONFIG_KEY: kubeconfig_in(old) },
    });
    let secret = SECRET.of_metadata(&live.metadata);
    let restored = inventory::merge(cluster, &secret, &patch).await;
    restored.map_err(text)?;
    Ok(Some("restored the Secret"))
}

#[cfg(test)]
mod tests {
    use links::test_server::TestServer;
    use serde_json::Value;

    use super::*;

    fn secret(kubeconfig: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "name": "cluster-credentials-east", "namespace": "mc", "uid": "a", "resourceVersion": "7",
            },
            "data": { KUBECONFIG_KEY: k8s_openapi::ByteString(kubeconfig.as_bytes().to_vec()) },
        })
    }

    #[tokio::test]
    async fn secret_is_put_back_if_it_has_what_was_written() {
        let changed = Err("somebody else has changed it meanwhile".to_owned());
        for (before, live, undone, after) in [
            (None, None, Ok(None), None),
            (None, Some("new"), Ok(Some("deleted the new Secret")), None),
            (None, Some("other"), changed.clone(), Some("other")),
            (Some("old"), Some("old"), Ok(None), Some("old")),
            (
                Some("old"),
                Some("new"),
                Ok(Some("restored the Secret")),
                Some("old"),
            ),
            (Some("old"), Some("other"), changed.clone(), Some("other")),
            (Some("old"), None, changed, None),
        ] {
            let parsed = |text: &str| serde_json::from_value::<Secret>(secret(text)).unwrap();
            let old = before.map_or(Before::Missing, |old| Before::Found(Box::new(parsed(old))));
            let server = TestServer::new(live.into_iter().map(secret).collect());
            let cluster = server.cluster();
            let said = put_back(&cluster, &parsed("new"), &old).await;
            assert_eq!(said, undone, "{before:?} {live:?}");
            let left = cluster.get::<Secret>("read", "mc", "cluster-credentials-east");
            let left = left.await.unwrap();
            let left = left.as_ref().and_then(kubeconfig_in);
            let left = left.map(|left| String::from_utf8_lossy(&left.0).into_owned());
            assert_eq!(left.as_deref(), after, "{before:?} {live:?}");
        }
    }

    #[tokio::test]
    async fn only_an_answer_of_the_api_server_says_that_nothing_was_written() {
        for (kind, refused) in [
            (ReadErrorKind::Conflict, true),
            (ReadErrorKind::Forbidden, true),
            (ReadErrorKind::Rejected, false), // also a timeout of the API server
            (ReadErrorKind::Unreachable, false),
        ] {
            let cluster = TestServer::new(Vec::new()).cluster();
            let error = cluster.failed("apply Secret a", ReadError::new(kind, "why"));
            assert_eq!(is_refused(&error), refused, "{kind:?}");
        }
    }
}
