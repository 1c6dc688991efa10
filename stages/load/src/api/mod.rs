//! The APIs a request can be sent through, one small adapter each.
//!
//! An adapter knows the path, the body, how the answer is divided into events, and what one
//! event tells. A new API is one file here and one line in `contract::Api`.

mod llama_cpp;
mod ollama;
mod openai;
mod sglang;
mod tgi;

pub(crate) use contract::Api;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::prompts::Prompt;
use crate::sse::Division;
use crate::workload::{OutputMode, Sampling, Workload};

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

/// What one request asks for, before an adapter puts it into a body.
pub(crate) struct Ask<'a> {
    pub(crate) model: &'a str,
    pub(crate) prompt: &'a Prompt,
    pub(crate) system: Option<&'a str>,
    /// The turns before this one, oldest first.
    pub(crate) history: &'a [Exchange],
    /// The JSON Schema the answer must keep.
    pub(crate) schema: Option<&'a Value>,
    pub(crate) sampling: &'a Sampling,
    pub(crate) delivery: Delivery,
}

impl Ask<'_> {
    fn streamed(&self) -> bool {
        self.delivery == Delivery::Streamed
    }

    fn exact(&self) -> bool {
        self.prompt.output_mode == OutputMode::Exact
    }

    /// The prompt as one text: the system message, the turns so far, the prompt. A turn's text
    /// begins with all of the text before it, so that a cache of prefixes can serve it.
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
        text.push_str(&self.prompt.text);
        text
    }

    /// The prompt as chat messages, the turns so far before it.
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
        messages.push(message("user", &self.prompt.text));
        Value::Array(messages)
    }
}

/// A turn that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exchange {
    /// What the user said.
    pub(crate) said: String,
    /// What the model answered, its reasoning left out.
    pub(crate) answered: String,
}

/// Text an event brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    /// Only what is new.
    New(String),
    /// Everything so far.
    SoFar(String),
}

/// What one event tells; absent is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Told {
    /// Text of the answer.
    pub(crate) text: Option<Text>,
    /// New text of the reasoning before the answer, where the API keeps the two apart.
    pub(crate) reasoning: Option<String>,
    /// Tokens of the reasoning, as the usage of this event says.
    pub(crate) reasoning_tokens: Option<i64>,
    /// Tokens in this event, where the API sends one event a token.
    pub(crate) tokens: Option<i64>,
    /// Output tokens so far or in all, as the usage of this event says.
    pub(crate) output_tokens: Option<i64>,
    /// Prompt tokens, as the usage of this event says.
    pub(crate) prompt_tokens: Option<i64>,
    /// Prompt tokens taken from a cache.
    pub(crate) cached_prompt_tokens: Option<i64>,
    /// Why generation ended.
    pub(crate) finish_reason: Option<String>,
    /// The server's own account of the request.
    pub(crate) server: Server,
    /// The error the server reports inside the answer.
    pub(crate) error: Option<String>,
    /// Whether the answer is complete with this event.
    pub(crate) last: bool,
}

/// A server's own account of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Server {
    pub(crate) prompt_ms: Option<f64>,
    pub(crate) predicted_ms: Option<f64>,
    pub(crate) prompt_tokens: Option<i64>,
    pub(crate) output_tokens: Option<i64>,
    pub(crate) cached_prompt_tokens: Option<i64>,
}

impl Server {
    /// Takes over what a later event tells.
    pub(crate) fn update(&mut self, later: Self) {
        self.prompt_ms = later.prompt_ms.or(self.prompt_ms);
        self.predicted_ms = later.predicted_ms.or(self.predicted_ms);
        self.prompt_tokens = later.prompt_tokens.or(self.prompt_tokens);
        self.output_tokens = later.output_tokens.or(self.output_tokens);
        self.cached_prompt_tokens = later.cached_prompt_tokens.or(self.cached_prompt_tokens);
    }
}

/// How the load generator speaks an API.
pub(crate) trait Adapter {
    /// Returns how an answer is divided into events.
    fn division(self, delivery: Delivery) -> Division;

    /// Returns the body of a request: ours, with the workload's extra fields on top.
    fn body(
        self,
        model: &str,
        workload: &Workload,
        prompt: &Prompt,
        history: &[Exchange],
        delivery: Delivery,
    ) -> Value;

    /// Returns what one event of an answer tells.
    fn read(self, event: &Value) -> Told;
}

impl Adapter for Api {
    fn division(self, delivery: Delivery) -> Division {
        match (delivery, self) {
            (Delivery::Whole, _) => Division::Whole,
            (Delivery::Streamed, Self::OllamaGenerate | Self::OllamaChat) => Division::Lines,
            (Delivery::Streamed, _) => Division::Events,
        }
    }

    fn body(
        self,
        model: &str,
        workload: &Workload,
        prompt: &Prompt,
        history: &[Exchange],
        delivery: Delivery,
    ) -> Value {
        let system = workload.system.as_deref();
        let schema = workload.structured.as_ref().and_then(|s| s.schema.as_ref());
        let ask = Ask {
            model,
            prompt,
            system,
            history,
            schema,
            sampling: &workload.sampling,
            delivery,
        };
        let mut body = match self {
            Self::OpenaiCompletions => openai::completions_body(&ask),
            Self::OpenaiChat => openai::chat_body(&ask),
            Self::LlamaCppCompletion => llama_cpp::body(&ask),
            Self::TgiGenerate => tgi::body(&ask),
            Self::SglangGenerate => sglang::body(&ask),
            Self::OllamaGenerate => ollama::generate_body(&ask),
            Self::OllamaChat => ollama::chat_body(&ask),
        };
        for (key, value) in &workload.extra {
            body.insert(key.clone(), value.clone());
        }
        Value::Object(body)
    }

    fn read(self, event: &Value) -> Told {
        let mut told = match self {
            Self::OpenaiCompletions | Self::OpenaiChat => openai::read(event),
            Self::LlamaCppCompletion => llama_cpp::read(event),
            Self::TgiGenerate => tgi::read(event),
            Self::SglangGenerate => sglang::read(event),
            Self::OllamaGenerate | Self::OllamaChat => ollama::read(event),
        };
        told.error = told.error.or_else(|| error_in(event));
        told
    }
}

/// Returns the text of an error object or string under `error`.
pub(crate) fn error_in(event: &Value) -> Option<String> {
    let error = event.get("error").filter(|e| !e.is_null())?;
    let text = error
        .as_str()
        .or_else(|| error.get("message").and_then(Value::as_str));
    Some(text.map_or_else(|| error.to_string(), str::to_owned))
}

/// Puts what is there into an object.
fn insert<T: Into<Value>>(body: &mut Map<String, Value>, key: &str, value: Option<T>) {
    if let Some(value) = value {
        body.insert(key.to_owned(), value.into());
    }
}

/// Returns text unless it is empty: an event without text is no chunk.
fn new_text(text: Option<&str>) -> Option<Text> {
    text.filter(|t| !t.is_empty())
        .map(|t| Text::New(t.to_owned()))
}

/// Returns reasoning unless it is empty.
fn new_reasoning(text: Option<&str>) -> Option<String> {
    text.filter(|t| !t.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests;
