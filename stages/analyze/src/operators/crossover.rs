//! `crossover`: the first value on a ladder at which a different side is shown to be better.

use artifacts::Scalar;
use contract::{Better, IntervalEnd, Verdict};
use pipeline::{Failure, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Interval, UnitEffect};

use crate::columns::{Columns, listed, missing_spec};
use crate::frame::{Frame, Level, Missing, Row, SourceRows, Spec, rows_of, spans};
use crate::operator::{Context, Draft, TypedOperator, unless};
use crate::operators::alike::{Alike, Kept, cells_behind};
use crate::operators::comparison::position;
use crate::operators::fairness::Losses;
use crate::operators::family::{Adjusted, Asked as Question, Family, Hypothesis, Pending};
use crate::operators::looks::Looks;
use crate::operators::one_launch;
use crate::operators::pairs::{Pair, Sides, matched, rung};
use crate::operators::resemblance;
use crate::operators::uneven::Quantiles;
use crate::operators::units::{Scale, Units, averaged, by_coordinate, outward};
use crate::operators::verdict::Case;
use crate::surroundings::{self, Asked, Judge, OutOfTurn, Unlike};

pub(crate) struct Crossover;

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The table that holds both sides.
    from: String,
    /// The two sides: an axis and two of its labels.
    pair: Sides,
    /// The axis along which the winner may change.
    ladder: String,
    /// The column to compare, such as `output_throughput`.
    column: String,
    /// Which direction is better.
    better: Better,
    /// Axes averaged on each side, over the labels that both sides have, before pairing.
    #[serde(default)]
    average: Vec<String>,
    /// The axes whose labels are the units of replication; by default `block`, if the table has it.
    /// Without units, no crossover can be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unit: Option<Vec<String>>,
    /// The scale of the effect. `ratio` needs values above 0; `difference` accepts any.
    #[serde(default)]
    scale: Scale,
    /// The tests that share the level with those of this table.
    #[serde(default)]
    family: Family,
    /// The probability of any false verdict in the family; here, of a false winner.
    #[serde(default = "alpha")]
    alpha: f64,
    /// How often the study looks at its data. You need not set it: a design with `until` does.
    #[serde(default, skip_serializing_if = "Looks::is_once")]
    looks: Looks,
    /// Measurement conditions in which the sides may differ. A difference in any other condition
    /// prevents a verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    conditions_may_differ: Vec<String>,
}

fn alpha() -> f64 {
    0.05
}

/// One value of the ladder.
struct Rung {
    n: f64,
    effect: Result<UnitEffect, String>,
    mean: Option<f64>,
    /// The source rows behind it.
    used: Vec<SourceRows>,
    adjusted: Adjusted,
    /// By how much the effect would change if every lost request had been slow, and the times were off by what the steps of
    /// their clock allow; `None` if none was lost and the clocks are fine.
    worst: Option<f64>,
}

/// The beginning of the column `resolution` if no winner can be shown; the reason follows.
const UNDECIDABLE: &str = "undecidable: ";

/// Returns the reason if a resolution is undecidable.
pub(crate) fn why_undecidable(resolution: &str) -> Option<&str> {
    resolution.strip_prefix(UNDECIDABLE)
}

/// The better side at each rung of one ladder.
struct Course {
    rungs: Vec<Rung>,
    /// The rungs with a winner, and the winner's name.
    won: Vec<(usize, String)>,
    /// The position in `won` of the first change.
    change: Option<usize>,
    observed: Option<f64>,
    missing: Scalar,
    /// The reason why no winner can be shown.
    undecidable: Option<String>,
    /// What limits the winners, if there are any: one side was measured first throughout, or units share launches.
    limits: Vec<String>,
    scale: Scale,
    looks: Looks,
}

impl Course {
    fn crossing(&self) -> Option<&Rung> {
        Some(&self.rungs[self.won[self.change?].0])
    }

    fn interval(&self) -> Option<Interval> {
        let rung = self.crossing()?;
        let effect = rung.effect.as_ref().ok()?;
        let alpha = rung.adjusted.decision?.alpha;
        let alpha = self.looks.level(effect.n, alpha)?;
        Some(outward(self.scale, effect, 1.0 - alpha))
    }

    fn resolution(&self) -> String {
        if let Some(why) = &self.undecidable {
            return format!("{UNDECIDABLE}{why}");
        }
        let mut parts = vec![self.course()];
        parts.extend(self.limits.iter().cloned());
        parts.join("; ")
    }

    /// Says where the winner changes, or why that is not shown.
    fn course(&self) -> String {
        match (self.won.as_slice(), self.change) {
            (won, Some(at)) => {
                let (before, after) = (&self.rungs[won[at - 1].0], &self.rungs[won[at].0]);
                format!("between {} and {}", before.n, after.n)
            }
            ([], _) => "no evidence: no side is shown to be better anywhere".to_owned(),
            ([(_, winner), ..], None) => {
                format!(
                    "no evidence: only {winner} is shown to be better, at {} of {}",
                    self.won.len(),
                    self.rungs.len()
                )
            }
        }
    }
}

fn columns(given: &Parameters, unit: &str) -> Columns<'static, Course> {
    let ladder = &given.ladder;
    let (a, b) = given.pair.labels();
    let first = format!(
        "the better side at the smallest {ladder} at which a side is shown to be better; null if \
        there is none"
    );
    let at = format!("first {ladder} at which the other side is shown to be better; null = none");
    let after = format!("last {ladder} before it at which the first winner is shown to be better");
    let changes = format!("every {ladder} at which another winner is shown; null = none");
    let observed = format!(
        "first {ladder} at which the sign of the mean effect changes; not evidence by itself"
    );
    let n = format!("values of {ladder} at which both sides were measured");
    let end = |which: IntervalEnd| which.of("its interval at the level of its step in the family");
    let sided = |name: &str, what: String| match given.scale {
        Scale::Ratio => Spec::float(name, "1", what).over(&a, &b),
        Scale::Difference => Spec::float(name, unit, what),
    };
    let effect = format!(
        "effect of {a} over {b} there, over the units ({})",
        given.scale.word()
    );
    Columns::new()
        .with(Spec::text("first_winner", first), |c: &Course| {
            c.won.first().map(|(_, winner)| winner.clone())
        })
        .with(Spec::float("crossover_at", "1", at), |c| {
            c.crossing().map(|r| r.n)
        })
        .with(Spec::float("crossover_after", "1", after), |c| {
            Some(c.rungs[c.won[c.change? - 1].0].n)
        })
        .with(
            Spec::text(
                "winner_after",
                format!("the better side there; {a}, {b} or null"),
            ),
            |c| Some(c.won[c.change?].1.clone()),
        )
        .with(sided("effect", effect).at_level(1.0 - given.alpha), |c| {
            c.crossing()?.mean.map(|mean| c.scale.outward(mean))
        })
        .with(sided("adjusted_low", end(IntervalEnd::Lower)), |c| {
            c.interval().map(|i| i.low)
        })
        .with(sided("adjusted_high", end(IntervalEnd::Upper)), |c| {
            c.interval().map(|i| i.high)
        })
        .with(
            Spec::text(
                "resolution",
                "where the winner changes, or why that is not shown",
            ),
            Course::resolution,
        )
        .with(Spec::text("changes", changes), |c| {
            let changed = c.won.windows(2).filter(|w| w[0].1 != w[1].1);
            listed(
                &changed
                    .map(|w| c.rungs[w[1].0].n.to_string())
                    .collect::<Vec<_>>(),
            )
        })
        .with(Spec::float("observed_at", "1", observed), |c| c.observed)
        .with(Spec::int("n", "1", n), |c| c.rungs.len())
        .with(
            Spec::int("units", "1", "units of replication, at most"),
            |c| {
                let units = c
                    .rungs
                    .iter()
                    .filter_map(|r| Some(r.effect.as_ref().ok()?.n));
                units.max().unwrap_or(0)
            },
        )
        .with(
            Spec::text("family", "the family of tests, its level and its size"),
            |c| c.rungs.iter().find_map(|r| r.adjusted.family.clone()),
        )
        .with(missing_spec(), |c| c.missing.clone())
}

impl TypedOperator for Crossover {
    type Parameters = Parameters;
    type Made = Pending;
    const NAME: &'static str = "crossover";
    const SUMMARY: &'static str = "\
        The first value on a ladder at which the other side is shown to be better, and the values between which the \
        winner changes.";
    const SOURCE: &'static str = "\
        Each value of the ladder has a Student's t test of the units' effects. All values and ladders of the table \
        form one family, which shares the level of the study with the other tables (weighted Holm).\n\n\
        A winner is a side that is shown to be better. A crossover needs one winner before and the other after. Sides \
        that were measured under different conditions have no winner. If one side was measured first throughout, or first in \
        each unit, `resolution` adds this.\n\n\
        `observed_at` is the change of sign of the means alone. Nearly every study of two equal sides has one.";

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let spec = draft.column(&given.from, &given.column)?;
        let unit = spec.unit.as_deref().unwrap_or_default();
        let mut problems = draft.shares(&[("alpha", given.alpha)]);
        problems.extend(draft.direction("better", given.better, &spec));
        problems.extend(surroundings::problems(draft, &given.conditions_may_differ));
        unless(problems, || columns(given, unit).specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Pending, Failure> {
        let wanted = [given.column.clone()];
        let (a, b) = given.pair.labels();
        let alike = Alike::of_pair(context, (&given.from, &wanted), &given.pair, &given.average)?;
        let from = alike.frame();
        let matched = matched(from, &given.from, &given.pair, &given.average, &wanted)?;
        let ladder = position("ladder", &given.ladder, &matched.keys)?;
        let units = Units::of(given.unit.as_deref(), from, &given.from)?;
        let unit: Vec<usize> = units
            .axes()
            .iter()
            .map(|axis| position("unit", axis, &matched.keys))
            .collect::<Result<_, _>>()?;
        let kept: Vec<usize> = (0..matched.keys.len())
            .filter(|k| *k != ladder && !unit.contains(k))
            .collect();
        let keys: Vec<String> = kept.iter().map(|k| matched.keys[*k].clone()).collect();
        let mut keyed: Vec<(Vec<Scalar>, f64, &Pair)> = Vec::new();
        for pair in &matched.pairs {
            let key = kept.iter().map(|k| pair.key[*k].clone()).collect();
            keyed.push((key, rung(&pair.key[ladder], &given.ladder)?, pair));
        }
        keyed.sort_by(|a, b| contract::compare_all(&a.0, &b.0).then(a.1.total_cmp(&b.1)));
        let mut courses: Vec<(Vec<Scalar>, Vec<Rung>, Vec<SourceRows>)> = Vec::new();
        for group in keyed.chunk_by(|a, b| a.0 == b.0) {
            let rungs = group.chunk_by(|a, b| a.1 == b.1).map(|rung| {
                let pairs: Vec<&Pair> = rung.iter().map(|(_, _, pair)| *pair).collect();
                tested(given, rung[0].1, &pairs, (&units, &unit))
            });
            let used = group.iter().flat_map(|(_, _, pair)| pair.rows.concat());
            courses.push((
                group[0].0.clone(),
                rungs.collect(),
                spans(&given.from, used),
            ));
        }
        let test = |rung: &Rung| {
            let p = rung.effect.as_ref().ok().map(|e| given.looks.p(e));
            let test = Hypothesis::new(0, p, (&a, &b), &rung.used);
            // A mean of raw values over axes is not a mean of effects.
            match given.average.is_empty() {
                true => test.of_pairs(given.scale, &units),
                false => test,
            }
        };
        let tests = courses.iter().flat_map(|(_, rungs, _)| rungs).map(test);
        let question = Question {
            family: given.family,
            alpha: given.alpha,
            by: [keys.as_slice(), std::slice::from_ref(&given.ladder)].concat(),
            columns: wanted.to_vec(),
            from: given.from.clone(),
            axis: given.pair.axis.clone(),
            contest: false,
            tests: tests.collect(),
        };
        let around = Around {
            units,
            keys,
            missing: matched.missing,
            alike: alike.kept(),
        };
        let given = given.clone();
        Ok(Pending::new(question, move |adjusted, context| {
            table(&given, courses, around, adjusted, context)
        }))
    }
}

/// The units, keys and missing cells common to all ladders.
struct Around {
    units: Units,
    keys: Vec<String>,
    missing: Vec<Missing>,
    alike: Kept,
}

/// Makes the table from decided tests.
fn table(
    given: &Parameters,
    courses: Vec<(Vec<Scalar>, Vec<Rung>, Vec<SourceRows>)>,
    Around {
        units,
        keys,
        missing,
        alike,
    }: Around,
    adjusted: Vec<Adjusted>,
    context: &Context<'_>,
) -> Result<Frame, Failure> {
    let from = alike.frame(context.table(&given.from)?);
    let (cells, name) = cells_behind(context, &given.from, &given.column)?;
    let mut adjusted = adjusted.into_iter();
    let unit_of_column = from.declared(&given.column)?.unit.unwrap_or_default();
    let columns = columns(given, &unit_of_column);
    let around = Frame {
        level: Level::Marginal,
        specs: columns.specs(),
        rows: Vec::new(),
        missing,
        keys,
    };
    let (a, b) = given.pair.labels();
    let asked = Asked {
        axis: &given.pair.axis,
        labels: &[a, b],
        unit: units.axes(),
        may_differ: &given.conditions_may_differ,
    };
    let behind = courses.iter().flat_map(|(_, _, lineage)| lineage);
    let mut judge = Judge::new(context)?;
    let unlike = judge.unlike(&asked, behind);
    let (a, b) = given.pair.labels();
    let quantiles = Quantiles::of(from, &given.column, &given.pair.axis);
    let mut rows: Vec<Row> = Vec::new();
    for (key, mut rungs, mut lineage) in courses {
        let uneven = quantiles.as_ref();
        let uneven = uneven.and_then(|q| q.refusal(&rows_of(&lineage), [&a, &b]));
        if let Some(unlike) = &unlike {
            lineage.extend(unlike.samples.iter().cloned());
            lineage.sort();
        }
        for rung in &mut rungs {
            rung.adjusted = adjusted.next().unwrap_or_default();
            let sides = (given.pair.axis.as_str(), [a.as_str(), b.as_str()]);
            let column = (given.column.as_str(), given.scale);
            let lost = judge.lost(sides, units.axes(), column, &rung.used)?;
            let lost = lost.and_then(|lost| lost.shift);
            let steps = judge.steps(sides, units.axes(), column, &rung.used)?;
            let steps = steps
                .zip(rung.mean)
                .map(|(steps, mean)| steps.against(mean));
            rung.worst = match (lost, steps) {
                (None, None) => None,
                (lost, steps) => Some(lost.unwrap_or(0.0) + steps.unwrap_or(0.0)),
            };
        }
        let missing = around.missing_at(&around.keys, &key);
        let losses = Losses::of(
            cells,
            (&given.pair.axis, [&a, &b]),
            (&around.keys, &key),
            (&name, &units),
        );
        let lost = losses.flattered().and_then(|_| losses.words([&a, &b]));
        let why = unlike.as_ref().map(Unlike::reason).or(uneven).or(lost);
        let mut course = course(given, rungs, missing, (&units, why));
        let won = course
            .won
            .iter()
            .flat_map(|(at, _)| &course.rungs[*at].used);
        let sides = (given.pair.axis.as_str(), [a.as_str(), b.as_str()]);
        let order = judge.out_of_turn(sides, units.axes(), won.clone());
        let launches = (&*given.pair.axis, units.axes());
        let launches = one_launch::limit(context, &mut judge, launches, won);
        course.limits = order.iter().map(OutOfTurn::note).chain(launches).collect();
        if let Some(order) = order {
            lineage.extend(order.starts);
            lineage.sort();
        }
        rows.push(columns.row(key, &course, lineage));
    }
    Ok(Frame { rows, ..around })
}

/// The effect over units at one value of the ladder.
fn tested(given: &Parameters, n: f64, pairs: &[&Pair], (units, at): (&Units, &[usize])) -> Rung {
    let scale = given.scale;
    let effects = pairs.iter().filter_map(|pair| {
        let label = at.iter().map(|k| pair.key[*k].clone()).collect::<Vec<_>>();
        let (a, b) = pair.a[0].zip(pair.b[0])?;
        Some(scale.effect(a, b).map(|effect| (label, effect)))
    });
    let effects: Option<Vec<_>> = effects.collect();
    let effects = effects.map(averaged);
    let side = |value: fn(&Pair) -> Option<f64>| {
        let values = pairs.iter().filter_map(|pair| {
            let label = at.iter().map(|k| pair.key[*k].clone()).collect::<Vec<_>>();
            pair.a[0].zip(pair.b[0])?;
            Some((label, value(pair)?))
        });
        averaged(values)
            .into_iter()
            .map(|(_, v)| v)
            .collect::<Vec<f64>>()
    };
    let doubt = effects.clone().and_then(|effects| {
        let values = effects.iter().map(|(_, v)| *v).collect();
        let sides = vec![side(|pair| pair.a[0]), side(|pair| pair.b[0])];
        let shared = resemblance::shared(&[(values, sides)]).filter(|_| !units.is_none());
        shared.or_else(|| resemblance::doubt_of_effects(units, effects))
    });
    let effects = effects.map(|e| e.into_iter().map(|(_, v)| v).collect::<Vec<f64>>());
    let mean = effects.as_deref().filter(|e| !e.is_empty());
    let valued = pairs
        .iter()
        .filter(|pair| pair.a[0].is_some() && pair.b[0].is_some());
    Rung {
        n,
        mean: mean.map(|e| e.iter().sum::<f64>() / e.len() as f64),
        used: spans(&given.from, valued.flat_map(|pair| pair.rows.concat())),
        effect: match &effects {
            _ if units.is_none() => Err(units.none()),
            None => {
                let values = pairs.iter().filter_map(|pair| pair.a[0].zip(pair.b[0]));
                let values: Vec<f64> = values.flat_map(|(a, b)| [a, b]).collect();
                Err(scale.refusal(&given.column, &values))
            }
            Some(effects) => {
                let values = pairs.iter().filter_map(|pair| {
                    let others = (0..pair.key.len()).filter(|k| !at.contains(k));
                    let coordinate = others.map(|k| pair.key[k].clone()).collect();
                    Some((coordinate, pair.a[0].zip(pair.b[0])?))
                });
                let effect = units.effect(effects, scale.rounding(&by_coordinate(values)));
                match doubt {
                    Some(doubt) => effect.and_then(|effect| doubt.effect(&[effect])),
                    None => effect,
                }
            }
        },
        adjusted: Adjusted::default(),
        worst: None,
    }
}

/// Finds the winners along one ladder.
fn course(
    given: &Parameters,
    rungs: Vec<Rung>,
    missing: Scalar,
    (units, unlike): (&Units, Option<String>),
) -> Course {
    let (a, b) = given.pair.labels();
    let winner = |effect: f64| match (effect > 0.0) == (given.better == Better::Higher) {
        true => a.clone(),
        false => b.clone(),
    };
    let different = |rung: &Rung| {
        let case = Case {
            effect: rung.effect.as_ref().map_err(String::as_str),
            decision: rung.adjusted.decision,
            scale: given.scale,
            margin: None,
            alpha: given.alpha,
            mean: rung.mean,
            unlike: unlike.as_deref(),
            looks: given.looks,
            delta: None,
            least: None,
            leaning: None,
            labels: None,
        };
        // Lost requests may have been slow, and a coarse clock may be off: the winner must also win then.
        let moved = rung.worst.zip(rung.effect.as_ref().ok());
        let worst = moved.map(|(by, effect)| effect.shifted(by));
        let holds = worst.is_none_or(|worst| {
            let level = rung.adjusted.decision.map_or(given.alpha, |d| d.alpha);
            let same = rung.mean.is_some_and(|mean| mean * worst.mean > 0.0);
            same && given.looks.p(&worst) <= level
        });
        case.judge().0 == Verdict::Different && holds
    };
    let won: Vec<(usize, String)> = rungs
        .iter()
        .enumerate()
        .filter(|(_, rung)| different(rung))
        .filter_map(|(i, rung)| Some((i, winner(rung.mean?))))
        .collect();
    let observed: Vec<(f64, String)> = rungs
        .iter()
        .filter_map(|rung| Some((rung.n, winner(rung.mean.filter(|m| *m != 0.0)?))))
        .collect();
    let first_change = observed.windows(2).find(|w| w[0].1 != w[1].1);
    let refused = rungs.iter().find_map(|r| r.effect.as_ref().err().cloned());
    let judged = rungs.iter().any(|r| r.effect.is_ok());
    Course {
        change: won.windows(2).position(|w| w[0].1 != w[1].1).map(|i| i + 1),
        observed: first_change.map(|w| w[1].0),
        undecidable: match units.is_none() {
            true => Some(units.none()),
            false => refused.filter(|_| !judged).or(unlike),
        },
        won,
        rungs,
        missing,
        limits: Vec::new(),
        scale: given.scale,
        looks: given.looks,
    }
}
