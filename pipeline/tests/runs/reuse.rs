//! What executes again after each change, and why.

use std::sync::atomic::Ordering;

use artifacts::Scalar;
use pipeline::{Decision, Event, Experiment, PlanOptions, RunOptions};
use serde_json::json;

use crate::common::written;
use crate::common::{
    Bench, World, experiment, ints, registry, stage, study_axes, study_stages, texts,
};

#[test]
fn a_second_run_executes_nothing_and_starts_no_resource() {
    let bench = Bench::new();
    let study = bench.study();
    let (first, ran) = bench.run(&study);
    assert!(first.is_complete(), "{:?}", first.ledger);
    assert_eq!((first.executed, ran.len()), (15, 15), "{ran:?}");
    let (second, ran) = bench.run(&study);
    assert_eq!(ran, Vec::<String>::new());
    assert_eq!(
        (second.executed, second.resource_starts, second.lock_written),
        (0, 0, false)
    );
    assert_eq!(second.trail, first.trail);
    assert_eq!(second.results, first.results);
}

/// A change, and the stages that must execute again because of it.
type Change = (
    &'static str,
    fn(&mut Experiment, &World),
    &'static [&'static str],
);

const CHANGES: &[Change] = &[
    ("nothing", |_, _| (), &[]),
    (
        "key order of parameters",
        |e, _| {
            e.stages.raw[2]
                .parameter_sets
                .iter_mut()
                .for_each(|p| p.sort_all_objects());
        },
        &[],
    ),
    (
        "a parameter of a measurement",
        |e, _| e.stages.raw[2].parameter_sets[0]["workload"]["output_tokens"] = json!(128),
        &["checks", "ladder", "machine", "report", "results", "server"],
    ),
    (
        "a parameter of a pure stage",
        |e, _| e.stages.raw[4].parameter_sets[0]["operator"] = json!("median"),
        &["results"],
    ),
    (
        "a parameter of the report",
        |e, _| e.stages.raw[5].parameter_sets[0]["template"] = json!("other"),
        &["report"],
    ),
    (
        "the spec",
        |e, _| e.spec["title"] = json!("another title"),
        &["report"],
    ),
    (
        "the seed",
        |e, _| e.seed += 1,
        &["checks", "ladder", "machine", "report", "results", "server"],
    ),
    (
        "a server's setting",
        |e, _| e.stages.raw[1].parameter_sets[0]["engine"]["version"] = json!(2),
        &["checks", "ladder", "machine", "report", "results", "server"],
    ),
    (
        "a facet of the host",
        |_, w| {
            w.facets
                .lock()
                .unwrap()
                .insert("cpu".into(), json!("other"));
        },
        &["checks", "ladder", "machine", "report", "results", "server"],
    ),
    (
        "the meaning of the pure kinds",
        |_, w| {
            w.version.fetch_add(1, Ordering::Relaxed);
        },
        &["checks", "report", "results"],
    ),
    (
        "retries and timeouts",
        |e, _| e.stages.raw[2].cells.iter_mut().for_each(|c| c.retries = 3),
        &[],
    ),
    (
        "the name of the profile",
        |e, _| e.profile = Some("smoke".into()),
        &[],
    ),
];

#[test]
fn each_change_executes_again_exactly_what_depends_on_it() {
    for (what, change, expected) in CHANGES {
        let bench = Bench::new();
        bench.run(&bench.study());
        let mut study = bench.study();
        change(&mut study, &bench.world);
        let (summary, ran) = bench.run(&study);
        let mut stages: Vec<&str> = ran.iter().map(|c| c.split('[').next().unwrap()).collect();
        stages.dedup();
        assert_eq!(stages, *expected, "{what}");
        assert!(summary.is_complete(), "{what}");
        assert_eq!(
            bench.run(&study).1,
            Vec::<String>::new(),
            "{what}, the second time"
        );
    }
}

#[test]
fn a_change_of_one_cell_leaves_its_neighbours_alone() {
    let bench = Bench::new();
    bench.run(&bench.study());
    let mut study = bench.study();
    // The first parameter set is the one of a single client, in both configurations and both reps.
    let fourth = study.stages.raw[2].parameter_sets.len();
    let mut parameters = study.stages.raw[2].parameter_sets[0].clone();
    parameters["override"] = json!(true);
    study.stages.raw[2].parameter_sets.push(parameters);
    study.stages.raw[2].cells.raw[0].parameters = u32::try_from(fourth).unwrap();
    let (_, ran) = bench.run(&study);
    let expected = [
        "checks[configuration=batched]",
        "ladder[configuration=batched,clients=1,rep=1]",
        "machine",
        "report",
        "results",
        "server[configuration=batched]",
    ];
    assert_eq!(ran, expected);
}

#[test]
fn identical_bytes_of_an_intermediate_stage_stop_the_rest() {
    let bench = Bench::new();
    let build = |gate: i64| {
        let stages = vec![
            stage(
                "source",
                "fold",
                &[],
                &[],
                json!({"gate": gate, "constant": true}),
            ),
            stage("below", "fold", &["source"], &[], json!({})),
            stage("report", "tell", &["below"], &[], json!({})),
        ];
        experiment(&bench.file(), &[], &stages)
    };
    let (first, _) = bench.run(&build(1));
    bench.events.lock().unwrap().clear();
    let plan = bench.plan(&build(2), &PlanOptions::default());
    assert_eq!((plan.total.run, plan.total.after), (1, 2));
    let (second, ran) = bench.run(&build(2));
    assert_eq!(ran, ["source"]);
    assert_eq!(
        second.trail, first.trail,
        "a pure stage that gives the same bytes leaves the trail alone"
    );
    let events = bench.events.lock().unwrap();
    let cached = |e: &&Event| matches!(e, Event::CellEnded { cached: true, .. });
    assert_eq!(events.iter().filter(cached).count(), 2);
}

#[test]
fn a_missing_cell_that_arrives_changes_the_fan_in() {
    let bench = Bench::new();
    let build = |excluded: bool| {
        let mut stages = study_stages();
        if excluded {
            stages[2].exclude = vec![(
                vec![("clients", Scalar::Int(2)), ("rep", Scalar::Int(2))],
                "too slow",
            )];
        }
        experiment(&bench.file(), &study_axes(), &stages)
    };
    let (first, _) = bench.run(&build(true));
    assert!(first.is_complete());
    assert_eq!(first.counts["excluded"], 2);
    let (_, ran) = bench.run(&build(false));
    let arrived: Vec<&String> = ran.iter().filter(|c| c.starts_with("ladder")).collect();
    assert_eq!(arrived.len(), 2, "{ran:?}");
    assert!(ran.contains(&"results".to_owned()));
}

#[test]
fn the_plan_names_the_field_that_changed() {
    let bench = Bench::new();
    bench.run(&bench.study());
    let mut study = bench.study();
    study.stages.raw[2].parameter_sets[0]["workload"]["output_tokens"] = json!(128);
    let plan = bench.plan(&study, &PlanOptions::default());
    let reason = plan
        .reason(written("ladder", "configuration=batched,clients=1,rep=1"))
        .unwrap();
    assert_eq!(reason.to_string(), "`workload.output_tokens` 64 → 128");
    assert_eq!(
        (plan.total.run, plan.total.cached, plan.total.after),
        (4, 7, 4)
    );
    assert!(plan.estimate_s.is_some());
    assert!(
        plan.notes[0].starts_with("4 measured cells of `ladder` will be measured again"),
        "{:?}",
        plan.notes
    );
    let after = plan
        .cells
        .iter()
        .find(|c| c.name.stage == "results")
        .unwrap();
    assert!(
        matches!(after.decision, Decision::After { .. }),
        "{after:?}"
    );
}

#[test]
fn the_plan_names_the_field_inside_an_input_that_changed() {
    let bench = Bench::new();
    bench.run(&bench.study());
    let mut study = bench.study();
    study.stages.raw[1].parameter_sets[0]["engine"]["version"] = json!(2);
    // The server executes; the measurements that need it are explained once it has its new descriptor.
    let only = PlanOptions {
        only: vec!["server".into()],
        ..PlanOptions::default()
    };
    bench.run_with(
        &study,
        &RunOptions {
            plan: only,
            ..RunOptions::default()
        },
    );
    let plan = bench.plan(&study, &PlanOptions::default());
    let reason = plan
        .reason(written("ladder", "configuration=batched,clients=1,rep=1"))
        .unwrap()
        .to_string();
    assert!(
        reason.contains("input `server` changed: engine.version 1 → 2"),
        "{reason}"
    );
}

#[test]
fn labels_that_included_cells_add_are_none_that_the_axes_give() {
    let bench = Bench::new();
    let mut study = bench.study();
    let gives = |study: &Experiment| {
        let plan = bench.plan(study, &PlanOptions::default());
        plan.stages.iter().map(|s| s.product).sum::<usize>()
    };
    let before = gives(&study);
    study.axes.last_mut().unwrap().declared -= 1;
    assert!(gives(&study) < before);
}

#[test]
fn a_first_plan_says_never_run_and_counts_every_cell() {
    let bench = Bench::new();
    let plan = bench.plan(&bench.study(), &PlanOptions::default());
    assert_eq!(
        (plan.total.run, plan.total.after, plan.total.sum()),
        (1, 14, 15)
    );
    assert_eq!(
        plan.reason(written("machine", "")).unwrap().to_string(),
        "never run before"
    );
    assert_eq!(plan.stages.iter().map(|s| s.product).sum::<usize>(), 15);
    assert_eq!(plan.estimate_s, None);
    assert!(serde_json::to_string(&plan).unwrap().contains("never-run"));
}

#[test]
fn a_fresh_measurement_keeps_the_earlier_result_and_the_lock_names_the_new_one() {
    let bench = Bench::new();
    let study = bench.study();
    let (first, _) = bench.run(&study);
    let fresh = PlanOptions {
        fresh: vec!["ladder".into()],
        ..PlanOptions::default()
    };
    let (second, ran) = bench.run_with(
        &study,
        &RunOptions {
            plan: fresh,
            ..RunOptions::default()
        },
    );
    assert_eq!(ran.iter().filter(|c| c.starts_with("ladder")).count(), 8);
    assert_ne!(second.trail, first.trail);
    let lock = pipeline::lock::Lock::read(&second.lock).unwrap().unwrap();
    let cell = &lock
        .stages
        .iter()
        .find(|s| s.name == "ladder")
        .unwrap()
        .cells[0];
    let all = bench.store.records_for(&cell.key.unwrap()).unwrap();
    assert_eq!(all.len(), 2);
    assert_eq!(Some(all[0].record), cell.record, "the new one is in use");
    assert_eq!(bench.run(&study).1, Vec::<String>::new());
}

/// Measures the ladder again, and returns the execution counts of its cells from the lock.
fn again(bench: &Bench, study: &Experiment) -> Vec<(usize, usize)> {
    let plan = PlanOptions {
        fresh: vec!["ladder".into()],
        ..PlanOptions::default()
    };
    let options = RunOptions {
        plan,
        ..RunOptions::default()
    };
    bench.run_with(study, &options);
    executions(study)
}

fn executions(study: &Experiment) -> Vec<(usize, usize)> {
    let path = pipeline::lock::lock_path(study);
    let lock = pipeline::lock::Lock::read(&path).unwrap().unwrap();
    let ladder = lock.stages.iter().find(|s| s.name == "ladder").unwrap();
    let counts = |cell: &pipeline::lock::LockCell| (cell.executions(), cell.discarded().count());
    ladder.cells.iter().map(counts).collect()
}

#[test]
fn every_execution_of_a_measurement_leaves_a_mark_that_a_lost_lock_does_not_hide() {
    let bench = Bench::new();
    let study = bench.study();
    bench.run(&study);
    assert_eq!(executions(&study), [(1, 0); 8]);
    assert_eq!(again(&bench, &study), [(2, 1); 8]);
    assert_eq!(again(&bench, &study), [(3, 2); 8]);
    let path = pipeline::lock::lock_path(&study);
    let before = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    bench.run(&study);
    assert_eq!(executions(&study), [(3, 2); 8]);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_lost_store_does_not_hide_the_marks_of_the_lock() {
    let bench = Bench::new();
    let study = bench.study();
    bench.run(&study);
    again(&bench, &study);
    let elsewhere = Bench::new();
    let registry = registry(&elsewhere.world);
    let listen = |_: &Event| ();
    let options = RunOptions::default();
    pipeline::run(&study, &registry, &elsewhere.store, &options, &listen).unwrap();
    assert_eq!(executions(&study), [(3, 2); 8]);
}

#[test]
fn a_measurement_that_failed_first_is_marked_and_its_readers_are_named() {
    let bench = Bench::new();
    let study = bench.study();
    let cell = "ladder[configuration=serial,clients=2,rep=1]";
    let failing = (1, pipeline::CellStatus::Failed);
    bench
        .world
        .fail
        .lock()
        .unwrap()
        .insert(cell.to_owned(), failing);
    let options = RunOptions {
        keep_going: true,
        ..RunOptions::default()
    };
    bench.run_with(&study, &options);
    let (summary, _) = bench.run(&study);
    let counts = executions(&study);
    assert_eq!(
        counts.iter().filter(|c| **c == (2, 0)).count(),
        1,
        "{counts:?}"
    );
    let report = bench
        .store
        .get(&summary.results[0].outputs["report"].digest)
        .unwrap();
    let report = String::from_utf8(report).unwrap();
    let line = "ladder[configuration=serial,clients=2,rep=1] ok executed 2 times";
    assert!(report.contains(line), "{report}");
    assert_eq!(report.matches("executed").count(), 1, "{report}");
}

#[test]
fn the_lock_decides_between_several_results_of_one_key() {
    let bench = Bench::new();
    let study = bench.study();
    let (first, _) = bench.run(&study);
    let lock = std::fs::read(&first.lock).unwrap();
    let fresh = PlanOptions {
        fresh: vec!["ladder".into()],
        ..PlanOptions::default()
    };
    bench.run_with(
        &study,
        &RunOptions {
            plan: fresh,
            ..RunOptions::default()
        },
    );
    std::fs::write(&first.lock, &lock).unwrap();
    let (third, ran) = bench.run(&study);
    assert_eq!(
        ran,
        ["report"],
        "which tells of the results that are not in use"
    );
    let parse = |bytes: &[u8]| {
        let text = std::str::from_utf8(bytes).unwrap();
        pipeline::lock::Lock::parse(text, &first.lock).unwrap()
    };
    let restored = parse(&std::fs::read(&third.lock).unwrap());
    let of_ladder = |lock: &pipeline::lock::Lock| lock.stages[1].cells.clone();
    for (now, then) in of_ladder(&restored).iter().zip(&of_ladder(&parse(&lock))) {
        assert_eq!(
            now.record, then.record,
            "the result of the first run is in use again"
        );
        assert_eq!((now.executions(), now.discarded().count()), (2, 1));
    }
    assert_eq!(bench.run(&study).1, Vec::<String>::new());
    let plan = bench.plan(&study, &PlanOptions::default());
    assert!(
        plan.notes
            .iter()
            .any(|n| n.contains("has 2 results under its key")),
        "{:?}",
        plan.notes
    );
}

#[test]
fn with_locked_measurements_come_from_the_lock_whatever_the_machine_is() {
    let bench = Bench::new();
    let mut study = bench.study();
    bench.run(&study);
    bench
        .world
        .facets
        .lock()
        .unwrap()
        .insert("cpu".into(), json!("another"));
    study.stages.raw[4].parameter_sets[0]["operator"] = json!("median");
    let locked = PlanOptions {
        locked: true,
        ..PlanOptions::default()
    };
    let options = RunOptions {
        plan: locked.clone(),
        ..RunOptions::default()
    };
    let (summary, ran) = bench.run_with(&study, &options);
    assert!(summary.is_complete());
    assert_eq!(
        (ran, summary.resource_starts),
        (vec!["results".to_owned()], 0)
    );
    let away = Bench::new();
    std::fs::copy(&summary.lock, away.folder.path().join("study.lock")).unwrap();
    let plan = away.plan(
        &experiment(&away.file(), &study_axes(), &study_stages()),
        &locked,
    );
    let blocked = plan
        .cells
        .iter()
        .find(|c| c.name.stage == "ladder")
        .unwrap();
    assert!(
        matches!(&blocked.decision, Decision::Blocked { reason, .. } if reason.contains("copy the store")),
        "{blocked:?}"
    );
}

#[test]
fn from_a_stage_on_everything_but_measurements_executes_again() {
    let bench = Bench::new();
    let study = bench.study();
    bench.run(&study);
    let from = PlanOptions {
        from: Some("checks".into()),
        ..PlanOptions::default()
    };
    let (_, ran) = bench.run_with(
        &study,
        &RunOptions {
            plan: from,
            ..RunOptions::default()
        },
    );
    let expected = [
        "checks[configuration=batched]",
        "checks[configuration=serial]",
        "report",
        "results",
    ];
    assert_eq!(ran, expected);
}

#[test]
fn only_executes_what_is_named_and_what_it_needs() {
    let bench = Bench::new();
    let study = bench.study();
    let only = PlanOptions {
        only: vec!["ladder[configuration=serial,rep=1]".into()],
        ..PlanOptions::default()
    };
    let (summary, ran) = bench.run_with(
        &study,
        &RunOptions {
            plan: only,
            ..RunOptions::default()
        },
    );
    let expected = [
        "ladder[configuration=serial,clients=1,rep=1]",
        "ladder[configuration=serial,clients=2,rep=1]",
        "machine",
        "server[configuration=serial]",
    ];
    assert_eq!(ran, expected);
    assert!(!summary.is_complete());
    assert!(
        summary.done,
        "all that was asked for is ok: {:?}",
        summary.ledger
    );
    let (_, rest) = bench.run(&study);
    assert!(
        rest.iter()
            .all(|c| c != "ladder[configuration=serial,clients=1,rep=1]"),
        "{rest:?}"
    );
}

#[test]
fn options_that_name_nothing_are_errors_with_a_suggestion() {
    let bench = Bench::new();
    let error = |options: PlanOptions| {
        let registry = registry(&bench.world);
        match pipeline::plan(&bench.study(), &registry, &bench.store, &options).unwrap_err() {
            pipeline::PipelineError::Selection { message, hint } => (message, hint),
            other => panic!("{other}"),
        }
    };
    let fresh = error(PlanOptions {
        fresh: vec!["lader".into()],
        ..PlanOptions::default()
    });
    assert_eq!(
        fresh,
        (
            "no stage is named `lader`".to_owned(),
            "did you mean `ladder`?".to_owned()
        )
    );
    let only = error(PlanOptions {
        only: vec!["ladder[color=red]".into()],
        ..PlanOptions::default()
    });
    assert!(only.0.contains("has no axis `color`"), "{only:?}");
    assert_eq!(
        only.1,
        "the axes of `ladder` are `configuration`, `clients`, `rep`"
    );
    let none = error(PlanOptions {
        only: vec!["ladder[rep=9]".into()],
        ..PlanOptions::default()
    });
    assert!(
        none.0.contains("no cell has these coordinates")
            && none.1 == "the labels of `rep` are `1`, `2`",
        "{none:?}"
    );
}

#[test]
fn a_lost_output_is_made_again_only_if_something_reads_it() {
    let bench = Bench::new();
    let study = bench.study();
    bench.run(&study);
    let plan = bench.plan(&study, &PlanOptions::default());
    let lock = pipeline::lock::Lock::read(&pipeline::lock::lock_path(&study))
        .unwrap()
        .unwrap();
    let key = lock
        .stages
        .iter()
        .find(|s| s.name == "ladder")
        .unwrap()
        .cells[0]
        .key
        .unwrap();
    let outputs = bench.store.record_for(&key).unwrap().unwrap().outputs;
    let (_, rows) = pipeline::record::parse_outputs(&outputs).unwrap()[0].clone();
    std::fs::remove_file(bench.store.path(&rows.digest)).unwrap();
    assert_eq!(plan.total.cached, 15);
    assert_eq!(
        bench.plan(&study, &PlanOptions::default()).total.cached,
        15,
        "nothing reads it"
    );
    let from = PlanOptions {
        from: Some("results".into()),
        ..PlanOptions::default()
    };
    let (summary, ran) = bench.run_with(
        &study,
        &RunOptions {
            plan: from,
            ..RunOptions::default()
        },
    );
    assert!(
        ran.contains(&"ladder[configuration=batched,clients=1,rep=1]".to_owned()),
        "{ran:?}"
    );
    assert!(summary.is_complete());
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let trail = |jobs: usize| {
        let bench = Bench::new();
        bench.world.quiet.store(true, Ordering::Relaxed);
        let stages = vec![
            stage("source", "fold", &[], &["n", "m"], json!({})),
            stage("below", "fold", &["source"], &["n"], json!({})),
            stage("all", "fold", &["below"], &[], json!({})),
        ];
        let axes = [("n", ints(12)), ("m", texts(&["a", "b", "c"]))];
        let study = experiment(&bench.file(), &axes, &stages);
        let options = RunOptions {
            jobs,
            ..RunOptions::default()
        };
        let (summary, ran) = bench.run_with(&study, &options);
        assert_eq!((summary.is_complete(), ran.len()), (true, 49));
        summary.trail
    };
    assert_eq!(trail(1), trail(7));
}

#[test]
fn a_plan_that_leaves_something_to_execute_is_not_gone_on_with() {
    let bench = Bench::new();
    let (study, registry) = (bench.study(), registry(&bench.world));
    let options = RunOptions::default();
    let (plan, prepared) =
        pipeline::plan_to_run(&study, &registry, &bench.store, &options.plan).unwrap();
    assert!(prepared.is_none(), "{plan:?}");
}

#[test]
fn a_run_that_goes_on_with_its_plan_says_what_a_run_that_plans_says() {
    let bench = Bench::new();
    let (study, registry) = (bench.study(), registry(&bench.world));
    bench.run(&study);
    let (planned, executed) = bench.run(&study);
    assert!(executed.is_empty(), "{executed:?}");
    let lock = std::fs::read(&planned.lock).unwrap();
    let options = RunOptions::default();
    let (_, prepared) =
        pipeline::plan_to_run(&study, &registry, &bench.store, &options.plan).unwrap();
    assert!(prepared.is_some(), "nothing is left to execute");
    // A second plan would not find the reports, and would execute them.
    assert!(!planned.results.is_empty());
    for result in &planned.results {
        bench.store.retire(&result.record).unwrap();
    }
    let gone_on =
        pipeline::run_prepared(prepared, &study, &registry, &bench.store, &options, &|_| ())
            .unwrap();
    assert_eq!(gone_on, planned);
    assert_eq!(std::fs::read(&gone_on.lock).unwrap(), lock);
    assert!(bench.world.take().is_empty(), "no cell executed");
}
