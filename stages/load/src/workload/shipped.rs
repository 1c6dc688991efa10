//! The workloads shipped with the binary.

use pipeline::stage::Shipped;

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        vec![$(Shipped {
            collection: "workloads",
            name: $name,
            text: include_str!(concat!("../../workloads/", $name, ".yaml")),
        }),*]
    };
}

/// Returns the workloads shipped with the binary, by name.
pub(crate) fn shipped() -> Vec<Shipped> {
    shipped![
        "balanced-2k",
        "harness-decode-length-1024",
        "harness-decode-length-256",
        "harness-decode-length-4096",
        "harness-decode-length-64",
        "harness-long-context",
        "harness-long-generation",
        "harness-prefix-sharing",
        "harness-ramp-extended",
        "harness-reasoning",
        "harness-short-chat",
        "harness-structured",
        "infer-baseline",
        "infer-chunked-prefill",
        "infer-continuous-batching",
        "infer-paged-attention",
        "infer-prefix-caching",
        "long-decode",
        "long-prefill",
        "mixed-prefill",
        "prefix-caching",
        "ranged",
        "repeated-prefix",
        "sglang-diverse",
        "sglang-grammar",
        "sglang-multi-turn",
        "sglang-rag",
        "shared-prefix",
        "short-decode",
        "short-sessions",
        "single-chat",
        "tr164-v1-balanced-2k",
        "tr164-v1-long-decode",
        "tr164-v1-repeated-prefix",
        "tr164-v1-short-decode",
        "tr164-v3-balanced-2k",
        "tr164-v3-long-decode",
        "tr164-v3-long-prefill-8k",
        "tr164-v3-repeated-prefix",
        "tr164-v3-short-decode",
    ]
}
