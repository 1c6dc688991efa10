//! Logs of programs that may write without end. What is kept of a log has a limit, and so has the log itself.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// The longest log that is kept whole, bytes. Of a longer one, the first and the last half of this are kept.
const KEPT: u64 = 64 << 20;

/// The most that a program may write to its log, bytes.
const MOST: u64 = 4 << 30;

/// Reads a log from its beginning. A long log lacks its middle; a line there says how many bytes are left out.
///
/// # Errors
/// If it cannot be read.
pub fn read(log: &mut File) -> io::Result<Vec<u8>> {
    read_at_most(log, KEPT)
}

fn read_at_most(log: &mut File, kept: u64) -> io::Result<Vec<u8>> {
    let length = log.metadata()?.len();
    let mut start = Vec::new();
    log.rewind()?;
    if length <= kept {
        log.take(kept).read_to_end(&mut start)?;
        return Ok(start);
    }
    let half = kept / 2;
    log.by_ref().take(half).read_to_end(&mut start)?;
    // Only whole lines, so that nothing is cut in two that is masked later.
    start.truncate(
        start
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |at| at + 1),
    );
    let mut end = Vec::new();
    log.seek(SeekFrom::Start(length - half))?;
    log.take(half).read_to_end(&mut end)?;
    let from = end
        .iter()
        .position(|b| *b == b'\n')
        .map_or(end.len(), |at| at + 1);
    let left_out = length - (start.len() + end.len() - from) as u64;
    let mark = format!("benchtrail: {left_out} bytes of the log are left out here\n");
    start.extend_from_slice(mark.as_bytes());
    start.extend_from_slice(&end[from..]);
    Ok(start)
}

/// Returns a text of a program without the escape sequences that colour it or move the cursor. Many servers write them
/// also to files.
pub fn uncoloured(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

/// Checks that a log is not longer than a program may write.
///
/// # Errors
/// One sentence with the limit, if it is.
pub fn check(log: &Path) -> Result<(), String> {
    check_against(log, MOST)
}

fn check_against(log: &Path, most: u64) -> Result<(), String> {
    let length = log.metadata().map_or(0, |metadata| metadata.len());
    match length <= most {
        true => Ok(()),
        false => Err(format!("it wrote more than {} MiB to its log", most >> 20)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_long_log_keeps_whole_lines_of_its_start_and_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let read = |text: &str, kept| {
            fs::write(&path, text).unwrap();
            let mut file = File::open(&path).unwrap();
            String::from_utf8(read_at_most(&mut file, kept).unwrap()).unwrap()
        };
        let lines: String = (0..100).map(|i| format!("line {i:02}\n")).collect();
        assert_eq!(read(&lines, 800), lines);
        assert_eq!(
            read(&lines, 50),
            "line 00\nline 01\nline 02\nbenchtrail: 752 bytes of the log are left out here\n\
             line 97\nline 98\nline 99\n"
        );
        let endless = "x".repeat(1000);
        assert_eq!(
            read(&endless, 50),
            "benchtrail: 1000 bytes of the log are left out here\n"
        );
        assert_eq!(read("", 50), "");
    }

    #[test]
    fn a_log_beyond_the_limit_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        File::create(&path).unwrap().set_len(3 << 20).unwrap();
        assert_eq!(check_against(&path, 3 << 20), Ok(()));
        let refused = check_against(&path, 2 << 20).unwrap_err();
        assert_eq!(refused, "it wrote more than 2 MiB to its log");
        assert_eq!(check(&folder.path().join("none")), Ok(()));
    }
}
