//! Keeps the gateway of this cluster to what is exported: watches exported Services, and writes the namespaces that the
//! gateway's proxy forwards to into its Deployment. Nothing else of the controller depends on it.

mod plan;

use std::future::pending;

use client::{
    ReadError,
    requests::{RequestError, request},
};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    core::PartialObjectMeta,
};
use mirror_core::api::labels::{EXPORTED_ANYHOW, FEDERATED_MEMBERS};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{Instant, sleep_until},
};

pub use self::plan::ExportGateway;
use self::plan::{ExportChange, Forwarding, Next};
use super::{
    lease::Fence,
    trouble::Trouble,
    watch::{ConnectionStatus, Event, EventHandler, Watched, watch},
};

/// Maximum number of changes that wait. Then the watches wait.
const INBOX: usize = 64;

/// Runs until it is dropped. Only the leader writes, so it watches nothing before it is elected.
pub async fn run(client: Client, gateway: ExportGateway, elected: oneshot::Receiver<Fence>) {
    let Ok(fence) = elected.await else {
        return pending().await; // the engine has ended, and says why
    };
    let (outbox, mut inbox) = mpsc::channel(INBOX);
    let mut watches = JoinSet::new();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &gateway.namespace);
    let mut one = Watched::all(deployments.clone());
    one.fields = Some(format!("metadata.name={}", gateway.deployment));
    let handler = Handler::new(
        &outbox,
        "the Deployment of the gateway",
        ExportChange::Gateway,
    );
    watches.spawn(watch(one, handler));
    for (selector, wrap) in [
        (EXPORTED_ANYHOW, ExportChange::Exported as fn(_) -> _),
        (FEDERATED_MEMBERS, ExportChange::Members),
    ] {
        let services = Api::<PartialObjectMeta<Service>>::all(client.clone());
        let handler = Handler::new(&outbox, "exported Services", wrap);
        watches.spawn(watch(Watched::all(services).labels(selector), handler));
    }
    let name = gateway.deployment.clone();
    let mut forwarding = Forwarding::new(gateway, Instant::now());
    let mut trouble = Trouble::new("write what the gateway forwards to");
    loop {
        let until = match forwarding.next(Instant::now()) {
            Next::Rest => None,
            Next::At(time) => Some(time),
            Next::TooLong(bytes) => {
                trouble.set(&format!("the list of namespaces has {bytes} bytes"));
                None
            }
            Next::Write(_) if !fence.holds() => return pending().await, // the process ends
            Next::Write(patch) => {
                let (patch, params) = (Patch::Merge(&patch), PatchParams::default());
                match request(deployments.patch(&name, &params, &patch)).await {
                    Ok(written) => {
                        trouble.clear();
                        tracing::info!(deployment = name, "changed what the gateway forwards to");
                        forwarding.on(ExportChange::Gateway(Event::Apply(written.into())));
                    }
                    Err(RequestError::Status(status)) if status.code == 409 => {
                        forwarding.came_late(Instant::now());
                    }
                    Err(error) => drop(trouble.set(&ReadError::from(error).to_string())),
                }
                continue;
            }
        };
        tokio::select! {
            Some(change) = inbox.recv() => forwarding.on(change),
            () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {}
            _ = watches.join_next() => return,
        }
    }
}

/// Sends the events of one watch, and logs its failures.
struct Handler<T> {
    outbox: mpsc::Sender<ExportChange>,
    wrap: fn(Event<T>) -> ExportChange,
    trouble: Trouble,
}

impl<T> Handler<T> {
    fn new(
        outbox: &mpsc::Sender<ExportChange>,
        what: &str,
        wrap: fn(Event<T>) -> ExportChange,
    ) -> Self {
        let trouble = Trouble::new(format!("watch {what}"));
        Self {
            outbox: outbox.clone(),
            wrap,
            trouble,
        }
    }
}

impl<T: Send + Sync + 'static> EventHandler<T> for Handler<T> {
    async fn on_event(&mut self, change: Event<T>) -> bool {
        self.outbox.send((self.wrap)(change)).await.is_ok()
    }

    async fn on_connection(&mut self, connection: ConnectionStatus) {
        match connection {
            ConnectionStatus::Alive => drop(self.trouble.clear()),
            ConnectionStatus::Lost(loss) => drop(self.trouble.set(&loss.why)),
        }
    }
}
