//! `breakdown`: the smallest N for which a named rule holds.

use artifacts::Scalar;
use pipeline::{Failure, Json, Problem, Step};
use rows::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frame::{Frame, Level, Row, Spec, count, spans, text};
use crate::operator::{Context, Operator, Plan, Scope, parameters};
use crate::operators::pairs::rung;

pub(crate) struct Breakdown;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Parameters {
    /// The name of the rule, printed with every result.
    rule: String,
    /// The axis of N.
    ladder: String,
    /// The conditions: the rule holds where any of them does.
    any: Vec<Condition>,
}

/// One bound on one column; exactly one of `below` and `above`.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Condition {
    /// The table.
    table: String,
    /// The column.
    column: String,
    /// Holds where the value is smaller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    below: Option<f64>,
    /// Holds where the value is larger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    above: Option<f64>,
}

impl Condition {
    fn holds(&self, value: f64) -> bool {
        self.below.is_some_and(|bound| value < bound)
            || self.above.is_some_and(|bound| value > bound)
    }
}

impl std::fmt::Display for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.below, self.above) {
            (Some(bound), _) => write!(f, "{} < {bound}", self.column),
            (_, bound) => write!(f, "{} > {}", self.column, bound.unwrap_or(f64::NAN)),
        }
    }
}

fn columns(given: &Parameters) -> Vec<Spec> {
    let conditions: Vec<String> = given.any.iter().map(Condition::to_string).collect();
    let rule = conditions.join(" or ");
    let ladder = &given.ladder;
    vec![
        Spec::text("rule", format!("the name of the rule: {rule}")),
        Spec::float(
            "breakdown_n",
            "",
            format!("smallest {ladder} at which {rule}; null = never within the ladder"),
        ),
        Spec::boolean("never", "whether the rule holds nowhere within the ladder"),
        Spec::text(
            "recrossings",
            format!("values of {ladder} beyond it where the rule no longer holds; null = none"),
        ),
        Spec::int(
            "n",
            "1",
            format!("values of {ladder} at which the rule is defined"),
        ),
        Spec::text(
            "missing",
            "cells that should have contributed and did not; null if none",
        ),
    ]
}

impl Operator for Breakdown {
    fn name(&self) -> &'static str {
        "breakdown"
    }

    fn summary(&self) -> &'static str {
        "The smallest N at which a named rule holds, with re-crossings; null = never within the ladder."
    }

    fn source(&self) -> &'static str {
        "The rule is a parameter with a name: published studies use different ones under the same word."
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>, scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let given: Parameters = settings.read()?;
        let mut problems = Vec::new();
        if given.any.is_empty() {
            let place = [Step::Key("any".to_owned())];
            problems.push(
                settings.problem(&place, "a rule needs at least one condition").hint(
                    "for instance `any: [{table: efficiency, column: parallel_efficiency, below: 0.65}]`",
                ),
            );
        }
        for (i, condition) in given.any.iter().enumerate() {
            let at = |key: &str| {
                vec![
                    Step::Key("any".to_owned()),
                    Step::Index(i),
                    Step::Key(key.to_owned()),
                ]
            };
            if condition.below.is_some() == condition.above.is_some() {
                let place = [Step::Key("any".to_owned()), Step::Index(i)];
                problems
                    .push(settings.problem(&place, "a condition needs either `below` or `above`"));
            }
            let wanted = [(at("column"), condition.column.as_str())];
            if let Err(more) = scope.numbers(settings, (&at("table"), &condition.table), &wanted) {
                problems.extend(more);
            }
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
        let first = context.table(&given.any[0].table)?;
        let ladder = first.key_position(&given.ladder, &given.any[0].table)?;
        let others: Vec<usize> = (0..first.keys.len()).filter(|p| *p != ladder).collect();
        let keys: Vec<String> = others.iter().map(|p| first.keys[*p].clone()).collect();
        for condition in &given.any {
            let table = context.table(&condition.table)?;
            if table.keys != first.keys {
                return Err(Failure::failed(format!(
                    "the tables `{}` and `{}` have different keys: {} and {}",
                    given.any[0].table,
                    condition.table,
                    first.keys.join(", "),
                    table.keys.join(", "),
                )));
            }
        }
        let mut rows = Vec::new();
        for (key, members) in first.groups(&others) {
            let mut rungs = Vec::new();
            for row in members {
                rungs.push((rung(&first.rows[row].key[ladder], &given.ladder)?, row));
            }
            rungs.sort_by(|a, b| a.0.total_cmp(&b.0));
            let mut lineage = Vec::new();
            let mut verdicts = Vec::new();
            for (n, row) in &rungs {
                let mut verdict = None;
                for condition in &given.any {
                    let table = context.table(&condition.table)?;
                    let key = &first.rows[*row].key;
                    // Finished tables are sorted by key.
                    let here = table
                        .rows
                        .binary_search_by(|r| rows::compare_all(&r.key, key))
                        .ok();
                    if let Some((at, value)) =
                        here.and_then(|h| Some((h, table.number(h, &condition.column)?)))
                    {
                        lineage.extend(spans(&condition.table, [at]));
                        verdict = Some(verdict.unwrap_or(false) || condition.holds(value));
                    }
                }
                verdicts.extend(verdict.map(|v| (*n, v)));
            }
            let broken = verdicts.iter().position(|(_, holds)| *holds);
            let back: Vec<String> = verdicts
                .iter()
                .skip(broken.unwrap_or(verdicts.len()))
                .filter(|(_, holds)| !holds)
                .map(|(n, _)| n.to_string())
                .collect();
            lineage.sort();
            lineage.dedup();
            let values = vec![
                text(&given.rule),
                broken.map_or(Scalar::Null, |b| Scalar::Float(verdicts[b].0)),
                if verdicts.is_empty() {
                    Scalar::Null
                } else {
                    Scalar::Bool(broken.is_none())
                },
                if back.is_empty() {
                    Scalar::Null
                } else {
                    text(back.join(", "))
                },
                count(verdicts.len()),
                first.missing_at(&keys, &key),
            ];
            rows.push(Row {
                key,
                values,
                lineage,
            });
        }
        let missing = first.missing.clone();
        Ok(Frame {
            level: Level::Marginal,
            keys,
            specs: columns(&given),
            rows,
            missing,
        })
    }
}
