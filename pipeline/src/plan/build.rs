//! Turns the state of every cell into the plan document.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use artifacts::{ActionKey, Store, counted};
use typed_index_collections::TiVec;

use super::damage::Damage;
use super::design::design_plan;
use super::measured::Fate;
use super::reason::Reasons;
use super::select::Forced;
use super::session::{Outcome, Session, State};
use super::too_few;
use super::{Counts, Decision, Plan, PlanOptions, PlannedCell, PlannedDemand, Reason, StageCounts};
use crate::error::PipelineError;
use crate::experiment::Experiment;
use crate::graph::Graph;
use crate::ids::{CellId, StageId};
use crate::left_out::LeftOut;
use crate::lock::LockClass;
use crate::place::{CellName, WrittenCell};
use crate::stage::{CellStatus, Class, Demand, Registry};

/// The number of earlier executions of a stage that an estimate uses.
const HISTORY: usize = 4096;

/// The number of cells of a stage whose earlier results are looked for, to say what becomes of them.
const LOOKED_AFTER: usize = 64;

/// Plans an experiment without starting anything.
///
/// # Errors
/// If the store or the lock cannot be read, or an option names something that does not exist.
pub fn plan(
    experiment: &Experiment,
    registry: &Registry,
    store: &Store,
    options: &PlanOptions,
) -> Result<Plan, PipelineError> {
    if store.needs_rebuild()? {
        // Without its index, the store would seem empty.
        store.rebuild(crate::record::view)?;
    }
    let mut session = Session::new(experiment, registry, store, options)?;
    session.check_inputs()?;
    session.must_be_as_measured()?;
    let mut plan = document(&mut session)?;
    plan.design = design_plan(&session);
    Ok(plan)
}

/// A cell that would execute now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The cell.
    pub name: WrittenCell,
    /// The stage's class.
    pub class: Class,
    /// The action key.
    pub key: ActionKey,
}

/// Returns the cells that would execute now because no result is known here, without the cells that will be executed
/// again in any case.
///
/// # Errors
/// If the store or the lock cannot be read, or an option names something that does not exist.
pub fn wanted(
    experiment: &Experiment,
    registry: &Registry,
    store: &Store,
    options: &PlanOptions,
) -> Result<Vec<Wanted>, PipelineError> {
    if store.needs_rebuild()? {
        store.rebuild(crate::record::view)?;
    }
    let mut session = Session::new(experiment, registry, store, options)?;
    session.check_inputs()?;
    let ready = |cell: CellId| match session.states[cell] {
        State::Ready(key) if session.forced[cell] == Forced::No => Some(Wanted {
            name: session.graph.written(cell).to_owned(),
            class: session.graph.class(cell),
            key,
        }),
        _ => None,
    };
    Ok(session.graph.cells().filter_map(ready).collect())
}

/// Returns whether the measurements of a plan depend on this machine's other activity.
pub fn measures_here(plan: &Plan, experiment: &Experiment, registry: &Registry) -> bool {
    if plan.is_idle() {
        return false;
    }
    let busy = |stage: &crate::experiment::Stage| {
        let counted = plan.stages.iter().find(|s| s.stage == stage.name);
        counted.is_some_and(|s| s.counts.run + s.counts.after > 0)
    };
    let Ok(graph) = Graph::new(experiment, registry) else {
        return false;
    };
    graph
        .nodes
        .iter()
        .filter(|node| node.stage.class == Class::Measurement && busy(node.stage))
        .any(|node| {
            let mut cells = node.stage.cells.iter_enumerated();
            cells.any(|(i, cell)| {
                graph.placement(node.cell(i)).is_none()
                    && node
                        .kind
                        .measures_here(&node.stage.parameter_sets[cell.parameters as usize])
            })
        })
}

impl Session<'_> {
    /// Checks that the outputs that executing cells will read are in the store, and plans the cells of missing outputs
    /// again. Hashes outputs of pure stages that a report or an executing cell reads, because they can be made again
    /// from their inputs. Outputs of measurements are hashed when they are read. Outputs that no cell will read are
    /// left to `fsck`.
    pub(crate) fn check_inputs(&mut self) -> Result<(), PipelineError> {
        let mut checked: TiVec<CellId, bool> = vec![false; self.graph.count].into();
        loop {
            let mut changed = Vec::new();
            for cell in self.graph.cells() {
                let (stage, _) = self.graph.place(cell);
                let sees_study = self.graph.nodes[stage].class == LockClass::Study;
                let settled = matches!(self.states[cell], State::Settled(_));
                if settled && !sees_study {
                    continue;
                }
                for input in self.graph.inputs(cell) {
                    let (source, _) = self.graph.place(input);
                    let pure = self.graph.nodes[source].stage.class == Class::Pure;
                    if (settled && !pure) || std::mem::replace(&mut checked[input], true) {
                        continue;
                    }
                    let Some(Outcome::Ok { outputs, .. }) = self.settled(input) else {
                        checked[input] = false;
                        continue;
                    };
                    let damage = match pure {
                        true => Damage::of(self.store, outputs)?,
                        false => Damage::missing(self.store, outputs),
                    };
                    changed.extend(damage.map(|damage| (input, damage)));
                }
            }
            if changed.is_empty() {
                return Ok(());
            }
            self.damaged.extend(changed);
            self.restart()?;
        }
    }

    /// Moves damaged outputs aside, so that cells that make them again can put them in place.
    pub(crate) fn set_damaged_aside(&self) -> Result<(), PipelineError> {
        let changed = self.damaged.values().flat_map(|damage| &damage.changed);
        for digest in changed {
            self.store.set_aside(digest)?;
        }
        Ok(())
    }
}

/// Writes the state of every cell into a document.
pub(crate) fn document(session: &mut Session<'_>) -> Result<Plan, PipelineError> {
    let mut reasons = Reasons::new();
    let mut estimates = Estimates::default();
    let mut cells = Vec::with_capacity(session.graph.count);
    let mut stages = Vec::new();
    let mut demand = PlannedDemand::default();
    for number in session.graph.nodes.keys() {
        let experiment = session.graph.experiment;
        let stage = &experiment.stages[number];
        let mut counts = Counts::default();
        for i in stage.cells.keys() {
            let cell = session.graph.nodes[number].cell(i);
            let decision = decision(session, cell, &mut reasons)?;
            counts.count(&decision);
            let estimate_s = match decision {
                Decision::Run { .. } | Decision::After { .. } => estimates.of(session, cell)?,
                _ => None,
            };
            if matches!(
                decision,
                Decision::Run { .. } | Decision::After { .. } | Decision::Blocked { .. }
            ) {
                let parameters = &stage.parameter_sets[stage.cells[i].parameters as usize];
                demand.add(session.graph.nodes[number].kind.demand(parameters));
            }
            cells.push(PlannedCell {
                name: session.graph.written(cell).to_owned(),
                decision,
                estimate_s,
            });
        }
        for excluded in &stage.excluded {
            let decision = Decision::Excluded {
                reason: excluded.reason.clone(),
            };
            counts.count(&decision);
            let name = CellName {
                stage: stage.name.clone(),
                coordinates: experiment.coordinates(number, &excluded.at),
            };
            cells.push(PlannedCell {
                name: name.written(),
                decision,
                estimate_s: None,
            });
        }
        let product = stage
            .over
            .iter()
            .map(|axis| experiment.axes[*axis].declared)
            .product();
        stages.push(StageCounts {
            stage: stage.name.clone(),
            class: stage.class,
            product,
            counts,
        });
    }
    let mut total = Counts::default();
    cells.iter().for_each(|cell| total.count(&cell.decision));
    assert_eq!(
        total.sum(),
        stages.iter().map(|s| s.counts.sum()).sum::<usize>(),
        "two counts of one plan"
    );
    let active =
        |c: &&PlannedCell| matches!(c.decision, Decision::Run { .. } | Decision::After { .. });
    let estimated: Vec<f64> = cells
        .iter()
        .filter(active)
        .filter_map(|c| c.estimate_s)
        .collect();
    let without_estimate = cells.iter().filter(active).count() - estimated.len();
    let complete = session
        .graph
        .nodes
        .iter()
        .filter(|n| n.class != LockClass::Study)
        .all(|n| n.cells().all(|cell| session.settled(cell).is_some()));
    Ok(Plan {
        experiment: session.graph.experiment.name.clone(),
        profile: session.graph.experiment.profile.clone(),
        notes: notes(session, &cells),
        warnings: too_few::warnings(session, &cells),
        design: None,
        lacks: session.lacks.iter().cloned().collect(),
        demand: (demand.cells > 0).then_some(demand),
        cells,
        stages,
        total,
        estimate_s: if estimated.is_empty() {
            None
        } else {
            Some(estimated.iter().sum())
        },
        without_estimate,
        trail: complete.then(|| session.trail()),
    })
}

fn decision(
    session: &mut Session<'_>,
    cell: CellId,
    reasons: &mut Reasons,
) -> Result<Decision, PipelineError> {
    Ok(match &session.states[cell] {
        State::Settled(Outcome::Ok { record, .. }) => Decision::Cached { record: *record },
        State::Settled(Outcome::Not {
            status: CellStatus::Excluded,
            reason,
            ..
        }) => Decision::Excluded {
            reason: reason.to_string(),
        },
        State::Settled(Outcome::Not { status, reason, .. }) => Decision::Blocked {
            status: *status,
            reason: reason.to_string(),
        },
        State::Ready(key) => {
            let key = *key;
            Decision::Run {
                reason: reasons.find(session, cell, key)?,
            }
        }
        State::Waiting => {
            let mut open = session
                .graph
                .inputs(cell)
                .filter(|c| session.settled(*c).is_none());
            match open.next() {
                Some(first) => Decision::After {
                    cell: session.graph.name(first),
                    count: 1 + open.count(),
                },
                None => Decision::After {
                    cell: "the whole study".to_owned(),
                    count: 0,
                },
            }
        }
    })
}

fn notes(session: &Session<'_>, cells: &[PlannedCell]) -> Vec<String> {
    let mut notes = Vec::new();
    let mut replaced: BTreeMap<&str, (usize, Vec<String>, Fate)> = BTreeMap::new();
    for (cell, planned) in planned_cells(session, cells) {
        let Decision::Run { reason } = &planned.decision else {
            continue;
        };
        let had = session.lock_line(cell).is_some_and(|l| l.outputs.is_some());
        if session.graph.class(cell) == Class::Measurement
            && had
            && session.forced[cell] == Forced::No
        {
            let stage: &str = &planned.name.stage;
            let first = (0, Vec::new(), Fate::StaysUsable);
            let (count, reasons, fate) = replaced.entry(stage).or_insert(first);
            let reason = reason.to_string();
            *count += 1;
            if *count <= LOOKED_AFTER {
                *fate = session.fate(cell).min(*fate);
            }
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
    }
    for (stage, (count, reasons, fate)) in replaced {
        // The list above the notes has them all.
        let reason = match reasons.as_slice() {
            [first, _, ..] => format!("{first}, and other changes"),
            reasons => reasons.concat(),
        };
        notes.push(format!(
            "{} of `{stage}` will be measured again ({reason}){}",
            counted(count, "measured cell"),
            fate.text()
        ));
    }
    notes.extend(session.foreign_notes());
    notes.extend(left_out(session));
    let mut several: Vec<_> = session.several.iter().collect();
    several.sort_unstable();
    for (cell, count) in several {
        notes.push(format!(
            "`{}` has {count} results under its key; the lock says which one is used",
            session.graph.name(*cell)
        ));
    }
    notes
}

/// Returns a note for each label that a stage names, and that the profile or the command line leaves out.
fn left_out(session: &Session<'_>) -> BTreeSet<String> {
    let experiment = session.graph.experiment;
    let mut notes = BTreeSet::new();
    for node in &session.graph.nodes {
        let sets = node.stage.parameter_sets.iter();
        for missing in sets.flat_map(|set| LeftOut::of(experiment, node, set)) {
            notes.insert(format!(
                "{}, which `{}` names, so that stage will fail: {}",
                missing.text(),
                node.stage.name,
                missing.remedy()
            ));
        }
    }
    notes
}

/// Pairs the cells of the plan with their numbers, leaving out excluded ones.
fn planned_cells<'p>(
    session: &Session<'_>,
    cells: &'p [PlannedCell],
) -> impl Iterator<Item = (CellId, &'p PlannedCell)> {
    let real = cells
        .iter()
        .filter(|c| !matches!(c.decision, Decision::Excluded { .. }));
    session.graph.cells().zip(real)
}

/// Expected durations of cells in seconds, from earlier executions.
#[derive(Default)]
struct Estimates {
    stages: HashMap<StageId, Known>,
}

/// The duration in seconds of the newest ok execution of each cell of a stage, and the mean of all.
struct Known {
    cells: HashMap<String, f64>,
    mean: Option<f64>,
}

impl Estimates {
    fn of(&mut self, session: &Session<'_>, cell: CellId) -> Result<Option<f64>, PipelineError> {
        let (stage, i) = session.graph.place(cell);
        let node = &session.graph.nodes[stage];
        let history = match self.stages.entry(stage) {
            std::collections::hash_map::Entry::Occupied(history) => history.into_mut(),
            std::collections::hash_map::Entry::Vacant(empty) => {
                let lines = session.store.history(
                    &session.graph.experiment.name,
                    &node.stage.name,
                    None,
                    HISTORY,
                )?;
                let lines: Vec<_> = lines.into_iter().filter(|l| l.cacheable).collect();
                let sum: f64 = lines.iter().map(|l| l.seconds).sum();
                let mean = (!lines.is_empty()).then(|| sum / lines.len() as f64);
                // The lines are newest first; collecting from the oldest on lets the newest win.
                let cells = lines
                    .into_iter()
                    .rev()
                    .map(|l| (l.coordinates, l.seconds))
                    .collect();
                empty.insert(Known { cells, mean })
            }
        };
        Ok(history.cells.get(&*node.texts[i]).copied().or(history.mean))
    }
}

impl PlannedDemand {
    fn add(&mut self, cell: Option<Demand>) {
        let Some(cell) = cell else {
            return;
        };
        self.cells += 1;
        self.requests += cell.requests.unwrap_or(0);
        self.uncounted_cells += usize::from(cell.requests.is_none());
        self.seconds += cell.seconds.unwrap_or(0.0);
    }
}

impl Plan {
    /// Returns whether nothing will be executed.
    pub fn is_idle(&self) -> bool {
        let mut counts = self.stages.iter().map(|stage| &stage.counts);
        counts.all(|counts| counts.run + counts.after == 0)
    }

    /// Returns the reason why a cell runs.
    pub fn reason(&self, cell: WrittenCell<&str>) -> Option<&Reason> {
        let cell = self.cells.iter().find(|c| c.name.as_ref() == cell)?;
        match &cell.decision {
            Decision::Run { reason } => Some(reason),
            _ => None,
        }
    }
}
