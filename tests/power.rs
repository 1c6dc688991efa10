//! `power`: simulates the design of an experiment before anything is measured.

use crate::support::Project;

/// Five in a hundred, plus four standard errors for this many studies.
fn bound(studies: f64) -> f64 {
    studies * 0.05 + 4.0 * (studies * 0.05 * 0.95).sqrt()
}

#[test]
fn the_verdicts_of_every_shipped_experiment_are_rarely_false() {
    let project = Project::new();
    let studies = 100.0;
    let mut simulated = 0;
    let folders = ["experiments", "experiments/gpu"].map(|folder| project.path().join(folder));
    let files = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap());
    for experiment in files {
        let experiment = experiment.unwrap().path();
        if experiment.extension().is_none_or(|e| e != "yaml") {
            continue;
        }
        let arguments = ["power", "--studies", "100", "--effect", "50", "--json"];
        let file = experiment.to_str().unwrap();
        let outcome = project.run(arguments.into_iter().chain([file]));
        // Most shipped studies compare nothing.
        if outcome.code == Some(5) {
            continue;
        }
        let answer = outcome.ok().json();
        for stage in answer["stages"].as_array().unwrap() {
            for count in ["any_different", "any_check_different"] {
                let wrong = stage["found"][count].as_f64().unwrap();
                assert!(wrong <= bound(studies), "{file}: {count} {wrong}");
            }
            for table in stage["found"]["tables"].as_array().unwrap() {
                simulated += 1;
                assert!(table["refused"].is_null(), "{file}: {table}");
                let at = |i: usize, count: &str| table["at"][i][count].as_f64().unwrap();
                let wrong = at(0, "any_different");
                assert!(wrong <= bound(studies), "{file}: {table}");
                let rows = table["rows"].as_f64().unwrap() * studies;
                assert!(at(1, "rows_found") >= 0.95 * rows, "{file}: {table}");
            }
        }
    }
    // Three from the quickstart, two from the planted grid, and three, two, two, two, two, five, five and three from the GPU
    // studies.
    assert_eq!(simulated, 29);
}

#[test]
fn a_design_too_small_for_verdicts_and_a_study_without_comparisons_are_reported() {
    let project = Project::new();
    let shown = project
        .run([
            "power",
            "experiments/quickstart.yaml",
            "--smoke",
            "--studies",
            "20",
        ])
        .ok()
        .stdout;
    assert!(
        shown.contains("results.comparison: 1 unit, and at least 3 are needed"),
        "{shown}"
    );
    let outcome = project.run(["power", "experiments/sessions.yaml"]);
    assert_eq!(outcome.code, Some(5));
    assert!(
        outcome
            .stderr
            .contains("sessions has no table of comparisons")
    );
    let outcome = project.run(["power", "experiments/quickstart.yaml", "--noise", "0"]);
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stderr.contains("--noise cannot be 0"));
}

#[test]
fn a_margin_says_how_often_the_rule_not_worse_holds_and_how_often_it_would_be_false() {
    let project = Project::new();
    let table = "      far_tails_compared:";
    let margins = "        margin: {ttft_ms_p95: 0.05}\n";
    let study = EVERY_KIND.replacen(table, &format!("{margins}{table}"), 1);
    let file = "experiments/margin.yaml";
    std::fs::write(project.path().join(file), study).unwrap();
    let arguments = ["power", file, "--studies", "100", "--effect", "10"];
    let shown = project.run(arguments).ok().stdout;
    let line = shown.lines().find(|l| l.contains("rule `not-worse`"));
    let line = line.unwrap_or_else(|| panic!("{shown}"));
    assert!(
        line.starts_with("results.tails_compared: without an effect, "),
        "{line}"
    );
    assert!(
        line.contains("If fast is higher by a margin of 5 %, this is false: "),
        "{line}"
    );
    let outcome = project.run(arguments.into_iter().chain(["--json"])).ok();
    let answer = outcome.json();
    let tables = answer["stages"][0]["found"]["tables"].as_array().unwrap();
    let table = tables
        .iter()
        .find(|t| t["table"] == "tails_compared")
        .unwrap();
    let count = |at: usize, what: &str| table["at"][at][what].as_f64().unwrap();
    // No effect, 10 %, and the margin itself.
    assert_eq!(count(2, "effect"), 0.05);
    assert_eq!(count(0, "rows_with_margin"), 100.0);
    assert!(count(0, "rows_not_higher") > 10.0, "{table}");
    assert_eq!(count(2, "rows_at_margin"), 100.0);
    assert!(count(2, "false_not_higher") <= bound(100.0), "{table}");
    assert!(count(2, "false_equivalent") <= bound(100.0), "{table}");
}

/// A study with every kind of verdict: over cells, quantiles, shares of requests, a ladder, several systems.
const EVERY_KIND: &str = r#"experiment: kinds
title: Every kind of verdict
question: Is anything shown that is not there?
seed: 7
design:
  blocks: 5
axes:
  configuration:
    fast: {step: 10 ms}
    middle: {step: 11 ms}
    slow: {step: 12 ms}
  clients: [1, 2, 4, 8]
workloads:
  short:
    description: Prompts of 8 random words, answers of 8 tokens.
    prompts: {words: {length: 8}}
    output: {tokens: 8}
stages:
  ladder:
    kind: load
    over: [configuration, clients]
    workload: short
    arrival: {closed-loop: {clients: "${clients}"}}
    requests: 80
    simulate:
      server: {slots: 8, prefill: {fixed: 5 ms}, decode: {fixed: "${configuration.step}"}}
  checks:
    kind: verify
    needs: [ladder]
    gates: [{gate: census}, {gate: expected-rows}]
  results:
    kind: analyze
    needs: [ladder, checks]
    tables:
      cells: {operator: cell-summary}
      tails: {operator: distribution, metrics: [ttft_ms], quantiles: [0.5, 0.95, 0.99]}
      goodput:
        operator: goodput
        objectives: [{name: quick, all: [{metric: ttft_ms, at-most: 100}]}]
      tails_compared:
        operator: paired-comparison
        from: tails
        pair: {axis: configuration, a: fast, b: slow}
        columns: [ttft_ms_p95]
      far_tails_compared:
        operator: paired-comparison
        from: tails
        pair: {axis: configuration, a: fast, b: slow}
        columns: [ttft_ms_p99]
      goodput_compared:
        operator: paired-comparison
        from: goodput
        pair: {axis: configuration, a: fast, b: slow}
        columns: [goodput, slo_pass_rate]
      crossing:
        operator: crossover
        from: cells
        pair: {axis: configuration, a: fast, b: slow}
        ladder: clients
        column: output_throughput
        better: higher
      order:
        operator: ranking
        from: cells
        among: configuration
        column: e2e_latency_ms_p50
        better: lower
      won: {operator: wins, from: cells, among: configuration, column: output_throughput, better: higher}
      pooled: {operator: distribution, metrics: [ttft_ms], over: [block]}
      pooled_compared:
        operator: paired-comparison
        from: pooled
        pair: {axis: configuration, a: fast, b: slow}
        columns: [ttft_ms_p95]
"#;

#[test]
fn crossovers_rankings_quantiles_and_goodput_are_simulated_and_other_tables_are_named() {
    let project = Project::new();
    std::fs::write(project.path().join("experiments/kinds.yaml"), EVERY_KIND).unwrap();
    let power = ["power", "experiments/kinds.yaml", "--studies", "200"];
    let outcome = project.run(power.into_iter().chain(["--effect", "50", "--json"]));
    let answer = outcome.ok().json();
    let stage = &answer["stages"][0]["found"];
    let mut simulated = Vec::new();
    for table in stage["tables"].as_array().unwrap() {
        let name = table["table"].as_str().unwrap();
        let Some(why) = table["refused"].as_str() else {
            let rows = table["rows"].as_f64().unwrap() * 200.0;
            let false_ones = table["at"][0]["any_different"].as_f64().unwrap();
            assert!(false_ones <= bound(200.0), "{table}");
            assert!(
                table["at"][1]["rows_found"].as_f64().unwrap() >= 0.7 * rows,
                "{table}"
            );
            assert!(
                table["at"][1]["any_wrong"].as_f64().unwrap() <= bound(200.0),
                "{table}"
            );
            simulated.push(name);
            continue;
        };
        let reason = match name {
            // Eighty requests bound no p99.
            "far_tails_compared" => {
                "no unit has a value on each side; a quantile is null if too few requests bound it"
            }
            "pooled_compared" => {
                "the table `pooled` pools requests of several cells, which is not simulated"
            }
            _ => panic!("{table}"),
        };
        assert_eq!(why, reason);
    }
    simulated.sort_unstable();
    assert_eq!(
        simulated,
        ["crossing", "goodput_compared", "order", "tails_compared"]
    );
    let shown = project.run(["power", "experiments/kinds.yaml", "--studies", "20"]);
    let shown = shown.ok().stdout;
    let others = "results: not simulated, because they have no test: won (wins)";
    assert!(shown.contains(others), "{shown}");
    assert!(
        shown.contains("have a false verdict in any table"),
        "{shown}"
    );
}

#[test]
fn a_study_that_ends_when_it_knows_enough_is_simulated_with_its_rule() {
    let project = Project::new();
    let study = EVERY_KIND.replace(
        "  blocks: 5\n",
        "  blocks: 3\n  until: {relative-half-width: 8 %, of: output_throughput, at-most: 12 blocks}\n",
    );
    std::fs::write(project.path().join("experiments/until.yaml"), study).unwrap();
    let blocks = |noise: &str| {
        let power = [
            "power",
            "experiments/until.yaml",
            "--studies",
            "60",
            "--effect",
            "50",
        ];
        let outcome = project.run(power.into_iter().chain(["--json", "--noise", noise]));
        let answer = outcome.ok().json();
        let power = &answer["stages"][0]["found"];
        for table in power["tables"].as_array().unwrap() {
            if table["refused"].is_null() {
                let wrong = table["at"][0]["any_different"].as_f64().unwrap();
                assert!(wrong <= bound(60.0), "{table}");
            }
        }
        power["blocks"].as_f64().unwrap()
    };
    let (little, usual, much) = (blocks("0.5"), blocks("3"), blocks("20"));
    assert!((3.0..=4.5).contains(&little), "{little}");
    assert!(little < usual && usual < much, "{little} {usual} {much}");
    assert!(much > 11.9, "{much}");
}

/// Two equal servers whose launches vary by 3 %, and six repetitions as the units.
const REPETITIONS: &str = r#"experiment: repetitions
seed: 1
simulated-servers:
  plain: {slots: 4, prefill: {fixed: 5 ms}, decode: {fixed: 10 ms}, noise: {launch: 0.03, cell: 0.01}}
axes:
  configuration: [one, two]
  rep: [1, 2, 3, 4, 5, 6]
stages:
  ladder:
    kind: load
    over: [configuration, rep]
    workload: short-decode
    arrival: {closed-loop: {clients: 2}}
    requests: 12
    simulate: {server: plain, name: "${configuration}"}
  checks: {kind: verify, needs: [ladder], gates: [{gate: census}]}
  results:
    kind: analyze
    needs: [ladder, checks]
    tables:
      cells: {operator: cell-summary, quantiles: all}
      compared:
        operator: paired-comparison
        from: cells
        unit: [rep]
        pair: {axis: configuration, a: one, b: two}
        columns: [output_throughput]
  report: {kind: report, needs: [ladder, checks, results]}
"#;

/// The same loads of a real server that starts once for each configuration.
fn served() -> String {
    REPETITIONS
        .replace("    simulate: {server: plain, name: \"${configuration}\"}\n", "    needs: [server]\n")
        .replace(
            "  ladder:\n",
            "  machine: {kind: provision, engine: llama-cpp, model: smollm2-135m-instruct}\n  server: {kind: serve, needs: [machine], over: \
             [configuration], settings: {parallel: \"${configuration.slots}\", context: 8192}}\n  ladder:\n",
        )
        .replace(
            "  configuration: [one, two]\n",
            "  configuration:\n    one: {slots: 8}\n    two: {slots: 1}\n",
        )
}

/// Returns how many of 400 studies are falsely different, what is said about shared launches, and the text for people.
fn with_launches_of(project: &Project, study: &str) -> (f64, serde_json::Value, String) {
    let file = "experiments/launches.yaml";
    std::fs::write(project.path().join(file), study).unwrap();
    let power = [
        "power",
        file,
        "--studies",
        "400",
        "--effect",
        "10",
        "--cell-noise",
        "1",
    ];
    let outcome = project.run(power.into_iter().chain(["--json"])).ok();
    let table = &outcome.json()["stages"][0]["found"]["tables"][0];
    let wrong = table["at"][0]["any_different"].as_f64().unwrap();
    let shown = project.run(power).ok().stdout;
    (wrong, table["shared_launches"].clone(), shown)
}

#[test]
fn repetitions_on_one_launch_are_falsely_different_as_often_as_when_they_are_measured() {
    let project = Project::new();
    // The difference of two launches is ± 4.2 %, and 1.5 % is significant: 73 %.
    for study in [REPETITIONS.to_owned(), served()] {
        let (wrong, shared, shown) = with_launches_of(&project, &study);
        assert!((255.0..=330.0).contains(&wrong), "{wrong}");
        assert_eq!(
            shared,
            serde_json::json!({"unit": ["rep"], "within": ["rep"], "instead": [], "units": 6, "launches": 1})
        );
        let note = "results.compared: the 6 units of `rep` share launches (1 launch of a side), because the servers are not started again \
                    for each rep.";
        assert!(shown.contains(note), "{shown}");
        assert!(
            shown.contains("write `design: {blocks: 6}` and remove `unit`"),
            "{shown}"
        );
    }
    // The same studies, measured.
    let different = (1..=8).filter(|seed| {
        let file = format!("experiments/measured{seed}.yaml");
        let study = REPETITIONS.replace("seed: 1\n", &format!("seed: {seed}\n"));
        let study = study.replace(
            "experiment: repetitions",
            &format!("experiment: measured{seed}"),
        );
        std::fs::write(project.path().join(&file), study).unwrap();
        project.run(["run", &file, "--no-dry-run"]).ok();
        let query = "select verdict, verdict_reason from compared";
        let verdict = project.run(["sql", &file, query, "--json"]).ok().stdout;
        let why = "the servers are not started again for each rep, so the units share launches";
        assert!(verdict.contains(why), "{verdict}");
        let report = project
            .path()
            .join(format!("reports/measured{seed}/report.md"));
        let report = std::fs::read_to_string(report).unwrap();
        let limit =
            "the servers were not started again for each rep, so the units of rep share a launch";
        assert!(report.contains(limit), "{report}");
        verdict.contains(r#""verdict":"different""#)
    });
    let different = different.count();
    assert!(different >= 3, "{different} of 8");
}

#[test]
fn a_winner_shown_over_units_on_one_launch_holds_for_that_launch() {
    let project = Project::new();
    let study = REPETITIONS
        .replace("  plain: {", "  slow: {slots: 4, prefill: {fixed: 5 ms}, decode: {fixed: 20 ms}, noise: {launch: 0.03, cell: 0.01}}\n  plain: {")
        .replace("configuration: [one, two]", "configuration: {one: {server: plain}, two: {server: slow}}\n  clients: [1, 2]")
        .replace("over: [configuration, rep]", "over: [configuration, clients, rep]")
        .replace("{clients: 2}", "{clients: \"${clients}\"}")
        .replace("server: plain,", "server: \"${configuration.server}\",")
        .replace(
            "      compared:\n        operator: paired-comparison\n",
            "      places: {operator: ranking, from: cells, among: configuration, unit: [rep], column: output_throughput, better: higher}\n      \
             crossing:\n        operator: crossover\n        ladder: clients\n        better: higher\n",
        )
        .replace("columns: [output_throughput]", "column: output_throughput");
    let blocks = study
        .replace("seed: 1\n", "seed: 1\ndesign: {blocks: 6}\n")
        .replace(" unit: [rep],", "")
        .replace("        unit: [rep]\n", "")
        .replace("  rep: [1, 2, 3, 4, 5, 6]\n", "")
        .replace(", rep]", "]");
    let why = "the servers are not started again for each rep, so the units share launches";
    for (name, study, limited) in [("together", &study, true), ("apart", &blocks, false)] {
        let file = format!("experiments/{name}.yaml");
        let study = study.replace("experiment: repetitions", &format!("experiment: {name}"));
        std::fs::write(project.path().join(&file), study).unwrap();
        project.run(["run", &file, "--no-dry-run"]).ok();
        for (query, shown) in [
            ("select evidence as words from places", "2 tests"),
            (
                "select resolution as words from crossing",
                "only one is shown to be better",
            ),
        ] {
            let words = project.run(["sql", &file, query, "--json"]).ok().stdout;
            assert!(words.contains(shown), "{words}");
            assert_eq!(words.contains(why), limited, "{words}");
        }
    }
}

#[test]
fn units_with_launches_of_their_own_are_rarely_false_and_have_no_note() {
    let project = Project::new();
    let blocks = REPETITIONS.replace("seed: 1\n", "seed: 1\ndesign: {blocks: 6}\n");
    let of_blocks = blocks.replace("        unit: [rep]\n", "");
    let each = served().replace("over: [configuration],", "over: [configuration, rep],");
    let named = REPETITIONS.replace(
        "name: \"${configuration}\"",
        "name: \"${configuration}-${rep}\"",
    );
    // Both sides on one launch, which cancels.
    let together = REPETITIONS
        .replace("over: [configuration, rep]", "over: [words, rep]")
        .replace("  configuration: [one, two]\n", "  words: [one, two]\n")
        .replace(", name: \"${configuration}\"", "")
        .replace("axis: configuration", "axis: words");
    for study in [&of_blocks, &each, &named, &together] {
        let (wrong, shared, shown) = with_launches_of(&project, study);
        assert!(wrong <= bound(400.0), "{wrong} {study}");
        assert!(shared.is_null(), "{shared} {study}");
        assert!(!shown.contains("share launches"), "{shown}");
    }
    // Repetitions within blocks do not count as units.
    for unit in ["[block, rep]", "[rep]"] {
        let nested = blocks.replace("unit: [rep]", &format!("unit: {unit}"));
        let (_, shared, shown) = with_launches_of(&project, &nested);
        assert_eq!(shared["within"], serde_json::json!(["rep"]));
        assert!(shown.contains("Write `unit: [block]`"), "{shown}");
    }
}

#[test]
fn more_noise_finds_less_and_the_same_seed_finds_the_same() {
    let project = Project::new();
    let answer_for = |noise: &str| {
        let quick = "experiments/quickstart.yaml";
        let arguments = [
            "power",
            quick,
            "--studies",
            "50",
            "--effect",
            "10",
            "--noise",
            noise,
        ];
        let json = project
            .run(arguments.into_iter().chain(["--json"]))
            .ok()
            .json();
        json["stages"][0]["found"].clone()
    };
    let rows = |answer: &serde_json::Value| {
        let tables = answer["tables"].as_array().unwrap().iter();
        let rows_found = |table: &serde_json::Value| table["at"][1]["rows_found"].as_u64().unwrap();
        tables.map(rows_found).sum::<u64>()
    };
    let (little, much) = (answer_for("2"), answer_for("20"));
    assert!(rows(&little) > 2 * rows(&much));
    assert_eq!(little, answer_for("2"));
}
