//! Calibration against the reference server as a process.

use std::collections::BTreeMap;
use std::path::PathBuf;

use artifacts::{Store, Table};
use calibrate::{Bound, Calibrate, Calibration, Grid, calibrate};
use load::reference::{Behaviour, Launcher, ReferenceServer};
use load::{Origin, TimeSpan};
use pipeline::Leases;
use pipeline::stage::{
    CellStatus, Content, Control, Coordinates, Done, Input, InputCell, Job, Json, NoLibrary,
    Output, StageKind,
};
use serde_json::json;

fn launcher() -> Launcher {
    Launcher {
        program: PathBuf::from(env!("CARGO_BIN_EXE_reference-server")),
        arguments: Vec::new(),
        ca_file: None,
    }
}

fn small(bound: Bound) -> Calibration {
    let grid = Grid {
        concurrency: vec![1, 4],
        rate: vec![40.0],
        gap: vec![TimeSpan::milliseconds(2)],
        ttft: TimeSpan::milliseconds(5),
        tokens: 8,
        duration: TimeSpan::milliseconds(300),
        bound,
        ..Grid::default()
    };
    let origin = Origin {
        seed: 3,
        replicate: Coordinates::default(),
    };
    calibrate(&grid, &launcher(), &origin, &Control::quiet()).unwrap()
}

fn wide() -> Bound {
    Bound {
        p50: TimeSpan::seconds(100),
        p99: TimeSpan::seconds(100),
    }
}

#[test]
fn every_request_is_found_in_the_servers_log_and_compared_one_by_one() {
    let calibration = small(wide());
    assert_eq!(calibration.points.len(), 3);
    for point in &calibration.points {
        assert_eq!((point.joined, point.lost), (point.point.requests, 0));
        let n = |metric: &str| point.errors_of(metric).unwrap().absolute.n as u64;
        let requests = point.point.requests;
        assert_eq!(
            (n("ttft"), n("e2e"), n("send_lag")),
            (requests, requests, requests)
        );
        assert_eq!((n("stamp"), n("icl")), (requests * 8, requests * 7));
        // The server's behaviour is known: on any machine, it waits at least this long.
        assert!(point.errors_of("ttft").unwrap().truth.min >= 5.0);
        // A chunk cannot arrive before it is sent. The two readings of the shared clock that connect the processes'
        // clocks may be off by some microseconds.
        let stamp = point.errors_of("stamp").unwrap();
        assert!(stamp.bias > -0.05, "{stamp:?}");
    }
}

#[test]
fn the_covered_range_is_what_keeps_the_bound_and_nothing_keeps_an_impossible_one() {
    let calibration = small(wide());
    let covered = calibration.covered().unwrap();
    assert_eq!(calibration.instrument()["points_within_bound"], json!(3));
    assert!(
        covered.chunk_rate > 0.0 && covered.concurrency >= 4,
        "{covered:?}"
    );
    let nothing = Calibration {
        bound: Bound {
            p50: TimeSpan::default(),
            p99: TimeSpan::default(),
        },
        ..calibration
    };
    assert_eq!(nothing.covered(), None);
    assert_eq!(nothing.instrument()["covered"], json!(null));
}

#[test]
fn the_table_has_a_row_for_each_point_and_metric_with_the_machine() {
    let table = small(wide()).table().unwrap();
    assert_eq!(table.rows(), 15);
    let metrics: Vec<_> = table
        .text("metric")
        .unwrap()
        .into_iter()
        .take(5)
        .flatten()
        .collect();
    assert_eq!(metrics, ["ttft", "e2e", "icl", "stamp", "send_lag"]);
    assert_eq!(table.unit("cpu_per_chunk").as_deref(), Some("us"));
    assert!(
        table
            .names()
            .iter()
            .all(|name| table.description(name).is_some())
    );
    assert!(
        table
            .boolean("within_bound")
            .unwrap()
            .iter()
            .all(|kept| *kept == Some(true))
    );
}

#[test]
fn a_calibrate_stage_checks_its_grid_and_fills_in_what_is_not_said() {
    let kind = Calibrate::default();
    let full = kind
        .canonical(&json!({"concurrency": [2], "gap": ["1000 us"]}), &NoLibrary)
        .unwrap();
    assert_eq!(
        (&full["gap"], &full["bound"]["p99"]),
        (&json!(["1 ms"]), &json!("20 ms"))
    );
    assert_eq!(kind.canonical(&full, &NoLibrary).unwrap(), full);
    let wrong = kind
        .canonical(&json!({"rate": [0.0], "tokens": 1}), &NoLibrary)
        .unwrap_err();
    assert_eq!(wrong.len(), 2);
    let wrong = kind
        .canonical(
            &json!({"account": {"requests": 0, "tokens": 1}}),
            &NoLibrary,
        )
        .unwrap_err();
    let messages: Vec<&str> = wrong
        .iter()
        .map(|problem| problem.message.as_str())
        .collect();
    assert_eq!(
        messages,
        [
            "requests must be at least 1, got 0",
            "tokens must be at least 2, got 1"
        ]
    );
}

/// Returns parameters of a short calibration, with the account of a server over an API.
fn parameters(api: &str) -> Json {
    let settings = json!({
        "concurrency": [1], "gap": ["1 ms"], "ttft": "1 ms", "tokens": 2, "duration": "20 ms",
        "account": {"concurrency": [1, 3], "requests": 6, "words": 5, "tokens": 4, "api": api},
    });
    Calibrate::default()
        .canonical(&settings, &NoLibrary)
        .unwrap()
}

/// Runs or rehearses the stage with a server among its needs that takes 20 ms to its first token.
fn with_a_server(api: &str, rehearsed: bool) -> Done {
    let ttft = std::time::Duration::from_millis(20);
    let server = ReferenceServer::start(Behaviour {
        ttft,
        ..Behaviour::default()
    })
    .unwrap();
    let kind = Calibrate {
        launcher: Some(launcher()),
    };
    let scratch = tempfile::tempdir().unwrap();
    let cell = InputCell {
        coordinates: Coordinates::default(),
        status: CellStatus::Ok,
        reason: None,
        parameters: json!({}),
        outputs: BTreeMap::new(),
        record: None,
        live: Some(json!({
            "base_url": server.url(),
            "model": "reference",
            "api": "openai-completions",
            "endpoints": {"completions": "/v1/completions"},
            "pid": std::process::id(),
        })),
    };
    let job = Job {
        experiment: "test",
        stage: "calibration",
        coordinates: &Coordinates::default(),
        parameters: &parameters(api),
        seed: 164,
        replicate: &Coordinates::default(),
        inputs: &[Input {
            stage: "server".into(),
            kind: "serve".into(),
            needs: Vec::new(),
            cells: vec![cell],
        }],
        store: &Store::open(scratch.path()).unwrap(),
        files: &Default::default(),
        scratch: scratch.path(),
        control: &Control::quiet(),
        leases: &Leases::new(scratch.path(), "test", "calibration"),
        study: None,
    };
    match rehearsed {
        true => kind.rehearse(&job, 1.0).unwrap(),
        false => kind.run(&job).unwrap(),
    }
}

fn table(outputs: &[Output], name: &str) -> Table {
    let output = outputs.iter().find(|output| output.name == name).unwrap();
    let Content::Bytes(bytes) = &output.content else {
        panic!("{name} is a file");
    };
    Table::from_parquet(bytes.clone()).unwrap()
}

#[test]
fn time_that_a_server_does_not_account_for_is_listed_by_clients_and_metric() {
    let done = with_a_server("llama-cpp-completion", false);
    let account = table(&done.outputs, "server_account");
    assert_eq!(account.int("concurrency").unwrap(), [1, 1, 3, 3].map(Some));
    let metrics = ["ttft_beyond_server", "e2e_beyond_server"].map(Some);
    assert_eq!(account.text("metric").unwrap(), [metrics, metrics].concat());
    for column in ["n", "requests", "answered"] {
        assert_eq!(account.int(column).unwrap(), [Some(6); 4], "{column}");
    }
    // The server reports 1.5 ms for the prompt and 2.5 ms for the rest, and takes 20 ms.
    let least = account.float("min").unwrap();
    assert!(
        least[0].unwrap() >= 18.5 && least[1].unwrap() >= 16.0,
        "{least:?}"
    );
    assert_eq!(account.unit("p99").as_deref(), Some("ms"));
    assert!(
        account
            .names()
            .iter()
            .all(|name| account.description(name).is_some())
    );
    assert!(!done.observations.contains_key("server_account"));
}

#[test]
fn a_server_that_tells_no_timings_leaves_no_account_and_the_reason() {
    let done = with_a_server("openai-completions", false);
    assert!(
        done.outputs
            .iter()
            .all(|output| output.name != "server_account")
    );
    assert_eq!(
        done.observations["server_account"],
        "absent: the server's answers report no timings"
    );
    assert!(table(&done.outputs, "calibration").rows() > 0);
}

#[test]
fn a_dry_run_makes_up_the_tables_that_a_run_leaves() {
    let (measured, made_up) = (
        with_a_server("llama-cpp-completion", false),
        with_a_server("llama-cpp-completion", true),
    );
    let shape = |done: &Done, name: &str| {
        let table = table(&done.outputs, name);
        (
            table
                .names()
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>(),
            table.rows(),
        )
    };
    for name in ["calibration", "server_account"] {
        assert_eq!(shape(&made_up, name), shape(&measured, name), "{name}");
    }
    assert!(
        made_up
            .outputs
            .iter()
            .any(|output| output.name == "instrument")
    );
}

#[test]
fn a_calibration_over_tls_trusts_a_certificate_of_its_own_and_says_so() {
    let grid = Grid {
        concurrency: vec![2],
        rate: vec![],
        gap: vec![TimeSpan::milliseconds(1)],
        ttft: TimeSpan::milliseconds(2),
        tokens: 4,
        duration: TimeSpan::milliseconds(50),
        bound: wide(),
        tls: true,
        ..Grid::default()
    };
    let origin = Origin {
        seed: 3,
        replicate: Coordinates::default(),
    };
    let calibration = calibrate(&grid, &launcher(), &origin, &Control::quiet()).unwrap();
    assert_eq!(calibration.points[0].lost, 0);
    assert_eq!(calibration.instrument()["tls"], json!(true));
    assert!(
        calibration
            .table()
            .unwrap()
            .boolean("tls")
            .unwrap()
            .iter()
            .all(|tls| *tls == Some(true))
    );
    assert!(
        small(wide())
            .table()
            .unwrap()
            .boolean("tls")
            .unwrap()
            .iter()
            .all(|tls| *tls == Some(false))
    );
}

#[test]
fn an_unknown_argument_of_the_server_is_an_error_of_the_calibration() {
    let wrong = Launcher {
        arguments: vec!["--nonsense".into(), "1".into()],
        ..launcher()
    };
    let error = wrong.start(&[]).unwrap_err().to_string();
    assert!(
        error.ends_with("ended without reporting its address"),
        "{error}"
    );
}
