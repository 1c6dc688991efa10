//! The growing study, and the parts of the bench that work on it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use artifacts::{Digest, Maker, Store};
use cluster::{Asked, Cluster, Work};
use pipeline::lock::{Lock, lock_path};
use pipeline::{
    Class, Experiment, NoFiles, Options, Permit, PlanOptions, RunOptions, load_text, shards,
};
use remote::Remote;

use crate::kinds::{registry, registry_of_machines};
use crate::stand_in;

/// How large a study is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Launches that differ in more than their replicate.
    pub(crate) configurations: usize,
    /// Replicates of each configuration.
    pub(crate) replicates: usize,
    /// Measured cells of a launch.
    pub(crate) of_launch: usize,
    /// Machines: the jobs that Slurm has at once.
    pub(crate) machines: usize,
    /// At each look of the coordinator, one in every `pace` running jobs finishes a cell.
    pub(crate) pace: usize,
}

impl Size {
    pub(crate) fn launches(self) -> usize {
        self.configurations * self.replicates
    }

    pub(crate) fn measured(self) -> usize {
        self.launches() * self.of_launch
    }

    /// Parses a word that [`Size::word`] wrote.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        let numbers: Result<Vec<usize>, _> = word.split('x').map(str::parse).collect();
        let [configurations, replicates, of_launch, machines, pace] = *numbers.ok()? else {
            return None;
        };
        Some(Self {
            configurations,
            replicates,
            of_launch,
            machines,
            pace,
        })
    }

    fn word(self) -> String {
        let Self {
            configurations,
            replicates,
            of_launch,
            machines,
            pace,
        } = self;
        format!("{configurations}x{replicates}x{of_launch}x{machines}x{pace}")
    }
}

/// Returns the command that starts this program again for one part. The part then has its own memory and processor
/// time, and finds the stand-in on its search path.
pub(crate) fn again(part: &str, folder: &Path, size: Size) -> Command {
    let mut again = Command::new(std::env::current_exe().expect("our own path"));
    again
        .arg(part)
        .arg(folder)
        .arg(size.word())
        .env("PATH", search_path(folder))
        .env(stand_in::FOLDER, folder);
    again
}

/// Returns the search path with the stand-in first.
#[expect(
    clippy::disallowed_methods,
    reason = "the stand-in must come first on the search path"
)]
fn search_path(folder: &Path) -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(stand_in::programs(folder));
    let path = std::env::join_paths(folders.chain(std::env::split_paths(&path)));
    path.expect("plain paths")
}

/// The study: some measurements on each launch, and one table of all of them.
pub(crate) fn study(folder: &Path, size: Size) -> Experiment {
    let Size {
        configurations,
        replicates,
        of_launch,
        machines,
        ..
    } = size;
    let text = format!(
        "experiment: growth
seed: 164
axes:
  configuration: {{from: 1, to: {configurations}}}
  clients: {{from: 1, to: {of_launch}}}
  rep: {{from: 1, to: {replicates}}}
stages:
  server: {{kind: launch, over: [configuration, rep], slots: \"${{configuration}}\", place: {machines}}}
  ladder:
    kind: measure
    needs: [server]
    over: [configuration, clients, rep]
    clients: \"${{clients}}\"
    sample: \"${{rep}}\"
  results: {{kind: count, needs: [ladder]}}
"
    );
    let file = folder.join("study.yaml");
    load_text(&text, &file, &registry(), &Options::default(), &NoFiles)
        .unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn me() -> Maker {
    Maker {
        host: Some("login".to_owned()),
        by: Some("growth".to_owned()),
        started: None,
    }
}

fn shared(folder: &Path) -> Remote {
    Remote::open_or_create(&folder.join("shared").to_string_lossy()).expect("a shared store")
}

/// Executes every cell, so that the simulated machines have records to report. Their store is also the shared one.
pub(crate) fn measure_beforehand(folder: &Path, size: Size) {
    stand_in::install(folder, size.pace);
    let mut experiment = study(folder, size);
    experiment.forget_placements();
    // The executor runs measurements one at a time, which takes long and is not the subject here. No key contains a
    // class.
    for stage in &mut experiment.stages {
        stage.class = Class::Pure;
    }
    experiment.stages.pop();
    experiment.file = folder.join("machines").join("study.yaml");
    fs::create_dir_all(folder.join("machines")).expect("a folder");
    let store = Store::open(&folder.join("machines/store")).expect("a store");
    let options = RunOptions {
        jobs: 2,
        ..RunOptions::default()
    };
    let registry = registry_of_machines();
    pipeline::run(&experiment, &registry, &store, &options, &|_| ()).expect("it goes through");
    let lock = Lock::read(&lock_path(&experiment)).expect("a lock");
    // Objects have the same names in every store, and nothing reads those of the machines again.
    drop(shared(folder));
    let objects = folder.join("shared/objects");
    fs::rename(folder.join("machines/store/objects"), objects).expect("the same file system");
    let mut digests: BTreeMap<String, Digest> = BTreeMap::new();
    for stage in &lock.expect("a lock").stages {
        for cell in &stage.cells {
            let record = cell.record.expect("it is ok");
            digests.insert(stand_in::cell_name(&stage.name, &cell.coordinates), record);
        }
    }
    stand_in::keep_records(folder, &digests);
}

/// Plans the study first as `plan` does, then as the coordinator does; calls `mark` after each.
pub(crate) fn plan(folder: &Path, size: Size, mark: &mut dyn FnMut(&'static str)) {
    let experiment = study(folder, size);
    mark("read");
    let registry = registry();
    let store = Store::open(&folder.join("store")).expect("a store");
    let plan = pipeline::plan(&experiment, &registry, &store, &PlanOptions::default());
    assert_eq!(plan.expect("a plan").cells.len(), experiment.cell_count());
    mark("plan");
    let shards = shards(&experiment, &registry, &store, &PlanOptions::default());
    assert_eq!(shards.expect("shards").len(), size.launches());
    mark("find the launches");
}

/// Executes the study with the stand-in and the simulated machines, and takes in their records. Returns the
/// coordinator's work, and the number of bytes that it read from its store.
pub(crate) fn account(
    folder: &Path,
    size: Size,
    mark: &mut dyn FnMut(&'static str),
) -> (Work, u64) {
    let experiment = study(folder, size);
    mark("read");
    let registry = registry();
    let store = Store::open(&folder.join("store")).expect("a store");
    let remote = shared(folder);
    let asked = Asked {
        experiment: &experiment,
        registry: &registry,
        store: &store,
        remote: &remote,
        options: PlanOptions::default(),
        permit: Permit::default(),
        me: me(),
        by: None,
        keep_going: false,
        cancelled: &AtomicBool::new(false),
        tell: &|_| (),
        binary: std::env::current_exe().expect("our own path"),
        path: search_path(folder),
    };
    let cluster = Cluster::open(asked).expect("it opens");
    mark("begin");
    let came = cluster
        .expect("something to do")
        .run()
        .expect("it goes through");
    mark("coordinate");
    assert!(came.elsewhere.failures.is_empty(), "no cell failed");
    assert_eq!(
        came.elsewhere.records.len(),
        size.measured() + size.launches()
    );
    let read = store.bytes_read();
    let options = RunOptions {
        plan: PlanOptions {
            elsewhere: Some(came.elsewhere.clone()),
            ..PlanOptions::default()
        },
        ..RunOptions::default()
    };
    let ran = pipeline::run(&experiment, &registry, &store, &options, &|_| ());
    assert_eq!(ran.expect("it goes through").executed, 1, "the table");
    let work = came.work;
    came.close().expect("nothing is left");
    mark("finish");
    (work, read)
}
