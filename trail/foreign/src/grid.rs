//! Checks of a table as such: totals, averages, percentiles in order, and relations between columns that all rows
//! keep but one. Rows and columns are treated alike, and tables with the same labels are read as one.

use std::collections::BTreeMap;

use crate::finding::{Evidence, Finding, Rule};
use crate::number::{Quantity, measure, quantities, shown};
use crate::table::{Table, is_missing};
use crate::words::{normal, words};

/// Numbers in rows and columns, each with its place in a table.
struct Grid<'a> {
    tables: &'a [&'a Table],
    names: Vec<String>,
    labels: Vec<String>,
    /// Table, row and column of every number.
    cells: Vec<Vec<Option<(usize, usize, usize)>>>,
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
        };
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
        grid
    }

    /// Columns become rows. All tables have the same labels.
    fn turned(tables: &'a [&'a Table]) -> Self {
        let numeric = Self::numeric(tables);
        let mut grid = Self {
            tables,
            names: (0..tables[0].rows.len())
                .map(|r| tables[0].label(r).to_owned())
                .collect(),
            labels: Vec::new(),
            cells: Vec::new(),
        };
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
        grid
    }

    fn numeric(tables: &[&Table]) -> Vec<usize> {
        (0..tables[0].columns.len())
            .filter(|c| tables.iter().all(|table| table.is_numeric(*c)))
            .collect()
    }

    fn value(&self, row: usize, column: usize) -> Option<&'a Quantity> {
        let (table, row, column) = self.cells.get(row)?.get(column).copied().flatten()?;
        self.tables[table].plain(row, column)
    }

    /// A finding at a cell.
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
        Finding {
            rule,
            line: table.rows.get(r).map_or(table.line, |row| row.line),
            column: cell.map_or(1, |cell| cell.column).max(1),
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
            if upright || grid.labels.len() >= 4 {
                relations(&grid, &mut findings);
            }
        }
        counted_cells(table, &mut findings);
    }
    for siblings in siblings(tables) {
        let grid = Grid::turned(&siblings);
        if grid.names.len() <= MOST_NAMES && grid.labels.len() <= MOST_ROWS && siblings.len() > 1 {
            relations(&grid, &mut findings);
        }
    }
    findings
}

/// Relations are sought between this many columns at most, over this many rows.
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

/// How a row sums up the rows above it, by its label.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Summary {
    Sum,
    PerhapsSum,
    Mean,
}

/// Rows that sum up the rows above them.
fn summaries(grid: &Grid<'_>, findings: &mut Vec<Finding>) {
    let kind = |label: &str| {
        let words = words(label);
        let first = words.first().map(|word| word.text.as_str());
        match first {
            Some("total" | "sum") if words.len() <= 2 => Some(Summary::Sum),
            // Such a row may also be of something else; more columns must show that it is a sum.
            Some("all" | "overall" | "together" | "combined") if words.len() == 1 => {
                Some(Summary::PerhapsSum)
            }
            Some("average" | "mean" | "avg") if words.len() <= 2 => Some(Summary::Mean),
            _ => None,
        }
    };
    for (row, label) in grid.labels.iter().enumerate() {
        let Some(kind_of_row) = kind(label) else {
            continue;
        };
        let sum = kind_of_row != Summary::Mean;
        let above: Vec<usize> = (0..row)
            .filter(|r| kind(&grid.labels[*r]).is_none())
            .collect();
        if above.len() < 2 || above.len() + 1 < row {
            continue;
        }
        // Beside a minimum or a percentile, an average is that of the values behind both.
        if !sum && above.iter().any(|r| rank(&grid.labels[*r]).is_some()) {
            continue;
        }
        let (mut holds, mut breaks) = (0usize, Vec::new());
        for column in 0..grid.names.len() {
            let parts: Vec<&Quantity> = above
                .iter()
                .filter_map(|r| grid.value(*r, column))
                .collect();
            let Some(stated) = grid
                .value(row, column)
                .filter(|_| parts.len() == above.len())
            else {
                continue;
            };
            if parts.iter().any(|part| part.unit != parts[0].unit) {
                continue;
            }
            let total: f64 = parts.iter().map(|part| part.value).sum();
            let slack: f64 = parts
                .iter()
                .map(|part| if part.is_count() { 0.0 } else { part.half })
                .sum();
            let n = parts.len() as f64;
            let (value, slack) = if sum {
                (total, slack)
            } else {
                (total / n, slack / n)
            };
            if stated.agrees(value - slack, value + slack) {
                holds += 1;
            } else if !parts.iter().all(|part| part.value == parts[0].value) {
                let counts = parts.iter().all(|part| part.is_count()) && stated.is_count();
                let most = parts.iter().map(|part| part.value).fold(f64::MIN, f64::max);
                let near = (0.6..1.6).contains(&(stated.value / value)) && stated.value > most;
                // A share or a factor of the whole is no sum, and in a row that may be of something else
                // only counts are.
                let share =
                    stated.is_percent() || stated.unit == "x" || grid.names[column].contains('%');
                let summed = !sum || !share && (kind_of_row == Summary::Sum || counts && near);
                if summed {
                    breaks.push((column, value, sum && counts && near));
                }
            }
        }
        for (column, value, alone) in &breaks {
            // Averages may be weighted, and totals may be of other things: another column must show the rule.
            let shown_twice = holds >= 2 || kind_of_row != Summary::PerhapsSum;
            if holds > breaks.len() && shown_twice
                || holds == breaks.len() && holds > 0 && kind_of_row != Summary::PerhapsSum
                || *alone
                    && kind_of_row != Summary::PerhapsSum
                    && breaks.len() == 1
                    && holds == 0
                    && grid.names.len() == 1
            {
                let message = format!(
                    "the rows above give {}, not {}",
                    shown(*value),
                    grid.value(row, *column)
                        .map_or(String::new(), |v| shown(v.value))
                );
                findings.push(grid.finding(Rule::Total, row, *column, message, label, &[]));
            }
        }
    }
}

/// Where a statistic stands among others: minimum, percentiles, maximum.
fn rank(name: &str) -> Option<(f64, String)> {
    let words = words(name);
    let at = words
        .iter()
        .position(|word| rank_word(&word.text).is_some())?;
    let rank = rank_word(&words[at].text)?;
    let rest: Vec<&str> = words
        .iter()
        .enumerate()
        .filter(|(i, _)| *i != at)
        .map(|(_, word)| word.text.as_str())
        .collect();
    Some((rank, rest.join(" ")))
}

fn rank_word(word: &str) -> Option<f64> {
    match word {
        "min" | "minimum" => Some(0.0),
        "median" => Some(50.0),
        "max" | "maximum" => Some(100.0),
        _ => word
            .strip_prefix('p')?
            .parse()
            .ok()
            .filter(|p| (0.0..=100.0).contains(p)),
    }
}

/// Minimum, percentiles and maximum of one metric rise.
fn percentiles(grid: &Grid<'_>, findings: &mut Vec<Finding>) {
    let mut metrics: BTreeMap<String, Vec<(f64, usize)>> = BTreeMap::new();
    for (column, name) in grid.names.iter().enumerate() {
        if let Some((rank, metric)) = rank(name) {
            metrics.entry(metric).or_default().push((rank, column));
        }
    }
    for columns in metrics.values_mut() {
        columns.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut rising, mut falling) = (0usize, Vec::new());
        for row in 0..grid.labels.len() {
            for pair in columns.windows(2) {
                if let (Some(a), Some(b)) = (grid.value(row, pair[0].1), grid.value(row, pair[1].1))
                    && a.unit == b.unit
                    && pair[0].0 < pair[1].0
                {
                    if a.value - a.half > b.value + b.half {
                        falling.push((row, pair[0].1, pair[1].1));
                    } else {
                        rising += 1;
                    }
                }
            }
        }
        // Of a rate, a worse percentile is a lower number: then all of them fall.
        if falling.len() * 3 > rising {
            continue;
        }
        for (row, low, high) in falling {
            let message = format!("{} is above {}", grid.names[low], grid.names[high]);
            findings.push(grid.finding(
                Rule::Relation,
                row,
                high,
                message,
                "order of percentiles",
                &[(row, low)],
            ));
        }
    }
}

/// A relation of a column to one or two others.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Sum,
    Difference,
    Product,
    Ratio,
    Change,
    /// To the same column's value in the first row.
    Base,
}

impl Form {
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Sum => a + b,
            Self::Difference => a - b,
            Self::Product => a * b,
            Self::Ratio | Self::Base => a / b,
            Self::Change => (a - b) / b,
        }
    }

    fn said(self, a: &str, b: &str) -> String {
        match self {
            Self::Sum => format!("`{a}` + `{b}`"),
            Self::Difference => format!("`{a}` − `{b}`"),
            Self::Product => format!("`{a}` × `{b}`"),
            Self::Ratio => format!("`{a}` / `{b}`"),
            Self::Change => format!("the change from `{b}` to `{a}`"),
            Self::Base => format!("`{a}` against the first row"),
        }
    }
}

/// The relations that the words of a header promise; none if it does not say that its column is derived.
fn promised(header: &str) -> &'static [Form] {
    if header.contains('Δ') {
        return &[Form::Difference, Form::Change];
    }
    words(header)
        .iter()
        .find_map(|word| match word.text.as_str() {
            "total" | "sum" => Some([Form::Sum].as_slice()),
            "speedup" | "ratio" => Some([Form::Ratio, Form::Base].as_slice()),
            "diff" | "difference" | "delta" | "change" | "gain" | "improvement" | "reduction"
            | "overhead" => Some([Form::Difference, Form::Change, Form::Ratio].as_slice()),
            _ => None,
        })
        .unwrap_or(&[])
}

struct Kept {
    form: Form,
    a: usize,
    b: usize,
    scale: f64,
    /// The rows that show the relation.
    holds: Vec<usize>,
    /// The rows that agree with it, whether they show it or would agree with much else.
    agrees: Vec<usize>,
    breaks: Vec<usize>,
}

fn relations(grid: &Grid<'_>, findings: &mut Vec<Finding>) {
    let mut order: Vec<usize> = (0..grid.names.len()).collect();
    order.sort_by_key(|c| promised(&grid.names[*c]).is_empty());
    // One relation has as many forms as columns; what is derived by its name comes first.
    let mut told: Vec<(usize, [usize; 3])> = Vec::new();
    for result in order {
        let header = &grid.names[result];
        let promised = promised(header);
        let mut best: Option<Kept> = None;
        let mut explained: Vec<usize> = Vec::new();
        for a in 0..grid.names.len() {
            for b in 0..grid.names.len() {
                let forms: &[Form] = if a == b {
                    &[Form::Base]
                } else if a < b {
                    &[
                        Form::Sum,
                        Form::Product,
                        Form::Difference,
                        Form::Ratio,
                        Form::Change,
                    ]
                } else {
                    &[Form::Difference, Form::Ratio, Form::Change]
                };
                for form in forms.iter().filter(|_| a != result && b != result) {
                    for scale in [1.0_f64, 100.0, -1.0, -100.0, 1e-3, 1e3] {
                        let plain = matches!(form, Form::Sum | Form::Difference);
                        if plain && scale.abs() != 1.0
                            || !matches!(form, Form::Change | Form::Difference) && scale < 0.0
                            || *form == Form::Base && scale != 1.0
                        {
                            continue;
                        }
                        let Some(kept) = keeps(grid, result, *form, a, b, scale) else {
                            continue;
                        };
                        explained.extend(&kept.agrees);
                        if best
                            .as_ref()
                            .is_none_or(|best| kept.holds.len() > best.holds.len())
                        {
                            best = Some(kept);
                        }
                    }
                }
            }
        }
        let Some(best) = best else { continue };
        let (holds, breaks) = (best.holds.len(), best.breaks.len());
        let unit = unit_of(&grid.names[best.a]);
        // A few rows may agree by chance: then the operands must be of one unit, too.
        let alike = best.form == Form::Base
            || unit == unit_of(&grid.names[best.b]) && (!unit.is_empty() || holds >= 3);
        let sure = if promised.contains(&best.form) && alike {
            holds >= 1 && breaks <= holds
        } else {
            holds >= 4 && breaks * 4 <= holds
        };
        let broken: Vec<usize> = best
            .breaks
            .iter()
            .copied()
            .filter(|row| !explained.contains(row))
            .collect();
        let typos = if promised.is_empty() {
            1.max(holds / 30)
        } else {
            1.max(holds / 3)
        };
        if !sure || broken.len() > typos {
            continue;
        }
        let (a, b) = match best.form == Form::Difference && best.scale < 0.0 {
            true => (best.b, best.a),
            false => (best.a, best.b),
        };
        let relation = best.form.said(&grid.names[a], &grid.names[b]);
        for row in broken {
            let base = if best.form == Form::Base { 0 } else { row };
            let mut columns = [result, best.a, best.b];
            columns.sort_unstable();
            if told.contains(&(row, columns)) {
                continue;
            }
            told.push((row, columns));
            let (Some(x), Some(y)) = (grid.value(row, best.a), grid.value(base, best.b)) else {
                continue;
            };
            let message = format!(
                "`{header}` is {relation} in {holds} other {}; here that gives {}",
                if holds == 1 { "row" } else { "rows" },
                shown(best.scale * best.form.of(x.value, y.value))
            );
            findings.push(grid.finding(
                Rule::Relation,
                row,
                result,
                message,
                header,
                &[(row, best.a), (base, best.b)],
            ));
        }
    }
    constants(grid, findings);
}

/// The rows that keep a relation and those that break it; none if it says nothing or few keep it.
fn keeps(
    grid: &Grid<'_>,
    result: usize,
    form: Form,
    a: usize,
    b: usize,
    scale: f64,
) -> Option<Kept> {
    let mut kept = Kept {
        form,
        a,
        b,
        scale,
        holds: Vec::new(),
        agrees: Vec::new(),
        breaks: Vec::new(),
    };
    let mut values: Vec<f64> = Vec::new();
    let rows = usize::from(form == Form::Base)..grid.labels.len();
    for row in rows {
        let base = if form == Form::Base { 0 } else { row };
        let (Some(stated), Some(x), Some(y)) = (
            grid.value(row, result),
            grid.value(row, a),
            grid.value(base, b),
        ) else {
            continue;
        };
        if form == Form::Base && grid.value(0, result).is_none_or(|first| first.value != 1.0) {
            return None;
        }
        let corner =
            |dx: f64, dy: f64| scale * form.of(x.value + dx * x.half, y.value + dy * y.half);
        let corners = [
            corner(-1.0, -1.0),
            corner(-1.0, 1.0),
            corner(1.0, -1.0),
            corner(1.0, 1.0),
        ];
        let low = corners.iter().copied().fold(f64::INFINITY, f64::min);
        let high = corners.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if !low.is_finite() || !high.is_finite() {
            continue;
        }
        if stated.agrees(low, high) {
            kept.agrees.push(row);
            // A result that any operand would give, or that one operand is already, shows nothing.
            let telling = high - low < 0.2 * stated.value.abs()
                && stated.half < 0.1 * stated.value.abs()
                && (!stated.agrees(x.value * scale, x.value * scale) || form == Form::Base)
                && !stated.agrees(y.value * scale, y.value * scale);
            if telling {
                kept.holds.push(row);
                if !values.contains(&stated.value) {
                    values.push(stated.value);
                }
            }
        } else {
            kept.breaks.push(row);
        }
        if kept.breaks.len() > 2 + kept.holds.len() && kept.breaks.len() > 4 {
            return None;
        }
    }
    (!kept.holds.is_empty()
        && (values.len() >= 3 || kept.holds.len() <= 2 && values.len() == kept.holds.len())
        && kept.breaks.len() <= kept.holds.len())
    .then_some(kept)
}

/// The unit that a header names anywhere, and what it measures.
fn unit_of(header: &str) -> String {
    let bare = header.replace(['(', ')', '[', ']', ','], " ");
    let mut words = bare.split_whitespace();
    words
        .find_map(|word| {
            let probe = format!("1 {word}");
            quantities(&probe)
                .first()
                .filter(|n| n.end == probe.len() && !n.unit.is_empty())
                .map(|n| n.unit.clone())
        })
        .unwrap_or_default()
}

/// Two columns that are one metric in two forms: a time and a rate, whose product is the same in all rows but one;
/// or one measure in two units.
fn constants(grid: &Grid<'_>, findings: &mut Vec<Finding>) {
    let units: Vec<String> = grid.names.iter().map(|name| unit_of(name)).collect();
    for a in 0..grid.names.len() {
        for b in a + 1..grid.names.len() {
            let (one, other) = (measure(&units[a]).0, measure(&units[b]).0);
            let product =
                one == "time" && other.ends_with("/s") || other == "time" && one.ends_with("/s");
            if !product && (one != other || units[a] == units[b]) {
                continue;
            }
            let form = |x: f64, y: f64| if product { x * y } else { x / y };
            let values: Vec<(usize, f64)> = (0..grid.labels.len())
                .filter_map(|row| Some((row, grid.value(row, a)?, grid.value(row, b)?)))
                .filter(|(_, x, y)| {
                    [x, y]
                        .iter()
                        .all(|n| n.value > 0.0 && n.half < 0.02 * n.value)
                })
                .map(|(row, x, y)| (row, form(x.value, y.value)))
                .collect();
            let mut sorted: Vec<f64> = values.iter().map(|v| v.1).collect();
            sorted.sort_by(f64::total_cmp);
            let Some(&middle) = sorted.get(sorted.len() / 2) else {
                continue;
            };
            let (same, differ): (Vec<(usize, f64)>, Vec<_>) = values
                .iter()
                .copied()
                .partition(|v| (v.1 / middle - 1.0).abs() < 0.015);
            let operand = |row: usize| grid.value(row, a).map_or(0.0, |v| v.value);
            let most = same.iter().map(|v| operand(v.0)).fold(0.0, f64::max);
            let least = same
                .iter()
                .map(|v| operand(v.0))
                .fold(f64::INFINITY, f64::min);
            let [(row, value)] = *differ.as_slice() else {
                continue;
            };
            if same.len() < 3 || most < 1.2 * least || (value / middle - 1.0).abs() < 0.05 {
                continue;
            }
            let sign = if product { "×" } else { "/" };
            let (first, second) = (&grid.names[a], &grid.names[b]);
            let message = format!(
                "`{first}` {sign} `{second}` is {} in the other rows, here {}",
                shown(middle),
                shown(value)
            );
            if !findings.iter().any(|finding| finding.message == message) {
                findings.push(grid.finding(
                    Rule::Relation,
                    row,
                    a,
                    message,
                    &format!("{first} {sign} {second}"),
                    &[(row, b)],
                ));
            }
        }
    }
}

/// Cells `k / m` with a part above its whole, and cells with a product whose count stands in another column.
fn counted_cells(table: &Table, findings: &mut Vec<Finding>) {
    let report = |row: usize, column: usize, message: String, cause: &str| Finding {
        rule: Rule::Total,
        line: table.rows[row].line,
        column: table.cell(row, column).map_or(1, |cell| cell.column).max(1),
        quote: format!(
            "{} | {}",
            table.label(row),
            table.cell(row, column).map_or("", |cell| &cell.text)
        ),
        message,
        cause: format!("line {}: {cause}", table.line),
        evidence: Vec::new(),
    };
    for column in 0..table.columns.len() {
        let parts: Vec<Option<(f64, f64)>> = (0..table.rows.len())
            .map(|row| part_of(table.cell(row, column).map_or("", |cell| &cell.text)))
            .collect();
        let filled = (0..table.rows.len())
            .filter(|row| !is_missing(table.cell(*row, column).map_or("", |cell| &cell.text)))
            .count();
        let pairs: Vec<(usize, f64, f64)> = parts
            .iter()
            .enumerate()
            .filter_map(|(row, part)| part.map(|(k, m)| (row, k, m)))
            .collect();
        let (over, within): (Vec<(usize, f64, f64)>, Vec<_>) =
            pairs.iter().copied().partition(|pair| pair.1 > pair.2);
        if pairs.len() == filled
            && over.len() == 1
            && within.iter().any(|pair| pair.1 == pair.2)
            && !table.name(column).contains('/')
        {
            let (row, k, m) = over[0];
            findings.push(report(
                row,
                column,
                format!("{} of {}: a part above its whole", shown(k), shown(m)),
                table.name(column),
            ));
        }
        let products: Vec<(usize, f64)> = (0..table.rows.len())
            .filter_map(|row| Some((row, product(&table.cell(row, column)?.text)?)))
            .filter(|(_, value)| *value >= 10.0)
            .collect();
        if products.len() < 2 {
            continue;
        }
        for other in (0..table.columns.len()).filter(|other| *other != column) {
            let count = |row: usize| {
                let text = &table.cell(row, other)?.text;
                part_of(text).map(|part| part.1).or_else(|| {
                    table
                        .plain(row, other)
                        .filter(|n| n.is_count())
                        .map(|n| n.value)
                })
            };
            let (same, differ): (Vec<_>, Vec<_>) = products
                .iter()
                .filter(|(row, _)| count(*row).is_some())
                .partition(|(row, value)| count(*row) == Some(*value));
            if let ([(row, value)], false) = (differ.as_slice(), same.is_empty()) {
                let message = format!(
                    "`{}` gives {}",
                    table.cell(*row, column).map_or("", |cell| &cell.text),
                    shown(*value)
                );
                findings.push(report(*row, other, message, table.name(column)));
            }
        }
    }
}

/// `84 / 84`.
pub(crate) fn part_of(text: &str) -> Option<(f64, f64)> {
    let (k, m) = text.split_once('/')?;
    let number = |part: &str| {
        let part = part.trim().replace(',', "");
        (!part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
            .then(|| part.parse().ok())
            .flatten()
    };
    Some((number(k)?, number(m)?))
}

/// The value of `7 models × 4 loads × 3 repeats`.
fn product(text: &str) -> Option<f64> {
    let factors: Vec<&str> = text.split('×').collect();
    if factors.len() < 2 {
        return None;
    }
    factors.iter().try_fold(1.0, |product, factor| {
        let mut words = factor.split_whitespace();
        let number: f64 = words.next()?.replace(',', "").parse().ok()?;
        words
            .all(|word| word.chars().all(char::is_alphabetic))
            .then_some(product * number)
    })
}

/// Tables with the same columns of which one lacks a row that all others have.
pub(crate) fn missing_rows(tables: &[Table]) -> Vec<Finding> {
    let mut groups: BTreeMap<&[String], Vec<&Table>> = BTreeMap::new();
    for table in tables {
        if (0..table.columns.len()).any(|column| table.is_numeric(column)) {
            groups.entry(&table.columns).or_default().push(table);
        }
    }
    let mut findings = Vec::new();
    for group in groups.values().filter(|group| group.len() >= 3) {
        let labels = |table: &Table| -> Vec<String> {
            (0..table.rows.len())
                .map(|row| normal(table.label(row)))
                .collect()
        };
        let lists: Vec<Vec<String>> = group.iter().map(|table| labels(table)).collect();
        let Some(full) = lists.iter().max_by_key(|list| list.len()) else {
            continue;
        };
        let shorter: Vec<usize> = (0..lists.len()).filter(|at| lists[*at] != *full).collect();
        let [short] = shorter.as_slice() else {
            continue;
        };
        let lacking: Vec<&String> = full
            .iter()
            .filter(|label| !lists[*short].contains(label))
            .collect();
        let rest: Vec<&String> = full
            .iter()
            .filter(|label| lists[*short].contains(label))
            .collect();
        if let ([label], true) = (
            lacking.as_slice(),
            rest.iter().copied().eq(lists[*short].iter()) && !rest.is_empty(),
        ) {
            findings.push(Finding {
                rule: Rule::Restated,
                line: group[*short].line,
                column: 1,
                quote: group[*short].columns.join(" | "),
                message: format!(
                    "no row `{label}`, which the {} other tables with these columns have",
                    group.len() - 1
                ),
                cause: format!("line {}: rows", group[*short].line),
                evidence: Vec::new(),
            });
        }
    }
    findings
}
