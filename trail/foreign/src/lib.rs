//! Audits reports that Benchtrail did not make.
//!
//! A Markdown document is read by CommonMark's rules. Without data, its arithmetic, tables, sentences and form are
//! checked against each other, as far as the text is explicit or a single table can answer. With data, every number is
//! traced to the cell, or the simple derivation from cells, that yields it, and numbers with no source are listed.

mod arithmetic;
mod audit;
mod claims;
mod coverage;
mod data;
mod document;
mod finding;
mod grid;
mod number;
mod outcomes;
mod page;
mod sarif;
mod source;
mod structure;
mod style;
mod table;
mod words;

pub use audit::{MOST_BYTES, Unaudited, audit, supported};
pub use coverage::{Coverage, Derivation, Status, Traced};
pub use data::{Unread, read_tables};
pub use document::{Document, Heading, List, Lost, Prose};
pub use finding::{Audit, Evidence, Finding, Rule};
pub use number::Quantity;
pub use page::{html, markdown};
pub use sarif::sarif;
pub use table::{Cell, Row, Table};
