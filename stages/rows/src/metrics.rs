//! The metrics of one request: one name, one executable definition, one unit.
//!
//! Public tools disagree under the same names. Here TPOT excludes the tokens of the first
//! *chunk* (vLLM's `benchmark_serving` subtracts one token whatever the chunk held); ITL is
//! per token and null where a chunk's tokens are unknown (several tools print the gap between
//! chunks under that name, which is ICL here).

use std::collections::HashMap;

use crate::request::{CellRows, Request};

/// The gaps between the chunks of one request, in the order received.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChunkGaps {
    /// Tokens of the first chunk; `None` where the server does not say.
    pub first_chunk_tokens: Option<i64>,
    /// The number of chunks with text.
    pub chunks: usize,
    /// Each gap, ms, with the tokens of the later chunk.
    pub gaps: Vec<(f64, Option<i64>)>,
}

/// A request with its chunks' times.
#[derive(Clone, Debug)]
pub struct Timing<'a> {
    /// The position of its row in the artifact `requests`.
    pub row: usize,
    /// The request.
    pub request: &'a Request,
    /// Its chunks.
    pub gaps: ChunkGaps,
    /// Positions of its rows in the artifact `chunks`.
    pub chunk_rows: Vec<usize>,
}

/// Returns the measured requests of a cell with their chunks, in the order of the rows.
pub fn timings(cell: &CellRows) -> Vec<Timing<'_>> {
    let mut of: HashMap<(i64, i64), Vec<usize>> = HashMap::new();
    for (row, chunk) in cell.chunks.iter().enumerate() {
        of.entry((chunk.request_id, chunk.attempt)).or_default().push(row);
    }
    let measured = cell.requests.iter().enumerate().filter(|(_, r)| r.is_measured());
    measured
        .map(|(row, request)| {
            let mut rows = of.remove(&(request.request_id, request.attempt)).unwrap_or_default();
            rows.sort_by_key(|i| cell.chunks[*i].at_ns);
            let chunks: Vec<_> = rows.iter().map(|i| cell.chunks[*i]).collect();
            let gaps = chunks.windows(2).map(|w| (ms(w[1].at_ns - w[0].at_ns), w[1].tokens)).collect();
            let gaps = ChunkGaps {
                first_chunk_tokens: chunks.first().and_then(|c| c.tokens),
                chunks: chunks.len(),
                gaps,
            };
            Timing { row, request, gaps, chunk_rows: rows }
        })
        .collect()
}

/// A metric of one request that was answered in full.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The column's name.
    pub name: &'static str,
    /// The unit.
    pub unit: &'static str,
    /// The definition, and when it is null.
    pub definition: &'static str,
    /// The columns of `requests` it is computed from; chunks may tell more.
    pub columns: &'static [&'static str],
    /// The value; `None` where it is undefined.
    pub of: fn(&Timing<'_>) -> Option<f64>,
}

/// Returns the metric of a name.
pub fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|m| m.name == name)
}

/// Every metric of a request.
pub const METRICS: &[Metric] = &[
    Metric {
        name: "ttft_ms",
        unit: "ms",
        definition: "first_token_ns − sent_ns; null if not streamed or no token came",
        columns: &["first_token_ns", "sent_ns"],
        of: |t| Some(ms(t.request.first_token_ns? - t.request.sent_ns?)),
    },
    Metric {
        name: "ttft_scheduled_ms",
        unit: "ms",
        definition: "first_token_ns − scheduled_ns; null in a closed loop or if no token came",
        columns: &["first_token_ns", "scheduled_ns", "client_id"],
        of: |t| open_loop(t.request, t.request.first_token_ns),
    },
    Metric {
        name: "e2e_latency_ms",
        unit: "ms",
        definition: "last_token_ns − sent_ns; null if no token came",
        columns: &["last_token_ns", "sent_ns"],
        of: |t| Some(ms(t.request.last_token_ns? - t.request.sent_ns?)),
    },
    Metric {
        name: "e2e_scheduled_ms",
        unit: "ms",
        definition: "last_token_ns − scheduled_ns; null in a closed loop or if no token came",
        columns: &["last_token_ns", "scheduled_ns", "client_id"],
        of: |t| open_loop(t.request, t.request.last_token_ns),
    },
    Metric {
        name: "tpot_ms",
        unit: "ms/tok",
        definition: "(last_token_ns − first_token_ns) ÷ (output_tokens − tokens of the first chunk, 1 where \
                     unknown); null if no token came after the first chunk",
        columns: &["last_token_ns", "first_token_ns", "output_tokens", "first_chunk_tokens"],
        of: |t| {
            let after = after_first_chunk(t)?;
            let span = t.request.last_token_ns? - t.request.first_token_ns?;
            Some(ms(span) / after as f64)
        },
    },
    Metric {
        name: "prefill_rate",
        unit: "tok/s",
        definition: "prompt_tokens ÷ ttft; null if no token came or ttft is 0",
        columns: &["prompt_tokens", "first_token_ns", "sent_ns"],
        of: |t| rate(t.request.prompt_tokens?, t.request.first_token_ns? - t.request.sent_ns?),
    },
    Metric {
        name: "decode_rate",
        unit: "tok/s",
        definition: "(output_tokens − tokens of the first chunk, 1 where unknown) ÷ (last_token_ns − \
                     first_token_ns); null if no token came after the first chunk",
        columns: &["last_token_ns", "first_token_ns", "output_tokens", "first_chunk_tokens"],
        of: |t| {
            let after = after_first_chunk(t)?;
            rate(after, t.request.last_token_ns? - t.request.first_token_ns?)
        },
    },
];

/// Output tokens after the first chunk; `None` if there is none.
fn after_first_chunk(t: &Timing<'_>) -> Option<i64> {
    let first = t.gaps.first_chunk_tokens.or(t.request.first_chunk_tokens).unwrap_or(1);
    Some(t.request.output_tokens? - first).filter(|after| *after > 0)
}

/// A span from the scheduled moment: only where arrivals do not wait for a client.
fn open_loop(request: &Request, until: Option<i64>) -> Option<f64> {
    let scheduled = request.scheduled_ns.filter(|_| request.client_id.is_none())?;
    Some(ms(until? - scheduled))
}

fn rate(tokens: i64, ns: i64) -> Option<f64> {
    (ns > 0).then(|| tokens as f64 * 1e9 / ns as f64)
}

fn ms(ns: i64) -> f64 {
    ns as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::request;

    fn timing(request: &Request, first: Option<i64>) -> Timing<'_> {
        let gaps = ChunkGaps { first_chunk_tokens: first, ..ChunkGaps::default() };
        Timing { row: 0, request, gaps, chunk_rows: Vec::new() }
    }

    #[test]
    fn the_first_chunks_tokens_do_not_count_for_tpot() {
        // 30 ms from the first to the last token, 13 tokens, 4 of them in the first chunk.
        let mut r = request(0);
        (r.first_token_ns, r.last_token_ns, r.output_tokens) = (Some(10_000_000), Some(40_000_000), Some(13));
        r.first_chunk_tokens = None;
        let tpot = metric("tpot_ms").unwrap().of;
        assert_eq!(tpot(&timing(&r, None)), Some(2.5));
        assert_eq!(tpot(&timing(&r, Some(4))), Some(30.0 / 9.0));
    }

    #[test]
    fn latency_from_the_schedule_exists_only_for_open_arrivals() {
        let mut r = request(0);
        (r.scheduled_ns, r.sent_ns) = (Some(2_000_000), Some(5_000_000));
        let scheduled = metric("ttft_scheduled_ms").unwrap().of;
        assert_eq!(scheduled(&timing(&r, None)), None);
        r.client_id = None;
        assert_eq!(scheduled(&timing(&r, None)), Some(8.0));
    }

    #[test]
    fn tpot_of_one_token_does_not_exist() {
        let mut r = request(0);
        r.output_tokens = Some(1);
        assert_eq!((metric("tpot_ms").unwrap().of)(&timing(&r, None)), None);
    }

    #[test]
    fn without_a_token_every_latency_is_null() {
        let mut r = request(0);
        (r.first_token_ns, r.last_token_ns) = (None, None);
        assert!(METRICS.iter().all(|m| (m.of)(&timing(&r, None)).is_none()));
    }
}
