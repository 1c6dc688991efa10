//! What a shared store requires of its place.

use std::fmt::Debug;
use std::path::Path;

use crate::error::RemoteError;

/// Receives the bytes of an object piece by piece.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), RemoteError>;

/// A place that stores bytes under names, whose segments are separated by `/`.
pub(crate) trait Backend: Debug + Send + Sync {
    /// Puts bytes under a free name: all of them or none. Returns false if the name is taken, by another put or by this
    /// one, if it was retried after a cut connection.
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<bool, RemoteError>;

    /// Puts a file under a name, free or taken. The name always leads to the complete old or new bytes.
    fn put_file(&self, name: &str, file: &Path) -> Result<(), RemoteError>;

    /// Puts bytes under a name, free or taken: all of them or none.
    fn put_over(&self, name: &str, bytes: &[u8]) -> Result<(), RemoteError>;

    /// Frees a name. A free name stays free.
    fn remove(&self, name: &str) -> Result<(), RemoteError>;

    /// Returns the size in bytes of a name's content; `None` if it is free.
    fn size(&self, name: &str) -> Result<Option<u64>, RemoteError>;

    /// Reads the content of a name; returns false if it is free.
    fn read(&self, name: &str, sink: Sink<'_>) -> Result<bool, RemoteError>;

    /// Returns the last segments of the names that begin with these segments.
    fn list(&self, folder: &str) -> Result<Vec<String>, RemoteError>;

    /// Returns all names below these segments, sorted, with their sizes in bytes.
    fn walk(&self, folder: &str) -> Result<Vec<(String, u64)>, RemoteError>;

    /// Makes all earlier puts durable.
    fn settle(&self) -> Result<(), RemoteError>;
}
