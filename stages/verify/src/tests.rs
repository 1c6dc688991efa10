//! Faults injected one at a time. The gate made for a fault catches it, and no other gate does.

use artifacts::{Column, Scalar, Store, Table};
use contract::{CellRows, Chunk, Phase, Request, RequestStatus, Row as _, synthetic};
use pipeline::{CellStatus, Content, Control, Done, Input, InputCell, Json, Output};
use serde_json::json;

use crate::kind::{Verify, run};

/// The rows of one synthetic cell, to be corrupted.
struct Rows {
    requests: Vec<Request>,
    chunks: Vec<Chunk>,
    expected: i64,
    counter: f64,
}

/// Returns eight measured requests and one warm-up request of five tokens each, all different.
fn rows(shift: i64) -> Rows {
    let mut requests = Vec::new();
    for id in 0..9_i64 {
        let mut request = synthetic::request(id);
        request.phase = if id == 0 {
            Phase::Warmup
        } else {
            Phase::Measured
        };
        let start = id * 60_000_000;
        request.scheduled_ns = Some(start);
        request.sent_ns = Some(start + 1_000);
        request.headers_ns = Some(start + 2_000_000);
        request.first_token_ns = Some(start + 10_000_000 + id * 1_000 + shift);
        request.last_token_ns = Some(start + 50_000_000 + id * 2_000 + shift);
        request.done_ns = Some(start + 51_000_000 + id * 3_000 + shift);
        requests.push(request);
    }
    let chunks = requests.iter().flat_map(synthetic::even_chunks).collect();
    Rows {
        requests,
        chunks,
        expected: 8,
        counter: 45.0,
    }
}

fn cell(store: &Store, configuration: &str, rep: i64, rows: &Rows) -> InputCell {
    cell_of_load(store, configuration, rep, rows, Json::Null)
}

fn cell_of_load(
    store: &Store,
    configuration: &str,
    rep: i64,
    rows: &Rows,
    load: Json,
) -> InputCell {
    let facts = Table::new(vec![
        Column::int("expected_requests", [Some(rows.expected)]),
        Column::int("warmup_requests", [Some(1)]),
    ]);
    let name = "llamacpp:tokens_predicted_total";
    let metrics =
        synthetic::server_samples(&[(0, name, 100.0), (900_000_000, name, 100.0 + rows.counter)]);
    let tables = [
        (
            "requests",
            synthetic::requests_table(&rows.requests).unwrap(),
        ),
        ("chunks", synthetic::chunks_table(&rows.chunks).unwrap()),
        ("cell", facts.unwrap()),
        ("server_metrics", metrics),
    ];
    let at = [
        ("configuration", Scalar::Text(configuration.into())),
        ("rep", Scalar::Int(rep)),
    ];
    synthetic::cell(store, &at, load, &tables).unwrap()
}

fn grid(store: &Store, spoil: impl Fn(&mut Rows)) -> Vec<Input> {
    let mut cells = Vec::new();
    for configuration in ["batched", "serial"] {
        for rep in [1, 2] {
            let mut rows = rows(rep * 7_000);
            if configuration == "serial" && rep == 2 {
                spoil(&mut rows);
            }
            cells.push(cell(store, configuration, rep, &rows));
        }
    }
    vec![synthetic::input("ladder", "load", cells)]
}

pub(crate) fn every_gate() -> Json {
    json!({"gates": [
        {"gate": "census"}, {"gate": "row-status"}, {"gate": "expected-rows"}, {"gate": "degenerate"},
        {"gate": "token-accounting"}, {"gate": "delivered-length"}, {"gate": "client-lag"},
        {"gate": "same-prompts", "across": "configuration"}, {"gate": "repeats"}, {"gate": "identities"},
        {"gate": "sql", "name": "nobody-waits-long", "query": "select max(done_ns - sent_ns) < 1e9 as passed from requests"},
    ]})
}

pub(crate) fn canonical(settings: &Json) -> Json {
    planned(settings).unwrap()
}

fn planned(settings: &Json) -> Result<Json, Vec<pipeline::Problem>> {
    struct NoLibrary;
    impl pipeline::Library for NoLibrary {
        fn find(&self, _: &str, _: &str) -> Option<Json> {
            None
        }
        fn names(&self, _: &str) -> Vec<String> {
            Vec::new()
        }
    }
    pipeline::StageKind::canonical(&Verify, settings, &NoLibrary)
}

#[test]
fn a_stage_that_names_no_gates_has_the_usual_ones() {
    let usual = crate::usual::USUAL.map(crate::usual::usual);
    assert_eq!(canonical(&json!({})), canonical(&json!({ "gates": usual })));
    assert!(
        planned(&json!({"gates": []})).is_err(),
        "an empty list is a mistake"
    );
}

#[test]
fn a_gate_in_sql_that_reads_a_column_of_no_table_is_refused_while_planning() {
    let query = "select facts as passed from cell";
    let settings = json!({"gates": [{"gate": "sql", "name": "mine", "query": query}]});
    let problems = planned(&settings).unwrap_err();
    assert_eq!(
        problems[0].message,
        "the query reads the column `facts`, which its tables do not have"
    );
    let query = "select model as passed from requests";
    let settings = json!({"gates": [{"gate": "sql", "name": "mine", "query": query}]});
    let problems = planned(&settings).unwrap_err();
    assert_eq!(
        problems[0].hint.as_deref(),
        Some("read it from `cell`, or join that table")
    );
}

pub(crate) fn verify(store: &Store, inputs: &[Input], settings: &Json) -> Done {
    let run = |hold| run(&canonical(settings), inputs, store, &Control::quiet(), hold).unwrap();
    let done = run(u64::MAX);
    // Cells that are read one after the other, and those whose answers alone are kept, get the same judgements as cells
    // in memory.
    let cells = inputs.iter().filter(|input| input.kind == "load");
    let answers = cells
        .flat_map(|input| &input.cells)
        .map(CellRows::weight_of_answers);
    for hold in [1, answers.sum()] {
        let other = run(hold);
        assert_eq!(done.warnings, other.warnings);
        for (all, other) in done.outputs.iter().zip(&other.outputs) {
            let bytes = |output: &Output| match &output.content {
                Content::Bytes(bytes) => bytes.clone(),
                Content::File(path) => std::fs::read(path).unwrap(),
            };
            assert_eq!(all.name, other.name);
            assert!(
                bytes(all) == bytes(other),
                "output {}, {hold} held",
                all.name
            );
        }
    }
    done
}

pub(crate) fn table(done: &Done, name: &str) -> Table {
    Table::from_parquet(bytes(done, name)).unwrap()
}

pub(crate) fn bytes(done: &Done, name: &str) -> Vec<u8> {
    let output: &Output = done.outputs.iter().find(|o| o.name == name).unwrap();
    let Content::Bytes(bytes) = &output.content else {
        panic!("{name} is a file")
    };
    bytes.clone()
}

/// Returns the gates that did not pass, with their cells.
pub(crate) fn broken(done: &Done) -> Vec<(String, Option<String>)> {
    let gates = table(done, "gates");
    let (gate, cell) = (gates.text("gate").unwrap(), gates.text("cell").unwrap());
    let outcomes = gates.text("outcome").unwrap();
    (0..gates.rows())
        .filter(|i| outcomes[*i] == Some("fail"))
        .map(|i| (gate[i].unwrap().to_owned(), cell[i].map(str::to_owned)))
        .collect()
}

pub(crate) fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    (folder, store)
}

#[test]
fn a_clean_study_passes_every_gate() {
    let (_folder, store) = store();
    let done = verify(&store, &grid(&store, |_| ()), &every_gate());
    assert_eq!(broken(&done), []);
    assert_eq!(done.warnings, Vec::<String>::new());
    let gates = table(&done, "gates");
    assert!(
        gates
            .text("outcome")
            .unwrap()
            .iter()
            .all(|o| *o == Some("pass"))
    );
    // Nine gates judge each of four cells, two judge the stage.
    assert_eq!(gates.rows(), 9 * 4 + 2);
    assert_eq!(table(&done, "exclusions").rows(), 0);
    let census = table(&done, "census");
    assert_eq!(census.int("rows_measured_ok").unwrap(), [Some(32)]);
    assert_eq!(census.int("rows_expected").unwrap(), [Some(32)]);
}

#[test]
fn each_fault_is_caught_by_its_gate_and_by_no_other() {
    type Spoil = fn(&mut Rows);
    let faults: &[(&str, &str, Spoil)] = &[
        ("a request refused with HTTP 400", "row-status", |rows| {
            rows.requests[3].status = RequestStatus::HttpError;
        }),
        ("a row lost", "expected-rows", |rows| {
            rows.expected = 9;
        }),
        ("all durations equal", "degenerate", |rows| {
            for r in &mut rows.requests {
                r.done_ns = r.sent_ns.map(|t| t + 55_000_000);
            }
        }),
        (
            "tokens the server did not generate",
            "token-accounting",
            |rows| rows.counter = 44.0,
        ),
        (
            "events without text that no count explains",
            "token-accounting",
            |rows| {
                rows.requests[4].silent_events = Some(10);
            },
        ),
        ("more chunks than tokens", "token-accounting", |rows| {
            rows.requests[4].chunks = Some(6);
        }),
        (
            "more chunks than tokens besides hidden reasoning",
            "token-accounting",
            |rows| rows.requests[4].reasoning_tokens = Some(3),
        ),
        ("usage and timings disagree", "token-accounting", |rows| {
            rows.requests[4].tokens_agree = Some(false);
        }),
        ("an answer cut short", "delivered-length", |rows| {
            rows.requests[4].requested_output_tokens = Some(6);
        }),
        ("a slow client", "client-lag", |rows| {
            for r in &mut rows.requests {
                r.send_lag_ns = Some(40_000_000);
                r.sent_ns = r.scheduled_ns.map(|t| t + 40_000_000);
                r.headers_ns = None;
                r.first_token_ns = r.first_token_ns.map(|t| t + 40_000_000);
                r.last_token_ns = r.last_token_ns.map(|t| t + 40_000_000);
                r.done_ns = r.done_ns.map(|t| t + 40_000_000);
            }
            rows.chunks = rows
                .requests
                .iter()
                .flat_map(synthetic::even_chunks)
                .collect();
        }),
        ("times out of order", "identities", |rows| {
            rows.requests[2].headers_ns = rows.requests[2].done_ns.map(|t| t + 1);
        }),
        ("a chunk before the first token", "identities", |rows| {
            rows.chunks[7].at_ns = 1;
        }),
        ("a request twice", "identities", |rows| {
            rows.requests[5].request_id = 4;
        }),
    ];
    for (fault, gate, spoil) in faults {
        let (_folder, store) = store();
        let inputs = grid(&store, spoil);
        let done = verify(&store, &inputs, &every_gate());
        let expected = vec![(
            (*gate).to_owned(),
            Some("configuration=serial,rep=2".to_owned()),
        )];
        assert_eq!(broken(&done), expected, "{fault}");
        assert_eq!(done.warnings.len(), 1, "{fault}");
    }
}

#[test]
fn other_prompts_or_another_tokenizer_spoil_both_sides_of_a_pair() {
    let spoils: [fn(&mut Rows); 2] = [
        |rows| rows.requests[2].prompt_digest = Some("b3:other".into()),
        |rows| rows.requests[2].prompt_tokens = Some(12),
    ];
    for spoil in spoils {
        let (_folder, store) = store();
        let done = verify(&store, &grid(&store, spoil), &every_gate());
        let cells = ["configuration=batched,rep=2", "configuration=serial,rep=2"];
        let expected: Vec<_> = cells
            .map(|c| ("same-prompts".to_owned(), Some(c.to_owned())))
            .to_vec();
        assert_eq!(broken(&done), expected);
        assert_eq!(table(&done, "exclusions").rows(), 2);
    }
}

#[test]
fn a_missing_cell_fails_the_census_and_the_repeats_and_is_named() {
    let (_folder, store) = store();
    let mut inputs = grid(&store, |_| ());
    let at = [
        ("configuration", Scalar::Text("serial".into())),
        ("rep", Scalar::Int(2)),
    ];
    inputs[0].cells[3] = synthetic::missing(&at, CellStatus::Hung, "no row for 60 s");
    let done = verify(&store, &inputs, &every_gate());
    assert_eq!(
        broken(&done),
        [("census".to_owned(), None), ("repeats".to_owned(), None)]
    );
    let evidence = table(&done, "gates").text("evidence").unwrap()[0].map(str::to_owned);
    assert_eq!(
        evidence.as_deref(),
        Some("configuration=serial,rep=2 (hung)")
    );
}

#[test]
fn a_coordinate_that_was_never_planned_fails_the_census_unless_declared() {
    let (_folder, store) = store();
    let mut inputs = grid(&store, |_| ());
    inputs[0].cells.remove(3);
    let done = verify(&store, &inputs, &json!({"gates": [{"gate": "census"}]}));
    assert_eq!(broken(&done), [("census".to_owned(), None)]);
    let done = verify(
        &store,
        &inputs,
        &json!({"gates": [{"gate": "census", "unplanned": 1}]}),
    );
    assert_eq!(broken(&done), []);
}

#[test]
fn a_cell_the_experiment_excludes_is_not_missing() {
    let (_folder, store) = store();
    let mut inputs = grid(&store, |_| ());
    let at = [
        ("configuration", Scalar::Text("serial".into())),
        ("rep", Scalar::Int(2)),
    ];
    inputs[0].cells[3] = synthetic::missing(&at, CellStatus::Excluded, "too slow here");
    let done = verify(&store, &inputs, &json!({"gates": [{"gate": "census"}]}));
    assert_eq!(broken(&done), []);
    assert_eq!(table(&done, "census").int("excluded").unwrap(), [Some(1)]);
}

#[test]
fn severity_decides_what_follows() {
    let (_folder, store) = store();
    let inputs = grid(&store, |rows| {
        rows.requests[3].status = RequestStatus::Timeout;
    });
    for (severity, barred) in [("fail", 1), ("exclude", 1), ("warn", 0)] {
        let gate =
            json!({"gate": "row-status", "severity": severity, "reason": "a declared reason"});
        let done = verify(&store, &inputs, &json!({"gates": [gate]}));
        assert_eq!(table(&done, "exclusions").rows(), barred, "{severity}");
        let verdict: Json = serde_json::from_slice(&bytes(&done, "verdict")).unwrap();
        assert_eq!(
            (&verdict["failed"][severity], &verdict["pass"]),
            (&json!(1), &json!(3)),
            "{severity}"
        );
        let names = if severity == "fail" {
            json!(["row-status (ladder)"])
        } else {
            json!([])
        };
        assert_eq!(verdict["failed_gates"], names);
    }
}

#[test]
fn a_declared_tolerance_lets_rows_fail() {
    let (_folder, store) = store();
    let inputs = grid(&store, |rows| {
        rows.requests[3].status = RequestStatus::Timeout;
    });
    for (tolerance, passes) in [(0.125, true), (0.124, false)] {
        let settings = json!({"gates": [{"gate": "row-status", "tolerance": tolerance}]});
        assert_eq!(
            broken(&verify(&store, &inputs, &settings)).is_empty(),
            passes
        );
    }
}

#[test]
fn requests_that_the_load_cancels_do_not_count_as_failures() {
    let (_folder, store) = store();
    let settings = json!({"gates": [{"gate": "row-status"}]});
    for (status, cancel, passes) in [
        (RequestStatus::Cancelled, json!({"after": "1 s"}), true),
        (RequestStatus::Cancelled, Json::Null, false),
        (RequestStatus::Timeout, json!({"after": "1 s"}), false),
        // A load that abandons none cancels none by its setting.
        (
            RequestStatus::Cancelled,
            json!({"after": "1 s", "share": 0.1}),
            true,
        ),
        (
            RequestStatus::Cancelled,
            json!({"after": "1 s", "share": 0.0}),
            false,
        ),
    ] {
        let mut inputs = grid(&store, |rows| rows.requests[3].status = status);
        for cell in &mut inputs[0].cells {
            cell.parameters = json!({"cancel": cancel});
        }
        let done = verify(&store, &inputs, &settings);
        assert_eq!(broken(&done).is_empty(), passes, "{status:?} {cancel}");
    }
}

#[test]
fn the_same_inputs_give_the_same_bytes_in_whatever_order_the_cells_come() {
    let (_folder, store) = store();
    let mut inputs = grid(&store, |rows| {
        rows.requests[3].status = RequestStatus::Timeout;
    });
    let one = verify(&store, &inputs, &every_gate());
    inputs[0].cells.reverse();
    let other = verify(&store, &inputs, &every_gate());
    for output in &one.outputs {
        assert_eq!(
            bytes(&one, &output.name),
            bytes(&other, &output.name),
            "{}",
            output.name
        );
    }
}

#[test]
fn every_mistake_in_the_settings_is_reported_at_once() {
    struct NoLibrary;
    impl pipeline::Library for NoLibrary {
        fn find(&self, _: &str, _: &str) -> Option<Json> {
            None
        }
        fn names(&self, _: &str) -> Vec<String> {
            Vec::new()
        }
    }
    let settings = json!({"gates": [
        {"gate": "row-statuses"},
        {"gate": "row-status", "tolerence": 0.1},
        {"gate": "client-lag", "severity": "exclude"},
        {"gate": "same-prompts", "severity": "fatal"},
        {},
    ]});
    let problems = pipeline::StageKind::canonical(&Verify, &settings, &NoLibrary).unwrap_err();
    let messages: Vec<String> = problems
        .iter()
        .map(|p| format!("{} — {}", p.message, p.hint.as_deref().unwrap_or("-")))
        .collect();
    assert_eq!(
        messages,
        [
            "unknown gate `row-statuses` — did you mean `row-status`?",
            "gate `row-status` has no parameter `tolerence` — did you mean `tolerance`?",
            "a gate that excludes cells needs a `reason` — say why such cells are excluded; the \
             report lists the reason",
            "`fatal` is not a severity — did you mean `fail`?",
            "gate `same-prompts` needs the parameter `across` — add `across:` (The axis compared across: cells \
             that differ only on this axis must have the same prompts)",
            "which gate? — there are: census, digests, row-status, expected-rows, degenerate, token-accounting, token-bias, \
             delivered-length, one-piece, context-ceiling, client-lag, client-health, calibrated-range, in-flight, server-latency, server-errors, clock, stalls, identities, \
             duplicates, plausible-ttft, physical-roofs, possible-scaling, engine-identity, cold-cache, same-prompts, comparability, \
             balanced-conditions, throttling, warm-up, stationarity, one-mode, order-effects, outlying-repeats, outlying-launches, repeats, sql",
        ]
    );
}

#[test]
fn a_gate_in_sql_judges_each_cell_by_its_own_rows() {
    let (_folder, store) = store();
    let inputs = grid(&store, |rows| {
        rows.requests[3].status = RequestStatus::Timeout;
    });
    let query =
        "select sum(status = 'ok') >= expected_requests as passed, sum(status = 'ok') || ' ok' as observed,
                        'at least ' || expected_requests as expected,
                        'request_id ' || group_concat(iif(status = 'ok', null, request_id)) as evidence
                 from requests, cell where phase = 'measured' and not superseded";
    let gate = json!({"gate": "sql", "name": "enough-ok", "severity": "exclude", "reason": "too few", "query": query});
    let done = verify(&store, &inputs, &json!({"gates": [gate]}));
    let place = "configuration=serial,rep=2";
    assert_eq!(
        broken(&done),
        [("enough-ok".to_owned(), Some(place.to_owned()))]
    );
    let gates = table(&done, "gates");
    let text = |column: &str| gates.text(column).unwrap();
    assert_eq!(
        text("observed"),
        [Some("8 ok"), Some("8 ok"), Some("8 ok"), Some("7 ok")]
    );
    assert_eq!(text("expected"), [Some("at least 8"); 4]);
    assert_eq!(text("evidence"), [None, None, None, Some("request_id 3")]);
    let reason = table(&done, "exclusions").text("reason").unwrap()[0].map(str::to_owned);
    assert_eq!(
        reason.as_deref(),
        Some("too few: 7 ok (expected at least 8)")
    );
}

#[test]
fn a_gate_in_sql_sees_every_column_that_a_load_cell_has() {
    let (_folder, store) = store();
    let inputs = grid(&store, |rows| rows.requests[3].http_status = Some(503));
    let columns = [Request::TABLE, Chunk::TABLE].map(|table| {
        let named = table.columns.iter().map(|c| format!("count({})", c.name));
        let named = named.collect::<Vec<_>>().join(" + ");
        let query = format!("select {named} >= 0 as passed from {}", table.name);
        json!({"gate": "sql", "name": format!("every-{}", table.name), "query": query})
    });
    let refused = json!({"gate": "sql", "name": "no-server-errors", "query":
        "select max(http_status) < 500 as passed from requests"});
    let gates = [columns.as_slice(), &[refused]].concat();
    let done = verify(&store, &inputs, &json!({"gates": gates}));
    let place = "configuration=serial,rep=2".to_owned();
    assert_eq!(
        broken(&done),
        [("no-server-errors".to_owned(), Some(place))]
    );
}

#[test]
fn a_gate_in_sql_may_look_at_chunks_and_metrics_and_may_have_nothing_to_judge() {
    let (_folder, store) = store();
    let inputs = grid(&store, |_| ());
    let gate = |name: &str, query: &str| json!({"gate": "sql", "name": name, "query": query});
    let done = verify(
        &store,
        &inputs,
        &json!({"gates": [
            gate("counted", "select (select count(*) from chunks) = max(value) - min(value) as passed from server_metrics"),
            gate("unknown", "select min(cached_prompt_tokens) > 0 as passed from requests where cached_prompt_tokens < 0"),
            gate("nothing", "select 0 as passed from requests where status = 'timeout'"),
        ]}),
    );
    let gates = table(&done, "gates");
    assert_eq!(broken(&done), []);
    assert_eq!(
        gates.text("outcome").unwrap(),
        [vec![Some("pass"); 4], vec![Some("not judged"); 8]].concat()
    );
    assert_eq!(gates.text("observed").unwrap()[4], Some("passed = null"));
    assert_eq!(
        gates.text("observed").unwrap()[8],
        Some("the query returns no row")
    );
}

#[test]
fn a_gate_in_sql_that_is_no_predicate_is_refused() {
    let (_folder, store) = store();
    let inputs = grid(&store, |_| ());
    for (query, message) in [
        (
            "select 1 as passed from requests",
            "the query returns 9 rows; a predicate must return one row",
        ),
        (
            "select 'yes' as passed",
            "the first column is `yes`, which is neither true nor false",
        ),
    ] {
        let settings = json!({"gates": [{"gate": "sql", "name": "mine", "query": query}]});
        let failure = run(&canonical(&settings), &inputs, &store, &Control::quiet(), 1)
            .err()
            .unwrap();
        assert_eq!(
            failure.reason,
            format!("gate mine, cell configuration=batched,rep=1: {message}")
        );
    }
}

#[test]
fn a_gate_in_sql_that_cannot_work_is_reported_while_planning() {
    struct NoLibrary;
    impl pipeline::Library for NoLibrary {
        fn find(&self, _: &str, _: &str) -> Option<Json> {
            None
        }
        fn names(&self, _: &str) -> Vec<String> {
            Vec::new()
        }
    }
    let settings = json!({"gates": [
        {"gate": "sql", "name": "Mine", "query": "select 1 as passed from request"},
        {"gate": "sql", "name": "census", "query": "select max(statuss) as passed from requests"},
        {"gate": "sql", "name": "chance", "query": "select random() > 0 as passed"},
    ]});
    let problems = pipeline::StageKind::canonical(&Verify, &settings, &NoLibrary).unwrap_err();
    let messages: Vec<String> = problems
        .iter()
        .map(|p| format!("{} — {}", p.message, p.hint.as_deref().unwrap_or("-")))
        .collect();
    assert_eq!(
        messages,
        [
            "`Mine` is not a valid name for a gate — use lower-case letters, digits and hyphens",
            "the query reads the table `request`, which does not exist — did you mean `requests`?",
            "`census` is the name of another gate — -",
            "the query reads the column `statuss`, which its tables do not have — did you mean `status`?",
            "a query may not call `random` — -",
        ]
    );
}

#[test]
fn rows_of_different_sources_are_not_mixed_unnoticed() {
    let (_folder, store) = store();
    let with = |source: &str, rep: i64| {
        let rows = rows(rep * 7_000);
        let facts = Table::new(vec![
            Column::text("source", [Some(source)]),
            Column::int("expected_requests", [Some(rows.expected)]),
            Column::int("warmup_requests", [Some(1)]),
        ]);
        let tables = [
            (
                "requests",
                synthetic::requests_table(&rows.requests).unwrap(),
            ),
            ("chunks", synthetic::chunks_table(&rows.chunks).unwrap()),
            ("cell", facts.unwrap()),
        ];
        let at = [
            ("configuration", Scalar::Text("a".into())),
            ("rep", Scalar::Int(rep)),
        ];
        synthetic::cell(&store, &at, Json::Null, &tables).unwrap()
    };
    let judge = |second: &str| {
        let cells = vec![with("measured", 1), with(second, 2)];
        let done = verify(
            &store,
            &[synthetic::input("ladder", "load", cells)],
            &every_gate(),
        );
        let census = table(&done, "census");
        let sources = census.text("sources").unwrap()[0].map(str::to_owned);
        (
            sources,
            done.warnings
                .iter()
                .any(|w| w.contains("come from different sources")),
        )
    };
    assert_eq!(judge("measured"), (Some("measured".to_owned()), false));
    assert_eq!(
        judge("simulated"),
        (Some("1 measured, 1 simulated".to_owned()), true)
    );
}

#[test]
fn simulated_cells_have_a_clock_each_and_measured_ones_share_it() {
    let (_folder, store) = store();
    let overlapping = |source: &str| {
        let with = |rep: i64| {
            let rows = rows(0);
            let facts = Table::new(vec![
                Column::text("source", [Some(source)]),
                Column::int("started_unix_ns", [Some(1_800_000_000_000_000_000)]),
            ]);
            let tables = [
                (
                    "requests",
                    synthetic::requests_table(&rows.requests).unwrap(),
                ),
                ("cell", facts.unwrap()),
            ];
            synthetic::cell(&store, &[("rep", Scalar::Int(rep))], Json::Null, &tables).unwrap()
        };
        let cells = vec![with(1), with(2)];
        let inputs = [synthetic::input("ladder", "load", cells)];
        let done = verify(&store, &inputs, &json!({"gates": [{"gate": "clock"}]}));
        let gates = table(&done, "gates");
        let observed = gates.text("observed").unwrap();
        let same_time = |text: &&Option<&str>| text.is_some_and(|t| t.contains("at the same time"));
        observed.iter().filter(same_time).count()
    };
    assert_eq!(overlapping("measured"), 2);
    assert_eq!(overlapping("simulated"), 0);
}

/// The outcomes of `same-prompts` and the status of the facet `prompts`, if one side sent two requests fewer.
fn with_a_slower_side(load: &Json, other: bool) -> (Vec<String>, Vec<Option<String>>) {
    let (_folder, store) = store();
    let mut cells = Vec::new();
    for (configuration, sent) in [("batched", 9), ("serial", 7)] {
        let mut rows = rows(7_000);
        rows.requests.truncate(sent);
        rows.chunks.retain(|c| c.request_id < sent as i64);
        if other && configuration == "serial" {
            rows.requests[2].prompt_digest = Some("b3:another".to_owned());
        }
        cells.push(cell_of_load(&store, configuration, 1, &rows, load.clone()));
    }
    let inputs = vec![synthetic::input("ladder", "load", cells)];
    let gates = json!({"gates": [
        {"gate": "same-prompts", "across": "configuration"},
        {"gate": "comparability", "across": "configuration"},
    ]});
    let done = verify(&store, &inputs, &gates);
    let gates = table(&done, "gates");
    let outcomes = gates.text("gate").unwrap().into_iter();
    let outcomes = outcomes.zip(gates.text("outcome").unwrap());
    let outcomes = outcomes
        .filter(|(gate, _)| *gate == Some("same-prompts"))
        .filter_map(|(_, outcome)| outcome.map(str::to_owned));
    let matrix = table(&done, "comparability");
    let facets = matrix.text("facet").unwrap().into_iter();
    let facets = facets.zip(matrix.text("status").unwrap());
    let facets = facets
        .filter(|(facet, _)| *facet == Some("prompts"))
        .map(|(_, status)| status.map(str::to_owned));
    (outcomes.collect(), facets.collect())
}

#[test]
fn a_load_of_some_seconds_compares_the_requests_that_both_sides_sent() {
    let timed = json!({"duration": "6 s"});
    let (outcomes, facets) = with_a_slower_side(&timed, false);
    assert_eq!(outcomes, ["pass", "pass"]);
    assert_eq!(facets, [Some("equal".to_owned())]);
    // Another prompt among those that both sent.
    let (outcomes, facets) = with_a_slower_side(&timed, true);
    assert_eq!(outcomes, ["fail", "fail"]);
    assert_eq!(facets, [Some("differs".to_owned())]);
    // A load of so many requests lost two of them.
    let (outcomes, facets) = with_a_slower_side(&json!({"requests": 8}), false);
    assert_eq!(outcomes, ["fail", "fail"]);
    assert_eq!(facets, [Some("differs".to_owned())]);
}
