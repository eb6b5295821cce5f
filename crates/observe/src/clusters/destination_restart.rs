//! What a restart of Linkerd's destination controller causes: it lists all clusters that it has credentials for again, and
//! the proxies that were connected to a Pod ask another one, all at once.

use client::requests::{PAGE, next_page};
use hints::prose::counted;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::ListParams};

use super::{
    proxies::MESHED,
    snapshot::{Destination, Known},
};

/// Kinds that a Pod lists of each cluster: EndpointSlices, Pods, Services, Servers and `ReplicaSets` (`cluster_store.go`).
const KINDS: usize = 5;
/// Clusters that a Pod lists one after the other, in about half a minute. Meanwhile it does not know the rest.
const CLUSTERS: usize = 30;
/// Proxies that ask a Pod at once. With 1,200 new streams, destination controllers did not recover (linkerd2#15583).
const PROXIES: usize = 1_200;
/// Maximum number of pages of Pods that are counted.
const PAGES: u32 = 8;

/// What has to be done again after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DestinationRestart {
    /// Pods of the destination controller.
    pub pods: usize,
    /// Clusters that it has credentials for.
    pub clusters: usize,
    /// Pods in the mesh; of very many, only some are counted.
    pub proxies: Known<usize>,
}

impl DestinationRestart {
    /// With this number of Pods in the mesh.
    pub fn of(destination: &Destination, proxies: Known<usize>) -> Self {
        let used = destination.credentials.values();
        Self {
            pods: destination.pods,
            clusters: used.filter(|known| known.lacks.is_empty()).count(),
            proxies,
        }
    }

    /// What happens, in numbers.
    pub fn text(&self) -> String {
        let clusters = counted(self.clusters, "cluster");
        let lists = counted(self.pods.max(1) * self.clusters * KINDS, "list");
        let of_clusters = match self.pods {
            0 => format!(
                "no Pod of linkerd-destination runs, and each that starts lists {clusters}: {lists}"
            ),
            1 => format!(
                "after a restart of linkerd-destination, its Pod lists {clusters} again: {lists}"
            ),
            pods => format!(
                "after a restart of linkerd-destination, each of its {pods} Pods lists {clusters} again: {lists}"
            ),
        };
        match &self.proxies {
            Ok(proxies) => {
                let least = if *proxies < Self::most() {
                    ""
                } else {
                    "at least "
                };
                let ask = if *proxies == 1 {
                    "proxy asks"
                } else {
                    "proxies ask"
                };
                format!("{of_clusters}; {least}{proxies} {ask} it again")
            }
            Err(why) => format!(
                "{of_clusters}; how many proxies ask it again could not be seen, because {why}"
            ),
        }
    }

    /// What is too much at once, with a remedy; `None` if nothing is.
    pub fn problem(&self) -> Option<String> {
        let each = self
            .proxies
            .as_ref()
            .map_or(0, |all| all / self.pods.max(1));
        if each > PROXIES {
            return Some(format!(
                "{}, about {each} each Pod at once, and from {PROXIES} on it may not recover: give it more Pods or CPU first, \
                 and restart it when there is little traffic",
                self.text()
            ));
        }
        (self.clusters > CLUSTERS).then(|| {
            format!(
                "{}, one cluster after the other, and until then it does not find new Pods there: restart it when there are \
                 no rollouts",
                self.text()
            )
        })
    }

    fn most() -> usize {
        usize::try_from(PAGE * PAGES).unwrap_or(usize::MAX)
    }
}

/// How many Pods are in the mesh: at most some thousand are counted, without their content.
pub async fn meshed(client: &Client) -> Known<usize> {
    let pods: Api<Pod> = Api::all(client.clone());
    let mut params = ListParams::default().labels(MESHED).limit(PAGE);
    let mut count = 0;
    for _ in 0..PAGES {
        let page = pods.list_metadata(&params).await?;
        count += page.items.len();
        params.continue_token = next_page(page.metadata);
        if params.continue_token.is_none() {
            break;
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_is_told_in_numbers_and_warned_of_if_they_are_large() {
        let of = |pods, clusters, proxies: Known<usize>| DestinationRestart {
            pods,
            clusters,
            proxies,
        };
        let unseen = || Err("forbidden".into());
        for (restart, text, problem) in [
            (
                of(1, 1, Ok(1)),
                "its Pod lists 1 cluster again: 5 lists; 1 proxy asks it again",
                None,
            ),
            (
                of(0, 2, Ok(2)),
                "no Pod of linkerd-destination runs, and each that starts lists 2 clusters: 10 lists; 2 proxies ask it again",
                None,
            ),
            (
                of(3, 30, Ok(3_600)),
                "each of its 3 Pods lists 30 clusters again: 450 lists; 3600 proxies ask it again",
                None,
            ),
            (
                of(3, 2, Ok(4_000)),
                "each of its 3 Pods lists 2 clusters again: 30 lists; at least 4000 proxies ask it again",
                Some("about 1333 each Pod at once, and from 1200 on"),
            ),
            (
                of(1, 31, Ok(9)),
                "its Pod lists 31 clusters again: 155 lists; 9 proxies ask it again",
                Some("one cluster after the other"),
            ),
            (
                of(1, 1, unseen()),
                "its Pod lists 1 cluster again: 5 lists; how many proxies ask it again could not be seen, because forbidden",
                None,
            ),
            (
                of(1, 31, unseen()),
                "because forbidden",
                Some("one cluster after the other"),
            ),
        ] {
            assert!(restart.text().contains(text), "{}", restart.text());
            let told = restart.problem();
            let says = |part: &str| told.as_ref().is_some_and(|told| told.contains(part));
            assert_eq!(told.is_some(), problem.is_some(), "{told:?}");
            assert!(problem.is_none_or(says), "{told:?}");
        }
    }
}
