//! `identities`: what must hold for every row, whatever the server does.

use artifacts::counted;
use contract::Request;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Judgement, Severity};
use crate::gate::{Assessment, TypedGate, each, some};
use crate::study::Stage;

pub(crate) struct Identities;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {}

/// Returns whether a row breaks an identity.
type Broken = fn(&Request) -> bool;

/// Returns how long a request waited after its scheduled time, and the part of it that is the client's own delay.
fn lags(r: &Request) -> Option<(i64, i64)> {
    let waited = r.scheduled_ns.zip(r.sent_ns).map(|(s, t)| t - s);
    waited.zip(r.send_lag_ns)
}

/// The identities of the send lag: of a load without a cap on the requests in flight, and of one with it, whose requests
/// may wait in line first.
const LAG: (&str, Broken) = ("send lag is not sent − scheduled", |r| {
    // A request that is sent again waited for its first attempt, which is not this client's own delay.
    let is_wrong = |(waited, lag): (i64, i64)| waited < lag || waited > lag && r.attempt == 1;
    lags(r).is_some_and(is_wrong)
});
const LAG_OF_CAPPED: (&str, Broken) = ("send lag is more than sent − scheduled", |r| {
    lags(r).is_some_and(|(waited, lag)| waited < lag)
});

/// Each other identity, and the test for rows that break it.
const ROW: &[(&str, Broken)] = &[
    ("times out of order", |r| {
        let times = [
            r.sent_ns,
            r.headers_ns,
            r.first_token_ns,
            r.last_token_ns,
            r.done_ns,
        ];
        let stamped: Vec<i64> = times.into_iter().flatten().collect();
        stamped.windows(2).any(|w| w[0] > w[1])
    }),
    ("sent before scheduled", |r| {
        r.scheduled_ns.zip(r.sent_ns).is_some_and(|(s, t)| t < s)
    }),
    ("a negative time", |r| {
        [r.scheduled_ns, r.sent_ns, r.done_ns]
            .into_iter()
            .flatten()
            .any(|t| t < 0)
    }),
    ("ok without times", |r| {
        r.is_ok() && (r.sent_ns.is_none() || r.done_ns.is_none())
    }),
    ("more cached than prompt tokens", |r| {
        r.cached_prompt_tokens
            .zip(r.prompt_tokens)
            .is_some_and(|(c, p)| c > p)
    }),
    ("more output tokens than requested and received", |r| {
        more_than_possible(r).is_some_and(|more| more)
    }),
];

/// The most bytes of a character.
const BYTES: i64 = 4;

/// Returns whether a row has more output tokens than can be: those requested, one for each byte of its text, and those of
/// the reasoning, which may be hidden and may not count as requested. `None` if one of the counts is unknown.
fn more_than_possible(r: &Request) -> Option<bool> {
    let text = r.output_characters?.max(0).saturating_mul(BYTES);
    let possible = text.saturating_add(r.requested_output_tokens?);
    let possible = possible.saturating_add(r.reasoning_tokens.unwrap_or(0).max(0));
    Some(r.output_tokens? > possible)
}

impl TypedGate for Identities {
    type Parameters = Parameters;
    const NAME: &'static str = "identities";
    const SUMMARY: &'static str = "Times are in order, lags and counts are consistent, and \
                                   chunks are within their requests: latency ≥ TTFT + (n − \
                                   1)·TPOT.";
    const SEVERITY: Severity = Severity::Fail;
    const CELLS_ALONE: bool = true;

    fn judge(&self, _parameters: &Parameters, stage: &Stage<'_>) -> Vec<Judgement> {
        each(stage, &|cell, rows| {
            let is_capped = cell.input.parameters["max-in-flight"].is_number();
            let lag = if is_capped { LAG_OF_CAPPED } else { LAG };
            let mut wrong = Vec::new();
            let mut bad = Vec::new();
            let mut note = |ids: Vec<i64>, what: &str| {
                if !ids.is_empty() {
                    wrong.push(format!("{}: {what}", counted(ids.len(), "row")));
                    bad.extend(ids);
                }
            };
            for (what, broken) in ROW.iter().chain([&lag]) {
                note(
                    rows.requests
                        .iter()
                        .filter(|r| broken(r))
                        .map(|r| r.request_id)
                        .collect(),
                    what,
                );
            }
            // Chunks arrive between the first and the last token. With that and the order of times,
            // latency ≥ TTFT + (n − 1)·TPOT follows from the definition of TPOT.
            let timings = contract::timings(rows);
            let outside = timings.iter().filter(|t| {
                let (Some(first), Some(last)) = (t.request.first_token_ns, t.request.last_token_ns)
                else {
                    return false;
                };
                t.chunk_rows
                    .iter()
                    .any(|c| !(first..=last).contains(&rows.chunks[*c].at_ns))
            });
            note(
                outside.map(|t| t.request.request_id).collect(),
                "chunks outside first to last token",
            );
            let mut seen = std::collections::BTreeSet::new();
            let twice = rows
                .requests
                .iter()
                .filter(|r| !seen.insert((r.request_id, r.attempt)));
            let twice = twice.map(|r| r.request_id).collect();
            note(twice, "the same request and attempt twice");
            let orphans = rows
                .chunks
                .iter()
                .filter(|c| !seen.contains(&(c.request_id, c.attempt)))
                .count();
            if orphans > 0 {
                wrong.push(format!("{} of no request", counted(orphans, "chunk")));
            }
            let observed = if wrong.is_empty() {
                format!("all hold over {}", counted(rows.requests.len(), "row"))
            } else {
                wrong.join("; ")
            };
            Assessment::new(wrong.is_empty(), observed, "all identities hold").evidence(some(&bad))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(scheduled: i64, sent: i64, lag: i64) -> Request {
        let mut request = contract::synthetic::request(1);
        (request.scheduled_ns, request.sent_ns) = (Some(scheduled), Some(sent));
        request.send_lag_ns = Some(lag);
        request
    }

    #[test]
    fn output_tokens_are_at_most_those_requested_and_one_for_each_byte_of_text() {
        let answer = |tokens, characters, reasoning| Request {
            output_tokens: Some(tokens),
            output_characters: characters,
            reasoning_tokens: reasoning,
            requested_output_tokens: Some(24),
            ..contract::synthetic::request(1)
        };
        assert_eq!(
            more_than_possible(&answer(1_000, Some(30), None)),
            Some(true)
        );
        assert_eq!(more_than_possible(&answer(145, Some(30), None)), Some(true));
        assert_eq!(
            more_than_possible(&answer(144, Some(30), None)),
            Some(false)
        );
        assert_eq!(
            more_than_possible(&answer(1_000, Some(30), Some(900))),
            Some(false)
        );
        assert_eq!(more_than_possible(&answer(1_000, None, None)), None);
    }

    #[test]
    fn a_request_that_waits_for_a_place_in_flight_has_less_send_lag_than_delay() {
        let (broken, broken_if_capped) = (LAG.1, LAG_OF_CAPPED.1);
        let waited = request(1_000, 9_000, 50);
        assert!(broken(&waited) && !broken_if_capped(&waited));
        let at_once = request(1_000, 1_050, 50);
        assert!(!broken(&at_once) && !broken_if_capped(&at_once));
        let impossible = request(1_000, 1_050, 51);
        assert!(broken(&impossible) && broken_if_capped(&impossible));
    }
}
