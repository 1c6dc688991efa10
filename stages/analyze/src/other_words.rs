//! What other tools call our operators.

use pipeline::stage::Json;

/// Other tools' words for what the operators compute, each with the phrase for ours.
const OTHER_WORDS: [(&[&str], &str); 17] = [
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
            "mean",
            "average",
            "avg",
            "median",
            "std",
            "stddev",
            "stdev",
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
            "percentile",
            "percentiles",
            "quantile",
            "quantiles",
            "histogram",
            "cdf",
            "ecdf",
        ],
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
