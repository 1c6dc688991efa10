//! How far the load generator's figures are from what a reference server really sent.
//!
//! `cargo bench -p load --bench accuracy [-- --quick]`. The server is a process of its own on
//! the same machine; it logs when each token was really handed to the kernel. Printed per
//! number of streams: reported minus true TTFT (p50, p99) and chunk gap (p50), the client's CPU
//! time per token, and with no waiting at all the ceiling in requests and chunks a second.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use load::reference::read_truth;
use load::{
    Arrival, ClosedLoop, Count, Delivery, Distribution, LoadResult, LoadSpec, Origin, Output, OutputMode,
    Phase, PromptSet, Rate, RequestStatus, Sampling, Source, Span, Target, Timeouts, Words, Workload,
    run_load,
};
use pipeline::stage::{Control, Coordinates};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let quick = std::env::args().any(|a| a == "--quick");
    let mut out = std::io::stdout();
    writeln!(out, "TTFT 50 ms, 64 tokens, 10 ms apart; reported minus true, ms")?;
    writeln!(
        out,
        "{:>7} {:>9} {:>10} {:>10} {:>10} {:>10} {:>12} {:>8} {:>8}",
        "streams", "requests", "ttft p50", "ttft p99", "icl p50", "icl p99", "us CPU/tok", "req/s", "not ok"
    )?;
    for clients in [1, 16, 64, 256, 1024] {
        let requests = if quick { clients as usize * 2 } else { (clients as usize * 8).clamp(16, 4096) };
        let server = Server::start(&["--ttft-ms", "50", "--gap-ms", "10", "--tokens", "64"])?;
        let result = server.send(closed(clients), requests, 64)?;
        let truth = server.truth()?;
        let warm = requests.min(clients as usize);
        let (true_ttft, true_gap) = truth_figures(&truth, warm)?;
        let seen = load::summarize(&result.requests, &result.chunks, &Default::default());
        let (ttft, icl) = (seen.ttft.ok_or("no TTFT")?, seen.icl.ok_or("no gaps")?);
        writeln!(
            out,
            "{clients:>7} {requests:>9} {:>+10.3} {:>+10.3} {:>+10.3} {:>+10.3} {:>12.2} {:>8.1} {:>8}",
            ttft.p50 - true_ttft.p50,
            ttft.p99 - true_ttft.p99,
            icl.p50 - true_gap.p50,
            icl.p99 - true_gap.p99,
            cpu_us_per_chunk(&result),
            seen.request_throughput.unwrap_or_default(),
            not_ok(&result),
        )?;
    }
    writeln!(out, "\nceiling, 64 streams, no waiting")?;
    for (tokens, requests) in [(1, 40_000), (64, 6_000)] {
        let requests = if quick { requests / 10 } else { requests };
        let server = Server::start(&["--log", "0"])?;
        let result = server.send(closed(64), requests, tokens)?;
        let seen = load::summarize(&result.requests, &result.chunks, &Default::default());
        let rate = seen.request_throughput.unwrap_or_default();
        writeln!(
            out,
            "{tokens:>3} tokens: {rate:>9.0} req/s, {:>9.0} chunks/s, client {:.2} us CPU a chunk, {} not ok",
            rate * f64::from(tokens),
            cpu_us_per_chunk(&result),
            not_ok(&result)
        )?;
    }
    writeln!(out, "\nopen loop, gaps between sends: achieved rate, CV (constant wants 0, poisson 1)")?;
    for rate in [200.0, 1000.0, 2000.0] {
        for (arrival, word) in
            [(Arrival::Constant(Rate { rate }), "constant"), (Arrival::Poisson(Rate { rate }), "poisson")]
        {
            let server = Server::start(&["--ttft-ms", "5", "--tokens", "1", "--log", "0"])?;
            let result = server.send(arrival, if quick { 400 } else { 3000 }, 1)?;
            let measured = result.requests.iter().filter(|r| r.phase == Phase::Measured);
            let sent: Vec<i64> = measured.clone().filter_map(|r| r.sent_ns).collect();
            let scheduled: Vec<i64> = measured.map(|r| r.scheduled_ns).collect();
            let (sent, scheduled) = (gaps_of(sent)?, gaps_of(scheduled)?);
            let lag = load::summarize(&result.requests, &[], &Default::default()).send_lag.ok_or("no lag")?;
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

fn closed(clients: u32) -> Arrival {
    Arrival::ClosedLoop(ClosedLoop { clients, think_time: Span::default() })
}

fn gaps_of(mut stamps: Vec<i64>) -> Result<Distribution, Failure> {
    stamps.sort_unstable();
    let gaps = stamps.windows(2).map(|p| (p[1] - p[0]) as f64 / 1e6).collect();
    Ok(Distribution::of(gaps).ok_or("no gaps")?)
}

fn not_ok(result: &LoadResult) -> u64 {
    result.statuses().iter().filter(|(status, _)| **status != RequestStatus::Ok).map(|(_, n)| n).sum()
}

fn cpu_us_per_chunk(result: &LoadResult) -> f64 {
    let measured = result.chunks.len() as f64 * result.cell.expected_requests as f64
        / (result.cell.expected_requests + result.cell.warmup_requests) as f64;
    result.cell.client_cpu_ns.unwrap_or_default() as f64 / 1000.0 / measured
}

/// True TTFT and chunk gaps of the requests after the warm-up, ms.
fn truth_figures(
    truth: &[load::reference::Truth],
    warmup: usize,
) -> Result<(Distribution, Distribution), Failure> {
    let measured = &truth[warmup..];
    let ttft = measured.iter().filter_map(|t| Some((t.sent_ns.first()? - t.arrived_ns) as f64 / 1e6));
    let gaps = measured.iter().flat_map(|t| t.sent_ns.windows(2).map(|p| (p[1] - p[0]) as f64 / 1e6));
    let none = "the server logged nothing";
    Ok((Distribution::of(ttft.collect()).ok_or(none)?, Distribution::of(gaps.collect()).ok_or(none)?))
}

/// The reference server as a process.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start(arguments: &[&str]) -> Result<Self, Failure> {
        let mut process = Command::new(env!("CARGO_BIN_EXE_reference-server"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut url = String::new();
        BufReader::new(process.stdout.as_mut().ok_or("no output")?).read_line(&mut url)?;
        Ok(Self { process, url: url.trim().to_owned() })
    }

    fn send(&self, arrival: Arrival, requests: usize, tokens: u32) -> Result<LoadResult, Failure> {
        let warmup = arrival.clients().map_or(1, |c| (c as usize).min(requests));
        let workload = Workload {
            description: None,
            prompts: Source::Words(Words { length: Count::Fixed(20).into() }),
            system: None,
            output: Output { tokens: Count::Fixed(tokens), mode: OutputMode::Exact },
            sampling: Sampling::default(),
            sessions: None,
            structured: None,
            tokenizer: None,
            extra: Default::default(),
        };
        let origin = Origin { seed: 1, replicate: Coordinates::default() };
        let spec = LoadSpec {
            prompts: PromptSet::generate(&workload, &origin, warmup, requests)?,
            workload,
            arrival,
            delivery: Delivery::Streamed,
            timeouts: Timeouts::default(),
            heartbeat: Span::seconds(30),
            origin,
        };
        let target = Target {
            base_url: self.url.clone(),
            model: "reference".to_owned(),
            api: load::Api::OpenaiCompletions,
            path: None,
            headers: Vec::new(),
            api_key: None,
            metrics: None,
            log: None,
        };
        Ok(run_load(&spec, &target, &Control::quiet())?)
    }

    /// Ends the server by closing its input; it then writes its log to its output.
    fn truth(mut self) -> Result<Vec<load::reference::Truth>, Failure> {
        drop(self.process.stdin.take());
        let out = self.process.stdout.take().ok_or("no output")?;
        Ok(read_truth(BufReader::new(out))?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.process.kill();
        let _reaped = self.process.wait();
    }
}
