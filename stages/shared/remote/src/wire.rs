//! A shared store behind a connection: a machine that cannot reach the store asks one that can.
//!
//! # On the connection
//!
//! The asker writes a line of JSON, followed by the bytes that the line announces. The keeper answers each question in
//! turn, in the same form. Between answers it writes `.` as a sign of life, or `!` to request that the other side stop.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backend::{Backend, Sink};
use crate::error::RemoteError;
use crate::{JOBS, Remote};

/// The keeper's sign of life.
pub const BEAT: u8 = b'.';

/// The keeper's request that the other side stop.
pub const STOP: u8 = b'!';

/// The number of bytes passed on at once.
const PIECE: usize = 1 << 18;

/// The most bytes of a line.
const MOST_LINE: u64 = 1 << 16;

/// How often a waiting asker checks whether the connection was given up.
const LOOK: Duration = Duration::from_millis(500);

/// A question to the other side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
enum Ask {
    PutNew {
        name: String,
        bytes: u64,
    },
    PutFile {
        name: String,
        bytes: u64,
    },
    Size {
        name: String,
    },
    Read {
        name: String,
    },
    List {
        folder: String,
    },
    Settle,
    /// Not about the store: the asker's present activity.
    Tell {
        what: String,
    },
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    Done,
    Taken,
    Free,
    Size(u64),
    Names(Vec<String>),
    /// This many bytes follow.
    Bytes(u64),
    Refused(String),
}

/// What an asker hears from the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A sign of life.
    Life,
    /// A request to stop.
    Stop,
    /// The connection has ended.
    End,
}

/// A keeper's output, where signs of life appear only between complete answers.
pub trait Outlet {
    /// Writes a unit that nothing else may interrupt.
    ///
    /// # Errors
    /// If the connection has ended.
    fn send(&self, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()>;
}

enum Piece {
    Answer(Answer),
    Bytes(Vec<u8>),
}

struct Exchange {
    out: Box<dyn Write + Send>,
    answers: Receiver<Piece>,
}

/// A shared store that the other side of a connection keeps.
pub struct Wire {
    url: String,
    exchange: Mutex<Exchange>,
    given_up: Arc<AtomicBool>,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Wire {
    /// Starts to ask over a connection. Another thread passes unrequested signs to `hear`. `given_up` ends all waiting
    /// for answers.
    pub fn new(
        url: &str,
        from: impl Read + Send + 'static,
        to: impl Write + Send + 'static,
        given_up: Arc<AtomicBool>,
        hear: impl Fn(Heard) + Send + 'static,
    ) -> Arc<Self> {
        let (sender, answers) = sync_channel(4);
        // Without the thread there are no answers, and every question fails.
        let _started = std::thread::Builder::new()
            .name("wire".to_owned())
            .spawn(move || {
                // Whatever the reason, the connection is over.
                let _cut = listen(BufReader::with_capacity(PIECE, from), &sender, &hear);
                hear(Heard::End);
            });
        Arc::new(Self {
            url: url.to_owned(),
            exchange: Mutex::new(Exchange {
                out: Box::new(to),
                answers,
            }),
            given_up,
        })
    }

    /// Reports this side's activity to the other side.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn tell(&self, what: &str) -> Result<(), RemoteError> {
        let what = what.to_owned();
        self.ask(&Ask::Tell { what }, &mut io::empty(), &mut |_| Ok(()))
            .map(drop)
    }

    fn failed(&self, why: &str) -> RemoteError {
        RemoteError::Other(self.url.clone(), why.to_owned())
    }

    fn next(&self, answers: &Receiver<Piece>) -> Result<Piece, RemoteError> {
        loop {
            match answers.recv_timeout(LOOK) {
                Ok(piece) => return Ok(piece),
                Err(RecvTimeoutError::Timeout) if !self.given_up.load(Ordering::Relaxed) => {}
                Err(_) => return Err(self.failed("the connection to the run has ended")),
            }
        }
    }

    fn ask(&self, ask: &Ask, body: &mut dyn Read, sink: Sink<'_>) -> Result<Answer, RemoteError> {
        let mut exchange = self.exchange.lock().unwrap_or_else(PoisonError::into_inner);
        let mut line = serde_json::to_vec(ask).expect("a question always serializes");
        line.push(b'\n');
        let out = &mut exchange.out;
        let sent = out
            .write_all(&line)
            .and_then(|()| io::copy(body, out))
            .and_then(|_| out.flush());
        sent.map_err(|e| self.failed(&format!("the connection to the run has ended: {e}")))?;
        let answer = match self.next(&exchange.answers)? {
            Piece::Answer(answer) => answer,
            Piece::Bytes(_) => return Err(self.failed("an answer begins with bytes")),
        };
        if let Answer::Bytes(mut left) = answer {
            // All bytes must be read even after an error, because the next answer follows them.
            let mut kept = Ok(());
            while left > 0 {
                let Piece::Bytes(bytes) = self.next(&exchange.answers)? else {
                    return Err(self.failed("an answer was cut short"));
                };
                left = left.saturating_sub(bytes.len() as u64);
                kept = kept.and_then(|()| sink(&bytes));
            }
            kept?;
        }
        match answer {
            Answer::Refused(why) => Err(self.failed(&why)),
            answer => Ok(answer),
        }
    }

    fn simple(&self, ask: &Ask) -> Result<Answer, RemoteError> {
        self.ask(ask, &mut io::empty(), &mut |_| Ok(()))
    }

    fn unexpected(&self) -> RemoteError {
        self.failed("the run's answer does not match the request")
    }

    fn not_here<T>(&self) -> Result<T, RemoteError> {
        Err(self.failed("a host of a pool puts and reads only"))
    }
}

/// Passes on everything that arrives, until the connection ends.
fn listen(
    mut from: impl BufRead,
    answers: &SyncSender<Piece>,
    hear: &impl Fn(Heard),
) -> io::Result<()> {
    let gone = |_| io::Error::other("no request waits for this answer");
    loop {
        let Some(first) = from.fill_buf()?.first().copied() else {
            return Ok(());
        };
        match first {
            BEAT | STOP => {
                from.consume(1);
                hear(if first == STOP {
                    Heard::Stop
                } else {
                    Heard::Life
                });
                continue;
            }
            _ => hear(Heard::Life),
        }
        let answer: Answer = serde_json::from_str(&line_of(&mut from)?)?;
        let mut left = match answer {
            Answer::Bytes(bytes) => bytes,
            _ => 0,
        };
        answers.send(Piece::Answer(answer)).map_err(gone)?;
        while left > 0 {
            let there = from.fill_buf()?;
            let take = there.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            if take == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let bytes = there[..take].to_vec();
            from.consume(take);
            left -= take as u64;
            hear(Heard::Life);
            answers.send(Piece::Bytes(bytes)).map_err(gone)?;
        }
    }
}

fn line_of(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    // Only a list of names may be this long.
    from.take(MOST_LINE << 12).read_line(&mut line)?;
    match line.ends_with('\n') {
        true => Ok(line),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

impl Backend for Wire {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<bool, RemoteError> {
        let ask = Ask::PutNew {
            name: name.to_owned(),
            bytes: bytes.len() as u64,
        };
        let mut body = bytes;
        match self.ask(&ask, &mut body, &mut |_| Ok(()))? {
            Answer::Done => Ok(true),
            Answer::Taken => Ok(false),
            _ => Err(self.unexpected()),
        }
    }

    fn put_file(&self, name: &str, file: &Path) -> Result<(), RemoteError> {
        let at = |e: io::Error| self.failed(&format!("{}: {e}", file.display()));
        let mut body = File::open(file).map_err(at)?;
        let bytes = body.metadata().map_err(at)?.len();
        let ask = Ask::PutFile {
            name: name.to_owned(),
            bytes,
        };
        match self.ask(&ask, &mut (&mut body).take(bytes), &mut |_| Ok(()))? {
            Answer::Done => Ok(()),
            _ => Err(self.unexpected()),
        }
    }

    fn put_over(&self, _: &str, _: &[u8]) -> Result<(), RemoteError> {
        self.not_here()
    }

    fn remove(&self, _: &str) -> Result<(), RemoteError> {
        self.not_here()
    }

    fn size(&self, name: &str) -> Result<Option<u64>, RemoteError> {
        let name = name.to_owned();
        match self.simple(&Ask::Size { name })? {
            Answer::Size(bytes) => Ok(Some(bytes)),
            Answer::Free => Ok(None),
            _ => Err(self.unexpected()),
        }
    }

    fn read(&self, name: &str, sink: Sink<'_>) -> Result<bool, RemoteError> {
        let name = name.to_owned();
        match self.ask(&Ask::Read { name }, &mut io::empty(), sink)? {
            Answer::Bytes(_) => Ok(true),
            Answer::Free => Ok(false),
            _ => Err(self.unexpected()),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, RemoteError> {
        let folder = folder.to_owned();
        match self.simple(&Ask::List { folder })? {
            Answer::Names(names) => Ok(names),
            _ => Err(self.unexpected()),
        }
    }

    fn walk(&self, _: &str) -> Result<Vec<(String, u64)>, RemoteError> {
        self.not_here()
    }

    fn settle(&self) -> Result<(), RemoteError> {
        self.simple(&Ask::Settle).map(drop)
    }
}

impl Remote {
    /// Opens the shared store that the other side of a connection keeps.
    pub fn behind(wire: Arc<Wire>) -> Self {
        Self {
            url: wire.url.clone(),
            backend: wire,
            jobs: JOBS,
            collections: crate::condemned::Collections::default(),
        }
    }

    /// Answers the other side's questions until the connection ends. `tell` receives reports about its activity.
    ///
    /// # Errors
    /// If the connection breaks. A refusal of this store is an answer.
    pub fn keep(&self, from: impl Read, to: &dyn Outlet, tell: &dyn Fn(&str)) -> io::Result<()> {
        let mut from = BufReader::with_capacity(PIECE, from);
        loop {
            if from.fill_buf()?.is_empty() {
                return Ok(());
            }
            let mut line = String::new();
            (&mut from).take(MOST_LINE).read_line(&mut line)?;
            let ask: Ask = serde_json::from_str(&line)?;
            let mut body = tempfile::tempfile()?;
            let answer = self.answer(&ask, &mut from, &mut body, tell)?;
            let answer = answer.unwrap_or_else(|e| Answer::Refused(e.to_string()));
            let mut text = serde_json::to_vec(&answer)?;
            text.push(b'\n');
            io::Seek::rewind(&mut body)?;
            to.send(&mut |pipe| {
                pipe.write_all(&text)?;
                io::copy(&mut body, pipe).map(drop)
            })?;
        }
    }

    fn answer(
        &self,
        ask: &Ask,
        from: &mut impl Read,
        body: &mut File,
        tell: &dyn Fn(&str),
    ) -> io::Result<Result<Answer, RemoteError>> {
        // Announced bytes must be read even after an error, because the next question follows them.
        let mut small = Vec::new();
        if let Ask::PutNew { bytes, .. } = ask {
            from.take(*bytes).read_to_end(&mut small)?;
            if small.len() as u64 != *bytes {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let backend = &self.backend;
        Ok(match ask {
            Ask::PutNew { name, .. } => checked(&self.url, name).and_then(|()| {
                let put = backend.put_new(name, &small)?;
                Ok(if put { Answer::Done } else { Answer::Taken })
            }),
            Ask::PutFile { name, bytes } => {
                let mut file = tempfile::NamedTempFile::new()?;
                if io::copy(&mut from.take(*bytes), &mut file)? != *bytes {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                let put =
                    checked(&self.url, name).and_then(|()| backend.put_file(name, file.path()));
                put.map(|()| Answer::Done)
            }
            Ask::Size { name } => checked(&self.url, name)
                .and_then(|()| backend.size(name))
                .map(|size| size.map_or(Answer::Free, Answer::Size)),
            Ask::Read { name } => {
                let mut count = 0;
                let read = checked(&self.url, name).and_then(|()| {
                    backend.read(name, &mut |piece| {
                        count += piece.len() as u64;
                        body.write_all(piece)
                            .map_err(|e| RemoteError::Other(self.url.clone(), e.to_string()))
                    })
                });
                read.map(|there| match there {
                    true => Answer::Bytes(count),
                    false => Answer::Free,
                })
            }
            Ask::List { folder } => checked(&self.url, folder)
                .and_then(|()| backend.list(folder))
                .map(Answer::Names),
            Ask::Settle => backend.settle().map(|()| Answer::Done),
            Ask::Tell { what } => {
                tell(what);
                Ok(Answer::Done)
            }
        })
    }
}

/// Checks that a name is one of ours. A folder would take its segments as they are.
fn checked(url: &str, name: &str) -> Result<(), RemoteError> {
    let sound = |s: &str| !s.is_empty() && s != "." && s != ".." && !s.contains(['\\', '\0']);
    let first = name.split('/').next().unwrap_or_default();
    let ours = ["objects", "cells", "jobs", "studies", "collections"].contains(&first);
    match ours && name.split('/').all(sound) {
        true => Ok(()),
        false => {
            let what =
                format!("a host asks for a name that is not one of a shared store: `{name}`");
            Err(RemoteError::Other(url.to_owned(), what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Socket(Mutex<std::os::unix::net::UnixStream>);

    impl Outlet for Socket {
        fn send(&self, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
            write(&mut *self.0.lock().expect("alone"))
        }
    }

    struct Keeper {
        thread: std::thread::JoinHandle<io::Result<Vec<String>>>,
        connection: std::os::unix::net::UnixStream,
    }

    impl Keeper {
        /// Ends the connection, and returns the reports that the keeper received.
        fn end(self) -> Vec<String> {
            let both = std::net::Shutdown::Both;
            self.connection.shutdown(both).expect("it is open");
            self.thread.join().expect("no panic").expect("in order")
        }
    }

    /// Returns a store in a folder, and the same store behind a connection.
    fn behind(folder: &Path) -> (Remote, Keeper) {
        let url = folder.to_str().expect("a plain path").to_owned();
        let (theirs, ours) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let asks = ours.try_clone().expect("a clone");
        let kept = Remote::open_or_create(&url).expect("a store");
        let thread = std::thread::spawn(move || {
            let messages = Mutex::new(Vec::new());
            let to = Socket(Mutex::new(ours));
            to.send(&mut |pipe| pipe.write_all(b".."))?;
            kept.keep(asks, &to, &|what| {
                messages.lock().expect("alone").push(what.to_owned());
            })?;
            Ok(messages.into_inner().expect("alone"))
        });
        let from = theirs.try_clone().expect("a clone");
        let connection = theirs.try_clone().expect("a clone");
        let wire = Wire::new(&url, from, theirs, Arc::default(), |_| ());
        wire.tell("begins").expect("heard");
        (Remote::behind(wire), Keeper { thread, connection })
    }

    #[test]
    fn a_store_behind_a_connection_is_that_store() {
        let folder = tempfile::tempdir().expect("a folder");
        let (remote, keeper) = behind(folder.path());
        assert!(remote.put_document("jobs/r/1.json", b"{}").expect("put"));
        assert!(!remote.put_document("jobs/r/1.json", b"[]").expect("put"));
        assert_eq!(
            remote.document("jobs/r/1.json").expect("read"),
            Some(b"{}".to_vec())
        );
        assert_eq!(remote.document("jobs/r/2.json").expect("read"), None);
        assert_eq!(remote.documents("jobs/r").expect("list"), ["1.json"]);
        let local = tempfile::tempdir().expect("a folder");
        let store = artifacts::Store::open(local.path()).expect("a store");
        // Larger than a piece, and empty.
        for bytes in [vec![7; 3 * PIECE + 1], Vec::new()] {
            let digest = store.put(&bytes).expect("put");
            remote.upload(&store, &digest).expect("sent");
            let other = tempfile::tempdir().expect("a folder");
            let other = artifacts::Store::open(other.path()).expect("a store");
            remote.download(&other, &digest).expect("received");
            assert_eq!(other.get(&digest).expect("there"), bytes);
        }
        assert_eq!(keeper.end(), ["begins"]);
    }

    #[test]
    fn a_name_out_of_the_store_is_refused_and_the_connection_goes_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let (remote, _keeper) = behind(folder.path());
        for name in [
            "../x",
            "jobs/../../x",
            "/etc/x",
            "benchtrail.json",
            "jobs//x",
        ] {
            assert!(remote.put_document(name, b"x").is_err(), "{name}");
        }
        assert!(remote.put_document("jobs/x", b"x").expect("put"));
        assert!(remote.document("jobs/../../x").is_err());
        assert!(remote.backend.remove("jobs/x").is_err());
    }

    #[test]
    fn a_connection_that_ends_fails_whoever_asks() {
        let (theirs, ours) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let from = theirs.try_clone().expect("a clone");
        let (sender, heard) = std::sync::mpsc::channel();
        let wire = Wire::new("x", from, theirs, Arc::default(), move |what| {
            // The test may have ended already.
            let _unheard = sender.send(what);
        });
        (&ours).write_all(b".!").expect("written");
        assert_eq!(heard.recv(), Ok(Heard::Life));
        assert_eq!(heard.recv(), Ok(Heard::Stop));
        drop(ours);
        assert_eq!(heard.recv(), Ok(Heard::End));
        assert!(wire.tell("x").is_err());
    }
}
