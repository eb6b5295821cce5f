//! The table of Links, and the notes below it. Pure.

use jiff::Timestamp;
use observe::{
    clusters::{
        link_summary::{GatewaySummary, LinkSummary},
        topology::{Edge, Topology},
    },
    finding::Finding,
};

use super::shape::TableShape;
use crate::cli::common::{
    problems::{self, called},
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
    let columns: [(bool, Column, ToCell); 15] = [
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
pub fn notes(topology: &Topology, shape: TableShape, lists_services: bool) -> Vec<String> {
    let is_wanted = |edge: &Edge, finding: &Finding| {
        let is_listed = || edge.link.unmirrored().as_ref() == Some(&finding.evidence);
        !(lists_services && is_listed())
    };
    let mut notes = problems::notes(topology, shape.several, is_wanted);
    if shape.several {
        notes.extend(topology.notes());
    }
    notes
}

#[cfg(test)]
mod tests {
    use observe::clusters::fixtures::{silence, snapshots};

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
        (too narrow for CONNECTED, CHANGED, LATENCY)
        ");
        assert!(text.lines().all(|line| line.chars().count() <= 80));
        insta::assert_snapshot!(notes(&one(), shape(false, false), false).join("\n"), @r"
        a-cluster-far-away-in-the-west: connection refused
        a-cluster-far-away-in-the-west: the gateway at 192.0.2.1 fails probes since 2026-01-01 00:00:30 UTC; check its Pods and the firewall
        a-cluster-far-away-in-the-west: 2 of 5 Services are not mirrored: run `linkerd-mc --context here status --services --cluster-name a-cluster-far-away-in-the-west`
        ");
        let listed = notes(&one(), shape(false, false), true);
        assert!(!listed.join("").contains("linkerd-mc status"), "{listed:?}");
    }

    #[test]
    fn the_wide_table_has_all() {
        let table = links(&one(), shape(false, true), now());
        insta::assert_snapshot!(plain(&table, None), @r"
        CLUSTER                         LINK                                                 READY    CONNECTED  CREDENTIALS  GATEWAY  LATENCY  ADDRESSES            MIRRORED  FEDERATED  UNHEALTHY  CHANGED
        east                            linkerd-multicluster/east                            True     True       valid        alive        3ms  192.0.2.1,192.0.2.2      1200         12          0  4m59s
        a-cluster-far-away-in-the-west  linkerd-multicluster/a-cluster-far-away-in-the-west  Unknown  False      valid        dead           -  192.0.2.1                   3          0          2  4m1s
        new                             linkerd-multicluster/new                             Unknown  Unknown    unknown      unknown        -  192.0.2.1                   0          0          0  -
        ");
    }

    #[test]
    fn values_without_an_active_controller_are_marked_as_old() {
        let mut topology = one();
        silence(&mut topology.links[0].link, NOW);
        let table = links(&topology, shape(false, false), now());
        let text = plain(&table, Some(80));
        insta::assert_snapshot!(text, @r"
        CLUSTER                  READY       GATEWAY      MIRRORED  FEDERATED  UNHEALTHY
        east                     True (old)  alive (old)      1200         12          0
        a-cluster-f…in-the-west  Unknown     dead                3          0          2
        new                      Unknown     unknown             0          0          0
        (too narrow for CONNECTED, CHANGED, LATENCY)
        ");
        assert!(text.lines().all(|line| line.chars().count() <= 80));
        let notes = notes(&topology, shape(false, false), false);
        assert!(
            notes[0].starts_with("no controller is active: "),
            "{notes:?}"
        );
    }

    #[test]
    fn what_another_finding_explains_has_no_note() {
        let mut topology = Topology::of(&snapshots());
        topology.links.truncate(1);
        topology.links[0].link.findings =
            vec!["the token expired".into(), Finding::consequence("and more")];
        let notes = |several| notes(&topology, shape(several, false), false);
        assert_eq!(notes(false), ["w: the token expired"]);
        assert_eq!(notes(true), ["east → w: the token expired"]);
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
        let notes = notes(&topology, shape(true, false), false);
        insta::assert_snapshot!(notes[4..].join("\n"), @r"
        west → north is one-way: north has no Link to west
        north and west have different trust anchors
        ");
    }
}
