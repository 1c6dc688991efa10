//! Secrets in the environment. A program that inherits them may repeat them in its log, and logs are published.

use std::ffi::OsString;
use std::fmt;

/// Words in the name of a variable whose value may be a secret.
const NAMES: [&str; 9] = [
    "KEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "CONNECTION_STRING",
    "AUTHORIZATION",
];

/// The last words of such names that are too short to be looked for within one.
const LAST_WORDS: [&str; 4] = ["PASS", "PWD", "AUTH", "PAT"];

/// The shortest secret that is masked, bytes. A shorter value, such as `1` or `true`, is also a word of every log.
pub(crate) const SHORTEST: usize = 6;

/// Returns whether a variable may hold a secret: its name says so, or its value is a URL with a password.
pub fn may_be_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let last = name.rsplit_once('_').map(|(_, last)| last);
    NAMES.iter().any(|word| name.contains(word))
        || last.is_some_and(|last| LAST_WORDS.contains(&last))
        || password_of(value).is_some()
}

/// Returns the password in a URL.
fn password_of(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("://")?;
    let (authority, _) = rest.split_once(['/', '?', '#']).unwrap_or((rest, ""));
    let (user, _) = authority.rsplit_once('@')?;
    let (_, password) = user.split_once(':')?;
    (!password.is_empty()).then_some(password)
}

/// The secrets that a program may inherit. They cannot be printed; [`Secrets::mask`] removes them from what it writes.
#[derive(Clone, Default)]
pub struct Secrets(Vec<(String, String)>);

impl Secrets {
    /// Reads the variables of this process, which the programs that it starts may inherit, and keeps those that may hold
    /// a secret.
    #[expect(
        clippy::disallowed_methods,
        reason = "a log must not repeat what a program inherits"
    )]
    pub fn of_this_process() -> Self {
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self::of(std::env::vars_os().filter_map(text))
    }

    /// Keeps those of these variables, name and value, that may hold a secret.
    pub fn of(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut secrets: Vec<(String, String)> = Vec::new();
        for (name, value) in variables {
            if !may_be_secret(&name, &value) {
                continue;
            }
            let mask = format!("[{name}]");
            let parts = [value.trim(), password_of(&value).unwrap_or_default()];
            for part in parts.into_iter().filter(|part| part.len() >= SHORTEST) {
                secrets.push((part.to_owned(), mask.clone()));
            }
        }
        // A secret may contain another one.
        secrets.sort_by_key(|(secret, _)| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self(secrets)
    }

    /// Replaces the secrets in a text by the names of their variables.
    pub fn mask(&self, text: &str) -> String {
        let mut masked = text.to_owned();
        for (secret, mask) in &self.0 {
            masked = replace(&masked, secret, mask);
        }
        masked
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets(…)")
    }
}

/// Finds a secret in a text from a position on: as it is, or with characters of it escaped for JSON, for URLs or for HTML.
/// Returns its first and its last position, half-open.
pub(crate) fn find(text: &[u8], from: usize, secret: &[u8]) -> Option<(usize, usize)> {
    let first = *secret.first()?;
    let may_begin = |byte: u8| byte == first || matches!(byte, b'\\' | b'%' | b'&');
    (from..text.len())
        .filter(|at| may_begin(text[*at]))
        .find_map(|at| Some((at, end_of(text, at, secret)?)))
}

/// Replaces a secret in a text, and the beginning of one with which the text ends because it was cut there.
pub(crate) fn replace(text: &str, secret: &str, mask: &str) -> String {
    let (mut masked, mut from) = (String::new(), 0);
    while let Some((start, end)) = find(text.as_bytes(), from, secret.as_bytes()) {
        masked.push_str(&text[from..start]);
        masked.push_str(mask);
        from = end;
    }
    let (rest, bytes) = (&text[from..], secret.as_bytes());
    match (0..rest.len()).find(|at| ends_within(rest.as_bytes(), *at, bytes)) {
        Some(start) => masked.extend([&rest[..start], mask]),
        None => masked.push_str(rest),
    }
    masked
}

/// The most bytes that stand for one byte of a secret: those of a character reference of HTML.
const LONGEST_FORM: usize = 12;

/// Returns whether a text ends within a secret that begins here, and has at least [`SHORTEST`] bytes of it.
fn ends_within(text: &[u8], at: usize, secret: &[u8]) -> bool {
    if text.len() - at > secret.len() * LONGEST_FORM {
        return false;
    }
    let mut ends = vec![at];
    for (read, byte) in secret.iter().enumerate() {
        // What is left may be the beginning of an escaped character.
        let is_cut = |end: &usize| match &text[*end..] {
            [] => true,
            [first, rest @ ..] => matches!(first, b'\\' | b'%' | b'&') && rest.len() < LONGEST_FORM,
        };
        if read >= SHORTEST && ends.iter().any(is_cut) {
            return true;
        }
        ends = after(text, &ends, *byte);
        if ends.is_empty() {
            return false;
        }
    }
    false
}

/// Returns where a secret ends that begins here.
fn end_of(text: &[u8], at: usize, secret: &[u8]) -> Option<usize> {
    let mut ends = vec![at];
    for byte in secret {
        ends = after(text, &ends, *byte);
        if ends.is_empty() {
            return None;
        }
    }
    ends.last().copied()
}

/// Returns where a byte ends, in any of its forms, that begins at one of these positions; sorted.
fn after(text: &[u8], positions: &[usize], byte: u8) -> Vec<usize> {
    let ends = positions.iter();
    let mut ends: Vec<usize> = ends.flat_map(|at| ends_of_byte(text, *at, byte)).collect();
    ends.sort_unstable();
    ends.dedup();
    ends
}

/// The most backslashes before a character: of JSON within JSON.
const BACKSLASHES: usize = 4;

/// Returns where each form of a byte ends that begins here.
fn ends_of_byte(text: &[u8], at: usize, byte: u8) -> impl Iterator<Item = usize> {
    let rest = text.get(at..).unwrap_or_default();
    let plain = (rest.first() == Some(&byte)).then_some(1);
    let hex = |digits: Option<&[u8]>| {
        let digits = std::str::from_utf8(digits?).ok()?;
        u32::from_str_radix(digits, 16).ok()
    };
    let is = |value: Option<u32>| value == Some(u32::from(byte));
    let slashes = rest.iter().take_while(|b| **b == b'\\').count();
    let after = &rest[slashes..];
    let in_json = match slashes {
        1..=BACKSLASHES if after.first() == Some(&byte) => Some(slashes + 1),
        1..=BACKSLASHES if after.first() == Some(&b'u') && is(hex(after.get(1..5))) => {
            Some(slashes + 5)
        }
        // A backslash that is itself escaped.
        2..=BACKSLASHES if byte == b'\\' => Some(slashes),
        _ => None,
    };
    let in_url = (rest.first() == Some(&b'%') && is(hex(rest.get(1..3)))).then_some(3);
    let in_html = entity(rest)
        .filter(|(code, _)| is(Some(*code)))
        .map(|e| e.1);
    let all = [plain, in_json, in_url, in_html];
    all.into_iter().flatten().map(move |length| at + length)
}

/// Reads a character reference of HTML; returns the character and the length of the reference.
fn entity(rest: &[u8]) -> Option<(u32, usize)> {
    let name = rest.strip_prefix(b"&")?;
    let end = name.iter().take(10).position(|b| *b == b';')?;
    let name = std::str::from_utf8(&name[..end]).ok()?;
    let code = match name {
        "amp" => u32::from('&'),
        "lt" => u32::from('<'),
        "gt" => u32::from('>'),
        "quot" => u32::from('"'),
        "apos" => u32::from('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => number.parse().ok()?,
            }
        }
    };
    Some((code, end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_known_by_the_name_of_its_variable_or_by_a_password_in_it() {
        for (name, value) in [
            ("HF_TOKEN", "x"),
            ("my_api_key", "x"),
            ("DB_PASS", "x"),
            ("GITHUB_PAT", "x"),
            ("AZURE_STORAGE_CONNECTION_STRING", "x"),
            ("HTTPS_PROXY", "http://ada:correct-horse@proxy:3128"),
            ("REDIS_URL", "redis://:correct-horse@host/0"),
        ] {
            assert!(may_be_secret(name, value), "{name}");
        }
        for (name, value) in [
            ("PATH", "/usr/bin:/bin"),
            ("LD_LIBRARY_PATH", "/opt/lib"),
            ("CUDA_VISIBLE_DEVICES", "0,1"),
            ("HTTPS_PROXY", "http://proxy:3128"),
            ("ORIGIN", "https://host/a:b@c"),
        ] {
            assert!(!may_be_secret(name, value), "{name}");
        }
    }

    #[test]
    fn a_secret_is_masked_in_every_form_in_which_programs_write_it() {
        let variables = [
            ("HF_TOKEN", "ab/cd+\"ef&gh".to_owned()),
            ("PROXY", "http://ada:correct-horse@proxy:3128".to_owned()),
            ("SHORT_KEY", "1".to_owned()),
            ("MODE", "verbose".to_owned()),
        ];
        let secrets = Secrets::of(variables.map(|(name, value)| (name.to_owned(), value)));
        for (text, masked) in [
            ("token ab/cd+\"ef&gh.", "token [HF_TOKEN]."),
            (
                r#"{"token": "ab\/cd+\"ef&gh"}"#,
                r#"{"token": "[HF_TOKEN]"}"#,
            ),
            ("?t=ab%2Fcd%2B%22ef%26gh", "?t=[HF_TOKEN]"),
            ("?t=ab%2fcd%2b%22ef%26gh", "?t=[HF_TOKEN]"),
            ("<b>ab/cd+&quot;ef&amp;gh</b>", "<b>[HF_TOKEN]</b>"),
            ("<b>ab&#x2F;cd&#43;&#34;ef&amp;gh</b>", "<b>[HF_TOKEN]</b>"),
            (
                r#""{\"token\": \"ab\\\/cd+\\\"ef\u0026gh\"}""#,
                r#""{\"token\": \"[HF_TOKEN]\"}""#,
            ),
            (
                "ab/cd+\"ef&g and 100% of \\ & &#; %",
                "ab/cd+\"ef&g and 100% of \\ & &#; %",
            ),
            (
                "through http://ada:correct-horse@proxy:3128",
                "through [PROXY]",
            ),
            ("password correct-horse", "password [PROXY]"),
            ("1 verbose line", "1 verbose line"),
        ] {
            assert_eq!(secrets.mask(text), masked);
        }
        assert_eq!(format!("{secrets:?}"), "Secrets(…)");
    }
}
