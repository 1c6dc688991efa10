//! Determines what a path on the command line is, from the file system and its first bytes, and what to give instead if
//! a command reads something else. Readers report problems with files of their own kind; this module reports files of
//! the wrong kind.

use std::io::Read;
use std::path::{Path, PathBuf};

use bundle::BundleError;
use pipeline::lock::is_lock;

use crate::exit::Stop;
use crate::nearby;
use crate::project::{in_shell, shown};

/// The number of bytes needed to identify a file.
const START: u64 = 4096;

/// The largest file in which the keys of another tool are looked for, in bytes.
const RESULT: u64 = 64 << 20;

/// What a command reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// An experiment, executed or not.
    Experiment,
    /// A study that has run, in any form.
    Study,
    /// An experiment that has run, or its lock.
    Run,
    /// A published bundle.
    Bundle,
    /// A rendered report with its trace.
    Report,
    /// A store that several machines share, if it is a folder.
    Shared,
}

/// What exists at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thing {
    Experiment,
    Lock,
    Bundle,
    Load,
    Table,
    Report,
    Page,
    Folder,
    Empty,
    Binary,
    /// A FIFO, a socket or a device.
    Special(&'static str),
    /// A result file of another tool.
    Result(&'static str),
    /// A table in CSV.
    Csv,
    /// Text of an unknown kind.
    Text,
}

/// Rejects a path with something other than what the command reads. Leaves a path to the reader if it is missing,
/// cannot be opened, or may be right.
///
/// # Errors
/// If the path is of another kind: names the kind and what to give instead.
pub(crate) fn must_be(path: &Path, wanted: Wanted) -> Result<(), Stop> {
    if path.as_os_str().is_empty() {
        let empty = format!("the path of {} is empty", one(wanted));
        return Err(Stop::usage(empty).hint(format!("give {}", meant(wanted))));
    }
    let stem = path.file_stem().unwrap_or_default();
    let has_name = stem.as_encoded_bytes().iter().any(|byte| *byte != b'.');
    if wanted == Wanted::Experiment && path.is_file() && !has_name {
        let nameless = format!("{}: the file has no name before its ending", shown(path));
        let remedy = "rename it, for example to `study.yaml`; its lock and its report take their names from it";
        return Err(Stop::usage(nameless).hint(remedy));
    }
    let Some(thing) = thing(path) else {
        if wanted == Wanted::Bundle && !path.exists() {
            let missing = format!("{}: no such file or folder", shown(path));
            return Err(Stop::usage(missing).hint(format!("give {}", meant(wanted))));
        }
        return Ok(());
    };
    if fits(thing, wanted, path) {
        return Ok(());
    }
    let name = shown(path);
    let of_tool = match thing {
        Thing::Result(tool) => format!("a result file of {tool}"),
        _ => String::new(),
    };
    let what = match thing {
        Thing::Experiment => "an experiment",
        Thing::Lock => "a lock",
        Thing::Bundle => "a published bundle",
        Thing::Load => "a folder that `load --out` wrote",
        Thing::Table => "a Parquet table",
        Thing::Report => "a report",
        Thing::Page => "a page for browsers",
        Thing::Folder if path.join("objects").is_dir() => "a store",
        Thing::Folder => "a folder",
        Thing::Empty => "an empty file",
        Thing::Binary => "a binary file",
        Thing::Special(what) => what,
        Thing::Result(_) => of_tool.as_str(),
        Thing::Csv => "a table in CSV",
        Thing::Text => "a text file of another kind",
    };
    let stop = Stop::usage(format!("{name} is {what}, not {}", one(wanted)));
    Err(stop.hint(remedy(path, thing, wanted)))
}

/// Reads a key file if its option is given.
///
/// # Errors
/// If the file does not exist, or does not contain a key of this kind.
pub(crate) fn key<Key>(
    path: Option<&Path>,
    read: impl Fn(&Path) -> Result<Key, BundleError>,
) -> Result<Option<Key>, Stop> {
    let Some(path) = path else {
        return Ok(None);
    };
    if !path.exists() {
        let missing = format!("--key {}: no such file", shown(path));
        return Err(Stop::usage(missing)
            .hint("`benchtrail keygen NAME` writes a key pair: `NAME.key`, and `NAME.pub`"));
    }
    Ok(Some(read(path)?))
}

/// Returns whether a thing is, or may be, what a command reads.
fn fits(thing: Thing, wanted: Wanted, path: &Path) -> bool {
    match wanted {
        // For a folder or a text, the reader reports more: which experiments exist, and what is wrong where.
        Wanted::Experiment => matches!(
            thing,
            Thing::Experiment | Thing::Folder | Thing::Text | Thing::Empty
        ),
        Wanted::Study => match thing {
            Thing::Experiment | Thing::Lock | Thing::Bundle | Thing::Load => true,
            // An experiment may have any name; one that has run has its lock next to it.
            Thing::Text | Thing::Csv => path.with_extension("lock").is_file(),
            _ => false,
        },
        Wanted::Run => match thing {
            Thing::Experiment | Thing::Lock => true,
            Thing::Text => path.with_extension("lock").is_file(),
            _ => false,
        },
        // If the folder's manifest is not a file, the reader reports that.
        Wanted::Bundle => {
            thing == Thing::Bundle
                || thing == Thing::Folder && path.join("manifest.json").symlink_metadata().is_ok()
        }
        Wanted::Shared => matches!(thing, Thing::Folder | Thing::Load),
        // A report is any text next to its trace.
        Wanted::Report => {
            thing == Thing::Report
                || thing == Thing::Page
                || !path.is_dir() && path.with_extension("trace.parquet").is_file()
        }
    }
}

fn one(wanted: Wanted) -> &'static str {
    match wanted {
        Wanted::Experiment => "an experiment",
        Wanted::Study => "a study",
        Wanted::Run => "an experiment that has run",
        Wanted::Bundle => "a bundle",
        Wanted::Report => "a report",
        Wanted::Shared => "a shared store",
    }
}

/// Returns what to give instead, or which command reads the thing itself.
fn remedy(path: &Path, thing: Thing, wanted: Wanted) -> String {
    let name = in_shell(path);
    let alternative = instead(path, thing, wanted).map(|other| shown(&other));
    if let Some(other) = alternative {
        return format!("give `{other}`");
    }
    if (thing, wanted) == (Thing::Folder, Wanted::Report)
        && let Some(below) = nearby::reports_below(path)
    {
        return format!("give a report: {below}");
    }
    match (thing, wanted) {
        (Thing::Experiment, Wanted::Bundle) => {
            format!("`benchtrail publish {name} --author NAME` makes a bundle of it")
        }
        (Thing::Experiment, Wanted::Report) => {
            format!("`benchtrail run {name}` renders its report and prints where it is")
        }
        (Thing::Bundle, Wanted::Experiment) => format!(
            "`benchtrail verify {name}` checks a bundle, and `benchtrail reproduce {name}` executes its pure stages \
             again"
        ),
        (Thing::Load, Wanted::Experiment) => {
            format!("`benchtrail init NAME --from-load {name}` writes an experiment for this load")
        }
        (Thing::Load, Wanted::Report) if path.join("report.md").is_file() => {
            format!("give `{}`", shown(&path.join("report.md")))
        }
        (Thing::Load, Wanted::Report) => format!("`benchtrail report {name}` renders one"),
        (_, Wanted::Shared) => format!("give {}", meant(wanted)),
        (Thing::Bundle | Thing::Load, Wanted::Run) => {
            format!("`benchtrail ls {name}` lists what is in it")
        }
        (Thing::Result(_) | Thing::Csv, _) => format!(
            "`benchtrail init NAME --from-results {name}` writes an experiment over it; see docs/import.md"
        ),
        (Thing::Report, _) => format!("`benchtrail why {name}:LINE` follows a number of a report"),
        (Thing::Table, _) => {
            format!("`benchtrail show {name}` and `benchtrail sql {name}` read a table")
        }
        _ => format!("give {}", meant(wanted)),
    }
}

fn meant(wanted: Wanted) -> &'static str {
    match wanted {
        Wanted::Experiment => "the YAML file of an experiment; `benchtrail init` writes one",
        Wanted::Study => {
            "an experiment's YAML file, a lock, a bundle, or a folder that `load --out` wrote"
        }
        Wanted::Run => "an experiment's YAML file, or its lock",
        Wanted::Bundle => {
            "the folder or the `.tar.zst` that `benchtrail publish EXPERIMENT --author NAME` wrote"
        }
        Wanted::Report => "the Markdown report that `benchtrail run EXPERIMENT` rendered",
        Wanted::Shared => "a folder that all machines see",
    }
}

/// Finds what the user probably meant near a path.
fn instead(path: &Path, thing: Thing, wanted: Wanted) -> Option<PathBuf> {
    let near: Vec<PathBuf> = match (thing, wanted) {
        (Thing::Lock, Wanted::Experiment) => {
            // With a profile, `NAME.PROFILE.lock`.
            let stem = path.with_extension("");
            vec![
                stem.with_extension("yaml"),
                path.with_extension("yaml"),
                path.with_extension("yml"),
            ]
        }
        (Thing::Folder | Thing::Bundle, Wanted::Report) => vec![path.join("report.md")],
        (Thing::Experiment | Thing::Lock, Wanted::Report) => {
            let stem = path.file_stem().unwrap_or_default();
            let folder = path.parent().unwrap_or(Path::new(""));
            let reports = |root: &Path| root.join("reports").join(stem).join("report.md");
            vec![
                reports(folder),
                reports(folder.parent().unwrap_or(Path::new(""))),
            ]
        }
        (Thing::Folder, Wanted::Study | Wanted::Run) => only_lock(path).into_iter().collect(),
        _ => Vec::new(),
    };
    near.into_iter().find(|path| path.is_file())
}

/// Returns the lock in a folder if it is the only one.
fn only_lock(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let begins = |path: &Path| {
        let mut start = Vec::new();
        let opened = artifacts::regular::open(path);
        opened.is_ok_and(|(file, _)| file.take(START).read_to_end(&mut start).is_ok())
            && start.starts_with(b"benchtrail lock")
    };
    let is_its = |path: &PathBuf| is_lock(path) && begins(path);
    let mut locks = entries.map(|entry| entry.path()).filter(is_its);
    let first = locks.next()?;
    locks.next().is_none().then_some(first)
}

/// Returns whether a file is a Parquet table, whatever its name.
pub(crate) fn is_table(path: &Path) -> bool {
    thing(path) == Some(Thing::Table)
}

/// Identifies what is at a path; `None` if nothing exists there, or it cannot be opened.
fn thing(path: &Path) -> Option<Thing> {
    use std::os::unix::fs::FileTypeExt;
    let metadata = path.metadata().ok()?;
    let kind = metadata.file_type();
    if kind.is_dir() {
        return Some(if crate::study::is_bundle(path) {
            Thing::Bundle
        } else if crate::small::is_one(path) {
            Thing::Load
        } else {
            Thing::Folder
        });
    }
    match () {
        () if kind.is_fifo() => return Some(Thing::Special("a FIFO")),
        () if kind.is_socket() => return Some(Thing::Special("a socket")),
        () if !kind.is_file() => return Some(Thing::Special("a device")),
        () => {}
    }
    let mut start = Vec::new();
    let (file, _) = artifacts::regular::open(path).ok()?;
    file.take(START).read_to_end(&mut start).ok()?;
    let thing = content(path, &start);
    let is_json = start.trim_ascii_start().starts_with(b"{") && metadata.len() <= RESULT;
    if matches!(thing, Thing::Text) && is_json {
        let bytes = artifacts::regular::read(path).ok()?;
        let tool = import::recognised(&bytes)
            .ok()
            .map(|recognised| recognised.tool.title());
        return Some(tool.map_or(thing, Thing::Result));
    }
    Some(thing)
}

/// Identifies a regular file by its first bytes, otherwise by its name.
fn content(path: &Path, start: &[u8]) -> Thing {
    let name = path.to_string_lossy();
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    match start {
        [b'P', b'A', b'R', b'1', ..] => return Thing::Table,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => return Thing::Bundle,
        [] => return Thing::Empty,
        _ => {}
    }
    let text = String::from_utf8_lossy(start);
    let begins = |key: &str| text.lines().any(|line| line.starts_with(key));
    match () {
        // A damaged archive is still meant as an archive.
        () if ends(&[".tar.zst"]) => Thing::Bundle,
        () if ends(&[".parquet"]) => Thing::Table,
        () if ends(&[".lock"]) || text.starts_with("benchtrail lock") => Thing::Lock,
        () if ends(&[".yaml", ".yml"]) => Thing::Experiment,
        () if ends(&[".html", ".htm"]) => Thing::Page,
        () if ends(&[".md"]) => Thing::Report,
        () if ends(&[".csv", ".tsv"]) => Thing::Csv,
        () if start.contains(&0) => Thing::Binary,
        () if begins("experiment:") || begins("extends:") => Thing::Experiment,
        () => Thing::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_bytes_before_its_name() {
        let kind = |name: &str, bytes: &[u8]| content(Path::new(name), bytes);
        assert_eq!(kind("a.yaml", b"PAR1..."), Thing::Table);
        assert_eq!(kind("a", b"\x28\xb5\x2f\xfd.."), Thing::Bundle);
        assert_eq!(kind("a.txt", b"# mine\nexperiment: a\n"), Thing::Experiment);
        assert_eq!(kind("a.txt", b"benchtrail lock 2\n"), Thing::Lock);
        assert_eq!(kind("a.bin", b"\x7fELF\0\0"), Thing::Binary);
        assert_eq!(kind("a.txt", b"hello"), Thing::Text);
        assert_eq!(kind("a.yaml", b""), Thing::Empty);
    }
}
