//! Problems that `check` finds, and does not find any more after they are fixed.

use control_plane::LinkerdOptions;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use linkerd_mc::api::{labels as l, link::Link};
use serde_json::{Value, json};

use super::{
    MIRRORS,
    planes::{Planes, failing},
};
use crate::support::{
    audit::requests,
    installation::{ACCOUNT, NAMESPACE},
    objects::{create, delete, web},
    versions::{SERVICE_RANGES, has_version},
};

pub(super) fn mirrors_without_endpoints_are_found(planes: &Planes) {
    let (results, _) = planes.check(&[]);
    assert_eq!(
        failing(&results),
        [
            (
                "Linkerd's issuer certificate is not about to end",
                "warning"
            ),
            (
                "Linkerd's issuer signs only names of this cluster",
                "warning"
            ),
            ("all exported services are mirrored", "warning"),
            ("all mirror services have endpoints", "error"),
            ("multicluster extension proxies are healthy", "warning"),
            (
                "remote cluster access credentials are not about to expire",
                "warning"
            ),
        ],
        "{results:#?}"
    );
    assert_eq!(
        results["all mirror services have endpoints"]["error"],
        "Service shop/web-007-east has no endpoints"
    );
    assert_eq!(
        results["all mirror services have endpoints"]["hint"],
        "https://linkerd.io/2/checks/#l5d-multicluster-services-endpoints"
    );
    let expiry = results["remote cluster access credentials are not about to expire"]["error"]
        .as_str()
        .unwrap();
    assert!(
        expiry.starts_with("east: the token expires on "),
        "{expiry}"
    );
}

/// Checks that `check` listed the objects in pages, and did not request each mirror. `since` is a mark of the audit log
/// before the only run of the command.
pub(super) fn few_requests_were_made(planes: &Planes, since: u64) {
    let events = requests(&planes.west, since);
    let of = |verb: &str, resource: &str| {
        events
            .iter()
            .filter(|e| e.verb == verb && e.resource == resource)
            .count()
    };
    assert_eq!(of("get", "services") + of("get", "endpointslices"), 0);
    assert_eq!(
        of("list", "services"),
        4,
        "mirrors in two pages, probes and local members in one each"
    );
    // Two pages of one list, with the slices of others.
    assert_eq!(of("list", "endpointslices"), 2);
}

/// No selector of the Link matches the label of such a Service. So the controller does not see the Service.
pub(super) async fn labels_that_select_nothing_are_reported(planes: &Planes) {
    let row = "labels for export select something";
    let (results, _) = planes.check(&[]);
    assert_eq!(results[row]["result"], "success");
    create(&planes.east, "default", &web("oops", "True")).await;
    let (results, _) = planes.check(&[]);
    assert_eq!(results[row]["result"], "warning");
    assert_eq!(
        results[row]["error"],
        "east: the Service default/oops is not exported: no selector of the Link matches its label \
         mirror.linkerd.io/exported=True; did you mean mirror.linkerd.io/exported=true?"
    );
    delete(&planes.east, "default", "oops").await;
}

/// The test writes a number of waiting Services into the Link's status that is larger than the Service range.
pub(super) async fn services_that_do_not_fit_the_service_range_are_reported(planes: &Planes) {
    let fits = "Service range has room for exported services";
    let is_read = has_version(&planes.west, SERVICE_RANGES, "a full Service range").await;
    let (results, _) = planes.check(&[]);
    if is_read {
        assert_eq!(results[fits]["result"], "success");
    }
    let links = Api::<Link>::namespaced(planes.west.client(), NAMESPACE);
    let crowd = Patch::Merge(json!({ "status": { "unhealthy": 20_000_000 } }));
    links
        .patch_status("east", &PatchParams::default(), &crowd)
        .await
        .unwrap();
    let (results, _) = planes.check(&[]);
    if is_read {
        lack_of_addresses_is_counted(&results[fits]);
    } else {
        assert!(!results.contains_key(fits), "{results:?}");
    }
    planes.set_status(true).await;
}

fn lack_of_addresses_is_counted(found: &Value) {
    assert_eq!(found["result"], "warning");
    let error = found["error"].as_str().unwrap();
    let (range, rest) = error.split_once(" has ").unwrap();
    let (left, rest) = rest
        .split_once(" ClusterIPs left for mirrors, which leave a quarter of it free, and up to ")
        .unwrap();
    assert!(rest.contains(" from east)"), "{error}");
    // All mirrors have a ClusterIP, and a few Services of Kubernetes and Linkerd have one.
    let (_, prefix) = range.split_once('/').unwrap();
    let all = (1_usize << (32 - prefix.parse::<u32>().unwrap())) - 2;
    let for_mirrors = all - all.div_ceil(4);
    let left: usize = left.parse().unwrap();
    assert!(
        (for_mirrors - MIRRORS - 30..for_mirrors - MIRRORS).contains(&left),
        "{error}"
    );
}

/// `check` asks the target cluster whether the credentials have permissions that they do not need.
pub(super) async fn excess_permissions_are_found(planes: &Planes) {
    let bind = [
        "create",
        "clusterrolebinding",
        "excess",
        "--clusterrole=view",
    ];
    let account = format!("--serviceaccount={NAMESPACE}:{ACCOUNT}");
    planes
        .east
        .kubectl(&[&bind[..], &[&account]].concat())
        .await
        .unwrap();
    let (results, _) = planes.check(&[]);
    let excess = results["remote cluster access credentials permit only what is needed"]["error"]
        .as_str()
        .unwrap();
    assert!(
        excess.contains("deployments.apps (get list watch)"),
        "{excess}"
    );
    assert!(!excess.contains(" services ("), "{excess}");
    planes
        .east
        .kubectl(&["delete", "clusterrolebinding", "excess"])
        .await
        .unwrap();
}

/// A second Link to one API server stands in for another cluster whose API server has the same CA.
pub(super) async fn api_servers_with_one_ca_are_found(planes: &Planes) {
    let link = json!({
        "apiVersion": "multicluster.linkerd.io/v1alpha3", "kind": "Link",
        "metadata": { "name": "twin", "namespace": NAMESPACE, "annotations": { l::API_GATEWAY: "{}" } },
        "spec": { "targetClusterName": "twin", "clusterCredentialsSecret": "cluster-credentials-east" },
    });
    planes.west.apply(&link.to_string()).await.unwrap();
    let (results, _) = planes.check(&[]);
    let found = &results["API servers behind gateways have CAs of their own"];
    assert_eq!(found["result"], "warning");
    let error = found["error"].as_str().unwrap();
    let shared = "twin: its API server has the same CA as that of east: ";
    assert!(error.starts_with(shared), "{error}");
    let delete = ["-n", NAMESPACE, "delete", "link", "twin"];
    planes.west.kubectl(&delete).await.unwrap();
}

/// Mirrors have EndpointSlices only, so Linkerd finds no endpoints if it does not read slices. `install` warns of it
/// too.
pub(super) async fn linkerd_without_slices_is_found(planes: &Planes) {
    let without_slices = LinkerdOptions {
        endpoint_slices: false,
        ..LinkerdOptions::default()
    };
    planes.west.linkerd(&without_slices).await.unwrap();
    let (results, _) = planes.check(&[]);
    let result = &results["Linkerd reads EndpointSlices"];
    assert_eq!(result["result"], "error");
    let remedy = "linkerd --context west upgrade --set enableEndpointSlices=true";
    assert!(
        result["error"].as_str().unwrap().contains(remedy),
        "{result}"
    );
    let installed = planes.run(&["install"]);
    assert_eq!(installed.code, 0);
    let warning = "warning: enableEndpointSlices is off";
    assert!(
        installed.stderr.starts_with(warning),
        "{}",
        installed.stderr
    );
    assert!(installed.stderr.contains(remedy), "{}", installed.stderr);
    planes
        .west
        .linkerd(&LinkerdOptions::default())
        .await
        .unwrap();
    let (results, _) = planes.check(&[]);
    assert_eq!(results["Linkerd reads EndpointSlices"]["result"], "success");
    assert_eq!(planes.run(&["install"]).stderr, "");
}

/// `check` asks for the permissions of the controller's ServiceAccount, whatever grants them.
pub(super) async fn lacking_permissions_are_found(planes: &Planes) {
    planes
        .west
        .kubectl(&[
            "delete",
            "clusterrolebinding",
            "linkerd-multicluster-controller",
        ])
        .await
        .unwrap();
    let (results, _) = planes.check(&[]);
    let denied = results["service mirror controller has required permissions"]["error"]
        .as_str()
        .unwrap();
    assert!(
        denied.starts_with("not permitted: list services, watch services, "),
        "{denied}"
    );
    assert!(!denied.contains("links"), "{denied}");

    // With preferences, the controller needs more. The roles are now those of a version that did not watch these kinds.
    let enabled = planes.run(&["install", "--set", "federation.routes=true"]);
    planes.west.apply(&enabled.data()).await.unwrap();
    let roles: Api<ClusterRole> = Api::all(planes.west.client());
    let mut role = roles.get("linkerd-multicluster-controller").await.unwrap();
    let is_missing = |rule: &PolicyRule| {
        let mut resources = rule.resources.iter().flatten();
        resources.any(|resource| resource == "tlsroutes" || resource == "serviceprofiles")
    };
    let rules = role.rules.get_or_insert_default();
    rules.retain(|rule| !is_missing(rule));
    let name = "linkerd-multicluster-controller";
    roles
        .replace(name, &PostParams::default(), &role)
        .await
        .unwrap();
    let (results, _) = planes.check(&[]);
    assert_eq!(
        results["service mirror controller has required permissions"]["error"],
        "not permitted: list grpcroutes.gateway.networking.k8s.io, watch grpcroutes.gateway.networking.k8s.io, \
         list tlsroutes.gateway.networking.k8s.io, watch tlsroutes.gateway.networking.k8s.io, \
         list serviceprofiles.linkerd.io, watch serviceprofiles.linkerd.io; \
         apply the output of `install` again, with your values"
    );

    let printed = planes.run(&["install"]).data();
    planes.west.apply(&printed).await.unwrap();
}
