//! Why a number is what it is: the tree of the crate `why`, and where a report prints the number.

use artifacts::Store;
use pipeline::Coordinates;
use serde_json::{Value, json};
use why::{Answer, Document, Found, Number, Provenance, Query};

use crate::error::Failure;
use crate::reply::{Freshness, Reply};
use crate::report;
use crate::request::Ask;
use crate::study::Study;

/// Answers a question for a number: `line` and `column` of a report, or `table`, `cell`, `row` and
/// `column` of a table.
pub(crate) fn why(study: &Study, ask: &Ask, store: &Store) -> Result<Reply, Failure> {
    let answer = match ask.get("table") {
        Some(table) => of_table(study, table, ask, store)?,
        None => of_report(study, ask, store)?,
    };
    Ok(Reply::json(&answer, Freshness::Tagged))
}

/// A report with the lock it belongs to, for one question or many.
pub(crate) struct Trail<'store> {
    document: Document,
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
            document,
        })
    }

    /// Returns the tree of the number at a place, or the numbers that stand there.
    pub(crate) fn answer(
        &self,
        line: Option<usize>,
        column: Option<usize>,
        text: Option<&str>,
    ) -> Result<Value, Failure> {
        let query = Query {
            report: self.document.path.clone(),
            line,
            column,
            text: text.map(str::to_owned),
        };
        let (number, also) = match why::find(&self.document, &query)? {
            Found::One(number, also) => (number, also),
            Found::Several(numbers) => return Ok(json!({"several": numbers})),
        };
        let answer = why::why(&self.document, &self.provenance, number, &also)?;
        Ok(told(&answer, Some(&self.document)))
    }
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
    trail.answer(line, place(ask, "column")?, text)
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
    // A study without a report has no line that prints it.
    let document = report::find(study, ask.get("report"), store).ok();
    Ok(told(&answer, document.as_ref().map(|f| &f.document)))
}

/// Returns the tree as `why --json` gives it, with every place where the report prints the value.
fn told(answer: &Answer, document: Option<&Document>) -> Value {
    let mut value = serde_json::to_value(answer).expect("an answer serializes");
    let asked = &answer.number;
    let same = |n: &&Number| {
        n.artifact.is_some()
            && (n.source, n.artifact, n.row, &n.column)
                == (asked.source, asked.artifact, asked.row, &asked.column)
            && (asked.row.is_some() || n.row_key == asked.row_key)
    };
    let lines: Vec<&str> = document.map_or(Vec::new(), |d| d.markdown.split('\n').collect());
    let numbers = document.map_or([].as_slice(), |d| &d.numbers);
    let printed = numbers.iter().filter(same).map(|n| {
        let text = n.line.checked_sub(1).and_then(|line| lines.get(line));
        json!({"line": n.line, "column": n.column_start, "text": n.text, "words": text})
    });
    value["printed"] = printed.collect();
    value
}

fn place(ask: &Ask, name: &str) -> Result<Option<usize>, Failure> {
    let wrong = |text: &str| Failure::question(format!("`{name}={text}` is not a number"), "");
    let parse = |text: &str| text.parse().map_err(|_| wrong(text));
    // Of a table's value `column` is a name.
    ask.get(name).map(parse).transpose()
}
