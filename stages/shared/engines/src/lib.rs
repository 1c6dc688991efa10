//! Engine and model definitions: data about serving engines, shipped and user-made.
//!
//! A definition is a YAML file. The types here define its form ([`Engine`], [`Model`]), and editors
//! show their doc comments. The provision stage reads an engine's requirements and packages; the
//! serve stage reads how to launch, probe and stop it. `docs/engines.md` explains how to write a
//! definition. Those in `engines/` and `models/` ship with the binary.

mod beside;
mod check;
mod command;
mod consent;
mod engine;
mod model;
mod named;
mod package;
mod peers;
mod running;
mod settings;
mod shipped;
mod variables;
mod version;

pub use beside::{Language, beside, code_in, digest_of_code, identities, imported};
pub use command::{Drafts, Paths, Rendered, render, template, uses_side_port};
pub use consent::executed_by;
pub use engine::{
    Engine, KEPT_OUT, KnownFailure, Launch, Library, Log, Program, Ready, Requirements, Stop, Tool,
    Urls, Usage, is_kept_out,
};
pub use model::{LocalWeights, Model, NamedWeights, PackagedWeights, Shape, Weights};
pub use named::{FILES, files_named, not_in_key, texts_of};
pub use package::{Package, PackageFile, Registry, Sha256, Unpack};
pub use peers::{Peer, PeerArguments};
pub use running::{Facts, Probe};
pub use settings::{Setting, SettingType, resolve, setting_meant, stands_for_setting};
pub use shipped::{collections, shipped};
pub use variables::{
    chooses_version, prepare_environment, read_by_version_manager, set_for_version,
};
pub use version::states_version;
