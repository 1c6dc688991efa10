//! Rows of files that other tools wrote: a gate that cannot check anything does not pass.

use artifacts::Column;
use contract::{CellRows, Request, RequestStatus, synthetic};
use pipeline::Json;
use serde_json::json;

use super::clock::Clock;
use super::in_flight::InFlight;
use super::physical_roofs::PhysicalRoofs;
use super::possible_scaling::PossibleScaling;
use super::repeats::Repeats;
use super::row_status::RowStatus;
use super::same_prompts::SamePrompts;
use super::stalls::Stalls;
use crate::finding::{Judgement, Outcome};
use crate::gate::TypedGate;
use crate::one_cell::{self, one_after_another};

/// The row about a cell of a file whose rows count from this moment.
fn imported(mut rows: CellRows, clock: &str) -> CellRows {
    rows.cell = synthetic::about(vec![
        Column::text("source", [Some("imported")]),
        Column::text("clock", [Some(clock)]),
    ]);
    rows
}

/// Twenty requests of two clients, one after another, in a file without start times.
fn without_starts() -> CellRows {
    let mut rows = one_after_another((0..20).map(|i| 100_000_000 + i * 1_000_000));
    for r in &mut rows.requests {
        let sent = r.sent_ns.unwrap();
        r.client_id = Some(r.request_id % 2);
        (r.scheduled_ns, r.headers_ns) = (None, None);
        for time in [
            &mut r.sent_ns,
            &mut r.first_token_ns,
            &mut r.last_token_ns,
            &mut r.done_ns,
        ] {
            *time = time.map(|at| at - sent);
        }
    }
    imported(rows, "request")
}

fn judged<G: TypedGate>(gate: &G, parameters: Json, rows: CellRows) -> Judgement {
    one_cell::judge(gate, parameters, json!({}), rows)
}

fn outcome<G: TypedGate>(gate: &G, parameters: Json, rows: CellRows) -> Outcome {
    judged(gate, parameters, rows).outcome
}

/// Roofs without facts about memory.
fn roofs() -> Json {
    json!({
        "hardware": {"title": "a machine", "peak-tflops": {"bfloat16": 100.0}},
        "model": {"parameters": 1_000_000_000},
    })
}

#[test]
fn rows_that_count_from_their_own_sends_show_nothing_about_time() {
    use Outcome::NotJudged;
    let rows = without_starts;
    let clock = judged(&Clock, json!({}), rows());
    assert_eq!(clock.outcome, NotJudged, "{clock:?}");
    assert!(clock.observed.contains("no start times"));
    assert_eq!(outcome(&Stalls, json!({}), rows()), NotJudged);
    assert_eq!(outcome(&InFlight, json!({}), rows()), NotJudged);
    let slots = json!({"slots": 2});
    assert_eq!(outcome(&PossibleScaling, slots, rows()), NotJudged);
    // Of the roofs, only those of single requests remain.
    let judgement = judged(&PhysicalRoofs, roofs(), rows());
    assert_eq!(judgement.outcome, Outcome::Pass, "{judgement:?}");
    assert!(judgement.observed.starts_with("prefill"), "{judgement:?}");
    assert_eq!(rows().in_flight(), 20);
    assert_eq!(crate::pace::paces(&rows()), [] as [f64; 0]);
}

#[test]
fn rows_without_chunks_clients_and_time_of_day_have_no_order() {
    let of_clients = |client: Option<i64>| {
        let mut rows = imported(one_after_another([100_000_000; 8]), "cell");
        for r in &mut rows.requests {
            r.client_id = client;
        }
        outcome(&Clock, json!({}), rows)
    };
    assert_eq!(of_clients(Some(0)), Outcome::Pass);
    assert_eq!(of_clients(None), Outcome::NotJudged);
}

#[test]
fn roofs_of_rows_without_token_counts_are_not_judged() {
    let mut rows = one_after_another([100_000_000; 8]);
    for r in &mut rows.requests {
        (r.prompt_tokens, r.output_tokens, r.cached_prompt_tokens) = (None, None, None);
    }
    let outcome = outcome(&PhysicalRoofs, roofs(), rows);
    assert_eq!(outcome, Outcome::NotJudged);
}

#[test]
fn a_share_of_failures_may_be_as_large_as_the_tolerance() {
    let judged = |failed: usize, total: usize| {
        let mut rows = one_after_another(std::iter::repeat_n(100_000_000, total));
        for r in &mut rows.requests[..failed] {
            r.status = RequestStatus::HttpError;
        }
        outcome(&RowStatus, json!({"tolerance": 0.29}), rows)
    };
    assert_eq!(judged(29, 100), Outcome::Pass);
    assert_eq!(judged(30, 100), Outcome::Fail);
    assert_eq!(judged(0, 0), Outcome::NotJudged);
}

#[test]
fn repetitions_without_latencies_do_not_agree() {
    let with_latencies = |number: usize| {
        let cells = (0..3).map(|i| {
            let mut rows = one_after_another([100_000_000; 8]);
            for r in rows.requests.iter_mut().filter(|_| i >= number) {
                (r.first_token_ns, r.last_token_ns) = (None, None);
            }
            rows
        });
        let bound = json!({"axis": "at", "within": 0.1});
        one_cell::judge_cells(&Repeats, bound, cells.collect())[0].outcome
    };
    assert_eq!(with_latencies(2), Outcome::Pass);
    assert_eq!(with_latencies(1), Outcome::NotJudged);
    assert_eq!(with_latencies(0), Outcome::NotJudged);
}

/// Judges two cells whose prompts have these digests and these token counts by `same-prompts`.
fn same_prompts(sides: [(Option<&str>, [i64; 2]); 2]) -> Vec<Outcome> {
    let cell = |(digest, tokens): (Option<&str>, [i64; 2])| {
        let request = |(tokens, id): (i64, i64)| Request {
            prompt_digest: digest.map(|digest| format!("{digest}{id}")),
            prompt_tokens: Some(tokens),
            ..synthetic::request(id)
        };
        synthetic::rows_of(tokens.into_iter().zip(0..).map(request).collect())
    };
    let cells = sides.map(cell).into_iter().collect();
    let judged = one_cell::judge_cells(&SamePrompts, json!({"across": "at"}), cells);
    judged.into_iter().map(|j| j.outcome).collect()
}

#[test]
fn prompts_that_nobody_knows_are_not_the_same() {
    use Outcome::{Fail, NotJudged, Pass};
    assert_eq!(
        same_prompts([(Some("a"), [10, 20]), (Some("a"), [10, 20])]),
        [Pass, Pass]
    );
    let unknown = |tokens| (None, tokens);
    // The order of rows in a file is not that of the prompts.
    assert_eq!(
        same_prompts([unknown([10, 20]), unknown([20, 10])]),
        [NotJudged, NotJudged]
    );
    assert_eq!(
        same_prompts([unknown([10, 20]), unknown([10, 21])]),
        [Fail, Fail]
    );
    assert_eq!(
        same_prompts([(Some("a"), [10, 20]), unknown([10, 20])]),
        [Pass, NotJudged]
    );
}
