//! Failures, retries, interrupts, and the resources alive meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pipeline::record::Record;
use pipeline::{CellStatus, Event, Order, RunOptions, RunSummary};
use serde_json::json;

use crate::common::written;
use crate::common::{Bench, experiment, ints, stage, study_axes, study_stages};

const CELL: &str = "ladder[configuration=serial,clients=1,rep=1]";

fn going() -> RunOptions {
    RunOptions {
        keep_going: true,
        jobs: 2,
        ..RunOptions::default()
    }
}

fn fail(bench: &Bench, cell: &str, times: usize, status: CellStatus) {
    bench
        .world
        .fail
        .lock()
        .unwrap()
        .insert(cell.to_owned(), (times, status));
}

fn line(summary: &RunSummary, cell: &str) -> (CellStatus, String) {
    let name =
        |l: &pipeline::LedgerLine| pipeline::place::cell_text(&l.stage, &l.coordinates.to_string());
    let line = summary.ledger.iter().find(|l| name(l) == cell).unwrap();
    (line.status, line.reason.clone().unwrap_or_default())
}

#[test]
fn with_keep_going_a_failed_measurement_is_a_ledger_line_that_later_stages_see() {
    let bench = Bench::new();
    let study = bench.study();
    fail(&bench, CELL, 1, CellStatus::Hung);
    let (summary, ran) = bench.run_with(&study, &going());
    assert_eq!(
        line(&summary, CELL),
        (CellStatus::Hung, "as the test asked".to_owned())
    );
    let evidence = summary
        .ledger
        .iter()
        .find(|l| l.status == CellStatus::Hung)
        .unwrap();
    assert_eq!(
        bench.store.get(&evidence.evidence["log"].digest).unwrap(),
        b"last words"
    );
    assert_eq!(
        (ran.len(), summary.counts["ok"], summary.counts["hung"]),
        (15, 14, 1)
    );
    let report = &summary.results[0].outputs["report"];
    let text = String::from_utf8(bench.store.get(&report.digest).unwrap()).unwrap();
    assert!(
        text.contains("ladder[configuration=serial,clients=1,rep=1] hung"),
        "{text}"
    );
}

#[test]
fn a_failure_is_never_a_cache_hit() {
    let bench = Bench::new();
    let study = bench.study();
    fail(&bench, CELL, 1, CellStatus::Failed);
    bench.run_with(&study, &going());
    let plan = bench.plan(&study, &pipeline::PlanOptions::default());
    let reason = plan
        .reason(written("ladder", "configuration=serial,clients=1,rep=1"))
        .unwrap()
        .to_string();
    assert_eq!(
        reason,
        "the earlier attempt ended as failed: as the test asked"
    );
    let (summary, ran) = bench.run_with(&study, &going());
    assert!(summary.is_complete());
    let expected = [
        "checks[configuration=serial]",
        CELL,
        "machine",
        "report",
        "results",
        "server[configuration=serial]",
    ];
    assert_eq!(ran, expected);
}

#[test]
fn without_keep_going_no_further_cell_starts_and_the_lock_says_so() {
    let bench = Bench::new();
    let study = bench.study();
    fail(
        &bench,
        "server[configuration=serial]",
        1,
        CellStatus::Failed,
    );
    fail(
        &bench,
        "server[configuration=batched]",
        1,
        CellStatus::Failed,
    );
    let (summary, ran) = bench.run(&study);
    assert_eq!(ran.len(), 2, "the machine and one server: {ran:?}");
    assert_eq!(
        (
            summary.counts["ok"],
            summary.counts["failed"],
            summary.counts["skipped"]
        ),
        (1, 1, 13)
    );
    let lock = std::fs::read_to_string(&summary.lock).unwrap();
    assert!(
        lock.contains("not reached: the run stopped when `server["),
        "{lock}"
    );
    bench.world.fail.lock().unwrap().clear();
    assert!(bench.run(&study).0.is_complete());
}

#[test]
fn cells_of_a_failed_server_are_skipped_with_its_reason() {
    let bench = Bench::new();
    let study = bench.study();
    fail(
        &bench,
        "server[configuration=serial]",
        1,
        CellStatus::Failed,
    );
    let (summary, _) = bench.run_with(&study, &going());
    let expected = "`server[configuration=serial]` is failed: as the test asked".to_owned();
    assert_eq!(line(&summary, CELL), (CellStatus::Skipped, expected));
    // These checks join one server, which failed; the results see that half is missing.
    assert_eq!(
        line(&summary, "checks[configuration=serial]").0,
        CellStatus::Skipped
    );
    assert_eq!(line(&summary, "results").0, CellStatus::Ok);
}

#[test]
fn a_fan_in_without_any_ok_input_is_skipped() {
    let bench = Bench::new();
    let stages = vec![
        stage("ladder", "measure", &[], &["rep"], json!({})),
        stage("results", "fold", &["ladder"], &[], json!({})),
    ];
    let study = experiment(&bench.file(), &[("rep", ints(2))], &stages);
    fail(&bench, "ladder[rep=1]", 1, CellStatus::Failed);
    fail(&bench, "ladder[rep=2]", 1, CellStatus::Timeout);
    let (summary, _) = bench.run_with(&study, &going());
    assert_eq!(
        line(&summary, "results"),
        (CellStatus::Skipped, "no cell of `ladder` is ok".to_owned())
    );
}

#[test]
fn retries_keep_the_evidence_of_every_attempt() {
    let bench = Bench::new();
    let mut stages = study_stages();
    stages[2].retries = 2;
    let study = experiment(&bench.file(), &study_axes(), &stages);
    fail(&bench, CELL, 2, CellStatus::Timeout);
    let (summary, _) = bench.run(&study);
    assert!(summary.is_complete());
    let lock = pipeline::lock::Lock::read(&summary.lock).unwrap().unwrap();
    let ladder = lock.stages.iter().find(|s| s.name == "ladder").unwrap();
    let cell = ladder
        .cells
        .iter()
        .find(|c| CELL.contains(&c.coordinates))
        .unwrap();
    let record = Record::parse(&bench.store.get(&cell.record.unwrap()).unwrap()).unwrap();
    let statuses: Vec<CellStatus> = record.attempts.iter().map(|a| a.status).collect();
    assert_eq!(
        statuses,
        [CellStatus::Timeout, CellStatus::Timeout, CellStatus::Ok]
    );
    assert!(record.attempts[0].evidence.contains_key("log"));
    assert_eq!(
        record.recipe.key(),
        cell.key.unwrap(),
        "the quick way to a key and the recipe agree"
    );
}

#[test]
fn a_machine_that_is_taken_away_ends_the_cell_under_way() {
    let bench = Bench::new();
    let study = experiment(&bench.file(), &study_axes(), &study_stages());
    *bench.world.waits_without_machine.lock().unwrap() = Some(CELL.to_owned());
    let (summary, _) = bench.run_with(&study, &going());
    let (status, reason) = line(&summary, CELL);
    assert_eq!(status, CellStatus::Failed);
    assert!(
        reason.contains("died during the cell: its machine was taken away"),
        "{reason}"
    );
}

#[test]
fn a_server_that_dies_during_a_cell_fails_it_although_the_cell_itself_ended_well() {
    let bench = Bench::new();
    let mut stages = study_stages();
    let study = experiment(&bench.file(), &study_axes(), &stages);
    *bench.world.dies_beside.lock().unwrap() = Some(CELL.to_owned());
    let (summary, _) = bench.run_with(&study, &going());
    let (status, reason) = line(&summary, CELL);
    assert_eq!(status, CellStatus::Failed);
    assert!(
        reason.contains("died during the cell: it ended"),
        "{reason}"
    );
    let log = summary.ledger.iter().find_map(|l| l.evidence.get("log"));
    let log = bench
        .store
        .get(&log.expect("the log of the server").digest)
        .unwrap();
    assert_eq!(log, b"out of memory");

    // With retries, the server is started again and the cell is measured again.
    stages[2].retries = 1;
    let study = experiment(&bench.file(), &study_axes(), &stages);
    *bench.world.dies_beside.lock().unwrap() = Some(CELL.to_owned());
    let (summary, _) = bench.run_with(&study, &going());
    assert!(summary.is_complete(), "{:?}", summary.counts);
    let lock = pipeline::lock::Lock::read(&summary.lock).unwrap().unwrap();
    let cells = lock.stages.iter().flat_map(|s| &s.cells);
    let records = cells.filter_map(|c| c.record);
    let records = records.map(|r| Record::parse(&bench.store.get(&r).unwrap()));
    let tried: Vec<usize> = records.map(|r| r.unwrap().attempts.len()).collect();
    assert_eq!(tried.iter().max(), Some(&2));
}

#[test]
fn a_cell_that_fails_because_its_server_died_says_how_the_server_ended() {
    let bench = Bench::new();
    fail(&bench, CELL, 1, CellStatus::Failed);
    *bench.world.dies_beside.lock().unwrap() = Some(CELL.to_owned());
    let (summary, _) = bench.run_with(&bench.study(), &going());
    let (status, reason) = line(&summary, CELL);
    assert_eq!(status, CellStatus::Failed);
    assert!(
        reason.contains("died during the cell: it ended") && reason.contains("as the test asked"),
        "{reason}"
    );
}

#[test]
fn every_record_holds_the_recipe_that_its_key_is_made_of() {
    let bench = Bench::new();
    fail(&bench, CELL, 1, CellStatus::Failed);
    let (summary, _) = bench.run_with(&bench.study(), &going());
    let lock = pipeline::lock::Lock::read(&summary.lock).unwrap().unwrap();
    let mut seen = 0;
    for cell in lock.stages.iter().flat_map(|s| &s.cells) {
        let record = Record::parse(&bench.store.get(&cell.record.unwrap()).unwrap()).unwrap();
        assert_eq!(Some(record.recipe.key()), cell.key, "{}", cell.coordinates);
        seen += 1;
    }
    assert_eq!(seen, 15);
}

#[test]
fn the_record_of_a_failed_cell_keeps_what_was_observed_and_doubted() {
    let bench = Bench::new();
    fail(&bench, CELL, 1, CellStatus::Hung);
    let (summary, _) = bench.run_with(&bench.study(), &going());
    let lock = pipeline::lock::Lock::read(&summary.lock).unwrap().unwrap();
    let ladder = lock.stages.iter().find(|s| s.name == "ladder").unwrap();
    let cell = ladder
        .cells
        .iter()
        .find(|c| CELL.contains(&c.coordinates))
        .unwrap();
    let record = Record::parse(&bench.store.get(&cell.record.unwrap()).unwrap()).unwrap();
    assert_eq!(record.status, CellStatus::Hung);
    assert_eq!(record.observations["seen"], 3);
    assert_eq!(record.warnings, ["it was slow"]);
}

#[test]
fn a_panic_of_a_kind_is_a_failed_cell() {
    let bench = Bench::new();
    bench.world.panic.lock().unwrap().push("results".into());
    let (summary, _) = bench.run_with(&bench.study(), &going());
    let (status, reason) = line(&summary, "results");
    assert_eq!(status, CellStatus::Failed);
    assert!(
        reason.contains("the stage kind `fold` panicked: as the test asked"),
        "{reason}"
    );
}

#[test]
fn an_interrupt_ends_the_cell_in_flight_and_a_later_run_completes() {
    let bench = Bench::new();
    let study = bench.study();
    let cancelled = Arc::new(AtomicBool::new(false));
    *bench.world.stop_at.lock().unwrap() = Some((CELL.to_owned(), cancelled.clone()));
    let options = RunOptions {
        cancelled,
        jobs: 1,
        ..RunOptions::default()
    };
    let (summary, before) = bench.run_with(&study, &options);
    assert!(summary.interrupted);
    assert_eq!(line(&summary, CELL).0, CellStatus::Interrupted);
    assert_eq!(line(&summary, "report").0, CellStatus::Skipped);
    *bench.world.stop_at.lock().unwrap() = None;
    let (summary, after) = bench.run(&study);
    assert!(summary.is_complete());
    let again = before
        .iter()
        .filter(|c| c.starts_with("ladder") && after.contains(c))
        .count();
    assert_eq!(again, 1, "only the cell in flight runs again");
}

#[test]
fn servers_are_started_once_each_and_never_side_by_side() {
    let bench = Bench::new();
    let (summary, _) = bench.run(&bench.study());
    assert_eq!(summary.resource_starts, 3, "the machine and two servers");
    assert_eq!(
        bench.world.most_alive.load(Ordering::Relaxed),
        2,
        "the machine and one server"
    );
    let events = bench.events.lock().unwrap();
    let count = |pick: fn(&Event) -> bool| events.iter().filter(|e| pick(e)).count();
    assert_eq!(count(|e| matches!(e, Event::ResourceReleased { .. })), 3);
    assert_eq!(count(|e| matches!(e, Event::CellProgress { .. })), 8);
}

#[test]
fn the_order_of_measurements_within_a_server_is_shuffled_by_the_seed_or_that_declared() {
    let executed = |seed: u64, order: Order| {
        let bench = Bench::new();
        let mut study = bench.study();
        (study.seed, study.order) = (seed, order);
        let listen = |_: &Event| ();
        let registry = crate::common::registry(&bench.world);
        pipeline::run(
            &study,
            &registry,
            &bench.store,
            &RunOptions::default(),
            &listen,
        )
        .unwrap();
        let order = bench.world.order.lock().unwrap().clone();
        order
            .into_iter()
            .filter(|c| c.starts_with("ladder"))
            .collect::<Vec<_>>()
    };
    let declared = |seed: u64| executed(seed, Order::Declared);
    let order = |seed: u64| executed(seed, Order::Shuffled);
    let first = order(1);
    assert_eq!(first, order(1));
    assert!((2..6).any(|seed| order(seed) != first));
    let mut sorted = first.clone();
    sorted.sort();
    assert_eq!((declared(1), declared(2)), (sorted.clone(), sorted));
    let servers: Vec<bool> = first.iter().map(|c| c.contains("serial")).collect();
    assert!(
        servers[..4].iter().all(|s| *s == servers[0])
            && servers[4..].iter().all(|s| *s != servers[0])
    );
}

#[test]
fn a_server_that_comes_up_differently_has_its_dependants_planned_again() {
    let bench = Bench::new();
    let study = bench.study();
    fail(&bench, CELL, 1, CellStatus::Failed);
    bench.run_with(&study, &going());
    bench.world.drift.lock().unwrap().insert(
        "server[configuration=serial]".into(),
        json!("engine updated itself"),
    );
    let (summary, ran) = bench.run_with(&study, &going());
    assert!(summary.is_complete(), "{:?}", summary.ledger);
    // The one missing cell needed the server; now all four cells of that server are measured again.
    assert_eq!(
        ran.iter().filter(|c| c.starts_with("ladder")).count(),
        4,
        "{ran:?}"
    );
    assert!(
        bench
            .events
            .lock()
            .unwrap()
            .iter()
            .any(|e| matches!(e, Event::Replanned { .. }))
    );
    assert_eq!(bench.run(&study).1, Vec::<String>::new());
}

#[test]
fn a_cached_server_that_no_longer_starts_fails_one_cell_and_skips_the_others() {
    let bench = Bench::new();
    let study = bench.study();
    fail(&bench, CELL, 1, CellStatus::Failed);
    fail(
        &bench,
        "ladder[configuration=serial,clients=2,rep=1]",
        1,
        CellStatus::Failed,
    );
    bench.run_with(&study, &going());
    fail(
        &bench,
        "server[configuration=serial]",
        1,
        CellStatus::Failed,
    );
    let (summary, _) = bench.run_with(&study, &going());
    assert_eq!(summary.counts["failed"], 1);
    assert_eq!(summary.counts["skipped"], 1);
    assert_eq!(
        line(&summary, "server[configuration=serial]").0,
        CellStatus::Ok
    );
    let reasons: Vec<&str> = summary
        .ledger
        .iter()
        .filter_map(|l| l.reason.as_deref())
        .collect();
    assert!(
        reasons
            .iter()
            .all(|r| *r == "`server[configuration=serial]` did not start: as the test asked")
    );
    assert!(bench.run(&study).0.is_complete());
}

#[test]
fn nothing_is_left_in_scratch_and_leases() {
    let bench = Bench::new();
    bench.run(&bench.study());
    for folder in ["scratch", "leases"] {
        let left = std::fs::read_dir(bench.store.root().join(folder)).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{folder}");
    }
}

#[test]
fn two_runs_that_measure_on_one_host_wait_for_each_other() {
    let bench = Bench::new();
    let locks = bench.store.root().join("locks");
    std::fs::create_dir_all(&locks).unwrap();
    let other = std::fs::File::create(locks.join("host.lock")).unwrap();
    other.lock().unwrap();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| bench.run(&bench.study()).0);
        while !bench
            .events
            .lock()
            .unwrap()
            .iter()
            .any(|e| matches!(e, Event::Waiting { .. }))
        {
            std::thread::yield_now();
        }
        assert!(
            !bench
                .world
                .order
                .lock()
                .unwrap()
                .iter()
                .any(|c| c.starts_with("server"))
        );
        other.unlock().unwrap();
        assert!(run.join().unwrap().is_complete());
    });
}

#[test]
fn a_run_that_waited_for_another_knows_the_logs_that_the_others_servers_left() {
    let bench = Bench::new();
    bench.world.slow_ms.store(20, Ordering::Relaxed);
    let measured = |e: &Event| matches!(e, Event::CellEnded { stage, .. } if stage == "ladder");
    let (first, second) = std::thread::scope(|scope| {
        let run = || bench.run_beside_another(&bench.study(), &RunOptions::default());
        let first = scope.spawn(run);
        while !bench.events.lock().unwrap().iter().any(measured) {
            std::thread::yield_now();
        }
        let second = run();
        (first.join().unwrap(), second)
    });
    for summary in [first, second] {
        let lock = summary.locked.expect("something is ok");
        let mut stages = lock.stages.iter().filter(|s| s.name == "server");
        let lines = stages.next().expect("a stage").cells.iter();
        let records: Vec<_> = lines.filter_map(|line| line.record).collect();
        assert_eq!(records.len(), 2);
        for record in records {
            let record = Record::parse(&bench.store.get(&record).unwrap()).unwrap();
            assert!(record.evidence.contains_key("log"), "{record:?}");
        }
    }
}

#[test]
fn a_run_in_which_nothing_is_ok_leaves_an_earlier_lock_as_it_was() {
    let bench = Bench::new();
    let mut study = bench.study();
    bench.run(&study);
    let lock = bench.file().with_extension("lock");
    let before = std::fs::read(&lock).unwrap();
    // Another machine: its facts are not cached and cannot be determined.
    study.stages.raw[0].parameter_sets[0]["engine"] = json!("another");
    fail(&bench, "machine", 1, CellStatus::Failed);
    let (summary, _) = bench.run(&study);
    assert!(!summary.counts.contains_key("ok"), "{:?}", summary.counts);
    assert!(!summary.lock_written);
    assert_eq!(std::fs::read(&lock).unwrap(), before);
    // Once any cell is ok, the lock is written.
    let (summary, _) = bench.run(&study);
    assert!(summary.lock_written && summary.counts["ok"] > 0);
}
