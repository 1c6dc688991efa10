//! How often intervals contain the true value.

use rand_xoshiro::Xoshiro256PlusPlus as Stream;
use statistics::{
    Bootstrap, BootstrapKind, Group, Interval, Sample, effective_size_in_groups,
    effective_sizes_of_quantiles, group_effect, in_groups, launch_quantile, mid_ranks,
    quantile_interval_of, t_interval, unit_effect,
};

use super::draw::{REQUESTS, autoregression, effects, mean, normal, requests};
use super::{Check, Table};

const LEVEL: f64 = 0.95;

/// The range that counts as "about 95 %".
const NOMINAL: (f64, f64) = (0.93, 0.97);

/// Standard normal quantiles of 0.95 and 0.99.
const QUANTILES: [(f64, f64, &str); 2] = [
    (0.95, 1.644_853_626_951_472_2, "p95"),
    (0.99, 2.326_347_874_040_841, "p99"),
];

fn holds(interval: &Interval, truth: f64) -> Option<bool> {
    Some(!interval.excludes(truth))
}

pub(super) fn tables() -> Vec<Table> {
    vec![
        units(),
        quantiles(),
        dependent(),
        waves(),
        bootstraps(),
        clusters(),
    ]
}

/// t intervals of launch-level statistics.
fn units() -> Table {
    let mut checks = Vec::new();
    for launches in [3, 5, 8, 10] {
        for launch in [0.0, 0.02, 0.05] {
            let column = format!("{launches} launches");
            let named = |what: &str| {
                let row = format!("{what}, launches ± {:.0} %", 100.0 * launch);
                (row, column.clone())
            };
            // The mean of a log-normal, over launches too.
            let truth = ((REQUESTS * REQUESTS + launch * launch) / 2.0_f64).exp();
            let of_mean = move |rng: &mut Stream| {
                let launch = |_| mean(&requests(rng, 100, launch));
                let means: Vec<f64> = (0..launches).map(launch).collect();
                holds(&unit_effect(&means).ok()?.interval(LEVEL), truth)
            };
            checks.push(Check::new(named("mean"), NOMINAL, of_mean).costing(2));
            let of_ratio = move |rng: &mut Stream| {
                let mut side = || mean(&requests(rng, 100, launch)).ln();
                let effects: Vec<f64> = (0..launches).map(|_| side() - side()).collect();
                holds(&unit_effect(&effects).ok()?.interval(LEVEL), 0.0)
            };
            checks.push(Check::new(named("ratio of means"), NOMINAL, of_ratio).costing(4));
            let of_median = move |rng: &mut Stream| {
                let launch = |_| Some(quantile(requests(rng, 101, launch), 0.5)?.ln());
                let medians: Option<Vec<f64>> = (0..launches).map(launch).collect();
                holds(&unit_effect(&medians?).ok()?.interval(LEVEL), 0.0)
            };
            checks.push(Check::new(named("median"), NOMINAL, of_median).costing(2));
            let of_tails = move |rng: &mut Stream| {
                let mut side = || Some(quantile(requests(rng, 200, launch), 0.95)?.ln());
                let effects: Option<Vec<f64>> =
                    (0..launches).map(|_| Some(side()? - side()?)).collect();
                holds(&unit_effect(&effects?).ok()?.interval(LEVEL), 0.0)
            };
            checks.push(Check::new(named("ratio of p95"), NOMINAL, of_tails).costing(5));
        }
    }
    Table {
        title: "Coverage of 95 % intervals over launches",
        note: "t over one number per launch: the mean, the log ratio, the log median of its requests.",
        checks,
    }
}

fn quantile(values: Vec<f64>, p: f64) -> Option<f64> {
    Some(Sample::new(values).ok()?.quantile(p))
}

/// Tails of requests: across launches and within one.
fn quantiles() -> Table {
    let mut checks = Vec::new();
    for (p, z, name) in QUANTILES {
        let sizes = if p < 0.99 {
            [72, 200, 1_000]
        } else {
            [368, 1_000, 1_500]
        };
        for size in sizes {
            for launch in [0.0, 0.05, 0.2] {
                let truth = (z * (REQUESTS * REQUESTS + launch * launch).sqrt()).exp();
                let row = format!(
                    "{name}, {size} requests, launches ± {:.0} %",
                    100.0 * launch
                );
                for launches in [3, 5, 8, 10] {
                    let over = move |rng: &mut Stream| {
                        let launch = |_| requests(rng, size, launch);
                        let launches: Vec<Vec<f64>> = (0..launches).map(launch).collect();
                        let quantile = launch_quantile(&launches, p, LEVEL).ok()?;
                        holds(&quantile.interval, truth)
                    };
                    let column = format!("{launches} launches");
                    // The slow launches that make the tail are often not among so few. Most such studies are refused.
                    let bounds = if launch > 0.1 { (0.84, 0.97) } else { NOMINAL };
                    let check = Check::new((row.clone(), column), bounds, over);
                    checks.push(check.costing(size * launches / 2_000 + 1));
                }
            }
            let within = move |rng: &mut Stream| {
                let values = Sample::new(requests(rng, size, 0.0)).ok()?;
                let interval = quantile_interval_of(&values, size, p, LEVEL).ok()?.interval;
                holds(&interval, (z * REQUESTS).exp())
            };
            let row = format!("{name}, {size} requests, launches ± 0 %");
            // Ranks are whole numbers, so an interval from few values covers more.
            let check = Check::new((row, "within one launch"), (0.945, 1.0), within);
            checks.push(check.costing(size / 1_000 + 1));
        }
    }
    for launches in [3, 5, 8, 10] {
        // The effect of the bias of quantiles from few requests.
        let own = move |rng: &mut Stream| {
            let launch = |_| Some(quantile(requests(rng, 72, 0.0), 0.95)?.ln());
            let logs: Option<Vec<f64>> = (0..launches).map(launch).collect();
            let interval = unit_effect(&logs?).ok()?.interval(LEVEL);
            holds(&interval, QUANTILES[0].1 * REQUESTS)
        };
        let row = "p95, 72 requests, t over the launches' own p95";
        let check = Check::new((row, format!("{launches} launches")), (0.0, 1.0), own);
        checks.push(check.costing(2));
    }
    let few = |rng: &mut Stream| {
        let launches: Vec<Vec<f64>> = (0..5).map(|_| requests(rng, 24, 0.02)).collect();
        let quantile = launch_quantile(&launches, 0.95, LEVEL).ok()?;
        holds(&quantile.interval, 0.0)
    };
    let row = "p95, 24 requests, launches ± 2 %";
    checks.push(Check::new((row, "5 launches"), NOMINAL, few).costing(5));
    Table {
        title: "Coverage of 95 % intervals of tail quantiles",
        note: "Over launches, by the t interval of the shares per launch at the estimate; within one launch, by order statistics.",
        checks,
    }
}

/// Values that depend on their neighbours, like latencies behind a queue.
fn dependent() -> Table {
    let mut checks = Vec::new();
    for rho in [0.0, 0.5, 0.9] {
        let column = format!("ρ = {rho}");
        let plain = move |rng: &mut Stream| {
            let series = Sample::new(autoregression(rng, rho, 2_000)).ok()?;
            let interval = t_interval(&series, LEVEL)?;
            Some(interval.low <= 0.0 && interval.high >= 0.0)
        };
        // With dependent values, it must fail.
        let bounds = if rho > 0.0 { (0.0, 0.85) } else { NOMINAL };
        let row = "mean, values taken for independent";
        checks.push(Check::new((row, column.clone()), bounds, plain).costing(5));
        for (effective, row, bounds) in [
            (
                false,
                "p95, ranks of all values",
                if rho > 0.0 { (0.0, 0.93) } else { (0.945, 1.0) },
            ),
            (true, "p95, ranks of the effective size", (0.93, 1.0)),
        ] {
            let tail = move |rng: &mut Stream| {
                let series = autoregression(rng, rho, 2_000);
                let n = if effective {
                    effective_sizes_of_quantiles(&series, [0.95], 0.95)[0]? as usize
                } else {
                    series.len()
                };
                let sample = Sample::new(series).ok()?;
                let interval = quantile_interval_of(&sample, n, 0.95, LEVEL).ok()?.interval;
                holds(&interval, QUANTILES[0].1)
            };
            checks.push(Check::new((row, column.clone()), bounds, tail).costing(5));
        }
    }
    Table {
        title: "Coverage of 95 % intervals of one dependent series",
        note: "2,000 values of a first-order autoregression. Rows that ignore the dependence must fail.",
        checks,
    }
}

/// Quantiles of the requests of a closed loop, whose requests in flight together resemble each other.
fn waves() -> Table {
    let mut checks = Vec::new();
    for (clients, waves) in [
        (4, 10),
        (4, 40),
        (16, 4),
        (16, 10),
        (16, 40),
        (64, 4),
        (64, 40),
    ] {
        for rho in [0.0, 0.3, 0.7, 0.95] {
            let row = format!("{clients} clients, {waves} waves, ρ = {rho}");
            for (quantile, (p, truth)) in [("p50", (0.5, 0.0)), ("p90", (0.9, NORMAL_P90))] {
                // Few waves bound no tail.
                if p > 0.5 && waves < 40 {
                    continue;
                }
                for effective in [false, true] {
                    let how = if effective {
                        "effective number"
                    } else {
                        "all requests"
                    };
                    let bounds = match effective {
                        // Only where the interval exists.
                        true => (0.8, 1.0),
                        false if rho == 0.0 => (0.93, 1.0),
                        false => (0.0, 0.97),
                    };
                    let interval = move |rng: &mut Stream| {
                        let values = in_waves(rng, rho, clients, waves);
                        let n = if effective {
                            let groups = in_groups(&mid_ranks(&values).ranks, clients);
                            effective_size_in_groups(&[groups])?.size as usize
                        } else {
                            values.len()
                        };
                        let sample = Sample::new(values).ok()?;
                        let interval = quantile_interval_of(&sample, n, p, LEVEL).ok()?.interval;
                        holds(&interval, truth)
                    };
                    let column = format!("{quantile}, {how}");
                    checks.push(Check::new((row.clone(), column), bounds, interval).costing(3));
                }
            }
        }
    }
    Table {
        title: "Coverage of 95 % intervals of a quantile in a closed loop",
        note: "Requests in flight together have the correlation ρ. Columns that count all requests must fail.",
        checks,
    }
}

/// The quantile 0.9 of the standard normal distribution.
const NORMAL_P90: f64 = 1.281_551_565_544_600_4;

/// Standard normal values in waves, with this correlation within a wave.
fn in_waves(rng: &mut Stream, rho: f64, clients: usize, waves: usize) -> Vec<f64> {
    let mut values = Vec::with_capacity(clients * waves);
    for _ in 0..waves {
        let shared = rho.sqrt() * normal(rng);
        for _ in 0..clients {
            values.push(shared + (1.0 - rho).sqrt() * normal(rng));
        }
    }
    values
}

/// A bootstrap of units, which does not cover.
fn bootstraps() -> Table {
    let mut checks = Vec::new();
    for launches in [3, 5, 8, 10] {
        let column = format!("{launches} launches");
        let drawn =
            move |rng: &mut Stream| -> Vec<f64> { (0..launches).map(|_| normal(rng)).collect() };
        let plain = move |rng: &mut Stream| {
            let bootstrap = Bootstrap {
                kind: BootstrapKind::Percentile,
                resamples: 1_000,
                level: LEVEL,
                seed: 1,
            };
            let sample = Sample::new(drawn(rng)).ok()?;
            holds(&bootstrap.interval_of_mean(&sample)?, 0.0)
        };
        let row = "percentile over launches (must fail)";
        checks.push(Check::new((row, column), (0.0, 0.92), plain).costing(5));
    }
    Table {
        title: "Coverage of 95 % intervals by resampling",
        note: "Normal launches, 1,000 resamples.",
        checks,
    }
}

/// Why fewer than five clusters are refused: intervals over cluster means hold with fewer, but find
/// almost nothing.
fn clusters() -> Table {
    let mut checks = Vec::new();
    for clusters in [2, 3, 4, 5, 6, 8, 10] {
        let column = format!("{clusters} hosts");
        // One host has three times the spread of the others.
        let study = move |rng: &mut Stream| -> Vec<Vec<f64>> {
            let host = |at: usize| {
                let spread = if at == 0 { 0.06 } else { 0.02 };
                let suits = spread * normal(rng);
                (0..4).map(|_| suits + 0.02 * normal(rng)).collect()
            };
            (0..clusters).map(host).collect()
        };
        let means = move |rng: &mut Stream| {
            let hosts = study(rng);
            let means: Vec<f64> = hosts.iter().map(|h| mean(h)).collect();
            let sample = Sample::new(means).ok()?;
            let interval = t_interval(&sample, LEVEL)?;
            Some(interval.low <= 0.0 && interval.high >= 0.0)
        };
        let row = "t over hosts, one three times as noisy";
        checks.push(Check::new((row, column.clone()), (0.93, 1.0), means));
        let pairs = move |rng: &mut Stream| {
            holds(
                &unit_effect(&study(rng).concat()).ok()?.interval(LEVEL),
                0.0,
            )
        };
        // A negative control: pairs from one host are not independent.
        let row = "t over all pairs (must fail)";
        checks.push(Check::new((row, column.clone()), (0.0, 0.90), pairs));
        let finds = move |rng: &mut Stream| {
            let means = effects(rng, clusters, 0.05 / 2.0_f64.sqrt(), 0.10);
            let interval = t_interval(&Sample::new(means).ok()?, LEVEL)?;
            Some(interval.low > 0.0 || interval.high < 0.0)
        };
        let bounds = (if clusters < 5 { 0.0 } else { 0.8 }, 1.0);
        let row = "finds 10 % where hosts differ by 5 %";
        checks.push(Check::new((row, column.clone()), bounds, finds));
        let library = move |rng: &mut Stream| {
            let hosts: Vec<Group> = study(rng).into_iter().map(|h| (h, Vec::new())).collect();
            holds(&group_effect(&hosts).ok()?.interval(LEVEL), 0.0)
        };
        let row = "the library";
        checks.push(Check::new((row, column), (0.93, 1.0), library));
    }
    Table {
        title: "Hosts: coverage of 95 % intervals and power",
        note: "Four pairs on each host. The effect differs between hosts, and three times as much on one host as on the others.",
        checks,
    }
}
