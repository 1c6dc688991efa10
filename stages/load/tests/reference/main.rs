//! The load generator against the reference server.

mod canned;
mod common;
mod extent;
mod faults;
mod generators;
mod keys;
mod monitoring;
mod runs;
mod servers;
mod sessions;
#[path = "../../../../tests/skipped.rs"]
mod skipped;
mod stage;
mod structured;
mod studies;
mod tls;
mod tokens;
mod vectors;
mod wire;
