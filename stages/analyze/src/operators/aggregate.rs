//! `aggregate`: rows pooled over named axes, and over no others.

use artifacts::Scalar;
use pipeline::{Failure, Problem, Step};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Interval, Sample};

use crate::columns::Columns;
use crate::frame::{Frame, Level, Spec, spans};
use crate::operator::{Context, Draft, TypedOperator, unless};
use crate::operators::alike::{Statistic, cells_behind};
use crate::operators::distribution::quantile_name;
use crate::operators::fairness::{Flattered, Losses, Places};
use crate::operators::units::{LEVEL, Mean, Together, arithmetic_columns};

pub(crate) struct Aggregate;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The table whose rows are combined.
    from: String,
    /// The axes to combine; every other key stays a key.
    over: Vec<String>,
    /// The columns to describe.
    columns: Vec<String>,
    /// The axes whose labels are the units of replication, among `over`; by default `block`, if the
    /// table has it. Values within a unit are averaged before the interval. Without units, intervals are null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unit: Option<Vec<String>>,
    /// The level of the interval of the mean.
    #[serde(default = "confidence")]
    confidence: f64,
    /// Quantiles of each column, as probabilities: 0.5 is the median. The column of 0.5 is `…_p50`, that of 0.999 is
    /// `…_p99_9`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    quantiles: Vec<f64>,
}

fn confidence() -> f64 {
    LEVEL
}

/// The table of cells behind a column, its column there, and its rows by the keys of the result.
type Behind<'a> = (&'a (&'a Frame, String), &'a Places);

/// Pooled rows: what each stands for, how many, what is missing, the values of each column.
struct Group {
    level: Level,
    n: usize,
    missing: Scalar,
    samples: Vec<Option<(Sample, Mean)>>,
    /// The number of units.
    units: usize,
    /// The units of the interval, or why there is none.
    interval_of: String,
}

fn columns(specs: &[Spec], given: &Parameters) -> Columns<'static, Group> {
    let over = given.over.join(", ");
    let mut columns = Columns::new()
        .with(
            Spec::text(
                "level",
                "what a row of this table represents: row, cell, marginal or pooled",
            ),
            |g: &Group| g.level.word(),
        )
        .with(
            Spec::int("n", "1", format!("rows combined over {over}")),
            |g| g.n,
        )
        .with(
            Spec::text(
                "missing",
                "missing cells that should have contributed, with the reason; null if none",
            ),
            |g| g.missing.clone(),
        )
        .with(
            Spec::int("units", "1", "units of replication in the row"),
            |g| g.units,
        )
        .with(
            Spec::text(
                "interval_of",
                "the units that the intervals are over, or why there are none",
            ),
            |g| g.interval_of.clone(),
        );
    for (i, spec) in specs.iter().enumerate() {
        columns = pooled_columns(columns, (i, spec), given);
    }
    columns
}

/// Adds the figures of one column, the one with the number `i`.
fn pooled_columns(
    columns: Columns<'static, Group>,
    (i, spec): (usize, &Spec),
    given: &Parameters,
) -> Columns<'static, Group> {
    let over = given.over.join(", ");
    let name = &spec.name;
    let unit = spec.unit.as_deref().unwrap_or_default();
    let what = format!("of {name} over {over} ({})", spec.description);
    let pooled = |spec: Spec, how| spec.pooling(&given.from, name, how);
    let like = |end: &str, how: String, statistic| {
        let spec = spec.like(format!("{name}_{end}"), format!("{how} {what}"));
        pooled(spec, Some(statistic))
    };
    let statistic = move |g: &Group, read: fn(&Sample) -> Option<f64>| {
        g.samples[i].as_ref().and_then(|(sample, _)| read(sample))
    };
    let mut columns = columns
        .with(
            pooled(
                Spec::int(
                    format!("{name}_n"),
                    "1",
                    format!("number of defined values {what}"),
                ),
                Some(Statistic::Count),
            ),
            move |g| g.samples[i].as_ref().map_or(0, |(sample, _)| sample.len()),
        )
        .with(
            like("mean", "mean".to_owned(), Statistic::Mean).at_level(given.confidence),
            move |g| statistic(g, |s| Some(s.mean())),
        )
        .with(
            pooled(
                Spec::float(
                    format!("{name}_std"),
                    unit,
                    format!("sample standard deviation (n − 1), null for one value, {what}"),
                ),
                Some(Statistic::Std),
            ),
            move |g| statistic(g, Sample::std),
        )
        .with(
            like("min", "smallest value".to_owned(), Statistic::Min),
            move |g| statistic(g, |s| Some(s.min())),
        )
        .with(
            like("max", "largest value".to_owned(), Statistic::Max),
            move |g| statistic(g, |s| Some(s.max())),
        );
    for quantile in given.quantiles.iter().copied() {
        let how = match quantile {
            0.5 => "median".to_owned(),
            _ => format!("{quantile} quantile (type 7 of Hyndman & Fan)"),
        };
        let spec = like(&quantile_name(quantile), how, Statistic::Quantile(quantile));
        columns = columns.with(spec, move |g: &Group| {
            let (sample, _) = g.samples[i].as_ref()?;
            Some(sample.quantile(quantile))
        });
    }
    arithmetic_columns(
        columns,
        spec,
        (
            &format!("{name}_ci"),
            &format!("the mean {what}"),
            given.confidence,
        ),
        move |g: &Group| g.samples[i].as_ref().map(|(_, mean)| mean),
    )
    .with(
        pooled(
            Spec::float(format!("{name}_cv"), "1", format!("std ÷ mean {what}")),
            Some(Statistic::Cv),
        ),
        move |g| statistic(g, Sample::cv),
    )
}

impl TypedOperator for Aggregate {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "aggregate";
    const SUMMARY: &'static str = "Rows combined over named axes: n, mean, std, min, max, \
        quantiles, interval over units and CV of named columns.";
    const SOURCE: &'static str = "\
        Mean, standard deviation and extremes are over the rows.\n\n\
        The interval is that of the mean over units of replication, by Student's t with units − 1 degrees of freedom. \
        Repetitions within one launch are not units: their spread does not show how another launch would differ.\n\n\
        If all units' means are above 0, the interval is computed for the logarithm of the mean, so it never reaches \
        0. For columns that may be negative, such as differences and the results of queries, this applies only if the \
        means are well above 0. The interval of a share ends at 1. If units have different numbers of rows, the mean \
        over the rows can lie outside of the interval, which is then null.\n\n\
        If more than a tenth of the cells behind a row gave no result, the others may flatter the mean. The end of the \
        interval in its favour is then null, as for [lost cells](verdict-rules.md#lost-cells): the lower end of a throughput, \
        the upper end of a time, and both if it is not known which values are better.";

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let specs = draft.columns(&given.from, &given.columns)?;
        let mut problems = draft.shares(&[("confidence", given.confidence)]);
        if given.over.is_empty() {
            let problem = draft.problem("over", "nothing to combine");
            problems.push(problem.hint("name the axes, for example `over: [rep]`"));
        }
        for (i, quantile) in given.quantiles.iter().enumerate() {
            let route = [Step::Key("quantiles".to_owned()), Step::Index(i)];
            if !(0.0..=1.0).contains(quantile) {
                let message = format!("a quantile is a share between 0 and 1, got {quantile}");
                let problem = draft.settings.problem(&route, message);
                problems.push(match pipeline::suggest::share(*quantile) {
                    Some(hint) => problem.hint(hint),
                    None => problem,
                });
            } else if given.quantiles[..i].contains(quantile) {
                let message = format!("the quantile {quantile} is named twice");
                problems.push(draft.settings.problem(&route, message));
            }
        }
        unless(problems, || columns(&specs, given).specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let from = context.table(&given.from)?;
        let together = Together::new(from, &given.from, &given.over, given.unit.as_deref())?;
        let keys = &together.keys;
        let specs = from.all_declared(&given.columns)?;
        let columns = columns(&specs, given);
        let level = match from.level {
            Level::Row => Level::Row,
            _ if keys.is_empty() => Level::Pooled,
            _ => Level::Marginal,
        };
        let units = &together.units;
        let cells = given.columns.iter();
        let cells = cells.map(|column| cells_behind(context, &given.from, column));
        let cells: Vec<(&Frame, String)> = cells.collect::<Result<_, _>>()?;
        let places = cells.iter().map(|(frame, _)| Losses::places(frame, keys));
        let places: Vec<Places> = places.collect();
        let mut rows = Vec::new();
        for (key, members) in &together.groups {
            let mut outside: Vec<String> = Vec::new();
            let mut sample =
                |((column, spec), ((cells, name), places)): ((&String, &Spec), Behind<'_>)| {
                    let range = spec.range;
                    let value = |row: usize| from.number(row, column);
                    let sample = Sample::new(members.iter().filter_map(|m| value(*m))).ok()?;
                    let mean = together.mean(from, members, (given.confidence, range), value)?;
                    let mut mean = mean.of_arithmetic();
                    // The mean over all rows is not that over units if the units have unlike numbers of rows.
                    let arithmetic = sample.mean();
                    let holds = |i: &Interval| i.low <= arithmetic && arithmetic <= i.high;
                    if mean.interval.as_ref().is_ok_and(|i| !holds(i)) {
                        let reason = format!("the mean of {column} lies outside it");
                        mean.interval = Err(reason.clone());
                        outside.push(reason);
                    }
                    let losses = Losses::of_one((cells, places), (keys, key), (name, units));
                    if let Some(side) = losses.flattered() {
                        let findings = Flattered::side(side, column, spec.unit.as_deref());
                        mean.withhold(findings, &losses.words_of_one());
                    }
                    Some((sample, mean))
                };
            let columns_of = given
                .columns
                .iter()
                .zip(&specs)
                .zip(cells.iter().zip(&places));
            let samples: Vec<Option<(Sample, Mean)>> = columns_of.map(&mut sample).collect();
            let interval_of = units.words().unwrap_or_else(|| units.none());
            let group = Group {
                level,
                n: members.len(),
                missing: from.missing_at(keys, key),
                samples,
                units: together.count(from, members),
                interval_of: match outside.is_empty() {
                    true => interval_of,
                    false => format!("{interval_of}; {}", outside.join("; ")),
                },
            };
            let lineage = spans(&given.from, members.iter().copied());
            rows.push(columns.row(key.clone(), &group, lineage));
        }
        Ok(Frame {
            level,
            keys: keys.clone(),
            specs: columns.specs(),
            rows,
            missing: from.missing.clone(),
        })
    }
}
