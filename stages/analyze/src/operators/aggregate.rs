//! `aggregate`: rows taken together over named axes, and over no others.

use pipeline::{Failure, Json, Problem};
use rows::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Sample, t_interval};

use crate::frame::{Frame, Level, Row, Spec, count, number, spans, text};
use crate::operator::{Context, Operator, Plan, Scope, at, items, parameters};

pub(crate) struct Aggregate;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Parameters {
    /// The table whose rows are taken together.
    from: String,
    /// The axes taken together; every other key stays a key.
    over: Vec<String>,
    /// The columns to describe.
    columns: Vec<String>,
    /// The level of the t interval of the mean.
    #[serde(default = "confidence")]
    confidence: f64,
}

fn confidence() -> f64 {
    0.95
}

fn columns(of: &[Spec], over: &[String], confidence: f64) -> Vec<Spec> {
    let over = over.join(", ");
    let mut columns = vec![
        Spec::text(
            "level",
            "row, cell, marginal or pooled: what a row of this table stands for",
        ),
        Spec::int("n", "1", format!("rows taken together over {over}")),
        Spec::text(
            "missing",
            "cells that should have contributed and did not, with the reason; null if none",
        ),
    ];
    for spec in of {
        let name = &spec.name;
        let unit = spec.unit.as_deref().unwrap_or_default();
        let what = format!("of {name} over {over} ({})", spec.description);
        columns.push(Spec::int(
            format!("{name}_n"),
            "1",
            format!("number of defined values {what}"),
        ));
        columns.push(spec.like(format!("{name}_mean"), format!("mean {what}")));
        let spread = format!("sample standard deviation (n − 1), null for one value, {what}");
        columns.push(Spec::float(format!("{name}_std"), unit, spread));
        for (statistic, how) in [
            ("min", "smallest value".to_owned()),
            ("max", "largest value".to_owned()),
            (
                "ci_low",
                format!(
                    "lower end of the {confidence} t interval of the mean, null for one value,"
                ),
            ),
            (
                "ci_high",
                format!(
                    "upper end of the {confidence} t interval of the mean, null for one value,"
                ),
            ),
        ] {
            columns.push(spec.like(format!("{name}_{statistic}"), format!("{how} {what}")));
        }
        columns.push(Spec::float(
            format!("{name}_cv"),
            "1",
            format!("std ÷ mean {what}"),
        ));
    }
    columns
}

impl Operator for Aggregate {
    fn name(&self) -> &'static str {
        "aggregate"
    }

    fn summary(&self) -> &'static str {
        "Rows taken together over named axes: n, mean, std, min, max, t interval and CV of named columns."
    }

    fn source(&self) -> &'static str {
        "The interval of the mean is Student's t with n − 1 degrees of freedom."
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>, scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let given: Parameters = settings.read()?;
        let wanted = items("columns", &given.columns);
        let found = scope.numbers(settings, (&at("from"), &given.from), &wanted)?;
        if !(given.confidence > 0.0 && given.confidence < 1.0) {
            return Err(vec![settings.problem(
                &at("confidence"),
                "a confidence level lies between 0 and 1",
            )]);
        }
        if given.over.is_empty() {
            return Err(vec![
                settings
                    .problem(&at("over"), "nothing to take together")
                    .hint("name the axes, for instance `over: [rep]`"),
            ]);
        }
        let columns = columns(&found, &given.over, given.confidence);
        Ok(Plan {
            parameters: rows::canonical(&given),
            columns,
        })
    }

    fn run(&self, given: &Json, context: &Context<'_>) -> Result<Frame, Failure> {
        let given: Parameters = parameters(given)?;
        let from = context.table(&given.from)?;
        from.key_positions(&given.over, &given.from)?;
        let keys: Vec<String> = from
            .keys
            .iter()
            .filter(|k| !given.over.contains(k))
            .cloned()
            .collect();
        let kept = from.key_positions(&keys, &given.from)?;
        let specs: Vec<Spec> = given
            .columns
            .iter()
            .filter_map(|c| from.spec(c).cloned())
            .collect();
        let level = match from.level {
            Level::Row => Level::Row,
            _ if keys.is_empty() => Level::Pooled,
            _ => Level::Marginal,
        };
        let mut rows = Vec::new();
        for (key, members) in from.groups(&kept) {
            let missing = from.missing_at(&keys, &key);
            let mut values = vec![text(level.word()), count(members.len()), missing];
            for column in &given.columns {
                let sample =
                    Sample::new(members.iter().filter_map(|m| from.number(*m, column))).ok();
                let of = |f: &dyn Fn(&Sample) -> Option<f64>| number(sample.as_ref().and_then(f));
                let interval = sample
                    .as_ref()
                    .and_then(|s| t_interval(s, given.confidence));
                values.extend([
                    count(sample.as_ref().map_or(0, Sample::len)),
                    of(&|s| Some(s.mean())),
                    of(&Sample::std),
                    of(&|s| Some(s.min())),
                    of(&|s| Some(s.max())),
                    number(interval.map(|i| i.low)),
                    number(interval.map(|i| i.high)),
                    of(&Sample::cv),
                ]);
            }
            rows.push(Row {
                key,
                values,
                lineage: spans(&given.from, members),
            });
        }
        let specs = columns(&specs, &given.over, given.confidence);
        Ok(Frame {
            level,
            keys,
            specs,
            rows,
            missing: from.missing.clone(),
        })
    }
}
