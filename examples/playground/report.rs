//! The final output: the table on stdout, and what to try next.

use std::io::Write as _;

use anyhow::Context as _;
use comfy_table::{CellAlignment, Table, presets};

use crate::{controller::arguments, exports::Row, tools::Tools};

pub(crate) fn print(rows: &[Row]) -> anyhow::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "MIRROR IN WEST",
        "MODE",
        "PORTS",
        "ENDPOINTS",
        "MS",
    ]);
    for row in rows {
        let (ports, endpoints, took) = match &row.standing {
            Some((standing, took)) => (
                standing.ports.as_str(),
                standing.endpoints.as_str(),
                took.as_millis().to_string(),
            ),
            None => ("-", "MISSING", "-".to_owned()),
        };
        table.add_row([row.mirror, row.mode, ports, endpoints, &took]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    if let Some(milliseconds) = table.column_mut(4) {
        milliseconds.set_cell_alignment(CellAlignment::Right);
        milliseconds.set_padding((0, 0));
    }
    let lines: Vec<String> = table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{}", lines.join("\n")).context("failed to write to stdout")
}

/// The text that says how to explore the clusters.
pub(crate) fn guide(
    tools: &Tools,
    (controller, east): (u32, u32),
    gateway: &str,
    page: &str,
) -> String {
    let start = arguments(gateway).join(" ");
    let (kubeconfig, programs) = (tools.kubeconfig(), tools.programs());
    let (kubeconfig, programs, log) = (
        kubeconfig.display(),
        programs.display(),
        tools.controller_log(),
    );
    let log = log.display();
    format!(
        "
All of it stays up until Ctrl-C. This page shows it, live:

  {page}

To explore it, in another terminal:

  export KUBECONFIG={kubeconfig}
  export PATH={programs}:$PATH

  kubectl --context west -n shop get services,endpointslices
  kubectl --context west -n linkerd-multicluster get links
  linkerd-mc --context west status --services
  linkerd-mc --context west check
  linkerd-mc --context west diagnose shop/web-east --target east

See it follow, with `linkerd-mc --context west status --services --watch` aside:

  # export one more Service: web-north appears
  kubectl --context north -n shop label service web \\
    mirror.linkerd.io/exported=true
  # switch its mode, and its mirror keeps its address
  kubectl --context north -n shop label service web --overwrite \\
    mirror.linkerd.io/exported=remote-discovery
  # lose a Pod: db-1-east goes
  kubectl --context east -n shop delete pod db-1 --force
  # west's own Pods of cart fail, and it fails over;
  # with \"True\" it returns after a moment
  kubectl --context west -n shop patch pod cart-0 --subresource=status \\
    -p '{{\"status\":{{\"conditions\":[{{\"type\":\"Ready\",\"status\":\"False\"}}]}}}}'
  # export with a typo: status, check and plan ask what you meant
  kubectl --context north -n shop label service db \\
    mirror.linkerd.io/exported=ture
  # stop east's API server, and see what `status` says; -CONT starts it again
  kill -STOP {east}
  # stop the controller: the mirrors stay, and what is reported is old
  kill {controller}
  linkerd-mc --context west diagnose shop/web-east
  # and start another, in a terminal of its own
  linkerd-mc --context west {start}
  # unlink: all that came from east goes, and cart-federated spans two clusters
  kubectl --context west -n linkerd-multicluster delete link east

The contexts are west, east and north. The controller's log:

  tail -f {log}
"
    )
}
