//! Facts about the way of a request: from a Pod of the source cluster to a Service of a target cluster.
//!
//! Plain values ([`facts`]), so that `diagnose` judges them without a client. What could not be read is an error with its
//! reason.

pub mod facts;
mod linkerd;
mod objects;
mod pod;
mod proxy;
mod source;
mod target;

pub use self::{
    facts::{
        ClientPod, ClientView, DESTINATION, EndpointCounts, GatewayFacts, InboundPort, PodState,
        ProxyAnswer, ProxyCounts, RequestPath, SourceFacts, TargetFacts,
    },
    linkerd::client_view,
    objects::Noted,
    proxy::client_proxy,
    source::{client_pod, facts_of_another, source_facts},
    target::{TargetQuestion, target_facts},
};
