//! The action key: the identity of a cell's recipe, known before the cell runs.
//!
//! It is distinct from [`Digest`], the identity of output bytes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Digest;

/// The BLAKE3 digest of the canonical encoding of a cell's recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ActionKey(pub Digest);

impl fmt::Display for ActionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
