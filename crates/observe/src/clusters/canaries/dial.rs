//! Lets the client send a request, through the API server (`pods/proxy`).

use std::time::Duration;

use client::{
    ReadError,
    requests::{RequestError, within},
};
use http::Request;
use kube::Client;
use mirror_core::api::text::in_brief;
use serde::Deserialize;

use super::{
    CLIENT,
    objects::{POD_PORT, SERVICE_PORT},
};
use crate::clusters::snapshot::Known;

/// What the client says about its request.
#[derive(Debug, Default, Deserialize)]
struct Dialed {
    #[serde(default)]
    responses: Vec<String>,
    #[serde(default)]
    errors: Vec<String>,
}

/// Sends one request from the client to a Service of its cluster. The answer has the headers of the request, as JSON.
pub async fn dial(
    client: &Client,
    namespace: &str,
    address: &str,
    limit: Duration,
) -> Known<String> {
    let path = format!(
        "/api/v1/namespaces/{namespace}/pods/{CLIENT}:{POD_PORT}/proxy/dial?host={address}&port={SERVICE_PORT}\
         &protocol=http&tries=1&request=header"
    );
    let request = Request::get(path).body(Vec::new());
    let request = request.map_err(|error| error.to_string())?;
    match within(limit, client.request_text(request)).await {
        Ok(text) => answer(&text),
        Err(RequestError::Status(status)) => Err(ReadError::from(kube::Error::Api(status))
            .context("the API server cannot ask the client to send a request")),
        Err(RequestError::Unanswered(why)) => Err(why),
    }
}

/// The answer that the client got. It does not tell the status of an answer, but errors of proxies have no body.
fn answer(text: &str) -> Known<String> {
    let dialed: Dialed = serde_json::from_str(text)
        .map_err(|_| format!("the client says {:?}, which is no JSON", in_brief(text)))?;
    if let Some(error) = dialed.errors.first() {
        return Err(in_brief(error).into());
    }
    let first = dialed.responses.into_iter().next();
    first
        .filter(|answer| !answer.is_empty())
        .ok_or_else(|| "a proxy answered in the place of the canary".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_with_a_body_is_one_of_the_canary() {
        let answer = |text: &str| answer(text).map_err(|why| why.text().chars().take(40).collect());
        assert_eq!(answer(r#"{"responses":["canary"]}"#), Ok("canary".into()));
        for (text, expected) in [
            (
                r#"{"errors":["Get \"http://10.0.0.7:80/hostname\": EOF"]}"#,
                "Get \"http://10.0.0.7:80/hostname\": EOF",
            ),
            ("{}", "a proxy answered in the place of the can"),
            (
                r#"{"responses":[""]}"#,
                "a proxy answered in the place of the can",
            ),
            ("<html>", "the client says \"<html>\", which is no JS"),
        ] {
            assert_eq!(answer(text), Err(expected.to_owned()), "{text}");
        }
    }
}
