//! Quantile columns that the cells of a study measure too few requests for, known before it measures.

use std::collections::{BTreeMap, BTreeSet};

use pipeline::{Json, MeasuredRequests};

use crate::kind::Planned;
use crate::operators::cell_summary;

/// Returns a warning for each group of used quantile columns that cannot have a value in any row, or in some.
///
/// A column is in use if a table or a reader names it beside the table of cells that has it: `stage` and the names of
/// tables are those that a reader writes as `stage.table`.
pub(crate) fn warnings(
    (stage, tables): (&str, &[Planned]),
    readers: &[&Json],
    loads: &[&str],
    requests: &dyn Fn(&str) -> Option<MeasuredRequests>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for table in tables.iter().filter(|t| t.operator == "cell-summary") {
        let Some(needed) = cell_summary::needed(&table.parameters) else {
            continue;
        };
        let load = match (table.parameters["load"].as_str(), loads) {
            (Some(load), _) => load,
            (None, [load]) => load,
            (None, _) => continue,
        };
        let Some(measured) = requests(load) else {
            continue;
        };
        let mut words = BTreeSet::new();
        for other in tables.iter().filter(|other| other.name != table.name) {
            words_beside(&other.parameters, &table.name, &mut words);
        }
        for reader in readers {
            words_beside(reader, &format!("{stage}.{}", table.name), &mut words);
        }
        let mut few: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for (column, least) in needed {
            if measured.fewest < least && words.contains(column.as_str()) {
                few.entry(least).or_default().push(format!("`{column}`"));
            }
        }
        warnings.extend(few.into_iter().map(|(least, columns)| {
            let (measures, rows) = match measured.most {
                Some(most) if most == measured.fewest => (most.to_string(), "every row"),
                Some(most) if most < least => (
                    format!("{} to {most}", measured.fewest),
                    "every row",
                ),
                _ => (
                    format!("only {} in some cells", measured.fewest),
                    "their rows",
                ),
            };
            let need = if columns.len() == 1 { "needs" } else { "need" };
            format!(
                "{} {need} {least} requests in a cell, but the stage `{load}` measures {measures}: {rows} of \
                 `{}` will be null there; measure more, or print every quantile with `quantiles: all`",
                columns.join(", "),
                table.name
            )
        }));
    }
    warnings
}

/// Collects the words of texts that name a table, and those in mappings and lists with such a text.
fn words_beside(json: &Json, table: &str, words: &mut BTreeSet<String>) {
    let names = |text: &str| {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
        text.split(|c| !is_part(c)).any(|word| {
            word.strip_prefix(table)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
    let children: Vec<&Json> = match json {
        Json::Array(items) => items.iter().collect(),
        Json::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    };
    let is_named = |child: &&Json| child.as_str().is_some_and(names);
    if is_named(&json) || children.iter().any(is_named) {
        all_words(json, words);
    } else {
        for child in children {
            words_beside(child, table, words);
        }
    }
}

fn all_words(json: &Json, words: &mut BTreeSet<String>) {
    match json {
        Json::String(text) => {
            let parts = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
            words.extend(parts.filter(|w| !w.is_empty()).map(str::to_owned));
        }
        Json::Array(items) => items.iter().for_each(|item| all_words(item, words)),
        Json::Object(fields) => fields.values().for_each(|field| all_words(field, words)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn table(name: &str, operator: &str, parameters: Json) -> Planned {
        Planned {
            name: name.to_owned(),
            operator: operator.to_owned(),
            parameters,
        }
    }

    fn said(tables: &[Planned], readers: &[&Json], fewest: u64, most: Option<u64>) -> Vec<String> {
        let requests = |load: &str| (load == "ask").then_some(MeasuredRequests { fewest, most });
        warnings(("results", tables), readers, &["ask"], &requests)
    }

    #[test]
    fn a_used_quantile_that_the_cells_cannot_bound_is_named() {
        let tables = |quantiles: &str| {
            [
                table("cells", "cell-summary", json!({"quantiles": quantiles})),
                table(
                    "cmp",
                    "paired-comparison",
                    json!({"from": "cells", "columns": ["ttft_ms_p99", "ttft_ms_p50", "output_throughput"]}),
                ),
            ]
        };
        let own = tables("supported");
        let named = said(&own, &[], 100, Some(100));
        assert_eq!(
            named,
            [
                "`ttft_ms_p99` needs 368 requests in a cell, but the stage `ask` measures 100: every row of `cells` will be \
             null there; measure more, or print every quantile with `quantiles: all`"
            ]
        );
        assert!(said(&own, &[], 368, Some(368)).is_empty());
        assert!(said(&tables("all"), &[], 100, Some(100)).is_empty());
        let some = said(&own, &[], 100, None);
        assert!(
            some[0].contains("only 100 in some cells: their rows"),
            "{some:?}"
        );
        // The median is used too, and four requests do not bound it.
        assert_eq!(said(&own, &[], 4, Some(4)).len(), 2);
    }

    #[test]
    fn only_columns_beside_the_table_are_in_use() {
        let own = [
            table("cells", "cell-summary", json!({})),
            table(
                "other",
                "sql",
                json!({"query": "select e2e_latency_ms_p99 from requests"}),
            ),
            table(
                "q",
                "sql",
                json!({"query": "select max(c.tpot_ms_p99) from cells c"}),
            ),
        ];
        let report = json!({"figures": [
            {"from": "results.cells", "y": "ttft_ms_p95"}, {"from": "results.spread", "y": "ttft_ms_p99"},
        ]});
        let named = said(&own, &[&report], 10, Some(20)).concat();
        assert!(named.contains("`ttft_ms_p95` needs 72"), "{named}");
        assert!(named.contains("measures 10 to 20: every row"), "{named}");
        assert!(named.contains("`tpot_ms_p99` needs 368"), "{named}");
        assert!(!named.contains("`ttft_ms_p99`"), "{named}");
        assert!(!named.contains("e2e_latency"), "{named}");
    }
}
