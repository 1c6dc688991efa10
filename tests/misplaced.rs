//! Keys at the wrong level, required keys that are misspelt, and names of tables and columns that no stage writes. Each is
//! one mistake, which planning reports at its place.

use std::fs;

use crate::mistakes::{hinted, planned, written};
use crate::support::Project;

const SERVER: &str = "server: {kind: serve, needs: [machine]}";
const REQUESTS: &str = "requests: 16";
const CHECKS: &str = "checks: {kind: verify, needs: [server, ladder]}";
const REPORT: &str = "report: {kind: report, needs: [machine, server, ladder, checks, results]}";

/// Plans each changed study. Its only message must have the hint.
fn each(cases: &[(&str, &str, &str)]) {
    let project = written();
    for (from, to, hint) in cases {
        let message = hinted(&project, from, to, hint);
        assert_eq!(message.matches("error: ").count(), 1, "{to}: {message}");
        assert!(message.contains("spoilt.yaml:"), "{to}: {message}");
    }
}

#[test]
fn an_engine_setting_beside_the_settings_gets_its_place() {
    let serve = |keys: &str| format!("server: {{kind: serve, needs: [machine], {keys}}}");
    let below = |text: &str| {
        format!(
            "hint: it is a setting of the engine, so it belongs below `settings`: `settings: {{{text}}}`\n"
        )
    };
    for (key, shown) in [
        ("max-model-len: 4096", "max-model-len: 4096"),
        ("tensor-parallel-size: 2", "tensor-parallel-size: 2"),
        ("gpu-memory-utilization: 0.9", "gpu-memory-utilization: 0.9"),
        ("dtype: bfloat16", "dtype: bfloat16"),
        ("ctx_size: 4096", "ctx_size: 4096"),
    ] {
        each(&[(SERVER, &serve(key), &below(shown))]);
    }
}

#[test]
fn a_key_of_another_level_gets_its_level() {
    let more = |key: &str| format!("requests: 16\n    {key}");
    let gates = |gate: &str| format!("checks: {{kind: verify, needs: [server, ladder], {gate}}}");
    each(&[
        (
            REQUESTS,
            &more("blocks: 3"),
            "hint: `blocks` is a key of `design`, at the top of the file: move it there\n",
        ),
        (
            REQUESTS,
            &more("seed: 3"),
            "hint: `seed` is a key at the top of the file: move it there\n",
        ),
        (
            CHECKS,
            &gates("gate: row-status"),
            "hint: did you mean `gates`?\n",
        ),
        (
            "{closed-loop: {clients: \"${clients}\"}}",
            "{closed-loop: {clients: \"${clients}\", requests-per-client: 8}}",
            "hint: `requests-per-client` is a key of the stage: move it there\n",
        ),
        (
            "design: {blocks: 3}",
            "design: {blocks: 3, seed: 3}",
            "hint: `seed` is a key at the top of the file: move it there\n",
        ),
    ]);
}

#[test]
fn a_required_key_that_is_misspelt_is_one_mistake() {
    each(&[
        ("stages:\n", "stage:\n", "hint: did you mean `stages`?\n"),
        (
            "experiment: mine",
            "experiement: mine",
            "hint: did you mean `experiment`?\n",
        ),
        ("seed:", "seeds:", "hint: did you mean `seed`?\n"),
        ("kind: load", "knid: load", "hint: did you mean `kind`?\n"),
        (
            "    tables:\n",
            "    table:\n",
            "hint: did you mean `tables`?\n",
        ),
        (
            "workload: short-decode",
            "workloads: short-decode",
            "hint: did you mean `workload`?\n",
        ),
        ("arrival:", "arrivals:", "hint: did you mean `arrival`?\n"),
        (
            "{closed-loop: {clients:",
            "{closed-loop: {client:",
            "hint: did you mean `clients`?\n",
        ),
        ("from: cells", "form: cells", "hint: did you mean `from`?\n"),
    ]);
}

#[test]
fn blocks_of_a_study_without_blocks_are_a_mistake_of_planning() {
    let project = written();
    let message = hinted(
        &project,
        "design: {blocks: 3}",
        "",
        "hint: the study has no blocks: add `design: {blocks: N}` at the top of the file, ",
    );
    assert!(
        message.contains("(stages.results.tables.means.over[0])"),
        "{message}"
    );
    assert_eq!(message.matches("error: ").count(), 1, "{message}");
    // A design that is wrong or misspelt is the only mistake.
    for design in ["desing: {blocks: 3}", "design: {blocks: three}"] {
        let message = planned(&project, "design: {blocks: 3}", design);
        assert_eq!(message.matches("error: ").count(), 1, "{message}");
    }
}

#[test]
fn a_column_of_a_report_that_no_table_has_is_a_mistake_of_planning() {
    let report = |keys: &str| REPORT.replace("results]", &format!("results], {keys}"));
    let figure = |keys: &str| {
        report(&format!(
            "figures: {{f: {{kind: ladder, {keys}, title: T, caption: C}}}}"
        ))
    };
    let table = |keys: &str| report(&format!("tables: {{t: {{{keys}, caption: C}}}}"));
    let project = written();
    for (to, place, word, hint) in [
        (
            figure("table: results.means, x: clinets, y: output_throughput_mean"),
            "stages.report.figures.f.x",
            "clinets",
            "did you mean `clients`?",
        ),
        (
            figure("table: results.means, x: clients, y: output_throughput"),
            "stages.report.figures.f.y",
            "output_throughput",
            "did you mean `output_throughput_mean`?",
        ),
        (
            figure(
                "table: results.means, x: clients, y: output_throughput_mean, band: [output_throughput_low, ttft_ms_p50_mean]",
            ),
            "stages.report.figures.f.band[0]",
            "output_throughput_low",
            "did you mean `output_throughput_",
        ),
        (
            figure("table: means, x: clients, y: output_throughput_mean"),
            "stages.report.figures.f.table",
            "means",
            "write `results.means`",
        ),
        (
            figure("table: result.means, x: clients, y: output_throughput_mean"),
            "stages.report.figures.f.table",
            "result.means",
            "did you mean `results`?",
        ),
        (
            figure("table: results.mean, x: clients, y: output_throughput_mean"),
            "stages.report.figures.f.table",
            "results.mean",
            "did you mean `means`?",
        ),
        (
            table("from: results.cells, columns: [clients, {column: p99_ttft}]"),
            "stages.report.tables.t.columns[1].column",
            "p99_ttft",
            "did you mean `ttft_ms_p99`?",
        ),
        (
            table("from: results.cells, columns: [clients, tok_per_s]"),
            "stages.report.tables.t.columns[1]",
            "tok_per_s",
            "did you mean `output_throughput`?",
        ),
        (
            table("from: results.cells, columns: [clients], order: [-client]"),
            "stages.report.tables.t.order[0]",
            "-client",
            "did you mean `clients`?",
        ),
        (
            table("from: results.cells, columns: [clients], where: {client: 1}"),
            "stages.report.tables.t.where.client",
            "client",
            "did you mean `clients`?",
        ),
        (
            table("from: ladder.requests, columns: [clients, first_token]"),
            "stages.report.tables.t.columns[1]",
            "first_token",
            "did you mean `first_token_ns`?",
        ),
        (
            table("from: checks.gates, columns: [gate, outcom]"),
            "stages.report.tables.t.columns[1]",
            "outcom",
            "did you mean `outcome`?",
        ),
    ] {
        let message = planned(&project, REPORT, &to);
        assert_eq!(message.matches("error: ").count(), 1, "{to}: {message}");
        assert!(
            message.contains(place) && message.contains(hint),
            "{to}: {message}"
        );
        let marks = message
            .lines()
            .find(|line| line.contains('^'))
            .expect("a caret");
        assert_eq!(marks.matches('^').count(), word.len(), "{to}: {message}");
    }
}

#[test]
fn a_name_in_a_template_that_no_table_has_is_a_mistake_of_planning() {
    let project = written();
    fs::create_dir_all(project.path().join("templates")).unwrap();
    let to = REPORT.replace("results]", "results], template: mine.md");
    let study = fs::read_to_string(project.path().join("mine.yaml")).unwrap();
    fs::write(project.path().join("own.yaml"), study.replace(REPORT, &to)).unwrap();
    let plan = |template: &str| {
        fs::write(project.path().join("templates/mine.md"), template).unwrap();
        project.run(["plan", "own.yaml"])
    };
    for (template, place, hint) in [
        (
            "# T\n{{ value(\"results.means\", {\"clients\": 1}, \"output_throughput\") }}\n",
            "mine.md:2:44",
            "did you mean `output_throughput_mean`?",
        ),
        (
            "{% for r in rows(\"results.cells\", {\"client\": 1}) %}{% endfor %}\n",
            "mine.md:1:37",
            "did you mean `clients`?",
        ),
        (
            "{{ count(\"results.cels\", {}) }}\n",
            "mine.md:1:11",
            "did you mean `cells`?",
        ),
    ] {
        let outcome = plan(template);
        assert_eq!(outcome.code, Some(2), "{template}: {}", outcome.stderr);
        let message = outcome.stderr;
        assert!(
            message.contains(place) && message.contains(hint),
            "{template}: {message}"
        );
        assert_eq!(
            message.matches("error: ").count(),
            1,
            "{template}: {message}"
        );
    }
    let claim = |rule: &str| {
        let claims =
            format!("claims: {{c: {{says: It is fast., rule: {{every: {{{rule}}}}}}}}}\naxes:\n");
        planned(&project, "axes:\n", &claims)
    };
    for (rule, hint) in [
        ("table: results.mean, that: n > 1", "did you mean `means`?"),
        (
            "table: results.means, where: {client: 1}, that: n > 1",
            "did you mean `clients`?",
        ),
    ] {
        let message = claim(rule);
        assert!(
            message.contains(hint) && message.contains("spoilt.yaml:"),
            "{rule}: {message}"
        );
        assert_eq!(message.matches("error: ").count(), 1, "{rule}: {message}");
    }
    // A template may ask first, and the names may be values of variables.
    for template in [
        "{% if has(\"results.other\") %}{{ count(\"results.other\", {}) }}{% endif %}\n",
        "{% set t = \"results.cells\" %}{{ count(t, {}) }}\n",
        "{# value(\"results.other\", {}, \"x\") #}\n",
    ] {
        plan(template).ok();
    }
}

#[test]
fn a_mistake_that_follows_from_another_is_not_reported() {
    let project = written();
    // Without its load stage, the verify stage covers none for the analyze stage.
    let message = planned(&project, CHECKS, "checks: {kind: verify, needs: []}");
    assert_eq!(message.matches("error: ").count(), 1, "{message}");
    // Each label has the same mistake.
    let message = hinted(
        &project,
        "{closed-loop: {clients: \"${clients}\"}}",
        "{poisson: \"${clients}\"}",
        "hint: write `{rate: \"${clients}\"}`\n",
    );
    assert_eq!(message.matches("error: ").count(), 1, "{message}");
}

#[test]
fn the_forms_of_other_tools_for_lengths_and_axes_get_ours() {
    let workload = |tokens: &str| {
        format!("workload: {{prompts: {{words: {{length: 5}}}}, output: {{tokens: {tokens}}}}}")
    };
    let project = written();
    for (tokens, hint) in [
        ("{min: 8, max: 16}", "hint: write `from`\n"),
        (
            "{mean: 16, stddev: 4}",
            "the ends of a range from which lengths are drawn evenly",
        ),
    ] {
        let message = planned(&project, "workload: short-decode", &workload(tokens));
        assert!(message.contains(hint), "{tokens}: {message}");
        assert!(!message.contains("missing key"), "{tokens}: {message}");
    }
    for clients in ["clients", "<clients>", "\"%(clients)s\""] {
        each(&[(
            "{closed-loop: {clients: \"${clients}\"}}",
            &format!("{{closed-loop: {{clients: {clients}}}}}"),
            "hint: to use the value of `clients`, write `\"${clients}\"`\n",
        )]);
    }
    let report = |keys: &str| REPORT.replace("results]", &format!("results], {keys}"));
    let table = |keys: &str| {
        report(&format!(
            "tables: {{t: {{from: results.cells, {keys}, caption: C}}}}"
        ))
    };
    each(&[
        (
            "axes:\n",
            "x-common: &levels [1, 2]\naxes:\n",
            "hint: remove it: write `&NAME` before the first value that is used, ",
        ),
        (
            "axes:\n",
            "parameters: {n: {type: int, default: 8}}\naxes:\n",
            "hint: write `integer`\n",
        ),
        (
            "axes:\n",
            "order: random\naxes:\n",
            "hint: write `shuffled`\n",
        ),
        (
            "axes:\n",
            "author: me\naxes:\n",
            "`benchtrail publish EXPERIMENT --author NAME`\n",
        ),
        (
            REQUESTS,
            "requests: 16\n    include: [{clients: 8, reason: more}]",
            "hint: write `coordinates: {clients: 8}`\n",
        ),
        (
            REPORT,
            &table("columns: \"*\""),
            "hint: list the names: `*` does not stand for all of them\n",
        ),
        (
            REPORT,
            &table("columns: [clients], order: clients desc"),
            "hint: write it as `[-clients]`\n",
        ),
        (
            REPORT,
            &table("columns: [{name: clients}]"),
            "hint: write `column`\n",
        ),
        (
            REPORT,
            &table("columns: [{column: ttft_ms_p50, format: \"%.2f\"}]"),
            "error: unknown format `%.2f`; write `0.00`\n",
        ),
        (
            REPORT,
            &table("columns: [clients], limit: 3"),
            "the operator `sql` with `order by … limit N`\n",
        ),
    ]);
}

#[test]
fn a_file_that_is_to_change_another_one_is_one_mistake() {
    let project = written();
    let plan = |text: &str| {
        fs::write(project.path().join("other.yaml"), text).unwrap();
        let message = project.run(["plan", "other.yaml"]).stderr;
        assert_eq!(message.matches("error: ").count(), 1, "{message}");
        message
    };
    let message = plan("include: mine.yaml\nexperiment: other\n");
    assert!(message.contains("hint: write `extends: FILE`"), "{message}");
    let message = plan("extends: mine.yaml\nexperiment: other\nstages: {laddr: {warmup: 3}}\n");
    assert!(
        message.contains("hint: add `kind:`, or did you mean the stage `ladder`?\n"),
        "{message}"
    );
}

#[test]
fn words_of_other_tools_on_the_command_line_get_ours() {
    let project = Project::new();
    let url = "http://127.0.0.1:9";
    for (words, hint) in [
        (
            &["load", url, "--measurement-interval", "4000", "-m", "M"][..],
            "the same load: benchtrail load http://127.0.0.1:9 --duration 4000ms --model M",
        ),
        (
            &["load", url, "--timeout-sec", "5", "-m", "M"],
            "--timeout 5s --model M",
        ),
        (
            &["load", url, "--warmup-percent", "10", "-n", "8"],
            "the load without what is left out: benchtrail load http://127.0.0.1:9 --requests 8",
        ),
        (
            &["load", url, "--timeout", "5"],
            "it has no unit: write `5 s`",
        ),
        (
            &["load", url, "--duration", "1h30"],
            "`1h30` is not a duration; write `90 min`",
        ),
        (
            &["calibrate", "--gap", "5 ms,10"],
            "it has no unit: write `10 ms`",
        ),
        (
            &["list", "gates", "p99"],
            "hint: it is not a gate but a figure: ",
        ),
        (
            &["list", "operators", "p99"],
            "hint: write `distribution`, with `quantiles: [0.99]`",
        ),
        (
            &["load", url, "--tokenizer", "gpt2"],
            "give both, or leave it out, and the server counts",
        ),
        (
            &["load", url, "--slo", "ttft:100 tpot:20"],
            "separate the bounds with commas: write ttft:100,tpot:20",
        ),
        (
            &["load", url, "--goodput", "ttft:0.2"],
            "`0.2` has no unit: write ttft:0.2s for seconds, or ttft:0.2ms",
        ),
        (
            &["load", "localhost:9/v1/chat/completions"],
            "give http://localhost:9; ",
        ),
        (&["load", "help"], "`benchtrail load --help`"),
        (&["load", url, "--prompt-file", "p.txt"], "`--dataset FILE`"),
        (&["load", url, "-o", "x.csv"], "`--out DIR` keeps every row"),
        (
            &["run", "--vus", "10", "script.js"],
            "`benchtrail load URL --concurrency N`",
        ),
        (&["init", "my study"], "hint: write `my-study`: "),
        (&["import", "x.json"], "'init'"),
        (
            &["diff", "a.lock", "b.lock"],
            "hint: `benchtrail run EXPERIMENT` writes one",
        ),
        (&["report"], "the experiments here are "),
    ] {
        let outcome = project.run(words);
        assert_ne!(outcome.code, Some(0), "{words:?}");
        assert!(
            outcome.stderr.contains(hint),
            "{words:?}: {}",
            outcome.stderr
        );
    }
    project
        .run(["run", "experiments/simulated.yaml", "--only", "results"])
        .ok();
    for (query, hint) in [
        ("select * form cells", "hint: did you mean `from`?\n"),
        (
            "select top 5 * from cells",
            "hint: write `limit 5` at the end of the query\n",
        ),
        (
            "show tables",
            "hint: `benchtrail sql EXPERIMENT`, without a query, lists the tables",
        ),
        (
            "select * from \"results.cells\" where configuration = \"batched\"",
            "if it is a text, write `'batched'`\n",
        ),
    ] {
        let outcome = project.run(["sql", "experiments/simulated.yaml", query]);
        assert_eq!(outcome.code, Some(2), "{query}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(hint), "{query}: {}", outcome.stderr);
    }
    let outcome = project.run(["transmogrify"]);
    assert!(!outcome.stderr.contains("similar"), "{}", outcome.stderr);
    // The rest of a header without its colon may be a secret.
    let outcome = project.run(["load", url, "--header", "Authorization Bearer hidden-blue"]);
    assert_eq!(outcome.code, Some(2));
    assert!(
        !outcome.stderr.contains("hidden-blue"),
        "{}",
        outcome.stderr
    );
    let study = written();
    let outcome = study.run(["plan", "mine.yaml", "--only", "ladder.clients=1"]);
    assert!(
        outcome.stderr.contains("hint: write `ladder[clients=1]`\n"),
        "{}",
        outcome.stderr
    );
}
