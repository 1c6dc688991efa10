//! The metrics of a cell with many rows, read from only the columns that enter them.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use artifacts::{ColumnBatch, ColumnReader, Store, TableError};
use pipeline::place::CellName;
use pipeline::{Failure, InputCell};

use crate::cell_rows::unreadable;
use crate::declare::Word;
use crate::lineage::{LineageSource, SourceArtifact};
use crate::metrics::Metric;
use crate::words::{Phase, RequestStatus};

/// The requests of a load cell without chunks, read in part. No row is ever complete in memory. The
/// metrics have the same values as over complete rows.
#[derive(Debug)]
pub struct NarrowRows {
    /// The location of its requests, for a lineage.
    pub requests_source: LineageSource,
    /// The rows of the measured requests of status `ok`, ascending, as few ranges as possible.
    pub ok: Vec<Range<usize>>,
    /// The defined values of each metric among these rows, in row order.
    pub values: Vec<Vec<f64>>,
}

impl NarrowRows {
    /// Returns whether a cell can be read this way. A cell with chunks cannot, because chunks add
    /// detail to a request's row.
    pub fn fits(cell: &InputCell) -> bool {
        !cell.outputs.contains_key("chunks")
    }

    /// Reads the values of metrics of an `ok` load cell.
    ///
    /// # Errors
    /// If the cell lacks its `requests`, the artifact is missing or damaged, or a column is not
    /// as the load stage writes it.
    pub fn read(
        store: &Store,
        stage: &str,
        cell: &InputCell,
        metrics: &[&Metric],
    ) -> Result<Self, Failure> {
        let at = &cell.coordinates;
        let wrong = |e: &dyn std::fmt::Display| unreadable(cell, "requests", e);
        let artifact = cell
            .outputs
            .get("requests")
            .ok_or_else(|| wrong(&"the cell has no such output"))?;
        let source = SourceArtifact {
            cell: CellName {
                stage: stage.to_owned(),
                coordinates: at.clone(),
            },
            output: "requests".to_owned(),
            digest: artifact.digest,
        };
        Self::of(store, source, metrics).map_err(|e| wrong(&e))
    }

    fn of(store: &Store, source: SourceArtifact, metrics: &[&Metric]) -> Result<Self, TableError> {
        let mut columns = vec!["phase", "status", "superseded"];
        columns.extend(metrics.iter().flat_map(|metric| metric.columns()));
        let reader = ColumnReader::open(store, &source.digest, &columns)?;
        if let Some(missing) = ["phase", "status"]
            .into_iter()
            .find(|wanted| reader.names().iter().all(|name| name != wanted))
        {
            return Err(TableError::no_column(missing, reader.names()));
        }
        let mut values: Vec<Vec<f64>> = metrics
            .iter()
            .map(|_| Vec::with_capacity(reader.rows()))
            .collect();
        let (mut ok, mut first) = (Vec::new(), 0);
        for batch in reader {
            let batch = batch?;
            let rows = ok_rows(&batch)?;
            for (metric, values) in metrics.iter().zip(&mut values) {
                metric.of_rows(&batch, &rows, values)?;
            }
            append(
                &mut ok,
                rows.into_iter()
                    .map(|rows| first + rows.start..first + rows.end),
            );
            first += batch.rows();
        }
        Ok(Self {
            requests_source: LineageSource::Artifact(Arc::new(source)),
            ok,
            values,
        })
    }
}

/// Returns the rows of the measured requests of status `ok`.
fn ok_rows(requests: &ColumnBatch) -> Result<Vec<Range<usize>>, TableError> {
    let measured = of_word(requests, "phase", Phase::Measured)?;
    let ok = of_word(requests, "status", RequestStatus::Ok)?;
    let superseded = requests.booleans("superseded")?;
    let mut rows = Vec::new();
    let wanted = |row: &usize| measured[*row] && ok[*row] && superseded.get(*row) != Some(true);
    append(
        &mut rows,
        (0..requests.rows()).filter(wanted).map(|row| row..row + 1),
    );
    Ok(rows)
}

/// Returns for each row whether a column of words holds this word.
fn of_word<W: Word>(
    requests: &ColumnBatch,
    column: &str,
    wanted: W,
) -> Result<Vec<bool>, TableError> {
    let wrong = RefCell::new(None);
    let is_wanted = |word: Option<&str>| {
        let word = word.ok_or_else(|| "a value is null, and may not be".to_owned());
        let parsed = word.and_then(|word| W::parse(word).map_err(|e| e.to_string()));
        match parsed {
            Ok(word) => word == wanted,
            Err(why) => {
                wrong.borrow_mut().get_or_insert(why);
                false
            }
        }
    };
    let rows = requests.of_each_text(column, is_wanted)?;
    match wrong.into_inner() {
        Some(wrong) => Err(TableError::new(format!("column `{column}`: {wrong}"))),
        None => Ok(rows),
    }
}

/// Appends ascending ranges. Ranges that meet are merged.
fn append(ranges: &mut Vec<Range<usize>>, more: impl Iterator<Item = Range<usize>>) {
    for range in more {
        match ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => ranges.push(range),
        }
    }
}

#[cfg(test)]
mod tests {
    use artifacts::Scalar;
    use pipeline::Json;

    use super::*;
    use crate::synthetic::{self, ClosedLoop};
    use crate::{CellRows, METRICS, Request, timings};

    /// Returns rows of every kind: warm-up, superseded, failed, open and closed, without a token.
    fn every_sort() -> Vec<Request> {
        let mut rows = ClosedLoop {
            clients: 3,
            requests: 40,
            ..ClosedLoop::default()
        }
        .requests();
        rows[0].phase = Phase::Warmup;
        rows[3].superseded = true;
        rows[5].status = RequestStatus::HttpError;
        for row in rows.iter_mut().skip(10).step_by(2) {
            row.client_id = None;
        }
        (rows[7].first_token_ns, rows[7].last_token_ns) = (None, None);
        rows[8].first_chunk_tokens = Some(4);
        rows[9].output_tokens = None;
        rows
    }

    #[test]
    fn every_metric_read_narrowly_is_that_of_whole_rows_to_the_bit() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let tables = [(
            "requests",
            synthetic::requests_table(&every_sort()).unwrap(),
        )];
        let cell = synthetic::cell(&store, &[("n", Scalar::Int(1))], Json::Null, &tables).unwrap();
        assert!(NarrowRows::fits(&cell));
        let whole = CellRows::read(&store, "load", &cell).unwrap();
        let whole: Vec<_> = timings(&whole)
            .into_iter()
            .filter(|t| t.request.is_ok())
            .collect();
        assert_eq!(whole.len(), 37);
        // One metric at a time: a column that its formula failed to name would be null.
        for metric in METRICS {
            let narrow = NarrowRows::read(&store, "load", &cell, &[metric]).unwrap();
            let rows: Vec<usize> = narrow.ok.into_iter().flatten().collect();
            assert_eq!(rows, whole.iter().map(|t| t.row).collect::<Vec<_>>());
            let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            let expected: Vec<f64> = whole.iter().filter_map(|t| metric.of(t)).collect();
            assert_eq!(bits(&narrow.values[0]), bits(&expected), "{}", metric.name);
            assert!(!expected.is_empty(), "{}", metric.name);
            let columns: Vec<&str> = metric.columns().collect();
            let digest = &cell.outputs["requests"].digest;
            let batches = ColumnReader::open(&store, digest, &columns).unwrap();
            let each: Vec<Option<f64>> = batches
                .flat_map(|batch| metric.of_each(&batch.unwrap()).unwrap())
                .collect();
            assert!(whole.iter().all(|t| each[t.row] == metric.of(t)));
        }
    }
    #[test]
    fn rows_of_several_batches_are_numbered_through() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let mut rows = ClosedLoop {
            clients: 1,
            requests: 20_000,
            ..ClosedLoop::default()
        }
        .requests();
        rows[18_000].status = RequestStatus::HttpError;
        let tables = [("requests", synthetic::requests_table(&rows).unwrap())];
        let cell = synthetic::cell(&store, &[], Json::Null, &tables).unwrap();
        let narrow = NarrowRows::read(&store, "load", &cell, &[&METRICS[0]]).unwrap();
        assert_eq!(narrow.ok, [0..18_000, 18_001..20_000]);
        assert_eq!(narrow.values[0].len(), 19_999);
    }
}
