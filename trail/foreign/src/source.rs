//! Data tables prepared for questions: which rows do these words name, and what follows from them by simple
//! derivations?

use std::collections::{BTreeMap, BTreeSet};

use crate::claims::header_unit;
use crate::number::{Quantity, measure, median};
use crate::table::Table;
use crate::words::{normal, words};

/// A data table with its keys: columns of names and columns of levels.
pub(crate) struct KeyedTable<'a> {
    pub(crate) table: &'a Table,
    /// Columns of names or levels, which select rows; with the key of every row.
    keys: Vec<(usize, Vec<usize>, Vec<String>)>,
    /// Columns of levels: whole numbers that repeat, or the first column.
    levels: Vec<usize>,
    /// Columns of numbers, each with its words and unit.
    pub(crate) values: Vec<(usize, Vec<String>, String)>,
    /// The rows of every name and of every level.
    rows: BTreeMap<(usize, String), Vec<usize>>,
    /// Names in the table, with their columns.
    names: BTreeMap<String, BTreeSet<usize>>,
}

/// A key that words name in a table: a column, and the key in it.
pub(crate) type Key = (usize, String);

/// The maximum number of rows examined individually; for larger selections, only the values common to all rows are
/// derived.
const MOST_ROWS: usize = 20_000;
/// The maximum number of value columns that are combined with each other.
const MOST_PAIRED: usize = 10;
/// The maximum length, in words, of names searched for in a text.
const LONGEST_NAME: usize = 6;

/// How a value follows from cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum How {
    Cell,
    Mean,
    Median,
    Sum,
    Least,
    Most,
    Count,
    Difference,
    Ratio,
    Change,
}

impl How {
    /// How far it is from a plain cell, and the words that name it.
    #[rustfmt::skip]
    pub(crate) fn cost_and_names(self) -> (f64, &'static [&'static str]) {
        match self {
            Self::Cell => (0.0, &[]),
            Self::Mean => (1.0, &["mean", "average", "avg"]),
            Self::Median => (1.5, &["median"]),
            Self::Sum => (1.5, &["total", "sum", "all"]),
            Self::Least => (1.0, &["min", "minimum", "lowest", "least", "smallest", "fastest", "from"]),
            Self::Most => (1.0, &["max", "maximum", "highest", "peak", "largest", "most", "slowest", "to"]),
            Self::Count => (1.5, &["row", "cell", "run", "case", "count", "number", "all"]),
            Self::Difference => (1.5, &["difference", "delta", "by", "more", "less", "point", "pp"]),
            Self::Ratio => (1.0, &["ratio", "faster", "slower", "factor", "time", "higher", "lower", "speedup"]),
            Self::Change => (1.0, &[
                "faster", "slower", "more", "less", "higher", "lower", "change", "drop", "gain", "percent", "better",
                "worse", "increase", "reduction",
            ]),
        }
    }
}

/// How a value follows from a column, whatever the rows. The rows of a report's table can share it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Formula {
    pub(crate) how: How,
    pub(crate) column: usize,
    /// The second column of a difference, ratio or change between columns.
    pub(crate) against: Option<usize>,
    /// The key that was fixed or compared in addition to the named ones.
    pub(crate) by: String,
}

/// A value that follows from rows of the data.
#[derive(Debug, Clone)]
pub(crate) struct Derived {
    pub(crate) formula: Formula,
    pub(crate) value: f64,
    /// The unit of its column; a share can be a percentage, a ratio has none.
    pub(crate) unit: String,
    pub(crate) rows: Vec<usize>,
}

impl Derived {
    /// A value from one column.
    fn new(how: How, column: usize, by: String, value: f64, unit: &str, rows: &[usize]) -> Self {
        Self {
            formula: Formula {
                how,
                column,
                against: None,
                by,
            },
            value,
            unit: unit.to_owned(),
            rows: rows.to_vec(),
        }
    }
}

impl<'a> KeyedTable<'a> {
    pub(crate) fn of(table: &'a Table) -> Self {
        let mut source = Self {
            table,
            keys: Vec::new(),
            levels: Vec::new(),
            values: Vec::new(),
            rows: BTreeMap::new(),
            names: BTreeMap::new(),
        };
        let mut keys = Vec::new();
        for column in 0..table.columns.len() {
            if !table.is_numeric(column) {
                keys.push(column);
                continue;
            }
            let counts = (0..table.rows.len()).map(|row| {
                let count = table.plain(row, column);
                count.filter(|n| n.is_count() && n.value < 1e7)
            });
            let distinct: Option<BTreeSet<u64>> =
                counts.map(|n| n.map(|n| n.value as u64)).collect();
            if distinct.is_some_and(|distinct| {
                (column == 0 && distinct.len() == table.rows.len()
                    || distinct.len() * 2 <= table.rows.len())
                    && distinct.len() <= 64
            }) {
                keys.push(column);
                source.levels.push(column);
            }
            let (name, unit) = name_and_unit(table.name(column));
            let mut name: Vec<String> = words(&name).into_iter().map(|word| word.text).collect();
            name.dedup();
            source.values.push((column, name, unit));
        }
        for column in keys {
            let mut codes = Vec::with_capacity(table.rows.len());
            let mut indices: BTreeMap<String, usize> = BTreeMap::new();
            for row in 0..table.rows.len() {
                let text = table.text(row, column);
                let level = source.levels.contains(&column);
                let name = if level {
                    text.trim().replace(',', "")
                } else {
                    normal(text)
                };
                let next = indices.len();
                codes.push(*indices.entry(name.clone()).or_insert(next));
                if !name.is_empty() {
                    if !level {
                        source.names.entry(name.clone()).or_default().insert(column);
                    }
                    source.rows.entry((column, name)).or_default().push(row);
                }
            }
            let mut names = vec![String::new(); indices.len()];
            for (name, code) in indices {
                names[code] = name;
            }
            source.keys.push((column, codes, names));
        }
        source
    }

    /// The keys that a text names: names of the table, longest first, and levels as `name=4` or `name 4`.
    pub(crate) fn named(&self, text: &str) -> BTreeSet<Key> {
        let words = words(text);
        let mut mentioned = BTreeSet::new();
        let mut at = 0;
        while at < words.len() {
            let taken = (1..=LONGEST_NAME.min(words.len() - at))
                .rev()
                .find_map(|length| {
                    let name: Vec<&str> = words[at..at + length]
                        .iter()
                        .map(|word| word.text.as_str())
                        .collect();
                    let name = name.join(" ");
                    let plain = name.len() < 2 || length == 1 && COMMON.contains(&name.as_str());
                    let columns = self.names.get(&name).filter(|_| !plain)?;
                    mentioned.extend(columns.iter().map(|column| (*column, name.clone())));
                    Some(length)
                });
            if let (None, Some(next)) = (taken, words.get(at + 1)) {
                let (one, other) = (&words[at].text, &next.text);
                let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
                let joined = &text[words[at].end..next.start];
                if digits(other) && (joined.trim() == "=" || joined == " ") {
                    mentioned.extend(self.level(one, other));
                }
                // As in `8 clients`.
                if digits(one) && other.len() > 1 {
                    mentioned.extend(self.level(other, one));
                }
            }
            at += taken.unwrap_or(1);
        }
        mentioned
    }

    /// The key of a level, by the name of its column or that name's first letter.
    pub(crate) fn level(&self, name: &str, value: &str) -> Option<Key> {
        let key = |column: &usize| (*column, value.to_owned());
        let mut keys = self
            .levels
            .iter()
            .map(key)
            .filter(|key| self.rows.contains_key(key));
        keys.find(|(column, _)| self.is_like(*column, name))
    }

    /// The level column that has all these values and a similar name; any name for the first column of a table.
    pub(crate) fn levels_like(&self, name: &str, values: &[String], first: bool) -> Option<usize> {
        let fits = |column: &usize| {
            let mut values = values.iter();
            values.all(|value| self.rows.contains_key(&(*column, value.clone())))
        };
        let fitting: Vec<usize> = self.levels.iter().copied().filter(fits).collect();
        let name = normal(&name.replace('_', " "));
        let named = fitting
            .iter()
            .copied()
            .find(|column| self.is_like(*column, &name));
        named.or_else(|| fitting.first().copied().filter(|_| first))
    }

    /// Whether the name of a column shares a word with another name, or begins with that letter.
    fn is_like(&self, column: usize, name: &str) -> bool {
        let own = normal(&self.table.name(column).replace('_', " "));
        let shared = own
            .split(' ')
            .any(|word| name.split(' ').any(|other| other == word));
        shared || name.len() == 1 && own.starts_with(name)
    }

    /// The rows that keys select; several keys of one column are alternatives.
    pub(crate) fn pick(&self, keys: &BTreeSet<Key>) -> Vec<usize> {
        let mut columns: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for key in keys {
            columns
                .entry(key.0)
                .or_default()
                .extend(self.rows.get(key).into_iter().flatten());
        }
        let mut picked: Option<Vec<usize>> = None;
        for rows in columns.values_mut() {
            rows.sort_unstable();
            rows.dedup();
            picked = Some(match picked {
                None => rows.clone(),
                Some(before) => before
                    .into_iter()
                    .filter(|row| rows.binary_search(row).is_ok())
                    .collect(),
            });
        }
        picked.unwrap_or_else(|| (0..self.table.rows.len()).collect())
    }

    fn number(&self, row: usize, column: usize) -> Option<f64> {
        self.table.plain(row, column).map(|n| n.value)
    }

    /// Returns all simple derivations from the data for these keys.
    pub(crate) fn derive(&self, keys: &BTreeSet<Key>) -> Vec<Derived> {
        let rows = self.pick(keys);
        let mut out = Vec::new();
        if rows.is_empty() || rows.len() > MOST_ROWS {
            return out;
        }
        let first = self.values.first().map_or(0, |value| value.0);
        let n = rows.len() as f64;
        out.push(Derived::new(How::Count, first, String::new(), n, "", &rows));
        for (column, _, unit) in &self.values {
            let (held, mut values): (Vec<usize>, Vec<f64>) = rows
                .iter()
                .filter_map(|row| Some((*row, self.number(*row, *column)?)))
                .unzip();
            values.sort_by(f64::total_cmp);
            let (n, sum) = (values.len(), values.iter().sum::<f64>());
            let statistics = match values.as_slice() {
                [] => Vec::new(),
                [value] => vec![(How::Cell, *value)],
                [least, .., most] => vec![
                    (How::Mean, sum / n as f64),
                    (How::Median, median(&values)),
                    (How::Sum, sum),
                    (How::Least, *least),
                    (How::Most, *most),
                ],
            };
            out.extend(
                statistics.into_iter().map(|(how, value)| {
                    Derived::new(how, *column, String::new(), value, unit, &held)
                }),
            );
        }
        self.split(keys, &rows, &mut out);
        if let [row] = rows.as_slice() {
            self.between_columns(*row, &mut out);
        }
        out
    }

    /// Derives with an additional key: from the cells that it leaves, and from the comparison of two of its groups.
    fn split(&self, keys: &BTreeSet<Key>, rows: &[usize], out: &mut Vec<Derived>) {
        for (column, codes, names) in &self.keys {
            let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
            for row in rows {
                groups.entry(codes[*row]).or_default().push(*row);
            }
            if !(2..=12).contains(&groups.len()) {
                continue;
            }
            let asked = keys.iter().filter(|key| key.0 == *column).count();
            let key = self.table.name(*column);
            for (value, _, unit) in self.values.iter().filter(|value| value.0 != *column) {
                let mut means: Vec<(&str, f64, &[usize])> = Vec::new();
                for (code, rows) in &groups {
                    let held = rows.iter().filter_map(|row| self.number(*row, *value));
                    let (n, sum) = held.fold((0usize, 0.0), |(n, sum), v| (n + 1, sum + v));
                    if n > 0 {
                        means.push((&names[*code], sum / n as f64, rows));
                    }
                }
                out.extend(means.iter().map(|(name, mean, rows)| {
                    let how = match rows.len() {
                        1 => How::Cell,
                        _ => How::Mean,
                    };
                    Derived::new(how, *value, format!("{key}={name}"), *mean, unit, rows)
                }));
                // Two sides: the named ones, or the only two.
                if groups.len() > 2 && asked < 2 || groups.len() > 4 {
                    continue;
                }
                for (a, x, one) in &means {
                    for (b, y, other) in means.iter().filter(|other| other.0 != *a) {
                        let by = format!("{key} {a} against {b}");
                        let rows = [*one, *other].concat();
                        push_compared(out, (*value, None), &by, (*x, *y), unit, &rows);
                    }
                }
            }
        }
    }

    fn between_columns(&self, row: usize, out: &mut Vec<Derived>) {
        if self.values.len() > MOST_PAIRED {
            return;
        }
        let counted = |value: &&(usize, Vec<String>, String)| !self.levels.contains(&value.0);
        for (a, _, unit) in self.values.iter().filter(counted) {
            for (b, _, _) in self.values.iter().filter(counted).filter(|b| b.0 != *a) {
                if let (Some(x), Some(y)) = (self.number(row, *a), self.number(row, *b)) {
                    push_compared(out, (*a, Some(*b)), "", (x, y), unit, &[row]);
                }
            }
        }
    }
}

fn push_compared(
    out: &mut Vec<Derived>,
    (column, against): (usize, Option<usize>),
    by: &str,
    (x, y): (f64, f64),
    unit: &str,
    rows: &[usize],
) {
    for (how, value, unit) in [
        (How::Difference, x - y, unit),
        (How::Ratio, x / y, "x"),
        (How::Change, 100.0 * (x - y) / y, "%"),
    ] {
        if value.is_finite() {
            let mut derived = Derived::new(how, column, by.to_owned(), value, unit, rows);
            derived.formula.against = against;
            out.push(derived);
        }
    }
}

impl Derived {
    /// Whether a printed number can be this value, within the rounding of its last digit and in its unit.
    pub(crate) fn gives(&self, stated: &Quantity) -> bool {
        let slack = if stated.rough {
            stated.slack()
        } else {
            stated.half
        };
        let fits =
            |value: f64| (stated.value - value).abs() <= slack * (1.0 + 1e-9) + 1e-12 * value.abs();
        let sides = matches!(self.formula.how, How::Difference | How::Change);
        let both = |value: f64| fits(value) || sides && !stated.signed && fits(-value);
        let (kind, factor) = measure(&self.unit);
        let (stated_kind, stated_factor) = stated.measure();
        let by = |scales: &[f64]| scales.iter().any(|scale| both(self.value * scale));
        match self.formula.how {
            How::Count => by(&[1.0]),
            How::Ratio => by(&[if stated.is_percent() { 100.0 } else { 1.0 }]),
            How::Change => (stated.is_percent() || stated.unit.is_empty()) && by(&[1.0]),
            _ if stated.is_percent() => by(&[1.0, 100.0]),
            _ if stated.unit == "x" || self.unit == stated.unit => by(&[1.0]),
            _ if stated.unit.is_empty() || self.unit.is_empty() => by(&[1.0, 1e3, 1e-3]),
            _ => kind == stated_kind && by(&[factor / stated_factor]),
        }
    }

    /// Returns the formula in words.
    pub(crate) fn in_words(&self, table: &Table) -> String {
        let Formula {
            how,
            column,
            against,
            by,
        } = &self.formula;
        let column = table.name(*column);
        let by = match by.as_str() {
            "" => String::new(),
            by => format!(" ({by})"),
        };
        if let Some(other) = against.map(|other| table.name(other)) {
            return match how {
                How::Difference => format!("`{column}` − `{other}`"),
                How::Ratio => format!("`{column}` / `{other}`"),
                _ => format!("change from `{other}` to `{column}` in %"),
            };
        }
        let name = match how {
            How::Cell => return format!("`{column}`{by}"),
            How::Count => return format!("number of rows{by}"),
            How::Change => return format!("change of `{column}` in %{by}"),
            How::Difference => return format!("difference of `{column}`{by}"),
            How::Ratio => return format!("ratio of `{column}`{by}"),
            How::Mean => "mean",
            How::Median => "median",
            How::Sum => "sum",
            How::Least => "minimum",
            How::Most => "maximum",
        };
        format!("{name} of `{column}` over {} rows{by}", self.rows.len())
    }
}

/// Splits the header of a column into name and unit: `ttft_ms`, `tok_s`, `Rate (req/s)`.
fn name_and_unit(header: &str) -> (String, String) {
    let spaced = header.replace("_per_", "/").replace('_', " ");
    if let Some((before, last)) = header.rsplit_once('_')
        && last == "s"
    {
        let (name, unit) = header_unit(&format!("{}/s", before.replace('_', " ")));
        if unit.contains('/') {
            return (if name.is_empty() { spaced } else { name }, unit);
        }
    }
    header_unit(&spaced)
}

/// Words that are names in some tables but carry no meaning in a sentence.
const COMMON: &[&str] = &[
    "the", "and", "all", "no", "yes", "ok", "total", "none", "true", "false", "of", "for", "in",
    "to", "on", "at", "is", "mean", "value", "with",
];
