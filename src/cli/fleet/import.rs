//! `fleet import`: writes a file from clusters as they are.

use std::{collections::BTreeSet, path::Path, process::ExitCode, time::Duration};

use anyhow::Context as _;
use clap::Args;
use clap_complete::ArgValueCompleter;
use client::{Access, Cluster, IdentifiedCluster, timing};
use futures::{StreamExt as _, stream};
use hints::hint::{fail, misuse};
use k8s_openapi::api::core::v1::{Secret, Service, ServiceAccount};
use kube::api::ListParams;
use links::{
    cluster_name::{cluster_name, context_of},
    context_pattern::matching,
    fleet::{
        facts::ImportedCluster,
        gather::{SIDE_BY_SIDE, in_time, known, read_all, secrets},
        identity::tell_apart,
        imported::{ImportedFleet, import},
        loaded::parse,
        part::UsedClusters,
        plan::FleetPlan,
    },
    link::{flags::LinkArgs, generate::entry},
    link_credentials::KubeconfigTarget,
    linked::KnownLinks,
};
use manifests::gateway::{Overrides, RemoteGateway};
use mirror_core::api::labels;
use observe::clusters::kube_context::side_by_side;

use super::source::new_id;
use crate::cli::common::{
    args::{self, Global},
    complete,
    contexts::without_doubles,
    output,
    wait::spin,
};

/// Print a file for clusters as they are linked now
///
/// The clusters are those of `--context`, a list in which `*` stands for any text, or all contexts of the kubeconfig. Each
/// link has an entry, and what all have in common is written once, as defaults. Nothing is changed.
///
/// Warnings on stderr name what the file cannot express, and what `fleet apply` would change apart from the label of the fleet.
///
/// Exit codes: 0 the file has everything, 1 a cluster was not read, or something is left out (no file if none was read), 2 invalid usage.
#[derive(Debug, Args)]
pub struct FleetImportArgs {
    /// Use all contexts of the kubeconfig; for several of them, pass --context 'prod-*,staging'
    #[arg(long, conflicts_with = "context")]
    all_contexts: bool,
    /// Name of the fleet [default: that of the Links, or fleet]
    #[arg(long, value_name = "NAME", value_parser = args::namespace)]
    name: Option<String>,
    /// Namespace of the Links
    #[arg(long, value_name = "NAMESPACE", default_value = labels::MULTICLUSTER_NAMESPACE, value_parser = args::namespace, add = ArgValueCompleter::new(complete::namespaces))]
    namespace: String,
    /// How long to read each cluster
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = args::timeout)]
    request_timeout: Duration,
}

/// Runs the command.
pub async fn run(global: &Global, args: &FleetImportArgs) -> anyhow::Result<ExitCode> {
    let access = global.access();
    let contexts = access.kubeconfig()?.contexts;
    let contexts: Vec<String> = contexts.into_iter().map(|context| context.name).collect();
    let chosen = match (&global.context, args.all_contexts) {
        (Some(patterns), _) => matching(patterns, &contexts)?,
        (None, true) => contexts.clone(),
        (None, false) => {
            return Err(misuse(
                "fleet import needs the contexts of the clusters",
                "pass --context 'prod-*,staging', or --all-contexts",
            ));
        }
    };
    let reads = chosen.iter().map(|context| {
        let access = access.with_context(context);
        async move { read(global, args, context, &access).await }
    });
    let reads = stream::iter(reads).buffered(SIDE_BY_SIDE);
    let mut read = spin("reading the clusters", reads.collect::<Vec<_>>()).await;
    let reading = read_other_accounts(args, &mut read);
    spin("reading the accounts", reading).await;
    let mut clusters = Vec::new();
    let mut unread = 0;
    for ImportedContext {
        cluster,
        which: known,
        problem,
        ..
    } in read
    {
        if let Some(why) = problem {
            output::warning(&format!("{}: not read: {why}", cluster.context));
            unread += 1;
        }
        clusters.push((cluster, known));
    }
    if unread == chosen.len() {
        return Err(fail(
            "cannot write a file: none of the clusters could be read",
            "the warnings say why; `linkerd-mc version --context NAME` tries one of them",
        ));
    }
    let clusters = without_doubles(clusters, |cluster: &ImportedCluster| &cluster.context);
    let ImportedFleet {
        mut fleet,
        left_out,
    } = import(
        &clusters,
        args.name.as_deref(),
        &new_id(),
        &args.namespace,
        &LinkArgs::default().options,
    );
    if global.linkerd_namespace != labels::LINKERD_NAMESPACE {
        fleet.linkerd = Some(global.linkerd_namespace.clone());
    }
    for cluster in &mut fleet.clusters {
        let name = cluster.name.to_string();
        let found = context_of(&name, contexts.iter().map(String::as_str));
        cluster.context = cluster
            .context
            .take()
            .filter(|own| found != Ok(own.as_str()));
    }
    for why in &left_out {
        output::warning(&format!("left out: {why}"));
    }
    let text = fleet.text()?;
    Box::pin(say_what_differs(global, &text, args.request_timeout)).await?;
    output::data(&text)?;
    Ok(output::exit_code(unread > 0 || !left_out.is_empty()))
}

/// What was read with one context.
struct ImportedContext {
    cluster: ImportedCluster,
    /// Which cluster it is.
    which: Option<IdentifiedCluster>,
    connection: Option<Cluster>,
    /// Why it was not read.
    problem: Option<String>,
}

/// Reads a cluster.
async fn read(
    global: &Global,
    args: &FleetImportArgs,
    context: &str,
    access: &Access,
) -> ImportedContext {
    let mut known = ImportedCluster {
        context: context.to_owned(),
        derived: cluster_name(context),
        ..ImportedCluster::default()
    };
    let (mut which, mut connection) = (None, None);
    let read = async {
        known.entry = entry(access)?.cluster;
        let cluster = Cluster::connect(access).await?;
        let identified = cluster.identify().await;
        known.uid.clone_from(&identified.uid);
        which = Some(identified);
        let accounts = cluster.api::<ServiceAccount>(&args.namespace);
        let all = ListParams::default();
        let (namespace, name) = (labels::MULTICLUSTER_NAMESPACE, labels::GATEWAY_NAME);
        let (links, own, linkerds, accounts, gateway) = futures::try_join!(
            KnownLinks::read(&cluster, &args.namespace),
            secrets(&cluster, &args.namespace, labels::CREDENTIALS_TYPE),
            secrets(
                &cluster,
                &global.linkerd_namespace,
                labels::CREDENTIALS_TYPE
            ),
            cluster.request("list the ServiceAccounts", accounts.list(&all)),
            cluster.get::<Service>("read the gateway's Service", namespace, name),
        )?;
        known.links = links.links;
        known.unreadable = links.unreadable;
        known.credentials = own.into_iter().chain(linkerds).collect::<Vec<Secret>>();
        known.accounts = accounts.items;
        let gateway = gateway.and_then(|service| {
            RemoteGateway::read(&service, &Overrides::default(), &cluster.flags).ok()
        });
        known.gateway = Some(gateway.map_or_else(Default::default, |gateway| {
            (gateway.addresses, gateway.port)
        }));
        connection = Some(cluster);
        Ok(())
    };
    let problem = in_time(args.request_timeout, Box::pin(read)).await.err();
    ImportedContext {
        cluster: known,
        which,
        connection,
        problem,
    }
}

/// Reads the accounts of other namespaces of which credentials have tokens: they show to which cluster these lead.
async fn read_other_accounts(args: &FleetImportArgs, read: &mut [ImportedContext]) {
    let credentials = read.iter().flat_map(|of| &of.cluster.credentials);
    let accounts = credentials.filter_map(|secret| KubeconfigTarget::of_secret(secret)?.account);
    let others = accounts.map(|account| account.namespace);
    let others: BTreeSet<String> = others.filter(|of| *of != args.namespace).collect();
    let reads = read.iter_mut().map(async |of| {
        let Some(cluster) = &of.connection else {
            return;
        };
        for namespace in &others {
            let (api, all) = (
                cluster.api::<ServiceAccount>(namespace),
                ListParams::default(),
            );
            let list = cluster.request("list the ServiceAccounts", api.list(&all));
            match in_time(args.request_timeout, list).await {
                Ok(found) => of.cluster.accounts.extend(found.items),
                Err(why) => output::warning(&format!(
                    "{}: the accounts of {namespace} were not read: {why}",
                    of.cluster.context
                )),
            }
        }
    });
    side_by_side(reads).await;
}

/// Plans the fleet of the new file, and says what `fleet apply` would change besides its label.
async fn say_what_differs(global: &Global, text: &str, timeout: Duration) -> anyhow::Result<()> {
    let mut loaded = parse(
        "the new file",
        text,
        Path::new(""),
        &global.linkerd_namespace,
    )
    .context("cannot write a file for these Links")?;
    loaded.consent.takes_over = true;
    let global = Global {
        context: None,
        ..global.clone()
    };
    let all = UsedClusters::default();
    let access = global.access();
    let reading = read_all(&access, &loaded, &all, timeout);
    let mut read = spin("comparing the clusters with the file", reading).await;
    tell_apart(&loaded, &mut read)?;
    let plan = FleetPlan::of(&loaded, &known(&read), &all, timing::now());
    for cluster in &plan.clusters {
        let differing = cluster.differing();
        if differing > 0 {
            output::warning(&format!(
                "{}: `fleet apply` would change {differing} objects; `fleet plan` shows them",
                cluster.name
            ));
        }
        for problem in &cluster.problems {
            output::warning(&format!("{}: {problem}", cluster.name));
        }
    }
    Ok(())
}
