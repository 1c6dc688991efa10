//! Trust on first use: programs that an experiment brings start only with the user's consent.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::support::{Outcome, Project};

/// An experiment with its own engine: a script that writes a file where it was started, and ends.
fn study(marker: &Path) -> String {
    format!(
        "experiment: elsewhere\nseed: 1\n\
         engines:\n  own:\n    title: Own\n    version: \"1\"\n    launch:\n\
         \x20     program: {{installed: sh}}\n      arguments: [\"-c\", \"touch {}; exit 1\", \"{{port}}\"]\n\
         \x20   settings:\n      threads: {{type: integer, default: 1, flags: [\"-t\", \"{{}}\"]}}\n\
         models:\n  none: {{title: None, weights: {{named: {{id: nothing}}}}}}\n\
         workloads:\n  short:\n    description: Four words.\n    prompts: {{words: {{length: 4}}}}\n    output: {{tokens: 1}}\n\
         stages:\n  env: {{kind: provision, engine: own, model: none}}\n\
         \x20 server: {{kind: serve, needs: [env], settings: {{threads: 2}}}}\n\
         \x20 ladder:\n    kind: load\n    needs: [server]\n    workload: short\n\
         \x20   arrival: {{closed-loop: {{clients: 1}}}}\n    requests: 1\n",
        marker.display()
    )
}

struct Elsewhere {
    project: Project,
    state: tempfile::TempDir,
}

impl Elsewhere {
    fn new() -> Self {
        let elsewhere = Self {
            project: Project::new(),
            state: tempfile::tempdir().expect("a temporary folder"),
        };
        fs::write(elsewhere.file(), study(&elsewhere.marker())).expect("writable");
        elsewhere
    }

    fn file(&self) -> std::path::PathBuf {
        self.project.path().join("elsewhere.yaml")
    }

    /// The file that the engine writes if it is started.
    fn marker(&self) -> std::path::PathBuf {
        self.project.path().join("started")
    }

    /// Runs a command without anything that consents for the user, and without a terminal for an answer.
    fn run(&self, arguments: &[&str]) -> Outcome {
        let mut command = self.project.command(arguments);
        command
            .env_remove("BENCHTRAIL_TRUST")
            .env("XDG_STATE_HOME", self.state.path());
        command.output().expect("the binary starts").into()
    }

    fn started(&self) -> bool {
        let started = self.marker().exists();
        fs::remove_file(self.marker()).ok();
        started
    }
}

#[test]
fn nothing_that_an_experiment_brings_is_started_before_somebody_consents() {
    let elsewhere = Elsewhere::new();
    let refused = elsewhere.run(&["run", "elsewhere.yaml"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    for part in [
        "touch ",
        "--trust",
        "plan --commands",
        "nothing was started",
    ] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    assert!(!elsewhere.started());
    // Planning and a dry run start nothing and do not ask for consent.
    elsewhere.run(&["plan", "elsewhere.yaml", "--dry-run"]).ok();
    assert!(!elsewhere.started());
}

#[test]
fn a_consent_is_remembered_for_the_folder_and_a_changed_command_asks_again() {
    let elsewhere = Elsewhere::new();
    let run = |arguments: &[&str]| {
        let outcome = elsewhere.run(arguments);
        (outcome.code, elsewhere.started())
    };
    // The engine ends at once, so the run itself fails.
    assert_eq!(run(&["run", "--trust", "elsewhere.yaml"]), (Some(1), true));
    assert_eq!(run(&["run", "elsewhere.yaml"]), (Some(1), true));
    let file = elsewhere.file();
    let before = fs::read_to_string(&file).expect("text");
    // A number can only do what the definition allows.
    fs::write(&file, before.replace("threads: 2", "threads: 3")).expect("writable");
    assert_eq!(run(&["run", "elsewhere.yaml"]), (Some(1), true));
    let changes = [
        ("exit 1", "exit 2"),
        ("installed: sh", "installed: bash"),
        ("[\"-t\", \"{}\"]", "[\"-c\", \"{}\"]"),
    ];
    for (from, to) in changes {
        assert!(before.contains(from), "{from}");
        fs::write(&file, before.replace(from, to)).expect("writable");
        assert_eq!(run(&["run", "elsewhere.yaml"]), (Some(2), false), "{to}");
    }
    fs::write(&file, &before).expect("writable");
    assert_eq!(run(&["run", "elsewhere.yaml"]), (Some(1), true));
    // The same file in another folder needs separate consent.
    let other = Elsewhere {
        project: Project::new(),
        state: tempfile::tempdir().expect("a temporary folder"),
    };
    fs::write(other.file(), &before).expect("writable");
    let mut command = other.project.command(["run", "elsewhere.yaml"]);
    command
        .env_remove("BENCHTRAIL_TRUST")
        .env("XDG_STATE_HOME", elsewhere.state.path());
    let outcome = Outcome::from(command.output().expect("the binary starts"));
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
}

#[test]
fn the_variable_for_ci_consents_and_an_empty_one_does_not() {
    let elsewhere = Elsewhere::new();
    for (value, code) in [("", 2), ("0", 2), ("1", 1)] {
        let mut command = elsewhere.project.command(["run", "elsewhere.yaml"]);
        command
            .env("BENCHTRAIL_TRUST", value)
            .env("XDG_STATE_HOME", elsewhere.state.path());
        let outcome = Outcome::from(command.output().expect("the binary starts"));
        assert_eq!(outcome.code, Some(code), "{value:?}: {}", outcome.stderr);
        assert_eq!(elsewhere.started(), code == 1, "{value:?}");
    }
}

#[test]
fn commands_are_shown_in_full_and_nothing_is_started() {
    let elsewhere = Elsewhere::new();
    let shown = elsewhere
        .run(&["plan", "--commands", "elsewhere.yaml"])
        .ok()
        .stdout;
    for part in [
        "lets the engine fetch the weights nothing",
        "sh -c 'touch ",
        "{port} -t 2",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let json = elsewhere
        .run(&["plan", "--commands", "elsewhere.yaml", "--json"])
        .ok()
        .json();
    assert_eq!(json["commands"][1]["does"], "start", "{json}");
    assert_eq!(json["commands"][1]["program"][0], "sh", "{json}");
    assert!(!elsewhere.started());
}

#[test]
fn what_ships_with_the_binary_asks_nothing_unless_it_is_given_whole_arguments() {
    let elsewhere = Elsewhere::new();
    let shown = elsewhere
        .run(&["plan", "--commands", "experiments/quickstart.yaml"])
        .ok()
        .stdout;
    for part in [
        "fetches ",
        "starts llama.cpp server",
        "OMP_WAIT_POLICY=passive",
        "--port {port}",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let bin = elsewhere.project.path().join("bin");
    fs::create_dir(&bin).expect("writable");
    let launcher = bin.join("text-generation-launcher");
    fs::write(&launcher, "#!/bin/sh\necho 0.0.1\n").expect("writable");
    fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755)).expect("ours");
    // Only the version differs, which is the documented way to measure an installed version.
    let with = |engines: &str, settings: &str| {
        let text = format!(
            "experiment: elsewhere\nseed: 1\nengines:\n  mine: {{extends: tgi, {engines}}}\n\
             models:\n  none: {{title: None, weights: {{named: {{id: nothing}}}}}}\n\
             stages:\n  env: {{kind: provision, engine: mine, model: none}}\n\
             \x20 server: {{kind: serve, needs: [env], settings: {{{settings}}}}}\n"
        );
        fs::write(elsewhere.file(), text).expect("writable");
        let mut command = elsewhere.project.command(["run", "elsewhere.yaml"]);
        command
            .env_remove("BENCHTRAIL_TRUST")
            .env("XDG_STATE_HOME", elsewhere.state.path())
            .env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        let outcome = Outcome::from(command.output().expect("the binary starts"));
        let asked = outcome.stderr.contains("have not approved");
        // Either consent is requested, or it starts and ends at once.
        assert_eq!(
            outcome.code,
            Some(if asked { 2 } else { 1 }),
            "{}",
            outcome.stderr
        );
        asked
    };
    assert!(!with("version: '0.0.1'", ""));
    assert!(with("launch: {environment: {LD_PRELOAD: /tmp/x.so}}", ""));
    assert!(with("launch: {program: {installed: sh}}", ""));
    assert!(with("version: '0.0.1'", "extra-arguments: [--load, evil]"));
}

/// An experiment that sends a file to a server that already runs, where nothing listens.
fn sending(file: &str) -> String {
    format!(
        "experiment: sending\nseed: 1\n\
         engines:\n  there: {{extends: openai, launch: {{program: {{running: \"http://127.0.0.1:9\"}}}}, ready: {{timeout-s: 1}}}}\n\
         models:\n  none: {{title: None, weights: {{named: {{id: nothing}}}}}}\n\
         workloads:\n  w: {{description: Words., prompts: {{corpus: {{file: \"{file}\", length: 7}}}}, output: {{tokens: 4}}}}\n\
         stages:\n  env: {{kind: provision, engine: there, model: none}}\n\
         \x20 server: {{kind: serve, needs: [env]}}\n\
         \x20 ladder:\n    kind: load\n    needs: [server]\n    workload: w\n\
         \x20   arrival: {{closed-loop: {{clients: 1}}}}\n    requests: 1\n"
    )
}

#[test]
fn a_file_from_outside_is_sent_to_a_running_server_only_after_consent() {
    let elsewhere = Elsewhere::new();
    let victim = tempfile::tempdir().expect("a temporary folder");
    let outside = victim.path().join("credentials");
    let words = "one two three four five six seven eight nine ten\n";
    let at = |name: &str| elsewhere.project.path().join(name);
    for file in [&outside, &at("prompts.txt"), &at(".env")] {
        fs::write(file, words.repeat(9)).expect("writable");
    }
    std::os::unix::fs::symlink(&outside, at("link.txt")).expect("a link");
    let run = |file: &str, arguments: &[&str]| {
        fs::write(at("sending.yaml"), sending(file)).expect("writable");
        elsewhere.run(arguments)
    };
    let outside = outside.to_str().expect("text");
    for (file, shown) in [
        (outside, "credentials to http://127.0.0.1:9"),
        ("link.txt", "credentials to http://127.0.0.1:9"),
        (".env", ".env to http://127.0.0.1:9"),
    ] {
        let refused = run(file, &["run", "sending.yaml", "--no-dry-run"]);
        assert_eq!(refused.code, Some(2), "{file}: {}", refused.stderr);
        for part in [
            "sends the contents of",
            shown,
            "nothing was sent",
            "--trust",
        ] {
            assert!(
                refused.stderr.contains(part),
                "{file}: {part}: {}",
                refused.stderr
            );
        }
    }
    // The server does not answer, so the run itself fails.
    let reached = |outcome: Outcome| {
        assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("127.0.0.1:9"), "{}", outcome.stderr);
    };
    reached(run("prompts.txt", &["run", "sending.yaml", "--no-dry-run"]));
    reached(run(
        outside,
        &["run", "sending.yaml", "--no-dry-run", "--trust"],
    ));
    reached(run(outside, &["run", "sending.yaml", "--no-dry-run"]));
    for file in ["/proc/self/environ", "/proc/kmsg"] {
        let refused = run(file, &["plan", "sending.yaml"]);
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains("procfs"), "{}", refused.stderr);
    }
}
