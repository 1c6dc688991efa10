//! From a spec to what the measuring thread needs: rendered requests and their times.

use std::net::SocketAddr;

use crate::api_key::ApiKey;
use crate::arrival::Arrival;
use crate::measure::{Limits, Plan, Planned};
use crate::run::{LoadError, LoadSpec, Target};
use crate::wire::{self, Address};

/// Connections opened ahead at most.
const CONNECT_AHEAD: usize = 4096;

/// Renders a run's requests and draws their times.
///
/// # Errors
/// If the arrivals cannot be drawn or a header is none.
pub(crate) fn plan(
    spec: &LoadSpec,
    target: &Target,
    address: &Address,
    addresses: Vec<SocketAddr>,
    prompts: &[&crate::prompts::Prompt],
) -> Result<Plan, LoadError> {
    let measured = spec.prompts.measured.len();
    let content = serde_json::to_value(&spec.arrival).expect("an arrival always serializes");
    let offsets = spec
        .arrival
        .offsets(measured, &spec.origin.stream("load arrivals v1", &content))
        .map_err(LoadError)?;
    let path = target.path.as_deref().unwrap_or(target.api.path(spec.delivery));
    let headers: Vec<_> =
        target.headers.iter().cloned().chain(target.api_key.as_ref().map(ApiKey::header)).collect();
    let requests = prompts
        .iter()
        .map(|prompt| {
            let body = target.api.body(&target.model, &spec.workload, prompt, spec.delivery);
            let body = serde_json::to_vec(&body).expect("a JSON value always serializes");
            Planned { bytes: wire::post(address, path, &headers, &body) }
        })
        .collect();
    if let Some((name, _)) = target.headers.iter().find(|(n, v)| (n.clone() + v).contains(['\r', '\n'])) {
        return Err(LoadError(format!("header {name}: a header holds no line breaks")));
    }
    let wanted = match (&spec.arrival, spec.arrival.clients(), spec.arrival.peak_rate()) {
        (Arrival::Burst, _, _) => measured,
        (_, Some(clients), _) => clients as usize,
        (_, _, Some(rate)) => rate.ceil() as usize,
        // The most that arrive within one second.
        (Arrival::Trace(_), _, _) => most_within_a_second(offsets.as_deref().unwrap_or_default()),
        _ => 1,
    };
    Ok(Plan {
        addresses,
        requests,
        warmup: spec.prompts.warmup.len(),
        clients: spec.arrival.clients(),
        think_ns: spec.arrival.think_time().nanoseconds(),
        offsets,
        connect_ahead: wanted.min(measured.max(1)).min(CONNECT_AHEAD),
        limits: Limits {
            connect: spec.timeouts.connect.duration(),
            first_token: spec.timeouts.first_token.duration(),
            inter_token: spec.timeouts.inter_token.duration(),
            total: spec.timeouts.total.duration(),
        },
    })
}

fn most_within_a_second(offsets: &[u64]) -> usize {
    let until = |i: usize| offsets.partition_point(|at| *at <= offsets[i].saturating_add(1_000_000_000));
    (0..offsets.len()).map(|i| until(i) - i).max().unwrap_or(1)
}
