//! A run that continues while somebody watches it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::Value;

use super::Explorer;
use crate::support::Project;

#[test]
fn a_run_writes_its_events_beside_its_report_and_a_page_can_follow_them() {
    let project = Project::new();
    project.run(["run", "experiments/simulated.yaml", "--smoke", "--quiet"]);
    let log = project.path().join("reports/simulated.smoke/events.jsonl");
    let log = fs::read_to_string(log).expect("the event log");
    let first: Value = serde_json::from_str(log.lines().next().expect("a line")).expect("JSON");
    assert_eq!(first["event"], "run-began");
    assert_eq!(
        first["stages"][0]["cells"].as_array().expect("cells").len(),
        12
    );
    let explorer = Explorer::of(&project, &[]);
    let runs = explorer.get("/api/v1/runs").json();
    assert_eq!(runs["runs"][0]["id"], "simulated.smoke");
    let host = [("host", explorer.host())];
    let stream = explorer.open("GET", "/api/v1/runs/simulated.smoke/events", &host);
    let (mut seen, mut measured) = (false, false);
    for line in BufReader::new(stream).lines() {
        let line = line.expect("the stream goes on");
        seen |= line.contains("\"run-ended\"");
        measured |= line.contains("\"ttft_ms_p50\"");
        // After everything in the log, the stream reports that nothing is new.
        if line.starts_with(": nothing new") {
            break;
        }
    }
    assert!(seen && measured);
}

#[test]
fn a_page_stops_a_run_with_its_token_as_ctrl_c_does() {
    let project = Project::new();
    let file = project.path().join("experiments/simulated.yaml");
    let text = fs::read_to_string(&file).expect("an experiment");
    let long = text
        .replace("experiment: simulated", "experiment: long")
        .replace("rep: {from: 1, to: 3}", "rep: {from: 1, to: 2000}");
    fs::write(file.with_file_name("long.yaml"), long).expect("it is written");
    let mut run = project
        .command(["run", "experiments/long.yaml", "--quiet", "--no-dry-run"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let folder = project.path().join("reports/long");
    let token = folder.join("stop-token");
    let is_whole = |file: &str, least: usize| {
        let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
        text.len() >= least && text.contains('\n')
    };
    // The token can be used as soon as it is visible, because the log that it belongs to exists before it.
    while !is_whole("stop-token", 33) {
        let ended = run.try_wait().expect("it can be asked");
        assert!(ended.is_none(), "it ended before it could be stopped");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(is_whole("events.jsonl", 100));
    let token = fs::read_to_string(&token).expect("a token");
    let explorer = Explorer::of(&project, &[]);
    let ask = |token: &str, media: &str| {
        let body = serde_json::json!({"token": token}).to_string();
        let length = body.len().to_string();
        let headers = [
            ("host", explorer.host()),
            ("content-type", media),
            ("content-length", &length),
        ];
        explorer
            .send("POST", "/api/v1/runs/long/stop", &headers, &body)
            .status
    };
    assert_eq!(ask(token.trim(), "text/plain"), 415);
    assert_eq!(ask("0000", "application/json"), 403);
    assert_eq!(ask(token.trim(), "application/json"), 202);
    assert_eq!(
        run.wait().expect("it ends").code(),
        Some(130),
        "as after Ctrl-C"
    );
    assert_eq!(ask(token.trim(), "application/json"), 409, "it is over");
}
