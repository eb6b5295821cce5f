//! The writes that create or update a Service and its slices, and that create their namespace.

use std::sync::Arc;

use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        labels as l,
    },
    mirror::{
        desired::{
            endpoints::{self, DesiredSlice},
            service::{self, Desired},
        },
        metadata::is_managed,
        outcome::{Problem, Reason},
        state::{State, namespaces::NamespacePhase},
        write::{Object, Write},
    },
};

/// Makes sure that the namespace accepts objects. A namespace that is created counts for the first of these clusters
/// that is below its limit.
pub(crate) fn ensure_namespace<'a>(
    state: &State,
    namespace: &str,
    clusters: impl IntoIterator<Item = &'a str>,
    writes: &mut Vec<Write>,
) -> Result<(), Problem> {
    let max = state.config.max_namespaces;
    match state.namespace(namespace).map(|known| known.phase) {
        Some(NamespacePhase::Active) => Ok(()),
        None if max > 0 => {
            let mut clusters = clusters.into_iter();
            let cluster = clusters.find(|cluster| state.may_create_namespace(cluster, 0));
            let cluster = cluster.ok_or_else(|| {
                let message = format!(
                    "namespace {namespace} does not exist, and the Link's limit of {max} created namespaces is reached"
                );
                Problem::new(Reason::LimitExceeded, message)
            })?;
            let labels = [(l::MIRRORED_SERVICE, "true"), (l::CLUSTER_NAME, cluster)];
            writes.push(Write::Create(Object::Namespace {
                name: namespace.to_owned(),
                labels: labels.into(),
            }));
            Ok(())
        }
        None | Some(NamespacePhase::Terminating) => Err(Problem::new(
            Reason::MissingNamespace,
            "Namespace does not exist",
        )),
    }
}

/// The writes that create or update a Service and its slices. `None` for the slices: leave them as they are.
///
/// A mirror of Linkerd's own service mirror is adopted. Its Endpoints are deleted once our slices exist. Only then is
/// the Service marked as ours, so that an interrupted adoption is resumed. Without slices to replace them, the
/// Endpoints stay.
pub(crate) fn reconcile_service(
    state: &State,
    desired: &Desired<'_>,
    slices: Option<Vec<DesiredSlice<'_>>>,
    actual_slices: &[Arc<EndpointSlice>],
    cluster: &str,
    writes: &mut Vec<Write>,
) {
    let actual = state.existing(desired.namespace, desired.name);
    let adopts = slices.is_some();
    let reconcile = |writes: &mut Vec<Write>| match slices {
        Some(slices) => endpoints::reconcile(state, slices, actual_slices, writes),
        None => endpoints::keep(state, actual_slices, writes),
    };
    match actual {
        None => {
            writes.push(desired.create());
            reconcile(writes);
        }
        Some(actual) if is_managed(&actual.metadata) => {
            // Slices first: when Linkerd sees the new mode, the endpoints already exist.
            reconcile(writes);
            writes.extend(service::patch(desired, actual));
        }
        Some(actual) if adopts => {
            reconcile(writes);
            writes.push(retire_endpoints(actual, cluster));
            writes.extend(service::patch(desired, actual));
        }
        Some(actual) => {
            let mut desired = desired.clone();
            desired.metadata.unsign();
            writes.extend(service::patch(&desired, actual));
        }
    }
}

/// Deletes the Endpoints that Linkerd's service mirror made for a Service.
pub(crate) fn retire_endpoints(service: &Service, cluster: &str) -> Write {
    Write::RetireEndpoints {
        namespace: service.metadata.namespace().to_owned(),
        name: service.metadata.name().to_owned(),
        cluster: cluster.to_owned(),
    }
}
