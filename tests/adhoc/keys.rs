//! `run` against a server that answers only requests with its key.

use std::fs;
use std::path::Path;
use std::process::Command;

use load::reference::{Behaviour, ReferenceServer};

use super::{experiment, outcome, server};

const KEY: &str = "sk-do-not-tell-0123456789";
const LAUNCH: &str = ", api-key-env: ELSEWHERE_KEY";

fn guarded() -> ReferenceServer {
    server(Behaviour {
        api_key: Some(KEY.to_owned()),
        ..Behaviour::default()
    })
}

/// Asserts that no file under a folder contains a text; returns the number of files read.
fn assert_nowhere(folder: &Path, text: &str) -> usize {
    let mut files = 0;
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files += assert_nowhere(&path, text);
        } else if path.is_file() {
            let bytes = fs::read(&path).expect("a file");
            assert!(
                !bytes.windows(text.len()).any(|w| w == text.as_bytes()),
                "{}",
                path.display()
            );
            files += 1;
        }
    }
    files
}

#[test]
fn an_engine_that_names_its_key_is_asked_and_loaded_with_it() {
    let server = guarded();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut run = experiment(folder.path(), &server.url(), LAUNCH);
    let shown = outcome(run.env("ELSEWHERE_KEY", KEY)).ok();
    // A request of one token to check that it is ready, then the load.
    assert_eq!(server.truth(3).len(), 3);
    assert!(!(shown.stdout + &shown.stderr).contains("sk-do"));
    assert!(
        assert_nowhere(folder.path(), "sk-do") > 10,
        "too few files to be a store"
    );

    // Cached results need no server, and therefore no key.
    outcome(experiment(folder.path(), &server.url(), LAUNCH).env_remove("ELSEWHERE_KEY")).ok();
    assert_eq!(server.truth(0).len(), 3);

    // Measuring again uses the server, although its description is cached.
    let [mut run, _] = run_and_plan(folder.path());
    let shown = outcome(run.args(["--fresh", "steps"]).env_remove("ELSEWHERE_KEY"));
    assert!(
        shown.code == Some(4) && shown.stderr.contains("`ELSEWHERE_KEY`"),
        "{}",
        shown.stderr
    );
    assert_eq!(server.truth(0).len(), 3);
}

#[test]
fn a_wrong_key_is_reported_and_not_repeated() {
    let server = guarded();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut run = experiment(folder.path(), &server.url(), LAUNCH);
    let shown = outcome(run.env("ELSEWHERE_KEY", "sk-wrong-0123456789"));
    assert_ne!(shown.code, Some(0));
    let all = shown.stdout + &shown.stderr;
    assert!(
        all.contains("refuses the request: /v1/models answered 401") && all.contains("[API key]"),
        "{all}"
    );
    assert!(
        all.contains("check whether `ELSEWHERE_KEY` holds this server's key"),
        "{all}"
    );
    assert!(!all.contains("sk-wrong"), "{all}");
    assert_nowhere(folder.path(), "sk-wrong");
}

#[test]
fn a_server_that_wants_a_key_says_how_to_give_it() {
    let server = guarded();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let shown = outcome(&mut experiment(folder.path(), &server.url(), ""));
    assert_ne!(shown.code, Some(0));
    let all = shown.stdout + &shown.stderr;
    assert!(
        all.contains("401") && all.contains("`launch.api-key-env`"),
        "{all}"
    );
}

/// Returns the commands `run` and `plan` of the experiment in a folder.
fn run_and_plan(folder: &Path) -> [Command; 2] {
    ["run", "plan"].map(|what| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_benchtrail"));
        command
            .args([what, "elsewhere.yaml"])
            .current_dir(folder)
            .env("XDG_CONFIG_HOME", "/nowhere");
        command
    })
}

#[test]
fn an_engine_whose_key_is_not_set_is_reported_before_anything_is_sent() {
    let server = server(Behaviour::default());
    let folder = tempfile::tempdir().expect("a temporary folder");
    experiment(folder.path(), &server.url(), LAUNCH);
    for mut command in run_and_plan(folder.path()) {
        let shown = outcome(command.env_remove("ELSEWHERE_KEY"));
        assert_eq!(shown.code, Some(4));
        let expected = "error: engine `elsewhere`: the environment variable `ELSEWHERE_KEY`, \
            which should hold the API key, is not set\n  --> elsewhere.yaml:14:38  \
            (stages.machine.engine)\n";
        assert!(shown.stderr.contains(expected), "{}", shown.stderr);
        assert!(
            shown
                .stderr
                .contains("\nhint: run with `ELSEWHERE_KEY=… benchtrail run …`"),
            "{}",
            shown.stderr
        );
    }
    assert!(server.truth(0).is_empty());
}

#[test]
fn a_load_stage_whose_key_is_missing_or_invalid_is_reported_before_anything_is_sent() {
    let server = server(Behaviour::default());
    let folder = tempfile::tempdir().expect("a temporary folder");
    experiment(folder.path(), &server.url(), "");
    let file = folder.path().join("elsewhere.yaml");
    let yaml = fs::read_to_string(&file).expect("a file");
    let yaml = yaml.replace("requests: 2}", "requests: 2,\n    api-key-env: OTHER_KEY}");
    fs::write(&file, yaml).expect("a file");
    for mut command in run_and_plan(folder.path()) {
        let unset = outcome(command.env_remove("OTHER_KEY"));
        let unfit = outcome(command.env("OTHER_KEY", "sk-do not tell"));
        for (shown, what) in [
            (unset, "is not set"),
            (
                unfit,
                "does not hold an API key that can be sent in a header",
            ),
        ] {
            assert_eq!(shown.code, Some(4));
            let all = shown.stdout + &shown.stderr;
            assert!(
                all.contains("error: the environment variable `OTHER_KEY`") && all.contains(what),
                "{all}"
            );
            assert!(
                all.contains("--> elsewhere.yaml:17:18  (stages.steps.api-key-env)"),
                "{all}"
            );
            assert!(!all.contains("sk-do"), "{all}");
        }
    }
    assert!(server.truth(0).is_empty());
}
