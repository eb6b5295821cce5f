//! `fleet` with Git: the files of `fleet render` and the Secrets of `fleet credentials` make the same links as `fleet
//! apply`.

mod tools;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use control_plane::ControlPlane;

use super::Fleet;
use crate::support::{
    controller::Controller,
    links::is_well,
    objects::{export, namespace, service, web},
    program::{Outcome, run},
};

/// All files below a folder, by their paths in it.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                found.push((name, fs::read(path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

async fn kubectl_apply(plane: &ControlPlane, flag: &str, path: &Path) {
    let path = path.to_str().unwrap();
    plane.kubectl(&["apply", flag, path]).await.unwrap();
}

/// Writes a fleet file in which all these clusters link to each other, and their controllers have this log level.
fn mesh(fleet: &Fleet, names: &[&str], log_level: &str) -> PathBuf {
    let text = format!("install: {{controller: {{logLevel: {log_level}}}}}\nlinks:\n- mesh: all\n");
    fleet.file(names, &text)
}

fn succeeded(outcome: &Outcome) -> &str {
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    &outcome.stdout
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn rendered_files_and_handed_over_credentials_link_as_apply_does() {
    let mut fleet = Fleet::start("git").await;
    let planes = fleet.planes.clone();
    let names = ["git-east", "git-north", "git-west"];
    let [east, north, west] = &planes;
    let _controllers = [east, north, west].map(|plane| Controller::start(plane, &[]));
    namespace("fleet", &[east, north, west]).await;
    export(north, "fleet", &web("web", "true")).await;
    let file = mesh(&fleet, &names, "debug");
    let (git, secrets) = (
        fleet.folder.path().join("clusters"),
        fleet.folder.path().join("secrets"),
    );
    let render = |fleet: &Fleet, file: &Path, flags: &[&str]| {
        let usual = [
            "--output-dir",
            git.to_str().unwrap(),
            "--secret-store=platform",
        ];
        let extension = ["--extension"];
        let is_given = flags.iter().any(|flag| flag.starts_with("--extension"));
        let extension = if is_given { &[] } else { &extension[..] };
        fleet.run("render", file, &[&usual, extension, flags].concat())
    };

    // `render` writes nothing to the clusters. It writes the same bytes to the files each time.
    fleet.writes();
    let dry = render(&fleet, &file, &["--dry-run"]);
    assert_eq!(dry.code, 2, "{}{}", dry.stdout, dry.stderr);
    assert!(!git.exists());
    let first = render(&fleet, &file, &[]);
    assert!(
        succeeded(&first).ends_with("\n39 added, 0 changed, 0 removed, 0 as they were.\n"),
        "{}",
        first.stdout
    );
    let rendered = files(&git);
    let again = render(&fleet, &file, &[]);
    assert_eq!(
        succeeded(&again),
        "0 added, 0 changed, 0 removed, 39 as they were.\n"
    );
    let without = render(&fleet, &file, &["--extension=false", "--dry-run"]);
    assert!(
        without
            .stdout
            .ends_with("\n0 added, 3 changed, 6 removed, 30 as they were.\n"),
        "{}",
        without.stdout
    );
    let forgotten = ["--output-dir", git.to_str().unwrap()];
    let refused = fleet.run("render", &file, &forgotten).failure();
    assert!(refused.contains("--no-secret-store"), "{refused}");
    let removed = [&forgotten[..], &["--no-secret-store", "--dry-run"]].concat();
    let removed = fleet.run("render", &file, &removed);
    assert!(
        removed
            .stdout
            .contains("- git-east/credentials/git-west.yaml\n"),
        "{}",
        removed.stdout
    );
    nothing_else_decides_what_is_rendered(&fleet, &file, &git);
    assert_eq!(files(&git), rendered);
    assert_eq!(fleet.writes(), [""; 0]);

    // Each cluster gets its rendered folder. Then each gets credentials for its target clusters: those of the rendered
    // accounts.
    tokio::join!(tools::install(east), tools::install(west));
    tools::examples_are_valid(east).await;
    tools::as_flux(east, fleet.folder.path()).await;
    tools::as_argo_cd(west, fleet.folder.path()).await;
    for part in ["extension", "accounts", "links"] {
        kubectl_apply(north, "-k", &git.join(north.name()).join(part)).await;
    }
    for plane in &planes {
        let extension = git.join(plane.name()).join("extension");
        let diff = ["diff", "-k", extension.to_str().unwrap()];
        assert_eq!(plane.kubectl(&diff).await.unwrap(), "");
        let controller = [
            "-n=linkerd-multicluster",
            "get",
            "deployment/linkerd-multicluster-controller",
            "-o=yaml",
        ];
        let controller = plane.kubectl(&controller).await.unwrap();
        assert!(controller.contains("- --log-level=debug\n"), "{controller}");
    }
    fleet.writes();
    let dir = ["--output-dir", secrets.to_str().unwrap()];
    for target in names {
        let flags = [&["--target", target], &dir[..]].concat();
        let printed = fleet.run("credentials", &file, &flags);
        let printed = succeeded(&printed);
        let remaining = printed.matches("# What remains, for ").count();
        assert_eq!(remaining, 2, "{printed}");
    }
    // Only tokens were requested.
    let writes = fleet.writes();
    let requests = writes
        .iter()
        .filter(|write| write.contains(" create serviceaccounts/"));
    assert_eq!((requests.count(), writes.len()), (6, 6), "{writes:?}");
    let handed_over = files(&secrets);
    assert_eq!(handed_over.len(), 6);
    for (name, _) in &handed_over {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = secrets.join(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    for plane in &planes {
        for other in names.iter().filter(|name| **name != plane.name()) {
            let path = secrets.join(plane.name()).join(format!("{other}.yaml"));
            kubectl_apply(plane, "-f", &path).await;
        }
    }
    for plane in [east, west] {
        service(plane, "fleet", "web-git-north", |_| true).await;
    }
    for plane in &planes {
        for other in names.iter().filter(|name| **name != plane.name()) {
            is_well(plane, other).await;
        }
    }
    // `fleet apply` would have nothing to do.
    let plan = fleet.run("plan", &file, &[]);
    assert_eq!(succeeded(&plan), "Nothing to do.\n", "{}", plan.stderr);

    // `fleet import` prints a file with the same links.
    let imported = run(
        &fleet.kubeconfig,
        &["fleet", "import", "--context", "git-*"],
    );
    assert_eq!(
        succeeded(&imported),
        "name: f\nid: t\nclusters:\n- name: git-east\n- name: git-north\n- name: git-west\nlinks:\n\
         - target: git-north\n  source: git-east\n- target: git-west\n  source: git-east\n\
         - target: git-east\n  source: git-north\n- target: git-west\n  source: git-north\n\
         - target: git-east\n  source: git-west\n- target: git-north\n  source: git-west\n"
    );
    assert_eq!(fleet.writes(), [""; 0]);

    // `credentials` prints the Secrets for one source cluster. It refuses several, because their Secrets have the same
    // names.
    let one = ["--target", "git-east", "--source", "git-west"];
    let printed = fleet.run("credentials", &file, &one);
    let path = secrets.join("git-west/git-east.yaml");
    // But for the token, which is another one.
    let without = |text: &str| {
        let lines = text.lines().filter(|line| !line.contains("kubeconfig: "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let handed = fs::read_to_string(path).unwrap();
    assert_eq!(without(succeeded(&printed)), without(&handed));
    let refused = fleet.run("credentials", &file, &["--target", "git-east"]);
    let why = refused.misuse();
    assert!(
        why.contains("2 source clusters have the same names"),
        "{why}"
    );
    let with_link = fleet.run("credentials", &file, &[&one[..], &["--with-link"]].concat());
    assert_eq!(
        succeeded(&with_link).matches("\nkind: ").count(),
        3,
        "{}",
        with_link.stdout
    );

    a_cluster_leaves(&fleet, &git, &render);
    the_first_time_only_the_extension_is_written(&fleet).await;
}

/// `render` writes the same files if flags of the earlier run are missing, and whatever an environment variable says.
fn nothing_else_decides_what_is_rendered(fleet: &Fleet, file: &Path, git: &Path) {
    for (flags, registry) in [
        (&["--extension"][..], "registry.example.com/elsewhere"),
        (&[], ""),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_linkerd-mc"))
            .env("KUBECONFIG", &fleet.kubeconfig)
            .env("LINKERD_DOCKER_REGISTRY", registry)
            .args(["fleet", "render", "--secret-store=platform", "--file"])
            .arg(file)
            .arg("--output-dir")
            .arg(git)
            .args(flags)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            said, "0 added, 0 changed, 0 removed, 39 as they were.\n",
            "{flags:?}"
        );
    }
}

/// North leaves the fleet file. A file of somebody else in its folder stays. Then east does not answer.
fn a_cluster_leaves(fleet: &Fleet, git: &Path, render: &dyn Fn(&Fleet, &Path, &[&str]) -> Outcome) {
    fs::write(git.join("git-north/links/mine.yaml"), "kind: Link\n").unwrap();
    let both = ["git-east", "git-west"];
    let rest = mesh(fleet, &both, "debug");
    let removed = render(fleet, &rest, &[]);
    let removed = succeeded(&removed);
    assert!(
        removed.contains("- git-north/links/git-east.yaml\n")
            && removed.contains("- git-north/extension/install.yaml\n")
            && removed.contains("- git-west/accounts/git-north.yaml\n"),
        "{removed}"
    );
    assert!(
        removed.ends_with("0 added, 8 changed, 19 removed, 12 as they were.\n"),
        "{removed}"
    );
    let left = files(git);
    let left = left.iter().map(|(name, _)| name.as_str());
    let left: Vec<&str> = left.filter(|name| name.starts_with("git-north")).collect();
    assert_eq!(left, ["git-north/links/mine.yaml"]);
    // `fleet plan` still shows the objects that the clusters have and the file does not.
    let plan = fleet.run("plan", &rest, &[]);
    assert_eq!(plan.code, 2, "{}{}", plan.stdout, plan.stderr);

    // `render` writes changed values only for the cluster that answers.
    let before = files(git);
    let [east, ..] = &fleet.planes;
    let rest = mesh(fleet, &both, "warn");
    east.pause_api_server().unwrap();
    let unread = render(fleet, &rest, &["--request-timeout", "5s"]);
    east.resume_api_server().unwrap();
    assert_eq!(unread.code, 1, "{}{}", unread.stdout, unread.stderr);
    assert!(
        unread
            .stderr
            .contains("its extension and the files about links to it stay as they are"),
        "{}",
        unread.stderr
    );
    let after = files(git);
    let changed = before.iter().zip(&after).filter(|(old, new)| old != new);
    let changed: Vec<&str> = changed.map(|(old, _)| old.0.as_str()).collect();
    assert_eq!(changed, ["git-west/extension/install.yaml"]);
    assert_eq!(after.len(), before.len());
}

/// `render` needs the gateway of a cluster for the links to it. The gateway is a part of the extension.
async fn the_first_time_only_the_extension_is_written(fleet: &Fleet) {
    let [east, _, west] = &fleet.planes;
    for plane in [east, west] {
        let delete = [
            "-n=linkerd-multicluster",
            "delete",
            "service/linkerd-gateway",
        ];
        plane.kubectl(&delete).await.unwrap();
    }
    let file = mesh(fleet, &[east.name(), west.name()], "debug");
    let first = fleet.folder.path().join("first");
    let flags = ["--extension", "--output-dir", first.to_str().unwrap()];
    let rendered = fleet.run("render", &file, &flags);
    assert_eq!(rendered.code, 1, "{}{}", rendered.stdout, rendered.stderr);
    let said = "; the files about links to it stay as they are\n";
    assert_eq!(
        rendered.stderr.matches(said).count(),
        2,
        "{}",
        rendered.stderr
    );
    let written = files(&first);
    let is_in = |part: &str| {
        written
            .iter()
            .filter(|(name, _)| name.contains(part))
            .count()
    };
    assert_eq!((is_in("/extension/install.yaml"), is_in("/links/")), (2, 0));
}
