//! `distribution`: quantiles of a request's metrics, per cell or pooled over declared axes.

use std::collections::BTreeMap;

use artifacts::Scalar;
use contract::{IntervalEnd, METRICS, Metric, NotReplicated, Settings, Timing};
use pipeline::suggest::remedy;
use pipeline::{Failure, Problem, Step};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Interval, Selection, launch_quantile, quantiles_of_launches, shares_at_quantile};

use crate::columns::{Columns, missing_spec};
use crate::frame::{Frame, Level, Row, SourceRows, Spec, spans};
use crate::intake::Rows;
use crate::operator::{Context, Draft, Reads, TypedOperator, unless};
use crate::operators::cell_summary::{ICL, ITL, Printed, per_token};
use crate::operators::cells::{Group, each_group};
use crate::operators::resemblance::{doubt_of_effects, groupings, nested};
use crate::operators::units::{BLOCK, LEVEL, NO_VALUE, Units, WHY};

pub(crate) struct Distribution;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The load stage to read, if the stage needs several.
    #[serde(default)]
    load: Option<String>,
    /// The metrics: `tpot_ms`, `itl_ms` (per token), `icl_ms` (per chunk), or another of a request.
    #[serde(default = "metrics")]
    metrics: Vec<String>,
    /// The probabilities of the quantiles, each between 0 and 1: 0.5 is the median.
    #[serde(default = "quantiles")]
    quantiles: Vec<f64>,
    /// The quantiles to print. `supported` prints a quantile only if there are enough values to bound it on both sides;
    /// `all` prints all.
    #[serde(default)]
    print: Printed,
    /// Axes whose cells are pooled into one row, value by value. By default, each cell has its own row.
    #[serde(default)]
    over: Vec<String>,
    /// The axes whose labels are the units of replication, among `over`; by default `block`, if it
    /// is in `over`. Pooled quantiles have intervals over units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unit: Option<Vec<String>>,
}

impl Parameters {
    /// Returns the unit axes.
    ///
    /// # Errors
    /// If a declared unit axis is not among `over`.
    fn units(&self) -> Result<Vec<String>, Failure> {
        let Some(declared) = &self.unit else {
            let blocks = self.over.iter().filter(|axis| *axis == BLOCK);
            return Ok(blocks.cloned().collect());
        };
        match declared.iter().find(|axis| !self.over.contains(axis)) {
            None => Ok(declared.clone()),
            Some(axis) => Err(Failure::failed(format!(
                "the unit `{axis}` is not in `over`, so each row would have a single unit"
            ))
            .hint(remedy(axis, "axes in `over`", &self.over))),
        }
    }
}

/// Explains why cells pooled without units have no interval.
fn no_units() -> String {
    let reason = format!("`over` has no `{BLOCK}`, and no `unit` is declared");
    NotReplicated::Launches.because(reason)
}

fn metrics() -> Vec<String> {
    ["tpot_ms", "itl_ms", "icl_ms"].map(str::to_owned).to_vec()
}

fn quantiles() -> Vec<f64> {
    vec![0.5, 0.9, 0.95, 0.99, 0.999]
}

/// Unit and definition of a metric.
fn meaning(name: &str) -> Option<(&'static str, &'static str)> {
    let gaps = [ICL, ITL]
        .into_iter()
        .find(|(n, _, _)| *n == name)
        .map(|(_, unit, what)| (unit, what));
    gaps.or_else(|| contract::metric(name).map(|m| (m.unit, m.definition)))
}

/// Returns "p99_9" for 0.999.
pub(crate) fn quantile_name(p: f64) -> String {
    // Goes through text, because 0.999 · 100 is not 99.9 in binary.
    let percent = format!("{:.6}", p * 100.0);
    let short = percent.trim_end_matches('0').trim_end_matches('.');
    format!("p{}", short.replace('.', "_"))
}

/// Reports what is wrong with the parameter `quantiles`.
pub(crate) fn improbable(settings: &Settings<'_>, quantiles: &[f64]) -> Vec<Problem> {
    let wrong = quantiles
        .iter()
        .enumerate()
        .filter(|(_, p)| !(**p > 0.0 && **p < 1.0));
    let problem = |(i, p)| {
        let place = [Step::Key("quantiles".to_owned()), Step::Index(i)];
        settings.problem(
            &place,
            format!("a probability must be between 0 and 1, got {p}"),
        )
    };
    wrong.map(problem).collect()
}

/// Pooled cells.
struct Described {
    level: Level,
    cells: usize,
    ok: usize,
    per_chunk: Option<f64>,
    missing: Scalar,
    /// In the order of the metrics; `None` where one is undefined.
    metrics: Vec<Option<Spread>>,
}

fn columns(given: &Parameters) -> Columns<'static, Described> {
    let level = "cell, or marginal or pooled if cells are combined";
    let per_chunk = "output tokens ÷ chunks with text; null if unknown";
    let weighted = match given.units().is_ok_and(|units| !units.is_empty()) {
        true => " with equal weight for each unit",
        false => "",
    };
    let mut columns = Columns::new()
        .with(Spec::text("level", level), |d: &Described| d.level.word())
        .with(Spec::int("n_cells", "1", "cells in the row"), |d| d.cells)
        .with(
            Spec::int("n_ok", "1", "measured requests of status ok in the row"),
            |d| d.ok,
        )
        .with(Spec::float("tokens_per_chunk", "tok", per_chunk), |d| {
            d.per_chunk
        })
        .with(missing_spec(), |d| d.missing.clone());
    for (i, name) in given.metrics.iter().enumerate() {
        let Some((unit, what)) = meaning(name) else {
            continue;
        };
        let spec = |end: &str, how: &str| {
            Spec::float(
                format!("{name}_{end}"),
                unit,
                format!("{how} of {name}: {what}"),
            )
        };
        let statistic = move |d: &Described, read: fn(&Spread) -> Option<f64>| {
            d.metrics[i].as_ref().and_then(read)
        };
        columns.push(
            Spec::int(
                format!("{name}_n"),
                "1",
                format!("number of defined values of {name}"),
            ),
            move |d| d.metrics[i].as_ref().map_or(0, |m| m.n),
        );
        columns.push(spec("mean", "mean"), move |d| {
            statistic(d, |s| Some(s.mean))
        });
        columns.push(
            spec("std", "sample standard deviation (n − 1)"),
            move |d| statistic(d, |s| s.std),
        );
        columns.push(spec("min", "smallest value"), move |d| {
            statistic(d, |s| Some(s.min))
        });
        for (q, p) in given.quantiles.iter().enumerate() {
            let spec = spec(
                &quantile_name(*p),
                &format!(
                    "quantile {p} (type 7){weighted}, null where so few values cannot bound it,"
                ),
            );
            let quantile = move |d: &Described| d.metrics[i].as_ref().and_then(|m| m.quantiles[q]);
            if given.over.is_empty() {
                columns.push(spec, quantile);
                continue;
            }
            columns.push(spec.at_level(LEVEL), quantile);
            let end = |which: IntervalEnd, word: &str| {
                let what = which.of(format!(
                    "the {LEVEL} interval over units of quantile {p} of {name}; null without five units, each with values \
                     enough to bound the quantile"
                ));
                Spec::float(format!("{name}_{}_{word}", quantile_name(*p)), unit, what)
            };
            let interval = move |d: &Described| {
                let none = || Err(NO_VALUE.to_owned());
                let metric = d.metrics[i].as_ref();
                metric.map_or_else(none, |m| m.intervals[q].clone())
            };
            columns.push(end(IntervalEnd::Lower, "low"), move |d| {
                Some(interval(d).ok()?.low)
            });
            columns.push(end(IntervalEnd::Upper, "high"), move |d| {
                Some(interval(d).ok()?.high)
            });
            let why = format!("{name}_{}_why", quantile_name(*p));
            columns.push(Spec::text(why, WHY), move |d| interval(d).err());
        }
        columns.push(spec("max", "largest value"), move |d| {
            statistic(d, |s| Some(s.max))
        });
        columns.push(spec("jitter", "p99 − mean"), move |d| {
            statistic(d, |s| Some(s.p99? - s.mean))
        });
    }
    columns
}

/// The values of one metric.
struct Spread {
    n: usize,
    mean: f64,
    std: Option<f64>,
    min: f64,
    /// In the order of the probabilities.
    quantiles: Vec<Option<f64>>,
    /// The intervals over units, in the same order.
    intervals: Vec<Result<Interval, String>>,
    max: f64,
    p99: Option<f64>,
}

impl Spread {
    /// Takes the values of each unit. Without units, pools all values.
    fn new(
        mut units: Vec<Vec<f64>>,
        quantiles: &[f64],
        printed: Printed,
        labels: &Labels<'_>,
    ) -> Option<Self> {
        let interval = |p: &f64| match &labels.refusal {
            Some(refusal) => Err(refusal.clone()),
            None => match launch_quantile(&units, *p, LEVEL) {
                Ok(quantile) => labels.doubt(&units, *p).map_or(Ok(quantile.interval), Err),
                Err(refusal) => Err(refusal.to_string()),
            },
        };
        let intervals: Vec<Result<Interval, String>> = quantiles.iter().map(interval).collect();
        let wanted: Vec<f64> = quantiles.iter().copied().chain([0.99]).collect();
        // A unit with more requests counts no more than the others, as in the interval. With equal numbers, the quantiles
        // are those of all values.
        let unlike = !labels.axes.is_empty() && units.iter().any(|u| u.len() != units[0].len());
        let weighted = unlike.then(|| quantiles_of_launches(&units, &wanted));
        let all = match units.len() {
            1 => units.remove(0),
            _ => units.concat(),
        };
        let mut values = Selection::new(all).ok()?;
        let (mean, std) = values.mean_and_std();
        let all = weighted.unwrap_or_else(|| values.quantiles(&wanted));
        // Interpolation can leave the interval, whose ends are values, by a part of one step.
        let around = |(interval, value): (Result<Interval, String>, &f64)| {
            interval.map(|Interval { low, high }| Interval {
                low: low.min(*value),
                high: high.max(*value),
            })
        };
        let intervals = intervals.into_iter().zip(&all).map(around).collect();
        let all = all.into_iter().zip(&wanted);
        let n = values.len();
        let printed = |(value, p): (f64, &f64)| printed.prints(n, *p).then_some(value);
        let mut quantiles: Vec<Option<f64>> = all.map(printed).collect();
        quantiles.pop();
        // The jitter compares it with the mean, which is over the values.
        let p99 = printed((values.quantiles(&[0.99])[0], &0.99));
        Some(Self {
            n,
            mean,
            std,
            min: values.min(),
            quantiles,
            intervals,
            max: values.max(),
            p99,
        })
    }
}

impl TypedOperator for Distribution {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "distribution";
    const SUMMARY: &'static str = "The distribution of TPOT, ITL, ICL or any metric of a request: per cell, or pooled over declared axes.";
    const SOURCE: &'static str = "\
        Quantiles are exact, of type 7 (Hyndman & Fan 1996). A pooled quantile is computed from all values together; \
        quantiles are never averaged. With units, each unit has the same weight in a quantile, whatever its number of \
        values. Mean, standard deviation and extremes are over the values.\n\n\
        ITL is the gap per token; it is null if a chunk's tokens are unknown. Several tools print the gap between \
        chunks as ITL. Here, that gap is ICL.\n\n\
        The interval of a pooled quantile treats units as clusters, because only units are independent (Woodruff, \
        JASA 47, 1952). The units' shares of values up to the estimate have a t interval, and the quantiles at its \
        ends bound the quantile. The operator withholds the interval in three cases: the units differ so much that it \
        reaches 0 or 1, the units lie within another pooled axis (launches within days), or the units' shares \
        resemble each other.";
    const READS: Reads = Reads::Verified;

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let settings = draft.settings;
        let names: Vec<&str> = METRICS
            .iter()
            .map(|m| m.name)
            .chain([ICL.0, ITL.0])
            .collect();
        let mut problems = Vec::new();
        for (i, name) in given
            .metrics
            .iter()
            .enumerate()
            .filter(|(_, name)| meaning(name).is_none())
        {
            let message = format!("a request has no metric `{name}`");
            problems.push(
                settings
                    .problem(&[Step::Key("metrics".to_owned()), Step::Index(i)], message)
                    .hint(remedy(name, "metrics", &names)),
            );
        }
        problems.extend(improbable(settings, &given.quantiles));
        if given.metrics.is_empty() {
            problems.push(draft.problem("metrics", "no metric is named"));
        }
        unless(problems, || columns(given).specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let load = context.load(given.load.as_deref())?;
        let columns = columns(given);
        let units = given.units()?;
        each_group(context, load, &given.over, columns.specs(), |group| {
            describe(given, group, &units, &columns)
        })
    }
}

/// The data of one unit's cells: counts, the values of each metric, the rows behind them.
struct Values {
    ok: usize,
    chunks: usize,
    /// The output tokens of all requests; `None` if the count of any one is unknown.
    tokens: Option<i64>,
    /// One list per metric; `None` where the metric is undefined for the whole unit.
    metrics: Vec<Option<Vec<f64>>>,
    lineage: Vec<SourceRows>,
}

/// Reads the values from complete rows, including chunks.
fn wide(given: &Parameters, cells: &[&Rows<'_>]) -> Result<Values, Failure> {
    let cells = cells
        .iter()
        .map(|cell| cell.get())
        .collect::<Result<Vec<_>, Failure>>()?;
    let each: Vec<Vec<Timing<'_>>> = cells.iter().map(|cell| contract::timings(cell)).collect();
    let ok: Vec<&Timing<'_>> = each
        .iter()
        .flatten()
        .filter(|t| t.request.is_ok())
        .collect();
    let chunks: usize = ok.iter().map(|t| t.gaps.chunks).sum();
    let tokens: Option<i64> = ok.iter().map(|t| t.request.output_tokens).sum();
    let metrics = given.metrics.iter().map(|name| {
        if *name == ICL.0 {
            Some(
                ok.iter()
                    .flat_map(|t| t.gaps.gaps.iter().map(|(gap, _)| *gap))
                    .collect(),
            )
        } else if *name == ITL.0 {
            per_token(&ok)
        } else {
            contract::metric(name).map(|m| ok.iter().filter_map(|t| m.of(t)).collect())
        }
    });
    let metrics = metrics.collect();
    let mut lineage = Vec::new();
    for (cell, timings) in cells.iter().zip(&each) {
        let measured = timings.iter().filter(|t| t.request.is_ok());
        lineage.extend(spans(
            cell.requests_source(),
            measured.clone().map(|t| t.row),
        ));
        if let Some(chunks) = cell.chunks_source() {
            let used = measured.flat_map(|t| t.chunk_rows.iter().copied());
            lineage.extend(spans(chunks, used));
        }
    }
    Ok(Values {
        ok: ok.len(),
        chunks,
        tokens,
        metrics,
        lineage,
    })
}

/// Reads the values from only the columns they need, if all cells allow it. Goes cell by cell, and never holds a
/// complete row. Without chunks there are no gaps and no tokens per chunk.
fn narrow(given: &Parameters, cells: &[&Rows<'_>]) -> Result<Option<Values>, Failure> {
    let wanted: Vec<Option<&Metric>> = given
        .metrics
        .iter()
        .map(|name| contract::metric(name))
        .collect();
    let metrics: Vec<&Metric> = wanted.iter().copied().flatten().collect();
    let mut values = Values {
        ok: 0,
        chunks: 0,
        tokens: None,
        metrics: Vec::new(),
        lineage: Vec::new(),
    };
    values.metrics.resize(wanted.len(), Some(Vec::new()));
    for cell in cells {
        let Some(cell) = cell.narrow(&metrics)? else {
            return Ok(None);
        };
        let lists = values.metrics.iter_mut().flatten().zip(&wanted);
        let lists = lists.filter_map(|(list, metric)| metric.map(|_| list));
        for (list, read) in lists.zip(cell.values) {
            // The first list is taken as it is, since most groups are a single cell.
            if list.is_empty() {
                *list = read;
            } else {
                list.extend(read);
            }
        }
        let source = cell.requests_source;
        values.ok += cell.ok.iter().map(ExactSizeIterator::len).sum::<usize>();
        values
            .lineage
            .extend(cell.ok.iter().map(|rows| SourceRows::of(&source, rows)));
    }
    Ok(Some(values))
}

/// The units of pooled cells.
struct Labels<'a> {
    axes: &'a [String],
    /// The label of each unit.
    units: Vec<Vec<Scalar>>,
    /// Why no quantile has an interval.
    refusal: Option<String>,
}

impl<'a> Labels<'a> {
    /// Returns the labels with the cells of each unit, in order of the units; all cells together without units.
    fn of<'b>(
        cells: &[&'b Rows<'b>],
        axes: &'a [String],
        over: &[String],
    ) -> (Self, Vec<Vec<&'b Rows<'b>>>) {
        let at = |cell: &Rows<'_>, axes: &[String]| -> Vec<Scalar> {
            let label = |axis: &String| cell.coordinates().get(axis).cloned();
            axes.iter()
                .map(|axis| label(axis).unwrap_or(Scalar::Null))
                .collect()
        };
        let others = over.iter().filter(|axis| !axes.contains(axis));
        let others: Vec<String> = others.cloned().collect();
        let rows = cells.iter().map(|cell| (at(cell, axes), at(cell, &others)));
        let around = groupings(&others, &rows.collect::<Vec<_>>());
        let mut all: BTreeMap<Vec<String>, (Vec<Scalar>, Vec<&Rows<'_>>)> = BTreeMap::new();
        for cell in cells {
            let label = at(cell, axes);
            let name = label.iter().map(ToString::to_string).collect();
            let unit = all.entry(name).or_insert_with(|| (label, Vec::new()));
            unit.1.push(cell);
        }
        let (units, cells) = all.into_values().unzip();
        let refusal = match axes.is_empty() {
            true => Some(no_units()),
            false => nested(&around),
        };
        (
            Self {
                axes,
                units,
                refusal,
            },
            cells,
        )
    }

    /// Explains why the units of a quantile are not independent, as far as their shares of values up to it show.
    fn doubt(&self, values: &[Vec<f64>], p: f64) -> Option<String> {
        let labelled = self.units.iter().cloned();
        let labelled = labelled.zip(shares_at_quantile(values, p));
        let doubt = doubt_of_effects(&Units::of_cells(self.axes), labelled)?;
        Some(doubt.refusal())
    }
}

fn describe(
    given: &Parameters,
    group: Group<'_>,
    units: &[String],
    columns: &Columns<'_, Described>,
) -> Result<Row, Failure> {
    let Group {
        key,
        cells,
        missing,
        level,
        ..
    } = group;
    let read = |cells: Vec<&Rows<'_>>| match narrow(given, &cells)? {
        Some(interval) => Ok(interval),
        None => wide(given, &cells),
    };
    let (labels, by_unit) = Labels::of(&cells, units, &given.over);
    let per_unit = by_unit.into_iter().map(read);
    let mut per_unit = per_unit.collect::<Result<Vec<Values>, Failure>>()?;
    let chunks: usize = per_unit.iter().map(|f| f.chunks).sum();
    let tokens: Option<i64> = per_unit.iter().map(|f| f.tokens).sum();
    let mut spread = |metric: usize| {
        let values = per_unit.iter_mut().map(|f| f.metrics[metric].take());
        let values: Option<Vec<Vec<f64>>> = values.collect();
        Spread::new(values?, &given.quantiles, given.print, &labels)
    };
    let metrics = (0..given.metrics.len()).map(&mut spread).collect();
    let described = Described {
        level,
        cells: cells.len(),
        ok: per_unit.iter().map(|f| f.ok).sum(),
        per_chunk: tokens
            .filter(|_| chunks > 0)
            .map(|t| t as f64 / chunks as f64),
        missing,
        metrics,
    };
    let lineage = per_unit.into_iter().flat_map(|f| f.lineage).collect();
    Ok(columns.row(key, &described, lineage))
}

#[cfg(test)]
mod tests {
    use statistics::Noise;

    use super::*;

    /// The spread of units with these numbers of values: a launch differs by `spread`, and the last by `last` more.
    fn spread(
        noise: &mut Noise,
        counts: &[usize],
        (spread, last): (f64, f64),
    ) -> (Spread, Vec<Vec<f64>>) {
        let axes = [BLOCK.to_owned()];
        let unit = |(at, count): (usize, &usize)| {
            let own = if at + 1 == counts.len() { last } else { 0.0 };
            let launch = own + spread * noise.normal();
            (0..*count)
                .map(|_| (launch + 0.02 * noise.normal()).exp() * 100.0)
                .collect()
        };
        let units: Vec<Vec<f64>> = counts.iter().enumerate().map(unit).collect();
        let labels = Labels {
            axes: &axes,
            units: (0..counts.len())
                .map(|at| vec![Scalar::Int(at as i64)])
                .collect(),
            refusal: None,
        };
        Spread::new(units.clone(), &[0.5], Printed::default(), &labels)
            .map(|spread| (spread, units))
            .unwrap()
    }

    #[test]
    fn a_pooled_quantile_lies_within_its_interval_however_many_values_a_unit_has() {
        // A launch with thirty times the values and 4 % more. Weighted by requests, the median lies outside of the interval.
        let counts = [100, 100, 100, 100, 100, 3_000];
        let mut noise = Noise(3);
        for _ in 0..50 {
            let (spread, units) = spread(&mut noise, &counts, (0.0, 0.04));
            let median = spread.quantiles[0].unwrap();
            assert!((99.0..102.5).contains(&median), "{median}");
            // The printed interval includes the value in any case. That of the launches lies apart by a step at most.
            let Ok(quantile) = launch_quantile(&units, 0.5, LEVEL) else {
                continue;
            };
            let interval = quantile.interval;
            assert!(
                interval.low <= median * 1.001 && median <= interval.high * 1.001,
                "{median} {interval:?}"
            );
        }
    }

    #[test]
    fn the_interval_of_a_pooled_quantile_covers_that_of_launches_with_unlike_numbers_of_values() {
        let (studies, counts) = (300, [60, 100, 100, 100, 200, 400, 600, 3_000]);
        let mut noise = Noise(17);
        let (mut given, mut covers) = (0, 0);
        for _ in 0..studies {
            let (spread, _) = spread(&mut noise, &counts, (0.03, 0.0));
            if let Ok(interval) = &spread.intervals[0] {
                given += 1;
                covers += i32::from(interval.low <= 100.0 && 100.0 <= interval.high);
            }
        }
        let share = f64::from(covers) / f64::from(given);
        assert!(given > studies * 8 / 10, "{given}");
        assert!(share >= 0.91, "{covers} of {given}");
    }

    #[test]
    fn a_quantile_is_named_by_its_percent() {
        let names: Vec<String> = [0.5, 0.9, 0.999, 0.9999, 0.025]
            .into_iter()
            .map(quantile_name)
            .collect();
        assert_eq!(names, ["p50", "p90", "p99_9", "p99_99", "p2_5"]);
    }
}
