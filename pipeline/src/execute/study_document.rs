//! The view of the study that its reports get, as a document next to the lock.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use artifacts::{Digest, Store};
use serde::{Deserialize, Serialize};

use super::summary::study_of;
use crate::cause::Cause;
use crate::error::PipelineError;
use crate::experiment::Experiment;
use crate::key::value_digest;
use crate::lock::{Lock, LockCell, LockClass};
use crate::place::{Coordinates, WrittenCell, cell_text};
use crate::plan::{PlanOptions, Session, State};
use crate::record::Record;
use crate::stage::{CellStatus, Class, Json, LedgerLine, Registry};

/// The view of the study that its reports get, as a document that can travel with the lock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyDocument {
    /// The experiment in canonical form.
    pub spec: Json,
    /// The trail digest.
    pub trail: Digest,
    /// The ledger, without stages that see the study.
    pub ledger: Vec<LedgerLine>,
    /// The kind of every stage.
    pub kinds: BTreeMap<String, String>,
    /// The parameters of measurements, by the digest in their readers' recipes.
    pub parameters: BTreeMap<Digest, Json>,
}

impl StudyDocument {
    /// Collects the document of a finished study from the experiment and its lock. Executes nothing, and ignores facets
    /// of this machine.
    ///
    /// # Errors
    /// If the store returns an error, or the study is not ready to publish: a cell is neither done nor accounted for, or no
    /// measurement is ok.
    pub fn collect(
        experiment: &Experiment,
        registry: &Registry,
        store: &Store,
    ) -> Result<Result<Self, String>, PipelineError> {
        let options = PlanOptions {
            locked: true,
            ..PlanOptions::default()
        };
        // A copied store has an untrusted index, so cached cells are found by their records.
        if store.needs_rebuild()? {
            store.rebuild(crate::record::view)?;
        }
        let mut session = Session::new(experiment, registry, store, &options)?;
        // The cells that read an edited one have not run either, but its turn is first.
        if let Some(why) = edited(&session)? {
            return Ok(Err(why));
        }
        let is_ready = |s: &State| matches!(s, State::Ready(_));
        let open = session.states.position(is_ready);
        let open = open.or_else(|| session.states.position(|s| !s.is_settled()));
        if let Some(cell) = open {
            let open = session
                .states
                .iter()
                .filter(|s| !matches!(s, State::Settled(_)))
                .count();
            return Ok(Err(format!(
                "{} not run yet; the first is {}",
                match open {
                    1 => "1 cell has".to_owned(),
                    n => format!("{n} cells have"),
                },
                session.graph.name(cell)
            )));
        }
        if let Some(why) = otherwise(&session) {
            return Ok(Err(why));
        }
        if let Some(why) = session.lock.as_ref().and_then(Self::incomplete) {
            return Ok(Err(why));
        }
        let study = study_of(&mut session);
        let kinds = experiment
            .stages
            .iter()
            .map(|s| (s.name.clone(), s.kind.clone()))
            .collect();
        let mut parameters = BTreeMap::new();
        for node in session
            .graph
            .nodes
            .iter()
            .filter(|n| n.class == LockClass::Measurement)
        {
            for (set, digest) in node.stage.parameter_sets.iter().zip(&node.parameters) {
                let mut set = set.clone();
                set.sort_all_objects();
                parameters.insert(*digest, set);
            }
        }
        Ok(Ok(Self {
            spec: study.spec,
            trail: study.trail,
            ledger: study.ledger,
            kinds,
            parameters,
        }))
    }

    /// Returns what keeps a lock from being that of a complete study: a cell that the user stopped or that the run did not
    /// reach, or measurements of which none is ok. Cells that failed, or that lack something on the machine, are results.
    pub fn incomplete(lock: &Lock) -> Option<String> {
        let cells = || {
            let stages = lock.stages.iter();
            stages.flat_map(|stage| stage.cells.iter().map(move |cell| (stage, cell)))
        };
        let stopped = |cell: &LockCell| match cell.status {
            CellStatus::Interrupted => true,
            CellStatus::Skipped => {
                let reason = cell.reason.as_deref().unwrap_or_default();
                Cause::read(reason).is_not_reached()
            }
            _ => false,
        };
        if let Some((stage, cell)) = cells().find(|(_, cell)| stopped(cell)) {
            return Some(not_ok(&stage.name, cell));
        }
        let mut measured = cells().filter(|(stage, cell)| {
            stage.class == LockClass::Measurement && cell.status != CellStatus::Excluded
        });
        let (stage, first) = measured.next()?;
        let is_ok = |cell: &LockCell| cell.status == CellStatus::Ok;
        let any = is_ok(first) || measured.any(|(_, cell)| is_ok(cell));
        (!any).then(|| format!("no measurement is ok; {}", not_ok(&stage.name, first)))
    }

    /// Describes where this document disagrees with a lock and with the records that the lock names. Empty if
    /// everything in it that lock and records determine agrees.
    pub fn disagreements(&self, lock: &Lock, records: &[(LockClass, &Record)]) -> Vec<String> {
        let mut out = Vec::new();
        if self.trail != lock.trail() {
            out.push("its trail digest differs from the lock's".to_owned());
        }
        for (digest, value) in &self.parameters {
            if value_digest(value) != *digest {
                out.push(format!("the parameters {} were changed", digest.short()));
            }
        }
        for (class, record) in records {
            let name = cell_text(&record.stage, &record.coordinates.to_string());
            let kind = self.kind_of(&record.stage);
            if kind != Some(record.recipe.kind.as_str()) {
                out.push(format!(
                    "it gives {name} the kind `{}`, the record says `{}`",
                    kind.unwrap_or("none"),
                    record.recipe.kind
                ));
            }
            let seen = record.recipe.study.as_ref();
            if let Some(seen) = seen.filter(|_| *class == LockClass::Study)
                && (seen.spec != value_digest(&self.spec) || seen.trail != self.trail)
            {
                out.push(format!("it is not the study that {name} read"));
            }
        }
        out.extend(self.ledger_disagreement(lock, records));
        out
    }

    /// Checks that the ledger repeats the lock and, for measurements, their records.
    fn ledger_disagreement(&self, lock: &Lock, records: &[(LockClass, &Record)]) -> Option<String> {
        let mut stated: BTreeMap<WrittenCell, &LockCell> = BTreeMap::new();
        for stage in lock.stages.iter().filter(|s| s.class != LockClass::Study) {
            for cell in &stage.cells {
                stated.insert(cell.of(&stage.name).to_owned(), cell);
            }
        }
        let written = |stage: &str, coordinates: &Coordinates| WrittenCell {
            stage: stage.to_owned(),
            coordinates: coordinates.to_string(),
        };
        let records: HashMap<WrittenCell, &(LockClass, &Record)> = records
            .iter()
            .map(|entry| (written(&entry.1.stage, &entry.1.coordinates), entry))
            .collect();
        for line in &self.ledger {
            let written = written(&line.stage, &line.coordinates);
            let measured = records
                .get(&written)
                .filter(|(class, _)| *class == LockClass::Measurement)
                .map(|(_, record)| *record);
            let agrees = stated
                .remove(&written)
                .is_some_and(|cell| is_line_of(line, cell, measured));
            if !agrees {
                return Some(format!(
                    "its ledger contradicts the lock and the record of {written}"
                ));
            }
        }
        let (missing, _) = stated.into_iter().next()?;
        Some(format!("its ledger has no line for {missing}"))
    }

    pub(super) fn kind_of(&self, stage: &str) -> Option<&str> {
        self.kinds.get(stage).map(String::as_str)
    }

    /// Returns the names of the stages that a stage needs, as the spec has them.
    pub(super) fn needs_of(&self, stage: &str) -> Vec<String> {
        let stages = self.spec.get("stages").and_then(|stages| stages.get(stage));
        let needs = stages.and_then(|s| s.get("needs")).and_then(Json::as_array);
        let names = needs.into_iter().flatten().filter_map(Json::as_str);
        names.map(str::to_owned).collect()
    }
}

/// Returns whether a line of the ledger agrees with the lock's cell and, for a measurement, with its record.
fn is_line_of(line: &LedgerLine, cell: &LockCell, measured: Option<&Record>) -> bool {
    let stated = line.status == cell.status && line.reason == cell.reason;
    let as_recorded = match (&line.execution, measured) {
        (Some(execution), Some(record)) => {
            let loud = record.preflight.as_ref().and_then(|p| p.loud.as_ref());
            let discarded: BTreeSet<Digest> = execution.discarded.iter().copied().collect();
            line.evidence == record.evidence
                && execution.order == record.order
                && execution.place == record.place
                && execution.loud.as_ref() == loud
                && execution.host == record.host
                && execution.by == record.by
                && execution
                    .started
                    .iter()
                    .all(|started| *started == record.started)
                && execution.executions == cell.executions()
                && discarded == cell.discarded().collect()
        }
        (None, None) => line.evidence.is_empty(),
        _ => false,
    };
    stated && as_recorded
}

/// Returns how the current study differs from its lock, if it does.
fn otherwise(session: &Session<'_>) -> Option<String> {
    let Some(lock) = &session.lock else {
        return Some("it has not run yet".to_owned());
    };
    let now = session.to_lock();
    if now == *lock {
        return None;
    }
    let before = lock.index();
    let cells = now.stages.iter().flat_map(|stage| {
        stage
            .cells
            .iter()
            .map(move |cell| (cell.of(&stage.name), cell))
    });
    let differs = |(written, cell): &(WrittenCell<&str>, &LockCell)| {
        before.get(written).is_none_or(|line| line != cell)
    };
    let first = cells.into_iter().find(differs).map(|(written, cell)| {
        if cell.status == CellStatus::Ok {
            return match before.contains_key(&written) {
                true => format!("the lock and the store have different results of {written}"),
                false => format!("the lock has no result of {written}"),
            };
        }
        not_ok(written.stage, cell)
    });
    Some(first.unwrap_or_else(|| {
        "the lock has cells that are no longer in the \
        experiment"
            .to_owned()
    }))
}

/// Returns a sentence about a cell that is not ok, with its reason.
fn not_ok(stage: &str, cell: &LockCell) -> String {
    let reason = cell.reason.as_deref();
    let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    format!("{} is {}{reason}", cell.of(stage), cell.status.word())
}

/// Returns a cell taken from the lock that was executed with settings other than the experiment's current ones, if any.
/// Its readers may not show the difference.
fn edited(session: &Session<'_>) -> Result<Option<String>, PipelineError> {
    let graph = &session.graph;
    for cell in graph.cells().filter(|c| graph.class(*c) != Class::Pure) {
        let Some(record) = session.states[cell].record() else {
            continue;
        };
        let record = Record::parse(&session.store.get_document(&record)?);
        if !record.is_ok_and(|record| session.edit_since(cell, &record).is_none()) {
            let name = graph.name(cell);
            return Ok(Some(format!(
                "the experiment's settings for {name} have changed since it was executed"
            )));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::LockStage;

    fn cell(status: CellStatus, reason: Option<&str>) -> LockCell {
        LockCell {
            coordinates: String::new(),
            status,
            key: None,
            record: None,
            outputs: None,
            reason: reason.map(str::to_owned),
            earlier: Vec::new(),
        }
    }

    fn lock(server: LockCell, load: Vec<LockCell>) -> Lock {
        let stage = |name: &str, class, cells| LockStage {
            name: name.to_owned(),
            class,
            cells,
        };
        Lock {
            stages: vec![
                stage("load", LockClass::Measurement, load),
                stage("server", LockClass::Resource, vec![server]),
            ],
            ..Lock::default()
        }
    }

    #[test]
    fn a_study_that_was_stopped_or_measured_nothing_is_not_complete() {
        use CellStatus::{Excluded, Failed, Interrupted, Ok, Skipped};
        let (ok, failed) = (|| cell(Ok, None), || cell(Failed, Some("it crashed")));
        let not_reached = || cell(Skipped, Some("not reached: the run was interrupted"));
        let passed_on = "`server` is skipped: not reached: the run was interrupted";
        for (server, load, why) in [
            (
                cell(Interrupted, Some("stopped by the user")),
                vec![ok()],
                "server is interrupted: stopped by the user",
            ),
            (
                ok(),
                vec![ok(), not_reached()],
                "load is skipped: not reached: the run was interrupted",
            ),
            (
                ok(),
                vec![cell(Skipped, Some(passed_on))],
                "load is skipped: `server` is skipped: not reached: the run was interrupted",
            ),
            (
                failed(),
                vec![cell(Skipped, Some("`server` is failed: it crashed"))],
                "no measurement is ok; load is skipped: `server` is failed: it crashed",
            ),
        ] {
            assert_eq!(
                StudyDocument::incomplete(&lock(server, load)).as_deref(),
                Some(why)
            );
        }
        let blocked = || cell(Skipped, Some("blocked: no GPU"));
        for load in [
            vec![failed(), ok(), blocked()],
            vec![cell(Excluded, None)],
            Vec::new(),
        ] {
            assert_eq!(StudyDocument::incomplete(&lock(ok(), load)), None);
        }
    }
}
