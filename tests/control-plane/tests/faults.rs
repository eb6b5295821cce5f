//! What happens when the servers of a control plane end, or the process that started them.

use std::env;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use control_plane::{ControlPlane, Pids, eventually};
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(30);
const HOLDER: &str = "CONTROL_PLANE_TEST_HOLDER";
const REPORT: &str = "started: ";

fn is_alive(pid: u32) -> bool {
    // A zombie, which has ended and waits for its parent, does not run.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .starts_with(" Z")
    })
}

async fn all_gone(pids: Pids, folder: &Path) -> anyhow::Result<()> {
    eventually("all servers to be gone", LIMIT, async || {
        let alive = [pids.etcd, pids.api_server, pids.controller_manager]
            .into_iter()
            .any(is_alive);
        Ok((!alive && !folder.exists()).then_some(()))
    })
    .await
}

#[tokio::test]
async fn servers_that_broke_come_back_with_their_data() -> anyhow::Result<()> {
    let plane = ControlPlane::start("breaking").await?;
    plane.kubectl(&["create", "namespace", "lasting"]).await?;
    let before = plane.pids();
    let noted = plane.audit_mark()?;

    plane.kill_api_server()?;
    assert!(
        !is_alive(before.api_server)
            && is_alive(before.etcd)
            && is_alive(before.controller_manager)
    );
    assert!(plane.client().apiserver_version().await.is_err());

    plane.restart_api_server().await?;
    plane.kubectl(&["get", "namespace", "lasting"]).await?;
    assert_ne!(plane.pids().api_server, before.api_server);
    assert_ne!(plane.audit_since(noted)?, []);

    let backup = plane.back_up().await?;
    plane.kubectl(&["create", "namespace", "later"]).await?;
    plane
        .kubectl(&["delete", "namespace", "lasting", "--wait=false"])
        .await?;
    plane.restore(&backup).await?;
    let namespaces = plane.kubectl(&["get", "namespaces"]).await?;
    assert!(
        namespaces.contains("lasting") && !namespaces.contains("later"),
        "{namespaces}"
    );
    plane.kubectl(&["create", "namespace", "new"]).await?;

    plane.pause_api_server()?;
    let client = plane.client();
    assert!(
        timeout(Duration::from_millis(300), client.apiserver_version())
            .await
            .is_err()
    );
    plane.resume_api_server()?;
    timeout(LIMIT, client.apiserver_version()).await??;

    let (pids, folder) = (plane.pids(), plane.folder().to_owned());
    plane.pause_api_server()?;
    plane.stop();
    all_gone(pids, &folder).await
}

#[tokio::test]
async fn nothing_outlives_a_killed_process() -> anyhow::Result<()> {
    let mut holder = Command::new(env::current_exe()?)
        .args(["--exact", "faults::holds_a_control_plane", "--nocapture"])
        .env(HOLDER, "1")
        .stdout(Stdio::piped())
        .spawn()?;
    let output = BufReader::new(holder.stdout.take().context("no output")?);
    let report = tokio::task::spawn_blocking(|| {
        let report = output
            .lines()
            .map_while(Result::ok)
            .find_map(|line| Some(line.split_once(REPORT)?.1.to_owned()));
        report.context("the other process started no control plane")
    });
    let report = report.await?;
    holder.kill()?;
    holder.wait()?;

    let report = report?;
    let mut words = report.split(' ');
    let mut pid = || words.next().unwrap_or_default().parse::<u32>();
    let pids = Pids {
        etcd: pid()?,
        api_server: pid()?,
        controller_manager: pid()?,
    };
    let folder = words.next().context("no folder")?;
    all_gone(pids, Path::new(folder)).await
}

/// No test of its own: what [`nothing_outlives_a_killed_process`] starts and kills.
#[tokio::test]
async fn holds_a_control_plane() -> anyhow::Result<()> {
    if env::var_os(HOLDER).is_none() {
        return Ok(());
    }
    let plane = ControlPlane::start("held").await?;
    let Pids {
        etcd,
        api_server,
        controller_manager,
    } = plane.pids();
    assert!(
        [etcd, api_server, controller_manager]
            .into_iter()
            .all(is_alive)
            && plane.folder().exists()
    );
    println!(
        "{REPORT}{etcd} {api_server} {controller_manager} {}",
        plane.folder().display()
    );
    std::future::pending().await
}
