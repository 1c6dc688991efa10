//! How the rows of a table are distinguished, and which of them a sentence names.

use std::collections::BTreeMap;

use crate::rules::words::{names, positions, words};
use crate::table::Table;
use crate::text::Prose;

/// No more columns than these tell rows apart.
const MOST_KEYS: usize = 5;

/// What counts of clients are called.
const LOAD: &[&str] = &[
    "client",
    "users",
    "agent",
    "concurrency",
    "n",
    "concurrent",
    "level",
];

/// The fewest columns from the left that tell every row from the others: labels and whole numbers.
pub(crate) fn keys(table: &Table) -> Option<Vec<usize>> {
    if table.rows.len() < 2 {
        return None;
    }
    let label = |row: usize, column: usize| -> Option<&str> {
        let cell = table.rows[row].cells.get(column)?;
        let plain = cell
            .value
            .as_ref()
            .is_none_or(|v| v.is_count() || v.unit == "users");
        (!cell.text.is_empty() && cell.text.len() < 60 && (plain || column == 0))
            .then_some(&cell.text)
    };
    let mut columns = Vec::new();
    for column in 0..table.columns.len().min(MOST_KEYS) {
        if !(0..table.rows.len()).all(|row| label(row, column).is_some()) {
            return None;
        }
        columns.push(column);
        let mut tuples: Vec<Vec<String>> = (0..table.rows.len())
            .map(|r| key(table, r, &columns))
            .collect();
        tuples.sort();
        tuples.dedup();
        if tuples.len() == table.rows.len() {
            return Some(columns);
        }
    }
    None
}

/// The labels of a row in some columns, lower case.
pub(crate) fn key(table: &Table, row: usize, columns: &[usize]) -> Vec<String> {
    columns
        .iter()
        .map(|&c| {
            table.rows[row]
                .cells
                .get(c)
                .map_or(String::new(), |c| part(&c.text))
        })
        .collect()
}

/// A label as it is compared: lower case, without the separators of thousands.
fn part(text: &str) -> String {
    let lower = text.to_lowercase();
    if lower.starts_with(|c: char| c.is_ascii_digit()) {
        lower.replace(',', "")
    } else {
        lower
    }
}

/// The rows that a sentence speaks of.
pub(crate) struct Named {
    /// Those with a label of each key that the sentence, or else the heading above it, says.
    pub(crate) rows: Vec<usize>,
    /// Whether it says every key.
    pub(crate) whole: bool,
}

/// The rows that a sentence names, if it says a label of the table at all.
pub(crate) fn rows_named(
    table: &Table,
    keys: &[usize],
    prose: &Prose,
    (start, end): (usize, usize),
    heading: &str,
) -> Option<Named> {
    let sentence = &prose.text[start..end];
    let mut named = Named {
        rows: (0..table.rows.len()).collect(),
        whole: true,
    };
    let mut said_any = false;
    for &column in keys {
        let mut labels: BTreeMap<String, bool> = BTreeMap::new();
        for &row in &named.rows {
            let text = &table.rows[row].cells[column].text;
            labels
                .entry(part(text))
                .or_insert_with(|| says(table, row, column, prose, (start, end)));
        }
        if !labels.values().any(|said| *said) {
            for (label, said) in &mut labels {
                *said = label.parse::<f64>().is_err() && names(heading, label);
            }
        }
        // `decode` is in `long-decode`: the longer label is meant.
        let said: Vec<String> = labels
            .iter()
            .filter(|l| *l.1)
            .map(|l| l.0.clone())
            .collect();
        for (label, own) in labels.iter_mut().filter(|l| *l.1) {
            *own = !said.iter().any(|other| {
                other.len() > label.len()
                    && other.contains(label.as_str())
                    && positions(sentence, label).len() <= positions(sentence, other).len()
            });
        }
        if labels.values().any(|said| *said) {
            said_any |= labels
                .iter()
                .any(|(label, said)| *said && label.parse::<f64>().is_err());
            named.rows.retain(|&row| {
                labels.get(&part(&table.rows[row].cells[column].text)) == Some(&true)
            });
        } else {
            named.whole = false;
        }
    }
    (said_any && !named.rows.is_empty()).then_some(named)
}

/// Whether a sentence says a label: as a whole word, or for a number with the name of its column (`8 clients`,
/// `N=8`).
fn says(
    table: &Table,
    row: usize,
    column: usize,
    prose: &Prose,
    (start, end): (usize, usize),
) -> bool {
    let cell = &table.rows[row].cells[column];
    let sentence = &prose.text[start..end];
    let Some(value) = &cell.value else {
        return !positions(sentence, &cell.text).is_empty();
    };
    let own = words(&table.columns[column]);
    let load = own.iter().any(|word| LOAD.contains(&word.as_str()));
    let fits = |word: &str| {
        let word = words(word);
        word.iter()
            .any(|word| own.contains(word) || load && LOAD.contains(&word.as_str()))
    };
    prose.numbers_in(start, end).iter().any(|number| {
        if number.value != value.value {
            return false;
        }
        let before = prose.text[start..number.start].trim_end_matches([' ', '=', ':']);
        let after = prose.text[number.end..end].trim_start_matches([' ', '-']);
        number.unit == "users" && load
            || before
                .rsplit(|c: char| !c.is_alphanumeric())
                .next()
                .is_some_and(fits)
            || after
                .split(|c: char| !c.is_alphanumeric())
                .next()
                .is_some_and(fits)
    })
}
