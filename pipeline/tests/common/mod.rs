//! Synthetic experiments, and stage kinds that count what they do.

#![allow(
    dead_code,
    unused_imports,
    reason = "several test binaries share this module, and each uses a part"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use artifacts::{Scalar, Store};
use pipeline::lease::LeaseFile;
use pipeline::place::{WrittenCell, cell_text};
use pipeline::process::Spawner;
use pipeline::{
    Artifact, Axis, AxisId, Cell, CellStatus, Class, Coordinates, Done, Event, Excluded,
    Experiment, Failure, Job, Json, Lease, Library, Media, Order, Output, PlanOptions, Problem,
    Registry, Reuse, RunOptions, RunSummary, Stage, StageKind, Watch,
};
use serde_json::json;

/// The state that a test's kinds share: what to do, and what was done.
#[derive(Default)]
pub(crate) struct World {
    /// The number of executions of each cell.
    pub(crate) runs: Mutex<BTreeMap<String, usize>>,
    /// The execution order.
    pub(crate) order: Mutex<Vec<String>>,
    /// Cells that will fail this many more times, and how.
    pub(crate) fail: Mutex<BTreeMap<String, (usize, CellStatus)>>,
    /// Cells that panic.
    pub(crate) panic: Mutex<Vec<String>>,
    /// The machine's facets.
    pub(crate) facets: Mutex<BTreeMap<String, Json>>,
    /// The number of live resources.
    pub(crate) alive: Arc<AtomicUsize>,
    /// The most resources of one kind that were alive at once.
    pub(crate) most_alive: AtomicUsize,
    /// Added to the servers' descriptors.
    pub(crate) drift: Mutex<BTreeMap<String, Json>>,
    /// The semantic version of the pure kind.
    pub(crate) version: AtomicU32,
    /// Makes measurements differ.
    pub(crate) noise: AtomicUsize,
    /// The duration of a measurement, in milliseconds.
    pub(crate) slow_ms: AtomicUsize,
    /// Whether measurements give the same bytes each time, to make runs comparable.
    pub(crate) quiet: AtomicBool,
    /// If set, servers start a real process with it.
    pub(crate) spawner: Mutex<Option<Spawner>>,
    /// Set when a measurement of this cell starts.
    pub(crate) stop_at: Mutex<Option<(String, Arc<AtomicBool>)>>,
    /// The measurement during which the server dies, once.
    pub(crate) dies_beside: Mutex<Option<String>>,
    /// Whether the server has died since it started.
    pub(crate) died: Arc<AtomicBool>,
    /// The cell that takes the server's machine away and then waits until it must stop.
    pub(crate) waits_without_machine: Mutex<Option<String>>,
    /// Whether the server's machine has been taken away.
    pub(crate) taken: Arc<AtomicBool>,
}

impl World {
    fn enter(&self, job: &Job<'_>) -> Result<(), Failure> {
        let name = cell_text(job.stage, &job.coordinates.to_string());
        *self.runs.lock().unwrap().entry(name.clone()).or_default() += 1;
        self.order.lock().unwrap().push(name.clone());
        assert!(
            !self.panic.lock().unwrap().contains(&name),
            "as the test asked"
        );
        if self
            .dies_beside
            .lock()
            .unwrap()
            .take_if(|cell| *cell == name)
            .is_some()
        {
            self.died.store(true, Ordering::Relaxed);
        }
        if let Some((left, status)) = self.fail.lock().unwrap().get_mut(&name)
            && *left > 0
        {
            *left -= 1;
            let log = Output::text("log", Media::Text, "last words");
            let observations = [("seen".to_owned(), serde_json::json!(3))].into();
            let failure = Failure::new(*status, "as the test asked").evidence(log);
            return Err(failure.observed(observations, vec!["it was slow".to_owned()]));
        }
        let waits = self
            .waits_without_machine
            .lock()
            .unwrap()
            .take_if(|cell| *cell == name)
            .is_some();
        if waits {
            self.taken.store(true, Ordering::Relaxed);
            // Long enough for any machine; a watch ends it earlier.
            for _ in 0..6000 {
                job.control.check()?;
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        if let Some((cell, flag)) = &*self.stop_at.lock().unwrap()
            && *cell == name
        {
            flag.store(true, Ordering::Relaxed);
        }
        std::thread::sleep(Duration::from_millis(
            self.slow_ms.load(Ordering::Relaxed) as u64
        ));
        job.control.check()
    }

    /// Returns the sorted executions since the last call, and resets them.
    pub(crate) fn take(&self) -> Vec<String> {
        self.order.lock().unwrap().clear();
        std::mem::take(&mut *self.runs.lock().unwrap())
            .into_keys()
            .collect()
    }
}

struct Kind {
    name: &'static str,
    class: Class,
    world: Arc<World>,
    run: fn(&World, &Job<'_>) -> Result<Done, Failure>,
}

struct Counted(
    Arc<AtomicUsize>,
    Json,
    Option<(Child, LeaseFile)>,
    Arc<AtomicBool>,
    Arc<AtomicBool>,
);

impl Lease for Counted {
    fn live(&self) -> &Json {
        &self.1
    }
    fn check(&mut self) -> Result<(), Failure> {
        if self.3.load(Ordering::Relaxed) {
            let log = Output::text("log", Media::Text, "out of memory");
            return Err(Failure::failed("it ended").evidence(log));
        }
        Ok(())
    }
    fn watch(&self) -> Option<Watch> {
        let taken = self.4.clone();
        Some(Arc::new(move || match taken.load(Ordering::Relaxed) {
            true => Err(Failure::failed("its machine was taken away")),
            false => Ok(()),
        }))
    }
    fn release(self: Box<Self>) -> Vec<Output> {
        self.0.fetch_sub(1, Ordering::Relaxed);
        if let Some((mut child, _file)) = self.2 {
            pipeline::process::stop(&mut child, Duration::ZERO).unwrap();
        }
        vec![Output::text("log", Media::Text, "stopped")]
    }
}

impl StageKind for Kind {
    fn name(&self) -> &'static str {
        self.name
    }
    fn semantic_version(&self) -> u32 {
        if self.class == Class::Pure {
            self.world.version.load(Ordering::Relaxed)
        } else {
            1
        }
    }
    fn class(&self) -> Class {
        self.class
    }
    fn schema(&self) -> schemars::Schema {
        schemars::Schema::default()
    }
    fn canonical(&self, settings: &Json, _: &dyn Library) -> Result<Json, Vec<Problem>> {
        Ok(settings.clone())
    }
    fn facets(&self, _: &Json) -> Result<BTreeMap<String, Json>, Failure> {
        let facets = if self.class == Class::Measurement {
            self.world.facets.lock().unwrap().clone()
        } else {
            BTreeMap::new()
        };
        Ok(facets)
    }
    fn figures(&self) -> &'static [&'static str] {
        if self.name == "measure" {
            &["speed"]
        } else {
            &[]
        }
    }
    /// A little over 100 for block n, the same for all cells of the block.
    fn figure(
        &self,
        name: &str,
        outputs: &BTreeMap<String, Artifact>,
        store: &Store,
    ) -> Option<f64> {
        let rows = store.get(&outputs.get("rows")?.digest).ok()?;
        let rows = String::from_utf8(rows).ok()?;
        let block = rows.split("block=").nth(1)?.split(',').next()?;
        let block: u32 = block.parse().ok()?;
        (name == "speed").then(|| 100.0 + 0.1 * f64::from((7 * block) % 5))
    }
    fn looked_at_repeatedly(&self, mut parameters: Json) -> Result<Json, Vec<Problem>> {
        parameters["looks"] = json!("repeated");
        Ok(parameters)
    }
    fn sees_study(&self) -> bool {
        self.name == "tell"
    }
    fn run(&self, job: &Job<'_>) -> Result<Done, Failure> {
        self.world.enter(job)?;
        (self.run)(&self.world, job)
    }
}

fn serve(world: &World, job: &Job<'_>) -> Result<Done, Failure> {
    let name = cell_text(job.stage, &job.coordinates.to_string());
    for input in job.inputs.iter().flat_map(|i| &i.cells) {
        assert!(input.live.is_some(), "what a server needs is alive");
    }
    let mut descriptor = job.parameters.clone();
    descriptor["drift"] = world
        .drift
        .lock()
        .unwrap()
        .get(&name)
        .cloned()
        .unwrap_or(Json::Null);
    world.died.store(false, Ordering::Relaxed);
    world.taken.store(false, Ordering::Relaxed);
    let alive = world.alive.fetch_add(1, Ordering::Relaxed) + 1;
    world.most_alive.fetch_max(alive, Ordering::Relaxed);
    let process = world.spawner.lock().unwrap().as_ref().map(|spawner| {
        let mut command = spawner.command("/bin/sleep");
        command.arg("60");
        let child = spawner.spawn(command).unwrap();
        let file = job.leases.register(child.id()).unwrap();
        (child, file)
    });
    let log = job.scratch.join("log");
    std::fs::write(&log, "started").unwrap();
    Ok(Done {
        outputs: vec![Output::json("server", &descriptor)],
        lease: Some(Box::new(Counted(
            world.alive.clone(),
            json!({"url": name, "log": log}),
            process,
            world.died.clone(),
            world.taken.clone(),
        ))),
        ..Done::default()
    })
}

fn measure(world: &World, job: &Job<'_>) -> Result<Done, Failure> {
    for input in job.inputs.iter().flat_map(|i| &i.cells) {
        let live = input
            .live
            .as_ref()
            .expect("what a measurement needs is alive");
        let log = live["log"]
            .as_str()
            .expect("a server says where it writes its log");
        assert!(Path::new(log).exists(), "the log of a live server is gone");
    }
    let noise = if world.quiet.load(Ordering::Relaxed) {
        0
    } else {
        world.noise.fetch_add(1, Ordering::Relaxed)
    };
    job.control.progress(1, Some(1), "requests");
    let text = format!("{} {} {noise}", job.coordinates, job.parameters);
    std::fs::write(job.scratch.join("rows"), text).unwrap();
    let mut output = Output::text("rows", Media::Text, "");
    output.content = pipeline::Content::File(job.scratch.join("rows"));
    Ok(Done {
        outputs: vec![output],
        ..Done::default()
    })
}

fn fold(_: &World, job: &Job<'_>) -> Result<Done, Failure> {
    let mut text = String::new();
    for input in job.inputs {
        for cell in &input.cells {
            text.push_str(&format!(
                "{} {} {}",
                input.stage,
                cell.coordinates,
                cell.status.word()
            ));
            for (name, artifact) in &cell.outputs {
                let bytes = job
                    .store
                    .get(&artifact.digest)
                    .map_err(|e| Failure::failed(e.to_string()))?;
                text.push_str(&format!(" {name}={}", String::from_utf8_lossy(&bytes)));
            }
            text.push('\n');
        }
    }
    if job.parameters["constant"] == json!(true) {
        text = "constant".to_owned();
    }
    Ok(Done {
        outputs: vec![Output::text("table", Media::Text, text)],
        ..Done::default()
    })
}

fn tell(_: &World, job: &Job<'_>) -> Result<Done, Failure> {
    let study = job.study.expect("it sees the study");
    let mut text = format!("trail {}\n", study.trail);
    for line in &study.ledger {
        let executions = line.execution.as_ref().map_or(0, |e| e.executions);
        let again = match executions {
            0 | 1 => String::new(),
            n => format!(" executed {n} times"),
        };
        text.push_str(&format!(
            "{}[{}] {}{again}\n",
            line.stage,
            line.coordinates,
            line.status.word()
        ));
    }
    Ok(Done {
        outputs: vec![Output::text("report", Media::Markdown, text)],
        ..Done::default()
    })
}

/// Returns the kinds for a world.
pub(crate) fn registry(world: &Arc<World>) -> Registry {
    let kind = |name, class, run| -> Box<dyn StageKind> {
        Box::new(Kind {
            name,
            class,
            world: world.clone(),
            run,
        })
    };
    Registry {
        kinds: vec![
            kind("prepare", Class::Resource, serve),
            kind("serve", Class::Resource, serve),
            kind("measure", Class::Measurement, measure),
            kind("fold", Class::Pure, fold),
            kind("tell", Class::Pure, tell),
        ],
        ..Registry::default()
    }
}

/// Describes a stage.
pub(crate) struct StageSpec {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) needs: Vec<&'static str>,
    pub(crate) over: Vec<&'static str>,
    pub(crate) replicate: Vec<&'static str>,
    pub(crate) parameters: Box<dyn Fn(&Coordinates) -> Json>,
    pub(crate) exclude: Vec<(Vec<(&'static str, Scalar)>, &'static str)>,
    pub(crate) retries: u32,
}

/// Describes a stage with the same parameters in every cell.
pub(crate) fn stage(
    name: &'static str,
    kind: &'static str,
    needs: &[&'static str],
    over: &[&'static str],
    parameters: Json,
) -> StageSpec {
    StageSpec {
        name,
        kind,
        needs: needs.to_vec(),
        over: over.to_vec(),
        replicate: over.iter().copied().filter(|a| *a == "rep").collect(),
        parameters: Box::new(move |_| parameters.clone()),
        exclude: Vec::new(),
        retries: 0,
    }
}

/// Builds an experiment in the same way as the language.
pub(crate) fn experiment(
    file: &Path,
    axes: &[(&str, Vec<Scalar>)],
    stages: &[StageSpec],
) -> Experiment {
    let class = |kind: &str| match kind {
        "prepare" | "serve" => Class::Resource,
        "measure" => Class::Measurement,
        _ => Class::Pure,
    };
    let mut built = Experiment {
        name: "study".into(),
        profile: None,
        file: file.to_owned(),
        sources: Vec::new(),
        seed: 164,
        order: Order::default(),
        reuse: Reuse::default(),
        design: None,
        spec: json!({"title": "a study"}),
        axes: axes
            .iter()
            .map(|(name, labels)| Axis {
                name: (*name).to_owned(),
                labels: labels.clone(),
                declared: labels.len(),
                fields: vec![Json::Null; labels.len()],
                left_out: Vec::new(),
            })
            .collect(),
        stages: Default::default(),
    };
    let axis = |name: &str| axes.iter().position(|(n, _)| *n == name).unwrap();
    for spec in stages {
        let over: Vec<usize> = spec.over.iter().map(|a| axis(a)).collect();
        let needs = spec
            .needs
            .iter()
            .map(|n| built.stages.position(|s| s.name == *n).unwrap())
            .collect();
        let replicate = spec
            .replicate
            .iter()
            .map(|r| spec.over.iter().position(|a| a == r).unwrap())
            .collect();
        let (mut cells, mut excluded, mut sets): (Vec<Cell>, Vec<Excluded>, Vec<Json>) =
            Default::default();
        let mut counts: std::collections::HashMap<String, u32> = Default::default();
        let total: usize = over.iter().map(|a| axes[*a].1.len()).product();
        for n in 0..total {
            let mut rest = n;
            let mut at = vec![0_u16; over.len()];
            for (i, a) in over.iter().enumerate().rev() {
                at[i] = u16::try_from(rest % axes[*a].1.len()).unwrap();
                rest /= axes[*a].1.len();
            }
            let pairs = over.iter().zip(&at);
            let coordinates = Coordinates(
                pairs
                    .map(|(a, i)| (axes[*a].0.to_owned(), axes[*a].1[usize::from(*i)].clone()))
                    .collect(),
            );
            let out = spec.exclude.iter().find(|(at, _)| {
                at.iter()
                    .all(|(axis, label)| coordinates.get(axis) == Some(label))
            });
            if let Some((_, reason)) = out {
                excluded.push(Excluded {
                    at: at.into(),
                    reason: (*reason).to_owned(),
                });
                continue;
            }
            let parameters = (spec.parameters)(&coordinates);
            let next = u32::try_from(sets.len()).unwrap();
            let set = *counts.entry(parameters.to_string()).or_insert(next);
            if set == next {
                sets.push(parameters);
            }
            cells.push(Cell {
                at: at.into(),
                parameters: set,
                placement: None,
                timeout: None,
                retries: spec.retries,
                note: None,
            });
        }
        built.stages.push(Stage {
            name: spec.name.into(),
            kind: spec.kind.into(),
            class: class(spec.kind),
            needs,
            over: over.into_iter().map(AxisId::from).collect(),
            replicate,
            exclusive: if spec.kind == "serve" {
                vec!["host".into()]
            } else {
                Vec::new()
            },
            parameter_sets: sets,
            placements: Vec::new(),
            cells: cells.into(),
            excluded,
        });
    }
    built
}

/// Returns a cell in its written form.
pub(crate) fn written<'a>(stage: &'a str, coordinates: &'a str) -> WrittenCell<&'a str> {
    WrittenCell { stage, coordinates }
}

/// Text labels.
pub(crate) fn texts(labels: &[&str]) -> Vec<Scalar> {
    labels
        .iter()
        .map(|l| Scalar::Text((*l).to_owned()))
        .collect()
}

/// Integer labels from 1.
pub(crate) fn ints(to: i64) -> Vec<Scalar> {
    (1..=to).map(Scalar::Int).collect()
}

/// The stages of a small study, similar to the quickstart.
pub(crate) fn study_stages() -> Vec<StageSpec> {
    let server = StageSpec {
        parameters: Box::new(
            |c| json!({"engine": {"version": 1}, "slots": c.get("configuration")}),
        ),
        ..stage(
            "server",
            "serve",
            &["machine"],
            &["configuration"],
            json!(null),
        )
    };
    let ladder = StageSpec {
        parameters: Box::new(
            |c| json!({"clients": c.get("clients"), "workload": {"output_tokens": 64}}),
        ),
        ..stage(
            "ladder",
            "measure",
            &["server"],
            &["configuration", "clients", "rep"],
            json!(null),
        )
    };
    vec![
        stage("machine", "prepare", &[], &[], json!({"model": "small"})),
        server,
        ladder,
        stage(
            "checks",
            "fold",
            &["ladder", "server"],
            &["configuration"],
            json!({"gate": 1}),
        ),
        stage(
            "results",
            "fold",
            &["ladder", "checks"],
            &[],
            json!({"operator": "mean"}),
        ),
        stage(
            "report",
            "tell",
            &["machine", "ladder", "checks", "results"],
            &[],
            json!({"template": "t"}),
        ),
    ]
}

/// The axes of the small study: 2 × 2 × 2 measurements.
pub(crate) fn study_axes() -> Vec<(&'static str, Vec<Scalar>)> {
    vec![
        ("configuration", texts(&["batched", "serial"])),
        ("clients", ints(2)),
        ("rep", ints(2)),
    ]
}

/// A store, a folder with the experiment, and a world.
pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) store: Store,
    pub(crate) world: Arc<World>,
    pub(crate) events: Mutex<Vec<Event>>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("store")).unwrap();
        Self {
            folder,
            store,
            world: Arc::default(),
            events: Mutex::default(),
        }
    }

    pub(crate) fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("study.yaml")
    }

    pub(crate) fn study(&self) -> Experiment {
        experiment(&self.file(), &study_axes(), &study_stages())
    }

    /// Runs, and returns the summary and the executed cells.
    pub(crate) fn run_with(
        &self,
        experiment: &Experiment,
        options: &RunOptions,
    ) -> (RunSummary, Vec<String>) {
        let summary = self.run_beside_another(experiment, options);
        assert_eq!(
            self.world.alive.load(Ordering::Relaxed),
            0,
            "everything alive was released"
        );
        (summary, self.world.take())
    }

    /// Runs while another run may have servers of its own.
    pub(crate) fn run_beside_another(
        &self,
        experiment: &Experiment,
        options: &RunOptions,
    ) -> RunSummary {
        let registry = registry(&self.world);
        let listen = |event: &Event| self.events.lock().unwrap().push(event.clone());
        pipeline::run(experiment, &registry, &self.store, options, &listen).unwrap()
    }

    pub(crate) fn run(&self, experiment: &Experiment) -> (RunSummary, Vec<String>) {
        self.run_with(
            experiment,
            &RunOptions {
                jobs: 2,
                ..RunOptions::default()
            },
        )
    }

    pub(crate) fn plan(&self, experiment: &Experiment, options: &PlanOptions) -> pipeline::Plan {
        pipeline::plan(experiment, &registry(&self.world), &self.store, options).unwrap()
    }
}
