//! The objects of `install` for one cluster, with what is read of it.

use std::time::Duration;

use client::{Access, Cluster};
use hints::{hint::misuse, suggest::ClusterFlags};
use manifests::{
    install::{install, install_without_policies},
    render::Manifest,
    values::{UserValues, Values},
};
use mirror_core::api::gateway_suffixes::ADDITIONAL_ENV;
use mirror_core::api::link::{LinkerdConfig, NO_ENDPOINT_SLICES};
use observe::clusters::{collect_full::own_routes, own_routes::OwnRoute};

use crate::{inventory::ADMISSION_POLICY, linkerd::linkerd_config, poll::poll};

/// Poll interval while waiting for Linkerd.
const RETRY: Duration = Duration::from_secs(2);

const NO_POLICIES: &str = "the cluster does not support ValidatingAdmissionPolicy (Kubernetes 1.30 or later), so only \
    RBAC restricts what the controller may write; install again after upgrading the cluster";

/// What a cluster says before the objects for it are rendered.
pub struct InstallFacts {
    /// Flags with which commands use the cluster.
    pub flags: ClusterFlags,
    pub config: LinkerdConfig,
    pub has_policies: bool,
    /// The routes that controllers have written, as far as the user may see them.
    pub routes: Vec<OwnRoute>,
}

impl InstallFacts {
    /// Asks the cluster. Waits until Linkerd is installed, but not longer than `wait`.
    pub async fn of(access: &Access, linkerd: &str, wait: Duration) -> anyhow::Result<Self> {
        let cluster = Cluster::connect(access).await?;
        let attempt = async || anyhow::Ok(linkerd_config(&cluster, linkerd).await);
        let waits = |error: &anyhow::Error| {
            cluster
                .console
                .note(&format!("waiting for Linkerd: {error}"));
        };
        let config = poll(RETRY, wait, attempt, waits).await??;
        Self::read(&cluster, config).await
    }

    /// Asks a cluster with this configuration of Linkerd for the rest.
    pub async fn read(cluster: &Cluster, config: LinkerdConfig) -> anyhow::Result<Self> {
        Ok(Self {
            flags: cluster.flags.clone(),
            config,
            has_policies: ADMISSION_POLICY.is_served(cluster).await?,
            routes: own_routes(&cluster.client).await.unwrap_or_default(),
        })
    }
}

/// The objects of the extension for one cluster, and what the user has to know about them.
pub struct ExtensionObjects {
    pub manifest: Manifest,
    pub warnings: Vec<String>,
}

impl ExtensionObjects {
    /// The objects for a cluster of a fleet: those of its file's values over the defaults.
    pub fn of_fleet(
        linkerd: &str,
        namespace: &str,
        given: &UserValues,
        facts: &InstallFacts,
    ) -> anyhow::Result<Self> {
        let mut base = Values {
            linkerd_namespace: linkerd.to_owned(),
            ..Values::default()
        };
        base.take_domains(&facts.config);
        let (values, warnings) = given.clone().over(&base)?;
        Self::of(namespace, values, Some(facts), warnings)
    }

    /// The objects with these values. `facts` is what the cluster says, if it was asked.
    pub fn of(
        namespace: &str,
        mut values: Values,
        facts: Option<&InstallFacts>,
        mut warnings: Vec<String>,
    ) -> anyhow::Result<Self> {
        let config = facts.map(|facts| &facts.config);
        // A values file cannot turn off the CNI mode of the cluster.
        values.cni_enabled |= config.is_some_and(|config| config.cni_enabled);
        refuse_mistakes(namespace, &values)?;
        if let Some(facts) = facts.filter(|facts| !facts.config.reads_endpoint_slices()) {
            let upgrade = facts.flags.read_endpoint_slices();
            warnings.push(format!("{NO_ENDPOINT_SLICES}; turn it on with {upgrade}"));
        }
        let routes = facts.map_or(&[][..], |facts| &facts.routes);
        warnings.extend(left_routes(namespace, &values, routes));
        let has_policies = facts.is_none_or(|facts| facts.has_policies);
        let manifest = if values.controller.admission_policy && !has_policies {
            warnings.push(NO_POLICIES.to_owned());
            install_without_policies(namespace, &values)?
        } else {
            install(namespace, &values)?
        };
        Ok(Self { manifest, warnings })
    }
}

/// A warning if the controller will delete routes that it has written, because it writes none with these values.
fn left_routes(namespace: &str, values: &Values, routes: &[OwnRoute]) -> Option<String> {
    let own = |route: &&OwnRoute| ["", namespace].contains(&route.installation.as_str());
    let left: Vec<&OwnRoute> = routes.iter().filter(own).collect();
    let first = left.first().filter(|_| !values.federation.routes)?;
    let more = match left.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "federation.routes is off, and routes are left of the time when it was on: {}{more}; the controller deletes them, \
         and requests go to all members again; to keep them, set federation.routes to true",
        first.path()
    ))
}

/// Fails for values that can only be a mistake.
fn refuse_mistakes(namespace: &str, values: &Values) -> anyhow::Result<()> {
    if namespace == values.linkerd_namespace {
        return Err(misuse(
            format!("{namespace:?} is Linkerd's namespace"),
            "install into another one: `uninstall` prints the namespace of the extension for deletion",
        ));
    }
    let gateway = &values.gateway;
    if gateway.enabled && gateway.port == gateway.probe.port {
        return Err(misuse(
            format!(
                "the gateway has port {} for traffic and for probes",
                gateway.port
            ),
            "set gateway.port or gateway.probe.port to another one",
        ));
    }
    if gateway.is_limited() && gateway.deployment_annotations.contains_key(ADDITIONAL_ENV) {
        return Err(misuse(
            format!(
                "with gateway.forward={}, the controller writes the annotation {ADDITIONAL_ENV}",
                gateway.forward
            ),
            "remove it from gateway.deploymentAnnotations",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use observe::clusters::fixtures::route;

    use super::*;

    #[test]
    fn limited_gateway_is_refused_with_variables_of_others() {
        let refused = |change: fn(&mut Values)| {
            let mut values = Values::default();
            values.gateway.forward = "exported".to_owned();
            change(&mut values);
            refuse_mistakes("mc", &values)
                .err()
                .map(|error| error.to_string())
        };
        assert_eq!(refused(|_| ()), None);
        let address =
            |values: &mut Values| values.api_gateway.api_server_address = "10.0.0.1".into();
        assert_eq!(refused(address), None);
        let why = refused(|values| {
            let annotations = &mut values.gateway.deployment_annotations;
            annotations.insert(ADDITIONAL_ENV.to_owned(), "[]".to_owned());
        });
        let why = why.unwrap();
        assert!(
            why.contains("the controller writes the annotation"),
            "{why}"
        );
    }

    #[test]
    fn routes_that_are_left_are_named_if_none_are_written_any_more() {
        let routes = ["a-federated-80", "b-federated-80"].map(route);
        let mut values = Values::default();
        let said = |values: &Values, namespace, routes: &[OwnRoute]| {
            left_routes(namespace, values, routes)
        };
        let namespace = "linkerd-multicluster";
        let both = said(&values, namespace, &routes).unwrap();
        assert!(
            both.contains("HTTPRoute shop/a-federated-80 and 1 more; the"),
            "{both}"
        );
        let one = said(&values, namespace, &routes[1..]).unwrap();
        assert!(one.contains("HTTPRoute shop/b-federated-80; the"), "{one}");
        assert_eq!(said(&values, namespace, &[]), None);
        assert_eq!(said(&values, "other", &routes), None);
        values.federation.routes = true;
        assert_eq!(said(&values, namespace, &routes), None);
    }
}
