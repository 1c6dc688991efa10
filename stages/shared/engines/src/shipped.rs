//! The definitions that ship with the binary.

use pipeline::Shipped;

use crate::{Engine, Model};

macro_rules! definitions {
    ($($collection:literal: $($name:literal),+;)+) => {
        &[$($(Shipped {
            collection: $collection,
            name: $name,
            text: include_str!(concat!("../", $collection, "/", $name, ".yaml")),
        }),+),+]
    };
}

const SHIPPED: &[Shipped] = definitions! {
    "engines": "llama-cpp", "llama-cpp-portable", "llama-cpp-python", "llama-server", "lmdeploy", "mistral-rs", "mlx-lm", "ollama", "openai", "sglang",
        "sglang-router",        "tensorrt-llm", "tgi", "transformers-generate", "transformers-serve", "vllm";
    "models": "smollm2-135m-instruct";
};

/// Returns the definitions that ship with the binary.
pub fn shipped() -> Vec<Shipped> {
    SHIPPED.to_vec()
}

/// Returns the schema of one definition of each collection.
pub fn collections() -> Vec<(&'static str, schemars::Schema)> {
    vec![
        ("engines", schemars::schema_for!(Engine)),
        ("models", schemars::schema_for!(Model)),
    ]
}
