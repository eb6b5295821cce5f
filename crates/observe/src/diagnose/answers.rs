//! What the proxy of the calling Pod counts.

use super::{context::PathContext, layer::LayerReport, subject::Mode};
use crate::{
    clusters::{
        request_path::{EndpointCounts, ProxyAnswer, ProxyCounts},
        snapshot::LinkSnapshot,
    },
    finding::{
        Finding, Level,
        causes::{Cause, Layer},
    },
};

/// Annotations by which a proxy takes out endpoints that fail. They count as not connected then.
const FAILURE_ACCRUAL: &str = "balancer.linkerd.io/failure-accrual";

pub fn judge(way: &PathContext<'_>) -> LayerReport {
    let mut report = LayerReport::new(Layer::Answers);
    let proxy = match &way.facts.proxy {
        None => {
            report.cannot_see(
                "the proxy of the calling Pod",
                "no Pod was named; pass --from POD",
            );
            return report;
        }
        Some(Err(why)) => {
            report.cannot_see("the proxy of the calling Pod", why);
            return report;
        }
        Some(Ok(proxy)) => proxy,
    };
    let counted: Vec<_> = proxy.ports().collect();
    if counted.is_empty() {
        report.cannot_see("answers", "the Pod sent nothing to this port meanwhile");
    }
    for (port, before, after) in counted {
        let counts = PortCounts {
            way,
            port,
            before: &before,
            after,
        };
        counts.refused(&mut report);
        counts.endpoints(&mut report);
        counts.answers(&mut report);
    }
    report
}

/// What the proxy counts for one port.
struct PortCounts<'c> {
    way: &'c PathContext<'c>,
    port: u16,
    before: &'c ProxyCounts,
    after: &'c ProxyCounts,
}

impl PortCounts<'_> {
    /// ` to port 80`, if no port was named.
    fn place(&self) -> String {
        match self.way.facts.port {
            Some(_) => String::new(),
            None => format!(" to port {}", self.port),
        }
    }

    /// Connections that the proxy refuses, because the Service did not declare the port when they began.
    fn refused(&self, report: &mut LayerReport) {
        let (way, place) = (self.way, self.place());
        let (now, all) = (
            self.after.undefined - self.before.undefined,
            self.after.undefined,
        );
        if now > 0.0 {
            let declared = way.subject.service().map(|service| &service.spec.ports);
            let is_declared = declared.is_none_or(|ports| {
                let mut ports = ports.iter();
                ports.any(|port| port.port == i32::from(self.port))
            });
            if !is_declared {
                let evidence = format!(
                    "its proxy refused {now} connections{place} just now, because the Service does not declare the port"
                );
                return report.find(Some(Finding::broken(Cause::PortNotDeclared, evidence)));
            }
            let evidence = format!(
                "its proxy refused {now} connections{place} just now, because the port was not declared when they began; it is \
                 now"
            );
            let found = Finding::broken(Cause::PortRefusalKept, evidence);
            report.find(Some(match way.client() {
                Some(pod) => found.fixed_by_restart(&way.commands.source, &pod.state),
                None => found.fixed_by(&pods(way)),
            }));
        } else if all > 0.0 {
            report.see(format!(
                "its proxy has refused {all} connections{place} while the port was not declared, none of them now"
            ));
        }
    }

    /// The endpoints to which the proxy is connected. It was connected to none at both times, if that is a finding: a
    /// connection may just be made anew.
    fn endpoints(&self, report: &mut LayerReport) {
        let EndpointCounts { ready, pending } = self.after.endpoints();
        if ready > 0.0 {
            report.see(format!(
                "its proxy is connected to {ready} of {} endpoints{}",
                ready + pending,
                self.place()
            ));
        }
        if pending == 0.0 || ready > 0.0 || self.before.endpoints().ready > 0.0 {
            return;
        }
        let evidence = format!(
            "its proxy knows {pending} endpoints of the Service{}, and cannot connect to any",
            self.place()
        );
        let way = self.way;
        let found = match self.closed_gateway() {
            Some((cluster, link)) => {
                let (port, namespace) = (&link.link.spec.gateway_port, link.namespace());
                let evidence = format!("{evidence}: port {port} of the gateway");
                let found = Finding::broken(Cause::GatewayPortClosed, evidence);
                found.fixed_in(way.commands, cluster, |flags| {
                    flags.kubectl("-n {} get pods,services", &[namespace])
                })
            }
            None => Finding::broken(Cause::ConnectionFailed, evidence).fixed_by(&logs(way)),
        };
        report.find(way.subject.mode().map(|_| found));
    }

    /// The cluster whose gateway must be closed for requests, if nothing else explains that no endpoint is connected: its
    /// Pods, its identity and the trust anchors were seen, and the proxy does not take out endpoints that fail.
    fn closed_gateway(&self) -> Option<(&str, &LinkSnapshot)> {
        let way = self.way;
        let clusters = way.subject.remotes();
        let [(cluster, _)] = clusters.as_slice() else {
            return None;
        };
        let target = way.facts.target_of(cluster)?;
        let annotations = &way.subject.service()?.metadata.annotations;
        let may_be_taken_out = annotations.get(FAILURE_ACCRUAL).is_some();
        let is_seen = target.gateways.is_ok() && target.config.is_ok();
        let is_closed = way.subject.mode() == Some(Mode::Gateway) && is_seen && !may_be_taken_out;
        let link = way.facts.link_to(cluster)?;
        is_closed.then_some((link.cluster(), link))
    }

    /// The answers of this moment.
    fn answers(&self, report: &mut LayerReport) {
        let place = self.place();
        let counted = self.after.answers.iter().map(|(answer, count)| {
            let earlier = self.before.answers.get(answer).copied().unwrap_or_default();
            (answer, count - earlier)
        });
        let counted: Vec<(&ProxyAnswer, f64)> = counted.filter(|(_, count)| *count > 0.0).collect();
        if counted.is_empty() {
            let what = format!("answers{place}");
            return report.cannot_see(what, "none came meanwhile");
        }
        let sum = |is: &dyn Fn(&ProxyAnswer) -> bool| -> f64 {
            let meant = counted.iter().filter(|(answer, _)| is(answer));
            meant.map(|(_, count)| count).sum()
        };
        let all = sum(&|_| true);
        let failed = sum(&ProxyAnswer::is_failure);
        let refused = sum(&|answer| answer.is_refusal() && !answer.is_failure());
        // An application may refuse some requests, and not all.
        let failed = if failed + refused >= all { all } else { failed };
        if failed == 0.0 {
            for (answer, count) in counted {
                report.see(format!("{count} {answer}{place} just now"));
            }
            return;
        }
        let listed = counted
            .iter()
            .map(|(answer, count)| format!("{count} {answer}"));
        let evidence = format!(
            "{failed} of {all} requests or connections{place} failed just now: {}",
            listed.collect::<Vec<_>>().join(", ")
        );
        let level = if failed >= all {
            Level::Error
        } else {
            Level::Warning
        };
        let found = Finding::new(Cause::RequestsFail, level, evidence);
        report.find(Some(found.fixed_by(&logs(self.way))));
    }
}

fn pods(way: &PathContext<'_>) -> hints::suggest::Suggested {
    let namespace = &way.facts.service.namespace;
    way.commands.source.kubectl("-n {} get pods", &[namespace])
}

fn logs(way: &PathContext<'_>) -> hints::suggest::Suggested {
    let pod = way.client();
    let id = pod.map(|pod| pod.state.id.clone()).unwrap_or_default();
    way.commands.source.kubectl(
        "-n {} logs {} -c linkerd-proxy --tail=20",
        &[&id.namespace, &id.name],
    )
}
