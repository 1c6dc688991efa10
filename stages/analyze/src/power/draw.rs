//! Synthetic numbers for planned cells, and the number of blocks after which a study ends.

use std::collections::BTreeMap;

use artifacts::Scalar;
use contract::Settings;
use contract::uneven::quantile_of;
use pipeline::relative_half_width;
use pipeline::stage::NoLibrary;
use statistics::{Normals, least_for_quantile, normal_quantile};

use super::{LoadCell, LoadStage, Study};
use crate::frame::{Frame, Level, Row, Spec, Type};
use crate::kind::{Planned, operator};
use crate::operator::Scope;
use crate::operators::units::LEVEL;

/// The operators whose tables have rows for each load cell, and are themselves simulated.
pub(super) const OF_CELLS: [&str; 3] = ["cell-summary", "distribution", "goodput"];

/// Every simulated number without noise.
const BASE: f64 = 100.0;

/// Every share of requests without noise.
const SHARE: f64 = 0.8;

/// The number of measured requests of a cell whose settings do not state it.
const REQUESTS: usize = 100;

/// The number of gaps between tokens in a request.
const GAPS: usize = 10;

/// One table among the inputs of a question.
pub(super) enum Step<'a> {
    /// The simulated cells of a load stage.
    Cells {
        name: &'a str,
        load: &'a LoadStage,
        made: Made,
    },
    /// A table made from earlier ones.
    Table(&'a Planned),
}

/// How the numbers of a table of cells are generated.
pub(super) struct Made {
    specs: Vec<Spec>,
    /// The quantile that each column stands for, in the order of the columns.
    quantiles: Vec<Option<f64>>,
    /// Whether a quantile is printed that too few requests bound.
    print_all: bool,
    /// The objectives of `goodput`, one row each.
    objectives: Vec<String>,
}

/// Describes how the cells of a load stage become a table.
pub(super) fn cells<'a>(study: &'a Study, step: &'a Planned) -> Result<Step<'a>, String> {
    let given = &step.parameters;
    let load = match given["load"].as_str() {
        Some(name) => study.loads.iter().find(|l| l.stage == name),
        None => study.loads.first(),
    };
    let load = load.ok_or_else(|| format!("table `{}`: no such load stage", step.name))?;
    let operator = operator(&step.operator).ok_or("no such operator")?;
    let settings = Settings {
        values: given.as_object().cloned().unwrap_or_default(),
        route: &[],
        what: step.name.clone(),
    };
    let scope = Scope {
        earlier: &BTreeMap::new(),
        broken: &[],
        later: &[],
        keys: &BTreeMap::new(),
        // The canonical parameters already contain the definitions.
        library: &NoLibrary,
    };
    let plan = operator.plan(&settings, &scope);
    let plan = plan.map_err(|_| format!("table `{}` cannot be planned", step.name))?;
    let objectives = given["objectives"].as_array().into_iter().flatten();
    Ok(Step::Cells {
        name: &step.name,
        load,
        made: Made {
            quantiles: plan
                .columns
                .iter()
                .map(|s| Some(quantile_of(&s.name)?.1))
                .collect(),
            specs: plan.columns,
            print_all: given["quantiles"] == "all" || given["print"] == "all",
            objectives: objectives
                .filter_map(|o| o["name"].as_str().map(str::to_owned))
                .collect(),
        },
    })
}

/// Returns the asymptotic standard deviation of the quantile of one normal value; for n values, divide by √n.
fn spread_of_quantile(p: f64) -> f64 {
    let z = normal_quantile(p);
    let density = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
    (p * (1.0 - p)).sqrt() / density
}

/// The numbers of a study that are drawn before its tables.
pub(super) struct Drawn<'a> {
    /// For each cell, by load stage, the logarithm of the figure that ends the study; empty without a rule.
    figures: BTreeMap<&'a str, Vec<f64>>,
    /// The number of measured blocks.
    pub(super) blocks: usize,
}

impl<'a> Drawn<'a> {
    pub(super) fn new(study: &'a Study, normals: &mut Normals) -> Self {
        let launches = study.loads.iter().flat_map(|load| &load.cells);
        let last = launches.filter_map(|cell| Some(cell.seat?.0)).max();
        let all = last.map_or(0, |last| last + 1);
        let mut drawn = Self {
            figures: BTreeMap::new(),
            blocks: all,
        };
        let Some(until) = &study.until else {
            return drawn;
        };
        let mut launches = BTreeMap::new();
        for load in &study.loads {
            let figure = |cell: &LoadCell| {
                let shared = part(cell, &mut launches, || study.launch_noise * normals.draw());
                shared + study.cell_noise * normals.draw()
            };
            let figures = load.cells.iter().map(figure).collect();
            drawn.figures.insert(&load.stage, figures);
        }
        let enough = |blocks: usize| {
            let mut figures: BTreeMap<usize, BTreeMap<usize, Vec<Option<f64>>>> = BTreeMap::new();
            for load in &study.loads {
                for (cell, figure) in load.cells.iter().zip(&drawn.figures[&*load.stage]) {
                    if let Some((block, launch)) = cell.seat.filter(|(b, _)| *b < blocks) {
                        let launch = figures.entry(launch).or_default();
                        launch.entry(block).or_default().push(Some(*figure));
                    }
                }
            }
            let close = |blocks: &BTreeMap<usize, Vec<Option<f64>>>| {
                relative_half_width(blocks).is_some_and(|h| h <= until.relative_half_width)
            };
            !figures.is_empty() && figures.values().all(close)
        };
        drawn.blocks = (until.at_least..all).find(|b| enough(*b)).unwrap_or(all);
        drawn
    }

    /// Makes the tables of cells among the steps, with noise but without an effect.
    pub(super) fn cells(
        &self,
        study: &Study,
        steps: &[&Step<'_>],
        normals: &mut Normals,
    ) -> Result<BTreeMap<String, Frame>, String> {
        let mut tables = BTreeMap::new();
        for step in steps {
            if let Step::Cells { name, load, made } = step {
                let frame = self.frame(study, load, made, normals);
                let frame = frame.settle().map_err(|failure| failure.reason)?;
                tables.insert((*name).to_owned(), frame);
            }
        }
        Ok(tables)
    }

    /// Draws the numbers of each measured cell.
    fn frame(&self, study: &Study, load: &LoadStage, made: &Made, normals: &mut Normals) -> Frame {
        let mut launches: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        let figures = self.figures.get(&*load.stage);
        let mut rows = Vec::new();
        for (number, cell) in load.cells.iter().enumerate() {
            let parts = || {
                let part = |_: &Spec| study.launch_noise * normals.draw();
                made.specs.iter().map(part).collect()
            };
            let shared = part(cell, &mut launches, parts);
            if cell.seat.is_some_and(|(block, _)| block >= self.blocks) {
                continue;
            }
            let until = study.until.as_ref();
            let figure_of = |spec: &Spec| {
                let is_figure = until.is_some_and(|until| until.figure == spec.name);
                figures.filter(|_| is_figure).map(|f| f[number])
            };
            let mut logs: Vec<f64> = Vec::new();
            for (spec, shared) in made.specs.iter().zip(&shared) {
                let own = shared + study.cell_noise * normals.draw();
                logs.push(figure_of(spec).unwrap_or(own));
            }
            let key = cell.at.labels();
            if made.objectives.is_empty() {
                let values = made.values(study, cell, &logs, normals);
                rows.push(Row::new(key.clone(), values, Vec::new()));
            }
            for objective in &made.objectives {
                let key = [key.clone(), vec![Scalar::Text(objective.clone())]].concat();
                let values = made.attained(cell, &logs, normals);
                rows.push(Row::new(key, values, Vec::new()));
            }
        }
        let axes = load.cells.first().map(|cell| cell.at.axes());
        let mut keys = axes.unwrap_or_default();
        keys.extend((!made.objectives.is_empty()).then(|| "objective".to_owned()));
        Frame {
            level: Level::Cell,
            keys,
            specs: made.specs.clone(),
            rows,
            missing: Vec::new(),
        }
    }
}

/// Returns the part that a cell shares with its launch, drawn once per launch.
fn part<T: Clone>(
    cell: &LoadCell,
    launches: &mut BTreeMap<usize, T>,
    draw: impl FnOnce() -> T,
) -> T {
    launches.entry(cell.launch).or_insert_with(draw).clone()
}

impl Made {
    /// Computes the numbers of a cell from their logarithms.
    fn values(
        &self,
        study: &Study,
        cell: &LoadCell,
        logs: &[f64],
        normals: &mut Normals,
    ) -> Vec<Scalar> {
        let requests = cell.requests.unwrap_or(REQUESTS);
        let value = |((spec, p), log): ((&Spec, &Option<f64>), &f64)| match (spec.kind, p) {
            (Type::Float, Some(p)) => {
                let gaps = spec.name.starts_with("itl_") || spec.name.starts_with("icl_");
                let n = requests * if gaps { GAPS } else { 1 };
                if !self.print_all && n < least_for_quantile(*p, LEVEL) {
                    return Scalar::Null;
                }
                let spread = study.request_noise * spread_of_quantile(*p) / (n as f64).sqrt();
                Scalar::Float(BASE * (log + spread * normals.draw()).exp())
            }
            (Type::Float, None) => Scalar::Float(BASE * log.exp()),
            (Type::Int, _) => Scalar::Int(BASE as i64),
            (Type::Bool, _) => Scalar::Bool(true),
            (Type::Text, _) => Scalar::Null,
        };
        let columns = self.specs.iter().zip(&self.quantiles);
        columns.zip(logs).map(value).collect()
    }

    /// Makes a row of `goodput`, in which each request meets the objective or does not.
    fn attained(&self, cell: &LoadCell, logs: &[f64], normals: &mut Normals) -> Vec<Scalar> {
        let requests = cell.requests.unwrap_or(REQUESTS);
        let log = |name: &str| {
            let at = self.specs.iter().position(|spec| spec.name == name);
            at.map_or(0.0, |at| logs[at])
        };
        let chance = (SHARE * log("slo_pass_rate").exp()).min(1.0);
        let threshold = normal_quantile(chance.clamp(1e-9, 1.0 - 1e-9));
        let met = (0..requests)
            .filter(|_| normals.draw() <= threshold)
            .count();
        let share = met as f64 / requests as f64;
        let rate = BASE * log("request_throughput").exp();
        let value = |spec: &Spec| match (spec.name.as_str(), spec.kind) {
            ("slo_pass_rate", _) => Scalar::Float(share),
            ("goodput", _) => Scalar::Float(share * rate),
            ("n_met", _) => Scalar::Int(met as i64),
            ("n_undefined", _) => Scalar::Int(0),
            (_, Type::Int) => Scalar::Int(requests as i64),
            (_, Type::Float) => Scalar::Float(rate),
            (_, Type::Bool) => Scalar::Bool(true),
            (_, Type::Text) => Scalar::Null,
        };
        self.specs.iter().map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_normal_values_varies_a_quarter_more_than_their_mean() {
        let median = spread_of_quantile(0.5);
        assert!((median - (std::f64::consts::PI / 2.0).sqrt()).abs() < 1e-9);
        assert!(spread_of_quantile(0.99) > 2.9 * median);
    }
}
