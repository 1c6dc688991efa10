//! The gates of a verify stage that names none.

use pipeline::Json;
use serde_json::json;

/// Their names: they judge any load and need no parameters. A gate that cannot judge a study reports that and bars nothing.
pub(crate) const USUAL: [&str; 23] = [
    "census",
    "digests",
    "expected-rows",
    "row-status",
    "degenerate",
    "server-errors",
    "token-accounting",
    "delivered-length",
    "identities",
    "client-lag",
    "context-ceiling",
    "engine-identity",
    "cold-cache",
    "duplicates",
    "plausible-ttft",
    "clock",
    "stalls",
    "one-mode",
    "warm-up",
    "stationarity",
    "order-effects",
    "outlying-repeats",
    "throttling",
];

/// Returns one of them as an experiment would write it.
pub(crate) fn usual(name: &str) -> Json {
    match name {
        // A study may measure a warm cache on purpose, and the opening of a template is always cached.
        "cold-cache" => json!({"gate": name, "severity": "warn", "share": 0.2}),
        _ => json!({ "gate": name }),
    }
}
