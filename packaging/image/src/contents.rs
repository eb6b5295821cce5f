//! The files of the image: the program, the shared libraries that it needs if it is not static, CA certificates, and
//! the user that the program runs as. The image has no shell and no package manager.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail};
use base64::Engine as _;

/// ID of the user and of the group that the program runs as.
pub const USER: u32 = 65_532;
/// Path of the program in the image, without a slash at the front.
pub(crate) const PROGRAM: &str = "linkerd-mc";
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";

/// A file of the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Permissions.
    pub mode: u32,
    /// Contents.
    pub data: Vec<u8>,
}

/// Files by path, without a slash at the front.
pub type Files = BTreeMap<String, File>;

/// The image for one architecture.
#[derive(Debug)]
pub struct Platform {
    /// As in Go: `amd64` or `arm64`.
    pub architecture: &'static str,
    /// The files of the image.
    pub files: Files,
}

impl Platform {
    /// The image with this program. Fails if the program is not an ELF file for a known architecture.
    pub fn of(binary: &Path) -> anyhow::Result<Self> {
        let program =
            fs::read(binary).with_context(|| format!("failed to read {}", binary.display()))?;
        let architecture = architecture(&program)
            .with_context(|| format!("{} is no program for Linux", binary.display()))?;
        let mut files = Files::new();
        let mut add = |path: &str, mode, data| files.insert(path.to_owned(), File { mode, data });
        add(PROGRAM, 0o755, program);
        add(CERTIFICATES, 0o644, certificates().into_bytes());
        let user = format!("nonroot:x:{USER}:{USER}:nonroot:/:/\n");
        add("etc/passwd", 0o644, user.into_bytes());
        add(
            "etc/group",
            0o644,
            format!("nonroot:x:{USER}:\n").into_bytes(),
        );
        for library in libraries(binary)? {
            let data = fs::read(&library)
                .with_context(|| format!("failed to read {}", library.display()))?;
            let path = library.to_string_lossy();
            add(path.trim_start_matches('/'), 0o755, data);
        }
        Ok(Self {
            architecture,
            files,
        })
    }
}

/// The architecture in the header of an ELF file.
fn architecture(program: &[u8]) -> anyhow::Result<&'static str> {
    let header = program.get(..20).context("it is too short")?;
    if !header.starts_with(b"\x7fELF") {
        bail!("it is not an ELF file");
    }
    match [header[18], header[19]] {
        [62, 0] => Ok("amd64"),
        [183, 0] => Ok("arm64"),
        other => bail!("its architecture {other:?} is unknown"),
    }
}

/// Paths of the shared libraries that a program needs, as `ldd` finds them on this machine. A static program needs
/// none.
fn libraries(binary: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let output = Command::new("ldd")
        .arg(binary)
        .env("LC_ALL", "C")
        .output()
        .context("failed to run ldd")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    if said.contains("statically linked") || complaint.contains("not a dynamic executable") {
        return Ok(Vec::new());
    }
    if !output.status.success() || said.contains("not found") {
        bail!(
            "failed to find the libraries of {}: {said}{complaint}",
            binary.display()
        );
    }
    // A line is like `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x…)`, or begins with a path. The line of the vDSO,
    // which the kernel provides, has no path.
    Ok(said
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .collect())
}

/// Mozilla's CA certificates, as of the version in Cargo.lock.
fn certificates() -> String {
    let mut text = String::new();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        let encoded = base64::engine::general_purpose::STANDARD.encode(certificate);
        text += "-----BEGIN CERTIFICATE-----\n";
        let mut rest = encoded.as_str();
        while !rest.is_empty() {
            let (line, after) = rest.split_at(rest.len().min(64));
            text += line;
            text += "\n";
            rest = after;
        }
        text += "-----END CERTIFICATE-----\n";
    }
    text
}

/// Unpacks a layer into a folder that must not exist.
pub fn unpack(archive: &[u8], folder: &Path) -> anyhow::Result<()> {
    fs::create_dir(folder).with_context(|| format!("failed to create {}", folder.display()))?;
    tar::Archive::new(archive)
        .unpack(folder)
        .with_context(|| format!("failed to unpack the image into {}", folder.display()))
}
