//! The sources of a document's numbers: for each number, the cell of the data, or the simple derivation of cells, that
//! yields it. The words around a number select the rows, and then its value decides. A column of a table is traced as a
//! whole: the derivation that yields most of its cells must yield the rest.

mod columns;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use crate::document::Document;
use crate::finding::Finding;
use crate::number::Quantity;
use crate::source::{Derived, How, Key, KeyedTable};
use crate::table::Table;
use crate::words::words;

/// The result of tracing a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The number is in a cell that the words around it name.
    Cell,
    /// The number follows from cells that the words around it name.
    Derived,
    /// Cells have this value, but the words around it name none of them.
    ValueOnly,
    /// The data that yields the rest of its column gives another value.
    Differs,
    /// Neither a cell nor a simple derivation gives it.
    NotFound,
}

impl Status {
    /// All statuses, in the order in which they are reported.
    pub const ALL: [Self; 5] = [
        Self::Differs,
        Self::NotFound,
        Self::ValueOnly,
        Self::Derived,
        Self::Cell,
    ];

    /// Returns the status in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cell => "cell",
            Self::Derived => "derived",
            Self::ValueOnly => "value only",
            Self::Differs => "differs",
            Self::NotFound => "not found",
        }
    }
}

/// The source of a number.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Derivation {
    /// The formula, in words.
    pub formula: String,
    /// The cells, or the first of them.
    pub places: Vec<String>,
    /// Its unrounded result.
    pub value: f64,
}

/// A number of the document with its sources, best first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Traced {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The number as printed.
    pub number: String,
    /// The sentence, or the row and the header.
    pub context: String,
    /// The result.
    pub status: Status,
    /// The sources; for a differing number, the expected one.
    pub sources: Vec<Derivation>,
    /// The total number of sources; only the best are listed.
    pub candidates: usize,
}

/// All numbers of a document, in its order.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Coverage {
    /// The numbers.
    pub numbers: Vec<Traced>,
}

impl Coverage {
    /// Counts the numbers with a status.
    pub fn count(&self, status: Status) -> usize {
        self.numbers
            .iter()
            .filter(|number| number.status == status)
            .count()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = Status::ALL
            .iter()
            .rev()
            .map(|status| format!("{} {}", self.count(*status), status.name()))
            .collect();
        write!(f, "{} numbers: {}", self.numbers.len(), parts.join(", "))
    }
}

/// The maximum number of sources of one table that are ranked for a number.
const MOST_CANDIDATES: usize = 200;

/// The maximum number of sources listed for a number.
const LISTED: usize = 3;

/// Traces every number of a document, and reports cells that differ from the derivation that yields the rest of their
/// column.
pub(crate) fn trace(document: &Document, tables: &[Table]) -> (Coverage, Vec<Finding>) {
    let mut tracer = Tracer::new(tables);
    let mut numbers = Vec::new();
    let mut findings = Vec::new();
    for table in &document.tables {
        tracer.table(table, &mut numbers, &mut findings);
    }
    for prose in &document.prose {
        for &(start, end) in &prose.sentences {
            let sentence = &prose.text[start..end];
            for number in prose.numbers_in(start, end) {
                let place = prose.place(number.start);
                let text = prose.text.get(number.start..number.end).unwrap_or("");
                let context = [sentence, document.heading_of(prose.section)];
                let asked = tracer
                    .sources
                    .iter()
                    .map(|source| source.named(sentence))
                    .collect();
                numbers.push(tracer.number(number, place, text, sentence.trim(), &context, &asked));
            }
        }
    }
    numbers.sort_by_key(|number| (number.line, number.column));
    (Coverage { numbers }, findings)
}

/// The keys that a context names, for each data table.
type Asked = Vec<BTreeSet<Key>>;

struct Tracer<'a> {
    sources: Vec<KeyedTable<'a>>,
    /// Every number of the data by value, with its table, row and column.
    values: Vec<(f64, usize, usize, usize)>,
    /// Cached derivations, by table and keys.
    derived: BTreeMap<(usize, BTreeSet<Key>), Vec<Derived>>,
}

impl<'a> Tracer<'a> {
    fn new(tables: &'a [Table]) -> Self {
        let mut values = Vec::new();
        for (at, table) in tables.iter().enumerate() {
            let cell = |(row, column)| Some((table.plain(row, column)?.value, at, row, column));
            values.extend(table.places().filter_map(cell));
        }
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self {
            sources: tables.iter().map(KeyedTable::of).collect(),
            values,
            derived: BTreeMap::new(),
        }
    }

    /// Derives values for the keys of a context. The cache holds a limited number of contexts.
    fn derive(&mut self, at: usize, keys: &BTreeSet<Key>) -> &[Derived] {
        if self.derived.len() > 5000 {
            self.derived.clear();
        }
        let sources = &self.sources;
        self.derived
            .entry((at, keys.clone()))
            .or_insert_with(|| sources[at].derive(keys))
    }

    /// Traces one number by the words around it.
    fn number(
        &mut self,
        stated: &Quantity,
        place: (usize, usize),
        text: &str,
        shown_context: &str,
        context: &[&str],
        asked: &Asked,
    ) -> Traced {
        let said: BTreeSet<String> = context
            .iter()
            .flat_map(|text| words(text))
            .map(|word| word.text)
            .collect();
        let digits = significant(text);
        let mut derivations: Vec<(f64, usize, Derived)> = Vec::new();
        for (at, keys) in asked.iter().enumerate() {
            let mut values = self.sources[at].values.iter();
            if keys.is_empty() && !values.any(|(_, name, _)| overlap(name, &said) > 0) {
                continue;
            }
            let fitting = self
                .derive(at, keys)
                .iter()
                .filter(|derived| derived.gives(stated));
            let candidates: Vec<Derived> = fitting.take(MOST_CANDIDATES).cloned().collect();
            derivations.extend(
                candidates
                    .into_iter()
                    .map(|derived| (self.score(at, &derived, keys, &said, digits), at, derived)),
            );
        }
        derivations.retain(|(score, _, _)| *score >= ENOUGH);
        derivations.sort_by(|a, b| b.0.total_cmp(&a.0));
        derivations.dedup_by(|b, a| {
            let (a_formula, b_formula) = (&a.2.formula, &b.2.formula);
            (a.1, &a.2.rows, a_formula.column, a_formula.how)
                == (b.1, &b.2.rows, b_formula.column, b_formula.how)
        });
        let candidates = derivations.len();
        let mut sources: Vec<Derivation> = derivations
            .iter()
            .take(LISTED)
            .map(|(_, at, derived)| self.source(*at, derived))
            .collect();
        if sources.is_empty() {
            sources = self.by_value(stated, digits);
        }
        let status = match derivations.first() {
            Some((_, _, derived)) if derived.formula.how == How::Cell => Status::Cell,
            Some(_) => Status::Derived,
            None if sources.is_empty() => Status::NotFound,
            None => Status::ValueOnly,
        };
        Traced {
            line: place.0,
            column: place.1.max(1),
            number: text.to_owned(),
            context: shown_context.to_owned(),
            status,
            candidates: candidates.max(sources.len()),
            sources,
        }
    }

    /// How well a derivation fits the words around a number: the names of rows and of the column, the statistic, the
    /// number of digits that had to agree, and the simplicity.
    fn score(
        &self,
        at: usize,
        derived: &Derived,
        keys: &BTreeSet<Key>,
        said: &BTreeSet<String>,
        digits: usize,
    ) -> f64 {
        let source = &self.sources[at];
        let column = |c: usize| {
            let value = source.values.iter().find(|value| value.0 == c);
            value.map_or(0.0, |(_, name, _)| {
                overlap(name, said) as f64 / name.len().max(1) as f64
            })
        };
        let formula = &derived.formula;
        let named = column(formula.column) + formula.against.map_or(0.0, column);
        let (cost, names) = formula.how.cost_and_names();
        let is_named = formula.how == How::Cell || names.iter().any(|name| said.contains(*name));
        let by = !formula.by.is_empty() && !said_all(&formula.by, said);
        2.0 * named
            + 1.5 * keys.iter().map(|key| key.0).collect::<BTreeSet<_>>().len() as f64
            + 0.8 * digits.min(4) as f64
            + if is_named { 1.0 } else { -0.5 }
            - cost
            - if by { 1.5 } else { 0.0 }
            - if formula.against.is_some() { 1.0 } else { 0.0 }
    }

    fn source(&self, at: usize, derived: &Derived) -> Derivation {
        let table = self.sources[at].table;
        let cells = derived.rows.iter().take(4);
        let places = cells
            .map(|row| table.place(*row, derived.formula.column))
            .collect();
        Derivation {
            formula: derived.in_words(table),
            places,
            value: derived.value,
        }
    }

    /// Cells with a value, anywhere. Numbers of one or two digits occur everywhere and prove nothing.
    fn by_value(&self, stated: &Quantity, digits: usize) -> Vec<Derivation> {
        if digits < 3 {
            return Vec::new();
        }
        let mut matching = Vec::new();
        for scale in [1.0, 0.01, 100.0, 1e-3, 1e3] {
            let low = (stated.value - stated.half) * scale;
            let high = (stated.value + stated.half) * scale;
            let from = self.values.partition_point(|value| value.0 < low);
            for (value, at, row, column) in self.values[from..]
                .iter()
                .take_while(|value| value.0 <= high)
                .take(LISTED)
            {
                let table = self.sources[*at].table;
                matching.push(Derivation {
                    formula: format!("`{}`", table.name(*column)),
                    places: vec![table.place(*row, *column)],
                    value: *value,
                });
            }
            if !matching.is_empty() {
                break;
            }
        }
        matching.truncate(LISTED);
        matching
    }
}

/// The minimum score at which words and value together identify a source.
const ENOUGH: f64 = 3.0;

fn overlap(name: &[String], said: &BTreeSet<String>) -> usize {
    name.iter().filter(|word| said.contains(*word)).count()
}

fn said_all(text: &str, said: &BTreeSet<String>) -> bool {
    words(text)
        .iter()
        .filter(|word| word.text != "against")
        .all(|word| said.contains(&word.text))
}

/// Digits of a number without leading zeros.
fn significant(text: &str) -> usize {
    let digits: String = text
        .chars()
        .take_while(|c| !c.is_alphabetic())
        .filter(char::is_ascii_digit)
        .collect();
    digits.trim_start_matches('0').len()
}
