//! A load sent by several processes: the same requests as with one, measured as exactly, and nothing left behind.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use artifacts::Table;
use contract::{Api, Chunk, Phase, Request, RequestStatus};
use load::reference::{Behaviour, Fault, Faults, ReferenceServer, Truth};
use load::{
    Arrival, Ending, Extent, Generators, LoadFiles, LoadSpec, LoadedServer, Monitoring, Origin,
    Rate, Settings, Target, Telemetry, TimeSpan, run_load, run_load_into,
};
use pipeline::stage::{Control, Coordinates};
use serde_json::json;

use crate::common::{Run, closed, paced};
use crate::skipped::skipped;

/// Returns this number of processes of the test's own binary.
fn several(count: u32) -> Generators {
    Generators {
        program: vec![env!("CARGO_BIN_EXE_load-generator").into()],
        ..Generators::of(count)
    }
}

/// Returns generators that run a shell script instead.
fn otherwise(count: u32, script: &str) -> Generators {
    Generators {
        program: ["sh", "-c", script].map(Into::into).to_vec(),
        silence: Duration::from_millis(500),
        ..Generators::of(count)
    }
}

fn with(run: &Run, generators: Generators) -> LoadSpec {
    LoadSpec {
        generators,
        ..run.spec()
    }
}

fn constant(rate: f64) -> Arrival {
    Arrival::Constant(Rate { rate })
}

/// Sends a load into a folder; returns its files and rows.
fn sent(
    spec: &LoadSpec,
    target: &Target,
    folder: &Path,
    control: &Control,
) -> (LoadFiles, Vec<Request>) {
    let mut rows = Vec::new();
    let watch = &mut |row: &Request, _: &[Chunk]| {
        rows.push(row.clone());
        Ok(())
    };
    let monitoring = Monitoring::new(Telemetry::none());
    let files = run_load_into(spec, target, &monitoring, folder, control, watch).unwrap();
    (files, rows)
}

fn table(files: &LoadFiles, name: &str) -> Table {
    let file = files.tables.iter().find(|table| table.name == name);
    let bytes = std::fs::read(&file.unwrap_or_else(|| panic!("no {name}")).path).unwrap();
    Table::from_parquet(bytes).unwrap()
}

/// Returns the bytes of the requests as the server received them.
fn received(truths: Vec<Truth>) -> Vec<Vec<u8>> {
    let mut requests: Vec<Vec<u8>> = truths.into_iter().map(|truth| truth.request).collect();
    requests.sort();
    requests
}

/// Returns the fields of a row that describe its request, not its answer.
fn asked(row: &Request) -> (i64, Phase, Option<i64>, Option<String>, Option<i64>) {
    (
        row.request_id,
        row.phase,
        row.prompt_index,
        row.prompt_digest.clone(),
        row.requested_output_tokens,
    )
}

#[test]
fn several_generators_send_the_requests_of_one_byte_by_byte_and_number_them_alike() {
    for (arrival, requests, warmup) in [
        (closed(5), 23, 4),
        (constant(400.0), 21, 3),
        (Arrival::Burst, 9, 0),
    ] {
        let run = Run {
            arrival,
            requests,
            warmup,
            ..Run::default()
        };
        let files = |generators: Generators| {
            let server = ReferenceServer::start(Behaviour::default()).unwrap();
            // Each server has its own port, and only the `Host` line shows it.
            let result = run_load(
                &with(&run, generators),
                &run.target(server.url()),
                &Control::quiet(),
            )
            .unwrap();
            assert_eq!(result.ending, Ending::Complete);
            let host = server.url().replace("http://", "");
            let mut bytes = received(server.truth(requests + warmup));
            for request in &mut bytes {
                let text = String::from_utf8(std::mem::take(request)).unwrap();
                *request = text.replace(&host, "HOST").into_bytes();
            }
            bytes.sort();
            let rows: Vec<_> = result.requests.iter().map(asked).collect();
            let scheduled: Vec<i64> = result
                .requests
                .iter()
                .filter(|row| row.phase == Phase::Measured)
                .map(|row| row.scheduled_ns.unwrap() - result.cell.measured_from_ns.unwrap())
                .collect();
            let clients: BTreeSet<_> = result.requests.iter().map(|row| row.client_id).collect();
            (bytes, rows, scheduled, clients)
        };
        let one = files(several(1));
        for count in [2, 3] {
            let more = files(several(count));
            assert_eq!(one.0, more.0, "{count} generators of {:?}", run.arrival);
            assert_eq!(one.1, more.1);
            // Open arrivals keep their times to the nanosecond. A client of a closed loop sends when it is free.
            if run.arrival.clients().is_none() {
                assert_eq!(one.2, more.2);
            }
            assert_eq!(one.3, more.3);
        }
    }
}

#[test]
fn each_generator_says_what_it_sent_and_the_cell_has_the_worst_of_them() {
    let run = Run {
        arrival: closed(5),
        requests: 25,
        warmup: 5,
        behaviour: paced(),
        ..Run::default()
    };
    let server = ReferenceServer::start(run.behaviour.clone()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let spec = with(&run, several(2));
    let target = run.target(server.url());
    let (files, rows) = sent(&spec, &target, folder.path(), &Control::quiet());
    assert_eq!(files.ending, Ending::Complete);
    assert!(rows.is_sorted_by_key(|row| (row.request_id, row.attempt)));
    assert_eq!(rows.len(), 30);
    let dealt = table(&files, "request_generators");
    let ids = dealt.int("request_id").unwrap();
    assert_eq!(ids, (0..30).map(Some).collect::<Vec<_>>());
    let numbers: Vec<i64> = dealt
        .int("generator")
        .unwrap()
        .into_iter()
        .flatten()
        .collect();
    // Clients 0, 2 and 4 run on the first generator, so it sends their requests.
    assert_eq!(numbers[5..15], [0, 1, 0, 1, 0, 0, 1, 0, 1, 0]);
    for row in rows.iter().filter(|row| row.phase == Phase::Measured) {
        let client = row.client_id.unwrap();
        assert_eq!(client % 2, numbers[row.request_id as usize], "{row:?}");
    }
    let each = table(&files, "generators");
    let whole =
        |name: &str| -> Vec<i64> { each.int(name).unwrap().into_iter().flatten().collect() };
    assert_eq!(whole("requests"), [15, 10]);
    assert_eq!(whole("ok"), [15, 10]);
    assert_eq!(whole("clients"), [3, 2]);
    let cell = table(&files, "cell");
    let worst = |name: &str| {
        let of_each = each.float(name).unwrap().into_iter().flatten();
        let of_cell = cell.float(name).unwrap()[0].unwrap();
        let largest = of_each.reduce(f64::max).unwrap();
        assert!(
            (of_cell - largest).abs() < 1e-12,
            "{name}: {of_cell} {largest}"
        );
    };
    for name in [
        "stamp_error_bound",
        "wake_lag_p99",
        "send_lag_max",
        "client_busy",
    ] {
        worst(name);
    }
    let together: i64 = whole("client_cpu_ns").iter().sum();
    assert_eq!(cell.int("client_cpu_ns").unwrap()[0], Some(together));
    // Five clients, one connection each.
    assert_eq!(cell.int("connections").unwrap()[0], Some(5));
    // The tally sees all five in flight, though no generator has that many.
    assert_eq!(files.tally.peak_in_flight, Some(5));
}

#[test]
fn one_generator_leaves_the_tables_of_today() {
    let run = Run::default();
    let server = ReferenceServer::start(run.behaviour.clone()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let spec = with(&run, several(1));
    let (files, _) = sent(
        &spec,
        &run.target(server.url()),
        folder.path(),
        &Control::quiet(),
    );
    let names: Vec<&str> = files.tables.iter().map(|table| table.name).collect();
    assert_eq!(names, ["requests", "chunks", "cell", "prompts"]);
}

/// Sends a load by this number of generators; returns how many of its chunks are stamped later after the server sent
/// them than the stated bound, how many there are, and the bound, ms.
fn stamped_late(run: &Run, generators: u32) -> (usize, usize, f64) {
    let server = ReferenceServer::start(run.behaviour.clone()).unwrap();
    let target = run.target(server.url());
    let result = run_load(&with(run, several(generators)), &target, &Control::quiet()).unwrap();
    let truths: BTreeMap<String, Truth> = server
        .truth(72)
        .into_iter()
        .map(|truth| (truth.prompt_digest.clone(), truth))
        .collect();
    let start = result.cell.started_monotonic_ns;
    let bound_ms = result.cell.health.unwrap().stamp_error_bound_ms.unwrap();
    let mut late = 0;
    for chunk in &result.chunks {
        let row = &result.requests[chunk.request_id as usize];
        let truth = &truths[row.prompt_digest.as_ref().unwrap()];
        let own = result
            .chunks
            .iter()
            .filter(|c| c.request_id == chunk.request_id);
        let place = own.clone().position(|c| c.at_ns == chunk.at_ns).unwrap();
        let error_ms = (start + chunk.at_ns - truth.sent_ns[place] as i64) as f64 / 1e6;
        // All processes share one clock, so no token is stamped before it was sent.
        assert!(
            error_ms > -0.01,
            "{error_ms} ms with {generators} generators"
        );
        late += usize::from(error_ms > bound_ms);
    }
    (late, result.chunks.len(), bound_ms)
}

#[test]
fn first_tokens_are_timed_within_the_stated_bound_by_any_number_of_generators() {
    let run = Run {
        arrival: closed(8),
        requests: 64,
        warmup: 8,
        behaviour: Behaviour {
            ttft: Duration::from_millis(30),
            gap: Duration::from_millis(10),
            ..Behaviour::default()
        },
        ..Run::default()
    };
    for count in [1, 2, 4] {
        // A server that loses its processor between its own stamp and its write looks like a late load generator. A
        // generator that stamps late does so in every load.
        let mut tried = Vec::new();
        let holds = (0..5).any(|_| {
            let (late, chunks, bound_ms) = stamped_late(&run, count);
            assert_eq!(chunks, 72 * 5);
            tried.push((late, bound_ms));
            late as f64 <= 0.01 * chunks as f64 + 1.0
        });
        assert!(
            holds,
            "more than 1 % of the chunks later than the bound with {count} generators, in each load: \
             {tried:?} (chunks, ms)"
        );
    }
}

#[test]
fn sessions_stay_whole_and_several_servers_get_the_requests_as_from_one() {
    let settings: Settings = serde_json::from_value(json!({
        "workload": {
            "prompts": {"words": {"length": 6}},
            "sessions": {"turns": {"from": 1, "to": 3}},
            "output": {"tokens": 3},
        },
        "arrival": {"closed-loop": {"clients": 4}},
        "sessions": 12,
    }))
    .unwrap();
    let origin = Origin {
        seed: 7,
        replicate: Coordinates::default(),
    };
    let run = |count| {
        let servers = [Behaviour::default(), Behaviour::default()]
            .map(|behaviour| ReferenceServer::start(behaviour).unwrap());
        let named = servers
            .iter()
            .enumerate()
            .map(|(place, server)| LoadedServer {
                name: format!("server-{place}"),
                base_url: server.url(),
            });
        let target =
            Target::new(servers[0].url(), "reference", Api::OpenaiChat).in_turn(named.collect());
        let spec = LoadSpec {
            generators: several(count),
            ..LoadSpec::new(settings.clone(), origin.clone()).unwrap()
        };
        let folder = tempfile::tempdir().unwrap();
        let (files, rows) = sent(&spec, &target, folder.path(), &Control::quiet());
        assert_eq!(files.ending, Ending::Complete);
        assert!(rows.iter().all(|row| row.status == RequestStatus::Ok));
        let of_server = table(&files, "request_servers")
            .text("server")
            .unwrap()
            .into_iter()
            .map(|name| name.unwrap().to_owned())
            .collect::<Vec<_>>();
        // Each turn follows the one before it.
        let mut sessions: BTreeMap<i64, i64> = BTreeMap::new();
        for row in &rows {
            let turn = sessions.entry(row.session_id.unwrap()).or_default();
            *turn += 1;
            assert_eq!(row.turn, Some(*turn));
        }
        assert_eq!(sessions.len(), 12);
        let asked: Vec<_> = rows.iter().map(asked).collect();
        let got = servers.map(|server| server.truth(1).len());
        if count > 1 {
            let generators = table(&files, "request_generators")
                .int("generator")
                .unwrap();
            for (row, generator) in rows.iter().zip(generators) {
                assert_eq!(
                    generator,
                    Some(row.session_id.unwrap() % 4 % i64::from(count))
                );
            }
        }
        (asked, of_server, got.iter().sum::<usize>() > 0)
    };
    let one = run(1);
    assert_eq!(one, run(2));
    assert_eq!(one, run(3));
}

#[test]
fn a_duration_ends_all_generators_at_the_same_time() {
    let run = Run {
        arrival: constant(200.0),
        requests: 400,
        extent: Extent {
            duration: Some(TimeSpan::milliseconds(250)),
            ..Extent::default()
        },
        ..Run::default()
    };
    let server = ReferenceServer::start(run.behaviour.clone()).unwrap();
    let target = run.target(server.url());
    let result = run_load(&with(&run, several(3)), &target, &Control::quiet()).unwrap();
    assert_eq!(result.requests.len(), 50);
    assert_eq!(result.cell.expected_requests, 50);
    assert!(result.requests.iter().map(|row| row.request_id).eq(0..50));
}

/// Returns generators whose monotonic clock is a day ahead of the local one, as on a machine that started a day
/// earlier. `None` if the kernel does not permit this.
fn a_day_ahead(count: u32) -> Option<Generators> {
    let unshare = [
        "unshare",
        "--time",
        "--monotonic",
        "86400",
        "--fork",
        "--kill-child",
    ];
    let tried = std::process::Command::new(unshare[0])
        .args(&unshare[1..])
        .arg("true")
        .stderr(std::process::Stdio::null())
        .status();
    if !tried.is_ok_and(|status| status.success()) {
        skipped("unshare", "`unshare --time` is not allowed here");
        return None;
    }
    let program = env!("CARGO_BIN_EXE_load-generator");
    let command = unshare.iter().copied().chain([program]).map(Into::into);
    Some(Generators {
        there: vec![load::There {
            name: "yesterday".to_owned(),
            command: command.collect(),
        }],
        ..Generators::of(count)
    })
}

#[test]
fn clocks_that_began_at_other_times_are_brought_together_within_the_stated_bound() {
    let Some(generators) = a_day_ahead(2) else {
        return;
    };
    let run = Run {
        arrival: constant(200.0),
        requests: 40,
        warmup: 2,
        behaviour: paced(),
        ..Run::default()
    };
    let server = ReferenceServer::start(run.behaviour.clone()).unwrap();
    let target = run.target(server.url());
    let folder = tempfile::tempdir().unwrap();
    let spec = with(&run, generators);
    let (files, rows) = sent(&spec, &target, folder.path(), &Control::quiet());
    assert_eq!(files.ending, Ending::Complete);
    let each = table(&files, "generators");
    let hosts = each.text("host").unwrap();
    assert_eq!(hosts, [Some("yesterday"), Some("yesterday")]);
    let bounds: Vec<f64> = each
        .float("clock_bound")
        .unwrap()
        .into_iter()
        .flatten()
        .collect();
    assert!(
        bounds.len() == 2 && bounds.iter().all(|ms| *ms > 0.0),
        "{bounds:?}"
    );
    let stated = table(&files, "cell").float("stamp_error_bound").unwrap()[0].unwrap();
    assert!(bounds.iter().all(|ms| *ms <= stated), "{bounds:?} {stated}");
    let worst_ns = (bounds.iter().copied().fold(0.0, f64::max) * 1e6).ceil() as i64;
    let truths: BTreeMap<String, Truth> = server
        .truth(42)
        .into_iter()
        .map(|truth| (truth.prompt_digest.clone(), truth))
        .collect();
    let start = files.cell.started_monotonic_ns;
    for row in &rows {
        let truth = &truths[row.prompt_digest.as_ref().unwrap()];
        let read_ns = truth.arrived_ns as i64 - start - row.sent_ns.unwrap();
        let stamped_ns = row.first_token_ns.unwrap() + start - truth.sent_ns[0] as i64;
        // Within the clocks' bound, a request is read after it was sent, and a token is stamped after the server sent
        // it.
        assert!(
            read_ns >= -worst_ns && stamped_ns >= -worst_ns,
            "{read_ns} {stamped_ns} {worst_ns}"
        );
        assert!(
            read_ns < 60_000_000_000 && stamped_ns < 60_000_000_000,
            "they are not a day apart"
        );
    }
}

/// Returns the child processes that are generators.
fn children() -> Vec<u32> {
    let mut threads = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let path = task.unwrap().path().join("children");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        threads.extend(
            text.split_whitespace()
                .filter_map(|pid| pid.parse::<u32>().ok()),
        );
    }
    threads.retain(|pid| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.trim() == "load-generator"
    });
    threads
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Runs an endless load, and disturbs its generators as soon as they send. These tests run one after the other, because
/// each looks for the generators among this process's children.
fn disturbed(
    generators: u32,
    disturb: impl Fn(&[u32], &AtomicBool) + Send + 'static,
    silence: Duration,
) -> (LoadFiles, Vec<Request>) {
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _turn = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let run = Run {
        arrival: constant(100.0),
        requests: 100_000,
        ..Run::default()
    };
    let server = ReferenceServer::start(Behaviour {
        log: load::reference::Log::Everything,
        ..run.behaviour.clone()
    })
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let before: BTreeSet<u32> = children().into_iter().collect();
    let cancelled = Arc::new(AtomicBool::new(false));
    let control = Control::new(cancelled.clone(), None, Box::new(|_| ()));
    let spec = with(
        &run,
        Generators {
            silence,
            ..several(generators)
        },
    );
    let target = run.target(server.url());
    std::thread::scope(|scope| {
        let (server, cancelled) = (&server, &cancelled);
        scope.spawn(move || {
            while server.truth(0).len() < 20 {
                std::thread::sleep(Duration::from_millis(5));
            }
            let mut own: Vec<u32> = children()
                .into_iter()
                .filter(|pid| !before.contains(pid))
                .collect();
            own.sort_unstable();
            disturb(&own, cancelled);
        });
        let left = sent(&spec, &target, folder.path(), &control);
        // Read the rows before the folder is removed.
        let names: Vec<&str> = left.0.tables.iter().map(|table| table.name).collect();
        for name in [
            "requests",
            "chunks",
            "cell",
            "prompts",
            "generators",
            "request_generators",
        ] {
            assert!(names.contains(&name), "{name}");
        }
        left
    })
}

#[test]
fn a_generator_that_is_killed_ends_the_load_and_the_rows_of_the_others_remain() {
    let (files, rows) = disturbed(
        3,
        |own, _| {
            assert_eq!(own.len(), 3);
            signal(own[1], rustix::process::Signal::KILL);
        },
        Duration::from_secs(10),
    );
    let Ending::Lost(lost) = &files.ending else {
        panic!("{:?}", files.ending);
    };
    let message = lost.to_string();
    assert!(
        message.contains("ended before its work was done") && message.contains("signal: 9"),
        "{message}"
    );
    let remainders: BTreeSet<i64> = rows.iter().map(|row| row.request_id % 3).collect();
    assert_eq!(
        remainders.len(),
        2,
        "the others' rows are there: {remainders:?}"
    );
    assert!(!remainders.contains(&i64::from(lost.generator)));
    assert!(rows.len() > 10);
}

#[test]
fn a_generator_that_stands_still_is_ended_and_so_is_the_load() {
    // The signs of very many others leave no pause in which nothing is heard.
    for generators in [3, 24] {
        let (files, rows) = disturbed(
            generators,
            |own, _| signal(own[0], rustix::process::Signal::STOP),
            Duration::from_millis(1500),
        );
        let message = match &files.ending {
            Ending::Lost(lost) => lost.to_string(),
            other => panic!("{other:?}"),
        };
        assert!(message.contains("said nothing for 1.5 s"), "{message}");
        assert!(rows.len() > 10);
    }
}

#[test]
fn a_load_that_is_stopped_keeps_the_rows_of_every_generator() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let started = seen.clone();
    let (files, rows) = disturbed(
        3,
        move |own, cancelled| {
            started.lock().unwrap().extend_from_slice(own);
            cancelled.store(true, Ordering::Relaxed);
        },
        Duration::from_secs(10),
    );
    assert!(
        matches!(files.ending, Ending::Stopped(..)),
        "{:?}",
        files.ending
    );
    let remainders: BTreeSet<i64> = rows.iter().map(|row| row.request_id % 3).collect();
    assert_eq!(remainders.len(), 3);
    // Tests beside this one have children too. Those that end by themselves are waited for.
    let seen = seen.lock().unwrap();
    assert!(seen.len() >= 3);
    let remain = || children().iter().any(|pid| seen.contains(pid));
    for _ in 0..1_000 {
        if !remain() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("generators remain: {:?}", children());
}

#[test]
fn programs_that_are_not_generators_fail_the_load_with_what_they_wrote() {
    let run = Run::default();
    let server = ReferenceServer::start(run.behaviour.clone()).unwrap();
    let target = run.target(server.url());
    for (script, expected) in [
        (
            "echo no library >&2; exit 127",
            "exit status: 127; it wrote: no library",
        ),
        (
            "echo nonsense; sleep 60",
            "said something that is not a message",
        ),
        ("sleep 60", "said nothing for 0.5 s"),
        (
            "printf '\\001\\000\\000\\000\\002'; sleep 60",
            "is not a generator of this version",
        ),
        // An incomplete message.
        ("printf '\\100\\000\\000\\000ab'", "ended within a message"),
    ] {
        let spec = with(&run, otherwise(2, script));
        let message = run_load(&spec, &target, &Control::quiet())
            .unwrap_err()
            .to_string();
        assert!(message.contains(expected), "{script}: {message}");
        assert!(message.starts_with("generator "), "{message}");
    }
    // Messages that come before their time, are too long for it, or go on after their end.
    let greeting = format!("benchtrail generator {}", env!("CARGO_PKG_VERSION"));
    let greeting = format!(
        "printf '\\{:03o}\\000\\000\\000\\000\\{:03o}{greeting}'; ",
        greeting.len() + 2,
        greeting.len()
    );
    for (then, expected) in [
        ("printf '\\001\\000\\000\\000\\003'", "out of turn"),
        ("printf '\\002\\000\\000\\000\\010\\000'", "out of turn"),
        ("printf '\\002\\000\\000\\000\\007\\000'", "out of turn"),
        (
            "printf '\\002\\000\\000\\000\\002\\002'",
            "more than a message",
        ),
        ("printf '\\000\\000\\000\\001'", "is not a message"),
    ] {
        let spec = with(&run, otherwise(2, &format!("{greeting}{then}; sleep 60")));
        let message = run_load(&spec, &target, &Control::quiet())
            .unwrap_err()
            .to_string();
        assert!(message.contains(expected), "{then}: {message}");
    }
    let spec = with(
        &run,
        Generators {
            program: vec!["/nowhere/at/all".into()],
            ..Generators::of(2)
        },
    );
    let message = run_load(&spec, &target, &Control::quiet())
        .unwrap_err()
        .to_string();
    assert!(
        message.starts_with("a generator cannot be started"),
        "{message}"
    );
}

#[test]
fn a_silent_server_hangs_the_load_and_a_dead_one_ends_it_whoever_notices() {
    let run = Run {
        requests: 40,
        arrival: closed(4),
        heartbeat: TimeSpan::milliseconds(700),
        behaviour: Behaviour {
            faults: Faults::all(Fault::StallAfter(1)),
            ..Behaviour::default()
        },
        ..Run::default()
    };
    let server = ReferenceServer::start(run.behaviour.clone()).unwrap();
    let target = run.target(server.url());
    let result = run_load(&with(&run, several(2)), &target, &Control::quiet()).unwrap();
    assert_eq!(result.ending, Ending::Hung);
    assert!(
        result
            .requests
            .iter()
            .all(|row| row.status == RequestStatus::Hung)
    );
    drop(server);
    let result = run_load(&with(&run, several(2)), &target, &Control::quiet()).unwrap();
    assert_eq!(result.ending, Ending::Gone(0));
    let refusing = Run {
        behaviour: Behaviour {
            api_key: Some("another".to_owned()),
            ..Behaviour::default()
        },
        ..run
    };
    let server = ReferenceServer::start(refusing.behaviour.clone()).unwrap();
    let spec = with(&refusing, several(2));
    let result = run_load(&spec, &refusing.target(server.url()), &Control::quiet()).unwrap();
    assert!(
        matches!(result.ending, Ending::Refused(_)),
        "{:?}",
        result.ending
    );
}
