//! A gzip-compressed tar archive that is bounded in size, and written whole or not at all.

use std::{
    fs::{File, OpenOptions, remove_file, rename},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use flate2::{Compression, write::GzEncoder};
use tar::{Builder, EntryType, Header};

use crate::{hint::fail, timing};

/// Maximum size of a file in bytes, before compression. Of a longer one, the end is left out.
const MOST_OF_A_FILE: usize = 8 << 20;
/// Maximum size of all files in bytes, before compression.
const MOST: usize = 256 << 20;
/// The last line of a file that is too long.
const CUT: &[u8] = b"\n[the rest was left out]\n";

/// An archive, in memory until it is finished: a few MiB of text that compresses well.
pub(super) struct Archive {
    builder: Builder<GzEncoder<Vec<u8>>>,
    path: PathBuf,
    /// The folder of all files.
    folder: String,
    size: usize,
}

impl Archive {
    /// Begins an archive with one folder. Fails if its file exists, or its directory does not.
    pub(super) fn new(path: &Path, folder: &str) -> anyhow::Result<Self> {
        if path.exists() {
            return Err(fail(
                format!("{} exists already", path.display()),
                "pass another name to --output",
            ));
        }
        let directory = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        if let Some(directory) = directory
            && !directory.is_dir()
        {
            return Err(fail(
                format!("{} is not a directory", directory.display()),
                "create it, or pass another name to --output",
            ));
        }
        Ok(Self {
            builder: Builder::new(GzEncoder::new(Vec::new(), Compression::default())),
            path: path.to_owned(),
            folder: folder.to_owned(),
            size: 0,
        })
    }

    /// Adds a file. Returns its size in bytes.
    pub(super) fn add(&mut self, path: &str, content: &[u8]) -> anyhow::Result<usize> {
        let left = MOST_OF_A_FILE.min(MOST.saturating_sub(self.size));
        let whole = [content, b""];
        let cut = [&content[..content.len().min(left)], CUT];
        let parts = if content.len() <= left { whole } else { cut };
        let size = parts.iter().map(|part| part.len()).sum();
        self.size += size;
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o600);
        header.set_mtime(u64::try_from(timing::now().as_second()).unwrap_or_default());
        header.set_size(size as u64);
        let path = format!("{}/{path}", self.folder);
        self.builder
            .append_data(&mut header, path, parts.concat().as_slice())
            .context("cannot add to the archive")?;
        Ok(size)
    }

    /// Writes the file, whole or not at all. Returns its size in bytes.
    pub(super) fn finish(self) -> anyhow::Result<usize> {
        let mut partial = self.path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let finished = self.builder.into_inner().and_then(GzEncoder::finish);
        let written = finished.and_then(|content| {
            private_file(&partial)?.write_all(&content)?;
            rename(&partial, &self.path)?;
            Ok(content.len())
        });
        written
            .inspect_err(|_| drop(remove_file(&partial)))
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// A new file that only its owner may read, because nobody has checked yet what is in it.
fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    fn read(path: &Path) -> Vec<(String, usize)> {
        let mut archive = tar::Archive::new(GzDecoder::new(File::open(path).unwrap()));
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (path, content.len())
        });
        entries.collect()
    }

    #[test]
    fn archive_is_bounded_and_there_when_it_is_finished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tar.gz");
        let mut archive = Archive::new(&path, "top").unwrap();
        archive.add("west/a.txt", b"abc").unwrap();
        let long = vec![b'x'; MOST_OF_A_FILE + 1];
        archive.add("long", &long).unwrap();
        assert!(!path.exists());
        archive.finish().unwrap();
        let expected = [
            ("top/west/a.txt".to_owned(), 3),
            ("top/long".to_owned(), MOST_OF_A_FILE + CUT.len()),
        ];
        assert_eq!(read(&path), expected);
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);

        let error = Archive::new(&path, "top").err().unwrap();
        assert!(
            error.to_string().ends_with("a.tar.gz exists already"),
            "{error}"
        );
    }

    #[test]
    fn nothing_is_left_of_an_archive_that_is_not_finished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tar.gz");
        let mut archive = Archive::new(&path, "top").unwrap();
        archive.add("a", b"abc").unwrap();
        drop(archive);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}
