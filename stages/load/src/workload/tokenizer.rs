//! The tokenizer that counts if lengths are in tokens.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The one tokenizer of a workload. Engines under comparison get the same prompts, so it is the
/// workload that names the tokenizer, and not each engine its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Tokenizer {
    /// A `tokenizer.json` on this machine.
    File(TokenizerFile),
    /// The tokenize endpoint of the server under load.
    Server(TokenizerServer),
}

/// A `tokenizer.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-form" = "{file: tokenizer.json}"))]
pub struct TokenizerFile {
    /// The file, as Hugging Face's `tokenizers` writes it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(with = "String", required)]
    pub file: String,
    /// The digest of the file's bytes. Filled in while planning; a file with another digest is refused later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// The server's own tokenizer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-form" = "{server: {template: left-out}}"))]
pub struct TokenizerServer {
    /// How to ask the server.
    pub server: ServerTokenizer,
}

/// The server's tokenizer: `POST /tokenize`, as llama.cpp, vLLM, SGLang and TGI answer it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(extend("x-form" = "{template: left-out}"))]
pub struct ServerTokenizer {
    /// The required fingerprint of the tokenizer: the digest of the tokens of a fixed text, as in
    /// the column `tokenizer` of a table `cell`. If the server tokenizes differently, the cell
    /// fails. This ensures that compared engines count alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Whether the tokens of the chat template are part of a prompt's length.
    #[serde(default)]
    pub template: ChatTemplate,
}

/// How to count the tokens that a server's chat template adds to a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChatTemplate {
    /// The length of a prompt includes them, if the API is chat and the server can apply its
    /// template (llama.cpp, `POST /apply-template`). Turns of sessions are counted without them.
    #[default]
    Counted,
    /// A prompt has its length without them.
    LeftOut,
}
