//! The words of columns and settings. Each list is written once.

crate::words! {
    /// Whether a request counts.
    pub enum Phase: "phase" {
        /// Sent before the measurement; never in an aggregate.
        Warmup = "warmup",
        /// Part of the measurement.
        Measured = "measured",
    }
}

crate::words! {
    /// What became of a request.
    pub enum RequestStatus: "request status" {
        /// Answered completely.
        Ok = "ok",
        /// A status code other than 2xx.
        HttpError = "http_error",
        /// One of the request's time limits passed.
        Timeout = "timeout",
        /// Ended by the heartbeat: no byte on any stream.
        Hung = "hung",
        /// The server took no connection.
        Refused = "refused",
        /// The connection broke, or closed before any byte of the answer.
        ConnectionReset = "connection_reset",
        /// The answer ended before it was complete.
        TruncatedStream = "truncated_stream",
        /// The answer could not be understood, or carried an error in place of an answer.
        MalformedStream = "malformed_stream",
        /// The output does not validate.
        InvalidOutput = "invalid_output",
        /// Ended by the user or with the cell.
        Cancelled = "cancelled",
        /// Failed in a way that an imported file does not name.
        Failed = "failed",
    }
}

crate::words! {
    /// What a comparison says of an effect: the column `verdict`.
    pub enum Verdict: "verdict" {
        /// The adjusted interval excludes no effect, and the estimate exceeds the margin.
        Different = "different",
        /// The effect lies within the declared margin.
        Equivalent = "equivalent",
        /// Neither was shown.
        NoEvidence = "no evidence",
        /// The data cannot answer.
        Undecidable = "undecidable",
    }
}

crate::words! {
    /// Which values are better.
    pub enum Better: "better direction" {
        /// Higher values, as for a throughput.
        Higher = "higher",
        /// Lower values, as for a latency.
        Lower = "lower",
    }
}

impl Better {
    /// Returns which values of a metric of the load generator are better, by its name. Of any other column, such as one that a
    /// query computed, only its author knows it: `None`.
    pub fn of_metric(column: &str, unit: Option<&str>) -> Option<Self> {
        const METRICS: [&str; 8] = [
            "ttft",
            "tpot",
            "itl",
            "icl",
            "e2e",
            "output_throughput",
            "request_throughput",
            "ok_rate",
        ];
        let is_metric = METRICS.iter().any(|name| column.starts_with(name));
        Self::of(column, unit).filter(|_| is_metric)
    }

    /// Returns which values of a column are better, by its unit. Shares and ratios are recognized by name, and so is a
    /// spread, of which less is better, also of a rate. Returns `None` if none of these applies.
    pub fn of(column: &str, unit: Option<&str>) -> Option<Self> {
        match unit {
            _ if is_spread(column) => Some(Self::Lower),
            Some("tok/s" | "req/s" | "tok/J") => Some(Self::Higher),
            Some("ms" | "s" | "ms/tok" | "J") => Some(Self::Lower),
            _ if ["pass_rate", "efficiency", "speedup"]
                .iter()
                .any(|word| column.contains(word))
                || column.starts_with("ok_rate") =>
            {
                Some(Self::Higher)
            }
            _ if column.contains("error_rate") => Some(Self::Lower),
            _ => None,
        }
    }
}

/// Returns whether a column says how far values lie apart, by its name: `tpot_ms_std`, or a statistic of such a column, as
/// `ttft_ms_cv_mean` and `tpot_ms_std_p90`.
fn is_spread(column: &str) -> bool {
    let is_quantile = |word: &str| {
        word.strip_prefix('p')
            .is_some_and(|p| p.parse::<f64>().is_ok())
    };
    let is_statistic = |word: &&str| !matches!(*word, "mean" | "min" | "max") && !is_quantile(word);
    column
        .rsplit('_')
        .find(is_statistic)
        .is_some_and(|word| SPREADS.contains(&word))
}

/// The words of statistics of spread.
const SPREADS: [&str; 3] = ["std", "cv", "jitter"];

crate::words! {
    /// Where a count of output tokens comes from, in the order of trust.
    pub enum TokenSource: "source of token counts" {
        /// The answer's `usage`.
        Usage = "usage",
        /// The server's own timings in the answer.
        Timings = "timings",
        /// A tokenizer over the text.
        Tokenizer = "tokenizer",
        /// The number of chunks with text.
        Chunks = "chunks",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_spread_is_better_whatever_spreads() {
        let better = |column: &str, unit: &str| Better::of(column, Some(unit));
        for column in [
            "decode_rate_std",
            "decode_rate_cv",
            "output_throughput_std_mean",
            "decode_rate_std_p90",
            "jitter",
        ] {
            assert_eq!(better(column, "tok/s"), Some(Better::Lower), "{column}");
        }
        assert_eq!(better("decode_rate_mean", "tok/s"), Some(Better::Higher));
        assert_eq!(better("ttft_ms_cv", "1"), Some(Better::Lower));
        assert_eq!(better("standard_ms", "ms"), Some(Better::Lower));
        assert_eq!(better("n_std_of", "1"), None);
    }
}
