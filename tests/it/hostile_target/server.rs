//! A hostile API server that speaks the protocol of lists and watches. Its behaviour depends on its conduct and a seed.

use std::{
    sync::{
        Arc, LazyLock, Mutex, Once,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use control_plane::{Asked, ControlPlane, Interceptor, Pieces, Verdict};
use fastrand::Rng;
use hyper::body::Bytes;
use rustix::process::nice;
use serde_json::json;
use tokio::{sync::mpsc::Sender, time::interval};

use super::conduct::Conduct;

/// Text in refusals, after a line break. It looks like a line of the log.
pub(super) const FORGED: &str = "2026-01-01T00:00:00Z ERROR forged";

/// Time between two pieces of a slow list.
const DRIP: Duration = Duration::from_millis(300);
/// Time between two withdrawals.
const WITHDRAWAL: Duration = Duration::from_millis(100);
/// Size of the annotations of each Service of [`Conduct::EndlessAdded`].
const ADDED: usize = 64 << 10;
/// Size of the annotations of each Service of [`Conduct::GiantAnnotations`].
const GIANT: usize = 200 << 10;
/// Size of the annotations of each Service of [`Conduct::HugePages`]: nearly the maximum in Kubernetes.
const LARGEST: usize = (256 << 10) - 1024;
/// Maximum number of Services on a huge page. Half of the answers have more if the client asks for more.
const HUGE_PAGE: usize = 240;
/// Number of Services on all huge pages together.
pub(super) const HUGE_LIST: usize = 480;

/// A hostile API server. When dropped, it ends and sends nothing more.
pub(super) struct HostileTarget {
    pub(super) conduct: Conduct,
    interceptor: Interceptor,
}

impl HostileTarget {
    /// Starts a hostile API server, with a certificate that the authority of `plane` signed.
    pub(super) fn start(plane: &ControlPlane, conduct: Conduct, seed: u64) -> Self {
        let interceptor = plane.intercept(None).unwrap();
        let server = Arc::new(Server::new(conduct, seed));
        // The server has the lowest priority. In reality, it would run on a machine of its own, and would not compete
        // with the other clusters for processors.
        let yields = Once::new();
        interceptor.judge(move |asked| {
            yields.call_once(|| {
                nice(19).unwrap();
            });
            server.answer(asked)
        });
        Self {
            conduct,
            interceptor,
        }
    }

    /// The address on which it listens.
    pub(super) fn url(&self) -> String {
        self.interceptor.url()
    }
}

struct Server {
    conduct: Conduct,
    random: Mutex<Rng>,
    version: AtomicU64,
    services: Mutex<Vec<Exported>>,
}

/// A Service that is withdrawn and exported again, or changed.
#[derive(Clone, Copy)]
struct Exported {
    is_exported: bool,
    /// Current values of a label and of an annotation.
    revisions: [u64; 2],
}

impl Server {
    fn new(conduct: Conduct, seed: u64) -> Self {
        let services = match conduct {
            Conduct::HungGets | Conduct::RefusedGets => 100,
            Conduct::GiantAnnotations => 50,
            Conduct::LabelStorm => 20,
            _ => 0,
        };
        let exported = Exported {
            is_exported: true,
            revisions: [0; 2],
        };
        Self {
            conduct,
            random: Mutex::new(Rng::with_seed(seed ^ conduct as u64)),
            version: AtomicU64::new(1),
            services: Mutex::new(vec![exported; services]),
        }
    }

    fn answer(self: &Arc<Self>, asked: &Asked) -> Verdict {
        let path = asked.uri.path();
        let query = asked.uri.query().unwrap_or_default();
        if path == "/version" {
            return json_answer(200, &version());
        }
        if !asked.method.is_safe() {
            return self.refusal(403);
        }
        let is_slices = path.ends_with("/endpointslices");
        if !is_slices && !path.ends_with("/services") {
            return self.get(path);
        }
        // Requests with the selector of federated Services get no objects. The selector for export is enough here.
        if query.contains("federated") {
            return if asked.watches() {
                silent()
            } else {
                empty(is_slices)
            };
        }
        if asked.watches() {
            self.watch(is_slices)
        } else {
            self.lists(is_slices, query)
        }
    }

    fn lists(self: &Arc<Self>, is_slices: bool, query: &str) -> Verdict {
        match self.conduct {
            Conduct::DrippingLists => self.drip(is_slices),
            Conduct::RefusedLists if self.random.lock().unwrap().bool() => self.refused(),
            Conduct::HugePages if !is_slices => self.huge_page(query),
            _ if is_slices => empty(is_slices),
            _ => self.page(query),
        }
    }

    fn watch(self: &Arc<Self>, is_slices: bool) -> Verdict {
        match self.conduct {
            Conduct::EndlessAdded => self.stream(move |server, to| server.add(is_slices, to)),
            Conduct::RefusedLists => self.refused(),
            Conduct::HugePages if !is_slices => self.refusal(410),
            Conduct::HungGets | Conduct::RefusedGets if !is_slices => self.stream(Self::withdraw),
            Conduct::GiantAnnotations if !is_slices => {
                self.stream(|server, to| server.change(Duration::from_millis(10), to))
            }
            Conduct::LabelStorm if !is_slices => {
                self.stream(|server, to| server.change(Duration::from_millis(5), to))
            }
            _ => silent(),
        }
    }

    /// Answers a GET of one Service.
    fn get(&self, path: &str) -> Verdict {
        match self.conduct {
            Conduct::HungGets => Verdict::Hold,
            Conduct::RefusedGets => self.refused(),
            _ => {
                let number = path
                    .rsplit('-')
                    .next()
                    .and_then(|number| number.parse().ok());
                let services = self.services.lock().unwrap();
                let service = number.and_then(|n: usize| Some((n, *services.get(n)?)));
                drop(services);
                match service {
                    Some((number, service)) => {
                        Verdict::Answer(200, json_header(), self.service(number, service))
                    }
                    None => self.refusal(404),
                }
            }
        }
    }

    /// A page of exported Services, with as many as the client asks for.
    fn page(&self, query: &str) -> Verdict {
        let services = self.services.lock().unwrap().clone();
        let begin = number(query, "continue=").unwrap_or_default();
        let asked = number(query, "limit=").unwrap_or(services.len());
        let end = (begin + asked).min(services.len());
        let items = services.iter().enumerate().take(end).skip(begin);
        let items: Vec<String> = items
            .filter(|(_, service)| service.is_exported)
            .map(|(number, service)| self.service(number, *service))
            .collect();
        let version = self.version.load(Ordering::SeqCst);
        let next = if end < services.len() {
            end.to_string()
        } else {
            String::new()
        };
        let text = format!("{}{}]}}", head(false, version, &next), items.join(","));
        Verdict::Answer(200, json_header(), text)
    }

    fn drip(self: &Arc<Self>, is_slices: bool) -> Verdict {
        self.stream(move |_, to| async move {
            let mut drops = interval(DRIP);
            let mut piece = Bytes::from(head(is_slices, 1, ""));
            while to.send(piece).await.is_ok() {
                piece = Bytes::from_static(b" ");
                drops.tick().await;
            }
        })
    }

    /// Pages of 60 MiB. If the client asks for more Services, half of the pages are larger.
    fn huge_page(self: &Arc<Self>, query: &str) -> Verdict {
        let begin = number(query, "continue=").unwrap_or_default();
        let most = if self.random.lock().unwrap().bool() {
            HUGE_PAGE
        } else {
            HUGE_LIST
        };
        let asked = number(query, "limit=").unwrap_or(HUGE_LIST).min(most);
        let end = (begin + asked).min(HUGE_LIST);
        self.stream(move |server, to| async move {
            let next = if end < HUGE_LIST {
                end.to_string()
            } else {
                String::new()
            };
            let mut piece = head(false, 1, &next);
            for number in begin..end {
                piece += &server.object(number, [0; 2], true, LARGEST);
                piece += if number + 1 < end { "," } else { "]}" };
                if to.send(std::mem::take(&mut piece).into()).await.is_err() {
                    return;
                }
            }
        })
    }

    /// Sends new objects without end.
    async fn add(self: Arc<Self>, is_slices: bool, to: Sender<Bytes>) {
        let mut ticks = interval(Duration::from_millis(10));
        for number in 0.. {
            ticks.tick().await;
            let object = if is_slices {
                self.slice(number)
            } else {
                self.object(number, [0; 2], true, ADDED)
            };
            if to.send(event("ADDED", &object)).await.is_err() {
                return;
            }
        }
    }

    /// Withdraws Services, one after the other, and then exports them again.
    async fn withdraw(self: Arc<Self>, to: Sender<Bytes>) {
        let mut ticks = interval(WITHDRAWAL);
        let count = self.services.lock().unwrap().len();
        for number in (0..count).cycle() {
            ticks.tick().await;
            if to.send(self.flip(number)).await.is_err() {
                return;
            }
        }
    }

    /// Changes random Services at this interval.
    async fn change(self: Arc<Self>, every: Duration, to: Sender<Bytes>) {
        let mut ticks = interval(every);
        loop {
            ticks.tick().await;
            if to.send(self.changed()).await.is_err() {
                return;
            }
        }
    }

    fn changed(&self) -> Bytes {
        let mut random = self.random.lock().unwrap();
        let mut services = self.services.lock().unwrap();
        let number = random.usize(..services.len());
        let service = &mut services[number];
        let flips = self.conduct == Conduct::LabelStorm && random.u8(..10) == 0;
        if flips || !service.is_exported {
            drop(services);
            drop(random);
            return self.flip(number);
        }
        service.revisions[random.usize(..2)] += 1;
        let service = *service;
        drop(services);
        drop(random);
        event("MODIFIED", &self.service(number, service))
    }

    /// Withdraws a Service, or exports it again.
    fn flip(&self, number: usize) -> Bytes {
        let mut services = self.services.lock().unwrap();
        services[number].is_exported ^= true;
        let service = services[number];
        drop(services);
        let what = if service.is_exported {
            "ADDED"
        } else {
            "DELETED"
        };
        event(what, &self.service(number, service))
    }

    fn service(&self, number: usize, service: Exported) -> String {
        let annotations = if self.conduct == Conduct::GiantAnnotations {
            GIANT
        } else {
            100
        };
        self.object(number, service.revisions, service.is_exported, annotations)
    }

    /// A Service in a new version.
    fn object(
        &self,
        number: usize,
        revisions: [u64; 2],
        exported: bool,
        annotations: usize,
    ) -> String {
        let cluster = self.conduct.name();
        let version = self.version.fetch_add(1, Ordering::SeqCst) + 1;
        let exported = if exported { cluster } else { "no" };
        let [label, annotation] = revisions;
        let filler = filler(annotations);
        format!(
            r#"{{"kind":"Service","apiVersion":"v1","metadata":{{"name":"web-{number}","namespace":"{cluster}","uid":"{cluster}-{number}","resourceVersion":"{version}","labels":{{"mirror.linkerd.io/exported":"{exported}","revision":"{label}"}},"annotations":{{"revision":"{annotation}","filler":"{filler}"}}}},"spec":{{"type":"ClusterIP","clusterIP":"10.96.0.9","selector":{{"app":"web"}},"ports":[{{"name":"http","port":80,"protocol":"TCP","targetPort":8080}}]}}}}"#
        )
    }

    fn slice(&self, number: usize) -> String {
        let cluster = self.conduct.name();
        let version = self.version.fetch_add(1, Ordering::SeqCst) + 1;
        let filler = filler(4 << 10);
        format!(
            r#"{{"kind":"EndpointSlice","apiVersion":"discovery.k8s.io/v1","metadata":{{"name":"slice-{number}","namespace":"{cluster}","uid":"{cluster}-slice-{number}","resourceVersion":"{version}","labels":{{"mirror.linkerd.io/exported":"{cluster}","kubernetes.io/service-name":"web-{number}"}},"annotations":{{"filler":"{filler}"}}}},"addressType":"IPv4","endpoints":[{{"addresses":["192.0.2.9"],"conditions":{{"ready":true}}}}],"ports":[{{"name":"http","port":8080,"protocol":"TCP"}}]}}"#
        )
    }

    /// A refusal with one of several status codes.
    fn refused(&self) -> Verdict {
        let code = self
            .random
            .lock()
            .unwrap()
            .choice([401, 403, 403, 403, 422, 500, 503]);
        self.refusal(code.unwrap_or(403))
    }

    /// A refusal with a different text each time.
    fn refusal(&self, code: u16) -> Verdict {
        let mut random = self.random.lock().unwrap();
        let noise: String = std::iter::repeat_with(|| random.alphanumeric())
            .take(64)
            .collect();
        let message = format!("no\n{FORGED} {noise}\r\n\u{1b}[31mred\u{1b}[0m\u{202e}\n");
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": "Forbidden", "code": code,
        });
        json_answer(code, &status)
    }

    fn stream<F>(self: &Arc<Self>, make: impl FnOnce(Arc<Self>, Sender<Bytes>) -> F) -> Verdict
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (to, pieces) = Pieces::channel();
        tokio::spawn(make(self.clone(), to));
        Verdict::Pieces(pieces)
    }
}

/// A watch without events.
fn silent() -> Verdict {
    let (to, pieces) = Pieces::channel();
    tokio::spawn(async move { to.closed().await });
    Verdict::Pieces(pieces)
}

/// An empty list.
fn empty(is_slices: bool) -> Verdict {
    Verdict::Answer(200, json_header(), head(is_slices, 1, "") + "]}")
}

/// The number after this text in a query.
fn number(query: &str, part: &str) -> Option<usize> {
    let value = query.split('&').find_map(|found| found.strip_prefix(part));
    value.and_then(|value| value.parse().ok())
}

fn head(is_slices: bool, version: u64, next: &str) -> String {
    let (kind, api) = if is_slices {
        ("EndpointSlice", "discovery.k8s.io/v1")
    } else {
        ("Service", "v1")
    };
    format!(
        r#"{{"kind":"{kind}List","apiVersion":"{api}","metadata":{{"resourceVersion":"{version}","continue":"{next}"}},"items":["#
    )
}

fn event(what: &str, object: &str) -> Bytes {
    format!("{{\"type\":\"{what}\",\"object\":{object}}}\n").into()
}

/// A text of this length.
fn filler(bytes: usize) -> &'static str {
    static FILLER: LazyLock<String> = LazyLock::new(|| "x".repeat(LARGEST));
    &FILLER[..bytes]
}

fn version() -> serde_json::Value {
    json!({
        "major": "1", "minor": "33", "gitVersion": "v1.33.0", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z", "goVersion": "go1.24", "compiler": "gc", "platform": "linux/amd64",
    })
}

fn json_header() -> Vec<(&'static str, String)> {
    vec![("content-type", "application/json".to_owned())]
}

fn json_answer(code: u16, body: &serde_json::Value) -> Verdict {
    Verdict::Answer(code, json_header(), body.to_string())
}
