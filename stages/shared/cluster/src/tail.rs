//! The end of an output, which may have gigabytes.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// Reads at most this many bytes from the end of a file.
///
/// # Errors
/// If the file is missing or cannot be read.
pub(crate) fn read(file: &Path, most: usize) -> io::Result<Vec<u8>> {
    let mut file = File::open(file)?;
    let most = most as u64;
    let end = file.metadata()?.len();
    file.seek(SeekFrom::Start(end.saturating_sub(most)))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn of_an_output_larger_than_the_memory_the_end_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = File::create(&path).unwrap();
        log.write_all(b"short\n").unwrap();
        assert_eq!(read(&path, 100).unwrap(), b"short\n");
        // Terabytes, without room on the disk.
        log.set_len(1 << 42).unwrap();
        log.seek(SeekFrom::End(0)).unwrap();
        log.write_all(b"the end\n").unwrap();
        assert_eq!(read(&path, 8).unwrap(), b"the end\n");
        assert!(read(&folder.path().join("none"), 8).is_err());
    }
}
