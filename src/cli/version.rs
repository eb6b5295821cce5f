//! `version`: the version of this program, and those of the controllers in clusters.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use mirror_core::api::text::one_line;
use observe::clusters::{
    collect_full::controllers,
    kube_context::{KubeContext, side_by_side},
    snapshot::{Known, Workload},
    workloads::tag,
};
use serde::Serialize;

use super::common::{
    args::{Global, timeout},
    contexts::Contexts,
    format::OutputFormat,
    output,
    wait::spin,
};

const EXAMPLES: &str = "\
Examples:
  # Show the version of this program, and that of the controller
  linkerd-mc version

  # Show the controllers of all clusters of the kubeconfig
  linkerd-mc version --all-contexts -o yaml";

/// Show the version of this program, and those of the controllers
///
/// The version of a controller is the tag of its image.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct VersionArgs {
    #[command(flatten)]
    contexts: Contexts,
    /// Show only the version of this program, without contacting a cluster
    #[arg(long)]
    client: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: OutputFormat,
    /// Timeout of each request to a cluster
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = timeout)]
    request_timeout: Duration,
}

/// All versions; their JSON is documented output.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct AllVersions {
    client: ClientVersion,
    /// Controllers in the order of the clusters; `null` with `--client`.
    controllers: Option<Vec<ControllerVersion>>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ClientVersion {
    version: &'static str,
    /// The commit that the program was built from; empty if that is not known.
    commit: &'static str,
}

/// The controller of an installation, or why there is none.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerVersion {
    /// The context of its cluster.
    pub context: String,
    /// Its namespace; `null` if there is none.
    pub namespace: Option<String>,
    /// The tag of its image; `null` if the image has none.
    pub version: Option<String>,
    /// Its image.
    image: Option<String>,
    /// Why it is not known.
    pub error: Option<String>,
}

const CLIENT: ClientVersion = ClientVersion {
    version: env!("CARGO_PKG_VERSION"),
    commit: env!("LINKERD_MC_BUILD_COMMIT"),
};

/// Runs the command. Exit code 1 if a cluster did not respond.
pub async fn run(global: &Global, args: &VersionArgs) -> anyhow::Result<ExitCode> {
    let is_text = args.output == OutputFormat::Text;
    if is_text {
        // Known even if no cluster is.
        output::data(&format!("client: {}\n", env!("LINKERD_MC_VERSION")))?;
    }
    let controllers = if args.client {
        None
    } else {
        let contexts = args.contexts.select(global, args.request_timeout).await?;
        Some(spin("reading Deployments", all_controllers(&contexts)).await)
    };
    let rows = controllers.as_deref().unwrap_or_default();
    let is_silent = rows.iter().any(|row| row.error.is_some());
    if is_text {
        output::data(&rows.iter().map(line).collect::<String>())?;
    } else {
        let versions = AllVersions {
            client: CLIENT,
            controllers,
        };
        output::data(&args.output.of(&versions, String::new)?)?;
    }
    Ok(output::exit_code(is_silent))
}

/// The controllers of all clusters.
pub async fn all_controllers(contexts: &[KubeContext]) -> Vec<ControllerVersion> {
    let answers = side_by_side(contexts.iter().map(async |context| {
        let found = match &context.client {
            Ok(cluster) => controllers(&cluster.client).await,
            Err(why) => Err(why.clone()),
        };
        of_cluster(&context.name, found)
    }));
    answers.await.into_iter().flatten().collect()
}

/// The controllers of one cluster, or one row that says why there is none.
fn of_cluster(context: &str, found: Known<Vec<Workload>>) -> Vec<ControllerVersion> {
    let row = ControllerVersion {
        context: context.to_owned(),
        ..ControllerVersion::default()
    };
    let found = match found {
        Ok(found) => found,
        Err(why) => {
            return vec![ControllerVersion {
                error: Some(why.to_string()),
                ..row
            }];
        }
    };
    if found.is_empty() {
        return vec![row];
    }
    let rows = found.into_iter().map(|controller| {
        // The proxy injector adds its container to Pods, not to Deployments.
        let image = controller.images.first().cloned();
        ControllerVersion {
            context: context.to_owned(),
            namespace: Some(controller.id.namespace),
            version: image.as_deref().and_then(tag).map(str::to_owned),
            image,
            error: None,
        }
    });
    rows.collect()
}

fn line(row: &ControllerVersion) -> String {
    let known = match (&row.error, &row.version, &row.image) {
        (Some(why), _, _) => format!("unknown: {why}"),
        (None, Some(version), _) => version.clone(),
        (None, None, Some(image)) => format!("no tag: {image}"),
        (None, None, None) => "not installed".to_owned(),
    };
    let namespace = row.namespace.as_ref();
    let namespace = namespace.map_or_else(String::new, |name| format!(" (namespace {name})"));
    one_line(&format!("{}: {known}{namespace}", row.context)) + "\n"
}

#[cfg(test)]
mod tests {
    use mirror_core::api::{labels, metadata::ResourceId};

    use super::*;

    #[test]
    fn each_controller_has_a_line_and_each_cluster_without_one() {
        let controller = |namespace: &str, image: &str| Workload {
            id: ResourceId::new(namespace, labels::CONTROLLER_NAME),
            images: vec![image.to_owned()],
            ..Workload::default()
        };
        for (found, expected) in [
            (
                Ok(vec![
                    controller("mc", "registry.example:5000/controller:0.1.0"),
                    controller("other", "controller@sha256:00"),
                ]),
                "west: 0.1.0 (namespace mc)\nwest: no tag: controller@sha256:00 (namespace other)\n",
            ),
            (Ok(vec![]), "west: not installed\n"),
            (Err("timed out".into()), "west: unknown: timed out\n"),
        ] {
            let rows = of_cluster("west", found);
            assert_eq!(rows.iter().map(line).collect::<String>(), expected);
        }
    }
}
