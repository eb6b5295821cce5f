//! The work queue: which key is processed next. No clock, no I/O.
//!
//! A key is in the queue at most once, and never processed twice concurrently: if it is enqueued while it is processed,
//! it comes again afterwards. Each target cluster has a flow, and flows take turns, so that a cluster with many keys
//! does not delay others. Every other turn of a flow is for the key that arrived last, so that a change does not wait
//! for the end of a first sync. A key of several clusters waits in the flows of all clusters that enqueued it, and is
//! processed at the first turn in one of them. A flow that is full takes no new keys for changes in a target cluster, and
//! says when it is empty, so that what was left out can be enqueued. Keys may be delayed: `pace.rs` says until when.
//! Plans that create Services leave a quarter of all slots to others. Keys whose write the API server refused, or that
//! lack a `ClusterIP`, are not in the queue: `engine/denied.rs` and `engine/addresses.rs` decide when these are tried
//! again.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use tokio::time::Instant;

use mirror_core::mirror::Key;

/// The flow of keys that no target cluster enqueued.
pub const LOCAL: &str = "";

/// Name of a flow: of a target cluster, or [`LOCAL`].
pub type Flow = Arc<str>;

/// How many keys of a flow may be processed concurrently.
#[derive(Clone, Copy, Debug)]
pub struct ConcurrencyLimit {
    most: usize,
    /// How many, while other flows wait.
    beside_others: usize,
}

impl ConcurrencyLimit {
    pub const NONE: Self = Self::of(0, 0);
    const ALL: Self = Self::of(usize::MAX, usize::MAX);

    pub const fn of(most: usize, beside_others: usize) -> Self {
        Self {
            most,
            beside_others,
        }
    }
}

/// Keys to process. Trees instead of hash tables, because they release the memory of a first sync.
#[derive(Debug, Default)]
pub struct Queue {
    /// A flow is in this map as long as it is in `turns`.
    flows: BTreeMap<Flow, Waiting>,
    turns: VecDeque<Flow>,
    /// The flows in which each key waits.
    queued: BTreeMap<Key, Vec<(Flow, u64)>>,
    arrivals: u64,
    running: BTreeMap<Key, Running>,
    /// Running keys that were enqueued meanwhile, with the flows.
    again: BTreeMap<Key, BTreeSet<Flow>>,
    delayed: BTreeSet<(Instant, Key)>,
    /// When each delayed key is due, and in which flows.
    due: BTreeMap<Key, (Instant, BTreeSet<Flow>)>,
    /// Flows that were full, and left out keys.
    overflowed: BTreeSet<Flow>,
    /// How many keys may be processed concurrently; `None` for any number.
    slots: Option<usize>,
}

/// A key that is being processed.
#[derive(Debug)]
struct Running {
    flow: Flow,
    /// The number of its arrival.
    arrival: u64,
    /// How many keys of its flow may be processed concurrently.
    most: usize,
    /// Whether its plan creates a Service.
    creates: bool,
}

/// The keys of a flow.
#[derive(Debug, Default)]
struct Waiting {
    /// By number of their arrival.
    keys: BTreeMap<u64, Key>,
    /// Those whose plans create Services, and that wait until fewer such plans are executed.
    held: BTreeMap<u64, Key>,
    /// Whether the next turn is for the key that arrived last.
    newest_is_next: bool,
}

impl Waiting {
    fn pop(&mut self, may_create: bool) -> Option<(u64, Key)> {
        let lanes = [&mut self.keys, &mut self.held].into_iter();
        let lanes = lanes.take(if may_create { 2 } else { 1 });
        let found = if self.newest_is_next {
            let last = |lane: &&mut BTreeMap<u64, Key>| lane.keys().next_back().copied();
            lanes.max_by_key(last)?.pop_last()
        } else {
            let first = |lane: &&mut BTreeMap<u64, Key>| lane.keys().next().copied();
            let lanes = lanes.filter(|lane| !lane.is_empty());
            lanes.min_by_key(first)?.pop_first()
        };
        self.newest_is_next = !self.newest_is_next;
        found
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.held.is_empty()
    }
}

impl Queue {
    /// A queue of which this number of keys may be processed concurrently.
    pub fn with_slots(slots: usize) -> Self {
        Self {
            slots: Some(slots),
            ..Self::default()
        }
    }

    /// Enqueues a key without delay. `by` is the target cluster that caused it, or [`LOCAL`]. A key of a mirror always
    /// waits in the flow of its own cluster.
    pub fn enqueue(&mut self, key: Key, by: &str) {
        let flow = self.flow(&key, by);
        self.enqueue_in(key, flow);
    }

    /// The same, unless the key is new and its flow has `most` keys already. Returns whether the key was enqueued. If not,
    /// [`Self::drained`] returns the flow when it is empty.
    pub fn enqueue_up_to(&mut self, most: usize, key: Key, by: &str) -> bool {
        let flow = self.flow(&key, by);
        let waiting = self.flows.get(&flow);
        let is_full = waiting.is_some_and(|of| of.keys.len() + of.held.len() >= most);
        if is_full && !self.has(&key) {
            self.overflowed.insert(flow);
            return false;
        }
        self.enqueue_in(key, flow);
        true
    }

    /// The flows that left out keys, and are empty now. Each is returned once.
    pub fn drained(&mut self) -> BTreeSet<Flow> {
        let overflowed = std::mem::take(&mut self.overflowed).into_iter();
        let flows = &self.flows;
        let waits = |flow: &Flow| flows.get(flow).is_some_and(|of| !of.is_empty());
        let (full, drained) = overflowed.partition(waits);
        self.overflowed = full;
        drained
    }

    /// Whether a key is running, waiting or delayed.
    pub fn has(&self, key: &Key) -> bool {
        self.running.contains_key(key)
            || self.queued.contains_key(key)
            || self.due.contains_key(key)
    }

    /// Enqueues a running key, to be processed again.
    pub fn enqueue_again(&mut self, key: &Key) {
        if let Some(running) = self.running.get(key) {
            let again = self.again.entry(key.clone()).or_default();
            again.insert(running.flow.clone());
        }
    }

    fn enqueue_in(&mut self, key: Key, flow: Flow) {
        if self.running.contains_key(&key) {
            self.again.entry(key).or_default().insert(flow);
            return;
        }
        if let Some((at, flows)) = self.due.remove(&key) {
            self.delayed.remove(&(at, key.clone()));
            for other in flows {
                self.wait_in(key.clone(), other);
            }
        }
        self.wait_in(key, flow);
    }

    fn wait_in(&mut self, key: Key, flow: Flow) {
        let places = self.queued.entry(key.clone()).or_default();
        if places.iter().any(|(known, _)| *known == flow) {
            return;
        }
        self.arrivals += 1;
        places.push((flow.clone(), self.arrivals));
        if !self.flows.contains_key(&flow) {
            self.turns.push_back(flow.clone());
        }
        let waiting = self.flows.entry(flow).or_default();
        waiting.keys.insert(self.arrivals, key);
    }

    /// The next key, if one is due. The caller has to return it with [`Self::done`], [`Self::retry`] or
    /// [`Self::postpone`].
    ///
    /// Keys of a cluster wait while as many of its keys run as its `limit` says.
    pub fn pop(&mut self, now: Instant, limit: impl Fn(&str) -> ConcurrencyLimit) -> Option<Key> {
        while let Some((at, key)) = self.delayed.first().cloned() {
            if at > now {
                break;
            }
            self.delayed.remove(&(at, key.clone()));
            for flow in self
                .due
                .remove(&key)
                .into_iter()
                .flat_map(|(_, flows)| flows)
            {
                self.wait_in(key.clone(), flow);
            }
        }
        while let Some((flow, most)) = self.next_turn(&limit) {
            let may_create = self.has_room(&flow, most);
            let waiting = self.flows.get_mut(&flow);
            let Some((arrival, key)) = waiting.and_then(|of| of.pop(may_create)) else {
                self.flows.remove(&flow); // its keys were processed in the turns of other flows
                continue;
            };
            for (other, at) in self.queued.remove(&key).unwrap_or_default() {
                if let Some(waiting) = self.flows.get_mut(&other) {
                    waiting.keys.remove(&at);
                    waiting.held.remove(&at);
                }
            }
            if self.flows.get(&flow).is_some_and(Waiting::is_empty) {
                self.flows.remove(&flow);
            } else {
                self.turns.push_back(flow.clone());
            }
            let running = Running {
                flow,
                arrival,
                most,
                creates: false,
            };
            self.running.insert(key.clone(), running);
            return Some(key);
        }
        None
    }

    /// Whether one more plan of a flow that creates a Service may be executed. A quarter of all slots, and of those of the
    /// flow, is for other plans: the API server may refuse creations after a long time, for example because a webhook does
    /// not answer.
    fn has_room(&self, flow: &Flow, most: usize) -> bool {
        let part = |slots: usize| (slots - slots.div_ceil(4)).max(1);
        let creating = || self.running.values().filter(|running| running.creates);
        let in_flow = creating().filter(|running| running.flow == *flow);
        let all = self.slots.map_or(usize::MAX, part);
        in_flow.count() < part(most) && creating().count() < all
    }

    /// Records that the plan of a running key creates a Service. Returns whether it may be executed now. If not, the key
    /// comes again when there is room.
    pub fn may_create(&mut self, key: &Key) -> bool {
        let Some(running) = self.running.get(key) else {
            return true;
        };
        let has_room = self.has_room(&running.flow, running.most);
        if has_room {
            self.running
                .entry(key.clone())
                .and_modify(|running| running.creates = true);
        } else if let Some(running) = self.running.remove(key) {
            let (flow, arrival) = (running.flow, running.arrival);
            if !self.flows.contains_key(&flow) {
                self.turns.push_back(flow.clone());
            }
            let waiting = self.flows.entry(flow.clone()).or_default();
            waiting.held.insert(arrival, key.clone());
            self.queued
                .entry(key.clone())
                .or_default()
                .push((flow, arrival));
        }
        has_room
    }

    /// Removes and returns the flow whose turn it is: the first below its limit beside others, otherwise the
    /// first below its maximum.
    fn next_turn(&mut self, limit: impl Fn(&str) -> ConcurrencyLimit) -> Option<(Flow, usize)> {
        let of = |flow: &Flow| {
            self.running
                .values()
                .filter(|known| known.flow == *flow)
                .count()
        };
        let mut later = None;
        let mut next = None;
        for (place, flow) in self.turns.iter().enumerate() {
            let limit = if flow.as_ref() == LOCAL {
                ConcurrencyLimit::ALL
            } else {
                limit(flow)
            };
            let only_held = |waiting: &Waiting| waiting.keys.is_empty() && !waiting.is_empty();
            if self.flows.get(flow).is_some_and(only_held) && !self.has_room(flow, limit.most) {
                continue;
            }
            let running = of(flow);
            if running < limit.beside_others {
                next = Some((place, limit.most));
                break;
            }
            if running < limit.most {
                later = later.or(Some((place, limit.most)));
            }
        }
        let (place, most) = next.or(later)?;
        Some((self.turns.remove(place)?, most))
    }

    /// Returns a key that is not processed again until it is enqueued, which may have happened meanwhile.
    pub fn done(&mut self, key: &Key) {
        self.finish(key);
    }

    /// Returns a key that failed. It is processed again at this time, or at once if it was enqueued meanwhile.
    pub fn retry(&mut self, key: &Key, at: Instant) {
        let flow = self.flow_of(key);
        if !self.finish(key) {
            self.delay_until(key, at, [flow].into());
        }
    }

    /// Returns a key that was not processed. It comes again at this time, or earlier if it is enqueued after this call.
    pub fn postpone(&mut self, key: &Key, at: Instant) {
        let mut flows = self.again.remove(key).unwrap_or_default();
        flows.insert(self.flow_of(key));
        self.running.remove(key);
        self.delay_until(key, at, flows);
    }

    fn delay_until(&mut self, key: &Key, at: Instant, flows: BTreeSet<Flow>) {
        self.delayed.insert((at, key.clone()));
        self.due.insert(key.clone(), (at, flows));
    }

    /// The flow that a running key came from.
    pub fn flow_of(&self, key: &Key) -> Flow {
        let running = self.running.get(key);
        running.map_or_else(|| self.flow(key, LOCAL), |running| running.flow.clone())
    }

    /// Enqueues a key that is not in the queue, to be processed at this time.
    pub fn delay(&mut self, key: &Key, by: &str, at: Instant) {
        let flow = self.flow(key, by);
        self.delay_until(key, at, [flow].into());
    }

    /// Ends the processing of a key. Returns whether it was enqueued meanwhile, and so is in the queue again.
    fn finish(&mut self, key: &Key) -> bool {
        self.running.remove(key);
        let flows = self.again.remove(key).unwrap_or_default();
        let comes_again = !flows.is_empty();
        for flow in flows {
            self.enqueue_in(key.clone(), flow);
        }
        comes_again
    }

    /// Makes all delayed keys due now, because the cause of their failures may be resolved.
    pub fn hurry(&mut self) {
        self.delayed.clear();
        for (key, (_, flows)) in std::mem::take(&mut self.due) {
            for flow in flows {
                self.enqueue_in(key.clone(), flow);
            }
        }
    }

    /// When the next delayed key is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.delayed.first().map(|(at, _)| *at)
    }

    /// The number of waiting keys, including delayed ones.
    pub fn len(&self) -> usize {
        self.queued.len() + self.delayed.len()
    }

    /// The number of running keys.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// The flow that a key waits in if `by` enqueues it.
    fn flow(&self, key: &Key, by: &str) -> Flow {
        let name = match key {
            Key::Mirror { cluster, .. } => cluster,
            Key::Federated { .. } | Key::Gateway { .. } => by,
        };
        let known = self.flows.get_key_value(name);
        known.map_or_else(|| name.into(), |(flow, _)| flow.clone())
    }
}

#[cfg(test)]
mod tests;
