//! `breakdown`: the smallest N for which a named rule holds.

use std::collections::BTreeMap;

use artifacts::Scalar;
use pipeline::{Failure, Problem, Step};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Interval, share_interval};

use crate::columns::{Columns, listed, missing_spec};
use crate::frame::{Bounds, Frame, Level, Spec, spans};
use crate::operator::{Context, Draft, TypedOperator, unless};
use crate::operators::pairs::rung;
use crate::operators::resemblance::{Doubt, doubt_of_strata};
use crate::operators::units::{LEVEL, Mean, Units, averaged};

pub(crate) struct Breakdown;

/// The values of a rung with the labels of their units.
type OfUnits = Vec<(Vec<Scalar>, f64)>;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The name of the rule, printed with every result.
    rule: String,
    /// The axis of N, such as `concurrency`.
    ladder: String,
    /// The conditions. The rule holds if any of them holds.
    any: Vec<Condition>,
    /// The axes whose labels are the units of replication; by default `block`, if the tables have it. Without units,
    /// the result stays unresolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unit: Option<Vec<String>>,
}

/// One bound on one column; exactly one of `below` and `above`.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Condition {
    /// The table.
    table: String,
    /// The column to read.
    column: String,
    /// Holds where the value is smaller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    below: Option<f64>,
    /// Holds where the value is larger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    above: Option<f64>,
}

impl Condition {
    fn holds(&self, value: f64) -> bool {
        self.below.is_some_and(|bound| value < bound)
            || self.above.is_some_and(|bound| value > bound)
    }
}

impl std::fmt::Display for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.below, self.above) {
            (Some(bound), _) => write!(f, "{} < {bound}", self.column),
            (_, bound) => write!(f, "{} > {}", self.column, bound.unwrap_or(f64::NAN)),
        }
    }
}

/// Whether the units meet the rule at one N.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Holds,
    HoldsNot,
    Open,
}

/// One value of the ladder at which the rule is defined.
struct Rung {
    n: f64,
    /// Whether the means meet the rule.
    observed: bool,
    state: State,
}

/// The rungs of one ladder, and where the rule holds.
struct Ladder {
    /// In rising order of N.
    rungs: Vec<Rung>,
    units: usize,
    /// The reason why nothing is resolved, if so.
    unreplicated: Option<String>,
    missing: Scalar,
}

impl Ladder {
    /// The first N at which the means meet the rule.
    fn observed(&self) -> Option<usize> {
        self.rungs.iter().position(|r| r.observed)
    }

    /// The values of N beyond the first at which the means do not meet the rule.
    fn back(&self) -> Option<String> {
        let beyond = self.rungs.iter().skip(self.observed()?);
        let back = beyond.filter(|r| !r.observed);
        listed(&back.map(|r| r.n.to_string()).collect::<Vec<_>>())
    }

    /// The smallest N at which the rule may hold, and the smallest at which it certainly does.
    fn range(&self) -> (Option<f64>, Option<f64>) {
        let first = |keep: fn(State) -> bool| {
            let rung = self.rungs.iter().find(|r| keep(r.state));
            rung.map(|r| r.n)
        };
        (
            first(|s| s != State::HoldsNot),
            first(|s| s == State::Holds),
        )
    }

    /// Whether only one N can be the first at which it holds, or certainly none can.
    fn resolved(&self) -> bool {
        let (low, high) = self.range();
        self.unreplicated.is_none() && !self.rungs.is_empty() && low == high
    }

    fn resolution(&self, ladder: &str) -> String {
        if self.rungs.is_empty() {
            return "the rule is defined nowhere".to_owned();
        }
        if let Some(why) = &self.unreplicated {
            return format!("not resolved: {why}");
        }
        match self.range() {
            (None, _) => format!("never within the {ladder}"),
            (Some(low), Some(high)) if low == high => format!("at {low}"),
            (Some(low), Some(high)) => format!("not resolved: between {low} and {high}"),
            (Some(low), None) => format!("not resolved: at {low} or later, or never"),
        }
    }
}

fn columns(given: &Parameters) -> Columns<'_, Ladder> {
    let conditions: Vec<String> = given.any.iter().map(Condition::to_string).collect();
    let rule = conditions.join(" or ");
    let ladder = &given.ladder;
    let n = format!(
        "smallest {ladder} at which {rule}, if the units resolve it; null if they do not, or if \
        the rule never holds"
    );
    let observed = format!("smallest {ladder} at which the means over the units meet the rule");
    let low =
        format!("smallest {ladder} at which the rule may hold; null if it surely never holds");
    let high = format!("smallest {ladder} at which the rule surely holds; null if there is none");
    let never =
        "whether the rule surely holds nowhere within the ladder; null if that is not resolved";
    let back = format!(
        "values of {ladder} beyond observed_n at which the means no longer meet the rule; null \
        if none"
    );
    let resolution = format!(
        "the result from the joint intervals of all values at level {LEVEL}: where it breaks, \
        between which values, or why that is open"
    );
    Columns::new()
        .with(
            Spec::text("rule", format!("the name of the rule: {rule}")),
            |_: &Ladder| given.rule.as_str(),
        )
        .with(Spec::float("breakdown_n", "", n).at_level(LEVEL), |l| {
            l.range().1.filter(|_| l.resolved())
        })
        .with(Spec::float("observed_n", "", observed), |l| {
            l.observed().map(|b| l.rungs[b].n)
        })
        .with(Spec::float("breakdown_low", "", low), |l| l.range().0)
        .with(Spec::float("breakdown_high", "", high), |l| l.range().1)
        .with(
            Spec::boolean(
                "resolved",
                "whether the units determine a single N, or that there is none",
            ),
            Ladder::resolved,
        )
        .with(Spec::text("resolution", resolution), |l| {
            l.resolution(&given.ladder)
        })
        .with(Spec::boolean("never", never), |l| {
            l.resolved().then(|| l.range().1.is_none())
        })
        .with(Spec::text("recrossings", back), Ladder::back)
        .with(
            Spec::int(
                "n",
                "1",
                format!("values of {ladder} at which the rule is defined"),
            ),
            |l| l.rungs.len(),
        )
        .with(
            Spec::int("units", "1", "units of replication, at most"),
            |l| l.units,
        )
        .with(missing_spec(), |l| l.missing.clone())
}

impl TypedOperator for Breakdown {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "breakdown";
    const SUMMARY: &'static str = "The smallest N at which a named rule holds, if the units of \
        replication resolve it. Otherwise, the values between which it lies.";
    const SOURCE: &'static str = "\
        The rule is a parameter with a name, because published studies use different rules under the same word.\n\n\
        Each value of the ladder has an interval over the units, jointly at level 0.95 (Bonferroni). The rule surely \
        holds if an interval is beyond its bound, and may hold if an interval crosses it. If all units have the same \
        value, its uncertainty is that of its steps: a share has the interval of Clopper & Pearson (Biometrika 26, \
        1934), a rounded value half a step on each side.\n\n\
        `observed_n`, the smallest N of the means alone, varies between studies of the same system.";

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let (settings, mut problems) = (draft.settings, Vec::new());
        if given.any.is_empty() {
            problems.push(
                draft.problem("any", "a rule needs at least one condition").hint(
                    "write, for example, `any: [{table: efficiency, column: parallel_efficiency, below: 0.65}]`",
                ),
            );
        }
        for (i, condition) in given.any.iter().enumerate() {
            let here = [Step::Key("any".to_owned()), Step::Index(i)];
            let at = |key: &str| {
                let mut place = here.to_vec();
                place.push(Step::Key(key.to_owned()));
                place
            };
            if condition.below.is_some() == condition.above.is_some() {
                problems
                    .push(settings.problem(&here, "a condition needs either `below` or `above`"));
            }
            let wanted = [(at("column"), condition.column.as_str())];
            let table = (&at("table")[..], condition.table.as_str());
            if let Err(more) = draft.scope.numbers(settings, table, &wanted) {
                problems.extend(more);
            }
        }
        unless(problems, || columns(given).specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let name = &given.any[0].table;
        let first = context.table(name)?;
        let ladder = first.key_position(&given.ladder, name)?;
        for condition in &given.any {
            let table = context.table(&condition.table)?;
            if table.keys != first.keys {
                return Err(Failure::failed(format!(
                    "the tables `{name}` and `{}` have different keys: {} and {}",
                    condition.table,
                    first.keys.join(", "),
                    table.keys.join(", "),
                )));
            }
        }
        let units = Units::of(given.unit.as_deref(), first, name)?;
        let mut apart = units.axes().to_vec();
        apart.push(given.ladder.clone());
        let keys = first.keys_without(&apart);
        let others = first.key_positions(&keys, name)?;
        let unit = first.key_positions(units.axes(), name)?;
        let columns = columns(given);
        let mut rows = Vec::new();
        for (key, members) in first.groups(&others) {
            let mut rungs: BTreeMap<Rising, Vec<usize>> = BTreeMap::new();
            for row in members {
                let n = rung(&first.rows[row].key[ladder], &given.ladder)?;
                rungs.entry(Rising(n)).or_default().push(row);
            }
            // All ends of the intervals hold together at the level.
            let intervals = (rungs.len() * given.any.len()).max(1) as f64;
            let level = 1.0 - (1.0 - LEVEL) / intervals;
            let (mut lineage, mut means, mut most) = (Vec::new(), BTreeMap::new(), 0);
            let mut dependent = None;
            for condition in &given.any {
                let table = context.table(&condition.table)?;
                let range = table.declared(&condition.column)?.range;
                let mut strata: Vec<(f64, OfUnits)> = Vec::new();
                for (Rising(n), members) in &rungs {
                    let mut values = Vec::new();
                    for row in members {
                        let key = &first.rows[*row].key;
                        // Finished tables are sorted by key.
                        let at = table
                            .rows
                            .binary_search_by(|r| contract::compare_all(&r.key, key));
                        let value = at
                            .ok()
                            .and_then(|at| Some((at, table.number(at, &condition.column)?)));
                        if let Some((at, value)) = value {
                            lineage.extend(spans(&condition.table, [at]));
                            values.push((first.key_at(*row, &unit), value));
                        }
                    }
                    let values = averaged(values);
                    most = most.max(values.len());
                    strata.push((*n, values));
                }
                let all = strata.iter().flat_map(|(_, values)| values);
                let step = statistics::resolution(all.map(|(_, value)| *value));
                let values: Vec<_> = strata.iter().map(|(_, values)| values.clone()).collect();
                let doubt = doubt_of_strata(&units, &values).filter(|_| !units.is_none());
                dependent = dependent.or(doubt.as_ref().map(Doubt::refusal));
                for (n, values) in strata {
                    let values: Vec<f64> = values.into_iter().map(|(_, value)| value).collect();
                    let Some(mut mean) = units.mean(&values, level, range) else {
                        continue;
                    };
                    mean.doubt(doubt.as_ref());
                    let ends = ends(&mean, &values, (level, range, step));
                    let at: &mut Vec<_> = means.entry(Rising(n)).or_default();
                    at.push((condition, mean.value, ends));
                }
            }
            let judged: Vec<Rung> = means
                .iter()
                .map(|(Rising(n), means)| judge(*n, means))
                .collect();
            lineage.sort();
            lineage.dedup();
            let ladder = Ladder {
                rungs: judged,
                units: if units.is_none() { 0 } else { most },
                unreplicated: if units.is_none() {
                    Some(units.none())
                } else {
                    units.too_few(most).or(dependent)
                },
                missing: first.missing_at(&keys, &key),
            };
            rows.push(columns.row(key, &ladder, lineage));
        }
        Ok(Frame {
            level: Level::Marginal,
            keys,
            specs: columns.specs(),
            rows,
            missing: first.missing.clone(),
        })
    }
}

/// A value of the ladder, in order.
#[derive(PartialEq)]
struct Rising(f64);

impl Eq for Rising {}

impl PartialOrd for Rising {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rising {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Returns the ends of the interval of a mean; `None` if nothing bounds it. Units that all have the same value show no
/// spread. Their value is exact in two cases: it is 1 at the anchor of a ladder, or it has more digits than any tool
/// prints, as in a simulation without noise. Otherwise its step gives the uncertainty. A share has the binomial
/// interval over all requests, and a rounded value has half a step on each side.
fn ends(
    mean: &Mean,
    values: &[f64],
    (level, range, step): (f64, Bounds, Option<f64>),
) -> Option<Interval> {
    if let Ok(interval) = mean.interval {
        return Some(interval);
    }
    let value = *values.first().filter(|_| mean.constant)?;
    let around = |half: f64| Interval {
        low: value - half,
        high: value + half,
    };
    let whole = value == 0.0 || value == 1.0;
    Some(match (range, step) {
        (Bounds::Relative, _) if (value - 1.0).abs() < 1e-12 => around(0.0),
        (Bounds::Share, step) if whole || step.is_some() => {
            let things = (values.len() as f64 / step.unwrap_or(1.0)).round();
            let part = (value * things).round();
            share_interval(part as u64, things as u64, level)
        }
        (_, Some(step)) => around(step / 2.0),
        (_, None) => around(0.0),
    })
}

/// Combines the conditions at one N: the mean and the interval of each.
fn judge(n: f64, means: &[(&Condition, f64, Option<Interval>)]) -> Rung {
    let state_of = |(condition, _, ends): &(&Condition, f64, Option<Interval>)| {
        let Some(Interval { low, high }) = *ends else {
            return State::Open;
        };
        match (condition.holds(low), condition.holds(high)) {
            (true, true) => State::Holds,
            (false, false) => State::HoldsNot,
            _ => State::Open,
        }
    };
    let states: Vec<State> = means.iter().map(state_of).collect();
    let state = if states.contains(&State::Holds) {
        State::Holds
    } else if states.contains(&State::Open) {
        State::Open
    } else {
        State::HoldsNot
    };
    Rung {
        n,
        observed: means.iter().any(|(c, mean, _)| c.holds(*mean)),
        state,
    }
}
