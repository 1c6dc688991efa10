//! `load --save-result`: writes a run as another tool's result file, for programs that read such files.
//!
//! Times and counts are those of the rows; figures follow the tool's own formulas ([`contract::compat`]). No file
//! contains generated texts, because rows hold only their digests. `import:` can read these files.

use contract::compat::{Bounds, Tool, figures};
use contract::{Phase, RequestStatus, Timing, TokenSource};
use serde_json::{Map, Value, json};

/// The tools whose layouts are written.
pub const LAYOUTS: [Tool; 3] = [Tool::Vllm, Tool::Sglang, Tool::Aiperf];

/// The facts about the run in a result file, beside its requests.
#[derive(Clone, Debug)]
pub struct ResultFacts {
    /// The API's word, such as `openai-chat`.
    pub api: String,
    /// The model's name in requests.
    pub model: String,
    /// The clients of a closed loop.
    pub clients: Option<u32>,
    /// The most requests in flight of an open loop, if they were limited.
    pub max_in_flight: Option<u32>,
    /// Requests per second of an open loop; `None` if all were sent at once.
    pub rate: Option<f64>,
    /// The shape of gamma arrivals; 1 is Poisson.
    pub burstiness: f64,
    /// Measured requests planned.
    pub planned: u64,
    /// Wall-clock time of the run's start, ns since the Unix epoch.
    pub started_unix_ns: i64,
}

/// Returns the text of a result file in a tool's layout: a JSON document for vLLM, a line for SGLang, a line per
/// request for AIPerf.
///
/// `timings` are the measured requests in the order of the rows.
pub fn result_file(
    tool: Tool,
    facts: &ResultFacts,
    timings: &[Timing<'_>],
    bounds: &Bounds,
) -> String {
    match tool {
        Tool::Vllm => format!("{:#}\n", Value::Object(vllm(facts, timings, bounds))),
        Tool::Sglang => {
            let line = Value::Object(sglang(facts, timings, bounds)).to_string();
            // JSON has no infinity, but Python's writer does, and SGLang's readers expect it.
            let line = line.replacen("\"request_rate\":\"inf\"", "\"request_rate\":Infinity", 1);
            format!("{line}\n")
        }
        Tool::Aiperf => {
            let lines = (0..).zip(timings).map(|(id, timing)| {
                let record = aiperf(id, facts, timing);
                format!("{record}\n")
            });
            lines.collect()
        }
        // Its report contains settings of the tool that our runs do not have.
        Tool::Guidellm => unreachable!("not one of LAYOUTS"),
    }
}

/// Returns whether the tools count a request as completed. They count a stream without any text as a failure.
fn completed(timing: &Timing<'_>) -> bool {
    let row = timing.request;
    row.is_ok() && (row.first_token_ns.is_some() || row.chunks.is_none())
}

fn seconds(from: Option<i64>, to: Option<i64>) -> Option<f64> {
    Some((to? - from?) as f64 / 1e9)
}

/// Returns the lists that vLLM and SGLang have in common, with one entry per request.
fn lists(timings: &[Timing<'_>]) -> Map<String, Value> {
    let list = |f: &dyn Fn(&Timing<'_>) -> Value| Value::Array(timings.iter().map(f).collect());
    let mut all = Map::new();
    let mut put = |name: &str, values: Value| {
        all.insert(name.to_owned(), values);
    };
    put(
        "input_lens",
        list(&|t| json!(t.request.prompt_tokens.unwrap_or(0))),
    );
    put(
        "output_lens",
        list(&|t| match completed(t) {
            true => json!(t.request.output_tokens.filter(|n| *n > 0).unwrap_or(1)),
            false => json!(0),
        }),
    );
    // For an answer that was not streamed, both write the complete latency; for a failure, 0.
    put(
        "ttfts",
        list(&|t| {
            let row = t.request;
            let first = row.first_token_ns.or(row.done_ns);
            json!(
                seconds(row.sent_ns, first)
                    .filter(|_| completed(t))
                    .unwrap_or(0.0)
            )
        }),
    );
    put(
        "itls",
        list(&|t| match completed(t) {
            true => json!(
                t.gaps
                    .gaps
                    .iter()
                    .map(|(ms, _)| ms / 1e3)
                    .collect::<Vec<_>>()
            ),
            false => json!([]),
        }),
    );
    put(
        "errors",
        list(&|t| {
            let error = t.request.error.clone().filter(|_| !t.request.is_ok());
            let reason = || match t.request.is_ok() {
                true => "the answer had no text".to_owned(),
                false => format!("{:?}", t.request.status).to_lowercase(),
            };
            match completed(t) {
                true => json!(""),
                false => json!(error.unwrap_or_else(reason)),
            }
        }),
    );
    all
}

/// Writes the tool's figures under its names. Counts are whole numbers there.
fn put_figures(all: &mut Map<String, Value>, tool: Tool, timings: &[Timing<'_>], bounds: &Bounds) {
    for figure in figures(tool, timings, bounds) {
        let value = match figure.value {
            Some(value) if is_count(&figure.name) => json!(value as i64),
            value => json!(value),
        };
        all.insert(figure.name, value);
    }
}

fn is_count(name: &str) -> bool {
    [
        "completed",
        "failed",
        "total_input_tokens",
        "total_output_tokens",
        "max_concurrent_requests",
    ]
    .contains(&name)
}

fn arrivals(facts: &ResultFacts) -> Value {
    facts.rate.map_or_else(|| json!("inf"), |rate| json!(rate))
}

/// Returns the most requests that may be in flight at once.
fn max_concurrency(facts: &ResultFacts) -> Value {
    json!(facts.clients.or(facts.max_in_flight))
}

fn vllm(facts: &ResultFacts, timings: &[Timing<'_>], bounds: &Bounds) -> Map<String, Value> {
    let mut all = lists(timings);
    put_figures(&mut all, Tool::Vllm, timings, bounds);
    let list = |f: &dyn Fn(&Timing<'_>) -> Value| Value::Array(timings.iter().map(f).collect());
    let at = |ns: Option<i64>| ns.map_or(0.0, |ns| ns as f64 / 1e9);
    let more = [
        ("date", json!(stamp(facts.started_unix_ns))),
        ("endpoint_type", json!(facts.api)),
        ("backend", json!(facts.api)),
        ("label", Value::Null),
        ("model_id", json!(facts.model)),
        ("tokenizer_id", Value::Null),
        ("num_prompts", json!(facts.planned)),
        ("request_rate", arrivals(facts)),
        ("burstiness", json!(facts.burstiness)),
        ("max_concurrency", max_concurrency(facts)),
        ("start_times", list(&|t| json!(at(t.request.sent_ns)))),
        (
            "latencies",
            list(&|t| {
                let row = t.request;
                let end = row.last_token_ns.or(row.done_ns);
                json!(
                    seconds(row.sent_ns, end)
                        .filter(|_| completed(t))
                        .unwrap_or(0.0)
                )
            }),
        ),
    ];
    for (name, value) in more {
        all.insert(name.to_owned(), value);
    }
    all
}

fn sglang(facts: &ResultFacts, timings: &[Timing<'_>], bounds: &Bounds) -> Map<String, Value> {
    let mut all = lists(timings);
    put_figures(&mut all, Tool::Sglang, timings, bounds);
    let done = timings.iter().filter(|t| completed(t)).count();
    let more = [
        ("tag", Value::Null),
        ("backend", json!(format!("sglang-{}", facts.api))),
        ("dataset_name", json!("benchtrail")),
        ("request_rate", arrivals(facts)),
        ("max_concurrency", max_concurrency(facts)),
        ("random_range_ratio", Value::Null),
        ("server_info", json!({ "model_path": facts.model })),
        ("completed", json!(done)),
    ];
    for (name, value) in more {
        all.insert(name.to_owned(), value);
    }
    all
}

/// The process that sends requests and reads their answers.
const PROCESS: &str = "benchtrail";

fn aiperf(id: usize, facts: &ResultFacts, timing: &Timing<'_>) -> Value {
    let row = timing.request;
    let wall = |ns: Option<i64>| ns.map(|ns| facts.started_unix_ns + ns);
    let ms = |from: Option<i64>, to: Option<i64>| Some((to? - from?) as f64 / 1e6);
    let mut metrics = Map::new();
    let mut put = |name: &str, value: Option<Value>, unit: &str| {
        if let Some(value) = value {
            metrics.insert(name.to_owned(), json!({ "value": value, "unit": unit }));
        }
    };
    let counted = row.tokens_source == Some(TokenSource::Usage);
    let tokens = row.output_tokens.map(Value::from);
    put(
        "request_latency",
        ms(row.sent_ns, row.last_token_ns.or(row.done_ns))
            .filter(|_| row.is_ok())
            .map(Value::from),
        "ms",
    );
    put(
        "time_to_first_token",
        ms(row.sent_ns, row.first_token_ns).map(Value::from),
        "ms",
    );
    if row.first_token_ns.is_some() && !timing.gaps.gaps.is_empty() {
        let gaps: Vec<f64> = timing.gaps.gaps.iter().map(|(gap, _)| *gap).collect();
        put("inter_chunk_latency", Some(json!(gaps)), "ms");
    }
    put(
        "input_sequence_length",
        row.prompt_tokens.map(Value::from),
        "tokens",
    );
    put("output_sequence_length", tokens.clone(), "tokens");
    put(
        "usage_completion_tokens",
        tokens.filter(|_| counted),
        "tokens",
    );
    put(
        "usage_prompt_tokens",
        row.prompt_tokens.filter(|_| counted).map(Value::from),
        "tokens",
    );
    let failed = !row.is_ok();
    let error = failed.then(|| {
        let kind = match row.status {
            RequestStatus::Timeout => "TimeoutError",
            _ => "RequestError",
        };
        json!({ "code": row.http_status, "type": kind, "message": row.error })
    });
    // AIPerf requires a start and an end of every request, also of one that was never sent, and names of the processes
    // that sent it and read its answer.
    let start = row
        .sent_ns
        .or(row.scheduled_ns)
        .or(row.done_ns)
        .unwrap_or(0);
    let end = row.done_ns.or(row.last_token_ns).unwrap_or(start);
    let mut record = json!({
        "metadata": {
            "session_num": row.session_id.unwrap_or(id as i64),
            "turn_index": row.turn.unwrap_or(0),
            "credit_issued_ns": wall(row.scheduled_ns.or(row.sent_ns)),
            "request_start_ns": facts.started_unix_ns + start,
            "request_ack_ns": wall(row.headers_ns),
            "request_end_ns": facts.started_unix_ns + end,
            "worker_id": PROCESS,
            "record_processor_id": PROCESS,
            "benchmark_phase": if row.phase == Phase::Warmup { "warmup" } else { "profiling" },
            "was_cancelled": row.status == RequestStatus::Cancelled,
        },
        "metrics": metrics,
    });
    if let Some(error) = error {
        record["error"] = without_nulls(error);
    }
    record
}

fn without_nulls(mut value: Value) -> Value {
    if let Some(object) = value.as_object_mut() {
        object.retain(|_, v| !v.is_null());
    }
    value
}

/// Formats a moment as `YYYYMMDD-HHMMSS`, in UTC.
pub fn stamp(unix_ns: i64) -> String {
    let moment =
        jiff::Timestamp::from_second(unix_ns.div_euclid(1_000_000_000)).unwrap_or_default();
    let digits: String = moment
        .to_string()
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    format!("{}-{}", &digits[..8], &digits[8..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::{CellRows, Chunk, Request, Row as _, timings};

    use artifacts::Digest;

    const MS: i64 = 1_000_000;

    /// Returns eight requests of eight clients; the last two failed.
    fn cell() -> CellRows {
        let mut chunks = Vec::new();
        let requests: Vec<Request> = (0..8)
            .map(|i| {
                let sent = i * 10 * MS;
                let ok = i < 6;
                let times = (0..4).map(|k| sent + (50 + 10 * k + i) * MS);
                chunks.extend(times.filter(|_| ok).map(|at_ns| Chunk {
                    request_id: i,
                    attempt: 1,
                    at_ns,
                    bytes: None,
                    tokens: None,
                    read: None,
                }));
                Request {
                    scheduled_ns: Some(sent),
                    sent_ns: Some(sent),
                    first_token_ns: ok.then_some(sent + (50 + i) * MS),
                    last_token_ns: ok.then_some(sent + (80 + i) * MS),
                    done_ns: Some(sent + (81 + i) * MS),
                    prompt_tokens: Some(17),
                    output_tokens: ok.then_some(4),
                    requested_output_tokens: Some(4),
                    tokens_source: ok.then_some(TokenSource::Usage),
                    chunks: ok.then_some(4),
                    status: match ok {
                        true => RequestStatus::Ok,
                        false => RequestStatus::HttpError,
                    },
                    http_status: Some(if ok { 200 } else { 500 }),
                    error: (!ok).then(|| "HTTP 500 no".to_owned()),
                    ..contract::synthetic::request(i)
                }
            })
            .collect();
        let (requests, chunks) = (
            Request::table(&requests).unwrap(),
            Chunk::table(&chunks).unwrap(),
        );
        let digest = Digest::of(b"rows");
        CellRows::of((digest, &requests), (digest, &chunks)).unwrap()
    }

    fn facts() -> ResultFacts {
        ResultFacts {
            api: "openai-chat".to_owned(),
            model: "m".to_owned(),
            clients: Some(8),
            max_in_flight: None,
            rate: None,
            burstiness: 1.0,
            planned: 8,
            started_unix_ns: 1_795_246_914_000_000_000,
        }
    }

    #[test]
    fn every_layout_is_read_again_by_the_import_with_the_same_times_and_counts() {
        let cell = cell();
        let measured = timings(&cell);
        for tool in LAYOUTS {
            let text = result_file(tool, &facts(), &measured, &Bounds::default());
            let read = import::read_text(tool.word(), &text).unwrap();
            assert_eq!(read.len(), 8, "{}", tool.word());
            for (ours, theirs) in measured.iter().map(|t| t.request).zip(&read) {
                let name = |what: &str| format!("{} {what} of {}", tool.word(), ours.request_id);
                assert_eq!(theirs.is_ok(), ours.is_ok(), "{}", name("status"));
                assert_eq!(theirs.prompt_tokens, Some(17), "{}", name("prompt"));
                assert_eq!(
                    theirs.output_tokens,
                    ours.output_tokens,
                    "{}",
                    name("output")
                );
                let since = |r: &Request, at: Option<i64>| Some(at? - r.sent_ns?);
                assert_eq!(
                    since(theirs, theirs.first_token_ns),
                    since(ours, ours.first_token_ns),
                    "{}",
                    name("TTFT")
                );
                assert_eq!(
                    since(theirs, theirs.last_token_ns),
                    since(ours, ours.last_token_ns),
                    "{}",
                    name("latency")
                );
                assert_eq!(theirs.chunks, ours.chunks, "{}", name("chunks"));
            }
        }
    }

    /// The fields without a default of `MetricRecordMetadata` in AIPerf 0.13.
    #[test]
    fn a_record_of_aiperf_has_every_field_that_aiperf_requires() {
        let cell = cell();
        let unsent = Request {
            sent_ns: None,
            done_ns: None,
            status: RequestStatus::Failed,
            ..contract::synthetic::request(0)
        };
        let mut all = timings(&cell);
        all[7].request = &unsent;
        let text = result_file(Tool::Aiperf, &facts(), &all, &Bounds::default());
        for line in text.lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            for number in ["session_num", "request_start_ns", "request_end_ns"] {
                assert!(record["metadata"][number].is_i64(), "{number} of {line}");
            }
            for name in ["worker_id", "record_processor_id", "benchmark_phase"] {
                assert!(record["metadata"][name].is_string(), "{name} of {line}");
            }
        }
        assert_eq!(import::read_text("aiperf", &text).unwrap().len(), 8);
    }

    #[test]
    fn the_cap_of_an_open_load_is_its_concurrency() {
        let cell = cell();
        let open = ResultFacts {
            clients: None,
            max_in_flight: Some(2),
            rate: Some(4.0),
            ..facts()
        };
        for tool in [Tool::Vllm, Tool::Sglang] {
            for (facts, most) in [(&open, 2), (&facts(), 8)] {
                let text = result_file(tool, facts, &timings(&cell), &Bounds::default());
                let text = text.replace("Infinity", "0");
                let file: Value = serde_json::from_str(&text).unwrap();
                assert_eq!(file["max_concurrency"], most, "{}", tool.word());
            }
        }
    }

    #[test]
    fn figures_have_the_names_of_the_tool_and_counts_are_whole() {
        let cell = cell();
        let text = result_file(Tool::Vllm, &facts(), &timings(&cell), &Bounds::default());
        let vllm: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&vllm["completed"], &vllm["failed"]),
            (&json!(6), &json!(2))
        );
        assert_eq!(vllm["total_output_tokens"], json!(24));
        assert_eq!(vllm["request_rate"], "inf");
        assert_eq!(vllm["date"], "20261121-074154");
        assert!((vllm["mean_ttft_ms"].as_f64().unwrap() - 52.5).abs() < 1e-9);
        let line = result_file(Tool::Sglang, &facts(), &timings(&cell), &Bounds::default());
        assert!(line.contains("\"request_rate\":Infinity"), "{line}");
    }
}
