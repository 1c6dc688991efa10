//! `context-ceiling`: did prompt and answer fit into the context?

use artifacts::counted;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, each, some};
use crate::study::{Cell, Stage};

pub(crate) struct ContextCeiling;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The largest number of tokens in prompt and answer together; by default, what the server
    /// reports.
    #[serde(default)]
    tokens: Option<u32>,
}

/// The name of the limit in a server's descriptor.
const LIMIT: &str = "context_per_slot";

impl TypedGate for ContextCeiling {
    type Parameters = Parameters;
    const NAME: &'static str = "context-ceiling";
    const SUMMARY: &'static str = "\
        The prompt and the requested output of every request fit into the engine's context, and no answer was cut off \
        at its end. This is a count, not a test.\n\n\
        An answer counts as cut off if it ended because of its length but has fewer tokens than requested. The limit \
        comes from the server's descriptor, if the verify stage also needs the serve stage.";
    const SEVERITY: Severity = Severity::Fail;
    const CELLS_ALONE: bool = true;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        each(stage, &|cell, rows| {
            let limit = parameters
                .tokens
                .map(i64::from)
                .or_else(|| stated_ceiling(cell));
            let expected = match limit {
                Some(limit) => {
                    format!("prompt + requested output at most {limit} tokens, no answer cut short")
                }
                None => "no answer cut short".to_owned(),
            };
            let (mut longest, mut unknown, mut over, mut cut) = (None, 0, Vec::new(), Vec::new());
            for r in rows.measured() {
                if r.is_ok()
                    && r.finish_reason.as_deref() == Some("length")
                    && r.output_tokens
                        .zip(r.requested_output_tokens)
                        .is_some_and(|(got, asked)| got < asked)
                {
                    cut.push(r.request_id);
                }
                match r
                    .prompt_tokens
                    .zip(r.requested_output_tokens.or(r.output_tokens))
                {
                    Some((prompt, output)) => {
                        longest = longest.max(Some(prompt + output));
                        if limit.is_some_and(|limit| prompt + output > limit) {
                            over.push(r.request_id);
                        }
                    }
                    None => unknown += 1,
                }
            }
            let mut wrong = Vec::new();
            if !over.is_empty() {
                wrong.push(format!(
                    "{} longer than the context",
                    counted(over.len(), "request")
                ));
            }
            if !cut.is_empty() {
                wrong.push(format!("{} cut short", counted(cut.len(), "answer")));
            }
            let seen = match longest {
                Some(longest) => format!("the longest request has {longest} tokens"),
                None => "no row has token counts".to_owned(),
            };
            let untold = if unknown > 0 {
                format!("; {} without token counts", counted(unknown, "row"))
            } else {
                String::new()
            };
            over.extend(cut);
            over.sort_unstable();
            over.dedup();
            if !wrong.is_empty() {
                let observed = format!("{}; {seen}{untold}", wrong.join("; "));
                return Assessment::new(false, observed, expected).evidence(some(&over));
            }
            match (limit, longest) {
                (Some(_), Some(_)) => Assessment::new(true, format!("{seen}{untold}"), expected),
                (None, _) => Assessment::not_judged(
                    format!("{seen}; the engine's limit is not known"),
                    expected,
                ),
                (_, None) => Assessment::not_judged(seen, expected),
            }
        })
    }
}

fn stated_ceiling(cell: &Cell<'_>) -> Option<i64> {
    cell.server.as_ref()?.descriptor["limits"][LIMIT].as_i64()
}
