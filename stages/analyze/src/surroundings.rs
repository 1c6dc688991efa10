//! The conditions under which the cells behind a comparison were measured.
//!
//! A comparison knows rows of tables. Their lineage leads to load cells, beside which the machine was sampled. Nothing
//! is read until a comparison needs it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use artifacts::Table;
use conditions::{
    ALPHA, Compared, Conditions, FirstInEach, Measured, Order, Samples, Start, compared,
};
use contract::LineageSource;
use pipeline::suggest::remedy;
use pipeline::{Coordinates, Failure, Problem, Step};
use rayon::prelude::*;

use crate::clock_steps::UnlikeSteps;
use crate::coarse_sources::CoarseSources;
use crate::frame::{Frame, SourceRows};
use crate::intake::{Load, Rows};
use crate::lost_requests::{self, Asked as Requests, LostRequests, Name};
use crate::operator::{Context, Draft, items};
use crate::operators::units::Scale;

/// The tables with samples taken beside a cell.
const SAMPLED: [&str; 4] = [
    "host_telemetry",
    "gpu_telemetry",
    "process_telemetry",
    "server_host_telemetry",
];

/// The samples taken beside the load cells that enter.
pub(crate) struct Surroundings<'a> {
    loads: &'a [Load<'a>],
    cells: OnceLock<Cells>,
    requests: OnceLock<BTreeMap<Name, Requests>>,
}

/// Cells by stage and coordinates.
type Cells = BTreeMap<Name, Cell>;

struct Cell {
    coordinates: Coordinates,
    conditions: Conditions,
    /// Every row of the tables behind the conditions.
    samples: Vec<SourceRows>,
    /// When the cell started, and the row that says so.
    started: Option<(i64, SourceRows)>,
}

impl<'a> Surroundings<'a> {
    pub(crate) fn new(loads: &'a [Load<'a>]) -> Self {
        Self {
            loads,
            cells: OnceLock::new(),
            requests: OnceLock::new(),
        }
    }

    fn cells(&self) -> Result<&Cells, Failure> {
        if let Some(cells) = self.cells.get() {
            return Ok(cells);
        }
        let mut cells = Cells::new();
        for load in self.loads {
            let one = |(at, rows): &(Vec<artifacts::Scalar>, Rows<'_>)| {
                let at = load.axes.iter().cloned().zip(at.iter().cloned());
                let coordinates = Coordinates(at.collect());
                let key = (load.stage.clone(), coordinates.to_string());
                sampled(rows, coordinates).map(|cell| (key, cell))
            };
            let read: Vec<Result<_, Failure>> = load.cells.par_iter().map(one).collect();
            for cell in read {
                cells.extend([cell?]);
            }
        }
        Ok(self.cells.get_or_init(|| cells))
    }

    /// Counts the requests of all cells once.
    fn requests(&self) -> Result<&BTreeMap<Name, Requests>, Failure> {
        if let Some(requests) = self.requests.get() {
            return Ok(requests);
        }
        let requests = lost_requests::asked(self.loads)?;
        Ok(self.requests.get_or_init(|| requests))
    }
}

/// Reads the samples taken beside one cell.
fn sampled(rows: &Rows<'_>, coordinates: Coordinates) -> Result<Cell, Failure> {
    let mut tables: BTreeMap<&str, (LineageSource, Table)> = BTreeMap::new();
    for name in SAMPLED {
        tables.extend(rows.table(name)?.map(|table| (name, table)));
    }
    let facts = rows.table("cell")?;
    let fact = |name: &str| *facts.as_ref()?.1.int(name).ok()?.first()?;
    let table = |name: &str| tables.get(name).map(|(_, table)| table);
    let samples = Samples {
        host: table(SAMPLED[0]),
        gpu: table(SAMPLED[1]),
        processes: table(SAMPLED[2]),
        server_host: table(SAMPLED[3]),
        window: fact("window_from_ns").zip(fact("window_to_ns")),
    };
    Ok(Cell {
        coordinates,
        conditions: samples.conditions(),
        samples: tables
            .values()
            .map(|(source, table)| SourceRows::of(source, &(0..table.rows())))
            .collect(),
        started: facts.as_ref().and_then(|(source, _)| {
            let row = SourceRows::of(source, &(0..1));
            Some((fact("started_unix_ns")?, row))
        }),
    })
}

/// Reports names in `conditions-may-differ` that are not conditions.
pub(crate) fn problems(draft: &Draft<'_>, may_differ: &[String]) -> Vec<Problem> {
    let names = conditions::names();
    let strange = items("conditions-may-differ", may_differ)
        .into_iter()
        .filter(|(_, name)| !names.contains(name));
    let problem = |(place, name): (Vec<Step>, &str)| {
        let message = format!("unknown condition `{name}`");
        let problem = draft.settings.problem(&place, message);
        problem.hint(remedy(name, "conditions", &names))
    };
    strange.map(problem).collect()
}

/// The sides to compare.
pub(crate) struct Asked<'a> {
    /// The axis whose labels are the sides.
    pub(crate) axis: &'a str,
    /// The labels; if empty, all labels of the axis.
    pub(crate) labels: &'a [String],
    /// The unit axes. Cells are paired within units.
    pub(crate) unit: &'a [String],
    /// The conditions that may differ.
    pub(crate) may_differ: &'a [String],
}

/// Two sides that were measured under different conditions.
#[derive(Clone)]
pub(crate) struct Unlike {
    pub(crate) differing: Vec<Compared>,
    /// The samples that show it.
    pub(crate) samples: Vec<SourceRows>,
}

impl Unlike {
    /// Explains why the sides cannot be compared.
    pub(crate) fn reason(&self) -> String {
        let texts: Vec<String> = self.differing.iter().map(Compared::text).collect();
        format!(
            "the sides were measured under different conditions: {}",
            texts.join("; ")
        )
    }
}

/// Two sides of which one was measured first throughout.
pub(crate) struct OutOfTurn {
    first: String,
    second: String,
    when: Before,
    /// The rows with the starts of the cells.
    pub(crate) starts: Vec<SourceRows>,
}

impl OutOfTurn {
    /// Says what this means for an effect.
    pub(crate) fn note(&self) -> String {
        let Self { first, second, .. } = self;
        let so = "so the effect contains any drift of the machine";
        match &self.when {
            Before::All(share) if *share < 1.0 => {
                let percent = (100.0 * share).floor();
                format!(
                    "{first} was measured before {second} (in {percent:.0} % of the pairs of cells), {so}"
                )
            }
            Before::All(_) => format!("{first} was measured before {second}, {so}"),
            Before::InEach { units, axes } => format!(
                "{first} was measured before {second} in each of the {units} units ({axes}), {so} within a unit"
            ),
        }
    }
}

/// Where one side was measured before the other.
enum Before {
    /// In the whole study: the share of pairs of cells.
    All(f64),
    /// Within each unit, although the units alternate.
    InEach {
        /// The number of units.
        units: usize,
        /// The unit axes.
        axes: String,
    },
}

/// Judges the rows of one operator.
pub(crate) struct Judge<'a> {
    cells: &'a Cells,
    surroundings: &'a Surroundings<'a>,
    tables: &'a BTreeMap<String, Frame>,
    /// The cells behind every row of each table.
    behind: BTreeMap<String, Vec<BTreeSet<Name>>>,
}

impl<'a> Judge<'a> {
    /// Reads the samples, unless they have been read before.
    ///
    /// # Errors
    /// If a table cannot be read.
    pub(crate) fn new(context: &Context<'a>) -> Result<Self, Failure> {
        Ok(Self {
            cells: context.surroundings.cells()?,
            surroundings: context.surroundings,
            tables: context.tables,
            behind: BTreeMap::new(),
        })
    }

    /// Compares the conditions of the sides over the cells behind some rows; `None` if they were alike, or if no
    /// samples exist.
    pub(crate) fn unlike<'s>(
        &mut self,
        asked: &Asked<'_>,
        rows: impl IntoIterator<Item = &'s SourceRows>,
    ) -> Option<Unlike> {
        let mut names = BTreeSet::new();
        for span in rows {
            self.collect(span, &mut names);
        }
        let cells: Vec<(&Cell, Measured)> = names
            .iter()
            .filter_map(|name| {
                let cell = self.cells.get(name)?;
                let label = |axis: &str| cell.coordinates.get(axis).map(ToString::to_string);
                let side = label(asked.axis)?;
                let wanted = asked.labels.is_empty() || asked.labels.contains(&side);
                let unit = asked
                    .unit
                    .iter()
                    .map(|axis| label(axis).unwrap_or_default());
                let measured = Measured {
                    side,
                    unit: unit.collect::<Vec<_>>().join(", "),
                    conditions: cell.conditions.clone(),
                };
                wanted.then_some((cell, measured))
            })
            .collect();
        let measured: Vec<Measured> = cells.iter().map(|(_, m)| m.clone()).collect();
        let mut differing = compared(&measured, ALPHA, asked.may_differ);
        differing.retain(|c| c.differs);
        let mut samples: Vec<SourceRows> =
            cells.iter().flat_map(|(c, _)| c.samples.clone()).collect();
        samples.sort();
        (!differing.is_empty()).then_some(Unlike { differing, samples })
    }

    /// Returns that one of two sides was measured after the other in the cells behind some rows, in the whole study or within
    /// each unit; `None` if each came first at times, or if their starts are not known.
    pub(crate) fn out_of_turn<'s>(
        &mut self,
        (axis, [a, b]): (&str, [&str; 2]),
        units: &[String],
        rows: impl IntoIterator<Item = &'s SourceRows>,
    ) -> Option<OutOfTurn> {
        let mut names = BTreeSet::new();
        for span in rows {
            self.collect(span, &mut names);
        }
        let (mut starts, mut behind) = (Vec::new(), Vec::new());
        for cell in names.iter().filter_map(|name| self.cells.get(name)) {
            let side = cell.coordinates.get(axis).map(ToString::to_string);
            let Some((side, (unix_ns, row))) = side.zip(cell.started.as_ref()) else {
                continue;
            };
            if side != a && side != b {
                continue;
            }
            let own = |name: &str| name == axis || units.iter().any(|unit| unit == name);
            let label = |unit: &String| Some(cell.coordinates.get(unit)?.to_string());
            let unit: Option<Vec<String>> = units.iter().map(label).collect();
            starts.push(Start {
                first: side == a,
                unit: unit
                    .filter(|unit| !unit.is_empty())
                    .map(|unit| unit.join(", ")),
                at: cell.coordinates.without(own).to_string(),
                unix_ns: *unix_ns,
            });
            behind.push(row.clone());
        }
        let ([first, second], when) = match Order::of(&starts)? {
            order if !order.in_turns() => (order.sorted([a, b]), Before::All(order.share)),
            _ => {
                let lead = FirstInEach::of(&starts)?;
                let (units, axes) = (lead.units, units.join(" × "));
                (lead.sorted([a, b]), Before::InEach { units, axes })
            }
        };
        behind.sort();
        Some(OutOfTurn {
            first: first.to_owned(),
            second: second.to_owned(),
            when,
            starts: behind,
        })
    }

    /// Counts the requests that two sides lost in the cells behind some rows; `None` if none was lost.
    ///
    /// # Errors
    /// If rows cannot be read.
    pub(crate) fn lost<'s>(
        &mut self,
        (axis, sides): (&str, [&str; 2]),
        units: &[String],
        column: (&str, Scale),
        rows: impl IntoIterator<Item = &'s SourceRows>,
    ) -> Result<Option<LostRequests>, Failure> {
        let cells = self.requests_behind(rows)?;
        LostRequests::of(
            self.surroundings.loads,
            &cells,
            (axis, sides),
            units,
            column,
        )
    }

    /// Bounds how far the steps in which two sides recorded times, or the values behind the compared figures, could move an
    /// effect over some rows; `None` if they do not.
    ///
    /// # Errors
    /// If rows cannot be read.
    pub(crate) fn steps(
        &mut self,
        (axis, sides): (&str, [&str; 2]),
        units: &[String],
        (column, scale): (&str, Scale),
        rows: &[SourceRows],
    ) -> Result<Option<UnlikeSteps>, Failure> {
        let cells = self.requests_behind(rows)?;
        let loads = self.surroundings.loads;
        let of_times = UnlikeSteps::of(loads, &cells, (axis, sides), (column, scale))?;
        if of_times.is_some() {
            return Ok(of_times);
        }
        let mut sources = CoarseSources::new(self.tables, axis, units);
        let off = sources.of_sides(sides, column, rows);
        Ok(off.map(|off| UnlikeSteps::of_values(off, scale, self.size(column, rows))))
    }

    /// Returns the mean size of a column in some rows.
    fn size(&self, column: &str, rows: &[SourceRows]) -> f64 {
        let (mut sum, mut count) = (0.0, 0.0_f64);
        for span in rows {
            let LineageSource::Table(table) = &span.source else {
                continue;
            };
            if let Some(frame) = self.tables.get(&**table) {
                for value in (span.start..span.end).filter_map(|row| frame.number(row, column)) {
                    (sum, count) = (sum + value.abs(), count + 1.0);
                }
            }
        }
        sum / count.max(1.0)
    }

    /// Returns the requests of the cells behind some rows.
    fn requests_behind<'s>(
        &mut self,
        rows: impl IntoIterator<Item = &'s SourceRows>,
    ) -> Result<Vec<&'a Requests>, Failure> {
        let mut names = BTreeSet::new();
        for span in rows {
            self.collect(span, &mut names);
        }
        let requests = self.surroundings.requests()?;
        Ok(names.iter().filter_map(|name| requests.get(name)).collect())
    }

    /// Returns the load stages whose cells are behind some rows.
    pub(crate) fn stages_behind<'s>(
        &mut self,
        rows: impl IntoIterator<Item = &'s SourceRows>,
    ) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for span in rows {
            self.collect(span, &mut names);
        }
        names.into_iter().map(|(stage, _)| stage).collect()
    }

    /// Adds the cells behind a span.
    fn collect(&mut self, span: &SourceRows, names: &mut BTreeSet<Name>) {
        match &span.source {
            LineageSource::Artifact(source) => {
                let cell = &source.cell;
                names.insert((cell.stage.clone(), cell.coordinates.to_string()));
            }
            LineageSource::Table(table) => {
                if !self.behind.contains_key(&**table) {
                    // A table that referred to itself would recurse for ever.
                    self.behind.insert(table.to_string(), Vec::new());
                    let all = self.behind_rows(table);
                    self.behind.insert(table.to_string(), all);
                }
                let rows = self.behind[&**table].iter();
                let rows = rows.skip(span.start).take(span.end - span.start);
                names.extend(rows.flatten().cloned());
            }
        }
    }

    /// Returns the cells behind each row of a table.
    fn behind_rows(&mut self, table: &str) -> Vec<BTreeSet<Name>> {
        let Some(frame) = self.tables.get(table) else {
            return Vec::new();
        };
        let mut all = Vec::with_capacity(frame.rows.len());
        for row in &frame.rows {
            let mut names = BTreeSet::new();
            for span in &row.lineage {
                self.collect(span, &mut names);
            }
            all.push(names);
        }
        all
    }
}
