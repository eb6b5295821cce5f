//! `fleet`: many links from one file, on real control planes.

mod again;
mod apart;
mod fifty;
mod gitops;
mod hub;
mod identity;
mod keep;
mod many;
mod namesakes;
mod only;
mod own_namespace;
mod ten;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use control_plane::{ControlPlane, Lent};
use k8s_openapi::api::{
    core::v1::{Secret, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{Api, Resource, ResourceExt as _, api::ListParams};
use linkerd_mc::api::{labels::FLEET, link::Link};
use serde_json::Value;

use crate::support::{
    audit::{mark, requests},
    controller::Controller,
    installation::{NAMESPACE, link},
    objects::{export, gone, namespace, service, web},
    planes::installed,
    program::{Outcome, run},
};

/// How often the writes of a command are counted.
const LOOK: Duration = Duration::from_millis(10);

/// Three control planes with an installation each, and a folder for files.
struct Fleet {
    planes: [Lent; 3],
    marks: [u64; 3],
    folder: tempfile::TempDir,
    kubeconfig: PathBuf,
}

impl Fleet {
    async fn start(name: &str) -> Self {
        let names = ["east", "north", "west"].map(|plane| format!("{name}-{plane}"));
        let (east, north, west) = tokio::join!(
            installed(&names[0], "192.0.2.10"),
            installed(&names[1], "192.0.2.30"),
            installed(&names[2], "192.0.2.20")
        );
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        ControlPlane::merged_kubeconfig(&[&east, &north, &west], &kubeconfig).unwrap();
        let planes = [east, north, west];
        let marks = planes.each_ref().map(|plane| mark(plane));
        Self {
            planes,
            marks,
            folder,
            kubeconfig,
        }
    }

    /// Writes a fleet file with these clusters and links. The name of each cluster is that of its context.
    fn file(&self, clusters: &[&str], links: &str) -> PathBuf {
        let clusters = clusters
            .iter()
            .map(|cluster| format!("- name: {cluster}\n"));
        let clusters: String = clusters.collect();
        let file = self.folder.path().join("fleet.yaml");
        fs::write(
            &file,
            format!("name: f\nid: t\nclusters:\n{clusters}{links}"),
        )
        .unwrap();
        file
    }

    fn run(&self, command: &str, file: &Path, flags: &[&str]) -> Outcome {
        run_fleet(&self.kubeconfig, command, file, flags)
    }

    /// The exit code and the messages of a command whose output nobody reads.
    fn unread(&self, command: &str, file: &Path, flags: &[&str]) -> (Option<i32>, String) {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(env!("CARGO_BIN_EXE_linkerd-mc"))
            .env("KUBECONFIG", &self.kubeconfig)
            .args(words(command, file))
            .args(flags)
            .stdin(Stdio::null())
            .stdout(writer)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), said)
    }

    /// Runs a command, and kills it as soon as it has made this number of writes.
    async fn killed(&mut self, command: &str, flags: &[&str], file: &Path, after: usize) {
        self.writes();
        let mut child = spawn_fleet(&self.kubeconfig, command, file, flags);
        let mut written = 0;
        while written < after {
            let ended = child.try_wait().unwrap();
            assert!(
                ended.is_none(),
                "{command} has ended after {written} writes"
            );
            tokio::time::sleep(LOOK).await;
            written += self.writes().len();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// What the program has written since the last call, as `cluster verb resource/name`.
    fn writes(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        for (plane, mark_of) in self.planes.iter().zip(&mut self.marks) {
            let since = plane.audit_next(mark_of).unwrap();
            let own = since.iter().filter(|event| {
                event.is_write()
                    && event.user_agent.starts_with("linkerd-mc/")
                    && event.user == "kubernetes-admin"
            });
            said.extend(own.map(|event| {
                format!(
                    "{} {} {}/{}",
                    plane.name(),
                    event.verb,
                    event.resource,
                    event.name
                )
            }));
        }
        said
    }
}

/// The words of a command with the file of a fleet. Commands that can also do without one do not belong to `fleet`.
fn words<'w>(command: &'w str, file: &'w Path) -> Vec<&'w str> {
    let is_of_fleet = !["drain", "install", "rotate", "status"].contains(&command);
    let fleet = is_of_fleet.then_some("fleet");
    let words = [command, "--file", file.to_str().unwrap()];
    fleet.into_iter().chain(words).collect()
}

/// Runs a command with the file of a fleet.
fn run_fleet(kubeconfig: &Path, command: &str, file: &Path, flags: &[&str]) -> Outcome {
    run(kubeconfig, &[&words(command, file)[..], flags].concat())
}

/// Starts a command with the file of a fleet without a terminal, and discards its output.
fn spawn_fleet(kubeconfig: &Path, command: &str, file: &Path, flags: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_linkerd-mc"))
        .env("KUBECONFIG", kubeconfig)
        .args(words(command, file))
        .args(flags)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The objects in a cluster that have the label of the fleet, as `kind/name`.
async fn made(plane: &ControlPlane) -> BTreeSet<String> {
    async fn of<K>(api: Api<K>) -> Vec<String>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let found = api
            .list(&ListParams::default().labels(&format!("{FLEET}=f.t")))
            .await;
        let found = found.unwrap().items.into_iter();
        found
            .map(|object| format!("{}/{}", K::kind(&()), object.name_any()))
            .collect()
    }
    let client = || plane.client();
    let all = [
        of::<Link>(Api::all(client())).await,
        of::<Secret>(Api::all(client())).await,
        of::<ServiceAccount>(Api::all(client())).await,
        of::<ClusterRole>(Api::all(client())).await,
        of::<ClusterRoleBinding>(Api::all(client())).await,
    ];
    all.concat().into_iter().collect()
}

/// The objects in a cluster that is linked to these others in both directions.
fn linked_to(others: &[&str]) -> BTreeSet<String> {
    let of = |other: &&str| {
        [
            format!("Link/{other}"),
            format!("Secret/cluster-credentials-{other}"),
            format!("ServiceAccount/{other}"),
            format!("Secret/{other}-bound"),
            format!("ClusterRole/{other}"),
            format!("ClusterRoleBinding/{other}"),
        ]
    };
    others.iter().flat_map(of).collect()
}

/// The UID and generation of a Link.
async fn version(plane: &ControlPlane, name: &str) -> (Option<String>, Option<i64>) {
    let link = Api::<Link>::namespaced(plane.client(), NAMESPACE)
        .get(name)
        .await
        .unwrap();
    (link.uid(), link.metadata.generation)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn apply_does_what_is_missing_and_takes_back_what_leaves_the_file() {
    let mut fleet = Fleet::start("apply").await;
    let [east, north, west] = fleet.planes.clone();
    let names = ["apply-east", "apply-north", "apply-west"];
    let _controllers = [&east, &north, &west].map(|plane| Controller::start(plane, &[]));
    namespace("fleet", &[&east, &north, &west]).await;
    export(&north, "fleet", &web("web", "true")).await;
    // A link that somebody else has made, and that is not in the file.
    link(&west, &north, "stranger", &[]).await;
    let stranger = version(&west, "stranger").await;
    fleet.writes();

    // One cluster does not answer: the others are linked.
    let mesh = fleet.file(&names, "links:\n- mesh: all\n");
    north.pause_api_server().unwrap();
    let applied = fleet.run("apply", &mesh, &["--request-timeout", "5s"]);
    north.resume_api_server().unwrap();
    assert_eq!(applied.code, 1, "{}{}", applied.stdout, applied.stderr);
    assert!(
        applied.stdout.contains("apply-north\n  ‼ not read: "),
        "{}",
        applied.stdout
    );
    assert!(
        !applied.stderr.contains("is not ready"),
        "{}",
        applied.stderr
    );
    assert_eq!(made(&east).await, linked_to(&["apply-west"]));
    assert_eq!(made(&west).await, linked_to(&["apply-east"]));

    let applied = fleet.run("apply", &mesh, &[]);
    assert_eq!(applied.code, 0, "{}{}", applied.stdout, applied.stderr);
    for (plane, others) in [
        (&east, [names[1], names[2]]),
        (&north, [names[0], names[2]]),
        (&west, [names[0], names[1]]),
    ] {
        assert_eq!(made(plane).await, linked_to(&others), "{}", plane.name());
    }
    service(&west, "fleet", "web-apply-north", |_| true).await;
    fleet.writes();

    // Of ClusterRoles and bindings, only those of the fleet are listed.
    let since = mark(&west);
    fleet.run("plan", &mesh, &[]);
    let requests = requests(&west, since);
    let lists = requests.iter().filter(|event| {
        event.user_agent.starts_with("linkerd-mc/")
            && event.verb == "list"
            && event.resource.starts_with("clusterrole")
    });
    let lists: Vec<&str> = lists.map(|event| event.uri.as_str()).collect();
    let own = "?&labelSelector=multicluster.linkerd.io%2Ffleet%3Df";
    assert!(
        lists.len() == 2 && lists.iter().all(|uri| uri.contains(own)),
        "{lists:?}"
    );

    // The second time, nothing is written.
    let again = fleet.run("apply", &mesh, &[]);
    assert_eq!(
        (again.code, again.stdout.as_str()),
        (0, "Nothing to do.\n"),
        "{}",
        again.stderr
    );
    assert_eq!(fleet.writes(), [""; 0]);

    // A cluster leaves the file. With consent, `apply` deletes all objects of its links, in all clusters.
    let rest = fleet.file(&[names[0], names[2]], "links:\n- mesh: all\n");
    let kept = fleet.run("apply", &rest, &["--yes"]);
    let said = "objects stay without --prune.\n";
    assert!(
        kept.code == 0 && kept.stdout.ends_with(said),
        "{}",
        kept.stdout
    );
    let also = ["--also", names[1]];
    let with = |more: &[&'static str]| [more, &also].concat();
    let many = fleet.run("apply", &rest, &with(&["--yes", "--prune=3"]));
    let said =
        "error: 4 Links would be deleted, more than 3; nothing was changed\nhint: pass --prune=4";
    assert!(
        many.code == 1 && many.stderr.contains(said),
        "{}",
        many.stderr
    );
    let refused = fleet.run("apply", &rest, &with(&["--prune"]));
    assert_eq!(refused.code, 1, "{}", refused.stdout);
    assert!(refused.stderr.contains("pass --yes"), "{}", refused.stderr);
    assert_eq!(fleet.writes(), [""; 0]);
    let applied = fleet.run("apply", &rest, &with(&["--yes", "--prune"]));
    assert_eq!(applied.code, 0, "{}{}", applied.stdout, applied.stderr);
    assert_eq!(made(&north).await, BTreeSet::new());
    assert_eq!(made(&east).await, linked_to(&["apply-west"]));
    assert_eq!(made(&west).await, linked_to(&["apply-east"]));
    gone(&west, "fleet", "web-apply-north").await;
    assert_eq!(version(&west, "stranger").await, stranger);
    service(&west, "fleet", "web-stranger", |_| true).await;

    // `apply` is killed after a random number of writes, and runs again. The result has to be the same.
    let none = fleet.file(&names, "links: []\n");
    for seed in 1..=3 {
        let mut random = fastrand::Rng::with_seed(seed);
        let applied = fleet.run("apply", &none, &["--yes", "--prune"]);
        assert_eq!(applied.code, 0, "{}{}", applied.stdout, applied.stderr);
        for plane in &fleet.planes {
            assert_eq!(made(plane).await, BTreeSet::new(), "{}", plane.name());
        }
        let mesh = fleet.file(&names, "links:\n- mesh: all\n");
        for _ in 0..2 {
            let after = random.usize(1..16);
            fleet.killed("apply", &["--yes"], &mesh, after).await;
        }
        let applied = fleet.run("apply", &mesh, &[]);
        assert_eq!(
            applied.code, 0,
            "seed {seed}: {}{}",
            applied.stdout, applied.stderr
        );
        assert_eq!(
            made(&east).await,
            linked_to(&[names[1], names[2]]),
            "seed {seed}"
        );
        fleet.writes();
        let again = fleet.run("apply", &mesh, &[]);
        assert_eq!(
            (again.code, again.stdout.as_str()),
            (0, "Nothing to do.\n"),
            "seed {seed}"
        );
        assert_eq!(fleet.writes(), [""; 0], "seed {seed}");
        let none = fleet.file(&names, "links: []\n");
        // `apply` is also killed while it removes the links.
        let after = random.usize(1..16);
        fleet
            .killed("apply", &["--yes", "--prune"], &none, after)
            .await;
    }
    assert_eq!(version(&west, "stranger").await, stranger);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn plan_shows_what_each_cluster_needs_and_writes_nothing() {
    let mut fleet = Fleet::start("plan").await;
    let file = fleet.file(
        &["plan-east", "plan-north", "plan-west"],
        "links:\n- mesh: all\n",
    );
    let planned = fleet.run("plan", &file, &[]);
    assert_eq!(planned.code, 2, "{}", planned.stderr);
    // Each of 6 links: an account of four objects, two Secrets and a Link.
    assert!(
        planned
            .stdout
            .ends_with("\n42 to create, 0 to change, 0 to delete.\n"),
        "{}",
        planned.stdout
    );
    assert!(
        planned
            .stdout
            .contains("  + 2 Links plan-north, plan-west: mesh, line 8\n"),
        "{}",
        planned.stdout
    );
    // `plan | head` has shown what was wanted; `apply | head` has done nothing.
    let (code, said) = fleet.unread("plan", &file, &[]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = fleet.unread("apply", &file, &["--yes"]);
    assert_eq!(code, Some(1), "{said}");
    let cause = "cause: cannot write to stdout: Broken pipe";
    assert!(said.contains(cause), "{said}");
    let local = format!(
        "plan-east: the link uses the API server address {}, which",
        fleet.planes[0].url()
    );
    assert_eq!(
        planned.stderr.matches(&local).count(),
        1,
        "{}",
        planned.stderr
    );

    // `install --file` prints the extension with the values of the file, as `install` does with the same values.
    let values = "gateway: {replicas: 3}\ncontroller: {logLevel: debug}\n";
    let (own, path) = (
        values.replace('\n', "\n  "),
        fleet.folder.path().join("values.yaml"),
    );
    fs::write(&path, values).unwrap();
    let with_values = format!("install:\n  {own}\nlinks: []\n");
    let with_values = fleet.file(&["plan-east"], &with_values);
    let printed = fleet.run("install", &with_values, &["plan-east"]);
    let context = ["--context", "plan-east", "install", "--values"];
    let same = [&context[..], &[path.to_str().unwrap()]].concat();
    assert_eq!(printed.data(), run(&fleet.kubeconfig, &same).data());

    // One cluster does not answer, and the kubeconfig has no context for another one.
    let text = fs::read_to_string(&fleet.kubeconfig).unwrap();
    let north = fleet.planes[1].url();
    fs::write(
        &fleet.kubeconfig,
        text.replace(north, "https://127.0.0.1:1"),
    )
    .unwrap();
    let file = fleet.file(
        &["plan-east", "plan-north", "plan-south", "plan-west"],
        "links:\n- mesh: all\n",
    );
    let planned = fleet.run("plan", &file, &["--output", "json"]);
    assert_eq!(planned.code, 1, "{}", planned.stderr);
    let plan: Value = serde_json::from_str(&planned.stdout).unwrap();
    let clusters = plan["clusters"].as_array().unwrap();
    let shown = clusters.iter().map(|cluster| {
        let error = cluster["error"].as_str().unwrap_or_default();
        (
            cluster["name"].as_str().unwrap(),
            error,
            cluster["changes"].as_array().unwrap().len(),
        )
    });
    let shown: Vec<_> = shown.collect();
    assert_eq!((shown[0].0, shown[0].1, shown[0].2), ("plan-east", "", 7));
    assert!(
        shown[1]
            .1
            .starts_with("cannot reach the API server https://127.0.0.1:1"),
        "{shown:?}"
    );
    assert!(
        shown[2]
            .1
            .starts_with("the kubeconfig has no context for plan-south"),
        "{shown:?}"
    );
    assert_eq!((shown[3].0, shown[3].1, shown[3].2), ("plan-west", "", 7));
    assert_eq!(fleet.writes(), [""; 0]);

    // `plan` cannot read plan-north, so it knows nothing of both links. It finds nothing to do, and fails all the same.
    let file = fleet.file(&["plan-north", "plan-west"], "links:\n- mesh: all\n");
    let planned = fleet.run("plan", &file, &[]);
    assert_eq!(planned.code, 1, "{}", planned.stderr);
    assert!(
        planned
            .stdout
            .ends_with("Nothing to do in the clusters that were read. 1 cluster was not read.\n"),
        "{}",
        planned.stdout
    );
}
