//! Converts a spec to the measuring thread's input: the number of requests, their due times, and their limits.

use contract::Phase;

use crate::arrival::Arrival;
use crate::headers::header_problem;
use crate::measure::{Ahead, Limits, Plan};
use crate::run::{LoadError, LoadSpec, Target};
use crate::servers::Servers;

/// The most connections opened before the start.
const CONNECT_AHEAD: usize = 4096;

/// Draws the times of a run; nothing is rendered yet.
///
/// # Errors
/// If the arrivals cannot be drawn or a header is invalid.
pub(crate) fn plan(spec: &LoadSpec, target: &Target, servers: Servers) -> Result<Plan, LoadError> {
    // Arrivals are sessions, or requests without sessions.
    let mut units = spec
        .prompts
        .sessions()
        .map_or(spec.prompts.count(Phase::Measured), <[_]>::len);
    let content = serde_json::to_value(&spec.arrival).expect("an arrival always serializes");
    let mut offsets = spec
        .arrival
        .offsets(
            units,
            &spec.origin.stream("load arrivals v1", &content),
            &spec.files,
        )
        .map_err(LoadError::new)?;
    if let (Some(offsets), Some(duration)) = (&mut offsets, spec.extent.duration) {
        offsets.truncate(offsets.partition_point(|at| *at < duration.nanoseconds()));
        units = offsets.len();
        if offsets.is_empty() {
            return Err(LoadError::new(format!(
                "no request arrives within {duration}; raise `duration` or the rate"
            )));
        }
    }
    let given_up = spec.extent.given_up(
        spec.prompts.count(Phase::Measured),
        &spec
            .origin
            .stream("load given up v1", &serde_json::Value::Null),
    );
    if let Some((problem, _)) = target
        .headers
        .iter()
        .find_map(|(name, value)| header_problem(name, value))
    {
        return Err(LoadError::new(problem));
    }
    let at_most = spec
        .extent
        .max_in_flight
        .map_or(usize::MAX, |most| most as usize);
    let wanted = match (
        &spec.arrival,
        spec.arrival.clients(),
        spec.arrival.peak_rate(),
    ) {
        (Arrival::Burst, _, _) => units,
        (_, Some(clients), _) => clients as usize,
        (_, _, Some(rate)) => rate.ceil() as usize,
        // The most arrivals within one second.
        (Arrival::Trace(_), _, _) => most_within_a_second(offsets.as_deref().unwrap_or_default()),
        _ => 1,
    };
    Ok(Plan {
        servers,
        ahead: Ahead::new(),
        warmup: spec.prompts.count(Phase::Warmup),
        units,
        clients: spec.arrival.clients(),
        think_ns: spec.arrival.think_time().nanoseconds(),
        offsets,
        duration_ns: spec.extent.duration.map(|duration| duration.nanoseconds()),
        max_in_flight: spec.extent.max_in_flight,
        given_up,
        connect_ahead: wanted.min(units.max(1)).min(at_most).min(CONNECT_AHEAD),
        limits: Limits::of(&spec.timeouts),
        gate: None,
    })
}

fn most_within_a_second(offsets: &[u64]) -> usize {
    let until =
        |i: usize| offsets.partition_point(|at| *at <= offsets[i].saturating_add(1_000_000_000));
    (0..offsets.len()).map(|i| until(i) - i).max().unwrap_or(1)
}
