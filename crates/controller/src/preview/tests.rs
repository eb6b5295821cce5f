//! What is read of the clusters before a preview, and what is missing then.

use client::{TestBody, of_test_server};
use futures::{StreamExt as _, stream};
use hints::hint::hint_of;
use http::{Request, Response};
use hyper::body::{Bytes, Frame};
use kube::client::Body;
use mirror_core::mirror::fixtures;
use serde_json::{Value, json};
use tower::BoxError;

use super::*;

/// A client of an API server that gives this answer to each request, with this status.
fn answering(status: u16, answer: &Value) -> Client {
    let answer = answer.clone();
    answering_each(status, move |_| answer.clone())
}

/// A client of an API server that gives answers by the paths of requests, with this status.
fn answering_each(
    status: u16,
    answer: impl Fn(&str) -> Value + Clone + Send + Sync + 'static,
) -> Client {
    of_test_server(move |request: Request<Body>| {
        let frame = Ok(Frame::data(Bytes::from(
            answer(request.uri().path()).to_string(),
        )));
        let body = TestBody::new(stream::iter([frame]).boxed());
        let response = Response::builder().status(status).body(body);
        async move { Ok::<_, BoxError>(response.expect("a response")) }
    })
}

fn refusing(code: u16, reason: &str) -> Client {
    answering(
        code,
        &json!({ "kind": "Status", "code": code, "reason": reason, "message": "made up" }),
    )
}

async fn args_of(client: &Client) -> anyhow::Result<Option<Vec<Vec<String>>>> {
    controller_args(client, "mc").await
}

#[tokio::test]
async fn arguments_are_those_of_each_container_of_the_deployment() {
    let container = |args: Value| json!({ "name": "any", "args": args });
    let deployment = |containers: Value| {
        json!({ "spec": {
            "selector": {},
            "template": { "spec": { "containers": containers } },
        } })
    };
    let two = json!([
        container(json!(["run-controller", "--flag"])),
        container(json!(null))
    ]);
    let args = args_of(&answering(200, &deployment(two))).await.unwrap();
    let expected = vec![
        vec!["run-controller".to_owned(), "--flag".to_owned()],
        vec![],
    ];
    assert_eq!(args, Some(expected));
    let args = args_of(&answering(200, &json!({ "metadata": {} }))).await;
    assert_eq!(args.unwrap(), Some(vec![]));
}

#[tokio::test]
async fn missing_deployment_has_no_arguments_and_an_unreadable_one_is_an_error() {
    assert_eq!(args_of(&refusing(404, "NotFound")).await.unwrap(), None);
    let error = args_of(&refusing(403, "Forbidden")).await.unwrap_err();
    let expected = format!("cannot read Deployment mc/{}", l::CONTROLLER_NAME);
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn preview_of_an_unknown_link_names_those_that_exist() {
    let link = |name: &str| json!({ "metadata": { "name": name }, "spec": {} });
    for (links, hint) in [
        (vec![], "--link-file"),
        (
            vec![link("east"), link("north")],
            "known Links: east, north",
        ),
    ] {
        let list = json!({ "metadata": {}, "items": links });
        let settings = PreviewSettings {
            config: Config {
                namespace: "mc".to_owned(),
                ..Config::default()
            },
            headless: false,
            unreadable: String::new(),
            limits: Limits {
                services: 1,
                host: 0,
                metadata: 1,
                bytes: 1,
            },
        };
        let client = answering(200, &list);
        let state = state(
            &client,
            settings,
            "west",
            None,
            None,
            Duration::from_secs(1),
        )
        .await;
        let error = state.err().expect("an error");
        assert_eq!(error.to_string(), "Link west not found in namespace mc");
        assert!(hint_of(&error).is_some_and(|found| found.contains(hint)));
    }
}

#[tokio::test]
async fn slices_of_the_target_are_limited_and_trimmed_as_in_a_session() {
    let slice = |number: usize| {
        json!({
            "metadata": {
                "name": format!("web-{number:02}"), "namespace": "shop", "annotations": { "large": "x" },
                "labels": { l::SLICE_SERVICE: "web" },
            },
            "addressType": "IPv4", "endpoints": [], "ports": [],
        })
    };
    let slices: Vec<Value> = (0..25).map(slice).collect();
    let client = answering_each(200, move |path| {
        let items = if path.ends_with("/endpointslices") {
            json!(slices)
        } else {
            json!([])
        };
        json!({ "kind": "List", "metadata": {}, "items": items })
    });
    let limits = Limits {
        services: 2,
        host: 0,
        metadata: 1 << 14,
        bytes: 1 << 20,
    };
    let target = Target::parse(&fixtures::link("east"), false).unwrap();
    let none = Names::new();
    let read = remote(&client, &target, limits, &none, false);
    let read = read.await.unwrap();
    let kept: Vec<_> = read.slices.iter().flat_map(Store::iter).collect();
    assert_eq!(kept.len(), 20, "ten for each Service");
    assert!(
        read.omitted_slices
            .iter()
            .any(|left| left.services().len() == 1)
    );
    assert!(
        kept.iter()
            .all(|slice| slice.metadata.annotations.is_empty())
    );
}
