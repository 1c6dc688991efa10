//! Secrets in what a message quotes. An experiment may contain a key where its variable belongs, or a URL with a
//! password, and messages end in the logs of machines.

/// The last words of keys whose value is a secret.
const NAMES: [&str; 17] = [
    "api-key",
    "apikey",
    "access-key",
    "secret-key",
    "auth-key",
    "auth",
    "token",
    "secret",
    "password",
    "passwd",
    "authorization",
    "cookie",
    "subscription-key",
    "functions-key",
    "private-key",
    "credential",
    "credentials",
];

/// Words that come before `token` in the names of counts, times and special tokens. Values of such keys are not secret.
const OF_TEXT: [&str; 16] = [
    "first",
    "second",
    "last",
    "next",
    "per",
    "each",
    "every",
    "output",
    "input",
    "prompt",
    "completion",
    "reasoning",
    "stop",
    "end",
    "bos",
    "eos",
];

/// The beginnings of common keys, and the shortest length of each kind of key, in bytes.
const BEGINNINGS: [(&str, usize); 18] = [
    ("sk-", 23),
    ("hf_", 33),
    ("ghp_", 40),
    ("gho_", 40),
    ("ghs_", 40),
    ("ghu_", 40),
    ("ghr_", 40),
    ("github_pat_", 33),
    ("glpat-", 26),
    ("AKIA", 20),
    ("ASIA", 20),
    ("AIza", 39),
    ("xoxa-", 15),
    ("xoxb-", 15),
    ("xoxe-", 15),
    ("xoxp-", 15),
    ("xoxs-", 15),
    ("eyJ", 40),
];

/// The shortest part of a key that is hidden, in characters.
const SHORTEST: usize = 12;

/// Returns whether a word is a key that is known by its form. Keys are random, so they have digits and capital letters.
pub(super) fn is_known_key(word: &str) -> bool {
    let is = |(beginning, shortest): &(&str, usize)| {
        // A JSON web token has three parts.
        let is_whole = *beginning != "eyJ" || word.matches('.').count() == 2;
        word.starts_with(beginning) && word.len() >= *shortest && is_whole
    };
    let has = |wanted: fn(&u8) -> bool| word.as_bytes().iter().any(wanted);
    let is_random =
        has(u8::is_ascii_uppercase) && (has(u8::is_ascii_digit) || word.starts_with('A'));
    is_random && BEGINNINGS.iter().any(is)
}

/// Replaces passwords in URLs, keys after `Bearer`, and keys that are known by their beginning, with asterisks of equal
/// number.
pub(super) fn in_text(text: &str) -> String {
    let mut shown: Vec<char> = text.chars().collect();
    let all = shown.clone();
    hide_in_text(&all, &mut shown);
    shown.into_iter().collect()
}

/// Does the same for a line of YAML, and replaces the values of keys that are named like secrets.
pub(super) fn in_line(line: &str) -> String {
    let mut shown: Vec<char> = line.chars().collect();
    let all = shown.clone();
    hide_in_text(&all, &mut shown);
    for at in 0..all.len() {
        if !matches!(all[at], ':' | '=') {
            continue;
        }
        let key = key_before(&all[..at]);
        let (from, to) = value(&all, at + 1);
        if names_a_secret(&key) && !is_number(&all[from..to])
            || key.ends_with("api-key-env") && !is_variable(&all[from..to])
        {
            hide(&all, (from, to), &mut shown);
        }
    }
    hide_after_flags(&all, &mut shown);
    shown.into_iter().collect()
}

/// Hides the item of a list that follows a flag named like a secret: `[--api-key, VALUE]`.
fn hide_after_flags(all: &[char], shown: &mut [char]) {
    let is_word = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    for at in 0..all.len() {
        if all[at] != '-' || at > 0 && is_word(&all[at - 1]) {
            continue;
        }
        let length = all[at..]
            .iter()
            .take(LONGEST)
            .take_while(|c| is_word(c))
            .count();
        let flag: String = all[at..at + length].iter().collect();
        if length < 3 || !names_a_secret(&flag) {
            continue;
        }
        let between = |c: &&char| c.is_whitespace() || matches!(c, '"' | '\'' | ',');
        let from = at + length + all[at + length..].iter().take_while(between).count();
        if from > at + length && all.get(from) != Some(&'-') {
            let ends = |c: &char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ']');
            let end = all[from..].iter().position(ends);
            hide(all, (from, end.map_or(all.len(), |n| from + n)), shown);
        }
    }
}

fn hide(all: &[char], (from, to): (usize, usize), shown: &mut [char]) {
    for at in from..to {
        if !all[at].is_whitespace() {
            shown[at] = '*';
        }
    }
}

fn hide_in_text(all: &[char], shown: &mut [char]) {
    let begins = |at: usize, text: &str| {
        let there = all[at..].iter().take(text.chars().count()).copied();
        there.eq(text.chars())
    };
    let ends_a_word = |c: &char| c.is_whitespace() || "\"'`,;{}[]()<>".contains(*c);
    let end_of_word = |from: usize| {
        all[from..]
            .iter()
            .position(ends_a_word)
            .map_or(all.len(), |n| from + n)
    };
    for at in 0..all.len() {
        if begins(at, "://") {
            let end = end_of_word(at + 3);
            let host = all[at + 3..end]
                .iter()
                .position(|c| matches!(c, '/' | '?' | '#'));
            let host = host.map_or(end, |n| at + 3 + n);
            if let Some(sign) = all[at + 3..host].iter().rposition(|c| *c == '@') {
                hide(all, (at + 3, at + 3 + sign), shown);
            }
        }
        let is_start = at == 0 || ends_a_word(&all[at - 1]) || matches!(all[at - 1], '=' | ':');
        if is_start && (begins(at, "Bearer ") || begins(at, "bearer ")) {
            hide(all, (at + 7, end_of_word(at + 7)), shown);
        }
        if is_start && BEGINNINGS.iter().any(|(b, _)| begins(at, b)) {
            let end = end_of_word(at);
            if end - at >= SHORTEST {
                hide(all, (at, end), shown);
            }
        }
    }
}

/// The most characters of a key that are read.
const LONGEST: usize = 100;

/// Returns the key at the end of a text, without quotes and in lower case, with hyphens.
fn key_before(text: &[char]) -> String {
    let is_name = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let before = text.iter().rev().skip_while(|c| c.is_whitespace());
    let before = before.skip_while(|c| matches!(c, '"' | '\''));
    let key: Vec<char> = before
        .take(LONGEST)
        .take_while(|c| is_name(c))
        .copied()
        .collect();
    let key: String = key.into_iter().rev().collect();
    key.to_ascii_lowercase().replace('_', "-")
}

/// Returns whether a name of a key, a header or a variable is that of a secret. It ends with such a word, such as `token` in
/// `X-Auth-Token`.
pub fn names_a_secret(name: &str) -> bool {
    let key = name.to_ascii_lowercase().replace('_', "-");
    let of_text = |before: &str| {
        let before = before.trim_end_matches('-');
        OF_TEXT.contains(&before.rsplit('-').next().unwrap_or_default())
    };
    if key.strip_suffix("token").is_some_and(of_text) {
        return false;
    }
    let is_last = |last: &str| {
        let rest = key.strip_suffix(last);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('-'))
    };
    NAMES.iter().any(|last| is_last(last))
}

/// Returns whether a text is a number with few digits, such as a number of tokens. No key and no password in use is that
/// short.
fn is_number(text: &[char]) -> bool {
    let text: String = text.iter().collect();
    let text = text.trim();
    text.len() < 8
        && text.bytes().any(|b| b.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// Returns whether a text can be the name of a variable. Otherwise it may be the secret itself.
fn is_variable(text: &[char]) -> bool {
    let word = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    text.iter().all(word) && !text.first().is_some_and(char::is_ascii_digit)
}

/// Returns where the value begins and ends that follows a key, half-open. The value of a mapping, a list or a
/// placeholder is not hidden.
fn value(all: &[char], from: usize) -> (usize, usize) {
    let blank = all[from..].iter().take_while(|c| c.is_whitespace()).count();
    let from = from + blank;
    let rest = &all[from..];
    match rest.first() {
        None | Some('{' | '[' | '$' | '#') => (from, from),
        Some('"' | '\'') if rest.get(1) == Some(&'$') => (from, from),
        Some(quote @ ('"' | '\'')) => {
            let length = rest[1..].iter().position(|c| c == quote);
            (from + 1, from + 1 + length.unwrap_or(rest.len() - 1))
        }
        Some(_) => {
            let length = rest.iter().position(|c| matches!(c, ',' | '}' | ']'));
            (from, from + length.unwrap_or(rest.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_of_a_line_is_shown_and_nothing_moves() {
        for (line, shown) in [
            (
                "running: \"http://ada:hunter2@host:80/x\"",
                "running: \"http://***********@host:80/x\"",
            ),
            (
                "headers: {Authorization: \"Bearer abc\"}}",
                "headers: {Authorization: \"****** ***\"}}",
            ),
            (
                "  X-Api-Key: hunter2, requests: 4",
                "  X-Api-Key: *******, requests: 4",
            ),
            ("api-key: hunter2", "api-key: *******"),
            ("api-key: 1234567890", "api-key: **********"),
            ("HF_TOKEN = 'hunter2' # x", "HF_TOKEN = '*******' # x"),
            ("\"db_password\": \"a b\"", "\"db_password\": \"* *\""),
            (
                "api-key-env: sk-proj-abcdefgh",
                "api-key-env: ****************",
            ),
            ("{api-key-env: \"hunter-2\"}", "{api-key-env: \"********\"}"),
            ("é: x, token: y", "é: x, token: *"),
            (
                "arguments: [--api-key, \"hunter2\", --port, \"8\"]",
                "arguments: [--api-key, \"*******\", --port, \"8\"]",
            ),
            ("[-e, HF_TOKEN=hunter2]", "[-e, HF_TOKEN=*******]"),
            (
                "curl -H 'Authorization: Bearer abc'",
                "curl -H 'Authorization: ****** ****",
            ),
        ] {
            assert_eq!(in_line(line), shown);
            assert_eq!(line.chars().count(), shown.chars().count());
        }
    }

    #[test]
    fn what_experiments_are_made_of_is_shown() {
        for line in [
            "workload: {prompts: {words: {length: 4}}, output: {tokens: 4}}",
            "api-key-env: MY_KEY",
            "token: \"${token}\"",
            "running: http://127.0.0.1:8000/v1",
            "max-tokens: 16, prompt-tokens: 5, tokenizer: x",
            "{output_token: 3, price_per_token: 0.25}",
            "columns: {first_token: ttft_column, time-to-first-token: b, last_token: c}",
            "keys: [die], authors: {a: b}",
            "arguments: [--max-tokens, \"4\", --api-key, --port, x]",
            "x: \"ada@example.org\"",
            "",
            ":",
            "token:",
        ] {
            assert_eq!(in_line(line), line);
        }
        assert_eq!(
            in_text("found `http://a:b@c`, or sk-x"),
            "found `http://***@c`, or sk-x"
        );
    }
}
