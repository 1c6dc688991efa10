//! The content of an answer, read from the bytes of an attempt: its head, its events, and when each of them arrived.

use apis::{
    Adapter, Delivery, Division, Event, PromptParts, Reading, Server, Step, Text, divide,
    words_of_error,
};
use artifacts::json::Distinct;
use contract::Api;
use serde_json::Value;

use super::silent::Silent;
use crate::answered::model_in;
use crate::claims;
use crate::measure::{Attempt, End};
use crate::refused::Form;
use crate::wire::{self, Framing};

/// How much of a body that is not an answer is quoted, in bytes.
const BODY_LENGTH: usize = 200;

/// The most events of one answer.
pub(super) const MOST_EVENTS: usize = if cfg!(test) {
    1 << 14
} else {
    apis::MOST_EVENTS
};

/// A chunk with text: when it arrived, the socket read, its bytes and its tokens.
pub(super) type TextChunk = (u64, usize, usize, Option<i64>);

/// The content of an answer, with stamps.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) http_status: Option<u16>,
    pub(super) retry_after: Option<u64>,
    /// The number of vectors or scores.
    pub(super) results: Option<usize>,
    /// The largest index of the scores.
    pub(super) largest_index: Option<u64>,
    /// When an answer without text was complete.
    pub(super) result_ns: Option<u64>,
    /// The reasoning before the answer.
    pub(super) reasoning: String,
    pub(super) first_reasoning_ns: Option<u64>,
    /// The answer itself.
    pub(super) text: String,
    pub(super) first_answer_ns: Option<u64>,
    /// Calls of tools and refusals, which are generated but no text for a reader.
    pub(super) other: String,
    /// The chunks with text.
    pub(super) chunks: Vec<TextChunk>,
    /// The events without text in which the server may have generated tokens.
    pub(super) silent: Silent,
    pub(super) usage_output: Option<i64>,
    pub(super) usage_reasoning: Option<i64>,
    pub(super) usage_prompt: Option<i64>,
    pub(super) usage_cached: Option<i64>,
    prompt_parts: PromptParts,
    /// Output tokens that the server had counted at the last chunk.
    chunked: i64,
    /// Tokens of events without text since the last chunk.
    hidden: i64,
    /// Whether an API that should repeat the text so far sends only what is new.
    disjoint: bool,
    pub(super) server: Server,
    pub(super) finish_reason: Option<String>,
    /// The model that answered, by its own account.
    pub(super) model: Option<String>,
    pub(super) complete: bool,
    pub(super) broken: Option<String>,
    pub(super) form: Form,
    pub(super) error: Option<String>,
}

/// The body of a response.
struct Body {
    bytes: Vec<u8>,
    /// For each socket read: how many bytes of the body had arrived, when, and the number of the read.
    marks: Vec<(usize, u64, usize)>,
}

impl Body {
    /// Removes the framing. If it is broken, returns the bytes before the mistake, and the mistake.
    fn unframed(attempt: &Attempt, mut framing: Framing, start: usize) -> (Self, Option<String>) {
        let (mut bytes, mut marks) = (Vec::new(), Vec::new());
        let mut from = start;
        for (index, read) in attempt.reads.iter().enumerate() {
            if read.end > from {
                let taken = framing.advance(&attempt.bytes[from..read.end], |piece| {
                    bytes.extend_from_slice(piece);
                });
                if let Err(error) = taken {
                    return (Self { bytes, marks }, Some(error.to_string()));
                }
                from = read.end;
            }
            marks.push((bytes.len(), read.at_ns, index));
        }
        (Self { bytes, marks }, None)
    }

    /// Returns when an event arrived that ends at this byte, and the number of the socket read.
    fn arrival(&self, end: usize) -> (u64, usize) {
        let mark = self.marks.partition_point(|(there, _, _)| *there <= end);
        let mark = self.marks.get(mark).or(self.marks.last());
        mark.map_or_else(Default::default, |(_, at_ns, read)| (*at_ns, *read))
    }
}

/// Parses the answer: head, framing, events, the content of each event, and when it arrived.
pub(super) fn read_answer(attempt: &Attempt, api: Api, delivery: Delivery) -> Answer {
    let mut answer = Answer::default();
    let head = match wire::head(&attempt.bytes) {
        Ok(Some(head)) => head,
        Ok(None) => return answer,
        Err(error) => {
            answer.broken = Some(error.to_string());
            return answer;
        }
    };
    answer.http_status = Some(head.status);
    answer.retry_after = head.retry_after;
    let body;
    (body, answer.broken) = Body::unframed(attempt, head.framing, head.length);
    if !(200..300).contains(&head.status) {
        answer.error = Some(error_text(&body.bytes));
        return answer;
    }
    let division = api.division(delivery);
    let (events, cut) = answer.events_of(&body.bytes, division);
    if let Some(media_type) = head.media_type.filter(|media| !division.carried_by(media))
        && !events.iter().any(|event| is_json(&event.data))
    {
        answer.form = Form::Foreign;
        answer.broken = Some(format!(
            "the answer is {media_type}, not {}: {}",
            division.word(),
            start_of(&body.bytes)
        ));
        return answer;
    }
    if events.is_empty() {
        answer.error = plain_error(&body.bytes);
    }
    let count = events.len();
    let unfinished = cut || !matches!(attempt.end, End::Complete);
    let mut over = false;
    for (i, event) in events.into_iter().enumerate() {
        if event.data.trim_ascii() == b"[DONE]" {
            (answer.complete, over) = (true, true);
            continue;
        }
        // One event of an answer names the model; reading all of them would cost a client its time.
        if i == 0 {
            answer.model = model_in(&event.data);
        }
        let whole = division == Division::Whole;
        let directly = match event.kind.as_deref() {
            Some("error") => None,
            _ => api.read_directly(&event.data),
        };
        let mut reading = match directly {
            // A whole answer that seems to have no text may have it beside an empty delta.
            Some(reading) if !whole || reading.text.is_some() => reading,
            _ => {
                let Some(mut value) = answer.value_of(&event, unfinished && i + 1 == count) else {
                    continue;
                };
                if event.kind.as_deref() == Some("error") && answer.error.is_none() {
                    let words = words_of_error(&value);
                    answer.error = Some(words.unwrap_or_else(|| value.to_string()));
                }
                if whole {
                    apis::drop_delta(&mut value);
                }
                api.read(&value)
            }
        };
        // Any JSON is not an answer: a gateway may have written it.
        if whole && reading.is_empty() {
            answer.broken.get_or_insert_with(|| nothing_in(&body.bytes));
        }
        let wrong = reading.wrong.take();
        let after =
            (over && !reading.is_empty()).then(|| "the answer goes on after its end".to_owned());
        let unthinkable = claims::refuse_unthinkable(&mut reading);
        if let Some(wrong) = wrong.or(after).or(unthinkable) {
            answer.broken.get_or_insert(wrong);
        }
        over |= match api {
            // The usage comes after the reason.
            Api::OpenaiCompletions | Api::OpenaiChat => false,
            // The reason completes an answer, and the event after it ends the answer. Some servers omit that event.
            Api::AnthropicMessages => reading.last && reading.finish_reason.is_none(),
            _ => reading.last,
        };
        answer.complete |= whole;
        answer.add(reading, &event, &body);
    }
    if answer.complete && answer.is_empty() {
        answer.broken.get_or_insert_with(|| nothing_in(&body.bytes));
    }
    answer
}

/// Returns the problem with an answer that is one only by its form.
fn nothing_in(body: &[u8]) -> String {
    let start = start_of(body);
    format!("the answer has no text, finish reason or number of tokens: {start}")
}

impl Answer {
    /// Divides a body into its events, and returns whether the last one may be cut off.
    fn events_of(&mut self, body: &[u8], division: Division) -> (Vec<Event>, bool) {
        let (mut events, cut) = divide(body, division, MOST_EVENTS + 1);
        if events.len() > MOST_EVENTS {
            events.truncate(MOST_EVENTS);
            self.broken = Some(format!("the answer has more than {MOST_EVENTS} events"));
        }
        // Some gateways keep a connection alive with events that have no data.
        if division == Division::Events {
            events.retain(|event| event.kind.is_some() || !event.data.trim_ascii().is_empty());
        }
        (events, cut)
    }

    /// Returns the JSON of an event; `None` if it has none for us, or is not JSON and therefore breaks the answer. An
    /// event that may be cut off breaks nothing.
    fn value_of(&mut self, event: &Event, may_be_cut: bool) -> Option<Value> {
        let mut read = serde_json::from_slice::<Distinct>(&event.data);
        // A server that divides a character between two events sends half of its escape in each.
        if read.as_ref().is_err_and(serde_json::Error::is_syntax)
            && let Some(mended) = without_half_pairs(&event.data)
        {
            read = serde_json::from_slice(&mended);
        }
        // A key that is there twice leaves open which value the server means.
        if let Err(error) = &read
            && error.is_data()
        {
            let text = error.to_string();
            let what = text.split(" at line ").next().unwrap_or_default();
            self.broken.get_or_insert(format!("in an event, {what}"));
            return None;
        }
        match read.map(|Distinct(value)| value) {
            // Only an object or array can be an event of ours.
            Ok(Value::Array(mut items)) => {
                if items.len() > 1 {
                    let wrong = format!("an event holds {} answers, not one", items.len());
                    self.broken.get_or_insert(wrong);
                }
                (!items.is_empty()).then(|| items.swap_remove(0))
            }
            Ok(value) if value.is_object() => Some(value),
            _ if may_be_cut || event.kind.as_deref() == Some("ping") => None,
            _ => {
                let data = String::from_utf8_lossy(&event.data);
                self.broken = Some(match event.kind.as_deref() {
                    Some("error") => format!("error event: {data}"),
                    _ => format!("an event is not JSON: {data}"),
                });
                None
            }
        }
    }

    /// Returns whether it has no text, results, finish reason or number of tokens.
    fn is_empty(&self) -> bool {
        self.chunks.is_empty()
            && self.results.is_none()
            && self.finish_reason.is_none()
            && self.usage_output.or(self.server.output_tokens).is_none()
    }

    /// Adds the content of an event.
    fn add(&mut self, reading: Reading, event: &Event, body: &Body) {
        let before = self.usage_output;
        // Some servers send the usage in an event that has a choice, long after the answer has ended.
        let has_ended = self.finish_reason.is_some();
        let more = reading
            .output_tokens
            .is_some_and(|count| count > before.unwrap_or(0));
        let ends = reading.finish_reason.is_some();
        // The first count in the event that ends an answer is the total, and tells nothing about this event.
        let has_token = !has_ended
            && (reading.tokens.is_some_and(|tokens| tokens > 0)
                || (more && reading.step != Step::None && (before.is_some() || !ends)));
        // Tokens of events without text belong to the next chunk.
        let new = reading.tokens.map(|new| self.hidden + new);
        let tokens = new.or_else(|| reading.output_tokens.map(|count| count - self.chunked));
        self.error = self.error.take().or(reading.error);
        self.complete |= reading.last;
        self.finish_reason = reading.finish_reason.or(self.finish_reason.take());
        self.usage_prompt = reading.prompt_tokens.or(self.usage_prompt);
        self.usage_cached = reading.cached_prompt_tokens.or(self.usage_cached);
        if reading.prompt_parts != PromptParts::default() {
            self.prompt_parts.update(reading.prompt_parts);
            self.usage_prompt = self.prompt_parts.total().or(self.usage_prompt);
            self.usage_cached = self.prompt_parts.cached.or(self.usage_cached);
        }
        self.usage_output = reading.output_tokens.or(self.usage_output);
        self.usage_reasoning = reading.reasoning_tokens.or(self.usage_reasoning);
        self.server.update(reading.server);
        let answered = match reading.text {
            Some(Text::New(text)) => {
                self.text.push_str(&text);
                text.len()
            }
            Some(Text::SoFar(text)) => self.go_on(text, more, reading.last),
            None => 0,
        };
        let reasoned = reading.reasoning.as_ref().map_or(0, String::len);
        self.reasoning.extend(reading.reasoning);
        let others = reading.other.as_ref().map_or(0, String::len);
        self.other.extend(reading.other);
        if reading.results.is_some() {
            self.results = reading.results;
            self.largest_index = reading.largest_index;
            self.result_ns = body.marks.last().map(|(_, at_ns, _)| *at_ns);
        }
        let bytes = answered + reasoned + others;
        if bytes == 0 {
            self.hidden += reading.tokens.unwrap_or(0);
            let (at_ns, _) = body.arrival(event.end);
            let chunks = self.chunks.len();
            if !has_ended {
                self.silent
                    .add(reading.step, (has_token, ends), at_ns, chunks);
            }
            return;
        }
        self.hidden = 0;
        self.chunked = reading.output_tokens.unwrap_or(self.chunked);
        let (at_ns, read) = body.arrival(event.end);
        self.chunks.push((at_ns, read, bytes, tokens));
        if reasoned > 0 {
            self.first_reasoning_ns.get_or_insert(at_ns);
        }
        if answered + others > 0 {
            self.first_answer_ns.get_or_insert(at_ns);
        }
    }

    /// Takes over a text that should be the whole text so far; returns how many bytes are new. `more` is whether the
    /// server counts more tokens than before, `last` whether the answer ends.
    fn go_on(&mut self, text: String, more: bool, last: bool) -> usize {
        if self.disjoint || text.is_empty() {
            self.text.push_str(&text);
            return text.len();
        }
        if let Some(new) = text.strip_prefix(self.text.as_str()) {
            self.text.push_str(new);
            return new.len();
        }
        let longer = text.len() > self.text.len();
        // A character that was not complete ended the earlier text as U+FFFD. The complete one may have fewer bytes.
        let same = self.text.trim_end_matches(char::REPLACEMENT_CHARACTER);
        if same.len() < self.text.len() && text.starts_with(same) {
            let new = text.len() - same.len();
            self.text = text;
            return if more || longer { new } else { 0 };
        }
        // A stop sequence is removed at the end.
        let shortened = last && self.text.starts_with(&text);
        // SGLang, if it was started with `--incremental-streaming-output`. The second text shows it. A later text that does
        // not repeat the text so far corrects it.
        let is_second = self.chunks.len() == 1;
        if more && !shortened && is_second && starts_anew(&self.text, &text) {
            self.disjoint = true;
            self.text.push_str(&text);
            return text.len();
        }
        let new = text.len().saturating_sub(self.text.len());
        self.text = text;
        new
    }
}

/// Returns whether a text and the one before it have at most half of the shorter one in common at their start, apart from
/// white space.
fn starts_anew(before: &str, text: &str) -> bool {
    let (before, text) = (before.trim_start(), text.trim_start());
    let pairs = before.bytes().zip(text.bytes());
    let common = pairs.take_while(|(a, b)| a == b).count();
    2 * common <= before.len().min(text.len())
}

/// Returns JSON in which each escape of half a surrogate pair is replaced by that of U+FFFD; `None` if there is none.
fn without_half_pairs(json: &[u8]) -> Option<Vec<u8>> {
    // A backslash occurs only in texts, and begins an escape there.
    let unit = |at: usize| {
        let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
        let digits = str::from_utf8(digits).ok()?;
        u16::from_str_radix(digits, 16).ok()
    };
    let (mut mended, mut replaced, mut at) = (Vec::with_capacity(json.len()), false, 0);
    while let Some(&byte) = json.get(at) {
        let length = match (byte, unit(at)) {
            (b'\\', Some(0xD800..=0xDBFF)) if matches!(unit(at + 6), Some(0xDC00..=0xDFFF)) => 12,
            (b'\\', Some(0xD800..=0xDFFF)) => {
                mended.extend_from_slice(b"\\ufffd");
                replaced = true;
                at += 6;
                continue;
            }
            (b'\\', _) => 2,
            _ => 1,
        };
        let end = json.len().min(at + length);
        mended.extend_from_slice(&json[at..end]);
        at = end;
    }
    replaced.then_some(mended)
}

fn is_json(data: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(data).is_ok()
}

/// Returns the start of an unexpected body, in one line.
fn start_of(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(BODY_LENGTH)]);
    let printable = text.replace(char::is_control, " ");
    let words: Vec<&str> = printable.split_whitespace().collect();
    if words.is_empty() {
        "an empty body".to_owned()
    } else {
        words.join(" ")
    }
}

/// Returns the words of an error that is plain JSON. Some gateways send one under the media type of a stream.
fn plain_error(body: &[u8]) -> Option<String> {
    let parsed = serde_json::from_slice::<Value>(body).ok()?;
    words_of_error(&parsed)
}

fn error_text(body: &[u8]) -> String {
    plain_error(body).unwrap_or_else(|| String::from_utf8_lossy(body).trim().to_owned())
}
