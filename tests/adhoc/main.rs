//! `benchtrail load`: one run against a URL, as a user would run it.

mod folders;
mod generators;
mod keys;
mod limits;
mod running;
mod shell;
mod stalled;
mod tls;
mod words;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use artifacts::Table;
use load::reference::{Behaviour, Fault, Faults, ReferenceServer};
use serde_json::Value;

struct Outcome {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn command(url: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_benchtrail"));
    command
        .args(["load", "--url", url])
        .args(more)
        .stdin(Stdio::null())
        .current_dir(std::env::temp_dir());
    command.env("XDG_CONFIG_HOME", "/nowhere");
    command
}

/// Creates, in a folder, the `run` command of an experiment that loads a running server; `launch` is the part of its
/// definition after the URL.
fn experiment(folder: &Path, url: &str, launch: &str) -> Command {
    let experiment = format!(
        "experiment: elsewhere\nseed: 1\nengines:\n  elsewhere:\n    title: Elsewhere\n    version: \"1\"\n    \
         endpoints: {{health: null}}\n    launch: {{program: {{running: {url}}}{launch}}}\nmodels:\n  reference:\n    \
         title: Reference\n    weights: {{named: {{id: reference}}}}\nstages:\n  machine: {{kind: provision, \
         engine: elsewhere, model: reference}}\n  server: {{kind: serve, needs: [machine]}}\n  steps: {{kind: \
         load, needs: [server], workload: short-decode, arrival: sequential, requests: 2}}\n"
    );
    fs::write(folder.join("elsewhere.yaml"), experiment).expect("a file");
    fs::create_dir_all(folder.join(".benchtrail")).expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_benchtrail"));
    command
        .args(["run", "elsewhere.yaml", "--trust"])
        .current_dir(folder)
        .env("XDG_CONFIG_HOME", "/nowhere");
    command
}

fn outcome(command: &mut Command) -> Outcome {
    let output = command.output().expect("the binary starts");
    Outcome {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

fn run(url: &str, more: &[&str]) -> Outcome {
    outcome(&mut command(url, more))
}

impl Outcome {
    fn ok(self) -> Self {
        assert_eq!(
            self.code,
            Some(0),
            "stdout:\n{}\nstderr:\n{}",
            self.stdout,
            self.stderr
        );
        self
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("{e}:\n{}\n{}", self.stdout, self.stderr))
    }
}

fn server(behaviour: Behaviour) -> ReferenceServer {
    ReferenceServer::start(behaviour).expect("a free port")
}

fn faulty(fault: Fault) -> ReferenceServer {
    server(Behaviour {
        faults: Faults::all(fault),
        ..Behaviour::default()
    })
}

fn table(folder: &Path, name: &str) -> Table {
    let bytes = fs::read(folder.join(format!("{name}.parquet"))).expect("the table was written");
    Table::from_parquet(bytes).expect("it is a table")
}

#[test]
fn a_run_prints_the_table_users_of_other_tools_know() {
    let server = server(Behaviour {
        ttft: Duration::from_millis(5),
        ..Behaviour::default()
    });
    let shown = run(
        &server.url(),
        &[
            "--concurrency",
            "4",
            "--requests",
            "16",
            "--slo",
            "ttft=10000,tpot=10000",
        ],
    )
    .ok();
    for line in [
        "reference at http://127.0.0.1:",
        "openai-completions, streamed, 4 clients, seed 164",
        "Successful requests",
        "Benchmark duration",
        "Request throughput",
        "Output token throughput",
        "Total token throughput",
        "Goodput",
        "req/s with TTFT ≤ 10000 ms and TPOT ≤ 10000 ms",
        "TTFT  time to first token",
        "TPOT  per output token after the first",
        "ICL   between chunks",
        "E2E   to the last token",
        "Send lag of this client",
        "docs/load.md",
    ] {
        assert!(
            shown.stdout.contains(line),
            "{line} is not in:\n{}",
            shown.stdout
        );
    }
    // A short request before them tests the server.
    assert_eq!(server.truth(17).len(), 17);
}

#[test]
fn the_json_counts_what_the_server_sent() {
    let server = server(Behaviour::default());
    let arguments = [
        "--burst",
        "--requests",
        "5",
        "--prompt-words",
        "3..9",
        "--output-tokens",
        "7",
        "--json",
    ];
    let shown = run(&server.url(), &arguments).ok().json();
    assert_eq!(
        (&shown["requests_ok"], &shown["output_tokens"]),
        (&5.into(), &35.into())
    );
    assert_eq!(
        (&shown["arrival"], &shown["complete"]),
        (&"burst".into(), &true.into())
    );
    assert_eq!(shown["icl_ms"]["n"], 30);
    assert_eq!(shown["statuses"]["ok"], 5);
    assert!(shown["goodput_per_s"].is_null() && shown["ttft_scheduled_ms"]["n"] == 5);
}

#[test]
fn a_server_that_refuses_every_request_is_not_sent_all_of_them() {
    for (fault, more, expected) in [
        (Fault::Status(401), vec![], "use --api-key-env"),
        (
            Fault::Status(404),
            vec!["--model", "refrence"],
            "did you mean `reference`?",
        ),
        (Fault::Status(404), vec![], "--api chooses another one"),
    ] {
        let server = faulty(fault);
        let all = [vec!["--requests", "20000"], more].concat();
        let shown = run(&server.url(), &all);
        assert_eq!(shown.code, Some(1));
        assert!(
            shown.stdout.is_empty(),
            "no table of zeros: {}",
            shown.stdout
        );
        assert!(
            shown.stderr.contains("refuses every request"),
            "{}",
            shown.stderr
        );
        assert!(shown.stderr.contains(expected), "{}", shown.stderr);
        // Another thread reads the first answer. On a busy machine, it may begin some milliseconds later.
        let sent = server.truth(1).len();
        assert!(sent < 2_000, "{sent} requests were sent");
    }
}

#[test]
fn a_study_of_a_server_or_of_an_earlier_run_is_written_and_runs() {
    let server = server(Behaviour::default());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ask = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_benchtrail"));
        command
            .args(arguments)
            .current_dir(folder.path())
            .env("XDG_CONFIG_HOME", "/nowhere")
            .env("BENCHTRAIL_TRUST", "1");
        outcome(command.stdin(Stdio::null()))
    };
    fs::create_dir_all(folder.path().join(".benchtrail")).expect("a folder");
    let url = server.url();
    ask(&[
        "init",
        "there",
        "--from-url",
        &url,
        "--clients",
        "1,2",
        "--requests",
        "4",
        "--repetitions",
        "2",
    ])
    .ok();
    let ran = ask(&["run", "there.yaml", "--quiet"]);
    assert!(
        folder.path().join("reports/there/report.md").is_file(),
        "{}\n{}",
        ran.stdout,
        ran.stderr
    );

    let arguments = [
        "load",
        "--url",
        &url,
        "--constant",
        "50",
        "--requests",
        "6",
        "--output-tokens",
        "3",
        "--out",
        "rows",
    ];
    ask(&arguments).ok();
    ask(&["init", "again", "--from-load", "rows", "--repetitions", "1"]).ok();
    let text = fs::read_to_string(folder.path().join("again.yaml")).expect("it is written");
    assert!(text.contains("{\"constant\":{\"rate\":50.0}}"), "{text}");
    assert!(text.contains("requests: 6"), "{text}");
    ask(&["run", "again.yaml", "--quiet"]);
    let counted = ask(&[
        "sql",
        "again.yaml",
        "select sum(output_tokens) as n from requests",
        "--csv",
    ])
    .ok();
    assert_eq!(
        counted.stdout.trim(),
        "n\n18",
        "six answers of three tokens"
    );
}

#[test]
fn several_levels_are_one_table_with_a_figure_and_a_folder_each() {
    let server = server(Behaviour {
        ttft: Duration::from_millis(5),
        ..Behaviour::default()
    });
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("sweep");
    let path = out.to_str().expect("UTF-8");
    let url = server.url();
    let sweep = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_benchtrail"));
        outcome(
            command
                .arg("load")
                .args(arguments)
                .current_dir(folder.path())
                .stdin(Stdio::null()),
        )
    };
    let shown = sweep(&[
        &url,
        "--concurrency",
        "1,2,4",
        "--num-prompts",
        "12",
        "--out",
        path,
    ])
    .ok();
    for level in ["1", "2", "4"] {
        let rows = table(&out.join(format!("concurrency-{level}")), "requests").rows();
        assert_eq!(rows, 12, "{level}");
    }
    assert!(
        shown.stdout.contains("clients") && shown.stdout.contains("knee"),
        "{}",
        shown.stdout
    );
    let svg = fs::read_to_string(out.join("sweep.svg")).expect("the figure");
    assert_eq!(svg.matches("<circle").count(), 6);

    let rates = sweep(&[
        &url,
        "--request-rate",
        "200,inf",
        "--num-prompts",
        "6",
        "--json",
    ])
    .ok()
    .json();
    let levels = rates["levels"].as_array().expect("levels");
    assert_eq!(levels.len(), 2);
    assert_eq!(
        (&levels[1]["level"], &levels[1]["arrival"]),
        (&"inf".into(), &"burst".into())
    );
    assert_eq!(levels[1]["requests_ok"], 6);
}

#[test]
fn prompts_of_a_file_are_sent_and_few_requests_carry_few_quantiles() {
    let server = server(Behaviour::default());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("prompts.csv");
    fs::write(&file, "prompt\n\"first, of two\"\nsecond of two\n").expect("a file");
    let file = file.to_str().expect("UTF-8");
    let more = ["--dataset", file, "--requests", "4", "--no-preflight"];
    let shown = run(&server.url(), &more).ok();
    let sent = server.truth(4);
    let with = |text: &str| {
        sent.iter()
            .filter(|t| String::from_utf8_lossy(&t.request).contains(text))
            .count()
    };
    assert_eq!((with("first, of two"), with("second of two")), (2, 2));
    let note = "note: with 4 requests, p90, p95, p99 are hardly more than the largest value";
    assert!(shown.stdout.contains(note), "{}", shown.stdout);
    let wrong = run(
        &server.url(),
        &["--dataset", folder.path().to_str().expect("UTF-8")],
    );
    assert_eq!(wrong.code, Some(2));
    assert!(
        wrong.stderr.contains("a folder, not a file"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn more_requests_than_the_disk_can_hold_are_refused_at_once() {
    let server = server(Behaviour::default());
    let shown = run(&server.url(), &["--requests", "4000000000"]);
    assert_eq!(shown.code, Some(4), "{}", shown.stderr);
    assert!(shown.stderr.contains("GB free"), "{}", shown.stderr);
}

#[test]
fn a_folder_of_a_run_and_a_parquet_file_are_shown_and_asked_like_a_study() {
    let server = server(Behaviour::default());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("rows");
    let path = out.to_str().expect("UTF-8");
    run(&server.url(), &["--requests", "5", "--out", path]).ok();
    let ask = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_benchtrail"));
        outcome(command.args(arguments).current_dir(folder.path()))
    };
    let shown = ask(&["show", path, "requests", "--columns", "status"]).ok();
    assert_eq!(shown.stdout.matches("ok").count(), 5, "{}", shown.stdout);
    let file = out.join("requests.parquet");
    let same = ask(&["show", file.to_str().expect("UTF-8"), "--columns", "status"]).ok();
    assert_eq!(same.stdout, shown.stdout);
    let counted = ask(&["sql", path, "select count(*) as n from requests", "--csv"]).ok();
    assert_eq!(counted.stdout.trim(), "n\n5");
    assert!(ask(&["sql", path]).ok().stdout.contains("chunks"));
    for (name, remedy) in [
        ("request", "did you mean `requests`?"),
        ("zzzz", "cell, chunks"),
    ] {
        let unknown = ask(&["show", path, name]);
        assert_eq!(unknown.code, Some(5));
        assert!(unknown.stderr.contains(remedy), "{}", unknown.stderr);
    }
}

#[test]
fn the_tables_are_those_of_a_load_stage() {
    let server = server(Behaviour::default());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("rows");
    let path = out.to_str().expect("UTF-8");
    let arguments = ["--requests", "4", "--warmup", "2", "--out", path];
    run(&server.url(), &arguments).ok();
    assert_eq!(table(&out, "requests").rows(), 6);
    assert_eq!(table(&out, "prompts").rows(), 6);
    assert_eq!(table(&out, "cell").rows(), 1);
    assert_eq!(table(&out, "chunks").rows(), 6 * 24);
    assert!(table(&out, "server_metrics").rows() >= 2);
    let again = run(&server.url(), &arguments);
    assert_eq!(again.code, Some(2));
    assert!(
        again.stderr.contains("requests.parquet already exists"),
        "{}",
        again.stderr
    );
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the binary must be found on the search path"
)]
fn what_runs_beside_the_load_is_sampled_into_the_folder() {
    let server = server(Behaviour::default());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = "#!/bin/sh\nwhile echo '0, GPU-1, Fake, 123.5, 1, 2, 3, 50, 5, 6, 7, 0x0'; do sleep 0.05; done\n";
    // A shell writes the file, since a file that this process holds open for writing cannot be executed.
    let write = "printf '%s' \"$1\" > nvidia-smi && chmod +x nvidia-smi";
    let written = Command::new("sh")
        .args(["-c", write, "sh", script])
        .current_dir(folder.path())
        .status()
        .expect("a shell");
    assert!(written.success());
    let out = folder.path().join("rows");
    let pid = std::process::id().to_string();
    let arguments = [
        "--requests",
        "4",
        "--gpu",
        "nvidia-smi",
        "--telemetry-interval",
        "50 ms",
        "--server-pid",
        &pid,
        "--json",
        "--out",
        out.to_str().expect("UTF-8"),
    ];
    let path = std::env::var_os("PATH").expect("a search path");
    let path = std::iter::once(folder.path().to_owned()).chain(std::env::split_paths(&path));
    let path = std::env::join_paths(path).expect("no colons");
    let shown = outcome(command(&server.url(), &arguments).env("PATH", path))
        .ok()
        .json();
    assert_eq!(shown["observations"]["gpu_telemetry_source"], "nvidia-smi");
    assert_eq!(
        table(&out, "gpu_telemetry")
            .float("power_w")
            .expect("a column")[0],
        Some(123.5)
    );
    assert!(table(&out, "host_telemetry").rows() >= 2);
    let roles = table(&out, "process_telemetry");
    let roles = roles.text("role").expect("a column");
    assert!(roles.contains(&Some("client")));
}

#[test]
fn a_trace_decides_when_requests_come_and_how_long_they_are() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trace = folder.path().join("trace.csv");
    fs::write(
        &trace,
        "timestamp_ms,input_words,output_tokens\n0,4,3\n40,5,2\n80,6,1\n",
    )
    .expect("a file");
    let (server, path) = (server(Behaviour::default()), trace.to_str().expect("UTF-8"));
    let shown = run(&server.url(), &["--trace", path, "--speed", "2", "--json"])
        .ok()
        .json();
    assert_eq!(
        (&shown["requests_ok"], &shown["output_tokens"]),
        (&3.into(), &6.into())
    );
    let wrong = run(&server.url(), &["--trace", path, "--requests", "4"]);
    let said = "error: the trace holds 3 requests, but 4 are needed\nhint: give `--requests 3` or less, or leave it out\n";
    assert_eq!((wrong.code, wrong.stderr.as_str()), (Some(2), said));
}

#[test]
fn a_ladder_and_a_ramp_send_what_fits_into_their_time() {
    let server = server(Behaviour::default());
    let sent = |more: &[&str]| {
        run(&server.url(), &[more, &["--json"]].concat())
            .ok()
            .json()["requests_ok"]
            .clone()
    };
    // Poisson arrivals with means of 14 and 20: four standard deviations around them.
    let steps = sent(&["--steps", "20:0.2,100:0.1"]).as_u64();
    assert!(steps.is_some_and(|n| (1..=29).contains(&n)), "{steps:?}");
    let ramp = sent(&["--ramp", "0:100:0.4"]).as_u64();
    assert!(ramp.is_some_and(|n| (3..=38).contains(&n)), "{ramp:?}");
    // With a cap, none that waits for a place is dropped.
    let capped = sent(&["--steps", "20:0.2,100:0.1", "--max-concurrency", "2"]);
    assert_eq!(capped, 14);
    assert_eq!(run(&server.url(), &["--steps", "20"]).code, Some(2));
}

#[test]
fn one_seed_sends_the_same_prompts_and_another_seed_others() {
    let prompts = |seed: &str| {
        let server = server(Behaviour::default());
        let more = ["--requests", "3", "--output-tokens", "2", "--no-preflight"];
        run(&server.url(), &[&more[..], &["--seed", seed]].concat()).ok();
        let bodies = server
            .truth(3)
            .into_iter()
            .map(|t| String::from_utf8(t.request).expect("UTF-8"));
        bodies
            .map(|b| b.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(prompts("1"), prompts("1"));
    assert_ne!(prompts("1"), prompts("2"));
}

#[test]
fn a_base_of_the_openai_api_and_a_given_model_are_taken_as_meant() {
    let server = server(Behaviour::default());
    let url = format!("{}/v1/", server.url());
    run(
        &url,
        &["--requests", "1", "--model", "mine", "--api", "openai-chat"],
    )
    .ok();
    let request = String::from_utf8(server.truth(1).remove(0).request).expect("UTF-8");
    assert!(
        request.starts_with("POST /v1/chat/completions ") && request.contains("\"model\":\"mine\""),
        "{request}"
    );
}

#[test]
fn a_server_that_is_not_there_is_named_with_a_remedy() {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|l| l.local_addr())
        .expect("a port")
        .port();
    let shown = run(&format!("http://127.0.0.1:{port}"), &[]);
    assert_eq!(shown.code, Some(1));
    let expected = format!("error: cannot connect to http://127.0.0.1:{port}: ");
    assert!(
        shown.stderr.starts_with(&expected) && shown.stderr.contains("hint: start the server"),
        "{}",
        shown.stderr
    );
}

/// Two running servers with the same description: the results of one do not count for the other.
#[test]
fn a_server_at_another_url_is_another_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, other) = (server(Behaviour::default()), server(Behaviour::default()));
    let executed = |url: &str| {
        let run = outcome(&mut experiment(folder.path(), url, ""));
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let line = run.stdout.lines().find(|line| line.contains(" executed"));
        line.unwrap_or(&run.stdout).to_owned()
    };
    assert!(executed(&one.url()).starts_with("3 cells executed"));
    assert!(executed(&other.url()).starts_with("3 cells executed"));
    // The results of the first server remain its own.
    let again = executed(&one.url());
    assert!(again.starts_with("0 cells executed"), "{again}");
}

#[test]
fn wrong_arguments_are_reported_with_the_right_ones() {
    let cases: [(&str, &[&str], &str); 9] = [
        (
            "http://127.0.0.1:1",
            &["--ca-file", "ca.pem"],
            "is not https://",
        ),
        ("127.0.0.1:1", &[], "must begin with http://"),
        (
            "http://127.0.0.1:1",
            &["--workload", "short-decod"],
            "short-decod",
        ),
        ("http://127.0.0.1:1", &["--rate", "0"], "greater than 0"),
        (
            "http://127.0.0.1:1",
            &["--rate", "1", "--burst"],
            "cannot be used with",
        ),
        ("http://127.0.0.1:1", &["--slo", "itl=3"], "write tpot:3"),
        ("http://127.0.0.1:1", &["--timeout", "30"], "30 s"),
        (
            "http://127.0.0.1:1",
            &["--header", "X-Route blue"],
            "expected `NAME: VALUE`",
        ),
        (
            "http://127.0.0.1:1",
            &["--header", "Authorization: Bearer 1"],
            "it is a secret",
        ),
    ];
    for (url, arguments, part) in cases {
        let shown = run(url, arguments);
        assert_eq!(shown.code, Some(2), "{arguments:?}: {}", shown.stderr);
        assert!(
            shown.stderr.contains(part),
            "`{part}` is not in:\n{}",
            shown.stderr
        );
    }
}

#[test]
fn a_run_without_any_answer_fails_and_shows_the_first_error() {
    let server = faulty(Fault::Status(503));
    let shown = run(&server.url(), &["--requests", "3"]);
    assert_eq!(shown.code, Some(1));
    assert!(
        shown.stdout.contains("3 http_error, the first: HTTP 503"),
        "{}",
        shown.stdout
    );
    assert!(
        shown.stderr.contains("no request was answered"),
        "{}",
        shown.stderr
    );
}

#[test]
fn answers_in_one_piece_are_counted_beside_their_tpot_of_nothing() {
    let server = faulty(Fault::OnePiece);
    let outcome = run(&server.url(), &["--requests", "3", "--output-tokens", "4"]).ok();
    assert!(
        outcome.stdout.contains("Answers in one piece"),
        "{}",
        outcome.stdout
    );
    assert!(
        outcome
            .stderr
            .contains("warning: 3 of 3 streamed answers arrived in one piece"),
        "{}",
        outcome.stderr
    );
    let counted = run(
        &server.url(),
        &["--requests", "3", "--output-tokens", "4", "--json"],
    )
    .ok()
    .json();
    assert_eq!(
        (
            &counted["answers_in_one_piece"],
            &counted["streamed_answers"]
        ),
        (&3.into(), &3.into())
    );
    assert_eq!(counted["tpot_ms"]["max"], 0.0);
}

#[test]
fn answers_without_a_count_are_noted_because_their_chunks_count_as_tokens() {
    let server = faulty(Fault::NoUsage);
    let more = ["--requests", "2", "--output-tokens", "4"];
    let shown = run(&server.url(), &more).ok().stdout;
    let note = "note: 2 answers gave no count; their chunks were counted as tokens, so token figures and TPOT are per chunk";
    assert!(shown.contains(note), "{shown}");
    let json = [&more[..], &["--json"]].concat();
    let counted = run(&server.url(), &json).ok().json();
    assert_eq!(counted["answers_counted_in_chunks"], 2);
}

#[test]
fn a_stopped_run_keeps_what_it_has() {
    let server = server(Behaviour {
        ttft: Duration::from_millis(20),
        ..Behaviour::default()
    });
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().to_str().expect("UTF-8");
    let mut command = command(&server.url(), &["--requests", "100000", "--out", out]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    // On a busy machine, creating this many prompts takes longer than the server waits for one.
    while server.truth(5).len() < 5 {
        let ended = child.try_wait().expect("the child can be asked");
        assert_eq!(ended, None, "it ended before it was stopped");
    }
    let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it can be stopped");
    let output = child.wait_with_output().expect("it ends");
    let shown = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(output.status.code(), Some(130), "{shown}");
    assert!(
        shown.contains("Requests never sent") && shown.contains("TTFT"),
        "{shown}"
    );
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("stopped by the user: the result covers")
    );
    assert!((4..100_000).contains(&table(folder.path(), "requests").rows()));
}

#[test]
fn the_key_goes_to_the_server_and_nowhere_else() {
    const KEY: &str = "sk-do-not-tell-0123456789";
    let sent = server(Behaviour::default());
    let mut with_key = command(
        &sent.url(),
        &["--requests", "1", "--api-key-env", "LOAD_TEST_KEY"],
    );
    outcome(with_key.env("LOAD_TEST_KEY", KEY)).ok();
    let request = String::from_utf8(sent.truth(1).remove(0).request).expect("UTF-8");
    assert!(
        request.contains(&format!("Authorization: Bearer {KEY}\r\n")),
        "{request}"
    );

    let refusing = faulty(Fault::RepeatKey);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().to_str().expect("UTF-8");
    let mut with_key = command(
        &refusing.url(),
        &[
            "--requests",
            "2",
            "--no-preflight",
            "--api-key-env",
            "LOAD_TEST_KEY",
            "--out",
            out,
        ],
    );
    let shown = outcome(with_key.env("LOAD_TEST_KEY", KEY));
    assert_eq!(shown.code, Some(1));
    assert!(shown.stderr.contains(": HTTP 401"), "{}", shown.stderr);
    // The error text is cut within the key, and not even the start of the key may remain.
    assert!(!(shown.stdout + &shown.stderr).contains("sk-do"));
    for entry in fs::read_dir(folder.path()).expect("a folder") {
        let path = entry.expect("an entry").path();
        let bytes = fs::read(&path).expect("a file");
        assert!(
            !bytes.windows(5).any(|w| w == b"sk-do"),
            "{}",
            path.display()
        );
    }
    let table = table(folder.path(), "requests");
    assert!(
        matches!(table.value("error", 0), Ok(artifacts::Scalar::Text(e)) if e.contains("wrong key") && !e.contains("sk-do"))
    );
}

#[test]
fn a_key_that_is_not_set_is_reported_before_anything_is_sent() {
    let server = server(Behaviour::default());
    let shown = run(&server.url(), &["--api-key-env", "LOAD_TEST_NO_SUCH_KEY"]);
    assert_eq!(shown.code, Some(4));
    assert!(
        shown.stderr.contains("`LOAD_TEST_NO_SUCH_KEY`"),
        "{}",
        shown.stderr
    );
    assert!(server.truth(0).is_empty());
}
