//! A fleet of fifty clusters that all link to each other: how long `fleet plan` and `status --file` take, and how much
//! memory they use. There are only four control planes. Each seems to be a dozen clusters. `just fleet` runs this
//! test.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use control_plane::{Interceptor, Verdict, eventually};
use futures::future::join_all;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::many::{Planes, is_ready, names};
use crate::support::links::links;

const COUNT: usize = 50;
const PLANES: usize = 4;
const LINKS: usize = COUNT * (COUNT - 1);
/// How long `fleet plan` and `status --file` may take.
const LIMIT: Duration = Duration::from_secs(10);
/// How long the controllers may take until all Links are ready.
const LINKED: Duration = Duration::from_secs(300);
/// How many files each command may have open: fewer than the default of any system.
const OPEN_FILES: usize = 256;
/// How often to look at the memory of a process.
const LOOK: Duration = Duration::from_millis(5);

/// One run of the program.
struct Measured {
    code: i32,
    stdout: String,
    stderr: String,
    took: Duration,
    /// Peak of resident memory, in KiB.
    peak: u64,
    /// How often plugins of the kubeconfig ran.
    runs: usize,
}

/// The peak of a process' resident memory, in KiB.
fn peak_of(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The CPU time of a process. Linux counts it in hundredths of a second.
fn cpu_of(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some(Duration::from_millis(10 * (ticks()? + ticks()?)))
}

/// Runs a command and measures it.
fn measured(planes: &Planes, kubeconfig: &Path, args: &[&str]) -> Measured {
    let path = |name: &str| planes.folder.path().join(name);
    let to = |name: &str| File::create(path(name)).unwrap();
    let runs = || fs::read_to_string(path("runs")).map_or(0, |runs| runs.lines().count());
    let (runs_before, started) = (runs(), Instant::now());
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(format!("ulimit -n {OPEN_FILES}; exec \"$0\" \"$@\""))
        .arg(env!("CARGO_BIN_EXE_linkerd-mc"))
        .args(args)
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .stdout(to("stdout"))
        .stderr(to("stderr"))
        .spawn()
        .unwrap();
    let (mut peak, mut cpu, mut open) = (0, Duration::ZERO, 0);
    let status = loop {
        // Read before the check whether the process has ended: afterwards, the values cannot be read any more.
        peak = peak_of(child.id()).unwrap_or(peak);
        cpu = cpu_of(child.id()).unwrap_or(cpu);
        open =
            open.max(fs::read_dir(format!("/proc/{}/fd", child.id())).map_or(0, Iterator::count));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(LOOK);
    };
    let took = started.elapsed();
    let read = |name: &str| fs::read_to_string(path(name)).unwrap();
    let measured = Measured {
        code: status.code().unwrap(),
        stdout: read("stdout"),
        stderr: read("stderr"),
        took,
        peak,
        runs: runs() - runs_before,
    };
    eprintln!(
        "fleet of {COUNT}: fleet {}: {:.2} s, {:.2} s of CPU, at most {} MiB and {open} open files, plugins ran {} times, exit code {}",
        args[0],
        took.as_secs_f64(),
        cpu.as_secs_f64(),
        peak / 1024,
        measured.runs,
        measured.code
    );
    // A plugin runs once for all clusters of a user.
    assert!(measured.runs <= PLANES, "{}", measured.runs);
    measured
}

/// A user with a plugin that prints the credentials of this one.
fn with_plugin(planes: &Planes, number: usize, user: &Value) -> Value {
    let pem = |field: &str| {
        let decoded = BASE64_STANDARD.decode(user[field].as_str()?).unwrap();
        Some(String::from_utf8(decoded).unwrap())
    };
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": {
            "token": user["token"],
            "clientCertificateData": pem("client-certificate-data"),
            "clientKeyData": pem("client-key-data"),
        },
    });
    let folder = planes.folder.path();
    let file = folder.join(format!("credential-{number}"));
    fs::write(&file, credential.to_string()).unwrap();
    let script = format!(
        "echo >> {}; cat {}",
        folder.join("runs").display(),
        file.display()
    );
    json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
        "command": "sh", "args": ["-c", script],
    } })
}

/// For each cluster, an API server that seems to be another one than that of its control plane: it has a namespace
/// kube-system of its own. All clients are administrators.
fn fronts(planes: &Planes, clusters: &[String]) -> Vec<Interceptor> {
    let of_planes = planes.all.iter().cycle();
    let fronts = clusters.iter().zip(of_planes).map(|(cluster, plane)| {
        let front = plane
            .intercept(Some(("admin", &["system:masters"])))
            .unwrap();
        let system = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": "kube-system", "uid": cluster },
        });
        front.judge(move |asked| match asked.uri.path() {
            "/api/v1/namespaces/kube-system" => {
                let kind = ("content-type", "application/json".to_owned());
                Verdict::Answer(200, vec![kind], system.to_string())
            }
            _ => Verdict::Forward,
        });
        front
    });
    fronts.collect()
}

/// A kubeconfig in which each cluster has entries of its own, which lead to one of the control planes.
fn kubeconfig(planes: &Planes, clusters: &[String], fronts: &[Interceptor]) -> PathBuf {
    let read = fs::read_to_string(&planes.kubeconfig).unwrap();
    let of_planes: Value = serde_saphyr::from_str(&read).unwrap();
    let mut all = json!({ "apiVersion": "v1", "kind": "Config" });
    for (key, of) in [
        ("clusters", "cluster"),
        ("users", "user"),
        ("contexts", "context"),
    ] {
        let entries = of_planes[key]
            .as_array()
            .unwrap()
            .iter()
            .enumerate()
            .cycle();
        let entries = clusters.iter().zip(fronts).zip(entries);
        let entries = entries.map(|((name, front), (number, entry))| {
            let mut content = match of {
                "context" => json!({ "cluster": name, "user": name }),
                "user" => with_plugin(planes, number, &entry[of]),
                _ => entry[of].clone(),
            };
            if of == "cluster" {
                content["server"] = json!(front.url());
            }
            json!({ "name": name, of: content })
        });
        all[key] = entries.collect();
    }
    let path = planes.folder.path().join("fifty.kubeconfig");
    fs::write(&path, all.to_string()).unwrap();
    path
}

/// Links that give each control plane one Link to each cluster. A control plane has the names of several clusters, and
/// a Link has the name of its target cluster. So these are only the Links of its first cluster, and the Link of its
/// second cluster to the first one.
fn enough(clusters: &[String]) -> String {
    let (first, rest) = clusters.split_at(PLANES);
    let links = first.iter().zip(rest).flat_map(|(source, second)| {
        let others = clusters.iter().filter(move |target| *target != source);
        let pairs = others.map(move |target| (source, target));
        pairs.chain([(second, source)])
    });
    let links = links.map(|(source, target)| format!("{{source: {source}, target: {target}}}"));
    format!("[{}]", links.collect::<Vec<_>>().join(", "))
}

/// Waits until the Links of all clusters are ready.
async fn ready(planes: &Planes) {
    let waits = planes.all.iter().map(|plane| async move {
        let waited = eventually("all Links to be ready", LINKED, async || {
            let found = links(plane).list(&ListParams::default()).await?.items;
            let ready = found.iter().filter(|link| is_ready(link)).count();
            anyhow::ensure!(ready == COUNT, "{ready} of {} are ready", found.len());
            Ok(Some(()))
        });
        waited.await.unwrap();
    });
    join_all(waits).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "on demand: just fleet"]
async fn fifty_clusters_are_planned_and_shown_in_seconds_and_linked_in_minutes() {
    let planes = Planes::start(&names("fifty", PLANES)).await;
    let clusters: Vec<String> = (0..COUNT).map(|n| format!("c-{n:02}")).collect();
    let fronts = fronts(&planes, &clusters);
    let kubeconfig = kubeconfig(&planes, &clusters, &fronts);
    let file = planes.file("fleet.yaml", &clusters, "[{mesh: all}]");
    let file = file.to_str().unwrap();
    let run = |args: &[&str]| measured(&planes, &kubeconfig, &[args, &["--file", file]].concat());

    let schema = measured(&planes, &kubeconfig, &["fleet", "schema"]);
    assert_eq!(schema.code, 0, "{}", schema.stderr);
    let plan = run(&["fleet", "plan"]);
    assert_eq!(plan.code, 2, "{}", plan.stderr);
    let all = format!("\n{} to create, 0 to change, 0 to delete.\n", LINKS * 7);
    assert!(plan.stdout.ends_with(&all), "{}", plan.stdout);
    let missing = run(&["status"]);
    assert_eq!(missing.code, 1, "{}", missing.stderr);
    assert!(
        missing.stdout.contains("2450 missing"),
        "{}",
        missing.stdout
    );

    let some = planes.file("some.yaml", &clusters, &enough(&clusters));
    let some = some.to_str().unwrap();
    let apply = ["fleet", "apply", "--yes", "--wait=0s", "--file", some];
    let applied = measured(&planes, &kubeconfig, &apply);
    assert_eq!(applied.code, 0, "{}{}", applied.stdout, applied.stderr);
    ready(&planes).await;
    let linked = run(&["fleet", "plan"]);
    // Most links are missing. What other clusters of the same control plane have looks as if it had left the file; without
    // `--prune` it stays, and is no problem.
    assert_eq!(linked.code, 2, "{}", linked.stderr);
    eprintln!("{}", linked.stdout.lines().last().unwrap_or_default());
    let rotate = ["rotate", "--dry-run", "--no-restart", "--file", some];
    let rotated = measured(&planes, &kubeconfig, &rotate);
    assert_eq!(rotated.code, 0, "{}{}", rotated.stdout, rotated.stderr);
    let status = run(&["status"]);
    assert_eq!(status.code, 0, "{}", status.stdout);
    assert!(
        status.stdout.contains("2450 links: 2450 ready (+)"),
        "{}",
        status.stdout
    );
    let lines = status.stdout.lines().count();
    assert!(lines <= COUNT + 6, "{lines} lines");

    for command in [plan, missing, linked, status] {
        // A program that is not optimised takes ten times as long.
        let is_optimised = !cfg!(debug_assertions);
        assert!(command.took <= LIMIT || !is_optimised, "{:?}", command.took);
        assert!(command.peak <= 256 * 1024, "{} KiB", command.peak);
    }
}
