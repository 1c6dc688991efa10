//! The settings of a load stage.

use std::collections::BTreeMap;

use import::Import;
use pipeline::sources::NamedFiles;
use pipeline::stage::Problem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arrival::Arrival;
use crate::extent::Cancel;
use crate::generators::GeneratorsChoice;
use crate::search::Search;
use crate::simulate::Simulation;
use crate::span::TimeSpan;
use crate::telemetry::Telemetry;
use crate::workload::Workload;
use apis::Delivery;
use contract::Api;

/// The settings of a load stage. `workload` and `arrival` are required, unless `simulate` or
/// `import` replaces the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend(
    "if" = { "anyOf": [{ "required": ["import"] }] },
    "else" = { "required": ["workload", "arrival"] },
    "x-other-words" = {
        "concurrency": "`arrival: {closed-loop: {clients: N}}`",
        "max-concurrency": "`arrival: {closed-loop: {clients: N}}`; beside a rate, `max-in-flight: N`",
        "clients": "`arrival: {closed-loop: {clients: N}}`",
        "users": "`arrival: {closed-loop: {clients: N}}`",
        "vus": "`arrival: {closed-loop: {clients: N}}`",
        "connections": "`arrival: {closed-loop: {clients: N}}`",
        "ramp-up": "`arrival: {ramp: {…}}` for arrivals that grow; all clients of a closed loop start at once",
        "rampup": "`arrival: {ramp: {…}}` for arrivals that grow; all clients of a closed loop start at once",
        "spawn-rate": "`arrival: {ramp: {…}}` for arrivals that grow; all clients of a closed loop start at once",
        "iterations": "`requests`",
        "run-time": "`duration`",
        "random-input-len": "a key of the workload: `workload: {prompts: {words: {length: {tokens: N}}}, …}`",
        "random-output-len": "a key of the workload: `workload: {output: {tokens: N}, …}`",
        "request-timeout": "`timeout`",
        "rate": "`arrival: {poisson: {rate: R}}`; all requests at once are `arrival: burst`",
        "request-rate": "`arrival: {poisson: {rate: R}}`; all requests at once are `arrival: burst`",
        "qps": "`arrival: {poisson: {rate: R}}`",
        "rps": "`arrival: {poisson: {rate: R}}`",
        "burst": "`arrival: burst`",
        "max-seconds": "`duration`",
        "benchmark-duration": "`duration`",
        "in-flight": "`max-in-flight`",
        "num-prompts": "`requests`",
        "num-requests": "`requests`",
        "request-count": "`requests`",
        "max-requests": "`requests`",
        "target": "the engine of the provision stage: `launch: {program: {running: URL}}`",
        "profile": "`arrival`: a closed loop of clients, or a rate",
        "rate-type": "`arrival`: a closed loop of clients, or a rate",
        "stream": "`delivery: streamed`, which is the default; `delivery: whole` asks for whole answers",
        "prompts": "a key of `workload`",
        "dataset": "a key of the workload: `workload: {prompts: {dataset: {file: FILE}}, …}`",
        "input-len": "a key of the workload: `workload: {prompts: {words: {length: {tokens: N}}}, …}`",
        "input-tokens": "a key of the workload: `workload: {prompts: {words: {length: {tokens: N}}}, …}`",
        "prompt-tokens": "a key of the workload: `workload: {prompts: {words: {length: {tokens: N}}}, …}`",
        "output-len": "a key of the workload: `workload: {output: {tokens: N}, …}`",
        "output-tokens": "a key of the workload: `workload: {output: {tokens: N}, …}`",
        "max-tokens": "a key of the workload: `workload: {output: {tokens: N}, …}`",
        "temperature": "a key of the workload: `workload: {sampling: {temperature: T}, …}`",
        "ignore-eos": "a key of the workload: `workload: {output: {tokens: N, mode: exact}, …}`",
        "url": "the engine of the provision stage: `launch: {program: {running: URL}}`",
        "base-url": "the engine of the provision stage: `launch: {program: {running: URL}}`",
        "model": "a key of the provision stage",
        "engine": "a key of the provision stage",
        "server": "`needs: [STAGE]`, with a stage of kind `serve`",
        "slo": "a part of the analysis: the operator `goodput`, or `search: {bounds: …}`",
        "goodput": "a part of the analysis: the operator `goodput`, or `search: {bounds: …}`",
    },
))]
pub struct Settings {
    /// The requests: the name of a definition in `workloads`, or a definition written here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "WorkloadChoice")]
    pub workload: Option<WorkloadChoice>,
    /// When requests arrive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Arrival")]
    pub arrival: Option<Arrival>,
    /// Rows from a result file of another tool instead of a server. You cannot combine it with
    /// other settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Import")]
    pub import: Option<Import>,
    /// How many requests are measured. Give either this or `requests-per-client`. Without them,
    /// steps and ramps send the requests that fit into their time, and traces send all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("x-other-words" = {
        "-1": "`duration: 10 min` in its place, for a load that a time ends",
        "0": "`duration: 10 min` in its place, for a load that a time ends",
        "inf": "`duration: 10 min` in its place, for a load that a time ends",
        "infinite": "`duration: 10 min` in its place, for a load that a time ends",
        "unlimited": "`duration: 10 min` in its place, for a load that a time ends",
        "none": "`duration: 10 min` in its place, for a load that a time ends",
        "all": "`dataset: {file: FILE}` in the workload, and the number of its prompts here",
        "TIME": "`duration: TIME` in its place, for a load that a time ends",
    }))]
    pub requests: Option<u64>,
    /// How many requests are measured for each client of a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("x-other-words" = {
        "TIME": "`duration: TIME` in its place, for a load that a time ends",
    }))]
    pub requests_per_client: Option<u64>,
    /// How many whole sessions are measured, if the workload has sessions. `requests` may cut the
    /// last session short instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub sessions: Option<u64>,
    /// How long new requests are sent. Benchtrail waits for requests in flight at the end. With a count too, the
    /// limit that is reached first ends the load. Without a count, a closed loop sends as many requests as fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TimeSpan")]
    pub duration: Option<TimeSpan>,
    /// The largest number of requests in flight for open arrivals. Further arrivals wait in line,
    /// and latencies from the scheduled time include the wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65536))]
    pub max_in_flight: Option<u32>,
    /// Abandon requests after some time, like users who close a page. Their rows have the status
    /// `cancelled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Cancel")]
    pub cancel: Option<Cancel>,
    /// How many processes send the load, each with its own part of the requests; by default one. Use more if one
    /// process is the bottleneck (`client_bound`). `{hosts: [NAME, …]}` starts them on other hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "GeneratorsChoice")]
    pub generators: Option<GeneratorsChoice>,
    /// How many warm-up requests are sent and answered, in a closed loop, before the measurement
    /// begins.
    #[serde(default)]
    #[schemars(extend("x-other-words" = {
        "TIME": "a number of requests, such as `warmup: 8`: no time ends the warm-up",
    }))]
    pub warmup: u64,
    /// The API to use; by default the one the server's definition names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<Api>,
    /// The environment variable that holds the key sent as `Authorization: Bearer`; by default
    /// the one the server's definition names. The key itself is stored nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub api_key_env: Option<String>,
    /// Headers sent with every request, such as a gateway's route. They are stored with the
    /// settings, so secrets are refused here; use `api-key-env` instead.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Whether answers are streamed.
    #[serde(default)]
    pub delivery: Delivery,
    /// The time limits of a request.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// If no byte arrives on any stream for this long while requests are in flight, the cell ends
    /// as hung. A request that waits for its first token within its limit counts as a sign of
    /// life. `0 s` disables this.
    #[serde(default = "heartbeat")]
    pub heartbeat: TimeSpan,
    /// Search for the highest level of `arrival` at which the server meets its bounds. `requests`
    /// is then the largest number per level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Search")]
    pub search: Option<Search>,
    /// What to sample during the load, and how often.
    #[serde(default)]
    pub telemetry: Telemetry,
    /// Take the rows from a declared model of a server instead of sending requests to a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulate: Option<Simulation>,
    /// The files that the settings name by digest; not a setting.
    #[serde(skip)]
    pub files: NamedFiles,
}

fn heartbeat() -> TimeSpan {
    TimeSpan::seconds(60)
}

/// A workload by name or written out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum WorkloadChoice {
    /// The name of a definition.
    Name(String),
    /// The definition itself.
    Inline(Box<Workload>),
}

/// The time limits of a request. A request that exceeds one gets a row with the status `timeout`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(extend("x-alone" = "total"))]
pub struct Timeouts {
    /// The time limit for opening a connection.
    pub connect: TimeSpan,
    /// The time limit from the request's first byte to the first byte of the answer's body.
    pub first_token: TimeSpan,
    /// The time limit between bytes of the answer's body.
    pub inter_token: TimeSpan,
    /// The time limit from the request's first byte to the answer's end.
    pub total: TimeSpan,
}

impl Timeouts {
    /// Returns the limits within which no request can succeed.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        let limits = [
            ("connect", self.connect),
            ("first-token", self.first_token),
            ("inter-token", self.inter_token),
            ("total", self.total),
        ];
        let zero = limits
            .into_iter()
            .filter(|(_, limit)| limit.nanoseconds() == 0);
        zero.map(|(key, _)| {
            let message = format!("the limit `{key}` is 0 s, so every request would fail");
            let hint =
                "write a longer time, such as `30 s`; for practically no limit, write `24 h`";
            Problem::at(&["timeouts", key], message).hint(hint)
        })
        .collect()
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: TimeSpan::seconds(10),
            first_token: TimeSpan::seconds(300),
            inter_token: TimeSpan::seconds(60),
            total: TimeSpan::seconds(3600),
        }
    }
}
