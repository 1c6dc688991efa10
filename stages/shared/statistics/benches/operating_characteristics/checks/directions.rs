//! Sides of which one came first in every block, and effects whose direction changes with the level.

use rand_xoshiro::Xoshiro256PlusPlus as Stream;
use rand_xoshiro::rand_core::Rng;
use statistics::{UnitEffect, opposite_directions, unit_effect};

use super::draw::normal;
use super::{Check, Table};

const ALPHA: f64 = 0.05;

pub(super) fn tables() -> Vec<Table> {
    vec![first_in_every_block(), directions()]
}

/// Random order within blocks, by whether one side came first in all of them.
fn first_in_every_block() -> Table {
    let mut checks = Vec::new();
    for drift in [0.0, 0.5, 1.0, 2.0] {
        for blocks in [3, 4, 5, 6] {
            for every in [true, false] {
                let study = move |rng: &mut Stream| {
                    let (mut effects, mut first) = (Vec::new(), 0);
                    for block in 0..blocks {
                        let start = 2.0 * drift * f64::from(block);
                        let (early, late) = (start + normal(rng), start + drift + normal(rng));
                        let a_first = rng.next_u64() >> 63 == 0;
                        first += i32::from(a_first);
                        effects.push(if a_first { early - late } else { late - early });
                    }
                    let one_side = first == 0 || first == blocks;
                    (one_side == every).then(|| unit_effect(&effects).is_ok_and(|e| e.p <= ALPHA))
                };
                let order = if every {
                    "one side first in every block"
                } else {
                    "each side first at times"
                };
                let row = format!("drift of {drift} × the noise, {order}");
                let bounds = if every && drift > 0.0 {
                    (0.0, 1.0)
                } else {
                    (0.0, 0.055)
                };
                checks.push(Check::new((row, format!("{blocks} blocks")), bounds, study));
            }
        }
    }
    Table {
        title: "False *different* by the order of launches",
        note: "Random order within blocks; the machine drifts per launch, nothing differs. *Refused*: studies of the other order.",
        checks,
    }
}

/// Returns whether the direction is called changed, in blocks whose launches vary by 3 % and whose cells vary by 1.5 %.
fn changes(rng: &mut Stream, blocks: usize, levels: &[f64]) -> bool {
    let shared: Vec<f64> = (0..blocks)
        .map(|_| 0.03 * (normal(rng) - normal(rng)))
        .collect();
    let mut at = |effect: &f64| -> Option<(UnitEffect, f64)> {
        let cell = |shared: &f64| effect + shared + 0.015 * (normal(rng) - normal(rng));
        let effects: Vec<f64> = shared.iter().map(cell).collect();
        let effect = unit_effect(&effects).ok()?;
        Some((effect, effect.p))
    };
    let tested: Vec<Option<(UnitEffect, f64)>> = levels.iter().map(&mut at).collect();
    opposite_directions(&tested, ALPHA).is_some()
}

/// How often the direction of an effect is called changed.
fn directions() -> Table {
    let mut checks = Vec::new();
    for levels in [2_usize, 3, 6] {
        let half = |at: usize, up: f64, down: f64| if at < levels / 2 { down } else { up };
        let all = |effect: f64| vec![effect; levels];
        let one = |first: f64, others: f64| {
            let mut effects = vec![others; levels];
            effects[0] = first;
            effects
        };
        let halves = |size: f64| (0..levels).map(|at| half(at, size, -size)).collect();
        let null = (0.0, ALPHA);
        let rows: [(&str, Vec<f64>, (f64, f64)); 7] = [
            ("no effect at any level", all(0.0), null),
            ("10 % at every level", all(0.1), null),
            ("30 % at one level, none at the others", one(0.3, 0.0), null),
            ("none at one level, 30 % at the others", one(0.0, 0.3), null),
            (
                "10 % down at half of the levels, up at the others",
                halves(0.1),
                (0.0, 1.0),
            ),
            (
                "20 % down at half of the levels, up at the others",
                halves(0.2),
                (0.0, 1.0),
            ),
            (
                "20 % down at one level, up at the others",
                one(-0.2, 0.2),
                (0.0, 1.0),
            ),
        ];
        for (row, effects, bounds) in rows {
            for blocks in [3, 5, 8] {
                let effects = effects.clone();
                let study = move |rng: &mut Stream| Some(changes(rng, blocks, &effects));
                let row = format!("{row}, {levels} levels");
                checks.push(Check::new((row, format!("{blocks} blocks")), bounds, study));
            }
        }
    }
    Table {
        title: "A direction called changed",
        note: "`direction_changes` of a pooled comparison at 5 %; launches ± 3 %, cells ± 1.5 %.",
        checks,
    }
}
