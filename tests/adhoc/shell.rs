//! The binary's output for shells, `man` and repositories; and loads with a time limit.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use load::reference::Behaviour;

use crate::{Outcome, outcome, run, server};

fn ask(folder: &Path, arguments: &[&str]) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_benchtrail"));
    command
        .args(arguments)
        .current_dir(folder)
        .env("XDG_CONFIG_HOME", "/nowhere")
        .env_remove("BENCHTRAIL_STORE");
    outcome(&mut command)
}

#[test]
fn every_shell_gets_a_script_that_knows_every_command() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let help = ask(folder.path(), &["--help"]).ok().stdout;
    let lines = help.lines().skip_while(|l| *l != "Commands:").skip(1);
    let commands: Vec<&str> = lines
        .take_while(|l| !l.is_empty())
        .filter(|l| l.starts_with("  ") && !l.starts_with("   "))
        .filter_map(|l| l.split_whitespace().next())
        .collect();
    assert!(commands.len() > 20, "{commands:?}");
    for shell in ["bash", "zsh", "fish"] {
        let script = ask(folder.path(), &["completions", shell]).ok().stdout;
        for command in &commands {
            assert!(script.contains(command), "{shell} does not know {command}");
        }
    }
    let script = folder.path().join("benchtrail.bash");
    let bash = ask(folder.path(), &["completions", "bash"]).ok().stdout;
    fs::write(&script, bash).expect("a file");
    let checked = Command::new("bash").arg("-n").arg(&script).status();
    assert!(checked.expect("bash").success());
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let page = ask(folder.path(), &["man"]).ok().stdout;
    assert!(page.contains(".TH benchtrail 1"), "{page}");
    ask(folder.path(), &["man", "--out", "man1"]).ok();
    for name in ["benchtrail.1", "benchtrail-load.1", "benchtrail-history.1"] {
        assert!(folder.path().join("man1").join(name).is_file(), "{name}");
    }
}

#[test]
fn a_load_ends_after_its_duration_and_a_cap_bounds_what_is_in_flight() {
    let slow = server(Behaviour {
        ttft: Duration::from_millis(50),
        ..Behaviour::default()
    });
    let shown = run(
        &slow.url(),
        &["--duration", "1", "--concurrency", "2", "--json"],
    );
    let shown = shown.ok().json();
    let sent = shown["statuses"]["ok"].as_u64().expect("a count");
    assert!((2..=60).contains(&sent), "{sent}");
    let more = [
        "--rate",
        "200",
        "--requests",
        "40",
        "--max-concurrency",
        "3",
        "--json",
    ];
    let shown = run(&slow.url(), &more).ok().json();
    assert_eq!(shown["statuses"]["ok"], 40);
    assert!(
        shown["peak_in_flight"].as_u64().is_none_or(|n| n <= 3),
        "{shown}"
    );
    // As in vLLM: all at once, but never more than a maximum in flight.
    let more = [
        "--request-rate",
        "inf",
        "--max-concurrency",
        "4",
        "--num-prompts",
        "8",
    ];
    let shown = run(&slow.url(), &more).ok();
    assert!(shown.stdout.contains("4 clients"), "{}", shown.stdout);
}

#[test]
fn a_figure_is_followed_over_the_commits_of_a_lock() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let here = folder.path();
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command
            .args([
                "-c",
                "user.name=A",
                "-c",
                "user.email=a@example.org",
                "-c",
                "commit.gpgsign=false",
            ])
            .args(arguments)
            .current_dir(here);
        let done = command.output().expect("git");
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    };
    git(&["init", "-q"]);
    git(&["commit", "-q", "--allow-empty", "-m", "start"]);
    let study = "experiment: m\nseed: 1\nstages:\n  rows: {kind: load, import: {tool: csv, file: r.csv, columns: \
                 {sent: {from: sent_ms, unit: ms}, ttft: {from: ttft_ms, unit: ms}, status: {value: ok}}}}\n  \
                 checks: {kind: verify, needs: [rows], gates: [{gate: census}]}\n  \
                 results: {kind: analyze, needs: [rows, checks], tables: {cells: {operator: cell-summary}}}\n";
    fs::write(here.join("m.yaml"), study).expect("a file");
    let before = ask(here, &["history", "m.yaml", "results.cells.ttft_ms_mean"]);
    assert_eq!(before.code, Some(5), "{}", before.stderr);
    for (i, ttft) in [50, 51, 49, 52, 80, 81, 79, 82].iter().enumerate() {
        let rows: String = (0..6)
            .map(|k| format!("{},{}\n", k * 100, ttft + k % 2))
            .collect();
        fs::write(here.join("r.csv"), format!("sent_ms,ttft_ms\n{rows}")).expect("a file");
        ask(here, &["run", "m.yaml", "--quiet", "--no-dry-run"]).ok();
        git(&["add", "m.lock"]);
        git(&[
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            &format!("change {i}"),
        ]);
    }
    let figure = ["--figure", "f.svg"];
    let asked = [
        &["history", "m.yaml", "results.cells.ttft_ms_mean", "--json"][..],
        &figure,
    ]
    .concat();
    let answer = ask(here, &asked).ok().json();
    let points = answer["points"].as_array().expect("a list");
    assert_eq!(
        (points.len(), &answer["unit"]),
        (8, &serde_json::json!("ms")),
        "{answer}"
    );
    let changed: Vec<usize> = (0..8).filter(|i| !points[*i]["change"].is_null()).collect();
    assert_eq!(changed, [4], "{answer}");
    assert_eq!(answer["series"][0]["change_points"], 1, "{answer}");
    let few = ask(
        here,
        &[asked[..3].to_vec(), vec!["--commits", "5"]].concat(),
    )
    .ok();
    let undecidable = "undecidable: 5 measurements, and a change point needs 6";
    assert!(few.stdout.contains(undecidable), "{}", few.stdout);
    let factor = points[4]["change"].as_f64().expect("a factor");
    assert!((1.5..1.7).contains(&factor), "{factor}");
    let svg = fs::read_to_string(here.join("f.svg")).expect("a figure");
    assert_eq!(svg.matches("<circle").count(), 8, "{svg}");
    let shown = ask(here, &["history", "m.lock", "results.cells.ttft_ms_mean"]).ok();
    assert!(shown.stdout.contains("change 7"), "{}", shown.stdout);
    let unknown = ask(here, &["history", "m.yaml", "results.cells.tft"]);
    assert_eq!(unknown.code, Some(5));
    assert!(unknown.stderr.contains("tft"), "{}", unknown.stderr);
    assert_eq!(ask(here, &["history", "m.yaml", "cells"]).code, Some(2));
}
