//! What a table asks, the effect it is given, and what it says.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::Scalar;
use pipeline::{Control, Json};

use super::draw::{OF_CELLS, Step, cells, run};
use super::{AtEffect, Simulated, Study};
use crate::frame::Frame;
use crate::kind::{Planned, sources};
use crate::operators::pairs::rung;

/// The answers of one table of one study.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) rows: usize,
    /// Those that find something.
    pub(super) different: u64,
    /// Those that find what was put there.
    pub(super) found: u64,
    pub(super) equivalent: u64,
    pub(super) undecidable: u64,
    /// Why a row is undecidable.
    pub(super) refusal: Option<String>,
}

/// A table whose answer rests on tests.
pub(super) struct Question<'a> {
    pub(super) table: &'a Planned,
    kind: Kind,
    from: String,
    /// The axis whose labels are the sides.
    axis: String,
    a: String,
    b: String,
    columns: Vec<String>,
    /// Whether lower values are better.
    lower: bool,
    /// The tables that it is made from, in order; or why they cannot be simulated.
    pub(super) steps: Result<Vec<Step<'a>>, String>,
}

/// What a table asks.
enum Kind {
    /// Does the first side differ?
    Difference,
    /// Where on this ladder does the winner change?
    Crossover { ladder: String },
    /// Which contenders are told apart?
    Ranking,
}

impl Kind {
    fn of(table: &Planned) -> Option<Self> {
        Some(match table.operator.as_str() {
            "paired-comparison" | "unpaired-comparison" => Self::Difference,
            "crossover" => Self::Crossover {
                ladder: text(&table.parameters["ladder"]),
            },
            "ranking" => Self::Ranking,
            _ => return None,
        })
    }
}

fn text(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl<'a> Question<'a> {
    pub(super) fn all(study: &'a Study, planned: &'a [Planned]) -> Vec<Self> {
        let known: serde_json::Map<String, Json> = planned
            .iter()
            .map(|p| (p.name.clone(), Json::Null))
            .collect();
        let of = |table: &'a Planned| {
            let kind = Kind::of(table)?;
            let (given, pair) = (&table.parameters, &table.parameters["pair"]);
            let columns = match &given["column"] {
                Json::String(one) => vec![one.clone()],
                _ => {
                    let all = given["columns"].as_array().into_iter().flatten();
                    all.map(text).collect()
                }
            };
            let ranking = matches!(kind, Kind::Ranking);
            Some(Self {
                table,
                kind,
                from: text(&given["from"]),
                axis: text(if ranking {
                    &given["among"]
                } else {
                    &pair["axis"]
                }),
                a: if ranking {
                    String::new()
                } else {
                    text(&pair["a"])
                },
                b: if ranking {
                    "the others".to_owned()
                } else {
                    text(&pair["b"])
                },
                columns,
                lower: given["better"] == "lower",
                steps: steps(study, planned, &known, table),
            })
        };
        planned.iter().filter_map(of).collect()
    }

    pub(super) fn empty(&self, effects: &[f64]) -> Simulated {
        let at = |effect: &f64| AtEffect {
            effect: *effect,
            ..AtEffect::default()
        };
        Simulated {
            table: self.table.name.clone(),
            operator: self.table.operator.clone(),
            a: match self.kind {
                Kind::Ranking => format!("the first `{}`", self.axis),
                _ => self.a.clone(),
            },
            b: self.b.clone(),
            refused: self.steps.as_ref().err().cloned(),
            rows: 0,
            at: match &self.steps {
                Ok(_) => effects.iter().map(at).collect(),
                Err(_) => Vec::new(),
            },
        }
    }

    /// Makes the table with an effect on the first side, and looks at what it says.
    pub(super) fn seen(
        &self,
        tables: &BTreeMap<String, Frame>,
        effect: f64,
        seed: u64,
        control: &Control,
    ) -> Result<Seen, String> {
        let from = tables
            .get(&self.from)
            .ok_or("the table it reads is not made")?;
        let position = |name: &str| {
            let found = from.keys.iter().position(|key| key == name);
            found.ok_or_else(|| format!("`{name}` is no key of `{}`", self.from))
        };
        let side = position(&self.axis)?;
        let mut changed = from.clone();
        match &self.kind {
            Kind::Difference => {
                let by = |key: &[Scalar]| match key[side].to_string() == self.a {
                    true => 1.0 + effect,
                    false => 1.0,
                };
                changed.multiply(&self.columns, by);
                let made = self.made(changed, seed, control)?;
                Ok(self.difference(&made))
            }
            Kind::Crossover { ladder } => {
                let ladder = position(ladder)?;
                let rungs = rungs(from, ladder)?;
                let [.., _, _] = rungs.as_slice() else {
                    return Err("one value on the ladder has no crossover".to_owned());
                };
                let middle = rungs[(rungs.len() - 1) / 2];
                let by = |key: &[Scalar]| match key[ladder].as_f64() {
                    _ if key[side].to_string() != self.a => 1.0,
                    Some(n) if n > middle => 1.0 + effect,
                    _ => 1.0 / (1.0 + effect),
                };
                changed.multiply(&self.columns, by);
                let made = self.made(changed, seed, control)?;
                Ok(self.crossover(&made, effect, middle))
            }
            Kind::Ranking => {
                let first = from.rows.first().map(|row| row.key[side].to_string());
                let better = if self.lower {
                    1.0 / (1.0 + effect)
                } else {
                    1.0 + effect
                };
                let by = |key: &[Scalar]| match Some(key[side].to_string()) == first {
                    true => better,
                    false => 1.0,
                };
                changed.multiply(&self.columns, by);
                let made = self.made(changed, seed, control)?;
                let among = made.key_position(&self.axis, &self.table.name);
                let among = among.map_err(|failure| failure.reason)?;
                Ok(ranking(&made, among, &first.unwrap_or_default(), effect))
            }
        }
    }

    fn made(&self, from: Frame, seed: u64, control: &Control) -> Result<Frame, String> {
        let tables = BTreeMap::from([(self.from.clone(), from)]);
        run(self.table, &tables, seed, control)
    }

    fn difference(&self, frame: &Frame) -> Seen {
        let mut seen = Seen {
            rows: frame.rows.len(),
            ..Seen::default()
        };
        for row in 0..frame.rows.len() {
            let text = |column: &str| frame.value(row, column).map(ToString::to_string);
            match text("verdict").as_deref() {
                Some("different") => {
                    seen.different += 1;
                    seen.found += u64::from(text("higher").as_ref() == Some(&self.a));
                }
                Some("equivalent") => seen.equivalent += 1,
                Some("undecidable") => {
                    seen.undecidable += 1;
                    seen.refusal = seen.refusal.or_else(|| text("verdict_reason"));
                }
                _ => {}
            }
        }
        seen
    }

    /// Without an effect any winner is false; with one, only a change of the winner around the middle is true.
    fn crossover(&self, frame: &Frame, effect: f64, middle: f64) -> Seen {
        let mut seen = Seen {
            rows: frame.rows.len(),
            ..Seen::default()
        };
        let after = if self.lower { &self.b } else { &self.a };
        for row in 0..frame.rows.len() {
            let text = |column: &str| frame.value(row, column).map(ToString::to_string);
            let resolution = text("resolution").unwrap_or_default();
            if let Some(why) = resolution.strip_prefix("undecidable: ") {
                seen.undecidable += 1;
                seen.refusal.get_or_insert(why.to_owned());
                continue;
            }
            let winner = frame.value(row, "first_winner");
            let winner = winner.is_some_and(|w| *w != Scalar::Null);
            let between = frame
                .number(row, "crossover_after")
                .zip(frame.number(row, "crossover_at"));
            if effect == 0.0 {
                seen.different += u64::from(winner);
                continue;
            }
            seen.different += u64::from(between.is_some());
            let there = between.is_some_and(|(low, high)| low <= middle && high > middle);
            seen.found += u64::from(there && text("winner_after").as_ref() == Some(after));
        }
        seen
    }
}

/// Without an effect any two that are told apart are false; with one, the first must be told apart from all
/// others, and be the best.
fn ranking(frame: &Frame, among: usize, first: &str, effect: f64) -> Seen {
    let mut seen = Seen::default();
    for row in 0..frame.rows.len() {
        let is_first = frame.rows[row].key[among].to_string() == first;
        let shown = frame.number(row, "rank_shown");
        seen.rows += usize::from(is_first);
        if shown.is_none() && is_first {
            seen.undecidable += 1;
            let why = frame.value(row, "evidence").map(ToString::to_string);
            seen.refusal = seen.refusal.or(why);
        }
        if effect == 0.0 {
            seen.different += u64::from(shown.is_some_and(|rank| rank > 1.0));
        } else if is_first {
            let alone = frame.value(row, "not_told_apart_from") == Some(&Scalar::Null);
            let found = shown == Some(1.0) && alone;
            seen.found += u64::from(found);
            seen.different += u64::from(found || shown.is_some_and(|rank| rank > 1.0));
        }
    }
    seen
}

/// Returns the values of a ladder in order.
fn rungs(from: &Frame, ladder: usize) -> Result<Vec<f64>, String> {
    let name = &from.keys[ladder];
    let each = from.rows.iter().map(|row| rung(&row.key[ladder], name));
    let mut rungs: Vec<f64> = each
        .collect::<Result<_, _>>()
        .map_err(|failure| failure.reason)?;
    rungs.sort_by(f64::total_cmp);
    rungs.dedup();
    Ok(rungs)
}

/// Returns the tables that a question is made from, in order.
fn steps<'a>(
    study: &'a Study,
    planned: &'a [Planned],
    known: &serde_json::Map<String, Json>,
    table: &Planned,
) -> Result<Vec<Step<'a>>, String> {
    let mut wanted: BTreeSet<String> = sources(&table.parameters, known).into_iter().collect();
    // Every table comes after those it is made from.
    for earlier in planned.iter().rev().filter(|p| p.name != table.name) {
        if wanted.contains(&earlier.name) {
            wanted.extend(sources(&earlier.parameters, known));
        }
    }
    let mut steps = Vec::new();
    for step in planned.iter().filter(|p| wanted.contains(&p.name)) {
        let pooled = step.parameters["over"].as_array();
        let pooled = step.operator == "distribution" && pooled.is_some_and(|axes| !axes.is_empty());
        if pooled {
            return Err(format!(
                "the table `{}` pools requests of several cells, which is not simulated",
                step.name
            ));
        }
        if OF_CELLS.contains(&step.operator.as_str()) {
            steps.push(cells(study, step)?);
        } else if sources(&step.parameters, known).is_empty() {
            return Err(format!(
                "the table `{}` ({}) reads request rows, which are not simulated",
                step.name, step.operator
            ));
        } else {
            steps.push(Step::Table(step));
        }
    }
    Ok(steps)
}
