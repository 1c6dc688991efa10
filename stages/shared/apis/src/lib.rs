//! The APIs for requests, with one small adapter each.
//!
//! An adapter knows the body of a request, how an answer is divided into events, and the content of an event. The load
//! generator sends and reads with it; `import` uses it to read answers that another tool recorded. A new API is one
//! file here and one line in `contract::Api`.

mod anthropic;
mod direct;
mod division;
mod llama_cpp;
mod ollama;
mod openai;
mod responses;
mod several;
mod sglang;
mod tgi;
mod vectors;

use std::collections::BTreeMap;

use contract::{Api, OutputMode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use division::{Division, Event, MOST_EVENTS, divide};
pub use several::several_answers;
pub use vectors::{documents_of, pairs, results_of};

/// What [`Reading`] holds for a count that is not a whole number, such as a text or 2.5. Whoever reads counts refuses it
/// like any negative one.
pub const NOT_A_COUNT: i64 = i64::MIN + 1;

/// Returns a count of tokens that a server reports; `None` if it reports none. A number beyond 64 bits becomes the largest
/// or smallest possible one, and anything else [`NOT_A_COUNT`]: an impossible count does not count as missing.
fn count(value: &Value) -> Option<i64> {
    let whole = |number: &f64| number.fract() == 0.0;
    let saturated = || value.as_f64().filter(whole).map(|number| number as i64);
    let number = match value.as_i64().or_else(saturated) {
        // Just as impossible, and not mistaken for another value.
        Some(NOT_A_COUNT) => i64::MIN,
        Some(number) => number,
        None => NOT_A_COUNT,
    };
    (!value.is_null()).then_some(number)
}

/// Adds further parts of a prompt to the first one; `None` without the first one. A part that is impossible is returned
/// alone, so that the sum of an impossible and a possible part is impossible.
fn prompt_of(first: Option<i64>, further: &[Option<i64>]) -> Option<i64> {
    let first = [first?];
    let parts = first.iter().chain(further.iter().flatten());
    let impossible = parts.clone().find(|part| **part < 0);
    Some(impossible.map_or_else(
        || parts.fold(0, |sum: i64, part| sum.saturating_add(*part)),
        |part| *part,
    ))
}

/// Whether answers arrive piece by piece or at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// Piece by piece, as generated.
    #[default]
    Streamed,
    /// At once, when complete.
    Whole,
}

/// How output is sampled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-form" = "{temperature: 0, seed: 1}"))]
pub struct Sampling {
    /// The temperature; 0 is greedy.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub temperature: f64,
    /// The top-p cut, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// The seed sent to the engine, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_p: None,
            seed: Some(1),
        }
    }
}

/// A request for generation, before an adapter converts it to a body.
#[derive(Clone, Copy, Debug)]
pub struct Generation<'a> {
    /// The model, as the server names it.
    pub model: &'a str,
    /// The text of the prompt.
    pub prompt: &'a str,
    /// The texts of the prompt, if an API that takes several texts in one request gets several.
    pub texts: &'a [&'a str],
    /// The number of output tokens.
    pub output_tokens: u32,
    /// Whether the number is a cap or exact.
    pub output_mode: OutputMode,
    /// The system message.
    pub system: Option<&'a str>,
    /// The turns before this one, oldest first.
    pub history: &'a [Exchange],
    /// The JSON Schema that the answer must match.
    pub schema: Option<&'a Value>,
    /// How output is sampled.
    pub sampling: &'a Sampling,
    /// Whether the answer must arrive piece by piece.
    pub delivery: Delivery,
    /// Images beside the prompt, as data URLs of PNG files.
    pub images: &'a [String],
    /// Fields added to the body unchanged; they override ours.
    pub extra: &'a BTreeMap<String, Value>,
}

impl Generation<'_> {
    fn streamed(&self) -> bool {
        self.delivery == Delivery::Streamed
    }

    /// Inserts how output is sampled, in the words of most APIs.
    fn insert_sampling(&self, body: &mut Map<String, Value>) {
        insert(body, "temperature", Some(self.sampling.temperature));
        insert(body, "top_p", self.sampling.top_p);
    }

    fn exact(&self) -> bool {
        self.output_mode == OutputMode::Exact
    }

    /// Returns the prompt as one text: the system message, the earlier turns, the prompt. A turn's text begins with all
    /// of the text before it, so that a prefix cache can serve it.
    fn text(&self) -> String {
        let mut text = String::new();
        if let Some(system) = self.system {
            text.push_str(system);
            text.push_str("\n\n");
        }
        for turn in self.history {
            text.push_str(&turn.said);
            text.push_str(&turn.answered);
            text.push_str("\n\n");
        }
        text.push_str(self.prompt);
        text
    }

    /// Returns the earlier turns and the prompt as messages, without the system message. `image` formats an image, and
    /// text beside images becomes a part of the type `text`.
    fn turns(&self, image: impl Fn(&str) -> Value, text: &str) -> Value {
        let message = |role: &str, content: &str| json!({"role": role, "content": content});
        let mut messages = Vec::new();
        for turn in self.history {
            messages.push(message("user", &turn.said));
            messages.push(message("assistant", &turn.answered));
        }
        messages.push(match self.images {
            [] => message("user", self.prompt),
            images => {
                let mut parts: Vec<Value> = images.iter().map(|url| image(url)).collect();
                parts.push(json!({"type": text, "text": self.prompt}));
                json!({"role": "user", "content": parts})
            }
        });
        Value::Array(messages)
    }

    /// Returns the system message, the earlier turns and the prompt as chat messages.
    fn messages(&self) -> Value {
        let message = |role: &str, content: &str| json!({"role": role, "content": content});
        let mut messages: Vec<Value> = self
            .system
            .iter()
            .map(|system| message("system", system))
            .collect();
        for turn in self.history {
            messages.push(message("user", &turn.said));
            messages.push(message("assistant", &turn.answered));
        }
        messages.push(match self.images {
            [] => message("user", self.prompt),
            images => {
                let image = |url: &String| json!({"type": "image_url", "image_url": {"url": url}});
                let mut parts: Vec<Value> = images.iter().map(image).collect();
                parts.push(json!({"type": "text", "text": self.prompt}));
                json!({"role": "user", "content": parts})
            }
        });
        Value::Array(messages)
    }
}

/// A completed turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The user's message.
    pub said: String,
    /// The model's answer, without its reasoning.
    pub answered: String,
}

/// The text in an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// Only the new text.
    New(String),
    /// The complete text so far.
    SoFar(String),
}

/// The content of one event; missing parts are `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Text of the answer.
    pub text: Option<Text>,
    /// The number of results that are not text: vectors or scores. `None` if it has none, or if one is incomplete.
    pub results: Option<usize>,
    /// The largest index of the results, if they name the documents that they belong to.
    pub largest_index: Option<u64>,
    /// New text of the reasoning before the answer, if the API separates the two.
    pub reasoning: Option<String>,
    /// Other text that the model generated: the name and arguments of a tool call, or a refusal.
    pub other: Option<String>,
    /// Whether it is a step of the generation, with text or not.
    pub step: Step,
    /// Tokens of the reasoning, from the usage in this event.
    pub reasoning_tokens: Option<i64>,
    /// Tokens in this event, if the API sends one event per token.
    pub tokens: Option<i64>,
    /// Output tokens so far or in total, from the usage in this event.
    pub output_tokens: Option<i64>,
    /// Prompt tokens, from the usage in this event.
    pub prompt_tokens: Option<i64>,
    /// Prompt tokens taken from a cache.
    pub cached_prompt_tokens: Option<i64>,
    /// The parts of `prompt_tokens`, if the API counts them apart.
    pub prompt_parts: PromptParts,
    /// Why generation ended.
    pub finish_reason: Option<String>,
    /// The server's own figures for the request.
    pub server: Server,
    /// The error that the server reports inside the answer.
    pub error: Option<String>,
    /// What contradicts the form of the API, such as text that is a number.
    pub wrong: Option<String>,
    /// Whether the answer is complete with this event.
    pub last: bool,
}

impl Reading {
    /// Returns whether it says nothing of an answer: no text, count, reason or error.
    pub fn is_empty(&self) -> bool {
        let step = self.step;
        *self
            == Self {
                step,
                ..Self::default()
            }
    }
}

/// Whether an event is a step of the generation. A step without text may still have a token, such as a special one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Step {
    /// It is none, such as an event that has only the usage.
    #[default]
    None,
    /// It names the role of the message. The first event of an answer often has nothing else.
    Role,
    /// It has a part of the answer, which may be empty.
    Part,
}

/// Tokens of a prompt, if an API counts its parts apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromptParts {
    /// Those that no cache has to do with.
    pub new: Option<i64>,
    /// Those read from a cache.
    pub cached: Option<i64>,
    /// Those written to a cache.
    pub written: Option<i64>,
}

impl PromptParts {
    /// Takes over the counts of a later event. It may have only some parts again, or 0 for those that it does not count.
    pub fn update(&mut self, later: Self) {
        let settle = |before: &mut Option<i64>, later: Option<i64>| {
            if later.is_some_and(|count| count > 0) || before.is_none() {
                *before = later.filter(|count| *count >= 0);
            }
        };
        settle(&mut self.new, later.new);
        settle(&mut self.cached, later.cached);
        settle(&mut self.written, later.written);
    }

    /// Returns the tokens of the whole prompt.
    pub fn total(self) -> Option<i64> {
        prompt_of(self.new, &[self.cached, self.written])
    }
}

/// A server's own figures for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Server {
    /// How long the server worked on the prompt, ms.
    pub prompt_ms: Option<f64>,
    /// How long the server generated, ms.
    pub predicted_ms: Option<f64>,
    /// Tokens of the prompt, cached ones included.
    pub prompt_tokens: Option<i64>,
    /// Tokens that the server generated.
    pub output_tokens: Option<i64>,
    /// Tokens of the prompt that the server took from a cache.
    pub cached_prompt_tokens: Option<i64>,
}

impl Server {
    /// Adds the figures of a later event.
    pub fn update(&mut self, later: Self) {
        self.prompt_ms = later.prompt_ms.or(self.prompt_ms);
        self.predicted_ms = later.predicted_ms.or(self.predicted_ms);
        self.prompt_tokens = later.prompt_tokens.or(self.prompt_tokens);
        self.output_tokens = later.output_tokens.or(self.output_tokens);
        self.cached_prompt_tokens = later.cached_prompt_tokens.or(self.cached_prompt_tokens);
    }
}

/// The form of requests and answers in an API.
pub trait Adapter {
    /// Returns how an answer is divided into events.
    fn division(self, delivery: Delivery) -> Division;

    /// Returns the body of a request: ours, with the extra fields on top.
    fn body(self, generation: &Generation<'_>) -> Value;

    /// Returns the content of one event of an answer.
    fn read(self, event: &Value) -> Reading;

    /// Returns what [`read`](Self::read) returns for the JSON object in these bytes, without building its tree. `None`
    /// if only the tree can tell: for an API without such a reader, for what is not a JSON object, and for an error.
    fn read_directly(self, data: &[u8]) -> Option<Reading>;
}

impl Adapter for Api {
    fn division(self, delivery: Delivery) -> Division {
        match (delivery, self) {
            (Delivery::Whole, _) | (_, Self::OpenaiEmbeddings | Self::Rerank) => Division::Whole,
            (Delivery::Streamed, Self::OllamaGenerate | Self::OllamaChat) => Division::Lines,
            (Delivery::Streamed, _) => Division::Events,
        }
    }

    fn body(self, generation: &Generation<'_>) -> Value {
        let mut body = match self {
            Self::OpenaiCompletions => openai::completions_body(generation),
            Self::OpenaiChat => openai::chat_body(generation),
            Self::LlamaCppCompletion => llama_cpp::body(generation),
            Self::TgiGenerate => tgi::body(generation),
            Self::SglangGenerate => sglang::body(generation),
            Self::OllamaGenerate => ollama::generate_body(generation),
            Self::OllamaChat => ollama::chat_body(generation),
            Self::OpenaiResponses => responses::body(generation),
            Self::AnthropicMessages => anthropic::body(generation),
            Self::OpenaiEmbeddings => vectors::embeddings_body(generation),
            Self::Rerank => vectors::rerank_body(generation),
        };
        for (key, value) in generation.extra {
            body.insert(key.clone(), value.clone());
        }
        Value::Object(body)
    }

    fn read(self, event: &Value) -> Reading {
        let mut reading = match self {
            Self::OpenaiCompletions | Self::OpenaiChat => openai::read(event),
            Self::LlamaCppCompletion => llama_cpp::read(event),
            Self::TgiGenerate => tgi::read(event),
            Self::SglangGenerate => sglang::read(event),
            Self::OllamaGenerate | Self::OllamaChat => ollama::read(event),
            Self::OpenaiResponses => responses::read(event),
            Self::AnthropicMessages => anthropic::read(event),
            Self::OpenaiEmbeddings => vectors::read_embeddings(event),
            Self::Rerank => vectors::read_rerank(event),
        };
        let error = reading.error.take();
        reading.error = error.or_else(|| error_beside(event, &reading));
        reading
    }

    fn read_directly(self, data: &[u8]) -> Option<Reading> {
        match self {
            Self::OpenaiCompletions | Self::OpenaiChat => direct::read(data),
            _ => None,
        }
    }
}

/// Returns what an event or a body says that is an error: its error, or else its `message` or `detail`.
pub fn words_of_error(event: &Value) -> Option<String> {
    let text = |name: &str| event[name].as_str().map(str::to_owned);
    error_in(event)
        .or_else(|| text("message"))
        .or_else(|| text("detail"))
}

/// Removes the `delta` beside the `message` of a whole answer of OpenAI's API. In a stream, the delta is what is new. In
/// a whole answer it is empty; Perplexity sends one nevertheless.
pub fn drop_delta(answer: &mut Value) {
    let choice = answer.pointer_mut("/choices/0");
    if let Some(choice) = choice.and_then(Value::as_object_mut)
        && choice.get("message").is_some_and(Value::is_object)
    {
        choice.remove("delta");
    }
}

/// Returns the text of an error object or string under `error`.
fn error_in(event: &Value) -> Option<String> {
    let error = event.get("error").filter(|e| !e.is_null())?;
    Some(text_or_json(&error["message"], error))
}

/// Returns a text; without one, the whole that it is missing from: itself if that is text, otherwise as JSON.
fn text_or_json(text: &Value, whole: &Value) -> String {
    let text = text.as_str().or_else(|| whole.as_str());
    text.map_or_else(|| whole.to_string(), str::to_owned)
}

/// Returns the error that an event reports in another form than its API's.
fn error_beside(event: &Value, reading: &Reading) -> Option<String> {
    let ended = reading.finish_reason.as_deref();
    // Old versions of vLLM.
    let is_error = event["object"].as_str() == Some("error");
    error_in(event)
        .or_else(|| is_error.then(|| text_or_json(&event["message"], event)))
        // Any API may have a field of such a name, so it counts only in an event that is nothing else.
        .or_else(|| bare_error(event).filter(|_| reading.is_empty()))
        .or_else(|| {
            let failed = ended.filter(|reason| matches!(*reason, "error" | "abort"))?;
            Some(format!("it ended with the finish reason `{failed}`"))
        })
}

/// Returns the error in an event that has no part of an answer: FastAPI has it under `detail`, FastChat beside an
/// `error_code`.
fn bare_error(event: &Value) -> Option<String> {
    if !event["choices"].is_null() || !event["type"].is_null() {
        return None;
    }
    let failed = match &event["error_code"] {
        Value::Number(code) => code.as_f64() != Some(0.0),
        Value::String(code) => !code.is_empty(),
        _ => false,
    };
    if failed {
        let words = ["text", "message", "error_msg"].map(|name| &event[name]);
        let words = words.into_iter().find(|words| words.is_string());
        return Some(text_or_json(words.unwrap_or(&Value::Null), event));
    }
    let detail = &event["detail"];
    (!detail.is_null()).then(|| text_or_json(detail, detail))
}

/// Returns which member of a part, among those with these names, is neither missing nor text.
fn not_text(part: &Value, names: &[&str]) -> Option<String> {
    let odd = |name: &&&str| !part[**name].is_null() && !part[**name].is_string();
    let name = names.iter().find(odd)?;
    Some(format!("`{name}` in the answer is not text"))
}

/// Returns the problem with a part that is neither missing nor an object.
fn not_object(name: &str, part: &Value) -> Option<String> {
    let odd = !part.is_null() && !part.is_object();
    odd.then(|| format!("`{name}` in the answer is not an object"))
}

/// Returns the problem with a part that is neither missing nor a list.
fn not_list(name: &str, part: &Value) -> Option<String> {
    let odd = !part.is_null() && !part.is_array();
    odd.then(|| format!("`{name}` in the answer is not a list"))
}

/// Returns whether a part belongs to the first answer of a request, and not to another choice or another prompt.
fn is_first(part: &Value) -> bool {
    part["index"].is_null() || part["index"].as_u64() == Some(0)
}

/// Returns the problem with a part that does not belong to the first answer.
fn not_first(part: &Value) -> Option<String> {
    let index = &part["index"];
    (!is_first(part)).then(|| {
        format!("the answer has a part with `index: {index}`, and one answer was requested")
    })
}

/// Inserts a value into an object, if present.
fn insert<T: Into<Value>>(body: &mut Map<String, Value>, key: &str, value: Option<T>) {
    if let Some(value) = value {
        body.insert(key.to_owned(), value.into());
    }
}

/// Returns why generation ended. Until it has ended, servers send null or, like TGI's completions API, an empty text.
fn reason(value: &Value) -> Option<&str> {
    value.as_str().filter(|reason| !reason.is_empty())
}

/// Returns text unless it is empty: an event without text is not a chunk.
fn new_text(text: Option<&str>) -> Option<Text> {
    text.filter(|t| !t.is_empty())
        .map(|t| Text::New(t.to_owned()))
}

/// Adds the name and the arguments of a function that the model calls. Most APIs send the arguments as text, Ollama as JSON.
fn add_call(function: &Value, text: &mut String) {
    text.push_str(function["name"].as_str().unwrap_or_default());
    match &function["arguments"] {
        Value::Null => {}
        Value::String(arguments) => text.push_str(arguments),
        arguments => text.push_str(&arguments.to_string()),
    }
}

/// Returns reasoning or other text unless it is empty.
fn new_reasoning(text: Option<&str>) -> Option<String> {
    text.filter(|t| !t.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests;
