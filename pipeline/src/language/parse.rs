//! Parses YAML text into the spanned tree. No other module uses the YAML parser.
//!
//! Accepts one document of the YAML 1.2 core schema without tags and merge keys. Aliases work, but their expansion, the
//! depth and the size of the text are limited.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span as Range, Tag};

use super::diagnostics::{Mistake, Span};
use super::not_yaml;
use super::torn::TornList;
use super::tree::{Decimal, Key, Node, Value};

/// The maximum length of a text, in bytes.
pub(crate) const MAX_BYTES: usize = 4 << 20;
/// The maximum nesting depth.
const MAX_DEPTH: usize = 64;
/// The maximum number of values in a tree with aliases expanded.
const MAX_NODES: usize = 500_000;
/// The maximum total bytes of text that aliases stand for: a few aliases may repeat one long text.
const MAX_ALIASED: usize = 64 << 20;

/// Reads a text as one YAML document.
pub(crate) fn parse(text: &str, source: u32) -> Result<Node, Vec<Mistake>> {
    if text.len() > MAX_BYTES {
        let whole = Span {
            source,
            ..Span::default()
        };
        let message = format!(
            "the file has {} bytes; the limit is {MAX_BYTES}",
            text.len()
        );
        return Err(vec![
            Mistake::new(whole, &[], message).hint("split the experiment"),
        ]);
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let builder = Builder {
        parser: Parser::new_from_str(text),
        text,
        source,
        end: text.trim_end().chars().count(),
        searched: (0, 0),
        open: Vec::new(),
        anchors: HashMap::new(),
        nodes: 0,
        aliased: 0,
        mistakes: Vec::new(),
    };
    builder.document()
}

/// Reads a text of the language as JSON, unchecked.
///
/// # Errors
/// Every place where the text is not valid YAML in the language's subset.
pub fn json_of(
    text: &str,
    file: &std::path::Path,
) -> Result<crate::stage::Json, super::Diagnostics> {
    let sink = super::diagnostics::Sink::default();
    let source = sink.add_source(file, text);
    parse(text, source)
        .map(|node| node.json())
        .map_err(|mistakes| {
            mistakes.into_iter().for_each(|mistake| sink.add(mistake));
            sink.finish()
        })
}

/// Reads one scalar as in a file: `8` is an integer; the quotes in `"8"` are kept.
pub(crate) fn plain_scalar(text: &str) -> Value {
    resolve(text).unwrap_or_else(|_| Value::Text(text.to_owned()))
}

struct Builder<'t> {
    parser: Parser<'t, saphyr_parser::StrInput<'t>>,
    text: &'t str,
    source: u32,
    /// The end of the text's last word, in characters.
    end: usize,
    /// A place up to which the text has been searched, in characters and in bytes.
    searched: (usize, usize),
    /// The open brackets.
    open: Vec<(Bracket, Span)>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    aliased: usize,
    mistakes: Vec<Mistake>,
}

/// The brackets around a flow collection: opening and closing character.
type Bracket = (char, char);
const SQUARE: Bracket = ('[', ']');
const CURLY: Bracket = ('{', '}');

/// A mistake that prevents any further reading.
type Fatal = Box<Mistake>;

impl Builder<'_> {
    fn document(mut self) -> Result<Node, Vec<Mistake>> {
        match self.read() {
            Ok(node) if self.mistakes.is_empty() => Ok(node),
            Ok(_) => Err(self.mistakes),
            Err(fatal) => {
                self.mistakes.push(*fatal);
                Err(self.mistakes)
            }
        }
    }

    fn read(&mut self) -> Result<Node, Fatal> {
        loop {
            let (event, range) = self.next()?;
            match event {
                Event::DocumentStart(_) => break,
                Event::StreamEnd => {
                    let message = "the file is empty";
                    return Err(Box::new(
                        Mistake::new(self.span(range), &[], message)
                            .hint("an experiment starts with `experiment: NAME`"),
                    ));
                }
                _ => {}
            }
        }
        let (event, range) = self.next()?;
        let node = self.node(event, range, 0)?;
        loop {
            let (event, range) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(node),
                Event::DocumentStart(_) => {
                    let message = "a second document starts here";
                    return Err(Box::new(Mistake::new(self.span(range), &[], message).hint(
                        "a file holds one document: remove the `---`, or make two files",
                    )));
                }
                _ => {}
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'static>, Range), Fatal> {
        match self.parser.next_event() {
            Some(Ok((event, range))) => Ok((own(event), range)),
            Some(Err(error)) => Err(Box::new(self.not_yaml(*error.marker(), error.info()))),
            None => Ok((Event::StreamEnd, Range::default())),
        }
    }

    /// Reports where parsing stopped, and the innermost open bracket there.
    fn not_yaml(&self, at: Marker, reason: &str) -> Mistake {
        if let Some(word) = self
            .open
            .last()
            .and_then(|_| not_yaml::bare_placeholder(self.text, at))
        {
            let span = Span {
                column: word.column,
                ..self.at(at, word.text.chars().count())
            };
            let message = format!("`{}` must be in quotes here", word.text);
            // A word processor's quotes are ordinary characters here.
            let plain = word
                .text
                .trim_matches(['\u{201c}', '\u{201d}', '\u{2018}', '\u{2019}', '\u{201e}']);
            let what = match plain == word.text {
                true => "braces are YAML syntax",
                false => "braces are YAML syntax, and only straight quotes are quotes",
            };
            return Mistake::new(span, &[], message).hint(format!(
                "within `{{…}}` and `[…]`, {what}: write `\"{plain}\"`"
            ));
        }
        let here = Mistake::new(self.at(at, 1), &[], format!("this is not YAML: {reason}"));
        let character = self.text.lines().nth(at.line().saturating_sub(1));
        let character = character.and_then(|line| line.chars().nth(at.col()));
        let remedy = not_yaml::invisible(self.text, at)
            .or_else(|| not_yaml::bare_star(character, reason))
            .or_else(|| not_yaml::spare_comma(character, reason))
            .or_else(|| not_yaml::missing_comma(self.text, at, reason));
        match self.open.last() {
            Some(_) if remedy.is_some() => here.hint(remedy.unwrap_or_default()),
            None => here.hint(not_yaml::remedy(self.text, at, reason)),
            Some(_) if reason.contains("quoted scalar") || reason.contains("unknown anchor") => {
                here.hint(not_yaml::remedy(self.text, at, reason))
            }
            Some(((opening, closing), opened)) if at.index() >= self.end => Mistake::new(
                *opened,
                &[],
                format!("this is not YAML: this `{opening}` is never closed"),
            )
            .hint(format!("close it with `{closing}`")),
            Some(((opening, closing), opened)) => here.hint(format!(
                "the `{opening}` at {}:{} is still open here; is its `{closing}` missing?",
                opened.line, opened.column
            )),
        }
    }

    fn node(&mut self, event: Event<'static>, range: Range, depth: usize) -> Result<Node, Fatal> {
        let span = self.span(range);
        self.count(1, span)?;
        if depth > MAX_DEPTH {
            let message = format!("the nesting is deeper than {MAX_DEPTH}");
            return Err(Box::new(
                Mistake::new(span, &[], message).hint("flatten this part"),
            ));
        }
        let (anchor, node) = match event {
            Event::Alias(id) => return self.alias(id, span),
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span);
                let span = up_to_its_quote(span, &text, style);
                (
                    anchor,
                    Node {
                        span,
                        value: self.scalar(&text, style, span),
                    },
                )
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span);
                let flow = span.width > 0;
                self.open.extend(flow.then_some((SQUARE, span)));
                let mut items = Vec::new();
                loop {
                    let (event, range) = self.next()?;
                    match event {
                        Event::SequenceEnd => break,
                        event => items.push(self.node(event, range, depth + 1)?),
                    }
                }
                self.open.truncate(self.open.len() - usize::from(flow));
                (
                    anchor,
                    Node {
                        span: Span {
                            width: span.width.max(1),
                            ..span
                        },
                        value: Value::List(items),
                    },
                )
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span);
                let flow = span.width > 0;
                self.open.extend(flow.then_some((CURLY, span)));
                let entries = self.mapping(depth, flow)?;
                self.open.truncate(self.open.len() - usize::from(flow));
                let first = entries.first().map(|(key, _)| key.span);
                let span = first.filter(|_| !flow).unwrap_or(span);
                (
                    anchor,
                    Node {
                        span,
                        value: Value::Map(entries),
                    },
                )
            }
            _ => {
                return Err(Box::new(Mistake::new(
                    span,
                    &[],
                    "this is not YAML: a value is missing here",
                )));
            }
        };
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn mapping(&mut self, depth: usize, flow: bool) -> Result<Vec<(Key, Node)>, Fatal> {
        let mut entries: Vec<(Key, Node)> = Vec::new();
        let mut seen: HashMap<String, Span> = HashMap::new();
        let mut torn = TornList::default();
        loop {
            let (event, range) = self.next()?;
            let key = match event {
                Event::MappingEnd => {
                    self.mistakes.extend(torn.mistakes());
                    return Ok(entries);
                }
                event => self.key(event, range, depth)?,
            };
            let key_end = range.end.index();
            let (event, range) = self.next()?;
            let bare = flow && is_empty(&event) && !self.has_colon(key_end, range.start.index());
            let mut node = self.node(event, range, depth + 1)?;
            let Some(key) = key else { continue };
            if torn.takes(&key, &node, bare) {
                continue;
            }
            if matches!(node.value, Value::List(_) | Value::Map(_) | Value::Null) {
                node.span = key.span;
            }
            match seen.get(&key.text) {
                Some(first) => self.mistakes.push(
                    Mistake::new(key.span, &[], format!("duplicate key `{}`", key.text)).hint(
                        format!(
                            "it is first defined at {}:{}; keep one of the two",
                            first.line, first.column
                        ),
                    ),
                ),
                None => {
                    seen.insert(key.text.clone(), key.span);
                    entries.push((key, node));
                }
            }
        }
    }

    /// Returns whether a colon lies between two places, given in characters. Later calls must not ask for earlier
    /// places, so that a whole file is searched once.
    fn has_colon(&mut self, from: usize, to: usize) -> bool {
        let (chars, bytes) = self.searched;
        let skipped: usize = (self.text[bytes..].chars().take(from.saturating_sub(chars)))
            .map(char::len_utf8)
            .sum();
        self.searched = (chars.max(from), bytes + skipped);
        let mut between = self.text[self.searched.1..]
            .chars()
            .take(to.saturating_sub(from));
        between.any(|c| c == ':')
    }

    /// Reads a key; `None` if an experiment cannot have such a key.
    fn key(
        &mut self,
        event: Event<'static>,
        range: Range,
        depth: usize,
    ) -> Result<Option<Key>, Fatal> {
        let span = self.span(range);
        let refuse = |message: &str, hint: &str| Mistake::new(span, &[], message).hint(hint);
        match event {
            Event::Scalar(text, ScalarStyle::Plain, _, _) if text == "<<" => {
                let hint = "write the keys themselves, or use `extends:` in a definition";
                self.mistakes
                    .push(refuse("merge keys (`<<`) are not part of YAML 1.2", hint));
                Ok(None)
            }
            Event::Scalar(text, _, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span);
                if text.trim().is_empty() {
                    self.mistakes.push(refuse(
                        "the key is empty",
                        "give it a name, or remove the `:`",
                    ));
                    return Ok(None);
                }
                let text = text.into_owned();
                if anchor > 0 {
                    self.anchors.insert(
                        anchor,
                        Node {
                            span,
                            value: Value::Text(text.clone()),
                        },
                    );
                }
                Ok(Some(Key { text, span }))
            }
            event => {
                let braces = not_yaml::in_double_braces(self.text, range.start);
                self.node(event, range, depth + 1)?;
                let hint = match braces {
                    Some(name) => format!("a placeholder is written `\"${{{name}}}\"`"),
                    None => "if this was meant as text, put it in quotes".to_owned(),
                };
                self.mistakes.push(refuse("a key must be text", &hint));
                Ok(None)
            }
        }
    }

    fn alias(&mut self, id: usize, span: Span) -> Result<Node, Fatal> {
        let Some(node) = self.anchors.get(&id).cloned() else {
            let message = "the alias is inside the value it refers to";
            return Err(Box::new(
                Mistake::new(span, &[], message).hint("write the value itself"),
            ));
        };
        self.count(size(&node), span)?;
        self.aliased += bytes(&node);
        if self.aliased > MAX_ALIASED {
            let message =
                format!("with aliases expanded, the file has more than {MAX_ALIASED} bytes");
            return Err(Box::new(
                Mistake::new(span, &[], message).hint("use fewer aliases, or shorter texts"),
            ));
        }
        Ok(node)
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, span: Span) -> Value {
        if style != ScalarStyle::Plain {
            return Value::Text(text.to_owned());
        }
        resolve(text).unwrap_or_else(|(message, hint)| {
            self.mistakes
                .push(Mistake::new(span, &[], message).hint(hint));
            Value::Null
        })
    }

    fn refuse_tag(&mut self, tag: Option<&Tag>, span: Span) {
        if let Some(tag) = tag {
            let hint = match tag.is_yaml_core_schema() {
                true => "remove it; to turn a number into text, put it in quotes",
                false => {
                    "remove it; a value from outside is a parameter: declare it under `parameters:`, and give it with \
                     `--set NAME=VALUE`"
                }
            };
            self.mistakes.push(
                Mistake::new(span, &[], "tags (`!…`) have no meaning in an experiment").hint(hint),
            );
        }
    }

    fn count(&mut self, nodes: usize, span: Span) -> Result<(), Fatal> {
        self.nodes += nodes;
        if self.nodes > MAX_NODES {
            let message = format!(
                "with aliases expanded, the file has more than {MAX_NODES} \
                values"
            );
            return Err(Box::new(
                Mistake::new(span, &[], message).hint("use fewer aliases, or an axis"),
            ));
        }
        Ok(())
    }

    fn span(&self, range: Range) -> Span {
        let (start, end) = (range.start, range.end);
        let width = match end.line().cmp(&start.line()) {
            std::cmp::Ordering::Equal => end.col().saturating_sub(start.col()),
            std::cmp::Ordering::Greater => usize::MAX,
            std::cmp::Ordering::Less => 0,
        };
        self.at(start, width)
    }

    fn at(&self, start: Marker, width: usize) -> Span {
        let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Span {
            source: self.source,
            line: small(start.line().max(1)),
            column: small(start.col() + 1),
            width: small(width),
        }
    }
}

/// Returns the place of a text without the spaces and the comment behind its closing quote. A text with escapes keeps the
/// parser's place, because it is longer in the file.
fn up_to_its_quote(span: Span, text: &str, style: ScalarStyle) -> Span {
    let (quotes, escaped) = match style {
        ScalarStyle::SingleQuoted => (2, text.contains(['\'', '\n'])),
        ScalarStyle::DoubleQuoted => {
            let plain = |c: char| c == ' ' || c.is_ascii_graphic() && c != '"' && c != '\\';
            (2, !text.chars().all(plain))
        }
        _ => return span,
    };
    let width = u32::try_from(text.chars().count() + quotes).unwrap_or(u32::MAX);
    match escaped {
        true => span,
        false => Span {
            width: span.width.min(width),
            ..span
        },
    }
}

/// Returns whether an event is a value that the file leaves out.
fn is_empty(event: &Event<'_>) -> bool {
    matches!(event, Event::Scalar(text, ScalarStyle::Plain, 0, None) if text.is_empty())
}

/// Returns the event as owned data.
fn own(event: Event<'_>) -> Event<'static> {
    match event {
        Event::Scalar(text, style, anchor, tag) => Event::Scalar(
            text.into_owned().into(),
            style,
            anchor,
            tag.map(|t| std::borrow::Cow::Owned(t.into_owned())),
        ),
        Event::SequenceStart(anchor, tag) => {
            Event::SequenceStart(anchor, tag.map(|t| std::borrow::Cow::Owned(t.into_owned())))
        }
        Event::MappingStart(anchor, tag) => {
            Event::MappingStart(anchor, tag.map(|t| std::borrow::Cow::Owned(t.into_owned())))
        }
        Event::Nothing => Event::Nothing,
        Event::StreamStart => Event::StreamStart,
        Event::StreamEnd => Event::StreamEnd,
        Event::DocumentStart(explicit) => Event::DocumentStart(explicit),
        Event::DocumentEnd => Event::DocumentEnd,
        Event::Alias(id) => Event::Alias(id),
        Event::SequenceEnd => Event::SequenceEnd,
        Event::MappingEnd => Event::MappingEnd,
    }
}

/// Returns the total bytes of the texts in a value, including keys.
fn bytes(node: &Node) -> usize {
    let own = match &node.value {
        Value::Text(text) => text.len(),
        _ => 0,
    };
    let entries = node.entries().iter();
    own + node.items().iter().map(bytes).sum::<usize>()
        + entries
            .map(|(key, node)| key.text.len() + bytes(node))
            .sum::<usize>()
}

fn size(node: &Node) -> usize {
    1 + node.items().iter().map(size).sum::<usize>()
        + node
            .entries()
            .iter()
            .map(|(_, node)| size(node))
            .sum::<usize>()
}

/// Resolves a plain scalar by the YAML 1.2 core schema; an error is (message, hint).
fn resolve(text: &str) -> Result<Value, (String, String)> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "true" | "True" | "TRUE" => return Ok(Value::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(Value::Bool(false)),
        _ => {}
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        let message = format!("`{text}` is not a finite number");
        return Err((
            message,
            "for no limit, leave the key out; quote the value if it is text".to_owned(),
        ));
    }
    let digits =
        |text: &str, radix: u32| !text.is_empty() && text.chars().all(|c| c.is_digit(radix));
    if digits(unsigned, 10) && unsigned.len() > 1 && unsigned.starts_with('0') {
        let plain = unsigned.trim_start_matches('0');
        let plain = if plain.is_empty() { "0" } else { plain };
        let sign = &text[..text.len() - unsigned.len()];
        return Err((
            format!("`{text}` begins with a zero"),
            format!(
                "write {sign}{plain}, or \"{text}\" if it is text: some YAML readers take it for an octal number"
            ),
        ));
    }
    let integer = if digits(unsigned, 10) {
        Some(text.parse::<i64>().ok())
    } else if let Some(octal) = text.strip_prefix("0o").filter(|t| digits(t, 8)) {
        Some(i64::from_str_radix(octal, 8).ok())
    } else {
        let hex = text.strip_prefix("0x").filter(|t| digits(t, 16));
        hex.map(|hex| i64::from_str_radix(hex, 16).ok())
    };
    match integer {
        Some(Some(value)) => return Ok(Value::Int(value)),
        Some(None) => {
            let message = format!("the integer {text} does not fit into 64 bits");
            return Err((
                message,
                "use a smaller number, or quote it if it is text".to_owned(),
            ));
        }
        None => {}
    }
    if !is_float(unsigned) {
        return Ok(Value::Text(text.to_owned()));
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(Value::Float(Decimal {
            value,
            written: text.into(),
        })),
        _ => Err((
            format!("`{text}` is not a finite number"),
            "use a smaller one".to_owned(),
        )),
    }
}

/// Returns whether a text without sign has the form `1.5`, `.5`, `1.`, `1e3` or similar.
fn is_float(text: &str) -> bool {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let digits = |t: &str| t.chars().all(|c| c.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent_fits = exponent.is_none_or(|e| {
        let e = e.strip_prefix(['-', '+']).unwrap_or(e);
        !e.is_empty() && digits(e)
    });
    digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty()) && exponent_fits
}
