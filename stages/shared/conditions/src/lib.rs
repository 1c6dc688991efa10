//! Were two sides of a comparison measured under the same conditions? The gate `balanced-conditions`
//! asks it of a load stage, and every comparison of `analyze` of the cells it rests on: one answer.

mod balance;
mod sampled;

pub use balance::{ALPHA, Compared, Measured, compared};
pub use sampled::{Conditions, Samples, names};
