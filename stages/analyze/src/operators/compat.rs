//! `compat`: the figures that another load generator would print for the same rows.

use contract::compat::{self, Bounds, Figure, Tool};
use contract::{CellRows, Timing};
use pipeline::{Failure, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::columns::Columns;
use crate::frame::{Frame, Spec, spans};
use crate::operator::{Context, Draft, Reads, TypedOperator};
use crate::operators::cells::each_cell;

pub(crate) struct Compat;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The load stage to read, if the stage needs several.
    #[serde(default)]
    load: Option<String>,
    /// The tool whose formulas to use: `vllm`, `sglang`, `guidellm` or `aiperf`.
    tool: Word,
    /// Bounds for goodput, in ms, as you would pass them to the tool.
    #[serde(default)]
    bounds: Limits,
}

#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Word {
    Vllm,
    Sglang,
    Guidellm,
    Aiperf,
}

impl Word {
    fn tool(self) -> Tool {
        match self {
            Self::Vllm => Tool::Vllm,
            Self::Sglang => Tool::Sglang,
            Self::Guidellm => Tool::Guidellm,
            Self::Aiperf => Tool::Aiperf,
        }
    }
}

/// Bounds a request must keep to count as good.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("x-form" = "{ttft-ms: 500, tpot-ms: 50}"))]
struct Limits {
    /// The largest time to the first token, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttft_ms: Option<f64>,
    /// The largest time per output token, in ms, as the tool defines it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tpot_ms: Option<f64>,
    /// The largest end-to-end latency, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    e2e_ms: Option<f64>,
}

fn columns(tool: Tool) -> Columns<'static, Vec<Figure>> {
    let none = compat::figures(tool, &[], &Bounds::default());
    let mut columns = Columns::new();
    for (i, figure) in none.into_iter().enumerate() {
        let spec = Spec::float(figure.name, figure.unit, figure.formula);
        columns.push(spec, move |figures: &Vec<Figure>| figures[i].value);
    }
    columns
}

/// Returns the figures of a cell. If its rows have no clock in common, throughputs and peaks are unknown. These are the
/// figures that change if the requests are moved apart in time.
fn figures(tool: Tool, cell: &CellRows, timings: &[Timing<'_>], bounds: &Bounds) -> Vec<Figure> {
    let mut figures = compat::figures(tool, timings, bounds);
    if !cell.has_one_clock() {
        let apart = apart(cell);
        let others = compat::figures(tool, &contract::timings(&apart), bounds);
        for (figure, other) in figures.iter_mut().zip(others) {
            figure.value = figure.value.filter(|value| other.value == Some(*value));
        }
    }
    figures
}

/// Returns the rows of a cell with one request after the other, seconds apart.
fn apart(cell: &CellRows) -> CellRows {
    const BETWEEN_NS: i64 = 2_000_000_000;
    let mut cell = cell.clone();
    let mut from = 0_i64;
    for r in &mut cell.requests {
        let lasts = r.done_ns.or(r.last_token_ns).unwrap_or(0).max(0);
        let times = [
            &mut r.scheduled_ns,
            &mut r.sent_ns,
            &mut r.headers_ns,
            &mut r.first_token_ns,
            &mut r.first_silent_ns,
            &mut r.first_reasoning_ns,
            &mut r.first_answer_ns,
            &mut r.last_token_ns,
            &mut r.done_ns,
        ];
        for time in times {
            *time = time.map(|at| at.saturating_add(from));
        }
        from = from.saturating_add(lasts).saturating_add(BETWEEN_NS);
    }
    cell
}

impl TypedOperator for Compat {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "compat";
    const SUMMARY: &'static str = "The figures that vLLM's, SGLang's, guidellm's or aiperf's \
        benchmark would print, one row per cell.";
    const SOURCE: &'static str = "\
        The operator applies the formulas of vLLM 0.33.0, SGLang 0.5.23, guidellm 0.8.1 and aiperf 0.13.0 to the \
        stamps of the rows. Columns have the names of the tools' result files. Tests compare the figures with those \
        of the tools' own functions, to within 1e-6.\n\n\
        The rows do not hold events without text; [load.md](load.md#what-another-tool-would-print) lists the \
        substitute for each tool. If a figure has no values, the tools print 0. Here it is null.";
    const READS: Reads = Reads::Verified;

    fn plan(given: &mut Parameters, _: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        Ok(columns(given.tool.tool()).specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let load = context.load(given.load.as_deref())?;
        let (tool, limits) = (given.tool.tool(), given.bounds);
        let bounds = Bounds {
            ttft_ms: limits.ttft_ms,
            tpot_ms: limits.tpot_ms,
            e2e_ms: limits.e2e_ms,
        };
        let columns = columns(tool);
        each_cell(context, load, columns.specs(), |at, cell| {
            let timings = contract::timings(cell);
            let figures = figures(tool, cell, &timings, &bounds);
            let mut lineage = spans(cell.requests_source(), timings.iter().map(|t| t.row));
            if let Some(chunks) = cell.chunks_source() {
                let used = timings.iter().flat_map(|t| t.chunk_rows.iter().copied());
                lineage.extend(spans(chunks, used));
            }
            Ok(columns.row(at.to_vec(), &figures, lineage))
        })
    }
}
