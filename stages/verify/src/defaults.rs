//! Defaults that several gates share.

/// The probability of any false alarm per load stage.
pub(crate) fn alpha() -> f64 {
    0.01
}

/// The smallest relative effect that matters.
pub(crate) fn effect() -> f64 {
    0.1
}
