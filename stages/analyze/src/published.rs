//! Published tables as oracles: the operators reproduce what follows from them, and nothing else.

use artifacts::Scalar;
use pipeline::Json;
use serde_json::json;

use crate::frame::{Frame, Level, Row, Spec};
use crate::make::made;
use crate::operators::family::{Asked, Family, Hypothesis, Shares, decide};

/// Reads a published table: key columns unchanged, all others as numbers.
pub(crate) fn table(text: &str, keys: &[&str], numbers: &[&str]) -> Frame {
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let place = |name: &str| {
        header
            .iter()
            .position(|h| *h == name)
            .unwrap_or_else(|| panic!("{name}"))
    };
    let rows = lines.filter(|l| !l.is_empty()).map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let scalar = |name: &&str| {
            let field = fields[place(name)];
            let field = field.strip_suffix(" users").unwrap_or(field);
            field
                .parse::<i64>()
                .map_or_else(|_| Scalar::Text(field.to_owned()), Scalar::Int)
        };
        let number = |name: &&str| {
            fields[place(name)]
                .parse::<f64>()
                .map_or(Scalar::Null, Scalar::Float)
        };
        let values = numbers.iter().map(number).collect();
        Row::new(keys.iter().map(scalar).collect(), values, Vec::new())
    });
    let frame = Frame {
        level: Level::Cell,
        keys: keys.iter().map(|k| (*k).to_owned()).collect(),
        specs: numbers
            .iter()
            .map(|n| Spec::float(*n, "", "as published"))
            .collect(),
        rows: rows.collect(),
        missing: Vec::new(),
    };
    frame.settle().unwrap()
}

pub(crate) fn run(operator: &str, parameters: &Json, frame: Frame) -> Frame {
    let tables = [("made", operator, parameters.clone())];
    made(&tables, frame, &Json::Null)
        .unwrap()
        .remove("made")
        .unwrap()
}

pub(crate) fn failure(operator: &str, parameters: &Json, frame: Frame) -> String {
    let tables = [("made", operator, parameters.clone())];
    let failure = made(&tables, frame, &Json::Null).err().unwrap().reason;
    let prefix = format!("table `made` ({operator}): ");
    failure.strip_prefix(&prefix).unwrap().to_owned()
}

fn at(frame: &Frame, key: &[&str]) -> usize {
    let row = frame.rows.iter().position(|r| {
        r.key
            .iter()
            .map(ToString::to_string)
            .eq(key.iter().copied())
    });
    row.unwrap_or_else(|| panic!("no row {key:?}"))
}

pub(crate) fn column(frame: &Frame, key: &[&str], name: &str) -> Scalar {
    frame.value(at(frame, key), name).unwrap().clone()
}

/// Converts a table with two engines as columns to rows.
pub(crate) fn two_engines(text: &str) -> Frame {
    let mut long = "model,engine,tok_s\n".to_owned();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        long.push_str(&format!(
            "{0},vllm,{1}\n{0},sglang,{2}\n",
            fields[0], fields[1], fields[2]
        ));
    }
    table(&long, &["model", "engine"], &["tok_s"])
}

#[test]
fn the_crossovers_of_the_decode_length_sweep_are_those_published() {
    let text = include_str!("../oracles/h002_decode_sweep.csv");
    let sweep = table(text, &["model", "max_tokens", "engine"], &["tok_s"]);
    let parameters = json!({
        "from": "t", "pair": {"axis": "engine", "a": "vllm", "b": "sglang"}, "ladder": "max_tokens",
        "column": "tok_s", "better": "higher",
    });
    let table = run("crossover", &parameters, sweep);
    for (model, expected) in [
        ("phi-4-mini-instruct", Scalar::Float(1024.0)),
        ("gemma-2-2b-it", Scalar::Float(1024.0)),
        ("llama-3-1-8b-instruct", Scalar::Float(4096.0)),
        ("gemma-3-4b-it", Scalar::Null),
    ] {
        assert_eq!(column(&table, &[model], "observed_at"), expected, "{model}");
    }
    // With one value per side, the change is observed, but no crossover is shown.
    let model = &["llama-3-1-8b-instruct"];
    assert_eq!(column(&table, model, "crossover_at"), Scalar::Null);
    assert_eq!(
        column(&table, model, "resolution").to_string(),
        "undecidable: no replication of launches: the table has no key `block`, and no `unit` is declared"
    );
}

#[test]
fn the_printed_percentages_of_the_winners_reproduce_at_integer_rounding() {
    for text in [
        include_str!("../oracles/h002_throughput.csv"),
        include_str!("../oracles/h002_structured.csv"),
    ] {
        let parameters = json!({
            "from": "t", "pair": {"axis": "engine", "a": "vllm", "b": "sglang"}, "columns": ["tok_s"],
        });
        let deltas = run("paired-deltas", &parameters, two_engines(text));
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let Scalar::Float(ratio) = column(&deltas, &[fields[0]], "tok_s_ratio") else {
                panic!("{line}")
            };
            let (name, times) = if ratio > 1.0 {
                ("vLLM", ratio)
            } else {
                ("SGLang", 1.0 / ratio)
            };
            let percent = ((times - 1.0) * 100.0).round();
            let label = if percent == 0.0 {
                "Tie".to_owned()
            } else {
                format!("{name} +{percent}%")
            };
            let printed = fields[3];
            assert!(
                label == printed || (label == "Tie" && printed.starts_with("Tie")),
                "{line}: {label}"
            );
        }
    }
}

#[test]
fn a_tie_rule_moves_wins_to_ties_and_loses_no_contest() {
    let text = include_str!("../oracles/h002_throughput.csv");
    let count = |tie: f64| {
        let parameters = json!({
            "from": "t", "among": "engine", "column": "tok_s", "better": "higher", "tie-within": tie,
        });
        let wins = run("wins", &parameters, two_engines(text));
        let value = |engine: &str, name: &str| column(&wins, &[engine], name).as_f64().unwrap();
        assert_eq!(
            value("vllm", "wins") + value("sglang", "wins") + value("vllm", "ties"),
            14.0
        );
        (
            value("vllm", "wins"),
            value("sglang", "wins"),
            value("vllm", "ties"),
            value("vllm", "strict_wins"),
        )
    };
    // Counted by hand in the table: five wins for one side, four for the other, five ties.
    assert_eq!(count(0.0), (5.0, 4.0, 5.0, 5.0));
    // Within 3 %: 265/258, 191/187, 80/78 and 223/226, 105/106, 98/99 become ties.
    assert_eq!(count(0.03), (2.0, 1.0, 11.0, 5.0));
}

#[test]
fn efficiency_is_speedup_over_n_within_a_tenth_in_seven_of_ten_rows_and_one_is_off_tenfold() {
    let speedups = include_str!("../oracles/v1_cross_model_speedup_n16.csv");
    let efficiencies = include_str!("../oracles/v1_appendix_i_efficiency_n16.csv");
    let printed = table(
        efficiencies,
        &["model", "phase", "workload"],
        &["mean_parallel_efficiency"],
    );
    // The published speedup is a mean over phases, so the printed efficiencies are averaged in the same way.
    let parameters = json!({
        "from": "t", "over": ["phase"], "columns": ["mean_parallel_efficiency"], "confidence": 0.95,
    });
    let means = run("aggregate", &parameters, printed);
    let (mut exact, mut close, mut off) = (0, 0, Vec::new());
    for line in speedups.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let mean = column(&means, &fields[..2], "mean_parallel_efficiency_mean")
            .as_f64()
            .unwrap();
        let expected = fields[2].parse::<f64>().unwrap() / 16.0;
        // Half a unit of the last printed digit on either side; then a tenth.
        if (mean - expected).abs() <= 0.005 / 16.0 + 0.0005 {
            exact += 1;
        } else if (mean / expected - 1.0).abs() <= 0.1 {
            close += 1;
        } else {
            off.push((line, mean / expected));
        }
    }
    assert_eq!((exact, close, off.len()), (4, 3, 3), "{off:#?}");
    let (_, factor) = off
        .iter()
        .find(|(line, _)| line.starts_with("llama3.2-3b,balanced_2k"))
        .unwrap();
    assert!((8.0..12.0).contains(factor), "{factor}");
}

#[test]
fn the_published_saturation_fit_comes_out_of_the_operator_with_its_single_degree_of_freedom() {
    let text = include_str!("../oracles/sgl004_throughput.csv");
    let points = table(text, &["concurrency"], &["aggregate_tok_s"]);
    let parameters = json!({
        "from": "t", "ladder": "concurrency", "column": "aggregate_tok_s", "model": "michaelis-menten",
        "confidence": 0.95,
    });
    let fit = run("fit", &parameters, points);
    let value =
        |name: &str, column_name: &str| column(&fit, &[name], column_name).as_f64().unwrap();
    assert_eq!(
        format!("{:.2} {:.2}", value("vmax", "value"), value("k", "value")),
        "8351.11 410.92"
    );
    assert_eq!(value("k", "df"), 1.0);
    // The interval of K contains 0: three points show little about saturation.
    assert!(value("k", "ci_low") < 0.0);
}

#[test]
fn the_published_decisions_follow_from_holm_and_the_interval() {
    let text = include_str!("../oracles/v3_head_to_head.csv");
    let table = table(
        text,
        &["workload"],
        &["ci95_lo", "ci95_hi", "wilcoxon_p_raw", "wilcoxon_p_holm"],
    );
    let number = |row: usize, column: &str| table.number(row, column).unwrap();
    let every = 0..table.rows.len();
    let raw: Vec<f64> = every
        .clone()
        .map(|row| number(row, "wilcoxon_p_raw"))
        .collect();
    // The adjustment that the comparison operators use.
    let test = |p: &f64| Hypothesis::new(0, Some(*p), ("vllm", "sglang"), &[]);
    let asked = Asked {
        family: Family::Table,
        alpha: 0.05,
        columns: vec!["tok_s".to_owned()],
        by: vec!["workload".to_owned()],
        from: "t".to_owned(),
        axis: "engine".to_owned(),
        contest: false,
        tests: raw.iter().map(test).collect(),
    };
    let (adjusted, _) = decide(&[("compared", &asked)], 0, &Shares::default());
    assert_eq!(
        adjusted[0][0].family.as_deref(),
        Some("this table at 5 %: tok_s by workload (5 tests)")
    );
    let (mut rejected, mut rest) = (Vec::new(), Vec::new());
    for (row, adjusted) in every.zip(&adjusted[0]) {
        let decision = adjusted.decision.unwrap();
        assert!((decision.adjusted_p - number(row, "wilcoxon_p_holm")).abs() <= 5.0 * 0.5e-6);
        let interval = statistics::Interval {
            low: number(row, "ci95_lo"),
            high: number(row, "ci95_hi"),
        };
        // The published rule requires both.
        let label = table.rows[row].key[0].to_string();
        if decision.rejected && interval.excludes(0.0) {
            rejected.push(label);
        } else {
            rest.push(label);
        }
    }
    assert_eq!(rest, ["balanced_2k"]);
    assert_eq!(
        rejected,
        [
            "long_decode",
            "long_prefill_8k",
            "repeated_prefix",
            "short_decode"
        ]
    );
}
