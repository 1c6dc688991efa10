//! Mistakes of the first day, by class: typing errors, files of the wrong kind, and addresses without a suitable
//! server. Each gets a message with the place, the reason and a remedy that works.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::Command;

use crate::support::{Outcome, Project};

/// Plans the study that `init` writes, with one text replaced; returns the output.
pub(crate) fn planned(project: &Project, from: &str, to: &str) -> String {
    let study = fs::read_to_string(project.path().join("mine.yaml")).expect("it is written");
    assert!(study.contains(from), "{from}");
    fs::write(
        project.path().join("spoilt.yaml"),
        study.replacen(from, to, 1),
    )
    .expect("a file");
    let outcome = project.run(["plan", "spoilt.yaml"]);
    assert_eq!(
        outcome.code,
        Some(2),
        "{to}: {}{}",
        outcome.stdout,
        outcome.stderr
    );
    outcome.stderr
}

/// Returns the message about a change to the study, which must contain a hint.
pub(crate) fn hinted(project: &Project, from: &str, to: &str, hint: &str) -> String {
    let message = planned(project, from, to);
    assert!(message.contains(hint), "{to}: {message}");
    message
}

pub(crate) fn written() -> Project {
    let project = Project::new();
    project.run(["init", "mine", "--yes"]).ok();
    project
}

#[test]
fn a_value_in_another_spelling_gets_ours() {
    let project = written();
    let heartbeat = |text: &str| format!("requests: 16\n    heartbeat: {text}");
    for (to, hint) in [
        ("requests: 1_000", "hint: write 1000\n"),
        ("requests: 12,500", "hint: write 12500\n"),
        ("requests: 2k", "hint: write the number out: 2000 or 2048\n"),
        ("requests: 1.5", "hint: write 1 or 2\n"),
        ("requests: [16]", "hint: write 16 without brackets\n"),
        (
            "requests: [16, 32]",
            "hint: write one value; to measure several",
        ),
        (&heartbeat("30sec"), "hint: write `30 s`\n"),
        (&heartbeat("2 minuts"), "hint: write `2 min`\n"),
        (&heartbeat("1:30"), "hint: write `90 s`\n"),
        (
            &heartbeat("1 h 30 min"),
            "hint: a duration has one number and one unit: write `90 min`\n",
        ),
        (&heartbeat("soon"), "hint: write a number and a unit"),
        (
            "requests: 16\n    generators: [left, right]",
            "hint: write `{hosts: [\"left\",\"right\"]}`",
        ),
        (
            "requests: 16\n    timeout: 0s",
            "error: no cell can end within 0 s",
        ),
    ] {
        let message = hinted(&project, "requests: 16", to, hint);
        assert!(message.contains("spoilt.yaml:1"), "{to}: {message}");
    }
    // Its rows would state a number of clients that the server never had.
    let few = planned(&project, "clients: [1, 2, 4]", "clients: [1, 17, 64]");
    for expected in [
        "16 requests are fewer than the 17 clients",
        "16 requests are fewer than the 64 clients",
        "hint: measure 64 requests or more; `requests-per-client: 8`",
        "spoilt.yaml:16:",
    ] {
        assert!(few.contains(expected), "{few}");
    }
    for (from, to, hint) in [
        (
            "clients: [1, 2, 4]",
            "clients: 4",
            "hint: write it as `[4]`, one label, or as `{from: 1, to: 4}`, 4 labels\n",
        ),
        (
            "clients: [1, 2, 4]",
            "clients: 1..4",
            "hint: write `{from: 1, to: 4}`\n",
        ),
        (
            "clients: [1, 2, 4]",
            "clients: range(1, 5)",
            "hint: write `{from: 1, to: 4}`\n",
        ),
        (
            "over: [clients]",
            "over: clients",
            "hint: write it as `[clients]`\n",
        ),
        (
            "ladder]}    #",
            "ladder], gates: [row-stats]}    #",
            "hint: write `{gate: row-status}`\n",
        ),
        (
            "{operator: cell-summary}",
            "cell_summary",
            "hint: write `{operator: cell-summary}`\n",
        ),
        (
            "operator: cell-summary",
            "operator: compare",
            "hint: write `paired-comparison`, for two labels of an axis",
        ),
        (
            "operator: aggregate",
            "operator: group_by",
            "hint: write `aggregate`, over rows of another table",
        ),
        (
            "results]}",
            "results], figures: {f: {kind: line, table: results.means, x: clients, title: F, caption: F}}}",
            "hint: write `ladder`, for a column over a ladder of loads, or `timeline`",
        ),
        ("kind: verify", "kind: check", "hint: write `verify`\n"),
        ("kind: load", "kind: Benchmark", "hint: write `load`\n"),
        ("kind: report", "kind: plot", "hint: write `report`\n"),
        (
            "ladder]}    #",
            "ladder], thresholds: {ttft_ms_p99: 200}}    #",
            "hint: write `gates: [{gate: …}]`; `benchtrail list gates` lists them\n",
        ),
        (
            "ladder]}    #",
            "ladder], gates: [{gate: error-rate}]}    #",
            "hint: write `row-status`, with the `tolerance` as a share\n",
        ),
        (
            "engine: llama-cpp",
            "engine: http://127.0.0.1:8000",
            "`benchtrail init --from-url http://127.0.0.1:8000` writes a study\n",
        ),
        (
            "output_throughput",
            "tokens_per_second",
            "hint: did you mean `output_throughput`?\n",
        ),
        (
            "ttft_ms_p50",
            "p99_ttft",
            "hint: did you mean `ttft_ms_p99`?\n",
        ),
        (
            "ttft_ms_p50",
            "ttft_p50_ms",
            "hint: did you mean `ttft_ms_p50`?\n",
        ),
        (
            "workload: short-decode",
            "workload: ./workloads/my.yaml",
            "hint: name it without folder and ending: `my`",
        ),
        (
            "requests: 16",
            "requests: !env N",
            "hint: remove it; a value from outside is a parameter",
        ),
        (
            "clients: [1, 2, 4]",
            "clients: *levels",
            "hint: nothing above is marked `&levels`",
        ),
    ] {
        hinted(&project, from, to, hint);
    }
}

#[test]
fn a_key_of_another_tool_gets_ours() {
    let project = written();
    let more = |key: &str| format!("requests: 16\n    {key}: 1");
    for (to, hint) in [
        (more("max_requests"), "hint: write `requests`\n"),
        (more("Num_Prompts"), "hint: write `requests`\n"),
        (
            more("max_concurrency"),
            "hint: write `arrival: {closed-loop: {clients: N}}`; beside a rate, `max-in-flight: N`\n",
        ),
        (more("input_len"), "hint: it is a key of the workload: "),
        (more("depends_on"), "hint: write `needs: [STAGE]`\n"),
        (more("deps"), "hint: write `needs: [STAGE]`\n"),
        (more("foreach"), "hint: write `over: [AXIS]`"),
        (more("cmd"), "hint: it is a key of a stage of kind `run`"),
        (
            more("target"),
            "hint: it is the engine of the provision stage",
        ),
    ] {
        hinted(&project, "requests: 16", &to, hint);
    }
    for (from, to, hint) in [
        ("stages:\n", "services:\n", "hint: write `stages`\n"),
        ("axes:\n", "strategy:\n", "hint: write `axes`\n"),
        (
            "needs: [machine]}",
            "needs: [machine], settings: {--ctx-size: 4096}}",
            "hint: write `context`: that is the setting for the engine's option `--ctx-size`",
        ),
        (
            "needs: [machine]}",
            "needs: [machine], settings: {n_threads: 4, ctx_size: 4096}}",
            "hint: write `context`: that is the setting for the engine's option `ctx_size`",
        ),
    ] {
        hinted(&project, from, to, hint);
    }
}

#[test]
fn the_id_of_a_model_gets_a_definition_that_plans() {
    let project = written();
    let model = "model: smollm2-135m-instruct";
    // An engine that loads files has no use for the id.
    let message = planned(&project, model, "model: Org/Model-1B");
    assert!(
        message.contains("weights: {local: {path: FILE.gguf, sha256: SHA256}}")
            && message.contains("choose an engine that loads ids from a hub"),
        "{message}"
    );
    let served = "served: {title: Served, weights: {named: {id: Org/Model-1B}}}";
    let study = fs::read_to_string(project.path().join("mine.yaml")).expect("it is written");
    let there = "engines:\n  there: {extends: openai, api: openai-chat, launch: {program: {running: \
                 \"http://127.0.0.1:1\"}}}\naxes:\n";
    let with_id = study
        .replace(
            "llama-cpp, model: smollm2-135m-instruct",
            "there, model: Org/Model-1B",
        )
        .replace("axes:\n", there);
    fs::write(project.path().join("id.yaml"), &with_id).expect("a file");
    let message = project.run(["plan", "id.yaml"]).stderr;
    assert!(
        message.contains(served) && message.contains("write `model: served`"),
        "{message}"
    );
    let mended = with_id
        .replace("model: Org/Model-1B}\n", "model: served}\n")
        .replace("engines:\n", &format!("models:\n  {served}\nengines:\n"));
    fs::write(project.path().join("mended.yaml"), mended).expect("a file");
    project.run(["plan", "mended.yaml"]).ok();
}

/// Two experiments with the same name write to the same place.
#[test]
fn a_run_that_replaces_the_report_of_another_experiment_says_so() {
    let project = Project::new();
    let study =
        fs::read_to_string(project.path().join("experiments/simulated.yaml")).expect("shipped");
    let run = |file: &str| {
        fs::create_dir_all(project.path().join("experiments/b c")).expect("a folder");
        fs::write(project.path().join(file), &study).expect("a file");
        project.run(["run", file, "--smoke"])
    };
    let replaces = "is also named `simulated`, so this run replaces its report";
    let first = run("experiments/simulated.yaml");
    assert!(!first.stderr.contains(replaces), "{}", first.stderr);
    let other = run("experiments/b c/mine.yaml");
    assert!(
        other
            .stderr
            .contains(&format!("experiments/simulated.yaml {replaces}")),
        "{}",
        other.stderr
    );
    // Commands printed for copying work, although the path contains a space.
    assert!(
        other
            .stdout
            .contains("benchtrail plan 'experiments/b c/mine.yaml' --smoke"),
        "{}",
        other.stdout
    );
    let again = run("experiments/b c/mine.yaml");
    assert!(!again.stderr.contains(replaces), "{}", again.stderr);
}

#[test]
fn a_line_that_is_indented_wrongly_is_named() {
    let project = written();
    for (from, to, hint) in [
        (
            "    workload:",
            "workload:",
            "hint: line 14 already has a value",
        ),
        (
            "    workload:",
            "      workload:",
            "hint: line 13 already has a value",
        ),
        (
            "  machine: {kind",
            "  - machine: {kind",
            "hint: line 8 is an item of a list and line 9 is not",
        ),
        (
            "    workload:",
            "   workload:",
            "hint: line 14 is indented by 3, and no line above it is",
        ),
        ("\"${clients}\"", "\"${clients}", "lack its closing quote?"),
        (
            "    workload:",
            "\u{a0}\u{a0}\u{a0}\u{a0}workload:",
            "hint: the character U+00A0 at 14:1 looks like a space",
        ),
        (
            "requests: 16",
            "requests: 1\x006",
            "hint: the character U+0000 at 16:16 cannot be seen",
        ),
        (
            "\"${clients}\"",
            "\u{201c}${clients}\u{201d}",
            "only straight quotes are quotes: write `\"${clients}\"`\n",
        ),
        (
            "over: [clients]",
            "over: [*]",
            "hint: put it in quotes if it is text",
        ),
        (
            "over: [clients]",
            "over: *",
            "hint: put it in quotes if it is text",
        ),
        (
            "kind: provision, engine",
            "kind: provision engine",
            "hint: put a comma before `engine`\n",
        ),
    ] {
        hinted(&project, from, to, hint);
    }
}

#[test]
fn a_file_in_another_encoding_is_reported_with_the_place_of_the_first_strange_byte() {
    let project = Project::new();
    let message = |bytes: &[u8]| {
        fs::write(project.path().join("a.yaml"), bytes).expect("a file");
        let outcome = project.run(["plan", "a.yaml"]);
        assert_eq!(outcome.code, Some(2));
        outcome.stderr
    };
    let latin = message(b"experiment: a\n# caf\xe9\n");
    assert!(latin.contains("--> a.yaml:2:6\n"), "{latin}");
    assert!(latin.contains("byte 0xe9"), "{latin}");
    assert!(latin.contains("hint: save the file as UTF-8"), "{latin}");
    let wide = message(b"\xff\xfee\0x\0p\0");
    assert!(wide.contains("UTF-16, not UTF-8"), "{wide}");
}

/// Every command that reads a path, with the arguments after it.
const READERS: [(&str, &[&str]); 16] = [
    ("run", &[]),
    ("plan", &[]),
    ("power", &[]),
    ("doctor", &[]),
    ("publish", &["--author", "A"]),
    ("status", &[]),
    ("ls", &[]),
    ("show", &[]),
    ("sql", &[]),
    ("report", &[]),
    ("diff", &["missing.lock"]),
    ("history", &["results.cells.n_ok"]),
    ("verify", &[]),
    ("reproduce", &[]),
    ("audit", &[]),
    ("why", &["1"]),
];

fn read(project: &Project, (command, more): (&str, &[&str]), path: &str) -> Outcome {
    let outcome = project.run([&[command, path], more].concat());
    let message = &outcome.stderr;
    assert!(
        outcome.code != Some(0),
        "{command} {path}: {}",
        outcome.stdout
    );
    assert!(!message.contains("panicked"), "{command} {path}: {message}");
    assert!(
        message.contains("hint: "),
        "{command} {path} has no remedy: {message}"
    );
    // The remedy for an experiment that has not run is wrong for a file that is not an experiment.
    assert!(
        !message.contains("has not run yet"),
        "{command} {path}: {message}"
    );
    outcome
}

#[test]
fn what_is_no_regular_file_is_named_by_every_command() {
    let project = Project::new();
    let at = |name: &str| project.path().join(name);
    let made = Command::new("mkfifo").arg(at("fifo")).status();
    assert!(made.expect("mkfifo").success());
    let _socket = UnixListener::bind(at("socket")).expect("a socket");
    for reader in READERS {
        for (path, what) in [
            ("fifo", "fifo is a FIFO, not "),
            ("socket", "socket is a socket, not "),
            ("/dev/null", "/dev/null is a device, not "),
        ] {
            let message = read(&project, reader, path).stderr;
            assert!(message.contains(what), "{} {path}: {message}", reader.0);
        }
    }
}

#[test]
fn the_error_for_a_file_of_another_kind_says_what_it_is_and_what_reads_it() {
    let project = Project::new();
    let text = "experiment: a\nseed: 1\nstages: {}\n";
    for (name, bytes) in [
        ("a.md", b"# A report\n".as_slice()),
        ("a.html", b"<!doctype html>\n"),
        ("a.yaml", text.as_bytes()),
        ("a.lock", b"benchtrail lock 2\n"),
        ("notes.txt", b"hello\n"),
        ("table.bin", b"PAR1....PAR1"),
        ("program", b"\x7fELF\0\0"),
        ("empty.txt", b""),
    ] {
        fs::write(project.path().join(name), bytes).expect("a file");
    }
    let message = |command: &str, path: &str| {
        let reader = READERS.iter().find(|(name, _)| *name == command);
        read(&project, *reader.expect("a reader"), path).stderr
    };
    for (command, path, what, hint) in [
        (
            "run",
            "a.md",
            "is a report, not an experiment",
            "benchtrail why a.md:LINE",
        ),
        (
            "run",
            "a.lock",
            "is a lock, not an experiment",
            "give `a.yaml`",
        ),
        (
            "plan",
            "table.bin",
            "is a Parquet table, not an experiment",
            "benchtrail sql table.bin",
        ),
        (
            "plan",
            "program",
            "a binary file",
            "`benchtrail init` writes one",
        ),
        (
            "status",
            "notes.txt",
            "is a text file of another kind",
            "or its lock",
        ),
        (
            "ls",
            "a.html",
            "is a page for browsers, not a study",
            "an experiment's YAML file",
        ),
        (
            "verify",
            "a.yaml",
            "is an experiment, not a bundle",
            "benchtrail publish a.yaml --author NAME",
        ),
        (
            "verify",
            "nothing",
            "no such file or folder",
            "benchtrail publish",
        ),
        ("why", "a.lock", "is a lock, not a report", "rendered"),
        (
            "audit",
            "a.yaml",
            "is an experiment, not a report",
            "benchtrail run a.yaml",
        ),
        (
            "show",
            "",
            "the path of a study is empty",
            "a lock, a bundle",
        ),
        (
            "why",
            "empty.txt",
            "is an empty file, not a report",
            "rendered",
        ),
    ] {
        let message = message(command, path);
        assert!(message.contains(what), "{command} {path}: {message}");
        assert!(message.contains(hint), "{command} {path}: {message}");
    }
    // A store is not a study, and the file by which runs take turns is not a lock of one.
    fs::create_dir_all(project.path().join(".benchtrail/objects")).expect("a folder");
    fs::write(project.path().join(".benchtrail/gc.lock"), "").expect("a file");
    let store = message("ls", ".benchtrail");
    assert!(
        store.contains(".benchtrail is a store, not a study"),
        "{store}"
    );
    assert!(!store.contains("gc.lock"), "{store}");
    // A table may have any name.
    assert!(message("show", "table.bin").contains("table.bin: not a readable Parquet table"));
}

/// A server that gives the same answer to every request, for as long as the test runs; returns its URL.
pub(crate) fn answering(models: &'static str, answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut stream = stream;
                let mut head = [0_u8; 16_384];
                let Ok(n) = stream.read(&mut head) else {
                    return;
                };
                let get = head[..n].starts_with(b"GET");
                let _gone = stream.write_all(if get { models } else { answer }.as_bytes());
            });
        }
    });
    url
}

/// Users who measure from the command line have no study file for a key.
#[test]
fn a_remedy_of_load_names_options_and_not_keys_of_a_study() {
    let project = Project::new();
    let gone = "HTTP/1.1 404 No\r\ncontent-length: 4\r\nconnection: close\r\n\r\ngone";
    let url = answering(MODELS, gone);
    let outcome = project.run(["load", &url, "--input-len", "10", "--no-preflight"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("name a tokenizer with --tokenizer")
            && !outcome.stderr.contains("{file"),
        "{}",
        outcome.stderr
    );
    let file = |name: &str, text: &str| {
        fs::write(project.path().join(name), text).expect("a file");
    };
    file("talks.json", "[{\"conversations\": []}]");
    let outcome = project.run(["load", "http://127.0.0.1:1", "--trace", "talks.json"]);
    assert_eq!(outcome.code, Some(2));
    assert!(
        outcome
            .stderr
            .contains("talks.json, line 1: a trace is an object a line"),
        "{}",
        outcome.stderr
    );
    assert_eq!(
        outcome.stderr.matches("error: ").count(),
        1,
        "{}",
        outcome.stderr
    );
    assert!(
        !outcome.stderr.contains("number of requests"),
        "{}",
        outcome.stderr
    );
}

pub(crate) const MODELS: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 23\r\nconnection: close\r\n\r\n\
                      {\"data\":[{\"id\":\"one\"}]}";

#[test]
fn a_load_of_which_no_request_is_answered_says_why() {
    let project = Project::new();
    for (answer, reason, hint) in [
        (
            "HTTP/1.1 500 Oh\r\ncontent-length: 13\r\nconnection: close\r\n\r\nout of memory",
            "no request was answered: HTTP 500: out of memory",
            "look into its log",
        ),
        (
            "HTTP/1.1 429 Slow\r\ncontent-length: 4\r\nconnection: close\r\n\r\nwait",
            "no request was answered: HTTP 429: wait",
            "lower --concurrency or --rate",
        ),
    ] {
        let url = answering(MODELS, answer);
        let outcome = project.run(["load", &url, "--concurrency", "2", "--requests", "4"]);
        assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(reason), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(hint), "{}", outcome.stderr);
    }
}

#[test]
fn an_argument_of_load_in_another_form_gets_ours() {
    let project = Project::new();
    let message = |arguments: &[&str]| {
        let outcome = project.run([&["load"], arguments].concat());
        assert!(
            matches!(outcome.code, Some(2 | 4)),
            "{arguments:?}: {}",
            outcome.stderr
        );
        outcome.stderr
    };
    let here = "http://127.0.0.1:1";
    for (arguments, hint) in [
        (
            ["mine.yaml", "--quiet", "--requests", "4"],
            "benchtrail run mine.yaml",
        ),
        (
            ["http://a?key=1", "--quiet", "--requests", "4"],
            "base URL: http://a\n",
        ),
        ([here, "--quiet", "--duration", "30sec"], "write `30 s`"),
        ([here, "--quiet", "--goodput", "ttft:2sec"], "write ttft:2s"),
        (
            [here, "--quiet", "--goodput", "200"],
            "write ttft:200, tpot:200 or e2e:200",
        ),
        (
            [here, "--quiet", "--prompt-words", "400..100"],
            "write 100..400",
        ),
        (
            [here, "--quiet", "--prompt-words", "100-400"],
            "write 100..400",
        ),
        (
            [here, "--quiet", "--concurrency", "1:8"],
            "separate the levels with commas",
        ),
        (
            [here, "--quiet", "--api", "/v1/chat/completions"],
            "'openai-chat'",
        ),
        (
            [here, "--quiet", "--api-key-env", "NOT_SET_AT_ALL"],
            "`export NOT_SET_AT_ALL=…`",
        ),
    ] {
        let message = message(&arguments);
        assert!(message.contains(hint), "{arguments:?}: {message}");
    }
    for (arguments, said, hint) in [
        (
            vec!["8000"],
            "must begin with http://",
            "write http://127.0.0.1:8000\n",
        ),
        (
            vec![":8000"],
            "127.0.0.1:8000",
            "write http://127.0.0.1:8000\n",
        ),
        (
            vec!["http://127.0.0.1:1 "],
            "",
            "leave out the space around it: http://127.0.0.1:1\n",
        ),
        (
            vec![here, "--api-key-env", "sk-proj-123"],
            "this is not a valid name",
            "`export MY_KEY=…`",
        ),
    ] {
        let message = message(&arguments);
        assert!(
            message.contains(said) && message.contains(hint),
            "{arguments:?}: {message}"
        );
        assert!(!message.contains("sk-proj-123"), "{message}");
    }
    // The part before the host may contain a password.
    let url = ["http", "://", "me:secret@127.0.0.1:1"].concat();
    let message = message(&[&url, "--quiet", "--requests", "4"]);
    assert!(
        !message.contains("secret") && message.contains("no password"),
        "{message}"
    );
}

#[test]
fn a_stage_that_lacks_an_input_is_reported_while_planning() {
    let project = written();
    let unverified = "no verify stage among `needs` covers the load stage `ladder`";
    let unread = "the stage does not need a load stage";
    for (from, to, message, hint) in [
        (
            "needs: [ladder, checks]",
            "needs: [ladder]",
            unverified,
            "hint: add a verify stage",
        ),
        (
            "needs: [ladder, checks]",
            "needs: [checks]",
            unread,
            "hint: an analyze stage needs the load stage",
        ),
        (
            "needs: [server, ladder]",
            "needs: [server]",
            unread,
            "hint: a verify stage must need the load stages",
        ),
    ] {
        let printed = planned(&project, from, to);
        assert!(
            printed.contains(message) && printed.contains(hint),
            "{to}: {printed}"
        );
        assert!(
            printed.contains("spoilt.yaml:") && printed.contains("needs"),
            "{to}: {printed}"
        );
    }
}

#[test]
fn a_stage_whose_kind_does_not_fit_its_keys_is_the_only_mistake_of_those_that_need_it() {
    let project = Project::new();
    let text = "experiment: one\nseed: 1\nstages:\n  machine: {kind: provision, engine: llama-cpp, model: smollm2-135m-instruct}\n  \
                server: {kind: serve, needs: [machine], engine: llama-cpp, model: smollm2-135m-instruct}\n  load: {kind: load, \
                needs: [server], workload: short-decode, arrival: {closed-loop: {clients: 1}}, requests: 10}\n";
    fs::write(project.path().join("one.yaml"), text).expect("writable");
    let printed = project.run(["plan", "one.yaml"]).stderr;
    assert_eq!(printed.matches("error: ").count(), 1, "{printed}");
    assert!(
        printed.contains("a stage of kind `serve` has no keys `engine`, `model`"),
        "{printed}"
    );
}
