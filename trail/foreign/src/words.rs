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

/// Whether a block quote begins like a note: `[!TIP]`, `Note: …`.
pub(crate) fn is_note(text: &str) -> bool {
    #[rustfmt::skip]
    let notes = ["note", "tip", "warning", "important", "caution", "summary", "tl", "result", "takeaway", "key"];
    let first = words(text).into_iter().next();
    first.is_some_and(|first| notes.contains(&first.text.as_str()))
}

/// Abbreviations, whose full stop ends no sentence.
#[rustfmt::skip]
const SHORT: &[&str] = &[
    "e.g", "i.e", "vs", "cf", "approx", "fig", "tab", "sec", "eff", "resp", "ca", "no", "incl", "excl", "est", "avg",
    "max", "min", "temp", "etc", "al", "ver", "vol", "ch", "pp", "nr", "abb", "bzw", "ggf", "inkl", "exkl", "evtl",
    "usw", "bspw", "st", "dr", "inc", "corp", "ltd", "figs", "eq", "eqs", "par", "conc", "tok", "req", "cap",
];

/// Whether a word before a full stop is an abbreviation, such as `approx` or `w.r.t`.
fn is_short(word: &str) -> bool {
    let points = word.contains('.') && word.chars().all(|c| c.is_alphabetic() || c == '.');
    points && word.split('.').all(|part| part.len() <= 2)
        || SHORT.contains(&word.to_lowercase().as_str())
}

/// Whether a sentence may begin with a text: with a capital, a digit, an opening mark, or a name such as `vLLM` or
/// `llama.cpp`. Another word in lower case begins one only after a word that is not an abbreviation.
fn begins(text: &str, before: &str) -> bool {
    let Some(first) = text.chars().next() else {
        return false;
    };
    let word = text.split_whitespace().next().unwrap_or("");
    let word = word.trim_end_matches(|c: char| !c.is_alphanumeric());
    let named = word.contains(|c: char| c.is_uppercase() || c.is_ascii_digit() || c == '.');
    let ended = before.len() >= 5 && before.bytes().all(|b| b.is_ascii_lowercase());
    first.is_uppercase()
        || first.is_ascii_digit()
        || "([`\"“*".contains(first)
        || first.is_alphabetic() && (named || ended)
}

/// Splits a text into sentences, as byte ranges: at a full stop, question mark or exclamation mark, followed by a blank
/// and the beginning of a sentence. Chinese and Japanese marks need no blank.
pub(crate) fn sentences(text: &str) -> Vec<(usize, usize)> {
    let mut sentences = Vec::new();
    let mut start = 0;
    for (at, mark) in text.char_indices() {
        let end = at + mark.len_utf8();
        let rest = &text[end..];
        let ends = match mark {
            '。' | '！' | '？' => !rest.is_empty(),
            '.' | '?' | '!' if rest.starts_with(' ') => {
                let word = text[start..at].rsplit([' ', '(']).next().unwrap_or("");
                !is_short(word) && begins(rest.trim_start(), word)
            }
            _ => false,
        };
        if ends {
            sentences.push((start, end));
            start = end + usize::from(rest.starts_with(' '));
        }
    }
    if start < text.len() {
        sentences.push((start, text.len()));
    }
    sentences
}
