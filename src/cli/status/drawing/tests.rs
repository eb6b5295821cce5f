//! Tests of the drawings.

use dialoguer::console::measure_text_width;
use mirror_core::mirror::FederatedThrough;
use observe::clusters::{
    fixtures::silence,
    fixtures::snapshots,
    link_summary::ApiServerThrough,
    topology::{ClusterNode, Topology},
};

use super::{
    diagram::{dot, mermaid},
    tree::text,
};

fn drawn() -> Topology {
    let mut topology = Topology::of(&snapshots());
    topology.links[1].link.connected = Some(false);
    topology.links[2].link.gateway = None;
    topology.links[3].link.api_server_through = ApiServerThrough::Gateway;
    topology.links[3].link.gateway.as_mut().unwrap().alive = None;
    topology.links[0].link.federated_through = Some(FederatedThrough::Gateway);
    topology
}

#[test]
fn the_text_is_a_tree_for_each_cluster() {
    let text = anstream::adapter::strip_str(&text(&drawn(), true, Some(80))).to_string();
    insta::assert_snapshot!(text, @r"
    east
    └─▶ west as w   connected, gateway 3ms, 12 mirrored, 2 federated through the ga…
    west
    ├─▶ east        not connected, gateway 3ms, 12 mirrored, 2 federated, 1 unhealt…
    └─▶ north as n  connected, 12 mirrored, 2 federated, 1 unhealthy
    north
    └─▶ moon        connected through the gateway, gateway unknown, 12 mirrored, 2 …
    south  cannot list Links: no answer

    west → north is one-way: north has no Link to west
    north and west have different trust anchors
    ");
    assert!(text.lines().all(|line| measure_text_width(line) <= 80));
}

#[test]
fn a_link_is_coloured_by_its_health() {
    let mut old = drawn();
    silence(&mut old.links[2].link, "2026-11-21T12:00:00Z");
    let text = text(&old, true, None);
    assert!(text.contains("  old, connected, "), "{text:?}");
    assert!(
        text.contains("\nwest: no controller is active: "),
        "{text:?}"
    );
    for (color, target) in [
        (32, "west as w"),
        (31, "east"),
        (33, "north as n"),
        (33, "moon"),
    ] {
        assert!(
            text.contains(&format!("▶ \u{1b}[{color}m{target}\u{1b}[0m")),
            "{text:?}"
        );
    }
}

#[test]
fn mermaid_and_graphviz_draw_the_same() {
    insta::assert_snapshot!(mermaid(&drawn()), @r#"
    flowchart LR
      c0["east"]
      c1["west"]
      c2["north"]
      c3["south (unreachable)"]
      c4("moon")
      c0 -->|"connected<br/>gateway 3ms<br/>12 mirrored<br/>2 federated through the gateway<br/>1 unhealthy"| c1
      c1 -.->|"not connected<br/>gateway 3ms<br/>12 mirrored<br/>2 federated<br/>1 unhealthy"| c0
      c1 -->|"connected<br/>12 mirrored<br/>2 federated<br/>1 unhealthy<br/>one-way<br/>different trust anchors"| c2
      c2 -->|"connected through the gateway<br/>gateway unknown<br/>12 mirrored<br/>2 federated<br/>1 unhealthy"| c4
    "#);
    insta::assert_snapshot!(dot(&drawn()), @r#"
    digraph clusters {
      rankdir=LR;
      node [shape=box];
      c0 [label="east", style=solid];
      c1 [label="west", style=solid];
      c2 [label="north", style=solid];
      c3 [label="south", style=dashed];
      c4 [label="moon", style=dashed];
      c0 -> c1 [label="connected\ngateway 3ms\n12 mirrored\n2 federated through the gateway\n1 unhealthy", color=darkgreen, style=solid];
      c1 -> c0 [label="not connected\ngateway 3ms\n12 mirrored\n2 federated\n1 unhealthy", color=red, style=dashed];
      c1 -> c2 [label="connected\n12 mirrored\n2 federated\n1 unhealthy\none-way\ndifferent trust anchors", color=darkgreen, style=solid];
      c2 -> c4 [label="connected through the gateway\ngateway unknown\n12 mirrored\n2 federated\n1 unhealthy", color=orange, style=solid];
    }
    "#);
}

#[test]
fn hostile_names_are_escaped() {
    let mut topology = drawn();
    let name = "x\"]\n  click \u{1b}[2J";
    topology.clusters.push(ClusterNode {
        name: name.into(),
        ..ClusterNode::default()
    });
    topology.links[3].target = name.into();
    assert!(
        mermaid(&topology).contains("  c5(\"x#quot;]"),
        "{}",
        mermaid(&topology)
    );
    assert!(
        dot(&topology).contains("c5 [label=\"x\\\"]"),
        "{}",
        dot(&topology)
    );
    let text = text(&topology, true, None);
    for drawing in [mermaid(&topology), dot(&topology), text] {
        assert!(!drawing.contains("\u{1b}[2J"));
        assert!(!drawing.contains("\n  click"), "{drawing}");
    }
}

#[test]
fn missing_links_and_those_that_a_file_does_not_have_are_shown() {
    let mut topology = drawn();
    let wanted = [("west", "east"), ("west", "n"), ("north", "west")];
    let wanted = wanted.map(|(source, target)| (source.to_owned(), target.to_owned()));
    let namespace = topology.links[0].link.namespace.clone();
    topology.compare(&wanted.into(), &namespace);
    let text = text(&topology, true, None);
    let text = anstream::adapter::strip_str(&text).to_string();
    for line in [
        "└─▶ west as w   connected, gateway 3ms, 12 mirrored, 2 federated through the gateway, 1 unhealthy, not in the file\n",
        "├─▶ east        not connected, gateway 3ms, 12 mirrored, 2 federated, 1 unhealthy\n",
        "└─▶ west        missing\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    // The file wants no Link back.
    assert!(!text.contains("is one-way"), "{text}");
    assert!(mermaid(&topology).ends_with("  c2 -.->|\"missing\"| c1\n"));
    let end = "  c2 -> c1 [label=\"missing\", color=red, style=dotted];\n}\n";
    assert!(dot(&topology).ends_with(end), "{}", dot(&topology));
}
