//! Links on a control plane: helpers to create and edit them, and to read their status.

use control_plane::{ControlPlane, eventually};
use k8s_openapi::{
    api::core::v1::Event, apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp,
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use linkerd_mc::api::{
    labels as l,
    link::{Link, LinkStatus, ServiceCondition, ServiceStatus},
};
use serde_json::{Value, json};

use crate::support::{
    SOON,
    installation::{NAMESPACE, link_gen, parsed},
    objects::apply,
    program::run,
};

/// The Links of a control plane.
pub(crate) fn links(plane: &ControlPlane) -> Api<Link> {
    Api::namespaced(plane.client(), NAMESPACE)
}

/// The objects that `link-gen` prints: two Secrets, then the Link. The Link selects objects that are labelled with the
/// name of its cluster, so that tests with different Links do not see each other's Services.
pub(crate) fn objects(target: &ControlPlane, cluster: &str, flags: &[&str]) -> Vec<Value> {
    let selectors = [
        format!("--selector=mirror.linkerd.io/exported={cluster}"),
        format!("--remote-discovery-selector=mirror.linkerd.io/exported={cluster}-direct"),
        format!("--federated-service-selector=mirror.linkerd.io/federated={cluster}"),
        "--output=json".to_owned(),
    ];
    let name = |flag: &str| flag.split('=').next().map(str::to_owned);
    let given = |own: &&str| flags.iter().any(|flag| name(flag) == name(own));
    let mut all: Vec<&str> = selectors.iter().map(String::as_str).collect();
    all.retain(|own| !given(own));
    all.extend(flags);
    parsed(&link_gen(target, cluster, &all))
}

/// Links `source` to `target` with a Link that selects only objects that are labelled with the name `cluster`.
pub(crate) async fn own_link(
    source: &ControlPlane,
    target: &ControlPlane,
    cluster: &str,
    flags: &[&str],
) {
    apply(source, &objects(target, cluster, flags)).await;
}

/// Changes the spec of a Link with a merge patch.
pub(crate) async fn edit(plane: &ControlPlane, link: &str, spec: Value) {
    links(plane)
        .patch(
            link,
            &PatchParams::default(),
            &Patch::Merge(json!({ "spec": spec })),
        )
        .await
        .unwrap();
}

/// Sets annotations of a Link, or removes those that are null.
pub(crate) async fn annotate(plane: &ControlPlane, link: &str, annotations: Value) {
    let change = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
    links(plane)
        .patch(link, &PatchParams::default(), &change)
        .await
        .unwrap();
}

/// Waits until `plan` finds nothing to do for a Link, so the controller has written everything. `flags` are those flags
/// of the controller that are not in its Deployment.
pub(crate) async fn in_step(plane: &ControlPlane, link: &str, flags: &[&str]) {
    let args = [&["plan", link], flags].concat();
    let what = format!("{} to find nothing to do", args.join(" "));
    let waited = eventually(&what, SOON, async || {
        let plan = run(plane.kubeconfig(), &args);
        anyhow::ensure!(plan.code == 0, "{}{}", plan.stdout, plan.stderr);
        anyhow::ensure!(plan.stderr.is_empty(), "{}", plan.stderr);
        Ok(Some(()))
    });
    waited.await.unwrap();
}

/// Waits as [`in_step`] does, for each Link.
pub(crate) async fn all_in_step(plane: &ControlPlane, flags: &[&str]) {
    let all = links(plane).list(&ListParams::default()).await.unwrap();
    for link in all {
        in_step(plane, &link.name_any(), flags).await;
    }
}

/// Deletes a Link.
pub(crate) async fn unlink(plane: &ControlPlane, link: &str) {
    links(plane)
        .delete(link, &DeleteParams::default())
        .await
        .unwrap();
}

/// Waits for a Link whose status meets the condition.
pub(crate) async fn status_that(
    plane: &ControlPlane,
    link: &str,
    is: impl Fn(&LinkStatus) -> bool,
) -> LinkStatus {
    let (what, last) = (
        format!("the status of Link {link}"),
        std::sync::Mutex::new(None),
    );
    let waited = eventually(&what, SOON, async || {
        let status = links(plane).get(link).await?.status.unwrap_or_default();
        let good = is(&status);
        *last.lock().unwrap() = Some(status.clone());
        Ok(good.then_some(status))
    });
    waited
        .await
        .unwrap_or_else(|error| panic!("{error:#}; it is {:#?}", last.lock().unwrap()))
}

/// A condition of a Link.
pub(crate) fn condition<'a>(status: &'a LinkStatus, type_: &str) -> Option<&'a Condition> {
    status
        .conditions
        .iter()
        .find(|condition| condition.type_ == type_)
}

/// Whether a Link is connected, by its status, and since when.
pub(crate) async fn connected(plane: &ControlPlane, link: &str) -> (String, Timestamp) {
    let status = status_that(plane, link, |_| true).await;
    let connected = condition(&status, "Connected").unwrap();
    (connected.status.clone(), connected.last_transition_time.0)
}

/// Waits until a Link has a condition with this status and reason.
pub(crate) async fn condition_is(
    plane: &ControlPlane,
    link: &str,
    type_: &str,
    status: &str,
    reason: &str,
) -> Condition {
    condition_says(plane, link, type_, (status, reason), "").await
}

/// Waits until a Link has a condition with this status and reason, and a message that contains this text.
pub(crate) async fn condition_says(
    plane: &ControlPlane,
    link: &str,
    type_: &str,
    (status, reason): (&str, &str),
    text: &str,
) -> Condition {
    let found = status_that(plane, link, |now| {
        condition(now, type_)
            .is_some_and(|c| c.status == status && c.reason == reason && c.message.contains(text))
    });
    condition(&found.await, type_).unwrap().clone()
}

/// The entry for a Service in a list of a Link's status.
pub(crate) fn said<'a>(
    list: &'a [ServiceStatus],
    namespace: &str,
    service: &str,
) -> Option<&'a ServiceCondition> {
    let entry = list.iter().find(|entry| {
        entry.remote_ref.namespace == namespace && entry.remote_ref.name == service
    })?;
    entry.conditions.first()
}

/// Waits until a Link's status gives this reason for a Service's mirror.
pub(crate) async fn mirror_is(
    plane: &ControlPlane,
    link: &str,
    namespace: &str,
    service: &str,
    reason: &str,
) -> ServiceCondition {
    let found = status_that(plane, link, |now| {
        said(&now.mirror_services, namespace, service).is_some_and(|c| c.reason == reason)
    });
    said(&found.await.mirror_services, namespace, service)
        .unwrap()
        .clone()
}

/// Waits until a Link's status gives this reason for a Service's membership.
pub(crate) async fn member_is(
    plane: &ControlPlane,
    link: &str,
    namespace: &str,
    service: &str,
    reason: &str,
) -> ServiceCondition {
    let found = status_that(plane, link, |now| {
        said(&now.federated_services, namespace, service).is_some_and(|c| c.reason == reason)
    });
    said(&found.await.federated_services, namespace, service)
        .unwrap()
        .clone()
}

/// Our Events that name this object.
pub(crate) async fn events(
    plane: &ControlPlane,
    namespace: &str,
    kind: &str,
    name: &str,
) -> anyhow::Result<Vec<Event>> {
    let fields = format!("involvedObject.kind={kind},involvedObject.name={name}");
    let found = Api::<Event>::namespaced(plane.client(), namespace)
        .list(&ListParams::default().fields(&fields))
        .await?;
    let is_ours = |event: &Event| {
        let source = event.source.as_ref().and_then(|s| s.component.as_deref());
        source.is_some_and(|source| source.starts_with(l::EVENT_SOURCE_PREFIX))
    };
    // Kubernetes writes Events about Services too, for example when two of its controllers write slices at once.
    Ok(found.items.into_iter().filter(is_ours).collect())
}

/// The output of `kubectl get` for a Link with these columns, without its age.
pub(crate) async fn shown(plane: &ControlPlane, link: &str) -> Vec<String> {
    const COLUMNS: &str =
        "NAME CLUSTER READY CONNECTED GATEWAY MIRRORED FEDERATED UNHEALTHY DRAINED AGE";
    let get = ["get", "links", link, "--namespace", NAMESPACE];
    let table = plane.kubectl(&get).await.unwrap();
    let mut rows = table.lines().map(str::split_whitespace);
    assert!(rows.next().unwrap().eq(COLUMNS.split(' ')), "{table}");
    let mut row: Vec<String> = rows.next().unwrap().map(str::to_owned).collect();
    assert!(row.pop().is_some() && rows.next().is_none(), "{table}");
    row
}

/// The result of the check with this description.
pub(crate) fn checked(plane: &ControlPlane, description: &str) -> Value {
    let outcome = run(plane.kubeconfig(), &["check", "--wait=0s", "-o=json"]);
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let checks = report["categories"][0]["checks"].as_array();
    let mut checks = checks.into_iter().flatten();
    let found = checks.find(|check| check["description"] == description);
    found.unwrap_or_else(|| panic!("{report:#}")).clone()
}

pub(crate) async fn is_lost(plane: &ControlPlane, link: &str) -> String {
    condition_is(plane, link, "Connected", "False", "Unreachable")
        .await
        .message
}

pub(crate) async fn is_well(plane: &ControlPlane, link: &str) {
    condition_is(plane, link, "Ready", "True", "Mirroring").await;
}
