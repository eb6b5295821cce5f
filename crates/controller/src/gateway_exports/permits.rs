//! Which objects of Linkerd's policy let other clusters through the gateway: for up to 16 hosts that are exported to the
//! same clusters, a group of a route with these hosts, a policy for the route, and the identities that it permits. Once a
//! `Server` has a route, it answers requests that no route has with 404.
//!
//! No request may fail while groups change. So a host never moves between groups: what is missing is added first, and the
//! rest goes later. And before the first of several routes, there is one for all hosts, until the others are there. No
//! client, and no clock but the one that is passed in.

mod objects;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kube::core::DynamicObject;
use mirror_core::api::{consent::ExportConsent, covers::covers};
use serde_json::Value;
use tokio::time::Instant;

pub use self::objects::{PolicyKind, PolicyWrite};
use self::objects::{hosts_of, identities_of, name, number, policy_spec, route_spec, specs};
use super::plan::{ExportGateway, ExportedName, ExportedService};
use crate::watch::Event;

/// Maximum number of hosts of a route, by its definition.
const HOSTS: usize = 16;
/// How long exports are collected before they are written.
const COLLECT: Duration = Duration::from_millis(500);
/// How long what is not needed any more stays after something was added: Linkerd reads each kind by itself.
const HOLD: Duration = Duration::from_secs(3);
/// Number of the route for all hosts.
const ALL_HOSTS: u32 = 0;

/// The identities that a group permits.
type Identities = BTreeSet<String>;
/// Names of hosts.
type Hosts = BTreeSet<String>;

/// What is known of the objects, and when the next write is.
pub struct Permits {
    gateway: ExportGateway,
    /// The specs of our objects by kind and number; a kind that has not been listed yet is missing.
    found: BTreeMap<PolicyKind, BTreeMap<u32, Value>>,
    /// Since when something is to be added, and since when something is to be removed.
    due: [Option<Instant>; 2],
}

/// What to do.
#[derive(Debug, PartialEq)]
pub enum NextPermits {
    /// Nothing, until something changes.
    Rest,
    /// Nothing before this time.
    At(Instant),
    /// To write these objects, in this order.
    Write(Vec<PolicyWrite>),
}

/// A group that should exist.
#[derive(Debug, Default, PartialEq)]
struct Group {
    identities: Identities,
    hosts: Hosts,
}

impl Permits {
    pub fn new(gateway: ExportGateway) -> Self {
        Self {
            gateway,
            found: BTreeMap::new(),
            due: [None; 2],
        }
    }

    /// Handles what a watch reports of objects of a kind.
    pub fn on(&mut self, kind: PolicyKind, change: &Event<DynamicObject>) {
        let read = |object: &DynamicObject| {
            let number = number(kind, object)?;
            Some((number, object.data["spec"].clone()))
        };
        match change {
            Event::List { objects, .. } => {
                let objects = objects.iter().filter_map(|object| read(object));
                self.found.insert(kind, objects.collect());
            }
            Event::Apply(object) => {
                let found = self.found.entry(kind).or_default();
                found.extend(read(object));
            }
            Event::Delete(object) => {
                if let Some((number, _)) = read(object) {
                    self.found.entry(kind).or_default().remove(&number);
                }
            }
        }
    }

    /// An object was deleted.
    pub fn deleted(&mut self, kind: PolicyKind, deleted: &str) {
        if let Some(found) = self.found.get_mut(&kind) {
            found.retain(|number, _| name(kind, *number) != deleted);
        }
    }

    /// What to do now. `exported`: the Services that are exported; `None` before their first list.
    pub fn next(
        &mut self,
        exported: Option<&BTreeMap<&ExportedName, &ExportedService>>,
        now: Instant,
    ) -> NextPermits {
        let is_known = PolicyKind::ALL
            .iter()
            .all(|kind| self.found.contains_key(kind));
        let (true, Some(exported)) = (is_known, exported) else {
            return NextPermits::Rest;
        };
        let (added, removed) = if self.gateway.permits {
            let groups = self.groups(exported);
            (self.added(&groups), self.removed(&groups))
        } else {
            self.withdrawn()
        };
        for (due, writes, wait) in [(0, added, COLLECT), (1, removed, HOLD)] {
            if writes.is_empty() {
                self.due[due] = None;
                continue;
            }
            if due == 0 {
                self.due[1] = None; // removals wait for the last addition
            }
            let at = *self.due[due].get_or_insert(now + wait);
            return if at > now {
                NextPermits::At(at)
            } else {
                self.due[due] = None;
                NextPermits::Write(writes)
            };
        }
        NextPermits::Rest
    }

    fn of(&self, kind: PolicyKind, number: u32) -> Option<&Value> {
        self.found.get(&kind)?.get(&number)
    }

    fn numbers(&self, kind: PolicyKind) -> impl Iterator<Item = u32> {
        self.found
            .get(&kind)
            .into_iter()
            .flat_map(|all| all.keys().copied())
    }

    /// The groups that should exist. Each host stays in the group that has it, if that permits the right clusters.
    fn groups(&self, exported: &BTreeMap<&ExportedName, &ExportedService>) -> BTreeMap<u32, Group> {
        let mut wanted: BTreeMap<Identities, Vec<Hosts>> = BTreeMap::new();
        for ((namespace, name), service) in exported {
            if let Some(consent) = &service.consent {
                let identities = self.gateway.identities(consent);
                let hosts = self.gateway.hosts(namespace, name, service.is_headless);
                wanted.entry(identities).or_default().push(hosts);
            }
        }
        let mut groups = BTreeMap::new();
        for (identities, mut services) in wanted {
            let mut own = Vec::new();
            for number in self.numbers(PolicyKind::Identities) {
                if !self.is_whole(number, &identities) {
                    continue; // somebody has changed it
                }
                let there = self.of(PolicyKind::Route, number).map(hosts_of);
                let there = there.unwrap_or_default();
                let is_there = |hosts: &mut Hosts| hosts.is_subset(&there);
                let kept: Hosts = services.extract_if(.., is_there).flatten().collect();
                own.push((number, kept, HOSTS.saturating_sub(there.len())));
            }
            for hosts in services {
                let with_room = own.iter_mut().find(|(_, _, room)| *room >= hosts.len());
                if let Some((_, of, room)) = with_room {
                    *room -= hosts.len();
                    of.extend(hosts);
                } else {
                    let taken = |number: &u32| {
                        let mut kinds = PolicyKind::ALL.iter();
                        kinds.any(|kind| self.of(*kind, *number).is_some())
                            || groups.contains_key(number)
                            || own.iter().any(|(own, ..)| own == number)
                    };
                    let free = (ALL_HOSTS + 1..u32::MAX).find(|number| !taken(number));
                    let room = HOSTS - hosts.len();
                    own.extend(free.map(|number| (number, hosts, room)));
                }
            }
            for (number, hosts, _) in own {
                if !hosts.is_empty() {
                    let identities = identities.clone();
                    groups.insert(number, Group { identities, hosts });
                }
            }
        }
        groups
    }

    /// Whether a group permits these identities, and no others.
    fn is_whole(&self, number: u32, identities: &Identities) -> bool {
        let found = self.of(PolicyKind::Identities, number);
        let policy = self.of(PolicyKind::Policy, number);
        number != ALL_HOSTS
            && found.map(identities_of).as_ref() == Some(identities)
            && policy.is_none_or(|policy| covers(policy, &policy_spec(number)))
    }

    /// The writes that add what is missing. They let nobody through who may not, and shut nobody out.
    fn added(&self, groups: &BTreeMap<u32, Group>) -> Vec<PolicyWrite> {
        let mut writes = Vec::new();
        let is_whole = self.of(PolicyKind::Whole, ALL_HOSTS).is_some();
        let is_first = self.numbers(PolicyKind::Route).next().is_none();
        if is_whole && is_first && groups.len() > 1 {
            writes.push(self.all_hosts());
        }
        for (number, group) in groups {
            let there = self.of(PolicyKind::Route, *number).map(hosts_of);
            let hosts = there
                .iter()
                .flatten()
                .chain(&group.hosts)
                .cloned()
                .collect();
            for (kind, spec) in specs(*number, &group.identities, &hosts) {
                writes.extend(self.write(kind, *number, spec));
            }
        }
        writes
    }

    /// The writes that remove what is not needed any more.
    fn removed(&self, groups: &BTreeMap<u32, Group>) -> Vec<PolicyWrite> {
        let mut writes = Vec::new();
        for (number, group) in groups {
            writes.extend(self.write(PolicyKind::Route, *number, route_spec(&group.hosts)));
        }
        for kind in PolicyKind::GROUP {
            let left = self
                .numbers(kind)
                .filter(|number| !groups.contains_key(number));
            writes.extend(left.map(|number| PolicyWrite::Delete(kind, name(kind, number))));
        }
        let whole = self.numbers(PolicyKind::Whole);
        writes.extend(
            whole.map(|number| {
                PolicyWrite::Delete(PolicyKind::Whole, name(PolicyKind::Whole, number))
            }),
        );
        writes
    }

    /// The writes that remove all groups, in two steps. Without the policy for the whole gateway, everything stays: nobody
    /// could use the gateway.
    fn withdrawn(&self) -> (Vec<PolicyWrite>, Vec<PolicyWrite>) {
        let mut left = self
            .numbers(PolicyKind::Route)
            .filter(|number| *number != ALL_HOSTS);
        let has_several = left.nth(1).is_some();
        let is_there = self.of(PolicyKind::Route, ALL_HOSTS).is_some();
        if self.of(PolicyKind::Whole, ALL_HOSTS).is_none() {
            return Default::default();
        }
        let added = if has_several && !is_there {
            vec![self.all_hosts()]
        } else {
            Vec::new()
        };
        let mut removed = Vec::new();
        for kind in PolicyKind::GROUP {
            // The route for all hosts is the last one.
            let mut numbers: Vec<u32> = self.numbers(kind).collect();
            numbers.reverse();
            let names = numbers.into_iter().map(|number| name(kind, number));
            removed.extend(names.map(|name| PolicyWrite::Delete(kind, name)));
        }
        (added, removed)
    }

    fn all_hosts(&self) -> PolicyWrite {
        let spec = route_spec(&Hosts::new());
        PolicyWrite::Create(
            PolicyKind::Route,
            self.object(PolicyKind::Route, ALL_HOSTS, &spec),
        )
    }

    /// The write for an object that should have this spec, unless it has it.
    fn write(&self, kind: PolicyKind, number: u32, spec: Value) -> Option<PolicyWrite> {
        match self.of(kind, number) {
            None => Some(PolicyWrite::Create(kind, self.object(kind, number, &spec))),
            Some(found) if covers(found, &spec) => None,
            Some(_) => Some(PolicyWrite::Replace(kind, name(kind, number), spec)),
        }
    }

    fn object(&self, kind: PolicyKind, number: u32, spec: &Value) -> Value {
        objects::object(&self.gateway.namespace, kind, number, spec)
    }
}

impl ExportGateway {
    /// The identities of workloads in these clusters. Linkerd has the same namespace in all of them.
    fn identities(&self, consent: &ExportConsent) -> Identities {
        match consent {
            ExportConsent::All => Identities::from(["*".to_owned()]),
            ExportConsent::Only(domains) => {
                let domains = domains.iter();
                let names = domains.map(|to| format!("*.identity.{}.{to}", self.linkerd_namespace));
                names.collect()
            }
        }
    }

    /// The hosts of a Service.
    fn hosts(&self, namespace: &str, service: &str, is_headless: bool) -> Hosts {
        let host = format!("{service}.{namespace}.svc.{}", self.domain);
        let pods = is_headless.then(|| format!("*.{host}"));
        pods.into_iter().chain([host]).collect()
    }
}

#[cfg(test)]
mod tests;
