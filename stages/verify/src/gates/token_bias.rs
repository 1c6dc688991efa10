//! `token-bias`: does one side or one server count too many tokens?

use std::collections::BTreeMap;

use artifacts::{Table, TableError};
use contract::{CellRows, Settings};
use pipeline::{Failure, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Sample, student_two_sided};

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, Gate, listed, percent, planned, share, show};
use crate::replicates;
use crate::series::median;
use crate::study::Stage;

pub(crate) struct TokenBias;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The axis compared across: cells that differ only on this axis must count alike. By default,
    /// only the counts within each cell are judged.
    #[serde(default)]
    across: Option<String>,
    /// The share by which counts may differ.
    #[serde(default = "three_percent")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    tolerance: f64,
    /// The probability of a false alarm for each measure compared across the axis.
    #[serde(default = "thousandth")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    alpha: f64,
}

fn three_percent() -> f64 {
    0.03
}

fn thousandth() -> f64 {
    0.001
}

/// The smallest number of prompts for testing the counts of two sides.
const PROMPTS: usize = 8;

impl Gate for TokenBias {
    fn name(&self) -> &'static str {
        "token-bias"
    }

    fn summary(&self) -> &'static str {
        "\
         Token counts are not biased in one direction. A ratio of throughputs would show such a bias as speed.\n\n\
         Within each cell, the gate makes three comparisons:\n\n\
         - output tokens with the tokens of the chunks\n\
         - output tokens with the requested length, for answers that ended because of their length, and for answers \
         that ended for an unknown reason with more tokens than requested\n\
         - prompt tokens with the tokenizer that made the prompts. A chat template adds the same number to every \
         prompt, which does not count as a bias.\n\n\
         These are bounds, not tests.\n\n\
         With `across`, the gate also compares cells that differ only on that axis: the output tokens of answers to \
         the same prompt, and the bytes of text per token. If a file has no prompts, the gate pairs requests by the \
         order in which they were sent. If a difference is above `tolerance`, a t test of log ratios over prompts \
         decides, with repetitions averaged."
    }

    fn severity(&self) -> Severity {
        Severity::Fail
    }

    fn schema(&self) -> pipeline::Json {
        contract::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>) -> Result<pipeline::Json, Vec<Problem>> {
        let parameters: Parameters = settings.read()?;
        planned(&parameters, Vec::new(), settings)
    }

    fn judge(
        &self,
        parameters: &pipeline::Json,
        stage: &Stage<'_>,
    ) -> Result<Vec<Judgement>, Failure> {
        let parameters: Parameters = serde_json::from_value(parameters.clone())
            .map_err(|e| Failure::failed(format!("gate token-bias: {e}")))?;
        let mut judged = Vec::new();
        for (i, cell) in stage.cells.iter().enumerate() {
            if let Some(rows) = cell.rows() {
                let prompts = cell.table("prompts")?;
                let verdict = accounts(&rows, prompts.as_ref(), parameters.tolerance)
                    .map_err(|e| Failure::failed(format!("gate token-bias: {e}")))?;
                judged.push(verdict.of_cell(i));
            }
        }
        if let Some(across) = &parameters.across {
            judged.push(sides(&parameters, across, stage).of_stage());
        }
        Ok(judged)
    }
}

/// Judges one cell: compares its counts with other accounts of the same tokens.
fn accounts(
    rows: &CellRows,
    prompts: Option<&Table>,
    tolerance: f64,
) -> Result<Assessment, TableError> {
    let expected = format!("counts within {}", share(tolerance));
    let accounts = [
        ("output tokens over those of the chunks", by_chunks(rows)),
        ("output tokens over those requested", by_request(rows)),
        (
            "prompt tokens over those of the tokenizer",
            match prompts {
                Some(prompts) => by_tokenizer(rows, prompts)?,
                None => None,
            },
        ),
    ];
    let counts: Vec<(&str, f64)> = accounts
        .into_iter()
        .filter_map(|(what, ratio)| Some((what, ratio?)))
        .collect();
    if counts.is_empty() {
        return Ok(Assessment::not_judged(
            "no second count of the tokens",
            expected,
        ));
    }
    let text = |(what, ratio): &(&str, f64)| format!("{what} {}", percent(ratio - 1.0));
    let wrong: Vec<String> = counts
        .iter()
        .filter(|(_, ratio)| ratio.ln().abs() > tolerance.ln_1p())
        .map(text)
        .collect();
    let observed = if wrong.is_empty() {
        counts.iter().map(text).collect::<Vec<_>>().join(", ")
    } else {
        format!(
            "{}. Find out which count is wrong, and count the text again",
            wrong.join(", ")
        )
    };
    Ok(Assessment::new(wrong.is_empty(), observed, expected))
}

/// Returns the median ratio, because one odd answer is not bias.
fn ratio(pairs: impl Iterator<Item = (i64, i64)>) -> Option<f64> {
    let ratios: Vec<f64> = pairs
        .filter(|(a, b)| *a > 0 && *b > 0)
        .map(|(a, b)| a as f64 / b as f64)
        .collect();
    median(&ratios)
}

fn by_chunks(rows: &CellRows) -> Option<f64> {
    let mut counted: BTreeMap<(i64, i64), Option<i64>> = BTreeMap::new();
    for chunk in &rows.chunks {
        let sum = counted
            .entry((chunk.request_id, chunk.attempt))
            .or_insert(Some(0));
        *sum = sum.zip(chunk.tokens).map(|(a, b)| a + b);
    }
    let ok = rows.measured().filter(|r| r.is_ok());
    ratio(ok.filter_map(|r| {
        let chunks = counted.get(&(r.request_id, r.attempt)).copied().flatten()?;
        Some((r.output_tokens?, chunks))
    }))
}

/// Returns the ratio of counted to requested lengths. An answer that ended because of its length has the requested
/// length. If no reasons are recorded, answers may be shorter but never longer.
fn by_request(rows: &CellRows) -> Option<f64> {
    let ended_by = |reason: Option<&'static str>| {
        let ended = rows.measured().filter(|r| r.is_ok());
        let ended = ended.filter(move |r| r.finish_reason.as_deref() == reason);
        ratio(ended.filter_map(|r| Some((r.output_tokens?, r.requested_output_tokens?))))
    };
    ended_by(Some("length")).or_else(|| ended_by(None).filter(|ratio| *ratio >= 1.0))
}

/// Returns the factor by which the server's prompt counts differ; `None` if every prompt differs by the same number of
/// tokens, as with a template, or no tokenizer counted them.
fn by_tokenizer(rows: &CellRows, prompts: &Table) -> Result<Option<f64>, TableError> {
    if !prompts.has("tokens") || !prompts.has("prompt_digest") {
        return Ok(None);
    }
    let (digests, tokens) = (prompts.text("prompt_digest")?, prompts.int("tokens")?);
    let reference: BTreeMap<&str, i64> = digests
        .into_iter()
        .zip(tokens)
        .filter_map(|(digest, tokens)| Some((digest?, tokens?)))
        .collect();
    // A later turn of a session includes the turns before it.
    let alone = rows.measured().filter(|r| r.is_ok() && r.turn.is_none());
    let pairs: Vec<(i64, i64)> = alone
        .filter_map(|r| {
            let reference = reference.get(r.prompt_digest.as_deref()?)?;
            Some((r.prompt_tokens?, *reference))
        })
        .collect();
    let constant = pairs.windows(2).all(|w| w[0].0 - w[0].1 == w[1].0 - w[1].1);
    let differs = pairs.iter().any(|(a, b)| a != b);
    Ok(if constant && differs {
        None
    } else {
        ratio(pairs.into_iter())
    })
}

/// The answers to one prompt on one side: log output tokens, and log bytes per token.
#[derive(Default)]
struct Answers {
    tokens: Vec<f64>,
    bytes_per_token: Vec<f64>,
}

/// Compares the sides of a comparison with each other.
fn sides(parameters: &Parameters, across: &str, stage: &Stage<'_>) -> Assessment {
    let expected = format!(
        "the labels of {across} count the same within {}",
        share(parameters.tolerance)
    );
    let hidden = replicates::axes(stage, None);
    // By prompt and all coordinates except side and repetition, then by side.
    let mut answers: BTreeMap<(String, String), BTreeMap<String, Answers>> = BTreeMap::new();
    for cell in &stage.cells {
        let (Some(rows), Some(label)) = (cell.rows(), cell.input.coordinates.get(across)) else {
            continue;
        };
        let mut but = hidden.clone();
        but.push(across.to_owned());
        collect(
            &rows,
            &replicates::rest(cell, &but),
            &label.to_string(),
            &mut answers,
        );
    }
    let mut labels: Vec<&String> = answers.values().flat_map(BTreeMap::keys).collect();
    labels.sort();
    labels.dedup();
    let (mut sentences, mut wrong) = (Vec::new(), Vec::new());
    for (i, a) in labels.iter().enumerate() {
        for b in &labels[i + 1..] {
            type Measure = (&'static str, fn(&Answers) -> &[f64]);
            let measures: [Measure; 2] = [
                ("output tokens for the same prompt", |x| &x.tokens),
                ("bytes of text for each token", |x| &x.bytes_per_token),
            ];
            for (what, values) in measures {
                let logs = answers.values().filter_map(|by_label| {
                    Some(mean(values(by_label.get(*a)?))? - mean(values(by_label.get(*b)?))?)
                });
                let Some((change, p)) = shifted(logs.collect()) else {
                    continue;
                };
                let text = format!("{what}: {a} against {b} {}, p {}", percent(change), show(p));
                let apart = change.ln_1p().abs() > parameters.tolerance.ln_1p();
                if apart && p <= parameters.alpha {
                    wrong.push(text.clone());
                }
                sentences.push(text);
            }
        }
    }
    if sentences.is_empty() {
        let why = format!(
            "fewer than {PROMPTS} prompts that two labels of {across} answered, and no order of sending in place of prompts"
        );
        return Assessment::not_judged(why, expected);
    }
    let observed = if wrong.is_empty() {
        sentences.first().cloned().unwrap_or_default()
    } else {
        format!(
            "{} of {} measures are biased in one direction. The sides use different token units: \
             count the texts with one tokenizer",
            wrong.len(),
            sentences.len()
        )
    };
    Assessment::new(wrong.is_empty(), observed, expected).evidence(listed(&wrong))
}

fn collect(
    rows: &CellRows,
    at: &str,
    side: &str,
    answers: &mut BTreeMap<(String, String), BTreeMap<String, Answers>>,
) {
    let mut bytes: BTreeMap<(i64, i64), Option<i64>> = BTreeMap::new();
    for chunk in &rows.chunks {
        let sum = bytes
            .entry((chunk.request_id, chunk.attempt))
            .or_insert(Some(0));
        *sum = sum.zip(chunk.bytes).map(|(a, b)| a + b);
    }
    let places = places(rows);
    for r in rows.measured().filter(|r| r.is_ok()) {
        let prompt = r
            .prompt_digest
            .as_deref()
            .or_else(|| Some(places.get(&r.sent_ns?)?.as_str()));
        let (Some(prompt), Some(tokens)) = (prompt, r.output_tokens.filter(|n| *n > 0)) else {
            continue;
        };
        let group = answers
            .entry((at.to_owned(), prompt.to_owned()))
            .or_default();
        let group = group.entry(side.to_owned()).or_default();
        group.tokens.push((tokens as f64).ln());
        let text = bytes.get(&(r.request_id, r.attempt)).copied().flatten();
        if let Some(text) = text.filter(|n| *n > 0) {
            group
                .bytes_per_token
                .push((text as f64 / tokens as f64).ln());
        }
    }
}

/// Names requests by their position in the sending order. Empty if prompts are known or requests have no order. Files
/// of other tools rarely hold prompts. If both sides sent the same prompts in the same order, this pairs answers to the
/// same prompt. If not, it pairs answers at random, which the test allows. The order of rows in a file is not suitable:
/// rows sorted by the compared value are not random pairs.
fn places(rows: &CellRows) -> BTreeMap<i64, String> {
    let mut sent: Vec<i64> = rows.measured().filter_map(|r| r.sent_ns).collect();
    sent.sort_unstable();
    let named = rows.measured().any(|r| r.prompt_digest.is_some());
    if named || sent.windows(2).any(|w| w[0] == w[1]) {
        return BTreeMap::new();
    }
    let place = |(place, sent): (usize, i64)| (sent, format!("request {place}"));
    sent.into_iter().enumerate().map(place).collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the average offset of log ratios from 0, as a share, with its p value; `None` if there are too few.
fn shifted(logs: Vec<f64>) -> Option<(f64, f64)> {
    if logs.len() < PROMPTS {
        return None;
    }
    let n = logs.len() as f64;
    let sample = Sample::new(logs).ok()?;
    let (centre, spread) = (sample.mean(), sample.std()?);
    let p = match (spread > 1e-12, centre.abs() > 1e-12) {
        (true, _) => student_two_sided(centre / (spread / n.sqrt()), n - 1.0),
        // An equal factor for every prompt is not chance.
        (false, true) => 0.0,
        (false, false) => 1.0,
    };
    Some((centre.exp_m1(), p))
}
