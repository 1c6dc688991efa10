//! A command line of another load generator in our words: everything in it that differs, at once, and the same load as a
//! command of ours.
//!
//! The words are taken as they are written: an option has the words after it up to the next option, and a word with `://`
//! is a URL.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use clap::CommandFactory as _;
use contract::{Api, Word as _};
use pipeline::suggest::{closest, did_you_mean};

use crate::args::{self, Cli};
use crate::effect_text::to_copy;
use crate::other_words::{Saying, api, saying};
use tools::{Theirs, synthetic, without_a_server};

mod defaults;
mod tools;

/// The host at which all tools look for a server.
const USUAL_HOST: &str = "127.0.0.1";

/// Options whose values may be secrets, which are not repeated.
const SECRET: [&str; 5] = ["--api-key", "--key", "--token", "--header", "-H"];

/// Options of ours whose values are lists of levels: other tools separate them by spaces.
const LEVELS: [&str; 3] = ["--concurrency", "--rate", "--request-rate"];

/// An option with the words after it.
struct Given {
    option: String,
    values: Vec<String>,
}

impl Given {
    fn value(&self) -> Option<&str> {
        self.values.first().map(String::as_str)
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
    let rest = match &theirs {
        Some(theirs) => theirs.rest(after),
        None => after[1..].to_vec(),
    };
    let (urls, given) = split(&rest);
    // The name of a command alone is answered with ours.
    if given.is_empty() && urls.is_empty() {
        return None;
    }
    let mut differences: Vec<(String, String)> = Vec::new();
    let (mut is_whole, mut has_names) = (true, false);
    if let Some(theirs) = &theirs {
        let why = "the command is `benchtrail load`".to_owned();
        differences.push((theirs.command.clone(), why));
    }
    let mut address = Address {
        urls,
        ..Address::default()
    };
    let mut command: Vec<String> = Vec::new();
    let rate_type = given
        .iter()
        .find(|g| ["--rate-type", "--profile"].contains(&g.option.as_str()))
        .and_then(|g| g.values.first().map(String::as_str));
    for one in &given {
        if address.takes(one) {
            continue;
        }
        let of_tool = theirs
            .as_ref()
            .and_then(|theirs| of_tool(theirs, one, &given));
        let (instead, why) = of_tool
            .or_else(|| own_api(one))
            .or_else(|| with_unit(one))
            .or_else(|| format_of_a_file(one, &given))
            .unwrap_or_else(|| instead(one, rate_type));
        has_names |= !matches!(instead, Instead::Same(_) | Instead::Nothing);
        let word = match (SECRET.contains(&one.option.as_str()), one.values.is_empty()) {
            (false, false) => format!("{} {}", one.option, one.values.join(" ")),
            (true, false) => format!("{} …", one.option),
            (_, true) => one.option.clone(),
        };
        match instead {
            Instead::Same(words) => put(&mut command, words),
            Instead::Words(words) => {
                differences.push((word, why));
                put(&mut command, words);
            }
            Instead::LeaveOut => differences.push((word, why)),
            Instead::Nothing => {
                is_whole = false;
                differences.push((word, format!("left out below: {why}")));
            }
        }
    }
    has_names |= !address.differences.is_empty();
    differences.extend(address.differences.clone());
    if let Some(api) = address.api()
        && !command.iter().any(|word| word == "--api")
    {
        command.extend(["--api".to_owned(), api.to_owned()]);
    }
    let differs = theirs.is_some() || differences.len() > 1;
    let heading = match (has_names, is_whole) {
        (true, _) => "error: `benchtrail load` has other names for these options:",
        (false, false) => "error: `benchtrail load` does not have these options:",
        (false, true) => "error: only the name of the command differs:",
    };
    differs.then(|| {
        let (port, is_stated) = defaults::address(theirs.as_ref(), &given);
        let without_address = (!is_stated && !address.is_given()).then_some("address");
        let mut words = vec!["benchtrail".to_owned(), "load".to_owned()];
        words.extend(address.url(port));
        words.extend(command);
        let mut gaps: Vec<&str> = without_address.into_iter().collect();
        if let Some(theirs) = &theirs {
            gaps.extend(defaults::fill(theirs, &given, &mut words));
        }
        text(heading, &differences, &hint(&words, is_whole, &gaps))
    })
}

/// Returns what to write instead of an option that this tool reads in its own way.
fn of_tool(theirs: &Theirs, one: &Given, given: &[Given]) -> Option<(Instead, String)> {
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
    if theirs.tool == "llmperf" && one.option == "--llm-api" && one.value() == Some("openai") {
        let words = vec!["--api".to_owned(), "openai-chat".to_owned()];
        return Some((Instead::Words(words), "`--api openai-chat`".to_owned()));
    }
    let ours = theirs.option(&one.option)?;
    if one.option == "-f" {
        return Some(left_out(
            ": the script says what is sent; here `--workload NAME` or `--dataset FILE` does",
        ));
    }
    if ours.is_empty() {
        return Some(left_out(
            ": one process sends for all clients, and all start at once",
        ));
    }
    let words = vec![ours.to_owned(), one.value()?.to_owned()];
    Some((Instead::Words(words), format!("`{ours}`")))
}

/// Returns what to write instead of the name of a data set beside the path of its file.
fn format_of_a_file(one: &Given, given: &[Given]) -> Option<(Instead, String)> {
    let has_file = || given.iter().any(|other| other.option == "--dataset-path");
    let is_name = one.option == "--dataset-name" && one.value() != Some("random");
    (is_name && has_file()).then(|| left_out(": the format of the file is recognized"))
}

/// Puts words at the end of a command. A switch is given once, and a later API replaces an earlier one.
fn put(command: &mut Vec<String>, words: Vec<String>) {
    match words.as_slice() {
        [switch] if command.contains(switch) => return,
        [api, _] if api == "--api" => {
            if let Some(at) = command.iter().position(|word| word == "--api") {
                command.drain(at..at + 2);
            }
        }
        _ => {}
    }
    command.extend(words);
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

/// Returns the command, if it is a valid one, with what about the load is not the other tool's.
fn hint(words: &[String], is_whole: bool, gaps: &[&str]) -> String {
    if args::parse(words).is_err() {
        return "hint: docs/coming-from.md lists our options; `benchtrail load --help` describes them"
            .to_owned();
    }
    let words: Vec<String> = words.iter().map(|word| to_copy(word)).collect();
    let ours = match gaps {
        [] => String::new(),
        [one] => format!("with our own {one}"),
        [first @ .., last] => format!("with our own {} and {last}", first.join(", ")),
    };
    let what = match (is_whole, ours.as_str()) {
        (true, "") => "the same load".to_owned(),
        (false, "") => "the load without what is left out".to_owned(),
        (true, ours) => format!("a similar load, {ours}"),
        (false, ours) => format!("the load without what is left out, {ours}"),
    };
    format!("hint: {what}: {}", words.join(" "))
}

/// The address of the server, which other tools give in parts.
#[derive(Default)]
struct Address {
    urls: Vec<String>,
    host: Option<String>,
    port: Option<String>,
    differences: Vec<(String, String)>,
}

impl Address {
    /// Takes an option that is part of the address.
    fn takes(&mut self, one: &Given) -> bool {
        let value = one.values.first().cloned();
        let is_url = value.as_ref().is_some_and(|value| is_address(value));
        match one.option.as_str() {
            "--host" if !is_url => self.host = value,
            "--port" => self.port = value,
            "--url" | "--base-url" | "--target" | "--host" | "-u" if is_url => {
                self.urls.extend(one.values.iter().cloned());
                return true;
            }
            _ => return false,
        }
        let why = "the address is one URL".to_owned();
        let word = format!("{} {}", one.option, one.values.join(" "));
        self.differences.push((word.trim_end().to_owned(), why));
        true
    }

    /// Returns the API whose path the URL has, unless it is the default.
    fn api(&self) -> Option<&'static str> {
        let path = |url: &str| Some(url.split_once("://")?.1.split_once('/')?.1.to_owned());
        let path = self.urls.iter().find_map(|url| path(url))?;
        let path = path.trim_end_matches('/');
        let api = api(path).filter(|_| !path.is_empty())?;
        (api != "openai-completions").then_some(api)
    }

    fn is_given(&self) -> bool {
        !self.urls.is_empty() || self.host.is_some() || self.port.is_some()
    }

    /// Returns the servers, without endpoints; the port is the one at which the tool looks by default.
    fn url(&self, port: &str) -> Vec<String> {
        if !self.urls.is_empty() {
            return self.urls.iter().map(|url| base(url)).collect();
        }
        let host = self.host.as_deref().unwrap_or(USUAL_HOST);
        let host = if host == "0.0.0.0" { USUAL_HOST } else { host };
        let port = self.port.as_deref().unwrap_or(port);
        vec![format!("http://{host}:{port}")]
    }
}

/// Returns whether a value is a URL, or a host with its port.
fn is_address(value: &str) -> bool {
    let port = value.rsplit_once(':').map(|(_, port)| port);
    value.contains("://") || port.is_some_and(|port| port.parse::<u16>().is_ok())
}

/// Returns a URL without the path of an API.
fn base(url: &str) -> String {
    let url = url.trim_end_matches('/');
    let url = match url.contains("://") {
        true => url.to_owned(),
        false => format!("http://{url}"),
    };
    match url.find("/v1").filter(|at| *at > 8) {
        Some(at) => url[..at].to_owned(),
        None => url,
    }
}

/// Splits words into URLs and options with their values.
fn split(words: &[String]) -> (Vec<String>, Vec<Given>) {
    let mut urls = Vec::new();
    let mut given: Vec<Given> = Vec::new();
    for word in words {
        let is_option =
            word.starts_with('-') && word[1..].starts_with(|c: char| c == '-' || c.is_alphabetic());
        if is_option {
            let (option, value) = match word.split_once('=').filter(|_| word.starts_with("--")) {
                Some((option, value)) => (option, Some(value.to_owned())),
                // `-c10`
                None if word[2..].starts_with(|c: char| c.is_ascii_digit()) => {
                    (&word[..2], Some(word[2..].to_owned()))
                }
                None => (word.as_str(), None),
            };
            given.push(Given {
                // vLLM accepts `_` for `-`.
                option: option.replace('_', "-"),
                values: value.into_iter().collect(),
            });
            continue;
        }
        let of_url = |g: &Given| {
            ["--url", "--base-url", "--target", "--host", "-u"].contains(&g.option.as_str())
                && g.values.is_empty()
        };
        match given.last_mut() {
            Some(last) if !word.contains("://") || of_url(last) => last.values.push(word.clone()),
            _ => urls.push(word.clone()),
        }
    }
    (urls, given)
}

/// Returns what to write instead of an option, and why.
fn instead(one: &Given, rate_type: Option<&str>) -> (Instead, String) {
    let with = |option: &str| {
        let mut words = vec![option.to_owned()];
        words.extend(one.values.iter().cloned());
        words
    };
    let value = one.values.first().map(String::as_str).unwrap_or_default();
    let option = one.option.as_str();
    match option {
        "--rate" if rate_type == Some("concurrent") => {
            let words = vec!["--concurrency".to_owned(), one.values.join(",")];
            return (
                Instead::Words(words),
                "these are clients: `--concurrency`".to_owned(),
            );
        }
        "--rate" if rate_type == Some("constant") => {
            return (
                Instead::Words(with("--constant")),
                "`--constant R`".to_owned(),
            );
        }
        "--rate-type" | "--profile" => return of_rate_type(value),
        "--api" | "--backend" | "--backend-type" | "--endpoint" | "--endpoint-type"
        | "--service-kind" | "--request-type" => {
            return match api(value) {
                Some("openai-completions") => {
                    left_out(": `--api openai-completions` is the default")
                }
                Some(ours) => {
                    let words = vec!["--api".to_owned(), ours.to_owned()];
                    (Instead::Words(words), format!("`--api {ours}`"))
                }
                None if option == "--api" => (Instead::Same(with(option)), String::new()),
                None => match saying(option) {
                    Some(saying) => without(saying),
                    None => (Instead::Nothing, String::new()),
                },
            };
        }
        "--data" => {
            if let Some(words) = synthetic(value) {
                let why = format!("`{}`", words.join(" "));
                return (Instead::Words(words), why);
            }
        }
        "--dataset-name" if value == "random" => {
            return left_out(": `--input-len` and `--output-len` ask for random prompts");
        }
        "--tokenizer" if !value.is_empty() && !value.ends_with(".json") => {
            return left_out(": the server counts; or name a file, `tokenizer.json`");
        }
        "--header" | "-H" if !one.values.iter().any(|value| value.contains(':')) => {
            let why = "a header is written `--header 'NAME: VALUE'`; for a key use `--api-key-env MY_KEY`";
            return (Instead::Nothing, why.to_owned());
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
        let flags = ours();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        return match closest(option, flags) {
            Some(near) => (Instead::Words(with(near)), did_you_mean(near)),
            None => (
                Instead::Nothing,
                "`load` does not have this option, and no option has a similar name".to_owned(),
            ),
        };
    };
    match proposed(saying, &one.values) {
        Some(words) => (Instead::Words(words), saying.text()),
        None => without(saying),
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
        _ => {
            let why = "name the levels: `--concurrency 1,8,64` or `--rate 1,2,4,inf`";
            return (Instead::Nothing, why.to_owned());
        }
    };
    let words = words.map(str::to_owned).to_vec();
    (Instead::Words(words), why.to_owned())
}

/// Returns an API in our own words, as it is.
fn own_api(one: &Given) -> Option<(Instead, String)> {
    let api = one.values.first().filter(|_| one.option == "--api")?;
    Api::parse(api).ok()?;
    let words = vec![one.option.clone(), api.clone()];
    Some((Instead::Same(words), String::new()))
}

/// Returns our option for a time without a unit: milliseconds in genai-perf, seconds in other tools.
fn with_unit(one: &Given) -> Option<(Instead, String)> {
    let (ours, unit) = match one.option.as_str() {
        "--measurement-interval" => ("--duration", "ms"),
        "--timeout-sec" | "--request-timeout-seconds" | "--timeout" => ("--timeout", "s"),
        _ => return None,
    };
    let value = one.values.first()?;
    value.parse::<f64>().ok()?;
    let words = vec![ours.to_owned(), format!("{value}{unit}")];
    let why = format!("`{}`", words.join(" "));
    Some((Instead::Words(words), why))
}

/// Returns that an option is not needed, with the rest of the sentence that says why.
fn left_out(rest: &'static str) -> (Instead, String) {
    without(Saying::LeaveOut(rest))
}

/// Returns a saying that puts no words in the place of an option.
fn without(saying: Saying) -> (Instead, String) {
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

/// Returns every spelling of an option of `load`.
fn ours() -> BTreeSet<String> {
    let cli = Cli::command();
    let Some(load) = cli.find_subcommand("load") else {
        return BTreeSet::new();
    };
    let mut names = BTreeSet::new();
    for argument in load.get_arguments().chain(cli.get_arguments()) {
        let longs = argument
            .get_long()
            .into_iter()
            .chain(argument.get_all_aliases().into_iter().flatten());
        names.extend(longs.map(|long| format!("--{long}")));
        names.extend(argument.get_short().map(|short| format!("-{short}")));
    }
    names
}

fn is_ours(option: &str) -> bool {
    ours().contains(option)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        let all = std::iter::once("benchtrail").chain(line.split_whitespace());
        all.map(str::to_owned).collect()
    }

    fn explanation(line: &str) -> String {
        explained(&words(line)).unwrap_or_else(|| panic!("nothing differs in {line}"))
    }

    /// The usual command lines of other tools, from their own pages.
    #[test]
    fn a_command_line_of_another_tool_is_translated_as_a_whole() {
        for (theirs, ours) in [
            (
                "bench serve --backend vllm --model Org/M --endpoint /v1/completions --dataset-name random \
                 --random-input-len 1024 --random-output-len 128 --num-prompts 100 --request-rate 10 --ignore-eos \
                 --percentile-metrics ttft,tpot,itl --metric-percentiles 50,99 --seed 42 --save-result --result-dir out",
                "http://127.0.0.1:8000 --model Org/M --random-input-len 1024 --random-output-len 128 --num-prompts 100 \
                 --request-rate 10 --seed 42 --save-result --result-dir out",
            ),
            (
                "load --host 10.0.0.5 --port 30000 --backend sglang --num-prompts 64 --max-concurrency 8 \
                 --apply-chat-template --disable-tqdm",
                "http://10.0.0.5:30000 --num-prompts 64 --max-concurrency 8 --api openai-chat",
            ),
            (
                "bench serve --backend openai-chat --endpoint /v1/chat/completions --base-url http://10.0.0.5:8000/v1 \
                 --max_concurrency 8 --num_prompts 8 --trust-remote-code",
                "http://10.0.0.5:8000 --api openai-chat --max-concurrency 8 --num-prompts 8 --input-len 1024 --output-len 128",
            ),
            (
                "benchmark run --target http://10.0.0.5:8000 --rate-type concurrent --rate 1 8 64 --max-seconds 30 \
                 --processor Org/M",
                "http://10.0.0.5:8000 --concurrency 1,8,64 --max-seconds 30",
            ),
            (
                "profile --model M --url http://10.0.0.5:8000 --endpoint-type chat --streaming --concurrency 10 \
                 --request-count 100 --synthetic-input-tokens-mean 200 --output-tokens-mean 50 --artifact-dir out",
                "http://10.0.0.5:8000 --model M --api openai-chat --concurrency 10 --request-count 100 --input-len 200 \
                 --output-len 50 --out out",
            ),
            (
                "load http://10.0.0.5:8000 -n 100 -c 8 -m M",
                "http://10.0.0.5:8000 --requests 100 --concurrency 8 --model M",
            ),
        ] {
            let message = explanation(theirs);
            let expected = format!(": benchtrail load {ours}");
            assert!(message.ends_with(&expected), "{message}\n{expected}");
        }
    }

    /// The beginnings of the same command lines, as people paste them.
    #[test]
    fn a_command_line_may_begin_with_the_name_of_its_program() {
        for (theirs, ours) in [
            (
                "vllm bench serve --model M --base-url http://10.0.0.5:8000",
                "http://10.0.0.5:8000 --model M --rate inf --requests 1000 --input-len 1024 --output-len 128",
            ),
            (
                "guidellm benchmark --target http://10.0.0.5:8000 --rate-type concurrent --rate 1,8 --max-seconds 30 \
                 --data prompt_tokens=256,output_tokens=128",
                "http://10.0.0.5:8000 --concurrency 1,8 --max-seconds 30 --input-len 256 --output-len 128",
            ),
            (
                "guidellm benchmark run --target http://10.0.0.5:8000/v1 --profile poisson --rate 5 \
                 --data {\"prompt_tokens\":256,\"output_tokens\":128}",
                "http://10.0.0.5:8000 --rate 5 --input-len 256 --output-len 128",
            ),
            (
                "aiperf profile -m M --url http://10.0.0.5:8000 --endpoint-type chat --streaming --concurrency 10",
                "http://10.0.0.5:8000 --model M --api openai-chat --concurrency 10 --requests 20 --input-len 550",
            ),
            (
                "genai-perf profile -m M -u 10.0.0.5:8000 --concurrency 4",
                "http://10.0.0.5:8000 --model M --concurrency 4 --input-len 550 --no-stream",
            ),
            (
                "python3 -m sglang.bench_serving --backend vllm --host 10.0.0.5 --port 30000 --num-prompts 10",
                "http://10.0.0.5:30000 --num-prompts 10 --rate inf",
            ),
            (
                "python benchmarks/benchmark_serving.py --port 8000 --num-prompts 10",
                "http://127.0.0.1:8000 --num-prompts 10 --rate inf",
            ),
            (
                "python benchmarks/benchmark_serving.py --dataset-name random --num-prompts 10",
                "http://127.0.0.1:8000 --num-prompts 10 --rate inf --input-len 1024 --output-len 128",
            ),
            (
                "python token_benchmark_ray.py --model M --mean-input-tokens 550 --mean-output-tokens 150 \
                 --num-concurrent-requests 4 --max-num-completed-requests 20 --timeout 600 --llm-api openai --results-dir out",
                "http://127.0.0.1:8000 --model M --input-len 550 --output-len 150 --concurrency 4 --requests 20 \
                 --timeout 600s --api openai-chat --out out",
            ),
            (
                "uv run vllm bench serve --port 9000 --num-prompts 10",
                "http://127.0.0.1:9000 --num-prompts 10 --rate inf --input-len 1024 --output-len 128",
            ),
            (
                "k6 run --vus 10 --duration 30s script.js",
                "http://127.0.0.1:8000 --concurrency 10 --duration 30s",
            ),
            (
                "locust -f locustfile.py --headless -u 10 -r 2 --host http://10.0.0.5:8000 -t 30s",
                "http://10.0.0.5:8000 --concurrency 10 --duration 30s",
            ),
            (
                "wrk -t4 -c10 -d30s -s post.lua http://10.0.0.5:8000/v1/chat/completions",
                "http://10.0.0.5:8000 --concurrency 10 --duration 30s --api openai-chat",
            ),
            (
                "hey -n 100 -c 10 http://10.0.0.5:8000",
                "http://10.0.0.5:8000 --requests 100 --concurrency 10",
            ),
        ] {
            let message = explanation(theirs);
            let expected = format!(": benchtrail load {ours}");
            assert!(message.ends_with(&expected), "{message}\n{expected}");
        }
    }

    /// Without an option, each tool does something else than `load`.
    #[test]
    fn the_other_tools_own_defaults_are_added() {
        for (theirs, hint) in [
            (
                "vllm bench serve",
                "hint: the same load: benchtrail load http://127.0.0.1:8000 --rate inf --requests 1000 --input-len 1024 \
                 --output-len 128",
            ),
            (
                "vllm bench serve --max-concurrency 4",
                "hint: the same load: benchtrail load http://127.0.0.1:8000 --max-concurrency 4 --requests 1000 \
                 --input-len 1024 --output-len 128",
            ),
            (
                "python3 -m sglang.bench_serving --dataset-name random --request-rate 2",
                "hint: the same load: benchtrail load http://127.0.0.1:30000 --request-rate 2 --requests 1000 \
                 --input-len 1..1024 --output-len 1..1024 --api sglang-generate",
            ),
            (
                "python3 -m sglang.bench_serving --dataset-name random --random-input-len 64 --random-output-len 8 \
                 --random-range-ratio 1 --backend vllm --num-prompts 4 --request-rate 2",
                "hint: the same load: benchtrail load http://127.0.0.1:8000 --random-input-len 64 --random-output-len 8 \
                 --num-prompts 4 --request-rate 2",
            ),
            (
                "python3 -m sglang.bench_serving --dataset-name random --random-input 64 --random-output 8 --port 1",
                "hint: the same load: benchtrail load http://127.0.0.1:1 --input-len 1..64 --output-len 1..8 --rate inf \
                 --requests 1000 --api sglang-generate",
            ),
            (
                "python3 -m sglang.bench_serving --port 1",
                "hint: a similar load, with our own prompts and answer lengths: benchtrail load http://127.0.0.1:1 --rate \
                 inf --requests 1000 --api sglang-generate",
            ),
            (
                "guidellm benchmark --target http://10.0.0.5:8000",
                "hint: a similar load, with our own level, number of requests, prompts, answer lengths and API: benchtrail \
                 load http://10.0.0.5:8000",
            ),
            (
                "aiperf profile -m M",
                "hint: a similar load, with our own answer lengths: benchtrail load http://127.0.0.1:8000 --model M \
                 --requests 10 --input-len 550 --no-stream --api openai-chat",
            ),
            (
                "hey http://10.0.0.5:8000",
                "hint: a similar load, with our own prompts, answer lengths and API: benchtrail load http://10.0.0.5:8000 \
                 --concurrency 50 --requests 200",
            ),
            (
                "k6 run --vus 10 --duration 30s script.js",
                "hint: a similar load, with our own address, prompts, answer lengths and API: benchtrail load \
                 http://127.0.0.1:8000 --concurrency 10 --duration 30s",
            ),
        ] {
            // A command alone is answered with its name.
            let message = match theirs {
                "vllm bench serve" => explanation("vllm bench serve --port 8000"),
                theirs => explanation(theirs),
            };
            assert!(message.ends_with(hint), "{message}\n{hint}");
        }
    }

    #[test]
    fn a_command_without_a_server_gets_a_study() {
        for (theirs, command, init) in [
            (
                "llama-bench -m m.gguf -p 512",
                "llama-bench",
                "llama-cpp --model m.gguf",
            ),
            (
                "vllm bench latency --model M",
                "vllm bench latency",
                "vllm --model M",
            ),
            (
                "bench throughput --model M",
                "bench throughput",
                "vllm --model M",
            ),
            (
                "python -m sglang.bench_one_batch --model-path M",
                "python -m sglang.bench_one_batch",
                "sglang --model M",
            ),
        ] {
            let message = explanation(theirs);
            let said = format!("error: `{command}` times an engine without a server");
            assert!(message.starts_with(&said), "{message}");
            let init = format!("benchtrail init my-study --engine {init};");
            assert!(message.contains(&init), "{message}");
        }
        let sweep = explanation("vllm bench sweep serve --serve-cmd s --bench-cmd b");
        let said = "error: `vllm bench sweep` starts one server after the other";
        assert!(sweep.starts_with(said), "{sweep}");
        for ours in [
            "latency",
            "sweep --model M",
            "vllm serve M --port 8000",
            "run mine.yaml",
            "bench",
            "guidellm",
            "python",
        ] {
            assert!(explained(&words(ours)).is_none(), "{ours}");
        }
    }

    #[test]
    fn options_that_need_no_translation_are_not_mentioned() {
        assert!(
            explained(&words(
                "load http://127.0.0.1:1 --num-prompts 4 --frobnicate 3"
            ))
            .is_none()
        );
        assert!(explained(&words("load http://127.0.0.1:1 --api openai-chat")).is_none());
        assert!(explained(&words("run mine.yaml --force --cores 4")).is_none());
    }

    #[test]
    fn an_option_of_ours_has_no_other_name_and_an_unknown_one_has_none() {
        for api in ["openai-completions", "openai-chat", "rerank"] {
            // The parser of the command line names a single unknown option.
            let line = format!("load http://127.0.0.1:1 --api {api} --frobnicate");
            assert_eq!(explained(&words(&line)), None, "{line}");
            let message = explanation(&(line + " --zork 3"));
            let heading = "error: `benchtrail load` does not have these options:\n  --frobnicate ";
            assert!(message.starts_with(heading), "{message}");
            assert!(
                message.ends_with(&format!("http://127.0.0.1:1 --api {api}")),
                "{message}"
            );
        }
        let message = explanation("load http://127.0.0.1:1 --api vllm --frobnicate");
        assert!(message.contains("has other names"), "{message}");
    }

    #[test]
    fn options_that_are_all_valid_have_no_other_names() {
        let message =
            explanation("vllm bench serve http://127.0.0.1:8000 --num-prompts 4 --request-rate 2");
        let heading = "error: only the name of the command differs:\n  vllm bench serve  the command is `benchtrail load`\n";
        assert!(message.starts_with(heading), "{message}");
        assert!(
            message.contains("hint: the same load: benchtrail load"),
            "{message}"
        );
        let line = "vllm bench serve --dataset-name sharegpt --dataset-path s.json --num-prompts 4";
        let message = explanation(line);
        let ours = "hint: a similar load, with our own answer lengths: benchtrail load http://127.0.0.1:8000 \
                    --dataset-path s.json --num-prompts 4 --rate inf";
        assert!(message.ends_with(ours), "{message}");
        let message = explanation("locust -f mine.py --users 10");
        assert!(
            message.contains("the script says what is sent"),
            "{message}"
        );
        let message = explanation("vllm bench serve http://127.0.0.1:8000 --frobnicate 4");
        assert!(message.contains("does not have these options"), "{message}");
    }

    #[test]
    fn a_key_on_the_command_line_is_not_repeated() {
        let message = explanation(
            "load http://127.0.0.1:1 --api-key sk-very-secret --header Authorization=sk-very-secret -n 4",
        );
        assert!(!message.contains("very-secret"), "{message}");
        assert!(message.contains("--api-key-env MY_KEY"), "{message}");
    }
}
