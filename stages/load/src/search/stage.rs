//! A load stage with a search: one cell with the rows of the highest level kept.

use pipeline::stage::{Done, Failure, Job, Output};
use serde_json::json;

use super::run::run_search;
use crate::files::Monitoring;
use crate::kind::output;
use crate::random::Origin;
use crate::run::Target;
use crate::settings::Settings;

/// Runs the search of a cell. Its tables are those of the last probe at the highest level kept (at the lowest level, if
/// none was kept), and `probes`, `probe_requests` and `probe_chunks` over all probes.
///
/// # Errors
/// If the search did not end by itself. The probes until then are the evidence.
pub(crate) fn run(
    job: &Job<'_>,
    settings: &Settings,
    origin: &Origin,
    target: &Target,
    monitoring: &Monitoring,
) -> Result<Done, Failure> {
    let folder = job.scratch.join("search");
    std::fs::create_dir_all(&folder)
        .map_err(|e| Failure::failed(format!("{}: {e}", folder.display())))?;
    let files = run_search(
        settings,
        origin,
        target,
        monitoring,
        &folder,
        job.control,
        &mut |_| {},
    )?;
    let mut outputs: Vec<Output> = files.tables.into_iter().map(output).collect();
    let (mut warnings, mut observations) = (Vec::new(), std::collections::BTreeMap::new());
    if let Some(best) = files.best {
        outputs.extend(best.tables.into_iter().map(output));
        warnings.extend(best.warnings);
        observations.extend(best.observations);
    }
    let outcome = &files.outcome;
    let summary = json!({
        "kept": outcome.kept.map(super::Level::number),
        "missed": outcome.missed.map(super::Level::number),
        "undecided": outcome.undecided.map(|undecided| undecided.level.number()),
        "unit": outcome.probes.first().map(|probe| probe.level.unit()),
        "probes": outcome.probes.len(),
        "requests": outcome.requests(),
    });
    // A stopped search also has one: the bracket reached by then.
    observations.insert("search".to_owned(), summary);
    if let Some(failure) = files.failure {
        return Err(Failure {
            evidence: outputs,
            ..failure.observed(observations, warnings)
        });
    }
    let requests = settings.requests.unwrap_or(1);
    warnings.extend(
        settings
            .search
            .as_ref()
            .and_then(|search| search.warning(requests, settings.arrival.as_ref()?)),
    );
    warnings.extend(outcome.undecided.map(|undecided| undecided.to_string()));
    match (outcome.kept, outcome.missed) {
        (None, Some(missed)) => warnings.push(format!("the bounds are missed already at {missed}")),
        (Some(kept), None) if outcome.undecided.is_none() => {
            warnings.push(format!(
                "the bounds are met at {kept}, the highest level tried; `up-to` limits the search"
            ));
        }
        _ => {}
    }
    Ok(Done {
        outputs,
        warnings,
        observations,
        lease: None,
    })
}
