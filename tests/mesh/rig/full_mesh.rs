//! The third cluster beside the two of the rig, and what it takes so that each of the three uses Services of the others.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use anyhow::Context as _;
use linkerd_mc::api::labels::{FLEET, MIRRORED_SERVICE};

use super::{
    NAMESPACE, Rig,
    cluster::{Cluster, EXTENSION, GATEWAY, port_of},
    deployments::{Deployments, LOOK},
    mirrors::{FEDERATED, FOLLOWS, endpoints, gate},
    pod::Pod,
    replace_oldest,
    script::Script,
    source::SourceParts,
    third::{self, Third},
    workloads,
};
use crate::{load::Load, oracle::Oracle};

/// The name of the gateway of `west`.
const GATEWAY_NAME: &str = "gateway.west.example";

/// Three clusters, each with a gateway, our controller and a client.
pub(crate) struct FullMesh {
    /// Those of `east` and `north`. The rig has those of `west`.
    east: SourceParts,
    north: SourceParts,
    west_gateway: Pod,
    /// In the order of [`Self::clusters`].
    deployments: [Deployments; 3],
    third: Third,
}

/// One of the clusters.
#[derive(Clone, Copy)]
pub(crate) struct MeshCluster<'m> {
    pub(crate) cluster: &'m Cluster,
    source: &'m SourceParts,
    pods: &'m [Pod],
    gateway: &'m Pod,
}

/// A mirror, and the endpoints that proxies should have for it.
type Mirror = (String, BTreeSet<SocketAddr>);

impl FullMesh {
    /// Starts what the clusters lack. `west` is linked to `east`, and nothing else is linked.
    pub(crate) async fn start(rig: &mut Rig) -> anyhow::Result<Self> {
        rig.limiter = None; // the one below keeps the list
        let mut third = Third::start(rig).await?;
        for cluster in [&rig.west, &third.cluster] {
            cluster.apply(&workloads::gated().to_string()).await?;
        }
        let west_gateway = rig.west.start_gateway(GATEWAY_NAME).await?;
        let names = BTreeMap::from([
            (GATEWAY_NAME.to_owned(), west_gateway.address),
            (super::GATEWAY_NAME.to_owned(), rig.gateway.address),
            (third::GATEWAY_NAME.to_owned(), third.gateway.address),
        ]);
        let through = rig.east_api.address().port();
        let planes = [&rig.west, &rig.east, &third.cluster].map(|cluster| cluster.plane.url());
        let mut ways = vec![through];
        for url in planes {
            ways.push(port_of(url)?);
        }
        for port in ways {
            rig.east.open(port).await?;
            third.cluster.open(port).await?;
        }
        Ok(Self {
            east: SourceParts::start(&mut rig.east, names.clone()).await?,
            north: SourceParts::start(&mut third.cluster, names).await?,
            west_gateway,
            deployments: [
                Deployments::new(&rig.west).await?,
                Deployments::new(&rig.east).await?,
                Deployments::new(&third.cluster).await?,
            ],
            third,
        })
    }

    /// `west`, `east` and `north`.
    pub(crate) fn clusters<'m>(&'m self, rig: &'m Rig) -> [MeshCluster<'m>; 3] {
        let west = MeshCluster {
            cluster: &rig.west,
            source: &rig.source,
            pods: &rig.west_pods,
            gateway: &self.west_gateway,
        };
        let east = MeshCluster {
            cluster: &rig.east,
            source: &self.east,
            pods: &rig.east_pods,
            gateway: &rig.gateway,
        };
        let north = MeshCluster {
            cluster: &self.third.cluster,
            source: &self.north,
            pods: &self.third.pods,
            gateway: &self.third.gateway,
        };
        [west, east, north]
    }

    /// Source and target of each of the six links.
    pub(crate) fn links<'m>(&'m self, rig: &'m Rig) -> Vec<[MeshCluster<'m>; 2]> {
        let clusters = self.clusters(rig);
        let pairs = clusters.into_iter().flat_map(|source| {
            let others = clusters.into_iter();
            let others = others.filter(move |target| target.name() != source.name());
            others.map(move |target| [source, target])
        });
        pairs.collect()
    }

    /// Runs a shell script, with the contexts `west` and `east`. Meanwhile the Deployments of all clusters are followed.
    pub(crate) async fn shell(&mut self, rig: &mut Rig, script: &str) -> anyhow::Result<String> {
        let script = Script::new(rig, script)?;
        let [west, east, north] = &mut self.deployments;
        let mut follow = async || {
            let west = Box::pin(west.follow(&mut rig.west, &mut rig.source.controller));
            let east = Box::pin(east.follow(&mut rig.east, &mut self.east.controller));
            let north = Box::pin(north.follow(&mut self.third.cluster, &mut self.north.controller));
            tokio::try_join!(west, east, north).map(|_| ())
        };
        follow().await?;
        script.run_while(LOOK, follow).await
    }

    /// Waits until the Links of all clusters are ready and their gateways alive.
    pub(crate) async fn is_linked(&self, rig: &Rig) -> anyhow::Result<()> {
        for [source, target] in self.links(rig) {
            let ready = source.cluster.link_is_ready(target.name()).await;
            ready.with_context(|| source.source.last_words())?;
        }
        Ok(())
    }

    /// Waits until the proxies of all clients, and those of the gateways, have the right endpoints for the Services of all
    /// clusters.
    pub(crate) async fn proxies_are_right(&self, rig: &Rig) -> anyhow::Result<()> {
        let clusters = self.clusters(rig);
        let federated = federated(&clusters);
        for cluster in &clusters {
            cluster.balances(&federated).await?;
        }
        for [source, target] in self.links(rig) {
            source.balances(&target.gated()).await?;
        }
        for cluster in &clusters {
            let gateway = Oracle::new(cluster.gateway.proxy.log());
            let service = format!("{NAMESPACE}/gated");
            let pods = endpoints(cluster.pods);
            let agreed = gateway.agrees(&service, &pods, FOLLOWS).await;
            agreed.with_context(|| format!("the gateway of {}", cluster.name()))?;
        }
        Ok(())
    }

    /// Replaces a Pod in each cluster. Returns the deleted ones, which answer until they are dropped.
    pub(crate) async fn replace_pods(&mut self, rig: &mut Rig) -> anyhow::Result<Vec<Pod>> {
        let west = rig.start_west_pod().await?;
        let north = self.third.start_pod().await?;
        Ok(vec![
            replace_oldest(&mut rig.west_pods, west).await?,
            rig.replace_pod().await?,
            replace_oldest(&mut self.third.pods, north).await?,
        ])
    }

    /// Removes what full meshes have left in `west` and `east`, where they have not ended as they should. What a fleet has
    /// made is deleted at once.
    pub(crate) async fn forget(rig: &mut Rig) -> anyhow::Result<()> {
        rig.limiter = None;
        rig.west.name_gateway(GATEWAY, None).await?;
        let force = ["--ignore-not-found", "--force"];
        let of_east = format!("services,endpointslices -n {NAMESPACE} -l {MIRRORED_SERVICE}=true");
        let clients = format!("pods client -n {NAMESPACE}");
        let controllers = format!("pods -n {EXTENSION} -l component=controller");
        let gateways = format!("pods -n {EXTENSION} -l component=gateway");
        let gated = format!("services gated -n {NAMESPACE}");
        let fleet = format!("links.multicluster.linkerd.io,secrets,serviceaccounts -A -l {FLEET}");
        for (cluster, what) in [
            (&rig.west, &fleet),
            (&rig.east, &fleet),
            (&rig.west, &gated),
            (&rig.west, &gateways),
            (&rig.east, &controllers),
            (&rig.east, &clients),
            (&rig.east, &of_east),
        ] {
            let what: Vec<&str> = what.split(' ').collect();
            let delete = [&["delete"], &what[..], &force].concat();
            cluster.plane.kubectl(&delete).await?;
        }
        rig.limit_again().await
    }
}

impl MeshCluster<'_> {
    pub(crate) fn name(&self) -> &str {
        self.cluster.name()
    }

    /// The mirror of its Service `gated`, in other clusters.
    pub(crate) fn gated(&self) -> Mirror {
        (format!("gated-{}", self.name()), gate(self.gateway))
    }

    /// Waits until the proxy of its client has the right endpoints for a mirror. It needs a load.
    pub(crate) async fn balances(&self, (mirror, expected): &Mirror) -> anyhow::Result<()> {
        let service = format!("{NAMESPACE}/{mirror}");
        let agreed = self.source.oracle.agrees(&service, expected, FOLLOWS).await;
        agreed.with_context(|| format!("the client of {}", self.name()))
    }

    /// Starts a load on these mirrors, and counts requests from the time when all of them work.
    pub(crate) async fn load(&self, mirrors: &[Mirror]) -> anyhow::Result<Load> {
        let mut targets = Vec::new();
        for (mirror, _) in mirrors {
            targets.push(self.cluster.target(mirror).await?);
        }
        let right = async {
            for mirror in mirrors {
                self.balances(mirror).await?;
            }
            Ok(())
        };
        Load::settled(&self.source.client, &targets, right).await
    }
}

/// The federated Service whose members are in these clusters.
pub(crate) fn federated(clusters: &[MeshCluster<'_>]) -> Mirror {
    let members = clusters.iter().flat_map(|cluster| endpoints(cluster.pods));
    (FEDERATED.to_owned(), members.collect())
}
