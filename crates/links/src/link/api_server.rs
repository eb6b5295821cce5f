//! How the source cluster will reach the API server of the target cluster: at an address, through a proxy, or through
//! the target's gateway for it.

use std::{num::NonZeroU16, time::Duration};

use anyhow::Context as _;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use client::{Cluster, from_credentials, requests::explain};
use hints::{
    console::Console,
    hint::{HintExt as _, fail},
};
use k8s_openapi::api::{
    core::v1::{ConfigMap, Service},
    discovery::v1::EndpointSlice,
};
use kube::api::ListParams;
use manifests::{
    gateway::{load_balancer_addresses, port_for_others},
    kubeconfig::{ClusterEntry, KubeconfigContext, Secret, is_local_address},
    link::{ApiServerAccess, ClusterName},
};
use mirror_core::{
    api::{labels, names::MAX_LABEL},
    mirror::{API_SERVER_PORT, API_SERVER_SERVICE, ApiGatewaySettings, GatewayService},
};

use crate::link::{flags::LinkArgs, remark::Remark};

/// A name in the certificates of API servers, and of the Service that leads to them in their own cluster. See
/// <https://kubernetes.io/docs/setup/best-practices/certificates/>.
const CERTIFICATE_NAME: &str = "kubernetes.default.svc";
/// `ConfigMap` in each namespace with the certificates that Pods trust for the API server. See
/// <https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/>.
const ROOT_AUTHORITY: &str = "kube-root-ca.crt";
/// Time for one request that tries the certificate.
const TRY: Duration = Duration::from_secs(10);

/// The target cluster as the source cluster reaches it.
pub enum Way {
    /// At its address.
    Direct(KubeconfigContext),
    /// The controller through a gateway, and Linkerd's control plane too, or at an address of its own, or not at all.
    ThroughGateway {
        way: ApiGatewaySettings,
        through: KubeconfigContext,
        own: Option<Box<(String, KubeconfigContext)>>,
    },
}

/// What is only known inside the target cluster, for links that reach its API server through the gateway. Empty for others.
#[derive(Clone, Debug, Default)]
pub struct ApiServerFacts {
    /// Certificates that Pods trust, in base64, if the user may read them.
    pub authority: Option<String>,
    /// The gateway that leads to the API server, if the link needs it.
    pub gateway: Option<ApiGatewaySettings>,
}

impl ApiServerFacts {
    /// Reads them.
    pub async fn read(cluster: &Cluster, args: &LinkArgs) -> anyhow::Result<Self> {
        if !args.api_server_through_gateway {
            return Ok(Self::default());
        }
        Ok(Self {
            authority: root_authority(cluster, args).await?,
            gateway: Some(gateway(cluster, args).await?),
        })
    }
}

impl Way {
    /// The way of a link to `name`, the cluster of `context` in the user's kubeconfig. Fails if a connection would not be
    /// secure, unless that is allowed.
    pub fn of(
        context: &KubeconfigContext,
        facts: &ApiServerFacts,
        name: &ClusterName,
        args: &LinkArgs,
        remarks: &mut Vec<Remark>,
    ) -> anyhow::Result<Self> {
        if !args.api_server_through_gateway {
            return Ok(Self::Direct(direct(context.clone(), args, remarks)?));
        }
        let through = through_gateway(context, facts.authority.as_deref(), name, args)?;
        let way = facts.gateway.clone();
        let mut way = way.context("nothing is known of the gateway for the API server")?;
        way.discovery = args.discovery_through_gateway;
        let own = match &args.api_server_address {
            Some(at) => Some(Box::new((
                at.clone(),
                direct(context.clone(), args, remarks)?,
            ))),
            None => None,
        };
        Ok(Self::ThroughGateway { way, through, own })
    }

    /// The kubeconfigs for it.
    pub fn access(
        &self,
        user: &str,
        token: &Secret,
        remarks: &mut Vec<Remark>,
    ) -> anyhow::Result<ApiServerAccess> {
        match self {
            Self::Direct(both) => {
                remarks.extend(local(both));
                Ok(ApiServerAccess::Direct(both.kubeconfig(user, token)?))
            }
            Self::ThroughGateway { way, through, own } => {
                remarks.push(Remark::Note(format!(
                    "the controller reaches the API server through a gateway, so its Pod must be meshed, and must not skip \
                     the outbound port {API_SERVER_PORT}"
                )));
                let own = match own.as_deref() {
                    Some((at, own)) => {
                        remarks.extend(local(own));
                        Some((at.clone(), own.kubeconfig(user, token)?))
                    }
                    None => None,
                };
                Ok(ApiServerAccess::ThroughGateway {
                    way: way.clone(),
                    through: through.kubeconfig(user, token)?,
                    own,
                })
            }
        }
    }

    /// Tries the certificate that the controller will see through the gateway. `context` is the user's own way.
    pub async fn check(
        &self,
        context: &KubeconfigContext,
        user: &str,
        token: &Secret,
        console: &dyn Console,
    ) -> anyhow::Result<()> {
        match self {
            Self::Direct(_) => Ok(()),
            Self::ThroughGateway { through, .. } => {
                try_certificate(context, through, user, token, console).await
            }
        }
    }
}

fn local(context: &KubeconfigContext) -> Option<Remark> {
    let server = &context.cluster.server;
    is_local_address(server).then(|| Remark::LocalAddress(server.clone()))
}

/// The target cluster at its address. Fails if the connection would not be secure, unless that is allowed.
fn direct(
    mut context: KubeconfigContext,
    args: &LinkArgs,
    remarks: &mut Vec<Remark>,
) -> anyhow::Result<KubeconfigContext> {
    if let Some(address) = &args.api_server_address {
        context.cluster.server.clone_from(address);
    }
    if let Some(proxy) = &args.proxy_url {
        context.cluster.proxy_url = proxy.url().map(str::to_owned);
    }
    match context.cluster.insecure_tls() {
        Some(insecure) if !args.insecure_target_tls => Err(fail(
            insecure.what(),
            format!(
                "{}; or pass --insecure-target-tls to link anyway",
                insecure.remedy()
            ),
        )),
        Some(insecure) => {
            remarks.push(Remark::Warning(format!(
                "{}: {}; `check` fails for this link",
                insecure.what(),
                insecure.danger()
            )));
            Ok(context)
        }
        None => Ok(context),
    }
}

/// The name of a Service that the controller will create for the link.
fn service_name(service: GatewayService, cluster: &ClusterName) -> anyhow::Result<String> {
    let name = service.name(&cluster.to_string());
    if name.len() <= MAX_LABEL {
        return Ok(name);
    }
    let most = MAX_LABEL - (name.len() - cluster.to_string().len());
    Err(fail(
        format!("the name of the cluster is too long for the Service {name}"),
        format!("pass a --cluster-name of at most {most} characters"),
    ))
}

/// The target cluster as it is reached through a gateway: at a Service of its own cluster, which the
/// controller creates from the Link. TLS goes from end to end.
fn through_gateway(
    context: &KubeconfigContext,
    authority: Option<&str>,
    name: &ClusterName,
    args: &LinkArgs,
) -> anyhow::Result<KubeconfigContext> {
    let known = context.cluster.certificate_authority_data.clone();
    let Some(authority) = authority.map(str::to_owned).or(known) else {
        return Err(fail(
            format!("cannot find the certificate authority of {}", context.name),
            format!(
                "make the ConfigMap {}/{ROOT_AUTHORITY} readable, or add certificate-authority-data to the kubeconfig",
                args.namespace
            ),
        ));
    };
    let service = service_name(GatewayService::ApiServer, name)?;
    let mut through = context.clone();
    through.cluster = ClusterEntry {
        server: format!("https://{service}.{}.svc:{API_SERVER_PORT}", args.namespace),
        certificate_authority_data: Some(authority),
        insecure_skip_tls_verify: None,
        tls_server_name: Some(CERTIFICATE_NAME.to_owned()),
        proxy_url: None,
    };
    Ok(through)
}

/// The gateway of the target cluster that leads to its API server. Fails if there is none, or if it leads elsewhere.
async fn gateway(cluster: &Cluster, args: &LinkArgs) -> anyhow::Result<ApiGatewaySettings> {
    let (namespace, name) = (&args.gateway_namespace, labels::API_GATEWAY_NAME);
    let own = cluster.api::<Service>("default");
    let own = cluster
        .request("read the Service kubernetes", own.get("kubernetes"))
        .await?;
    let own = own.spec.and_then(|spec| spec.cluster_ip);
    let own = own.unwrap_or_default();
    let services = cluster.api::<Service>(namespace);
    let service = cluster
        .request(
            "read the gateway for the API server",
            services.get_opt(name),
        )
        .await?;
    let leads_there = is_served(cluster, namespace, &own).await?;
    let Some(service) = service.filter(|_| leads_there) else {
        return Err(fail(
            format!(
                "the target cluster has no gateway {namespace}/{name} for its API server at {own}"
            ),
            format!(
                "set apiGateway.apiServerAddress={own} in the values of `install` there, and apply what it prints"
            ),
        ));
    };
    let spec = service.spec.as_ref();
    let is_at_nodes = spec.is_some_and(|spec| spec.type_.as_deref() == Some("NodePort"));
    let addresses = if is_at_nodes {
        args.set_addresses()
    } else {
        load_balancer_addresses(&service)
    };
    if addresses.is_empty() {
        return Err(fail(
            format!("the gateway {namespace}/{name} has no address"),
            "wait until its load balancer has one; for a Service of type NodePort, pass addresses of nodes with \
             --gateway-addresses",
        ));
    }
    let port = port_for_others(&service, labels::GATEWAY_PORT_NAME).and_then(NonZeroU16::new);
    let annotations = service.metadata.annotations.unwrap_or_default();
    let identity = annotations.get(labels::GATEWAY_IDENTITY);
    let Some((port, identity)) = port.zip(identity) else {
        return Err(fail(
            format!("the Service {namespace}/{name} is not that of a gateway"),
            format!("install the gateway with {}", cluster.flags.install()),
        ));
    };
    Ok(ApiGatewaySettings {
        addresses,
        port,
        identity: identity.clone(),
        service: format!("{namespace}/{API_SERVER_SERVICE}"),
        discovery: false,
    })
}

/// Whether the Service to which the gateway forwards leads to this address of the API server.
async fn is_served(cluster: &Cluster, namespace: &str, address: &str) -> anyhow::Result<bool> {
    let slices = cluster.api::<EndpointSlice>(namespace);
    let of_service =
        ListParams::default().labels(&format!("{}={API_SERVER_SERVICE}", labels::SLICE_SERVICE));
    let slices = cluster
        .request(
            "list the EndpointSlices of the gateway",
            slices.list(&of_service),
        )
        .await?
        .items;
    let endpoints = slices.iter().flat_map(|slice| &slice.endpoints);
    let mut addresses = endpoints.flat_map(|endpoint| &endpoint.addresses);
    Ok(addresses.any(|found| found == address))
}

/// The certificates that Pods of the target cluster trust, in base64. The user's kubeconfig may have those of a load
/// balancer. `None` if there are none that the user may read.
async fn root_authority(cluster: &Cluster, args: &LinkArgs) -> anyhow::Result<Option<String>> {
    let maps = cluster.api::<ConfigMap>(&args.namespace);
    let read = async {
        match maps.get_opt(ROOT_AUTHORITY).await {
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(None),
            answer => answer,
        }
    };
    let map = cluster
        .request("read the certificate authority", read)
        .await?;
    let data = map.and_then(|map| map.data?.remove("ca.crt"));
    Ok(data.map(|pem| BASE64_STANDARD.encode(pem)))
}

/// Connects as the controller will, except for the way. Fails if the certificate of the API server cannot be verified
/// by its name in the target cluster; warns if something on the user's own way may be the reason.
async fn try_certificate(
    context: &KubeconfigContext,
    through: &KubeconfigContext,
    user: &str,
    token: &Secret,
    console: &dyn Console,
) -> anyhow::Result<()> {
    let mut tried = through.clone();
    tried.cluster.server.clone_from(&context.cluster.server);
    tried
        .cluster
        .proxy_url
        .clone_from(&context.cluster.proxy_url);
    let (user_trusts, pods_trust) = [context, through]
        .map(|of| of.cluster.certificate_authority_data.as_ref())
        .into();
    let kubeconfig = tried.kubeconfig(user, token)?;
    let client = from_credentials(kubeconfig.expose().as_bytes(), TRY)
        .await
        .hint(
            || "cannot use the certificate authority of the API server".to_owned(),
            || format!("check the ConfigMap {ROOT_AUTHORITY} of the target cluster"),
        )?;
    let why = match client.apiserver_version().await {
        Ok(_) | Err(kube::Error::Api(_)) => return Ok(()),
        Err(error) => explain(&error),
    };
    let what = format!(
        "the certificate of the API server cannot be verified as {CERTIFICATE_NAME}: {why}"
    );
    if user_trusts == pods_trust {
        return Err(fail(
            what,
            format!(
                "issue a certificate with the name {CERTIFICATE_NAME}, or link without --api-server-through-gateway"
            ),
        ));
    }
    console.warning(&format!(
        "{what}; a load balancer on the way of this kubeconfig may be the reason, and the controller does not take this way"
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use hints::hint::hint_of;

    use super::*;

    #[test]
    fn cluster_name_that_leaves_no_room_for_a_service_is_refused() {
        let named = |length| {
            service_name(
                GatewayService::ApiServer,
                &"e".repeat(length).parse().unwrap(),
            )
        };
        assert_eq!(named(59).unwrap().len(), MAX_LABEL);
        let error = named(60).unwrap_err();
        let hint = "pass a --cluster-name of at most 59 characters";
        assert_eq!(hint_of(&error), Some(hint));
    }
}
