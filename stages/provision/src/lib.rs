//! The provision stage: host probes, engines and weights.
//!
//! Outputs: `environment` (what was prepared: engine, packages, model, the host's identity; nothing ephemeral) and
//! `host` (the host's identity). An environment that a study names adds `software` (a row for each distribution, or
//! image and labels), and a venv also adds `lock`. The record holds what was observed of the host in this run, with the
//! reason of each failed probe under `unavailable`. During the lease, the stage passes on where the program and the
//! weights are.

mod choice;
mod container;
mod descriptor;
mod environment;
mod fetch;
mod installed;
mod libraries;
mod machine;
mod module;
mod prepare;
mod probe;
mod remote;
mod requirements;
mod script;
mod settings;
mod sources;
mod stage;
mod surroundings;
mod unpack;
mod unpacked;
mod venv;
mod weights;

pub use container::ContainerSettings;
pub use machine::{Gpu, Machine};
pub use module::missing_module;
pub use remote::answer;
pub use requirements::{Unmet, unmet};

pub use stage::Provision;
pub use surroundings::Brought;
pub use unpacked::{Unpacked, check_unpacked, remove_unpacked};
pub use venv::VenvSettings;
