use std::sync::Arc;

use artifacts::Scalar;
use contract::CellRows;
use contract::synthetic::{self, ClosedLoop};
use pipeline::{CellStatus, InputCell, Json};
use serde_json::json;

use super::*;
use crate::study::{Rows, Server};

/// A study: one configuration, a block for each launch, and several numbers of clients in each.
struct Study {
    inputs: Vec<InputCell>,
    rows: Vec<CellRows>,
}

/// Makes a study with this slowdown of each launch and these numbers of clients.
fn study(slowdowns: &[f64], clients: &[u32]) -> Study {
    let (mut inputs, mut rows) = (Vec::new(), Vec::new());
    for (block, slowdown) in slowdowns.iter().enumerate() {
        for clients in clients {
            let load = ClosedLoop {
                seed: 7,
                clients: *clients,
                ttft_ms: 20.0 * slowdown,
                tpot_ms: 5.0 * slowdown,
                mood: 0.0,
                ..ClosedLoop::default()
            };
            let at = [
                ("clients", Scalar::Int(i64::from(*clients))),
                ("block", Scalar::Int(block as i64 + 1)),
            ];
            inputs.push(synthetic::bare(&at, json!({})));
            rows.push(synthetic::rows_of(load.requests()));
        }
    }
    Study { inputs, rows }
}

impl Study {
    /// Judges the study. `launched` has the axes of the serve stage, if the verify stage needs it.
    fn judged(&self, parameters: &Json, launched: Option<&[&str]>) -> Vec<Judgement> {
        let cells = self.inputs.iter().zip(&self.rows).map(|(input, rows)| {
            let server = launched.map(|axes| {
                let kept = |name: &str| !axes.contains(&name);
                Arc::new(Server {
                    stage: "server".to_owned(),
                    coordinates: input.coordinates.without(kept),
                    descriptor: json!({}),
                    cache_off: None,
                })
            });
            Cell {
                input,
                rows: Rows::Held(Arc::new(rows.clone())),
                server,
                store: None,
            }
        });
        let stage = Stage {
            name: "ladder",
            axes: vec!["clients".to_owned(), "block".to_owned()],
            cells: cells.collect(),
            failure: Default::default(),
            instrument: None,
        };
        let parameters = serde_json::from_value(parameters.clone()).unwrap();
        TypedGate::judge(&OutlyingLaunches, &parameters, &stage)
    }
}

fn failed(judged: &[Judgement]) -> Vec<usize> {
    let failed = judged.iter().filter(|j| j.outcome == Outcome::Fail);
    failed.filter_map(|j| j.cell).collect()
}

const ALIKE: [f64; 5] = [1.0, 1.01, 0.99, 1.02, 0.98];

#[test]
fn a_launch_far_from_four_that_are_alike_is_named_with_its_figures() {
    let judged = study(&[1.0, 1.01, 1.8, 1.02, 0.98], &[1]).judged(&json!({}), None);
    assert_eq!(failed(&judged), [2]);
    let text = &judged[2].observed;
    for part in [
        "output_throughput ",
        " tok/s, -43.",
        "from the median of the 4 other launches of clients=1, which lie between ",
        "times their range beyond the nearest, on the log scale; p 0.0",
        "adjusted over 1 test. ",
        "If you leave this one out, name it in the report",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(judged.iter().all(|j| j.outcome != Outcome::NotJudged));
}

#[test]
fn launches_that_are_alike_pass_and_say_which_launch_would_not() {
    let judged = study(&ALIKE, &[1]).judged(&json!({}), None);
    assert!(failed(&judged).is_empty());
    let text = &judged[0].observed;
    assert!(
        text.contains("A launch at least ")
            && text.contains(" % beyond the others would stand out"),
        "{text}"
    );
}

#[test]
fn a_small_difference_does_not_matter_however_unlikely_it_is() {
    let slow = study(&[1.0, 1.0, 1.04, 1.0, 1.0], &[1]);
    assert!(failed(&slow.judged(&json!({}), None)).is_empty());
    assert_eq!(failed(&slow.judged(&json!({"effect": 0.01}), None)), [2]);
}

#[test]
fn all_cells_of_a_launch_are_one_value_where_the_server_is_known() {
    let slow = study(&[1.0, 1.01, 1.8, 1.02, 0.98], &[1, 4]);
    let judged = slow.judged(&json!({}), Some(&["block"]));
    assert_eq!(failed(&judged), [4, 5]);
    assert_eq!(judged[4].observed, judged[5].observed);
    assert!(judged[4].observed.contains("adjusted over 1 test"));
    // Without the server, nothing says that cells share a launch: each number of clients is a condition.
    let judged = slow.judged(&json!({}), None);
    assert_eq!(failed(&judged), [4, 5]);
    assert!(judged[4].observed.contains("adjusted over 2 tests"));
}

#[test]
fn a_launch_that_lacks_a_cell_is_compared_at_the_coordinates_that_all_have() {
    let mut short = study(&ALIKE, &[1, 4]);
    // Four clients deliver about four times as much: a mean over other cells would be far from the others.
    short.inputs[1].status = CellStatus::Failed;
    let (mut inputs, mut rows) = (Vec::new(), Vec::new());
    for (i, (input, row)) in short.inputs.into_iter().zip(short.rows).enumerate() {
        if i != 1 {
            inputs.push(input);
            rows.push(row);
        }
    }
    let judged = Study { inputs, rows }.judged(&json!({}), Some(&["block"]));
    assert_eq!(judged.len(), 9);
    assert!(judged.iter().all(|j| j.outcome == Outcome::Pass));
}

#[test]
fn a_launch_without_the_figure_is_not_judged_and_the_others_are() {
    let mut study = study(&[1.0, 1.01, 1.0, 1.8, 0.98, 0.99], &[1]);
    for request in &mut study.rows[2].requests {
        request.output_tokens = None;
    }
    let judged = study.judged(&json!({}), None);
    assert_eq!(failed(&judged), [3]);
    assert_eq!(judged[2].outcome, Outcome::NotJudged);
    assert_eq!(judged[2].observed, "this launch has no output_throughput");
}

#[test]
fn two_launches_and_repetitions_of_one_launch_are_not_judged() {
    let two = study(&[1.0, 3.0], &[1]).judged(&json!({}), None);
    assert!(two.iter().all(|j| j.outcome == Outcome::NotJudged));
    assert!(
        two[0]
            .observed
            .starts_with("2 launches of clients=1 with output_throughput are too few: 3")
    );
    // The server was started once for all blocks.
    let one = study(&[1.0, 1.01, 3.0, 1.02, 0.98], &[1]).judged(&json!({}), Some(&[]));
    assert!(one.iter().all(|j| j.outcome == Outcome::NotJudged));
    assert!(
        one[0]
            .observed
            .starts_with("1 launch with output_throughput is too few: 3"),
        "{}",
        one[0].observed
    );
}

#[test]
fn several_figures_share_the_level_and_one_that_fails_is_enough() {
    let mut study = study(&[1.0, 1.01, 0.99, 1.02, 0.98], &[1]);
    for request in &mut study.rows[1].requests {
        request.first_token_ns = request
            .first_token_ns
            .zip(request.sent_ns)
            .map(|(f, s)| s + (f - s) / 4);
    }
    let judged = study.judged(
        &json!({"columns": ["output_throughput", "ttft_ms_p50"]}),
        None,
    );
    assert_eq!(failed(&judged), [1]);
    assert!(judged[1].observed.starts_with("ttft_ms_p50 "));
    assert!(judged[1].observed.contains("adjusted over 2 tests"));
}

#[test]
fn figures_that_do_not_exist_are_refused_with_a_near_name() {
    let problems = |values: Json| {
        let settings = Settings {
            values: values.as_object().cloned().unwrap(),
            route: &[],
            what: "a gate".to_owned(),
        };
        crate::gate::Gate::plan(&OutlyingLaunches, &settings).unwrap_err()
    };
    let refused = problems(json!({"columns": ["output_througput"]}));
    assert_eq!(
        refused[0].message,
        "`output_througput` is not a figure that this gate can judge"
    );
    assert!(format!("{:?}", refused[0]).contains("output_throughput"));
    for wrong in [
        json!({"columns": []}),
        json!({"columns": ["ttft_ms_p50", "ttft_ms_p50"]}),
        json!({"alpha": 1.0}),
        json!({"alpha": 0.0}),
        json!({"effect": -0.1}),
    ] {
        assert_eq!(problems(wrong).len(), 1);
    }
}
