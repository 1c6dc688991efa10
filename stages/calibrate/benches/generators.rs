//! Measures one load that several generators send: its requests per second, and the lateness of its stamps.
//!
//! `cargo bench -p calibrate --bench generators [-- --generators 1,2,4,8] [--requests 200000] [--only ceiling|stamps] [--quick]`.
//! The bench starts its own binary as reference servers, as generators and as bare clients, so the binary needs no
//! other files. `cargo bench -p calibrate --bench generators --no-run` prints its path.
//!
//! - `ceiling`: answers of one token without delay, and 64 clients per generator. Each row has a number of servers:
//!   that of the generators, then twice that if the machine has the cores. For comparison, the same number of bare
//!   clients (hyper alone, without parsing events or writing anything) loads the same servers. This shows what the
//!   servers and the machine can sustain.
//! - `stamps`: the lateness of token stamps, by the server's log. One server sends over 1,024 and 4,096 streams.

mod client;

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

use calibrate::{Grid, Point, measure_point};
use contract::{Api, Phase, RequestStatus};
use load::reference::{Launcher, PROCESS_COMMAND, ReferenceProcess, serve_process};
use load::{
    ClientVerdict, GENERATOR_COMMAND, Generators, LoadSpec, LoadedServer, Monitoring, Origin,
    Settings, Target, Telemetry, TimeSpan, generate_process, run_load_into,
};
use pipeline::stage::{Control, Coordinates};
use serde_json::json;

use client::{BareClient, Failure};

/// The number of clients of each generator.
const CLIENTS: u32 = 64;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some(PROCESS_COMMAND) => {
            let options = arguments.into_iter().skip(1);
            return Ok(serve_process(options, std::io::stdin(), std::io::stdout())?);
        }
        Some(GENERATOR_COMMAND) => {
            return Ok(generate_process(std::io::stdin(), std::io::stdout())?);
        }
        Some("bare") => return bare(&arguments[1..]),
        _ => {}
    }
    let value = |name: &str| {
        let at = arguments.iter().position(|a| a == name)?;
        arguments.get(at + 1).map(String::as_str)
    };
    let quick = arguments.iter().any(|a| a == "--quick");
    let counts = value("--generators").unwrap_or("1,2,4,8");
    let counts: Vec<u32> = counts
        .split(',')
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let requests =
        value("--requests").map_or(Ok(if quick { 20_000 } else { 200_000 }), str::parse)?;
    let only = value("--only");
    let wanted = |part: &str| only.is_none_or(|only| only == part);
    let cores = std::thread::available_parallelism()?.get();
    let mut out = std::io::stdout();
    writeln!(out, "{cores} cores")?;
    if wanted("ceiling") {
        ceiling(&mut out, &counts, requests, cores)?;
    }
    if wanted("stamps") {
        stamps(&mut out, &counts, quick)?;
    }
    Ok(())
}

/// Returns this number of processes of this program.
fn processes(count: u32) -> Generators {
    Generators::of(count)
}

fn origin() -> Origin {
    Origin {
        seed: 1,
        replicate: Coordinates::default(),
    }
}

fn ceiling(
    out: &mut impl Write,
    counts: &[u32],
    requests: u64,
    cores: usize,
) -> Result<(), Failure> {
    writeln!(
        out,
        "\nanswers of one token, no waiting; {CLIENTS} clients and {requests} requests for each generator"
    )?;
    writeln!(
        out,
        "{:>10} {:>7} {:>10} {:>10} {:>7} {:>9} {:>9} {:>12} {:>7} {:>10} {:>9} {:>9} {:>11}",
        "generators",
        "servers",
        "bare req/s",
        "req/s",
        "of bare",
        "busy min",
        "busy max",
        "verdict",
        "not ok",
        "unrendered",
        "held back",
        "all in s",
        "coord. MiB"
    )?;
    for count in counts {
        for servers in [*count, 2 * count] {
            if servers > *count && (servers + count) as usize > cores {
                continue;
            }
            one_ceiling(out, *count, servers, requests)?;
        }
    }
    Ok(())
}

fn one_ceiling(
    out: &mut impl Write,
    count: u32,
    servers: u32,
    requests: u64,
) -> Result<(), Failure> {
    let bare = with_servers(servers, |urls| bare_rate(urls, count, requests))?;
    let began = Instant::now();
    let (rate, line) = with_servers(servers, |urls| ours(urls, count, requests))?;
    writeln!(
        out,
        "{count:>10} {servers:>7} {bare:>10.0} {rate:>10.0} {:>7.2} {line} {:>9.1} {:>11.1}",
        rate / bare,
        began.elapsed().as_secs_f64(),
        peak_memory_mib().unwrap_or(f64::NAN),
    )?;
    Ok(())
}

/// Starts servers, runs a task with their URLs, and stops them.
fn with_servers<T>(
    count: u32,
    task: impl FnOnce(&[String]) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let launcher = Launcher::own()?;
    let options = ["--log", "0"].map(str::to_owned);
    let servers = (0..count).map(|_| launcher.start(&options));
    let servers = servers.collect::<Result<Vec<ReferenceProcess>, _>>()?;
    let urls: Vec<String> = servers.iter().map(|s| s.url().to_owned()).collect();
    task(&urls)
}

/// Returns the requests per second, and a line with the run's other figures.
fn ours(urls: &[String], count: u32, requests: u64) -> Result<(f64, String), Failure> {
    let settings: Settings = serde_json::from_value(json!({
        "workload": {
            "prompts": {"words": {"length": 12}},
            "output": {"tokens": 1, "mode": "exact"},
        },
        "arrival": {"closed-loop": {"clients": CLIENTS * count}},
        "requests": requests * u64::from(count),
        "warmup": CLIENTS * count,
        "heartbeat": "30 s",
    }))?;
    let spec = LoadSpec {
        generators: processes(count),
        ..LoadSpec::new(settings, origin())?
    };
    let named = urls.iter().map(|url| LoadedServer {
        name: url.clone(),
        base_url: url.clone(),
    });
    let mut target =
        Target::new(urls[0].clone(), "reference", Api::OpenaiCompletions).in_turn(named.collect());
    let mut monitoring = Monitoring::new(Telemetry::none());
    monitoring.apart(&mut target);
    let folder = tempfile::tempdir()?;
    let (mut ok, mut not_ok) = (0_u64, 0_u64);
    let files = run_load_into(
        &spec,
        &target,
        &monitoring,
        folder.path(),
        &Control::quiet(),
        &mut |row, _| {
            match (row.phase, row.status) {
                (Phase::Measured, RequestStatus::Ok) => ok += 1,
                (Phase::Measured, _) => not_ok += 1,
                (Phase::Warmup, _) => {}
            }
            Ok(())
        },
    )?;
    let (from, to) = files.cell.window.ok_or("nothing was sent")?;
    let busy = match files.tables.iter().find(|table| table.name == "generators") {
        Some(table) => {
            let table = artifacts::Table::from_parquet(std::fs::read(&table.path)?)?;
            table.float("client_busy")?.into_iter().flatten().collect()
        }
        None => {
            let own = files.cell.health.as_ref().and_then(|health| health.busy);
            own.into_iter().collect::<Vec<f64>>()
        }
    };
    let least = busy.iter().copied().fold(f64::INFINITY, f64::min);
    let most = busy.iter().copied().fold(0.0, f64::max);
    let health = files.cell.health.as_ref();
    let verdict = health.and_then(|health| health.verdict);
    let late = |what: &str| {
        let count = files.observations.get(what);
        count.map_or_else(|| "0".to_owned(), ToString::to_string)
    };
    let line = format!(
        "{least:>9.2} {most:>9.2} {:>12} {not_ok:>7} {:>10} {:>9}",
        verdict.map_or("none", ClientVerdict::word),
        late("requests_unrendered"),
        late("requests_held_back"),
    );
    Ok((ok as f64 * 1e9 / (to - from) as f64, line))
}

/// Returns the peak resident memory of this process so far, MiB.
fn peak_memory_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? / 1024.0)
}

/// Returns the requests per second of bare clients that load the servers together, from the first start to the last
/// end.
fn bare_rate(urls: &[String], count: u32, requests: u64) -> Result<f64, Failure> {
    let exe = std::env::current_exe()?;
    let start = |_| {
        Command::new(&exe)
            .args(["bare", &requests.to_string()])
            .args(urls)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
    };
    let mut clients = (0..count).map(start).collect::<Result<Vec<_>, _>>()?;
    // Each client writes a byte when its connections are open. All begin when their input closes.
    for client in &mut clients {
        let mut ready = [0_u8; 1];
        let output = client.stdout.as_mut().ok_or("no output")?;
        std::io::Read::read_exact(output, &mut ready)?;
    }
    let began = Instant::now();
    clients.iter_mut().for_each(|c| drop(c.stdin.take()));
    let mut answered = 0.0;
    for client in clients {
        let output = client.wait_with_output()?;
        answered += String::from_utf8(output.stdout)?.trim().parse::<f64>()?;
    }
    Ok(answered / began.elapsed().as_secs_f64())
}

/// Runs a bare client with hyper alone: connections to the servers in turn, each of which sends one request at a time.
fn bare(arguments: &[String]) -> Result<(), Failure> {
    let (requests, urls) = arguments.split_first().ok_or("bare REQUESTS URL…")?;
    let each = requests.parse::<u64>()? / u64::from(CLIENTS);
    let body = BareClient::body(12, 1)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let answered = runtime.block_on(async {
        let mut clients = Vec::new();
        for (url, _) in urls.iter().cycle().zip(0..CLIENTS) {
            clients.push(BareClient::connect(url, body.clone()).await?);
        }
        let mut out = std::io::stdout();
        out.write_all(b"\n")?;
        out.flush()?;
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
        let streams = clients
            .into_iter()
            .map(|client| tokio::spawn(stream(client, each)));
        let streams: Vec<_> = streams.collect();
        let mut answered = 0;
        for stream in streams {
            answered += stream.await?;
        }
        Ok::<_, Failure>(answered)
    })?;
    Ok(writeln!(std::io::stdout(), "{answered}")?)
}

/// Sends the requests of one stream; returns the number of answers.
async fn stream(mut client: BareClient, requests: u64) -> u64 {
    let mut answered = 0;
    while answered < requests && client.answer().await.is_ok() {
        answered += 1;
    }
    answered
}

fn stamps(out: &mut impl Write, counts: &[u32], quick: bool) -> Result<(), Failure> {
    writeln!(
        out,
        "\nstamps: TTFT 50 ms, 64 tokens, one server with its log; stamped − handed to the kernel, ms"
    )?;
    writeln!(
        out,
        "{:>7} {:>7} {:>10} {:>9} {:>9} {:>9} {:>9} {:>7} {:>12} {:>10} {:>6}",
        "streams",
        "gap ms",
        "generators",
        "|p50|",
        "|p99|",
        "max",
        "stated",
        "covers",
        "verdict",
        "chunks/s",
        "lost"
    )?;
    for (streams, gap_ms) in [(1024_u32, 10), (4096, 40), (4096, 10)] {
        for count in counts {
            let requests = u64::from(streams) * if quick { 1 } else { 4 };
            one_stamp(out, streams, gap_ms, *count, requests)?;
        }
    }
    Ok(())
}

fn one_stamp(
    out: &mut impl Write,
    streams: u32,
    gap_ms: u64,
    count: u32,
    requests: u64,
) -> Result<(), Failure> {
    let grid = Grid {
        ttft: TimeSpan::milliseconds(50),
        tokens: 64,
        ..Grid::default()
    };
    let point = Point {
        concurrency: Some(streams),
        rate: None,
        gap: TimeSpan::milliseconds(gap_ms),
        requests,
    };
    let (launcher, generators) = (Launcher::own()?, processes(count));
    let measured = measure_point(
        &grid,
        point,
        &launcher,
        None,
        &origin(),
        &generators,
        &Control::quiet(),
    )?;
    let stamp = measured.errors_of("stamp").ok_or("no errors")?;
    let health = measured.health.as_ref();
    writeln!(
        out,
        "{streams:>7} {gap_ms:>7} {count:>10} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>7.4} {:>12} {:>10.0} {:>6}",
        stamp.absolute.p50,
        stamp.absolute.p99,
        stamp.absolute.max,
        health
            .and_then(|h| h.stamp_error_bound_ms)
            .unwrap_or(f64::NAN),
        measured.bound_covers.unwrap_or(f64::NAN),
        health
            .and_then(|h| h.verdict)
            .map_or("none", ClientVerdict::word),
        health.and_then(|h| h.chunk_rate).unwrap_or(f64::NAN),
        measured.lost
    )?;
    Ok(())
}
