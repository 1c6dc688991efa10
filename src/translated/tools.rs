//! The beginnings of command lines by which other tools measure, and what only one tool means by an option.

use super::Given;

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

/// Options of tools that load any HTTP server, each with ours; without one, the option is not needed.
const OF_HTTP_TOOLS: &[(&str, &str, &str)] = &[
    ("locust", "-u", "--concurrency"),
    ("locust", "-t", "--duration"),
    ("locust", "-r", ""),
    ("locust", "-f", ""),
    ("k6", "-u", "--concurrency"),
    ("k6", "-d", "--duration"),
    ("k6", "-i", "--requests"),
    ("wrk", "-d", "--duration"),
    ("wrk", "-t", ""),
    ("wrk", "-s", ""),
    ("hey", "-q", "--rate"),
    ("oha", "-q", "--rate"),
    ("ab", "-t", "--duration"),
    ("ab", "-k", ""),
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
            let fixed = if self.tool == "sglang" { 1.0 } else { 0.0 };
            let is_fixed = number.parse::<f64>().ok()?.total_cmp(&fixed).is_eq();
            return is_fixed.then(Vec::new);
        }
        let ours = match one.option.as_str() {
            "--random-input-len" | "--random-input" => "--input-len",
            "--random-output-len" | "--random-output" => "--output-len",
            _ => return None,
        };
        let has_ratio = given.iter().any(|one| one.option == "--random-range-ratio");
        if self.tool != "sglang" || has_ratio || number.parse::<u32>().ok()? < 2 {
            return None;
        }
        Some(vec![ours.to_owned(), format!("1..{number}")])
    }

    /// Returns our option for one that this tool reads in its own way; an empty one if it is not needed.
    pub(super) fn option(&self, option: &str) -> Option<&'static str> {
        let mut all = OF_HTTP_TOOLS.iter();
        let entry = all.find(|(tool, theirs, _)| *tool == self.tool && *theirs == option);
        entry.map(|(_, _, ours)| *ours)
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
    let (_, given) = super::split(&words[at + 1..]);
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
