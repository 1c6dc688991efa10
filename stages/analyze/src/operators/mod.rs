//! The operators, one per file. To add one, add its file and a line here.

mod aggregate;
pub(crate) mod alike;
mod anchored;
mod breakdown;
pub(crate) mod cell_summary;
mod cells;
mod censored;
mod censored_cells;
mod changes;
mod comparison;
mod compat;
mod correlation;
mod cost;
mod counter_delta;
pub(crate) mod crossover;

mod distribution;
mod energy;
mod facts;
mod fairness;
pub(crate) mod family;
mod fit;
mod frontier;
mod goodput;
mod hang_signature;
mod identity;
mod incomplete;
mod latency_multipliers;
pub(crate) mod looks;
mod margins;
mod mfu;
mod monotonicity;
mod of_row;
mod one_launch;
mod paired_comparison;
mod paired_deltas;
pub(crate) mod pairs;
mod parallel_efficiency;
mod per_client_efficiency;
pub(crate) mod published;
mod ranking;
pub(crate) mod repeated;
mod requests;
pub(crate) mod resemblance;
mod sql;
mod steady_state;
mod telemetry_summary;
pub(crate) mod uneven;
pub(crate) mod units;
mod unpaired_comparison;
pub(crate) mod verdict;
mod wins;

use crate::operator::{Operator, Reads};

/// Every operator, in the order of the documentation.
pub(crate) const ALL: &[&dyn Operator] = &[
    &requests::Requests,
    &cell_summary::CellSummary,
    &distribution::Distribution,
    &steady_state::SteadyState,
    &censored::Censored,
    &goodput::Goodput,
    &compat::Compat,
    &aggregate::Aggregate,
    &margins::Margins,
    &censored_cells::CensoredCells,
    &parallel_efficiency::ParallelEfficiency,
    &per_client_efficiency::PerClientEfficiency,
    &latency_multipliers::LatencyMultipliers,
    &mfu::Mfu,
    &cost::Cost,
    &frontier::Frontier,
    &breakdown::Breakdown,
    &monotonicity::Monotonicity,
    &crossover::Crossover,
    &fit::Fit,
    &paired_deltas::PairedDeltas,
    &paired_comparison::PairedComparison,
    &unpaired_comparison::UnpairedComparison,
    &changes::Changes,
    &wins::Wins,
    &ranking::Ranking,
    &correlation::Correlation,
    &identity::Identity,
    &energy::Energy,
    &telemetry_summary::TelemetrySummary,
    &counter_delta::CounterDelta,
    &hang_signature::HangSignature,
    &facts::Facts,
    &published::Published,
    &sql::Sql,
];

/// The documentation of an operator.
#[derive(Clone, Debug)]
pub struct OperatorPage {
    /// The name in `operator:`.
    pub name: &'static str,
    /// What it computes, in one sentence.
    pub summary: &'static str,
    /// The definition or publication that it follows, and where others differ.
    pub source: &'static str,
    /// The cells whose rows it reads.
    pub reads: Reads,
    /// The JSON Schema of its parameters.
    pub schema: pipeline::Json,
}

/// Returns a page for every operator.
pub fn pages() -> Vec<OperatorPage> {
    let page = |o: &&dyn Operator| OperatorPage {
        name: o.name(),
        summary: o.summary(),
        source: o.source(),
        reads: o.reads(),
        schema: o.schema(),
    };
    ALL.iter().map(page).collect()
}

/// Returns what a stage's version is raised by for its tables. `cost` says why an end of an interval is missing; a query
/// that computes refuses numbers that do not fit. Stages without either stay as they were.
pub(crate) fn revision(parameters: &pipeline::Json) -> u32 {
    const OF_COSTS: u32 = 1_000;
    const OF_QUERIES: u32 = 2_000;
    let tables = parameters["tables"].as_array().into_iter().flatten();
    let raised = tables.map(|table| {
        let query = table["parameters"]["query"].as_str();
        match table["operator"].as_str() {
            Some("sql") if query.is_some_and(query::computes) => OF_QUERIES,
            Some("cost") => OF_COSTS,
            _ => 0,
        }
    });
    raised.max().unwrap_or_default()
}
