//! The run stage: a program or script of the study, pinned by its digest, whose outputs are declared.
//!
//! What it leaves in its folder becomes tables and blobs of the cell. With a server among the needs it
//! can ask that server: for answers to compare, or for a profile of a window.

mod inputs;
mod launch;
mod settings;
mod stage;
mod tables;

pub use settings::{ColumnSettings, ColumnType, Program, Settings, TableSettings, Word};
pub use stage::Run;
