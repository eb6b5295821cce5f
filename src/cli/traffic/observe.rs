//! Takes sample after sample of the clients of one cluster.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use client::Cluster;
use mirror_core::api::metadata::ResourceId;
use observe::{
    clusters::{
        kube_context::KubeContext,
        proxies::ProxyError,
        snapshot::Known,
        traffic::{TrafficClients, TrafficSample, TrafficServices, list, samples},
    },
    traffic::{TrafficRow, increase, rows},
};

use super::args::TrafficArgs;

/// The clients of one cluster, and their last samples.
pub struct Observer<'a> {
    context: &'a KubeContext,
    args: &'a TrafficArgs,
    last: HashMap<ResourceId, TrafficSample>,
    /// The Services that the last samples know.
    known: BTreeSet<ResourceId>,
    lists: Option<Lists>,
}

/// What was listed in a round, for this one and the next ones.
struct Lists {
    services: TrafficServices,
    clients: TrafficClients,
    /// Rounds for which it is used.
    left: u32,
}

/// Rounds that use one list: a list of all Pods is large, and they change seldom.
const ROUNDS: u32 = 6;

/// What happened in one cluster since the last sample.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    pub context: String,
    /// Number of running Pods in the mesh.
    pub meshed: usize,
    /// Number of those whose proxies were read twice.
    pub read: usize,
    /// Pods whose proxies could not be read, and why.
    pub unread: BTreeMap<ResourceId, ProxyError>,
    /// Number of the Services that are wanted and exist.
    pub services: usize,
    pub rows: Vec<TrafficRow>,
    /// What else is not known.
    pub notes: Vec<String>,
    /// Why nothing is known.
    pub problem: Option<String>,
}

impl<'a> Observer<'a> {
    pub fn new(context: &'a KubeContext, args: &'a TrafficArgs) -> Self {
        Self {
            context,
            args,
            last: HashMap::new(),
            known: BTreeSet::new(),
            lists: None,
        }
    }

    /// Takes the next sample.
    pub async fn observe(&mut self) -> Observation {
        let context = self.context.name.clone();
        let sampled = match &self.context.client {
            Ok(cluster) => self.sample(cluster).await,
            Err(why) => Err(why.clone()),
        };
        sampled.unwrap_or_else(|why| Observation {
            context,
            problem: Some(why.to_string()),
            ..Observation::default()
        })
    }

    async fn sample(&mut self, cluster: &Cluster) -> Known<Observation> {
        // Services that the last sample does not know: all that they have counted is no increase.
        let mut new = BTreeSet::new();
        let kept = self.lists.take().filter(|lists| lists.left > 0);
        let lists = if let Some(lists) = kept {
            lists
        } else {
            let lists = self.list(cluster).await?;
            let listed = || lists.services.services.keys().cloned();
            new = listed().filter(|id| !self.known.contains(id)).collect();
            self.known = listed().collect();
            lists
        };
        let deadline = self.args.request_timeout;
        let Lists {
            services,
            clients,
            left,
        } = lists;
        let samples = samples(&cluster.client, &clients.proxies, &services, deadline).await;
        tracing::debug!(context = self.context.name, "proxies sampled");
        let has_gone = samples
            .iter()
            .any(|sample| matches!(sample, Err(ProxyError::NoPod(_))));
        let observation = self.compare(&services, &clients, samples, &new);
        // Others may have come for Pods that are gone.
        let left = if has_gone { 0 } else { left - 1 };
        self.lists = Some(Lists {
            services,
            clients,
            left,
        });
        Ok(observation)
    }

    async fn list(&self, cluster: &Cluster) -> Known<Lists> {
        let args = self.args;
        let max = usize::try_from(args.max_clients).unwrap_or(usize::MAX);
        let namespace = args.client_namespace.as_deref();
        let (mut services, clients) = list(cluster, &args.wanted(), namespace, max).await?;
        let located = services.locate(cluster, |_| true).await;
        located.map_err(|why| why.context("cannot list Links"))?;
        Ok(Lists {
            services,
            clients,
            left: ROUNDS,
        })
    }

    /// Compares samples with those before, and keeps them.
    fn compare(
        &mut self,
        services: &TrafficServices,
        clients: &TrafficClients,
        samples: Vec<Result<TrafficSample, ProxyError>>,
        new: &BTreeSet<ResourceId>,
    ) -> Observation {
        let context = self.context.name.clone();
        let mut last = std::mem::take(&mut self.last);
        let mut activities = Vec::new();
        let mut unread = BTreeMap::new();
        for (proxy, sample) in clients.proxies.iter().zip(samples) {
            let before = last.remove(&proxy.pod);
            match sample {
                Ok(sample) => {
                    let before = before.map(|before| before.with_new(&sample, new));
                    activities.extend(before.map(|before| increase(&before, &sample)));
                    self.last.insert(proxy.pod.clone(), sample);
                }
                Err(error) => {
                    unread.insert(proxy.pod.clone(), error);
                }
            }
        }
        let mut rows = rows(&context, services, &activities);
        if let Some(cluster) = &self.args.cluster_name {
            rows.retain(|row| row.served.cluster.as_ref() == Some(cluster));
        }
        Observation {
            context,
            meshed: clients.meshed,
            read: activities.len(),
            unread,
            services: services.services.len(),
            rows,
            notes: services.notes.clone(),
            problem: None,
        }
    }
}
