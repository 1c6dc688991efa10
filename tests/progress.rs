//! The progress messages of a run without a terminal: a log.

use crate::support::Project;

const RUN: [&str; 3] = ["run", "experiments/simulated.yaml", "--smoke"];

#[test]
fn a_log_of_a_run_has_times_and_how_many_cells_of_all_have_ended() {
    let project = Project::new();
    let log = project.run(RUN).ok().stderr;
    let lines: Vec<(&str, &str)> = log
        .lines()
        .filter_map(|line| line.split_once(' '))
        .collect();
    let times: Result<Vec<jiff::Timestamp>, _> =
        lines.iter().map(|(time, _)| time.parse()).collect();
    assert!(times.is_ok_and(|times| times.is_sorted()), "{log}");
    assert!(lines[0].1.starts_with("14 cells, "), "{log}");
    let ended: Vec<&str> = lines
        .iter()
        .filter_map(|(_, text)| text.split_once(']'))
        .map(|l| l.0)
        .collect();
    let counts: Vec<String> = (1..=14).map(|n| format!("[{n}/14")).collect();
    assert_eq!(ended, counts, "{log}");
}

/// Returns the counters of a log, such as `3/14`.
fn counters(log: &str) -> Vec<&str> {
    let lines = log.lines().filter_map(|line| line.split_once(" ["));
    lines
        .filter_map(|(_, text)| Some(text.split_once(']')?.0))
        .collect()
}

#[test]
fn a_run_that_continues_counts_the_cells_that_it_executes() {
    let project = Project::new();
    let part = ["--only", "ladder[clients=1]"];
    let part = project.run(RUN.iter().chain(&part)).ok();
    assert_eq!(
        counters(&part.stderr).last(),
        Some(&"6/6"),
        "{}",
        part.stderr
    );
    let rest = project.run(RUN).ok();
    let plan = "14 cells, 6 cached, 6 to run, 2 decided later";
    assert!(rest.stderr.contains(plan), "{}", rest.stderr);
    let counts: Vec<String> = (1..=8).map(|n| format!("{n}/8")).collect();
    assert_eq!(counters(&rest.stderr), counts, "{}", rest.stderr);
    let summary = "8 cells executed; 14 ok";
    assert!(rest.stdout.contains(summary), "{}", rest.stdout);
}

#[test]
fn a_cell_that_turns_out_to_be_cached_is_no_longer_counted() {
    let project = Project::new();
    project.run(RUN).ok();
    // The gates give the same bytes again, so nothing that reads them executes.
    let again = project.run(RUN.iter().chain(&["--from", "checks"])).ok();
    let executed = again
        .stdout
        .lines()
        .find_map(|line| line.split_once(" cell"));
    let executed = executed.expect("the summary has it").0;
    let last = format!("{executed}/{executed}");
    let output = format!("{}{}", again.stderr, again.stdout);
    assert_eq!(
        counters(&again.stderr).last(),
        Some(&last.as_str()),
        "{output}"
    );
}

#[test]
fn a_quiet_run_has_no_log() {
    let project = Project::new();
    assert_eq!(project.run(RUN.iter().chain(&["--quiet"])).ok().stderr, "");
}
