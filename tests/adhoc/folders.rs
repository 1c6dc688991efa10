//! The folders that `load --out` and `--save-result` leave, opened by the other commands and by the import.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use load::reference::{Behaviour, Fault, ReferenceServer};

use crate::{Outcome, faulty, outcome, run, server};

/// Runs the binary in a folder, as a separate project.
fn ask(folder: &Path, arguments: &[&str]) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_benchtrail"));
    command
        .args(arguments)
        .current_dir(folder)
        .env("XDG_CONFIG_HOME", "/nowhere")
        .env_remove("BENCHTRAIL_STORE");
    outcome(&mut command)
}

/// A server with plausible times: the usual gates would exclude the rows of a faster one.
fn plausible() -> ReferenceServer {
    server(Behaviour {
        ttft: Duration::from_millis(20),
        gap: Duration::from_millis(2),
        ..Behaviour::default()
    })
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(folder.path().join(".benchtrail")).expect("a store folder");
    folder
}

#[test]
fn a_folder_of_rows_is_a_study_that_every_command_opens() {
    let server = plausible();
    let folder = folder();
    let here = folder.path();
    for name in ["a", "b"] {
        let out = here.join(name);
        let out = out.to_str().expect("UTF-8");
        run(&server.url(), &["--requests", "6", "--out", out]).ok();
    }
    let before = fs::read_dir(here.join("a")).expect("a folder").count();
    let shown = ask(here, &["show", "a", "load.requests", "--json"]).ok();
    assert_eq!(shown.json()["rows"][5]["status"], "ok");
    let cells = ask(here, &["show", "a", "results.cells"]).ok();
    assert!(cells.stdout.contains("ttft_ms_p50"), "{}", cells.stdout);
    let diff = ask(here, &["diff", "a", "b"]).ok();
    assert!(diff.stdout.contains("from a to b"), "{}", diff.stdout);
    assert!(
        diff.stdout.contains("no replication of launches"),
        "{}",
        diff.stdout
    );
    ask(here, &["explore", "a", "--export", "a.html"]).ok();
    assert!(fs::metadata(here.join("a.html")).expect("a page").len() > 50_000);
    assert!(
        ask(here, &["ls", "a"])
            .ok()
            .stdout
            .contains("load.requests")
    );
    let after = fs::read_dir(here.join("a")).expect("a folder").count();
    assert_eq!(after, before, "reading changes nothing in the folder");

    let outcome = ask(here, &["report", "a"]).ok();
    assert!(outcome.stdout.contains("a/report.md"), "{}", outcome.stdout);
    let report = fs::read_to_string(here.join("a/report.md")).expect("a report");
    assert!(report.contains("`results.cells`"), "{report}");
    let why = outcome
        .stdout
        .lines()
        .find_map(|l| l.trim().strip_prefix("benchtrail why "));
    let (place, number) = why.expect("a command").split_once(" '").expect("a number");
    ask(here, &["why", place, number.trim_end_matches('\'')]).ok();
    ask(here, &["audit", "a/report.md"]).ok();
    // Writes the report of an executed study again.
    ask(here, &["report", "a/study.yaml", "--out", "again.md"]).ok();
    assert_eq!(
        fs::read_to_string(here.join("again.md")).expect("a report"),
        report
    );
    let none = ask(here, &["diff", "a", "."]);
    assert_eq!(none.code, Some(2));
    assert!(
        none.stderr.contains("is a folder, not a study"),
        "{}",
        none.stderr
    );
}

#[test]
fn a_folder_of_levels_is_a_study_with_an_axis() {
    let server = plausible();
    let folder = folder();
    let here = folder.path();
    for (name, levels) in [
        ("clients", ["--concurrency", "1,4"]),
        ("rates", ["--rate", "200,inf"]),
    ] {
        let out = here.join(name);
        let out = out.to_str().expect("UTF-8");
        let more = [levels[0], levels[1], "--requests", "6", "--out", out];
        run(&server.url(), &more).ok();
    }
    let query = "select concurrency, count(*) as n from requests group by concurrency";
    let counted = ask(here, &["sql", "clients", query, "--csv"]).ok();
    assert_eq!(counted.stdout.trim(), "concurrency,n\n1,6\n4,6");
    let report = ask(here, &["report", "clients"]).ok();
    assert!(
        report.stdout.contains("6 cells") || report.stdout.contains("5 cells"),
        "{}",
        report.stdout
    );
    let text = fs::read_to_string(here.join("clients/report.md")).expect("a report");
    assert!(text.contains("throughput.svg"), "{text}");
    ask(here, &["report", "rates"]).ok();
    let listed = ask(here, &["sql", "rates", "--csv"]).ok();
    assert!(
        listed.stdout.starts_with("table,also,cells,columns\n"),
        "{}",
        listed.stdout
    );
    assert!(
        listed.stdout.contains("\nload.requests,"),
        "{}",
        listed.stdout
    );
}

#[test]
fn a_sweep_of_rates_with_bounds_shows_goodput_beside_throughput() {
    let server = plausible();
    let folder = folder();
    let here = folder.path();
    let out = here.join("sweep");
    let shown = run(
        &server.url(),
        &[
            "--rate",
            "50,100,200",
            "--requests",
            "6",
            "--goodput",
            "ttft:10s",
            "e2e:1ns",
            "--out",
            out.to_str().expect("UTF-8"),
        ],
    )
    .ok();
    let heading = shown.stdout.lines().find(|line| line.contains("goodput/s"));
    let words: Vec<&str> = heading.expect("a heading").split_whitespace().collect();
    let at = |word: &str| words.iter().position(|w| *w == word);
    assert_eq!(
        at("goodput/s"),
        at("answered/s").map(|at| at + 1),
        "{words:?}"
    );
    // No answer can come within a nanosecond.
    let first = shown
        .stdout
        .lines()
        .find(|line| line.trim_start().starts_with("50 "));
    assert!(
        first.is_some_and(|line| line.contains(" 0.00")),
        "{}",
        shown.stdout
    );
    let svg = fs::read_to_string(out.join("sweep.svg")).expect("the figure");
    assert!(svg.contains("within the bounds (goodput)"), "{svg}");
    assert_eq!(svg.matches("<circle").count(), 12);

    let query =
        "select request_rate, goodput, n_met, n_ok from \"results.goodput\" order by request_rate";
    let asked = ask(here, &["sql", "sweep", query, "--csv"]).ok().stdout;
    assert_eq!(
        asked.trim(),
        "request_rate,goodput,n_met,n_ok\n50,0,0,6\n100,0,0,6\n200,0,0,6"
    );
    ask(here, &["report", "sweep"]).ok();
    let report = fs::read_to_string(here.join("sweep/report.md")).expect("a report");
    assert!(
        report.contains("goodput.svg") && report.contains("answered.svg"),
        "{report}"
    );
    ask(here, &["show", "sweep", "results.goodput"]).ok();
    ask(here, &["ls", "sweep"]).ok();
    ask(here, &["diff", "sweep", "sweep"]).ok();
    ask(here, &["explore", "sweep", "--export", "sweep.html"]).ok();
}

#[test]
fn a_table_that_is_damaged_is_named() {
    let server = server(Behaviour::default());
    let folder = folder();
    let out = folder.path().join("rows");
    run(
        &server.url(),
        &["--requests", "2", "--out", out.to_str().expect("UTF-8")],
    )
    .ok();
    fs::write(out.join("chunks.parquet"), "PAR1 cut off").expect("a file");
    let outcome = ask(folder.path(), &["diff", "rows", "rows"]);
    assert_eq!(outcome.code, Some(1), "{}", outcome.stdout);
    assert!(
        outcome.stderr.contains("chunks.parquet"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_result_in_the_layout_of_another_tool_is_imported_with_the_same_figures() {
    let server = server(Behaviour::default());
    let folder = folder();
    let here = folder.path();
    for (tool, file) in [
        ("vllm", "v.json"),
        ("sglang", "s.jsonl"),
        ("aiperf", "a.jsonl"),
    ] {
        let path = here.join(file);
        let path = path.to_str().expect("UTF-8");
        let format = [
            "--save-result",
            "--result-format",
            tool,
            "--result-filename",
            path,
        ];
        let more = [
            &["--requests", "8", "--concurrency", "2", "--json"][..],
            &format,
        ]
        .concat();
        let shown = run(&server.url(), &more).ok().json();
        let experiment = format!(
            "experiment: theirs\nseed: 1\nstages:\n  rows: {{kind: load, import: {{tool: {tool}, file: {file}}}}}\n"
        );
        fs::write(here.join("theirs.yaml"), experiment).expect("a file");
        ask(here, &["run", "theirs.yaml", "--quiet"]).ok();
        let query = "select count(*) as n, sum(output_tokens) as tokens, \
                     median((first_token_ns - sent_ns) / 1e6) as ttft from requests where status = 'ok'";
        let answer = ask(here, &["sql", "theirs.yaml", query, "--json"])
            .ok()
            .json();
        let row = &answer["rows"][0];
        assert_eq!(row["n"], 8, "{tool}");
        assert_eq!(row["tokens"], shown["output_tokens"], "{tool}");
        let (ours, theirs) = (&shown["ttft_ms"]["p50"], &row["ttft"]);
        let apart = ours.as_f64().expect("a number") - theirs.as_f64().expect("a number");
        assert!(apart.abs() < 1e-3, "{tool}: {ours} {theirs}");
        // A result is not replaced, except that SGLang's format appends a line.
        let again = run(&server.url(), &[&["--requests", "2"][..], &format].concat());
        let expected = if tool == "sglang" { Some(0) } else { Some(2) };
        assert_eq!(again.code, expected, "{tool}: {}", again.stderr);
    }
}

#[test]
fn a_folder_that_cannot_take_the_results_is_refused_before_the_load() {
    let server = server(Behaviour::default());
    let folder = folder();
    let out = folder.path().join("rows");
    let out = ["--requests", "2", "--out", out.to_str().expect("UTF-8")];
    run(
        &server.url(),
        &[&out[..], &["--concurrency", "1,2"]].concat(),
    )
    .ok();
    let asked = server.truth(1).len();
    let save = ["--save-result", "--result-dir", "/proc"];
    for (more, why) in [
        (&out[..], "sweep.json already exists"),
        (&save, "the results cannot be saved in /proc"),
    ] {
        let refused = run(&server.url(), more);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    }
    assert_eq!(server.truth(1).len(), asked);
}

#[test]
fn a_server_that_refuses_is_asked_once_however_many_clients_there_are() {
    for levels in [
        ["--concurrency", "64"],
        ["--rate", "inf"],
        ["--concurrency", "32,64"],
    ] {
        let server = faulty(Fault::Status(404));
        let shown = run(
            &server.url(),
            &[&["--requests", "200"][..], &levels].concat(),
        );
        assert_eq!(shown.code, Some(1));
        assert!(
            shown.stderr.contains("refuses every request"),
            "{}",
            shown.stderr
        );
        assert_eq!(server.truth(1).len(), 1, "{levels:?}");
    }
    // One client asks first, too, unless its first request is the only one.
    for (levels, sent) in [("1,2", 5), ("1", 3)] {
        let server = server(Behaviour::default());
        let more = ["--requests", "2", "--concurrency", levels];
        run(&server.url(), &more).ok();
        assert_eq!(server.truth(sent).len(), sent, "{levels}");
    }
    // An option suppresses the additional request.
    for more in [
        &["--requests", "4", "--concurrency", "4", "--no-preflight"][..],
        &["--requests", "1"],
    ] {
        let server = server(Behaviour::default());
        run(&server.url(), more).ok();
        let sent = if more.len() > 2 { 4 } else { 1 };
        assert_eq!(server.truth(sent).len(), sent, "{more:?}");
    }
}
