//! Sends the probes of a search to a server, and keeps every row.

use std::path::{Path, PathBuf};

use contract::{Phase, RequestStatus};
use pipeline::stage::{CellStatus, Control, Failure};

use super::bisect::{Found, Level, Probe, Tried, bisect};
use super::overload::Seen;
use super::settings::{Search, at_level};
use super::tables::{below_one_another, probes_table};
use crate::files::{LoadFiles, Monitoring, run_load_into};
use crate::random::Origin;
use crate::run::{Ending, LoadSpec, Target};
use crate::settings::Settings;
use crate::sheet::TableFile;

/// The output of a search.
#[derive(Debug)]
pub struct SearchFiles {
    /// The result.
    pub outcome: Found,
    /// Why the search ended early, if it did. The result is then the bracket reached by that time.
    pub failure: Option<Failure>,
    /// The probe that represents the search: the last one at the highest level kept or, if none was kept, the last one;
    /// `None` if no probe ended.
    pub best: Option<LoadFiles>,
    /// The tables over all probes: `probes`, `probe_requests`, `probe_chunks`.
    pub tables: Vec<TableFile>,
}

/// Searches for the highest level of the settings' arrivals at which the server meets the bounds. Each probe has a
/// separate folder in `folder`, and separate prompts and arrivals: those of seed + its number, so that no probe profits
/// from the cache of another. `watch` receives each judged probe.
///
/// # Errors
/// If the settings have no search, or the tables cannot be written. Errors of the server, and a stop by the user,
/// appear in [`SearchFiles::failure`], with all probes until then.
pub fn run_search(
    settings: &Settings,
    origin: &Origin,
    target: &Target,
    monitoring: &Monitoring,
    folder: &Path,
    control: &Control,
    watch: &mut dyn FnMut(&Probe),
) -> Result<SearchFiles, Failure> {
    let (Some(search), Some(arrival)) = (&settings.search, &settings.arrival) else {
        return Err(Failure::failed(
            "the settings have no `search` or no `arrival`",
        ));
    };
    let from = Search::lowest(arrival).map_err(Failure::failed)?;
    let slo = search.slo(settings.max_in_flight);
    let rules = search.rules(settings.requests.unwrap_or(1));
    let mut runs: Vec<(usize, Level, LoadFiles)> = Vec::new();
    let mut probe = |number: usize, level: Level, requests: u64| -> Result<Tried, Failure> {
        control.check()?;
        let settings = Settings {
            arrival: Some(at_level(arrival, level)),
            requests: Some(requests),
            search: None,
            ..settings.clone()
        };
        let origin = Origin {
            seed: origin.seed.wrapping_add(number as u64),
            ..origin.clone()
        };
        let at = folder.join(format!("probe-{number:02}"));
        std::fs::create_dir_all(&at)
            .map_err(|e| Failure::failed(format!("{}: {e}", at.display())))?;
        let spec = LoadSpec::for_target(settings, origin, target, &at)
            .map_err(|e| Failure::failed(e.to_string()))?;
        let mut seen: Vec<Seen> = Vec::new();
        let files = run_load_into(&spec, target, monitoring, &at, control, &mut |row, _| {
            if row.phase == Phase::Measured && !row.superseded {
                let ok = row.status == RequestStatus::Ok;
                let took = row.sent_ns.zip(row.done_ns).filter(|_| ok);
                let took = took.map(|(sent, done)| done - sent);
                // The load generator sets the scheduled time of every request that it sends.
                let scheduled_ns = row.scheduled_ns.unwrap_or_default();
                seen.push((scheduled_ns, took, slo.judged(row)));
            }
            Ok(())
        })
        .map_err(crate::kind::unkept)?;
        let failure = match &files.ending {
            Ending::Complete => None,
            Ending::Stopped(status, reason) => Some(Failure::new(*status, reason.clone())),
            Ending::Refused(refusal) => Some(crate::kind::refused(target, refusal)),
            Ending::Hung => Some(Failure::new(
                CellStatus::Hung,
                format!(
                    "no byte arrived on any stream for {} at {level}",
                    spec.heartbeat
                ),
            )),
            Ending::Gone(server) => Some(Failure::failed(format!(
                "{} no longer accepted connections at {level}",
                target.name_of(*server)
            ))),
            Ending::Lost(lost) => Some(Failure::failed(format!("{lost}, at {level}"))),
        };
        runs.push((number, level, files));
        failure.map_or_else(|| Ok(Tried::at(level, seen)), Err)
    };
    let (outcome, ended) = bisect((from, search.up_to), &rules, &mut probe, watch);
    let tables = write_tables(&outcome, &runs, folder).map_err(Failure::failed)?;
    let standing = outcome
        .kept
        .and_then(|kept| {
            runs.iter().rposition(|(number, level, _)| {
                *level == kept && outcome.probes.iter().any(|p| p.probe == *number)
            })
        })
        .or(runs.len().checked_sub(1));
    let best = standing.map(|at| runs.swap_remove(at).2);
    Ok(SearchFiles {
        outcome,
        failure: ended.err(),
        best,
        tables,
    })
}

fn write_tables(
    outcome: &Found,
    runs: &[(usize, Level, LoadFiles)],
    folder: &Path,
) -> Result<Vec<TableFile>, String> {
    let mut files = vec![("probes", probes_table(outcome).map_err(|e| e.to_string())?)];
    for (all, one) in [("probe_requests", "requests"), ("probe_chunks", "chunks")] {
        let parts: Vec<(usize, &Path)> = runs
            .iter()
            .flat_map(|(number, _, run)| {
                run.tables
                    .iter()
                    .filter(move |t| t.name == one)
                    .map(move |t| (*number, t.path.as_path()))
            })
            .collect();
        files.extend(below_one_another(&parts)?.map(|table| (all, table)));
    }
    let mut written = Vec::new();
    for (name, table) in files {
        let path: PathBuf = folder.join(format!("{name}.parquet"));
        let wrong = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let bytes = table.to_parquet().map_err(|e| wrong(&e))?;
        std::fs::write(&path, bytes).map_err(|e| wrong(&e))?;
        written.push(TableFile {
            name,
            path,
            rows: table.rows() as u64,
        });
    }
    Ok(written)
}
