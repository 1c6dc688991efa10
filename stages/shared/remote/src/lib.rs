//! A store that several machines share.
//!
//! # Layout
//!
//! ```text
//! benchtrail.json          that this is such a store, and the version of its layout
//! objects/ab/cdef…         an object, named by the BLAKE3 digest of its bytes, as in a local store
//! cells/ab/cdef…/N         the completion of the Nth result of an action key, from 1
//! jobs/RUN/…             what a cluster's machines are to execute in a run, and how that went: see the crate `cluster`
//! studies/NAME/KEY.N       empty: a hint that the study has that completion; NAME is 32 digits of its name's digest
//! collections/N/…         what collections condemned: see the module `condemned`
//! roots/R                  the records that a lock names: see the module `roots`
//! ```
//!
//! Every name is written once, by a put that fails if the name is taken. A completion is written after its record and
//! everything that the record refers to, so readers of a completion may rely on them. The completions of a key are
//! numbered without gaps and read one after another, so no reader depends on a listing. Two writers of one key
//! therefore meet at a number. The second one learns of the first and takes the next number. Only `pull --study` uses
//! hints.
//!
//! Only a collection ([`Remote::collect`]) removes objects. It leaves a mark in place of the completion of each removed
//! result, so that the numbers still have no gaps.
//!
//! Everything that is read is hashed, and bytes with a different digest are never kept.

mod backend;
mod client;
mod cloud;
mod collect;
mod completion;
mod condemned;
mod document;
mod error;
mod folder;
#[cfg(test)]
mod interleavings;
mod place;
mod profile;
mod pull;
mod push;
mod refusal;
mod roots;
mod side_by_side;
mod study;
mod tally;
mod transfer;
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use artifacts::{ActionKey, Digest};
use serde::{Deserialize, Serialize};

use backend::Backend;
use completion::Entry;
use side_by_side::each;

pub use collect::{CollectMode, CollectOptions, CollectReport, Collected, Doomed};
pub use completion::Completion;
pub use error::RemoteError;
pub use place::check_url;
pub use pull::PullReport;
pub use push::{PushReport, Pushed, Twin};
pub use roots::Root;
pub use study::{Fetched, Study, identity, pull_records, push_locks, push_records};
pub use wire::{BEAT, Heard, Outlet, STOP, Wire};

/// The newest version of the layout, for stores that may have been collected.
const FORMAT: u32 = 2;

/// The version of a store that no collection has touched.
const UNTOUCHED: u32 = 1;

/// The name of the object that identifies a shared store.
const MARK: &str = "benchtrail.json";

/// The default number of parallel transfers.
pub const JOBS: usize = 16;

/// A shared store.
#[derive(Debug)]
pub struct Remote {
    url: String,
    backend: Arc<dyn Backend>,
    jobs: usize,
    collections: condemned::Collections,
}

/// The progress of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Records and objects processed.
    pub done: u64,
    /// The total number of records and objects, as far as known.
    pub total: u64,
    /// Bytes transferred.
    pub bytes: u64,
}

/// The listener of a transfer, who may stop it.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Set to stop. Completed parts stay.
    pub cancelled: &'a AtomicBool,
    /// Receives the progress, from several threads.
    pub listener: &'a (dyn Fn(Progress) + Sync),
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

impl Watch<'_> {
    fn go_on(&self) -> Result<(), RemoteError> {
        match self.cancelled.load(Ordering::Relaxed) {
            true => Err(RemoteError::Interrupted),
            false => Ok(()),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Mark {
    benchtrail_store: u32,
}

impl Remote {
    /// Opens a shared store for reading.
    ///
    /// # Errors
    /// If the URL does not lead to one, or access is refused.
    pub fn open(url: &str) -> Result<Self, RemoteError> {
        let remote = Self::connect(url, false)?;
        match remote.is_marked()? {
            true => Ok(remote),
            false => Err(RemoteError::Absent(remote.url)),
        }
    }

    /// Opens a shared store for writing, and creates it if none exists.
    ///
    /// # Errors
    /// If the URL cannot lead to one, or access is refused.
    pub fn open_or_create(url: &str) -> Result<Self, RemoteError> {
        let remote = Self::connect(url, true)?;
        let mark = Mark {
            benchtrail_store: UNTOUCHED,
        };
        let text = serde_json::to_vec(&mark).expect("a mark always serializes");
        if !remote.is_marked()? {
            remote.backend.put_new(MARK, &text)?;
        }
        // The name is taken now. A place that accepts it again would let one writer overwrite another.
        match remote.backend.put_new(MARK, &text)? {
            true => Err(RemoteError::Overwrites(remote.url)),
            false => Ok(remote),
        }
    }

    /// Sets the number of parallel transfers.
    #[must_use]
    pub fn with_jobs(mut self, jobs: usize) -> Self {
        self.jobs = jobs.max(1);
        self
    }

    /// Returns the store's address, as the user wrote it.
    pub fn url(&self) -> &str {
        &self.url
    }

    fn connect(url: &str, create: bool) -> Result<Self, RemoteError> {
        Ok(Self {
            url: url.to_owned(),
            backend: place::open(url, create)?,
            jobs: JOBS,
            collections: condemned::Collections::default(),
        })
    }

    /// Returns whether a shared store of this layout exists.
    fn is_marked(&self) -> Result<bool, RemoteError> {
        let Some(bytes) = self.read_small(MARK)? else {
            return Ok(false);
        };
        match serde_json::from_slice::<Mark>(&bytes) {
            Ok(Mark {
                benchtrail_store: UNTOUCHED..=FORMAT,
            }) => Ok(true),
            Ok(Mark {
                benchtrail_store: other,
            }) => Err(RemoteError::Format(self.url.clone(), other)),
            Err(_) => Err(RemoteError::NotOurs(self.url.clone())),
        }
    }

    /// Reads a complete small object; `None` if it does not exist.
    fn read_small(&self, name: &str) -> Result<Option<Vec<u8>>, RemoteError> {
        let mut kept = Vec::new();
        let there = self.backend.read(name, &mut |bytes| {
            kept.extend_from_slice(bytes);
            match kept.len() as u64 > completion::MOST_BYTES {
                true => Err(RemoteError::Broken(
                    self.url.clone(),
                    format!("{name} is too large"),
                )),
                false => Ok(()),
            }
        })?;
        Ok(there.then_some(kept))
    }

    /// Returns the completed results of keys. A completion that cannot be read is as good as none: it is reported, and
    /// never believed.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn completions(
        &self,
        keys: &[ActionKey],
        watch: Watch<'_>,
    ) -> Result<Completions, RemoteError> {
        let entries = each(self.jobs, keys, |key| {
            watch.go_on()?;
            Ok((*key, self.entries_of(key)?))
        })?;
        let mut all = Completions::default();
        for (key, entries) in entries {
            let mut complete = Vec::new();
            for entry in entries {
                match entry {
                    Entry::Complete(completion) => complete.push(*completion),
                    Entry::Retired => {}
                    Entry::Damaged(what) => {
                        all.damaged
                            .push(RemoteError::Broken(self.url.clone(), what));
                    }
                }
            }
            if !complete.is_empty() {
                all.results.push((key, complete));
            }
        }
        Ok(all)
    }

    /// Returns the completions of a key by their numbers, including those that a collection removed, and those that cannot
    /// be read.
    pub(crate) fn entries_of(&self, key: &ActionKey) -> Result<Vec<Entry>, RemoteError> {
        let mut entries = Vec::new();
        for number in 1.. {
            let name = cell(key, number);
            let bytes = match self.read_small(&name) {
                Ok(Some(bytes)) => bytes,
                Ok(None) => break,
                Err(RemoteError::Broken(_, what)) => {
                    entries.push(Entry::Damaged(what));
                    continue;
                }
                Err(other) => return Err(other),
            };
            let entry = Entry::parse(&bytes)
                .filter(|entry| !matches!(entry, Entry::Complete(c) if c.key != *key));
            entries.push(entry.unwrap_or_else(|| {
                Entry::Damaged(format!("{name} is not the completion of a cell"))
            }));
        }
        Ok(entries)
    }

    /// Returns the keys with results of the study, according to hints. A hint may be missing or late.
    ///
    /// # Errors
    /// If the store cannot be listed.
    pub fn hinted(&self, study: &str) -> Result<Vec<ActionKey>, RemoteError> {
        let names = self.backend.list(&studies(study))?;
        let mut keys: Vec<ActionKey> = names
            .iter()
            .filter_map(|name| {
                let (hex, _) = name.split_once('.')?;
                format!("b3:{hex}").parse().ok().map(ActionKey)
            })
            .collect();
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }
}

/// The completed results of keys.
#[derive(Debug, Default)]
pub struct Completions {
    /// The keys with results, each with its results in the order of their entry.
    pub results: Vec<(ActionKey, Vec<Completion>)>,
    /// Completions that cannot be read.
    pub damaged: Vec<RemoteError>,
}

/// Returns the name of a key's completion with this number.
fn cell(key: &ActionKey, number: u32) -> String {
    let hex = key.0.hex();
    format!("cells/{}/{}/{number}", &hex[..2], &hex[2..])
}

/// Returns the folder of a study's hints. The study's name may contain anything, so its digest replaces it.
fn studies(name: &str) -> String {
    format!("studies/{}", &Digest::of(name.as_bytes()).hex()[..32])
}
