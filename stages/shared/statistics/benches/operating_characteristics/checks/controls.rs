//! Negative controls: procedures that must fail because they would claim differences again and
//! again.

use rand_xoshiro::Xoshiro256PlusPlus as Stream;
use rand_xoshiro::rand_core::Rng;
use statistics::{holm, indirect_effect, unit_effect};

use super::draw::{effects, mean, normal, requests};
use super::{Check, Table};

const ALPHA: f64 = 0.05;

pub(super) fn tables() -> Vec<Table> {
    vec![pooling(), orders(), families()]
}

/// Requests used as units.
fn pooling() -> Table {
    let mut checks = Vec::new();
    for (launch, low) in [(0.0, 0.0), (0.02, 0.10), (0.05, 0.40)] {
        let column = format!("launches ± {:.0} %", 100.0 * launch);
        let side = move |rng: &mut Stream| -> Vec<Vec<f64>> {
            (0..3).map(|_| requests(rng, 1_000, launch)).collect()
        };
        let pooled = move |rng: &mut Stream| {
            let mut pooled = || unit_effect(&side(rng).concat()).ok();
            Some(indirect_effect(&pooled()?, &pooled()?).p <= ALPHA)
        };
        let high = if launch > 0.0 { 1.0 } else { 0.06 };
        let row = "requests pooled (must fail)";
        checks.push(Check::new((row, column.clone()), (low, high), pooled).costing(5));
        let blocks = move |rng: &mut Stream| {
            let (a, b) = (side(rng), side(rng));
            let effects: Vec<f64> = a
                .iter()
                .zip(&b)
                .map(|(a, b)| (mean(a) / mean(b)).ln())
                .collect();
            Some(unit_effect(&effects).ok()?.p <= ALPHA)
        };
        checks.push(Check::new(("blocks", column), (0.0, 0.055), blocks).costing(5));
    }
    Table {
        title: "Negative control: requests as units",
        note: "Three launches of 1,000 requests on each side; nothing differs.",
        checks,
    }
}

/// Orders of launches on a machine that drifts by 0.5 % per launch.
fn orders() -> Table {
    let mut checks = Vec::new();
    for (blocks, low) in [(3, 0.10), (5, 0.75), (8, 0.95)] {
        let column = format!("{blocks} blocks");
        let launches = move |rng: &mut Stream| -> Vec<f64> {
            (0..2 * blocks)
                .map(|at| 0.005 * at as f64 + 0.01 * normal(rng))
                .collect()
        };
        let one_by_one = move |rng: &mut Stream| {
            let values = launches(rng);
            let (a, b) = values.split_at(blocks);
            let effects: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
            Some(unit_effect(&effects).ok()?.p <= ALPHA)
        };
        let row = "all of one side first (must fail)";
        checks.push(Check::new((row, column.clone()), (low, 1.0), one_by_one));
        let random = move |rng: &mut Stream| {
            let values = launches(rng);
            let effect = |pair: &[f64]| {
                if rng.next_u64() >> 63 == 0 {
                    pair[0] - pair[1]
                } else {
                    pair[1] - pair[0]
                }
            };
            let effects: Vec<f64> = values.chunks(2).map(effect).collect();
            Some(unit_effect(&effects).ok()?.p <= ALPHA)
        };
        checks.push(Check::new(
            ("random within blocks", column),
            (0.0, 0.06),
            random,
        ));
    }
    Table {
        title: "Negative control: the order of launches",
        note: "The machine drifts by 0.5 % per launch, launches ± 1 %; nothing differs.",
        checks,
    }
}

/// One family per metric instead of one per table, and pairs within one launch as units.
fn families() -> Table {
    let mut checks = Vec::new();
    for metrics in [3, 10] {
        let column = format!("{metrics} metrics");
        let p = move |rng: &mut Stream| -> Vec<f64> {
            let metric = |_| unit_effect(&effects(rng, 5, 0.03, 0.0)).map_or(1.0, |e| e.p);
            (0..metrics).map(metric).collect()
        };
        let apart = move |rng: &mut Stream| Some(p(rng).iter().any(|p| *p <= ALPHA));
        let row = "each metric in its own family (must fail)";
        checks.push(Check::new((row, column.clone()), (0.12, 1.0), apart));
        let together = move |rng: &mut Stream| Some(holm(&p(rng)).iter().any(|p| *p <= ALPHA));
        checks.push(Check::new(("one family", column), (0.0, ALPHA), together));
    }
    for (launch, bounds) in [(0.0, (0.0, 0.06)), (0.02, (0.15, 1.0))] {
        // One launch per side with eight cells each: what all cells share counts eight times.
        let cells = move |rng: &mut Stream| {
            let shared = launch * (normal(rng) - normal(rng));
            let cell = |_| shared + 0.01 * (normal(rng) - normal(rng));
            let effects: Vec<f64> = (0..8).map(cell).collect();
            Some(unit_effect(&effects).ok()?.p <= ALPHA)
        };
        let column = format!("launches ± {:.0} %", 100.0 * launch);
        let row = "eight cells of one launch as units";
        checks.push(Check::new((row, column), bounds, cells));
    }
    Table {
        title: "Negative control: families and cells",
        note: "Any false *different* per study, with five blocks unless the row says otherwise.",
        checks,
    }
}
