//! Rates that follow the offered load, and verdicts that only one study has.

use super::*;

#[test]
fn a_rate_of_answers_has_no_direction_if_the_arrivals_differ() {
    let at = |rate: f64, per_second: f64| Study {
        throughput: [1.0, 1.8].map(|x| [100.0, 101.0, 99.0].map(|v| v * x * per_second).to_vec()),
        rate: Some(rate),
        ..Study::default()
    };
    let verdicts = |comparison: &crate::Comparison, column: &str| -> Vec<ChangeVerdict> {
        let results = comparison.results.iter().filter(|r| r.column == column);
        results.map(|r| r.verdict).collect()
    };
    let fewer = compared(&at(5.0, 5.0), &at(4.0, 4.0), &rule());
    assert_eq!(
        verdicts(&fewer, "output_throughput"),
        [ChangeVerdict::Changed; 2]
    );
    let gated: Vec<&str> = fewer.gate.iter().map(|g| g.column.as_str()).collect();
    assert_eq!(gated, ["ttft_ms_p50"]);
    assert_ne!(fewer.outcome(), Outcome::Fail);
    // A column that the user names says why it is not judged.
    let named = Rule {
        columns: vec!["output_throughput".to_owned()],
        ..rule()
    };
    let fewer = compared(&at(5.0, 5.0), &at(4.0, 4.0), &named);
    let reason = fewer.gate[0].reason.clone().unwrap();
    assert!(
        reason.contains("`arrival` of the two studies differs"),
        "{reason}"
    );
    // At the same arrivals, fewer answers are the server's.
    let slower = compared(&at(5.0, 5.0), &at(5.0, 4.0), &rule());
    assert_eq!(
        verdicts(&slower, "output_throughput"),
        [ChangeVerdict::Regression; 2]
    );
    assert_eq!(slower.outcome(), Outcome::Fail);
}

#[test]
fn verdicts_that_only_one_study_has_differ() {
    let without = Study {
        without_verdicts: true,
        ..Study::default()
    };
    for (older, newer, study) in [
        (&Study::default(), &without, "older"),
        (&without, &Study::default(), "newer"),
    ] {
        let comparison = compared(older, newer, &rule());
        assert_eq!(comparison.verdicts.len(), 1);
        let text = comparison.to_string();
        let line = format!("results.comparison verdict: only in the {study} study (1 verdict)");
        assert!(text.contains(&line), "{text}");
    }
    let same = compared(&without, &without, &rule());
    assert!(
        same.to_string()
            .contains("= all verdicts and gates are the same")
    );
}
