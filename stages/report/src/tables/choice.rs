//! The columns shown of a table that declares none.

/// The maximum number of columns and rows of a table whose columns are not declared.
pub(super) const WHOLE: (usize, usize) = (12, 48);

/// The minimum number of telling columns that show what a table is about.
const TOLD: usize = 2;

/// The columns that a reader looks for first in a table too wide to show whole: of comparisons, then of cells. They
/// follow the columns that distinguish its rows.
const TELLING: &[&str] = &[
    "unit",
    "a",
    "b",
    "n",
    "n_a",
    "n_b",
    "mean_a",
    "mean_b",
    "effect",
    "adjusted_low",
    "margin",
    "verdict",
    "verdict_reason",
    "value",
    "std_error",
    "df",
    "r2",
    "n_ok",
    "output_throughput",
    "request_throughput",
    "ttft_ms_p50",
    "ttft_ms_p99",
    "tpot_ms_p50",
    "e2e_latency_ms_p50",
    "e2e_latency_ms_p99",
];

/// Latencies from the time of sending, which exclude the wait for it under open arrivals.
const FROM_SENDING: [(&str, &str); 2] = [
    ("ttft_ms", "ttft_scheduled_ms"),
    ("e2e_latency_ms", "e2e_scheduled_ms"),
];

/// Returns the telling columns; under open arrivals, latencies from the schedule come first.
pub(super) fn telling(open: bool) -> Vec<String> {
    let named = |column: &&str| {
        let scheduled = FROM_SENDING.iter().find_map(|(sent, scheduled)| {
            let statistic = column.strip_prefix(sent)?;
            Some(format!("{scheduled}{statistic}"))
        });
        let scheduled = scheduled.filter(|_| open);
        scheduled.into_iter().chain([(*column).to_owned()])
    };
    TELLING.iter().flat_map(named).collect()
}

/// Returns the column of the upper end of an interval, given that of the lower end.
pub(super) fn upper_end(column: &str) -> Option<String> {
    let stem = column
        .strip_suffix("_low")
        .map(|stem| format!("{stem}_high"));
    stem.or_else(|| (column == "ci_low").then(|| "ci_high".to_owned()))
}

/// Returns the columns of a table that declares none: all of them if they are few, otherwise those that distinguish its
/// rows, followed by the most telling ones.
pub(super) fn choose(names: &[String], keys: &[String], telling: &[String]) -> Vec<String> {
    let ends_interval = |c: &String| names.iter().any(|low| upper_end(low).as_ref() == Some(c));
    let mut shown: Vec<String> = names
        .iter()
        .filter(|c| !ends_interval(c))
        .cloned()
        .collect();
    if shown.len() > WHOLE.0 {
        // An aggregate has a mean for each of its source columns, with an interval if there are units.
        let aggregate = names.iter().any(|c| c == "interval_of");
        let of_means = |c: &&String| {
            let stem = c
                .strip_suffix("_mean")
                .or_else(|| c.strip_suffix("_ci_low"));
            stem.is_some_and(|stem| {
                let has = |end: &str| names.contains(&format!("{stem}_{end}"));
                has("ci_low") || aggregate && has("n")
            })
        };
        // Deltas and changes have both sides of each column, and the difference between them.
        let of_sides = |c: &&String| {
            let beside = |ends: &[&str], sign: &str| {
                let mut stems = ends.iter().filter_map(|end| c.strip_suffix(end));
                stems.any(|stem| names.contains(&format!("{stem}{sign}")))
            };
            beside(&["_a", "_b", "_ratio"], "_delta")
                || beside(&["_before", "_after", "_change_percent"], "_change")
        };
        let named = telling
            .iter()
            .filter_map(|name| shown.iter().find(|c| *c == name));
        let rest = shown.iter().filter(|c| !telling.contains(c));
        let telling: Vec<String> = named
            .chain(rest.filter(|c| of_means(c) || of_sides(c)))
            .cloned()
            .collect();
        // A table of another kind may have one of these columns by chance, such as the column that a ranking ranks by.
        let chosen = telling
            .iter()
            .filter(|c| !["n", "units"].contains(&c.as_str()));
        if chosen.count() >= TOLD {
            let is_key = |c: &&String| keys.contains(c) && !telling.contains(c);
            shown = [shown.iter().filter(is_key).cloned().collect(), telling].concat();
        }
        shown.truncate(WHOLE.0);
    }
    shown
}

#[cfg(test)]
mod tests;
