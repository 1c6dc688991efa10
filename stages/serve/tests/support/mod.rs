//! A small test harness. The executables of these tests also forward the hidden exec subcommand,
//! which the default harness would read as the name of a test.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use artifacts::Store;
use pipeline::lease::Leases;
use pipeline::process::{EXEC_COMMAND, exec_child};
use pipeline::{
    Artifact, CellStatus, Content, Control, Coordinates, Done, Failure, Input, InputCell, Job,
    Json, Output, StageKind,
};

/// Runs the tests whose name contains the first argument that is not a flag, or becomes the program
/// that the spawner asks for.
#[expect(
    clippy::print_stdout,
    reason = "a test harness prints which tests it runs"
)]
pub(crate) fn main(tests: &[(&str, fn())]) -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|a| a == EXEC_COMMAND) {
        let Err(error) = exec_child(arguments.into_iter().skip(2));
        println!("{error}");
        return ExitCode::from(127);
    }
    let wanted = arguments
        .iter()
        .skip(1)
        .filter_map(|a| a.to_str())
        .find(|a| !a.starts_with('-'));
    let listing = arguments.iter().any(|a| a == "--list");
    let mut failed = 0;
    for (name, test) in tests
        .iter()
        .filter(|(name, _)| wanted.is_none_or(|w| name.contains(w)))
    {
        if listing {
            println!("{name}: test");
            continue;
        }
        let ok = catch_unwind(AssertUnwindSafe(test)).is_ok();
        println!("test {name} ... {}", if ok { "ok" } else { "FAILED" });
        failed += u8::from(!ok);
    }
    ExitCode::from(failed)
}

/// A store and a scratch folder for a series of cells.
pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) store: Store,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("store")).unwrap();
        Self { folder, store }
    }

    /// Runs one cell of a kind.
    pub(crate) fn run(
        &self,
        kind: &dyn StageKind,
        parameters: &Json,
        inputs: &[Input],
        control: &Control,
    ) -> Result<Done, Failure> {
        let coordinates = Coordinates::default();
        let leases = Leases::new(self.store.root(), "test", kind.name());
        kind.run(&Job {
            experiment: "test",
            stage: kind.name(),
            coordinates: &coordinates,
            parameters,
            seed: 1,
            replicate: &coordinates,
            inputs,
            store: &self.store,
            files: &Default::default(),
            scratch: &self.folder.path().join("scratch").join(kind.name()),
            leases: &leases,
            control,
            study: None,
        })
    }

    /// Stores the outputs of a cell and makes it an input.
    pub(crate) fn input(&self, kind: &str, outputs: &[Output], live: Json) -> Input {
        let outputs = outputs.iter().map(|output| {
            let Content::Bytes(bytes) = &output.content else {
                panic!("not in memory")
            };
            let digest = self.store.put(bytes).unwrap();
            let artifact = Artifact {
                digest,
                media: output.media,
                bytes: bytes.len() as u64,
                rows: None,
            };
            (output.name.clone(), artifact)
        });
        let cell = InputCell {
            coordinates: Coordinates::default(),
            status: CellStatus::Ok,
            reason: None,
            parameters: Json::Null,
            outputs: outputs.collect(),
            record: None,
            live: Some(live),
        };
        Input {
            stage: kind.to_owned(),
            kind: kind.to_owned(),
            needs: Vec::new(),
            cells: vec![cell],
        }
    }

    /// Returns the number of lease files.
    pub(crate) fn leases(&self) -> usize {
        std::fs::read_dir(self.store.root().join("leases")).map_or(0, Iterator::count)
    }
}

/// Returns the text of an output in memory.
pub(crate) fn text(output: &Output) -> String {
    let Content::Bytes(bytes) = &output.content else {
        panic!("not in memory")
    };
    String::from_utf8(bytes.clone()).unwrap()
}

/// Returns a JSON output of a cell.
pub(crate) fn json(done: &Done, name: &str) -> Json {
    serde_json::from_str(&text(
        done.outputs
            .iter()
            .find(|o| o.name == name)
            .expect("an output"),
    ))
    .unwrap()
}
