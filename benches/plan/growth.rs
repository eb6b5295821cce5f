//! How the time for one Service grows with the number of Services, at a start and when their labels change. With ten
//! thousand Services, it may be at most 1.5 times as long as with a thousand.

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use linkerd_mc::{
    api::{k8s::Service, labels as l},
    mirror::{Confirmed, Key, Object, State, Store, Write, plan},
};

use crate::{RUNS, entry, name, namespace, service, slice, state, uid};

/// Services of one Link.
const PER_LINK: usize = 200;
/// Numbers of Services that are compared.
const SIZES: [usize; 2] = [1_000, 10_000];
/// Services of 200 Links. Measured once, and not compared.
const LARGEST: usize = 40_000;
/// The largest ratio of the time for one Service in the larger state to that in the smaller one.
const ALLOWED: f64 = 1.5;

/// What was measured, the number of Services, and the time for one of them.
pub(crate) struct Figure {
    pub(crate) what: &'static str,
    pub(crate) services: usize,
    pub(crate) each: Duration,
}

/// Returns the figures, the ratios between the sizes, and whether all ratios are at most [`ALLOWED`].
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

/// The start of a controller when all mirrors exist: it lists the Links, then their target clusters, and plans the keys
/// of a cluster after each list.
fn start(services: usize) -> Duration {
    let mut state = state(services);
    let mut links = Vec::new();
    for number in 0..services / PER_LINK {
        let cluster = format!("cluster-{number:03}");
        stand(
            &mut state,
            &cluster,
            number * PER_LINK..(number + 1) * PER_LINK,
        );
        let known = state.links.remove(&cluster);
        links.extend(known.map(|entry| (cluster, entry)));
    }
    let begin = Instant::now();
    let mut remotes = Vec::new();
    for (cluster, mut entry) in links {
        remotes.push((cluster.clone(), entry.remote.take()));
        let known = &mut state.links;
        known.insert(cluster.clone(), entry);
        at_rest(&state, state.keys_of_cluster(&cluster));
    }
    for (cluster, remote) in remotes {
        let mut keys = state.keys_of_exports(&cluster);
        if let Some(known) = state.links.get_mut(&cluster) {
            *known.remote = remote;
        }
        keys.extend(state.keys_of_cluster(&cluster));
        at_rest(&state, keys);
    }
    begin.elapsed()
}

/// All Services of a target cluster get another label, one event after the other. The keys that an event concerns are
/// planned after it.
fn relabelled(services: usize) -> Duration {
    let mut state = state(services);
    stand(&mut state, "east", 0..services);
    let relabelled = |index: usize| {
        let mut service = service(index);
        let labels = &mut service.metadata.labels;
        labels.insert(l::EXPORTED, "remote-discovery");
        Arc::new(service)
    };
    let relabelled: Vec<Arc<Service>> = (0..services).map(relabelled).collect();
    let begin = Instant::now();
    for service in relabelled {
        let known = state.links.get_mut("east");
        let remote = known.and_then(|known| known.remote.as_mut());
        let before = remote.and_then(|remote| remote.services[0].put(service.clone()));
        let mut keys = state.keys_of_remote("east", &service);
        keys.extend(
            before
                .iter()
                .flat_map(|before| state.keys_of_remote("east", before)),
        );
        keys.sort();
        keys.dedup();
        for key in &keys {
            black_box(plan(&state, black_box(key), Confirmed::All));
        }
    }
    begin.elapsed()
}

/// Plans keys, and checks that nothing has to be written. Only probe Services need writes, because [`stand`] does not
/// create them.
fn at_rest(state: &State, keys: Vec<Key>) {
    for key in keys {
        let planned = black_box(plan(state, &key, Confirmed::All));
        let probes = matches!(key, Key::Gateway { .. });
        assert!(probes || planned.writes.is_empty(), "{key}");
    }
}

/// Adds a Link to a cluster that exports these Services, and adds their mirrors.
fn stand(state: &mut State, cluster: &str, indexes: std::ops::Range<usize>) {
    let (mut services, mut slices) = (Store::default(), Store::default());
    for index in indexes.clone() {
        services.put(Arc::new(service(index)));
        slices.put(Arc::new(slice(index)));
    }
    let known = &mut state.links;
    known.insert(cluster.to_owned(), entry(cluster, services, slices));
    for index in indexes {
        let key = Key::mirror(cluster, &namespace(index), &name(index));
        for write in plan(state, &key, Confirmed::All).writes {
            match write {
                Write::Create(Object::Service(mut made)) => {
                    made.metadata.uid = Some(uid(index).into());
                    let mirrors = &mut state.local.get_or_insert_default().mirrors;
                    mirrors.put(Arc::new(*made));
                }
                Write::Create(Object::EndpointSlice(mut made)) => {
                    for owner in &mut made.metadata.owner_references {
                        owner.uid = uid(index).into();
                    }
                    let slices = &mut state.local.get_or_insert_default().slices;
                    slices.put(Arc::new(*made));
                }
                _ => {}
            }
        }
    }
}
