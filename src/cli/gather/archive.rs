//! A gzip-compressed tar archive that is bounded in size, and written whole or not at all.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use client::timing;
use flate2::{Compression, write::GzEncoder};
use hints::hint::fail;
use tar::{Builder, EntryType, Header};

use links::files::{FileReaders, write_whole};

/// Maximum size of a file in bytes, before compression. Of a longer one, the end is left out.
const MOST_OF_A_FILE: usize = 8 << 20;
/// Maximum size of all files in bytes, before compression.
const MOST: usize = 256 << 20;
/// The last line of a file that is too long.
const CUT: &[u8] = b"\n[the rest was left out]\n";

/// An archive, in memory until it is finished: a few MiB of text that compresses well.
pub struct Archive {
    builder: Builder<GzEncoder<Vec<u8>>>,
    path: PathBuf,
    /// The folder of all files.
    folder: String,
    size: usize,
}

impl Archive {
    /// Begins an archive with one folder. Fails if its file exists, or its directory does not.
    pub fn new(path: &Path, folder: &str) -> anyhow::Result<Self> {
        if path.exists() {
            return Err(fail(
                format!("{} exists already", path.display()),
                "pass another name",
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
                "create it, or pass another name",
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
    pub fn add(&mut self, path: &str, content: &[u8]) -> anyhow::Result<usize> {
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
    pub fn finish(self) -> anyhow::Result<usize> {
        // Only for its owner, because nobody has checked yet what is in it.
        let written = self
            .builder
            .into_inner()
            .and_then(GzEncoder::finish)
            .and_then(|content| {
                write_whole(&self.path, &content, FileReaders::Owner)?;
                Ok(content.len())
            });
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Read as _};

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
