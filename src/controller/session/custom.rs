//! Watches of the EndpointSlices of Services without a selector.
//!
//! People create these slices, and Kubernetes does not copy the Service's labels to them, so no selector of ours finds
//! them. But they have a label with the name of their Service. Each watch selects slices of some names, and drops those
//! of a Service with the same name in another namespace.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kube::{Api, Client};
use tokio::{sync::watch as latest, task::JoinHandle, time::sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    event::{Reporter, SessionEvent, Source},
    followed::{Chunk, Followed},
    slices::{bare, service_of},
};
use crate::{
    api::{k8s::EndpointSlice, wire::Wire},
    controller::watch::{ConnectionStatus, Event, EventHandler, Watched, watch},
    mirror::{Limit, NAMES, Room, Weight, slices_of},
};

/// Maximum average number of slices of one such Service.
const SLICES: usize = 100;
/// Minimum time between two restarts of watches after changes of the set of Services.
const GATHER: Duration = Duration::from_millis(300);
/// The number of the first of these watches in [`SessionEvent::ConnectionStatus`]. The numbers of further ones
/// decrease.
const SOURCE: usize = usize::MAX - 1;

/// Watches the slices of the Services in `followed`, until its sender is dropped.
pub(super) async fn run(
    client: Client,
    mut followed: latest::Receiver<Followed>,
    room: Room,
    recovered: latest::Receiver<u64>,
    reporter: &Reporter,
) {
    let (mut chunks, mut running) = (Vec::new(), Vec::<Option<Running>>::new());
    loop {
        let wanted = followed.borrow_and_update().services.clone();
        for index in assign(&mut chunks, &wanted) {
            running.resize_with(chunks.len(), || None);
            if let Some(before) = running[index].take() {
                before.end().await;
            }
            let (number, chunk) = (SOURCE - index, &chunks[index]);
            if chunk.is_empty() {
                // Without a watch, there cannot be a failure.
                let connection = SessionEvent::ConnectionStatus(number, ConnectionStatus::Alive);
                reporter.send(connection).await;
                continue;
            }
            let watched = Watched::all(Api::<Wire<EndpointSlice>>::all(client.clone()))
                .labels(selector(chunk))
                .limit(Limit::of(chunk.len().saturating_mul(SLICES)).within(room.clone()))
                .recovered(&recovered);
            let handler = Following {
                chunk: Arc::new(chunk.clone()),
                source: Source::new(number, reporter),
            };
            running[index] = Some(Running::start(watch(watched, handler)));
        }
        sleep(GATHER).await;
        if followed.changed().await.is_err() {
            return;
        }
    }
}

/// Assigns Services to chunks of at most [`NAMES`] names. A Service stays in its chunk, and a new one changes only one
/// chunk. Returns the chunks that changed.
fn assign(chunks: &mut Vec<Chunk>, wanted: &Chunk) -> BTreeSet<usize> {
    let mut changed = BTreeSet::new();
    let mut place: BTreeMap<String, usize> = BTreeMap::new();
    let mut names = Vec::new();
    for (index, chunk) in chunks.iter_mut().enumerate() {
        let before = chunk.len();
        chunk.retain(|service, _| wanted.contains_key(service));
        if chunk.len() != before {
            changed.insert(index);
        }
        let own: BTreeSet<&String> = chunk.keys().map(|(_, name)| name).collect();
        names.push(own.len());
        place.extend(own.into_iter().map(|name| (name.clone(), index)));
    }
    for (service, number) in wanted {
        let index = *place.entry(service.1.clone()).or_insert_with(|| {
            let room = names.iter().position(|count| *count < NAMES);
            let index = room.unwrap_or(names.len());
            if index == names.len() {
                names.push(0);
            }
            names[index] += 1;
            index
        });
        if index == chunks.len() {
            chunks.push(Chunk::new());
        }
        if chunks[index].insert(service.clone(), *number) != Some(*number) {
            changed.insert(index);
        }
    }
    changed
}

/// The selector of a chunk. One is enough, because a chunk has at most [`NAMES`] names.
fn selector(chunk: &Chunk) -> String {
    slices_of(&chunk.keys().cloned().collect()).concat()
}

/// A running watch.
struct Running {
    stop: DropGuard,
    task: JoinHandle<()>,
}

impl Running {
    fn start(watching: impl Future<Output = ()> + Send + 'static) -> Self {
        let stop = CancellationToken::new();
        let token = stop.clone();
        let task = tokio::spawn(async move {
            token.run_until_cancelled(Box::pin(watching)).await;
        });
        Self {
            stop: stop.drop_guard(),
            task,
        }
    }

    /// Ends the watch. It sends no events after that.
    async fn end(self) {
        drop(self.stop);
        self.task.await.ok();
    }
}

/// The handler of one of these watches.
struct Following {
    chunk: Arc<Chunk>,
    source: Source,
}

impl EventHandler<EndpointSlice> for Following {
    async fn on_event(&mut self, change: Event<EndpointSlice>) -> bool {
        let report = SessionEvent::CustomSlices(self.chunk.clone(), change);
        self.source.reporter.send(report).await
    }

    async fn on_connection(&mut self, connection: ConnectionStatus) {
        self.source.on_connection(connection).await;
    }

    fn keeps(&self, slice: &EndpointSlice) -> bool {
        self.chunk.contains_key(&service_of(slice))
    }

    fn trimmed(&self, slice: EndpointSlice) -> EndpointSlice {
        bare(slice)
    }

    fn weight(&self, slice: &EndpointSlice) -> Weight {
        Weight::of(slice)
    }

    fn service(&self, slice: &EndpointSlice) -> (String, String) {
        service_of(slice)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mirror::Names;

    fn id(n: usize) -> (String, String) {
        (format!("ns-{}", n % 3), format!("svc-{}", n / 3))
    }

    /// Makes it follow these Services, and no others.
    fn follow(followed: &mut Followed, wanted: &Names) {
        let others: Vec<_> = followed.services.keys().cloned().collect();
        for service in others.iter().filter(|service| !wanted.contains(*service)) {
            followed.remove(service);
        }
        for service in wanted {
            followed.insert(service.clone());
        }
    }

    #[test]
    fn ten_thousand_services_fit_into_chunks_of_a_bounded_selector() {
        let long = |n: usize| ("ns".to_owned(), format!("{n:0>63}"));
        let mut followed = Followed::default();
        follow(&mut followed, &(0..10_000).map(long).collect());
        let wanted = &followed.services;
        let mut chunks = Vec::new();
        assert_eq!(assign(&mut chunks, wanted).len(), chunks.len());
        assert_eq!(chunks.len(), 10_000_usize.div_ceil(NAMES));
        assert!(chunks.iter().all(|chunk| selector(chunk).len() < 4000));
        assert_eq!(assign(&mut chunks, wanted), BTreeSet::new());
    }

    #[test]
    fn service_that_is_followed_again_is_listed_again() {
        let (mut followed, mut chunks) = (Followed::default(), Vec::new());
        follow(&mut followed, &[id(0), id(1)].into());
        assign(&mut chunks, &followed.services);
        let before = chunks[0].clone();
        assert_eq!(followed.still(&before), [id(0), id(1)].into());
        assert!(followed.changes(|followed| {
            assert!(followed.remove(&id(0)) && followed.insert(id(0)));
        }));
        // Slices of its earlier watch do not count, and there is a new watch.
        assert_eq!(followed.still(&before), [id(1)].into());
        assert_eq!(assign(&mut chunks, &followed.services), [0].into());
        assert_eq!(followed.still(&chunks[0]), [id(0), id(1)].into());
        assert!(!followed.changes(|followed| {
            assert!(!followed.remove(&id(2)) && !followed.insert(id(0)));
        }));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(250))]

        #[test]
        fn each_service_is_in_one_chunk_and_a_new_one_touches_one(
            steps in prop::collection::vec(prop::collection::btree_set(0_usize..400, 0..300), 1..5),
            new in 0_usize..1200,
        ) {
            let mut chunks: Vec<Chunk> = Vec::new();
            let mut followed = Followed::default();
            for step in steps {
                let before = chunks.clone();
                follow(&mut followed, &step.into_iter().map(id).collect());
                let wanted = &followed.services;
                let changed = assign(&mut chunks, wanted);
                prop_assert_eq!(chunks.iter().map(Chunk::len).sum::<usize>(), wanted.len());
                prop_assert_eq!(&chunks.iter().flatten().map(|(id, n)| (id.clone(), *n)).collect::<Chunk>(), wanted);
                // One name is in one chunk, whatever the namespace.
                let mut seen = BTreeMap::new();
                for (index, chunk) in chunks.iter().enumerate() {
                    let names: BTreeSet<_> = chunk.keys().map(|(_, name)| name).collect();
                    prop_assert!(names.len() <= NAMES);
                    for name in names {
                        prop_assert_eq!(*seen.entry(name.clone()).or_insert(index), index);
                    }
                    let was = before.get(index).cloned().unwrap_or_default();
                    prop_assert_eq!(changed.contains(&index), was != *chunk);
                }
            }
            followed.insert(id(new));
            prop_assert!(assign(&mut chunks, &followed.services).len() <= 1);
        }
    }
}
