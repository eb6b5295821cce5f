//! Clusters that a hub lists as ClusterProfiles (KEP-4322), and kubeconfigs for them (KEP-5339). Pure.
//!
//! A profile only says where a cluster is, and which credential plugins know it, by name. What is run for a name comes from
//! the command line of the user and from nowhere else: arguments and variables in a profile are not used.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    api::DynamicObject,
    config::{
        AuthInfo, Cluster, Context, ExecConfig, ExecInteractiveMode, Kubeconfig, NamedAuthInfo,
        NamedCluster, NamedContext, NamedExtension,
    },
};
use manifests::link::ClusterName;
use mirror_core::api::text::in_brief;
use serde::Deserialize;

use crate::cluster_name::cluster_name;

/// The condition that says whether the control plane of a cluster is healthy.
const HEALTHY: &str = "ControlPlaneHealthy";
/// The extension that a plugin gets as its configuration. It is data that kube passes on, as from a kubeconfig.
const PLUGIN_CONFIG: &str = "client.authentication.k8s.io/exec";

/// A credential plugin, by the name that profiles have for it.
#[derive(Clone, Debug)]
pub struct CredentialPlugin {
    pub name: String,
    pub exec: ExecConfig,
}

/// A cluster of a profile.
pub struct ProfiledCluster {
    /// Namespace and name of the profile.
    pub profile: String,
    /// The context in the kubeconfig.
    pub context: String,
    /// The name that the cluster gets. `None` if none can be made of the name of the profile.
    pub name: Option<ClusterName>,
    /// What the profile says about the health of its control plane, if that is not good.
    pub unhealthy: Option<String>,
    /// How it is reached, or why it cannot be.
    pub kubeconfig: Result<Kubeconfig, String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ProfileStatus {
    /// Clients in Go write null for none.
    conditions: Option<Vec<Condition>>,
    access_providers: Option<Vec<AccessProvider>>,
    /// What `accessProviders` was called before.
    credential_providers: Option<Vec<AccessProvider>>,
}

#[derive(Deserialize)]
struct AccessProvider {
    name: String,
    #[serde(default)]
    cluster: Cluster,
}

/// The cluster of a profile, reached with the first of the plugins that the profile names.
pub fn profiled(object: &DynamicObject, plugins: &[CredentialPlugin]) -> ProfiledCluster {
    let name = object.metadata.name.clone().unwrap_or_default();
    let namespace = object.metadata.namespace.clone().unwrap_or_default();
    let status = object.data.get("status").cloned().unwrap_or_default();
    let status = serde_json::from_value::<Option<ProfileStatus>>(status);
    let (unhealthy, kubeconfig) = match status {
        Ok(status) => {
            let status = status.unwrap_or_default();
            (
                unhealthy(status.conditions.as_deref().unwrap_or_default()),
                access(&name, status, plugins),
            )
        }
        Err(error) => (
            None,
            Err(in_brief(&format!("its status cannot be read: {error}"))),
        ),
    };
    ProfiledCluster {
        profile: format!("{namespace}/{name}"),
        name: cluster_name(&name),
        context: name,
        unhealthy,
        kubeconfig,
    }
}

/// What the profile says of a control plane that is not healthy.
fn unhealthy(conditions: &[Condition]) -> Option<String> {
    let mut conditions = conditions.iter();
    let condition = conditions.find(|condition| condition.type_ == HEALTHY)?;
    if condition.status == "True" {
        return None;
    }
    let why = [&condition.message, &condition.reason];
    let why = why.into_iter().find(|text| !text.is_empty());
    Some(in_brief(why.unwrap_or(&condition.status)))
}

fn access(
    name: &str,
    status: ProfileStatus,
    plugins: &[CredentialPlugin],
) -> Result<Kubeconfig, String> {
    let ProfileStatus {
        access_providers,
        credential_providers,
        ..
    } = status;
    let mut providers = access_providers.unwrap_or_default();
    providers.extend(credential_providers.unwrap_or_default());
    let chosen = plugins.iter().find_map(|plugin| {
        let provider = providers.iter().find(|of| of.name == plugin.name)?;
        Some((plugin, provider))
    });
    let Some((plugin, provider)) = chosen else {
        let names: Vec<&str> = providers.iter().map(|of| of.name.as_str()).collect();
        return Err(if names.is_empty() {
            "its profile names no access provider".to_owned()
        } else {
            format!(
                "its profile names the access providers {}; pass --credential-plugin NAME=COMMAND for one of them",
                in_brief(&names.join(", "))
            )
        });
    };
    let cluster = &provider.cluster;
    // Without TLS, the credentials could be read on their way.
    let server = cluster.server.as_deref();
    if !server.is_some_and(|server| server.starts_with("https://")) {
        return Err(format!(
            "the server of the access provider {} of its profile does not begin with https://",
            provider.name
        ));
    }
    let extensions = cluster.extensions.clone().unwrap_or_default().into_iter();
    let extensions = extensions.filter(|of: &NamedExtension| of.name == PLUGIN_CONFIG);
    // Neither a file of this machine, nor a connection without verified TLS.
    let cluster = Cluster {
        server: cluster.server.clone(),
        certificate_authority_data: cluster.certificate_authority_data.clone(),
        tls_server_name: cluster.tls_server_name.clone(),
        proxy_url: cluster.proxy_url.clone(),
        extensions: Some(extensions.collect()),
        ..Cluster::default()
    };
    Ok(kubeconfig(name, cluster, plugin))
}

/// A kubeconfig with one context.
fn kubeconfig(name: &str, cluster: Cluster, plugin: &CredentialPlugin) -> Kubeconfig {
    let exec = ExecConfig {
        interactive_mode: Some(ExecInteractiveMode::Never),
        ..plugin.exec.clone()
    };
    let context = Context {
        cluster: name.to_owned(),
        user: Some(name.to_owned()),
        ..Context::default()
    };
    Kubeconfig {
        clusters: vec![NamedCluster {
            name: name.to_owned(),
            cluster: Some(cluster),
            other: BTreeMap::default(),
        }],
        auth_infos: vec![NamedAuthInfo {
            name: name.to_owned(),
            auth_info: Some(AuthInfo {
                exec: Some(exec),
                ..AuthInfo::default()
            }),
            other: BTreeMap::default(),
        }],
        contexts: vec![NamedContext {
            name: name.to_owned(),
            context: Some(context),
            other: BTreeMap::default(),
        }],
        current_context: Some(name.to_owned()),
        ..Kubeconfig::default()
    }
}
