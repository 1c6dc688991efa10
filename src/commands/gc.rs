//! `gc`: mark from the locks, sweep the rest.

use artifacts::{Digest, GcMode, GcOptions};
use pipeline::lock::Lock;
use serde_json::json;

use crate::args::{GcArgs, Global};
use crate::exit::Stop;
use crate::locks::find_locks;
use crate::project::{Project, shown};
use crate::terminal::{bytes, say};

pub(super) fn gc(arguments: &GcArgs, global: &Global) -> Result<(), Stop> {
    let project = Project::of(None, global.store.as_deref())?;
    if !arguments.dry_run {
        project.must_not_be_published("gc")?;
    }
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
        let earlier = lock.iter().flat_map(Lock::earlier);
        roots.extend(earlier.filter(|record| store.contains(record)));
    }
    let mode = if arguments.dry_run {
        GcMode::DryRun
    } else {
        GcMode::Sweep
    };
    let report = store.gc(
        &roots,
        &GcOptions {
            mode,
            ..GcOptions::default()
        },
        pipeline::record::view,
    )?;
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
        say(&format!("kept: everything that {} reaches", shown(path)));
    }
    let line = |what: &str, t: &artifacts::Tally| {
        format!("{what}: {} objects, {}", t.objects, bytes(t.bytes))
    };
    say(&line("reached", &report.reached));
    say(&line("young (less than a day) or in use", &report.young));
    say(&line(
        if arguments.dry_run {
            "would be removed"
        } else {
            "removed"
        },
        &report.removed,
    ));
    for digest in &report.missing {
        say(&format!(
            "missing: {digest}; `benchtrail fsck` shows what needs it"
        ));
    }
    Ok(())
}
