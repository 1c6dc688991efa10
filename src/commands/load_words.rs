//! Rewords what planning says about settings for a user who gave options and has no file with these keys.

use std::borrow::Cow;

use contract::{Api, Word as _};
use load::{Settings, unsuited};
use pipeline::language::{Diagnostic, Diagnostics, Place};

use crate::exit::Stop;

/// The name of the experiment that the options stand for.
pub(super) const FILE: &str = "command line";

/// Keys of a load stage, with the options that set them.
const OPTIONS: [(&str, &str); 22] = [
    ("attainment", "--attainment"),
    ("bounds", "--slo"),
    ("burstiness", "--burstiness"),
    ("clients", "--concurrency"),
    ("connect", "--connect-timeout"),
    ("duration", "--duration"),
    ("first-token", "--first-token-timeout"),
    ("generators", "--generators"),
    ("gpu", "--gpu"),
    ("heartbeat", "--heartbeat"),
    ("hung-below-w", "--hung-below"),
    ("inter-token", "--inter-token-timeout"),
    ("interval", "--telemetry-interval"),
    ("longest", "--longest"),
    ("max-in-flight", "--max-concurrency"),
    ("rate", "--rate"),
    ("requests", "--requests"),
    ("resolution", "--resolution"),
    ("speed", "--speed"),
    ("total", "--timeout"),
    ("up-to", "--search"),
    ("warmup", "--warmup"),
];

/// Phrases about studies, and what to say instead.
const PHRASES: [(&str, &str); 19] = [
    (
        "give the workload a `tokenizer: {file: …}`, or lengths in words",
        "name a tokenizer with --tokenizer, or give the length in words with --prompt-words",
    ),
    (
        "write the lengths: `workload: {prompts: {words: {length: 200}}, output: {tokens: 128}}`",
        "give the lengths: `--prompt-words 200 --output-tokens 128`",
    ),
    (
        "name its file: `workload: {prompts: {dataset: {file: FILE}}, output: {tokens: 128}}`",
        "name its file: `--dataset FILE --output-tokens 128`",
    ),
    (
        "or use `prompts: {words: …}` for prompts of one length",
        "or add --prompt-words for prompts of one length",
    ),
    (
        "add `documents: {count: 10, length: 60}`",
        "write `workloads/NAME.yaml` with `prompts` and `documents: {count: 10, length: 60}`, and add --workload NAME",
    ),
    (
        "; `requests-per-client: 8` follows the number of clients",
        "",
    ),
    (
        "use closed-loop, constant, poisson or gamma",
        "use --concurrency, --rate or --constant",
    ),
    (
        "measure the levels that you want with an axis",
        "measure levels that you choose: `--rate 1,2,4`",
    ),
    (
        "make prompts longer, or set `warmup: 0`",
        "make prompts longer, or leave out --warmup",
    ),
    ("the trace of `arrival` holds", "the trace holds"),
    ("the cell needs", "the run needs"),
    ("in one cell", "in one run"),
    ("write `--", "give `--"),
    ("raise `requests`", "raise --requests"),
    ("raise `duration`", "raise --duration"),
    (
        "in the engine's definition: `launch.api-key-env`",
        "with --api-key-env",
    ),
    (
        "the URL that it redirects to in the engine's definition",
        "the URL that it redirects to",
    ),
    (
        "Correct `api:` in the engine's definition, or write `delivery: whole` for answers in one piece",
        "Use --api for another API, or --no-stream for whole answers",
    ),
    (
        "on the disk of the store, and run again: what was complete is kept",
        "on the disk of --out, or of the temporary folder without it, and start the command again",
    ),
];

/// Replaces phrases about studies. Other words remain as they are: they may be a server's.
pub(super) fn in_options(text: &str) -> String {
    let put = |text: String, (phrase, instead): &(&str, &str)| text.replace(phrase, instead);
    PHRASES.iter().fold(text.to_owned(), put)
}

/// Replaces every key of a stage in what planning says. A key in backticks becomes its option, and a key with a value
/// becomes the option with this value, as a shell reads it.
fn keys_in_options(text: &str) -> String {
    let text = in_options(text);
    let option = |key: &str| OPTIONS.iter().find(|(name, _)| *name == key).map(|o| o.1);
    let reworded = |quoted: &str| -> Option<String> {
        if let Some(option) = option(quoted) {
            return Some(option.to_owned());
        }
        let (key, value) = quoted.split_once(": ")?;
        let option = option(key).filter(|_| !value.contains(['{', '[']))?;
        Some(match value.contains(' ') {
            true => format!("`{option} '{value}'`"),
            false => format!("`{option} {value}`"),
        })
    };
    let mut parts = text.split('`');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    while let Some(quoted) = parts.next() {
        let Some(after) = parts.next() else {
            whole.push('`');
            whole.push_str(quoted);
            break;
        };
        let shown = reworded(quoted).map_or_else(|| Cow::from(format!("`{quoted}`")), Cow::from);
        whole.push_str(&shown);
        whole.push_str(after);
    }
    in_options(&whole)
}

/// Returns what planning says about the options, each once. A mistake in a file of the user's keeps its place.
pub(super) fn stop(diagnostics: &Diagnostics) -> Stop {
    let mut all: Vec<String> = Vec::new();
    for diagnostic in &diagnostics.0 {
        let text = if is_in_options(diagnostic) {
            one(&diagnostic.message, diagnostic.hint.as_deref())
        } else {
            diagnostic.to_string().trim_end().to_owned()
        };
        // Arrivals and prompts may come from one file.
        if !all.contains(&text) {
            all.push(text);
        }
    }
    Stop::diagnostics(all.join("\n"))
}

/// Checks that an API can carry the workload.
pub(super) fn check_api(settings: &Settings, api: &str) -> Result<(), Stop> {
    let api = Api::parse(api).expect("the parser admits only words of APIs");
    let problems = unsuited(settings, api);
    let all: Vec<String> = problems
        .iter()
        .map(|problem| one(&problem.message, problem.hint.as_deref()))
        .collect();
    match all.is_empty() {
        true => Ok(()),
        false => Err(Stop::diagnostics(all.join("\n"))),
    }
}

/// Returns a problem with the options, and its remedy.
fn one(message: &str, hint: Option<&str>) -> String {
    let message = format!("error: {}", keys_in_options(message));
    match hint {
        Some(hint) => format!("{message}\nhint: {}", keys_in_options(hint)),
        None => message,
    }
}

/// Returns whether the place of a mistake is in the text that the options stand for, which the user did not write.
fn is_in_options(diagnostic: &Diagnostic) -> bool {
    match &diagnostic.place {
        Place::File(file) | Place::Text { file, .. } => file.as_os_str() == FILE,
        Place::Argument(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;
    use load::{DirectArrival, DirectLoad, DirectPrompts, DirectSearch};
    use serde_json::Value;

    use super::*;

    /// Keys whose value is a word of the program or a group of other keys.
    const NO_OPTION: [&str; 32] = [
        "arrival",
        "burst",
        "closed-loop",
        "constant",
        "delivery",
        "e2e-ms",
        "file",
        "from",
        "gamma",
        "kind",
        "length",
        "levels",
        "mode",
        "output",
        "poisson",
        "prompts",
        "ramp",
        "sampling",
        "search",
        "seconds",
        "seed",
        "server",
        "steps",
        "telemetry",
        "temperature",
        "timeouts",
        "to",
        "tokenizer",
        "tokens",
        "trace",
        "words",
        "workload",
    ];

    fn keys(value: &Value, into: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    into.insert(key.clone());
                    keys(value, into);
                }
            }
            Value::Array(list) => list.iter().for_each(|value| keys(value, into)),
            _ => {}
        }
    }

    fn full(arrival: DirectArrival, prompts: DirectPrompts) -> DirectLoad {
        DirectLoad {
            arrival,
            prompts,
            output_tokens: Some((1, 2)),
            requests: Some(1),
            duration: Some("1 s".to_owned()),
            max_in_flight: Some(1),
            generators: 2,
            warmup: 1,
            streamed: true,
            connect_timeout: "1 s".to_owned(),
            first_token_timeout: "1 s".to_owned(),
            inter_token_timeout: "1 s".to_owned(),
            total_timeout: "1 s".to_owned(),
            heartbeat: "1 s".to_owned(),
            telemetry_interval: "1 s".to_owned(),
            gpu: "auto".to_owned(),
            hung_below_w: Some(1.0),
            search: Some(DirectSearch {
                up_to: 2.0,
                attainment: 0.9,
                resolution: 0.1,
                longest: "1 s".to_owned(),
                bounds: vec![("e2e".to_owned(), 1.0)],
            }),
        }
    }

    #[test]
    fn every_key_that_an_option_sets_is_called_by_its_option() {
        let tokens = DirectPrompts::Tokens {
            from: 1,
            to: 2,
            tokenizer: None,
        };
        let file = "t.csv".to_owned();
        let arrivals = [
            DirectArrival::ClosedLoop { clients: 1 },
            DirectArrival::Gamma {
                rate: 1.0,
                burstiness: 1.0,
            },
            DirectArrival::Constant { rate: 1.0 },
            DirectArrival::Steps(vec![(1.0, 1.0)]),
            DirectArrival::Ramp {
                from: 1.0,
                to: 2.0,
                seconds: 1.0,
            },
            DirectArrival::Trace { file, speed: 2.0 },
        ];
        let mut keys_set = BTreeSet::new();
        for arrival in arrivals {
            keys(
                &full(arrival.clone(), DirectPrompts::Default).stage(),
                &mut keys_set,
            );
            keys(&full(arrival, tokens.clone()).stage(), &mut keys_set);
        }
        for key in &keys_set {
            let option = OPTIONS.iter().any(|(name, _)| name == key);
            assert!(option != NO_OPTION.contains(&key.as_str()), "{key}");
        }
        let gone = OPTIONS.iter().filter(|(key, _)| !keys_set.contains(*key));
        assert_eq!(gone.collect::<Vec<_>>(), Vec::<&(&str, &str)>::new());
    }

    #[test]
    fn every_option_that_a_message_names_exists() {
        let command = crate::args::Cli::command();
        let load = command.find_subcommand("load").expect("a command");
        let options: BTreeSet<String> = load
            .get_arguments()
            .filter_map(|argument| Some(format!("--{}", argument.get_long()?)))
            .collect();
        let said = PHRASES.iter().map(|(_, instead)| *instead);
        let words = said.flat_map(|text| text.split([' ', '`', ',', '.']));
        let in_phrases = words.filter(|word| word.len() > 2 && word.starts_with("--"));
        for option in OPTIONS.iter().map(|(_, option)| *option).chain(in_phrases) {
            assert!(options.contains(option), "{option}");
        }
    }

    #[test]
    fn hints_of_a_cell_that_failed_name_options_and_no_files_of_a_study() {
        for (said, reworded) in [
            (
                "name the variable that holds the server's key in the engine's definition: `launch.api-key-env`",
                "name the variable that holds the server's key with --api-key-env",
            ),
            (
                "give the URL that it redirects to in the engine's definition",
                "give the URL that it redirects to",
            ),
            (
                "does the server speak openai-chat? Correct `api:` in the engine's definition, or write `delivery: \
                 whole` for answers in one piece",
                "does the server speak openai-chat? Use --api for another API, or --no-stream for whole answers",
            ),
            (
                "look at the free space on the disk of the store, and run again: what was complete is kept",
                "look at the free space on the disk of --out, or of the temporary folder without it, and start the \
                 command again",
            ),
        ] {
            assert_eq!(in_options(said), reworded);
        }
    }

    #[test]
    fn keys_become_options_and_other_quotes_stay() {
        for (said, reworded) in [
            (
                "`speed` must be greater than 0, found 0",
                "--speed must be greater than 0, found 0",
            ),
            (
                "write `requests: 3` or less, or leave it out",
                "give `--requests 3` or less, or leave it out",
            ),
            (
                "remove `max-in-flight` or `generators`",
                "remove --max-concurrency or --generators",
            ),
            ("`duration: 1 h`", "`--duration '1 h'`"),
            ("no workload is named `nope`", "no workload is named `nope`"),
            (
                "`sessions: {turns: 2}` and an odd ` stay",
                "`sessions: {turns: 2}` and an odd ` stay",
            ),
        ] {
            assert_eq!(keys_in_options(said), reworded);
        }
    }
}
