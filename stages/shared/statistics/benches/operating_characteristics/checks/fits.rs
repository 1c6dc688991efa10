//! How often intervals of a law's parameters contain the true value.

use rand_xoshiro::Xoshiro256PlusPlus as Stream;
use statistics::{Interval, Model, fit, unit_effect};

use super::draw::normal;
use super::{Check, Table};

const LEVEL: f64 = 0.95;

/// The ladder of concurrencies.
const LADDER: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

type Points = Vec<(f64, f64)>;

/// Laws, their true parameters, and the index and name of the parameter under test.
const LAWS: [(Model, &[f64], usize, &str); 5] = [
    (
        Model::MichaelisMenten,
        &[900.0, 12.0],
        0,
        "Michaelis–Menten, vmax",
    ),
    (
        Model::MichaelisMenten,
        &[900.0, 12.0],
        1,
        "Michaelis–Menten, k",
    ),
    (Model::Amdahl, &[100.0, 0.05], 1, "Amdahl, sigma"),
    (Model::Usl, &[100.0, 0.05, 0.002], 1, "USL, sigma"),
    (Model::Usl, &[100.0, 0.05, 0.002], 2, "USL, kappa"),
];

pub(super) fn tables() -> Vec<Table> {
    let mut checks = Vec::new();
    for (model, truth, parameter, name) in LAWS {
        for blocks in [5, 8] {
            let study = move |rng: &mut Stream| -> Vec<Points> {
                (0..blocks).map(|_| block(rng, model, truth)).collect()
            };
            let named = |what: &str| (format!("{name}, {blocks} blocks"), what.to_owned());
            let value = move |points: &Points| {
                fit(model, points).map_or(f64::NAN, |fit| fit.values[parameter])
            };
            let holds = move |interval: Interval| !interval.excludes(truth[parameter]);
            let residuals = move |rng: &mut Stream| {
                let fit = fit(model, &mean_curve(&study(rng))).ok()?;
                let (low, high) = fit.interval(parameter, LEVEL)?;
                Some(holds(Interval { low, high }))
            };
            let check = Check::new(named("residuals of one curve"), (0.0, 1.0), residuals);
            checks.push(check.costing(10));
            let each = move |rng: &mut Stream| {
                let values: Vec<f64> = study(rng).iter().map(value).collect();
                Some(holds(unit_effect(&values).ok()?.interval(LEVEL)))
            };
            let check = Check::new(named("t over a curve per block"), (0.92, 0.98), each);
            checks.push(check.costing(10));
        }
    }
    vec![Table {
        title: "Coverage of 95 % intervals of a law's parameters",
        note: "Seven rungs from 1 to 64, cells ± 3 %, launches ± 3 % shared by the rungs of a block.",
        checks,
    }]
}

/// Returns the points of one launch.
fn block(rng: &mut Stream, model: Model, truth: &[f64]) -> Points {
    let launch = 0.03 * normal(rng);
    let point = |x: f64| {
        let error = launch + 0.03 * normal(rng);
        (x, model.at(truth, x) * error.exp())
    };
    LADDER.map(point).to_vec()
}

/// Returns the mean of the blocks at each rung.
fn mean_curve(blocks: &[Points]) -> Points {
    let at = |(rung, x): (usize, f64)| {
        let total: f64 = blocks.iter().map(|block| block[rung].1).sum();
        (x, total / blocks.len() as f64)
    };
    LADDER.into_iter().enumerate().map(at).collect()
}
