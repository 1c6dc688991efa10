//! Cells named by the user: `ladder`, `ladder[concurrency=8,rep=1]`, and with an output
//! `ladder[concurrency=8,rep=1].requests`, looked up in a lock.

use std::path::Path;

use artifacts::Store;
use pipeline::Coordinates;
use pipeline::lock::{Lock, LockCell, LockStage, lock_file};
use pipeline::place::{CellPattern, PlaceError, cell_text};
use pipeline::record::Record;
use pipeline::suggest::remedy;

use crate::exit::Stop;
use crate::given::{Wanted, must_be};
use crate::project::{again, shown};

/// Reads a pattern over cells.
///
/// # Errors
/// If the text is not a pattern.
pub(crate) fn parse_pattern(text: &str) -> Result<CellPattern, Stop> {
    let parsed: Result<CellPattern, PlaceError> = text.parse();
    // The name of an output may have any characters, so the parser takes the labels for a part of it.
    if let (Ok(_), Some(meant)) = (&parsed, labels_at_the_end(text)) {
        return Err(
            Stop::usage(format!("`{text}` has its labels after the output"))
                .hint(format!("labels come after the stage: `{meant}`")),
        );
    }
    parsed.map_err(|e| {
        Stop::usage(format!("`{text}` does not name any cells: {e}"))
            .hint("write STAGE, STAGE[axis=label,…] or STAGE[axis=label,…].OUTPUT")
    })
}

/// Returns a pattern whose labels are behind the output, with the labels behind the stage.
fn labels_at_the_end(text: &str) -> Option<String> {
    let (stage, rest) = text
        .split_once('.')
        .filter(|(stage, _)| !stage.contains('['))?;
    let at = rest.find('[').filter(|_| rest.ends_with(']'))?;
    let (output, labels) = rest.split_at(at);
    let meant = format!("{stage}{labels}.{output}");
    (!output.is_empty() && meant.parse::<CellPattern>().is_ok()).then_some(meant)
}

/// Returns the stage of a pattern and its matching cells.
///
/// # Errors
/// If the stage does not exist or no cell matches.
pub(crate) fn find_cells<'lock>(
    pattern: &CellPattern,
    lock: &'lock Lock,
) -> Result<(&'lock LockStage, Vec<&'lock LockCell>), Stop> {
    let Some(stage) = lock.stages.iter().find(|s| s.name == pattern.stage) else {
        let names: Vec<&str> = lock.stages.iter().map(|s| s.name.as_str()).collect();
        let hint = remedy(&pattern.stage, "stages", names.iter().copied());
        return Err(
            Stop::nothing(format!("the lock has no stage `{}`", pattern.stage))
                .hint(format!("{hint}; a table is named STAGE.OUTPUT")),
        );
    };
    let places: Vec<Coordinates> = stage
        .cells
        .iter()
        .map(LockCell::place)
        .collect::<Result<_, _>>()
        .map_err(Stop::failed)?;
    let cells: Vec<&LockCell> = pattern
        .find(places.iter())
        .into_iter()
        .map(|i| &stage.cells[i])
        .collect();
    if cells.is_empty() {
        let first = stage.cells.first().map_or("", |c| c.coordinates.as_str());
        let hint = pattern.remedy(places.iter());
        return Err(
            Stop::nothing(format!("no cell of `{}` matches", pattern.stage)).hint(
                hint.unwrap_or_else(|| {
                    format!("its first cell is {}", cell_text(&stage.name, first))
                }),
            ),
        );
    }
    Ok((stage, cells))
}

/// Returns what to do if an experiment has no lock for a profile: name the profile with which it has run, or run it.
fn ran_otherwise(experiment: &Path, profile: Option<&str>) -> String {
    let run = format!("benchtrail run {}", again(experiment, profile));
    let Some(stem) = experiment.file_stem().and_then(|stem| stem.to_str()) else {
        return run;
    };
    let folder = match experiment.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut others: Vec<String> = names
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let rest = name.strip_prefix(stem)?.strip_suffix(".lock")?;
            match rest.strip_prefix('.') {
                Some(other) if !other.contains('.') => Some(again(experiment, Some(other))),
                None if rest.is_empty() => Some(again(experiment, None)),
                _ => None,
            }
        })
        .collect();
    others.sort_unstable();
    match others.is_empty() {
        true => run,
        false => format!(
            "it has run as `{}`; to run it as named here: `{run}`",
            others.join("`, `")
        ),
    }
}

/// Reads the lock of an experiment.
///
/// # Errors
/// If the lock does not exist yet, or cannot be read.
pub(crate) fn read_lock(experiment: &Path, profile: Option<&str>) -> Result<Lock, Stop> {
    if !experiment.exists() {
        return Err(
            Stop::usage(format!("{}: no such file", experiment.display()))
                .hint(pipeline::language::instead_of(experiment)),
        );
    }
    must_be(experiment, Wanted::Run)?;
    let path = lock_file(experiment, profile);
    let lock = Lock::read(&path).map_err(Stop::failed)?;
    if let Some(lock) = &lock {
        lock.must_be_of(experiment, profile).map_err(Stop::failed)?;
    }
    lock.ok_or_else(|| {
        Stop::nothing(format!(
            "{} does not exist: this experiment has not run yet",
            shown(&path)
        ))
        .hint(ran_otherwise(experiment, profile))
    })
}

/// Returns the record of an executed cell.
///
/// # Errors
/// If the cell was not executed, or its record is missing from the store or damaged.
pub(crate) fn read_record(store: &Store, stage: &str, cell: &LockCell) -> Result<Record, Stop> {
    let name = cell_text(stage, &cell.coordinates);
    let Some(digest) = cell.record else {
        let reason = cell.reason.as_deref().unwrap_or("it never ran");
        return Err(Stop::nothing(format!(
            "{name} has no record: {} ({reason})",
            cell.status.word()
        )));
    };
    let bytes = store.get_document(&digest)?;
    Record::parse(&bytes).map_err(|e| Stop::damaged(format!("the record {digest} of {name}: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_behind_an_output_are_moved_to_the_stage() {
        for (text, meant) in [
            ("ladder.requests[clients=8]", "ladder[clients=8].requests"),
            ("results.a.lineage[x=1.5|2]", "results[x=1.5|2].a.lineage"),
        ] {
            assert_eq!(labels_at_the_end(text).as_deref(), Some(meant));
            assert!(parse_pattern(text).is_err());
            assert!(parse_pattern(meant).is_ok());
        }
        for text in [
            "ladder[rate=1.5]",
            "ladder[rate=1.5].requests",
            "ladder.requests",
        ] {
            assert_eq!(labels_at_the_end(text), None);
            assert!(parse_pattern(text).is_ok());
        }
    }
}
