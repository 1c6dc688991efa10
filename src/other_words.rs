//! The words that other load generators have for our options: who types one is told ours.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Options that are no aliases of ours, of vLLM's `bench serve`, SGLang's `bench_serving`, guidellm, aiperf and genai-perf,
/// and what they are here.
const WORDS: &[(&str, &str)] = &[
    ("--backend", "--api"),
    ("--endpoint", "--api"),
    ("--endpoint-type", "--api"),
    ("--dataset-name", "--dataset"),
    ("--artifact-dir", "--out"),
    ("--disable-stream", "--no-stream"),
];

/// Commands that other tools have, and what they are here.
const COMMANDS: &[(&str, &str)] = &[
    ("bench", "load"),
    ("benchmark", "load"),
    ("profile", "load"),
    ("perf", "load"),
    ("new", "init"),
    ("create", "init"),
    ("start", "run"),
    ("exec", "run"),
    ("check", "plan"),
    ("validate", "plan"),
    ("lint", "plan"),
    ("compare", "diff"),
    ("query", "sql"),
    ("results", "show"),
    ("trace", "why"),
    ("view", "explore"),
    ("ui", "explore"),
    ("dashboard", "explore"),
    ("render", "report"),
    ("clean", "gc"),
    ("prune", "gc"),
    ("version", "--version"),
];

/// Puts our word in the place of the parser's guess where the unknown option is another tool's.
pub(crate) fn with_our_word(mut error: Error) -> Error {
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
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let ours = WORDS
        .iter()
        .find(|(theirs, _)| theirs == given)
        .map(|(_, ours)| (*ours).to_owned());
    if let (ErrorKind::UnknownArgument, Some(ours)) = (error.kind(), ours) {
        error.insert(ContextKind::SuggestedArg, ContextValue::String(ours));
        // It was made for the parser's guess.
        error.remove(ContextKind::Usage);
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::{CommandFactory, Parser};

    #[test]
    fn every_word_of_ours_is_an_option_of_load() {
        let cli = Cli::command();
        let load = cli
            .find_subcommand("load")
            .expect("there is a command `load`");
        let has = |long: &str| {
            load.get_arguments()
                .any(|a| a.get_long() == long.strip_prefix("--"))
        };
        for (theirs, ours) in WORDS {
            assert!(has(ours), "`load` has no {ours}");
            assert!(!has(theirs), "`load` has {theirs} itself");
        }
    }

    #[test]
    fn a_command_of_another_tool_is_answered_with_ours() {
        let cli = Cli::command();
        for (theirs, ours) in COMMANDS {
            assert!(cli.find_subcommand(theirs).is_none(), "{theirs}");
            let known = ours.starts_with("--") || cli.find_subcommand(ours).is_some();
            assert!(known, "{ours}");
            let told = with_our_word(Cli::try_parse_from(["benchtrail", theirs]).unwrap_err());
            assert!(told.to_string().contains(&format!("'{ours}'")), "{told}");
        }
    }

    #[test]
    fn an_option_of_another_tool_is_answered_with_ours() {
        let told = |arguments: &[&str]| {
            let all = ["benchtrail", "load", "--url", "http://127.0.0.1:1"]
                .iter()
                .chain(arguments);
            with_our_word(Cli::try_parse_from(all).unwrap_err()).to_string()
        };
        assert!(told(&["--backend", "vllm"]).contains("'--api'"));
        assert!(told(&["--artifact-dir", "x"]).contains("'--out'"));
        assert!(told(&["--concurency", "5"]).contains("'--concurrency'"));
    }
}
