//! How often `diff --gate` fails and passes between studies with equal and with different designs.
//!
//! `cargo bench -p compare --bench gate`; after `--`, a number sets the number of pairs of studies per figure (4,000), and other
//! words select the pairs whose names contain one of them. Ends with an error if a figure exceeds its stated rate by more than
//! four standard errors.

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]

use std::process::ExitCode;

use compare::Rule;
use compare::operating::pairs;

fn main() -> ExitCode {
    // cargo passes `--bench`.
    let given = || std::env::args().skip(1).filter(|a| !a.starts_with('-'));
    let studies = given().find_map(|a| a.parse::<u64>().ok()).unwrap_or(4_000);
    let words: Vec<String> = given().filter(|a| a.parse::<u64>().is_err()).collect();
    let rule = Rule::default();
    let n = studies as f64;
    println!("Of {studies} pairs of studies each, % of gates.\n");
    println!(
        "| studies | equal: fails | equal: passes | 1.05×: passes | 1.1×: fails | 1.1×: passes | 1.2×: fails | equal: undecidable |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|");
    let mut wrong = Vec::new();
    for pair in pairs() {
        if !words.is_empty() && !words.iter().any(|word| pair.name.contains(word.as_str())) {
            continue;
        }
        let most = pair.stated * n + 4.0 * (pair.stated * (1.0 - pair.stated) * n).sqrt();
        let [equal, margin, tenth, fifth] =
            [1.0, 1.05, 1.1, 1.2].map(|factor| pair.count(factor, &rule, studies));
        let percent = |count: u64| format!("{:.1}", 100.0 * count as f64 / n);
        let shown = [
            equal.fail,
            equal.pass,
            margin.pass,
            tenth.fail,
            tenth.pass,
            fifth.fail,
            equal.undecidable,
        ];
        println!("| {} | {} |", pair.name, shown.map(percent).join(" | "));
        for (what, count) in [("fails", equal.fail), ("passes 1.05×", margin.pass)] {
            if count as f64 > most {
                wrong.push(format!("{}: {what} {count}", pair.name));
            }
        }
    }
    if wrong.is_empty() {
        println!("\nEvery figure is within its bounds.");
        return ExitCode::SUCCESS;
    }
    println!("\nOutside its bounds:\n{}", wrong.join("\n"));
    ExitCode::FAILURE
}
