//! What the overview says about the gateway of the cluster itself: who reaches it, and what those get. Pure.

use hints::prose::{counted, listed};
use serde::Serialize;

use crate::{
    clusters::gateway_clients::GatewayActivity,
    diagnose::report::{self, more},
};

/// Names in one line.
const NAMED: usize = 3;

/// The gateway in the documented output.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayOutput {
    /// Its Pods.
    pods: usize,
    /// Those whose proxies were read.
    read: usize,
    /// How long was counted.
    seconds: f64,
    /// Who has sent something, or is connected.
    clients: Vec<GatewayClientOutput>,
    /// Who has probed it; an empty identity is that of clients without one.
    probed_by: Vec<String>,
    /// The Services behind it that have answered.
    services: Vec<GatewayServiceOutput>,
}

#[derive(Serialize)]
struct GatewayClientOutput {
    /// Empty for clients without one.
    identity: String,
    connections: f64,
    requests: f64,
    /// Requests and connections that the gateway's policy refused.
    refused: f64,
}

#[derive(Serialize)]
struct GatewayServiceOutput {
    namespace: String,
    service: String,
    answers: f64,
    failed: f64,
}

/// The document of what happened at the gateway.
pub fn document(activity: &GatewayActivity) -> GatewayOutput {
    let clients = activity.clients.iter();
    let services = activity.services.iter();
    GatewayOutput {
        pods: activity.pods,
        read: activity.read,
        seconds: activity.lasted.as_secs_f64(),
        clients: clients
            .map(|(identity, counts)| GatewayClientOutput {
                identity: identity.clone(),
                connections: counts.connections,
                requests: counts.requests,
                refused: counts.refused,
            })
            .collect(),
        probed_by: activity.probes.keys().cloned().collect(),
        services: services
            .map(|(id, (answers, failed))| GatewayServiceOutput {
                namespace: id.namespace.clone(),
                service: id.name.clone(),
                answers: *answers,
                failed: *failed,
            })
            .collect(),
    }
}

/// What could not be seen, and why.
pub fn unseen(activity: &GatewayActivity) -> Option<String> {
    let missing = activity.pods - activity.read;
    let why = activity.unread.as_ref().map(|why| format!(": {why}"));
    (missing > 0).then(|| {
        format!(
            "who uses {missing} of {} Pods of the gateway{}",
            activity.pods,
            why.unwrap_or_default()
        )
    })
}

/// A row for what reached the gateway, with a line for each client.
pub fn row(text: &mut String, activity: &GatewayActivity) {
    if activity.read == 0 {
        return; // It is said why.
    }
    let sum = |of: fn(&(f64, f64)) -> f64| activity.services.values().map(of).sum::<f64>();
    let (answers, failed) = (sum(|counts| counts.0), sum(|counts| counts.1));
    let refused: f64 = activity.clients.values().map(|counts| counts.refused).sum();
    let during = format!(
        "{} in {:.0} s",
        counted(activity.clients.len(), "client"),
        activity.lasted.as_secs_f64()
    );
    let (state, told) = if activity.clients.is_empty() && activity.probes.is_empty() {
        let told =
            "nobody is connected, and nobody probes it: if others should, look at the way to it";
        ("degraded", told.to_owned())
    } else if failed > 0.0 || refused > 0.0 {
        let told =
            format!("{failed:.0} of {answers:.0} answers failed, {refused:.0} refused, {during}");
        ("degraded", told)
    } else if answers > 0.0 {
        ("ok", format!("{answers:.0} answers, none failed, {during}"))
    } else {
        ("unknown", format!("no answers, {during}"))
    };
    report::row(text, state, "gateway", &told);
    let clients = activity.clients.iter().map(|(identity, counts)| {
        format!(
            "{}: {:.0} requests, {:.0} refused, {:.0} connections",
            account(identity),
            counts.requests,
            counts.refused,
            counts.connections
        )
    });
    let failing = activity
        .services
        .iter()
        .filter(|(_, (_, failed))| *failed > 0.0);
    let failing = failing.map(|(id, (answers, failed))| {
        format!(
            "{id}: {failed:.0} of {answers:.0} answers failed, so the fault is behind the gateway"
        )
    });
    more(
        text,
        &clients.chain(failing).take(2 * NAMED).collect::<Vec<_>>(),
    );
    let probes: Vec<String> = activity
        .probes
        .keys()
        .map(|identity| account(identity))
        .collect();
    if !probes.is_empty() {
        more(text, &[format!("probed by {}", listed(&probes, NAMED))]);
    }
}

/// An identity in short: account and namespace, and the trust domain.
fn account(identity: &str) -> String {
    let parts = identity.split_once(".serviceaccount.identity.");
    match parts.and_then(|(account, rest)| Some((account, rest.split_once('.')?.1))) {
        Some((account, domain)) => format!("{account} of {domain}"),
        None if identity.is_empty() => "clients without an identity".to_owned(),
        None => identity.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mirror_core::api::metadata::ResourceId;

    use super::*;
    use crate::clusters::gateway_clients::ClientCounts;

    const CLIENT: &str = "client.app.serviceaccount.identity.linkerd.cluster.local";

    fn activity() -> GatewayActivity {
        let counts = ClientCounts {
            connections: 2.0,
            requests: 40.0,
            refused: 0.0,
        };
        GatewayActivity {
            pods: 1,
            read: 1,
            lasted: Duration::from_secs(5),
            clients: [(CLIENT.to_owned(), counts)].into(),
            probes: [(CLIENT.replace("client.app", "controller.mc"), 3.0)].into(),
            services: [(ResourceId::new("app", "web"), (40.0, 0.0))].into(),
            ..GatewayActivity::default()
        }
    }

    fn text(activity: &GatewayActivity) -> String {
        let mut text = String::new();
        row(&mut text, activity);
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn who_reaches_the_gateway_is_told_and_what_those_get() {
        insta::assert_snapshot!(text(&activity()), @r"
        √ gateway   40 answers, none failed, 1 client in 5 s
                    client.app of cluster.local: 40 requests, 0 refused, 2 connections
                    probed by controller.mc of cluster.local
        ");
        let mut failing = activity();
        failing
            .services
            .insert(ResourceId::new("app", "db"), (10.0, 4.0));
        failing.clients.insert(
            String::new(),
            ClientCounts {
                refused: 7.0,
                ..ClientCounts::default()
            },
        );
        insta::assert_snapshot!(text(&failing), @r"
        ‼ gateway   4 of 50 answers failed, 7 refused, 2 clients in 5 s
                    clients without an identity: 0 requests, 7 refused, 0 connections
                    client.app of cluster.local: 40 requests, 0 refused, 2 connections
                    app/db: 4 of 10 answers failed, so the fault is behind the gateway
                    probed by controller.mc of cluster.local
        ");
    }

    #[test]
    fn silence_is_told_and_is_no_success() {
        let mut silent = activity();
        silent.services.clear();
        insta::assert_snapshot!(text(&silent), @r"
        - gateway   no answers, 1 client in 5 s
                    client.app of cluster.local: 40 requests, 0 refused, 2 connections
                    probed by controller.mc of cluster.local
        ");
        silent.clients.clear();
        silent.probes.clear();
        insta::assert_snapshot!(text(&silent), @r"
        ‼ gateway   nobody is connected, and nobody probes it: if others should, look at the way to it
        ");
        silent.read = 0;
        silent.unread = Some("mc/gateway-0: forbidden".to_owned());
        assert_eq!(text(&silent), "");
        let why = unseen(&silent).unwrap();
        assert_eq!(
            why,
            "who uses 1 of 1 Pods of the gateway: mc/gateway-0: forbidden"
        );
    }
}
