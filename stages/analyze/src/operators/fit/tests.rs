//! Fits over units with unlike rungs, and over units that vary much.

use artifacts::Scalar;
use serde_json::json;
use statistics::Noise;

use crate::frame::Frame;
use crate::published::{column, run, table};

/// Studies of Amdahl's law with 5 % of serial work. The level of a launch varies by a share, and some launches end early.
fn studies(studies: usize, launches: usize, spread: f64, short: impl Fn(usize) -> bool) -> Frame {
    let mut noise = Noise(21);
    let mut text = "study,block,n,tp\n".to_owned();
    for study in 0..studies {
        for block in 0..launches {
            let level = (spread * noise.normal()).exp();
            for n in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0] {
                let law = 1000.0 * n / (1.0 + 0.05 * (n - 1.0));
                let tp = law * level * (0.01 * noise.normal()).exp();
                if n <= 16.0 || !short(block) {
                    text.push_str(&format!("{study},{block},{n},{tp}\n"));
                }
            }
        }
    }
    table(&text, &["study", "block", "n"], &["tp"])
}

fn law(frame: Frame, predict: f64) -> Frame {
    let given = json!({"from": "t", "ladder": "n", "column": "tp", "model": "amdahl", "predict": [predict]});
    run("fit", &given, frame)
}

/// Returns the value and the interval over units of a row.
fn row(made: &Frame, study: usize, parameter: &str) -> [Option<f64>; 3] {
    let key = [study.to_string(), parameter.to_owned()];
    let key = [key[0].as_str(), key[1].as_str()];
    ["value", "unit_low", "unit_high"].map(|name| column(made, &key, name).as_f64())
}

/// Counts the rows with an interval, those whose interval contains the truth, and those whose value is outside of it.
fn counts(made: &Frame, count: usize, (parameter, truth): (&str, f64)) -> [usize; 3] {
    let (mut given, mut covers, mut outside) = (0, 0, 0);
    for study in 0..count {
        if let [Some(value), Some(low), Some(high)] = row(made, study, parameter) {
            given += 1;
            covers += usize::from(low <= truth && truth <= high);
            outside += usize::from(value < low || value > high);
        }
    }
    [given, covers, outside]
}

#[test]
fn a_value_over_units_with_unlike_rungs_is_the_mean_over_their_curves() {
    // Through the means over the launches at each rung, the share of serial work is outside of its interval in 73 % of studies.
    let count = 100;
    let made = law(studies(count, 5, 0.15, |block| block < 3), 24.0);
    let at_24 = 1000.0 * 24.0 / (1.0 + 0.05 * 23.0);
    for truth in [("sigma", 0.05), ("x1", 1000.0), ("at 24", at_24)] {
        let [given, covers, outside] = counts(&made, count, truth);
        assert_eq!(outside, 0, "{truth:?}");
        assert!(given >= 85, "{truth:?}: {given}");
        assert!(
            covers as f64 >= 0.88 * given as f64,
            "{truth:?}: {covers} of {given}"
        );
    }
    let text = |name: &str| column(&made, &["0", "sigma"], name);
    assert_eq!(
        [text("r2"), text("ci_low"), text("covariances")],
        [Scalar::Null, Scalar::Null, Scalar::Null]
    );
    let method = text("method").to_string();
    assert!(
        method.ends_with("so this is the mean over their curves"),
        "{method}"
    );
    // Each curve may be extrapolated by its own values only.
    let made = law(studies(1, 5, 0.15, |block| block < 3), 40.0);
    assert_eq!(row(&made, 0, "at 40")[0], None);
    let method = column(&made, &["0", "at 40"], "method").to_string();
    assert_eq!(
        method,
        "refused: 40 is 2.5 times the largest value that every unit has, more than 2"
    );
}

#[test]
fn a_unit_without_a_curve_leaves_no_value_if_the_rungs_are_unlike() {
    let text = "block,n,tp\n1,1,10\n1,2,19\n1,4,36\n2,1,11\n2,2,20\n2,4,35\n3,1,10\n";
    let made = law(table(text, &["block", "n"], &["tp"]), 4.0);
    assert_eq!(made.rows.len(), 2);
    assert_eq!(column(&made, &["sigma"], "value"), Scalar::Null);
    let method = column(&made, &["sigma"], "method").to_string();
    assert!(
        method.starts_with("not fitted: the units have unlike values"),
        "{method}"
    );
}

#[test]
fn a_value_is_never_outside_of_its_interval() {
    // With many launches, the mean over their curves is geometric, and the curve of the means is not.
    let made = law(studies(10, 150, 0.5, |_| false), 4.0);
    for truth in [("sigma", 0.05), ("x1", 1000.0), ("at 4", 3478.0)] {
        assert_eq!(counts(&made, 10, truth)[2], 0, "{truth:?}");
    }
    let why =
        (0..10).map(|study| column(&made, &[&study.to_string(), "x1"], "unit_why").to_string());
    assert!(
        why.filter(|why| why == "the curve of the means lies outside it")
            .count()
            > 5
    );
    assert!(row(&made, 0, "sigma")[0].is_some());
}
