//! Checks of a table on its own: totals, averages, the order of percentiles, and relations between columns that all
//! rows but one keep. Rows and columns are treated alike.

mod constant;
mod few;
mod limits;
mod marks;
mod relation;
mod served;
mod summary;
mod twins;

use crate::document::Document;
use crate::finding::{Finding, Rule};
use crate::number::{Quantity, shown, shown_like};
use crate::table::Table;
use crate::words::words;

use relation::relations;
use summary::{means, percentiles, summaries};

/// The numbers of a table in rows and columns, or with its columns turned into rows.
struct Grid<'a> {
    table: &'a Table,
    upright: bool,
    /// The columns of the table that hold numbers.
    numeric: Vec<usize>,
    names: Vec<String>,
    labels: Vec<String>,
    /// Whether a column counts things.
    counted: Vec<bool>,
    /// Whether a column has only whole numbers without a unit.
    whole: Vec<bool>,
    values: Vec<Vec<Option<&'a Quantity>>>,
}

impl<'a> Grid<'a> {
    fn new(table: &'a Table, upright: bool) -> Self {
        let columns = 0..table.columns.len();
        let numeric: Vec<usize> = columns.filter(|c| table.is_numeric(*c)).collect();
        let header = |c: &usize| table.name(*c).trim_end_matches(FOOTNOTES).to_owned();
        let headers = numeric.iter().map(header).collect();
        let rows = (0..table.rows.len()).map(|row| table.label(row).to_owned());
        let (mut names, mut labels): (Vec<String>, Vec<String>) = (headers, rows.collect());
        if !upright {
            std::mem::swap(&mut names, &mut labels);
        }
        let mut grid = Self {
            table,
            upright,
            numeric,
            values: Vec::new(),
            counted: names.iter().map(|name| is_counted(name)).collect(),
            whole: Vec::new(),
            names,
            labels,
        };
        let number = |at| {
            let (row, column) = grid.at(at);
            table.plain(row, column)
        };
        let width = grid.names.len();
        let line = |row| (0..width).map(|column| number((row, column))).collect();
        grid.values = (0..grid.labels.len()).map(line).collect();
        let whole = |column: usize| {
            let cells = grid.values.iter().filter_map(|row| row[column]);
            cells.clone().count() > 0 && cells.clone().all(Quantity::is_count)
        };
        grid.whole = (0..width).map(whole).collect();
        grid
    }

    /// Adds constants as columns, each with its text as its name.
    fn with_constants(&mut self, constants: &'a [(String, Quantity)]) {
        for (name, constant) in constants {
            self.names.push(name.clone());
            self.counted.push(true);
            self.whole.push(false);
            for row in &mut self.values {
                row.push(Some(constant));
            }
        }
    }

    /// Row and column of a number in the table.
    fn at(&self, (row, column): (usize, usize)) -> (usize, usize) {
        if self.upright {
            (row, self.numeric[column])
        } else {
            (column, self.numeric[row])
        }
    }

    fn value(&self, row: usize, column: usize) -> Option<&'a Quantity> {
        self.values.get(row)?.get(column).copied().flatten()
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

    /// The text of a number, without a remark behind it.
    fn printed(&self, at: (usize, usize)) -> &'a str {
        let (row, column) = self.at(at);
        let text = self.table.text(row, column);
        let end = self
            .value(at.0, at.1)
            .map_or(text.len(), |number| number.end);
        let marks = ['*', '`', '~', '≈', ' '];
        text.get(..end).unwrap_or(text).trim_matches(marks)
    }

    /// Formats a value as a cell is printed.
    fn shown_like(&self, value: f64, at: (usize, usize)) -> String {
        self.value(at.0, at.1).map_or_else(
            || shown(value),
            |number| shown_like(value, self.printed(at), number),
        )
    }

    /// Creates a finding at a cell.
    fn finding(
        &self,
        rule: Rule,
        at: (usize, usize),
        message: String,
        cause: &str,
        evidence: &[(usize, usize)],
    ) -> Finding {
        let evidence: Vec<(usize, usize)> = evidence.iter().map(|at| self.at(*at)).collect();
        self.table
            .finding(rule, self.at(at), message, cause, &evidence)
    }
}

/// Checks the tables of a document, and what programs printed.
pub(crate) fn check(document: &Document) -> Vec<Finding> {
    let mut findings = Vec::new();
    let tables = &document.tables;
    let stated = few::stated(document);
    for console in &document.consoles {
        served::console(console, &mut findings);
    }
    for table in tables {
        for upright in [true, false] {
            let grid = Grid::new(table, upright);
            if grid.names.len() > MOST_NAMES || grid.labels.len() > MOST_ROWS {
                continue;
            }
            summaries(&grid, &mut findings);
            percentiles(&grid, &mut findings);
            means(&grid, &mut findings);
            served::goodput(&grid, &mut findings);
            if upright || grid.labels.len() >= 4 {
                relations(&grid, &mut findings);
                constant::constants(&grid, &mut findings);
            }
            limits::pairs(&grid, &mut findings);
        }
        few::few(table, &stated, &mut findings);
        limits::intervals(table, &mut findings);
        limits::winners(table, &mut findings);
        limits::scores(table, &mut findings);
        marks::check(table, &mut findings);
    }
    findings.extend(twins::check(tables));
    findings
}

/// Marks of footnotes at the end of a header.
const FOOTNOTES: [char; 8] = ['¹', '²', '³', '⁴', '⁵', '†', '‡', '*'];

/// The maximum numbers of columns and rows between which relations are sought.
const MOST_NAMES: usize = 16;
const MOST_ROWS: usize = 600;

/// Whether a header names countable things, whose numbers are exact: clients, requests, GPUs.
fn is_counted(header: &str) -> bool {
    let words = words(header);
    let has = |list: &[&str]| {
        words
            .iter()
            .any(|word| list.contains(&word.text.trim_end_matches('s')))
    };
    !header.contains(['/', '%', '(']) && has(COUNTABLE) && !has(MEASURED)
}

/// Things that are counted, and words by which a header counts none of them.
#[rustfmt::skip]
const COUNTABLE: &[&str] = &[
    "client", "user", "request", "gpu", "thread", "concurrency", "batch", "node", "replica", "worker", "device",
    "connection", "prompt", "sample", "sent", "completed", "session", "core",
];
const MEASURED: &[&str] = &["per", "rate", "latency", "time", "throughput"];
