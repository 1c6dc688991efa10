//! The metrics of one request: one name, one executable definition, one unit.
//!
//! Public tools disagree under the same names. Here TPOT excludes the tokens of the first *chunk*; vLLM's
//! `benchmark_serving` subtracts one token whatever the chunk held. Reasoning that a server counts but does not send was
//! generated before the first chunk, so TPOT excludes it too. Tokens without text that came before the first chunk are in its
//! count, or else TPOT begins with their first event. ITL is per token and null where a chunk's tokens are
//! unknown; several tools print the gap between chunks under that name, which is ICL here.

use std::collections::HashMap;
use std::ops::Range;

use artifacts::{ColumnBatch, TableError};

use crate::cell_rows::CellRows;
use crate::formula::{Formula, Number, by};
use crate::requests::Request;

/// The gaps between the chunks of one request, in the order received.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChunkGaps {
    /// Tokens of the first chunk; `None` if the server does not report them.
    pub first_chunk_tokens: Option<i64>,
    /// The number of chunks with text.
    pub chunks: usize,
    /// Each gap, ms, with the tokens of the later chunk.
    pub gaps: Vec<(f64, Option<i64>)>,
}

/// A request with its chunks' times.
#[derive(Clone, Debug)]
pub struct Timing<'a> {
    /// The index of its row in the artifact `requests`.
    pub row: usize,
    /// The request.
    pub request: &'a Request,
    /// Its chunks.
    pub gaps: ChunkGaps,
    /// The indices of its rows in the artifact `chunks`.
    pub chunk_rows: Vec<usize>,
}

/// Returns the measured requests of a cell with their chunks, in the order of the rows.
pub fn timings(cell: &CellRows) -> Vec<Timing<'_>> {
    let mut chunks_of: HashMap<(i64, i64), Vec<usize>> = HashMap::new();
    for (row, chunk) in cell.chunks.iter().enumerate() {
        chunks_of
            .entry((chunk.request_id, chunk.attempt))
            .or_default()
            .push(row);
    }
    let measured = cell
        .requests
        .iter()
        .enumerate()
        .filter(|(_, r)| r.is_measured());
    measured
        .map(|(row, request)| {
            let mut rows = chunks_of
                .remove(&(request.request_id, request.attempt))
                .unwrap_or_default();
            rows.sort_by_key(|i| cell.chunks[*i].at_ns);
            let chunks: Vec<_> = rows.iter().map(|i| cell.chunks[*i]).collect();
            let gaps = chunks
                .windows(2)
                .map(|w| (ms(w[1].at_ns - w[0].at_ns), w[1].tokens))
                .collect();
            let gaps = ChunkGaps {
                first_chunk_tokens: chunks.first().and_then(|c| c.tokens),
                chunks: chunks.len(),
                gaps,
            };
            Timing {
                row,
                request,
                gaps,
                chunk_rows: rows,
            }
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
    formula: &'static dyn Formula,
}

impl Metric {
    /// Returns the value; `None` where it is undefined.
    pub fn of(&self, timing: &Timing<'_>) -> Option<f64> {
        self.formula.of(timing)
    }

    /// Returns the columns of `requests` that enter the metric. Chunks may add detail.
    pub fn columns(&self) -> impl Iterator<Item = &'static str> {
        self.formula.numbers().iter().map(|number| number.column)
    }

    /// Returns the value of each row of requests whose cell has no chunks, or `None` where it is undefined. Needs the
    /// columns of [`Metric::columns`].
    ///
    /// # Errors
    /// If a column is not as the load stage writes it.
    pub fn of_each(&self, requests: &ColumnBatch) -> Result<Vec<Option<f64>>, TableError> {
        self.formula.of_each(requests)
    }

    /// Appends the defined values of some rows of requests without chunks to `values`.
    ///
    /// # Errors
    /// If a column is not as the load stage writes it.
    pub(crate) fn of_rows(
        &self,
        requests: &ColumnBatch,
        rows: &[Range<usize>],
        values: &mut Vec<f64>,
    ) -> Result<(), TableError> {
        self.formula.of_rows(requests, rows, values)
    }
}

/// Returns the metric with this name.
pub fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|m| m.name == name)
}

/// Returns how a metric is computed from columns, for a query of rows that names it like a column. The unit may be missing,
/// and the name may be that of another tool: `ttft`, `time_to_first_token`.
pub fn metric_remedy(name: &str) -> Option<String> {
    let name = crate::usual_name(name);
    let is_meant = |m: &&Metric| {
        m.name == name
            || m.name
                .rsplit_once('_')
                .is_some_and(|(base, _)| base == name)
    };
    let metric = METRICS.iter().find(is_meant)?;
    Some(format!(
        "`{}` is a metric and not a column of a row; compute it: {}",
        metric.name, metric.definition
    ))
}

/// Returns a message that says why some values of a column have no ratio and what to do. A ratio needs values above 0.
/// `otherwise` is the remedy where the column's name does not explain a 0.
pub fn without_ratio(column: &str, values: &[f64], otherwise: &str) -> String {
    let count = |condition: fn(&&f64) -> bool| values.iter().filter(condition).count();
    let (zero, below) = (count(|v| **v == 0.0), count(|v| **v < 0.0));
    let are = |n: usize| if n == 1 { "is" } else { "are" };
    let is_of = |names: &[&str]| names.iter().any(|name| column.starts_with(name));
    let n = zero + below;
    let what = match (zero, below) {
        (_, 0) => "0",
        (0, _) => "below 0",
        _ => "0 or below",
    };
    let clause = format!(
        "{n} of {} values of {column} {} {what} and has no ratio",
        values.len(),
        are(n)
    );
    let sentence = if n == 1 {
        clause
    } else {
        clause.replace("has no", "have no")
    };
    if below == 0 && is_of(&["tpot_ms", "icl_ms", "itl_ms"]) {
        return format!(
            "{sentence}: answers arrived in one piece there, with no time between their tokens (the gate `one-piece` counts \
             them). Compare `e2e_latency_ms`, or let that gate exclude such cells"
        );
    }
    if below == 0 && is_of(&["ttft_ms", "e2e_latency_ms"]) {
        return format!(
            "{sentence}: no answer arrives when its request is sent, so these times were not measured (the gate \
             `plausible-ttft` names the requests)"
        );
    }
    format!("{sentence}: {otherwise}")
}

/// Every metric of a request.
pub const METRICS: &[Metric] = &[
    Metric {
        name: "ttft_ms",
        unit: "ms",
        definition: "first_token_ns − sent_ns; null if not streamed or no token came",
        formula: &by([FIRST_TOKEN, SENT], |[first, sent]| {
            Some(ms(first? - sent?))
        }),
    },
    Metric {
        name: "ttft_scheduled_ms",
        unit: "ms",
        definition: "first_token_ns − scheduled_ns; null in a closed loop or if no token came",
        formula: &by([FIRST_TOKEN, SCHEDULED, CLIENT], open_loop),
    },
    Metric {
        name: "e2e_latency_ms",
        unit: "ms",
        definition: "last_token_ns − sent_ns; null if no token came",
        formula: &by([LAST_TOKEN, SENT], |[last, sent]| Some(ms(last? - sent?))),
    },
    Metric {
        name: "e2e_scheduled_ms",
        unit: "ms",
        definition: "last_token_ns − scheduled_ns; null in a closed loop or if no token came",
        formula: &by([LAST_TOKEN, SCHEDULED, CLIENT], open_loop),
    },
    Metric {
        name: "tpot_ms",
        unit: "ms/tok",
        definition: "(last_token_ns − first_token_ns) ÷ (output_tokens − tokens of the first chunk, 1 where \
                     unknown, − reasoning_tokens where first_reasoning_ns is null); from first_silent_ns instead where \
                     tokens before the first text are not counted; null if no token came after the first chunk",
        formula: &by(AFTER_FIRST, |[last, rest @ ..]| {
            let (from, after) = after_first(rest)?;
            Some(ms(last? - from) / after as f64)
        }),
    },
    Metric {
        name: "prefill_rate",
        unit: "tok/s",
        definition: "prompt_tokens ÷ ttft; null if no token came or ttft is 0",
        formula: &by([PROMPT, FIRST_TOKEN, SENT], |[tokens, first, sent]| {
            rate(tokens?, first? - sent?)
        }),
    },
    Metric {
        name: "decode_rate",
        unit: "tok/s",
        definition: "(output_tokens − tokens of the first chunk, 1 where unknown, − reasoning_tokens where \
                     first_reasoning_ns is null) ÷ (last_token_ns − first_token_ns), from first_silent_ns instead as \
                     for tpot_ms; null if no token came after the first chunk",
        formula: &by(AFTER_FIRST, |[last, rest @ ..]| {
            let (from, after) = after_first(rest)?;
            rate(after, last? - from)
        }),
    },
];

const CLIENT: Number = Number {
    column: "client_id",
    read: |t| t.request.client_id,
};
const SCHEDULED: Number = Number {
    column: "scheduled_ns",
    read: |t| t.request.scheduled_ns,
};
const SENT: Number = Number {
    column: "sent_ns",
    read: |t| t.request.sent_ns,
};
const FIRST_TOKEN: Number = Number {
    column: "first_token_ns",
    read: |t| t.request.first_token_ns,
};
const FIRST_SILENT: Number = Number {
    column: "first_silent_ns",
    read: |t| t.request.first_silent_ns,
};
const LAST_TOKEN: Number = Number {
    column: "last_token_ns",
    read: |t| t.request.last_token_ns,
};
const PROMPT: Number = Number {
    column: "prompt_tokens",
    read: |t| t.request.prompt_tokens,
};
const OUTPUT: Number = Number {
    column: "output_tokens",
    read: |t| t.request.output_tokens,
};
const FIRST_CHUNK: Number = Number {
    column: "first_chunk_tokens",
    read: |t| t.gaps.first_chunk_tokens.or(t.request.first_chunk_tokens),
};
const REASONING: Number = Number {
    column: "reasoning_tokens",
    read: |t| t.request.reasoning_tokens,
};
const FIRST_REASONING: Number = Number {
    column: "first_reasoning_ns",
    read: |t| t.request.first_reasoning_ns,
};

/// The numbers of a span from the first token to the last, and of the tokens in it.
const AFTER_FIRST: [Number; 7] = [
    LAST_TOKEN,
    FIRST_TOKEN,
    FIRST_SILENT,
    OUTPUT,
    FIRST_CHUNK,
    REASONING,
    FIRST_REASONING,
];

impl Request {
    /// Returns the number of reasoning tokens that the server counts although it sent no text of them; 0 if it sent
    /// their text, or counts none.
    pub fn hidden_tokens(&self) -> i64 {
        hidden(self.reasoning_tokens, self.first_reasoning_ns)
    }

    /// Returns the number of output tokens that came after the first chunk, or `None` if it is unknown or none did. The
    /// first chunk counts as one token where its tokens are unknown, as in vLLM and SGLang.
    pub fn tokens_after_first_chunk(&self) -> Option<i64> {
        after_first_chunk([
            self.output_tokens,
            self.first_chunk_tokens,
            self.reasoning_tokens,
            self.first_reasoning_ns,
        ])
    }
}

impl Request {
    /// Returns the time per output token after the first chunk, ms; `None` if no token came after it.
    pub fn tpot_ms(&self) -> Option<f64> {
        let (from, after) = self.decode()?;
        Some(ms(self.last_token_ns? - from) / after as f64)
    }

    /// Returns when the tokens after the first chunk begin, ns, and how many they are; `None` if there are none.
    pub fn decode(&self) -> Option<(i64, i64)> {
        after_first([
            self.first_token_ns,
            self.first_silent_ns,
            self.output_tokens,
            self.first_chunk_tokens,
            self.reasoning_tokens,
            self.first_reasoning_ns,
        ])
    }
}

/// Returns when the tokens after the first chunk begin, ns, and how many they are; `None` if there are none. If tokens without
/// text came before the first chunk, and no count tells how many, it begins with the first of them, which counts as one token.
fn after_first(
    [
        first,
        silent,
        output,
        first_chunk,
        reasoning,
        first_reasoning,
    ]: [Option<i64>; 6],
) -> Option<(i64, i64)> {
    let after = after_first_chunk([output, first_chunk, reasoning, first_reasoning])?;
    let counted = first_chunk.is_some() || hidden(reasoning, first_reasoning) > 0;
    Some((silent.filter(|_| !counted).or(first)?, after))
}

fn hidden(reasoning: Option<i64>, first_reasoning: Option<i64>) -> i64 {
    reasoning
        .filter(|_| first_reasoning.is_none())
        .unwrap_or(0)
        .max(0)
}

/// Returns the number of output tokens after the first chunk, or `None` if there are none.
fn after_first_chunk(
    [output, first_chunk, reasoning, first_reasoning]: [Option<i64>; 4],
) -> Option<i64> {
    let hidden = hidden(reasoning, first_reasoning);
    let first = first_chunk.unwrap_or(1);
    // A running count of the tokens reaches the first chunk with the hidden ones in it.
    let before = if first > hidden {
        first
    } else {
        hidden + first
    };
    Some(output? - before).filter(|after| *after > 0)
}

/// Returns a span from the scheduled moment; only for arrivals that do not wait for a client.
fn open_loop([until, scheduled, client]: [Option<i64>; 3]) -> Option<f64> {
    let scheduled = scheduled.filter(|_| client.is_none())?;
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
        let gaps = ChunkGaps {
            first_chunk_tokens: first,
            ..ChunkGaps::default()
        };
        Timing {
            row: 0,
            request,
            gaps,
            chunk_rows: Vec::new(),
        }
    }

    #[test]
    fn the_first_chunks_tokens_do_not_count_for_tpot() {
        // 30 ms from the first to the last token, 13 tokens, 4 of them in the first chunk.
        let mut r = request(0);
        (r.first_token_ns, r.last_token_ns, r.output_tokens) =
            (Some(10_000_000), Some(40_000_000), Some(13));
        r.first_chunk_tokens = None;
        let tpot = |t: &Timing<'_>| metric("tpot_ms").unwrap().of(t);
        assert_eq!(tpot(&timing(&r, None)), Some(2.5));
        assert_eq!(tpot(&timing(&r, Some(4))), Some(30.0 / 9.0));
    }

    #[test]
    fn reasoning_that_was_not_sent_does_not_count_for_tpot() {
        // 16 chunks of one token in 75 ms, after 60 tokens that nobody saw.
        let mut r = request(0);
        (r.first_token_ns, r.last_token_ns) = (Some(300_000_000), Some(375_000_000));
        (r.output_tokens, r.reasoning_tokens) = (Some(76), Some(60));
        (r.first_chunk_tokens, r.first_reasoning_ns) = (None, None);
        let value = |name: &str, r: &Request| metric(name).unwrap().of(&timing(r, None));
        assert_eq!(value("tpot_ms", &r), Some(5.0));
        assert_eq!(value("decode_rate", &r), Some(200.0));
        assert_eq!(r.tokens_after_first_chunk(), Some(15));
        // A running count has them in the first chunk.
        r.first_chunk_tokens = Some(61);
        assert_eq!(value("tpot_ms", &r), Some(5.0));
        r.first_chunk_tokens = None;
        // Reasoning that was sent is text like any other.
        r.first_reasoning_ns = Some(300_000_000);
        assert_eq!(value("tpot_ms", &r), Some(1.0));
        // Accounts that leave no token for the text give no time per token.
        (r.first_reasoning_ns, r.reasoning_tokens) = (None, Some(76));
        assert_eq!(value("tpot_ms", &r), None);
    }

    #[test]
    fn tpot_begins_with_tokens_before_the_first_text_that_no_count_places() {
        // Ten tokens without text and ten with text, one every 10 ms.
        let mut r = request(0);
        (r.first_silent_ns, r.first_token_ns) = (Some(10_000_000), Some(110_000_000));
        (r.last_token_ns, r.output_tokens) = (Some(200_000_000), Some(20));
        let tpot = |r: &Request| metric("tpot_ms").unwrap().of(&timing(r, None));
        for first in [None, Some(11)] {
            r.first_chunk_tokens = first;
            assert_eq!(tpot(&r), Some(10.0), "{first:?}");
            assert_eq!(r.tpot_ms(), Some(10.0), "{first:?}");
        }
        // Reasoning that the server counts is counted.
        (r.first_chunk_tokens, r.reasoning_tokens) = (None, Some(10));
        assert_eq!(tpot(&r), Some(10.0));
    }

    #[test]
    fn latency_from_the_schedule_exists_only_for_open_arrivals() {
        let mut r = request(0);
        (r.scheduled_ns, r.sent_ns) = (Some(2_000_000), Some(5_000_000));
        let scheduled = |t: &Timing<'_>| metric("ttft_scheduled_ms").unwrap().of(t);
        assert_eq!(scheduled(&timing(&r, None)), None);
        r.client_id = None;
        assert_eq!(scheduled(&timing(&r, None)), Some(8.0));
    }

    #[test]
    fn a_value_without_a_ratio_is_named_with_what_a_zero_of_its_column_means() {
        let said = |column: &str, values: &[f64]| without_ratio(column, values, "do that");
        assert_eq!(
            said("slo_pass_rate", &[0.0, 0.5, 0.0]),
            "2 of 3 values of slo_pass_rate are 0 and have no ratio: do that"
        );
        assert_eq!(
            said("gain", &[-1.0, 0.5]),
            "1 of 2 values of gain is below 0 and has no ratio: do that"
        );
        assert!(said("gain", &[-1.0, 0.0]).contains("2 of 2 values of gain are 0 or below"));
        let pieces = said("tpot_ms_p50", &[0.0, 2.5]);
        assert!(
            pieces.contains("arrived in one piece") && pieces.contains("`one-piece`"),
            "{pieces}"
        );
        assert!(!pieces.contains("do that"));
        // A time below 0 has another cause.
        assert!(said("tpot_ms_p50", &[-1.0]).ends_with("do that"));
        assert!(said("ttft_ms_p50", &[0.0]).contains("`plausible-ttft`"));
    }

    #[test]
    fn tpot_of_one_token_does_not_exist() {
        let mut r = request(0);
        r.output_tokens = Some(1);
        assert_eq!(metric("tpot_ms").unwrap().of(&timing(&r, None)), None);
    }

    #[test]
    fn without_a_token_every_latency_is_null() {
        let mut r = request(0);
        (r.first_token_ns, r.last_token_ns) = (None, None);
        assert!(METRICS.iter().all(|m| m.of(&timing(&r, None)).is_none()));
    }
}
