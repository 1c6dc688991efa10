//! Intervals of means, breakdowns and losses for columns that alone reveal too little: differences that are positive by
//! chance, values without spread, cells without a value.

use artifacts::Scalar;
use serde_json::json;

use crate::awkward::draw::Noise;
use crate::frame::{Bounds, Frame, Level, Row, Spec};
use crate::published::run;

/// Makes a table of one column from keys and values.
fn table(keys: &[&str], spec: Spec, rows: Vec<(Vec<Scalar>, Option<f64>)>) -> Frame {
    let row = |(key, value): (Vec<Scalar>, Option<f64>)| {
        let value = value.map_or(Scalar::Null, Scalar::Float);
        Row::new(key, vec![value], Vec::new())
    };
    let frame = Frame {
        level: Level::Cell,
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        specs: vec![spec],
        rows: rows.into_iter().map(row).collect(),
        missing: Vec::new(),
    };
    frame.settle().unwrap()
}

/// Counts the studies whose interval contains the mean of three launches' normal values.
fn covered(mean: f64, studies: i64) -> usize {
    let mut noise = Noise(71);
    let keys = |study| (1..=3).map(move |block| vec![Scalar::Int(study), Scalar::Int(block)]);
    let rows = (0..studies).flat_map(keys);
    let rows = rows.map(|key| (key, Some(mean + noise.normal()))).collect();
    let given = json!({"from": "t", "over": ["block"], "columns": ["gain"]});
    let frame = table(
        &["study", "block"],
        Spec::float("gain", "ms", "a − b"),
        rows,
    );
    let made = run("aggregate", &given, frame);
    let holds = |row: &usize| {
        let ends = made
            .number(*row, "gain_ci_low")
            .zip(made.number(*row, "gain_ci_high"));
        ends.is_some_and(|(low, high)| low <= mean && mean <= high)
    };
    (0..made.rows.len()).filter(holds).count()
}

#[test]
fn intervals_of_differences_contain_their_mean_whether_they_happen_to_be_positive_or_not() {
    // Three standard errors of 2,000 studies are 1.5 percentage points. With logarithms whenever all
    // values are above 0, only 85 % contain it.
    for mean in [0.0, -0.2, 0.5, 1.0, 2.0] {
        let covered = covered(mean, 2_000);
        assert!(covered >= 1_870, "{mean}: {covered}");
    }
}

#[test]
fn the_interval_of_a_mean_of_many_unlike_units_contains_the_mean() {
    // Fifty units that vary by 30 %. The interval of their geometric mean contains the arithmetic one in 82 % of studies.
    let (studies, spread) = (400, 0.3_f64);
    let mut noise = Noise(29);
    let keys = |study| (1..=50).map(move |block| vec![Scalar::Int(study), Scalar::Int(block)]);
    let rows = (0..studies).flat_map(keys);
    let rows = rows.map(|key| (key, Some((spread * noise.normal()).exp())));
    let spec = Spec::float("wait", "ms", "a time").within(Bounds::NotNegative);
    let frame = table(&["study", "block"], spec, rows.collect());
    let given = json!({"from": "t", "over": ["block"], "columns": ["wait"]});
    let made = run("aggregate", &given, frame);
    let truth = (spread * spread / 2.0).exp();
    let (mut given_one, mut holds) = (0_i32, 0_i32);
    for row in 0..made.rows.len() {
        let end = |end: &str| made.number(row, &format!("wait_ci_{end}"));
        let Some((low, high)) = end("low").zip(end("high")) else {
            continue;
        };
        let mean = made.number(row, "wait_mean").unwrap();
        assert!(low <= mean && mean <= high && low > 0.0);
        given_one += 1;
        holds += i32::from(low <= truth && truth <= high);
    }
    // Units that happen to resemble the one before have none.
    assert!(given_one >= 360, "{given_one}");
    // Three standard errors of 95 % are 3.4 percentage points.
    assert!(
        f64::from(holds) >= 0.916 * f64::from(given_one),
        "{holds} of {given_one}"
    );
}

/// Returns where the rule of a ladder of three launches may hold, and where it certainly does.
fn breakdown(spec: Spec, below: f64, rungs: &[(i64, [f64; 3])]) -> [Option<f64>; 2] {
    let name = spec.name.clone();
    let spread = |(n, values): &(i64, [f64; 3])| {
        let n = *n;
        let key = move |block| vec![Scalar::Int(n), Scalar::Int(block)];
        (1..)
            .zip(*values)
            .map(move |(block, value)| (key(block), Some(value)))
    };
    let rows = rungs.iter().flat_map(spread).collect();
    let any = json!([{"table": "t", "column": name, "below": below}]);
    let given = json!({"rule": "low", "ladder": "n", "any": any});
    let made = run("breakdown", &given, table(&["n", "block"], spec, rows));
    ["breakdown_low", "breakdown_high"].map(|column| made.number(0, column))
}

#[test]
fn values_without_spread_are_as_uncertain_as_their_steps() {
    let share = || Spec::float("met", "1", "a share").within(Bounds::Share);
    let rungs = [
        (1, [1.0; 3]),
        (4, [0.975, 1.0, 0.95]),
        (16, [0.3, 0.325, 0.275]),
    ];
    // All of 3 · 40 requests: the true share may be 96 %, and is not 90 %.
    assert_eq!(breakdown(share(), 0.99, &rungs), [Some(1.0), Some(16.0)]);
    assert_eq!(breakdown(share(), 0.90, &rungs)[0], Some(4.0));
    // Whole milliseconds: 10 may have been 10.4.
    let rate = || Spec::float("rate", "tok/s", "a rate");
    let whole = [(1, [10.0; 3]), (2, [7.0, 8.0, 6.0])];
    assert_eq!(breakdown(rate(), 10.1, &whole)[1], None);
    assert_eq!(breakdown(rate(), 9.0, &whole)[0], Some(2.0));
    // An efficiency is exactly 1 at its anchor.
    let efficiency = Spec::float("efficiency", "1", "").within(Bounds::Relative);
    let rungs = [(1, [1.0; 3]), (2, [0.51, 0.502, 0.497])];
    assert_eq!(breakdown(efficiency, 0.999, &rungs), [Some(2.0), Some(2.0)]);
}

/// Returns the verdict on two equal systems, the first of which lacks cells in two of five launches, and whether the first
/// is not higher.
fn without(cells: fn(i64, i64) -> Option<Option<f64>>) -> [String; 2] {
    let mut rows = Vec::new();
    for block in 1..=5 {
        for level in 1..=3 {
            let value = 100.0 + (block * level % 4) as f64 / 7.0;
            let key = |system: &str| {
                let system = Scalar::Text(system.to_owned());
                vec![system, Scalar::Int(level), Scalar::Int(block)]
            };
            rows.push((key("b"), Some(value + 0.1)));
            if let Some(given) = cells(block, level) {
                rows.push((key("a"), given.map(|gain| value + gain / 10.0)));
            }
        }
    }
    let frame = table(
        &["system", "level", "block"],
        Spec::float("wait", "ms", "a time"),
        rows,
    );
    let pair = json!({"axis": "system", "a": "a", "b": "b"});
    let given = json!({"from": "t", "pair": pair, "columns": ["wait"], "margin": {"wait": 0.05}});
    let made = run("paired-comparison", &given, frame);
    ["verdict", "not_higher"].map(|column| made.value(0, column).unwrap().to_string())
}

#[test]
fn cells_without_a_value_or_a_row_count_as_lost() {
    let said = |verdict: &str, not_higher: &str| [verdict.to_owned(), not_higher.to_owned()];
    assert_eq!(
        without(|b, l| Some(Some((b + l) as f64 / 10.0))),
        said("equivalent", "true")
    );
    let lost = said("undecidable", "null");
    assert_eq!(
        without(|b, l| Some((b > 2 || l < 3).then_some((b + l) as f64 / 10.0))),
        lost
    );
    assert_eq!(
        without(|b, l| (b > 2 || l < 3).then_some(Some((b + l) as f64 / 10.0))),
        lost
    );
    // If one side lacks a whole launch or level, it may not have been planned.
    let fine = said("equivalent", "true");
    assert_eq!(
        without(|b, l| (b > 1).then_some(Some((b + l) as f64 / 10.0))),
        fine
    );
    assert_eq!(
        without(|b, l| (l < 3).then_some(Some((b + l) as f64 / 10.0))),
        fine
    );
}

/// Counts the studies of equal systems with a p of at most 5 %, of this many days with launches of both sides.
fn different_on(days: i64, launches: i64, studies: i64) -> usize {
    // The rows of a table are searched for each study, so several small tables take less time than a large one.
    const TABLE: i64 = 30;
    let mut noise = Noise(72);
    let mut different = 0;
    for first in (0..studies).step_by(TABLE as usize) {
        let mut rows = Vec::new();
        for study in first..(first + TABLE).min(studies) {
            for day in 1..=days {
                let shared = 0.1 * noise.normal();
                for system in ["a", "b"] {
                    for launch in 1..=launches {
                        // Each launch has a label of its own.
                        let block = format!("{system}{day}-{launch}");
                        let key = vec![
                            Scalar::Int(study),
                            Scalar::Text(system.to_owned()),
                            Scalar::Int(day),
                            Scalar::Text(block),
                        ];
                        rows.push((key, Some((shared + 0.03 * noise.normal()).exp())));
                    }
                }
            }
        }
        let keys = ["study", "system", "day", "block"];
        let pair = json!({"axis": "system", "a": "a", "b": "b"});
        let given = json!({"from": "t", "pair": pair, "columns": ["wait"], "by": ["study"],
            "over": ["day", "block"]});
        let made = run(
            "unpaired-comparison",
            &given,
            table(&keys, Spec::float("wait", "ms", ""), rows),
        );
        let is_small = |row: &usize| made.number(*row, "p").is_some_and(|p| p <= 0.05);
        different += (0..made.rows.len()).filter(is_small).count();
    }
    different
}

#[test]
fn launches_of_a_day_are_not_compared_with_the_mean_of_their_day() {
    // Three standard errors of 600 studies are 16. If launches were centred on their days, 19 and 8 % of studies would be
    // different.
    for (days, launches) in [(4, 1), (5, 2)] {
        let count = different_on(days, launches, 600);
        assert!(
            count <= 46,
            "{days} days, {launches} launches a side: {count}"
        );
    }
}

/// Returns the verdict on the launches of two equal systems, and its reason. Each launch has a label of its own and lies
/// on one of the given days. A day shifts its launches by the logarithm beside it.
fn on_days(a: &[(&str, f64)], b: &[(&str, f64)]) -> [String; 2] {
    let mut noise = Noise(74);
    let mut rows = Vec::new();
    for (system, launches) in [("a", a), ("b", b)] {
        for (number, (day, shift)) in launches.iter().enumerate() {
            let label = format!("{system}{number}");
            let key = [system, *day, label.as_str()].map(|text| Scalar::Text(text.to_owned()));
            rows.push((key.to_vec(), Some((shift + 0.02 * noise.normal()).exp())));
        }
    }
    let pair = json!({"axis": "system", "a": "a", "b": "b"});
    let given = json!({"from": "t", "pair": pair, "columns": ["wait"], "over": ["day", "launch"],
        "unit": ["launch"]});
    let keys = ["system", "day", "launch"];
    let made = run(
        "unpaired-comparison",
        &given,
        table(&keys, Spec::float("wait", "ms", ""), rows),
    );
    ["verdict", "verdict_reason"].map(|column| made.value(0, column).unwrap().to_string())
}

#[test]
fn launches_on_unlike_days_are_not_compared() {
    let day = |name: &'static str, shift: f64, launches: usize| vec![(name, shift); launches];
    let days = |sides: [Vec<(&'static str, f64)>; 2]| sides.concat();
    // Each side has days of its own.
    let own = on_days(
        &days([day("mon", 0.0, 4), day("tue", 0.1, 4)]),
        &days([day("wed", 0.4, 4), day("thu", 0.3, 4)]),
    );
    assert_eq!(own[0], "undecidable");
    assert!(own[1].contains("declare `unit: [day]`"), "{}", own[1]);
    // The same two days, one of them three times as slow, in another mix.
    let mixed = on_days(
        &days([day("mon", 0.0, 14), day("tue", 1.1, 6)]),
        &days([day("mon", 0.0, 6), day("tue", 1.1, 14)]),
    );
    assert_eq!(mixed[0], "undecidable");
    // Alike, except for one launch; and one machine for each side.
    let alike = on_days(
        &days([day("mon", 0.0, 6), day("tue", 1.1, 6)]),
        &days([day("mon", 0.0, 6), day("tue", 1.1, 5)]),
    );
    assert_eq!(alike[0], "no evidence");
    let machines = on_days(&day("one", 0.0, 6), &day("other", 0.4, 6));
    assert_eq!(machines[0], "different");
}

#[test]
fn a_level_that_one_side_lacks_does_not_shift_its_mean_over_levels() {
    let mut noise = Noise(75);
    let mut rows = Vec::new();
    for block in 1..=8 {
        for (level, size) in [(1, 10.0), (2, 20.0), (3, 500.0)] {
            for system in ["a", "b"] {
                let key = vec![
                    Scalar::Text(system.to_owned()),
                    Scalar::Int(level),
                    Scalar::Int(block),
                ];
                let value = size * (0.02 * noise.normal()).exp();
                // The first side lost the slowest level in every launch.
                rows.push((key, (system == "b" || level < 3).then_some(value)));
            }
        }
    }
    let frame = table(
        &["system", "level", "block"],
        Spec::float("wait", "ms", "a time"),
        rows,
    );
    let pair = json!({"axis": "system", "a": "a", "b": "b"});
    let given = json!({"from": "t", "pair": pair, "columns": ["wait"], "average": ["level"],
        "margin": {"wait": 0.05}});
    let made = run("paired-comparison", &given, frame);
    let effect = made.number(0, "effect").unwrap();
    assert!((effect - 1.0).abs() < 0.05, "{effect}");
    assert_eq!(made.value(0, "verdict").unwrap().to_string(), "equivalent");
}

#[test]
fn means_over_different_numbers_of_values_are_noted() {
    let mut noise = Noise(76);
    let mut rows = Vec::new();
    for block in 1..=5 {
        for (system, n) in [("a", 5), ("b", 6)] {
            let key = vec![Scalar::Text(system.to_owned()), Scalar::Int(block)];
            let mean = Scalar::Float((0.02 * noise.normal()).exp());
            rows.push(Row::new(key, vec![mean, Scalar::Int(n)], Vec::new()));
        }
    }
    let frame = Frame {
        level: Level::Marginal,
        keys: vec!["system".to_owned(), "block".to_owned()],
        specs: vec![
            Spec::float("wait_mean", "ms", "a mean"),
            Spec::int("wait_n", "1", "values"),
        ],
        rows,
        missing: Vec::new(),
    };
    let pair = json!({"axis": "system", "a": "a", "b": "b"});
    let given = json!({"from": "t", "pair": pair, "columns": ["wait_mean"]});
    let made = run("paired-comparison", &given, frame.settle().unwrap());
    let reason = made.value(0, "verdict_reason").unwrap().to_string();
    assert!(
        reason.contains("of a are over 25 values and those of b over 30"),
        "{reason}"
    );
}
