//! `sql`: a user-defined predicate, as a query over the tables of one cell.

use std::collections::BTreeSet;

use artifacts::{Scalar, Table, TableRow};
use contract::{CellRows, Chunk, Request, Row as _, Settings, TableSpec};
use pipeline::suggest::{closest, column_remedy, did_you_mean, list, remedy};
use pipeline::{Failure, Json, Problem, Step};
use query::{Database, Limits, QueryError, Shape};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Outcome, Severity};
use crate::gate::Gate;
use crate::gates::ALL;
use crate::study::{Cell, Stage};

pub(crate) struct Sql;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("x-other-words" = { "sql": "`query`", "select": "`query`", "statement": "`query`" }))]
struct Parameters {
    /// The gate's name in the results.
    name: String,
    /// A single SELECT over the tables of one cell: `requests`, `cell` (one row of facts), and, if
    /// the cell has them, `chunks`, `prompts`, `server_metrics`, `host_telemetry`, `process_telemetry`, `gpu_telemetry`, `slots`, `server_info`, `engine_events` and `summary`, with the columns of [the reference](columns.md). It returns one row; the cell passes if the first column is true (a number other than 0). Null
    /// or no row means not judged. The columns `observed`, `expected` and `evidence` are shown if
    /// the query returns them.
    query: String,
}

/// Returns the remedy for a table that does not exist.
fn other_table(name: &str, shapes: &[Shape]) -> String {
    let names = || shapes.iter().map(|shape| shape.name.as_str());
    let own = name.rsplit_once('.').map_or(name, |(_, own)| own);
    let usual = contract::usual_table(own).filter(|usual| names().any(|name| name == *usual));
    let exact = names().find(|name| name.eq_ignore_ascii_case(own));
    let meant = exact.or(usual).or_else(|| closest(own, names()));
    match (meant, own == name) {
        (Some(table), true) => did_you_mean(table.to_owned()),
        (Some(table), false) => format!(
            "a gate reads the tables of one cell at a time, without the stage: write `{table}`"
        ),
        (None, true) => remedy(own, "tables", names()),
        (None, false) => format!(
            "a gate reads the tables of one cell at a time, without the stage: {}",
            list(names())
        ),
    }
}

impl Gate for Sql {
    fn name(&self) -> &'static str {
        "sql"
    }

    fn summary(&self) -> &'static str {
        "Your own predicate in SQL, evaluated for every cell. [The SQL page](sql.md) describes \
         queries."
    }

    fn severity(&self) -> Severity {
        Severity::Fail
    }

    fn schema(&self) -> Json {
        contract::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>) -> Result<Json, Vec<Problem>> {
        let given: Parameters = settings.read()?;
        let at = |key: &str| [Step::Key(key.to_owned())];
        let mut problems = Vec::new();
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if given.name.is_empty() || !given.name.chars().all(word) {
            problems.push(
                settings
                    .problem(
                        &at("name"),
                        format!("`{}` is not a valid name for a gate", given.name),
                    )
                    .hint("use lower-case letters, digits and hyphens"),
            );
        }
        if ALL.iter().any(|gate| gate.name() == given.name) {
            problems.push(settings.problem(
                &at("name"),
                format!("`{}` is the name of another gate", given.name),
            ));
        }
        let shapes = shapes();
        if let Err(error) = query::check(&given.query, &shapes) {
            let hint = match &error {
                QueryError::NoTable(name) => Some(other_table(name, &shapes)),
                QueryError::NoColumn(name) => {
                    let of_columns =
                        || column_remedy(&contract::usual_name(name), query::columns(&shapes));
                    let hint = contract::metric_remedy(name);
                    let hint = hint.or_else(|| query::hint(&given.query, &error));
                    Some(hint.unwrap_or_else(of_columns))
                }
                _ => query::hint(&given.query, &error),
            };
            let mut problem = settings.problem(&at("query"), error.to_string());
            problem.hint = hint;
            if let Some(part) = error.part(&given.query) {
                problem = problem.part(&given.query, part);
            }
            problems.push(problem);
        }
        if problems.is_empty() {
            Ok(contract::canonical(&given))
        } else {
            Err(problems)
        }
    }

    fn label(&self, parameters: &Json) -> String {
        parameters["name"]
            .as_str()
            .unwrap_or(self.name())
            .to_owned()
    }

    fn judges_cells_alone(&self) -> bool {
        true
    }

    fn judge(&self, parameters: &Json, stage: &Stage<'_>) -> Result<Vec<Judgement>, Failure> {
        let given: Parameters = serde_json::from_value(parameters.clone())
            .map_err(|e| Failure::failed(format!("gate sql: {e}")))?;
        let mentioned = query::mentioned(&given.query);
        let judged: Vec<Result<Judgement, Failure>> = stage
            .cells
            .par_iter()
            .enumerate()
            .filter_map(|(i, cell)| Some((i, cell, cell.rows()?)))
            .map(|(i, cell, rows)| {
                judge(&given, &mentioned, i, cell, &rows).map_err(|why| at_cell(&given, cell, &why))
            })
            .collect();
        judged.into_iter().collect()
    }
}

fn at_cell(given: &Parameters, cell: &Cell<'_>, why: &str) -> Failure {
    Failure::failed(format!(
        "gate {}, cell {}: {why}",
        given.name, cell.input.coordinates
    ))
}

/// Returns the tables that a load cell can have, by their declarations.
fn shapes() -> Vec<Shape> {
    let shape = |table: &TableSpec| Shape {
        name: table.name.to_owned(),
        columns: table.empty_columns(),
        open: false,
    };
    contract::LOAD_TABLES.iter().map(shape).collect()
}

/// Returns a table of a cell; `None` if the cell has none of this name.
fn table_of(spec: &TableSpec, cell: &Cell<'_>, rows: &CellRows) -> Result<Option<Table>, String> {
    let table = match spec.name {
        "requests" => Some(Request::table(&rows.requests).map_err(|e| e.to_string())?),
        "chunks" => {
            let chunks = rows.chunks_digest.map(|_| Chunk::table(&rows.chunks));
            chunks.transpose().map_err(|e| e.to_string())?
        }
        "cell" => {
            let about = rows.cell.as_ref().map(TableRow::table);
            about.transpose().map_err(|e| e.to_string())?
        }
        "server_metrics" => rows.server_metrics.clone(),
        other => cell.table(other).map_err(|e| e.to_string())?,
    };
    Ok(table)
}

/// Runs the query on one cell.
fn judge(
    given: &Parameters,
    mentioned: &BTreeSet<String>,
    cell: usize,
    place: &Cell<'_>,
    rows: &CellRows,
) -> Result<Judgement, String> {
    let text = |e: QueryError| e.to_string();
    let mut database = Database::new().map_err(text)?;
    let asked: Vec<&str> = given.query.split_whitespace().collect();
    let asked = asked.join(" ");
    let nothing = |observed: String| Judgement {
        cell: Some(cell),
        outcome: Outcome::NotJudged,
        observed,
        expected: asked.clone(),
        evidence: None,
    };
    let tables = contract::LOAD_TABLES.iter();
    for spec in tables.filter(|spec| mentioned.contains(spec.name)) {
        let Some(table) = table_of(spec, place, rows)? else {
            return Ok(nothing(format!("the cell has no table {}", spec.name)));
        };
        let table = spec.view(&table).map_err(|e| e.to_string())?;
        database.add(spec.name, &table).map_err(text)?;
    }
    let limits = Limits {
        rows: 1_000,
        instructions: 10_000_000_000,
        ..Limits::default()
    };
    let answer = database.select(&given.query, &limits).map_err(text)?.table;
    if answer.rows() == 0 {
        return Ok(nothing("the query returns no row".to_owned()));
    }
    if answer.rows() > 1 {
        return Err(format!(
            "the query returns {} rows; a predicate must return one row",
            answer.rows()
        ));
    }
    let value = |name: &str| answer.value(name, 0).map_err(|e| e.to_string());
    let first = &answer.names()[0];
    let verdict = value(first)?;
    let outcome = match &verdict {
        Scalar::Null => Outcome::NotJudged,
        Scalar::Bool(value) => Outcome::of(*value),
        Scalar::Int(value) => Outcome::of(*value != 0),
        Scalar::Float(value) => Outcome::of(*value != 0.0),
        Scalar::Text(text) => {
            return Err(format!(
                "the first column is `{text}`, which is neither true nor false"
            ));
        }
    };
    let shown = |name: &str| -> Result<Option<String>, String> {
        let there = answer.has(name) && first != name;
        Ok(if there {
            Some(value(name)?)
                .filter(|v| *v != Scalar::Null)
                .map(|v| v.to_string())
        } else {
            None
        })
    };
    Ok(Judgement {
        cell: Some(cell),
        outcome,
        observed: shown("observed")?.unwrap_or_else(|| format!("{first} = {verdict}")),
        expected: shown("expected")?.unwrap_or(asked),
        evidence: shown("evidence")?,
    })
}
