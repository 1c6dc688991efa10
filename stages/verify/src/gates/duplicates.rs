//! `duplicates`: were rows, or whole cells, copied?

use std::collections::BTreeMap;

use artifacts::counted;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Sample, poisson_upper};

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, listed};
use crate::replicates;
use crate::series::median;
use crate::study::Stage;

pub(crate) struct Duplicates;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The probability of a false alarm per load stage, for rows that agree in every time.
    #[serde(default = "one_in_ten_thousand")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    alpha: f64,
    /// Two cells are near copies if their latencies, request by request, differ by less than this
    /// share of the difference between other cells.
    #[serde(default = "fifth")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    nearer: f64,
    /// They must also differ by less than this share of the latencies themselves. An engine that
    /// batches two cells in the same way answers them alike, but never this closely.
    #[serde(default = "one_in_two_thousand")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    within: f64,
}

fn one_in_ten_thousand() -> f64 {
    1e-4
}

fn fifth() -> f64 {
    0.2
}

fn one_in_two_thousand() -> f64 {
    5e-4
}

/// The times of an answer: from sending to headers, first token, last token and end, ns.
type Times = [i64; 4];

/// A row that may be a copy.
struct Row {
    cell: usize,
    id: i64,
    times: Times,
}

/// The smallest number of common requests for comparing two cells as a whole.
const COMMON: usize = 8;

/// The number of pairs of cells that show how much cells usually differ.
const WITNESSES: usize = 12;

impl TypedGate for Duplicates {
    type Parameters = Parameters;
    const NAME: &'static str = "duplicates";
    const SUMMARY: &'static str = "\
        No row and no cell was copied. The gate does not look for copies with added noise.\n\n\
        If two rows of a stage agree in every time to the nanosecond, one is a copy. The exception is a clock so \
        coarse that rows agree by chance. The gate computes the number of pairs expected by chance from how often \
        rows agree in a single time (Poisson).\n\n\
        Two cells are near copies if the latencies of most requests, one by one, differ far less than those of other \
        cells, even after scaling or shifting.";
    const SEVERITY: Severity = Severity::Fail;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        let expected = "no two rows with the same times, no two cells with the same latencies";
        let rows = rows(stage);
        if rows.len() < 2 {
            return vec![
                Assessment::not_judged("fewer than two answers have times", expected).of_stage(),
            ];
        }
        let mut wrong = Vec::new();
        let mut evidence = Vec::new();
        let (pairs, by_chance) = equal_rows(&rows);
        let copies = poisson_upper(pairs.len() as u64, by_chance) <= parameters.alpha;
        if copies {
            wrong.push(format!(
                "{} of rows with the same times to the nanosecond; {} expected by chance",
                counted(pairs.len(), "pair"),
                few(by_chance)
            ));
            evidence.extend(pairs.iter().map(|(a, b)| {
                let at = |row: &Row| {
                    let coordinates = &stage.cells[row.cell].input.coordinates;
                    format!("request_id {} of {coordinates}", row.id)
                };
                format!("{} and {}", at(&rows[*a]), at(&rows[*b]))
            }));
        }
        let near = near_copies(stage, parameters);
        if !near.is_empty() {
            wrong.push(format!(
                "{} of cells with nearly the same latencies request by request",
                counted(near.len(), "pair")
            ));
            evidence.extend(near);
        }
        let observed = if wrong.is_empty() {
            format!("no copy among {} rows", rows.len())
        } else {
            format!("{}. Measure the copied cells again", wrong.join("; "))
        };
        vec![
            Assessment::new(wrong.is_empty(), observed, expected)
                .evidence(listed(&evidence))
                .of_stage(),
        ]
    }
}

fn rows(stage: &Stage<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (cell, requests) in stage.cells.iter().enumerate() {
        let Some(requests) = requests.answers() else {
            continue;
        };
        for r in requests.measured() {
            let (Some(sent), Some(first), Some(last), Some(done)) =
                (r.sent_ns, r.first_token_ns, r.last_token_ns, r.done_ns)
            else {
                continue;
            };
            let headers = r.headers_ns.unwrap_or(first);
            let times = [headers - sent, first - sent, last - first, done - last];
            rows.push(Row {
                cell,
                id: r.request_id,
                times,
            });
        }
    }
    rows
}

/// Formats the number of pairs expected by chance: a plain number, or the order of magnitude if it is tiny.
fn few(expected: f64) -> String {
    match expected {
        e if e >= 10.0 => format!("{e:.0}"),
        e if e >= 0.01 => format!("{e:.2}"),
        e => format!("{e:.0e}"),
    }
}

/// Returns the pairs of rows that agree in every time (each row with the equal one before it), and the number expected
/// by chance. That number assumes that the two largest parts of an answer, up to the first token and from there to the
/// last, are independent.
fn equal_rows(rows: &[Row]) -> (Vec<(usize, usize)>, f64) {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|i| (rows[*i].times, rows[*i].cell, rows[*i].id));
    let pairs: Vec<(usize, usize)> = order
        .windows(2)
        .filter(|w| rows[w[0]].times == rows[w[1]].times)
        .map(|w| (w[0], w[1]))
        .collect();
    let all = rows.len() as f64 * (rows.len() as f64 - 1.0) / 2.0;
    // Copies agree also in single parts, and must not make themselves look likely.
    let alike = |part: fn(&Times) -> i64| {
        let mut values: Vec<i64> = rows.iter().map(|r| part(&r.times)).collect();
        values.sort_unstable();
        let equal: f64 = values
            .chunk_by(|a, b| a == b)
            .map(|group| group.len() as f64 * (group.len() as f64 - 1.0) / 2.0)
            .sum();
        ((equal - pairs.len() as f64).max(0.0) + 1.0) / all
    };
    let by_chance = all * alike(|t| t[1]) * alike(|t| t[2]);
    (pairs, by_chance)
}

/// The log latencies of a cell by request, in request order, and a bit pattern of those above their median.
struct Pattern {
    logs: Vec<(i64, f64)>,
    /// A bit for each of the first requests, at its number modulo 64.
    first: u64,
    /// Those of them whose latency is above the median.
    above: u64,
}

impl Pattern {
    /// Returns the pattern of log latencies in request order, around this median.
    fn new(logs: Vec<(i64, f64)>, middle: f64) -> Self {
        let (mut first, mut above) = (0_u64, 0);
        for (id, log) in &logs {
            let bit = 1 << id.rem_euclid(64);
            if first & bit == 0 && *log > middle {
                above |= bit;
            }
            first |= bit;
        }
        Self { logs, first, above }
    }

    /// Returns whether at most one in eight of the first common requests lies on different sides of the median.
    fn may_be_near(&self, other: &Self) -> bool {
        let common = self.first & other.first;
        let apart = (self.above ^ other.above) & common;
        apart.count_ones() * 8 <= common.count_ones()
    }
}

/// Returns the pairs of cells that differ by less than `within`, and by less than `nearer` times the usual difference.
fn near_copies(stage: &Stage<'_>, parameters: &Parameters) -> Vec<String> {
    let patterns: Vec<Option<Pattern>> = stage.cells.par_iter().map(pattern).collect();
    let usual = Usual::of(stage, &patterns);
    let near = |a: usize, b: usize| -> Option<String> {
        let (x, y) = (patterns[a].as_ref()?, patterns[b].as_ref()?);
        // Most pairs end here: 10,000 cells form 50 million pairs.
        let own = x
            .may_be_near(y)
            .then(|| distance(x, y))?
            .filter(|own| *own < parameters.within)?;
        let usual = usual.between(a, b)?;
        (own < parameters.nearer * usual).then(|| {
            let at = |i: usize| &stage.cells[i].input.coordinates;
            format!(
                "{} and {} differ by {:.2} % where cells differ by {:.1} % at least",
                at(a),
                at(b),
                100.0 * own,
                100.0 * usual
            )
        })
    };
    let all = (0..patterns.len()).into_par_iter();
    all.flat_map_iter(|a| (a + 1..patterns.len()).filter_map(move |b| near(a, b)))
        .collect()
}

/// The usual difference between cells that are not copies.
struct Usual<'a> {
    patterns: &'a [Option<Pattern>],
    /// The ok cells of each coordinate, with repetitions together.
    groups: Vec<Vec<usize>>,
    /// The group of each ok cell.
    group_of: Vec<Option<usize>>,
}

impl<'a> Usual<'a> {
    fn of(stage: &Stage<'_>, patterns: &'a [Option<Pattern>]) -> Self {
        let axes = replicates::axes(stage, None);
        let groups: Vec<Vec<usize>> = replicates::groups(stage, &axes).into_values().collect();
        let mut group_of = vec![None; patterns.len()];
        for (group, cells) in groups.iter().enumerate() {
            for cell in cells {
                group_of[*cell] = Some(group);
            }
        }
        Self {
            patterns,
            groups,
            group_of,
        }
    }

    /// Returns the least distance of either cell from its other repetitions. If there are none, the repetitions of
    /// other coordinates count. They may be noisier, so a copy must then be nearer.
    fn between(&self, a: usize, b: usize) -> Option<f64> {
        let distance =
            |a: usize, b: usize| distance(self.patterns[a].as_ref()?, self.patterns[b].as_ref()?);
        let least = |distances: &mut dyn Iterator<Item = Option<f64>>| {
            distances.flatten().take(WITNESSES).reduce(f64::min)
        };
        let (of_a, of_b) = (self.group_of[a]?, self.group_of[b]?);
        let others = |group: usize| {
            let cells = self.groups[group].iter().copied();
            cells.filter(move |i| *i != a && *i != b)
        };
        let beside_b = (of_a != of_b).then(|| others(of_b)).into_iter().flatten();
        let mut own = others(of_a)
            .map(|i| distance(a, i))
            .chain(beside_b.map(|i| distance(b, i)));
        least(&mut own).or_else(|| {
            let others = self.groups.iter().enumerate();
            let others = others.filter(|(group, _)| *group != of_a && *group != of_b);
            let mut others = others.filter_map(|(_, g)| Some(distance(*g.first()?, *g.get(1)?)));
            least(&mut others).map(|distance| distance / 4.0)
        })
    }
}

fn pattern(cell: &crate::study::Cell<'_>) -> Option<Pattern> {
    let rows = cell.answers()?;
    let ok = rows.measured().filter(|r| r.is_ok());
    let logs: BTreeMap<i64, f64> = ok
        .filter_map(|r| Some((r.request_id, (r.done_ns? - r.sent_ns?) as f64)))
        .filter(|(_, latency)| *latency > 0.0)
        .map(|(id, latency)| (id, latency.ln()))
        .collect();
    if logs.len() < COMMON {
        return None;
    }
    let logs: Vec<(i64, f64)> = logs.into_iter().collect();
    let values: Vec<f64> = logs.iter().map(|(_, log)| *log).collect();
    let middle = median(&values)?;
    // Nearly equal latencies reveal nothing about their origin.
    let spread: Vec<f64> = values.iter().map(|v| (v - middle).abs()).collect();
    median(&spread).filter(|spread| *spread > 1e-6)?;
    Some(Pattern::new(logs, middle))
}

/// The share of requests that must agree in a copy. Requests of one batch share their latency, and scaling or shifting
/// makes one batch of two or three agree. So most requests must agree, and not half of them.
const ALIKE: f64 = 0.8;

/// The median distance of normal noise, as a share of its quantile at [`ALIKE`].
const MEDIAN: f64 = 0.674_489_750_196_081_7 / 1.281_551_565_544_600_4;

/// Returns the relative difference of two cells' latencies. It is the smaller of two distances: that of the log ratios
/// from their median (one cell may be a scaled copy), and that of the differences from theirs, over the median latency (or
/// a shifted copy). Each is the quantile at [`ALIKE`], in units of the median distance of normal noise.
fn distance(a: &Pattern, b: &Pattern) -> Option<f64> {
    let mut of_b = b.logs.iter().peekable();
    let common = a.logs.iter().filter_map(|(id, x)| {
        while of_b.next_if(|(other, _)| other < id).is_some() {}
        of_b.next_if(|(other, _)| other == id)
            .map(|(_, y)| (*x, *y))
    });
    let common: Vec<(f64, f64)> = common.collect();
    if common.len() < COMMON {
        return None;
    }
    let around = |values: &[f64]| -> Option<f64> {
        let middle = median(values)?;
        let distances = values.iter().map(|v| (v - middle).abs());
        let distances = Sample::new(distances).ok()?;
        Some(distances.quantile(ALIKE) * MEDIAN).filter(|d| d.is_finite())
    };
    let ratios: Vec<f64> = common.iter().map(|(x, y)| x - y).collect();
    let shifts: Vec<f64> = common.iter().map(|(x, y)| x.exp() - y.exp()).collect();
    let latencies: Vec<f64> = common.iter().map(|(x, _)| x.exp()).collect();
    Some(around(&ratios)?.min(around(&shifts)? / median(&latencies)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Log latencies of waves of eight requests, whose members differ by about 0.01 %.
    fn of_waves(ms: &[f64], seed: usize) -> Pattern {
        let within = |i: usize| 1e-4 * ((i * 7 + seed * 3) % 11) as f64 / 11.0;
        let latency = |(i, ms): (usize, &f64)| (i as i64, (ms * 1e6 * (1.0 + within(i))).ln());
        let all: Vec<f64> = ms.iter().flat_map(|ms| [*ms; 8]).collect();
        Pattern::new(all.iter().enumerate().map(latency).collect(), 0.0)
    }

    #[test]
    fn a_scaled_copy_with_rows_fewer_is_still_a_copy() {
        let logs: Vec<(i64, f64)> = (0..40_i64)
            .map(|i| (i, (1e8 + 1e6 * (i * 29 % 41) as f64).ln()))
            .collect();
        let middle = |logs: &[(i64, f64)]| {
            let values: Vec<f64> = logs.iter().map(|(_, log)| *log).collect();
            median(&values).unwrap()
        };
        let pattern = |logs: Vec<(i64, f64)>| {
            let middle = middle(&logs);
            Pattern::new(logs, middle)
        };
        let source = pattern(logs.clone());
        let scaled = logs.iter().map(|(i, log)| (*i, log + 0.1));
        for missing in [vec![0], vec![3, 17], vec![39]] {
            let copy = pattern(
                scaled
                    .clone()
                    .filter(|(i, _)| !missing.contains(i))
                    .collect(),
            );
            assert!(source.may_be_near(&copy), "{missing:?}");
            assert!(distance(&source, &copy).unwrap() < one_in_two_thousand());
        }
        // The latencies of other requests.
        let other = pattern(
            logs.iter()
                .map(|(i, _)| (*i, logs[(i * 7 % 40) as usize].1))
                .collect(),
        );
        assert!(!source.may_be_near(&other));
    }

    /// Answers with the times of a clock so coarse that many agree in one part, each in this many rows.
    fn on_a_coarse_clock(answers: i64, copies: i64) -> Vec<Row> {
        let row = |id: i64| {
            let answer = id % answers;
            Row {
                cell: 0,
                id,
                times: [0, answer % 601, answer % 499, 0],
            }
        };
        (0..answers * copies).map(row).collect()
    }

    #[test]
    fn a_file_copied_as_a_whole_is_copies_although_chance_explains_thousands_of_pairs() {
        let alpha = one_in_ten_thousand();
        let (pairs, by_chance) = equal_rows(&on_a_coarse_clock(20_000, 2));
        assert_eq!(pairs.len(), 20_000);
        assert!((2_000.0..3_000.0).contains(&by_chance), "{by_chance}");
        assert!(poisson_upper(pairs.len() as u64, by_chance) <= alpha);
        let (pairs, by_chance) = equal_rows(&on_a_coarse_clock(40_000, 1));
        assert!(poisson_upper(pairs.len() as u64, by_chance) > alpha);
        assert!(poisson_upper(20_645, 2_658.0) <= alpha);
    }

    #[test]
    fn waves_of_which_one_agrees_are_no_copies() {
        let one = of_waves(&[480.0, 510.0, 495.0], 1);
        // Two of three waves are slower in the same proportion, or one alone.
        for other in [[485.0, 510.0, 530.0], [490.0, 520.6, 495.0]] {
            let apart = distance(&one, &of_waves(&other, 2)).unwrap();
            assert!(apart > one_in_two_thousand(), "{other:?}: {apart}");
        }
        // A copy, and a copy at another scale.
        for other in [[480.0, 510.0, 495.0], [528.0, 561.0, 544.5]] {
            let apart = distance(&one, &of_waves(&other, 2)).unwrap();
            assert!(apart < one_in_two_thousand(), "{other:?}: {apart}");
        }
    }
}
