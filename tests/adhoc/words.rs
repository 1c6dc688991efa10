//! What `load` says about wrong options.

use std::fs;

use super::{command, outcome, run};

#[test]
fn what_planning_finds_is_said_in_options_and_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trace = folder.path().join("trace.csv");
    fs::write(&trace, "timestamp_ms,output_tokens\n0,3\n40,2\n").expect("a file");
    let trace = trace.to_str().expect("UTF-8");
    let cases: [(&[&str], &str); 8] = [
        (
            &["--trace", trace],
            "error: request 0 of the trace has no prompt length: `input_tokens`, `input_length` or `input_words`\n\
             hint: correct the trace, or add --prompt-words for prompts of one length\n",
        ),
        (
            &["--trace", trace, "--prompt-words", "4", "--requests", "3"],
            "error: the trace holds 2 requests, but 3 are needed\nhint: give `--requests 2` or less, or leave it out\n",
        ),
        (
            &["--rate", "5", "--generators", "2", "--max-concurrency", "4"],
            "error: several generators cannot keep one limit of --max-concurrency: each knows only its own requests\n\
             hint: remove --max-concurrency or --generators, or use a closed loop, whose clients are divided\n",
        ),
        (
            &["--concurrency", "8", "--requests", "4"],
            "error: 4 requests are fewer than the 8 clients, so 8 clients never send at once\n\
             hint: measure 8 requests or more\n",
        ),
        (
            &["--search", "5", "--slo", "ttft=100", "--burst"],
            "error: `burst` arrivals have no level to search over\nhint: use --concurrency, --rate or --constant\n",
        ),
        (
            &["--workload", "random"],
            "error: no workload is named `random`\nhint: give the lengths: `--prompt-words 200 --output-tokens 128`\n",
        ),
        (
            &["--timeout", "0s"],
            "error: the limit --timeout is 0 s, so every request would fail\n\
             hint: write a longer time, such as `30 s`; for practically no limit, write `24 h`\n",
        ),
        (
            &["--api", "rerank"],
            "error: the workload has nothing to rank: its prompts are queries\n\
             hint: write `workloads/NAME.yaml` with `prompts` and `documents: {count: 10, length: 60}`, and add \
             --workload NAME\n",
        ),
    ];
    // Nothing listens there: planning comes first.
    for (arguments, said) in cases {
        let wrong = run("http://127.0.0.1:9", arguments);
        assert_eq!((wrong.code, wrong.stderr.as_str()), (Some(2), said));
    }
}

#[test]
fn a_mistake_in_a_workload_of_the_user_keeps_its_place() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(folder.path().join("workloads")).expect("a folder");
    let workload = folder.path().join("workloads/broken.yaml");
    fs::write(
        &workload,
        "prompts: {wrods: {length: 5}}\noutput: {tokens: 4}\n",
    )
    .expect("a file");
    let mut load = command("http://127.0.0.1:9", &["--workload", "broken"]);
    let wrong = outcome(load.current_dir(folder.path()));
    assert_eq!(wrong.code, Some(2));
    let place = "  --> workloads/broken.yaml:1:11  (workloads.broken.prompts)\n";
    assert!(
        wrong.stderr.contains(place) && wrong.stderr.contains("hint: did you mean `words`?"),
        "{}",
        wrong.stderr
    );
}
