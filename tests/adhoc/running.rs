//! A study of a running server: the declarations of its user, and the exporters of its machine. The exporters here are
//! stubs that answer with recorded text.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;

use load::reference::Behaviour;

use super::{Outcome, experiment, outcome, server};

const NODE: &str = "node_cpu_seconds_total{cpu=\"0\",mode=\"idle\"} 70\nnode_load1 1.5\n\
                    node_memory_MemAvailable_bytes 409600\n";
const DCGM: &str = "DCGM_FI_DEV_POWER_USAGE{gpu=\"0\",UUID=\"GPU-a\",modelName=\"NVIDIA H100\"} 350.5\n\
                    DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu=\"0\",UUID=\"GPU-a\",modelName=\"NVIDIA H100\"} 2500\n";
const WORKER: &str = "vllm:generation_tokens_total{model_name=\"m\"} 12\n";

/// Answers `/node`, `/dcgm` and `/worker` indefinitely; returns the address.
fn exporters() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let mut head = [0; 2048];
            let n = stream.read(&mut head).unwrap_or_default();
            let head = String::from_utf8_lossy(&head[..n]).into_owned();
            let body = match head.split(' ').nth(1) {
                Some("/node") => NODE,
                Some("/dcgm") => DCGM,
                Some("/worker") => WORKER,
                _ => "",
            };
            let _gone = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    url
}

/// Runs the study of the helper with additions to the engine's definition, and with a report.
fn study(folder: &std::path::Path, url: &str, more: &str) -> Outcome {
    let mut command = experiment(folder, url, "");
    let file = folder.join("elsewhere.yaml");
    let text = fs::read_to_string(&file).expect("it was written");
    let text = text.replace("    endpoints:", &format!("{more}    endpoints:"))
        + "  checks: {kind: verify, needs: [server, steps], gates: [{gate: row-status}]}\n  \
           report: {kind: report, needs: [machine, server, steps, checks]}\n";
    fs::write(&file, text).expect("a file");
    outcome(&mut command)
}

fn sql(folder: &std::path::Path, query: &str) -> serde_json::Value {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_benchtrail"));
    command
        .args(["sql", "elsewhere.yaml", query, "--json"])
        .current_dir(folder)
        .env("XDG_CONFIG_HOME", "/nowhere");
    let answer = outcome(&mut command).ok().json();
    answer.get("rows").unwrap_or(&answer).clone()
}

#[test]
fn declared_facts_are_marked_in_the_report_and_exporters_fill_the_tables_of_our_own_telemetry() {
    let running = server(Behaviour::default());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = exporters();
    let more = format!(
        "    facts:\n      host: {{gpus: 8 x H100 SXM, memory_gib: 2048}}\n      settings: \
         {{tensor-parallel: 8}}\n    probe: {{served: {{path: /v1/models, pointer: /data/0/id}}}}\n    \
         exporters:\n      box: {{url: \"{at}/node\", tells: node}}\n      gpus: {{url: \"{at}/dcgm\", \
         tells: dcgm}}\n      worker-0: {{url: \"{at}/worker\", tells: metrics}}\n"
    );
    let ran = study(folder.path(), &running.url(), &more).ok();
    let host = sql(
        folder.path(),
        r#"select distinct source, load_1, memory_available_bytes from "steps.server_host_telemetry""#,
    );
    assert_eq!(
        host,
        serde_json::json!([{"source": "box", "load_1": 1.5, "memory_available_bytes": 409_600}])
    );
    let gpu = sql(
        folder.path(),
        r#"select distinct gpu, name, power_w, energy_j from "steps.gpu_telemetry""#,
    );
    assert_eq!(
        gpu,
        serde_json::json!([{"gpu": 0, "name": "NVIDIA H100", "power_w": 350.5, "energy_j": 2.5}])
    );
    let labels = sql(
        folder.path(),
        r#"select distinct labels from "steps.server_metrics" where name = 'vllm:generation_tokens_total'"#,
    );
    assert_eq!(
        labels,
        serde_json::json!([{"labels": "exporter=\"worker-0\",model_name=\"m\""}])
    );
    let report = fs::read_to_string(folder.path().join("reports/elsewhere/report.md"))
        .unwrap_or_else(|e| panic!("{e}: {}", ran.stdout));
    // Columns are padded.
    let report: Vec<String> = report
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let report = report.join("\n");
    for line in [
        "| Host: gpus | 8 x H100 SXM (declared) |",
        "| Host: memory_gib | 2048 (declared) |",
        "| Setting: tensor-parallel | 8 (declared) |",
        "| Reported by the server: served | reference |",
        "| Engine version | 1 (declared) |",
    ] {
        assert!(report.contains(line), "no `{line}` in:\n{report}");
    }
}

#[test]
fn an_exporter_that_tells_nothing_stops_the_study_before_the_first_request() {
    let running = server(Behaviour::default());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = exporters();
    let more = format!("    exporters: {{gpus: {{url: \"{at}/node\", tells: dcgm}}}}\n");
    let ran = study(folder.path(), &running.url(), &more);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let output = ran.stdout + &ran.stderr;
    assert!(
        output.contains("has no metric that begins with `DCGM_FI_DEV_`")
            && output.contains("correct `exporters.gpus` in the engine's definition"),
        "{output}"
    );
}
