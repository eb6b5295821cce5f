//! The container image: two builds give the same bytes, other programs can read it, and it runs from its files alone.
//!
//! The tests build the image from the binary under test and the libraries that this binary needs, which takes a second.
//! `just image-test` runs the same tests with the static binary that `just image` puts into the image.

use std::{
    env,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use container_image::{Platform, USER, archive, unpack, write};
use linkerd_mc::manifests::values::Values;
use requirements::{has_program, missing};
use serde_json::{Value, json};

use crate::support::{
    SOON,
    controller::Controller,
    installation::{CONTROLLER, CONTROLLER_GROUPS, link},
    objects::{export, namespace, service, web},
    planes::{hub, installed},
};

/// Environment variable: the path of another binary to put into the image.
const BINARY: &str = "LINKERD_MC_IMAGE_BINARY";
/// Where the kubeconfig is in the image's root, as if mounted from a Secret.
const MOUNTED: &str = "config";

fn platform() -> Platform {
    let own = || PathBuf::from(env!("CARGO_BIN_EXE_linkerd-mc"));
    let binary = env::var_os(BINARY).map_or_else(own, PathBuf::from);
    Platform::of(&binary).unwrap()
}

#[test]
fn image_is_the_same_each_time_and_has_what_install_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    let (name, tag) = container_image::name_and_tag().unwrap();
    let image = Values::default().controller.image;
    assert_eq!((&name, &tag), (&image.name, &image.version));
    // Any small program is enough, because this test does not run it.
    let platform = Platform::of(Path::new("/bin/cat")).unwrap();
    let [first, second] = ["first", "second"].map(|path| {
        write(
            &folder.path().join(path),
            &name,
            &tag,
            std::slice::from_ref(&platform),
        )
        .unwrap()
    });
    assert_eq!(first, second);

    let root = folder.path().join("root");
    unpack(&archive(&platform.files).unwrap(), &root).unwrap();
    read_by_skopeo(folder.path(), &tag, &first.digest);
    let mut found: Vec<String> = fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with("lib"))
        .collect();
    found.sort_unstable();
    assert_eq!(found, ["etc", "linkerd-mc"], "besides libraries");
    for absent in ["bin", "usr/bin", "etc/shadow"] {
        assert!(!root.join(absent).exists(), "{absent}");
    }
}

/// Asserts that programs of other projects can read the layout `first`. skopeo compares all sizes and digests. tar
/// unpacks the layer.
fn read_by_skopeo(folder: &Path, tag: &str, digest: &str) {
    let run = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        let output = command.args(args).current_dir(folder).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {args:?}: {complaint}");
        String::from_utf8(output.stdout).unwrap()
    };
    if !has_program("skopeo", "another program reads the layout of the image") {
        return;
    }
    let layout = format!("oci:first:{tag}");
    let image: Value = serde_json::from_str(&run("skopeo", &["inspect", &layout])).unwrap();
    assert_eq!(image["Digest"], digest);
    run(
        "skopeo",
        &["copy", "--insecure-policy", &layout, "dir:read"],
    );
    let config: Value =
        serde_json::from_str(&run("skopeo", &["inspect", "--config", &layout])).unwrap();
    assert_eq!(config["config"]["User"], format!("{USER}:{USER}"));
    assert_eq!(config["config"]["Entrypoint"], json!(["/linkerd-mc"]));
    let layers = image["Layers"].as_array().unwrap();
    let [layer] = &layers[..] else {
        panic!("{layers:?}")
    };
    let layer = layer.as_str().unwrap().replace("sha256:", "read/");
    fs::create_dir(folder.join("unpacked")).unwrap();
    run("tar", &["-xzf", &layer, "-C", "unpacked"]);
    run("diff", &["--recursive", "root", "unpacked"]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn image_runs_alone_and_mirrors() {
    if let Some(reason) = cannot_isolate() {
        missing(
            "root",
            &format!("the image runs in namespaces of its own ({reason})"),
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    unpack(&archive(&platform().files).unwrap(), &root).unwrap();
    fs::create_dir(root.join(MOUNTED)).unwrap();

    let version = isolated(&root, folder.path(), &["--version"])
        .output()
        .unwrap();
    let said = String::from_utf8(version.stdout).unwrap();
    assert!(
        version.status.success(),
        "{}",
        String::from_utf8_lossy(&version.stderr)
    );
    assert!(said.starts_with("linkerd-mc "), "{said}");

    let east = &hub().await.east;
    let west = installed("image", "192.0.2.40").await;
    link(&west, east, "east", &[]).await;
    namespace("image", &[east, &west]).await;
    export(east, "image", &web("web", "true")).await;
    let kubeconfig = west
        .kubeconfig_through(west.url(), CONTROLLER, &CONTROLLER_GROUPS)
        .unwrap();
    let mounted = folder.path().join("mounted");
    fs::create_dir(&mounted).unwrap();
    fs::copy(kubeconfig, mounted.join("kubeconfig")).unwrap();
    fs::set_permissions(mounted.join("kubeconfig"), Permissions::from_mode(0o644)).unwrap();

    let started = Instant::now();
    let args = [
        "run-controller",
        "--admin-addr",
        "127.0.0.1:0",
        "--leader-elect=false",
    ];
    let controller = Controller::of(isolated(&root, &mounted, &args));
    controller.ready_within(SOON).await;
    eprintln!(
        "from start to ready in the image: {} ms",
        started.elapsed().as_millis()
    );
    service(&west, "image", "web-east", |_| true).await;
    confined(controller.pid(), &root);
}

/// Asserts how the program below `unshare` runs: as the image's user, without groups and capabilities, and with the
/// image as its root, which is read-only.
fn confined(unshare: u32, root: &Path) {
    let read = |pid: &str, file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let child = |pid: &str| {
        let children = read(pid, &format!("task/{pid}/children"));
        children.split_whitespace().next().unwrap().to_owned()
    };
    let program = child(&child(&unshare.to_string()));
    let status = read(&program, "status");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().split_whitespace().collect::<Vec<_>>()
    };
    assert_eq!(field("Name:"), ["linkerd-mc"]);
    let user = USER.to_string();
    assert_eq!(field("Uid:"), [&user; 4]);
    assert_eq!(field("Gid:"), [&user; 4]);
    assert_eq!(field("Groups:"), [""; 0]);
    assert_eq!(field("CapEff:"), ["0000000000000000"]);
    let seen = fs::read_link(format!("/proc/{program}/root")).unwrap();
    assert_eq!(seen, root.canonicalize().unwrap());
    // For a process in another root, mountinfo lists only the mounts below that root. The fields of a line begin with
    // ID, parent, device, root, mount point and options.
    let mounts = read(&program, "mountinfo");
    for path in ["/".to_owned(), format!("/{MOUNTED}")] {
        let mount = mounts
            .lines()
            .rfind(|line| line.split(' ').nth(4) == Some(&path));
        let options = mount.and_then(|line| line.split(' ').nth(5));
        assert!(
            options.is_some_and(|options| options.starts_with("ro,")),
            "{path}: {mounts}"
        );
    }
}

/// A command that runs the program with the image as its root, so that the program sees nothing else. The program has
/// its own namespaces for mounts and processes, runs as the image's user without groups, and cannot write to its root.
/// It shares the network of this machine, because the control planes listen on loopback. `mounted` becomes the folder
/// with the kubeconfig.
fn isolated(root: &Path, mounted: &Path, args: &[&str]) -> Command {
    // The shell stays as PID 1 of the namespace. When it is killed, the kernel ends all other processes of the
    // namespace.
    const SCRIPT: &str = r#"
        root=$1 mounted=$2 into=$3 user=$4
        shift 4
        mount --bind "$root" "$root"
        mount --bind "$mounted" "$root/$into"
        mount -o remount,bind,ro "$root/$into"
        mount -o remount,bind,ro "$root"
        env -i "KUBECONFIG=/$into/kubeconfig" \
            "$(command -v chroot)" "--userspec=$user:$user" --groups= "$root" /linkerd-mc "$@"
        exit $?
    "#;
    let mut command = Command::new("unshare");
    command
        .args(ISOLATION)
        .args(["sh", "-euc", SCRIPT, "sh"])
        .args([root, mounted])
        .args([MOUNTED, &USER.to_string()])
        .args(args);
    command
}

/// Flags of `unshare`.
const ISOLATION: [&str; 5] = ["--mount", "--pid", "--fork", "--kill-child", "--"];

/// Why a process cannot have namespaces of its own here.
fn cannot_isolate() -> Option<String> {
    match Command::new("unshare").args(ISOLATION).arg("true").output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(format!("failed to run unshare: {error}")),
    }
}
