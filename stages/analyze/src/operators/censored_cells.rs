//! `censored-cells`: a latency over cells, some of which hung or ran out of time.

use artifacts::Scalar;
use pipeline::{CellStatus, Failure, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Sample, kaplan_meier};

use crate::columns::Columns;
use crate::frame::{Absence, Frame, Level, Missing, Spec, missing_text, spans};
use crate::operator::{Context, Draft, TypedOperator};

pub(crate) struct CensoredCells;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The table that holds a latency of each cell.
    from: String,
    /// The latency. For a hung cell, it exceeds the limit.
    column: String,
    /// The axes to combine.
    over: Vec<String>,
    /// The limit that a hung cell exceeded, in the column's unit.
    limit: f64,
}

/// Pooled cells, some of which hung.
struct Cells {
    level: Level,
    observed: usize,
    hung: usize,
    gone: usize,
    median: Option<f64>,
    /// Undefined if there is no cell.
    is_bound: Option<bool>,
    mean_at_least: Option<f64>,
    censored: Scalar,
}

fn columns(spec: &Spec, given: &Parameters) -> Columns<'static, Cells> {
    let (unit, name) = (spec.unit.as_deref().unwrap_or_default(), &spec.name);
    let limit = given.limit;
    let median = format!("median of {name} by Kaplan–Meier; null if half the cells or more hung");
    let mean = format!("mean with {limit} for each hung cell; a lower bound if there is one");
    let censored = "the cells that hung or timed out, with the reason; null if none";
    Columns::new()
        .with(
            Spec::text("level", "marginal, or pooled where no axis is left"),
            |c: &Cells| c.level.word(),
        )
        .with(
            Spec::int("n_observed", "1", format!("cells with a value of {name}")),
            |c| c.observed,
        )
        .with(
            Spec::int(
                "n_censored",
                "1",
                format!("cells that hung or timed out: {name} ≥ {limit}"),
            ),
            |c| c.hung,
        )
        .with(
            Spec::int(
                "n_missing",
                "1",
                "cells missing for another reason; they enter no value here",
            ),
            |c| c.gone,
        )
        .with(Spec::float(format!("{name}_median"), unit, median), |c| {
            c.median
        })
        .with(
            Spec::boolean(
                format!("{name}_median_is_bound"),
                format!("whether the median is unknown and at least {limit}"),
            ),
            |c| c.is_bound,
        )
        .with(
            Spec::float(format!("{name}_mean_at_least"), unit, mean),
            |c| c.mean_at_least,
        )
        .with(Spec::text("censored_cells", censored), |c| {
            c.censored.clone()
        })
}

impl TypedOperator for CensoredCells {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "censored-cells";
    const SUMMARY: &'static str = "A latency combined over cells; hung and timed-out cells count \
        as larger than a limit.";
    const SOURCE: &'static str = "\
        Kaplan & Meier (JASA 53, 1958), with every hung or timed-out cell censored at the limit. `…_mean_at_least` \
        uses the limit itself for these cells. A mean over only the cells that ended is not the mean of the study.";

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let spec = draft.column(&given.from, &given.column)?;
        if !(given.limit > 0.0 && given.limit.is_finite()) {
            return Err(vec![
                draft.problem("limit", "a limit must be a positive number"),
            ]);
        }
        Ok(columns(&spec, given).specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let from = context.table(&given.from)?;
        from.key_positions(&given.over, &given.from)?;
        let columns = columns(&from.declared(&given.column)?, given);
        let keys = from.keys_without(&given.over);
        let level = if keys.is_empty() {
            Level::Pooled
        } else {
            Level::Marginal
        };
        let kept = from.key_positions(&keys, &given.from)?;
        let mut groups = from.groups(&kept);
        // A coordinate at which every cell hung has no row, and is the one to report.
        for missing in &from.missing {
            let place: Option<Vec<Scalar>> = keys.iter().map(|k| missing.get(k).cloned()).collect();
            if let Some(place) = place.filter(|p| !groups.iter().any(|(key, _)| key == p)) {
                groups.push((place, Vec::new()));
            }
        }
        let rows = groups.into_iter().map(|(key, members)| {
            let here: Vec<&Missing> = from.missing_here(&keys, &key).collect();
            let hung: Vec<&Missing> = here
                .iter()
                .copied()
                .filter(|m| {
                    matches!(
                        m.absence,
                        Absence::Ended(CellStatus::Hung | CellStatus::Timeout)
                    )
                })
                .collect();
            let observed: Vec<f64> = members
                .iter()
                .filter_map(|m| from.number(*m, &given.column))
                .collect();
            let bounds = vec![given.limit; hung.len()];
            let curve = kaplan_meier(&observed, &bounds);
            let median = curve.as_ref().and_then(|c| c.quantile(0.5));
            let all = Sample::new(observed.iter().chain(&bounds).copied()).ok();
            let cells = Cells {
                level,
                observed: observed.len(),
                hung: hung.len(),
                gone: here.len() - hung.len(),
                median,
                is_bound: curve.map(|_| median.is_none()),
                mean_at_least: all.map(|s| s.mean()),
                censored: missing_text(hung.into_iter(), &keys),
            };
            columns.row(key, &cells, spans(&given.from, members))
        });
        let rows = rows.collect();
        Ok(Frame {
            level,
            keys,
            specs: columns.specs(),
            rows,
            missing: from.missing.clone(),
        })
    }
}
