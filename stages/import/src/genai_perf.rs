//! GenAI-Perf: `profile_export.json`, written by its Perf Analyzer, with every raw request and
//! response.
//!
//! The layout follows `src/profile_data_exporter.cc` of the repository
//! `triton-inference-server/perf_analyzer` (GenAI-Perf 0.0.16). Responses are read like
//! `genai_perf/profile_data_parser/llm_profile_data_parser.py` reads them.

use std::collections::BTreeMap;

use apis::{Adapter as _, Division, MOST_EVENTS, Text, divide};
use artifacts::Digest;
use contract::{Api, RequestStatus, TokenSource};
use serde_json::Value;

use crate::json::{At, ImportError};
use crate::rows::{Imported, Row};
use crate::stage::index;

/// Refuses a file of aggregates.
pub(crate) fn aggregates() -> ImportError {
    ImportError::at(
        "",
        "this file holds only GenAI-Perf's aggregates and no requests",
        "give the file without `_genai_perf` in its name from the same folder, such as `profile_export.json`",
    )
}

/// The answering service, which decides how a response is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    /// Server-sent events, or one document, of the OpenAI API.
    Openai,
    /// One text per response.
    Triton,
}

/// Reads a file; `entry` selects one of several load levels.
pub(crate) fn read(file: &At<'_>, entry: Option<u32>) -> Result<Imported, ImportError> {
    if file.get("experiments").is_none() {
        return Err(aggregates());
    }
    let endpoint = file
        .get("endpoint")
        .map(|v| v.text())
        .transpose()?
        .unwrap_or_default();
    let service = service(&file.need("service_kind")?, endpoint)?;
    let experiments = file.need("experiments")?.items()?;
    let experiment = &experiments[index(experiments.len(), entry)?];
    let mut imported = Imported::default();
    let requests = experiment.need("requests")?.items()?;
    let mut base = i64::MAX;
    for request in &requests {
        base = base.min(request.need("timestamp")?.count()?);
    }
    for request in &requests {
        imported.requests.push(row(request, service, base)?);
    }
    sessions(&requests, &mut imported)?;
    let mode = experiment.need("experiment")?;
    let facts = &mut imported.facts;
    match mode.need("mode")?.text()? {
        "concurrency" => {
            facts.arrival = Some("closed-loop".to_owned());
            facts.clients = Some(mode.need("value")?.small_count()?);
        }
        // Sessions are written with a rate of 0.
        _ => facts.rate = Some(mode.need("value")?.number()?).filter(|rate| *rate > 0.0),
    }
    facts.tool_version = file
        .get("version")
        .map(|v| v.text().map(str::to_owned))
        .transpose()?;
    facts.model = requests
        .iter()
        .find_map(|r| payload(r)?["model"].as_str().map(str::to_owned));
    facts.api = (!endpoint.is_empty()).then(|| endpoint.to_owned());
    facts.started_unix_ns = (base < i64::MAX).then_some(base);
    facts.streamed = imported
        .requests
        .iter()
        .any(|row| row.chunks_ns.is_some())
        .then_some(true);
    if imported
        .requests
        .iter()
        .any(|row| row.tokens_source == Some(TokenSource::Chunks))
    {
        imported.warnings.push(
            "output tokens are counted as chunks if there is no usage, because the file does not name GenAI-Perf's own tokenizer"
                .to_owned(),
        );
    }
    imported.map(&[
        ("sent_ns", "timestamp − the smallest"),
        (
            "first_token_ns",
            "response_timestamps of the first response that completes an event with text",
        ),
        (
            "last_token_ns",
            "response_timestamps of the last such response",
        ),
        (
            "chunks.at_ns",
            "response_timestamps of the response that completes the event",
        ),
        ("done_ns", "the last of response_timestamps"),
        (
            "prompt_tokens, cached_prompt_tokens",
            "usage in response_outputs",
        ),
        (
            "output_tokens, tokens_source",
            "usage in response_outputs, else events with text",
        ),
        ("requested_output_tokens, prompt_digest", "request_inputs"),
        (
            "status, error",
            "an error in response_outputs, or no response",
        ),
    ]);
    Ok(imported)
}

fn service(kind: &At<'_>, endpoint: &str) -> Result<Service, ImportError> {
    let text = ["embeddings", "ranking", "rerank", "infer"]
        .iter()
        .all(|word| !endpoint.contains(word));
    match kind.text()? {
        "openai" if text => Ok(Service::Openai),
        "triton" | "dynamic_grpc" => Ok(Service::Triton),
        other => Err(ImportError::at(
            kind.path.clone(),
            format!("cannot read text from the answers of `{other}` at `{endpoint}`"),
            "supported are `openai` (completions and chat) and `triton` with `text_output`; \
             otherwise write the requests as CSV and import them with `tool: csv`",
        )),
    }
}

/// Returns the request's body, if the file holds it.
fn payload(request: &At<'_>) -> Option<Value> {
    serde_json::from_str(request.value["request_inputs"]["payload"].as_str()?).ok()
}

fn row(request: &At<'_>, service: Service, base: i64) -> Result<Row, ImportError> {
    let start = request.need("timestamp")?.count()?;
    let mut moments = Vec::new();
    for stamp in request.need("response_timestamps")?.items()? {
        let moment = stamp.count()?;
        if moment < start || moments.last().is_some_and(|last| moment - base < *last) {
            return Err(ImportError::at(
                stamp.path,
                "the response precedes the event it follows: a negative time",
                "the wall clock was set back during the run; measure again",
            ));
        }
        moments.push(moment - base);
    }
    let outputs = request.need("response_outputs")?;
    let responses = outputs.items()?;
    if responses.len() != moments.len() {
        return Err(ImportError::at(
            outputs.path,
            format!(
                "{} entries, but `response_timestamps` has {}",
                responses.len(),
                moments.len()
            ),
            "the tool writes a timestamp for each response; the file has been changed",
        ));
    }
    let mut row = Row {
        sent_ns: Some(start - base),
        done_ns: moments.last().copied(),
        ..Row::new(RequestStatus::Ok)
    };
    let asked = payload(request).unwrap_or_default();
    row.requested_output_tokens = asked["max_tokens"]
        .as_i64()
        .or_else(|| asked["max_completion_tokens"].as_i64());
    row.prompt_digest = prompt(request, &asked).map(|text| Digest::of(text.as_bytes()).to_string());
    let mut answer = Told::default();
    match service {
        Service::Triton => {
            for (response, moment) in responses.iter().zip(&moments) {
                answer.text(*moment, response.need("text_output")?.text()?);
            }
        }
        Service::Openai => {
            let mut texts = Vec::new();
            for response in &responses {
                texts.push(response.need("response")?.text()?);
            }
            answer.responses(&texts, &moments);
        }
    }
    // Without streaming, the single answer does not show its first token.
    let streamed = service == Service::Triton || answer.events;
    row.last_token_ns = answer.chunks.last().copied();
    if streamed {
        row.first_token_ns = answer.chunks.first().copied();
        row.output_tokens = (!answer.chunks.is_empty()).then_some(answer.chunks.len() as i64);
        row.tokens_source = row.output_tokens.map(|_| TokenSource::Chunks);
        row.chunks_ns = Some(answer.chunks);
    }
    if answer.output_tokens.is_some() {
        row.output_tokens = answer.output_tokens;
        row.tokens_source = Some(TokenSource::Usage);
    }
    (row.prompt_tokens, row.cached_prompt_tokens) =
        (answer.prompt_tokens, answer.cached_prompt_tokens);
    row.finish_reason = answer.finish_reason;
    row.error = answer.error.or_else(|| {
        moments
            .is_empty()
            .then(|| "the file holds no response".to_owned())
    });
    if row.error.is_some() {
        row.status = RequestStatus::Failed;
        (row.output_tokens, row.tokens_source) = (None, None);
    }
    if !answer.all.is_empty() {
        row.output_characters = Some(answer.all.chars().count() as i64);
        row.output_digest = Some(Digest::of(answer.all.as_bytes()).to_string());
    }
    Ok(row)
}

/// Returns the prompt's text, if the request has exactly one.
fn prompt(request: &At<'_>, asked: &Value) -> Option<String> {
    let one = |value: &Value| match value {
        Value::Array(items) if items.len() == 1 => items[0].as_str().map(str::to_owned),
        other => other.as_str().map(str::to_owned),
    };
    let messages = asked["messages"].as_array();
    let message = messages
        .filter(|all| all.len() == 1)
        .and_then(|all| one(&all[0]["content"]));
    one(&asked["prompt"])
        .or(message)
        .or_else(|| one(&request.value["request_inputs"]["text_input"]))
}

/// What the responses of one request show.
#[derive(Debug, Default)]
struct Told {
    /// The time at which each event with text was complete.
    chunks: Vec<i64>,
    all: String,
    /// Whether the answer arrived as events.
    events: bool,
    output_tokens: Option<i64>,
    prompt_tokens: Option<i64>,
    cached_prompt_tokens: Option<i64>,
    finish_reason: Option<String>,
    error: Option<String>,
}

impl Told {
    fn text(&mut self, moment: i64, text: &str) {
        if !text.is_empty() {
            self.chunks.push(moment);
            self.all.push_str(text);
        }
    }

    /// Reads responses as pieces of one body. The tool stores what each read of the socket
    /// returned, so an event may be split over two responses, and one response may hold several
    /// events.
    fn responses(&mut self, texts: &[&str], moments: &[i64]) {
        let (mut body, mut ends) = (String::new(), Vec::new());
        for text in texts {
            // An event starts on its own line. If the end of the previous event is missing, it was
            // cut off.
            if text.starts_with("data:") && !body.is_empty() && !body.ends_with('\n') {
                body.push_str("\n\n");
                ends.pop();
                ends.push(body.len());
            }
            body.push_str(text);
            ends.push(body.len());
        }
        self.events = body.lines().any(|line| line.starts_with("data:"));
        let failure =
            |line: &&str| line.starts_with("event:") && line.to_lowercase().contains("error");
        self.error = body.lines().find(failure).map(str::to_owned);
        let division = if self.events {
            Division::Events
        } else {
            Division::Whole
        };
        let (mut events, _) = divide(body.as_bytes(), division, MOST_EVENTS + 1);
        if events.len() > MOST_EVENTS {
            events.truncate(MOST_EVENTS);
            self.error
                .get_or_insert(format!("a response has more than {MOST_EVENTS} events"));
        }
        for event in events {
            let Some(moment) = moments.get(ends.partition_point(|end| *end <= event.end)) else {
                continue;
            };
            let data = event.data.trim_ascii();
            if data == b"[DONE]" || data.is_empty() {
                continue;
            }
            let Ok(value) = serde_json::from_slice::<Value>(data) else {
                let text = String::from_utf8_lossy(data);
                let start: String = text.chars().take(200).collect();
                self.error
                    .get_or_insert(format!("a response is not JSON: {start}"));
                continue;
            };
            let said = Api::OpenaiChat.read(&value);
            let text = match said.text {
                Some(Text::New(text)) => text,
                _ => String::new(),
            };
            self.text(*moment, &(said.reasoning.unwrap_or_default() + &text));
            self.output_tokens = said.output_tokens.or(self.output_tokens);
            self.prompt_tokens = said.prompt_tokens.or(self.prompt_tokens);
            self.cached_prompt_tokens = said.cached_prompt_tokens.or(self.cached_prompt_tokens);
            self.finish_reason = said.finish_reason.or(self.finish_reason.take());
            self.error = self.error.take().or(said.error).or(said.wrong);
        }
    }
}

/// Numbers sessions and their turns in sending order.
fn sessions(requests: &[At<'_>], imported: &mut Imported) -> Result<(), ImportError> {
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|i| imported.requests[*i].sent_ns);
    let mut times: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    for i in order {
        let inputs = requests[i].get("request_inputs");
        let Some(id) = inputs.and_then(|inputs| inputs.get("session_id")) else {
            continue;
        };
        let next = times.len() as i64;
        let (session, turn) = times.entry(id.text()?.to_owned()).or_insert((next, 0));
        *turn += 1;
        imported.requests[i].session_id = Some(*session);
        imported.requests[i].turn = Some(*turn);
    }
    if !times.is_empty() {
        imported.map(&[(
            "session_id, turn",
            "request_inputs.session_id, numbered in the order of sending",
        )]);
    }
    Ok(())
}
