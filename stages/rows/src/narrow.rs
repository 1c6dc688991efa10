//! The few columns that metrics of a request are computed from, of a cell of many rows.

use artifacts::{Digest, Store, Table, TableError};
use pipeline::{Failure, InputCell};

use crate::metrics::{ChunkGaps, Metric, Timing};
use crate::request::{Phase, Request, require};

/// The requests of a load cell without chunks, read in part: of each row only what the metrics
/// asked for are computed from. What they come to is what they come to over whole rows.
#[derive(Debug)]
pub struct NarrowRows {
    /// The digest of the artifact `requests`.
    pub requests_digest: Digest,
    table: Table,
}

impl NarrowRows {
    /// Returns whether a cell can be read so: it is not if it has chunks, which tell more about
    /// a request than its row.
    pub fn fits(cell: &InputCell) -> bool {
        !cell.outputs.contains_key("chunks")
    }

    /// Reads the columns of an `ok` load cell that the metrics need.
    ///
    /// # Errors
    /// If the cell lacks its `requests`, the artifact is missing or damaged, or a column is not
    /// as the load stage writes it.
    pub fn read(store: &Store, cell: &InputCell, metrics: &[&Metric]) -> Result<Self, Failure> {
        let at = &cell.coordinates;
        let wrong = |e: &dyn std::fmt::Display| {
            Failure::failed(format!("`requests` of the load cell {at} cannot be read: {e}"))
        };
        let artifact = cell.outputs.get("requests").ok_or_else(|| wrong(&"the cell has no such output"))?;
        let mut columns = vec!["phase", "status", "superseded"];
        columns.extend(metrics.iter().flat_map(|m| m.columns.iter().copied()));
        let bytes = store.get(&artifact.digest).map_err(|e| wrong(&e))?;
        let table = Table::from_parquet_columns(bytes, &columns).map_err(|e| wrong(&e))?;
        require(&table, &["phase", "status"]).map_err(|e| wrong(&e))?;
        Ok(Self { requests_digest: artifact.digest, table })
    }

    /// Returns the number of rows, whatever their phase and status.
    pub fn rows(&self) -> usize {
        self.table.rows()
    }

    /// Calls `each` with every measured request of status `ok`, in the order of the rows. Of the
    /// request only the columns read are filled in.
    ///
    /// # Errors
    /// If a column is not as the load stage writes it.
    pub fn for_each_ok(&self, mut each: impl FnMut(&Timing<'_>)) -> Result<(), TableError> {
        let table = &self.table;
        let (phase, status) = (table.texts("phase")?, table.texts("status")?);
        let superseded = table.booleans("superseded")?;
        let (scheduled, sent) = (table.ints("scheduled_ns")?, table.ints("sent_ns")?);
        let (first, last) = (table.ints("first_token_ns")?, table.ints("last_token_ns")?);
        let (prompt, output) = (table.ints("prompt_tokens")?, table.ints("output_tokens")?);
        let (client, first_chunk) = (table.ints("client_id")?, table.ints("first_chunk_tokens")?);
        let mut request = blank();
        for row in 0..table.rows() {
            let measured = Phase::of(phase.get(row)) == Phase::Measured;
            if !measured || superseded.get(row) == Some(true) || status.get(row) != Some("ok") {
                continue;
            }
            request.client_id = client.get(row);
            request.scheduled_ns = scheduled.get(row);
            request.sent_ns = sent.get(row);
            request.first_token_ns = first.get(row);
            request.last_token_ns = last.get(row);
            request.prompt_tokens = prompt.get(row);
            request.output_tokens = output.get(row);
            request.first_chunk_tokens = first_chunk.get(row);
            let (gaps, chunk_rows) = (ChunkGaps::default(), Vec::new());
            each(&Timing { row, request: &request, gaps, chunk_rows });
        }
        Ok(())
    }
}

/// A request of which nothing is known but that it was answered in full.
fn blank() -> Request {
    Request {
        request_id: -1,
        attempt: 0,
        superseded: false,
        client_id: None,
        session_id: None,
        turn: None,
        prompt_digest: None,
        phase: Phase::Measured,
        scheduled_ns: None,
        sent_ns: None,
        headers_ns: None,
        first_token_ns: None,
        last_token_ns: None,
        done_ns: None,
        prompt_tokens: None,
        output_tokens: None,
        tokens_source: None,
        tokens_agree: None,
        chunks: None,
        first_chunk_tokens: None,
        cached_prompt_tokens: None,
        requested_output_tokens: None,
        finish_reason: None,
        status: "ok".to_owned(),
        schema_valid: None,
        send_lag_ns: None,
        server_prompt_ms: None,
        server_predicted_ms: None,
    }
}

#[cfg(test)]
mod tests {
    use artifacts::Scalar;
    use pipeline::Json;

    use super::*;
    use crate::synthetic::{self, ClosedLoop};
    use crate::{CellRows, METRICS, timings};

    /// Rows of every sort: warm-up, superseded, failed, open and closed, without a token.
    fn every_sort() -> Vec<Request> {
        let mut rows = ClosedLoop { clients: 3, requests: 40, ..ClosedLoop::default() }.requests();
        rows[0].phase = Phase::Warmup;
        rows[3].superseded = true;
        rows[5].status = "http_error".to_owned();
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
        let tables = [("requests", synthetic::requests_table(&every_sort()).unwrap())];
        let cell = synthetic::cell(&store, &[("n", Scalar::Int(1))], Json::Null, &tables).unwrap();
        assert!(NarrowRows::fits(&cell));
        let whole = CellRows::read(&store, &cell).unwrap();
        let whole: Vec<_> = timings(&whole).into_iter().filter(|t| t.request.is_ok()).collect();
        assert_eq!(whole.len(), 37);
        // One metric at a time: a column that its list lacks would be null.
        for metric in METRICS {
            let narrow = NarrowRows::read(&store, &cell, &[metric]).unwrap();
            let mut found = Vec::new();
            narrow.for_each_ok(|t| found.push((t.row, (metric.of)(t).map(f64::to_bits)))).unwrap();
            let expected: Vec<_> = whole.iter().map(|t| (t.row, (metric.of)(t).map(f64::to_bits))).collect();
            assert_eq!(found, expected, "{}", metric.name);
            assert!(found.iter().any(|(_, value)| value.is_some()), "{}", metric.name);
        }
    }
}
