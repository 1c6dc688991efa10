//! One launch unlike the others: how often the test finds one where there is none, and one that is there.

use rand_xoshiro::Xoshiro256PlusPlus as Stream;
use statistics::{holm, outlier};

use super::draw::{autoregression, normal, uniform};
use super::{Check, Table};

const ALPHA: f64 = 0.05;

const LAUNCHES: [usize; 4] = [3, 5, 8, 10];

/// Draws the logarithms of the launches of one condition.
type Noise = fn(&mut Stream, usize) -> Vec<f64>;

fn exponential(rng: &mut Stream) -> f64 {
    -uniform(rng).ln()
}

/// Noise without an unlike launch. The test holds its level for all except the last three, whose tails are longer than
/// that of an exponential.
const NULLS: [(&str, (f64, f64), Noise); 11] = [
    ("normal", (0.0, ALPHA), |rng, n| {
        (0..n).map(|_| normal(rng)).collect()
    }),
    ("uniform", (0.0, ALPHA), |rng, n| {
        (0..n).map(|_| uniform(rng)).collect()
    }),
    ("skewed: an exponential tail", (0.0, ALPHA), |rng, n| {
        (0..n).map(|_| exponential(rng)).collect()
    }),
    ("skewed the other way", (0.0, ALPHA), |rng, n| {
        (0..n).map(|_| -exponential(rng)).collect()
    }),
    ("exponential tails on both sides", (0.0, ALPHA), |rng, n| {
        (0..n)
            .map(|_| exponential(rng) - exponential(rng))
            .collect()
    }),
    (
        "autocorrelated, ρ = 0.5 from launch to launch",
        (0.0, ALPHA),
        |rng, n| autoregression(rng, 0.5, n),
    ),
    ("autocorrelated, ρ = 0.9", (0.0, ALPHA), |rng, n| {
        autoregression(rng, 0.9, n)
    }),
    (
        "drift by one standard deviation per launch",
        (0.0, ALPHA),
        |rng, n| (0..n).map(|i| i as f64 + normal(rng)).collect(),
    ),
    ("heavy tails: t with 3 degrees of freedom", (0.0, 1.0), {
        |rng, n| {
            let one = |rng: &mut Stream| {
                let squares: f64 = (0..3).map(|_| normal(rng).powi(2)).sum();
                normal(rng) / (squares / 3.0).sqrt()
            };
            (0..n).map(|_| one(rng)).collect()
        }
    }),
    ("skewed: log-normal, σ = 1", (0.0, 1.0), |rng, n| {
        (0..n).map(|_| normal(rng).exp()).collect()
    }),
    (
        "one launch in ten slower by 10 standard deviations",
        (0.0, 1.0),
        |rng, n| {
            let slow = |rng: &mut Stream| if uniform(rng) < 0.1 { 10.0 } else { 0.0 };
            (0..n).map(|_| normal(rng) + slow(rng)).collect()
        },
    ),
];

/// Returns the conditions in which a launch is unlike the others, under one level.
fn outlying(conditions: &[Vec<f64>]) -> Option<Vec<Option<usize>>> {
    let tests: Result<Vec<_>, _> = conditions.iter().map(|c| outlier(c, 0.0)).collect();
    let tests = tests.ok()?;
    let p: Vec<f64> = tests.iter().map(|t| t.p).collect();
    let adjusted = holm(&p).into_iter().zip(tests);
    Some(
        adjusted
            .map(|(p, t)| (p <= ALPHA).then_some(t.at))
            .collect(),
    )
}

pub(super) fn tables() -> Vec<Table> {
    let mut nulls = Vec::new();
    for (name, bounds, noise) in NULLS {
        for launches in LAUNCHES {
            for conditions in [1, 4] {
                if conditions > 1 && launches == 8 {
                    continue;
                }
                let column = match conditions {
                    1 => format!("{launches} launches"),
                    _ => format!("{conditions} conditions of {launches}"),
                };
                let study = move |rng: &mut Stream| {
                    let drawn: Vec<_> = (0..conditions).map(|_| noise(rng, launches)).collect();
                    Some(outlying(&drawn)?.iter().any(Option::is_some))
                };
                nulls.push(Check::new((name, column), bounds, study));
            }
        }
    }
    let mut power = Vec::new();
    for conditions in [1, 2, 4] {
        for deviations in [3, 5, 10, 25] {
            for launches in LAUNCHES {
                let noun = if conditions == 1 {
                    "condition"
                } else {
                    "conditions"
                };
                let row =
                    format!("slower by {deviations} standard deviations, {conditions} {noun}");
                let study = move |rng: &mut Stream| {
                    let normals = |rng: &mut Stream| (0..launches).map(|_| normal(rng)).collect();
                    let mut drawn: Vec<Vec<f64>> = (0..conditions).map(|_| normals(rng)).collect();
                    drawn[0][0] += f64::from(deviations);
                    Some(outlying(&drawn)?[0] == Some(0))
                };
                let column = format!("{launches} launches");
                power.push(Check::new((row, column), (0.0, 1.0), study));
            }
        }
    }
    vec![
        Table {
            title: "A launch called unlike the others, and none is",
            note: "Any in a study, at 5 %. The last three kinds of noise have longer tails than the test allows for.",
            checks: nulls,
        },
        Table {
            title: "Finds the one launch unlike the others",
            note: "Normal launches on the log scale; one launch of one condition is slower. Holm over the conditions.",
            checks: power,
        },
    ]
}
