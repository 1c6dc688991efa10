//! How often the procedures are wrong, and how often they find true effects. Counts over seeded
//! simulated studies, without a clock.
//!
//! `cargo bench -p statistics --bench operating_characteristics`. A number after `--` sets the
//! number of studies per cell of a table (10,000). A word selects the only table to print, by its
//! title; `critical-values` prints those of the test for change points. Ends with an error if a figure leaves its bounds.

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]

mod checks;

use std::process::ExitCode;

fn main() -> ExitCode {
    let studies = std::env::args()
        .find_map(|a| a.parse::<usize>().ok())
        .unwrap_or(10_000);
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-') && a.parse::<usize>().is_err())
        .collect();
    if words == ["critical-values"] {
        checks::critical_values(studies).for_each(|line| println!("{line}"));
        return ExitCode::SUCCESS;
    }
    let wanted = |table: &checks::Table| {
        words.is_empty() || words.iter().any(|word| table.title.contains(word.as_str()))
    };
    let mut wrong = Vec::new();
    for table in checks::tables().into_iter().filter(wanted) {
        println!("\n### {}\n\n{}\n", table.title, table.note);
        let results: Vec<checks::Counted> = table.checks.iter().map(|c| c.count(studies)).collect();
        print(&table, &results);
        let named = table.checks.iter().zip(results);
        wrong.extend(
            named
                .filter(|(c, r)| !c.holds(r))
                .map(|(c, r)| format!("{}: {}, {}: {}", table.title, c.row, c.column, r.percent())),
        );
    }
    if wrong.is_empty() {
        println!("\nEvery figure is within its bounds.");
        return ExitCode::SUCCESS;
    }
    println!("\nOutside its bounds:\n{}", wrong.join("\n"));
    ExitCode::FAILURE
}

/// Prints a table as Markdown.
fn print(table: &checks::Table, results: &[checks::Counted]) {
    let (mut rows, mut columns): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for check in &table.checks {
        if !rows.contains(&check.row.as_str()) {
            rows.push(&check.row);
        }
        if !columns.contains(&check.column.as_str()) {
            columns.push(&check.column);
        }
    }
    println!("| | {} |", columns.join(" | "));
    println!("|---|{}", "---:|".repeat(columns.len()));
    for row in rows {
        let cell = |column: &&str| {
            let at = (table.checks.iter()).position(|c| c.row == row && c.column == **column);
            at.map_or(String::new(), |at| results[at].percent())
        };
        let cells: Vec<String> = columns.iter().map(cell).collect();
        println!("| {row} | {} |", cells.join(" | "));
    }
}
