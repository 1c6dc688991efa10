//! The operators, one a file; adding one is a file and a line here.

mod aggregate;
mod breakdown;
mod cell_summary;
mod crossover;
mod energy;
mod fit;
mod goodput;
mod latency_multipliers;
mod paired_comparison;
mod paired_deltas;
mod pairs;
mod parallel_efficiency;
mod requests;
mod sql;
mod telemetry_summary;
mod wins;

use crate::operator::Operator;

/// Every operator, in the order of the documentation.
pub(crate) const ALL: &[&dyn Operator] = &[
    &requests::Requests,
    &cell_summary::CellSummary,
    &aggregate::Aggregate,
    &parallel_efficiency::ParallelEfficiency,
    &latency_multipliers::LatencyMultipliers,
    &breakdown::Breakdown,
    &paired_deltas::PairedDeltas,
    &paired_comparison::PairedComparison,
    &wins::Wins,
    &crossover::Crossover,
    &goodput::Goodput,
    &energy::Energy,
    &telemetry_summary::TelemetrySummary,
    &fit::Fit,
    &sql::Sql,
];

/// What the documentation says of an operator.
#[derive(Clone, Debug)]
pub struct OperatorPage {
    /// The name in `operator:`.
    pub name: &'static str,
    /// What it computes, in one sentence.
    pub summary: &'static str,
    /// The definition or publication it follows, and where others differ.
    pub source: &'static str,
    /// The JSON Schema of its parameters.
    pub schema: pipeline::Json,
}

/// Returns a page for every operator.
pub fn pages() -> Vec<OperatorPage> {
    let page = |o: &&dyn Operator| OperatorPage {
        name: o.name(),
        summary: o.summary(),
        source: o.source(),
        schema: o.schema(),
    };
    ALL.iter().map(page).collect()
}
