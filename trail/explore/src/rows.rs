//! The requests of a measured cell for plots: a few columns, batch by batch, never complete rows, so that a cell with
//! millions of requests takes no more memory than the answer.

use artifacts::{ColumnBatch, ColumnReader, Digest, Scalar, Store, Table, TableError};
use contract::{CellRows, ImportClock, Metric, Phase, RequestStatus, Timing, Word};
use pipeline::InputCell;
use pipeline::lock::LockCell;
use pipeline::place::cell_text;
use pipeline::record::Record;

use crate::catalogue::record_of;
use crate::error::{Failure, Fault};

/// The field that metrics need from the chunks of an answer.
pub(crate) const FROM_CHUNKS: &str = "first_chunk_tokens";

/// The maximum number of chunks of a cell that are read to count the tokens in the first chunk of each request.
const MOST_CHUNKS: u64 = 2_000_000;

/// The number of measured requests of a cell, and their time range.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// The number of measured requests, without superseded attempts.
    pub(crate) rows: usize,
    /// The number of those with status `ok`.
    pub(crate) ok: usize,
    /// The time of the first request sent and of the last one done, in ns; `None` if the rows have no clock in common.
    pub(crate) span: Option<(i64, i64)>,
}

impl Measured {
    /// Returns the time from the first request sent to the last one done, in s; `None` if it is 0.
    pub(crate) fn window_s(&self) -> Option<f64> {
        let (from, to) = self.span?;
        (to > from).then(|| to.saturating_sub(from) as f64 / 1e9)
    }

    /// Widens the time range by a measured request.
    pub(crate) fn widen(&mut self, sent: Option<i64>, done: Option<i64>) {
        let so_far = self.span.unwrap_or((i64::MAX, i64::MIN));
        let from = sent.map_or(so_far.0, |sent| sent.min(so_far.0));
        let to = done.map_or(so_far.1, |done| done.max(so_far.1));
        self.span = Some((from, to)).filter(|span| *span != (i64::MAX, i64::MIN));
    }

    /// Calls `hear` with the metrics of every measured `ok` request of a cell, `None` for an undefined one. Returns
    /// `None` if the cell has no requests.
    ///
    /// Holds at most one batch of rows. Complete rows and their chunks are read only if a metric needs the tokens of
    /// the first chunk and a row does not contain them. The definitions are those of the crate `contract` either way.
    ///
    /// # Errors
    /// If an artifact is missing or damaged, a column is not in the form that the load stage writes, or too many chunks
    /// would have to be read.
    pub(crate) fn each(
        stage: &str,
        cell: &LockCell,
        metrics: &[&Metric],
        store: &Store,
        mut hear: impl FnMut(&[Option<f64>]),
    ) -> Result<Option<Self>, Failure> {
        let Some(record) = record_of(store, stage, cell)? else {
            return Ok(None);
        };
        let Some(requests) = record.outputs.get("requests") else {
            return Ok(None);
        };
        let in_common = |measured: Self| Self {
            span: measured.span.filter(|_| has_one_clock(&record, store)),
            ..measured
        };
        let mut columns = metrics.iter().flat_map(|metric| metric.columns());
        let needs_chunks = columns.any(|column| column == FROM_CHUNKS);
        let chunks = match record.outputs.get("chunks").filter(|_| needs_chunks) {
            Some(chunks) if !tells_first_chunks(&requests.digest, store)? => chunks,
            _ => {
                let measured = Self::narrow(&requests.digest, metrics, store, hear)?;
                return Ok(Some(in_common(measured)));
            }
        };
        if chunks.rows.is_none_or(|rows| rows > MOST_CHUNKS) {
            return Err(Failure::new(
                Fault::TooMuch,
                format!(
                    "{} has too many chunks for a page",
                    cell_text(stage, &cell.coordinates)
                ),
                "choose a metric that needs no chunks, or use the operator `distribution`",
            ));
        }
        let measured = Self::whole(stage, &record, metrics, store, &mut hear)?;
        Ok(Some(in_common(measured)))
    }

    fn whole(
        stage: &str,
        record: &Record,
        metrics: &[&Metric],
        store: &Store,
        hear: &mut impl FnMut(&[Option<f64>]),
    ) -> Result<Self, Failure> {
        let wanted = ["requests", "chunks"];
        let outputs = record.outputs.iter();
        let outputs = outputs.filter(|(name, _)| wanted.contains(&name.as_str()));
        let cell = InputCell {
            coordinates: record.coordinates.clone(),
            status: record.status,
            reason: None,
            parameters: serde_json::Value::Null,
            outputs: outputs.map(|(n, a)| (n.to_string(), a.clone())).collect(),
            record: None,
            live: None,
        };
        let rows = CellRows::read(store, stage, &cell).map_err(|e| Failure::store(e.reason))?;
        let timings: Vec<Timing<'_>> = contract::timings(&rows);
        let mut measured = Self::default();
        for timing in &timings {
            measured.rows += 1;
            measured.widen(timing.request.sent_ns, timing.request.done_ns);
            if timing.request.is_ok() {
                measured.ok += 1;
                let values: Vec<_> = metrics.iter().map(|metric| metric.of(timing)).collect();
                hear(&values);
            }
        }
        Ok(measured)
    }

    fn narrow(
        digest: &Digest,
        metrics: &[&Metric],
        store: &Store,
        mut hear: impl FnMut(&[Option<f64>]),
    ) -> Result<Self, Failure> {
        let mut columns: Vec<&str> = metrics.iter().flat_map(|m| m.columns()).collect();
        columns.extend(["phase", "status", "superseded", "sent_ns", "done_ns"]);
        let mut measured = Self::default();
        let mut values = vec![None; metrics.len()];
        for batch in ColumnReader::open(store, digest, &columns)? {
            let batch = batch?;
            let states = States::of(&batch)?;
            let (sent, done) = (batch.ints("sent_ns")?, batch.ints("done_ns")?);
            let each = metrics.iter().map(|metric| metric.of_each(&batch));
            let each = each.collect::<Result<Vec<_>, _>>()?;
            for row in states.measured() {
                measured.rows += 1;
                measured.widen(sent.get(row), done.get(row));
                if states.is_ok(row) {
                    measured.ok += 1;
                    for (value, column) in values.iter_mut().zip(&each) {
                        *value = column[row];
                    }
                    hear(&values);
                }
            }
        }
        Ok(measured)
    }
}

/// Returns whether every row of an answered request contains the number of tokens in its first chunk.
pub(crate) fn tells_first_chunks(requests: &Digest, store: &Store) -> Result<bool, Failure> {
    let columns = [
        "phase",
        "status",
        "superseded",
        FROM_CHUNKS,
        "first_token_ns",
    ];
    for batch in ColumnReader::open(store, requests, &columns)? {
        let batch = batch?;
        let states = States::of(&batch)?;
        let (first, tokens) = (batch.ints("first_token_ns")?, batch.ints(FROM_CHUNKS)?);
        let silent = |row: &usize| first.get(*row).is_some() && tokens.get(*row).is_none();
        if states
            .measured()
            .filter(|row| states.is_ok(*row))
            .any(|row| silent(&row))
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The states of the requests in a batch.
pub(crate) struct States {
    measured: Vec<bool>,
    status: Vec<Option<RequestStatus>>,
}

impl States {
    /// Reads the columns `phase`, `superseded` and `status` of a batch.
    pub(crate) fn of(batch: &ColumnBatch) -> Result<Self, TableError> {
        let phase = |word: Option<&str>| word.and_then(|w| Phase::parse(w).ok());
        let phases = batch.of_each_text("phase", phase)?;
        let superseded = batch.booleans("superseded")?;
        let measured = |(row, phase): (usize, &Option<Phase>)| {
            *phase == Some(Phase::Measured) && superseded.get(row) != Some(true)
        };
        let status = |word: Option<&str>| word.and_then(|w| RequestStatus::parse(w).ok());
        Ok(Self {
            measured: phases.iter().enumerate().map(measured).collect(),
            status: batch.of_each_text("status", status)?,
        })
    }

    /// Returns the rows of measured requests.
    pub(crate) fn measured(&self) -> impl Iterator<Item = usize> + '_ {
        let rows = self.measured.iter().enumerate();
        rows.filter(|(_, measured)| **measured).map(|(row, _)| row)
    }

    /// Returns whether a row belongs to a measured request.
    pub(crate) fn is_measured(&self, row: usize) -> bool {
        self.measured[row]
    }

    /// Returns the status of a request; `None` if its word is unknown.
    pub(crate) fn status(&self, row: usize) -> Option<RequestStatus> {
        self.status[row]
    }

    pub(crate) fn is_ok(&self, row: usize) -> bool {
        self.status[row] == Some(RequestStatus::Ok)
    }
}

/// Returns whether the times of different rows of a cell can be compared; see [`CellRows::has_one_clock`].
fn has_one_clock(record: &Record, store: &Store) -> bool {
    let about = record.outputs.get("cell");
    let about = about.and_then(|about| Table::read_rows(store, &about.digest, 0..1).ok());
    let clock = about.and_then(|(about, _)| about.value("clock", 0).ok());
    clock != Some(Scalar::Text(ImportClock::Request.word().to_owned()))
}
