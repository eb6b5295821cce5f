//! What is broken right now: the Links, and the requests of the clients, with the worst Service diagnosed. Pure.

mod gateway;

use std::{collections::BTreeSet, fmt::Write as _};

use hints::prose::{counted, listed};
use mirror_core::api::text::one_line;
use serde::Serialize;

use self::gateway::GatewayOutput;
use super::{
    diagnosis::Diagnosis,
    report::{self, DiagnosisOutput},
};
use crate::{
    clusters::{gateway_clients::GatewayActivity, snapshot::Known},
    finding::{Finding, Level},
    timeline::Timeline,
    traffic::FailingGroup,
};

/// Services of a group that are named.
const NAMED: usize = 3;

/// What is broken right now.
pub struct Overview {
    /// The Links of the cluster.
    pub links: Known<LinksSeen>,
    /// The requests of clients.
    pub requests: Known<RequestsSeen>,
    /// Who uses the gateway of this cluster; `None` if it has none.
    pub gateway: Known<Option<GatewayActivity>>,
    /// The Service with the most failures.
    pub worst: Option<WorstService>,
    /// What happened to the Links, the controllers and the gateways of the cluster.
    pub timeline: Timeline,
}

/// The state of the Links.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinksSeen {
    /// How many there are.
    pub all: usize,
    /// How many are ready.
    pub ready: usize,
    /// What is wrong with them, and with their controllers.
    pub findings: Vec<Finding>,
}

/// What clients did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestsSeen {
    /// Running Pods in the mesh.
    pub meshed: usize,
    /// Those whose proxies were read.
    pub read: usize,
    /// Why proxies could not be read: the first reason.
    pub unread: Option<String>,
    /// How long was counted.
    pub seconds: f64,
    /// Requests to mirrors and federated Services that ended.
    pub requests: f64,
    /// Services of which some fail.
    pub failing: Vec<FailingGroup>,
}

/// The Service with the most failures, and why they fail.
pub struct WorstService {
    /// The Pod with the most of them.
    pub from: String,
    /// Why, or why that is not known.
    pub diagnosis: Result<Diagnosis, String>,
}

/// The documented output of `diagnose` without a Service.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OverviewOutput {
    /// Whether nothing that was seen is broken.
    success: bool,
    /// `null` if they could not be read.
    links: Option<LinksSeen>,
    /// `null` if no proxy could be read.
    requests: Option<RequestsSeen>,
    /// `null` if there is none, or it could not be read.
    gateway: Option<GatewayOutput>,
    /// What could not be looked at, and why.
    unseen: Vec<String>,
    worst: Option<WorstOutput>,
    /// What happened in the cluster, newest first.
    timeline: Timeline,
}

#[derive(Serialize)]
struct WorstOutput {
    from: String,
    /// `null` if it could not be diagnosed.
    diagnosis: Option<DiagnosisOutput>,
}

impl LinksSeen {
    /// Where to look first: what all Links have in common is in this cluster.
    fn scope(&self) -> Option<String> {
        let errors = self.findings.iter();
        let errors = errors.filter(|finding| finding.level == Level::Error);
        let failing: BTreeSet<String> = errors.filter_map(|found| found.about.clone()).collect();
        let names = listed(&failing.iter().cloned().collect::<Vec<_>>(), NAMED);
        if failing.is_empty() || self.all < 2 {
            None
        } else if failing.len() >= self.all {
            let all = self.all;
            Some(format!(
                "all {all} Links fail: look in this cluster first, and at its way out"
            ))
        } else {
            let others = counted(self.all - failing.len(), "other Link");
            Some(format!(
                "{others} without an error: look in {names} first, or on the way to it"
            ))
        }
    }

    fn worst(&self) -> Option<Level> {
        self.findings.iter().map(|finding| finding.level).max()
    }
}

impl Overview {
    /// Whether a Link does not work, or none of the requests to a Service succeeds.
    pub fn is_broken(&self) -> bool {
        let of_links = self
            .links
            .as_ref()
            .is_ok_and(|links| links.worst() == Some(Level::Error));
        let groups = self.requests.iter().flat_map(|seen| &seen.failing);
        of_links || groups.into_iter().any(|group| group.all_fail)
    }

    /// The whole time line, with that of the Service.
    pub fn whole_timeline(&self) -> Timeline {
        let mut whole = self.timeline.clone();
        let worst = self.worst.as_ref();
        if let Some(Ok(diagnosis)) = worst.map(|worst| worst.diagnosis.as_ref()) {
            whole.merge(&diagnosis.timeline);
        }
        whole
    }

    fn seen_gateway(&self) -> Option<&GatewayActivity> {
        self.gateway.as_ref().ok()?.as_ref()
    }

    /// What could not be looked at, and why.
    fn unseen(&self) -> Vec<String> {
        let links = self.links.as_ref().err();
        let links = links.map(|why| format!("the Links: {why}"));
        let requests = match &self.requests {
            Err(why) => Some(format!("requests: {why}")),
            Ok(seen) if seen.read < seen.meshed => {
                let why = seen.unread.as_ref().map(|why| format!(": {why}"));
                Some(format!(
                    "requests of {} of {} clients{}",
                    seen.meshed - seen.read,
                    seen.meshed,
                    why.unwrap_or_default()
                ))
            }
            Ok(_) => None,
        };
        let gateway = match &self.gateway {
            Err(why) => Some(format!("the gateway of this cluster: {why}")),
            Ok(activity) => activity.as_ref().and_then(gateway::unseen),
        };
        let worst = self.worst.as_ref();
        let worst = worst.and_then(|worst| worst.diagnosis.as_ref().err());
        links
            .into_iter()
            .chain(requests)
            .chain(gateway)
            .chain(worst.cloned())
            .collect()
    }
}

/// The overview as a document.
pub fn document(overview: &Overview) -> OverviewOutput {
    OverviewOutput {
        success: !overview.is_broken(),
        links: overview.links.as_ref().ok().cloned(),
        requests: overview.requests.as_ref().ok().cloned(),
        gateway: overview.seen_gateway().map(gateway::document),
        unseen: overview
            .unseen()
            .iter()
            .map(|line| one_line(line))
            .collect(),
        worst: overview.worst.as_ref().map(|worst| WorstOutput {
            from: worst.from.clone(),
            diagnosis: worst.diagnosis.as_ref().ok().map(report::document),
        }),
        timeline: overview.timeline.clone(),
    }
}

/// The text of an overview.
pub fn text(overview: &Overview) -> String {
    let mut text = String::new();
    if let Ok(links) = &overview.links {
        let state = match (links.all, links.worst()) {
            (0, None) => "unknown",
            (_, None) => "ok",
            (_, Some(Level::Warning)) => "degraded",
            (_, Some(Level::Error)) => "broken",
        };
        let told = format!("{} of {} are ready", links.ready, links.all);
        report::row(&mut text, state, "links", &told);
        let findings = links.findings.iter().map(Finding::told);
        report::more(&mut text, &findings.collect::<Vec<_>>());
        report::more(&mut text, links.scope().as_slice());
    }
    if let Ok(seen) = &overview.requests {
        requests(&mut text, seen);
    }
    if let Some(activity) = overview.seen_gateway() {
        gateway::row(&mut text, activity);
    }
    for line in overview.unseen() {
        report::row(&mut text, "unknown", "not seen", &line);
    }
    text.push('\n');
    match &overview.worst {
        Some(WorstService {
            from,
            diagnosis: Ok(diagnosis),
        }) => {
            let _ = writeln!(text, "The worst, as {} sees it:\n", one_line(from));
            text.push_str(&report::text(diagnosis));
        }
        _ if overview.is_broken() => {}
        _ => text.push_str("Nothing is broken in what could be looked at.\n"),
    }
    text
}

fn requests(text: &mut String, seen: &RequestsSeen) {
    let failed: f64 = seen.failing.iter().map(FailingGroup::failed).sum();
    let during = format!("{} in {:.0} s", counted(seen.read, "client"), seen.seconds);
    let all_fail = seen.failing.iter().any(|group| group.all_fail);
    let (state, told) = if all_fail {
        ("broken", format!("{failed:.0} failed, of {during}"))
    } else if failed > 0.0 {
        ("degraded", format!("{failed:.0} failed, of {during}"))
    } else if seen.requests > 0.0 {
        let all = seen.requests;
        ("ok", format!("{all:.0} of {during}, and none failed"))
    } else {
        let told = format!("none of {during}: whether they would succeed is not known");
        ("unknown", told)
    };
    report::row(text, state, "requests", &told);
    let groups = seen.failing.iter().map(group);
    report::more(text, &groups.collect::<Vec<_>>());
}

/// A group in one line.
fn group(group: &FailingGroup) -> String {
    let names = group.services.iter();
    let names = names.map(|of| format!("{}/{}", of.service.namespace, of.service.name));
    let names = listed(&names.collect::<Vec<_>>(), NAMED);
    let place = group.cluster.as_ref().map(|name| format!("{name}: "));
    format!(
        "{}{names}: {:.0} of {:.0} requests of {} failed: {}",
        place.unwrap_or_default(),
        group.failed(),
        group.requests(),
        counted(group.clients(), "client"),
        group.kind.words()
    )
}

#[cfg(test)]
mod tests {
    use client::{ReadError, ReadErrorKind};
    use mirror_core::api::metadata::ResourceId;

    use super::*;
    use crate::traffic::{FailingName, FailingService, RequestFailure};

    fn service(name: &str, failed: f64, requests: f64) -> FailingService {
        FailingService {
            service: FailingName {
                namespace: "shop".to_owned(),
                name: name.to_owned(),
            },
            failed,
            requests,
            clients: vec![ResourceId::new("shop", "client-0")],
        }
    }

    fn overview(problems: &[&str], requests: f64, failing: Vec<FailingGroup>) -> Overview {
        Overview {
            links: Ok(LinksSeen {
                all: 2,
                ready: 2 - problems.len(),
                findings: problems.iter().map(|&line| line.into()).collect(),
            }),
            requests: Ok(RequestsSeen {
                meshed: 3,
                read: 3,
                unread: None,
                seconds: 5.0,
                requests,
                failing,
            }),
            gateway: Ok(None),
            worst: None,
            timeline: Timeline::default(),
        }
    }

    fn plain(overview: &Overview) -> String {
        anstream::adapter::strip_str(&text(overview)).to_string()
    }

    #[test]
    fn what_fails_is_named_with_its_cluster_and_its_clients() {
        let failing = FailingGroup {
            cluster: Some("east".to_owned()),
            kind: RequestFailure::NoEndpoint,
            all_fail: true,
            services: ["a", "b", "c", "d"]
                .map(|name| service(name, 3.0, 3.0))
                .into(),
        };
        let overview = overview(&["east: the gateway fails probes"], 12.0, vec![failing]);
        assert!(overview.is_broken());
        insta::assert_snapshot!(plain(&overview), @r"
        × links     1 of 2 are ready
                    east: the gateway fails probes
        × requests  12 failed, of 3 clients in 5 s
                    east: shop/a, shop/b, shop/c and 1 more: 12 of 12 requests of 1 client failed: the clients' proxies have no endpoint
        ");
    }

    #[test]
    fn nothing_is_broken_only_where_something_was_seen() {
        let well = overview(&[], 40.0, Vec::new());
        assert!(!well.is_broken());
        insta::assert_snapshot!(plain(&well), @r"
        √ links     2 of 2 are ready
        √ requests  40 of 3 clients in 5 s, and none failed

        Nothing is broken in what could be looked at.
        ");
        let mut silent = overview(&[], 0.0, Vec::new());
        if let Ok(seen) = &mut silent.requests {
            (seen.read, seen.unread) = (1, Some("a/b: timed out".to_owned()));
        }
        silent.links = Err(ReadError::new(ReadErrorKind::Forbidden, "forbidden"));
        insta::assert_snapshot!(plain(&silent), @r"
        - requests  none of 1 client in 5 s: whether they would succeed is not known
        - not seen  the Links: forbidden
        - not seen  requests of 2 of 3 clients: a/b: timed out

        Nothing is broken in what could be looked at.
        ");
        let document = serde_json::to_value(document(&silent)).unwrap();
        assert_eq!(document["links"], serde_json::Value::Null);
        assert_eq!(document["unseen"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn where_to_look_first_depends_on_how_many_links_fail() {
        let of = |all: usize, failing: &[&str]| {
            let findings = failing.iter().map(|name| Finding::from("down").of(name));
            let links = LinksSeen {
                all,
                ready: all - failing.len(),
                findings: findings.collect(),
            };
            links.scope().unwrap_or_default()
        };
        for (all, failing, expected) in [
            (3, &[][..], ""),
            (1, &["east"], ""),
            (
                3,
                &["east", "east"],
                "2 other Links without an error: look in east first",
            ),
            (
                2,
                &["east", "north"],
                "all 2 Links fail: look in this cluster first",
            ),
        ] {
            assert!(of(all, failing).starts_with(expected), "{failing:?}");
            assert_eq!(of(all, failing).is_empty(), expected.is_empty());
        }
    }
}
