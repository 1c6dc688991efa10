//! The faults of published studies, injected one at a time into a clean study. The gates made for a
//! fault catch it, and no others do.

use artifacts::{Column, Scalar, Store, Table};
use contract::synthetic::{self, ClosedLoop};
use contract::{Chunk, Phase, Request, RequestStatus};
use pipeline::{CellStatus, Control, Input, InputCell, Json};
use serde_json::json;

use crate::kind::run;
use crate::tests::{broken, canonical, store, table, verify};

/// One load cell before it is stored.
pub(crate) struct Measured {
    configuration: &'static str,
    rep: i64,
    status: CellStatus,
    requests: Vec<Request>,
    /// Chunks that replace the even ones derived from the requests.
    chunks: Option<Vec<Chunk>>,
    expected: i64,
    started_unix_ns: i64,
    /// The server's counter of generated tokens, scraped evenly.
    counter: Vec<f64>,
    /// The server's own count of requests, and the sum of their latencies, s; `None` if they fit the rows.
    latency: Option<(f64, f64)>,
    parameters: Json,
    extra: Vec<(&'static str, Table)>,
    /// The use of four processors by other programs, and how often one throttled for heat.
    foreign_load: f64,
    throttles: i64,
}

/// A study before it is stored: two configurations with four repetitions, measured in turns.
pub(crate) struct Made {
    cells: Vec<Measured>,
    servers: Vec<(&'static str, Json)>,
}

/// The position of `serial`, repetition 2, which receives most faults.
const SPOILT: usize = 6;

fn made() -> Made {
    let mut cells = Vec::new();
    for (c, configuration) in ["batched", "serial"].into_iter().enumerate() {
        for rep in 0..4_i64 {
            let load = ClosedLoop {
                seed: 100 + cells.len() as u64,
                requests: 41,
                ..ClosedLoop::default()
            };
            let mut requests = load.requests();
            requests[0].phase = Phase::Warmup;
            for r in &mut requests {
                r.cached_prompt_tokens = Some(0);
            }
            let tokens: i64 = requests.iter().filter_map(|r| r.output_tokens).sum();
            // The configurations alternate in going first.
            let turn = 2 * rep + (c as i64 + rep) % 2;
            cells.push(Measured {
                configuration,
                rep,
                status: CellStatus::Ok,
                requests,
                chunks: None,
                expected: 40,
                started_unix_ns: 1_700_000_000_000_000_000 + turn * 60_000_000_000,
                latency: None,
                counter: vec![500.0, 500.0 + tokens as f64 / 2.0, 500.0 + tokens as f64],
                parameters: json!({"workload": {"prompts": "words"}, "timeouts": {"total": "1 h"}}),
                extra: Vec::new(),
                foreign_load: 0.01,
                throttles: 0,
            });
        }
    }
    Made {
        cells,
        servers: vec![("batched", descriptor(8)), ("serial", descriptor(1))],
    }
}

/// The server's own measurement of whole latencies.
pub(crate) const LATENCY_COUNT: &str = "engine:e2e_request_latency_seconds_count";
pub(crate) const LATENCY_SUM: &str = "engine:e2e_request_latency_seconds_sum";

/// Returns the number of requests and the sum of their latencies (s) by a server that measures 95 % of them.
pub(crate) fn server_latency(requests: &[Request]) -> (f64, f64) {
    let spans = requests.iter().map(|r| Some(r.done_ns? - r.sent_ns?));
    let sum: i64 = spans.flatten().sum();
    (requests.len() as f64, 0.95 * sum as f64 / 1e9)
}

/// Returns the descriptor of a server with this many slots.
pub(crate) fn descriptor(parallel: u32) -> Json {
    json!({
        "engine": {"name": "engine", "version": "1.2.3", "source": "packages",
            "packages": [{"name": "engine", "version": "1.2.3"}, {"name": "kernels", "version": "0.14"}]},
        "version": "1.2.3",
        "api": "openai-completions",
        "model": {"name": "tiny", "sha256": "00ff", "parameters": 1_000_000_000_u64,
            "weights": {"bytes": 2_000_000_000_u64}, "shape": {"layers": 16, "kv_heads": 8, "head_dim": 64}},
        "settings": {"parallel": parallel},
        "limits": {"context_per_slot": 4096},
        "facets": {"gpu_driver": "580.1", "gpus": [{"name": "A40"}]},
    })
}

impl Made {
    fn inputs(&self, store: &Store) -> Vec<Input> {
        let cells = self.cells.iter().map(|cell| cell.stored(store)).collect();
        let servers = self.servers.iter().map(|(configuration, descriptor)| {
            let at = [("configuration", Scalar::Text((*configuration).to_owned()))];
            let mut cell = synthetic::cell(store, &at, Json::Null, &[]).unwrap();
            let bytes = serde_json::to_vec(descriptor).unwrap();
            let artifact = pipeline::Artifact {
                digest: store.put(&bytes).unwrap(),
                media: pipeline::Media::Json,
                bytes: bytes.len() as u64,
                rows: None,
            };
            cell.outputs.insert("server".to_owned(), artifact);
            cell
        });
        vec![
            synthetic::loaded(cells),
            synthetic::input("server", "serve", servers.collect()),
        ]
    }
}

impl Measured {
    fn at(&self) -> [(&'static str, Scalar); 2] {
        [
            ("configuration", Scalar::Text(self.configuration.to_owned())),
            ("rep", Scalar::Int(self.rep)),
        ]
    }

    fn stored(&self, store: &Store) -> InputCell {
        if self.status != CellStatus::Ok {
            return synthetic::missing(&self.at(), self.status, "a reason");
        }
        let even = || {
            self.requests
                .iter()
                .flat_map(synthetic::even_chunks)
                .collect::<Vec<_>>()
        };
        let chunks = self.chunks.clone().unwrap_or_else(even);
        let name = "llamacpp:tokens_predicted_total";
        // From before the first request until after the last, like the scrapes of `load`.
        let sent = self.requests.iter().filter_map(|r| r.sent_ns).min();
        let done = self.requests.iter().filter_map(|r| r.done_ns).max();
        let (from, to) = (sent.unwrap_or(0) - 1, done.unwrap_or(0) + 1);
        let n = self.counter.len() as i64 - 1;
        let at = |i: usize| from + (to - from) * i as i64 / n;
        let counts = self.counter.iter().enumerate();
        let mut samples: Vec<_> = counts.map(|(i, v)| (at(i), name, *v)).collect();
        let (count, sum) = self.latency.unwrap_or(server_latency(&self.requests));
        samples.extend([
            (from, LATENCY_COUNT, 0.0),
            (to, LATENCY_COUNT, count),
            (from, LATENCY_SUM, 0.0),
            (to, LATENCY_SUM, sum),
        ]);
        let metrics = synthetic::server_samples(&samples);
        let mut tables = vec![
            (
                "requests",
                synthetic::requests_table(&self.requests).unwrap(),
            ),
            ("chunks", synthetic::chunks_table(&chunks).unwrap()),
            (
                "cell",
                synthetic::facts_table(self.expected, 1, self.started_unix_ns).unwrap(),
            ),
            ("server_metrics", metrics),
        ];
        tables.push(("host_telemetry", self.host()));
        tables.push(("process_telemetry", processes()));
        if !self.extra.iter().any(|(name, _)| *name == "engine_events") {
            tables.push(("engine_events", logged(&[])));
        }
        tables.extend(
            self.extra
                .iter()
                .map(|(name, table)| (*name, table.clone())),
        );
        synthetic::cell(store, &self.at(), self.parameters.clone(), &tables).unwrap()
    }

    /// Returns three samples of a machine with four processors; the study uses two of them.
    fn host(&self) -> Table {
        let busy = 0.5 + self.foreign_load;
        Table::new(vec![
            Column::int("at_ns", [0, 1, 2].map(|i| Some(i * 1_000_000_000))),
            Column::float("cpu_busy", [None, Some(busy), Some(busy)]),
            Column::float("cpu_steal", [None, Some(0.0), Some(0.0)]),
            Column::int("runnable", [Some(3); 3]),
            Column::int("processors", [Some(4); 3]),
            Column::int("throttles", [Some(0), Some(0), Some(self.throttles)]),
        ])
        .unwrap()
    }

    /// Multiplies every span by a factor of its request's place, 0 to 1, and moves later times.
    fn stretch(&mut self, factor: impl Fn(f64) -> f64) {
        let n = self.requests.len() as f64;
        let mut shift = 0;
        for (i, r) in self.requests.iter_mut().enumerate() {
            let (sent, done) = (r.sent_ns.unwrap(), r.done_ns.unwrap());
            let to = |t: Option<i64>| {
                t.map(|t| sent + shift + ((t - sent) as f64 * factor(i as f64 / n)) as i64)
            };
            (r.headers_ns, r.first_token_ns) = (to(r.headers_ns), to(r.first_token_ns));
            (r.last_token_ns, r.done_ns) = (to(r.last_token_ns), to(r.done_ns));
            r.sent_ns = Some(sent + shift);
            r.scheduled_ns = r.scheduled_ns.map(|t| t + shift);
            shift = r.done_ns.unwrap() - done;
        }
    }
}

/// Returns the events of a server's log with these errors.
fn logged(errors: &[&str]) -> Table {
    let some = |text: &str| Some(text.to_owned());
    Table::with_metadata(
        vec![
            Column::text("event", errors.iter().map(|_| some(contract::ERROR_EVENT))),
            Column::int("line", (1..).take(errors.len()).map(Some)),
            Column::text("text", errors.iter().map(|text| some(text))),
            Column::text("member", errors.iter().map(|_| None::<String>)),
        ],
        &[(contract::ERROR_TEXTS_NOTE, "ERROR")],
    )
    .unwrap()
}

/// Returns samples of server and client, with one processor each.
fn processes() -> Table {
    let times = [0, 0, 1, 1, 2, 2].map(|i| Some(i * 1_000_000_000));
    let cpu = [None, None, Some(1.0), Some(1.0), Some(1.0), Some(1.0)];
    Table::new(vec![Column::int("at_ns", times), Column::float("cpu", cpu)]).unwrap()
}

/// One fault.
pub(crate) struct Fault {
    /// The fault, in terms that readers of studies know.
    pub(crate) what: &'static str,
    /// The gates that must catch it. All others must not.
    pub(crate) gates: &'static [&'static str],
    inject: fn(&mut Made),
}

macro_rules! faults {
    ($($what:literal => [$($gate:literal),*] $inject:expr;)*) => {
        &[$(Fault { what: $what, gates: &[$($gate),*], inject: $inject }),*]
    };
}

/// Every fault that is visible in data.
pub(crate) const FAULTS: &[Fault] = faults! {
    "the engine hangs for hours and no row arrives" => ["census"] |m| m.cells[SPOILT].status = CellStatus::Hung;
    "out of memory, a wheel for another GPU, a gated model: the engine does not start" => ["census"]
        |m| m.cells[SPOILT].status = CellStatus::Skipped;
    "the machine or an updater kills the run" => ["census"]
        |m| m.cells[SPOILT].status = CellStatus::Interrupted;
    "a stall within a cell that then continues" => ["row-status"]
        |m| m.cells[SPOILT].requests[9].status = RequestStatus::Hung;
    "prompts longer than the context are refused with HTTP 400" => ["row-status"] |m| {
        for r in &mut m.cells[SPOILT].requests[1..9] {
            r.status = RequestStatus::HttpError;
        }
    };
    "prompts longer than the context that the engine accepted" => ["context-ceiling", "physical-roofs"] |m| {
        for cell in &mut m.cells {
            cell.requests[9].prompt_tokens = Some(4_080);
        }
    };
    "answers cut off at the end of the context" => ["context-ceiling", "delivered-length"] |m| {
        m.cells[SPOILT].requests[9].requested_output_tokens = Some(64);
    };
    "a tokenizer that counts the same prompts differently" => ["same-prompts", "comparability"] |m| {
        for r in m.cells[4..].iter_mut().flat_map(|c| &mut c.requests) {
            r.prompt_tokens = r.prompt_tokens.map(|n| n * 7 / 6);
        }
    };
    "a driver that changed between configurations" => ["engine-identity", "comparability"]
        |m| m.servers[1].1["facets"]["gpu_driver"] = json!("575.57");
    "a transitive package that drifted" => ["engine-identity", "comparability"]
        |m| m.servers[1].1["engine"]["packages"][1]["version"] = json!("0.15.2");
    "another engine version behind the same name" => ["engine-identity", "comparability"] |m| {
        m.servers[1].1["version"] = json!("1.2.4");
        m.servers[1].1["engine"]["version"] = json!("1.2.4");
    };
    "other weights behind the same name" => ["engine-identity", "comparability"]
        |m| m.servers[1].1["model"]["sha256"] = json!("beef");
    "another GPU" => ["engine-identity", "comparability"]
        |m| m.servers[1].1["facets"]["gpus"] = json!([{"name": "A100"}]);
    "another setting changed in addition to the declared one" => ["comparability"]
        |m| m.servers[1].1["settings"]["prefix-caching"] = json!(true);
    "one configuration measured under a different load" => ["comparability"] |m| {
        for cell in &mut m.cells[4..] {
            cell.parameters["workload"]["prompts"] = json!("pack");
        }
    };
    "different prompts for one configuration" => ["same-prompts", "comparability"]
        |m| m.cells[SPOILT].requests[9].prompt_digest = Some("b3:other".into());
    "an engine that restarts while it is measured" => ["engine-identity", "token-accounting"]
        |m| m.cells[SPOILT].counter = vec![500.0, 800.0, 20.0];
    "silent success: answers without a token" => ["degenerate", "token-accounting", "delivered-length"] |m| {
        let cell = &mut m.cells[SPOILT];
        for r in &mut cell.requests {
            (r.output_tokens, r.chunks, r.first_token_ns, r.last_token_ns) = (Some(0), None, None, None);
            (r.headers_ns, r.finish_reason) = (None, Some("stop".into()));
        }
    };
    "silent success: every request takes exactly the time limit" => ["degenerate"] |m| {
        let cell = &mut m.cells[SPOILT];
        cell.parameters["timeouts"]["total"] = json!("100 ms");
        m.cells[2].parameters["timeouts"]["total"] = json!("100 ms");
        for cell in [2, SPOILT] {
            for (i, r) in m.cells[cell].requests.iter_mut().enumerate() {
                let sent = i as i64 * 101_000_000;
                (r.scheduled_ns, r.sent_ns, r.send_lag_ns) = (Some(sent), Some(sent), Some(0));
                (r.headers_ns, r.first_token_ns) = (Some(sent + 20_000_000), Some(sent + 20_000_000));
                (r.last_token_ns, r.done_ns) = (Some(sent + 99_000_000), Some(sent + 100_000_000));
            }
        }
    };
    "silent success: rows of zeros for a cell that was skipped" =>
        ["degenerate", "token-accounting", "delivered-length"] |m| {
        for r in &mut m.cells[SPOILT].requests {
            (r.scheduled_ns, r.sent_ns, r.headers_ns, r.done_ns) = (Some(0), Some(0), None, Some(0));
            (r.first_token_ns, r.last_token_ns, r.send_lag_ns) = (None, None, Some(0));
            (r.output_tokens, r.client_id) = (Some(0), None);
            (r.chunks, r.finish_reason) = (None, None);
        }
    };
    "a manifest that says complete, but has no rows" =>
        ["census", "expected-rows", "degenerate", "same-prompts", "comparability"] |m| {
        m.cells[SPOILT].requests.truncate(1);
        m.cells[SPOILT].counter = vec![500.0, 517.0];
    };
    "requests that were never recorded" => ["expected-rows", "same-prompts", "comparability", "token-accounting", "server-latency"] |m| {
        let cell = &mut m.cells[SPOILT];
        cell.latency = Some(server_latency(&cell.requests));
        cell.requests.truncate(38);
    };
    "a prefill stall: ok, but slower than any user would wait" => ["nobody-waits-long", "stalls"] |m| {
        let r = &mut m.cells[SPOILT].requests[40];
        (r.last_token_ns, r.done_ns) = (r.last_token_ns.map(|t| t + 30_000_000_000), r.done_ns.map(|t| t + 30_000_000_000));
    };
    "an eviction bug: 36 of 40 requests fail" => ["row-status"] |m| {
        for r in &mut m.cells[SPOILT].requests[5..] {
            r.status = RequestStatus::HttpError;
        }
    };
    "a queue that collapses: a few errors among very late answers" =>
        ["row-status", "stationarity", "repeats", "outlying-repeats"] |m| {
        m.cells[SPOILT].stretch(|at| 1.0 + 8.0 * at);
        m.cells[SPOILT].requests[39].status = RequestStatus::Timeout;
    };
    "a bad baseline that stays in the study" => ["repeats", "outlying-repeats"] |m| m.cells[SPOILT].stretch(|_| 2.5);
    "a cold start" => ["warm-up", "stationarity"] |m| m.cells[SPOILT].stretch(|at| if at < 0.27 { 3.0 } else { 1.0 });
    "a machine that throttles while a cell is measured" => ["stationarity"]
        |m| m.cells[SPOILT].stretch(|at| 1.0 + 0.6 * at);
    "a machine that becomes slower from cell to cell" => ["order-effects"] |m| {
        for cell in &mut m.cells {
            let turn = (cell.started_unix_ns - 1_700_000_000_000_000_000) / 60_000_000_000;
            cell.stretch(|_| 1.0 + 0.04 * turn as f64);
        }
    };
    "a proxy that buffers whole answers" => ["one-piece"] |m| {
        let cell = &mut m.cells[SPOILT];
        for r in &mut cell.requests {
            r.first_token_ns = r.last_token_ns;
        }
    };
    "a client too slow to send" => ["client-lag"] |m| {
        for r in &mut m.cells[SPOILT].requests {
            r.scheduled_ns = r.sent_ns.map(|t| t - 30_000_000);
            r.send_lag_ns = Some(30_000_000);
        }
        for r in &mut m.cells[SPOILT].requests[..1] {
            (r.scheduled_ns, r.send_lag_ns) = (r.sent_ns, Some(0));
        }
    };
    "clients that wait for a connection" => ["client-lag", "in-flight"] |m| {
        let mut shift = 0;
        for r in &mut m.cells[SPOILT].requests {
            let due = r.sent_ns.map(|t| t + shift);
            shift += 20_000_000;
            let moved = |t: Option<i64>| t.map(|t| t + shift);
            (r.scheduled_ns, r.sent_ns, r.send_lag_ns) = (due, moved(r.sent_ns), Some(20_000_000));
            (r.headers_ns, r.first_token_ns) = (moved(r.headers_ns), moved(r.first_token_ns));
            (r.last_token_ns, r.done_ns) = (moved(r.last_token_ns), moved(r.done_ns));
        }
    };
    "a computation that fails while the server answers" => ["server-errors"] |m| {
        let table = logged(&["[TM][ERROR] cublasGemmEx failed", "[TM][ERROR] cublasGemmEx failed"]);
        m.cells[SPOILT].extra.push(("engine_events", table));
    };
    "requests that wait in a proxy" => ["server-latency"] |m| {
        let (count, sum) = server_latency(&m.cells[SPOILT].requests);
        m.cells[SPOILT].latency = Some((count, sum / 2.0));
    };
    "another client of the same server" => ["server-latency", "token-accounting"] |m| {
        let cell = &mut m.cells[SPOILT];
        let (count, sum) = server_latency(&cell.requests);
        cell.latency = Some((1.5 * count, 1.5 * sum));
        for count in &mut cell.counter[1..] {
            *count += 320.0;
        }
    };
    "two loads on one machine at the same time" => ["clock"]
        |m| m.cells[SPOILT].started_unix_ns = m.cells[0].started_unix_ns + 1_000_000_000;
    "a clock that was never set" => ["clock"] |m| m.cells[SPOILT].started_unix_ns = 1_000;
    "chunks stamped backwards" => ["clock"] |m| {
        let mut chunks: Vec<Chunk> = m.cells[SPOILT].requests.iter().flat_map(synthetic::even_chunks).collect();
        chunks.swap(22, 24);
        m.cells[SPOILT].chunks = Some(chunks);
    };
    "a first token faster than any hardware" => ["physical-roofs", "plausible-ttft"] |m| {
        let r = &mut m.cells[SPOILT].requests[9];
        (r.headers_ns, r.first_token_ns) = (r.sent_ns.map(|t| t + 1_000), r.sent_ns.map(|t| t + 1_000));
    };
    "a decode rate beyond the memory bandwidth" => ["physical-roofs"] |m| {
        let r = &mut m.cells[SPOILT].requests[9];
        r.last_token_ns = r.first_token_ns.map(|t| t + 16_000_000);
    };
    "a prompt cache still warm from the previous cell" => ["cold-cache"]
        |m| m.cells[SPOILT].requests[0].cached_prompt_tokens = Some(96);
    "tokens the server never generated" => ["token-accounting"]
        |m| m.cells[SPOILT].counter[2] -= 17.0;
    "a stray file in one cell" => ["census"] |m| {
        let table = Table::new(vec![Column::int("x", [Some(1)])]).unwrap();
        m.cells[SPOILT].extra.push(("backup", table));
    };
    "two states of the server that alternate" => ["one-mode"] |m| {
        for cell in &mut m.cells[4..] {
            let n = cell.requests.len() as f64;
            cell.stretch(|at| if (at * n).round() as i64 % 2 == 0 { 1.8 } else { 1.0 });
        }
    };
    "one repetition of four far slower than the others" => ["outlying-repeats"]
        |m| m.cells[SPOILT].stretch(|_| 1.4);
    "a row copied to the nanosecond" => ["duplicates"] |m| {
        let rows = &mut m.cells[SPOILT].requests;
        let times = [rows[9].headers_ns, rows[9].first_token_ns, rows[9].last_token_ns, rows[9].done_ns]
            .map(|t| t.unwrap() - rows[9].sent_ns.unwrap());
        // Shorter than its own, so that the client's next request still follows it.
        let longest = rows[20..40].iter_mut().max_by_key(|r| r.done_ns.unwrap() - r.sent_ns.unwrap()).unwrap();
        let sent = longest.sent_ns.unwrap();
        let moved = times.map(|t| Some(sent + t));
        [longest.headers_ns, longest.first_token_ns, longest.last_token_ns, longest.done_ns] = moved;
    };
    "token counts 12 % high on one side" => ["token-bias"] |m| {
        for cell in &mut m.cells[4..] {
            cell.chunks = Some(cell.requests.iter().flat_map(synthetic::even_chunks).map(|c| Chunk { tokens: None, ..c }).collect());
            for r in &mut cell.requests {
                r.output_tokens = Some(19);
                (r.requested_output_tokens, r.finish_reason) = (None, Some("stop".into()));
            }
            let tokens = 19.0 * cell.requests.len() as f64;
            cell.counter = vec![500.0, 500.0 + tokens / 2.0, 500.0 + tokens];
        }
    };
    "a clock that steps back within a cell" => ["clock", "possible-scaling"] |m| {
        for r in &mut m.cells[SPOILT].requests[20..] {
            for t in [&mut r.scheduled_ns, &mut r.sent_ns, &mut r.headers_ns, &mut r.first_token_ns, &mut r.last_token_ns, &mut r.done_ns] {
                *t = t.map(|t| t - 500_000_000);
            }
        }
    };
    "a server that is silent for ten seconds" => ["stalls"] |m| {
        for r in &mut m.cells[SPOILT].requests[20..] {
            for t in [&mut r.scheduled_ns, &mut r.sent_ns, &mut r.headers_ns, &mut r.first_token_ns, &mut r.last_token_ns, &mut r.done_ns] {
                *t = t.map(|t| t + 10_000_000_000);
            }
        }
    };
    "first tokens at the time of sending" => ["plausible-ttft", "physical-roofs"] |m| {
        for r in &mut m.cells[SPOILT].requests[5..8] {
            (r.headers_ns, r.first_token_ns) = (r.sent_ns, r.sent_ns);
        }
    };
    "a server of one slot that answers two at once" => ["possible-scaling"] |m| {
        for cell in &mut m.cells[4..] {
            for r in cell.requests.iter_mut().skip(1).step_by(2) {
                let earlier = |t: Option<i64>| t.map(|t| t - 60_000_000);
                r.client_id = Some(1);
                (r.scheduled_ns, r.sent_ns) = (earlier(r.scheduled_ns), earlier(r.sent_ns));
                (r.headers_ns, r.first_token_ns) = (earlier(r.headers_ns), earlier(r.first_token_ns));
                (r.last_token_ns, r.done_ns) = (earlier(r.last_token_ns), earlier(r.done_ns));
            }
        }
    };
    "other programs that run while one side is measured" => ["balanced-conditions"] |m| {
        for cell in &mut m.cells[4..] {
            cell.foreign_load = 0.2;
        }
    };
    "processors too hot for their clock" => ["throttling"] |m| m.cells[SPOILT].throttles = 12;
    "rows of a request stored twice" => ["identities", "same-prompts", "comparability"] |m| {
        let digest = m.cells[SPOILT].requests[8].prompt_digest.clone();
        m.cells[SPOILT].requests[9].request_id = 8;
        m.cells[SPOILT].requests[9].prompt_digest = digest;
    };
};

/// Faults of published studies that no row of a load cell can show, with the reason.
pub(crate) const NOT_IN_DATA: &[(&str, &str)] = &[
    (
        "a batch that no longer fits into GPU memory makes the engine three times slower",
        "the rows are correct: the engine was that slow. GPU telemetry and the engine's log show \
         whether memory was the reason; `repeats` with `within` finds it if it is intermittent",
    ),
    (
        "CUDA graphs make an engine slower",
        "this is a finding, not a fault; a comparison of the two settings shows it",
    ),
    (
        "a benchmark that cannot distinguish slow from hung",
        "the heartbeat of the load stage decides this during the measurement; the cell's status \
         remains, and `census` counts it",
    ),
    (
        "the wrong interpreter, a wheel for another CUDA, a missing kernel",
        "the engine does not start, so there are no rows; provisioning checks the engine's \
         requirements and refuses it, and `census` counts the cell as missing",
    ),
    (
        "a port in use",
        "a server takes a free port and checks that its own process answers; this never affects \
        a row",
    ),
    (
        "a token for a gated model is missing, an image was withdrawn, a draft model was never published",
        "the cell fails before it sends a request; `census` counts it as missing, and the ledger \
        has the reason",
    ),
    (
        "a profiler's capture that cannot be converted, counters locked by the driver",
        "captures are not rows; they are evidence stored with the cell",
    ),
    (
        "a dashboard that answers 502, a refused SSH, a GPU missing in a container",
        "these happen around a run, before any row exists; run `benchtrail doctor`",
    ),
];

/// The query of a user-defined gate.
pub(crate) const NOBODY_WAITS_LONG: &str =
    "select max(done_ns - sent_ns) < 2e10 as passed from requests";

/// Verifies a clean study, for the documentation of the tables.
pub(crate) fn example() -> pipeline::Done {
    let (_folder, store) = store();
    verify(&store, &made().inputs(&store), &every_gate())
}

/// Returns the gate with the facts of a machine that is capable of the rows here.
pub(crate) fn physical_roofs() -> Json {
    json!({"gate": "physical-roofs", "hardware": {"title": "a machine", "peak-tflops": {"bfloat16": 100.0},
        "bandwidth-gb-per-s": 1000.0, "memory-gb": 48.0}, "model": {"kv-bytes": 2}})
}

fn every_gate() -> Json {
    let mut gates = crate::tests::every_gate()["gates"]
        .as_array()
        .unwrap()
        .clone();
    gates.retain(|g| !["repeats", "sql"].contains(&g["gate"].as_str().unwrap()));
    gates.extend([
        json!({"gate": "repeats", "within": 0.8}),
        json!({"gate": "sql", "name": "nobody-waits-long", "query": NOBODY_WAITS_LONG}),
        json!({"gate": "digests"}),
        json!({"gate": "one-piece"}),
        json!({"gate": "token-bias", "across": "configuration"}),
        json!({"gate": "stalls"}),
        json!({"gate": "duplicates"}),
        json!({"gate": "plausible-ttft"}),
        json!({"gate": "possible-scaling"}),
        json!({"gate": "one-mode"}),
        json!({"gate": "balanced-conditions", "across": "configuration"}),
        json!({"gate": "throttling"}),
        json!({"gate": "outlying-repeats"}),
        json!({"gate": "in-flight"}),
        json!({"gate": "server-latency"}),
        json!({"gate": "server-errors"}),
        json!({"gate": "context-ceiling"}),
        json!({"gate": "clock"}),
        physical_roofs(),
        json!({"gate": "engine-identity"}),
        json!({"gate": "cold-cache"}),
        json!({"gate": "comparability", "across": "configuration", "varies": ["settings.parallel"]}),
        json!({"gate": "warm-up"}),
        json!({"gate": "stationarity"}),
        json!({"gate": "order-effects", "across": "configuration"}),
    ]);
    json!({"gates": gates})
}

#[test]
fn a_study_in_order_passes_every_gate_and_every_gate_judges_it() {
    let (_folder, store) = store();
    let done = verify(&store, &made().inputs(&store), &every_gate());
    assert_eq!(broken(&done), []);
    let gates = table(&done, "gates");
    let unjudged: Vec<_> = (0..gates.rows())
        .filter(|i| gates.text("outcome").unwrap()[*i] == Some("not judged"))
        .map(|i| {
            (
                gates.text("gate").unwrap()[i],
                gates.text("observed").unwrap()[i],
            )
        })
        .collect();
    // With one client throughout, throughput cannot grow with clients.
    let why = "no closed loop with several numbers of clients, known slots and cold caches";
    assert_eq!(unjudged, [(Some("possible-scaling"), Some(why))]);
}

#[test]
fn each_fault_is_caught_by_the_gates_made_for_it_and_by_no_other() {
    let (_folder, store) = store();
    let mut wrong = Vec::new();
    for fault in FAULTS {
        let mut made = made();
        (fault.inject)(&mut made);
        let done = verify(&store, &made.inputs(&store), &every_gate());
        let mut caught: Vec<String> = broken(&done).into_iter().map(|(gate, _)| gate).collect();
        caught.sort();
        caught.dedup();
        let mut expected: Vec<&str> = fault.gates.to_vec();
        expected.sort_unstable();
        if caught != expected {
            wrong.push(format!(
                "{}: caught by {caught:?}, to be caught by {expected:?}",
                fault.what
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_gate_catches_some_fault() {
    let caught: std::collections::BTreeSet<&str> =
        FAULTS.iter().flat_map(|f| f.gates).copied().collect();
    // Tampered bytes are not a result at all, and the gate in SQL uses its own name. `client_tests`
    // injects the client's own faults. Any fault in one repetition can make it unlike the others, so `outlying-launches`
    // has tests of its own.
    let apart = [
        "digests",
        "sql",
        "client-health",
        "calibrated-range",
        "outlying-launches",
    ];
    for page in crate::pages()
        .into_iter()
        .filter(|p| !apart.contains(&p.name))
    {
        assert!(
            caught.contains(page.name),
            "no fault is caught by {}",
            page.name
        );
    }
}

#[test]
fn bytes_that_were_tampered_with_are_no_result_and_are_named() {
    let (folder, store) = store();
    let mut study = made();
    for cell in &mut study.cells {
        let prompts = Table::new(vec![Column::int(
            "prompt",
            [Some(cell.rep), Some(cell.started_unix_ns)],
        )]);
        cell.extra.push(("prompts", prompts.unwrap()));
    }
    let inputs = study.inputs(&store);
    let settings = json!({"gates": [{"gate": "digests"}]});
    assert_eq!(broken(&verify(&store, &inputs, &settings)), []);
    // A file in two cells that no other gate reads.
    for cell in [1, SPOILT] {
        let hex = inputs[0].cells[cell].outputs["prompts"].digest.hex();
        let path = walk(folder.path())
            .into_iter()
            .find(|p| name_ends(p, &hex))
            .unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[20] ^= 1;
        let mut permissions = std::fs::metadata(&path).unwrap().permissions();
        #[expect(
            clippy::permissions_set_readonly_false,
            reason = "a file in this test's own folder"
        )]
        permissions.set_readonly(false);
        std::fs::set_permissions(&path, permissions).unwrap();
        std::fs::write(&path, bytes).unwrap();
    }
    let failure = run(&canonical(&settings), &inputs, &store, &Control::quiet(), 1)
        .err()
        .unwrap();
    for place in ["configuration=batched,rep=1", "configuration=serial,rep=2"] {
        assert!(
            failure
                .reason
                .contains(&format!("`prompts` of the load cell {place}: ")),
            "{}",
            failure.reason
        );
    }
}

fn name_ends(path: &std::path::Path, hex: &str) -> bool {
    let all: String = path.iter().map(|part| part.to_string_lossy()).collect();
    all.ends_with(hex)
        || path
            .file_name()
            .is_some_and(|n| hex.ends_with(&*n.to_string_lossy()))
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(walk(&path));
        } else {
            files.push(path);
        }
    }
    files
}

#[test]
fn the_same_bytes_come_out_at_one_and_at_sixteen_threads() {
    let (_folder, store) = store();
    let mut study = made();
    study.cells[SPOILT].stretch(|at| 1.0 + 0.6 * at);
    let inputs = study.inputs(&store);
    let at = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| verify(&store, &inputs, &every_gate()))
    };
    let (one, many) = (at(1), at(16));
    assert_eq!(one.warnings, many.warnings);
    for output in &one.outputs {
        let bytes = |done| crate::tests::bytes(done, &output.name);
        assert_eq!(bytes(&one), bytes(&many), "{}", output.name);
    }
}

#[test]
fn sides_measured_under_other_conditions_are_named_with_both_values() {
    let (_folder, store) = store();
    let mut study = made();
    for cell in &mut study.cells[4..] {
        cell.foreign_load = 0.2;
    }
    let done = verify(&store, &study.inputs(&store), &every_gate());
    let table = table(&done, "imbalances");
    let text = |column: &str| table.text(column).unwrap()[0].map(str::to_owned).unwrap();
    assert_eq!(table.rows(), 1);
    assert_eq!(
        [text("across"), text("a"), text("b"), text("condition")],
        ["configuration", "batched", "serial", "foreign-load"]
    );
    assert_eq!(
        text("reason"),
        "foreign-load: 0.0100 with batched, 0.200 with serial (share of all processors that other programs used)"
    );
    let clean = verify(&store, &made().inputs(&store), &every_gate());
    assert_eq!(crate::tests::table(&clean, "imbalances").rows(), 0);
}

#[test]
fn the_matrix_has_a_row_for_each_pair_and_facet_and_says_what_differs() {
    let (_folder, store) = store();
    let mut study = made();
    for r in study.cells[4..].iter_mut().flat_map(|c| &mut c.requests) {
        r.prompt_tokens = r.prompt_tokens.map(|n| n + 50);
    }
    let done = verify(&store, &study.inputs(&store), &every_gate());
    let matrix = table(&done, "comparability");
    // Four repetitions with one pair each, and ten facets.
    assert_eq!(matrix.rows(), 40);
    let row = |i: usize| -> Vec<String> {
        [
            "at", "a", "b", "facet", "status", "declared", "detail", "verdict",
        ]
        .map(|c| matrix.value(c, i).unwrap().to_string())
        .to_vec()
    };
    let verdict = "tokenizer-confounded";
    assert_eq!(
        row(1),
        [
            "rep=0", "batched", "serial", "prompts", "equal", "null", "null", verdict
        ]
    );
    let shifted = "40 of 40 prompts have a different count, ×1.439 overall, ranges disjoint";
    assert_eq!(row(2)[3..7], ["prompt-tokens", "differs", "false", shifted]);
    assert_eq!(
        row(9)[3..7],
        ["settings", "differs", "true", "parallel: 8 against 1"]
    );
    assert_eq!(table(&done, "exclusions").rows(), 16);
}

#[test]
fn what_is_not_known_is_not_comparable_and_not_incomparable() {
    let (_folder, store) = store();
    let mut inputs = made().inputs(&store);
    inputs.truncate(1);
    let done = verify(&store, &inputs, &every_gate());
    assert_eq!(broken(&done), []);
    let matrix = table(&done, "comparability");
    assert!(
        matrix
            .text("verdict")
            .unwrap()
            .iter()
            .all(|v| *v == Some("unknown"))
    );
    assert_eq!(table(&done, "exclusions").rows(), 0);
}

#[test]
fn a_gate_in_sql_reads_the_telemetry_a_cell_has() {
    let (_folder, store) = store();
    let mut study = made();
    for (i, cell) in study.cells.iter_mut().enumerate().filter(|(i, _)| *i != 3) {
        let table = Table::new(vec![
            Column::int("at_ns", [Some(0), Some(1)]),
            Column::float("temperature_c", [Some(40.0), Some(40.0 + i as f64)]),
        ]);
        cell.extra.push(("gpu_telemetry", table.unwrap()));
    }
    let query = "select max(temperature_c) < 46 as passed from gpu_telemetry";
    let settings = json!({"gates": [{"gate": "sql", "name": "cool", "query": query}]});
    let done = verify(&store, &study.inputs(&store), &settings);
    let gates = table(&done, "gates");
    let mut expected = [Some("pass"); 8];
    expected[6..].fill(Some("fail"));
    let judged = gates.text("outcome").unwrap();
    assert_eq!(
        (judged[3], gates.text("observed").unwrap()[3]),
        (
            Some("not judged"),
            Some("the cell has no table gpu_telemetry")
        )
    );
    assert_eq!(
        (&judged[..3], &judged[4..]),
        (&expected[..3], &expected[4..])
    );
}
