//! What to write instead of an option.

use std::sync::LazyLock;

use clap::CommandFactory as _;
use contract::{Api, Word as _};
use pipeline::suggest::{closest, did_you_mean};

use super::tools::{Theirs, synthetic};
use super::{Given, Instead};
use crate::args::Cli;
use crate::other_words::{Saying, api, saying};

/// Options of ours whose values are lists of levels: other tools separate them by spaces.
const LEVELS: [&str; 3] = ["--concurrency", "--rate", "--request-rate"];

/// What to write instead of a kind of load that finds its levels itself.
pub(super) const A_SERIES: &str = "name the levels: `--concurrency 1,8,64` or `--rate 1,2,4,inf`";

/// Data sets of files whose format `load` recognizes.
const READ: [&str; 3] = ["sharegpt", "custom", "mooncake"];

/// Options of tools that write the spread of a length into an option of its own.
fn is_spread(option: &str) -> bool {
    option.ends_with("-stddev") || option.starts_with("--stddev-") || option.ends_with("-stdev")
}

/// Returns what to write instead of an option that a tool reads in its own way; `None` if it has the usual meaning.
pub(super) fn of_tool(theirs: &Theirs, one: &Given, given: &[Given]) -> Option<(Instead, String)> {
    if let Some(words) = theirs.drawn(one, given) {
        if words.is_empty() {
            return Some(left_out(": all lengths are the same without it"));
        }
        let why = format!(
            "`{}`: without --random-range-ratio, the lengths vary",
            words.join(" ")
        );
        return Some((Instead::Words(words), why));
    }
    let is_zero = |value: &str| value.parse::<f64>().is_ok_and(|n| n.abs() <= 0.0);
    if is_spread(&one.option) && one.value().is_some_and(is_zero) {
        return Some(left_out(": all lengths are the same without it"));
    }
    if let Some(instead) = theirs.trace(one, given) {
        return Some(instead);
    }
    if let Some(instead) = theirs.option(one, given) {
        return Some(instead);
    }
    match one.option.as_str() {
        "--" => Some(nothing("what follows it is for another program")),
        option if !option.starts_with('-') => Some(nothing("it is neither an option nor a URL")),
        // Letters mean something else in each tool of HTTP, and are listed.
        option if theirs.is_of_http() && !option.starts_with("--") => {
            Some(nothing("`load` does not have this option"))
        }
        _ => None,
    }
}

/// Returns what to write instead of the name and the file of a data set.
pub(super) fn of_a_data_set(
    theirs: Option<&Theirs>,
    one: &Given,
    given: &[Given],
) -> Option<(Instead, String)> {
    let named = |option: &str| {
        let one = given.iter().find(|other| other.option == option);
        one.and_then(Given::value)
    };
    let name = named("--dataset-name")?;
    let is_random = name == "random" || name == "random-ids";
    let is_read = READ.contains(&name);
    let has_file = named("--dataset-path").is_some();
    match one.option.as_str() {
        "--dataset-name" if is_random => Some(left_out(
            ": `--input-len` and `--output-len` ask for random prompts",
        )),
        "--dataset-name" if is_read && has_file => {
            Some(left_out(": the format of the file is recognized"))
        }
        "--dataset-name" if has_file => Some(nothing(
            "`load` does not read this format: write the prompts into JSON Lines, and give `--dataset FILE`",
        )),
        "--dataset-path" if theirs.is_some() && is_random => {
            Some(nothing("random prompts here are made of random words"))
        }
        "--dataset-path" if theirs.is_some() && !is_read => {
            Some(nothing("`load` does not read the format of this data set"))
        }
        _ => None,
    }
}

/// Returns what to write instead of an option, and why.
pub(super) fn instead(
    theirs: Option<&Theirs>,
    one: &Given,
    rate_type: Option<&str>,
) -> (Instead, String) {
    let with = |option: &str| {
        let mut words = vec![option.to_owned()];
        words.extend(one.values.iter().cloned());
        words
    };
    let value = one.value().unwrap_or_default();
    let option = one.option.as_str();
    match option {
        "--rate" if rate_type == Some("concurrent") => {
            let words = vec!["--concurrency".to_owned(), one.values.join(",")];
            return (
                Instead::Words(words),
                "these are clients: `--concurrency`".to_owned(),
            );
        }
        // GuideLLM takes it as the most requests in flight.
        "--rate" if rate_type == Some("throughput") => {
            let words = vec!["--max-concurrency".to_owned(), value.to_owned()];
            return (Instead::Words(words), "`--max-concurrency N`".to_owned());
        }
        "--rate" if rate_type == Some("sweep") => {
            return nothing("it is the number of levels of the sweep; name the levels");
        }
        // GuideLLM's `async` is the same as `constant`.
        "--rate" if matches!(rate_type, Some("constant" | "async")) => {
            return (
                Instead::Words(with("--constant")),
                "`--constant R`".to_owned(),
            );
        }
        "--rate-type" | "--profile" => return of_rate_type(value),
        "--data" => {
            if let Some(words) = synthetic(value) {
                let why = format!("`{}`", words.join(" "));
                return (Instead::Words(words), why);
            }
        }
        "--tokenizer" if !value.is_empty() && !value.ends_with(".json") => {
            return left_out(": the server counts; or name a file, `tokenizer.json`");
        }
        "--header" | "-H" if !one.values.iter().any(|value| value.contains(':')) => {
            return nothing(
                "a header is written `--header 'NAME: VALUE'`; for a key use `--api-key-env MY_KEY`",
            );
        }
        option if LEVELS.contains(&option) && one.values.len() > 1 => {
            let words = vec![option.to_owned(), one.values.join(",")];
            return (
                Instead::Words(words),
                "separate the levels with commas".to_owned(),
            );
        }
        _ => {}
    }
    if is_ours(option) {
        return (Instead::Same(with(option)), String::new());
    }
    let Some(saying) = saying(option) else {
        return unknown(theirs, option, with);
    };
    match proposed(saying, &one.values) {
        Some(words) => (Instead::Words(words), saying.text()),
        None => without(saying),
    }
}

/// Returns what to write instead of an option that nothing is known about. Options of other tools with a similar name
/// mean something else.
fn unknown(
    theirs: Option<&Theirs>,
    option: &str,
    with: impl Fn(&str) -> Vec<String>,
) -> (Instead, String) {
    let flags = SPELLINGS.iter().flat_map(|(names, _)| names);
    let near = closest(option, flags.map(String::as_str));
    match (near, theirs) {
        (Some(near), None) => (Instead::Words(with(near)), did_you_mean(near)),
        (Some(near), Some(_)) => (
            Instead::Nothing,
            format!("`load` does not have this option; `{near}` has a similar name"),
        ),
        (None, _) => nothing("`load` does not have this option, and no option has a similar name"),
    }
}

/// Returns what to write instead of guidellm's kind of load.
fn of_rate_type(value: &str) -> (Instead, String) {
    let (words, why) = match value {
        "synchronous" => (["--concurrency", "1"], "one client: `--concurrency 1`"),
        "throughput" => (["--rate", "inf"], "all at once: `--rate inf`"),
        "concurrent" | "constant" | "poisson" | "async" => {
            return left_out(": the option for the level says it");
        }
        "" => return nothing("a load switches on no profiler of the server"),
        _ => return nothing(A_SERIES),
    };
    let words = words.map(str::to_owned).to_vec();
    (Instead::Words(words), why.to_owned())
}

/// Returns an API in our own words, as it is.
pub(super) fn own_api(one: &Given) -> Option<(Instead, String)> {
    let api = one.value().filter(|_| one.option == "--api")?;
    Api::parse(api).ok()?;
    let words = vec![one.option.clone(), api.to_owned()];
    Some((Instead::Same(words), String::new()))
}

/// Returns our option for a time without a unit: milliseconds in genai-perf, seconds in other tools.
pub(super) fn with_unit(one: &Given) -> Option<(Instead, String)> {
    let (ours, unit) = match one.option.as_str() {
        "--measurement-interval" => ("--duration", "ms"),
        "--timeout-sec" | "--request-timeout-seconds" | "--timeout" => ("--timeout", "s"),
        _ => return None,
    };
    let value = one.value()?;
    value.parse::<f64>().ok()?;
    let words = vec![ours.to_owned(), format!("{value}{unit}")];
    let why = format!("`{}`", words.join(" "));
    Some((Instead::Words(words), why))
}

/// Returns that an option is not needed, with the rest of the sentence that says why.
pub(super) fn left_out(rest: &'static str) -> (Instead, String) {
    without(Saying::LeaveOut(rest))
}

/// Returns that no words replace an option, with the reason.
pub(super) fn nothing(why: &str) -> (Instead, String) {
    (Instead::Nothing, why.to_owned())
}

/// Returns a saying that puts no words in the place of an option.
pub(super) fn without(saying: Saying) -> (Instead, String) {
    let instead = match saying {
        Saying::LeaveOut(_) => Instead::LeaveOut,
        Saying::Write(..) | Saying::Advise(_) => Instead::Nothing,
    };
    (instead, saying.text())
}

/// Returns the words that a saying puts in the place of an option with these values: an option with a placeholder for a
/// number, a duration or a name takes the same values.
fn proposed(saying: Saying, values: &[String]) -> Option<Vec<String>> {
    let Saying::Write(_, written, _) = saying else {
        return None;
    };
    let (option, value) = written.split_once(' ').unwrap_or((written, ""));
    if !is_ours(option) {
        return None;
    }
    let mut words = vec![option.to_owned()];
    match value {
        "" | "N" | "R" | "SPAN" | "NAME" => words.extend(values.iter().cloned()),
        value if api(value).is_some() => words.push(value.to_owned()),
        _ => return None,
    }
    Some(words)
}

/// The spellings of each option of `load`, with the most values that it takes.
static SPELLINGS: LazyLock<Vec<(Vec<String>, usize)>> = LazyLock::new(spellings);

fn spellings() -> Vec<(Vec<String>, usize)> {
    let cli = Cli::command();
    let Some(load) = cli.find_subcommand("load") else {
        return Vec::new();
    };
    let arguments = load.get_arguments().chain(cli.get_arguments());
    let all = arguments.map(|argument| {
        let longs = argument
            .get_long()
            .into_iter()
            .chain(argument.get_all_aliases().into_iter().flatten());
        let short = argument.get_short().map(|short| format!("-{short}"));
        let names = longs.map(|long| format!("--{long}")).chain(short);
        let most = match argument.get_action().takes_values() {
            true => argument
                .get_num_args()
                .map_or(1, |count| count.max_values()),
            false => 0,
        };
        (names.collect(), most)
    });
    all.collect()
}

fn is_ours(option: &str) -> bool {
    let mut all = SPELLINGS.iter().flat_map(|(names, _)| names);
    all.any(|name| name == option)
}

/// Returns whether two spellings are those of the same option of `load`.
pub(super) fn same(one: &str, other: &str) -> bool {
    let has = |names: &[String], option: &str| names.iter().any(|name| name == option);
    let all = &*SPELLINGS;
    one == other
        || all
            .iter()
            .any(|(names, _)| has(names, one) && has(names, other))
}

/// Returns whether each option among the words has at most as many values as it takes. Further ones would be URLs.
pub(super) fn fits(words: &[String]) -> bool {
    let all = &*SPELLINGS;
    let mut rest = words;
    while let [option, after @ ..] = rest {
        let is_option = |word: &&String| {
            word.starts_with("--") || all.iter().any(|(names, _)| names.contains(*word))
        };
        let values = after.iter().take_while(|word| !is_option(word)).count();
        let entry = all.iter().find(|(names, _)| names.contains(option));
        if entry.is_some_and(|(_, most)| values > *most) {
            return false;
        }
        rest = &after[values..];
    }
    true
}
