//! Checks before a step whether it fits into the address space that this process may use (`ulimit -v`). A failed
//! allocation would end the process in the middle of its work, or leave its threads waiting for each other.
//!
//! A step's need is only predictable if it does not depend on the timing of threads. The allocator of glibc reserves 64
//! MiB of addresses for an arena, up to 128 MiB while it aligns them, and another arena for each thread that finds all
//! arenas busy. So a process with limited addresses uses one arena and two threads for its calculations. It starts
//! itself again with both settings, which are read before `main`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Resource, getrlimit};

use crate::exit::Stop;

/// The need of every command in bytes: the binary, its threads, a small study.
const LEAST: u64 = 144 << 20;

/// The additional need per cell in bytes: its rows and texts in the tables that stages hold (docs/limits.md has the
/// measurements).
const CELL: u64 = 128 << 10;

/// The number of cells executed in parallel within [`LEAST`] and [`CELL`].
const SIDE_BY_SIDE: u64 = 2;

/// The additional need in bytes of another cell executed in parallel: its thread's stack and small tables.
const JOB: u64 = 8 << 20;

/// The additional need in bytes of such a cell for each cell of the study, which it may read.
const JOB_CELL: u64 = 24 << 10;

/// The settings of a limited process, with the acceptable values of each.
const SETTINGS: [(&str, &[&str]); 2] = [
    ("MALLOC_ARENA_MAX", &["1"]),
    ("RAYON_NUM_THREADS", &["2", "1"]),
];

/// Starts this program again with one arena and two threads if its addresses are limited and it has more. Returns if
/// nothing needs to change.
///
/// # Errors
/// If the program cannot be started again.
pub(crate) fn settle() -> Result<(), Stop> {
    if limit().is_none() || !cfg!(target_env = "gnu") || SETTINGS.iter().all(is_set) {
        return Ok(());
    }
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_else(|| OsString::from("benchtrail"));
    let binary = std::env::current_exe()
        .map_err(|e| Stop::machine(format!("this program cannot find its own file: {e}")))?;
    let mut again = Command::new(binary);
    again.arg0(name).args(words);
    for setting in SETTINGS.iter().filter(|setting| !is_set(setting)) {
        again.env(setting.0, setting.1[0]);
    }
    let error = again.exec();
    Err(Stop::machine(format!(
        "this program cannot start itself with the memory settings that `ulimit -v` requires: {error}"
    ))
    .hint("set `MALLOC_ARENA_MAX=1` and `RAYON_NUM_THREADS=2` yourself, or raise the limit"))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the allocator and the thread pool read their settings there"
)]
fn is_set((name, values): &(&str, &[&str])) -> bool {
    std::env::var(name).is_ok_and(|value| values.contains(&value.as_str()))
}

/// Fails if no command can work within the limit.
pub(crate) fn at_all() -> Result<(), Stop> {
    fits("this program", LEAST, limit())
}

/// Fails if a step over `cells` cells, with `jobs` executed in parallel, does not fit within the limit.
pub(crate) fn for_cells(what: &str, cells: usize, jobs: Option<usize>) -> Result<(), Stop> {
    let jobs = jobs
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    let what = match cells {
        1 => format!("{what} of 1 cell"),
        _ => format!("{what} of {cells} cells"),
    };
    fits(&what, needed(cells as u64, jobs as u64), limit()).map_err(|stop| {
        stop.hint(
            "raise the limit, or use fewer cells (`--profile`, `--no-dry-run` before measuring)",
        )
    })
}

/// Returns the bytes of address space needed for `cells` cells, with `jobs` executed in parallel.
fn needed(cells: u64, jobs: u64) -> u64 {
    let more = jobs.min(cells).saturating_sub(SIDE_BY_SIDE);
    LEAST + cells * CELL + more * (JOB + cells * JOB_CELL)
}

fn limit() -> Option<u64> {
    getrlimit(Resource::As).current
}

fn fits(what: &str, needed: u64, limit: Option<u64>) -> Result<(), Stop> {
    match limit {
        Some(limit) if limit < needed => Err(Stop::machine(format!(
            "{what} needs about {} MiB of address space, and this process may use {} MiB (`ulimit -v`)",
            needed.div_ceil(1 << 20),
            limit >> 20
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_and_what_is_executed_at_once_add_to_what_is_needed() {
        assert_eq!(needed(0, 1), LEAST);
        assert_eq!(needed(1000, 2) - needed(0, 2), 1000 * CELL);
        assert_eq!(needed(1000, 3) - needed(1000, 2), JOB + 1000 * JOB_CELL);
        assert_eq!(
            needed(2, 64),
            needed(2, 2),
            "two cells keep two threads busy"
        );
    }

    #[test]
    fn a_limit_that_is_too_low_is_refused_and_no_limit_is_not() {
        assert!(fits("it", 100 << 20, Some(99 << 20)).is_err());
        assert!(fits("it", 100 << 20, Some(100 << 20)).is_ok());
        assert!(fits("it", u64::MAX, None).is_ok());
    }
}
