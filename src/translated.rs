//! A command line of another load generator in our words: everything in it that differs, at once, and the same load as a
//! command of ours.
//!
//! The words are taken as they are written: an option has the words after it up to the next option, and a word that begins
//! with `http://` is a URL. The command is one that `load` accepts: what `load` refuses is left out, with the reason.

use std::error::Error as _;
use std::fmt::Write as _;

use clap::error::{ContextKind, ContextValue};

use crate::args::{self, Command, LoadArgs};
use crate::commands;
use crate::effect_text::to_copy;
use address::{Address, OF_A_URL, has_scheme, is_address};
use defaults::{Aspect, Gaps};
use options::{fits, own_api, same, with_unit};
use tools::{Theirs, without_a_server};

mod address;
mod apis;
mod defaults;
mod http;
mod kinds;
mod options;
mod spans;
#[cfg(test)]
mod tests;
mod tools;
mod traces;

/// Options whose values may be secrets, which are not repeated.
const SECRET: [&str; 7] = [
    "--api-key",
    "--key",
    "--token",
    "--header",
    "-H",
    "-a",
    "-A",
];

/// An option with the words after it.
struct Given {
    option: String,
    values: Vec<String>,
}

impl Given {
    fn value(&self) -> Option<&str> {
        self.values.first().map(String::as_str)
    }

    /// Returns the option as it was typed, without what may be a secret.
    fn word(&self) -> String {
        let is_secret = |value: &String| {
            let text = value.to_lowercase().replace('-', "_");
            ["api_key", "authorization", "header"]
                .iter()
                .any(|word| text.contains(word))
        };
        let hides = SECRET.contains(&self.option.as_str()) || self.values.iter().any(is_secret);
        match (hides, self.values.is_empty()) {
            (false, false) => format!("{} {}", self.option, self.values.join(" ")),
            (true, false) => format!("{} …", self.option),
            (_, true) => self.option.clone(),
        }
    }
}

/// What is written instead of an option.
enum Instead {
    /// It is ours.
    Same(Vec<String>),
    /// These words.
    Words(Vec<String>),
    /// Nothing: the option is not needed.
    LeaveOut,
    /// Nothing: no words replace it, and the reason says what to do.
    Nothing,
}

/// Words of the command, and the option in whose place they are.
struct Piece {
    /// The option as it was typed.
    word: String,
    aspects: &'static [Aspect],
    words: Vec<String>,
}

/// A command line as far as it is translated.
#[derive(Default)]
struct Translation {
    /// Each option that differs, and why.
    differences: Vec<(String, String)>,
    pieces: Vec<Piece>,
    /// What the options say that were left out.
    lost: Vec<Aspect>,
    has_names: bool,
    /// Whether it is the command line of another tool. What `load` refuses in one of its own, its parser says.
    is_foreign: bool,
    /// Whether an option was left out that the load would need.
    is_partial: bool,
}

impl Translation {
    /// Adds what becomes of an option.
    fn add(&mut self, word: String, aspects: &'static [Aspect], (instead, why): (Instead, String)) {
        self.has_names |= !matches!(instead, Instead::Same(_) | Instead::Nothing);
        match instead {
            Instead::Same(words) => self.put(word, aspects, words),
            Instead::Words(words) => {
                self.differences.push((word.clone(), why));
                self.put(word, aspects, words);
            }
            Instead::LeaveOut => self.differences.push((word, why)),
            Instead::Nothing => self.leave_out(word, aspects, &why),
        }
    }

    fn leave_out(&mut self, word: String, aspects: &'static [Aspect], why: &str) {
        self.is_partial = true;
        self.lost.extend(aspects);
        let why = format!("left out below: {why}");
        match self
            .differences
            .iter_mut()
            .find(|(other, _)| *other == word)
        {
            Some(difference) => difference.1 = why,
            None => self.differences.push((word, why)),
        }
    }

    /// Puts words at the end of the command. A switch is given once, and a later API replaces an earlier one.
    fn put(&mut self, word: String, aspects: &'static [Aspect], words: Vec<String>) {
        if self.is_foreign && !fits(&words) {
            let why = format!("`{}` takes fewer values", words[0]);
            return self.leave_out(word, aspects, &why);
        }
        match words.as_slice() {
            [switch]
                if self
                    .pieces
                    .iter()
                    .any(|piece| piece.words == [switch.as_str()]) =>
            {
                return;
            }
            [api, _] if api == "--api" => {
                self.pieces.retain(|piece| piece.words.first() != Some(api));
            }
            _ => {}
        }
        self.pieces.push(Piece {
            word,
            aspects,
            words,
        });
    }

    /// Returns the command: its beginning and the words of each option. Options of other tools that `load` refuses are left
    /// out.
    fn settled(&mut self, beginning: &[String]) -> Vec<String> {
        loop {
            let pieces = self.pieces.iter().flat_map(|piece| &piece.words);
            let words: Vec<String> = beginning.iter().chain(pieces).cloned().collect();
            let refused = args::parse(&words).err().filter(|_| self.is_foreign);
            let culprit = refused.and_then(|error| self.culprit(&error));
            let Some((at, why)) = culprit else {
                return words;
            };
            let Piece { word, aspects, .. } = self.pieces.remove(at);
            self.leave_out(word, aspects, &why);
        }
    }

    /// Returns the words that the parser refuses, and its reason.
    fn culprit(&self, error: &clap::Error) -> Option<(usize, String)> {
        let named = match error.get(ContextKind::InvalidArg)? {
            ContextValue::String(one) => one.as_str(),
            ContextValue::Strings(all) => all.first()?.as_str(),
            _ => return None,
        };
        let option = named.split([' ', '=']).next()?;
        let has = |piece: &Piece| piece.words.iter().any(|word| same(word, option));
        let at = self.pieces.iter().rposition(has)?;
        let why = match (error.source(), error.get(ContextKind::PriorArg)) {
            (Some(reason), _) => reason.to_string(),
            (None, Some(ContextValue::String(other))) => {
                format!("`load` takes it only without `{other}`")
            }
            _ => format!("`{option}` does not take this value"),
        };
        Some((at, why))
    }
}

/// Returns the message for a command line of another tool, and for one of `load` with at least two differences from ours;
/// `None` for any other.
pub(crate) fn explained(words: &[String]) -> Option<String> {
    let after = words.get(1..)?;
    if let Some(message) = without_a_server(after) {
        return Some(message);
    }
    let theirs = match after.first().map(String::as_str) {
        Some("load") => None,
        _ => Some(Theirs::of(after)?),
    };
    let theirs = theirs.as_ref();
    let rest = match theirs {
        Some(theirs) => theirs.rest(after),
        None => after[1..].to_vec(),
    };
    let (urls, given) = split(&rest, theirs);
    // The name of a command alone is answered with ours.
    if given.is_empty() && urls.is_empty() {
        return None;
    }
    let mut all = Translation {
        is_foreign: theirs.is_some(),
        ..Translation::default()
    };
    if let Some(theirs) = theirs {
        let why = "the command is `benchtrail load`".to_owned();
        all.differences.push((theirs.command.clone(), why));
    }
    let mut address = Address::new(urls);
    for one in &given {
        translate(theirs, one, &given, &mut address, &mut all);
    }
    all.has_names |= !address.differences.is_empty();
    all.differences.append(&mut address.differences);
    let has_api = |piece: &Piece| piece.words.iter().any(|word| word == "--api");
    if let Some(api) = address.api()
        && !all.pieces.iter().any(has_api)
    {
        let words = vec!["--api".to_owned(), api.to_owned()];
        all.put(String::new(), &[], words);
    }
    if let Some(theirs) = theirs {
        http::limit_a_rate(theirs.tool, &mut all.pieces);
    }
    let (port, is_stated) = defaults::address(theirs, &given);
    let without_address = (!is_stated && !address.is_given()).then_some("address");
    let mut beginning = vec!["benchtrail".to_owned(), "load".to_owned()];
    beginning.extend(address.url(port));
    let mut words = all.settled(&beginning);
    if theirs.is_none() && all.differences.len() < 2 {
        return None;
    }
    let mut gaps = theirs
        .map(|theirs| defaults::fill(theirs, &given, &all.lost, &mut words))
        .unwrap_or_default();
    gaps.own.splice(0..0, without_address);
    let heading = match (all.has_names, !all.is_partial) {
        (true, _) => "error: `benchtrail load` has other names for these options:",
        (false, false) => "error: `benchtrail load` does not have these options:",
        (false, true) => "error: only the name of the command differs:",
    };
    let refusal = |load: &LoadArgs| theirs.and_then(|_| commands::refusal(load));
    let hint = hint(&words, !all.is_partial, &gaps, refusal);
    Some(text(heading, &all.differences, &hint))
}

/// Adds what becomes of one option.
fn translate(
    theirs: Option<&Theirs>,
    one: &Given,
    given: &[Given],
    address: &mut Address,
    all: &mut Translation,
) {
    let tool = theirs.map_or("", |theirs| theirs.tool);
    let aspects = defaults::aspects(tool, &one.option);
    if let Some(kind) = theirs
        .filter(|theirs| theirs.tool == "guidellm")
        .and_then(|_| kinds::of_kind(one))
    {
        address.urls.extend(kind.urls.iter().cloned());
        if !kind.left.is_empty() {
            let word = match kind.words.is_empty() && kind.urls.is_empty() {
                true => one.word(),
                false => format!("{} …,{}", one.option, kind.left.join(",")),
            };
            all.leave_out(word, aspects, kind.why);
        }
        if !kind.words.is_empty() || !kind.urls.is_empty() || kind.left.is_empty() {
            all.has_names = true;
            all.differences.push((one.word(), kind.text()));
            // Each option is refused alone.
            let mut words = kind.words.as_slice();
            while let [first, rest @ ..] = words {
                let values = rest
                    .iter()
                    .take_while(|word| !word.starts_with("--"))
                    .count();
                let piece = [std::slice::from_ref(first), &rest[..values]].concat();
                all.put(one.word(), aspects, piece);
                words = &rest[values..];
            }
        }
        return;
    }
    if address.takes(one) {
        return;
    }
    let rate_type = given
        .iter()
        .find(|g| ["--rate-type", "--profile"].contains(&g.option.as_str()))
        .and_then(Given::value);
    let (mut instead, why) = theirs
        .and_then(|theirs| options::of_tool(theirs, one, given))
        .or_else(|| own_api(one))
        .or_else(|| apis::of_an_api(tool, one))
        .or_else(|| with_unit(one))
        .or_else(|| options::of_a_data_set(theirs, one, given))
        .unwrap_or_else(|| options::instead(theirs, one, rate_type));
    if let (Some(_), Instead::Same(words) | Instead::Words(words)) = (theirs, &mut instead) {
        spans::with_units(words);
    }
    all.add(one.word(), aspects, (instead, why));
}

/// Returns the message over the differences.
fn text(heading: &str, differences: &[(String, String)], hint: &str) -> String {
    let widest = differences.iter().map(|(word, _)| word.chars().count());
    let width = widest.filter(|width| *width <= 40).max().unwrap_or(0);
    let mut text = format!("{heading}\n");
    for (word, why) in differences {
        let _ = writeln!(text, "  {word:<width$}  {why}");
    }
    text + hint
}

/// Returns the command, if `load` accepts it, with what about the load is not the other tool's.
fn hint(
    words: &[String],
    is_whole: bool,
    gaps: &Gaps,
    refusal: impl Fn(&LoadArgs) -> Option<String>,
) -> String {
    let Ok(Command::Load(load)) = args::parse(words).map(|cli| cli.command) else {
        return "hint: docs/coming-from.md lists our options; `benchtrail load --help` describes them"
            .to_owned();
    };
    if let Some(reason) = refusal(&load) {
        return format!(
            "hint: `benchtrail load` does not send such a load: {reason}; docs/coming-from.md lists our options"
        );
    }
    let words: Vec<String> = words.iter().map(|word| to_copy(word)).collect();
    let ours = match gaps.own.as_slice() {
        [] => String::new(),
        [one] => format!("our own {one}"),
        [first @ .., last] => format!("our own {} and {last}", first.join(", ")),
    };
    let fixed = match gaps.is_fixed {
        true => "answers of fixed length",
        false => "",
    };
    let with = match (ours.as_str(), fixed) {
        ("", "") => String::new(),
        (one, "") | ("", one) => format!(", with {one}"),
        (ours, fixed) => format!(", with {ours}, and with {fixed}"),
    };
    let what = match (is_whole, with.is_empty()) {
        (true, true) => "the same load",
        (true, false) => "a similar load",
        (false, _) => "the load without what is left out",
    };
    format!("hint: {what}{with}: {}", words.join(" "))
}

/// Splits words into URLs and options with their values.
fn split(words: &[String], theirs: Option<&Theirs>) -> (Vec<String>, Vec<Given>) {
    let mut urls = Vec::new();
    let mut given: Vec<Given> = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if word == "--" {
            // What follows it is for another program.
            if theirs.is_some() {
                given.push(Given {
                    option: word.clone(),
                    values: words[at + 1..].to_vec(),
                });
                break;
            }
            continue;
        }
        let is_option =
            word.starts_with('-') && word[1..].starts_with(|c: char| c == '-' || c.is_alphabetic());
        if is_option {
            let (option, value) = match word.split_once('=').filter(|_| word.starts_with("--")) {
                Some((option, value)) => (option, Some(value.to_owned())),
                // `-c10`
                None if word
                    .get(2..)
                    .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) =>
                {
                    (&word[..2], Some(word[2..].to_owned()))
                }
                None => (word.as_str(), None),
            };
            // vLLM accepts `_` for `-`.
            let option = option.replace('_', "-");
            let renamed = theirs.map(|theirs| theirs.renamed(&option).to_owned());
            given.push(Given {
                option: renamed.unwrap_or(option),
                values: value.into_iter().collect(),
            });
            continue;
        }
        let of_url = |g: &Given| OF_A_URL.contains(&g.option.as_str()) && g.values.is_empty();
        let is_of_http = theirs.is_some_and(Theirs::is_of_http);
        let is_url = |last: &Given| {
            let has_value = is_of_http && !last.values.is_empty();
            (has_scheme(word) || (has_value && is_address(word))) && !of_url(last)
        };
        match given.last_mut() {
            Some(last) if !is_url(last) => last.values.push(word.clone()),
            None if theirs.is_some() && !is_address(word) => given.push(Given {
                option: word.clone(),
                values: Vec::new(),
            }),
            _ => urls.push(word.clone()),
        }
    }
    (urls, given)
}
