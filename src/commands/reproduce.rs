//! `reproduce`: executes the pure stages of a bundle again and compares every byte.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bundle::{Bundle, Checked};
use indicatif::ProgressBar;
use pipeline::{ReproduceOptions, Reproduced, Reproduction, Which};
use serde_json::json;

use crate::args::{Global, ReproduceArgs};
use crate::exit::Stop;
use crate::given::{Wanted, must_be};
use crate::registry::registry;
use crate::room::{self, Step};
use crate::signals::listen_for_signals;
use crate::terminal::{is_watched, say, say_line};

pub(super) fn reproduce(arguments: &ReproduceArgs, global: &Global) -> Result<(), Stop> {
    must_be(&arguments.bundle, Wanted::Bundle)?;
    let bundle = Bundle::open(&arguments.bundle)?;
    if let Ok(lock) = bundle.lock() {
        let pure = lock
            .stages
            .iter()
            .filter(|stage| Which::All.holds(stage.class));
        let pure = pure.map(|stage| stage.cells.len()).sum();
        let step = Step::executes(lock.records().count(), pure, arguments.jobs);
        room::fits("executing the bundle's study again", &step)?;
    }
    let checked = bundle::verify(&bundle, None)?;
    if !checked.complaints.is_empty() {
        return refuse(arguments, &checked, global);
    }
    let (lock, study, store) = (bundle.lock()?, bundle.study()?, bundle.store()?);
    let cancelled = Arc::new(AtomicBool::new(false));
    listen_for_signals(&cancelled)?;
    let jobs = arguments
        .jobs
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, Into::into));
    let bar = if is_watched() && !global.json {
        ProgressBar::new_spinner()
    } else {
        ProgressBar::hidden()
    };
    let heard = |cell: &Reproduced| {
        bar.inc(1);
        bar.set_message(format!("{} executed again", cell.cell));
    };
    let options = ReproduceOptions {
        which: Which::All,
        jobs: jobs.max(1),
    };
    let cells = pipeline::reproduce(
        options,
        &lock,
        &study,
        &registry(),
        &store,
        &cancelled,
        &heard,
    )?;
    bar.finish_and_clear();
    if cancelled.load(Ordering::Relaxed) {
        return Err(Stop::interrupted());
    }
    let identical = cells
        .iter()
        .filter(|c| c.verdict == Reproduction::Identical)
        .count();
    // The check above has found everything missing that the author did not declare as left out.
    let absent = |c: &&Reproduced| matches!(c.verdict, Reproduction::NotExecuted { .. });
    let not_executed = cells.iter().filter(absent).count();
    let holds = identical + not_executed == cells.len();
    if global.json {
        say(&json!({
            "bundle": arguments.bundle, "trail": lock.trail(), "cells": cells, "identical": identical,
            "not_executed": not_executed, "complaints": checked.complaints, "holds": holds,
        })
        .to_string());
        return if holds {
            Ok(())
        } else {
            Err(Stop::failed_printed())
        };
    }
    tell(&cells);
    let measured = lock.records().count().saturating_sub(cells.len());
    say(&format!(
        "{identical} of {} pure cells give the recorded bytes ({measured} measured cells are \
         taken as they are)",
        cells.len()
    ));
    if not_executed > 0 {
        say(&format!(
            "not executed, because the author left out their inputs: {not_executed}"
        ));
    }
    say(&format!("trail digest {}", lock.trail()));
    if holds {
        Ok(())
    } else {
        Err(Stop::failed_printed())
    }
}

/// Executes nothing, because a bundle that differs from its publication does not show what its author executed.
fn refuse(arguments: &ReproduceArgs, checked: &Checked, global: &Global) -> Result<(), Stop> {
    if global.json {
        say(&json!({
            "bundle": arguments.bundle, "cells": [], "identical": 0,
            "complaints": checked.complaints, "holds": false,
        })
        .to_string());
    } else {
        for complaint in &checked.complaints {
            say_line(&format!("{}: {}", complaint.path, complaint.what));
        }
        say("nothing was executed, because the bundle differs from what was published");
    }
    Err(Stop::failed_printed())
}

/// Prints the counts of each stage, and every cell that differs.
fn tell(cells: &[Reproduced]) {
    let mut stages: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for cell in cells {
        let stage = cell.cell.split('[').next().unwrap_or_default();
        let (same, all) = stages.entry(stage).or_default();
        *same += usize::from(cell.verdict == Reproduction::Identical);
        *all += 1;
    }
    for (stage, (same, all)) in stages {
        say(&format!("{stage}: {same} of {all} identical"));
    }
    for cell in cells {
        match &cell.verdict {
            Reproduction::Identical => {}
            Reproduction::Failed { reason }
            | Reproduction::OtherVersion { reason }
            | Reproduction::NotExecuted { reason } => {
                say_line(&format!("{}: {reason}", cell.cell));
            }
            Reproduction::Different { outputs } => {
                for difference in outputs {
                    let text = |digest: &Option<artifacts::Digest>| {
                        digest
                            .as_ref()
                            .map_or_else(|| "nothing".to_owned(), artifacts::Digest::short)
                    };
                    let (was, is) = (text(&difference.recorded), text(&difference.reproduced));
                    say(&format!(
                        "{}.{}: recorded {was}, now {is}",
                        cell.cell, difference.output
                    ));
                }
            }
        }
    }
}
