//! Keeps the gateway of this cluster to what is exported: watches exported Services, and writes the namespaces that the
//! gateway's proxy forwards to into its Deployment. If only exported Services are permitted, it also writes routes with
//! their names, and who may use these. Nothing else of the controller depends on it.

mod permits;
mod plan;

use std::{future::pending, time::Duration};

use client::{
    ReadError,
    requests::{RequestError, request},
};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    core::DynamicObject,
};
use mirror_core::api::{
    k8s::Service,
    labels::{EXPORTED_ANYHOW, FEDERATED_MEMBERS},
    wire::Wire,
};
use serde_json::json;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{Instant, sleep_until},
};

pub use self::plan::ExportGateway;
use self::{
    permits::{NextPermits, Permits, PolicyKind, PolicyWrite},
    plan::{ExportChange, Forwarding, Next},
};
use super::{
    lease::Fence,
    trouble::Trouble,
    watch::{ConnectionStatus, Event, EventHandler, Watched, watch},
};

/// Maximum number of changes that wait. Then the watches wait.
const INBOX: usize = 64;
/// Time until the next write of a policy after one that failed.
const RETRY: Duration = Duration::from_secs(5);

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
    let changed = |of| GatewayChange::Exports(ExportChange::Gateway(of));
    let handler = Handler::new(&outbox, "the Deployment of the gateway", changed);
    watches.spawn(watch(one, handler));
    for (selector, wrap) in [
        (EXPORTED_ANYHOW, ExportChange::Exported as fn(_) -> _),
        (FEDERATED_MEMBERS, ExportChange::Members),
    ] {
        let services = Api::<Wire<Service>>::all(client.clone());
        let changed = move |of| GatewayChange::Exports(wrap(of));
        let handler = Handler::new(&outbox, "exported Services", changed);
        watches.spawn(watch(Watched::all(services).labels(selector), handler));
    }
    let policies = Policies {
        client,
        namespace: gateway.namespace.clone(),
    };
    for kind in PolicyKind::ALL {
        let mut objects = Watched::all(policies.api(kind));
        (objects.labels, objects.fields) = kind.selectors();
        let changed = move |of| GatewayChange::Policy(kind, of);
        let handler = Handler::new(&outbox, "the policy of the gateway", changed);
        watches.spawn(watch(objects, handler));
    }
    let name = gateway.deployment.clone();
    let mut permits = Permits::new(gateway.clone());
    let mut forwarding = Forwarding::new(gateway, Instant::now());
    let mut trouble = Trouble::new("write what the gateway forwards to");
    let mut refused = Trouble::new("write the policy of the gateway");
    let mut again = Instant::now();
    loop {
        let now = Instant::now();
        let next = forwarding.next(now);
        let mut until = match next {
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
        match permits.next(forwarding.services().as_ref(), now) {
            NextPermits::Rest => {}
            NextPermits::At(time) => until = Some(until.map_or(time, |other| other.min(time))),
            NextPermits::Write(_) if again > now => {
                until = Some(until.map_or(again, |other| other.min(again)));
            }
            NextPermits::Write(writes) => {
                tracing::info!(objects = writes.len(), "changing the policy of the gateway");
                for write in writes {
                    if !fence.holds() {
                        return pending().await; // the process ends
                    }
                    if let Err(why) = policies.write(write, &mut permits).await {
                        refused.set(&why);
                        again = Instant::now() + RETRY;
                        break;
                    }
                    refused.clear();
                }
                continue;
            }
        }
        let change = tokio::select! {
            Some(change) = inbox.recv() => Some(change),
            () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => None,
            _ = watches.join_next() => return,
        };
        // What has arrived meanwhile is handled at once: each look at it considers all exports.
        let more = std::iter::from_fn(|| inbox.try_recv().ok());
        for change in change.into_iter().chain(more) {
            match change {
                GatewayChange::Exports(change) => forwarding.on(change),
                GatewayChange::Policy(kind, change) => permits.on(kind, &change),
            }
        }
    }
}

/// The objects of Linkerd's policy in the namespace of the gateway.
struct Policies {
    client: Client,
    namespace: String,
}

impl Policies {
    fn api(&self, kind: PolicyKind) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &kind.resource())
    }

    /// Writes one object. On failure, returns the reason.
    async fn write(&self, write: PolicyWrite, permits: &mut Permits) -> Result<(), String> {
        let told = |error: RequestError| ReadError::from(error).to_string();
        match write {
            PolicyWrite::Create(kind, object) => {
                let object = serde_json::from_value(object).map_err(|error| error.to_string())?;
                let (api, params) = (self.api(kind), PostParams::default());
                let created = request(api.create(&params, &object)).await.map_err(told)?;
                permits.on(kind, &Event::Apply(created.into()));
            }
            PolicyWrite::Replace(kind, name, spec) => {
                // A list in a merge patch replaces the list.
                let patch = Patch::Merge(json!({ "spec": spec }));
                let (api, params) = (self.api(kind), PatchParams::default());
                let patched = request(api.patch(&name, &params, &patch));
                permits.on(kind, &Event::Apply(patched.await.map_err(told)?.into()));
            }
            PolicyWrite::Delete(kind, name) => {
                let (api, params) = (self.api(kind), DeleteParams::default());
                match request(api.delete(&name, &params)).await {
                    Ok(_) => {}
                    Err(RequestError::Status(status)) if status.code == 404 => {}
                    Err(error) => return Err(told(error)),
                }
                permits.deleted(kind, &name);
            }
        }
        Ok(())
    }
}

/// What a watch reports.
enum GatewayChange {
    /// Of the gateway and of exports.
    Exports(ExportChange),
    /// Of objects of Linkerd's policy.
    Policy(PolicyKind, Event<DynamicObject>),
}

/// Sends the events of one watch, and logs its failures.
struct Handler<F> {
    outbox: mpsc::Sender<GatewayChange>,
    wrap: F,
    trouble: Trouble,
}

impl<F> Handler<F> {
    fn new(outbox: &mpsc::Sender<GatewayChange>, what: &str, wrap: F) -> Self {
        Self {
            outbox: outbox.clone(),
            wrap,
            trouble: Trouble::new(format!("watch {what}")),
        }
    }
}

impl<T, F> EventHandler<T> for Handler<F>
where
    T: Send + Sync + 'static,
    F: Fn(Event<T>) -> GatewayChange + Send,
{
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
