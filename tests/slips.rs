//! Slips of the pen in an experiment and on the command line: a missing bracket, another character, a word where a number
//! belongs, the flags of another tool, a URL that lacks a part. Each message names the place and a remedy that works.

use crate::mistakes::{planned, written};
use crate::support::Project;

#[test]
fn a_list_without_brackets_and_a_number_are_told_as_they_are_written() {
    let project = written();
    for (from, to, hint) in [
        (
            "axes:\n  clients: [1, 2, 4]",
            "axes: {clients: 1,2,4}",
            "`clients` has 3 values without brackets\n  --> spoilt.yaml:5:17\n5 | axes: {clients: 1,2,4}",
        ),
        (
            "axes:\n  clients: [1, 2, 4]",
            "axes: {clients: 1, 1.5e1, 1}",
            "hint: write the list as `clients: [1, 1.5e1, 1]`\n",
        ),
        (
            "needs: [server, ladder]}",
            "needs: server, ladder}",
            "hint: write the list as `needs: [server, ladder]`\n",
        ),
        (
            "{closed-loop: {clients: \"${clients}\"}}",
            "{constant: {rate: 1,5}}",
            "hint: write the list as `rate: [1, 5]`; the fraction is written `rate: 1.5`\n",
        ),
        (
            "{closed-loop: {clients: \"${clients}\"}}",
            "{closed-loop: {clients: 1,000}}",
            "; the number is written `clients: 1000`\n",
        ),
        (
            "requests: 16",
            "requests: 16.0",
            "expected an integer, found the number 16.0\n",
        ),
        (
            "requests: 16",
            "requests: 1.6e1",
            "found the number 1.6e1\n",
        ),
    ] {
        let told = planned(&project, from, to);
        assert!(told.contains(hint), "{to}: {told}");
        assert_eq!(told.matches("error: ").count(), 1, "{to}: {told}");
    }
}

#[test]
fn a_line_that_yaml_reads_as_text_is_named() {
    let project = written();
    for (from, to, hint) in [
        (
            "requests: 16",
            "requests = 16",
            "write `requests: …` on line 16: the `=` there is not a colon",
        ),
        (
            "requests: 16",
            "requests：16",
            "write `requests: …` on line 16: the `：` there is not a colon",
        ),
        (
            "requests: 16",
            "requests 16",
            "put a colon after the key: `requests: …` on line 16",
        ),
        (
            "requests: 16",
            "requests:16",
            "put a space after the colon: `requests: …` on line 16",
        ),
        (
            "  ladder:\n",
            "ladder:\n",
            "line 10 is indented by 0, and line 17 by 2 is between it and the lines below it",
        ),
        (
            "experiment: mine",
            "experiment: mine\ntitle: 'it's mine'",
            "hint: the `'` before it ends the text: within the text write `''`",
        ),
        (
            "experiment: mine",
            "experiment: mine\ntitle: \"a \"test\" here\"",
            "hint: the `\"` before it ends the text",
        ),
    ] {
        let told = planned(&project, from, to);
        assert!(told.contains(hint), "{to}: {told}");
        assert!(told.contains("error: this is not YAML"), "{to}: {told}");
    }
}

#[test]
fn a_word_where_a_number_belongs_is_met_with_the_number() {
    let project = written();
    let more = |key: &str| format!("requests: 16\n    {key}");
    for (from, to, hint) in [
        (
            "{blocks: 3}",
            "{blocks: three}".to_owned(),
            "hint: write 3\n",
        ),
        (
            "requests: 16",
            "requests: Sixteen".to_owned(),
            "hint: write 16\n",
        ),
        ("requests: 16", more("generators: two"), "hint: write 2\n"),
        (
            "requests: 16",
            more("generators: auto"),
            "hint: it is a number: begin with 1, and raise it",
        ),
        (
            "requests: 16",
            more("generators: gpu-box"),
            "for other hosts, write `{hosts: [NAME]}`",
        ),
        (
            "requests: 16",
            more("vus: 4"),
            "hint: write `arrival: {closed-loop: {clients: N}}`\n",
        ),
        (
            "requests: 16",
            more("iterations: 4"),
            "hint: write `requests`\n",
        ),
        (
            "requests: 16",
            more("run-time: 4"),
            "hint: write `duration`\n",
        ),
        (
            "requests: 16",
            more("random-input-len: 4"),
            "hint: it is a key of the workload: ",
        ),
        (
            "engine: llama-cpp, model: smollm2-135m-instruct",
            "engine: smollm2-135m-instruct, model: llama-cpp".to_owned(),
            "hint: `llama-cpp` is one of the engines: are the two exchanged?\n",
        ),
        (
            "engine: llama-cpp,",
            "engine: vllm==0.9.1,".to_owned(),
            "hint: write `vllm`: its version is what the machine has",
        ),
    ] {
        let told = planned(&project, from, &to);
        assert!(told.contains(hint), "{to}: {told}");
        assert!(told.contains("spoilt.yaml:"), "{to}: {told}");
    }
    let told = project
        .run(["plan", "mine.yaml", "--set", "clients=3"])
        .stderr;
    assert!(
        told.contains("`clients` is an axis") && told.contains("{NAME: {axes: {clients: [3]}}}"),
        "{told}"
    );
}

#[test]
fn a_url_that_lacks_a_part_is_met_with_the_whole_url() {
    let project = Project::new();
    for (url, hint) in [
        ("http:/127.0.0.1:9", "hint: write http://127.0.0.1:9\n"),
        ("http//127.0.0.1:9", "hint: write http://127.0.0.1:9\n"),
        ("https:127.0.0.1:9/x", "hint: write https://127.0.0.1:9/x\n"),
        ("http:///127.0.0.1:9", "hint: write http://127.0.0.1:9\n"),
        ("http://::1:9", "hint: write http://[::1]:9\n"),
        ("http://fe80::1/v1", "hint: write http://[fe80::1]\n"),
        (
            "https://fe80::1:80000",
            "hint: write https://[ADDRESS]:PORT\n",
        ),
        ("127.0.0.1:9", "hint: write http://127.0.0.1:9\n"),
        ("ws://127.0.0.1:9", "hint: write it as http://HOST:PORT"),
        (
            "http://[::1]",
            "the URL names no port, so it means port 80: ",
        ),
    ] {
        let told = project.run(["load", url, "--requests", "2"]);
        assert_ne!(told.code, Some(0), "{url}");
        assert!(told.stderr.contains(hint), "{url}: {}", told.stderr);
    }
    // A host may be called like a scheme.
    let told = project
        .run(["load", "http://http:9", "--requests", "2"])
        .stderr;
    assert!(!told.contains("must begin"), "{told}");
}
