//! The results of a search for saturation and of a calibration of the load generator.

use crate::cell::ClientVerdict;

crate::words! {
    /// What a probe of a search found.
    pub enum ProbeVerdict: "verdict of a probe" {
        /// The share of good requests is high enough.
        Kept = "kept",
        /// It is not.
        Missed = "missed",
        /// Not decided: more requests follow at the same level, or the search ended.
        Undecided = "undecided",
    }
}

crate::table! {
    /// One row per probe of a search, in order. All levels of a search are numbers of clients of a closed loop, or all
    /// are requests per second.
    pub struct ProbeRow = "probes" {
        /// the probe's number, from 1
        probe: i64,
        /// clients of a closed loop, or requests a second
        level: f64,
        /// requests sent, the warm-up left out
        sent: i64 ["requests"],
        /// of a rate: time in which nine of ten answers were complete; of clients: until the first of them sent a second request
        warm_in: f64 ["s"],
        /// of those sent, due after the warm-in
        requests: i64 ["requests"],
        /// of these, answered within every bound
        good: i64 ["requests"],
        /// good ÷ requests
        pass_rate: f64 ["1"],
        /// `requests` of this and earlier probes of the level that were long enough
        level_requests: i64 ["requests"],
        /// of these, answered within every bound
        level_good: i64 ["requests"],
        /// independent requests that `level_requests` are worth: fewer if those of a wave of clients, neighbouring waves, or those that meet one queue, share their fate
        level_independent: f64 ["requests"],
        /// interval of level_good ÷ level_requests with `level_independent` requests (Clopper & Pearson); all looks at a level together err in at most 5 %: lower end
        lower: f64 ["1"],
        /// the same interval: upper end
        upper: f64 ["1"],
        /// `undecided`: more requests followed at the level, or the search ended
        verdict: ProbeVerdict,
        /// whether the share itself decided, the requests of the level being spent
        by_share: bool,
    }
}

crate::table! {
    /// One row per point of the grid and metric of a calibration. It compares what the load generator reported with
    /// what the reference server logged. Key: arrival, concurrency, rate, gap, metric.
    pub struct CalibrationRow = "calibration" {
        /// key: `closed-loop` or `constant`
        arrival: String,
        /// key: clients of a closed loop; null for an open loop
        concurrency: Option<i64> ["clients"],
        /// key: rate of an open loop; null for a closed loop
        rate: Option<f64> ["req/s"],
        /// key: between the tokens of an answer
        gap: f64 ["ms"],
        /// key: `ttft`, `e2e`, `icl`, `stamp` or `send_lag`
        metric: String,
        /// values compared
        n: Option<i64> ["1"],
        /// mean of reported − true
        bias: f64 ["ms"],
        /// median error, the absolute difference of reported and true
        error_p50: f64 ["ms"],
        /// 99th percentile of that difference
        error_p99: f64 ["ms"],
        /// largest such difference
        error_max: f64 ["ms"],
        /// median reported
        reported_p50: f64 ["ms"],
        /// median by the server's log
        true_p50: f64 ["ms"],
        /// 99th percentile reported
        reported_p99: f64 ["ms"],
        /// 99th percentile by the server's log
        true_p99: f64 ["ms"],
        /// requests answered and found in the log
        requests: i64 ["requests"],
        /// requests that were not
        lost: i64 ["requests"],
        /// chunks a second over the point
        chunk_rate: Option<f64> ["chunks/s"],
        /// most requests in flight at once
        peak_in_flight: Option<i64> ["requests"],
        /// CPU time of the measuring thread for each chunk
        cpu_per_chunk: Option<f64> ["us"],
        /// what the run itself stated
        stamp_error_bound: Option<f64> ["ms"],
        /// share of chunks stamped late by at most that
        bound_covers: Option<f64> ["1"],
        /// what the run said of its client
        client_verdict: Option<ClientVerdict>,
        /// whether the reference server spoke TLS
        tls: bool,
        /// whether the point keeps the declared bound
        within_bound: bool,
        /// the machine
        cpu_model: Option<String>,
        /// cores of the machine
        cpu_count: Option<i64> ["1"],
    }
}

crate::table! {
    /// One row per closed loop against the server under test and metric: the part of a latency that the server's own
    /// timings do not cover. Key: concurrency, metric.
    pub struct ServerAccountRow = "server_account" {
        /// key: clients of the closed loop
        concurrency: i64 ["clients"],
        /// key: `ttft_beyond_server` (TTFT − server_prompt_ms) or `e2e_beyond_server` (E2E latency −
        /// server_prompt_ms − server_predicted_ms)
        metric: String,
        /// answers with the server's timings
        n: i64 ["1"],
        /// mean
        mean: f64 ["ms"],
        /// median
        p50: f64 ["ms"],
        /// 90th percentile
        p90: f64 ["ms"],
        /// 99th percentile
        p99: f64 ["ms"],
        /// smallest
        min: f64 ["ms"],
        /// largest
        max: f64 ["ms"],
        /// requests measured
        requests: i64 ["requests"],
        /// requests answered
        answered: i64 ["requests"],
        /// answers with as many output tokens by usage as by timings
        tokens_agree: i64 ["requests"],
        /// answers with another number
        tokens_disagree: i64 ["requests"],
    }
}
