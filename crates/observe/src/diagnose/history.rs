//! What happened on the way of a request: what its facts say, and what else has to be read for that.

use std::collections::BTreeSet;

use jiff::Timestamp;
use mirror_core::api::{
    labels::{CONTROLLER_NAME, LEASE_NAME},
    link::ServiceStatus,
    metadata::ResourceId,
};

use super::subject::Subject;
use crate::{
    clusters::{
        history::HistoryQuery,
        request_path::{DESTINATION, PodState, RequestPath, TargetFacts},
        snapshot::LinkSnapshot,
    },
    timeline::{Happened, about, history},
};

/// The identity controller of Linkerd.
const IDENTITY: &str = "linkerd-identity";

/// What the facts say of the source cluster.
pub fn of_source(facts: &RequestPath) -> Vec<Happened> {
    let source = &facts.source;
    let remotes = remotes(facts);
    let links = concerned(facts);
    let namespaces: BTreeSet<&str> = links.iter().map(|link| link.namespace()).collect();
    let leaders = source.leaders.iter();
    let leaders = leaders.filter_map(|(_, leader)| leader.as_ref().ok()?.as_ref());
    let leaders = leaders.filter(|leader| namespaces.contains(leader.namespace.as_str()));
    let deployments = source.controllers.iter().flatten();
    let deployments = deployments.filter(|of| namespaces.contains(of.id.namespace.as_str()));
    let pods = source.controller_pods.iter().flatten();
    let pods = pods.filter(|(namespace, _)| namespaces.contains(namespace.as_str()));
    let pods = pods.flat_map(|(_, pods)| pods);
    let pods = pods.chain(source.destination_pods.iter().flatten());
    let client = facts.client.iter().flatten().map(|client| &client.state);
    let own = source.history.iter();
    own.chain(leaders.flat_map(|leader| &leader.history))
        .chain(deployments.flat_map(|of| &of.history))
        .chain(pods.chain(client).flat_map(|pod| &pod.history))
        .cloned()
        .chain(links.iter().flat_map(|link| of_link(link, &remotes)))
        .chain(links.iter().flat_map(|link| tokens(facts, link)))
        .collect()
}

/// What the facts say of the target cluster.
pub fn of_target(target: &TargetFacts) -> Vec<Happened> {
    let gateways = target.gateways.iter().flatten();
    let serving = target.serving.iter().flatten().map(|port| &port.pod);
    let pods = gateways.flat_map(|gateway| gateway.pods.iter().flatten());
    let pods = pods.chain(serving).flat_map(|pod| &pod.history);
    target.history.iter().chain(pods).cloned().collect()
}

/// What else has to be read of the source cluster.
pub fn query_of_source(facts: &RequestPath) -> HistoryQuery {
    let mut query = HistoryQuery::default();
    let client = facts.client.iter().flatten().map(|client| &client.state);
    for id in client.map(|pod| &pod.id).chain([&facts.service]) {
        query.events_of(&id.namespace, [id.name.as_str()]);
    }
    query.events_of(&facts.source.linkerd_namespace, [DESTINATION, IDENTITY]);
    for link in concerned(facts) {
        let secret = &link.link.spec.cluster_credentials_secret;
        let names = [CONTROLLER_NAME, LEASE_NAME, link.name()];
        query.events_of(link.namespace(), names);
        if !secret.is_empty() {
            let id = ResourceId::new(link.namespace(), secret);
            query.secrets.insert(id);
        }
    }
    query
}

/// What else has to be read of the target cluster.
pub fn query_of_target(target: &TargetFacts) -> HistoryQuery {
    let mut query = HistoryQuery::default();
    let remote = &target.remote;
    let serving = target.serving.iter().flatten().map(|port| &port.pod);
    let workloads = serving.filter_map(PodState::restartable);
    let workloads = workloads.filter_map(|of| Some(of.split_once('/')?.1));
    query.events_of(&remote.namespace, workloads.chain([remote.name.as_str()]));
    query.events_of(&target.linkerd_namespace, [DESTINATION, IDENTITY]);
    for gateway in target.gateways.iter().flatten() {
        query.events_of(&gateway.id.namespace, [gateway.id.name.as_str()]);
    }
    query.policies.insert(remote.namespace.clone());
    query
}

/// The names of the Services in target clusters that the request is about, with these clusters.
fn remotes(facts: &RequestPath) -> Vec<(String, String)> {
    let subject = Subject::of(facts).ok();
    let remotes = subject.iter().flat_map(Subject::remotes);
    remotes
        .map(|(cluster, name)| (cluster.to_owned(), name.to_owned()))
        .collect()
}

/// The Links to the clusters of the Service; all, if these are not known.
fn concerned(facts: &RequestPath) -> Vec<&LinkSnapshot> {
    let remotes = remotes(facts);
    let is_concerned = |link: &&LinkSnapshot| {
        let mut clusters = remotes.iter().map(|(cluster, _)| cluster);
        remotes.is_empty() || clusters.any(|cluster| cluster == link.cluster())
    };
    let links = facts.source.links.iter().flatten();
    links.filter(is_concerned).collect()
}

/// What happened to a Link; of what it says about Services, only what is about these.
fn of_link(link: &LinkSnapshot, remotes: &[(String, String)]) -> Vec<Happened> {
    let mut link = link.link.clone();
    if let Some(status) = &mut link.status {
        let is_meant = |of: &ServiceStatus| {
            let mut names = remotes.iter().map(|(_, name)| name);
            names.any(|name| *name == of.remote_ref.name)
        };
        status.mirror_services.retain(is_meant);
        status.federated_services.retain(is_meant);
    }
    history("Link", &link)
}

/// The ends of the tokens of a Link, and when Linkerd's copy of its credentials was written.
fn tokens(facts: &RequestPath, link: &LinkSnapshot) -> Vec<Happened> {
    let now = facts.now;
    let own = link.credentials.iter().flatten();
    let own = own.filter_map(|own| own.expiry).map(|at| {
        let secret = &link.link.spec.cluster_credentials_secret;
        (at, "its token expired", link.namespace(), secret)
    });
    let destination = facts.source.destination.as_ref().ok();
    let copy = destination.and_then(|of| Some((of, of.credentials.get(link.cluster())?)));
    let copy = copy.into_iter().flat_map(|(of, copy)| {
        let times: [(Option<Timestamp>, &str); 3] = [
            (copy.expiry, "its token expired"),
            (copy.created, "created"),
            (copy.changed, "its content was changed"),
        ];
        let namespace = of.namespace.as_str();
        times.map(move |(at, what)| Some((at?, what, namespace, &copy.name)))
    });
    own.chain(copy.flatten())
        .filter(|(at, ..)| *at <= now)
        .map(|(at, what, namespace, name)| Happened {
            at,
            about: about("Secret", namespace, name),
            what: what.to_owned(),
            ..Happened::default()
        })
        .collect()
}
