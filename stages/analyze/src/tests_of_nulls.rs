//! Simulated studies of two equal systems, run through the operators: how often is something falsely called different?
//!
//! Few studies run here; `calibrate-study` and the benches run many. Each bound leaves room for three standard errors
//! of the simulation.

use artifacts::Scalar;
use pipeline::Json;
use serde_json::json;

use crate::awkward::draw::Noise;
use crate::frame::{Frame, Level, Row, Spec};
use crate::published::run;

/// The design of a simulated study.
#[derive(Clone, Copy)]
struct Design {
    systems: &'static [&'static str],
    units: i64,
    /// The cells of one unit and system: levels of a ladder.
    levels: &'static [i64],
    metrics: usize,
    /// The standard deviation of the logarithm of a launch, shared by all its cells.
    launch: f64,
    /// The standard deviation of the logarithm of a cell.
    cell: f64,
    /// The multiple to which values are rounded, which causes ties.
    grid: f64,
    /// The name of the unit axis.
    unit: &'static str,
}

const PLAIN: Design = Design {
    systems: &["a", "b"],
    units: 5,
    levels: &[1, 2, 4],
    metrics: 1,
    launch: 0.02,
    cell: 0.01,
    grid: 0.0,
    unit: "block",
};

fn metric(i: usize) -> String {
    format!("m{i}")
}

/// One study in which every system is the same.
fn study(design: &Design, noise: &mut Noise) -> Frame {
    let mut rows = Vec::new();
    for unit in 1..=design.units {
        // All systems share the block's offset, but not the launch's.
        let block = 0.1 * noise.normal();
        for system in design.systems {
            let launches: Vec<f64> = (0..design.metrics)
                .map(|_| block + design.launch * noise.normal())
                .collect();
            for level in design.levels {
                let value = |launch: &f64| {
                    let value = 100.0 * (launch + design.cell * noise.normal()).exp();
                    let rounded = match design.grid > 0.0 {
                        true => (value / design.grid).round() * design.grid,
                        false => value,
                    };
                    Scalar::Float(rounded)
                };
                let values = launches.iter().map(value).collect();
                let key = vec![
                    Scalar::Text((*system).to_owned()),
                    Scalar::Int(*level),
                    Scalar::Int(unit),
                ];
                rows.push(Row::new(key, values, Vec::new()));
            }
        }
    }
    let frame = Frame {
        level: Level::Cell,
        keys: vec![
            "system".to_owned(),
            "clients".to_owned(),
            design.unit.to_owned(),
        ],
        specs: (0..design.metrics)
            .map(|i| Spec::float(metric(i), "ms", "a value"))
            .collect(),
        rows,
        missing: Vec::new(),
    };
    frame.settle().unwrap()
}

/// The share of studies in which `said` finds something.
fn share(design: &Design, studies: u32, said: impl Fn(Frame) -> bool) -> f64 {
    let mut noise = Noise(164);
    let hits = (0..studies)
        .filter(|_| said(study(design, &mut noise)))
        .count();
    hits as f64 / f64::from(studies)
}

/// Five in a hundred, plus three standard errors.
pub(crate) fn bound(studies: u32) -> f64 {
    0.05 + 3.0 * (0.05 * 0.95 / f64::from(studies)).sqrt()
}

pub(crate) fn any(frame: &Frame, column: &str, word: &str) -> bool {
    let is = |row: usize| {
        frame
            .value(row, column)
            .is_some_and(|v| v.to_string() == word)
    };
    (0..frame.rows.len()).any(is)
}

fn compared(design: &Design, more: &Json) -> Json {
    let columns: Vec<String> = (0..design.metrics).map(metric).collect();
    let mut parameters = json!({"from": "t", "columns": columns,
        "pair": {"axis": "system", "a": "a", "b": "b"}});
    parameters
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    parameters
}

fn differs(design: &Design, more: &Json, studies: u32) -> f64 {
    let parameters = compared(design, more);
    share(design, studies, |frame| {
        any(
            &run("paired-comparison", &parameters, frame),
            "verdict",
            "different",
        )
    })
}

#[test]
fn equal_systems_are_rarely_called_different_whatever_the_launches_do() {
    let designs = [
        (
            Design {
                units: 3,
                launch: 0.0,
                ..PLAIN
            },
            300,
        ),
        (
            Design {
                units: 3,
                metrics: 3,
                launch: 0.05,
                ..PLAIN
            },
            200,
        ),
        (PLAIN, 300),
        (
            Design {
                metrics: 3,
                launch: 0.05,
                ..PLAIN
            },
            200,
        ),
        (
            Design {
                metrics: 10,
                ..PLAIN
            },
            150,
        ),
        (
            Design {
                units: 8,
                metrics: 3,
                launch: 0.0,
                ..PLAIN
            },
            150,
        ),
    ];
    for (design, studies) in designs {
        // Averaged over the levels, and for each level.
        for by in [json!({}), json!({"by": ["clients"]})] {
            let count = differs(&design, &by, studies / 2);
            let (units, metrics) = (design.units, design.metrics);
            assert!(
                count <= bound(studies / 2),
                "{units} units, {metrics} metrics, {by}: {count}"
            );
        }
    }
}

#[test]
fn ties_make_no_difference() {
    let tied = Design {
        grid: 2.0,
        launch: 0.01,
        ..PLAIN
    };
    for test in ["paired-t", "wilcoxon", "sign", "permutation"] {
        let more = json!({"test": test, "scale": "difference"});
        let count = differs(&tied, &more, 200);
        assert!(count <= bound(200), "{test}: {count}");
    }
}

#[test]
fn clusters_are_the_units_and_not_what_is_in_them() {
    for hosts in [3, 5, 10] {
        let clustered = Design {
            units: hosts,
            levels: &[1, 2, 4, 8],
            launch: 0.05,
            unit: "host",
            ..PLAIN
        };
        let count = differs(&clustered, &json!({"unit": ["host"]}), 200);
        assert!(count <= bound(200), "{hosts} hosts: {count}");
        // Pairs taken for units resemble each other, and the hosts then count.
        let mistaken = differs(&clustered, &json!({"unit": ["host", "clients"]}), 200);
        assert!(mistaken <= bound(200), "{hosts} hosts: {mistaken}");
    }
}

#[test]
fn efficiencies_that_share_an_anchor_are_one_value_a_launch() {
    let efficiency = json!({"from": "t", "ladder": "clients", "column": "m0"});
    let comparison = json!({"from": "t", "columns": ["parallel_efficiency"],
        "pair": {"axis": "system", "a": "a", "b": "b"}});
    // The first level is 1 by definition and is included in the average.
    let count = share(&PLAIN, 300, |frame| {
        let table = run("parallel-efficiency", &efficiency, frame);
        any(
            &run("paired-comparison", &comparison, table),
            "verdict",
            "different",
        )
    });
    assert!(count <= bound(300), "{count}");
}

#[test]
fn equal_systems_have_no_crossover_and_no_order() {
    let crossover = json!({"from": "t", "ladder": "clients", "column": "m0", "better": "lower",
        "pair": {"axis": "system", "a": "a", "b": "b"}});
    let mut signs = 0;
    let count = share(&PLAIN, 200, |frame| {
        let table = run("crossover", &crossover, frame);
        !any(&table, "crossover_at", "null")
    });
    assert!(count <= bound(200), "{count}");
    let mut noise = Noise(7);
    for _ in 0..100 {
        let table = run("crossover", &crossover, study(&PLAIN, &mut noise));
        signs += u32::from(!any(&table, "observed_at", "null"));
    }
    // Observed but not shown: the signs of means change in many studies without an effect.
    assert!(signs >= 15, "{signs}");
    let three = Design {
        systems: &["a", "b", "c"],
        ..PLAIN
    };
    let ranking = json!({"from": "t", "among": "system", "column": "m0", "better": "lower"});
    let count = share(&three, 150, |frame| {
        let table = run("ranking", &ranking, frame);
        any(&table, "rank_shown", "2") || any(&table, "rank_shown", "3")
    });
    assert!(count <= bound(150), "{count}");
}

#[test]
fn a_tenth_is_found_in_four_of_five_studies_of_five_blocks() {
    // A noise of 3 % per launch, as a plan would assume.
    let design = Design {
        launch: 0.03,
        cell: 0.005,
        ..PLAIN
    };
    let parameters = compared(&design, &json!({}));
    let mut noise = Noise(3);
    let detected = (0..200).filter(|_| {
        let mut frame = study(&design, &mut noise);
        frame.rows = (0..frame.rows.len())
            .map(|row| {
                let value = frame.number(row, "m0").unwrap();
                let slower = if frame.rows[row].key[0].to_string() == "a" {
                    1.1
                } else {
                    1.0
                };
                let values = vec![Scalar::Float(value * slower)];
                Row::new(frame.rows[row].key.clone(), values, Vec::new())
            })
            .collect();
        any(
            &run("paired-comparison", &parameters, frame),
            "verdict",
            "different",
        )
    });
    let detected = detected.count();
    assert!(detected >= 160, "{detected} of 200");
}

/// Whether any look after one of these numbers of blocks finds something, in one study that continues from block to
/// block.
fn any_look(frame: &Frame, looks: &Json) -> bool {
    (3..=8).any(|blocks| {
        let mut seen = frame.clone();
        seen.rows
            .retain(|row| row.key[2].as_f64().is_some_and(|b| b <= f64::from(blocks)));
        let parameters = compared(&PLAIN, looks);
        any(
            &run("paired-comparison", &parameters, seen),
            "verdict",
            "different",
        )
    })
}

#[test]
fn looking_after_each_block_finds_nothing_more_often_than_allowed_if_the_comparison_knows() {
    let design = Design { units: 8, ..PLAIN };
    let share = |looks: &Json, studies| share(&design, studies, |frame| any_look(&frame, looks));
    let each = share(&json!({"looks": "after-each-block"}), 200);
    assert!(each <= bound(200), "{each}");
    // The plain test: 15 % over these looks.
    let once = share(&json!({}), 200);
    assert!(once > bound(200), "{once}");
}

#[test]
fn a_test_that_does_not_hold_at_every_look_is_refused() {
    let parameters = json!({"from": "t", "columns": ["m0"], "test": "wilcoxon", "looks": "after-each-block",
        "pair": {"axis": "system", "a": "a", "b": "b"}});
    let frame = study(&PLAIN, &mut Noise(1));
    let failure = crate::published::failure("paired-comparison", &parameters, frame);
    assert_eq!(
        failure,
        "the test `wilcoxon` is not valid for a study that looks at its data after each block"
    );
}

#[test]
fn a_design_that_looks_after_each_block_says_so_to_every_test() {
    let tables = json!({
        "cells": {"operator": "cell-summary"},
        "compared": {"operator": "paired-comparison", "from": "cells", "columns": ["output_throughput"],
                     "pair": {"axis": "system", "a": "a", "b": "b"}},
    });
    let parameters = crate::tests::canonical(&tables).unwrap();
    let looked_at = pipeline::StageKind::looked_at_repeatedly(&crate::Analyze, parameters.clone());
    let looked_at = looked_at.unwrap();
    assert!(parameters["tables"][1]["parameters"]["looks"].is_null());
    assert_eq!(
        looked_at["tables"][1]["parameters"]["looks"],
        "after-each-block"
    );
    assert!(looked_at["tables"][0]["parameters"]["looks"].is_null());
}

#[test]
fn tests_that_do_not_hold_at_every_look_are_mistakes_of_the_design() {
    let pair = json!({"axis": "system", "a": "a", "b": "b"});
    let compared = |operator: &str, test: &str| {
        let mut table = json!({"operator": operator, "from": "cells", "columns": ["output_throughput"], "test": test,
            "pair": pair});
        if operator == "unpaired-comparison" {
            table["over"] = json!(["block"]);
        }
        table
    };
    let tables = json!({
        "cells": {"operator": "cell-summary"},
        "fine": compared("paired-comparison", "paired-t"),
        "ranks": compared("paired-comparison", "wilcoxon"),
        "signs": compared("paired-comparison", "sign"),
        "flips": compared("paired-comparison", "permutation"),
        "apart": compared("unpaired-comparison", "welch-t"),
    });
    let parameters = crate::tests::canonical(&tables).unwrap();
    let problems = pipeline::StageKind::looked_at_repeatedly(&crate::Analyze, parameters);
    let messages: Vec<String> = problems
        .unwrap_err()
        .iter()
        .map(|p| format!("{:?}", p.route))
        .collect();
    assert_eq!(messages.len(), 4, "{messages:?}");
    for table in ["ranks", "signs", "flips", "apart"] {
        assert!(
            messages.iter().any(|t| t.contains(table)),
            "{table}: {messages:?}"
        );
    }
}

/// The share of studies of at most twelve blocks in which any look finds something. Each launch resembles the one before of its
/// side.
fn any_look_at_neighbours(rho: f64, studies: u64) -> f64 {
    let parameters = compared(&PLAIN, &json!({"looks": "after-each-block"}));
    let finds = |number: u64| {
        let mut noise = Noise((number + 77).wrapping_mul(0xd134_2543_de82_ef95));
        let mut state = [noise.normal(), noise.normal()];
        let mut rows = Vec::new();
        (1..=12_i64).any(|block| {
            for (side, system) in PLAIN.systems.iter().enumerate() {
                state[side] = rho * state[side] + (1.0 - rho * rho).sqrt() * noise.normal();
                let value = 100.0 * (0.05 * state[side] + 0.01 * noise.normal()).exp();
                let key = vec![
                    Scalar::Text((*system).to_owned()),
                    Scalar::Int(1),
                    Scalar::Int(block),
                ];
                rows.push(Row::new(key, vec![Scalar::Float(value)], Vec::new()));
            }
            let frame = Frame {
                level: Level::Cell,
                keys: ["system", "clients", "block"].map(str::to_owned).to_vec(),
                specs: vec![Spec::float("m0", "ms", "a value")],
                rows: rows.clone(),
                missing: Vec::new(),
            };
            let seen = frame.settle().unwrap();
            block > 2
                && any(
                    &run("paired-comparison", &parameters, seen),
                    "verdict",
                    "different",
                )
        })
    };
    (0..studies).filter(|number| finds(*number)).count() as f64 / studies as f64
}

#[test]
fn a_look_at_launches_that_resemble_each_other_finds_too_much_beyond_a_correlation_of_a_third() {
    let studies = 100;
    for (rho, most) in [(0.0, 0.05), (0.3, 0.07), (0.5, 0.16), (0.8, 0.45)] {
        let share = any_look_at_neighbours(rho, studies);
        let error = (most * (1.0 - most) / studies as f64).sqrt();
        assert!(share <= most + 3.0 * error, "{rho}: {share}");
    }
}
