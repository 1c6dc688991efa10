//! Whether a step fits into the address space that this process may use (`ulimit -v`), asked before it
//! starts: an allocator that is refused memory ends a process in the middle of its work, or leaves its
//! threads waiting for each other.

use rustix::process::{Resource, getrlimit};

use crate::exit::Stop;

/// What every command needs, in bytes: the binary, its threads, a small table.
const LEAST: u64 = 112 << 20;

/// What the allocator reserves at once for a thread: an arena of glibc.
const ARENA: u64 = 64 << 20;

/// What a cell adds: its rows and texts in the tables that stages hold (docs/limits.md has what was measured).
const CELL: u64 = 96 << 10;

/// Fails if no command can work within the limit.
pub(crate) fn at_all() -> Result<(), Stop> {
    fits("this program", LEAST, limit())
}

/// Fails if a step over so many cells cannot work within the limit.
pub(crate) fn for_cells(what: &str, cells: usize) -> Result<(), Stop> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let needed = needed(cells as u64, arenas(threads as u64, arenas_allowed()));
    let hint = "raise the limit, set `MALLOC_ARENA_MAX=2` so that threads reserve less, or use \
                fewer cells (`--profile`, `--no-dry-run` before measuring)";
    let what = match cells {
        1 => format!("{what} of 1 cell"),
        _ => format!("{what} of {cells} cells"),
    };
    fits(&what, needed, limit()).map_err(|stop| stop.hint(hint))
}

/// Returns the bytes of address space that so many cells need.
fn needed(cells: u64, arenas: u64) -> u64 {
    LEAST + arenas.saturating_sub(1) * ARENA + cells * CELL
}

/// Returns how many arenas there will be: one for each thread at most. A stage has a thread for each
/// processor, and tables are read by as many.
fn arenas(processors: u64, allowed: Option<u64>) -> u64 {
    let threads = 2 * processors + 2;
    threads.min(allowed.unwrap_or(8 * processors)).max(1)
}

fn limit() -> Option<u64> {
    getrlimit(Resource::As).current
}

#[expect(
    clippy::disallowed_methods,
    reason = "the allocator reads its settings there, too"
)]
fn arenas_allowed() -> Option<u64> {
    std::env::var("MALLOC_ARENA_MAX").ok()?.parse().ok()
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
    fn cells_and_threads_add_to_what_is_needed() {
        assert_eq!(needed(0, 1), LEAST);
        assert_eq!(needed(1000, 2) - needed(0, 2), 1000 * CELL);
        assert_eq!(arenas(2, Some(2)), 2);
        assert_eq!(arenas(2, None), 6);
        assert_eq!(arenas(16, None), 34);
    }

    #[test]
    fn a_limit_that_is_too_low_is_refused_and_no_limit_is_not() {
        assert!(fits("it", 100 << 20, Some(99 << 20)).is_err());
        assert!(fits("it", 100 << 20, Some(100 << 20)).is_ok());
        assert!(fits("it", u64::MAX, None).is_ok());
    }
}
