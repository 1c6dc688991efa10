//! The content of a shared store: its roots, its complete results, its objects, and which of them nothing reaches.

use std::collections::{BTreeMap, BTreeSet};

use artifacts::{ActionKey, Digest, ReadRecord, RecordView};

use super::{Collector, Doomed};
use crate::cell;
use crate::completion::{Completion, Entry};
use crate::condemned::number_of;
use crate::error::RemoteError;
use crate::roots::Root;
use crate::side_by_side::each;

/// The largest record, in bytes. Larger objects that no completion names are not read.
const MOST_RECORD: u64 = 16 << 20;

/// A complete result, with its record.
pub(super) struct Found {
    pub(super) key: ActionKey,
    pub(super) number: u32,
    pub(super) completion: Completion,
    pub(super) view: RecordView,
    pub(super) is_measurement: bool,
}

impl Found {
    pub(super) fn name(&self) -> String {
        cell(&self.key, self.number)
    }

    fn objects(&self) -> impl Iterator<Item = &Digest> {
        let view = &self.view;
        let named = view.references().chain(&view.files);
        named.chain([&self.completion.record])
    }

    /// Describes the result for the report.
    pub(super) fn doomed(&self) -> Doomed {
        Doomed {
            completion: self.completion.clone(),
            is_measurement: self.is_measurement,
        }
    }
}

/// The content of the store.
pub(super) struct Survey {
    pub(super) roots: Vec<Root>,
    /// Digests in the orders for jobs.
    pub(super) ordered: BTreeSet<Digest>,
    pub(super) results: Vec<Found>,
    /// Names below `objects`, with their sizes in bytes.
    pub(super) stored: BTreeMap<String, u64>,
}

impl Survey {
    /// Returns the results that no root or order names.
    pub(super) fn doomed(&self, measurements: bool) -> impl Iterator<Item = &Found> {
        let rooted: BTreeSet<&Digest> = self.roots.iter().flat_map(|r| &r.records).collect();
        self.results.iter().filter(move |result| {
            !rooted.contains(&result.completion.record)
                && !self.ordered.contains(&result.completion.record)
                && (measurements || !result.is_measurement)
        })
    }

    /// Returns the names of objects that no result except these reaches.
    pub(super) fn unreached(&self, without: &BTreeSet<String>) -> BTreeMap<&str, u64> {
        let stay = self.results.iter().filter(|f| !without.contains(&f.name()));
        let mut reached: BTreeSet<&Digest> = stay.flat_map(Found::objects).collect();
        reached.extend(&self.ordered);
        let stored = self.stored.iter();
        stored
            .filter(|(name, _)| digest_of(name).is_none_or(|d| !reached.contains(&d)))
            .map(|(name, bytes)| (name.as_str(), *bytes))
            .collect()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.stored.values().sum()
    }
}

impl<R: ReadRecord> Collector<'_, R> {
    /// Surveys the store. Objects are listed first, so that later puts are not among them.
    pub(super) fn survey(&self) -> Result<Survey, RemoteError> {
        let remote = self.remote;
        let stored: BTreeMap<String, u64> = remote.backend.walk("objects")?.into_iter().collect();
        let roots = remote.roots()?;
        let ordered = self.ordered()?;
        let listed = remote.backend.walk("cells")?;
        let keys: BTreeSet<ActionKey> =
            listed.iter().filter_map(|(name, _)| key_of(name)).collect();
        let mut results = self.results(&keys)?;
        let listed_records: BTreeSet<Digest> =
            results.iter().map(|f| f.completion.record).collect();
        // Records whose completion the list does not show yet.
        let orphans: Vec<(Digest, u64)> = stored
            .iter()
            .filter_map(|(name, bytes)| Some((digest_of(name)?, *bytes)))
            .filter(|(digest, bytes)| *bytes <= MOST_RECORD && !listed_records.contains(digest))
            .collect();
        let unlisted = each(remote.jobs, &orphans, |(digest, _)| {
            let bytes = self.object(digest)?;
            let view = bytes.and_then(|bytes| (self.read)(digest, &bytes));
            Ok(view.map(|view| view.commit.key))
        })?;
        let unlisted = unlisted.into_iter().flatten();
        let unlisted: BTreeSet<ActionKey> = unlisted.filter(|key| !keys.contains(key)).collect();
        results.extend(self.results(&unlisted)?);
        Ok(Survey {
            roots,
            ordered,
            results,
            stored,
        })
    }

    /// Reads the completions of keys, and their records.
    fn results(&self, keys: &BTreeSet<ActionKey>) -> Result<Vec<Found>, RemoteError> {
        let keys: Vec<ActionKey> = keys.iter().copied().collect();
        let all = each(self.remote.jobs, &keys, |key| {
            self.watch.go_on()?;
            let mut results = Vec::new();
            for (at, entry) in self.remote.entries_of(key)?.into_iter().enumerate() {
                let completion = match entry {
                    Entry::Complete(completion) => completion,
                    Entry::Retired => continue,
                    // What it names must stay.
                    Entry::Damaged(what) => {
                        return Err(RemoteError::Broken(self.remote.url.clone(), what));
                    }
                };
                let record = completion.record;
                let missing = || RemoteError::Missing(self.remote.url.clone(), record);
                let bytes = self.object(&record)?.ok_or_else(missing)?;
                if Digest::of(&bytes) != record {
                    return Err(RemoteError::Damaged(self.remote.url.clone(), record));
                }
                let view = (self.read)(&record, &bytes).ok_or_else(|| {
                    let what = format!("{record} is not a record");
                    RemoteError::Broken(self.remote.url.clone(), what)
                })?;
                results.push(Found {
                    key: *key,
                    number: number_of(at),
                    completion: *completion,
                    view,
                    is_measurement: (self.is_measurement)(&bytes),
                });
            }
            Ok(results)
        })?;
        Ok(all.into_iter().flatten().collect())
    }

    /// Returns the objects named in orders for jobs, and the objects that those name.
    fn ordered(&self) -> Result<BTreeSet<Digest>, RemoteError> {
        let listed = self.remote.backend.walk("jobs")?;
        let documents: Vec<&String> = listed
            .iter()
            .map(|(name, _)| name)
            .filter(|name| !name.starts_with("jobs/bin/") && !name.ends_with(".log"))
            .collect();
        let named = each(self.remote.jobs, &documents, |name| {
            let mut bytes = Vec::new();
            self.remote.backend.read(name, &mut |piece| {
                bytes.extend_from_slice(piece);
                Ok(())
            })?;
            Ok(digests_in(&bytes))
        })?;
        let named: BTreeSet<Digest> = named.into_iter().flatten().collect();
        let list: Vec<Digest> = named.iter().copied().collect();
        let deeper = each(self.remote.jobs, &list, |digest| {
            let bytes = self.object(digest)?;
            Ok(bytes.map(|bytes| digests_in(&bytes)).unwrap_or_default())
        })?;
        Ok(named
            .into_iter()
            .chain(deeper.into_iter().flatten())
            .collect())
    }

    /// Reads an object; `None` if it is missing.
    fn object(&self, digest: &Digest) -> Result<Option<Vec<u8>>, RemoteError> {
        let mut bytes = Vec::new();
        let there = self.remote.read_object(digest, &mut |piece| {
            if bytes.len() as u64 <= MOST_RECORD {
                bytes.extend_from_slice(piece);
            }
            Ok(())
        })?;
        Ok(there.then_some(bytes))
    }
}

/// Returns the digest of an object from its name; `None` for other names.
fn digest_of(name: &str) -> Option<Digest> {
    let (folder, file) = name.strip_prefix("objects/")?.split_once('/')?;
    let file = file.split_once('.').map_or(file, |(digits, _)| digits);
    format!("b3:{folder}{file}").parse().ok()
}

/// Returns the key of a completion from its name; `None` for other names.
fn key_of(name: &str) -> Option<ActionKey> {
    let (folder, rest) = name.strip_prefix("cells/")?.split_once('/')?;
    let (file, _) = rest.split_once('/')?;
    format!("b3:{folder}{file}").parse().ok().map(ActionKey)
}

/// Returns the digests in a text.
fn digests_in(bytes: &[u8]) -> Vec<Digest> {
    const LENGTH: usize = "b3:".len() + 64;
    bytes
        .windows(LENGTH)
        .filter(|window| window.starts_with(b"b3:"))
        .filter_map(|window| std::str::from_utf8(window).ok()?.parse().ok())
        .collect()
}
