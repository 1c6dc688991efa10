//! Types for the positions of an experiment's parts, so that they cannot be confused.
//!
//! A stage has a [`StageId`], an axis an [`AxisId`]. A cell has two: its [`CellId`] counts across all stages, its
//! [`LocalCell`] within its stage. A list that belongs to one of these types is indexed only by that type
//! ([`typed_index_collections::TiVec`]). Documents contain positions as plain numbers.

use serde::{Deserialize, Serialize};

macro_rules! position {
    ($(#[$doc:meta])* $visibility:vis $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        $visibility struct $name(usize);

        impl From<usize> for $name {
            fn from(position: usize) -> Self {
                Self(position)
            }
        }

        impl From<$name> for usize {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

position! {
    /// The position of an axis in [`Experiment::axes`](crate::Experiment::axes).
    pub AxisId
}

position! {
    /// The position of a stage in [`Experiment::stages`](crate::Experiment::stages).
    pub StageId
}

position! {
    /// The number of a planned cell, counted across all stages in order.
    pub(crate) CellId
}

position! {
    /// The position of a planned cell in [`Stage::cells`](crate::Stage::cells) of its stage.
    pub LocalCell
}

position! {
    /// The position of a stage in the file, before the stages are ordered by their needs.
    pub(crate) DraftId
}
