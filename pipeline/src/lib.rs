//! Turns one YAML file into cells, a plan and an execution: the middle of the workspace.
//!
//! `pipeline` names no stage kind: kinds register in a [`Registry`], and only the command line knows both. [`stage`]
//! describes what a kind is and what it may see.

// The list of other tools' words for keys is long.
#![recursion_limit = "256"]

mod cause;
mod cgroup;
mod clock;
mod declared;
pub mod design;
mod dry_run;
pub mod effect;
pub mod enclosure;
mod error;
pub mod event;
pub mod executable;
mod execute;
pub mod experiment;
mod graph;
mod ids;
pub mod key;
pub mod language;
pub mod lease;
mod left_out;
mod local_paths;
pub mod lock;
pub mod long_log;
mod name;
mod not_run;
pub mod place;
pub mod plan;
mod probability;
pub mod process;
mod ready;
pub mod record;
mod reuse;
pub mod sources;
pub mod stage;
pub mod suggest;
pub mod temporary;
pub mod version_manager;

pub use cause::Cause;
pub use clock::unix_ns;
pub use declared::{claims_digests, tests_digests};
pub use dry_run::{DryRun, DryRunFinding, dry_run, dry_run_is_due};
pub use effect::{Consent, Effect, Permit, StageEffect, What, effects};
pub use error::PipelineError;
pub use event::Event;
pub use execute::{
    Committed, Difference, Listener, Prepared, ReproduceOptions, Reproduced, Reproduction,
    RunOptions, RunSummary, StudyDocument, StudyResult, Which, plan_to_run, reproduce, run,
    run_prepared,
};
pub use experiment::{Axis, Cell, Excluded, Experiment, Order, Stage};
pub use graph::UnknownKind;
pub use ids::{AxisId, LocalCell, StageId};
pub use language::{
    Diagnostic, Diagnostics, FileError, Files, NoFiles, Options, Place, experiment_schema, load,
    load_text, settings,
};
pub use lease::Leases;
pub use local_paths::LocalPaths;
pub use name::{NameError, OutputName, file_of_output};
pub use not_run::not_run;
pub use plan::{
    AwayFailure, Counts, Decision, DesignPlan, Elsewhere, Lack, LaunchedCell, Launches,
    NoiseSource, Plan, PlanOptions, PlannedCell, PlannedDemand, Reason, RentedMachine, Shard,
    ShardCell, Smallest, Wanted, measures_here, placed_facets, plan, relative_half_width,
    rented_machines, shards, wanted,
};
pub use probability::probability;
pub use ready::{unready, wants_shared_store};
pub use reuse::{Reuse, makers_in_words, this_host};
pub use stage::{
    Adopted, Artifact, CellStatus, Class, Content, Control, Coordinates, Done, Execution, Failure,
    Inert, Input, InputCell, Job, Json, KnownAxis, KnownStage, KnownTable, Lease, LedgerLine,
    Library, MeasuredRequests, Media, Needed, Output, PlannedTable, Problem, Progress, Registry,
    Shared, Shipped, StageKind, Step, Study, Watch,
};
