//! What a lock keeps: results that the store damaged or lost, settings that were measured, and results that a failure
//! replaced.

use std::fs;

use artifacts::{Commit, Digest, StoreError};
use pipeline::lock::{Lock, LockCell};
use pipeline::{
    CellStatus, Decision, Experiment, PipelineError, Plan, PlanOptions, RunOptions, RunSummary,
};
use serde_json::json;

use crate::common::{Bench, experiment, ints, registry, stage};

/// A change of an experiment.
type Edit = fn(&mut Experiment);

fn locked() -> PlanOptions {
    PlanOptions {
        locked: true,
        ..PlanOptions::default()
    }
}

fn run(bench: &Bench, study: &Experiment, plan: PlanOptions) -> Result<RunSummary, PipelineError> {
    let options = RunOptions {
        plan,
        ..RunOptions::default()
    };
    pipeline::run(
        study,
        &registry(&bench.world),
        &bench.store,
        &options,
        &|_| (),
    )
}

fn plan(bench: &Bench, study: &Experiment, options: &PlanOptions) -> Result<Plan, PipelineError> {
    pipeline::plan(study, &registry(&bench.world), &bench.store, options)
}

/// Returns the first cell of the measurement in the lock.
fn measured(bench: &Bench) -> LockCell {
    let lock = Lock::read(&bench.file().with_extension("lock"));
    let stages = lock.unwrap().expect("a lock").stages;
    let ladder = stages.into_iter().find(|s| s.name == "ladder");
    ladder.expect("the stage").cells.swap_remove(0)
}

/// Changes or removes an object, and the rows of the index that name it.
fn lose(bench: &Bench, record: &Digest, bytes: Option<&str>) {
    let path = bench.store.path(record);
    fs::remove_file(&path).unwrap();
    if let Some(bytes) = bytes {
        fs::write(&path, bytes).unwrap();
    }
    bench.store.retire(record).unwrap();
}

#[test]
fn a_locked_run_refuses_results_that_were_measured_with_other_settings() {
    let bench = Bench::new();
    bench.run(&bench.study());
    let edits: [(Edit, &str); 3] = [
        (
            |e| e.stages.raw[2].parameter_sets[0]["workload"]["output_tokens"] = json!(128),
            "`workload.output_tokens` 64 → 128",
        ),
        (
            |e| e.stages.raw[1].parameter_sets[0]["engine"]["version"] = json!(2),
            "`engine.version` 1 → 2",
        ),
        (|e| e.seed = 7, "`seed` 164 → 7"),
    ];
    let before = measured(&bench);
    for (edit, difference) in edits {
        let mut study = bench.study();
        edit(&mut study);
        let run = run(&bench, &study, locked()).map(|_| ());
        let plan = plan(&bench, &study, &locked()).map(|_| ());
        for ended in [run, plan] {
            let error = ended.expect_err(difference);
            let PipelineError::Selection { message, hint } = &error else {
                panic!("{error:?}");
            };
            assert!(message.contains(difference), "{message}");
            assert!(hint.contains("run without --locked"), "{hint}");
        }
    }
    assert_eq!(measured(&bench), before);
    // A later version may have a setting more, with a default.
    let mut study = bench.study();
    for set in &mut study.stages.raw[2].parameter_sets {
        set["workload"]["later"] = json!("as before");
    }
    assert!(run(&bench, &study, locked()).unwrap().is_complete());
    // What is computed may change.
    let mut study = bench.study();
    study.stages.raw[4].parameter_sets[0]["operator"] = json!("median");
    study.stages.raw[5].parameter_sets[0]["template"] = json!("other");
    assert!(run(&bench, &study, locked()).unwrap().is_complete());
}

#[test]
fn a_measurement_whose_record_is_damaged_is_not_measured_again() {
    let bench = Bench::new();
    let study = bench.study();
    bench.run(&study);
    let line = measured(&bench);
    let record = line.record.expect("it is ok");
    lose(&bench, &record, Some("other bytes"));
    for options in [PlanOptions::default(), locked()] {
        let run = run(&bench, &study, options.clone()).map(|_| ());
        let plan = plan(&bench, &study, &options).map(|_| ());
        for ended in [run, plan] {
            assert!(
                matches!(&ended, Err(PipelineError::Store(StoreError::Damaged(digest, _))) if *digest == record),
                "{ended:?}"
            );
        }
    }
    assert_eq!(bench.world.take(), Vec::<String>::new());
    assert_eq!(measured(&bench), line);
}

#[test]
fn a_measurement_whose_record_is_gone_is_measured_again_unless_the_run_is_locked() {
    let bench = Bench::new();
    let study = bench.study();
    bench.run(&study);
    let line = measured(&bench);
    lose(&bench, &line.record.expect("it is ok"), None);
    let kept = run(&bench, &study, locked()).unwrap();
    assert!(kept.counts["ok"] > 0 && kept.counts["skipped"] > 0);
    assert!(kept.locked.is_none() && !kept.lock_written);
    assert_eq!(measured(&bench), line, "the lock is that of the study");
    bench.world.take();
    let planned = bench.plan(&study, &PlanOptions::default());
    let notes = planned.notes.join("\n");
    assert!(notes.contains("1 measured cell of `ladder` will be measured again"));
    assert!(!notes.contains("--locked"), "{notes}");
    let (summary, _) = bench.run(&study);
    assert!(summary.lock_written);
    assert_ne!(measured(&bench).record, line.record);
}

#[test]
fn a_locked_run_uses_no_result_whose_outputs_the_index_does_not_say() {
    let bench = Bench::new();
    let study = bench.study();
    bench.run(&study);
    let line = measured(&bench);
    let (key, record) = (line.key.expect("it is ok"), line.record.expect("it is ok"));
    bench.store.retire(&record).unwrap();
    let entry = Commit {
        experiment: study.name.clone(),
        stage: "ladder".to_owned(),
        coordinates: line.coordinates,
        key,
        record,
        objects: vec![record],
        status: "ok".to_owned(),
        cacheable: true,
        seconds: 1.0,
        outputs: "no outputs".to_owned(),
    };
    bench.store.commit(&[entry]).unwrap();
    // The lock agrees with the index.
    let path = bench.file().with_extension("lock");
    let mut lock = Lock::read(&path).unwrap().unwrap();
    let ladder = lock.stages.iter_mut().find(|s| s.name == "ladder");
    ladder.unwrap().cells[0].outputs = Some(Digest::of(b"no outputs"));
    lock.write(&path).unwrap();
    let planned = plan(&bench, &study, &locked()).unwrap();
    let cell = planned.cells.iter().find(|c| c.name.stage == "ladder");
    let decision = &cell.unwrap().decision;
    assert!(
        matches!(decision, Decision::Blocked { reason, .. } if reason.contains("is not in the store")),
        "{decision:?}"
    );
}

#[test]
fn a_plan_says_that_locked_uses_earlier_results_only_where_it_does() {
    let bench = Bench::new();
    bench.run(&bench.study());
    let note = |study: &Experiment| {
        let notes = bench.plan(study, &PlanOptions::default()).notes;
        let note = notes.into_iter().find(|n| n.contains("measured again"));
        note.expect("a note")
    };
    let mut study = bench.study();
    for set in &mut study.stages.raw[2].parameter_sets {
        set["workload"]["output_tokens"] = json!(128);
    }
    let edited = note(&study);
    assert!(edited.contains("; the earlier results stay in the store"));
    assert!(!edited.contains("--locked"), "{edited}");
    let facets = &bench.world.facets;
    facets.lock().unwrap().insert("cpu".into(), json!("other"));
    let elsewhere = note(&bench.study());
    assert!(
        elsewhere.contains("--locked still uses them"),
        "{elsewhere}"
    );
}

#[test]
fn a_measurement_that_failed_replaces_its_earlier_result_even_if_nothing_else_is_ok() {
    let bench = Bench::new();
    let stages = |tokens: i64| {
        [stage(
            "ladder",
            "measure",
            &[],
            &["rep"],
            json!({"tokens": tokens}),
        )]
    };
    let study = |tokens| experiment(&bench.file(), &[("rep", ints(1))], &stages(tokens));
    bench.run(&study(1));
    let before = measured(&bench);
    let failure = (1, CellStatus::Failed);
    let fail = &bench.world.fail;
    fail.lock().unwrap().insert("ladder[rep=1]".into(), failure);
    let (summary, _) = bench.run(&study(2));
    assert!(summary.lock_written && !summary.counts.contains_key("ok"));
    let after = measured(&bench);
    assert_eq!(after.status, CellStatus::Failed);
    assert_eq!(after.earlier.len(), 1);
    assert_eq!(Some(after.earlier[0].record), before.record);
    // Nothing was tried: the lock stays.
    let skipped = PlanOptions {
        only: vec!["ladder".into()],
        ..locked()
    };
    let (summary, ran) = bench.run_with(
        &study(2),
        &RunOptions {
            plan: skipped,
            ..RunOptions::default()
        },
    );
    assert_eq!((ran.len(), summary.lock_written), (0, false));
}
