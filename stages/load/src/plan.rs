//! From a spec to what the measuring thread needs: rendered requests and their times.

use crate::api::Exchange;
use crate::api_key::ApiKey;
use crate::arrival::Arrival;
use crate::measure::{Limits, Plan, Planned};
use crate::peer::Peer;
use crate::prompts::Prompt;
use crate::run::{LoadError, LoadSpec, Target};
use crate::wire;

/// Connections opened ahead at most.
const CONNECT_AHEAD: usize = 4096;

/// Renders requests to bytes.
pub(crate) struct Renderer<'a> {
    pub(crate) spec: &'a LoadSpec,
    pub(crate) target: &'a Target,
    pub(crate) peer: Peer,
}

impl Renderer<'_> {
    /// Renders a request that follows what was said before it.
    pub(crate) fn render(&self, prompt: &Prompt, history: &[Exchange]) -> Vec<u8> {
        let (spec, target) = (self.spec, self.target);
        let path = target.path.as_deref().unwrap_or(target.api.path(spec.delivery));
        let headers: Vec<_> =
            target.headers.iter().cloned().chain(target.api_key.as_ref().map(ApiKey::header)).collect();
        let body = target.api.body(&target.model, &spec.workload, prompt, history, spec.delivery);
        let body = serde_json::to_vec(&body).expect("a JSON value always serializes");
        wire::post(&self.peer.address, path, &headers, &body)
    }
}

/// Renders a run's requests and draws their times.
///
/// # Errors
/// If the arrivals cannot be drawn or a header is none.
pub(crate) fn plan(
    spec: &LoadSpec,
    target: &Target,
    renderer: &Renderer<'_>,
    prompts: &[&Prompt],
) -> Result<Plan, LoadError> {
    let warmup = spec.prompts.warmup.len();
    let sessions = spec
        .prompts
        .sessions()
        .map(|sessions| sessions.into_iter().map(|s| warmup + s.start..warmup + s.end).collect::<Vec<_>>());
    // What arrives: sessions, or requests.
    let measured = sessions.as_ref().map_or(spec.prompts.measured.len(), Vec::len);
    let content = serde_json::to_value(&spec.arrival).expect("an arrival always serializes");
    let offsets = spec
        .arrival
        .offsets(measured, &spec.origin.stream("load arrivals v1", &content))
        .map_err(LoadError)?;
    let render = |prompt: &&Prompt| {
        // A later turn needs the answers before it.
        let later = prompt.turn.is_some_and(|turn| turn > 1);
        let bytes = if later { Vec::new() } else { renderer.render(prompt, &[]) };
        Planned { bytes, think_ns: prompt.think_ns }
    };
    let requests = prompts.iter().map(render).collect();
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
        peer: renderer.peer.clone(),
        requests,
        warmup,
        sessions,
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
