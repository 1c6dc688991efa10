//! The reference server's answers in the format of each API.

use serde_json::{Value, json};

use super::Fault;

/// An API, recognized by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dialect {
    Completions,
    Chat,
    LlamaCpp,
    Tgi,
    Sglang,
    OllamaGenerate,
    OllamaChat,
    Responses,
    Messages,
    Embeddings,
    Rerank,
}

/// Returns the text of token `i`. Some tokens have characters of several bytes.
fn token(i: u32) -> &'static str {
    [" one", " zwölf", " 三", " 🦀", " five"][i as usize % 5]
}

fn text(from: u32, count: u32) -> String {
    (from..from + count).map(token).collect()
}

impl Dialect {
    pub(super) fn of(path: &str) -> Option<Self> {
        Some(match path {
            "/v1/completions" => Self::Completions,
            "/v1/chat/completions" => Self::Chat,
            "/completion" => Self::LlamaCpp,
            "/generate_stream" => Self::Tgi,
            "/generate" => Self::Sglang,
            "/api/generate" => Self::OllamaGenerate,
            "/api/chat" => Self::OllamaChat,
            "/v1/responses" => Self::Responses,
            "/v1/messages" => Self::Messages,
            "/v1/embeddings" => Self::Embeddings,
            "/v1/rerank" => Self::Rerank,
            _ => return None,
        })
    }

    fn lines(self) -> bool {
        matches!(self, Self::OllamaGenerate | Self::OllamaChat)
    }

    pub(super) fn stream_head(self) -> String {
        let media = if self.lines() {
            "application/x-ndjson"
        } else {
            "text/event-stream"
        };
        format!("HTTP/1.1 200 OK\r\nContent-Type: {media}\r\nTransfer-Encoding: chunked\r\n\r\n")
    }

    /// Returns the first event of chat APIs: a role, and no text.
    pub(super) fn first_event(self) -> Option<String> {
        let first = match self {
            Self::Chat => {
                json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": null}}]})
            }
            Self::Responses => {
                json!({"type": "response.created", "response": {"status": "in_progress"}})
            }
            Self::Messages => json!({"type": "message_start",
                "message": {"role": "assistant", "content": [], "usage": {"input_tokens": 5,
                "cache_read_input_tokens": 2, "output_tokens": 1}}}),
            _ => return None,
        };
        Some(event(&first, Fault::None))
    }

    pub(super) fn event(self, from: u32, count: u32, fault: Fault) -> String {
        let text = text(from, count);
        // The common cases are written by hand, because the ceiling is measured with this server.
        let value = match self {
            Self::Completions if fault != Fault::Decorated => {
                let extra = if fault == Fault::EmptyChunks {
                    "data: {\"object\":\"text_completion\",\"choices\":[{\"index\":0,\"text\":\"\"}]}\n\n"
                } else {
                    ""
                };
                let head = "{\"object\":\"text_completion\",\"choices\":[{\"index\":0,\"text\":\"";
                let reason = if fault == Fault::EmptyReasons {
                    ",\"finish_reason\":\"\""
                } else {
                    ""
                };
                return format!("{extra}data: {head}{text}\"{reason}}}]}}\n\n");
            }
            Self::Completions => {
                json!({"object": "text_completion", "choices": [{"index": 0, "text": text}]})
            }
            Self::Chat => json!({"object": "chat.completion.chunk",
                "choices": [{"index": 0, "delta": {"content": text}}]}),
            Self::LlamaCpp => json!({"content": text, "stop": false}),
            Self::Tgi => {
                json!({"index": from, "token": {"id": from, "text": text, "special": false},
                "generated_text": null, "details": null})
            }
            Self::Sglang => json!({"text": self::text(0, from + count),
                "meta_info": {"completion_tokens": from + count, "prompt_tokens": 7, "finish_reason": null}}),
            Self::OllamaGenerate => json!({"response": text, "done": false}),
            Self::OllamaChat => {
                json!({"message": {"role": "assistant", "content": text}, "done": false})
            }
            Self::Responses => json!({"type": "response.output_text.delta", "delta": text}),
            Self::Messages => json!({"type": "content_block_delta", "index": 0,
                "delta": {"type": "text_delta", "text": text}}),
            Self::Embeddings | Self::Rerank => Value::Null,
        };
        if self.lines() {
            format!("{value}\n")
        } else {
            event(&value, fault)
        }
    }

    /// Returns the events after the last token. The OpenAI APIs report the usage only on request.
    pub(super) fn last_events(self, tokens: u32, usage_asked: bool, fault: Fault) -> Vec<String> {
        if matches!(fault, Fault::NoEnd | Fault::EmptyReasons) {
            return Vec::new();
        }
        let claimed = match fault {
            Fault::Claims(count) => count,
            _ => i64::from(tokens),
        };
        let usage = json!({"prompt_tokens": 7, "completion_tokens": claimed});
        let values = match self {
            Self::Completions | Self::Chat => {
                let finish = if self == Self::Chat {
                    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
                } else {
                    json!({"choices": [{"index": 0, "text": "", "finish_reason": "length"}]})
                };
                let mut values = vec![finish];
                if usage_asked && fault != Fault::NoUsage {
                    values.push(json!({"choices": [], "usage": usage}));
                }
                values
            }
            Self::LlamaCpp => vec![json!({"content": "", "stop": true, "stop_type": "limit",
                "tokens_predicted": tokens, "tokens_evaluated": 7,
                "timings": {"prompt_n": 5, "cache_n": 2, "prompt_ms": 1.5, "predicted_n": tokens, "predicted_ms": 2.5}})],
            Self::Tgi => vec![
                json!({"index": tokens, "token": {"id": 2, "text": "", "special": true},
                "generated_text": text(0, tokens),
                "details": {"finish_reason": "length", "generated_tokens": tokens, "seed": null}}),
            ],
            Self::Sglang => vec![
                json!({"text": text(0, tokens), "meta_info": {"completion_tokens": tokens,
                "prompt_tokens": 7, "cached_tokens": 2, "finish_reason": {"type": "length", "length": tokens}}}),
            ],
            Self::OllamaGenerate | Self::OllamaChat => vec![json!({"response": "", "done": true,
                "done_reason": "length", "prompt_eval_count": 7, "eval_count": tokens,
                "prompt_eval_duration": 1_500_000, "eval_duration": 2_500_000})],
            Self::Responses => vec![
                json!({"type": "response.incomplete", "response": {"status": "incomplete",
                "incomplete_details": {"reason": "max_output_tokens"},
                "usage": {"input_tokens": 7, "output_tokens": claimed}}}),
            ],
            Self::Messages => vec![
                json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens"},
                    "usage": {"output_tokens": claimed}}),
                json!({"type": "message_stop"}),
            ],
            Self::Embeddings | Self::Rerank => Vec::new(),
        };
        let write = |value: &Value| {
            if self.lines() {
                format!("{value}\n")
            } else {
                event(value, fault)
            }
        };
        let mut events: Vec<String> = values.iter().map(write).collect();
        let marked = matches!(self, Self::Completions | Self::Chat | Self::Sglang);
        if marked && fault != Fault::NoDone {
            events.push("data: [DONE]\n\n".to_owned());
        }
        events
    }

    /// Returns the body of an answer that is not streamed. `results` is the number of its vectors or scores.
    pub(super) fn whole(self, tokens: u32, results: usize) -> Vec<u8> {
        let text = text(0, tokens);
        let usage = json!({"prompt_tokens": 7, "completion_tokens": tokens});
        let value = match self {
            Self::Completions => {
                json!({"choices": [{"index": 0, "text": text, "finish_reason": "length"}], "usage": usage})
            }
            Self::Chat => json!({"choices": [{"index": 0, "finish_reason": "length",
                "message": {"role": "assistant", "content": text}}], "usage": usage}),
            Self::LlamaCpp => json!({"content": text, "stop": true, "stop_type": "limit",
                "tokens_predicted": tokens, "tokens_evaluated": 7}),
            Self::Tgi => json!({"generated_text": text}),
            Self::Sglang => json!({"text": text, "generated_text": text,
                "details": {"finish_reason": "length", "generated_tokens": tokens},
                "meta_info": {"completion_tokens": tokens, "prompt_tokens": 7, "finish_reason": {"type": "length"}}}),
            Self::OllamaGenerate => {
                json!({"response": text, "done": true, "eval_count": tokens, "prompt_eval_count": 7})
            }
            Self::OllamaChat => {
                json!({"message": {"content": text}, "done": true, "eval_count": tokens,
                "prompt_eval_count": 7})
            }
            Self::Responses => {
                json!({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"},
                "output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}],
                "usage": {"input_tokens": 7, "output_tokens": tokens}})
            }
            Self::Messages => {
                json!({"type": "message", "role": "assistant", "stop_reason": "max_tokens",
                "content": [{"type": "text", "text": text}], "usage": {"input_tokens": 7, "output_tokens": tokens}})
            }
            Self::Embeddings => {
                let vector = |i| json!({"object": "embedding", "index": i, "embedding": [0.25, -0.5, 0.125]});
                json!({"object": "list", "usage": {"prompt_tokens": 7, "total_tokens": 7},
                "data": (0..results).map(vector).collect::<Vec<_>>()})
            }
            Self::Rerank => {
                let score = |i| json!({"index": i, "relevance_score": 0.25 / (1.0 + i as f64)});
                json!({"usage": {"total_tokens": 7},
                "results": (0..results).map(score).collect::<Vec<_>>()})
            }
        };
        value.to_string().into_bytes()
    }
}

fn event(value: &Value, fault: Fault) -> String {
    if fault == Fault::Decorated {
        // JSON allows line breaks between tokens, so data may be spread over lines.
        let spread = value.to_string().replacen(':', ":\r\ndata: ", 1);
        return format!(": ping\r\nid: 1\r\ndata: {spread}\r\n\r\n");
    }
    format!("data: {value}\n\n")
}

/// Returns an answer of known length.
pub(super) fn whole(code: u16, extra: &str, media: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!(
        "HTTP/1.1 {code} X\r\nContent-Type: {media}\r\n{extra}Content-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Returns an error answer.
pub(super) fn error(code: u16, extra: &str, message: &str) -> Vec<u8> {
    let body = json!({"error": {"message": message}}).to_string();
    whole(code, extra, "application/json", body.as_bytes())
}
