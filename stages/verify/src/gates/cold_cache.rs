//! `cold-cache`: did a cell find its prompts in a cache that another cell filled?

use std::collections::{BTreeMap, BTreeSet};

use artifacts::{Table, TableError, counted};
use contract::Request;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, each, share, some};
use crate::study::{Cell, Stage};

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
    /// Instead of `requests` and `tokens`: the largest share of a cell's own words that may come from a cache, over all
    /// prompts that the cell had not sent before. The own words of a prompt are those after the beginning that it shares with
    /// another prompt of the cell. So neither a template nor a shared prefix counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    share: Option<f64>,
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
        empty its cache.\n\n\
        With `share`, the gate compares the tokens that the server computed with the words of the prompt, because a word has \
        at least one token. What it reports is therefore a lower bound. Texts without spaces between words are hardly judged. \
        Cells of one server with the same prompts fail if the server keeps its cache between them: empty it, switch it off, or \
        give the cells different prompts.";
    const SEVERITY: Severity = Severity::Fail;
    const CELLS_ALONE: bool = true;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        each(stage, &|cell, rows| {
            let mut sent: Vec<&Request> = rows
                .requests
                .iter()
                .filter(|r| !r.superseded && r.sent_ns.is_some())
                .collect();
            sent.sort_by_key(|r| (r.sent_ns, r.request_id));
            let expected = match parameters.share {
                Some(most) => format!("at most {} of a cell's own words from a cache", share(most)),
                None => format!(
                    "at most {} cached tokens in a prompt that must be new",
                    parameters.tokens
                ),
            };
            let requests = match parameters.share {
                Some(_) => Requests::NewPrompts,
                None => parameters.requests,
            };
            let mut seen = BTreeSet::new();
            let due = sent
                .into_iter()
                .enumerate()
                .filter(|(i, r)| match requests {
                    Requests::First => *i == 0,
                    Requests::NewPrompts => {
                        seen.insert(r.prompt_digest.as_deref().unwrap_or_default())
                    }
                    Requests::All => true,
                });
            let reported: Vec<&Request> = due
                .map(|(_, r)| r)
                .filter(|r| r.cached_prompt_tokens.is_some())
                .collect();
            match (without_counts(cell, &reported, &expected), parameters.share) {
                (Some(decided), _) => decided,
                (None, Some(most)) => by_share(cell, &reported, most, expected),
                (None, None) => by_tokens(&reported, i64::from(parameters.tokens), expected),
            }
        })
    }
}

/// Returns the judgement that does not depend on the counts of cached tokens, if there is one.
fn without_counts(cell: &Cell<'_>, reported: &[&Request], expected: &str) -> Option<Assessment> {
    let reset = cell.fact_text("cache_reset");
    if reset == Some("failed") {
        let observed = "the server's cache could not be emptied before the cell";
        return Some(Assessment::new(false, observed, expected));
    }
    if !reported.is_empty() {
        return None;
    }
    if reset == Some("proven") {
        let observed = "the counters show that the server's cache was emptied before the \
                        cell; the server does not report cached tokens";
        return Some(Assessment::new(true, observed, expected));
    }
    let off = cell.server.as_ref().and_then(|s| s.cache_off.as_ref());
    Some(match off {
        Some(how) => {
            let observed = format!("the server's cache is off: {how}");
            Assessment::new(true, observed, expected)
        }
        None => Assessment::not_judged("the server does not report cached tokens", expected),
    })
}

/// Judges each prompt by its cached tokens.
fn by_tokens(reported: &[&Request], most: i64, expected: String) -> Assessment {
    let cached = |r: &Request| r.cached_prompt_tokens.unwrap_or_default();
    let warm: Vec<i64> = reported
        .iter()
        .filter(|r| cached(r) > most)
        .map(|r| r.request_id)
        .collect();
    let observed = format!(
        "{} of {} from a cache, at most {}",
        warm.len(),
        counted(reported.len(), "prompt"),
        counted(
            reported.iter().map(|r| cached(r)).max().unwrap_or_default(),
            "token"
        )
    );
    Assessment::new(warm.is_empty(), observed, expected).evidence(some(&warm))
}

/// Judges the cell by the share of its own words that came from a cache.
fn by_share(cell: &Cell<'_>, reported: &[&Request], most: f64, expected: String) -> Assessment {
    let counts = |r: &&Request| Some((r.cached_prompt_tokens?, r.prompt_tokens?));
    let (cached, all) = reported
        .iter()
        .filter_map(counts)
        .fold((0.0, 0.0), |sum, (cached, all)| {
            (sum.0 + cached as f64, sum.1 + all as f64)
        });
    if all <= 0.0 {
        return Assessment::not_judged("no prompt has both counts", expected);
    }
    // The texts are large, and only needed if there is something to explain.
    if cached <= most * all {
        let observed = match cached == 0.0 {
            true => "no prompt token from a cache".to_owned(),
            false => format!("{} of all prompt tokens from a cache", share(cached / all)),
        };
        return Assessment::new(true, observed, expected);
    }
    let own = match cell.table("prompts") {
        Ok(Some(prompts)) => own_words(&prompts),
        Ok(None) => return Assessment::not_judged("the prompts are not stored", expected),
        Err(e) => return Assessment::not_judged(e.to_string(), expected),
    };
    let own = match own {
        Ok(own) => own,
        Err(e) => return Assessment::not_judged(e.to_string(), expected),
    };
    let (mut warm, mut words, mut from_cache) = (Vec::new(), 0, 0);
    for r in reported {
        let of_prompt = r.prompt_digest.as_ref().and_then(|digest| own.get(digest));
        if let (Some((cached, all)), Some(own)) = (counts(r), of_prompt) {
            // A word has at least one token, and the computed tokens are at the end of a prompt.
            let least = (own - (all - cached)).clamp(0, cached.max(0));
            words += own;
            from_cache += least;
            if least > 0 {
                warm.push(r.request_id);
            }
        }
    }
    if words == 0 {
        return Assessment::not_judged("the cell's prompts have no words of their own", expected);
    }
    let observed_share = from_cache as f64 / words as f64;
    let observed = format!(
        "at least {} of the cell's own words from a cache that other requests had filled",
        share(observed_share)
    );
    Assessment::new(observed_share <= most, observed, expected).evidence(some(&warm))
}

/// Returns the number of words of each prompt after the beginning that it shares with another prompt of the cell, by digest.
fn own_words(prompts: &Table) -> Result<BTreeMap<String, i64>, TableError> {
    let digests = prompts.text("prompt_digest")?.into_iter();
    let texts = digests.zip(prompts.text("text")?);
    let texts: BTreeMap<&str, &str> = texts
        .filter_map(|(digest, text)| Some((text?, digest?)))
        .collect();
    let alike = |a: &str, b: &str| {
        let same = a.char_indices().zip(b.chars());
        let end = same.take_while(|((_, a), b)| a == b).last();
        end.map_or(0, |((at, c), _)| at + c.len_utf8())
    };
    // In order, the text with the longest beginning in common is a neighbour.
    let ordered: Vec<&str> = texts.keys().copied().collect();
    let own = ordered.iter().enumerate().map(|(i, text)| {
        let before = i.checked_sub(1).map(|i| ordered[i]);
        let neighbours = before.into_iter().chain(ordered.get(i + 1).copied());
        let shared = neighbours.map(|other| alike(text, other)).max();
        let words = text[shared.unwrap_or(0)..].split_whitespace().count();
        let digest = texts[text].to_owned();
        (digest, i64::try_from(words).unwrap_or(i64::MAX))
    });
    Ok(own.collect())
}
