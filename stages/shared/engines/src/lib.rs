//! Engine and model definitions: data about serving engines, shipped and user-made.
//!
//! A definition is a YAML file whose form the types here give ([`Engine`], [`Model`]): their
//! doc comments are what an editor shows. Provisioning reads what an engine requires and
//! which packages it comes in, serving how to launch, probe and stop it. How to write one is
//! in `docs/engines.md`; those in `engines/` and `models/` ship with the binary.

mod check;
mod command;
mod consent;
mod engine;
mod model;
mod package;
mod peers;
mod running;
mod settings;
mod shipped;

pub use command::{Drafts, Paths, Rendered, render, template};
pub use consent::executed_by;
pub use engine::{
    Engine, KEPT_OUT, KnownFailure, Launch, Library, Limit, Log, Program, Ready, Requirements,
    Stop, Tool, Urls, Usage, is_kept_out,
};
pub use model::{LocalWeights, Model, NamedWeights, PackagedWeights, Shape, Weights};
pub use package::{Package, PackageFile, Registry, Sha256, Unpack};
pub use peers::{Peer, PeerArguments};
pub use running::{Facts, Probe};
pub use settings::{Setting, SettingType, resolve};
pub use shipped::{collections, shipped};
