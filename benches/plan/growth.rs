//! How work grows with what there is: the time for one Service, of a start and of Services that are relabelled, must be
//! the same whether there are a thousand of them or ten thousand.

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use linkerd_mc::{
    api::{k8s::Service, labels as l},
    mirror::{Key, Object, Objects, World, Write, plan},
};

use crate::{RUNS, entry, name, namespace, service, slice, uid, world};

/// Services of one Link.
const PER_LINK: usize = 200;
/// Sizes that are compared.
const SIZES: [usize; 2] = [1_000, 10_000];
/// The largest: 200 Links.
const LARGEST: usize = 40_000;
/// So much longer may one Service take among many.
const ALLOWED: f64 = 1.5;

/// What was measured, in Services, and the time for one of them.
pub(crate) struct Figure {
    pub(crate) what: &'static str,
    pub(crate) services: usize,
    pub(crate) each: Duration,
}

/// Measures; says whether the time for one Service is the same at all sizes.
pub(crate) fn measure() -> (Vec<Figure>, Vec<(&'static str, f64)>, bool) {
    let (mut figures, mut ratios) = (Vec::new(), Vec::new());
    for (what, run) in [
        ("start, 200 Services a Link", start as fn(usize) -> Duration),
        ("relabelled Services", relabelled),
    ] {
        let best = |services: usize| {
            let runs = (0..RUNS).map(|_| run(services)).min();
            runs.unwrap_or_default() / u32::try_from(services).unwrap_or(1)
        };
        let each = SIZES.map(best);
        ratios.push((what, each[1].as_secs_f64() / each[0].as_secs_f64()));
        for (services, each) in SIZES.into_iter().zip(each) {
            figures.push(Figure {
                what,
                services,
                each,
            });
        }
    }
    let what = "start, 200 Services a Link";
    let each = start(LARGEST) / u32::try_from(LARGEST).unwrap_or(1);
    figures.push(Figure {
        what,
        services: LARGEST,
        each,
    });
    let flat = ratios.iter().all(|(_, ratio)| *ratio <= ALLOWED);
    (figures, ratios, flat)
}

/// A controller starts where all mirrors stand: Links are listed, then their clusters, and all keys are planned.
fn start(services: usize) -> Duration {
    let mut world = world(services);
    let mut links = Vec::new();
    for number in 0..services / PER_LINK {
        let cluster = format!("cluster-{number:03}");
        stand(
            &mut world,
            &cluster,
            number * PER_LINK..(number + 1) * PER_LINK,
        );
        let known = world.links.as_mut().and_then(|l| l.remove(&cluster));
        links.extend(known.map(|entry| (cluster, entry)));
    }
    let begin = Instant::now();
    let mut remotes = Vec::new();
    for (cluster, mut entry) in links {
        remotes.push((cluster.clone(), entry.remote.take()));
        let known = world.links.get_or_insert_default();
        known.insert(cluster.clone(), entry);
        at_rest(&world, world.keys_of_cluster(&cluster));
    }
    for (cluster, remote) in remotes {
        let mut keys = world.keys_of_exports(&cluster);
        if let Some(known) = world.links.as_mut().and_then(|l| l.get_mut(&cluster)) {
            *known.remote = remote;
        }
        keys.extend(world.keys_of_cluster(&cluster));
        at_rest(&world, keys);
    }
    begin.elapsed()
}

/// All Services of a target cluster get another label, one event after the other, and all keys are planned.
fn relabelled(services: usize) -> Duration {
    let mut world = world(services);
    stand(&mut world, "east", 0..services);
    let relabelled = |index: usize| {
        let mut state = service(index);
        let labels = &mut state.metadata.labels;
        labels.insert(l::EXPORTED, "remote-discovery");
        Arc::new(state)
    };
    let states: Vec<Arc<Service>> = (0..services).map(relabelled).collect();
    let begin = Instant::now();
    for state in states {
        let known = world.links.as_mut().and_then(|l| l.get_mut("east"));
        let remote = known.and_then(|known| known.remote.as_mut());
        let before = remote.and_then(|remote| remote.services[0].put(state.clone()));
        let mut keys = world.keys_of_remote("east", &state);
        keys.extend(
            before
                .iter()
                .flat_map(|before| world.keys_of_remote("east", before)),
        );
        keys.sort();
        keys.dedup();
        for key in &keys {
            black_box(plan(&world, black_box(key)));
        }
    }
    begin.elapsed()
}

/// Plans keys for which there is nothing to do, but for probe Services, which do not stand.
fn at_rest(world: &World, keys: Vec<Key>) {
    for key in keys {
        let planned = black_box(plan(world, &key));
        let probes = matches!(key, Key::Probe { .. });
        assert!(probes || planned.writes.is_empty(), "{key}");
    }
}

/// Links a cluster that exports these Services, and makes their mirrors.
fn stand(world: &mut World, cluster: &str, indexes: std::ops::Range<usize>) {
    let (mut services, mut slices) = (Objects::default(), Objects::default());
    for index in indexes.clone() {
        services.put(Arc::new(service(index)));
        slices.put(Arc::new(slice(index)));
    }
    let known = world.links.get_or_insert_default();
    known.insert(cluster.to_owned(), entry(cluster, services, slices));
    for index in indexes {
        let key = Key::mirror(cluster, &namespace(index), &name(index));
        for write in plan(world, &key).writes {
            match write {
                Write::Create(Object::Service(mut made)) => {
                    made.metadata.uid = Some(uid(index).into());
                    let mirrors = world.mirrors.get_or_insert_default();
                    mirrors.put(Arc::new(*made));
                }
                Write::Create(Object::EndpointSlice(mut made)) => {
                    for owner in &mut made.metadata.owner_references {
                        owner.uid = uid(index).into();
                    }
                    let slices = world.slices.get_or_insert_default();
                    slices.put(Arc::new(*made));
                }
                _ => {}
            }
        }
    }
}
