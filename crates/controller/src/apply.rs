//! Executes plans, write by write. In the controller, no other module writes Services, EndpointSlices, routes,
//! namespaces or Endpoints.

mod failure;
mod written;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
};

use client::requests::{RequestError, request};
use k8s_openapi::api::core::v1::{Endpoints, Namespace};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DeleteParams, Patch as KubePatch, PatchParams, PostParams, Preconditions},
    core::{NamespaceResourceScope, ObjectMeta, PartialObjectMeta},
};
use mirror_core::{
    api::{
        k8s::{EndpointSlice, Service},
        labels as l,
        map::Map,
        metadata::OwnerReference,
        route::{Route, RouteKind},
        wire::{Subset, Wire},
    },
    mirror::{Object, ObjectKind, Patch, Write},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use self::failure::{is_not_found, slice_name_conflict};
pub use self::{
    failure::{Failure, name_conflict},
    written::{Gone, Written},
};
use super::{
    lease::Fence,
    metrics::{Metrics, ResourceKind, Verb, WriteResult},
    route_versions::RouteVersions,
};

/// Writes to the local cluster, as long as the lease is held.
#[derive(Clone)]
pub struct Writer {
    pub client: Client,
    /// The versions in which routes are written.
    pub routes: RouteVersions,
    pub fence: Fence,
    pub metrics: Metrics,
}

impl Writer {
    /// Executes writes in order, up to the first that fails. If the API server does not allow one, those for other
    /// Services follow nevertheless. Returns the executed writes and the result: the first failure, if there is any.
    pub async fn apply(&self, writes: Vec<Write>) -> (Vec<Written>, Result<(), Failure>) {
        let mut written = Vec::with_capacity(writes.len());
        let mut uids = BTreeMap::new();
        let mut denied: BTreeSet<String> = BTreeSet::new();
        let mut first = None;
        for write in writes {
            let service = write.service().map(str::to_owned);
            if service.as_ref().is_some_and(|of| denied.contains(of)) {
                continue; // it depends on a write that was not allowed
            }
            if !self.fence.holds() {
                return (written, Err(Failure::Fenced));
            }
            let (verb, kind) = series(&write);
            let done = self.one(write, &mut uids).await;
            let outcome = match &done {
                Ok(_) => WriteResult::Ok,
                Err(Failure::Outdated(_) | Failure::Conflict(_) | Failure::Foreign { .. }) => {
                    WriteResult::Conflict
                }
                Err(_) => WriteResult::Error,
            };
            if !matches!(done, Ok(None)) {
                self.metrics.write(verb, kind, outcome);
            }
            match done {
                Ok(done) => written.extend(done),
                Err(failure @ Failure::Refused { denied: true, .. }) if service.is_some() => {
                    denied.extend(service);
                    first.get_or_insert(failure);
                }
                Err(failure) => return (written, Err(failure)),
            }
        }
        (written, first.map_or(Ok(()), Err))
    }

    async fn one(&self, write: Write, uids: &mut Uids) -> Result<Option<Written>, Failure> {
        match write {
            Write::Create(Object::Namespace { name, labels }) => {
                self.create_namespace(name, labels).await.map(Some)
            }
            Write::Create(Object::Service(service)) => {
                let made = self.create_service(*service).await?;
                let uid = made.metadata.uid.clone().unwrap_or_default();
                uids.insert(made.metadata.name().into(), uid);
                Ok(Some(Written::Created(Arc::new(made))))
            }
            Write::Create(Object::EndpointSlice(slice)) => {
                self.create_slice(*slice, uids).await.map(Some)
            }
            Write::Create(Object::Route(route)) => self.create_route(*route, uids).await.map(Some),
            Write::Patch(patch) => self.patch(patch, uids).await.map(Some),
            Write::Delete {
                kind,
                namespace,
                name,
                uid,
                service: _,
            } => {
                let gone = Gone {
                    kind,
                    namespace,
                    name,
                    uid,
                };
                self.delete(&gone).await?;
                Ok(Some(Written::Gone(gone)))
            }
            Write::RetireEndpoints {
                namespace,
                name,
                cluster,
            } => {
                self.retire(&namespace, &name, &cluster).await?;
                Ok(None)
            }
        }
    }

    async fn create_namespace(&self, name: String, labels: Map) -> Result<Written, Failure> {
        let pairs = labels.iter();
        let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some(pairs.collect()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let api: Api<Namespace> = Api::all(self.client.clone());
        let labels = match request(api.create(&PostParams::default(), &namespace)).await {
            Ok(_) => labels,
            Err(RequestError::Status(status)) if status.reason == "AlreadyExists" => Map::default(),
            Err(error) => return Err(Failure::of(error, "create namespace")),
        };
        Ok(Written::Namespace(name, labels))
    }

    async fn create_service(&self, service: Service) -> Result<Service, Failure> {
        let (namespace, name) = service.metadata.id();
        let service = Wire::from(service);
        match created(self.api(&namespace), &service).await {
            Ok(made) => Ok(made),
            Err(RequestError::Status(status)) if status.reason == "AlreadyExists" => {
                let live = self.look(&namespace, &name).await?;
                Err(name_conflict(namespace, name, live, &service.object))
            }
            Err(error) => Err(Failure::of(error, "create mirror service")),
        }
    }

    async fn create_slice(
        &self,
        mut slice: EndpointSlice,
        uids: &Uids,
    ) -> Result<Written, Failure> {
        own(&mut slice.metadata.owner_references, uids)?;
        let (namespace, name) = slice.metadata.id();
        let slice = Wire::from(slice);
        let api: Api<Wire<EndpointSlice>> = self.api(&namespace);
        match created(api.clone(), &slice).await {
            Ok(made) => Ok(Written::Slice(Arc::new(made))),
            Err(RequestError::Status(status)) if status.reason == "AlreadyExists" => {
                match request(api.get(&name)).await {
                    Ok(live) => Err(slice_name_conflict(live.into(), &slice.object)),
                    Err(RequestError::Status(status)) if status.code == 404 => {
                        Err(Failure::Outdated(None))
                    }
                    Err(error) => Err(Failure::of(error, "get mirror endpoints")),
                }
            }
            Err(error) => Err(Failure::of(error, "create mirror endpoints")),
        }
    }

    async fn delete(&self, gone: &Gone) -> Result<(), Failure> {
        let (namespace, name) = (&*gone.namespace, &*gone.name);
        let parameters = DeleteParams::background().preconditions(Preconditions {
            uid: Some(gone.uid.clone()),
            resource_version: None,
        });
        let answer = match gone.kind {
            ObjectKind::EndpointSlice => {
                deleted::<EndpointSlice>(self.api(namespace), name, &parameters).await
            }
            ObjectKind::Service | ObjectKind::Namespace => {
                deleted::<Service>(self.api(namespace), name, &parameters).await
            }
            ObjectKind::Route(kind) => {
                deleted(self.routes(kind, namespace), name, &parameters).await
            }
        };
        match answer {
            Ok(()) => Ok(()),
            Err(RequestError::Status(status)) if is_not_found(&status, name) => Ok(()),
            Err(error) => Err(Failure::of(error, "delete mirror")),
        }
    }

    async fn create_route(&self, mut route: Route, uids: &Uids) -> Result<Written, Failure> {
        own(&mut route.metadata.owner_references, uids)?;
        route.version = self.routes.of(route.kind);
        let api = self.routes(route.kind, route.metadata.namespace());
        match created(api, &route.into()).await {
            Ok(made) => Ok(Written::Route(Arc::new(made))),
            // The name belongs to a route of somebody else that does not apply to a federated Service, or to a route of
            // ours that the watch has not reported yet.
            Err(RequestError::Status(status)) if status.reason == "AlreadyExists" => {
                Err(Failure::Refused {
                    message: format!("Failed to create route: {}", status.message),
                    wait: None,
                    denied: true,
                })
            }
            Err(error) => Err(Failure::of(error, "create route")),
        }
    }

    async fn patch(&self, mut patch: Patch, uids: &Uids) -> Result<Written, Failure> {
        if let Some(owners) = patch.body.pointer_mut("/metadata/ownerReferences") {
            let mut references: Vec<OwnerReference> =
                serde_json::from_value(owners.take()).unwrap_or_default();
            own(&mut references, uids)?;
            *owners = serde_json::to_value(references).unwrap_or(Value::Null);
        }
        let Patch {
            kind,
            namespace,
            name,
            body,
            service: _,
            urgent: _,
        } = patch;
        let uid = body["metadata"]["uid"].as_str().unwrap_or_default();
        let uid = uid.to_owned();
        let answer = match kind {
            ObjectKind::EndpointSlice => patched(self.api(&namespace), &name, &body)
                .await
                .map(Written::Slice),
            ObjectKind::Service | ObjectKind::Namespace => {
                patched(self.api(&namespace), &name, &body)
                    .await
                    .map(Written::Service)
            }
            ObjectKind::Route(kind) => patched(self.routes(kind, &namespace), &name, &body)
                .await
                .map(Written::Route),
        };
        answer.map_err(|error| match error {
            RequestError::Status(status) if is_not_found(&status, &name) => {
                let gone = Gone {
                    kind,
                    namespace,
                    name,
                    uid,
                };
                Failure::Outdated(Some(Box::new(Written::Gone(gone))))
            }
            error => Failure::of(
                error,
                match kind {
                    ObjectKind::EndpointSlice => "update mirror endpoints",
                    ObjectKind::Service | ObjectKind::Namespace => "update mirror service",
                    ObjectKind::Route(_) => "update route",
                },
            ),
        })
    }

    fn api<T: Subset>(&self, namespace: &str) -> Api<Wire<T>>
    where
        T::Kind: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn routes(&self, kind: RouteKind, namespace: &str) -> Api<Wire<Route>> {
        let resource = kind.resource_in(self.routes.of(kind));
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }

    /// Gets a Service of any owner; `None` if it does not exist.
    pub async fn look(&self, namespace: &str, name: &str) -> Result<Option<Service>, Failure> {
        let api: Api<Wire<Service>> = self.api(namespace);
        match request(api.get(name)).await {
            Ok(service) => Ok(Some(service.into())),
            Err(RequestError::Status(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(Failure::of(error, "get mirror service")),
        }
    }

    /// Deletes the v1 Endpoints that Linkerd's service mirror created for a mirror.
    async fn retire(&self, namespace: &str, name: &str, cluster: &str) -> Result<(), Failure> {
        let api: Api<PartialObjectMeta<Endpoints>> =
            Api::namespaced(self.client.clone(), namespace);
        let endpoints = match request(api.get_metadata(name)).await {
            Ok(endpoints) => endpoints,
            Err(RequestError::Status(status)) if status.code == 404 => return Ok(()),
            Err(error) => return Err(Failure::of(error, "get endpoints")),
        };
        let label = |key: &str| endpoints.labels().get(key).map(String::as_str);
        if label(l::CLUSTER_NAME) != Some(cluster) {
            return Ok(());
        }
        let api: Api<Endpoints> = Api::namespaced(self.client.clone(), namespace);
        let parameters = DeleteParams::background().preconditions(Preconditions {
            uid: endpoints.uid(),
            resource_version: None,
        });
        match request(api.delete(name, &parameters)).await {
            Ok(_) => Ok(()),
            Err(RequestError::Status(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(Failure::of(error, "delete endpoints")),
        }
    }
}

/// UIDs of Services created by this plan, by name.
type Uids = BTreeMap<Box<str>, Box<str>>;

/// Fills in the owner UIDs that the plan could not know.
fn own(references: &mut [OwnerReference], uids: &Uids) -> Result<(), Failure> {
    for reference in references.iter_mut().filter(|r| r.uid.is_empty()) {
        let uid = uids.get(&reference.name).ok_or(Failure::Outdated(None))?;
        reference.uid.clone_from(uid);
    }
    Ok(())
}

async fn created<T>(api: Api<Wire<T>>, object: &Wire<T>) -> Result<T, RequestError>
where
    T: Subset + DeserializeOwned + Serialize + Debug,
{
    let made = request(api.create(&PostParams::default(), object)).await;
    made.map(T::from)
}

async fn patched<T>(api: Api<Wire<T>>, name: &str, body: &Value) -> Result<Arc<T>, RequestError>
where
    T: Subset + DeserializeOwned + Debug,
{
    let body = KubePatch::Merge(body);
    let now = request(api.patch(name, &PatchParams::default(), &body)).await;
    now.map(|now| Arc::new(now.into()))
}

async fn deleted<T>(
    api: Api<Wire<T>>,
    name: &str,
    parameters: &DeleteParams,
) -> Result<(), RequestError>
where
    T: Subset + DeserializeOwned + Debug,
{
    request(api.delete(name, parameters)).await.map(|_| ())
}

fn series(write: &Write) -> (Verb, ResourceKind) {
    let kind = |kind: ObjectKind| match kind {
        ObjectKind::Namespace => ResourceKind::Namespace,
        ObjectKind::Service => ResourceKind::Service,
        ObjectKind::EndpointSlice => ResourceKind::EndpointSlice,
        ObjectKind::Route(_) => ResourceKind::Route,
    };
    match write {
        Write::Create(object) => (Verb::Create, kind(object.kind())),
        Write::Patch(patch) => (Verb::Patch, kind(patch.kind)),
        Write::Delete { kind: of, .. } => (Verb::Delete, kind(*of)),
        Write::RetireEndpoints { .. } => (Verb::Delete, ResourceKind::Endpoints),
    }
}
