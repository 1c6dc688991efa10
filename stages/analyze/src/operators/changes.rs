//! `changes`: how each phase changed from the one before.

use artifacts::json::plain;
use contract::Better;
use pipeline::suggest::remedy;
use pipeline::{Failure, Json, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::columns::Columns;
use crate::frame::{Frame, Level, Spec, spans, text};
use crate::operator::{Context, Draft, TypedOperator, unless};

pub(crate) struct Changes;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The table that holds the phases.
    from: String,
    /// The axis of the phases.
    phase: String,
    /// Its labels in chronological order.
    #[schemars(with = "Vec<Json>")]
    order: Vec<Json>,
    /// The phase to compare with.
    #[serde(default)]
    against: Against,
    /// The columns to compute this for.
    columns: Vec<String>,
    /// The better direction, which determines the word in `…_effect`.
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

/// The value of one column before and after.
struct Change {
    before: Option<f64>,
    after: Option<f64>,
}

impl Change {
    fn absolute(&self) -> Option<f64> {
        Some(self.after? - self.before?)
    }

    fn percent(&self) -> Option<f64> {
        let before = self.before.filter(|b| *b != 0.0)?;
        Some(100.0 * self.absolute()? / before.abs())
    }

    fn effect(&self, better: Better) -> Option<&'static str> {
        let change = self.absolute()?;
        let gain = if better == Better::Higher {
            change
        } else {
            -change
        };
        Some(match gain {
            0.0 => "unchanged",
            gain if gain > 0.0 => "improved",
            _ => "worsened",
        })
    }
}

fn columns(specs: &[Spec], better: Option<Better>) -> Columns<'static, Vec<Change>> {
    let mut columns = Columns::new();
    for (i, spec) in specs.iter().enumerate() {
        let (unit, name) = (spec.unit.as_deref().unwrap_or_default(), &spec.name);
        let before = format!("{name} in the earlier phase, the base");
        let after = format!("{name} in the later phase");
        let percent =
            "100 · (after − before) ÷ before, of the unrounded values; null if before is 0";
        let effect = "improved, worsened or unchanged; null unless `better` is declared";
        columns = columns
            .with(
                Spec::float(format!("{name}_before"), unit, before),
                move |c: &Vec<Change>| c[i].before,
            )
            .with(
                Spec::float(format!("{name}_after"), unit, after),
                move |c| c[i].after,
            )
            .with(
                Spec::float(format!("{name}_change"), unit, "after − before"),
                move |c| c[i].absolute(),
            )
            .with(
                Spec::float(format!("{name}_change_percent"), "%", percent),
                move |c| c[i].percent(),
            )
            .with(Spec::text(format!("{name}_effect"), effect), move |c| {
                better.and_then(|better| c[i].effect(better))
            });
    }
    columns
}

impl TypedOperator for Changes {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "changes";
    const SUMMARY: &'static str = "Phase over phase: before, after, change, and change in percent of before, at every other coordinate.";
    const SOURCE: &'static str = "\
        The base of the percentage is the earlier phase. Percentages of values that were rounded first can differ in \
        their last digit. The operator compares values and makes no test: of two equal phases, either has the better \
        value in half of the studies. Use a comparison to decide whether phases differ.";

    fn plan(given: &mut Parameters, draft: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        let specs = draft.columns(&given.from, &given.columns)?;
        if given.order.len() < 2 {
            return Err(vec![
                draft.problem("order", "a change needs two phases or more"),
            ]);
        }
        let better = given.better.into_iter();
        let wrong = better.flat_map(|better| {
            let wrong = move |spec| draft.direction("better", better, spec);
            specs.iter().flat_map(wrong)
        });
        unless(wrong.collect(), || columns(&specs, given.better).specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let from = context.table(&given.from)?;
        let phase = from.key_position(&given.phase, &given.from)?;
        let order: Vec<String> = given.order.iter().map(plain).collect();
        let mut present: Vec<String> = from.rows.iter().map(|r| r.key[phase].to_string()).collect();
        present.extend(from.missing.iter().flat_map(|m| {
            m.at.iter()
                .filter(|(name, _)| *name == given.phase)
                .map(|(_, value)| value.to_string())
        }));
        present.sort();
        present.dedup();
        if let Some(strange) = order.iter().find(|o| !present.contains(o)) {
            return Err(Failure::failed(format!(
                "the axis `{}` has no label `{strange}`",
                given.phase
            ))
            .hint(remedy(strange, "labels", &present)));
        }
        let columns = columns(&from.all_declared(&given.columns)?, given.better);
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
                let change = |column: &String| Change {
                    before: from.number(before, column),
                    after: from.number(after, column),
                };
                let changes = given.columns.iter().map(change).collect();
                rows.push(columns.row(key, &changes, spans(&given.from, [before, after])));
            }
        }
        Ok(Frame {
            level: Level::Marginal,
            keys,
            specs: columns.specs(),
            rows,
            missing: from.missing.clone(),
        })
    }
}
