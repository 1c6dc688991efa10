//! Planning of settings: their errors, and the columns of the result.

use pipeline::StageKind as _;

use super::*;

#[test]
fn the_columns_that_come_out_are_those_planned_with_their_meaning() {
    let (_folder, store) = store();
    let done = analyze(&store, &inputs(&store), &everything()).unwrap();
    for output in done
        .outputs
        .iter()
        .filter(|o| !o.name.ends_with(".lineage") && !o.name.ends_with(".file"))
    {
        let table = table(&done, &output.name);
        assert!(table.metadata("operator").is_some() && table.metadata("parameters").is_some());
        let keys = table.metadata("keys").unwrap();
        for column in table.names() {
            assert!(
                table.description(&column).is_some_and(|d| !d.is_empty()),
                "{} {column}",
                output.name
            );
            let key = keys.split(',').any(|k| k == column);
            let number = table.float(&column).is_ok() && !key;
            let unitless = [
                "mean_a",
                "mean_b",
                "mean_delta",
                "median_delta",
                "ci_low",
                "ci_high",
                "breakdown_n",
                "value",
                "std_error",
                "rss",
                "effect",
                "adjusted_low",
                "adjusted_high",
                "margin",
                "smallest_detectable",
                "bound_low",
                "bound_high",
                "observed_n",
                "breakdown_low",
                "breakdown_high",
                "unit_low",
                "unit_high",
                "left",
                "right",
            ];
            assert!(
                !number || table.unit(&column).is_some() || unitless.contains(&column.as_str()),
                "{} {column} has no unit",
                output.name
            );
        }
    }
}

#[test]
fn the_order_in_which_tables_are_declared_decides_nothing() {
    let cells = ("cells", json!({"operator": "cell-summary"}));
    let means = (
        "a_means",
        json!({"operator": "aggregate", "from": "cells", "over": ["rep"], "columns": ["ok_rate"]}),
    );
    let problems_of = |tables: [&(&str, Json); 2]| {
        let tables: serde_json::Map<String, Json> = tables
            .into_iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        canonical(&Json::Object(tables)).unwrap()
    };
    assert_eq!(problems_of([&cells, &means]), problems_of([&means, &cells]));
    assert_eq!(problems_of([&cells, &means])["tables"][0]["name"], "cells");
}

#[test]
fn every_mistake_in_the_settings_is_reported_at_once_with_its_place() {
    let problems = canonical(&json!({
        "hen": {"operator": "aggregate", "from": "egg", "over": ["rep"], "columns": ["ok_rate"]},
        "egg": {"operator": "aggregate", "from": "hen", "over": ["rep"], "columns": ["ok_rate"]},
        "cells": {"operator": "cell-sumary"},
        "means": {"operator": "aggregate", "from": "cells", "over": ["rep"], "columns": ["anything"]},
        "good": {"operator": "cell-summary"},
        "typo": {"operator": "aggregate", "from": "good", "over": ["rep"], "columns": ["output_troughput", "level"]},
        "lost": {"operator": "wins", "from": "god", "among": "configuration", "column": "ok_rate", "better": "more"},
        "bare": {},
        "Loud": {"operator": "cell-summary"},
        "rule": {"operator": "breakdown", "rule": "r", "ladder": "concurrency",
                 "any": [{"table": "good", "column": "ok_rate"}]},
    }))
    .unwrap_err();
    let messages: Vec<String> = problems
        .iter()
        .map(|p| {
            let route: Vec<String> = p
                .route
                .iter()
                .map(|s| match s {
                    Step::Key(key) => key.clone(),
                    Step::Index(i) => i.to_string(),
                })
                .collect();
            format!(
                "{}: {} — {}",
                route.join("."),
                p.message,
                p.hint.as_deref().unwrap_or("-")
            )
        })
        .collect();
    assert_eq!(
        messages,
        [
            "tables.Loud: `Loud` is not a valid name for a table — use lower-case letters, digits \
             and underscores, at most 64",
            "tables.bare: table `bare` needs an `operator`, or a `file` — operators are: requests, cell-summary, distribution, \
             steady-state, censored, goodput, compat, aggregate, margins, censored-cells, parallel-efficiency, \
             per-client-efficiency, latency-multipliers, mfu, cost, frontier, breakdown, monotonicity, crossover, fit, paired-deltas, \
             paired-comparison, unpaired-comparison, changes, wins, ranking, correlation, identity, energy, telemetry-summary, \
             counter-delta, hang-signature, facts, published, sql",
            "tables.cells.operator: unknown operator `cell-sumary` — did you mean `cell-summary`?",
            "tables.lost.better: unknown value `more` — the values are `higher`, `lower`",
            "tables.rule.any.0: a condition needs either `below` or `above` — -",
            "tables.typo.columns.0: the table `good` has no column `output_troughput` — did you mean \
             `output_throughput`?",
            "tables.typo.columns.1: the column `level` of `good` does not hold numbers — -",
            "tables.egg.from: the table `hen` itself depends on this one — two tables cannot \
             depend on each other; take one of them from elsewhere",
        ]
    );
}

#[test]
fn an_axis_that_does_not_exist_is_a_failure_with_the_nearest_name() {
    let settings = json!({
        "cells": {"operator": "cell-summary"},
        "means": {"operator": "aggregate", "from": "cells", "over": ["reps"], "columns": ["ok_rate"]},
    });
    let problems = canonical(&settings).unwrap_err();
    assert_eq!(
        problems[0].message,
        "`reps` is not a key column of the table `cells`"
    );
    assert_eq!(problems[0].hint.as_deref(), Some("did you mean `rep`?"));
}

/// The message and the remedy of each problem.
fn in_words(problems: &[Problem]) -> Vec<String> {
    let words = |p: &Problem| format!("{} — {}", p.message, p.hint.as_deref().unwrap_or("-"));
    problems.iter().map(words).collect()
}

#[test]
fn a_margin_of_a_ratio_is_a_share() {
    let margin = |margin: f64, scale: &str| {
        canonical(&json!({
            "cells": {"operator": "cell-summary"},
            "compared": {"operator": "paired-comparison", "from": "cells", "scale": scale, "unit": ["rep"],
                         "pair": {"axis": "configuration", "a": "batched", "b": "serial"},
                         "columns": ["output_throughput"], "margin": {"output_throughput": margin}},
        }))
    };
    let problems = margin(5.0, "ratio").unwrap_err();
    assert_eq!(
        in_words(&problems),
        [
            "on the scale `ratio`, a margin is a share below 1 — a share is at most 1: write 0.05 for 5 %"
        ]
    );
    assert!(margin(0.05, "ratio").is_ok() && margin(5.0, "difference").is_ok());
}

#[test]
fn what_is_known_to_be_worse_is_not_called_better() {
    let better = |column: &str, better: &str| {
        let ranked = json!({"operator": "ranking", "from": "cells", "among": "configuration", "unit": ["rep"],
            "column": column, "better": better});
        canonical(&json!({"cells": {"operator": "cell-summary"}, "ranked": ranked}))
    };
    let problems = better("output_throughput", "lower").unwrap_err();
    assert_eq!(
        in_words(&problems),
        ["lower values of `output_throughput` are worse — write `better: higher`"]
    );
    assert!(better("ttft_ms_p50", "higher").is_err());
    // Whether more tokens are better is not known.
    assert!(better("output_tokens", "lower").is_ok() && better("ttft_ms_p50", "lower").is_ok());
}

#[test]
fn sides_are_two_labels_of_their_axis() {
    let axis = pipeline::KnownAxis {
        name: "configuration".to_owned(),
        labels: vec![Scalar::Text("batched".into()), Scalar::Int(8)],
        left_out: vec![Scalar::Text("serial".into())],
    };
    let problems = |a: Json, b: Json| {
        let parameters = json!({"tables": [
            {"name": "cells", "operator": "cell-summary", "parameters": {}},
            {"name": "compared", "operator": "paired-comparison", "parameters": {
                "from": "cells", "pair": {"axis": "configuration", "a": a, "b": b}}},
        ]});
        let problems = Analyze.unknown_names(&parameters, &[], std::slice::from_ref(&axis));
        in_words(&problems)
    };
    assert_eq!(problems(json!("batched"), json!(8)), Vec::<String>::new());
    assert_eq!(
        problems(json!("serial"), json!("batched")),
        Vec::<String>::new()
    );
    let wrong = problems(json!("batched"), json!("base"));
    assert_eq!(wrong.len(), 1);
    assert!(
        wrong[0].starts_with("`base` is not a label of the axis `configuration`"),
        "{wrong:?}"
    );
    let same = problems(json!("serial"), json!("serial"));
    assert!(
        same.len() == 1 && same[0].starts_with("both sides are `serial`"),
        "{same:?}"
    );
}
