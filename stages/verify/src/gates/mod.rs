//! The gates, one per file. A new gate needs a file and a line here.

mod balanced_conditions;
mod calibrated_range;
mod census;
mod client_health;
mod client_lag;
mod clock;
mod cold_cache;
mod comparability;
mod context_ceiling;
mod degenerate;
mod delivered_length;
mod digests;
mod duplicates;
mod engine_identity;
mod expected_rows;
mod identities;
mod in_flight;
pub(crate) mod one_mode;
mod one_piece;
mod order_effects;
mod outlying_launches;
pub(crate) mod outlying_repeats;
mod physical_roofs;
mod plausible_ttft;
mod possible_scaling;
mod repeats;
mod row_status;
mod same_prompts;
mod server_errors;
mod server_latency;
mod sql;
mod stalls;
mod stationarity;
mod throttling;
mod token_accounting;
mod token_bias;
mod warm_up;

#[cfg(test)]
mod tests_of_imports;

pub(crate) use balanced_conditions::Parameters as BalanceParameters;
pub(crate) use census::files;
pub(crate) use comparability::Parameters as ComparabilityParameters;
pub(crate) use engine_identity::variants_planned;

use crate::gate::Gate;

/// Every gate, in the order of the documentation.
pub(crate) const ALL: &[&dyn Gate] = &[
    &census::Census,
    &digests::Digests,
    &row_status::RowStatus,
    &expected_rows::ExpectedRows,
    &degenerate::Degenerate,
    &token_accounting::TokenAccounting,
    &token_bias::TokenBias,
    &delivered_length::DeliveredLength,
    &one_piece::OnePiece,
    &context_ceiling::ContextCeiling,
    &client_lag::ClientLag,
    &client_health::ClientHealth,
    &calibrated_range::CalibratedRange,
    &in_flight::InFlight,
    &server_latency::ServerLatency,
    &server_errors::ServerErrors,
    &clock::Clock,
    &stalls::Stalls,
    &identities::Identities,
    &duplicates::Duplicates,
    &plausible_ttft::PlausibleTtft,
    &physical_roofs::PhysicalRoofs,
    &possible_scaling::PossibleScaling,
    &engine_identity::EngineIdentity,
    &cold_cache::ColdCache,
    &same_prompts::SamePrompts,
    &comparability::Comparability,
    &balanced_conditions::BalancedConditions,
    &throttling::Throttling,
    &warm_up::WarmUp,
    &stationarity::Stationarity,
    &one_mode::OneMode,
    &order_effects::OrderEffects,
    &outlying_repeats::OutlyingRepeats,
    &outlying_launches::OutlyingLaunches,
    &repeats::Repeats,
    &sql::Sql,
];

/// The documentation of a gate.
#[derive(Clone, Debug)]
pub struct GatePage {
    /// The name in `gate:`.
    pub name: &'static str,
    /// The question that it checks, in one sentence.
    pub summary: &'static str,
    /// The default consequence if it does not pass: `fail`, `exclude` or `warn`.
    pub severity: &'static str,
    /// The JSON Schema of its parameters.
    pub schema: pipeline::Json,
}

/// Returns a page for every gate.
pub fn pages() -> Vec<GatePage> {
    let page = |g: &&dyn Gate| GatePage {
        name: g.name(),
        summary: g.summary(),
        severity: g.severity().word(),
        schema: g.schema(),
    };
    ALL.iter().map(page).collect()
}
