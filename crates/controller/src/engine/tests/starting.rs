//! The order of the first lists.

use mirror_core::mirror::fixtures::svc;

use super::*;

#[tokio::test]
async fn session_starts_once_the_mirrors_are_known_that_have_priority_in_it() {
    let links = || {
        LocalEvent::Links(list(vec![LinkObject {
            link: link_to("east", "east"),
            unreadable: None,
        }]))
    };
    let secrets = || LocalEvent::Secrets(list(vec![secret()]));
    let mirrors = || LocalEvent::Mirrors(list(vec![svc("web-east").0]));
    let orders: [[LocalEvent; 3]; 4] = [
        [links(), secrets(), mirrors()],
        [secrets(), links(), mirrors()],
        [links(), mirrors(), secrets()],
        [mirrors(), secrets(), links()],
    ];
    for order in orders {
        let mut engine = starting();
        let mut missing = order.len();
        for event in order {
            let known = engine.links.get("east");
            assert!(known.is_none_or(|state| state.next.is_none()), "{missing}");
            engine.on_local_event(event);
            missing -= 1;
        }
        assert!(engine.pending("east").is_some());
        // Nothing else is waited for.
        assert!(engine.state.local.is_none());
    }
}

#[tokio::test]
async fn missing_credentials_are_reported_before_the_mirrors_are_known() {
    let mut engine = starting();
    engine.apply(&link_to("east", "east"));
    engine.on_local_event(LocalEvent::Secrets(list(Vec::new())));
    assert_eq!(engine.ready("east"), "CredentialsInvalid");
}

#[tokio::test]
async fn session_that_listed_everything_while_its_link_was_invalid_is_used_once_it_is_valid() {
    let mut engine = engine();
    engine.apply(&link_to("east", "east"));
    let id = engine.pending("east").unwrap().id;
    let mut mistyped = link_to("east", "east");
    let annotations = mistyped.metadata.annotations.get_or_insert_default();
    annotations.insert(l::GATEWAY_NETWORKS.to_owned(), "all".to_owned());
    engine.apply(&mistyped);
    assert_eq!(engine.ready("east"), "InvalidLink");
    engine.listed("east", &[svc("web").exported().0]);
    assert!(engine.current("east").is_none());
    engine.apply(&link_to("east", "east"));
    let current = engine.current("east");
    assert_eq!(current.map(|session| session.id), Some(id));
}
