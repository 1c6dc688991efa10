//! Explains a number: its tree from the crate `why`, and the places where a report prints it.

use std::collections::HashMap;

use artifacts::Store;
use pipeline::Coordinates;
use serde_json::{Value, json};
use why::{Answer, Document, Found, MadeOf, Number, Provenance, Query, TableRows};

use crate::error::Failure;
use crate::reply::{Freshness, Reply};
use crate::report;
use crate::request::Ask;
use crate::study::Study;

/// Explains a number, given by `line` and `column` of a report, or by `table`, `cell`, `row` and `column` of a table.
pub(crate) fn why(study: &Study, ask: &Ask, store: &Store) -> Result<Reply, Failure> {
    let answer = match ask.get("table") {
        Some(table) => of_table(study, table, ask, store)?,
        None => of_report(study, ask, store)?,
    };
    Ok(Reply::json(&answer, Freshness::Tagged))
}

/// A report with its lock, for one or many questions.
pub(crate) struct Trail<'store> {
    printed: Printed,
    provenance: Provenance<'store>,
}

impl<'store> Trail<'store> {
    /// Opens the report of a cell, or the first report.
    pub(crate) fn open(
        study: &Study,
        report: Option<&str>,
        store: &'store Store,
    ) -> Result<Self, Failure> {
        let document = report::find(study, report, store)?.document;
        let locks = std::slice::from_ref(&study.path);
        Ok(Self {
            provenance: Provenance::choose(store, locks, &document),
            printed: Printed::of(document),
        })
    }

    /// Returns the tree of the number at a place, or the candidates there. Each list of the tree has at most `most`
    /// items; for longer lists, `LIST_in_all` gives the full number.
    pub(crate) fn answer(
        &self,
        line: Option<usize>,
        column: Option<usize>,
        text: Option<&str>,
        most: usize,
    ) -> Result<Value, Failure> {
        let document = &self.printed.document;
        let query = Query {
            report: document.path.clone(),
            line,
            column,
            text: text.map(str::to_owned),
        };
        let (number, also) = match why::find(document, &query)? {
            Found::One(number, also) => (number, also),
            Found::Several(numbers) => return Ok(json!({"several": numbers})),
        };
        let answer = why::why(document, &self.provenance, number, &also)?;
        Ok(tree_of(answer, Some(&self.printed), most))
    }
}

/// A report, and the places where it prints each value.
struct Printed {
    document: Document,
    lines: Vec<String>,
    places: HashMap<String, Vec<usize>>,
}

impl Printed {
    fn of(document: Document) -> Self {
        let mut places: HashMap<String, Vec<usize>> = HashMap::new();
        for (i, number) in document.numbers.iter().enumerate() {
            if let Some(key) = key_of(number) {
                places.entry(key).or_default().push(i);
            }
        }
        let lines = document.markdown.split('\n').map(str::to_owned).collect();
        Self {
            document,
            lines,
            places,
        }
    }

    /// Returns every place where the report prints the value of a number.
    fn at(&self, number: &Number) -> Value {
        let places = key_of(number).and_then(|key| self.places.get(&key));
        let places = places.into_iter().flatten();
        let line = |place: &usize| {
            let n = &self.document.numbers[*place];
            let words = n.line.checked_sub(1).and_then(|line| self.lines.get(line));
            json!({"line": n.line, "column": n.column_start, "text": n.text, "words": words})
        };
        places.map(line).collect()
    }
}

/// Returns a key that is equal for two places with the same value; `None` if the number belongs to no artifact.
fn key_of(number: &Number) -> Option<String> {
    let (source, artifact) = (number.source, number.artifact?);
    let column = number.column.as_deref().unwrap_or("\u{0}");
    Some(match (&number.row, &number.row_key) {
        (Some(row), _) => format!("{source} {artifact} {row} {column}"),
        (None, Some(key)) => format!("{source} {artifact} [{key}] {column}"),
        (None, None) => format!("{source} {artifact} {column}"),
    })
}

fn of_report(study: &Study, ask: &Ask, store: &Store) -> Result<Value, Failure> {
    let (line, text) = (place(ask, "line")?, ask.get("text"));
    if line.is_none() && text.is_none() {
        return Err(Failure::question(
            "which number?",
            "give `line` and `column` of the report, or `table`, `cell`, `row` and `column`",
        ));
    }
    let trail = Trail::open(study, ask.get("report"), store)?;
    trail.answer(line, place(ask, "column")?, text, usize::MAX)
}

fn of_table(study: &Study, table: &str, ask: &Ask, store: &Store) -> Result<Value, Failure> {
    let wrong = || {
        Failure::question(
            "to select a value of a table, pass `table=STAGE.OUTPUT`, `cell`, `row` and `column`",
            "`cell` is the coordinates, empty for a stage without axes; rows count from 0",
        )
    };
    let (stage, output) = table.split_once('.').ok_or_else(wrong)?;
    let row = place(ask, "row")?.ok_or_else(wrong)?;
    let column = ask.get("column").ok_or_else(wrong)?;
    let at: Coordinates = ask
        .get("cell")
        .unwrap_or_default()
        .parse()
        .map_err(|e| Failure::question(e, "write axis=label,axis=label"))?;
    let provenance = Provenance::of_lock(store, &study.path).map_err(Failure::store)?;
    let answer = why::why_value(&provenance, stage, &at, (output, row, column))?;
    // Without a report, no line prints the value.
    let document = report::find(study, ask.get("report"), store).ok();
    let printed = document.map(|report| Printed::of(report.document));
    Ok(tree_of(answer, printed.as_ref(), usize::MAX))
}

/// Returns the tree in the form of `why --json`, with every place where the report prints the value.
fn tree_of(mut answer: Answer, printed: Option<&Printed>, most: usize) -> Value {
    let mut cut = Cut {
        most,
        longer: Vec::new(),
    };
    cut.answer(&mut answer);
    let mut value = serde_json::to_value(&answer).expect("an answer serializes");
    for (at, list, all) in cut.longer {
        if let Some(Value::Object(object)) = value.pointer_mut(&at) {
            object.insert(format!("{list}_in_all"), all.into());
        }
    }
    value["printed"] = printed.map_or(Value::Array(Vec::new()), |p| p.at(&answer.number));
    value
}

/// Shortens the lists of a tree before it is written: a number of a large study may depend on thousands of cells.
struct Cut {
    most: usize,
    /// The lists that were longer: the place, the list, and its number of items.
    longer: Vec<(String, &'static str, usize)>,
}

impl Cut {
    fn answer(&mut self, answer: &mut Answer) {
        self.list(&mut answer.also_at, "", "also_at");
        self.list(&mut answer.raw, "", "raw");
        self.list(&mut answer.cells, "", "cells");
        self.list(&mut answer.servers, "", "servers");
        self.list(&mut answer.see, "", "see");
        for (i, raw) in answer.raw.iter_mut().enumerate() {
            self.list(&mut raw.spans, &format!("/raw/{i}"), "spans");
        }
        if let Some(place) = &mut answer.place {
            self.list(&mut place.missing, "/place", "missing");
        }
        if let Some(lineage) = &mut answer.lineage {
            self.rows(lineage, "/lineage");
        }
    }

    fn rows(&mut self, rows: &mut TableRows, at: &str) {
        self.list(&mut rows.spans, at, "spans");
        self.list(&mut rows.sources, at, "sources");
        for (i, source) in rows.sources.iter_mut().enumerate() {
            let at = format!("{at}/sources/{i}");
            match source {
                MadeOf::Table(below) => self.rows(below, &at),
                MadeOf::Raw(raw) => self.list(&mut raw.spans, &at, "spans"),
                MadeOf::File(file) => self.list(&mut file.spans, &at, "spans"),
                MadeOf::Lost { .. } => {}
            }
        }
    }

    fn list<T>(&mut self, items: &mut Vec<T>, at: &str, name: &'static str) {
        if items.len() > self.most {
            self.longer.push((at.to_owned(), name, items.len()));
            items.truncate(self.most);
        }
    }
}

fn place(ask: &Ask, name: &str) -> Result<Option<usize>, Failure> {
    let wrong = |text: &str| Failure::question(format!("`{name}={text}` is not a number"), "");
    let parse = |text: &str| text.parse().map_err(|_| wrong(text));
    // For a value of a table, `column` is a name.
    ask.get(name).map(parse).transpose()
}
