//! The messages that users read when something is wrong: place, reason, remedy, and the exit code.

use std::fs;

use crate::support::{Project, assert_snapshot};

fn refused(name: &str, arguments: &[&str], prepare: impl FnOnce(&Project), code: i32) {
    let project = Project::new();
    prepare(&project);
    let outcome = project.run(arguments);
    assert_eq!(
        outcome.code,
        Some(code),
        "stdout:\n{}\nstderr:\n{}",
        outcome.stdout,
        outcome.stderr
    );
    assert_snapshot(&format!("errors/{name}.txt"), &outcome.stderr, &project);
}

#[test]
fn a_missing_experiment_file_is_named() {
    refused(
        "missing-file",
        &["plan", "experiments/quikstart.yaml"],
        |_| (),
        2,
    );
}

#[test]
fn an_answer_that_could_not_be_written_is_no_success() {
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let project = Project::new();
    let outcome = project.command(["schema"]).stdout(full).output().unwrap();
    let message = String::from_utf8(outcome.stderr).unwrap();
    assert_eq!(outcome.status.code(), Some(4), "{message}");
    assert!(
        message.contains("standard output is incomplete"),
        "{message}"
    );
}

#[test]
fn a_reader_that_closes_the_pipe_is_no_error_of_any_command() {
    let project = Project::new();
    for arguments in [
        &["man"][..],
        &["completions", "bash"],
        &["schema"],
        &["list", "engines"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let outcome = project.command(arguments).stdout(writer).output().unwrap();
        let message = String::from_utf8(outcome.stderr).unwrap();
        assert_eq!(outcome.status.code(), Some(0), "{arguments:?}: {message}");
        assert_eq!(message, "", "{arguments:?}");
    }
}

#[test]
fn all_mistakes_of_an_experiment_are_reported_at_once_with_their_places() {
    let spoil = |project: &Project| {
        project.edit(
            "experiments/quickstart.yaml",
            "arrival: {closed-loop: {clients:",
            "arrival: {closed-lop: {clients:",
        );
        project.edit(
            "experiments/quickstart.yaml",
            "    warmup: 2",
            "    warmup: -2\n    warmpu: 2",
        );
        project.edit(
            "experiments/quickstart.yaml",
            "needs: [machine]",
            "needs: [machin]",
        );
    };
    refused(
        "three-mistakes",
        &["plan", "experiments/quickstart.yaml"],
        spoil,
        2,
    );
}

#[test]
fn a_duplicate_key_is_an_error_that_names_both_places() {
    let spoil = |project: &Project| {
        project.edit(
            "experiments/quickstart.yaml",
            "seed: 164",
            "seed: 164\nseed: 165",
        );
    };
    refused(
        "duplicate-key",
        &["plan", "experiments/quickstart.yaml"],
        spoil,
        2,
    );
}

#[test]
fn an_unknown_parameter_gets_a_suggestion() {
    refused(
        "unknown-parameter",
        &["plan", "experiments/quickstart.yaml", "--set", "request=4"],
        |_| (),
        2,
    );
}

#[test]
fn an_unknown_profile_gets_those_there_are() {
    refused(
        "unknown-profile",
        &["plan", "experiments/quickstart.yaml", "--profile", "smok"],
        |_| (),
        2,
    );
}

#[test]
fn an_exclusion_without_a_reason_is_refused() {
    let spoil = |project: &Project| {
        let text = "    heartbeat: 60 s";
        project.edit(
            "experiments/quickstart.yaml",
            text,
            &format!("{text}\n    exclude:\n      - where: {{concurrency: 8}}"),
        );
    };
    refused(
        "exclusion-without-reason",
        &["plan", "experiments/quickstart.yaml"],
        spoil,
        2,
    );
}

#[test]
fn a_command_that_needs_a_store_says_how_to_get_one() {
    let remove = |project: &Project| {
        fs::remove_dir(project.path().join(".benchtrail")).expect("the folder is empty");
    };
    refused("no-store", &["fsck"], remove, 5);
}

#[test]
fn a_command_without_a_store_names_the_stores_in_the_folders_below() {
    let project = Project::new();
    let remove = || fs::remove_dir(project.path().join(".benchtrail")).expect("it is empty");
    remove();
    // A folder without a repository: the study makes its store beside itself.
    let study = "experiments/simulated.yaml";
    project.run(["run", study, "--smoke", "--keep-going"]).ok();
    let below = project.run(["fsck"]);
    assert_eq!(below.code, Some(5), "{}", below.stderr);
    assert!(
        below
            .stderr
            .contains("use `--store experiments/.benchtrail`"),
        "{}",
        below.stderr
    );
    project
        .run(["fsck", "--store", "experiments/.benchtrail"])
        .ok();
}

#[test]
fn a_stage_that_is_not_there_gets_a_suggestion() {
    refused(
        "unknown-stage",
        &["plan", "experiments/quickstart.yaml", "--fresh", "lader"],
        |_| (),
        2,
    );
}

#[test]
fn a_report_that_is_not_there_is_named() {
    refused("no-report", &["why", "reports/none/report.md:3"], |_| (), 5);
}

#[test]
fn unknown_definitions_get_a_suggestion() {
    let spoil = |project: &Project| {
        let file = "experiments/quickstart.yaml";
        project.edit(
            file,
            "workload: ${workload.definition}",
            "workload: shrot-decode",
        );
        project.edit(file, "engine: llama-cpp", "engine: lamma-cpp");
        project.edit(file, "template: quickstart.md", "template: quikstart.md");
    };
    refused(
        "unknown-definitions",
        &["plan", "experiments/quickstart.yaml"],
        spoil,
        2,
    );
}

#[test]
fn a_selector_that_fits_nothing_gets_what_there_is() {
    refused(
        "unknown-selector",
        &["plan", "experiments/quickstart.yaml", "--only", "nope"],
        |_| (),
        2,
    );
    let axis = [
        "plan",
        "experiments/quickstart.yaml",
        "--only",
        "ladder[clients=3]",
    ];
    refused("unknown-axis-of-a-selector", &axis, |_| (), 2);
}

#[test]
fn an_engine_that_this_machine_cannot_run_is_exit_code_4_with_the_remedy() {
    let lacking = |project: &Project| {
        let engine = "extends: llama-cpp\nfallback: null\n\
                      requires: {cpu-flags: [], programs: [{name: no-such-program, debian: nothing}]}\n";
        fs::create_dir_all(project.path().join("engines")).unwrap();
        fs::write(project.path().join("engines/own.yaml"), engine).unwrap();
        project.edit(
            "experiments/quickstart.yaml",
            "engine: llama-cpp",
            "engine: own",
        );
    };
    // A run also writes a page of the missing parts, and prints its path.
    for (snapshot, command) in [
        ("lacking-engine", ["plan", "--smoke"].as_slice()),
        ("lacking-engine-run", &["run", "--smoke", "--quiet"]),
    ] {
        refused(
            snapshot,
            &[command, &["experiments/quickstart.yaml"]].concat(),
            lacking,
            4,
        );
    }
}

/// The mistakes of new users, each with the expected response.
#[test]
fn mistakes_of_the_first_hour_get_their_remedy() {
    let quickstart = "experiments/quickstart.yaml";
    let spoilt = |name: &str, from: &str, to: &str| {
        refused(
            &format!("first-hour/{name}"),
            &["plan", quickstart],
            |project| project.edit(quickstart, from, to),
            2,
        );
    };
    let arrival = "arrival: {closed-loop: {clients: \"${concurrency}\"}}";
    spoilt(
        "unquoted",
        arrival,
        "arrival: {closed-loop: {clients: ${concurrency}}}",
    );
    spoilt(
        "timeout-minutes",
        arrival,
        &format!("{arrival}\n    timeout-minutes: 5\n    outs: [rows]"),
    );
    spoilt(
        "type-inside",
        arrival,
        "arrival: {type: closed_loop, clients: 4}",
    );
    spoilt(
        "computed",
        "requests: ${requests}",
        "requests: ${concurrency}*8",
    );
    spoilt(
        "computed-inside",
        "requests: ${requests}",
        "requests: \"${concurrency * 8}\"",
    );
    spoilt(
        "command-of-a-server",
        "threads: 1",
        "threads: 1\n    command: llama-server\n    env: {GGML_X: 1}",
    );
    spoilt(
        "truth-in-quotes",
        "threads: 1",
        "threads: 1\n      no-cont-batching: true\n      prompt-cache: \"True\"",
    );
    spoilt(
        "axis-with-a-factor",
        "concurrency: [1, 4, 8]",
        "concurrency: {from: 1, to: 8, factor: 2}",
    );
    spoilt(
        "concurrency-in-a-load",
        arrival,
        "concurrency: ${concurrency}",
    );
    spoilt("rate-in-a-load", arrival, "request-rate: 4");
    spoilt("infinite-rate", arrival, "arrival: {poisson: {rate: inf}}");
    spoilt("open-loop", arrival, "arrival: {open-loop: {rate: 3}}");
    spoilt(
        "engine-setting",
        "      parallel: ${configuration.slots}",
        "      max-num-seqs: ${configuration.slots}",
    );
    spoilt(
        "engine-setting-close",
        "      threads: 1",
        "      thread: 1",
    );
    spoilt(
        "engine-in-a-server",
        "      threads: 1",
        "      threads: 1\n    engine: vllm\n    port: 8000",
    );
    spoilt(
        "url-in-a-machine",
        "    engine: llama-cpp",
        "    engine: llama-cpp\n    url: http://127.0.0.1:8000",
    );
    spoilt(
        "load-without-a-server",
        "    needs: [server]\n    over: [configuration, workload",
        "    needs: [machine]\n    over: [configuration, workload",
    );
    spoilt(
        "server-without-an-engine",
        "    needs: [machine]\n    over: [configuration]",
        "    over: [configuration]",
    );
    spoilt(
        "load-joins-two-servers",
        "over: [configuration, workload, concurrency]",
        "over: [workload, concurrency]",
    );
    spoilt("kind-of-another-tool", "kind: verify", "kind: check");
    spoilt(
        "column-of-another-tool",
        "columns: [output_throughput, ttft_ms_p50, tpot_ms_p50",
        "columns: [tokens_per_second, p50_ttft, median_tpot",
    );
    spoilt(
        "prompt-beyond-the-context",
        "{from: 8, to: 16}",
        "{from: 2000, to: 4000}",
    );
    spoilt(
        "model",
        "model: smollm2-135m-instruct",
        "model: meta-llama/Llama-3.1-8B",
    );
}

#[test]
fn a_file_that_is_not_there_gets_the_one_that_was_meant() {
    for file in ["quickstart.yml", "quickstart", "quikstart.yaml"] {
        let project = Project::new();
        for command in ["plan", "status", "run"] {
            let outcome = project.run([command, &format!("experiments/{file}")]);
            assert_eq!(outcome.code, Some(2));
            let hint = "hint: did you mean `experiments/quickstart.yaml`?";
            assert!(
                outcome.stderr.contains(hint),
                "{command} {file}: {}",
                outcome.stderr
            );
        }
    }
    let project = Project::new();
    let folder = project.run(["plan", "experiments"]).stderr;
    assert!(folder.contains("this is a folder, not a file"), "{folder}");
    assert!(folder.contains("`experiments/quickstart.yaml`"), "{folder}");
}

#[test]
fn an_axis_with_the_name_of_a_column_is_reported_while_planning() {
    let project = Project::new();
    let planned = |axis: &str, tables: &str| {
        let text = format!(
            "experiment: axes\nquestion: q\nseed: 3\naxes:\n  {axis}: [1, 2]\nmodels:\n  m: {{title: M, weights: \
             {{named: {{id: m}}}}}}\nworkloads:\n  short: {{prompts: {{words: {{length: 6}}}}, output: {{tokens: 4}}}}\n\
             stages:\n  machine: {{kind: provision, engine: openai, model: m}}\n  server: {{kind: serve, needs: \
             [machine]}}\n  load: {{kind: load, needs: [server], over: [{axis}], workload: short, arrival: \
             {{closed-loop: {{clients: 1}}}}, requests: 8}}\n  checks: {{kind: verify, needs: [server, load]}}\n  \
             results: {{kind: analyze, needs: [load, checks], tables: {tables}}}\n"
        );
        fs::write(project.path().join("axes.yaml"), text).unwrap();
        project.run(["plan", "axes.yaml"])
    };
    let cells = "{cells: {operator: cell-summary}}";
    for axis in ["level", "n_ok", "ttft_ms_p50"] {
        let outcome = planned(axis, cells);
        assert_eq!(outcome.code, Some(2), "{axis}: {}", outcome.stdout);
        let expected = format!("`{axis}` is both an axis and a column of `cell-summary`");
        assert!(
            outcome.stderr.contains(&expected)
                && outcome.stderr.contains("give the axis another name"),
            "{}",
            outcome.stderr
        );
    }
    // A pooled axis is not a column of the table.
    let pooled = "{cells: {operator: cell-summary}, all: {operator: aggregate, from: cells, over: [turn], columns: \
                  [output_throughput]}}";
    planned("turn", pooled).ok();
}

#[test]
fn a_definition_that_extends_another_may_choose_another_form() {
    let project = Project::new();
    let text = "experiment: forms\nseed: 3\nengines:\n  own:\n    extends: llama-cpp\n    version: 1.2.3\n    requires: {cpu-flags: []}\n    packages: []\n    \
                launch: {program: {installed: sh}}\nmodels:\n  named: {extends: smollm2-135m-instruct, weights: {named: \
                {id: org/name}}}\n  other: {extends: named, weights: {named: {revision: abc}}}\nstages:\n  machine: {kind: \
                provision, engine: own, model: other}\n  server: {kind: serve, needs: [machine]}\n";
    fs::write(project.path().join("forms.yaml"), text).unwrap();
    let outcome = project.run(["plan", "forms.yaml", "--commands"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("sh --model"), "{}", outcome.stdout);
    // If the form stays the same, its keys are merged.
    assert!(
        outcome.stdout.contains("org/name at abc"),
        "{}",
        outcome.stdout
    );
    assert!(!outcome.stdout.contains("fetches"), "{}", outcome.stdout);
}

#[test]
fn a_mistake_in_an_override_is_reported_at_the_override_and_not_in_the_file_below_it() {
    let base = "experiment: base\nseed: 1\nengines:\n  mine: {extends: llama-cpp}\nstages:\n  \
                machine: {kind: provision, engine: mine, model: smollm2-135m-instruct}\n  \
                server:\n    kind: serve\n    needs: [machine]\n    settings: {threads: 2}\n";
    for (set, place) in [
        ("settings.thread: 2", "study.yaml:6:7"),
        ("settings.threads: 0", "study.yaml:6:25"),
        ("settings: {thread: 2}", "study.yaml:6:18"),
        ("settings.parallel: many", "study.yaml:6:26"),
    ] {
        let project = Project::new();
        let write = |name: &str, text: &str| fs::write(project.path().join(name), text).unwrap();
        write("base.yaml", base);
        write(
            "study.yaml",
            &format!(
                "extends: base.yaml\nexperiment: study\noverrides:\n  - where: {{stage: server}}\n    \
                 set:\n      {set}\n    reason: to try\n"
            ),
        );
        let message = project.run(["plan", "study.yaml"]).stderr;
        assert!(
            message.contains(place) && !message.contains("base.yaml"),
            "{set}: {message}"
        );
    }
}

#[test]
fn a_mistake_in_a_definition_is_reported_at_its_place_in_the_definition() {
    let project = Project::new();
    let text = "experiment: x\nseed: 1\nengines:\n  mine:\n    extends: llama-cpp\n    limits:\n      \
                slots: {path: /props, pointer: slots}\nworkloads:\n  short:\n    prompts: {words: \
                {length: 0}}\n    output: {tokens: 4}\nstages:\n  machine: {kind: provision, engine: mine, \
                model: smollm2-135m-instruct}\n  server: {kind: serve, needs: [machine]}\n  load: {kind: load, \
                needs: [server], workload: short, arrival: {closed-loop: {clients: 1}}, requests: 4}\n";
    fs::write(project.path().join("x.yaml"), text).unwrap();
    let message = project.run(["plan", "x.yaml"]).stderr;
    for part in [
        "x.yaml:7:38  (engines.mine.limits.slots.pointer)",
        "error: `length` must be at least 1, got 0\n  --> x.yaml:10:31  (workloads.short.prompts.words.length)",
    ] {
        assert!(message.contains(part), "{message}");
    }
}
