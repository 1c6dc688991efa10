//! Lease files: which process belongs to which live resource. With them, a run can stop processes that an earlier run
//! left behind when it was killed without warning.
//!
//! A kind that starts a process calls [`Leases::register`] immediately afterwards. The file
//! `<store>/leases/PID-START-NAMESPACE.json` exists as long as the returned guard. [`reap_orphans`] stops every process whose
//! file exists although its owner is gone.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cgroup;
use crate::enclosure::mark;
use crate::process::{ProcessId, group_members, kill_group, stat, without_proc};
use crate::temporary::{claim, remove_of_dead};

/// How long an orphan may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(3);

/// Writes lease files for one cell.
#[derive(Clone, Debug)]
pub struct Leases {
    folder: PathBuf,
    experiment: String,
    cell: String,
}

/// The content of a lease file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseDocument {
    /// The process that runs for us.
    pub process: ProcessId,
    /// Its process group.
    pub pgid: u32,
    /// The process that started it.
    pub owner: ProcessId,
    /// The experiment it was started for.
    pub experiment: String,
    /// The cell it was started for.
    pub cell: String,
    /// The boot of the machine and the process namespace in which the process numbers are valid.
    pub scope: Scope,
    /// The folder of its control group, where it may have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<PathBuf>,
    /// The command that ends what the process handed to another service: a container stays alive when the client that
    /// started it is gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removal: Vec<String>,
}

/// The scope in which process numbers are valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// The kernel's boot id.
    pub boot: String,
    /// The process namespace.
    pub namespace: String,
}

impl Scope {
    /// Returns the scope of this process.
    ///
    /// # Errors
    /// If `/proc` is not readable.
    pub fn here() -> io::Result<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map_err(without_proc)?
            .trim()
            .to_owned();
        let namespace = fs::read_link("/proc/self/ns/pid")
            .map_err(without_proc)?
            .to_string_lossy()
            .into_owned();
        Ok(Self { boot, namespace })
    }
}

/// A lease file. Dropping it removes the file and the control group of its process, so drop it after the process has
/// stopped.
#[derive(Debug)]
pub struct LeaseFile {
    path: PathBuf,
    group: Option<PathBuf>,
}

impl Drop for LeaseFile {
    fn drop(&mut self) {
        // A leftover file is harmless: the next run finds its process gone and removes it.
        let _ = fs::remove_file(&self.path);
        if let Some(group) = &self.group {
            cgroup::remove(group);
        }
    }
}

/// Returns the folder of the lease files in a store.
pub fn leases_folder(store_root: &Path) -> PathBuf {
    store_root.join("leases")
}

impl Leases {
    /// Makes a writer of lease files for a cell.
    pub fn new(store_root: &Path, experiment: impl Into<String>, cell: impl Into<String>) -> Self {
        Self {
            folder: leases_folder(store_root),
            experiment: experiment.into(),
            cell: cell.into(),
        }
    }

    /// Notes that the process `pid` (leader of its own process group) runs for this cell.
    ///
    /// # Errors
    /// If the process does not exist, or the file cannot be written.
    pub fn register(&self, pid: u32) -> io::Result<LeaseFile> {
        self.register_with(pid, Vec::new())
    }

    /// Notes the same, with the command that ends what stays alive when the process is gone.
    ///
    /// # Errors
    /// Same as [`Leases::register`].
    pub fn register_with(&self, pid: u32, removal: Vec<String>) -> io::Result<LeaseFile> {
        let process = stat(pid)?
            .ok_or_else(|| io::Error::other(format!("process {pid} has already ended")))?;
        let document = LeaseDocument {
            process: process.id,
            // A newly forked child may not have called `setsid` yet, but its group will have its own number in any
            // case.
            pgid: pid,
            owner: ProcessId::own()?,
            experiment: self.experiment.clone(),
            cell: self.cell.clone(),
            scope: Scope::here()?,
            group: cgroup::place_of(process.id),
            removal,
        };
        fs::create_dir_all(&self.folder)?;
        let path = self.folder.join(format!("{}.json", mark(process.id)));
        let owner = mark(document.owner);
        let temporary = self.folder.join(format!("{owner}-{pid}.tmp"));
        let mut file = fs::File::create(&temporary)?;
        while !claim(&temporary)? {
            file = fs::File::create(&temporary)?;
        }
        file.write_all(&serde_json::to_vec_pretty(&document)?)?;
        fs::rename(&temporary, &path)?;
        let group = document.group;
        Ok(LeaseFile { path, group })
    }
}

/// A lease file without a living owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reaped {
    /// The content of the file.
    pub document: LeaseDocument,
    /// Whether any process was still running and had to be stopped.
    pub stopped: bool,
}

/// Stops processes whose owner is gone, and removes their lease files. Ignores a process number that now belongs to
/// another process, and every lease of another process namespace (a container that shares the store).
///
/// # Errors
/// If `/proc` or the folder is not readable, or a process cannot be stopped.
pub fn reap_orphans(store_root: &Path) -> io::Result<Vec<Reaped>> {
    let here = Scope::here()?;
    cgroup::sweep();
    let mut reaped = Vec::new();
    let entries = match fs::read_dir(leases_folder(store_root)) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(reaped),
        Err(e) => return Err(e),
    };
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|e| e != "json") {
            remove_abandoned(&path)?;
            continue;
        }
        let document: LeaseDocument =
            match artifacts::regular::read(&path).map(|b| serde_json::from_slice(&b)) {
                Ok(Ok(document)) => document,
                // Our files are renamed into place complete, so this is not one of ours.
                Ok(Err(_)) => continue,
                // A FIFO or a device is not one of ours either.
                Err(_) if !path.is_file() && path.exists() => continue,
                // Its owner removed it first.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(e),
            };
        if let Some(stopped) = reap(&document, &here)? {
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => reaped.push(Reaped { document, stopped }),
            }
        }
    }
    reaped.sort_by_key(|r| r.document.process.pid);
    Ok(reaped)
}

/// Removes a file whose writer died before renaming it.
fn remove_abandoned(path: &Path) -> io::Result<()> {
    let name = path
        .file_name()
        .and_then(|n| n.to_str())
        .and_then(|n| n.strip_suffix(".tmp"));
    let writer = name.and_then(|n| {
        let mut parts = n.split('-');
        Some(ProcessId {
            pid: parts.next()?.parse().ok()?,
            start_time: parts.next()?.parse().ok()?,
        })
    });
    match writer {
        Some(writer) => remove_of_dead(path, writer),
        None => Ok(()),
    }
}

/// Returns `None` if the lease is not ours to touch, otherwise whether a process was stopped.
fn reap(document: &LeaseDocument, here: &Scope) -> io::Result<Option<bool>> {
    if document.scope.boot != here.boot {
        return Ok(Some(false));
    }
    if document.scope.namespace != here.namespace || document.owner.is_alive()? {
        return Ok(None);
    }
    let leader_is_other = stat(document.process.pid)?.is_some_and(|s| s.id != document.process);
    // While any member of a group lives, its number is not given to a new process. So if the leader is gone, members in
    // the leader's own session that are younger than it are its children.
    let members = group_members(document.pgid)?;
    let ours = !leader_is_other
        && members
            .iter()
            .any(|s| s.session == document.pgid && s.id.start_time >= document.process.start_time);
    if ours {
        kill_group(document.pgid, GRACE)?;
    }
    // Remove the container first: a runtime that was killed under its container can no longer remove it.
    let removed = remove(&document.removal);
    // Processes that left the group are still in the control group, or carry the mark.
    let group = document.group.as_deref();
    let group = group.filter(|folder| cgroup::is_of(folder, document.process));
    let left = crate::enclosure::kill_left_behind(document.process, group)?;
    Ok(Some(ours || left || removed))
}

/// Ends what a process handed to another service; returns whether there was anything to end.
fn remove(command: &[String]) -> bool {
    let Some((program, arguments)) = command.split_first() else {
        return false;
    };
    // If it was already removed, the command fails, which is not a failure of this run.
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(process: ProcessId, owner: ProcessId) -> LeaseDocument {
        let scope = Scope::here().unwrap();
        LeaseDocument {
            process,
            pgid: process.pid,
            owner,
            experiment: "study".into(),
            cell: "server[]".into(),
            scope,
            group: None,
            removal: Vec::new(),
        }
    }

    #[test]
    fn a_lease_of_a_living_owner_is_left_alone() {
        let own = ProcessId::own().unwrap();
        assert_eq!(
            reap(&document(own, own), &Scope::here().unwrap()).unwrap(),
            None
        );
    }

    #[test]
    fn a_process_number_in_new_hands_is_not_killed() {
        let own = ProcessId::own().unwrap();
        let gone = ProcessId {
            start_time: own.start_time + 1,
            ..own
        };
        // The lease names our own number with another start time; killing that process would end this test.
        assert_eq!(
            reap(&document(gone, gone), &Scope::here().unwrap()).unwrap(),
            Some(false)
        );
    }

    #[test]
    fn a_lease_that_a_process_of_another_namespace_writes_stays_and_that_of_a_dead_one_goes() {
        let folder = tempfile::tempdir().unwrap();
        let own = ProcessId::own().unwrap();
        // The number means nothing here, as that of a process in another container.
        let written = folder
            .path()
            .join(format!("{}-{}-1-7.tmp", own.pid, own.start_time + 1));
        fs::write(&written, "{").unwrap();
        let open = fs::File::open(&written).unwrap();
        open.lock().unwrap();
        remove_abandoned(&written).unwrap();
        assert!(written.is_file());
        drop(open);
        remove_abandoned(&written).unwrap();
        assert!(!written.exists());
    }

    #[test]
    fn a_lease_of_an_earlier_boot_is_removed_without_killing() {
        let own = ProcessId::own().unwrap();
        let mut document = document(own, own);
        document.scope.boot = "earlier".into();
        assert_eq!(
            reap(&document, &Scope::here().unwrap()).unwrap(),
            Some(false)
        );
    }
}
