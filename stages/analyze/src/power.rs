//! How often would the verdicts of a study be wrong, and what would they find? Its design is simulated:
//! the cells it plans, its units, families and margins, with noise of launches and of cells. The
//! comparisons are made by the operators that make them of measured rows.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::Scalar;
use contract::Settings;
use pipeline::{Control, Coordinates, Failure, Json, Library};
use rayon::prelude::*;
use serde::Serialize;
use statistics::Normals;

use crate::frame::{Frame, Level, Row, Spec, Type};
use crate::kind::{Planned, operator, planned, sources};
use crate::operator::{Context, Scope};
use crate::surroundings::Surroundings;

/// The operators whose tables have a row for each load cell, and are simulated themselves.
const OF_CELLS: [&str; 1] = ["cell-summary"];

/// The operators that end in a verdict.
const VERDICTS: [&str; 2] = ["paired-comparison", "unpaired-comparison"];

/// What every simulated number is without noise.
const BASE: f64 = 100.0;

/// A load stage as it is planned.
#[derive(Clone, Debug)]
pub struct LoadStage {
    /// Its name.
    pub stage: String,
    /// Its cells, and what tells the launch of each from others; `None` where every cell is a launch
    /// of its own.
    pub cells: Vec<(Coordinates, Option<String>)>,
}

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Study {
    /// The canonical parameters of the analyze stage.
    pub parameters: Json,
    /// The load stages it needs.
    pub loads: Vec<LoadStage>,
    /// The standard deviation of the logarithm of a launch's result.
    pub launch_noise: f64,
    /// The same of a cell, within its launch.
    pub cell_noise: f64,
    /// The seed of the noise.
    pub seed: u64,
}

/// What the simulation found for one table of comparisons.
#[derive(Clone, Debug, Serialize)]
pub struct Simulated {
    /// The table.
    pub table: String,
    /// Its operator.
    pub operator: String,
    /// The side that effects are given to.
    pub a: String,
    /// The side it is compared with.
    pub b: String,
    /// Why the table cannot be simulated, or why every verdict is `undecidable`; else null.
    pub refused: Option<String>,
    /// Comparisons in the table.
    pub rows: usize,
    /// What was found at each effect; that of 0 comes first. Empty if the table cannot be simulated.
    pub at: Vec<AtEffect>,
}

/// What was found at one true effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct AtEffect {
    /// By what share the first side is larger: 0.1 is 10 %.
    pub effect: f64,
    /// Studies in which any row is `different`; of an effect of 0, the false ones.
    pub any_different: u64,
    /// Studies in which any row is `different` in the wrong direction; of an effect of 0, none.
    pub any_wrong: u64,
    /// Rows, over all studies, that are `different` in the right direction; of an effect of 0, none.
    pub rows_found: u64,
    /// Rows, over all studies, that are `equivalent`.
    pub rows_equivalent: u64,
    /// Rows, over all studies, that are `undecidable`.
    pub rows_undecidable: u64,
}

/// What the simulation of a study found.
#[derive(Clone, Debug, Serialize)]
pub struct Power {
    /// Simulated studies.
    pub studies: u64,
    /// Studies without any effect in which any row of any table is `different`.
    pub any_different: u64,
    /// Each table of comparisons.
    pub tables: Vec<Simulated>,
}

/// Simulates so many studies, and looks what is found at no effect and at each of `effects`. Every number
/// of the cells is lognormal: a launch's part, shared by its cells, and a cell's own. An effect
/// multiplies the compared columns of the first side.
///
/// # Errors
/// If the parameters are not canonical, or the user stopped it.
pub fn simulate(
    study: &Study,
    effects: &[f64],
    studies: u64,
    control: &Control,
) -> Result<Power, Failure> {
    let all = planned(&study.parameters)?;
    let comparisons = Comparison::all(study, &all);
    let effects: Vec<f64> = std::iter::once(0.0)
        .chain(effects.iter().copied())
        .collect();
    let one = |number: u64| -> Result<Vec<Result<Vec<Seen>, String>>, Failure> {
        control.check()?;
        let seen = comparisons.iter().map(|comparison| {
            let steps = comparison.steps.as_ref().map_err(Clone::clone)?;
            let mut normals = Normals::new(study.seed, number);
            let tables = made(study, steps, control, &mut normals)?;
            effects
                .iter()
                .map(|effect| comparison.seen(&tables, *effect, study.seed, control))
                .collect()
        });
        Ok(seen.collect())
    };
    let seen: Vec<Result<_, Failure>> = (0..studies).into_par_iter().map(one).collect();
    let mut power = Power {
        studies,
        any_different: 0,
        tables: comparisons.iter().map(|c| c.empty(&effects)).collect(),
    };
    for study in seen {
        let study = study?;
        let any =
            |seen: &Result<Vec<Seen>, String>| seen.as_ref().is_ok_and(|s| s[0].different > 0);
        power.any_different += u64::from(study.iter().any(any));
        for (sum, seen) in power.tables.iter_mut().zip(study) {
            sum.add(seen);
        }
    }
    for table in &mut power.tables {
        if table.refused.is_some() && table.at.iter().any(|at| at.decided(table.rows, studies)) {
            table.refused = None;
        }
    }
    Ok(power)
}

impl AtEffect {
    /// Whether any row of any study was not `undecidable`.
    fn decided(&self, rows: usize, studies: u64) -> bool {
        self.rows_undecidable < rows as u64 * studies
    }
}

impl Simulated {
    fn add(&mut self, seen: Result<Vec<Seen>, String>) {
        let seen = match seen {
            Ok(seen) => seen,
            Err(why) => {
                self.refused = Some(why);
                self.at.clear();
                return;
            }
        };
        for (sum, seen) in self.at.iter_mut().zip(seen) {
            self.rows = self.rows.max(seen.rows);
            sum.any_different += u64::from(seen.different > 0);
            if sum.effect != 0.0 {
                sum.any_wrong += u64::from(seen.different > seen.found);
                sum.rows_found += seen.found;
            }
            sum.rows_equivalent += seen.equivalent;
            sum.rows_undecidable += seen.undecidable;
            if let Some(why) = seen.refusal {
                self.refused.get_or_insert(why);
            }
        }
    }
}

/// The verdicts of one table of one study.
#[derive(Default)]
struct Seen {
    rows: usize,
    different: u64,
    /// Those with the first side higher.
    found: u64,
    equivalent: u64,
    undecidable: u64,
    /// Why a row is undecidable.
    refusal: Option<String>,
}

/// A table of comparisons.
struct Comparison<'a> {
    table: &'a Planned,
    from: String,
    axis: String,
    a: String,
    b: String,
    columns: Vec<String>,
    /// The tables that it is made from, in order; or why they cannot be simulated.
    steps: Result<Vec<Step<'a>>, String>,
}

/// One table on the way to a comparison.
enum Step<'a> {
    /// The cells of a load stage, simulated.
    Cells {
        name: &'a str,
        load: &'a LoadStage,
        specs: Vec<Spec>,
    },
    /// Made from tables before it.
    Table(&'a Planned),
}

/// Definitions are in the canonical parameters already.
struct NoLibrary;

impl Library for NoLibrary {
    fn find(&self, _: &str, _: &str) -> Option<Json> {
        None
    }

    fn names(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

impl<'a> Comparison<'a> {
    fn all(study: &'a Study, planned: &'a [Planned]) -> Vec<Self> {
        let known: serde_json::Map<String, Json> = planned
            .iter()
            .map(|p| (p.name.clone(), Json::Null))
            .collect();
        let of = |table: &'a Planned| {
            let text = |value: &Json| match value {
                Json::String(text) => text.clone(),
                other => other.to_string(),
            };
            let (given, pair) = (&table.parameters, &table.parameters["pair"]);
            let columns = given["columns"].as_array().into_iter().flatten();
            Self {
                table,
                from: text(&given["from"]),
                axis: text(&pair["axis"]),
                a: text(&pair["a"]),
                b: text(&pair["b"]),
                columns: columns.map(text).collect(),
                steps: steps(study, planned, &known, table),
            }
        };
        let comparisons = planned
            .iter()
            .filter(|p| VERDICTS.contains(&p.operator.as_str()));
        comparisons.map(of).collect()
    }

    fn empty(&self, effects: &[f64]) -> Simulated {
        let at = |effect: &f64| AtEffect {
            effect: *effect,
            ..AtEffect::default()
        };
        Simulated {
            table: self.table.name.clone(),
            operator: self.table.operator.clone(),
            a: self.a.clone(),
            b: self.b.clone(),
            refused: self.steps.as_ref().err().cloned(),
            rows: 0,
            at: match &self.steps {
                Ok(_) => effects.iter().map(at).collect(),
                Err(_) => Vec::new(),
            },
        }
    }

    /// Makes the table with an effect on the first side, and looks at its verdicts.
    fn seen(
        &self,
        tables: &BTreeMap<String, Frame>,
        effect: f64,
        seed: u64,
        control: &Control,
    ) -> Result<Seen, String> {
        let from = tables
            .get(&self.from)
            .ok_or("the table it reads is not made")?;
        let key = from.keys.iter().position(|key| *key == self.axis);
        let key = key.ok_or_else(|| format!("`{}` is no key of `{}`", self.axis, self.from))?;
        let mut changed = from.clone();
        if effect != 0.0 {
            changed.multiply(&self.columns, (key, &self.a), 1.0 + effect);
        }
        let tables = BTreeMap::from([(self.from.clone(), changed)]);
        let frame = run(self.table, &tables, seed, control)?;
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
        Ok(seen)
    }
}

/// Makes one table of others.
fn run(
    table: &Planned,
    tables: &BTreeMap<String, Frame>,
    seed: u64,
    control: &Control,
) -> Result<Frame, String> {
    let operator = operator(&table.operator).ok_or("there is no such operator")?;
    let context = Context {
        loads: &[],
        surroundings: &Surroundings::new(&[]),
        tables,
        seed,
        control,
    };
    let frame = operator.run(&table.parameters, &context);
    let frame = frame.and_then(Frame::settle);
    frame.map_err(|failure| format!("table `{}`: {}", table.name, failure.reason))
}

/// Returns the tables that a comparison is made from, in order.
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

/// Returns how the cells of a load stage become a table.
fn cells<'a>(study: &'a Study, step: &'a Planned) -> Result<Step<'a>, String> {
    let named = step.parameters["load"].as_str();
    let load = match named {
        Some(name) => study.loads.iter().find(|l| l.stage == name),
        None => study.loads.first(),
    };
    let load = load.ok_or_else(|| format!("table `{}`: there is no such load stage", step.name))?;
    let operator = operator(&step.operator).ok_or("there is no such operator")?;
    let settings = Settings {
        values: step.parameters.as_object().cloned().unwrap_or_default(),
        route: &[],
        what: step.name.clone(),
    };
    let scope = Scope {
        earlier: &BTreeMap::new(),
        broken: &[],
        later: &[],
        library: &NoLibrary,
    };
    let plan = operator.plan(&settings, &scope);
    let plan = plan.map_err(|_| format!("table `{}` cannot be planned", step.name))?;
    Ok(Step::Cells {
        name: &step.name,
        load,
        specs: plan.columns,
    })
}

/// Makes the tables that a comparison reads, with noise and without an effect.
fn made(
    study: &Study,
    steps: &[Step<'_>],
    control: &Control,
    normals: &mut Normals,
) -> Result<BTreeMap<String, Frame>, String> {
    let mut tables = BTreeMap::new();
    for step in steps {
        let (name, frame) = match step {
            Step::Cells { name, load, specs } => {
                let frame = drawn(study, load, specs, normals);
                let frame = frame.settle().map_err(|failure| failure.reason)?;
                ((*name).to_owned(), frame)
            }
            Step::Table(table) => {
                let frame = run(table, &tables, study.seed, control)?;
                (table.name.clone(), frame)
            }
        };
        tables.insert(name, frame);
    }
    Ok(tables)
}

/// Draws a number for each cell and column.
fn drawn(study: &Study, load: &LoadStage, specs: &[Spec], normals: &mut Normals) -> Frame {
    let mut launches: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let parts = |normals: &mut Normals| -> Vec<f64> {
        let part = |_: &Spec| study.launch_noise * normals.draw();
        specs.iter().map(part).collect()
    };
    let mut rows = Vec::new();
    for (at, launch) in &load.cells {
        let shared = match launch {
            Some(launch) => launches
                .entry(launch)
                .or_insert_with(|| parts(normals))
                .clone(),
            None => parts(normals),
        };
        let value = |(spec, shared): (&Spec, f64)| match spec.kind {
            Type::Float => Scalar::Float(BASE * (shared + study.cell_noise * normals.draw()).exp()),
            Type::Int => Scalar::Int(BASE as i64),
            Type::Bool => Scalar::Bool(true),
            Type::Text => Scalar::Null,
        };
        let values = specs.iter().zip(shared).map(value).collect();
        let key = at.0.iter().map(|(_, label)| label.clone()).collect();
        rows.push(Row::new(key, values, Vec::new()));
    }
    let axes = load.cells.first();
    Frame {
        level: Level::Cell,
        keys: axes.map_or(Vec::new(), |(at, _)| {
            at.0.iter().map(|(axis, _)| axis.clone()).collect()
        }),
        specs: specs.to_vec(),
        rows,
        missing: Vec::new(),
    }
}
