//! Paths in a bundle, and the only way to read a file's bytes.
//!
//! A bundle may come from anyone. A path in it is a type that cannot lead out of it, and only
//! regular files are opened: a symbolic link, a FIFO or a device is an error, never a read.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::ops::Deref;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The path of a file in a bundle: ordinary names joined by `/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BundlePath(String);

/// A text that is not the path of a file in a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceError(String);

impl BundlePath {
    /// Checks a path.
    ///
    /// # Errors
    /// If it is empty or longer than 4,096 bytes, has more than 64 parts, begins or ends with `/`,
    /// has an empty part, `.` or `..`, or holds a backslash or a hidden character.
    pub fn new(place: impl Into<String>) -> Result<Self, PlaceError> {
        let place = place.into();
        let ordinary = |part: &str| !part.is_empty() && part != "." && part != "..";
        let fits = place.len() <= 4096
            && place.split('/').count() <= 64
            && place.split('/').all(ordinary)
            && !place.contains('\\')
            && !place.chars().any(pipeline::place::is_hidden);
        if fits {
            Ok(Self(place))
        } else {
            Err(PlaceError(place))
        }
    }

    /// Returns the path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the file's path on disk.
    pub fn below(&self, root: &Path) -> PathBuf {
        root.join(&self.0)
    }

    /// Opens the file and returns it with its size in bytes.
    ///
    /// # Errors
    /// If it is missing, it or a folder on its path is a symbolic link, or it is not a regular
    /// file.
    pub(crate) fn open(&self, root: &Path) -> io::Result<(File, u64)> {
        let mut path = root.to_owned();
        let mut parts = self.0.split('/').peekable();
        while let Some(part) = parts.next() {
            path.push(part);
            let metadata = fs::symlink_metadata(&path)?;
            let fits = if parts.peek().is_some() {
                metadata.is_dir()
            } else {
                metadata.is_file()
            };
            if !fits {
                return Err(io::Error::other(what_it_is(&metadata)));
            }
        }
        let file = File::open(&path)?;
        let size = file.metadata()?.len();
        Ok((file, size))
    }

    /// Reads the file if its size is at most `most` bytes.
    ///
    /// # Errors
    /// As [`BundlePath::open`], and if it is larger.
    pub(crate) fn read(&self, root: &Path, most: u64) -> io::Result<Vec<u8>> {
        let (file, size) = self.open(root)?;
        if size > most {
            return Err(io::Error::other(format!(
                "it has {size} bytes, more than the {most} that such a file may have"
            )));
        }
        let mut bytes = Vec::with_capacity(size as usize);
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

fn what_it_is(metadata: &fs::Metadata) -> &'static str {
    use std::os::unix::fs::FileTypeExt as _;
    let kind = metadata.file_type();
    if kind.is_symlink() {
        "a symbolic link is not followed in a bundle"
    } else if kind.is_dir() {
        "it is a directory where a file should be"
    } else if kind.is_file() {
        "it is a file where a directory should be"
    } else if kind.is_fifo() {
        "it is a FIFO: only regular files are opened"
    } else if kind.is_socket() {
        "it is a socket: only regular files are opened"
    } else {
        "it is a device: only regular files are opened"
    }
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not the place of a file in a bundle", self.0)
    }
}

impl std::error::Error for PlaceError {}

impl TryFrom<String> for BundlePath {
    type Error = PlaceError;

    fn try_from(place: String) -> Result<Self, PlaceError> {
        Self::new(place)
    }
}

impl From<BundlePath> for String {
    fn from(place: BundlePath) -> Self {
        place.0
    }
}

impl Deref for BundlePath {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BundlePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_place_cannot_lead_out_of_the_bundle() {
        for place in [
            "",
            "/",
            "/etc/passwd",
            "../x",
            "a/../../x",
            "a//b",
            "a/",
            "./a",
            "a\\b",
            "a\nb",
            "a\0",
            "read\u{200b}me",
            "gpj.\u{202e}sh",
            &["a"; 65].join("/"),
        ] {
            assert!(BundlePath::new(place).is_err(), "{place:?}");
            let json = serde_json::to_string(place).unwrap();
            assert!(
                serde_json::from_str::<BundlePath>(&json).is_err(),
                "{place:?}"
            );
        }
        for place in [
            "report/report.md",
            "store/objects/ab/cd",
            "data/größe 1.csv",
        ] {
            assert_eq!(BundlePath::new(place).unwrap().as_str(), place);
        }
    }

    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::write(root.join("file"), "text").unwrap();
        fs::create_dir(root.join("folder")).unwrap();
        symlink("/dev/zero", root.join("zero")).unwrap();
        symlink(root, root.join("loop")).unwrap();
        let _socket = UnixListener::bind(root.join("socket")).unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(root.join("fifo"))
            .status();
        assert!(made.unwrap().success());
        let read = |place: &str| BundlePath::new(place).unwrap().read(root, 100);
        assert_eq!(read("file").unwrap(), b"text");
        for (place, why) in [
            ("zero", "symbolic link"),
            ("loop/file", "symbolic link"),
            ("folder", "a directory"),
            ("file/below", "a file where a directory"),
            ("fifo", "FIFO"),
            ("socket", "socket"),
        ] {
            let error = read(place).unwrap_err().to_string();
            assert!(error.contains(why), "{place}: {error}");
        }
        let error = BundlePath::new("file").unwrap().read(root, 3);
        assert!(error.unwrap_err().to_string().contains("more than the 3"));
    }
}
