//! Why a request to a Service of another cluster fails: the layers of its way, judged one after the other. Pure.
//!
//! [`subject`] finds out what the Service is. Each layer is a function from the facts to a [`layer::LayerReport`], with
//! [`Finding`](crate::finding::Finding)s whose causes are in the table [`causes`](crate::finding::causes). [`report`] renders all.

mod answers;
mod client;
mod connection;
mod context;
mod controller;
mod diagnosis;
mod discovery;
mod endpoints;
mod existing;
mod exported;
pub mod history;
mod inbound;
pub mod layer;
mod missing;
mod network;
pub mod overview;
mod policy;
#[cfg(test)]
mod reference;
pub mod report;
mod routes;
mod silence;
pub mod subject;
mod target;
#[cfg(test)]
mod tests;

use mirror_core::api::metadata::cluster_uid;

pub use self::diagnosis::Diagnosis;
use self::{
    context::PathContext,
    layer::{Commands, LayerReport},
    subject::{NoSubject, Subject},
};
use crate::{clusters::request_path::RequestPath, finding::causes::Layer, timeline::Timeline};

/// Judges the layers in order, up to the first broken one.
pub fn diagnose(facts: &RequestPath, commands: &Commands) -> Result<Diagnosis, NoSubject> {
    let mistaken = mistaken(facts);
    let without;
    let facts = if mistaken.is_some() {
        without = RequestPath {
            target: None,
            ..facts.clone()
        };
        &without
    } else {
        facts
    };
    let target = facts.target.as_ref();
    let flags = commands.target.clone();
    let commands = &Commands {
        target: flags.map(|flags| match target {
            Some(target) => flags.of_linkerd(&target.linkerd_namespace),
            None => flags,
        }),
        target_cluster: target.map(|target| target.cluster.clone()),
        ..commands.clone()
    };
    let way = PathContext {
        facts,
        subject: Subject::of(facts)?,
        commands,
    };
    let mut layers = Vec::new();
    for layer in Layer::ALL {
        let mut report = judge(layer, &way);
        if let (Layer::Objects, Some(mistaken)) = (layer, &mistaken) {
            report.unseen.push(mistaken.clone());
        }
        let is_broken = report.is_broken();
        layers.push(report);
        if is_broken {
            break;
        }
    }
    Ok(Diagnosis {
        service: facts.service.clone(),
        port: facts.port,
        what: way.subject.describe(),
        layers,
        timeline: Timeline::default(),
    })
}

/// What is wrong if the context that was named is that of another cluster than the Link's: nothing is concluded from it.
pub fn mistaken(facts: &RequestPath) -> Option<String> {
    let target = facts.target.as_ref()?;
    let link = facts.link_to(&target.cluster)?;
    let recorded = cluster_uid(&link.link).filter(|uid| Some(*uid) != target.uid.as_deref())?;
    let uid = target.uid.as_ref()?;
    Some(format!(
        "the target cluster: context {} is another cluster than that of Link {}: the UID of its kube-system is {uid}, and not \
         {recorded}; pass the right context with --target, or the name that the Links give it with --cluster-name",
        target.context,
        link.id()
    ))
}

fn judge(layer: Layer, way: &PathContext<'_>) -> LayerReport {
    match layer {
        Layer::Objects => match &way.subject {
            Subject::Absent(wanted) => missing::mirror(way, wanted),
            Subject::AbsentFederated(member) => missing::federated(way, member),
            Subject::Mirror(mirror) => existing::mirror(way, mirror),
            Subject::Federated(federated) => existing::federated(way, federated),
        },
        Layer::Client => client::judge(way),
        Layer::Policy => policy::judge(way),
        Layer::Discovery => discovery::judge(way),
        Layer::Network => network::judge(way),
        Layer::Target => target::judge(way),
        Layer::Answers => answers::judge(way),
    }
}
