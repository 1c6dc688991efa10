//! `identity`: columns that must agree with each other by their definitions.

use artifacts::json::plain;
use pipeline::suggest::remedy;
use pipeline::{Failure, Json, Problem, Step};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::columns::Columns;
use crate::frame::{Frame, Spec, spans, text};
use crate::operator::{Context, Draft, TypedOperator, at, unless};
use crate::operators::pairs::named;

pub(crate) struct Identity;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The table that holds the columns.
    from: String,
    /// The identities; each makes one row per row of the table.
    identities: Vec<Law>,
}

/// A column, and the product and quotient that must give it.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Law {
    /// The name printed with every result.
    name: String,
    /// The column on the left.
    column: String,
    /// What is between the sides.
    #[serde(default)]
    relation: Relation,
    /// Columns, keys or numbers multiplied on the right.
    #[schemars(with = "Vec<Json>")]
    times: Vec<Json>,
    /// Columns, keys or numbers the product is divided by.
    #[serde(default)]
    #[schemars(with = "Vec<Json>")]
    over: Vec<Json>,
    /// The allowed difference, relative to the right side.
    #[serde(default)]
    within: f64,
    /// An additional allowed difference, in the column's unit.
    #[serde(default)]
    within_absolute: f64,
    /// Decimals to which both sides are rounded first (half away from zero): the precision in
    /// which they were printed.
    #[serde(default)]
    decimals: Option<u32>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Relation {
    #[default]
    Equal,
    AtLeast,
    AtMost,
}

/// The tolerance for the rounding of the arithmetic itself.
const SLACK: f64 = 1e-12;

impl Law {
    fn formula(&self) -> String {
        let list = |items: &[Json]| items.iter().map(plain).collect::<Vec<_>>().join(" · ");
        let sign = match self.relation {
            Relation::Equal => "=",
            Relation::AtLeast => "≥",
            Relation::AtMost => "≤",
        };
        let top = if self.times.is_empty() {
            "1".to_owned()
        } else {
            list(&self.times)
        };
        let bottom = match self.over.len() {
            0 => String::new(),
            1 => format!(" ÷ {}", list(&self.over)),
            _ => format!(" ÷ ({})", list(&self.over)),
        };
        let rounded = self
            .decimals
            .map_or_else(String::new, |d| format!(", both rounded to {d} decimals"));
        format!("{} {sign} {top}{bottom}{rounded}", self.column)
    }

    fn sides(&self, from: &Frame, row: usize) -> Option<(f64, f64)> {
        let value = |item: &Json| item.as_f64().or_else(|| named(from, row, item.as_str()?));
        let mut right = 1.0;
        for item in &self.times {
            right *= value(item)?;
        }
        for item in &self.over {
            right /= value(item).filter(|v| *v != 0.0)?;
        }
        Some((from.number(row, &self.column)?, right))
    }

    fn holds(&self, left: f64, right: f64) -> bool {
        let (left, right) = match self.decimals {
            Some(decimals) => {
                let unit = 10.0_f64.powi(decimals.min(15) as i32);
                // The tolerance makes a half that binary cannot represent count as a half.
                let round = |v: f64| ((v.abs() * unit * (1.0 + SLACK)).round() / unit).copysign(v);
                (round(left), round(right))
            }
            None => (left, right),
        };
        let room = self.within * right.abs() + self.within_absolute + SLACK * right.abs();
        match self.relation {
            Relation::Equal => (left - right).abs() <= room,
            Relation::AtLeast => left >= right - room,
            Relation::AtMost => left <= right + room,
        }
    }
}

/// A law evaluated at one row: its formula, both sides, and whether it holds.
struct Outcome {
    formula: String,
    sides: Option<(f64, f64)>,
    holds: Option<bool>,
}

fn columns() -> Columns<'static, Outcome> {
    let relative = "(left − right) ÷ |right|, of the unrounded values; null if right is 0";
    Columns::new()
        .with(
            Spec::text(
                "formula",
                "the identity, which must hold within the declared tolerance",
            ),
            |o: &Outcome| o.formula.clone(),
        )
        .with(Spec::float("left", "", "the column, in its unit"), |o| {
            o.sides.map(|(left, _)| left)
        })
        .with(
            Spec::float("right", "", "the other side, in the same unit"),
            |o| o.sides.map(|(_, right)| right),
        )
        .with(Spec::float("relative_difference", "1", relative), |o| {
            let (left, right) = o.sides.filter(|(_, right)| *right != 0.0)?;
            Some((left - right) / right.abs())
        })
        .with(
            Spec::boolean(
                "holds",
                "whether the identity holds; null if a value is undefined",
            ),
            |o| o.holds,
        )
}

impl TypedOperator for Identity {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "identity";
    const SUMMARY: &'static str = "Whether columns agree with their definitions: a product or \
        quotient is compared with a column, row by row.";
    const SOURCE: &'static str = "\
        Examples: output_throughput = request_throughput · output_tokens_mean; goodput = slo_pass_rate · \
        request_throughput if no request failed; e2e latency ≥ TTFT; efficiency = speedup ÷ N. You declare the \
        tolerance and the rounding, because a published value may satisfy one choice but not another.";

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let (settings, scope, mut problems) = (draft.settings, draft.scope, Vec::new());
        let specs = scope
            .table(settings, &at("from"), &given.from)
            .map_err(|p| vec![p])?;
        for (i, law) in given.identities.iter().enumerate() {
            let place = |key: &str| {
                vec![
                    Step::Key("identities".to_owned()),
                    Step::Index(i),
                    Step::Key(key.to_owned()),
                ]
            };
            if specs.is_some() {
                let wanted = [(place("column"), law.column.as_str())];
                if let Err(more) = scope.numbers(settings, (&at("from"), &given.from), &wanted) {
                    problems.extend(more);
                }
            }
            for (key, list) in [("times", &law.times), ("over", &law.over)] {
                for item in list
                    .iter()
                    .filter(|item| !(item.is_number() || item.is_string()))
                {
                    problems.push(settings.problem(
                        &place(key),
                        format!("{item} is neither a name nor a number"),
                    ));
                }
            }
            for (key, value) in [
                ("within", law.within),
                ("within-absolute", law.within_absolute),
            ] {
                if value.is_nan() || value < 0.0 {
                    problems.push(settings.problem(
                        &place(key),
                        "a tolerance must not be \
                        negative",
                    ));
                }
            }
        }
        unless(problems, || columns().specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let from = context.table(&given.from)?;
        let key_names: Vec<&str> = from
            .keys
            .iter()
            .chain(from.specs.iter().filter(|s| s.is_number()).map(|s| &s.name))
            .map(String::as_str)
            .collect();
        for law in &given.identities {
            let names = law.times.iter().chain(&law.over).filter_map(Json::as_str);
            if let Some(strange) = names.into_iter().find(|name| !key_names.contains(name)) {
                return Err(Failure::failed(format!(
                    "the identity `{}`: the table `{}` has no key or column of numbers `{strange}`",
                    law.name, given.from
                ))
                .hint(remedy(strange, "keys and columns", &key_names)));
            }
        }
        let (columns, mut rows) = (columns(), Vec::new());
        for row in 0..from.rows.len() {
            for law in &given.identities {
                let sides = law.sides(from, row);
                let mut key = from.rows[row].key.clone();
                key.push(text(&law.name));
                let outcome = Outcome {
                    formula: law.formula(),
                    sides,
                    holds: sides.map(|(left, right)| law.holds(left, right)),
                };
                rows.push(columns.row(key, &outcome, spans(&given.from, [row])));
            }
        }
        let mut keys = from.keys.clone();
        keys.push("identity".to_owned());
        Ok(Frame {
            level: from.level,
            keys,
            specs: columns.specs(),
            rows,
            missing: from.missing.clone(),
        })
    }
}
