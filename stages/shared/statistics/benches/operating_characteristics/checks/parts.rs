//! Comparisons and the same comparisons cell by cell, under one level: how often a verdict is false, and how often an
//! effect is found.

use rand_xoshiro::Xoshiro256PlusPlus as Stream;
use statistics::{SharedTest, shared_decisions, unit_effect};

use super::draw::{effects, mean};
use super::{Check, Table};

const ALPHA: f64 = 0.05;

/// The spread of a launch, and of a cell around it.
const LAUNCH: f64 = 0.03;
const CELL: f64 = 0.015;

/// A study of several metrics, each compared over several cells together and in each cell.
#[derive(Clone, Copy)]
struct Scenario {
    name: &'static str,
    metrics: usize,
    cells: usize,
    /// The true effect of a metric in a cell, as a share.
    effect: fn(usize, usize) -> f64,
}

const SCENARIOS: [Scenario; 6] = [
    Scenario {
        name: "nothing differs, 3 metrics, 6 cells",
        metrics: 3,
        cells: 6,
        effect: |_, _| 0.0,
    },
    Scenario {
        name: "3 metrics differ by 10 %, 6 cells",
        metrics: 3,
        cells: 6,
        effect: |_, _| 0.1,
    },
    Scenario {
        name: "1 of 3 metrics differs by 20 %, 6 cells",
        metrics: 3,
        cells: 6,
        effect: |metric, _| if metric == 0 { 0.2 } else { 0.0 },
    },
    Scenario {
        name: "1 of 6 metrics differs by 30 %, 3 cells",
        metrics: 6,
        cells: 3,
        effect: |metric, _| if metric == 0 { 0.3 } else { 0.0 },
    },
    Scenario {
        name: "1 of 3 metrics differs by 30 % in 1 of 6 cells",
        metrics: 3,
        cells: 6,
        effect: |metric, cell| if (metric, cell) == (0, 0) { 0.3 } else { 0.0 },
    },
    Scenario {
        name: "1 of 3 metrics, 30 % up in 2 of 6 cells, down in 2",
        metrics: 3,
        cells: 6,
        effect: |metric, cell| match (metric, cell) {
            (0, 0 | 1) => 0.3,
            (0, 2 | 3) => 1.0 / 1.3 - 1.0,
            _ => 0.0,
        },
    },
];

/// The results for the comparisons and their cells: whether each truly differs, and whether the study found it.
struct Said {
    wholes: Vec<(bool, bool)>,
    cells: Vec<(bool, bool)>,
}

pub(super) fn tables() -> Vec<Table> {
    let mut checks = Vec::new();
    for scenario in SCENARIOS {
        for (column, bounds, happens) in COLUMNS {
            let study = move |rng: &mut Stream| happens(&outcomes_of(scenario, rng)?);
            checks.push(Check::new((scenario.name, column), bounds, study));
        }
    }
    vec![Table {
        title: "Comparisons and their cells",
        note: "Five blocks, launches ± 3 %, cells ± 1.5 %, one level for all tests of the study. *Refused* means that there is nothing to find.",
        checks,
    }]
}

/// Whether an event happens in a study; `None` if it cannot.
type Happens = fn(&Said) -> Option<bool>;

const COLUMNS: [(&str, (f64, f64), Happens); 4] = [
    ("any false *different*", (0.0, ALPHA), |said| {
        let mut all = said.wholes.iter().chain(&said.cells);
        Some(all.any(|(different, is_found)| *is_found && !different))
    }),
    ("first comparison found", (0.0, 1.0), |said| {
        said.wholes[0].0.then_some(said.wholes[0].1)
    }),
    ("first cell found", (0.0, 1.0), |said| {
        said.cells[0].0.then_some(said.cells[0].1)
    }),
    ("every cell that differs found", (0.0, 1.0), |said| {
        let mut differ = said.cells.iter().filter(|c| c.0).peekable();
        differ.peek()?;
        Some(differ.all(|c| c.1))
    }),
];

fn outcomes_of(scenario: Scenario, rng: &mut Stream) -> Option<Said> {
    const BLOCKS: usize = 5;
    let (mut tests, mut truth) = (Vec::new(), Vec::new());
    let mut cells = Vec::new();
    for metric in 0..scenario.metrics {
        let launches = effects(rng, BLOCKS, LAUNCH, 0.0);
        let truths: Vec<f64> = (0..scenario.cells)
            .map(|cell| (scenario.effect)(metric, cell).ln_1p())
            .collect();
        let measured: Vec<Vec<f64>> = truths
            .iter()
            .map(|effect| {
                let own = effects(rng, BLOCKS, CELL, *effect);
                own.iter().zip(&launches).map(|(a, b)| a + b).collect()
            })
            .collect();
        let whole: Vec<f64> = (0..BLOCKS)
            .map(|block| mean(&measured.iter().map(|c| c[block]).collect::<Vec<_>>()))
            .collect();
        let test = |values: &[f64], table, part_of: Option<usize>| {
            Some(SharedTest {
                p: unit_effect(values).ok()?.p,
                alpha: ALPHA,
                table,
                part_of,
                makes_up: part_of.is_some(),
            })
        };
        tests.push(test(&whole, 0, None)?);
        truth.push(mean(&truths).abs() > 1e-12);
        for (values, effect) in measured.iter().zip(truths) {
            cells.push((test(values, 1, Some(metric))?, effect != 0.0));
        }
    }
    for (test, different) in cells {
        tests.push(test);
        truth.push(different);
    }
    let (decisions, _) = shared_decisions(&tests, 0);
    let all = truth.into_iter().zip(decisions.iter().map(|d| d.rejected));
    let mut all: Vec<(bool, bool)> = all.collect();
    let cells = all.split_off(scenario.metrics);
    Some(Said { wholes: all, cells })
}
