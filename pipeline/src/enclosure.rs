//! Everything that a process starts, so that all of it can be stopped.
//!
//! A process group is not enough: a child may start a session of its own and leave the group.
//! So every process that is started for a resource lives in a control group of its own where this
//! process may make one. It also carries a mark in its environment, which
//! its children inherit, and this process adopts whatever its children leave behind. Without a
//! control group, a process that left the group is found by its mark; one that also cleared its
//! environment is found as our child that nobody here started.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, set_child_subreaper,
    waitpid,
};

use crate::cgroup;
use crate::process::{ProcessId, ProcessStat, stat};

/// The variable that carries the mark.
pub(crate) const MARK: &str = "BENCHTRAIL_LEASE";

/// How long processes that were killed may take to vanish.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);

/// The processes that are enclosed now.
static OPEN: Mutex<BTreeSet<ProcessId>> = Mutex::new(BTreeSet::new());

fn open() -> MutexGuard<'static, BTreeSet<ProcessId>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the mark of a process: no other one of this boot ever had it.
pub fn mark(process: ProcessId) -> String {
    format!("{}-{}", process.pid, process.start_time)
}

/// From now on this process adopts what its children leave behind.
pub(crate) fn adopt() {
    // Where the kernel refuses, a process that cleared its environment is not found; the mark
    // finds the others.
    let _refused = set_child_subreaper(Some(Pid::INIT));
}

/// A process that was started through [`crate::process::Spawner`], with all that it starts.
#[derive(Debug)]
pub struct Enclosure {
    process: ProcessId,
}

impl Enclosure {
    /// Encloses a child.
    ///
    /// # Errors
    /// If there is no such process, or `/proc` is not readable.
    pub fn of(pid: u32) -> io::Result<Self> {
        let found = stat(pid)?;
        let process = found
            .ok_or_else(|| io::Error::other(format!("process {pid} has already ended")))?
            .id;
        open().insert(process);
        Ok(Self { process })
    }

    /// Kills whatever is left in it; the child itself was stopped and reaped before.
    ///
    /// # Errors
    /// If `/proc` is not readable, or a process survives SIGKILL for ten seconds.
    pub fn empty(&self) -> io::Result<()> {
        // What was adopted and carries no mark may be of any enclosure.
        let alone = open().iter().all(|process| *process == self.process);
        let mark = mark(self.process);
        kill_all(|| {
            let mut left = marked(&mark)?;
            if alone {
                left.extend(adopted()?);
            }
            if let Some(group) = self.group() {
                left.extend(in_group(&group)?);
            }
            Ok(left)
        })
    }

    /// The control group of its own, if it has one: made by the child, so it may not be there yet.
    fn group(&self) -> Option<PathBuf> {
        cgroup::of(self.process)
    }
}

impl Drop for Enclosure {
    fn drop(&mut self) {
        open().remove(&self.process);
        if let Some(group) = self.group() {
            cgroup::remove(&group);
        }
    }
}

/// Kills what an earlier process left behind, in the control group that it had if it had one; returns
/// whether there was something.
///
/// # Errors
/// If `/proc` is not readable, or a process survives SIGKILL for ten seconds.
pub(crate) fn kill_left_behind(process: ProcessId, group: Option<&Path>) -> io::Result<bool> {
    let mark = mark(process);
    let find = || {
        let mut left = marked(&mark)?;
        if let Some(group) = group {
            left.extend(in_group(group)?);
        }
        Ok(left)
    };
    let found = !find()?.is_empty();
    if found {
        kill_all(find)?;
    }
    if let Some(group) = group {
        cgroup::remove(group);
    }
    Ok(found)
}

/// Kills what `find` finds until it finds nothing: a process may start another meanwhile.
fn kill_all(find: impl Fn() -> io::Result<Vec<ProcessStat>>) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = find()?;
        let Some(first) = found.first() else {
            return Ok(());
        };
        if Instant::now() >= deadline {
            let message = format!("process {} survived SIGKILL", first.id.pid);
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        for process in &found {
            kill(process)?;
        }
        std::thread::sleep(POLL);
        for process in found {
            reap_adopted(&process);
        }
    }
}

/// Kills this very process, not a later one of the same number.
fn kill(process: &ProcessStat) -> io::Result<()> {
    let Some(handle) = handle_of(process)? else {
        return Ok(());
    };
    match pidfd_send_signal(&handle, Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

fn handle_of(process: &ProcessStat) -> io::Result<Option<OwnedFd>> {
    let Some(pid) = raw(process.id.pid) else {
        return Ok(None);
    };
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(rustix::io::Errno::SRCH) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let same = process.id.is_alive()?;
    Ok(same.then_some(handle))
}

fn raw(pid: u32) -> Option<Pid> {
    i32::try_from(pid)
        .ok()
        .filter(|p| *p > 1)
        .and_then(Pid::from_raw)
}

/// Takes the exit status of a process that was adopted and killed.
fn reap_adopted(process: &ProcessStat) {
    if stat(process.id.pid).is_ok_and(|s| s.is_some_and(|s| s.parent == std::process::id()))
        && let Some(pid) = raw(process.id.pid)
    {
        let _gone = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// Returns the running processes that carry a mark.
fn marked(mark: &str) -> io::Result<Vec<ProcessStat>> {
    let entry = format!("{MARK}={mark}");
    running(|process| {
        // The environment of another user's process, or of one that has just ended, is closed.
        fs::read(format!("/proc/{}/environ", process.id.pid))
            .is_ok_and(|text| text.split(|b| *b == 0).any(|e| e == entry.as_bytes()))
    })
}

/// Returns the running processes in a control group.
fn in_group(folder: &Path) -> io::Result<Vec<ProcessStat>> {
    let mut found = Vec::new();
    for pid in cgroup::members(folder)? {
        found.extend(stat(pid)?.filter(ProcessStat::is_running));
    }
    Ok(found)
}

/// Returns running children of this process in sessions of their own that nobody here started.
fn adopted() -> io::Result<Vec<ProcessStat>> {
    let own = std::process::id();
    let session = stat(own)?.map(|s| s.session);
    let known: Vec<u32> = open().iter().map(|process| process.pid).collect();
    running(|process| {
        Some(process.session) != session
            && !known.contains(&process.id.pid)
            && !known.contains(&process.session)
            && process.parent == own
    })
}

fn running(wanted: impl Fn(&ProcessStat) -> bool) -> io::Result<Vec<ProcessStat>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        if let Some(process) = stat(pid)?
            && process.is_running()
            && pid != std::process::id()
            && wanted(&process)
        {
            found.push(process);
        }
    }
    Ok(found)
}
