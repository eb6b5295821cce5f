//! Which Services without a selector are followed, after changes of their Link.

use super::*;
use crate::{
    api::k8s::EndpointSlice,
    controller::session::Chunk,
    mirror::{
        Names,
        fixtures::{NS, backing, map, svc},
    },
};

/// A Service with a selector.
fn selecting(service: &str) -> Service {
    let mut service = svc(service).exported().0;
    service.spec.selector = map(&[("app", "web")]);
    service
}

/// The Link with an annotation that makes it invalid.
fn mistyped() -> Link {
    let mut link = link_to("east", "east");
    let annotations = link.metadata.annotations.get_or_insert_default();
    annotations.insert(l::GATEWAY_NETWORKS.to_owned(), "all".to_owned());
    link
}

fn followed(engine: &Engine) -> Vec<String> {
    let current = engine.known("east").current.as_ref();
    let session = engine.pending("east").or(current).unwrap();
    session
        .followed()
        .into_iter()
        .map(|(_, name)| name)
        .collect()
}

fn unlisted(engine: &Engine) -> Names {
    engine
        .state
        .links
        .get("east")
        .unwrap()
        .remote
        .as_ref()
        .unwrap()
        .unlisted
        .clone()
}

/// Lists the slices of all Services that are followed.
fn slices_listed(engine: &mut Engine, slices: Vec<EndpointSlice>) {
    let names = followed(engine).into_iter().zip(1..);
    let chunk: Chunk = names
        .map(|(name, number)| ((NS.to_owned(), name), number))
        .collect();
    engine.report(
        "east",
        SessionEvent::CustomSlices(chunk.into(), list(slices)),
    );
}

#[tokio::test]
async fn session_that_listed_everything_while_its_link_was_invalid_is_used_once_it_is_valid() {
    let mut engine = engine();
    engine.apply(&link_to("east", "east"));
    let id = engine.pending("east").unwrap().id;
    engine.apply(&mistyped());
    assert_eq!(engine.ready("east"), "InvalidLink");
    engine.listed("east", &[svc("web").exported().0, selecting("other")]);
    assert!(engine.known("east").current.is_none());
    engine.apply(&link_to("east", "east"));
    let current = engine.known("east").current.as_ref();
    assert_eq!(current.map(|session| session.id), Some(id));
    assert_eq!(followed(&engine), ["web"]);
    assert_eq!(unlisted(&engine).len(), 1);
}

#[tokio::test]
async fn service_exported_while_the_link_was_invalid_is_followed_once_it_is_valid() {
    let mut engine = engine();
    engine.apply(&link_to("east", "east"));
    engine.listed("east", &[svc("old").exported().0, svc("gone").exported().0]);
    assert_eq!(followed(&engine), ["gone", "old"]);
    engine.apply(&mistyped());
    let new = Event::Apply(svc("new").exported().arc());
    let gone = Event::Delete(svc("gone").exported().arc());
    for change in [new, gone] {
        for index in 0..2 {
            engine.report("east", SessionEvent::Services(index, change.clone()));
        }
    }
    engine.apply(&link_to("east", "east"));
    assert_eq!(followed(&engine), ["new", "old"]);
    // Until its slices are listed, nothing is known of its endpoints.
    assert!(unlisted(&engine).contains(&(NS.to_owned(), "new".to_owned())));
}

#[tokio::test]
async fn followed_services_are_those_that_the_link_selects_now() {
    let selectors = |remote_discovery: bool| {
        let mut link = link_to("east", "east");
        let any = serde_json::json!({ "matchExpressions": [
            { "key": l::EXPORTED, "operator": "In", "values": ["remote-discovery", "true"] },
        ] });
        link.spec.selector = Some(serde_json::from_value(any).unwrap());
        if !remote_discovery {
            link.spec.remote_discovery_selector = None;
        }
        link
    };
    let mut engine = engine();
    engine.apply(&selectors(true));
    let both = [svc("behind").exported().0, svc("direct").discovered().0];
    engine.listed("east", &both);
    let before = followed(&engine);
    slices_listed(&mut engine, vec![backing("behind")]);
    assert!(unlisted(&engine).is_empty());

    engine.apply(&selectors(false));
    assert_ne!(followed(&engine), before);
    assert_eq!(followed(&engine), ["behind", "direct"]);
    assert_eq!(unlisted(&engine).len(), 1);
    engine.apply(&selectors(true));
    assert_eq!(followed(&engine), before);
    assert!(unlisted(&engine).is_empty());
}
