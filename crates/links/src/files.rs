//! Writes files whole or not at all.

use std::{
    fs::{DirBuilder, OpenOptions, remove_file, rename},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileReaders {
    /// Its owner alone, because it may hold secrets.
    Owner,
    /// Those whom the umask lets.
    Umask,
}

/// Writes a file, under another name first, so that a part of it is never seen. Replaces one that exists.
pub fn write_whole(path: &Path, content: &[u8], readers: FileReaders) -> io::Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    match remove_file(&partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // A new file: one that is there may be readable for others.
    write_new(&partial, content, readers)?;
    rename(&partial, path).inspect_err(|_| drop(remove_file(&partial)))
}

/// Creates a folder that only its owner may read, and those above it.
pub fn create_private(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Writes a file that must not be there yet.
pub fn write_new(path: &Path, content: &[u8], readers: FileReaders) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if readers == FileReaders::Owner {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = readers; // a file has the permissions of its folder
    let mut file = options.open(path)?;
    let written = file.write_all(content);
    written.inspect_err(|_| drop(remove_file(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn secrets_are_never_in_a_file_that_others_may_read() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret.yaml");
        // What an interrupted run, or somebody else, has left.
        let partial = folder.path().join("secret.yaml.partial");
        for left in [&partial, &path] {
            std::fs::write(left, "old").unwrap();
            std::fs::set_permissions(left, PermissionsExt::from_mode(0o644)).unwrap();
        }
        let already_open = std::fs::File::open(&partial).unwrap();
        write_whole(&path, b"new", FileReaders::Owner).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let seen = io::read_to_string(already_open).unwrap();
        assert_eq!(seen, "old");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);

        assert!(write_new(&path, b"newer", FileReaders::Owner).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"new");

        let private = folder.path().join("of/west");
        create_private(&private).unwrap();
        for made in [private.as_path(), private.parent().unwrap()] {
            let mode = made.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
        }

        let nowhere = folder.path().join("missing/file");
        assert!(write_whole(&nowhere, b"new", FileReaders::Umask).is_err());
    }
}
