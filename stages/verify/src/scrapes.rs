//! The server's counters over the requests of a cell.

use std::collections::BTreeSet;

use contract::{CellRows, ServerCounter};

use crate::study::Cell;

/// Returns the rise of a server's counter from before the first request of a cell until after the last one.
pub(crate) fn rise(cell: &Cell<'_>, rows: &CellRows, counter: &str) -> ServerCounter {
    let metrics = rows.server_metrics.as_ref().zip(window(rows));
    metrics.map_or(ServerCounter::Unknown, |(table, window)| {
        contract::server_counter(table, counter, window, &counting(cell, rows))
    })
}

/// Returns the time of the first sending and of the last end.
fn window(rows: &CellRows) -> Option<(i64, i64)> {
    let all = || rows.requests.iter();
    let from = all().filter_map(|r| r.sent_ns).min()?;
    let to = all().filter_map(|r| r.done_ns.or(r.sent_ns)).max()?;
    Some((from, to))
}

/// Returns the members of a group whose counters are summed: all that run the same engine as a member with metrics. A
/// balancer in front of them has none.
fn counting(cell: &Cell<'_>, rows: &CellRows) -> Vec<String> {
    let Ok(Some(table)) = cell.table("members") else {
        return Vec::new();
    };
    let (Ok(names), Ok(engines)) = (table.text("member"), table.text("engine")) else {
        return Vec::new();
    };
    let members: Vec<(&str, &str)> = names
        .into_iter()
        .zip(engines)
        .filter_map(|(name, engine)| Some((name?, engine?)))
        .collect();
    let metrics = rows.server_metrics.as_ref();
    let labels = metrics.and_then(|table| table.text("labels").ok());
    let labels = labels.into_iter().flatten().flatten();
    let sources: BTreeSet<&str> = labels.map(contract::metrics_source).collect();
    let scraped = |name: &str| sources.contains(format!("member=\"{name}\"").as_str());
    let counted = members.iter().filter(|(name, _)| scraped(name));
    let engines: BTreeSet<&str> = counted.map(|(_, engine)| *engine).collect();
    members
        .iter()
        .filter(|(_, engine)| engines.contains(engine))
        .map(|(name, _)| (*name).to_owned())
        .collect()
}
