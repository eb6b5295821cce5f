//! The admission policies of `install` (`templates/admission-*.yaml.hbs`), as far as they concern labels, annotations,
//! owners and names: no write of the controller may violate them, whatever others have changed before.

use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        labels as l,
        members::MEMBERS,
        metadata::{Metadata, OwnerReference},
        route::Route,
    },
    mirror::metadata::{installation, is_managed},
};

/// Checks a Service that was created, or changed from the state `before`.
pub(crate) fn admit_service(before: Option<&Metadata>, after: &Service) {
    let metadata = &after.metadata;
    is_marked(before, metadata);
    let name = metadata.name();
    let label = |key: &str| metadata.labels.get(key);
    let leads_to_gateway = label(l::MIRRORED_GATEWAY) == Some("true")
        && ["probe-", "api-", "discovery-"]
            .iter()
            .any(|prefix| name.starts_with(prefix));
    let mut members = MEMBERS.iter().flatten();
    let is_federated =
        name.ends_with("-federated") && members.any(|key| metadata.annotations.contains_key(key));
    let is_mirror = label(l::CLUSTER_NAME).is_some_and(|cluster| {
        let suffix = format!("-{cluster}");
        let headless = label(l::HEADLESS_MIRROR);
        name.ends_with(&suffix) && headless.is_none_or(|headless| headless.ends_with(&suffix))
    });
    let is_ours = label(l::MIRRORED_SERVICE) == Some("true") && (is_federated || is_mirror);
    assert!(leads_to_gateway || is_ours, "{metadata:?}");
}

/// Checks a slice that was created, or changed from the state `before`.
pub(crate) fn admit_slice(before: Option<&Metadata>, after: &EndpointSlice) {
    let metadata = &after.metadata;
    is_marked(before, metadata);
    assert_eq!(metadata.labels.get(l::SLICE_MANAGED_BY), Some(l::MANAGER));
    let service = metadata.labels.get(l::SLICE_SERVICE).unwrap();
    is_owned(metadata, service);
    let known = before.and_then(|before| before.labels.get(l::SLICE_SERVICE));
    assert_eq!(known.unwrap_or(service), service, "it was moved");
}

/// Checks a route that was created, or changed from the state `before`.
pub(crate) fn admit_route(before: Option<&Metadata>, after: &Route) {
    let metadata = &after.metadata;
    is_marked(before, metadata);
    assert_eq!(metadata.labels.get(l::MIRRORED_SERVICE), Some("true"));
    let [parent] = &after.spec.parent_refs[..] else {
        panic!("not one parent: {after:?}");
    };
    is_owned(metadata, &parent.name);
    let named = format!("{}-{}", parent.name, parent.port.unwrap());
    assert_eq!(metadata.name(), named);
    assert!(
        parent.rest.is_empty() && after.spec.rest.is_empty(),
        "{after:?}"
    );
}

/// Nothing is created without our annotations, or loses them.
fn is_marked(before: Option<&Metadata>, after: &Metadata) {
    let marked = |of: &Metadata| is_managed(of) && installation(of).is_some();
    let may_lack = before.is_some_and(|before| !marked(before));
    assert!(marked(after) || may_lack, "{before:?} → {after:?}");
}

/// Its Service is the only owner.
fn is_owned(metadata: &Metadata, service: &str) {
    let [owner] = &metadata.owner_references[..] else {
        panic!("not one owner: {metadata:?}");
    };
    let wanted = OwnerReference::to_service(service, &owner.uid);
    assert_eq!(*owner, wanted, "{metadata:?}");
}
