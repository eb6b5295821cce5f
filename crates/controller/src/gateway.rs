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

use client::timing::jitter;
use futures::future::join_all;
use mirror_core::mirror::Host;
use tokio::{
    sync::watch as latest,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use self::answers::ResolvedName;
use super::transport;

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
    /// Addresses that an earlier resolver has found, and this one has not yet.
    known: BTreeSet<IpAddr>,
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
/// `failing`, because it may have moved. `known` are the addresses that were found before. Reports the first result and
/// each change. Returns early if there is nothing to look up.
pub async fn run<L: Future<Output = io::Result<BTreeSet<IpAddr>>>>(
    hosts: &[Host],
    known: BTreeSet<IpAddr>,
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
    let resolver = Resolver::new(hosts).knowing(known);
    stop.run_until_cancelled(watch(resolver, period, lookup, sink, failing))
        .await;
}

async fn watch<L: Future<Output = io::Result<BTreeSet<IpAddr>>>>(
    mut resolver: Resolver,
    period: Duration,
    lookup: impl Fn(String) -> L,
    sink: impl Fn(Resolution),
    mut failing: latest::Receiver<bool>,
) {
    // The next pause, while the gateway fails.
    let mut hurry = None;
    let mut reported = None;
    loop {
        let resolution = resolver.resolve_with(&lookup).await;
        if reported.as_ref() != Some(&resolution) {
            sink(resolution.clone());
            reported = Some(resolution);
        }
        hurry = failing.borrow().then(|| hurry.unwrap_or(HURRY).min(period));
        let pause = hurry.unwrap_or(period);
        let is_hurried = hurry.is_some();
        let begins_to_fail = async {
            // If it fails already: works, and then fails again.
            let works = !is_hurried || failing.wait_for(|failing| !failing).await.is_ok();
            if !works || failing.wait_for(|failing| *failing).await.is_err() {
                std::future::pending::<()>().await; // nobody watches it any more
            }
        };
        tokio::select! {
            () = sleep(pause + jitter(pause / 10)) => hurry = hurry.map(|pause| pause * 2),
            () = begins_to_fail => hurry = None,
        }
    }
}

impl Resolver {
    /// A resolver that has not looked up its names yet.
    pub fn new(hosts: &[Host]) -> Self {
        let mut resolver = Self {
            fixed: BTreeSet::new(),
            names: BTreeMap::new(),
            known: BTreeSet::new(),
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

    /// The same, for hosts of which these addresses were found before.
    fn knowing(self, known: BTreeSet<IpAddr>) -> Self {
        Self { known, ..self }
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
            if let Some(why) = Host::objection(host) {
                return name.failed(why);
            }
            match timeout(LOOKUP, lookup(host.clone())).await {
                Ok(Ok(answer)) if answer.is_empty() => name.failed("no addresses found"),
                Ok(Ok(answer)) => name.answered(answer),
                Ok(Err(error)) => name.failed(&error.to_string()),
                Err(_) => name.failed("timed out"),
            }
        });
        join_all(lookups).await;
        self.drop_known();
        self.resolution()
    }

    /// Forgets the addresses that were known before, by the same rule as those of old answers. It is not known of which
    /// name they are. So they stay until there are enough answers for each name, or one of the answers has them.
    fn drop_known(&mut self) {
        if self.names.values().all(ResolvedName::is_settled) {
            self.known.clear();
        }
        for address in self.names.values().flat_map(ResolvedName::addresses) {
            self.known.remove(&address);
        }
    }

    fn resolution(&self) -> Resolution {
        let mut addresses = self.fixed.clone();
        addresses.extend(self.names.values().flat_map(ResolvedName::addresses));
        if !addresses.is_empty() {
            addresses.extend(&self.known);
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
mod tests;
