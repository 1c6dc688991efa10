//! Files that a user has already: prompts of a workload, and results of another tool. Planning reads them, and a mistake names
//! the file.

use crate::mistakes::{planned, written};
use crate::support::Project;

/// The workload of `init`, replaced by one with this source of prompts.
fn prompts(source: &str) -> String {
    format!("workload: {{prompts: {{{source}}}, output: {{tokens: 8}}}}")
}

#[test]
fn planning_knows_what_the_files_of_a_workload_hold() {
    let project = written();
    let file = |name: &str, bytes: &[u8]| std::fs::write(project.path().join(name), bytes).unwrap();
    file(
        "talks.jsonl",
        b"{\"prompt\": \"a\"}\n{\"prompt\": \"b\"}\n{\"prompt\": \"c\"}\n",
    );
    file(
        "one.json",
        b"[{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"gpt\", \"value\": \"b\"}, \
          {\"from\": \"human\", \"value\": \"c\"}]}]",
    );
    file("empty.jsonl", b"\n");
    file("other.jsonl", b"{\"text\": \"a\"}\n");
    file("torn.jsonl", b"{\"prompt\": \"a\"}\n{\"prompt\" \"b\"}\n");
    file("packed.jsonl.gz", b"\x1f\x8b\x08");
    file("latin.csv", b"prompt\ncaf\xe9\n");
    file("times.csv", b"timestamp_s\n1\n2\n");
    file("trace.csv", b"timestamp_s,input_tokens\n1,2\n2,3\n");
    for (source, reason, hint, place) in [
        (
            "dataset: {file: talks.jsonl}",
            "the dataset holds 3 conversations, but the cell needs 16\n",
            "hint: write `requests: 3` or less, or allow repeats with `when-short: repeat` in the workload's `dataset`\n",
            "16:15",
        ),
        (
            "dataset: {file: one.json}",
            "the dataset holds 1 conversation, but the cell needs 16\n",
            "hint: write `requests: 1` or less",
            "16:15",
        ),
        (
            "pack: {file: talks.jsonl}",
            "the pack holds 3 prompts, but the cell needs 16\n",
            "`when-short: repeat` in the workload's `pack`\n",
            "16:15",
        ),
        (
            "trace: {file: trace.csv}",
            "the trace holds 2 requests, but the cell needs 16\n",
            "hint: write `requests: 2` or less\n",
            "16:15",
        ),
        (
            "trace: {file: times.csv}",
            "request 0 of the trace has no prompt length",
            "hint: correct the trace",
            "14:40",
        ),
        (
            "mixture: [{name: a, weight: 1, prompts: {pack: {file: talks.jsonl}}}]",
            "the pack holds 3 prompts, but the cell needs 16\n",
            "when-short: repeat",
            "16:15",
        ),
        (
            "pack: {file: talks.json}",
            "prompt pack talks.json: no such file\n",
            "hint: did you mean `talks.jsonl`?\n",
            "14:39",
        ),
        (
            "pack: {file: data/talks.jsonl}",
            "no such file\n",
            "hint: the folder data does not exist either\n",
            "14:39",
        ),
        (
            "pack: {file: 'data\\talks.jsonl'}",
            "no such file\n",
            "hint: separate folders with `/`: `data/talks.jsonl`\n",
            "14:39",
        ),
        (
            "dataset: {file: \"https://example.org/a.json\"}",
            "no such file\n",
            "hint: download the file, and name it\n",
            "14:42",
        ),
        (
            "dataset: {file: owner/name}",
            "no such file\n",
            "hint: name a file: nothing is downloaded by its name\n",
            "14:42",
        ),
        (
            "pack: {file: $DATA/talks.jsonl}",
            "no such file\n",
            "hint: variables of a shell are not replaced",
            "14:39",
        ),
        (
            "pack: {file: experiments}",
            "prompt pack experiments: this is a folder, not a file\n",
            "hint: name one of its files: `experiments/",
            "14:39",
        ),
        (
            "pack: {file: empty.jsonl}",
            "prompt pack empty.jsonl holds no prompts\n",
            "the text of each entry is named `prompt`",
            "14:39",
        ),
        (
            "dataset: {file: other.jsonl}",
            "line 1: it has `text`, but no value for `conversations`",
            "each entry has `conversations`, `messages` or `prompt`",
            "14:42",
        ),
        (
            "pack: {file: torn.jsonl}",
            "torn.jsonl, line 2: column 11 is not JSON",
            "hint: a pack is JSON Lines",
            "14:39",
        ),
        (
            "dataset: {file: packed.jsonl.gz}",
            "it is compressed with gzip; unpack it (`gunzip --keep packed.jsonl.gz`)",
            "hint: a dataset is JSON or JSON Lines",
            "14:42",
        ),
        (
            "pack: {file: latin.csv}",
            "prompt pack latin.csv is not UTF-8; save it as UTF-8\n",
            "hint: a pack is",
            "14:39",
        ),
        (
            "dataset: talks.jsonl",
            "expected a mapping, found the text `talks.jsonl`",
            "hint: write `{file: talks.jsonl}`\n",
            "14:35",
        ),
        (
            "dataset: {path: talks.jsonl}",
            "unknown key `path`",
            "hint: write `file`\n",
            "14:36",
        ),
    ] {
        let message = planned(&project, "workload: short-decode", &prompts(source));
        for part in [reason, hint, &format!("spoilt.yaml:{place}")] {
            assert!(message.contains(part), "{source}: {part} in {message}");
        }
        assert_eq!(message.matches("error: ").count(), 1, "{source}: {message}");
    }
    // Turns count if the conversations are replayed.
    let sessions =
        "workload: {prompts: {dataset: {file: one.json}}, output: {tokens: 8}, sessions: {}}";
    let message = planned(&project, "workload: short-decode", sessions);
    assert!(
        message.contains("for at most 2 turns, but the cell needs 16"),
        "{message}"
    );
    let message = planned(
        &project,
        "{closed-loop: {clients: \"${clients}\"}}",
        "{trace: {file: trace.csv}}",
    );
    assert!(
        message.contains("the trace of `arrival` holds 2 requests, but 16 are needed"),
        "{message}"
    );
    let message = planned(
        &project,
        "workload: short-decode",
        "workload: {prompts: {words: {length: 5}}, output: {tokens: 8}, tokenizer: {file: trace.csv}}",
    );
    assert!(
        message.contains("tokenizer trace.csv: expected")
            && message.contains("name the `tokenizer.json`"),
        "{message}"
    );
    // With enough prompts, the same studies are sound.
    let study = std::fs::read_to_string(project.path().join("mine.yaml")).unwrap();
    for (requests, source) in [
        (
            "requests: 16",
            "dataset: {file: talks.jsonl, when-short: repeat}",
        ),
        (
            "requests: 4",
            "pack: {file: talks.jsonl, when-short: repeat}",
        ),
    ] {
        let sound = study
            .replace("workload: short-decode", &prompts(source))
            .replace("requests: 16", requests);
        std::fs::write(project.path().join("sound.yaml"), sound).unwrap();
        project.run(["plan", "sound.yaml"]).ok();
    }
}

/// Users of other tools have their results as files, in a folder.
#[test]
fn a_folder_of_result_files_becomes_a_study_with_a_report() {
    let project = Project::new();
    let at = |name: &str| project.path().join(name);
    std::fs::write(
        at("experiments/imported/aggregates.json"),
        b"{\"model_id\": \"m\", \"tokenizer_id\": \"m\", \"num_prompts\": 4, \"duration\": 2.0, \"completed\": 4, \
          \"request_rate\": \"inf\", \"total_input_tokens\": 8, \"total_output_tokens\": 8, \"request_throughput\": 2.0, \
          \"output_throughput\": 4.0}",
    )
    .unwrap();
    std::fs::write(at("own.csv"), b"start,ttft\n1,2\n").unwrap();
    let from = |files: &[&str]| {
        project.run([&["init", "last-month", "--force", "--from-results"], files].concat())
    };
    let written = from(&["experiments/imported"]).ok();
    assert!(
        written.stderr.contains(
            "left out: experiments/imported/aggregates.json: it holds only aggregates of vLLM"
        ),
        "{}",
        written.stderr
    );
    let ran = project.run(["run", "last-month.yaml"]).ok();
    assert!(ran.stdout.contains("aiperf-c1"), "{}", ran.stdout);
    project.run(["audit", "reports/last-month/report.md"]).ok();

    let wrong = from(&["own.csv"]);
    assert_eq!(wrong.code, Some(2));
    assert!(
        wrong.stderr.contains("own.csv: it is a table")
            && wrong.stderr.contains("tool: csv, file: FILE, columns: {…}"),
        "{}",
        wrong.stderr
    );
    let few = from(&["experiments/imported/aggregates.json"]);
    assert!(
        few.stderr.contains("hint: measure again with"),
        "{}",
        few.stderr
    );
    let none = from(&["experiments/engines"]);
    assert_ne!(none.code, Some(0));
}

#[test]
fn result_files_with_any_names_become_a_study_that_runs() {
    let project = Project::new();
    let folder = project.path().join("results");
    std::fs::create_dir(&folder).unwrap();
    let original = project.path().join("experiments/imported/vllm-c1.json");
    let result = std::fs::read_to_string(original).unwrap();
    let names = [
        "rate=4,c=8",
        "rate=4|c=8",
        "a\"b",
        "$x ${y}",
        "{{ n }}",
        " lead",
        ": #",
        "- dash",
        "null",
        "*",
        "a\nevil: x",
        "\u{1b}[31m",
    ];
    for (n, name) in names.iter().enumerate() {
        // The same result twice would be the same cell twice.
        let own = result.replacen('{', &format!("{{\"note\": {n}, "), 1);
        std::fs::write(folder.join(format!("{name}.json")), own).unwrap();
    }
    let written = project
        .run(["init", "any", "--from-results", "results"])
        .ok();
    let left_out = "an experiment cannot name it";
    assert_eq!(
        written.stderr.matches(left_out).count(),
        3,
        "{}",
        written.stderr
    );
    let ran = project.run(["run", "any.yaml"]).ok();
    assert!(ran.stdout.contains("rate-4-c-8-2"), "{}", ran.stdout);
}

#[test]
fn a_result_file_is_named_by_every_command_that_reads_a_study() {
    let project = Project::new();
    std::fs::write(project.path().join("own.csv"), b"start,ttft\n1,2\n").unwrap();
    for (file, what) in [
        ("experiments/imported/vllm-c1.json", "a result file of vLLM"),
        (
            "experiments/imported/guidellm-c4.json",
            "a result file of GuideLLM",
        ),
        ("own.csv", "a table in CSV"),
    ] {
        for command in [
            &["run", file][..],
            &["plan", file],
            &["report", file],
            &["sql", file],
            &["diff", file, file],
        ] {
            let outcome = project.run(command);
            assert_eq!(outcome.code, Some(2), "{command:?}: {}", outcome.stderr);
            assert!(
                outcome.stderr.contains(&format!("{file} is {what}, not ")),
                "{command:?}: {}",
                outcome.stderr
            );
            assert!(
                outcome
                    .stderr
                    .contains(&format!("`benchtrail init NAME --from-results {file}`")),
                "{command:?}: {}",
                outcome.stderr
            );
            assert_eq!(
                outcome.stderr.matches("error: ").count(),
                1,
                "{command:?}: {}",
                outcome.stderr
            );
        }
    }
}
