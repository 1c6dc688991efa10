//! Doubts of a sceptical reader: few hosts, checks that contend, tests that cannot detect anything, clashing names.

use artifacts::Scalar;
use serde_json::json;

use crate::make::made;
use crate::published::{column, run, table};

/// A throughput table: hosts with two blocks each, and two systems, the first faster by `factor`.
fn hosts(hosts: usize, factor: f64) -> String {
    let mut text = "host,block,system,tok_s\n".to_owned();
    for host in 0..hosts {
        for block in 0..2 {
            let base = 100.0 + 3.0 * host as f64 + 1.7 * block as f64;
            let faster = base * factor * (1.0 + 0.004 * ((host * 5 + block * 3) % 7) as f64);
            text.push_str(&format!(
                "h{host},{block},b,{base}\nh{host},{block},a,{faster}\n"
            ));
        }
    }
    text
}

const KEYS: [&str; 3] = ["host", "block", "system"];

#[test]
fn hosts_of_several_blocks_are_clusters_and_fewer_than_five_of_them_are_refused() {
    let pair = json!({"axis": "system", "a": "a", "b": "b"});
    let compared = json!({"from": "t", "pair": pair, "columns": ["tok_s"], "unit": ["host"], "family": "study"});
    let over = json!(["host", "block"]);
    let apart = json!({"from": "t", "pair": pair, "columns": ["tok_s"], "unit": ["host"], "over": over, "family": "study"});
    let order = json!({"from": "t", "among": "system", "column": "tok_s", "better": "higher", "unit": ["host"], "family": "study"});
    for (n, verdict) in [(3, "undecidable"), (4, "undecidable"), (5, "different")] {
        let frame = || table(&hosts(n, 1.4), &KEYS, &["tok_s"]);
        let paired = run("paired-comparison", &compared, frame());
        assert_eq!(
            column(&paired, &["tok_s"], "verdict").to_string(),
            verdict,
            "{n}"
        );
        let unpaired = run("unpaired-comparison", &apart, frame());
        assert_eq!(
            column(&unpaired, &["tok_s"], "verdict").to_string(),
            verdict,
            "{n}"
        );
        let ranking = run("ranking", &order, frame());
        let shown = column(&ranking, &["0", "b"], "rank_shown");
        assert_eq!(shown, Scalar::Int(if n < 5 { 1 } else { 2 }), "{n}");
        if n < 5 {
            let reason = column(&paired, &["tok_s"], "verdict_reason").to_string();
            assert_eq!(reason, format!("{n} clusters, and at least 5 are needed"));
            assert_eq!(column(&paired, &["tok_s"], "p"), Scalar::Null);
        }
    }
    // Three hosts that each ran one block are three units.
    let once = hosts(3, 1.4)
        .lines()
        .filter(|l| !l.contains(",1,"))
        .collect::<Vec<_>>()
        .join("\n");
    let once = once.replace(",0,", ",").replace("host,block,", "host,");
    let compared = run(
        "paired-comparison",
        &compared,
        table(&once, &["host", "system"], &["tok_s"]),
    );
    assert_eq!(
        column(&compared, &["tok_s"], "verdict").to_string(),
        "different"
    );
    // An interval of a mean needs equally many.
    let means = json!({"from": "t", "over": over, "unit": ["host"], "columns": ["tok_s"], "confidence": 0.95});
    for (n, is_given) in [(4, false), (5, true)] {
        let table = run(
            "aggregate",
            &means,
            table(&hosts(n, 1.4), &KEYS, &["tok_s"]),
        );
        assert_eq!(
            column(&table, &["a"], "tok_s_ci_low") != Scalar::Null,
            is_given,
            "{n}"
        );
    }
}

/// A throughput table over a ladder: hosts with two blocks each.
fn ladders(hosts: usize) -> String {
    let mut text = "host,block,system,clients,tok_s\n".to_owned();
    for (host, block) in (0..hosts).flat_map(|host| (0..2).map(move |block| (host, block))) {
        for (system, factor) in [("a", 1.4), ("b", 1.0)] {
            for n in [1.0, 2.0, 4.0, 8.0, 16.0] {
                let mixed =
                    host * 5 + block * 3 + n as usize + usize::from(system == "a") * (1 + host);
                let noise = 1.0 + 0.01 * (mixed % 7) as f64;
                let value = 500.0 * factor * noise * n / (n + 3.0);
                text.push_str(&format!("h{host},{block},{system},{n},{value}\n"));
            }
        }
    }
    text
}

#[test]
fn no_interval_over_fewer_than_five_clusters_whatever_makes_it() {
    let keys = ["host", "block", "system", "clients"];
    let pair = json!({"axis": "system", "a": "a", "b": "b"});
    let above = json!([{"table": "t", "column": "tok_s", "above": 340}]);
    let cases = [
        (
            "breakdown",
            json!({"rule": "enough", "ladder": "clients", "any": above, "unit": ["host"]}),
            "breakdown_n",
            "resolution",
        ),
        (
            "fit",
            json!({"from": "t", "ladder": "clients", "column": "tok_s", "model": "michaelis-menten", "unit": ["host"]}),
            "unit_low",
            "interval_of",
        ),
        (
            "paired-deltas",
            json!({"from": "t", "pair": pair, "columns": ["tok_s"], "average": ["block"], "unit": ["host"]}),
            "tok_s_ratio_low",
            "interval_of",
        ),
        (
            "aggregate",
            json!({"from": "t", "over": ["host", "block"], "unit": ["host"], "columns": ["tok_s"], "confidence": 0.95}),
            "tok_s_ci_low",
            "",
        ),
        (
            "parallel-efficiency",
            json!({"from": "t", "ladder": "clients", "column": "tok_s", "over": ["host", "block"], "unit": ["host"]}),
            "parallel_efficiency_low",
            "",
        ),
    ];
    for (operator, parameters, figure, reason) in cases {
        for (hosts, is_given) in [(3, false), (4, false), (5, true)] {
            let table = run(
                operator,
                &parameters,
                table(&ladders(hosts), &keys, &["tok_s"]),
            );
            let values = |name: &str| -> Vec<Scalar> {
                let rows = 0..table.rows.len();
                rows.map(|row| table.value(row, name).unwrap().clone())
                    .collect()
            };
            let some = values(figure).iter().any(|value| *value != Scalar::Null);
            assert_eq!(
                some,
                is_given,
                "{operator} over {hosts} hosts: {:?}",
                values(figure)
            );
            if !is_given && !reason.is_empty() {
                let why = format!("{hosts} clusters, and at least 5 are needed");
                let is_stated = values(reason)
                    .iter()
                    .all(|text| text.to_string().contains(&why));
                assert!(is_stated, "{operator}: {:?}", values(reason));
            }
        }
    }
}

#[test]
fn a_test_that_cannot_find_anything_is_undecidable_and_states_no_detectable_effect() {
    let text = "block,system,tok_s\n1,a,9\n1,b,2\n2,a,9.5\n2,b,2.25\n3,a,9.75\n3,b,2\n4,a,8\n4,b,1.5\n5,a,9\n5,b,3\n";
    let judged = |operator: &str, test: &str, over: bool| {
        let mut parameters = json!({"from": "t", "columns": ["tok_s"], "test": test, "family": "study",
            "pair": {"axis": "system", "a": "a", "b": "b"}});
        if over {
            parameters["over"] = json!(["block"]);
        }
        let table = run(
            operator,
            &parameters,
            table(text, &["block", "system"], &["tok_s"]),
        );
        let at = |name: &str| column(&table, &["tok_s"], name).to_string();
        (
            at("verdict"),
            at("verdict_reason"),
            at("smallest_detectable"),
        )
    };
    // Five signs give a p value of at least 1/16.
    for test in ["wilcoxon", "sign", "permutation"] {
        let (verdict, reason, detectable) = judged("paired-comparison", test, false);
        assert_eq!(
            (verdict.as_str(), detectable.as_str()),
            ("undecidable", "null"),
            "{test}"
        );
        assert_eq!(
            reason,
            "the smallest p of so few units is 0.0625, above the level of this test, 0.0500: it could not find anything"
        );
    }
    // Two of the 252 ways to deal ten units are as far apart.
    let (verdict, _, detectable) = judged("unpaired-comparison", "mann-whitney", true);
    assert_eq!(
        (verdict.as_str(), detectable.as_str()),
        ("different", "null")
    );
    assert_eq!(
        judged("paired-comparison", "paired-t", false).0,
        "different"
    );
}

#[test]
fn means_that_point_the_other_way_are_said() {
    // Faster with one client and with four, in every block; slower with many clients, where the numbers are large.
    let mut text = "block,clients,system,tok_s\n".to_owned();
    for block in 0..5 {
        let noise = 1.0 + 0.01 * f64::from(block % 3);
        for (clients, base, ratio) in [(1, 10.0, 1.5), (4, 35.0, 1.4), (64, 900.0, 0.8)] {
            let faster = base * ratio * noise;
            text.push_str(&format!(
                "{block},{clients},b,{base}\n{block},{clients},a,{faster}\n"
            ));
        }
    }
    let parameters = json!({"from": "t", "columns": ["tok_s"], "family": "study",
        "pair": {"axis": "system", "a": "a", "b": "b"}});
    let table = run(
        "paired-comparison",
        &parameters,
        table(&text, &["block", "clients", "system"], &["tok_s"]),
    );
    let at = |name: &str| column(&table, &["tok_s"], name).to_string();
    assert_eq!(
        (at("verdict").as_str(), at("higher").as_str()),
        ("different", "a")
    );
    assert!(
        at("mean_delta").starts_with('-') && at("verdict_reason").contains("point the other way")
    );
}

#[test]
fn the_a_a_arm_is_no_contender() {
    let mut text = "block,system,tok_s,ttft_ms\n".to_owned();
    for block in 0..5 {
        let noise = f64::from(block % 3);
        for (system, tok_s, ttft) in [
            ("a", 140.0, 20.0),
            ("b", 100.0, 9.0),
            ("b-again", 101.0, 8.9),
        ] {
            text.push_str(&format!(
                "{block},{system},{},{}\n",
                tok_s + noise,
                ttft + 0.1 * noise
            ));
        }
    }
    let frame = || table(&text, &["block", "system"], &["tok_s", "ttft_ms"]);
    let arm = json!({"control": {"axis": "system", "label": "b-again", "stands_for": "b"}});
    let better = json!({"from": "t", "among": "system", "column": "tok_s", "better": "higher"});
    let mut order = better.clone();
    order["family"] = json!("study");
    let front = json!({"from": "means", "x": "ttft_ms_mean", "x-better": "lower", "y": "tok_s_mean", "y-better": "higher"});
    let means = json!({"from": "t", "over": ["block"], "columns": ["tok_s", "ttft_ms"], "confidence": 0.95});
    let tables = [
        ("order", "ranking", order),
        ("wins", "wins", better),
        ("means", "aggregate", means),
        ("front", "frontier", front),
    ];
    let with = made(&tables, frame(), &arm).unwrap();
    let without = made(&tables, frame(), &json!(null)).unwrap();
    for name in ["order", "wins", "front"] {
        let labels = |frame: &crate::frame::Frame| -> Vec<String> {
            frame.rows.iter().map(|r| r.key[0].to_string()).collect()
        };
        assert_eq!(labels(&with[name]), ["a", "b"], "{name}");
        assert_eq!(labels(&without[name]), ["a", "b", "b-again"], "{name}");
    }
    // Its twin would take the place of `b` by a tenth of a millisecond, which the intervals show to be noise.
    assert_eq!(
        column(&with["front"], &["b"], "on_frontier"),
        Scalar::Bool(true)
    );
    assert_eq!(
        column(&without["front"], &["b"], "on_frontier"),
        Scalar::Bool(false)
    );
    assert_eq!(
        column(&without["front"], &["b"], "surely_beaten_by"),
        Scalar::Int(0)
    );
}

#[test]
fn a_cost_has_the_interval_of_its_throughput() {
    let text = "block,system,tok_s\n1,a,100\n2,a,110\n3,a,90\n4,a,105\n5,a,95\n";
    let means = json!({"from": "t", "over": ["block"], "columns": ["tok_s"], "confidence": 0.95});
    let price = json!({"from": "means", "column": "tok_s_mean", "devices": 1, "price-per-hour": 0.36,
        "currency": "EUR", "price-date": "2026-02-03", "price-source": "a list"});
    let tables = [("means", "aggregate", means), ("price", "cost", price)];
    let tables = made(
        &tables,
        table(text, &["block", "system"], &["tok_s"]),
        &json!(null),
    )
    .unwrap();
    let value = |name: &str, column: &str| tables[name].number(0, column).unwrap();
    for (cost, rate) in [("", "mean"), ("_low", "ci_high"), ("_high", "ci_low")] {
        let cost = value("price", &format!("cost_per_million_tokens{cost}"));
        assert!((cost * value("means", &format!("tok_s_{rate}")) - 100.0).abs() < 1e-9);
    }
    assert!(
        value("price", "cost_per_million_tokens_low") < value("price", "cost_per_million_tokens")
    );
}

#[test]
fn requests_have_a_price_too_and_an_interval_that_reaches_zero_leaves_their_cost_open() {
    let text = "block,system,rate\n1,a,2\n2,a,2.2\n3,a,1.8\n1,b,2\n2,b,0\n3,b,0.1\n";
    let means = json!({"from": "t", "over": ["block"], "columns": ["rate"], "confidence": 0.95});
    let price = json!({"from": "means", "column": "rate_mean", "devices": 2, "price-per-hour": 3.6,
        "currency": "USD", "price-date": "2026-02-03", "price-source": "a list"});
    let tables = [("means", "aggregate", means), ("price", "cost", price)];
    let mut given = table(text, &["block", "system"], &["rate"]);
    for spec in &mut given.specs {
        spec.unit = Some("req/s".to_owned());
    }
    let tables = made(&tables, given, &json!(null)).unwrap();
    let price = &tables["price"];
    let ends = ["", "_low", "_high"].map(|end| format!("cost_per_thousand_requests{end}"));
    // 7.2 USD an hour buy 7,200 requests at 2 requests per second.
    assert!((price.number(0, &ends[0]).unwrap() - 1.0).abs() < 1e-12);
    assert!(price.number(0, &ends[1]) < price.number(0, &ends[0]));
    assert!(price.number(0, &ends[2]) > price.number(0, &ends[0]));
    assert!(price.number(1, &ends[0]).is_some() && price.number(1, &ends[2]).is_none());
    let why = price.value(1, "cost_per_thousand_requests_why").unwrap();
    assert_eq!(
        *why,
        crate::frame::text("the interval of rate_mean reaches 0, so nothing limits the cost")
    );
    assert!(price.specs.iter().all(|spec| !spec.name.contains("tokens")));
}

#[test]
fn tables_that_a_query_computes_or_of_costs_alone_are_made_again() {
    use pipeline::StageKind as _;
    let version = |operator: &str, query: &str| {
        let table = json!({"name": "t", "operator": operator, "parameters": {"query": query}});
        crate::Analyze.semantic_version_of(&json!({"tables": [table]}))
    };
    let own = crate::Analyze.semantic_version();
    assert_eq!(version("sql", "select 'a/b' as c -- a / b"), own);
    assert_eq!(version("aggregate", ""), own);
    // Stages with quotients or costs had this version before queries refused numbers that do not fit.
    let earlier = own + 1_000;
    for query in [
        "select 1 / 2 as c",
        "select exp(a) as c from t",
        "select a * b as c from t",
        "select cast(a as integer) as c from t",
        "select 1e999 as c",
    ] {
        let version = version("sql", query);
        assert!(version != own && version != earlier, "{query}: {version}");
    }
    assert_ne!(version("cost", ""), own);
}

#[test]
fn axes_may_have_the_names_of_the_keys_that_operators_add() {
    let text =
        "block,metric,system,tok_s\n1,x,a,100\n1,x,b,90\n2,x,a,110\n2,x,b,96\n3,x,a,99\n3,x,b,90\n";
    let parameters = json!({"from": "t", "columns": ["tok_s"], "by": ["metric"], "family": "study",
        "pair": {"axis": "system", "a": "a", "b": "b"}});
    let compared = run(
        "paired-comparison",
        &parameters,
        table(text, &["block", "metric", "system"], &["tok_s"]),
    );
    assert_eq!(compared.keys, ["metric", "paired_comparison_metric"]);
    let text = "n,tok_s\n1,100\n2,110\n4,120\n8,118\n";
    let rule = json!({"rule": "slow", "ladder": "n", "any": [{"table": "t", "column": "tok_s", "below": 50}]});
    // The axis is called `n`, the same as a column and as the suffix of another.
    let mut named: Vec<String> = Vec::new();
    let text = format!("g,{}", text.replace('\n', "\nx,").trim_end_matches("x,"));
    let table = run("breakdown", &rule, table(&text, &["g", "n"], &["tok_s"]));
    named.extend(table.keys.iter().cloned());
    named.extend(table.specs.iter().map(|s| s.name.clone()));
    let mut unique = named.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), named.len(), "{named:?}");
}

#[test]
fn repetitions_within_a_launch_are_no_units_of_an_efficiency() {
    let mut text = "block,rep,clients,output_throughput\n".to_owned();
    for block in 0..4 {
        for rep in 0..3 {
            for (clients, value) in [(1, 100.0), (4, 310.0)] {
                let value = value * (1.0 + 0.01 * f64::from(block) + 0.003 * f64::from(rep));
                text.push_str(&format!("{block},{rep},{clients},{value}\n"));
            }
        }
    }
    let parameters = json!({"from": "t", "ladder": "clients", "column": "output_throughput", "over": ["block", "rep"]});
    let frame = table(&text, &["block", "rep", "clients"], &["output_throughput"]);
    let table = run("parallel-efficiency", &parameters, frame);
    assert_eq!(column(&table, &["4"], "units"), Scalar::Int(4));
}

#[test]
fn a_mean_is_never_shown_beside_an_interval_that_does_not_hold_it() {
    let parameters =
        json!({"from": "t", "over": ["block"], "columns": ["ttft_ms"], "confidence": 0.95});
    let verdict_of = |values: &[f64]| {
        let mut text = "block,system,ttft_ms\n".to_owned();
        for (block, value) in values.iter().enumerate() {
            text.push_str(&format!("{block},a,{value}\n"));
        }
        let mut frame = table(&text, &["block", "system"], &["ttft_ms"]);
        frame.specs[0].range = crate::frame::Bounds::NotNegative;
        run("aggregate", &parameters, frame)
    };
    let usual = verdict_of(&[10.0, 11.0, 9.5, 10.4, 9.9]);
    assert!(usual.number(0, "ttft_ms_ci_low") < usual.number(0, "ttft_ms_mean"));
    // Sixteen launches, one of which hung: the mean is 634, and the interval of the geometric mean would end far below.
    let mut values = [10.0, 10.5, 9.5, 10.2].repeat(4);
    values[7] = 10_000.0;
    let wild = verdict_of(&values);
    let [low, mean, high] =
        ["ci_low", "mean", "ci_high"].map(|end| wild.number(0, &format!("ttft_ms_{end}")).unwrap());
    assert!(
        0.0 < low && low < 100.0 && 600.0 < mean && 5_000.0 < high,
        "{low} {mean} {high}"
    );
    // The mean over the rows is near that of the launch with most rows. The interval is that of the mean over launches.
    let mut text = "block,rep,system,ttft_ms\n".to_owned();
    for block in 0..30 {
        let rows = if block == 7 { 500 } else { 1 };
        for rep in 0..rows {
            let value = if block == 7 {
                12.0
            } else {
                10.0 + 0.1 * f64::from(block % 3)
            };
            text.push_str(&format!("{block},{rep},a,{value}\n"));
        }
    }
    let mut frame = table(&text, &["block", "rep", "system"], &["ttft_ms"]);
    frame.specs[0].range = crate::frame::Bounds::NotNegative;
    let parameters = json!({"from": "t", "over": ["block", "rep"], "columns": ["ttft_ms"]});
    let unlike = run("aggregate", &parameters, frame);
    assert_eq!(unlike.number(0, "ttft_ms_ci_low"), None);
    assert_eq!(unlike.number(0, "ttft_ms_ci_high"), None);
    let why = column(&unlike, &["a"], "interval_of").to_string();
    assert_eq!(why, "block; the mean of ttft_ms lies outside it");
}

#[test]
fn a_side_that_lost_more_cells_than_the_other_says_that_the_rest_may_flatter_it() {
    use crate::frame::{Absence, Missing};

    let lost = |system: &str, absence| Missing {
        at: vec![("system".to_owned(), Scalar::Text(system.to_owned()))],
        why: "failed: out of memory".to_owned(),
        absence,
    };
    let failed = Absence::Ended(pipeline::CellStatus::Failed);
    let said = |missing: Vec<Missing>| {
        let mut frame = table(&hosts(12, 1.4), &KEYS, &["tok_s"]);
        frame.missing = missing;
        let pair = json!({"axis": "system", "a": "a", "b": "b"});
        let given = json!({"from": "t", "pair": pair, "columns": ["tok_s"], "unit": ["host"]});
        let made = run("paired-comparison", &given, frame);
        let text = |name: &str| column(&made, &["tok_s"], name).to_string();
        (text("verdict"), text("verdict_reason"))
    };
    let flatters = "2 cells of a and 1 of b gave no result: if they failed because they were slow, the others flatter that side";
    let missing = vec![
        lost("a", failed),
        lost("a", Absence::Barred),
        lost("b", failed),
    ];
    let (verdict, reason) = said(missing);
    assert_eq!(verdict, "different");
    assert!(reason.ends_with(flatters), "{reason}");
    // Nothing is stated in favour of a side that lost far more cells, whichever direction is better.
    let (verdict, reason) = said(vec![lost("a", failed); 12]);
    assert_eq!(verdict, "undecidable");
    assert!(reason.starts_with("12 cells of a and 0 of b"), "{reason}");
    // What the experiment excludes was not lost.
    let excluded = Absence::Ended(pipeline::CellStatus::Excluded);
    let (verdict, reason) = said(vec![lost("a", excluded); 12]);
    assert_eq!(verdict, "different");
    assert!(
        reason.ends_with("the experiment excludes 12 cells of a and 0 of b"),
        "{reason}"
    );
    let (_, reason) = said(vec![lost("a", excluded), lost("b", failed)]);
    assert!(
        reason.ends_with("0 cells of a and 1 of b gave no result: if they failed because they were slow, the others flatter \
                          that side; the experiment excludes 1 cell of a and 0 of b"),
        "{reason}"
    );
    // Equal losses on each side, and files that contain figures only.
    let alike = vec![lost("a", failed), lost("b", failed)];
    assert!(!said(alike).1.contains("gave no result"));
    assert!(
        !said(vec![lost("a", Absence::Aggregate)])
            .1
            .contains("gave no result")
    );
}

#[test]
fn what_is_said_against_the_side_that_lost_cells_stands() {
    use crate::frame::{Absence, Missing};

    // System a is higher, which is better for a throughput and worse for a time.
    let said = |metric: &str, unit: &str, loser: &str| {
        let mut frame = table(&hosts(6, 1.4).replace("tok_s", metric), &KEYS, &[metric]);
        frame.specs[0].unit = Some(unit.to_owned());
        let lost = Missing {
            at: vec![("system".to_owned(), Scalar::Text(loser.to_owned()))],
            why: "failed".to_owned(),
            absence: Absence::Ended(pipeline::CellStatus::Failed),
        };
        frame.missing = vec![lost; 12];
        let pair = json!({"axis": "system", "a": "a", "b": "b"});
        let given = json!({"from": "t", "pair": pair, "columns": [metric], "unit": ["host"], "margin": {metric: 0.05}});
        let made = run("paired-comparison", &given, frame);
        ["verdict", "not_lower", "not_higher"]
            .map(|name| column(&made, &[metric], name).to_string())
            .join(" ")
    };
    assert_eq!(said("tok_s", "tok/s", "b"), "different true false");
    assert_eq!(said("tok_s", "tok/s", "a"), "undecidable null null");
    assert_eq!(said("wait", "ms", "a"), "different true false");
    assert_eq!(said("wait", "ms", "b"), "undecidable null null");
}
