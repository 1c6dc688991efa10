//! Saturation search: the highest load at which a server still keeps its service level.
//!
//! `settings` says what is varied and when a level counts as kept; `bisect` decides which level
//! is probed next and when to stop, `overload` how long a rate must be probed, and both know
//! neither servers nor clocks; `run` sends the probes
//! and keeps all their rows, `tables` writes them; `stage` is the load stage with a search.

mod bisect;
mod overload;
mod run;
mod settings;
mod stage;
mod tables;
#[cfg(test)]
mod tests;

pub use bisect::{Found, Level, Pooled, Probe, Rules, Tried};
pub use overload::{Overload, Undecided};
pub use run::{SearchFiles, run_search};
pub use settings::{Bounds, Search};
pub(crate) use stage::run;
