//! The parts of a simulated server: the settings under `simulate`, and the definitions of the collection
//! `simulated-servers`.

use pipeline::stage::{Json, Shipped};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::span::TimeSpan;

/// The simulated servers shipped with the binary.
pub(crate) fn shipped() -> Vec<Shipped> {
    let server = |name, text| Shipped {
        collection: COLLECTION,
        name,
        text,
    };
    vec![
        server(
            "batching",
            include_str!("../../simulated-servers/batching.yaml"),
        ),
        server(
            "serial",
            include_str!("../../simulated-servers/serial.yaml"),
        ),
    ]
}

/// The collection of definitions of simulated servers.
pub(crate) const COLLECTION: &str = "simulated-servers";

/// Returns the schema of one definition of [`COLLECTION`].
pub(crate) fn schema() -> (&'static str, schemars::Schema) {
    (COLLECTION, schemars::schema_for!(SimulatedServer))
}

/// Rows drawn from a model of a server, in place of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-form" = "{server: NAME}", "x-other-words" = { "TEXT": "`{server: TEXT}`" }))]
pub struct Simulation {
    /// The server: the name of a definition in `simulated-servers`, or one written here.
    pub server: SimulationChoice,
    /// Distinguishes servers with equal settings: each name has its own noise. The noise of a cell
    /// otherwise follows from the settings, the seed and the repetition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A factor on all declared times, above 0, for example for a larger model or a slower host.
    #[serde(default = "one")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub slowdown: f64,
    /// When the cell runs by the simulated clock, and how the host drifts with it.
    #[serde(default)]
    pub clock: Clock,
    /// What goes wrong.
    #[serde(default, skip_serializing_if = "Faults::is_none")]
    pub faults: Faults,
}

fn one() -> f64 {
    1.0
}

/// A simulated server by name or written out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SimulationChoice {
    /// The name of a definition.
    Name(String),
    /// The definition itself.
    Inline(Box<SimulatedServer>),
}

/// A model of a server that batches continuously, in synchronous steps.
///
/// A request waits in one line, first come first served, until one of the slots is free. A step
/// is the prefill of one request, which ends with its first token, or a decode step, which gives
/// every request in a slot one more token; prefill goes first. Requests that arrive within a step
/// join at its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-form" = "{slots: 8, prefill: {fixed: 5 ms, per-token: 20 us}, decode: {fixed: 10 ms}}"))]
pub struct SimulatedServer {
    /// What it represents, for readers. Keys do not contain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How many requests are in progress at once.
    #[schemars(range(min = 1))]
    pub slots: u32,
    /// The time that the prefill of one request takes.
    pub prefill: PrefillCost,
    /// The time that a decode step takes.
    pub decode: DecodeCost,
    /// Tokens of a prompt for each of its words, above 0; rounded, at least one per prompt.
    #[serde(default = "tokens_per_word")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub tokens_per_word: f64,
    /// Tokens in each chunk sent after the first, which holds one.
    #[serde(default = "one_token")]
    #[schemars(range(min = 1))]
    pub tokens_per_chunk: u32,
    /// The largest number of tokens of prompt and requested output together. A larger request gets HTTP 400. By
    /// default, there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub context: Option<u32>,
    /// Whether to skip the prefill of what a prompt has in common with an earlier one: with the last prompt of the same
    /// shared prefix, or else with any prompt of the cell, in complete blocks of 16 tokens.
    #[serde(default)]
    pub prefix_cache: bool,
    /// How many tokens the prefix cache holds; by default, all. The prompts that were prefilled the longest ago leave
    /// first. Each prompt counts in full, and of prompts with the same shared prefix, only the last one counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub prefix_cache_tokens: Option<u64>,
    /// Tokens of a prompt for each image beside it. A workload with images needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tokens_per_image: Option<u32>,
    /// How much times vary.
    #[serde(default)]
    pub noise: Noise,
}

fn tokens_per_word() -> f64 {
    1.1
}

fn one_token() -> u32 {
    1
}

/// The time of a prefill: `fixed + per-token · tokens not in the cache`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-form" = "{fixed: 5 ms, per-token: 20 us}"))]
pub struct PrefillCost {
    /// The part that does not depend on the number of tokens.
    #[serde(default)]
    pub fixed: TimeSpan,
    /// The part for each token that is not in the cache.
    #[serde(default)]
    pub per_token: TimeSpan,
}

/// The time of a decode step with `b` requests in slots: `fixed + per-sequence · (b − 1)`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-form" = "{fixed: 10 ms, per-sequence: 200 us}"))]
pub struct DecodeCost {
    /// The time of a step with one request.
    pub fixed: TimeSpan,
    /// The additional time for each further request.
    #[serde(default)]
    pub per_sequence: TimeSpan,
}

/// Standard deviations of the logarithms of lognormal factors of mean 1; 0 is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(extend("x-form" = "{step: 0.02, launch: 0.01}"))]
pub struct Noise {
    /// A factor for each step.
    #[schemars(range(min = 0))]
    pub step: f64,
    /// One factor for a whole cell: what makes repetitions differ.
    #[schemars(range(min = 0))]
    pub cell: f64,
    /// One factor for each launch, shared by all its cells: a block of the design and a server
    /// with its name and slowdown.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub launch: f64,
    /// One factor for each block, shared by all its launches.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub block: f64,
}

/// A value of 0 is in no key, so simulations without it keep their keys.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// The simulated clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(extend("x-form" = "{start: 1 h, spread: 10 min}"))]
pub struct Clock {
    /// When the cell starts, counted from the clock's zero (2000-01-01 00:00 UTC in `started_unix_ns`).
    pub start: TimeSpan,
    /// The start is delayed by a uniformly drawn time of up to this, so that cells do not all start at once.
    pub spread: TimeSpan,
    /// The share by which the host slows down per hour since the clock's zero: times are multiplied by `1 + drift ·
    /// hours`.
    #[schemars(range(min = 0))]
    pub drift: f64,
}

/// Faults. A fault with a share hits exactly that share of the measured requests, rounded up, drawn
/// at random.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(extend("x-form" = "{zero-tokens: {share: 0.01}}"))]
pub struct Faults {
    /// Requests answered with an HTTP error at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_errors: Option<HttpErrors>,
    /// The server goes silent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hang: Option<Hang>,
    /// Complete answers without a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zero_tokens: Option<Share>,
    /// Rows that are lost after the measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_rows: Option<Share>,
}

impl Faults {
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// A share of the measured requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Share {
    /// The share, 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
}

/// Requests answered with an HTTP error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct HttpErrors {
    /// Their share, 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
    /// The status code.
    #[serde(default = "bad_request")]
    #[schemars(range(min = 400, max = 599))]
    pub status: u16,
}

fn bad_request() -> u16 {
    400
}

/// A server that goes silent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Hang {
    /// After this many measured requests were answered. The stage's `heartbeat` then ends the cell
    /// as hung.
    pub after: u64,
}

/// Returns the problems with the numbers that the schema does not find: keys from `simulate` on, and a message.
/// Definitions by name are not checked against the schema, so all numbers are checked here.
pub(crate) fn problems(
    simulation: &Simulation,
    server: &SimulatedServer,
) -> Vec<(Vec<&'static str>, String)> {
    let mut problems = Vec::new();
    let mut above_zero = |keys: &[&'static str], value: f64| {
        if !(value.is_finite() && value > 0.0) {
            let name = keys.last().unwrap_or(&"");
            problems.push((
                keys.to_vec(),
                format!("{name} must be above 0, got {value}"),
            ));
        }
    };
    above_zero(&["slowdown"], simulation.slowdown);
    above_zero(&["server", "tokens-per-word"], server.tokens_per_word);
    above_zero(&["server", "slots"], f64::from(server.slots));
    above_zero(
        &["server", "tokens-per-chunk"],
        f64::from(server.tokens_per_chunk),
    );
    let mut not_below_zero = |keys: &[&'static str], value: f64| {
        if !(value.is_finite() && value >= 0.0) {
            let name = keys.last().unwrap_or(&"");
            problems.push((
                keys.to_vec(),
                format!("{name} must be 0 or more, got {value}"),
            ));
        }
    };
    not_below_zero(&["clock", "drift"], simulation.clock.drift);
    not_below_zero(&["server", "noise", "step"], server.noise.step);
    not_below_zero(&["server", "noise", "cell"], server.noise.cell);
    not_below_zero(&["server", "noise", "launch"], server.noise.launch);
    not_below_zero(&["server", "noise", "block"], server.noise.block);
    if server.prefix_cache_tokens.is_some() && !server.prefix_cache {
        problems.push((
            vec!["server", "prefix-cache-tokens"],
            "a server without `prefix-cache: true` has no cache to limit".to_owned(),
        ));
    }
    if server.decode.fixed.nanoseconds() == 0 {
        problems.push((
            vec!["server", "decode", "fixed"],
            "a decode step must take time".to_owned(),
        ));
    }
    let faults = &simulation.faults;
    let shares = [
        (
            ["faults", "http-errors", "share"],
            faults.http_errors.as_ref().map(|f| f.share),
        ),
        (
            ["faults", "zero-tokens", "share"],
            faults.zero_tokens.as_ref().map(|f| f.share),
        ),
        (
            ["faults", "missing-rows", "share"],
            faults.missing_rows.as_ref().map(|f| f.share),
        ),
    ];
    for (keys, share) in shares {
        if let Some(share) = share.filter(|s| !(0.0..=1.0).contains(s)) {
            problems.push((
                keys.to_vec(),
                format!("a share lies between 0 and 1, got {share}"),
            ));
        }
    }
    problems
}

impl SimulatedServer {
    /// Returns a server for dry runs: like the shipped `batching`, with few chunks per answer.
    pub(crate) fn rehearsal() -> Self {
        Self {
            description: None,
            slots: 32,
            prefill: PrefillCost {
                fixed: TimeSpan::milliseconds(2),
                per_token: TimeSpan::microseconds(40),
            },
            decode: DecodeCost {
                fixed: TimeSpan::milliseconds(10),
                per_sequence: TimeSpan::microseconds(300),
            },
            tokens_per_word: tokens_per_word(),
            tokens_per_chunk: 16,
            context: None,
            prefix_cache: true,
            prefix_cache_tokens: None,
            tokens_per_image: None,
            noise: Noise {
                step: 0.05,
                cell: 0.05,
                ..Noise::default()
            },
        }
    }
}

impl Simulation {
    /// Returns whether the server is known and has no cost for images.
    pub(crate) fn knows_no_images(&self) -> bool {
        matches!(&self.server, SimulationChoice::Inline(server) if server.tokens_per_image.is_none())
    }

    /// Returns the content that determines the noise, without settings that only say when the cell runs.
    pub(crate) fn content(&self) -> Json {
        let mut content = self.clone();
        content.clock = Clock::default();
        serde_json::to_value(&content).expect("a simulation always serializes")
    }

    /// Returns what identifies a launch: cells of a block with the same value share one.
    pub(crate) fn launch(&self, server: &SimulatedServer) -> Json {
        serde_json::json!([server, self.name, self.slowdown])
    }
}
