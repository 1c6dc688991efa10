//! Traps of YAML and habits from other tools: each message says what to write instead, and each mistake is reported once.

use std::fs;

use crate::mistakes::{planned, written};

#[test]
fn a_trap_is_reported_with_what_to_write_instead() {
    let project = written();
    let workload = "workload: short-decode";
    for (from, to, expected) in [
        // An anchor that nothing defines, within braces.
        (
            "needs: [machine]}",
            "needs: *mach}",
            "nothing above is marked `&mach`",
        ),
        // A template's placeholder.
        (
            "requests: 16",
            "requests: {{ requests }}",
            "hint: a placeholder is written `\"${requests}\"`\n",
        ),
        // An octal number, or a number with a zero that would be lost.
        (
            "requests: 16",
            "requests: 010",
            "hint: write 10, or \"010\" if it is text",
        ),
        ("seed: 7", "seed: -007", "hint: write -7, or"),
        ("[1, 2, 4]", "[1, 2, 04]", "`04` begins with a zero"),
        // Milliseconds of another tool.
        (
            "requests: 16",
            "requests: 16\n    timeout: 30000",
            "hint: add the unit: `30000 ms` or `30000 s`\n",
        ),
        (
            "requests: 16",
            "requests: 16\n    timeout: 30",
            "hint: add the unit: `30 s`\n",
        ),
        // A list without dashes, and a label without a value.
        (
            "requests: 16",
            "requests: 16\n    exclude: {clients: 4}",
            "hint: write a list: `[{where: {AXIS: LABEL}, reason: TEXT}]`",
        ),
        ("[1, 2, 4]", "[1, ~, 4]", "expected a value, found nothing"),
        // A list within a list: the stage does need a server.
        (
            "needs: [server]\n",
            "needs: [[server]]\n",
            "hint: write \"server\" without brackets\n",
        ),
        // Data sets of other tools, and weights that are a file.
        (
            workload,
            "workload: random",
            "`workload: {prompts: {words: {length: 200}}, output: {tokens: 128}}`",
        ),
        (
            workload,
            "workload: sharegpt",
            "`workload: {prompts: {dataset: {file: FILE}}, output: {tokens: 128}}`",
        ),
        (
            "model: smollm2-135m-instruct",
            "model: ./m.gguf",
            "weights: {local: {path: ./m.gguf, sha256: \"…\"}}",
        ),
    ] {
        let message = planned(&project, from, to);
        assert!(message.contains(expected), "{to}: {message}");
        assert_eq!(message.matches("error: ").count(), 1, "{to}: {message}");
    }
}

#[test]
fn what_a_remedy_proposes_is_accepted() {
    let project = written();
    let study = fs::read_to_string(project.path().join("mine.yaml")).expect("it is written");
    for (from, to) in [
        (
            "workload: short-decode",
            "workload: {prompts: {words: {length: 200}}, output: {tokens: 128}}",
        ),
        ("requests: 16", "requests: 16\n    timeout: 30000 ms"),
        ("seed: 7", "seed: 0"),
        ("[1, 2, 4]", "[-0.5, 0.25, \"04\"]"),
    ] {
        let text = study
            .replacen(from, to, 1)
            .replace("clients: \"${clients}\"", "clients: 2");
        fs::write(project.path().join("better.yaml"), text).expect("a file");
        project.run(["plan", "better.yaml"]).ok();
    }
}

#[test]
fn settings_of_a_stage_are_its_own_keys() {
    let message = planned(&written(), "requests: 16", "with: {requests: 16}");
    assert!(
        message.contains("hint: it is not needed: write its entries as keys of the stage itself\n"),
        "{message}"
    );
}
