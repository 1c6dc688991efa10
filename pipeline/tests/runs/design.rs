//! Blocks, launches and the A/A arm: what executes, in which order, and what stays cached.

use std::collections::BTreeMap;

use pipeline::design::Place;
use pipeline::record::Record;
use pipeline::{Event, Experiment, NoFiles, Options, load_text};

use crate::common::{Bench, registry};

const STUDY: &str = "
experiment: study
seed: 7
design:
  blocks: 3
axes:
  configuration: {batched: {slots: 8}, serial: {slots: 1}}
  clients: [1, 2]
stages:
  machine: {kind: prepare}
  server:
    kind: serve
    needs: [machine]
    over: [configuration]
    exclusive: [host]
    slots: ${configuration.slots}
  ladder:
    kind: measure
    needs: [server]
    over: [configuration, clients]
    clients: ${clients}
  checks: {kind: fold, needs: [ladder], over: [configuration]}
  results: {kind: fold, needs: [ladder, checks]}
  report: {kind: tell, needs: [results]}
";

const ARM: &str = "  control: {axis: configuration, label: serial, as: serial-again}\n";

fn study(bench: &Bench, text: &str) -> Experiment {
    let options = Options::default();
    let registry = registry(&bench.world);
    load_text(text, &bench.file(), &registry, &options, &NoFiles).unwrap_or_else(|e| panic!("{e}"))
}

fn with(keys: &str) -> String {
    STUDY.replace("  blocks: 3\n", keys)
}

/// Runs, and returns launches and measurements in execution order.
fn order(bench: &Bench, text: &str) -> Vec<String> {
    bench.world.order.lock().unwrap().clear();
    let experiment = study(bench, text);
    let registry = registry(&bench.world);
    let options = pipeline::RunOptions::default();
    let listen = |event: &Event| bench.events.lock().unwrap().push(event.clone());
    let summary = pipeline::run(&experiment, &registry, &bench.store, &options, &listen).unwrap();
    assert!(summary.is_complete(), "{:?}", summary.ledger);
    let order = bench.world.order.lock().unwrap().clone();
    let of_design = |cell: &String| cell.starts_with("server") || cell.starts_with("ladder");
    order.into_iter().filter(of_design).collect()
}

fn measured(order: &[String]) -> usize {
    order
        .iter()
        .filter(|cell| cell.starts_with("ladder"))
        .count()
}

/// Returns the launches named by servers: `block=1,configuration=serial`.
fn launches(order: &[String]) -> Vec<&str> {
    let servers = order.iter().filter_map(|cell| cell.strip_prefix("server["));
    servers.map(|rest| rest.trim_end_matches(']')).collect()
}

#[test]
fn each_block_launches_each_configuration_once_and_measures_all_of_a_launch_together() {
    let bench = Bench::new();
    let text = with(&format!("  blocks: 3\n{ARM}"));
    let done = order(&bench, &text);
    let experiment = study(&bench, &text);
    let expected: Vec<String> = (0..3)
        .flat_map(|block| {
            let sequence = experiment.spec["design"]["sequence"][block]
                .as_array()
                .unwrap();
            let names = sequence
                .iter()
                .map(|launch| launch.as_str().unwrap().to_owned());
            names.map(move |launch| format!("block={},{launch}", block + 1))
        })
        .collect();
    assert_eq!(launches(&done), expected);
    assert_eq!((done.len(), measured(&done)), (27, 18));
    for launch in done.chunks(3) {
        let coordinates = launch[0]
            .strip_prefix("server[")
            .unwrap()
            .trim_end_matches(']');
        let measured = |cell: &String| cell.starts_with(&format!("ladder[{coordinates},"));
        assert!(launch[1..].iter().all(measured), "{launch:?}");
    }
    assert_eq!(order(&bench, &text), Vec::<String>::new());
}

#[test]
fn orders_are_those_asked_for() {
    let launched = |keys: &str| -> Vec<Vec<String>> {
        let bench = Bench::new();
        let done = order(&bench, &with(keys));
        let all = launches(&done);
        all.chunks(2)
            .map(|block| {
                block
                    .iter()
                    .map(|l| l.rsplit_once('=').unwrap().1.to_owned())
                    .collect()
            })
            .collect()
    };
    let (there, back) = (["batched", "serial"], ["serial", "batched"]);
    assert_eq!(
        launched("  blocks: 3\n  order: declared\n"),
        [there, there, there]
    );
    assert_eq!(
        launched("  blocks: 3\n  order: abba\n"),
        [there, back, there]
    );
    let square = launched("  blocks: 2\n  order: latin-square\n");
    assert_ne!(square[0], square[1]);
    let random = launched("  blocks: 8\n");
    assert!(random.contains(&there.map(str::to_owned).to_vec()));
    assert!(random.contains(&back.map(str::to_owned).to_vec()));
}

#[test]
fn further_blocks_another_order_and_an_arm_leave_what_was_measured() {
    let bench = Bench::new();
    assert_eq!(measured(&order(&bench, STUDY)), 12);
    let more = order(&bench, &with("  blocks: 5\n"));
    assert_eq!(measured(&more), 8, "{more:?}");
    assert!(
        more.iter()
            .all(|c| c.contains("block=4") || c.contains("block=5")),
        "{more:?}"
    );
    let another = order(&bench, &with("  blocks: 5\n  order: abba\n  noise: 3 %\n"));
    assert_eq!(another, Vec::<String>::new());
    let arm = order(&bench, &with(&format!("  blocks: 5\n{ARM}")));
    assert_eq!((arm.len(), measured(&arm)), (15, 10), "{arm:?}");
    assert!(
        arm.iter().all(|cell| cell.contains("serial-again")),
        "{arm:?}"
    );
    assert_eq!(order(&bench, STUDY), Vec::<String>::new());
}

#[test]
fn a_launch_that_is_resumed_starts_its_server_again_and_measures_only_what_is_missing() {
    let bench = Bench::new();
    let failing = "ladder[block=2,configuration=serial,clients=2]";
    bench
        .world
        .fail
        .lock()
        .unwrap()
        .insert(failing.to_owned(), (1, pipeline::CellStatus::Failed));
    let experiment = study(&bench, STUDY);
    let options = pipeline::RunOptions {
        keep_going: true,
        ..pipeline::RunOptions::default()
    };
    let (summary, _) = bench.run_with(&experiment, &options);
    assert!(!summary.is_complete());
    let again = order(&bench, STUDY);
    assert_eq!(again, ["server[block=2,configuration=serial]", failing]);
}

#[test]
fn records_say_where_the_design_put_a_cell() {
    let bench = Bench::new();
    let done = order(&bench, STUDY);
    let lock = pipeline::lock::Lock::read(&pipeline::lock::lock_path(&study(&bench, STUDY)));
    let lock = lock.unwrap().unwrap();
    let places: BTreeMap<String, Place> = lock
        .stages
        .iter()
        .filter(|stage| ["server", "ladder"].contains(&stage.name.as_str()))
        .flat_map(|stage| stage.cells.iter().map(move |cell| (stage, cell)))
        .map(|(stage, cell)| {
            let bytes = bench.store.get(&cell.record.unwrap()).unwrap();
            let record = Record::parse(&bytes).unwrap();
            (
                format!("{}[{}]", stage.name, cell.coordinates),
                record.place.unwrap(),
            )
        })
        .collect();
    for (i, launch) in done.chunks(3).enumerate() {
        for (position, cell) in launch.iter().enumerate() {
            let place = &places[cell];
            assert_eq!((place.block, place.place), (i / 2 + 1, i % 2 + 1), "{cell}");
            assert_eq!(
                (place.launches, place.position),
                (i + 1, position),
                "{cell}"
            );
            assert!(cell.contains(&place.launch), "{cell}");
        }
    }
}

#[test]
fn the_machine_works_before_the_first_launch_and_rests_between_launches() {
    let bench = Bench::new();
    order(
        &bench,
        &with("  blocks: 2\n  warm-up: 1 ms\n  cool-down: 2 ms\n"),
    );
    let events = bench.events.lock().unwrap();
    let messages: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            Event::Resting {
                rest: pipeline::event::Rest::WarmUp,
                ..
            } => Some("warm"),
            Event::Resting { .. } => Some("rest"),
            Event::ResourceStarted { cell } if cell.starts_with("server") => Some("launch"),
            _ => None,
        })
        .collect();
    let expected = [
        "warm", "launch", "rest", "launch", "rest", "launch", "rest", "launch",
    ];
    assert_eq!(messages, expected);
}

#[test]
fn a_change_of_one_configuration_measures_its_launches_again_in_every_block() {
    let bench = Bench::new();
    order(&bench, STUDY);
    let changed = order(&bench, &STUDY.replace("slots: 8", "slots: 4"));
    assert_eq!((changed.len(), measured(&changed)), (9, 6), "{changed:?}");
    assert!(
        changed.iter().all(|cell| cell.contains("batched")),
        "{changed:?}"
    );
}

/// Returns a study with a rule that ends blocks: at least 3, at most 8.
fn until(half_width: &str) -> String {
    let rule = format!("{{relative-half-width: {half_width}, of: speed, at-most: 8 blocks}}");
    with(&format!("  blocks: 3\n  until: {rule}\n"))
}

#[test]
fn blocks_go_on_until_the_figure_is_known_and_the_rest_is_not_needed() {
    let bench = Bench::new();
    // The logarithms of 100.2, 100.4, 100.1 and 100.3 have a standard deviation of 0.00129: ± 0.42 % after four blocks,
    // by the anytime t of 6.54, and ± 1.2 % after three.
    let done = order(&bench, &until("0.5 %"));
    assert_eq!((launches(&done).len(), measured(&done)), (8, 16));
    assert!(
        done.iter().all(|cell| !cell.contains("block=5")),
        "{done:?}"
    );
    // A decided study stays decided.
    assert_eq!(order(&bench, &until("0.5 %")), Vec::<String>::new());
    let experiment = study(&bench, &until("0.5 %"));
    let registry = registry(&bench.world);
    let plan = pipeline::plan(&experiment, &registry, &bench.store, &Default::default()).unwrap();
    assert_eq!((plan.total.run, plan.total.excluded), (0, 24));
    let left_out = plan.cells.iter().find_map(|cell| match &cell.decision {
        pipeline::Decision::Excluded { reason } => Some(reason.clone()),
        _ => None,
    });
    assert_eq!(
        left_out.unwrap(),
        "not needed: after 4 blocks `speed` of every launch is known to ± 0.4 %, within 0.5 %"
    );
    // A stricter rule measures only the additional blocks it needs.
    let more = order(&bench, &until("0.3 %"));
    assert_eq!((launches(&more).len(), measured(&more)), (4, 8));
    assert!(
        more.iter()
            .all(|cell| cell.contains("block=5") || cell.contains("block=6"))
    );
    // A rule that is never met ends with the last block.
    let rest = order(&bench, &until("0.01 %"));
    assert_eq!((launches(&rest).len(), measured(&rest)), (4, 8));
}

#[test]
fn stages_that_test_know_that_the_study_looks_after_each_block() {
    let bench = Bench::new();
    let looks = |text: &str| {
        let experiment = study(&bench, text);
        let results = experiment.stages.iter().find(|s| s.name == "results");
        results.unwrap().parameter_sets[0]["looks"].clone()
    };
    assert_eq!(looks(&until("0.5 %")), "repeated");
    assert!(looks(STUDY).is_null());
}
