//! Many request rows in 120 cells: count, mean, exact p50 and p99 of a metric in each cell, computed by the operator
//! `distribution` and, in the same run on the same files, by DuckDB, Polars and pandas. Targets for 50 million rows on
//! two cores: as fast as DuckDB, in less than 1 GiB.
//!
//! `BENCHTRAIL_PYTHON=env/bin/python cargo bench -p analyze --bench requests -- 50` measures 50 million rows. The
//! default is 5 million. A row takes 40 bytes on disk, in the folder for temporary files. `env` is a virtual
//! environment with duckdb, polars and pandas; the bench skips a missing package and says so.

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]

mod common;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use artifacts::{Column, Digest, Scalar, Store, Table, TableWriter};
use contract::synthetic;
use contract::synthetic_grid::verification;
use pipeline::{Artifact, Content, Input, InputCell, Json, Media};
use serde_json::json;

use crate::common::{analyze, cpu_seconds, peak_mib};

const CELLS: usize = 120;

/// Rows generated at once.
const BATCH: usize = 1 << 14;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, role, folder, threads] = arguments.as_slice()
        && role == "again"
    {
        return measure(
            Path::new(folder),
            threads.parse().expect("a number of threads"),
        );
    }
    let millions = arguments
        .iter()
        .find_map(|a| a.parse::<f64>().ok())
        .unwrap_or(5.0);
    let folder = tempfile::tempdir().expect("a folder");
    generate(folder.path(), (millions * 1e6) as usize / CELLS);
    let ours: Vec<Json> = [2, 1, 16]
        .iter()
        .map(|threads| again(folder.path(), *threads))
        .collect();
    for run in &ours {
        println!(
            "  distribution, {:>2} threads: {:7.3} s wall {:7.2} s CPU, peak {:5.0} MiB",
            run["threads"],
            num(&run["wall"]),
            num(&run["cpu"]),
            num(&run["peak_mib"])
        );
    }
    assert!(
        ours.iter().all(|o| o["digest"] == ours[0]["digest"]),
        "the bytes depend on the number of threads"
    );
    println!(
        "  the same bytes at 2, 1 and 16 threads: {}",
        ours[0]["digest"].as_str().unwrap_or_default()
    );
    for tool in ["duckdb", "polars", "pandas"] {
        match theirs(folder.path(), tool) {
            Err(why) => println!("  {tool} is left out: {why}"),
            Ok(timing) => println!(
                "  {tool} {}, 2 threads: {:7.3} s wall {:7.2} s CPU, peak {:5.0} MiB; values differ by {:.1e} relative",
                timing["version"].as_str().unwrap_or_default(),
                num(&timing["wall"]),
                num(&timing["cpu"]),
                num(&timing["peak_mib"]),
                furthest(&ours[0]["values"], &timing["values"])
            ),
        }
    }
}

fn num(value: &Json) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// Returns the largest relative difference between two lists of numeric rows.
fn furthest(ours: &Json, theirs: &Json) -> f64 {
    let rows = |v: &Json| v.as_array().cloned().unwrap_or_default();
    let flat = |v: &Json| {
        rows(v)
            .iter()
            .flat_map(rows)
            .map(|v| num(&v))
            .collect::<Vec<f64>>()
    };
    let (ours, theirs) = (flat(ours), flat(theirs));
    assert_eq!(
        ours.len(),
        theirs.len(),
        "the other tool found other groups"
    );
    ours.iter()
        .zip(&theirs)
        .map(|(a, b)| ((a - b) / a).abs())
        .fold(0.0, f64::max)
}

/// A generator of 64-bit numbers (SplitMix64, Steele et al. 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Exponentially distributed nanoseconds.
    fn span(&mut self, mean_ns: f64) -> i64 {
        let uniform = ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        (-uniform.ln() * mean_ns) as i64
    }
}

/// Writes the cells to a store, streamed, and the list of them beside it.
fn generate(folder: &Path, rows: usize) {
    let start = Instant::now();
    let store = Store::open(&folder.join("store")).expect("a store");
    let (mut cells, mut bytes) = (Vec::new(), 0);
    for cell in 0..CELLS {
        let path = folder.join("requests.parquet");
        let mut writer =
            TableWriter::create(&path, batch(0, 0, &mut Clock::default(), cell).as_slice())
                .expect("the file can be made");
        let mut clock = Clock::default();
        for first in (0..rows).step_by(BATCH) {
            let columns = batch(first, BATCH.min(rows - first), &mut clock, cell);
            writer
                .write(&Table::new(columns).expect("a table"))
                .expect("it is written");
        }
        writer.finish().expect("it is written");
        let size = std::fs::metadata(&path).expect("it is there").len();
        bytes += size;
        let digest = store.put_file(&path).expect("the store takes it");
        cells.push(json!({"digest": digest.to_string(), "bytes": size, "rows": rows}));
    }
    let all = rows * CELLS;
    println!(
        "{all} rows in {CELLS} cells, {:.0} MB of Parquet, made in {:.1} s",
        bytes as f64 / 1e6,
        start.elapsed().as_secs_f64()
    );
    std::fs::write(folder.join("cells.json"), Json::Array(cells).to_string())
        .expect("it is written");
}

/// When the next request is sent, and the random numbers behind it.
#[derive(Default)]
struct Clock {
    now: i64,
    random: Option<Random>,
}

/// Returns rows of a cell, in the columns common to all load cells.
fn batch(first: usize, rows: usize, clock: &mut Clock, cell: usize) -> Vec<Column> {
    let random = clock.random.get_or_insert(Random(cell as u64));
    let mut times = Vec::with_capacity(rows);
    for i in 0..rows {
        clock.now += random.span(1e6);
        let sent = clock.now;
        let token = sent + 5_000_000 + random.span(20e6 + cell as f64 * 1e5);
        let last = token + 100_000_000 + random.span(50e6);
        times.push((sent, token, last, (first + i).is_multiple_of(1_000)));
    }
    let int = |name: &str, read: fn(&(i64, i64, i64, bool)) -> i64| {
        Column::int(name, times.iter().map(|t| Some(read(t))))
    };
    let text = |name: &str, read: fn(&(i64, i64, i64, bool)) -> &'static str| {
        Column::text(name, times.iter().map(|t| Some(read(t))))
    };
    vec![
        Column::int(
            "request_id",
            (first..first + rows).map(|i| i64::try_from(i).ok()),
        ),
        text("phase", |_| "measured"),
        text("status", |t| if t.3 { "http_error" } else { "ok" }),
        int("sent_ns", |t| t.0).unit("ns"),
        int("first_token_ns", |t| t.1).unit("ns"),
        int("last_token_ns", |t| t.2).unit("ns"),
        int("done_ns", |t| t.2 + 50_000).unit("ns"),
        int("prompt_tokens", |t| 100 + t.0 % 29).unit("tok"),
        int("output_tokens", |t| 16 + t.1 % 17).unit("tok"),
    ]
}

/// Measures in a separate process, so that the peak memory is that of the analysis alone.
fn again(folder: &Path, threads: usize) -> Json {
    let exe = std::env::current_exe().expect("our own path");
    let output = Command::new(exe)
        .args(["again", &folder.to_string_lossy(), &threads.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .expect("it starts");
    assert!(output.status.success(), "the analysis failed");
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

/// Analyzes the cells: from Parquet in the store to Parquet.
fn measure(folder: &Path, threads: usize) {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .expect("threads start");
    let store = Store::open(&folder.join("store")).expect("the store");
    let text = std::fs::read_to_string(folder.join("cells.json")).expect("the list of cells");
    let listed: Vec<Json> = serde_json::from_str(&text).expect("a list");
    let cells = listed.iter().enumerate().map(|(i, output)| {
        let digest: Digest = output["digest"]
            .as_str()
            .and_then(|d| d.parse().ok())
            .expect("a digest");
        let (bytes, rows) = (
            output["bytes"].as_u64().unwrap_or(0),
            output["rows"].as_u64(),
        );
        let artifact = Artifact {
            digest,
            media: Media::Parquet,
            bytes,
            rows,
        };
        let at = [("cell", Scalar::Int(i as i64))];
        let cell = synthetic::cell(&store, &at, Json::Null, &[]).expect("no table to keep");
        InputCell {
            outputs: BTreeMap::from([("requests".to_owned(), artifact)]),
            ..cell
        }
    });
    let load = synthetic::input("load", "load", cells.collect());
    let inputs: Vec<Input> = vec![
        load,
        verification(&store, "load").expect("the store takes it"),
    ];
    let tables = json!({"ttft": {"operator": "distribution", "metrics": ["ttft_ms"], "quantiles": [0.5, 0.99]}});
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let done = pool.install(|| analyze(&tables, &inputs, &store, folder));
    let (wall, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let mut all = Vec::new();
    for output in &done.outputs {
        let Content::Bytes(bytes) = &output.content else {
            panic!("{} is a file", output.name)
        };
        all.extend_from_slice(bytes);
    }
    let Content::Bytes(bytes) = &done.outputs[0].content else {
        panic!("a table is bytes")
    };
    let table = Table::from_parquet(bytes.clone()).expect("our own table");
    let column = |name: &str| table.float(name).expect("the column is there");
    let (n, mean) = (column("ttft_ms_n"), column("ttft_ms_mean"));
    let (p50, p99) = (column("ttft_ms_p50"), column("ttft_ms_p99"));
    let values: Vec<Json> = (0..table.rows())
        .map(|i| json!([n[i], mean[i], p50[i], p99[i]]))
        .collect();
    println!(
        "{}",
        json!({"threads": threads, "wall": wall, "cpu": cpu, "peak_mib": peak_mib(),
            "digest": Digest::of(&all).to_string(), "values": values})
    );
}

/// Runs the same query on the same files in another tool.
#[expect(
    clippy::disallowed_methods,
    reason = "selects the Python that has the peers"
)]
fn theirs(folder: &Path, tool: &str) -> Result<Json, String> {
    let store = Store::open(&folder.join("store")).map_err(|e| e.to_string())?;
    let text = std::fs::read_to_string(folder.join("cells.json")).map_err(|e| e.to_string())?;
    let listed: Vec<Json> = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    let digests = listed
        .iter()
        .filter_map(|output| output["digest"].as_str()?.parse::<Digest>().ok());
    let files: Vec<String> = digests
        .map(|d| store.path(&d).to_string_lossy().into_owned())
        .collect();
    let python = std::env::var("BENCHTRAIL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/requests.py");
    let mut child = Command::new(&python)
        .args([script, tool])
        // Polars reads its thread count when it is imported.
        .env("POLARS_MAX_THREADS", "2")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{python}: {e}"))?;
    let written = child
        .stdin
        .take()
        .expect("it is piped")
        .write_all(json!(files).to_string().as_bytes());
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
