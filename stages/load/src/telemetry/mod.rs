//! The sampling beside the load: host, processes, GPUs, the server's own probes and its log.
//!
//! Each source is a [`companion::Companion`] on a separate thread of low priority. It is sampled once before anything
//! is sent; a source that fails then is absent, with its reason. It is then sampled at the declared interval, and once
//! more after the last request. Stamps are on the cell's clock. Rows go directly to Parquet, so memory does not grow
//! with the run.

mod companion;
mod elsewhere;
mod exporter;
mod files;
mod gpu;
mod host;
mod log;
mod nvml;
mod power;
mod process;
mod settings;
mod slots;
mod smi;
mod surroundings;

pub use elsewhere::answer_questions;
pub use settings::{Gpu, Telemetry};
pub use surroundings::surroundings;

pub(crate) use companion::{Absent, Companion, Sampled, joined, while_sampling};
pub(crate) use elsewhere::{Elsewhere, GpusElsewhere, Sampler, Shared};
pub(crate) use exporter::{Dcgm, Machine, Node, ServerHosts, endpoints};
pub(crate) use gpu::{Gpus, find_program};
pub(crate) use host::Host;
pub(crate) use log::{LogEvents, LogFrom};
pub(crate) use power::Power;
pub(crate) use process::Processes;
pub(crate) use slots::{ServerInfo, Slots};
