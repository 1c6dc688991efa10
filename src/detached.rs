//! A run without a terminal: `run --detach` starts it, `status` and `attach` see it, `stop` ends it.
//!
//! ```text
//! detached/<32 digits>/     in the store, named after the lock's path
//!     began.json            the run's start data
//!     process.json          the process
//!     log, output           its standard error and standard output
//!     alive                 locked by the process until it ends
//!     stopping              exists once a user stopped it
//!     exit.json             its exit code, once it has ended by itself
//!     lock                  held while a run is being started
//! ```
//!
//! The user's command starts the binary as `__detached start`, which begins a new session, starts the run in it, and
//! ends. So the run has neither a terminal nor a parent whose end would end it too.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::SystemTime;

use artifacts::Digest;
use pipeline::process::{ProcessId, stat};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::exit::Stop;

/// The hidden command with which the binary starts itself.
pub(crate) const COMMAND: &str = "__detached";

/// The word after it in the command line of the run itself.
const RUN: &str = "run";

/// The largest of its files that is read, in bytes.
const MOST_BYTES: u64 = 1 << 20;

/// The file that a run holds.
const ALIVE: &str = "alive";

/// The number of digits in a folder's name.
const DIGITS: usize = 32;

/// The start data of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Began {
    /// The experiment, as an absolute path.
    pub(crate) experiment: PathBuf,
    pub(crate) profile: Option<String>,
    /// The path of its event log.
    pub(crate) events: Option<PathBuf>,
    /// The machine's name.
    pub(crate) host: String,
    /// The start time, RFC 3339, UTC.
    pub(crate) since: String,
}

/// A run that was detached from its terminal.
#[derive(Clone, Debug)]
pub(crate) struct Detached {
    folder: PathBuf,
    pub(crate) began: Began,
    process: Option<ProcessId>,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// It is running.
    Working,
    /// It ended with this exit code.
    Ended(u8),
    /// It ended without an exit code: it was killed, or the machine stopped.
    Gone,
    /// It was started on another machine, so its state is unknown here, or it is running in another container.
    Elsewhere,
}

#[derive(Serialize, Deserialize)]
struct Exited {
    code: u8,
}

impl Detached {
    /// Returns the last detached run with this lock; `None` if none exists.
    ///
    /// # Errors
    /// If its files cannot be read.
    pub(crate) fn of(store: &Path, lock: &Path) -> Result<Option<Self>, Stop> {
        let folder = folder_of(store, lock);
        let Some(began) = read(&folder.join("began.json"))? else {
            return Ok(None);
        };
        let process = read(&folder.join("process.json"))?;
        Ok(Some(Self {
            folder,
            began,
            process,
        }))
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.map(|process| process.pid)
    }

    /// Returns the file with its standard error.
    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Returns the file with its standard output.
    pub(crate) fn output(&self) -> PathBuf {
        self.folder.join("output")
    }

    /// Returns its state.
    ///
    /// # Errors
    /// If its files or the process table cannot be read.
    pub(crate) fn course(&self) -> Result<Course, Stop> {
        let exited: Option<Exited> = read(&self.folder.join("exit.json"))?;
        if let Some(Exited { code }) = exited {
            return Ok(Course::Ended(code));
        }
        if self.began.host != host() {
            return Ok(Course::Elsewhere);
        }
        let alive = match self.process {
            Some(process) => {
                process.is_alive().map_err(|e| Stop::refused(&e))? && self.is_ours(process)
            }
            None => false,
        };
        if alive {
            return Ok(Course::Working);
        }
        // Process numbers of another container mean nothing here.
        if self.is_locked() {
            return Ok(Course::Elsewhere);
        }
        // It may have ended between the two checks.
        let exited: Option<Exited> = read(&self.folder.join("exit.json"))?;
        Ok(exited.map_or(Course::Gone, |exited| Course::Ended(exited.code)))
    }

    /// Returns whether a process was started for this run. A project of somebody else can bring a file that names any
    /// process, and `stop` would end it.
    fn is_ours(&self, process: ProcessId) -> bool {
        let Ok(words) = fs::read(format!("/proc/{}/cmdline", process.pid)) else {
            return false;
        };
        let mut words = words.split(|byte| *byte == 0).skip(1);
        let name = self.folder.file_name().map(OsStr::as_encoded_bytes);
        let folder = |word: &[u8]| {
            let folder = Path::new(OsStr::from_bytes(word));
            folder.file_name().map(OsStr::as_encoded_bytes) == name
        };
        words.next() == Some(COMMAND.as_bytes())
            && words.next() == Some(RUN.as_bytes())
            && words.next().is_some_and(folder)
    }

    /// Returns whether its process holds its file, wherever on this machine it runs.
    fn is_locked(&self) -> bool {
        let file = artifacts::regular::open(&self.folder.join(ALIVE));
        file.is_ok_and(|(file, _)| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// Returns the event log, once this run has started it.
    pub(crate) fn events(&self) -> Option<&Path> {
        let changed = |path: &Path| fs::metadata(path)?.modified();
        let events = self.began.events.as_deref()?;
        let began: SystemTime = changed(&self.folder.join("began.json")).ok()?;
        (changed(events).ok()? >= began).then_some(events)
    }

    /// Signals it to end, as Ctrl-C would. Repeated calls have no effect.
    ///
    /// # Errors
    /// If it may not be signalled.
    pub(crate) fn stop(&self) -> Result<(), Stop> {
        let Some(process) = self.process else {
            return Ok(());
        };
        let stopping = self.folder.join("stopping");
        // A second Ctrl-C ends a run immediately; a second `stop` must not.
        match File::create_new(&stopping) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            Err(e) => return Err(at(&stopping, &e)),
            Ok(_) => {}
        }
        pipeline::process::interrupt(process.pid).map_err(|e| Stop::refused(&e))
    }
}

/// Starts a run with these arguments and returns it.
///
/// # Errors
/// If a run with this lock is already running, or the system returns an error.
pub(crate) fn start(
    store: &Path,
    lock: &Path,
    began: &Began,
    arguments: impl Iterator<Item = OsString>,
) -> Result<Detached, Stop> {
    let folder = folder_of(store, lock);
    fs::create_dir_all(&folder).map_err(|e| at(&folder, &e))?;
    if folder.is_symlink() {
        return Err(artifacts::StoreError::Link(folder).into());
    }
    let guard = folder.join("lock");
    let held = artifacts::regular::create(&guard).map_err(|e| at(&guard, &e))?;
    held.lock().map_err(|e| at(&guard, &e))?;
    if let Some(earlier) = Detached::of(store, lock)?
        && (earlier.course()? == Course::Working || earlier.is_locked())
    {
        let pid = earlier.pid().unwrap_or_default();
        return Err(Stop::failed(format!(
            "a detached run of this experiment is active: process {pid}, since {}",
            earlier.began.since
        ))
        .hint("`benchtrail attach` shows it, `benchtrail stop` ends it"));
    }
    for stale in ["process.json", "exit.json", "stopping"] {
        let _not_there = fs::remove_file(folder.join(stale));
    }
    write(&folder.join("began.json"), began)?;
    let file = |name: &str| {
        let path = folder.join(name);
        artifacts::regular::create(&path).map_err(|e| at(&path, &e))
    };
    let binary = std::env::current_exe().map_err(|e| Stop::refused(&e))?;
    let status = Command::new(binary)
        .arg(COMMAND)
        .arg("start")
        .arg(&folder)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(file("output")?)
        .stderr(file("log")?)
        .status()
        .map_err(|e| Stop::refused(&e))?;
    let run = Detached::of(store, lock)?.filter(|run| run.process.is_some());
    run.filter(|_| status.success()).ok_or_else(|| {
        let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
        Stop::machine(format!("the run could not be detached: {}", log.trim()))
    })
}

/// Executes the hidden command.
pub(crate) fn answer(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let (Some(part), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Stop::usage("this command is for `run --detach`").report();
    };
    let folder = PathBuf::from(folder);
    match part.to_str() {
        Some("start") => match begin(&folder, arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(stop) => stop.report(),
        },
        Some(RUN) => {
            let program = OsString::from("benchtrail");
            // Without locks on the store's file system, only the process number tells that this run is alive.
            let alive = artifacts::regular::create(&folder.join(ALIVE));
            let _locked = alive.as_ref().map(File::try_lock);
            let code = crate::execute(std::iter::once(program).chain(arguments));
            if let Err(stop) = write(&folder.join("exit.json"), &Exited { code }) {
                stop.report();
            }
            ExitCode::from(code)
        }
        _ => Stop::usage("this command is for `run --detach`").report(),
    }
}

/// Begins a session, and starts the run in it.
fn begin(folder: &Path, arguments: impl Iterator<Item = OsString>) -> Result<(), Stop> {
    rustix::process::setsid().map_err(|e| Stop::refused(&e))?;
    let binary = std::env::current_exe().map_err(|e| Stop::refused(&e))?;
    let child = Command::new(binary)
        .arg(COMMAND)
        .arg(RUN)
        .arg(folder)
        .args(arguments)
        .stdin(Stdio::null())
        .spawn()
        .map_err(|e| Stop::refused(&e))?;
    let process = stat(child.id()).map_err(|e| Stop::refused(&e))?;
    // A run that has already ended is our zombie, and still has a number.
    let process = process.ok_or_else(|| Stop::machine("the run ended at once"))?;
    write(&folder.join("process.json"), &process.id)
}

/// Returns the name of this machine.
pub(crate) fn host() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

fn folder_of(store: &Path, lock: &Path) -> PathBuf {
    let lock = std::path::absolute(lock).unwrap_or_else(|_| lock.to_owned());
    let digits = Digest::of(lock.as_os_str().as_encoded_bytes()).hex();
    store.join("detached").join(&digits[..DIGITS])
}

fn at(path: &Path, error: &io::Error) -> Stop {
    Stop::refused_at(path.display(), error)
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Stop> {
    match artifacts::regular::read_at_most(path, MOST_BYTES) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(at(path, &e)),
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|e| Stop::damaged(format!("{}: {e}", path.display()))),
    }
}

/// Writes a file so that readers see all of it or nothing.
fn write<T: Serialize>(path: &Path, value: &T) -> Result<(), Stop> {
    let text = serde_json::to_vec(value).map_err(|e| Stop::refused(&e))?;
    let folder = path.parent().unwrap_or(path);
    let put = || {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        io::Write::write_all(&mut file, &text)?;
        file.persist(path).map_err(|e| e.error)
    };
    put().map(drop).map_err(|e| at(path, &e))
}
