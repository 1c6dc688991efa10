//! Counts over a run's rows, collected in one pass.

use std::collections::BTreeMap;

use contract::{Api, Chunk, Phase, Request, RequestStatus, TokenSource};

use crate::pauses::Pauses;
use crate::workload::Workload;

/// The largest share of prompt tokens from a cache that needs no explanation. A chat template begins every prompt alike, and
/// may be longer than the rest.
const MOST_CACHED: f64 = 0.9;

/// The share by which all answers together may differ from the length that was asked for. Servers count special tokens in
/// different ways.
const LENGTH_TOLERANCE: f64 = 0.05;

/// The share of the time to the first text that tokens before it may take without a note.
const EARLIER: f64 = 0.05;

/// The tokens that first chunks have on average, by their length, from which they certainly have more than one. A single token
/// may well be three times as long as others.
const SEVERAL_TOKENS: f64 = 3.5;

/// The share by which TPOT may be too low without a warning.
const TPOT_TOLERANCE: f64 = 0.02;

/// The length, in bytes, up to which first chunks may be single long tokens. With speculative decoding, the first token comes alone.
const LONG_TOKEN: f64 = 14.0;

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
    /// All prompt tokens of the answered measured requests, as far as their answers tell them.
    pub(crate) all_prompt_tokens: i64,
    /// The lengths of answers, of the answered measured requests whose length was counted by tokens.
    pub(crate) lengths: Lengths,
    /// Answered measured requests whose text began after a token without text.
    pub(crate) late_texts: LateTexts,
    /// The first chunks of answered measured requests, if nobody counts their tokens.
    pub(crate) first_chunks: FirstChunks,
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

/// Tokens of answers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Lengths {
    answers: i64,
    requested: i64,
    delivered: i64,
}

/// Answers whose text began after a token without text, with the sums of both times, in ns after sending.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct LateTexts {
    answers: u64,
    first_token_ns: i64,
    first_text_ns: i64,
}

/// Answers with more tokens than chunks, of which nobody counts the tokens of the first chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct FirstChunks {
    answers: u64,
    /// Tokens of the answers.
    tokens: f64,
    /// Tokens of their first chunks, if a token of an answer has the same number of bytes anywhere.
    first: f64,
    /// Bytes of their first chunks.
    first_bytes: i64,
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
        if row.status == RequestStatus::Ok {
            self.add_text(row, chunks);
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

    /// Counts how many tokens an answer has, and where.
    fn add_text(&mut self, row: &Request, chunks: &[Chunk]) {
        let prompt = row.prompt_tokens.unwrap_or(0);
        self.all_prompt_tokens = self.all_prompt_tokens.saturating_add(prompt);
        let by_chunks = row.tokens_source == Some(TokenSource::Chunks);
        let counted = row.output_tokens.filter(|_| !by_chunks);
        let by_server = matches!(
            row.tokens_source,
            Some(TokenSource::Usage | TokenSource::Timings)
        );
        let lengths = counted
            .filter(|_| by_server)
            .zip(row.requested_output_tokens);
        if let Some((delivered, requested)) = lengths.filter(|(_, requested)| *requested > 0) {
            self.lengths.answers += 1;
            self.lengths.delivered += delivered;
            self.lengths.requested += requested;
        }
        let times = row.sent_ns.zip(row.first_silent_ns).zip(row.first_token_ns);
        if let Some(((sent, token), text)) = times.filter(|((_, token), text)| token < text) {
            self.late_texts.answers += 1;
            self.late_texts.first_token_ns += token - sent;
            self.late_texts.first_text_ns += text - sent;
        }
        // Reasoning that was not sent, and tokens without text, have notes of their own.
        let is_plain = row.hidden_tokens() == 0 && row.first_silent_ns.is_none();
        let unknown = row.first_chunk_tokens.is_none() && is_plain;
        let bytes = |chunks: &[Chunk]| chunks.iter().filter_map(|chunk| chunk.bytes).sum::<i64>();
        if let Some(tokens) = counted.filter(|tokens| unknown && *tokens > chunks.len() as i64)
            && chunks.len() > 1
        {
            let first_bytes = bytes(&chunks[..1]);
            let share = first_bytes as f64 / bytes(chunks).max(1) as f64;
            self.first_chunks.first_bytes += first_bytes;
            self.first_chunks.answers += 1;
            self.first_chunks.tokens += tokens as f64;
            // Each of the others has at least one.
            let most = (tokens - chunks.len() as i64 + 1) as f64;
            self.first_chunks.first += most.min(tokens as f64 * share);
        }
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
        let notes = [in_chunks, hidden, silent, too_few, self.late_texts.note()];
        notes.into_iter().flatten().collect()
    }

    /// Returns the share of prompt tokens that came from the server's cache, of the answers that tell it.
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
        // Some servers, such as vLLM, leave out the count where nothing came from the cache.
        let (cached, _) = self.cached.filter(|_| !shares)?;
        let share = cached as f64 / self.all_prompt_tokens.max(1) as f64;
        if share <= MOST_CACHED {
            return None;
        }
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
        let doubts = silent.into_iter().chain(self.late());
        doubts.chain(self.first_chunks.doubt()).collect()
    }

    /// Returns the doubt about answers that do not have the length that the workload asks for. Fields that replace ours may
    /// ask for another one.
    pub fn other_lengths(&self, workload: &Workload, api: Api) -> Option<String> {
        let exact = workload.is_exact() && api.can_be_exact();
        let Lengths {
            answers,
            requested,
            delivered,
        } = self.lengths;
        // Servers differ in whether they count a special token of an answer.
        let slack = (requested as f64 * LENGTH_TOLERANCE).max(answers as f64);
        let more = (delivered - requested) as f64;
        let why = if requested == 0 || !workload.extra.is_empty() {
            return None;
        } else if more < -slack && exact {
            "it does not ignore the end of sequence, so it decides how long answers are"
        } else if more > slack {
            "it does not keep the limit, so it decides how long answers are"
        } else {
            return None;
        };
        Some(format!(
            "the server sent {delivered} output tokens, and {requested} were asked for: {why}"
        ))
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

impl LateTexts {
    /// Returns the note on times to the first token that are those of the first text.
    fn note(self) -> Option<String> {
        let (token, text) = (self.first_token_ns as f64, self.first_text_ns as f64);
        if self.answers == 0 || token >= text * (1.0 - EARLIER) {
            return None;
        }
        let ms = |sum: f64| sum / self.answers as f64 / 1e6;
        Some(format!(
            "{} began with tokens without text, {:.1} ms after sending on average, and with text after {:.1} ms: TTFT ends with \
             the first text; special tokens, or reasoning under a name that Benchtrail does not read, may be the cause",
            artifacts::counted(self.answers, "answer"),
            ms(token),
            ms(text)
        ))
    }
}

impl FirstChunks {
    /// Returns the doubt about times per token that take a long first chunk for one token.
    fn doubt(self) -> Option<String> {
        let answers = self.answers as f64;
        let after = (self.tokens - self.first).max(1.0);
        let too_low = 1.0 - after / (self.tokens - answers).max(after);
        let may_be_one = self.first_bytes as f64 <= LONG_TOKEN * answers;
        if may_be_one || self.first < SEVERAL_TOKENS * answers || too_low < TPOT_TOLERANCE {
            return None;
        }
        Some(format!(
            "the first chunk of {} has about {:.0} tokens by its length, and the server does not count them, so TPOT takes it for \
             one token and is about {:.0} % too low; a server that reports its usage in every event tells the number",
            artifacts::counted(self.answers, "answer"),
            self.first / answers,
            too_low * 100.0
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_first_chunks_of_unknown_tokens_are_doubted_and_short_ones_are_not() {
        let row = |tokens: i64, chunks: i64| Request {
            output_tokens: Some(tokens),
            chunks: Some(chunks),
            first_chunk_tokens: None,
            ..contract::synthetic::request(0)
        };
        let doubt = |row: Request, bytes: &[i64]| {
            let chunk = |(i, bytes): (usize, &i64)| Chunk {
                request_id: 0,
                attempt: row.attempt,
                at_ns: i as i64,
                bytes: Some(*bytes),
                tokens: None,
                read: Some(i as i64),
            };
            let chunks: Vec<Chunk> = bytes.iter().enumerate().map(chunk).collect();
            Tally::of(&[row], &chunks).first_chunks.doubt()
        };
        // The first token comes alone, as a long word, before pairs of short ones.
        assert_eq!(doubt(row(64, 33), &[&[9][..], &[3; 32]].concat()), None);
        // Eight tokens in each of eight events.
        let said = doubt(row(64, 8), &[32; 8]).unwrap();
        assert!(
            said.contains("about 8 tokens") && said.contains("11 % too low"),
            "{said}"
        );
        // Speculative decoding: the first token comes alone, and may be a long word.
        assert_eq!(doubt(row(64, 22), &[&[9][..], &[12; 21]].concat()), None);
        // A token in each event, but for the end of the sequence.
        assert_eq!(doubt(row(9, 8), &[[20].as_slice(), &[4; 7]].concat()), None);
        // The server counts.
        let counted = Request {
            first_chunk_tokens: Some(8),
            ..row(64, 8)
        };
        assert_eq!(doubt(counted, &[32; 8]), None);
        // Two of 500 tokens change nothing.
        assert_eq!(doubt(row(500, 250), &[8; 250]), None);
    }

    #[test]
    fn answers_of_another_length_than_asked_for_are_doubted() {
        let tally = |delivered: i64, source| {
            let row = Request {
                output_tokens: Some(delivered),
                requested_output_tokens: Some(100),
                tokens_source: Some(source),
                ..contract::synthetic::request(0)
            };
            Tally::of(&[row], &[])
        };
        let workload = |mode: &str, extra: serde_json::Value| -> Workload {
            serde_json::from_value(serde_json::json!({
                "prompts": {"words": {"length": 4}}, "output": {"tokens": 100, "mode": mode}, "extra": extra,
            }))
            .unwrap()
        };
        let none = serde_json::json!({});
        let (exact, cap) = (workload("exact", none.clone()), workload("cap", none));
        let api = Api::OpenaiChat;
        let short = tally(40, TokenSource::Usage);
        let doubt = short.other_lengths(&exact, api).unwrap();
        assert!(
            doubt.starts_with("the server sent 40 output tokens, and 100"),
            "{doubt}"
        );
        // A cap allows shorter answers, and the count of a special token is a matter of taste.
        assert_eq!(short.other_lengths(&cap, api), None);
        assert_eq!(short.other_lengths(&exact, Api::AnthropicMessages), None);
        let nearly = tally(99, TokenSource::Usage);
        assert_eq!(nearly.other_lengths(&exact, api), None);
        let unknown = tally(40, TokenSource::Chunks);
        assert_eq!(unknown.other_lengths(&exact, api), None);
        let long = tally(300, TokenSource::Usage);
        assert!(long.other_lengths(&cap, api).is_some());
        let other = workload("cap", serde_json::json!({"max_tokens": 300}));
        assert_eq!(long.other_lengths(&other, api), None);
    }

    #[test]
    fn text_that_begins_long_after_the_first_token_is_noted() {
        let notes = |silent_ms: i64| {
            let row = Request {
                sent_ns: Some(0),
                first_silent_ns: Some(silent_ms * 1_000_000),
                first_token_ns: Some(100_000_000),
                ..contract::synthetic::request(0)
            };
            Tally::of(&[row], &[]).notes_on_tokens()
        };
        let note = notes(20).remove(0);
        assert!(
            note.starts_with("1 answer began with tokens without text, 20.0 ms"),
            "{note}"
        );
        assert!(notes(98).is_empty());
    }

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
        let warm = Tally::of(&[row(0, Some(94)), row(1, Some(98))], &[]);
        assert_eq!(
            (warm.cached, warm.cached_share()),
            (Some((192, 200)), Some(0.96))
        );
        let doubt = warm.warm_cache(&words).unwrap();
        assert!(doubt.starts_with("96 % of the prompt tokens"), "{doubt}");
        assert_eq!(warm.warm_cache(&prefix), None);
        // vLLM names the count only where something came from the cache.
        let rarely = Tally::of(&[row(0, Some(94)), row(1, None), row(2, None)], &[]);
        assert_eq!(
            (rarely.warm_cache(&words), rarely.cached_share()),
            (None, Some(0.94))
        );
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
