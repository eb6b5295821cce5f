//! Samples of what the page shows, for tests.

#![expect(clippy::unwrap_used, reason = "only tests have this module")]

use hints::suggest::ClusterFlags;
use jiff::{SignedDuration, Timestamp};
use observe::{
    clusters::{
        fixtures::federated,
        leader::Leader,
        link_state::LinkStanding,
        link_summary::{GatewaySummary, LinkSummary},
        preference_status::PreferenceStatus,
        service_rows::{CountOutput, ServiceRow},
        shown_mode::ShownMode,
        topology::{ClusterNode, Edge, Topology},
    },
    finding::{Finding, causes::Cause},
    timeline::{Happened, Timeline},
    traffic::{ServedBy, TrafficRow},
};

use crate::facts::{ControllerFacts, PageFacts};

/// The time at which all of this is read.
pub fn now() -> Timestamp {
    "2026-01-01T00:30:00Z".parse().unwrap()
}

fn ago(minutes: i64) -> Timestamp {
    now() - SignedDuration::from_mins(minutes)
}

fn node(name: &str, reachable: Option<bool>) -> ClusterNode {
    ClusterNode {
        name: name.to_owned(),
        flags: ClusterFlags::of_context(name),
        reachable,
        error: (reachable == Some(false)).then(|| "no answer within 10 s".to_owned()),
        trust_anchors: (reachable == Some(true))
            .then(|| vec!["CN=root.linkerd.cluster.local, until 2027-03-01".to_owned()]),
    }
}

/// A Link that is well.
fn edge(source: &str, target: &str, latency: i64) -> Edge {
    Edge {
        source: source.to_owned(),
        target: target.to_owned(),
        one_way: Some(false),
        shares_trust_anchors: Some(true),
        in_file: None,
        link: LinkSummary {
            cluster: target.to_owned(),
            namespace: "linkerd-multicluster".to_owned(),
            name: target.to_owned(),
            ready: Some(true),
            connected: Some(true),
            credentials_valid: Some(true),
            credentials_expire: Some(now() + SignedDuration::from_hours(24 * (20 + 9 * latency))),
            mirrored: 12,
            federated: 2,
            gateway: Some(GatewaySummary {
                alive: Some(true),
                since: Some(ago(600)),
                latency_ms: Some(latency),
                ..GatewaySummary::default()
            }),
            last_change: Some(ago(47)),
            controller: Some(Leader {
                active: true,
                ..Leader::default()
            }),
            ..LinkSummary::default()
        },
    }
}

fn service(cluster: &str, name: &str, mode: ShownMode, from: &[&str]) -> ServiceRow {
    ServiceRow {
        context: cluster.to_owned(),
        namespace: "shop".to_owned(),
        service: Some(name.to_owned()),
        mode: Some(mode),
        from: from.iter().map(|from| (*from).to_owned()).collect(),
        endpoints: (mode == ShownMode::Gateway).then_some(CountOutput { ready: 1, total: 1 }),
        healthy: Some(true),
        ..ServiceRow::default()
    }
}

fn requests(service: &str, cluster: Option<&str>, rate: f64, success: f64) -> TrafficRow {
    TrafficRow {
        context: "west".to_owned(),
        namespace: "shop".to_owned(),
        service: service.to_owned(),
        served: ServedBy {
            cluster: cluster.map(str::to_owned),
            without_endpoint: cluster.is_none(),
        },
        requests: rate * 10.0,
        requests_per_second: rate,
        success_rate: Some(success),
        p99_ms: Some(23.0),
        ..TrafficRow::default()
    }
}

fn happened(minutes: i64, cluster: &str, about: &str, what: &str) -> Happened {
    Happened {
        at: ago(minutes),
        cluster: cluster.to_owned(),
        about: about.to_owned(),
        what: what.to_owned(),
    }
}

/// Three clusters. The gateway of `north` is dead, and `web-federated` has failed over.
pub fn few() -> PageFacts {
    let mut dead = edge("west", "north", 0);
    dead.link.gateway.as_mut().unwrap().alive = Some(false);
    dead.link.gateway.as_mut().unwrap().since = Some(ago(4));
    dead.link.last_change = Some(ago(4));
    let links = vec![
        edge("west", "east", 3),
        dead,
        edge("east", "west", 4),
        edge("north", "west", 9),
    ];
    let mut web = service(
        "west",
        "web-federated",
        ShownMode::Federated,
        &["web@(local)", "web@east", "web@west"],
    );
    web.preferred = PreferenceStatus::of(&federated("local,east", "local=2026-01-01T00:24:00Z/.."));
    web.from = vec!["web@(local)".to_owned(), "web@east".to_owned()];
    let cart = service(
        "west",
        "cart-federated",
        ShownMode::Federated,
        &["cart@(local)", "cart@east", "cart@north"],
    );
    let flags = ClusterFlags::of_context("west");
    let problems = vec![
        Finding::broken(
            Cause::ProbesFail,
            "the gateway at 192.0.2.7 port 4191 fails probes since 2026-01-01 00:26:00 UTC: connection refused; check \
             its Pods and the firewall",
        )
        .of("west → north")
        .since(Some(ago(4)))
        .fixed_by(&flags.mc("diagnose {}/{}", &["shop", "auth-north"])),
        Finding::warning(
            "prefers local,east; failed over to east: local became unavailable at 2026-01-01 00:24:00 UTC",
        )
        .of("west: shop/web-federated")
        .since(Some(ago(6)))
        .fixed_by(&flags.mc("diagnose {}/{}", &["shop", "web-federated"])),
    ];
    let mut facts = PageFacts {
        read: now(),
        old_after: 30,
        title: "west, east, north".to_owned(),
        flags: ClusterFlags::of_context("west,east,north"),
        states: vec![
            (LinkStanding::Ready, None),
            (
                LinkStanding::DeadGateway,
                Some("connection refused".to_owned()),
            ),
            (LinkStanding::Ready, None),
            (
                LinkStanding::Drained,
                Some("drained until 2026-01-01 04:00:00 UTC".to_owned()),
            ),
        ],
        topology: Topology {
            clusters: ["west", "east", "north"]
                .map(|name| node(name, Some(true)))
                .into(),
            links,
            missing: None,
        },
        services: vec![
            web,
            cart,
            service("west", "db-east", ShownMode::Gateway, &["db@east"]),
            service("west", "auth-north", ShownMode::Gateway, &["auth@north"]),
        ],
        problems,
        timeline: Timeline {
            happened: vec![
                happened(
                    4,
                    "west",
                    "Link linkerd-multicluster/north",
                    "GatewayAlive became False: ProbeFailed: connection refused by 192.0.2.7",
                ),
                happened(
                    6,
                    "west",
                    "Service shop/web-federated",
                    "failed over from local to east",
                ),
                happened(
                    47,
                    "west",
                    "Link linkerd-multicluster/east",
                    "changed by linkerd-mc",
                ),
                happened(
                    180,
                    "north",
                    "Link linkerd-multicluster/west",
                    "drained by linkerd-mc",
                ),
            ],
            unseen: Vec::new(),
        },
        controllers: ["west", "east", "north"]
            .map(|cluster| ControllerFacts {
                cluster: cluster.to_owned(),
                namespace: Some("linkerd-multicluster".to_owned()),
                version: Some("0.1.0".to_owned()),
                error: None,
            })
            .into(),
        ..PageFacts::default()
    };
    for sample in 0..20_u8 {
        let wave = f64::from(sample % 7) + 8.0;
        facts.traffic.add(vec![
            requests("web-federated", Some("east"), wave * 2.0, 0.9999),
            requests("cart-federated", Some("local"), wave, 1.0),
            requests("cart-federated", Some("east"), wave / 2.0, 0.998),
            requests("auth-north", None, 1.5, 0.0),
        ]);
    }
    facts
}

/// As [`few`], but `east` does not answer any more.
pub fn unanswered() -> PageFacts {
    let mut facts = few();
    facts.topology.clusters[1] = node("east", Some(false));
    facts.unanswered.insert("east".to_owned(), Some(ago(3)));
    let error = "cannot list Links: no answer within 10 s";
    let unread = Finding::from(error).of("east").since(Some(ago(3)));
    let check = ClusterFlags::of_context("east").mc("check", &[]);
    facts.problems.insert(0, unread.fixed_by(&check));
    facts.unseen = vec!["requests of north: you may not list Pods".to_owned()];
    facts
}

/// No cluster answers, nor ever has.
pub fn silent() -> PageFacts {
    let clusters = ["west", "east", "north"].map(|name| node(name, Some(false)));
    let problems = clusters.iter().map(|node| {
        let unread = Finding::from("cannot list Links: no answer within 10 s").of(&node.name);
        unread.fixed_by(&node.flags.mc("check", &[]))
    });
    PageFacts {
        problems: problems.collect(),
        unanswered: clusters
            .iter()
            .map(|node| (node.name.clone(), None))
            .collect(),
        services: Vec::new(),
        timeline: Timeline::default(),
        controllers: Vec::new(),
        states: Vec::new(),
        topology: Topology {
            clusters: clusters.into(),
            ..Topology::default()
        },
        traffic: crate::facts::Traffic::default(),
        ..few()
    }
}

/// All clusters answer, and the user may read Links alone.
pub fn forbidden() -> PageFacts {
    let mut facts = few();
    facts.services.clear();
    facts.traffic = crate::facts::Traffic::default();
    facts.unseen = vec!["you may not list Services in west".to_owned()];
    facts.traffic.unseen = vec!["requests of west: you may not list Pods".to_owned()];
    facts.timeline = Timeline {
        happened: Vec::new(),
        unseen: vec!["you may not list Events in west".to_owned()],
    };
    for controller in &mut facts.controllers {
        controller.version = None;
        controller.error = Some("you may not list Deployments".to_owned());
    }
    facts
}

/// So many clusters, each of which links to ten others, with so many mirrors in all.
pub fn many(clusters: usize, mirrors: usize) -> PageFacts {
    let name = |at: usize| format!("prod-eu-{:02}", at % clusters);
    let mut facts = PageFacts {
        read: now(),
        old_after: 120,
        title: "production".to_owned(),
        ..PageFacts::default()
    };
    facts.topology.clusters = (0..clusters)
        .map(|at| node(&name(at), Some(true)))
        .collect();
    for source in 0..clusters {
        for step in 1..=10 {
            let mut link = edge(&name(source), &name(source + 7 * step), 3);
            let state = match (source * 10 + step) % 97 {
                0 => LinkStanding::DeadGateway,
                1 => LinkStanding::Incomplete,
                2 => LinkStanding::Old,
                3 => LinkStanding::Drained,
                _ => LinkStanding::Ready,
            };
            if state == LinkStanding::DeadGateway {
                link.link.gateway.as_mut().unwrap().alive = Some(false);
            }
            facts.topology.links.push(link);
            facts.states.push((state, None));
        }
    }
    facts.services = (0..mirrors)
        .map(|at| {
            let (source, target) = (name(at), name(at + 1));
            let mirror = format!("service-{at}-{target}");
            service(
                &source,
                &mirror,
                ShownMode::Gateway,
                &[&format!("service-{at}@{target}")],
            )
        })
        .collect();
    facts
}

/// A text with markup, quotes and control characters.
pub const HOSTILE: &str =
    "<img src=x onerror=\"document.title='taken'\">'\u{1b}[31m\u{202e}&amp;\n</script>";

/// As [`few`], with a hostile text in all that clusters can say.
pub fn hostile() -> PageFacts {
    let mut facts = few();
    let text = || HOSTILE.to_owned();
    facts.title = text();
    for node in &mut facts.topology.clusters {
        node.error = Some(text());
        node.name = text();
    }
    for edge in &mut facts.topology.links {
        edge.source = text();
        edge.target = text();
        edge.link.cluster = text();
        edge.link.name = text();
    }
    for (_, problem) in &mut facts.states {
        *problem = Some(text());
    }
    facts.unanswered.insert(text(), Some(ago(3)));
    for row in &mut facts.services {
        row.context = text();
        row.namespace = text();
        row.service = Some(text());
        row.message = Some(text());
        row.from = vec![format!("{HOSTILE}@{HOSTILE}")];
    }
    let flags = ClusterFlags::of_context(HOSTILE);
    facts.problems = vec![
        Finding::from(HOSTILE)
            .of(HOSTILE)
            .fixed_by(&flags.mc("diagnose {}/{}", &[HOSTILE, HOSTILE])),
    ];
    facts
        .timeline
        .add(HOSTILE, vec![happened(1, "", HOSTILE, HOSTILE)], &[text()]);
    facts.unseen = vec![text()];
    facts.traffic.unseen = vec![text()];
    for controller in &mut facts.controllers {
        controller.cluster = text();
        controller.version = Some(text());
    }
    facts
}
