//! How often true effects are found.

use rand_xoshiro::Xoshiro256PlusPlus as Stream;
use statistics::{
    GateOutcome, RegressionGate, UnitEffect, holm, log_margin, power, smallest_detectable,
    unit_effect,
};

use super::draw::effects;
use super::{Check, Table};

const ALPHA: f64 = 0.05;

pub(super) fn tables() -> Vec<Table> {
    vec![differences(), gates(), equivalence(), not_worse()]
}

/// The chance to find an effect that all metrics have, measured on one of them.
fn differences() -> Table {
    let mut checks = Vec::new();
    for blocks in [3, 5, 8, 10] {
        for (effect, noise) in [(0.05, 0.03), (0.10, 0.03), (0.10, 0.05), (0.20, 0.05)] {
            for metrics in [1, 3] {
                let row = format!(
                    "{:.0} % at ± {:.0} % a launch, {metrics} metric{}",
                    100.0 * effect,
                    100.0 * noise,
                    if metrics == 1 { "" } else { "s" }
                );
                let log = f64::ln_1p(effect);
                let study = move |rng: &mut Stream| {
                    let p = |_| Some(unit_effect(&effects(rng, blocks, noise, log)).ok()?.p);
                    let p: Vec<f64> = (0..metrics).map(p).collect::<Option<_>>()?;
                    Some(holm(&p)[0] <= ALPHA)
                };
                let required = blocks >= 5 && effect >= 0.1 && noise <= 0.03;
                let bounds = (if required { 0.8 } else { 0.0 }, 1.0);
                let column = format!("{blocks} blocks");
                checks.push(Check::new((row, column), bounds, study));
            }
        }
        let detectable = smallest_detectable(blocks, ALPHA, 0.8).expect("two blocks or more");
        let computed = power(blocks, detectable, ALPHA).expect("two blocks or more");
        let study = move |rng: &mut Stream| {
            let noise = 0.5_f64.sqrt();
            let effect = unit_effect(&effects(rng, blocks, noise, detectable));
            effect.ok().map(|e| e.p <= ALPHA)
        };
        let column = format!("{blocks} blocks");
        let row = "the smallest detectable effect";
        checks.push(Check::new(
            (row, column),
            (computed - 0.005, computed + 0.005),
            study,
        ));
    }
    Table {
        title: "Power",
        note: "The first metric called *different* at 5 %, with Holm over all metrics, each with the effect.",
        checks,
    }
}

/// The gate against regressions.
fn gates() -> Table {
    let mut checks = Vec::new();
    let gate = RegressionGate {
        allowed: log_margin(0.05),
        fails_above: 0.0,
        alpha: ALPHA,
    };
    for blocks in [3, 5, 8] {
        for (slower, fails, passes) in [
            (1.0, (0.0, ALPHA), (0.0, 1.0)),
            (1.05, (0.0, 1.0), (0.0, ALPHA)),
            (1.1, (if blocks < 5 { 0.0 } else { 0.8 }, 1.0), (0.0, ALPHA)),
            (1.2, (0.0, 1.0), (0.0, ALPHA)),
        ] {
            for (outcome, name, bounds) in [
                (GateOutcome::Fail, "fails", fails),
                (GateOutcome::Pass, "passes", passes),
            ] {
                let study = move |rng: &mut Stream| {
                    let effect = unit_effect(&effects(rng, blocks, 0.03, f64::ln(slower))).ok()?;
                    Some(effect.regression(&gate).outcome == outcome)
                };
                let (row, column) = (
                    format!("{slower:.2}× slower, {name}"),
                    format!("{blocks} blocks"),
                );
                checks.push(Check::new((row, column), bounds, study));
            }
        }
    }
    Table {
        title: "A regression gate",
        note: "Launches ± 3 %; 5 % allowed, fails on any worsening, one-sided 5 %. The remaining studies are not judged.",
        checks,
    }
}

/// Equivalence at and within the margin.
fn equivalence() -> Table {
    let mut checks = Vec::new();
    for blocks in [3, 5, 8, 20] {
        for (ratio, bounds) in [(1.0, (0.0, 1.0)), (1.05, (0.0, ALPHA))] {
            let study = move |rng: &mut Stream| {
                let effect = unit_effect(&effects(rng, blocks, 0.03, f64::ln(ratio))).ok()?;
                let margin = log_margin(0.05);
                let same = |effect: &UnitEffect| effect.equivalence((-margin, margin), ALPHA);
                Some(same(&effect).equivalent)
            };
            let (row, column) = (format!("true ratio {ratio:.2}"), format!("{blocks} blocks"));
            checks.push(Check::new((row, column), bounds, study));
        }
    }
    Table {
        title: "Called *equivalent* within 5 %",
        note: "Launches ± 3 %. If the true ratio equals the margin, at most 5 %.",
        checks,
    }
}

/// Non-inferiority at the margin, and effects worse than it.
fn not_worse() -> Table {
    let mut checks = Vec::new();
    let margin = log_margin(0.05);
    for blocks in [3, 5, 8] {
        for (ratio, shown, refuted) in [
            (0.95, (0.0, 1.0), (0.0, ALPHA)),
            (1.0, (0.0, 1.0), (0.0, ALPHA)),
            (1.05, (0.0, ALPHA), (0.0, ALPHA)),
            (1.1, (0.0, ALPHA), (0.0, 1.0)),
        ] {
            for (name, worse, bounds) in [("not worse", false, shown), ("worse", true, refuted)] {
                let study = move |rng: &mut Stream| {
                    let effect = unit_effect(&effects(rng, blocks, 0.03, f64::ln(ratio))).ok()?;
                    let bounds = effect.interval(1.0 - 2.0 * ALPHA);
                    Some(match worse {
                        false => bounds.high < margin,
                        true => bounds.low > margin,
                    })
                };
                let (row, column) = (
                    format!("true ratio {ratio:.2}, {name}"),
                    format!("{blocks} blocks"),
                );
                checks.push(Check::new((row, column), bounds, study));
            }
        }
    }
    Table {
        title: "Called *not worse* than 5 %",
        note: "A latency, launches ± 3 %; *worse* means that the claim is refused. If the true ratio equals the margin, each is at most 5 %.",
        checks,
    }
}
