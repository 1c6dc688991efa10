//! What other tools do without being asked: their own levels, numbers of requests, lengths, APIs and addresses.

use super::Given;
use super::tools::Theirs;
use crate::args::{self, Command, LoadArgs};

/// What a tool does if an option is not given.
#[derive(Clone, Copy)]
enum Unasked {
    /// What these words say.
    Words(&'static [&'static str]),
    /// The same as `load`.
    Same,
    /// Something that no words of ours say, or that differs between its versions.
    Unsaid,
}

use Unasked::{Same, Unsaid, Words};

/// What a tool does without options.
struct Usual {
    tool: &'static str,
    level: Unasked,
    extent: Unasked,
    prompts: Unasked,
    answers: Unasked,
    api: Unasked,
    /// Whether answers are streamed.
    streams: bool,
}

const fn of_http(tool: &'static str, level: Unasked, extent: Unasked) -> Usual {
    Usual {
        tool,
        level,
        extent,
        prompts: Unsaid,
        answers: Unsaid,
        api: Unsaid,
        streams: true,
    }
}

const ALL_AT_ONCE: Unasked = Words(&["--rate", "inf"]);

/// The tools' defaults.
const USUAL: &[Usual] = &[
    Usual {
        tool: "vllm",
        level: ALL_AT_ONCE,
        extent: Words(&["--requests", "1000"]),
        prompts: Words(&["--input-len", "1024"]),
        answers: Words(&["--output-len", "128"]),
        api: Same,
        streams: true,
    },
    // The script before `vllm bench serve`: its prompts are ShareGPT's.
    Usual {
        tool: "benchmark_serving",
        level: ALL_AT_ONCE,
        extent: Words(&["--requests", "1000"]),
        prompts: Unsaid,
        answers: Unsaid,
        api: Same,
        streams: true,
    },
    // Its prompts are ShareGPT's.
    Usual {
        tool: "sglang",
        level: ALL_AT_ONCE,
        extent: Words(&["--requests", "1000"]),
        prompts: Unsaid,
        answers: Unsaid,
        api: Words(&["--api", "sglang-generate"]),
        streams: true,
    },
    // It sweeps, and its API is another one in each version.
    Usual {
        tool: "guidellm",
        level: Unsaid,
        extent: Unsaid,
        prompts: Unsaid,
        answers: Unsaid,
        api: Unsaid,
        streams: true,
    },
    // The model ends its answers.
    Usual {
        tool: "aiperf",
        level: Same,
        extent: Words(&["--requests", "10"]),
        prompts: Words(&["--input-len", "550"]),
        answers: Unsaid,
        api: Words(&["--api", "openai-chat"]),
        streams: false,
    },
    Usual {
        tool: "genai-perf",
        level: Same,
        extent: Unsaid,
        prompts: Words(&["--input-len", "550"]),
        answers: Unsaid,
        api: Unsaid,
        streams: false,
    },
    Usual {
        tool: "llmperf",
        level: Words(&["--concurrency", "10"]),
        extent: Words(&["--requests", "10"]),
        prompts: Unsaid,
        answers: Unsaid,
        api: Words(&["--api", "openai-chat"]),
        streams: true,
    },
    of_http(
        "hey",
        Words(&["--concurrency", "50"]),
        Words(&["--requests", "200"]),
    ),
    of_http(
        "oha",
        Words(&["--concurrency", "50"]),
        Words(&["--requests", "200"]),
    ),
    of_http(
        "wrk",
        Words(&["--concurrency", "10"]),
        Words(&["--duration", "10s"]),
    ),
    of_http("ab", Same, Words(&["--requests", "1"])),
    of_http("k6", Same, Words(&["--requests", "1"])),
    of_http("locust", Same, Unsaid),
];

/// Options with which a tool names its API.
const OF_AN_API: &[&str] = &[
    "--api",
    "--backend",
    "--backend-type",
    "--endpoint",
    "--endpoint-type",
    "--llm-api",
    "--request-type",
    "--service-kind",
    "--apply-chat-template",
    "--use-chat-template",
];

/// Returns the port at which a tool looks for its server, and whether its pages state one.
pub(super) fn address(theirs: Option<&Theirs>, given: &[Given]) -> (&'static str, bool) {
    let tool = theirs.map_or("", |theirs| theirs.tool);
    match tool {
        "sglang" => match value(given, "--backend") {
            Some("lmdeploy" | "lmdeploy-chat") => ("23333", true),
            Some("vllm" | "vllm-chat" | "trt") => ("8000", true),
            Some("truss") => ("8080", true),
            _ => ("30000", true),
        },
        "" | "vllm" | "benchmark_serving" | "aiperf" | "genai-perf" | "guidellm" => ("8000", true),
        _ => ("8000", false),
    }
}

/// A command of ours to which a tool's defaults are added.
struct Filled<'a> {
    words: &'a mut Vec<String>,
    gaps: Vec<&'static str>,
}

impl Filled<'_> {
    fn add(&mut self, unasked: Unasked, name: &'static str) {
        match unasked {
            Words(more) => self
                .words
                .extend(more.iter().map(|word| (*word).to_owned())),
            Same => {}
            Unsaid => self.gaps.push(name),
        }
    }

    /// Adds the number of requests, or the time.
    fn add_extent(&mut self, usual: &Usual, load: &LoadArgs) {
        const NAME: &str = "number of requests";
        match (usual.tool, load.concurrency.as_slice()) {
            ("aiperf", _) if load.dataset.is_some() => self.add(Unsaid, NAME),
            // Two requests for each client, and at least ten.
            ("aiperf", [clients]) if *clients > 5 => {
                let requests = (2 * u64::from(*clients)).to_string();
                self.words.extend(["--requests".to_owned(), requests]);
            }
            ("aiperf", [_, _, ..]) => self.add(Unsaid, NAME),
            _ => self.add(usual.extent, NAME),
        }
    }
}

/// Adds to a command of ours what a tool does without being asked. Returns what no words say, each with its name in a
/// sentence.
pub(super) fn fill(theirs: &Theirs, given: &[Given], words: &mut Vec<String>) -> Vec<&'static str> {
    let usual = USUAL.iter().find(|usual| usual.tool == theirs.tool);
    let (Some(usual), Some(load)) = (usual, load_of(words)) else {
        return vec!["level", "number of requests", "prompts"];
    };
    let mut filled = Filled {
        words,
        gaps: Vec::new(),
    };
    // A trace holds times and lengths.
    let is_trace = load.trace.is_some();
    if !is_trace && !has_level(&load) {
        filled.add(usual.level, "level");
    }
    if !is_trace && load.requests.is_none() && load.duration.is_none() {
        filled.add_extent(usual, &load);
    }
    let (prompts, answers) = lengths(usual, &load, given);
    filled.add(prompts, "prompts");
    filled.add(answers, "answer lengths");
    if !usual.streams && !load.no_stream && !has(given, "--streaming") {
        filled.add(Words(&["--no-stream"]), "");
    }
    let has_api = load.api != "openai-completions" || OF_AN_API.iter().any(|one| has(given, one));
    if !has_api {
        filled.add(usual.api, "API");
    }
    filled.gaps
}

/// Returns what is missing about the lengths of prompts and of answers.
fn lengths(usual: &Usual, load: &LoadArgs, given: &[Given]) -> (Unasked, Unasked) {
    let is_written = |api: &str| api.contains("embeddings") || api.contains("rerank");
    if load.trace.is_some() {
        return (Same, Same);
    }
    let data_set = value(given, "--dataset-name");
    let is_random = data_set.is_some_and(|name| name.starts_with("random"));
    let has_prompts = load.dataset.is_some()
        || load.prompt_tokens.is_some()
        || load.prompt_words.is_some()
        || load.workload.is_some();
    // Without its option, llmperf draws lengths around the mean.
    let varies = |option: &str| usual.tool == "llmperf" && !has(given, option);
    let prompts = match (usual.tool, has_prompts) {
        (_, true) if varies("--stddev-input-tokens") => Unsaid,
        (_, true) => Same,
        ("sglang", false) if is_random => Words(&["--input-len", "1..1024"]),
        ("benchmark_serving", false) if is_random => Words(&["--input-len", "1024"]),
        _ if data_set.is_some() && !is_random => Unsaid,
        _ => usual.prompts,
    };
    let answers = match (usual.tool, load.output_tokens.is_some()) {
        (_, true) if varies("--stddev-output-tokens") => Unsaid,
        (_, true) => Same,
        _ if is_written(&load.api) => Same,
        ("sglang", false) if is_random => Words(&["--output-len", "1..1024"]),
        ("benchmark_serving", false) if is_random => Words(&["--output-len", "128"]),
        // Other tools take the lengths of answers from the file.
        _ if load.dataset.is_some() || (data_set.is_some() && !is_random) => Unsaid,
        _ => usual.answers,
    };
    (prompts, answers)
}

fn has_level(load: &LoadArgs) -> bool {
    let has_clients = !load.concurrency.is_empty() || load.max_concurrency.is_some();
    let has_rate = !load.rate.is_empty() || load.constant.is_some() || load.burst;
    has_clients || has_rate || !load.steps.is_empty() || load.ramp.is_some()
}

/// Returns the arguments of a command of ours; `None` if it is not a valid one.
fn load_of(words: &[String]) -> Option<LoadArgs> {
    match args::parse(words).ok()?.command {
        Command::Load(load) => Some(*load),
        _ => None,
    }
}

fn has(given: &[Given], option: &str) -> bool {
    given.iter().any(|one| one.option == option)
}

fn value<'a>(given: &'a [Given], option: &str) -> Option<&'a str> {
    let one = given.iter().find(|one| one.option == option);
    one.and_then(Given::value)
}
