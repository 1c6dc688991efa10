//! The serve stage: a live engine under a lease.
//!
//! Reads the `environment` that a provision stage prepared. Output: `server` (engine, version,
//! model, resolved settings, command template, limits read from the running server; nothing
//! ephemeral). While the server runs: base URL, pid, log path, model name, endpoints. On release:
//! `log`.

mod describe;
mod elsewhere;
mod fit;
mod group;
mod listening;
mod log_tail;
mod part;
mod probe;
mod process;
mod reach;
mod ready;
mod remote;
mod stage;
mod start;
mod together;

pub use probe::silent;
pub use remote::run_order;
pub use stage::Serve;
