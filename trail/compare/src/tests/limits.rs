//! What a gate cannot show: lost requests, columns without values or direction, few units, and shared launches.

use super::*;
use crate::GateResult;

/// A study whose units differ by about a percent, with this many answered requests of 100 per repetition.
fn study(factor: f64, answered: [i64; 3]) -> Study {
    Study {
        throughput: [
            [100.1, 101.3, 99.2].map(|x| x * factor).to_vec(),
            [180.2, 181.9, 178.4].map(|x| x * factor).to_vec(),
        ],
        ttft: [
            [50.3, 51.1, 49.4].map(|x| x / factor).to_vec(),
            [80.2, 81.7, 79.1].map(|x| x / factor).to_vec(),
        ],
        answered: answered.to_vec(),
        ..Study::default()
    }
}

fn named(columns: &[&str]) -> Rule {
    Rule {
        columns: columns.iter().map(|c| (*c).to_owned()).collect(),
        ..rule()
    }
}

fn column<'c>(comparison: &'c crate::Comparison, name: &str) -> &'c GateResult {
    let mut columns = comparison.gate.iter().filter(|g| g.column == name);
    columns.next().expect("a line of the gate")
}

#[test]
fn a_study_that_lost_requests_neither_passes_nor_improves() {
    let healthy = study(1.0, [100; 3]);
    let lossy = study(1.2, [50, 52, 48]);
    let comparison = compared(&healthy, &lossy, &rule());
    assert_eq!(comparison.outcome(), Outcome::Undecidable);
    let reason = column(&comparison, "ttft_ms_p50")
        .reason
        .as_deref()
        .unwrap();
    assert!(
        reason.starts_with(
            "300 of 600 requests of the newer study were lost, and 0 of 600 of the older one: "
        ),
        "{reason}"
    );
    assert_eq!(
        comparison.remedies(),
        [
            "look why requests were lost; `--column ok_rate` judges the loss itself, and `--lost-requests 0.1` allows a loss of \
          0.1 %"
        ]
    );
    let verdicts: Vec<_> = comparison.results.iter().map(|r| r.verdict).collect();
    assert_eq!(verdicts, [ChangeVerdict::Undecidable; 4]);
    // Without losses, the same study passes.
    let faster = compared(&healthy, &study(1.2, [100; 3]), &rule());
    assert_eq!(faster.outcome(), Outcome::Pass);
    // A worsening is one in spite of the losses.
    let slower = compared(&healthy, &study(0.7, [50, 52, 48]), &rule());
    assert_eq!(slower.outcome(), Outcome::Fail);
}

#[test]
fn a_loss_that_is_allowed_is_a_note() {
    let rule = Rule {
        lost_requests: 0.02,
        ..rule()
    };
    let healthy = study(1.0, [100; 3]);
    let slightly = compared(&healthy, &study(1.2, [99, 100, 99]), &rule);
    assert_eq!(slightly.outcome(), Outcome::Pass);
    assert_eq!(
        column(&slightly, "ttft_ms_p50").reason.as_deref(),
        Some(
            "4 of 600 requests of the newer study were lost, and 0 of 600 of the older one, as `--lost-requests` allows"
        )
    );
    let more = compared(&healthy, &study(1.2, [97, 98, 97]), &rule);
    assert_eq!(more.outcome(), Outcome::Undecidable);
}

#[test]
fn the_share_of_answered_requests_is_judged_against_a_healthy_study() {
    let rule = named(&["ok_rate"]);
    let healthy = study(1.0, [100; 3]);
    let lossy = compared(&healthy, &study(1.0, [50, 52, 48]), &rule);
    let verdict = column(&lossy, "ok_rate");
    assert_eq!(verdict.outcome, Outcome::Fail, "{verdict:?}");
    assert!((verdict.worsening.unwrap() - 0.5).abs() < 0.01);
    let also_healthy = compared(&healthy, &study(1.01, [100; 3]), &rule);
    let verdict = column(&also_healthy, "ok_rate");
    assert_eq!(verdict.outcome, Outcome::Pass, "{verdict:?}");
    assert!(verdict.high.unwrap() > 0.001, "{verdict:?}");
    // Losses of a percent of few requests are within what chance allows.
    let slightly = compared(&healthy, &study(1.0, [99, 100, 99]), &rule);
    assert_eq!(column(&slightly, "ok_rate").outcome, Outcome::Pass);
}

#[test]
fn a_named_column_that_cannot_be_judged_has_a_line() {
    let rule = named(&["output_throughput", "ttft_ms_p99", "prefix_share"]);
    let comparison = compared(&study(1.0, [100; 3]), &study(1.01, [100; 3]), &rule);
    assert_eq!(comparison.outcome(), Outcome::Undecidable);
    let reason = |name: &str| {
        let verdict = column(&comparison, name);
        (
            verdict.outcome,
            verdict.reason.as_deref().unwrap_or_default(),
        )
    };
    assert_eq!(
        reason("ttft_ms_p99"),
        (Outcome::Undecidable, "no value in either study")
    );
    let (outcome, why) = reason("prefix_share");
    assert_eq!(outcome, Outcome::Undecidable);
    assert!(why.starts_with("no better direction is known"), "{why}");
    assert_eq!(reason("output_throughput").0, Outcome::Pass);
    assert!(
        comparison
            .to_string()
            .contains("undecidable ttft_ms_p99: no value in either study"),
        "{comparison}"
    );
    assert_eq!(comparison.remedies().len(), 2);
    // Columns that nobody named are left out.
    let usual = compared(
        &study(1.0, [100; 3]),
        &study(1.01, [100; 3]),
        &super::rule(),
    );
    assert_eq!((usual.outcome(), usual.gate.len()), (Outcome::Pass, 2));
}

#[test]
fn a_rank_test_that_cannot_reject_after_the_adjustment_is_undecidable() {
    let four = |factor: f64| Study {
        throughput: [
            [100.1, 101.3, 99.2, 100.7].map(|x| x * factor).to_vec(),
            [180.2, 181.9, 178.4, 179.3].map(|x| x * factor).to_vec(),
        ],
        ttft: [
            [50.3, 51.1, 49.4, 50.8].map(|x| x / factor).to_vec(),
            [80.2, 81.7, 79.1, 80.9].map(|x| x / factor).to_vec(),
        ],
        ..Study::default()
    };
    let rule = |columns: &[&str]| Rule {
        test: Test::MannWhitney,
        ..named(columns)
    };
    let all = compared(&four(1.0), &four(0.5), &rule(&[]));
    let reason = "the smallest p of 4 and 4 units is 0.029, and 0.114 after Holm's adjustment over 4 results: the test cannot \
                  reject";
    for result in &all.results {
        assert_eq!(result.verdict, ChangeVerdict::Undecidable);
        assert_eq!((result.p, result.reason.as_deref()), (None, Some(reason)));
    }
    assert_eq!(all.tested(), 0);
    // Eight units can.
    let eight = |factor: f64| {
        let Study {
            throughput, ttft, ..
        } = four(factor);
        let twice = |[one, other]: [Vec<f64>; 2]| {
            let more = |values: Vec<f64>| {
                let shifted = values.iter().map(|x| x * 1.001);
                values.iter().copied().chain(shifted).collect::<Vec<f64>>()
            };
            [more(one), more(other)]
        };
        Study {
            throughput: twice(throughput),
            ttft: twice(ttft),
            ..Study::default()
        }
    };
    let all = compared(&eight(1.0), &eight(0.5), &rule(&[]));
    assert_eq!(all.tested(), 4);
    assert_eq!(regressions(&all).len(), 4);
}

#[test]
fn a_rate_that_falls_by_half_is_worse_by_half() {
    let rule = |threshold: f64| Rule {
        threshold,
        ..named(&["output_throughput"])
    };
    let gate = |threshold: f64| {
        let comparison = compared(
            &study(1.0, [100; 3]),
            &study(0.5, [100; 3]),
            &rule(threshold),
        );
        comparison.gate[0].clone()
    };
    let verdict = gate(0.05);
    assert_eq!(verdict.outcome, Outcome::Fail);
    let bounds = [verdict.low, verdict.worsening, verdict.high].map(Option::unwrap);
    assert!(bounds[0] < bounds[1] && bounds[1] < bounds[2], "{bounds:?}");
    assert!((bounds[1] - 0.5).abs() < 0.001, "{bounds:?}");
    // Allowed are falls by up to 60 %, or by anything.
    assert_eq!(gate(0.6).outcome, Outcome::Pass);
    assert_eq!(gate(1.0).outcome, Outcome::Pass);
}

#[test]
fn repetitions_on_one_launch_have_a_note() {
    let simulated = |factor: f64| Study {
        simulated: true,
        ..study(factor, [100; 3])
    };
    let comparison = compared(&simulated(1.0), &simulated(0.8), &rule());
    let note = "the servers are not started again for each rep, so the units share launches";
    for verdict in &comparison.gate {
        assert!(
            verdict.reason.as_deref().unwrap().contains(note),
            "{verdict:?}"
        );
    }
    let shared = comparison.shared_launches.as_deref().unwrap();
    assert!(shared.contains(note) && shared.contains("`design: {blocks: 5}`"));
    assert!(comparison.to_string().contains(&format!("note: {shared}")));
    let apart = compared(&study(1.0, [100; 3]), &study(0.8, [100; 3]), &rule());
    assert_eq!(apart.shared_launches, None);
    assert!(apart.gate.iter().all(|g| g.reason.is_none()));
}

#[test]
fn tables_whose_cells_are_all_lost_are_tables_of_both_studies() {
    let lost = Study {
        throughput: [Vec::new(), Vec::new()],
        ttft: [Vec::new(), Vec::new()],
        ..Study::default()
    };
    let comparison = compared(&Study::default(), &lost, &rule());
    assert_eq!(comparison.outcome(), Outcome::Undecidable);
    let text = comparison.to_string();
    assert!(
        text.contains("no result is in both studies") && !text.contains("no table of cells"),
        "{text}"
    );
}
