//! `gc`: marks everything that the store's users need, and sweeps the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use artifacts::{Digest, GcMode, GcOptions, GcReport, Store, StoreError, counted};
use pipeline::Class;
use pipeline::lock::Lock;
use pipeline::place::cell_text;
use pipeline::record::Record;
use serde_json::{Value, json};

use crate::args::{GcArgs, Global};
use crate::exit::Stop;
use crate::locks::find_locks;
use crate::project::{Project, in_shell, shown};
use crate::registry::registry;
use crate::terminal::{bytes, say};

/// The number of cells per stage that are named when their measurements are removed.
const CELLS_SHOWN: usize = 3;

pub(super) fn gc(arguments: &GcArgs, global: &Global) -> Result<(), Stop> {
    if let Some(url) = &arguments.remote {
        return super::gc_shared::gc_shared(url, arguments, global);
    }
    let project = Project::of(None, global.store.as_deref())?;
    if !arguments.dry_run {
        project.must_not_be_published("gc")?;
    }
    let store = project.open_existing()?;
    if store.needs_rebuild()? {
        // Records without an index row would not be found.
        store.rebuild(pipeline::record::view)?;
    }
    forget(&store, arguments)?;
    let mut roots = Roots::default();
    roots.of_folders(
        std::iter::once(&project.root).chain(&arguments.locks),
        &store,
    )?;
    roots.of_runs(&store, arguments)?;
    let measurements = measurements(&store)?;
    if !arguments.measurements {
        roots.records.extend(measurements.keys());
    }
    let collect = |mode| collect(&store, &roots, mode);
    let before = collect(GcMode::DryRun)?;
    let lost: Vec<&Measured> = before
        .retired
        .iter()
        .filter_map(|record| measurements.get(record))
        .collect();
    if !global.json {
        // Name what cannot be computed again before anything is removed.
        say_lost(&lost, arguments);
    }
    let report = if arguments.dry_run {
        before
    } else {
        collect(GcMode::Sweep)?
    };
    if global.json {
        say(&json_of(&roots, &report, &lost, arguments).to_string());
    } else {
        tell(&roots, &report, arguments);
    }
    Ok(())
}

fn collect(store: &Store, roots: &Roots, mode: GcMode) -> Result<GcReport, Stop> {
    let records: Vec<Digest> = roots.records.iter().copied().collect();
    let options = GcOptions {
        mode,
        ..GcOptions::default()
    };
    Ok(store.gc(&records, &options, pipeline::record::view)?)
}

/// Forgets locks that were deleted permanently.
fn forget(store: &Store, arguments: &GcArgs) -> Result<(), Stop> {
    for lock in &arguments.forget {
        // A root that cannot be read stands for a lock that nobody can name.
        let broken = match arguments.dry_run {
            true => store.broken_roots()?.iter().any(|root| is_same(root, lock)),
            false => store.forget_broken_root(lock)?,
        };
        if broken {
            continue;
        }
        if lock.exists() {
            return Err(Stop::usage(format!(
                "{} still exists: `--forget` is only for deleted locks",
                shown(lock)
            )));
        }
        let registered = match arguments.dry_run {
            true => store.root_of(lock)?.is_some(),
            false => store.forget_root(lock)?,
        };
        if !registered {
            return Err(Stop::nothing(format!(
                "no run with the lock {} used this store",
                shown(lock)
            )));
        }
    }
    Ok(())
}

/// What must stay, and why.
#[derive(Default)]
struct Roots {
    records: BTreeSet<Digest>,
    locks: Vec<PathBuf>,
    /// The places of these locks, without links.
    places: BTreeSet<PathBuf>,
    /// Locks whose runs have executed cells beyond the lock, with the number of cells.
    runs: Vec<(PathBuf, usize)>,
}

impl Roots {
    /// Adds the locks below folders.
    fn of_folders<'f>(
        &mut self,
        folders: impl Iterator<Item = &'f PathBuf>,
        store: &Store,
    ) -> Result<(), Stop> {
        let mut locks = Vec::new();
        for folder in folders {
            find_locks(folder, &mut locks)?;
        }
        for path in locks {
            self.of_lock(&path, store)?;
        }
        Ok(())
    }

    /// Adds the locks that runs wrote, wherever they are, and what runs have executed since.
    fn of_runs(&mut self, store: &Store, arguments: &GcArgs) -> Result<(), Stop> {
        let mut broken = store.broken_roots()?;
        broken.retain(|root| !arguments.forget.iter().any(|lock| is_same(lock, root)));
        if !broken.is_empty() {
            let list: Vec<String> = broken.iter().map(|path| in_shell(path)).collect();
            let list = list.join(" ");
            return Err(Stop::damaged(format!(
                "nothing was removed: the places of some locks are damaged, so Benchtrail cannot know what their runs \
                 need: {list}"
            ))
            .hint(format!(
                "run the experiments of all projects that use this store, then: benchtrail gc --forget {list}"
            )));
        }
        let mut gone = Vec::new();
        for root in store.roots()? {
            let there = self.of_lock(&root.file, store)?;
            let forgotten = arguments
                .forget
                .iter()
                .any(|lock| is_same(lock, &root.file));
            if !there && root.written && !forgotten {
                gone.push(root.file);
                continue;
            }
            let noted = root.journals.iter().flat_map(|j| &j.records);
            // A run that ended in a power loss may have noted more than it stored.
            let noted: Vec<Digest> = noted.copied().filter(|r| store.contains(r)).collect();
            if !noted.is_empty() && !forgotten {
                self.runs.push((root.file, noted.len()));
                self.records.extend(noted);
            }
        }
        if gone.is_empty() {
            return Ok(());
        }
        let list: Vec<String> = gone.iter().map(|p| p.display().to_string()).collect();
        Err(Stop::failed(format!(
            "nothing was removed: some locks of earlier runs are missing, so Benchtrail cannot know what they need: {}",
            list.join(", ")
        ))
        .hint(format!(
            "mount or restore them; if they moved, run their experiments once at the new place; if you deleted them: \
             benchtrail gc --forget {}",
            gone.iter().map(|path| in_shell(path)).collect::<Vec<_>>().join(" ")
        )))
    }

    /// Adds a lock; returns false if it does not exist.
    fn of_lock(&mut self, path: &Path, store: &Store) -> Result<bool, Stop> {
        let place = real(path);
        if self.places.contains(&place) {
            return Ok(true);
        }
        // A lock that cannot be read may name objects that must stay, so nothing is removed.
        let Some(lock) = Lock::read(path).map_err(Stop::failed)? else {
            return Ok(false);
        };
        self.records.extend(lock.records());
        let earlier = lock.earlier().filter(|record| store.contains(record));
        self.records.extend(earlier);
        self.locks.push(path.to_owned());
        self.places.insert(place);
        Ok(true)
    }
}

/// Returns whether two paths lead to the same place, as far as the path exists.
fn is_same(one: &Path, other: &Path) -> bool {
    one == other || real(one) == real(other)
}

/// Returns a path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    artifacts::resolved(path).unwrap_or_else(|_| path.to_owned())
}

/// An executed measurement.
struct Measured {
    experiment: String,
    cell: String,
    started: String,
}

/// Returns the measurements in the store, by record. A kind that this program does not know counts as a measurement.
fn measurements(store: &Store) -> Result<BTreeMap<Digest, Measured>, Stop> {
    let registry = registry();
    let mut measured = BTreeMap::new();
    for digest in store.records()? {
        let bytes = match store.get_document(&digest) {
            Ok(bytes) => bytes,
            Err(StoreError::Missing(_)) => continue,
            Err(error) => return Err(error.into()),
        };
        let record = Record::parse(&bytes)
            .map_err(|e| Stop::damaged(format!("the record {digest}: {e}")))?;
        let kind = registry
            .kinds
            .iter()
            .find(|k| k.name() == record.recipe.kind);
        if kind.is_none_or(|k| k.class() == Class::Measurement) {
            let cell = cell_text(&record.stage, &record.coordinates.to_string());
            measured.insert(
                digest,
                Measured {
                    experiment: record.experiment,
                    cell,
                    started: record.started,
                },
            );
        }
    }
    Ok(measured)
}

fn say_lost(lost: &[&Measured], arguments: &GcArgs) {
    let mut by_experiment: BTreeMap<&str, Vec<&Measured>> = BTreeMap::new();
    for measured in lost {
        by_experiment
            .entry(&measured.experiment)
            .or_default()
            .push(measured);
    }
    let word = if arguments.dry_run {
        "would be lost"
    } else {
        "lost"
    };
    for (experiment, cells) in by_experiment {
        let latest = cells.iter().map(|m| m.started.as_str()).max();
        let mut names: Vec<&str> = cells
            .iter()
            .take(CELLS_SHOWN)
            .map(|m| m.cell.as_str())
            .collect();
        if cells.len() > CELLS_SHOWN {
            names.push("…");
        }
        say(&format!(
            "{word}: {} of {experiment}, the latest from {}: {}",
            counted(cells.len(), "measurement"),
            latest.unwrap_or_default(),
            names.join(", ")
        ));
    }
}

fn json_of(roots: &Roots, report: &GcReport, lost: &[&Measured], arguments: &GcArgs) -> Value {
    let tally = |t: &artifacts::Tally| json!({ "objects": t.objects, "bytes": t.bytes });
    let runs = roots
        .runs
        .iter()
        .map(|(lock, n)| json!({ "lock": lock, "records": n }));
    let lost = lost
        .iter()
        .map(|m| json!({ "experiment": m.experiment, "cell": m.cell, "started": m.started }));
    json!({
        "locks": roots.locks, "runs": runs.collect::<Vec<_>>(), "dry_run": arguments.dry_run,
        "reached": tally(&report.reached), "young": tally(&report.young),
        "removed": tally(&report.removed), "retired_records": report.retired.len(),
        "lost_measurements": lost.collect::<Vec<_>>(), "missing": report.missing,
    })
}

fn tell(roots: &Roots, report: &GcReport, arguments: &GcArgs) {
    for path in &roots.locks {
        say(&format!("kept: everything that {} reaches", shown(path)));
    }
    for (path, count) in &roots.runs {
        say(&format!(
            "kept: {} of runs that have not written {} yet",
            counted(*count, "executed cell"),
            shown(path)
        ));
    }
    if !arguments.measurements {
        say(
            "kept: all measurements; `--measurements` also removes those that no lock and no run \
            needs",
        );
    }
    let line = |what: &str, t: &artifacts::Tally| {
        format!(
            "{what}: {}, {}",
            counted(t.objects, "object"),
            bytes(t.bytes)
        )
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
}
