//! Whose lock a file is: the names of two experiment files may lead to the same lock.
//!
//! `a.yaml` with the profile `smoke` and `a.smoke.yaml` without one have the lock `a.smoke.lock`; `a.yaml` and `a.yml`
//! have the lock `a.lock`. Each would read the other's results as its own, and replace them.

use std::fmt;
use std::path::{Path, PathBuf};

use super::{Lock, LockError};
use crate::experiment::Experiment;
use crate::name::lock_file;

/// The largest experiment that is searched for its name, in bytes.
const MOST_BYTES: u64 = 16 << 20;

/// The owner of a lock that another experiment's file leads to as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    lock: PathBuf,
    experiment: String,
    profile: Option<String>,
    /// A second file with the name of this experiment.
    twin: Option<PathBuf>,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lock, experiment) = (self.lock.display(), &self.experiment);
        write!(f, "{lock} belongs to the experiment `{experiment}`")?;
        if let Some(profile) = &self.profile {
            write!(f, ", profile `{profile}`")?;
        }
        match &self.twin {
            Some(twin) => write!(f, ", and {} is named so, too", twin.display()),
            None => Ok(()),
        }
    }
}

/// Returns the path of an experiment's lock, see [`lock_file`].
pub fn lock_path(experiment: &Experiment) -> PathBuf {
    lock_file(&experiment.file, experiment.profile.as_deref())
}

impl Lock {
    /// Reads the lock of an experiment; `None` if it does not exist.
    ///
    /// # Errors
    /// If the file cannot be read, is not a lock, was edited, or belongs to another experiment.
    pub fn of_experiment(experiment: &Experiment) -> Result<Option<Self>, LockError> {
        let profile = experiment.profile.as_deref();
        let lock = Self::read(&lock_path(experiment))?;
        if let Some(lock) = &lock {
            lock.must_be_of(&experiment.file, profile)?;
        }
        Ok(lock)
    }

    /// Refuses a lock that was read for an experiment's file but belongs to another one. An experiment that was renamed
    /// in its file keeps its lock.
    ///
    /// # Errors
    /// If the lock belongs to another experiment, or to one of two files with the same name.
    pub fn must_be_of(&self, experiment: &Path, profile: Option<&str>) -> Result<(), LockError> {
        let twin = match self.profile.as_deref() == profile {
            true => match self.is_of_twin(experiment) {
                None => return Ok(()),
                Some(twin) => twin,
            },
            false => None,
        };
        Err(LockError::Other(Box::new(Owner {
            lock: lock_file(experiment, profile),
            experiment: self.experiment.clone(),
            profile: self.profile.clone(),
            twin,
        })))
    }

    /// Returns whether the lock may be that of the file with the same name and another ending, and that file if nothing
    /// tells the two apart.
    fn is_of_twin(&self, experiment: &Path) -> Option<Option<PathBuf>> {
        let ending = match experiment.extension()?.to_str()? {
            "yaml" => "yml",
            "yml" => "yaml",
            _ => return None,
        };
        let twin = experiment.with_extension(ending);
        if !twin.is_file() || name_in(&twin)? != self.experiment {
            return None;
        }
        match name_in(experiment) {
            Some(own) if own == self.experiment => Some(Some(twin)),
            _ => Some(None),
        }
    }
}

/// Returns the name that an experiment's file states in a line of its own.
fn name_in(file: &Path) -> Option<String> {
    let text = artifacts::regular::read_text_at_most(file, MOST_BYTES).ok()?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix("experiment:"))?;
    let value = value.split(" #").next().unwrap_or_default().trim();
    let quoted = |mark: char| value.strip_prefix(mark)?.strip_suffix(mark);
    let name = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Returns the complaint about a lock of the experiment `a` that is read for a file.
    fn complaint(file: &Path, written: Option<&str>, read: Option<&str>) -> Option<String> {
        let lock = Lock {
            experiment: "a".to_owned(),
            profile: written.map(str::to_owned),
            ..Lock::default()
        };
        lock.must_be_of(file, read).err().map(|e| e.to_string())
    }

    #[test]
    fn a_lock_of_another_profile_is_refused() {
        let file = Path::new("a.smoke.yaml");
        let said = complaint(file, Some("smoke"), None).unwrap();
        let start = "a.smoke.lock belongs to the experiment `a`, profile `smoke`; rename";
        assert!(said.starts_with(start), "{said}");
        let said = complaint(Path::new("a.yaml"), None, Some("smoke")).unwrap();
        assert!(said.contains("belongs to the experiment `a`;"), "{said}");
        assert_eq!(
            complaint(Path::new("a.yaml"), Some("smoke"), Some("smoke")),
            None
        );
        assert_eq!(complaint(file, None, None), None);
    }

    #[test]
    fn a_lock_of_a_file_with_another_ending_is_refused_and_a_renamed_experiment_keeps_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| fs::write(at(name), text).unwrap();
        write("a.yaml", "experiment: \"renamed\"  # was a\n");
        assert_eq!(complaint(&at("a.yaml"), None, None), None);
        write("a.yml", "services: {}\n");
        assert_eq!(complaint(&at("a.yaml"), None, None), None);
        write("a.yml", "experiment: a\n");
        let said = complaint(&at("a.yaml"), None, None).unwrap();
        assert!(said.contains("belongs to the experiment `a`;"), "{said}");
        assert_eq!(complaint(&at("a.yml"), None, None), None);
        write("a.yaml", "experiment: 'a'\n");
        let said = complaint(&at("a.yml"), None, None).unwrap();
        assert!(said.contains("a.yaml is named so, too;"), "{said}");
    }
}
