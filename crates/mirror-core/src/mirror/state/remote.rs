//! What is known of a target cluster and of its gateway. Plain data.

use std::{net::IpAddr, sync::Arc};

use super::{limit::Omitted, store::Store};
use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        link::LinkStatus,
    },
    mirror::target::Gateway,
};

/// What is known of a target cluster. It exists only once all watches of the cluster have listed.
#[derive(Clone, Debug, Default)]
pub struct RemoteState {
    /// Services, one store per watch. A Service that two selectors match is in two stores.
    pub services: Vec<Store<Service>>,
    /// EndpointSlices of Services in gateway mode, one store per watch.
    pub slices: Vec<Store<EndpointSlice>>,
    /// Services that are omitted because of the limit, by watch. Their absence does not mean that they are deleted.
    pub omitted: Vec<Omitted>,
    /// Services with slices that are omitted because of the limit, by watch of slices.
    pub omitted_slices: Vec<Omitted>,
}

impl RemoteState {
    /// Nothing, from this number of watches of Services, and of slices.
    pub fn of_watches(services: usize, slices: usize) -> Self {
        Self {
            services: vec![Store::remote(); services],
            slices: vec![Store::remote(); slices],
            omitted: vec![Omitted::default(); services],
            omitted_slices: vec![Omitted::default(); slices],
        }
    }

    /// The Service as last seen by any watch.
    pub fn service(&self, namespace: &str, name: &str) -> Option<&Arc<Service>> {
        self.services
            .iter()
            .filter_map(|store| store.get(namespace, name))
            .max_by_key(|service| service.metadata.version())
    }

    /// All Services. A Service that two watches see may be returned twice.
    pub fn services(&self) -> impl Iterator<Item = &Arc<Service>> {
        self.services.iter().flat_map(Store::iter)
    }

    /// Whether a Service that is not known may exist, but have been omitted.
    pub fn may_omit(&self, namespace: &str, name: &str) -> bool {
        self.omitted.iter().any(|left| !left.is_complete()) || self.omits(namespace, name)
    }

    /// Whether a Service that is not known exists, but was omitted.
    pub fn omits(&self, namespace: &str, name: &str) -> bool {
        is_named(&self.omitted, namespace, name)
    }

    /// Whether a Service may have slices that were omitted. Then the absence of endpoints means nothing.
    pub fn omits_slices_of(&self, namespace: &str, service: &str) -> bool {
        self.omitted_slices.iter().any(|left| !left.is_complete())
            || is_named(&self.omitted_slices, namespace, service)
    }

    /// The slices of a Service, each once, even if two watches see it.
    pub fn slices_of<'a>(
        &'a self,
        namespace: &'a str,
        service: &'a str,
    ) -> impl Iterator<Item = &'a EndpointSlice> {
        let stores = self.slices.iter().enumerate();
        stores.flat_map(move |(index, store)| {
            let seen = move |slice: &&Arc<EndpointSlice>| {
                let mut earlier = self.slices[..index].iter();
                earlier.any(|store| store.get(namespace, slice.metadata.name()).is_some())
            };
            let found = store.in_group(namespace, service).iter();
            found.filter(move |slice| !seen(slice)).map(AsRef::as_ref)
        })
    }

    /// Whether a Service has endpoints that take traffic; `None` if that is not known.
    ///
    /// Kubernetes keeps at least one slice for each Service with a selector, so nothing is known until one is seen. The
    /// slices of a Service without a selector are created by people, and are seen only if they have the label that the
    /// Link selects. As long as none is seen, the Service counts as having endpoints.
    pub(crate) fn is_backed(&self, service: &Service) -> Option<bool> {
        let (namespace, name) = (service.metadata.namespace(), service.metadata.name());
        let mut slices = self.slices_of(namespace, name).peekable();
        let none = slices.peek().is_none();
        if any_ready(slices) {
            Some(true)
        } else if self.omits_slices_of(namespace, name) {
            None
        } else if none {
            service.spec.selector.is_empty().then_some(true)
        } else {
            Some(false)
        }
    }
}

fn is_named(left: &[Omitted], namespace: &str, name: &str) -> bool {
    let id = || (namespace.to_owned(), name.to_owned());
    left.iter().any(|left| !left.is_empty()) && left.iter().any(|left| left.names(&id()))
}

/// What is known of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewayState {
    /// Addresses, sorted, as they were resolved; `None` while unresolved.
    /// [`State::gateway_addresses`](crate::mirror::State::gateway_addresses) says which are used.
    pub addresses: Option<Vec<IpAddr>>,
    /// Whether it answers probes.
    pub liveness: Liveness,
}

impl GatewayState {
    /// Whether the gateway takes traffic. As in Linkerd, one that is not probed counts as alive, whatever an earlier
    /// probe has found.
    pub(crate) fn liveness_of(&self, gateway: &Gateway) -> Liveness {
        if gateway.is_probed() {
            self.liveness
        } else {
            Liveness::Alive
        }
    }
}

/// Whether a gateway answers probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Liveness {
    /// Not probed yet. Existing endpoints keep their readiness, and new ones are ready. Of a gateway that is not probed
    /// at all, this says nothing: see [`GatewayState::liveness_of`].
    #[default]
    Unknown,
    /// It answers probes.
    Alive,
    /// It does not answer probes.
    Dead,
}

impl Liveness {
    /// What a Link's status says.
    pub fn recorded(status: Option<&LinkStatus>) -> Self {
        let gateway = status.and_then(|status| status.gateway.as_ref());
        match gateway.and_then(|gateway| gateway.alive) {
            None => Self::Unknown,
            Some(true) => Self::Alive,
            Some(false) => Self::Dead,
        }
    }
}

/// Whether any endpoint of these slices takes traffic.
pub(crate) fn any_ready<'a>(slices: impl IntoIterator<Item = &'a EndpointSlice>) -> bool {
    slices.into_iter().any(|slice| {
        slice
            .endpoints
            .iter()
            .any(|e| e.is_ready() && !e.addresses.is_empty())
    })
}

#[cfg(test)]
mod tests;
