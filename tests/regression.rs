//! The regression gate for CI: the script that the composite action runs.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::Project;

const STUDY: &str = "experiments/simulated.yaml";

/// Checks that GitHub takes no line of a log as a command, other than those that turn commands off and on again.
fn assert_no_commands(log: &str) {
    let mut token = None;
    for line in log.lines() {
        match token {
            None => token = line.strip_prefix("::stop-commands::"),
            Some(this) if line == format!("::{this}::") => token = None,
            Some(_) => continue,
        }
        assert!(token.is_some() || line.starts_with("::"), "{line}");
    }
    assert_eq!(token, None, "{log}");
    assert!(
        log.is_empty() || log.starts_with("::stop-commands::"),
        "{log}"
    );
}

/// Runs the script in the project, and returns its exit code and its summary.
fn gate(project: &Project, baseline: &str) -> (i32, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(".github/actions/regression/check.sh");
    let mut command = Command::new(script);
    command
        .args([STUDY, baseline, "summary.md", "--", "--unit", "rep"])
        .current_dir(project.path())
        .env("BENCHTRAIL_BINARY", env!("CARGO_BIN_EXE_benchtrail"))
        .env("GITHUB_ACTIONS", "true");
    let done = command.output().expect("the script starts");
    assert_no_commands(&String::from_utf8_lossy(&done.stdout));
    let summary = fs::read_to_string(project.path().join("summary.md"));
    let message = String::from_utf8_lossy(&done.stderr).into_owned();
    (
        done.status.code().expect("it ends by itself"),
        summary.unwrap_or(message),
    )
}

#[test]
fn the_gate_of_ci_passes_what_is_the_same_and_fails_what_got_worse() {
    let project = Project::new();
    // A label begins a line of the output.
    project.edit(STUDY, "    serial: {", "    \"::error::serial\": {");
    let (code, summary) = gate(&project, "none");
    assert_eq!(code, 0, "{summary}");
    assert!(
        summary.starts_with("## Measured, with nothing to compare"),
        "{summary}"
    );

    let lock = "experiments/simulated.lock";
    let (code, summary) = gate(&project, lock);
    assert_eq!(code, 0, "{summary}");
    assert!(summary.starts_with("## No regression"), "{summary}");
    assert!(
        summary.contains("Nothing was measured in this run"),
        "{summary}"
    );

    // Half as many tokens more, so answers take longer in proportion.
    project.edit(STUDY, "output: {tokens: 16}", "output: {tokens: 24}");
    let (code, summary) = gate(&project, lock);
    assert_eq!(code, 1, "{summary}");
    assert!(
        summary.starts_with("## Regression") && summary.contains("e2e_latency_ms_p50"),
        "{summary}"
    );
    let beside = fs::read_dir(project.path().join("experiments")).expect("a folder");
    let left = beside.filter(|e| {
        e.as_ref()
            .is_ok_and(|e| e.file_name().to_string_lossy().starts_with("baseline-"))
    });
    assert_eq!(left.count(), 0, "the lock that was put aside is gone");

    // A mistyped name must not pass as a first run, and an unrelated file must not count as a regression.
    let (code, summary) = gate(&project, "experiments/simulatd.lock");
    assert_eq!(code, 5, "{summary}");
    assert!(summary.contains("does not exist"), "{summary}");
    let (code, summary) = gate(&project, STUDY);
    assert_eq!(code, 0, "an experiment stands for its lock: {summary}");
    fs::write(project.path().join("cut.tar.zst"), "half").expect("a file");
    let (code, summary) = gate(&project, "cut.tar.zst");
    assert_eq!(code, 2, "{summary}");
    assert!(summary.contains("cannot be compared"), "{summary}");

    project.edit(STUDY, "kind: load", "kind: lod");
    let (code, summary) = gate(&project, lock);
    assert_eq!(code, 2, "{summary}");
    assert!(
        summary.starts_with("## Not measured") && summary.contains("unknown stage kind"),
        "{summary}"
    );
}

#[test]
fn wrong_arguments_of_the_gate_are_met_before_anything_is_measured_and_never_as_a_regression() {
    let project = Project::new();
    fs::write(project.path().join("file"), "").expect("a file");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(".github/actions/regression/check.sh");
    let binary = env!("CARGO_BIN_EXE_benchtrail");
    for (arguments, program, part) in [
        (
            &["a.yaml", "b.lock", "--threshold", "3"][..],
            binary,
            "b.lock summary.md -- --threshold 3",
        ),
        (
            &["a.yaml", "b.lock", "s.md", "--threshold", "3"],
            binary,
            "b.lock s.md -- --threshold 3",
        ),
        (
            &[STUDY, "b.lock", "--", "--treshold", "3"],
            binary,
            "'--threshold'",
        ),
        (
            &[STUDY, "b.lock", "--", "--threshold", "x"],
            binary,
            "expected a number of percent",
        ),
        (&[STUDY, ""], binary, "the baseline has no name"),
        (
            &[STUDY, "b.lock", "file/summary.md"],
            binary,
            "nothing is known of a regression",
        ),
        (
            &[STUDY, "b.lock"],
            "no-such-program",
            "put it on the search path",
        ),
        (&[STUDY], binary, "usage: "),
    ] {
        let mut command = Command::new(&script);
        command
            .args(arguments)
            .current_dir(project.path())
            .env("BENCHTRAIL_BINARY", program);
        let done = command.output().expect("the script starts");
        let message = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(part), "{arguments:?}: {message}");
        assert!(done.stdout.is_empty(), "{arguments:?}");
    }
    assert!(!project.path().join("experiments/simulated.lock").exists());
}
