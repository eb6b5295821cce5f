//! `gateways`: whether the gateways of target clusters are alive, in the format of `linkerd multicluster gateways`.

use std::{collections::BTreeMap, process::ExitCode, time::Duration};

use clap::Args;
use clap_complete::ArgValueCompleter;
use serde::Serialize;

use super::common::{
    args::{Global, cluster_name, timeout},
    complete,
    contexts::Contexts,
    output,
    wait::spin,
};
use crate::{
    api::{k8s::Service, labels, text::one_line},
    clusters::{
        cluster_client::ClusterClient,
        collect::{Depth, snapshot_of},
        collect_full,
        link_summary::LinkSummary,
        snapshot::{Known, LinkSnapshot},
    },
    hint::fail,
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
pub(crate) struct Gateways {
    /// Show only the gateway of this target cluster
    #[arg(long, value_name = "NAME", value_parser = cluster_name, add = ArgValueCompleter::new(complete::clusters))]
    cluster_name: Option<String>,
    /// Timeout of each request to the cluster
    #[arg(short, long, value_name = "DURATION", default_value = "30s", value_parser = timeout)]
    wait: Duration,
    /// Output format: `json`, or anything else for a table
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
    number_of_services: usize,
    /// Milliseconds; 0 when unknown.
    latency: u64,
    #[serde(skip)]
    has_latency: bool,
}

/// Shows the gateways.
pub(crate) async fn run(global: &Global, args: &Gateways) -> anyhow::Result<ExitCode> {
    let contexts = Contexts::default().select(global, args.wait).await?;
    for context in &contexts {
        let cluster = context
            .client
            .as_ref()
            .map_err(|why| anyhow::anyhow!("{why}"))?;
        let gateways = spin("reading gateways", Box::pin(ask(cluster, args))).await?;
        output::data(&if args.output == "json" {
            serde_json::to_string_pretty(&gateways)? + "\n"
        } else {
            table(&gateways)
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn ask(cluster: &ClusterClient, args: &Gateways) -> anyhow::Result<Vec<GatewayRow>> {
    let (namespaces, snapshot, mirrors) = futures::join!(
        collect_full::extension_namespaces(&cluster.client),
        snapshot_of(cluster, Depth::Links),
        collect_full::mirrors(&cluster.client)
    );
    let namespaces = known("Namespaces", namespaces)?;
    if namespaces.is_empty() {
        return Err(fail(
            "the multicluster extension is not installed",
            "install it with `linkerd-mc install | kubectl apply -f -`",
        ));
    }
    let links = known("Links", snapshot.links)?;
    let mirrors = known("mirror Services", mirrors)?;
    Ok(gateways(&links, &mirrors, args.cluster_name.as_deref()))
}

fn known<T>(what: &str, answer: Known<T>) -> anyhow::Result<T> {
    answer.map_err(|why| {
        fail(
            format!("cannot list {what}: {why}"),
            "check that the cluster is up and that you may list them; `linkerd-mc check` shows details",
        )
    })
}

/// Gateways of Links that have one, by cluster.
fn gateways(links: &[LinkSnapshot], mirrors: &[Service], only: Option<&str>) -> Vec<GatewayRow> {
    let mut services: BTreeMap<&str, usize> = BTreeMap::new();
    for mirror in mirrors {
        *services
            .entry(mirror.metadata.label(labels::CLUSTER_NAME))
            .or_default() += 1;
    }
    let mut gateways: Vec<_> = links
        .iter()
        .filter(|link| only.is_none_or(|only| link.cluster() == only))
        .filter_map(|link| {
            let gateway = LinkSummary::of(link).gateway?;
            let latency = gateway.latency_ms.and_then(|ms| u64::try_from(ms).ok());
            Some(GatewayRow {
                cluster_name: link.cluster().to_owned(),
                // The format has only true and false; unknown is false.
                alive: gateway.alive == Some(true),
                number_of_services: services.get(link.cluster()).copied().unwrap_or_default(),
                latency: latency.unwrap_or_default(),
                has_latency: latency.is_some(),
            })
        })
        .collect();
    gateways.sort_by(|a, b| a.cluster_name.cmp(&b.cluster_name));
    gateways
}

/// The table of `linkerd multicluster gateways`: two spaces follow each column, including the last.
fn table(gateways: &[GatewayRow]) -> String {
    let names: Vec<_> = gateways.iter().map(|g| one_line(&g.cluster_name)).collect();
    let width = names
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or_default()
        .max(7);
    let line = |name: &str, alive: &str, services: &str, latency: &str| {
        format!("{name:<width$}  {alive:<5}  {services:>9}  {latency:>11}  \n")
    };
    let rows = gateways.iter().zip(names).map(|(gateway, name)| {
        let services = gateway.number_of_services.to_string();
        match (gateway.alive, gateway.has_latency) {
            (true, true) => line(&name, "True", &services, &format!("{}ms", gateway.latency)),
            (true, false) => line(&name, "True", &services, "-"),
            (false, _) => line(&name, "False", &services, "-"),
        }
    });
    std::iter::once(line("CLUSTER", "ALIVE", "NUM_SVC", "LATENCY"))
        .chain(rows)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::clusters::link_summary::tests::link;

    fn some() -> Vec<GatewayRow> {
        let mut without = link("no-gateway", &json!({}));
        without.link.spec.gateway_address.clear();
        let links = [
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
        gateways(&links, &mirrors, None)
    }

    #[test]
    fn gateways_table_is_that_of_linkerd_multicluster() {
        assert_eq!(
            table(&some()),
            "CLUSTER                ALIVE    NUM_SVC      LATENCY  \n\
             east-with-a-long-name  True           0         12ms  \n\
             new                    False          0            -  \n\
             quick                  True           0            -  \n\
             west                   False          2            -  \n"
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
            serde_json::to_string_pretty(&gateways(&[], &[], None)).unwrap(),
            "[]"
        );
    }

    #[test]
    fn one_cluster_can_be_picked() {
        let links = [link("west", &json!({})), link("east", &json!({}))];
        let picked = gateways(&links, &[], Some("east"));
        assert_eq!(picked.len(), 1);
        assert_eq!(picked[0].cluster_name, "east");
    }
}
