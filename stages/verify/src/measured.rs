//! Tests gates over really measured rows, from a server with known behaviour.

use artifacts::{Column, Scalar, Store, Table};
use contract::{Api, synthetic};
use load::reference::{Behaviour, Fault, Faults, ReferenceServer};
use load::{
    Arrival, ClosedLoop, Count, Delivery, LoadSpec, Origin, Output, OutputMode, PromptSet,
    PromptSource, Sampling, Target, TimeSpan, Timeouts, Words, Workload, run_load,
};
use pipeline::{Control, Coordinates, Json};

use crate::tests::{broken, every_gate, store, verify};

/// Measures one cell: 2 warm-up and 6 requests of 5 tokens from 2 clients.
fn measure(store: &Store, faults: Faults, configuration: &str, rep: i64) -> pipeline::InputCell {
    let server = ReferenceServer::start(Behaviour {
        faults,
        ..Behaviour::default()
    })
    .unwrap();
    let workload = Workload {
        batch_size: 1,
        description: None,
        prompts: PromptSource::Words(Words {
            length: Count::Fixed(8).into(),
        }),
        drawn_by: Default::default(),
        system: None,
        output: Output {
            tokens: Count::Fixed(5),
            mode: OutputMode::Exact,
            replaces_recorded: false,
        },
        sampling: Sampling::default(),
        sessions: None,
        structured: None,
        tokenizer: None,
        images: None,
        documents: None,
        extra: Default::default(),
    };
    let origin = Origin {
        seed: 7,
        replicate: Coordinates(vec![("rep".to_owned(), Scalar::Int(rep))]),
    };
    let spec = LoadSpec {
        prompts: PromptSet::generate(&workload, &origin, 2, 6).unwrap(),
        workload,
        arrival: Arrival::ClosedLoop(ClosedLoop {
            clients: 2,
            think_time: TimeSpan::default(),
        }),
        delivery: Delivery::Streamed,
        timeouts: Timeouts::default(),
        heartbeat: TimeSpan::seconds(30),
        origin,
        extent: load::Extent::default(),
        files: Default::default(),
        generators: Default::default(),
    };
    let target = Target::new(server.url(), "reference", Api::OpenaiCompletions);
    let result = run_load(&spec, &target, &Control::quiet()).unwrap();
    let facts = Table::new(vec![
        Column::int("expected_requests", [Some(6)]),
        Column::int("warmup_requests", [Some(2)]),
    ]);
    let tables = [
        (
            "requests",
            <contract::Request as contract::Row>::table(&result.requests).unwrap(),
        ),
        (
            "chunks",
            <contract::Chunk as contract::Row>::table(&result.chunks).unwrap(),
        ),
        ("cell", facts.unwrap()),
    ];
    let at = [
        ("configuration", Scalar::Text(configuration.to_owned())),
        ("rep", Scalar::Int(rep)),
    ];
    synthetic::cell(store, &at, Json::Null, &tables).unwrap()
}

fn study(store: &Store, faults: &Faults) -> Vec<pipeline::Input> {
    let mut cells = Vec::new();
    for rep in [1, 2] {
        cells.push(measure(store, Faults::default(), "a", rep));
        cells.push(measure(
            store,
            if rep == 2 {
                faults.clone()
            } else {
                Faults::default()
            },
            "b",
            rep,
        ));
    }
    vec![synthetic::input("ladder", "load", cells)]
}

#[test]
fn rows_of_a_healthy_server_pass_every_gate() {
    let (_folder, store) = store();
    // This test does not judge how late a busy machine lets the client send.
    let mut gates = every_gate();
    gates["gates"]
        .as_array_mut()
        .unwrap()
        .retain(|g| g["gate"] != "client-lag");
    let done = verify(&store, &study(&store, &Faults::default()), &gates);
    assert_eq!(done.warnings, Vec::<String>::new());
}

#[test]
fn a_server_that_refuses_is_caught_by_the_row_status_gate() {
    let (_folder, store) = store();
    let faults = Faults::all(Fault::Status(500));
    let done = verify(&store, &study(&store, &faults), &every_gate());
    let place = Some("configuration=b,rep=2".to_owned());
    assert!(
        broken(&done).contains(&("row-status".to_owned(), place)),
        "{:?}",
        broken(&done)
    );
}
