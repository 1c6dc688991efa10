//! GuideLLM's options since version 0.8: `kind=NAME,KEY=VALUE,…`.

use super::Given;
use super::options::A_SERIES;
use crate::other_words::api;

/// What one such option becomes.
#[derive(Default)]
pub(super) struct Kind {
    pub(super) urls: Vec<String>,
    pub(super) words: Vec<String>,
    /// The entries that no words replace.
    pub(super) left: Vec<String>,
    /// What to do instead of these entries.
    pub(super) why: &'static str,
}

impl Kind {
    fn write(&mut self, option: &str, value: &str) {
        self.words.extend([option.to_owned(), value.to_owned()]);
    }

    /// Returns the reason beside an option.
    pub(super) fn text(&self) -> String {
        match (self.urls.is_empty(), self.words.is_empty()) {
            (true, true) => "leave it out".to_owned(),
            (false, true) => "the URL alone".to_owned(),
            (false, false) => format!("the URL, `{}`", self.words.join(" ")),
            (true, false) => format!("`{}`", self.words.join(" ")),
        }
    }
}

/// Splits text at the commas outside brackets and braces.
fn entries(text: &str) -> Vec<&str> {
    let (mut all, mut depth, mut from) = (Vec::new(), 0_i32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                all.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    all.push(&text[from..]);
    all
}

/// Returns what an option of the form `kind=NAME,…` becomes; `None` for another form.
pub(super) fn of_kind(one: &Given) -> Option<Kind> {
    let value = one.value()?;
    let entries: Vec<(&str, &str)> = entries(value)
        .into_iter()
        .map(|entry| entry.split_once('=').unwrap_or((entry, "")))
        .collect();
    let (_, kind) = *entries.first().filter(|(key, _)| *key == "kind")?;
    let mut out = Kind::default();
    let levels = |value: &str| value.trim_matches(['[', ']']).replace(' ', "");
    match (one.option.as_str(), kind) {
        ("--profile", "synchronous") => out.write("--concurrency", "1"),
        ("--profile", "throughput") => out.write("--rate", "inf"),
        _ => {}
    }
    for (key, value) in &entries[1..] {
        match (one.option.as_str(), kind, *key) {
            ("--backend", "openai_http", "target") => out.urls.push((*value).to_owned()),
            ("--backend", "openai_http", "model") => out.write("--model", value),
            ("--backend", "openai_http", "request_format") => match api(value) {
                Some(ours) => out.write("--api", ours),
                None => out.left.push(format!("{key}={value}")),
            },
            ("--backend", "openai_http", "stream") if value.eq_ignore_ascii_case("false") => {
                out.words.push("--no-stream".to_owned());
            }
            ("--backend", "openai_http", "stream") => {}
            ("--profile", "concurrent", "streams") => out.write("--concurrency", &levels(value)),
            // Its `async` is the same as `constant`.
            ("--profile", "constant" | "async", "rate") => out.write("--constant", &levels(value)),
            ("--profile", "poisson", "rate") => out.write("--rate", &levels(value)),
            ("--profile", "throughput" | "constant" | "async" | "poisson", "max_concurrency") => {
                out.write("--max-concurrency", value);
            }
            ("--constraint", "max_duration", "seconds") => out.write("--duration", value),
            ("--constraint", "max_requests", "count") => out.write("--requests", value),
            ("--data", "synthetic_text", "prompt_tokens") => out.write("--input-len", value),
            ("--data", "synthetic_text", "output_tokens") => out.write("--output-len", value),
            ("--data", "json_file" | "csv_file", "path") => out.write("--dataset", value),
            ("--seed", "static", "value") => out.write("--seed", value),
            // It may hold a key.
            ("--backend", ..) => out.left.push(format!("{key}=…")),
            _ => out.left.push(format!("{key}={value}")),
        }
    }
    out.why = match one.option.as_str() {
        "--profile" => A_SERIES,
        "--data" => "name lengths, `--input-len N --output-len N`, or a file, `--dataset FILE`",
        _ => "`load` has no words for it",
    };
    let is_empty = out.words.is_empty() && out.urls.is_empty() && out.left.is_empty();
    if is_empty && kind != "openai_http" {
        out.left.push(format!("kind={kind}"));
    }
    Some(out)
}
