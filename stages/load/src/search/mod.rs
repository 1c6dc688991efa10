//! Saturation search: the highest load at which a server still meets its service level.
//!
//! `settings` defines what is varied and when a level counts as kept. `bisect` chooses the next level and when to stop,
//! `share` judges a level, and `overload` says how long a rate must be probed; all three are independent of servers and
//! clocks. `run` sends the probes and keeps all their rows, `tables` writes them, and `stage` is the load stage with a search.

mod bisect;
mod overload;
mod run;
mod settings;
mod share;
mod stage;
mod tables;
#[cfg(test)]
mod tests;

pub use bisect::{Found, Level, Pooled, Probe, Rules, Tried};
pub use overload::{Overload, Undecided};
pub use run::{SearchFiles, run_search};
pub use settings::{Bounds, Search};
pub(crate) use share::Judged;
pub(crate) use stage::run;
