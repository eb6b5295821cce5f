//! A gzip-compressed tar archive that is bounded in size, and complete or not there.

use std::{
    fs::{File, OpenOptions, remove_file, rename},
    io::Write as _,
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

/// An archive that is being written, beside its final path. Dropping it removes what was written.
pub(super) struct Archive {
    /// `None` when it is finished.
    builder: Option<Builder<GzEncoder<File>>>,
    path: PathBuf,
    partial: PathBuf,
    /// The folder of all files.
    folder: String,
    size: usize,
}

impl Archive {
    /// Begins an archive with one folder. Fails if the file exists, or cannot be written.
    pub(super) fn create(path: &Path, folder: &str) -> anyhow::Result<Self> {
        let what = || format!("cannot write {}", path.display());
        if path.exists() {
            return Err(fail(
                format!("{} exists already", path.display()),
                "pass another name to --output",
            ));
        }
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        // Others must not read it while nobody has looked at it.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&partial).with_context(what)?;
        Ok(Self {
            builder: Some(Builder::new(GzEncoder::new(file, Compression::default()))),
            path: path.to_owned(),
            partial,
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
        let what = || format!("cannot write {}", self.partial.display());
        let builder = self.builder.as_mut().with_context(what)?;
        builder
            .append_data(&mut header, path, parts.concat().as_slice())
            .with_context(what)?;
        Ok(size)
    }

    /// Puts the archive in place. Returns its size in bytes.
    pub(super) fn finish(mut self) -> anyhow::Result<u64> {
        let what = || format!("cannot write {}", self.path.display());
        let builder = self.builder.take().with_context(what)?;
        let finished = builder.into_inner().and_then(GzEncoder::finish);
        let mut file = finished.with_context(what)?;
        file.flush().with_context(what)?;
        let size = file.metadata().with_context(what)?.len();
        rename(&self.partial, &self.path).with_context(what)?;
        Ok(size)
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        // It is not there after it was put in place.
        let _ = remove_file(&self.partial);
    }
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
        let mut archive = Archive::create(&path, "top").unwrap();
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

        let error = Archive::create(&path, "top").err().unwrap();
        assert!(
            error.to_string().ends_with("a.tar.gz exists already"),
            "{error}"
        );
    }

    #[test]
    fn nothing_is_left_of_an_archive_that_is_not_finished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tar.gz");
        let mut archive = Archive::create(&path, "top").unwrap();
        archive.add("a", b"abc").unwrap();
        drop(archive);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}
