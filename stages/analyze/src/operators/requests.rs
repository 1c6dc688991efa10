//! `requests`: one row per measured request with its metrics.

use artifacts::Scalar;
use pipeline::{Failure, Json, Problem};
use rows::{METRICS, Settings};

use crate::frame::{Frame, Level, Row, Spec, number, spans, text};
use crate::operator::{Context, Operator, Plan, Scope, parameters};
use crate::operators::cells::OfLoad;

pub(crate) struct Requests;

fn columns() -> Vec<Spec> {
    let mut columns = vec![
        Spec::text("status", "`ok`, or what went wrong"),
        Spec::int("prompt_tokens", "tok", "prompt tokens"),
        Spec::int("output_tokens", "tok", "generated tokens"),
    ];
    let metric =
        |m: &rows::Metric| Spec::float(m.name, m.unit, format!("{}; null unless ok", m.definition));
    columns.extend(METRICS.iter().map(metric));
    columns
}

impl Operator for Requests {
    fn name(&self) -> &'static str {
        "requests"
    }

    fn summary(&self) -> &'static str {
        "One row per measured request, with the metrics of a request."
    }

    fn source(&self) -> &'static str {
        "The metrics of a request are defined in [load.md](load.md#per-request), with what public tools mean by the same names; TPOT here excludes the tokens of the first chunk, not one token."
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<OfLoad>()
    }

    fn plan(&self, settings: &Settings<'_>, _scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let parameters: OfLoad = settings.read()?;
        Ok(Plan {
            parameters: rows::canonical(&parameters),
            columns: columns(),
        })
    }

    fn run(&self, given: &Json, context: &Context<'_>) -> Result<Frame, Failure> {
        let given: OfLoad = parameters(given)?;
        let load = context.load(given.load.as_deref())?;
        let mut keys = load.axes.clone();
        keys.extend(["request_id".to_owned(), "attempt".to_owned()]);
        let mut rows = Vec::new();
        for (at, cell) in &load.cells {
            let cell = cell.get()?;
            let source = cell.requests_digest.to_string();
            let chunks = cell
                .chunks_digest
                .map(|d| d.to_string())
                .unwrap_or_default();
            for timing in rows::timings(&cell) {
                let request = timing.request;
                let mut key = at.clone();
                key.extend([
                    Scalar::Int(request.request_id),
                    Scalar::Int(request.attempt),
                ]);
                let tokens = |n: Option<i64>| n.map_or(Scalar::Null, Scalar::Int);
                let mut values = vec![
                    text(&request.status),
                    tokens(request.prompt_tokens),
                    tokens(request.output_tokens),
                ];
                let value = |m: &rows::Metric| number(m.of(&timing).filter(|_| request.is_ok()));
                values.extend(METRICS.iter().map(value));
                let mut lineage = spans(&source, [timing.row]);
                lineage.extend(spans(&chunks, timing.chunk_rows.iter().copied()));
                rows.push(Row {
                    key,
                    values,
                    lineage,
                });
            }
        }
        Ok(Frame {
            level: Level::Row,
            keys,
            specs: columns(),
            rows,
            missing: load.missing.clone(),
        })
    }
}
