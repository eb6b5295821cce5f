//! `diagnose`: why a request to a Service of another cluster fails.

use std::{process::ExitCode, time::Duration};

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;

use super::common::{
    args::{Global, host, namespace, object_name, timeout},
    cluster::connecting,
    complete, output,
    wait::spin,
};
use crate::{
    api::metadata::ResourceId,
    client::Access,
    clusters::{
        cluster_client::ClusterClient,
        linkerd_api::ControllerAddresses,
        request_path::{
            ClientPod, ClientView, RequestPath, SourceFacts, TargetFacts, TargetQuestion,
            client_pod, client_proxy, client_view, source_facts, target_facts,
        },
        snapshot::{Known, LinkSnapshot},
    },
    diagnose::{
        Diagnosis, diagnose,
        layer::Commands,
        report,
        subject::{Subject, closest},
    },
    hint::{fail, misuse},
    mirror::FEDERATED_SUFFIX,
    suggest::ClusterFlags,
    timing,
};

/// Between two looks at what the proxy of the calling Pod counts.
const PAUSE: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "\
Examples:
  # Find out why requests to a mirror fail
  linkerd-mc diagnose default/web-east

  # For the Pod that calls, and with a look into the target cluster
  linkerd-mc diagnose default/web-east:80 --from client-0 --target east

  # The name of the cause, for a script
  linkerd-mc diagnose default/web-east -o json | jq -r .cause.name

Exit codes: 0 nothing is broken; 1 a layer is, or nothing could be read.";

/// Find out why requests to a Service of another cluster fail
///
/// Follows the way of a request from the Pod that calls to the Pods of the target cluster, layer by layer, and stops at the
/// first layer that is broken. For each it says what it looked at, and what it could not look at and why. It prints the
/// cause, what shows it, and the commands that fix it.
///
/// Reads only, and starts nothing. With --from, it asks the proxy of this Pod what it counts, and Linkerd's controllers what
/// they tell this proxy; with --target also who may connect there. For this it forwards a port to a Pod of
/// linkerd-destination. No connection between the clusters is opened.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Diagnose {
    /// The mirror or federated Service that is called, and the port
    #[arg(value_name = "NAMESPACE/SERVICE[:PORT]", value_parser = called)]
    service: Called,
    /// The Pod that calls; in the namespace of the Service, unless another one is given
    #[arg(long, value_name = "[NAMESPACE/]POD", value_parser = pod)]
    from: Option<PodName>,
    /// Context of the target cluster, to look at the Service, its Pods and the gateway there
    #[arg(long, value_name = "CONTEXT", add = ArgValueCompleter::new(complete::contexts))]
    target: Option<String>,
    /// Name of the target cluster of --target [default: the only one, or that with the name of the context]
    #[arg(long, value_name = "NAME", requires = "target", value_parser = super::common::args::cluster_name, add = ArgValueCompleter::new(complete::clusters))]
    cluster_name: Option<String>,
    #[command(flatten)]
    linkerd: LinkerdAddresses,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: DiagnosisFormat,
    /// Timeout of each request to a cluster. At most four of them follow each other
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = timeout)]
    request_timeout: Duration,
}

/// Where Linkerd's controllers are asked. Without an address, by a port-forward to a Pod of `linkerd-destination`.
#[derive(Clone, Debug, Args)]
struct LinkerdAddresses {
    /// Address of Linkerd's destination controller, if there can be no port-forward to its Pod
    #[arg(long, value_name = "HOST:PORT", requires_all = ["linkerd_policy", "from"], value_parser = controller_address)]
    linkerd_destination: Option<String>,
    /// The same for Linkerd's policy controller
    #[arg(long, value_name = "HOST:PORT", requires = "linkerd_destination", value_parser = controller_address)]
    linkerd_policy: Option<String>,
    /// The same for the policy controller of the target cluster
    #[arg(long, value_name = "HOST:PORT", requires = "target", value_parser = controller_address)]
    target_linkerd_policy: Option<String>,
}

impl LinkerdAddresses {
    fn of_source(&self) -> ControllerAddresses {
        ControllerAddresses {
            destination: self.linkerd_destination.clone(),
            policy: self.linkerd_policy.clone(),
        }
    }

    fn of_target(&self) -> ControllerAddresses {
        ControllerAddresses {
            destination: None,
            policy: self.target_linkerd_policy.clone(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DiagnosisFormat {
    /// The layers, the cause, and commands
    Text,
    /// A JSON object
    Json,
    /// The same as YAML
    Yaml,
}

/// A Service, and a port of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Called {
    service: ResourceId,
    port: Option<u16>,
}

/// A Pod, as people name it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PodName {
    namespace: Option<String>,
    name: String,
}

/// Parses `NAMESPACE/SERVICE[:PORT]`.
fn called(text: &str) -> Result<Called, String> {
    let Some((of, rest)) = text.split_once('/') else {
        return Err("must be NAMESPACE/SERVICE or NAMESPACE/SERVICE:PORT".to_owned());
    };
    let (name, port) = match rest.split_once(':') {
        None => (rest, None),
        Some((name, port)) => {
            let port = port.parse().ok().filter(|port| *port != 0);
            (
                name,
                Some(port.ok_or("the port must be a number from 1 to 65535")?),
            )
        }
    };
    Ok(Called {
        service: ResourceId::new(namespace(of)?, object_name(name)?),
        port,
    })
}

/// Parses `[NAMESPACE/]POD`.
fn pod(text: &str) -> Result<PodName, String> {
    let (of, name) = match text.split_once('/') {
        Some((of, name)) => (Some(namespace(of)?), name),
        None => (None, text),
    };
    Ok(PodName {
        namespace: of,
        name: object_name(name)?,
    })
}

/// Parses `HOST:PORT`.
fn controller_address(text: &str) -> Result<String, String> {
    let (name, port) = text.rsplit_once(':').unwrap_or_default();
    let name = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .unwrap_or(name);
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    if is_port && host(name).is_ok() {
        return Ok(text.to_owned());
    }
    Err("must be HOST:PORT, such as 10.0.0.1:8086".to_owned())
}

/// Runs the command. Exit code 1 if a layer is broken.
pub(crate) async fn run(global: &Global, args: &Diagnose) -> anyhow::Result<ExitCode> {
    let commands = commands(global, args);
    let facts = spin("following the request", Box::pin(gather(global, args))).await?;
    let diagnosis = diagnose(&facts, &commands)
        .map_err(|none| fail(none.what, commands.source.inserted(&none.hint)))?;
    output::data(&match args.output {
        DiagnosisFormat::Text => report::text(&diagnosis),
        DiagnosisFormat::Json => output::json(&report::document(&diagnosis))?,
        DiagnosisFormat::Yaml => output::yaml(&report::document(&diagnosis))?,
    })?;
    Ok(output::exit_code(Diagnosis::is_broken(&diagnosis)))
}

/// How commands name the clusters.
fn commands(global: &Global, args: &Diagnose) -> Commands {
    let access = global.access();
    let current = || access.kubeconfig().ok()?.current_context;
    let mut both = ClusterFlags::default();
    if let Some(path) = &access.kubeconfig {
        both = both.with("--kubeconfig", &path.to_string_lossy());
    }
    Commands {
        source: access.flags(),
        source_context: access.context.clone().or_else(current),
        target: args
            .target
            .as_ref()
            .map(|context| of_target(&access, context).flags()),
        target_context: args.target.clone(),
        both,
    }
}

/// The access to another context: an address of the API server is that of the source cluster.
fn of_target(access: &Access, context: &str) -> Access {
    Access {
        api_addr: None,
        ..access.with_context(context)
    }
}

/// Reads all that is needed.
async fn gather(global: &Global, args: &Diagnose) -> anyhow::Result<RequestPath> {
    let (access, deadline) = (global.access(), args.request_timeout);
    let linkerd = &global.linkerd_namespace;
    let context = access.context.clone().unwrap_or_default();
    let source = ClusterClient::new(&context, &access, deadline, linkerd);
    let source = connecting(source).await?;
    let target = match &args.target {
        None => None,
        Some(context) => {
            let access = of_target(&access, context);
            // Fails on a context that does not exist.
            let client = ClusterClient::new(context, &access, deadline, linkerd);
            Some(connecting(client).await?)
        }
    };
    let Called { service, port } = &args.service;
    let from = args.from.as_ref().map(|from| {
        let namespace = from.namespace.as_ref().unwrap_or(&service.namespace);
        ResourceId::new(namespace, &from.name)
    });
    let pause = (deadline, PAUSE.min(deadline));
    let counts = async {
        let id = from.as_ref()?;
        Some(client_proxy(&source.client, id, service, *port, pause).await)
    };
    let (known, proxy) = futures::join!(of_source(&source, args, from.as_ref()), counts);
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
    if let Some(target) = &target {
        path.target = Some(of_context(&path, target, args).await?);
    }
    Ok(path)
}

/// What is known of the source cluster, of the Pod that calls, and of what Linkerd tells its proxy.
type OfSource = (
    SourceFacts,
    Option<Known<ClientPod>>,
    Option<Known<ClientView>>,
);

async fn of_source(
    source: &ClusterClient,
    args: &Diagnose,
    from: Option<&ResourceId>,
) -> anyhow::Result<OfSource> {
    let Called { service, port } = &args.service;
    let Some(id) = from else {
        let facts = Box::pin(source_facts(source, service)).await;
        return Ok((facts, None, None));
    };
    let facts = Box::pin(source_facts(source, service));
    let (facts, pod) = futures::join!(facts, client_pod(source, id));
    let pod = match pod {
        Err(why) => return Ok((facts, Some(Err(why.clone())), Some(Err(why)))),
        Ok(Err(names)) => return Err(no_pod(id, &names)),
        Ok(Ok(pod)) => pod,
    };
    let (linkerd, called) = (args.linkerd.of_source(), (service, *port));
    let view = Box::pin(client_view(source, &linkerd, &pod, &facts, called)).await;
    Ok((facts, Some(Ok(pod)), Some(view)))
}

fn no_pod(id: &ResourceId, names: &[String]) -> anyhow::Error {
    let hint = match closest(&id.name, names.iter().map(String::as_str)) {
        Some(name) => format!("did you mean {}/{name}?", id.namespace),
        None => format!("`kubectl -n {} get pods` lists them", id.namespace),
    };
    fail(format!("Pod {id} does not exist"), hint)
}

/// The facts of the target cluster that a context is for.
async fn of_context(
    path: &RequestPath,
    target: &ClusterClient,
    args: &Diagnose,
) -> anyhow::Result<TargetFacts> {
    let named = args.cluster_name.as_deref();
    let subject = Subject::of(path);
    let subject = subject.map_err(|none| fail(none.what, none.hint))?;
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
    Ok(Box::pin(target_facts(target, question)).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn called_service_has_a_namespace_and_perhaps_a_port() {
        let shop = |name: &str, port| {
            Ok(Called {
                service: ResourceId::new("shop", name),
                port,
            })
        };
        assert_eq!(called("shop/web-east"), shop("web-east", None));
        assert_eq!(called("shop/web-east:8080"), shop("web-east", Some(8080)));
        for wrong in [
            "web",
            "shop/",
            "/web",
            "shop/web:",
            "shop/web:0",
            "shop/web:x",
            "Shop/web",
            "a/b/c",
        ] {
            assert!(called(wrong).is_err(), "{wrong}");
        }
        assert_eq!(pod("client-0").unwrap().namespace, None);
        assert_eq!(
            pod("shop/client-0").unwrap().namespace.as_deref(),
            Some("shop")
        );
    }
}
