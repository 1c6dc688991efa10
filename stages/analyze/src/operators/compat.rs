//! `compat`: what another load generator would print of the same rows.

use pipeline::{Failure, Json, Problem};
use rows::Settings;
use rows::compat::{self, Bounds, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frame::{Frame, Row, Spec, number, spans};
use crate::operator::{Context, Operator, Plan, Scope, parameters};
use crate::operators::cells::each_cell;

pub(crate) struct Compat;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Parameters {
    /// The load stage, if several are needed.
    #[serde(default)]
    load: Option<String>,
    /// Whose formulas: `vllm`, `sglang`, `guidellm` or `aiperf`.
    tool: Word,
    /// Bounds for goodput, ms, as the tool would be given them.
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
struct Limits {
    /// On the time to the first token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttft_ms: Option<f64>,
    /// On the time per output token, or what the tool takes for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tpot_ms: Option<f64>,
    /// On the end-to-end latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    e2e_ms: Option<f64>,
}

fn columns(tool: Tool) -> Vec<Spec> {
    let none = compat::figures(tool, &[], &Bounds::default());
    none.into_iter()
        .map(|f| Spec::float(f.name, f.unit, f.formula))
        .collect()
}

impl Operator for Compat {
    fn name(&self) -> &'static str {
        "compat"
    }

    fn summary(&self) -> &'static str {
        "The figures that vLLM's, SGLang's, guidellm's or aiperf's benchmark would print, one row a cell."
    }

    fn source(&self) -> &'static str {
        "The formulas of vLLM 0.33.0, SGLang 0.5.23, guidellm 0.8.1 and aiperf 0.13.0 on the stamps of the rows, under the names of their result files; checked to 1e-6 against figures made by their own functions from the same stamps. What a tool takes from events without text is not in the rows: docs/load.md says for each what stands in. A figure that nothing enters is null where the tools print 0."
    }

    fn schema(&self) -> Json {
        rows::inline_schema::<Parameters>()
    }

    fn plan(&self, settings: &Settings<'_>, _scope: &Scope<'_>) -> Result<Plan, Vec<Problem>> {
        let given: Parameters = settings.read()?;
        Ok(Plan {
            parameters: rows::canonical(&given),
            columns: columns(given.tool.tool()),
        })
    }

    fn run(&self, given: &Json, context: &Context<'_>) -> Result<Frame, Failure> {
        let given: Parameters = parameters(given)?;
        let load = context.load(given.load.as_deref())?;
        let (tool, limits) = (given.tool.tool(), given.bounds);
        let bounds = Bounds {
            ttft_ms: limits.ttft_ms,
            tpot_ms: limits.tpot_ms,
            e2e_ms: limits.e2e_ms,
        };
        each_cell(context, load, columns(tool), |at, cell| {
            let timings = rows::timings(cell);
            let values = compat::figures(tool, &timings, &bounds)
                .into_iter()
                .map(|f| number(f.value));
            let mut lineage = spans(
                &cell.requests_digest.to_string(),
                timings.iter().map(|t| t.row),
            );
            if let Some(chunks) = &cell.chunks_digest {
                let used = timings.iter().flat_map(|t| t.chunk_rows.iter().copied());
                lineage.extend(spans(&chunks.to_string(), used));
            }
            Ok(Row {
                key: at.to_vec(),
                values: values.collect(),
                lineage,
            })
        })
    }
}
