//! Critical values of the tests for one and for two changes.
//!
//! `cargo bench -p statistics --bench operating_characteristics -- critical-values` simulates them: for each length, the
//! largest over the null series of `benches/operating_characteristics/checks/series.rs`.

/// For each length of a series: the critical values of one change at 5 % and at 0.1 %, then those of two changes.
const VALUES: [(usize, [f64; 4]); 15] = [
    (6, [9.0, 20.5, 0.0, 0.0]),
    (7, [10.5, 22.7, 0.0, 0.0]),
    (8, [11.3, 23.0, 0.0, 0.0]),
    (9, [12.3, 22.7, 13.5, 25.5]),
    (10, [12.8, 23.0, 15.9, 27.8]),
    (12, [13.9, 24.8, 18.8, 31.1]),
    (14, [15.0, 26.9, 21.3, 31.9]),
    (16, [15.6, 28.4, 23.1, 34.6]),
    (20, [17.2, 32.9, 27.1, 40.7]),
    (25, [18.5, 38.9, 31.2, 46.4]),
    (30, [20.0, 40.7, 35.0, 51.7]),
    (40, [21.5, 48.0, 41.1, 60.5]),
    (50, [22.5, 53.6, 45.4, 69.3]),
    (70, [23.2, 60.1, 51.2, 81.3]),
    (100, [23.5, 61.7, 56.2, 110.1]),
];

/// The levels of the critical values in the table.
const LEVELS: [f64; 2] = [0.05, 0.001];

/// Returns the critical values of one and of two changes in a series of `n` values. They are interpolated between lengths and
/// in the logarithm of the level, in which they are nearly linear, and continued beyond the table.
pub(super) fn critical(n: usize, level: f64) -> [f64; 2] {
    let after = VALUES.partition_point(|(length, _)| *length < n);
    let after = after.clamp(1, VALUES.len() - 1);
    let ((low, a), (high, b)) = (VALUES[after - 1], VALUES[after]);
    let along = (n as f64 - low as f64) / (high - low) as f64;
    let at = |i: usize| a[i] + along * (b[i] - a[i]);
    let depth = (LEVELS[0] / level).ln() / (LEVELS[0] / LEVELS[1]).ln();
    [[0, 1], [2, 3]].map(|[often, rare]| at(often) + depth * (at(rare) - at(often)))
}
