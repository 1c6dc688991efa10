//! What other tools call our kinds of figures.

use pipeline::stage::Json;

/// A figure or a statistic in place of a kind.
const COLUMN: &str = "not a kind but a column: `kind: ladder`, with `y: ttft_ms_p99`, shows this column of the table";

/// Other tools' words for kinds of figures, each with the phrase for ours.
const WORDS_FOR_KINDS: [(&[&str], &str); 17] = [
    (
        &["line", "lines", "line-chart"],
        "`ladder`, for a column over a ladder of loads, or `timeline`, for a column over time",
    ),
    (
        &["plot"],
        "`ladder`, for a column over a ladder of loads, or `scatter`, for two columns against each other",
    ),
    (
        &["curve"],
        "`ladder`, or `fit` for the curve that the operator `fit` finds",
    ),
    (&["regression"], "`fit`, over a table of the operator `fit`"),
    (
        &["area", "time-series", "timeseries", "gantt"],
        "`timeline`",
    ),
    (&["cdf"], "`ecdf`"),
    (&["distribution"], "`ecdf`, or `box`"),
    (
        &["histogram", "hist", "density", "kde"],
        "`ecdf`, which needs no bins",
    ),
    (&["violin"], "`box`, which also draws the points"),
    (&["boxplot"], "`box`"),
    (&["heatmap", "grid", "imshow"], "`heat-map`"),
    (&["column", "bars", "barh", "bar-chart", "pie"], "`bar`"),
    (
        &["errorbar", "interval", "dot"],
        "`forest`, for estimates with intervals",
    ),
    (&["point", "points", "roofline"], "`scatter`"),
    (
        &["pareto", "frontier"],
        "`scatter`, which marks the frontier",
    ),
    (
        &["table"],
        "not a figure but a table: `tables: {NAME: {table: STAGE.OUTPUT, …}}`",
    ),
    (
        &[
            "QUANTILE",
            "percentile",
            "percentiles",
            "quantile",
            "median",
            "mean",
            "average",
            "avg",
            "min",
            "max",
            "std",
            "latency",
            "throughput",
            "ttft",
            "tpot",
            "itl",
        ],
        COLUMN,
    ),
];

/// Returns other tools' words for kinds of figures, as a schema has them.
pub(crate) fn words_for_kinds() -> Json {
    let words = WORDS_FOR_KINDS.iter();
    let entries = words.flat_map(|(theirs, ours)| {
        theirs
            .iter()
            .map(|word| ((*word).to_owned(), (*ours).into()))
    });
    Json::Object(entries.collect())
}
