//! `distribution`: quantiles of a request's metrics, per cell or pooled over declared axes.

use artifacts::Scalar;
use pipeline::{Failure, Json, Problem, Step};
use rows::{METRICS, Metric, Settings, Timing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::Selection;

use crate::frame::{Frame, Row, Span, Spec, count, number, spans, text};
use crate::intake::Rows;
use crate::operator::{Context, Operator, Plan, Scope, at, parameters};
use crate::operators::cell_summary::{ICL, ITL, per_token};
use crate::operators::cells::{Group, each_group};

pub(crate) struct Distribution;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Parameters {
    /// The load stage, if several are needed.
    #[serde(default)]
    load: Option<String>,
    /// The metrics: `tpot_ms`, `itl_ms` (per token), `icl_ms` (per chunk), or another of a request.
    #[serde(default = "metrics")]
    metrics: Vec<String>,
    /// The probabilities of the quantiles.
    #[serde(default = "quantiles")]
    quantiles: Vec<f64>,
    /// Axes whose cells are pooled, value by value; none: a row per cell.
    #[serde(default)]
    over: Vec<String>,
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
    gaps.or_else(|| rows::metric(name).map(|m| (m.unit, m.definition)))
}

/// Returns "p99_9" for 0.999.
pub(crate) fn quantile_name(p: f64) -> String {
    // Through text: 0.999 · 100 is not 99.9 in binary.
    let percent = format!("{:.6}", p * 100.0);
    let short = percent.trim_end_matches('0').trim_end_matches('.');
    format!("p{}", short.replace('.', "_"))
}

/// Returns what is wrong with the parameter `quantiles`.
pub(crate) fn improbable(settings: &Settings<'_>, quantiles: &[f64]) -> Vec<Problem> {
    let wrong = quantiles
        .iter()
        .enumerate()
        .filter(|(_, p)| !(**p > 0.0 && **p < 1.0));
    let problem = |(i, p)| {
        let place = [Step::Key("quantiles".to_owned()), Step::Index(i)];
        settings.problem(
            &place,
            format!("a probability lies between 0 and 1, got {p}"),
        )
    };
    wrong.map(problem).collect()
}

fn columns(given: &Parameters) -> Vec<Spec> {
    let mut columns = vec![
        Spec::text(
            "level",
            "cell, or marginal or pooled where cells are taken together",
        ),
        Spec::int("n_cells", "1", "cells in the row"),
        Spec::int("n_ok", "1", "measured requests of status ok in the row"),
        Spec::float(
            "tokens_per_chunk",
            "tok",
            "output tokens ÷ chunks with text; null if unknown",
        ),
        Spec::text(
            "missing",
            "cells that should have contributed and did not; null if none",
        ),
    ];
    for name in &given.metrics {
        let Some((unit, what)) = meaning(name) else {
            continue;
        };
        columns.push(Spec::int(
            format!("{name}_n"),
            "1",
            format!("number of defined values of {name}"),
        ));
        let mut add = |end: &str, how: &str| {
            columns.push(Spec::float(
                format!("{name}_{end}"),
                unit,
                format!("{how} of {name}: {what}"),
            ));
        };
        add("mean", "mean");
        add("std", "sample standard deviation (n − 1)");
        add("min", "smallest value");
        for p in &given.quantiles {
            add(&quantile_name(*p), &format!("quantile {p} (type 7)"));
        }
        add("max", "largest value");
        add("jitter", "p99 − mean");
    }
    columns
}

impl Operator for Distribution {
    fn name(&self) -> &'static str {
        "distribution"
    }

    fn summary(&self) -> &'static str {
        "The distribution of TPOT, ITL, ICL or any metric of a request: per cell, or pooled over declared axes."
    }

    fn source(&self) -> &'static str {
        "Exact quantiles of type 7 (Hyndman & Fan 1996) over the values themselves: pooled quantiles are those of all values together, never means of quantiles. ITL is per token and null where a chunk's tokens are unknown; several tools print the gap between chunks under that name, which is ICL here."
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>, _scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let given: Parameters = settings.read()?;
        let known: Vec<&str> = METRICS
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
                    .hint(rows::did_you_mean(name, &known)),
            );
        }
        problems.extend(improbable(settings, &given.quantiles));
        if given.metrics.is_empty() {
            problems.push(settings.problem(&at("metrics"), "no metric is named"));
        }
        if problems.is_empty() {
            Ok(Plan {
                columns: columns(&given),
                parameters: rows::canonical(&given),
            })
        } else {
            Err(problems)
        }
    }

    fn run(&self, given: &Json, context: &Context<'_>) -> Result<Frame, Failure> {
        let given: Parameters = parameters(given)?;
        let load = context.load(given.load.as_deref())?;
        each_group(context, load, &given.over, columns(&given), |group| {
            describe(&given, group)
        })
    }
}

/// What one group of cells comes to: counts, the values of each metric, the rows behind them.
struct Values {
    ok: usize,
    per_chunk: Option<f64>,
    /// One list for each metric; `None` where it is undefined as a whole.
    metrics: Vec<Option<Vec<f64>>>,
    lineage: Vec<Span>,
}

/// Reads the values from whole rows, chunks among them.
fn wide(given: &Parameters, cells: &[&Rows<'_>]) -> Result<Values, Failure> {
    let cells = cells
        .iter()
        .map(|cell| cell.get())
        .collect::<Result<Vec<_>, Failure>>()?;
    let each: Vec<Vec<Timing<'_>>> = cells.iter().map(|cell| rows::timings(cell)).collect();
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
            rows::metric(name).map(|m| ok.iter().filter_map(|t| m.of(t)).collect())
        }
    });
    let metrics = metrics.collect();
    let mut lineage = Vec::new();
    for (cell, timings) in cells.iter().zip(&each) {
        let measured = timings.iter().filter(|t| t.request.is_ok());
        lineage.extend(spans(
            &cell.requests_digest.to_string(),
            measured.clone().map(|t| t.row),
        ));
        if let Some(digest) = cell.chunks_digest {
            let used = measured.flat_map(|t| t.chunk_rows.iter().copied());
            lineage.extend(spans(&digest.to_string(), used));
        }
    }
    let per_chunk = tokens
        .filter(|_| chunks > 0)
        .map(|t| t as f64 / chunks as f64);
    Ok(Values {
        ok: ok.len(),
        per_chunk,
        metrics,
        lineage,
    })
}

/// Reads the values from the columns they need, if all cells allow it: one cell after the other,
/// no row is ever whole. Without chunks there are no gaps, and no tokens per chunk.
fn narrow(given: &Parameters, cells: &[&Rows<'_>]) -> Result<Option<Values>, Failure> {
    let wanted: Vec<Option<&Metric>> = given
        .metrics
        .iter()
        .map(|name| rows::metric(name))
        .collect();
    let known: Vec<&Metric> = wanted.iter().copied().flatten().collect();
    let mut values = Values {
        ok: 0,
        per_chunk: None,
        metrics: Vec::new(),
        lineage: Vec::new(),
    };
    values.metrics.resize(wanted.len(), Some(Vec::new()));
    for cell in cells {
        let Some(cell) = cell.narrow(&known)? else {
            return Ok(None);
        };
        let lists = values.metrics.iter_mut().flatten().zip(&wanted);
        let lists = lists.filter_map(|(list, metric)| metric.map(|_| list));
        for (list, read) in lists.zip(cell.values) {
            // The first is taken as it is: mostly a group is one cell.
            if list.is_empty() {
                *list = read;
            } else {
                list.extend(read);
            }
        }
        let source = cell.requests_digest.to_string();
        values.ok += cell.ok.iter().map(ExactSizeIterator::len).sum::<usize>();
        values
            .lineage
            .extend(cell.ok.iter().map(|rows| Span::of(&source, rows)));
    }
    Ok(Some(values))
}

fn describe(given: &Parameters, group: Group<'_>) -> Result<Row, Failure> {
    let Group {
        key,
        cells,
        missing,
        level,
    } = group;
    let found = match narrow(given, &cells)? {
        Some(found) => found,
        None => wide(given, &cells)?,
    };
    let mut values = vec![
        text(level.word()),
        count(cells.len()),
        count(found.ok),
        number(found.per_chunk),
        missing,
    ];
    // The last is that of the column `jitter`.
    let wanted: Vec<f64> = given.quantiles.iter().copied().chain([0.99]).collect();
    for metric in found.metrics {
        let Some(mut found) = metric.and_then(|values| Selection::new(values).ok()) else {
            // Nothing but the count: mean, std, min, max and jitter, and the quantiles.
            values.push(count(0));
            values.extend(std::iter::repeat_n(Scalar::Null, given.quantiles.len() + 5));
            continue;
        };
        let (mean, std) = found.mean_and_std();
        values.extend([
            count(found.len()),
            number(Some(mean)),
            number(std),
            number(Some(found.min())),
        ]);
        let mut quantiles = found.quantiles(&wanted);
        let p99 = quantiles.pop().unwrap_or(f64::NAN);
        values.extend(quantiles.into_iter().map(|quantile| number(Some(quantile))));
        values.extend([number(Some(found.max())), number(Some(p99 - mean))]);
    }
    Ok(Row {
        key,
        values,
        lineage: found.lineage,
    })
}

#[cfg(test)]
mod tests {
    use super::quantile_name;

    #[test]
    fn a_quantile_is_named_by_its_percent() {
        let names: Vec<String> = [0.5, 0.9, 0.999, 0.9999, 0.025]
            .into_iter()
            .map(quantile_name)
            .collect();
        assert_eq!(names, ["p50", "p90", "p99_9", "p99_99", "p2_5"]);
    }
}
