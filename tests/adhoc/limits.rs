//! The limits of a run's figures: a client that is the bottleneck, a search, and `calibrate`.

use super::*;

/// Lets a process run for 20 out of every 100 ms, until it ends.
fn throttle(child: &mut std::process::Child) {
    let pid = rustix::process::Pid::from_child(child);
    let signal = |signal| {
        // The process may have just ended; it is not reaped until `try_wait` reports it.
        let _ended = rustix::process::kill_process(pid, signal);
    };
    while child.try_wait().expect("its state is known").is_none() {
        signal(rustix::process::Signal::STOP);
        std::thread::sleep(Duration::from_millis(80));
        signal(rustix::process::Signal::CONT);
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_client_throttled_to_a_fifth_says_that_it_was_the_bottleneck() {
    let behaviour = Behaviour {
        ttft: Duration::from_millis(20),
        gap: Duration::from_millis(5),
        ..Behaviour::default()
    };
    let server = server(behaviour);
    for attempt in 0..3 {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().to_str().expect("UTF-8");
        let more = [
            "--concurrency",
            "4",
            "--requests",
            "32",
            "--output-tokens",
            "64",
            "--out",
            out,
        ];
        let mut child = command(&server.url(), &more)
            .args(["--prompt-words", "8", "--quiet"])
            .stdout(Stdio::null())
            .spawn()
            .expect("the binary starts");
        throttle(&mut child);
        let cell = table(folder.path(), "cell");
        assert_eq!(
            cell.text("client_verdict").unwrap(),
            [Some("client_bound")],
            "attempt {attempt}"
        );
        // The process repeatedly stood still for 80 ms. Its stamps may be that late, and it reports this.
        assert!(cell.float("stamp_error_bound").unwrap()[0].unwrap() > 50.0);
    }
}

#[test]
fn calibrating_prints_errors_and_what_they_cover() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().to_str().expect("UTF-8");
    let calibrate = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_benchtrail"));
        let grid = [
            "calibrate",
            "--concurrency",
            "1,4",
            "--gap",
            "1 ms",
            "--duration",
            "200 ms",
        ];
        outcome(
            command
                .args(grid)
                .args(more)
                .stdin(Stdio::null())
                .current_dir(std::env::temp_dir()),
        )
    };
    let shown = calibrate(&["--bound", "100 s,100 s", "--out", out])
        .ok()
        .stdout;
    for part in [
        "load",
        "TTFT bias",
        "1 client",
        "4 clients",
        "The bound holds up to ",
        "docs/load-accuracy.md",
    ] {
        assert!(shown.contains(part), "{part}:\n{shown}");
    }
    assert_eq!(table(folder.path(), "calibration").rows(), 10);
    assert!(folder.path().join("instrument.json").is_file());
    // Nothing meets a bound of 0, and an earlier calibration is not overwritten.
    let strict = calibrate(&["--bound", "0 s,0 s", "--json"]);
    assert_eq!(
        (strict.code, &strict.json()["instrument"]["covered"]),
        (Some(1), &Value::Null)
    );
    assert_eq!(calibrate(&["--out", out]).code, Some(2));
    assert_eq!(calibrate(&["--rate", "0"]).code, Some(2));
}

#[test]
fn calibrating_with_a_url_tells_what_the_server_does_not_account_for() {
    let server = server(Behaviour {
        ttft: Duration::from_millis(20),
        ..Behaviour::default()
    });
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().to_str().expect("UTF-8");
    let calibrate = |api: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_benchtrail"));
        command.args([
            "calibrate",
            "--tls",
            "--concurrency",
            "2",
            "--gap",
            "1 ms",
            "--duration",
            "50 ms",
        ]);
        command.args([
            "--bound",
            "100 s,100 s",
            "--url",
            &server.url(),
            "--server-requests",
            "6",
            "--api",
            api,
        ]);
        outcome(
            command
                .args(more)
                .stdin(Stdio::null())
                .current_dir(std::env::temp_dir()),
        )
    };
    let shown = calibrate(
        "llama-cpp-completion",
        &["--server-concurrency", "1,3", "--out", out],
    )
    .ok()
    .stdout;
    for part in [
        "TLS; first token",
        "beyond the server's account",
        "TTFT",
        "12 of 12 requests answered",
    ] {
        assert!(shown.contains(part), "{part}:\n{shown}");
    }
    assert_eq!(table(folder.path(), "server_account").rows(), 4);
    // The server takes 20 ms and reports 1.5.
    let calibration = calibrate("llama-cpp-completion", &["--json"]).ok().json();
    let one = &calibration["server_account"][0];
    assert_eq!(
        (&one["concurrency"], &one["answered"]),
        (&Value::from(1), &Value::from(6))
    );
    assert!(
        one["metrics"]["ttft_beyond_server"]["min_ms"]
            .as_f64()
            .expect("a number")
            >= 18.5,
        "{one}"
    );
    assert_eq!(calibration["instrument"]["tls"], true);
    let silent = calibrate("openai-completions", &[]).ok().stdout;
    assert!(
        silent.contains("6 of 6 requests answered; the server reports no timings"),
        "{silent}"
    );
}

#[test]
fn a_search_refuses_a_rate_whose_overload_no_probe_may_show() {
    let server = server(Behaviour::default());
    let search = |more: &[&str]| {
        let common = ["--constant", "4", "--search", "8", "--slo", "e2e=19000"];
        run(&server.url(), &[&common, more].concat())
    };
    let refused = search(&[]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(
        refused
            .stderr
            .contains("becomes visible only after 400.0 s of arrivals"),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains("may last only 5 min"),
        "{}",
        refused.stderr
    );
    assert!(server.truth(0).is_empty());
    // TPOT does not include waiting, so a search on it needs no minimum duration.
    let outcome = run(
        &server.url(),
        &[
            "--constant",
            "40",
            "--search",
            "80",
            "--slo",
            "tpot=0.0001ms",
            "--requests",
            "4",
        ],
    );
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    assert!(
        !outcome.stderr.contains("becomes visible only after"),
        "{}",
        outcome.stderr
    );
    assert!(
        outcome.stdout.contains("missed already at 40 req/s"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn what_waits_in_line_when_the_duration_is_over_is_not_sent_and_is_counted() {
    let server = server(Behaviour {
        ttft: Duration::from_millis(400),
        ..Behaviour::default()
    });
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("result.json");
    let name = file.to_str().expect("UTF-8");
    let more = [
        "--constant",
        "20",
        "--max-concurrency",
        "1",
        "--duration",
        "1 s",
        "--output-tokens",
        "1",
    ];
    let kept = ["--json", "--result-filename", name];
    let shown = run(&server.url(), &[&more[..], &kept].concat()).ok().json();
    let count = |name: &str| shown[name].as_u64().expect("a count");
    assert_eq!(count("requests_ok") + count("requests_never_sent"), 20);
    assert!((1..=3).contains(&count("requests_ok")), "{shown}");
    let text = fs::read_to_string(file).expect("the result file");
    let result: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(result["max_concurrency"], 1);
    let table = run(&server.url(), &more).ok().stdout;
    let unsent = table.lines().find(|line| line.contains("never sent"));
    let unsent = unsent.unwrap_or_else(|| panic!("{table}"));
    assert!(unsent.contains("the duration had ended"), "{table}");
}
