//! Loads a server at a URL, without an experiment: `load-url URL MODEL [CLIENTS] [REQUESTS] [API]`.

use std::io::Write;
use std::process::ExitCode;

use contract::{Api, Word as _};
use load::{
    Arrival, ClosedLoop, Delivery, Distribution, Extent, LoadSpec, Origin, PromptSet, Slo, Target,
    TimeSpan, Timeouts, Workload, run_load,
};
use pipeline::stage::{Control, Coordinates};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _nobody_listens = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let at = |i: usize, default: &str| arguments.get(i).cloned().unwrap_or(default.to_owned());
    let workload: Workload = serde_json::from_value(serde_json::json!({
        "prompts": {"words": {"length": {"from": 30, "to": 60}}},
        "output": {"tokens": 24, "mode": "exact"},
    }))?;
    let origin = Origin {
        seed: 164,
        replicate: Coordinates::default(),
    };
    let spec = LoadSpec {
        prompts: PromptSet::generate(&workload, &origin, 2, at(3, "16").parse()?)?,
        workload,
        arrival: Arrival::ClosedLoop(ClosedLoop {
            clients: at(2, "4").parse()?,
            think_time: TimeSpan::default(),
        }),
        delivery: Delivery::Streamed,
        timeouts: Timeouts::default(),
        heartbeat: TimeSpan::seconds(30),
        origin,
        extent: Extent::default(),
        files: Default::default(),
        generators: Default::default(),
    };
    let api = Api::parse(&at(4, "openai-completions"))?;
    let target = Target {
        metrics: Some("/metrics".to_owned()),
        ..Target::new(at(0, "http://127.0.0.1:8080"), at(1, ""), api)
    };
    let result = run_load(&spec, &target, &Control::quiet())?;
    let summary = result.summary(&Slo {
        ttft_ms: Some(500.0),
        ..Slo::default()
    })?;
    let mut out = std::io::stdout();
    writeln!(
        out,
        "ending {:?}, statuses {:?}, warnings {:?}",
        result.ending, summary.statuses, result.warnings
    )?;
    for row in result.requests.iter().filter(|r| r.error.is_some()) {
        writeln!(
            out,
            "  request {} attempt {}: {}",
            row.request_id,
            row.attempt,
            row.error.as_deref().unwrap_or("")
        )?;
    }
    writeln!(
        out,
        "req/s {:?}, output tok/s {:?}, goodput {:?}, metric samples {}, connections {}",
        summary.request_throughput,
        summary.output_throughput,
        summary.goodput,
        result.server_metrics.len(),
        result.cell.connections
    )?;
    let mut line = |name: &str, d: Option<Distribution>| match d {
        Some(d) => writeln!(
            out,
            "{name:<16} n {:>6} mean {:>9.3} p50 {:>9.3} p90 {:>9.3} p99 {:>9.3} max {:>9.3} ms",
            d.n, d.mean, d.p50, d.p90, d.p99, d.max
        ),
        None => writeln!(out, "{name:<16} undefined"),
    };
    line("ttft", summary.ttft)?;
    line("tpot", summary.tpot)?;
    line("icl", summary.icl)?;
    line("e2e_latency", summary.e2e_latency)?;
    line("send_lag", summary.send_lag)?;
    let server = |r: &contract::Request| Some(r.server_prompt_ms? + r.server_predicted_ms?);
    let beyond = result
        .requests
        .iter()
        .filter_map(|r| Some((r.last_token_ns? - r.headers_ns?) as f64 / 1e6 - server(r)?));
    line("client - server", Distribution::of(beyond.collect()))?;
    Ok(())
}
