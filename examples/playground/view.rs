//! The Services and EndpointSlices in `west`, as watches report them.

use std::{collections::BTreeMap, pin::pin};

use futures::StreamExt as _;
use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kube::{
    Api, Client, ResourceExt as _,
    runtime::{WatchStreamExt as _, watcher},
};
use linkerd_mc::api::labels;
use tokio::sync::watch;

use crate::clusters::SHOP;

/// Services and slices of the sample application's namespace, by name. Nothing is removed, because the playground waits
/// only for new objects.
#[derive(Debug, Default)]
pub(crate) struct View {
    services: BTreeMap<String, Service>,
    slices: BTreeMap<String, EndpointSlice>,
}

impl View {
    /// Starts the watches, which live as long as the runtime.
    pub(crate) fn watch(client: Client) -> watch::Receiver<Self> {
        let (sender, receiver) = watch::channel(Self::default());
        let services = watcher(
            Api::<Service>::namespaced(client.clone(), SHOP),
            watcher::Config::default(),
        );
        let slices = watcher(
            Api::<EndpointSlice>::namespaced(client, SHOP),
            watcher::Config::default(),
        );
        tokio::spawn(async move {
            let mut services = pin!(services.default_backoff().applied_objects());
            let mut slices = pin!(slices.default_backoff().applied_objects());
            // After an error, the watch retries by itself.
            loop {
                tokio::select! {
                    Some(service) = services.next() => if let Ok(service) = service {
                        sender.send_modify(|view| drop(view.services.insert(service.name_any(), service)));
                    },
                    Some(slice) = slices.next() => if let Ok(slice) = slice {
                        sender.send_modify(|view| drop(view.slices.insert(slice.name_any(), slice)));
                    },
                    else => break,
                }
            }
        });
        receiver
    }

    pub(crate) fn service(&self, name: &str) -> Option<&Service> {
        self.services.get(name)
    }

    pub(crate) fn slices_of(&self, service: &str) -> impl Iterator<Item = &EndpointSlice> {
        self.slices.values().filter(move |slice| {
            slice
                .labels()
                .get(labels::SLICE_SERVICE)
                .is_some_and(|name| name == service)
        })
    }
}
