//! The action key: a cell's recipe, its canonical bytes, and the differences between two recipes.

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
