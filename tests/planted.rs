//! The planted grid: verification and analysis find exactly what was planted.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use serde_json::Value;

use crate::support::{Project, goes_with_us};

const GRID: [&str; 2] = ["experiments/planted-grid.yaml", "--smoke"];

/// Returns the project with the executed smoke form of the grid.
pub(crate) fn grid() -> &'static Project {
    static GRID_RUN: OnceLock<Project> = OnceLock::new();
    GRID_RUN.get_or_init(|| {
        let project = goes_with_us(Project::new());
        let outcome = project.run(["run", GRID[0], GRID[1], "--keep-going", "--json"]);
        // Cells hang, as planted.
        assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
        let summary = outcome.json();
        assert_eq!(
            summary["counts"],
            serde_json::json!({"hung": 2, "ok": 329}),
            "{summary}"
        );
        project
    })
}

/// Returns the rows of a query, each as texts joined by a space.
fn ask(query: &str) -> Vec<String> {
    rows_of(
        &grid()
            .run(["sql", GRID[0], GRID[1], query, "--json"])
            .ok()
            .json(),
    )
}

fn rows_of(answer: &Value) -> Vec<String> {
    let text = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
    let rows = answer["rows"].as_array().expect("a list of rows").iter();
    rows.map(|row| {
        row.as_object()
            .expect("a row")
            .values()
            .map(text)
            .collect::<Vec<_>>()
            .join(" ")
    })
    .collect()
}

/// The planted verdicts of the workloads, with the number of pairs: models times levels above one client, excluding the
/// hung shape on long-decode and the confounded model on long-prefill.
fn planted_verdicts(models: usize, levels: usize) -> Vec<String> {
    let all = models * levels;
    vec![
        format!("balanced {models} {all} equivalent -"),
        format!("long-decode {models} {} different beta", all - 1),
        format!(
            "long-prefill {} {} different alpha",
            models - 1,
            all - levels
        ),
        format!("repeated-prefix {models} {all} different beta"),
        format!("short-decode {models} {all} different beta"),
    ]
}

const VERDICTS: &str =
    "select workload, n, pairs, verdict, case when verdict = 'different' then higher else '-' end as ahead
                        from comparison order by workload";

#[test]
fn the_verdicts_are_the_planted_edges_and_the_tie() {
    assert_eq!(ask(VERDICTS), planted_verdicts(4, 3));
    assert_eq!(ask("select distinct agrees from truths"), ["1"]);
}

#[test]
fn the_one_host_that_drifts_is_found() {
    assert_eq!(
        ask("select engine, model from hosts where verdict = 'drifts'"),
        ["beta a-7b"]
    );
    assert_eq!(
        ask("select count(*) as hosts from hosts where verdict = 'steady'"),
        ["7"]
    );
    // Six hours at three hundredths per hour.
    let ratio = ask("select last_over_first from hosts where engine = 'beta' and model = 'a-7b'");
    let ratio: f64 = ratio[0].parse().expect("a ratio");
    assert!((ratio - 1.18).abs() < 0.01, "{ratio}");
    // The gate, host by host, from the order of measurement alone.
    let gate = "select engine, model, outcome from \"drift.gates\" order by engine, model";
    let expected = [
        "alpha a-7b",
        "alpha b-8b",
        "alpha c-7b",
        "alpha d-14b",
        "beta a-7b",
        "beta b-8b",
        "beta c-7b",
        "beta d-14b",
    ];
    let expected: Vec<String> = expected
        .iter()
        .map(|h| format!("{h} {}", if *h == "beta a-7b" { "fail" } else { "pass" }))
        .collect();
    assert_eq!(ask(gate), expected);
}

#[test]
fn the_exclusion_ledger_is_the_planted_faults() {
    // The engines did not read the same tokens, so neither side of those pairs enters.
    let confounded = "select gate, engine, model, workload, count(*) as cells from \"checks.exclusions\"
                      where gate <> 'row-status' group by gate, engine, model, workload order by engine";
    assert_eq!(
        ask(confounded),
        [
            "comparability alpha c-7b long-prefill 8",
            "comparability beta c-7b long-prefill 8"
        ]
    );
    assert_eq!(
        ask("select gate, cell from \"checks.exclusions\" where gate = 'row-status'"),
        ["row-status engine=beta,model=b-8b,workload=short-decode,clients=4,phase=scaling,rep=1"]
    );
    assert_eq!(
        ask("select product, planned, ok, hung, failed, barred from \"checks.census\""),
        ["320 320 318 2 0 17"]
    );
    // Every other gate passes everywhere, except the census, which lacks the hung cells.
    assert_eq!(
        ask(
            "select distinct gate, severity from \"checks.gates\" where outcome = 'fail' order by gate"
        ),
        ["census warn", "comparability exclude", "row-status exclude"]
    );
    assert_eq!(
        ask(
            "select distinct verdict, \"at\" like '%model=c-7b,workload=long-prefill%' as planted
             from \"checks.comparability\" where verdict not in ('comparable', 'unknown')"
        ),
        ["tokenizer-confounded 1"]
    );
}

#[test]
fn at_a_middle_size_too_what_is_found_is_what_was_planted() {
    let project = Project::new();
    let run = [
        "run",
        GRID[0],
        "--profile",
        "middle",
        "--keep-going",
        "--json",
    ];
    let summary = project.run(run).json();
    // Four models, five levels, both phases, two repetitions. The hung shape has four cells.
    assert_eq!(summary["counts"]["hung"], 4, "{summary}");
    let ask = |query: &str| {
        let answer = project
            .run(["sql", GRID[0], "--profile", "middle", query, "--json"])
            .ok()
            .json();
        rows_of(&answer)
    };
    assert_eq!(ask(VERDICTS), planted_verdicts(4, 4));
    assert_eq!(ask("select distinct agrees from truths"), ["1"]);
    assert_eq!(
        ask(
            "select gate, model, workload, count(*) as cells from \"checks.exclusions\" group by gate, model, workload order by gate"
        ),
        [
            "comparability c-7b long-prefill 40",
            "row-status b-8b short-decode 1"
        ]
    );
    assert_eq!(
        ask(
            "select distinct gate, severity from \"checks.gates\" where outcome = 'fail' order by gate"
        ),
        ["census warn", "comparability exclude", "row-status exclude"]
    );
    assert_eq!(
        ask("select engine, model from \"drift.gates\" where outcome = 'fail'"),
        ["beta a-7b"]
    );
    // With a longer ladder, both engines reach the boundary on long prompts.
    assert_eq!(
        ask(
            "select distinct engine, workload from boundary_counts where breakdown_n <> 'never' and workload = 'long-prefill' order by engine"
        ),
        ["alpha long-prefill", "beta long-prefill"]
    );
    let report = fs::read_to_string(project.path().join("reports/planted-grid.middle/report.md"))
        .expect("a report");
    assert!(
        report.contains("| pauses | refused |"),
        "the claim on pauses is decided where there are pauses"
    );
    project
        .run(["audit", "reports/planted-grid.middle/report.md"])
        .ok();
}

#[test]
fn fitted_shares_are_those_of_the_servers() {
    let rows = ask("select curve, ratio from planted_shares order by curve");
    assert_eq!(rows.len(), 8, "{rows:?}");
    for row in rows {
        let ratio: f64 = row
            .rsplit(' ')
            .next()
            .expect("a ratio")
            .parse()
            .expect("a number");
        assert!((ratio - 1.0).abs() < 0.1, "{row}");
    }
}

#[test]
fn hung_cells_leave_their_rows_as_evidence() {
    let status = grid().run(["status", GRID[0], GRID[1], "--json"]).json();
    let cells = status["cells"].as_array().expect("a list of cells").iter();
    let hung: Vec<&str> = cells
        .filter(|c| c["status"] == "hung")
        .map(|c| c["coordinates"].as_str().expect("coordinates"))
        .collect();
    let at = |rep| {
        format!("engine=alpha,model=d-14b,workload=long-decode,clients=8,phase=scaling,rep={rep}")
    };
    assert_eq!(hung, [at(1), at(2)]);
}

#[test]
fn efficiencies_follow_the_law_of_the_model_and_the_boundary_from_them() {
    // (engine, workload) → P/T and s of the law in the experiment, computed by hand from its servers.
    let prefill = |tokens: f64, per_token_us: f64| 1.0 + tokens * per_token_us / 1000.0;
    let law = |p: f64, output: f64, s_us: f64, n: f64| {
        let total = p + (output - 1.0) * 10.0;
        let share = p / total;
        1.0 / (1.0 + (n - 1.0) * (share + s_us / 10_000.0 * (1.0 - share)))
    };
    let mut expected = BTreeMap::new();
    for n in [2.0, 4.0, 8.0] {
        for (at, p, output, s) in [
            ("alpha short-decode", prefill(35.0, 10.0), 16.0, 300.0),
            ("beta short-decode", prefill(35.0, 10.0), 16.0, 200.0),
            ("alpha balanced", prefill(141.0, 10.0), 32.0, 140.0),
            ("beta balanced", prefill(141.0, 10.0), 32.0, 140.0),
            ("alpha long-prefill", prefill(282.0, 10.0), 8.0, 50.0),
            ("beta long-prefill", prefill(282.0, 25.0), 8.0, 50.0),
            ("alpha long-decode", prefill(35.0, 10.0), 64.0, 120.0),
            ("beta long-decode", prefill(35.0, 10.0), 64.0, 80.0),
        ] {
            expected.insert(format!("{at} {n}"), law(p, output, s, n));
        }
    }
    let query = "select engine, workload, clients, parallel_efficiency_mean from by_workload where clients > 1";
    let mut seen = 0;
    for line in ask(query) {
        let (at, value) = line.rsplit_once(' ').expect("a value");
        let value: f64 = value.parse().expect("a number");
        if let Some(expected) = expected.get(at) {
            seen += 1;
            assert!(
                (value / expected - 1.0).abs() < 0.02,
                "{at}: {value}, expected {expected}"
            );
        }
    }
    assert_eq!(seen, expected.len());
    // On the smoke ladder, only the engine with the expensive prefill breaks down.
    assert_eq!(
        ask(
            "select engine, workload, breakdown_n, coordinates from boundary_counts where breakdown_n <> 'never'"
        ),
        ["beta long-prefill 8 3"]
    );
}

#[test]
fn rows_say_that_they_are_simulated() {
    assert_eq!(
        ask("select source, count(*) as cells from \"grid.cell\" group by source"),
        ["simulated 318"]
    );
}

#[test]
fn the_tie_rule_counts_the_tie_as_ties() {
    let query = "select engine, strict_wins, wins, ties from wins where workload = 'balanced' order by engine";
    let rows = ask(query);
    let numbers: Vec<Vec<i64>> = rows
        .iter()
        .map(|r| {
            r.split(' ')
                .skip(1)
                .map(|n| n.parse().expect("a count"))
                .collect()
        })
        .collect();
    // Under strict comparison one engine is always slightly ahead; under the tie rule most contests are ties.
    assert_eq!(numbers[0][0] + numbers[1][0], 12);
    assert!(
        numbers[0][2] == numbers[1][2] && numbers[0][2] >= 8,
        "{rows:?}"
    );
}

/// The report without the parts that differ between runs: the trail digest depends on records, which contain times.
fn scrubbed(report: &str) -> String {
    let lines = report.lines().map(|l| {
        if l.trim_start().starts_with("b3:") {
            "    b3:TRAIL"
        } else {
            l
        }
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a developer sets it to have the page written"
)]
fn the_long_report_in_the_docs_is_the_one_rendered() {
    let rendered = grid().path().join("reports/planted-grid.smoke");
    let shown = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/planted-grid");
    if std::env::var_os("BLESS").is_some() {
        fs::create_dir_all(shown.join("figures")).expect("a folder");
        for entry in fs::read_dir(rendered.join("figures"))
            .expect("figures")
            .flatten()
        {
            fs::copy(entry.path(), shown.join("figures").join(entry.file_name())).expect("a copy");
        }
        for name in ["report.md", "report.trace.parquet"] {
            fs::copy(rendered.join(name), shown.join(name)).expect("a copy");
        }
        publish(&shown.join("planted-grid.smoke.tar.zst"));
    }
    let read = |path: &Path| {
        fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    };
    let (now, then) = (
        scrubbed(&read(&rendered.join("report.md"))),
        scrubbed(&read(&shown.join("report.md"))),
    );
    let differs = now
        .lines()
        .zip(then.lines())
        .enumerate()
        .find(|(_, (a, b))| a != b);
    assert!(
        now == then,
        "docs/planted-grid/report.md is not what is rendered, from line {:?}; `BLESS=1 cargo test --test cli \
         long_report` accepts the new one",
        differs.map(|(i, pair)| (i + 1, pair))
    );
    for entry in fs::read_dir(rendered.join("figures"))
        .expect("figures")
        .flatten()
    {
        let name = entry.file_name();
        assert_eq!(
            read(&entry.path()),
            read(&shown.join("figures").join(&name)),
            "{}",
            name.display()
        );
    }
}

/// Writes the archive of the grid, without large objects that no number leads to.
fn publish(to: &Path) {
    let folder = tempfile::tempdir().expect("a folder");
    let bundle = folder.path().join("bundle");
    let bundle = bundle.to_str().expect("a path of text");
    let publish = [
        "publish",
        GRID[0],
        GRID[1],
        "--author",
        "The Benchtrail authors",
        "--archive",
    ];
    let leave = [
        "--without",
        "prompts",
        "--without",
        "chunks",
        "--out",
        bundle,
    ];
    grid().run(publish.into_iter().chain(leave)).ok();
    fs::copy(folder.path().join("bundle.tar.zst"), to).expect("a copy");
}

#[test]
fn the_long_report_is_audited_whole() {
    let said = grid()
        .run(["audit", "reports/planted-grid.smoke/report.md"])
        .ok()
        .stdout;
    assert!(said.contains("everything holds"), "{said}");
}

#[test]
fn a_number_says_which_cells_its_table_lacks() {
    const REPORT: &str = "reports/planted-grid.smoke/report.md";
    let report = fs::read_to_string(grid().path().join(REPORT)).expect("a report");
    let row =
        |line: &&str| line.starts_with("| long-decode") && line.contains("| alpha  |       8 |");
    let line = report.lines().find(row).expect("the hung shape's row");
    let number = line.split('|').nth(4).expect("its efficiency").trim();
    let at = report.lines().position(|l| l == line).expect("it is there") + 1;
    let why = grid()
        .run(["why", &format!("{REPORT}:{at}"), number])
        .ok()
        .stdout;
    assert!(why.contains("missing in it: "), "{why}");
    assert!(why.contains("model=d-14b") && why.contains("hung"), "{why}");
    assert!(!why.contains("[{") && !why.contains("[]"), "{why}");
}
