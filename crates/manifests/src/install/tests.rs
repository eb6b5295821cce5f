//! Tests of the objects that values result in.

mod gateways;
mod pods;

use std::collections::BTreeSet;

use mirror_core::api::{
    gateway_suffixes::{ADDITIONAL_ENV, VARIABLE},
    labels as l,
};
use serde_json::json;

use super::*;

fn rendered(change: impl FnOnce(&mut Values)) -> Manifest {
    let mut values = Values::default();
    change(&mut values);
    install("linkerd-multicluster", &values).unwrap()
}

fn find<'a>(manifest: &'a Manifest, kind: &str, name: &str) -> Option<&'a Value> {
    manifest
        .objects()
        .unwrap()
        .iter()
        .find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
}

#[test]
fn default_manifest_matches_the_snapshot() {
    let text = rendered(|_| ()).to_yaml().replace(VERSION, "VERSION");
    insta::assert_snapshot!("install", text);
}

#[test]
fn values_reach_the_objects() {
    let manifest = rendered(|values| {
        values.gateway.service_type = "NodePort".into();
        values.gateway.node_port = Some(30143);
        values.gateway.health_check_node_port = Some(30000);
        values.gateway.load_balancer_class = "no".into();
        values.gateway.load_balancer_source_ranges = vec!["10.0.0.0/8".into()];
        values.cni_enabled = true;
        values.enable_namespace_creation = true;
        values.common_labels = [("team".into(), "on".into())].into();
        values.controller.image.name = "registry.example.com/mc".into();
    });
    let service = find(&manifest, "Service", "linkerd-gateway").unwrap();
    assert_eq!(
        service["spec"],
        json!({
            "type": "NodePort",
            "healthCheckNodePort": 30000,
            "loadBalancerClass": "no",
            "loadBalancerSourceRanges": ["10.0.0.0/8"],
            "ports": [
                { "name": "mc-gateway", "port": 4143, "protocol": "TCP", "nodePort": 30143 },
                { "name": "mc-probe", "port": 4191, "protocol": "TCP" },
            ],
            "selector": { "app": "linkerd-gateway" },
        })
    );
    assert_eq!(
        service["metadata"]["labels"],
        json!({ "linkerd.io/extension": "multicluster", "team": "on" })
    );
    let namespace = find(&manifest, "Namespace", "linkerd-multicluster").unwrap();
    assert_eq!(
        namespace["metadata"]["labels"],
        json!({
            "linkerd.io/extension": "multicluster",
            "pod-security.kubernetes.io/enforce": "restricted",
        })
    );
    let name = "linkerd-multicluster-controller";
    let rules = &find(&manifest, "ClusterRole", name).unwrap()["rules"];
    assert_eq!(rules[3]["verbs"], json!(["list", "watch", "create"]));
    let pod = &find(&manifest, "Deployment", name).unwrap()["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(
        container["image"],
        json!(format!("registry.example.com/mc:{VERSION}"))
    );
    assert_eq!(
        container["args"].as_array().unwrap().last(),
        Some(&json!("--leader-elect"))
    );
    assert!(
        container["args"]
            .as_array()
            .unwrap()
            .contains(&json!("--enable-namespace-creation"))
    );
}

#[test]
fn policy_follows_the_values_and_can_be_left_out() {
    let variables = |change: fn(&mut Values)| {
        let manifest = rendered(change);
        let kind = |object: &&Value| object["kind"] == "ValidatingAdmissionPolicy";
        let policies = manifest.objects().unwrap().iter().filter(kind);
        let all = policies.filter_map(|policy| policy["spec"]["variables"].as_array());
        let names = all
            .flatten()
            .filter(|variable| SETTINGS.contains(&variable["name"].as_str().unwrap()));
        let texts: BTreeSet<_> = names
            .map(|variable| format!("{} {}", variable["name"], variable["expression"]))
            .map(|text| text.replace(['"', '\\'], ""))
            .collect();
        texts.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(
        variables(|_| ()),
        [
            "accounts [system:serviceaccounts:linkerd-multicluster]",
            "createsNamespaces false",
            "gateway ",
            "installations [linkerd-multicluster]",
            "protectedNamespaces [kube-system,kube-public,kube-node-lease,linkerd,linkerd-multicluster]",
        ]
    );
    let changed = variables(|values| {
        values.protected_namespaces = Some(vec!["db".into()]);
        values.controller.take_over_from = "old".into();
        values.enable_namespace_creation = true;
        values.remote_mirror_service_account_namespace = "access".into();
        values.gateway.forward = "exported".into();
    });
    assert_eq!(
        changed,
        [
            "accounts [system:serviceaccounts:linkerd-multicluster,system:serviceaccounts:access]",
            "createsNamespaces true",
            "gateway linkerd-gateway",
            "installations [linkerd-multicluster,old]",
            "protectedNamespaces [db,linkerd-multicluster]",
        ]
    );
    let odd = "a\"]; 'b'\n\\ {{c}} ü\u{7f}";
    let manifest = rendered(|values| values.controller.take_over_from = odd.to_owned());
    let services = format!("{}-services", l::CONTROLLER_NAME);
    let policy = find(&manifest, "ValidatingAdmissionPolicy", &services).unwrap();
    let text = policy["spec"]["variables"][2]["expression"]
        .as_str()
        .unwrap();
    let list: Value = serde_json::from_str(text).unwrap();
    assert_eq!(list, json!(["linkerd-multicluster", odd]));
    let without = rendered(|values| values.controller.admission_policy = false);
    assert!(!without.to_yaml().contains("ValidatingAdmissionPolicy"));
    // `check` does not expect policies that were left out on purpose. It does expect them if only an old cluster lacked
    // support, because the cluster may support them after an upgrade.
    let says = |manifest: &Manifest| manifest.to_yaml().contains(l::ADMISSION_POLICY);
    assert!(says(&without) && !says(&rendered(|_| ())));
    let old = install_without_policies("linkerd-multicluster", &Values::default()).unwrap();
    assert!(!old.to_yaml().contains("ValidatingAdmissionPolicy") && !says(&old));
}

/// The policy names the same labels and annotations as the controller writes.
#[test]
fn policy_names_what_the_controller_writes() {
    let policy = confinement("mc", &Values::default()).unwrap().to_yaml();
    for name in [
        l::MIRRORED_SERVICE,
        l::MIRRORED_GATEWAY,
        l::CLUSTER_NAME,
        l::MANAGED_BY,
        l::INSTALLATION,
        l::SLICE_SERVICE,
        l::SLICE_MANAGED_BY,
        l::HEADLESS_MIRROR,
        l::REMOTE_DISCOVERY,
        l::LOCAL_DISCOVERY,
        l::MEMBERS,
        l::LOCAL_MEMBER,
        l::MANAGER,
        "service-mirror-write",
        "-federated",
        "probe-",
    ] {
        assert!(policy.contains(&format!("\"{name}\"")), "{name}");
    }
    assert!(policy.contains(VARIABLE) && policy.contains(ADDITIONAL_ENV));
    let username = format!("\"system:serviceaccount:mc:{}\"", l::CONTROLLER_NAME);
    assert_eq!(policy.matches(&username).count(), 8);
}

#[test]
fn limited_gateway_keeps_the_annotation_that_the_controller_writes() {
    let template = |change: fn(&mut Values)| {
        let manifest = rendered(change);
        let gateway = find(&manifest, "Deployment", l::GATEWAY_NAME).unwrap();
        let controller = find(&manifest, "Deployment", l::CONTROLLER_NAME).unwrap();
        let args = controller["spec"]["template"]["spec"]["containers"][0]["args"].to_string();
        let annotations = &gateway["spec"]["template"]["metadata"]["annotations"];
        let limits = args.contains("--export-gateway=linkerd-gateway\",\"--cluster-domain=c.d");
        (annotations.get(ADDITIONAL_ENV).cloned(), limits)
    };
    // After a return to `all`, what the controller has written goes.
    assert_eq!(template(|_| ()), (Some(json!("[]")), false));
    assert_eq!(
        template(|values| {
            values.gateway.forward = "exported".into();
            values.cluster_domain = "c.d".into();
        }),
        (None, true)
    );
    let theirs = |values: &mut Values| {
        let annotations = &mut values.gateway.deployment_annotations;
        annotations.insert(ADDITIONAL_ENV.into(), "theirs".into());
    };
    assert_eq!(template(theirs), (Some(json!("theirs")), false));
    let without = rendered(|values| {
        values.gateway.forward = "exported".into();
        values.gateway.enabled = false;
    });
    assert!(!without.to_yaml().contains("--export-gateway"));
}

#[test]
fn permitting_gateway_has_no_policy_for_all_of_it() {
    for (level, protocol, is_whole) in [
        ("all", Value::Null, true),
        ("exported", Value::Null, true),
        ("permitted", json!("HTTP/2"), false),
    ] {
        let manifest = rendered(|values| values.gateway.forward = level.to_owned());
        let server = find(&manifest, "Server", "linkerd-gateway").unwrap();
        assert_eq!(server["spec"]["proxyProtocol"], protocol, "{level}");
        let whole = find(&manifest, "AuthorizationPolicy", "linkerd-gateway");
        assert_eq!(whole.is_some(), is_whole, "{level}");
        for name in ["any-meshed", "source-cluster"] {
            assert!(
                manifest.to_yaml().contains(&format!("name: {name}\n")),
                "{level}"
            );
        }
        let permits = manifest.to_yaml().contains("--permit-exports");
        assert_eq!(permits, level == "permitted");
    }
}

#[test]
fn network_policy_matches_the_snapshot() {
    let default = rendered(|_| ());
    assert!(find(&default, "NetworkPolicy", l::CONTROLLER_NAME).is_none());
    let spec = |change: fn(&mut Values)| {
        let manifest = rendered(|values| {
            values.controller.network_policy.enabled = true;
            change(values);
        });
        let policy = find(&manifest, "NetworkPolicy", l::CONTROLLER_NAME).unwrap();
        super::super::yaml::to_yaml(&policy["spec"]).unwrap()
    };
    insta::assert_snapshot!("network-policy", spec(|_| ()));
    insta::assert_snapshot!(
        "network-policy-of-values",
        spec(|values| {
            values.linkerd_namespace = "l5d".into();
            values.controller.metrics_port = 9000;
            let policy = &mut values.controller.network_policy;
            policy.metrics_namespaces.clear();
            policy.egress_ports.retain(|port| port.get() == 443);
            policy.egress_networks = vec!["192.0.2.0/24".into(), "2001:db8::/32".into()];
        })
    );
    let none = spec(|values| values.controller.network_policy.egress_ports.clear());
    assert!(!none.contains("443"), "{none}");
}

#[test]
fn federation_and_headless_reach_the_controller() {
    let args = |change: fn(&mut Values)| {
        let mut values = Values::default();
        change(&mut values);
        controller_args("ns", &values)[13..].join(" ")
    };
    for (change, expected) in [
        (
            (|_| ()) as fn(&mut Values),
            "--federated-service-selector=mirror.linkerd.io/federated=member --join-delay=20s --leader-elect",
        ),
        (
            |values| {
                values.federation.enabled = false;
                values.federation.join_delay = "1m".into();
            },
            "--no-local-federation --join-delay=1m --leader-elect",
        ),
        (
            |values| {
                values.federation.enabled = false;
                values.federation.routes = true;
            },
            "--no-local-federation --join-delay=20s --enable-routes --hold-down=30s --leader-elect",
        ),
        (
            |values| {
                values.controller.enable_headless_services = true;
                values.federation.excluded_labels = vec!["a".into(), "b/*".into()];
                values.federation.excluded_annotations = vec!["c".into()];
            },
            "--enable-headless-services --federated-service-selector=mirror.linkerd.io/federated=member \
             --excluded-labels=a,b/* --excluded-annotations=c --join-delay=20s --leader-elect",
        ),
    ] {
        assert_eq!(args(change), expected);
    }
}

#[test]
fn memory_limit_is_computed_from_max_mib_unless_set() {
    let resources = |change: fn(&mut Values)| {
        let manifest = rendered(change);
        let deployment = find(&manifest, "Deployment", "linkerd-multicluster-controller").unwrap();
        deployment["spec"]["template"]["spec"]["containers"][0]["resources"].clone()
    };
    let memory =
        |limit: &str| json!({ "limits": { "memory": limit }, "requests": { "memory": "64Mi" } });
    assert_eq!(resources(|_| ()), memory("512Mi"));
    assert_eq!(
        resources(|values| values.controller.max_mib = 256),
        memory("896Mi")
    );
    let given = resources(|values| {
        values.controller.resources.requests = [("memory".into(), "1Gi".into())].into();
    });
    assert_eq!(given, json!({ "requests": { "memory": "1Gi" } }));
}

#[test]
fn protected_namespaces_and_the_limit_of_created_ones_reach_the_controller() {
    let args = |set: &[&str]| {
        let mut given = crate::values::UserValues::default();
        for assignment in set {
            let typing = crate::values::Typing::Infer;
            given.add_set("--set", assignment, typing).unwrap();
        }
        let (values, _) = given.over(&Values::default()).unwrap();
        let args = controller_args("ns", &values);
        let ours = args.into_iter().filter(|arg| arg.contains("-namespace"));
        ours.skip(1).collect::<Vec<_>>().join(" ")
    };
    for (set, expected) in [
        (
            &[][..],
            "--protected-namespaces=kube-system,kube-public,kube-node-lease,linkerd",
        ),
        (
            &["linkerdNamespace=l5d", "enableNamespaceCreation=true"],
            "--protected-namespaces=kube-system,kube-public,kube-node-lease,l5d \
             --enable-namespace-creation --max-namespaces-per-link=100",
        ),
        (&["protectedNamespaces="], "--protected-namespaces="),
        (
            &["protectedNamespaces={a,b}", "linkerdNamespace=l5d"],
            "--protected-namespaces=a,b",
        ),
        (
            &["protectedNamespaces=null"],
            "--protected-namespaces=kube-system,kube-public,kube-node-lease,linkerd",
        ),
    ] {
        assert_eq!(args(set), expected, "{set:?}");
    }
}

#[test]
fn high_availability_can_be_scheduled_on_one_node() {
    let manifest = rendered(Values::make_highly_available);
    for (name, replicas) in [
        ("linkerd-gateway", 3),
        ("linkerd-multicluster-controller", 2),
    ] {
        let deployment = find(&manifest, "Deployment", name).unwrap();
        assert_eq!(deployment["spec"]["replicas"], replicas);
        let pod = &deployment["spec"]["template"];
        let apart = &pod["spec"]["affinity"]["podAntiAffinity"];
        assert_eq!(
            apart["requiredDuringSchedulingIgnoredDuringExecution"],
            Value::Null
        );
        let preferred = &apart["preferredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(preferred.as_array().map(Vec::len), Some(2));
        let budget = find(&manifest, "PodDisruptionBudget", name).unwrap();
        assert_eq!(budget["spec"]["maxUnavailable"], 1);
        for wanted in [
            &budget["spec"]["selector"]["matchLabels"],
            &deployment["spec"]["selector"]["matchLabels"],
        ] {
            for (key, value) in wanted.as_object().unwrap() {
                assert_eq!(&pod["metadata"]["labels"][key], value, "{name}: {key}");
            }
        }
    }
    insta::assert_snapshot!(
        "install-ha-controller",
        super::super::yaml::to_yaml(
            find(&manifest, "Deployment", "linkerd-multicluster-controller").unwrap()
        )
        .unwrap()
        .replace(VERSION, "VERSION")
    );
}

#[test]
fn every_value_of_a_pod_reaches_it() {
    let manifest = rendered(|values| {
        let node = || [("disk".to_owned(), "ssd".to_owned())].into();
        let tolerations: Vec<k8s_openapi::api::core::v1::Toleration> =
            serde_json::from_value(json!([{ "key": "a", "operator": "Exists" }])).unwrap();
        values.gateway.node_selector = node();
        values.gateway.tolerations.clone_from(&tolerations);
        values.gateway.termination_grace_period_seconds = Some(60);
        values.gateway.deployment_annotations =
            [("linkerd.io/inject".into(), "ingress".into())].into();
        values.controller.node_selector = node();
        values.controller.tolerations = tolerations;
        values.controller.resources.limits =
            [("cpu".into(), "1".into()), ("memory".into(), "1Gi".into())].into();
        values.controller.additional_env =
            serde_json::from_value(json!([{ "name": "A", "value": "on" }])).unwrap();
        values.controller.image.pull_policy = "Always".into();
        values.controller.metrics_port = 9000;
        values.pod_annotations = [("note".into(), "a: b".into())].into();
        values.image_pull_secrets = serde_json::from_value(json!([{ "name": "s" }])).unwrap();
        values.node_affinity = serde_json::from_value(
            json!({ "preferredDuringSchedulingIgnoredDuringExecution": [] }),
        )
        .ok();
    });
    let pod = |name: &str| &find(&manifest, "Deployment", name).unwrap()["spec"]["template"];
    for name in ["linkerd-gateway", "linkerd-multicluster-controller"] {
        let spec = &pod(name)["spec"];
        assert_eq!(spec["nodeSelector"], json!({ "disk": "ssd" }));
        assert_eq!(
            spec["tolerations"],
            json!([{ "key": "a", "operator": "Exists" }])
        );
        assert!(spec["affinity"]["nodeAffinity"].is_object());
        let account = find(&manifest, "ServiceAccount", name).unwrap();
        assert_eq!(account["imagePullSecrets"], json!([{ "name": "s" }]));
    }
    let gateway = pod("linkerd-gateway");
    assert_eq!(gateway["spec"]["terminationGracePeriodSeconds"], 60);
    assert_eq!(
        gateway["metadata"]["annotations"]["linkerd.io/inject"],
        "ingress"
    );
    let controller = pod("linkerd-multicluster-controller");
    assert_eq!(controller["metadata"]["annotations"]["note"], "a: b");
    let container = &controller["spec"]["containers"][0];
    assert_eq!(
        container["resources"],
        json!({ "limits": { "cpu": "1", "memory": "1Gi" } })
    );
    assert_eq!(container["env"], json!([{ "name": "A", "value": "on" }]));
    assert_eq!(container["imagePullPolicy"], "Always");
    assert_eq!(container["ports"][0]["containerPort"], 9000);
    assert_eq!(container["args"][2], "--admin-addr=0.0.0.0:9000");
}

#[test]
fn access_for_a_gateway_is_less_than_full_access() {
    let accounts = ["reader".to_owned(), "writer".to_owned()];
    let rules = |access| {
        let manifest = allow("mc", &accounts, access, true).unwrap();
        assert_eq!(manifest.objects().unwrap().len(), 1 + 4 * accounts.len());
        find(&manifest, "ClusterRole", "writer").unwrap()["rules"].to_string()
    };
    let (gateway, full) = (rules(RemoteAccess::Gateway), rules(RemoteAccess::Full));
    assert!(gateway.contains("endpointslices") && gateway.contains("services"));
    for more in ["pods", "replicasets", "servers", "events", "jobs"] {
        assert!(full.contains(more), "{more}");
        assert!(!gateway.contains(more), "{more}");
    }
}

#[test]
fn accounts_of_other_clusters_can_have_a_namespace_of_their_own() {
    let of = |values: fn(&mut Values)| {
        let manifest = rendered(values);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let named = |object: &&Value| text(&object["metadata"]["name"]).starts_with("peer");
        let account = |object: &Value| match object["kind"].as_str() {
            Some("ClusterRoleBinding") => Some(text(&object["subjects"][0]["namespace"])),
            Some("ClusterRole") => None,
            _ => Some(text(&object["metadata"]["namespace"])),
        };
        let accounts = manifest.objects().unwrap().iter().filter(named);
        let namespaces: BTreeSet<String> = accounts.filter_map(account).collect();
        let created = manifest
            .objects()
            .unwrap()
            .iter()
            .filter(|object| object["kind"] == "Namespace");
        let created: Vec<_> = created
            .map(|object| text(&object["metadata"]["name"]))
            .collect();
        (namespaces.into_iter().collect::<Vec<_>>(), created)
    };
    let (accounts, created) = of(|values| {
        values.remote_mirror_service_account_name = vec!["peer".into()];
        values.remote_mirror_service_account_namespace = "access".into();
    });
    assert_eq!(accounts, ["access"]);
    assert_eq!(created, ["linkerd-multicluster", "access"]);
    let (accounts, created) = of(|values| {
        values.remote_mirror_service_account_name = vec!["peer".into()];
    });
    assert_eq!(accounts, ["linkerd-multicluster"]);
    assert_eq!(created, ["linkerd-multicluster"]);
}

#[test]
fn revoke_names_all_objects_of_allow_except_the_namespace() {
    let manifest = revoke("mc", &["reader".to_owned()]).unwrap();
    insta::assert_snapshot!(manifest.to_json().unwrap(), @r#"
    {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"reader"}}
    {"apiVersion":"v1","kind":"Secret","metadata":{"name":"reader-bound","namespace":"mc"}}
    {"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"reader","namespace":"mc"}}
    {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"reader"}}
    "#);
}

#[test]
fn another_registry_keeps_the_name_of_the_image() {
    for (before, after) in [
        ("linkerd-mc", "reg.example:5000/l5d/linkerd-mc"),
        ("a.example/b/mc", "reg.example:5000/l5d/mc"),
    ] {
        let mut values = Values::default();
        values.controller.image.name = before.into();
        values.use_registry("reg.example:5000/l5d/");
        assert_eq!(values.controller.image.name, after);
        let images = values.images();
        assert_eq!(images[0], format!("{after}:{VERSION}"));
        assert_eq!(images[1..], ["reg.example:5000/l5d/pause:3.2"]);
        values.gateway.enabled = false;
        assert_eq!(values.images().len(), 1);
    }
}

#[test]
fn a_service_without_node_ports_gets_none() {
    let manifest = rendered(|values| {
        values.gateway.service_type = "ClusterIP".into();
        values.gateway.node_port = Some(30143);
        values.gateway.health_check_node_port = Some(30000);
    });
    let service = find(&manifest, "Service", "linkerd-gateway").unwrap();
    assert!(!service.to_string().to_lowercase().contains("nodeport"));
}

#[test]
fn without_gateway_only_its_objects_are_left_out() {
    let all = rendered(|_| ());
    let without = rendered(|values| values.gateway.enabled = false);
    let gone: Vec<_> = all
        .objects()
        .unwrap()
        .iter()
        .filter(|object| !without.objects().unwrap().contains(object))
        .map(|object| format!("{} {}", object["kind"], object["metadata"]["name"]).replace('"', ""))
        .collect();
    assert_eq!(
        gone,
        [
            "Deployment linkerd-gateway",
            "Service linkerd-gateway",
            "ServiceAccount linkerd-gateway",
            "Server linkerd-gateway",
            "AuthorizationPolicy linkerd-gateway",
            "MeshTLSAuthentication any-meshed",
            "NetworkAuthentication source-cluster",
        ]
    );
}
