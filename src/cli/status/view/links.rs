//! The table of Links, and the notes below it. Pure.

use jiff::Timestamp;
use observe::clusters::{
    link_summary::{GatewaySummary, LinkSummary},
    topology::{Edge, Topology},
};

use super::shape::TableShape;
use crate::cli::common::{
    problems::{about, called, dead_gateway, silences},
    table::{Cell, Column, Table, Tone, age},
};

/// One row per Link.
pub fn links(topology: &Topology, shape: TableShape, now: Timestamp) -> Table {
    let columns = columns(shape);
    let mut table = Table::new(
        columns
            .iter()
            .map(|(column, _)| *column)
            .collect::<Vec<_>>(),
    );
    for edge in &topology.links {
        let row = Row {
            edge,
            links: &topology.links,
            now,
        };
        table.push(columns.iter().map(|(_, cell)| cell(&row)).collect());
    }
    table
}

/// A Link among others.
struct Row<'a> {
    edge: &'a Edge,
    links: &'a [Edge],
    now: Timestamp,
}

impl Row<'_> {
    fn link(&self) -> &LinkSummary {
        &self.edge.link
    }

    /// A cell with something that the controller reports, marked if that is old.
    fn reported(&self, text: &str, tone: Tone) -> Cell {
        if self.link().is_old() && text != "-" && text != "none" {
            Cell::toned(format!("{text} (old)"), Tone::Doubtful)
        } else {
            Cell::toned(text, tone)
        }
    }

    fn condition(&self, value: Option<bool>) -> Cell {
        match value {
            Some(true) => self.reported("True", Tone::Good),
            Some(false) => self.reported("False", Tone::Bad),
            None => Cell::toned("Unknown", Tone::Doubtful),
        }
    }

    fn gateway(&self) -> Cell {
        match self.link().gateway.as_ref().map(|gateway| gateway.alive) {
            Some(Some(true)) => self.reported("alive", Tone::Good),
            Some(Some(false)) => self.reported("dead", Tone::Bad),
            Some(None) => Cell::toned("unknown", Tone::Doubtful),
            None => "none".into(),
        }
    }
}

type ToCell = fn(&Row) -> Cell;

#[rustfmt::skip]
fn columns(shape: TableShape) -> Vec<(Column, ToCell)> {
    let TableShape { several, wide } = shape;
    let spare = |column: Column, order| if wide { column } else { column.spare(order) };
    let columns: [(bool, Column, ToCell); 16] = [
        (several, Column::key("SOURCE"), |r| (&r.edge.source).into()),
        (true, Column::key("CLUSTER"), |r| called(r.edge, r.links).into()),
        (several && wide, Column::elastic("TARGET"), |r| (&r.edge.target).into()),
        (wide, Column::new("LINK"), |r| format!("{}/{}", r.link().namespace, r.link().name).into()),
        (true, Column::new("READY"), |r| r.condition(r.link().ready)),
        (true, spare(Column::new("CONNECTED"), 1), |r| r.condition(r.link().connected)),
        (wide, Column::new("CREDENTIALS"), |r| match r.link().credentials_valid {
            Some(true) => r.reported("valid", Tone::Good),
            Some(false) => r.reported("invalid", Tone::Bad),
            None => Cell::toned("unknown", Tone::Doubtful),
        }),
        (true, Column::new("GATEWAY"), |r| r.gateway()),
        (!several || wide, spare(Column::number("LATENCY"), 3), |r| latency(r.link().gateway.as_ref()).into()),
        (wide, Column::new("ADDRESSES"), |r| {
            r.link().gateway.as_ref().map(|g| g.addresses.join(",")).unwrap_or_default().into()
        }),
        (true, Column::number("MIRRORED"), |r| r.link().mirrored.to_string().into()),
        (true, Column::number("FEDERATED"), |r| r.link().federated.to_string().into()),
        (true, Column::number("UNHEALTHY"), |r| match r.link().unhealthy {
            0 => "0".into(),
            n => Cell::toned(n.to_string(), Tone::Doubtful),
        }),
        (several && wide, Column::new("TRUST"), |r| match r.edge.shares_trust_anchors {
            Some(true) => Cell::toned("shared", Tone::Good),
            Some(false) => Cell::toned("differs", Tone::Bad),
            None => Cell::toned("unknown", Tone::Doubtful),
        }),
        (!several || wide, spare(Column::new("CHANGED"), 2), |r| age(r.now, r.link().last_change).into()),
        (wide, Column::elastic("MESSAGE"), |r| r.link().message.as_deref().unwrap_or_default().into()),
    ];
    columns.into_iter().filter(|(shown, ..)| *shown).map(|(_, column, cell)| (column, cell)).collect()
}

/// Latency of a gateway that is alive.
fn latency(gateway: Option<&GatewaySummary>) -> String {
    let alive = gateway.filter(|gateway| gateway.alive == Some(true));
    alive
        .and_then(|gateway| gateway.latency_ms)
        .map_or_else(|| "-".to_owned(), |ms| format!("{ms}ms"))
}

/// The notes below the table: one line per problem. `lists_services` if a table of the Services follows.
pub fn notes(
    topology: &Topology,
    shape: TableShape,
    lists_services: bool,
    now: Timestamp,
) -> Vec<String> {
    let mut notes = silences(topology, shape.several, now);
    for edge in &topology.links {
        let link = &edge.link;
        let error = link
            .gateway
            .as_ref()
            .and_then(|gateway| gateway.error.as_ref());
        // The wide table has a column for it, and that of a gateway follows.
        let message = link.message.as_ref();
        let message = message.filter(|message| !shape.wide && error != Some(*message));
        let credentials = link.credentials_problems.iter().flatten().next();
        let drained = link.drained.as_ref();
        let said = [
            message.map(|message| topology.flags_of(edge).inserted(message)),
            dead_gateway(edge, now),
            link.unmirrored()
                .map(|count| unmirrored(count, edge, topology, lists_services)),
            credentials.cloned(),
            drained.map(|until| format!("drained {until}")),
        ];
        let about = about(edge, &topology.links, shape.several);
        notes.extend(
            said.into_iter()
                .flatten()
                .map(|said| format!("{about}{said}")),
        );
    }
    if shape.several {
        notes.extend(topology.notes());
    }
    notes
}

fn unmirrored(count: String, edge: &Edge, topology: &Topology, lists_services: bool) -> String {
    if lists_services {
        return count;
    }
    let list = topology
        .flags_of(edge)
        .mc("status --services --cluster-name {}", &[&edge.link.cluster]);
    format!("{count}; list them with {list}")
}

#[cfg(test)]
mod tests {
    use observe::clusters::{fixtures::silent, fixtures::snapshots};
    use serde_json::json;

    use super::*;
    use crate::cli::status::view::shape::tests::{NOW, one, plain, shape};

    fn now() -> Timestamp {
        NOW.parse().unwrap()
    }

    #[test]
    fn the_narrow_table_fits_eighty_columns_and_keeps_names() {
        let table = links(&one(), shape(false, false), now());
        let text = plain(&table, Some(80));
        insta::assert_snapshot!(text, @r"
        CLUSTER                         READY    GATEWAY  MIRRORED  FEDERATED  UNHEALTHY
        east                            True     alive        1200         12          0
        a-cluster-far-away-in-the-west  Unknown  dead            3          0          2
        new                             Unknown  unknown         0          0          0
        ");
        assert!(text.lines().all(|line| line.chars().count() <= 80));
        insta::assert_snapshot!(notes(&one(), shape(false, false), false, now()).join("\n"), @r"
        a-cluster-far-away-in-the-west: connection refused
        a-cluster-far-away-in-the-west: the gateway at 192.0.2.1 fails probes since 2026-01-01 00:00 UTC (4m30s ago); check its Pods and the firewall
        a-cluster-far-away-in-the-west: 2 of 5 Services are not mirrored; list them with `linkerd-mc --context here status --services --cluster-name a-cluster-far-away-in-the-west`
        ");
        let listed = notes(&one(), shape(false, false), true, now());
        assert!(!listed.join("").contains("linkerd-mc status"), "{listed:?}");
    }

    #[test]
    fn the_wide_table_has_all() {
        let table = links(&one(), shape(false, true), now());
        insta::assert_snapshot!(plain(&table, None), @r"
        CLUSTER                         LINK                                                 READY    CONNECTED  CREDENTIALS  GATEWAY  LATENCY  ADDRESSES            MIRRORED  FEDERATED  UNHEALTHY  CHANGED  MESSAGE
        east                            linkerd-multicluster/east                            True     True       valid        alive        3ms  192.0.2.1,192.0.2.2      1200         12          0  4m59s    -
        a-cluster-far-away-in-the-west  linkerd-multicluster/a-cluster-far-away-in-the-west  Unknown  False      valid        dead           -  192.0.2.1                   3          0          2  4m1s     connection refused
        new                             linkerd-multicluster/new                             Unknown  Unknown    unknown      unknown        -  192.0.2.1                   0          0          0  -        -
        ");
        let notes = notes(&one(), shape(false, true), false, now());
        assert!(!notes.join("").contains("connection refused"), "{notes:?}");
    }

    #[test]
    fn values_without_an_active_controller_are_marked_as_old() {
        let mut topology = one();
        topology.links[0].link.controller = Some(silent(NOW));
        let table = links(&topology, shape(false, false), now());
        let text = plain(&table, Some(80));
        insta::assert_snapshot!(text, @r"
        CLUSTER                  READY       GATEWAY      MIRRORED  FEDERATED  UNHEALTHY
        east                     True (old)  alive (old)      1200         12          0
        a-cluster-f…in-the-west  Unknown     dead                3          0          2
        new                      Unknown     unknown             0          0          0
        ");
        assert!(text.lines().all(|line| line.chars().count() <= 80));
        let notes = notes(&topology, shape(false, false), false, now());
        assert!(
            notes[0].starts_with("no controller is active: "),
            "{notes:?}"
        );
    }

    #[test]
    fn each_table_has_one_note_about_the_credentials_of_a_link() {
        let mut topology = Topology::of(&snapshots());
        topology.links.truncate(2);
        for edge in &mut topology.links {
            edge.link.unhealthy = 0;
        }
        let problems = ["the token expired", "and more"].map(str::to_owned);
        topology.links[0].link.credentials_problems = Some(problems.to_vec());
        topology.links[0].link.message = Some("Unauthorized".into());
        topology.links[1].link.credentials_problems = Some(vec![]);
        let notes = |several, wide| notes(&topology, shape(several, wide), false, now());
        let narrow = ["w: Unauthorized", "w: the token expired"];
        assert_eq!(notes(false, false), narrow);
        assert_eq!(notes(false, true), ["w: the token expired"]);
        assert_eq!(notes(true, true), ["east → w: the token expired"]);
    }

    #[test]
    fn services_that_are_not_mirrored_are_counted_by_reason() {
        let mut topology = Topology::of(&snapshots());
        topology.links.truncate(1);
        let link = &mut topology.links[0].link;
        (link.mirrored, link.federated, link.unhealthy) = (0, 0, 61);
        for (reasons, expected) in [
            (json!({}), "w: 61 of 61 Services are not mirrored; list"),
            (
                json!({"MissingNamespace": 61}),
                "w: 61 of 61 Services are not mirrored (MissingNamespace); list",
            ),
            (
                json!({"MissingNamespace": 1, "NameConflict": 60}),
                "w: 61 of 61 Services are not mirrored (60 NameConflict, 1 MissingNamespace); list",
            ),
        ] {
            topology.links[0].link.unhealthy_reasons = serde_json::from_value(reasons).unwrap();
            let notes = notes(&topology, shape(false, false), false, now());
            assert!(notes[0].starts_with(expected), "{notes:?}");
        }
    }

    #[test]
    fn a_fleet_shows_who_links_to_whom() {
        let topology = Topology::of(&snapshots());
        let table = links(&topology, shape(true, false), now());
        let text = plain(&table, Some(80));
        insta::assert_snapshot!(text, @r"
        SOURCE  CLUSTER  READY  CONNECTED  GATEWAY  MIRRORED  FEDERATED  UNHEALTHY
        east    w        True   True       alive          12          2          1
        west    east     True   True       alive          12          2          1
        west    n        True   True       alive          12          2          1
        north   moon     True   True       alive          12          2          1
        ");
        assert!(text.lines().all(|line| line.chars().count() <= 80));
        let notes = notes(&topology, shape(true, false), false, now());
        insta::assert_snapshot!(notes[4..].join("\n"), @r"
        west → north is one-way: north has no Link to west
        north and west have different trust anchors
        ");
    }
}
