//! Label values of the metrics: closed sets, so that no remote object can create a series.

/// Value of the label `cluster` for the cluster that the controller runs in.
pub const LOCAL: &str = "local";

/// A kind of object, as a label value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResourceKind {
    /// Mirror Services.
    Service,
    /// Slices of endpoints of mirrors.
    EndpointSlice,
    /// A v1 Endpoints object. It is only deleted, when a mirror is adopted.
    Endpoints,
    /// Namespaces that mirrors need.
    Namespace,
    /// Statuses of Links.
    Link,
    /// Secrets.
    Secret,
    /// A route of the Gateway API, or one of Linkerd's.
    Route,
}

/// The verb of a write, as a label value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// POST.
    Create,
    /// PATCH.
    Patch,
    /// DELETE.
    Delete,
}

/// The result of a write, as a label value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteResult {
    /// The API server accepted it.
    Ok,
    /// The object had changed, or existed already: the key is planned again.
    Conflict,
    /// The API server rejected it, or it failed for another reason: it is retried with backoff.
    Error,
}

/// A store whose size is one of Linkerd's metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// All namespaces.
    Namespaces,
    /// Services.
    Services,
    /// EndpointSlices; Linkerd's service mirror counts v1 Endpoints under the same name.
    Endpoints,
}

/// Numbers of a Link's Services by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Services that are mirrored.
    pub mirrored: usize,
    /// Members of a federated Service.
    pub federated: usize,
    /// Should be mirrored or federated, but are not.
    pub unhealthy: usize,
}

/// What is counted of a federated Service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FederatedCounts {
    /// Members, in this cluster and in others.
    pub members: usize,
    /// Ready endpoints, if the controller knows them.
    pub endpoints: Option<usize>,
}

impl FederatedCounts {
    /// The sum. What is not known counts as nothing, unless neither is.
    pub fn plus(self, other: Self) -> Self {
        let endpoints = [self.endpoints, other.endpoints];
        Self {
            members: self.members + other.members,
            endpoints: endpoints.into_iter().flatten().reduce(|a, b| a + b),
        }
    }
}

impl ResourceKind {
    /// All kinds.
    #[cfg(test)]
    pub const ALL: [Self; 7] = [
        Self::Service,
        Self::EndpointSlice,
        Self::Endpoints,
        Self::Namespace,
        Self::Link,
        Self::Secret,
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
            Self::Route => "Route",
        }
    }
}

impl Verb {
    /// The label's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }
}

impl WriteResult {
    /// The label's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Conflict => "conflict",
            Self::Error => "error",
        }
    }
}
