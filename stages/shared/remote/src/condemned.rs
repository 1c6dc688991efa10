//! What collections of a shared store have condemned, and how a writer saves the names that it relies on.
//!
//! ```text
//! collections/N/condemned    what the Nth collection found that nobody names, from 1: names of objects and completions
//! collections/N/fates/F      the fate of one of these names, put by whoever comes first: `kept` by a writer that relies
//!                            on it, or `removed` by the collector; F is 32 digits of the name's digest
//! collections/N/sweep        the lease of whoever removes what is still condemned after the grace, with its expiry
//! collections/N/end          `done`, or `abandoned` if the lease expired before that
//! ```
//!
//! A writer that relies on a condemned name puts `kept` first; the collector puts `removed` before it removes. Only one
//! of these puts succeeds, so a name that a writer relies on is never removed, whatever the order of their requests. If
//! the collector is removing an object that a writer wants to put, the writer waits until the collection is done. If
//! that never happens because the lease expired, a removal may still arrive, perhaps for hours. The object then gets
//! another name, with the collection's number. A name is therefore never put while it may be removed, and no clock
//! decides that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use artifacts::{ActionKey, Digest};
use serde::{Deserialize, Serialize};

use crate::completion::Entry;
use crate::error::RemoteError;
use crate::transfer::object;
use crate::{Remote, Watch, cell};

/// How long a writer sleeps between two checks whether a collection is done.
const LOOK_AGAIN: Duration = Duration::from_millis(if cfg!(test) { 0 } else { 200 });

/// The version of the documents.
const FORMAT: u32 = 1;

/// The names that a collection found without a reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Condemned {
    pub(crate) format: u32,
    /// When the list was written: seconds since the epoch, by the writer's clock.
    pub(crate) since: i64,
    /// How long the names stay, in seconds.
    pub(crate) grace: i64,
    /// The writer of the list.
    pub(crate) by: String,
    /// Whether measurements were also condemned.
    pub(crate) measurements: bool,
    /// The names of completions.
    pub(crate) results: BTreeSet<String>,
    /// The names of objects.
    pub(crate) objects: BTreeSet<String>,
}

impl Condemned {
    pub(crate) fn new(since: i64, grace: i64, by: String, measurements: bool) -> Self {
        Self {
            format: FORMAT,
            since,
            grace,
            by,
            measurements,
            results: BTreeSet::new(),
            objects: BTreeSet::new(),
        }
    }

    fn names(&self, name: &str) -> bool {
        self.objects.contains(name) || self.results.contains(name)
    }
}

/// The lease of a sweep.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Lease {
    pub(crate) by: String,
    /// Seconds since the epoch.
    pub(crate) expires: i64,
}

/// How a collection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum End {
    /// Every removal was acknowledged.
    Done,
    /// Its lease expired: a removal may still come.
    Abandoned,
}

/// The process that was first at a condemned name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Fate {
    /// A writer that relies on the name.
    Kept,
    /// The collector.
    Removed,
}

/// A collection that is not done.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    pub(crate) number: u32,
    pub(crate) condemned: Arc<Condemned>,
    pub(crate) abandoned: bool,
}

/// The known collections. Lists are written once and never change, so they are read once.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// The number of the last collection that began.
    last: u32,
    open: BTreeMap<u32, Open>,
}

pub(crate) type Collections = Mutex<Known>;

/// Returns the name of a document of a collection.
pub(crate) fn document(number: u32, what: &str) -> String {
    format!("collections/{number}/{what}")
}

/// Returns the name of a condemned name's fate.
fn fate_name(number: u32, name: &str) -> String {
    let digits = Digest::of(name.as_bytes()).hex();
    document(number, &format!("fates/{}", &digits[..32]))
}

impl Remote {
    fn known_collections(&self) -> std::sync::MutexGuard<'_, Known> {
        self.collections.lock().expect("nobody panics with it")
    }

    /// Updates the known collections; returns the number of the last one that began, or 0.
    pub(crate) fn look_at_collections(&self) -> Result<u32, RemoteError> {
        let (last, open) = {
            let lists = self.known_collections();
            (lists.last, lists.open.clone())
        };
        for (number, entry) in open {
            match self.end_of(number)? {
                Some(End::Done) => drop(self.known_collections().open.remove(&number)),
                Some(End::Abandoned) if !entry.abandoned => {
                    let abandoned = Open {
                        abandoned: true,
                        ..entry
                    };
                    self.known_collections().open.insert(number, abandoned);
                }
                _ => {}
            }
        }
        for number in last + 1.. {
            let end = self.end_of(number)?;
            if end != Some(End::Done) {
                let Some(condemned) = self.read_document(&document(number, "condemned"))? else {
                    break;
                };
                let open = Open {
                    number,
                    condemned: Arc::new(condemned),
                    abandoned: end == Some(End::Abandoned),
                };
                self.known_collections().open.insert(number, open);
            }
            let mut lists = self.known_collections();
            lists.last = lists.last.max(number);
        }
        Ok(self.known_collections().last)
    }

    /// Returns the collections that are not done, as of the last look.
    pub(crate) fn open_collections(&self) -> Vec<Open> {
        self.known_collections().open.values().cloned().collect()
    }

    pub(crate) fn end_of(&self, number: u32) -> Result<Option<End>, RemoteError> {
        self.read_document(&document(number, "end"))
    }

    /// Decides the fate of a condemned name unless it is decided already; returns the fate.
    pub(crate) fn decide(
        &self,
        number: u32,
        name: &str,
        wish: Fate,
    ) -> Result<Option<Fate>, RemoteError> {
        let at = fate_name(number, name);
        if self.backend.put_new(&at, &bytes_of(&wish))? {
            return Ok(Some(wish));
        }
        // `None` if the collection is done by now, and its fates are gone.
        self.read_document(&at)
    }

    /// Reads a collection's document of any size; `None` if it does not exist.
    pub(crate) fn read_document<T: serde::de::DeserializeOwned>(
        &self,
        name: &str,
    ) -> Result<Option<T>, RemoteError> {
        let mut bytes = Vec::new();
        let there = self.backend.read(name, &mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        if !there {
            return Ok(None);
        }
        let read = serde_json::from_slice(&bytes);
        read.map(Some)
            .map_err(|e| RemoteError::Broken(self.url.clone(), format!("{name}: {e}")))
    }

    /// Returns the name under which an object may be relied on or put, and saves it from every collection that
    /// condemned it.
    pub(crate) fn keep_object(
        &self,
        digest: &Digest,
        watch: Watch<'_>,
    ) -> Result<String, RemoteError> {
        let base = object(digest);
        let mut name = base.clone();
        'name: loop {
            for open in self.open_collections() {
                if !open.condemned.names(&name)
                    || self.decide(open.number, &name, Fate::Kept)? != Some(Fate::Removed)
                {
                    continue;
                }
                if self.wait_for_end(open.number, watch)? == End::Abandoned {
                    name = format!("{base}.{}", open.number);
                    continue 'name;
                }
            }
            return Ok(name);
        }
    }

    /// Waits until a removing collection is done or abandoned.
    fn wait_for_end(&self, number: u32, watch: Watch<'_>) -> Result<End, RemoteError> {
        loop {
            watch.go_on()?;
            if let Some(end) = self.end_of(number)? {
                self.look_at_collections()?;
                return Ok(end);
            }
            if self.has_expired(number)? {
                self.abandon(number)?;
                continue;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Returns whether the lease of a sweep has expired. Without a lease, the answer is no.
    pub(crate) fn has_expired(&self, number: u32) -> Result<bool, RemoteError> {
        let lease: Option<Lease> = self.read_document(&document(number, "sweep"))?;
        Ok(lease.is_some_and(|lease| lease.expires <= now()))
    }

    /// Ends a collection whose lease has expired, unless it has ended.
    pub(crate) fn abandon(&self, number: u32) -> Result<(), RemoteError> {
        let end = document(number, "end");
        self.backend.put_new(&end, &bytes_of(&End::Abandoned))?;
        self.backend.settle()
    }

    /// Returns whether a result is complete, and saves it from every collection that condemned it.
    pub(crate) fn keep_if_complete(
        &self,
        key: &ActionKey,
        record: &Digest,
    ) -> Result<bool, RemoteError> {
        'entry: for (at, entry) in self.entries_of(key)?.iter().enumerate() {
            let Entry::Complete(completion) = entry else {
                continue;
            };
            if completion.record != *record {
                continue;
            }
            let name = cell(key, number_of(at));
            for open in self.open_collections() {
                if open.condemned.names(&name)
                    && self.decide(open.number, &name, Fate::Kept)? == Some(Fate::Removed)
                {
                    continue 'entry;
                }
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Returns whether a later collection may have removed an object, under any of its names. A collection that is done
    /// no longer shows what it removed.
    pub(crate) fn is_doubtful_since(&self, number: u32, digest: &Digest) -> bool {
        let lists = self.known_collections();
        let is_gone = |n: u32| !lists.open.contains_key(&n);
        if (number + 1..=lists.last).any(is_gone) {
            return true;
        }
        let name = object(digest);
        let longer = format!("{name}.");
        lists.open.range(number + 1..).any(|(_, open)| {
            let after = open.condemned.objects.range(longer.clone()..).next();
            open.condemned.names(&name) || after.is_some_and(|n| n.starts_with(&longer))
        })
    }

    /// Reads an object; returns false if none of its names exists.
    pub(crate) fn read_object(
        &self,
        digest: &Digest,
        sink: crate::backend::Sink<'_>,
    ) -> Result<bool, RemoteError> {
        let base = object(digest);
        if self.backend.read(&base, sink)? {
            return Ok(true);
        }
        self.look_at_collections()?;
        for open in self.open_collections().iter().filter(|open| open.abandoned) {
            if self
                .backend
                .read(&format!("{base}.{}", open.number), sink)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns the number of the completion at this index of a key's list.
pub(crate) fn number_of(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX).saturating_add(1)
}

pub(crate) fn bytes_of<T: Serialize>(document: &T) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(document).expect("a document always serializes");
    bytes.push(b'\n');
    bytes
}

/// Returns the time in seconds since the epoch.
#[expect(
    clippy::disallowed_methods,
    reason = "several machines share the leases and graces of a shared store, so they are wall time"
)]
pub(crate) fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_secs()).unwrap_or(i64::MAX))
}

/// Returns the time as text: RFC 3339, UTC, in whole seconds.
pub(crate) fn time_now() -> String {
    jiff::Timestamp::from_second(now()).map_or_else(|_| String::new(), |at| at.to_string())
}
