//! Executes pure cells again from their records.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pipeline::lock::{Lock, lock_path};
use pipeline::{Experiment, Reproduced, Reproduction, StudyDocument};
use serde_json::json;

use crate::common::{Bench, registry};

fn document(bench: &Bench, study: &Experiment) -> Result<StudyDocument, String> {
    StudyDocument::collect(study, &registry(&bench.world), &bench.store).unwrap()
}

fn reproduce(
    bench: &Bench,
    study: &Experiment,
    document: &StudyDocument,
    jobs: usize,
) -> Vec<Reproduced> {
    let lock = Lock::read(&lock_path(study)).unwrap().unwrap();
    let cancelled = Arc::new(AtomicBool::new(false));
    let registry = registry(&bench.world);
    let heard_count = std::sync::Mutex::new(0);
    let heard = |_: &Reproduced| *heard_count.lock().unwrap() += 1;
    let options = pipeline::ReproduceOptions {
        which: pipeline::Which::All,
        jobs,
    };
    let cells = pipeline::reproduce(
        options,
        &lock,
        document,
        &registry,
        &bench.store,
        &cancelled,
        &heard,
    )
    .unwrap();
    assert_eq!(*heard_count.lock().unwrap(), cells.len());
    cells
}

#[test]
fn every_pure_cell_and_no_other_is_executed_again_with_what_it_saw_then() {
    let bench = Bench::new();
    let study = bench.study();
    let (_, first) = bench.run(&study);
    let document = document(&bench, &study).unwrap();
    let survived: StudyDocument =
        serde_json::from_str(&serde_json::to_string(&document).unwrap()).unwrap();
    assert_eq!(survived, document);
    for jobs in [1, 16] {
        let cells = reproduce(&bench, &study, &survived, jobs);
        assert!(
            cells.iter().all(|c| c.verdict == Reproduction::Identical),
            "{cells:?}"
        );
        let mut names: Vec<String> = cells.into_iter().map(|c| c.cell).collect();
        names.sort();
        let pure = |cell: &&String| {
            ["checks", "results", "report"]
                .iter()
                .any(|p| cell.starts_with(p))
        };
        let mut expected: Vec<String> = first.iter().filter(pure).cloned().collect();
        expected.sort();
        assert_eq!(names, expected);
        assert_eq!(bench.world.take(), expected);
    }
}

/// Replaces the report's record by one of another kind, as the publisher of a malicious bundle would: every key and
/// digest fits.
fn with_another_kind(bench: &Bench, lock: &mut Lock, kind: &str) {
    let stage = lock.stages.iter_mut().find(|s| s.name == "report").unwrap();
    let cell = &mut stage.cells[0];
    let bytes = bench.store.get(&cell.record.unwrap()).unwrap();
    let mut record = pipeline::record::Record::parse(&bytes).unwrap();
    record.recipe.kind = kind.to_owned();
    record.recipe.study = None;
    record.key = record.recipe.key();
    cell.key = Some(record.key);
    cell.record = Some(bench.store.put(&record.to_bytes()).unwrap());
}

#[test]
fn only_kinds_that_the_registry_calls_pure_are_executed_from_records() {
    let bench = Bench::new();
    let study = bench.study();
    bench.run(&study);
    bench.world.take();
    let honest = document(&bench, &study).unwrap();
    let registry = registry(&bench.world);
    for kind in registry.kinds.iter().map(|k| k.name()) {
        let mut lock = Lock::read(&lock_path(&study)).unwrap().unwrap();
        with_another_kind(&bench, &mut lock, kind);
        // The study may be forged just like the lock.
        let mut document = honest.clone();
        document.kinds.insert("report".to_owned(), kind.to_owned());
        let options = pipeline::ReproduceOptions {
            which: pipeline::Which::All,
            jobs: 2,
        };
        let cells = pipeline::reproduce(
            options,
            &lock,
            &document,
            &registry,
            &bench.store,
            &Arc::new(AtomicBool::new(false)),
            &|_| (),
        )
        .unwrap();
        let executed = bench.world.take();
        let class = registry.kinds.iter().find(|k| k.name() == kind);
        if class.unwrap().class() != pipeline::Class::Pure {
            assert_eq!(executed, Vec::<String>::new(), "{kind}");
            let refused = cells.iter().all(|c| {
                matches!(&c.verdict, Reproduction::Failed { reason } if reason.contains("is not pure"))
            });
            assert!(refused && cells.len() == 1, "{kind}: {cells:?}");
        }
    }
}

#[test]
fn a_kind_of_another_meaning_is_refused_with_the_versions() {
    let bench = Bench::new();
    let study = bench.study();
    bench.run(&study);
    let document = document(&bench, &study).unwrap();
    let version = bench.world.version.fetch_add(1, Ordering::Relaxed);
    for cell in reproduce(&bench, &study, &document, 2) {
        let Reproduction::OtherVersion { reason } = &cell.verdict else {
            panic!("{cell:?}")
        };
        assert!(
            reason.contains(&format!("version {version} of the kind")),
            "{reason}"
        );
    }
}

#[test]
fn outputs_with_other_bytes_are_named_with_both_digests() {
    let bench = Bench::new();
    let study = bench.study();
    bench.run(&study);
    let mut document = document(&bench, &study).unwrap();
    // The report contains the ledger, so a changed ledger gives a different report.
    document.ledger[0].reason = Some("another story".to_owned());
    document.ledger.pop();
    let cells = reproduce(&bench, &study, &document, 2);
    let (report, others): (Vec<_>, Vec<_>) = cells.into_iter().partition(|c| c.cell == "report");
    assert!(
        others.iter().all(|c| c.verdict == Reproduction::Identical),
        "{others:?}"
    );
    let Reproduction::Different { outputs } = &report[0].verdict else {
        panic!("{report:?}")
    };
    assert!(
        outputs
            .iter()
            .all(|d| d.recorded.is_some() && d.reproduced.is_some() && d.recorded != d.reproduced)
    );
}

#[test]
fn a_study_that_is_not_the_one_of_the_recipe_is_refused() {
    let bench = Bench::new();
    let study = bench.study();
    bench.run(&study);
    let mut document = document(&bench, &study).unwrap();
    document.spec["title"] = json!("another title");
    let report = reproduce(&bench, &study, &document, 1)
        .into_iter()
        .find(|c| c.cell == "report")
        .unwrap();
    let Reproduction::Failed { reason } = report.verdict else {
        panic!("{report:?}")
    };
    assert!(
        reason.contains("differs from the one in its recipe"),
        "{reason}"
    );
}

#[test]
fn a_missing_input_is_a_verdict_of_the_cell_that_reads_it() {
    let bench = Bench::new();
    let study = bench.study();
    bench.run(&study);
    let document = document(&bench, &study).unwrap();
    let lock = Lock::read(&lock_path(&study)).unwrap().unwrap();
    let ladder = lock.stages.iter().find(|s| s.name == "ladder").unwrap();
    let record = bench.store.get(&ladder.cells[0].record.unwrap()).unwrap();
    let record = pipeline::record::Record::parse(&record).unwrap();
    let artifact = record.outputs.values().next().unwrap();
    std::fs::remove_file(bench.store.path(&artifact.digest)).unwrap();
    let cells = reproduce(&bench, &study, &document, 2);
    let reasons: Vec<&str> = cells
        .iter()
        .filter_map(|c| match &c.verdict {
            Reproduction::NotExecuted { reason } => Some(reason.as_str()),
            _ => None,
        })
        .collect();
    assert!(
        !reasons.is_empty() && reasons.len() < cells.len(),
        "{cells:?}"
    );
    for reason in reasons {
        assert_eq!(reason, "its inputs are missing here: ladder.rows (1 cell)");
    }
}

#[test]
fn a_study_with_failed_cells_is_reproduced_with_its_ledger() {
    let bench = Bench::new();
    let study = bench.study();
    let failing = "ladder[configuration=batched,clients=1,rep=1]".to_owned();
    bench
        .world
        .fail
        .lock()
        .unwrap()
        .insert(failing, (9, pipeline::CellStatus::Failed));
    let options = pipeline::RunOptions {
        keep_going: true,
        ..pipeline::RunOptions::default()
    };
    let (summary, _) = bench.run_with(&study, &options);
    assert_eq!(summary.counts["failed"], 1, "{:?}", summary.counts);
    let document = document(&bench, &study).unwrap();
    let cells = reproduce(&bench, &study, &document, 2);
    assert!(
        cells.len() > 2 && cells.iter().all(|c| c.verdict == Reproduction::Identical),
        "{cells:?}"
    );
}

#[test]
fn a_measurement_made_with_other_settings_is_no_part_of_the_study() {
    let bench = Bench::new();
    let study = bench.study();
    bench.run(&study);
    let mut edited = bench.study();
    edited.stages.raw[1].parameter_sets[0]["engine"]["version"] = json!(2);
    let Err(what) = document(&bench, &edited) else {
        panic!("a server's setting was edited")
    };
    assert!(
        what.contains("have changed since it was executed"),
        "{what}"
    );
}

#[test]
fn an_unfinished_study_has_no_document() {
    let bench = Bench::new();
    let study = bench.study();
    let Err(what) = document(&bench, &study) else {
        panic!("nothing has run")
    };
    assert_eq!(what, "it has not run yet");
}
