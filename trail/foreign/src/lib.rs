//! Audits a report that Benchtrail did not make.
//!
//! The report is read as text (Markdown, or plain text extracted from another format). Its numbers are bound
//! to its own tables and to data tables by value, unit, label and context; then mechanical rules are applied.
//! A rule speaks only where the binding is unambiguous: precision comes before recall.

mod audit;
mod data;
mod finding;
mod number;
mod rules;
mod sarif;
mod table;
mod text;

pub use audit::audit;
pub use data::read_folder;
pub use finding::{Audit, Confidence, Evidence, Finding};
pub use number::{Agreement, Quantity, Range, compare, leading, quantities, ranges, shown, spread};
pub use rules::Rule;
pub use sarif::sarif;
pub use table::{Cell, Row, Table};
pub use text::{Code, Heading, Prose, Report};
