//! The row about a load cell as a whole, its prompts, and the aggregates of imported files.

crate::words! {
    /// Where the rows of a load cell come from.
    #[derive(Default)]
    pub enum RowSource: "source of rows" {
        /// A server that was loaded.
        #[default]
        Measured = "measured",
        /// A result file of another tool.
        Imported = "imported",
        /// A declared model of a server.
        Simulated = "simulated",
    }
}

crate::words! {
    /// Since when the times of imported rows count.
    #[derive(Default)]
    pub enum ImportClock: "clock of an imported file" {
        /// Since the first request of the cell was sent: rows can be compared.
        #[default]
        Cell = "cell",
        /// Since the row's own request was sent: the file has no start times.
        Request = "request",
    }
}

crate::words! {
    /// What counted the lengths of prompts.
    pub enum LengthSource: "source of prompt lengths" {
        /// Tokens, by the tokenize endpoint of the server under load.
        ServerTokenizer = "server-tokenizer",
        /// Tokens, by the tokenize endpoint of the server under load, of what its chat template
        /// makes of a prompt.
        ServerTemplate = "server-template",
        /// Tokens, by a `tokenizer.json`.
        TokenizerFile = "tokenizer-file",
        /// Words.
        Words = "words",
        /// Unicode scalar values.
        Characters = "characters",
        /// Nothing: the texts were given.
        Given = "given",
    }
}

crate::words! {
    /// Whether the client was the bottleneck.
    pub enum ClientVerdict: "verdict about the client" {
        /// It was not.
        Ok = "client_ok",
        /// It was: latencies and rates say more about the client than about the server.
        Bound = "client_bound",
    }
}

crate::words! {
    /// What became of the server's cache of prompts before a cell.
    pub enum CacheReset: "reset of a cache" {
        /// It was emptied: a prompt that came from it before had to be computed again.
        Proven = "proven",
        /// The server says that it emptied it; its counters cannot prove it.
        Unproven = "unproven",
        /// A prompt that was sent twice was computed twice, so there was nothing to empty.
        NoHits = "no-hits",
        /// It could not be emptied.
        Failed = "failed",
    }
}

crate::table! {
    /// One row with facts about the cell as a whole. A value is null if the source of the rows does not report it. Only
    /// an imported cell has a tool.
    #[derive(Default)]
    pub struct Cell = "cell" {
        /// where the rows come from
        source: RowSource,
        /// the tool that measured, or the format of its table; null unless imported
        tool: Option<String>,
        /// its version; null if unknown
        tool_version: Option<String>,
        /// digest of the imported file, kept as `original`; null unless imported
        original: Option<String>,
        /// the zero of imported times: `cell`, when the first request was sent; `request`, when each
        /// request was sent, because the file has no start times; null unless rows were imported
        clock: Option<ImportClock>,
        /// the model as an imported file names it
        model: Option<String>,
        /// measured requests planned
        expected_requests: Option<i64> ["requests"],
        /// warm-up requests planned, or in the imported file
        warmup_requests: Option<i64> ["requests"],
        /// measured requests planned that were not sent, and have no row, because the duration had
        /// ended; null in imported rows
        unsent_requests: Option<i64> ["requests"],
        /// the kind of arrivals
        arrival: Option<String>,
        /// clients of a closed loop; null for open arrivals
        clients: Option<i64> ["clients"],
        /// mean rate of open arrivals; null for closed loops and bursts
        rate: Option<f64> ["req/s"],
        /// the API, or the backend as the tool of an imported file names it
        api: Option<String>,
        /// whether answers were streamed
        streamed: Option<bool>,
        /// digest of the `prompts` table
        prompt_set: Option<String>,
        /// what counted the prompts' lengths
        length_source: Option<LengthSource>,
        /// digest of the tokenizer's file, or fingerprint of the server's; null without one
        tokenizer: Option<String>,
        /// fewest prompt tokens of an answered request
        prompt_tokens_min: Option<i64> ["tok"],
        /// prompt tokens of answered requests, as the server counts them: mean
        prompt_tokens_mean: Option<f64> ["tok"],
        /// most prompt tokens of an answered request
        prompt_tokens_max: Option<i64> ["tok"],
        /// sessions planned; null if requests stand alone
        sessions: Option<i64>,
        /// wall-clock time of the cell's start, since 1970
        started_unix_ns: Option<i64> ["ns"],
        /// the cell's start on the kernel's monotonic clock, since boot; null where no clock ran
        started_monotonic_ns: Option<i64> ["ns"],
        /// when the measured phase began
        measured_from_ns: Option<i64> ["ns"],
        /// first `sent_ns` of measured requests
        window_from_ns: Option<i64> ["ns"],
        /// last `done_ns` of measured requests
        window_to_ns: Option<i64> ["ns"],
        /// CPU time of the measuring thread in the measured phase
        client_cpu_ns: Option<i64> ["ns"],
        /// 99th percentile (type 7) of `send_lag_ns` of measured requests
        send_lag_p99: Option<f64> ["ms"],
        /// connections opened
        connections: Option<i64>,
        /// requests replayed on a fresh connection
        replays: Option<i64>,
        /// median of `send_lag_ns` of measured requests
        send_lag_p50: Option<f64> ["ms"],
        /// largest `send_lag_ns` of measured requests
        send_lag_max: Option<f64> ["ms"],
        /// ticks of the timer that samples the wake lag
        probes: Option<i64> ["1"],
        /// how late the measuring thread noticed a timer: median
        wake_lag_p50: Option<f64> ["ms"],
        /// how late the measuring thread noticed a timer: 99th percentile
        wake_lag_p99: Option<f64> ["ms"],
        /// how late the measuring thread noticed a timer: largest
        wake_lag_max: Option<f64> ["ms"],
        /// from the thread's waking to a read's stamp: median
        read_wait_p50: Option<f64> ["ms"],
        /// from the thread's waking to a read's stamp: 99th percentile
        read_wait_p99: Option<f64> ["ms"],
        /// from the thread's waking to a read's stamp: largest
        read_wait_max: Option<f64> ["ms"],
        /// how long a request's first write took: median
        write_time_p50: Option<f64> ["ms"],
        /// how long a request's first write took: 99th percentile
        write_time_p99: Option<f64> ["ms"],
        /// how long a request's first write took: largest
        write_time_max: Option<f64> ["ms"],
        /// CPU time over wall time of the measuring thread
        client_busy: Option<f64> ["1"],
        /// time runnable but waiting for a core, over wall time
        run_queue_wait: Option<f64> ["1"],
        /// context switches the measuring thread did not ask for
        preemptions: Option<i64> ["1"],
        /// time the hypervisor took, over all cores' time
        cpu_steal: Option<f64> ["1"],
        /// chunks for each socket read that completed one
        chunks_per_read: Option<f64> ["chunks"],
        /// chunks per second over the window
        chunk_rate: Option<f64> ["chunks/s"],
        /// most measured requests in flight at once
        peak_in_flight: Option<i64> ["requests"],
        /// at least 99 % of arrivals are stamped late by at most this; null without a probe
        stamp_error_bound: Option<f64> ["ms"],
        /// `client_ok`, or `client_bound`: the client was the bottleneck; null with fewer than 20
        /// probes
        client_verdict: Option<ClientVerdict>,
        /// the server's cache of prompts before the cell: `proven`, emptied; `unproven`, emptied
        /// by the server's word; `no-hits`, a prompt sent twice was computed twice; `failed`; null
        /// if the server has no such endpoint
        cache_reset: Option<CacheReset>,
    }
}

crate::words! {
    /// What the requested number of output tokens means.
    #[derive(Default)]
    pub enum OutputMode: "output mode" {
        /// At most this many; the model may stop earlier.
        #[default]
        Cap = "cap",
        /// Exactly this many: the end-of-sequence token is ignored, if the API supports this.
        Exact = "exact",
    }
}

crate::table! {
    /// One row per prompt: first the measured prompts, then those of the warm-up. If the table's note `length_source`
    /// is `server-template`, `tokens` counts the text within the server's chat template.
    pub struct PromptRow = "prompts" {
        /// `warmup` or `measured`
        phase: crate::Phase,
        /// place among the prompts of its phase
        prompt_index: i64,
        /// the session of a multi-turn workload; null otherwise
        session_id: Option<i64>,
        /// the turn within its session, from 1; null without sessions
        turn: Option<i64>,
        /// how long its user thinks after the answer before; null without sessions
        think_ns: Option<i64> ["ns"],
        /// BLAKE3 of the text
        prompt_digest: String,
        /// output tokens asked for
        requested_output_tokens: i64 ["tok"],
        /// `cap`: at most so many; `exact`: end of sequence ignored
        output_mode: OutputMode,
        /// length of the text as the workload's tokenizer counts it; null without one
        tokens: Option<i64> ["tok"],
        /// length of the text in words
        words: i64 ["words"],
        /// length of the text in Unicode scalar values
        characters: i64 ["characters"],
        /// which shared prefix it begins with; null if none
        prefix: Option<i64>,
        /// the part of a mixture it comes from; null if none
        part: Option<String>,
        /// the prompt; of a session's turn, what the user says in it
        text: String,
    }
}

crate::table! {
    /// One row per aggregate that another tool computed, as an imported file holds it.
    pub struct ToolStatistic = "summary" {
        /// the tool that computed it
        tool: String,
        /// the tool's own name of the metric, which need not be ours
        metric: String,
        /// `mean`, `median`, `p99`, …; `value` for a plain figure
        statistic: String,
        /// the unit of `value`; null if the file does not say
        unit: Option<String>,
        /// as the tool computed it
        value: f64,
        /// over how many values; null if the file does not say
        n: Option<i64>,
        /// what the tool means by the metric
        definition: String,
    }
}
