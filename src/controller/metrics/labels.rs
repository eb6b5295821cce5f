//! Label values of the metrics: closed sets, so that no remote object can make a series.

/// Value of the label `cluster` for the cluster that the controller runs in.
pub const LOCAL: &str = "local";

/// A kind of object, as a label value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceKind {
    /// A Service.
    Service,
    /// An EndpointSlice.
    EndpointSlice,
    /// A v1 Endpoints object; only ever deleted, when a mirror is adopted.
    Endpoints,
    /// A Namespace.
    Namespace,
    /// A Link.
    Link,
    /// A Secret.
    Secret,
    /// An Event.
    Event,
    /// A route of the Gateway API, or one of Linkerd's.
    Route,
}

/// What was done to an object, as a label value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// POST.
    Create,
    /// PATCH.
    Patch,
    /// DELETE.
    Delete,
}

/// How a write ended, as a label value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteResult {
    /// The API server took it.
    Ok,
    /// The object had changed, or existed already: it is observed and planned again.
    Conflict,
    /// The API server refused it, or it failed for another reason: it is retried with backoff.
    Error,
}

/// A store whose size Linkerd's metrics name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// Namespaces.
    Namespaces,
    /// Services.
    Services,
    /// EndpointSlices; Linkerd's service mirror counts v1 Endpoints under the same name.
    Endpoints,
}

/// How many Services of a Link are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Mirrored.
    pub mirrored: usize,
    /// Members of a federated Service.
    pub federated: usize,
    /// Should be one of these, and are not.
    pub unhealthy: usize,
}

impl ResourceKind {
    pub(super) const ALL: [Self; 8] = [
        Self::Service,
        Self::EndpointSlice,
        Self::Endpoints,
        Self::Namespace,
        Self::Link,
        Self::Secret,
        Self::Event,
        Self::Route,
    ];

    /// The Kubernetes kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::Endpoints => "Endpoints",
            Self::Namespace => "Namespace",
            Self::Link => "Link",
            Self::Secret => "Secret",
            Self::Event => "Event",
            Self::Route => "Route",
        }
    }
}

impl Verb {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }
}

impl WriteResult {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Conflict => "conflict",
            Self::Error => "error",
        }
    }
}
