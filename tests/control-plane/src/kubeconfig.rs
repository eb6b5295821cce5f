//! Kubeconfig files: one context for each way into a control plane.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::certificates::Identity;

/// One context, with the cluster and the user that it pairs; all three have the same name.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) authority: String,
    pub(crate) identity: Identity,
}

/// Writes a kubeconfig whose current context is that of the first entry.
pub(crate) fn write(path: &Path, entries: &[&Entry]) -> anyhow::Result<()> {
    let mut options = fs::OpenOptions::new();
    let file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path);
    file.and_then(|mut file| file.write_all(text(entries).as_bytes()))
        .with_context(|| format!("failed to write {}", path.display()))
}

fn text(entries: &[&Entry]) -> String {
    let list =
        |line: fn(&Entry) -> String| entries.iter().map(|entry| line(entry)).collect::<String>();
    let clusters = list(|entry| {
        let authority = STANDARD.encode(&entry.authority);
        format!(
            "- name: {}\n  cluster:\n    server: {}\n    certificate-authority-data: {authority}\n",
            entry.name, entry.url
        )
    });
    let users = list(|entry| {
        let Identity { certificate, key } = &entry.identity;
        let (certificate, key) = (STANDARD.encode(certificate), STANDARD.encode(key));
        format!(
            "- name: {}\n  user:\n    client-certificate-data: {certificate}\n    client-key-data: {key}\n",
            entry.name
        )
    });
    let contexts = list(|entry| {
        format!(
            "- name: {0}\n  context:\n    cluster: {0}\n    user: {0}\n",
            entry.name
        )
    });
    let current = entries.first().map_or("\"\"", |entry| &entry.name);
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: {current}\nclusters:\n{clusters}users:\n{users}contexts:\n{contexts}"
    )
}
