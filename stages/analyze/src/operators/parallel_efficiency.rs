//! `parallel-efficiency`: throughput at N against N times that at 1.

use pipeline::{Failure, Json, Problem};
use rows::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frame::{Frame, Row, Spec, number, spans};
use crate::operator::{Context, Operator, Plan, Scope, at, parameters};
use crate::operators::pairs::anchors;

pub(crate) struct ParallelEfficiency;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Parameters {
    /// The table that holds the throughput.
    from: String,
    /// The axis of N, which must hold the value 1: the anchor.
    ladder: String,
    /// The throughput.
    #[serde(default = "column")]
    column: String,
}

fn column() -> String {
    "output_throughput".to_owned()
}

fn columns(of: &Spec, ladder: &str) -> Vec<Spec> {
    let unit = of.unit.as_deref().unwrap_or_default();
    let name = &of.name;
    vec![
        Spec::float(name, unit, of.description.clone()),
        Spec::float(
            "anchor",
            unit,
            format!("{name} at {ladder} = 1 of the same other coordinates"),
        ),
        Spec::float("speedup", "1", format!("{name} ÷ anchor"))
            .over(format!("{ladder} = N"), format!("{ladder} = 1")),
        Spec::float(
            "parallel_efficiency",
            "1",
            format!("{name}(N) ÷ (N · {name}(1)) with N = {ladder}; null without an anchor"),
        )
        .over(
            format!("throughput at {ladder} = N"),
            format!("N times that at {ladder} = 1"),
        ),
        Spec::float(
            "serial_reference",
            "1",
            "1 ÷ N: the efficiency of a server that serves one at a time",
        ),
    ]
}

impl Operator for ParallelEfficiency {
    fn name(&self) -> &'static str {
        "parallel-efficiency"
    }

    fn summary(&self) -> &'static str {
        "Throughput at N clients ÷ (N × throughput at one), with speedup and the serial reference 1/N."
    }

    fn source(&self) -> &'static str {
        "throughput(N) ÷ (N · throughput(1)). A server that serves one request at a time has efficiency 1/N, so that curve is the reference, not 0."
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>, scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let given: Parameters = settings.read()?;
        let wanted = [(at("column"), given.column.as_str())];
        let found = scope.numbers(settings, (&at("from"), &given.from), &wanted)?;
        let columns = columns(&found[0], &given.ladder);
        Ok(Plan {
            parameters: rows::canonical(&given),
            columns,
        })
    }

    fn run(&self, given: &Json, context: &Context<'_>) -> Result<Frame, Failure> {
        let given: Parameters = parameters(given)?;
        let from = context.table(&given.from)?;
        let ladder = from.key_position(&given.ladder, &given.from)?;
        let spec = from
            .spec(&given.column)
            .cloned()
            .ok_or_else(|| Failure::failed("the column is gone"))?;
        let mut rows = Vec::new();
        for (row, n, anchor) in anchors(from, ladder, &given.ladder)? {
            let value = from.number(row, &given.column);
            let base = anchor.and_then(|a| from.number(a, &given.column));
            let speedup = value
                .zip(base)
                .filter(|(_, b)| *b > 0.0)
                .map(|(v, b)| v / b);
            rows.push(Row {
                key: from.rows[row].key.clone(),
                values: vec![
                    number(value),
                    number(base),
                    number(speedup),
                    number(speedup.map(|s| s / n)),
                    number(Some(1.0 / n)),
                ],
                lineage: spans(&given.from, [Some(row), anchor].into_iter().flatten()),
            });
        }
        let (keys, missing) = (from.keys.clone(), from.missing.clone());
        Ok(Frame {
            level: from.level,
            keys,
            specs: columns(&spec, &given.ladder),
            rows,
            missing,
        })
    }
}
