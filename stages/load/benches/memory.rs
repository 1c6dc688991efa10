//! Measures the memory of a run by its number of requests.
//!
//! `cargo bench -p load --bench memory [-- REQUESTS…]` (20,000 and 60,000 without arguments). 64 clients send one-token
//! requests to a reference server in a separate process. Each run is also a separate process. The bench prints its peak
//! resident memory after the prompts are drawn and over the whole run, and how many requests were sent late because
//! they had not been rendered yet, or because too many answers were unread.

use std::io::Write;
use std::process::Command;

use contract::Api;
use load::reference::{Launcher, PROCESS_COMMAND, serve_process};
use load::{
    Arrival, ClosedLoop, Count, Delivery, Extent, LoadSpec, Monitoring, Origin, Output, OutputMode,
    PromptSet, PromptSource, Sampling, Slo, Summarizer, Target, Telemetry, TimeSpan, Timeouts,
    Words, Workload, run_load_into,
};
use pipeline::stage::{Control, Coordinates};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [command, options @ ..] = arguments.as_slice()
        && command == PROCESS_COMMAND
    {
        let options = options.iter().cloned();
        return Ok(serve_process(options, std::io::stdin(), std::io::stdout())?);
    }
    if let [one, requests] = arguments.as_slice()
        && one == "--one"
    {
        return measure(requests.parse()?);
    }
    let mut sizes: Vec<usize> = arguments.iter().filter_map(|a| a.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![20_000, 60_000];
    }
    writeln!(
        std::io::stdout(),
        "{:>9} {:>12} {:>15} {:>10} {:>9} {:>11} {:>10}",
        "requests",
        "drawn [MiB]",
        "whole run [MiB]",
        "req/s",
        "not ok",
        "unrendered",
        "held back"
    )?;
    for requests in sizes {
        let this = std::env::current_exe()?;
        if !Command::new(this)
            .args(["--one", &requests.to_string()])
            .status()?
            .success()
        {
            return Err(format!("the run of {requests} requests failed").into());
        }
    }
    Ok(())
}

/// Sends this many requests and prints what they took.
fn measure(requests: usize) -> Result<(), Failure> {
    let server = Launcher::own()?.start(&["--log".to_owned(), "0".to_owned()])?;
    let spec = spec(requests)?;
    let drawn = peak_mib()?;
    let folder = tempfile::tempdir()?;
    let mut summarizer = Summarizer::new(Slo::default(), folder.path());
    let monitoring = Monitoring::new(Telemetry::default());
    let target = Target::new(server.url(), "reference", Api::OpenaiCompletions);
    let control = Control::quiet();
    let files = run_load_into(
        &spec,
        &target,
        &monitoring,
        folder.path(),
        &control,
        &mut |row, chunks| summarizer.add(row, chunks),
    )?;
    let summary = summarizer.finish()?;
    let late = |why: &str| {
        files
            .observations
            .get(why)
            .map_or_else(|| "0".to_owned(), ToString::to_string)
    };
    let not_ok: u64 = summary
        .statuses
        .iter()
        .filter(|(s, _)| s.word() != "ok")
        .map(|(_, n)| n)
        .sum();
    writeln!(
        std::io::stdout(),
        "{requests:>9} {drawn:>12.1} {:>15.1} {:>10.0} {not_ok:>9} {:>11} {:>10}",
        peak_mib()?,
        summary.request_throughput.unwrap_or_default(),
        late("requests_unrendered"),
        late("requests_held_back"),
    )?;
    Ok(())
}

/// Returns the peak resident memory of this process, MiB.
fn peak_mib() -> Result<f64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .ok_or("no VmHWM")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<f64>()? / 1024.0)
}

fn spec(requests: usize) -> Result<LoadSpec, Failure> {
    let workload = Workload {
        sessions: None,
        structured: None,
        tokenizer: None,
        description: None,
        prompts: PromptSource::Words(Words {
            length: Count::Fixed(12).into(),
        }),
        drawn_by: Default::default(),
        batch_size: 1,
        system: None,
        output: Output {
            tokens: Count::Fixed(1),
            mode: OutputMode::Exact,
            replaces_recorded: false,
        },
        sampling: Sampling::default(),
        images: None,
        documents: None,
        extra: Default::default(),
    };
    let origin = Origin {
        seed: 1,
        replicate: Coordinates::default(),
    };
    Ok(LoadSpec {
        prompts: PromptSet::generate(&workload, &origin, 0, requests)?,
        workload,
        arrival: Arrival::ClosedLoop(ClosedLoop {
            clients: 64,
            think_time: TimeSpan::default(),
        }),
        delivery: Delivery::Streamed,
        timeouts: Timeouts::default(),
        heartbeat: TimeSpan::seconds(60),
        origin,
        extent: Extent::default(),
        files: Default::default(),
        generators: Default::default(),
    })
}
