//! Single figures of a measured cell, for code that plans and does not analyse.

use std::collections::BTreeMap;

use artifacts::{ColumnReader, Digest, Store, TableError};
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
    output_throughput(store, &outputs.get("requests")?.digest).ok()?
}

/// The columns of `requests` that enter the throughput.
const COLUMNS: [&str; 6] = [
    "phase",
    "status",
    "superseded",
    "sent_ns",
    "done_ns",
    "output_tokens",
];

fn output_throughput(store: &Store, requests: &Digest) -> Result<Option<f64>, TableError> {
    let (mut from, mut to, mut sum) = (None::<i64>, None::<i64>, Some(0_i64));
    for batch in ColumnReader::open(store, requests, &COLUMNS)? {
        let batch = batch?;
        let measured = batch.of_each_text("phase", |word| word == Some("measured"))?;
        let ok = batch.of_each_text("status", |word| word == Some("ok"))?;
        let superseded = batch.booleans("superseded")?;
        let (sent, done) = (batch.ints("sent_ns")?, batch.ints("done_ns")?);
        let tokens = batch.ints("output_tokens")?;
        let counted = |row: &usize| measured[*row] && superseded.get(*row) != Some(true);
        for row in (0..batch.rows()).filter(counted) {
            from = from.into_iter().chain(sent.get(row)).min();
            to = to.max(done.get(row));
            // As in a cell summary, the sum is unknown if one of its parts is.
            if ok[row] {
                sum = sum.zip(tokens.get(row)).map(|(sum, n)| sum + n);
            }
        }
    }
    let window = from.zip(to).map(|(from, to)| (to - from) as f64 / 1e9);
    let window = window.filter(|s| *s > 0.0);
    Ok(window.zip(sum).map(|(s, sum)| sum as f64 / s))
}

#[cfg(test)]
mod tests {
    use artifacts::{Column, Table};

    use super::*;

    #[test]
    fn the_throughput_counts_measured_ok_requests_over_their_window() {
        let texts = |words: [&'static str; 4]| words.map(Some);
        let table = |tokens: [Option<i64>; 4]| {
            Table::new(vec![
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
                Column::int("output_tokens", tokens),
            ])
        };
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let throughput = |tokens| {
            let table = table(tokens).unwrap();
            let requests = store.put(&table.to_parquet().unwrap()).unwrap();
            output_throughput(&store, &requests).unwrap()
        };
        assert_eq!(throughput([100, 40, 3, 50].map(Some)), Some(10.0));
        assert_eq!(throughput([None, Some(40), None, None]), Some(10.0));
        assert_eq!(throughput([Some(100), None, Some(3), Some(50)]), None);
    }
}
