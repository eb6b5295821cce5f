//! What has to be as it should before anything is written: the clusters, the Link, the controller, the permissions.

use client::{Cluster, ReadError, ReadErrorKind};
use futures::try_join;
use hints::{
    hint::{fail, misuse},
    suggest::ClusterFlags,
};
use mirror_core::api::metadata::ResourceId;
use observe::{
    clusters::{
        canaries::{
            namespaces::{self, FoundNamespace},
            permissions::{VerifySide, denied},
            pods,
        },
        collect::{Depth, snapshot_of},
        leader::pods as controller_pods,
        snapshot::{ClusterSnapshot, LinkSnapshot},
        topology::Topology,
        workloads::ParseArgs,
    },
    verify::{CanaryMode, CanaryService, client_identity},
};

use super::args::VerifyArgs;
use crate::cli::common::{args::Global, contexts::refuse_silence};

/// The two clusters of a run.
pub struct Pair {
    pub source: Cluster,
    pub target: Cluster,
    /// Flags for commands that name the clusters themselves.
    pub both: ClusterFlags,
}

/// What is verified.
pub struct Verified {
    pub link: LinkSnapshot,
    /// The image of the canaries.
    pub image: String,
    /// The identity of the client, if it is known.
    pub client: Option<String>,
    /// The Deployment of the target's gateway, if its Pods are replaced before they forward to the canaries.
    pub export_gateway: Option<ResourceId>,
    /// The Services of the modes that the Link offers; at least one. Those that wait for these Pods come last.
    pub services: Vec<CanaryService>,
    /// The other modes, and why the Link does not offer them.
    pub skipped: Vec<(CanaryMode, String)>,
}

impl Pair {
    /// Creates the clients of both clusters. Sends no request.
    pub async fn connect(global: &Global, args: &VerifyArgs) -> anyhow::Result<Self> {
        if global.context.is_some() {
            return Err(misuse(
                "--context cannot be used with verify",
                "pass --target and --source",
            ));
        }
        global.refuse_address()?;
        if args.source == args.target {
            return Err(misuse(
                format!("--target and --source are both {:?}", args.target),
                "choose two different contexts",
            ));
        }
        let access = global.access();
        let client = async |context: &str| {
            let access = access.with_context(context);
            Cluster::new(context, &access, args.request_timeout).await
        };
        Ok(Self {
            source: client(&args.source).await?,
            target: client(&args.target).await?,
            both: access.common_flags(),
        })
    }

    /// Fails unless all is as it has to be. Writes nothing. `run` names the run, and `parse` reads the arguments of a
    /// controller.
    pub async fn check(
        &self,
        args: &VerifyArgs,
        run: &str,
        parse: ParseArgs,
    ) -> anyhow::Result<Verified> {
        self.may(args).await?;
        self.refuse_itself().await?;
        let (source, target) = futures::join!(
            snapshot_of(&self.source, Depth::Credentials),
            snapshot_of(&self.target, Depth::Credentials)
        );
        let snapshots = [source, target];
        refuse_silence(&snapshots[..1])?;
        let link = self.link(&snapshots, args.link.as_deref())?;
        self.works(&snapshots[0], &link)?;
        let [source, _] = snapshots;
        let client = source.config.ok().map(|config| {
            client_identity(&config, &self.source.linkerd_namespace, &args.namespace)
        });
        let (mut services, skipped) = offered(&link, args, run)?;
        let export_gateway = self.export_gateway(&link, parse).await;
        if export_gateway.is_some() {
            services.sort_by_key(|service| service.gateway.is_some());
        }
        let image = match &args.image {
            Some(image) => image.clone(),
            None => self.image(&link).await?,
        };
        Ok(Verified {
            link,
            image,
            client,
            export_gateway,
            services,
            skipped,
        })
    }

    /// Fails if the user lacks a permission, or a cluster cannot be reached.
    async fn may(&self, args: &VerifyArgs) -> anyhow::Result<()> {
        let of = async |cluster: &Cluster, side: VerifySide| {
            let found = match namespaces::find(cluster, &args.namespace).await {
                Err(why) if why.kind != ReadErrorKind::Forbidden => {
                    return Err(unreachable(cluster, &why));
                }
                found => found.ok(),
            };
            let is_kept = found == Some(FoundNamespace::Kept);
            let lacking = denied(cluster, &args.namespace, side, is_kept).await;
            let lacking = lacking.map_err(|why| unreachable(cluster, &why))?;
            if lacking.is_empty() {
                return Ok(());
            }
            Err(fail(
                format!(
                    "you lack permissions that verify needs in {}: {}",
                    cluster.name,
                    lacking.join("; ")
                ),
                "docs/ci.md has the roles that verify needs; choose another user with --as or another context",
            ))
        };
        try_join!(
            of(&self.source, VerifySide::Source),
            of(&self.target, VerifySide::Target)
        )?;
        Ok(())
    }

    /// Fails if both contexts lead to one cluster.
    async fn refuse_itself(&self) -> anyhow::Result<()> {
        let (source, target) = futures::join!(self.source.identify(), self.target.identify());
        if source.may_be(&target) {
            return Err(misuse(
                format!(
                    "the contexts {} and {} lead to the same cluster",
                    self.target.name, self.source.name
                ),
                "choose contexts of two clusters",
            ));
        }
        Ok(())
    }

    /// The Link from the source cluster to the target cluster.
    fn link(
        &self,
        snapshots: &[ClusterSnapshot; 2],
        named: Option<&str>,
    ) -> anyhow::Result<LinkSnapshot> {
        let (source, target) = (&self.source.name, &self.target.name);
        let topology = Topology::of(snapshots);
        let edges = topology.links.iter().filter(|edge| edge.source == *source);
        let found: Vec<&LinkSnapshot> = snapshots[0]
            .links
            .iter()
            .flatten()
            .zip(edges)
            .filter(|(link, edge)| match named {
                Some(name) => link.name() == name,
                None => edge.target == *target,
            })
            .map(|(link, _)| link)
            .collect();
        match (found.as_slice(), named) {
            ([link], _) => Ok((*link).clone()),
            ([], Some(name)) => Err(fail(
                format!("{source} has no Link {name}"),
                format!("{} shows all Links", self.source.flags.mc("status", &[])),
            )),
            ([], None) => Err(fail(
                format!("{source} has no Link to {target}"),
                format!(
                    "link them with {}, or pass --link with the name of the Link",
                    self.both
                        .mc("link --target {} --source {}", &[target, source])
                ),
            )),
            (several, _) => {
                let names: Vec<String> = several.iter().map(|l| l.id().to_string()).collect();
                Err(misuse(
                    format!(
                        "{source} has several Links to {target}: {}",
                        names.join(", ")
                    ),
                    "pass --link with the name of one",
                ))
            }
        }
    }

    /// Fails unless the Link is connected, and its controller active.
    fn works(&self, source: &ClusterSnapshot, link: &LinkSnapshot) -> anyhow::Result<()> {
        let (name, flags) = (&self.source.name, &self.source.flags);
        if let Some(why) = &link.unreadable {
            return Err(fail(
                format!("the Link {} in {name} cannot be read: {why}", link.name()),
                format!("{} says more", flags.mc("check", &[])),
            ));
        }
        let silence = match source.leaders.get(link.namespace()) {
            // It may not be read, so this is not known.
            None | Some(Err(_)) => None,
            Some(Ok(None)) => Some("no controller is active: none has ever led".to_owned()),
            Some(Ok(Some(leader))) => {
                let silence = leader.silence(flags);
                silence.map(|silence| silence.evidence)
            }
        };
        if let Some(silence) = silence {
            return Err(fail(
                format!("{name}: {silence}"),
                format!(
                    "look at its Pods with {}",
                    controller_pods(flags, link.namespace())
                ),
            ));
        }
        match link.condition("Connected") {
            Some(("True", _)) => Ok(()),
            found => {
                let message = found.map(|(_, message)| message);
                let message = message.filter(|message| !message.is_empty());
                let message = message.unwrap_or("nothing is reported yet");
                Err(fail(
                    format!(
                        "the Link {} in {name} is not connected: {message}",
                        link.name()
                    ),
                    format!("{} says more", flags.mc("check", &[])),
                ))
            }
        }
    }

    /// The gateway of the target cluster, if it is known to forward only what is exported.
    async fn export_gateway(&self, link: &LinkSnapshot, parse: ParseArgs) -> Option<ResourceId> {
        let namespace = link.link.spec.gateway_identity.split('.').nth(1)?;
        let found = pods::export_gateway(&self.target, namespace, parse).await;
        Some(ResourceId::new(namespace, &found.ok()??))
    }

    /// The image of the controller that has the Link: its nodes can pull it.
    async fn image(&self, link: &LinkSnapshot) -> anyhow::Result<String> {
        let image = pods::image(&self.source, link.namespace()).await;
        image.map_err(|why| {
            fail(
                format!(
                    "cannot read the image of the controller in {}: {why}",
                    self.source.name
                ),
                "pass --image with an image of linkerd-mc",
            )
        })
    }

    /// What has the name of the namespace in source and target. Fails if it is not one of ours.
    pub async fn found(&self, name: &str) -> anyhow::Result<[FoundNamespace; 2]> {
        let of = async |cluster: &Cluster| match namespaces::find(cluster, name).await {
            Ok(FoundNamespace::Foreign) => Err(fail(
                format!(
                    "{} has a namespace {name} that verify has not made",
                    cluster.name
                ),
                "choose another name with --namespace",
            )),
            Ok(found) => Ok(found),
            Err(why) => Err(unreachable(cluster, &why)),
        };
        let (source, target) = try_join!(of(&self.source), of(&self.target))?;
        Ok([source, target])
    }
}

/// The Services of the wanted modes, and the modes that the Link does not offer, with the reason.
#[expect(clippy::type_complexity, reason = "two lists of one origin")]
fn offered(
    link: &LinkSnapshot,
    args: &VerifyArgs,
    run: &str,
) -> anyhow::Result<(Vec<CanaryService>, Vec<(CanaryMode, String)>)> {
    let (mut services, mut skipped) = (Vec::new(), Vec::new());
    for mode in args.modes() {
        match CanaryService::of(&link.link, &args.namespace, run, mode) {
            Ok(service) => services.push(service),
            Err(why) => skipped.push((mode, why)),
        }
    }
    let is_wanted = !args.mode.is_empty() || services.is_empty();
    match skipped.first().filter(|_| is_wanted) {
        Some((mode, why)) => Err(fail(
            format!(
                "the Link {} does not offer the mode {mode}: {why}",
                link.name()
            ),
            "pass --mode with modes that it offers, or change the Link",
        )),
        None => Ok((services, skipped)),
    }
}

fn unreachable(cluster: &Cluster, why: &ReadError) -> anyhow::Error {
    fail(
        format!("cannot ask {}: {why}", cluster.name),
        "check that the cluster is up, and that the context is the right one",
    )
}
