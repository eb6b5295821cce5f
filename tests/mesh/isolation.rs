//! Runs the suite in its own namespaces: network, processes and mounts.
//!
//! This program starts itself again as the first process of a new process namespace. When that process ends, for
//! whatever reason, the kernel ends all others and removes networks and mounts. Several runs can go on at the same
//! time, and no packet leaves the machine, because the network namespace is not connected to anything.

use std::{
    env, fs,
    io::{self, Read as _},
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    thread,
};

use anyhow::{Context as _, ensure};
use control_plane::Assets;

use crate::rig::process::run;

/// Set in the inner process: the folder for logs.
const LOGS: &str = "LINKERD_MC_MESH_LOGS";
/// The folder with Linkerd's programs.
const LINKERD_BIN: &str = "LINKERD_BIN";
const LINKERD: [&str; 4] = [
    "linkerd",
    "controller",
    "linkerd-policy-controller",
    "linkerd2-proxy",
];
/// Programs that the rig uses, from the packages iproute2, nftables and util-linux.
const TOOLS: [&str; 7] = [
    "ip", "nft", "unshare", "nsenter", "setpriv", "mount", "sysctl",
];
/// A file system in memory is mounted here, over that of the machine, and only this run sees it.
const RUN: &str = "/run";
const HOME: &str = "/run/mesh";
const TEMPORARY: &str = "/run/mesh/tmp";

/// Folders of a run.
pub(crate) struct Place {
    /// Folder of programs that every user can run: Linkerd's, and this one as `mesh-helper`.
    pub(crate) programs: PathBuf,
    /// Folder for files of the rig; deleted when the run ends.
    pub(crate) home: PathBuf,
    /// Folder for logs; kept if a case fails.
    pub(crate) logs: PathBuf,
}

/// The result of [`enter`].
pub(crate) enum Outcome {
    /// This process is the inner one.
    Inside(Place),
    /// The inner process has ended.
    Ended(ExitCode),
    /// A requirement is missing.
    NotRun(String),
    /// The run could not start.
    Failed(anyhow::Error),
}

/// Enters the namespaces in a new process.
pub(crate) fn enter() -> Outcome {
    if let Some(logs) = env::var_os(LOGS) {
        return prepare(PathBuf::from(logs)).map_or_else(Outcome::Failed, Outcome::Inside);
    }
    if let Some(reason) = missing() {
        return Outcome::NotRun(reason);
    }
    start().map_or_else(Outcome::Failed, Outcome::Ended)
}

/// The missing requirement, if there is one.
fn missing() -> Option<String> {
    let Some(folder) = env::var_os(LINKERD_BIN).filter(|folder| !folder.is_empty()) else {
        return Some(format!(
            "{LINKERD_BIN} names no folder with {}",
            LINKERD.join(", ")
        ));
    };
    let folder = PathBuf::from(folder);
    if let Some(name) = LINKERD.iter().find(|name| !folder.join(name).is_file()) {
        return Some(format!(
            "{LINKERD_BIN} is {}, which has no {name}",
            folder.display()
        ));
    }
    let user = fs::metadata("/proc/self").map(|file| std::os::unix::fs::MetadataExt::uid(&file));
    if user.ok() != Some(0) {
        return Some("it needs root, for network namespaces".to_owned());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let found = |tool: &&&str| env::split_paths(&path).any(|folder| folder.join(tool).is_file());
    let tool = TOOLS.iter().find(|tool| !found(tool))?;
    Some(format!("there is no program {tool} here"))
}

/// Starts this program in the namespaces, and waits for it.
fn start() -> anyhow::Result<ExitCode> {
    // Building the control plane needs the network, which is not available inside.
    let programs = Assets::locate()?.program("");
    let logs = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mesh-{}", std::process::id()));
    fs::create_dir_all(&logs).context("failed to create the folder for logs")?;
    let folder = fs::canonicalize(env::var_os(LINKERD_BIN).unwrap_or_default())?;
    let mut inside = Command::new("unshare")
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child"])
        .arg("--mount-proc")
        .arg(env::current_exe()?)
        .args(env::args_os().skip(1))
        .env(LOGS, &logs)
        .env(LINKERD_BIN, folder)
        .env("KUBEBUILDER_ASSETS", programs)
        .env("TMPDIR", TEMPORARY)
        // Only this process has the writing end, so the inner process ends when this one does.
        .stdin(Stdio::piped())
        .spawn()
        .context("failed to start unshare")?;
    let tie = inside.stdin.take();
    let status = inside.wait().context("failed to wait for the run")?;
    drop(tie);
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    Ok(ExitCode::from(u8::try_from(code.unwrap_or(1)).unwrap_or(1)))
}

/// Prepares the folders and mounts, in the namespaces.
fn prepare(logs: PathBuf) -> anyhow::Result<Place> {
    ensure!(std::process::id() == 1, "{LOGS} is set outside of a run");
    end_with_parent(logs.clone());
    let resolver = fs::canonicalize("/etc/resolv.conf").ok();
    run("mount", &["-t", "tmpfs", "-o", "mode=755", "tmpfs", RUN])?;
    // The file that `/etc/resolv.conf` links to may be hidden by the mount.
    if let Some(file) = resolver.filter(|file| !file.exists()) {
        fs::create_dir_all(file.parent().unwrap_or_else(|| Path::new(RUN)))?;
        fs::write(file, "")?;
    }
    let home = PathBuf::from(HOME);
    let programs = home.join("bin");
    for folder in [Path::new(TEMPORARY), &programs] {
        fs::create_dir_all(folder).context("failed to create a folder")?;
    }
    let folder = PathBuf::from(env::var_os(LINKERD_BIN).unwrap_or_default());
    for name in LINKERD {
        lend(&folder.join(name), &programs.join(name))?;
    }
    lend(&env::current_exe()?, &programs.join(crate::helper::NAME))?;
    run("ip", &["link", "set", "lo", "up"])?;
    run("sysctl", &["-q", "-w", "net.ipv4.ip_forward=1"])?;
    Ok(Place {
        programs,
        home,
        logs,
    })
}

/// Makes a file available to every user, whoever may enter the folders above it.
fn lend(file: &Path, at: &Path) -> anyhow::Result<()> {
    fs::write(at, "").with_context(|| format!("failed to create {}", at.display()))?;
    let (file, at) = (file.display().to_string(), at.display().to_string());
    run("mount", &["--bind", &file, &at])
}

/// Ends this process, and with it the whole run, when the outer process has ended.
fn end_with_parent(logs: PathBuf) {
    thread::spawn(move || {
        let _ = io::stdin().lock().read(&mut [0]);
        stop(&logs);
    });
}

/// Ends the run, as Ctrl-C does.
#[expect(clippy::exit, reason = "the kernel cleans up after the first process")]
pub(crate) fn stop(logs: &Path) -> ! {
    let _ = fs::remove_dir_all(logs);
    std::process::exit(130)
}
