//! Mistakes of a stranger in the first hours: names in queries, operators and templates, options of other commands, and
//! words of the environment. Planning reports what it can know, at the place of the word.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;

use crate::mistakes::{hinted, planned, written};
use crate::support::{Outcome, Project};

const MEANS: &str = "over: [block], columns: [output_throughput, ttft_ms_p50, tpot_ms_p50]";
const CELLS: &str = "cells: {operator: cell-summary}";
const CHECKS: &str = "checks: {kind: verify, needs: [server, ladder]}";

#[test]
fn a_misspelt_variable_is_reported() {
    let project = written();
    let outcome: Outcome = project
        .command(["plan", "mine.yaml"])
        .env("BENCHTRAIL_STOR", "elsewhere")
        .output()
        .expect("the binary starts")
        .into();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains(
            "warning: the variable BENCHTRAIL_STOR is not read; did you mean BENCHTRAIL_STORE?\n"
        ),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_store_that_cannot_be_made_is_reported_by_doctor_and_by_run() {
    let project = written();
    fs::write(project.path().join("file"), "text").unwrap();
    let run = project.run(["--store", "file/store", "plan", "mine.yaml"]);
    assert_eq!(run.code, Some(4), "{}", run.stderr);
    assert!(
        run.stderr.contains("hint: the store is a folder: "),
        "{}",
        run.stderr
    );
    let doctor = project.run(["--store", "file/store", "doctor"]);
    assert_eq!(doctor.code, Some(4), "{}", doctor.stdout);
    assert!(
        doctor.stdout.contains("file is not a folder"),
        "{}",
        doctor.stdout
    );
    // No file can be made in this folder, not even by root.
    let doctor = project.run(["--store", "/proc/self/store", "doctor"]);
    assert_eq!(doctor.code, Some(4), "{}", doctor.stdout);
    assert!(
        doctor.stdout.contains("cannot be written: "),
        "{}",
        doctor.stdout
    );
    assert!(
        doctor
            .stdout
            .contains("put the store elsewhere with `--store DIR`"),
        "{}",
        doctor.stdout
    );
    let well = project.run(["--store", "new", "doctor"]);
    assert!(
        well.stdout.contains("can be created by the first run"),
        "{}",
        well.stdout
    );
    assert!(
        !project.path().join("new").exists(),
        "doctor makes no store"
    );
}

#[test]
fn doctor_names_the_variable_of_a_key_that_is_not_set() {
    let project = written();
    let study = fs::read_to_string(project.path().join("mine.yaml")).unwrap();
    let keyed = study.replace(
        "requests: 16",
        "requests: 16\n    api-key-env: NO_SUCH_KEY_HERE",
    );
    fs::write(project.path().join("keyed.yaml"), keyed).unwrap();
    let doctor = project.run(["doctor", "keyed.yaml"]);
    assert!(
        doctor
            .stdout
            .contains("`NO_SUCH_KEY_HERE`, which should hold the API key, is not set"),
        "{}",
        doctor.stdout
    );
    assert!(
        doctor.stdout.contains("stage `ladder`"),
        "{}",
        doctor.stdout
    );
}

/// A study without a server, with the text of a report template.
fn simulated(project: &Project, template: &str) -> String {
    let study = fs::read_to_string(project.path().join("experiments/simulated.yaml")).unwrap();
    let study = format!(
        "{study}\n  report: {{kind: report, needs: [ladder, checks, results], template: mine.md}}\n"
    );
    fs::create_dir_all(project.path().join("templates")).unwrap();
    fs::write(project.path().join("templates/mine.md"), template).unwrap();
    fs::write(project.path().join("sim.yaml"), study).unwrap();
    let outcome = project.run(["plan", "--dry-run", "sim.yaml"]);
    format!("{}{}", outcome.stderr, outcome.code.unwrap_or_default())
}

#[test]
fn a_template_with_a_label_or_a_column_that_does_not_exist_is_an_error() {
    let project = Project::new();
    for (template, expected) in [
        (
            "{{ count(\"results.cells\", {\"configuration\": \"bathed\"}) }}",
            "`bathed` is not a label of the axis `configuration`; did you mean `batched`?",
        ),
        (
            "{% for r in rows(\"results.cells\", {\"clients\": 3}) %}{{ r.show(\"ttft_ms_p50\") }}{% endfor %}",
            "`3` is not a label of the axis `clients`; the labels of `clients` are `1`, `2`, `4`, `8`",
        ),
        (
            "{{ value(\"results.means\", {\"configuration\": \"serial\", \"clients\": 9}, \"output_throughput_mean\") }}",
            "`9` is not a label of the axis `clients`",
        ),
        (
            "{% for r in rows(\"results.cells\", {\"configuration\": [\"serial\", \"batch\"]}) %}{{ r.configuration }}{% endfor %}",
            "`batch` is not a label of the axis `configuration`; did you mean `batched`?",
        ),
        (
            "{% for r in rows(\"results.cells\") %}{% if r.ttft_p50 > 1 %}x{% endif %}{% endfor %}",
            "`results.cells` has no column `ttft_p50`; did you mean `ttft_ms_p50`?",
        ),
        (
            "{% for r in rows(\"results.cells\") %}{{ r.configuratoin }}{% endfor %}",
            "`results.cells` has no column `configuratoin`; did you mean `configuration`?",
        ),
    ] {
        let message = simulated(&project, template);
        assert!(
            message.contains(expected) && message.ends_with('2'),
            "{template}: {message}"
        );
        assert!(message.contains("mine.md:1:"), "{template}: {message}");
    }
    for (template, expected) in [
        (
            "{{ count(\"results.cells\", {\"clients\": \"4\"}) }}",
            "the label `4` of the axis `clients` is no text: write it without quotes",
        ),
        (
            "{{ table(\"cells\", where={\"clients\": 4}) }}",
            "too many arguments; write `table(\"NAME\")`",
        ),
        (
            "{{ value(\"results.means\", \"n\", {\"clients\": 4}) }}",
            "write `value(\"STAGE.TABLE\", {\"AXIS\": LABEL}, \"COLUMN\", \"FORMAT\")`",
        ),
        (
            "{% for r in rows(\"results.cells\", order=\"clients\") %}x{% endfor %}",
            "write `rows(\"STAGE.TABLE\", {\"COLUMN\": VALUE}, order=[\"COLUMN\"])`",
        ),
        (
            "{{ count(\"results.cells\", {}) * 2 }}",
            "a template computes nothing: ",
        ),
        ("{{ results.cells }}", "`rows(\"results.cells\")`"),
        (
            "{{ spec(\"axes.client\") }}",
            "the experiment has no `axes.client`; did you mean `clients`?",
        ),
    ] {
        let message = simulated(&project, template);
        assert!(
            message.contains(expected) && message.ends_with('2'),
            "{template}: {message}"
        );
    }
    // A template may ask whether a column exists, and whether values that depend on the data occur.
    for template in [
        "{% for r in rows(\"results.cells\") %}{% if r.pairs is defined %}x{% endif %}{% endfor %}",
        "{% for r in rows(\"results.cells\", {\"n_ok\": 3}) %}x{% endfor %}",
    ] {
        let message = simulated(&project, template);
        assert!(message.ends_with('0'), "{template}: {message}");
    }
}

/// A server that lists a model and never answers a request for text. It says on a channel when it has this many of them.
fn silent(requests: usize) -> (String, mpsc::Receiver<()>) {
    const MODELS: &str =
        "{\"object\": \"list\", \"data\": [{\"id\": \"any\", \"object\": \"model\"}]}";
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut start = [0; 4];
            if stream.read_exact(&mut start).is_err() {
                continue;
            }
            if start.starts_with(b"POST") {
                open.push(stream);
                if open.len() == requests {
                    sender.send(()).expect("the test listens");
                }
                continue;
            }
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
                MODELS.len()
            );
            let answer = format!("{head}connection: close\r\n\r\n{MODELS}");
            stream
                .write_all(answer.as_bytes())
                .expect("it takes the answer");
        }
    });
    (url, receiver)
}

#[test]
fn requests_that_ctrl_c_cuts_off_are_cancelled_and_not_failed() {
    let project = Project::new();
    let (url, sent) = silent(2);
    let arguments = [
        "load",
        &url,
        "--model",
        "any",
        "--concurrency",
        "2",
        "--requests",
        "4",
        "--no-preflight",
        "--quiet",
    ];
    let child = project
        .command(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    sent.recv().expect("both clients send");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("SIGINT");
    let outcome: Outcome = child.wait_with_output().expect("it ends").into();
    assert_eq!(
        outcome.code,
        Some(130),
        "{}{}",
        outcome.stdout,
        outcome.stderr
    );
    let lines: Vec<String> = outcome
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    for line in [
        "Successful requests 0",
        "Failed requests 0",
        "Cancelled requests 2 neither successful nor failed; the first: stopped",
        "Requests never sent 2",
    ] {
        assert!(
            lines.iter().any(|l| l == line),
            "{line}: {}",
            outcome.stdout
        );
    }
    assert!(!outcome.stdout.contains("errors"), "{}", outcome.stdout);
}

#[test]
fn a_dry_run_names_the_setting_of_a_figure_that_is_wrong() {
    let project = Project::new();
    let study = fs::read_to_string(project.path().join("experiments/simulated.yaml")).unwrap();
    for (section, place, message) in [
        (
            "figures: {f: {kind: ladder, table: results.means, x: clinets, y: output_throughput_mean, title: T, caption: C}}",
            "stages.report.figures.f.x",
            "`results.means` has no column `clinets`; did you mean `clients`?",
        ),
        (
            "tables: {t: {from: results.mean, columns: [clients], caption: C}}",
            "stages.report.tables.t.from",
            "stage `results` has no output `mean`; ",
        ),
        (
            "tables: {t: {from: results.means, columns: [clients], order: [-client], caption: C}}",
            "stages.report.tables.t.order",
            "`results.means` has no column `client`; did you mean `clients`?",
        ),
        (
            "tables: {t: {from: results.means, columns: [clients], where: {configuration: bathed}, caption: C}}",
            "stages.report",
            "`bathed` is not a label of the axis `configuration`; did you mean `batched`?",
        ),
    ] {
        let study = format!(
            "{study}\n  report: {{kind: report, needs: [ladder, checks, results], {section}}}\n"
        );
        fs::write(project.path().join("sim.yaml"), study).unwrap();
        let outcome = project.run(["plan", "--dry-run", "sim.yaml"]);
        assert_eq!(outcome.code, Some(2), "{section}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains(message) && outcome.stderr.contains(place),
            "{section}: {}",
            outcome.stderr
        );
    }
}

#[test]
fn names_on_the_command_line_are_met_with_those_that_exist() {
    let project = written();
    let none = project.run(["plan", "mine.yaml", "--only", "ladder[block=1,clients=3]"]);
    assert_eq!(none.code, Some(2), "{}", none.stderr);
    assert!(
        none.stderr
            .contains("hint: the labels of `clients` are `1`, `2`, `4`\n"),
        "{}",
        none.stderr
    );
    project
        .run(["run", "experiments/simulated.yaml", "--only", "ladder"])
        .ok();
    let sql = project.run(["sql", "experiments/simulated.yaml", "select * from cells"]);
    assert_eq!(sql.code, Some(5), "{}", sql.stderr);
    assert!(
        sql.stderr.contains(
            "these stages have no tables, because none of their cells is ok: `checks`, `results`"
        ),
        "{}",
        sql.stderr
    );
}
