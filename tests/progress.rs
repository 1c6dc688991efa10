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

#[test]
fn a_quiet_run_has_no_log() {
    let project = Project::new();
    assert_eq!(project.run(RUN.iter().chain(&["--quiet"])).ok().stderr, "");
}
