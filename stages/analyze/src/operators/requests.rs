//! `requests`: one row per measured request, with its metrics.

use artifacts::Scalar;
use contract::{METRICS, Timing};
use pipeline::{Failure, Problem};

use crate::columns::Columns;
use crate::frame::{Frame, Level, Spec, spans};
use crate::operator::{Context, Draft, Reads, TypedOperator};
use crate::operators::cells::OfLoad;

pub(crate) struct Requests;

fn columns<'a>() -> Columns<'static, Timing<'a>> {
    let mut columns = Columns::new()
        .with(
            Spec::text("status", "`ok`, or what went wrong"),
            |t: &Timing<'a>| t.request.status.word(),
        )
        .with(Spec::int("prompt_tokens", "tok", "prompt tokens"), |t| {
            t.request.prompt_tokens
        })
        .with(Spec::int("output_tokens", "tok", "generated tokens"), |t| {
            t.request.output_tokens
        });
    for metric in METRICS {
        let what = format!("{}; null unless ok", metric.definition);
        columns.push(
            Spec::float(metric.name, metric.unit, what),
            |t: &Timing<'a>| metric.of(t).filter(|_| t.request.is_ok()),
        );
    }
    columns
}

impl TypedOperator for Requests {
    type Parameters = OfLoad;
    type Made = Frame;
    const NAME: &'static str = "requests";
    const SUMMARY: &'static str = "One row per measured request, with the metrics of a request.";
    const SOURCE: &'static str = "\
        [load.md](load.md#per-request) defines the metrics of a request and compares them with those of other tools. \
        TPOT excludes all tokens of the first chunk, not just one token.";
    const READS: Reads = Reads::Verified;

    fn plan(_: &mut OfLoad, _: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        Ok(columns().specs())
    }

    fn run(given: &OfLoad, context: &Context<'_>) -> Result<Frame, Failure> {
        let load = context.load(given.load.as_deref())?;
        let mut keys = load.axes.clone();
        keys.extend(["request_id".to_owned(), "attempt".to_owned()]);
        let mut rows = Vec::new();
        for (at, cell) in &load.cells {
            let cell = cell.get()?;
            let columns = columns();
            let (source, chunks) = (cell.requests_source(), cell.chunks_source());
            for timing in contract::timings(&cell) {
                let mut key = at.clone();
                key.extend([
                    Scalar::Int(timing.request.request_id),
                    Scalar::Int(timing.request.attempt),
                ]);
                let mut lineage = spans(&source, [timing.row]);
                if let Some(chunks) = &chunks {
                    lineage.extend(spans(chunks, timing.chunk_rows.iter().copied()));
                }
                rows.push(columns.row(key, &timing, lineage));
            }
        }
        Ok(Frame {
            level: Level::Row,
            keys,
            specs: columns().specs(),
            rows,
            missing: load.missing.clone(),
        })
    }
}
