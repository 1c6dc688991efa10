//! Tests against vectors that the tools' own functions computed from the same rows. `vectors.py`
//! beside `vectors.json` lists these functions.

use std::collections::BTreeMap;

use artifacts::Digest;
use pipeline::Json;
use pipeline::place::CellName;
use serde::Deserialize;

use super::{Bounds, Tool, figures};
use crate::synthetic::request;
use crate::timings;
use crate::{CellRows, Chunk, Phase, Request, RequestStatus, TokenSource};

#[derive(Deserialize)]
struct Vectors {
    versions: BTreeMap<String, String>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    requests: Vec<Given>,
    bounds: BTreeMap<String, f64>,
    expected: BTreeMap<String, BTreeMap<String, Option<f64>>>,
}

#[derive(Deserialize)]
struct Given {
    status: RequestStatus,
    scheduled_ns: i64,
    sent_ns: i64,
    done_ns: i64,
    prompt_tokens: i64,
    output_tokens: Option<i64>,
    tokens_source: Option<TokenSource>,
    requested_output_tokens: i64,
    first_chunk_tokens: Option<i64>,
    chunks_ns: Vec<i64>,
}

fn cell(given: &[Given]) -> CellRows {
    let rows = given.iter().enumerate().map(|(i, g)| Request {
        phase: Phase::Measured,
        status: g.status,
        scheduled_ns: Some(g.scheduled_ns),
        sent_ns: Some(g.sent_ns),
        first_token_ns: g.chunks_ns.first().copied(),
        last_token_ns: g.chunks_ns.last().copied(),
        done_ns: Some(g.done_ns),
        prompt_tokens: Some(g.prompt_tokens),
        output_tokens: g.output_tokens,
        tokens_source: g.tokens_source,
        requested_output_tokens: Some(g.requested_output_tokens),
        chunks: Some(g.chunks_ns.len() as i64),
        first_chunk_tokens: g.first_chunk_tokens,
        ..request(i as i64)
    });
    let chunks = given.iter().enumerate().flat_map(|(i, g)| {
        g.chunks_ns.iter().map(move |at_ns| Chunk {
            request_id: i as i64,
            attempt: 1,
            at_ns: *at_ns,
            bytes: None,
            tokens: None,
            read: None,
        })
    });
    CellRows {
        place: CellName::default(),
        requests_digest: Digest::of(b"requests"),
        requests: rows.collect(),
        chunks_digest: None,
        chunks: chunks.collect(),
        cell: None,
        server_metrics: None,
        beside: BTreeMap::new(),
    }
}

#[test]
fn every_figure_is_that_of_the_tools_own_functions() {
    let vectors: Vectors =
        serde_json::from_str(include_str!("../../tests/compat/vectors.json")).unwrap();
    for tool in Tool::ALL {
        assert_eq!(
            vectors.versions[tool.word()],
            tool.version(),
            "{}",
            tool.word()
        );
    }
    let mut compared = 0;
    for case in &vectors.cases {
        let cell = cell(&case.requests);
        let timings = timings(&cell);
        let bound = |name: &str| case.bounds.get(name).copied();
        let bounds = Bounds {
            ttft_ms: bound("ttft"),
            tpot_ms: bound("tpot"),
            e2e_ms: bound("e2e"),
        };
        for tool in Tool::ALL {
            let ours = figures(tool, &timings, &bounds);
            let mut expected = case.expected[tool.word()].clone();
            for figure in &ours {
                let place = format!("{}, {} {}", case.name, tool.word(), figure.name);
                let theirs = expected
                    .remove(&figure.name)
                    .unwrap_or_else(|| panic!("{place}: no vector"));
                match (figure.value, theirs) {
                    (Some(ours), Some(theirs)) => {
                        assert!(
                            (ours - theirs).abs() <= 1e-6 * theirs.abs().max(1.0),
                            "{place}: {ours}, {theirs}"
                        );
                        compared += 1;
                    }
                    (ours, theirs) => assert_eq!(ours, theirs, "{place}"),
                }
            }
            assert!(
                expected.is_empty(),
                "{}, {}: not recomputed: {expected:?}",
                case.name,
                tool.word()
            );
        }
    }
    assert!(compared > 500, "only {compared} figures");
}

#[test]
fn names_and_formulas_do_not_depend_on_the_rows() {
    let vectors: Vectors =
        serde_json::from_str(include_str!("../../tests/compat/vectors.json")).unwrap();
    let cell = cell(&vectors.cases[0].requests);
    let some = timings(&cell);
    for tool in Tool::ALL {
        let shape = |timings: &[_]| -> Vec<Json> {
            let all = figures(tool, timings, &Bounds::default());
            all.into_iter()
                .map(|f| serde_json::json!([f.name, f.unit, f.formula]))
                .collect()
        };
        assert_eq!(shape(&some), shape(&[]), "{}", tool.word());
    }
}

#[test]
fn without_requests_there_is_no_latency_and_no_throughput() {
    for tool in Tool::ALL {
        for figure in figures(tool, &[], &Bounds::default()) {
            assert!(
                figure.value.is_none_or(|v| v == 0.0),
                "{} {figure:?}",
                tool.word()
            );
        }
    }
}
