//! `censored-cells`: a latency over cells of which some hung or ran out of time.

use artifacts::Scalar;
use pipeline::{Failure, Json, Problem};
use rows::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Sample, kaplan_meier};

use crate::frame::{Frame, Level, Missing, Row, Spec, count, number, spans, text};
use crate::operator::{Context, Operator, Plan, Scope, at, parameters};

pub(crate) struct CensoredCells;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Parameters {
    /// The table that holds a latency of each cell.
    from: String,
    /// The latency: of a cell that hung it is known to exceed the limit.
    column: String,
    /// The axes taken together.
    over: Vec<String>,
    /// The limit a hung cell exceeded, in the column's unit.
    limit: f64,
}

fn columns(of: &Spec, given: &Parameters) -> Vec<Spec> {
    let (unit, name, limit) = (
        of.unit.as_deref().unwrap_or_default(),
        &of.name,
        given.limit,
    );
    vec![
        Spec::text("level", "marginal, or pooled where no axis is left"),
        Spec::int("n_observed", "1", format!("cells with a value of {name}")),
        Spec::int(
            "n_censored",
            "1",
            format!("cells that hung or timed out: {name} ≥ {limit}"),
        ),
        Spec::int(
            "n_missing",
            "1",
            "cells missing for another reason: in no value here",
        ),
        Spec::float(
            format!("{name}_median"),
            unit,
            format!("median of {name} by Kaplan–Meier; null if half the cells or more hung"),
        ),
        Spec::boolean(
            format!("{name}_median_is_bound"),
            format!("whether the median is unknown and at least {limit}"),
        ),
        Spec::float(
            format!("{name}_mean_at_least"),
            unit,
            format!("mean with {limit} for each cell that hung: a lower bound if any did"),
        ),
        Spec::text(
            "censored_cells",
            "the cells that hung or timed out, with the reason; null if none",
        ),
    ]
}

impl Operator for CensoredCells {
    fn name(&self) -> &'static str {
        "censored-cells"
    }

    fn summary(&self) -> &'static str {
        "A latency taken together over cells in which hung and timed-out cells count as larger than a limit."
    }

    fn source(&self) -> &'static str {
        "Kaplan & Meier (JASA 53, 1958) with every hung or timed-out cell censored at the limit; `…_mean_at_least` is the \"≥ limit\" convention. A mean over the cells that ended is not the mean of the study."
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>, scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let given: Parameters = settings.read()?;
        let wanted = [(at("column"), given.column.as_str())];
        let found = scope.numbers(settings, (&at("from"), &given.from), &wanted)?;
        if !(given.limit > 0.0 && given.limit.is_finite()) {
            return Err(vec![
                settings.problem(&at("limit"), "a limit is a positive number"),
            ]);
        }
        Ok(Plan {
            columns: columns(&found[0], &given),
            parameters: rows::canonical(&given),
        })
    }

    fn run(&self, given: &Json, context: &Context<'_>) -> Result<Frame, Failure> {
        let given: Parameters = parameters(given)?;
        let from = context.table(&given.from)?;
        from.key_positions(&given.over, &given.from)?;
        let spec = from
            .spec(&given.column)
            .cloned()
            .ok_or_else(|| Failure::failed("the column is gone"))?;
        let keys: Vec<String> = from
            .keys
            .iter()
            .filter(|k| !given.over.contains(k))
            .cloned()
            .collect();
        let level = if keys.is_empty() {
            Level::Pooled
        } else {
            Level::Marginal
        };
        let kept = from.key_positions(&keys, &given.from)?;
        let mut groups = from.groups(&kept);
        // A coordinate at which every cell hung has no row, and is the one to be told of.
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
                .filter(|m| ["hung", "timeout"].iter().any(|w| m.why.starts_with(w)))
                .collect();
            let observed: Vec<f64> = members
                .iter()
                .filter_map(|m| from.number(*m, &given.column))
                .collect();
            let bounds = vec![given.limit; hung.len()];
            let curve = kaplan_meier(&observed, &bounds);
            let median = curve.as_ref().and_then(|c| c.quantile(0.5));
            let all = Sample::new(observed.iter().chain(&bounds).copied()).ok();
            let values = vec![
                text(level.word()),
                count(observed.len()),
                count(hung.len()),
                count(here.len() - hung.len()),
                number(median),
                curve.map_or(Scalar::Null, |_| Scalar::Bool(median.is_none())),
                number(all.map(|s| s.mean())),
                crate::frame::missing_text(hung.into_iter(), &keys),
            ];
            Row {
                key,
                values,
                lineage: spans(&given.from, members),
            }
        });
        let rows = rows.collect();
        Ok(Frame {
            level,
            keys,
            specs: columns(&spec, &given),
            rows,
            missing: from.missing.clone(),
        })
    }
}
