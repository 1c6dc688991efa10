//! A bundle as one file: `.tar.zst`.

use std::fs;
use std::io::{self, Read, Write as _};
use std::path::{Component, Path};

use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, FrameCompressor};

use crate::error::BundleError;

/// No bundle unpacks to more than this: a small archive must not fill a disk.
const MOST_BYTES: u64 = 64 << 30;

/// Writes a directory as a `.tar.zst`: names sorted, no owner, no time, so that equal bundles
/// give equal archives. The entries lie under the directory's own name.
///
/// # Errors
/// If a file cannot be read or the archive not be written.
pub fn pack(folder: &Path, archive: &Path) -> Result<(), BundleError> {
    let fault = |e| BundleError::Io(archive.to_owned(), e);
    let name = folder.file_name().ok_or_else(|| {
        BundleError::Io(
            folder.to_owned(),
            io::Error::other("the directory has no name"),
        )
    })?;
    // The compressor reads while the tar is written: a temporary file lies between them, since
    // both want to drive.
    let near = archive
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut plain = tempfile::tempfile_in(near).map_err(fault)?;
    {
        let mut builder = tar::Builder::new(io::BufWriter::new(&mut plain));
        for path in files(folder).map_err(|e| BundleError::Io(folder.to_owned(), e))? {
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
    let mut compressor = FrameCompressor::new(CompressionLevel::Fastest);
    compressor.set_source(io::BufReader::new(plain));
    compressor.set_drain(io::BufWriter::new(target.as_file_mut()));
    compressor.compress();
    drop(compressor);
    // A temporary file is closed to others; an archive is made to be given away.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    target
        .as_file()
        .set_permissions(open)
        .and_then(|()| target.as_file().sync_all())
        .map_err(fault)?;
    target.persist(archive).map_err(|e| fault(e.error))?;
    Ok(())
}

/// Unpacks a `.tar.zst` into an empty directory and returns the name of the one directory that
/// it holds. Only regular files below it are taken.
///
/// # Errors
/// If the archive is damaged, or holds something else than files below one directory.
pub fn unpack(archive: &Path, into: &Path) -> Result<String, BundleError> {
    let malformed = |what: String| BundleError::Malformed(archive.to_owned(), what);
    let damaged = |e: io::Error| malformed(format!("a damaged archive: {e}"));
    let file = fs::File::open(archive).map_err(|e| BundleError::Io(archive.to_owned(), e))?;
    let stream = StreamingDecoder::new(io::BufReader::new(file))
        .map_err(|e| malformed(format!("no zstd archive: {e}")))?;
    let mut tar = tar::Archive::new(stream.take(MOST_BYTES));
    let mut top: Option<String> = None;
    for entry in tar.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let path = entry.path().map_err(damaged)?.into_owned();
        let plain = path.components().all(|c| matches!(c, Component::Normal(_)));
        if !plain || entry.header().entry_type() != tar::EntryType::Regular {
            return Err(malformed(format!(
                "{} is no plain file of a bundle",
                path.display()
            )));
        }
        let first = path
            .components()
            .next()
            .and_then(|c| c.as_os_str().to_str())
            .map(str::to_owned);
        let first = first.ok_or_else(|| malformed("a name that is no text".to_owned()))?;
        if *top.get_or_insert_with(|| first.clone()) != first {
            return Err(malformed("it holds more than one directory".to_owned()));
        }
        let target = into.join(&path);
        let fault = |e| BundleError::Io(target.clone(), e);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(fault)?;
        }
        let mut file = fs::File::create_new(&target).map_err(fault)?;
        io::copy(&mut entry, &mut file).map_err(damaged)?;
    }
    top.ok_or_else(|| malformed("it is empty".to_owned()))
}

/// Returns the files below a folder, as sorted relative paths with `/`.
pub(crate) fn files(folder: &Path) -> io::Result<Vec<String>> {
    fn walk(folder: &Path, prefix: &str, found: &mut Vec<String>) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().into_string().map_err(|name| {
                io::Error::other(format!("{} is no text", Path::new(&name).display()))
            })?;
            let path = if prefix.is_empty() {
                name
            } else {
                format!("{prefix}/{name}")
            };
            if entry.file_type()?.is_dir() {
                walk(&entry.path(), &path, found)?;
            } else {
                found.push(path);
            }
        }
        Ok(())
    }
    let mut found = Vec::new();
    walk(folder, "", &mut found)?;
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("b/report")).unwrap();
        fs::write(folder.path().join("b/manifest.json"), "{}").unwrap();
        fs::write(
            folder.path().join("b/report/report.md"),
            "text\n".repeat(100_000),
        )
        .unwrap();
        folder
    }

    #[test]
    fn a_bundle_survives_its_archive() {
        let folder = sample();
        let archive = folder.path().join("b.tar.zst");
        pack(&folder.path().join("b"), &archive).unwrap();
        let out = tempfile::tempdir().unwrap();
        assert_eq!(unpack(&archive, out.path()).unwrap(), "b");
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
        assert!(outside.contains("no plain file"), "{outside}");
        let link = pack_tar(&|builder| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            builder
                .append_link(&mut header, "b/link", "/etc/passwd")
                .unwrap();
        });
        assert!(link.contains("no plain file"), "{link}");
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
