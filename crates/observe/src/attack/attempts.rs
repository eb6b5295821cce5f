//! What thieves try: a table. Objects that every cluster has stand for all of their kind, such as the Service
//! `default/kubernetes` for the Services of users.

use http::Method;
use mirror_core::api::{
    gateway_suffixes::{ADDITIONAL_ENV, GatewaySuffixes},
    labels::GATEWAY_NAME,
};
use serde_json::{Value, json};

use super::thief::{Thief, ThiefKind};

/// The name of objects that would be created, and of those that do not exist.
const NAME: &str = "linkerd-mc-attack";
const CORE: &str = "/api/v1";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const LINKS: &str = "/apis/multicluster.linkerd.io/v1alpha3";

/// What should become of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It has to be refused.
    Refused,
    /// It has to be refused, or to find nothing; otherwise this helps.
    RefusedOrNothing(&'static str),
    /// The account needs it, for this reason.
    Permitted(&'static str),
}

/// One request.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// What a thief would gain.
    pub what: &'static str,
    /// The method of the request.
    pub method: Method,
    /// Its path, without a query.
    pub path: String,
    /// Its query.
    pub query: &'static str,
    /// `null` for requests without a body.
    pub body: Value,
    /// The form of the answer.
    pub accept: &'static str,
    /// What should become of it.
    pub expected: Expected,
}

/// Reads the metadata of a list.
fn read(what: &'static str, path: String) -> Attempt {
    Attempt {
        query: "limit=1",
        accept: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        ..attempt(what, Method::GET, path, Value::Null)
    }
}

/// Reads the metadata of an object.
fn read_one(what: &'static str, path: String) -> Attempt {
    Attempt {
        query: "",
        accept: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        ..attempt(what, Method::GET, path, Value::Null)
    }
}

fn attempt(what: &'static str, method: Method, path: String, body: Value) -> Attempt {
    Attempt {
        what,
        method,
        path,
        query: "dryRun=All",
        body,
        accept: "application/json",
        expected: Expected::Refused,
    }
}

impl Attempt {
    fn expected(self, expected: Expected) -> Self {
        Self { expected, ..self }
    }
}

/// What a thief of this token tries.
pub fn of(thief: &Thief) -> Vec<Attempt> {
    let own = match thief.kind {
        ThiefKind::Controller => of_controller(thief),
        ThiefKind::RemoteAccess => of_remote(),
    };
    own.into_iter().chain(of_all(thief)).collect()
}

/// What the controller of this cluster could do.
fn of_controller(thief: &Thief) -> Vec<Attempt> {
    let own = &thief.namespace;
    let mut attempts = vec![
        read(
            "Read the credentials of the Links",
            format!("{CORE}/namespaces/{own}/secrets"),
        )
        .expected(Expected::Permitted(
            "with them it reads the target clusters; rotate them after a theft",
        )),
        read("Read all Services", format!("{CORE}/services"))
            .expected(Expected::Permitted("it compares them with its mirrors")),
    ];
    attempts.extend(thief.accounts.iter().map(|namespace| {
        let expected = if namespace == own {
            Expected::RefusedOrNothing(
                "revoke the tokens that never expire, or give the accounts of other clusters a namespace of their own",
            )
        } else {
            Expected::Refused
        };
        let what = "Read a token with which another cluster reads this one";
        Attempt {
            // Tokens that expire are in no Secret.
            query: "fieldSelector=type%3Dkubernetes.io%2Fservice-account-token&limit=1",
            ..read(what, format!("{CORE}/namespaces/{namespace}/secrets"))
        }
        .expected(expected)
    }));
    let open = |what, suffix| {
        let suffixes = GatewaySuffixes::of_variable(suffix).to_annotation();
        let template = json!({ "metadata": { "annotations": { ADDITIONAL_ENV: suffixes } } });
        attempt(
            what,
            Method::PATCH,
            format!("/apis/apps/v1/namespaces/{own}/deployments/{GATEWAY_NAME}"),
            json!({ "spec": { "template": template } }),
        )
    };
    attempts.extend([
        open(
            "Open the gateway to another namespace",
            "linkerd-mc-attack.svc.cluster.local.",
        )
        .expected(Expected::Permitted(
            "with gateway.forward, it says which namespaces the gateway forwards to",
        )),
        open(
            "Open the gateway to the API server",
            "kubernetes.default.svc.cluster.local.",
        ),
    ]);
    attempts
}

/// What an account of another cluster could do.
fn of_remote() -> Vec<Attempt> {
    vec![
        read("Read all Services", format!("{CORE}/services"))
            .expected(Expected::Permitted("exported Services are mirrored")),
        read(
            "Read all Pods, with their environment",
            format!("{CORE}/pods"),
        )
        .expected(Expected::Permitted(
            "remote discovery needs it; an account for gateway mode alone has no right to it",
        )),
    ]
}

/// What no account of the extension may do.
fn of_all(thief: &Thief) -> Vec<Attempt> {
    let service = format!("{CORE}/namespaces/default/services");
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices".to_owned();
    let own = &thief.namespace;
    let mut attempts = reads(thief);
    attempts.extend([
        attempt(
            "Send the requests to a Service elsewhere",
            Method::PATCH,
            format!("{service}/kubernetes"),
            json!({ "spec": { "selector": { "app": NAME } } }),
        ),
        attempt(
            "Add an endpoint of one's own to a Service",
            Method::POST,
            slices,
            json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": { "name": NAME, "labels": { "kubernetes.io/service-name": "kubernetes" } },
                "addressType": "IPv4", "endpoints": [{ "addresses": ["192.0.2.1"] }],
                "ports": [{ "name": "https", "port": 6443 }],
            }),
        ),
        attempt(
            "Create a Service that is no mirror",
            Method::POST,
            service.clone(),
            json!({
                "apiVersion": "v1", "kind": "Service", "metadata": { "name": NAME },
                "spec": { "ports": [{ "port": 80 }] },
            }),
        ),
        attempt(
            "Delete a Service",
            Method::DELETE,
            format!("{service}/kubernetes"),
            Value::Null,
        ),
        attempt(
            "Route the requests to a Service elsewhere",
            Method::POST,
            "/apis/gateway.networking.k8s.io/v1/namespaces/default/httproutes".to_owned(),
            json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
                "metadata": { "name": NAME },
                "spec": {
                    "parentRefs": [{ "group": "", "kind": "Service", "name": "kubernetes", "port": 443 }],
                    "rules": [{ "backendRefs": [{ "name": "kubernetes", "port": 443 }] }],
                },
            }),
        ),
        attempt(
            "Run a Pod",
            Method::POST,
            format!("{CORE}/namespaces/{own}/pods"),
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": { "name": NAME },
                "spec": { "containers": [{ "name": "c", "image": "none" }] },
            }),
        ),
        attempt(
            "Run a command in a Pod",
            Method::POST,
            format!("{CORE}/namespaces/{own}/pods/{NAME}/exec"),
            Value::Null,
        ),
        attempt(
            "Get a token of another account",
            Method::POST,
            format!("{CORE}/namespaces/kube-system/serviceaccounts/default/token"),
            json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": { "audiences": [] } }),
        ),
        attempt(
            "Change the program of the controller",
            Method::PATCH,
            format!("/apis/apps/v1/namespaces/{own}/deployments/linkerd-multicluster-controller"),
            json!({ "spec": { "template": { "spec": { "hostPID": true } } } }),
        ),
        attempt(
            "Change the program of the gateway",
            Method::PATCH,
            format!("/apis/apps/v1/namespaces/{own}/deployments/linkerd-gateway"),
            json!({ "spec": { "template": { "spec": { "hostPID": true } } } }),
        ),
        attempt(
            "Give itself more rights",
            Method::POST,
            format!("{RBAC}/clusterrolebindings"),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": { "name": NAME },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
                "subjects": [{ "kind": "ServiceAccount", "name": thief.account, "namespace": own }],
            }),
        ),
        attempt(
            "Remove the admission policies",
            Method::DELETE,
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/linkerd-multicluster-controller"
                .to_owned(),
            Value::Null,
        ),
        attempt(
            "Link another cluster",
            Method::POST,
            format!("{LINKS}/namespaces/{own}/links"),
            json!({
                "apiVersion": "multicluster.linkerd.io/v1alpha3", "kind": "Link", "metadata": { "name": NAME },
                "spec": { "targetClusterName": NAME, "clusterCredentialsSecret": NAME },
            }),
        ),
        attempt(
            "Delete a namespace",
            Method::DELETE,
            format!("{CORE}/namespaces/default"),
            Value::Null,
        ),
        attempt(
            "Write an Event that is not about a Service",
            Method::POST,
            format!("{CORE}/namespaces/default/events"),
            json!({
                "apiVersion": "v1", "kind": "Event", "metadata": { "name": NAME },
                "involvedObject": { "kind": "Node", "name": NAME, "namespace": "" }, "reason": "X", "type": "Warning",
            }),
        ),
    ]);
    attempts
}

/// What no account of the extension may read.
fn reads(thief: &Thief) -> Vec<Attempt> {
    let linkerd = &thief.linkerd;
    let mut attempts = vec![
        read("Read all Secrets", format!("{CORE}/secrets")),
        read_one(
            "Read the key of Linkerd's issuer",
            format!("{CORE}/namespaces/{linkerd}/secrets/linkerd-identity-issuer"),
        ),
        read("Read all ConfigMaps", format!("{CORE}/configmaps")),
    ];
    if thief.kind == ThiefKind::Controller {
        attempts.push(read(
            "Read all Pods, with their environment",
            format!("{CORE}/pods"),
        ));
    }
    attempts
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn thief(kind: ThiefKind, accounts: &str) -> Thief {
        Thief {
            kind,
            namespace: "mc".to_owned(),
            account: "x".to_owned(),
            linkerd: "linkerd".to_owned(),
            accounts: vec![accounts.to_owned()],
        }
    }

    #[test]
    fn each_attempt_is_there_once_and_most_have_to_be_refused() {
        for kind in [ThiefKind::Controller, ThiefKind::RemoteAccess] {
            let attempts = of(&thief(kind, "access"));
            let names: BTreeSet<_> = attempts.iter().map(|attempt| attempt.what).collect();
            assert_eq!(names.len(), attempts.len());
            let permitted = attempts
                .iter()
                .filter(|attempt| matches!(attempt.expected, Expected::Permitted(_)));
            let expected = match kind {
                ThiefKind::Controller => 3,
                ThiefKind::RemoteAccess => 2,
            };
            assert_eq!(permitted.count(), expected);
        }
    }

    #[test]
    fn tokens_beside_the_controller_are_a_weakness_with_a_remedy() {
        let tokens = |accounts: &str| {
            let mut attempts = of(&thief(ThiefKind::Controller, accounts)).into_iter();
            let found = attempts.find(|attempt| attempt.what.starts_with("Read a token"));
            let found = found.unwrap();
            (found.path, found.expected != Expected::Refused)
        };
        let path = |of: &str| format!("/api/v1/namespaces/{of}/secrets");
        assert_eq!(tokens("access"), (path("access"), false));
        assert_eq!(tokens("mc"), (path("mc"), true));
    }
}
