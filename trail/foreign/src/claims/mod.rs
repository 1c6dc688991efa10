//! Sentences against tables. A sentence is bound to a table as a whole or not at all. Every word must be an entity,
//! metric, statistic, condition, quantifier or relation that the table can answer, or a word without weight. Any other
//! word may be a condition that the table does not meet, so nothing is concluded.

mod facts;
mod field;
mod judge;
mod lexicon;
mod pairs;
mod ranks;
mod sentence;
mod slips;

use std::collections::{BTreeMap, BTreeSet};

use crate::document::Document;
use crate::finding::{Evidence, Finding, Rule};
use crate::number::{Quantity, leading, quantities};
use crate::table::Table;
use crate::words::words;

pub(crate) use facts::{Facts, header_unit};
use judge::Ruling;
pub(crate) use lexicon::more_is_better;
use sentence::understand;

/// Tables with more cells than this are data dumps that no sentence describes cell by cell.
const MOST_CELLS: usize = 4000;

/// The maximum number of tables that a sentence is compared with: the nearest ones that share a label with it.
const MOST_TABLES: usize = 12;

/// Compares every sentence with the tables of the document and of the data.
pub(crate) fn check(document: &Document, data: &[Table]) -> Vec<Finding> {
    let tables: Vec<&Table> = data.iter().chain(&document.tables).collect();
    let facts: Vec<Facts<'_>> = tables
        .into_iter()
        .filter(|table| table.rows.len() * table.columns.len() <= MOST_CELLS)
        .filter_map(Facts::of)
        .collect();
    let units: Vec<BTreeSet<String>> = facts.iter().map(Facts::unit_words).collect();
    let by_label = index(facts.iter().map(Facts::words));
    let by_unit = index(units.iter().map(|words| words.iter().map(String::as_str)));
    let mut findings = Vec::new();
    let mut before = "";
    for prose in &document.prose {
        for &(start, end) in &prose.sentences {
            let place = prose.place(start);
            let sentence = &prose.text[start..end];
            let subject = std::mem::replace(&mut before, sentence);
            let mut near = nearest(&by_label, &facts, sentence, place.0);
            if near.is_empty() {
                near = nearest(&by_unit, &facts, sentence, place.0);
            }
            let slip = contradiction(sentence, &near).or_else(|| {
                let numbers = prose.numbers_in(start, end);
                slips::slip(
                    &slips::Saying::new(sentence, numbers, start),
                    &near,
                    subject,
                )
            });
            findings.extend(slip.map(|slip| {
                let cause = format!("line {}", place.0);
                let place = prose.place(start + slip.start);
                Finding {
                    evidence: slip.evidence,
                    ..Finding::new(Rule::Claim, place, sentence.trim(), slip.message, cause)
                }
            }));
        }
    }
    findings
}

/// The tables that have a word, by word.
fn index<'a>(
    tables: impl Iterator<Item = impl Iterator<Item = &'a str>>,
) -> BTreeMap<&'a str, BTreeSet<usize>> {
    let mut index: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for (at, words) in tables.enumerate() {
        for word in words {
            index.entry(word).or_default().insert(at);
        }
    }
    index
}

/// The tables whose labels share a word with a sentence; if there are many, those nearest to its line.
fn nearest<'a, 't>(
    index: &BTreeMap<&str, BTreeSet<usize>>,
    facts: &'a [Facts<'t>],
    sentence: &str,
    line: usize,
) -> Vec<&'a Facts<'t>> {
    // Facts are in line order, so those around the sentence are enough.
    let middle = facts.partition_point(|facts| facts.line() < line);
    let mut hits: BTreeSet<usize> = BTreeSet::new();
    for list in words(sentence)
        .iter()
        .filter_map(|word| index.get(word.text.as_str()))
    {
        hits.extend(list.range(..middle).rev().take(MOST_TABLES));
        hits.extend(list.range(middle..).take(MOST_TABLES));
    }
    let mut hits: Vec<usize> = hits.into_iter().collect();
    hits.sort_by_key(|at| facts[*at].line().abs_diff(line));
    hits.truncate(MOST_TABLES);
    hits.into_iter().map(|at| &facts[at]).collect()
}

/// What contradicts a sentence: a message, the cells, and the offset of the number at fault, or 0.
pub(crate) struct Contradiction {
    pub(crate) message: String,
    pub(crate) evidence: Vec<Evidence>,
    pub(crate) start: usize,
}

/// The contradiction to a sentence, or to clauses at its start. All tables that it may be about must contradict it.
fn contradiction(sentence: &str, facts: &[&Facts<'_>]) -> Option<Contradiction> {
    let whole = |facts: &&Facts<'_>| judge::judge(&understand(sentence, facts, &[])?, facts);
    let mut rulings: Vec<_> = facts.iter().filter_map(whole).collect();
    if rulings.is_empty() {
        let clauses = clauses(sentence);
        let by_clause = |facts: &&Facts<'_>| clause_by_clause(&clauses, facts);
        rulings = facts
            .iter()
            .filter(|_| clauses.len() > 1)
            .filter_map(by_clause)
            .collect();
    }
    // The first of several contradictions, if no table supports the sentence.
    let all: Option<Vec<Contradiction>> = rulings.into_iter().collect();
    all?.into_iter().next()
}

/// Judges the clauses of a sentence in order, as long as each is understood: one that is not may be a condition of all
/// that follow. A clause without a label is about that of the clause before.
fn clause_by_clause(clauses: &[&str], facts: &Facts<'_>) -> Ruling {
    let mut before: Vec<sentence::Mention> = Vec::new();
    let mut judged = None;
    let mut earlier = Vec::new();
    for clause in clauses {
        let Some(claim) = understand(clause, facts, &before) else {
            break;
        };
        // `With A it is higher than with B; the gain differs by 9`: the sides are those of the clause before.
        let two = |m: &sentence::Mention| {
            before
                .iter()
                .any(|o| o.axis == m.axis && o.value != m.value)
        };
        let compared = claim.relation.is_some() && claim.than.is_none() && before.iter().any(two);
        if claim.unknown > 0 || compared {
            break;
        }
        let ruling = judge::judge(&claim, facts);
        if ruling.is_none() && (claim.mentions.is_empty() || claim.only.is_some()) {
            // A condition such as `Over four runs, …` or `Except for Kite, …`.
            break;
        }
        // The labels of the clause, except those of columns.
        before = claim
            .mentions
            .iter()
            .filter(|m| Some(m.axis) != facts.across)
            .copied()
            .collect();
        match ruling {
            // `reaches 1,412 tok/s, up from 1,142 tok/s`: an earlier clause states the cell.
            Some(Some(wrong)) if states_cell(&earlier, &wrong) => break,
            Some(Some(wrong)) => return Some(Some(wrong)),
            Some(None) => judged = Some(None),
            None => {}
        }
        earlier.extend(quantities(clause));
    }
    judged
}

/// Whether one of the numbers is the only cell that contradicts a claim.
fn states_cell(numbers: &[Quantity], wrong: &Contradiction) -> bool {
    let [cell] = wrong.evidence.as_slice() else {
        return false;
    };
    let cell = leading(&cell.value);
    cell.is_some_and(|cell| numbers.iter().any(|n| n.value == cell.value))
}

/// Words that introduce a condition.
#[rustfmt::skip]
const CONDITIONS: &[&str] = &[
    "with", "without", "if", "when", "unless", "under", "after", "before", "for", "during", "once", "although",
    "though", "despite", "given", "using", "on", "at", "in", "by", "where", "while", "whereas", "except", "excluding",
    "including", "assuming", "provided", "compared", "against", "versus", "relative", "only", "until", "since",
    "because", "as", "to", "from", "than", "not",
];

/// The clauses of a sentence, cut at commas, colons, semicolons and before *and* between two numbers. Nothing is cut if
/// a clause may be a condition of the others; `, with` before a number adds a fact.
fn clauses(sentence: &str) -> Vec<&str> {
    let mut clauses: Vec<&str> = Vec::new();
    for part in sentence
        .split(", ")
        .flat_map(|part| part.split("; "))
        .flat_map(|part| part.split(": "))
    {
        let number = |text: &str| text.chars().any(|c| c.is_ascii_digit());
        match part.split_once(" and ") {
            Some((one, other))
                if number(one)
                    && number(other)
                    && !words(one).iter().any(|w| w.text == "between") =>
            {
                clauses.extend([one, other]);
            }
            _ => clauses.push(part),
        }
    }
    let condition = |clause: &str| {
        let words = words(clause);
        let first = words.first().map_or("", |word| word.text.as_str());
        let adds = first == "with"
            && words.get(1).is_some_and(|word| {
                matches!(word.text.as_str(), "a" | "an")
                    || word.text.starts_with(|c: char| c.is_ascii_digit())
            });
        CONDITIONS.contains(&first) && !adds
    };
    if clauses.iter().skip(1).any(|clause| condition(clause)) {
        return Vec::new();
    }
    clauses
}
