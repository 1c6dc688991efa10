//! Studies without any difference.

use rand_xoshiro::Xoshiro256PlusPlus as Stream;
use statistics::{
    ANYTIME_SPREAD, Group, anytime_interval, friedman, group_effect, holm, log_ratios,
    rounding_of_ratios, sign_flip_test, unit_effect, unit_effect_rounded,
};

use super::draw::{effects, normal, uniform};
use super::{Check, Table};

const ALPHA: f64 = 0.05;

/// The spread of a cell around its launch.
const CELL: f64 = 0.01;

/// The kind of units.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Blocks with one launch of each side.
    Plain,
    /// The same, with values rounded to whole numbers near 100.
    Ties,
    /// Efficiencies at three sizes that share one launch at size 1 in each block.
    Anchors,
    /// As many hosts with four blocks each. The hosts differ in which side suits them.
    Clusters,
}

#[derive(Clone, Copy)]
struct Design {
    kind: Kind,
    units: usize,
    metrics: usize,
    launch: f64,
}

pub(super) fn tables() -> Vec<Table> {
    let mut tables = Vec::new();
    for (kind, title) in [
        (Kind::Plain, "False *different* per study: blocks"),
        (Kind::Ties, "False *different* per study: values with ties"),
        (
            Kind::Anchors,
            "False *different* per study: three sizes against a shared anchor",
        ),
        (
            Kind::Clusters,
            "False *different* per study: hosts of four blocks each",
        ),
    ] {
        let mut checks = Vec::new();
        for units in [3, 5, 8] {
            for metrics in [1, 3, 10] {
                for launch in [0.0, 0.02, 0.05] {
                    let design = Design {
                        kind,
                        units,
                        metrics,
                        launch,
                    };
                    let what = if matches!(kind, Kind::Clusters) {
                        "hosts"
                    } else {
                        "blocks"
                    };
                    let many = if metrics == 1 { "" } else { "s" };
                    let row = format!("{units} {what}, {metrics} metric{many}");
                    let column = format!("launches ± {:.0} %", 100.0 * launch);
                    let study = move |rng: &mut Stream| any_different(design, rng);
                    checks.push(Check::new((row, column), (0.0, ALPHA), study));
                }
            }
        }
        let note = "Any metric called *different* at 5 %, one family per study, Holm.";
        tables.push(Table {
            title,
            note,
            checks,
        });
    }
    tables.push(others());
    tables.push(looks());
    tables.push(until());
    tables.push(until_awkward());
    tables
}

/// Returns whether a study without any difference reports one, or `None` if nothing could be judged.
fn any_different(design: Design, rng: &mut Stream) -> Option<bool> {
    let launch = |rng: &mut Stream| {
        let common = normal(rng);
        move |rng: &mut Stream| design.launch * (common + normal(rng)) / 2.0_f64.sqrt()
    };
    let mut p = Vec::new();
    match design.kind {
        Kind::Plain | Kind::Ties => {
            let mut family = vec![Vec::new(); design.metrics];
            for _ in 0..design.units {
                // Metrics of one launch move together, and each also varies a little on its own.
                let (a, b) = (launch(rng), launch(rng));
                for metric in &mut family {
                    let mut side = |launch: &dyn Fn(&mut Stream) -> f64| {
                        let value = 100.0 * (launch(rng) + CELL * normal(rng)).exp();
                        match design.kind {
                            Kind::Ties => value.round(),
                            _ => value,
                        }
                    };
                    metric.push((side(&a), side(&b)));
                }
            }
            let judged = |units: &Vec<(f64, f64)>| {
                let effects = log_ratios(units).ok()?;
                let effect = unit_effect_rounded(&effects, rounding_of_ratios(units));
                effect.ok().map(|effect| effect.p)
            };
            p.extend(family.iter().map(judged));
        }
        Kind::Anchors => {
            let mut family = vec![Vec::new(); 3 * design.metrics];
            for _ in 0..design.units {
                let sizes = [launch(rng), launch(rng), launch(rng), launch(rng)];
                for metric in 0..design.metrics {
                    let mut cell = |size: usize| sizes[size](rng) + CELL * normal(rng);
                    let anchor = cell(0);
                    for size in 1..4 {
                        family[3 * metric + size - 1].push(cell(size) - anchor);
                    }
                }
            }
            p.extend(family.iter().map(|d| unit_effect(d).ok().map(|e| e.p)));
        }
        Kind::Clusters => {
            for _ in 0..design.metrics {
                let host = |rng: &mut Stream| {
                    let suits = design.launch * normal(rng);
                    (effects(rng, 4, CELL, suits), Vec::new())
                };
                let hosts: Vec<Group> = (0..design.units).map(|_| host(rng)).collect();
                p.push(group_effect(&hosts).ok().map(|e| e.p));
            }
        }
    }
    let made: Vec<f64> = p.into_iter().flatten().collect();
    (!made.is_empty()).then(|| holm(&made).iter().any(|p| *p <= ALPHA))
}

/// Procedures other than the t interval.
fn others() -> Table {
    let mut checks = Vec::new();
    for blocks in [3, 5, 6, 8] {
        let column = format!("{blocks} blocks");
        let least = 0.5_f64.powi(blocks as i32 - 1);
        // Discrete p values: the rate may be below 5 % by up to one step of p.
        let high = if least > ALPHA { 0.0 } else { ALPHA };
        let flips = move |rng: &mut Stream| {
            let effects = effects(rng, blocks, 0.05, 0.0);
            sign_flip_test(&effects, 0, 0).map(|test| test.p <= ALPHA)
        };
        checks.push(Check::new(
            ("sign flips", column.clone()),
            (0.0, high),
            flips,
        ));
        let systems = move |rng: &mut Stream| {
            let block = |_| {
                let level = normal(rng);
                (0..3).map(|_| level + normal(rng)).collect::<Vec<f64>>()
            };
            let test = friedman(&(0..blocks).map(block).collect::<Vec<_>>());
            test.ok().map(|test| test.p <= ALPHA)
        };
        let check = Check::new(
            ("Friedman, three systems", column.clone()),
            (0.0, ALPHA),
            systems,
        );
        checks.push(check.costing(2));
        let tails = move |rng: &mut Stream| {
            // Student's t with 3 degrees of freedom: heavy symmetric tails.
            let heavy = |_| {
                let squares: f64 = (0..3).map(|_| normal(rng).powi(2)).sum();
                normal(rng) / (squares / 3.0).sqrt()
            };
            let effects: Vec<f64> = (0..blocks).map(heavy).collect();
            unit_effect(&effects).ok().map(|e| e.p <= ALPHA)
        };
        checks.push(Check::new(
            ("t, heavy tails (t₃)", column),
            (0.0, 0.06),
            tails,
        ));
    }
    Table {
        title: "False *different* of the other procedures",
        note: "Sign flips cannot reject at 5 % with fewer than six blocks.",
        checks,
    }
}

/// Repeated looks after more blocks.
fn looks() -> Table {
    let mut checks = Vec::new();
    let each = |last: usize| {
        move |rng: &mut Stream, finds: &dyn Fn(&[f64]) -> bool| {
            let effects = effects(rng, last, 0.03, 0.0);
            Some((3..=last).any(|n| finds(&effects[..n])))
        }
    };
    for last in [8, 12, 20] {
        let column = format!("a look after each block from 3 to {last}");
        let anytime = move |rng: &mut Stream| {
            each(last)(rng, &|effects: &[f64]| {
                let interval = unit_effect(effects)
                    .and_then(|effect| anytime_interval(&effect, ANYTIME_SPREAD, ALPHA));
                interval.is_ok_and(|interval| interval.excludes(0.0))
            })
        };
        checks.push(Check::new(
            ("anytime interval", column.clone()),
            (0.0, ALPHA),
            anytime,
        ));
        let plain = move |rng: &mut Stream| {
            each(last)(rng, &|effects: &[f64]| {
                unit_effect(effects).is_ok_and(|effect| effect.p <= ALPHA)
            })
        };
        // A negative control: it must fail.
        checks.push(Check::new(
            ("plain t (must fail)", column),
            (0.10, 1.0),
            plain,
        ));
    }
    Table {
        title: "False *different* when looking repeatedly",
        note: "Studies without an effect in which any look finds something.",
        checks,
    }
}

/// Launches that a rule meets which ends a study when both sides are known. The means of both sides' logarithms are equal.
#[derive(Clone, Copy)]
enum Awkward {
    Plain,
    HeavyTails,
    /// An exponential tail of 10 % on both sides, or on the first alone.
    Skewed {
        both: bool,
    },
    /// One launch in ten is 50 % slower.
    Rare {
        both: bool,
    },
    /// Each launch is 1 % slower than the one before; the sides alternate in random order.
    Drift,
}

impl Awkward {
    /// Returns the logarithms of the two launches of a block, from 1.
    fn launches(self, rng: &mut Stream, block: usize) -> (f64, f64) {
        let common = 0.01 * normal(rng);
        let tail = |rng: &mut Stream| 0.1 * (-uniform(rng).ln() - 1.0);
        let rare = |rng: &mut Stream| {
            let slower = 1.5_f64.ln();
            (if uniform(rng) < 0.1 { slower } else { 0.0 }) - 0.1 * slower
        };
        let mut side = |first: bool| {
            let usual = 0.03 * normal(rng);
            match self {
                Self::Plain | Self::Drift => usual,
                Self::HeavyTails => {
                    let square: f64 = (0..3).map(|_| normal(rng).powi(2)).sum();
                    usual / (square / 3.0).sqrt()
                }
                Self::Skewed { both } if first || both => usual / 3.0 + tail(rng),
                Self::Rare { both } if first || both => usual / 3.0 + rare(rng),
                Self::Skewed { .. } | Self::Rare { .. } => usual / 3.0,
            }
        };
        let (mut a, mut b) = (common + side(true), common + side(false));
        if matches!(self, Self::Drift) {
            let later = 0.01 * f64::from(u8::from(uniform(rng) < 0.5));
            let start = 0.02 * block as f64;
            (a, b) = (a + start + later, b + start + 0.01 - later);
        }
        (a, b)
    }
}

/// Studies of awkward launches that end by the same rule.
fn until_awkward() -> Table {
    let kinds = [
        (Awkward::HeavyTails, "heavy tails (t₃)", 0.05),
        (
            Awkward::Skewed { both: true },
            "an exponential tail of 10 %",
            0.05,
        ),
        (
            Awkward::Skewed { both: false },
            "the same on one side alone",
            0.2,
        ),
        (
            Awkward::Rare { both: true },
            "one launch in ten 50 % slower",
            0.05,
        ),
        (
            Awkward::Rare { both: false },
            "the same on one side alone, rare",
            1.0,
        ),
        (
            Awkward::Drift,
            "each launch 1 % slower than the one before",
            0.05,
        ),
    ];
    let mut checks = Vec::new();
    for (kind, name, most) in kinds {
        for width in [0.03, 0.08, 0.15] {
            let column = |what: &str| format!("± {:.0} %: {what}", 100.0 * width);
            let anytime = move |rng: &mut Stream| {
                let (a, b) = stopped(rng, kind, width, 12);
                let effects: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a - b).collect();
                let effect = unit_effect(&effects).ok()?;
                Some(
                    anytime_interval(&effect, ANYTIME_SPREAD, ALPHA)
                        .ok()?
                        .excludes(0.0),
                )
            };
            checks.push(Check::new((name, column("false")), (0.0, most), anytime));
            let mean = move |rng: &mut Stream| {
                let (a, _) = stopped(rng, kind, width, 12);
                Some(!unit_effect(&a).ok()?.interval(0.95).excludes(0.0))
            };
            if !matches!(kind, Awkward::Drift) {
                checks.push(Check::new((name, column("mean covered")), (0.0, 1.0), mean));
            }
        }
    }
    Table {
        title: "Blocks until a figure is known: awkward launches",
        note: "The same rule. *False* is a false *different* by the anytime interval; *mean covered* is the coverage of the plain \
               interval of the first side's mean.",
        checks,
    }
}

/// Returns the logarithms of both sides in each block up to the block after which the rule stops the study.
fn stopped(rng: &mut Stream, launches: Awkward, width: f64, most: usize) -> (Vec<f64>, Vec<f64>) {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    let covers = |side: &[f64]| {
        let interval =
            unit_effect(side).and_then(|effect| anytime_interval(&effect, ANYTIME_SPREAD, ALPHA));
        interval.is_ok_and(|i| ((i.high - i.low) / 2.0).exp_m1() <= width)
    };
    for block in 1..=most {
        let (of_a, of_b) = launches.launches(rng, block);
        a.push(of_a);
        b.push(of_b);
        if block >= 3 && covers(&a) && covers(&b) {
            break;
        }
    }
    (a, b)
}

/// Studies that add blocks until each of the two launches is known precisely enough.
fn until() -> Table {
    let mut checks = Vec::new();
    for width in [0.03, 0.05, 0.08, 0.15] {
        let column = format!("± {:.0} %", 100.0 * width);
        let effect = move |rng: &mut Stream| {
            let (a, b) = stopped(rng, Awkward::Plain, width, 12);
            let effects: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a - b).collect();
            unit_effect(&effects).ok()
        };
        let covers = |interval: Option<statistics::Interval>| interval.map(|i| !i.excludes(0.0));
        let anytime = move |rng: &mut Stream| {
            let interval = anytime_interval(&effect(rng)?, ANYTIME_SPREAD, ALPHA).ok();
            covers(interval).map(|covered| !covered)
        };
        let row = "false *different*, anytime";
        checks.push(Check::new((row, column.clone()), (0.0, ALPHA), anytime));
        let plain = move |rng: &mut Stream| Some(effect(rng)?.p <= ALPHA);
        let row = "false *different*, plain t (not used)";
        checks.push(Check::new((row, column.clone()), (0.0, 1.0), plain));
        let ratio = move |rng: &mut Stream| {
            covers(anytime_interval(&effect(rng)?, ANYTIME_SPREAD, ALPHA).ok())
        };
        let row = "coverage of the ratio, anytime";
        checks.push(Check::new((row, column.clone()), (0.95, 1.0), ratio));
        let mean = move |rng: &mut Stream| {
            let (a, _) = stopped(rng, Awkward::Plain, width, 12);
            covers(Some(unit_effect(&a).ok()?.interval(0.95)))
        };
        let row = "coverage of one side's mean, plain t";
        checks.push(Check::new((row, column.clone()), (0.92, 1.0), mean));
        let before =
            move |rng: &mut Stream| Some(stopped(rng, Awkward::Plain, width, 12).0.len() < 12);
        let row = "ended before the last block";
        checks.push(Check::new((row, column), (0.0, 1.0), before));
    }
    Table {
        title: "Blocks until a figure is known",
        note: "3 to 12 blocks, until the anytime interval of each of two equal launches has the width in the heading; launches ± 3 %.",
        checks,
    }
}
