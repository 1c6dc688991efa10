//! The load generator against the reference server.

mod common;
mod faults;
mod runs;
mod stage;
