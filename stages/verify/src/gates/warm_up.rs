//! `warm-up`: is the beginning of a measurement slower than the rest?

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Continuity, Sample, StratifiedRanks, mann_whitney_u, van_elteren};

use super::stationarity::lag;
use crate::defaults;
use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, percent, share, show};
use crate::same_prompts::{self, first_prompt, together};
use crate::series::{CellTest, Latency, Series, median, settle};
use crate::study::Stage;

pub(crate) struct WarmUp;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The latency to test.
    #[serde(default = "Latency::e2e")]
    metric: Latency,
    /// The share of a cell's waves that counts as its beginning.
    #[serde(default = "quarter")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    start: f64,
    /// The probability of any false alarm per load stage: one half for single cells, one half for
    /// all cells together.
    #[serde(default = "defaults::alpha")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    alpha: f64,
    /// The beginning matters if it is slower by more than this share of the later values, in the median or in the mean.
    #[serde(default = "fifth")]
    #[schemars(range(min = 0, max = 1))]
    effect: f64,
}

fn quarter() -> f64 {
    0.25
}

fn fifth() -> f64 {
    0.2
}

impl TypedGate for WarmUp {
    type Parameters = Parameters;
    const NAME: &'static str = "warm-up";
    const SUMMARY: &'static str = "\
        The beginning of a cell is not slower than the rest: the warm-up was long enough.\n\n\
        In a closed loop, the gate divides a cell into waves. A wave is as many consecutive requests as are in flight \
        on average. The median of a wave is one value, because requests in flight together are not independent. Under \
        open arrivals, latency is mostly queueing, so the gate uses the server's pace instead: the time per token of \
        batches of answers, corrected by straight lines for the number of answers generated at the same time and for the \
        prompts that the server reads meanwhile.\n\n\
        A beginning is slower by the ratio of medians or by that of winsorized means, in which the largest value counts \
        like the next one, whichever is larger: if only the first tenth of a cell is slow, the median of its first \
        quarter is not.\n\n\
        Each cell has a one-sided Mann–Whitney test, Holm-adjusted over the cells that have enough values to decide \
        (Tarone's family). Van Elteren's test covers all cells together. Cells with the same prompts share their chance, \
        so their mean is one series of this test.\n\n\
        Values may resemble the one before, and a slow beginning is then often chance. The gate estimates the correlation \
        of neighbours among at least 20 later values. If it is 1.3 standard errors above 0, the variance of the tests grows as for \
        a first-order autoregression. In simulations of four cells of 60 values, a correlation of 0.8 gives 0.3 % of \
        studies a false alarm instead of 20 %.";
    const SEVERITY: Severity = Severity::Warn;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        let expected = format!(
            "{} (under open arrivals the time per token) at most {} slower at the start",
            parameters.metric.name(),
            share(parameters.effect)
        );
        let cells: Vec<_> = stage
            .cells
            .par_iter()
            .enumerate()
            .filter_map(|(i, cell)| {
                let rows = cell.answers()?;
                let series = parameters.metric.since_the_start(&rows);
                Some((i, first_prompt(&rows), series))
            })
            .collect();
        let (mut tests, mut findings, mut series, mut changes) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (cell, prompt, whole) in cells {
            let Some((change, test)) = test(cell, &whole, parameters) else {
                let observed = format!(
                    "too few {} for a beginning: {}",
                    whole.called,
                    whole.values.len()
                );
                findings.push(Assessment::not_judged(observed, &expected).of_cell(cell));
                continue;
            };
            changes.push(change);
            tests.push(test);
            series.push((prompt, whole.values));
        }
        findings.extend(settle(tests, parameters.alpha / 2.0, &expected));
        findings.sort_by_key(|j| j.cell);
        let groups = together(&series);
        let all = Pooled::of(groups.iter().map(|values| split(values, parameters.start)));
        let all = all.filter(|all| all.least() <= parameters.alpha / 2.0);
        let verdict = match (all, median(&changes)) {
            (Some(all), Some(change)) => {
                let p = all.p(&all.seen);
                let observed = format!(
                    "{} at the start, median of {} cells{}; p {}",
                    percent(change),
                    series.len(),
                    same_prompts::words(series.len(), groups.len()),
                    show(p)
                );
                Assessment::new(
                    !(p <= parameters.alpha / 2.0 && change > parameters.effect),
                    observed,
                    &expected,
                )
            }
            _ => Assessment::not_judged("too few values, even with all cells together", &expected),
        };
        findings.push(verdict.of_stage());
        findings
    }
}

/// Cuts a series into its beginning and the rest.
fn split(values: &[f64], share: f64) -> (&[f64], &[f64]) {
    let start = (values.len() as f64 * share).ceil() as usize;
    values.split_at(start.min(values.len()))
}

/// Van Elteren's test over several series.
struct Pooled {
    /// The ranks of the beginnings; the sum is above 0 if they are slower.
    seen: StratifiedRanks,
    /// The same if every beginning were as slow as can be.
    slowest: StratifiedRanks,
    /// By how much more the sum scatters than for independent values.
    factor: f64,
}

impl Pooled {
    /// Tests the beginnings against the rest; `None` if there is nothing to compare.
    fn of<'a>(series: impl Iterator<Item = (&'a [f64], &'a [f64])>) -> Option<Self> {
        let (mut strata, mut slowest) = (Vec::new(), Vec::new());
        // The variances in the test, up to a factor, if values were independent, and as they are.
        let (mut independent, mut actual) = (0.0, 0.0);
        for (start, later) in series.filter(|(a, b)| !a.is_empty() && b.len() > 1) {
            let (a, b) = (start.len(), later.len());
            let variance = (a * b) as f64 / (a + b + 1) as f64;
            independent += variance;
            actual += lag::of_beginning(lag::around_level(later), a, b) * variance;
            let ranks = |from: usize, n: usize| (from..from + n).map(|i| i as f64).collect();
            slowest.push((ranks(b, a), ranks(0, b)));
            strata.push((start.to_vec(), later.to_vec()));
        }
        Some(Self {
            seen: van_elteren(&strata)?,
            slowest: van_elteren(&slowest)?,
            factor: actual / independent,
        })
    }

    /// Returns the chance of a sum at least as large.
    fn p(&self, ranks: &StratifiedRanks) -> f64 {
        let both = lag::widened(ranks.p, self.factor, lag::NORMAL);
        match ranks.z > 0.0 {
            true => both / 2.0,
            false => 1.0 - both / 2.0,
        }
    }

    /// Returns the smallest p value that the series can give.
    fn least(&self) -> f64 {
        self.p(&self.slowest)
    }
}

/// Tests one cell, and returns its change; `None` if it has no start, fewer than two later waves, or no spread.
fn test(cell: usize, series: &Series, parameters: &Parameters) -> Option<(f64, CellTest)> {
    let (start, later) = split(&series.values, parameters.start);
    if later.len() < 2 {
        return None;
    }
    let (a, b) = (
        Sample::new(start.iter().copied()).ok()?,
        Sample::new(later.iter().copied()).ok()?,
    );
    let test = mann_whitney_u(&a, &b, Continuity::Corrected)?;
    let (figure, [start_is, later_is]) = figures(&a, &b);
    let change = start_is / later_is - 1.0;
    let slower = test.u > (a.len() * b.len()) as f64 / 2.0;
    let unit = series.unit;
    let rho = lag::around_level(later);
    let factor = lag::of_beginning(rho, a.len(), b.len());
    let observed = format!(
        "first {} of {} {}: {figure}{}{unit}, later {}{unit} ({}){}",
        a.len(),
        a.len() + b.len(),
        series.called,
        show(start_is),
        show(later_is),
        percent(change),
        lag::words(rho)
    );
    let widened = |p: f64| lag::widened(p, factor, lag::NORMAL);
    let p = if slower { widened(test.p) / 2.0 } else { 1.0 };
    let least = widened((2.0 / arrangements(a.len(), b.len())).min(1.0)) / 2.0;
    Some((
        change,
        CellTest {
            cell,
            p,
            least,
            matters: change > parameters.effect,
            observed,
        },
    ))
}

/// Returns the figures by which a beginning is slowest, with what they are called: the medians, or the winsorized means. If less
/// than half of the beginning is slow, its median does not show it.
fn figures(start: &Sample, later: &Sample) -> (&'static str, [f64; 2]) {
    let medians = [start.median(), later.median()];
    let means = [winsorized(start), winsorized(later)];
    match means[0] / means[1] > medians[0] / medians[1] {
        true => ("winsorized mean ", means),
        false => ("", medians),
    }
}

/// Returns the mean if the largest value counts like the next one: one stall does not make a beginning slow.
fn winsorized(sample: &Sample) -> f64 {
    let stall = match sample.values() {
        [.., next, largest] => (largest - next) / sample.len() as f64,
        _ => 0.0,
    };
    sample.mean() - stall
}

/// Returns the number of ways to choose n of n + m.
fn arrangements(n: usize, m: usize) -> f64 {
    (1..=n).map(|i| (m + i) as f64 / i as f64).product()
}

#[cfg(test)]
mod tests {
    use contract::synthetic;
    use serde_json::json;

    use super::*;
    use crate::one_cell;

    #[test]
    fn a_beginning_is_slow_by_its_median_or_by_its_mean() {
        let sample = |values: &[f64]| Sample::new(values.iter().copied()).unwrap();
        let later = sample(&[100.0, 100.0, 99.0, 101.0, 101.0, 99.0]);
        // A slow tenth of the cell is two fifths of its first quarter.
        let start = sample(&[200.0, 200.0, 100.0, 100.0, 100.0]);
        assert_eq!(
            figures(&start, &later),
            ("winsorized mean ", [140.0, 100.0])
        );
        // A stall at the start raises the mean of the start alone.
        let one = sample(&[900.0, 100.0, 100.0, 100.0]);
        assert_eq!(figures(&one, &later).1, [100.0, 100.0]);
        // Nor does a later stall hide a slow beginning.
        let stalled = sample(&[100.0, 101.0, 99.0, 900.0]);
        let start = sample(&[130.0, 131.0, 129.0]);
        assert_eq!(figures(&start, &stalled), ("", [130.0, 100.5]));
    }

    #[test]
    fn a_bound_has_no_sign() {
        let rows = synthetic::rows_of(vec![synthetic::request(0)]);
        let judgement = one_cell::judge(&WarmUp, json!({}), json!({}), rows);
        assert!(
            judgement
                .expected
                .ends_with(" at most 20.0 % slower at the start"),
            "{}",
            judgement.expected
        );
    }
}
