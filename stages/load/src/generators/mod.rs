//! One load sent by several processes.
//!
//! One thread stamps what one load generator receives (`measure`); a server that answers faster than that thread can read needs
//! more than one. The coordinator is the process that runs the cell. It draws prompts and times as always, deals them (`deal`),
//! starts this same binary as generators (`process`), and tells each its part (`assignment`) over its standard input
//! (`messages`). A generator renders its first requests, opens its connections, sends its warm-up requests, and says that it is
//! warm. When all are warm, the coordinator names one moment for all to begin, a little ahead. From then on generators only say
//! that they are alive and what the terminal shows; they keep their rows until their last request has ended, and then hand them
//! over in order. Rows, numbers and tables are those of one generator.
//!
//! All processes of a machine share the kernel's monotonic clock, so that the generators' stamps need no correction. The clocks
//! of generators on other hosts are compared with the coordinator's before anything is sent, and again when all requests have
//! ended (`clocks`).
//!
//! What runs beside the load stays with the coordinator: telemetry, scrapes, and the watch over the heartbeat, which takes the
//! signs of all generators together.
//!
//! No generator outlives the coordinator: it ends when its standard input is closed, and the kernel kills it when the
//! coordinator dies. A generator that ends early, says something else than messages, or says nothing ends the load; the rows of
//! the others remain.

mod assignment;
mod clocks;
mod conduct;
mod crew;
mod deal;
mod in_flight;
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
/// Each is a process of some five threads that keeps one core busy and may hold what one load generator may; the coordinator
/// holds three pipes and four threads for each.
pub const MOST_GENERATORS: u32 = 64;

/// How long a generator may say nothing.
const SILENCE: Duration = Duration::from_secs(10);

/// How many processes send a load, and how they are started.
#[derive(Clone, Debug)]
pub struct Generators {
    /// How many; one is this process itself.
    pub count: u32,
    /// The program with its arguments, which must hand on to [`generate_process`]; empty for this very program with
    /// [`GENERATOR_COMMAND`].
    pub program: Vec<OsString>,
    /// Other hosts, which get the generators in turn; empty for this machine.
    pub there: Vec<There>,
    /// How long a generator may say nothing.
    pub silence: Duration,
}

/// Another host that runs generators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct There {
    /// Its name in rows.
    pub name: String,
    /// The command that starts a generator there, and connects its standard input and output with ours.
    pub command: Vec<OsString>,
}

impl Default for Generators {
    fn default() -> Self {
        Self::of(1)
    }
}

impl Generators {
    /// So many processes of this very program.
    pub fn of(count: u32) -> Self {
        Self {
            count,
            program: Vec::new(),
            there: Vec::new(),
            silence: SILENCE,
        }
    }

    /// Returns whether other processes than this one send the load.
    pub(crate) fn are_others(&self) -> bool {
        self.count > 1 || !self.there.is_empty()
    }

    /// Returns the host of a generator; `None` for this machine.
    pub(crate) fn host(&self, generator: usize) -> Option<&There> {
        self.there.get(generator.checked_rem(self.there.len())?)
    }
}

/// A generator that did not do its part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Which, from 0.
    pub generator: u32,
    /// What became of it, with what it said last: one sentence.
    pub why: String,
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "generator {} {}", self.generator, self.why)
    }
}
