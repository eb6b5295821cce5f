//! Requests to API servers: with a deadline, and page by page.

use std::{fmt::Debug, time::Duration};

use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use kube::{
    Api, Client,
    api::{ListMeta, ListParams},
    client::Body,
    core::Status,
};
use mirror_core::api::{route::RouteKind, text::in_brief};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

pub use super::read_error::{exceeded_limit, explain, has_answered, is_certificate};
use super::{ReadError, read_error::ReadErrorKind};
use crate::timing;

/// Timeout of one request, unless a caller sets another.
pub const DEADLINE: Duration = Duration::from_secs(30);
/// How much clocks may differ without effect. A server says seconds only.
const AGREE: SignedDuration = SignedDuration::from_secs(2);
/// Number of objects in one page of a list.
pub const PAGE: u32 = 500;

/// Maximum number of pages of a list: a million objects. Only a server that never ends a list sends more.
const PAGES: usize = 2_000;
/// Maximum number of pages in a row without an object.
const EMPTY_PAGES: usize = 8;

/// Why a request failed, for callers that look at the API server's answer. For others, there is [`ReadError`].
#[derive(Debug)]
pub enum RequestError {
    /// The API server returned an error. Its message is one short line.
    Status(Box<Status>),
    /// There was no response, or it cannot be read.
    Unanswered(ReadError),
}

impl From<kube::Error> for RequestError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(mut status) => {
                status.message = in_brief(&status.message);
                Self::Status(status)
            }
            error => Self::Unanswered(error.into()),
        }
    }
}

/// An error of a request, after somebody has looked at the answer.
impl From<RequestError> for ReadError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Status(status) => kube::Error::Api(status).into(),
            RequestError::Unanswered(why) => why,
        }
    }
}

impl From<ReadError> for RequestError {
    fn from(error: ReadError) -> Self {
        Self::Unanswered(error)
    }
}

/// Waits for a response for up to [`DEADLINE`].
pub fn request<T>(
    request: impl Future<Output = kube::Result<T>>,
) -> impl Future<Output = Result<T, RequestError>> {
    within(DEADLINE, request)
}

/// Waits for a response, or for several, for up to `deadline`. The error is a [`RequestError`] or a [`ReadError`].
pub async fn within<T, F: Into<E>, E: From<ReadError>>(
    deadline: Duration,
    read: impl Future<Output = Result<T, F>>,
) -> Result<T, E> {
    // Boxed, so that the future of the caller does not contain it twice.
    match timeout(deadline, Box::pin(read)).await {
        Ok(answer) => answer.map_err(Into::into),
        Err(_) => Err(ReadError::late(deadline).into()),
    }
}

/// Lists all objects that match a label selector, page by page. An empty selector matches all.
pub async fn list_all<K>(api: &Api<K>, selector: &str) -> kube::Result<Vec<K>>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut whole = ListParams::default();
    if !selector.is_empty() {
        whole = whole.labels(selector);
    }
    list_matching(api, &whole).await
}

/// Lists all objects that these parameters select, page by page.
pub async fn list_matching<K>(api: &Api<K>, whole: &ListParams) -> kube::Result<Vec<K>>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut page = whole.clone().limit(PAGE);
    let mut objects = Vec::new();
    let mut empty = 0;
    for _ in 0..PAGES {
        let answer = match api.list(&page).await {
            // The list has expired on the server: start again, without pages.
            Err(kube::Error::Api(status))
                if status.code == 410 && page.continue_token.is_some() =>
            {
                objects.clear();
                api.list(whole).await?
            }
            answer => answer?,
        };
        empty = if answer.items.is_empty() {
            empty + 1
        } else {
            0
        };
        objects.extend(answer.items);
        page.continue_token = next_page(answer.metadata);
        if page.continue_token.is_none() {
            return Ok(objects);
        }
        if empty > EMPTY_PAGES {
            break;
        }
    }
    Err(kube::Error::Service("the list does not end".into()))
}

/// Lists up to `most` objects, page by page, and says whether there are more.
pub async fn list_some<K>(
    api: &Api<K>,
    which: &ListParams,
    most: usize,
) -> kube::Result<(Vec<K>, bool)>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut page = which.clone().limit(PAGE);
    let mut objects = Vec::new();
    while objects.len() <= most {
        let answer = api.list(&page).await?;
        page.continue_token = next_page(answer.metadata);
        let is_last = page.continue_token.is_none() || answer.items.is_empty();
        objects.extend(answer.items);
        if is_last {
            break;
        }
    }
    let is_cut = objects.len() > most || page.continue_token.is_some();
    objects.truncate(most);
    Ok((objects, is_cut))
}

/// How far the clock of the API server is ahead of this machine's. Zero if both agree to some seconds, which a request
/// may take.
pub async fn clock_of(client: &Client) -> Result<SignedDuration, ReadError> {
    let before = timing::now();
    let (_, theirs) = get_at::<serde_json::Value>(client, "/version").await?;
    let ahead = theirs.duration_since(before);
    let counts = ahead.abs() > AGREE + timing::now().duration_since(before);
    Ok(if counts { ahead } else { SignedDuration::ZERO })
}

/// The same. Zero if there is no answer.
pub async fn clock_ahead(client: &Client) -> SignedDuration {
    clock_of(client).await.unwrap_or_default()
}

/// Reads an object, and the API server's time: the clock of this machine may differ from it. `None` if the object does
/// not exist.
pub async fn get_at<K: DeserializeOwned>(
    client: &Client,
    path: &str,
) -> Result<(Option<K>, Timestamp), ReadError> {
    let request = Request::get(path).body(Body::empty());
    let request = request.map_err(|error| error.to_string())?;
    let answer = client.send(request).await?;
    let (status, date) = (
        answer.status(),
        answer.headers().get(http::header::DATE).cloned(),
    );
    let body = answer.into_body().collect().await?.to_bytes();
    let date = date.as_ref().and_then(|date| date.to_str().ok());
    let now = date.and_then(|date| rfc2822::parse(date).ok());
    let now = now.map_or_else(timing::now, |zoned| zoned.timestamp());
    if status.is_success() {
        let object = serde_json::from_slice(&body);
        return Ok((
            Some(object.map_err(|error| in_brief(&error.to_string()))?),
            now,
        ));
    }
    if status == StatusCode::NOT_FOUND {
        return Ok((None, now));
    }
    let told = serde_json::from_slice::<Status>(&body).unwrap_or_default();
    let text = match in_brief(&told.message) {
        message if message.is_empty() => format!("HTTP status {status}"),
        message => message,
    };
    let kind = ReadErrorKind::of_status(status.as_u16());
    Err(ReadError::new(kind, text))
}

/// Whether an API server serves a kind.
pub async fn is_served(client: &Client, api_version: &str, kind: &str) -> kube::Result<bool> {
    match client.list_api_group_resources(api_version).await {
        Ok(list) => Ok(list.resources.iter().any(|known| known.kind == kind)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}

/// The version in which an API server serves a kind of routes: the first of those that can be read. `None` if it serves
/// none of them.
pub async fn served_version(
    client: &Client,
    kind: RouteKind,
) -> kube::Result<Option<&'static str>> {
    for version in kind.versions() {
        let api_version = format!("{}/{version}", kind.group());
        if is_served(client, &api_version, kind.kind()).await? {
            return Ok(Some(version));
        }
    }
    Ok(None)
}

/// The `continue` token for the next page of a list, if there is one.
pub fn next_page(page: ListMeta) -> Option<String> {
    page.continue_.filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use futures::{StreamExt as _, stream};
    use http::Response;
    use http_body_util::StreamBody;
    use hyper::body::{Bytes, Frame};
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::{Value, json};
    use tower::BoxError;

    use super::*;
    use crate::of_test_server;

    /// A page with these objects, and the `continue` token for the next page.
    fn page(names: &[&str], next: &str) -> (u16, Value) {
        let items: Vec<_> = names
            .iter()
            .map(|name| json!({ "metadata": { "name": name } }))
            .collect();
        let page = json!({
            "kind": "ConfigMapList", "apiVersion": "v1",
            "metadata": { "resourceVersion": "7", "continue": next }, "items": items,
        });
        (200, page)
    }

    fn status(code: u16, message: &str) -> (u16, Value) {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": "", "code": code,
        });
        (code, status)
    }

    /// Lists from a server that gives these responses. Returns the names in the list, and the queries of the requests.
    async fn listed(
        selector: &str,
        answers: Vec<(u16, Value)>,
    ) -> (Result<Vec<String>, String>, Vec<String>) {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        // Each request clones what it is answered by.
        let (seen, answers) = (asked.clone(), Arc::new(answers));
        let server = move |request: Request<Body>| {
            let mut seen = seen.lock().unwrap();
            let (code, body) = &answers[seen.len()];
            let query = request.uri().query().unwrap_or_default();
            seen.push(query.trim_start_matches('&').to_owned());
            let body = Bytes::from(body.to_string());
            let body = StreamBody::new(stream::iter([Ok(Frame::data(body))]).boxed());
            let answer = Response::builder().status(*code).body(body).unwrap();
            async { Ok::<_, BoxError>(answer) }
        };
        let api: Api<ConfigMap> = Api::all(of_test_server(server));
        let found = list_all(&api, selector).await;
        let found = found.map(|all| all.into_iter().filter_map(|map| map.metadata.name));
        let asked = asked.lock().unwrap().clone();
        (
            found
                .map(Iterator::collect)
                .map_err(|error| explain(&error)),
            asked,
        )
    }

    #[tokio::test]
    async fn lists_are_complete_even_if_pages_expire() {
        let gone = || status(410, "the continue parameter is too old");
        for (answers, expected, queries) in [
            (
                vec![page(&["a", "b"], "")],
                Ok(vec!["a", "b"]),
                vec!["limit=500"],
            ),
            (
                vec![page(&["a"], "x"), page(&[], "y"), page(&["b"], "")],
                Ok(vec!["a", "b"]),
                vec!["limit=500", "limit=500&continue=x", "limit=500&continue=y"],
            ),
            (
                vec![page(&["a"], "x"), gone(), page(&["c", "d"], "")],
                Ok(vec!["c", "d"]),
                vec!["limit=500", "limit=500&continue=x", ""],
            ),
            (
                vec![gone()],
                Err("the continue parameter is too old"),
                vec!["limit=500"],
            ),
            (
                vec![page(&["a"], "x"), gone(), gone()],
                Err("the continue parameter is too old"),
                vec!["limit=500", "limit=500&continue=x", ""],
            ),
            (
                vec![page(&["a"], "x"), status(403, "no\n\u{1b}[2J way")],
                Err("no [2J way"),
                vec!["limit=500", "limit=500&continue=x"],
            ),
        ] {
            let (found, asked) = listed("", answers).await;
            let expected = expected.map(|names| names.into_iter().map(str::to_owned).collect());
            assert_eq!(found, expected.map_err(str::to_owned));
            assert_eq!(asked, queries);
        }
        let (_, asked) = listed("a=b", vec![page(&[], "")]).await;
        assert_eq!(asked, ["labelSelector=a%3Db&limit=500"]);
    }

    #[tokio::test]
    async fn list_that_does_not_end_is_given_up() {
        let endless = |names: &[&str]| vec![page(names, "x"); PAGES + 1];
        for (names, pages) in [(&[][..], EMPTY_PAGES + 1), (&["a"], PAGES)] {
            let (found, asked) = listed("", endless(names)).await;
            assert_eq!(found, Err("the list does not end".to_owned()));
            assert_eq!(asked.len(), pages);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_time_out_at_the_deadline() {
        let refused = async {
            let status = Status::failure("no\nway", "Forbidden").with_code(403);
            Err::<(), _>(kube::Error::Api(Box::new(status)))
        };
        match request(refused).await {
            Err(RequestError::Status(status)) => assert_eq!(status.message, "no way"),
            other => panic!("{other:?}"),
        }
        let never = std::future::pending::<kube::Result<()>>;
        for (answer, expected) in [
            (request(never()).await, "timed out after 30 s"),
            (
                within(Duration::from_millis(2500), never()).await,
                "timed out after 2.5 s",
            ),
        ] {
            match answer {
                Err(RequestError::Unanswered(why)) => assert_eq!(why.text(), expected),
                other => panic!("{other:?}"),
            }
        }
        assert!(request(async { Ok(()) }).await.is_ok());
    }
}
