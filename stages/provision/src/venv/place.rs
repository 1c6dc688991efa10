//! Builds an environment once, even if several processes need it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use artifacts::Digest;
use contract::InstalledSoftware;
use pipeline::{Failure, Job};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::VenvRecipe;
use super::client::{Client, PinnedBy, Session};
use super::facts;
use super::interpreter::{self, Interpreter};
use super::pins;
use crate::environment::{Manifest, entries, note, sync};
use crate::machine::Machine;

/// The subfolder of the store that holds all environments.
const FOLDER: &str = "venvs";

/// The folder of resolved locks, beside the environments.
const RESOLVED: &str = "resolved";

/// The version of the folder's layout; raised when it changes.
const FORMAT: u32 = 1;

const POLL: Duration = Duration::from_millis(200);

/// An environment that is ready.
pub(crate) struct Installed {
    /// The environment's folder, with `bin/python`.
    pub(crate) folder: PathBuf,
    pub(crate) software: InstalledSoftware,
    /// The text of the lock.
    pub(crate) lock: String,
}

/// The file that is written last into an environment's folder.
#[derive(Serialize, Deserialize)]
struct Complete {
    /// The path at which it was built, because its scripts name this path.
    path: PathBuf,
    software: InstalledSoftware,
    #[serde(flatten)]
    manifest: Manifest,
}

/// Builds an environment, or finds an existing one.
///
/// # Errors
/// If the interpreter is missing, the client cannot get a package, or an assertion fails.
pub(crate) fn prepare(
    recipe: &VenvRecipe,
    machine: &Machine,
    job: &Job<'_>,
) -> Result<Installed, Failure> {
    let all = job.store.root().join(FOLDER);
    let interpreter = interpreter::find(&recipe.python, machine)?;
    let client = Client::of(machine, &interpreter);
    let trouble = |e: io::Error| Failure::failed(format!("{}: {e}", all.display()));
    fs::create_dir_all(all.join(RESOLVED)).map_err(trouble)?;
    let all = all.canonicalize().map_err(trouble)?;
    let lock = lock_of(recipe, &all, &interpreter, &client, machine, job)?;
    let locked = pins::locked(&lock)
        .map_err(|e| Failure::failed(format!("the lock, line {}: {}", e.line, e.message)))?;
    let folder = all.join(name_of(&interpreter, &lock));
    // A process that waited here finds the finished environment.
    let _held = hold(&folder.with_extension("lock"), job)?;
    let software = match complete(&folder) {
        Some(software) => software,
        None => make(&folder, &lock, &interpreter, &client, job)?,
    };
    facts::check(&software, &locked)?;
    let environment = folder.join("env");
    if !recipe.assertions.is_empty() {
        job.control.progress(0, None, "checking the assertions");
    }
    facts::assert(&environment, &recipe.assertions, job.control)?;
    Ok(Installed {
        folder: environment,
        software: facts::for_study(software, recipe),
        lock,
    })
}

/// Returns the name of an environment's folder, from everything that decides its files.
fn name_of(interpreter: &Interpreter, lock: &str) -> String {
    let decides = serde_json::json!([
        FORMAT,
        interpreter.version,
        interpreter.implementation,
        interpreter.free_threaded,
        interpreter.path,
        lock
    ]);
    Digest::of(decides.to_string().as_bytes()).hex()
}

/// Returns the lock's text: given, resolved earlier, or resolved now.
fn lock_of(
    recipe: &VenvRecipe,
    all: &Path,
    interpreter: &Interpreter,
    client: &Client,
    machine: &Machine,
    job: &Job<'_>,
) -> Result<String, Failure> {
    if let Some(digest) = &recipe.lock {
        let read = job.files.read(digest);
        let (_, bytes) = read.map_err(|e| Failure::failed(e.message).hint(e.hint))?;
        return String::from_utf8(bytes).map_err(|_| Failure::failed("the lock is not UTF-8"));
    }
    let minor: Vec<&str> = interpreter.version.split('.').take(2).collect();
    let asked = serde_json::json!([
        FORMAT,
        recipe.packages,
        recipe.overrides,
        minor,
        interpreter.free_threaded,
        machine.os,
        machine.arch
    ]);
    let name = Digest::of(asked.to_string().as_bytes()).hex();
    let file = all.join(RESOLVED).join(format!("{name}.txt"));
    let _held = hold(&file.with_extension("lock"), job)?;
    match fs::read_to_string(&file) {
        Ok(text) if pins::locked(&text).is_ok() => return Ok(text),
        _ => {}
    }
    let scratch = job.scratch.join("resolve");
    let trouble = |e: io::Error| Failure::failed(format!("{}: {e}", scratch.display()));
    fs::create_dir_all(&scratch).map_err(trouble)?;
    let session = Session {
        folder: &scratch,
        control: job.control,
        leases: job.leases,
        pinned_by: PinnedBy::Study,
    };
    let text = client.resolve(&recipe.packages, &recipe.overrides, interpreter, &session)?;
    let written = scratch.join("lock.txt");
    fs::write(&written, &text).map_err(trouble)?;
    // The store and the scratch folder may be on different disks.
    let beside = file.with_extension("new");
    let kept = fs::copy(&written, &beside).and_then(|_| fs::rename(&beside, &file));
    kept.map_err(trouble)?;
    Ok(text)
}

/// Takes a lock on the disk that ends with the process. Waits while another process holds it.
fn hold(path: &Path, job: &Job<'_>) -> Result<File, Failure> {
    let trouble = |e: io::Error| Failure::failed(format!("{}: {e}", path.display()));
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(trouble)?;
    let mut announced = false;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) => {}
            Err(e) => return Err(trouble(e.into())),
        }
        if !announced {
            let what = "waiting for another run that is creating the same environment";
            job.control.progress(0, None, what);
            announced = true;
        }
        job.control.check()?;
        thread::sleep(POLL);
    }
}

/// Returns the contents of an environment that is complete and unchanged.
fn complete(folder: &Path) -> Option<InstalledSoftware> {
    let file = folder.join("complete.json");
    let mut complete: Complete = serde_json::from_slice(&fs::read(&file).ok()?).ok()?;
    if complete.path != folder || !folder.join("env/bin/python").exists() {
        return None;
    }
    if complete.manifest.check(&folder.join("env")).ok()? {
        // If the stamps cannot be recorded, the files are hashed again next time.
        let _unwritable = note(&file, &complete);
    }
    Some(complete.software)
}

/// Builds an environment in its final place, because its scripts name their own folder.
fn make(
    folder: &Path,
    lock: &str,
    interpreter: &Interpreter,
    client: &Client,
    job: &Job<'_>,
) -> Result<InstalledSoftware, Failure> {
    let trouble = |e: io::Error| Failure::failed(format!("{}: {e}", folder.display()));
    if folder.exists() {
        job.control.progress(
            0,
            None,
            "an environment is damaged or incomplete; creating it again",
        );
        // First remove the file that marks it complete, because the removal may be interrupted.
        match fs::remove_file(folder.join("complete.json")) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(trouble(e)),
            _ => fs::remove_dir_all(folder).map_err(trouble)?,
        }
    }
    fs::create_dir_all(folder).map_err(trouble)?;
    let file = folder.join("lock.txt");
    fs::write(&file, lock).map_err(trouble)?;
    let environment = folder.join("env");
    let session = Session {
        folder,
        control: job.control,
        leases: job.leases,
        pinned_by: PinnedBy::Study,
    };
    client.create(&environment, interpreter, &session)?;
    client.install(&environment, &file, &session)?;
    job.control.progress(0, None, "reading what is installed");
    let software = facts::read(&environment, lock, job.control)?;
    // Python writes its caches during runs.
    let counts = |path: &Path| path.file_name().is_none_or(|n| n != "__pycache__");
    let complete = Complete {
        path: folder.to_owned(),
        software,
        manifest: Manifest {
            files: entries(&environment, counts).map_err(trouble)?,
        },
    };
    sync(folder).map_err(trouble)?;
    note(&folder.join("complete.json"), &complete).map_err(trouble)?;
    sync(folder).map_err(trouble)?;
    Ok(complete.software)
}
