//! What a reader of a result file returns.

pub(crate) use contract::ImportClock as Clock;
use contract::{RequestStatus, TokenSource};

/// One request of a result file. Times are nanoseconds since the first request was sent, or since this one was sent if
/// the file has no start times ([`Clock`]). Every field except the status is `None` if the file does not hold it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) warmup: bool,
    pub(crate) client_id: Option<i64>,
    pub(crate) session_id: Option<i64>,
    pub(crate) turn: Option<i64>,
    pub(crate) prompt_digest: Option<String>,
    pub(crate) scheduled_ns: Option<i64>,
    pub(crate) sent_ns: Option<i64>,
    pub(crate) headers_ns: Option<i64>,
    pub(crate) first_token_ns: Option<i64>,
    pub(crate) last_token_ns: Option<i64>,
    pub(crate) done_ns: Option<i64>,
    /// How late it was sent, if the file states that without the scheduled moments.
    pub(crate) send_lag_ns: Option<i64>,
    pub(crate) prompt_tokens: Option<i64>,
    pub(crate) cached_prompt_tokens: Option<i64>,
    pub(crate) output_tokens: Option<i64>,
    pub(crate) tokens_source: Option<TokenSource>,
    pub(crate) requested_output_tokens: Option<i64>,
    pub(crate) finish_reason: Option<String>,
    pub(crate) status: RequestStatus,
    pub(crate) http_status: Option<i64>,
    pub(crate) error: Option<String>,
    pub(crate) output_characters: Option<i64>,
    pub(crate) output_digest: Option<String>,
    /// The arrival of each chunk with text, if the file records it.
    pub(crate) chunks_ns: Option<Vec<i64>>,
}

impl Row {
    /// Returns a measured request with this status and no other facts.
    pub(crate) fn new(status: RequestStatus) -> Self {
        Self {
            warmup: false,
            client_id: None,
            session_id: None,
            turn: None,
            prompt_digest: None,
            scheduled_ns: None,
            sent_ns: None,
            headers_ns: None,
            first_token_ns: None,
            last_token_ns: None,
            done_ns: None,
            send_lag_ns: None,
            prompt_tokens: None,
            cached_prompt_tokens: None,
            output_tokens: None,
            tokens_source: None,
            requested_output_tokens: None,
            finish_reason: None,
            status,
            http_status: None,
            error: None,
            output_characters: None,
            output_digest: None,
            chunks_ns: None,
        }
    }
}

/// One aggregate, as the tool computed it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Statistic {
    /// The tool's name for the metric.
    pub(crate) metric: String,
    /// `mean`, `median`, `p99`, …, or `value` for a figure that is not a statistic of a distribution.
    pub(crate) statistic: String,
    pub(crate) unit: Option<String>,
    pub(crate) value: f64,
    /// The number of values behind it, if the file states it.
    pub(crate) n: Option<i64>,
    /// The tool's definition of the metric.
    pub(crate) definition: String,
}

/// Facts about the whole run; `None` if the file does not hold them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Facts {
    pub(crate) tool_version: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) expected_requests: Option<i64>,
    pub(crate) arrival: Option<String>,
    pub(crate) clients: Option<i64>,
    pub(crate) rate: Option<f64>,
    pub(crate) api: Option<String>,
    pub(crate) streamed: Option<bool>,
    pub(crate) started_unix_ns: Option<i64>,
    pub(crate) clock: Clock,
    /// Whether the client's limit on requests in flight may delay a request. The time from the scheduled moment to the
    /// sending is then not the client's lag.
    pub(crate) waits_in_line: bool,
}

/// The contents of a result file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Imported {
    /// The requests in the file's order; empty if the file holds only aggregates.
    pub(crate) requests: Vec<Row>,
    pub(crate) summary: Vec<Statistic>,
    pub(crate) facts: Facts,
    /// The columns, and what each was made from.
    pub(crate) mapping: Vec<(String, String)>,
    /// Warnings about the file.
    pub(crate) warnings: Vec<String>,
}

impl Imported {
    /// Records what columns were made from.
    pub(crate) fn map(&mut self, pairs: &[(&str, &str)]) {
        self.mapping.extend(
            pairs
                .iter()
                .map(|(ours, from)| ((*ours).to_owned(), (*from).to_owned())),
        );
    }
}
