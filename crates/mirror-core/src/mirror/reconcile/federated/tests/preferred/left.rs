//! What is left: routes without their Service, mirrors that routes may lead to, and preferences of an installation that
//! does not write routes any more.

use super::*;
use crate::{
    api::route::BackendRef,
    mirror::{Links, fixtures::hosts},
};

#[test]
fn route_without_an_owner_is_deleted_once_its_federated_service_is_gone() {
    let owned = with_route(|_| ());
    let ownerless = with_route(|route| route.metadata.owner_references = Box::default());
    for (what, mut state, expected) in [
        // Kubernetes deletes it.
        ("owned", owned, &[][..]),
        (
            "ownerless",
            ownerless,
            &["delete HTTPRoute ns/web-federated-80"],
        ),
    ] {
        state.here().mirrors = Store::default();
        state.here().members = Store::default();
        state.links = Links::default();
        assert_eq!(described(&plan(&state, &key()).writes), expected, "{what}");
    }
}

#[test]
fn routes_of_a_federated_service_that_somebody_took_over_are_deleted() {
    let mut state = with_route(|_| ());
    state.here().mirrors = Store::default();
    let name = ("ns".to_owned(), "web-federated".to_owned());
    state.foreign.insert(name, "somebody".to_owned());
    let deleted = ["delete HTTPRoute ns/web-federated-80"];
    assert_eq!(described(&plan(&state, &key()).writes), deleted);
}

#[test]
fn preference_stays_until_the_routes_of_an_installation_without_routes_are_gone() {
    let mut off = led_to_east(Federation::Any);
    off.config.routes = None;
    let deleting = plan(&off, &key());
    assert_eq!(
        described(&deleting.writes),
        ["delete HTTPRoute ns/web-federated-80"]
    );
    let why = "web@east: web-federated, NoRoutes: \
               routes are not enabled in this installation any more, and are being deleted";
    assert_eq!(reported(&deleting), [why]);
    off.here().routes.clear();
    let why = "web@east: web-federated, NoRoutes: requests may still go to the preferred clusters first: \
               routes are not enabled in this installation any more, and cannot be read";
    assert_eq!(reported(&plan(&off, &key())), [why]);
}

/// The member of east is gone. The route leads to its mirror, and has changed in this way.
fn gone_from_east(change: fn(&mut Route)) -> State {
    let mut state = led_to_east(Federation::Any).linked(flat("east"), &[], &[]);
    let routes = state.here().routes[&RouteKind::Http].as_ref().unwrap();
    let mut route = routes.iter().next().unwrap().as_ref().clone();
    route.spec.rules[0].backend_refs = [BackendRef {
        name: "web-east".into(),
        ..BackendRef::default()
    }]
    .into();
    change(&mut route);
    let known = state.here().routes.entry(RouteKind::Http).or_default();
    known.get_or_insert_default().put(Arc::new(route));
    state
}

#[test]
fn mirror_stays_while_a_route_of_ours_may_lead_to_it() {
    let unlisted = |mut state: State| {
        state.here().routes.remove(&RouteKind::Tcp);
        state
    };
    let not_preferred = |state: State| {
        state.edited("ns", "web-federated", |service| {
            service.metadata.annotations.remove(l::PREFER);
        })
    };
    let ours = || gone_from_east(|_| ());
    let to_others = gone_from_east(|route| route.spec.rules = Box::default());
    let of_somebody = gone_from_east(|route| {
        route.metadata.labels.remove(l::MIRRORED_SERVICE);
        for key in l::SIGNATURE {
            route.metadata.annotations.remove(key);
        }
    });
    let of_another_installation = gone_from_east(|route| {
        let annotations = &mut route.metadata.annotations;
        annotations.insert(l::INSTALLATION, "elsewhere");
    });
    for (what, state, stays) in [
        ("a route of ours", ours(), true),
        ("and the preference is gone", not_preferred(ours()), true),
        ("a route of ours to others", to_others, false),
        ("somebody else's route", of_somebody, false),
        (
            "another installation's route",
            of_another_installation,
            false,
        ),
        ("not all routes are listed", unlisted(ours()), true),
        (
            "not all routes are listed, and the preference is gone",
            unlisted(not_preferred(ours())),
            false,
        ),
    ] {
        let expected: &[&str] = if stays {
            &[]
        } else {
            &["delete Service ns/web-east"]
        };
        assert_eq!(
            described(&plan(&state, &mirror()).writes),
            expected,
            "{what}"
        );
    }
}

#[test]
fn mirror_is_replaced_only_once_no_route_leads_to_it() {
    // The Service becomes headless, so its mirror has to be another one.
    let headless = |state: State| {
        let target = Target::parse(&link("east"), true).unwrap();
        let service = web().exported().headless();
        state.linked(target, &[service], &[hosts("web", &["h-0"])])
    };
    let led = headless(gone_from_east(|_| ()));
    assert_eq!(described(&plan(&led, &mirror()).writes), [""; 0]);
    let elsewhere = headless(gone_from_east(|route| {
        route.spec.rules[0].backend_refs = Box::default();
    }));
    let deleted = described(&plan(&elsewhere, &mirror()).writes);
    assert_eq!(deleted, ["delete Service ns/web-east"]);
}
