//! Checks before a step whether it fits into the address space that this process may use (`ulimit -v`). A failed
//! allocation would end the process in the middle of its work, or leave its threads waiting for each other.
//!
//! A step's need is only predictable if it does not depend on the timing of threads. The allocator of glibc reserves 64
//! MiB of addresses for an arena, up to 128 MiB while it aligns them, and another arena for each thread that finds all
//! arenas busy. So a process with limited addresses uses one arena and two threads for its calculations. It starts
//! itself again with both settings, which are read before `main`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use artifacts::counted;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::exit::Stop;

/// The need of every command in bytes: the binary, its threads, a small study.
const LEAST: u64 = 144 << 20;

/// The additional need per cell in bytes: its rows and texts in the tables that stages hold (docs/limits.md has the
/// measurements).
const CELL: u64 = 128 << 10;

/// The additional need in bytes of a second and each further thread that executes cells: its stack and small tables.
const THREAD: u64 = 8 << 20;

/// The additional need in bytes of a second and each further pure cell executed at the same time, for each cell of the
/// study: it may read them all.
const READER: u64 = 112 << 10;

/// The settings of a limited process, with the acceptable values of each.
const SETTINGS: [(&str, &[&str]); 2] = [
    ("MALLOC_ARENA_MAX", &["1"]),
    ("RAYON_NUM_THREADS", &["2", "1"]),
];

/// Settings of thread pools and stacks in the environment, with the least and the largest sensible value. A pool of a
/// billion threads would never start, and a stack of a few bytes would overflow.
const SENSIBLE: [(&str, u64, u64); 3] = [
    ("RAYON_NUM_THREADS", 0, 1024),
    ("RAYON_RS_NUM_CPUS", 0, 1024),
    ("RUST_MIN_STACK", 2 << 20, 64 << 20),
];

/// The stack of the main thread, bytes. The limit (`ulimit -s`) may be lower.
const STACK: usize = 8 << 20;

/// Executes the program on a thread of its own if the stack of the main thread is limited to less than it needs.
pub(crate) fn on_a_large_stack(main: fn() -> ExitCode) -> ExitCode {
    let limit = getrlimit(Resource::Stack).current;
    if limit.is_none_or(|limit| limit >= STACK as u64) {
        return main();
    }
    let thread = std::thread::Builder::new()
        .name("main".to_owned())
        .stack_size(STACK)
        .spawn(main);
    match thread {
        Ok(thread) => thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        Err(error) => {
            let what =
                "the stack is limited (`ulimit -s`), and this program cannot get a larger one";
            let hint = "raise the limit: `ulimit -s unlimited`";
            Stop::refused_at(what, &error).hint(hint).report()
        }
    }
}

/// The open files that every command may need: the store, its index, one file for each thread that works.
const FILES: u64 = 32;

/// The open files that this process may open if the system lets it: enough for any load. Programs that it starts inherit the
/// limit, and some take a time in proportion to it.
const MOST_FILES: u64 = 65_536;

/// Raises the limit on open files as far as this process may, and fails if it is then too low for any command. Most systems
/// begin with 1,024, and each connection of a load takes one.
///
/// # Errors
/// If the limit is below what every command may need.
pub(crate) fn files() -> Result<(), Stop> {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(MOST_FILES).min(MOST_FILES);
    if limit.current.is_some_and(|current| current < most) {
        let raised = Rlimit {
            current: Some(most),
            ..limit
        };
        let _stays = setrlimit(Resource::Nofile, raised);
    }
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit < FILES => Err(Stop::machine(format!(
            "this process may open {limit} files (`ulimit -n`), and needs {FILES}"
        ))
        .hint(format!("raise the limit: `ulimit -n {FILES}` or more"))),
        _ => Ok(()),
    }
}

/// Starts this program again if variables give it settings that it cannot work with, or if its addresses are limited and
/// it has more than one arena and two threads. Returns if nothing needs to change.
///
/// # Errors
/// If the program cannot be started again.
pub(crate) fn settle() -> Result<(), Stop> {
    let without: Vec<&str> = SENSIBLE.iter().filter_map(senseless).collect();
    let limited = limit().is_some() && cfg!(target_env = "gnu");
    let set = SETTINGS
        .iter()
        .filter(|setting| limited && !is_set(setting));
    let set: Vec<_> = set.collect();
    if without.is_empty() && set.is_empty() {
        return Ok(());
    }
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_else(|| OsString::from("benchtrail"));
    let binary = std::env::current_exe()
        .map_err(|e| Stop::refused_at("this program cannot find its own file", &e))?;
    let mut again = Command::new(binary);
    again.arg0(name).args(words);
    without.iter().for_each(|name| {
        again.env_remove(name);
    });
    set.iter().for_each(|(name, values)| {
        again.env(name, values[0]);
    });
    let error = again.exec();
    let hint = match without.is_empty() {
        true => "set `MALLOC_ARENA_MAX=1` and `RAYON_NUM_THREADS=2` yourself, or raise the limit"
            .to_owned(),
        false => format!("unset {}", without.join(", ")),
    };
    let what = "this program cannot start itself with other settings of threads and memory";
    Err(Stop::refused_at(what, &error).hint(hint))
}

/// Returns the name of a variable whose value this program cannot work with.
#[expect(
    clippy::disallowed_methods,
    reason = "the thread pool and the standard library read their settings there"
)]
fn senseless<'a>((name, least, most): &(&'a str, u64, u64)) -> Option<&'a str> {
    let value: u64 = std::env::var(name).ok()?.trim().parse().ok()?;
    (!(*least..=*most).contains(&value)).then_some(name)
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
    within("this program", LEAST, limit())
}

/// What a step does with the cells of a study.
pub(crate) struct Step {
    cells: usize,
    threads: usize,
    readers: usize,
}

impl Step {
    /// A step that reads this number of cells and executes none.
    pub(crate) fn reads(cells: usize) -> Self {
        Self {
            cells,
            threads: 1,
            readers: 1,
        }
    }

    /// A step that executes cells of a study of this size on `jobs` threads, by default one for each processor. At most
    /// `pure` of them can be pure cells.
    pub(crate) fn executes(cells: usize, pure: usize, jobs: Option<usize>) -> Self {
        let processors = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = jobs.unwrap_or_else(processors).min(cells).max(1);
        Self {
            cells,
            threads,
            readers: threads.min(pure).max(1),
        }
    }

    /// Returns the address space that the step needs, in bytes.
    fn needs(&self) -> u64 {
        let [cells, threads, readers] =
            [self.cells, self.threads, self.readers].map(|count| count as u64);
        LEAST + cells * CELL + (threads - 1) * THREAD + (readers - 1) * cells * READER
    }
}

/// Fails if a step does not fit within the limit.
pub(crate) fn fits(what: &str, step: &Step) -> Result<(), Stop> {
    let what = format!("{what} of {}", counted(step.cells, "cell"));
    within(&what, step.needs(), limit()).map_err(|stop| {
        let jobs = if step.threads > 1 { "`--jobs 1`, " } else { "" };
        stop.hint(format!(
            "raise the limit (`ulimit -v`), or use less memory: {jobs}fewer cells (`--profile`), `--no-dry-run` before measuring"
        ))
    })
}

fn limit() -> Option<u64> {
    getrlimit(Resource::As).current
}

fn within(what: &str, needed: u64, limit: Option<u64>) -> Result<(), Stop> {
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
    fn cells_threads_and_pure_cells_executed_at_once_add_to_what_is_needed() {
        let needs = |cells, pure, jobs| Step::executes(cells, pure, Some(jobs)).needs();
        assert_eq!(needs(0, 0, 1), LEAST);
        assert_eq!(Step::reads(1000).needs(), LEAST + 1000 * CELL);
        assert_eq!(needs(1000, 9, 1), Step::reads(1000).needs());
        assert_eq!(
            needs(1000, 9, 2) - needs(1000, 9, 1),
            THREAD + 1000 * READER
        );
        assert_eq!(needs(1000, 2, 5) - needs(1000, 2, 2), 3 * THREAD);
        assert_eq!(
            needs(2, 2, 64),
            needs(2, 2, 2),
            "two cells keep two threads busy"
        );
    }

    #[test]
    fn a_limit_that_is_too_low_is_refused_and_no_limit_is_not() {
        assert!(within("it", 100 << 20, Some(99 << 20)).is_err());
        assert!(within("it", 100 << 20, Some(100 << 20)).is_ok());
        assert!(within("it", u64::MAX, None).is_ok());
    }
}
