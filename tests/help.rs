//! The help texts, word for word. `BLESS=1 cargo test --test cli help` rewrites them.

use crate::support::{Project, assert_snapshot};

const COMMANDS: &[&str] = &[
    "init",
    "list",
    "run",
    "plan",
    "power",
    "status",
    "ls",
    "show",
    "load",
    "calibrate",
    "sql",
    "why",
    "explore",
    "attach",
    "stop",
    "audit",
    "publish",
    "push",
    "pull",
    "verify",
    "reproduce",
    "diff",
    "keygen",
    "fsck",
    "gc",
    "doctor",
    "schema",
    "report",
    "history",
    "completions",
    "man",
];

#[test]
fn every_help_text_is_the_one_on_record() {
    let project = Project::new();
    assert_snapshot(
        "help/benchtrail.txt",
        &project.run(["--help"]).ok().stdout,
        &project,
    );
    for command in COMMANDS {
        let shown = project.run([*command, "--help"]).ok().stdout;
        assert_snapshot(&format!("help/{command}.txt"), &shown, &project);
    }
}

#[test]
fn every_command_shows_an_example() {
    let project = Project::new();
    for command in COMMANDS {
        let shown = project.run([*command, "--help"]).ok().stdout;
        assert!(
            shown.contains("Examples:\n") && shown.contains("  benchtrail "),
            "{command}:\n{shown}"
        );
    }
}
