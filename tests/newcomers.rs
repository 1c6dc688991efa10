//! Keys, forms, placeholders and units of workflow tools and other benchmarks. Each mistake gets one message, with a
//! remedy that works.

use crate::mistakes::{hinted, planned, written};
use crate::support::Project;

const AXIS: &str = "clients: [1, 2, 4]";
const ARRIVAL: &str = "arrival: {closed-loop: {clients: \"${clients}\"}}";
const REQUESTS: &str = "requests: 16";
const CHECKS: &str = "checks: {kind: verify, needs: [server, ladder]}";
const SERVER: &str = "server: {kind: serve, needs: [machine]}";
const MEANS: &str = "{operator: aggregate, from: cells, over: [block], columns: [output_throughput, ttft_ms_p50, tpot_ms_p50]}";

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
fn an_axis_in_the_form_of_another_tool_gets_ours() {
    each(&[
        (
            AXIS,
            "clients: {range: [1, 4]}",
            "hint: write `clients: {from: 1, to: 4}`\n",
        ),
        (
            AXIS,
            "clients: {range: [1, 16, 4]}",
            "hint: write `clients: {from: 1, to: 16, step: 4}`\n",
        ),
        (
            AXIS,
            "clients: {range: 1-4}",
            "hint: write `clients: {from: 1, to: 4}`\n",
        ),
        (
            AXIS,
            "clients: {values: [1, 4]}",
            "hint: write `clients: [1, 4]`\n",
        ),
        (
            AXIS,
            "clients: {grid_search: [1, 4]}",
            "hint: write `clients: [1, 4]`\n",
        ),
        (
            AXIS,
            "clients: {min: 1, max: 4}",
            "hint: write `clients: {from: 1, to: 4}`\n",
        ),
        (
            AXIS,
            "clients: {start: 1, stop: 4, step: 1}",
            "hint: write `clients: {from: 1, to: 4, step: 1}`\n",
        ),
        (
            AXIS,
            "clients: {from: 1, end: 4}",
            "hint: write `clients: {from: 1, to: 4}`\n",
        ),
        (AXIS, "clients: 1 2 4", "hint: write it as `[1, 2, 4]`\n"),
        (
            AXIS,
            "clients: (1, 2, 4)",
            "hint: write it as `[1, 2, 4]`\n",
        ),
        (
            AXIS,
            "clients: \"1,2,4\"",
            "hint: write it as `[1, 2, 4]`\n",
        ),
        (
            AXIS,
            "clients: [1 2 4]",
            "as labels of an axis, the numbers are `[1, 2, 4]`\n",
        ),
        (
            AXIS,
            "clients: [1; 2; 4]",
            "as labels of an axis, the numbers are `[1, 2, 4]`\n",
        ),
    ]);
}

#[test]
fn a_section_under_the_name_of_another_tool_is_one_mistake() {
    each(&[
        ("axes:\n", "matrix:\n", "hint: write `axes`\n"),
        (
            "axes:\n  clients",
            "strategy:\n  matrix:\n    clients",
            "hint: write `axes`\n",
        ),
        ("stages:\n", "jobs:\n", "hint: write `stages`\n"),
        ("stages:\n", "steps:\n", "hint: write `stages`\n"),
        ("stages:\n", "services:\n", "hint: write `stages`\n"),
        (
            "experiment: mine",
            "name: mine",
            "hint: write `experiment`\n",
        ),
        (
            "design: {blocks: 3}",
            "repeats: 3",
            "hint: write `design: {blocks: N}`\n",
        ),
        (
            "design: {blocks: 3}",
            "design: {blocks:3}",
            "hint: put a space after the colon: `blocks: 3`\n",
        ),
        (
            "experiment: mine",
            "experiment: my study",
            "hint: write `my-study`: a name starts",
        ),
    ]);
}

#[test]
fn needs_of_another_form_are_one_mistake() {
    each(&[
        (
            SERVER,
            "server: {kind: serve, needs: machine}",
            "hint: write it as `[machine]`\n",
        ),
        (
            SERVER,
            "server: {kind: serve, needs: {machine: {condition: healthy}}}",
            "hint: write it as `[machine]`\n",
        ),
        (
            "needs: [server]\n",
            "needs: server\n",
            "hint: write it as `[server]`\n",
        ),
        (
            CHECKS,
            "checks: {kind: verify, needs: server ladder}",
            "hint: write it as `[server, ladder]`\n",
        ),
        (
            SERVER,
            "server: {kind: serve, depends_on: [machine]}",
            "hint: write `needs: [STAGE]`\n",
        ),
    ]);
}

#[test]
fn gates_and_operators_under_other_words_get_the_whole_entry() {
    let gates =
        |gates: &str| format!("checks: {{kind: verify, needs: [server, ladder], gates: {gates}}}");
    let tolerance = "{gate: row-status, tolerance: 0.01}";
    for (given, hint) in [
        (
            "{error-rate: 0.01}",
            format!("hint: write `[{tolerance}]`\n"),
        ),
        (
            "{row-status: {tolerance: 0.01}}",
            format!("hint: write `[{tolerance}]`\n"),
        ),
        (
            "{row-status: {}, error-rate: 0.01}",
            format!("hint: write `[{{gate: row-status}}, {tolerance}]`\n"),
        ),
        (
            "{gate: row-status}",
            "hint: write `[{gate: row-status}]`\n".to_owned(),
        ),
        (
            "row-status",
            "hint: write `[{gate: row-status}]`\n".to_owned(),
        ),
        (
            "[{error-rate: 0.01}]",
            format!("hint: write `{tolerance}`\n"),
        ),
        (
            "[row-status: {tolerance: 0.01}]",
            format!("hint: write `{tolerance}`\n"),
        ),
        (
            "[error-rate]",
            "hint: write `{gate: row-status}`\n".to_owned(),
        ),
        (
            "{failures: 5}",
            "hint: write `[{gate: row-status, tolerance: …}]`\n".to_owned(),
        ),
        (
            "{ttft_p99: 200}",
            "hint: it is not a gate but a figure: ".to_owned(),
        ),
        (
            "[p99_ttft < 200ms]",
            "hint: it is not a gate but a figure: ".to_owned(),
        ),
        (
            "[{gate: p99-ttft}]",
            "hint: it is not a gate but a figure: ".to_owned(),
        ),
    ] {
        each(&[(CHECKS, &gates(given), &hint)]);
    }
    for (table, hint) in [
        (
            "{operator: p99_ttft}",
            "hint: write `cell-summary`: its table has a column",
        ),
        (
            "{operator: ttft}",
            "hint: write `cell-summary`: its table has a column",
        ),
        (
            "{operator: aggregate, table: cells, over: [block], columns: [ttft_ms_p50]}",
            "hint: write `from`\n",
        ),
        (
            "{operator: aggregate, from: cells, over: [block], metrics: [ttft_ms_p50]}",
            "hint: write `columns`\n",
        ),
        (
            "{op: aggregate, from: cells, over: [block], columns: [ttft_ms_p50]}",
            "hint: write `operator`\n",
        ),
        (
            "{aggregate: {from: cells, over: [block], columns: [ttft_ms_p50]}}",
            "hint: write `{operator: aggregate, from: cells, over: [block], columns: [ttft_ms_p50]}`\n",
        ),
    ] {
        each(&[(MEANS, table, hint)]);
    }
    // An unknown parameter is named beside the missing ones.
    let project = written();
    let message = planned(
        &project,
        MEANS,
        "{operator: aggregate, table: cells, colums: [ttft_ms_p50]}",
    );
    for part in [
        "unknown key `table`",
        "unknown key `colums`",
        "missing key `over`",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!message.contains("missing key `from`"), "{message}");
}

#[test]
fn a_number_that_is_impossible_gets_the_possible_ones() {
    each(&[
        (
            "seed: 7",
            "seed: random",
            "hint: it is a fixed number, such as `seed: 7`",
        ),
        (
            "seed: 7",
            "seed: -1",
            "hint: it is a fixed number, such as `seed: 7`",
        ),
        (
            REQUESTS,
            "requests: -1",
            "hint: write `duration: 10 min` in its place",
        ),
        (
            REQUESTS,
            "requests: unlimited",
            "hint: write `duration: 10 min` in its place",
        ),
        (
            REQUESTS,
            "requests: -5",
            "hint: write a whole number from 1 on (How many requests",
        ),
        (
            "{blocks: 3}",
            "{blocks: 0}",
            "hint: write a whole number from 1 to 1000 (The number",
        ),
        (
            ARRIVAL,
            "arrival: {poisson: {rate: 0}}",
            "hint: write a number above 0 (Requests per second",
        ),
        (
            ARRIVAL,
            "arrival: poisson",
            "hint: write `{poisson: {rate: …}}`\n",
        ),
        (
            ARRIVAL,
            "arrival: closed-loop",
            "hint: write `{closed-loop: {clients: …}}`\n",
        ),
        (
            ARRIVAL,
            "arrival: gamma",
            "hint: write `{gamma: {rate: …, burstiness: …}}`\n",
        ),
        (
            REQUESTS,
            "requests: 16\n    timeout: 1h30m",
            "hint: a duration has one number and one unit: write `90 min`\n",
        ),
        (
            REQUESTS,
            "requests: 16\n    timeout: 90",
            "hint: add the unit: `90 s`\n",
        ),
    ]);
}

#[test]
fn placeholders_of_other_tools_get_ours() {
    each(&[
        (
            REQUESTS,
            "requests: ${{ matrix.clients }}",
            "hint: write `${clients}`\n",
        ),
        (
            REQUESTS,
            "requests: \"${{ matrix.clients }}\"",
            "hint: write `${clients}`\n",
        ),
        (
            REQUESTS,
            "requests: ${matrix.clients}",
            "hint: write `${clients}`\n",
        ),
        (
            REQUESTS,
            "requests: ${ clients }",
            "hint: write `${clients}`\n",
        ),
        (
            REQUESTS,
            "requests: \"{{ matrix.clients }}\"",
            "hint: a placeholder is written `\"${clients}\"`\n",
        ),
        (
            REQUESTS,
            "requests: ${N:-16}",
            "hint: environment variables are not read: declare `parameters: {N: {type: integer, default: 16}}`, write `${N}`",
        ),
        (
            REQUESTS,
            "requests: $N",
            "hint: environment variables are not read: declare `parameters: {N: …}`",
        ),
        (
            REQUESTS,
            "requests: ${env.N}",
            "hint: environment variables are not read: declare `parameters: {N: …}`",
        ),
        (
            REQUESTS,
            "requests: ${{ env.N }}",
            "hint: environment variables are not read: declare `parameters: {N: …}`",
        ),
        (
            REQUESTS,
            "requests: $(nproc)",
            "hint: commands are not run here: write the value itself\n",
        ),
    ]);
}

#[test]
fn a_stage_of_the_wrong_kind_and_a_key_in_the_wrong_stage_get_the_kind() {
    each(&[
        (
            "kind: load",
            "kind: serve",
            "hint: these are keys of the kind `load`: write `kind: load`\n",
        ),
        (
            SERVER,
            "server: {kind: serve, needs: [machine], requests: 8}",
            "hint: it is a key of a stage of kind `load`\n",
        ),
        (
            "workload: short-decode",
            "workload: short-decode\n    gates: [{gate: census}]",
            "hint: it is a key of a stage of kind `verify`\n",
        ),
    ]);
}

#[test]
fn a_text_in_quotes_is_underlined_up_to_its_quote() {
    let project = written();
    let message = planned(&project, AXIS, "clients: \"1,2,4\"");
    assert!(message.contains("\n  |            ^^^^^^^\n"), "{message}");
}

#[test]
fn a_time_in_place_of_a_count_gets_the_key_for_times() {
    each(&[
        (
            REQUESTS,
            "requests: 10s",
            "hint: write `duration: 10 s` in its place, for a load that a time ends\n",
        ),
        (
            REQUESTS,
            "requests-per-client: 5 min",
            "hint: write `duration: 5 min` in its place, for a load that a time ends\n",
        ),
        (
            REQUESTS,
            "requests: 16\n    warmup: 30 s",
            "hint: it is a number of requests, such as `warmup: 8`: no time ends the warm-up\n",
        ),
    ]);
}

#[test]
fn a_setting_of_an_engine_in_another_form_gets_the_number() {
    let with = |setting: &str| {
        format!("server: {{kind: serve, needs: [machine], settings: {{{setting}}}}}")
    };
    each(&[
        (
            SERVER,
            &with("context: 4k"),
            "hint: write the number out: 4000 or 4096. `context`: ",
        ),
        (
            SERVER,
            &with("context: \"4096\""),
            "hint: write 4096 without quotes. `context`: ",
        ),
        (
            SERVER,
            &with("context: [2048, 4096]"),
            "hint: write one number; as labels of an axis, the numbers are `[2048, 4096]`. `context`: ",
        ),
        (
            SERVER,
            &with("parallel: four"),
            "hint: write 4. `parallel`: ",
        ),
    ]);
}

#[test]
fn a_table_with_the_name_of_its_stage_gets_its_own_name() {
    each(&[
        (
            "from: cells",
            "from: results.cells",
            "hint: write `cells`: a table of the same stage is named without the stage\n",
        ),
        (
            "from: cells",
            "from: results.cels",
            "hint: did you mean `cells`?\n",
        ),
    ]);
}

#[test]
fn an_option_that_sets_what_is_not_declared_gets_the_declaration() {
    let project = written();
    for (options, hint) in [
        (
            ["--profile", "quick"],
            "hint: leave the option out, or declare one: `profiles: {quick: {axes: {AXIS: [LABEL]}}}`\n",
        ),
        (
            ["--set", "seed=3"],
            "write `parameters: {seed: {type: integer, default: 3}}` and, where the value belongs, `${seed}`\n",
        ),
        (
            ["--set", "ladder.requests=8"],
            "write `parameters: {requests: {type: integer, default: 8}}` and, where the value belongs, `${requests}`\n",
        ),
    ] {
        let outcome = project.run(["plan", "mine.yaml", options[0], options[1]]);
        assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(hint), "{}", outcome.stderr);
    }
}

#[test]
fn a_study_that_has_run_with_a_profile_is_named_with_it() {
    let project = Project::new();
    let study = "experiments/simulated.yaml";
    let run = format!("benchtrail run {study}");
    project.run(["run", study, "--smoke"]).ok();
    let outcome = project.run(["status", study]);
    assert!(
        outcome.stderr.contains(&format!(
            "hint: it has run as `{study} --smoke`; to run it as named here: `{run}`\n"
        )),
        "{}",
        outcome.stderr
    );
    std::fs::remove_file(project.path().join("experiments/simulated.smoke.lock")).expect("a lock");
    for command in ["status", "ls", "sql"] {
        let outcome = project.run([command, study, "--smoke"]);
        assert_eq!(outcome.code, Some(5), "{command}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains(&format!("hint: {run} --smoke\n")),
            "{command}: {}",
            outcome.stderr
        );
    }
}

#[test]
fn a_study_that_is_compared_with_itself_is_the_same_without_figures() {
    let project = Project::new();
    let study = "experiments/simulated.yaml";
    project.run(["run", study, "--smoke"]).ok();
    let text = project.run(["diff", study, study, "--smoke"]).ok().stdout;
    assert!(
        text.contains("    pass output_throughput: both studies hold the same measurements\n"),
        "{text}"
    );
    assert!(
        text.contains("= no number is in a report of both studies\n"),
        "{text}"
    );
}
