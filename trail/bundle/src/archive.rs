//! A bundle as one file: `.tar.zst`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, FrameCompressor};

use crate::error::BundleError;
use crate::layout;
use crate::manifest::Manifest;
use crate::open::SEAL_BYTES;
use crate::place::BundlePath;

/// Writes a directory as a `.tar.zst`. Names are sorted and there are no owners or times, so that equal bundles give
/// equal archives. The entries lie under the directory's own name.
///
/// # Errors
/// If a file cannot be read or the archive cannot be written.
pub fn pack(folder: &Path, archive: &Path) -> Result<(), BundleError> {
    let fault = |e| BundleError::Io(archive.to_owned(), e);
    let name = folder.file_name().ok_or_else(|| {
        BundleError::Io(
            folder.to_owned(),
            io::Error::other("the directory has no name"),
        )
    })?;
    // The compressor pulls its input while the tar writer pushes its output, so a temporary file lies between them.
    let near = archive
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut plain = tempfile::tempfile_in(near).map_err(fault)?;
    {
        let mut builder = tar::Builder::new(io::BufWriter::new(&mut plain));
        let mut paths = files(folder).map_err(|e| BundleError::Io(folder.to_owned(), e))?;
        // The manifest comes first, because it states the sizes of the others.
        paths.sort_by_key(|path| path != layout::MANIFEST);
        for path in paths {
            let absolute = folder.join(&path);
            let read = |e| BundleError::Io(absolute.clone(), e);
            let file = fs::File::open(&absolute).map_err(read)?;
            let mut header = tar::Header::new_gnu();
            header.set_size(file.metadata().map_err(read)?.len());
            header.set_mode(0o644);
            header.set_mtime(0);
            header.set_cksum();
            builder
                .append_data(&mut header, Path::new(name).join(&path), file)
                .map_err(fault)?;
        }
        builder
            .into_inner()
            .and_then(|mut inner| inner.flush())
            .map_err(fault)?;
    }
    io::Seek::rewind(&mut plain).map_err(fault)?;
    let mut target = tempfile::NamedTempFile::new_in(near).map_err(fault)?;
    let drain = io::BufWriter::new(target.as_file_mut());
    compress(io::BufReader::new(plain), drain).map_err(fault)?;
    // Temporary files are private, but an archive is made for others.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    target
        .as_file()
        .set_permissions(open)
        .and_then(|()| target.as_file().sync_all())
        .map_err(fault)?;
    target.persist(archive).map_err(|e| fault(e.error))?;
    Ok(())
}

/// Compresses all of a source into a drain, and flushes the drain. The compressor panics at an error of either, so it
/// sees none.
fn compress(source: impl Read, drain: impl Write) -> io::Result<()> {
    let fault = RefCell::new(None);
    let (source, drain) = (Calm::new(source, &fault), Calm::new(drain, &fault));
    let mut compressor = FrameCompressor::new(CompressionLevel::Fastest);
    compressor.set_source(source);
    compressor.set_drain(drain);
    compressor.compress();
    if let Some(first) = fault.take() {
        return Err(first);
    }
    compressor
        .take_drain()
        .map_or(Ok(()), |mut drain| drain.flush())
}

/// A source or a drain that keeps its first error to itself. After an error of either, the source is at its end, and the
/// drain accepts everything.
struct Calm<'a, T> {
    inner: T,
    /// The first error, which source and drain share.
    fault: &'a RefCell<Option<io::Error>>,
}

impl<'a, T> Calm<'a, T> {
    fn new(inner: T, fault: &'a RefCell<Option<io::Error>>) -> Self {
        Self { inner, fault }
    }

    fn is_sound(&self) -> bool {
        self.fault.borrow().is_none()
    }
}

impl<T: Read> Read for Calm<'_, T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while self.is_sound() {
            match self.inner.read(bytes) {
                Ok(read) => return Ok(read),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => *self.fault.borrow_mut() = Some(e),
            }
        }
        Ok(0)
    }
}

impl<T: Write> Write for Calm<'_, T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_sound()
            && let Err(e) = self.inner.write_all(bytes)
        {
            *self.fault.borrow_mut() = Some(e);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

type Stream = StreamingDecoder<io::BufReader<fs::File>, ruzstd::decoding::FrameDecoder>;

fn open(archive: &Path) -> Result<tar::Archive<Stream>, BundleError> {
    let opened = artifacts::regular::open(archive);
    let (file, _) = opened.map_err(|e| BundleError::Io(archive.to_owned(), e))?;
    let stream = StreamingDecoder::new(io::BufReader::new(file)).map_err(|_| {
        let why = "it is neither a directory nor a .tar.zst archive";
        BundleError::NotABundle(archive.to_owned(), why.to_owned())
    })?;
    Ok(tar::Archive::new(stream))
}

/// Reads the manifest of a `.tar.zst`, its first entry, and nothing beyond it.
///
/// # Errors
/// If the file is not an archive of a bundle.
pub fn manifest_of(archive: &Path) -> Result<Manifest, BundleError> {
    let malformed = |what: String| BundleError::Malformed(archive.to_owned(), what);
    let damaged = |e: io::Error| malformed(format!("a damaged archive: {e}"));
    let mut tar = open(archive)?;
    let mut entries = tar.entries().map_err(damaged)?.raw(true);
    let (path, mut entry) = next(&mut entries)
        .map_err(damaged)?
        .ok_or_else(|| malformed("it is empty".to_owned()))?;
    let place = path.to_str().and_then(|path| path.split_once('/'));
    if place.is_none_or(|(_, place)| place != layout::MANIFEST) || entry.size() > SEAL_BYTES {
        return Err(malformed(format!(
            "it does not begin with {}",
            layout::MANIFEST
        )));
    }
    let mut text = Vec::new();
    entry.read_to_end(&mut text).map_err(damaged)?;
    Manifest::parse(&text).map_err(malformed)
}

/// Unpacks a `.tar.zst` into an empty directory and returns the name of the only directory in it. The first entry is
/// the manifest. From the others, it accepts only regular files that the manifest lists, with the listed sizes, and
/// only if all of them fit on the disk.
///
/// # Errors
/// If the archive is damaged, does not begin with the manifest, holds anything that the manifest does not list, or
/// needs more space than is available.
pub(crate) fn unpack(archive: &Path, into: &Path) -> Result<String, BundleError> {
    let malformed = |what: String| BundleError::Malformed(archive.to_owned(), what);
    let damaged = |e: io::Error| malformed(format!("a damaged archive: {e}"));
    let mut tar = open(archive)?;
    let mut expected: Option<Expected> = None;
    let mut entries = tar.entries().map_err(damaged)?.raw(true);
    while let Some((path, mut entry)) = next(&mut entries).map_err(damaged)? {
        let shown = path.to_string_lossy().escape_debug().to_string();
        let place = path.to_str().and_then(|path| path.split_once('/'));
        let place = place.and_then(|(top, place)| {
            Some((BundlePath::new(top).ok()?, BundlePath::new(place).ok()?))
        });
        let Some((top, place)) =
            place.filter(|_| entry.header().entry_type() == tar::EntryType::Regular)
        else {
            let folder = entry.header().entry_type() == tar::EntryType::Directory;
            let remedy = if folder {
                ": unpack the archive with `tar` and name the directory"
            } else {
                ""
            };
            return Err(malformed(format!(
                "{shown} is not a plain file of a bundle{remedy}"
            )));
        };
        let size = entry.size();
        let most = match &mut expected {
            None if place.as_str() != layout::MANIFEST => {
                return Err(malformed(format!(
                    "it does not begin with {}: unpack it with `tar` and name the directory",
                    layout::MANIFEST
                )));
            }
            None => SEAL_BYTES,
            Some(expected) => expected.take(&top, &place, size).map_err(&malformed)?,
        };
        if size > most {
            return Err(malformed(format!("{shown} has {size} bytes, not {most}")));
        }
        let target = place.below(&into.join(top.as_str()));
        let fault = |e| BundleError::Io(target.clone(), e);
        create(&target)
            .and_then(|file| copy((&mut entry).take(most), file))
            .map_err(|why| match why {
                Unwritten::Archive(what) => malformed(format!("{shown} {what}")),
                Unwritten::Read(e) => damaged(e),
                Unwritten::Machine(e) => fault(e),
            })?;
        if expected.is_none() {
            let text = fs::read(&target).map_err(fault)?;
            expected = Some(Expected::of(top, &text, into).map_err(&malformed)?);
        }
    }
    nothing_follows(tar.into_inner()).map_err(damaged)?;
    expected
        .map(|expected| expected.top.as_str().to_owned())
        .ok_or_else(|| malformed("it is empty".to_owned()))
}

/// The reason why an entry was not unpacked.
enum Unwritten {
    /// The archive holds something that no folder can hold.
    Archive(&'static str),
    /// The archive cannot be read.
    Read(io::Error),
    /// This machine refuses.
    Machine(io::Error),
}

/// Creates the file of an entry.
fn create(target: &Path) -> Result<fs::File, Unwritten> {
    let parent = target.parent().unwrap_or(target);
    fs::create_dir_all(parent)
        .and_then(|()| fs::File::create_new(target))
        .map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                Unwritten::Archive("is there twice, or one of its names is a file and a folder")
            }
            io::ErrorKind::InvalidFilename => {
                Unwritten::Archive("has a name that is too long for a file system")
            }
            _ => Unwritten::Machine(e),
        })
}

/// Writes the bytes of an entry. What cannot be written is no fault of the archive.
fn copy(mut entry: impl Read, mut file: fs::File) -> Result<(), Unwritten> {
    let mut piece = vec![0; 1 << 16];
    loop {
        let read = match entry.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Unwritten::Read(e)),
        };
        file.write_all(&piece[..read]).map_err(Unwritten::Machine)?;
    }
}

/// The most bytes of a header that holds the name of the next entry.
const NAME_BYTES: u64 = 64 << 10;

/// The most such headers before an entry: one of each kind. Otherwise a small archive could go on for ever.
const NAME_HEADERS: u32 = 2;

/// Returns the next entry and its name, which may come from a preceding header entry. The library would read such an
/// entry completely, whatever its size.
fn next<'a, R: Read>(
    entries: &mut tar::Entries<'a, R>,
) -> io::Result<Option<(PathBuf, tar::Entry<'a, R>)>> {
    let mut named = None;
    let mut headers = 0;
    for entry in entries.by_ref() {
        let mut entry = entry?;
        let kind = entry.header().entry_type();
        if !kind.is_gnu_longname() && !kind.is_pax_local_extensions() {
            let path = match named {
                Some(path) => path,
                None => entry.path()?.into_owned(),
            };
            return Ok(Some((path, entry)));
        }
        headers += 1;
        if headers > NAME_HEADERS {
            return Err(io::Error::other(format!(
                "an entry has more than {NAME_HEADERS} headers with its name"
            )));
        }
        if entry.size() > NAME_BYTES {
            let size = entry.size();
            return Err(io::Error::other(format!(
                "the name of an entry has {size} bytes"
            )));
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        if kind.is_gnu_longname() {
            while bytes.last() == Some(&0) {
                bytes.pop();
            }
            named = Some(PathBuf::from(OsString::from_vec(bytes)));
            continue;
        }
        for extension in tar::PaxExtensions::new(&bytes) {
            let extension = extension?;
            match extension.key_bytes() {
                b"path" => named = Some(PathBuf::from(OsStr::from_bytes(extension.value_bytes()))),
                b"mtime" | b"atime" | b"ctime" => {}
                other => {
                    let key = String::from_utf8_lossy(other).escape_debug().to_string();
                    return Err(io::Error::other(format!(
                        "an entry has the attribute `{key}`"
                    )));
                }
            }
        }
    }
    Ok(None)
}

/// Checks that an archive ends with its last entry, except for the zeros that fill its last record.
fn nothing_follows(mut stream: Stream) -> io::Result<()> {
    let mut rest = Vec::new();
    (&mut stream).take(NAME_BYTES).read_to_end(&mut rest)?;
    let mut after = [0];
    let file = stream.get_mut();
    match rest.iter().all(|byte| *byte == 0) && file.read(&mut after)? == 0 {
        true => Ok(()),
        false => Err(io::Error::other("data follows its last entry")),
    }
}

/// What an archive may hold, according to the manifest.
struct Expected {
    top: BundlePath,
    /// The sizes in bytes of the files that have not been read yet.
    sizes: BTreeMap<BundlePath, u64>,
}

impl Expected {
    fn of(top: BundlePath, manifest: &[u8], into: &Path) -> Result<Self, String> {
        let manifest =
            Manifest::parse(manifest).map_err(|e| format!("{}: {e}", layout::MANIFEST))?;
        let total = manifest.total_bytes();
        let disk = rustix::fs::statvfs(into).map_err(|e| e.to_string())?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if total > free {
            return Err(format!(
                "it unpacks to {total} bytes and {} has {free} free",
                into.display()
            ));
        }
        let sizes = manifest.files.into_iter().map(|f| (f.path, f.bytes));
        Ok(Self {
            top,
            sizes: sizes.collect(),
        })
    }

    /// Removes a file from the list and returns its maximum size in bytes.
    fn take(&mut self, top: &BundlePath, place: &BundlePath, size: u64) -> Result<u64, String> {
        if *top != self.top {
            return Err("it holds more than one directory".to_owned());
        }
        if let Some(bytes) = self.sizes.remove(place) {
            return if bytes == size {
                Ok(bytes)
            } else {
                Err(format!(
                    "{place} has {size} bytes, the manifest says {bytes}"
                ))
            };
        }
        let seal = [layout::STATEMENT, layout::ATTESTATION, layout::SUMS];
        if seal.contains(&place.as_str()) {
            Ok(SEAL_BYTES)
        } else {
            Err(format!("{place} is not in the manifest, or is there twice"))
        }
    }
}

/// Returns the files below a folder, as sorted relative paths with `/`.
///
/// # Errors
/// If a name is not text, or the folder cannot be listed.
fn files(folder: &Path) -> io::Result<Vec<String>> {
    let listed = list(folder)?;
    match listed.nameless.first() {
        Some(path) => Err(io::Error::other(format!("the name {path} is not text"))),
        None => Ok(listed.files),
    }
}

/// What lies below a folder.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    /// The files, as sorted relative paths with `/`.
    pub(crate) files: Vec<String>,
    /// The files and folders whose names are not text, so that no manifest can list them; escaped.
    pub(crate) nameless: Vec<String>,
}

/// Lists all files of a folder and its subfolders.
pub(crate) fn list(folder: &Path) -> io::Result<Listed> {
    fn walk(folder: &Path, prefix: &str, listed: &mut Listed) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = match entry.file_name().into_string() {
                Ok(name) => name,
                Err(name) => {
                    listed
                        .nameless
                        .push(format!("{:?}", Path::new(prefix).join(name)));
                    continue;
                }
            };
            let path = if prefix.is_empty() {
                name
            } else {
                format!("{prefix}/{name}")
            };
            if entry.file_type()?.is_dir() {
                walk(&entry.path(), &path, listed)?;
            } else {
                listed.files.push(path);
            }
        }
        Ok(())
    }
    let mut listed = Listed::default();
    walk(folder, "", &mut listed)?;
    listed.files.sort();
    listed.nameless.sort();
    Ok(listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the manifest of a bundle whose only file is a report.
    fn manifest(report: &[u8]) -> Vec<u8> {
        let place = |text: &str| BundlePath::new(text).unwrap();
        let manifest = Manifest {
            format: crate::manifest::FORMAT,
            experiment: "study".to_owned(),
            lock: place("study.lock"),
            colophon: crate::manifest::Colophon {
                experiment: place("study.yaml"),
                carried: Vec::new(),
                left_out: Vec::new(),
                without: Vec::new(),
                authors: vec!["Ada Lovelace".to_owned()],
                license: "CC-BY-4.0".to_owned(),
                version: "0.1.0".to_owned(),
            },
            trail: artifacts::Digest::of(b"trail"),
            allowed: Vec::new(),
            files: vec![crate::manifest::Entry::of_bytes(
                &place("report/report.md"),
                report,
            )],
        };
        manifest.to_bytes()
    }

    fn sample() -> tempfile::TempDir {
        sample_of(100_000)
    }

    fn sample_of(lines: usize) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("b/report")).unwrap();
        let text = "text\n".repeat(lines);
        fs::write(
            folder.path().join("b/manifest.json"),
            manifest(text.as_bytes()),
        )
        .unwrap();
        fs::write(folder.path().join("b/report/report.md"), text).unwrap();
        folder
    }

    #[test]
    fn a_bundle_survives_its_archive() {
        let folder = sample();
        let archive = folder.path().join("b.tar.zst");
        pack(&folder.path().join("b"), &archive).unwrap();
        let out = tempfile::tempdir().unwrap();
        assert_eq!(unpack(&archive, out.path()).unwrap(), "b");
        assert_eq!(manifest_of(&archive).unwrap().experiment, "study");
        assert_eq!(
            files(&out.path().join("b")).unwrap(),
            ["manifest.json", "report/report.md"]
        );
        let read = |root: &Path| fs::read(root.join("b/report/report.md")).unwrap();
        assert_eq!(read(out.path()), read(folder.path()));
        assert!(
            fs::metadata(&archive).unwrap().len() < 50_000,
            "it is compressed"
        );
    }

    #[test]
    fn equal_bundles_give_equal_archives() {
        let archive = |folder: &tempfile::TempDir| {
            let path = folder.path().join("b.tar.zst");
            pack(&folder.path().join("b"), &path).unwrap();
            fs::read(path).unwrap()
        };
        assert_eq!(archive(&sample()), archive(&sample()));
    }

    /// A disk with room for so many bytes.
    struct Disk(usize);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let written = bytes.len().min(self.0);
            self.0 -= written;
            match written {
                0 if !bytes.is_empty() => Err(io::ErrorKind::StorageFull.into()),
                written => Ok(written),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A file whose reads fail with these errors, the last first, and then end.
    struct Faulty(Vec<io::ErrorKind>);

    impl Read for Faulty {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            self.0.pop().map_or(Ok(0), |kind| Err(kind.into()))
        }
    }

    #[test]
    fn a_disk_that_is_full_is_an_error_even_if_only_the_last_flush_meets_it() {
        let text = b"text\n".repeat(100_000);
        for room in [0, 10] {
            for buffer in [1, 1 << 20] {
                let drain = io::BufWriter::with_capacity(buffer, Disk(room));
                let error = compress(text.as_slice(), drain).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::StorageFull);
            }
        }
        compress(text.as_slice(), Disk(50_000)).unwrap();
    }

    #[test]
    fn a_source_that_cannot_be_read_is_an_error_and_an_interrupted_read_is_none() {
        let packed = |faults: &[io::ErrorKind]| {
            let text: &[u8] = b"text\n";
            let mut packed: Vec<u8> = Vec::new();
            compress(text.chain(Faulty(faults.to_vec())), &mut packed).map(|()| packed)
        };
        let error = packed(&[io::ErrorKind::PermissionDenied]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let whole = packed(&[]).unwrap();
        assert_eq!(packed(&[io::ErrorKind::Interrupted]).unwrap(), whole);
    }

    proptest::proptest! {
        /// `PROPTEST_CASES=5000 cargo test -p bundle mutated` tries more cases.
        #[test]
        fn a_mutated_archive_is_refused_or_unpacked_below_its_folder(
            edits in proptest::collection::vec(
                (proptest::prelude::any::<proptest::sample::Index>(), 1_u8..), 1..6),
            compressed in proptest::prelude::any::<bool>(),
        ) {
            let folder = sample_of(500);
            let path = folder.path().join("b.tar.zst");
            pack(&folder.path().join("b"), &path).unwrap();
            let mut bytes = fs::read(&path).unwrap();
            let mut plain = Vec::new();
            if !compressed {
                // Faults in the tar itself, inside intact compression.
                let mut decoder = StreamingDecoder::new(bytes.as_slice()).unwrap();
                Read::read_to_end(&mut decoder, &mut plain).unwrap();
                plain.truncate(4096);
                bytes = plain;
            }
            for (place, byte) in &edits {
                let at = place.index(bytes.len());
                bytes[at] ^= byte;
            }
            if !compressed {
                bytes = ruzstd::encoding::compress_to_vec(bytes.as_slice(), CompressionLevel::Fastest);
            }
            fs::write(&path, &bytes).unwrap();
            let out = tempfile::tempdir().unwrap();
            let inner = out.path().join("inner");
            fs::create_dir(&inner).unwrap();
            let _ = unpack(&path, &inner);
            let beside: Vec<_> = fs::read_dir(out.path()).unwrap().flatten().collect();
            proptest::prop_assert_eq!(beside.len(), 1, "nothing lies beside the folder");
        }
    }

    #[test]
    fn an_archive_cannot_write_outside_its_directory_or_make_links() {
        let folder = tempfile::tempdir().unwrap();
        let pack_tar = |build: &dyn Fn(&mut tar::Builder<Vec<u8>>)| {
            let mut builder = tar::Builder::new(Vec::new());
            build(&mut builder);
            let plain = builder.into_inner().unwrap();
            let packed =
                ruzstd::encoding::compress_to_vec(plain.as_slice(), CompressionLevel::Fastest);
            let path = folder.path().join("x.tar.zst");
            fs::write(&path, packed).unwrap();
            let out = tempfile::tempdir().unwrap();
            unpack(&path, out.path()).unwrap_err().to_string()
        };
        let outside = pack_tar(&|builder| {
            let mut header = tar::Header::new_gnu();
            header.as_mut_bytes()[..7].copy_from_slice(b"../evil");
            header.set_size(1);
            header.set_cksum();
            builder.append(&header, &b"x"[..]).unwrap();
        });
        assert!(outside.contains("not a plain file"), "{outside}");
        let link = pack_tar(&|builder| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            builder
                .append_link(&mut header, "b/link", "/etc/passwd")
                .unwrap();
        });
        assert!(link.contains("not a plain file"), "{link}");
        let directory = pack_tar(&|builder| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Directory);
            header.set_size(0);
            let nothing: &[u8] = b"";
            builder.append_data(&mut header, "b/", nothing).unwrap();
        });
        assert!(
            directory.contains("unpack the archive with `tar`"),
            "{directory}"
        );
    }

    #[test]
    fn an_archive_holds_what_its_manifest_lists_and_not_a_byte_more() {
        let folder = tempfile::tempdir().unwrap();
        let packed = |files: &[(&str, &[u8])]| {
            let mut builder = tar::Builder::new(Vec::new());
            for (name, bytes) in files {
                let mut header = tar::Header::new_gnu();
                header.set_size(bytes.len() as u64);
                header.set_cksum();
                builder.append_data(&mut header, name, *bytes).unwrap();
            }
            let plain = builder.into_inner().unwrap();
            let packed =
                ruzstd::encoding::compress_to_vec(plain.as_slice(), CompressionLevel::Fastest);
            let path = folder.path().join("x.tar.zst");
            fs::write(&path, packed).unwrap();
            let out = tempfile::tempdir().unwrap();
            unpack(&path, out.path()).map_err(|e| e.to_string())
        };
        let listed = manifest(b"four");
        assert_eq!(
            packed(&[
                ("b/manifest.json", &listed),
                ("b/report/report.md", b"four")
            ]),
            Ok("b".to_owned())
        );
        let bomb = vec![0; 5_000_000];
        for (files, why) in [
            (
                vec![("b/report/report.md", &b"four"[..])],
                "does not begin with manifest.json",
            ),
            (
                vec![
                    ("b/manifest.json", &listed[..]),
                    ("b/report/report.md", &bomb[..]),
                ],
                "the manifest says 4",
            ),
            (
                vec![("b/manifest.json", &listed[..]), ("b/zeros", &bomb[..])],
                "is not in the manifest",
            ),
            (
                vec![
                    ("b/manifest.json", &listed[..]),
                    ("c/report/report.md", &b"four"[..]),
                ],
                "more than one directory",
            ),
        ] {
            let error = packed(&files).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn an_archive_ends_with_its_last_entry_and_names_are_short() {
        let folder = tempfile::tempdir().unwrap();
        let listed = manifest(b"four");
        let unpacked = |names: &[(tar::EntryType, &[u8])], in_tar: &[u8], after: &[u8]| {
            let mut builder = tar::Builder::new(Vec::new());
            let mut add = |kind, name: &str, bytes: &[u8]| {
                let mut header = tar::Header::new_ustar();
                header.set_entry_type(kind);
                header.set_size(bytes.len() as u64);
                header.set_cksum();
                builder.append_data(&mut header, name, bytes).unwrap();
            };
            add(tar::EntryType::Regular, "b/manifest.json", &listed);
            for (kind, name) in names {
                add(*kind, "name", name);
            }
            add(tar::EntryType::Regular, "b/report/report.md", b"four");
            let mut plain = builder.into_inner().unwrap();
            plain.extend_from_slice(in_tar);
            let mut packed =
                ruzstd::encoding::compress_to_vec(plain.as_slice(), CompressionLevel::Fastest);
            packed.extend_from_slice(after);
            let path = folder.path().join("x.tar.zst");
            fs::write(&path, packed).unwrap();
            let out = tempfile::tempdir().unwrap();
            unpack(&path, out.path()).map_err(|e| e.to_string())
        };
        let whole = Ok("b".to_owned());
        let (long, pax) = (tar::EntryType::GNULongName, tar::EntryType::XHeader);
        assert_eq!(unpacked(&[], &[0; 8192], b""), whole);
        assert_eq!(
            unpacked(&[(long, b"b/report/report.md\0")], b"", b""),
            whole
        );
        assert_eq!(
            unpacked(&[(pax, b"27 path=b/report/report.md\n")], b"", b""),
            whole
        );
        let huge = vec![b'x'; 10 << 20];
        for (refused, why) in [
            (unpacked(&[], b"more", b""), "data follows"),
            (unpacked(&[], b"", b"more"), "data follows"),
            (unpacked(&[(long, &huge)], b"", b""), "has 10485760 bytes"),
            (unpacked(&[(pax, &huge)], b"", b""), "has 10485760 bytes"),
            (
                unpacked(&[(long, b"b/x".as_slice()); 1000], b"", b""),
                "more than 2 headers",
            ),
            (
                unpacked(&[(long, b"../evil")], b"", b""),
                "not a plain file",
            ),
            (
                unpacked(&[(pax, b"13 size=9999\n")], b"", b""),
                "the attribute `size`",
            ),
        ] {
            let reason = refused.unwrap_err();
            assert!(reason.contains(why), "{reason}");
        }
    }

    #[test]
    fn names_that_exclude_each_other_are_a_fault_of_the_archive() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |listed: &[&str], entries: &[&str]| {
            let mut manifest = Manifest::parse(&manifest(b"four")).unwrap();
            for name in listed {
                let place = BundlePath::new(*name).unwrap();
                let entry = crate::manifest::Entry::of_bytes(&place, b"");
                manifest.files.push(entry);
            }
            let manifest = manifest.to_bytes();
            let mut builder = tar::Builder::new(Vec::new());
            let files = entries.iter().map(|name| (*name, &b""[..]));
            for (name, bytes) in [("manifest.json", &manifest[..])].into_iter().chain(files) {
                let mut header = tar::Header::new_gnu();
                header.set_size(bytes.len() as u64);
                header.set_cksum();
                let name = format!("b/{name}");
                builder.append_data(&mut header, name, bytes).unwrap();
            }
            let plain = builder.into_inner().unwrap();
            let packed =
                ruzstd::encoding::compress_to_vec(plain.as_slice(), CompressionLevel::Fastest);
            let path = folder.path().join("x.tar.zst");
            fs::write(&path, packed).unwrap();
            let out = tempfile::tempdir().unwrap();
            let error = unpack(&path, out.path()).unwrap_err();
            assert!(matches!(error, BundleError::Malformed(..)), "{error}");
            error.to_string()
        };
        let long = "x".repeat(300);
        let twice = "is there twice";
        for (why, listed, entries) in [
            (twice, vec![], vec![layout::STATEMENT, layout::STATEMENT]),
            (twice, vec!["a", "a/b"], vec!["a", "a/b"]),
            (twice, vec!["a", "a/b"], vec!["a/b", "a"]),
            (twice, vec!["a", "a/b/c"], vec!["a", "a/b/c"]),
            ("too long", vec![long.as_str()], vec![long.as_str()]),
        ] {
            let error = refused(&listed, &entries);
            assert!(error.contains(why), "{entries:?}: {error}");
        }
    }

    #[test]
    fn a_manifest_that_would_take_all_memory_is_refused() {
        let mut longer = br#"{"format": 2, "x": ["#.to_vec();
        longer.extend(b"0,".repeat(40 << 20));
        longer.extend(b"0]}");
        let error = Manifest::parse(&longer).unwrap_err();
        assert!(error.contains("MiB of memory"), "{error}");
    }

    #[test]
    fn an_archive_larger_than_the_disk_is_refused_before_it_is_unpacked() {
        let mut listed = Manifest::parse(&manifest(b"four")).unwrap();
        listed.files[0].bytes = u64::MAX;
        let top = BundlePath::new("b").unwrap();
        let error = Expected::of(top, &listed.to_bytes(), &std::env::temp_dir()).err();
        assert!(error.unwrap().contains("free"));
    }

    #[test]
    fn a_truncated_archive_is_damaged() {
        let folder = sample();
        let archive = folder.path().join("b.tar.zst");
        pack(&folder.path().join("b"), &archive).unwrap();
        let bytes = fs::read(&archive).unwrap();
        fs::write(&archive, &bytes[..bytes.len() / 2]).unwrap();
        assert!(matches!(
            unpack(&archive, tempfile::tempdir().unwrap().path()),
            Err(BundleError::Malformed(..))
        ));
    }
}
