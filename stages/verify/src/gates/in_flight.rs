//! `in-flight`: were as many requests in flight as the load asked for, and did they reach the server?

use std::collections::BTreeMap;

use artifacts::{Table, counted};
use contract::{CellRows, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, NO_CLOCK, TypedGate, each, share, show};
use crate::study::Stage;

pub(crate) struct InFlight;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The share by which the requests in flight may fall short of the clients, and by which the server's mean count may
    /// exceed the client's.
    #[serde(default = "tenth")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    tolerance: f64,
    /// The server's gauges of the requests that it works on or holds in its queue, such as
    /// `[llamacpp:requests_processing, llamacpp:requests_deferred]`. Their sum is compared with the client's requests in
    /// flight. By default, only the rows are judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gauges: Vec<String>,
}

fn tenth() -> f64 {
    0.1
}

/// The fewest samples of the server's gauges among which one shows how many requests it holds.
const SAMPLES: usize = 10;

/// The share by which the server's highest count may fall short of the client's. Engines update their gauges between
/// steps: in loaded cells of vLLM 0.20.2 and SGLang 0.5.12, the mean of the gauges was 20 to 70 % below the clients, and
/// with ten samples or more, the highest was at most 6 % below.
const STALE: f64 = 0.5;

/// The difference between the server's mean count and the client's that requests on their way explain. llama.cpp answers
/// a scrape between two requests of a slot, so with one slot and two clients it counted up to 0.7 too few.
const ON_THEIR_WAY: f64 = 1.0;

impl TypedGate for InFlight {
    type Parameters = Parameters;
    const NAME: &'static str = "in-flight";
    const SUMMARY: &'static str = "\
        As many requests were in flight as the load asked for. This is a bound, not a test.\n\n\
        A closed loop of N clients should have N requests in flight on average, from the first send to the last one. \
        The time in which a client thinks, as the workload demands, counts as in flight. The time in which it waits \
        to send does not. A loop falls short if the client is too slow, if connections are limited, if a client never \
        sends, or if there are fewer requests than clients. The finding also gives the mean until the last answer. It \
        is lower, because clients run out of requests; throughput is computed over this longer window.\n\n\
        With `gauges`, the gate also reads the server's own count of running and waiting requests, under open \
        arrivals too. If the server never counts even half of the client's requests in flight, the others wait in \
        front of it: in a proxy that passes requests one by one, or in a queue of connections. If the server counts \
        more than the client on average, it has other clients. Engines update their gauges only now and then, so the \
        gate ignores smaller differences; `server-latency` finds them from counters. One request may always be on \
        its way. With only two clients, the gate therefore does not find such a proxy.\n\n\
        The gate does not check Little's law (requests in flight = rate × latency), because it holds for any rows.";
    const SEVERITY: Severity = Severity::Warn;
    const CELLS_ALONE: bool = true;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        each(stage, &|cell, rows| {
            let clients = cell.clients().and_then(|n| usize::try_from(n).ok());
            let parts = [
                clients.map(|n| of_clients(n, rows, parameters)),
                (!parameters.gauges.is_empty()).then(|| of_server(rows, parameters)),
            ];
            let parts: Vec<Part> = parts.into_iter().flatten().collect();
            let expected = match clients {
                Some(n) => format!(
                    "{} in flight, within {}",
                    counted(n, "request"),
                    share(parameters.tolerance)
                ),
                None => "the server's count of requests in flight".to_owned(),
            };
            let text = |keep: fn(&Part) -> bool| {
                let kept = parts.iter().filter(|p| keep(p));
                let lines: Vec<&str> = kept.map(|p| p.text.as_str()).collect();
                lines.join("; ")
            };
            if parts.iter().any(|p| p.holds == Some(false)) {
                return Assessment::new(false, text(|p| p.holds == Some(false)), expected);
            }
            match parts.iter().any(|p| p.holds == Some(true)) {
                true => Assessment::new(true, text(|_| true), expected),
                false if parts.is_empty() => Assessment::not_judged(
                    "the load states no number of clients, and `gauges` names no count of the server",
                    expected,
                ),
                false => Assessment::not_judged(text(|_| true), expected),
            }
        })
    }
}

/// The result of one comparison; `None` if the rows do not decide.
struct Part {
    holds: Option<bool>,
    text: String,
}

/// Returns the measured requests of each client, in sending order.
fn by_client(rows: &CellRows) -> BTreeMap<i64, Vec<&Request>> {
    let mut clients: BTreeMap<i64, Vec<&Request>> = BTreeMap::new();
    for request in rows.measured().filter(|r| r.sent_ns.is_some()) {
        if let Some(client) = request.client_id {
            clients.entry(client).or_default().push(request);
        }
    }
    for requests in clients.values_mut() {
        requests.sort_by_key(|r| (r.sent_ns, r.request_id));
    }
    clients
}

/// Returns the times in which requests were in flight, ns since the cell's start.
fn flights(rows: &CellRows) -> Vec<(i64, i64)> {
    let span = |r: &Request| Some((r.sent_ns?, r.done_ns?));
    rows.requests.iter().filter_map(span).collect()
}

/// Returns the mean number of spans that cover a moment of a window.
fn mean_of(spans: impl IntoIterator<Item = (i64, i64)>, (from, to): (i64, i64)) -> f64 {
    let within = |(a, b): (i64, i64)| (b.min(to) - a.max(from)).max(0) as f64;
    spans.into_iter().map(within).sum::<f64>() / (to - from) as f64
}

/// Returns the most spans that cover one moment.
fn peak(spans: &[(i64, i64)]) -> usize {
    let ends = spans.iter().flat_map(|(a, b)| [(*a, 1), (*b, -1)]);
    let mut ends: Vec<(i64, i64)> = ends.collect();
    // A request that ends as another one begins is not in flight with it.
    ends.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, step) in ends {
        now += step;
        most = most.max(now);
    }
    usize::try_from(most).unwrap_or(0)
}

fn of_clients(n: usize, rows: &CellRows, parameters: &Parameters) -> Part {
    if !rows.has_one_clock() {
        return Part {
            holds: None,
            text: NO_CLOCK.to_owned(),
        };
    }
    let sent = || rows.measured().filter_map(|r| r.sent_ns);
    let (Some(from), Some(to)) = (sent().min(), sent().max()) else {
        return Part {
            holds: None,
            text: "no measured request was sent".to_owned(),
        };
    };
    let spans = flights(rows);
    let most = peak(&spans);
    let requests = sent().count();
    let end = spans.iter().map(|(_, done)| *done).max().unwrap_or(to);
    let answered = rows.measured().filter_map(|r| r.done_ns).min();
    if requests < n {
        return Part {
            holds: Some(false),
            text: format!(
                "{} for {}: at most {most} in flight. Send at least as many requests as there are clients",
                counted(requests, "measured request"),
                counted(n, "client")
            ),
        };
    }
    // Until the first answer, every client sends once: the peak says whether all of them did.
    if answered.is_none_or(|answered| to <= answered) || to == from {
        let holds = most >= n;
        return Part {
            holds: Some(holds),
            text: format!(
                "{} in flight at once; every client sent one request",
                counted(most, "request")
            ),
        };
    }
    let clients = by_client(rows);
    let gaps = || {
        let pairs = clients.values().flat_map(|r| r.windows(2));
        pairs.filter_map(|pair| {
            let (done, sent) = (pair[0].done_ns?, pair[1].sent_ns?);
            let due = pair[1]
                .scheduled_ns
                .unwrap_or(done)
                .clamp(done.min(sent), sent);
            Some((done, due, sent))
        })
    };
    let window = (from, to);
    let flying = mean_of(spans.iter().copied(), window);
    let thinking = mean_of(gaps().map(|(done, due, _)| (done, due)), window);
    let late = mean_of(gaps().map(|(_, due, sent)| (due, sent)), window);
    let holds = flying + thinking >= (1.0 - parameters.tolerance) * n as f64;
    let mut text = format!(
        "on average {} of {} in flight between the first send and the last, at most {most}",
        show(flying),
        counted(n, "request")
    );
    if thinking > 0.0 {
        text.push_str(&format!("; {} clients think", show(thinking)));
    }
    if end > from {
        let whole = mean_of(spans.iter().copied(), (from, end));
        text.push_str(&format!("; {} until the last answer", show(whole)));
    }
    if !holds {
        let silent = n.saturating_sub(clients.len());
        if silent > 0 && !clients.is_empty() {
            text.push_str(&format!("; clients that never sent a request: {silent}"));
        }
        text.push_str(&format!(
            "; {} clients wait to send. The client is too slow, or something limits its connections",
            show(late)
        ));
    }
    Part {
        holds: Some(holds),
        text,
    }
}

fn of_server(rows: &CellRows, parameters: &Parameters) -> Part {
    let named = parameters.gauges.join(" + ");
    let unknown = |why: String| Part {
        holds: None,
        text: why,
    };
    let sent = || rows.measured().filter_map(|r| r.sent_ns);
    let window = sent().min().zip(sent().max());
    let samples = rows.server_metrics.as_ref().zip(window);
    let samples = samples.and_then(|(table, window)| sampled(table, &parameters.gauges, window));
    let Some(samples) = samples.filter(|s| !s.is_empty()) else {
        return unknown(format!("{named} was not sampled during the load"));
    };
    let fewest = samples.values().map(BTreeMap::len).min().unwrap_or(0);
    if fewest < SAMPLES {
        return unknown(format!(
            "{fewest} samples of {named} during the load are too few: {SAMPLES} are needed"
        ));
    }
    let most = |counts: &BTreeMap<i64, f64>| counts.values().copied().fold(0.0, f64::max);
    let peak: f64 = samples.values().map(most).sum();
    if peak == 0.0 {
        return unknown(format!(
            "{named} stayed at 0 while the server answered: it does not count requests"
        ));
    }
    let mean = |counts: &BTreeMap<i64, f64>| counts.values().sum::<f64>() / counts.len() as f64;
    let server: f64 = samples.values().map(mean).sum();
    let spans = flights(rows);
    let flying = |at: &i64| spans.iter().filter(|(a, b)| a <= at && at < b).count() as f64;
    let client: Vec<f64> = samples
        .values()
        .flat_map(BTreeMap::keys)
        .map(flying)
        .collect();
    let at_most = client.iter().copied().fold(0.0, f64::max);
    let on_average = client.iter().sum::<f64>() / client.len() as f64;
    let fewer = at_most - peak > (STALE * at_most).max(ON_THEIR_WAY);
    let more = server - on_average > (parameters.tolerance * on_average).max(ON_THEIR_WAY);
    let mut text = format!(
        "the server counts {} requests on average, at most {} ({named}); at the same times, the client has {} in \
         flight, at most {}",
        show(server),
        show(peak),
        show(on_average),
        show(at_most)
    );
    if fewer {
        text.push_str(
            ". Requests wait in front of the server, or it does not count all that it holds",
        );
    }
    if more {
        text.push_str(
            ". The server has other clients, or it still works on requests that ended here",
        );
    }
    Part {
        holds: Some(!fewer && !more),
        text,
    }
}

/// Returns the sums of the gauges of each source at each of its samples within a window. `None` if the table lacks a
/// column.
fn sampled<'a>(
    table: &'a Table,
    gauges: &[String],
    (from, to): (i64, i64),
) -> Option<BTreeMap<&'a str, BTreeMap<i64, f64>>> {
    let (names, values) = (table.text("name").ok()?, table.float("value").ok()?);
    let (times, labels) = (table.int("at_ns").ok()?, table.text("labels").ok()?);
    let mut sums: BTreeMap<&str, BTreeMap<i64, f64>> = BTreeMap::new();
    for i in 0..table.rows() {
        let gauge = names[i].filter(|name| gauges.iter().any(|gauge| gauge == name));
        let (Some(_), Some(at), Some(value)) = (gauge, times[i], values[i]) else {
            continue;
        };
        if (from..=to).contains(&at) {
            let source = contract::metrics_source(labels[i].unwrap_or_default());
            *sums.entry(source).or_default().entry(at).or_default() += value;
        }
    }
    Some(sums)
}

#[cfg(test)]
mod tests;
