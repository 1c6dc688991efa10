//! Checks a spanned tree against a JSON Schema of the form that `schemars` generates.
//!
//! It collects every mistake. It supports `type`, `properties`, `required`, closed objects, `enum`, `const`,
//! `oneOf`/`anyOf` (externally, internally tagged, untagged enums, options), `allOf`, `if` with `then` and `else`,
//! `$ref`, `items`, `prefixItems`, the bounds of numbers, lengths of lists, texts and maps, and the formats `duration`,
//! `span` (a duration that may be as short as nanoseconds) and `percent`. `pattern` is for editors only.

mod checker;
mod choose;
mod lists;
mod numbers;
mod remedies;
mod unknown;
mod view;

pub(crate) use checker::Checker;
pub use checker::mistakes_in;
pub use numbers::number_meant;
pub(crate) use numbers::range;
pub use remedies::truth_meant;
pub(crate) use unknown::has_word;
pub(crate) use view::key_meant;
pub use view::remedy_for_other_word;
