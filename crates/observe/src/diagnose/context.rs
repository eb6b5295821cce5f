//! What a layer judges.

use mirror_core::api::{labels::LINKERD_NAMESPACE, link::LinkStatus};

use super::{
    layer::Commands,
    silence::silence,
    subject::{Mode, Subject},
};
use crate::{
    clusters::{
        request_path::{ClientPod, ClientView, RequestPath},
        snapshot::{Count, Endpoints, LinkSnapshot, ReadError},
    },
    finding::Level,
};

/// The facts, and what the Service is.
pub struct PathContext<'a> {
    pub facts: &'a RequestPath,
    pub subject: Subject<'a>,
    pub commands: &'a Commands,
}

impl<'a> PathContext<'a> {
    /// The namespace of Linkerd's control plane in the source cluster.
    pub fn linkerd_namespace(&self) -> &'a str {
        match self.facts.source.linkerd_namespace.as_str() {
            "" => LINKERD_NAMESPACE,
            namespace => namespace,
        }
    }

    /// The status of a Link, if its controller still writes it.
    pub fn status<'l>(&self, link: &'l LinkSnapshot) -> Option<&'l LinkStatus> {
        let is_old = silence(self.facts, link.namespace()).is_some();
        link.status().filter(|_| !is_old)
    }

    /// The reason and the message of a condition that a Link has only while there is a problem, if its controller still
    /// writes it.
    pub fn problem<'l>(&self, link: &'l LinkSnapshot, type_: &str) -> Option<(&'l str, &'l str)> {
        self.status(link)?;
        link.problem_condition(type_)
    }

    /// The endpoints that the Service has in this cluster.
    pub fn endpoints(&self) -> Result<Count, &'a ReadError> {
        let slices = self.facts.source.slices.as_ref()?;
        Ok(Endpoints::count(slices).of(&self.facts.service))
    }

    /// How bad it is if a target cluster cannot be reached: a federated Service may have other members, unless no endpoint
    /// is left in any cluster.
    pub fn level(&self) -> Level {
        if self.has_no_endpoint() {
            Level::Error
        } else {
            self.subject.level()
        }
    }

    /// Whether it is known that a Service that exists has no endpoint in any cluster.
    pub fn has_no_endpoint(&self) -> bool {
        match self.subject.mode() {
            Some(Mode::Gateway) => self.endpoints().is_ok_and(|count| count.ready == 0),
            Some(Mode::Discovery) => {
                let told = self.view().into_iter().flat_map(|view| &view.endpoints);
                let mut told = told
                    .filter_map(|told| told.endpoints.as_ref().ok())
                    .peekable();
                let is_empty = |told: &Option<Vec<_>>| told.as_ref().is_some_and(Vec::is_empty);
                told.peek().is_some() && told.all(is_empty)
            }
            None => false,
        }
    }

    /// The Pod that calls, if it was named and read.
    pub fn client(&self) -> Option<&'a ClientPod> {
        self.facts.client.as_ref()?.as_ref().ok()
    }

    /// What Linkerd tells its proxy, if that is known.
    pub fn view(&self) -> Option<&'a ClientView> {
        self.facts.view.as_ref()?.as_ref().ok()
    }

    /// The identity of the proxy of the Pod that calls, if it is known.
    pub fn client_identity(&self) -> Option<String> {
        let pod = self.client()?;
        let config = self.facts.source.config.as_ref().ok()?;
        Some(format!(
            "{}.{}.serviceaccount.identity.{}.{}",
            pod.account,
            pod.state.id.namespace,
            self.linkerd_namespace(),
            config.identity_trust_domain
        ))
    }
}
