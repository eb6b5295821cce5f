//! What nobody may do with a stolen token of the controller's account, or of the account that other clusters use. The
//! admission policies of `install` refuse such writes, even if RBAC permits them.
//!
//! The other tests run controllers under the same account, on control planes that have the policies. So they show that
//! the policies permit all modes of mirroring.

mod events;
mod gateway;
mod routes;
mod writes;

use control_plane::{ControlPlane, eventually};
use http::{Method, Request};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Client, ResourceExt as _, api::PostParams, config::Kubeconfig};
use linkerd_mc::api::labels as l;
use serde_json::{Value, json};

use self::writes::{
    EITHER, NAMESPACES, OF_NO_MIRROR, Try, existing_objects, forbidden, named, permitted, slice,
    without_nulls,
};
use crate::support::{
    SOON,
    credentials::client,
    installation::{ACCOUNT, CONTROLLER, NAMESPACE, account, reinstall},
    objects::services,
    planes::installed,
    program::run,
};

/// Start of the error message of a refusal by the policy of this name.
fn refusal(policy: &str, why: &str) -> String {
    format!("ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: {why}")
}

/// Name of the policy for the kind of object that a request writes.
fn policy_of((_, path, _): &Try) -> String {
    let of = |kind: &str| path.split('/').any(|part| part == kind);
    let kind = if of("policy.linkerd.io") || of("deployments") {
        "-gateway"
    } else if of("services") {
        "-services"
    } else if of("endpointslices") {
        "-slices"
    } else if of("httproutes") || of("tcproutes") {
        "-routes"
    } else {
        ""
    };
    format!("{}{kind}", l::CONTROLLER_NAME)
}

/// A client that has only a token of a ServiceAccount.
async fn client_of(plane: &ControlPlane, namespace: &str, account: &str) -> Client {
    let create = ["create", "token", account, "-n", namespace];
    let token = plane.kubectl(&create).await.unwrap();
    let authority = plane.folder().join("confined.crt");
    std::fs::write(&authority, plane.ca_pem()).unwrap();
    let kubeconfig: Kubeconfig = serde_json::from_value(json!({
        "clusters": [{ "name": "c", "cluster": {
            "server": plane.url(), "certificate-authority": authority,
        } }],
        "users": [{ "name": "u", "user": { "token": token.trim() } }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        "current-context": "c",
    }))
    .unwrap();
    client(kubeconfig).await
}

/// Sends a request as a dry run. Returns the message of the refusal, if the API server refuses it.
async fn refused(client: &Client, (method, path, body): &Try) -> Option<String> {
    let content = match body {
        Value::Null => Vec::new(), // `DeleteOptions` in a body would override `dryRun` in the query
        body => body.to_string().into_bytes(),
    };
    let request = Request::builder()
        .method(method)
        .uri(format!("{path}?dryRun=All"))
        .header(
            "content-type",
            match *method {
                Method::PATCH => "application/merge-patch+json",
                _ => "application/json",
            },
        )
        .body(content)
        .unwrap();
    match client.request::<Value>(request).await {
        Ok(_) => None,
        Err(kube::Error::Api(status)) => Some(status.message.clone()),
        Err(error) => panic!("no answer: {error}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn stolen_controller_token_permits_only_what_the_controller_writes() {
    let plane = installed("confined", "192.0.2.70").await;
    assert_eq!(account(NAMESPACE), CONTROLLER);
    plane
        .kubectl(&["create", "namespace", "shop"])
        .await
        .unwrap();
    plane.install_gateway_api().await.unwrap();
    let policies = gateway::existing_objects();
    let policies = policies.into_iter().map(|object| (NAMESPACE, object));
    let routes = routes::existing_objects()
        .into_iter()
        .map(|route| ("shop", route));
    for (namespace, object) in existing_objects().into_iter().chain(routes).chain(policies) {
        let mut object = without_nulls(object);
        if let Some(owner) = object.pointer_mut("/metadata/ownerReferences/0") {
            let name = owner["name"].as_str().unwrap();
            let service = services(&plane, namespace).get(name).await.unwrap();
            owner["uid"] = json!(service.metadata.uid);
        }
        let create = ["create", "-n", namespace, "-f", "-"];
        plane
            .kubectl_stdin(&create, &object.to_string())
            .await
            .unwrap();
    }
    // RBAC permits everything, so each refusal comes from a policy.
    let everything = ["--clusterrole=cluster-admin", "--user", CONTROLLER];
    let bind = [
        &["create", "clusterrolebinding", "everything"],
        &everything[..],
    ]
    .concat();
    plane.kubectl(&bind).await.unwrap();
    let client = client_of(&plane, NAMESPACE, l::CONTROLLER_NAME).await;

    // The policy permits new namespaces only if a value of `install` enables them.
    let namespace = (Method::POST, "/api/v1/namespaces".to_owned(), named("new"));
    let why = refused(&client, &namespace).await.unwrap();
    assert!(
        why.contains(&refusal(l::CONTROLLER_NAME, NAMESPACES)),
        "{why}"
    );
    // The routes above exist. Without `federation.routes`, `install` would warn of them, and `reinstall` accepts no
    // warnings.
    let creates = "enableNamespaceCreation=true,federation.routes=true,gateway.forward=exported";
    reinstall(&plane, &["--set", creates]).await;
    eventually("the policy to change", SOON, async || {
        Ok(refused(&client, &namespace).await.is_none().then_some(()))
    })
    .await
    .unwrap();

    let mut wrong = Vec::new();
    for (request, why) in forbidden()
        .into_iter()
        .chain(routes::forbidden())
        .chain(gateway::forbidden())
        .chain(gateway::forbidden_policies())
    {
        let expected = match why {
            EITHER => format!("ValidatingAdmissionPolicy '{}", l::CONTROLLER_NAME),
            OF_NO_MIRROR => refusal(&format!("{}-owners", l::CONTROLLER_NAME), why),
            routes::OF_NO_MIRROR => refusal(&format!("{}-parents", l::CONTROLLER_NAME), why),
            _ => refusal(&policy_of(&request), why),
        };
        let said = refused(&client, &request).await;
        if !said.as_ref().is_some_and(|said| said.contains(&expected)) {
            wrong.push(format!(
                "{request:?}\n  must be refused: {expected}\n  but: {said:?}"
            ));
        }
        // The policies ignore other accounts. Kubernetes may refuse the request for another reason.
        let said = refused(&plane.client(), &request).await.unwrap_or_default();
        if said.contains("ValidatingAdmissionPolicy") {
            wrong.push(format!(
                "{request:?}\n  must not be refused to others: {said}"
            ));
        }
    }
    for request in permitted()
        .into_iter()
        .chain(routes::permitted())
        .chain(gateway::permitted())
    {
        if let Some(said) = refused(&client, &request).await {
            wrong.push(format!("{request:?}\n  must be permitted: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    slice_of_a_missing_service_is_deleted(&plane, &client).await;
    other_clusters_write_only_events_of_service_mirrors(&plane).await;
    check_tells_what_is_missing(&plane).await;
}

/// The policies permit a slice whose Service does not exist (yet). The garbage collector of Kubernetes deletes the
/// slice, even if its owner reference has the UID of another object that exists.
async fn slice_of_a_missing_service_is_deleted(plane: &ControlPlane, client: &Client) {
    let live = services(plane, "shop").get("web-east").await.unwrap();
    let mut slice = slice("later-east", "east");
    slice["metadata"]["ownerReferences"][0]["uid"] = json!(live.metadata.uid);
    let slice: EndpointSlice = serde_json::from_value(slice).unwrap();
    let slices = Api::<EndpointSlice>::namespaced(client.clone(), "shop");
    let made = slices.create(&PostParams::default(), &slice).await.unwrap();
    eventually("Kubernetes to delete the slice", SOON, async || {
        let found = slices.get_metadata_opt(&made.name_any()).await?;
        Ok(found.is_none().then_some(()))
    })
    .await
    .unwrap();
}

/// Uses the account of other clusters, with only the permissions that its roles grant.
async fn other_clusters_write_only_events_of_service_mirrors(plane: &ControlPlane) {
    let remote = client_of(plane, NAMESPACE, ACCOUNT).await;
    for event in [
        events::event("ours", events::MIRROR),
        events::event("theirs", "kubelet"),
    ] {
        let create = ["create", "-n", "shop", "-f", "-"];
        plane
            .kubectl_stdin(&create, &event.to_string())
            .await
            .unwrap();
    }
    let expected = refusal("linkerd-multicluster-events", events::ONLY_OF_MIRRORS);
    for request in events::forbidden() {
        let why = refused(&remote, &request).await.unwrap_or_default();
        assert!(why.contains(&expected), "{request:?}: {why}");
    }
    for request in events::permitted() {
        assert_eq!(refused(&remote, &request).await, None, "{request:?}");
    }
    // Accounts of other namespaces are not affected.
    let bind = [
        "create",
        "clusterrolebinding",
        "others",
        "--clusterrole=cluster-admin",
        "--serviceaccount=shop:default",
    ];
    plane.kubectl(&bind).await.unwrap();
    let other = client_of(plane, "shop", "default").await;
    for request in events::forbidden() {
        assert_eq!(refused(&other, &request).await, None, "{request:?}");
    }
}

async fn check_tells_what_is_missing(plane: &ControlPlane) {
    let check = || {
        let outcome = run(plane.kubeconfig(), &["check", "--wait=0s", "-o", "json"]);
        let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
        let checks = report["categories"][0]["checks"].as_array().unwrap();
        let title = "service mirror controller is restricted by admission policies";
        let found = checks.iter().find(|check| check["description"] == title);
        let found = found.unwrap_or_else(|| panic!("{report:#}"));
        let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
        (text("result"), text("error"))
    };
    let (name, policy) = (l::CONTROLLER_NAME, "ValidatingAdmissionPolicy");
    assert_eq!(check(), ("success".into(), String::new()));

    let ignore = r#"{ "spec": { "failurePolicy": "Ignore" } }"#;
    let change = ["patch", policy, name, "--type=merge", "--patch", ignore];
    plane.kubectl(&change).await.unwrap();
    let binding = format!("{policy}Binding");
    plane.kubectl(&["delete", &binding, name]).await.unwrap();
    let (result, error) = check();
    assert_eq!(result, "warning");
    let expected = [
        format!(
            "{binding} {name} not found: anyone with the controller's token can write any Service"
        ),
        format!("{policy} {name} differs from that of this version"),
        "apply the output of `install` again, with your values".to_owned(),
    ];
    assert_eq!(error.lines().collect::<Vec<_>>(), expected);

    let protects = "protectedNamespaces={kube-system},federation.routes=true";
    reinstall(plane, &["--set", protects]).await;
    assert_eq!(check(), ("success".into(), String::new()));
}
