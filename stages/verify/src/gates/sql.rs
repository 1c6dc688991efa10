//! `sql`: a predicate of the user's own, as a query over the tables of one cell.

use std::collections::BTreeSet;

use artifacts::{Column, ColumnData, Scalar, Table, TableError};
use pipeline::{Failure, Json, Problem, Step};
use query::{Database, Limits, QueryError, Shape};
use rayon::prelude::*;
use rows::{CellRows, Settings, synthetic};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::Gate;
use crate::gates::ALL;
use crate::study::{Cell, Stage};

pub(crate) struct Sql;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Parameters {
    /// The gate's name in the results.
    name: String,
    /// One SELECT over the tables of one cell: `requests`, `chunks`, `cell` (one row of facts), `server_metrics`, and where the cell has them `host_telemetry`, `process_telemetry`, `gpu_telemetry`, `slots`, `engine_events`. It returns one row; the cell passes if the first column is true (a number other than 0). Null or no row: nothing to judge. Columns `observed`, `expected` and `evidence`, if there, are shown.
    query: String,
}

impl Gate for Sql {
    fn name(&self) -> &'static str {
        "sql"
    }

    fn summary(&self) -> &'static str {
        "A predicate of your own, asked of every cell in SQL; the SQL page says what a query may say."
    }

    fn severity(&self) -> Severity {
        Severity::Fail
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<Parameters>()
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
                        format!("`{}` is no name for a gate", given.name),
                    )
                    .hint("a name is made of lower-case letters, digits and hyphens"),
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
            let problem = settings.problem(&at("query"), error.to_string());
            let hint = match &error {
                QueryError::NoTable(name) => {
                    Some((name, shapes.iter().map(|s| s.name.as_str()).collect()))
                }
                QueryError::NoColumn(name) => Some((name, columns(&shapes))),
                _ => None,
            };
            problems.push(match hint {
                Some((name, known)) => problem.hint(rows::did_you_mean(
                    name,
                    &known.into_iter().collect::<Vec<_>>(),
                )),
                None => problem,
            });
        }
        if problems.is_empty() {
            Ok(rows::canonical(&given))
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

    fn judge(&self, parameters: &Json, stage: &Stage<'_>) -> Result<Vec<Judgement>, Failure> {
        let given: Parameters = serde_json::from_value(parameters.clone())
            .map_err(|e| Failure::failed(format!("gate sql: {e}")))?;
        let mentioned = query::mentioned(&given.query);
        let judged: Vec<Result<Judgement, Failure>> = stage
            .cells
            .par_iter()
            .enumerate()
            .filter_map(|(i, cell)| Some((i, cell, cell.rows.as_ref()?)))
            .map(|(i, cell, rows)| {
                judge(&given, &mentioned, i, cell, rows).map_err(|why| at_cell(&given, cell, &why))
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

/// The tables of a cell as far as they are known before there is one. What a cell says about
/// itself is the load stage's to decide.
fn shapes() -> Vec<Shape> {
    let known = |table: Result<Table, TableError>| -> Vec<Column> {
        table
            .iter()
            .flat_map(|t| t.names().into_iter().filter_map(|n| t.column(&n).ok()))
            .collect()
    };
    let int = |name: &str| Column::new(name, ColumnData::Int(Vec::new()));
    let facts = vec![int("expected_requests"), int("warmup_requests")];
    let metrics = vec![
        int("at_ns"),
        Column::new("name", ColumnData::Text(Vec::new())),
        Column::new("value", ColumnData::Float(Vec::new())),
    ];
    let telemetry = TELEMETRY.map(|name| (name, vec![int("at_ns")], true));
    let tables = [
        ("requests", known(synthetic::requests_table(&[])), false),
        ("chunks", known(synthetic::chunks_table(&[])), false),
        ("cell", facts, true),
        ("server_metrics", metrics, true),
    ];
    let shape = |(name, columns, open): (&str, Vec<Column>, bool)| Shape {
        name: name.to_owned(),
        columns,
        open,
    };
    tables.into_iter().chain(telemetry).map(shape).collect()
}

fn columns(shapes: &[Shape]) -> BTreeSet<&str> {
    shapes
        .iter()
        .flat_map(|s| &s.columns)
        .map(|c| c.name.as_str())
        .collect()
}

/// Tables a cell has if its machine and its server allow; their columns are the load stage's.
const TELEMETRY: [&str; 5] = [
    "host_telemetry",
    "process_telemetry",
    "gpu_telemetry",
    "slots",
    "engine_events",
];

/// Asks one cell.
fn judge(
    given: &Parameters,
    mentioned: &BTreeSet<String>,
    cell: usize,
    place: &Cell<'_>,
    rows: &CellRows,
) -> Result<Judgement, String> {
    let text = |e: QueryError| e.to_string();
    let mut database = Database::new().map_err(text)?;
    let tables = [
        ("requests", Some(synthetic::requests_table(&rows.requests))),
        (
            "chunks",
            rows.chunks_digest
                .map(|_| synthetic::chunks_table(&rows.chunks)),
        ),
        ("cell", rows.cell.clone().map(Ok)),
        ("server_metrics", rows.server_metrics.clone().map(Ok)),
    ];
    for (name, table) in tables {
        if let Some(table) = table.filter(|_| mentioned.contains(name)) {
            database
                .add(name, &table.map_err(|e| e.to_string())?)
                .map_err(text)?;
        }
    }
    for name in TELEMETRY
        .into_iter()
        .filter(|name| mentioned.contains(*name))
    {
        let Some(table) = place.table(name).map_err(|e| e.to_string())? else {
            let observed = format!("the cell has no table {name}");
            let expected = given.query.split_whitespace().collect::<Vec<_>>().join(" ");
            return Ok(Judgement {
                cell: Some(cell),
                passed: None,
                observed,
                expected,
                evidence: None,
            });
        };
        database.add(name, &table).map_err(text)?;
    }
    let limits = Limits {
        rows: 1_000,
        instructions: 10_000_000_000,
        ..Limits::default()
    };
    let answer = database.select(&given.query, &limits).map_err(text)?.table;
    let asked: Vec<&str> = given.query.split_whitespace().collect();
    let asked = asked.join(" ");
    if answer.rows() == 0 {
        let observed = "the query returns no row".to_owned();
        return Ok(Judgement {
            cell: Some(cell),
            passed: None,
            observed,
            expected: asked,
            evidence: None,
        });
    }
    if answer.rows() > 1 {
        return Err(format!(
            "the query returns {} rows; a predicate is one row",
            answer.rows()
        ));
    }
    let value = |name: &str| answer.value(name, 0).map_err(|e| e.to_string());
    let first = &answer.names()[0];
    let verdict = value(first)?;
    let passed = match &verdict {
        Scalar::Null => None,
        Scalar::Bool(value) => Some(*value),
        Scalar::Int(value) => Some(*value != 0),
        Scalar::Float(value) => Some(*value != 0.0),
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
        passed,
        observed: shown("observed")?.unwrap_or_else(|| format!("{first} = {verdict}")),
        expected: shown("expected")?.unwrap_or(asked),
        evidence: shown("evidence")?,
    })
}
