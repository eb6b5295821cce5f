//! What `status` shows: tables with notes below them, JSON, YAML. Pure.

use jiff::Timestamp;
use serde::Serialize;

use super::{
    args::{StatusArgs, StatusFormat},
    services::{ServiceRow, ShownMode},
};
use crate::{
    api::text::one_line,
    cli::common::table::{Cell, Column, Table, Tone, age},
    clusters::{
        cluster_client::KubeContext,
        link_summary::GatewaySummary,
        preference_status::PreferenceStatus,
        topology::{Edge, Topology},
    },
    manifests::yaml,
};

/// All that `status` shows; its JSON is the documented output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct StatusView {
    /// Clusters and Links.
    #[serde(flatten)]
    pub(super) topology: Topology,
    /// Mirrors and federated Services, with `--services`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) services: Option<Vec<ServiceRow>>,
}

/// One row per Link.
pub(super) fn links(topology: &Topology, shape: TableShape, now: Timestamp) -> Table {
    let columns = link_columns(shape);
    let mut table = Table::new(
        columns
            .iter()
            .map(|(column, _)| *column)
            .collect::<Vec<_>>(),
    );
    for edge in &topology.links {
        table.push(columns.iter().map(|(_, cell)| cell(edge, now)).collect());
    }
    table
}

type ToCell = fn(&Edge, Timestamp) -> Cell;

#[rustfmt::skip]
fn link_columns(shape: TableShape) -> Vec<(Column, ToCell)> {
    let TableShape { several, wide } = shape;
    let columns: [(bool, Column, ToCell); 16] = [
        (several, Column::elastic("SOURCE"), |e, _| (&e.source).into()),
        (several, Column::elastic("TARGET"), |e, _| (&e.target).into()),
        (!several || wide, Column::elastic("CLUSTER"), |e, _| (&e.link.cluster).into()),
        (wide, Column::new("LINK"), |e, _| format!("{}/{}", e.link.namespace, e.link.name).into()),
        (wide, Column::new("READY"), |e, _| known(e.link.ready)),
        (true, Column::new("CONNECTED"), |e, _| known(e.link.connected)),
        (wide, Column::new("CREDENTIALS"), |e, _| match e.link.credentials_valid {
            Some(true) => Cell::toned("valid", Tone::Good),
            Some(false) => Cell::toned("invalid", Tone::Bad),
            None => Cell::toned("unknown", Tone::Doubtful),
        }),
        (true, Column::new("GATEWAY"), |e, _| gateway(e.link.gateway.as_ref())),
        (!several || wide, Column::number("LATENCY"), |e, _| latency(e.link.gateway.as_ref()).into()),
        (wide, Column::new("ADDRESSES"), |e, _| {
            e.link.gateway.as_ref().map(|g| g.addresses.join(",")).unwrap_or_default().into()
        }),
        (true, Column::number("MIRRORED"), |e, _| e.link.mirrored.to_string().into()),
        (true, Column::number("FEDERATED"), |e, _| e.link.federated.to_string().into()),
        (true, Column::number("UNHEALTHY"), |e, _| match e.link.unhealthy {
            0 => "0".into(),
            n => Cell::toned(n.to_string(), Tone::Doubtful),
        }),
        (several && wide, Column::new("TRUST"), |e, _| match e.shares_trust_anchors {
            Some(true) => Cell::toned("shared", Tone::Good),
            Some(false) => Cell::toned("differs", Tone::Bad),
            None => Cell::toned("unknown", Tone::Doubtful),
        }),
        (!several || wide, Column::new("CHANGED"), |e, now| age(now, e.link.last_change).into()),
        (wide, Column::elastic("MESSAGE"), |e, _| e.link.message.as_deref().unwrap_or_default().into()),
    ];
    columns.into_iter().filter(|(shown, ..)| *shown).map(|(_, column, cell)| (column, cell)).collect()
}

fn known(value: Option<bool>) -> Cell {
    match value {
        Some(true) => Cell::toned("True", Tone::Good),
        Some(false) => Cell::toned("False", Tone::Bad),
        None => Cell::toned("Unknown", Tone::Doubtful),
    }
}

fn gateway(gateway: Option<&GatewaySummary>) -> Cell {
    match gateway.map(|gateway| gateway.alive) {
        Some(Some(true)) => Cell::toned("alive", Tone::Good),
        Some(Some(false)) => Cell::toned("dead", Tone::Bad),
        Some(None) => Cell::toned("unknown", Tone::Doubtful),
        None => "none".into(),
    }
}

/// Latency of a gateway that is alive.
pub(crate) fn latency(gateway: Option<&GatewaySummary>) -> String {
    let alive = gateway.filter(|gateway| gateway.alive == Some(true));
    alive
        .and_then(|gateway| gateway.latency_ms)
        .map_or_else(|| "-".to_owned(), |ms| format!("{ms}ms"))
}

/// The notes below the table: one line per problem.
pub(super) fn notes(topology: &Topology, shape: TableShape) -> Vec<String> {
    let mut notes = Vec::new();
    for edge in &topology.links {
        // The wide table has a column for it.
        let message = edge.link.message.as_deref().filter(|_| !shape.wide);
        let credentials = edge.link.credentials_problems.iter().flatten().next();
        let drained = edge.link.drained.as_ref();
        let drained = drained.map(|until| format!("drained {until}"));
        let said = message.into_iter().chain(credentials.map(String::as_str));
        let said = said.chain(drained.as_deref());
        notes.extend(said.map(|said| {
            if shape.several {
                format!("{} → {}: {said}", edge.source, edge.target)
            } else {
                format!("{}: {said}", edge.link.cluster)
            }
        }));
    }
    if shape.several {
        notes.extend(topology.notes());
    }
    notes
}

/// The notes below the table of Services: preferred clusters that receive no requests, one line per Service.
fn absences(rows: &[ServiceRow], shape: TableShape, now: Timestamp) -> Vec<String> {
    let ago = |time| format!("{} ago", age(now, Some(time)));
    let ahead = |time| format!("in {}", age(time, Some(now)));
    let absences = rows.iter().filter_map(|row| {
        let said = row.preferred.absence(ago, ahead)?;
        let service = row.service.as_deref().unwrap_or_default();
        let said = format!("{}/{service}: {said}", row.namespace);
        Some(if shape.several {
            format!("{}: {said}", row.context)
        } else {
            said
        })
    });
    absences.collect()
}

/// One row per Service.
fn services(rows: &[ServiceRow], shape: TableShape) -> Table {
    let mut columns = vec![
        Column::elastic("NAMESPACE"),
        Column::elastic("SERVICE"),
        Column::new("MODE"),
        Column::elastic("FROM"),
        Column::number("ENDPOINTS"),
    ];
    // Few clusters use preferences.
    let prefers = |row: &ServiceRow| row.preferred.preference.is_some();
    let has_preferences = rows.iter().any(prefers);
    if has_preferences {
        columns.extend([Column::elastic("PREFERS"), Column::elastic("ACTIVE")]);
    }
    columns.push(Column::elastic("REASON"));
    if shape.several {
        columns.insert(0, Column::elastic("CONTEXT"));
    }
    if shape.wide {
        columns.push(Column::elastic("MESSAGE"));
    }
    let mut table = Table::new(columns);
    for row in rows {
        let endpoints = row
            .endpoints
            .map_or_else(String::new, |e| format!("{}/{}", e.ready, e.total));
        let tone = match row.healthy {
            Some(true) => Tone::Good,
            Some(false) => Tone::Bad,
            None => Tone::Plain,
        };
        let mut cells: Vec<Cell> = vec![
            (&row.namespace).into(),
            row.service.as_deref().unwrap_or_default().into(),
            row.mode.map(ShownMode::as_str).unwrap_or_default().into(),
            row.from.join(",").into(),
            endpoints.into(),
        ];
        if has_preferences {
            cells.extend(preferred(&row.preferred));
        }
        cells.push(Cell::toned(row.reason.as_deref().unwrap_or_default(), tone));
        if shape.several {
            cells.insert(0, (&row.context).into());
        }
        if shape.wide {
            cells.push(row.message.as_deref().unwrap_or_default().into());
        }
        table.push(cells);
    }
    table
}

/// Which clusters are preferred, and which receive the requests.
fn preferred(preferred: &PreferenceStatus) -> [Cell; 2] {
    let Some(preference) = &preferred.preference else {
        return ["-".into(), "-".into()];
    };
    let tone = if preferred.has_failed_over {
        Tone::Doubtful
    } else {
        Tone::Good
    };
    let active = match preferred.active.as_slice() {
        [] => "all".to_owned(),
        active => active.join(","),
    };
    [preference.into(), Cell::toned(active, tone)]
}

/// What is printed in place of an empty table.
pub(super) fn absent(args: &StatusArgs, status: &StatusView) -> Option<&'static str> {
    if !args.is_table() {
        None
    } else if status.topology.links.is_empty() {
        Some("no Links found")
    } else if status.services.as_ref().is_some_and(Vec::is_empty) {
        Some("no Services are mirrored or federated")
    } else {
        None
    }
}

/// The output for a status.
pub(super) fn render(
    args: &StatusArgs,
    contexts: &[KubeContext],
    status: &StatusView,
    now: Timestamp,
    width: Option<usize>,
) -> anyhow::Result<String> {
    Ok(match args.output {
        StatusFormat::Json => serde_json::to_string_pretty(status)? + "\n",
        StatusFormat::Yaml => yaml::to_yaml(status)?,
        StatusFormat::Table | StatusFormat::Wide => {
            let shape = TableShape::of(args, contexts);
            let table = match &status.services {
                Some(rows) => services(rows, shape),
                None => links(&status.topology, shape, now),
            };
            let mut text = if table.is_empty() {
                String::new()
            } else {
                table.render(width)
            };
            let services = status.services.as_deref().unwrap_or_default();
            let mut below = absences(services, shape, now);
            below.extend(notes(&status.topology, shape));
            if !below.is_empty() && !text.is_empty() {
                text.push('\n');
            }
            for note in below {
                text.push_str(&one_line(&note));
                text.push('\n');
            }
            text
        }
    })
}

/// How much of a table is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableShape {
    /// Whether several clusters are asked.
    pub(super) several: bool,
    /// Whether all columns are shown.
    pub(super) wide: bool,
}

impl TableShape {
    pub(super) fn of(args: &StatusArgs, contexts: &[KubeContext]) -> Self {
        Self {
            several: contexts.len() > 1,
            wide: args.output == StatusFormat::Wide,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        client::Identity,
        clusters::{
            link_summary::tests::{condition, link},
            preference_status::tests::federated,
            snapshot::ClusterSnapshot,
            topology::tests::snapshots,
        },
    };
    use serde_json::json;

    const NOW: &str = "2026-01-01T00:05:00Z";

    fn one() -> Topology {
        let links = vec![
            link(
                "east",
                &json!({
                    "conditions": [condition("Ready", "True", "", 1), condition("Connected", "True", "", 1), condition("CredentialsValid", "True", "", 1)],
                    "gateway": {"alive": true, "latencyMs": 3, "addresses": ["192.0.2.1", "192.0.2.2"]},
                    "mirrored": 1200, "federated": 12, "unhealthy": 0,
                }),
            ),
            link(
                "a-cluster-far-away-in-the-west",
                &json!({
                    "conditions": [condition("Connected", "False", "connection refused", 59), condition("CredentialsValid", "True", "", 1)],
                    "gateway": {"alive": false, "since": "2026-01-01T00:00:30Z"},
                    "mirrored": 3, "federated": 0, "unhealthy": 2,
                }),
            ),
            link("new", &json!({})),
        ];
        Topology::of(&[ClusterSnapshot {
            name: "here".into(),
            identity: Identity::default(),
            links: Ok(links),
            config: Err("refused".into()),
        }])
    }

    fn plain(table: &Table, width: Option<usize>) -> String {
        anstream::adapter::strip_str(&table.render(width)).to_string()
    }

    fn shape(several: bool, wide: bool) -> TableShape {
        TableShape { several, wide }
    }

    #[test]
    fn one_cluster_fits_eighty_columns() {
        let table = links(&one(), shape(false, false), NOW.parse().unwrap());
        let text = plain(&table, Some(80));
        insta::assert_snapshot!(text, @r"
        CLUSTER     CONNECTED  GATEWAY  LATENCY  MIRRORED  FEDERATED  UNHEALTHY  CHANGED
        east        True       alive        3ms      1200         12          0  4m59s
        a-cluster…  False      dead           -         3          0          2  4m1s
        new         Unknown    unknown        -         0          0          0  -
        ");
        assert!(text.lines().all(|line| line.chars().count() <= 80));
        assert_eq!(
            notes(&one(), shape(false, false)),
            ["a-cluster-far-away-in-the-west: connection refused"]
        );
    }

    #[test]
    fn the_wide_table_has_all() {
        let table = links(&one(), shape(false, true), NOW.parse().unwrap());
        insta::assert_snapshot!(plain(&table, None), @r"
        CLUSTER                         LINK                                                 READY    CONNECTED  CREDENTIALS  GATEWAY  LATENCY  ADDRESSES            MIRRORED  FEDERATED  UNHEALTHY  CHANGED  MESSAGE
        east                            linkerd-multicluster/east                            True     True       valid        alive        3ms  192.0.2.1,192.0.2.2      1200         12          0  4m59s    -
        a-cluster-far-away-in-the-west  linkerd-multicluster/a-cluster-far-away-in-the-west  Unknown  False      valid        dead           -  -                           3          0          2  4m1s     connection refused
        new                             linkerd-multicluster/new                             Unknown  Unknown    unknown      unknown        -  -                           0          0          0  -        -
        ");
        assert!(notes(&one(), shape(false, true)).is_empty());
    }

    #[test]
    fn each_table_has_one_note_about_the_credentials_of_a_link() {
        let mut topology = Topology::of(&snapshots());
        topology.links.truncate(2);
        let problems = ["the token expired", "and more"].map(str::to_owned);
        topology.links[0].link.credentials_problems = Some(problems.to_vec());
        topology.links[0].link.message = Some("Unauthorized".into());
        topology.links[1].link.credentials_problems = Some(vec![]);
        let notes = |several, wide| notes(&topology, shape(several, wide));
        let narrow = ["w: Unauthorized", "w: the token expired"];
        assert_eq!(notes(false, false), narrow);
        assert_eq!(notes(false, true), ["w: the token expired"]);
        assert_eq!(notes(true, true), ["east → west: the token expired"]);
    }

    #[test]
    fn a_fleet_shows_who_links_to_whom() {
        let topology = Topology::of(&snapshots());
        let table = links(&topology, shape(true, false), NOW.parse().unwrap());
        let text = plain(&table, Some(80));
        insta::assert_snapshot!(text, @r"
        SOURCE  TARGET  CONNECTED  GATEWAY  MIRRORED  FEDERATED  UNHEALTHY
        east    west    True       alive          12          2          1
        west    east    True       alive          12          2          1
        west    north   True       alive          12          2          1
        north   moon    True       alive          12          2          1
        ");
        assert!(text.lines().all(|line| line.chars().count() <= 80));
        insta::assert_snapshot!(notes(&topology, shape(true, false)).join("\n"), @r"
        west → north is one-way: north has no Link to west
        north and west have different trust anchors
        ");
    }

    #[test]
    fn services_that_prefer_fit_a_hundred_columns() {
        let of = |service: &str, prefer: &str, away: &str| ServiceRow {
            context: "here".into(),
            namespace: "shop".into(),
            service: Some(service.into()),
            mode: Some(ShownMode::Federated),
            from: ["web@(local)", "web@east", "web@west"]
                .map(Into::into)
                .into(),
            preferred: PreferenceStatus::of(&federated(prefer, away)),
            healthy: Some(true),
            reason: Some("Mirrored".into()),
            ..ServiceRow::default()
        };
        let back = "local=2026-01-01T00:00:00Z/2026-01-01T00:05:20Z";
        let gone = "east=2026-01-01T00:03:00Z/..";
        let rows = [
            of("api-federated", "", ""),
            of("auth-federated", "local,east", ""),
            of("web-federated", "local,east", back),
            of("pay-federated", "east=80,local=20", gone),
        ];
        let (now, shape) = (NOW.parse().unwrap(), shape(false, false));
        let text = plain(&services(&rows, shape), Some(100));
        insta::assert_snapshot!(text, @r"
        NAMESPACE  SERVICE         MODE       FROM              ENDPOINTS  PREFERS          ACTIVE  REASON
        shop       api-federated   federated  web@(local),web…          -  -                -       Mirrored
        shop       auth-federated  federated  web@(local),web…          -  local,east       local   Mirrored
        shop       web-federated   federated  web@(local),web…          -  local,east       east    Mirrored
        shop       pay-federated   federated  web@(local),web…          -  east=80,local=…  local   Mirrored
        ");
        assert!(text.lines().all(|line| line.chars().count() <= 100));
        insta::assert_snapshot!(absences(&rows, shape, now).join("\n"), @r"
        shop/web-federated: prefers local,east; failed over to east: local became unavailable 5m ago and receives requests again in 20s
        shop/pay-federated: prefers east=80,local=20; failed over to local: east became unavailable 2m ago
        ");
        let several = TableShape {
            several: true,
            ..shape
        };
        let said = absences(&rows, several, now);
        assert!(
            said[1].starts_with("here: shop/pay-federated: "),
            "{said:?}"
        );
        let without = plain(&services(&rows[..1], shape), None);
        assert!(!without.contains("PREFERS"), "{without}");
    }
}
