//! Places of a Markdown text that the number check skips by rule.
//!
//! Everything else is checked, including parts that a reader may not notice at first: alt text, link titles, front
//! matter, footnotes, HTML.

use std::ops::Range;

use pulldown_cmark::{Event, LinkType, Options, Parser, Tag, TagEnd};

/// Ranges of bytes, ascending.
#[derive(Debug, Default)]
pub(super) struct Exempt {
    /// Exempt from all checks: fenced code, list markers, link destinations, identifiers in inline code.
    pub(super) everything: Vec<Range<usize>>,
    /// Exempt from the check of number words: inline code.
    pub(super) words: Vec<Range<usize>>,
}

/// The Markdown that the checks read.
pub(super) const OPTIONS: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_FOOTNOTES)
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_YAML_STYLE_METADATA_BLOCKS);

/// Returns the exempt places.
pub(super) fn exempt(markdown: &str) -> Exempt {
    let mut exempt = Exempt::default();
    let mut lists: Vec<Option<u64>> = Vec::new();
    // The number after the last one of the numbered list that ended last: a list may go on after other text.
    let mut next: Vec<u64> = Vec::new();
    let mut links: Vec<(usize, Range<usize>, String)> = Vec::new();
    let mut inner_end = 0;
    let parser = Parser::new_ext(markdown, OPTIONS);
    let definitions: Vec<_> = parser
        .reference_definitions()
        .iter()
        .map(|(_, d)| (d.span.clone(), d.dest.to_string()))
        .collect();
    for (event, range) in parser.into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(pulldown_cmark::CodeBlockKind::Fenced(_))) => {
                exempt.everything.push(range.clone());
            }
            // A list that begins with another number states it.
            Event::Start(Tag::List(start)) => {
                lists.push(start.map(|start| if next.contains(&start) { start } else { 1 }));
            }
            Event::End(TagEnd::List(_)) => next.extend(lists.pop().flatten()),
            Event::Start(Tag::Item) => {
                if let Some(Some(expected)) = lists.last_mut() {
                    if let Some(marker) = list_marker(markdown, range.start, *expected) {
                        exempt.everything.push(marker);
                    }
                    *expected += 1;
                }
            }
            Event::Start(
                Tag::Link {
                    link_type,
                    ref dest_url,
                    ..
                }
                | Tag::Image {
                    link_type,
                    ref dest_url,
                    ..
                },
            ) => match link_type {
                LinkType::Autolink | LinkType::Email => exempt.everything.push(range.clone()),
                LinkType::Inline => links.push((range.start, range.clone(), dest_url.to_string())),
                _ => {}
            },
            Event::End(TagEnd::Link | TagEnd::Image)
                if links.last().is_some_and(|(_, r, _)| *r == range) =>
            {
                let (_, range, destination) = links.pop().expect("just seen");
                let from = inner_end.max(range.start);
                if let Some(at) = markdown[from..range.end].find(&destination) {
                    let start = from + at;
                    exempt.everything.push(start..start + destination.len());
                }
            }
            Event::Code(_) => {
                exempt.words.push(range.clone());
                exempt.everything.extend(identifiers(markdown, &range));
            }
            _ => {}
        }
        if !matches!(event, Event::Start(_) | Event::End(_)) {
            inner_end = range.end;
        }
    }
    for (span, destination) in definitions {
        if let Some(at) = markdown[span.clone()].find(&destination) {
            let start = span.start + at;
            exempt.everything.push(start..start + destination.len());
        }
    }
    exempt.everything.sort_by_key(|r| r.start);
    exempt
}

/// The digits of a list marker, if it is the next number of the list: a year at the start of a line is not a marker.
fn list_marker(markdown: &str, at: usize, expected: u64) -> Option<Range<usize>> {
    let digits = markdown[at..]
        .bytes()
        .take_while(u8::is_ascii_digit)
        .count();
    let number: u64 = markdown[at..at + digits].parse().ok()?;
    (number == expected || number == 1).then_some(at..at + digits)
}

/// Words of inline code in which every digit follows a letter of the same word: identifiers,
/// digests, file names. A bare number in backquotes is checked like any other.
fn identifiers(markdown: &str, range: &Range<usize>) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    let mut start = range.start;
    for word in markdown[range.clone()].split_inclusive(char::is_whitespace) {
        let trimmed = word.trim_matches(|c: char| c == '`' || c.is_whitespace());
        if trimmed.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '/' | '.'))
            && has_name(trimmed)
        {
            places.push(start..start + word.len());
        }
        start += word.len();
    }
    places
}

fn has_name(word: &str) -> bool {
    word.chars()
        .find(|c| c.is_alphanumeric())
        .is_some_and(char::is_alphabetic)
        && !word.contains('=')
}
