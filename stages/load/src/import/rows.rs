//! What a reader of a result file returns.

/// One request of a result file. Times are nanoseconds, since the first request was sent or, if
/// the file has no start times, since this one was ([`Clock`]). Every field but the status is
/// `None` where the file does not hold it.
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// How late it was sent, where the file tells that without telling the schedule's moments.
    pub(crate) send_lag_ns: Option<i64>,
    pub(crate) prompt_tokens: Option<i64>,
    pub(crate) cached_prompt_tokens: Option<i64>,
    pub(crate) output_tokens: Option<i64>,
    pub(crate) tokens_source: Option<String>,
    pub(crate) requested_output_tokens: Option<i64>,
    pub(crate) finish_reason: Option<String>,
    pub(crate) status: String,
    pub(crate) http_status: Option<i64>,
    pub(crate) error: Option<String>,
    pub(crate) output_characters: Option<i64>,
    pub(crate) output_digest: Option<String>,
    /// When each chunk with text arrived, if the file tells.
    pub(crate) chunks_ns: Option<Vec<i64>>,
}

/// A request that failed in a way the file does not name in our words.
pub(crate) const FAILED: &str = "failed";

/// Since when the times of a row count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Since the first request of the cell was sent: rows can be compared.
    #[default]
    Cell,
    /// Since the row's own request was sent: the file has no start times.
    Request,
}

impl Clock {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Cell => "cell",
            Self::Request => "request",
        }
    }
}

/// One aggregate as the tool computed it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Statistic {
    /// The tool's name of the metric.
    pub(crate) metric: String,
    /// `mean`, `median`, `p99`, …, or `value` for a figure that is no statistic of a distribution.
    pub(crate) statistic: String,
    pub(crate) unit: Option<String>,
    pub(crate) value: f64,
    /// Over how many values, if the file says.
    pub(crate) n: Option<i64>,
    /// What the tool means by the metric.
    pub(crate) definition: String,
}

/// Facts of the run as a whole; `None` where the file does not hold them.
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
}

/// Everything a result file holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Imported {
    /// In the file's order; empty where it holds aggregates alone.
    pub(crate) requests: Vec<Row>,
    pub(crate) summary: Vec<Statistic>,
    pub(crate) facts: Facts,
    /// Our column, and what it was made from.
    pub(crate) mapping: Vec<(String, String)>,
    /// Doubts about the file.
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
