//! `wins`: how often each contender is best, under one declared tie rule.

use artifacts::Scalar;
use contract::Better;
use pipeline::{Failure, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::columns::Columns;
use crate::frame::{Bounds, Frame, Level, Spec, spans};
use crate::operator::{Context, Draft, TypedOperator};
use crate::operators::pairs::contested;
use crate::operators::units::{Units, mean};

pub(crate) struct Wins;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The table that holds the contenders.
    from: String,
    /// The axis whose labels contend.
    among: String,
    /// The column in which they compete.
    column: String,
    /// Which direction is better.
    better: Better,
    /// The largest distance from the best that counts as a tie, relative to the smaller of the two
    /// values.
    #[serde(default)]
    tie_within: f64,
    /// Axes counted separately; the other keys, without the unit axes, name the contests.
    #[serde(default)]
    by: Vec<String>,
    /// The axes whose labels are the units of replication; by default `block`, if the table has it. A
    /// contest is decided by the means over the units, so more blocks do not make more contests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unit: Option<Vec<String>>,
}

/// The wins of one contender.
#[derive(Clone, Default)]
struct Tally {
    complete: usize,
    incomplete: usize,
    strict: usize,
    wins: usize,
    ties: usize,
}

fn columns(given: &Parameters) -> Columns<'static, Tally> {
    let (column, tie) = (&given.column, given.tie_within);
    let incomplete = "contests in which one has none: not counted";
    let strict = format!("contests in which its {column} is the single best value");
    let wins = format!(
        "contests that it wins, with no other contender within {tie} of the best, \
        relative"
    );
    let ties = format!("contests in which it and another contender are within {tie} of the best");
    Columns::new()
        .with(
            Spec::int("n", "1", "contests in which every contender has a value"),
            |t: &Tally| t.complete,
        )
        .with(Spec::int("incomplete", "1", incomplete), |t| t.incomplete)
        .with(Spec::int("strict_wins", "1", strict), |t| t.strict)
        .with(Spec::int("wins", "1", wins), |t| t.wins)
        .with(Spec::int("ties", "1", ties), |t| t.ties)
        .with(
            Spec::float("win_rate", "1", "wins ÷ n").within(Bounds::Share),
            |t| (t.complete > 0).then(|| t.wins as f64 / t.complete as f64),
        )
}

impl TypedOperator for Wins {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "wins";
    const SUMMARY: &'static str =
        "How often each label of an axis has the best value, strictly and under one tie rule.";
    const SOURCE: &'static str = "\
        The table has the strict counts and those under the tie rule. The operator compares values and makes no test: \
        `ranking` says which contenders are shown to differ. The design's A/A arm does not contend.";

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let (from, column) = (given.from.as_str(), given.column.as_str());
        contested(draft, (from, column), (given.better, given.tie_within))?;
        Ok(columns(given).specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let from = context.table(&given.from)?;
        let among = from.key_position(&given.among, &given.from)?;
        let units = Units::of(given.unit.as_deref(), from, &given.from)?;
        let by = from.key_positions(&given.by, &given.from)?;
        let contest: Vec<usize> = (0..from.keys.len())
            .filter(|p| *p != among && !units.axes().contains(&from.keys[*p]))
            .collect();
        let (columns, mut rows) = (columns(given), Vec::new());
        // A contender without a row in a stratum still lacks a value in its contests.
        let mut contenders = contenders(from, among);
        contenders.retain(|label| !context.is_arm(&given.among, label));
        for (stratum, members) in from.groups(&by) {
            let mut tallies = vec![Tally::default(); contenders.len()];
            let (mut n, mut incomplete) = (0, 0);
            for here in contests(from, &members, &contest) {
                let value = |contender: &Scalar| {
                    let rows = here
                        .iter()
                        .filter(|r| from.rows[**r].key[among] == *contender);
                    let values: Vec<f64> = rows
                        .filter_map(|r| from.number(*r, &given.column))
                        .collect();
                    mean(&values)
                };
                match contenders.iter().map(value).collect::<Option<Vec<f64>>>() {
                    Some(values) => {
                        n += 1;
                        judge(&values, given, &mut tallies);
                    }
                    None => incomplete += 1,
                }
            }
            for (contender, tally) in contenders.iter().zip(tallies) {
                let mut key = stratum.clone();
                key.push(contender.clone());
                let tally = Tally {
                    complete: n,
                    incomplete,
                    ..tally
                };
                let lineage = spans(&given.from, members.iter().copied());
                rows.push(columns.row(key, &tally, lineage));
            }
        }
        let mut keys = given.by.clone();
        keys.push(given.among.clone());
        Ok(Frame {
            level: Level::Marginal,
            keys,
            specs: columns.specs(),
            rows,
            missing: from.missing.clone(),
        })
    }
}

/// Every label that contends, even if only in a missing cell.
fn contenders(from: &Frame, among: usize) -> Vec<Scalar> {
    let axis = &from.keys[among];
    let absent = from.missing.iter().filter_map(|m| m.get(axis).cloned());
    let mut labels: Vec<Scalar> = from.rows.iter().map(|r| r.key[among].clone()).collect();
    labels.extend(absent);
    labels.sort_by(contract::compare);
    labels.dedup();
    labels
}

/// The rows of each contest of a stratum.
fn contests(from: &Frame, members: &[usize], contest: &[usize]) -> Vec<Vec<usize>> {
    let groups = from.groups(contest).into_iter();
    let within = groups.map(|(_, rows)| {
        let here = rows
            .into_iter()
            .filter(|row| members.binary_search(row).is_ok());
        here.collect::<Vec<usize>>()
    });
    within.filter(|rows| !rows.is_empty()).collect()
}

fn judge(values: &[f64], given: &Parameters, tallies: &mut [Tally]) {
    let best = match given.better {
        Better::Higher => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        Better::Lower => values.iter().copied().fold(f64::INFINITY, f64::min),
    };
    let near = |v: f64| (v - best).abs() <= given.tie_within * v.abs().min(best.abs());
    let close: Vec<usize> = (0..values.len()).filter(|i| near(values[*i])).collect();
    let equal = values.iter().filter(|v| **v == best).count();
    for i in close.iter().copied() {
        if close.len() == 1 {
            tallies[i].wins += 1;
        } else {
            tallies[i].ties += 1;
        }
        if equal == 1 && values[i] == best {
            tallies[i].strict += 1;
        }
    }
}
