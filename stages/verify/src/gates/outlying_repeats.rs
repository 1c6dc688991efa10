//! `outlying-repeats`: is one measurement far from the others of its coordinate?

use std::collections::BTreeMap;

use contract::CellRows;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Sample, student_two_sided};

use crate::defaults;
use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, percent, share, show};
use crate::pace::{Timed, factors, is_open, paces, timed};
use crate::replicates;
use crate::series::{Latency, inner_waves, median};
use crate::study::Stage;

pub(crate) struct OutlyingRepeats;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The axis of repetitions; by default, `block` and `rep`, if the stage has them.
    #[serde(default)]
    axis: Option<String>,
    /// The probability of any false alarm per load stage.
    #[serde(default = "defaults::alpha")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    alpha: f64,
    /// A measurement matters if it differs from the median of the others by at least this share.
    #[serde(default = "defaults::effect")]
    #[schemars(range(min = 0, max = 1))]
    effect: f64,
}

/// The smallest number of repetitions in which one can be an outlier.
const REPETITIONS: usize = 3;

/// The smallest credible spread of repetitions, on the log scale: clocks and schedulers cause this much.
const LEAST_SPREAD: f64 = 0.005;

impl TypedGate for OutlyingRepeats {
    type Parameters = Parameters;
    const NAME: &'static str = "outlying-repeats";
    const SUMMARY: &'static str = "\
        No repetition and no launch is far from the others of its coordinate.\n\n\
        The gate compares a cell's median latency with the median of the other repetitions, on the log scale. It \
        needs three repetitions. Regression within cells first removes the effect of the lengths of prompt and \
        answer. Under open arrivals, and if answers have different lengths, the gate uses the median time per token, \
        corrected for the number of answers generated at the same time and for the prompts that the server reads meanwhile.\n\n\
        The noise is the pooled standard deviation, within coordinates, of the cells of all other blocks or \
        repetitions, or the cell's own standard error if that is larger. The test is Student's t, with Bonferroni's \
        correction over the cells.";
    const SEVERITY: Severity = Severity::Warn;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        let axes = replicates::axes(stage, parameters.axis.as_deref());
        let expected = format!(
            "within {} of the other repetitions over {}",
            share(parameters.effect),
            replicates::named(&axes)
        );
        let outer = axes.first().map(String::as_str).unwrap_or_default();
        let groups: Vec<Vec<(usize, Level)>> = replicates::groups(stage, &axes)
            .into_values()
            .map(|cells| levels(stage, &cells, outer))
            .collect();
        // The noise is the same for every cell of one repetition.
        let mut noises: BTreeMap<&str, Option<Noise>> = BTreeMap::new();
        for (_, level) in groups.iter().flatten() {
            let repetition = level.repetition.as_str();
            noises
                .entry(repetition)
                .or_insert_with(|| Noise::but(repetition, &groups));
        }
        let mut judged = Vec::new();
        for group in &groups {
            for (at, (cell, level)) in group.iter().enumerate() {
                let noise = noises.get(level.repetition.as_str());
                let noise = noise.filter(|_| group.len() >= REPETITIONS);
                let verdict = match noise.and_then(Option::as_ref) {
                    Some(noise) => {
                        let others = group.iter().enumerate().filter(|(i, _)| *i != at);
                        let others: Vec<f64> = others.map(|(_, (_, l))| l.log).collect();
                        judge(level, &others, noise, parameters, &expected)
                    }
                    _ => Assessment::not_judged(
                        format!("too few repetitions to find an outlier: {}", group.len()),
                        &expected,
                    ),
                };
                judged.push(verdict.of_cell(*cell));
            }
        }
        judged.sort_by_key(|j| j.cell);
        judged
    }
}

fn judge(
    level: &Level,
    others: &[f64],
    noise: &Noise,
    parameters: &Parameters,
    expected: &str,
) -> Assessment {
    let off = level.log - median(others).unwrap_or(level.log);
    // The median of the others also has a variance: π/2 over their number, if there are many.
    let widened = 1.0 + 1.5 / others.len() as f64;
    let scale = noise.scale.max(level.error).max(LEAST_SPREAD) * widened.sqrt();
    let p = (student_two_sided(off / scale, noise.freedom) * noise.cells as f64).min(1.0);
    let outlies = p <= parameters.alpha && off.abs() > parameters.effect.ln_1p();
    let change = percent(off.exp() - 1.0);
    let observed = if outlies {
        format!(
            "{change} from the median of the {} other repetitions; p {}. Check what else the \
             machine did, then measure again or exclude the cell with a reason",
            others.len(),
            show(p)
        )
    } else {
        format!(
            "{change} off the median of the {} other repetitions",
            others.len()
        )
    };
    Assessment::new(!outlies, observed, expected)
}

/// The coefficient of variation above which the answers of a cell differ in length.
const UNLIKE: f64 = 0.2;

/// Returns whether the answers of a cell differ in length and have times of their first and last token. If requests
/// wait for each other, the lengths of other answers affect a latency; the time per token is not affected.
fn is_ragged(rows: &CellRows) -> bool {
    let answers = || rows.measured().filter(|r| r.is_ok());
    let lengths = answers().filter_map(|r| r.output_tokens);
    let lengths = Sample::new(lengths.map(|n| n as f64)).ok();
    let varies = lengths.and_then(|s| Some(s.std()? > UNLIKE * s.mean()));
    varies == Some(true) && 2 * timed(rows).len() > answers().count()
}

/// The level of one cell's latencies.
struct Level {
    log: f64,
    /// The standard error of `log`, from the cell's values.
    error: f64,
    /// The block, or the repetition.
    repetition: String,
}

/// Returns the levels of the cells of one coordinate. Under open arrivals, or if answers differ in length, it uses the
/// time per token, corrected by common lines for the number of answers generated at the same time and for the prompts that
/// the server reads meanwhile.
fn levels(stage: &Stage<'_>, cells: &[usize], axis: &str) -> Vec<(usize, Level)> {
    let rows = |cell: &usize| stage.cells[*cell].answers();
    let by_token = cells
        .iter()
        .all(|c| rows(c).is_some_and(|rows| is_open(&rows) || is_ragged(&rows)));
    let mut values: Vec<Vec<f64>> = if by_token {
        let timed: Vec<Vec<Timed>> = cells
            .iter()
            .map(|c| rows(c).map(|rows| timed(&rows)).unwrap_or_default())
            .collect();
        let mut factors = factors(&timed.concat()).into_iter();
        timed
            .iter()
            .map(|t| factors.by_ref().take(t.len()).collect())
            .collect()
    } else {
        let in_order = |c: &usize| {
            let rows = rows(c)?;
            let lengths = Latency::E2e.lengths_in_order(&rows);
            Some((Latency::E2e.in_order(&rows), lengths))
        };
        let timed = cells.iter().map(|c| in_order(c).unwrap_or_default());
        as_long(timed.collect())
    };
    let level = |(cell, values): (&usize, &mut Vec<f64>)| {
        let log = median(values).filter(|m| *m > 0.0)?.ln();
        let rows = rows(cell)?;
        let series = match by_token {
            true => paces(&rows),
            false => inner_waves(values, &rows),
        };
        let series = series.into_iter().filter(|v| *v > 0.0);
        let logs = Sample::new(series.map(f64::ln)).ok();
        // A median has π/2 times the variance of a mean of equally many values.
        let error = logs
            .and_then(|s| Some(1.2533 * s.std()? / (s.len() as f64).sqrt()))
            .unwrap_or(0.0);
        let repetition = stage.cells[*cell].input.coordinates.get(axis);
        let repetition = repetition.map(ToString::to_string).unwrap_or_default();
        Some((
            *cell,
            Level {
                log,
                error,
                repetition,
            },
        ))
    };
    cells.iter().zip(&mut values).filter_map(level).collect()
}

/// Returns the latencies of each cell as if all answers and all prompts of the coordinate had the mean length, so that
/// repetitions that drew longer answers are not slower. The effect of length is estimated within cells, so that a slow
/// cell does not explain itself.
fn as_long(cells: Vec<(Vec<f64>, Vec<[f64; 2]>)>) -> Vec<Vec<f64>> {
    let positive = |values: &[f64]| values.iter().all(|v| *v > 0.0);
    let mean = |values: &mut dyn Iterator<Item = f64>| {
        let (sum, n) = values.fold((0.0, 0.0), |(s, n), v| (s + v, n + 1.0));
        if n > 0.0 { sum / n } else { 0.0 }
    };
    // Sums of squares and of products within cells.
    let (mut xx, mut xy) = ([[0.0; 2]; 2], [0.0; 2]);
    let mut n = 0.0;
    for (values, lengths) in cells.iter().filter(|(values, _)| positive(values)) {
        let y = mean(&mut values.iter().map(|v| v.ln()));
        let x = [0, 1].map(|i| mean(&mut lengths.iter().map(|l| l[i])));
        n += values.len() as f64;
        for (value, length) in values.iter().zip(lengths) {
            let off = [length[0] - x[0], length[1] - x[1]];
            for i in 0..2 {
                xy[i] += off[i] * (value.ln() - y);
                for j in 0..2 {
                    xx[i][j] += off[i] * off[j];
                }
            }
        }
    }
    // A length that barely varies explains nothing.
    let varies = |i: usize| xx[i][i] > 1e-4 * n;
    let both = xx[0][0] * xx[1][1] - xx[0][1].powi(2);
    let slopes = match (varies(0), varies(1)) {
        (true, true) if both > 1e-6 * xx[0][0] * xx[1][1] => [
            (xy[0] * xx[1][1] - xy[1] * xx[0][1]) / both,
            (xy[1] * xx[0][0] - xy[0] * xx[0][1]) / both,
        ],
        (true, _) => [xy[0] / xx[0][0], 0.0],
        (false, true) => [0.0, xy[1] / xx[1][1]],
        (false, false) => [0.0; 2],
    };
    let usual = [0, 1].map(|i| {
        let lengths = cells.iter().flat_map(|(_, lengths)| lengths);
        mean(&mut lengths.map(|l| l[i]))
    });
    let freed = |(values, lengths): (Vec<f64>, Vec<[f64; 2]>)| {
        let freed = values.into_iter().zip(lengths).map(|(value, length)| {
            let longer = |i: usize| slopes[i] * (length[i] - usual[i]);
            value / (longer(0) + longer(1)).exp()
        });
        freed.collect()
    };
    cells.into_iter().map(freed).collect()
}

/// How far repetitions lie apart in the stage as a whole.
struct Noise {
    scale: f64,
    freedom: f64,
    cells: usize,
}

impl Noise {
    /// Pools the spread of all cells except those of one repetition, so that a bad one does not hide itself.
    fn but(repetition: &str, groups: &[Vec<(usize, Level)>]) -> Option<Self> {
        let (mut squares, mut freedom, mut cells) = (0.0, 0, 0);
        for group in groups.iter().filter(|g| g.len() >= REPETITIONS) {
            cells += group.len();
            let others = group.iter().filter(|(_, l)| l.repetition != repetition);
            let logs: Vec<f64> = others.map(|(_, l)| l.log).collect();
            let mean = logs.iter().sum::<f64>() / logs.len().max(1) as f64;
            squares += logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>();
            freedom += logs.len().saturating_sub(1);
        }
        (freedom > 0).then(|| Self {
            scale: (squares / freedom as f64).sqrt(),
            freedom: freedom as f64,
            cells,
        })
    }
}
