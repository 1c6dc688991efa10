//! Breakdowns of ladders with cells that gave no value.

use artifacts::Scalar;
use pipeline::CellStatus;
use serde_json::json;
use statistics::Noise;

use crate::frame::{Absence, Frame, Missing};
use crate::published::{column, run, table};

const LADDER: [(i64, f64); 4] = [(1, 1.0), (2, 0.99), (4, 0.98), (8, 0.8)];

/// A ladder on which no value is near 0.1, and from which some launches lost cells.
fn ladder(name: &str, launches: i64, lost: &[(i64, i64)], absence: Absence) -> Frame {
    let mut noise = Noise(7);
    let mut text = format!("block,n,{name}\n");
    for block in 1..=launches {
        for (n, value) in LADDER {
            if !lost.contains(&(block, n)) {
                let value = value * (0.01 * noise.normal()).exp();
                text.push_str(&format!("{block},{n},{value}\n"));
            }
        }
    }
    let mut frame = table(&text, &["block", "n"], &[name]);
    let missing = |(block, n): &(i64, i64)| Missing {
        at: vec![
            ("block".to_owned(), Scalar::Int(*block)),
            ("n".to_owned(), Scalar::Int(*n)),
        ],
        why: "hung".to_owned(),
        absence,
    };
    frame.missing = lost.iter().map(missing).collect();
    frame
}

const HUNG: Absence = Absence::Ended(CellStatus::Hung);

/// Returns the result of a rule, whether it is never met, and the number of values of N at which it is defined.
fn result(frame: Frame, name: &str, bound: (&str, f64)) -> [String; 3] {
    let any = json!([{"table": "t", "column": name, (bound.0): bound.1}]);
    let made = run(
        "breakdown",
        &json!({"rule": "r", "ladder": "n", "any": any}),
        frame,
    );
    ["resolution", "never", "n"].map(|name| column(&made, &[], name).to_string())
}

fn efficiency(launches: i64, lost: &[(i64, i64)], absence: Absence) -> [String; 3] {
    let name = "parallel_efficiency";
    let frame = ladder(name, launches, lost, absence);
    result(frame, name, ("below", 0.1))
}

#[test]
fn a_level_at_which_every_launch_hung_may_meet_the_rule() {
    let all: Vec<(i64, i64)> = (1..=5).map(|block| (block, 8)).collect();
    let open = "not resolved: at 8 or later, or never (the rule is undefined at 8)";
    assert_eq!(efficiency(5, &all, HUNG), [open, "null", "3"]);
    assert_eq!(efficiency(5, &all, Absence::Barred), [open, "null", "3"]);
    assert_eq!(efficiency(5, &all, Absence::Aggregate), [open, "null", "3"]);
    // The experiment did not ask about it.
    let excluded = Absence::Ended(CellStatus::Excluded);
    assert_eq!(
        efficiency(5, &all, excluded),
        ["never within the n", "true", "3"]
    );
    assert_eq!(
        efficiency(5, &[], HUNG),
        ["never within the n", "true", "4"]
    );
}

#[test]
fn launches_that_did_not_hang_do_not_show_that_a_level_is_fine() {
    let open = "not resolved: at 8 or later, or never (cells were lost at 8)";
    assert_eq!(efficiency(7, &[(1, 8), (2, 8)], HUNG), [open, "null", "4"]);
    let never = ["never within the n", "true", "4"];
    // One of twelve does not matter, and two launches that lost every level tell nothing about one of them.
    assert_eq!(efficiency(12, &[(1, 8)], HUNG), never);
    let launches = [1, 2].map(|block| LADDER.map(|(n, _)| (block, n))).concat();
    assert_eq!(efficiency(7, &launches, HUNG), never);
    // Lost cells may flatter a rule that is good to meet, and not one that is bad to meet.
    let at_8 = |name: &str, bound| {
        let frame = ladder(name, 7, &[(1, 8), (2, 8)], HUNG);
        result(frame, name, bound)[0].clone()
    };
    assert_eq!(at_8("speedup", ("below", 0.9)), "at 8");
    assert_eq!(
        at_8("speedup_std", ("below", 0.9)),
        "not resolved: at 8 or later, or never (cells were lost at 8)"
    );
    assert_eq!(
        at_8("unknown", ("below", 0.9)),
        "not resolved: at 8 or later, or never (cells were lost at 8)"
    );
}

#[test]
fn a_condition_without_a_value_may_hold() {
    // The latency passes its bound at 16, where it is not reported any more. The efficiency stays above 0.2.
    let mut noise = Noise(11);
    let levels = [(1, 1.0), (2, 0.9), (4, 0.8), (8, 0.7), (16, 0.6), (32, 0.5)];
    let mut text = "study,block,n,eff,ttft\n".to_owned();
    for study in 0..100 {
        for block in 1..=5 {
            for (at, (n, eff)) in levels.into_iter().enumerate() {
                let eff = eff * (0.01 * noise.normal()).exp();
                let ttft = 100.0 * (0.35 * at as f64 + 0.01 * noise.normal()).exp();
                let ttft = if n < 16 {
                    ttft.to_string()
                } else {
                    String::new()
                };
                text.push_str(&format!("{study},{block},{n},{eff},{ttft}\n"));
            }
        }
    }
    let frame = || table(&text, &["study", "block", "n"], &["eff", "ttft"]);
    let results = |below: f64| -> Vec<[String; 3]> {
        let any = json!([{"table": "t", "column": "eff", "below": below},
            {"table": "t", "column": "ttft", "above": 350.0}]);
        let given = json!({"rule": "r", "ladder": "n", "any": any});
        let made = run("breakdown", &given, frame());
        let one = |study: usize| {
            ["breakdown_low", "never", "n"]
                .map(|name| column(&made, &[&study.to_string()], name).to_string())
        };
        (0..100).map(one).collect()
    };
    // The few others have launches that seem to resemble each other, or cross earlier.
    let open = results(0.2);
    assert!(
        open.iter().all(|result| *result == ["16", "null", "4"]),
        "{open:?}"
    );
    // The other condition holds from 16 on, whatever the latency is.
    let holds = results(0.65);
    let at_16 = holds.iter().filter(|r| **r == ["16", "false", "6"]).count();
    assert!(at_16 >= 85, "{holds:?}");
}
