//! Detects whether a cell found prompts in its server's cache that another cell had left there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contract::{AS_DECLARED, CellRows, RowSource};

use super::facets::Values;
use crate::study::{Cell, Stage};

/// The number of cells of each server in which each prompt was sent.
pub(crate) type Sent = BTreeMap<usize, BTreeMap<String, u32>>;

/// The share of prompt tokens that may be cached anyway, such as a template's opening.
const OPENING: f64 = 0.05;

/// Counts the cells of each server that sent a prompt.
pub(crate) fn sent(stage: &Stage<'_>) -> Sent {
    let mut sent = Sent::new();
    for cell in &stage.cells {
        let (Some(rows), Some(server)) = (cell.answers(), &cell.server) else {
            continue;
        };
        let of_server = sent.entry(Arc::as_ptr(server).addr()).or_default();
        for digest in digests(&rows) {
            *of_server.entry(digest.to_owned()).or_default() += 1;
        }
    }
    sent
}

fn digests(rows: &CellRows) -> BTreeSet<&str> {
    let requests = rows.requests.iter().filter(|r| !r.superseded);
    requests
        .filter_map(|r| r.prompt_digest.as_deref())
        .collect()
}

/// Returns whether a cell began with a cold cache for its prompts; `None` if that is unknown. Empty
/// for a cell without a server.
pub(crate) fn values(cell: &Cell<'_>, sent: &Sent) -> Values {
    let is = |text: String| Some(BTreeMap::from([(String::new(), text)]));
    let cold = || is("cold".to_owned());
    let (Some(rows), Some(server)) = (cell.answers(), &cell.server) else {
        return Some(BTreeMap::new());
    };
    if cell
        .source()
        .is_some_and(|source| source != RowSource::Measured)
    {
        return Some(BTreeMap::new());
    }
    match cell.fact_text("cache_reset") {
        Some("proven" | "no-hits") => return cold(),
        Some("failed") => return is("not emptied".to_owned()),
        _ => {}
    }
    let of_server = sent.get(&Arc::as_ptr(server).addr());
    let shared = |digest: &str| of_server.is_some_and(|all| all.get(digest) > Some(&1));
    // Anything cached when a prompt is first sent was left by another cell.
    let mut first: BTreeMap<&str, &contract::Request> = BTreeMap::new();
    for request in rows.requests.iter().filter(|r| !r.superseded) {
        let Some(digest) = request.prompt_digest.as_deref().filter(|d| shared(d)) else {
            continue;
        };
        let earliest = first.entry(digest).or_insert(request);
        if (request.sent_ns, request.request_id) < (earliest.sent_ns, earliest.request_id) {
            *earliest = request;
        }
    }
    if first.is_empty() {
        return cold();
    }
    let counts = first.values().filter(|r| r.is_ok());
    let counts: Option<Vec<(i64, i64)>> = counts
        .map(|r| Some((r.cached_prompt_tokens?, r.prompt_tokens?)))
        .collect();
    let Some(counts) = counts else {
        // The server reports no counts, but a disabled cache has no hits.
        let how = server.cache_off.as_ref()?;
        let declared = how.contains(AS_DECLARED).then_some(AS_DECLARED);
        return is(format!("cold{}", declared.unwrap_or_default()));
    };
    let (cached, all) = counts
        .into_iter()
        .fold((0, 0), |(cached, all), (c, n)| (cached + c, all + n));
    let share = cached as f64 / all.max(1) as f64;
    if share <= OPENING {
        return cold();
    }
    is(format!(
        "warm: {:.0} % of the prompts that other cells of the server sent were cached",
        100.0 * share
    ))
}
