//! Deletes objects of canaries.

use std::fmt::Debug;

use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, Preconditions},
};
use mirror_core::api::labels::VERIFY;
use serde::de::DeserializeOwned;

use crate::clusters::snapshot::Known;

/// Deletes all objects with the label of canaries. Returns names and UIDs of those that were there.
pub(super) async fn delete_labelled<K>(api: &Api<K>) -> Known<Vec<(String, String)>>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let own = ListParams::default().labels(VERIFY);
    let mut deleted = Vec::new();
    for found in api.list_metadata(&own).await? {
        let (name, uid) = (found.name_any(), found.uid());
        // Another one that has got the name stays.
        let only = DeleteParams::background().preconditions(Preconditions {
            uid: uid.clone(),
            resource_version: None,
        });
        match api.delete(&name, &only).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => return Err(error.into()),
        }
        deleted.push((name, uid.unwrap_or_default()));
    }
    Ok(deleted)
}
