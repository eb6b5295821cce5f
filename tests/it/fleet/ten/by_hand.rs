//! Makes the same 90 links with the loop in docs/fleet.md.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use super::{LINKS, OBJECTS, say};
use crate::fleet::many::Planes;

/// The shell blocks under "By hand", without those with the mark `no-run`.
fn blocks() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/fleet.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, by_hand) = page.split_once("\n## By hand\n").unwrap();
    let (by_hand, _) = by_hand.split_once("\n## ").unwrap();
    let blocks = by_hand.split("```sh\n").skip(1);
    blocks
        .map(|block| block.split_once("```").unwrap().0.to_owned())
        .collect()
}

/// Runs the loops with all clusters, and says how long they took.
pub(super) async fn the_loop_takes(planes: &mut Planes, names: &[String]) {
    let blocks = blocks();
    let [accounts, links] = &blocks[..] else {
        panic!("{blocks:?}");
    };
    let clusters = "clusters=\"east west\"";
    assert!(accounts.contains(clusters), "{accounts}");
    let ours = format!("clusters=\"{}\"", names.join(" "));
    let accounts = accounts.replace(clusters, &ours);
    let bin = planes.folder.path().join("bin");
    fs::create_dir(&bin).unwrap();
    symlink(env!("CARGO_BIN_EXE_linkerd-mc"), bin.join("linkerd-mc")).unwrap();
    symlink(planes.all[0].kubectl_program(), bin.join("kubectl")).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    planes.counted();
    let started = Instant::now();
    let output = Command::new("bash")
        .args([
            "-eu",
            "-o",
            "pipefail",
            "-c",
            &format!("{accounts}\n{links}"),
        ])
        .env("PATH", format!("{}:{path}", bin.display()))
        .env("HOME", planes.folder.path())
        .env("KUBECONFIG", &planes.kubeconfig)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let took = started.elapsed();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let writes = planes.counted();
    say(
        "the loop of docs/fleet.md, from nothing to 90 ready Links",
        took,
        writes,
    );
    planes.ready(names).await;
    // An account of four objects, two Secrets and a Link, as `fleet apply` makes them.
    assert!(writes >= LINKS * OBJECTS, "{writes}");
}
