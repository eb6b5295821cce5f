//! An OCI image layout: <https://github.com/opencontainers/image-spec/blob/main/image-layout.md>.
//!
//! The JSON documents are so small that no crate for their types is needed. The output depends neither on the time nor
//! on the machine.

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use flate2::{Compression, GzBuilder};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::contents::{Files, PROGRAM, Platform, USER};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Facts about an image that was written.
#[derive(Debug, PartialEq, Eq)]
pub struct Written {
    /// The digest under which registries know the image.
    pub digest: String,
    /// The compressed size of the layer of each platform.
    pub layers: Vec<usize>,
}

/// Writes an image into `folder`, which must not exist. With several platforms, it is an index of images.
pub fn write(
    folder: &Path,
    name: &str,
    version: &str,
    platforms: &[Platform],
) -> anyhow::Result<Written> {
    let blobs = Blobs::create(folder)?;
    let annotations = json!({
        "org.opencontainers.image.title": name,
        "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
        "org.opencontainers.image.version": version,
    });
    let (mut manifests, mut layers) = (Vec::new(), Vec::new());
    for platform in platforms {
        let archive = archive(&platform.files)?;
        let compressed = compressed(&archive)?;
        layers.push(compressed.len());
        let layer = blobs.add(LAYER, &compressed)?;
        let config = json!({
            "architecture": platform.architecture,
            "os": "linux",
            "config": {
                "User": format!("{USER}:{USER}"),
                "Entrypoint": [format!("/{PROGRAM}")],
                "WorkingDir": "/",
                "Labels": annotations,
            },
            "rootfs": { "type": "layers", "diff_ids": [sha256(&archive)] },
            "history": [{ "created_by": "just image" }],
        });
        let config = blobs.add(CONFIG, config.to_string().as_bytes())?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config,
            "layers": [layer],
            "annotations": annotations,
        });
        let mut manifest = blobs.add(MANIFEST, manifest.to_string().as_bytes())?;
        manifest["platform"] = json!({ "architecture": platform.architecture, "os": "linux" });
        manifests.push(manifest);
    }
    let mut image = if let [only] = &manifests[..] {
        only.clone()
    } else {
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests });
        blobs.add(INDEX, index.to_string().as_bytes())?
    };
    image["annotations"] = json!({
        "io.containerd.image.name": format!("{name}:{version}"),
        "org.opencontainers.image.ref.name": version,
    });
    let digest = image["digest"].as_str().unwrap_or_default().to_owned();
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [image] });
    for (file, document) in [
        ("index.json", index),
        ("oci-layout", json!({ "imageLayoutVersion": "1.0.0" })),
    ] {
        fs::write(folder.join(file), document.to_string())
            .with_context(|| format!("failed to write {file}"))?;
    }
    Ok(Written { digest, layers })
}

/// The files as a tar archive, with their folders. Times and owners are zero.
pub fn archive(files: &Files) -> anyhow::Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut folders = BTreeSet::new();
    for (path, file) in files {
        let parents: Vec<&Path> = Path::new(path).ancestors().skip(1).collect();
        for folder in parents.into_iter().rev() {
            if !folder.as_os_str().is_empty() && folders.insert(folder.to_owned()) {
                let mut header = entry(tar::EntryType::Directory, 0o755, 0);
                builder.append_data(&mut header, folder, std::io::empty())?;
            }
        }
        let size = u64::try_from(file.data.len()).context("a file is too large")?;
        let mut header = entry(tar::EntryType::Regular, file.mode, size);
        builder.append_data(&mut header, path, file.data.as_slice())?;
    }
    builder.into_inner().context("failed to write the archive")
}

fn entry(kind: tar::EntryType, mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

fn compressed(archive: &[u8]) -> anyhow::Result<Vec<u8>> {
    // 255 stands for an unknown operating system. The header has neither a file name nor a time.
    let mut encoder = GzBuilder::new()
        .operating_system(255)
        .write(Vec::new(), Compression::best());
    encoder.write_all(archive)?;
    encoder.finish().context("failed to compress the layer")
}

fn sha256(data: &[u8]) -> String {
    let hash = digest(&SHA256, data);
    hash.as_ref()
        .iter()
        .fold("sha256:".to_owned(), |text, byte| {
            format!("{text}{byte:02x}")
        })
}

/// The blobs of a layout.
struct Blobs(PathBuf);

impl Blobs {
    fn create(layout: &Path) -> anyhow::Result<Self> {
        let folder = layout.join("blobs/sha256");
        fs::create_dir(layout)
            .and_then(|()| fs::create_dir_all(&folder))
            .with_context(|| format!("failed to create {}", layout.display()))?;
        Ok(Self(folder))
    }

    /// Writes a blob and returns its descriptor.
    fn add(&self, kind: &str, data: &[u8]) -> anyhow::Result<Value> {
        let digest = sha256(data);
        let name = digest.trim_start_matches("sha256:");
        fs::write(self.0.join(name), data).with_context(|| format!("failed to write {digest}"))?;
        Ok(json!({ "mediaType": kind, "digest": digest, "size": data.len() }))
    }
}
