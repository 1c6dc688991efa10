//! Were two sides of a comparison measured under the same conditions? The gate
//! `balanced-conditions` checks this for a load stage, and every comparison of `analyze` for the
//! cells behind it. Both use this one answer.

mod balance;
mod sampled;

pub use balance::{ALPHA, Compared, Measured, compared};
pub use sampled::{Conditions, Samples, names};
