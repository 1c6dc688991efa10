//! Tracks everything that a process starts, so that all of it can be stopped.
//!
//! A process group is not enough, because a child may start a session of its own and leave the group. So every process
//! started for a resource lives in its own control group where this process may create one. It also carries a mark in
//! its environment, which its children inherit, and this process adopts orphaned descendants. Without a control group,
//! a process that left the group is found by its mark. A process that also cleared its environment is found as our
//! child that this program did not start.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use artifacts::lock;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, set_child_subreaper,
    waitpid,
};

use crate::cgroup;
use crate::process::{ProcessId, ProcessStat, namespace, stat};

/// The variable that carries the mark.
pub(crate) const MARK: &str = "BENCHTRAIL_LEASE";

/// How long killed processes may take to vanish.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);

/// The processes that are currently enclosed.
static OPEN: Mutex<BTreeSet<ProcessId>> = Mutex::new(BTreeSet::new());

/// Returns the mark of a process of this namespace, which is unique within this boot: `PID-START-NAMESPACE`.
pub fn mark(process: ProcessId) -> String {
    let ProcessId { pid, start_time } = process;
    // Without `/proc`, no process is looked for either.
    let namespace = namespace().unwrap_or_default();
    format!("{pid}-{start_time}-{namespace}")
}

/// Reads a mark: the process and its namespace.
pub(crate) fn read_mark(text: &str) -> Option<(ProcessId, u64)> {
    let mut parts = text.splitn(3, '-');
    let (pid, start_time) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some((ProcessId { pid, start_time }, parts.next()?.parse().ok()?))
}

/// From now on, this process adopts its children's orphans.
pub(crate) fn adopt() {
    // If the kernel does not allow it, a process that cleared its environment is not found. The mark still finds the
    // others.
    let _refused = set_child_subreaper(Some(Pid::INIT));
}

/// A process started through [`crate::process::Spawner`], with everything that it starts.
#[derive(Debug)]
pub struct Enclosure {
    process: ProcessId,
}

impl Enclosure {
    /// Encloses a child.
    ///
    /// # Errors
    /// If the process does not exist, or `/proc` is not readable.
    pub fn of(pid: u32) -> io::Result<Self> {
        let stat = stat(pid)?;
        let process = stat
            .ok_or_else(|| io::Error::other(format!("process {pid} has already ended")))?
            .id;
        lock(&OPEN).insert(process);
        Ok(Self { process })
    }

    /// Kills everything left in it; the child itself has already been stopped and reaped.
    ///
    /// # Errors
    /// If `/proc` is not readable, or a process survives SIGKILL for ten seconds.
    pub fn empty(&self) -> io::Result<()> {
        // An adopted process without a mark may belong to any enclosure.
        let alone = lock(&OPEN).iter().all(|process| *process == self.process);
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

    /// Returns its own control group, if any. The child creates it, so it may not exist yet.
    fn group(&self) -> Option<PathBuf> {
        cgroup::of(self.process)
    }
}

impl Drop for Enclosure {
    fn drop(&mut self) {
        lock(&OPEN).remove(&self.process);
        if let Some(group) = self.group() {
            cgroup::remove(&group);
        }
    }
}

/// Kills what an earlier process left behind, including everything in its control group if it had one. Returns whether
/// anything was left.
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
    let survived = !find()?.is_empty();
    if survived {
        kill_all(find)?;
    }
    if let Some(group) = group {
        cgroup::remove(group);
    }
    Ok(survived)
}

/// Kills the processes from `find` until it returns none, because a process may start another meanwhile.
fn kill_all(find: impl Fn() -> io::Result<Vec<ProcessStat>>) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let alive = find()?;
        let Some(first) = alive.first() else {
            return Ok(());
        };
        if Instant::now() >= deadline {
            let message = format!("process {} survived SIGKILL", first.id.pid);
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        for process in &alive {
            kill(process)?;
        }
        std::thread::sleep(POLL);
        for process in alive {
            reap_adopted(&process);
        }
    }
}

/// Kills exactly this process, not a later one with the same number.
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

/// Reaps a process that was adopted and killed.
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
        // The environment of another user's process, or of a process that has just ended, is not readable.
        fs::read(format!("/proc/{}/environ", process.id.pid))
            .is_ok_and(|text| text.split(|b| *b == 0).any(|e| e == entry.as_bytes()))
    })
}

/// Returns the running processes in a control group.
fn in_group(folder: &Path) -> io::Result<Vec<ProcessStat>> {
    let mut members = Vec::new();
    for pid in cgroup::members(folder)? {
        members.extend(stat(pid)?.filter(ProcessStat::is_running));
    }
    Ok(members)
}

/// Returns running children of this process in other sessions that this program did not start.
fn adopted() -> io::Result<Vec<ProcessStat>> {
    let own = std::process::id();
    let session = stat(own)?.map(|s| s.session);
    let started: Vec<u32> = lock(&OPEN).iter().map(|process| process.pid).collect();
    running(|process| {
        Some(process.session) != session
            && !started.contains(&process.id.pid)
            && !started.contains(&process.session)
            && process.parent == own
    })
}

fn running(wanted: impl Fn(&ProcessStat) -> bool) -> io::Result<Vec<ProcessStat>> {
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        if let Some(process) = stat(pid)?
            && process.is_running()
            && pid != std::process::id()
            && wanted(&process)
        {
            processes.push(process);
        }
    }
    Ok(processes)
}
