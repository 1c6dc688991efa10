//! Footnotes from the ledger: the cells that the rows of a table, or the marks of a figure, lack, and why.
//!
//! An analysis table lists the cells that should have contributed but did not in its note `missing`. The rows they
//! concern follow from the rows' keys and, for a row made of other rows (such as an anchor), from the lineage beside
//! the table. A table of a load stage lacks the cells that the ledger lists as not ok.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use artifacts::Scalar;
use contract::{Lineage, LineageSource};
use minijinja::{Environment, Error};
use pipeline::place::{Condition, same_label};
use pipeline::stage::{CellStatus, Coordinates, MissingCell};

use crate::data::{Data, Miss};
use crate::format::clean;
use crate::language::{World, render_text};
use crate::trace::{Entry, TraceSource};
use crate::view::{Opened, View};

/// The cells that a shown table or figure lacks.
#[derive(Debug, Default)]
pub(crate) struct Lacks {
    /// The markers of each shown row; empty if no row needs one.
    pub(crate) markers: Vec<String>,
    /// The missing cells, grouped by reason: the marker (`None` if all shown rows lack them) and the cells.
    rows: Vec<(Option<char>, String)>,
    /// The missing cells that would have been rows themselves.
    absent: Vec<String>,
    /// The shown rows that lack a cell.
    pub(crate) partial: BTreeSet<usize>,
    /// The coordinates of the cells that would have been rows.
    pub(crate) gone: Vec<Coordinates>,
}

impl Lacks {
    /// Returns the footnotes of a table, one paragraph each.
    pub(crate) fn of_table(&self) -> Vec<String> {
        let of_all: Vec<String> = self
            .rows
            .iter()
            .filter(|(marker, _)| marker.is_none())
            .map(|(_, cells)| cells.clone())
            .collect();
        let marked = self
            .rows
            .iter()
            .filter_map(|(marker, cells)| Some(format!("{} Without {cells}.", (*marker)?)));
        marked
            .chain(one("Rows without", &of_all))
            .chain(one("Not in a row", &self.absent))
            .collect()
    }

    /// Returns the footnotes of a figure, one paragraph each.
    pub(crate) fn of_figure(&self) -> Vec<String> {
        let marks: Vec<String> = self.rows.iter().map(|(_, cells)| cells.clone()).collect();
        one("Drawn without", &marks)
            .into_iter()
            .chain(one("Not drawn", &self.absent))
            .collect()
    }
}

fn one(what: &str, cells: &[String]) -> Option<String> {
    (!cells.is_empty()).then(|| format!("{what}: {}.", cells.join("; ")))
}

/// Markers that are not numerals.
const MARKERS: &str = "ᵃᵇᶜᵈᵉᶠᵍʰʲᵏˡᵐᵒᵖʳˢᵗᵘᵛʷˣʸᶻ";

/// With more reasons than this, only the status or gate is printed, as it is for a reason printed before.
const IN_FULL: usize = 4;

/// Finds the cells that the rows of a view lack; `only` is the condition that selected the rows.
///
/// # Errors
/// If a table, a lineage or a note cannot be read.
pub(crate) fn of(world: &World, name: &str, view: &View, only: &Condition) -> Result<Lacks, Miss> {
    let data = &world.data;
    let table = &view.table;
    let load = data
        .stages()
        .iter()
        .find(|s| s.stage == table.stage && s.kind == "load");
    if let Some(input) = load {
        let gone = input
            .cells
            .iter()
            .filter(|c| c.status != CellStatus::Ok)
            .map(|c| &c.coordinates);
        let gone: Vec<Coordinates> = gone.filter(|c| only.agrees(c)).cloned().collect();
        let cells: Vec<String> = gone.iter().map(ToString::to_string).collect();
        let absent = from_ledger(world, &table.stage, &cells)?;
        return Ok(Lacks {
            absent,
            gone,
            ..Lacks::default()
        });
    }
    let (mut concerned, mut absent) = (Vec::<(Lacking, Vec<usize>)>::new(), Vec::new());
    for (number, part) in table.parts.iter().enumerate() {
        let Some(note) = part.content.metadata("missing").filter(|note| note != "[]") else {
            continue;
        };
        let missing: Vec<MissingCell> = serde_json::from_str(&note)
            .map_err(|e| format!("the note `missing` of `{name}` cannot be read: {e}"))?;
        let mut search = Search::new(data, &table.stage, number, &missing);
        let mut rows: Vec<Vec<usize>> = vec![Vec::new(); missing.len()];
        for (position, (_, row)) in view
            .rows
            .iter()
            .enumerate()
            .filter(|(_, (p, _))| *p == number)
        {
            for cell in search.lacks(&table.output, *row)?.iter() {
                rows[*cell].push(position);
            }
        }
        for (cell, rows) in missing.iter().zip(rows) {
            let lacking = Lacking {
                part: number,
                cell: cell.clone(),
            };
            if !rows.is_empty() {
                concerned.push((lacking, rows));
            } else if only.agrees(&cell.coordinates) && !has_row(table, number, cell)? {
                absent.push((lacking, rows));
            }
        }
    }
    let mut lacks = Lacks {
        markers: vec![String::new(); view.rows.len()],
        ..Lacks::default()
    };
    lacks.partial = concerned
        .iter()
        .flat_map(|(_, rows)| rows)
        .copied()
        .collect();
    lacks.gone = absent
        .iter()
        .map(|(lacking, _)| lacking.cell.coordinates.clone())
        .collect();
    let mut letters = MARKERS.chars().cycle();
    for group in by_reason(world, concerned) {
        let marker =
            (group.rows.len() < view.rows.len()).then(|| letters.next().expect("it never ends"));
        for row in &group.rows {
            lacks.markers[*row].extend(marker);
        }
        lacks.rows.push((marker, group.footnote(world, table)));
    }
    lacks.absent = by_reason(world, absent)
        .iter()
        .map(|group| group.footnote(world, table))
        .collect();
    Ok(lacks)
}

/// Missing cells with the same printed reason.
struct Group {
    reason: String,
    cells: Vec<Lacking>,
    rows: BTreeSet<usize>,
}

/// Groups cells by their printed reason. That is the full reason on its first appearance in the report if there are
/// few, otherwise the status or gate.
fn by_reason(world: &World, lacking: Vec<(Lacking, Vec<usize>)>) -> Vec<Group> {
    let mut reasons = world.reasons.lock().expect("no holder of this lock panics");
    let distinct: BTreeSet<String> = lacking.iter().map(|(l, _)| l.cell.reason.clone()).collect();
    let mut groups: Vec<Group> = Vec::new();
    for (lacking, rows) in lacking {
        let reason = &lacking.cell.reason;
        let short = distinct.len() > IN_FULL || reasons.contains(reason);
        let reason = if short { lacking.cell.cause() } else { reason }.to_owned();
        let at = groups
            .iter()
            .position(|g| g.reason == reason)
            .unwrap_or_else(|| {
                groups.push(Group {
                    reason,
                    cells: Vec::new(),
                    rows: BTreeSet::new(),
                });
                groups.len() - 1
            });
        groups[at].rows.extend(rows);
        groups[at].cells.push(lacking);
    }
    if distinct.len() <= IN_FULL {
        reasons.extend(distinct);
    }
    groups
}

/// Returns the single footnote of a table or figure that declares `no-footnotes`, if it would otherwise have any.
///
/// # Errors
/// If its reason does not render.
pub(crate) fn left_out(
    world: &World,
    environment: &Environment<'_>,
    name: &str,
    reason: &str,
    notes: &[String],
) -> Result<Vec<String>, Error> {
    if notes.is_empty() {
        return Ok(Vec::new());
    }
    let reason = render_text(
        world,
        environment,
        &format!("no-footnotes of {name}"),
        reason,
    )?;
    Ok(vec![format!(
        "Cells are missing here and are not listed: {}.",
        reason.trim_end_matches('.')
    )])
}

/// A missing cell, and the part of the table whose note names it.
#[derive(Clone, Debug)]
struct Lacking {
    part: usize,
    cell: MissingCell,
}

/// Whether a row can represent a cell: its keys agree with the coordinates on the axes they share.
fn agrees(table: &Opened, place: (usize, usize), cell: &MissingCell) -> Result<bool, Miss> {
    for key in table.keys() {
        if let Some(label) = cell.coordinates.get(key) {
            let value = table.at(place, key)?;
            if !same_label(&value, label) && value.to_string() != label.to_string() {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn has_row(table: &Opened, part: usize, cell: &MissingCell) -> Result<bool, Miss> {
    for row in 0..table.parts[part].content.rows() {
        if agrees(table, (part, row), cell)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The missing cells behind rows, by position in the list.
type Cells = Rc<BTreeSet<usize>>;

/// The sources of rows: source, first row, one past the last.
type Sources = Rc<BTreeMap<usize, Vec<(String, usize, usize)>>>;

/// Follows rows of one cell of an analysis to the rows they were made from.
struct Search<'a> {
    data: &'a Data,
    stage: &'a str,
    part: usize,
    missing: &'a [MissingCell],
    by_part: BTreeMap<(String, usize), Cells>,
    lineages: BTreeMap<String, Sources>,
}

impl<'a> Search<'a> {
    fn new(data: &'a Data, stage: &'a str, part: usize, missing: &'a [MissingCell]) -> Self {
        Self {
            data,
            stage,
            part,
            missing,
            by_part: BTreeMap::new(),
            lineages: BTreeMap::new(),
        }
    }

    /// The cells that a row of a table lacks, directly or through the rows it was made from.
    fn lacks(&mut self, output: &str, row: usize) -> Result<Cells, Miss> {
        let key = (output.to_owned(), row);
        if let Some(cells) = self.by_part.get(&key) {
            return Ok(cells.clone());
        }
        // Guards against cycles, although a lineage has none.
        self.by_part.insert(key.clone(), Cells::default());
        let table = self.data.open(&format!("{}.{output}", self.stage))?;
        let mut cells = BTreeSet::new();
        for (number, cell) in self.missing.iter().enumerate() {
            if agrees(&table, (self.part, row), cell)? {
                cells.insert(number);
            }
        }
        let sources = self.lineage(output)?;
        for (source, start, end) in sources.get(&row).into_iter().flatten() {
            let table = self.data.open(&format!("{}.{source}", self.stage))?;
            // A row made from a whole table does not show which of its rows it needs.
            if (*start, *end) == (0, table.parts[self.part].content.rows()) {
                continue;
            }
            for row in *start..*end {
                cells.extend(self.lacks(source, row)?.iter());
            }
        }
        let cells = Rc::new(cells);
        self.by_part.insert(key, cells.clone());
        Ok(cells)
    }

    /// The rows behind each row of a table, as far as they belong to tables of the same stage.
    fn lineage(&mut self, output: &str) -> Result<Sources, Miss> {
        if let Some(lineage) = self.lineages.get(output) {
            return Ok(lineage.clone());
        }
        let name = format!("{}.{output}.lineage", self.stage);
        let mut sources: BTreeMap<usize, Vec<(String, usize, usize)>> = BTreeMap::new();
        if self.data.has(&name) {
            let table = self.data.open(&name)?;
            let lineage = Lineage::read(&table.parts[self.part].content)
                .map_err(|e| Miss::from(format!("`{name}`: {e}")))?;
            for line in &lineage.rows {
                if let LineageSource::Table(source) = &lineage.sources[line.source] {
                    let rows = (source.to_string(), line.start, line.end);
                    sources.entry(line.row).or_default().push(rows);
                }
            }
        }
        let sources = Rc::new(sources);
        self.lineages.insert(output.to_owned(), sources.clone());
        Ok(sources)
    }
}

impl Group {
    /// Writes the cells with their reason, traced to the note of the table.
    fn footnote(&self, world: &World, table: &Opened) -> String {
        let mut by_part: BTreeMap<usize, Vec<&Coordinates>> = BTreeMap::new();
        for Lacking { part, cell } in &self.cells {
            by_part.entry(*part).or_default().push(&cell.coordinates);
        }
        let mut parts = Vec::new();
        for (part, cells) in by_part {
            let conditions = boxes(&cells);
            let last = conditions.len() - 1;
            for (at, condition) in conditions.into_iter().enumerate() {
                let reason = if at == last {
                    format!(" ({})", self.reason)
                } else {
                    String::new()
                };
                let text = clean(&format!("{condition}{reason}"));
                parts.push(world.trace.mark(Entry {
                    stage: table.stage.clone(),
                    coordinates: table.cell(part),
                    output: table.output.clone(),
                    artifact: Some(table.parts[part].digest),
                    row_key: condition,
                    ..Entry::new(
                        TraceSource::Missing,
                        "missing",
                        Scalar::Text(self.reason.clone()),
                        text,
                    )
                }));
            }
        }
        parts.join("; ")
    }
}

/// Covers the cells with few conditions. The cells of each are exactly the combinations of its labels.
pub(crate) fn boxes(cells: &[&Coordinates]) -> Vec<Condition> {
    let Some(first) = cells.first() else {
        return Vec::new();
    };
    let labels = |axis: &str| {
        let mut distinct: Vec<Scalar> = Vec::new();
        for label in cells.iter().filter_map(|c| c.get(axis)) {
            if !distinct.contains(label) {
                distinct.push(label.clone());
            }
        }
        distinct
    };
    let axes = first.0.iter().map(|(axis, _)| axis);
    let all = Condition(axes.map(|axis| (axis.clone(), labels(axis))).collect());
    if all.combinations() == Some(cells.len()) {
        return vec![all];
    }
    // Split on the first axis with several labels.
    let Some((axis, labels)) = all.0.iter().find(|(_, labels)| labels.len() > 1) else {
        return cells.iter().map(|c| (*c).clone().into()).collect();
    };
    let with = |label: &Scalar| -> Vec<&Coordinates> {
        let cells = cells.iter().copied();
        cells.filter(|c| c.get(axis) == Some(label)).collect()
    };
    labels
        .iter()
        .flat_map(|label| boxes(&with(label)))
        .collect()
}

/// Lists the cells of a load stage that are not ok, traced to their lines in the ledger.
fn from_ledger(world: &World, stage: &str, cells: &[String]) -> Result<Vec<String>, Miss> {
    if cells.is_empty() || world.data.study().is_err() {
        return Ok(Vec::new());
    }
    let text = |text: &str| Scalar::Text(text.to_owned());
    let only = Condition(vec![
        ("stage".to_owned(), vec![text(stage)]),
        ("cell".to_owned(), cells.iter().map(|c| text(c)).collect()),
    ]);
    let lines = world.data.view("ledger", &only)?;
    let line = |row: usize| {
        let show = |column: &str| world.show(&lines, row, column, "", "no reason given");
        Ok(format!(
            "{} ({}: {})",
            show("cell")?,
            show("status")?,
            show("reason")?
        ))
    };
    (0..lines.rows.len()).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(configuration: &str, clients: i64) -> Coordinates {
        let text = Scalar::Text(configuration.to_owned());
        Coordinates(vec![
            ("configuration".to_owned(), text),
            ("clients".to_owned(), Scalar::Int(clients)),
        ])
    }

    fn written(cells: &[Coordinates]) -> Vec<String> {
        let boxes = boxes(&cells.iter().collect::<Vec<_>>());
        boxes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn cells_are_described_by_few_products_of_labels() {
        let cells = [cell("a", 1), cell("a", 2), cell("b", 1), cell("b", 2)];
        assert_eq!(written(&cells), ["configuration=a|b,clients=1|2"]);
        let cells = [cell("a", 1), cell("a", 2), cell("b", 2)];
        assert_eq!(
            written(&cells),
            ["configuration=a,clients=1|2", "configuration=b,clients=2"]
        );
    }
}
