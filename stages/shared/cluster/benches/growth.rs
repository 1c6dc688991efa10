//! Measures what it costs to plan a study and to account for it: 10,000, 30,000 and 100,000 measured cells on 1,000
//! machines of Slurm. Prints the processor time and the memory of the coordinating process, and how they grow.
//!
//! Planning, the coordinator, the stores and the documents are real. Two things are replaced. *Slurm* is a stand-in:
//! `sbatch` and `squeue` are this program under other names. The *machines* are simulated: every cell is executed in
//! advance, and the stand-in puts the documents of the records into the shared store as machines do. Between two looks
//! of the coordinator, every running job finishes one cell. A launch has ten cells, so 100,000 cells are 10,000 jobs.
//!
//! Each part runs in its own process. Its processor time covers all its threads, but not the stand-in.
//!
//! `cargo bench -p cluster --bench growth` measures all three sizes. Numbers after `--` select other sizes. With
//! `--pace=10`, only one in ten running jobs finishes a cell between two looks.

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]

#[path = "growth/kinds.rs"]
mod kinds;
#[path = "growth/stand_in.rs"]
mod stand_in;
#[path = "growth/study.rs"]
mod study;

use std::fs;
use std::path::Path;

use crate::study::{Size, account, again, measure_beforehand, plan};

/// The measured sizes: numbers of measured cells.
const SIZES: [usize; 3] = [10_000, 30_000, 100_000];

/// The parts measured for each size. This program starts itself under these names.
const PARTS: [&str; 3] = ["beforehand", "plan", "account"];

fn of(measured: usize, pace: usize) -> Size {
    Size {
        configurations: 100,
        replicates: measured / 1_000,
        of_launch: 10,
        machines: 1_000,
        pace,
    }
}

/// Returns the processor time of this process and all its threads, s.
fn processor_time() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").expect("/proc is there");
    // The fields follow the name, which is in parentheses and may contain anything. The unit is a tick of 10 ms.
    let fields = text.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    let seconds = ticks.map(|t| t.parse::<f64>().expect("a number") / 100.0);
    seconds.sum()
}

fn peak_mib() -> f64 {
    let text = fs::read_to_string("/proc/self/status").expect("/proc is there");
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.expect("/proc/self/status has VmHWM") / 1024.0
}

/// Runs one part, and prints its cost, in total and for each measured cell.
fn part(part: &str, folder: &Path, size: Size) {
    let mut last = processor_time();
    let mut times: Vec<String> = Vec::new();
    let mut total = 0.0;
    let mut mark = |what: &'static str| {
        let now = processor_time();
        total += now - last;
        times.push(format!(
            "{what} {:.2} s to {:.0} MiB",
            now - last,
            peak_mib()
        ));
        last = now;
    };
    match part {
        "beforehand" => return measure_beforehand(folder, size),
        "plan" => plan(folder, size, &mut mark),
        _ => {
            let (work, _) = account(folder, size, &mut mark);
            times.push(format!("{} looks, {} plans", work.looks, work.plans));
        }
    }
    println!(
        "| {part} | {} | {total:.2} s | {:.3} ms | {:.0} MiB | {} |",
        size.measured(),
        total * 1e3 / size.measured() as f64,
        peak_mib(),
        times.join(", ")
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if stand_in::answer(&arguments) {
        return;
    }
    if let [_, name, folder, size] = arguments.as_slice()
        && let Some(size) = Size::parse(size)
    {
        part(name, Path::new(folder), size);
        return;
    }
    let pace = arguments.iter().find_map(|a| a.strip_prefix("--pace="));
    let pace = pace.map_or(1, |pace| pace.parse().expect("a number"));
    let mut sizes: Vec<usize> = arguments.iter().filter_map(|a| a.parse().ok()).collect();
    if sizes.is_empty() {
        sizes.extend(SIZES);
    }
    println!("| part | measured cells | CPU | for each cell | peak memory | of it |");
    println!("|---|---:|---:|---:|---:|---|");
    for size in sizes.into_iter().map(|size| of(size, pace)) {
        let folder = tempfile::tempdir().expect("a folder");
        for name in PARTS {
            let status = again(name, folder.path(), size).status();
            assert!(status.expect("spawned").success(), "{name} of {size:?}");
        }
    }
}
