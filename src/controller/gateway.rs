//! Resolves the addresses of one gateway: IP addresses and host names of a Link → a stable set of IP addresses.
//!
//! `answers.rs` decides which addresses of the DNS responses to use. This file has the hosts, lookups and reports.

mod answers;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::IpAddr,
    time::Duration,
};

use futures::future::join_all;
use tokio::{
    sync::watch as latest,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use self::answers::ResolvedName;
use super::transport;
use crate::{mirror::Host, timing::jitter};

/// Time between two lookups. Linkerd's service mirror looks up once a minute.
pub const PERIOD: Duration = Duration::from_secs(30);
/// Time from the first lookup to the next one while the gateway fails. It doubles up to the usual time.
const HURRY: Duration = Duration::from_millis(2_500);
/// Timeout of one lookup. The system's resolver may continue in its thread, but for less than the period, so threads do
/// not accumulate.
const LOOKUP: Duration = Duration::from_secs(5);
/// The state of a gateway's addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The addresses: sorted, without duplicates, not empty.
    Addresses(Vec<IpAddr>),
    /// No name was ever resolved; the text says why.
    Unresolved(String),
}

/// The names of one gateway, and the state of each.
#[derive(Debug)]
pub struct Resolver {
    fixed: BTreeSet<IpAddr>,
    names: BTreeMap<String, ResolvedName>,
}

/// The addresses of a gateway without host names, which needs no lookups: sorted and without duplicates. `None` if it
/// has a name, or no host at all.
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

/// Looks the names up every `period` (plus a random part of up to a tenth) until `stop`, and sooner while the gateway is
/// `failing`, because it may have moved. Reports the first result and each change. Returns early if there is nothing to
/// look up.
pub async fn run<L: Future<Output = io::Result<BTreeSet<IpAddr>>>>(
    hosts: &[Host],
    period: Duration,
    lookup: impl Fn(String) -> L,
    sink: impl Fn(Resolution),
    failing: latest::Receiver<bool>,
    stop: CancellationToken,
) {
    if let Some(addresses) = fixed(hosts) {
        sink(Resolution::Addresses(addresses));
        return;
    }
    stop.run_until_cancelled(watch(hosts, period, lookup, sink, failing))
        .await;
}

async fn watch<L: Future<Output = io::Result<BTreeSet<IpAddr>>>>(
    hosts: &[Host],
    period: Duration,
    lookup: impl Fn(String) -> L,
    sink: impl Fn(Resolution),
    mut failing: latest::Receiver<bool>,
) {
    // The next pause, while the gateway fails.
    let mut hurry = None;
    let mut resolver = Resolver::new(hosts);
    let mut reported = None;
    loop {
        let resolution = resolver.resolve_with(&lookup).await;
        if reported.as_ref() != Some(&resolution) {
            sink(resolution.clone());
            reported = Some(resolution);
        }
        hurry = failing.borrow().then(|| hurry.unwrap_or(HURRY).min(period));
        let pause = hurry.unwrap_or(period);
        let begins_to_fail = async {
            if hurry.is_some() || failing.wait_for(|failing| *failing).await.is_err() {
                std::future::pending::<()>().await; // it fails already, or nobody probes it
            }
        };
        tokio::select! {
            () = sleep(pause + jitter(pause / 10)) => hurry = hurry.map(|pause| pause * 2),
            () = begins_to_fail => {}
        }
    }
}

impl Resolver {
    /// A resolver that has not looked up its names yet.
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
                    resolver.names.insert(name.clone(), ResolvedName::new(name));
                }
            }
        }
        resolver
    }

    /// Looks up all names concurrently, and waits for at most five seconds.
    pub async fn resolve(&mut self) -> Resolution {
        self.resolve_with(&transport::lookup).await
    }

    async fn resolve_with<L: Future<Output = io::Result<BTreeSet<IpAddr>>>>(
        &mut self,
        lookup: &impl Fn(String) -> L,
    ) -> Resolution {
        let lookups = self.names.iter_mut().map(async |(host, name)| {
            match timeout(LOOKUP, lookup(host.clone())).await {
                Ok(Ok(answer)) if answer.is_empty() => name.failed("no addresses found"),
                Ok(Ok(answer)) => name.answered(answer),
                Ok(Err(error)) => name.failed(&error.to_string()),
                Err(_) => name.failed("timed out"),
            }
        });
        join_all(lookups).await;
        self.resolution()
    }

    fn resolution(&self) -> Resolution {
        let mut addresses = self.fixed.clone();
        addresses.extend(self.names.values().flat_map(ResolvedName::addresses));
        if !addresses.is_empty() {
            return Resolution::Addresses(addresses.into_iter().collect());
        }
        let reasons: Vec<_> = self
            .names
            .iter()
            .map(|(host, name)| format!("{host}: {}", name.error()))
            .collect();
        Resolution::Unresolved(if reasons.is_empty() {
            "the gateway has no address".to_owned()
        } else {
            reasons.join("; ")
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, collections::VecDeque, rc::Rc};

    use tokio::time::Instant;

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
            assert_eq!(Host::parse_list(text), hosts, "{text:?}");
        }
    }

    #[test]
    fn only_a_gateway_without_names_is_fixed() {
        assert_eq!(fixed(&[]), None);
        assert_eq!(
            fixed(&[Host::Ip(ip(2)), Host::Ip(ip(1)), Host::Ip(ip(2))]),
            Some(vec![ip(1), ip(2)])
        );
        assert_eq!(fixed(&Host::parse_list("192.0.2.1,gw.example")), None);
    }

    #[tokio::test]
    async fn failed_names_do_not_hide_resolved_ones() {
        let lookup = async |name: String| match name.as_str() {
            "good" => Ok(set(&[2, 1])),
            "empty" => Ok(BTreeSet::new()),
            _ => Err(io::Error::other("no such name")),
        };
        let of = |text: &str| Resolver::new(&Host::parse_list(text));
        for (hosts, resolution) in [
            (
                "good,bad,192.0.2.9",
                Resolution::Addresses(vec![ip(1), ip(2), ip(9)]),
            ),
            ("bad,192.0.2.9", Resolution::Addresses(vec![ip(9)])),
            (
                "bad,empty",
                Resolution::Unresolved("bad: no such name; empty: no addresses found".into()),
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
    async fn only_changes_are_reported_and_lookups_time_out() {
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
        let hosts = Host::parse_list("gw");
        let (_failing, never) = latest::channel(false);
        let watching = watch(&hosts, PERIOD, lookup, sink, never);
        assert!(timeout(PERIOD * 10, watching).await.is_err());
        assert_eq!(
            *reports.borrow(),
            [
                Resolution::Unresolved("gw: timed out".into()),
                Resolution::Addresses(vec![ip(1)]),
                Resolution::Addresses(vec![ip(1), ip(2)]),
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn name_of_a_gateway_that_fails_is_looked_up_at_once_and_more_often() {
        let (began, times) = (Instant::now(), RefCell::new(Vec::new()));
        let lookup = async |_: String| {
            times.borrow_mut().push(began.elapsed().as_secs_f64());
            Ok(set(&[1]))
        };
        let hosts = Host::parse_list("gw");
        let (failing, fails) = latest::channel(false);
        let changes = async {
            sleep(Duration::from_secs(7)).await;
            failing.send_replace(true);
            sleep(Duration::from_secs(120)).await;
            failing.send_replace(false);
            sleep(Duration::from_secs(75)).await;
        };
        tokio::select! {
            () = watch(&hosts, PERIOD, lookup, |_| (), fails) => {}
            () = changes => {}
        }
        let times = times.into_inner();
        let is_at = |at: usize, second: f64| (times[at] - second).abs() < 0.1;
        assert!(is_at(0, 0.0) && is_at(1, 7.0), "{times:?}");
        let pauses: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let usual = PERIOD.as_secs_f64();
        for (pause, expected) in pauses[1..]
            .iter()
            .zip([2.5, 5.0, 10.0, 20.0, usual, usual, usual])
        {
            assert!((expected..expected * 1.11).contains(pause), "{pauses:?}");
        }
    }

    #[tokio::test]
    async fn gateway_with_only_addresses_is_reported_once_without_lookup() {
        let (send, mut reports) = tokio::sync::mpsc::unbounded_channel();
        let running = tokio::spawn(async move {
            let sink = |report| send.send(report).unwrap();
            let hosts = Host::parse_list("192.0.2.1");
            let never = async |_| unreachable!("a lookup");
            run(
                &hosts,
                PERIOD,
                never,
                sink,
                latest::channel(false).1,
                CancellationToken::new(),
            )
            .await;
        });
        // Ends by itself, and may be spawned.
        running.await.unwrap();
        let expected = Resolution::Addresses(vec![ip(1)]);
        assert_eq!(reports.recv().await, Some(expected));
        assert_eq!(reports.recv().await, None);
    }
}
