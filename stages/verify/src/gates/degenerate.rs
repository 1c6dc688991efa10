//! `degenerate`: success in name only — no rows, no tokens, no time, all durations alike.

use contract::{Api, RowSource, Word};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, each, some};
use crate::study::{Cell, Stage, nanoseconds};

pub(crate) struct Degenerate;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The number of ok rows from which equal durations are suspicious.
    #[serde(default = "four")]
    equal_durations_from: u32,
    /// Durations that differ by at most this share of the longest count as equal.
    #[serde(default = "ten_thousandth")]
    #[schemars(range(min = 0, max = 1))]
    equal_within: f64,
    /// The time limit of a request, s; by default, that of the load stage. Ok rows that took this
    /// long were cut off.
    #[serde(default)]
    #[schemars(range(min = 0))]
    timeout_s: Option<f64>,
}

fn ten_thousandth() -> f64 {
    1e-4
}

fn four() -> u32 {
    4
}

impl TypedGate for Degenerate {
    type Parameters = Parameters;
    const NAME: &'static str = "degenerate";
    const SUMMARY: &'static str = "\
        An ok cell did not fail silently. This is a count, not a test.\n\n\
        The gate fails if a cell has no rows, or if an ok row has no tokens. APIs that answer with vectors or scores \
        have none, and an imported file may lack token counts; the gate ignores both. It also fails if the window has \
        no length, if all durations are equal, or if an ok row took as long as the time limit.";
    const SEVERITY: Severity = Severity::Fail;
    const CELLS_ALONE: bool = true;

    fn judge(&self, parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        each(stage, &|cell, rows| {
            let ok: Vec<_> = rows.measured().filter(|r| r.is_ok()).collect();
            let generates = generates(cell);
            // A file of another tool may count no tokens.
            let counted = cell.source() != Some(RowSource::Imported);
            let none = |tokens: Option<i64>| tokens.map_or(counted, |tokens| tokens <= 0);
            let empty: Vec<i64> = ok
                .iter()
                .filter(|r| generates && none(r.output_tokens))
                .map(|r| r.request_id)
                .collect();
            let first = rows.measured().filter_map(|r| r.sent_ns).min();
            let last = rows.measured().filter_map(|r| r.done_ns).max();
            let timed = first.zip(last).is_some_and(|(a, b)| b > a);
            let mut durations: Vec<i64> = ok
                .iter()
                .filter_map(|r| Some(r.done_ns? - r.sent_ns?))
                .collect();
            let counted = durations.len();
            durations.sort_unstable();
            let spread = durations
                .last()
                .zip(durations.first())
                .map(|(longest, least)| longest - least);
            let longest = durations.last().copied().unwrap_or_default();
            let alike = counted >= parameters.equal_durations_from.max(2) as usize
                && spread.is_some_and(|s| s as f64 <= parameters.equal_within * longest as f64);
            let limit = parameters.timeout_s.or_else(|| limit(cell));
            let at_limit: Vec<i64> = ok
                .iter()
                .filter(|r| {
                    let took = r
                        .done_ns
                        .zip(r.sent_ns)
                        .map(|(done, sent)| (done - sent) as f64 / 1e9);
                    took.zip(limit).is_some_and(|(took, limit)| took >= limit)
                })
                .map(|r| r.request_id)
                .collect();
            let mut wrong = Vec::new();
            if rows.measured().next().is_none() {
                wrong.push("no measured row".to_owned());
            } else if ok.is_empty() {
                wrong.push("no ok row".to_owned());
            }
            if !empty.is_empty() {
                wrong.push(format!("{} ok rows without output tokens", empty.len()));
            }
            if !timed {
                wrong.push("the window is zero, so throughput is undefined".to_owned());
            }
            if alike {
                let ms = statistics::significant_without_zeros(longest as f64 / 1e6, 4);
                let remedy = match cell.source() {
                    Some(RowSource::Simulated) => "; give the simulated server some `noise`",
                    _ => "",
                };
                wrong.push(format!("all {counted} durations are {ms} ms{remedy}"));
            }
            if !at_limit.is_empty() {
                wrong.push(format!(
                    "{} ok rows took as long as the time limit",
                    at_limit.len()
                ));
            }
            let expected = match generates {
                true => {
                    "ok rows with tokens, a window above zero, and durations that differ and stay \
                     below the time limit"
                }
                false => {
                    "ok rows, a window above zero, and durations that differ and stay below the time limit"
                }
            };
            let observed = if wrong.is_empty() {
                format!("{} ok rows", ok.len())
            } else {
                wrong.join("; ")
            };
            let evidence = if empty.is_empty() { at_limit } else { empty };
            Assessment::new(wrong.is_empty(), observed, expected).evidence(some(&evidence))
        })
    }
}

/// Returns whether the answers of a cell are text. Vectors and scores have no tokens.
fn generates(cell: &Cell<'_>) -> bool {
    let asked = cell.input.parameters["api"].as_str();
    let words = [asked, cell.fact_text("api")].into_iter().flatten();
    // The API of a simulated cell is `simulated`.
    let mut apis = words.filter_map(|word| Api::parse(word).ok());
    apis.all(Api::generates)
}

/// Returns the load stage's time limit of a whole request, in seconds.
fn limit(cell: &Cell<'_>) -> Option<f64> {
    let text = cell.input.parameters["timeouts"]["total"].as_str()?;
    Some(nanoseconds(text)? / 1e9)
}

#[cfg(test)]
mod tests {
    use artifacts::Column;
    use contract::CellRows;
    use contract::synthetic::{self, ClosedLoop};
    use serde_json::json;

    use super::*;
    use crate::finding::Outcome;
    use crate::one_cell;

    /// Judges a closed loop whose answers have no tokens, given the `api` of the stage and of the cell.
    fn without_tokens(asked: &str, used: &str) -> Judgement {
        judged(Some(0), asked, ("api", used))
    }

    /// The same, given the tokens of each answer and a fact of the cell.
    fn judged(tokens: Option<i64>, asked: &str, (fact, text): (&str, &str)) -> Judgement {
        let mut requests = ClosedLoop::default().requests();
        for request in &mut requests {
            request.output_tokens = tokens;
        }
        let rows = CellRows {
            cell: synthetic::about(vec![Column::text(fact, [Some(text)])]),
            ..synthetic::rows_of(requests)
        };
        one_cell::judge(&Degenerate, json!({}), json!({"api": asked}), rows)
    }

    #[test]
    fn a_file_that_counts_no_tokens_has_answers() {
        let outcome = |tokens, source| judged(tokens, "", ("source", source)).outcome;
        assert_eq!(outcome(None, "imported"), Outcome::Pass);
        assert_eq!(outcome(Some(0), "imported"), Outcome::Fail);
        assert_eq!(outcome(None, "measured"), Outcome::Fail);
    }

    #[test]
    fn equal_durations_are_given_in_ms_and_a_simulation_without_noise_has_a_remedy() {
        let observed = |source| {
            let loop_ = ClosedLoop::default();
            let requests = loop_.requests().into_iter().map(|mut request| {
                request.done_ns = request.sent_ns.map(|sent| sent + 75_000_000);
                request
            });
            let rows = CellRows {
                cell: synthetic::about(vec![Column::text("source", [Some(source)])]),
                ..synthetic::rows_of(requests.collect())
            };
            one_cell::judge(&Degenerate, json!({}), json!({}), rows).observed
        };
        let measured = observed("measured");
        assert!(measured.ends_with(" durations are 75 ms"), "{measured}");
        let simulated = observed("simulated");
        let remedy = " durations are 75 ms; give the simulated server some `noise`";
        assert!(simulated.ends_with(remedy), "{simulated}");
    }

    #[test]
    fn vectors_and_scores_have_no_tokens_and_text_has() {
        for (asked, used) in [
            ("openai-embeddings", "openai-embeddings"),
            ("rerank", "simulated"),
            ("", "rerank"),
        ] {
            let judgement = without_tokens(asked, used);
            assert_eq!(judgement.outcome, Outcome::Pass, "{asked}: {judgement:?}");
        }
        for (asked, used) in [
            ("openai-chat", "openai-chat"),
            ("openai-completions", "simulated"),
            ("", ""),
        ] {
            let judgement = without_tokens(asked, used);
            assert_eq!(judgement.outcome, Outcome::Fail, "{asked}");
            assert!(judgement.observed.contains("without output tokens"));
        }
    }
}
