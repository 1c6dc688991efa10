//! Stages of kind `run`: programs of a study, with declared outputs.

use std::fs;

use serde_json::{Value, json};

use crate::support::{BINARY, Outcome, Project};

/// Requests a few tokens from a server, and writes the answer.
const ASK: &str = r#"
import json, sys, urllib.request
url, model, out = sys.argv[1:4]
rows = []
for line in open(sys.argv[4]):
    asked = json.loads(line)
    body = {"model": model, "prompt": asked["prompt"], "max_tokens": 4, "temperature": 0}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    answer = json.load(urllib.request.urlopen(request))
    rows.append({"question": asked["id"], "tokens": answer["usage"]["completion_tokens"], "right": bool(answer["choices"][0]["text"])})
with open(out + "/graded.jsonl", "w") as file:
    file.writelines(json.dumps(row) + "\n" for row in rows)
open(out + "/transcript.txt", "w").write(f"{len(rows)} questions")
print("asked", len(rows))
"#;

const QUALITY: &str = r#"
experiment: quality
question: Does the server answer at all?
seed: 3
stages:
  machine: {kind: provision, engine: llama-cpp, model: smollm2-135m-instruct}
  server: {kind: serve, needs: [machine], settings: {parallel: 2, context: 512, threads: 1}}
  quality:
    kind: run
    needs: [server]
    program: {script: ask.py}
    arguments: ["{url}", "{model}", "{out}", "{files}/questions.jsonl"]
    files: {questions.jsonl: questions.jsonl}
    tables:
      graded:
        file: graded.jsonl
        keys: [question]
        columns:
          question: {type: text}
          tokens: {type: integer, unit: tokens}
          right: {type: boolean, description: whether there was an answer}
    blobs: {transcript: transcript.txt}
  made:
    kind: analyze
    needs: [quality]
    tables:
      share:
        operator: sql
        query: select count(*) as questions, avg(right) as share_right, sum(tokens) as tokens from "quality.graded"
  report: {kind: report, needs: [machine, server, quality, made]}
"#;

fn ask(project: &Project, study: &str, query: &str) -> Value {
    let answer = project.run(["sql", study, query, "--json"]).ok().json();
    answer.get("rows").unwrap_or(&answer).clone()
}

fn write(project: &Project, name: &str, text: &str) {
    let path = project.path().join("experiments").join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text).expect("a file");
}

#[test]
fn a_script_asks_the_server_and_its_table_is_followed_to_the_script() {
    let project = Project::finished();
    write(&project, "quality.yaml", QUALITY);
    write(&project, "ask.py", ASK);
    write(
        &project,
        "questions.jsonl",
        "{\"id\": \"a\", \"prompt\": \"One two\"}\n{\"id\": \"b\", \"prompt\": \"Red and\"}\n",
    );
    let study = "experiments/quality.yaml";
    let ran = project.run(["run", study]);
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    let graded = ask(
        &project,
        study,
        "select question, tokens from graded order by question",
    );
    assert_eq!(
        graded,
        json!([{"question": "a", "tokens": 4}, {"question": "b", "tokens": 4}])
    );
    let share = ask(
        &project,
        study,
        "select questions, share_right, tokens from share",
    );
    assert_eq!(
        share,
        json!([{"questions": 2, "share_right": 1.0, "tokens": 8}])
    );
    let report =
        fs::read_to_string(project.path().join("reports/quality/report.md")).expect("the report");
    let line = report
        .lines()
        .position(|line| line.starts_with('|') && line.contains(" 8 "));
    let place = format!("reports/quality/report.md:{}", line.expect("the table") + 1);
    let why = project.run(["why", &place, "8"]).ok();
    for part in ["made.share row 0", "quality", "graded 0..2", "record b3:"] {
        assert!(why.stdout.contains(part), "{}", why.stdout);
    }
    let again = project.run(["plan", study]).ok();
    assert!(
        again.stdout.contains("nothing to execute"),
        "{}",
        again.stdout
    );

    // The bytes of the script and of its files are part of the key.
    write(
        &project,
        "questions.jsonl",
        "{\"id\": \"a\", \"prompt\": \"One two three\"}\n",
    );
    let changed = project.run(["plan", study]).ok();
    assert!(
        changed.stdout.contains("questions.jsonl"),
        "{}",
        changed.stdout
    );
}

/// A study with one script over an axis, without a server.
fn study(script: &str, more: &str) -> Project {
    let project = Project::new();
    write(&project, "do.py", script);
    let text = format!(
        r#"
experiment: programs
question: What does a program leave?
seed: 7
axes: {{size: [1, 2]}}
stages:
  work:
    kind: run
    over: [size]
    program: {{script: do.py}}
    arguments: ["{{out}}", "${{size}}", "{{seed}}"]
    tables:
      found: {{file: found.csv, keys: [name], columns: {{name: {{type: text}}, time: {{type: number, unit: ms}}}}}}
    blobs: {{trace: trace.bin}}
    {more}
  made:
    kind: analyze
    needs: [work]
    tables:
      worst: {{operator: sql, keys: [size], query: 'select size, max(time) as time from "work.found" group by size'}}
  report: {{kind: report, needs: [work, made]}}
"#
    );
    write(&project, "programs.yaml", &text);
    project
}

const STUDY: &str = "experiments/programs.yaml";

#[test]
fn cells_of_a_program_are_joined_under_their_axes_with_their_units() {
    let script = "import sys\nout, size, seed = sys.argv[1:]\n\
                  open(out + '/found.csv', 'w').write(f'name,time\\na,{size}.5\\nb,{seed}\\n')\n\
                  open(out + '/trace.bin', 'wb').write(bytes(10))\n";
    let project = study(script, "");
    let ran = project.run(["run", STUDY, "--trust"]);
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    let worst = ask(
        &project,
        STUDY,
        "select size, time from worst order by size",
    );
    assert_eq!(
        worst,
        json!([{"size": 1, "time": 7.0}, {"size": 2, "time": 7.0}])
    );
    let shown = project.run(["show", STUDY, "work[size=1].found"]).ok();
    assert!(shown.stdout.contains("time [ms]"), "{}", shown.stdout);
}

#[test]
fn a_program_that_is_blocked_skips_its_cell_with_the_reason() {
    let script = "import json, sys\n\
                  json.dump({'status': 'blocked', 'reason': 'counters are locked'}, open(sys.argv[1] + '/status.json', 'w'))\n";
    let project = study(script, "");
    let ran = project.run(["run", STUDY, "--trust", "--no-dry-run", "--json"]);
    let reports: Vec<String> =
        serde_json::from_value(ran.json()["reports"].clone()).expect("paths");
    let report = reports.iter().find(|path| path.ends_with(".md"));
    let report = report.expect("the report is made without it");
    let report = fs::read_to_string(project.path().join(report)).expect("a file");
    assert!(report.contains("counters are locked"), "{report}");
    let status = project.run(["status", STUDY]);
    assert!(
        status.stdout.contains("blocked: counters are locked"),
        "{}",
        status.stdout
    );

    let project = study(script, "check: [no-such-profiler, --version]");
    project.run(["run", STUDY, "--trust", "--keep-going", "--no-dry-run"]);
    let status = project.run(["status", STUDY]);
    let message = "blocked: the program `no-such-profiler` is not on the search path";
    assert!(status.stdout.contains(message), "{}", status.stdout);
}

#[test]
fn what_a_program_leaves_must_be_as_declared_and_within_its_budget() {
    for (script, more, expected) in [
        ("", "", "the table `found`: `found.csv`: No such file"),
        (
            "import sys\nopen(sys.argv[1] + '/found.csv', 'w').write('name,time\\na,fast\\n')\n",
            "",
            "the table `found`: `found.csv`, line 2: `time`: `fast` is not a finite number",
        ),
        (
            "import sys\nopen(sys.argv[1] + '/trace.bin', 'wb').write(bytes(3 << 20))\n",
            "budget-mib: 2",
            "the program wrote more than its 2 MiB",
        ),
        (
            "print('first')\nraise SystemExit('no model')\n",
            "",
            "exit status: 1; it printed last: ",
        ),
        (
            "import json, sys\nopen(sys.argv[1] + '/trace.bin', 'wb').write(bytes(9))\n\
             json.dump({'status': 'unconvertible', 'reason': 'no kernels in it'}, open(sys.argv[1] + '/status.json', 'w'))\n",
            "",
            "unconvertible: no kernels in it",
        ),
    ] {
        let project = study(script, more);
        let ran = project.run(["run", STUDY, "--trust", "--no-dry-run"]);
        assert_eq!(
            ran.code,
            Some(1),
            "{expected}: {}\n{}",
            ran.stdout,
            ran.stderr
        );
        let status = project.run(["status", STUDY]);
        assert!(
            status.stdout.contains(expected),
            "{expected}: {}",
            status.stdout
        );
    }
}

#[test]
fn mistakes_in_a_run_stage_are_reported_while_planning() {
    let project = study("", "check: [\"{nothing}\"]");
    let text = fs::read_to_string(project.path().join(STUDY)).expect("the study");
    let text = text
        .replace("found.csv", "../found.csv")
        .replace("\"${size}\"", "\"{url}\"");
    write(&project, "programs.yaml", &text);
    let outcome = project.run(["plan", STUDY]);
    for part in [
        "`{nothing}` is not a placeholder",
        "`../found.csv` is not a file below `{out}`",
    ] {
        assert!(outcome.stderr.contains(part), "{}", outcome.stderr);
    }
    write(
        &project,
        "programs.yaml",
        &text
            .replace("../found.csv", "found.csv")
            .replace("{nothing}", "true"),
    );
    let outcome = project.run(["plan", STUDY]);
    let said = "`{url}` refers to a server, but the stage does not need one";
    assert!(
        outcome.stderr.contains(said),
        "{}{}",
        outcome.stdout,
        outcome.stderr
    );
    // The name of a table becomes that of a file.
    for name in ["../found", ".found", "a/../../found", &"f".repeat(201)] {
        write(
            &project,
            "programs.yaml",
            &text.replace("found: {file", &format!("{name}: {{file")),
        );
        let outcome = project.run(["plan", STUDY]);
        let said = format!("\"{name}\" cannot be the name of an output");
        assert!(
            outcome.stderr.contains(&said),
            "{}{}",
            outcome.stdout,
            outcome.stderr
        );
    }
}

#[test]
fn a_program_of_a_project_is_asked_about() {
    let project = study("", "");
    let mut command = project.command(["run", STUDY, "--no-dry-run"]);
    let state = tempfile::tempdir().expect("a folder");
    command
        .env_remove("BENCHTRAIL_TRUST")
        .env("XDG_STATE_HOME", state.path());
    let ran = command.output().expect("it runs");
    let message = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(2), "{message}");
    assert!(message.contains("a program of the study"), "{message}");
}

/// A study whose only stage executes `leaves.sh`, with a table and a blob.
const LEAVES: &str = "experiment: leaves
seed: 1
stages:
  s:
    kind: run
    program: {script: leaves.sh}
    interpreter: [sh]
    arguments: [\"{out}\"]
    inherit: [LEAVES_TOKEN]
    budget-mib: 8
    tables:
      t: {file: t.csv, columns: {a: {type: integer}}}
    blobs: {b: b.bin}
    timeout: 60 s
";

#[test]
fn whatever_a_program_leaves_ends_its_cell_with_a_reason() {
    let project = Project::new();
    let at = |name: &str| project.path().join(name);
    fs::write(at("leaves.yaml"), LEAVES).expect("writable");
    // What the program does, and what the reason says.
    let cases = [
        ("mkfifo $1/t.csv; echo > $1/b.bin", "FIFO"),
        ("mkfifo $1/status.json", "FIFO"),
        ("ln -s /dev/zero $1/t.csv", "it is a symbolic link"),
        ("ln -s /dev/zero $1/status.json", "it is a symbolic link"),
        (
            "rm $1/../program.log; mkfifo $1/../program.log; exit 3",
            "exit status: 3",
        ),
        // The file takes no space on the disk, but would as evidence.
        ("truncate -s 9T $1/b.bin", "more than its 8 MiB"),
        (
            "head -c 300000 /dev/zero | tr '\\0' x; exit 3",
            "it printed last: xxx",
        ),
        (
            "(echo a; head -c 300000 /dev/zero | tr '\\0' x) > $1/t.csv",
            "is not a whole number",
        ),
        (
            "(echo a; echo $LEAVES_TOKEN) > $1/t.csv",
            "`[LEAVES_TOKEN]` is not a whole number",
        ),
    ];
    for (script, reason) in cases {
        fs::write(at("leaves.sh"), script).expect("writable");
        let mut command = project.command(["run", "leaves.yaml", "--quiet"]);
        command.env("LEAVES_TOKEN", "correct-horse-battery");
        let outcome: Outcome = command.output().expect("it starts").into();
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        assert_eq!(outcome.code, Some(1), "{script}: {said:.2000}");
        assert!(said.contains(reason), "{script}: {said:.2000}");
        assert!(said.len() < 40_000, "{script}: {} bytes", said.len());
        let lock = fs::read_to_string(at("leaves.lock")).unwrap_or_default();
        assert!(lock.len() < 40_000, "{script}: {} bytes", lock.len());
        assert!(
            !format!("{lock}{said}").contains("correct-horse"),
            "{script}"
        );
    }
    let store = size_of(&at(".benchtrail/objects"));
    assert!(store < 1 << 20, "the store has {store} bytes");
}

/// Returns the size of the files below a folder, in bytes.
fn size_of(folder: &std::path::Path) -> u64 {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let size = |entry: fs::DirEntry| match entry.file_type().expect("a type").is_dir() {
        true => size_of(&entry.path()),
        false => entry.metadata().expect("a file").len(),
    };
    entries.map(size).sum()
}

#[test]
fn folders_that_a_program_leaves_locked_or_deeply_nested_stop_neither_this_run_nor_the_next() {
    let project = Project::new();
    let at = |name: &str| project.path().join(name);
    fs::write(at("leaves.yaml"), LEAVES).expect("writable");
    let nested = "echo a > $1/t.csv; echo > $1/b.bin; mkdir d; touch d/f; chmod 500 d
        python3 -c 'import os\nfor i in range(4000): os.mkdir(\"e\"); os.chdir(\"e\")'
        ";
    let nested = nested.replace("\\n", "\n");
    for time in 0..2 {
        fs::write(at("leaves.sh"), format!("# {time}\n{nested}")).expect("writable");
        let mut command = std::process::Command::new("sh");
        command
            .args(["-c", "ulimit -n 256 && exec \"$@\"", "sh", BINARY])
            .args(["run", "--trust", "leaves.yaml", "--quiet"])
            .current_dir(project.path());
        let outcome: Outcome = command.output().expect("sh starts").into();
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let left = fs::read_dir(at(".benchtrail/scratch")).expect("a folder");
        assert_eq!(left.count(), 0);
    }
}

#[test]
fn a_program_is_on_the_search_path_or_has_an_absolute_path() {
    let project = Project::new();
    let at = |name: &str| project.path().join(name);
    for (from, to) in [
        ("{script: leaves.sh}", "{installed: ./leaves.sh}"),
        ("{script: leaves.sh}", "{installed: \"\"}"),
        ("[sh]", "[./leaves.sh]"),
    ] {
        fs::write(at("leaves.sh"), "").expect("writable");
        fs::write(at("leaves.yaml"), LEAVES.replace(from, to)).expect("writable");
        let outcome = project.run(["plan", "leaves.yaml"]);
        assert_eq!(outcome.code, Some(2), "{to}: {}", outcome.stdout);
        assert!(
            outcome.stderr.contains("is not on the search path"),
            "{}",
            outcome.stderr
        );
    }
}

#[test]
fn a_key_in_a_script_is_refused_before_anything_is_stored() {
    let project = Project::new();
    let at = |name: &str| project.path().join(name);
    fs::write(at("leaves.yaml"), LEAVES).expect("writable");
    let key = format!("sk-proj-{}", "A1b2C3d4".repeat(5));
    for script in [
        format!("export OPENAI_API_KEY={key}"),
        "curl https://ada:lovelace1815@example.org/".to_owned(),
    ] {
        fs::write(at("leaves.sh"), script).expect("writable");
        for line in [
            "plan leaves.yaml --commands",
            "run leaves.yaml",
            "run leaves.yaml --trust",
        ] {
            let outcome = project.run(line.split(' '));
            let said = format!("{}{}", outcome.stdout, outcome.stderr);
            assert_eq!(outcome.code, Some(2), "{line}: {said}");
            assert!(said.contains("looks like a key"), "{said}");
            assert!(
                !said.contains(&key) && !said.contains("lovelace1815"),
                "{said}"
            );
        }
    }
    // A variable that the program inherits is none.
    fs::write(at("leaves.sh"), "curl https://ada:$WORD@x/; echo $KEY").expect("writable");
    project.run(["plan", "leaves.yaml", "--commands"]).ok();
}

#[test]
fn a_text_too_large_to_show_is_refused() {
    let project = Project::new();
    let at = |name: &str| project.path().join(name);
    let study = LEAVES.replace("budget-mib: 8", "budget-mib: 200");
    fs::write(at("leaves.yaml"), study).expect("writable");
    let script = "echo a > $1/t.csv; truncate -s 129M $1/b.bin";
    fs::write(at("leaves.sh"), script).expect("writable");
    project.run(["run", "leaves.yaml", "--quiet"]).ok();
    for json in [&["--json"][..], &[]] {
        let shown = project.run([&["show", "leaves.yaml", "s.b"], json].concat());
        assert_eq!(shown.code, Some(1));
        assert!(shown.stderr.contains("129.0 MiB"), "{}", shown.stderr);
        assert!(shown.stderr.contains("`--raw`"), "{}", shown.stderr);
    }
    project.run(["show", "leaves.yaml", "s.b", "--raw"]).ok();
}

#[test]
fn a_program_that_changes_during_a_run_leaves_no_record_of_two_programs() {
    let project = Project::new();
    let at = |name: &str| project.path().join(name);
    let study = LEAVES
        .replace("    kind: run\n", "    kind: run\n    over: [rep]\n")
        .replace("stages:", "order: declared\naxes: {rep: [1, 2]}\nstages:")
        .replace("{script: leaves.sh}", "{installed: leaves}")
        .replace("    interpreter: [sh]\n", "");
    fs::write(at("leaves.yaml"), study).expect("writable");
    fs::create_dir(at("bin")).expect("writable");
    // The first cell replaces the program that the second one would execute.
    let program = "#!/bin/sh\n(echo a; echo 1) > $1/t.csv; echo > $1/b.bin\n\
                   cp $0 $0.new; echo '# newer' >> $0.new; mv $0.new $0\n";
    fs::write(at("bin/leaves"), program).expect("writable");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(at("bin/leaves"), executable).expect("permitted");
    let run = |arguments: &[&str]| -> Outcome {
        let mut command = std::process::Command::new("sh");
        command
            .args(["-c", "PATH=$PWD/bin:$PATH && exec \"$@\"", "sh", BINARY])
            .args(arguments)
            .current_dir(project.path());
        command.output().expect("sh starts").into()
    };
    let outcome = run(&["run", "leaves.yaml", "--trust", "--quiet"]);
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.code, Some(1), "{said}");
    assert!(
        said.contains("`facets.program` changed after the run began"),
        "{said}"
    );
    let checked = run(&["fsck"]);
    assert_eq!(
        checked.code,
        Some(0),
        "{}{}",
        checked.stdout,
        checked.stderr
    );
    run(&["show", "leaves.yaml", "s[rep=1]"]).ok();
    run(&["show", "leaves.yaml", "s[rep=2]"]).ok();
}
