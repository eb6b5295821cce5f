//! What the counters of proxies say: read at two times, and what lies between.

use std::time::Duration;

use mirror_core::api::metadata::ResourceId;
use tokio::time::sleep;

use super::proxies::{PodProxy, ProxyError};

/// What was read of proxies at two times.
#[derive(Clone, Debug)]
pub struct ReadTwice<T> {
    /// The Pods whose proxies were read both times, and what they said.
    pub read: Vec<(ResourceId, T, T)>,
    /// Why others could not be read: the first reason.
    pub unread: Option<String>,
}

/// Reads these proxies, and once more after an interval if one of them answers.
pub async fn read_twice<T>(
    proxies: &[PodProxy],
    interval: Duration,
    read: impl AsyncFn() -> Vec<Result<T, ProxyError>>,
) -> ReadTwice<T> {
    let first = read().await;
    if first.iter().any(Result::is_ok) {
        sleep(interval).await;
    }
    let second = read().await;
    let mut all = ReadTwice {
        read: Vec::new(),
        unread: None,
    };
    for ((first, second), proxy) in first.into_iter().zip(second).zip(proxies) {
        match (first, second) {
            (Ok(first), Ok(second)) => all.read.push((proxy.pod.clone(), first, second)),
            (Err(why), _) | (_, Err(why)) => {
                all.unread
                    .get_or_insert_with(|| format!("{}: {why}", proxy.pod));
            }
        }
    }
    all
}

/// How much a counter has grown. One that is lower than before has started again from zero.
pub fn growth(before: f64, now: f64) -> f64 {
    if now < before { now } else { now - before }
}

/// The Service of an authority such as `web.shop.svc.cluster.local:80`.
pub fn service_of(authority: &str) -> Option<ResourceId> {
    let mut parts = authority.split(['.', ':']);
    let (name, namespace) = (parts.next()?, parts.next()?);
    (parts.next()? == "svc").then(|| ResourceId::new(namespace, name))
}
