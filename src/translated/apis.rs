//! What a tool means by the name of a backend, an endpoint or a format of requests.

use super::options::{left_out, without};
use super::{Given, Instead};
use crate::other_words::{api, saying};

/// Options that name an API.
pub(super) const OF_AN_API: &[&str] = &[
    "--api",
    "--backend",
    "--backend-type",
    "--endpoint",
    "--endpoint-type",
    "--llm-api",
    "--request-type",
    "--request-format",
    "--service-kind",
    "--apply-chat-template",
    "--use-chat-template",
];

const COMPLETIONS: &str = "openai-completions";
const CHAT: &str = "openai-chat";
const EMBEDDINGS: &str = "openai-embeddings";

/// What a tool's word says about the API.
#[derive(Clone, Copy)]
enum Meant {
    /// This one.
    Api(&'static str),
    /// Nothing: another option says it.
    Elsewhere,
}

use Meant::{Api, Elsewhere};

/// The words of each tool. What is not here, `load` does not speak, or nobody knows what it is.
const BACKENDS: &[(&str, &[&str], Meant)] = &[
    // Clients of earlier versions for other engines sent the same requests as `openai`.
    (
        "vllm",
        &[
            "vllm",
            "openai",
            "sglang",
            "lmdeploy",
            "scalellm",
            "llama.cpp",
        ],
        Api(COMPLETIONS),
    ),
    ("vllm", &["openai-chat", "vllm-chat"], Api(CHAT)),
    ("vllm", &["openai-responses"], Api("openai-responses")),
    ("vllm", &["openai-embeddings"], Api(EMBEDDINGS)),
    ("vllm", &["vllm-rerank"], Api("rerank")),
    ("vllm", &["tgi"], Api("tgi-generate")),
    (
        "sglang",
        &["sglang", "sglang-native"],
        Api("sglang-generate"),
    ),
    (
        "sglang",
        &["sglang-oai", "vllm", "lmdeploy"],
        Api(COMPLETIONS),
    ),
    (
        "sglang",
        &["sglang-oai-chat", "vllm-chat", "lmdeploy-chat"],
        Api(CHAT),
    ),
    (
        "sglang",
        &["sglang-embedding", "vllm-embedding"],
        Api(EMBEDDINGS),
    ),
    ("guidellm", &["openai_http", "openai"], Elsewhere),
    (
        "guidellm",
        &["text_completions", "/v1/completions"],
        Api(COMPLETIONS),
    ),
    (
        "guidellm",
        &["chat_completions", "/v1/chat/completions"],
        Api(CHAT),
    ),
    (
        "guidellm",
        &["responses", "/v1/responses"],
        Api("openai-responses"),
    ),
    (
        "guidellm",
        &["embeddings", "/v1/embeddings"],
        Api(EMBEDDINGS),
    ),
    ("aiperf", &["openai"], Elsewhere),
    ("aiperf", &["chat"], Api(CHAT)),
    ("aiperf", &["completions"], Api(COMPLETIONS)),
    ("aiperf", &["embeddings"], Api(EMBEDDINGS)),
    ("aiperf", &["rankings", "cohere_rankings"], Api("rerank")),
    ("aiperf", &["responses"], Api("openai-responses")),
    ("llmperf", &["openai"], Api(CHAT)),
];

/// Returns the tool in whose words another one names APIs.
fn speaker(tool: &str) -> &str {
    match tool {
        "benchmark_serving" => "vllm",
        "genai-perf" => "aiperf",
        tool => tool,
    }
}

/// Returns what to write instead of an option that names an API; `None` for any other option.
pub(super) fn of_an_api(tool: &str, one: &Given) -> Option<(Instead, String)> {
    let option = one.option.as_str();
    let value = one.value()?;
    let switches = ["--apply-chat-template", "--use-chat-template"];
    if !OF_AN_API.contains(&option) || switches.contains(&option) {
        return None;
    }
    let speaker = speaker(tool);
    let is_there =
        |(tool, words, _): &&(&str, &[&str], Meant)| *tool == speaker && words.contains(&value);
    let has_words = BACKENDS.iter().any(|(tool, _, _)| *tool == speaker);
    let meant = BACKENDS.iter().find(is_there).map(|(_, _, meant)| *meant);
    // A path is the same for every tool.
    let meant = meant.or_else(|| {
        let is_path = value.contains('/');
        api(value).filter(|_| is_path || !has_words).map(Api)
    });
    Some(match meant {
        Some(Api(ours)) => named(ours),
        Some(Elsewhere) => left_out(": the option for the endpoint names the API"),
        None if option == "--api" => {
            let words = vec![option.to_owned(), value.to_owned()];
            (Instead::Same(words), String::new())
        }
        None if has_words => (
            Instead::Nothing,
            "`load` has no such API; `benchtrail load --help` lists those of `--api`".to_owned(),
        ),
        None => match saying(option) {
            Some(saying) => without(saying),
            None => (Instead::Nothing, String::new()),
        },
    })
}

/// Returns what to write for an API of ours.
fn named(ours: &'static str) -> (Instead, String) {
    if ours == COMPLETIONS {
        return left_out(": `--api openai-completions` is the default");
    }
    let words = vec!["--api".to_owned(), ours.to_owned()];
    (Instead::Words(words), format!("`--api {ours}`"))
}
