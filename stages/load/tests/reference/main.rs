//! The load generator against the reference server.

mod beside;
mod calibration;
mod common;
mod faults;
mod runs;
mod stage;
