//! Files of other kinds in the place of a table or of another text.

/// A kind of file that is neither text nor a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherKind {
    /// What the file is, as a sentence: `it is a ZIP archive`.
    pub what: &'static str,
    /// How to make it readable; `FILE` stands for its name.
    pub remedy: &'static str,
}

/// How files of other kinds begin.
const BEGINNINGS: [(&[u8], OtherKind); 8] = [
    (
        b"\x1f\x8b",
        OtherKind {
            what: "it is compressed with gzip",
            remedy: "unpack it (`gunzip --keep FILE`) and name the file in it",
        },
    ),
    (
        b"\x28\xb5\x2f\xfd",
        OtherKind {
            what: "it is compressed with zstd",
            remedy: "unpack it (`zstd -d FILE`) and name the file in it",
        },
    ),
    (
        b"\xfd7zXZ",
        OtherKind {
            what: "it is compressed with xz",
            remedy: "unpack it (`xz --decompress --keep FILE`) and name the file in it",
        },
    ),
    (
        b"BZh",
        OtherKind {
            what: "it is compressed with bzip2",
            remedy: "unpack it (`bunzip2 --keep FILE`) and name the file in it",
        },
    ),
    (
        b"PK\x03\x04",
        OtherKind {
            what: "it is a ZIP archive or a spreadsheet",
            remedy: "unpack an archive (`unzip FILE`) and name a file of it; save a spreadsheet as CSV",
        },
    ),
    (
        b"\xff\xfe",
        OtherKind {
            what: "the file is UTF-16, not UTF-8",
            remedy: "save the file as UTF-8, for example with `iconv -f UTF-16 -t UTF-8`",
        },
    ),
    (
        b"\xfe\xff",
        OtherKind {
            what: "the file is UTF-16, not UTF-8",
            remedy: "save the file as UTF-8, for example with `iconv -f UTF-16 -t UTF-8`",
        },
    ),
    (
        b"version https://git-lfs.github.com/spec/",
        OtherKind {
            what: "it is a pointer of Git LFS, not the file itself",
            remedy: "fetch the file with `git lfs pull`",
        },
    ),
];

/// How web pages begin, in lower case.
const PAGES: [&[u8]; 2] = [b"<!doctype html", b"<html"];

/// Returns what a file is if its first bytes show that it is neither text nor a table.
pub fn other_kind(bytes: &[u8]) -> Option<OtherKind> {
    if let Some((_, kind)) = BEGINNINGS
        .iter()
        .find(|(begin, _)| bytes.starts_with(begin))
    {
        return Some(*kind);
    }
    let text = bytes
        .strip_prefix(b"\xEF\xBB\xBF")
        .unwrap_or(bytes)
        .trim_ascii_start();
    let begins = |page: &&[u8]| {
        text.get(..page.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(page))
    };
    PAGES.iter().any(begins).then_some(OtherKind {
        what: "it is a web page",
        remedy: "download the file itself; a site that shows files has a link to the raw file",
    })
}
