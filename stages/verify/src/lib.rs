//! The verify stage: gates over rows.
//!
//! A stage is evidence only after its rows are counted. Gates are declared in the experiment,
//! have parameters and a severity, run over every cell of the load stages needed, and leave:
//!
//! - `gates`: one row per gate × cell (`cell` is null for a gate over a whole stage): `stage`,
//!   `cell`, the axes, `gate`, `severity`, `outcome` (`pass`, `fail`, `not judged`), `observed`,
//!   `expected`, `evidence`;
//! - `exclusions`: the cells that may enter no statistic: `stage`, `cell`, the axes, `gate`,
//!   `severity`, `reason`;
//! - `census`: per load stage, cells and rows counted two ways;
//! - `comparability`: for each gate `comparability`, pairs of compared cells facet by facet;
//! - `imbalances`: for each gate `balanced-conditions`, the sides that were measured under other
//!   conditions;
//! - `verdict`: JSON `{pass, fail, not_judged}`, counts of findings by outcome; `failed`: those that
//!   failed by severity, `{fail, exclude, warn}`; and `failed_gates`, the names of the gates of
//!   severity `fail` that failed.
//!
//! **A failed gate is a result, not a failed cell.** The verify cell itself completes, because
//! its tables are the evidence; the `verdict` says how many gates of severity `fail` failed, and
//! whoever runs the experiment ends with an error if that is not 0. Downstream, `analyze` takes
//! a cell that failed a `fail` gate as little as an excluded one, and the report shows both.

mod census;
#[cfg(test)]
mod client_tests;
mod comparability;
mod finding;
mod gate;
mod gates;
mod hardware;
mod imbalances;
mod kind;
#[cfg(test)]
mod measured;
pub mod operating;
mod pace;
mod prompt_caches;
mod replicates;
mod robust;
mod series;
mod study;

#[cfg(test)]
mod manual;
#[cfg(test)]
mod rates;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_engines;
#[cfg(test)]
mod tests_of_faults;

pub use gates::{GatePage, pages};
pub use hardware::{Hardware, collections, shipped};
pub use kind::Verify;
