//! The verify stage: gates over rows.
//!
//! A stage is evidence only after its rows are counted. The experiment declares the gates with
//! parameters and a severity. They run over every cell of the needed load stages and produce:
//!
//! - `gates`: one row per gate × cell (`cell` is null for a gate over a whole stage): `stage`,
//!   `cell`, the axes, `gate`, `severity`, `outcome` (`pass`, `fail`, `not judged`), `observed`,
//!   `expected`, `evidence`;
//! - `exclusions`: the cells barred from all statistics: `stage`, `cell`, the axes, `gate`,
//!   `severity`, `reason`;
//! - `census`: per load stage, cells and rows counted two ways;
//! - `comparability`: for each gate `comparability`, pairs of compared cells facet by facet;
//! - `imbalances`: for each gate `balanced-conditions`, the sides measured under different
//!   conditions;
//! - `verdict`: JSON `{pass, fail, not_judged}`, counts of findings by outcome; `failed`: the
//!   failed ones by severity, `{fail, exclude, warn}`; and `failed_gates`, the names of the failed
//!   gates of severity `fail`.
//!
//! **A failed gate is a result, not a failed cell.** The verify cell itself completes, because its
//! tables are the evidence. The `verdict` states how many gates of severity `fail` failed, and a
//! run of the experiment ends with an error if that is not 0. Downstream, `analyze` leaves out a
//! cell that failed a `fail` gate, just as it leaves out an excluded one, and the report shows
//! both.

mod census;
#[cfg(test)]
mod client_tests;
mod comparability;
mod defaults;
mod figure;
mod finding;
mod gate;
mod gates;
mod hardware;
mod imbalances;
mod kind;
#[cfg(test)]
mod measured;
#[cfg(any(test, feature = "simulation"))]
pub mod operating;
mod pace;
mod prompt_caches;
mod replicates;
mod robust;
mod same_prompts;
mod scrapes;
mod sent_prompts;
mod series;
mod study;
mod usual;

#[cfg(test)]
mod manual;
#[cfg(test)]
mod one_cell;
#[cfg(test)]
mod rates;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_engines;
#[cfg(test)]
mod tests_of_faults;

pub use gates::{GatePage, pages};
pub use hardware::{collections, shipped};
pub use kind::Verify;
