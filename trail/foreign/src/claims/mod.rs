//! Sentences against tables. A sentence is bound to a table as a whole or not at all: every word of it must be an
//! entity, metric, statistic, condition, quantifier or relation that the table can answer, or a word without weight.
//! One word that is none of these may be a condition that the table does not meet, so nothing is concluded.

mod facts;
mod judge;
mod lexicon;
mod pairs;
mod sentence;

use std::collections::BTreeMap;

use crate::document::Document;
use crate::finding::{Evidence, Finding, Rule};
use crate::table::Table;
use crate::words::words;

pub(crate) use facts::{Facts, header_unit};
use sentence::understand;

/// Tables with more cells than these are data dumps that no sentence reads cell by cell.
const MOST_CELLS: usize = 4000;

/// Tables that one sentence is held against: the nearest ones that share a label with it.
const MOST_TABLES: usize = 12;

/// Holds every sentence against the tables of the document and of the data.
pub(crate) fn check(document: &Document, data: &[Table]) -> Vec<Finding> {
    let tables: Vec<&Table> = document.tables.iter().chain(data).collect();
    let mut facts: Vec<Facts<'_>> = tables
        .iter()
        .filter(|table| table.rows.len() * table.columns.len() <= MOST_CELLS)
        .filter_map(|table| Facts::of(&[*table]))
        .collect();
    facts.extend(
        facts::siblings(&document.tables)
            .iter()
            .filter_map(|group| Facts::of(group)),
    );
    let mut index: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, fact) in facts.iter().enumerate() {
        for word in fact.words() {
            let list = index.entry(word).or_default();
            if list.last() != Some(&at) {
                list.push(at);
            }
        }
    }
    let mut findings = Vec::new();
    for prose in &document.prose {
        for &(start, end) in &prose.sentences {
            let place = prose.place(start);
            let near = nearest(&index, &facts, &prose.text[start..end], place.0);
            if let Some((message, evidence)) = contradiction(&prose.text[start..end], &near) {
                findings.push(Finding {
                    rule: Rule::Claim,
                    line: place.0,
                    column: place.1,
                    quote: prose.text[start..end].trim().to_owned(),
                    message,
                    cause: format!("line {}", place.0),
                    evidence,
                });
            }
        }
    }
    findings
}

/// The tables that share a word of their labels with a sentence; of many those nearest to its line.
fn nearest<'a, 't>(
    index: &BTreeMap<&str, Vec<usize>>,
    facts: &'a [Facts<'t>],
    sentence: &str,
    line: usize,
) -> Vec<&'a Facts<'t>> {
    let mut hits: Vec<usize> = Vec::new();
    for word in words(sentence) {
        if let Some(list) = index.get(word.text.as_str()) {
            // Facts are in the order of their lines: those around the sentence are enough.
            let middle = list.partition_point(|at| facts[*at].line() < line);
            hits.extend(
                &list[middle.saturating_sub(MOST_TABLES)..list.len().min(middle + MOST_TABLES)],
            );
        }
    }
    hits.sort_unstable();
    hits.dedup();
    hits.sort_by_key(|at| facts[*at].line().abs_diff(line));
    hits.truncate(MOST_TABLES);
    hits.into_iter().map(|at| &facts[at]).collect()
}

/// What a sentence, or a part of it that can stand alone, contradicts. All tables that it can be about must.
fn contradiction(sentence: &str, facts: &[&Facts<'_>]) -> Option<(String, Vec<Evidence>)> {
    let mut verdicts: Vec<Option<(String, Vec<Evidence>)>> = Vec::new();
    let mut bound = 0;
    for part in parts(sentence) {
        for fact in facts {
            let Some(claim) = understand(part, fact) else {
                continue;
            };
            let Some(verdict) = judge::judge(&claim, fact) else {
                continue;
            };
            bound += 1;
            verdicts.push(verdict);
        }
        if bound > 0 {
            break;
        }
    }
    if bound == 0 || verdicts.iter().any(Option::is_none) {
        return None;
    }
    verdicts.into_iter().next().flatten()
}

/// The sentence, then the parts between semicolons, dashes and contrasts.
fn parts(sentence: &str) -> Vec<&str> {
    let mut parts = vec![sentence];
    let mut rest = sentence;
    for mark in ["; ", " — ", " – ", ", while ", ", whereas ", ", but "] {
        if let Some((before, after)) = rest.split_once(mark) {
            parts.push(before);
            rest = after;
        }
    }
    if parts.len() > 1 {
        parts.push(rest);
    }
    parts
}
