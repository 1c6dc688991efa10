//! The columns shown of a wide table that declares none.

use super::{choose, telling};

fn chosen(keys: &[&str], columns: &[&str]) -> Vec<String> {
    let owned =
        |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).to_owned()).collect() };
    let names = [owned(keys), owned(columns)].concat();
    choose(&names, &owned(keys), &telling(false))
}

#[test]
fn a_wide_table_of_deltas_shows_both_sides_and_their_ratio() {
    let columns_of = |c: &str| {
        ["a", "b", "delta", "ratio", "ratio_low", "ratio_high"].map(|end| format!("{c}_{end}"))
    };
    let columns = [
        columns_of("tok_s"),
        columns_of("ttft_ms"),
        columns_of("tpot_ms"),
    ]
    .concat();
    let columns: Vec<&str> = ["n", "n_a", "n_b", "interval_of"]
        .into_iter()
        .chain(columns.iter().map(String::as_str))
        .collect();
    let shown = chosen(&["users"], &columns);
    let first = [
        "users",
        "n",
        "n_a",
        "n_b",
        "tok_s_a",
        "tok_s_b",
        "tok_s_ratio",
    ];
    assert_eq!(shown[..first.len()], first);
}

#[test]
fn a_wide_table_of_a_fit_shows_its_parameters() {
    let columns = [
        "model",
        "value",
        "std_error",
        "ci_low",
        "ci_high",
        "unit_low",
        "unit_high",
        "units",
        "interval_of",
        "physical",
        "unphysical",
        "covariances",
        "n",
        "df",
        "rss",
        "r2",
        "method",
    ];
    let shown = chosen(&["engine", "parameter"], &columns);
    assert_eq!(
        shown,
        ["engine", "parameter", "n", "value", "std_error", "df", "r2"]
    );
}

#[test]
fn a_comparison_names_each_column_once() {
    let columns = [
        "unit",
        "a",
        "b",
        "n",
        "pairs",
        "mean_a",
        "mean_b",
        "mean_delta",
        "median_delta",
        "effect",
        "ci_low",
        "ci_high",
        "p",
        "holm_p",
        "verdict",
    ];
    let mut shown = chosen(&["metric"], &columns);
    let all = shown.len();
    shown.sort();
    shown.dedup();
    assert_eq!(shown.len(), all, "{shown:?}");
}
