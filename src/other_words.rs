//! Other load generators' words for our options, so that a user who types one gets ours.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory as _, Error};
use pipeline::suggest::closest;

use crate::args::Cli;
use crate::nearby;
use Saying::{Advise, LeaveOut, Write};
use of_commands::{
    BEFORE_COMMANDS, LISTED_ELSEWHERE, OF_EXPLORE, OF_INIT, OF_QUERIES, OF_REPORTS, OF_RUNS,
    OF_SHOWS, OF_STORES, OF_TRAILS,
};
use tables::{APIS, COMMANDS, SAYINGS, WORDS, write};

mod of_commands;
mod tables;

/// What to do instead of an option of another tool.
#[derive(Clone, Copy)]
pub(crate) enum Saying {
    /// Write an option of ours, given with a placeholder for its value; with the sentence before and after it.
    Write(&'static str, &'static str, &'static str),
    /// Leave the option out; with the rest of the sentence.
    LeaveOut(&'static str),
    /// What this says: no single option of ours replaces it.
    Advise(&'static str),
}

impl Saying {
    /// Returns the sentence.
    pub(crate) fn text(self) -> String {
        match self {
            Write(before, option, after) => format!("{before}`{option}`{after}"),
            LeaveOut(rest) => format!("leave it out{rest}"),
            Advise(text) => text.to_owned(),
        }
    }
}

/// Returns our name of an API for another tool's name or path of it.
pub(crate) fn api(theirs: &str) -> Option<&'static str> {
    let path = theirs.trim_start_matches('/');
    let path = path.strip_prefix("v1/").unwrap_or(path);
    let same = |name: &&str| *name == theirs || *name == path;
    let mut of_ours = <contract::Api as contract::Word>::EACH.iter().copied();
    let of_theirs = APIS.iter().filter(|(name, _)| {
        let name = name.trim_start_matches('/');
        same(&name) || name.strip_prefix("v1/") == Some(path)
    });
    of_ours
        .find(|ours| same(ours))
        .or_else(|| of_theirs.map(|(_, ours)| *ours).next())
}

/// Returns what another tool's option of `load` meets; `None` if no tool is known to have it.
pub(crate) fn saying(option: &str) -> Option<Saying> {
    let word = WORDS.iter().find(|(theirs, _)| *theirs == option);
    let word = word.map(|(_, ours)| write(ours));
    let saying = SAYINGS.iter().find(|(theirs, _)| *theirs == option);
    word.or_else(|| saying.map(|(_, saying)| *saying))
}

/// Returns whether the parser met a word that it does not know, or no URL.
pub(crate) fn is_about_words(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnknownArgument
            | ErrorKind::InvalidSubcommand
            | ErrorKind::MissingRequiredArgument
            | ErrorKind::InvalidValue
            | ErrorKind::ValueValidation
    )
}

/// Removes the value of a refused header from its message, because it may be a secret.
fn hide_a_header(error: &mut Error) {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    if text(ContextKind::InvalidArg).starts_with("--header") {
        let given = text(ContextKind::InvalidValue);
        let ends = |c: char| matches!(c, ':' | '=') || c.is_whitespace();
        let name = given.split(ends).next().unwrap_or_default();
        let sign = match given[name.len()..].chars().next() {
            Some('=') => "=",
            Some(c) if c.is_whitespace() => " ",
            _ => ": ",
        };
        let shown = ContextValue::String(format!("{name}{sign}…"));
        error.insert(ContextKind::InvalidValue, shown);
    }
}

/// Names options by the names that were typed: the parser gives each its first name, whichever was typed.
pub(crate) fn as_typed(mut error: Error, words: &[String]) -> Error {
    let cli = Cli::command();
    let command = words
        .iter()
        .skip(1)
        .find_map(|word| cli.find_subcommand(word));
    let Some(command) = command else {
        return error;
    };
    for kind in [ContextKind::InvalidArg, ContextKind::PriorArg] {
        let named = match error.get(kind) {
            Some(ContextValue::String(one)) => ContextValue::String(typed(one, command, words)),
            Some(ContextValue::Strings(all)) => {
                let all = all.iter().map(|one| typed(one, command, words));
                ContextValue::Strings(all.collect())
            }
            _ => continue,
        };
        error.insert(kind, named);
    }
    if let Some(option) = swallower(&error, command, words) {
        let saying = format!("put it before `{option}`, which takes every word after it");
        suggest(&mut error, saying);
    }
    error
}

/// Returns the option that may have taken a missing argument for one of its own values.
fn swallower(error: &Error, command: &Command, words: &[String]) -> Option<String> {
    let is_missing = error.kind() == ErrorKind::MissingRequiredArgument;
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    if !is_missing || !missing.iter().any(|argument| argument.starts_with('<')) {
        return None;
    }
    let takes_several = |long: &str| {
        let mut arguments = command.get_arguments();
        let argument = arguments.find(|argument| argument.get_long() == Some(long));
        let count = argument.and_then(|argument| argument.get_num_args());
        count.is_some_and(|count| count.max_values() > 1)
    };
    let mut each = words.iter();
    let at = each.position(|word| word.strip_prefix("--").is_some_and(takes_several))?;
    let values = words[at + 1..].iter().take_while(|w| !w.starts_with('-'));
    (values.count() > 1).then(|| words[at].clone())
}

/// Returns an option, with its placeholder, under the name that was typed.
fn typed(named: &str, command: &Command, words: &[String]) -> String {
    let end = named.find([' ', '=']).unwrap_or(named.len());
    let (option, placeholder) = named.split_at(end);
    let is_typed = |long: &str| {
        let written = |word: &String| {
            let after = word.strip_prefix("--").and_then(|w| w.strip_prefix(long));
            after.is_some_and(|after| after.is_empty() || after.starts_with('='))
        };
        words.iter().any(written)
    };
    let alias = || {
        let long = option.strip_prefix("--").filter(|long| !is_typed(long))?;
        let mut arguments = command.get_arguments();
        let argument = arguments.find(|argument| argument.get_long() == Some(long))?;
        let aliases = argument.get_all_aliases()?;
        aliases.into_iter().find(|alias| is_typed(alias))
    };
    match alias() {
        Some(alias) => format!("--{alias}{placeholder}"),
        None => named.to_owned(),
    }
}

/// Adds a tip to an error.
fn suggest(error: &mut Error, saying: impl Into<StyledStr>) {
    let saying = ContextValue::StyledStrs(vec![saying.into()]);
    error.insert(ContextKind::Suggested, saying);
}

/// Replaces the parser's guess by our word if the unknown option belongs to another tool.
pub(crate) fn with_our_word(mut error: Error) -> Error {
    hide_a_header(&mut error);
    if let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand)
        && let Some((_, ours)) = COMMANDS.iter().find(|(theirs, _)| theirs == given)
    {
        let kind = match ours.starts_with("--") {
            true => ContextKind::SuggestedArg,
            false => ContextKind::SuggestedSubcommand,
        };
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(kind, ContextValue::Strings(vec![(*ours).to_owned()]));
        return error;
    }
    if let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand)
        && let Some(command) = command_for(given)
    {
        let saying = format!("`benchtrail {command} {given}`");
        error.remove(ContextKind::SuggestedSubcommand);
        suggest(&mut error, saying);
        return error;
    }
    if error.kind() == ErrorKind::InvalidSubcommand {
        drop_wild_commands(&mut error);
        if error.get(ContextKind::SuggestedSubcommand).is_none() {
            suggest_a_command(&mut error);
        }
        return error;
    }
    if error.kind() == ErrorKind::ArgumentConflict && is_level_and_rate(&error) {
        let saying = "one of the two sets the load; `--rate R --max-concurrency N` is a rate with a cap on the requests \
                      in flight";
        suggest(&mut error, saying);
        return error;
    }
    if error.kind() == ErrorKind::MissingRequiredArgument
        && let Some(saying) = saying_about_missing(&error)
    {
        suggest(&mut error, saying);
        return error;
    }
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    if let (true, Some(ContextValue::String(value))) = (
        given.starts_with("--api "),
        error.get(ContextKind::InvalidValue),
    ) {
        if let Some(ours) = api(value) {
            error.insert(
                ContextKind::SuggestedValue,
                ContextValue::String(ours.to_owned()),
            );
        }
        return error;
    }
    if let ("[WHAT]", Some(ContextValue::String(value))) =
        (given.as_str(), error.get(ContextKind::InvalidValue))
    {
        let place = LISTED_ELSEWHERE
            .iter()
            .find(|(what, _)| what.contains(&value.as_str()));
        if let Some((_, place)) = place {
            suggest(&mut error, *place);
        }
        return error;
    }
    let ours = WORDS
        .iter()
        .find(|(theirs, _)| theirs == given)
        .map(|(_, ours)| (*ours).to_owned());
    let saying = said_about(&error, given);
    if let (ErrorKind::UnknownArgument, Some(saying)) = (error.kind(), saying) {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::Usage);
        suggest(&mut error, saying);
        return error;
    }
    let is_ours = ours.is_some();
    if let (ErrorKind::UnknownArgument, Some(ours)) = (error.kind(), ours) {
        error.remove(ContextKind::Suggested);
        error.insert(ContextKind::SuggestedArg, ContextValue::String(ours));
        // The usage text was made for the parser's guess.
        error.remove(ContextKind::Usage);
    }
    if !is_ours {
        drop_a_wild_guess(&mut error);
    }
    // The parser offers to pass any unknown option as a value. Only a negative number can be one.
    let is_word = |given: &str| {
        given
            .strip_prefix('-')
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let is_option = matches!(error.get(ContextKind::InvalidArg), Some(ContextValue::String(given)) if is_word(given));
    if error.kind() == ErrorKind::UnknownArgument && is_option {
        error.remove(ContextKind::Suggested);
    }
    error
}

/// Removes those of the parser's guesses at an unknown command that hardly resemble it.
fn drop_wild_commands(error: &mut Error) {
    let (Some(ContextValue::String(given)), Some(ContextValue::Strings(guesses))) = (
        error.get(ContextKind::InvalidSubcommand),
        error.get(ContextKind::SuggestedSubcommand),
    ) else {
        return;
    };
    let alike = |guess: &&String| closest(given, [guess.as_str()]).is_some();
    let alike: Vec<String> = guesses.iter().filter(alike).cloned().collect();
    error.remove(ContextKind::SuggestedSubcommand);
    if !alike.is_empty() {
        let alike = ContextValue::Strings(alike);
        error.insert(ContextKind::SuggestedSubcommand, alike);
    }
}

/// Suggests the command that a word resembles by our measure, which takes exchanged letters as one mistake: `rnu`.
fn suggest_a_command(error: &mut Error) {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let command = Cli::command();
    let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
    if let Some(name) = closest(given, shown.map(Command::get_name)) {
        let name = ContextValue::Strings(vec![name.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, name);
    }
}

/// Removes the parser's guess at an unknown option if the two hardly resemble each other, such as `--locked` for `--blocks`.
fn drop_a_wild_guess(error: &mut Error) {
    let (Some(ContextValue::String(given)), Some(ContextValue::String(guess))) = (
        error.get(ContextKind::InvalidArg),
        error.get(ContextKind::SuggestedArg),
    ) else {
        return;
    };
    let (given, name) = (given.trim_start_matches('-'), guess.trim_start_matches('-'));
    let is_part = name.starts_with(given) || given.starts_with(name);
    if error.kind() == ErrorKind::UnknownArgument && !is_part && closest(given, [name]).is_none() {
        error.remove(ContextKind::SuggestedArg);
        // The usage text was made for the guess.
        error.remove(ContextKind::Usage);
    }
}

/// Returns what an unknown argument of a command meets. The usage names the command.
fn said_about(error: &Error, given: &str) -> Option<String> {
    let usage = error.get(ContextKind::Usage).map(ToString::to_string);
    let is_of = |commands: &[&str]| {
        let names = |usage: &String| commands.iter().any(|command| usage.contains(command));
        usage.as_ref().is_some_and(names)
    };
    if is_of(&["benchtrail run", "benchtrail plan"]) && !given.starts_with('-') {
        let is_file = [".yaml", ".yml", ".lock"]
            .iter()
            .any(|end| given.ends_with(end));
        return Some(match is_file || given.contains('/') {
            true => "one experiment at a time: run the command once for each file".to_owned(),
            false => format!("for some of the stages or cells, write `--only {given}`"),
        });
    }
    if is_of(&["benchtrail calibrate", "benchtrail init"]) && given.contains("://") {
        let option = match is_of(&["benchtrail calibrate"]) {
            true => "--url",
            false => "--from-url",
        };
        return Some(format!(
            "name the server with its option: `{option} {given}`"
        ));
    }
    let of_stores = is_of(&["benchtrail fsck", "benchtrail gc"]);
    if of_stores && !given.starts_with('-') {
        let text =
            "it takes no path: it works on the store of the current folder, or of `--store DIR`";
        return Some(text.to_owned());
    }
    if is_of(&["benchtrail sql"]) && !given.starts_with('-') {
        let text = "the query is one argument: put it in single quotes";
        return Some(text.to_owned());
    }
    let sayings = match () {
        () if is_of(&["benchtrail run", "benchtrail plan"]) => OF_RUNS,
        () if is_of(&["<COMMAND>", "benchtrail [OPTIONS]"]) => BEFORE_COMMANDS,
        () if is_of(&["benchtrail report"]) => OF_REPORTS,
        () if of_stores => OF_STORES,
        () if is_of(&["benchtrail audit", "benchtrail why"]) => OF_TRAILS,
        () if is_of(&["benchtrail explore"]) => OF_EXPLORE,
        () if is_of(&["benchtrail sql"]) => OF_QUERIES,
        () if is_of(&["benchtrail show"]) => OF_SHOWS,
        () if is_of(&["benchtrail init"]) => OF_INIT,
        () if is_of(&["benchtrail load", "benchtrail calibrate"]) => {
            let saying = SAYINGS.iter().find(|(theirs, _)| *theirs == given);
            return saying.map(|(_, saying)| saying.text());
        }
        () => return None,
    };
    let said = sayings.iter().find(|(theirs, _)| *theirs == given);
    said.map(|(_, saying)| (*saying).to_owned())
}

/// Returns the command that takes a word which was typed in place of a command: a URL or an experiment.
fn command_for(word: &str) -> Option<&'static str> {
    let is_file = [".yaml", ".yml"].iter().any(|end| word.ends_with(end));
    match word.contains("://") {
        true => Some("load"),
        false => is_file.then_some("run"),
    }
}

/// Returns what could be given for an argument that is missing.
fn saying_about_missing(error: &Error) -> Option<String> {
    let missing = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(missing)) => missing.as_slice(),
        _ => &[],
    };
    let lacks = |name: &str| missing.iter().any(|argument| argument.starts_with(name));
    if lacks("<URL>") {
        return Some("give the server's URL, such as `http://127.0.0.1:8000`".to_owned());
    }
    if lacks("--prompt-tokens") {
        let text = "`--tokenizer` counts the tokens of `--prompt-tokens A..B`: give both, or leave it out, and the server counts";
        return Some(text.to_owned());
    }
    if lacks("--author") {
        return Some("name who answers for the study: `--author 'Ada Lovelace'`".to_owned());
    }
    if lacks("<TABLE.COLUMN>") && !lacks("<STUDY>") {
        let text = "name a figure, such as `results.cells.ttft_ms_p50` or `results.means.ttft_ms_p50_mean`; `benchtrail sql STUDY` lists the tables and their columns";
        return Some(text.to_owned());
    }
    if ["<EXPERIMENT>", "<STUDY>", "<SOURCE>", "<A>"]
        .into_iter()
        .any(lacks)
    {
        return Some(nearby::experiments());
    }
    lacks("<REPORT>").then(nearby::reports)
}

/// Returns whether an error is about `--concurrency` beside `--rate`.
fn is_level_and_rate(error: &Error) -> bool {
    let arguments = |kind| match error.get(kind) {
        Some(ContextValue::String(argument)) => vec![argument.clone()],
        Some(ContextValue::Strings(arguments)) => arguments.clone(),
        _ => Vec::new(),
    };
    let named = [
        arguments(ContextKind::InvalidArg),
        arguments(ContextKind::PriorArg),
    ]
    .concat();
    let has = |option: &str| named.iter().any(|argument| argument.starts_with(option));
    named.len() == 2 && has("--concurrency ") && has("--rate ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[test]
    fn an_error_names_the_option_that_was_typed() {
        for (line, named, other) in [
            (
                "--input-len 100-200",
                "'--input-len <A..B>'",
                "prompt-tokens",
            ),
            ("--isl=100-200", "'--isl <A..B>'", "prompt-tokens"),
            (
                "--prompt-tokens 100-200",
                "'--prompt-tokens <A..B>'",
                "input-len",
            ),
            ("--num-prompts 0", "'--num-prompts <N>'", "--requests"),
            (
                "--request-rate 1 --concurrency 2",
                "'--request-rate <R,…>",
                "'--rate",
            ),
        ] {
            let line = format!("benchtrail load http://127.0.0.1:1 {line}");
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let error = Cli::try_parse_from(&words).expect_err("it is refused");
            let text = as_typed(with_our_word(error), &words).to_string();
            assert!(text.contains(named), "{text}");
            // The tip may name it.
            let first = text.lines().next().unwrap_or_default();
            assert!(!first.contains(other), "{text}");
        }
    }

    #[test]
    fn an_argument_that_an_option_took_is_to_come_before_it() {
        let words = |line: &str| -> Vec<String> {
            let words = line.split_whitespace();
            words.map(str::to_owned).collect()
        };
        let answer = |line: &str| {
            let words = words(line);
            let error = Cli::try_parse_from(&words).expect_err("it lacks the report");
            as_typed(with_our_word(error), &words).to_string()
        };
        let text = answer("benchtrail audit --foreign --data a.csv report.md");
        assert!(text.contains("put it before `--data`"), "{text}");
        let text = answer("benchtrail audit --foreign --data a.csv");
        assert!(!text.contains("put it before"), "{text}");
    }

    #[test]
    fn a_refused_header_is_shown_with_its_own_sign() {
        let words = ["benchtrail", "load", "http://127.0.0.1:1", "--header"];
        let error = Cli::try_parse_from(words.into_iter().chain(["Authorization=secret"]));
        let text = with_our_word(error.expect_err("it is refused")).to_string();
        assert!(text.contains("'Authorization=…'"), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }

    #[test]
    fn every_word_of_ours_is_an_option_of_load() {
        let cli = Cli::command();
        let load = cli
            .find_subcommand("load")
            .expect("there is a command `load`");
        let has = |long: &str| {
            let name = long.trim_start_matches('-');
            load.get_arguments().any(|a| match long.strip_prefix("--") {
                Some(_) => a.get_long() == Some(name),
                None => a.get_short() == name.chars().next(),
            })
        };
        for (theirs, ours) in WORDS {
            assert!(has(ours), "`load` has no {ours}");
            assert!(!has(theirs), "`load` has {theirs} itself");
        }
        let names = |saying: &str| -> Vec<String> {
            let flags = saying.split(|c: char| c == '`' || c.is_whitespace());
            flags
                .filter(|w| w.starts_with("--"))
                .map(str::to_owned)
                .collect()
        };
        let mut named = 0;
        for (theirs, saying) in SAYINGS {
            assert!(!has(theirs), "`load` has {theirs} itself");
            for ours in names(&saying.text()) {
                // Options of every command are those of the program itself.
                let of_all = cli.get_arguments().filter(|a| a.is_global_set());
                let exists = load
                    .get_arguments()
                    .chain(of_all)
                    .flat_map(|a| a.get_long_and_visible_aliases().unwrap_or_default())
                    .any(|long| ours == format!("--{long}"));
                assert!(exists, "`load` has no {ours}");
                named += 1;
            }
        }
        assert!(named >= SAYINGS.len() / 2, "{named}");
    }

    #[test]
    fn a_command_of_another_tool_is_answered_with_ours() {
        let cli = Cli::command();
        for (theirs, ours) in COMMANDS {
            assert!(cli.find_subcommand(theirs).is_none(), "{theirs}");
            let exists = ours.starts_with("--") || cli.find_subcommand(ours).is_some();
            assert!(exists, "{ours}");
            let error = with_our_word(Cli::try_parse_from(["benchtrail", theirs]).unwrap_err());
            assert!(error.to_string().contains(&format!("'{ours}'")), "{error}");
        }
    }

    #[test]
    fn an_option_of_another_tool_is_answered_with_ours() {
        let answer = |arguments: &[&str]| {
            let all = ["benchtrail", "load", "--url", "http://127.0.0.1:1"]
                .iter()
                .chain(arguments);
            with_our_word(Cli::try_parse_from(all).unwrap_err()).to_string()
        };
        for (theirs, ours) in APIS {
            let text = answer(&["--api", theirs]);
            assert!(text.contains(&format!("'{ours}'")), "{text}");
            assert!(<contract::Api as contract::Word>::EACH.contains(ours));
        }
        assert!(answer(&["--backend", "vllm"]).contains("`--api openai-chat`"));
        let unknown = answer(&["--frobnicate"]);
        assert!(!unknown.contains("as a value"), "{unknown}");
        let whole = |line: &str| {
            let words = line.split(' ');
            with_our_word(Cli::try_parse_from(words).unwrap_err()).to_string()
        };
        for (line, ours) in [
            ("benchtrail run -v a.yaml", "`--verbose`"),
            ("benchtrail --verbose run a.yaml", "come after it"),
            ("benchtrail run --output out a.yaml", "--report FILE"),
            ("benchtrail fsck a.yaml", "takes no path"),
            ("benchtrail gc -n", "--dry-run"),
            ("benchtrail run --blocks 3 a.yaml", "`design: {blocks: N}`"),
            ("benchtrail run a.yaml b.yaml", "one experiment at a time"),
            ("benchtrail run a.yaml ladder", "`--only ladder`"),
            ("benchtrail plan a.yaml --stage x", "`--only STAGE`"),
            ("benchtrail sql a.yaml select count", "in single quotes"),
            ("benchtrail explore --port 80", "`--listen 127.0.0.1:PORT`"),
            ("benchtrail sql a.yaml --format csv", "`--csv`"),
            ("benchtrail init a --concurrency 4", "`--clients N,…`"),
            ("benchtrail audit a.yaml --smoke", "name the report"),
            ("benchtrail status -x a.yaml", "unexpected argument '-x'"),
        ] {
            let text = whole(line);
            assert!(
                text.contains(ours) && !text.contains("as a value"),
                "{line}: {text}"
            );
        }
        // The parser's suggestion is dropped if it barely resembles the option.
        let wild = whole("benchtrail diff a --folder b");
        assert!(!wild.contains("similar"), "{wild}");
        let other = whole("benchtrail list gates --verbose");
        assert!(!other.contains("--out DIR"), "{other}");
        assert!(whole("benchtrail plan a.yaml --dryrun").contains("'--dry-run'"));
        assert!(answer(&["--artifact-dir", "x"]).contains("'--out'"));
        assert!(answer(&["--port", "8000"]).contains("part of the URL"));
        assert!(!answer(&["--profile", "sweep"]).contains("--output-file"));
        assert!(answer(&["--concurency", "5"]).contains("'--concurrency'"));
        assert!(answer(&["-n", "10"]).contains("`--requests N`"));
        assert!(answer(&["-H", "X: y"]).contains("'--header'"));
        assert!(answer(&["--vus", "10"]).contains("`--concurrency N`"));
        assert!(!answer(&["--vus", "10"]).contains("-- --vus"));
        assert!(answer(&["--stage", "30s:10"]).contains("`--ramp FROM:TO:SECONDS`"));
        assert!(answer(&["--request-rate-type", "constant"]).contains("`--constant R`"));
        let both = ["--concurrency", "4", "--rate", "3"];
        assert!(answer(&both).contains("--max-concurrency N"));
        for (word, command) in [("http://127.0.0.1:8000", "load"), ("mine.yaml", "run")] {
            let error = with_our_word(Cli::try_parse_from(["benchtrail", word]).unwrap_err());
            let text = error.to_string();
            assert!(
                text.contains(&format!("`benchtrail {command} {word}`")),
                "{text}"
            );
        }
    }
}
