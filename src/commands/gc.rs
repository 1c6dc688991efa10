//! `gc`: mark from the locks, sweep the rest.

use std::path::{Path, PathBuf};

use artifacts::{Digest, GcMode, GcOptions};
use pipeline::lock::Lock;
use serde_json::json;

use crate::args::{GcArgs, Global};
use crate::exit::Stop;
use crate::project::{Project, shown};
use crate::terminal::{bytes, say};

/// Folders that hold no locks and are not searched.
const NOT_SEARCHED: [&str; 4] = [".git", ".benchtrail", "target", "node_modules"];

pub(super) fn gc(arguments: &GcArgs, global: &Global) -> Result<(), Stop> {
    let project = Project::of(None, global.store.as_deref())?;
    let store = project.open_existing()?;
    let mut locks = Vec::new();
    for folder in std::iter::once(&project.root).chain(&arguments.locks) {
        find_locks(folder, &mut locks)?;
    }
    let mut roots: Vec<Digest> = Vec::new();
    for path in &locks {
        // A lock that cannot be read may name what must stay: nothing is removed then.
        let lock = Lock::read(path).map_err(Stop::failed)?;
        roots.extend(lock.iter().flat_map(Lock::records));
    }
    let mode = if arguments.dry_run { GcMode::DryRun } else { GcMode::Sweep };
    let report = store.gc(&roots, &GcOptions { mode, ..GcOptions::default() }, pipeline::record::view)?;
    let tally = |t: &artifacts::Tally| json!({ "objects": t.objects, "bytes": t.bytes });
    if global.json {
        say(&json!({
            "locks": locks, "dry_run": arguments.dry_run, "reached": tally(&report.reached),
            "young": tally(&report.young), "removed": tally(&report.removed),
            "retired_records": report.retired, "missing": report.missing,
        })
        .to_string());
        return Ok(());
    }
    for path in &locks {
        say(&format!("kept: what {} reaches", shown(path)));
    }
    let line =
        |what: &str, t: &artifacts::Tally| format!("{what}: {} objects, {}", t.objects, bytes(t.bytes));
    say(&line("reached", &report.reached));
    say(&line("young (less than a day) or in use", &report.young));
    say(&line(if arguments.dry_run { "would be removed" } else { "removed" }, &report.removed));
    for digest in &report.missing {
        say(&format!("missing: {digest}; `benchtrail fsck` says what needs it"));
    }
    Ok(())
}

/// Collects the locks of this program below a folder.
fn find_locks(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), Stop> {
    let fault = |e: std::io::Error| Stop::machine(format!("{}: {e}", folder.display()));
    let mut entries =
        std::fs::read_dir(folder).map_err(fault)?.collect::<Result<Vec<_>, _>>().map_err(fault)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let kind = entry.file_type().map_err(fault)?;
        if kind.is_dir() {
            if !NOT_SEARCHED.iter().any(|name| entry.file_name() == *name) {
                find_locks(&path, found)?;
            }
        } else if path.extension().is_some_and(|e| e == "lock") {
            let bytes =
                std::fs::read(&path).map_err(|e| Stop::machine(format!("{}: {e}", path.display())))?;
            if bytes.starts_with(b"benchtrail lock ") {
                found.push(path);
            }
        }
    }
    Ok(())
}
