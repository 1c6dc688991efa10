//! What `load` says about files of prompts, and what can be asked of the folders that it writes.

use std::fs;

use load::reference::{Behaviour, ReferenceServer};

use crate::support::{Outcome, Project};

fn load(project: &Project, server: &ReferenceServer, more: &[&str]) -> Outcome {
    let url = server.url();
    let usual = [
        "load",
        url.as_str(),
        "--concurrency",
        "1",
        "--output-tokens",
        "2",
    ];
    project.run(usual.iter().chain(more).copied())
}

#[test]
fn prompts_that_are_sent_again_because_the_file_has_fewer_are_named_in_a_warning() {
    let project = Project::new();
    let server = ReferenceServer::start(Behaviour::default()).expect("a free port");
    let two = "{\"prompt\": \"one\"}\n{\"prompt\": \"two\"}\n";
    fs::write(project.path().join("two.jsonl"), two).expect("a file");
    let again = load(
        &project,
        &server,
        &["--dataset", "two.jsonl", "--requests", "3"],
    );
    let said = again.ok().stderr;
    let warning = "warning: 3 prompts were sent, but the file has 2, so some were sent again; a server with a prefix cache \
                   answers those faster\n";
    assert!(said.contains(warning), "{said}");
    let once = load(
        &project,
        &server,
        &["--dataset", "two.jsonl", "--requests", "2"],
    );
    let said = once.ok().stderr;
    assert!(!said.contains("sent again"), "{said}");
    let drawn = load(&project, &server, &["--requests", "3"]);
    let said = drawn.ok().stderr;
    assert!(!said.contains("sent again"), "{said}");
}

#[test]
fn a_length_of_the_answer_under_another_tools_name_is_not_ignored() {
    let project = Project::new();
    let server = ReferenceServer::start(Behaviour::default()).expect("a free port");
    for (file, text, theirs) in [
        (
            "a.jsonl",
            "{\"prompt\": \"one\", \"max_tokens\": 9}\n",
            "max_tokens",
        ),
        ("b.csv", "prompt,output_len\none,9\n", "output_len"),
    ] {
        fs::write(project.path().join(file), text).expect("a file");
        let refused = load(&project, &server, &["--dataset", file, "--requests", "1"]);
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        let reason = format!("is named `output_tokens` here, not `{theirs}`: rename it");
        assert!(refused.stderr.contains(&reason), "{}", refused.stderr);
    }
}

#[test]
fn tables_of_a_loads_folder_are_suggested_and_two_loads_say_how_to_decide() {
    let project = Project::new();
    let server = ReferenceServer::start(Behaviour::default()).expect("a free port");
    for (folder, seed) in [("a", "1"), ("b", "2")] {
        load(
            &project,
            &server,
            &["--requests", "2", "--out", folder, "--seed", seed],
        )
        .ok();
    }
    for (table, meant) in [
        ("cells", "did you mean `cell`?\n"),
        ("request", "did you mean `requests`?\n"),
        ("load.requests", "did you mean `requests`?\n"),
        ("samples", "did you mean `requests`?\n"),
        ("nonsense", "its tables: cell, chunks, "),
    ] {
        let query = format!("select count(*) from \"{table}\"");
        let refused = project.run(["sql", "a", &query]);
        let hint = format!("hint: {meant}");
        assert!(
            refused.stderr.contains(&hint),
            "{table}: {}",
            refused.stderr
        );
    }
    let refused = project.run(["show", "a", "request"]);
    assert!(
        refused.stderr.contains("hint: did you mean `requests`?\n"),
        "{}",
        refused.stderr
    );

    let refused = project.run(["sql", "a", "select output_token from requests"]);
    assert!(
        refused
            .stderr
            .contains("hint: did you mean `output_tokens`?\n"),
        "{}",
        refused.stderr
    );
    project.run(["report", "a"]).ok();
    let again = project.run(["report", "a/study.lock", "--out", "again.md"]);
    let said = again.ok().stdout;
    assert!(
        said.starts_with("again.md\nread it at   file:///"),
        "{said}"
    );

    let refused = project.run(["init", "mine", "--from-results", "a"]);
    let hint = "hint: `benchtrail init NAME --from-load a` writes an experiment for this load\n";
    assert!(refused.stderr.contains(hint), "{}", refused.stderr);

    let shown = project.run(["diff", "a", "b"]).ok().stdout;
    let reason =
        "no replication of launches: the cells have no axis `block`, and no `--unit` is named";
    assert_eq!(shown.matches(reason).count(), 1, "{shown}");
    assert!(shown.contains("`import.digest`"), "{shown}");
    assert!(!shown.contains("`import.tables."), "{shown}");
    assert!(
        shown.contains("`benchtrail init NAME --from-load a`\n"),
        "{shown}"
    );
}

#[test]
fn a_missing_argument_gets_an_example() {
    let project = Project::new();
    project.run(["init", "mine", "--yes"]).ok();
    for (command, example) in [
        (
            &["publish", "mine.yaml"][..],
            "tip: name who answers for the study: `--author 'Ada Lovelace'`",
        ),
        (
            &["history", "mine.yaml"],
            "tip: name a figure, such as `results.cells.ttft_ms_p50` or `results.means.ttft_ms_p50_mean`; ",
        ),
        (&["history"], "tip: the experiments here are `mine.yaml`"),
    ] {
        let refused = project.run(command.iter().copied());
        assert_eq!(refused.code, Some(2), "{command:?}");
        assert!(
            refused.stderr.contains(example),
            "{command:?}: {}",
            refused.stderr
        );
    }
}

#[test]
fn a_study_that_only_sends_a_key_is_not_said_to_start_programs() {
    let project = Project::new();
    let server = ReferenceServer::start(Behaviour::default()).expect("a free port");
    let url = server.url();
    let with_key = |arguments: &[&str]| {
        let mut command = project.command(arguments.iter().copied());
        command
            .env_remove("BENCHTRAIL_TRUST")
            .env("XDG_STATE_HOME", project.path().join("state"))
            .env("KEY", "secret");
        Outcome::from(command.output().expect("the binary starts"))
    };
    with_key(&["init", "keyed", "--from-url", &url, "--api-key-env", "KEY"]).ok();
    let refused = with_key(&["run", "keyed.yaml"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    let said = format!(
        "error: keyed.yaml contacts servers that you have not approved for this folder; nothing was sent\n\
         \x20   server (3 cells) sends requests to {url}, with the value of KEY as its key\n"
    );
    assert!(refused.stderr.contains(&said), "{}", refused.stderr);
}
