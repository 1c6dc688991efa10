//! The dry run executes pure stages over the simulated outputs of other kinds, and executes nothing else.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use artifacts::Store;
use pipeline::stage::Json;
use pipeline::{
    CellStatus, Class, Done, DryRun, Experiment, Failure, Job, Library, Media, Output, PlanOptions,
    Problem, Registry, StageKind, dry_run, dry_run_is_due,
};
use serde_json::json;

use crate::common::{Bench, experiment, registry, stage, study_axes, study_stages};

/// A kind of the test's registry that simulates its outputs.
struct MadeUp(Box<dyn StageKind>);

impl StageKind for MadeUp {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn semantic_version(&self) -> u32 {
        self.0.semantic_version()
    }
    fn class(&self) -> Class {
        self.0.class()
    }
    fn schema(&self) -> schemars::Schema {
        self.0.schema()
    }
    fn canonical(&self, settings: &Json, library: &dyn Library) -> Result<Json, Vec<Problem>> {
        self.0.canonical(settings, library)
    }
    fn sees_study(&self) -> bool {
        self.0.sees_study()
    }
    fn run(&self, job: &Job<'_>) -> Result<Done, Failure> {
        assert_eq!(
            self.class(),
            Class::Pure,
            "only pure kinds execute in a dry run"
        );
        let text = job.parameters["fails"].as_str().unwrap_or_default();
        let rows: Vec<u64> = job
            .inputs
            .iter()
            .flat_map(|i| &i.cells)
            .map(|c| slowness(job.store, c))
            .collect();
        match text {
            "always" => Err(Failure::failed("unknown column `x`")),
            // Names a table, so that the finding has its place.
            "unless-slow" if rows.iter().all(|r| *r <= 1000) => Err(Failure::failed(format!(
                "table `t`: no row is slow, of {}",
                rows.len()
            ))),
            "panics" => panic!("as the test asked"),
            _ => self.0.run(job),
        }
    }
    fn rehearse(&self, job: &Job<'_>, slowdown: f64) -> Result<Done, Failure> {
        if self.class() == Class::Pure {
            return self.run(job);
        }
        let text = ((slowdown * 1000.0).round() as u64).to_string();
        Ok(Done {
            outputs: vec![Output::text("rows", Media::Text, text)],
            ..Done::default()
        })
    }
}

/// Returns how slow a simulated cell was, in thousandths; 0 for a pure one.
fn slowness(store: &Store, cell: &pipeline::InputCell) -> u64 {
    let Some(artifact) = cell.outputs.get("rows") else {
        return 0;
    };
    String::from_utf8(store.get(&artifact.digest).unwrap())
        .unwrap()
        .parse()
        .unwrap()
}

fn tried(bench: &Bench, experiment: &Experiment) -> DryRun {
    let plain = registry(&bench.world);
    let kinds = plain
        .kinds
        .into_iter()
        .map(|k| -> Box<dyn StageKind> { Box::new(MadeUp(k)) })
        .collect();
    let registry = Registry {
        kinds,
        ..Registry::default()
    };
    dry_run(
        experiment,
        &registry,
        Path::new("/nowhere"),
        &Arc::new(AtomicBool::new(false)),
    )
    .unwrap()
}

/// The small study, with its stage `results` failing as `word` selects.
fn failing(bench: &Bench, word: &str) -> Experiment {
    let mut stages = study_stages();
    let at = stages.iter().position(|s| s.name == "results").unwrap();
    stages[at] = stage(
        "results",
        "fold",
        &["ladder", "checks"],
        &[],
        json!({"fails": word}),
    );
    experiment(&bench.file(), &study_axes(), &stages)
}

#[test]
fn pure_stages_execute_and_the_store_and_the_lock_are_left_alone() {
    let bench = Bench::new();
    let trial = tried(&bench, &bench.study());
    // Two cells of checks, one of results, one report.
    assert_eq!(
        trial,
        DryRun {
            executed: 4,
            ..DryRun::default()
        }
    );
    let ran = bench.world.take();
    assert_eq!(
        ran,
        [
            "checks[configuration=batched]",
            "checks[configuration=serial]",
            "report",
            "results"
        ]
    );
    assert_eq!(
        std::fs::read_dir(bench.store.root().join("objects"))
            .unwrap()
            .count(),
        0
    );
    assert!(!bench.folder.path().join("study.lock").exists());
}

#[test]
fn what_fails_whatever_is_made_up_is_an_error_and_what_needs_it_is_not_blamed() {
    let bench = Bench::new();
    let trial = tried(&bench, &failing(&bench, "always"));
    let [finding] = trial.findings.as_slice() else {
        panic!("{trial:?}")
    };
    assert!(finding.certain && finding.stage == "results");
    assert_eq!(finding.reason, "unknown column `x`");
    assert_eq!(trial.errors().count(), 1);
}

#[test]
fn what_fails_only_over_some_rows_is_a_doubt() {
    let bench = Bench::new();
    let trial = tried(&bench, &failing(&bench, "unless-slow"));
    let [finding] = trial.findings.as_slice() else {
        panic!("{trial:?}")
    };
    assert!(!finding.certain);
    assert_eq!((trial.errors().count(), trial.doubts().count()), (0, 1));
}

#[test]
fn a_kind_that_panics_is_reported_as_a_bug() {
    let bench = Bench::new();
    let trial = tried(&bench, &failing(&bench, "panics"));
    assert_eq!(trial.findings[0].reason, "the stage kind `fold` panicked");
    assert!(trial.findings[0].hint.as_ref().unwrap().contains("bug"));
}

#[test]
fn kinds_that_make_nothing_up_are_skipped_inputs() {
    let bench = Bench::new();
    // The plain kinds rehearse only pure stages.
    let trial = dry_run(
        &bench.study(),
        &registry(&bench.world),
        Path::new("/nowhere"),
        &Arc::new(AtomicBool::new(false)),
    )
    .unwrap();
    assert_eq!(trial.findings, []);
    assert!(
        bench
            .world
            .take()
            .iter()
            .all(|cell| !cell.starts_with("ladder") && !cell.starts_with("server"))
    );
}

#[test]
fn a_dry_run_is_due_while_something_is_to_be_measured_for_a_pure_stage() {
    let bench = Bench::new();
    let study = bench.study();
    let due = |options: &PlanOptions| dry_run_is_due(&bench.plan(&study, options));
    assert!(due(&PlanOptions::default()));
    let (summary, _) = bench.run(&study);
    assert_eq!(summary.counts.get(CellStatus::Ok.word()), Some(&15));
    assert!(!due(&PlanOptions::default()), "everything is cached");
    assert!(!due(&PlanOptions {
        from: Some("results".to_owned()),
        ..PlanOptions::default()
    }));
    assert!(due(&PlanOptions {
        fresh: vec!["ladder".to_owned()],
        ..PlanOptions::default()
    }));
}
