//! How far the load generator's figures differ from what a reference server really sent.
//!
//! `cargo bench -p calibrate --bench accuracy [-- --quick] [-- --only PART]`, with the parts `streams`, `tls`,
//! `ceiling`, `arrivals`, `search`, `self-proof`. The server is its own process on the same machine. It logs when it
//! read each request and when it handed each token to the kernel.
//!
//! The bench prints for each number of streams the errors of single requests (bias, median and 99th percentile of
//! |reported − true|), the difference of the medians, the client's CPU time per token, the time of the first request
//! and this process's peak memory. It also prints the ceiling in requests and chunks per second without any waiting,
//! the arrivals as sent, and the rates that searches find at servers of known capacity. For many runs, throttled to a
//! fifth and unthrottled, it prints the client's verdict on itself and whether its stated bound covers the true error.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use calibrate::{Certificate, Grid, Measured, Point, measure_point};
use contract::{Api, Phase, RequestStatus};
use load::reference::{Launcher, ReferenceProcess};
use load::{
    Arrival, ClientVerdict, ClosedLoop, Distribution, LoadResult, LoadSpec, Monitoring, Origin,
    Rate, Settings, Slo, Summarizer, Target, Telemetry, TimeSpan, run_load, run_load_into,
    run_search,
};
use pipeline::stage::{Control, Coordinates};
use serde_json::json;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = arguments.iter().position(|a| a == "client") {
        return client(&arguments[at + 1..]);
    }
    let quick = arguments.iter().any(|a| a == "--quick");
    let only = arguments
        .iter()
        .position(|a| a == "--only")
        .and_then(|at| arguments.get(at + 1));
    let wanted = |part: &str| only.is_none_or(|only| only == part);
    let mut out = std::io::stdout();
    if wanted("streams") {
        streams(&mut out, quick)?;
    }
    if wanted("tls") {
        with_and_without_tls(&mut out, quick)?;
    }
    if wanted("ceiling") {
        ceiling(&mut out, quick)?;
    }
    if wanted("arrivals") {
        arrivals(&mut out, quick)?;
    }
    if wanted("search") {
        saturation(&mut out, quick)?;
    }
    if wanted("self-proof") {
        self_proof(&mut out, quick)?;
    }
    Ok(())
}

fn launcher() -> Launcher {
    Launcher {
        program: PathBuf::from(env!("CARGO_BIN_EXE_reference-server")),
        arguments: Vec::new(),
        ca_file: None,
    }
}

fn grid() -> Grid {
    Grid {
        ttft: TimeSpan::milliseconds(50),
        tokens: 64,
        ..Grid::default()
    }
}

fn origin() -> Origin {
    Origin {
        seed: 1,
        replicate: Coordinates::default(),
    }
}

fn point(clients: u32, requests: u64) -> Point {
    Point {
        concurrency: Some(clients),
        rate: None,
        gap: TimeSpan::milliseconds(10),
        requests,
    }
}

/// Returns the peak resident memory of this process so far, MiB.
fn peak_memory_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? / 1024.0)
}

fn streams(out: &mut impl Write, quick: bool) -> Result<(), Failure> {
    heading(out)?;
    for clients in [1_u64, 16, 64, 256, 1024] {
        let requests = if quick {
            clients * 2
        } else {
            (clients * 8).clamp(16, 4096)
        };
        out.write_all(&output_of(own(&[
            "streams",
            &clients.to_string(),
            &requests.to_string(),
        ])?)?)?;
    }
    let requests = if quick { "2048" } else { "4096" };
    out.write_all(&output_of(own(&["memory", "1024", requests])?)?)?;
    Ok(())
}

/// Runs the same streams in plain text and within TLS, alternating.
fn with_and_without_tls(out: &mut impl Write, quick: bool) -> Result<(), Failure> {
    heading(out)?;
    for clients in [1_u64, 16, 64, 256] {
        let requests = if quick {
            clients * 2
        } else {
            (clients * 8).clamp(16, 2048)
        };
        for what in ["streams", "tls"] {
            let line = output_of(own(&[what, &clients.to_string(), &requests.to_string()])?)?;
            write!(out, "{what:>7} ")?;
            out.write_all(&line)?;
        }
    }
    Ok(())
}

fn heading(out: &mut impl Write) -> Result<(), Failure> {
    writeln!(
        out,
        "TTFT 50 ms, 64 tokens, 10 ms apart; reported − true, ms; each line a process of its own"
    )?;
    writeln!(
        out,
        "{:>7} {:>5} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7} {:>8} {:>7}",
        "streams",
        "n",
        "p50 diff",
        "p99 diff",
        "ttft bias",
        "|p50|",
        "|p99|",
        "read p50",
        "icl |p50|",
        "stamp p50",
        "stamp p99",
        "stated",
        "us/tok",
        "first ms",
        "lost"
    )?;
    Ok(())
}

/// Starts this program again as a client, so that it has its own memory and threads and can be throttled.
fn own(arguments: &[&str]) -> Result<std::process::Child, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    Ok(command
        .arg("client")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?)
}

/// Waits until a process of this bench succeeds, and returns its output.
fn output_of(child: std::process::Child) -> Result<Vec<u8>, Failure> {
    let output = child.wait_with_output()?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err("a client process failed".into())
    }
}

/// Runs a client process: one point, one line.
fn client(arguments: &[String]) -> Result<(), Failure> {
    let [what, clients, requests] = arguments else {
        return Err("client WHAT CLIENTS REQUESTS".into());
    };
    let point = point(clients.parse()?, requests.parse()?);
    let mut out = std::io::stdout();
    if what == "memory" {
        return memory(&mut out, clients.parse()?, requests.parse()?);
    }
    let certificate = if what == "tls" {
        Some(Certificate::throw_away()?)
    } else {
        None
    };
    let launcher = certificate.as_ref().map_or_else(launcher, |certificate| {
        launcher().with_certificate(&certificate.file(), &certificate.key_file())
    });
    let measured = measure_point(
        &grid(),
        point,
        &launcher,
        None,
        &origin(),
        &load::Generators::default(),
        &Control::quiet(),
    )?;
    let health = measured.health.as_ref().ok_or("no health")?;
    let errors = |metric| measured.errors_of(metric).ok_or("no errors");
    if what == "verdict" {
        let bound = health.stamp_error_bound_ms.ok_or("no bound")?;
        let verdict = health.verdict.map_or("none", ClientVerdict::word);
        let [p50, p99, _] = health.wake_lag_ms.ok_or("no wake lag")?;
        let stamp = errors("stamp")?.absolute.p99;
        writeln!(out, "{verdict} {bound} {stamp} {p50} {p99}")?;
        return Ok(());
    }
    let (ttft, read, icl, stamp) = (
        errors("ttft")?,
        errors("send_lag")?,
        errors("icl")?,
        errors("stamp")?,
    );
    writeln!(
        out,
        "{clients:>7} {requests:>5} {:>+9.3} {:>+9.3} {:>+9.3} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>7.2} {:>8.1} {:>7}",
        ttft.reported.p50 - ttft.truth.p50,
        ttft.reported.p99 - ttft.truth.p99,
        ttft.bias,
        ttft.absolute.p50,
        ttft.absolute.p99,
        // From `sent` until the server had read the request.
        read.absolute.p50,
        icl.absolute.p50,
        stamp.absolute.p50,
        stamp.absolute.p99,
        health.stamp_error_bound_ms.unwrap_or(f64::NAN),
        measured.cpu_per_chunk_us.unwrap_or(f64::NAN),
        first_request_ms(&measured)?,
        measured.lost
    )?;
    Ok(())
}

/// Prints the memory of a run that writes its tables as it goes, like `benchtrail load` and a load stage.
fn memory(out: &mut impl Write, clients: u32, requests: usize) -> Result<(), Failure> {
    let server = start(&["--ttft-ms", "50", "--gap-ms", "10", "--log", "0"])?;
    let spec = spec(&closed(clients), requests, 64)?;
    let folder = tempfile::tempdir()?;
    let mut summarizer = Summarizer::new(Slo::default(), folder.path());
    let monitoring = Monitoring::new(Telemetry::none());
    let (target, control) = (target(&server), Control::quiet());
    run_load_into(
        &spec,
        &target,
        &monitoring,
        folder.path(),
        &control,
        &mut |row, chunks| summarizer.add(row, chunks),
    )?;
    let statuses = summarizer.finish()?.statuses;
    let peak = peak_memory_mib().unwrap_or(f64::NAN);
    writeln!(
        out,
        "{clients} streams, {requests} requests: {peak:.1} MiB peak, {} not ok",
        not_ok(&statuses)
    )?;
    Ok(())
}

/// Returns the time from the start of a run to its first request, ms. The connections are opened in this time.
fn first_request_ms(measured: &Measured) -> Result<f64, Failure> {
    Ok(measured.first_sent_ms.ok_or("nothing was sent")?)
}

fn ceiling(out: &mut impl Write, quick: bool) -> Result<(), Failure> {
    writeln!(out, "\nceiling, 64 streams, no waiting")?;
    for (tokens, requests) in [(1, 40_000), (64, 6_000)] {
        let requests = if quick { requests / 10 } else { requests };
        let server = start(&["--log", "0"])?;
        let result = send(&server, &closed(64), requests, tokens)?;
        let seen = result.summary(&Default::default())?;
        let rate = seen.request_throughput.unwrap_or_default();
        writeln!(
            out,
            "{tokens:>3} tokens: {rate:>9.0} req/s, {:>9.0} chunks/s, client {:.2} us CPU a chunk, {} not ok",
            rate * f64::from(tokens),
            cpu_us_per_chunk(&result),
            not_ok(&result.statuses())
        )?;
    }
    Ok(())
}

fn arrivals(out: &mut impl Write, quick: bool) -> Result<(), Failure> {
    writeln!(
        out,
        "\nopen loop, gaps between sends: achieved rate, CV (constant wants 0, poisson 1)"
    )?;
    for rate in [200.0, 1000.0, 2000.0] {
        for (arrival, word) in [
            (Arrival::Constant(Rate { rate }), "constant"),
            (Arrival::Poisson(Rate { rate }), "poisson"),
        ] {
            let server = start(&["--ttft-ms", "5", "--tokens", "1", "--log", "0"])?;
            let result = send(&server, &arrival, if quick { 400 } else { 3000 }, 1)?;
            let measured = result
                .requests
                .iter()
                .filter(|r| r.phase == Phase::Measured);
            let sent: Vec<i64> = measured.clone().filter_map(|r| r.sent_ns).collect();
            let scheduled: Vec<i64> = measured.filter_map(|r| r.scheduled_ns).collect();
            let (sent, scheduled) = (gaps_of(sent)?, gaps_of(scheduled)?);
            let lag = result
                .summary(&Default::default())?
                .send_lag
                .ok_or("no lag")?;
            writeln!(
                out,
                "{word:>9} {rate:>6.0}/s: {:>8.2}/s (drawn {:>8.2}), CV {:.3} (drawn {:.3}), send lag p50 {:.3} p99 {:.3} ms",
                1000.0 / sent.mean,
                1000.0 / scheduled.mean,
                sent.std.unwrap_or_default() / sent.mean,
                scheduled.std.unwrap_or_default() / scheduled.mean,
                lag.p50,
                lag.p99
            )?;
        }
    }
    Ok(())
}

/// Searches for the highest rate of servers with a known capacity: slots divided by the time of an answer.
fn saturation(out: &mut impl Write, quick: bool) -> Result<(), Failure> {
    writeln!(
        out,
        "\nsaturation search, TTFT within 200 ms for 95 % of the requests"
    )?;
    let slots: &[u32] = if quick { &[32] } else { &[8, 32] };
    for (slots, word) in slots
        .iter()
        .flat_map(|slots| ["constant", "poisson"].map(|word| (slots, word)))
    {
        // 50 ms to the first of 11 tokens, 5 ms apart: an answer holds its slot for 100 ms.
        let server = start(&[
            "--ttft-ms",
            "50",
            "--gap-ms",
            "5",
            "--slots",
            &slots.to_string(),
            "--log",
            "0",
        ])?;
        let capacity = f64::from(slots * 10);
        let settings: Settings = serde_json::from_value(json!({
            "workload": {
                "prompts": {"words": {"length": 20}},
                "output": {"tokens": 11, "mode": "exact"},
            },
            // A start whose doublings never hit the capacity exactly.
            "arrival": {word: {"rate": capacity / 3.5}},
            "requests": 400,
            "search": {"up-to": capacity * 4.0, "bounds": {"ttft-ms": 200}},
        }))?;
        let folder = tempfile::tempdir()?;
        let monitoring = Monitoring::new(Telemetry::default());
        let files = run_search(
            &settings,
            &origin(),
            &target(&server),
            &monitoring,
            folder.path(),
            &Control::quiet(),
            &mut |_| {},
        )?;
        if let Some(failure) = files.failure {
            return Err(failure.into());
        }
        let outcome = files.outcome;
        let kept = outcome.kept.ok_or("the lowest rate is missed")?.number();
        let missed = outcome.missed.ok_or("the highest rate is kept")?.number();
        writeln!(
            out,
            "{word:>9}: capacity {capacity:>4.0}/s: kept {kept:>6.1}/s ({:+.1} %), missed {missed:>6.1}/s ({:+.1} %), {} requests",
            (kept / capacity - 1.0) * 100.0,
            (missed / capacity - 1.0) * 100.0,
            outcome.requests()
        )?;
    }
    Ok(())
}

/// The report of a client process about itself.
struct Said {
    bound: bool,
    stated_ms: f64,
    true_ms: f64,
}

/// Runs clients as processes, some unthrottled and some limited to 20 of every 100 ms.
fn self_proof(out: &mut impl Write, quick: bool) -> Result<(), Failure> {
    writeln!(
        out,
        "\nself-proof: flagged client_bound; stated bound ≥ p99 of |stamp error| of the run"
    )?;
    let runs = if quick { 5 } else { 50 };
    for throttled in [false, true] {
        for clients in ["4", "32"] {
            let mut said = Vec::new();
            for _ in 0..runs {
                said.push(one_client(clients, throttled)?);
            }
            let flagged = said.iter().filter(|s| s.bound).count();
            let covered = said.iter().filter(|s| s.stated_ms >= s.true_ms).count();
            let middle =
                |figure: fn(&Said) -> f64| Distribution::of(said.iter().map(figure).collect());
            let (stated, truth) = (
                middle(|s| s.stated_ms).ok_or("no runs")?,
                middle(|s| s.true_ms).ok_or("no runs")?,
            );
            writeln!(
                out,
                "{:>11}, {clients:>2} streams: {flagged} of {runs} flagged, bound covers {covered} of {runs}; median stated {:.3} ms, true {:.3} ms",
                if throttled {
                    "throttled"
                } else {
                    "unthrottled"
                },
                stated.p50,
                truth.p50
            )?;
        }
    }
    Ok(())
}

fn one_client(clients: &str, throttled: bool) -> Result<Said, Failure> {
    let requests = (clients.parse::<u64>()? * 2).to_string();
    let mut child = own(&["verdict", clients, &requests])?;
    let pid = rustix::process::Pid::from_child(&child);
    while throttled && child.try_wait()?.is_none() {
        // It may end at any moment, but it is not reaped before `try_wait` reports it.
        let _ended = rustix::process::kill_process(pid, rustix::process::Signal::STOP);
        std::thread::sleep(Duration::from_millis(80));
        let _ended = rustix::process::kill_process(pid, rustix::process::Signal::CONT);
        std::thread::sleep(Duration::from_millis(20));
    }
    let text = String::from_utf8(output_of(child)?)?;
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [verdict, stated, truth, ..] = fields.as_slice() else {
        return Err("the client said nothing".into());
    };
    Ok(Said {
        bound: *verdict == "client_bound",
        stated_ms: stated.parse()?,
        true_ms: truth.parse()?,
    })
}

fn closed(clients: u32) -> Arrival {
    Arrival::ClosedLoop(ClosedLoop {
        clients,
        think_time: TimeSpan::default(),
    })
}

fn gaps_of(mut stamps: Vec<i64>) -> Result<Distribution, Failure> {
    stamps.sort_unstable();
    let gaps = stamps
        .windows(2)
        .map(|p| (p[1] - p[0]) as f64 / 1e6)
        .collect();
    Ok(Distribution::of(gaps).ok_or("no gaps")?)
}

fn not_ok(statuses: &BTreeMap<RequestStatus, u64>) -> u64 {
    statuses
        .iter()
        .filter(|(status, _)| **status != RequestStatus::Ok)
        .map(|(_, n)| n)
        .sum()
}

fn cpu_us_per_chunk(result: &LoadResult) -> f64 {
    let measured = result.chunks.len() as f64 * result.cell.expected_requests as f64
        / (result.cell.expected_requests + result.cell.warmup_requests) as f64;
    result.cell.client_cpu_ns.unwrap_or_default() as f64 / 1000.0 / measured
}

fn start(arguments: &[&str]) -> Result<ReferenceProcess, Failure> {
    let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
    Ok(launcher().start(&arguments)?)
}

fn send(
    server: &ReferenceProcess,
    arrival: &Arrival,
    requests: usize,
    tokens: u32,
) -> Result<LoadResult, Failure> {
    Ok(run_load(
        &spec(arrival, requests, tokens)?,
        &target(server),
        &Control::quiet(),
    )?)
}

fn spec(arrival: &Arrival, requests: usize, tokens: u32) -> Result<LoadSpec, Failure> {
    let warmup = arrival.clients().map_or(1, |c| (c as usize).min(requests));
    let settings: Settings = serde_json::from_value(json!({
        "workload": {
            "prompts": {"words": {"length": 20}},
            "output": {"tokens": tokens, "mode": "exact"},
        },
        "arrival": arrival,
        "requests": requests,
        "warmup": warmup,
        "heartbeat": "30 s",
    }))?;
    Ok(LoadSpec::new(settings, origin())?)
}

fn target(server: &ReferenceProcess) -> Target {
    Target::new(server.url(), "reference", Api::OpenaiCompletions)
}
