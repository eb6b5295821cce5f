//! Addresses of one gateway: IP addresses and host names of a Link → a set of IP addresses that changes
//! only when it has to.
//!
//! Every change rewrites the EndpointSlices of all mirrors of a Link, so an answer is not believed at once:
//! - A new address is used from the first answer that has it.
//! - An address is dropped when it was in none of the last few answers of its name. A name whose answers
//!   rotate through a larger set thus settles at the whole set. Where an address comes back that had been
//!   dropped, the rotation is longer than that, and the name is given twice as many answers, up to a limit.
//! - A failed lookup, or an empty answer, is no answer: the last good ones stay.
//!
//! The price: an address that is gone for good stays for two more lookups, a minute. Linkerd's proxy does
//! not send requests to an endpoint that it cannot connect to, so that costs little; endpoints that come
//! and go would cost every mirror a write each time.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    net::IpAddr,
    time::Duration,
};

use futures::future::join_all;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{clock::jitter, trouble::Trouble};

/// Time between two lookups; up to a tenth is added at random.
pub const PERIOD: Duration = Duration::from_secs(30);
/// Limit of one lookup. The system's resolver goes on for longer in its thread, but not as long as the
/// period, so threads do not pile up.
const LOOKUP: Duration = Duration::from_secs(5);
/// Answers of a name that count, at first.
const ANSWERS: usize = 3;
/// Answers of a name that count, at most: ten minutes of a name that rotates.
const MAX_ANSWERS: usize = 20;
/// Addresses of a name, at most; an EndpointSlice holds 1,000 endpoints in all.
const MAX_ADDRESSES: usize = 100;

/// One item of a Link's gateway address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// An IP address.
    Ip(IpAddr),
    /// A host name.
    Name(String),
}

/// What is known of a gateway's addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Sorted, without duplicates, not empty.
    Addresses(Vec<IpAddr>),
    /// No name was ever resolved; why, for a person to read.
    Unresolved(String),
}

/// The names of one gateway and what is known of each.
#[derive(Debug)]
pub struct Resolver {
    fixed: BTreeSet<IpAddr>,
    names: BTreeMap<String, Name>,
}

/// What is known of one name. Pure.
#[derive(Debug)]
struct Name {
    /// The last good answers, oldest first.
    answers: VecDeque<BTreeSet<IpAddr>>,
    /// How many of them count.
    counts: usize,
    /// Addresses that were dropped.
    dropped: BTreeSet<IpAddr>,
    trouble: Trouble,
    error: String,
}

/// Reads a Link's `gatewayAddress`: items joined by commas, spaces around them and empty items ignored.
///
/// The original does not trim, so that `a, b` fails for `b`.
pub fn parse_hosts(text: &str) -> Vec<Host> {
    let items = text.split(',').map(str::trim).filter(|i| !i.is_empty());
    let host = |item: &str| {
        item.parse()
            .map_or_else(|_| Host::Name(item.to_owned()), Host::Ip)
    };
    let hosts: BTreeSet<_> = items.map(host).collect();
    hosts.into_iter().collect()
}

/// The addresses of a gateway that has no host names, sorted and without duplicates: nothing is to be looked
/// up, now or later. `None` if it has a name, or no host at all.
pub fn fixed(hosts: &[Host]) -> Option<Vec<IpAddr>> {
    let addresses: Option<BTreeSet<_>> = hosts
        .iter()
        .map(|host| match host {
            Host::Ip(address) => Some(*address),
            Host::Name(_) => None,
        })
        .collect();
    let addresses = addresses.filter(|a| !a.is_empty())?;
    Some(addresses.into_iter().collect())
}

/// Looks the names up until `stop`, and reports the first result and each change. Returns early when there
/// is nothing to look up.
pub async fn run(hosts: &[Host], sink: impl Fn(Resolution), stop: CancellationToken) {
    if let Some(addresses) = fixed(hosts) {
        sink(Resolution::Addresses(addresses));
        return;
    }
    stop.run_until_cancelled(watch(hosts, lookup, sink)).await;
}

async fn watch<L: Future<Output = io::Result<BTreeSet<IpAddr>>>>(
    hosts: &[Host],
    lookup: impl Fn(String) -> L,
    sink: impl Fn(Resolution),
) {
    let mut resolver = Resolver::new(hosts);
    let mut reported = None;
    loop {
        let resolution = resolver.resolve_with(&lookup).await;
        if reported.as_ref() != Some(&resolution) {
            sink(resolution.clone());
            reported = Some(resolution);
        }
        sleep(PERIOD + jitter(PERIOD / 10)).await;
    }
}

/// Asks the system's resolver, for both address families.
async fn lookup(name: String) -> io::Result<BTreeSet<IpAddr>> {
    let addresses = tokio::net::lookup_host((name, 0)).await?;
    Ok(addresses.map(|a| a.ip().to_canonical()).collect())
}

impl Resolver {
    /// A resolver that knows nothing of its names yet.
    pub fn new(hosts: &[Host]) -> Self {
        let mut resolver = Self {
            fixed: BTreeSet::new(),
            names: BTreeMap::new(),
        };
        for host in hosts {
            match host {
                Host::Ip(address) => {
                    resolver.fixed.insert(*address);
                }
                Host::Name(name) => {
                    resolver.names.insert(name.clone(), Name::new(name));
                }
            }
        }
        resolver
    }

    /// Looks up all names at once, and waits at most five seconds.
    pub async fn resolve(&mut self) -> Resolution {
        self.resolve_with(&lookup).await
    }

    async fn resolve_with<L: Future<Output = io::Result<BTreeSet<IpAddr>>>>(
        &mut self,
        lookup: &impl Fn(String) -> L,
    ) -> Resolution {
        let lookups = self.names.iter_mut().map(async |(host, name)| {
            match timeout(LOOKUP, lookup(host.clone())).await {
                Ok(Ok(answer)) if answer.is_empty() => name.failed("it has no addresses"),
                Ok(Ok(answer)) => name.answered(answer),
                Ok(Err(error)) => name.failed(&error.to_string()),
                Err(_) => name.failed("no answer in time"),
            }
        });
        join_all(lookups).await;
        self.resolution()
    }

    fn resolution(&self) -> Resolution {
        let mut addresses = self.fixed.clone();
        addresses.extend(self.names.values().flat_map(Name::addresses));
        if !addresses.is_empty() {
            return Resolution::Addresses(addresses.into_iter().collect());
        }
        let reasons: Vec<_> = self
            .names
            .iter()
            .map(|(host, name)| format!("{host}: {}", name.error))
            .collect();
        Resolution::Unresolved(if reasons.is_empty() {
            "the gateway has no address".to_owned()
        } else {
            reasons.join("; ")
        })
    }
}

impl Name {
    fn new(name: &str) -> Self {
        Self {
            answers: VecDeque::new(),
            counts: ANSWERS,
            dropped: BTreeSet::new(),
            trouble: Trouble::new(format!("look up the gateway's name {name}")),
            error: "not looked up yet".to_owned(),
        }
    }

    fn addresses(&self) -> BTreeSet<IpAddr> {
        let all: BTreeSet<_> = self.answers.iter().flatten().copied().collect();
        all.into_iter().take(MAX_ADDRESSES).collect()
    }

    fn answered(&mut self, answer: BTreeSet<IpAddr>) {
        self.trouble.clear();
        if !self.dropped.is_disjoint(&answer) {
            self.counts = (self.counts * 2).min(MAX_ANSWERS);
            self.dropped.clear();
        }
        let before = self.addresses();
        self.answers.push_back(answer);
        while self.answers.len() > self.counts {
            self.answers.pop_front();
        }
        let after = self.addresses();
        self.dropped.extend(before.difference(&after));
        // Addresses that a cloud never gives out again must not be kept for ever.
        while self.dropped.len() > MAX_ADDRESSES {
            self.dropped.pop_first();
        }
    }

    fn failed(&mut self, reason: &str) {
        self.trouble.set(reason);
        reason.clone_into(&mut self.error);
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, rc::Rc};

    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn set(lasts: &[u8]) -> BTreeSet<IpAddr> {
        lasts.iter().copied().map(ip).collect()
    }

    #[test]
    fn gateway_addresses_are_parsed_as_people_write_them() {
        let name = |n: &str| Host::Name(n.to_owned());
        for (text, hosts) in [
            ("", vec![]),
            (" , ,", vec![]),
            ("192.0.2.1", vec![Host::Ip(ip(1))]),
            (
                "gw.example, 192.0.2.2 ,192.0.2.1,gw.example,",
                vec![Host::Ip(ip(1)), Host::Ip(ip(2)), name("gw.example")],
            ),
            (
                "2001:db8::1",
                vec![Host::Ip("2001:db8::1".parse().unwrap())],
            ),
            ("192.0.2.256", vec![name("192.0.2.256")]),
        ] {
            assert_eq!(parse_hosts(text), hosts, "{text:?}");
        }
    }

    #[test]
    fn only_a_gateway_without_names_is_fixed() {
        assert_eq!(fixed(&[]), None);
        assert_eq!(
            fixed(&[Host::Ip(ip(2)), Host::Ip(ip(1)), Host::Ip(ip(2))]),
            Some(vec![ip(1), ip(2)])
        );
        assert_eq!(fixed(&parse_hosts("192.0.2.1,gw.example")), None);
    }

    #[test]
    fn answers_become_addresses_that_change_only_when_they_have_to() {
        // Each answer (empty: a failed lookup), and the addresses after it.
        type Step = (&'static [u8], &'static [u8]);
        let table: &[(&str, &[Step])] = &[
            (
                "a change: the new at once, the old after two more answers",
                &[(&[1], &[1]), (&[2], &[1, 2]), (&[2], &[1, 2]), (&[2], &[2])],
            ),
            (
                "failures change nothing, and do not age answers",
                &[
                    (&[], &[]),
                    (&[1], &[1]),
                    (&[], &[1]),
                    (&[], &[1]),
                    (&[], &[1]),
                    (&[2], &[1, 2]),
                ],
            ),
            (
                "a rotation through three settles at once",
                &[
                    (&[1], &[1]),
                    (&[2], &[1, 2]),
                    (&[3], &[1, 2, 3]),
                    (&[1], &[1, 2, 3]),
                    (&[2], &[1, 2, 3]),
                ],
            ),
            (
                "a longer rotation settles after one address came back",
                &[
                    (&[1], &[1]),
                    (&[2], &[1, 2]),
                    (&[3], &[1, 2, 3]),
                    (&[4], &[2, 3, 4]),
                    (&[1], &[1, 2, 3, 4]),
                    (&[2], &[1, 2, 3, 4]),
                    (&[3], &[1, 2, 3, 4]),
                    (&[4], &[1, 2, 3, 4]),
                    (&[1], &[1, 2, 3, 4]),
                ],
            ),
        ];
        for (what, steps) in table {
            let mut name = Name::new("gw");
            for (i, (answer, addresses)) in steps.iter().enumerate() {
                if answer.is_empty() {
                    name.failed("refused");
                } else {
                    name.answered(set(answer));
                }
                assert_eq!(name.addresses(), set(addresses), "{what}, step {i}");
            }
        }
    }

    #[test]
    fn a_name_that_draws_its_answers_from_many_addresses_settles() {
        let mut name = Name::new("gw");
        let mut changes_late = 0;
        for round in 0..200_u8 {
            let before = name.addresses();
            name.answered(set(&[round % 8, (round + 3) % 8]));
            if round >= 40 && name.addresses() != before {
                changes_late += 1;
            }
        }
        assert_eq!(changes_late, 0);
        assert_eq!(name.addresses().len(), 8);
    }

    #[test]
    fn what_is_kept_of_a_name_is_bounded() {
        let mut name = Name::new("gw");
        for round in 0..500_u32 {
            let answer =
                (0..50).map(|i| IpAddr::from((0x0a00_0000 + round * 50 + i).to_be_bytes()));
            name.answered(answer.collect());
        }
        assert!(name.addresses().len() <= MAX_ADDRESSES);
        assert!(name.answers.len() <= MAX_ANSWERS);
        assert!(name.dropped.len() <= MAX_ADDRESSES);
    }

    #[tokio::test]
    async fn names_that_fail_do_not_hide_those_that_do_not() {
        let lookup = async |name: String| match name.as_str() {
            "good" => Ok(set(&[2, 1])),
            "empty" => Ok(BTreeSet::new()),
            _ => Err(io::Error::other("no such name")),
        };
        let of = |text: &str| Resolver::new(&parse_hosts(text));
        for (hosts, resolution) in [
            (
                "good,bad,192.0.2.9",
                Resolution::Addresses(vec![ip(1), ip(2), ip(9)]),
            ),
            ("bad,192.0.2.9", Resolution::Addresses(vec![ip(9)])),
            (
                "bad,empty",
                Resolution::Unresolved("bad: no such name; empty: it has no addresses".into()),
            ),
            (
                "",
                Resolution::Unresolved("the gateway has no address".into()),
            ),
        ] {
            let got = of(hosts).resolve_with(&lookup).await;
            assert_eq!(got, resolution, "{hosts}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_changes_are_reported_and_a_silent_resolver_is_given_up() {
        let answers = RefCell::new(VecDeque::from([
            None,
            None,
            Some(set(&[1])),
            Some(set(&[1])),
            None,
            Some(set(&[1, 2])),
        ]));
        let lookup = async |_: String| {
            let next = answers.borrow_mut().pop_front();
            match next {
                Some(Some(answer)) => Ok(answer),
                // Never answers.
                _ => std::future::pending().await,
            }
        };
        let reports = Rc::new(RefCell::new(Vec::new()));
        let sink = |report| reports.borrow_mut().push(report);
        let hosts = parse_hosts("gw");
        let watching = watch(&hosts, lookup, sink);
        assert!(timeout(PERIOD * 10, watching).await.is_err());
        assert_eq!(
            *reports.borrow(),
            [
                Resolution::Unresolved("gw: no answer in time".into()),
                Resolution::Addresses(vec![ip(1)]),
                Resolution::Addresses(vec![ip(1), ip(2)]),
            ]
        );
    }

    #[tokio::test]
    async fn the_system_resolver_knows_localhost() {
        let loopback = lookup("localhost".into()).await.unwrap();
        assert!(loopback.iter().all(IpAddr::is_loopback), "{loopback:?}");
        assert!(!loopback.is_empty());
    }

    #[tokio::test]
    async fn a_gateway_of_addresses_is_reported_once_without_a_lookup() {
        let (send, mut reports) = tokio::sync::mpsc::unbounded_channel();
        let running = tokio::spawn(async move {
            let sink = |report| send.send(report).unwrap();
            run(&parse_hosts("192.0.2.1"), sink, CancellationToken::new()).await;
        });
        running.await.unwrap();
        let expected = Resolution::Addresses(vec![ip(1)]);
        assert_eq!(reports.recv().await, Some(expected));
        assert_eq!(reports.recv().await, None);
    }
}
