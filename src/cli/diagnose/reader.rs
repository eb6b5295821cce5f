//! Reads what concerns a request, from the clusters that the arguments name.

use std::time::Duration;

use client::{Cluster, timing};
use hints::{
    hint::{fail, misuse},
    suggest::ClusterFlags,
};
use mirror_core::{api::metadata::ResourceId, mirror::FEDERATED_SUFFIX};
use observe::{
    clusters::{
        history::read_history,
        request_path::{
            ClientPod, ClientView, RequestPath, SourceFacts, TargetFacts, TargetQuestion,
            client_pod, client_proxy, client_view, source_facts, target_facts,
        },
        snapshot::{Known, LinkSnapshot},
    },
    diagnose::{
        Diagnosis, diagnose, history,
        layer::Commands,
        mistaken,
        subject::{NoSubject, Subject, closest},
    },
    timeline::Timeline,
};

use super::args::{Called, Diagnose};
use crate::cli::common::{args::Global, format::OutputFormat};

/// Time between two reads of the metrics of the calling Pod's proxy.
const PAUSE: Duration = Duration::from_secs(2);
/// What a source cluster without a context is called.
pub const THIS_CLUSTER: &str = "this cluster";

/// The clusters of a request.
pub struct PathReader<'a> {
    args: &'a Diagnose,
    called: Called,
    /// The Pod that calls.
    from: Option<ResourceId>,
    /// The source cluster.
    pub source: Cluster,
    /// The target cluster, if its context was named.
    target: Option<Cluster>,
    commands: Commands,
}

/// The source cluster. Fails if its context does not exist.
pub async fn source(global: &Global, args: &Diagnose) -> anyhow::Result<Cluster> {
    let access = global.access();
    let context = access.context.clone().unwrap_or_default();
    Cluster::new(&context, &access, args.request_timeout).await
}

impl<'a> PathReader<'a> {
    /// Makes the client of the target cluster. Fails if its context does not exist.
    pub async fn connect(
        global: &Global,
        args: &'a Diagnose,
        source: Cluster,
        called: Called,
        from: Option<ResourceId>,
    ) -> anyhow::Result<Self> {
        let target = match &args.target {
            None => None,
            Some(context) => {
                let access = global.access().of_other(context);
                Some(Cluster::new(context, &access, args.request_timeout).await?)
            }
        };
        Ok(Self {
            args,
            called,
            from,
            source,
            target,
            commands: commands(global, args),
        })
    }

    /// Of a Service of this cluster, which has its own flags.
    pub fn of_cluster(
        global: &Global,
        args: &'a Diagnose,
        source: Cluster,
        called: Called,
    ) -> Self {
        let commands = Commands {
            source: source.flags.clone(),
            source_context: Some(source.name.clone()),
            ..commands(global, args)
        };
        Self {
            args,
            called,
            from: None,
            source,
            target: None,
            commands,
        }
    }

    /// Reads all that is needed, and judges it. What happened is only read for a text if something is wrong.
    pub async fn diagnose(&self) -> anyhow::Result<Diagnosis> {
        let path = self.read().await?;
        let diagnosis = diagnose(&path, &self.commands);
        let mut diagnosis = diagnosis.map_err(|none| refused(none, &self.commands.source))?;
        if self.args.output != OutputFormat::Text || diagnosis.cause().is_some() {
            diagnosis.timeline = self.timeline(&path).await;
        }
        Ok(diagnosis)
    }

    /// What happened in both clusters.
    async fn timeline(&self, path: &RequestPath) -> Timeline {
        let context = &self.commands.source_context;
        let name = context.as_deref().unwrap_or(THIS_CLUSTER);
        let mut timeline = Timeline::default();
        timeline.add(name, history::of_source(path), &[]);
        let query = history::query_of_source(path);
        let source = read_history(name, &self.source, &query);
        let target = async {
            let facts = path.target.as_ref().filter(|_| mistaken(path).is_none())?;
            let mut cluster = self.target.clone()?;
            cluster
                .linkerd_namespace
                .clone_from(&facts.linkerd_namespace);
            let query = history::query_of_target(facts);
            let mut read = read_history(&facts.cluster, &cluster, &query).await;
            read.add(&facts.cluster, history::of_target(facts), &[]);
            Some(read)
        };
        let (source, target) = futures::join!(source, target);
        for read in target.iter().chain([&source]) {
            timeline.merge(read);
        }
        timeline
    }

    async fn read(&self) -> anyhow::Result<RequestPath> {
        let (args, source) = (self.args, &self.source);
        let (Called { service, port }, from) = (&self.called, self.from.as_ref());
        let deadline = args.request_timeout;
        let counts = async {
            let id = from?;
            let pause = (deadline, PAUSE.min(deadline));
            Some(client_proxy(&source.client, id, service, *port, pause).await)
        };
        let known = Box::pin(of_source(source, args, &self.called, from));
        let (known, proxy) = futures::join!(known, counts);
        let (facts, client, view) = known?;
        let mut path = RequestPath {
            now: timing::now(),
            service: service.clone(),
            port: *port,
            source: facts,
            client,
            proxy,
            view,
            target: None,
        };
        if let Some(target) = &self.target {
            path.target = Some(of_context(&path, target, self).await?);
        }
        Ok(path)
    }
}

/// The error if there is nothing to diagnose. Its hint is about the source cluster, which these flags name.
fn refused(none: NoSubject, source: &ClusterFlags) -> anyhow::Error {
    fail(none.what, source.inserted(&none.hint))
}

/// The context of the source cluster, if the kubeconfig has one.
pub fn source_context(global: &Global) -> Option<String> {
    let access = global.access();
    let current = || access.kubeconfig().ok()?.current_context;
    access.context.clone().or_else(current)
}

/// How commands name the clusters.
fn commands(global: &Global, args: &Diagnose) -> Commands {
    let access = global.access();
    Commands {
        source: access.flags(),
        source_context: source_context(global),
        target: args
            .target
            .as_ref()
            .map(|context| access.of_other(context).flags()),
        target_context: args.target.clone(),
        target_cluster: None,
        both: access.common_flags(),
    }
}

/// What is known of the source cluster, of the Pod that calls, and of what Linkerd tells its proxy.
type OfSource = (
    SourceFacts,
    Option<Known<ClientPod>>,
    Option<Known<ClientView>>,
);

async fn of_source(
    source: &Cluster,
    args: &Diagnose,
    Called { service, port }: &Called,
    from: Option<&ResourceId>,
) -> anyhow::Result<OfSource> {
    let Some(id) = from else {
        let facts = Box::pin(source_facts(source, service)).await;
        return Ok((facts, None, None));
    };
    let facts = Box::pin(source_facts(source, service));
    let (facts, pod) = futures::join!(facts, client_pod(source, id));
    let pod = match pod {
        Err(why) => return Ok((facts, Some(Err(why.clone())), Some(Err(why)))),
        Ok(Err(names)) => return Err(no_pod(source, id, &names)),
        Ok(Ok(pod)) => pod,
    };
    let (linkerd, called) = (args.linkerd.of_source(), (service, *port));
    let view = Box::pin(client_view(source, &linkerd, &pod, &facts, called)).await;
    Ok((facts, Some(Ok(pod)), Some(view)))
}

fn no_pod(source: &Cluster, id: &ResourceId, names: &[String]) -> anyhow::Error {
    let hint = if let Some(name) = closest(&id.name, names.iter().map(String::as_str)) {
        format!("did you mean {}/{name}?", id.namespace)
    } else {
        let list = source.flags.kubectl("-n {} get pods", &[&id.namespace]);
        format!("{list} lists them")
    };
    fail(format!("Pod {id} does not exist"), hint)
}

/// The facts of the target cluster that a context is for.
async fn of_context(
    path: &RequestPath,
    target: &Cluster,
    reader: &PathReader<'_>,
) -> anyhow::Result<TargetFacts> {
    let args = reader.args;
    let named = args.cluster_name.as_deref();
    let subject = Subject::of(path);
    let subject = subject.map_err(|none| refused(none, &reader.commands.source))?;
    let member = match &subject {
        Subject::AbsentFederated(member) => Some(*member),
        // A cluster that is drained, or has no member yet, is none of its clusters.
        Subject::Federated(_) => path.service.name.strip_suffix(FEDERATED_SUFFIX),
        Subject::Mirror(_) | Subject::Absent(_) => None,
    };
    let links = path
        .source
        .links
        .iter()
        .flatten()
        .map(LinkSnapshot::cluster);
    let of_links = links.filter_map(|cluster| Some((cluster, member?)));
    let remotes: Vec<(&str, &str)> = subject.remotes().into_iter().chain(of_links).collect();
    let wanted = named.unwrap_or(&target.name);
    let by_name = remotes.iter().find(|(cluster, _)| *cluster == wanted);
    let (cluster, remote) = match (by_name, remotes.as_slice()) {
        (Some(found), _) => *found,
        (None, [only]) if named.is_none() => *only,
        (None, all) => {
            let all: Vec<&str> = all.iter().map(|(cluster, _)| *cluster).collect();
            return Err(misuse(
                format!(
                    "cannot tell which target cluster the context {} is for",
                    target.name
                ),
                format!("pass --cluster-name with one of {}", all.join(", ")),
            ));
        }
    };
    let question = TargetQuestion {
        name: cluster,
        remote: ResourceId::new(&path.service.namespace, remote),
        port: path.port,
        linkerd: &args.linkerd.of_target(),
    };
    // Linkerd may be in another namespace there.
    let mut target = target.clone();
    let link = path.link_to(cluster);
    let linkerd = link.map_or("", |link| &link.link.spec.target_cluster_linkerd_namespace);
    if !linkerd.is_empty() {
        linkerd.clone_into(&mut target.linkerd_namespace);
    }
    Ok(Box::pin(target_facts(&target, question)).await)
}
