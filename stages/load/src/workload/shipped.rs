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
        "long-decode",
        "long-prefill",
        "mixed-prefill",
        "prefix-caching",
        "ranged",
        "repeated-prefix",
        "shared-prefix",
        "short-decode",
        "single-chat",
    ]
}
