//! Checks of a table on its own: totals, averages, the order of percentiles, and relations between columns that all
//! rows but one keep. Rows and columns are treated alike, and tables with the same labels are read as one.

mod cells;
mod latency;
mod marks;
mod proportion;
mod relation;
mod summary;

use std::collections::BTreeMap;

use crate::finding::{Evidence, Finding, Rule};
use crate::number::Quantity;
use crate::table::Table;
use crate::words::words;

use cells::counted_cells;
pub(crate) use cells::{missing_rows, part_of};
use proportion::{constants, proportions};
use relation::relations;
use summary::{percentiles, summaries};

/// Numbers in rows and columns, each with its place in a table.
struct Grid<'a> {
    tables: &'a [&'a Table],
    names: Vec<String>,
    labels: Vec<String>,
    /// Table, row and column of every number.
    cells: Vec<Vec<Option<(usize, usize, usize)>>>,
    /// Whether a column counts things.
    counted: Vec<bool>,
    /// The numbers themselves.
    values: Vec<Vec<Option<&'a Quantity>>>,
}

impl<'a> Grid<'a> {
    fn upright(tables: &'a [&'a Table]) -> Self {
        let numeric = Self::numeric(tables);
        let mut grid = Self {
            tables,
            names: numeric
                .iter()
                .map(|c| tables[0].name(*c).to_owned())
                .collect(),
            labels: Vec::new(),
            cells: Vec::new(),
            counted: Vec::new(),
            values: Vec::new(),
        };
        grid.counted = grid.names.iter().map(|name| is_counted(name)).collect();
        for (at, table) in tables.iter().enumerate() {
            for row in 0..table.rows.len() {
                grid.labels.push(table.label(row).to_owned());
                grid.cells.push(
                    numeric
                        .iter()
                        .map(|c| table.plain(row, *c).map(|_| (at, row, *c)))
                        .collect(),
                );
            }
        }
        grid.filled()
    }

    /// Turns columns into rows. All tables have the same labels.
    fn turned(tables: &'a [&'a Table]) -> Self {
        let numeric = Self::numeric(tables);
        let mut grid = Self {
            tables,
            names: (0..tables[0].rows.len())
                .map(|r| tables[0].label(r).to_owned())
                .collect(),
            labels: Vec::new(),
            cells: Vec::new(),
            counted: Vec::new(),
            values: Vec::new(),
        };
        grid.counted = grid.names.iter().map(|name| is_counted(name)).collect();
        for (at, table) in tables.iter().enumerate() {
            for column in &numeric {
                grid.labels.push(table.name(*column).to_owned());
                grid.cells.push(
                    (0..table.rows.len())
                        .map(|row| table.plain(row, *column).map(|_| (at, row, *column)))
                        .collect(),
                );
            }
        }
        grid.filled()
    }

    fn numeric(tables: &[&Table]) -> Vec<usize> {
        (0..tables[0].columns.len())
            .filter(|c| tables.iter().all(|table| table.is_numeric(*c)))
            .collect()
    }

    fn value(&self, row: usize, column: usize) -> Option<&'a Quantity> {
        self.values.get(row)?.get(column).copied().flatten()
    }

    /// Looks up all numbers.
    fn filled(mut self) -> Self {
        let number = |cell: &Option<(usize, usize, usize)>| {
            cell.and_then(|(t, r, c)| self.tables[t].plain(r, c))
        };
        self.values = self
            .cells
            .iter()
            .map(|row| row.iter().map(number).collect())
            .collect();
        self
    }

    /// Half a unit of the last digit of a number; 0 for a count, which is exact.
    fn half(&self, row: usize, column: usize) -> f64 {
        let Some(value) = self.value(row, column) else {
            return 0.0;
        };
        if self.counted[column] && value.is_count() {
            0.0
        } else {
            value.half
        }
    }

    /// The sum of a column without its totals; `None` if a cell has no number.
    fn whole(&self, column: usize) -> Option<f64> {
        (0..self.labels.len())
            .filter(|row| summary::kind(&self.labels[*row]).is_none())
            .map(|row| self.value(row, column).map(|value| value.value))
            .sum()
    }

    /// Line and column of a cell.
    fn place(&self, row: usize, column: usize) -> Option<(usize, usize)> {
        let (table, row, column) = self.cells.get(row)?.get(column).copied().flatten()?;
        Some(self.tables[table].spot(row, column))
    }

    /// Creates a finding at a cell.
    fn finding(
        &self,
        rule: Rule,
        row: usize,
        column: usize,
        message: String,
        cause: &str,
        evidence: &[(usize, usize)],
    ) -> Finding {
        let (table, r, c) = self.cells[row][column].unwrap_or_default();
        let table = self.tables[table];
        let cell = table.cell(r, c);
        let (line, place) = table.spot(r, c);
        Finding {
            rule,
            line,
            column: place,
            quote: format!(
                "{} | {}",
                table.label(r),
                cell.map_or("", |cell| &cell.text)
            ),
            message,
            cause: format!("line {}: {cause}", table.line),
            evidence: evidence
                .iter()
                .filter_map(|(r, c)| self.cells[*r][*c])
                .map(|(t, r, c)| {
                    Evidence::new(
                        self.tables[t].place(r, c),
                        self.tables[t].cell(r, c).map_or("", |cell| &cell.text),
                    )
                })
                .collect(),
        }
    }
}

/// Checks the tables of a document.
pub(crate) fn check(tables: &[Table]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for table in tables {
        let one = [table];
        for (grid, upright) in [(Grid::upright(&one), true), (Grid::turned(&one), false)] {
            if grid.names.len() > MOST_NAMES || grid.labels.len() > MOST_ROWS {
                continue;
            }
            summaries(&grid, &mut findings);
            percentiles(&grid, &mut findings);
            latency::check(&grid, &mut findings);
            if upright || grid.labels.len() >= 4 {
                relations(&grid, &mut findings);
                constants(&grid, &mut findings);
                proportions(&grid, &mut findings);
            }
        }
        counted_cells(table, &mut findings);
        marks::check(table, &mut findings);
    }
    for siblings in siblings(tables) {
        let grid = Grid::turned(&siblings);
        if grid.names.len() <= MOST_NAMES && grid.labels.len() <= MOST_ROWS && siblings.len() > 1 {
            relations(&grid, &mut findings);
            constants(&grid, &mut findings);
        }
    }
    findings.extend(cells::twins(tables));
    findings
}

/// The maximum numbers of columns and rows between which relations are sought.
const MOST_NAMES: usize = 16;
const MOST_ROWS: usize = 600;

/// Tables with the same columns and the same labels, in order.
pub(crate) fn siblings(tables: &[Table]) -> Vec<Vec<&Table>> {
    let mut groups: BTreeMap<String, Vec<&Table>> = BTreeMap::new();
    for table in tables {
        let labels: Vec<&str> = (0..table.rows.len()).map(|row| table.label(row)).collect();
        let key = format!("{:?} {labels:?}", table.columns);
        groups.entry(key).or_default().push(table);
    }
    groups.into_values().collect()
}

/// Whether a header names countable things, whose numbers are exact: clients, requests, GPUs.
fn is_counted(header: &str) -> bool {
    let words = words(header);
    let countable = |word: &str| {
        matches!(
            word,
            "client"
                | "user"
                | "request"
                | "gpu"
                | "thread"
                | "concurrency"
                | "batch"
                | "node"
                | "replica"
                | "worker"
                | "device"
                | "connection"
                | "prompt"
                | "sample"
                | "sent"
                | "completed"
                | "session"
                | "core"
        )
    };
    !header.contains(['/', '%', '('])
        && words
            .iter()
            .any(|word| countable(word.text.trim_end_matches('s')))
        && !words.iter().any(|word| {
            matches!(
                word.text.as_str(),
                "per" | "rate" | "latency" | "time" | "throughput"
            )
        })
}
