//! Counts over a run's rows, collected in one pass.

use std::collections::BTreeMap;

use contract::{Chunk, Phase, Request, RequestStatus, TokenSource};

use crate::pauses::Pauses;
use crate::workload::Workload;

/// The largest share of prompt tokens from a cache that needs no explanation. A chat template begins every prompt alike, and
/// may be longer than the rest.
const MOST_CACHED: f64 = 0.9;

/// Counts over a run's rows; memory does not grow with them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Measured requests by status, superseded attempts left out.
    pub statuses: BTreeMap<RequestStatus, u64>,
    /// The first error of each status, in the order of requests.
    pub first_errors: BTreeMap<RequestStatus, String>,
    /// The first error of any request, including warm-up.
    pub first_error: Option<String>,
    /// First `sent_ns` and last `done_ns` of measured requests.
    pub(crate) window: (Option<i64>, Option<i64>),
    /// Attempts sent again on a fresh connection.
    pub replays: u64,
    /// The most measured requests in flight at once.
    pub peak_in_flight: Option<i64>,
    /// Prompt tokens of answered measured requests, if known.
    pub prompt_tokens: Option<Spread>,
    /// Chunks of measured requests.
    pub chunks: u64,
    /// Socket reads that completed at least one of them.
    pub chunk_reads: u64,
    /// Streamed measured requests with an answer of more than one token.
    pub streamed_answers: u64,
    /// Those of them whose complete text arrived in one socket read.
    pub in_one_piece: u64,
    /// Answered measured requests without any count of output tokens, whose chunks count as tokens instead.
    pub counted_in_chunks: u64,
    /// Answered streamed measured requests whose server counts reasoning tokens without sending their text.
    pub hidden_reasoning: u64,
    /// Prompt tokens that came from the server's cache, and all prompt tokens, of the answered measured requests whose answer
    /// tells both; `None` if none does.
    pub cached: Option<(i64, i64)>,
    /// Answered measured requests with events without text of which nobody can tell how many tokens they have.
    pub silent: u64,
    /// Answered measured requests whose server counts fewer tokens than it sent chunks of text.
    pub too_few: u64,
    /// Times in which nothing arrived.
    pub(crate) pauses: Pauses,
    /// Measured requests that were answered completely, but without a chunk of text. Answers of APIs that generate no
    /// text do not count.
    pub without_text: u64,
}

/// The spread of a count over requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// The smallest.
    pub min: i64,
    /// The largest.
    pub max: i64,
    /// The sum.
    pub sum: i64,
    /// The number of requests.
    pub n: u64,
}

impl Spread {
    fn with(earlier: Option<Self>, value: i64) -> Self {
        let Self { min, max, sum, n } = earlier.unwrap_or(Self {
            min: value,
            max: value,
            sum: 0,
            n: 0,
        });
        Self {
            min: min.min(value),
            max: max.max(value),
            sum: sum.saturating_add(value),
            n: n + 1,
        }
    }

    /// Returns the mean.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.n as f64
    }
}

impl Tally {
    /// Returns the counts of rows; both are sorted by request and attempt.
    pub fn of(rows: &[Request], chunks: &[Chunk]) -> Self {
        let mut tally = Self::default();
        let mut rest = chunks;
        for row in rows {
            let at = (row.request_id, row.attempt);
            let skipped = rest.partition_point(|c| (c.request_id, c.attempt) < at);
            let until = rest.partition_point(|c| (c.request_id, c.attempt) <= at);
            tally.add(row, &rest[skipped..until]);
            rest = &rest[until..];
        }
        tally
    }

    /// Counts a row with its chunks, sorted by time; rows come in the order of requests.
    pub(crate) fn add(&mut self, row: &Request, chunks: &[Chunk]) {
        if self.first_error.is_none() {
            self.first_error.clone_from(&row.error);
        }
        self.replays += u64::from(row.superseded);
        self.pauses.add(row, chunks);
        if row.phase != Phase::Measured {
            return;
        }
        let (from, to) = &mut self.window;
        *from = from.iter().copied().chain(row.sent_ns).min();
        *to = (*to).max(row.done_ns);
        self.chunks += chunks.len() as u64;
        let mut last = None;
        // The chunks of one read are adjacent.
        for chunk in chunks {
            self.chunk_reads += u64::from(last != Some(chunk.read));
            last = Some(chunk.read);
        }
        if row.superseded {
            return;
        }
        if matches!(row.status, RequestStatus::Ok | RequestStatus::InvalidOutput)
            && let Some(tokens) = row.prompt_tokens
        {
            self.prompt_tokens = Some(Spread::with(self.prompt_tokens, tokens));
        }
        if row.status == RequestStatus::Ok
            && let Some((cached, all)) = row.cached_prompt_tokens.zip(row.prompt_tokens)
        {
            let (before, sum) = self.cached.unwrap_or_default();
            self.cached = Some((before.saturating_add(cached), sum.saturating_add(all)));
        }
        if row.status == RequestStatus::Ok
            && row.output_tokens > Some(1)
            && let Some(first) = chunks.first()
        {
            self.streamed_answers += 1;
            self.in_one_piece += u64::from(chunks.iter().all(|chunk| chunk.read == first.read));
        }
        let by_chunks = row.tokens_source == Some(TokenSource::Chunks);
        self.counted_in_chunks += u64::from(row.status == RequestStatus::Ok && by_chunks);
        let hidden = row.first_token_ns.is_some() && row.hidden_tokens() > 0;
        self.hidden_reasoning += u64::from(row.status == RequestStatus::Ok && hidden);
        let is_ok = row.status == RequestStatus::Ok;
        self.silent += u64::from(is_ok && row.silent_events > Some(0));
        let is_theirs = |source| matches!(source, TokenSource::Usage | TokenSource::Timings);
        let too_few = row.output_tokens.zip(row.chunks);
        let too_few = too_few.filter(|_| row.tokens_source.is_some_and(is_theirs));
        let too_few = too_few.is_some_and(|(tokens, chunks)| chunks > tokens);
        self.too_few += u64::from(is_ok && too_few);
        let silent = is_ok && row.output_tokens != Some(0);
        self.without_text += u64::from(silent && chunks.is_empty());
        *self.statuses.entry(row.status).or_default() += 1;
        if let Some(error) = &row.error {
            self.first_errors
                .entry(row.status)
                .or_insert_with(|| error.clone());
        }
        self.peak_in_flight = self
            .peak_in_flight
            .max(row.in_flight_at_send.map(|others| others + 1));
    }

    /// Returns whether most streamed answers came in one piece. Times between tokens then depend on the component that
    /// put them together.
    pub fn mostly_in_one_piece(&self) -> bool {
        self.in_one_piece * 2 > self.streamed_answers
    }

    /// Returns the notes on token figures that need an explanation: figures that are those of chunks, because an event
    /// with text may hold any number of tokens, and tokens that nobody received.
    pub fn notes_on_tokens(&self) -> Vec<String> {
        let answers = |n: u64| match n {
            0 => None,
            1 => Some(("1 answer".to_owned(), "its")),
            n => Some((format!("{n} answers"), "their")),
        };
        let in_chunks = answers(self.counted_in_chunks).map(|(answers, whose)| {
            format!(
                "{answers} gave no count; {whose} chunks were counted as tokens, so token figures and TPOT are per chunk"
            )
        });
        let hidden = answers(self.hidden_reasoning).map(|(answers, _)| {
            format!(
                "the server counts reasoning tokens in {answers} without sending their text: TPOT leaves them out, TTFT has \
                 the time that they took, and token throughput has both"
            )
        });
        let silent = answers(self.silent).map(|(answers, _)| {
            format!(
                "{answers} had several events without text in a row, and no count tells how many tokens they have: TPOT and E2E \
                 may be wrong; a server that reports its usage in every event tells it"
            )
        });
        let too_few = answers(self.too_few).map(|(answers, whose)| {
            format!(
                "the server counts fewer tokens in {answers} than {whose} chunks with text: its count is wrong, and so are TPOT \
                 and token throughput"
            )
        });
        let notes = [in_chunks, hidden, silent, too_few];
        notes.into_iter().flatten().collect()
    }

    /// Returns the share of prompt tokens that came from the server's cache, if answers tell it.
    pub fn cached_share(&self) -> Option<f64> {
        let (cached, all) = self.cached.filter(|(_, all)| *all > 0)?;
        Some(cached as f64 / all as f64)
    }

    /// Returns the doubt about prompts that the server had seen before, for a workload whose prompts should share nothing but the
    /// beginning of a chat template.
    pub fn warm_cache(&self, workload: &Workload) -> Option<String> {
        // Another seed would send the prompts of a file again.
        let shares = workload.prompts.shares_prefixes()
            || workload.prompts.is_written()
            || workload.sessions.is_some()
            || workload.system.is_some();
        let share = self
            .cached_share()
            .filter(|share| !shares && *share > MOST_CACHED)?;
        Some(format!(
            "{:.0} % of the prompt tokens came from the server's cache, although the prompts do not share a prefix: the server \
             has seen them before, so TTFT is that of a warm cache; restart the server, or give another --seed",
            share * 100.0
        ))
    }

    /// Returns the doubt about a load during which everything stood still for a second or more. The gate `stalls` judges
    /// this in a study.
    pub fn standstill(&self) -> Option<String> {
        self.pauses.doubt()
    }

    /// Returns the doubts that the counts raise, if any. Answers that are not streamed have no chunks.
    pub(crate) fn doubts(&self, streamed: bool) -> Vec<String> {
        let silent = (streamed && self.without_text > 0).then(|| {
            let counted = match self.without_text {
                1 => "1 request was".to_owned(),
                n => format!("{n} requests were"),
            };
            format!(
                "{counted} answered completely but without any text; such a request counts as successful and has no \
                 latencies; check what the server sends"
            )
        });
        silent.into_iter().chain(self.late()).collect()
    }

    /// Returns the doubt about answers that arrived in one piece.
    fn late(&self) -> Option<String> {
        self.mostly_in_one_piece().then(|| {
            format!(
                "{} of {} streamed answers arrived in one piece, so TPOT and the times between \
                 chunks do not describe the server, and TTFT is late; does a proxy buffer the \
                 answers, or does the server write them whole?",
                self.in_one_piece, self.streamed_answers
            )
        })
    }

    /// Returns the length of the measured window, s; `None` if it has none.
    pub(crate) fn seconds(&self) -> Option<f64> {
        let seconds = self.window().map(|(from, to)| (to - from) as f64 / 1e9);
        seconds.filter(|s| *s > 0.0)
    }

    /// Returns the chunks for each socket read that completed one.
    pub(crate) fn chunks_per_read(&self) -> Option<f64> {
        (self.chunk_reads > 0).then(|| self.chunks as f64 / self.chunk_reads as f64)
    }

    /// Returns the measured window: first `sent_ns`, last `done_ns`.
    pub(crate) fn window(&self) -> Option<(i64, i64)> {
        self.window.0.zip(self.window.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_whose_chunks_count_as_tokens_are_noted() {
        let row = |id: i64, source, status| Request {
            tokens_source: Some(source),
            status,
            ..contract::synthetic::request(id)
        };
        let (ok, cut) = (RequestStatus::Ok, RequestStatus::TruncatedStream);
        let mut rows = vec![
            row(0, TokenSource::Usage, ok),
            row(1, TokenSource::Chunks, cut),
        ];
        assert!(Tally::of(&rows, &[]).notes_on_tokens().is_empty());
        rows.push(row(2, TokenSource::Chunks, ok));
        let note = Tally::of(&rows, &[]).notes_on_tokens().remove(0);
        assert!(
            note.starts_with("1 answer gave no count; its chunks"),
            "{note}"
        );
        rows.push(row(3, TokenSource::Chunks, ok));
        let note = Tally::of(&rows, &[]).notes_on_tokens().remove(0);
        assert!(
            note.starts_with("2 answers gave no count; their chunks"),
            "{note}"
        );
    }

    #[test]
    fn counts_that_cannot_be_placed_or_are_too_small_are_noted() {
        let row = |id: i64, silent_events, output_tokens| Request {
            silent_events,
            output_tokens,
            ..contract::synthetic::request(id)
        };
        let rows = [row(0, Some(0), Some(5)), row(1, None, Some(5))];
        assert!(Tally::of(&rows, &[]).notes_on_tokens().is_empty());
        let rows = [row(0, Some(10), Some(5)), row(1, Some(0), Some(1))];
        let notes = Tally::of(&rows, &[]).notes_on_tokens();
        assert!(
            notes[0].starts_with("1 answer had several events"),
            "{notes:?}"
        );
        assert!(
            notes[1].starts_with("the server counts fewer tokens in 1 answer"),
            "{notes:?}"
        );
    }

    #[test]
    fn prompts_from_a_warm_cache_are_doubted_unless_they_share_a_prefix() {
        let row = |id: i64, cached_prompt_tokens| Request {
            prompt_tokens: Some(100),
            cached_prompt_tokens,
            ..contract::synthetic::request(id)
        };
        let workload = |prompts: serde_json::Value| -> Workload {
            serde_json::from_value(serde_json::json!({ "prompts": prompts })).unwrap()
        };
        let words = workload(serde_json::json!({"words": {"length": 4}}));
        let prefix = workload(serde_json::json!({"shared-prefix": {"prefix": 4, "suffix": 4}}));
        let warm = Tally::of(&[row(0, Some(94)), row(1, Some(98)), row(2, None)], &[]);
        assert_eq!(
            (warm.cached, warm.cached_share()),
            (Some((192, 200)), Some(0.96))
        );
        let doubt = warm.warm_cache(&words).unwrap();
        assert!(doubt.starts_with("96 % of the prompt tokens"), "{doubt}");
        assert_eq!(warm.warm_cache(&prefix), None);
        let cold = Tally::of(&[row(0, Some(10))], &[]);
        assert_eq!(cold.warm_cache(&words), None);
        assert_eq!(Tally::of(&[row(0, None)], &[]).cached_share(), None);
    }

    #[test]
    fn answers_with_reasoning_that_was_not_sent_are_noted() {
        let row = |id: i64, first_reasoning_ns| Request {
            reasoning_tokens: Some(60),
            first_reasoning_ns,
            ..contract::synthetic::request(id)
        };
        let sent = Tally::of(&[row(0, Some(1))], &[]);
        assert!(sent.notes_on_tokens().is_empty());
        let notes = Tally::of(&[row(0, Some(1)), row(1, None)], &[]).notes_on_tokens();
        assert!(
            notes[0].contains("reasoning tokens in 1 answer"),
            "{notes:?}"
        );
    }
}
