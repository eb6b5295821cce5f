//! Kinds of routes that the API server begins and ceases to serve.

use mirror_core::api::route::{ParentRef, Route, RouteKind, RouteSpec};

use super::*;

#[tokio::test]
async fn kind_of_routes_that_is_not_served_any_more_is_missing_and_so_are_its_routes() {
    let mut engine = engine();
    let parent = ParentRef {
        name: "web-federated".into(),
        ..ParentRef::default()
    };
    let theirs = Route {
        spec: RouteSpec {
            parent_refs: [parent].into(),
            ..RouteSpec::default()
        },
        ..Route::default()
    };
    let known = |engine: &Engine| {
        let routes = &engine.state.local.as_ref().unwrap().routes;
        routes[&RouteKind::Http]
            .as_ref()
            .map(|routes| routes.iter().count())
    };
    for _ in 0..2 {
        engine.on_local_event(LocalEvent::Routes(
            RouteKind::Http,
            Some(list(vec![theirs.clone()])),
        ));
        assert_eq!(known(&engine), Some(1));
        engine.on_local_event(LocalEvent::Routes(RouteKind::Http, None));
        assert_eq!(known(&engine), None);
    }
}
