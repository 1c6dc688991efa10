//! A table as observations: every number with its position on each axis.

use std::collections::{BTreeMap, BTreeSet};

use crate::claims::lexicon::{canonical, is_statistic, more_is_better};
use crate::claims::sentence::Mention;
use crate::number::{Quantity, quantities, range_at, unit_named};
use crate::table::Table;
use crate::words::{normal, words};

/// An axis that distinguishes rows or columns of a table.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    /// Words of its name, if the table has one.
    pub(crate) name: Vec<String>,
    pub(crate) values: Vec<Value>,
}

/// A position on an axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Value {
    /// The text in the table.
    pub(crate) text: String,
    pub(crate) words: Vec<String>,
    /// The number of a level (`c=4`).
    pub(crate) level: Option<f64>,
}

/// A number of a table.
#[derive(Debug, Clone)]
pub(crate) struct Fact {
    /// Its position on each axis.
    pub(crate) at: Vec<Option<usize>>,
    /// The number, in the unit of its column.
    pub(crate) value: Quantity,
    /// The other end, if the cell has a range.
    pub(crate) high: Option<Quantity>,
    /// Whether more is better; `None` if its column does not show it.
    pub(crate) more_is_better: Option<bool>,
    /// Its place and its text.
    pub(crate) place: (String, String),
}

impl Fact {
    /// The value and half a unit of its last digit, in the unit of another number.
    pub(crate) fn in_unit_of(&self, number: &Quantity) -> (f64, f64) {
        let mut scale = 1.0;
        if self.value.unit != number.unit {
            scale = self.value.measure().1 / number.measure().1;
        }
        (self.value.value * scale, self.value.half * scale)
    }

    /// Whether a stated number can be this one, rounded.
    pub(crate) fn rounds_to(&self, number: &Quantity) -> bool {
        let (value, half) = self.in_unit_of(number);
        number.rounds(value - half, value + half)
    }

    /// Whether it is a rate or a time, to which words of speed apply.
    pub(crate) fn is_speed(&self) -> bool {
        self.value.unit.ends_with("/s") || self.value.measure().0 == "time"
    }
}

/// Facts in lines along an axis: all other positions of a line are the same.
pub(crate) type Lines<'a> = BTreeMap<Vec<Option<usize>>, Vec<&'a Fact>>;

/// Whether facts differ only in their place on an axis.
pub(crate) fn one_line(facts: &[&Fact], axis: usize) -> bool {
    lines(facts.iter().copied(), axis).len() == 1
}

/// Groups facts into lines along an axis.
pub(crate) fn lines<'a>(facts: impl IntoIterator<Item = &'a Fact>, axis: usize) -> Lines<'a> {
    let mut lines = Lines::new();
    for fact in facts {
        let mut key = fact.at.clone();
        key[axis] = None;
        lines.entry(key).or_default().push(fact);
    }
    lines
}

/// The observations of a table.
#[derive(Debug, Clone)]
pub(crate) struct Facts<'a> {
    pub(crate) table: &'a Table,
    pub(crate) axes: Vec<Axis>,
    pub(crate) facts: Vec<Fact>,
    /// Words of the title and of the headers that all columns share.
    pub(crate) metric: Vec<String>,
    /// The axis of the metrics: the columns, or the rows if these have different units.
    pub(crate) across: Option<usize>,
    /// Whether there are several metrics with different units.
    pub(crate) mixed: bool,
}

/// A column of numbers, with its parsed header.
struct Column {
    index: usize,
    unit: String,
    words: Vec<String>,
    text: String,
    /// The level in a header such as `c=4` or `4 clients`.
    level: Option<(String, f64)>,
    /// The two ends in a header such as `A → B`.
    ends: Option<(String, String)>,
}

/// Separates the unit from a header: `TTFT (ms)`, `Kestrel tok/s`.
pub(crate) fn header_unit(header: &str) -> (String, String) {
    let header = &header.trim().replace('_', " ");
    let unit = |text: &str| {
        let text = text.trim().trim_matches(['(', ')', '[', ']', ',']);
        unit_named(text.trim())
    };
    for mark in ['(', '['] {
        if let Some(at) = header.rfind(mark)
            && let Some(unit) = unit(&header[at..])
        {
            return (header[..at].trim().to_owned(), unit);
        }
    }
    // `tok/s (baseline)`: the unit comes first, and the text in brackets distinguishes the columns.
    if let Some((first, rest)) = header.split_once(" (")
        && first.len() > 1
        && let Some(unit) = unit(first)
    {
        return (rest.trim_end_matches(')').to_owned(), unit);
    }
    if let Some((before, last)) = header.rsplit_once([' ', ','])
        && last.contains('(') == last.contains(')')
        && let Some(unit) = unit(last)
    {
        return (before.trim().trim_end_matches(',').to_owned(), unit);
    }
    match unit(header) {
        Some(unit) => (String::new(), unit),
        None => (header.to_owned(), String::new()),
    }
}

/// The unit in brackets in a title: `Latency (p99, ms)`.
fn title_unit(title: &str) -> String {
    let inner = title
        .rsplit_once('(')
        .and_then(|(_, rest)| rest.split_once(')'));
    let inner = inner.map_or("", |(inner, _)| inner);
    // `requests per second under a limit of 200 ms`
    let end = [" under ", " at ", " for ", " with "]
        .iter()
        .filter_map(|word| inner.find(word))
        .min();
    let parts = inner[..end.unwrap_or(inner.len())].split(',');
    parts
        .map(|part| header_unit(part.trim()))
        .find(|(rest, unit)| rest.is_empty() && !unit.is_empty())
        .map_or(String::new(), |(_, unit)| unit)
}

fn plain_words(text: &str) -> Vec<String> {
    words(text)
        .into_iter()
        .map(|word| canonical(&word.text).to_owned())
        .collect()
}

impl Column {
    fn of(table: &Table, index: usize) -> Self {
        let header = table.name(index);
        let (rest, mut unit) = header_unit(header);
        if unit.is_empty() {
            // The cells may have the unit instead.
            let mut units = (0..table.rows.len())
                .filter_map(|row| table.value(row, index))
                .map(|n| n.unit.as_str());
            let first = units.next().unwrap_or("");
            if units.all(|unit| unit == first) {
                first.clone_into(&mut unit);
            }
        }
        let ends = rest.split_once('→').map(|(before, after)| {
            let last = before.split_whitespace().last().unwrap_or("");
            let first = after.split_whitespace().next().unwrap_or("");
            (last.to_owned(), first.to_owned())
        });
        let mut kept = rest.clone();
        if let Some((a, b)) = &ends {
            for part in [a.as_str(), "→", b.as_str()] {
                kept = kept.replacen(part, "", 1);
            }
        }
        // A column with no other name has that of its unit.
        let text = match kept.trim() {
            "" if ends.is_none() => header.trim(),
            name => name,
        };
        Self {
            index,
            level: None,
            words: plain_words(text),
            text: text.to_owned(),
            unit,
            ends: ends.filter(|(a, b)| !a.is_empty() && !b.is_empty()),
        }
    }
}

/// Which columns of a table are figures, and which name its rows.
struct Layout {
    columns: Vec<Column>,
    labels: Vec<usize>,
    /// The column of labels whose labels are levels, such as numbers of clients.
    levels: Option<usize>,
    /// The words that the headers of all figures share.
    shared: Vec<String>,
}

impl Layout {
    /// Returns the layout of a table with figures and labels.
    fn of(table: &Table) -> Option<Self> {
        let all = 0..table.columns.len();
        let numeric: Vec<usize> = all.clone().filter(|c| table.is_numeric(*c)).collect();
        let levels = (numeric.len() > 1 && numeric[0] == 0 && is_levels(table)).then_some(0);
        let levels = levels.or_else(|| repeated_levels(table, &numeric));
        let figures = numeric.iter().filter(|c| Some(**c) != levels);
        let mut columns: Vec<Column> = figures.map(|c| Column::of(table, *c)).collect();
        let is_label = |c: &usize| {
            !numeric.contains(c) && is_labels(table, *c) && !is_verdict(table, *c, &columns)
        };
        let labels: Vec<usize> = all.filter(is_label).chain(levels).collect();
        let first = columns.first().filter(|_| !labels.is_empty())?;
        let everywhere = |word: &&String| columns.iter().all(|c| c.words.contains(word));
        let mut shared: Vec<String> = first.words.iter().filter(everywhere).cloned().collect();
        if columns.len() == 1 {
            shared.clear();
        }
        // `1 client`, `8 clients`, or `c=1`, `c=8`: levels of the noun that all columns share.
        let level = |column: &Column| {
            let mut own = column.words.iter().filter(|word| !shared.contains(word));
            let number = own.next()?.parse::<f64>().ok()?;
            own.next().is_none().then_some(number)
        };
        if let ([noun], Some(levels)) = (
            shared.as_slice(),
            columns.iter().map(level).collect::<Option<Vec<f64>>>(),
        ) {
            for (column, level) in columns.iter_mut().zip(levels) {
                column.level = Some((noun.clone(), level));
            }
        }
        Some(Self {
            columns,
            labels,
            levels,
            shared,
        })
    }
}

impl<'a> Facts<'a> {
    /// Reads a table; `None` if it has no figures or no labels.
    pub(crate) fn of(table: &'a Table) -> Option<Self> {
        let Layout {
            columns,
            labels,
            levels,
            shared,
        } = Layout::of(table)?;
        let mut metric = plain_words(&table.title);
        metric.extend(plain_words(&table.caption));
        metric.extend(shared.iter().cloned());
        let mut facts = Self {
            table,
            axes: Vec::new(),
            facts: Vec::new(),
            metric,
            across: None,
            mixed: false,
        };
        let axes = &mut facts.axes;
        axes.extend(labels.iter().map(|column| Axis {
            name: plain_words(table.name(*column)),
            values: Vec::new(),
        }));
        let across = (columns.len() > 1 || !columns[0].words.is_empty()).then_some(axes.len());
        if across.is_some() {
            let level = columns.iter().find_map(|c| c.level.as_ref());
            axes.push(Axis {
                name: level.map_or(Vec::new(), |level| vec![level.0.clone()]),
                values: Vec::new(),
            });
        }
        facts.across = across;
        let ends = columns.iter().find_map(|c| c.ends.clone()).map(|(a, b)| {
            let value = |text: String| Value {
                words: plain_words(&text),
                text,
                level: None,
            };
            axes.push(Axis {
                name: Vec::new(),
                values: vec![value(a), value(b)],
            });
            axes.len() - 1
        });
        for row in 0..table.rows.len() {
            let mut at = facts.labels_of(row, &labels, levels);
            for column in &columns {
                if let Some(axis) = across {
                    let own = |word: &&String| column.level.is_some() || !shared.contains(word);
                    let own = column.words.iter().filter(own).cloned().collect();
                    let level = column.level.as_ref().map(|level| level.1);
                    at[axis] = facts.axes[axis].place(&column.text, own, level);
                }
                facts.read(row, column, &at, ends);
            }
        }
        let metrics = facts.metric_axis();
        facts.mixed = metrics.is_some();
        facts.across = metrics.or(facts.across);
        (!facts.facts.is_empty()).then_some(facts)
    }

    /// The axis along which the units differ: the rows, if a table has its metrics in rows.
    fn metric_axis(&self) -> Option<usize> {
        let axes = self.across.into_iter().chain(0..self.axes.len());
        axes.into_iter().find(|axis| {
            let mut units: Vec<Option<&str>> = vec![None; self.axes[*axis].values.len()];
            let one = self.facts.iter().all(|fact| {
                let unit = fact.value.unit.as_str();
                fact.at[*axis].is_none_or(|at| *units[at].get_or_insert(unit) == unit)
            });
            let mut distinct: Vec<&str> = units.into_iter().flatten().collect();
            distinct.sort_unstable();
            distinct.dedup();
            one && distinct.len() > 1
        })
    }

    /// The positions of a row on the axes of its labels.
    fn labels_of(
        &mut self,
        row: usize,
        labels: &[usize],
        levels: Option<usize>,
    ) -> Vec<Option<usize>> {
        let mut at = vec![None; self.axes.len()];
        for (axis, column) in labels.iter().enumerate() {
            let cell = self.table.cell(row, *column);
            let text = cell.map_or("", |cell| &cell.text);
            let number = cell.and_then(|cell| cell.value.as_ref()).map(|v| v.value);
            let level = number.filter(|_| Some(*column) == levels);
            // A single letter at the end of a label is more likely part of a name.
            let bare = match header_unit(text) {
                (bare, unit) if unit.len() > 1 || text.trim_end().ends_with([')', ']']) => bare,
                _ => text.to_owned(),
            };
            let words = plain_words(if bare.is_empty() { text } else { &bare });
            at[axis] = self.axes[axis].place(text, words, level);
        }
        at
    }

    fn read(&mut self, row: usize, column: &Column, at: &[Option<usize>], ends: Option<usize>) {
        let table = self.table;
        let Some(cell) = table.cell(row, column.index) else {
            return;
        };
        let place = (table.place(row, column.index), cell.text.clone());
        let mut metric = column.words.clone();
        metric.extend(self.metric.iter().cloned());
        metric.extend(plain_words(table.label(row)));
        let (_, mut row_unit) = header_unit(table.label(row));
        for text in [&table.title, &table.caption] {
            if row_unit.is_empty() {
                row_unit = title_unit(text);
            }
        }
        let with_unit = |number: &Quantity| {
            let mut number = number.clone();
            if number.unit.is_empty() {
                column.unit.clone_into(&mut number.unit);
                if number.unit.is_empty() {
                    row_unit.clone_into(&mut number.unit);
                }
            }
            number
        };
        let numbers = quantities(&cell.text);
        let mut add = |at: Vec<Option<usize>>, value: &Quantity, high: Option<&Quantity>| {
            let value = with_unit(value);
            self.facts.push(Fact {
                at,
                more_is_better: more_is_better(&value.unit, &metric),
                value,
                high: high.map(with_unit),
                place: place.clone(),
            });
        };
        match (ends.filter(|_| column.ends.is_some()), numbers.as_slice()) {
            (Some(axis), [a, b, ..]) if cell.text.contains('→') => {
                for (end, number) in [a, b].into_iter().enumerate() {
                    let mut at = at.to_vec();
                    at[axis] = Some(end);
                    add(at, number, None);
                }
            }
            (None, [a, b]) if range_at(&cell.text, &numbers, a).is_some() => {
                let low = Quantity {
                    unit: b.unit.clone(),
                    ..a.clone()
                };
                add(at.to_vec(), &low, Some(b));
            }
            (None, _) => {
                if let Some(number) = cell.plain() {
                    add(at.to_vec(), number, None);
                }
            }
            _ => {}
        }
    }

    /// The words of all labels and names, by which a sentence finds its tables.
    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        let labels = self.axes.iter().flat_map(|axis| &axis.values);
        labels
            .flat_map(|value| &value.words)
            .chain(self.axes.iter().flat_map(|axis| &axis.name))
            .map(String::as_str)
    }

    /// The words of its units, by which a sentence without a label finds its tables.
    pub(crate) fn unit_words(&self) -> BTreeSet<String> {
        let units: BTreeSet<&str> = self.facts.iter().map(|f| f.value.unit.as_str()).collect();
        let words = units.into_iter().flat_map(words);
        words.map(|word| word.text).collect()
    }

    /// Line of the table; 0 for data.
    pub(crate) fn line(&self) -> usize {
        if self.table.file.is_empty() {
            self.table.line
        } else {
            0
        }
    }
}

impl Facts<'_> {
    /// The unit of a column, from its first number.
    pub(crate) fn unit_of(&self, axis: usize, value: usize) -> &str {
        let fact = self.facts.iter().find(|fact| fact.at[axis] == Some(value));
        fact.map_or("", |fact| fact.value.unit.as_str())
    }

    /// The facts at the named places. On an axis with several named labels, each of them fits; one axis may be free.
    pub(crate) fn named(&self, mentions: &[Mention], free: Option<usize>) -> Vec<&Fact> {
        let mut asked: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for mention in mentions.iter().filter(|m| Some(m.axis) != free) {
            asked.entry(mention.axis).or_default().push(mention.value);
        }
        let fits = |fact: &&Fact| {
            let mut asked = asked.iter();
            asked.all(|(axis, values)| fact.at[*axis].is_some_and(|at| values.contains(&at)))
        };
        self.facts.iter().filter(fits).collect()
    }

    /// The label, on any axis, that takes most words, by the number of words that each takes at an offset of a text.
    pub(crate) fn longest(
        &self,
        start: usize,
        taken: impl Fn(&Axis, &Value) -> usize,
    ) -> Option<(usize, Mention)> {
        let mut best: Option<(usize, Mention)> = None;
        for (axis, places) in self.axes.iter().enumerate() {
            for (value, place) in places.values.iter().enumerate() {
                let n = taken(places, place);
                if n > best.map_or(0, |best| best.0) {
                    best = Some((n, Mention { axis, value, start }));
                }
            }
        }
        best
    }

    /// The position of a fact among the columns.
    pub(crate) fn column(&self, fact: &Fact) -> Option<usize> {
        self.across.and_then(|across| fact.at[across])
    }

    /// The axis whose values are rising levels: sizes, loads.
    pub(crate) fn ladder(&self) -> Option<usize> {
        (0..self.axes.len()).find(|axis| {
            let values = &self.axes[*axis].values;
            values.len() >= 3 && values.iter().all(|value| value.level.is_some())
        })
    }

    /// The axis and value of a level with a noun: `64` on the axis `Clients`.
    pub(crate) fn level(&self, level: f64, noun: &[String]) -> Option<(usize, usize)> {
        self.axes.iter().enumerate().find_map(|(at, axis)| {
            let named = !noun.is_empty()
                && axis.name.len() >= noun.len()
                && axis.name[axis.name.len() - noun.len()..]
                    .iter()
                    .zip(noun)
                    .all(|(a, b)| a.trim_end_matches('s') == b.trim_end_matches('s'));
            let value = axis
                .values
                .iter()
                .position(|value| value.level == Some(level));
            named.then_some(at).zip(value)
        })
    }
}

impl Axis {
    /// The index of a value, which is added if it is new. An empty value has none.
    fn place(&mut self, text: &str, words: Vec<String>, level: Option<f64>) -> Option<usize> {
        if words.is_empty() && level.is_none() {
            return None;
        }
        let same = |value: &Value| value.words == words && value.level == level;
        let at = self.values.iter().position(same);
        let at = at.unwrap_or(self.values.len());
        if at == self.values.len() {
            let text = text.to_owned();
            self.values.push(Value { text, words, level });
        }
        Some(at)
    }

    /// Whether its values are statistics (`mean`, `p95`), which are never sides of a comparison.
    pub(crate) fn is_statistic(&self) -> bool {
        self.values
            .iter()
            .any(|value| value.words.iter().any(|word| is_statistic(word)))
    }
}

/// Whether the first column contains rising levels: loads, sizes.
fn is_levels(table: &Table) -> bool {
    let values: Vec<f64> = (0..table.rows.len())
        .filter_map(|row| table.plain(row, 0))
        // `4k` and `1M` are also levels.
        .filter(|n| n.unit.is_empty() && n.value >= 0.0 && n.half >= 0.5)
        .map(|n| n.value)
        .collect();
    values.len() == table.rows.len() && values.windows(2).all(|two| two[0] < two[1])
}

/// Words for a column that numbers repetitions, which are not levels.
const REPEATS: [&str; 10] = [
    "attempt",
    "block",
    "iteration",
    "repeat",
    "repetition",
    "replicate",
    "round",
    "run",
    "seed",
    "trial",
];

/// The first column of numbers, if it contains levels at which the same labels were measured: `Engine`, `Clients`. Only
/// with it are the labels of a row unique, and each level has the same number of rows.
fn repeated_levels(table: &Table, numeric: &[usize]) -> Option<usize> {
    let (&[column, _, ..], n) = (numeric, table.rows.len()) else {
        return None;
    };
    let header = normal(&table.columns[column]);
    if header.split(' ').any(|word| REPEATS.contains(&word)) {
        return None;
    }
    let labels: Vec<usize> = (0..table.columns.len())
        .filter(|c| !numeric.contains(c) && is_labels(table, *c))
        .collect();
    let mut rows: BTreeMap<u64, BTreeSet<Vec<&str>>> = BTreeMap::new();
    for row in 0..n {
        let level = table.plain(row, column)?;
        if !level.unit.is_empty() || level.value < 0.0 || level.half < 0.5 {
            return None;
        }
        let own = labels.iter().map(|c| table.text(row, *c)).collect();
        let level = rows.entry(level.value as u64).or_default();
        if !level.insert(own) {
            return None;
        }
    }
    let cases = rows.values().next()?;
    let complete = rows.values().all(|own| own == cases);
    (column <= labels.len() && complete && cases.len() > 1 && rows.len() > 1).then_some(column)
}

/// Whether a column names the better of the other columns (`Winner`), so that it only repeats them.
fn is_verdict(table: &Table, column: usize, columns: &[Column]) -> bool {
    let names: Vec<String> = columns.iter().map(|column| normal(&column.text)).collect();
    let named = |row: &usize| names.contains(&normal(table.text(*row, column)));
    (0..table.rows.len()).filter(named).count() > table.rows.len() / 2
}

/// Whether a column contains labels and not remarks.
fn is_labels(table: &Table, column: usize) -> bool {
    let rows = 0..table.rows.len();
    let texts: Vec<&str> = rows.map(|row| table.text(row, column)).collect();
    let filled = texts.iter().filter(|text| !text.is_empty()).count();
    let short = |text: &&str| text.split_whitespace().count() <= 6;
    filled * 2 > texts.len() && texts.iter().all(short)
}
