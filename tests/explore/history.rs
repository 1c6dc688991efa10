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
        judged.starts_with("undecidable: 2 measurements"),
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
    let attributes = "*.lock diff=evil filter=evil\n";
    fs::write(project.path().join(".gitattributes"), attributes).expect("a file");
    let hooks = project.path().join(".git/hooks");
    fs::create_dir_all(&hooks).expect("a folder");
    for hook in [
        "post-checkout",
        "post-index-change",
        "reference-transaction",
    ] {
        fs::copy(&program, hooks.join(hook)).expect("a hook");
    }
    let alias = format!("!{named}");
    // The remote that would have missing objects.
    let remote = format!("ext::{named}");
    for (key, value) in [
        ("remote.origin.url", remote.as_str()),
        ("remote.origin.promisor", "true"),
        ("protocol.allow", "always"),
        ("alias.rev-list", &alias),
        ("alias.cat-file", &alias),
        ("credential.helper", &alias),
        ("core.alternateRefsCommand", &named),
        ("core.askPass", &named),
        ("core.editor", &named),
        ("core.gitProxy", &named),
        ("core.sshCommand", &named),
        ("diff.evil.command", &named),
        ("diff.evil.textconv", &named),
        ("diff.external", &named),
        ("filter.evil.clean", &named),
        ("filter.evil.process", &named),
        ("filter.evil.smudge", &named),
        ("uploadpack.packObjectsHook", &named),
        ("core.pager", &named),
        ("core.fsmonitor", &named),
        ("gpg.program", &named),
        ("log.showSignature", "true"),
    ] {
        git(project.path(), &["config", key, value]);
    }
    fs::remove_file(&mark).ok();
    let figure = "results.cells.output_throughput";
    project
        .run(["history", "experiments/simulated.yaml", figure, "--smoke"])
        .ok();
    project
        .run(["diff", "HEAD~1", "experiments/simulated.yaml", "--smoke"])
        .ok();
    // A lock that the repository does not have, and could fetch from its remote.
    let head = fs::read_to_string(project.path().join(".git/HEAD")).expect("a branch");
    let branch = head.trim().trim_start_matches("ref: ");
    let absent = "0123456789012345678901234567890123456789\n";
    fs::write(project.path().join(".git").join(branch), absent).expect("a branch");
    let fetched = project.run(["history", "experiments/simulated.yaml", figure, "--smoke"]);
    assert_eq!(fetched.code, Some(4), "{}", fetched.stderr);
    assert!(!mark.exists(), "a program of the repository was started");
}

#[test]
fn a_name_that_is_no_figure_gets_one_that_is() {
    let project = committed_twice();
    let study = "experiments/simulated.smoke.lock";
    let refused = |figure: &str, more: &[&str], reason: &str| {
        let arguments = [&["history", study, figure], more].concat();
        let answer = project.run(arguments);
        assert!(
            matches!(answer.code, Some(2 | 5)),
            "{figure}: {}",
            answer.stderr
        );
        assert!(
            answer.stderr.contains(reason),
            "{figure}: {}",
            answer.stderr
        );
        assert!(answer.stderr.len() < 700, "{figure}: {}", answer.stderr);
    };
    for (figure, reason) in [
        (
            "results",
            "`results` is a stage: write STAGE.OUTPUT.COLUMN; its tables are `results.",
        ),
        (
            "results.cells",
            "name one of its columns too, such as `results.cells.",
        ),
        (
            "cells",
            "`results.cells` is a table: name one of its columns too",
        ),
        (
            "cells.output_throughput",
            "did you mean `results.cells.output_throughput`?",
        ),
        (
            "cells.output_thruput",
            "in `results.cells`, did you mean `output_throughput`?",
        ),
        (
            "output_throughput",
            "`output_throughput` is a column: write `results.cells.output_throughput`",
        ),
        ("nothing", "write STAGE.OUTPUT.COLUMN, such as"),
        (
            "results.cels.output_throughput",
            "no table `results.cels`; did you mean `results.cells`?",
        ),
        (
            "results.cells.output_thruput",
            "no column `output_thruput`; did you mean `output_throughput`?",
        ),
        (
            "results.cells.arrivals",
            "the column `arrivals` of `results.cells` does not hold numbers",
        ),
    ] {
        refused(figure, &[], reason);
    }
    let figure = "results.cells.output_throughput";
    let only = |label| ["--where", label];
    refused(
        figure,
        &only("configuraton=a"),
        "did you mean `configuration`?",
    );
    refused(
        figure,
        &only("rep=9"),
        "no row of `results.cells` has `rep=9`; the labels of `rep` are `1`",
    );
}

#[test]
fn a_wrong_name_or_option_for_results_gets_a_right_one() {
    let project = committed_twice();
    let study = "experiments/simulated.smoke.lock";
    let refused = |command: &[&str], remedy: &str| {
        let answer = project.run(command.iter().copied());
        assert!(
            matches!(answer.code, Some(2 | 5)),
            "{command:?}: {}",
            answer.stderr
        );
        assert!(
            answer.stderr.contains(remedy),
            "{command:?}: {}",
            answer.stderr
        );
        assert!(answer.stderr.len() < 600, "{command:?}: {}", answer.stderr);
    };
    refused(&["show", study, "results.cell"], "did you mean `cells`?");
    refused(
        &[
            "show",
            study,
            "results.cells",
            "--columns",
            "output_thruput",
        ],
        "has no column `output_thruput`\nhint: did you mean `output_throughput`?",
    );
    refused(
        &["show", study, "results.cells", "--columns", "ttft"],
        "`ttft_ms_p50`",
    );
    refused(
        &["show", study, "results.cells", "--where", "block=1"],
        "a query selects and sorts rows: `benchtrail sql STUDY",
    );
    refused(
        &[
            "sql",
            study,
            "select percentile(ttft_ms_p50, 50) from cells",
        ],
        "hint: write `quantile(x, 0.95)`",
    );
    refused(
        &["sql", study, "select medien(ttft_ms_p50) from cells"],
        "hint: did you mean `median`?",
    );
    refused(
        &["diff", study, "HEAD~1"],
        "if `HEAD~1` is a commit, write `benchtrail diff HEAD~1 experiments/simulated.smoke.lock`",
    );
    refused(
        &["list", "metrics"],
        "`benchtrail schema tables` prints the columns",
    );
    refused(
        &["list", "settings"],
        "`benchtrail list engines NAME` shows the settings",
    );
    fs::write(
        project.path().join("rows.csv"),
        "id,\"ttft_ms\",tokens\n1,2,3\n",
    )
    .expect("a table");
    refused(
        &["init", "x", "--from-results", "rows.csv"],
        "the file's columns are `id`, `ttft_ms`, `tokens`",
    );
    refused(
        &["init", "x", "--from-results", "row.json"],
        "row.json: no such file\n",
    );
    let first = &project.run(["ls", study, "ladder"]).ok().stdout;
    assert!(first.contains("requests"), "{first}");
    refused(
        &["show", study, "ladder.requests"],
        "a query reads all: `benchtrail sql experiments/simulated.smoke.lock 'select … from \"ladder.requests\"'`",
    );
}
