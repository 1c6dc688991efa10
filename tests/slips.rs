//! Slips of the pen in an experiment and on the command line: a missing bracket, another character, a word where a number
//! belongs, the flags of another tool, a URL that lacks a part. Each message names the place and a remedy that works.

use crate::mistakes::{MODELS, answering, hinted, written};
use crate::support::Project;

#[test]
fn remedies_quote_a_list_without_brackets_and_a_number_as_they_are_written() {
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
        let message = hinted(&project, from, to, hint);
        assert_eq!(message.matches("error: ").count(), 1, "{to}: {message}");
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
        let message = hinted(&project, from, to, hint);
        assert!(
            message.contains("error: this is not YAML"),
            "{to}: {message}"
        );
    }
}

#[test]
fn a_word_where_a_number_belongs_gets_the_number() {
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
            "hint: `llama-cpp` is one of the engines: did you exchange the two?\n",
        ),
        (
            "engine: llama-cpp,",
            "engine: vllm==0.9.1,".to_owned(),
            "hint: write `vllm`: its version is what the machine has",
        ),
    ] {
        let message = hinted(&project, from, &to, hint);
        assert!(message.contains("spoilt.yaml:"), "{to}: {message}");
    }
    let message = project
        .run(["plan", "mine.yaml", "--set", "clients=3"])
        .stderr;
    assert!(
        message.contains("`clients` is an axis")
            && message.contains("{NAME: {axes: {clients: [3]}}}"),
        "{message}"
    );
}

#[test]
fn a_url_that_lacks_a_part_gets_the_whole_url() {
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
        let outcome = project.run(["load", url, "--requests", "2"]);
        assert_ne!(outcome.code, Some(0), "{url}");
        assert!(outcome.stderr.contains(hint), "{url}: {}", outcome.stderr);
    }
    // A host may be called like a scheme.
    let message = project
        .run(["load", "http://http:9", "--requests", "2"])
        .stderr;
    assert!(!message.contains("must begin"), "{message}");
}

#[test]
fn a_key_or_value_of_another_place_gets_the_right_one() {
    let project = written();
    let settings = |setting: &str| {
        format!("server: {{kind: serve, needs: [machine], settings: {{{setting}}}}}")
    };
    let server = "server: {kind: serve, needs: [machine]}";
    let gates = |gate: &str| format!("ladder], gates: [{gate}]}}    #");
    let tables = |table: &str| format!("cells: {{operator: cell-summary}}\n      q: {table}");
    let more = |key: &str| format!("requests: 16\n    {key}");
    for (from, to, hint) in [
        (
            "workload: short-decode",
            "workload: #short-decode".to_owned(),
            "hint: `#` begins a comment: write `short-decode`, or `\"#short-decode\"`",
        ),
        (
            "workload: short-decode",
            "workload:   # to do".to_owned(),
            "hint: give a value, or remove the key\n",
        ),
        (
            server,
            settings("max-model-len: 4096"),
            "hint: write `context`: context of all slots together",
        ),
        (
            server,
            settings("max_num_seqs: 4"),
            "hint: write `parallel`: number of slots, each of which serves",
        ),
        (
            server,
            settings("enable-prefix-caching: true"),
            "hint: write `prompt-cache`: ",
        ),
        (
            server,
            settings("tensor-parallel-size: 2"),
            "hint: the settings are `batch`, ",
        ),
        (
            "ladder]}    #",
            gates("{gate: sql, name: few, sql: select 1}"),
            "hint: write `query`\n",
        ),
        (
            "ladder]}    #",
            gates("{row-status: {}}"),
            "hint: write `{gate: row-status}`\n",
        ),
        (
            "ladder]}    #",
            gates("{gate: sql, name: few, query: selct 1}"),
            "a query must begin with `select`, not `selct`; did you mean `select`?",
        ),
        (
            "cells: {operator: cell-summary}",
            tables("{operator: sql, sql: select * from cells}"),
            "hint: write `query`\n",
        ),
        (
            "{blocks: 3}",
            "{repetitions: 3}".to_owned(),
            "hint: write `blocks`\n",
        ),
        (
            "requests: 16",
            more("api: openai"),
            "hint: did you mean `openai-completions`, ",
        ),
        (
            "requests: 16",
            more("api: chat"),
            "hint: did you mean `openai-chat` or `ollama-chat`?\n",
        ),
        (
            "requests: 16",
            more("warmup: 10%"),
            "hint: write a number: shares have no meaning here\n",
        ),
        (
            "requests: 16",
            more("warmup: yes"),
            "hint: write a number; `0` is none\n",
        ),
        (
            "requests: 16",
            more("headers: \"X-Route: a\""),
            "hint: write a mapping without quotes: `{X-Route: …}`\n",
        ),
        (
            "requests: 16",
            "requests: {requests}".to_owned(),
            "hint: a placeholder is written `\"${requests}\"`\n",
        ),
        (
            "requests: 16",
            "requests: ${NUM_REQUESTS}".to_owned(),
            "hint: environment variables are not read: declare `parameters: {NUM_REQUESTS: …}`",
        ),
    ] {
        let message = hinted(&project, from, &to, hint);
        assert!(message.contains("spoilt.yaml:"), "{to}: {message}");
        assert_eq!(message.matches("error: ").count(), 1, "{to}: {message}");
    }
    for (to, hint) in [
        ("axes: clients", "`axes: {clients: [1, 2, 4]}`"),
        ("axes: [clients]", "`axes: {clients: [1, 2, 4]}`"),
        (
            "axes: \"clients: [1, 2]\"",
            "hint: remove the quotes, and write `axes: {clients: [1, 2]}`\n",
        ),
    ] {
        hinted(&project, "axes:\n  clients: [1, 2, 4]", to, hint);
    }
    // A line of the file that has a key instead of its name is not repeated.
    std::fs::write(
        project.path().join("keyed.yaml"),
        std::fs::read_to_string(project.path().join("mine.yaml"))
            .unwrap()
            .replace(
                "requests: 16",
                "requests: 16\n    api-key-env: sk-very-secret",
            ),
    )
    .unwrap();
    let outcome = project.run(["plan", "keyed.yaml"]);
    assert_eq!(outcome.code, Some(4), "{}", outcome.stderr);
    assert!(
        !outcome.stderr.contains("very-secret"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn the_words_of_workflow_tools_get_ours() {
    let project = written();
    for (words, hint) in [
        (
            &["run", "-n", "mine.yaml"][..],
            "benchtrail plan EXPERIMENT",
        ),
        (
            &["run", "--force", "mine.yaml"],
            "`--fresh STAGE` measures again",
        ),
        (
            &["run", "--cores", "4", "mine.yaml"],
            "cells that measure run one at a time",
        ),
        (&["repro"], "'run'"),
        (&["dag"], "'plan'"),
        (&["load", "http://127.0.0.1:9", "-H", "X: y"], "'--header'"),
        (
            &["load", "http://127.0.0.1:9", "--requests", "2k"],
            "write it out: 2000",
        ),
        (
            &["load", "http://127.0.0.1:9", "--requests", "12,500"],
            "write it out: 12500",
        ),
        (
            &["run", "http://127.0.0.1:9"],
            "hint: for a server, use `benchtrail load http://127.0.0.1:9`",
        ),
        (
            &["sql", "select 1"],
            "hint: name the experiment before the query: `benchtrail sql EXPERIMENT",
        ),
        (
            &["load", "http://127.0.0.1:9", "--dataset", "mine.yml"],
            "hint: did you mean `mine.yaml`?\n",
        ),
    ] {
        let outcome = project.run(words);
        assert_eq!(outcome.code, Some(2), "{words:?}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains(hint),
            "{words:?}: {}",
            outcome.stderr
        );
    }
}

#[test]
fn a_bound_or_a_number_in_another_form_gets_ours() {
    let project = Project::new();
    let url = "http://127.0.0.1:9";
    for (words, hint) in [
        (
            &["--slo", "ttft_p99:200"][..],
            "write ttft:200; with --search, `--attainment 0.99`",
        ),
        (
            &["--slo", "p95 ttft=200"],
            "write ttft:200; with --search, `--attainment 0.95`",
        ),
        (&["--slo", "itl:50"], "write tpot:50"),
        (&["--slo", "ttft"], "write ttft:200ms"),
        (&["--slo", "fast"], "such as ttft:200ms"),
        (
            &["--rate", "5rps"],
            "write the number of requests per second alone: 5",
        ),
        (
            &["--rate", "300/min"],
            "write the number of requests per second alone: 5",
        ),
        (
            &["--search", "auto", "--slo", "ttft:1s"],
            "expected a number",
        ),
        (
            &["--search", "8", "--slo", "ttft:1s", "--attainment", "95"],
            "write 0.95 or 95%",
        ),
        (&["--warmup", "10%"], "expected a whole number from 0"),
        (&["--seed", "abc"], "expected a whole number from 0"),
        (&["--header", "X-Route=secret-blue"], "write `X-Route: …`"),
        (&["--api", "chat/completions"], "'openai-chat'"),
    ] {
        let outcome = project.run([&["load", url], words].concat());
        assert_eq!(outcome.code, Some(2), "{words:?}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains(hint),
            "{words:?}: {}",
            outcome.stderr
        );
    }
    // The same bound in the spellings of other tools: the server is the first that is missing.
    for bound in [
        "ttft<200",
        "ttft <= 200ms",
        "time_to_first_token:200",
        "e2el:5s",
        "request_latency:200",
    ] {
        let outcome = project.run(["load", url, "--slo", bound]);
        assert!(
            outcome.stderr.contains("127.0.0.1:9"),
            "{bound}: {}",
            outcome.stderr
        );
    }
    let outcome = project.run(["diff", "a.lock", "b.lock", "--threshold", "0.05"]);
    let note = "note: --threshold is a number of percent, so 0.05 means 0.05 %";
    assert!(outcome.stderr.starts_with(note), "{}", outcome.stderr);
    for (words, hint) in [
        (
            &["diff", "a.lock", "b.lock", "--threshold", "many"][..],
            "expected a number of percent",
        ),
        (
            &["diff", "a.lock", "b.lock", "--threshold", "-3"],
            "such as `--threshold 5`",
        ),
        (
            &["diff", "a.lock", "b.lock", "--alpha", "5"],
            "write 0.05 or 5%",
        ),
        (
            &["diff", "a.lock", "--gate"],
            "`benchtrail diff OLD NEW --gate`",
        ),
        (
            &["load", "--requests", "4"],
            "give the server's URL, such as `http://127.0.0.1:8000`",
        ),
        (
            &["power", "a.yaml", "--studies", "5"],
            "expected a whole number from 20 to 1000000",
        ),
    ] {
        let outcome = project.run(words);
        assert_eq!(outcome.code, Some(2), "{words:?}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains(hint),
            "{words:?}: {}",
            outcome.stderr
        );
    }
}

#[test]
fn an_anchor_of_a_code_host_is_a_line_of_a_report() {
    let project = Project::new();
    let report =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/first-report/report.md");
    let report = report.display();
    let message = |place: String| project.run(["why", &place]).ok().stdout;
    let line = message(format!("{report}:24"));
    for place in ["#L24", "#L24-L30", ":24-30"] {
        assert_eq!(message(format!("{report}{place}")), line, "{place}");
    }
}

/// A number alone for a mapping that needs one key, and a range in the spelling of another language.
#[test]
fn a_value_without_its_key_gets_the_mapping() {
    let project = written();
    let workload = |text: &str| format!("workload: {{{text}, output: {{tokens: 8}}}}");
    for (from, to, hint) in [
        (
            "{closed-loop: {clients: \"${clients}\"}}",
            "{closed-loop: 4}".to_owned(),
            "hint: write `{clients: 4}`\n",
        ),
        (
            "workload: short-decode",
            "workload: {prompts: {words: {length: 5}}, output: 8}".to_owned(),
            "hint: write `{tokens: 8}`\n",
        ),
        (
            "workload: short-decode",
            workload("prompts: {words: {length: 5-9}}"),
            "hint: write `{from: 5, to: 9}`\n",
        ),
        (
            "workload: short-decode",
            workload("prompts: {words: {length: [5, 9]}}"),
            "hint: write `{from: 5, to: 9}`\n",
        ),
        (
            "requests: 16",
            "requests: 16\n    temperature: 0".to_owned(),
            "hint: it is a key of the workload: `workload: {sampling: {temperature: T}, …}`\n",
        ),
    ] {
        let message = hinted(&project, from, &to, hint);
        assert!(!message.contains("expected ,"), "{to}: {message}");
    }
}

#[test]
fn a_model_that_the_server_does_not_list_is_reported_although_it_answers() {
    let project = Project::new();
    let answer = "HTTP/1.1 500 Oh\r\ncontent-length: 2\r\nconnection: close\r\n\r\noh";
    let message = |model: &str| {
        let url = answering(MODELS, answer);
        project
            .run(["load", &url, "--model", model, "--requests", "2"])
            .stderr
    };
    let warning = "warning: the server does not list the model `other`; it lists one\n";
    assert!(message("other").contains(warning), "{}", message("other"));
    assert!(
        !message("one").contains("does not list"),
        "{}",
        message("one")
    );
}

#[test]
fn a_store_is_not_created_under_the_name_of_a_study() {
    let project = Project::new();
    let outcome = project.run(["push", "study.yaml"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(
        outcome
            .stderr
            .contains("`benchtrail push STORE study.yaml`"),
        "{}",
        outcome.stderr
    );
    assert!(!project.path().join("study.yaml").exists());
}

#[test]
fn a_kind_that_is_a_setting_of_one_kind_leads_to_it() {
    let project = written();
    for (kind, setting) in [("import", "load"), ("simulate", "load")] {
        let hint = format!(
            "`{kind}` is a setting of a `{setting}` stage: write `kind: {setting}`, and `{kind}: …` below it\n"
        );
        hinted(&project, "kind: report", &format!("kind: {kind}"), &hint);
    }
}
