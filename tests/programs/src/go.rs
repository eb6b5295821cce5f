//! Builds programs with Go, all in the same way, if the Go that is there is new enough.

use std::env::consts::{ARCH, OS};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::tell;

/// How often a person who waits for a build hears of it.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(20);

/// What everything is compiled with. Go compiles a package that several programs use only once as long as this is the same
/// for all of them. Nobody looks at debug information, and without paths in it the cache does not depend on the folder.
const FLAGS: [&str; 3] = ["-buildvcs=false", "-trimpath", "-gcflags=all=-dwarf=false"];
/// Without a C compiler.
const ENVIRONMENT: (&str, &str) = ("CGO_ENABLED", "0");

const HINT: &str = "install Go from your distribution or its makers, or set KUBEBUILDER_ASSETS to a folder that holds \
                    etcd, kube-apiserver, kube-controller-manager and kubectl";

/// A release of Go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GoVersion(u32, u32, u32);

impl GoVersion {
    /// Reads `go1.26.8`, `1.26.0`, `go1.27rc1` (a candidate counts as the release before its own) or
    /// `go1.26.1-custom X:nogreenteagc`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix("go").unwrap_or(text);
        let numbers = text.split([' ', '-', '+']).next()?;
        let mut parts = numbers.split('.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?;
        if let Some((minor, _)) = minor.split_once("rc").or_else(|| minor.split_once("beta")) {
            return Some(Self(
                major,
                minor.parse::<u32>().ok()?.checked_sub(1)?,
                u32::MAX,
            ));
        }
        let patch = parts.next().map_or(Some(0), |patch| patch.parse().ok())?;
        Some(Self(major, minor.parse().ok()?, patch))
    }

    /// The version in the `go` line of a `go.mod`.
    pub(crate) fn demanded_by(go_mod: &str) -> Option<Self> {
        go_mod
            .lines()
            .find_map(|line| line.strip_prefix("go "))
            .and_then(Self::parse)
    }
}

impl fmt::Display for GoVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// The version of Go that builds the module in `folder`, as Go says it. Fails, with advice, unless it is new enough.
///
/// Asks inside the module, so that a Go that fetches newer toolchains by itself may do so.
pub(crate) fn version(program: &str, folder: &Path, go_mod: &str) -> anyhow::Result<String> {
    let demanded = GoVersion::demanded_by(go_mod).context("go.mod has no `go` line")?;
    let output = match Command::new(program)
        .args(["env", "GOVERSION"])
        .current_dir(folder)
        .output()
    {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!(
                "Go is not installed, and tests need Go {demanded} or later to build a control plane\nhint: {HINT}"
            )
        }
        Err(error) => return Err(error).context("failed to run go"),
    };
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        bail!(
            "tests need Go {demanded} or later to build a control plane: {}\nhint: {HINT}",
            reason.trim()
        );
    }
    // A development build ("devel go1.28-0f3a9b") has no version to compare: let it try.
    match GoVersion::parse(&said) {
        Some(found) if found < demanded => {
            bail!(
                "Go is {found}, and tests need Go {demanded} or later to build a control plane\nhint: {HINT}"
            )
        }
        _ => Ok(said.trim().to_owned()),
    }
}

/// Changes with what a program is made of, with how [`build`] builds it, and with what it is built for. Which Go builds it
/// is not in it.
pub(crate) fn fingerprint(made_of: impl Hash) -> String {
    hash((made_of, FLAGS, ENVIRONMENT, OS, ARCH))
}

fn hash(parts: impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Whether there is any Go.
pub fn is_installed() -> bool {
    Command::new("go").arg("version").output().is_ok()
}

/// Builds `package` of the module in `folder` into `program`. `arguments` of `go build` may choose other versions of its
/// modules. Prints its progress.
pub fn build(
    folder: &Path,
    arguments: &[&str],
    package: &str,
    linker_flags: &str,
    program: &Path,
) -> anyhow::Result<()> {
    let total = count_packages(folder, arguments, package)?;
    let mut go = Command::new("go")
        .args(["build", "-v"])
        .args(FLAGS)
        .args(arguments)
        .args(["-ldflags", linker_flags, "-o"])
        .arg(program)
        .arg(package)
        .current_dir(folder)
        .env(ENVIRONMENT.0, ENVIRONMENT.1)
        .stderr(Stdio::piped())
        .spawn()
        .context("failed to run go build")?;
    let output = BufReader::new(go.stderr.take().context("go has no standard error")?);
    let said = follow(output, total, PROGRESS_INTERVAL, tell)?;
    let status = go.wait().context("failed to wait for go build")?;
    if !status.success() {
        bail!("go build failed with {status}:\n{said}");
    }
    Ok(())
}

/// The number of packages that a package consists of, itself included. Modules that are not there yet are downloaded, and
/// go prints each one.
fn count_packages(folder: &Path, arguments: &[&str], package: &str) -> anyhow::Result<usize> {
    let output = Command::new("go")
        .args(["list", "-deps"])
        .args(arguments)
        .arg(package)
        .current_dir(folder)
        .env(ENVIRONMENT.0, ENVIRONMENT.1)
        .stderr(Stdio::inherit())
        .output()
        .context("failed to run go list")?;
    if !output.status.success() {
        bail!("go list failed with {}", output.status);
    }
    Ok(output.stdout.lines().count())
}

/// Reads what `go build -v` says: the name of each package that it compiles, which has no spaces, and messages, which
/// are returned. Tells how far it is, no more often than this.
fn follow(
    output: impl BufRead,
    total: usize,
    interval: Duration,
    mut tell: impl FnMut(&str),
) -> io::Result<String> {
    let mut messages = String::new();
    let mut compiled = 0;
    let mut told = Instant::now();
    for line in output.lines() {
        let line = line?;
        if line.contains(' ') {
            messages.push_str(&line);
            messages.push('\n');
        } else {
            compiled += 1;
        }
        if told.elapsed() >= interval {
            // Packages that an earlier build has left in Go's cache are not compiled, and not named.
            tell(&format!("compiled {compiled} of at most {total} packages"));
            told = Instant::now();
        }
    }
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_versions() {
        for (text, expected) in [
            ("go1.26.8\n", Some(GoVersion(1, 26, 8))),
            ("1.26.0", Some(GoVersion(1, 26, 0))),
            ("go1.26", Some(GoVersion(1, 26, 0))),
            ("go1.26.1-custom X:nogreenteagc", Some(GoVersion(1, 26, 1))),
            ("go1.27rc1", Some(GoVersion(1, 26, u32::MAX))),
            ("go1.27beta2", Some(GoVersion(1, 26, u32::MAX))),
            ("devel go1.28-0f3a9b", None),
            ("go", None),
            ("", None),
            ("go1.x.2", None),
        ] {
            assert_eq!(GoVersion::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn orders_versions() {
        let version = |text| GoVersion::parse(text).unwrap();
        assert!(version("go1.9.7") < version("go1.26.0"));
        assert!(version("go1.26.8") < version("go1.27rc1"));
        assert!(version("go1.27rc1") < version("go1.27.0"));
    }

    #[test]
    fn required_version_of_a_module_is_read() {
        assert_eq!(
            GoVersion::demanded_by("module x\n\ngo 1.26.0\n"),
            Some(GoVersion(1, 26, 0))
        );
        assert_eq!(GoVersion::demanded_by("module x\n"), None);
    }

    #[test]
    fn progress_counts_packages_and_messages_are_kept() {
        let output =
            "internal/abi\ngolang.org/x/net/http2\n# example.com/x\n./main.go:3:2: undefined: y\n";
        let mut told = Vec::new();
        let tell = |line: &str| told.push(line.to_owned());
        let messages = follow(output.as_bytes(), 9, Duration::ZERO, tell).unwrap();
        assert_eq!(messages, "# example.com/x\n./main.go:3:2: undefined: y\n");
        assert_eq!(told[1], "compiled 2 of at most 9 packages");
        let rarely = |line: &str| panic!("told {line}");
        follow(output.as_bytes(), 9, Duration::from_secs(60), rarely).unwrap();
    }

    #[test]
    fn errors_of_the_compiler_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name, text| std::fs::write(folder.path().join(name), text).unwrap();
        write("go.mod", "module broken\n\ngo 1.24\n");
        write("main.go", "package main\n\nfunc main() { missing() }\n");
        let program = folder.path().join("program");
        let error = build(folder.path(), &[], ".", "", &program).unwrap_err();
        assert!(
            error.to_string().contains("undefined: missing"),
            "{error:#}"
        );
        assert!(!program.exists());
    }

    #[test]
    fn missing_go_is_reported_with_a_remedy() {
        let error = version("no-such-go", Path::new("."), "go 1.26.0")
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("Go is not installed") && error.contains("KUBEBUILDER_ASSETS"),
            "{error}"
        );
    }

    #[test]
    fn fingerprint_changes_with_each_part() {
        let usual = fingerprint("go.mod");
        assert_eq!(usual, fingerprint("go.mod"));
        assert_ne!(usual, fingerprint("other.mod"));
        let (made_of, none) = ("go.mod", [""; FLAGS.len()]);
        assert_eq!(usual, hash((made_of, FLAGS, ENVIRONMENT, OS, ARCH)));
        for other in [
            hash((made_of, none, ENVIRONMENT, OS, ARCH)),
            hash((made_of, FLAGS, ("CGO_ENABLED", "1"), OS, ARCH)),
            hash((made_of, FLAGS, ENVIRONMENT, "plan9", ARCH)),
            hash((made_of, FLAGS, ENVIRONMENT, OS, "mips")),
        ] {
            assert_ne!(usual, other);
        }
    }

    #[test]
    fn version_is_what_go_says() {
        let said = version("go", Path::new("."), "go 1.0.0").unwrap();
        assert!(GoVersion::parse(&said).is_some(), "{said}");
    }

    #[test]
    fn refuses_a_go_that_is_too_old() {
        let error = version("go", Path::new("."), "go 99.0.0")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("99.0.0") && error.contains("KUBEBUILDER_ASSETS"),
            "{error}"
        );
    }
}
