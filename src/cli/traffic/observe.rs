//! Takes sample after sample of the clients of one cluster.

use std::collections::{BTreeMap, HashMap};

use client::Cluster;
use mirror_core::api::metadata::ResourceId;
use observe::{
    clusters::{
        kube_context::KubeContext,
        proxies::ProxyError,
        snapshot::Known,
        traffic::{
            TrafficClients, TrafficSample, TrafficServices, clients, samples, traffic_services,
        },
    },
    traffic::{TrafficRow, increase, rows},
};

use super::args::TrafficArgs;

/// The clients of one cluster, and their last samples.
pub struct Observer<'a> {
    context: &'a KubeContext,
    args: &'a TrafficArgs,
    last: HashMap<ResourceId, TrafficSample>,
}

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
        let args = self.args;
        let max = usize::try_from(args.max_clients).unwrap_or(usize::MAX);
        let wanted = args.wanted();
        let (services, clients) = futures::join!(
            traffic_services(cluster, &wanted),
            clients(cluster, args.client_namespace.as_deref(), max)
        );
        let services = services.map_err(|why| why.context("cannot list Services"))?;
        let clients = clients.map_err(|why| why.context("cannot list Pods"))?;
        let deadline = args.request_timeout;
        let samples = samples(&cluster.client, &clients.proxies, &services, deadline).await;
        tracing::debug!(context = self.context.name, "proxies sampled");
        Ok(self.compare(&services, &clients, samples))
    }

    /// Compares samples with those before, and keeps them.
    fn compare(
        &mut self,
        services: &TrafficServices,
        clients: &TrafficClients,
        samples: Vec<Result<TrafficSample, ProxyError>>,
    ) -> Observation {
        let context = self.context.name.clone();
        let mut last = std::mem::take(&mut self.last);
        let mut activities = Vec::new();
        let mut unread = BTreeMap::new();
        for (proxy, sample) in clients.proxies.iter().zip(samples) {
            let before = last.remove(&proxy.pod);
            match sample {
                Ok(sample) => {
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
