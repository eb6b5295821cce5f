//! Obstacles that the API server of the source cluster puts in the way of some Services, and all others beside them.

use std::{collections::BTreeMap, time::Duration};

use http::StatusCode;
use serde_json::json;
use tokio::time::sleep;

use super::{
    refusal::Refusal,
    server::{ApiServer, Asked, Verdict},
    world::{NS, World, seconds, within},
};

/// Number of worlds with random obstacles.
const WORLDS: u64 = 12;
/// Number of exported Services in each of them.
const SERVICES: usize = 40;
/// How long a webhook that does not answer takes.
const SLOW: Duration = seconds(10);
/// The codes of refusals.
const CODES: [u16; 7] = [401, 403, 404, 409, 422, 429, 500];

fn name(number: usize) -> String {
    format!("web-{number:02}")
}

/// A refusal with words of its own.
fn refusal(code: u16, service: &str) -> Refusal {
    let code = StatusCode::from_u16(code).expect("a code");
    let reason = code.canonical_reason().unwrap_or_default().replace(' ', "");
    Refusal::new(code, &reason, &words(service))
}

fn words(service: &str) -> String {
    format!("no to {service}")
}

/// The remote Service for whose mirror or slice this is.
fn written_for(asked: &Asked) -> Option<String> {
    let is_written = asked.writes() && ["services", "endpointslices"].contains(&&*asked.resource);
    let (service, _) = asked.name.split_once("-east")?;
    (is_written && asked.namespace == NS).then(|| service.to_owned())
}

/// Refuses all writes for these Services, with these codes. Code 500 comes late if the number of the Service is odd.
fn obstruct(source: &ApiServer, codes: BTreeMap<String, u16>) {
    source.judge(move |asked| {
        let found = written_for(asked).and_then(|service| Some((*codes.get(&service)?, service)));
        let Some((code, service)) = found else {
            return Verdict::Forward;
        };
        let refusal = refusal(code, &service);
        if code == 500 && service.ends_with(['1', '3', '5', '7', '9']) {
            Verdict::RefuseLate(SLOW, refusal)
        } else {
            Verdict::Refuse(refusal)
        }
    });
}

fn port(world: &World, service: &str) -> Option<u64> {
    let mirror = world
        .source
        .get("services", NS, &format!("{service}-east"))?;
    mirror["spec"]["ports"][0]["port"].as_u64()
}

/// The message in the status about a Service.
fn said(world: &World, service: &str) -> Option<String> {
    let mut all = world.status("east").mirror_services.into_iter();
    let found = all.find(|entry| entry.remote_ref.name == service)?;
    let condition = found.conditions.into_iter().next()?;
    (condition.status == "False").then_some(condition.message)
}

async fn live(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut world = World::new();
    let east = world.target("east");
    let all: Vec<String> = (0..SERVICES).map(name).collect();
    let refused = all.iter().filter(|_| random.u8(..3) == 0);
    let refused: Vec<String> = refused.cloned().collect();
    let others: Vec<&String> = all.iter().filter(|name| !refused.contains(name)).collect();
    // Some are refused from the beginning, and others when they are changed.
    let mut codes = BTreeMap::new();
    for service in &refused {
        codes.insert(service.clone(), CODES[random.usize(..CODES.len())]);
    }
    let (first, later): (BTreeMap<_, _>, BTreeMap<_, _>) =
        codes.clone().into_iter().partition(|_| random.bool());
    for service in &all {
        east.export(service);
    }
    obstruct(&world.source, first.clone());
    world.start();
    within(seconds(5), "all others", || {
        let is_mirrored = |service: &String| port(&world, service).is_some();
        all.iter()
            .all(|service| first.contains_key(service) || is_mirrored(service))
    })
    .await;
    within(seconds(30), "the end of the first sync", || {
        world.is("east", "Ready", "True")
    })
    .await;
    obstruct(&world.source, codes);
    for service in later.keys() {
        east.set_port(service, 81);
    }
    within(seconds(30), "a report of each", || {
        let is_said = |service: &String| {
            said(&world, service).is_some_and(|message| message.contains(&words(service)))
        };
        refused.iter().all(is_said)
    })
    .await;
    for changed in 82..92 {
        let service = others[random.usize(..others.len())];
        east.set_port(service, changed);
        within(seconds(2), service, || {
            port(&world, service) == Some(changed.into())
        })
        .await;
        sleep(seconds(random.u64(..90))).await;
    }
    world.source.forward();
    within(seconds(61), "all to heal", || {
        let is_healed = |service: &String| {
            let now = port(&world, service);
            now.is_some() && (now == Some(81) || !later.contains_key(service))
        };
        refused.iter().all(is_healed)
    })
    .await;
    within(seconds(12), "the status", || {
        world.status("east").unhealthy == Some(0)
    })
    .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn refused_services_delay_no_other_and_say_why() {
    for seed in 0..WORLDS {
        live(seed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn webhook_that_does_not_answer_delays_no_change_of_mirrors_that_stand() {
    let mut world = World::new();
    let east = world.target("east");
    for number in 0..20 {
        east.export(&name(number));
    }
    world.start();
    world.in_sync(&["east"], &["web-19-east"]).await;
    // It is asked about new Services only.
    world.source.judge(|asked| match written_for(asked) {
        Some(service) if asked.is("create", "services") => {
            Verdict::RefuseLate(SLOW, refusal(500, &service))
        }
        _ => Verdict::Forward,
    });
    for number in 20..320 {
        east.export(&name(number));
    }
    for changed in 81..111 {
        let service = name(usize::from(changed) % 20);
        east.set_port(&service, changed);
        within(seconds(2), &service, || {
            port(&world, &service) == Some(changed.into())
        })
        .await;
        sleep(seconds(11)).await;
    }
    assert_eq!(world.status("east").unhealthy, Some(300));
    world.source.forward();
    within(seconds(61), "all mirrors", || {
        world.source.names("services", NS).len() == 320
    })
    .await;
    world.stop().await;
}

/// A change of a Link that takes a while.
#[tokio::test(start_paused = true)]
async fn new_generation_of_a_link_is_observed_when_it_is_in_effect() {
    let (mut world, east) = World::mirroring().await;
    let observed = |world: &World| {
        (
            world.status("east").observed_generation,
            world.is("east", "Ready", "True"),
        )
    };
    within(seconds(5), "the first generation", || {
        observed(&world) == (Some(1), true)
    })
    .await;
    east.judge(|asked| match asked.verb {
        "list" => Verdict::Hold,
        _ => Verdict::Forward,
    });
    let id = (super::world::LINKS.to_owned(), "east".to_owned());
    let other = json!({ "spec": { "selector": { "matchLabels": { "other": "yes" } } } });
    world
        .source
        .change(|objects| objects.patch("links", &id, &other, false));
    sleep(seconds(5)).await;
    assert_eq!(observed(&world), (Some(1), true));
    east.forward();
    east.cut();
    within(seconds(60), "the second generation", || {
        observed(&world) == (Some(2), true)
    })
    .await;
    assert!(!world.has("web-east"));
    world.stop().await;
}
