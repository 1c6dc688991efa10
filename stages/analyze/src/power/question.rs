//! The question behind a table, the effect it is given, and its findings.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::Scalar;
use contract::{Verdict, Word as _};
use pipeline::Json;

use super::draw::{OF_CELLS, Step, cells};
use super::{AtEffect, SharedLaunches, Simulated, Study, launches};
use crate::frame::Frame;
use crate::kind::Planned;
use crate::operators::crossover::why_undecidable;
use crate::operators::family::Shares;
use crate::operators::pairs::rung;
use crate::operators::units::Scale;
use crate::sources::sources;

/// The answers of one table in one study.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) rows: usize,
    /// The number of rows that detect something.
    pub(super) different: u64,
    /// The number of rows that detect the planted effect.
    pub(super) detected: u64,
    pub(super) equivalent: u64,
    pub(super) margins: Margins,
    pub(super) undecidable: u64,
    /// The reason why a row is undecidable.
    pub(super) refusal: Option<String>,
}

/// The findings of rows with a margin, at each end of it.
#[derive(Default)]
pub(super) struct Margins {
    pub(super) all: u64,
    pub(super) not_lower: u64,
    pub(super) not_higher: u64,
    /// The number of rows whose margin the effect reaches, so that no verdict of being within it is true.
    pub(super) reached: u64,
    pub(super) false_equivalent: u64,
    pub(super) false_not_higher: u64,
}

impl Margins {
    fn of(frame: &Frame, effect: f64) -> Self {
        let mut seen = Self::default();
        for row in 0..frame.rows.len() {
            let is =
                |column: &str| u64::from(frame.value(row, column) == Some(&Scalar::Bool(true)));
            let Some(margin) = frame.number(row, "margin") else {
                continue;
            };
            seen.all += 1;
            seen.not_lower += is("not_lower");
            seen.not_higher += is("not_higher");
            let share = frame.value(row, "scale").map(ToString::to_string);
            if share.as_deref() == Some(Scale::Ratio.word()) && effect >= margin {
                seen.reached += 1;
                seen.false_equivalent += is("equivalent");
                seen.false_not_higher += is("not_higher");
            }
        }
        seen
    }
}

/// A table whose answer depends on tests.
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
    /// Whether its sides should not differ. Its findings are then not verdicts of the study.
    pub(super) check: bool,
    /// The tables it is made from, in order, or the reason why they cannot be simulated.
    pub(super) steps: Result<Vec<Step<'a>>, String>,
}

/// The question itself.
#[derive(PartialEq)]
enum Kind {
    /// Does the first side differ?
    Difference,
    /// At which value of this ladder does the winner change?
    Crossover { ladder: String },
    /// Which contenders differ?
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
        let planned_tables: serde_json::Map<String, Json> = planned
            .iter()
            .map(|p| (p.name.clone(), Json::Null))
            .collect();
        let shares = Shares::of(&study.parameters);
        let question_of = |table: &'a Planned| {
            let kind = Kind::of(table)?;
            let (given, pair) = (&table.parameters, &table.parameters["pair"]);
            let columns = match &given["column"] {
                Json::String(one) => vec![one.clone()],
                _ => {
                    let all = given["columns"].as_array().into_iter().flatten();
                    all.map(text).collect()
                }
            };
            let (axis, a, b) = match kind {
                Kind::Ranking => (
                    text(&given["among"]),
                    String::new(),
                    "the others".to_owned(),
                ),
                _ => (text(&pair["axis"]), text(&pair["a"]), text(&pair["b"])),
            };
            let sides = [a.clone(), b.clone()];
            Some(Self {
                table,
                check: given["family"] == "check" || shares.is_control(&axis, &sides),
                kind,
                from: text(&given["from"]),
                axis,
                a,
                b,
                columns,
                lower: given["better"] == "lower",
                steps: steps(study, planned, &planned_tables, table),
            })
        };
        planned.iter().filter_map(question_of).collect()
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
            check: self.check,
            level_of_its_own: matches!(
                self.table.parameters["family"].as_str(),
                Some("table" | "per-column")
            ),
            refused: self.steps.as_ref().err().cloned(),
            shared_launches: self.shared_launches(),
            rows: 0,
            at: match &self.steps {
                Ok(_) => effects.iter().map(at).collect(),
                Err(_) => Vec::new(),
            },
        }
    }

    /// Returns the units of the table that share launches.
    fn shared_launches(&self) -> Option<SharedLaunches> {
        let unit = self.table.parameters["unit"].as_array()?.iter();
        let unit: Vec<String> = unit.map(text).collect();
        let sides: &[&str] = match self.kind {
            Kind::Ranking => &[],
            _ => &[&self.a, &self.b],
        };
        let mut steps = self.steps.iter().flatten();
        steps.find_map(|step| match step {
            Step::Cells { load, .. } => launches::shared(load, (&self.axis, sides), &unit),
            Step::Table(_) => None,
        })
    }

    /// Whether another question applies its effect to the same numbers.
    pub(super) fn changes_the_same(&self, other: &Self) -> bool {
        let asked = |q: &Self| (q.from.clone(), q.axis.clone(), q.a.clone());
        let turned = self.kind == Kind::Difference || self.lower == other.lower;
        self.kind == other.kind && asked(self) == asked(other) && turned
    }

    /// Whether its effect applies to the numbers of this table.
    pub(super) fn reads(&self, table: &str) -> bool {
        self.from == table
    }

    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Applies an effect to the first side in some columns of the source table.
    ///
    /// # Errors
    /// If the table has no such sides.
    pub(super) fn change(
        &self,
        from: &mut Frame,
        columns: &[String],
        effect: f64,
    ) -> Result<(), String> {
        let side = self.position(from, &self.axis)?;
        match &self.kind {
            Kind::Difference => {
                let by = |key: &[Scalar]| match key[side].to_string() == self.a {
                    true => 1.0 + effect,
                    false => 1.0,
                };
                from.multiply(columns, by);
            }
            Kind::Crossover { ladder } => {
                let (at, middle) = (self.position(from, ladder)?, self.middle(from, ladder)?);
                let by = |key: &[Scalar]| match key[at].as_f64() {
                    _ if key[side].to_string() != self.a => 1.0,
                    Some(n) if n > middle => 1.0 + effect,
                    _ => 1.0 / (1.0 + effect),
                };
                from.multiply(columns, by);
            }
            Kind::Ranking => {
                let first = from.rows.first().map(|row| row.key[side].to_string());
                let better = match self.lower {
                    true => 1.0 / (1.0 + effect),
                    false => 1.0 + effect,
                };
                let by = |key: &[Scalar]| match Some(key[side].to_string()) == first {
                    true => better,
                    false => 1.0,
                };
                from.multiply(columns, by);
            }
        }
        Ok(())
    }

    /// Counts the findings of the table at an effect.
    ///
    /// # Errors
    /// If the table could not be made or cannot answer.
    pub(super) fn seen(
        &self,
        tables: &BTreeMap<String, Frame>,
        effect: f64,
    ) -> Result<Seen, String> {
        let from = tables
            .get(&self.from)
            .ok_or("the table it reads is not made")?;
        let side = self.position(from, &self.axis)?;
        let made = tables.get(&self.table.name).ok_or("it is not made")?;
        Ok(match &self.kind {
            Kind::Difference => self.difference(made, effect),
            Kind::Crossover { ladder } => self.crossover(made, effect, self.middle(from, ladder)?),
            Kind::Ranking => {
                let first = from.rows.first().map(|row| row.key[side].to_string());
                let among = made.key_position(&self.axis, &self.table.name);
                let among = among.map_err(|failure| failure.reason)?;
                ranking(made, among, &first.unwrap_or_default(), effect)
            }
        })
    }

    fn position(&self, from: &Frame, name: &str) -> Result<usize, String> {
        let position = from.keys.iter().position(|key| key == name);
        position.ok_or_else(|| format!("`{name}` is not a key of `{}`", self.from))
    }

    /// Returns the value of the ladder after which the winner changes.
    fn middle(&self, from: &Frame, ladder: &str) -> Result<f64, String> {
        let rungs = rungs(from, self.position(from, ladder)?)?;
        let [.., _, _] = rungs.as_slice() else {
            return Err("one value on the ladder has no crossover".to_owned());
        };
        Ok(rungs[(rungs.len() - 1) / 2])
    }

    /// The margins that are shares.
    pub(super) fn margins(&self) -> Vec<f64> {
        let given = &self.table.parameters;
        let share = given["scale"] != Scale::Difference.word() && self.kind == Kind::Difference;
        let margins = given["margin"].as_object().into_iter().flatten();
        let margins = margins.filter_map(|(_, margin)| margin.as_f64());
        margins.filter(|_| share && self.steps.is_ok()).collect()
    }

    fn difference(&self, frame: &Frame, effect: f64) -> Seen {
        let mut seen = Seen {
            rows: frame.rows.len(),
            margins: Margins::of(frame, effect),
            ..Seen::default()
        };
        for row in 0..frame.rows.len() {
            let text = |column: &str| frame.value(row, column).map(ToString::to_string);
            match text("verdict").and_then(|word| Verdict::parse(&word).ok()) {
                Some(Verdict::Different) => {
                    seen.different += 1;
                    seen.detected += u64::from(text("higher").as_ref() == Some(&self.a));
                }
                Some(Verdict::Equivalent) => seen.equivalent += 1,
                Some(Verdict::Undecidable) => {
                    seen.undecidable += 1;
                    seen.refusal = seen.refusal.or_else(|| text("verdict_reason"));
                }
                Some(Verdict::NoEvidence) | None => {}
            }
        }
        seen
    }

    /// Without an effect, any winner is false. With one, only a change of the winner around the middle is true.
    fn crossover(&self, frame: &Frame, effect: f64, middle: f64) -> Seen {
        let mut seen = Seen {
            rows: frame.rows.len(),
            ..Seen::default()
        };
        let after = if self.lower { &self.b } else { &self.a };
        for row in 0..frame.rows.len() {
            let text = |column: &str| frame.value(row, column).map(ToString::to_string);
            let resolution = text("resolution").unwrap_or_default();
            if let Some(why) = why_undecidable(&resolution) {
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
            seen.detected += u64::from(there && text("winner_after").as_ref() == Some(after));
        }
        seen
    }
}

/// Without an effect, any distinction is false. With one, the first must differ from all others and be the best.
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
            let is_shown = shown == Some(1.0) && alone;
            seen.detected += u64::from(is_shown);
            seen.different += u64::from(is_shown || shown.is_some_and(|rank| rank > 1.0));
        }
    }
    seen
}

/// Returns the values of a ladder in rising order.
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

/// Returns the tables behind a question, in order.
fn steps<'a>(
    study: &'a Study,
    planned: &'a [Planned],
    planned_tables: &serde_json::Map<String, Json>,
    table: &Planned,
) -> Result<Vec<Step<'a>>, String> {
    let mut wanted: BTreeSet<String> = sources(&table.parameters, planned_tables)
        .into_iter()
        .collect();
    // Every table comes after those it is made from.
    for earlier in planned.iter().rev().filter(|p| p.name != table.name) {
        if wanted.contains(&earlier.name) {
            wanted.extend(sources(&earlier.parameters, planned_tables));
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
        } else if sources(&step.parameters, planned_tables).is_empty() {
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
