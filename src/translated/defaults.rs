//! What other tools do without being asked: their own levels, numbers of requests, lengths, APIs and addresses.

use super::tools::Theirs;
use super::{Given, apis};
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
    /// Whether the model ends its answers, so that the lengths asked for are only limits.
    ends: bool,
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
        ends: true,
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
        ends: false,
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
        ends: true,
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
        ends: false,
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
        ends: false,
    },
    Usual {
        tool: "aiperf",
        level: Same,
        extent: Words(&["--requests", "10"]),
        prompts: Words(&["--input-len", "550"]),
        answers: Unsaid,
        api: Words(&["--api", "openai-chat"]),
        streams: false,
        ends: true,
    },
    Usual {
        tool: "genai-perf",
        level: Same,
        extent: Unsaid,
        prompts: Words(&["--input-len", "550"]),
        answers: Unsaid,
        api: Unsaid,
        streams: false,
        ends: true,
    },
    Usual {
        tool: "llmperf",
        level: Words(&["--concurrency", "10"]),
        extent: Words(&["--requests", "10"]),
        prompts: Unsaid,
        answers: Unsaid,
        api: Words(&["--api", "openai-chat"]),
        streams: true,
        ends: true,
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

/// What an option says about a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aspect {
    Level,
    Extent,
    Prompts,
    Answers,
    Api,
}

use Aspect::{Answers, Api, Extent, Level, Prompts};

/// Options, or their beginnings, with what they say.
const ASPECTS: &[(&[&str], &[Aspect])] = &[
    (
        &[
            "--ramp-up-",
            "--self-timed",
            "--use-trace-timestamps",
            "--rate",
            "--request-rate",
            "--concurrency",
            "--max-concurrency",
            "--num-concurrent-requests",
            "--profile",
            "--rate-type",
            "--override",
            "--rampup",
            "--user-centric-rate",
            "--users",
            "--num-users",
            "--vus",
            "--connections",
            "--session-concurrency",
            "--constant",
            "--burst",
            "-c",
            "-u",
            "-q",
            "-R",
        ],
        &[Level],
    ),
    // These say how long they last, too.
    (
        &[
            "--stage",
            "--stages",
            "-s",
            "--fixed-schedule",
            "--trace",
            "--steps",
            "--ramp",
        ],
        &[Level, Extent],
    ),
    (
        &[
            "--num-prompts",
            "--num-requests",
            "--requests",
            "--request-count",
            "--max-requests",
            "--max-num-completed-requests",
            "--duration",
            "--max-seconds",
            "--benchmark-duration",
            "--measurement-interval",
            "--run-time",
            "--iterations",
            "--constraint",
            "--num-conversations",
            "--conversation-num",
            "-n",
            "-i",
            "-z",
            "-d",
            "-t",
        ],
        &[Extent],
    ),
    (
        &[
            "--dataset",
            "--dataset-",
            "--public-dataset",
            "--data",
            "--input-file",
        ],
        &[Prompts, Answers],
    ),
    (
        &[
            "--input-len",
            "--random-input",
            "--random-input-",
            "--random-prefix-",
            "--isl",
            "--synthetic-input-",
            "--prompt-",
            "--mean-input-",
            "--prefix-",
            "--gsp-",
            "--sonnet-",
            "--hf-",
            "--image-",
            "--workload",
        ],
        &[Prompts],
    ),
    (
        &[
            "--output-len",
            "--output-tokens",
            "--output-tokens-",
            "--random-output",
            "--random-output-",
            "--osl",
            "--mean-output-",
        ],
        &[Answers],
    ),
    (apis::OF_AN_API, &[Api]),
];

/// Returns what an option of a tool says about a load.
pub(super) fn aspects(tool: &str, option: &str) -> &'static [Aspect] {
    let is_of_something_else = matches!(
        (tool, option),
        ("aiperf" | "genai-perf", "--num-prompts")
            | ("vllm" | "benchmark_serving" | "sglang", "--profile")
            | ("hey" | "oha" | "wrk", "-t")
            | ("hey" | "oha" | "ab", "-d")
            | ("hey" | "oha" | "ab" | "wrk", "-s")
            | ("ab" | "k6", "-q")
    );
    if is_of_something_else {
        return &[];
    }
    let is_it = |name: &&str| match name.strip_suffix('-') {
        Some(_) => option.starts_with(*name),
        None => option == *name,
    };
    let mut all = ASPECTS.iter();
    let entry = all.find(|(names, _)| names.iter().any(is_it));
    entry.map_or(&[], |(_, aspects)| *aspects)
}

/// What about the load no words of ours say.
#[derive(Default)]
pub(super) struct Gaps {
    /// The names of what `load` does in its own way.
    pub(super) own: Vec<&'static str>,
    /// Whether answers have a fixed length, and not that of the other tool.
    pub(super) is_fixed: bool,
}

/// A command of ours to which a tool's defaults are added.
struct Filled<'a> {
    words: &'a mut Vec<String>,
    lost: &'a [Aspect],
    gaps: Vec<&'static str>,
}

impl Filled<'_> {
    /// Adds lengths of prompts and answers, where no option of ours says them.
    fn add_lengths(&mut self, (prompts, answers): (Unasked, Unasked)) {
        for (aspect, unasked) in [(Prompts, prompts), (Answers, answers)] {
            if !matches!(unasked, Same) || aspect == Prompts && self.lost.contains(&Prompts) {
                self.add(aspect, unasked);
            }
        }
    }

    /// Adds what a tool does without an option. If there was one, and it was left out, the default is not what was asked.
    fn add(&mut self, aspect: Aspect, unasked: Unasked) {
        let name = match aspect {
            Level => "level",
            Extent => "number of requests",
            Prompts => "prompts",
            Answers => "answer lengths",
            Api => "API",
        };
        match unasked {
            _ if self.lost.contains(&aspect) => self.gaps.push(name),
            Words(more) => self
                .words
                .extend(more.iter().map(|word| (*word).to_owned())),
            Same => {}
            Unsaid => self.gaps.push(name),
        }
    }

    /// Adds the number of requests, or the time.
    fn add_extent(&mut self, usual: &Usual, load: &LoadArgs) {
        let is_lost = self.lost.contains(&Extent);
        match (usual.tool, load.concurrency.as_slice()) {
            ("aiperf", _) if load.dataset.is_some() => self.add(Extent, Unsaid),
            // Two requests for each client, and at least ten.
            ("aiperf", [clients]) if *clients > 5 && !is_lost => {
                let requests = (2 * u64::from(*clients)).to_string();
                self.words.extend(["--requests".to_owned(), requests]);
            }
            ("aiperf", [_, _, ..]) => self.add(Extent, Unsaid),
            _ => self.add(Extent, usual.extent),
        }
    }
}

/// Adds to a command of ours what a tool does without being asked; `lost` are the aspects of options that were left out.
/// Returns what no words say.
pub(super) fn fill(
    theirs: &Theirs,
    given: &[Given],
    lost: &[Aspect],
    words: &mut Vec<String>,
) -> Gaps {
    let usual = USUAL.iter().find(|usual| usual.tool == theirs.tool);
    let (Some(usual), Some(load)) = (usual, load_of(words)) else {
        return Gaps {
            own: vec!["level", "number of requests", "prompts"],
            is_fixed: false,
        };
    };
    let mut filled = Filled {
        words,
        lost,
        gaps: Vec::new(),
    };
    // A trace holds times and lengths.
    let is_trace = load.trace.is_some();
    if !is_trace && (!has_level(&load) || lost.contains(&Level)) {
        filled.add(Level, usual.level);
    }
    if !is_trace && load.requests.is_none() && load.duration.is_none() {
        filled.add_extent(usual, &load);
    }
    // The file may hold more requests than the tool sends.
    if is_trace && load.requests.is_none() && usual.tool != "aiperf" {
        filled.add(Extent, Unsaid);
    }
    filled.add_lengths(lengths(usual, &load, given));
    if !usual.streams && !load.no_stream && !has(given, "--streaming") {
        filled.words.push("--no-stream".to_owned());
    }
    // GuideLLM's backend is the protocol, and the format of its requests is the API.
    let names_it =
        |one: &&str| has(given, one) && !(usual.tool == "guidellm" && *one == "--backend");
    let is_written = filled.words.iter().any(|word| word == "--api");
    let is_lost = lost.contains(&Api);
    if !is_written && (is_lost || !apis::OF_AN_API.iter().any(names_it)) {
        filled.add(Api, usual.api);
    }
    // They send at equal distances.
    if theirs.is_of_http() && !load.rate.is_empty() {
        filled.gaps.push("arrivals");
    }
    let own = filled.gaps;
    limit_clients(words);
    let is_fixed = generates(words) && !own.contains(&"answer lengths") && ends(usual, given);
    Gaps { own, is_fixed }
}

/// Returns whether the answers of the other tool end by themselves.
fn ends(usual: &Usual, given: &[Given]) -> bool {
    let data_set = value(given, "--dataset-name");
    let inputs = value(given, "--extra-inputs");
    match usual.tool {
        // It ignores the end of sequence for random prompts and traces.
        "vllm" => {
            let is_exact = |name| ["random", "random-mm", "timed_trace"].contains(&name);
            let is_exact = match data_set {
                Some(name) => is_exact(name),
                None => !has(given, "--dataset-path"),
            };
            !is_exact && !has(given, "--ignore-eos")
        }
        "benchmark_serving" => usual.ends && !has(given, "--ignore-eos"),
        "sglang" => usual.ends || has(given, "--disable-ignore-eos"),
        "aiperf" | "genai-perf" => {
            usual.ends && !inputs.is_some_and(|inputs| inputs.contains("ignore_eos:true"))
        }
        _ => usual.ends,
    }
}

/// Returns whether a command asks for generated text.
fn generates(words: &[String]) -> bool {
    let load = load_of(words);
    load.is_some_and(|load| !load.api.contains("embeddings") && !load.api.contains("rerank"))
}

/// Lowers clients to the number of requests: more have nothing to send, and `load` refuses them.
fn limit_clients(words: &mut [String]) {
    let Some(load) = load_of(words) else {
        return;
    };
    let Some(requests) = load.requests else {
        return;
    };
    let is_closed = load.rate.iter().all(|rate| rate.is_infinite()) && load.trace.is_none();
    let is_closed = is_closed && load.constant.is_none() && load.steps.is_empty();
    let options = match is_closed && load.ramp.is_none() {
        true => ["--concurrency", "--max-concurrency"].as_slice(),
        false => &[],
    };
    for at in 1..words.len() {
        if options.contains(&words[at - 1].as_str()) {
            let levels = words[at].split(',').map(|level| {
                let clients: Option<u64> = level.trim().parse().ok();
                clients.map_or_else(|| level.to_owned(), |n| n.min(requests).to_string())
            });
            let mut levels: Vec<String> = levels.collect();
            levels.dedup();
            words[at] = levels.join(",");
        }
    }
}

/// Returns what is missing about the lengths of prompts and of answers.
fn lengths(usual: &Usual, load: &LoadArgs, given: &[Given]) -> (Unasked, Unasked) {
    let is_written = |api: &str| api.contains("embeddings") || api.contains("rerank");
    // A trace has the lengths, and its prompts are drawn.
    if load.trace.is_some() {
        return (Unsaid, Same);
    }
    let data_set = value(given, "--dataset-name");
    let is_random = data_set.is_some_and(|name| name.starts_with("random"));
    let has_prompts = load.dataset.is_some()
        || load.prompt_tokens.is_some()
        || load.prompt_words.is_some()
        || load.workload.is_some();
    // SGLang draws lengths from this share of the length on.
    let ratio = value(given, "--random-range-ratio");
    let ratio = ratio.map_or(Some(0.0), |r| r.parse::<f64>().ok());
    let is_whole = ratio.is_some_and(|r| r.total_cmp(&1.0).is_eq());
    let is_partly = ratio.is_none_or(|r| r.abs() > 0.0);
    // Without its option, llmperf draws lengths around the mean.
    let varies = |option: &str| usual.tool == "llmperf" && !has(given, option);
    let prompts = match (usual.tool, has_prompts) {
        (_, true) if varies("--stddev-input-tokens") => Unsaid,
        (_, true) => Same,
        ("sglang", false) if is_random && is_whole => Words(&["--input-len", "1024"]),
        ("sglang", false) if is_random && is_partly => Unsaid,
        ("sglang", false) if is_random => Words(&["--input-len", "1..1024"]),
        ("benchmark_serving", false) if is_random => Words(&["--input-len", "1024"]),
        _ if data_set.is_some() && !is_random => Unsaid,
        _ => usual.prompts,
    };
    let answers = match (usual.tool, load.output_tokens.is_some()) {
        (_, true) if varies("--stddev-output-tokens") => Unsaid,
        (_, true) => Same,
        _ if is_written(&load.api) => Same,
        ("sglang", false) if is_random && is_whole => Words(&["--output-len", "1024"]),
        ("sglang", false) if is_random && is_partly => Unsaid,
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
