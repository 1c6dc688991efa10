//! What the first `plan` of a study says in one round: labels and columns that reports read, names of stages that changed,
//! forms to copy, and templates that do not parse.

use std::fs;

use crate::mistakes::{hinted, planned, written};
use crate::support::Project;

const REQUESTS: &str = "requests: 16";
const ARRIVAL: &str = "arrival: {closed-loop: {clients: \"${clients}\"}}";
const CHECKS: &str = "checks: {kind: verify, needs: [server, ladder]}";
const REPORT: &str = "report: {kind: report, needs: [machine, server, ladder, checks, results]}";
const CELLS: &str = "cells: {operator: cell-summary}";

/// Plans each changed study. Its only mistake must have the hint.
fn each(cases: &[(&str, &str, &str)]) {
    let project = written();
    for (from, to, hint) in cases {
        let message = hinted(&project, from, to, &format!("hint: {hint}"));
        assert_eq!(message.matches("error: ").count(), 1, "{to}: {message}");
    }
}

fn report(keys: &str) -> String {
    REPORT.replace("results]", &format!("results], {keys}"))
}

fn figure(keys: &str) -> String {
    report(&format!(
        "figures: {{f: {{kind: ladder, table: results.cells, x: clients, y: output_throughput, {keys}, title: T, caption: C}}}}"
    ))
}

/// Writes a study whose report has its own template, and plans it.
fn with_template(project: &Project, template: &str) -> crate::support::Outcome {
    fs::create_dir_all(project.path().join("templates")).unwrap();
    fs::write(project.path().join("templates/own.md"), template).unwrap();
    let study = fs::read_to_string(project.path().join("mine.yaml")).unwrap();
    let own = study.replace(REPORT, &report("template: own.md"));
    fs::write(project.path().join("own.yaml"), own).unwrap();
    project.run(["plan", "own.yaml"])
}

/// Returns what the carets of a message mark.
fn marked(message: &str) -> String {
    let lines: Vec<&str> = message.lines().collect();
    let at = lines.iter().position(|line| line.contains('^'));
    let at = at.unwrap_or_else(|| panic!("a caret: {message}"));
    let marks = lines[at].chars().zip(lines[at - 1].chars());
    marks
        .filter(|(mark, _)| *mark == '^')
        .map(|(_, c)| c)
        .collect()
}

#[test]
fn a_label_in_a_report_that_its_axis_does_not_have_is_a_mistake_of_planning() {
    let table = |only: &str| {
        report(&format!(
            "tables: {{t: {{from: results.cells, columns: [clients], where: {only}, caption: C}}}}"
        ))
    };
    let project = written();
    for (to, place, marks, hint) in [
        (
            figure("where: {clients: 3}"),
            "figures.f.where.clients)",
            "3",
            "the labels of `clients` are `1`, `2`, `4`",
        ),
        (
            figure("where: {block: [1, 5]}"),
            "figures.f.where.block[1])",
            "5",
            "the labels of `block` are `1`, `2`, `3`",
        ),
        (
            figure("where: {clients: \"4\"}"),
            "figures.f.where.clients)",
            "\"4\"",
            "write it without quotes",
        ),
        (
            table("{clients: [1, 8]}"),
            "tables.t.where.clients[1])",
            "8",
            "the labels of `clients` are `1`, `2`, `4`",
        ),
    ] {
        let message = planned(&project, REPORT, &to);
        assert_eq!(message.matches("error: ").count(), 1, "{to}: {message}");
        assert!(message.contains(place), "{to}: {message}");
        assert!(
            message.contains(&format!("hint: {hint}\n")),
            "{to}: {message}"
        );
        assert_eq!(marked(&message), marks, "{to}: {message}");
    }
    each(&[(
        "axes:\n",
        "claims: {c: {says: It is fast., rule: {every: {table: results.means, where: {clients: 9}, that: n > 1}}}}\naxes:\n",
        "the labels of `clients` are `1`, `2`, `4`",
    )]);
}

#[test]
fn a_label_that_a_profile_leaves_out_or_that_a_query_makes_is_no_mistake() {
    let project = written();
    let study = fs::read_to_string(project.path().join("mine.yaml")).unwrap();
    let profiled = study
        .replace(
            "axes:\n",
            "profiles: {smoke: {axes: {clients: [1]}}}\naxes:\n",
        )
        .replace(REPORT, &figure("where: {clients: 4}"));
    fs::write(project.path().join("profiled.yaml"), profiled).unwrap();
    project.run(["plan", "profiled.yaml"]).ok();
    project
        .run(["plan", "profiled.yaml", "--profile", "smoke"])
        .ok();
    let query = "made: {operator: sql, query: 'select clients * 10 as clients, count(*) as n from cells group by 1', keys: [clients]}";
    let queried = study
        .replace(CELLS, &format!("{CELLS}\n      {query}"))
        .replace(
            REPORT,
            &report(
                "tables: {t: {from: results.made, columns: [n], where: {clients: 40}, caption: C}}",
            ),
        );
    fs::write(project.path().join("queried.yaml"), queried).unwrap();
    project.run(["plan", "queried.yaml"]).ok();
}

#[test]
fn what_a_template_reads_from_rows_is_checked_while_planning() {
    let project = written();
    for (template, place, marks, hint) in [
        (
            "{% for r in rows(\"results.cells\") %}\n{{ r.show(\"output_throughputs\") }}\n{% endfor %}\n",
            "own.md:2:12",
            "output_throughputs",
            "did you mean `output_throughput`?",
        ),
        (
            "{{ row(\"results.means\", {\"clients\": 1}).show(\"output_throughput\") }}\n",
            "own.md:1:47",
            "output_throughput",
            "did you mean `output_throughput_mean`?",
        ),
        (
            "{% set r = row(\"results.means\", {\"clients\": 1}) %}\n{% if r.client == 1 %}a{% endif %}\n",
            "own.md:2:9",
            "client",
            "did you mean `clients`?",
        ),
        (
            "{% for r in rows(\"results.cells\", order=[\"clients\", \"-blok\"]) %}{% endfor %}\n",
            "own.md:1:55",
            "blok",
            "did you mean `block`?",
        ),
        (
            "{{ value(\"results.means\", {\"clients\": 9}, \"output_throughput_mean\") }}\n",
            "own.md:1:39",
            "9",
            "the labels of `clients` are `1`, `2`, `4`",
        ),
    ] {
        let outcome = with_template(&project, template);
        assert_eq!(outcome.code, Some(2), "{template}: {}", outcome.stderr);
        let message = outcome.stderr;
        assert_eq!(
            message.matches("error: ").count(),
            1,
            "{template}: {message}"
        );
        assert!(
            message.contains(place) && message.contains(&format!("hint: {hint}\n")),
            "{template}: {message}"
        );
        assert_eq!(marked(&message), marks, "{template}: {message}");
    }
    for template in [
        "{% for r in rows(\"results.cells\") %}{% if r.other is defined %}{{ r.show(\"other\") }}{% endif %}{% endfor %}\n",
        "{% for r in rows(\"results.cells\") | groupby(\"clients\") %}{% endfor %}\n",
    ] {
        with_template(&project, template).ok();
    }
}

#[test]
fn a_template_that_does_not_parse_gets_its_part_and_a_remedy() {
    let project = written();
    for (template, place, marks, hint) in [
        (
            "# T\n\n{% for r in rows(\"results.cells\") %}\n",
            "own.md:3:1",
            "{% for r in rows(\"results.cells\") %}",
            "write `{% endfor %}` behind it",
        ),
        (
            "# T\n{{ title() }\n",
            "own.md:2:1",
            "{{ title() }",
            "write `}}` at its end",
        ),
        (
            "# T\n\n{% endif %}\n",
            "own.md:3:4",
            "endif",
            "remove it: no block of `if` is open here",
        ),
        (
            "text {{ value(\"results.cells\" }} x\n",
            "own.md:1:31",
            "}",
            "is a closing bracket missing before it?",
        ),
        (
            "{% include \"elsewhere.md\" %}\n",
            "own.md:1:13",
            "elsewhere.md",
            "none of the",
        ),
    ] {
        let outcome = with_template(&project, template);
        assert_eq!(outcome.code, Some(2), "{template}: {}", outcome.stderr);
        let message = outcome.stderr;
        assert_eq!(
            message.matches("error: ").count(),
            1,
            "{template}: {message}"
        );
        assert!(
            message.contains(place) && message.contains(&format!("hint: {hint}")),
            "{template}: {message}"
        );
        assert_eq!(marked(&message), marks, "{template}: {message}");
    }
    // Titles and captions are templates, too.
    let message = planned(&project, REPORT, &report("title: 'A {{ spec(\"seed\" }}'"));
    assert!(message.contains("stages.report.title"), "{message}");
    assert_eq!(marked(&message), "}", "{message}");
}

#[test]
fn a_name_that_changed_is_one_mistake_however_often_it_is_used() {
    each(&[
        (
            "  ladder:\n",
            "  loads:\n",
            "did you mean `loads`? (the name is also in line 20 and line 24)\n",
        ),
        (
            "  server: {",
            "  engine: {",
            "did you mean `engine`? (the name is also in line 17 and line 24)\n",
        ),
        (
            "  clients: [1, 2, 4]",
            "  concurrency: [1, 2, 4]",
            "did you mean `concurrency`?\n",
        ),
    ]);
}

#[test]
fn a_key_or_a_stage_with_another_indentation_is_one_mistake() {
    each(&[
        (
            "    requests: 16",
            "  requests: 16",
            "indent it like the other keys of the stage `ladder` above\n",
        ),
        (
            "  checks: {kind",
            "    checks: {kind",
            "indent it like the stage `ladder`\n",
        ),
        (
            "  clients: [1, 2, 4]",
            "  - clients: [1, 2, 4]",
            "axes are a mapping, not a list: remove the `- ` before `clients`\n",
        ),
        (
            "experiment: mine",
            "experiment:mine",
            "put a space after the colon: `experiment: …` on line 2\n",
        ),
    ]);
}

#[test]
fn every_missing_key_of_a_figure_is_reported_at_once() {
    let project = written();
    for (kind, missing) in [
        ("ladder", &["x", "y", "title", "caption"][..]),
        ("heat-map", &["x", "y", "value", "title", "caption"]),
        ("forest", &["x", "y", "band", "title", "caption"]),
        ("ecdf", &["x", "title", "caption"]),
    ] {
        let to = report(&format!(
            "figures: {{f: {{kind: {kind}, table: results.cells}}}}"
        ));
        let message = planned(&project, REPORT, &to);
        assert_eq!(
            message.matches("error: ").count(),
            missing.len(),
            "{message}"
        );
        for key in missing {
            let expected = format!("error: missing key `{key}`\n");
            assert!(message.contains(&expected), "{kind}: {message}");
        }
    }
}

#[test]
fn a_table_that_a_load_stage_does_not_have_gets_the_one_meant() {
    let table = |from: &str| {
        report(&format!(
            "tables: {{t: {{from: {from}, columns: [clients], caption: C}}}}"
        ))
    };
    let query = |query: &str| {
        format!("{CELLS}\n      made: {{operator: sql, query: '{query}', keys: [clients]}}")
    };
    each(&[
        (
            REPORT,
            &table("ladder.rows"),
            "did you mean `ladder.requests`?\n",
        ),
        (
            REPORT,
            &table("ladder.host"),
            "did you mean `ladder.host_telemetry`?\n",
        ),
        (
            CELLS,
            &query("select clients, count(*) as n from \"ladder.rows\" group by 1"),
            "did you mean `ladder.requests`?\n",
        ),
        (
            CELLS,
            &query("select * from \"ladder.host\""),
            "if `ladder` is a load stage, read `ladder.host_telemetry`; ",
        ),
        (
            "from: cells",
            "from: ladder.request",
            "only the operator `sql` reads tables of cells; ",
        ),
    ]);
}

#[test]
fn a_value_in_place_of_a_mapping_gets_the_form_to_copy() {
    let top = |text: &str| format!("{text}\naxes:\n");
    let more = |text: &str| format!("requests: 16\n    {text}");
    let serve = |keys: &str| format!("needs: [machine], {keys}}}");
    each(&[
        (
            "axes:\n",
            &top("models: {m: Qwen/Qwen3-0.6B}"),
            "write `{title: Qwen/Qwen3-0.6B, weights: {named: {id: Qwen/Qwen3-0.6B}}}` for ",
        ),
        (
            "axes:\n",
            &top("engines: {e: vllm}"),
            "write it as `{title: …, version: …, launch: {program: …}}`; ",
        ),
        (
            "axes:\n",
            &top("hosts: {h: gpu01}"),
            "write `{ssh: gpu01}`\n",
        ),
        (
            "axes:\n",
            &top("parameters: {n: integer}"),
            "write `{type: integer}`\n",
        ),
        (
            "axes:\n",
            &top("claims: {c: It is fast}"),
            "write it as `{says: …, rule: …}`; ",
        ),
        (
            &format!("{ARRIVAL}\n    {REQUESTS}"),
            "import: x.json",
            "write `{file: x.json, tool: …}`\n",
        ),
        (
            &format!("{ARRIVAL}\n    {REQUESTS}"),
            "import: [x.json]",
            "write `{file: x.json, tool: …}`\n",
        ),
        (REQUESTS, &more("cancel: 5 s"), "write `{after: 5 s}`\n"),
        (REQUESTS, &more("timeouts: 30 s"), "write `{total: 30 s}`\n"),
        (
            "needs: [machine]}",
            &serve("settings: --ctx-size 4096 --jinja"),
            "write `{ctx-size: 4096, jinja: true}`\n",
        ),
        (
            "needs: [machine]}",
            &serve("settings: [--ctx-size, \"4096\"]"),
            "write `{ctx-size: 4096}`\n",
        ),
        (
            REPORT,
            &report("figures: {f: ladder}"),
            "write it as `{kind: …, table: …, x: …, title: …, caption: …}`; ",
        ),
        (
            REPORT,
            &figure("where: clients = 1"),
            "write `{clients: 1}`\n",
        ),
        (
            REPORT,
            &figure("value: [ttft_ms_p50, tpot_ms_p50]"),
            "a figure shows one column: declare a figure for each\n",
        ),
    ]);
}

#[test]
fn a_unit_never_loses_its_meaning_in_a_remedy() {
    let goodput = |bound: &str| {
        format!(
            "{CELLS}\n      good: {{operator: goodput, objectives: [{{name: fast, all: [{bound}]}}]}}"
        )
    };
    let gates =
        |gate: &str| format!("checks: {{kind: verify, needs: [server, ladder], gates: [{gate}]}}");
    each(&[
        (
            ARRIVAL,
            "arrival: {poisson: {rate: 600/min}}",
            "write the rate per second: 10\n",
        ),
        (
            ARRIVAL,
            "arrival: {poisson: {rate: 10 req/s}}",
            "write the number alone: 10\n",
        ),
        (
            CELLS,
            &goodput("{metric: ttft_ms, at-most: 0.2s}"),
            "write a number without its unit, which is fixed here; what belongs here: The largest value that meets it, in the metric's unit\n",
        ),
        (
            CELLS,
            &goodput("{metric: ttft_ms, max: 200}"),
            "write `at-most`\n",
        ),
        (
            CELLS,
            &format!("{CELLS}\n      good: {{operator: goodput, slo: {{ttft: 200}}}}"),
            "write `objectives: [{name: NAME, all: [{metric: ttft_ms, at-most: 200}]}]`\n",
        ),
        (
            CHECKS,
            &gates("{gate: failed-share}"),
            "write `row-status`, with the `tolerance` as a share\n",
        ),
        (
            CHECKS,
            &gates("{gate: quick-enough}"),
            "`benchtrail list gates` lists the ",
        ),
        (
            CHECKS,
            &gates("{gate: row-status, severity: error}"),
            "write `fail`\n",
        ),
        (
            "clients: [1, 2, 4]",
            "clients: [1, two, 4]",
            "where `${clients}` gets this value: write 2\n",
        ),
    ]);
}

#[test]
fn the_sides_of_a_comparison_in_another_form_are_one_mistake() {
    let compared = |sides: &str| {
        format!(
            "{CELLS}\n      compared: {{operator: paired-comparison, from: cells, columns: [output_throughput], {sides}}}"
        )
    };
    let pair = "write `pair: {axis: AXIS, a: LABEL, b: LABEL}`";
    for (sides, hint) in [
        (
            "pair: {axis: clients, labels: [1, 2]}",
            "write `a: LABEL, b: LABEL`",
        ),
        ("pair: {axis: clients, a: 2, baseline: 1}", "write `b`"),
        ("axis: clients", pair),
        ("sides: [1, 2]", pair),
    ] {
        each(&[(CELLS, &compared(sides), hint)]);
    }
}
