//! Words of a text in a comparable form.

/// A word in lower case, without the `s` of a plural.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: String,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Splits a text into words: runs of letters and digits; a dot between digits belongs to the number.
pub(crate) fn words(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut open: Option<usize> = None;
    let mut chars = text.char_indices().peekable();
    let mut before = ' ';
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, c)| *c);
        let inside = c.is_alphanumeric()
            || c == '.' && before.is_ascii_digit() && next.is_some_and(|c| c.is_ascii_digit());
        if inside && open.is_none() {
            open = Some(at);
        } else if !inside && let Some(start) = open.take() {
            words.push(word(text, start, at));
        }
        before = c;
    }
    if let Some(start) = open {
        words.push(word(text, start, text.len()));
    }
    words
}

fn word(text: &str, start: usize, end: usize) -> Word {
    Word {
        text: stem(&text[start..end]),
        start,
        end,
    }
}

/// Converts to lower case, without the `s` of a plural (`models`, but not `loss`, `ms` or `is`).
pub(crate) fn stem(word: &str) -> String {
    let lower = word.to_lowercase();
    if lower.len() > 3 && lower.is_ascii() {
        if let Some(base) = lower.strip_suffix("ies") {
            return format!("{base}y");
        }
        if let Some(base) = lower.strip_suffix("es")
            && ["ch", "sh", "ss", "x"]
                .iter()
                .any(|end| base.ends_with(end))
        {
            return base.to_owned();
        }
        if let Some(base) = lower.strip_suffix('s')
            && !base.ends_with(['s', 'u', 'i'])
            && base.bytes().all(|b| b.is_ascii_alphabetic())
        {
            return base.to_owned();
        }
    }
    lower
}

/// Joins the words of a text with single blanks, for the comparison of labels.
pub(crate) fn normal(text: &str) -> String {
    let mut out = String::new();
    for word in words(text) {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&word.text);
    }
    out
}

/// Abbreviations, whose full stop ends no sentence.
#[rustfmt::skip]
const SHORT: &[&str] = &["e.g", "i.e", "vs", "cf", "approx", "Fig", "Tab", "Sec", "eff", "resp", "ca", "No"];

/// Splits a text into sentences, as byte ranges: at a full stop, question mark or exclamation mark, followed by a blank
/// and a capital, a digit or an opening mark.
pub(crate) fn sentences(text: &str) -> Vec<(usize, usize)> {
    let mut sentences = Vec::new();
    let mut start = 0;
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        if !matches!(byte, b'.' | b'?' | b'!') || bytes.get(at + 1) != Some(&b' ') {
            continue;
        }
        let word = text[start..at].rsplit([' ', '(']).next().unwrap_or("");
        let short = SHORT.contains(&word);
        let next = text[at + 2..].trim_start().chars().next();
        if !short
            && next.is_some_and(|c| c.is_uppercase() || c.is_ascii_digit() || "([`\"".contains(c))
        {
            sentences.push((start, at + 1));
            start = at + 2;
        }
    }
    if start < text.len() {
        sentences.push((start, text.len()));
    }
    sentences
}
