//! A shared store in a folder, for example on a file system that several hosts mount.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::backend::{Backend, Sink};
use crate::error::RemoteError;

/// The number of bytes read at once.
const PIECE: usize = 1 << 18;

/// A folder. Single writes are not synced: [`Backend::settle`] makes many writes durable together.
#[derive(Debug)]
pub(crate) struct Folder {
    url: String,
    root: PathBuf,
}

impl Folder {
    /// Opens a folder; creates it if `create` is set.
    pub(crate) fn open(url: &str, root: PathBuf, create: bool) -> Result<Self, RemoteError> {
        if create {
            fs::create_dir_all(&root).map_err(|e| failed(url, &root, &e))?;
        }
        if !root.is_dir() {
            return Err(RemoteError::Absent(url.to_owned()));
        }
        Ok(Self {
            url: url.to_owned(),
            root,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        name.split('/')
            .fold(self.root.clone(), |path, segment| path.join(segment))
    }

    fn failed(&self, path: &Path, error: &io::Error) -> RemoteError {
        failed(&self.url, path, error)
    }

    /// Refuses a link on the way to a path: whoever may write to the shared store could lead us to another folder, where
    /// we would write or remove files.
    fn refuse_links(&self, path: &Path) -> Result<(), RemoteError> {
        let folders = path.ancestors().skip(1);
        for folder in folders.take_while(|folder| *folder != self.root) {
            if fs::symlink_metadata(folder).is_ok_and(|metadata| metadata.is_symlink()) {
                let text = format!(
                    "{} is a symbolic link: a shared store contains only files and folders of its own",
                    folder.display()
                );
                let remedy = "remove the link, or put what it leads to in its place; the folder of the store itself \
                              may be a link";
                return Err(RemoteError::Refused(
                    self.url.clone(),
                    text,
                    remedy.to_owned(),
                ));
            }
        }
        Ok(())
    }

    /// Creates a temporary file in the folder of the final path.
    fn beside(&self, path: &Path) -> Result<tempfile::NamedTempFile, RemoteError> {
        self.refuse_links(path)?;
        let folder = path.parent().unwrap_or(&self.root);
        let begin = || {
            fs::create_dir_all(folder)?;
            use std::os::unix::fs::PermissionsExt;
            // Group and others may read it as far as the umask permits: a team shares it.
            let permissions = fs::Permissions::from_mode(0o666);
            tempfile::Builder::new()
                .prefix(".put-")
                .permissions(permissions)
                .tempfile_in(folder)
        };
        begin().map_err(|e| self.failed(path, &e))
    }
}

fn failed(url: &str, path: &Path, error: &io::Error) -> RemoteError {
    let text = format!("{}: {}", path.display(), artifacts::without_path(error));
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            RemoteError::Access(url.to_owned(), text)
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            let remedy = "make room there, and start the command again; what was complete is kept";
            RemoteError::Refused(url.to_owned(), text, remedy.to_owned())
        }
        io::ErrorKind::FileTooLarge => {
            let remedy = "raise the limit on file sizes (`ulimit -f`), or that of the disk";
            RemoteError::Refused(url.to_owned(), text, remedy.to_owned())
        }
        _ => RemoteError::Other(url.to_owned(), text),
    }
}

impl Backend for Folder {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<bool, RemoteError> {
        let path = self.path(name);
        let mut file = self.beside(&path)?;
        file.write_all(bytes).map_err(|e| self.failed(&path, &e))?;
        match file.persist_noclobber(&path) {
            Ok(_) => Ok(true),
            Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(self.failed(&path, &e.error)),
        }
    }

    fn put_file(&self, name: &str, file: &Path) -> Result<(), RemoteError> {
        let path = self.path(name);
        let mut copy = self.beside(&path)?;
        let mut original = File::open(file).map_err(|e| self.failed(file, &e))?;
        io::copy(&mut original, copy.as_file_mut()).map_err(|e| self.failed(&path, &e))?;
        copy.persist(&path)
            .map(drop)
            .map_err(|e| self.failed(&path, &e.error))
    }

    fn put_over(&self, name: &str, bytes: &[u8]) -> Result<(), RemoteError> {
        let path = self.path(name);
        let mut file = self.beside(&path)?;
        file.write_all(bytes).map_err(|e| self.failed(&path, &e))?;
        file.persist(&path)
            .map(drop)
            .map_err(|e| self.failed(&path, &e.error))
    }

    fn remove(&self, name: &str) -> Result<(), RemoteError> {
        let path = self.path(name);
        self.refuse_links(&path)?;
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(self.failed(&path, &e)),
            _ => Ok(()),
        }
    }

    fn size(&self, name: &str) -> Result<Option<u64>, RemoteError> {
        let path = self.path(name);
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_file() => Ok(Some(metadata.len())),
            Ok(_) => Err(RemoteError::Broken(
                self.url.clone(),
                format!("{} is not a regular file", path.display()),
            )),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(self.failed(&path, &e)),
        }
    }

    fn read(&self, name: &str, sink: Sink<'_>) -> Result<bool, RemoteError> {
        // Reads no link, FIFO or device in place of an object.
        if self.size(name)?.is_none() {
            return Ok(false);
        }
        let path = self.path(name);
        let wrong = |e: io::Error| self.failed(&path, &e);
        let mut file = match File::open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            opened => opened.map_err(wrong)?,
        };
        let mut piece = vec![0; PIECE];
        loop {
            match file.read(&mut piece).map_err(wrong)? {
                0 => return Ok(true),
                n => sink(&piece[..n])?,
            }
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, RemoteError> {
        let path = self.path(folder);
        let entries = match fs::read_dir(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|e| self.failed(&path, &e))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|e| self.failed(&path, &e))?;
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    fn walk(&self, folder: &str) -> Result<Vec<(String, u64)>, RemoteError> {
        let mut names = Vec::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in self.list(&folder)? {
                let name = format!("{folder}/{entry}");
                let path = self.path(&name);
                match fs::symlink_metadata(&path) {
                    Ok(metadata) if metadata.is_dir() => folders.push(name),
                    // Links and files added by hand are ignored.
                    Ok(metadata) if metadata.is_file() => names.push((name, metadata.len())),
                    Ok(_) => {}
                    // Another process removed it, or renamed a finished file.
                    Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                    Err(e) => return Err(self.failed(&path, &e)),
                }
            }
        }
        names.sort();
        Ok(names)
    }

    fn settle(&self) -> Result<(), RemoteError> {
        let synced =
            File::open(&self.root).and_then(|file| rustix::fs::syncfs(file).map_err(Into::into));
        synced.map_err(|e| self.failed(&self.root, &e))
    }
}
