//! The processes of a load's generators: how they start, communicate and end.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, BufWriter, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pipeline::stage::Rates;

use super::assignment::Share;
use super::messages::{
    Account, GREETING, LONGEST_ROWS, LONGEST_WORD, Order, Sign, Word, read, write,
};
use super::{GENERATOR_COMMAND, Generators};
use crate::measure::instant_and_monotonic;
use crate::run::LoadError;

/// The largest number of received messages that may wait, over all generators.
const WORDS_WAITING: usize = 1;

/// The number of last lines kept of a generator's standard error, and the length of each.
const LAST_LINES: usize = 5;
const LONGEST_LINE: u64 = 400;

/// The time that a generator has to end after its last message.
const ENDING: Duration = Duration::from_secs(5);

/// The time between two checks whether it has ended.
const POLL: Duration = Duration::from_millis(5);

/// One generator.
pub(super) struct Member {
    child: Child,
    /// Closed after the last order.
    orders: Option<Sender<Order>>,
    last_lines: Arc<Mutex<Vec<String>>>,
    /// The time since its last message.
    silent: Duration,
    pub(super) stage: Stage,
    pub(super) sign: Sign,
    pub(super) figures: Option<(u64, Rates)>,
    /// Whether it runs on another host.
    pub(super) is_elsewhere: bool,
    /// The latest time received from its clock, with the local time of receipt.
    pub(super) clock: Option<(u64, u64)>,
    /// Whether it was asked for its rows.
    pub(super) is_asked: bool,
    /// The longest message that is accepted from it, in bytes.
    longest: Arc<AtomicU32>,
    /// Its account; `None` if it was lost.
    pub(super) account: Option<Account>,
}

/// The progress of a generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// It was started.
    Started,
    /// It is a generator of this version.
    Greeted,
    /// Its first requests are rendered.
    Prepared,
    /// Its warm-up requests are answered.
    Warm,
    /// All its requests have ended.
    Sent,
    /// It has sent its last message, or was lost.
    Over,
}

impl Member {
    /// Returns whether it has sent its last message, or was lost.
    pub(super) fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Sends it an order. If it is gone, its closed output shows that.
    pub(super) fn tell(&self, order: Order) {
        if let Some(orders) = &self.orders {
            let _gone = orders.send(order);
        }
    }

    /// Returns whether it gave a sign of life recently.
    pub(super) fn is_heard(&self) -> bool {
        self.silent < Duration::from_secs(1)
    }

    /// Waits until it ends, or kills it; returns its exit status and its last lines.
    fn end(&mut self, patience: Duration) -> (Option<ExitStatus>, String) {
        self.orders = None;
        let until = Instant::now() + patience;
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if Instant::now() < until => thread::sleep(POLL),
                Ok(None) | Err(_) => {
                    let _ended = self.child.kill();
                    let _reaped = self.child.wait();
                    break None;
                }
            }
        };
        // The thread that reads its lines may be slightly behind.
        thread::sleep(POLL);
        let lines = self
            .last_lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        (status, lines.join(" / "))
    }
}

/// A message from a generator, or the end of its output.
pub(super) enum Heard {
    /// A message.
    Word(Word),
    /// The time of its clock, and the local time at which it was received.
    Clock(u64, u64),
    /// It closed its output, or sent something invalid.
    End(Option<String>),
}

/// All generators of a load. Dropping it ends them.
pub(super) struct Crew {
    pub(super) members: Vec<Member>,
    heard: Receiver<(usize, Heard)>,
    silence: Duration,
}

impl Crew {
    /// Starts a generator for each share, and begins to send the share.
    ///
    /// # Errors
    /// If a process or a thread cannot be started.
    pub(super) fn start(generators: &Generators, shares: Vec<Share>) -> Result<Self, LoadError> {
        let own;
        let here = match generators.program.as_slice() {
            [] => {
                let exe = std::env::current_exe();
                let exe = exe.map_err(|e| cannot_start(&e))?;
                own = [OsString::from(exe), GENERATOR_COMMAND.into()];
                own.as_slice()
            }
            program => program,
        };
        let (sender, heard) = sync_channel(WORDS_WAITING);
        let mut crew = Self {
            members: Vec::new(),
            heard,
            silence: generators.silence,
        };
        for (place, share) in shares.into_iter().enumerate() {
            let there = generators.host(place);
            let program = there.map_or(here, |there| there.command.as_slice());
            let member = start(program, share, (place, there.is_some()), &sender);
            crew.members.push(member.map_err(|e| cannot_start(&e))?);
        }
        Ok(crew)
    }

    /// Waits for a message; returns the number of the generator and the message. A generator that is silent for too long is
    /// lost.
    pub(super) fn next(&mut self, patience: Duration) -> Option<(usize, Heard)> {
        let silence = self.silence;
        let silent = |member: &Member| !member.is_over() && member.silent > silence;
        if let Some(place) = self.members.iter().position(silent) {
            let said = format!("said nothing for {} s", silence.as_secs_f64());
            return Some((place, Heard::End(Some(said))));
        }
        let begun = Instant::now();
        let heard = self.heard.recv_timeout(patience);
        // Only the time that this process waited counts, because it may have been suspended.
        let waited = begun.elapsed().min(patience);
        for member in &mut self.members {
            member.silent += waited;
        }
        match heard {
            Ok((place, heard)) => {
                self.members[place].silent = Duration::ZERO;
                Some((place, heard))
            }
            Err(RecvTimeoutError::Disconnected) => {
                thread::sleep(patience);
                None
            }
            Err(RecvTimeoutError::Timeout) => None,
        }
    }

    /// Ends a lost generator; returns the reason.
    pub(super) fn bury(&mut self, place: usize, why: Option<String>) -> String {
        let count = self.members.len();
        let member = &mut self.members[place];
        member.stage = Stage::Over;
        let pid = member.child.id();
        // A generator that sent something invalid is killed at once.
        let patience = if why.is_some() {
            Duration::ZERO
        } else {
            ENDING
        };
        let (status, wrote) = member.end(patience);
        let what = why.unwrap_or_else(|| match status {
            Some(status) => format!("ended before its work was done: {status}"),
            None => "closed its output before its work was done".to_owned(),
        });
        let wrote = match wrote.as_str() {
            "" => String::new(),
            wrote => format!("; it wrote: {wrote}"),
        };
        format!("of {count} (process {pid}) {what}{wrote}")
    }

    /// Sends an order to all generators that are not over.
    pub(super) fn tell_all(&self, order: impl Fn() -> Order) {
        let at_work = self.members.iter().filter(|member| !member.is_over());
        at_work.for_each(|member| member.tell(order()));
    }

    /// Asks all generators that are not over for their rows, which may be long.
    pub(super) fn ask_for_rows(&mut self) {
        for member in self.members.iter_mut().filter(|member| !member.is_over()) {
            member.longest.store(LONGEST_ROWS, Ordering::Relaxed);
            member.is_asked = true;
            member.tell(Order::HandOver);
        }
    }

    /// Returns whether a message is the expected first one.
    pub(super) fn is_greeting(word: &Word) -> bool {
        matches!(word, Word::Greeting(text) if text == GREETING)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // Their output is no longer read, so they cannot continue.
        for member in &mut self.members {
            member.orders = None;
            if !member.is_over() {
                let _ended = member.child.kill();
            }
        }
        for member in &mut self.members {
            member.end(ENDING);
        }
    }
}

fn cannot_start(error: &io::Error) -> LoadError {
    LoadError::new(format!("a generator cannot be started: {error}"))
}

/// Starts one generator, with threads for its input and output.
fn start(
    program: &[OsString],
    share: Share,
    (place, is_elsewhere): (usize, bool),
    heard: &SyncSender<(usize, Heard)>,
) -> io::Result<Member> {
    let (first, rest) = program
        .split_first()
        .ok_or_else(|| io::Error::other("there is no program"))?;
    let mut child = Command::new(first)
        .args(rest)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C on a terminal must reach only the coordinator, which stops the generators in order.
        .process_group(0)
        .spawn()?;
    let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (orders, to_tell) = channel();
    let last_lines = Arc::new(Mutex::new(Vec::new()));
    let longest = Arc::new(AtomicU32::new(LONGEST_WORD));
    let member = Member {
        child,
        orders: Some(orders),
        last_lines: last_lines.clone(),
        silent: Duration::ZERO,
        stage: Stage::Started,
        sign: Sign::default(),
        figures: None,
        is_elsewhere,
        clock: None,
        is_asked: false,
        longest: longest.clone(),
        account: None,
    };
    let (Some(input), Some(output), Some(errors)) = (input, output, errors) else {
        return Err(io::Error::other("its pipes are not available"));
    };
    let named = |what: &str| thread::Builder::new().name(format!("{what} {place}"));
    named("orders").spawn(move || {
        let mut input = BufWriter::new(input);
        let sent = share.tell_to(|order| write(&mut input, &order));
        // If the generator no longer reads, its closed output shows that.
        if sent.is_ok() {
            for order in to_tell {
                if write(&mut input, &order).is_err() {
                    break;
                }
            }
        }
    })?;
    let heard = heard.clone();
    named("words").spawn(move || {
        let mut output = BufReader::with_capacity(256 * 1024, output);
        loop {
            let word = match read::<Word>(&mut output, longest.load(Ordering::Relaxed)) {
                Ok(Some(Word::Clock(there_ns))) => {
                    Heard::Clock(there_ns, instant_and_monotonic().1)
                }
                Ok(Some(word)) => Heard::Word(word),
                Ok(None) => Heard::End(None),
                Err(e) => Heard::End(Some(e.to_string())),
            };
            let last = matches!(word, Heard::End(_));
            if heard.send((place, word)).is_err() || last {
                return;
            }
        }
    })?;
    named("errors").spawn(move || keep_last(errors, &last_lines))?;
    Ok(member)
}

/// Keeps the last lines of a generator's standard error.
fn keep_last(errors: impl Read, kept: &Mutex<Vec<String>>) {
    let mut errors = BufReader::new(errors);
    loop {
        let mut line = Vec::new();
        match errors
            .by_ref()
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line)
        {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&line).trim().to_owned();
        if line.is_empty() {
            continue;
        }
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == LAST_LINES {
            kept.remove(0);
        }
        kept.push(line);
    }
}
