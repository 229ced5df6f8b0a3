//! The file of a store: its path, its lock, and the private directory of `memory:`.

use super::super::OpenError;
use super::wal;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The file of a store, locked for this process. The lock is the lease: while it is held nobody else opens the store.
#[derive(Debug)]
pub(crate) struct StoreLocation {
    /// The database file, symbolic links resolved, so that two names of one file are one lock.
    pub(crate) path: PathBuf,
    /// Whether commits wait for the disk.
    pub(crate) durable: bool,
    /// The lock on the file's name. Closing the file gives it back.
    _lock: File,
    /// The database file, locked too: another name may lead to it. It must outlive every connection of this process, as
    /// closing it gives back the locks of SQLite.
    _file: File,
    private: Option<PathBuf>,
}

impl StoreLocation {
    /// Resolves and locks the file. Creates it, readable by its owner only, if it does not exist.
    pub(crate) fn of_file(path: &Path) -> Result<StoreLocation, OpenError> {
        let (path, lock) = lock(path)?;
        check_file(&path)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|e| io(&path, e))?;
        match file.try_lock() {
            Ok(()) => Ok(StoreLocation { path, durable: true, _lock: lock, _file: file, private: None }),
            Err(TryLockError::WouldBlock) => Err(OpenError::Locked(path)),
            Err(TryLockError::Error(e)) => Err(io(&path, e)),
        }
    }

    /// Creates and locks a file in a private directory, which is removed when the location is dropped.
    pub(crate) fn temporary() -> Result<StoreLocation, OpenError> {
        let dir = private_directory()?;
        match StoreLocation::of_file(&dir.join(FILE)) {
            Ok(mut location) => {
                location.durable = false;
                location.private = Some(dir);
                Ok(location)
            }
            Err(error) => {
                let _ = std::fs::remove_dir_all(dir);
                Err(error)
            }
        }
    }

    /// The size of the database and of its write-ahead log.
    pub(crate) fn size_bytes(&self) -> Option<u64> {
        let log = wal::path(&self.path).metadata().map_or(0, |log| log.len());
        Some(std::fs::metadata(&self.path).ok()?.len() + log)
    }
}

impl Drop for StoreLocation {
    fn drop(&mut self) {
        if let Some(dir) = &self.private {
            // Nothing depends on it: what stays behind is in the temporary directory.
            let _ = std::fs::remove_dir_all(dir);
        }
    }
}

/// Refuses a file that has another name, and one that is missing or empty while its write-ahead log is not.
fn check_file(path: &Path) -> Result<(), OpenError> {
    let refuse = |why: String| Err(OpenError::Other { path: path.into(), why });
    let size = match path.metadata() {
        Ok(file) if file.nlink() > 1 => {
            let others = file.nlink() - 1;
            return refuse(format!(
                "the file has {others} more hard links, and a server that opens one of them would destroy the store: \
                 remove them, or use a copy that `tricord store backup` makes"
            ));
        }
        Ok(file) => file.len(),
        Err(e) if e.kind() == ErrorKind::NotFound => 0,
        Err(e) => return Err(io(path, e)),
    };
    let log = wal::path(path);
    if size == 0 && log.metadata().is_ok_and(|log| log.len() > 0) {
        return refuse(format!(
            "the file is missing or empty, but {} has data that belongs to it: put the file back, or remove both to begin \
             with an empty store",
            log.display()
        ));
    }
    Ok(())
}

/// Resolves a database's path and takes its lock.
fn lock(path: &Path) -> Result<(PathBuf, File), OpenError> {
    let path = resolve(path)?;
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&name)
        .map_err(|e| io(Path::new(&name), e))?;
    match file.try_lock() {
        Ok(()) => Ok((path, file)),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked(path)),
        Err(TryLockError::Error(e)) => Err(io(&path, e)),
    }
}

/// The path with symbolic links resolved; the file itself need not exist.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf, OpenError> {
    if path.is_dir() {
        return Err(OpenError::Other { path: path.into(), why: "is a directory".into() });
    }
    if let Ok(real) = path.canonicalize() {
        return Ok(real);
    }
    let dir = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let real = dir.canonicalize().map_err(|e| match e.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => OpenError::NoDirectory(dir.into()),
        _ => io(dir, e),
    })?;
    let name = path
        .file_name()
        .ok_or_else(|| OpenError::Other { path: path.into(), why: "the path has no file name".into() })?;
    Ok(real.join(name))
}

/// Converts an error of the operating system.
pub(crate) fn io(path: &Path, error: std::io::Error) -> OpenError {
    match error.kind() {
        ErrorKind::PermissionDenied => OpenError::Permission(path.into()),
        _ => OpenError::Other { path: path.into(), why: error.to_string() },
    }
}

/// The beginning of the names of private directories.
const PRIVATE: &str = "tricord-";

/// The file of a store in its private directory.
const FILE: &str = "tricord.db";

fn private_directory() -> Result<PathBuf, OpenError> {
    let temporary = std::env::temp_dir();
    sweep(&temporary, Duration::from_secs(60));
    let dir = temporary.join(format!("{PRIVATE}{}", crate::clock::new_id()));
    DirBuilder::new().mode(0o700).create(&dir).map_err(|e| io(&dir, e))?;
    Ok(dir)
}

/// Removes what killed processes left behind: directories of ours whose lock nobody holds, unless they are so young that
/// they may be about to be locked.
fn sweep(temporary: &Path, age: Duration) {
    for entry in std::fs::read_dir(temporary).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_private = name
            .to_str()
            .and_then(|name| name.strip_prefix(PRIVATE))
            .is_some_and(|id| uuid::Uuid::try_parse(id).is_ok());
        let is_old = || entry.metadata().and_then(|m| m.modified()).is_ok_and(|m| m.elapsed().is_ok_and(|e| e >= age));
        if !is_private || !is_old() {
            continue;
        }
        let lock = OpenOptions::new().write(true).open(entry.path().join(format!("{FILE}.lock")));
        if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
            // Another process may do the same at the same time, which is no harm.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_names_of_one_file_are_one_lock() {
        let dir = tempfile::tempdir().unwrap();
        let held = StoreLocation::of_file(&dir.path().join("a.db")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("a.db"), dir.path().join("b.db")).unwrap();
        let other = dir.path().join("b.db");
        assert!(matches!(StoreLocation::of_file(&other), Err(OpenError::Locked(_))));
        drop(held);
        StoreLocation::of_file(&other).unwrap();
    }

    #[test]
    fn what_a_killed_process_left_is_taken_away_and_nothing_else() {
        let temporary = tempfile::tempdir().unwrap();
        let make = |name: &str, locked: bool| {
            let dir = temporary.path().join(name);
            std::fs::create_dir(&dir).unwrap();
            locked.then(|| lock(&dir.join(FILE)).unwrap().1)
        };
        let id = || format!("{PRIVATE}{}", crate::clock::new_id());
        let (left, held, early) = (id(), id(), id());
        drop(make(&left, true));
        let _held = make(&held, true);
        make(&early, false);
        drop(make("tricord-other", true));
        sweep(temporary.path(), Duration::from_secs(60));
        assert!(temporary.path().join(&left).exists(), "too young");
        sweep(temporary.path(), Duration::ZERO);
        let there = |name: &str| temporary.path().join(name).exists();
        assert_eq!([&left, &held, &early, "tricord-other"].map(there), [false, true, true, true]);
    }

    #[test]
    fn a_private_directory_is_private_and_goes_away() {
        use std::os::unix::fs::PermissionsExt;
        let place = StoreLocation::temporary().unwrap();
        let dir = place.path.parent().unwrap().to_owned();
        assert_eq!(dir.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(place.path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        drop(place);
        assert!(!dir.exists());
    }
}
