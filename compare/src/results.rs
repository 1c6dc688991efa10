//! Measured results at every coordinate, with the test of their change.

use std::collections::BTreeMap;

use artifacts::Table;
use serde::Serialize;
use statistics::{Continuity, Sample, holm, mann_whitney_u, welch_t};

use crate::side::{CompareError, Side};
use crate::tables::{keys, row_key};

/// The test of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Test {
    /// Welch's t test over the repetitions.
    #[default]
    Welch,
    /// The Mann–Whitney U test over the repetitions; needs more of them.
    MannWhitney,
}

/// When a change counts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rule {
    /// The columns of the cells' table that are compared; empty means the usual ones that are there.
    pub columns: Vec<String>,
    /// The smallest relative change that counts, for instance 0.05.
    pub threshold: f64,
    /// The largest Holm-adjusted p that counts.
    pub alpha: f64,
    /// The test.
    pub test: Test,
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            columns: Vec::new(),
            threshold: 0.05,
            alpha: 0.05,
            test: Test::Welch,
        }
    }
}

/// The columns compared if the user names none.
const USUAL: [&str; 5] = [
    "output_throughput",
    "request_throughput",
    "ttft_ms_p50",
    "tpot_ms_p50",
    "e2e_latency_ms_p95",
];

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// More is better: rates.
    Higher,
    /// Less is better: times, energy, errors.
    Lower,
    /// Neither is known to be better.
    Unknown,
}

/// What a change amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Smaller than the threshold, or within the noise.
    WithinNoise,
    /// Beyond threshold and noise, for the better.
    Improvement,
    /// Beyond threshold and noise, for the worse.
    Regression,
    /// Beyond threshold and noise; which way is better is not known.
    Changed,
    /// Beyond the threshold, and the noise was not measured: fewer than two repetitions.
    Untested,
}

impl Verdict {
    /// Returns the verdict in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::WithinNoise => "within noise",
            Self::Improvement => "improvement",
            Self::Regression => "regression",
            Self::Changed => "changed",
            Self::Untested => "untested",
        }
    }
}

/// One result at one coordinate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResultChange {
    /// The table of cells.
    pub table: String,
    /// The coordinates, repetitions left out.
    pub at: String,
    /// The column.
    pub column: String,
    /// Its unit.
    pub unit: Option<String>,
    /// How many repetitions the older study has.
    pub n_a: usize,
    /// How many the newer one has.
    pub n_b: usize,
    /// The mean over the older study's repetitions.
    pub mean_a: f64,
    /// The mean over the newer study's.
    pub mean_b: f64,
    /// `mean_b / mean_a − 1`; `None` if the older mean is 0.
    pub change: Option<f64>,
    /// The p of the test; `None` without two repetitions on both sides, or without any spread.
    pub p: Option<f64>,
    /// The same after Holm's correction over all results tested.
    pub holm_p: Option<f64>,
    /// Which way is better.
    pub better: Direction,
    /// What it amounts to.
    pub verdict: Verdict,
}

/// Returns every result that both sides have, tested.
pub(crate) fn changes(
    a: &Side<'_>,
    b: &Side<'_>,
    rule: &Rule,
) -> Result<Vec<ResultChange>, CompareError> {
    let replicates: Vec<String> = a.replicates().into_iter().chain(b.replicates()).collect();
    let (before, after) = (a.tables(&["analyze"])?, b.tables(&["analyze"])?);
    let mut found = Vec::new();
    for (name, newer) in &after {
        let Some(older) = before.get(name) else {
            continue;
        };
        let cells = |t: &Table| {
            t.metadata("level").as_deref() == Some("cell")
                && t.metadata("operator").as_deref() == Some("cell-summary")
        };
        if !cells(newer) || !cells(older) {
            continue;
        }
        for column in columns(older, newer, rule) {
            let (was, is) = (
                groups(older, &column, &replicates),
                groups(newer, &column, &replicates),
            );
            for (at, values_b) in is {
                let Some(values_a) = was.get(&at) else {
                    continue;
                };
                found.extend(result(
                    name,
                    at,
                    &column,
                    newer.unit(&column),
                    values_a,
                    &values_b,
                    rule,
                ));
            }
        }
    }
    if found.is_empty() && !rule.columns.is_empty() {
        return Err(CompareError(format!(
            "no table of cells that both studies have holds {}",
            rule.columns.join(", ")
        )));
    }
    judge(&mut found, rule);
    Ok(found)
}

fn columns(a: &Table, b: &Table, rule: &Rule) -> Vec<String> {
    let wanted: Vec<String> = if rule.columns.is_empty() {
        USUAL.map(str::to_owned).to_vec()
    } else {
        rule.columns.clone()
    };
    wanted
        .into_iter()
        .filter(|c| a.has(c) && b.has(c) && b.float(c).is_ok() && a.float(c).is_ok())
        .collect()
}

/// Returns a column's values at each coordinate, one for each repetition.
fn groups(table: &Table, column: &str, replicates: &[String]) -> BTreeMap<String, Vec<f64>> {
    let keys: Vec<String> = keys(table)
        .into_iter()
        .filter(|k| !replicates.contains(k))
        .collect();
    let values = table.float(column).unwrap_or_default();
    let mut found: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (row, value) in values.into_iter().enumerate() {
        if let Some(value) = value.filter(|v| v.is_finite()) {
            found
                .entry(row_key(table, &keys, row))
                .or_default()
                .push(value);
        }
    }
    found
}

fn result(
    table: &str,
    at: String,
    column: &str,
    unit: Option<String>,
    a: &[f64],
    b: &[f64],
    rule: &Rule,
) -> Option<ResultChange> {
    let (sample_a, sample_b) = (
        Sample::new(a.iter().copied()).ok()?,
        Sample::new(b.iter().copied()).ok()?,
    );
    let (mean_a, mean_b) = (sample_a.mean(), sample_b.mean());
    let p = if a.len() < 2 || b.len() < 2 {
        None
    } else {
        match rule.test {
            Test::Welch => welch_t(&sample_a, &sample_b).map(|t| t.p),
            Test::MannWhitney => {
                mann_whitney_u(&sample_a, &sample_b, Continuity::Corrected).map(|t| t.p)
            }
        }
    };
    Some(ResultChange {
        table: table.to_owned(),
        at,
        column: column.to_owned(),
        better: direction(column, unit.as_deref()),
        unit,
        n_a: a.len(),
        n_b: b.len(),
        mean_a,
        mean_b,
        change: (mean_a != 0.0).then(|| mean_b / mean_a - 1.0),
        p,
        holm_p: None,
        verdict: Verdict::WithinNoise,
    })
}

/// Adjusts the p of all results tested together, and says what each change amounts to.
fn judge(results: &mut [ResultChange], rule: &Rule) {
    let tested: Vec<usize> = (0..results.len())
        .filter(|i| results[*i].p.is_some())
        .collect();
    let adjusted = holm(
        &tested
            .iter()
            .filter_map(|i| results[*i].p)
            .collect::<Vec<_>>(),
    );
    for (i, p) in tested.into_iter().zip(adjusted) {
        results[i].holm_p = Some(p);
    }
    for result in results {
        let large = result.change.map_or(result.mean_a != result.mean_b, |c| {
            c.abs() >= rule.threshold
        });
        result.verdict = match result.holm_p {
            _ if !large => Verdict::WithinNoise,
            Some(p) if p > rule.alpha => Verdict::WithinNoise,
            // Repetitions without any spread measured a noise of 0: what is beyond it is real.
            None if result.n_a < 2 || result.n_b < 2 => Verdict::Untested,
            _ => match (result.better, result.mean_b > result.mean_a) {
                (Direction::Unknown, _) => Verdict::Changed,
                (Direction::Higher, true) | (Direction::Lower, false) => Verdict::Improvement,
                _ => Verdict::Regression,
            },
        };
    }
}

/// Which way is better, by the unit; shares are told by their name.
fn direction(column: &str, unit: Option<&str>) -> Direction {
    match unit {
        Some("tok/s" | "req/s" | "tok/J") => Direction::Higher,
        Some("ms" | "s" | "ms/tok" | "J") => Direction::Lower,
        _ if column.starts_with("ok_rate") || column.contains("pass_rate") => Direction::Higher,
        _ if column.contains("error_rate") => Direction::Lower,
        _ => Direction::Unknown,
    }
}
