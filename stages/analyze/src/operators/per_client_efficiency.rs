//! `per-client-efficiency`: what one client gets among N, against what it gets alone.

use pipeline::{Failure, Json, Problem};
use rows::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frame::{Frame, Row, Spec, number, spans};
use crate::operator::{Context, Operator, Plan, Scope, at, parameters};
use crate::operators::pairs::rung;

pub(crate) struct PerClientEfficiency;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Parameters {
    /// The table that holds the rate of one client.
    from: String,
    /// The axis of N.
    ladder: String,
    /// The value of the ladder that is the base.
    #[serde(default = "anchor")]
    anchor: f64,
    /// The rate of one client.
    #[serde(default = "column")]
    column: String,
}

fn anchor() -> f64 {
    1.0
}

fn column() -> String {
    "decode_rate_mean".to_owned()
}

fn columns(of: &Spec, given: &Parameters) -> Vec<Spec> {
    let (unit, name) = (of.unit.as_deref().unwrap_or_default(), &of.name);
    let (ladder, base) = (&given.ladder, given.anchor);
    vec![
        Spec::float(name, unit, of.description.clone()),
        Spec::float(
            "anchor",
            unit,
            format!("{name} at {ladder} = {base} of the same other coordinates"),
        ),
        Spec::float(
            "per_client_efficiency",
            "1",
            format!("{name} ÷ anchor; null without one"),
        )
        .over(format!("{ladder} = N"), format!("{ladder} = {base}")),
    ]
}

impl Operator for PerClientEfficiency {
    fn name(&self) -> &'static str {
        "per-client-efficiency"
    }

    fn summary(&self) -> &'static str {
        "The rate one client gets among N ÷ the rate it gets at the base of the ladder."
    }

    fn source(&self) -> &'static str {
        "rate(N) ÷ rate(anchor) of one client or request. Not parallel efficiency, which divides the rate of the whole server by N: the two part as soon as fewer than N requests are in flight, and published reports have printed both as \"scaling efficiency\"."
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>, scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let given: Parameters = settings.read()?;
        let wanted = [(at("column"), given.column.as_str())];
        let found = scope.numbers(settings, (&at("from"), &given.from), &wanted)?;
        Ok(Plan {
            columns: columns(&found[0], &given),
            parameters: rows::canonical(&given),
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
        let others: Vec<usize> = (0..from.keys.len()).filter(|p| *p != ladder).collect();
        let mut rows = Vec::new();
        for (_, members) in from.groups(&others) {
            let mut anchor = None;
            for row in &members {
                if rung(&from.rows[*row].key[ladder], &given.ladder)? == given.anchor {
                    anchor = Some(*row);
                }
            }
            let base = anchor.and_then(|a| from.number(a, &given.column));
            for row in members {
                let value = from.number(row, &given.column);
                let share = value
                    .zip(base)
                    .filter(|(_, b)| *b > 0.0)
                    .map(|(v, b)| v / b);
                rows.push(Row {
                    key: from.rows[row].key.clone(),
                    values: vec![number(value), number(base), number(share)],
                    lineage: spans(&given.from, [Some(row), anchor].into_iter().flatten()),
                });
            }
        }
        let (keys, missing) = (from.keys.clone(), from.missing.clone());
        Ok(Frame {
            level: from.level,
            keys,
            specs: columns(&spec, &given),
            rows,
            missing,
        })
    }
}
