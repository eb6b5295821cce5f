//! The Pods of canaries: created, waited for, and taken out of their Services.

use std::time::Duration;

use client::Cluster;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ContainerStatus, Pod},
};
use kube::{
    Api,
    api::PostParams,
    runtime::wait::{await_condition, conditions::is_deleted},
};
use mirror_core::api::{labels::CONTROLLER_NAME, text::in_brief};
use tokio::time::{Instant, sleep, timeout_at};

use super::{CanarySpec, Role, deletion::delete_labelled, objects::CONTAINER};
use crate::clusters::{
    snapshot::Known,
    workloads::{PROXY, ParseArgs, container_statuses, containers, workload},
};

/// Pause between attempts to create a Pod in a new namespace.
const PAUSE: Duration = Duration::from_millis(100);
/// How long creations may fail because others have not heard of a new namespace.
const NEW: Duration = Duration::from_secs(5);
/// Why a container waits, if it will not start by itself.
const STUCK: [&str; 4] = [
    "ImagePullBackOff",
    "InvalidImageName",
    "CreateContainerConfigError",
    ENDED,
];
/// Said of the canary, which should not end before its Pod is deleted.
const ENDED: &str = "it ended";

/// The Deployment of the controller of this installation.
async fn controller(cluster: &Cluster, namespace: &str) -> Known<Deployment> {
    let api: Api<Deployment> = Api::namespaced(cluster.client.clone(), namespace);
    Ok(api.get(CONTROLLER_NAME).await?)
}

/// The Deployment of the gateway of this installation, if its controller lets it forward only what is exported.
pub async fn export_gateway(
    cluster: &Cluster,
    namespace: &str,
    parse: ParseArgs,
) -> Known<Option<String>> {
    let deployment = controller(cluster, namespace).await?;
    Ok(workload(&deployment, parse).export_gateway)
}

/// The image of the controller of this installation.
pub async fn image(cluster: &Cluster, namespace: &str) -> Known<String> {
    let deployment = controller(cluster, namespace).await?;
    let pod = deployment.spec.and_then(|spec| spec.template.spec);
    let mut containers = pod.into_iter().flat_map(|pod| pod.containers);
    let image = containers.find_map(|container| container.image);
    image.ok_or_else(|| format!("Deployment {CONTROLLER_NAME} has no image").into())
}

/// Creates a Pod, and waits until it is ready.
pub async fn start(
    cluster: &Cluster,
    canaries: &CanarySpec,
    name: &str,
    role: Role,
    until: Instant,
) -> Known<()> {
    let pod = canaries.pod(name, role);
    let soon = until.min(Instant::now() + NEW);
    let created = create(cluster, &canaries.namespace, &pod, soon).await;
    let created = created.map_err(|why| why.context(format_args!("cannot create Pod {name}")))?;
    if !containers(&created).any(|container| container.name == PROXY) {
        return Err(format!(
            "Linkerd's injector added no proxy to Pod {name}; run {}",
            cluster.flags.linkerd("check", &[])
        )
        .into());
    }
    let client = cluster.client.clone();
    let pods: Api<Pod> = Api::namespaced(client, &canaries.namespace);
    let ends = |pod: Option<&Pod>| pod.is_some_and(|pod| is_ready(pod) || stuck(pod).is_some());
    match timeout_at(until, await_condition(pods, name, ends)).await {
        Ok(Ok(Some(pod))) if is_ready(&pod) => Ok(()),
        Ok(Ok(Some(pod))) => Err(unready(&pod, name).into()),
        Ok(Ok(None)) => Err(format!("Pod {name} is gone").into()),
        Ok(Err(error)) => Err(error.to_string().into()),
        Err(_) => {
            let api: Api<Pod> = Api::namespaced(cluster.client.clone(), &canaries.namespace);
            let pod = api.get(name).await?;
            Err(unready(&pod, name).into())
        }
    }
}

/// Deletes the Pods of canaries in a namespace that stays, and waits until they are gone. Returns whether there were any.
pub async fn delete_all(cluster: &Cluster, namespace: &str, until: Instant) -> Known<bool> {
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
    let deleted = delete_labelled(&api).await?;
    for (name, uid) in &deleted {
        let gone = await_condition(api.clone(), name, is_deleted(uid));
        match timeout_at(until, gone).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(error.to_string().into()),
            Err(_) => return Err(format!("Pod {name} is still terminating").into()),
        }
    }
    Ok(!deleted.is_empty())
}

async fn create(cluster: &Cluster, namespace: &str, pod: &Pod, until: Instant) -> Known<Pod> {
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
    loop {
        match api.create(&PostParams::default(), pod).await {
            // Kubernetes creates the account after the namespace, and webhooks such as Linkerd's have to hear of it.
            Err(kube::Error::Api(status))
                if ["serviceaccount", "webhook"]
                    .iter()
                    .any(|by| status.message.contains(by))
                    && Instant::now() < until =>
            {
                sleep(PAUSE).await;
            }
            created => return Ok(created?),
        }
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Why a container does not run: the reason why it waits, or how the canary ended, and the message.
fn idle(container: &ContainerStatus) -> Option<(&str, String)> {
    let state = container.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        let message = waiting.message.as_deref().unwrap_or_default();
        return Some((
            waiting.reason.as_deref().unwrap_or_default(),
            in_brief(message),
        ));
    }
    // Init containers end too, as they should.
    let ended = state
        .terminated
        .as_ref()
        .filter(|_| container.name == CONTAINER)?;
    let code = ended.exit_code;
    Some((
        ENDED,
        format!("exit code {code}; is it the image of this version?"),
    ))
}

/// A container that will not start by itself.
fn stuck(pod: &Pod) -> Option<&ContainerStatus> {
    let mut all = container_statuses(pod);
    all.find(|container| idle(container).is_some_and(|(reason, _)| STUCK.contains(&reason)))
}

/// Why a Pod is not ready: the container that waits, or what the scheduler says.
fn unready(pod: &Pod, name: &str) -> String {
    let waiting = stuck(pod).or_else(|| container_statuses(pod).find(|c| idle(c).is_some()));
    let cause = waiting.and_then(|container| {
        let (reason, message) = idle(container)?;
        let message = match message {
            none if none.is_empty() => none,
            message => format!(" ({message})"),
        };
        Some(format!("container {}: {reason}{message}", container.name))
    });
    let condition = || {
        let conditions = pod.status.as_ref()?.conditions.as_ref()?;
        let failed = conditions.iter().find(|condition| {
            condition.status != "True" && condition.message.as_ref().is_some_and(|m| !m.is_empty())
        })?;
        failed.message.as_deref().map(in_brief)
    };
    let cause = cause
        .or_else(condition)
        .unwrap_or_else(|| "nothing was reported about it; is there a node for it?".to_owned());
    format!("Pod {name} is not ready: {cause}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(status: &Value) -> Pod {
        serde_json::from_value(json!({ "status": status })).unwrap()
    }

    fn waiting(name: &str, reason: &str, message: &str) -> Value {
        json!({
            "name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "waiting": { "reason": reason, "message": message } },
        })
    }

    #[test]
    fn a_pod_that_is_not_ready_says_why() {
        let back_off = pod(&json!({ "containerStatuses": [
            waiting("linkerd-proxy", "PodInitializing", ""),
            waiting("canary", "ImagePullBackOff", "Back-off pulling image \"x\""),
        ] }));
        assert!(stuck(&back_off).is_some());
        assert_eq!(
            unready(&back_off, "canary"),
            "Pod canary is not ready: container canary: ImagePullBackOff (Back-off pulling image \"x\")"
        );
        let starts =
            pod(&json!({ "containerStatuses": [waiting("canary", "ContainerCreating", "")] }));
        assert!(stuck(&starts).is_none());
        assert_eq!(
            unready(&starts, "canary"),
            "Pod canary is not ready: container canary: ContainerCreating"
        );
        let ended = json!({ "terminated": { "exitCode": 2 } });
        let ended = pod(&json!({ "containerStatuses": [
            { "name": "linkerd-init", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": { "terminated": { "exitCode": 0 } } },
            { "name": "canary", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": ended },
        ] }));
        assert!(stuck(&ended).is_some());
        assert_eq!(
            unready(&ended, "canary"),
            "Pod canary is not ready: container canary: it ended (exit code 2; is it the image of this version?)"
        );
        let unscheduled = pod(&json!({ "conditions": [{
            "type": "PodScheduled", "status": "False", "message": "0/3 nodes are available",
        }] }));
        assert_eq!(
            unready(&unscheduled, "client"),
            "Pod client is not ready: 0/3 nodes are available"
        );
        let nothing = unready(&pod(&json!({})), "client");
        assert!(nothing.ends_with("is there a node for it?"), "{nothing}");
    }

    #[test]
    fn a_pod_is_ready_when_its_condition_says_so() {
        let of = |status: &str| {
            is_ready(&pod(
                &json!({ "conditions": [{ "type": "Ready", "status": status }] }),
            ))
        };
        assert!(of("True"));
        assert!(!of("False"));
        assert!(!is_ready(&pod(&json!({}))));
    }
}
