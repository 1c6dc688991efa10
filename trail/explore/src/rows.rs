//! The requests of a measured cell as plots need them: a few columns, batch by batch, never a whole
//! row, so that a cell of millions of requests costs no more memory than the answer.

use artifacts::{ColumnBatch, ColumnReader, Digest, Store, TableError};
use contract::{CellRows, Metric, Phase, RequestStatus, Timing, Word};
use pipeline::InputCell;
use pipeline::lock::LockCell;
use pipeline::record::Record;

use crate::catalogue::record_of;
use crate::error::Failure;

/// What the formula of a metric needs of the chunks of an answer.
const FROM_CHUNKS: &str = "first_chunk_tokens";

/// The measured requests of a cell, and metrics of those that were answered.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// Measured requests; superseded attempts are none.
    pub(crate) rows: usize,
    /// Of these, those of status `ok`.
    pub(crate) ok: usize,
    /// From the first request sent to the last one done, ns.
    pub(crate) span: Option<(i64, i64)>,
    /// For each metric its value for each ok request; `None` where it is undefined.
    pub(crate) values: Vec<Vec<Option<f64>>>,
}

impl Measured {
    /// Returns the time from the first request sent to the last one done, in s; `None` if it is 0.
    pub(crate) fn window_s(&self) -> Option<f64> {
        let (from, to) = self.span?;
        (to > from).then(|| to.saturating_sub(from) as f64 / 1e9)
    }

    fn widen(&mut self, sent: Option<i64>, done: Option<i64>) {
        let known = self.span.unwrap_or((i64::MAX, i64::MIN));
        let from = sent.map_or(known.0, |sent| sent.min(known.0));
        let to = done.map_or(known.1, |done| done.max(known.1));
        self.span = Some((from, to)).filter(|span| *span != (i64::MAX, i64::MIN));
    }

    /// Reads the requests of a cell; `None` if it has none.
    ///
    /// Where a metric needs the chunks of an answer and the cell has them, whole rows are read; the
    /// definitions are those of the crate `contract` either way.
    ///
    /// # Errors
    /// If an artifact is missing or damaged, or a column is not as the load stage writes it.
    pub(crate) fn read(
        stage: &str,
        cell: &LockCell,
        metrics: &[&Metric],
        store: &Store,
    ) -> Result<Option<Self>, Failure> {
        let Some(record) = record_of(store, stage, cell)? else {
            return Ok(None);
        };
        let Some(requests) = record.outputs.get("requests") else {
            return Ok(None);
        };
        let mut columns = metrics.iter().flat_map(|metric| metric.columns());
        let needs_chunks = columns.any(|column| column == FROM_CHUNKS);
        match needs_chunks && record.outputs.contains_key("chunks") {
            true => Self::whole(stage, &record, metrics, store).map(Some),
            false => Self::narrow(&requests.digest, metrics, store).map(Some),
        }
    }

    fn whole(
        stage: &str,
        record: &Record,
        metrics: &[&Metric],
        store: &Store,
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
        let mut found = Self::default();
        for timing in &timings {
            found.widen(timing.request.sent_ns, timing.request.done_ns);
        }
        let ok: Vec<&Timing<'_>> = timings.iter().filter(|t| t.request.is_ok()).collect();
        (found.rows, found.ok) = (timings.len(), ok.len());
        let values = |metric: &&Metric| ok.iter().map(|t| metric.of(t)).collect();
        found.values = metrics.iter().map(values).collect();
        Ok(found)
    }

    fn narrow(digest: &Digest, metrics: &[&Metric], store: &Store) -> Result<Self, Failure> {
        let mut columns: Vec<&str> = metrics.iter().flat_map(|m| m.columns()).collect();
        columns.extend(["phase", "status", "superseded", "sent_ns", "done_ns"]);
        let mut found = Self {
            values: vec![Vec::new(); metrics.len()],
            ..Self::default()
        };
        for batch in ColumnReader::open(store, digest, &columns)? {
            let batch = batch?;
            let states = States::of(&batch)?;
            let (sent, done) = (batch.ints("sent_ns")?, batch.ints("done_ns")?);
            for row in states.measured() {
                found.rows += 1;
                found.ok += usize::from(states.is_ok(row));
                found.widen(sent.get(row), done.get(row));
            }
            for (metric, values) in metrics.iter().zip(&mut found.values) {
                let each = metric.of_each(&batch)?;
                let ok = states.measured().filter(|row| states.is_ok(*row));
                values.extend(ok.map(|row| each[row]));
            }
        }
        Ok(found)
    }
}

/// What became of the requests of a batch.
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

    /// Returns what became of a request; `None` if it is not a word of ours.
    pub(crate) fn status(&self, row: usize) -> Option<RequestStatus> {
        self.status[row]
    }

    pub(crate) fn is_ok(&self, row: usize) -> bool {
        self.status[row] == Some(RequestStatus::Ok)
    }
}
