//! HTML as tags and texts with their places. `html5gum` reads one attribute within another, so a tag with very many
//! attributes would exhaust the stack; such a tag is cut short.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;

use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Reader, Span, Tokenizer};

/// A part of an HTML document. Offsets are those of its source.
pub(super) enum Part {
    /// Name, attributes, and the offsets of its ends.
    Start(String, BTreeMap<String, String>, Span<usize>),
    /// The name of an end tag.
    End(String),
    /// Characters with entities resolved, and the offsets of their source.
    Text(String, Span<usize>),
}

/// The attributes that the audit uses.
const USED: &[&[u8]] = &[b"id", b"name", b"href", b"colspan", b"rowspan"];

/// The maximum number of attributes of a tag.
const MOST_ATTRIBUTES: usize = 100;

/// The rest of the text. It fails when a tag has too many attributes.
struct Rest<'a> {
    text: &'a [u8],
    at: &'a Cell<usize>,
    attributes: &'a Cell<usize>,
}

impl Rest<'_> {
    fn take(&mut self, length: usize) -> Result<&[u8], io::Error> {
        if self.attributes.get() > MOST_ATTRIBUTES {
            return Err(io::Error::other("too many attributes"));
        }
        let from = self.at.get();
        self.at.set(from + length);
        Ok(&self.text[from..from + length])
    }
}

impl Reader for Rest<'_> {
    type Error = io::Error;

    fn read_byte(&mut self) -> Result<Option<u8>, io::Error> {
        if self.at.get() == self.text.len() {
            return Ok(None);
        }
        self.take(1).map(|byte| byte.first().copied())
    }

    fn try_read_string(&mut self, text: &[u8], case_sensitive: bool) -> Result<bool, io::Error> {
        let next = self.text[self.at.get()..].get(..text.len());
        let matches_text = next
            .is_some_and(|next| next == text || !case_sensitive && next.eq_ignore_ascii_case(text));
        if matches_text {
            self.take(text.len())?;
        }
        Ok(matches_text)
    }

    fn read_until<'b>(
        &'b mut self,
        needle: &[u8],
        _: &'b mut [u8; 4],
    ) -> Result<Option<&'b [u8]>, io::Error> {
        let rest = &self.text[self.at.get()..];
        if rest.is_empty() {
            return Ok(None);
        }
        let end = rest.iter().position(|byte| needle.contains(byte));
        let length = end.unwrap_or(rest.len()).max(1);
        self.take(length).map(Some)
    }
}

/// Calls a function with every part of a text, in order.
pub(super) fn parts(text: &str, mut each: impl FnMut(Part)) {
    let mut base = 0;
    while base < text.len() {
        let (at, attributes) = (Cell::new(0), Cell::new(0));
        let rest = Rest {
            text: &text.as_bytes()[base..],
            at: &at,
            attributes: &attributes,
        };
        let mut tag = (String::new(), 0, BTreeMap::new(), String::new());
        let within = |start, end| Span {
            start: base + start,
            end: base + end,
        };
        let spoken = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, span: Span<usize>| {
            let (name, start, values, key) = &mut tag;
            match event {
                CallbackEvent::OpenStartTag { name: own } => {
                    *name = spoken(own);
                    *start = span.start;
                }
                CallbackEvent::AttributeName { name: own } => {
                    attributes.set(attributes.get() + 1);
                    key.clear();
                    if USED.contains(&own) {
                        *key = spoken(own);
                    }
                }
                CallbackEvent::AttributeValue { value } if !key.is_empty() => {
                    values.entry(key.clone()).or_insert_with(|| spoken(value));
                }
                CallbackEvent::CloseStartTag { .. } => {
                    attributes.set(0);
                    let (name, values) = (std::mem::take(name), std::mem::take(values));
                    return Some(Part::Start(name, values, within(*start, span.end)));
                }
                CallbackEvent::EndTag { name } => {
                    attributes.set(0);
                    return Some(Part::End(spoken(name)));
                }
                CallbackEvent::String { value } => {
                    return Some(Part::Text(spoken(value), within(span.start, span.end)));
                }
                _ => {}
            }
            None
        });
        emitter.naively_switch_states(true);
        let mut parts = Tokenizer::new_with_emitter(rest, emitter);
        if parts.all(|part| part.map(&mut each).is_ok()) {
            return;
        }
        let from = base + at.get();
        base = text.as_bytes()[from..]
            .iter()
            .position(|byte| *byte == b'>')
            .map_or(text.len(), |end| from + end + 1);
    }
}
