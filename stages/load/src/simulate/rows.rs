//! Converts settings to the rows of a simulated cell.

use apis::Delivery;
use artifacts::Digest;
use contract::{Api, Chunk, Phase, Request, RequestStatus, RowSource, TokenSource};
use pipeline::design::{BLOCK, CONTROL};
use pipeline::stage::{Control, Failure, Json};

use super::cache::Cacheable;
use super::events::{
    Asked, AskedText, Fault, Flight, Limits, Machine, Over, Pace, Senders, lognormal,
};
use super::model::{Faults, SimulatedServer, Simulation};
use crate::prompts::Prompt;
use crate::random::{Draws, Origin, Stream};
use crate::run::{CellFacts, Ending, LoadResult, LoadSpec};

/// The simulated clock's zero: 2000-01-01 00:00 UTC, ns since 1970.
const ZERO_UNIX_NS: u64 = 946_684_800_000_000_000;

/// The latest arrival. Answers follow it, and no time may be 146 years from the zero of its clock.
const FURTHEST_NS: u64 = 100 * 365 * 86_400 * 1_000_000_000;

/// The memory that a request and a token of a simulated answer take until the cell's tables are written, in bytes: measured
/// with answers of 8 and of 50,000 tokens, rounded up.
const MEMORY: [u64; 2] = [1_000, 220];

/// The text of one simulated token.
const TOKEN: &str = "tok ";

/// Draws the rows of a cell from the model of a server. `noise` is the origin of the noise; prompts and arrivals have
/// the origin in the specification. `api` is the stage's own, if it names one.
///
/// # Errors
/// If the arrivals cannot be drawn, the user stops the cell, or its time limit passes.
pub(crate) fn simulate(
    spec: &LoadSpec,
    simulation: &Simulation,
    server: &SimulatedServer,
    api: Option<Api>,
    noise: &Origin,
    control: &Control,
) -> Result<LoadResult, Failure> {
    let generates = api.is_none_or(Api::generates);
    let whole = !generates || spec.delivery == Delivery::Whole;
    let content = noise_content(spec, simulation, server, api);
    let stream = |domain: &str| noise.stream(&format!("load simulation v1 {domain}"), &content);
    let texts = |phase| {
        spec.prompts
            .of(phase)
            .map_err(|e| Failure::failed(format!("the prompts cannot be read again: {e}")))
    };
    let mut prompts = texts(Phase::Warmup)?;
    let warmup = prompts.len();
    prompts.extend(texts(Phase::Measured)?);
    let offsets = offsets_of(spec, prompts.len() - warmup)?;
    if let Some(offsets) = &offsets {
        prompts.truncate(warmup + offsets.len());
    }
    let measured = prompts.len() - warmup;
    let lost = struck(
        simulation.faults.missing_rows.as_ref().map(|f| f.share),
        measured,
        &stream("missing"),
    );
    let given_up = spec.extent.given_up(
        measured,
        &spec.origin.stream("load given up v1", &Json::Null),
    );
    let mut asked = asked(
        &prompts,
        warmup,
        (server, api),
        spec.workload.system.as_deref(),
        &simulation.faults,
        &stream("faults"),
    );
    for (request, after) in asked.iter_mut().skip(warmup).zip(given_up) {
        request.given_up = after.map(|after| u64::try_from(after.as_nanos()).unwrap_or(u64::MAX));
    }
    fits_in_memory(&asked, whole)?;

    let (start, pace) = start_and_pace(simulation, server, noise, &stream);

    let mut machine = Machine::new(server, &asked, limits(spec), pace);
    let hang_after = simulation.faults.hang.as_ref().map(|h| h.after);
    let (over, measured_from) = serve(
        &mut machine,
        spec,
        (warmup, measured),
        offsets.as_deref(),
        hang_after,
        control,
    )?;

    let is_lost = |request: usize| request >= warmup && lost[request - warmup];
    let (requests, chunks) = rows(&machine.flights, &prompts, &asked, whole, is_lost);
    let counted = requests.iter().filter(|r| r.phase == Phase::Measured);
    let from = counted.clone().filter_map(|r| r.sent_ns).min();
    let to = counted.filter_map(|r| r.done_ns).max();
    let cell = CellFacts {
        source: RowSource::Simulated,
        expected_requests: measured as u64,
        warmup_requests: warmup as u64,
        unsent_requests: 0,
        arrival: spec.arrival.word(),
        clients: spec.arrival.clients(),
        rate: spec.arrival.rate(),
        api: "simulated",
        streamed: !whole,
        started_unix_ns: ns(ZERO_UNIX_NS.saturating_add(start)),
        measured_from_ns: Some(ns(measured_from)),
        window: from.zip(to),
        client_cpu_ns: None,
        connections: 0,
        started_monotonic_ns: 0,
        health: None,
        cache_reset: None,
    };
    Ok(LoadResult {
        ending: if over == Over::Hung {
            Ending::Hung
        } else {
            Ending::Complete
        },
        requests,
        chunks,
        server_metrics: Vec::new(),
        engine_log: None,
        cell,
        warnings: Vec::new(),
    })
}

/// Returns what determines the noise of a cell, apart from the seed and the replicate. Cells that differ in one of these
/// settings have separate noise, as two measurements do.
fn noise_content(
    spec: &LoadSpec,
    simulation: &Simulation,
    server: &SimulatedServer,
    api: Option<Api>,
) -> Json {
    let mut content = vec![
        simulation.content(),
        serde_json::to_value(server).expect("a server always serializes"),
        serde_json::to_value(&spec.workload).expect("a workload always serializes"),
        serde_json::to_value(&spec.arrival).expect("an arrival always serializes"),
    ];
    // Only what differs from the default counts, so that the other cells keep their rows.
    let mut further = serde_json::Map::new();
    let mut say = |key: &str, value: Json| further.insert(key.to_owned(), value);
    if let Some(api) = api {
        say("api", api.word().into());
    }
    if spec.delivery == Delivery::Whole {
        say("delivery", "whole".into());
    }
    if let Some(most) = spec.extent.max_in_flight {
        say("max-in-flight", most.into());
    }
    if let Some(cancel) = &spec.extent.cancel {
        let cancel = serde_json::to_value(cancel).expect("a setting always serializes");
        say("cancel", cancel);
    }
    if !further.is_empty() {
        content.push(further.into());
    }
    content.into()
}

/// Returns when the requests of open arrivals are due, from the start of the measured phase: as many as there are prompts,
/// but none after the duration. `None` for a closed loop.
///
/// # Errors
/// If the arrivals cannot be drawn.
fn offsets_of(spec: &LoadSpec, prompts: usize) -> Result<Option<Vec<u64>>, Failure> {
    let arrivals = serde_json::to_value(&spec.arrival).expect("an arrival always serializes");
    let stream = spec.origin.stream("load arrivals v1", &arrivals);
    let drawn = spec.arrival.offsets(prompts, &stream, &spec.files);
    let mut offsets = drawn.map_err(Failure::failed)?;
    if let (Some(duration), Some(offsets)) = (spec.extent.duration, &mut offsets) {
        let due = offsets.partition_point(|at| *at < duration.nanoseconds());
        offsets.truncate(due);
    }
    let last = offsets.as_ref().and_then(|offsets| offsets.last());
    if last.is_some_and(|last| *last > FURTHEST_NS) {
        return Err(
            Failure::failed("the last request would be sent after more than 100 years")
                .hint("raise the rate, or send fewer requests"),
        );
    }
    Ok(offsets)
}

/// Checks that there is memory for the rows of a cell, which are all kept until its tables are written.
///
/// # Errors
/// If there is not.
fn fits_in_memory(asked: &[Asked], whole: bool) -> Result<(), Failure> {
    let chunks = asked.iter().filter(|request| request.generates && !whole);
    let tokens: u64 = chunks.map(|request| u64::from(request.output_tokens)).sum();
    let [per_request, per_token] = MEMORY;
    let needed = (asked.len() as u64).saturating_mul(per_request);
    let needed = needed.saturating_add(tokens.saturating_mul(per_token));
    artifacts::regular::room_for(needed).map_err(|e| {
        let requests = artifacts::counted(asked.len(), "request");
        Failure::failed(format!(
            "a simulated cell of {requests} and {tokens} tokens: {e}"
        ))
        .hint("give a cell fewer requests or shorter answers: it keeps all its rows in memory")
    })
}

/// Serves the warm-up, and then the measured requests. Returns how it ended, and when the measured phase began, ns.
///
/// # Errors
/// If the user stops the cell, or its time limit passes.
fn serve(
    machine: &mut Machine<'_>,
    spec: &LoadSpec,
    (warmup, measured): (usize, usize),
    offsets: Option<&[u64]>,
    hang_after: Option<u64>,
    control: &Control,
) -> Result<(Over, u64), Failure> {
    let clients = spec.arrival.clients().unwrap_or(1);
    let ahead = Senders::Closed {
        clients,
        think_ns: 0,
    };
    let over = machine.phase(0..warmup, &ahead, control)?;
    let measured_from = machine.now;
    if over != Over::Done {
        return Ok((over, measured_from));
    }
    let senders = match offsets {
        Some(offsets) => Senders::Open(offsets),
        None => Senders::Closed {
            clients,
            think_ns: spec.arrival.think_time().nanoseconds(),
        },
    };
    machine.hang_after = hang_after;
    machine.max_in_flight = spec.extent.max_in_flight.filter(|_| offsets.is_some());
    let over = machine.phase(warmup..warmup + measured, &senders, control)?;
    Ok((over, measured_from))
}

/// Draws when a cell starts, in ns since the clock's zero, and how its times are stretched.
fn start_and_pace(
    simulation: &Simulation,
    server: &SimulatedServer,
    noise: &Origin,
    stream: &dyn Fn(&str) -> Stream,
) -> (u64, Pace) {
    let mut draws: Draws = stream("cell").at(0);
    let spread = simulation.clock.spread.nanoseconds();
    let start = simulation
        .clock
        .start
        .nanoseconds()
        .saturating_add(draws.below(spread.saturating_add(1)));
    let pace = Pace {
        factor: simulation.slowdown
            * lognormal(&mut draws, server.noise.cell)
            * of_launch(simulation, server, noise),
        step: server.noise.step,
        drift: simulation.clock.drift,
        hours: start as f64 / 3.6e12,
        draws: stream("steps").at(0),
    };
    (start, pace)
}

fn limits(spec: &LoadSpec) -> Limits {
    Limits {
        first_token: spec.timeouts.first_token.nanoseconds(),
        inter_token: spec.timeouts.inter_token.nanoseconds(),
        total: spec.timeouts.total.nanoseconds(),
        heartbeat: spec.heartbeat.nanoseconds(),
    }
}

/// Returns the rows of the requests that were sent and are not lost, and of their chunks.
fn rows(
    flights: &[Option<Flight>],
    prompts: &[Prompt],
    asked: &[Asked],
    whole: bool,
    is_lost: impl Fn(usize) -> bool,
) -> (Vec<Request>, Vec<Chunk>) {
    let (mut requests, mut chunks) = (Vec::with_capacity(prompts.len()), Vec::new());
    for (request, flight) in flights.iter().enumerate() {
        let Some(flight) = flight.as_ref().filter(|_| !is_lost(request)) else {
            continue;
        };
        requests.push(row(
            request,
            flight,
            &prompts[request],
            &asked[request],
            whole,
        ));
        if whole {
            continue;
        }
        let read = |(read, (at, tokens)): (usize, &(u64, u32))| Chunk {
            request_id: request as i64,
            attempt: 1,
            at_ns: ns(*at),
            bytes: Some(i64::from(*tokens) * TOKEN.len() as i64),
            tokens: Some(i64::from(*tokens)),
            read: Some(read as i64),
        };
        chunks.extend(flight.chunks.iter().enumerate().map(read));
    }
    (requests, chunks)
}

/// Returns the product of the factors of a cell's launch and block. They depend on the seed, the block, the A/A arm and
/// the server, but not on the requests or the order of the cells. Without a design all cells of a server share one
/// launch.
fn of_launch(simulation: &Simulation, server: &SimulatedServer, noise: &Origin) -> f64 {
    let launch = noise
        .keep(|name| name == BLOCK || name == CONTROL)
        .stream("load simulation v1 launch", &simulation.launch(server));
    let block = noise
        .keep(|name| name == BLOCK)
        .stream("load simulation v1 block", &Json::Null);
    lognormal(&mut launch.at(0), server.noise.launch)
        * lognormal(&mut block.at(0), server.noise.block)
}

/// Returns for each of `count` requests whether a fault with this share hits it: exactly the share, rounded up, those
/// with the smallest draws.
fn struck(share: Option<f64>, count: usize, stream: &Stream) -> Vec<bool> {
    let mut struck = vec![false; count];
    let Some(share) = share.filter(|s| *s > 0.0) else {
        return struck;
    };
    // If a product of fractions misses a whole number by a tiny amount, the whole number counts.
    let many = ((share * count as f64) - 1e-9).ceil().max(0.0) as usize;
    let mut order: Vec<(u64, usize)> = (0..count)
        .map(|i| (stream.at(i as u64).below(u64::MAX), i))
        .collect();
    order.sort_unstable();
    for (_, i) in order.into_iter().take(many) {
        struck[i] = true;
    }
    struck
}

fn asked(
    prompts: &[Prompt],
    warmup: usize,
    (server, api): (&SimulatedServer, Option<Api>),
    system: Option<&str>,
    faults: &Faults,
    stream: &Stream,
) -> Vec<Asked> {
    let generates = api.is_none_or(Api::generates);
    let measured = prompts.len() - warmup;
    // Both kinds of fault use the same order, so that they hit different requests.
    let http = faults.http_errors.as_ref().map(|f| f.share);
    let refused = struck(http, measured, stream);
    let both = http.unwrap_or(0.0) + faults.zero_tokens.as_ref().map_or(0.0, |f| f.share);
    let faulty = struck(
        faults.zero_tokens.as_ref().map(|_| both.min(1.0)),
        measured,
        stream,
    );
    let ask = |(i, prompt): (usize, &Prompt)| {
        let texts = texts(prompt, server, api, system);
        let most = server.context.map(u64::from);
        let longest = texts.iter().map(|text| text.tokens).max();
        let needed = longest.unwrap_or_default() + u64::from(prompt.output_tokens);
        let at = i.checked_sub(warmup);
        let fault = if most.is_some_and(|most| needed > most) {
            let most = most.unwrap_or_default();
            let why = format!("{needed} tokens exceed the context of {most}");
            Some(Fault::Http(400, why))
        } else if at.is_some_and(|at| refused[at]) {
            let status = faults.http_errors.as_ref().map_or(400, |f| f.status);
            Some(Fault::Http(status, "a simulated fault".to_owned()))
        } else if at.is_some_and(|at| faulty[at]) {
            Some(Fault::NoTokens)
        } else {
            None
        };
        Asked {
            texts,
            output_tokens: prompt.output_tokens,
            generates,
            fault,
            given_up: None,
        }
    };
    prompts.iter().enumerate().map(ask).collect()
}

/// Returns the texts of a request: those of a batch, the query with each of its documents, or the one prompt with its
/// images, after the system message.
fn texts(
    prompt: &Prompt,
    server: &SimulatedServer,
    api: Option<Api>,
    system: Option<&str>,
) -> Vec<AskedText> {
    let seen = prompt.images.map_or(0, |images| u64::from(images.count));
    let seen = seen * u64::from(server.tokens_per_image.unwrap_or(0));
    let text = |text: &str| {
        let words = text.split_whitespace().count() as f64;
        // Only a cache needs the text again. Images come before the text, and no two are alike.
        let cacheable = (server.prefix_cache && seen == 0).then(|| Cacheable {
            prefix: prompt.prefix,
            model: prompt.model.clone(),
            text: text.to_owned(),
        });
        AskedText {
            tokens: (words * server.tokens_per_word).round().max(1.0) as u64 + seen,
            cacheable,
        }
    };
    if api == Some(Api::Rerank) {
        let pairs: Vec<_> = apis::pairs(&prompt.text).map(|pair| text(&pair)).collect();
        if !pairs.is_empty() {
            return pairs;
        }
    }
    match prompt.batched() {
        Some(batch) => batch.into_iter().map(text).collect(),
        None => match system {
            Some(system) => vec![text(&format!("{system}\n{}", prompt.text))],
            None => vec![text(&prompt.text)],
        },
    }
}

/// Returns the row of a request. A `whole` answer shows nothing of itself before its end.
fn row(request: usize, flight: &Flight, prompt: &Prompt, asked: &Asked, whole: bool) -> Request {
    let (done, status, error) =
        flight
            .end
            .clone()
            .unwrap_or((flight.last, RequestStatus::Cancelled, None));
    let first = flight.first.filter(|_| !whole);
    let http_status = match (&status, &asked.fault) {
        (RequestStatus::HttpError, Some(Fault::Http(code, _))) => Some(i64::from(*code)),
        (RequestStatus::Ok, _) => Some(200),
        _ => first.map(|_| 200),
    };
    let ok = status == RequestStatus::Ok;
    let has_usage = ok || first.is_some();
    let received = if has_usage { flight.tokens } else { 0 };
    let text = TOKEN.repeat(received as usize);
    let reads = if whole {
        usize::from(ok)
    } else {
        flight.chunks.len()
    };
    // A server's own timings come with a whole answer, too.
    let answered = flight.first.filter(|_| has_usage);
    let ms = |from: u64, to: u64| (to - from) as f64 / 1e6;
    Request {
        first_silent_ns: None,
        first_reasoning_ns: None,
        first_answer_ns: first.map(ns),
        reasoning_tokens: None,
        request_id: request as i64,
        attempt: 1,
        superseded: false,
        phase: prompt.phase,
        client_id: flight.client.map(i64::from),
        session_id: prompt.session.map(ns),
        turn: prompt.turn.map(i64::from),
        prompt_index: Some(prompt.index as i64),
        prompt_digest: Some(prompt.digest().to_string()),
        scheduled_ns: Some(ns(flight.due)),
        connect_ns: None,
        sent_ns: Some(ns(flight.sent)),
        headers_ns: first.or(http_status.map(|_| done)).map(ns),
        first_token_ns: first.map(ns),
        last_token_ns: match first {
            Some(_) => Some(ns(flight.last)),
            None => (ok && whole).then_some(ns(done)),
        },
        done_ns: Some(ns(done)),
        prompt_tokens: has_usage.then_some(ns(asked.prompt_tokens())),
        cached_prompt_tokens: has_usage.then_some(ns(flight.cached)),
        output_tokens: has_usage.then_some(i64::from(flight.tokens)),
        tokens_source: has_usage.then_some(if ok {
            TokenSource::Usage
        } else {
            TokenSource::Chunks
        }),
        tokens_agree: None,
        requested_output_tokens: Some(i64::from(prompt.output_tokens)),
        chunks: http_status
            .filter(|_| !whole || !asked.generates)
            .map(|_| flight.chunks.len() as i64),
        first_chunk_tokens: flight
            .chunks
            .first()
            .filter(|_| !whole)
            .map(|(_, tokens)| i64::from(*tokens)),
        silent_events: None,
        finish_reason: (ok && asked.generates)
            .then(|| if flight.tokens > 0 { "length" } else { "stop" }.to_owned()),
        status,
        http_status,
        retry_after_s: None,
        error,
        schema_valid: None,
        send_lag_ns: Some(0),
        in_flight_at_send: Some(flight.in_flight as i64),
        reads: Some(reads as i64),
        received_bytes: Some(text.len() as i64),
        output_characters: (!text.is_empty()).then(|| text.chars().count() as i64),
        output_digest: (!text.is_empty()).then(|| Digest::of(text.as_bytes()).to_string()),
        server_prompt_ms: answered.map(|first| ms(flight.prefill_from, first)),
        server_predicted_ms: answered.map(|first| ms(first, flight.last)),
    }
}

fn ns(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
