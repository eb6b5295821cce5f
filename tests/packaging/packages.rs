//! Builds packages from the binary under test, twice, and installs them into an empty root.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{installed, read, root, succeed};

/// Two builds of a package in different surroundings. The second is what an attentive user builds to compare.
struct Twice {
    folder: tempfile::TempDir,
    file: PathBuf,
}

/// Packs the binary with a script of `packaging`; `args` stand between the binary and the folder.
fn packed(script: &str, args: &[&str]) -> Twice {
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("linkerd-mc");
    let build = Path::new(env!("CARGO_BIN_EXE_linkerd-mc"));
    // As shipped: without the names for debuggers, which are most of it.
    succeed(
        Command::new("strip")
            .arg("-o")
            .args([&binary, &build.to_path_buf()]),
    );
    let built = |name: &str, mask: &str, zone: &str| {
        let script = root().join("packaging").join(script);
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("umask {mask}; exec \"$@\""), "sh"])
            .arg(script)
            .arg(&binary)
            .args(args)
            .arg(folder.path().join(name))
            .current_dir(folder.path())
            .env("GZIP_LEVEL", "1")
            .env("SOURCE_DATE_EPOCH", "1790000000")
            .env("TZ", zone);
        PathBuf::from(succeed(&mut command).trim_end())
    };
    let (file, again) = (
        built("first", "022", "UTC"),
        built("second", "077", "Asia/Tokyo"),
    );
    assert_eq!(file.file_name(), again.file_name());
    let same = fs::read(&file).unwrap() == fs::read(&again).unwrap();
    assert!(
        same,
        "{} differs from one build to the next",
        file.display()
    );
    Twice { folder, file }
}

/// What a program says in an empty environment.
fn run(program: &Path, args: &[&str]) -> String {
    succeed(Command::new(program).args(args).env_clear())
}

fn version() -> String {
    format!("linkerd-mc {}", env!("CARGO_PKG_VERSION"))
}

/// The commands of the program, as its help lists them.
fn commands(program: &Path) -> Vec<String> {
    crate::explained(&run(program, &["--help"]))
}

/// Each command has a page below `man`, whose names end like this.
fn assert_pages(man: &Path, program: &Path, end: &str) {
    let commands = commands(program);
    assert!(commands.len() > 15, "{commands:?}");
    for command in commands {
        let page = man.join(format!("linkerd-mc-{command}{end}"));
        assert!(page.is_file(), "{} is missing", page.display());
    }
    assert!(man.join(format!("linkerd-mc{end}")).is_file());
}

#[test]
fn archive_is_the_same_each_time_and_has_all_that_is_needed() {
    if !installed(
        &["strip", "tar", "gzip", "python3"],
        "the archive is packed",
    ) {
        return;
    }
    let made = packed("archive", &["linux-amd64"]);
    let name = format!("linkerd-mc-{}-linux-amd64", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        made.file.file_name().unwrap().to_str(),
        Some(&*format!("{name}.tar.gz"))
    );
    let empty = made.folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    succeed(
        Command::new("tar")
            .arg("--extract")
            .arg("--file")
            .arg(&made.file)
            .current_dir(&empty),
    );
    // All lies in one folder, which the formula and the manifest name.
    let top: Vec<_> = fs::read_dir(&empty).unwrap().flatten().collect();
    assert_eq!(top.len(), 1);
    let folder = empty.join(name);
    let program = folder.join("linkerd-mc");

    assert!(run(&program, &["--version"]).starts_with(&version()));
    assert_pages(&folder.join("man/man1"), &program, ".1");
    for file in ["linkerd-mc.bash", "_linkerd-mc", "linkerd-mc.fish"] {
        let packed = fs::read_to_string(folder.join("completions").join(file)).unwrap();
        assert_eq!(packed, read(&format!("completions/{file}")));
    }
    assert_eq!(
        fs::read_to_string(folder.join("LICENSE")).unwrap(),
        read("LICENSE")
    );
    let notices = fs::read_to_string(folder.join("THIRD-PARTY-NOTICES")).unwrap();
    for text in [
        "kube-client 5.",
        "tikv-jemalloc-sys ",
        "BoringSSL",
        "Permission is hereby granted",
    ] {
        assert!(notices.contains(text), "the notices lack {text}");
    }
}

#[test]
fn debian_package_is_the_same_each_time_installs_runs_and_leaves_nothing() {
    let needed = [
        "strip",
        "dpkg",
        "dpkg-deb",
        "dpkg-shlibdeps",
        "gzip",
        "python3",
    ];
    if !installed(&needed, "the Debian package is packed and installed") {
        return;
    }
    let made = packed("deb", &[]);
    let field = |name: &str| {
        let mut command = Command::new("dpkg-deb");
        succeed(command.arg("--field").arg(&made.file).arg(name))
            .trim_end()
            .to_owned()
    };
    assert_eq!(field("Package"), "linkerd-mc");
    assert_eq!(field("Version"), env!("CARGO_PKG_VERSION"));
    assert!(
        field("Depends").starts_with("libc6 (>= "),
        "{}",
        field("Depends")
    );

    let empty = made.folder.path().join("empty");
    for folder in ["info", "updates", "triggers"] {
        fs::create_dir_all(empty.join("var/lib/dpkg").join(folder)).unwrap();
    }
    fs::write(empty.join("var/lib/dpkg/status"), "").unwrap();
    let dpkg = |args: &[&str]| {
        let mut command = Command::new("dpkg");
        command
            .arg(format!("--root={}", empty.display()))
            // There is no libc package in the empty root, and the test need not be root.
            .args(["--force-depends", "--force-not-root", "--log=/dev/null"])
            .args(args);
        succeed(&mut command)
    };
    dpkg(&["--install", made.file.to_str().unwrap()]);
    assert_eq!(
        dpkg(&["--verify", "linkerd-mc"]),
        "",
        "files differ from their checksums"
    );

    let usr = empty.join("usr");
    let program = usr.join("bin/linkerd-mc");
    assert!(run(&program, &["--version"]).starts_with(&version()));
    let plugin = run(&usr.join("bin/kubectl-linkerd_mc"), &["check", "--help"]);
    assert!(
        plugin.contains("Usage: kubectl linkerd-mc check"),
        "{plugin}"
    );
    assert_pages(&usr.join("share/man/man1"), &program, ".1.gz");
    for (file, kept) in [
        ("bash-completion/completions/linkerd-mc", "linkerd-mc.bash"),
        ("zsh/vendor-completions/_linkerd-mc", "_linkerd-mc"),
        (
            "fish/vendor_completions.d/linkerd-mc.fish",
            "linkerd-mc.fish",
        ),
    ] {
        let installed = fs::read_to_string(usr.join("share").join(file)).unwrap();
        assert_eq!(installed, read(&format!("completions/{kept}")));
    }
    let documents = usr.join("share/doc/linkerd-mc");
    for file in ["copyright", "NEWS.gz", "THIRD-PARTY-NOTICES.gz"] {
        assert!(documents.join(file).is_file(), "{file} is missing");
    }

    dpkg(&["--purge", "linkerd-mc"]);
    assert!(!program.exists());
    assert!(!documents.exists());
}
