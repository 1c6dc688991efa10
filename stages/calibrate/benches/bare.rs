//! The load generator and a bare client, alternating on the same server.
//!
//! `cargo bench -p calibrate --bench bare [-- --quick]`. The bare client is only hyper: one connection per stream, one
//! thread, two stamps per request. It parses no events, counts no tokens and writes nothing. The load generator parses
//! every event and writes its tables into a folder. Each run is its own process, so its CPU time is that of the whole
//! process. The bench starts its own binary as server and clients, so it also runs on machines without a Rust toolchain.
//! It prints for each number of streams the medians over the rounds, and the median of the differences of the pairs.

mod client;

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use contract::{Api, Phase};
use load::reference::{Launcher, PROCESS_COMMAND, ReferenceProcess, serve_process};
use load::{
    LoadSpec, Monitoring, Origin, Settings, Slo, Summarizer, Target, Telemetry, run_load_into,
};
use pipeline::stage::{Control, Coordinates};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use serde_json::json;

use client::{BareClient, Failure};

/// Tokens of each answer. The first comes 50 ms after the server has read the request, and the others follow every 10
/// ms.
const TOKENS: u32 = 64;
/// Requests of each stream. The first is warm-up.
const REQUESTS: usize = 4;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().map(String::as_str) == Some(PROCESS_COMMAND) {
        let options = arguments.into_iter().skip(1);
        return Ok(serve_process(options, std::io::stdin(), std::io::stdout())?);
    }
    if let Some([what, url, streams]) = arguments
        .iter()
        .position(|a| a == "client")
        .and_then(|at| arguments.get(at + 1..at + 4))
    {
        let streams = streams.parse()?;
        let seen = match what.as_str() {
            "bare" => bare(url, streams)?,
            _ => ours(url, streams)?,
        };
        return Ok(writeln!(
            std::io::stdout(),
            "{}",
            serde_json::to_string(&seen)?
        )?);
    }
    let rounds = if arguments.iter().any(|a| a == "--quick") {
        1
    } else {
        7
    };
    compare(&mut std::io::stdout(), rounds)
}

/// The measurements of one client.
#[derive(Debug, Serialize, Deserialize)]
struct Seen {
    /// Median time from before the request is written until the first bytes of its first event are read, ms.
    ttft_ms: f64,
    /// The 99th percentile of that time, ms.
    ttft_p99_ms: f64,
    /// CPU time of the whole process per received token, µs.
    cpu_us: f64,
    /// Requests without a complete answer.
    lost: usize,
}

impl Seen {
    fn of(mut ttft_ms: Vec<f64>, tokens: f64, lost: usize) -> Result<Self, Failure> {
        ttft_ms.sort_unstable_by(f64::total_cmp);
        let last = ttft_ms.len().checked_sub(1).ok_or("no answer")?;
        Ok(Self {
            ttft_ms: ttft_ms[last / 2],
            ttft_p99_ms: ttft_ms[last * 99 / 100],
            cpu_us: cpu().as_secs_f64() * 1e6 / tokens,
            lost,
        })
    }
}

/// Returns the CPU time of all threads of this process.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

fn compare(out: &mut impl Write, rounds: usize) -> Result<(), Failure> {
    writeln!(
        out,
        "TTFT 50 ms, {TOKENS} tokens, 10 ms apart, {REQUESTS} requests a stream; medians of {rounds} rounds"
    )?;
    writeln!(
        out,
        "{:>7} {:>9} {:>9} {:>7} {:>9} {:>9} {:>7} {:>10} {:>9} {:>5}",
        "streams",
        "bare p50",
        "p99",
        "us/tok",
        "ours p50",
        "p99",
        "us/tok",
        "ours−bare",
        "us ratio",
        "lost"
    )?;
    for streams in ["64", "256", "1024", "4096"] {
        let (mut bare, mut ours) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let mut both = [("bare", &mut bare), ("ours", &mut ours)];
            if round % 2 == 1 {
                both.reverse();
            }
            for (what, seen) in both {
                seen.push(one(what, streams)?);
            }
        }
        let median = |values: &mut dyn Iterator<Item = f64>| {
            let mut values: Vec<f64> = values.collect();
            values.sort_unstable_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let middle = |seen: &[Seen], pick: fn(&Seen) -> f64| median(&mut seen.iter().map(pick));
        let pairs = || bare.iter().zip(&ours);
        writeln!(
            out,
            "{streams:>7} {:>9.3} {:>9.3} {:>7.2} {:>9.3} {:>9.3} {:>7.2} {:>+10.3} {:>9.2} {:>5}",
            middle(&bare, |s| s.ttft_ms),
            middle(&bare, |s| s.ttft_p99_ms),
            middle(&bare, |s| s.cpu_us),
            middle(&ours, |s| s.ttft_ms),
            middle(&ours, |s| s.ttft_p99_ms),
            middle(&ours, |s| s.cpu_us),
            median(&mut pairs().map(|(b, o)| o.ttft_ms - b.ttft_ms)),
            median(&mut pairs().map(|(b, o)| o.cpu_us / b.cpu_us)),
            pairs().map(|(b, o)| b.lost + o.lost).sum::<usize>(),
        )?;
    }
    Ok(())
}

/// Runs one client against its own server.
fn one(what: &str, streams: &str) -> Result<Seen, Failure> {
    let arguments = ["--ttft-ms", "50", "--gap-ms", "10", "--log", "0"].map(str::to_owned);
    let server: ReferenceProcess = Launcher::own()?.start(&arguments)?;
    let output = Command::new(std::env::current_exe()?)
        .args(["client", what, server.url(), streams])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("the client `{what}` failed").into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Runs the load generator like `benchtrail load`, which writes tables as it goes.
fn ours(url: &str, streams: u32) -> Result<Seen, Failure> {
    let warmup = streams as usize;
    let settings: Settings = serde_json::from_value(json!({
        "workload": {
            "prompts": {"words": {"length": 20}},
            "output": {"tokens": TOKENS, "mode": "exact"},
        },
        "arrival": {"closed-loop": {"clients": streams}},
        "requests": warmup * (REQUESTS - 1),
        "warmup": warmup,
        "heartbeat": "30 s",
    }))?;
    let origin = Origin {
        seed: 1,
        replicate: Coordinates::default(),
    };
    let spec = LoadSpec::new(settings, origin)?;
    let target = Target::new(url, "reference", Api::OpenaiCompletions);
    let folder = tempfile::tempdir()?;
    let mut summarizer = Summarizer::new(Slo::default(), folder.path());
    let (mut ttft, mut tokens, mut lost) = (Vec::new(), 0.0, 0);
    run_load_into(
        &spec,
        &target,
        &Monitoring::new(Telemetry::none()),
        folder.path(),
        &Control::quiet(),
        &mut |row, chunks| {
            tokens += chunks.len() as f64;
            match (row.sent_ns, row.first_token_ns) {
                (Some(sent), Some(first)) if row.phase == Phase::Measured => {
                    ttft.push((first - sent) as f64 / 1e6);
                }
                (Some(_), Some(_)) => {}
                _ => lost += 1,
            }
            summarizer.add(row, chunks)
        },
    )?;
    summarizer.finish()?;
    Seen::of(ttft, tokens, lost)
}

/// Runs the bare client.
fn bare(url: &str, streams: u32) -> Result<Seen, Failure> {
    let body = BareClient::body(20, TOKENS)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let answers = runtime.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..streams {
            clients.push(BareClient::connect(url, body.clone()).await?);
        }
        let streams = clients
            .into_iter()
            .map(|client| tokio::spawn(stream(client)));
        let streams: Vec<_> = streams.collect();
        let mut answers = Vec::new();
        for stream in streams {
            answers.push(stream.await?);
        }
        Ok::<_, Failure>(answers)
    })?;
    let whole = answers.iter().flatten().flatten();
    let ttft: Vec<f64> = whole.clone().map(|ttft| ttft.as_secs_f64() * 1e3).collect();
    let lost = answers.iter().flatten().filter(|a| a.is_none()).count();
    let tokens = ttft.len() as f64 * f64::from(TOKENS);
    let measured = answers.iter().flat_map(|a| a.iter().skip(1)).flatten();
    let measured = measured.map(|ttft| ttft.as_secs_f64() * 1e3);
    Seen::of(measured.collect(), tokens, lost)
}

/// Sends the requests of one stream, each after the previous answer. Returns the time to the first data of each.
async fn stream(mut client: BareClient) -> Vec<Option<Duration>> {
    let mut all = Vec::new();
    for _ in 0..REQUESTS {
        all.push(client.answer().await.ok());
    }
    all
}
