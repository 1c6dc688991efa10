//! Reads an event of the OpenAI completions and chat APIs from its bytes, without a tree of its JSON.
//!
//! A stream has one event for each token, so the reader decides how much processor time a token takes. Most of an event
//! repeats what earlier events said: ids, the model, timestamps. This reader checks these parts as strictly as the
//! tree's reader does, and stores none of them. It leaves everything unusual to the reader of the tree.

use std::fmt;

use artifacts::json::Distinct;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::openai::{first_given, other_text, step, timings};
use super::{Reading, Text, count};

/// Reads an event; `None` if it is not a JSON object, if it reports an error, or if an object that is used has a key twice:
/// then the tree decides.
pub(super) fn read(data: &[u8]) -> Option<Reading> {
    let mut event = Event::default();
    let mut deserializer = serde_json::Deserializer::from_slice(data);
    let form = Fields(&mut event).deserialize(&mut deserializer).ok()?;
    deserializer.end().ok()?;
    (form == Form::Object && !event.is_unusual()).then(|| event.reading())
}

/// The parts of an event that are used.
#[derive(Default)]
struct Event {
    choices: First,
    /// Null in most events.
    usage: Distinct,
    timings: Distinct,
    /// Groq's own fields, in the first and the last event.
    x_groq: Distinct,
    /// Whether it has a field that only errors have.
    has_error: bool,
}

/// The first choice.
#[derive(Default)]
struct Choice {
    text: MaybeText,
    delta: Maybe<Message>,
    message: Maybe<Message>,
    finish_reason: MaybeText,
    index: MaybeFirst,
    /// Null or missing in most events.
    usage: Distinct,
    has_error: bool,
}

/// A message, or the part of it that is new.
#[derive(Default)]
struct Message {
    content: MaybeText,
    reasoning_content: MaybeText,
    reasoning: MaybeText,
    thinking: MaybeText,
    has_role: bool,
    /// Null or missing in most events.
    refusal: Distinct,
    /// Null or missing in most events.
    tool_calls: Distinct,
}

impl Event {
    /// Whether only the tree can tell what the event means: if it reports an error, or has another form than the API says.
    fn is_unusual(&self) -> bool {
        let choice = &self.choices.first.value;
        let odd = |part: &Maybe<Message>| {
            let Message {
                content,
                reasoning_content,
                reasoning,
                thinking,
                ..
            } = &part.value;
            let thoughts = reasoning_content.odd || reasoning.odd || thinking.odd;
            part.odd || content.odd || thoughts
        };
        let choices = self.choices.odd
            || self.choices.first.odd
            || choice.text.odd
            || choice.index == MaybeFirst::Other;
        let failed = self.has_error
            || choice.has_error
            || !self.x_groq.0["error"].is_null()
            || matches!(
                choice.finish_reason.text.as_deref(),
                Some("error" | "abort")
            );
        failed || choices || odd(&choice.delta) || odd(&choice.message)
    }

    fn reading(self) -> Reading {
        let has_choice = self.choices.first.given;
        let choice = self.choices.first.value;
        let usage = first_given([&self.usage.0, &choice.usage.0, &self.x_groq.0["usage"]]);
        // Perplexity repeats the whole text so far as `message` beside each `delta`.
        let part = match choice.delta.given {
            true => choice.delta.value,
            false => choice.message.value,
        };
        let thoughts = [part.reasoning_content, part.reasoning, part.thinking];
        let mut thoughts = thoughts.into_iter().filter_map(|thought| thought.text);
        let thought = thoughts.find(|thought| !thought.is_empty());
        let text = joined([choice.text.text, part.content.text]);
        let finish_reason = choice.finish_reason.text.filter(|r| !r.is_empty());
        Reading {
            text: text.map(Text::New),
            reasoning: thought,
            other: other_text(&part.refusal.0, &part.tool_calls.0),
            step: step(has_choice, part.has_role),
            reasoning_tokens: count(&usage["completion_tokens_details"]["reasoning_tokens"]),
            output_tokens: count(&usage["completion_tokens"]),
            prompt_tokens: count(&usage["prompt_tokens"]),
            cached_prompt_tokens: count(&usage["prompt_tokens_details"]["cached_tokens"]),
            server: timings(&self.timings.0),
            last: finish_reason.is_some(),
            finish_reason,
            ..Reading::default()
        }
    }
}

/// Joins texts; `None` if there is none or all are empty.
fn joined(parts: impl IntoIterator<Item = Option<String>>) -> Option<String> {
    let whole = parts
        .into_iter()
        .flatten()
        .reduce(|whole, part| match whole.is_empty() {
            true => part,
            false => whole + &part,
        });
    whole.filter(|whole| !whole.is_empty())
}

/// The names of used fields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    Choices,
    Usage,
    Timings,
    XGroq,
    Object,
    Error,
    ErrorCode,
    Detail,
    Text,
    Delta,
    Message,
    FinishReason,
    Index,
    Content,
    ReasoningContent,
    Reasoning,
    Thinking,
    Role,
    Refusal,
    ToolCalls,
    Other,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;
        impl Visitor<'_> for Name {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Key, E> {
                Ok(match name {
                    "choices" => Key::Choices,
                    "usage" => Key::Usage,
                    "timings" => Key::Timings,
                    "x_groq" => Key::XGroq,
                    "object" => Key::Object,
                    "error" => Key::Error,
                    "error_code" => Key::ErrorCode,
                    "detail" => Key::Detail,
                    "text" => Key::Text,
                    "delta" => Key::Delta,
                    "message" => Key::Message,
                    "finish_reason" => Key::FinishReason,
                    "index" => Key::Index,
                    "content" => Key::Content,
                    "reasoning_content" => Key::ReasoningContent,
                    "reasoning" => Key::Reasoning,
                    "thinking" => Key::Thinking,
                    "role" => Key::Role,
                    "refusal" => Key::Refusal,
                    "tool_calls" => Key::ToolCalls,
                    _ => Key::Other,
                })
            }
        }
        deserializer.deserialize_str(Name)
    }
}

/// A document; only some of its fields are used.
trait Object: Default {
    /// Reads the value of a field.
    ///
    /// # Errors
    /// If the JSON is broken.
    fn field<'de, A: MapAccess<'de>>(&mut self, key: Key, map: &mut A) -> Result<(), A::Error>;
}

impl Object for Event {
    fn field<'de, A: MapAccess<'de>>(&mut self, key: Key, map: &mut A) -> Result<(), A::Error> {
        match key {
            Key::Choices => self.choices = map.next_value()?,
            Key::Usage => self.usage = map.next_value()?,
            Key::Timings => self.timings = map.next_value()?,
            Key::XGroq => self.x_groq = map.next_value()?,
            Key::Object => self.has_error |= map.next_value::<Named>()? == Named::Error,
            Key::Error | Key::ErrorCode | Key::Detail => {
                self.has_error |= map.next_value::<Given>()?.0;
            }
            _ => {
                map.next_value::<Skipped>()?;
            }
        }
        Ok(())
    }
}

impl Object for Choice {
    fn field<'de, A: MapAccess<'de>>(&mut self, key: Key, map: &mut A) -> Result<(), A::Error> {
        match key {
            Key::Text => self.text = map.next_value()?,
            Key::Delta => self.delta = map.next_value()?,
            Key::Message => self.message = map.next_value()?,
            Key::FinishReason => self.finish_reason = map.next_value()?,
            Key::Index => self.index = map.next_value()?,
            Key::Usage => self.usage = map.next_value()?,
            Key::Error => self.has_error = map.next_value::<Given>()?.0,
            _ => {
                map.next_value::<Skipped>()?;
            }
        }
        Ok(())
    }
}

impl Object for Message {
    fn field<'de, A: MapAccess<'de>>(&mut self, key: Key, map: &mut A) -> Result<(), A::Error> {
        match key {
            Key::Content => self.content = map.next_value()?,
            Key::ReasoningContent => self.reasoning_content = map.next_value()?,
            Key::Reasoning => self.reasoning = map.next_value()?,
            Key::Thinking => self.thinking = map.next_value()?,
            Key::Role => self.has_role = map.next_value::<Given>()?.0,
            Key::Refusal => self.refusal = map.next_value()?,
            Key::ToolCalls => self.tool_calls = map.next_value()?,
            _ => {
                map.next_value::<Skipped>()?;
            }
        }
        Ok(())
    }
}

/// Implements the methods of a visitor for values that are not used: of single values, and of lists (`visit_seq`) and mappings
/// (`visit_map`).
macro_rules! unused {
    ($value:expr, $null:expr; $($method:ident($type:ty)),*; $($nested:ident)*) => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("JSON")
        }

        $(fn $method<E: Error>(self, _: $type) -> Result<Self::Value, E> {
            Ok($value)
        })*

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok($null)
        }

        $(unused!(@$nested $value);)*
    };
    (@visit_seq $value:expr) => {
        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
            skip_items(list).map(|()| $value)
        }
    };
    (@visit_map $value:expr) => {
        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            skip_entries(map).map(|()| $value)
        }
    };
}

/// Reads all items of a list that is not used.
fn skip_items<'de, A: SeqAccess<'de>>(mut list: A) -> Result<(), A::Error> {
    while list.next_element::<Skipped>()?.is_some() {}
    Ok(())
}

/// Reads all entries of a mapping that is not used.
fn skip_entries<'de, A: MapAccess<'de>>(mut map: A) -> Result<(), A::Error> {
    while map.next_key::<Skipped>()?.is_some() {
        map.next_value::<Skipped>()?;
    }
    Ok(())
}

/// The form of a value that should be an object. An object that has a used key twice is another form.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Object,
    Null,
    Other,
}

/// Reads the fields of an object in place; returns the form of the value.
struct Fields<'a, T>(&'a mut T);

impl<'de, T: Object> DeserializeSeed<'de> for Fields<'_, T> {
    type Value = Form;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Form, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Object> Visitor<'de> for Fields<'_, T> {
    type Value = Form;

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Form, A::Error> {
        let (mut seen, mut repeated) = (0_u32, false);
        while let Some(key) = map.next_key::<Key>()? {
            self.0.field(key, &mut map)?;
            let bit = 1_u32 << key as u32;
            repeated |= key != Key::Other && seen & bit != 0;
            seen |= bit;
        }
        Ok(match repeated {
            true => Form::Other,
            false => Form::Object,
        })
    }

    unused!(Form::Other, Form::Null; visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64), visit_str(&str); visit_seq);
}

/// An object whose used fields are read; anything else is an object without fields.
#[derive(Default)]
struct Maybe<T> {
    value: T,
    /// Whether it is an object.
    given: bool,
    /// Whether it is neither an object nor null, or has a used key twice.
    odd: bool,
}

impl<'de, T: Object> Deserialize<'de> for Maybe<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = T::default();
        let form = Fields(&mut value).deserialize(deserializer)?;
        Ok(Self {
            value,
            given: form == Form::Object,
            odd: form == Form::Other,
        })
    }
}

/// The only item of a list.
#[derive(Default)]
struct First {
    first: Maybe<Choice>,
    /// Whether it is neither a list of at most one item nor null.
    odd: bool,
}

impl First {
    fn odd() -> Self {
        Self {
            odd: true,
            ..Self::default()
        }
    }
}

impl<'de> Deserialize<'de> for First {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items;
        impl<'de> Visitor<'de> for Items {
            type Value = First;

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<First, A::Error> {
                let first = list.next_element()?;
                let more = first.is_some() && list.next_element::<Skipped>()?.is_some();
                if more {
                    skip_items(list)?;
                }
                Ok(First {
                    first: first.unwrap_or_default(),
                    odd: more,
                })
            }

            unused!(First::odd(), First::default(); visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64), visit_str(&str); visit_map);
        }
        deserializer.deserialize_any(Items)
    }
}

/// A text; none for anything else.
#[derive(Default)]
struct MaybeText {
    text: Option<String>,
    /// Whether it is neither text nor null.
    odd: bool,
}

impl MaybeText {
    fn odd() -> Self {
        Self {
            text: None,
            odd: true,
        }
    }
}

impl<'de> Deserialize<'de> for MaybeText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = MaybeText;

            fn visit_str<E: Error>(self, text: &str) -> Result<MaybeText, E> {
                self.visit_string(text.to_owned())
            }

            fn visit_string<E: Error>(self, text: String) -> Result<MaybeText, E> {
                Ok(MaybeText {
                    text: Some(text),
                    odd: false,
                })
            }

            unused!(MaybeText::odd(), MaybeText::default(); visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64); visit_seq visit_map);
        }
        deserializer.deserialize_any(Any)
    }
}

/// The index of a choice: whether it is the first one.
#[derive(Default, PartialEq, Eq)]
enum MaybeFirst {
    /// It is 0, null or missing.
    #[default]
    First,
    Other,
}

impl<'de> Deserialize<'de> for MaybeFirst {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = MaybeFirst;

            fn visit_u64<E: Error>(self, index: u64) -> Result<MaybeFirst, E> {
                Ok(match index {
                    0 => MaybeFirst::First,
                    _ => MaybeFirst::Other,
                })
            }

            unused!(MaybeFirst::Other, MaybeFirst::First; visit_bool(bool), visit_i64(i64), visit_f64(f64), visit_str(&str); visit_seq visit_map);
        }
        deserializer.deserialize_any(Any)
    }
}

/// A value of which only matters whether it is given: whether it is not null.
struct Given(bool);

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Given;

            unused!(Given(true), Given(false); visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64), visit_str(&str); visit_seq visit_map);
        }
        deserializer.deserialize_any(Any)
    }
}

/// What an object says that it is: whether it is an error.
#[derive(PartialEq, Eq)]
enum Named {
    Error,
    Other,
}

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Named;

            fn visit_str<E: Error>(self, name: &str) -> Result<Named, E> {
                Ok(match name {
                    "error" => Named::Error,
                    _ => Named::Other,
                })
            }

            unused!(Named::Other, Named::Other; visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64); visit_seq visit_map);
        }
        deserializer.deserialize_any(Any)
    }
}

/// A value that is not used. Unlike `serde::de::IgnoredAny`, it refuses what the reader of the tree refuses: half of a
/// surrogate pair, numbers that are too large, values that are nested too deeply.
struct Skipped;

impl<'de> Deserialize<'de> for Skipped {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Skipped;

            unused!(Skipped, Skipped; visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64), visit_str(&str); visit_seq visit_map);
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Adapter as _;
    use contract::Api;
    use proptest::prelude::*;
    use serde_json::Value;

    /// Returns what the reader of the tree reads; `None` if it reads nothing.
    fn by_tree(data: &[u8]) -> Option<Reading> {
        let event: Value = serde_json::from_slice(data).ok()?;
        event.is_object().then(|| Api::OpenaiChat.read(&event))
    }

    /// Whether a text of an event is a list of parts.
    fn has_parts(data: &[u8]) -> bool {
        let event: Value = serde_json::from_slice(data).unwrap();
        let texts = ["content", "reasoning_content", "reasoning", "thinking"];
        let parts = ["delta", "message"].map(|part| &event["choices"][0][part]);
        let mut lists = parts
            .into_iter()
            .flat_map(|part| texts.map(|text| &part[text]));
        lists.any(Value::is_array)
    }

    fn same(data: &[u8]) -> Result<bool, TestCaseError> {
        let (direct, tree) = (read(data), by_tree(data));
        let shown = String::from_utf8_lossy(data);
        if let Some(direct) = &direct {
            prop_assert_eq!(Some(direct), tree.as_ref(), "{}", shown);
        } else if let Some(tree) = &tree {
            // The only events that the tree alone can read have a wrong form, a key twice, a list of texts, or a word for
            // an error, which may be written with escapes.
            let repeats = serde_json::from_slice::<Distinct>(data).is_err();
            let words = ["error", "detail", "abort", "\\u"];
            let escapes = words.iter().any(|word| shown.contains(word));
            prop_assert!(
                tree.wrong.is_some() || repeats || escapes || has_parts(data),
                "{tree:?} of {shown}"
            );
        }
        Ok(direct.is_some())
    }

    #[test]
    fn events_of_real_servers_are_read_without_a_tree() {
        for event in [
            r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1750000000,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}"#,
            r#"{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":" caf\u00e9 \ud83e\udd80"},"finish_reason":null}],"usage":null}"#,
            r#"{"choices":[{"index":0,"delta":{"reasoning_content":"hm","content":null},"finish_reason":null}]}"#,
            r#"{"choices":[{"index":0,"delta":{"reasoning_content":null,"reasoning":"hm"}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#,
            r#"{"choices":[{"delta":{"role":null,"refusal":"I can","tool_calls":[null,{"function":{"name":"f"}}]}}]}"#,
            r#"{"choices":[{"delta":{"refusal":7,"tool_calls":{"function":{"name":"f"}}}}]}"#,
            r#"{"choices":[{"text":" a","finish_reason":"length"}],"timings":{"prompt_n":3,"prompt_ms":1.5,"predicted_n":2,"predicted_ms":2.5,"cache_n":1}}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1},"completion_tokens_details":{"reasoning_tokens":1}}}"#,
            r#"{"choices":[{"message":{"content":"whole"},"delta":{"content":"new"},"finish_reason":""}]}"#,
            r#"{"id":"a","id":"b","choices":[{"text":"c","logprobs":{"d":1,"d":2}}]}"#,
            r#"{"choices":[{"delta":null,"message":null,"finish_reason":5}],"usage":[1]}"#,
            r#"{"choices":[{"text":"a","index":0}],"usage":"none","timings":7}"#,
            r#"{"choices":[{"text":"a","index":null}]}"#,
            r#"{"object":"text_completion","error":null,"choices":[{"text":"a","error":null}]}"#,
            r#"{"object":null,"detail":null,"error_code":null,"choices":[{"text":"a"}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"stop","usage":{"completion_tokens":2}}],"usage":null}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"q","usage":{"completion_tokens":2}}}"#,
            r#"{"x_groq":"q","choices":[{"text":"a","usage":7}]}"#,
            r#"{"choices":[{"delta":{"reasoning_content":"","reasoning":"","thinking":"hm"}}]}"#,
            r#"{"choices":[{"delta":null,"message":{"content":"whole","reasoning":"hm"}}]}"#,
            r#"{"choices":[{"delta":{},"message":{"content":"whole","reasoning":"hm"}}]}"#,
            "{}",
        ] {
            assert!(same(event.as_bytes()).unwrap(), "{event}");
        }
        for event in [
            r#"{"error":{"message":"no"},"choices":[]}"#,
            r#"{"error":null,"error":{"message":"no"},"choices":[]}"#,
            r#"{"object":"error","message":"no","code":500}"#,
            r#"{"text":"no","error_code":50004}"#,
            r#"{"detail":"no"}"#,
            r#"{"choices":[{"delta":{},"error":{"message":"no"}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"abort"}]}"#,
            r#"{"choices":[],"x_groq":{"error":"no"}}"#,
            r#"{"choices":[],"x_groq":{"usage":null,"usage":{"completion_tokens":2}}}"#,
            r#"{"choices":[{"usage":null,"usage":{"completion_tokens":2}}]}"#,
            r#"{"choices":[{"delta":{"content":[{"type":"text","text":"a"}]}}]}"#,
            r#"{"choices":{"0":{"text":"a"}},"usage":[1]}"#,
            r#"{"choices":[["text"],{"text":"a"}]}"#,
            r#"{"choices":[{"text":"a"},["text"]]}"#,
            r#"{"choices":[{"index":0,"text":"a"},{"index":1,"text":"b"}]}"#,
            r#"{"choices":[{"index":1,"text":"b"}]}"#,
            r#"{"choices":[{"index":-0,"text":"b"}]}"#,
            r#"{"choices":[{"index":"0","text":"b"}]}"#,
            r#"{"choices":[{"delta":{"content":["text"]}}]}"#,
            r#"{"choices":[{"delta":{"content":"a"}}],"choices":[{"delta":{"content":"b"}}]}"#,
            r#"{"choices":[{"delta":{"content":"b","content":"c"}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[],"tool_calls":[{"function":{"name":"f"}}]}}]}"#,
            r#"{"choices":[{"delta":{"content":"b"},"delta":{"reasoning":"d"}}]}"#,
            r#"{"choices":[{"text":"a","index":1,"index":0}]}"#,
            r#"{"choices":[{"text":"a","t\u0065xt":"a"}]}"#,
            r#"{"choices":[{"finish_reason":null,"finish_reason":"stop"}]}"#,
            r#"{"choices":[],"usage":null,"usage":{"completion_tokens":2}}"#,
            r#"{"choices":[],"usage":{"completion_tokens":2,"completion_tokens":3}}"#,
            r#"{"choices":[],"usage":{"prompt_tokens_details":{"cached_tokens":2,"cached_tokens":3}}}"#,
            r#"{"choices":[],"timings":{"prompt_n":2,"prompt_n":3}}"#,
            r#"{"choices":[{"text":"a"}]} x"#,
            r#"{"id":"\ud800","choices":[{"text":"a"}]}"#,
            r#"{"id":1e999,"choices":[{"text":"a"}]}"#,
            r#"{"choices":[{"text":"a"}"#,
            "[]",
            "[DONE]",
            "",
        ] {
            assert!(!same(event.as_bytes()).unwrap(), "{event}");
        }
        let deep = format!("{{\"id\":{}1{}}}", "[".repeat(200), "]".repeat(200));
        assert!(read(deep.as_bytes()).is_none() && by_tree(deep.as_bytes()).is_none());
    }

    /// Values with the names of used fields in every place.
    fn value() -> impl Strategy<Value = String> {
        let word = prop_oneof![
            Just("choices"),
            Just("usage"),
            Just("timings"),
            Just("error"),
            Just("error_code"),
            Just("detail"),
            Just("object"),
            Just("x_groq"),
            Just("text"),
            Just("delta"),
            Just("message"),
            Just("finish_reason"),
            Just("index"),
            Just("content"),
            Just("reasoning_content"),
            Just("reasoning"),
            Just("thinking"),
            Just("role"),
            Just("refusal"),
            Just("tool_calls"),
            Just("function"),
            Just("arguments"),
            Just("completion_tokens"),
            Just("prompt_n"),
            Just("id"),
            Just("cont\\u0065nt"),
        ];
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just("true".to_owned()),
            Just("0".to_owned()),
            Just("-0".to_owned()),
            Just("1e400".to_owned()),
            Just("18446744073709551616".to_owned()),
            Just(r#""\ud800""#.to_owned()),
            Just(r#""\ud83e\udd80 \n\"""#.to_owned()),
            any::<i64>().prop_map(|n| n.to_string()),
            any::<f64>().prop_map(|n| n.to_string()),
            Just(r#""error""#.to_owned()),
            ".{0,6}".prop_map(|text| Value::from(text).to_string()),
        ];
        leaf.prop_recursive(5, 40, 5, move |inner| {
            let list = prop::collection::vec(inner.clone(), 0..3);
            let map = prop::collection::vec((word.clone(), inner), 0..5);
            prop_oneof![
                list.prop_map(|items| format!("[{}]", items.join(","))),
                map.prop_map(|entries| {
                    let entries = entries
                        .iter()
                        .map(|(key, value)| format!("\"{key}\": {value}"));
                    format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
                }),
            ]
        })
    }

    proptest! {
        /// `PROPTEST_CASES=200000 cargo test -p apis any_event` tries more.
        #[test]
        fn any_event_is_read_as_by_the_tree(
            choice in value(), more in value(), usage in value(), key in "[a-z_]{0,8}",
        ) {
            let event = format!(
                r#"{{"{key}": {more}, "choices": [{choice}, {more}], "usage": {usage}, "timings": {choice}}}"#
            );
            same(event.as_bytes())?;
            same(event.replacen(&format!(", {more}], \"usage\""), "], \"usage\"", 1).as_bytes())?;
            let event = format!(
                r#"{{"choices": [{{"delta": {choice}, "text": {usage}, "finish_reason": {more}}}]}}"#
            );
            same(event.as_bytes())?;
        }

        #[test]
        fn any_bytes_are_read_as_by_the_tree(
            event in value(),
            edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            let mut bytes = format!("{{\"choices\": [{{\"delta\": {event}}}]}}").into_bytes();
            for (place, byte) in edits {
                let at = place.index(bytes.len());
                bytes[at] = byte;
            }
            same(&bytes)?;
        }
    }
}
