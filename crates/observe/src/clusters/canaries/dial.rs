//! Lets the client send a request, through the API server (`pods/proxy`).

use std::time::Duration;

use client::{
    ReadError,
    requests::{RequestError, within},
};
use http::Request;
use kube::Client;
use mirror_core::api::text::in_brief;

use super::{
    CLIENT,
    objects::POD_PORT,
    program::{CanaryKey, Said},
};
use crate::clusters::snapshot::Known;

/// Sends one request from the client to a Service of its cluster. Returns the identity that the server saw, if any.
pub async fn dial(
    client: &Client,
    namespace: &str,
    key: &CanaryKey,
    address: &str,
    limit: Duration,
) -> Known<Option<String>> {
    let path = format!(
        "/api/v1/namespaces/{namespace}/pods/{CLIENT}:{POD_PORT}/proxy/{}/{address}",
        key.text()
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

/// What the client says.
fn answer(text: &str) -> Known<Option<String>> {
    match serde_json::from_str(text) {
        Ok(Said::Seen(seen)) => Ok(seen),
        Ok(Said::Failed(why)) => Err(in_brief(&why).into()),
        Err(_) => Err(format!(
            "somebody else answered for the client: {:?}",
            in_brief(text)
        )
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_says_what_was_seen_or_why_nothing_was() {
        let answer = |text: &str| answer(text).map_err(|why| why.text().to_owned());
        assert_eq!(answer(r#"{"seen":"a.b.c"}"#), Ok(Some("a.b.c".into())));
        assert_eq!(answer(r#"{"seen":null}"#), Ok(None));
        for (text, expected) in [
            (
                r#"{"failed":"no answer within 5 s"}"#,
                "no answer within 5 s",
            ),
            (
                "<html>",
                "somebody else answered for the client: \"<html>\"",
            ),
            ("{}", "somebody else answered for the client: \"{}\""),
        ] {
            assert_eq!(answer(text), Err(expected.to_owned()), "{text}");
        }
    }
}
