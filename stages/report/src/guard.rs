//! Values stand for themselves: no label, title or reason can become markup.
//!
//! Values come from experiments, files and servers, and may contain anything. A printed value carries marks before the
//! characters that Markdown or HTML would take for markup. [`Places`] reads the rendering from its beginning and knows
//! where a mark applies. In running text the character gets a backslash, and so does a character at the start of a line
//! that would begin a block. Spaces there become spaces that do not indent. In code, where a backslash does not help, a
//! similar character replaces a backtick.

/// The next character would be markup in running text.
pub(crate) const TEXT: char = '\u{e007}';
/// The next character would begin a block at the start of a line.
pub(crate) const LINE: char = '\u{e008}';
/// The next character would end code.
pub(crate) const CODE: char = '\u{e009}';

/// The replacement for a space at the start of a line, where four would begin code: the no-break space.
const NO_INDENT: char = '\u{a0}';

/// The replacement for a backtick in code: the modifier letter grave accent.
const NO_BACKTICK: char = '\u{2cb}';

/// Whether a character is one of the marks.
pub(crate) fn is_guard(c: char) -> bool {
    matches!(c, TEXT | LINE | CODE)
}

/// Returns a value with marks before the characters that would be markup.
pub(crate) fn guarded(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let whole_code = holds_whole_code(&chars);
    let block = block_start(&chars);
    let mut out = String::with_capacity(text.len());
    let mut in_code = false;
    for (at, c) in chars.iter().enumerate() {
        if *c == '`' {
            out.push(if whole_code { CODE } else { TEXT });
            in_code = whole_code && !in_code;
        } else if !in_code && is_markup(&chars, at) {
            out.push(TEXT);
        } else if block == Some(at) || indents(&chars, at) {
            out.push(LINE);
        }
        out.push(*c);
    }
    out
}

/// Returns a text without the marks.
pub(crate) fn unguarded(text: &str) -> String {
    text.chars().filter(|c| !is_guard(*c)).collect()
}

/// Whether every backtick is single and belongs to code that begins and ends in this text.
fn holds_whole_code(chars: &[char]) -> bool {
    let ticks = chars.iter().filter(|c| **c == '`').count();
    let doubled = chars.windows(2).any(|pair| pair == ['`', '`']);
    // Markdown would attach a backslash to the backtick.
    ticks % 2 == 0 && !doubled && !chars.contains(&'\\')
}

/// Whether a character outside code would be markup, or part of it.
fn is_markup(chars: &[char], at: usize) -> bool {
    let next = chars.get(at + 1).copied();
    let before = at.checked_sub(1).map(|i| chars[i]);
    let word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    match chars[at] {
        // A tag, a comment, an address. At the end, the next character is unknown.
        '<' => next.is_none_or(|c| c.is_ascii_alphabetic() || "/!?".contains(c)),
        '&' => is_entity(&chars[at + 1..]),
        '\\' => next.is_none_or(|c| c.is_ascii_punctuation()),
        '[' | ']' => is_link(chars),
        '!' => next == Some('[') && is_link(chars),
        '*' => next.is_none_or(|c| c != ' ') || before.is_none_or(|c| c != ' '),
        // Inside a word an underscore is a letter. A run of underscores counts as one.
        '_' => {
            let other = |c: &&char| **c != '_';
            let first = chars[..at].iter().rev().find(other).copied();
            let last = chars[at..].iter().find(other).copied();
            !(word(first) && word(last))
        }
        '~' => chars.iter().filter(|c| **c == '~').count() > 1,
        _ => false,
    }
}

/// Whether the text has the characters that turn brackets into a link, a picture, a footnote or a definition.
fn is_link(chars: &[char]) -> bool {
    let pairs = [[']', '('], [']', '['], [']', ':'], ['[', '^']];
    chars.windows(2).any(|pair| pairs.iter().any(|p| p == pair))
}

/// Whether the text after an ampersand makes it an entity: `amp;`, `#60;`.
fn is_entity(rest: &[char]) -> bool {
    let name = rest
        .iter()
        .take_while(|c| c.is_ascii_alphanumeric() || **c == '#')
        .count();
    name > 0 && rest.get(name) == Some(&';')
}

/// Whether a character is a space or tab at the start of a line of a value.
fn indents(chars: &[char], at: usize) -> bool {
    let is_space = |c: &char| matches!(c, ' ' | '\t');
    let before = chars[..at].iter().rev().find(|c| !is_space(c));
    is_space(&chars[at]) && before.is_none_or(|c| *c == '\n')
}

/// Returns the position of the character that would begin a heading, a quotation, a list, a rule, a fence or a table at
/// the start of a line.
fn block_start(chars: &[char]) -> Option<usize> {
    let first = chars.iter().position(|c| *c != ' ')?;
    let rest = &chars[first..];
    let run = rest.iter().take_while(|c| **c == rest[0]).count();
    let ends = |at: usize| rest.get(at).is_none_or(|c| *c == ' ');
    let begins = match rest[0] {
        '#' => run <= 6 && ends(run),
        '>' | '|' => true,
        '-' | '+' => ends(1) || run > 2 || (run == 2 && ends(2)),
        '=' => rest.iter().all(|c| "= ".contains(*c)),
        '~' => run > 2,
        ':' => ends(1) || rest.get(1) == Some(&'-'),
        c if c.is_ascii_digit() => {
            let digits = rest.iter().take_while(|c| c.is_ascii_digit()).count();
            let dot = rest.get(digits).is_some_and(|c| ".)".contains(*c));
            return (dot && ends(digits + 1)).then_some(first + digits);
        }
        _ => false,
    };
    begins.then_some(first)
}

/// The state at the end of the Markdown so far: in a fence, in code, at the start of a line.
#[derive(Debug, Default)]
pub(crate) struct Places {
    fence: bool,
    /// The number of backticks that opened the current code.
    code: Option<usize>,
    line: String,
    ticks: usize,
    escaped: bool,
    /// Whether a value opened the current code.
    own: bool,
}

impl Places {
    /// Processes one character of the Markdown.
    pub(crate) fn pass(&mut self, c: char) {
        if c == '`' && !(self.escaped && self.code.is_none()) {
            self.ticks += 1;
            self.line.push(c);
            self.escaped = false;
            return;
        }
        self.end_run();
        if c == '\n' {
            let line = self.line.trim_start();
            if line.starts_with("```") || line.starts_with("~~~") {
                self.fence = !self.fence;
                self.code = None;
            } else if line.is_empty() {
                // Code does not continue into the next paragraph.
                self.code = None;
            }
            self.line.clear();
        } else {
            self.line.push(c);
        }
        self.escaped = c == '\\' && !self.escaped;
    }

    fn end_run(&mut self) {
        let run = std::mem::take(&mut self.ticks);
        if run == 0 || self.fence {
            return;
        }
        self.code = match self.code {
            None => Some(run),
            Some(opened) if opened == run => None,
            open => open,
        };
    }

    /// Returns the output for a character that follows a mark.
    pub(crate) fn put(&mut self, mark: char, c: char) -> (Option<char>, char) {
        self.end_run();
        // Text after the marker of a list or quotation begins its own block, and digits precede the dot of a numbered
        // list.
        let line_start = self
            .line
            .chars()
            .all(|c| c.is_ascii_digit() || " -+*>.)".contains(c));
        if mark == CODE && !self.fence && (self.own || self.code.is_none()) {
            self.own = !self.own;
            return (None, c);
        }
        if self.fence || self.code.is_some() {
            return (None, if c == '`' { NO_BACKTICK } else { c });
        }
        match mark {
            TEXT => (Some('\\'), c),
            LINE if line_start && matches!(c, ' ' | '\t') => (None, NO_INDENT),
            LINE if line_start => (Some('\\'), c),
            _ => (None, c),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use pulldown_cmark::{Event, Options, Parser, TagEnd};

    use super::*;

    /// Prints a value between two texts, like a template.
    fn printed(before: &str, value: &str, after: &str) -> String {
        let (mut out, mut places) = (String::new(), Places::default());
        let plain = |out: &mut String, text: &str, places: &mut Places| {
            let mut chars = text.chars();
            while let Some(c) = chars.next() {
                let (slash, c) = match is_guard(c) {
                    true => places.put(c, chars.next().unwrap()),
                    false => (None, c),
                };
                for c in slash.into_iter().chain([c]) {
                    places.pass(c);
                    out.push(c);
                }
            }
        };
        plain(&mut out, before, &mut places);
        plain(&mut out, &guarded(value), &mut places);
        plain(&mut out, after, &mut places);
        out
    }

    /// Returns the visible text, and whether the Markdown has anything besides text, code and paragraphs.
    fn read(markdown: &str) -> (String, bool) {
        let options = Options::ENABLE_TABLES
            | Options::ENABLE_FOOTNOTES
            | Options::ENABLE_STRIKETHROUGH
            | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
        let (mut text, mut structure) = (String::new(), false);
        for event in Parser::new_ext(markdown, options) {
            match event {
                Event::Text(t) => text.push_str(&t),
                Event::Code(t) => text.push_str(&format!("`{t}`")),
                Event::Start(tag) => structure |= !matches!(tag.to_end(), TagEnd::Paragraph),
                Event::End(_) => {}
                _ => structure = true,
            }
        }
        (text, structure)
    }

    #[test]
    fn what_occurs_in_our_own_reports_is_printed_as_it_is() {
        for plain in [
            "ladder[rep=1]",
            "flash_attn",
            "p < 0.05",
            "R&D",
            "2 * 3",
            "-5",
            "a/b",
            "n/a",
            "~5 ms",
            "C++",
            "1.5",
            "the column `x` of `y`",
            "100 %",
            "a -> b",
            "it's",
            "x > y",
            "\"quoted\"",
            "#1",
        ] {
            assert_eq!(
                printed("see ", plain, "."),
                format!("see {plain}."),
                "{plain}"
            );
        }
    }

    #[test]
    fn markup_in_a_value_is_text() {
        for evil in [
            "<script>alert(1)</script>",
            "<!-- ",
            "a<",
            "[x](javascript:alert(1))",
            "![x](http://evil/t.png)",
            "[^1]",
            "**bold**",
            "__init__",
            "`",
            "``` x",
            "a \\",
            "&lt;",
            "~~gone~~",
            "<http://evil>",
            "`<b>",
        ] {
            let (text, structure) = read(&printed("see ", evil, " here."));
            assert_eq!(
                text,
                format!("see {evil} here."),
                "{}",
                printed("see ", evil, " here.")
            );
            assert!(!structure, "{evil}");
        }
        for evil in [
            "# x",
            "> x",
            "- x",
            "1. x",
            "---",
            "===",
            "+ x",
            "~~~",
            "``` x",
            "| a | b |",
            "12) x",
            "    x",
            "\tx",
            "    <!-- ",
        ] {
            let markdown = printed("before\n\n", evil, "\n\nafter\n");
            let (text, structure) = read(&markdown);
            let squeezed = |text: &str| text.split_whitespace().collect::<String>();
            let wanted = squeezed(&format!("before{evil}after"));
            assert_eq!(squeezed(&text), wanted, "{markdown}");
            assert!(!structure, "{markdown}");
        }
        // In an item of a list, five spaces would begin code.
        let (_, structure) = read(&printed("see\n\n", "     x", "\n"));
        assert!(!structure);
    }

    #[test]
    fn a_value_does_not_end_the_code_it_stands_in() {
        assert_eq!(printed("`", "a`b", "`"), "`a\u{2cb}b`");
        assert_eq!(
            printed("`", "<b> and `x`", "`"),
            "`<b> and \u{2cb}x\u{2cb}`"
        );
        let fenced = printed("```console\n$ run ", "<b>[x](y)*", "\n```\nafter\n");
        assert_eq!(fenced, "```console\n$ run <b>[x](y)*\n```\nafter\n");
    }

    proptest! {
        #[test]
        fn any_value_is_read_as_it_is(
            value in r"(|1\. |- |# )([a-z0-9 <>/!\[\]()*_`~&;#:|=+.\\^-]|<b>|</p>|<!--|&lt;|\]\(|`[a-z]`|```|\*\*){1,24}",
        ) {
            prop_assume!(!value.trim().is_empty());
            for (before, after) in [("see ", " here."), ("", " x\n"), ("before\n\n", "\n\nafter\n")] {
                let markdown = printed(before, &value, after);
                let (text, structure) = read(&markdown);
                let wanted = format!("{before}{value}{after}").replace('\n', "");
                // Consecutive spaces count as one, and code may lose one at each end.
                let squeeze = |t: &str| t.split_whitespace().collect::<Vec<_>>().concat();
                prop_assert_eq!(squeeze(&text), squeeze(&wanted), "{}", markdown);
                prop_assert!(!structure, "{}", markdown);
            }
        }

        #[test]
        fn marks_come_off_again(value in "\\PC{0,40}") {
            prop_assert_eq!(unguarded(&guarded(&value)), value);
        }
    }
}
