//! `fleet`: many links from one file, on real control planes.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use control_plane::ControlPlane;
use serde_json::Value;

use crate::support::{
    audit::{mark, requests},
    installation::installed,
    program::{Outcome, run},
};

/// Three control planes with an installation each, and a folder for files.
struct Fleet {
    planes: [Arc<ControlPlane>; 3],
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

    /// Writes a file with these clusters and links.
    fn file(&self, clusters: &[&str], links: &str) -> PathBuf {
        let clusters = clusters.iter().map(|cluster| {
            let plane = self
                .planes
                .iter()
                .find(|plane| plane.name().ends_with(cluster));
            let context = plane.map_or("nowhere", |plane| plane.name());
            format!("- {{name: {cluster}, context: {context}}}\n")
        });
        let clusters: String = clusters.collect();
        let file = self.folder.path().join("fleet.yaml");
        fs::write(&file, format!("name: f\nclusters:\n{clusters}{links}")).unwrap();
        file
    }

    fn run(&self, command: &str, file: &Path, flags: &[&str]) -> Outcome {
        let file = file.to_str().unwrap();
        let args = [&["fleet", command, "--file", file][..], flags].concat();
        run(&self.kubeconfig, &args)
    }

    /// What the program has written since the last call, as `cluster verb resource/name`.
    fn writes(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        for (plane, mark_of) in self.planes.iter().zip(&mut self.marks) {
            let since = requests(plane, *mark_of);
            *mark_of = mark(plane);
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

#[tokio::test(flavor = "multi_thread")]
async fn plan_shows_what_each_cluster_needs_and_writes_nothing() {
    let mut fleet = Fleet::start("plan").await;
    let file = fleet.file(&["east", "north", "west"], "links:\n- mesh: all\n");
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
            .contains("  + 2 Links north, west: mesh, line 7\n"),
        "{}",
        planned.stdout
    );
    let local = format!(
        "east: the link uses the API server address {}, which",
        fleet.planes[0].url()
    );
    assert_eq!(
        planned.stderr.matches(&local).count(),
        1,
        "{}",
        planned.stderr
    );

    // One cluster that does not answer, and one whose context is not there.
    let text = fs::read_to_string(&fleet.kubeconfig).unwrap();
    let north = fleet.planes[1].url();
    fs::write(
        &fleet.kubeconfig,
        text.replace(north, "https://127.0.0.1:1"),
    )
    .unwrap();
    let file = fleet.file(&["east", "north", "south", "west"], "links:\n- mesh: all\n");
    let planned = fleet.run("plan", &file, &["--output", "json"]);
    assert_eq!(planned.code, 2, "{}", planned.stderr);
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
    assert_eq!((shown[0].0, shown[0].1, shown[0].2), ("east", "", 7));
    assert!(
        shown[1]
            .1
            .starts_with("cannot reach the API server https://127.0.0.1:1"),
        "{shown:?}"
    );
    assert!(
        shown[2]
            .1
            .starts_with("context \"nowhere\" is not in the kubeconfig"),
        "{shown:?}"
    );
    assert_eq!((shown[3].0, shown[3].1, shown[3].2), ("west", "", 7));
    assert_eq!(fleet.writes(), [""; 0]);

    // Nothing is known of links of these clusters, so there is nothing to do, and that is no success.
    let file = fleet.file(&["north", "west"], "links:\n- mesh: all\n");
    let planned = fleet.run("plan", &file, &[]);
    assert_eq!(planned.code, 1, "{}", planned.stderr);
    assert!(
        planned
            .stdout
            .ends_with("Nothing to do. 1 cluster was not read.\n"),
        "{}",
        planned.stdout
    );
}
