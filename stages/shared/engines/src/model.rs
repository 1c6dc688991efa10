//! Model definitions: weights and their known properties.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::package::{Package, Sha256};

/// A model: its weights and the facts about them that analyses and reports use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("x-other-words" = {
    "id": "`weights: {named: {id: ID}}`", "name": "`weights: {named: {id: ID}}`", "hf": "`weights: {named: {id: ID}}`",
    "repo": "`weights: {named: {id: ID}}`", "path": "`weights: {local: {path: PATH, sha256: SHA256}}`, or `weights: {named: {id: PATH}}` for an engine that loads a path itself",
    "url": "`weights: {packaged: …}`",
    "TEXT": "`{title: TEXT, weights: {named: {id: TEXT}}}` for a name or a path that the engine loads itself",
}))]
pub struct Model {
    /// The name for people, as reports show it.
    pub title: String,
    /// Where the weights come from.
    pub weights: Weights,
    /// The name under which it is served, and under which a running server knows it; by default the name of this
    /// definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_name: Option<String>,
    /// The number of parameters, for example 135000000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<u64>,
    /// The attention of the model, from which the size of its key-value cache follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Shape>,
    /// The longest context the model was trained for, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
    /// The file format, for example `gguf`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// The architecture's name, for example `llama`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// How the weights are quantized, for example `Q4_1` or `bfloat16`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantization: Option<String>,
    /// Whether the weights come with a chat template.
    #[serde(default)]
    pub chat_template: bool,
    /// The licence of the weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
}

/// The facts that determine the size of a model's key-value cache: a token takes 2 · layers ·
/// kv-heads · head-dim values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Shape {
    /// The number of layers with attention.
    pub layers: u64,
    /// The number of key-value heads of a layer.
    pub kv_heads: u64,
    /// The number of values in a head.
    pub head_dim: u64,
}

/// Where weights come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(extend("x-other-words" = { "TEXT": "`{named: {id: TEXT}}` for a name or a path that the engine loads itself" }))]
pub enum Weights {
    /// A file inside a package: fetched, unpacked and checked.
    Packaged(PackagedWeights),
    /// A file or a folder of this machine, checked against its digest.
    Local(LocalWeights),
    /// A name the engine itself resolves; its bytes are not checked, and the record says so.
    Named(NamedWeights),
}

/// Weights inside a package.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PackagedWeights {
    /// The package.
    pub package: Package,
    /// The file inside the unpacked package.
    pub path: String,
    /// The SHA-256 of the weights file itself.
    pub sha256: Sha256,
    /// The size of the weights file in bytes.
    pub bytes: u64,
}

/// Weights in a file or a folder of this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LocalWeights {
    /// The path of the file or folder. A relative one begins at the experiment's folder.
    pub path: String,
    /// The SHA-256 of the file. For a folder, the SHA-256 of the list of its files: a line `SHA-256 PATH` for each,
    /// sorted by path, as `sha256sum` prints it. Hidden files do not count.
    pub sha256: Sha256,
}

/// Weights the engine finds by a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NamedWeights {
    /// The model name to pass to the engine, for example `Qwen/Qwen2.5-1.5B-Instruct`.
    pub id: String,
    /// The exact revision, for example a commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Whether the weights are gated on the hub. Benchtrail then checks for a token before anything
    /// starts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gated: bool,
}

impl Weights {
    /// Returns the SHA-256 of the weights file, if it is known.
    pub fn sha256(&self) -> Option<&Sha256> {
        match self {
            Self::Packaged(w) => Some(&w.sha256),
            Self::Local(w) => Some(&w.sha256),
            Self::Named(_) => None,
        }
    }
}
