//! Awkward studies in which nothing differs. The binary runs each with twelve tables that ask eleven questions of it,
//! and hardly any study may have a false verdict anywhere. Studies of hosts and gates between two studies follow.
//!
//! `SCEPTIC_SEEDS=200 cargo test --release --test cli sceptic -- --nocapture` runs each study with this many seeds, and
//! prints how often each question was answered wrongly. `SCEPTIC_FROM=1001` begins with that seed, so that several
//! processes can share the work.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::ops::Range;

use crate::support::Project;

/// The replacements in the text of a study.
#[derive(Clone, Copy)]
struct Awkward {
    name: &'static str,
    design: &'static str,
    /// The noise of all servers.
    noise: &'static str,
    clients: &'static str,
    /// Additional sides, one per line.
    sides: &'static [&'static str],
    /// Additional settings of the load stage, one per line.
    load: &'static [&'static str],
    /// Text at the end of the file.
    end: &'static str,
    /// The kind of arrivals.
    arrival: &'static str,
}

const FIVE: &str = "{blocks: 5, control: {axis: side, label: b, as: b-again}}";
const USUAL: &str = "{launch: 0.03, cell: 0.015, step: 0.05}";

/// The machine slows down from block to block, and within each block.
const WARM: &str = "overrides:
  - {where: {stage: ladder, block: 1}, set: {simulate.clock: {spread: 2 h, drift: 0.02}}, reason: it gets warm}
  - {where: {stage: ladder, block: 2}, set: {simulate.clock: {start: 2 h, spread: 2 h, drift: 0.02}}, reason: it gets warm}
  - {where: {stage: ladder, block: 3}, set: {simulate.clock: {start: 4 h, spread: 2 h, drift: 0.02}}, reason: it gets warm}
  - {where: {stage: ladder, block: 4}, set: {simulate.clock: {start: 6 h, spread: 2 h, drift: 0.02}}, reason: it gets warm}
  - {where: {stage: ladder, block: 5}, set: {simulate.clock: {start: 8 h, spread: 2 h, drift: 0.02}}, reason: it gets warm}
";

const PLAIN: Awkward = Awkward {
    name: "five blocks",
    design: FIVE,
    noise: USUAL,
    clients: "[1, 4, 8]",
    sides: &[],
    load: &[],
    end: "",
    arrival: "{closed-loop: {clients: \"${clients}\"}}",
};

const DESIGNS: [Awkward; 19] = [
    PLAIN,
    Awkward {
        name: "three blocks",
        design: "{blocks: 3, control: {axis: side, label: b, as: b-again}}",
        ..PLAIN
    },
    Awkward {
        name: "two launches",
        design: "{blocks: 2, control: {axis: side, label: b, as: b-again}}",
        ..PLAIN
    },
    Awkward {
        name: "eight blocks there and back",
        design: "{blocks: 8, order: abba, control: {axis: side, label: b, as: b-again}}",
        ..PLAIN
    },
    Awkward {
        name: "a Latin square",
        design: "{blocks: 4, order: latin-square, control: {axis: side, label: b, as: b-again}}",
        ..PLAIN
    },
    Awkward {
        name: "until it is known",
        design: "{blocks: 3, until: {relative-half-width: 12 %, of: output_throughput, at-most: 8 blocks}, control: {axis: side, label: b, as: b-again}}",
        ..PLAIN
    },
    Awkward {
        name: "every value the same",
        noise: "{launch: 0, cell: 0, step: 0}",
        ..PLAIN
    },
    Awkward {
        name: "blocks that differ by 30 %",
        noise: "{launch: 0.03, cell: 0.015, step: 0.05, block: 0.3}",
        ..PLAIN
    },
    Awkward {
        name: "noisy steps, quiet launches",
        noise: "{launch: 0, cell: 0, step: 0.5}",
        ..PLAIN
    },
    Awkward {
        name: "a launch that failed",
        end: "overrides:
  - where: {stage: ladder, side: a, block: 3}
    set: {simulate.faults: {http-errors: {share: 1}}}
    reason: nothing answers
",
        ..PLAIN
    },
    Awkward {
        name: "unequal numbers of blocks",
        load: &["exclude: [{where: {side: a, block: [4, 5]}, reason: no time was left}]"],
        ..PLAIN
    },
    Awkward {
        name: "a level that one side lacks",
        load: &["exclude: [{where: {side: a, clients: 8}, reason: no time was left}]"],
        ..PLAIN
    },
    Awkward {
        name: "a machine that slows down",
        end: WARM,
        ..PLAIN
    },
    Awkward {
        name: "a machine that slows down, there and back",
        design: "{blocks: 5, order: abba, control: {axis: side, label: b, as: b-again}}",
        end: WARM,
        ..PLAIN
    },
    Awkward {
        name: "open arrivals close to capacity",
        clients: "[4, 48, 72]",
        arrival: "{poisson: {rate: \"${clients}\"}}",
        ..PLAIN
    },
    Awkward {
        name: "open arrivals until it is known",
        design: "{blocks: 3, until: {relative-half-width: 12 %, of: output_throughput, at-most: 6 blocks}, control: {axis: side, label: b, as: b-again}}",
        clients: "[4, 16, 32]",
        arrival: "{poisson: {rate: \"${clients}\"}}",
        ..PLAIN
    },
    Awkward {
        name: "six systems",
        sides: &[
            "d: {name: d, step: 10 ms}",
            "e: {name: e, step: 10 ms}",
            "f: {name: f, step: 10 ms}",
        ],
        ..PLAIN
    },
    Awkward {
        name: "open arrivals",
        clients: "[4, 16, 32]",
        arrival: "{poisson: {rate: \"${clients}\"}}",
        ..PLAIN
    },
    Awkward {
        name: "a ladder of two",
        clients: "[2, 8]",
        ..PLAIN
    },
];

/// The text of a study in which the first side takes `first` ms to decode, and all others 10.
fn text(design: &Awkward, seed: u64, first: u32) -> String {
    let lines = |lines: &[&str]| {
        lines.iter().fold(String::new(), |mut text, line| {
            let _ = writeln!(text, "    {line}");
            text
        })
    };
    let (load, sides) = (lines(design.load), lines(design.sides));
    // Independent units have no test that holds at every look.
    let apart = match design.design.contains("until") {
        true => "paired-comparison",
        false => "unpaired-comparison, over: [clients, block]",
    };
    let Awkward {
        design: declared,
        noise,
        clients,
        end,
        arrival,
        ..
    } = design;
    format!(
        r#"experiment: sceptic
title: Nothing differs
question: Is anything shown that is not there?
seed: {seed}
design: {declared}
axes:
  side:
    a: {{name: a, step: {first} ms}}
    b: {{name: b, step: 10 ms}}
    c: {{name: c, step: 10 ms}}
{sides}  clients: {clients}
workloads:
  short:
    description: Prompts of 8 random words, answers of 8 tokens.
    prompts: {{words: {{length: 8}}}}
    output: {{tokens: 8}}
stages:
  ladder:
    kind: load
    over: [side, clients]
    workload: short
    arrival: {arrival}
    requests: 12
{load}    simulate:
      name: ${{side.name}}
      server: {{slots: 8, prefill: {{fixed: 5 ms}}, decode: {{fixed: "${{side.step}}"}}, noise: {noise}}}
  checks:
    kind: verify
    needs: [ladder]
    gates: [{{gate: row-status, severity: exclude, reason: a cell that failed has no value}}]
  results:
    kind: analyze
    needs: [ladder, checks]
    tables:
      cells: {{operator: cell-summary}}
      goodput:
        operator: goodput
        objectives: [{{name: quick, all: [{{metric: e2e_latency_ms, at-most: 90}}]}}]
      anchor: {{operator: sql, keys: [side, block], query: "SELECT side, block, avg(output_throughput) AS first FROM cells WHERE clients <= 4 GROUP BY side, block"}}
      scaled: {{operator: sql, keys: [side, clients, block], query: "SELECT cells.side, cells.clients, cells.block, output_throughput / first AS scaling FROM cells JOIN anchor ON anchor.side = cells.side AND anchor.block = cells.block"}}
      coarse: {{operator: sql, keys: [side, clients, block], query: "SELECT side, clients, block, round(output_throughput / 10) AS tens, e2e_latency_ms_p50 - 80 AS above, max(0.0, round(e2e_latency_ms_p50 - 86)) AS over FROM cells"}}
      comparison: {{operator: paired-comparison, from: cells, pair: {{axis: side, a: a, b: b}}, columns: [output_throughput, ttft_ms_p50, e2e_latency_ms_p50]}}
      control: {{operator: paired-comparison, from: cells, pair: {{axis: side, a: b-again, b: b}}, columns: [output_throughput]}}
      cellwise: {{operator: paired-comparison, from: cells, by: [clients], pair: {{axis: side, a: a, b: b}}, columns: [output_throughput, ttft_ms_p50]}}
      crossing: {{operator: crossover, from: cells, pair: {{axis: side, a: a, b: b}}, ladder: clients, column: output_throughput, better: higher}}
      ranked: {{operator: ranking, from: cells, among: side, column: e2e_latency_ms_p50, better: lower}}
      apart: {{operator: {apart}, from: cells, pair: {{axis: side, a: c, b: b}}, columns: [output_throughput]}}
      ties: {{operator: paired-comparison, from: coarse, pair: {{axis: side, a: a, b: b}}, columns: [tens], scale: difference}}
      negative: {{operator: paired-comparison, from: coarse, by: [clients], pair: {{axis: side, a: a, b: b}}, columns: [above], scale: difference}}
      zeros: {{operator: paired-comparison, from: coarse, by: [clients], pair: {{axis: side, a: a, b: b}}, columns: [over], scale: difference}}
      anchored: {{operator: paired-comparison, from: scaled, by: [clients], pair: {{axis: side, a: a, b: b}}, columns: [scaling]}}
      shares: {{operator: paired-comparison, from: goodput, pair: {{axis: side, a: a, b: b}}, columns: [slo_pass_rate], scale: difference}}
{end}"#
    )
}

/// The tables of comparisons; `control` is a check.
const COMPARISONS: [&str; 9] = [
    "comparison",
    "control",
    "cellwise",
    "apart",
    "ties",
    "negative",
    "zeros",
    "anchored",
    "shares",
];

/// Runs a study, and returns the number of rows with a finding by table. The key `least` counts those that find the
/// first side lower, `undecidable` those without an answer.
fn findings_by_table(project: &Project, name: &str, text: &str) -> BTreeMap<String, u64> {
    let file = format!("experiments/{name}.yaml");
    fs::write(project.path().join(&file), text).expect("it can be written");
    // A study with failed cells ends with a different code.
    project.run(["run", &file, "--no-dry-run", "--keep-going"]);
    let mut query: Vec<String> = Vec::new();
    for table in COMPARISONS {
        query.push(format!(
            "SELECT '{table}' AS t, count(*) AS n FROM {table} WHERE verdict = 'different'"
        ));
    }
    query.push("SELECT 'crossing', count(first_winner) FROM crossing".to_owned());
    query.push("SELECT 'ranked', count(*) FROM ranked WHERE rank_shown > 1".to_owned());
    query.push(
        "SELECT 'least', count(*) FROM comparison WHERE verdict = 'different' AND higher = 'b'"
            .to_owned(),
    );
    query.push(
        "SELECT 'undecidable', count(*) FROM comparison WHERE verdict = 'undecidable'".to_owned(),
    );
    let shown = project.run(["sql", &file, &query.join(" UNION ALL "), "--json"]);
    let shown = shown.ok().json();
    let row = |row: &serde_json::Value| {
        let name = row["t"].as_str().expect("a name").to_owned();
        (name, row["n"].as_u64().expect("a count"))
    };
    shown["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(row)
        .collect()
}

fn is_verdict(name: &str) -> bool {
    !["control", "least", "undecidable"].contains(&name)
}

/// Five in a hundred, plus three standard errors for this many studies.
fn bound(studies: u64) -> f64 {
    let studies = studies as f64;
    studies * 0.05 + 3.0 * (studies * 0.05 * 0.95).sqrt()
}

#[test]
#[expect(clippy::print_stdout, reason = "a developer reads the results")]
fn whatever_is_awkward_about_a_study_hardly_any_verdict_of_it_is_false() {
    let project = Project::new();
    let total = count(&seeds());
    let (mut studies, mut wrong, mut checks) = (0_u64, 0_u64, 0_u64);
    for design in &DESIGNS {
        let mut of_design: BTreeMap<String, u64> = BTreeMap::new();
        let mut any = 0;
        for seed in seeds() {
            let counts = findings_by_table(&project, "sceptic", &text(design, seed, 10));
            studies += 1;
            let false_verdict = counts.iter().any(|(table, n)| is_verdict(table) && *n > 0);
            any += u64::from(false_verdict);
            checks += u64::from(counts["control"] > 0);
            if ["two launches", "every value the same"].contains(&design.name) {
                assert_eq!(counts["undecidable"], 3, "{}: {counts:?}", design.name);
                assert!(!false_verdict, "{}: {counts:?}", design.name);
            }
            for (table, n) in counts {
                *of_design.entry(table).or_default() += u64::from(n > 0);
            }
        }
        wrong += any;
        println!(
            "{}: {any} of {total} have a false verdict: {of_design:?}",
            design.name
        );
        assert!(
            any as f64 <= bound(total).max(1.0),
            "{}: {of_design:?}",
            design.name
        );
    }
    println!("{wrong} of {studies} studies have a false verdict; {checks} a check that fails");
    assert!(wrong as f64 <= bound(studies), "{wrong} of {studies}");
    assert!(checks as f64 <= bound(studies), "{checks} of {studies}");
}

#[test]
fn a_side_that_is_slower_is_found_in_the_awkward_studies_that_can_find_it() {
    let project = Project::new();
    for name in [
        "five blocks",
        "a launch that failed",
        "blocks that differ by 30 %",
    ] {
        let design = DESIGNS
            .iter()
            .find(|d| d.name == name)
            .expect("it is there");
        let counts = findings_by_table(&project, "sceptic", &text(design, 1, 14));
        assert!(
            counts["comparison"] >= 1 && counts["least"] >= 1,
            "{name}: {counts:?}"
        );
        assert_eq!(counts["control"], 0, "{name}: {counts:?}");
    }
}

/// A study of six hosts with three repetitions on each. How well a side suits a host is random, and shared by all
/// repetitions. The first side takes `first` ms to decode, and the other 10.
fn hosts(seed: u64, first: u32) -> String {
    format!(
        r#"experiment: hosts
title: Nothing differs
question: Is anything shown that is not there?
seed: {seed}
axes:
  side:
    a: {{name: a, step: {first} ms}}
    b: {{name: b, step: 10 ms}}
    c: {{name: c, step: 10 ms}}
  host: [amber, birch, cedar, dogwood, elm, fir]
  clients: [1, 4]
  rep: [1, 2, 3]
workloads:
  short:
    description: Prompts of 8 random words, answers of 8 tokens.
    prompts: {{words: {{length: 8}}}}
    output: {{tokens: 8}}
stages:
  ladder:
    kind: load
    over: [side, host, clients, rep]
    workload: short
    arrival: {{closed-loop: {{clients: "${{clients}}"}}}}
    requests: 12
    simulate:
      name: ${{side.name}}-${{host}}
      server: {{slots: 8, prefill: {{fixed: 5 ms}}, decode: {{fixed: "${{side.step}}"}}, noise: {{launch: 0.05, cell: 0.005}}}}
  checks:
    kind: verify
    needs: [ladder]
    gates: [{{gate: row-status, severity: exclude, reason: a cell that failed has no value}}]
  results:
    kind: analyze
    needs: [ladder, checks]
    tables:
      cells: {{operator: cell-summary}}
      comparison: {{operator: paired-comparison, from: cells, unit: [host], pair: {{axis: side, a: a, b: b}}, columns: [output_throughput, ttft_ms_p50, e2e_latency_ms_p50]}}
      cellwise: {{operator: paired-comparison, from: cells, unit: [host], by: [clients], pair: {{axis: side, a: a, b: b}}, columns: [output_throughput]}}
      apart: {{operator: unpaired-comparison, from: cells, unit: [host], over: [clients, host, rep], pair: {{axis: side, a: c, b: b}}, columns: [output_throughput]}}
      pooled: {{operator: paired-comparison, from: cells, unit: [host, rep], pair: {{axis: side, a: a, b: b}}, columns: [tpot_ms_p50], family: table}}
"#
    )
}

/// Runs a study, and returns the number of *different* rows, by table.
fn different(project: &Project, name: &str, text: &str, tables: &[&str]) -> Vec<u64> {
    let file = format!("experiments/{name}.yaml");
    fs::write(project.path().join(&file), text).expect("it can be written");
    project.run(["run", &file, "--no-dry-run"]).ok();
    let count = |table: &&str| {
        let query = format!("SELECT count(*) AS n FROM {table} WHERE verdict = 'different'");
        let shown = project.run(["sql", &file, &query, "--json"]).ok().json();
        shown["rows"][0]["n"].as_u64().expect("a count")
    };
    tables.iter().map(count).collect()
}

/// The seeds: one by default, or as many as requested, from the requested one on.
#[expect(
    clippy::disallowed_methods,
    reason = "a developer sets the number of seeds"
)]
fn seeds() -> Range<u64> {
    let asked = |name: &str| std::env::var(name).map_or(1, |n| n.parse().expect("a number"));
    let first = asked("SCEPTIC_FROM");
    first..first + asked("SCEPTIC_SEEDS")
}

fn count(seeds: &Range<u64>) -> u64 {
    seeds.end - seeds.start
}

#[test]
#[expect(clippy::print_stdout, reason = "a developer reads the results")]
fn hosts_are_units_and_their_repetitions_are_not() {
    let project = Project::new();
    let tables = ["comparison", "cellwise", "apart", "pooled"];
    let (mut wrong, mut pooled) = (0_u64, 0_u64);
    for seed in seeds() {
        let counts = different(&project, "hosts", &hosts(seed, 10), &tables);
        wrong += u64::from(counts[..3].iter().any(|n| *n > 0));
        pooled += u64::from(counts[3] > 0);
    }
    let total = count(&seeds());
    println!(
        "hosts: {wrong} of {total} studies have a false verdict; {pooled} where repetitions are units"
    );
    assert!(wrong as f64 <= bound(total), "{wrong} of {total}");
    // The negative control: with a single seed, either result is possible.
    assert!(
        total < 20 || pooled as f64 > bound(total),
        "{pooled} of {total}"
    );
    let slower = different(&project, "hosts", &hosts(1, 14), &tables);
    assert!(slower[0] >= 1 && slower[1] >= 1, "{slower:?}");
}

#[test]
#[expect(clippy::print_stdout, reason = "a developer reads the results")]
fn a_gate_between_two_studies_hardly_ever_fails_equal_servers_and_fails_a_slower_one() {
    let project = Project::new();
    let run = |name: &str, seed: u64, step: u32| {
        let file = format!("experiments/{name}.yaml");
        let text =
            text(&PLAIN, seed, step).replace("experiment: sceptic", &format!("experiment: {name}"));
        fs::write(project.path().join(&file), text).expect("it can be written");
        project.run(["run", &file, "--no-dry-run"]).ok();
        file
    };
    let gate = |old: &str, new: &str| project.run(["diff", old, new, "--gate"]).code;
    let (mut failed, mut passed) = (0_u64, 0_u64);
    for seed in seeds() {
        let (old, new) = (run("old", seed, 10), run("new", seed + 100_000, 10));
        let code = gate(&old, &new);
        assert!(matches!(code, Some(0 | 1 | 6)), "{code:?}");
        failed += u64::from(code == Some(1));
        passed += u64::from(code == Some(0));
    }
    let total = count(&seeds());
    println!("gates between equal studies: {failed} of {total} fail, {passed} pass");
    assert!(failed as f64 <= bound(total), "{failed} of {total}");
    // All sides of the newer study are slower; the gate compares sides with the same labels.
    let old = run("old", 1, 10);
    let slow = text(&PLAIN, 100_001, 14)
        .replace("experiment: sceptic", "experiment: new")
        .replace("step: 10 ms", "step: 14 ms");
    fs::write(project.path().join("experiments/new.yaml"), slow).expect("it can be written");
    project
        .run(["run", "experiments/new.yaml", "--no-dry-run"])
        .ok();
    assert_eq!(gate(&old, "experiments/new.yaml"), Some(1));
}
