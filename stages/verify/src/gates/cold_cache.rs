//! `cold-cache`: did a cell find its prompts in a cache that another cell filled?

use std::collections::BTreeSet;

use artifacts::counted;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, each, some};
use crate::study::Stage;

pub(crate) struct ColdCache;

/// Which requests must not be answered from a cache.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Requests {
    First,
    NewPrompts,
    All,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The requests of a cell that must not find anything cached. `first`: the first request sent,
    /// warm-up included; if it finds something, another cell left it. `new-prompts`: requests with
    /// a prompt that the cell had not sent before, if prompts share no prefix. `all`: every
    /// request.
    #[serde(default = "first")]
    requests: Requests,
    /// How many tokens of a prompt may still be cached, such as the opening of a template.
    #[serde(default)]
    tokens: u32,
}

fn first() -> Requests {
    Requests::First
}

impl TypedGate for ColdCache {
    type Parameters = Parameters;
    const NAME: &'static str = "cold-cache";
    const SUMMARY: &'static str = "\
        No prompt came from a cache that an earlier cell filled. Use this gate in studies that need cold caches. This \
        is a count, not a test.\n\n\
        The gate reads the server's own reports (`cached_prompt_tokens`). If the server does not report cached \
        tokens, the gate accepts proof that the cache was emptied before the cell (`cache_reset`), or a setting that \
        switches the cache off, as the engine's definition says (`prompt-cache`). It fails if the server refused to \
        empty its cache.";
    const SEVERITY: Severity = Severity::Fail;
    const CELLS_ALONE: bool = true;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        each(stage, |cell, rows| {
            let reset = cell.fact_text("cache_reset");
            let expected = format!(
                "at most {} cached tokens in a prompt that must be new",
                parameters.tokens
            );
            let mut sent: Vec<_> = rows
                .requests
                .iter()
                .filter(|r| !r.superseded && r.sent_ns.is_some())
                .collect();
            sent.sort_by_key(|r| (r.sent_ns, r.request_id));
            let mut seen = BTreeSet::new();
            let due = sent
                .into_iter()
                .enumerate()
                .filter(|(i, r)| match parameters.requests {
                    Requests::First => *i == 0,
                    Requests::NewPrompts => {
                        seen.insert(r.prompt_digest.as_deref().unwrap_or_default())
                    }
                    Requests::All => true,
                });
            let reported: Vec<(i64, i64)> = due
                .filter_map(|(_, r)| Some((r.request_id, r.cached_prompt_tokens?)))
                .collect();
            if reset == Some("failed") {
                let observed = "the server's cache could not be emptied before the cell";
                return Assessment::new(false, observed, expected);
            }
            if reported.is_empty() && reset == Some("proven") {
                let observed = "the counters show that the server's cache was emptied before the \
                                cell; the server does not report cached tokens";
                return Assessment::new(true, observed, expected);
            }
            let off = cell.server.as_ref().and_then(|s| s.cache_off.as_ref());
            if let Some(how) = off.filter(|_| reported.is_empty()) {
                let observed = format!("the server's cache is off: {how}");
                return Assessment::new(true, observed, expected);
            }
            if reported.is_empty() {
                return Assessment::not_judged(
                    "the server does not report cached tokens",
                    expected,
                );
            }
            let warm: Vec<(i64, i64)> = reported
                .iter()
                .copied()
                .filter(|(_, cached)| *cached > i64::from(parameters.tokens))
                .collect();
            let most = reported
                .iter()
                .map(|(_, cached)| *cached)
                .max()
                .unwrap_or_default();
            let observed = format!(
                "{} of {} from a cache, at most {}",
                warm.len(),
                counted(reported.len(), "prompt"),
                counted(most, "token")
            );
            let ids: Vec<i64> = warm.into_iter().map(|(id, _)| id).collect();
            Assessment::new(ids.is_empty(), observed, expected).evidence(some(&ids))
        })
    }
}
