//! The tables of a verification.

crate::words! {
    /// What follows from a gate that fails.
    pub enum GateSeverity: "severity of a gate" {
        /// The study is not evidence: the run ends with an error, the cell enters no statistic.
        Fail = "fail",
        /// The cell enters no statistic; the reason is declared with the gate.
        Exclude = "exclude",
        /// A doubt to show.
        Warn = "warn",
    }
}

crate::words! {
    /// What a gate says of a cell or of a stage: the column `outcome`.
    pub enum GateOutcome: "outcome of a gate" {
        /// The condition holds.
        Pass = "pass",
        /// The condition does not hold.
        Fail = "fail",
        /// The rows do not decide: something that the gate needs is missing or insufficient.
        NotJudged = "not judged",
    }
}

impl GateOutcome {
    /// Returns `Pass` if the condition holds and `Fail` otherwise.
    pub fn of(holds: bool) -> Self {
        if holds { Self::Pass } else { Self::Fail }
    }
}

crate::words! {
    /// How a facet of two cells stands.
    pub enum FacetStatus: "status of a facet" {
        /// The same in both.
        Equal = "equal",
        /// Not the same.
        Differs = "differs",
        /// Not known of one or both.
        Unknown = "unknown",
    }
}

crate::table! {
    /// One row per load stage: its cells, rows and files, counted in two ways. Key: stage.
    pub struct CensusRow = "census" {
        /// the load stage
        stage: String,
        /// where the rows of its ok cells come from: `measured`, `imported`, `simulated`, with
        /// counts if they differ; null if no cell says
        sources: Option<String>,
        /// product of the numbers of labels that occur on its axes
        product: i64 ["1"],
        /// planned cells, those the experiment excludes among them
        planned: i64 ["1"],
        /// cells the experiment excludes
        excluded: i64 ["1"],
        /// cells that completed
        ok: i64 ["1"],
        /// cells that failed
        failed: i64 ["1"],
        /// cells that hung
        hung: i64 ["1"],
        /// cells whose time limit passed
        timeout: i64 ["1"],
        /// cells skipped
        skipped: i64 ["1"],
        /// cells the user stopped
        interrupted: i64 ["1"],
        /// ok cells that gates keep from every statistic
        barred: i64 ["1"],
        /// measured rows
        rows_measured: i64 ["1"],
        /// measured rows of status ok
        rows_measured_ok: i64 ["1"],
        /// warm-up rows
        rows_warmup: i64 ["1"],
        /// rows replaced by a later attempt
        rows_superseded: i64 ["1"],
        /// measured rows that the ok cells planned and do not have, without those of requests that
        /// were not sent because the duration had ended
        rows_missing: i64 ["1"],
        /// measured rows the ok cells have beyond those planned
        rows_unexpected: i64 ["1"],
        /// files missing or unexpected in ok cells, or with other rows than recorded
        files_odd: i64 ["1"],
        /// measured rows the ok cells planned
        rows_expected: i64 ["1"],
    }
}

crate::words! {
    /// What follows for a pair of cells.
    pub enum PairVerdict: "verdict about a pair" {
        /// Nothing differs that was not declared to.
        Comparable = "comparable",
        /// Nothing is known to differ, but not everything is known.
        Unknown = "unknown",
        /// The prompts have other numbers of tokens.
        TokenizerConfounded = "tokenizer-confounded",
        /// Something differs that was not declared to.
        NotComparable = "not-comparable",
    }
}

crate::table! {
    /// One row per facet of a pair of cells. Key: stage, at, across, a, b, facet.
    pub struct ComparabilityRow = "comparability" {
        /// the load stage
        stage: String,
        /// the coordinates the two cells share, as text
        at: String,
        /// the axis on which they differ
        across: String,
        /// the label of the one cell; null if it has none on that axis
        a: Option<String>,
        /// the label of the other; null if it has none on that axis
        b: Option<String>,
        /// what is compared: source, prompts, prompt-tokens, load, host, model, engine or settings
        facet: String,
        /// equal, differs or unknown
        status: FacetStatus,
        /// whether all that differs was declared to; null unless it differs
        declared: Option<bool>,
        /// what differs; null if nothing does or nothing is known
        detail: Option<String>,
        /// of the pair, over all facets: comparable, unknown, tokenizer-confounded or not-comparable
        verdict: PairVerdict,
    }
}
