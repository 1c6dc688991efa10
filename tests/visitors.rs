//! A first hour with files and habits from elsewhere: rows in JSON, several mistakes in one import, definitions in the
//! wrong place, ids of models, and where a report goes.

use std::fs;

use crate::mistakes::{hinted, written};
use crate::support::Project;

const ROWS: &str = "{\"start\": 1, \"lat\": {\"ttft_ms\": 5, \"e2e_ms\": 9}, \"outcome\": \"success\", \"n\": 3}\n\
                    {\"start\": 2, \"lat\": {\"ttft_ms\": 6, \"e2e_ms\": 8}, \"outcome\": \"success\", \"n\": 4}\n";

/// Returns a study of these rows, with the tool, and the lines of its column map.
fn study(tool: &str, columns: &str) -> String {
    format!(
        "experiment: rows\nseed: 1\nstages:\n  rows:\n    kind: load\n    import:\n      tool: {tool}\n      file: rows.jsonl\n      \
         columns:\n{columns}  checks: {{kind: verify, needs: [rows], gates: [{{gate: census}}]}}\n  results:\n    kind: analyze\n    \
         needs: [rows, checks]\n    tables:\n      cells: {{operator: cell-summary}}\n  report: {{kind: report, needs: [rows, checks, \
         results]}}\n"
    )
}

const MAP: &str = "        sent: {from: start, unit: s}\n        ttft: lat.ttft_ms\n        request_latency: lat.e2e_ms\n        \
                   output_tokens: n\n        status: {from: outcome, ok: [success]}\n";

#[test]
fn rows_in_json_are_imported_and_their_report_is_traced() {
    let project = Project::new();
    let at = |name: &str| project.path().join(name);
    fs::write(at("rows.jsonl"), ROWS).expect("a file");
    fs::write(at("rows.yaml"), study("json", MAP)).expect("a file");
    project.run(["run", "rows.yaml"]).ok();
    project.run(["audit", "reports/rows/report.md"]).ok();
    let rows = project
        .run([
            "sql",
            "rows.yaml",
            "select sum(output_tokens) as n from \"rows.requests\"",
        ])
        .ok();
    assert!(rows.stdout.contains('7'), "{}", rows.stdout);

    let refused = project.run(["init", "other", "--from-results", "rows.jsonl"]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused
            .stderr
            .contains("import: {tool: json, file: FILE, columns: {…}}")
            && refused.stderr.contains(
                "the file's columns are `start`, `lat.ttft_ms`, `lat.e2e_ms`, `outcome`, `n`"
            ),
        "{}",
        refused.stderr
    );
    fs::write(at("rows.yaml"), study("jsonl", MAP)).expect("a file");
    let word = project.run(["plan", "rows.yaml"]);
    assert!(
        word.stderr.contains("hint: did you mean `json`?\n"),
        "{}",
        word.stderr
    );
}

#[test]
fn a_wrong_value_does_not_hide_the_mistakes_beside_it() {
    let project = Project::new();
    let columns = |status: &str| {
        format!(
            "        ttft: {{from: t, unit: ms}}\n        output_token: n\n        status: {status}\n"
        )
    };
    for (status, message) in [
        ("true", "expected text or a mapping, found `true`"),
        (
            "{from: outcome, ok: success}",
            "expected a list, found the text `success`",
        ),
        ("{value: succes}", "`succes` is not a value of `status`"),
        ("{from: outcome, fine: [success]}", "unknown key `fine`"),
    ] {
        let text = study("csv", &columns(status))
            .replace("operator: cell-summary", "operator: cell-sumary");
        fs::write(project.path().join("rows.yaml"), text).expect("a file");
        let said = project.run(["plan", "rows.yaml"]).stderr;
        for part in [
            message,
            "no column `output_token` can be imported",
            "rows.jsonl: no such file",
            "unknown value `cell-sumary`",
        ] {
            assert!(said.contains(part), "{status}: {part}: {said}");
        }
        assert_eq!(said.matches("error: ").count(), 4, "{status}: {said}");
    }
}

#[test]
fn definitions_inside_a_stage_get_their_place() {
    let project = written();
    let report = "report: {kind: report, needs: [machine, server, ladder, checks, results]";
    let with = |claims: &str| format!("{report}, claims: {claims}");
    let place = "hint: `claims` are declared at the top of the file: move this mapping there";
    let message = hinted(&project, report, &with("{slower: {says: x}}"), place);
    assert!(
        message.contains("; here, `claims: [slower]` would choose among them\n"),
        "{message}"
    );
    assert_eq!(message.matches("error: ").count(), 1, "{message}");
    let checks = "checks: {kind: verify, needs: [server, ladder]";
    for (collection, inner) in [
        ("claims", "slower: {says: x}"),
        ("workloads", "mine: {prompts: {words: {length: 8}}}"),
        ("engines", "mine: {extends: vllm}"),
    ] {
        let to = format!("{checks}, {collection}: {{{inner}}}");
        let place = format!("hint: `{collection}` are declared at the top of the file");
        let message = hinted(&project, checks, &to, &place);
        assert_eq!(message.matches("error: ").count(), 1, "{message}");
    }
}

#[test]
fn habits_of_other_tools_get_what_to_write() {
    let project = written();
    for (from, to, hint) in [
        ("seed: 7", "random_seed: 7", "hint: did you mean `seed`?\n"),
        (
            "engine: llama-cpp,",
            "engine: llama-cpp, version: 0.11.0,",
            "hint: it is not chosen here: it is what the machine has, or what `environment:` installs\n",
        ),
        (
            "kind: report,",
            "kind: report, template: my.md,",
            "; your own is the file templates/my.md beside the experiment\n",
        ),
    ] {
        let message = hinted(&project, from, to, hint);
        assert_eq!(message.matches("error: ").count(), 1, "{message}");
    }
    for (arguments, part) in [
        (
            &["plan", "mine.yaml", "--set", "clients"][..],
            "write `clients=VALUE`",
        ),
        (
            &["calibrate", "http://127.0.0.1:1"],
            "tip: name the server with its option: `--url http://127.0.0.1:1`",
        ),
        (
            &["init", "a", "http://127.0.0.1:1"],
            "`--from-url http://127.0.0.1:1`",
        ),
        (
            &["load", "http://127.0.0.1:1", "--input-len", "32k"],
            "write it out: 32000",
        ),
        (
            &["load", "http://127.0.0.1:1", "--input-len", "1k..2k"],
            "write it out: 1000..2000",
        ),
        (
            &["load", "http://127.0.0.1:1", "--input-len", "some"],
            "write `128` or `64..256`",
        ),
        (
            &["load", "http://127.0.0.1:1", "--warmup", "10s"],
            "this is a count, not a time",
        ),
        (
            &["list", "models", "qwen"],
            "`benchtrail init NAME --engine ENGINE --model ID` writes a study",
        ),
    ] {
        let outcome = project.run(arguments);
        assert_ne!(outcome.code, Some(0), "{arguments:?}");
        assert!(
            outcome.stderr.contains(part),
            "{arguments:?}: {}",
            outcome.stderr
        );
    }
}

#[test]
fn an_engine_that_loads_files_refuses_the_id_of_a_model_while_planning() {
    let project = written();
    let init = project.run(["init", "other", "--yes", "--model", "Qwen/Qwen3-0.6B"]);
    assert_eq!(init.code, Some(2));
    assert!(
        init.stderr
            .contains("the engine `llama-cpp` loads a GGUF file, and `Qwen/Qwen3-0.6B` is not one")
            && init.stderr.contains("`--engine vllm`"),
        "{}",
        init.stderr
    );
    assert!(!project.path().join("other.yaml").exists());
    project
        .run(["init", "other", "--yes", "--model", "./mine.gguf"])
        .ok();
    project
        .run([
            "init",
            "more",
            "--yes",
            "--engine",
            "vllm",
            "--model",
            "Qwen/Qwen3-0.6B",
        ])
        .ok();
    let study = fs::read_to_string(project.path().join("mine.yaml")).expect("it is written");
    let study = study
        .replace("model: smollm2-135m-instruct", "model: served")
        .replace(
            "axes:\n",
            "models:\n  served: {title: Served, weights: {named: {id: Qwen/Qwen3-0.6B}}}\naxes:\n",
        );
    fs::write(project.path().join("named.yaml"), study).expect("a file");
    let named = project.run(["plan", "named.yaml"]);
    assert!(
        named.stderr.contains("the engine `llama-cpp` loads weights from a GGUF file, and `Qwen/Qwen3-0.6B` is not one"),
        "{}",
        named.stderr
    );
}

#[test]
fn a_report_is_written_again_where_the_run_wrote_it() {
    let project = Project::new();
    let at = |name: &str| project.path().join(name);
    fs::write(at("rows.jsonl"), ROWS).expect("a file");
    fs::write(at("rows.yaml"), study("json", MAP)).expect("a file");
    project.run(["run", "rows.yaml"]).ok();
    let before = fs::read_dir(project.path()).expect("a folder").count();
    let report = at("reports/rows/report.md");
    let text = fs::read(&report).expect("a report");
    for given in ["rows.yaml", "rows.lock"] {
        fs::remove_file(&report).expect("it is there");
        let said = project.run(["report", given]).ok().stdout;
        assert!(
            said.starts_with("reports/rows/report.md\nread it at   file:///"),
            "{said}"
        );
        assert_eq!(fs::read(&report).expect("a report"), text);
        project.run(["report", given]).ok();
    }
    assert_eq!(
        fs::read_dir(project.path()).expect("a folder").count(),
        before
    );
    // A report that someone has changed is kept.
    fs::write(&report, "mine").expect("a file");
    let kept = project.run(["report", "rows.yaml"]);
    assert_eq!(kept.code, Some(2));
    assert!(
        kept.stderr
            .contains("reports/rows/report.md is there, and it is another report")
            && kept.stderr.contains("`--out FOLDER/report.md`"),
        "{}",
        kept.stderr
    );
    assert_eq!(fs::read_to_string(&report).expect("a file"), "mine");
    project
        .run(["report", "rows.yaml", "--out", "again/report.md"])
        .ok();
    assert_eq!(fs::read(at("again/report.md")).expect("a report"), text);
}
