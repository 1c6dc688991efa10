//! What a request asks for: the definition of a workload (collection `workloads`).

use std::collections::BTreeMap;

use pipeline::stage::{Json, Shipped};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::trace::RecordedLengths;

/// The workloads shipped with the binary.
pub(crate) fn shipped() -> Vec<Shipped> {
    let workload = |name, text| Shipped { collection: "workloads", name, text };
    vec![
        workload("balanced-2k", include_str!("../workloads/balanced-2k.yaml")),
        workload("long-decode", include_str!("../workloads/long-decode.yaml")),
        workload("long-prefill", include_str!("../workloads/long-prefill.yaml")),
        workload("mixed-prefill", include_str!("../workloads/mixed-prefill.yaml")),
        workload("prefix-caching", include_str!("../workloads/prefix-caching.yaml")),
        workload("ranged", include_str!("../workloads/ranged.yaml")),
        workload("repeated-prefix", include_str!("../workloads/repeated-prefix.yaml")),
        workload("shared-prefix", include_str!("../workloads/shared-prefix.yaml")),
        workload("short-decode", include_str!("../workloads/short-decode.yaml")),
        workload("single-chat", include_str!("../workloads/single-chat.yaml")),
    ]
}

/// A workload: where prompts come from, how much output is asked for, how it is sampled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Workload {
    /// What it stands for, for readers; not in the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where the prompts come from.
    pub prompts: Source,
    /// A system message for chat APIs; put before the prompt for the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// How much output is asked for. A mixture's parts may say otherwise.
    pub output: Output,
    /// How output is sampled.
    #[serde(default)]
    pub sampling: Sampling,
    /// Fields added to the body of every request as they are, winning over ours.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Json>,
}

/// Where prompts come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Source {
    /// Random words of the shipped list, nothing in common between prompts.
    Words(Words),
    /// A prefix of random words that prompts share, then a suffix of their own.
    SharedPrefix(SharedPrefix),
    /// A weighted choice between sources.
    Mixture(Vec<Part>),
    /// Prompts given outright.
    Pack(Pack),
    /// Random words, as many as a recorded trace says.
    Trace(RecordedLengths),
}

/// Prompts of random words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Words {
    /// How many words; a word of the list is 1.1 tokens or so (1.09 with SmolLM2's tokenizer).
    pub length: Count,
}

/// Prompts that share a prefix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SharedPrefix {
    /// How many words are shared.
    pub prefix: Count,
    /// How many words follow that are a prompt's own.
    pub suffix: Count,
    /// How many distinct prefixes there are; a prompt takes one at random.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub prefixes: u32,
}

fn one() -> u32 {
    1
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
    pub prompts: Source,
    /// How much output it asks for, if not what the workload says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
}

/// Prompts given outright: in the definition or in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Pack {
    /// A JSON Lines file: each line an object with `prompt` (text), or a JSON string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The digest of the file's bytes. Filled in while planning; a file that says otherwise
    /// later is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The prompts themselves, instead of a file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<String>,
    /// What happens when more prompts are needed than there are.
    #[serde(default)]
    pub when_short: WhenShort,
}

/// What happens when a pack holds fewer prompts than a cell needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhenShort {
    /// The cell fails: a repeated prompt could be answered from a cache.
    #[default]
    Refuse,
    /// Prompts repeat, in the same order.
    Repeat,
}

/// A count, fixed or drawn evenly from a range with both ends in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Count {
    /// Always this many.
    Fixed(u32),
    /// Between two counts.
    Range(Range),
}

/// A range of counts, both ends in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The smallest count.
    pub from: u32,
    /// The largest count.
    pub to: u32,
}

impl Count {
    /// Returns the smallest and the largest count.
    pub(crate) fn ends(&self) -> (u32, u32) {
        match self {
            Self::Fixed(n) => (*n, *n),
            Self::Range(range) => (range.from, range.to),
        }
    }
}

/// How much output is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Output {
    /// How many tokens.
    pub tokens: Count,
    /// Whether that is a cap or an exact demand.
    #[serde(default)]
    pub mode: OutputMode,
}

/// What the requested number of output tokens means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutputMode {
    /// At most so many; the model may stop earlier.
    #[default]
    Cap,
    /// Exactly so many: the end-of-sequence token is ignored, where the API can be told so.
    Exact,
}

/// How output is sampled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Sampling {
    /// The temperature; 0 is greedy.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub temperature: f64,
    /// The top-p cut, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// The seed sent to the engine, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 0.0, top_p: None, seed: Some(1) }
    }
}

impl Workload {
    /// Returns what is wrong with the definition beyond its schema: keys that lead there, message.
    pub(crate) fn problems(&self) -> Vec<(Vec<String>, String)> {
        let mut problems = Vec::new();
        check_source(&self.prompts, &mut vec!["prompts".to_owned()], &mut problems);
        check_output(&self.output, &["output".to_owned()], &mut problems);
        if !(self.sampling.temperature.is_finite() && self.sampling.temperature >= 0.0) {
            problems.push((
                vec!["sampling".to_owned(), "temperature".to_owned()],
                format!("temperature must be 0 or more, got {}", self.sampling.temperature),
            ));
        }
        problems
    }
}

type Problems = Vec<(Vec<String>, String)>;

fn check_count(count: &Count, least: u32, route: &[String], key: &str, problems: &mut Problems) {
    let (from, to) = count.ends();
    let route = || [route, &[key.to_owned()]].concat();
    if from > to {
        problems.push((route(), format!("a range from {from} to {to} holds nothing")));
    } else if from < least {
        problems.push((route(), format!("must be at least {least}, got {from}")));
    }
}

fn check_output(output: &Output, route: &[String], problems: &mut Problems) {
    check_count(&output.tokens, 1, route, "tokens", problems);
}

fn check_source(source: &Source, route: &mut Vec<String>, problems: &mut Problems) {
    let depth = route.len();
    match source {
        Source::Words(words) => {
            route.push("words".to_owned());
            check_count(&words.length, 1, route, "length", problems);
        }
        Source::SharedPrefix(shared) => {
            route.push("shared-prefix".to_owned());
            check_count(&shared.prefix, 1, route, "prefix", problems);
            check_count(&shared.suffix, 1, route, "suffix", problems);
            if shared.prefixes == 0 {
                problems.push((route.clone(), "there must be at least one prefix".to_owned()));
            }
        }
        Source::Mixture(parts) => {
            route.push("mixture".to_owned());
            if parts.iter().map(|p| u64::from(p.weight)).sum::<u64>() == 0 {
                problems.push((route.clone(), "the weights must add up to more than 0".to_owned()));
            }
            for part in parts {
                check_source(&part.prompts, route, problems);
                if let Some(output) = &part.output {
                    check_output(output, route, problems);
                }
            }
        }
        Source::Pack(pack) => {
            route.push("pack".to_owned());
            if pack.file.is_some() != pack.texts.is_empty() {
                problems.push((route.clone(), "a pack has either `file` or `texts`".to_owned()));
            }
        }
        Source::Trace(trace) => {
            route.push("trace".to_owned());
            if !(trace.words_per_token.is_finite() && trace.words_per_token > 0.0) {
                let given = trace.words_per_token;
                problems.push((route.clone(), format!("words-per-token must be above 0, got {given}")));
            }
        }
    }
    route.truncate(depth);
}
