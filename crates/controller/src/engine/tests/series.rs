//! Metrics of a cluster go with the last Link that names it.

use std::time::Duration;

use mirror_core::mirror::{Liveness, fixtures::svc};

use super::*;
use crate::{gateway_tasks::GatewayEvent, probe::ProbeReport};

/// A Link whose cluster has series, before or after its first list.
fn measured(is_listed: bool) -> Engine {
    let mut engine = engine();
    engine.apply(&link_to("east", "east"));
    if is_listed {
        engine.listed("east", &[svc("web").exported().0]);
    } else {
        for event in connected() {
            engine.report("east", event);
        }
    }
    engine
        .metrics
        .probe_succeeded("east", Duration::from_millis(1));
    let has = |name: &str| engine.series_of("east").iter().any(|s| s.starts_with(name));
    assert!(has("gateway_alive") && has("linkerd_mc_last_contact"));
    engine
}

/// What follows a change of a Link: the cluster answers again, and the gateway dies.
fn events(engine: &mut Engine) {
    let [_, alive] = connected();
    engine.report("east", alive);
    if let Some(watched) = &engine.known("east").gateway {
        let died = GatewayEvent::Probed(ProbeReport::Transition(Liveness::Dead));
        let id = watched.id;
        engine.on_gateway_event("east", id, died);
    }
}

#[tokio::test]
async fn series_of_a_cluster_go_with_its_link_whatever_the_link_says_by_then() {
    for is_listed in [true, false] {
        for broken in ["East", "", "west"] {
            let mut engine = measured(is_listed);
            let mut link = link_to("east", broken);
            link.spec.gateway_port = "none".to_owned();
            engine.apply(&link);
            assert_eq!(engine.ready("east"), "InvalidLink");
            events(&mut engine);
            engine.delete(&link);
            // The last probe of the gateway ends.
            let died = GatewayEvent::Probed(ProbeReport::Transition(Liveness::Dead));
            engine.on_gateway_event("east", 1, died);
            for cluster in ["east", broken] {
                let left = engine.series_of(cluster);
                assert_eq!(left, Vec::<String>::new(), "{is_listed} {broken}");
            }
        }
    }
}

#[tokio::test]
async fn series_of_a_cluster_without_gateway_go_with_a_link_that_names_another_by_then() {
    let mut engine = engine();
    let mut link = link_to("east", "east");
    link.spec.gateway_address = String::new();
    engine.apply(&link);
    for event in connected() {
        engine.report("east", event);
    }
    assert_ne!(engine.series_of("east"), Vec::<String>::new());
    link.spec.target_cluster_name = "East".to_owned();
    engine.apply(&link);
    engine.delete(&link);
    assert_eq!(engine.series_of("east"), Vec::<String>::new());
}

#[tokio::test]
async fn series_of_a_cluster_stay_while_its_link_is_invalid() {
    for is_listed in [true, false] {
        let mut engine = measured(is_listed);
        engine.apply(&link_to("east", "East"));
        events(&mut engine);
        let series = engine.series_of("east");
        assert!(
            series
                .iter()
                .any(|s| s.starts_with("service_mirror_endpoint_repairs")),
            "{series:?}"
        );
        assert_eq!(engine.series_of("East"), Vec::<String>::new());
        assert_eq!(engine.series_of(""), Vec::<String>::new());
    }
}

#[tokio::test]
async fn series_of_a_gateway_follow_its_probes_as_long_as_it_is_probed() {
    let mut engine = measured(true);
    let id = engine.known("east").gateway.as_ref().unwrap().id;
    let probed = |engine: &mut Engine, id: u64, report: ProbeReport| {
        engine.on_gateway_event("east", id, GatewayEvent::Probed(report));
    };
    let has = |engine: &Engine, line: &str| {
        let series = engine.metrics.render();
        series.lines().any(|found| found == line)
    };
    probed(&mut engine, id, ProbeReport::Transition(Liveness::Alive));
    assert!(has(
        &engine,
        r#"gateway_alive{target_cluster_name="east"} 1"#
    ));
    probed(&mut engine, id, ProbeReport::Transition(Liveness::Dead));
    probed(&mut engine, id, ProbeReport::Failed("refused".into()));
    let latency = Duration::from_millis(7);
    probed(&mut engine, id, ProbeReport::Latency(latency));
    // Of tasks that were replaced.
    probed(
        &mut engine,
        id - 1,
        ProbeReport::Transition(Liveness::Alive),
    );
    for line in [
        r#"gateway_alive{target_cluster_name="east"} 0"#,
        r#"gateway_probes{probe_successful="false",target_cluster_name="east"} 1"#,
        r#"gateway_latency{target_cluster_name="east"} 7"#,
    ] {
        assert!(has(&engine, line), "{line}");
    }
}
