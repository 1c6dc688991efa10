//! `changes`: what each phase did to the one before it.

use artifacts::Scalar;
use pipeline::{Failure, Json, Problem};
use rows::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frame::{Frame, Level, Row, Spec, number, spans, text};
use crate::operator::{Context, Operator, Plan, Scope, at, items, parameters};
use crate::operators::pairs::Better;

pub(crate) struct Changes;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Parameters {
    /// The table that holds the phases.
    from: String,
    /// The axis of the phases.
    phase: String,
    /// Its labels in the order in which they followed each other.
    #[schemars(with = "Vec<Json>")]
    order: Vec<Json>,
    /// What a phase is compared with.
    #[serde(default)]
    against: Against,
    /// The columns.
    columns: Vec<String>,
    /// Which end is better: gives the word in `…_effect`.
    #[serde(default)]
    better: Option<Better>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Against {
    #[default]
    Previous,
    First,
}

fn columns(of: &[Spec]) -> Vec<Spec> {
    let mut columns = Vec::new();
    for spec in of {
        let (unit, name) = (spec.unit.as_deref().unwrap_or_default(), &spec.name);
        columns.extend([
            Spec::float(
                format!("{name}_before"),
                unit,
                format!("{name} in the earlier phase, the base"),
            ),
            Spec::float(
                format!("{name}_after"),
                unit,
                format!("{name} in the later phase"),
            ),
            Spec::float(format!("{name}_change"), unit, "after − before"),
            Spec::float(
                format!("{name}_change_percent"),
                "%",
                "100 · (after − before) ÷ before, of the unrounded values; null if before is 0",
            ),
            Spec::text(
                format!("{name}_effect"),
                "improved, worsened or unchanged; null unless `better` is declared",
            ),
        ]);
    }
    columns
}

impl Operator for Changes {
    fn name(&self) -> &'static str {
        "changes"
    }

    fn summary(&self) -> &'static str {
        "Phase over phase: before, after, change, and change in percent of before, at every other coordinate."
    }

    fn source(&self) -> &'static str {
        "The base of the percentage is the earlier phase. Percentages computed from values that were first rounded can differ in their last digit."
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>, scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let given: Parameters = settings.read()?;
        let wanted = items("columns", &given.columns);
        let found = scope.numbers(settings, (&at("from"), &given.from), &wanted)?;
        if given.order.len() < 2 {
            return Err(vec![
                settings.problem(&at("order"), "a change needs two phases or more"),
            ]);
        }
        Ok(Plan {
            columns: columns(&found),
            parameters: rows::canonical(&given),
        })
    }

    fn run(&self, given: &Json, context: &Context<'_>) -> Result<Frame, Failure> {
        let given: Parameters = parameters(given)?;
        let from = context.table(&given.from)?;
        let phase = from.key_position(&given.phase, &given.from)?;
        let label = |v: &Json| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
        let order: Vec<String> = given.order.iter().map(label).collect();
        let mut present: Vec<String> = from.rows.iter().map(|r| r.key[phase].to_string()).collect();
        present.extend(from.missing.iter().flat_map(|m| {
            m.at.iter()
                .filter(|(name, _)| *name == given.phase)
                .map(|(_, value)| value.to_string())
        }));
        present.sort();
        present.dedup();
        let known: Vec<&str> = present.iter().map(String::as_str).collect();
        if let Some(strange) = order.iter().find(|o| !present.contains(o)) {
            return Err(Failure::failed(format!(
                "the axis `{}` has no label `{strange}`",
                given.phase
            ))
            .hint(rows::did_you_mean(strange, &known)));
        }
        let specs: Vec<Spec> = given
            .columns
            .iter()
            .filter_map(|c| from.spec(c).cloned())
            .collect();
        let others: Vec<usize> = (0..from.keys.len()).filter(|p| *p != phase).collect();
        let mut keys: Vec<String> = others.iter().map(|p| from.keys[*p].clone()).collect();
        keys.extend(["phase_before".to_owned(), "phase_after".to_owned()]);
        let mut rows = Vec::new();
        for (key, members) in from.groups(&others) {
            let at = |name: &String| {
                members
                    .iter()
                    .copied()
                    .find(|m| from.rows[*m].key[phase].to_string() == *name)
            };
            for later in 1..order.len() {
                let earlier = if given.against == Against::First {
                    0
                } else {
                    later - 1
                };
                let (Some(before), Some(after)) = (at(&order[earlier]), at(&order[later])) else {
                    continue;
                };
                let mut key = key.clone();
                key.extend([text(&order[earlier]), text(&order[later])]);
                let change = |c: &String| {
                    change(from.number(before, c), from.number(after, c), given.better)
                };
                let values = given.columns.iter().flat_map(change).collect();
                rows.push(Row {
                    key,
                    values,
                    lineage: spans(&given.from, [before, after]),
                });
            }
        }
        Ok(Frame {
            level: Level::Marginal,
            keys,
            specs: columns(&specs),
            rows,
            missing: from.missing.clone(),
        })
    }
}

fn change(before: Option<f64>, after: Option<f64>, better: Option<Better>) -> Vec<Scalar> {
    let both = before.zip(after);
    let percent = both
        .filter(|(b, _)| *b != 0.0)
        .map(|(b, a)| 100.0 * (a - b) / b.abs());
    let effect = both.zip(better).map(|((b, a), better)| {
        let gain = if better == Better::Higher {
            a - b
        } else {
            b - a
        };
        if gain == 0.0 {
            "unchanged"
        } else if gain > 0.0 {
            "improved"
        } else {
            "worsened"
        }
    });
    let difference = number(both.map(|(b, a)| a - b));
    vec![
        number(before),
        number(after),
        difference,
        number(percent),
        effect.map_or(Scalar::Null, text),
    ]
}
