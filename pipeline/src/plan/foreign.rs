//! Measurements made by others: which of them a plan may use, and the notes about them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use artifacts::{Cached, Digest, Maker, Store, counted};

use super::session::Session;
use crate::error::PipelineError;
use crate::ids::CellId;
use crate::reuse::{Reuse, makers_in_words, this_host};
use crate::stage::Class;

/// Results made by others, and those that this plan leaves out.
pub(crate) struct Foreign {
    makers: BTreeMap<Digest, Maker>,
    policy: Reuse,
    here: Option<String>,
    /// All records that may be used, if not everything in the store.
    known_records: Option<Arc<BTreeSet<Digest>>>,
    /// Cells that are executed although others have results, with one of these results.
    left_out: HashMap<CellId, Digest>,
}

impl Foreign {
    pub(super) fn of(
        store: &Store,
        policy: Reuse,
        known_records: Option<Arc<BTreeSet<Digest>>>,
    ) -> Result<Self, PipelineError> {
        Ok(Self {
            known_records,
            makers: store.imports()?,
            policy,
            here: this_host(),
            left_out: HashMap::new(),
        })
    }

    /// Returns whether all results may be used because none was made by others.
    pub(super) fn is_empty(&self) -> bool {
        self.makers.is_empty() && self.known_records.is_none()
    }

    /// Forgets which results were left out.
    pub(super) fn restart(&mut self) {
        self.left_out.clear();
    }

    fn permits(&self, record: &Digest) -> bool {
        if let Some(known_records) = &self.known_records
            && !known_records.contains(record)
        {
            return false;
        }
        let maker = self.makers.get(record);
        maker.is_none_or(|maker| self.policy.permits(maker, self.here.as_deref()))
    }
}

impl Session<'_> {
    /// Returns the results of a cell that may be used; the lock's result always may.
    pub(super) fn permitted(&mut self, cell: CellId, results: Vec<Cached>) -> Vec<Cached> {
        if self.graph.class(cell) == Class::Pure {
            return results;
        }
        let locked = self.lock_line(cell).and_then(|line| line.record);
        let first = results.first().map(|cached| cached.record);
        let usable =
            |cached: &Cached| self.foreign.permits(&cached.record) || locked == Some(cached.record);
        let kept: Vec<Cached> = results.into_iter().filter(usable).collect();
        if let (true, Some(first)) = (kept.is_empty(), first) {
            self.foreign.left_out.insert(cell, first);
        }
        kept
    }

    /// Returns notes on the cells that use results of others, and those that could.
    pub(super) fn foreign_notes(&self) -> Vec<String> {
        let foreign = &self.foreign;
        let mut used: BTreeMap<String, (usize, BTreeSet<Maker>)> = BTreeMap::new();
        let mut offered = used.clone();
        for cell in self.graph.cells() {
            if self.graph.class(cell) == Class::Pure {
                continue;
            }
            let (notes, record) = match (self.states[cell].record(), foreign.left_out.get(&cell)) {
                (Some(record), _) => (&mut used, record),
                (None, Some(record)) => (&mut offered, *record),
                (None, None) => continue,
            };
            if let Some(maker) = foreign.makers.get(&record) {
                let (count, makers) = notes
                    .entry(self.graph.stage_name(cell).to_owned())
                    .or_default();
                *count += 1;
                makers.insert(maker.clone());
            }
        }
        let used = used.into_iter().map(|(stage, (count, makers))| {
            format!(
                "{} of `{stage}` from {}",
                counted(count, "result"),
                makers_in_words(makers)
            )
        });
        let offered = offered.into_iter().map(|(stage, (count, makers))| {
            format!(
                "{} of `{stage}` from {} left out (`reuse: {}`); `--reuse {}` uses them",
                counted(count, "result"),
                makers_in_words(makers.clone()),
                foreign.policy.word(),
                Reuse::narrowest(&makers, foreign.here.as_deref()).word()
            )
        });
        used.chain(offered).collect()
    }
}
