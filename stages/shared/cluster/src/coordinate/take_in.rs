//! Takes records that machines put into the shared store into the local one.

use std::collections::BTreeSet;

use artifacts::Digest;
use pipeline::CellStatus;
use pipeline::record::view;

use super::{Cluster, News, Search, unwatched};
use crate::document::{DoneCell, name, parse};
use crate::error::ClusterError;
use crate::journal::index_of;

/// The number of records taken in together.
const TOGETHER: usize = 1_000;

impl Cluster<'_> {
    /// Takes in the records that are complete in the shared store; returns whether any are new.
    pub(super) fn take_in(&mut self, search: Search) -> Result<bool, ClusterError> {
        let mut changed = false;
        match search {
            Search::Listed => {
                let documents = self.asked.remote.documents(&name(&self.jobs.run, "done"))?;
                self.work.names += documents.len() as u64;
                let new: Vec<String> = documents
                    .into_iter()
                    .filter(|d| !d.starts_with('.') && !self.read.contains(d))
                    .collect();
                for group in new.chunks(TOGETHER) {
                    changed |= !self.take_in_documents(group)?.is_empty();
                }
            }
            Search::Next => {
                let mut jobs = self.jobs.active_indices();
                while !jobs.is_empty() {
                    let mut taken = BTreeSet::new();
                    for group in jobs.chunks(TOGETHER) {
                        let names: Vec<String> =
                            group.iter().map(|job| self.next_document(*job)).collect();
                        self.work.names += names.len() as u64;
                        taken.extend(self.take_in_documents(&names)?);
                    }
                    changed |= !taken.is_empty();
                    jobs.retain(|job| taken.contains(job));
                }
            }
        }
        if changed {
            self.learn(News::Progress);
        }
        Ok(changed)
    }

    /// Returns the name of a job's next document, unless its number was left out.
    fn next_document(&self, job: usize) -> String {
        let number = self.next.get(&job).copied().unwrap_or_default();
        DoneCell::document(&self.jobs.jobs[job].name, number as usize)
    }

    /// Takes in the records of those documents that exist; returns the indices of their jobs.
    fn take_in_documents(&mut self, documents: &[String]) -> Result<BTreeSet<usize>, ClusterError> {
        let run = &self.jobs.run;
        let whole: Vec<String> = documents
            .iter()
            .map(|document| name(run, &format!("done/{document}")))
            .collect();
        let (remote, store) = (self.asked.remote, self.asked.store);
        let mut done: Vec<(&String, DoneCell)> = Vec::new();
        for ((document, whole), bytes) in documents
            .iter()
            .zip(&whole)
            .zip(remote.read_documents(&whole)?)
        {
            if let Some(bytes) = bytes {
                done.push((document, parse(remote, whole, &bytes)?));
            }
        }
        if done.is_empty() {
            return Ok(BTreeSet::new());
        }
        let records: Vec<Digest> = done.iter().map(|(_, done)| done.record).collect();
        // The records belong to this study, wherever they were made.
        let report = unwatched(|watch| remote.pull_own(store, &records, view, watch))?;
        if let Some((_, error)) = report.broken.into_iter().next() {
            return Err(error.into());
        }
        self.journal.note(&records)?;
        let mut jobs = BTreeSet::new();
        for (document, done) in done {
            let (shard, number) = document.split_once('.').unwrap_or((document, ""));
            if let (Some(index), Ok(number)) = (index_of(shard), number.parse::<u32>()) {
                let next = self.next.entry(index).or_default();
                *next = (*next).max(number.saturating_add(1));
                jobs.insert(index);
            }
            self.take_in_cell(shard, done);
            self.read.insert(document.clone());
        }
        Ok(jobs)
    }

    fn take_in_cell(&mut self, shard: &str, done: DoneCell) {
        let cell = done.name;
        let is_ok = done.status == CellStatus::Ok;
        // If several shards execute a cell, such as the preparation of the engine, the first record counts.
        let source = self.source.get(&cell);
        let of_other = source.is_some_and(|source| source != shard);
        if of_other && !(is_ok && self.failed.contains(&cell)) {
            return;
        }
        self.elsewhere.failures.remove(&cell);
        match is_ok {
            true => self.failed.remove(&cell),
            false => self.failed.insert(cell.clone()),
        };
        self.source.insert(cell.clone(), shard.to_owned());
        self.elsewhere.records.insert(cell, done.record);
    }
}
