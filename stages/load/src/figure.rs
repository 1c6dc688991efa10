//! Single figures of a measured cell, for code that plans and does not analyse.

use std::collections::BTreeMap;

use artifacts::{Store, Table, TableError};
use pipeline::stage::Artifact;

/// Returns a figure of a cell by the name of its column in `analyze`. Only `output_throughput` is known here: output
/// tokens of ok requests, divided by the time from the first request sent to the last one done, over measured requests
/// (tok/s).
pub(crate) fn figure(
    name: &str,
    outputs: &BTreeMap<String, Artifact>,
    store: &Store,
) -> Option<f64> {
    if name != "output_throughput" {
        return None;
    }
    let bytes = store.get(&outputs.get("requests")?.digest).ok()?;
    output_throughput(&Table::from_parquet(bytes).ok()?).ok()?
}

fn output_throughput(requests: &Table) -> Result<Option<f64>, TableError> {
    let (phase, status) = (requests.text("phase")?, requests.text("status")?);
    let superseded = requests.boolean("superseded").ok();
    let (sent, done) = (requests.int("sent_ns")?, requests.int("done_ns")?);
    let tokens = requests.int("output_tokens")?;
    let counted = |row: &usize| {
        let again = superseded.as_ref().and_then(|s| s[*row]);
        phase[*row] == Some("measured") && again != Some(true)
    };
    let rows = || (0..requests.rows()).filter(counted);
    let from = rows().filter_map(|row| sent[row]).min();
    let to = rows().filter_map(|row| done[row]).max();
    let sum: i64 = rows()
        .filter(|row| status[*row] == Some("ok"))
        .filter_map(|row| tokens[row])
        .sum();
    let window = from.zip(to).map(|(from, to)| (to - from) as f64 / 1e9);
    Ok(window.filter(|s| *s > 0.0).map(|s| sum as f64 / s))
}

#[cfg(test)]
mod tests {
    use artifacts::Column;

    use super::*;

    #[test]
    fn the_throughput_counts_measured_ok_requests_over_their_window() {
        let texts = |words: [&'static str; 4]| words.map(Some);
        let table = Table::new(vec![
            Column::text(
                "phase",
                texts(["warmup", "measured", "measured", "measured"]),
            ),
            Column::text("status", texts(["ok", "ok", "timeout", "ok"])),
            Column::boolean(
                "superseded",
                [Some(false), Some(false), Some(false), Some(true)],
            ),
            Column::int("sent_ns", [0, 1_000_000_000, 2_000_000_000, 0].map(Some)),
            Column::int(
                "done_ns",
                [9, 2_000_000_000, 5_000_000_000, 9_000_000_000].map(Some),
            ),
            Column::int("output_tokens", [100, 40, 3, 50].map(Some)),
        ])
        .unwrap();
        assert_eq!(output_throughput(&table).unwrap(), Some(10.0));
    }
}
