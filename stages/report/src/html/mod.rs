//! The report as one self-contained HTML file: no scripts, no fonts, no requests.
//!
//! It is made from the same Markdown, trace and figures as the other outputs, after the number check. Every traced text
//! becomes a link that shows its trail on hover and on focus, by CSS alone. It leads to an appendix with the row, the
//! full digest and the commands to follow it further.

mod appendix;
mod body;
pub(crate) mod escape;
mod page;
mod style;
mod trails;

pub(crate) use page::{Parts, page};
