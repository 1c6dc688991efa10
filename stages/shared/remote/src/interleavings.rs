//! Tests writers and collectors of one shared store in random orders of their requests, with crashes and late removals:
//! nothing that a completion names is ever lost.
//!
//! The code under test is real. Only the place is simulated: before every request, a thread waits for a seeded
//! scheduler.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use artifacts::{ActionKey, Commit, Digest, Maker, RecordView, Store};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::backend::{Backend, Sink};
use crate::collect::{CollectMode, CollectOptions, Collected};
use crate::completion::{Completion, Entry};
use crate::condemned::{Collections, End};
use crate::roots::Root;
use crate::{Pushed, Remote, RemoteError, Watch, cell};

static GO_ON: AtomicBool = AtomicBool::new(false);

/// The records of these tests by key, each with the objects that it names. Keys that begin with `m` are measurements.
const RECORDS: [(&str, &[&str]); 5] = [
    ("a", &["x", "y"]),
    ("b", &["y", "z"]),
    ("c", &["z"]),
    ("m", &["x", "w"]),
    ("d", &["v", "w"]),
];

/// The content of the simulated place, and whose turn it is.
struct State {
    names: BTreeMap<String, Vec<u8>>,
    /// Removals that arrive after their sender has died.
    late: Vec<String>,
    alive: BTreeSet<usize>,
    waiting: BTreeSet<usize>,
    turn: Option<usize>,
    favourite: usize,
    rng: ChaCha8Rng,
    /// Everything that was lost at any time.
    losses: Vec<String>,
}

struct World {
    state: Mutex<State>,
    changed: Condvar,
}

impl State {
    /// Gives a process its turn if all of them wait.
    fn schedule(&mut self) {
        if self.turn.is_some() || self.waiting.len() < self.alive.len() || self.alive.is_empty() {
            return;
        }
        if !self.late.is_empty() && self.rng.random_bool(0.01) {
            let at = self.rng.random_range(0..self.late.len());
            let name = self.late.swap_remove(at);
            self.remove(&name);
        }
        if !self.alive.contains(&self.favourite) || self.rng.random_bool(0.15) {
            let nth = self.rng.random_range(0..self.alive.len());
            self.favourite = *self.alive.iter().nth(nth).expect("there is one");
        }
        self.turn = Some(self.favourite);
    }

    fn remove(&mut self, name: &str) {
        self.names.remove(name);
        let lost = self.lost();
        self.losses
            .extend(lost.iter().map(|what| format!("{name} removed: {what}")));
    }

    /// Returns everything that a completion names but that cannot be read.
    fn lost(&self) -> Vec<String> {
        let mut lost = Vec::new();
        for (name, bytes) in self.names.iter().filter(|(n, _)| n.starts_with("cells/")) {
            let Some(Entry::Complete(completion)) = Entry::parse(bytes) else {
                continue;
            };
            let Some(record) = self.object(&completion.record) else {
                lost.push(format!("{name} without its record"));
                continue;
            };
            let view = view(&completion.record, &record).expect("a record");
            let gone = view.references().filter(|d| self.object(d).is_none());
            lost.extend(gone.map(|digest| format!("{name} without {digest}")));
        }
        lost
    }

    /// Finds an object as readers do.
    fn object(&self, digest: &Digest) -> Option<Vec<u8>> {
        let base = crate::transfer::object(digest);
        let names = self.names.range(base.clone()..);
        names
            .take_while(|(name, _)| name.starts_with(&base))
            .find(|(name, _)| match name.strip_prefix(&format!("{base}.")) {
                None => true,
                Some(number) => {
                    let end = self.names.get(&format!("collections/{number}/end"));
                    end.is_some_and(|end| {
                        serde_json::from_slice::<End>(end).expect("an end") == End::Abandoned
                    })
                }
            })
            .map(|(_, bytes)| bytes.clone())
    }
}

/// A process, with access to the simulated place.
struct Actor {
    world: Arc<World>,
    id: usize,
    /// The probability that it dies at a request.
    dies: f64,
}

impl std::fmt::Debug for Actor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "actor {}", self.id)
    }
}

impl Actor {
    /// Waits for its turn. With some probability, it dies instead.
    fn step(&self) -> Result<MutexGuard<'_, State>, RemoteError> {
        let mut state = self.turn();
        match state.rng.random_bool(self.dies) {
            true => Err(died()),
            false => Ok(state),
        }
    }

    fn turn(&self) -> MutexGuard<'_, State> {
        let mut state = self.world.state.lock().unwrap();
        state.waiting.insert(self.id);
        state.schedule();
        self.world.changed.notify_all();
        while state.turn != Some(self.id) {
            state = self.world.changed.wait(state).unwrap();
        }
        state.turn = None;
        state.waiting.remove(&self.id);
        state
    }
}

fn died() -> RemoteError {
    RemoteError::Other("sim".into(), "the process died".into())
}

impl Backend for Actor {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<bool, RemoteError> {
        let mut state = self.step()?;
        let free = !state.names.contains_key(name);
        if free {
            state.names.insert(name.to_owned(), bytes.to_vec());
        }
        Ok(free)
    }

    fn put_file(&self, name: &str, file: &Path) -> Result<(), RemoteError> {
        self.put_over(name, &std::fs::read(file).unwrap())
    }

    fn put_over(&self, name: &str, bytes: &[u8]) -> Result<(), RemoteError> {
        let mut state = self.step()?;
        state.names.insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), RemoteError> {
        let mut state = self.turn();
        if state.rng.random_bool((self.dies * 20.0).min(1.0)) {
            // The sender died after it sent the request.
            state.late.push(name.to_owned());
            return Err(died());
        }
        state.remove(name);
        Ok(())
    }

    fn size(&self, name: &str) -> Result<Option<u64>, RemoteError> {
        let state = self.step()?;
        Ok(state.names.get(name).map(|bytes| bytes.len() as u64))
    }

    fn read(&self, name: &str, sink: Sink<'_>) -> Result<bool, RemoteError> {
        let bytes = self.step()?.names.get(name).cloned();
        bytes.as_deref().map(&mut *sink).transpose()?;
        Ok(bytes.is_some())
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, RemoteError> {
        let below = self.walk(folder)?;
        let first = |(name, _): &(String, u64)| {
            let rest = name.strip_prefix(&format!("{folder}/")).expect("below");
            rest.split('/').next().expect("a segment").to_owned()
        };
        let names: BTreeSet<String> = below.iter().map(first).collect();
        Ok(names.into_iter().collect())
    }

    fn walk(&self, folder: &str) -> Result<Vec<(String, u64)>, RemoteError> {
        let state = self.step()?;
        let prefix = format!("{folder}/");
        let names = state.names.iter().filter(|(n, _)| n.starts_with(&prefix));
        Ok(names.map(|(n, b)| (n.clone(), b.len() as u64)).collect())
    }

    fn settle(&self) -> Result<(), RemoteError> {
        Ok(())
    }
}

fn view(digest: &Digest, bytes: &[u8]) -> Option<RecordView> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (key, objects) = text.strip_prefix("record ")?.split_once('\n')?;
    let mut objects: Vec<Digest> = objects.lines().filter_map(|l| l.parse().ok()).collect();
    objects.push(*digest);
    Some(RecordView {
        commit: Commit {
            experiment: "study".into(),
            stage: "stage".into(),
            coordinates: key.into(),
            key: ActionKey(Digest::of(key.as_bytes())),
            record: *digest,
            objects,
            status: "ok".into(),
            cacheable: true,
            seconds: 1.0,
            outputs: String::new(),
        },
        finished: 0,
        sizes: Vec::new(),
        inputs: Vec::new(),
        input_records: Vec::new(),
        files: Vec::new(),
    })
}

/// The local store of all writers, and its records.
struct Local {
    _folder: tempfile::TempDir,
    store: Store,
    records: Vec<Pushed>,
}

fn local() -> Local {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    let one = |(key, objects): &(&str, &[&str])| {
        let lines = objects.iter().map(|o| store.put(o.as_bytes()).unwrap());
        let lines: String = lines.map(|digest| format!("{digest}\n")).collect();
        let text = format!("record {key}\n{lines}");
        let digest = store.put(text.as_bytes()).unwrap();
        Pushed {
            view: view(&digest, text.as_bytes()).unwrap(),
            maker: Maker::default(),
        }
    };
    let records = RECORDS.iter().map(one).collect();
    Local {
        _folder: folder,
        store,
        records,
    }
}

fn watch() -> Watch<'static> {
    Watch {
        cancelled: &GO_ON,
        listener: &|_| {},
    }
}

fn options(grace: u64, lease: u64, measurements: bool) -> CollectOptions {
    CollectOptions {
        mode: CollectMode::Collect,
        grace: Duration::from_secs(grace),
        lease: Duration::from_secs(lease),
        measurements,
        forget: Vec::new(),
        by: "collector".into(),
    }
}

/// The work of a process.
type Deed<'a> = Box<dyn Fn(&Remote) -> Result<(), RemoteError> + Send + 'a>;

fn pushes<'a>(local: &'a Local, which: &[usize], root: Option<usize>) -> Deed<'a> {
    let records: Vec<Pushed> = which.iter().map(|n| local.records[*n].clone()).collect();
    Box::new(move |remote| {
        if let Some(root) = root {
            let named = records.iter().map(|p| p.view.commit.record).collect();
            let place = format!("/{root}.lock");
            remote.register(&Root::new(
                Path::new(&place),
                "study",
                Maker::default(),
                named,
            ))?;
        }
        remote
            .push(&local.store, &records, false, watch())
            .map(drop)
    })
}

fn collects<'a>(options: CollectOptions, times: usize) -> Deed<'a> {
    let is_measurement = |bytes: &[u8]| bytes.starts_with(b"record m");
    Box::new(move |remote| {
        for _ in 0..times {
            remote.collect(&options, view, &is_measurement, watch())?;
        }
        Ok(())
    })
}

fn world(seed: u64) -> Arc<World> {
    Arc::new(World {
        state: Mutex::new(State {
            names: BTreeMap::new(),
            late: Vec::new(),
            alive: BTreeSet::new(),
            waiting: BTreeSet::new(),
            turn: None,
            favourite: 0,
            rng: ChaCha8Rng::seed_from_u64(seed),
            losses: Vec::new(),
        }),
        changed: Condvar::new(),
    })
}

/// Runs processes in parallel until all have ended or died.
fn side_by_side(world: &Arc<World>, deeds: Vec<(Deed<'_>, f64)>) {
    world.state.lock().unwrap().alive = (0..deeds.len()).collect();
    std::thread::scope(|scope| {
        for (id, (deed, dies)) in deeds.into_iter().enumerate() {
            scope.spawn(move || {
                let remote = handle(world, id, dies);
                let outcome = deed(&remote);
                let mut state = world.state.lock().unwrap();
                state.alive.remove(&id);
                state.schedule();
                world.changed.notify_all();
                drop(state);
                if dies == 0.0 {
                    // A collector's lease may expire. If the grace is too short, a collector may also see something
                    // that a writer is about to put again; it then removes nothing. Processes that live see no other
                    // errors.
                    let fine = match &outcome {
                        Ok(()) => true,
                        Err(RemoteError::Refused(_, why, _)) => why.contains("lease"),
                        Err(error) => error.is_damage(),
                    };
                    assert!(fine, "{outcome:?}");
                }
            });
        }
    });
}

fn handle(world: &Arc<World>, id: usize, dies: f64) -> Remote {
    let world = Arc::clone(world);
    Remote {
        url: "sim".into(),
        backend: Arc::new(Actor { world, id, dies }),
        jobs: 1,
        collections: Collections::default(),
    }
}

/// Chooses some of the records.
fn some(rng: &mut ChaCha8Rng) -> Vec<usize> {
    let chosen = (0..RECORDS.len()).filter(|_| rng.random_bool(0.5));
    chosen.collect()
}

/// Returns what a random order lost with the grace respected: a writer that looked before a list was written has ended
/// or died before anything on the list is removed.
fn with_grace(local: &Local, seed: u64, careless: bool) -> Vec<String> {
    let world = world(seed);
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0xC0_11EC7);
    let writer = |rng: &mut ChaCha8Rng, n: usize| {
        let root = rng.random_bool(0.3).then_some(n);
        match careless {
            true => careless_push(local, &some(rng)),
            false => pushes(local, &some(rng), root),
        }
    };
    let measurements = rng.random_bool(0.5);
    for round in 0..6 {
        // A collector does one thing in a round: it writes a list, or removes what an earlier round's list names.
        // Others wait for the holder of a long lease, so that one must live.
        let (lease, dies) = [(0, 0.02), (3600, 0.0)][usize::from(round % 3 == 1)];
        let deeds = vec![
            (writer(&mut rng, 0), 0.02),
            (writer(&mut rng, 1), 0.02),
            (collects(options(0, lease, measurements), 1), dies),
        ];
        side_by_side(&world, deeds);
    }
    let mut state = world.state.lock().unwrap();
    while let Some(name) = state.late.pop() {
        state.remove(&name);
    }
    let mut lost = std::mem::take(&mut state.losses);
    lost.extend(state.lost());
    lost
}

/// Pushes like a program that does not know collections.
fn careless_push<'a>(local: &'a Local, which: &[usize]) -> Deed<'a> {
    let records: Vec<Pushed> = which.iter().map(|n| local.records[*n].clone()).collect();
    Box::new(move |remote| {
        for pushed in &records {
            for digest in pushed.view.references() {
                let name = crate::transfer::object(digest);
                if remote.backend.size(&name)?.is_none() {
                    remote.backend.put_file(&name, &local.store.path(digest))?;
                }
            }
            let commit = &pushed.view.commit;
            let completion = Completion::of(commit, Maker::default());
            let number = remote.entries_of(&commit.key)?.len() + 1;
            let name = cell(&commit.key, u32::try_from(number).unwrap());
            remote.backend.put_new(&name, &completion.to_bytes())?;
        }
        Ok(())
    })
}

/// The number of random orders tried.
const ORDERS: u64 = 200;

#[test]
fn what_a_completion_names_is_never_removed_in_whatever_order_writers_and_collectors_work_and_die()
{
    let local = local();
    for seed in 0..ORDERS {
        let lost = with_grace(&local, seed, false);
        assert!(lost.is_empty(), "order {seed}: {lost:#?}");
    }
}

#[test]
fn writers_that_know_nothing_of_collections_lose_results_and_the_model_sees_it() {
    let local = local();
    let lost = (0..ORDERS).any(|seed| !with_grace(&local, seed, true).is_empty());
    assert!(lost);
}

#[test]
fn writers_who_live_lose_nothing_even_if_the_grace_is_far_too_short() {
    let local = local();
    for seed in 0..ORDERS {
        let world = world(seed);
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x6_4ACE);
        let lease = if rng.random_bool(0.5) { 0 } else { 3600 };
        let collector_dies = if lease == 0 { 0.01 } else { 0.0 };
        let mut deeds: Vec<(Deed<'_>, f64)> = (0..3)
            .map(|n| {
                let root = rng.random_bool(0.5).then_some(n);
                (pushes(&local, &some(&mut rng), root), 0.0)
            })
            .collect();
        for _ in 0..2 {
            let options = options(0, lease, rng.random_bool(0.5));
            deeds.push((collects(options, 3), collector_dies));
        }
        side_by_side(&world, deeds);
        let mut state = world.state.lock().unwrap();
        while let Some(name) = state.late.pop() {
            state.remove(&name);
        }
        let lost = state.lost();
        assert!(lost.is_empty(), "order {seed}: {lost:#?}");
    }
}

#[test]
fn what_nobody_names_is_removed_after_the_grace_and_measurements_only_if_asked() {
    let local = local();
    let world = world(1);
    let alone = |deed: Deed<'_>| side_by_side(&world, vec![(deed, 0.0)]);
    let left = || -> BTreeSet<String> {
        let state = world.state.lock().unwrap();
        let complete = |bytes: &Vec<u8>| match Entry::parse(bytes) {
            Some(Entry::Complete(completion)) => Some(completion.coordinates),
            _ => None,
        };
        let cells = state.names.iter().filter(|(n, _)| n.starts_with("cells/"));
        cells.filter_map(|(_, bytes)| complete(bytes)).collect()
    };
    let objects = || {
        let state = world.state.lock().unwrap();
        let names = state.names.keys().filter(|n| n.starts_with("objects/"));
        names.count()
    };
    alone(pushes(&local, &[0], Some(0)));
    alone(pushes(&local, &[1, 2, 3], None));
    // At most five records, and w, x, y, z.
    assert_eq!(objects(), 4 + 4);
    alone(collects(options(1 << 30, 3600, false), 2));
    assert_eq!(objects(), 8, "the grace has not passed");
    alone(collects(options(0, 3600, false), 1));
    assert_eq!(objects(), 8, "the grace of the list counts");
    // Removes all traces of the condemnation: the same again, without a grace.
    let mut state = world.state.lock().unwrap();
    state
        .names
        .retain(|name, _| !name.starts_with("collections/"));
    drop(state);
    alone(collects(options(0, 3600, false), 2));
    let expected = ["a", "m"].map(str::to_owned);
    assert_eq!(left(), expected.into());
    assert_eq!(objects(), 2 + 3, "w, x and y stay");
    alone(pushes(&local, &[1], None));
    assert_eq!(
        left().len(),
        3,
        "what was removed is pushed again under the next number"
    );
    alone(collects(options(0, 3600, true), 2));
    assert_eq!(left(), ["a".to_owned()].into());
    assert_eq!(objects(), 1 + 2);
    let last = Mutex::new(None);
    alone(Box::new(|remote| {
        let is_measurement = |bytes: &[u8]| bytes.starts_with(b"record m");
        let report = remote.collect(&options(0, 3600, true), view, &is_measurement, watch())?;
        *last.lock().unwrap() = Some(report.collected);
        Ok(())
    }));
    assert_eq!(last.into_inner().unwrap(), Some(Collected::Nothing));
}
