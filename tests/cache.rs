//! Which cells run again: none when nothing changed, and after a change exactly those that depend on it.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::skipped::skipped;
use crate::support::{Project, finished};

const SMOKE: [&str; 2] = ["experiments/quickstart.yaml", "--smoke"];

/// Returns the plan as stage → status → number of cells.
fn planned(project: &Project, more: &[&str]) -> BTreeMap<String, BTreeMap<String, usize>> {
    let arguments = ["plan"].iter().chain(&SMOKE).chain(more).chain(&["--json"]);
    let plan = project.run(arguments).ok().json();
    let mut stages: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for cell in plan["cells"].as_array().expect("a list of cells") {
        let word = |key: &str| {
            cell[key]
                .as_str()
                .unwrap_or_else(|| panic!("{key} of {cell}"))
                .to_owned()
        };
        *stages
            .entry(word("stage"))
            .or_default()
            .entry(word("status"))
            .or_default() += 1;
    }
    stages
}

/// Returns the stages with a cell that is not cached.
fn touched(project: &Project, more: &[&str]) -> Vec<String> {
    let stages = planned(project, more);
    let touched = stages
        .iter()
        .filter(|(_, counts)| counts.keys().any(|status| status != "cached"));
    touched.map(|(stage, _)| stage.clone()).collect()
}

#[test]
fn a_second_run_executes_nothing_and_starts_no_server() {
    let project = Project::finished();
    let before =
        fs::read(project.path().join("experiments/quickstart.smoke.lock")).expect("the lock");
    let events = project.path().join("events.jsonl");
    let arguments = [
        "run",
        SMOKE[0],
        SMOKE[1],
        "--json",
        "--events",
        events.to_str().expect("a plain path"),
    ];
    let summary = project.run(arguments).ok().json();
    assert_eq!(summary["executed"], 0, "{summary}");
    let events = fs::read_to_string(&events).expect("the events");
    let names: Vec<String> = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("an event is JSON"))
        .map(|event| {
            event["event"]
                .as_str()
                .expect("an event has a name")
                .to_owned()
        })
        .collect();
    assert!(
        !names
            .iter()
            .any(|n| n == "resource-started" || n == "cell-started"),
        "{names:?}"
    );
    let after =
        fs::read(project.path().join("experiments/quickstart.smoke.lock")).expect("the lock");
    assert_eq!(before, after, "the lock moved although nothing ran");
}

#[test]
fn comments_and_the_order_of_keys_change_no_key() {
    let project = Project::finished();
    let file = "experiments/quickstart.yaml";
    project.edit(file, "seed: 164\n", "");
    project.edit(
        file,
        "experiment: quickstart\n",
        "seed:   164   # the same\nexperiment: quickstart\n",
    );
    project.edit(
        file,
        "    warmup: 2\n    heartbeat: 60 s\n",
        "    heartbeat: \"60 s\"\n\n    # as before\n    warmup: 2\n",
    );
    assert_eq!(touched(&project, &[]), Vec::<String>::new());
}

#[test]
fn each_change_touches_exactly_what_depends_on_it() {
    const FILE: &str = "experiments/quickstart.yaml";
    let all_but_machine = &["checks", "ladder", "report", "results", "server"][..];
    let from_ladder = &["checks", "ladder", "report", "results"][..];
    // The changed file, the text and its replacement, and the stages with a cell that is no longer cached.
    let changes: [(&str, &str, &str, &str, &[&str]); 7] = [
        (
            "the engine's threads",
            FILE,
            "      threads: 1",
            "      threads: 2",
            all_but_machine,
        ),
        (
            "warm-up requests",
            FILE,
            "    warmup: 2",
            "    warmup: 3",
            from_ladder,
        ),
        (
            "the seed",
            FILE,
            "seed: 164",
            "seed: 165",
            &["checks", "ladder", "machine", "report", "results", "server"],
        ),
        (
            "a stage's description",
            FILE,
            "The same engine twice; only",
            "One engine, two configurations; only",
            &["report"],
        ),
        (
            "the title",
            FILE,
            "title: What continuous",
            "title: What, then, continuous",
            &["report"],
        ),
        (
            "a time limit",
            FILE,
            "    timeout: 2 min",
            "    timeout: 3 min",
            &["report"],
        ),
        (
            "the template",
            "templates/quickstart.md",
            "\n## ",
            "\n\n## ",
            &["report"],
        ),
    ];
    for (what, file, from, to, expected) in changes {
        let project = Project::finished();
        let path = project.path().join(file);
        let text = fs::read_to_string(&path).expect("the file");
        assert!(text.contains(from), "`{from}` in {file}");
        fs::write(&path, text.replacen(from, to, 1)).expect("the file can be written");
        assert_eq!(touched(&project, &[]), expected, "after a change of {what}");
    }
}

#[test]
fn the_plan_names_the_field_that_changed_with_its_old_and_new_value() {
    let project = finished();
    let plan = project
        .run(["plan", SMOKE[0], SMOKE[1], "--set", "output_tokens=13"])
        .ok()
        .stdout;
    assert!(plan.contains("8 → 13"), "{plan}");
    assert!(plan.contains("output"), "{plan}");
}

#[test]
fn a_fresh_measurement_keeps_the_earlier_one() {
    let project = finished();
    let stages = planned(project, &["--fresh", "ladder"]);
    assert_eq!(stages["ladder"].keys().collect::<Vec<_>>(), ["run"]);
    assert_eq!(stages["server"].keys().collect::<Vec<_>>(), ["cached"]);
}

#[test]
fn a_selection_that_is_done_is_a_success_although_other_cells_are_skipped() {
    let project = Project::finished();
    project.edit("experiments/quickstart.yaml", "seed: 164", "seed: 8");
    let summary = project
        .run(["run", SMOKE[0], SMOKE[1], "--only", "server", "--json"])
        .ok()
        .json();
    assert_eq!(summary["stages"]["server"]["ok"], 3, "{summary}");
    assert_eq!(summary["stages"]["ladder"]["skipped"], 18, "{summary}");
}

/// Runs a study with `clients` cells of one load to its end. Then counts the system calls that `run` and `plan` make
/// when there is nothing to do; `None` if strace is missing.
fn calls_for_nothing(clients: usize) -> Option<[u64; 2]> {
    let project = Project::new();
    let study = format!(
        "experiment: many\nseed: 3\naxes: {{clients: {{from: 1, to: {clients}}}}}\nsimulated-servers:\n  fast: {{slots: 4, \
         prefill: {{fixed: 2 ms}}, decode: {{fixed: 1 ms}}, noise: {{step: 0.05}}}}\nworkloads:\n  short: {{prompts: \
         {{words: {{length: 6}}}}, output: {{tokens: 4}}}}\nstages:\n  load: {{kind: load, simulate: {{server: fast}}, over: \
         [clients], workload: short, arrival: {{closed-loop: {{clients: \"${{clients}}\"}}}}, requests-per-client: 1}}\n  checks: {{kind: \
         verify, needs: [load], gates: [{{gate: row-status}}]}}\n"
    );
    fs::write(project.path().join("many.yaml"), study).expect("a file");
    project
        .run(["run", "many.yaml", "--quiet", "--no-dry-run"])
        .ok();
    let counted = |command: &str| {
        let file = project.path().join("calls");
        let own = project.command([command, "many.yaml"]);
        let mut strace = Command::new("strace");
        strace.args([
            "-f",
            "-c",
            "-e",
            "trace=write,fcntl,openat,newfstatat,statx,pread64",
            "-o",
        ]);
        strace
            .arg(&file)
            .arg(own.get_program())
            .args(own.get_args());
        strace
            .current_dir(project.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        strace
            .status()
            .ok()
            .filter(std::process::ExitStatus::success)?;
        let table = fs::read_to_string(&file).ok()?;
        let total = table.lines().rev().find(|line| line.ends_with(" total"))?;
        total.split_whitespace().nth(3)?.parse::<u64>().ok()
    };
    Some([counted("run")?, counted("plan")?])
}

#[test]
fn a_cell_that_is_cached_costs_no_call_of_the_kernel() {
    let (Some(few), Some(many)) = (calls_for_nothing(10), calls_for_nothing(70)) else {
        skipped("strace", "there is no strace here that may trace");
        return;
    };
    for (command, few, many) in [("run", few[0], many[0]), ("plan", few[1], many[1])] {
        let more = many.saturating_sub(few);
        assert!(
            more < 60,
            "{command}: {few} calls for 10 cells, {many} for 70"
        );
    }
}
