//! Results of measurements that a plan takes from the lock: whether they can be read, and whether the experiment still
//! says how they were measured.

use artifacts::{ActionKey, StoreError};

use super::session::Session;
use crate::error::PipelineError;
use crate::ids::CellId;
use crate::key::{Difference, Recipe, value_digest};
use crate::record::Record;
use crate::stage::{CellStatus, Class};

impl Session<'_> {
    /// Refuses results of the lock that were measured with other settings than the experiment now has: a report would
    /// state settings that nobody measured. A stage that computes may change; it is executed again.
    ///
    /// # Errors
    /// If a setting has changed, or a record cannot be read.
    pub(crate) fn must_be_as_measured(&self) -> Result<(), PipelineError> {
        if !self.locked {
            return Ok(());
        }
        let mut first = None;
        let mut more = 0;
        for cell in self.graph.cells() {
            if self.graph.class(cell) == Class::Pure {
                continue;
            }
            let Some(record) = self.states[cell].record() else {
                continue;
            };
            let bytes = match self.store.get_document(&record) {
                // Nothing says which settings a lost record had.
                Err(StoreError::Missing(_)) => continue,
                bytes => bytes?,
            };
            // A record that cannot be parsed states no settings that could have changed.
            let Ok(record) = Record::parse(&bytes) else {
                continue;
            };
            let Some(difference) = self.edit_since(cell, &record) else {
                continue;
            };
            match first {
                None => first = Some((cell, difference)),
                Some(_) => more += 1,
            }
        }
        let Some((cell, difference)) = first else {
            return Ok(());
        };
        let name = self.graph.name(cell);
        let others = match more {
            0 => String::new(),
            1 => " (and another cell has changed settings)".to_owned(),
            n => format!(" (and {n} other cells have changed settings)"),
        };
        Err(PipelineError::Selection {
            message: format!(
                "--locked reports what was measured, but the settings of `{name}` have changed since then: \
                 {difference}{others}"
            ),
            hint: "run without --locked to measure again, or restore the setting".to_owned(),
        })
    }

    /// Returns the first setting of a cell that differs from the one in a record of it. Facets of the machine and
    /// inputs do not count as settings. A setting that the record lacks did not exist when it was measured.
    pub(crate) fn edit_since(&self, cell: CellId, record: &Record) -> Option<Difference> {
        let (stage, i) = self.graph.place(cell);
        let node = &self.graph.nodes[stage];
        let set = node.stage.cells[i].parameters as usize;
        let (before, seed) = (&record.recipe, self.graph.experiment.seed);
        if before.kind == node.stage.kind
            && before.seed == seed
            && value_digest(&before.parameters) == node.parameters[set]
        {
            return None;
        }
        let now = Recipe {
            kind: node.stage.kind.clone(),
            seed,
            parameters: node.stage.parameter_sets[set].clone(),
            ..before.clone()
        };
        let mut differences = now.differences(before, &|_| None).into_iter();
        differences.find(|difference| difference.old.is_some())
    }

    /// Refuses to do without a result of the lock because its record is damaged: a record that changed is a matter for
    /// its owner, who may have a copy of it. A record that is gone is measured again.
    ///
    /// # Errors
    /// If the lock names an ok result of this key, and its record has other bytes.
    pub(super) fn must_not_be_damaged(
        &self,
        cell: CellId,
        key: ActionKey,
    ) -> Result<(), PipelineError> {
        let line = self
            .lock_line(cell)
            .filter(|line| line.status == CellStatus::Ok && line.key == Some(key));
        let Some(record) = line.and_then(|line| line.record) else {
            return Ok(());
        };
        match self.store.get_document(&record) {
            Err(error @ StoreError::Damaged(..)) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Returns whether a locked run has no result for a cell although the lock names one: the store lacks it.
    pub(crate) fn lacks_locked_result(&self, cell: CellId) -> bool {
        let had = || {
            self.lock_line(cell)
                .is_some_and(|line| line.status == CellStatus::Ok)
        };
        self.locked
            && self.graph.class(cell) != Class::Pure
            && self.states[cell].record().is_none()
            && had()
    }

    /// Returns what becomes of the earlier result of a cell that is measured again.
    pub(super) fn fate(&self, cell: CellId) -> Fate {
        let Some(record) = self.lock_line(cell).and_then(|line| line.record) else {
            return Fate::Gone;
        };
        let bytes = self.store.get_document(&record).ok();
        let Some(record) = bytes.and_then(|bytes| Record::parse(&bytes).ok()) else {
            return Fate::Gone;
        };
        let outputs = record.outputs.values();
        if !outputs.map(|a| a.digest).all(|d| self.store.contains(&d)) {
            return Fate::Gone;
        }
        match self.edit_since(cell, &record) {
            Some(_) => Fate::Stays,
            None => Fate::StaysUsable,
        }
    }
}

/// What becomes of an earlier result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    /// A part of it is not in the store.
    Gone,
    /// It stays in the store, but the experiment no longer has its settings.
    Stays,
    /// It stays in the store, and `--locked` uses it.
    StaysUsable,
}

impl Fate {
    /// Returns the end of a sentence about several results.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Gone => "",
            Self::Stays => "; the earlier results stay in the store",
            Self::StaysUsable => {
                "; the earlier results stay in the store, and --locked still uses them"
            }
        }
    }
}
