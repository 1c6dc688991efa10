//! Comparisons of studies with planted changes.

mod limits;
mod offered;

use std::collections::BTreeMap;

use artifacts::{Column, Digest, Scalar, Store, Table};
use contract::Better;
use pipeline::key::Recipe;
use pipeline::lock::{Lock, LockCell, LockClass, LockStage};
use pipeline::record::{Build, RECORD_FORMAT, Record};
use pipeline::{Artifact, CellStatus, Coordinates, Json, Media};
use serde_json::json;

use crate::{ChangeVerdict, Outcome, Rule, Side, Test, compare};

/// A study of one server, two concurrencies and several repetitions.
struct Study {
    throughput: [Vec<f64>; 2],
    ttft: [Vec<f64>; 2],
    threads: i64,
    engine: &'static str,
    verdict: &'static str,
    /// The share of the processors that other programs used, per repetition; empty if nothing was sampled.
    foreign: Vec<f64>,
    /// The answered requests of 100, per repetition; empty if the table does not count them.
    answered: Vec<i64>,
    /// Whether the rows are drawn from a model, whose launch all repetitions share.
    simulated: bool,
    /// The requests that arrive in a second; `None` if the recipe has no arrivals.
    rate: Option<f64>,
    /// Whether the study has no comparison.
    without_verdicts: bool,
}

impl Default for Study {
    fn default() -> Self {
        Self {
            throughput: [vec![100.0, 101.0, 99.0], vec![180.0, 182.0, 178.0]],
            ttft: [vec![50.0, 51.0, 49.5], vec![80.0, 82.0, 79.0]],
            threads: 1,
            engine: "1.0",
            verdict: "different",
            foreign: Vec::new(),
            answered: Vec::new(),
            simulated: false,
            rate: None,
            without_verdicts: false,
        }
    }
}

/// Returns the samples of a load during which other programs used a share of the processors.
fn sampled(foreign: f64) -> Vec<(&'static str, Media, Vec<u8>)> {
    let at = || Column::int("at_ns", [Some(0), Some(1), Some(2)]);
    let busy = Some(0.25 + foreign);
    let host = Table::new(vec![
        at(),
        Column::float("cpu_busy", [None, busy, busy]),
        Column::int("processors", [Some(8); 3]),
    ]);
    let processes = Table::new(vec![
        at(),
        Column::float("cpu", [None, Some(2.0), Some(2.0)]),
    ]);
    let tables = [("host_telemetry", host), ("process_telemetry", processes)];
    tables
        .map(|(name, table)| (name, Media::Parquet, table.unwrap().to_parquet().unwrap()))
        .to_vec()
}

/// Returns the lineage of the table of cells: two rows per repetition.
fn lineage(reps: usize) -> Table {
    let source = |n: usize| {
        contract::LineageSource::Artifact(std::sync::Arc::new(contract::SourceArtifact {
            cell: pipeline::place::CellName {
                stage: "ladder".into(),
                coordinates: Coordinates(vec![("rep".into(), Scalar::Int(n as i64 + 1))]),
            },
            output: "requests".into(),
            digest: Digest::of(b"rows"),
        }))
    };
    let sources: Vec<_> = (0..reps).map(source).collect();
    let rows = (0..2 * reps).map(|row| contract::LineageRow {
        row,
        source: &sources[row % reps],
        start: 0,
        end: 8,
    });
    contract::lineage_table(rows).unwrap()
}

fn recipe(kind: &str, parameters: Json, replicate: Coordinates) -> Recipe {
    Recipe {
        format: Recipe::current_format(),
        kind: kind.to_owned(),
        semantic_version: 1,
        seed: 1,
        parameters,
        replicate,
        inputs: Vec::new(),
        facets: BTreeMap::new(),
        study: None,
    }
}

fn cell(
    store: &Store,
    stage: &str,
    at: &[(&str, Scalar)],
    recipe: Recipe,
    outputs: Vec<(&str, Media, Vec<u8>)>,
) -> LockCell {
    let coordinates = Coordinates(
        at.iter()
            .map(|(a, l)| ((*a).to_owned(), l.clone()))
            .collect(),
    );
    let outputs = outputs.into_iter().map(|(name, media, bytes)| {
        let digest = store.put(&bytes).unwrap();
        (
            pipeline::OutputName::new(name).unwrap(),
            Artifact {
                digest,
                media,
                bytes: bytes.len() as u64,
                rows: None,
            },
        )
    });
    let outputs: BTreeMap<pipeline::OutputName, Artifact> = outputs.collect();
    let text = coordinates.to_string();
    let record = Record {
        format: RECORD_FORMAT,
        experiment: "study".into(),
        stage: stage.into(),
        coordinates,
        key: recipe.key(),
        status: CellStatus::Ok,
        reason: None,
        evidence: BTreeMap::new(),
        attempts: Vec::new(),
        started: "2026-01-01T00:00:00Z".into(),
        seconds: 1.0,
        order: 1,
        place: None,
        preflight: None,
        observations: BTreeMap::new(),
        warnings: Vec::new(),
        host: None,
        by: None,
        build: Build::default(),
        environment: Vec::new(),
        claims: Default::default(),
        claim_tests: Default::default(),
        files: Default::default(),
        recipe,
        outputs,
    };
    let summary = Digest::of(pipeline::record::outputs_text(&record.outputs).as_bytes());
    LockCell {
        coordinates: text,
        status: CellStatus::Ok,
        key: Some(record.key),
        record: Some(store.put(&record.to_bytes()).unwrap()),
        outputs: Some(summary),
        reason: None,
        earlier: Vec::new(),
    }
}

/// Returns the parameters of a load.
fn of_load(study: &Study) -> Json {
    match study.simulated {
        true => json!({"requests": 8, "simulate": {"server": {"slots": 8}, "slowdown": 1.0}}),
        false => match study.rate {
            Some(rate) => json!({"requests": 8, "arrival": {"poisson": {"rate": rate}}}),
            None => json!({"requests": 8}),
        },
    }
}

fn lock(store: &Store, study: &Study) -> Lock {
    let none = || Coordinates(Vec::new());
    let descriptor =
        json!({"engine": {"version": study.engine}, "observations": {"free": study.threads}});
    let server = cell(
        store,
        "server",
        &[],
        recipe(
            "serve",
            json!({"settings": {"threads": study.threads}}),
            none(),
        ),
        vec![(
            "server",
            Media::Json,
            serde_json::to_vec(&descriptor).unwrap(),
        )],
    );
    let reps = study.throughput[0].len();
    let rep = |n: usize| Coordinates(vec![("rep".into(), Scalar::Int(n as i64 + 1))]);
    let ladder = (0..reps).map(|n| {
        let at = [("rep", Scalar::Int(n as i64 + 1))];
        cell(
            store,
            "ladder",
            &at,
            recipe("load", of_load(study), rep(n)),
            study.foreign.get(n).map_or_else(Vec::new, |f| sampled(*f)),
        )
    });
    let ladder = ladder.collect();
    let mut rows: Vec<(i64, i64, f64, f64)> = Vec::new();
    for (i, n) in [1i64, 4].into_iter().enumerate() {
        for (r, (x, y)) in study.throughput[i].iter().zip(&study.ttft[i]).enumerate() {
            rows.push((n, r as i64 + 1, *x, *y));
        }
    }
    let mut columns = vec![
        Column::int("concurrency", rows.iter().map(|r| Some(r.0))),
        Column::int("rep", rows.iter().map(|r| Some(r.1))),
        Column::float("output_throughput", rows.iter().map(|r| Some(r.2))).unit("tok/s"),
        Column::float("ttft_ms_p50", rows.iter().map(|r| Some(r.3))).unit("ms"),
        Column::float("ttft_ms_p99", rows.iter().map(|_| None)).unit("ms"),
        Column::float("prefix_share", rows.iter().map(|r| Some(1.0 / r.2))).unit("1"),
    ];
    if !study.answered.is_empty() {
        let answered = rows.iter().map(|r| study.answered[r.1 as usize - 1]);
        let answered: Vec<i64> = answered.collect();
        columns.push(Column::int("n_rows", rows.iter().map(|_| Some(100))));
        columns.push(Column::int("n_ok", answered.iter().copied().map(Some)));
        let share = answered.iter().map(|n| Some(*n as f64 / 100.0));
        columns.push(Column::float("ok_rate", share).unit("1"));
    }
    let cells = Table::with_metadata(
        columns,
        &[
            ("keys", "concurrency,rep"),
            ("level", "cell"),
            ("operator", "cell-summary"),
        ],
    );
    let verdicts = Table::with_metadata(
        vec![
            Column::text("metric", [Some("output_throughput")]),
            Column::text("verdict", [Some(study.verdict)]),
        ],
        &[
            ("keys", "metric"),
            ("level", "pooled"),
            ("operator", "paired-comparison"),
        ],
    );
    let mut tables = vec![("cells", cells), ("cells.lineage", Ok(lineage(reps)))];
    if !study.without_verdicts {
        tables.push(("comparison", verdicts));
    }
    let outputs = tables
        .into_iter()
        .map(|(name, table)| (name, Media::Parquet, table.unwrap().to_parquet().unwrap()));
    let results = cell(
        store,
        "results",
        &[],
        recipe("analyze", json!({}), none()),
        outputs.collect(),
    );
    let stage = |name: &str, class, cells| LockStage {
        name: name.into(),
        class,
        cells,
    };
    Lock {
        experiment: "study".into(),
        profile: None,
        seed: 1,
        stages: vec![
            stage("ladder", LockClass::Measurement, ladder),
            stage("results", LockClass::Pure, vec![results]),
            stage("server", LockClass::Resource, vec![server]),
        ],
    }
}

/// Returns a rule under which the repetitions of these studies represent launches.
fn rule() -> Rule {
    Rule {
        unit: vec!["rep".to_owned()],
        ..Rule::default()
    }
}

fn regressions(comparison: &crate::Comparison) -> Vec<(&str, &str)> {
    let worse = comparison
        .results
        .iter()
        .filter(|r| r.verdict == ChangeVerdict::Regression);
    worse.map(|r| (r.at.as_str(), r.column.as_str())).collect()
}

fn compared(a: &Study, b: &Study, rule: &Rule) -> crate::Comparison {
    tried(a, b, rule).unwrap()
}

fn tried(a: &Study, b: &Study, rule: &Rule) -> Result<crate::Comparison, crate::CompareError> {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let (a, b) = (lock(&store, a), lock(&store, b));
    let (a, b) = (
        Side::read("a", a, &store).unwrap(),
        Side::read("b", b, &store).unwrap(),
    );
    compare(&a, &b, rule)
}

#[test]
fn an_axis_of_launches_that_no_study_has_is_a_mistake() {
    let rule = Rule {
        unit: vec!["reps".to_owned()],
        ..Rule::default()
    };
    let error = tried(&Study::default(), &Study::default(), &rule).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no table of cells in both studies has the axis `reps`"
    );
    assert_eq!(error.hint().as_deref(), Some("did you mean `rep`?"));
}

#[test]
fn a_study_compared_with_itself_differs_in_nothing() {
    let same = compared(&Study::default(), &Study::default(), &rule());
    assert!(same.recipes.is_empty() && same.cells.is_empty() && same.environment.is_empty());
    assert!(same.verdicts.is_empty() && regressions(&same).is_empty());
    assert_eq!(same.outcome(), Outcome::Pass);
    assert_eq!(
        same.results.len(),
        4,
        "two columns at two coordinates, repetitions folded"
    );
    assert!(
        same.results
            .iter()
            .all(|r| r.change == Some(0.0) && r.verdict == ChangeVerdict::NoEvidence)
    );
}

#[test]
fn a_slower_study_is_a_regression_at_the_coordinate_it_is_slower_at() {
    let slower = Study {
        throughput: [vec![100.5, 99.5, 100.0], vec![150.0, 151.0, 149.0]],
        ..Study::default()
    };
    let comparison = compared(&Study::default(), &slower, &rule());
    assert_eq!(
        regressions(&comparison),
        [("concurrency=4", "output_throughput")]
    );
    // Over both coordinates, it is 9.5 % worse.
    let gate = |comparison: &crate::Comparison| -> Vec<(String, Outcome)> {
        comparison
            .gate
            .iter()
            .map(|g| (g.column.clone(), g.outcome))
            .collect()
    };
    assert_eq!(
        gate(&comparison),
        [
            ("output_throughput".to_owned(), Outcome::Fail),
            ("ttft_ms_p50".to_owned(), Outcome::Pass)
        ]
    );
    assert_eq!(comparison.outcome(), Outcome::Fail);
    let back = compared(&slower, &Study::default(), &rule());
    assert!(regressions(&back).is_empty() && back.outcome() == Outcome::Pass);
    assert!(
        back.results
            .iter()
            .any(|r| r.verdict == ChangeVerdict::Improvement && r.better == Some(Better::Higher))
    );
}

#[test]
fn longer_waits_are_worse_and_shorter_ones_better() {
    let slower = Study {
        ttft: [vec![60.0, 61.0, 59.0], vec![80.5, 81.0, 79.5]],
        ..Study::default()
    };
    let comparison = compared(&Study::default(), &slower, &rule());
    assert_eq!(regressions(&comparison), [("concurrency=1", "ttft_ms_p50")]);
    assert!(
        comparison
            .results
            .iter()
            .all(|r| r.column != "ttft_ms_p50" || r.better == Some(Better::Lower))
    );
    assert_eq!(comparison.outcome(), Outcome::Fail);
}

#[test]
fn a_large_change_inside_a_larger_noise_is_no_evidence_and_passes_no_gate() {
    let noisy = |shift: f64| Study {
        throughput: [
            vec![60.0 + shift, 100.0 + shift, 140.0 + shift],
            vec![180.0, 182.0, 178.0],
        ],
        ..Study::default()
    };
    let comparison = compared(&noisy(0.0), &noisy(-15.0), &rule());
    let result = comparison
        .results
        .iter()
        .find(|r| r.at == "concurrency=1" && r.column == "output_throughput")
        .unwrap();
    assert!(
        result.change.unwrap() < -0.1 && result.verdict == ChangeVerdict::NoEvidence,
        "{result:?}"
    );
    assert_eq!(comparison.outcome(), Outcome::Undecidable);
    let column = &comparison.gate[0];
    assert!(column.smallest_detectable.unwrap() > 0.1, "{column:?}");
    assert!(
        column
            .reason
            .as_deref()
            .unwrap()
            .contains("5.0 % is allowed"),
        "{column:?}"
    );
}

#[test]
fn a_change_that_is_shown_and_below_the_threshold_does_not_count() {
    let a = Study {
        throughput: [vec![100.0, 100.01, 99.99], vec![180.0, 180.1, 179.9]],
        ..Study::default()
    };
    let b = Study {
        throughput: [vec![98.0, 98.01, 97.99], vec![180.0, 180.1, 179.9]],
        ..Study::default()
    };
    let comparison = compared(&a, &b, &rule());
    assert!(regressions(&comparison).is_empty() && comparison.outcome() == Outcome::Pass);
    let strict = Rule {
        threshold: 0.01,
        ..rule()
    };
    assert_eq!(regressions(&compared(&a, &b, &strict)).len(), 1);
}

#[test]
fn a_change_without_launches_is_undecidable_and_passes_no_gate() {
    let one = |x: f64| Study {
        throughput: [vec![x], vec![180.0]],
        ttft: [vec![50.0], vec![80.0]],
        ..Study::default()
    };
    let undecidable = |comparison: &crate::Comparison, reason: &str| {
        assert_eq!(comparison.outcome(), Outcome::Undecidable);
        for result in &comparison.results {
            assert_eq!(
                (result.verdict, result.p),
                (ChangeVerdict::Undecidable, None)
            );
            assert_eq!(result.reason.as_deref(), Some(reason));
        }
        assert!(comparison.to_string().contains(reason), "{comparison}");
    };
    let comparison = compared(&one(100.0), &one(150.0), &rule());
    undecidable(
        &comparison,
        "the newer study: 1 unit, and at least 3 are needed",
    );
    // Repetitions are not launches unless that is declared.
    let newer = Study {
        ttft: [vec![50.5, 51.0, 49.0], vec![80.0]],
        ..Study::default()
    };
    let comparison = compared(&Study::default(), &newer, &Rule::default());
    undecidable(
        &comparison,
        "no replication of launches: the cells have no axis `block`, and no `--unit` is named",
    );
}

#[test]
fn studies_measured_beside_other_programs_are_undecidable_and_the_reason_names_the_condition() {
    let quiet = Study {
        foreign: vec![0.01, 0.02, 0.015],
        ..Study::default()
    };
    let slower = |foreign: [f64; 3]| Study {
        throughput: [vec![80.0, 81.0, 79.0], vec![144.0, 145.0, 143.0]],
        foreign: foreign.to_vec(),
        ..Study::default()
    };
    // As quiet as the older study, so the system caused the change.
    let alike = compared(&quiet, &slower([0.02, 0.01, 0.02]), &rule());
    assert_eq!(alike.outcome(), Outcome::Fail);
    let busy = slower([0.30, 0.32, 0.31]);
    let comparison = compared(&quiet, &busy, &rule());
    assert_eq!(comparison.outcome(), Outcome::Undecidable);
    let reason = "the studies were measured under different conditions: foreign-load: 0.310 with the newer study, \
                  0.0150 with the older study (share of all processors that other programs used)";
    for result in &comparison.results {
        assert_eq!(
            (result.verdict, result.p),
            (ChangeVerdict::Undecidable, None)
        );
        assert!(
            result.reason.as_deref().unwrap().starts_with(reason),
            "{result:?}"
        );
    }
    assert!(
        comparison
            .gate
            .iter()
            .all(|g| g.reason.as_deref().unwrap().starts_with(reason))
    );
    let allowed = Rule {
        conditions_may_differ: vec!["foreign-load".to_owned()],
        ..rule()
    };
    assert_eq!(compared(&quiet, &busy, &allowed).outcome(), Outcome::Fail);
    // Samples of only one study allow no comparison of conditions.
    let unknown = compared(&Study::default(), &busy, &rule());
    assert_eq!(unknown.outcome(), Outcome::Fail);
}

#[test]
fn three_repetitions_are_too_few_for_the_rank_test() {
    let slower = Study {
        throughput: [vec![50.0, 51.0, 49.0], vec![90.0, 91.0, 89.0]],
        ..Study::default()
    };
    let rule = Rule {
        test: Test::MannWhitney,
        ..rule()
    };
    let comparison = compared(&Study::default(), &slower, &rule);
    assert!(
        comparison
            .results
            .iter()
            .all(|r| r.verdict == ChangeVerdict::Undecidable),
        "{:?}",
        comparison.results
    );
    assert_eq!(
        comparison.results[0].reason.as_deref(),
        Some("the smallest p of 3 and 3 units is 0.100: the test cannot reject")
    );
    // The gate uses t, whatever the test of single results is.
    assert_eq!(comparison.outcome(), Outcome::Fail);
}

#[test]
fn a_test_and_means_that_point_in_opposite_directions_show_no_change() {
    // Most launches take a fifth less, and one takes so long that the mean rises.
    let waits = |outlier: f64| {
        let mut waits: Vec<f64> = (0..8).map(|i| 80.0 + f64::from(i)).collect();
        waits[3] = outlier;
        waits
    };
    let study = |ttft: Vec<f64>| Study {
        throughput: [vec![100.0; 8], vec![180.0; 8]],
        ttft: [ttft.clone(), ttft],
        ..Study::default()
    };
    let older: Vec<f64> = (0..8).map(|i| 100.0 + f64::from(i)).collect();
    let verdicts = |outlier: f64| {
        let rule = Rule {
            test: Test::MannWhitney,
            ..rule()
        };
        let comparison = compared(&study(older.clone()), &study(waits(outlier)), &rule);
        let waits = comparison.results.into_iter();
        let waits = waits.filter(|r| r.column == "ttft_ms_p50");
        waits.map(|r| (r.verdict, r.reason)).collect::<Vec<_>>()
    };
    assert_eq!(verdicts(85.0), vec![(ChangeVerdict::Improvement, None); 2]);
    let reason = "the newer study has the higher mean because of a few units, and the test finds it lower: look at those units";
    let refused = (ChangeVerdict::Undecidable, Some(reason.to_owned()));
    assert_eq!(verdicts(500.0), vec![refused; 2]);
}

#[test]
fn changed_settings_engines_and_verdicts_are_named() {
    let other = Study {
        threads: 2,
        engine: "1.1",
        verdict: "no evidence",
        ..Study::default()
    };
    let comparison = compared(&Study::default(), &other, &rule());
    let recipes: Vec<_> = comparison
        .recipes
        .iter()
        .map(|r| (r.stage.as_str(), r.what.as_str(), r.cells, r.common))
        .collect();
    assert_eq!(recipes, [("server", "`settings.threads` 1 → 2", 1, 1)]);
    let environment: Vec<_> = comparison
        .environment
        .iter()
        .map(|c| (c.document.as_str(), c.path.as_str()))
        .collect();
    assert_eq!(
        environment,
        [("server.server", "engine.version")],
        "observations are not a change"
    );
    let verdict = &comparison.verdicts[0];
    assert_eq!(
        (
            verdict.row.as_str(),
            verdict.a.as_deref(),
            verdict.b.as_deref()
        ),
        (
            "metric=output_throughput",
            Some("different"),
            Some("no evidence")
        )
    );
    let text = comparison.to_string();
    assert!(
        text.contains("≠ recipe\n    server: `settings.threads` 1 → 2 (every cell)"),
        "{text}"
    );
}

#[test]
fn cells_of_one_side_only_are_listed() {
    let more = Study {
        throughput: [
            vec![100.0, 101.0, 99.0, 100.0],
            vec![180.0, 182.0, 178.0, 180.0],
        ],
        ttft: [vec![50.0, 51.0, 49.5, 50.0], vec![80.0, 82.0, 79.0, 80.0]],
        ..Study::default()
    };
    let comparison = compared(&Study::default(), &more, &rule());
    let cells: Vec<_> = comparison
        .cells
        .iter()
        .map(|c| (c.cell.as_str(), c.a.as_deref(), c.b.as_deref()))
        .collect();
    assert_eq!(cells, [("ladder[rep=4]", None, Some("ok"))]);
    assert_eq!(comparison.axes, []);
    assert!(comparison.results.iter().all(|r| (r.n_a, r.n_b) == (3, 4)));
}
