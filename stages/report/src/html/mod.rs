//! The report as one HTML file that stands on its own: no script, no font, no request.
//!
//! It is made of the same Markdown, trace and figures as the other outputs, after the number
//! check. Every traced text becomes a link that shows its trail on hover and on focus, by style
//! alone, and leads to an appendix with the row, the full digest and the commands that go on.

mod appendix;
mod body;
mod escape;
mod page;
mod style;
mod trails;

pub(crate) use page::{Parts, page};
