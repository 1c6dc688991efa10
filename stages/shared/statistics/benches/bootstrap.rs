//! Compares bootstrap intervals with SciPy's on the same data in one run: wall time, and CPU time, which does not grow
//! on a busy machine. Target: at least 20 times as fast.
//!
//! `BENCHTRAIL_PYTHON=env/bin/python cargo bench -p statistics --bench bootstrap`, where `env` is a virtual environment
//! with SciPy. Without SciPy, the bench times only this crate and prints that. A number after `--` sets the number of
//! threads (2).

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use statistics::{Bootstrap, BootstrapKind, Sample};

const RESAMPLES: usize = 10_000;

/// The number of runs of each side; the best one counts.
const RUNS: usize = 15;

fn main() {
    let cases: Vec<(BootstrapKind, Vec<f64>)> = [BootstrapKind::Percentile, BootstrapKind::Bca]
        .into_iter()
        .flat_map(|kind| [25, 100, 1_000].map(|n| (kind, data(n))))
        .collect();
    let theirs = scipy(&cases);
    if let Err(why) = &theirs {
        println!("SciPy is left out: {why}");
    }
    let threads = std::env::args()
        .find_map(|a| a.parse::<usize>().ok())
        .unwrap_or(2);
    println!("mean, {RESAMPLES} resamples, level 0.95, best of {RUNS}, {threads} threads");
    // Inside the pool, like an operator.
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .expect("threads start");
    pool.install(|| report(&cases, &theirs));
}

/// Times this crate and prints both sides.
fn report(cases: &[(BootstrapKind, Vec<f64>)], theirs: &Result<Value, String>) {
    for (i, (kind, values)) in cases.iter().enumerate() {
        let bootstrap = Bootstrap {
            kind: *kind,
            resamples: RESAMPLES,
            level: 0.95,
            seed: 164,
        };
        let (mut best, mut busy) = (f64::INFINITY, f64::INFINITY);
        let mut interval = None;
        for _ in 0..RUNS {
            // The caller has values, not a sample, so building the sample is part of the work.
            let (start, cpu) = (Instant::now(), cpu_seconds());
            let sample = Sample::new(values.iter().copied()).expect("finite values");
            interval = bootstrap.interval_of_mean(&sample);
            best = best.min(start.elapsed().as_secs_f64());
            busy = busy.min(cpu_seconds() - cpu);
        }
        let interval = interval.expect("the interval exists");
        print!(
            "{:10} n = {:5}: {:8.3} ms, CPU {:8.3} ms [{:.4}, {:.4}]",
            kind.word(),
            values.len(),
            best * 1e3,
            busy * 1e3,
            interval.low,
            interval.high
        );
        let Ok(theirs) = theirs else {
            println!();
            continue;
        };
        let number = |name: &str| theirs["cases"][i][name].as_f64().unwrap_or(f64::NAN);
        println!(
            "   SciPy {}: {:9.3} ms, CPU {:9.3} ms [{:.4}, {:.4}]   ratio {:.1}, of CPU {:.1}",
            theirs["scipy"].as_str().unwrap_or_default(),
            number("seconds") * 1e3,
            number("cpu") * 1e3,
            number("low"),
            number("high"),
            number("seconds") / best,
            number("cpu") / busy
        );
    }
}

/// Returns the CPU time of all threads so far.
fn cpu_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Returns skewed latencies, equal in every run.
fn data(n: u32) -> Vec<f64> {
    (1..=n)
        .map(|i| 20.0 + f64::from(i * 7919 % 1009) / 50.0 + f64::from(i % 17).powi(2) / 10.0)
        .collect()
}

/// Times SciPy on the same values.
#[expect(clippy::disallowed_methods, reason = "selects the Python of the peers")]
fn scipy(cases: &[(BootstrapKind, Vec<f64>)]) -> Result<Value, String> {
    let python = std::env::var("BENCHTRAIL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/bootstrap.py");
    let mut child = Command::new(&python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{python}: {e}"))?;
    let cases: Vec<Value> = cases
        .iter()
        .map(|(kind, values)| json!({"kind": kind.word(), "values": values}))
        .collect();
    let input = json!({"resamples": RESAMPLES, "runs": RUNS, "cases": cases}).to_string();
    // A script that has already ended does not read; its output is reported below.
    let written = child
        .stdin
        .take()
        .expect("it is piped")
        .write_all(input.as_bytes());
    let output = child
        .wait_with_output()
        .map_err(|e| format!("{python}: {e}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr)
            .lines()
            .last()
            .unwrap_or_default()
            .to_owned());
    }
    written.map_err(|e| format!("{python}: {e}"))?;
    serde_json::from_slice(&output.stdout).map_err(|e| format!("{script}: {e}"))
}
