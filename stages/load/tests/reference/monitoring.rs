//! The sampling beside the load, and the output of a run into files.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use artifacts::Table;
use contract::{Chunk, EventPattern, Request, RequestStatus, Row as _};
use load::reference::{Behaviour, Fault, ReferenceServer};
use load::{
    Ending, Gpu, LoadFiles, Monitoring, Slo, Summarizer, Telemetry, TimeSpan, Timeouts, run_load,
    run_load_into,
};
use pipeline::stage::Control;
use serde_json::json;

use crate::canned::{Canned, document, events};
use crate::common::{Run, closed, paced};

/// Writes a program named `nvidia-smi`. A shell writes it, because a file that this process holds open for writing
/// cannot be executed, and a child that another test forks meanwhile would also hold it open.
fn fake_smi(folder: &Path, script: &str) -> PathBuf {
    let program = folder.join("nvidia-smi");
    let write = "printf '#!/bin/sh\n%s\n' \"$1\" > \"$0\" && chmod +x \"$0\"";
    let status = Command::new("sh")
        .arg("-c")
        .arg(write)
        .arg(&program)
        .arg(script)
        .status()
        .unwrap();
    assert!(status.success());
    program
}

fn gpu_line(watts: f64) -> String {
    format!("0, GPU-1, Fake, {watts}, 1500, 2000, 52, 99, 3, 1, 2, 0x0000000000000000")
}

/// Returns a program that prints a line with this power every 20 ms.
fn steady(folder: &Path, watts: f64) -> PathBuf {
    fake_smi(
        folder,
        &format!("while echo '{}'; do sleep 0.02; done", gpu_line(watts)),
    )
}

fn quick() -> Telemetry {
    Telemetry {
        interval: TimeSpan::milliseconds(20),
        ..Telemetry::none()
    }
}

fn monitoring(telemetry: Telemetry) -> Monitoring {
    Monitoring {
        nvidia_smi: None,
        ..Monitoring::new(telemetry)
    }
}

fn into(run: &Run, monitoring: &Monitoring, folder: &Path) -> LoadFiles {
    let server = ReferenceServer::start(run.behaviour.clone()).unwrap();
    let target = run.target(server.url());
    run_load_into(
        &run.spec(),
        &target,
        monitoring,
        folder,
        &Control::quiet(),
        &mut |_, _| Ok(()),
    )
    .unwrap()
}

fn table(files: &LoadFiles, name: &str) -> Table {
    let file = files
        .tables
        .iter()
        .find(|t| t.name == name)
        .unwrap_or_else(|| panic!("no {name}"));
    let table = Table::from_parquet(std::fs::read(&file.path).unwrap()).unwrap();
    // In every run of these tests, the load must write what the contract declares.
    let differences = contract::declared(name).unwrap().differences(&table);
    assert_eq!(differences, [""; 0]);
    assert_eq!(table.rows() as u64, file.rows);
    table
}

/// Returns a stub that reports its state at one path, like SGLang: settings of the server, then the present state of
/// each scheduler. The throughput in it changes at every sample.
fn sglang(path: &'static str) -> Canned {
    let samples = AtomicU32::new(0);
    Canned::start(move |asked| match asked.path.as_str() {
        asked if asked == path => {
            let sample = samples.fetch_add(1, Ordering::Relaxed);
            let state = json!({"last_gen_throughput": 100.5 + f64::from(sample), "memory_usage": {"weight": 2.5}});
            document(&json!({
                "model_path": "m", "tp_size": 1, "disable_radix_cache": false, "version": "0.5.23",
                "internal_states": [state],
            }))
        }
        "/server_info" | "/get_server_info" => {
            vec![
                b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                    .to_vec(),
            ]
        }
        _ => events(&[json!({"choices": [{"text": "x", "finish_reason": "stop"}]})]),
    })
}

#[test]
fn the_state_of_sglang_is_sampled_at_its_new_path_and_at_its_old_one() {
    let run = Run {
        requests: 2,
        ..Run::default()
    };
    let sampled = |server: &Canned, path: &str| {
        let folder = tempfile::tempdir().unwrap();
        let telemetry = Telemetry {
            probes: true,
            ..quick()
        };
        let monitoring = Monitoring {
            server_info: Some(path.to_owned()),
            ..monitoring(telemetry)
        };
        let (spec, target) = (run.spec(), run.target(server.url.clone()));
        let files = run_load_into(
            &spec,
            &target,
            &monitoring,
            folder.path(),
            &Control::quiet(),
            &mut |_, _| Ok(()),
        );
        (files.unwrap(), folder)
    };
    for path in ["/server_info", "/get_server_info"] {
        let server = sglang(path);
        let (files, _folder) = sampled(&server, path);
        let info = table(&files, "server_info");
        let names: Vec<_> = info
            .text("name")
            .unwrap()
            .into_iter()
            .map(Option::unwrap)
            .collect();
        let constant = [
            "/disable_radix_cache",
            "/internal_states/0/memory_usage/weight",
            "/tp_size",
        ];
        for name in constant {
            assert_eq!(names.iter().filter(|n| **n == name).count(), 1, "{name}");
        }
        let changing = names
            .iter()
            .filter(|n| **n == "/internal_states/0/last_gen_throughput")
            .count();
        // Before the first request and after the last.
        assert!(
            changing >= 2 && names.len() == constant.len() + changing,
            "{names:?}"
        );
        let other = if path == "/server_info" {
            "/get_server_info"
        } else {
            "/server_info"
        };
        let (files, _folder) = sampled(&server, other);
        assert!(files.tables.iter().all(|table| table.name != "server_info"));
        let reason = files.observations["server_info"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(
            reason.contains(&format!("asking {other}: HTTP 404")),
            "{reason}"
        );
    }
}

#[test]
fn files_hold_the_rows_that_memory_would_hold() {
    let run = Run {
        requests: 30,
        warmup: 3,
        arrival: closed(4),
        ..Run::default()
    };
    let server = ReferenceServer::start(run.behaviour.clone()).unwrap();
    let (spec, target) = (run.spec(), run.target(server.url()));
    let folder = tempfile::tempdir().unwrap();
    let (mut rows, mut chunks) = (Vec::new(), Vec::new());
    let mut summarizer = Summarizer::new(Slo::default(), folder.path());
    let files = run_load_into(
        &spec,
        &target,
        &monitoring(quick()),
        folder.path(),
        &Control::quiet(),
        &mut |row, chunks_of_row| {
            rows.push(row.clone());
            chunks.extend_from_slice(chunks_of_row);
            summarizer.add(row, chunks_of_row)
        },
    )
    .unwrap();
    assert_eq!(
        table(&files, "requests").batch().columns(),
        Request::table(&rows).unwrap().batch().columns()
    );
    assert!(rows.iter().map(|r| (r.request_id, r.attempt)).is_sorted() && rows.len() == 33);
    assert_eq!(table(&files, "chunks").rows(), 33 * 5);
    assert_eq!(table(&files, "prompts").rows(), 33);
    assert_eq!(summarizer.finish().unwrap().ttft.unwrap().n, 30);
    assert_eq!(
        table(&files, "chunks").batch().columns(),
        Chunk::table(&chunks).unwrap().batch().columns()
    );
    for file in &files.tables {
        table(&files, file.name);
    }
    // Only the tables named stay in the folder.
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        files.tables.len()
    );
    let in_memory = run_load(&spec, &target, &Control::quiet()).unwrap();
    let digests = |rows: &[Request]| {
        rows.iter()
            .map(|r| r.output_digest.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(digests(&in_memory.requests), digests(&rows));
}

#[test]
fn a_run_that_is_stopped_leaves_complete_tables() {
    // Slow enough to be far from its end at the first progress report.
    let run = Run {
        requests: 1000,
        behaviour: Behaviour {
            gap: Duration::from_millis(20),
            ..Behaviour::default()
        },
        ..Run::default()
    };
    let server = ReferenceServer::start(run.behaviour.clone()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let cancelled = Arc::new(AtomicBool::new(false));
    let flag = cancelled.clone();
    let stop = move |progress: pipeline::stage::Progress| {
        flag.store(progress.done >= 3, Ordering::Relaxed);
    };
    let control = Control::new(cancelled, None, Box::new(stop));
    let telemetry = Telemetry {
        host: true,
        processes: true,
        ..quick()
    };
    let target = run.target(server.url());
    let files = run_load_into(
        &run.spec(),
        &target,
        &monitoring(telemetry),
        folder.path(),
        &control,
        &mut |_, _| Ok(()),
    )
    .unwrap();
    assert!(
        matches!(files.ending, Ending::Stopped(..)),
        "{:?}",
        files.ending
    );
    let rows = table(&files, "requests").rows();
    assert!((3..1000).contains(&rows), "{rows}");
    for name in [
        "chunks",
        "cell",
        "prompts",
        "host_telemetry",
        "process_telemetry",
    ] {
        assert!(table(&files, name).rows() >= 1, "{name}");
    }
}

#[test]
fn ourselves_and_the_host_are_sampled_before_and_after() {
    let folder = tempfile::tempdir().unwrap();
    let telemetry = Telemetry {
        host: true,
        processes: true,
        ..quick()
    };
    let files = into(&Run::default(), &monitoring(telemetry), folder.path());
    let processes = table(&files, "process_telemetry");
    assert!(
        processes
            .text("role")
            .unwrap()
            .iter()
            .all(|role| *role == Some("client"))
    );
    assert!(
        processes
            .int("memory_bytes")
            .unwrap()
            .iter()
            .all(|bytes| bytes.unwrap() > 0)
    );
    let host = table(&files, "host_telemetry");
    let (at, window) = (host.int("at_ns").unwrap(), files.cell.window.unwrap());
    assert!(
        at[0].unwrap() <= window.0 && at.last().unwrap().unwrap() >= window.1 && at.is_sorted()
    );
    let why = files.observations["process_telemetry"].as_str().unwrap();
    assert!(why.starts_with("the server's process is unknown"), "{why}");
}

#[test]
fn gpus_that_are_not_there_leave_no_table_and_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let telemetry = Telemetry {
        gpu: Gpu::NvidiaSmi,
        ..quick()
    };
    let files = into(&Run::default(), &monitoring(telemetry), folder.path());
    assert!(files.tables.iter().all(|t| t.name != "gpu_telemetry"));
    assert!(!folder.path().join("gpu_telemetry.parquet").exists());
    assert_eq!(
        files.observations["gpu_telemetry"],
        "absent: no `nvidia-smi` on the search path"
    );
}

#[test]
fn a_program_that_dies_in_a_run_leaves_its_rows_and_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let smi = fake_smi(folder.path(), &format!("echo '{}'; exit 3", gpu_line(81.5)));
    let telemetry = Telemetry {
        gpu: Gpu::NvidiaSmi,
        ..quick()
    };
    let out = tempfile::tempdir().unwrap();
    // Long enough to notice that the program has ended.
    let behaviour = Behaviour {
        ttft: Duration::from_millis(150),
        ..paced()
    };
    let run = Run {
        behaviour,
        ..Run::default()
    };
    let files = into(
        &run,
        &Monitoring {
            nvidia_smi: Some(smi),
            ..monitoring(telemetry)
        },
        out.path(),
    );
    assert_eq!(
        table(&files, "gpu_telemetry").float("power_w").unwrap(),
        [Some(81.5)]
    );
    assert_eq!(files.observations["gpu_telemetry_source"], "nvidia-smi");
    assert_eq!(
        files.warnings,
        ["nvidia-smi ended during the run (exit status: 3)"]
    );
}

/// Runs six requests that fall silent after a token, with a watchdog that reads the GPU's power.
fn silent(watts: f64) -> LoadFiles {
    let folder = tempfile::tempdir().unwrap();
    let smi = steady(folder.path(), watts);
    let run = Run {
        heartbeat: TimeSpan::milliseconds(200),
        timeouts: Timeouts {
            inter_token: TimeSpan::milliseconds(900),
            ..Timeouts::default()
        },
        ..Run::with(Fault::StallAfter(1))
    };
    let telemetry = Telemetry {
        gpu: Gpu::NvidiaSmi,
        hung_below_w: Some(50.0),
        ..quick()
    };
    let out = tempfile::tempdir().unwrap();
    let mut files = into(
        &run,
        &Monitoring {
            nvidia_smi: Some(smi),
            ..monitoring(telemetry)
        },
        out.path(),
    );
    assert!(table(&files, "gpu_telemetry").rows() > 1);
    files.tables.clear();
    files
}

#[test]
fn a_silent_server_whose_gpu_draws_little_is_hung() {
    let files = silent(38.0);
    assert_eq!(files.ending, Ending::Hung);
    assert!(files.tally.statuses[&RequestStatus::Hung] >= 1);
    assert!(
        files.warnings[0].contains("drew 38.0 W on average during this time, below 50 W"),
        "{:?}",
        files.warnings
    );
}

#[test]
fn a_silent_server_whose_gpu_works_is_waited_for() {
    let files = silent(310.0);
    assert_eq!(files.ending, Ending::Complete);
    assert_eq!(
        files.tally.statuses.keys().collect::<Vec<_>>(),
        [&RequestStatus::Timeout]
    );
}

#[test]
fn lines_of_the_log_become_events_on_the_cells_clock() {
    let run = Run {
        behaviour: Behaviour {
            gap: Duration::from_millis(100),
            ..Behaviour::default()
        },
        ..Run::default()
    };
    let server = ReferenceServer::start(run.behaviour.clone()).unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(log.path(), "Decode batch, #running-req: 99\n").unwrap();
    let target = load::Target {
        log: Some(log.path().to_owned()),
        ..run.target(server.url())
    };
    let pattern = EventPattern {
        line: "Decode batch".to_owned(),
        fields: vec![r"#running-req: (?<running_requests>\d+)".to_owned()],
        time: None,
    };
    let monitoring = Monitoring {
        log_events: vec![("decode-batch".to_owned(), pattern)],
        log_errors: vec!["never there".to_owned()],
        ..monitoring(quick())
    };
    let path = log.path().to_owned();
    let written = Arc::new(Mutex::new(Vec::new()));
    let writes = written.clone();
    let control = Control::new(
        Arc::default(),
        None,
        Box::new(move |progress| {
            let mut log = std::fs::OpenOptions::new()
                .append(true)
                .open(&path)
                .unwrap();
            writeln!(log, "noise\nDecode batch, #running-req: {}", progress.done).unwrap();
            writes.lock().unwrap().push(progress.done as f64);
        }),
    );
    let folder = tempfile::tempdir().unwrap();
    let files = run_load_into(
        &run.spec(),
        &target,
        &monitoring,
        folder.path(),
        &control,
        &mut |_, _| Ok(()),
    )
    .unwrap();
    let events = table(&files, "engine_events");
    let texts = events.metadata(contract::ERROR_TEXTS_NOTE);
    assert_eq!(texts.as_deref(), Some("never there"));
    let values: Vec<f64> = events
        .float("value")
        .unwrap()
        .into_iter()
        .flatten()
        .collect();
    let written = written.lock().unwrap();
    assert!(written.len() >= 2, "{written:?}");
    assert_eq!(values, *written);
    let lines: Vec<i64> = events.int("line").unwrap().into_iter().flatten().collect();
    let second_of_each: Vec<i64> = (1..=written.len() as i64).map(|n| 2 * n).collect();
    assert_eq!(lines, second_of_each);
    assert!(
        events.int("seen_ns").unwrap().is_sorted()
            && events.int("at_ns").unwrap().iter().all(Option::is_none)
    );
    assert!(files.engine_log.unwrap().starts_with("noise\n"));
}
