//! Child processes that cannot outlive us: each has its own session and process group, is killed by the kernel when we
//! die, and is stopped with everything it started.
//!
//! Doing this setup between fork and exec would need `unsafe`. Instead, the binary executes itself with a hidden
//! subcommand (`benchtrail __exec OWNER -- program arguments…`), which applies the settings to itself and then becomes
//! the program. `src/main.rs` only forwards to [`exec_child`].

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use crate::{cgroup, enclosure};

mod limited;

pub use limited::{Limits, Ran, run_within};

/// The hidden subcommand's name.
pub const EXEC_COMMAND: &str = "__exec";

/// How often to check a stopping process.
const POLL: Duration = Duration::from_millis(10);

/// Returns the number of the process namespace of this process: process numbers are valid only within it, and containers
/// of one machine may share a store.
///
/// # Errors
/// If `/proc` is not readable.
pub fn namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")
        .map_err(without_proc)?
        .ino())
}

/// Says that `/proc` is not mounted if its files are not found.
pub(crate) fn without_proc(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::NotFound => io::Error::new(
            error.kind(),
            "`/proc` is not mounted; without it, Benchtrail cannot find the processes that it starts",
        ),
        _ => error,
    }
}

/// A process, identified so that a later process with the same number is not mistaken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessId {
    /// The process number.
    pub pid: u32,
    /// The start time in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub start_time: u64,
}

/// The fields of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    /// The process number and start time.
    pub id: ProcessId,
    /// The state letter; `Z` and `X` are dead.
    pub state: char,
    /// The process group.
    pub pgid: u32,
    /// The session.
    pub session: u32,
    /// The process that created or adopted it.
    pub parent: u32,
}

impl ProcessId {
    /// Returns this process.
    ///
    /// # Errors
    /// If `/proc` is not readable.
    pub fn own() -> io::Result<Self> {
        let pid = std::process::id();
        Ok(stat(pid)?
            .ok_or_else(|| without_proc(io::ErrorKind::NotFound.into()))?
            .id)
    }

    /// Returns whether exactly this process is still running.
    ///
    /// # Errors
    /// If `/proc` is not readable.
    pub fn is_alive(self) -> io::Result<bool> {
        Ok(stat(self.pid)?.is_some_and(|s| s.id == self && s.is_running()))
    }
}

impl ProcessStat {
    /// Returns whether the process still runs (is neither a zombie nor dead).
    pub fn is_running(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }

    fn parse(pid: u32, text: &str) -> Option<Self> {
        // The second field is the name in parentheses, which may contain any character.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        Some(Self {
            id: ProcessId {
                pid,
                start_time: fields.get(19)?.parse().ok()?,
            },
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            pgid: fields.get(2)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
        })
    }
}

/// Returns the kernel's data on a process; `None` if no process has this number.
///
/// # Errors
/// If `/proc` is not readable or has unexpected content.
pub fn stat(pid: u32) -> io::Result<Option<ProcessStat>> {
    let path = format!("/proc/{pid}/stat");
    match fs::read_to_string(&path) {
        // The process is dead and about to vanish; it no longer has a group.
        Ok(text)
            if text
                .rsplit_once(')')
                .is_some_and(|(_, rest)| rest.starts_with(" X")) =>
        {
            Ok(None)
        }
        Ok(text) => ProcessStat::parse(pid, &text)
            .map(Some)
            .ok_or_else(|| io::Error::other(format!("{path} has an unexpected form: {text:?}"))),
        // Reading the file of a process that is ending gives ESRCH.
        Err(e) if e.kind() == io::ErrorKind::NotFound || is_esrch(&e) => Ok(None),
        Err(e) => Err(e),
    }
}

fn is_esrch(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// Returns the running processes of a process group (zombies are not running).
///
/// # Errors
/// If `/proc` is not readable.
pub fn group_members(pgid: u32) -> io::Result<Vec<ProcessStat>> {
    let mut members = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        if let Some(s) = stat(pid)?
            && s.pgid == pgid
            && s.is_running()
        {
            members.push(s);
        }
    }
    Ok(members)
}

fn signal_group(pgid: u32, signal: Signal) -> io::Result<()> {
    // Group 0 would be our own, group 1 every process.
    let group = i32::try_from(pgid)
        .ok()
        .filter(|p| *p > 1)
        .and_then(Pid::from_raw);
    let group = group.ok_or_else(|| {
        io::Error::other(format!(
            "{pgid} is not a process group that can be \
            signalled"
        ))
    })?;
    match rustix::process::kill_process_group(group, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Stops a whole process group: sends SIGTERM, then SIGKILL after `grace`, and returns when no member is running. Our
/// own children must be reaped by their owner; see [`stop`].
///
/// # Errors
/// If the group may not be signalled, or is still running 10 s after SIGKILL.
pub fn kill_group(pgid: u32, grace: Duration) -> io::Result<()> {
    signal_group(pgid, Signal::TERM)?;
    if wait_until_empty(pgid, grace)? {
        return Ok(());
    }
    signal_group(pgid, Signal::KILL)?;
    if wait_until_empty(pgid, Duration::from_secs(10))? {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        format!("process group {pgid} survived SIGKILL"),
    ))
}

fn wait_until_empty(pgid: u32, limit: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + limit;
    loop {
        if group_members(pgid)?.is_empty() {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        std::thread::sleep(POLL);
    }
}

/// Asks one process to end with SIGINT, as Ctrl-C in its terminal would, but without its group.
///
/// # Errors
/// If it may not be signalled. A process that has ended is not an error.
pub fn interrupt(pid: u32) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("no such process number"))?;
    match rustix::process::kill_process(pid, Signal::INT) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Stops a child made by a [`Spawner`] with its whole process group, and reaps it.
///
/// # Errors
/// Same as [`kill_group`].
pub fn stop(child: &mut Child, grace: Duration) -> io::Result<ExitStatus> {
    // The child's number names the group even after the child was reaped, as long as another member is alive. Without
    // members, the signal has no target.
    if child.try_wait()?.is_none() || !group_members(child.id())?.is_empty() {
        kill_group(child.id(), grace)?;
    }
    if child.try_wait()?.is_none() {
        // The child was stopped between fork and `setsid`: the signalled group did not exist yet, and the child got no
        // signal.
        child.kill()?;
    }
    child.wait()
}

/// Starts programs that cannot outlive us.
///
/// The kernel's parent-death signal fires when the *thread* that created a child ends. So one thread, which lives as
/// long as the spawner, creates all children. Keep the spawner as long as you need its children; dropping it kills
/// them.
pub struct Spawner {
    exe: PathBuf,
    requests: Option<Mutex<Sender<Request>>>,
    thread: Option<JoinHandle<()>>,
}

struct Request {
    command: Command,
    reply: Sender<io::Result<Child>>,
}

impl Spawner {
    /// Makes a spawner that goes through `exe`, a binary that forwards [`EXEC_COMMAND`] to
    /// [`exec_child`]: normally [`std::env::current_exe`].
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn new(exe: PathBuf) -> io::Result<Self> {
        enclosure::adopt();
        let (requests, inbox): (Sender<Request>, Receiver<Request>) = channel();
        let thread = std::thread::Builder::new()
            .name("spawner".to_owned())
            .spawn(move || {
                for mut request in inbox {
                    // If the requester is gone, nothing owns the child, so it is killed.
                    if let Err(unclaimed) = request.reply.send(request.command.spawn())
                        && let Ok(mut child) = unclaimed.0
                    {
                        let _ = stop(&mut child, Duration::ZERO);
                    }
                }
            })?;
        Ok(Self {
            exe,
            requests: Some(Mutex::new(requests)),
            thread: Some(thread),
        })
    }

    /// Returns a command that will become `program`: add arguments, environment, directory and standard streams, then
    /// pass it to [`Spawner::spawn`]. A program that cannot be executed ends with code 127 and prints the reason to its
    /// standard error.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(&self.exe);
        command
            .arg(EXEC_COMMAND)
            .arg(std::process::id().to_string())
            .arg("--")
            .arg(program);
        command
    }

    /// Starts a command made by [`Spawner::command`]. The child's number is also the number
    /// of its process group and session. Stop it with [`stop`].
    ///
    /// # Errors
    /// If the process cannot be created.
    pub fn spawn(&self, command: Command) -> io::Result<Child> {
        let (reply, answer) = channel();
        let gone = || io::Error::other("the spawner thread has ended");
        let requests = self.requests.as_ref().ok_or_else(gone)?;
        requests
            .lock()
            .map_err(|_| gone())?
            .send(Request { command, reply })
            .map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The hidden subcommand could not become the program; the process exits with code 127.
#[derive(Debug)]
pub enum ExecError {
    /// The arguments are not `OWNER -- program arguments…`.
    Usage,
    /// The requesting process has already ended.
    Orphaned,
    /// The kernel rejected the session or the death signal.
    Setup(io::Error),
    /// The program cannot be executed.
    Exec(OsString, io::Error),
}

impl fmt::Display for ExecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage => write!(f, "usage: {EXEC_COMMAND} OWNER -- PROGRAM [ARGUMENT…]"),
            Self::Orphaned => f.write_str("the process that requested this program has ended"),
            Self::Setup(error) => write!(f, "cannot bind the process to its owner: {error}"),
            Self::Exec(program, error) => {
                write!(f, "cannot execute {}: {error}", program.display())
            }
        }
    }
}

impl std::error::Error for ExecError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Setup(error) | Self::Exec(_, error) => Some(error),
            Self::Usage | Self::Orphaned => None,
        }
    }
}

/// Becomes the program named by the arguments that follow [`EXEC_COMMAND`], in its own session and process group. The
/// kernel kills it when its owner dies.
///
/// # Errors
/// Always, if the function returns at all.
pub fn exec_child(arguments: impl IntoIterator<Item = OsString>) -> Result<Infallible, ExecError> {
    let mut arguments = arguments.into_iter();
    let owner: u32 = arguments
        .next()
        .and_then(|a| a.to_str().and_then(|a| a.parse().ok()))
        .filter(|_| arguments.next().is_some_and(|a| a == "--"))
        .ok_or(ExecError::Usage)?;
    let program = arguments.next().ok_or(ExecError::Usage)?;
    rustix::process::setsid().map_err(|e| ExecError::Setup(e.into()))?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|e| ExecError::Setup(e.into()))?;
    // If the owner died before this point, no signal will come.
    let parent = rustix::process::getppid().map(|p| p.as_raw_pid());
    if parent.and_then(|p| u32::try_from(p).ok()) != Some(owner) {
        return Err(ExecError::Orphaned);
    }
    let own = ProcessId::own().map_err(ExecError::Setup)?;
    cgroup::enter(own);
    let error = Command::new(&program)
        .args(arguments)
        .env(enclosure::MARK, enclosure::mark(own))
        .exec();
    Err(ExecError::Exec(program, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_confuse_the_stat_line() {
        let rest = "S 1 77 78 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 1";
        let stat = ProcessStat::parse(5, &format!("5 (a) b (c)) {rest}")).unwrap();
        assert_eq!(
            stat.id,
            ProcessId {
                pid: 5,
                start_time: 987_654
            }
        );
        assert_eq!((stat.state, stat.pgid, stat.session), ('S', 77, 78));
    }

    #[test]
    fn this_process_is_alive_and_one_of_another_start_time_is_not() {
        let own = ProcessId::own().unwrap();
        assert!(own.is_alive().unwrap());
        assert!(
            !ProcessId {
                start_time: own.start_time + 1,
                ..own
            }
            .is_alive()
            .unwrap()
        );
    }

    #[test]
    fn our_own_group_and_everybody_are_refused_as_targets() {
        assert!(kill_group(0, Duration::ZERO).is_err());
        assert!(kill_group(1, Duration::ZERO).is_err());
    }
}
