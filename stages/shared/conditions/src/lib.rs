//! Were two sides of a comparison measured under the same conditions? The gate
//! `balanced-conditions` checks this for a load stage, and every comparison of `analyze` for the
//! cells behind it. Both use this one answer. `turns` says whether one side was measured after the other.

mod balance;
mod sampled;
mod turns;

pub use balance::{ALPHA, Compared, Measured, compared};
pub use sampled::{Conditions, Samples, names};
pub use turns::{FirstInEach, IN_TURNS, Order, Start};
