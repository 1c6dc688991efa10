//! The beginnings of command lines by which other tools measure, and what only one tool means by an option.

use super::options::{left_out, nothing};
use super::{Given, Instead, http};

/// A command line in another tool's words.
pub(super) struct Theirs {
    /// The tool, for options that mean something else elsewhere, and for what it does without them.
    pub(super) tool: &'static str,
    /// The words that name the tool and its command.
    pub(super) command: String,
    /// How many words these are.
    length: usize,
}

/// Words with which programs are started.
const STARTERS: &[&[&str]] = &[
    &["uv", "run"],
    &["pipx", "run"],
    &["uvx"],
    &["python", "-m"],
    &["python3", "-m"],
    &["python"],
    &["python3"],
];

/// The programs of other tools that measure with one of their commands.
const WITH_COMMANDS: &[&str] = &["vllm", "sglang", "guidellm", "aiperf", "genai-perf", "k6"];

/// The programs of other tools that only measure.
const WITHOUT_COMMANDS: &[&str] = &["llmperf", "locust", "wrk", "hey", "oha", "ab"];

/// The commands that measure a server.
const COMMANDS: &[&[&str]] = &[
    &["bench", "serve"],
    &["bench"],
    &["bench_serving"],
    &["benchmark", "run"],
    &["benchmark"],
    &["profile"],
    &["run"],
];

/// Names of programs and commands that time an engine without a server, each with the engine.
const OFFLINE: &[(&str, &str)] = &[
    ("llama-bench", "llama-cpp"),
    ("trtllm-bench", "tensorrt-llm"),
    ("latency", "vllm"),
    ("throughput", "vllm"),
    ("benchmark_latency.py", "vllm"),
    ("benchmark_throughput.py", "vllm"),
    ("bench_one_batch", "sglang"),
    ("bench_offline_throughput", "sglang"),
];

/// Returns the name of a program or module without its folder, its package and its suffix.
fn program(word: &str) -> &str {
    let name = word.rsplit('/').next().unwrap_or(word);
    let name = name.strip_suffix(".py").unwrap_or(name);
    name.rsplit('.').next().unwrap_or(name)
}

/// Returns whether a word names a script that loads a server.
fn is_script(word: &str) -> bool {
    ["bench_serving", "benchmark_serving", "token_benchmark_ray"].contains(&program(word))
}

/// Returns the tool that has a command, for a command line without the tool's name.
fn tool_of(command: &[String]) -> &'static str {
    let has = |name: &str| command.iter().any(|word| program(word) == name);
    match () {
        () if has("bench_serving") => "sglang",
        () if has("token_benchmark_ray") => "llmperf",
        () if has("benchmark_serving") => "benchmark_serving",
        () if has("bench") => "vllm",
        () if has("benchmark") => "guidellm",
        () if has("profile") => "aiperf",
        () => "",
    }
}

impl Theirs {
    /// Returns the beginning of a command line in another tool's words; `None` if it does not begin so.
    pub(super) fn of(words: &[String]) -> Option<Self> {
        let begins = |at: usize, with: &[&str]| {
            words[at..].len() >= with.len() && words[at..].iter().zip(with).all(|(a, b)| a == b)
        };
        let mut at = STARTERS
            .iter()
            .find(|with| begins(0, with))
            .map_or(0, |with| with.len());
        let mut tools = WITH_COMMANDS.iter().chain(WITHOUT_COMMANDS);
        let tool = tools.find(|name| words.get(at).is_some_and(|word| word == *name));
        let tool = tool.copied().unwrap_or_default();
        at += usize::from(!tool.is_empty());
        // `benchtrail run` is ours.
        let is_theirs =
            |with: &&&[&str]| begins(at, with) && (**with != ["run"] || !tool.is_empty());
        if words.get(at).is_some_and(|word| is_script(word)) {
            at += 1;
        } else if let Some(with) = COMMANDS.iter().find(is_theirs) {
            at += with.len();
        } else if !WITHOUT_COMMANDS.contains(&tool) {
            return None;
        }
        let tool = match tool {
            "" => tool_of(&words[..at]),
            tool => tool,
        };
        Some(Self {
            tool,
            command: words[..at].join(" "),
            length: at,
        })
    }

    /// Returns our words for a length that this tool draws from a range, unless it is given one; for a range of no width,
    /// none.
    pub(super) fn drawn(&self, one: &Given, given: &[Given]) -> Option<Vec<String>> {
        let number = one.value()?;
        if one.option == "--random-range-ratio" {
            let ratio = number.parse::<f64>().ok()?;
            // SGLang's options for the lengths become ranges.
            return (self.tool == "sglang" || ratio.total_cmp(&0.0).is_eq()).then(Vec::new);
        }
        let ours = match one.option.as_str() {
            "--random-input-len" | "--random-input" => "--input-len",
            "--random-output-len" | "--random-output" => "--output-len",
            _ => return None,
        };
        let ratio = given
            .iter()
            .find(|one| one.option == "--random-range-ratio");
        let ratio = ratio.and_then(Given::value);
        let ratio = ratio.map_or(Some(0.0), |r| r.parse::<f64>().ok())?;
        let most = number.parse::<u32>().ok()?;
        let least = ((f64::from(most) * ratio) as u32).max(1);
        (self.tool == "sglang" && least < most)
            .then(|| vec![ours.to_owned(), format!("{least}..{most}")])
    }

    /// Returns whether the tool loads any HTTP server.
    pub(super) fn is_of_http(&self) -> bool {
        http::is_one(self.tool)
    }

    /// Returns the name of an option in the words of other tools: `-H` is the host for one, and a header for the others.
    pub(super) fn renamed<'a>(&self, option: &'a str) -> &'a str {
        match (self.tool, option) {
            ("locust", "-H") => "--host",
            _ => option,
        }
    }

    /// Returns what to write instead of an option that only this tool has, or reads in its own way.
    pub(super) fn option(&self, one: &Given, given: &[Given]) -> Option<(Instead, String)> {
        if self.is_of_http() {
            return http::of_option(self.tool, one, given);
        }
        let value = one.value();
        match (self.tool, one.option.as_str()) {
            ("aiperf" | "genai-perf", "--num-prompts" | "--num-dataset-entries") => Some(nothing(
                "it is the number of different prompts, and here each request has a prompt of its own",
            )),
            ("aiperf" | "genai-perf", "--extra-inputs")
                if value.is_some_and(|value| value.contains("ignore_eos:true")) =>
            {
                Some(left_out(
                    ": answers have exactly the length that is asked for",
                ))
            }
            ("aiperf", "--request-rate") if is_constant(given) => {
                let words = vec!["--constant".to_owned(), value?.to_owned()];
                Some((Instead::Words(words), "`--constant R`".to_owned()))
            }
            ("aiperf", "--arrival-pattern" | "--request-rate-mode")
                if matches!(value, Some("constant" | "poisson")) =>
            {
                Some(left_out(": the option for the level says it"))
            }
            ("aiperf", "--goodput") => bounds(one),
            ("sglang", "--output-file") => {
                let words = ["--output-file", value?, "--result-format", "sglang"];
                let words: Vec<String> = words.map(str::to_owned).to_vec();
                let why = "`--result-format sglang` appends a line in SGLang's form".to_owned();
                Some((Instead::Words(words), why))
            }
            ("vllm" | "benchmark_serving", "--burstiness")
                if !given
                    .iter()
                    .any(|g| g.option == "--request-rate" && g.value() != Some("inf")) =>
            {
                Some(left_out(": without a rate, all requests are sent at once"))
            }
            ("sglang", "--apply-chat-template") if sends_to_generate(given) => Some(nothing(
                "its client applies the template and sends `/generate`; with `--api openai-chat`, the server applies it",
            )),
            // The length of the run.
            ("llmperf", "--timeout") => {
                let words = vec!["--duration".to_owned(), format!("{}s", value?)];
                let why = format!("`{}`", words.join(" "));
                Some((Instead::Words(words), why))
            }
            ("sglang", "--output-details") => Some(left_out(": a saved result has every request")),
            ("sglang", "--disable-ignore-eos") => {
                Some(nothing("answers have exactly the length that is asked for"))
            }
            ("vllm" | "benchmark_serving" | "sglang", "--profile") => {
                Some(nothing("a load switches on no profiler of the server"))
            }
            ("guidellm", "--warmup" | "--cooldown") => Some(nothing(
                "it leaves out a part of the measured requests, and `--warmup N` sends further ones before them",
            )),
            ("aiperf", "--concurrency-ramp-duration") => Some(nothing("all clients start at once")),
            _ => None,
        }
    }

    /// Returns the words after the command, without the script that some tools take.
    pub(super) fn rest(&self, words: &[String]) -> Vec<String> {
        let is_script = |word: &str| {
            [".js", ".ts", ".lua", ".py"]
                .iter()
                .any(|end| word.ends_with(end))
        };
        let rest = words.iter().skip(self.length);
        rest.filter(|word| !is_script(word)).cloned().collect()
    }
}

/// Returns whether aiperf is to send at equal distances.
fn is_constant(given: &[Given]) -> bool {
    given.iter().any(|one| {
        let is_mode = ["--arrival-pattern", "--request-rate-mode"].contains(&one.option.as_str());
        is_mode && one.value() == Some("constant")
    })
}

/// Returns aiperf's bounds with our names of the metrics; `None` if it has others.
fn bounds(one: &Given) -> Option<(Instead, String)> {
    let mut words = vec!["--goodput".to_owned()];
    for bound in one.values.iter().flat_map(|value| value.split_whitespace()) {
        let (metric, limit) = bound.split_once(':')?;
        let ours = match metric {
            "time_to_first_token" => "ttft",
            "inter_token_latency" => "tpot",
            "request_latency" => "e2e",
            _ => return None,
        };
        words.push(format!("{ours}:{limit}"));
    }
    let why = format!("`{}`", words.join(" "));
    Some((Instead::Words(words), why))
}

/// Returns the message for a command line that times an engine without a server, or starts a series of servers.
pub(super) fn without_a_server(words: &[String]) -> Option<String> {
    let is_command = |word: &&String| *word == "-m" || !word.starts_with('-');
    let commands = words.iter().take(5).take_while(is_command);
    let offline = |word: &String| {
        let mut all = OFFLINE.iter();
        all.find(|(name, _)| program(word) == program(name))
            .map(|(_, engine)| *engine)
    };
    let series = |word: &String| (word == "sweep").then_some("vllm");
    let (at, engine, is_series) = commands.enumerate().find_map(|(at, word)| {
        let of_engine = offline(word).map(|engine| (at, engine, false));
        of_engine.or_else(|| series(word).map(|engine| (at, engine, true)))
    })?;
    let first = words.first()?;
    let alone = at == 0 && !["latency", "throughput", "sweep"].contains(&first.as_str());
    if !alone && Theirs::of(words).is_none() && !first.starts_with("python") {
        return None;
    }
    let (_, given) = super::split(&words[at + 1..], None);
    let model = given
        .iter()
        .find(|one| ["--model", "--model-path", "-m"].contains(&one.option.as_str()))
        .and_then(Given::value);
    let model = model.map(|model| format!(" --model {}", crate::effect_text::to_copy(model)));
    let init = format!(
        "benchtrail init my-study --engine {engine}{}",
        model.unwrap_or_default()
    );
    let command = words[..=at].join(" ");
    Some(match is_series {
        true => format!(
            "error: `{command}` starts one server after the other, and `benchtrail load` sends requests to one that runs\n\
             hint: a study starts servers, and its axes name their settings: {init}"
        ),
        false => format!(
            "error: `{command}` times an engine without a server, and `benchtrail load` sends requests to one\n\
             hint: a study starts the server and measures it: {init}; to take the results of the other tool into a study, see \
             docs/coming-from.md"
        ),
    })
}

/// Returns our options for guidellm's synthetic data, `prompt_tokens=256,output_tokens=128` or the same as JSON; `None` if
/// it says more.
pub(super) fn synthetic(data: &str) -> Option<Vec<String>> {
    let plain: String = data
        .chars()
        .filter(|c| !"{}\"' ".contains(*c))
        .map(|c| if c == ':' { '=' } else { c })
        .collect();
    let entries: Option<Vec<(&str, &str)>> = plain
        .split(',')
        .map(|entry| entry.split_once('='))
        .collect();
    let mut words = Vec::new();
    for (key, value) in entries? {
        let ours = match key {
            "prompt_tokens" => "--input-len",
            "output_tokens" => "--output-len",
            _ => return None,
        };
        value.parse::<u32>().ok()?;
        words.extend([ours.to_owned(), value.to_owned()]);
    }
    Some(words)
}

/// Returns whether SGLang's client sends prompts to the engine's own endpoint.
fn sends_to_generate(given: &[Given]) -> bool {
    let backend = given.iter().find(|one| one.option == "--backend");
    let backend = backend.and_then(Given::value);
    backend.is_none_or(|name| name.starts_with("sglang") && !name.contains("oai"))
}
