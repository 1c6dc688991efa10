//! Secrets reach no log, record or message.

use std::fs;

use crate::support::{Outcome, Project};

#[test]
fn a_secret_that_a_program_inherits_and_prints_is_stored_nowhere() {
    const STUDY: &str = r#"
experiment: leak
seed: 1
engines:
  own:
    title: Own
    version: "1"
    launch:
      program: {installed: sh}
      arguments: ["-c", "echo \"token $LEAK_TOKEN via $LEAK_PROXY\"; exit 1", "{port}"]
      inherit: [LEAK_TOKEN, LEAK_PROXY]
models:
  none: {title: None, weights: {named: {id: nothing}}}
stages:
  env: {kind: provision, engine: own, model: none}
  server: {kind: serve, needs: [env]}
  tool:
    kind: run
    program: {script: leak.sh}
    interpreter: [sh]
    inherit: [LEAK_TOKEN, LEAK_PROXY]
    tables:
      points: {file: points.jsonl, keys: [die], columns: {die: {type: integer}}}
"#;
    let project = Project::new();
    fs::write(project.path().join("leak.yaml"), STUDY).expect("writable");
    let script = "echo \"token $LEAK_TOKEN via $LEAK_PROXY\"; exit 1\n";
    fs::write(project.path().join("leak.sh"), script).expect("writable");
    let (token, password) = ("qq/Secret+12345", "correct-horse-battery");
    let mut command = project.command(["run", "leak.yaml", "--keep-going"]);
    command
        .env("LEAK_TOKEN", token)
        .env("LEAK_PROXY", format!("http://ada:{password}@proxy:3128"));
    let ran: Outcome = command.output().expect("it starts").into();
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let output = format!("{}{}", ran.stdout, ran.stderr);
    assert!(
        output.contains("token [LEAK_TOKEN] via [LEAK_PROXY]"),
        "{output}"
    );
    let mut read = 0;
    for file in crate::torture::files_below(project.path()) {
        let bytes = fs::read(&file).expect("readable");
        read += 1;
        for secret in [token, password] {
            let is_leaked = bytes.windows(secret.len()).any(|w| w == secret.as_bytes());
            assert!(!is_leaked, "{secret} in {}", file.display());
        }
    }
    assert!(read > 20, "{read} files");
    for secret in [token, password] {
        assert!(!output.contains(secret), "{output}");
    }
}

#[test]
fn a_secret_in_an_experiment_or_on_the_command_line_is_refused_and_not_repeated() {
    const STUDY: &str = r#"
experiment: typed
seed: 1
engines:
  own:
    title: Own
    version: "1"
    launch:
      program: {running: "URL"}
      LAUNCH
models:
  none: {title: None, weights: {named: {id: m}}}
stages:
  env: {kind: provision, engine: own, model: none}
  server: {kind: serve, needs: [env]}
  ladder: {kind: load, needs: [server], workload: short-decode, arrival: {closed-loop: {clients: 1}}, requests: 4LOAD}
"#;
    let secret = "hunter2-hunter2";
    let url = "http://127.0.0.1:9";
    let project = Project::new();
    for (url, launch, load) in [
        (&*format!("http://ada:{secret}@127.0.0.1:9"), "", ""),
        (&*format!("{url}/v1?api_key={secret}"), "", ""),
        (url, &*format!("api-key: {secret}"), ""),
        (url, &*format!("api-key-env: {secret}"), ""),
        (
            url,
            "",
            &*format!(", headers: {{Authorization: Bearer {secret}}}"),
        ),
        (url, "", &*format!(", headers: {{X-Api-Key: {secret}}}")),
        (url, "", &*format!(", api-key: {secret}")),
        (url, "", &*format!(", api-key-env: {secret}")),
        (
            url,
            "",
            &*format!(", metrics: \"http://ada:{secret}@127.0.0.1:9\""),
        ),
    ] {
        let text = STUDY.replace("URL", url).replace("LAUNCH", launch);
        let text = text.replace("4LOAD", &format!("4{load}"));
        fs::write(project.path().join("typed.yaml"), text).expect("writable");
        for command in [&["plan", "typed.yaml"][..], &["run", "typed.yaml"]] {
            let outcome = project.run(command);
            let case = format!("{url} {launch} {load} {command:?}");
            let all = format!("{}{}", outcome.stdout, outcome.stderr);
            // A variable that is not set is a fault of the machine.
            assert!(matches!(outcome.code, Some(2 | 4)), "{case}: {all}");
            assert!(!all.contains(secret), "{case}: {all}");
        }
    }
    let launched = "launch: {program: {installed: server}, arguments: [\"{port}\"ARGUMENTS], environment: {VARIABLES}}";
    for (arguments, variables) in [
        ("", &*format!("HF_TOKEN: {secret}")),
        ("", &*format!("HTTPS_PROXY: \"http://ada:{secret}@proxy\"")),
        ("", "NAME: hf_KEY"),
        (&*format!(", --api-key, {secret}"), ""),
        (&*format!(", \"--hf-token={secret}\""), ""),
        (", --key, hf_KEY", ""),
    ] {
        let launch = launched
            .replace("ARGUMENTS", arguments)
            .replace("VARIABLES", variables);
        // Assembled here, so that a search of this file finds no key.
        let launch = launch.replace("KEY", &"hunter2H".repeat(4));
        let text = STUDY.replace(
            "launch:\n      program: {running: \"URL\"}\n      LAUNCH",
            &launch,
        );
        fs::write(
            project.path().join("typed.yaml"),
            text.replace("4LOAD", "4"),
        )
        .expect("writable");
        for command in [
            &["plan", "typed.yaml"][..],
            &["run", "typed.yaml", "--trust"],
        ] {
            let outcome = project.run(command);
            let all = format!("{}{}", outcome.stdout, outcome.stderr);
            assert_eq!(outcome.code, Some(2), "{launch}: {all}");
            assert!(
                !all.contains("hunter2") && all.contains("inherit"),
                "{launch}: {all}"
            );
        }
    }
    for header in ["Authorization: Bearer", "X-Api-Key:", "authorization="] {
        let header = format!("{header} {secret}");
        let outcome = project.run(["load", url, "--requests", "2", "--header", &header]);
        assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
        assert!(!outcome.stderr.contains(secret), "{}", outcome.stderr);
    }
    for file in crate::torture::files_below(&project.path().join(".benchtrail")) {
        let bytes = fs::read(&file).expect("readable");
        let is_leaked = bytes.windows(secret.len()).any(|w| w == secret.as_bytes());
        assert!(!is_leaked, "{}", file.display());
    }
}
