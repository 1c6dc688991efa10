//! The usual table of a run, from its rows.

/// Returns quantile `q` (0–1) of values in ascending order: type 7 (Hyndman and Fan 1996),
/// linear interpolation, the default of NumPy and R. `None` without values.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let place = q * (sorted.len().checked_sub(1)?) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(below + (above - below) * (place - place.floor()))
}
