//! Other load generators' words for our options, so that a user who types one gets ours.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use Saying::{Advise, LeaveOut, Write};

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

const fn write(option: &'static str) -> Saying {
    Write("", option, "")
}

/// Options of vLLM's `bench serve`, SGLang's `bench_serving`, guidellm, aiperf and genai-perf that are not aliases,
/// each with our option.
const WORDS: &[(&str, &str)] = &[
    ("--artifact-dir", "--out"),
    ("--disable-stream", "--no-stream"),
    ("-H", "--header"),
];

/// Options of the same tools without a single equivalent here, each with what to do instead.
const SAYINGS: &[(&str, Saying)] = &[
    ("--backend", AN_API),
    ("--backend-type", AN_API),
    ("--endpoint", AN_API),
    ("--endpoint-type", AN_API),
    ("--service-kind", AN_API),
    (
        "--use-chat-template",
        Write("", "--api openai-chat", " sends chat requests"),
    ),
    (
        "--apply-chat-template",
        Write("", "--api openai-chat", " sends chat requests"),
    ),
    ("--rps", write("--rate R")),
    ("--qps", write("--rate R")),
    ("--max-connections", write("--max-concurrency N")),
    (
        "--num-users",
        Write("each user is a client: ", "--concurrency N", ""),
    ),
    ("--measurement-interval", write("--duration SPAN")),
    ("--processor", write("--tokenizer FILE")),
    ("--tokens", write("--output-len N")),
    ("--max-tokens", write("--output-len N")),
    ("--output-path", Write("", "--out DIR", " keeps every row")),
    ("--output-dir", Write("", "--out DIR", " keeps every row")),
    (
        "--output-format",
        Write(
            "",
            "--result-format FORMAT",
            " sets the format of a saved result",
        ),
    ),
    (
        "--append-result",
        LeaveOut(": each run saves a file of its own"),
    ),
    ("--metadata", LeaveOut(": the rows hold what was run")),
    ("--verbose", LeaveOut(": `--out DIR` keeps every row")),
    (
        "--lora-name",
        Write("", "--model NAME", " names the adapter"),
    ),
    (
        "--api-base",
        Write("give the URL alone, or ", "--url URL", ""),
    ),
    ("--insecure", A_CERTIFICATE),
    ("--no-verify", A_CERTIFICATE),
    ("-k", A_CERTIFICATE),
    ("--percentiles", OTHER_QUANTILES),
    ("--extra-request-body", SAMPLING),
    ("--key", A_KEY),
    ("--token", A_KEY),
    (
        "--port",
        Advise("the port is part of the URL, as in `http://127.0.0.1:8000`"),
    ),
    ("--profile", A_SERIES),
    ("--rate-type", A_SERIES),
    (
        "--streaming",
        LeaveOut(": answers are streamed unless you give `--no-stream`"),
    ),
    (
        "--stream",
        LeaveOut(": answers are streamed unless you give `--no-stream`"),
    ),
    (
        "--dataset-name",
        Write(
            "",
            "--dataset FILE",
            " detects the format; for random prompts give `--input-len N --output-len N`",
        ),
    ),
    ("--disable-tqdm", LeaveOut(", or give `--quiet`")),
    (
        "--trust-remote-code",
        LeaveOut(": no code of a model is run"),
    ),
    (
        "--save-detailed",
        Write("", "--save-result", " saves every request"),
    ),
    (
        "--percentile-metrics",
        LeaveOut(": the table has TTFT, TPOT and the whole latency"),
    ),
    ("--metric-percentiles", OTHER_QUANTILES),
    (
        "--ignore-eos",
        LeaveOut(
            ": the workloads say whether an answer may end by itself (`benchtrail list workloads`)",
        ),
    ),
    (
        "--random-range-ratio",
        Write("give both ends: ", "--input-len 96..160", ""),
    ),
    ("--sharegpt-output-len", write("--output-len N")),
    (
        "--data",
        Write("", "--input-len N --output-len N", ", or `--dataset FILE`"),
    ),
    ("--hf-name", A_DATA_SET),
    ("--hf-split", A_DATA_SET),
    (
        "--synthetic-input-tokens-mean",
        Write(
            "",
            "--input-len N",
            "; with both ends, `--input-len 96..160`",
        ),
    ),
    (
        "--synthetic-input-tokens-stddev",
        Write("give both ends: ", "--input-len 96..160", ""),
    ),
    (
        "--prompt-input-tokens-mean",
        Write(
            "",
            "--input-len N",
            "; with both ends, `--input-len 96..160`",
        ),
    ),
    ("--output-tokens-mean", write("--output-len N")),
    (
        "--output-tokens-stddev",
        Write("give both ends: ", "--output-len 96..160", ""),
    ),
    ("--extra-body", SAMPLING),
    ("--extra-inputs", SAMPLING),
    ("--temperature", SAMPLING),
    ("--top-p", SAMPLING),
    ("--api-key", A_KEY),
    ("-n", write("--requests N")),
    ("-c", write("--concurrency N")),
    (
        "-t",
        Advise("`--duration SPAN` for a time, `--concurrency N` for clients"),
    ),
    (
        "-d",
        Advise("`--duration SPAN` for a time, `--dataset FILE` for prompts"),
    ),
    ("-r", write("--rate R")),
    (
        "-u",
        Advise("`--concurrency N` for users, `--url URL` for the server"),
    ),
    ("-m", write("--model NAME")),
    ("-z", write("--duration SPAN")),
    (
        "--users",
        Write("each user is a client: ", "--concurrency N", ""),
    ),
    (
        "--vus",
        Write("each virtual user is a client: ", "--concurrency N", ""),
    ),
    (
        "--connections",
        Write("each connection is a client: ", "--concurrency N", ""),
    ),
    ("--iterations", write("--requests N")),
    ("--run-time", write("--duration SPAN")),
    ("--timeout-sec", write("--timeout SPAN")),
    (
        "--spawn-rate",
        LeaveOut(
            ": all clients of `--concurrency N` start at once; arrivals that grow are `--ramp FROM:TO:SECONDS`",
        ),
    ),
    (
        "--host",
        Advise("the host is part of the URL, as in `http://127.0.0.1:8000`"),
    ),
    ("--stage", STAGES),
    ("--stages", STAGES),
    ("--request-rate-type", ARRIVALS),
    ("--rate-type", ARRIVALS),
    ("--arrival-pattern", ARRIVALS),
    ("--request-rate-mode", ARRIVALS),
    (
        "--num-dataset-entries",
        Write("each request has a prompt of its own: ", "--requests N", ""),
    ),
    ("--max-error-rate", ERRORS),
    ("--max-errors", ERRORS),
    ("--ramp-up-strategy", write("--ramp FROM:TO:SECONDS")),
    ("--ramp-up-start-rps", write("--ramp FROM:TO:SECONDS")),
    ("--ramp-up-end-rps", write("--ramp FROM:TO:SECONDS")),
    (
        "--input-file",
        Write(
            "",
            "--trace FILE",
            " keeps its times, `--dataset FILE` takes its prompts",
        ),
    ),
];

/// What an option for a course of rates or clients meets.
const STAGES: Saying = Advise(
    "`--steps 2:30,8:60` sends 2 requests per second for 30 s, then 8 for 60 s; `--ramp FROM:TO:SECONDS` grows evenly",
);

/// What an option for the kind of arrivals meets.
const ARRIVALS: Saying = Advise(
    "`--rate R` draws Poisson arrivals, `--rate R --burstiness SHAPE` more or less even ones, `--constant R` sends at equal \
     distances",
);

/// What an option for a limit of failed requests meets.
const ERRORS: Saying = LeaveOut(
    ": a load ends at once if every request must fail, and otherwise counts the failed ones; in a study, the gate \
     `row-status` decides how many may fail",
);

/// What an option for the protocol of the server meets.
const AN_API: Saying = LeaveOut(", or name the server's API, as in `--api openai-chat`");

/// What an option for other quantiles meets.
const OTHER_QUANTILES: Saying =
    LeaveOut("; for other quantiles keep the rows with `--out DIR` and use `benchtrail sql`");

/// What an option for sampling meets.
const SAMPLING: Saying = Advise(
    "a workload says how answers are sampled: write `workloads/NAME.yaml` and give `--workload NAME`",
);

/// What an option against certificates meets.
const A_CERTIFICATE: Saying = Write(
    "",
    "--ca-file FILE",
    " trusts the certificate of the server",
);

/// What an option for a series of levels meets.
const A_SERIES: Saying = Advise("name the levels: `--concurrency 1,8,64` or `--rate 1,2,4,inf`");

/// What an option for a data set of a hub meets.
const A_DATA_SET: Saying = Write(
    "download the data set and name its file: ",
    "--dataset FILE",
    "",
);

/// What an API key on the command line meets.
const A_KEY: Saying = Write(
    "name the variable that holds the key, so that it is not in your shell's history: ",
    "--api-key-env MY_KEY",
    "",
);

/// Commands of other tools, each with ours.
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
    ("repro", "run"),
    ("apply", "run"),
    ("execute", "run"),
    ("dag", "plan"),
    ("dry-run", "plan"),
    ("metrics", "show"),
    ("plots", "report"),
    ("serve", "run"),
    ("exp", "run"),
    ("experiments", "run"),
    ("stage", "init"),
    ("params", "diff"),
    ("k6", "load"),
    ("wrk", "load"),
    ("hey", "load"),
    ("locust", "load"),
    ("guidellm", "load"),
    ("aiperf", "load"),
    ("genai-perf", "load"),
    ("llmperf", "load"),
];

/// Options of workflow tools that `run` and `plan` lack, each with what to do instead.
const OF_RUNS: &[(&str, &str)] = &[
    ("-n", "`benchtrail plan EXPERIMENT` shows what would run"),
    ("--force", "`--fresh STAGE` measures again"),
    ("-f", "`--fresh STAGE` measures again"),
    ("--forceall", "`--fresh STAGE` measures again"),
    ("-F", "`--fresh STAGE` measures again"),
    ("--rerun", "`--fresh STAGE` measures again"),
    ("--no-cache", "`--fresh STAGE` measures again"),
    ("-j", ONE_AT_A_TIME),
    ("-c", ONE_AT_A_TIME),
    ("--cores", ONE_AT_A_TIME),
    ("-s", "name the experiment: `benchtrail run EXPERIMENT`"),
    (
        "--config",
        "`--set NAME=VALUE` sets a parameter of the experiment",
    ),
    (
        "-e",
        "`--set NAME=VALUE` sets a parameter of the experiment",
    ),
    (
        "--env",
        "`--set NAME=VALUE` sets a parameter of the experiment",
    ),
    (
        "-v",
        "`--verbose` after the command shows every cell and the engine's log",
    ),
    (
        "--unlock",
        "leave it out: a run that was killed leaves nothing locked, and `benchtrail run EXPERIMENT` continues it",
    ),
    (
        "--rerun-incomplete",
        "leave it out: `benchtrail run EXPERIMENT` executes what is missing",
    ),
    (
        "--until",
        "`--only STAGE` executes a stage and what it needs",
    ),
    (
        "--single-item",
        "`--only STAGE` executes a stage and what it needs",
    ),
    (
        "-k",
        "`--keep-going` continues with other cells when one fails",
    ),
    ("-o", A_REPORT),
    ("--out", A_REPORT),
    ("--output", A_REPORT),
    (
        "-p",
        "`--profile NAME` selects a profile, `--set NAME=VALUE` sets a parameter",
    ),
];

/// Options of other tools' reports, each with what to do instead.
const OF_REPORTS: &[(&str, &str)] = &[
    ("--format", BOTH_FORMATS),
    ("--html", BOTH_FORMATS),
    ("--pdf", "print the page `report.html` from a browser"),
    (
        "--output",
        "`--out FILE` chooses where the report is written",
    ),
    ("-o", "`--out FILE` chooses where the report is written"),
];

/// What an option for the format of a report meets.
const BOTH_FORMATS: &str = "leave it out: a report is written as `report.md` and as `report.html`";

/// What an option for an output file meets.
const A_REPORT: &str =
    "`benchtrail run EXPERIMENT --report FILE` chooses where the report is written";

/// Options in front of the command, each with what to do instead.
const BEFORE_COMMANDS: &[(&str, &str)] = &[
    ("-v", AFTER_THE_COMMAND),
    ("--verbose", AFTER_THE_COMMAND),
    ("-q", AFTER_THE_COMMAND),
    ("--quiet", AFTER_THE_COMMAND),
];

/// What an option of a command in front of it meets.
const AFTER_THE_COMMAND: &str =
    "options of a command come after it: `benchtrail run --verbose EXPERIMENT`";

/// Options of other tools' commands on stores, each with what to do instead.
const OF_STORES: &[(&str, &str)] = &[
    (
        "-n",
        "`benchtrail gc --dry-run` shows what would be removed",
    ),
    (
        "--all",
        "`benchtrail gc --measurements` also removes measurements that no lock needs",
    ),
    ("--fix", "`benchtrail fsck --repair`"),
];

/// What an option for a number of processes meets.
const ONE_AT_A_TIME: &str =
    "`--jobs N` is for analysis and report; cells that measure run one at a time";

/// Other tools' names or paths of an API, each with ours.
const APIS: &[(&str, &str)] = &[
    ("/v1/completions", "openai-completions"),
    ("/v1/chat/completions", "openai-chat"),
    ("/v1/responses", "openai-responses"),
    ("/v1/messages", "anthropic-messages"),
    ("/v1/embeddings", "openai-embeddings"),
    ("/rerank", "rerank"),
    ("/v1/rerank", "rerank"),
    ("/completion", "llama-cpp-completion"),
    ("/generate", "sglang-generate"),
    ("/generate_stream", "tgi-generate"),
    ("/api/generate", "ollama-generate"),
    ("/api/chat", "ollama-chat"),
    ("openai", "openai-completions"),
    ("completions", "openai-completions"),
    ("chat", "openai-chat"),
    ("openai-chat-completions", "openai-chat"),
    ("vllm", "openai-completions"),
    ("sglang", "sglang-generate"),
    ("tgi", "tgi-generate"),
    ("ollama", "ollama-generate"),
    ("embeddings", "openai-embeddings"),
];

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
        let name = given.split([':', '=']).next().unwrap_or_default();
        let shown = ContextValue::String(format!("{name}: …"));
        error.insert(ContextKind::InvalidValue, shown);
    }
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
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![saying.into()]),
        );
        return error;
    }
    if error.kind() == ErrorKind::ArgumentConflict && is_level_and_rate(&error) {
        let saying = "one of the two sets the load; `--rate R --max-concurrency N` is a rate with a cap on the requests \
                      in flight";
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![saying.into()]),
        );
        return error;
    }
    if error.kind() == ErrorKind::MissingRequiredArgument && lacks_the_url(&error) {
        let saying = "give the server's URL, such as `http://127.0.0.1:8000`";
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![saying.into()]),
        );
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
    let ours = WORDS
        .iter()
        .find(|(theirs, _)| theirs == given)
        .map(|(_, ours)| (*ours).to_owned());
    let saying = said_about(&error, given);
    if let (ErrorKind::UnknownArgument, Some(saying)) = (error.kind(), saying) {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::Usage);
        let saying = ContextValue::StyledStrs(vec![saying.into()]);
        error.insert(ContextKind::Suggested, saying);
        return error;
    }
    if let (ErrorKind::UnknownArgument, Some(ours)) = (error.kind(), ours) {
        error.remove(ContextKind::Suggested);
        error.insert(ContextKind::SuggestedArg, ContextValue::String(ours));
        // The usage text was made for the parser's guess.
        error.remove(ContextKind::Usage);
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

/// Returns what an unknown argument of a command meets. The usage names the command.
fn said_about(error: &Error, given: &str) -> Option<String> {
    let usage = error.get(ContextKind::Usage).map(ToString::to_string);
    let is_of = |commands: &[&str]| {
        let names = |usage: &String| commands.iter().any(|command| usage.contains(command));
        usage.as_ref().is_some_and(names)
    };
    let of_stores = is_of(&["benchtrail fsck", "benchtrail gc"]);
    if of_stores && !given.starts_with('-') {
        let text =
            "it takes no path: it works on the store of the current folder, or of `--store DIR`";
        return Some(text.to_owned());
    }
    let sayings = match () {
        () if is_of(&["benchtrail run", "benchtrail plan"]) => OF_RUNS,
        () if is_of(&["<COMMAND>", "benchtrail [OPTIONS]"]) => BEFORE_COMMANDS,
        () if is_of(&["benchtrail report"]) => OF_REPORTS,
        () if of_stores => OF_STORES,
        () => {
            let saying = SAYINGS.iter().find(|(theirs, _)| *theirs == given);
            return saying.map(|(_, saying)| saying.text());
        }
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

/// Returns whether an error is about the URL of `load`.
fn lacks_the_url(error: &Error) -> bool {
    let missing = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(missing)) => missing.as_slice(),
        _ => &[],
    };
    missing.iter().any(|argument| argument.starts_with("<URL>"))
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
    use crate::args::Cli;
    use clap::{CommandFactory, Parser};

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
                let exists = load
                    .get_arguments()
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
            ("benchtrail status -x a.yaml", "unexpected argument '-x'"),
        ] {
            let text = whole(line);
            assert!(
                text.contains(ours) && !text.contains("as a value"),
                "{line}: {text}"
            );
        }
        assert!(answer(&["--artifact-dir", "x"]).contains("'--out'"));
        assert!(answer(&["--port", "8000"]).contains("part of the URL"));
        assert!(!answer(&["--profile", "sweep"]).contains("--output-file"));
        assert!(answer(&["--concurency", "5"]).contains("'--concurrency'"));
        assert!(answer(&["-n", "10"]).contains("`--requests N`"));
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
