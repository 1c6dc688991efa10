//! A simulated study in memory, clean or with one fault of a given strength.

use std::collections::BTreeMap;
use std::sync::Arc;

use artifacts::{Column, Digest, Scalar, Table, TableRow};
use contract::synthetic::{self, even_chunks, request};
use contract::{CellRows, Phase, Request};
use pipeline::{Coordinates, InputCell, Json};
use serde_json::json;

use super::server::{Draws, Flight, Senders, Served, Server, Work, serve};
use super::{Arrivals, Fault, Imported};
use crate::study::{Cell, Rows, Server as Described, Stage};

/// The number of requests of a cell with injected faults.
const REQUESTS: usize = 40;

/// The number of measurements of each coordinate.
const BLOCKS: u64 = 5;

/// The place of a cell in the study.
#[derive(Clone, Copy)]
struct Place {
    configuration: usize,
    level: usize,
    block: u64,
}

/// The names of the configurations, of which a study has the first [`Arrivals::configurations`]. Their servers report
/// [`Arrivals::slots`].
const CONFIGURATIONS: [&str; 4] = ["batched", "serial", "batched, again", "serial, again"];

/// The warm-up requests of an open load, which one client sends one after another.
const WARM_UP: usize = 2;

/// The pause between the warm-up and the measurement, ms.
const PAUSE: f64 = 400.0;

/// The tokens per answer at each level under open arrivals; closed loops have the first.
const TOKENS: [i64; 2] = [17, 33];

/// A study of two configurations at two levels in five blocks.
pub(super) struct Made {
    arrivals: Arrivals,
    inputs: Vec<InputCell>,
    rows: Vec<CellRows>,
}

impl Made {
    pub(super) fn new(seed: u64, arrivals: Arrivals, fault: Option<(Fault, f64)>) -> Self {
        let mut made = Self {
            arrivals,
            inputs: Vec::new(),
            rows: Vec::new(),
        };
        let labels = match arrivals.are_open() {
            false => arrivals.clients().map(|clients| clients as i64),
            true => TOKENS,
        };
        let names = &CONFIGURATIONS[..arrivals.configurations()];
        for (configuration, name) in names.iter().enumerate() {
            for (level, label) in labels.into_iter().enumerate() {
                for block in 0..BLOCKS {
                    let place = Place {
                        configuration,
                        level,
                        block,
                    };
                    let at = [
                        ("configuration", Scalar::Text((*name).to_owned())),
                        ("level", Scalar::Int(label)),
                        ("block", Scalar::Int(block as i64 + 1)),
                    ];
                    made.inputs.push(synthetic::bare(&at, json!({})));
                    made.rows.push(cell(seed, arrivals, fault, place));
                }
            }
        }
        if let Some((fault, strength)) = fault {
            made.spoil(fault, strength, seed);
        }
        made
    }

    /// Injects faults into the recorded rows. The simulated server itself is healthy.
    fn spoil(&mut self, fault: Fault, strength: f64, seed: u64) {
        // The middle cell: `serial`, the first level, the second block.
        let at = self.rows.len() / 2 + 1;
        match fault {
            Fault::CopiedRows => {
                let rows = &mut self.rows[at].requests;
                for i in 0..strength as usize {
                    copy_times(&rows[3 + i].clone(), &mut rows[20 + i]);
                }
            }
            Fault::CopiedCell => {
                let (source, mut draws) = (self.rows[at + 1].clone(), Draws::new(seed, 77));
                let target = &mut self.rows[at];
                target.requests = source.requests;
                for r in &mut target.requests {
                    // Every time since sending, moved by a share of itself.
                    let factor = draws.factor(strength);
                    stretch(r, factor);
                }
                target.chunks = target.requests.iter().flat_map(even_chunks).collect();
            }
            Fault::TokenBias => {
                let half = self.rows.len() / 2;
                for rows in &mut self.rows[half..] {
                    for r in &mut rows.requests {
                        let more = |n: i64| (n as f64 * (1.0 + strength)).round() as i64;
                        r.output_tokens = r.output_tokens.map(more);
                        // Nobody requested a length, so there is nothing to compare with.
                        r.requested_output_tokens = None;
                        r.finish_reason = Some("stop".to_owned());
                    }
                    for chunk in &mut rows.chunks {
                        chunk.tokens = None;
                    }
                }
            }
            Fault::ClockStep => {
                let step = (strength * 1e6) as i64;
                let rows = &mut self.rows[at];
                let middle = rows.requests[REQUESTS / 2].sent_ns.unwrap_or(0) + 1;
                let moved = |t: &mut Option<i64>| {
                    if let Some(t) = t.as_mut().filter(|t| **t >= middle) {
                        *t += step;
                    }
                };
                for r in &mut rows.requests {
                    for t in [&mut r.scheduled_ns, &mut r.sent_ns, &mut r.headers_ns] {
                        moved(t);
                    }
                    for t in [&mut r.first_token_ns, &mut r.last_token_ns, &mut r.done_ns] {
                        moved(t);
                    }
                }
                for chunk in rows.chunks.iter_mut().filter(|c| c.at_ns >= middle) {
                    chunk.at_ns += step;
                }
            }
            Fault::EarlyFirstToken => {
                for r in self.rows[at].requests.iter_mut().take(3) {
                    let shorter = |t: i64, sent: i64| sent + ((t - sent) as f64 / strength) as i64;
                    r.first_token_ns = r.first_token_ns.zip(r.sent_ns).map(|(t, s)| shorter(t, s));
                    r.headers_ns = r.first_token_ns;
                }
            }
            _ => {}
        }
    }

    /// Passes the study to gates.
    pub(super) fn shown<T>(&self, look: impl FnOnce(&Stage<'_>) -> T) -> T {
        let servers = [0, 1, 2, 3].map(|configuration| {
            let name = CONFIGURATIONS[configuration].to_owned();
            let slots = self.arrivals.slots()[configuration % 2];
            let at = ("configuration".to_owned(), Scalar::Text(name));
            Arc::new(Described {
                stage: "server".to_owned(),
                coordinates: Coordinates(vec![at]),
                descriptor: json!({"settings": {"parallel": slots}}),
                cache_off: None,
            })
        });
        let of_each = self.inputs.len() / self.arrivals.configurations();
        let cells = self.inputs.iter().zip(&self.rows).enumerate();
        let cells = cells.map(|(i, (input, rows))| Cell {
            input,
            rows: Rows::Held(Arc::new(rows.clone())),
            server: Some(servers[i / of_each].clone()),
            store: None,
        });
        look(&Stage {
            name: "ladder",
            axes: ["configuration", "level", "block"]
                .map(str::to_owned)
                .to_vec(),
            cells: cells.collect(),
            failure: Default::default(),
            instrument: None::<Json>,
        })
    }
}

/// Returns the slowdown of a request from the fault, its cell and its place in the cell (0 to 1).
fn slower(fault: Option<(Fault, f64)>, place: Place, request: usize) -> f64 {
    let Some((fault, strength)) = fault else {
        return 1.0;
    };
    let at = request as f64 / REQUESTS as f64;
    let launch = place.configuration == 1 && place.block == 2;
    let share = match fault {
        Fault::ColdStart => f64::from(at < 0.2),
        Fault::Drift => at,
        Fault::LaterBlocks => place.block as f64 / (BLOCKS - 1) as f64,
        Fault::TwoModes => (request % 2) as f64,
        Fault::TwoModesOfOneLaunch if launch => (request % 2) as f64,
        Fault::SlowLaunch => f64::from(launch),
        Fault::SlowCell => f64::from(launch && place.level == 1),
        // The cells with the fewest clients ran while the machine had other work.
        Fault::SlowBase => f64::from(place.configuration == 1 && place.level == 0),
        _ => 0.0,
    };
    1.0 + share * strength
}

/// Returns the output tokens of the requests of a cell.
fn lengths(seed: u64, arrivals: Arrivals, place: Place, tokens: i64, number: u64) -> Vec<i64> {
    let own = Draws::new(seed, 3_000 + number);
    let ragged = |draws: &mut Draws| 9 + (56.0 * draws.uniform()) as i64;
    let mut draws = match arrivals {
        Arrivals::Ragged | Arrivals::Imported(Imported::OtherPrompts) => own,
        shared if shared.are_shared() => Draws::new(seed, 7_000 + place.block),
        // The same prompts for both sides and in every block.
        Arrivals::Imported(_) => Draws::new(seed, 5_000 + place.level as u64),
        _ => return vec![tokens; arrivals.requests()],
    };
    let mut lengths: Vec<i64> = (0..REQUESTS).map(|_| ragged(&mut draws)).collect();
    if let Arrivals::Imported(imported) = arrivals {
        let mut own = Draws::new(seed, 3_000 + number);
        if imported == Imported::OtherOrder {
            for i in (1..lengths.len()).rev() {
                lengths.swap(i, ((i + 1) as f64 * own.uniform()).ceil() as usize - 1);
            }
        }
        // Answers to the same prompt also differ.
        for length in &mut lengths {
            *length = ((*length as f64 * own.factor(0.1)).round() as i64).max(2);
        }
    }
    lengths
}

/// Reduces the rows to what a file of another tool holds.
fn as_imported(rows: &mut Vec<Request>, imported: Imported, place: Place, draws: &mut Draws) {
    for r in rows.iter_mut() {
        (r.prompt_digest, r.prompt_index) = (None, None);
        (r.requested_output_tokens, r.finish_reason) = (None, None);
    }
    if place.configuration == 0 {
        return;
    }
    match imported {
        Imported::SameOrder | Imported::OtherOrder | Imported::OtherPrompts => {}
        Imported::Dropped => rows.retain(|_| draws.uniform() > 0.1),
        Imported::Fewer => rows.truncate(25),
        Imported::LongestDropped => {
            let mut lengths: Vec<Option<i64>> = rows.iter().map(|r| r.output_tokens).collect();
            lengths.sort_unstable();
            let longest = lengths[REQUESTS * 9 / 10];
            rows.retain(|r| r.output_tokens < longest);
        }
    }
}

/// Returns the sending times of an open cell, ms, given the requests per second that keep the server busy.
fn moments(arrivals: Arrivals, capacity: f64, draws: &mut Draws) -> Vec<f64> {
    let n = arrivals.requests();
    let mut at = 0.0;
    let mut moment = |i: usize| {
        let full = 1e3 / capacity;
        match arrivals {
            Arrivals::Open { load } => at += full / load * draws.exponential(),
            Arrivals::Constant { load } => at += full / load,
            Arrivals::Overload => at += full / 1.2 * draws.exponential(),
            Arrivals::SharedArrivals => at += full / 0.7 * draws.exponential(),
            // The probability that a burst continues.
            Arrivals::Bursts { load } => {
                if draws.uniform() > 0.75 {
                    at += 4.0 * full / load * draws.exponential();
                }
            }
            _ => at += full / (0.2 + 0.7 * i as f64 / n as f64) * draws.exponential(),
        }
        at
    };
    (0..n).map(&mut moment).collect()
}

/// Returns the time that each request of a cell takes, from its prompt and its answer.
fn work(
    (arrivals, fault, place): (Arrivals, Option<(Fault, f64)>, Place),
    whole: f64,
    sizes: impl Iterator<Item = (Option<i64>, i64)>,
    draws: &mut Draws,
) -> Vec<Work> {
    let prefill = arrivals.prefill_ms();
    let (shared, moody, [own_prefill, own_decode]) = arrivals.noise(place.level);
    let mut mood = 1.0;
    let one = |(i, (prompt, tokens)): (usize, (Option<i64>, i64))| {
        if i % shared == 0 {
            mood = draws.factor(moody);
        }
        let slower = whole * mood * slower(fault, place, i);
        Work {
            prefill: prompt.map_or(prefill, |n| 0.1 * n as f64)
                * slower
                * draws.factor(own_prefill),
            decode: 4.0 * tokens as f64 * slower * draws.factor(own_decode),
        }
    };
    sizes.enumerate().map(one).collect()
}

/// Returns what a cell says about itself.
fn facts(arrivals: Arrivals, place: Place, number: u64, warm_up: usize) -> Option<TableRow> {
    let clients = (!arrivals.are_open()).then(|| arrivals.clients()[place.level] as i64);
    // Blocks run one after the other, each with its own order of cells.
    let cells = 2 * arrivals.configurations() as u64;
    let turn = (number * 7 + place.block * 3) % cells;
    let started = 1_700_000_000_000_000_000 + (place.block * cells + turn) as i64 * 600_000_000_000;
    synthetic::about(vec![
        Column::int("expected_requests", [Some(arrivals.requests() as i64)]),
        Column::int("warmup_requests", [Some(warm_up as i64)]),
        Column::int("clients", [clients]),
        Column::int("started_unix_ns", [Some(started)]),
    ])
}

/// Returns the flights of the warm-up of an open load on an idle server, given the mean service time, ms.
fn warm_up(arrivals: Arrivals, service: f64) -> Vec<Flight> {
    let flight = |at: usize| {
        let sent = at as f64 * (service + 1.0);
        Flight {
            client: Some(0),
            sent,
            first: sent + arrivals.prefill_ms(),
            last: sent + service,
        }
    };
    let requests = if arrivals.are_open() { WARM_UP } else { 0 };
    (0..requests).map(flight).collect()
}

/// Measures one cell.
fn cell(seed: u64, arrivals: Arrivals, fault: Option<(Fault, f64)>, place: Place) -> CellRows {
    let number = (place.configuration as u64 * 2 + place.level as u64) * BLOCKS + place.block;
    let mut draws = Draws::new(seed, number);
    // The cells of a configuration and a block share a launch.
    let mut launch = Draws::new(
        seed,
        1_000 + place.configuration as u64 * BLOCKS + place.block,
    );
    let whole = launch.factor(0.02) * draws.factor(0.01);
    let tokens = match arrivals {
        Arrivals::LongAnswers => 401,
        _ if arrivals.are_open() => TOKENS[place.level],
        _ => TOKENS[0],
    };
    let mut own = Draws::new(seed, 6_000 + number);
    let prompts: Vec<Option<i64>> = (0..arrivals.requests())
        .map(|_| {
            (arrivals == Arrivals::MixedPrompts).then(|| (50.0 * 64_f64.powf(own.uniform())) as i64)
        })
        .collect();
    let lengths = lengths(seed, arrivals, place, tokens, number);
    let prefill = arrivals.prefill_ms();
    let sizes = prompts.iter().copied().zip(lengths.iter().copied());
    let work = work((arrivals, fault, place), whole, sizes, &mut draws);
    let mut server = Server {
        slots: arrivals.slots()[place.configuration % 2],
        crowding: 0.1,
        batches: arrivals.batches_prompts(),
    };
    let service = prefill + 4.0 * tokens as f64;
    let mut shared = Draws::new(seed, 8_000 + place.block);
    let senders = match arrivals.are_open() {
        false => Senders::Closed(arrivals.clients()[place.level]),
        true => Senders::Open(moments(
            arrivals,
            server.capacity(service),
            match arrivals.are_shared() {
                true => &mut shared,
                false => &mut draws,
            },
        )),
    };
    if let Some((Fault::MoreSlots, slots)) = fault
        && place.configuration == 1
    {
        server.slots = slots as usize;
    }
    let stall = stall(arrivals, fault, place, service);
    let served = serve(server, &senders, &work, stall);
    let mut served = Served {
        pauses: with_stall(served.pauses, stall),
        ..served
    };
    let warm = warm_up(arrivals, service);
    if let Some(last) = warm.last() {
        served.move_by(last.last + PAUSE);
    }
    let Served { flights, pauses } = served;
    let mut requests: Vec<Request> = (0..)
        .zip(flights.iter().zip(&lengths))
        .map(|(id, (f, tokens))| row(id, f, *tokens))
        .collect();
    for (request, prompt) in requests.iter_mut().zip(&prompts) {
        request.prompt_tokens = prompt.or(request.prompt_tokens);
        // Every block has its own prompts, which all of its cells share.
        request.prompt_digest = Some(format!("b3:{}/{}", place.block, request.request_id));
    }
    // At the end, so that the measured rows keep their places.
    requests.extend((1_000..).zip(&warm).map(|(id, flight)| Request {
        phase: Phase::Warmup,
        ..row(id, flight, tokens)
    }));
    if let Arrivals::Imported(imported) = arrivals {
        as_imported(
            &mut requests,
            imported,
            place,
            &mut Draws::new(seed, 4_000 + number),
        );
    }
    let streamed = requests.iter().filter(|_| !arrivals.lack_chunks());
    let mut chunks: Vec<_> = streamed.flat_map(|r| chunks_around(r, &pauses)).collect();
    for chunk in &mut chunks {
        chunk.bytes = Some(2 + (4.0 * draws.uniform()) as i64);
    }
    let more = fault.filter(|(f, _)| *f == Fault::ForeignLoad && place.configuration == 1);
    let more = more.map_or(0.0, |(_, more)| more);
    CellRows {
        place: pipeline::place::CellName::default(),
        requests_digest: Digest::of(b"requests"),
        requests,
        chunks_digest: Some(Digest::of(b"chunks")),
        chunks,
        cell: facts(arrivals, place, number, warm.len()),
        server_metrics: None,
        beside: beside(&mut draws, place.block, seed, more),
    }
}

/// Returns the samples of a machine on which other programs come and go. Part of their load is common to a block, and
/// part is specific to each cell.
fn beside(
    draws: &mut Draws,
    block: u64,
    seed: u64,
    more: f64,
) -> BTreeMap<&'static str, (Digest, Table)> {
    let mut shared = Draws::new(seed, 2_000 + block);
    let busy = 0.15 * shared.uniform() + 0.1 * draws.uniform() + more;
    let threads = 2 + (8.0 * busy) as i64;
    let host = Table::new(vec![
        Column::int("at_ns", [Some(0), Some(100_000_000), Some(200_000_000)]),
        Column::float(
            "cpu_busy",
            [
                None,
                Some((0.25 + busy).min(1.0)),
                Some((0.25 + busy).min(1.0)),
            ],
        ),
        Column::float("cpu_steal", [None, Some(0.01 * draws.uniform()), Some(0.0)]),
        Column::int("runnable", [Some(threads); 3]),
        Column::int("processors", [Some(8); 3]),
        Column::float(
            "temperature_c",
            [Some(60.0 + 10.0 * shared.uniform() + 3.0 * draws.normal()); 3],
        ),
    ]);
    let processes = Table::new(vec![
        Column::int("at_ns", [Some(0), Some(100_000_000), Some(200_000_000)]),
        Column::float("cpu", [None, Some(2.0), Some(2.0)]),
    ]);
    let tables = [("host_telemetry", host), ("process_telemetry", processes)];
    let digested = tables.into_iter().filter_map(|(name, table)| {
        let table = table.ok()?;
        Some((name, (Digest::of(name.as_bytes()), table)))
    });
    digested.collect()
}

fn row(id: i64, flight: &Flight, tokens: i64) -> Request {
    let ns = |ms: f64| Some((ms * 1e6) as i64);
    Request {
        client_id: flight.client,
        scheduled_ns: ns(flight.sent),
        sent_ns: ns(flight.sent),
        headers_ns: ns(flight.first),
        first_token_ns: ns(flight.first),
        last_token_ns: ns(flight.last),
        done_ns: ns(flight.last + 0.05),
        send_lag_ns: Some(0),
        prompt_tokens: Some(100 + id * 37 % 29),
        output_tokens: Some(tokens),
        requested_output_tokens: Some(tokens),
        chunks: Some(tokens),
        ..request(id)
    }
}

/// Returns when a cell's server stalls and for how long, ms, given the mean service time.
fn stall(
    arrivals: Arrivals,
    fault: Option<(Fault, f64)>,
    place: Place,
    service: f64,
) -> Option<(f64, f64)> {
    let configuration = usize::from(arrivals != Arrivals::BatchedPrefill);
    let (_, seconds) = fault.filter(|(fault, _)| {
        *fault == Fault::Stall && place.block == 1 && place.configuration == configuration
    })?;
    Some((0.3 * arrivals.requests() as f64 * service, seconds * 1e3))
}

/// Adds a stall, ms, to the pauses of a server, unless it is part of one.
fn with_stall(mut pauses: Vec<(f64, f64)>, stall: Option<(f64, f64)>) -> Vec<(f64, f64)> {
    let during = |at: f64| {
        pauses
            .iter()
            .any(|(from, long)| (*from..from + long).contains(&at))
    };
    pauses.extend(stall.filter(|(at, _)| !during(*at)));
    pauses.sort_by(|a, b| a.0.total_cmp(&b.0));
    pauses
}

/// Returns chunks that arrive evenly while the server works, which it does except in these pauses, ms.
fn chunks_around(r: &Request, pauses: &[(f64, f64)]) -> Vec<contract::Chunk> {
    let pauses: Vec<(i64, i64)> = pauses
        .iter()
        .map(|(at, long)| ((at * 1e6) as i64, (long * 1e6) as i64))
        .collect();
    let worked = |t: Option<i64>| {
        let without =
            |t: i64, (at, long): &(i64, i64)| if t > *at { (t - long).max(*at) } else { t };
        t.map(|t| pauses.iter().rev().fold(t, without))
    };
    let (first_token_ns, last_token_ns) = (worked(r.first_token_ns), worked(r.last_token_ns));
    let mut chunks = even_chunks(&Request {
        first_token_ns,
        last_token_ns,
        ..r.clone()
    });
    for chunk in &mut chunks {
        for (at, long) in &pauses {
            if chunk.at_ns >= *at {
                chunk.at_ns += long;
            }
        }
    }
    chunks
}

/// Gives a row the times of another, shifted to its own sending time.
fn copy_times(from: &Request, to: &mut Request) {
    let shift = to.sent_ns.zip(from.sent_ns).map_or(0, |(a, b)| a - b);
    let moved = |t: Option<i64>| t.map(|t| t + shift);
    (to.headers_ns, to.first_token_ns) = (moved(from.headers_ns), moved(from.first_token_ns));
    (to.last_token_ns, to.done_ns) = (moved(from.last_token_ns), moved(from.done_ns));
}

fn stretch(r: &mut Request, factor: f64) {
    let sent = r.sent_ns.unwrap_or(0);
    let longer = |t: Option<i64>| t.map(|t| sent + ((t - sent) as f64 * factor) as i64);
    (r.headers_ns, r.first_token_ns) = (longer(r.headers_ns), longer(r.first_token_ns));
    (r.last_token_ns, r.done_ns) = (longer(r.last_token_ns), longer(r.done_ns));
}
