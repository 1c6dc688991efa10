//! Hosts of a pool: shards executed over SSH connections of this process.
//!
//! The connection is the host's only link to the run: it reads from the shared store and puts its records there through
//! the connection. When the connection ends or is silent, the host stops what it started. A killed run therefore leaves
//! nothing running.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use artifacts::lock;
use pipeline::Control;
use places::{Host, NamedHost, PULSE};
use remote::Remote;

use crate::queue::JobState;
use crate::tail;

/// The state of a shard that a host executes.
pub const RUNNING: &str = "RUNNING";
/// Another shard is running on the host.
pub const WAITING: &str = "WAITING";
/// The host is being reached.
const REACHING: &str = "REACHING";
/// The host could not be reached.
pub(crate) const UNREACHABLE: &str = "UNREACHABLE";
/// The connection ended before the shard did.
pub(crate) const LOST: &str = "LOST";
/// The run that looked after the shard ended before the shard did.
pub(crate) const LEFT: &str = "LEFT";

/// The states of a shard that ended through no fault of the shard.
pub(crate) const AWAY: [&str; 2] = [UNREACHABLE, LOST];

/// How long a lost host is left alone, the first time and at most.
const FIRST_REST: Duration = Duration::from_secs(3);
const LONGEST_REST: Duration = Duration::from_mins(10);

/// How often a connection checks whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// How long a host may take to stop.
const STOP_WAIT: Duration = Duration::from_secs(60);

/// Exit codes of a shard that was stopped on its host, and of a client whose connection broke.
const STOPPED: i32 = 130;
const CUT: i32 = 255;

/// A connection's knowledge of its shard.
#[derive(Clone, Debug)]
struct Now {
    state: String,
    reason: String,
    asked: Instant,
    began: Option<Instant>,
    ended: Option<Instant>,
}

/// A shard on a host.
#[derive(Debug)]
struct Running {
    name: String,
    host: String,
    now: Arc<Mutex<Now>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn state(&self, job: &str) -> JobState {
        let now = lock(&self.now);
        let until = now.ended.unwrap_or_else(Instant::now);
        let span = |from: Instant, to: Instant| to.saturating_duration_since(from);
        JobState {
            job: job.to_owned(),
            name: self.name.clone(),
            state: now.state.clone(),
            reason: now.reason.clone(),
            node: self.host.clone(),
            elapsed: now.began.map_or(String::new(), |at| clock(span(at, until))),
            waited: clock(span(now.asked, now.began.unwrap_or(until))),
            seconds: now.began.map(|at| span(at, until).as_secs_f64()),
            ..JobState::default()
        }
    }
}

/// A lost host: until when it is left alone, and for how long in total.
#[derive(Clone, Copy, Debug)]
struct Rest {
    until: Instant,
    length: Duration,
}

/// The shards that hosts execute for this process.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// Shards whose end the coordinator has not acknowledged yet.
    running: BTreeMap<String, Running>,
    /// The busy hosts, each with one shard.
    busy: BTreeSet<String>,
    rests: BTreeMap<String, Rest>,
}

/// The task of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Errand {
    /// The shared store, as this machine reaches it.
    pub(crate) url: String,
    pub(crate) run: String,
    pub(crate) shard: String,
    pub(crate) host: NamedHost,
    pub(crate) config: Option<PathBuf>,
    /// The file for the shard's output.
    pub(crate) log: PathBuf,
}

impl Pool {
    /// Starts a shard on a host; returns the job's name.
    pub(crate) fn start(&mut self, errand: Errand) -> String {
        let job = format!("{}/{}", errand.host.name, errand.shard);
        let now = Arc::new(Mutex::new(Now {
            state: REACHING.to_owned(),
            reason: String::new(),
            asked: Instant::now(),
            began: None,
            ended: None,
        }));
        let stop = Arc::new(AtomicBool::new(false));
        let running = Running {
            name: errand.shard.clone(),
            host: errand.host.name.clone(),
            now: Arc::clone(&now),
            stop: Arc::clone(&stop),
            thread: None,
        };
        self.busy.insert(running.host.clone());
        let began = std::thread::Builder::new()
            .name(job.clone())
            .spawn(move || {
                let (state, reason) = connection(&errand, &now, &stop);
                let mut now = lock(&now);
                now.state = state.to_owned();
                now.reason = reason;
                now.ended = Some(Instant::now());
            });
        let running = match began {
            Ok(thread) => Running {
                thread: Some(thread),
                ..running
            },
            Err(e) => {
                let mut now = lock(&running.now);
                now.state = UNREACHABLE.to_owned();
                now.reason = format!("this machine starts no more threads: {e}");
                drop(now);
                running
            }
        };
        self.running.insert(job.clone(), running);
        job
    }

    /// Returns whether a host executes no shard and was not lost a moment ago.
    pub(crate) fn is_free(&self, host: &str) -> bool {
        let rests = self
            .rests
            .get(host)
            .is_some_and(|rest| Instant::now() < rest.until);
        !self.busy.contains(host) && !rests
    }

    /// Returns whether no connection with an unacknowledged end is left.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Returns whether a host was lost, and has executed nothing since.
    pub(crate) fn is_away(&self, host: &str) -> bool {
        self.rests.contains_key(host)
    }

    /// Returns the states of the shards that this process executes, including ended ones that are not acknowledged yet.
    pub(crate) fn jobs(&self) -> Vec<JobState> {
        let state = |(job, running): (&String, &Running)| running.state(job);
        self.running.iter().map(state).collect()
    }

    /// Returns how long a shard has run, s; 0 if it does not run in this process.
    pub(crate) fn has_run(&self, job: &str) -> f64 {
        let running = self.running.get(job);
        running.map_or(0.0, |running| running.state(job).has_run())
    }

    /// Acknowledges that a shard has ended. Its host is then free for the next, or rests if it was lost.
    pub(crate) fn heard(&mut self, job: &str, state: &str) {
        let Some(mut running) = self.running.remove(job) else {
            return;
        };
        self.busy.remove(&running.host);
        if let Some(thread) = running.thread.take() {
            // The thread has reported everything; a panic in it is also its end.
            let _panicked = thread.join();
        }
        if AWAY.contains(&state) {
            let length = self
                .rests
                .get(&running.host)
                .map_or(FIRST_REST, |rest| (rest.length * 2).min(LONGEST_REST));
            let until = Instant::now() + length;
            self.rests
                .insert(running.host.clone(), Rest { until, length });
        } else {
            self.rests.remove(&running.host);
        }
    }

    /// Makes all hosts stop. Their records up to then still come back.
    pub(crate) fn stop(&self) {
        for running in self.running.values() {
            running.stop.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.stop();
        for running in self.running.values_mut() {
            if let Some(thread) = running.thread.take() {
                let _panicked = thread.join();
            }
        }
    }
}

/// Formats a duration as Slurm does.
pub(crate) fn clock(span: Duration) -> String {
    let seconds = span.as_secs();
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    match hours {
        0 => format!("{minutes}:{:02}", seconds % 60),
        _ => format!("{hours}:{minutes:02}:{:02}", seconds % 60),
    }
}

/// Executes a shard on a host, from start to end; returns its final state, and the reason.
fn connection(
    errand: &Errand,
    now: &Arc<Mutex<Now>>,
    stop: &Arc<AtomicBool>,
) -> (&'static str, String) {
    let control = Control::new(Arc::clone(stop), None, Box::new(|_| ()));
    let ended = |state: &'static str, reason: String| match stop.load(Ordering::Relaxed) {
        true => ("CANCELLED", String::new()),
        false => (state, reason),
    };
    let host = Host::reach_by(&errand.host.to_ssh(), errand.config.clone(), &control);
    let host = match host {
        Ok(host) => host,
        Err(failure) => return ended(UNREACHABLE, failure.reason),
    };
    let words = [
        "shard",
        errand.run.as_str(),
        errand.shard.as_str(),
        errand.host.name.as_str(),
    ];
    let served = Remote::open(&errand.url)
        .map_err(|e| e.to_string())
        .and_then(|remote| serve(&host.of_binary(&words), &remote, errand, now, stop));
    match served {
        Ok(Some(0)) => ("COMPLETED", String::new()),
        Ok(code) => {
            let last = last_line(&errand.log);
            match code {
                None | Some(CUT | STOPPED) => ended(LOST, last),
                Some(_) => ended("FAILED", last),
            }
        }
        Err(why) => ended(LOST, why),
    }
}

/// Starts the client and answers the host's requests until both ends are done; returns the exit code.
fn serve(
    command: &[String],
    remote: &Remote,
    errand: &Errand,
    now: &Arc<Mutex<Now>>,
    stop: &Arc<AtomicBool>,
) -> Result<Option<i32>, String> {
    let log = artifacts::regular::unlinked()
        .create(true)
        .append(true)
        .open(&errand.log)
        .map_err(|e| format!("{}: {e}", errand.log.display()))?;
    let (program, arguments) = command.split_first().ok_or("the command is empty")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        // Ctrl-C must reach only the run, which then asks the host to stop.
        .process_group(0)
        .spawn()
        .map_err(|e| format!("`{program}` cannot be started: {e}"))?;
    let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("the client has no pipes".to_owned());
    };
    let to = Arc::new(Mutex::new(Some(to)));
    let over = Arc::new(AtomicBool::new(false));
    let child = Arc::new(Mutex::new(child));
    let pulse = {
        let (to, over) = (Arc::clone(&to), Arc::clone(&over));
        let (child, stop) = (Arc::clone(&child), Arc::clone(stop));
        std::thread::spawn(move || beat(&to, &child, &stop, &over))
    };
    let tell = |what: &str| {
        let mut now = lock(now);
        if what == RUNNING {
            now.began = Some(Instant::now());
        }
        if [RUNNING, WAITING].contains(&what) {
            what.clone_into(&mut now.state);
        }
    };
    let kept = remote.keep(from, &Pipe(&to), &tell);
    // Closing the pipe ends whatever the host still does.
    drop(lock(&to).take());
    let status = loop {
        match lock(&child).try_wait() {
            Ok(None) => {}
            ended => break ended,
        }
        std::thread::sleep(LOOK);
    };
    over.store(true, Ordering::Relaxed);
    let _panicked = pulse.join();
    let status = status.map_err(|e| e.to_string())?;
    match (kept, status.and_then(|s| s.code())) {
        (_, Some(code)) => Ok(Some(code)),
        (Err(e), None) => Err(e.to_string()),
        (Ok(()), None) => Ok(None),
    }
}

/// The pipe to the client, as the keeper writes it.
struct Pipe<'a, W>(&'a Mutex<Option<W>>);

impl<W: Write> remote::Outlet for Pipe<'_, W> {
    fn send(&self, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        match lock(self.0).as_mut() {
            Some(pipe) => write(pipe).and_then(|()| pipe.flush()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

/// Keeps a connection alive. Asks the host to stop when the run stops, and ends the client if that takes too long.
fn beat<W: Write>(
    to: &Mutex<Option<W>>,
    child: &Mutex<Child>,
    stop: &AtomicBool,
    over: &AtomicBool,
) {
    let write = |sign: u8| {
        if let Some(pipe) = lock(to).as_mut() {
            // The client's end reports a broken pipe.
            let _broken = pipe.write_all(&[sign]).and_then(|()| pipe.flush());
        }
    };
    let mut next = Instant::now();
    let mut stopping: Option<Instant> = None;
    while !over.load(Ordering::Relaxed) {
        if stop.load(Ordering::Relaxed) && stopping.is_none() {
            write(remote::STOP);
            stopping = Some(Instant::now());
        }
        if stopping.is_some_and(|since| since.elapsed() > STOP_WAIT) {
            // The host notices the silence.
            let _ended = lock(child).kill();
            return;
        }
        if Instant::now() >= next {
            write(remote::BEAT);
            next = Instant::now() + PULSE;
        }
        std::thread::sleep(LOOK);
    }
}

/// How many bytes of an output are searched for its last line.
const LAST: usize = 16 << 10;

/// Returns the last line in the output of a shard or its client.
fn last_line(log: &Path) -> String {
    let bytes = tail::read(log, LAST).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let last = text.lines().rfind(|line| !line.trim().is_empty());
    last.unwrap_or("it printed nothing").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn execute(pool: &mut Pool, host: &str, state: &str) {
        let now = Now {
            state: state.to_owned(),
            reason: String::new(),
            asked: Instant::now(),
            began: None,
            ended: None,
        };
        let running = Running {
            name: "0001".to_owned(),
            host: host.to_owned(),
            now: Arc::new(Mutex::new(now)),
            stop: Arc::default(),
            thread: None,
        };
        pool.busy.insert(host.to_owned());
        pool.running.insert(format!("{host}/0001"), running);
    }

    #[test]
    fn a_host_is_free_after_its_shard_and_rests_after_it_was_lost() {
        let mut pool = Pool::default();
        execute(&mut pool, "a", "COMPLETED");
        assert!(!pool.is_free("a") && pool.is_free("b"));
        pool.heard("a/0001", "COMPLETED");
        assert!(pool.is_free("a") && !pool.is_away("a"));
        assert!(
            pool.is_idle() && pool.jobs().is_empty(),
            "the end of a shard is reported once"
        );
        execute(&mut pool, "a", LOST);
        pool.heard("a/0001", LOST);
        assert!(!pool.is_free("a") && pool.is_away("a"));
        let first = pool.rests["a"];
        pool.heard("a/0001", LOST);
        assert_eq!(pool.rests["a"].until, first.until, "it was lost once");
        execute(&mut pool, "a", UNREACHABLE);
        pool.heard("a/0001", UNREACHABLE);
        assert_eq!(pool.rests["a"].length, first.length * 2, "each time longer");
        execute(&mut pool, "a", "FAILED");
        pool.heard("a/0001", "FAILED");
        assert!(!pool.is_away("a"), "it answers");
    }

    #[test]
    fn spans_are_written_as_a_scheduler_writes_them() {
        assert_eq!(clock(Duration::from_secs(65)), "1:05");
        assert_eq!(clock(Duration::from_secs(3_661)), "1:01:01");
    }
}
