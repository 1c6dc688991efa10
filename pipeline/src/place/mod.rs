//! Places: the one syntax of coordinates, conditions and cells, for writing and reading.
//!
//! ```text
//! coordinates  model=c,rep=1          one label for each axis, nothing for a stage without axes
//! condition    model=c|"a,b",rep=1    one of several labels; `model=()` matches none
//! cell         ladder[model=c,rep=1]
//! pattern      ladder[rep=1].requests typed by a user: some of the axes, and possibly an output
//!
//! condition := pair (',' pair)*                pair  := name '=' labels
//! labels    := label ('|' label)* | '()'       label := word | number | string
//! name      := [A-Za-z0-9_-]+ | string         word  := [A-Za-z][A-Za-z0-9_./:+@-]*
//! ```
//!
//! A string is quoted as in JSON. The words `null`, `true`, `false`, `inf` and `NaN` are values; text with the same
//! letters is quoted. So labels of different types never look alike, and everything written here reads back as the same
//! value.

mod condition;
mod coordinates;
mod label;
mod pattern;
mod read;
#[cfg(test)]
mod tests;

pub use condition::{Condition, spaced};
pub use coordinates::{CellName, Coordinates, WrittenCell, cell_text};
pub(crate) use label::push_label;
pub(crate) use label::push_name;
pub use label::{LabelKey, is_hidden, label_text, plain_label, same_label};
pub use pattern::CellPattern;
pub use read::PlaceError;
pub(crate) use read::Reader;
