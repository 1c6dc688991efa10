//! `ranking`: the order of an axis' labels in every contest, with the groups whose members cannot be distinguished.

mod columns;
mod contest;
mod order;

use std::collections::BTreeSet;

use artifacts::Scalar;
use contract::Better;
use pipeline::{Failure, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::columns::columns;
use self::contest::Contest;
use self::order::{Evidence, PairTest, Unfair};
use crate::frame::{Frame, Level, Spec, rows_of, spans};
use crate::operator::{Context, Draft, TypedOperator};
use crate::operators::alike::{Alike, Compares, Kept, cells_behind};
use crate::operators::fairness::Losses;
use crate::operators::family::{Adjusted, Asked as Question, Family, Hypothesis, Pending};
use crate::operators::looks::Looks;
use crate::operators::one_launch;
use crate::operators::pairs::contested;
use crate::operators::uneven::Quantiles;
use crate::operators::units::Units;
use crate::surroundings::{self, Asked, Judge};

pub(crate) struct Ranking;

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("x-other-words" = {
    "axis": "`among`", "over": "`among`", "across": "`among`", "by": "`column`", "metric": "`column`", "direction": "`better`",
}))]
pub(crate) struct Parameters {
    /// The table that holds the contenders.
    from: String,
    /// The axis whose labels are ranked; the other keys, without the unit axes, name the contests.
    among: String,
    /// The column they are ranked by.
    column: String,
    /// Which direction is better.
    better: Better,
    /// The largest distance between two values that always counts as a tie, relative to the smaller
    /// one.
    #[serde(default)]
    tie_within: f64,
    /// The axes whose labels are the units of replication; by default `block`, if the table has it.
    /// Without units, no two contenders are distinguished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unit: Option<Vec<String>>,
    /// The tests that share the level with those of this table.
    #[serde(default)]
    family: Family,
    /// The probability of any false verdict in the family; here, of distinguishing two equal
    /// contenders.
    #[serde(default = "alpha")]
    alpha: f64,
    /// How often the study looks at its data. You need not set it: a design with `until` does.
    #[serde(default, skip_serializing_if = "Looks::is_once")]
    looks: Looks,
    /// Measurement conditions in which contenders may differ. A difference in any other condition
    /// prevents a distinction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    conditions_may_differ: Vec<String>,
}

fn alpha() -> f64 {
    0.05
}

impl TypedOperator for Ranking {
    type Parameters = Parameters;
    type Made = Pending;
    const NAME: &'static str = "ranking";
    const SUMMARY: &'static str = "The rank of each label of an axis at every coordinate, the \
        labels that do not differ from it, and the stability of its rank over the units.";
    const SOURCE: &'static str = "\
        `rank` is standard competition ranking (1, 2, 2, 4), and `mid_rank` is fractional ranking (1, 2.5, 2.5, 4), \
        both of the means over the units: geometric means if every value is above 0, as the tests compare logarithms. The \
        design's A/A arm does not contend.\n\n\
        Student's t of the units' log ratios distinguishes two contenders; if a value is not above 0, it uses \
        differences. All pairs and contests of the table form one family, which shares the level of the study with \
        the other tables (weighted Holm). Ties do not chain: each pair is judged separately.\n\n\
        If no unit has both contenders, for example because each system has its own machine, the operator uses \
        Welch's t of the units' logarithms. If one contender has at least twice as many units, it also needs a \
        permutation of labels.\n\n\
        A global test shows whether any contender differs: Friedman (JASA 32, 1937), or Kruskal & Wallis (JASA 47, \
        1952) if no unit has two contenders, exact if feasible.";

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let (from, column) = (given.from.as_str(), given.column.as_str());
        let spec = contested(draft, (from, column), (given.better, given.tie_within))?;
        let mut problems = draft.shares(&[("alpha", given.alpha)]);
        problems.extend(surroundings::problems(draft, &given.conditions_may_differ));
        crate::operator::unless(problems, || columns(&spec, given).specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Pending, Failure> {
        let alike = alike(given, context)?;
        let from = alike.frame();
        let among = from.key_position(&given.among, &given.from)?;
        let units = Units::of(given.unit.as_deref(), from, &given.from)?;
        let mut apart = units.axes().to_vec();
        apart.push(given.among.clone());
        let contest_keys = from.keys_without(&apart);
        let at = from.key_positions(&contest_keys, &given.from)?;
        let unit = from.key_positions(units.axes(), &given.from)?;
        let contests: Vec<Contest> = from
            .groups(&at)
            .into_iter()
            .map(|(_, mut members)| {
                members.retain(|row| !context.is_arm(&given.among, &from.rows[*row].key[among]));
                members
            })
            .filter(|members| !members.is_empty())
            .map(|members| Contest::new(from, given, (among, &unit), members))
            .collect();
        let pairs: Vec<(usize, usize, usize)> = contests
            .iter()
            .enumerate()
            .flat_map(|(c, contest)| {
                let n = contest.contenders.len();
                (0..n).flat_map(move |i| (i + 1..n).map(move |j| (c, i, j)))
            })
            .collect();
        let test = |(c, i, j): &(usize, usize, usize)| {
            let [a, b] = [i, j].map(|at| &contests[*c].contenders[*at]);
            let p = match units.is_none() {
                true => None,
                false => contests[*c].p((*i, *j), given.looks, &units),
            };
            let few = units.refusal(a.units.len().min(b.units.len()));
            let p = p.filter(|_| few.is_none());
            let used = spans(&given.from, [a.rows.clone(), b.rows.clone()].concat());
            Hypothesis::new(0, p, (&a.label, &b.label), &used)
        };
        let question = Question {
            family: given.family,
            alpha: given.alpha,
            columns: vec![given.column.clone()],
            by: contest_keys,
            from: given.from.clone(),
            axis: given.among.clone(),
            contest: true,
            tests: pairs.iter().map(test).collect(),
        };
        let (given, alike) = (given.clone(), alike.kept());
        Ok(Pending::new(question, move |adjusted, context| {
            table(
                &given,
                &contests,
                (&pairs, &adjusted),
                (&units, &alike),
                context,
            )
        }))
    }
}

/// The table with the compared figures over the levels that all contenders have: within each unit, or, if the contenders
/// have no unit in common, over all units.
fn alike<'a>(given: &Parameters, context: &'a Context<'_>) -> Result<Alike<'a>, Failure> {
    let from = context.table(&given.from)?;
    let among = from.key_position(&given.among, &given.from)?;
    let units = Units::of(given.unit.as_deref(), from, &given.from)?;
    let labels = from.rows.iter().map(|row| &row.key[among]);
    let labels: BTreeSet<String> = labels
        .filter(|label| !context.is_arm(&given.among, label))
        .map(ToString::to_string)
        .collect();
    let others: Vec<usize> = (0..from.keys.len()).filter(|at| *at != among).collect();
    let shared = from.groups(&others).iter().any(|(_, rows)| rows.len() > 1);
    Alike::of(
        context,
        &Compares {
            table: &given.from,
            columns: std::slice::from_ref(&given.column),
            axis: &given.among,
            sides: &labels.into_iter().collect::<Vec<_>>(),
            apart: if shared { &[] } else { units.axes() },
        },
    )
}

/// Makes the table from decided tests.
fn table(
    given: &Parameters,
    contests: &[Contest],
    (pairs, adjusted): (&[(usize, usize, usize)], &[Adjusted]),
    (units, alike): (&Units, &Kept),
    context: &Context<'_>,
) -> Result<Frame, Failure> {
    let from = alike.frame(context.table(&given.from)?);
    let (cells, name) = cells_behind(context, &given.from, &given.column)?;
    let columns = columns(&from.declared(&given.column)?, given);
    let keys = from.keys_without(units.axes());
    let mut apart = units.axes().to_vec();
    apart.push(given.among.clone());
    let contest_keys = from.keys_without(&apart);
    let asked = Asked {
        axis: &given.among,
        labels: &[],
        unit: units.axes(),
        may_differ: &given.conditions_may_differ,
    };
    let behind = contests.iter().flat_map(|contest| &contest.lineage);
    let mut judge = Judge::new(context)?;
    let unlike = judge.unlike(&asked, behind);
    let quantiles = Quantiles::of(from, &given.column, &given.among);
    let mut rows = Vec::new();
    for (c, contest) in contests.iter().enumerate() {
        let tests = pairs.iter().zip(adjusted);
        let tests = tests.filter(|((column, ..), _)| *column == c);
        let tests: Vec<PairTest<'_>> = tests
            .map(|((_, i, j), adjusted)| (*i, *j, adjusted))
            .collect();
        let quantiles = quantiles.as_ref();
        let mut unfair = uneven(contest, &tests, quantiles);
        unfair.extend(flattered(
            contest,
            &tests,
            given,
            (from, &contest_keys),
            (cells, &name, units),
        ));
        for (i, j, adjusted) in &tests {
            let pair = [*i, *j].map(|at| contest.contenders[at].label.as_str());
            let worst = contest.not_apart_at_worst((*i, *j), adjusted, given, |scale| {
                let column = (given.column.as_str(), scale);
                let sides = (given.among.as_str(), pair);
                let lost = judge.lost(sides, units.axes(), column, &contest.lineage)?;
                Ok((
                    lost,
                    judge.steps(sides, units.axes(), column, &contest.lineage)?,
                ))
            })?;
            unfair.extend(worst.map(|why| (pair.map(str::to_owned), why)));
        }
        let shown =
            |(_, _, adjusted): &&PairTest<'_>| adjusted.decision.is_some_and(|d| d.rejected);
        let out_of_turn = tests.iter().filter(shown).find_map(|(i, j, _)| {
            let pair = [*i, *j].map(|at| contest.contenders[at].label.as_str());
            judge.out_of_turn((&given.among, pair), units.axes(), &contest.lineage)
        });
        let launches = tests.iter().any(|test| shown(&test)).then_some(());
        let launches = launches.and_then(|()| {
            let sides = (&*given.among, units.axes());
            one_launch::limit(context, &mut judge, sides, &contest.lineage)
        });
        let evidence = Evidence {
            unlike: unlike.as_ref(),
            unfair,
            out_of_turn,
            launches,
            pairs: tests,
        };
        let table = (from, keys.as_slice());
        rows.extend(order::rows(
            contest,
            given,
            table,
            &evidence,
            (units, &columns),
        ));
    }
    Ok(Frame {
        level: if units.is_none() {
            from.level
        } else {
            Level::Marginal
        },
        keys,
        specs: columns.specs(),
        rows,
        missing: from.missing.clone(),
    })
}

/// The pairs of a contest whose quantiles rest on unlike numbers of values, with the reason.
fn uneven(contest: &Contest, tests: &[PairTest<'_>], quantiles: Option<&Quantiles>) -> Vec<Unfair> {
    let Some(quantiles) = quantiles else {
        return Vec::new();
    };
    let lineage = rows_of(&contest.lineage);
    let refused = |(i, j, _): &PairTest<'_>| {
        let pair = [*i, *j].map(|at| contest.contenders[at].label.as_str());
        let why = quantiles.refusal(&lineage, pair)?;
        Some((pair.map(str::to_owned), why))
    };
    tests.iter().filter_map(refused).collect()
}

/// The pairs of a contest whose better side lost more cells, with the reason.
fn flattered(
    contest: &Contest,
    tests: &[PairTest<'_>],
    given: &Parameters,
    (from, contest_keys): (&Frame, &[String]),
    (cells, name, units): (&Frame, &str, &Units),
) -> Vec<Unfair> {
    // A contest's losses follow from its own key.
    let row = contest.contenders.first().map_or(0, |entry| entry.row);
    let key: Vec<Scalar> = contest_keys
        .iter()
        .filter_map(|key| from.keys.iter().position(|k| k == key))
        .map(|at| from.rows[row].key[at].clone())
        .collect();
    let flattered = |(i, j, _): &PairTest<'_>| {
        let [a, b] = [*i, *j].map(|at| &contest.contenders[at]);
        let pair = [a.label.as_str(), b.label.as_str()];
        let losses = Losses::of(
            cells,
            (&given.among, pair),
            (contest_keys, &key),
            (name, units),
        );
        let [a, b] = [a, b].map(|entry| entry.value.unwrap_or(f64::NAN));
        let first_is_better = (a > b) == (given.better == Better::Higher);
        let flattered = losses.flattered()? == usize::from(!first_is_better);
        let why = losses.words(pair).filter(|_| flattered)?;
        Some((pair.map(str::to_owned), why))
    };
    tests.iter().filter_map(flattered).collect()
}
