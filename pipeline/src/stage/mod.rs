//! The contract between the pipeline and the stage kinds.
//!
//! A kind defines the form of its settings ([`StageKind::schema`]), their full meaning ([`StageKind::canonical`], which
//! enters the action key) and how to execute one cell ([`StageKind::run`]). Everything a cell may see comes in through
//! its [`Job`]; everything it leaves goes out through [`Done`] or [`Failure`].

mod control;
mod input;
mod kind;
mod lease;
mod output;
mod settings;
mod status;

pub use crate::place::Coordinates;
pub use control::{Control, Progress, Rates};
pub use input::{Execution, Input, InputCell, LedgerLine, MissingCell, Study};
pub use kind::{Class, Demand, Job, MeasuredRequests, Registry, Shared, StageKind};
pub use lease::{Inert, Lease, Watch};
pub use output::{Adopted, Artifact, Content, Done, Media, Output};
pub use settings::{
    Json, KnownAxis, KnownStage, KnownTable, Library, Needed, NoLibrary, PlannedTable, Problem,
    Shipped, Step,
};
pub use status::{CellStatus, Failure, Subject};
