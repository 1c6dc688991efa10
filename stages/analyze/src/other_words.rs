//! What other tools call our operators.

use pipeline::stage::Json;

/// Other tools' words for what the operators compute, each with the phrase for ours.
const OTHER_WORDS: [(&[&str], &str); 24] = [
    (
        &[
            "compare",
            "comparison",
            "diff",
            "delta",
            "ab-test",
            "a-b-test",
            "t-test",
            "ttest",
            "significance",
            "hypothesis-test",
        ],
        "`paired-comparison`, for two labels of an axis that share their blocks, or `unpaired-comparison`",
    ),
    (
        &["wilcoxon", "sign-test", "paired-t-test"],
        "`paired-comparison`, which has a `test`",
    ),
    (
        &[
            "mann-whitney",
            "mann-whitney-u",
            "mannwhitneyu",
            "welch",
            "ks-test",
        ],
        "`unpaired-comparison`",
    ),
    (
        &[
            "anova",
            "friedman",
            "kruskal",
            "kruskal-wallis",
            "tukey",
            "nemenyi",
            "rank",
            "best",
        ],
        "`ranking`, for three sides or more",
    ),
    (
        &[
            "summary",
            "summarize",
            "summarise",
            "metrics",
            "cells",
            "throughput",
            "latency",
        ],
        "`cell-summary`, with one row for each load cell",
    ),
    (
        &[
            "group",
            "groupby",
            "group-by",
            "agg",
            "describe",
            "stats",
            "statistics",
        ],
        "`aggregate`, over rows of another table, such as one of `cell-summary`",
    ),
    (
        &[
            "mean", "average", "avg", "std", "stddev", "stdev", "sd", "variance", "var", "cv",
            "min", "minimum", "max", "maximum", "range", "count", "n", "size", "p0", "p100",
        ],
        "`aggregate`: its table has n, mean, std, CV, min and max of each of its `columns`, over rows of another table, such \
         as one of `cell-summary`",
    ),
    (
        &[
            "ci",
            "confidence-interval",
            "interval",
            "bootstrap",
            "error",
            "sem",
        ],
        "`aggregate`: its table has the interval of the mean over units, such as blocks",
    ),
    (
        &["QUANTILE"],
        "`distribution`, with `quantiles: [QUANTILE]`, for the requests of each cell; or `aggregate`, with `quantiles: \
         [QUANTILE]`, for rows of another table",
    ),
    (
        &["median"],
        "`aggregate`, with `quantiles: [0.5]`, for rows of another table; or `distribution`, with `quantiles: [0.5]`, for the \
         requests of each cell",
    ),
    (
        &["iqr", "quartiles", "quartile"],
        "`aggregate`, with `quantiles: [0.25, 0.75]`, over rows of another table",
    ),
    (
        &["sum", "total", "mode", "mad", "geomean", "first", "last"],
        "`sql`, with a `query` over other tables or over raw request rows; docs/sql.md has examples",
    ),
    (
        &["percentile", "percentiles", "quantile", "quantiles"],
        "`distribution`, with its `quantiles` as probabilities, such as `quantiles: [0.5, 0.99]`, for the requests of each \
         cell",
    ),
    (
        &["histogram", "cdf", "ecdf"],
        "`distribution`, of the requests of each cell",
    ),
    (&["slo", "slo-attainment", "sla"], "`goodput`"),
    (&["pareto", "pareto-frontier"], "`frontier`"),
    (
        &[
            "regression",
            "linear-regression",
            "curve-fit",
            "power-law",
            "linear",
            "trend",
        ],
        "`fit`",
    ),
    (
        &["speedup", "scaling", "usl"],
        "`parallel-efficiency`, or `fit` for a law of scaling",
    ),
    (&["saturation", "knee", "capacity"], "`breakdown`"),
    (
        &["corr", "pearson", "spearman", "covariance"],
        "`correlation`",
    ),
    (&["power", "joules", "watts"], "`energy`"),
    (&["price", "dollars", "cost-per-token"], "`cost`"),
    (&["change-point", "change-points", "drift"], "`changes`"),
    (
        &[
            "join", "merge", "filter", "select", "query", "pivot", "python", "script", "notebook",
        ],
        "`sql`, with a `query` over other tables",
    ),
];

/// Returns other tools' words for operators, as a schema has them.
pub(crate) fn other_words() -> serde_json::Map<String, Json> {
    let entries = OTHER_WORDS.iter().flat_map(|(words, ours)| {
        words
            .iter()
            .map(move |word| ((*word).to_owned(), Json::from(*ours)))
    });
    entries.collect()
}

/// Parts of words for a figure of a metric, such as `p99_ttft`, each with the phrase for the operator that computes it.
const METRICS: (&[&str], &str) = (
    &[
        "ttft",
        "tpot",
        "itl",
        "e2e",
        "e2el",
        "latency",
        "throughput",
        "rps",
        "qps",
        "tps",
    ],
    "`cell-summary`: its table has a column for each quantile of each metric, such as `ttft_ms_p99`",
);

/// Returns parts of words that lead to an operator, as a schema has them.
pub(crate) fn other_parts() -> serde_json::Map<String, Json> {
    let (words, ours) = METRICS;
    let entries = words
        .iter()
        .map(|word| ((*word).to_owned(), Json::from(ours)));
    entries.collect()
}

/// Returns other words for the key `operator`, as a schema has them.
pub(crate) fn words_for_operator() -> serde_json::Map<String, Json> {
    let words = [
        "op",
        "operation",
        "function",
        "func",
        "fn",
        "agg",
        "type",
        "kind",
        "method",
    ];
    let entries = words.map(|word| (word.to_owned(), Json::from("`operator`")));
    entries.into_iter().collect()
}

/// Other words for the parameters that many operators have.
const PARAMETERS: [(&str, &[&str]); 3] = [
    (
        "from",
        &[
            "table", "source", "input", "data", "dataset", "df", "of", "in",
        ],
    ),
    (
        "columns",
        &[
            "metrics", "metric", "column", "fields", "field", "measures", "values",
        ],
    ),
    ("load", &["stage", "load-stage"]),
];

/// Words for the axes that stay keys of a table.
const GROUPS: [&str; 6] = ["by", "group-by", "groupby", "group", "keys", "per"];

/// Words for quantiles as probabilities.
const QUANTILES: [&str; 10] = [
    "percentiles",
    "percentile",
    "quantile",
    "percents",
    "probabilities",
    "probability",
    "probs",
    "pcts",
    "q",
    "p",
];

/// Words for the choice of a statistic, which no operator needs.
const STATISTICS: [&str; 12] = [
    "statistics",
    "statistic",
    "stats",
    "stat",
    "function",
    "functions",
    "func",
    "agg",
    "aggfunc",
    "aggregation",
    "how",
    "reduce",
];

/// Adds other words for the parameters of an operator to its schema.
pub(crate) fn with_words_for_parameters(schema: &mut serde_json::Map<String, Json>) {
    let quantiles = schema
        .get_mut("properties")
        .and_then(|all| all.get_mut("quantiles"));
    let items = quantiles.and_then(|quantiles| quantiles.get_mut("items"));
    let has_quantiles = items.is_some();
    if let Some(items) = items.and_then(Json::as_object_mut) {
        let words = [
            ("QUANTILE", "`QUANTILE`"),
            ("median", "`0.5`"),
            ("min", "`0`"),
            ("max", "`1`"),
        ];
        let words = words.map(|(theirs, ours)| (theirs.to_owned(), Json::from(ours)));
        items.insert(
            "x-other-words".to_owned(),
            Json::Object(words.into_iter().collect()),
        );
    }
    let has =
        |schema: &serde_json::Map<String, Json>, key: &str| schema["properties"].get(key).is_some();
    let mut words = serde_json::Map::new();
    for (ours, theirs) in PARAMETERS.iter().filter(|(ours, _)| has(schema, ours)) {
        let missing = theirs.iter().filter(|word| !has(schema, word));
        words.extend(missing.map(|word| ((*word).to_owned(), format!("`{ours}`").into())));
    }
    if has(schema, "over") && !has(schema, "by") {
        let phrase = "not needed: the table keeps every axis that `over: [AXIS]` does not combine";
        words.extend(GROUPS.map(|word| (word.to_owned(), phrase.into())));
    }
    let missing = QUANTILES
        .iter()
        .filter(|word| has_quantiles && !has(schema, word));
    let phrase = "`quantiles`, as probabilities: `quantiles: [0.5, 0.99]`";
    words.extend(missing.map(|word| ((*word).to_owned(), phrase.into())));
    if has_quantiles {
        let phrase = "not needed: each statistic has a column of its own, and `quantiles: [0.99]` adds quantiles";
        let missing = STATISTICS.iter().filter(|word| !has(schema, word));
        words.extend(missing.map(|word| ((*word).to_owned(), phrase.into())));
    }
    if let Some(own) = schema.get("x-other-words").and_then(Json::as_object) {
        words.extend(own.clone());
    }
    if !words.is_empty() {
        schema.insert("x-other-words".to_owned(), Json::Object(words));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::OTHER_WORDS;
    use crate::operators::ALL;

    #[test]
    fn each_word_leads_to_an_operator_and_is_none_itself() {
        let operators: BTreeSet<&str> = ALL.iter().map(|o| o.name()).collect();
        let mut seen = BTreeSet::new();
        for (words, ours) in OTHER_WORDS {
            let quoted: Vec<&str> = ours.split('`').skip(1).step_by(2).collect();
            assert!(operators.contains(quoted[0]), "{ours}");
            for word in words {
                assert!(!operators.contains(word), "{word}");
                assert!(seen.insert(*word), "{word} occurs twice");
            }
        }
    }
}
