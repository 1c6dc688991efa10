//! `server-errors`: did the server log errors while it answered?

use std::collections::BTreeSet;

use artifacts::{Table, TableError, counted};
use contract::{ERROR_EVENT, ERROR_TEXTS_NOTE};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, each};
use crate::study::Stage;

pub(crate) struct ServerErrors;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The largest number of lines of the log that may be errors, for each cell.
    #[serde(default)]
    lines: u64,
}

/// The number of characters of an error line that the observation quotes.
const QUOTED: usize = 160;

impl TypedGate for ServerErrors {
    type Parameters = Parameters;
    const NAME: &'static str = "server-errors";
    const SUMMARY: &'static str = "\
        The server logged at most `lines` errors during a cell. This is a count, not a test.\n\n\
        A line is an error if it contains a text that the engine's definition lists in `log.errors`. The table \
        `engine_events` has these lines as the event `error`.\n\n\
        A server can answer every request with HTTP 200 and the right number of tokens although its computation \
        failed. LMDeploy 0.18.0 with a library that lacked kernels answered three requests with noise; only the 6,308 \
        errors in its log showed this. In 414 cells of seven studies with vLLM, SGLang, LMDeploy, transformers and \
        llama.cpp, none of 110,112 lines was an error.";
    const SEVERITY: Severity = Severity::Warn;
    const CELLS_ALONE: bool = true;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        let expected = match parameters.lines {
            0 => "no errors in the server's log".to_owned(),
            lines => format!("at most {} in the server's log", counted(lines, "error")),
        };
        each(stage, &|cell, _| {
            let table = match cell.table("engine_events") {
                Ok(Some(table)) => table,
                Ok(None) => {
                    return Assessment::not_judged(
                        "no log of the server was read",
                        expected.as_str(),
                    );
                }
                Err(e) => return Assessment::not_judged(e.to_string(), expected.as_str()),
            };
            if table.metadata(ERROR_TEXTS_NOTE).is_none() {
                let why =
                    "the engine's definition does not say which lines are errors (`log.errors`)";
                return Assessment::not_judged(why, expected.as_str());
            }
            match errors(&table) {
                Ok(errors) => {
                    let passed = errors.lines <= parameters.lines;
                    Assessment::new(passed, errors.observed(), &expected)
                }
                Err(e) => Assessment::not_judged(e.to_string(), expected.as_str()),
            }
        })
    }
}

/// The errors in the log of a cell's server, or of all members of a group.
struct Errors {
    /// The number of lines.
    lines: u64,
    /// The first of them.
    first: Option<String>,
}

impl Errors {
    fn observed(&self) -> String {
        let Some(first) = &self.first else {
            return "no errors".to_owned();
        };
        let quoted: String = first.chars().take(QUOTED).collect();
        let more = if quoted.len() < first.len() {
            "…"
        } else {
            ""
        };
        match self.lines {
            1 => format!("1 error: {quoted}{more}"),
            lines => format!("{lines} errors, the first: {quoted}{more}"),
        }
    }
}

fn errors(table: &Table) -> Result<Errors, TableError> {
    let (events, texts) = (table.text("event")?, table.text("text")?);
    let (numbers, members) = (table.int("line")?, table.text("member")?);
    let mut lines = BTreeSet::new();
    let mut first = None;
    for (((event, text), line), member) in events.iter().zip(&texts).zip(&numbers).zip(&members) {
        if *event == Some(ERROR_EVENT) {
            lines.insert((*member, *line));
            first = first.or(*text);
        }
    }
    Ok(Errors {
        lines: lines.len() as u64,
        first: first.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use artifacts::{Column, Scalar};
    use contract::synthetic;
    use pipeline::Json;
    use serde_json::json;

    use super::*;
    use crate::tests::{store, table, verify};

    /// Returns the events of a log with these errors: the member that wrote it, the line's number, and the line.
    fn log(errors: &[(Option<&str>, i64, &str)], noted: bool) -> Table {
        let mut rows = vec![("throughput", None, 1, "an ERROR of 3 %")];
        rows.extend(
            errors
                .iter()
                .map(|(member, line, text)| (ERROR_EVENT, *member, *line, *text)),
        );
        let columns = vec![
            Column::text("event", rows.iter().map(|row| Some(row.0))),
            Column::text("member", rows.iter().map(|row| row.1)),
            Column::int("line", rows.iter().map(|row| Some(row.2))),
            Column::text("text", rows.iter().map(|row| Some(row.3))),
        ];
        let notes: &[(&str, &str)] = if noted {
            &[(ERROR_TEXTS_NOTE, "ERROR")]
        } else {
            &[]
        };
        Table::with_metadata(columns, notes).unwrap()
    }

    /// Returns the outcome and the observation of the gate over one cell.
    fn judged(lines: u64, events: Option<Table>) -> (String, String) {
        let (_folder, store) = store();
        let request = synthetic::request(1);
        let mut tables = vec![("requests", synthetic::requests_table(&[request]).unwrap())];
        tables.extend(events.map(|events| ("engine_events", events)));
        let at = [("clients", Scalar::Int(1))];
        let cell = synthetic::cell(&store, &at, Json::Null, &tables).unwrap();
        let inputs = [synthetic::input("ladder", "load", vec![cell])];
        let settings = json!({"gates": [{"gate": "server-errors", "lines": lines}]});
        let gates = table(&verify(&store, &inputs, &settings), "gates");
        let only = |column: &str| gates.text(column).unwrap()[0].unwrap().to_owned();
        (only("outcome"), only("observed"))
    }

    #[test]
    fn a_server_that_logs_errors_while_it_answers_does_not_pass() {
        let pair = |outcome: &str, observed: &str| (outcome.to_owned(), observed.to_owned());
        assert_eq!(judged(0, Some(log(&[], true))), pair("pass", "no errors"));
        let one = [(None, 7, "[TM][ERROR] cublasGemmEx failed")];
        let said = "1 error: [TM][ERROR] cublasGemmEx failed";
        assert_eq!(judged(0, Some(log(&one, true))), pair("fail", said));
        // Two members of a group may write lines of the same number.
        let two = [(Some("a-0"), 7, "ERROR one"), (Some("a-1"), 7, "ERROR two")];
        let said = "2 errors, the first: ERROR one";
        assert_eq!(judged(0, Some(log(&two, true))), pair("fail", said));
        assert_eq!(judged(2, Some(log(&two, true))), pair("pass", said));
    }

    #[test]
    fn a_log_without_known_errors_is_not_judged() {
        assert_eq!(judged(0, None).0, "not judged");
        assert_eq!(judged(0, Some(log(&[], false))).0, "not judged");
    }
}
