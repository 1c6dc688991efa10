//! From one YAML file to cells, to a plan, to execution: the middle of the workspace.
//!
//! `pipeline` names no stage kind: kinds register in a [`Registry`], and only the command
//! line knows both. What a kind is and what it may see is in [`stage`].

pub mod experiment;
pub mod lease;
pub mod process;
pub mod stage;

pub use experiment::{Axis, Cell, Excluded, Experiment, Stage};
pub use stage::{
    Artifact, CellStatus, Class, Content, Control, Coordinates, Done, Failure, Input, InputCell, Job, Json,
    Lease, LedgerLine, Library, Media, Output, Problem, Progress, Registry, Shipped, StageKind, Step, Study,
};
