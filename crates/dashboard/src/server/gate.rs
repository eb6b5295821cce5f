//! Which requests are answered. Pure.
//!
//! A browser sends requests to this machine for any page that it has open. A page of another origin cannot know the random
//! path, cannot choose `Host`, and cannot hide its `Origin`: each of these is enough to refuse it.

use http::{HeaderMap, Method, Request, StatusCode, Uri, header};
use percent_encoding::percent_decode_str;

use crate::facts::NamedService;

/// Longest text that is searched for.
const LONGEST: usize = 256;

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageRoute {
    /// The page.
    Page,
    /// The changes of the page.
    Events,
    /// Services whose names have this text.
    Search(String),
    /// All about a Service.
    Service(NamedService),
    /// Why requests to a Service fail.
    Diagnosis(NamedService),
}

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestRefusal {
    /// Nothing can be changed.
    Method,
    /// The request is for another name, which somebody let point to this machine.
    Host,
    /// A page of another origin sent it.
    Origin,
    /// There is nothing at this path.
    Path,
}

impl RequestRefusal {
    /// The status and the text of the answer.
    pub fn answer(self) -> (StatusCode, &'static str) {
        match self {
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n"),
            Self::Host => (StatusCode::MISDIRECTED_REQUEST, "another host\n"),
            Self::Origin => (StatusCode::FORBIDDEN, "another origin\n"),
            Self::Path => (StatusCode::NOT_FOUND, "not found\n"),
        }
    }
}

/// Where the page is served.
#[derive(Clone, Debug)]
pub struct RequestGate {
    /// The address with its port, as `Host` has it.
    host: String,
    /// The random part of the path.
    secret: String,
}

impl RequestGate {
    /// The gate of a server at this address.
    pub fn new(host: String, secret: String) -> Self {
        Self { host, secret }
    }

    /// The address of the page.
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.host, self.secret)
    }

    /// What a request asks for, if it may.
    pub fn admit<B>(&self, request: &Request<B>) -> Result<PageRoute, RequestRefusal> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Err(RequestRefusal::Method);
        }
        if !self.is_for_this_host(request.uri(), request.headers()) {
            return Err(RequestRefusal::Host);
        }
        if !self.is_of_this_origin(request.headers()) {
            return Err(RequestRefusal::Origin);
        }
        self.route(request.uri()).ok_or(RequestRefusal::Path)
    }

    fn is_for_this_host(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let named = uri.authority().is_none_or(|named| *named == *self.host);
        let hosts: Vec<_> = headers.get_all(header::HOST).iter().collect();
        named && matches!(hosts.as_slice(), [host] if **host == *self.host)
    }

    fn is_of_this_origin(&self, headers: &HeaderMap) -> bool {
        let own = format!("http://{}", self.host);
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let mut sites = headers.get_all("sec-fetch-site").iter();
        // `none`: somebody typed or opened the address.
        origins.all(|origin| *origin == own)
            && sites.all(|site| *site == "same-origin" || *site == "none")
    }

    fn route(&self, uri: &Uri) -> Option<PageRoute> {
        let mut parts = uri.path().strip_prefix('/')?.split('/');
        if !is_equal(parts.next()?, &self.secret) {
            return None;
        }
        let rest: Option<Vec<String>> = parts.map(decoded).collect();
        match rest?.as_slice() {
            [page] if page.is_empty() => Some(PageRoute::Page),
            [events] if events == "events" => Some(PageRoute::Events),
            [search] if search == "search" => {
                let text = uri.query().and_then(|query| query.strip_prefix("q="))?;
                Some(PageRoute::Search(decoded(text)?))
            }
            [kind, cluster, namespace, name] => {
                let service = NamedService {
                    cluster: cluster.clone(),
                    namespace: namespace.clone(),
                    name: name.clone(),
                };
                match kind.as_str() {
                    "service" => Some(PageRoute::Service(service)),
                    "diagnosis" => Some(PageRoute::Diagnosis(service)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// A part of a path without its percent encoding; `None` if it is no text, or too long.
fn decoded(part: &str) -> Option<String> {
    let text = percent_decode_str(part).decode_utf8().ok()?;
    (text.len() <= LONGEST).then(|| text.into_owned())
}

/// Whether two texts are equal, in a time that does not tell where they differ.
fn is_equal(one: &str, other: &str) -> bool {
    let pairs = one.bytes().zip(other.bytes());
    one.len() == other.len() && pairs.fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "127.0.0.1:8084";

    fn admit(line: &str, headers: &[(&str, &str)]) -> Result<PageRoute, RequestRefusal> {
        let (method, uri) = line.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        RequestGate::new(HOST.to_owned(), "s3cret".to_owned()).admit(&request.body(()).unwrap())
    }

    #[test]
    fn requests_of_the_page_itself_are_answered() {
        let web = || NamedService {
            cluster: "admin@east/1".to_owned(),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
        };
        for (line, route) in [
            ("GET /s3cret/", PageRoute::Page),
            ("HEAD /s3cret/", PageRoute::Page),
            ("GET /s3cret/?x", PageRoute::Page),
            ("GET http://127.0.0.1:8084/s3cret/", PageRoute::Page),
            ("GET /s3cret/events", PageRoute::Events),
            (
                "GET /s3cret/search?q=a%2Fb",
                PageRoute::Search("a/b".to_owned()),
            ),
            (
                "GET /s3cret/service/admin%40east%2F1/shop/web",
                PageRoute::Service(web()),
            ),
            (
                "GET /s3cret/diagnosis/admin%40east%2F1/shop/web",
                PageRoute::Diagnosis(web()),
            ),
        ] {
            assert_eq!(admit(line, &[("host", HOST)]), Ok(route), "{line}");
        }
    }

    #[test]
    fn all_others_are_refused() {
        let own = ("host", HOST);
        let page = "GET /s3cret/";
        for (line, headers, refusal) in [
            ("POST /s3cret/", &[own][..], RequestRefusal::Method),
            ("PUT /s3cret/", &[own], RequestRefusal::Method),
            ("OPTIONS /s3cret/", &[own], RequestRefusal::Method),
            ("TRACE /s3cret/", &[own], RequestRefusal::Method),
            ("GET2 /s3cret/", &[own], RequestRefusal::Method),
            (page, &[], RequestRefusal::Host),
            (page, &[own, own], RequestRefusal::Host),
            (page, &[("host", "localhost:8084")], RequestRefusal::Host),
            (page, &[("host", "127.0.0.1")], RequestRefusal::Host),
            (page, &[("host", "127.0.0.1:80845")], RequestRefusal::Host),
            (
                page,
                &[("host", "rebound.example:8084")],
                RequestRefusal::Host,
            ),
            (
                page,
                &[("host", "127.0.0.1:8084.evil.example")],
                RequestRefusal::Host,
            ),
            (
                "GET http://evil.example/s3cret/",
                &[own],
                RequestRefusal::Host,
            ),
            (
                page,
                &[own, ("origin", "http://evil.example")],
                RequestRefusal::Origin,
            ),
            (page, &[own, ("origin", "null")], RequestRefusal::Origin),
            (
                page,
                &[own, ("origin", "https://127.0.0.1:8084")],
                RequestRefusal::Origin,
            ),
            (
                page,
                &[own, ("origin", "http://127.0.0.1:8085")],
                RequestRefusal::Origin,
            ),
            (
                page,
                &[own, ("sec-fetch-site", "cross-site")],
                RequestRefusal::Origin,
            ),
            (
                page,
                &[own, ("sec-fetch-site", "same-site")],
                RequestRefusal::Origin,
            ),
            ("GET /", &[own], RequestRefusal::Path),
            ("GET /s3cret", &[own], RequestRefusal::Path),
            ("GET /s3cre/", &[own], RequestRefusal::Path),
            ("GET /s3cret2/", &[own], RequestRefusal::Path),
            ("GET /S3CRET/", &[own], RequestRefusal::Path),
            ("GET //s3cret/", &[own], RequestRefusal::Path),
            ("GET /s3cret/../s3cret/", &[own], RequestRefusal::Path),
            ("GET /s3cret/search", &[own], RequestRefusal::Path),
            ("GET /s3cret/search?q=%ff", &[own], RequestRefusal::Path),
            (
                "GET /s3cret/service/east/shop",
                &[own],
                RequestRefusal::Path,
            ),
            (
                "GET /s3cret/secret/east/shop/web",
                &[own],
                RequestRefusal::Path,
            ),
            ("GET /favicon.ico", &[own], RequestRefusal::Path),
        ] {
            assert_eq!(admit(line, headers), Err(refusal), "{line} {headers:?}");
        }
        let long = format!("GET /s3cret/search?q={}", "a".repeat(LONGEST + 1));
        assert_eq!(admit(&long, &[own]), Err(RequestRefusal::Path));
    }
}
