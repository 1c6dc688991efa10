//! The designs.

use super::Question::{Crossover, Paired, PairedByLevel, Ranking, Unpaired};
use super::{Design, Figure, Launch, Lost, Metric, Question, Stated, Unit};
use crate::operators::units::Scale;

const BOTH: &[Question] = &[Paired, Unpaired];
const ALL: &[Question] = &[Paired, PairedByLevel, Unpaired, Ranking, Crossover];

const PLAIN: Design = Design {
    name: "plain",
    blocks: 5,
    systems: 2,
    levels: 3,
    launch: Launch::Normal(0.03),
    together: 0.1,
    cell: 0.015,
    metric: Metric::Value,
    figure: Figure::Metric,
    lost: Lost::Nothing,
    hosts: &[],
    unit: Unit::Host,
    scale: Scale::Ratio,
    margin: 0.05,
    questions: BOTH,
    stated: Stated {
        different: 0.05,
        at_margin: 0.05,
        coverage: 0.93,
    },
};

/// The rates where one side alone has a long tail in one direction.
const SKEWED: Stated = Stated {
    different: 0.12,
    at_margin: 0.18,
    coverage: 0.87,
};

/// The rates where the launches of one side alone fall into two states.
const STATES: Stated = Stated {
    different: 0.33,
    at_margin: 0.34,
    coverage: 0.66,
};

/// The rates where each launch resembles the one before of its side, and twenty blocks show it in most studies.
const NEIGHBOURS: Stated = Stated {
    different: 0.18,
    at_margin: 0.15,
    coverage: 0.8,
};

/// Returns all designs.
pub fn designs() -> Vec<Design> {
    [
        vec![PLAIN],
        launches(),
        losses(),
        one_sided(),
        metrics(),
        layouts(),
        computed(),
        days(),
    ]
    .concat()
}

/// Returns the plain design under another name and with a change.
fn with(name: &'static str, change: impl Fn(&mut Design)) -> Design {
    let mut design = Design { name, ..PLAIN };
    change(&mut design);
    design
}

/// Returns the designs whose launches differ in ways that a test assumes they do not.
fn launches() -> Vec<Design> {
    vec![
        with("one side lost two launches of five", |d| {
            d.lost = Lost::LaunchesOfFirst(2);
        }),
        with("launches with heavy tails (t₃), 3 blocks", |d| {
            (d.blocks, d.launch) = (3, Launch::HeavyTails(0.03));
        }),
        with("launches with heavy tails (t₃)", |d| {
            d.launch = Launch::HeavyTails(0.03);
            d.questions = ALL;
        }),
        with("two states of the machine, 20 % apart, 3 blocks", |d| {
            (d.blocks, d.launch) = (3, Launch::TwoStates(0.5, 0.2, 0.01));
        }),
        with("two states of the machine, 20 % apart", |d| {
            d.launch = Launch::TwoStates(0.5, 0.2, 0.01);
            d.questions = ALL;
        }),
        with("one launch in ten 50 % slower", |d| {
            d.launch = Launch::TwoStates(0.1, 0.4, 0.02);
        }),
        with("each launch 1 % slower than the one before", |d| {
            d.launch = Launch::Drift(0.01, 0.02);
        }),
        with("each launch like the one before (0.8)", |d| {
            d.launch = Launch::Neighbours(0.8, 0.05);
        }),
        with(
            "each launch like the one before of its side (0.5), 20 blocks",
            |d| {
                (d.blocks, d.launch) = (20, Launch::OwnNeighbours(0.5, 0.05));
                d.stated = NEIGHBOURS;
            },
        ),
        with(
            "each launch like the one before of its side (0.8), 20 blocks",
            |d| {
                (d.blocks, d.launch) = (20, Launch::OwnNeighbours(0.8, 0.05));
                d.stated = NEIGHBOURS;
            },
        ),
        with("two of six levels in each launch, 6 blocks", |d| {
            (d.blocks, d.levels, d.cell) = (6, 6, 0.03);
            (d.together, d.lost) = (0.0, Lost::Turns(2));
        }),
        with("one side five times as noisy", |d| {
            d.launch = Launch::Unlike(0.1, 0.02);
            d.questions = ALL;
        }),
        with(
            "one side five times as noisy, lost two launches of eight",
            |d| {
                (d.blocks, d.launch) = (8, Launch::Unlike(0.1, 0.02));
                d.lost = Lost::LaunchesOfFirst(2);
            },
        ),
        with(
            "launches with a long tail to one side, lost two of eight",
            |d| {
                (d.blocks, d.launch) = (8, Launch::Skewed(0.1));
                d.lost = Lost::LaunchesOfFirst(2);
            },
        ),
    ]
}

/// Returns the designs that lost cells because of their values.
fn losses() -> Vec<Design> {
    vec![
        with("slow cells failed", |d| {
            d.lost = Lost::Slow(0.08);
            d.questions = ALL;
        }),
        with("slow cells of one side failed", |d| {
            d.lost = Lost::SlowOfFirst(0.05);
        }),
        with("one side lost the slower half of its cells", |d| {
            d.lost = Lost::SlowOfFirst(0.0);
            d.questions = ALL;
        }),
        // A test of means does not keep its level here: the launches of one side alone are strongly skewed.
        with("slow cells of one side have no value", |d| {
            (d.lost, d.together) = (Lost::NullOfFirst(0.02), 0.0);
            d.stated.coverage = 0.9;
        }),
        with("slow cells of one side have no row and no reason", |d| {
            (d.lost, d.together) = (Lost::AbsentOfFirst(0.02), 0.0);
            d.questions = ALL;
            // A launch without any row may not have been planned.
            (d.stated.different, d.stated.at_margin, d.stated.coverage) = (0.06, 0.09, 0.9);
        }),
    ]
}

/// Returns the designs in which the launches of one side alone are skewed or fall into two states.
fn one_sided() -> Vec<Design> {
    vec![
        with("a long tail on one side alone, 3 blocks", |d| {
            (d.blocks, d.launch) = (3, Launch::FirstSkewed(0.05, 0.01));
            d.stated = SKEWED;
        }),
        with("a long tail on one side alone", |d| {
            d.launch = Launch::FirstSkewed(0.05, 0.01);
            d.stated = SKEWED;
        }),
        with("a long tail on one side alone, 10 blocks", |d| {
            (d.blocks, d.launch) = (10, Launch::FirstSkewed(0.05, 0.01));
            d.stated = SKEWED;
        }),
        with("one launch in five of one side alone 30 % slower", |d| {
            d.launch = Launch::FirstInStates(0.2, 0.3, 0.01);
            d.stated = STATES;
        }),
        with(
            "one launch in five of one side alone 30 % slower, 10 blocks",
            |d| {
                (d.blocks, d.launch) = (10, Launch::FirstInStates(0.2, 0.3, 0.01));
                d.stated = STATES;
            },
        ),
    ]
}

/// Returns the designs with an awkward metric, or with few values of it.
fn metrics() -> Vec<Design> {
    vec![
        with("the highest level of one side missing in two blocks", |d| {
            d.lost = Lost::TopOfFirst(2);
        }),
        with("counts of errors, mostly 0", |d| {
            (d.metric, d.scale, d.margin) = (Metric::Count(0.3), Scale::Difference, 1.0);
        }),
        with("counts of errors, mostly 0, 10 blocks", |d| {
            (d.metric, d.scale, d.margin) = (Metric::Count(0.3), Scale::Difference, 1.0);
            d.blocks = 10;
        }),
        with("goodput of 40 requests, near 1", |d| {
            (d.metric, d.scale) = (Metric::Share(40, 0.97), Scale::Difference);
            d.launch = Launch::Normal(0.01);
            // Shares near 1 are skewed.
            d.stated.at_margin = 0.065;
        }),
        with("goodput of 40 requests, near 1, as a ratio", |d| {
            (d.metric, d.margin) = (Metric::Share(40, 0.97), 0.02);
            d.launch = Launch::Normal(0.01);
        }),
        with("rounded to a tenth of the value, 3 blocks", |d| {
            (d.blocks, d.metric) = (3, Metric::Rounded(10.0));
        }),
        with("rounded to a tenth of the value", |d| {
            d.metric = Metric::Rounded(10.0);
            d.questions = ALL;
        }),
        with("one side printed in tenths of the value, 3 blocks", |d| {
            (d.blocks, d.levels, d.metric) = (3, 1, Metric::Printed);
            (d.launch, d.together, d.cell) = (Launch::Normal(0.01), 0.0, 0.005);
        }),
        with("one side printed in tenths of the value, 8 blocks", |d| {
            (d.blocks, d.levels, d.metric) = (8, 1, Metric::Printed);
            (d.launch, d.together, d.cell) = (Launch::Normal(0.01), 0.0, 0.005);
        }),
        with("p90 of 40 requests", |d| {
            (d.metric, d.margin) = (Metric::Quantile(0.9, [40, 40]), 0.1);
        }),
        with("p90 of 40 requests against 400", |d| {
            (d.metric, d.margin) = (Metric::Quantile(0.9, [40, 400]), 0.1);
        }),
        with("p99 of 400 requests against 4,000", |d| {
            (d.metric, d.margin) = (Metric::Quantile(0.99, [400, 4_000]), 0.1);
            d.levels = 1;
        }),
    ]
}

/// Returns the designs with an awkward layout: unequal hosts, many levels, several systems.
fn layouts() -> Vec<Design> {
    vec![
        with("hosts of 1, 1, 2, 4 and 16 blocks", |d| {
            d.hosts = &[1, 1, 2, 4, 16];
            (d.blocks, d.levels) = (24, 1);
        }),
        with("twelve levels", |d| {
            (d.levels, d.cell) = (12, 0.05);
            d.questions = &[Paired, PairedByLevel, Crossover];
        }),
        with("three systems, heavy tails", |d| {
            (d.systems, d.launch) = (3, Launch::HeavyTails(0.03));
            d.questions = &[Ranking];
        }),
        with("six systems, one five times as noisy", |d| {
            (d.systems, d.launch) = (6, Launch::Unlike(0.1, 0.02));
            d.questions = &[Ranking];
        }),
        with("six systems, one lost two launches of five", |d| {
            (d.systems, d.lost) = (6, Lost::LaunchesOfFirst(2));
            d.questions = &[Ranking];
        }),
    ]
}

/// Returns the designs whose figures are computed from a metric, which one side may print in few digits.
fn computed() -> Vec<Design> {
    const OF_LAUNCHES: &[Question] = &[Paired, Unpaired, Ranking];
    let coarse = |name, figure, change: &dyn Fn(&mut Design)| {
        with(name, |d| {
            (d.figure, d.metric, d.questions) = (figure, Metric::PrintedGrowing, ALL);
            (d.launch, d.together, d.cell) = (Launch::Normal(0.01), 0.0, 0.005);
            change(d);
        })
    };
    vec![
        with("cost of a million tokens", |d| {
            (d.figure, d.questions) = (Figure::Cost, ALL);
        }),
        with(
            "cost of a million tokens, slow cells of one side have no row",
            |d| {
                (d.figure, d.blocks) = (Figure::Cost, 8);
                (d.launch, d.lost) = (Launch::Normal(0.02), Lost::AbsentOfFirst(0.06));
                d.stated.at_margin = 0.09;
            },
        ),
        coarse("one side in whole numbers", Figure::Metric, &|_| {}),
        coarse("cost, one side in whole numbers", Figure::Cost, &|_| {}),
        coarse(
            "efficiency, one side in whole numbers",
            Figure::Efficiency,
            &|d| {
                d.questions = &[PairedByLevel, Ranking, Crossover];
            },
        ),
        coarse(
            "mean of the levels, one side in whole numbers",
            Figure::Mean,
            &|d| {
                d.questions = OF_LAUNCHES;
            },
        ),
        coarse("one side with three digits", Figure::Metric, &|d| {
            (d.metric, d.launch, d.cell) = (Metric::Digits(3), Launch::Normal(0.001), 0.0005);
        }),
        coarse("cost, one side with three digits", Figure::Cost, &|d| {
            (d.metric, d.launch, d.cell) = (Metric::Digits(3), Launch::Normal(0.001), 0.0005);
        }),
        coarse("one side with two digits", Figure::Metric, &|d| {
            d.metric = Metric::Digits(2);
        }),
        coarse(
            "cost, one side in whole numbers, its slow cells have no row",
            Figure::Cost,
            &|d| {
                (d.blocks, d.lost) = (8, Lost::AbsentOfFirst(0.01));
            },
        ),
    ]
}

/// Returns the designs with launches on a few hosts or days, of which each suits the sides by ± 5 %.
fn days() -> Vec<Design> {
    let on = |name, hosts: &'static [usize], unit, different| {
        with(name, |d| {
            (d.hosts, d.unit, d.blocks) = (hosts, unit, hosts.iter().sum());
            (d.launch, d.levels, d.questions) = (Launch::Normal(0.02), 1, &[Paired]);
            d.stated = Stated {
                different,
                at_margin: different,
                coverage: 0.5,
            };
        })
    };
    vec![
        on(
            "launches on 3 days, days not in the table",
            &[4; 3],
            Unit::Block,
            0.5,
        ),
        on("launches on 3 days", &[4; 3], Unit::BlockOfHost, 0.12),
        on(
            "launches on 4 days, days not in the table",
            &[4; 4],
            Unit::Block,
            0.5,
        ),
        on("launches on 4 days", &[4; 4], Unit::BlockOfHost, 0.08),
    ]
}
