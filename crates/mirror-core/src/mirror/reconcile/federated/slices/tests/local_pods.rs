//! Slices of the local member's Pods.

use super::*;

#[test]
fn pods_of_the_local_member_are_shown_as_they_are() {
    let state = two(By::Gateway, By::Gateway)
        .pods(pods(2))
        .worked_on(&key());
    let local: Vec<_> = slices(&state)
        .into_iter()
        .filter(|slice| !slice.metadata.labels.contains_key(l::CLUSTER_NAME))
        .collect();
    assert_eq!(local.len(), 1);
    assert_eq!(local[0].endpoints, pods(2).endpoints);
    assert_eq!(local[0].ports, pods(2).ports);
    // The controller sees only slices with this label.
    let labels = &local[0].metadata.labels;
    assert_eq!(labels.get(l::MIRRORED_SERVICE), Some("true"));
    let annotations = &existing(&state).metadata.annotations;
    assert_eq!(annotations.get(l::LOCAL_MEMBER), Some("web"));
    assert_eq!(annotations.get(l::LOCAL_DISCOVERY), None);
    assert_eq!(plan(&state, &key()).writes, []);

    // A terminating Pod is one patch. When the member leaves, its Pods are removed.
    let mut ending = pods(2);
    ending.endpoints[1].conditions.ready = Some(false);
    ending.endpoints[1].conditions.terminating = Some(true);
    let ended = state.clone().pods(ending);
    let writes = plan(&ended, &key()).writes;
    assert_eq!(writes.len(), 1);
    let patch = body(&writes, local[0].metadata.name());
    assert_eq!(patch["endpoints"][1]["conditions"]["terminating"], true);
    assert_eq!(patch["endpoints"][1]["targetRef"]["uid"], "uid-1");
    let mut left = state.clone();
    left.here().members = crate::mirror::Store::default();
    let name = local[0].metadata.name();
    let gone = described(&plan(&left, &key()).writes);
    assert!(
        gone.contains(&format!("delete EndpointSlice ns/{name}")),
        "{gone:?}"
    );
}

#[test]
fn pods_are_shown_in_the_address_family_of_their_slice() {
    for (family, expected) in [("IPv4", &["IPv4"][..]), ("IPv6", &["IPv6"]), ("FQDN", &[])] {
        let mut pods = pods(1);
        pods.address_type = family.into();
        let state = two(By::Gateway, By::Gateway).pods(pods).worked_on(&key());
        let local = slices(&state)
            .into_iter()
            .filter(|slice| slice.metadata.name().contains("local"));
        let families: Vec<&str> = local.map(|slice| &*slice.address_type).collect();
        assert_eq!(families, expected, "{family}");
    }
}

#[test]
fn slice_of_pods_that_are_gone_is_emptied_before_it_is_deleted() {
    let state = two(By::Gateway, By::Gateway)
        .pods(pods(2))
        .worked_on(&key());
    let name = slices(&state)
        .into_iter()
        .map(|slice| slice.metadata.name())
        .find(|name| name.contains("local"))
        .unwrap();
    let gone = state.clone().pods(pods(0));
    let writes = plan(&gone, &key()).writes;
    let both = ["patch", "delete"].map(|verb| format!("{verb} EndpointSlice ns/{name}"));
    assert_eq!(described(&writes), both);
    assert_eq!(body(&writes, name)["endpoints"], serde_json::json!([]));
    // Linkerd forgets Pods that are not ready as soon as they are not.
    let mut unready = pods(2);
    for pod in &mut unready.endpoints {
        pod.conditions.ready = Some(false);
    }
    let unready = two(By::Gateway, By::Gateway)
        .pods(unready)
        .worked_on(&key())
        .pods(pods(0));
    assert_eq!(described(&plan(&unready, &key()).writes), both[1..]);
}

#[test]
fn slices_of_pods_have_a_hundred_endpoints_at_most() {
    let state = two(By::Gateway, By::Gateway)
        .pods(pods(250))
        .worked_on(&key());
    let mut counts: Vec<_> = slices(&state).iter().map(|s| s.endpoints.len()).collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 1, 50, 100, 100]);
}

/// What changes of a Pod, and how.
type Change = (&'static str, fn(&mut crate::api::k8s::Endpoint));

fn pod(endpoint: &mut crate::api::k8s::Endpoint) -> &mut PodRef {
    endpoint.pod.as_mut().unwrap()
}

fn reference(endpoint: &mut crate::api::k8s::Endpoint) -> &mut TargetRef {
    pod(endpoint).target.as_mut().unwrap()
}

#[test]
fn another_pod_at_the_same_address_is_another_desired_state() {
    let changes: [Change; 9] = [
        ("kind", |endpoint| reference(endpoint).kind = None),
        ("namespace", |endpoint| reference(endpoint).namespace = None),
        ("name", |endpoint| {
            reference(endpoint).name = Some("other".into());
        }),
        ("UID", |endpoint| {
            reference(endpoint).uid = Some("other".into());
        }),
        ("node", |endpoint| pod(endpoint).node = Some("other".into())),
        ("zone", |endpoint| pod(endpoint).zone = Some("b".into())),
        ("no reference", |endpoint| endpoint.pod = None),
        ("serving", |endpoint| {
            endpoint.conditions.serving = Some(false);
        }),
        ("terminating", |endpoint| {
            endpoint.conditions.terminating = Some(false);
        }),
    ];
    let state = two(By::Gateway, By::Gateway)
        .pods(pods(1))
        .worked_on(&key());
    let is_local = |slice: &&EndpointSlice| slice.metadata.name().contains("local");
    let before = slices(&state).into_iter().find(is_local).unwrap();
    for (what, change) in changes {
        let mut changed = pods(1);
        change(&mut changed.endpoints[0]);
        let writes = plan(&state.clone().pods(changed), &key()).writes;
        let patch = body(&writes, before.metadata.name());
        let hash = patch["metadata"]["annotations"][l::DESIRED_STATE].as_str();
        assert!(hash.is_some(), "{what}");
        assert_ne!(
            hash,
            before.metadata.annotations.get(l::DESIRED_STATE),
            "{what}"
        );
    }
}
