//! `outlying-launches`: is one launch of a condition unlike the others, in the figures that the study compares?

use std::collections::{BTreeMap, BTreeSet};

use contract::Settings;
use pipeline::suggest::remedy;
use pipeline::{Problem, Step};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{LEAST_FOR_AN_OUTLIER, Outlier, holm, outlier, outlier_ratio};

use crate::figure::Figure;
use crate::finding::{Judgement, Outcome, Severity};
use crate::gate::{Assessment, TypedGate, percent, share, show};
use crate::replicates;
use crate::series::median;
use crate::study::{Cell, Stage};

pub(crate) struct OutlyingLaunches;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The figures to judge, named like columns of `cell-summary`: `request_throughput`, `output_throughput`,
    /// `total_throughput`, or a metric of requests with `_mean`, `_p50`, `_p90`, `_p95` or `_p99`.
    #[serde(default = "throughput")]
    columns: Vec<String>,
    /// The axis whose labels are the launches. By default, a launch is a start of the server if the verify stage also
    /// needs the serve stage, and otherwise a label of `block` or, without it, of `rep`.
    #[serde(default)]
    axis: Option<String>,
    /// The probability of any false alarm per load stage.
    #[serde(default = "twentieth")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    alpha: f64,
    /// A launch matters if it differs from the median of the others by at least this share.
    #[serde(default = "twentieth")]
    #[schemars(range(min = 0, max = 1))]
    effect: f64,
}

fn throughput() -> Vec<String> {
    vec!["output_throughput".to_owned()]
}

fn twentieth() -> f64 {
    0.05
}

/// The smallest credible range of launches, on the log scale: clocks and schedulers cause this much.
const LEAST_RANGE: f64 = 0.005;

impl TypedGate for OutlyingLaunches {
    type Parameters = Parameters;
    const NAME: &'static str = "outlying-launches";
    const SUMMARY: &'static str = "\
        All launches of a condition agree in the figures that the study compares. Do not leave a launch out because \
        of this gate alone: if an engine sometimes starts slowly, that is a result.\n\n\
        For each figure, a launch has one value: the mean of the logarithm over its cells, at the coordinates that \
        all launches of the condition have. The statistic is Dixon's ratio: the distance from a launch to the nearest \
        other launch, divided by the range of the others. The p value is that of launches with an exponential tail, \
        so skewed noise raises no more false alarms than normal noise. Holm adjusts it over conditions and figures. \
        Each condition is compared only with itself, so conditions may differ in their noise.\n\n\
        The gate needs three launches of a condition. With three, it finds only a launch that is many times as far \
        away as the others are from each other. With five or more, it finds most launches that are 25 standard \
        deviations away. `outlying-repeats` finds smaller differences of latencies, but assumes normal noise that is \
        the same in all cells.";
    const SEVERITY: Severity = Severity::Warn;

    fn check(&self, parameters: &Parameters, settings: &Settings<'_>) -> Vec<Problem> {
        let mut problems = Vec::new();
        let columns = || Step::Key("columns".to_owned());
        if parameters.columns.is_empty() {
            problems.push(
                settings
                    .problem(&[columns()], "`columns` names no figure")
                    .hint("write, for example, `columns: [output_throughput, ttft_ms_p50]`"),
            );
        }
        let names = Figure::names();
        let offered: Vec<&str> = names.iter().map(String::as_str).collect();
        for (i, name) in parameters.columns.iter().enumerate() {
            let place = [columns(), Step::Index(i)];
            if Figure::named(name).is_none() {
                let message = format!("`{name}` is not a figure that this gate can judge");
                let problem = settings.problem(&place, message);
                problems.push(problem.hint(remedy(name, "figures", &offered)));
            } else if parameters.columns[..i].contains(name) {
                problems.push(settings.problem(&place, format!("`{name}` is listed twice")));
            }
        }
        problems
    }

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        let expected = format!(
            "no launch of a condition unlike the others in {}",
            parameters.columns.join(", ")
        );
        let conditions = conditions(parameters, stage);
        if conditions.is_empty() {
            let why = match &parameters.axis {
                Some(axis) => format!("no cell has a label on the axis {axis}"),
                None => "no cell belongs to a launch: the stage needs an axis `block` or `rep`, or the verify stage must \
                         need the serve stage"
                    .to_owned(),
            };
            return vec![Assessment::not_judged(why, expected).of_stage()];
        }
        let mut families: Vec<Family<'_>> = Vec::new();
        for column in &parameters.columns {
            let figure = Figure::named(column);
            for condition in &conditions {
                let values = figure.map(|figure| condition.values(figure, stage));
                families.push(Family::new(
                    column,
                    figure.map_or("", Figure::unit),
                    condition,
                    values.unwrap_or_default(),
                ));
            }
        }
        let p: Vec<f64> = families
            .iter()
            .filter_map(|f| Some(f.test.as_ref()?.p))
            .collect();
        let mut adjusted = holm(&p).into_iter();
        let tests = p.len();
        let mut said: BTreeMap<usize, Said> = BTreeMap::new();
        for family in &families {
            let p = family.test.and_then(|_| adjusted.next());
            for (launch, cells) in family.condition.launches.values().enumerate() {
                let line = family.judge(launch, p, tests, parameters);
                for cell in cells {
                    said.entry(*cell).or_default().add(line.clone());
                }
            }
        }
        let judged = said.into_iter();
        judged
            .map(|(cell, said)| said.assessed(&expected).of_cell(cell))
            .collect()
    }
}

/// What the figures say about one launch.
#[derive(Default)]
struct Said {
    lines: Vec<(Outcome, String)>,
}

impl Said {
    fn add(&mut self, line: (Outcome, String)) {
        self.lines.push(line);
    }

    /// Returns a failure if any figure fails, otherwise a pass if any passes. Failures come first in the text.
    fn assessed(self, expected: &str) -> Assessment {
        let lines_of = |outcome| {
            let lines = self.lines.iter().filter(move |(o, _)| *o == outcome);
            lines.map(|(_, line)| line.as_str())
        };
        let (failed, passed) = (
            lines_of(Outcome::Fail).count(),
            lines_of(Outcome::Pass).count(),
        );
        let mut text: Vec<&str> = lines_of(Outcome::Fail).collect();
        if failed > 0 {
            text.push(
                "Look at what else ran during this launch, and measure more launches. If you leave this one out, \
                 name it in the report, with the reason",
            );
            return Assessment::new(false, text.join(". "), expected);
        }
        text = lines_of(Outcome::Pass)
            .chain(lines_of(Outcome::NotJudged))
            .collect();
        match passed {
            0 => Assessment::not_judged(text.join(". "), expected),
            _ => Assessment::new(true, text.join(". "), expected),
        }
    }
}

/// A condition: what is launched again and again.
struct Condition {
    /// Its coordinates, without those of its launches.
    name: String,
    /// The ok cells of each launch.
    launches: BTreeMap<String, Vec<usize>>,
    /// The coordinates of each cell without repetitions.
    levels: BTreeMap<usize, String>,
}

/// Returns the conditions of a stage with their launches.
fn conditions(parameters: &Parameters, stage: &Stage<'_>) -> Vec<Condition> {
    let axes = replicates::axes(stage, parameters.axis.as_deref());
    let mut conditions: BTreeMap<String, Condition> = BTreeMap::new();
    for (i, cell) in stage.cells.iter().enumerate().filter(|(_, c)| c.is_ok()) {
        let Some((name, launch)) = place(cell, &axes, parameters.axis.is_some()) else {
            continue;
        };
        let condition = conditions.entry(name.clone()).or_insert_with(|| Condition {
            name,
            launches: BTreeMap::new(),
            levels: BTreeMap::new(),
        });
        condition.launches.entry(launch).or_default().push(i);
        condition.levels.insert(i, replicates::rest(cell, &axes));
    }
    conditions.into_values().collect()
}

/// Returns the names of the condition and the launch to which a cell belongs. `axes` are the axes of repetitions,
/// outermost first; with `given`, the first one decides alone what a launch is.
fn place(cell: &Cell<'_>, axes: &[String], given: bool) -> Option<(String, String)> {
    let label = || {
        let axis = axes.first()?;
        let label = cell.input.coordinates.get(axis)?;
        Some(format!("{axis}={label}"))
    };
    match &cell.server {
        Some(server) => {
            let condition = server
                .coordinates
                .without(|name| axes.iter().any(|axis| axis == name))
                .to_string();
            let launch = match given {
                true => label()?,
                false => server.coordinates.to_string(),
            };
            Some((condition, launch))
        }
        None => Some((replicates::rest(cell, axes), label()?)),
    }
}

impl Condition {
    /// Returns a value for each launch, in order: the mean logarithm of the figure over the coordinates at which every
    /// launch with a value has one. Cells at the same coordinate count as one. `None` for a launch without a value.
    fn values(&self, figure: Figure, stage: &Stage<'_>) -> Vec<Option<f64>> {
        type Levels<'a> = BTreeMap<&'a str, Vec<f64>>;
        let of_launch = |cells: &Vec<usize>| -> Levels<'_> {
            let mut levels = Levels::new();
            for cell in cells {
                let rows = match figure {
                    Figure::Throughput(_) => stage.cells[*cell].answers(),
                    Figure::Statistic(..) => stage.cells[*cell].rows(),
                };
                let value = rows.and_then(|rows| figure.of(&rows));
                if let Some(value) = value.filter(|v| *v > 0.0) {
                    let level = self.levels.get(cell).map_or("", String::as_str);
                    levels.entry(level).or_default().push(value.ln());
                }
            }
            levels
        };
        let launches: Vec<Levels<'_>> = self.launches.values().map(of_launch).collect();
        let mut common: Option<BTreeSet<&str>> = None;
        for levels in launches.iter().filter(|l| !l.is_empty()) {
            let here: BTreeSet<&str> = levels.keys().copied().collect();
            common = Some(match common {
                Some(common) => common.intersection(&here).copied().collect(),
                None => here,
            });
        }
        let common = common.unwrap_or_default();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let value = |levels: &Levels<'_>| {
            let logs = common
                .iter()
                .filter_map(|level| Some(mean(levels.get(level)?)));
            let logs: Vec<f64> = logs.collect();
            (!logs.is_empty()).then(|| mean(&logs))
        };
        launches.iter().map(value).collect()
    }
}

/// One figure of one condition, over its launches.
struct Family<'a> {
    column: &'a str,
    unit: &'static str,
    condition: &'a Condition,
    /// The mean logarithm of each launch.
    values: Vec<Option<f64>>,
    /// The test over the launches with a value; `None` if they are too few.
    test: Option<Outlier>,
}

impl<'a> Family<'a> {
    fn new(
        column: &'a str,
        unit: &'static str,
        condition: &'a Condition,
        values: Vec<Option<f64>>,
    ) -> Self {
        let valued: Vec<usize> = (0..values.len()).filter(|i| values[*i].is_some()).collect();
        let logs: Vec<f64> = values.iter().copied().flatten().collect();
        let test = outlier(&logs, LEAST_RANGE).ok().map(|extreme| Outlier {
            at: valued[extreme.at],
            ..extreme
        });
        Self {
            column,
            unit,
            condition,
            values,
            test,
        }
    }

    /// Returns ` of NAME` for a condition with a name.
    fn of_condition(&self) -> String {
        match self.condition.name.as_str() {
            "" => String::new(),
            name => format!(" of {name}"),
        }
    }

    /// Judges one launch, given the p value adjusted over this many tests.
    fn judge(
        &self,
        launch: usize,
        p: Option<f64>,
        tests: usize,
        parameters: &Parameters,
    ) -> (Outcome, String) {
        let Self { column, unit, .. } = self;
        let others = self.values.iter().enumerate().filter(|(i, _)| *i != launch);
        let others: Vec<f64> = others.filter_map(|(_, value)| *value).collect();
        let own = self.values.get(launch).copied().flatten();
        let Some(own) = own else {
            return (Outcome::NotJudged, format!("this launch has no {column}"));
        };
        let (Some(test), Some(p), Some(middle)) = (self.test, p, median(&others)) else {
            let n = others.len() + 1;
            let (noun, are) = if n == 1 {
                ("launch", "is")
            } else {
                ("launches", "are")
            };
            let what = format!(
                "{n} {noun}{} with {column} {are} too few: {LEAST_FOR_AN_OUTLIER} are needed to find one unlike the others",
                self.of_condition()
            );
            return (Outcome::NotJudged, what);
        };
        let change = own - middle;
        let fold = |f: fn(f64, f64) -> f64, from: f64| others.iter().copied().fold(from, f);
        let (low, high) = (
            fold(f64::min, f64::INFINITY),
            fold(f64::max, f64::NEG_INFINITY),
        );
        let off = format!(
            "{column} {} {unit}, {} from the median of the {} other launches{}",
            show(own.exp()),
            percent(change.exp() - 1.0),
            others.len(),
            self.of_condition()
        );
        let unlike = test.at == launch && p <= parameters.alpha;
        if unlike && change.abs() > parameters.effect.ln_1p() {
            let far = format!(
                "{off}, which lie between {} and {}. It is {} times their range beyond the nearest, on the log scale; p {} \
                 adjusted over {tests} {}",
                show(low.exp()),
                show(high.exp()),
                show(test.ratio),
                show(p),
                if tests == 1 { "test" } else { "tests" },
            );
            return (Outcome::Fail, far);
        }
        // The first step of Holm's procedure, which the most distant launch of all must pass.
        let needed = outlier_ratio(others.len() + 1, parameters.alpha / tests as f64);
        let beyond = needed * (high - low).max(LEAST_RANGE);
        let seen = beyond.exp() - 1.0;
        let least = match seen < 10.0 {
            true => format!(
                "A launch at least {} beyond the others would stand out",
                share(seen)
            ),
            false => "The other launches are too few or vary too much: only an extreme launch would stand out"
                .to_owned(),
        };
        (Outcome::Pass, format!("{off}. {least}"))
    }
}

#[cfg(test)]
mod tests;
