//! Counts how often each gate fails over clean studies and over studies with one fault.
//!
//! `cargo bench -p verify --bench operating_characteristics`. A number after `--` sets the number of clean studies of
//! each kind (1,000); a fifth as many studies have injected faults. `imported` prints only the first table, `clean`
//! omits the faults, and other words select the faults whose names contain one of them.

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]

use std::collections::BTreeMap;

use verify::operating::{Arrivals, Count, Fault, Imported, count, token_bias};

/// Each fault with its strengths.
const FAULTS: [(Fault, &str, [f64; 4]); 16] = [
    (
        Fault::ColdStart,
        "first fifth slower by",
        [0.1, 0.25, 0.5, 1.0],
    ),
    (Fault::Drift, "slower at the end by", [0.1, 0.2, 0.3, 0.6]),
    (
        Fault::LaterBlocks,
        "last block slower by",
        [0.05, 0.1, 0.2, 0.4],
    ),
    (
        Fault::TwoModes,
        "every other request slower by",
        [0.2, 0.4, 0.6, 1.0],
    ),
    (
        Fault::TwoModesOfOneLaunch,
        "every other request of one launch slower by",
        [0.2, 0.4, 0.6, 1.0],
    ),
    (
        Fault::SlowLaunch,
        "one launch of ten slower by",
        [0.1, 0.2, 0.3, 0.5],
    ),
    (
        Fault::SlowCell,
        "one cell of twenty slower by",
        [0.1, 0.2, 0.3, 0.5],
    ),
    (
        Fault::SlowBase,
        "the fewest clients slower by",
        [0.2, 0.4, 0.6, 0.9],
    ),
    (Fault::CopiedRows, "rows copied", [1.0, 2.0, 3.0, 5.0]),
    (
        Fault::CopiedCell,
        "a cell copied with noise of",
        [0.0, 0.0002, 0.001, 0.01],
    ),
    (
        Fault::TokenBias,
        "tokens of one side higher by",
        [0.03, 0.06, 0.12, 0.25],
    ),
    (
        Fault::ClockStep,
        "a clock step, ms",
        [-1_000.0, -100.0, 1_000.0, 5_000.0],
    ),
    (Fault::Stall, "a stall, s", [0.5, 1.0, 3.0, 10.0]),
    (
        Fault::EarlyFirstToken,
        "first tokens earlier by a factor of",
        [2.0, 10.0, 50.0, 1e9],
    ),
    (
        Fault::ForeignLoad,
        "other programs use more by",
        [0.05, 0.1, 0.2, 0.4],
    ),
    (
        Fault::MoreSlots,
        "slots of a server that says one",
        [1.0, 2.0, 3.0, 4.0],
    ),
];

fn main() {
    // cargo passes `--bench`.
    let studies = std::env::args()
        .find_map(|a| a.parse::<u64>().ok())
        .unwrap_or(1_000);
    imported(studies);
    if std::env::args().any(|a| a == "imported") {
        return;
    }
    let kinds = Arrivals::kinds();
    println!(
        "False alarms, % of {studies} clean studies of 20 cells, or 40 with shared prompts (- where a gate judged none)\n"
    );
    let clean: Vec<(&str, BTreeMap<&str, Count>)> = kinds
        .iter()
        .map(|(name, arrivals)| (*name, count(*arrivals, None, 0..studies)))
        .collect();
    table(&clean, studies);
    let some = (studies / 5).max(1);
    if std::env::args().any(|a| a == "clean") {
        return;
    }
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let asked: Vec<&String> = asked
        .iter()
        .filter(|a| !a.starts_with('-') && a.parse::<u64>().is_err())
        .collect();
    let wanted = |what: &str| asked.is_empty() || asked.iter().any(|a| what.contains(a.as_str()));
    let faulty = ["closed loop", "ragged", "open, load 0.7"];
    let seen = |name: &str, fault: Fault| {
        let modes = [Fault::TwoModes, Fault::TwoModesOfOneLaunch];
        faulty.contains(&name)
            || (name == "batched prefill" && fault == Fault::Stall)
            || (name == "shared batches" && modes.contains(&fault))
    };
    for (name, arrivals) in kinds {
        let faults = FAULTS.into_iter().filter(|f| seen(name, f.0));
        for (fault, what, strengths) in faults.filter(|f| wanted(f.1)) {
            println!("\n{name}: {what} …, % of {some} studies in which each gate fails\n");
            let columns: Vec<(String, BTreeMap<&str, Count>)> = strengths
                .iter()
                .map(|s| (s.to_string(), count(arrivals, Some((fault, *s)), 0..some)))
                .collect();
            let named: Vec<(&str, BTreeMap<&str, Count>)> = columns
                .iter()
                .map(|(name, counts)| (name.as_str(), counts.clone()))
                .collect();
            table(&named, some);
        }
    }
}

/// Prints how often `token-bias` fails for files without prompts, whose rows are paired by sending order.
fn imported(studies: u64) {
    let ways = [
        ("the same order", Imported::SameOrder),
        ("another order", Imported::OtherOrder),
        ("other prompts", Imported::OtherPrompts),
        ("a tenth of the rows missing", Imported::Dropped),
        ("25 requests against 40", Imported::Fewer),
        ("the longest tenth missing", Imported::LongestDropped),
    ];
    let some = (studies / 5).max(1);
    println!(
        "`token-bias` of imported rows, % of {studies} clean studies, then of {some} in which one side counts more\n"
    );
    println!("| second side | clean | 3 % | 6 % | 12 % | 25 % |\n|---|---:|---:|---:|---:|---:|");
    for (name, way) in ways {
        let share = |bias: f64, studies: u64| {
            let counted = token_bias(way, bias, 0..studies);
            format!("{:.1}", 100.0 * counted.fail as f64 / studies as f64)
        };
        let mut cells = vec![share(0.0, studies)];
        cells.extend([0.03, 0.06, 0.12, 0.25].map(|bias| share(bias, some)));
        println!("| {name} | {} |", cells.join(" | "));
    }
    println!();
}

/// Prints a table with a line for each gate and a column for each kind of study.
fn table(columns: &[(&str, BTreeMap<&str, Count>)], studies: u64) {
    let heads: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    println!("| gate | {} |", heads.join(" | "));
    println!("|---|{}", "---:|".repeat(heads.len()));
    let gates: Vec<&str> = columns
        .first()
        .map_or(Vec::new(), |c| c.1.keys().copied().collect());
    for gate in gates {
        let cells: Vec<String> = columns
            .iter()
            .map(|(_, counts)| match counts.get(gate) {
                Some(c) if c.judged > 0 => format!("{:.1}", 100.0 * c.fail as f64 / studies as f64),
                _ => "-".to_owned(),
            })
            .collect();
        println!("| `{gate}` | {} |", cells.join(" | "));
    }
}
