//! The settings for sampling beside the load.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::span::TimeSpan;

/// What to sample during the load, and how often.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(extend("x-form" = "{interval: 500 ms, gpu: auto}"))]
pub struct Telemetry {
    /// From one sample to the next, at least 10 ms.
    pub interval: TimeSpan,
    /// Whether the host is sampled: processors, memory, network, disks (`host_telemetry`).
    pub host: bool,
    /// Whether the server's processes and our own are sampled (`process_telemetry`).
    pub processes: bool,
    /// How GPUs are read (`gpu_telemetry`).
    pub gpu: Gpu,
    /// Whether to sample the server's slots and state, if its definition names the paths (`slots`,
    /// `server_info`).
    pub probes: bool,
    /// A silent server (see `heartbeat`) counts as hung only if the mean power of every GPU was below this many watts
    /// during the silence. Without this setting, or if no power can be read, silence alone decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub hung_below_w: Option<f64>,
}

/// How GPUs are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Gpu {
    /// NVML if its library is installed, `nvidia-smi` otherwise.
    #[default]
    Auto,
    /// NVML, the driver's library.
    Nvml,
    /// The program `nvidia-smi` on the search path.
    NvidiaSmi,
    /// GPUs are not read.
    None,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            interval: TimeSpan::seconds(1),
            host: true,
            processes: true,
            gpu: Gpu::Auto,
            probes: true,
            hung_below_w: None,
        }
    }
}

impl Telemetry {
    /// Returns settings that sample nothing.
    pub fn none() -> Self {
        Self {
            host: false,
            processes: false,
            gpu: Gpu::None,
            probes: false,
            ..Self::default()
        }
    }

    /// Returns the problem that the schema does not find: the key, a message and the remedy.
    pub(crate) fn problem(&self) -> Option<(&'static str, String, &'static str)> {
        if self.interval < TimeSpan::milliseconds(10) {
            return Some((
                "interval",
                format!("an interval is at least 10 ms, got {}", self.interval),
                "write, for example, `100 ms`",
            ));
        }
        match self.hung_below_w {
            Some(watts) if !(watts.is_finite() && watts > 0.0) => Some((
                "hung-below-w",
                format!("a power must be above 0 W, got {watts}"),
                "write a power between that of an idle GPU and that of a busy one",
            )),
            Some(_) if self.gpu == Gpu::None => Some((
                "hung-below-w",
                "no power is read with `gpu: none`".to_owned(),
                "write `gpu: auto`, or remove `hung-below-w`",
            )),
            _ => None,
        }
    }
}
