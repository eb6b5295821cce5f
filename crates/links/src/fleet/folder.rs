//! The folder into which a fleet is rendered. Files of others stay as they are.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use hints::hint::fail;

use crate::{
    files::{FileReaders, write_whole},
    fleet::layout::{FleetFiles, KUSTOMIZATION, NOTE, PARTS, mark},
};

/// A folder, and the files of one fleet in it.
pub struct FleetFolder {
    path: PathBuf,
    /// The files that the fleet has rendered.
    pub own: FleetFiles,
}

/// What has to be done to files, by their paths.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FileChanges {
    pub added: BTreeSet<String>,
    pub changed: BTreeSet<String>,
    pub removed: BTreeSet<String>,
}

impl FileChanges {
    /// The number of files.
    pub fn count(&self) -> usize {
        self.added.len() + self.changed.len() + self.removed.len()
    }
}

impl FleetFolder {
    /// Reads what a fleet has rendered into a folder, which need not exist.
    pub fn read(path: &Path, fleet: &str) -> anyhow::Result<Self> {
        let mut folder = Self {
            path: path.to_owned(),
            own: FleetFiles::new(),
        };
        let mark = mark(fleet);
        for cluster in names(path)? {
            let of_cluster = path.join(&cluster);
            if !of_cluster.is_dir() {
                continue;
            }
            for file in [KUSTOMIZATION, NOTE] {
                folder.add(&mark, format!("{cluster}/{file}"))?;
            }
            for part in PARTS {
                for file in names(&of_cluster.join(part))? {
                    folder.add(&mark, format!("{cluster}/{part}/{file}"))?;
                }
            }
        }
        Ok(folder)
    }

    /// Adds a file if the fleet has rendered it.
    fn add(&mut self, mark: &str, name: String) -> anyhow::Result<()> {
        let path = self.path.join(&name);
        if !path.is_file() {
            return Ok(());
        }
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let Ok(text) = String::from_utf8(bytes) else {
            return Ok(()); // nothing that was rendered
        };
        let first = text.lines().next().unwrap_or_default();
        let first = first.trim_start_matches(['#', '<', '!', '-', ' ']);
        if first.starts_with(mark) {
            self.own.insert(name, text);
        }
        Ok(())
    }

    /// What has to change so that the fleet has these files. Fails if somebody else has one of them.
    pub fn changes(&self, wanted: &FleetFiles) -> anyhow::Result<FileChanges> {
        let mut changes = FileChanges::default();
        for (name, text) in wanted {
            match self.own.get(name) {
                Some(own) if own == text => {}
                Some(_) => {
                    changes.changed.insert(name.clone());
                }
                None => {
                    let path = self.path.join(name);
                    if path.symlink_metadata().is_ok() {
                        return Err(fail(
                            format!("{} is not a file of this fleet", path.display()),
                            "move it, or choose another folder with --output-dir",
                        ));
                    }
                    changes.added.insert(name.clone());
                }
            }
        }
        let gone = self.own.keys().filter(|name| !wanted.contains_key(*name));
        changes.removed = gone.cloned().collect();
        Ok(changes)
    }

    /// Makes the changes. Files that name others are written after them.
    pub fn apply(&self, changes: &FileChanges, wanted: &FleetFiles) -> anyhow::Result<()> {
        let written = changes.added.union(&changes.changed);
        let mut written: Vec<&String> = written.collect();
        written.sort_by_key(|name| (name.ends_with(KUSTOMIZATION), depth(name)));
        for name in written {
            let path = self.path.join(name);
            let text = wanted.get(name).map(String::as_str).unwrap_or_default();
            let folder = path.parent().unwrap_or(&self.path);
            fs::create_dir_all(folder)
                .and_then(|()| write_whole(&path, text.as_bytes(), FileReaders::Umask))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        for name in &changes.removed {
            let path = self.path.join(name);
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        let emptied = changes.removed.iter().flat_map(|name| {
            let above = Path::new(name).ancestors().skip(1);
            above.filter(|folder| !folder.as_os_str().is_empty())
        });
        let mut emptied: Vec<&Path> = emptied.collect();
        emptied.sort_by_key(|folder| std::cmp::Reverse(folder.components().count()));
        emptied.dedup();
        for folder in emptied {
            // It stays if something is in it.
            let _ = fs::remove_dir(self.path.join(folder));
        }
        Ok(())
    }
}

fn depth(name: &str) -> std::cmp::Reverse<usize> {
    std::cmp::Reverse(name.matches('/').count())
}

/// The names in a folder, in order; none if it does not exist.
fn names(folder: &Path) -> anyhow::Result<BTreeSet<String>> {
    let what = || format!("cannot read {}", folder.display());
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries.with_context(what)?,
    };
    let mut names = BTreeSet::new();
    for entry in entries {
        let name = entry.with_context(what)?.file_name().into_string();
        names.extend(name.ok().filter(|name| !name.starts_with('.')));
    }
    Ok(names)
}
