//! What a shared store needs of the place where it lies.

use std::fmt::Debug;
use std::path::Path;

use crate::error::RemoteError;

/// Takes in the bytes of an object piece by piece.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), RemoteError>;

/// A place that keeps bytes under names: `/` parts the segments of a name.
pub(crate) trait Backend: Debug + Send + Sync {
    /// Puts bytes under a name if it is free: all of them or nothing. Returns false if the name is taken:
    /// by others, or by this very put if its connection was cut and it was tried again.
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<bool, RemoteError>;

    /// Puts a file under a name, whatever was there. The name leads to the old or to the new bytes, never to a part.
    fn put_file(&self, name: &str, file: &Path) -> Result<(), RemoteError>;

    /// Puts bytes under a name, whatever was there: all of them or nothing.
    fn put_over(&self, name: &str, bytes: &[u8]) -> Result<(), RemoteError>;

    /// Frees a name; a name that is free stays so.
    fn remove(&self, name: &str) -> Result<(), RemoteError>;

    /// Returns the size in bytes of what a name leads to, `None` if it is free.
    fn size(&self, name: &str) -> Result<Option<u64>, RemoteError>;

    /// Reads what a name leads to; returns false if it is free.
    fn read(&self, name: &str, sink: Sink<'_>) -> Result<bool, RemoteError>;

    /// Returns the last segments of the names that begin with these segments.
    fn list(&self, folder: &str) -> Result<Vec<String>, RemoteError>;

    /// Returns all names below these segments, sorted, with their sizes in bytes.
    fn walk(&self, folder: &str) -> Result<Vec<(String, u64)>, RemoteError>;

    /// Makes durable what was put.
    fn settle(&self) -> Result<(), RemoteError>;
}
