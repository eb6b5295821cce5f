//! axe-core, which finds what keeps people from using a page. A package of Python has it; only the file is used.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail};

use crate::kept::{cache, kept};
use crate::tell;

/// The package with axe-core 4, in a file of pip. pip refuses another file than this.
const PACKAGE: &str = "axe-playwright-python==0.1.8 \\
    --hash=sha256:fdd263c998388f1a8e67cad02677e612d946248bd44d163be5e8650ea31f95f8
";
/// Where it is in the package.
const FILE: &str = "axe_playwright_python/axe.min.js";

/// The script of axe-core, downloaded now if it is not there yet.
pub fn axe() -> anyhow::Result<PathBuf> {
    let version = PACKAGE.split_whitespace().next().unwrap_or_default();
    let folder = kept(&cache("axe")?, "axe", Ok(version.to_owned()), download)?;
    Ok(folder.join(FILE))
}

fn download(folder: &Path) -> anyhow::Result<()> {
    tell("downloading axe-core");
    let (venv, wanted) = (folder.join("venv"), folder.join("requirements.txt"));
    fs::write(&wanted, PACKAGE)?;
    run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    let flags = ["--no-deps", "--require-hashes", "--only-binary", ":all:"];
    run(Command::new(venv.join("bin/pip"))
        .args(["install", "--quiet", "--disable-pip-version-check"])
        .args(flags)
        .arg("--target")
        .arg(folder)
        .arg("--requirement")
        .arg(&wanted))?;
    fs::remove_dir_all(venv).context("failed to remove what is not needed any more")
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let ended = command.stdin(Stdio::null()).output();
    let ended = ended.with_context(|| format!("failed to run {command:?}"))?;
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr);
        bail!("failed to download axe-core: {said}");
    }
    Ok(())
}
