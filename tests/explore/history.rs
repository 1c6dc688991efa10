//! A figure over the commits of a lock: in the explorer, and a comparison with an older commit.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::Explorer;
use crate::support::Project;

fn git(folder: &Path, arguments: &[&str]) {
    let settings = [
        "user.name=A",
        "user.email=a@example.org",
        "commit.gpgsign=false",
    ];
    let settings = settings.iter().flat_map(|setting| ["-c", setting]);
    let done = Command::new("git")
        .args(settings)
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("git");
    let message = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{message}");
}

/// Returns a project whose simulated study was executed and committed twice.
fn committed_twice() -> Project {
    let project = Project::new();
    git(project.path(), &["init", "-q"]);
    for (seed, next) in [("164", "165"), ("165", "166")] {
        let run = ["run", "experiments/simulated.yaml", "--smoke", "--quiet"];
        project.run(run).ok();
        git(
            project.path(),
            &["add", "-f", "experiments/simulated.smoke.lock"],
        );
        git(
            project.path(),
            &["commit", "-q", "-m", &format!("seed {seed}")],
        );
        let (from, to) = (format!("seed: {seed}"), format!("seed: {next}"));
        project.edit("experiments/simulated.yaml", &from, &to);
    }
    project
}

#[test]
fn a_figure_is_followed_over_commits_and_a_study_compared_with_an_older_one() {
    let project = committed_twice();
    let explorer = Explorer::of(&project, &[]);
    let study = "/api/v1/studies/experiments~simulated.smoke/history";
    let ask = |question: &str| explorer.get(&format!("{study}?{question}"));
    let history = ask("table=results.cells&column=output_throughput").json();
    assert_eq!(history["commits"].as_array().map(Vec::len), Some(2));
    assert_eq!(history["commits"][0]["subject"], "seed 164");
    let series = history["series"].as_array().expect("series");
    assert_eq!(series.len(), 4, "two configurations at two loads");
    assert!(
        series
            .iter()
            .all(|s| s["points"].as_array().is_some_and(|p| p.len() == 2))
    );
    let judged = series[0]["judgement"].as_str().expect("a judgement");
    assert!(
        judged.starts_with("undecidable: 2 commits have a value"),
        "{judged}"
    );
    assert_eq!(ask("table=results.cells").status, 400);
    let missing = ask("table=results.nothing&column=x").json();
    assert_eq!(missing["series"].as_array().map(Vec::len), Some(0));
    assert!(missing["notes"][0]["reason"].as_str().is_some());

    let diff = |a: &str| project.run(["diff", a, "experiments/simulated.yaml", "--smoke"]);
    let message = diff("HEAD~1").ok().stdout;
    assert!(
        message.contains("experiments/simulated.yaml at HEAD~1"),
        "{message}"
    );
    assert!(message.contains("`seed` 164 → 165"), "{message}");
    let none = diff("HEAD~9");
    assert_eq!(none.code, Some(2), "{}", none.stderr);
    assert!(
        none.stderr.contains("neither a file nor a commit"),
        "{}",
        none.stderr
    );
}

#[test]
fn without_commits_there_is_no_history_and_the_remedy_is_named() {
    let project = Project::new();
    project
        .run(["run", "experiments/simulated.yaml", "--smoke", "--quiet"])
        .ok();
    let explorer = Explorer::of(&project, &[]);
    let answer = explorer.get(
        "/api/v1/studies/experiments~simulated.smoke/history?table=results.cells&column=output_throughput",
    );
    assert_eq!(answer.status, 404);
    let hint = answer.json()["hint"]
        .as_str()
        .map(str::to_owned)
        .expect("a hint");
    assert!(hint.contains("commit the lock"), "{hint}");
}

#[test]
fn the_settings_of_a_repository_start_no_program() {
    let project = committed_twice();
    let mark = project.path().join("started");
    let program = project.path().join("program");
    let script = format!("#!/bin/sh\ntouch {}\ncat \"$1\"\n", mark.display());
    fs::write(&program, script).expect("a file");
    let mut mode = fs::metadata(&program).expect("a file").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    fs::set_permissions(&program, mode).expect("it is ours");
    let named = program.display().to_string();
    fs::write(project.path().join(".gitattributes"), "*.lock diff=evil\n").expect("a file");
    for (key, value) in [
        ("diff.evil.textconv", named.as_str()),
        ("diff.external", &named),
        ("core.pager", &named),
        ("core.fsmonitor", &named),
        ("gpg.program", &named),
        ("log.showSignature", "true"),
    ] {
        git(project.path(), &["config", key, value]);
    }
    let figure = "results.cells.output_throughput";
    project
        .run(["history", "experiments/simulated.yaml", figure, "--smoke"])
        .ok();
    project
        .run(["diff", "HEAD~1", "experiments/simulated.yaml", "--smoke"])
        .ok();
    assert!(!mark.exists(), "a program of the repository was started");
}
