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

/// Returns a part of the study in which a line marks the same columns as the line with carets below it.
fn marked(message: &str) -> String {
    let lines: Vec<&str> = message.lines().collect();
    let carets = lines.iter().position(|line| line.contains('^'));
    let at = carets.expect("a line has carets");
    let chars = |line: &str| line.chars().collect::<Vec<char>>();
    let (text, under) = (chars(lines[at - 1]), chars(lines[at]));
    let marks = under.iter().enumerate().filter(|(_, c)| **c == '^');
    marks.map(|(i, _)| text[i]).collect()
}

#[test]
fn planning_knows_the_key_columns_of_every_table() {
    let project = written();
    for (to, wrong, hint) in [
        (
            "over: [blocks], columns: [ttft_ms_p50]",
            "blocks",
            "hint: did you mean `block`?\n",
        ),
        (
            "over: [block, client], columns: [ttft_ms_p50]",
            "client",
            "hint: did you mean `clients`?\n",
        ),
        (
            "over: [seed], columns: [ttft_ms_p50]",
            "seed",
            "hint: the key columns are `block`, `clients`\n",
        ),
        (
            "over: [block], unit: [rep], columns: [ttft_ms_p50]",
            "rep",
            "hint: the key columns are `block`, `clients`\n",
        ),
    ] {
        let message = hinted(&project, MEANS, to, hint);
        assert!(
            message.contains(&format!(
                "error: `{wrong}` is not a key column of the table `cells`\n"
            )),
            "{message}"
        );
        assert_eq!(marked(&message), wrong, "{message}");
        assert_eq!(message.matches("error: ").count(), 1, "{message}");
    }
    // A table that was combined over an axis no longer has it.
    let twice = format!(
        "{MEANS}}}\n      again: {{operator: aggregate, from: means, over: [block], columns: [ttft_ms_p50_mean]"
    );
    let message = hinted(
        &project,
        MEANS,
        &twice,
        "hint: the key columns are `clients`\n",
    );
    assert!(
        message.contains("key column of the table `means`"),
        "{message}"
    );
    let ladder = format!(
        "{CELLS}\n      eff: {{operator: parallel-efficiency, from: cells, ladder: concurrency}}"
    );
    assert_eq!(marked(&planned(&project, CELLS, &ladder)), "concurrency");
    let pair = format!(
        "{CELLS}\n      eff: {{operator: paired-comparison, from: cells, pair: {{axis: engine, a: 1, b: 2}}, \
         columns: [ttft_ms_p50]}}"
    );
    assert_eq!(marked(&planned(&project, CELLS, &pair)), "engine");
    let pooled =
        format!("{CELLS}\n      d: {{operator: distribution, metrics: [ttft_ms], over: [blocks]}}");
    let message = hinted(&project, CELLS, &pooled, "hint: did you mean `block`?\n");
    assert!(
        message.contains("error: `blocks` is not an axis of the study\n"),
        "{message}"
    );
}

#[test]
fn planning_knows_the_columns_of_a_query_and_marks_the_word() {
    let project = written();
    let query = |text: &str| {
        format!(
            "{CELLS}\n      mine:\n        operator: sql\n        query: |\n          {text}\n        keys: [clients]"
        )
    };
    let two = "select clients,\n            ";
    for (text, wrong, hint) in [
        (
            format!("{two}clinets from cells"),
            "clinets",
            "hint: did you mean `clients`?\n",
        ),
        (
            format!("{two}satus from \"ladder.requests\""),
            "satus",
            "hint: did you mean `status`?\n",
        ),
        (
            format!("{two}colour from cells"),
            "colour",
            "hint: none of the ",
        ),
        (
            format!("{two}coutn(*) as n from cells"),
            "coutn",
            "hint: did you mean `count`?\n",
        ),
        (
            format!("{two}1 as n from ladder.requests"),
            "requests",
            "hint: write `\"ladder.requests\"`, in double quotes, ",
        ),
        (
            format!("{two}1 as n from \"laddr.requests\""),
            "laddr.requests",
            "hint: did you mean `ladder`?\n",
        ),
        (
            format!("{two}1 as n from \"ladder.reqests\""),
            "ladder.reqests",
            "hint: did you mean `ladder.requests`?\n",
        ),
        (
            format!("{two}1 as n from cels"),
            "cels",
            "hint: did you mean `cells`?\n",
        ),
        (format!("{two}1 as n fron cells"), "fron", ""),
    ] {
        let message = hinted(&project, CELLS, &query(&text), hint);
        assert_eq!(marked(&message), wrong, "{message}");
    }
    // What is right stays right: an axis of the design, a star, and a name of the query itself.
    let right = query(
        "select block, clients, count(*) as n\n          from \"ladder.requests\" group by 1, 2",
    )
    .replace("keys: [clients]", "keys: [block, clients]");
    let study = fs::read_to_string(project.path().join("mine.yaml")).unwrap();
    fs::write(
        project.path().join("right.yaml"),
        study.replacen(CELLS, &right, 1),
    )
    .unwrap();
    project.run(["plan", "right.yaml"]).ok();
    let keys = query("select clients, count(*) as n from cells group by 1")
        .replace("keys: [clients]", "keys: [client]");
    let message = hinted(&project, CELLS, &keys, "hint: did you mean `clients`?\n");
    assert_eq!(marked(&message), "client", "{message}");
}

#[test]
fn the_caret_of_a_gate_is_at_the_word_of_its_query() {
    let project = written();
    let gate = |query: &str| {
        format!(
            "checks: {{kind: verify, needs: [server, ladder], gates: [{{gate: sql, name: slow, query: {query}}}]}}"
        )
    };
    for (query, wrong) in [
        ("\"select max(done_nss) < 1e12 from requests\"", "done_nss"),
        (
            "'select max(r.done_nss) < 1e12 from requests r'",
            "done_nss",
        ),
        ("select count(*) > 1 from reqests", "reqests"),
        ("\"select mx(done_ns) from requests\"", "mx"),
        ("\"select ttft_ms,,2 from requests\"", ","),
    ] {
        let message = planned(&project, CHECKS, &gate(query));
        assert_eq!(marked(&message), wrong, "{message}");
    }
    hinted(
        &project,
        CHECKS,
        &gate("\"select cuont(*) from requests\""),
        "hint: did you mean `count`?\n",
    );
    let metric = "hint: `ttft_ms` is a metric and not a column of a row; compute it: first_token_ns − sent_ns";
    for name in ["ttft", "ttft_ms", "time_to_first_token"] {
        let of_rows = gate(&format!("\"select max({name}) < 100 from requests\""));
        hinted(&project, CHECKS, &of_rows, metric);
    }
    let of_rows = format!(
        "{CELLS}\n      q: {{operator: sql, keys: [clients], query: 'select clients, max(ttft_ms) as slowest from \"ladder.requests\" group by 1'}}"
    );
    hinted(&project, CELLS, &of_rows, metric);
}

#[test]
fn a_slip_in_the_form_of_a_study_gets_the_line() {
    let project = written();
    for (from, to, hint) in [
        (
            "  checks: {kind",
            "  - checks: {kind",
            "line 10 beside it is a key (`ladder`): remove the `- ` before `checks`",
        ),
        (
            "    kind: load\n",
            "    type: load\n",
            "hint: write `kind: load` in place of `type: load`\n",
        ),
        (
            "clients: [1, 2, 4]",
            "clients: [1, 2, 4]\n  config:\n    fast: on\n    slow: off",
            "hint: give the fields of the label: write `fast: {NAME: on}`, and read the field as `${config.NAME}`\n",
        ),
        (
            "clients: [1, 2, 4]",
            "clients:\n    - few: {count: 1}\n    - many: {count: 4}",
            "",
        ),
        (
            "\"${clients}\"",
            "\"${axes.clients}\"",
            "hint: write `${clients}`\n",
        ),
    ] {
        let message = hinted(&project, from, to, hint);
        assert!(message.contains("spoilt.yaml:"), "{message}");
    }
    let fields = fs::read_to_string(project.path().join("mine.yaml")).unwrap();
    let fields = fields
        .replace(
            "clients: [1, 2, 4]",
            "clients:\n    - few: {count: 1}\n    - many: {count: 4}",
        )
        .replace("\"${clients}\"", "\"${count}\"");
    fs::write(project.path().join("fields.yaml"), fields).unwrap();
    let message = project.run(["plan", "fields.yaml"]).stderr;
    assert!(
        message
            .contains("hint: `count` is a field of the axis `clients`: write `${clients.count}`\n"),
        "{message}"
    );
}

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
            "`bathed` is not a label of the axis `configuration`",
        ),
        (
            "{% for r in rows(\"results.cells\", {\"clients\": 3}) %}{{ r.show(\"ttft_ms_p50\") }}{% endfor %}",
            "`3` is not a label of the axis `clients`",
        ),
        (
            "{{ value(\"results.means\", {\"configuration\": \"serial\", \"clients\": 9}, \"output_throughput_mean\") }}",
            "`9` is not a label of the axis `clients`",
        ),
        (
            "{% for r in rows(\"results.cells\", {\"configuration\": [\"serial\", \"batch\"]}) %}{{ r.configuration }}{% endfor %}",
            "`batch` is not a label of the axis `configuration`",
        ),
        (
            "{% for r in rows(\"results.cells\") %}{% if r.ttft_p50 > 1 %}x{% endif %}{% endfor %}",
            "`results.cells` has no column `ttft_p50`",
        ),
        (
            "{% for r in rows(\"results.cells\") %}{{ r.configuratoin }}{% endfor %}",
            "`results.cells` has no column `configuratoin`",
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
            "the label `4` of the axis `clients` is a number",
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
        "--slo",
        "ttft:1s",
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
        "Within bounds – % of all requests except the 2 cancelled",
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
fn keys_in_the_wrong_place_get_the_place() {
    let project = written();
    let report = "report: {kind: report, needs: [machine, server, ladder, checks, results]";
    let more = |key: &str| format!("requests: 16\n    {key}");
    let figure = |keys: &str| {
        format!(
            "{report}, figures: {{f: {{kind: ladder, {keys}, x: clients, y: output_throughput_mean, title: T, caption: C}}}}"
        )
    };
    let models = |model: &str| format!("models: {{served: {{title: S, {model}}}}}\naxes:");
    for (from, to, hint) in [
        (CHECKS, "checks: {kind: verify, needs: [server, ladder], gates: [{gate: same-prompts, across: client}]}".to_owned(), "hint: did you mean `clients`?\n"),
        (CHECKS, "checks: {kind: verify, needs: [server, ladder], gates: [{gate: repeats, axis: rep}]}".to_owned(), "hint: the axes are `clients`, `block`\n"),
        ("axes:", "parameters:\n  - n\naxes:".to_owned(), "hint: write parameters as `parameters: {NAME: {type: integer, default: 8}}`\n"),
        ("axes:", "parameters: n\naxes:".to_owned(), "hint: write parameters as "),
        ("requests: 16", more("exclude: [{clients: 4, reason: slow}]"), "hint: write `where: {clients: 4}`\n"),
        ("axes:", "profiles: {smoke: {clients: [1]}}\naxes:".to_owned(), "hint: write `axes: {clients: [LABEL]}`\n"),
        ("axes:", models("id: owner/name"), "hint: write `weights: {named: {id: ID}}`\n"),
        ("axes:", models("weights: owner/name"), "hint: write `{named: {id: owner/name}}` for a name or a path "),
        (report, figure("from: results.means"), "hint: write `table`\n"),
        ("workload: short-decode", "workload: {prompts: {random: {length: 9}}, output: {tokens: 8}}".to_owned(), "hint: write `words: {length: N}`\n"),
        ("engine: llama-cpp", "engine: [llama-cpp, vllm]".to_owned(), "to try several, make them the labels of an axis"),
    ] {
        let message = hinted(&project, from, &to, hint);
        assert!(message.contains("spoilt.yaml:"), "{message}");
        assert_eq!(message.matches("error: ").count(), 1, "{to}: {message}");
    }
}

#[test]
fn the_setting_of_a_figure_that_is_wrong_is_named() {
    let project = Project::new();
    let study = fs::read_to_string(project.path().join("experiments/simulated.yaml")).unwrap();
    for (section, place, message) in [
        (
            "figures: {f: {kind: ladder, table: results.means, x: clinets, y: output_throughput_mean, title: T, caption: C}}",
            "stages.report.figures.f.x",
            "`results.means` has no column `clinets`\n",
        ),
        (
            "tables: {t: {from: results.mean, columns: [clients], caption: C}}",
            "stages.report.tables.t.from",
            "the stage `results` has no table `mean`\n",
        ),
        (
            "tables: {t: {from: results.means, columns: [clients], order: [-client], caption: C}}",
            "stages.report.tables.t.order",
            "`results.means` has no column `client`\n",
        ),
        (
            "tables: {t: {from: results.means, columns: [clients], where: {configuration: bathed}, caption: C}}",
            "stages.report.tables.t.where.configuration",
            "`bathed` is not a label of the axis `configuration`\n",
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
fn names_on_the_command_line_get_those_that_exist() {
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

#[test]
fn a_file_of_another_tool_is_one_mistake() {
    let project = Project::new();
    for (text, what) in [
        (
            "apiVersion: batch/v1\nkind: Job\nmetadata: {name: x}\n",
            "this is a manifest of Kubernetes, not an experiment",
        ),
        (
            "services:\n  server: {image: vllm}\n",
            "this is a file of Docker Compose, not an experiment",
        ),
        (
            "on: push\njobs: {bench: {runs-on: here}}\n",
            "this is a workflow of continuous integration, not an experiment",
        ),
        (
            "target: http://127.0.0.1\nload: 4\n",
            "this is not an experiment: the required keys `experiment`, `seed`, `stages` are missing",
        ),
    ] {
        fs::write(project.path().join("other.yaml"), text).unwrap();
        let message = project.run(["plan", "other.yaml"]).stderr;
        assert!(
            message.contains(what) && message.contains("`benchtrail init NAME`"),
            "{message}"
        );
        assert_eq!(message.matches("error: ").count(), 1, "{message}");
    }
}
