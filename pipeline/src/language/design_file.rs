//! The content that a file may have under `design:`.

use schemars::JsonSchema;
use serde::Deserialize;

use super::settings::{BlocksText, DurationText, PercentText};
use crate::design::{Otherwise, UnitOrder};
use crate::stage::Json;

/// What to write for a number of blocks that follows from the results.
const UNTIL_PRECISE: &str = "`blocks: 5, until: {relative-half-width: 5 %, of: output_throughput, at-most: 20}`, which adds blocks until the \
                             figure is known this precisely";

/// How a study is replicated. A profile replaces single keys.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[schemars(extend("x-other-words" = {
    "repetitions": "`blocks`",
    "repeats": "`blocks`",
    "repeat": "`blocks`",
    "reps": "`blocks`",
    "runs": "`blocks`",
    "replicates": "`blocks`",
    "replications": "`blocks`",
    "num-runs": "`blocks`",
    "iterations": "`blocks`",
    "trials": "`blocks`",
    "randomize": "`order: randomised`, which is the default",
    "shuffle": "`order: randomised`, which is the default",
    "baseline": "`control`",
}, "x-alone" = "blocks"))]
pub(crate) struct DesignFile {
    /// The number of complete blocks. Each launches every configuration once.
    #[schemars(range(min = 1, max = 1000), extend("x-other-words" = {
        "MAPPING": UNTIL_PRECISE, "until": UNTIL_PRECISE, "auto": UNTIL_PRECISE, "adaptive": UNTIL_PRECISE, "converged": UNTIL_PRECISE,
    }))]
    pub(super) blocks: Option<u32>,
    /// The stage whose launch is the unit of replication. By default, the only serve stage, or the
    /// load stage of a study without servers.
    pub(super) unit: Option<String>,
    /// How launches are ordered within a block.
    pub(super) order: Option<UnitOrder>,
    /// The A/A arm: one label of an axis a second time, under another name.
    pub(super) control: Option<ControlFile>,
    /// How long all cores work before the first launch.
    pub(super) warm_up: Option<DurationText>,
    /// How long the machine rests between launches.
    pub(super) cool_down: Option<DurationText>,
    /// How quiet the machine must be before a measurement.
    pub(super) quiet: Option<QuietFile>,
    /// The expected noise between launches, for the smallest detectable effect.
    pub(super) noise: Option<PercentText>,
    /// Adds blocks beyond `blocks` until a figure is known precisely enough.
    pub(super) until: Option<UntilFile>,
}

/// When blocks have been enough, or none.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum UntilFile {
    /// A rule.
    Rule(RuleFile),
    /// No rule: for a profile that does without.
    Off(Off),
}

/// When there are enough blocks.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("x-form" = "{relative-half-width: 5 %, of: output_throughput, at-most: 20}", "x-alone" = "relative-half-width", "x-other-words" = {
    "precision": "`relative-half-width: 5 %`",
    "half-width": "`relative-half-width: 5 %`",
    "within": "`relative-half-width: 5 %`",
    "width": "`relative-half-width: 5 %`",
    "tolerance": "`relative-half-width: 5 %`",
    "error": "`relative-half-width: 5 %`",
    "figure": "`of`",
    "metric": "`of`",
    "column": "`of`",
    "max": "`at-most`",
    "max-blocks": "`at-most`",
}))]
pub(super) struct RuleFile {
    /// The largest half-width of the interval of each launch's mean, relative to the mean.
    pub(super) relative_half_width: PercentText,
    /// The figure that must be known this precisely, by its column's name.
    #[serde(rename = "of")]
    pub(super) figure: String,
    /// The largest number of blocks.
    pub(super) at_most: BlocksText,
}

/// The A/A arm, or none.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum ControlFile {
    /// An arm.
    Arm(ArmFile),
    /// None: for a profile that does without.
    Off(Off),
}

/// Switches off a part of the design, for example in a profile.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Off {
    /// It is off.
    None,
}

/// The A/A arm.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-alone" = "label"))]
pub(super) struct ArmFile {
    /// The axis.
    pub(super) axis: String,
    /// The label that is launched a second time.
    #[schemars(extend("type" = ["string", "number", "boolean"]))]
    pub(super) label: Json,
    /// The name of the second launch.
    #[serde(rename = "as")]
    pub(super) name: String,
}

/// How quiet the machine must be.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("x-form" = "{load: 0.5, wait: 10 min}"))]
pub(super) struct QuietFile {
    /// The largest number of running tasks per core.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub(super) load: Option<f64>,
    /// How long a run waits for the machine to become quiet.
    pub(super) wait: Option<DurationText>,
    /// What a run does on a machine that is not quiet.
    pub(super) otherwise: Option<Otherwise>,
}
