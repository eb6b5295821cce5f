//! `gateways`: whether the gateways of target clusters are alive, in the format of `linkerd multicluster gateways`.

use std::{collections::BTreeMap, process::ExitCode, time::Duration};

use clap::Args;
use clap_complete::ArgValueCompleter;
use client::{Cluster, ReadError};
use futures::future::join_all;
use hints::hint::fail;
use mirror_core::api::{k8s::Service, labels, text::one_line};
use observe::{
    clusters::{
        collect::{Depth, snapshot_of},
        collect_full,
        link_summary::LinkSummary,
        snapshot::{ClusterSnapshot, Known},
        topology::Topology,
    },
    finding::causes::Cause,
};
use serde::Serialize;

use super::common::{
    args::{Global, cluster_name, timeout},
    complete,
    contexts::{Contexts, not_installed},
    output,
    problems::notes,
    wait::spin,
};

const EXAMPLES: &str = "\
Examples:
  # Show all gateways
  linkerd-mc gateways

  # Show gateways that are not alive
  linkerd-mc gateways -o json | jq '.[] | select(.alive | not)'";

/// Show whether the gateways of target clusters are alive
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Gateways {
    /// Show only the gateway of this target cluster
    #[arg(long, value_name = "NAME", value_parser = cluster_name, add = ArgValueCompleter::new(complete::clusters))]
    cluster_name: Option<String>,
    /// Timeout of each request to the cluster
    #[arg(short, long, value_name = "DURATION", default_value = "30s", value_parser = timeout)]
    wait: Duration,
    /// Output format: `json`, `yaml`, or anything else for a table
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "",
        hide_default_value = true
    )]
    output: String,
}

/// A gateway, with the JSON fields of `linkerd multicluster gateways`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct GatewayRow {
    cluster_name: String,
    alive: bool,
    /// `null` if mirrors could not be listed.
    number_of_services: Option<usize>,
    /// Milliseconds; 0 when unknown.
    latency: u64,
    /// The context of the cluster with its Link; only if several are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<String>,
    #[serde(skip)]
    shown: ShownGateway,
}

/// What only the table shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ShownGateway {
    /// Whether it is alive; `None` if that is unknown.
    alive: Option<bool>,
    has_latency: bool,
    /// Whether no controller has reported for some time.
    is_old: bool,
}

/// Shows the gateways, and below the table what is wrong with them.
pub async fn run(global: &Global, args: &Gateways) -> anyhow::Result<ExitCode> {
    let contexts = Contexts::default().select(global, args.wait).await?;
    let asked = contexts.iter().map(|context| async move {
        let cluster = context.client.as_ref();
        let cluster = cluster.map_err(|why| anyhow::anyhow!("{}: {why}", context.name))?;
        ask(cluster).await
    });
    let answers = spin("reading gateways", Box::pin(join_all(asked))).await;
    let (answers, errors) = answered(answers)?;
    let several = contexts.len() > 1;
    let mut rows = Vec::new();
    for GatewayAnswer { snapshot, mirrors } in &answers {
        let context = several.then_some(snapshot.name.as_str());
        rows.extend(gateways(
            snapshot,
            mirrors.as_deref().ok(),
            args.cluster_name.as_deref(),
            context,
        ));
    }
    output::data(&match args.output.as_str() {
        "json" => output::json(&rows)?,
        "yaml" => output::yaml(&rows)?,
        _ => table(&rows),
    })?;
    for GatewayAnswer { snapshot, mirrors } in &answers {
        if let Err(why) = mirrors {
            let name = &snapshot.name;
            output::warning(&format!("{name}: cannot list mirror Services: {why}"));
        }
    }
    for error in &errors {
        output::error(error);
    }
    let snapshots: Vec<_> = answers.into_iter().map(|answer| answer.snapshot).collect();
    let mut topology = Topology::of(&snapshots);
    if let Some(only) = &args.cluster_name {
        topology.links.retain(|edge| edge.link.cluster == *only);
    }
    let causes = [Some(Cause::ControllerDown), Some(Cause::ProbesFail)];
    output::warnings(&notes(&topology, several, |_, finding| {
        causes.contains(&finding.cause)
    }));
    Ok(output::exit_code(!errors.is_empty()))
}

/// The answers, and the errors of clusters that gave none. Fails with the error of the only cluster.
fn answered<T>(
    mut answers: Vec<anyhow::Result<T>>,
) -> anyhow::Result<(Vec<T>, Vec<anyhow::Error>)> {
    if let [_] = answers.as_slice() {
        return Ok((vec![answers.remove(0)?], Vec::new()));
    }
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    for answer in answers {
        match answer {
            Ok(answer) => found.push(answer),
            Err(error) => errors.push(error),
        }
    }
    Ok((found, errors))
}

/// What a cluster answers.
struct GatewayAnswer {
    snapshot: ClusterSnapshot,
    mirrors: Known<Vec<Service>>,
}

async fn ask(cluster: &Cluster) -> anyhow::Result<GatewayAnswer> {
    let (namespaces, snapshot, mirrors) = futures::join!(
        collect_full::extension_namespaces(&cluster.client),
        snapshot_of(cluster, Depth::Links),
        collect_full::mirrors(&cluster.client, None)
    );
    let namespaces = known("Namespaces", namespaces.as_ref(), cluster)?;
    if namespaces.is_empty() {
        return Err(not_installed(&cluster.name, &cluster.flags));
    }
    known("Links", snapshot.links.as_ref(), cluster)?;
    Ok(GatewayAnswer { snapshot, mirrors })
}

fn known<'a, T>(
    what: &str,
    answer: Result<&'a T, &ReadError>,
    cluster: &Cluster,
) -> anyhow::Result<&'a T> {
    answer.map_err(|why| {
        fail(
            format!("cannot list {what}: {why}"),
            format!(
                "check that the cluster is up and that you may list them; {} shows details",
                cluster.flags.mc("check", &[])
            ),
        )
    })
}

/// Gateways of Links that have one, by cluster.
fn gateways(
    snapshot: &ClusterSnapshot,
    mirrors: Option<&[Service]>,
    only: Option<&str>,
    context: Option<&str>,
) -> Vec<GatewayRow> {
    let mut services: BTreeMap<&str, usize> = BTreeMap::new();
    for mirror in mirrors.into_iter().flatten() {
        *services
            .entry(mirror.metadata.label(labels::CLUSTER_NAME))
            .or_default() += 1;
    }
    let links = snapshot.links.iter().flatten();
    let mut gateways: Vec<_> = links
        .filter(|link| only.is_none_or(|only| link.cluster() == only))
        .filter_map(|link| {
            let summary = LinkSummary::in_cluster(link, snapshot);
            let is_old = summary.is_old();
            let gateway = summary.gateway?;
            let latency = gateway.latency_ms.and_then(|ms| u64::try_from(ms).ok());
            Some(GatewayRow {
                cluster_name: link.cluster().to_owned(),
                // The format has only true and false; unknown is false.
                alive: gateway.alive == Some(true),
                number_of_services: mirrors
                    .map(|_| services.get(link.cluster()).copied().unwrap_or_default()),
                latency: latency.unwrap_or_default(),
                context: context.map(str::to_owned),
                shown: ShownGateway {
                    alive: gateway.alive,
                    has_latency: latency.is_some(),
                    is_old,
                },
            })
        })
        .collect();
    gateways.sort_by(|a, b| a.cluster_name.cmp(&b.cluster_name));
    gateways
}

impl ShownGateway {
    /// Whether the gateway is alive, in the words of `status`.
    fn alive(&self) -> String {
        let alive = match self.alive {
            Some(true) => "True",
            Some(false) => "False",
            None => return "Unknown".to_owned(),
        };
        if self.is_old {
            format!("{alive} (old)")
        } else {
            alive.to_owned()
        }
    }
}

/// The table of `linkerd multicluster gateways`: two spaces follow each column, including the last.
fn table(gateways: &[GatewayRow]) -> String {
    let names = gateways.iter().map(|gateway| match &gateway.context {
        Some(context) => one_line(&format!("{context}/{}", gateway.cluster_name)),
        None => one_line(&gateway.cluster_name),
    });
    let names: Vec<String> = names.collect();
    let alive: Vec<String> = gateways
        .iter()
        .map(|gateway| gateway.shown.alive())
        .collect();
    let widest = |texts: &[String]| texts.iter().map(|text| text.chars().count()).max();
    let width = widest(&names).unwrap_or_default().max(7);
    let alive_width = widest(&alive).unwrap_or_default().max(5);
    let line = |name: &str, alive: &str, services: &str, latency: &str| {
        format!("{name:<width$}  {alive:<alive_width$}  {services:>9}  {latency:>11}  \n")
    };
    let rows = gateways
        .iter()
        .zip(&names)
        .zip(&alive)
        .map(|((gateway, name), alive)| {
            let services = gateway.number_of_services.map(|number| number.to_string());
            let services = services.unwrap_or_else(|| "-".to_owned());
            let latency = if gateway.alive && gateway.shown.has_latency {
                format!("{}ms", gateway.latency)
            } else {
                "-".to_owned()
            };
            line(name, alive, &services, &latency)
        });
    std::iter::once(line("CLUSTER", "ALIVE", "NUM_SVC", "LATENCY"))
        .chain(rows)
        .collect()
}

#[cfg(test)]
mod tests {
    use observe::clusters::{fixtures::link, fixtures::silent, snapshot::LinkSnapshot};
    use serde_json::json;

    use super::*;

    fn some() -> Vec<GatewayRow> {
        let mut without = link("no-gateway", &json!({}));
        without.link.spec.gateway_address.clear();
        let links = vec![
            link(
                "west",
                &json!({"gateway": {"alive": false, "latencyMs": 9}}),
            ),
            link(
                "east-with-a-long-name",
                &json!({"gateway": {"alive": true, "latencyMs": 12}}),
            ),
            link("new", &json!({})),
            link("quick", &json!({"gateway": {"alive": true}})),
            without,
        ];
        let mirrors: Vec<Service> = ["west", "west", "elsewhere"]
            .iter()
            .map(|cluster| {
                serde_json::from_value(
                    json!({"metadata": {"labels": {labels::CLUSTER_NAME: cluster}}}),
                )
                .unwrap()
            })
            .collect();
        gateways(&with(links), Some(&mirrors), None, None)
    }

    fn with(links: Vec<LinkSnapshot>) -> ClusterSnapshot {
        ClusterSnapshot {
            links: Ok(links),
            ..ClusterSnapshot::unreachable("here", &"".into())
        }
    }

    #[test]
    fn gateways_table_is_that_of_linkerd_multicluster() {
        assert_eq!(
            table(&some()),
            "CLUSTER                ALIVE      NUM_SVC      LATENCY  \n\
             east-with-a-long-name  True             0         12ms  \n\
             new                    Unknown          0            -  \n\
             quick                  True             0            -  \n\
             west                   False            2            -  \n"
        );
        assert_eq!(table(&[]), "CLUSTER  ALIVE    NUM_SVC      LATENCY  \n");
    }

    #[test]
    fn the_json_is_linkerds_except_for_an_empty_list() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&some()[..1]).unwrap(), @r#"
        [
          {
            "clusterName": "east-with-a-long-name",
            "alive": true,
            "numberOfServices": 0,
            "latency": 12
          }
        ]
        "#);
        assert_eq!(
            serde_json::to_string_pretty(&gateways(&with(vec![]), Some(&[]), None, None)).unwrap(),
            "[]"
        );
    }

    /// One cluster that does not answer hides no other, and neither do mirrors that may not be listed.
    #[test]
    fn what_one_cluster_does_not_tell_hides_nothing_else() {
        let silent = || Err(anyhow::anyhow!("east: timed out"));
        let (answers, errors) = answered(vec![silent(), Ok("west"), silent()]).unwrap();
        assert_eq!((answers, errors.len()), (vec!["west"], 2));
        assert!(answered(vec![silent()]).is_err());
        let links = vec![link("east", &json!({"gateway": {"alive": true}}))];
        let rows = gateways(&with(links), None, None, None);
        assert!(
            table(&rows).contains("east     True           -"),
            "{}",
            table(&rows)
        );
        let row = serde_json::to_value(&rows[0]).unwrap();
        assert_eq!(row["numberOfServices"], json!(null));
    }

    #[test]
    fn one_cluster_can_be_picked() {
        let links = vec![link("west", &json!({})), link("east", &json!({}))];
        let picked = gateways(&with(links), Some(&[]), Some("east"), None);
        assert_eq!(picked.len(), 1);
        assert_eq!(picked[0].cluster_name, "east");
    }

    #[test]
    fn gateways_of_several_clusters_and_old_values_are_marked() {
        let alive = link("east", &json!({"gateway": {"alive": true}}));
        let mut snapshot = with(vec![alive]);
        let silent = silent("2026-11-21T12:00:00Z");
        let namespace = "linkerd-multicluster".to_owned();
        snapshot.leaders.insert(namespace, Ok(Some(silent)));
        let rows = gateways(&snapshot, Some(&[]), None, Some("west"));
        let table = table(&rows);
        assert!(table.contains("\nwest/east  True (old)  "), "{table}");
        assert_eq!(serde_json::to_value(&rows[0]).unwrap()["context"], "west");
    }
}
