//! The server's own metrics beside the load: Prometheus text on the cell's clock.
//!
//! Scraped before the first measured request, once a second while the cell runs, and after
//! the last; on a thread of its own, with blocking sockets.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use artifacts::{Column, Table, TableError};

use crate::get::get;
use crate::measure::Epoch;
use crate::wire::Address;

/// The sampling interval.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);

/// One sample of one series.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricRow {
    /// When the scrape was asked for, ns since the cell's start.
    pub at_ns: i64,
    /// The metric's name.
    pub name: String,
    /// Its labels as written, without braces; empty if none.
    pub labels: String,
    /// Its value.
    pub value: f64,
}

/// Where to scrape.
#[derive(Clone, Debug)]
pub(crate) struct Scraper {
    pub(crate) address: Address,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) path: String,
    pub(crate) epoch: Epoch,
}

impl Scraper {
    /// Takes one scrape.
    ///
    /// # Errors
    /// If the server does not answer with Prometheus text; one sentence.
    pub(crate) fn scrape(&self) -> Result<Vec<MetricRow>, String> {
        let at_ns = i64::try_from(self.epoch.now()).unwrap_or(i64::MAX);
        let (status, body) = get(&self.address, &self.addresses, &self.path, "text/plain", None)
            .map_err(|e| format!("scraping {}: {e}", self.path))?;
        if status != 200 {
            return Err(format!("scraping {}: HTTP {status}", self.path));
        }
        Ok(parse(&String::from_utf8_lossy(&body), at_ns))
    }

    /// Scrapes once a second until told to stop, then once more; returns all samples and the
    /// first thing that went wrong.
    pub(crate) fn watch(&self, stop: &Receiver<()>) -> (Vec<MetricRow>, Option<String>) {
        let (mut rows, mut problem) = (Vec::new(), None);
        loop {
            let last = matches!(stop.recv_timeout(INTERVAL), Ok(()) | Err(RecvTimeoutError::Disconnected));
            match self.scrape() {
                Ok(more) => rows.extend(more),
                Err(error) => problem = problem.or(Some(error)),
            }
            if last {
                return (rows, problem);
            }
        }
    }
}

/// Reads the Prometheus text format: `name{labels} value [timestamp]`. Lines that are none are
/// skipped, samples that are not finite too.
fn parse(text: &str, at_ns: i64) -> Vec<MetricRow> {
    let mut rows = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, labels, rest) = match line.find('{') {
            Some(open) => {
                // A brace may stand inside a label's quotes: the last one closes.
                let Some(close) = line.rfind('}').filter(|close| *close > open) else { continue };
                (&line[..open], &line[open + 1..close], &line[close + 1..])
            }
            None => match line.split_once(char::is_whitespace) {
                Some((name, rest)) => (name, "", rest),
                None => continue,
            },
        };
        let value = rest.split_whitespace().next().and_then(|v| v.parse::<f64>().ok());
        if let Some(value) = value.filter(|v| v.is_finite()) {
            rows.push(MetricRow { at_ns, name: name.to_owned(), labels: labels.to_owned(), value });
        }
    }
    rows
}

/// Makes the table `server_metrics`: one row per sample, in the order taken.
///
/// # Errors
/// Never for rows made here.
pub fn metrics_table(rows: &[MetricRow]) -> Result<Table, TableError> {
    let interval = INTERVAL.as_millis().to_string();
    Table::with_metadata(
        vec![
            Column::int("at_ns", rows.iter().map(|r| Some(r.at_ns)))
                .unit("ns")
                .describe("when the scrape was asked for, since the cell's start"),
            Column::text("name", rows.iter().map(|r| Some(r.name.clone()))).describe("the metric's name"),
            Column::text("labels", rows.iter().map(|r| Some(r.labels.clone())))
                .describe("its labels as the server writes them; empty if none"),
            Column::float("value", rows.iter().map(|r| Some(r.value)))
                .describe("its value, in the unit the metric's name says"),
        ],
        &[("interval_ms", &interval)],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_with_and_without_labels_and_timestamps_are_read() {
        let text = "# HELP a b\n# TYPE a counter\na 1\na{x=\"}{\",y=\"2\"} 2.5e3 1700000000\nb NaN\nbroken\n";
        let rows = parse(text, 7);
        let row =
            |labels: &str, value| MetricRow { at_ns: 7, name: "a".into(), labels: labels.into(), value };
        assert_eq!(rows, [row("", 1.0), row("x=\"}{\",y=\"2\"", 2500.0)]);
    }
}
