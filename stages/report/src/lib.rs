//! The report stage: traced numbers, figures, the number check.
//!
//! A report is a minijinja template over the artifacts of the stages it needs. A number gets
//! into it only through a lookup, which leaves a row in the *trace* table; the number check
//! refuses every other numeral. `docs/number-check.md` has the rules.

mod check;
mod comparisons;
mod data;
mod figure;
mod format;
mod language;
mod ledger;
mod render;
mod settings;
mod stage;
mod tables;
mod template;
mod trace;

pub use check::{Finding, Outcome, check};
pub use data::Data;
pub use format::format_value;
pub use render::{Report as Rendered, render};
pub use settings::{FigureSettings, Literal, Parameters, TableSettings};
pub use stage::Report;
pub use template::Template;
pub use trace::{Entry, Source, Span};
