//! `breakdown`: the smallest N for which a named rule holds.

use std::collections::BTreeMap;

use artifacts::Scalar;
use contract::Better;
use pipeline::{CellStatus, Failure, Problem, Step};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Interval, share_interval};

use crate::columns::{Columns, listed, missing_spec};
use crate::frame::{Absence, Bounds, Frame, Level, SourceRows, Spec, spans};
use crate::operator::{Context, Draft, TypedOperator, unless};
use crate::operators::fairness::MATTERS;
use crate::operators::pairs::rung;
use crate::operators::resemblance::{Doubt, doubt_of_strata};
use crate::operators::units::{LEVEL, Mean, Units, averaged};

pub(crate) struct Breakdown;

#[cfg(test)]
mod tests;

/// The label of a unit.
type Label = Vec<Scalar>;

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

    /// Whether a finding may be due to lost cells, if these were the worst. A column without a better direction may have
    /// lost either end.
    fn flatters(&self, spec: &Spec, holds: bool) -> bool {
        let beyond = match self.above {
            Some(_) => Better::Higher,
            None => Better::Lower,
        };
        Better::of(&spec.name, spec.unit.as_deref()).is_none_or(|b| (b == beyond) == holds)
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

/// What the units show of a condition, or of the rule, at one N.
#[derive(Clone, Copy)]
struct Met {
    /// Whether the means meet it; `None` if that is unknown.
    observed: Option<bool>,
    state: State,
    /// Whether so many cells are lost that those that are left may flatter.
    lost: bool,
}

/// One value of the ladder.
struct Rung {
    n: f64,
    rule: Met,
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
        let meets = |r: &Rung| r.rule.observed == Some(true);
        self.rungs.iter().position(meets)
    }

    /// The values of N beyond the first at which the means do not meet the rule.
    fn back(&self) -> Option<String> {
        let beyond = self.rungs.iter().skip(self.observed()?);
        listed_rungs(beyond.filter(|r| r.rule.observed == Some(false)))
    }

    /// The number of values of N at which the rule is defined.
    fn defined(&self) -> usize {
        let defined = self.rungs.iter().filter(|r| r.rule.observed.is_some());
        defined.count()
    }

    /// Explains which values of N are open for lack of cells or values; `None` if none is.
    fn gaps(&self) -> Option<String> {
        let rungs =
            |keep: fn(&Met) -> bool| listed_rungs(self.rungs.iter().filter(|r| keep(&r.rule)));
        let undefined = rungs(|met| met.observed.is_none());
        let lost = rungs(|met| met.observed.is_some() && met.lost && met.state == State::Open);
        let gaps = [
            undefined.map(|n| format!("the rule is undefined at {n}")),
            lost.map(|n| format!("cells were lost at {n}")),
        ];
        let gaps: Vec<String> = gaps.into_iter().flatten().collect();
        (!gaps.is_empty()).then(|| gaps.join("; "))
    }

    /// The smallest N at which the rule may hold, and the smallest at which it certainly does.
    fn range(&self) -> (Option<f64>, Option<f64>) {
        let first = |keep: fn(State) -> bool| {
            let rung = self.rungs.iter().find(|r| keep(r.rule.state));
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
        self.unreplicated.is_none() && self.defined() > 0 && low == high
    }

    fn resolution(&self, ladder: &str) -> String {
        if self.defined() == 0 {
            return "the rule is defined nowhere".to_owned();
        }
        if let Some(why) = &self.unreplicated {
            return format!("not resolved: {why}");
        }
        let open = match self.range() {
            (None, _) => return format!("never within the {ladder}"),
            (Some(low), Some(high)) if low == high => return format!("at {low}"),
            (Some(low), Some(high)) => format!("not resolved: between {low} and {high}"),
            (Some(low), None) => format!("not resolved: at {low} or later, or never"),
        };
        match self.gaps() {
            Some(gaps) => format!("{open} ({gaps})"),
            None => open,
        }
    }
}

/// Lists the values of N of some rungs; `None` if there are none.
fn listed_rungs<'a>(rungs: impl Iterator<Item = &'a Rung>) -> Option<String> {
    listed(&rungs.map(|r| r.n.to_string()).collect::<Vec<_>>())
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
            Ladder::defined,
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
        A value of the ladder without a value of the column is open: the rule may hold there. With several conditions, \
        the rule holds if one does, and it is open if none surely holds and one is open. Where the share of units that \
        lost their cell is more than a tenth above the least share of the ladder, a result that favours the server is \
        open too, because the lost cells may have been the worst. Cells that the experiment excludes are not part of \
        the ladder.\n\n\
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
        let tables = given.any.iter().map(|c| context.table(&c.table));
        let study = Study {
            given,
            tables: tables.collect::<Result<_, _>>()?,
            ladder,
            unit: first.key_positions(units.axes(), name)?,
            units,
            keys,
        };
        let columns = columns(given);
        let mut rows = Vec::new();
        for (key, members) in first.groups(&others) {
            let (ladder, lineage) = study.ladder(&key, &members)?;
            rows.push(columns.row(key, &ladder, lineage));
        }
        Ok(Frame {
            level: Level::Marginal,
            keys: study.keys,
            specs: columns.specs(),
            rows,
            missing: first.missing.clone(),
        })
    }
}

/// The tables of the conditions, and what their keys mean.
struct Study<'a> {
    given: &'a Parameters,
    /// One for each condition.
    tables: Vec<&'a Frame>,
    units: Units,
    /// The positions of the ladder and of the units.
    ladder: usize,
    unit: Vec<usize>,
    /// The other keys.
    keys: Vec<String>,
}

/// The values of a condition at one N.
struct Stratum {
    values: Vec<(Label, f64)>,
    /// The share of the units that lost their cell.
    lost: f64,
}

impl Study<'_> {
    /// Judges the ladder of some rows, which have the same other keys. Returns it with the rows that it rests on.
    fn ladder(
        &self,
        key: &[Scalar],
        members: &[usize],
    ) -> Result<(Ladder, Vec<SourceRows>), Failure> {
        let (given, first, units) = (self.given, self.tables[0], &self.units);
        let mut rungs: BTreeMap<Rising, Vec<usize>> = BTreeMap::new();
        for row in members {
            let n = rung(&first.rows[*row].key[self.ladder], &given.ladder)?;
            rungs.entry(Rising(n)).or_default().push(*row);
        }
        let missing = self.tables.iter().map(|table| self.missing(table, key));
        let missing: Vec<_> = missing.collect();
        for n in missing.iter().flat_map(BTreeMap::keys) {
            rungs.entry(*n).or_default();
        }
        // All ends of the intervals hold together at the level.
        let intervals = (rungs.len() * given.any.len()).max(1) as f64;
        let level = 1.0 - (1.0 - LEVEL) / intervals;
        let (mut lineage, mut most, mut dependent) = (Vec::new(), 0, None);
        let mut met: Vec<Vec<Met>> = vec![Vec::new(); rungs.len()];
        for (at, condition) in given.any.iter().enumerate() {
            let spec = self.tables[at].declared(&condition.column)?;
            let stratum = |(n, rows): (&Rising, &Vec<usize>)| {
                let missing = missing[at].get(n).map_or(&[][..], Vec::as_slice);
                self.stratum(at, rows, missing, &mut lineage)
            };
            let strata: Vec<Stratum> = rungs.iter().map(stratum).collect();
            let most_here = strata.iter().map(|stratum| stratum.values.len()).max();
            most = most.max(most_here.unwrap_or(0));
            let all = strata.iter().flat_map(|stratum| &stratum.values);
            let step = statistics::resolution(all.map(|(_, value)| *value));
            let values: Vec<_> = strata.iter().map(|s| s.values.clone()).collect();
            let doubt = doubt_of_strata(units, &values).filter(|_| !units.is_none());
            dependent = dependent.or(doubt.as_ref().map(Doubt::refusal));
            let least = strata.iter().map(|s| s.lost).fold(f64::INFINITY, f64::min);
            for (stratum, met) in strata.iter().zip(&mut met) {
                let values: Vec<f64> = stratum.values.iter().map(|(_, value)| *value).collect();
                let mean = units.mean(&values, level, spec.range).map(|mut mean| {
                    mean.doubt(doubt.as_ref());
                    let ends = ends(&mean, &values, (level, spec.range, step));
                    (mean.value, ends)
                });
                let lost = stratum.lost - least > MATTERS;
                met.push(condition.judge(&spec, mean, lost));
            }
        }
        lineage.sort();
        lineage.dedup();
        let rungs = rungs.keys().zip(met);
        let ladder = Ladder {
            rungs: rungs
                .map(|(n, met)| Rung {
                    n: n.0,
                    rule: any(&met),
                })
                .collect(),
            units: if units.is_none() { 0 } else { most },
            unreplicated: if units.is_none() {
                Some(units.none())
            } else {
                units.too_few(most).or(dependent)
            },
            missing: first.missing_at(&self.keys, key),
        };
        Ok((ladder, lineage))
    }

    /// Returns the values of N at which a table lacks cells, with the units that lost them. Cells that the experiment
    /// excludes are not part of the ladder.
    fn missing(&self, table: &Frame, key: &[Scalar]) -> BTreeMap<Rising, Vec<Label>> {
        let mut at: BTreeMap<Rising, Vec<Label>> = BTreeMap::new();
        for missing in table.missing_here(&self.keys, key) {
            let n = missing.get(&self.given.ladder);
            let n = n.and_then(|label| rung(label, &self.given.ladder).ok());
            let Some(n) = n.filter(|_| missing.absence != Absence::Ended(CellStatus::Excluded))
            else {
                continue;
            };
            let here = at.entry(Rising(n)).or_default();
            if missing.is_lost() {
                let axes = self.units.axes().iter();
                let label = axes.map(|axis| missing.get(axis).cloned().unwrap_or(Scalar::Null));
                here.push(label.collect());
            }
        }
        at
    }

    /// Returns the values of the condition number `at` in some rows of the first table, which have the same N.
    fn stratum(
        &self,
        at: usize,
        rows: &[usize],
        missing: &[Label],
        lineage: &mut Vec<SourceRows>,
    ) -> Stratum {
        let (condition, first, table) = (&self.given.any[at], self.tables[0], self.tables[at]);
        let (mut values, mut all) = (Vec::new(), missing.to_vec());
        for row in rows {
            let label = first.key_at(*row, &self.unit);
            all.push(label.clone());
            let key = &first.rows[*row].key;
            // Finished tables are sorted by key.
            let row = table
                .rows
                .binary_search_by(|r| contract::compare_all(&r.key, key));
            let value = row
                .ok()
                .and_then(|row| Some((row, table.number(row, &condition.column)?)));
            if let Some((row, value)) = value {
                lineage.extend(spans(&condition.table, [row]));
                values.push((label, value));
            }
        }
        // A unit that lost only some of its repetitions has a value.
        let kept = distinct(values.iter().map(|(label, _)| label.clone()).collect());
        let all = distinct(all);
        Stratum {
            values: averaged(values),
            lost: 1.0 - kept as f64 / all.max(1) as f64,
        }
    }
}

/// Counts the different labels.
fn distinct(mut labels: Vec<Label>) -> usize {
    labels.sort_by(|a, b| contract::compare_all(a, b));
    labels.dedup();
    labels.len()
}

/// A value of the ladder, in order.
#[derive(Clone, Copy, PartialEq)]
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

impl Condition {
    /// Judges the mean and the interval of the units at one N, from which some units may be lost.
    fn judge(&self, spec: &Spec, mean: Option<(f64, Option<Interval>)>, lost: bool) -> Met {
        let ends = mean.and_then(|(_, ends)| ends);
        let holds = ends.map(|ends| (self.holds(ends.low), self.holds(ends.high)));
        let state = match holds {
            Some((low, high)) if low == high && !(lost && self.flatters(spec, low)) => match low {
                true => State::Holds,
                false => State::HoldsNot,
            },
            _ => State::Open,
        };
        Met {
            observed: mean.map(|(value, _)| self.holds(value)),
            state,
            lost,
        }
    }
}

/// Combines the conditions at one N, of which any suffices. What is unknown or open may hold.
fn any(met: &[Met]) -> Met {
    let observed = |value| met.iter().any(|m| m.observed == value);
    let state = |state| met.iter().any(|m| m.state == state);
    Met {
        observed: match (observed(Some(true)), observed(None)) {
            (true, _) => Some(true),
            (false, true) => None,
            (false, false) => Some(false),
        },
        state: match (state(State::Holds), state(State::Open)) {
            (true, _) => State::Holds,
            (false, true) => State::Open,
            (false, false) => State::HoldsNot,
        },
        lost: met.iter().any(|m| m.lost),
    }
}
