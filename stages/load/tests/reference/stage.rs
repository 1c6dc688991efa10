//! The stage kind, called as by the pipeline.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use artifacts::{Scalar, Store, Table};
use load::reference::{Behaviour, Fault, Faults, ReferenceServer, WhenFull};
use load::{Load, shipped};
use pipeline::Leases;
use pipeline::sources::{NamedFile, NamedFiles};
use pipeline::stage::{
    CellStatus, Content, Control, Coordinates, Done, Failure, Input, InputCell, Job, Json, Library,
    Output, StageKind,
};
use serde_json::json;

use crate::common::paced;
use crate::tokens::tokenizer;

/// A library without definitions. It remembers the files that planning reads.
#[derive(Default)]
pub(crate) struct NoShelf(RefCell<Vec<NamedFile>>);

impl Library for NoShelf {
    fn find(&self, _: &str, _: &str) -> Option<Json> {
        None
    }

    fn names(&self, _: &str) -> Vec<String> {
        Vec::new()
    }

    fn reads(&self, source: &NamedFile) {
        self.0.borrow_mut().push(source.clone());
    }

    fn files(&self) -> NamedFiles {
        NamedFiles::new(self.0.borrow().iter().cloned(), Path::new(""), None)
    }
}

fn parameters(clients: u32, workload: &Json) -> Json {
    let settings = json!({
        "workload": workload,
        "arrival": {"closed-loop": {"clients": clients}},
        "requests": 8,
        "warmup": 2,
    });
    Load.canonical(&settings, &NoShelf::default()).unwrap()
}

fn short() -> Json {
    json!({"prompts": {"words": {"length": 9}}, "output": {"tokens": 4, "mode": "exact"}})
}

/// The context per request that the servers here report, in tokens.
const CONTEXT: u64 = 512;

/// Runs a load cell against a server that logs to `log`.
fn run(url: &str, log: &Path, parameters: &Json, rep: i64) -> Result<Done, Failure> {
    run_as(&url_and_log(url, log), parameters, rep, &|job| {
        Load.run(job)
    })
}

fn url_and_log(url: &str, log: &Path) -> Json {
    json!({"base_url": url, "log_path": log})
}

/// Runs `kind` with a job that needs the server of `live`.
pub(crate) fn run_as(
    live: &Json,
    parameters: &Json,
    rep: i64,
    kind: &dyn Fn(&Job<'_>) -> Result<Done, Failure>,
) -> Result<Done, Failure> {
    let scratch = tempfile::tempdir().unwrap();
    let store = Store::open(scratch.path()).unwrap();
    let live = json!({
        "base_url": live["base_url"],
        "model": "reference",
        "api": "openai-completions",
        "log_path": live["log_path"],
        "endpoints": {"metrics": "/metrics", "completions": "/v1/completions"},
        "pid": std::process::id(),
        "limits": {"context_per_slot": CONTEXT},
    });
    let cell = InputCell {
        coordinates: Coordinates::default(),
        status: CellStatus::Ok,
        reason: None,
        parameters: json!({}),
        outputs: BTreeMap::new(),
        record: None,
        live: Some(live),
    };
    let inputs = [Input {
        stage: "server".into(),
        kind: "serve".into(),
        needs: Vec::new(),
        cells: vec![cell],
    }];
    let replicate = Coordinates(vec![("rep".into(), Scalar::Int(rep))]);
    let job = Job {
        experiment: "test",
        stage: "ladder",
        coordinates: &replicate,
        parameters,
        seed: 164,
        replicate: &replicate,
        inputs: &inputs,
        store: &store,
        files: &Default::default(),
        scratch: scratch.path(),
        control: &Control::quiet(),
        leases: &Leases::new(scratch.path(), "test", "ladder"),
        study: None,
    };
    // Tables are files in the scratch directory, which disappears at the end of this function.
    let read = |outputs: &mut Vec<Output>| {
        for output in outputs {
            if let Content::File(path) = &output.content {
                output.content = Content::Bytes(std::fs::read(path).unwrap());
            }
        }
    };
    match kind(&job) {
        Ok(mut done) => {
            read(&mut done.outputs);
            Ok(done)
        }
        Err(mut failure) => {
            read(&mut failure.evidence);
            Err(failure)
        }
    }
}

fn bytes<'a>(outputs: &'a [Output], name: &str) -> &'a [u8] {
    let output = outputs.iter().find(|o| o.name == name).unwrap();
    match &output.content {
        Content::Bytes(bytes) => bytes,
        Content::File(_) => panic!("{name} is a file"),
    }
}

pub(crate) fn table(outputs: &[Output], name: &str) -> Table {
    Table::from_parquet(bytes(outputs, name).to_vec()).unwrap()
}

#[test]
fn a_cell_leaves_its_tables_and_the_log_of_its_own_time() {
    let server = ReferenceServer::start(paced()).unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(log.path(), "before\n").unwrap();
    let done = run(&server.url(), log.path(), &parameters(2, &short()), 1).unwrap();
    assert_eq!(done.warnings, Vec::<String>::new());
    let names: Vec<&str> = done.outputs.iter().map(|o| o.name.as_str()).collect();
    let monitoring = ["host_telemetry", "process_telemetry", "server_metrics"];
    let names: Vec<&str> = names
        .into_iter()
        .filter(|name| *name != "gpu_telemetry")
        .collect();
    assert_eq!(
        names,
        [
            &["requests", "chunks", "cell", "prompts"][..],
            &monitoring,
            &["server_starts", "engine_log"]
        ]
        .concat()
    );
    for name in monitoring {
        let table = table(&done.outputs, name);
        assert!(table.rows() >= 2, "{name}: one sample before and one after");
        assert_eq!(table.metadata("interval_ms").as_deref(), Some("1000"));
        assert!(
            table
                .names()
                .iter()
                .all(|column| table.description(column).is_some())
        );
    }
    // A machine with a GPU has the table; any other has the reason for its absence.
    assert!(
        done.observations
            .keys()
            .any(|key| key.starts_with("gpu_telemetry"))
    );
    assert_eq!(bytes(&done.outputs, "engine_log"), b"");
    let requests = table(&done.outputs, "requests");
    assert_eq!(requests.rows(), 10);
    assert_eq!(requests.unit("first_token_ns").as_deref(), Some("ns"));
    assert!(
        requests
            .names()
            .iter()
            .all(|name| requests.description(name).is_some())
    );
    assert_eq!(table(&done.outputs, "chunks").rows(), 40);
    let cell = table(&done.outputs, "cell");
    assert_eq!(cell.rows(), 1);
    assert_eq!(cell.value("expected_requests", 0).unwrap(), Scalar::Int(8));
    let digest = artifacts::Digest::of(bytes(&done.outputs, "prompts")).to_string();
    assert_eq!(cell.value("prompt_set", 0).unwrap(), Scalar::Text(digest));
    // One scrape before the load, one after it.
    let metrics = table(&done.outputs, "server_metrics");
    assert_eq!(
        (metrics.rows() >= 2, metrics.text("name").unwrap()[0]),
        (true, Some("reference_requests"))
    );
}

#[test]
fn cells_of_other_concurrency_send_the_same_prompts_and_other_replicates_do_not() {
    let server = ReferenceServer::start(Behaviour::default()).unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    let prompts = |clients, rep| {
        let done = run(
            &server.url(),
            log.path(),
            &parameters(clients, &short()),
            rep,
        )
        .unwrap();
        bytes(&done.outputs, "prompts").to_vec()
    };
    let one = prompts(1, 1);
    assert_eq!(one, prompts(4, 1));
    assert_ne!(one, prompts(1, 2));
}

#[test]
fn what_is_sent_is_what_the_prompt_set_says() {
    let server = ReferenceServer::start(Behaviour::default()).unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    let done = run(&server.url(), log.path(), &parameters(1, &short()), 1).unwrap();
    let prompts = table(&done.outputs, "prompts");
    let truth = server.truth(10);
    for (i, text) in prompts.text("text").unwrap().into_iter().enumerate() {
        // Two warm-up requests were sent first, but the table lists them last.
        let request = String::from_utf8_lossy(&truth[(i + 2) % 10].request);
        assert!(request.contains(text.unwrap()), "{i}: {request}");
        assert!(request.contains("\"ignore_eos\":true") && request.contains("\"max_tokens\":4"));
    }
}

#[test]
fn a_cell_without_any_answer_fails_with_its_rows_as_evidence() {
    let behaviour = Behaviour {
        faults: Faults::all(Fault::Status(400)),
        ..Behaviour::default()
    };
    let server = ReferenceServer::start(behaviour).unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    let failure = run(&server.url(), log.path(), &parameters(2, &short()), 1)
        .err()
        .unwrap();
    assert_eq!(failure.status, CellStatus::Failed);
    assert_eq!(
        failure.reason,
        "no request was answered (8 http_error); the first error: HTTP 400: not now"
    );
    assert_eq!(table(&failure.evidence, "requests").rows(), 10);
}

#[test]
fn prompts_that_the_context_cannot_hold_are_reported_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let file = tokenizer(folder.path(), "");
    let server = ReferenceServer::start(paced()).unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    // The file is not in a store, because nothing was planned. It is read at its path.
    let here = |mut parameters: Json| {
        parameters["workload"]["tokenizer"]["file"] = json!(file);
        parameters
    };
    let cell = |tokens: u64, output: &Json| {
        let workload = json!({
            "prompts": {"words": {"length": {"tokens": tokens}}},
            "output": output,
            "tokenizer": {"file": file},
        });
        run(
            &server.url(),
            log.path(),
            &here(parameters(2, &workload)),
            1,
        )
    };
    let exact = json!({"tokens": 4, "mode": "exact"});
    assert_eq!(
        cell(CONTEXT - 4, &exact).unwrap().warnings,
        Vec::<String>::new()
    );
    let sent = server.truth(10).len();
    let failure = cell(CONTEXT - 3, &exact).err().unwrap();
    assert_eq!(
        failure.reason,
        "every prompt needs at least 513 tokens with its answer, but the server's context holds \
         512; nothing was sent"
    );
    assert_eq!(server.truth(10).len(), sent);
    // Under a cap, an answer may end early.
    let done = cell(CONTEXT - 3, &json!({"tokens": 4})).unwrap();
    assert!(
        done.warnings[0].contains("the longest requested answer needs 513 tokens"),
        "{:?}",
        done.warnings
    );
    // If some prompts fit, those that do not fit become rows.
    let words = |tokens: u64| json!({"words": {"length": {"tokens": tokens}}});
    let mixture = json!([
        {"name": "short", "weight": 1, "prompts": words(20)},
        {"name": "long", "weight": 1, "prompts": words(CONTEXT)},
    ]);
    let workload =
        json!({"prompts": {"mixture": mixture}, "output": exact, "tokenizer": {"file": file}});
    let mixed = here(parameters(2, &workload));
    let done = run(&server.url(), log.path(), &mixed, 1).unwrap();
    assert!(
        done.warnings[0].contains("the longest prompt needs 516 tokens"),
        "{:?}",
        done.warnings
    );
}

#[test]
fn some_failed_requests_are_rows_and_no_failure() {
    let faults = Faults(vec![(4..6, Fault::Status(503))]);
    let server = ReferenceServer::start(Behaviour {
        faults,
        ..Behaviour::default()
    })
    .unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    let done = run(&server.url(), log.path(), &parameters(2, &short()), 1).unwrap();
    let requests = table(&done.outputs, "requests");
    let failed = requests
        .text("status")
        .unwrap()
        .into_iter()
        .filter(|s| *s == Some("http_error"))
        .count();
    assert_eq!(failed, 2);
}

#[test]
fn every_shipped_definition_is_yaml_of_its_collection() {
    let shipped = shipped();
    let listed = |collection: &str| -> Vec<&str> {
        shipped
            .iter()
            .filter(|s| s.collection == collection)
            .map(|s| s.name)
            .collect()
    };
    let names = listed("workloads");
    assert!(
        names.is_sorted() && names.contains(&"short-decode") && names.contains(&"shared-prefix")
    );
    let servers = listed("simulated-servers");
    assert!(servers.is_sorted() && servers.contains(&"batching"));
    assert_eq!(names.len() + servers.len(), shipped.len());
    assert!(shipped.iter().all(|s| s.text.contains("description:")));
}

fn with_key(variable: &str) -> Json {
    let settings = json!({
        "workload": short(),
        "arrival": {"closed-loop": {"clients": 1}},
        "requests": 2,
        "api-key-env": variable,
    });
    Load.canonical(&settings, &NoShelf::default()).unwrap()
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a variable that every test process has replaces a key"
)]
fn parameters_and_evidence_hold_the_variable_of_a_key_and_never_the_key() {
    // A variable that every cargo test has, with a value that appears nowhere else.
    const VARIABLE: &str = "CARGO_MANIFEST_DIR";
    let key = std::env::var(VARIABLE).unwrap();
    let parameters = with_key(VARIABLE);
    assert_eq!(parameters["api-key-env"], VARIABLE);
    assert!(!parameters.to_string().contains(&key));
    let behaviour = Behaviour {
        faults: Faults::all(Fault::RepeatKey),
        ..Behaviour::default()
    };
    let server = ReferenceServer::start(behaviour).unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    let failure = run(&server.url(), log.path(), &parameters, 1)
        .err()
        .unwrap();
    let sent = String::from_utf8(server.truth(2).remove(0).request).unwrap();
    assert!(sent.contains(&format!("Authorization: Bearer {key}\r\n")));
    assert!(
        failure.reason.contains("HTTP 401") && !failure.reason.contains(&key),
        "{}",
        failure.reason
    );
    let start = &key.as_bytes()[..key.len().min(8)];
    for output in &failure.evidence {
        let bytes = bytes(&failure.evidence, &output.name);
        assert!(
            !bytes.windows(start.len()).any(|w| w == start),
            "{}",
            output.name
        );
    }
}

#[test]
fn a_cell_without_the_key_it_needs_sends_nothing() {
    let server = ReferenceServer::start(Behaviour::default()).unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    let failure = run(
        &server.url(),
        log.path(),
        &with_key("BENCHTRAIL_NO_SUCH_KEY"),
        1,
    )
    .err()
    .unwrap();
    assert!(
        failure.reason.contains("`BENCHTRAIL_NO_SUCH_KEY`"),
        "{}",
        failure.reason
    );
    assert!(server.truth(0).is_empty());
}

/// Returns a search over the clients of a server that refuses requests without a slot.
fn search(from: u32, up_to: u32) -> Json {
    let settings = json!({
        "workload": short(),
        "arrival": {"closed-loop": {"clients": from}},
        "requests": 60,
        "search": {"up-to": up_to, "bounds": {"e2e-ms": 600_000}, "attainment": 0.9},
    });
    Load.canonical(&settings, &NoShelf::default()).unwrap()
}

fn refusing_above(slots: u32) -> ReferenceServer {
    ReferenceServer::start(Behaviour {
        slots: Some(slots),
        when_full: WhenFull::Refuse,
        gap: std::time::Duration::from_millis(10),
        ..Behaviour::default()
    })
    .unwrap()
}

#[test]
fn a_search_finds_the_slots_of_a_server_and_keeps_every_probe() {
    let server = refusing_above(3);
    let log = tempfile::NamedTempFile::new().unwrap();
    let done = run(&server.url(), log.path(), &search(1, 16), 1).unwrap();
    assert_eq!(done.observations["search"]["kept"], json!(3.0));
    assert_eq!(done.observations["search"]["missed"], json!(4.0));
    let probes = table(&done.outputs, "probes");
    assert_eq!(probes.unit("level").as_deref(), Some("clients"));
    let levels: Vec<f64> = probes
        .float("level")
        .unwrap()
        .into_iter()
        .flatten()
        .collect();
    let verdicts = probes.text("verdict").unwrap();
    // Requests of a wave may resemble each other, so a level may need several probes.
    let decided: Vec<(f64, &str)> = levels
        .iter()
        .zip(&verdicts)
        .filter_map(|(level, verdict)| Some((*level, (*verdict)?)))
        .filter(|(_, verdict)| *verdict != "undecided")
        .collect();
    assert_eq!(
        decided,
        [(1.0, "kept"), (2.0, "kept"), (4.0, "missed"), (3.0, "kept")]
    );
    // The first request of each client is the warm-in.
    assert!(
        probes
            .float("warm_in")
            .unwrap()
            .iter()
            .all(|s| s.is_some_and(|s| s > 0.0))
    );
    let judged = probes.int("requests").unwrap();
    let sent = probes.int("sent").unwrap();
    for ((judged, sent), level) in judged.iter().zip(&sent).zip(&levels) {
        assert_eq!((sent.unwrap() - judged.unwrap()) as f64, *level);
    }
    // Every row of every probe is kept; the cell's own rows are those at the level found.
    let total: i64 = sent.iter().flatten().sum();
    let all = table(&done.outputs, "probe_requests");
    assert_eq!(all.rows() as i64, total);
    assert_eq!(
        all.int("probe").unwrap().into_iter().flatten().max(),
        Some(levels.len() as i64)
    );
    let rows = table(&done.outputs, "requests");
    assert_eq!(Some(rows.rows() as i64), sent.last().copied().flatten());
    assert!(
        rows.text("status")
            .unwrap()
            .iter()
            .all(|s| *s == Some("ok"))
    );
    assert_eq!(
        table(&done.outputs, "cell").value("clients", 0).unwrap(),
        Scalar::Int(3)
    );
}

#[test]
fn a_rate_that_the_warm_in_leaves_no_time_for_is_undecided_and_said_to_be() {
    // Answers take 0.4 s, an overload becomes visible after 2 s, and a probe may last 2.1 s.
    let gap = std::time::Duration::from_millis(100);
    let server = ReferenceServer::start(Behaviour {
        gap,
        ..Behaviour::default()
    })
    .unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    let settings = json!({
        "workload": {"prompts": {"words": {"length": 9}}, "output": {"tokens": 5, "mode": "exact"}},
        "arrival": {"constant": {"rate": 10}},
        "requests": 4,
        "search": {
            "up-to": 20, "bounds": {"ttft-ms": 1000}, "attainment": 0.5, "resolution": 1, "longest": "2100 ms",
        },
    });
    let done = run(
        &server.url(),
        log.path(),
        &Load.canonical(&settings, &NoShelf::default()).unwrap(),
        1,
    )
    .unwrap();
    let search = &done.observations["search"];
    assert_eq!(
        (&search["kept"], &search["undecided"]),
        (&json!(null), &json!(10.0))
    );
    assert!(
        done.warnings
            .iter()
            .any(|note| note.contains("is neither kept nor missed")),
        "{:?}",
        done.warnings
    );
    let probes = table(&done.outputs, "probes");
    assert_eq!(probes.text("verdict").unwrap(), [Some("undecided")]);
    assert_eq!(probes.int("sent").unwrap(), [Some(21)]);
    assert!(probes.float("warm_in").unwrap()[0].unwrap() >= 0.4);
    assert!(probes.int("requests").unwrap() < probes.int("sent").unwrap());
}

#[test]
fn requests_that_fail_count_against_a_level() {
    // The 60 requests of the first level are answered; later connections are closed before any byte.
    let faults = Faults(vec![(70..u64::MAX, Fault::CloseBeforeAnswer)]);
    let server = ReferenceServer::start(Behaviour {
        faults,
        ..Behaviour::default()
    })
    .unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    let done = run(&server.url(), log.path(), &search(1, 4), 1).unwrap();
    assert_eq!(done.observations["search"]["kept"], json!(1.0));
    assert_eq!(done.observations["search"]["missed"], json!(2.0));
}

#[test]
fn a_search_without_bound_or_level_is_refused_with_its_place() {
    let problems = |arrival: Json, search: Json| -> Vec<String> {
        let settings =
            json!({"workload": short(), "arrival": arrival, "requests": 60, "search": search});
        let problems = Load.canonical(&settings, &NoShelf::default()).unwrap_err();
        problems
            .into_iter()
            .map(|p| format!("{}; {}", p.message, p.hint.unwrap_or_default()))
            .collect()
    };
    let closed = || json!({"closed-loop": {"clients": 4}});
    let bounds = || json!({"ttft-ms": 10});
    assert_eq!(
        problems(closed(), json!({"up-to": 8, "bounds": {}})),
        ["without a bound, every level would be met; give at least one, such as `ttft-ms: 200`"]
    );
    assert_eq!(
        problems(json!("burst"), json!({"up-to": 8, "bounds": bounds()})),
        [
            "`burst` arrivals have no level to search over; use closed-loop, constant, poisson or gamma"
        ]
    );
    assert_eq!(
        problems(closed(), json!({"up-to": 2, "bounds": bounds()})),
        ["the search starts at 4 clients, which is above 2; raise `up-to`, or start lower"]
    );
    let constant = || json!({"constant": {"rate": 4}});
    assert_eq!(
        problems(
            constant(),
            json!({"up-to": 8, "bounds": {"e2e-ms": 9500}, "longest": "3 min"})
        ),
        [
            "a rate that is 5 % too high becomes visible only after 200.0 s of arrivals (bound ÷ \
             resolution ÷ attainment), but a probe may last only 3 min; raise `longest`, or \
             use a coarser `resolution`"
        ]
    );
}
