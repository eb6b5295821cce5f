//! Which clusters ClusterProfiles stand for, and what is run for them.

use kube::{api::DynamicObject, config::ExecConfig};
use links::fleet::profiles::{CredentialPlugin, ProfiledCluster, profiled};
use serde_json::{Value, json};

use crate::cli::fleet::plugins::{of_file, plugin};

fn profile(name: &str, status: &Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "multicluster.x-k8s.io/v1alpha1",
        "kind": "ClusterProfile",
        "metadata": { "name": name, "namespace": "fleet" },
        "spec": { "clusterManager": { "name": "test" } },
        "status": status,
    }))
    .unwrap()
}

fn read(name: &str, status: &Value) -> ProfiledCluster {
    let plugins = ["eks=/bin/eks", "gke=/bin/gke"].map(|text| plugin(text).unwrap());
    profiled(&profile(name, status), &plugins)
}

/// The server and the command for a cluster, or why there are none.
fn access(status: &Value) -> String {
    match read("west", status).kubeconfig {
        Ok(kubeconfig) => {
            let cluster = kubeconfig.clusters[0].cluster.clone().unwrap();
            let user = kubeconfig.auth_infos[0].auth_info.clone().unwrap();
            let command = user.exec.and_then(|exec| exec.command).unwrap();
            format!("{} {command}", cluster.server.unwrap())
        }
        Err(why) => why,
    }
}

#[test]
fn cluster_is_reached_with_the_first_plugin_of_the_flags_that_its_profile_names() {
    let at = |name: &str, server: &str| json!({ "name": name, "cluster": { "server": server } });
    let gke = at("gke", "https://gke.example");
    for (status, expected) in [
        (json!(null), "its profile names no access provider"),
        (json!({}), "its profile names no access provider"),
        (
            json!({ "conditions": null, "accessProviders": null }),
            "its profile names no access provider",
        ),
        (
            json!({ "accessProviders": [gke] }),
            "https://gke.example /bin/gke",
        ),
        (
            json!({ "accessProviders": [gke, at("eks", "https://eks.example")] }),
            "https://eks.example /bin/eks",
        ),
        // The earlier name of the field; the later one wins.
        (
            json!({ "credentialProviders": [gke] }),
            "https://gke.example /bin/gke",
        ),
        (
            json!({ "credentialProviders": [gke], "accessProviders": [at("gke", "https://new.example")] }),
            "https://new.example /bin/gke",
        ),
        (
            json!({ "accessProviders": [at("azure", "https://a"), at("ocm", "https://b")] }),
            "its profile names the access providers azure, ocm; pass --credential-plugin NAME=COMMAND for one of them",
        ),
        (
            json!({ "accessProviders": [{ "name": "gke" }] }),
            "the server of the access provider gke of its profile does not begin with https://",
        ),
        // The credentials would not be encrypted.
        (
            json!({ "accessProviders": [at("gke", "http://gke.example")] }),
            "the server of the access provider gke of its profile does not begin with https://",
        ),
        // Text of others must not move the cursor.
        (
            json!({ "accessProviders": [at("a\u{1b}[2J\nb", "https://a")] }),
            "its profile names the access providers a [2J b; pass --credential-plugin NAME=COMMAND for one of them",
        ),
    ] {
        assert_eq!(access(&status), expected, "{status}");
    }
    let broken = access(&json!({ "accessProviders": "none" }));
    assert!(
        broken.starts_with("its status cannot be read: "),
        "{broken}"
    );
}

#[test]
fn nothing_of_a_profile_is_run_or_read_from_this_machine() {
    let extension = |name: &str, value: Value| json!({ "name": name, "extension": value });
    let status = json!({ "accessProviders": [{
        "name": "eks",
        "execConfig": { "command": "/bin/evil" },
        "cluster": {
            "server": "https://west.example",
            "certificate-authority": "/etc/passwd",
            "certificate-authority-data": "Q0E=",
            "insecure-skip-tls-verify": true,
            "tls-server-name": "west",
            "extensions": [
                extension("client.authentication.k8s.io/exec", json!({ "clusterName": "west" })),
                extension("clusterprofiles.multicluster.x-k8s.io/exec/additional-args", json!(["--evil"])),
                extension("clusterprofiles.multicluster.x-k8s.io/exec/additional-envs", json!({ "LD_PRELOAD": "evil.so" })),
            ],
        },
    }] });
    let kubeconfig = read("west", &status).kubeconfig.unwrap();
    let text = serde_json::to_string(&kubeconfig).unwrap();
    for wrong in [
        "evil",
        "passwd",
        "insecure-skip-tls-verify\":true",
        "additional",
    ] {
        assert!(!text.contains(wrong), "{wrong}: {text}");
    }
    for right in [
        "/bin/eks",
        "Q0E=",
        "clusterName",
        "\"tls-server-name\":\"west\"",
        "Never",
    ] {
        assert!(text.contains(right), "{right}: {text}");
    }
}

#[test]
fn unhealthy_control_planes_are_named() {
    let of = |status: &str, message: &str| {
        let condition = json!({
            "type": "ControlPlaneHealthy", "status": status, "reason": "Probe", "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        read("Prod.West", &json!({ "conditions": [condition] }))
    };
    assert_eq!(of("True", "ok").unhealthy, None);
    assert_eq!(of("False", "down").unhealthy.as_deref(), Some("down"));
    assert_eq!(of("Unknown", "").unhealthy.as_deref(), Some("Probe"));
    let lines = of("False", "down\n\u{1b}[2Jup").unhealthy;
    assert_eq!(lines.as_deref(), Some("down [2Jup"));
    let unknown = read("Prod.West", &json!({}));
    assert_eq!(unknown.unhealthy, None);
    assert_eq!(unknown.name.unwrap().to_string(), "prod-west");
    assert_eq!(
        (unknown.profile.as_str(), unknown.context.as_str()),
        ("fleet/Prod.West", "Prod.West")
    );
    assert!(read("...", &json!({})).name.is_none());
}

#[test]
fn plugins_are_those_of_flags_and_of_a_file() {
    let CredentialPlugin { name, exec } = plugin("eks=/bin/a=b").unwrap();
    assert_eq!(
        (name.as_str(), exec.command.as_deref()),
        ("eks", Some("/bin/a=b"))
    );
    for wrong in ["", "eks", "eks=", "=/bin/eks"] {
        assert!(plugin(wrong).is_err(), "{wrong}");
    }
    let file = r#"{"providers": [{"name": "secretreader", "execConfig": {"apiVersion": "client.authentication.k8s.io/v1",
        "args": null, "command": "./bin/reader", "env": [{"name": "A", "value": "b"}], "provideClusterInfo": true},
        "profileSourcedCLIArgsPolicy": "Ignore"}]}"#;
    let plugins = of_file(file).unwrap();
    let ExecConfig {
        command,
        provide_cluster_info,
        env,
        ..
    } = plugins[0].exec.clone();
    assert_eq!(
        (command.as_deref(), provide_cluster_info),
        (Some("./bin/reader"), true)
    );
    assert_eq!(env.unwrap()[0]["value"], "b");
    for (wrong, why) in [
        ("{}", "it does not have the format of KEP-5339"),
        (
            "{\"providers\": [{\"name\": \"x\", \"exec\": {}}]}",
            "it does not have the format of KEP-5339",
        ),
        (
            "providers: [{name: x, execConfig: {command: y}, profileSourcedCLIArgsPolicy: Append}]",
            "the provider x takes arguments or variables from profiles",
        ),
        (
            "providers: [{name: x, execConfig: {command: y}, profileSourcedEnvVarsPolicy: Replace}]",
            "the provider x takes arguments or variables from profiles",
        ),
    ] {
        assert_eq!(of_file(wrong).unwrap_err().to_string(), why, "{wrong}");
    }
}
