//! The folder of one rented machine in the store, and its meter: which process keeps the machine, since when, and
//! whether it is gone. The folder stays, because it holds the state that is needed to destroy everything.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use artifacts::Digest;
use pipeline::lease::Scope;
use pipeline::process::ProcessId;
use serde::{Deserialize, Serialize};

/// The folder of rented machines in a store.
const FOLDER: &str = "cloud";
const METER: &str = "meter.json";

/// The state of a rented machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum State {
    /// Something may exist, and a process looks after it.
    Rented,
    /// Destroying it failed. Something may still exist and cost money.
    Stuck,
    /// Everything is destroyed.
    Gone,
}

/// The facts about one rented machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Meter {
    pub(super) experiment: String,
    pub(super) state: State,
    /// The process that rented it.
    pub(super) owner: ProcessId,
    /// The process that destroys it.
    pub(super) keeper: Option<ProcessId>,
    pub(super) scope: Scope,
    /// When making it began, and when it was last known to exist, in seconds since 1970.
    pub(super) since: u64,
    pub(super) until: u64,
    pub(super) cost_per_hour: f64,
    pub(super) currency: String,
    /// The program, and its arguments after `-chdir=MODULE COMMAND`.
    pub(super) program: PathBuf,
    pub(super) variables: Vec<String>,
}

impl Meter {
    pub(super) fn read(folder: &Path) -> io::Result<Self> {
        let bytes = fs::read(folder.join(METER))?;
        serde_json::from_slice(&bytes).map_err(io::Error::other)
    }

    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        let temporary = folder.join(format!("{METER}.{}", std::process::id()));
        let file = fs::File::create(&temporary)?;
        serde_json::to_writer_pretty(&file, self)?;
        file.sync_all()?;
        fs::rename(&temporary, folder.join(METER))
    }

    /// Returns its cost so far.
    pub(super) fn cost(&self) -> f64 {
        let seconds = self.until.saturating_sub(self.since) as f64;
        self.cost_per_hour * seconds / 3600.0
    }

    /// Returns whether the machine may exist and no process looks after it.
    pub(super) fn is_left(&self) -> io::Result<bool> {
        let here = Scope::here()?;
        if self.state == State::Gone {
            return Ok(false);
        }
        if self.scope.boot != here.boot {
            return Ok(true);
        }
        // Another process namespace has its own process numbers, so the owner is not visible from here.
        if self.scope.namespace != here.namespace {
            return Ok(false);
        }
        let kept = self.keeper.map_or(Ok(false), ProcessId::is_alive)?;
        Ok(!kept && !self.owner.is_alive()?)
    }
}

/// Returns the seconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "costs are counted across restarts, so by the wall clock"
)]
pub(super) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Returns a new folder for a machine in a store.
pub(super) fn new_folder(store: &Path) -> io::Result<PathBuf> {
    let all = store.join(FOLDER);
    fs::create_dir_all(&all)?;
    let own = ProcessId::own()?;
    let mut number = 0;
    loop {
        let folder = all.join(format!("{}-{}-{number}", own.pid, now()));
        match fs::create_dir(&folder) {
            Ok(()) => return std::path::absolute(folder),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(e) => return Err(e),
        }
    }
}

/// Returns the machines of a store, with the folder of each. A machine that cannot be read is an error, because it may
/// cost money.
pub(super) fn all(store: &Path) -> io::Result<Vec<(PathBuf, Meter)>> {
    let entries = match fs::read_dir(store.join(FOLDER)) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let mut meters = Vec::new();
    for entry in entries {
        let folder = std::path::absolute(entry?.path())?;
        match Meter::read(&folder) {
            Ok(meter) => meters.push((folder, meter)),
            // Nothing was made there, because the meter is written first.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(io::Error::other(format!("{}: {e}", folder.display()))),
        }
    }
    meters.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(meters)
}

/// Returns the path of a machine's note outside its store. Without the note, someone else's store could name a program
/// to start.
fn note_of(folder: &Path) -> io::Result<PathBuf> {
    let state = crate::user::state()
        .ok_or_else(|| io::Error::other("neither XDG_STATE_HOME nor HOME is an absolute path"))?;
    let name = Digest::of(folder.as_os_str().as_encoded_bytes()).hex();
    Ok(state.join("rented").join(name))
}

impl Meter {
    /// Returns the parts that determine the command that destroys the machine.
    fn command(&self) -> String {
        let document = serde_json::json!([self.program, self.variables]);
        Digest::of(document.to_string().as_bytes()).to_string()
    }

    /// Notes for this user that a folder's machine belongs to them.
    pub(super) fn note(&self, folder: &Path) -> io::Result<()> {
        let note = note_of(folder)?;
        note.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(note, self.command())
    }

    /// Returns whether this user has rented a folder's machine with this program.
    pub(super) fn is_noted(&self, folder: &Path) -> bool {
        let noted = note_of(folder).and_then(fs::read_to_string);
        noted.is_ok_and(|noted| noted == self.command())
    }
}

/// Removes the note on a folder's machine, because the machine is gone.
pub(super) fn forget(folder: &Path) {
    // A note that remains names a machine whose meter says that it is gone.
    let _stays = note_of(folder).and_then(fs::remove_file);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(state: State, owner: ProcessId) -> Meter {
        Meter {
            experiment: "study".to_owned(),
            state,
            owner,
            keeper: None,
            scope: Scope::here().unwrap(),
            since: 1000,
            until: 1000 + 5400,
            cost_per_hour: 4.0,
            currency: "EUR".to_owned(),
            program: "terraform".into(),
            variables: Vec::new(),
        }
    }

    #[test]
    fn an_hour_and_a_half_costs_one_and_a_half_times_the_hour() {
        let own = ProcessId::own().unwrap();
        assert!((meter(State::Rented, own).cost() - 6.0).abs() < 1e-12);
    }

    #[test]
    fn a_machine_is_left_if_its_owner_and_its_keeper_are_gone_or_the_host_was_started_again() {
        let own = ProcessId::own().unwrap();
        let dead = ProcessId {
            start_time: own.start_time + 1,
            ..own
        };
        let mut one = meter(State::Rented, own);
        assert!(!one.is_left().unwrap());
        one.owner = dead;
        assert!(one.is_left().unwrap());
        one.keeper = Some(own);
        assert!(!one.is_left().unwrap());
        one.scope.boot = "earlier".to_owned();
        assert!(one.is_left().unwrap());
        one.state = State::Gone;
        assert!(!one.is_left().unwrap());
        let mut other = meter(State::Stuck, dead);
        other.scope.namespace = "elsewhere".to_owned();
        assert!(!other.is_left().unwrap());
    }

    #[test]
    fn a_meter_that_cannot_be_read_is_reported_and_an_empty_folder_is_not() {
        let store = tempfile::tempdir().unwrap();
        let folder = new_folder(store.path()).unwrap();
        assert!(all(store.path()).unwrap().is_empty());
        meter(State::Gone, ProcessId::own().unwrap())
            .write(&folder)
            .unwrap();
        assert_eq!(all(store.path()).unwrap().len(), 1);
        fs::write(folder.join(METER), "{").unwrap();
        assert!(all(store.path()).is_err());
    }
}
