//! `latency-multipliers`: a latency at N over the same at 1.

use pipeline::{Failure, Json, Problem};
use rows::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frame::{Frame, Row, Spec, number, spans};
use crate::operator::{Context, Operator, Plan, Scope, at, items, parameters};
use crate::operators::pairs::anchors;

pub(crate) struct LatencyMultipliers;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Parameters {
    /// The table that holds the latencies.
    from: String,
    /// The axis of N, which must hold the value 1: the anchor.
    ladder: String,
    /// The latencies.
    #[serde(default = "latencies")]
    columns: Vec<String>,
}

fn latencies() -> Vec<String> {
    ["e2e_latency_ms_p50", "e2e_latency_ms_p95"]
        .map(str::to_owned)
        .to_vec()
}

fn columns(of: &[Spec], ladder: &str) -> Vec<Spec> {
    of.iter()
        .flat_map(|spec| {
            let name = &spec.name;
            [
                spec.like(name, spec.description.clone()),
                Spec::float(
                    format!("{name}_multiplier"),
                    "1",
                    format!("{name} ÷ {name} at {ladder} = 1 of the same other coordinates; null without it"),
                )
                .over(format!("{ladder} = N"), format!("{ladder} = 1")),
            ]
        })
        .collect()
}

impl Operator for LatencyMultipliers {
    fn name(&self) -> &'static str {
        "latency-multipliers"
    }

    fn summary(&self) -> &'static str {
        "Latencies at N clients over the same latencies at one."
    }

    fn source(&self) -> &'static str {
        "latency(N) ÷ latency(1), the same statistic of the same metric on both sides."
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>, scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let given: Parameters = settings.read()?;
        let wanted = items("columns", &given.columns);
        let found = scope.numbers(settings, (&at("from"), &given.from), &wanted)?;
        let columns = columns(&found, &given.ladder);
        Ok(Plan {
            parameters: rows::canonical(&given),
            columns,
        })
    }

    fn run(&self, given: &Json, context: &Context<'_>) -> Result<Frame, Failure> {
        let given: Parameters = parameters(given)?;
        let from = context.table(&given.from)?;
        let ladder = from.key_position(&given.ladder, &given.from)?;
        let mut rows = Vec::new();
        for (row, _, anchor) in anchors(from, ladder, &given.ladder)? {
            let mut values = Vec::new();
            for column in &given.columns {
                let value = from.number(row, column);
                let base = anchor
                    .and_then(|a| from.number(a, column))
                    .filter(|b| *b > 0.0);
                values.extend([number(value), number(value.zip(base).map(|(v, b)| v / b))]);
            }
            let lineage = spans(&given.from, [Some(row), anchor].into_iter().flatten());
            rows.push(Row {
                key: from.rows[row].key.clone(),
                values,
                lineage,
            });
        }
        let specs: Vec<Spec> = given
            .columns
            .iter()
            .filter_map(|c| from.spec(c).cloned())
            .collect();
        let (keys, missing) = (from.keys.clone(), from.missing.clone());
        Ok(Frame {
            level: from.level,
            keys,
            specs: columns(&specs, &given.ladder),
            rows,
            missing,
        })
    }
}
