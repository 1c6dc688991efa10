//! Comparisons of figures that `aggregate` pooled over unlike levels, as a failed or excluded cell leaves them.
//!
//! The two systems are equal. Every figure that pools a level that one of them lacks would differ without a rule.

use std::collections::BTreeMap;

use artifacts::Scalar;
use pipeline::Json;
use serde_json::json;

use crate::awkward::draw::Noise;
use crate::frame::{Frame, Level, Row, Spec};
use crate::make::made;

/// A cell: system, block, clients, repetition.
type Cell = (&'static str, i64, i64, i64);

const STUDIES: u64 = 40;
const LEVELS: [i64; 4] = [1, 2, 4, 16];
const FIGURES: [&str; 7] = ["mean", "p50", "p90", "min", "max", "std", "n"];

/// One study of two systems; `a` is slower by `factor`. Cells for which `lost` is true have no row, or no value.
fn study(seed: u64, factor: f64, lost: impl Fn(Cell) -> bool, absent: bool) -> Frame {
    let mut noise = Noise(seed);
    let mut rows = Vec::new();
    for block in 1..=8 {
        for (system, factor) in [("a", factor), ("b", 1.0)] {
            let launch = (0.02 * noise.normal()).exp() * factor;
            for clients in LEVELS {
                for rep in 1..=3 {
                    let value = 10.0 * clients as f64 * launch * (0.02 * noise.normal()).exp();
                    let gone = lost((system, block, clients, rep));
                    if gone && absent {
                        continue;
                    }
                    let key = [block, clients, rep].map(Scalar::Int);
                    let key = [vec![Scalar::Text(system.to_owned())], key.to_vec()].concat();
                    let value = if gone {
                        Scalar::Null
                    } else {
                        Scalar::Float(value)
                    };
                    rows.push(Row::new(key, vec![value], Vec::new()));
                }
            }
        }
    }
    let frame = Frame {
        level: Level::Cell,
        keys: ["system", "block", "clients", "rep"]
            .map(str::to_owned)
            .to_vec(),
        specs: vec![Spec::float("wait", "ms", "a time")],
        rows,
        missing: Vec::new(),
    };
    frame.settle().unwrap()
}

fn aggregate(from: &str, over: &[&str], column: &str) -> Json {
    json!({"from": from, "over": over, "columns": [column], "confidence": 0.95, "quantiles": [0.5, 0.9]})
}

/// The comparisons of every figure: pooled at once and in two steps, paired and not.
fn compared(frame: Frame) -> BTreeMap<String, Frame> {
    let pair = json!({"axis": "system", "a": "a", "b": "b"});
    let names = |stem: &str| -> Vec<String> {
        let figures = FIGURES.iter().filter(|figure| !matches!(**figure, "n"));
        figures.map(|figure| format!("{stem}_{figure}")).collect()
    };
    let paired = |from: &str, stem: &str| json!({"from": from, "pair": pair, "columns": names(stem), "family": "per-column"});
    let apart = |from: &str, stem: &str| json!({"from": from, "pair": pair, "columns": names(stem), "over": ["block"], "family": "per-column"});
    let order = |from: &str, stem: &str| json!({"from": from, "among": "system", "column": format!("{stem}_mean"), "better": "lower"});
    let tables = [
        (
            "once",
            "aggregate",
            aggregate("t", &["clients", "rep"], "wait"),
        ),
        ("reps", "aggregate", aggregate("t", &["rep"], "wait")),
        (
            "twice",
            "aggregate",
            aggregate("reps", &["clients"], "wait_mean"),
        ),
        ("paired-once", "paired-comparison", paired("once", "wait")),
        (
            "paired-twice",
            "paired-comparison",
            paired("twice", "wait_mean"),
        ),
        ("apart-once", "unpaired-comparison", apart("once", "wait")),
        (
            "apart-twice",
            "unpaired-comparison",
            apart("twice", "wait_mean"),
        ),
        ("ranked-twice", "ranking", order("twice", "wait_mean")),
    ];
    made(&tables, frame, &Json::Null).unwrap()
}

/// For each comparison and figure, the number of studies with each verdict. A ranking that separates counts as
/// `different`.
fn verdicts(
    factor: f64,
    lost: impl Fn(Cell) -> bool,
    absent: bool,
) -> BTreeMap<(String, String), BTreeMap<String, u64>> {
    let mut counts: BTreeMap<(String, String), BTreeMap<String, u64>> = BTreeMap::new();
    for seed in 0..STUDIES {
        let tables = compared(study(900 + seed, factor, &lost, absent));
        for (name, frame) in tables.iter().filter(|(name, _)| name.contains('-')) {
            for row in 0..frame.rows.len() {
                let (figure, verdict) = match frame.value(row, "verdict") {
                    Some(verdict) => (frame.rows[row].key[0].to_string(), verdict.to_string()),
                    None => {
                        let shown = frame.value(row, "rank_shown").unwrap().to_string();
                        let word = if shown == "1" { "first" } else { "different" };
                        ("rank".to_owned(), word.to_owned())
                    }
                };
                let place = counts.entry((name.clone(), figure)).or_default();
                *place.entry(verdict).or_default() += 1;
            }
        }
    }
    counts
}

fn differ(counts: &BTreeMap<String, u64>) -> u64 {
    counts.get("different").copied().unwrap_or(0)
}

/// The most studies of forty that may have a false verdict: 5 % and three standard errors.
const MOST: u64 = 6;

#[test]
fn equal_sides_of_which_one_lacks_a_level_do_not_differ_in_any_pooled_figure() {
    let slowest_everywhere = |(system, _, clients, _): Cell| system == "a" && clients == 16;
    let fastest_in_some =
        |(system, block, clients, _): Cell| system == "b" && clients == 1 && block % 4 == 0;
    let one_repetition = |(system, block, clients, rep): Cell| {
        system == "a" && clients == 16 && rep == 2 && block < 7
    };
    let cases: [(&str, &dyn Fn(Cell) -> bool); 3] = [
        ("slowest everywhere", &slowest_everywhere),
        ("fastest in some", &fastest_in_some),
        ("a repetition of the slowest", &one_repetition),
    ];
    for (case, lost) in cases {
        for absent in [false, true] {
            for ((table, figure), counts) in verdicts(1.0, lost, absent) {
                assert!(
                    differ(&counts) <= MOST,
                    "{case} {absent} {table} {figure}: {counts:?}"
                );
                assert!(
                    !counts.contains_key("undecidable"),
                    "{case} {absent} {table} {figure}: {counts:?}"
                );
            }
        }
    }
}

#[test]
fn a_difference_is_found_whether_or_not_a_level_is_missing_and_the_verdict_states_what_was_left_out()
 {
    let complete = verdicts(1.1, |_| false, true);
    let lacking = verdicts(
        1.1,
        |(system, block, clients, _)| system == "b" && clients == 16 && block == 3,
        true,
    );
    for (place, counts) in &complete {
        // The comparison of ranges of a spread finds less.
        if place.1.ends_with("std") {
            continue;
        }
        assert!(differ(counts) >= STUDIES - 6, "{place:?}: {counts:?}");
        let lacking = &lacking[place];
        assert!(differ(lacking) >= STUDIES - 6, "{place:?}: {lacking:?}");
    }
    let frame = study(
        7,
        1.1,
        |(system, block, clients, _)| system == "b" && clients == 16 && block == 3,
        true,
    );
    let tables = compared(frame);
    let reason = crate::published::column(&tables["paired-once"], &["wait_mean"], "verdict_reason")
        .to_string();
    assert!(
        reason.contains("3 values without a counterpart on the other side left out of wait_mean"),
        "{reason}"
    );
}
