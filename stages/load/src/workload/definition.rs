//! The definition of a workload (collection `workloads`): the content of requests.

use std::collections::BTreeMap;

pub use apis::Sampling;
pub use contract::OutputMode;
use pipeline::stage::Json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::length::{Count, Length};
use super::sessions::Sessions;
use super::structured::Structured;
use super::tokenizer::Tokenizer;
use crate::trace::RecordedLengths;

/// A workload: the source of prompts, the requested output, and its sampling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-other-words" = {
    "dataset": "`prompts: {dataset: {file: …}}`",
    "file": "`prompts: {dataset: {file: …}}`",
    "input": "`prompts: {words: {length: N}}`",
    "isl": "`prompts: {words: {length: N}}`",
    "input-tokens": "`prompts: {words: {length: N}}`",
    "input-len": "`prompts: {words: {length: N}}`",
    "osl": "`output: {tokens: N}`",
    "output-tokens": "`output: {tokens: N}`",
    "output-len": "`output: {tokens: N}`",
    "max-tokens": "`output: {tokens: N}`",
    "batch": "`batch-size`",
    "batch-size-text": "`batch-size`",
    "random-batch-size": "`batch-size`",
    "texts-per-request": "`batch-size`",
    "temperature": "`sampling: {temperature: …}`",
    "num-prompts": "a key of the load stage: `requests: N`",
    "num-requests": "a key of the load stage: `requests: N`",
    "request-count": "a key of the load stage: `requests: N`",
    "requests": "a key of the load stage: `requests: N`",
    "request-rate": "a key of the load stage: `arrival: {poisson: {rate: N}}`",
    "rate": "a key of the load stage: `arrival: {poisson: {rate: N}}`",
    "concurrency": "a key of the load stage: `arrival: {closed-loop: {clients: N}}`",
}))]
pub struct Workload {
    /// What it represents, for readers. Keys do not contain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where the prompts come from.
    pub prompts: PromptSource,
    /// What decides the random prompts: every setting of the workload, or only those about prompts. Workloads that
    /// differ in other settings, such as `structured`, then have the same prompts.
    #[serde(default, skip_serializing_if = "is_by_workload")]
    pub drawn_by: DrawnBy,
    /// A system message for chat APIs; put before the prompt for the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The requested output. Parts of a mixture may override it. APIs that generate nothing have none.
    #[serde(default, skip_serializing_if = "Output::is_none")]
    pub output: Output,
    /// How output is sampled.
    #[serde(default)]
    pub sampling: Sampling,
    /// Several turns that build on each other; without it, prompts are independent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<Sessions>,
    /// The form answers must have; each answer is checked against it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Structured>,
    /// The tokenizer that counts lengths in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<Tokenizer>,
    /// Images sent with every prompt; a mixture's parts may override them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<Images>,
    /// For reranking: documents drawn beside each prompt, which is the query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<Documents>,
    /// For embeddings: how many texts are sent in one request, 1 by default. Each is drawn from `prompts`.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1, max = 65536))]
    pub batch_size: u32,
    /// Fields added unchanged to the body of every request. They replace Benchtrail's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Json>,
}

impl Workload {
    /// Returns whether each answer must have an exact length, so that the server must ignore the end of sequence.
    pub(crate) fn is_exact(&self) -> bool {
        let exact = |output: &Output| output.mode == OutputMode::Exact;
        match &self.prompts {
            PromptSource::Mixture(parts) => parts
                .iter()
                .all(|part| exact(part.output.as_ref().unwrap_or(&self.output))),
            _ => exact(&self.output),
        }
    }
}

/// The settings that decide the random prompts of a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DrawnBy {
    /// Every setting.
    #[default]
    Workload,
    /// `prompts`, `sessions`, `documents` and `tokenizer`.
    Prompts,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_by_workload(drawn_by: &DrawnBy) -> bool {
    *drawn_by == DrawnBy::Workload
}

/// Where prompts come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-other-words" = {
    "TEXT": "`{pack: {file: FILE}}`, with a line `{\"prompt\": \"TEXT\"}` in the file",
    "random": "`words: {length: N}`", "synthetic": "`words: {length: N}`", "text": "`pack: {file: FILE}`, with a line `{\"prompt\": …}` for each prompt",
    "file": "`dataset: {file: FILE}`", "sharegpt": "`dataset: {file: FILE}`, with the file of ShareGPT", "jsonl": "`pack: {file: FILE}`",
    "prefix": "`shared-prefix`", "prompt": "`pack: {file: FILE}`, with a line `{\"prompt\": …}` for each prompt",
}))]
pub enum PromptSource {
    /// Random words of the shipped list, independent for each prompt.
    Words(Words),
    /// A prefix of random words that prompts share, followed by an individual suffix.
    SharedPrefix(SharedPrefix),
    /// A weighted choice between sources.
    Mixture(Vec<Part>),
    /// Prompts that you write yourself.
    Pack(Pack),
    /// Passages of a text.
    Corpus(Corpus),
    /// The human turns of recorded conversations (ShareGPT).
    Dataset(Dataset),
    /// Random words, with the lengths of a recorded trace.
    Trace(RecordedLengths),
}

impl PromptSource {
    /// Returns whether prompts begin alike by design, so that a prefix cache is part of the measurement.
    pub fn shares_prefixes(&self) -> bool {
        match self {
            Self::SharedPrefix(_) => true,
            Self::Trace(trace) => trace.tokens_per_hash_id.is_some_and(|tokens| tokens > 0),
            Self::Mixture(parts) => parts.iter().any(|part| part.prompts.shares_prefixes()),
            Self::Words(_) | Self::Pack(_) | Self::Corpus(_) | Self::Dataset(_) => false,
        }
    }

    /// Returns whether rows of a file may name the lengths of their answers.
    pub(crate) fn has_lengths(&self) -> bool {
        match self {
            Self::Pack(_) | Self::Dataset(_) | Self::Trace(_) => true,
            Self::Mixture(parts) => parts.iter().any(|part| part.prompts.has_lengths()),
            Self::Words(_) | Self::SharedPrefix(_) | Self::Corpus(_) => false,
        }
    }

    /// Returns whether prompts are written in a file or the definition, so that another seed sends the same ones.
    pub fn is_written(&self) -> bool {
        match self {
            Self::Pack(_) | Self::Dataset(_) => true,
            Self::Mixture(parts) => parts.iter().any(|part| part.prompts.is_written()),
            Self::Words(_) | Self::SharedPrefix(_) | Self::Corpus(_) | Self::Trace(_) => false,
        }
    }
}

/// Prompts of random words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Words {
    /// The length. A word of the list is about 1.1 tokens (1.09 with SmolLM2's tokenizer).
    pub length: Length,
}

/// Prompts that share a prefix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SharedPrefix {
    /// The length of the shared prefix.
    pub prefix: Length,
    /// The length of the individual suffix.
    pub suffix: Length,
    /// The number of distinct prefixes; each prompt takes one at random.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub prefixes: u32,
    /// The share of prompts that begin with one of them. The others begin with individual text of
    /// the same length.
    #[serde(default = "all", skip_serializing_if = "is_all")]
    #[schemars(range(min = 0, max = 1))]
    pub fraction: f64,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_one(number: &u32) -> bool {
    *number == 1
}

fn all() -> f64 {
    1.0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_all(fraction: &f64) -> bool {
    *fraction == 1.0
}

/// A part of a mixture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Part {
    /// The part's name, a column of the prompt set.
    pub name: String,
    /// Its weight against the other parts' weights.
    #[schemars(range(min = 1))]
    pub weight: u32,
    /// Where its prompts come from.
    pub prompts: PromptSource,
    /// The requested output, if it differs from that of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// The model that its requests ask for instead of the server's, such as a LoRA adapter that it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The images of its prompts, if they differ from those of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<Images>,
}

/// Prompts that you write yourself, in the definition or in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-form" = "{file: prompts.jsonl}", "x-other-words" = { "path": "`file`", "filename": "`file`", "url": "`file`, after you download it", "name": "`file`, after you download it", "wrap": "`when-short: repeat`", "repeat": "`when-short: repeat`", "loop": "`when-short: repeat`" }))]
pub struct Pack {
    /// A file of JSON Lines, or a JSON array. Each entry is a JSON string, or an object with
    /// `prompt` and, optionally, its own `output_tokens`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The digest of the file's bytes. Filled in while planning; a file with another digest is refused later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The prompts themselves, instead of a file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<String>,
    /// The action if there are fewer prompts than needed.
    #[serde(default)]
    pub when_short: WhenShort,
}

/// Passages of a text. Each begins at a random word. A passage that reaches the end continues at the beginning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-other-words" = { "path": "`file`", "filename": "`file`" }))]
pub struct Corpus {
    /// The text, UTF-8.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(with = "String", required)]
    pub file: String,
    /// The digest of the file's bytes. Filled in while planning; a file with another digest is refused later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The length of a passage.
    pub length: Length,
}

/// Recorded conversations: a JSON array, or JSON Lines, of objects with `conversations` (ShareGPT: `from` and
/// `value`) or `messages` (`role` and `content`). They are taken in an order drawn from the seed. The human turns are
/// sent; the recorded answers are not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-form" = "{file: conversations.json}", "x-other-words" = { "path": "`file`", "filename": "`file`", "url": "`file`, after you download it", "name": "`file`, after you download it", "wrap": "`when-short: repeat`", "repeat": "`when-short: repeat`", "loop": "`when-short: repeat`" }))]
pub struct Dataset {
    /// The file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(with = "String", required)]
    pub file: String,
    /// The digest of the file's bytes. Filled in while planning; a file with another digest is refused later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Whether a turn requests as many tokens as its recorded answer has; this needs a `tokenizer`.
    /// Turns without a recorded answer use the workload's output, as all turns do otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recorded_output: bool,
    /// The action if there are fewer conversations than needed.
    #[serde(default)]
    pub when_short: WhenShort,
}

/// The action if a pack has fewer prompts than a cell needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhenShort {
    /// Planning fails: a repeated prompt could be answered from a cache.
    #[default]
    Refuse,
    /// Prompts repeat, in the same order.
    Repeat,
}

/// The requested output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-other-words" = {
    "max-tokens": "`tokens`, with `mode: cap`",
    "max-new-tokens": "`tokens`, with `mode: cap`",
    "length": "`tokens`",
    "ignore-eos": "`mode: exact`",
}))]
pub struct Output {
    /// How many tokens to request.
    pub tokens: Count,
    /// Whether the number is a cap or exact.
    #[serde(default)]
    pub mode: OutputMode,
    /// Whether it also replaces the lengths that the rows of a file name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replaces_recorded: bool,
}

impl Output {
    /// Requests nothing.
    pub const NONE: Self = Self {
        tokens: Count::Fixed(0),
        mode: OutputMode::Cap,
        replaces_recorded: false,
    };

    /// Returns whether nothing is requested.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }
}

impl Default for Output {
    fn default() -> Self {
        Self::NONE
    }
}

/// Images drawn beside a prompt: coloured tiles, so that no two are alike and all are small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Images {
    /// How many images.
    #[schemars(range(min = 0, max = 64))]
    pub count: u32,
    /// Pixels from left to right.
    #[schemars(range(min = 1, max = 4096))]
    pub width: u32,
    /// Pixels from top to bottom.
    #[schemars(range(min = 1, max = 4096))]
    pub height: u32,
}

/// Documents to rank for a query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Documents {
    /// How many documents.
    pub count: Count,
    /// How long each document is.
    pub length: Length,
}
