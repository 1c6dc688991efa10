//! The text as readers see it: without markup and invisible characters, and with entities read.
//!
//! The checks also read this text. In the Markdown, a sign before an emphasized number, a percent sign written as an entity
//! and a word cut by markup look harmless.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use super::places::OPTIONS;

/// Tags of HTML that do not separate what precedes and follows them.
const WITHIN_TEXT: [&str; 22] = [
    "a", "abbr", "b", "bdi", "big", "cite", "code", "del", "em", "font", "i", "ins", "kbd", "mark",
    "q", "s", "samp", "small", "span", "strong", "u", "wbr",
];

/// A part of the visible text and its place in the Markdown.
#[derive(Debug)]
struct Run {
    /// The start in the visible text, in bytes.
    at: usize,
    /// The length in the visible text, in bytes.
    length: usize,
    source: Range<usize>,
}

impl Run {
    /// Whether the Markdown has the same bytes.
    fn is_same(&self) -> bool {
        self.length == self.source.len()
    }
}

/// The visible text of a Markdown document, with the places of its parts in ascending order.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) text: String,
    runs: Vec<Run>,
}

impl Seen {
    /// Reads the visible text. Fenced code, which the checks skip, is not part of it.
    pub(super) fn read(markdown: &str) -> Self {
        let mut seen = Self::default();
        let mut is_fenced = false;
        // The end of the tag or comment that the last piece of HTML began.
        let mut until: Option<&str> = None;
        for (event, range) in Parser::new_ext(markdown, OPTIONS).into_offset_iter() {
            match event {
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => is_fenced = true,
                Event::End(TagEnd::CodeBlock) => {
                    is_fenced = false;
                    seen.separate("\n");
                }
                Event::Text(text) if !is_fenced => seen.push(markdown, &text, range),
                Event::Code(text) => {
                    let inner = markdown[range.clone()].find(&*text);
                    let place = inner.map_or(range.clone(), |at| {
                        range.start + at..range.start + at + text.len()
                    });
                    seen.push(markdown, &text, place);
                }
                Event::Html(html) | Event::InlineHtml(html) => {
                    seen.push_html(markdown, &html, range.start, &mut until);
                }
                Event::SoftBreak => seen.separate(" "),
                Event::HardBreak | Event::Rule => seen.separate("\n"),
                Event::End(TagEnd::TableCell) => seen.separate(" | "),
                Event::End(
                    TagEnd::Emphasis
                    | TagEnd::Strong
                    | TagEnd::Strikethrough
                    | TagEnd::Link
                    | TagEnd::Image,
                ) => {}
                Event::End(_) => {
                    until = None;
                    seen.separate("\n");
                }
                _ => {}
            }
        }
        seen
    }

    fn separate(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Appends a text, without its invisible characters.
    fn push(&mut self, markdown: &str, text: &str, source: Range<usize>) {
        if markdown[source.clone()] != *text {
            let visible: String = text.chars().filter(|c| !is_invisible(*c)).collect();
            self.push_run(&visible, source);
            return;
        }
        let mut at = source.start;
        for part in text.split(is_invisible) {
            self.push_run(part, at..at + part.len());
            let after = at + part.len();
            let skipped = markdown[after..source.end]
                .chars()
                .next()
                .map_or(0, char::len_utf8);
            at = after + skipped;
        }
    }

    fn push_run(&mut self, text: &str, source: Range<usize>) {
        if !text.is_empty() {
            let (at, length) = (self.text.len(), text.len());
            self.runs.push(Run { at, length, source });
            self.text.push_str(text);
        }
    }

    /// Appends the text between the tags of HTML that begins at a byte of the Markdown.
    fn push_html(
        &mut self,
        markdown: &str,
        html: &str,
        start: usize,
        until: &mut Option<&'static str>,
    ) {
        let mut at = 0;
        while at < html.len() {
            let rest = &html[at..];
            if let Some(end) = *until {
                let Some(length) = rest.find(end) else { return };
                at += length + end.len();
                *until = None;
                continue;
            }
            let length = rest.find('<').unwrap_or(rest.len());
            // HTML is in the Markdown as it is, except for the line ends of Windows.
            let place = start + at..start + at + length;
            match markdown.get(place.clone()) {
                Some(same) if same == &rest[..length] => self.push(markdown, same, place),
                _ => self.separate(" "),
            }
            at += length;
            if let Some(tag) = html.get(at + 1..) {
                let is_comment = tag.starts_with("!--");
                let name = tag.trim_start_matches('/');
                let name = name.split(|c: char| !c.is_ascii_alphanumeric()).next();
                if !is_comment
                    && !name.is_some_and(|name| WITHIN_TEXT.contains(&&*name.to_ascii_lowercase()))
                {
                    self.separate("\n");
                }
                *until = Some(if is_comment { "-->" } else { ">" });
            }
        }
    }

    /// Returns the place of a range of the Markdown in the visible text; `None` if nothing of it is visible.
    pub(super) fn place(&self, source: &Range<usize>) -> Option<Range<usize>> {
        let first = self
            .runs
            .partition_point(|run| run.source.end <= source.start);
        let after = self
            .runs
            .partition_point(|run| run.source.start < source.end);
        let (first, last) = (self.runs.get(first..after)?.first()?, &self.runs[after - 1]);
        let skipped = source.start.saturating_sub(first.source.start);
        let start = first.at + if first.is_same() { skipped } else { 0 };
        let until = source.end.min(last.source.end) - last.source.start;
        let end = last.at + if last.is_same() { until } else { last.length };
        (start < end).then_some(start..end)
    }

    /// Returns the place in the Markdown of a range of the visible text; `None` if it has only separators.
    pub(super) fn source(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let first = self
            .runs
            .partition_point(|run| run.at + run.length <= range.start);
        let after = self.runs.partition_point(|run| run.at < range.end);
        let (first, last) = (self.runs.get(first..after)?.first()?, &self.runs[after - 1]);
        let skipped = range.start.saturating_sub(first.at);
        let start = first.source.start + if first.is_same() { skipped } else { 0 };
        let until = range.end.min(last.at + last.length) - last.at;
        let end = match last.is_same() {
            true => last.source.start + until,
            false => last.source.end,
        };
        Some(start..end)
    }
}

/// Returns the text that readers see and that is not struck out, with a line for each block.
pub(crate) fn standing(markdown: &str) -> String {
    let mut text = String::new();
    let mut struck = 0usize;
    for event in Parser::new_ext(markdown, OPTIONS) {
        match event {
            Event::Start(Tag::Strikethrough) => struck += 1,
            Event::End(TagEnd::Strikethrough) => struck = struck.saturating_sub(1),
            Event::Html(html) | Event::InlineHtml(html) => match html.trim() {
                "<del>" | "<s>" | "<strike>" => struck += 1,
                "</del>" | "</s>" | "</strike>" => struck = struck.saturating_sub(1),
                _ => {}
            },
            Event::Text(part) | Event::Code(part) if struck == 0 => {
                text.extend(part.chars().filter(|c| !is_invisible(*c)));
            }
            Event::SoftBreak => text.push(' '),
            Event::HardBreak | Event::End(TagEnd::Paragraph | TagEnd::Item | TagEnd::TableCell) => {
                text.push('\n');
            }
            _ => {}
        }
    }
    text
}

/// Returns the place of an invisible character inside a word of ASCII, with its neighbours: it hides the word from the checks.
pub(crate) fn hidden(text: &str) -> Option<Range<usize>> {
    let mut before: Option<(usize, char)> = None;
    let mut is_hidden = false;
    for (at, c) in text.char_indices() {
        if is_invisible(c) {
            is_hidden = true;
            continue;
        }
        if let Some((start, before)) = before
            && is_hidden
            && before.is_ascii_alphanumeric()
            && c.is_ascii_alphanumeric()
        {
            return Some(start..at + c.len_utf8());
        }
        (before, is_hidden) = (Some((at, c)), false);
    }
    None
}

/// Whether a character takes no place: joiners, soft hyphens, selectors of variants.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2060}'..='\u{206f}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn markup_is_removed_and_entities_are_read() {
        for (markdown, visible) in [
            ("al**wa**ys", "always"),
            ("al<b></b>ways<!-- x -->", "always"),
            ("al&shy;w\u{200b}ays", "always"),
            ("5&percnt; of\nall", "5% of all"),
            ("`a` **b**", "a b"),
            ("a\\*b", "a*b"),
            ("```\nfenced\n```\nafter", "after"),
            ("a<br>b<sup>c</sup>", "a\nb\nc"),
        ] {
            let text = Seen::read(markdown).text.replace("\n\n", "\n");
            assert_eq!(text.trim(), visible, "{markdown}");
        }
        let cells = Seen::read("| a | b |\n|---|---|\n| 1 | 2 |\n").text;
        assert_eq!(cells.replace('\n', ""), "a | b | 1 | 2 | ");
        let html = Seen::read("<table>\n<tr><td>1</td><td>2</td></tr>\n</table>\n").text;
        assert_eq!(html.split_whitespace().collect::<Vec<_>>(), ["1", "2"]);
    }

    #[test]
    fn text_that_is_struck_out_or_in_a_comment_does_not_stand() {
        for (markdown, text) in [
            ("It is<!-- not --> so", "It is so"),
            ("It is ~~not~~ so", "It is  so"),
            ("It is <del>not</del> so", "It is  so"),
            ("[It](http://not.x) is *so*", "It is so"),
            ("It is n\u{200b}ot so\nthere", "It is not so there"),
        ] {
            assert_eq!(standing(markdown).trim(), text, "{markdown}");
        }
    }

    #[test]
    fn an_invisible_character_inside_a_word_is_shown_with_its_neighbours() {
        assert_eq!(hidden("al\u{ad}ways"), Some(1..5));
        assert_eq!(hidden("5\u{200b}\u{200b}0 %"), Some(0..8));
        // Between words, in emoji and in Persian it has its own use.
        for text in [
            "a \u{200b}b",
            "\u{26a1}\u{fe0f} fast",
            "\u{645}\u{6cc}\u{200c}\u{62e}",
            "always",
        ] {
            assert_eq!(hidden(text), None, "{text}");
        }
    }

    #[test]
    fn places_lead_there_and_back() {
        let markdown = "# A\n\nit **was** 5&percnt; and `x`";
        let seen = Seen::read(markdown);
        for word in ["was", "5&percnt;", "&percnt;", "x"] {
            let at = markdown.find(word).unwrap();
            let place = seen.place(&(at..at + word.len())).unwrap();
            let source = seen.source(&place).unwrap();
            assert_eq!(&markdown[source], word);
        }
        assert_eq!(seen.place(&(0..1)), None, "the mark of a heading");
    }

    proptest! {
        #[test]
        fn any_markdown_has_places(markdown in r"([a-z0-9 *_`<>&;|\n\r-]|<b>|&percnt;|\u{200b}|~~|# |```\n|<!--|-->){0,40}") {
            let seen = Seen::read(&markdown);
            for (at, c) in seen.text.char_indices() {
                if let Some(source) = seen.source(&(at..at + c.len_utf8())) {
                    prop_assert!(markdown.get(source.clone()).is_some(), "{source:?}");
                }
            }
            for (at, c) in markdown.char_indices() {
                if let Some(place) = seen.place(&(at..at + c.len_utf8())) {
                    prop_assert!(seen.text.get(place.clone()).is_some(), "{place:?}");
                }
            }
        }
    }
}
