//! The action key: what a cell's recipe is, its canonical bytes, and how two recipes differ.

mod difference;
mod encoding;
mod recipe;

pub use difference::Difference;

pub(crate) use encoding::value_digest;
pub(crate) use encoding::{HeadParts, key_of};
#[cfg(test)]
pub(crate) use recipe::tests::sample as tests_sample;
pub(crate) use recipe::{InputList, facets_digest};
pub use recipe::{Recipe, RecipeCell, RecipeInput, StudyIdentity};
