//! Which requests of two cells are compared by their prompts.
//!
//! If a duration ends a load, its number of requests depends on the speed of the server. Both sides draw the same prompts
//! in the same order, and the faster side sends more of them. So only as many requests as both sent are compared.

use contract::{CellRows, Request};

use crate::study::Cell;

/// Returns how many measured requests of two cells are compared; `None` if all are.
pub(crate) fn in_common(a: &Cell<'_>, b: &Cell<'_>) -> Option<usize> {
    let timed = |cell: &Cell<'_>| {
        let duration = cell.input.parameters.get("duration");
        duration.is_some_and(|duration| !duration.is_null())
    };
    if !timed(a) || !timed(b) {
        return None;
    }
    let sent = |cell: &Cell<'_>| cell.answers().map_or(0, |rows| rows.measured().count());
    Some(sent(a).min(sent(b)))
}

/// Returns the first measured requests of a cell, this many, in the order of sending, or all of them.
pub(crate) fn first(rows: &CellRows, number: Option<usize>) -> Vec<&Request> {
    let mut requests: Vec<&Request> = rows.measured().collect();
    if let Some(number) = number {
        requests.sort_by_key(|r| (r.prompt_index, r.sent_ns, r.request_id));
        requests.truncate(number);
    }
    requests
}
