//! Series of one figure over commits: false change points, and changes that are found.

use rand_xoshiro::Xoshiro256PlusPlus as Stream;
use rand_xoshiro::rand_core::SeedableRng;
use rayon::prelude::*;
use statistics::{changes, segments};

use super::draw::{normal, uniform};
use super::{Check, Table};

const LEVEL: f64 = 0.05;

/// How the values of a series scatter about its level.
#[derive(Clone, Copy, PartialEq)]
enum Noise {
    Normal,
    /// Student's t with three degrees of freedom.
    HeavyTails,
    Exponential,
    /// One value in ten scatters ten times as much.
    Contaminated,
    /// The last values scatter three times as much as the first.
    Growing,
    /// Each value is a mean of 1 to 10 launches.
    UnequalNumbers,
    /// The first values scatter three times as much as the last.
    Shrinking,
    Uniform,
    /// Whole steps of the standard deviation.
    Rounded,
    /// A mean of two neighbours, so the dependence ends after one value.
    MovingAverage,
}

/// The noise of the series from which the critical values come. The others are tested without them.
const CALIBRATED: [(Noise, &str); 6] = [
    (Noise::Normal, "normal"),
    (Noise::HeavyTails, "heavy tails (t₃)"),
    (Noise::Exponential, "exponential"),
    (Noise::Contaminated, "one value in ten ten times as noisy"),
    (Noise::Growing, "noise that grows to three times"),
    (Noise::UnequalNumbers, "means of 1 to 10 launches"),
];

const OTHERS: [(Noise, &str); 4] = [
    (Noise::Shrinking, "noise that shrinks to a third"),
    (Noise::Uniform, "uniform"),
    (Noise::Rounded, "rounded to the standard deviation"),
    (Noise::MovingAverage, "means of two neighbours"),
];

fn innovation(noise: Noise, rng: &mut Stream, along: f64) -> f64 {
    let value = normal(rng);
    match noise {
        Noise::Normal | Noise::Rounded | Noise::MovingAverage => value,
        Noise::HeavyTails => {
            let square: f64 = (0..3).map(|_| normal(rng).powi(2)).sum();
            value / (square / 3.0).sqrt()
        }
        Noise::Exponential => -uniform(rng).ln() - 1.0,
        Noise::Contaminated if uniform(rng) < 0.1 => 10.0 * value,
        Noise::Contaminated => value,
        Noise::Growing => value * (1.0 + 2.0 * along),
        Noise::Shrinking => value * (3.0 - 2.0 * along),
        Noise::UnequalNumbers => value / (1.0 + (10.0 * uniform(rng)).floor()).sqrt(),
        Noise::Uniform => uniform(rng) - 0.5,
    }
}

/// Returns a series of one level in which each value resembles the one before.
fn steady(noise: Noise, rho: f64, n: usize, rng: &mut Stream) -> Vec<f64> {
    let mut value = 0.0;
    let mut last = 0.0;
    for _ in 0..30 {
        value = rho * value + innovation(noise, rng, 0.0);
    }
    (0..n)
        .map(|t| {
            let new = innovation(noise, rng, t as f64 / n as f64);
            value = rho * value + new;
            let shown = match noise {
                Noise::Rounded => (value * (1.0 - rho * rho).sqrt()).round(),
                Noise::MovingAverage => new + last,
                _ => value,
            };
            last = new;
            shown
        })
        .collect()
}

pub(super) fn tables() -> Vec<Table> {
    vec![nulls(), shift_table()]
}

fn nulls() -> Table {
    let mut checks = Vec::new();
    let mut row = |noise: Noise, name: &str, rho: f64, most: f64| {
        for n in [6, 8, 12, 20, 35, 50, 100] {
            let rounding = if noise == Noise::Rounded {
                1.0 / 12.0
            } else {
                0.0
            };
            let study = move |rng: &mut Stream| {
                let values = steady(noise, rho, n, rng);
                Some(segments(&values, rounding, LEVEL)?.len() > 1)
            };
            let name = if rho == 0.0 {
                name.to_owned()
            } else {
                format!("{name}, correlation {rho}")
            };
            let check = Check::new((name, format!("{n} commits")), (0.0, most), study);
            checks.push(if n == 100 { check.costing(5) } else { check });
        }
    };
    for (noise, name) in CALIBRATED.into_iter().chain(OTHERS) {
        for rho in [0.0, 0.3, 0.6] {
            if noise != Noise::MovingAverage || rho == 0.0 {
                row(noise, name, rho, 0.055);
            }
        }
    }
    row(Noise::Normal, "normal", -0.4, 0.055);
    row(Noise::Normal, "normal", 0.8, 1.0);
    row(Noise::Normal, "normal", 0.9, 1.0);
    Table {
        title: "False change points of `history`",
        note: "Series of one level in which a change point is shown at 5 %. Neighbouring values have the given correlation.",
        checks,
    }
}

/// Where a series has another level, as shares of its length.
const PLACES: [(&str, [f64; 2]); 3] = [
    ("from the middle on", [0.5, 1.0]),
    ("the last three", [-1.0, 1.0]),
    ("the middle third", [1.0 / 3.0, 2.0 / 3.0]),
];

fn shift_table() -> Table {
    let mut checks = Vec::new();
    for (rho, shifts) in [
        (0.0_f64, &[2.0, 3.0, 4.0, 6.0, 8.0][..]),
        (0.6, &[3.0, 4.0, 6.0][..]),
    ] {
        for (place, [from, to]) in PLACES {
            for shift in shifts {
                for n in [6, 8, 12, 20, 35, 50] {
                    let at = |share: f64| (share * n as f64).round() as usize;
                    let (from, to) = (if from < 0.0 { n - 3 } else { at(from) }, at(to));
                    if to - from < 3 || (to < n && n - to < 3) {
                        continue;
                    }
                    let (rho, shift) = (rho, *shift);
                    let study = move |rng: &mut Stream| {
                        let spread = (1.0 - rho * rho).sqrt();
                        let mut values = steady(Noise::Normal, rho, n, rng);
                        values.iter_mut().for_each(|v| *v *= spread);
                        values[from..to].iter_mut().for_each(|v| *v += shift);
                        let parts = segments(&values, 0.0, LEVEL)?;
                        Some(
                            parts
                                .iter()
                                .any(|s| s.from > 0 && s.from.abs_diff(from) <= 1),
                        )
                    };
                    let correlated = if rho == 0.0 {
                        String::new()
                    } else {
                        format!(", correlation {rho}")
                    };
                    let row = format!("{shift} standard deviations, {place}{correlated}");
                    checks.push(
                        Check::new((row, format!("{n} commits")), (0.0, 1.0), study).costing(4),
                    );
                }
            }
        }
    }
    for n in [12, 20, 35, 50] {
        let study = move |rng: &mut Stream| {
            let mut values = steady(Noise::Normal, 0.0, n, rng);
            values[n / 2..].iter_mut().for_each(|v| *v += 8.0);
            let parts = segments(&values, 0.0, LEVEL)?;
            Some(parts.len() > 2)
        };
        let row = "8 standard deviations from the middle on: a second change, which is false";
        checks.push(Check::new((row, format!("{n} commits")), (0.0, 0.06), study).costing(4));
    }
    Table {
        title: "Change points that `history` finds",
        note: "Normal series with another level in the given place: a change point is shown within one commit of the true one.",
        checks,
    }
}

/// Returns the critical values of `statistics::segments`, as its table has them.
#[allow(
    dead_code,
    reason = "the bench prints them, and the test that shares this module does not"
)]
pub(crate) fn critical_values(studies: usize) -> impl Iterator<Item = String> {
    let lengths = [6, 7, 8, 9, 10, 12, 14, 16, 20, 25, 30, 40, 50, 70, 100];
    lengths.into_iter().map(move |n| {
        let mut largest = [0.0_f64; 4];
        for (kind, (noise, _)) in CALIBRATED.into_iter().enumerate() {
            for (k, rho) in [0.0, 0.3, 0.6].into_iter().enumerate() {
                let seed = (n * 100 + kind * 10 + k) as u64;
                let one = |study: usize| {
                    let mut rng = Stream::seed_from_u64(seed << 32 | study as u64);
                    let best = changes(&steady(noise, rho, n, &mut rng), 0.0);
                    best.map_or([0.0; 2], |best| [best.one.0, best.two.0])
                };
                let drawn: Vec<[f64; 2]> = (0..studies).into_par_iter().map(one).collect();
                for i in 0..2 {
                    let mut values: Vec<f64> = drawn.iter().map(|d| d[i]).collect();
                    values.sort_by(f64::total_cmp);
                    for (j, level) in [0.05, 0.001].into_iter().enumerate() {
                        let value = values[studies - 1 - (studies as f64 * level) as usize];
                        largest[2 * i + j] = largest[2 * i + j].max(value);
                    }
                }
            }
        }
        let [a, b, c, d] = largest;
        format!("    ({n}, [{a:.1}, {b:.1}, {c:.1}, {d:.1}]),")
    })
}
