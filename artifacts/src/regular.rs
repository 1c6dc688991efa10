//! Opens files that another party may have placed. A FIFO could block for ever, a device has no end, and a size may
//! exceed the memory. The kernel's own file systems show its state as regular files of size 0; some never end, and others
//! show the variables of this process. Only regular files of other file systems are read, including through links. Nothing
//! is written through a link, because it may lead to any file of the user.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FsWord, OFlags, fstatfs};

/// Opens a regular file; returns it and its size in bytes.
///
/// # Errors
/// If the file is missing, cannot be opened, is not a regular file, or shows the state of the kernel or of a process.
pub fn open(path: &Path) -> io::Result<(File, u64)> {
    // Do not wait for a writer at the other end of a FIFO.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let opened = File::options().read(true).custom_flags(flags).open(path);
    // A socket cannot be opened at all.
    let file = match opened {
        Err(e) => match path.metadata() {
            Ok(metadata) if !metadata.is_file() => return Err(other(&metadata)),
            _ => return Err(e),
        },
        Ok(file) => file,
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(other(&metadata));
    }
    let kind = fstatfs(&file)?.f_type;
    if let Some((_, name)) = SYNTHETIC.iter().find(|(synthetic, _)| *synthetic == kind) {
        let reason = format!("it is a file of {name}, which shows the state of the system");
        return Err(io::Error::other(reason));
    }
    Ok((file, metadata.len()))
}

/// The file systems of the kernel that hold no files of a user, by their numbers in `linux/magic.h`.
const SYNTHETIC: [(FsWord, &str); 7] = [
    (0x0000_9fa0, "procfs"),
    (0x6265_6572, "sysfs"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0x6265_6570, "configfs"),
    (0x6367_7270, "cgroup2"),
];

/// Reads a regular file into memory, up to the size it had when it was opened.
///
/// # Errors
/// Same as [`open`], or if memory runs out.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let (file, size) = open(path)?;
    let mut bytes = reserved(size)?;
    file.take(size).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a regular file of a kind that is never larger than `most` bytes.
///
/// # Errors
/// Same as [`read`], or if the file is larger.
pub fn read_at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let (file, size) = open(path)?;
    if size > most {
        let reason = format!("it has {size} bytes; the limit is {most}");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    let mut bytes = Vec::new();
    file.take(size).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The size in bytes from which the memory of the machine is looked at. A file with a hole can have any size, and the
/// system grants memory that it does not have.
const LARGE: u64 = 256 << 20;

/// Returns room in memory for this many bytes of a file.
///
/// # Errors
/// If there is not as much memory.
pub(crate) fn reserved(size: u64) -> io::Result<Vec<u8>> {
    room(size, || {
        format!("it has {size} bytes, more than there is memory for")
    })
}

/// Returns the memory and the swap space in bytes that programs can still take, by the kernel's estimate.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kibibytes = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
        let value = lines.next()?.trim().strip_suffix("kB")?;
        value.trim().parse::<u64>().ok()
    };
    let memory = kibibytes("MemAvailable:")?;
    let swap = kibibytes("SwapFree:").unwrap_or(0);
    memory.saturating_add(swap).checked_mul(1024)
}

/// Returns whether this process may take this much more memory, by the memory of the machine and by its limits. A limit on its
/// addresses (`ulimit -v`) makes an allocation fail, which would end the process in the middle of its work.
///
/// # Errors
/// If the process cannot get that much memory.
pub fn room_for(bytes: u64) -> io::Result<()> {
    let reason = || {
        format!(
            "it takes about {} MiB of memory, more than this process can get",
            bytes.div_ceil(1 << 20)
        )
    };
    room(bytes, reason).map(drop)
}

/// Returns an empty list with room for this many bytes, or the reason as an error.
fn room(bytes: u64, reason: impl Fn() -> String) -> io::Result<Vec<u8>> {
    let refused = || io::Error::new(io::ErrorKind::OutOfMemory, reason());
    if bytes > LARGE && available().is_some_and(|available| bytes > available) {
        return Err(refused());
    }
    let mut room = Vec::new();
    let length = usize::try_from(bytes).unwrap_or(usize::MAX);
    room.try_reserve_exact(length).map_err(|_| refused())?;
    Ok(room)
}

/// Reads a regular file of text.
///
/// # Errors
/// Same as [`read`], or if the text is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    text_of(read(path)?)
}

/// Reads a regular file of text that is never larger than `most` bytes.
///
/// # Errors
/// Same as [`read_at_most`], or if the text is not UTF-8.
pub fn read_text_at_most(path: &Path, most: u64) -> io::Result<String> {
    text_of(read_at_most(path, most)?)
}

fn text_of(bytes: Vec<u8>) -> io::Result<String> {
    let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8");
    String::from_utf8(bytes).map_err(not_text)
}

/// Returns options to open a file for writing that is not a link, without waiting for a reader of a FIFO.
pub fn unlinked() -> OpenOptions {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
    options
}

/// Creates a regular file, or empties it.
///
/// # Errors
/// If the path is a link or not a regular file, or the file cannot be written.
pub fn create(path: &Path) -> io::Result<File> {
    let file = unlinked()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path);
    let file = match (file, path.symlink_metadata()) {
        (Err(_), Ok(metadata)) if !metadata.is_file() => return Err(other(&metadata)),
        (file, _) => file?,
    };
    let metadata = file.metadata()?;
    match metadata.is_file() {
        true => Ok(file),
        false => Err(other(&metadata)),
    }
}

fn other(metadata: &Metadata) -> io::Error {
    let kind = metadata.file_type();
    let what = match () {
        () if kind.is_symlink() => "a symbolic link",
        () if kind.is_fifo() => "a FIFO",
        () if kind.is_dir() => "a directory",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    io::Error::other(format!("it is {what}, not a regular file"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_file_with_a_hole_that_is_larger_than_the_memory_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hole");
        let size = available().expect("an estimate") + (1 << 30);
        File::create(&path).unwrap().set_len(size).unwrap();
        let error = read(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        assert!(error.to_string().contains("more than there is memory for"));
    }

    #[test]
    fn what_is_no_regular_file_is_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        symlink(at("file"), at("link")).unwrap();
        assert_eq!(read_text(&at("file")).unwrap(), "text");
        assert_eq!(read_text(&at("link")).unwrap(), "text");
        assert!(
            Command::new("mkfifo")
                .arg(at("fifo"))
                .status()
                .unwrap()
                .success()
        );
        symlink("/dev/zero", at("zero")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for (name, what) in [
            ("fifo", "a FIFO"),
            ("zero", "a device"),
            ("socket", "a socket"),
            (".", "a directory"),
        ] {
            let error = read(&at(name)).unwrap_err().to_string();
            assert_eq!(error, format!("it is {what}, not a regular file"));
        }
        assert_eq!(
            read(&at("none")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn what_the_kernel_shows_as_a_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("prompts.txt");
        symlink("/proc/self/environ", &link).unwrap();
        for (path, name) in [
            (Path::new("/proc/self/environ"), "procfs"),
            (Path::new("/proc/version"), "procfs"),
            (
                Path::new("/sys/kernel/mm/transparent_hugepage/enabled"),
                "sysfs",
            ),
            (&link, "procfs"),
        ] {
            // A container may lack a file of sysfs.
            if !path.exists() {
                continue;
            }
            let expected = format!("it is a file of {name}, which shows the state of the system");
            assert_eq!(open(path).unwrap_err().to_string(), expected);
            let hashed = crate::Digest::of_file(path).unwrap_err();
            assert_eq!(hashed.to_string(), expected);
        }
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        symlink(at("file"), at("link")).unwrap();
        symlink(at("new"), at("dangling")).unwrap();
        for name in ["link", "dangling"] {
            let error = create(&at(name)).unwrap_err().to_string();
            assert_eq!(error, "it is a symbolic link, not a regular file");
        }
        assert!(!at("new").exists());
        assert_eq!(read_text(&at("file")).unwrap(), "text");
        create(&at("file")).unwrap();
        assert_eq!(read_text(&at("file")).unwrap(), "");
    }

    #[test]
    fn a_file_larger_than_the_memory_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sparse");
        File::create(&path).unwrap().set_len(1 << 43).unwrap();
        let limit = rustix::process::Rlimit {
            current: Some(4 << 30),
            maximum: rustix::process::getrlimit(rustix::process::Resource::As).maximum,
        };
        rustix::process::setrlimit(rustix::process::Resource::As, limit).unwrap();
        let error = read(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory, "{error}");
        let error = room_for(5 << 30).unwrap_err();
        assert!(error.to_string().contains("about 5120 MiB"), "{error}");
        assert!(room_for(1 << 20).is_ok());
    }
}
