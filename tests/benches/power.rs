//! Simulates verdicts many times, for every shipped experiment with comparisons and for two synthetic ones with many
//! tables. Prints the table of docs/operating-characteristics.md, and fails if more than 5 % of the studies without an
//! effect have a false verdict, allowing for the error of the simulation.
//!
//! `cargo bench --bench power` simulates 1,000 studies each. After `--`, a number sets the number of studies; other
//! words select the files whose names contain one of them. `cargo bench --profile dev --bench power -- 20 quickstart`
//! takes seconds once built. `BENCHTRAIL` names a different binary.

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]
#![expect(
    clippy::disallowed_methods,
    reason = "a bench may be given the binary to run"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::Value;

fn main() -> ExitCode {
    // cargo passes `--bench`.
    let given = || std::env::args().skip(1).filter(|a| !a.starts_with('-'));
    let studies = given().find_map(|a| a.parse::<u64>().ok()).unwrap_or(1_000);
    let words: Vec<String> = given().filter(|a| a.parse::<u64>().is_err()).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["experiments", "experiments/gpu", "tests/benches/power"];
    let mut files: Vec<PathBuf> = folders.iter().flat_map(|f| yaml(&root.join(f))).collect();
    files.sort();
    let wanted = |file: &PathBuf| {
        let name = file.to_string_lossy();
        words.is_empty() || words.iter().any(|word| name.contains(word.as_str()))
    };
    let store = std::env::temp_dir().join(format!("benchtrail-power-{}", std::process::id()));
    println!(
        "| study | studies | tests | any false verdict | A/A check | comparison finds 5 % | 10 % | 20 % | cell by cell, 20 % |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|");
    let mut wrong = Vec::new();
    for file in files.into_iter().filter(wanted) {
        // It has ten times as many cells as any other experiment.
        let large = file.ends_with("planted-grid.yaml");
        let studies = if large {
            (studies / 10).max(20)
        } else {
            studies
        };
        let name = file
            .strip_prefix(root)
            .unwrap_or(&file)
            .display()
            .to_string();
        let Some(summary) = power(&file, studies, &store) else {
            continue;
        };
        for stage in summary["stages"].as_array().into_iter().flatten() {
            wrong.extend(line(&name, &stage["found"]));
        }
    }
    // An empty store, needed only for the plan.
    std::fs::remove_dir_all(&store).ok();
    if wrong.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("\nOutside its bounds:\n{}", wrong.join("\n"));
    ExitCode::FAILURE
}

/// Simulates one experiment; `None` if it compares nothing, as with most shipped ones.
fn power(file: &Path, studies: u64, store: &Path) -> Option<Value> {
    let built = || env!("CARGO_BIN_EXE_benchtrail").into();
    let binary = std::env::var_os("BENCHTRAIL").unwrap_or_else(built);
    let effects = ["--effect", "5", "--effect", "10", "--effect", "20"];
    let shown = Command::new(binary)
        .args(["power", "--json", "--studies", &studies.to_string()])
        .args(effects)
        .arg("--store")
        .arg(store)
        .arg(file)
        .output()
        .expect("the binary starts");
    let said = String::from_utf8_lossy(&shown.stderr);
    assert!(matches!(shown.status.code(), Some(0 | 5)), "{said}");
    let summary = || serde_json::from_slice(&shown.stdout).expect("JSON");
    (shown.status.code() == Some(0)).then(summary)
}

/// Prints the result of one analyze stage, and returns the figures outside their bounds.
fn line(name: &str, summary: &Value) -> Option<String> {
    let studies = summary["studies"].as_f64().unwrap_or(0.0);
    let tables = || summary["tables"].as_array().into_iter().flatten();
    let ours =
        |check: bool| tables().filter(move |t| t["check"] == check && t["refused"].is_null());
    let share = |count: f64, total: f64| format!("{:.1} %", 100.0 * count / total);
    let any = summary["any_different"].as_f64().unwrap_or(0.0);
    let check = match ours(true).next() {
        None => "none".to_owned(),
        Some(_) => share(
            summary["any_check_different"].as_f64().unwrap_or(0.0),
            studies,
        ),
    };
    let finds = |table: Option<&Value>, effect: f64| -> String {
        let table = table.filter(|t| t["rows"].as_f64() > Some(0.0));
        let at = table.and_then(|t| {
            let at = t["at"]
                .as_array()?
                .iter()
                .find(|at| at["effect"] == effect)?;
            Some((at["rows_found"].as_f64()?, t["rows"].as_f64()?))
        });
        at.map_or_else(
            || "none".to_owned(),
            |(rows, total)| share(rows, total * studies),
        )
    };
    let tests: f64 = ours(false).filter_map(|t| t["rows"].as_f64()).sum();
    let named = |name: &str| ours(false).find(|t| t["table"] == name);
    let (cells, whole) = (
        named("cellwise"),
        named("comparison").or_else(|| ours(false).next()),
    );
    println!(
        "| {name} | {studies} | {tests} | {} | {check} | {} | {} | {} | {} |",
        share(any, studies),
        finds(whole, 0.05),
        finds(whole, 0.1),
        finds(whole, 0.2),
        finds(cells, 0.2)
    );
    let bound = studies * 0.05 + 4.0 * (studies * 0.05 * 0.95).sqrt();
    (any > bound).then(|| format!("{name}: {any} of {studies} have a false verdict"))
}

fn yaml(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).expect("the experiments are there");
    let mut files: Vec<_> = files.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == "yaml"));
    files
}
