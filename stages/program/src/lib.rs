//! The run stage: a program or script of the study, pinned by its digest, whose outputs are declared.
//!
//! The files that it leaves in its folder become tables and blobs of the cell. If it needs a server, it can query that
//! server, for answers to compare or for a profile of a window.

mod inputs;
mod launch;
mod settings;
mod stage;
mod tables;

pub use stage::Run;
