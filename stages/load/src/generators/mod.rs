//! One load sent by several processes.
//!
//! In one process, a single thread takes all stamps (`measure`). If a server answers faster than this thread can read, several
//! processes must share the load. The coordinator is the process that runs the cell. It draws prompts and times as for one
//! process, deals them (`deal`), starts this binary as generators (`process`), and sends each generator its part (`assignment`)
//! over its standard input (`messages`). A generator renders its first requests, opens its connections, sends its warm-up
//! requests, and reports that it is warm. When all are warm, the coordinator sets one start time for all. During the
//! measurement, generators send only signs of life and figures for the terminal. They keep their rows until all requests have
//! ended, and then send them in order. Rows, numbers and tables are the same as with one process.
//!
//! All processes of a machine share the kernel's monotonic clock, so the stamps of local generators need no correction. The
//! coordinator compares its clock with those of generators on other hosts before the first request and after the last one
//! (`clocks`).
//!
//! The coordinator runs the companions of the load: telemetry, scrapes, and the heartbeat over all generators together.
//!
//! No generator outlives the coordinator: it ends when its standard input closes, and the kernel kills it when the
//! coordinator dies. A generator that ends early, sends invalid messages, or is silent ends the load. The rows of the other
//! generators remain.

mod assignment;
mod clocks;
mod conduct;
mod crew;
mod deal;
mod in_flight;
mod intake;
mod messages;
mod process;
mod settings;
mod tables;

use std::ffi::OsString;
use std::time::Duration;

pub(crate) use conduct::conduct;
pub(crate) use in_flight::InFlight;
pub use process::{GENERATOR_COMMAND, generate_process};
pub use settings::{GeneratorsChoice, OnHosts};
pub(crate) use tables::{ByGenerator, made_up};

/// The most generators of a load.
///
/// Each is a process with five threads. It keeps one core busy and may use the memory of a load generator. The coordinator
/// has three pipes and three threads for each.
pub(crate) const MOST_GENERATORS: u32 = 64;

/// The longest silence of a generator.
const SILENCE: Duration = Duration::from_secs(10);

/// The number of processes that send a load, and how to start them.
#[derive(Clone, Debug)]
pub struct Generators {
    /// Their number; one is this process itself.
    pub count: u32,
    /// The program with its arguments, which must call [`generate_process`]. If empty, it is this program with
    /// [`GENERATOR_COMMAND`].
    pub program: Vec<OsString>,
    /// Other hosts, over which the generators are distributed in turn; empty for this machine.
    pub there: Vec<There>,
    /// The longest silence of a generator.
    pub silence: Duration,
}

/// Another host that runs generators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct There {
    /// Its name in rows.
    pub name: String,
    /// The command that starts a generator there, and connects its standard input and output to this process.
    pub command: Vec<OsString>,
}

impl Default for Generators {
    fn default() -> Self {
        Self::of(1)
    }
}

impl Generators {
    /// Returns this number of processes of this program.
    pub fn of(count: u32) -> Self {
        Self {
            count,
            program: Vec::new(),
            there: Vec::new(),
            silence: SILENCE,
        }
    }

    /// Returns whether processes other than this one send the load.
    pub(crate) fn are_others(&self) -> bool {
        self.count > 1 || !self.there.is_empty()
    }

    /// Returns the host of a generator; `None` for this machine.
    pub(crate) fn host(&self, generator: usize) -> Option<&There> {
        self.there.get(generator.checked_rem(self.there.len())?)
    }
}

/// A generator that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Its number, from 0.
    pub generator: u32,
    /// The reason, with its last output, in one sentence.
    pub why: String,
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "generator {} {}", self.generator, self.why)
    }
}
