//! `possible-scaling`: does a server deliver more than its slots allow?

use std::collections::BTreeMap;

use artifacts::counted;
use contract::CellRows;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Sample, t_interval};

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, NO_CLOCK, TypedGate, listed, share, show, some};
use crate::replicates;
use crate::study::{Cell, Stage};

pub(crate) struct PossibleScaling;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The number of requests that the server works on at one time. By default, that of the
    /// server's descriptor or of the simulated server.
    #[serde(default)]
    slots: Option<u32>,
    /// The share by which throughput may exceed what the slots can deliver.
    #[serde(default = "fifth")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    tolerance: f64,
    /// How long two answers may appear to overlap on one slot, ms, because a network may delay the
    /// end of an answer.
    #[serde(default = "twenty")]
    #[schemars(range(min = 0))]
    overlap_ms: f64,
}

fn fifth() -> f64 {
    0.2
}

fn twenty() -> f64 {
    20.0
}

impl TypedGate for PossibleScaling {
    type Parameters = Parameters;
    const NAME: &'static str = "possible-scaling";
    const SUMMARY: &'static str = "\
        A server never works on more requests at once than it has slots.\n\n\
        In each cell, at most that many answers are between their first and last token at the same time.\n\n\
        The gate also compares the numbers of clients of a closed loop. The pace is the number of tokens over the \
        time the server was busy, with the fewest clients. With n clients, throughput is at most what the slots can \
        deliver to n clients at that pace. A higher throughput means that the cells were measured under different \
        conditions, or that tokens were counted wrongly. The gate fails if the 98 % t interval of the log excess over \
        repetitions is above `tolerance`. With fewer than three repetitions, it fails if the excess is above twice \
        the tolerance.";
    const SEVERITY: Severity = Severity::Fail;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        let mut judged: Vec<Judgement> = stage
            .cells
            .iter()
            .enumerate()
            .filter_map(|(i, cell)| {
                Some(at_once(parameters, cell, cell.answers()?.as_ref()).of_cell(i))
            })
            .collect();
        judged.push(scaling(parameters, stage).of_stage());
        judged
    }
}

/// Returns the number of requests that a cell's server processes at once.
fn slots(parameters: &Parameters, cell: &Cell<'_>) -> Option<i64> {
    let given = parameters.slots.map(i64::from).filter(|n| *n > 0);
    given.or_else(|| stated_slots(cell))
}

/// Returns the number of slots that the server reports or that its model has.
pub(crate) fn stated_slots(cell: &Cell<'_>) -> Option<i64> {
    let reported = || {
        let descriptor = &cell.server.as_ref()?.descriptor;
        [
            "/limits/slots",
            "/settings/parallel",
            "/settings/max-num-seqs",
        ]
        .iter()
        .find_map(|pointer| descriptor.pointer(pointer)?.as_i64())
    };
    let simulated = || {
        cell.input
            .parameters
            .pointer("/simulate/server/slots")?
            .as_i64()
    };
    reported().or_else(simulated).filter(|n| *n > 0)
}

/// Judges one cell by the number of answers generated at once.
fn at_once(parameters: &Parameters, cell: &Cell<'_>, rows: &CellRows) -> Assessment {
    let Some(slots) = slots(parameters, cell) else {
        return Assessment::not_judged(
            "the number of slots is not known",
            "answers within the slots",
        );
    };
    let expected = format!("at most {slots} answers between first and last token at one time");
    if !rows.has_one_clock() {
        return Assessment::not_judged(NO_CLOCK, expected);
    }
    let tolerance = (parameters.overlap_ms * 1e6) as i64;
    let mut events: Vec<(i64, i64, i64)> = Vec::new();
    for r in rows.requests.iter().filter(|r| !r.superseded) {
        if let (Some(first), Some(last)) = (r.first_token_ns, r.last_token_ns)
            && last - first > tolerance
        {
            events.push((first, 1, r.request_id));
            events.push((last - tolerance, -1, r.request_id));
        }
    }
    if events.is_empty() {
        let why = format!("no answer takes longer than {} ms", parameters.overlap_ms);
        return Assessment::not_judged(why, expected);
    }
    events.sort_unstable();
    let (mut now, mut most, mut ids) = (0, 0, Vec::new());
    for (_, change, id) in events {
        now += change;
        most = most.max(now);
        if change > 0 && now > slots {
            ids.push(id);
        }
    }
    let observed = if ids.is_empty() {
        format!("at most {most} at one time")
    } else {
        format!(
            "{most} at one time; {} answers begin while {slots} others are generated. The server \
             has more slots than it reports, or first tokens are stamped too early",
            ids.len()
        )
    };
    Assessment::new(ids.is_empty(), observed, expected).evidence(some(&ids))
}

/// The throughput of one cell.
struct Delivered {
    clients: i64,
    slots: i64,
    /// Output tokens per second over the measured window.
    throughput: f64,
    /// Output tokens per second of the time in which the server had a request.
    busy: f64,
}

fn delivered(parameters: &Parameters, cell: &Cell<'_>) -> Option<Delivered> {
    let clients = cell.clients()?;
    let rows = cell.answers().filter(|rows| rows.has_one_clock())?;
    // An answer from a cache takes no time in a slot.
    if rows
        .measured()
        .any(|r| r.cached_prompt_tokens.is_some_and(|n| n > 0))
    {
        return None;
    }
    let mut spans: Vec<(i64, i64)> = rows
        .measured()
        .filter_map(|r| Some((r.sent_ns?, r.done_ns?)))
        .collect();
    spans.sort_unstable();
    let (mut busy, mut until) = (0, i64::MIN);
    for (sent, done) in &spans {
        busy += (done - until.max(*sent)).max(0);
        until = until.max(*done);
    }
    let window = until - spans.first()?.0;
    let tokens: i64 = rows
        .measured()
        .filter(|r| r.is_ok())
        .filter_map(|r| r.output_tokens)
        .sum();
    (window > 0 && busy > 0 && tokens > 0).then(|| Delivered {
        clients,
        slots: slots(parameters, cell).unwrap_or(0),
        throughput: tokens as f64 / window as f64 * 1e9,
        busy: tokens as f64 / busy as f64 * 1e9,
    })
}

/// Judges a stage by its throughput over the numbers of clients.
fn scaling(parameters: &Parameters, stage: &Stage<'_>) -> Assessment {
    let expected = format!(
        "throughput at most {} above that of the slots",
        share(parameters.tolerance)
    );
    // Series of cells that differ only in clients and repetitions. An axis belongs to the clients
    // if its label determines their number.
    let mut hidden = replicates::axes(stage, None);
    hidden.extend(
        stage
            .axes
            .iter()
            .filter(|axis| counts_clients(stage, axis))
            .cloned(),
    );
    let mut judged = 0;
    let mut wrong = Vec::new();
    for (at, cells) in replicates::groups(stage, &hidden) {
        let mut levels: BTreeMap<i64, Vec<Delivered>> = BTreeMap::new();
        for cell in cells {
            if let Some(delivered) = delivered(parameters, &stage.cells[cell]) {
                levels.entry(delivered.clients).or_default().push(delivered);
            }
        }
        let Some((fewest, base)) = levels.first_key_value() else {
            continue;
        };
        let Some(slots) = base.first().map(|d| d.slots).filter(|n| *n > 0) else {
            continue;
        };
        let pace: Vec<f64> = base.iter().map(|d| d.busy.ln()).collect();
        for (clients, cells) in levels.iter().skip(1) {
            judged += 1;
            let factor = (*clients).min(slots) as f64 / (*fewest).min(slots) as f64;
            let logs: Vec<f64> = cells.iter().map(|d| d.throughput.ln()).collect();
            let excess = Excess::of(&logs, &pace, factor);
            if excess.is_beyond(parameters.tolerance) {
                let mean = |logs: &[f64]| (logs.iter().sum::<f64>() / logs.len() as f64).exp();
                wrong.push(format!(
                    "{at}: {} tok/s with {clients} clients on {slots} slots; {} tok/s with \
                    {fewest} allows at most {}",
                    show(mean(&logs)),
                    show(mean(&pace)),
                    show(mean(&pace) * factor)
                ));
            }
        }
    }
    if judged == 0 {
        let why = "no closed loop with several numbers of clients, known slots and cold caches";
        return Assessment::not_judged(why, expected);
    }
    let observed = if wrong.is_empty() {
        format!(
            "{} of clients within the throughput of their slots",
            counted(judged, "level")
        )
    } else {
        format!(
            "{} of {judged} levels deliver more than their slots can. Compare the conditions of these cells with those \
             of the fewest clients, and count their tokens",
            wrong.len()
        )
    };
    Assessment::new(wrong.is_empty(), observed, expected).evidence(listed(&wrong))
}

fn counts_clients(stage: &Stage<'_>, axis: &str) -> bool {
    let mut clients: BTreeMap<String, i64> = BTreeMap::new();
    let mut several = std::collections::BTreeSet::new();
    for cell in &stage.cells {
        let (Some(label), Some(n)) = (cell.input.coordinates.get(axis), cell.clients()) else {
            continue;
        };
        several.insert(n);
        if *clients.entry(label.to_string()).or_insert(n) != n {
            return false;
        }
    }
    several.len() > 1
}

/// The excess of throughput over what is possible, on the log scale.
struct Excess {
    mean: f64,
    /// The lower end of the 98 % t interval; `None` with fewer than three repetitions.
    low: Option<f64>,
}

impl Excess {
    fn of(logs: &[f64], pace: &[f64], factor: f64) -> Self {
        let centre = pace.iter().sum::<f64>() / pace.len() as f64 + factor.ln();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64 - centre;
        let half = |values: &[f64]| {
            let sample = Sample::new(values.iter().copied()).ok()?;
            let interval = t_interval(&sample, 0.98)?;
            (values.len() > 2).then_some((interval.high - interval.low) / 2.0)
        };
        let low = half(logs).zip(half(pace)).map(|(a, b)| mean - a.hypot(b));
        Self { mean, low }
    }

    fn is_beyond(&self, tolerance: f64) -> bool {
        match self.low {
            Some(low) => low > tolerance.ln_1p(),
            None => self.mean > (2.0 * tolerance).ln_1p(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use artifacts::{Column, Scalar};
    use contract::{Request, synthetic};
    use pipeline::{InputCell, Json};

    use super::*;
    use crate::study::Rows;

    /// Returns the rows of a cell with one request of each of these clients. It may declare their number.
    fn rows(ids: &[i64], declared: Option<i64>) -> CellRows {
        let request = |(i, id): (i64, &i64)| Request {
            client_id: Some(*id),
            ..synthetic::request(i)
        };
        CellRows {
            cell: declared.and_then(|n| synthetic::about(vec![Column::int("clients", [Some(n)])])),
            ..synthetic::rows_of((0..).zip(ids).map(request).collect())
        }
    }

    /// Returns whether the axis of some cells counts clients, and the number of clients of each cell.
    fn counted_in(cells: &[(&str, CellRows)]) -> (bool, Vec<Option<i64>>) {
        let label = |label: &str| [("load", Scalar::Text(label.to_owned()))];
        let inputs: Vec<InputCell> = cells
            .iter()
            .map(|(level, _)| synthetic::bare(&label(level), Json::Null))
            .collect();
        let cell = |(input, (_, rows)): (_, &(&str, CellRows))| Cell {
            input,
            rows: Rows::Held(Arc::new(rows.clone())),
            server: None,
            store: None,
        };
        let stage = Stage {
            name: "ladder",
            axes: vec!["load".to_owned()],
            cells: inputs.iter().zip(cells).map(cell).collect(),
            failure: Default::default(),
            instrument: None,
        };
        let clients = stage.cells.iter().map(Cell::clients).collect();
        (counts_clients(&stage, "load"), clients)
    }

    #[test]
    fn clients_are_counted_as_declared_or_by_their_rows_whatever_their_ids() {
        let (counts, clients) = counted_in(&[
            ("low", rows(&[0, 1, 1], None)),
            ("low", rows(&[3, 7], None)),
            ("high", rows(&[0, 1, 2, 9], None)),
            ("high", rows(&[5], Some(4))),
        ]);
        assert_eq!(clients, [Some(2), Some(2), Some(4), Some(4)]);
        assert!(counts);
        let (counts, _) = counted_in(&[
            ("low", rows(&[0, 1], None)),
            ("low", rows(&[0, 1, 2], None)),
        ]);
        assert!(!counts);
    }
}
