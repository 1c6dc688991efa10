//! The calibrate stage: runs the load generator against a server whose times are known.
//!
//! At every point of a grid, the generator loads a reference server exactly as in a load stage. The server is its own
//! process, pinned to its own core if the machine has two or more. It logs when it read each request and when it handed
//! each token to the kernel, on the kernel's monotonic clock, which both processes share. Rows are joined with that log
//! request by request through the digest of the prompt. So errors are those of single requests and chunks, not
//! differences between distributions:
//!
//! | metric | reported | true | unit |
//! |---|---|---|---|
//! | `ttft` | `first_token_ns − sent_ns` | first token handed over − request read, by the server's log | a request |
//! | `e2e` | `last_token_ns − sent_ns` | last token handed over − request read | a request |
//! | `icl` | gap between two chunks | the same gap in the log; chunks hold one token, so it is also the ITL | a gap |
//! | `stamp` | `at_ns` of a chunk | when it was handed over, on the shared clock | a chunk |
//! | `send_lag` | `sent_ns − scheduled_ns` | request read − `scheduled_ns`, on the shared clock | a request |
//!
//! The server's log is itself late if the server was slow to read a request. That overstates the errors of `ttft`,
//! `e2e` and `send_lag`; `stamp` is not affected.
//!
//! A real server's times are not known, but some servers report their own account of each answer. `account` compares it
//! with what the generator measured.

mod account;
mod certificate;
mod grid;
mod kind;
mod point;
mod rehearse;
mod result;

pub use account::{Account, Accounted, account, account_table};
pub use certificate::Certificate;
pub use grid::{Bound, Grid, Point};
pub use kind::Calibrate;
pub use point::{Errors, Measured, measure_point};
pub use result::{Calibration, Host, calibrate};
