//! The server's own metrics beside the load: Prometheus text on the cell's clock.
//!
//! They are scraped before the first request, at the telemetry's interval while the cell runs, and after the last
//! request, on a separate thread.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use artifacts::TableError;
use contract::ServerMetric;

use crate::get::Endpoint;
use crate::sheet::Sheet;
use crate::telemetry::{Companion, Sampled};

/// The default sampling interval.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);

/// The endpoint of metrics, with the label that is added to them.
pub(crate) type Address = (Option<(&'static str, String)>, Endpoint);

/// The destination of samples.
pub(crate) enum Kept {
    /// Into memory, for small runs.
    Rows(Arc<Mutex<Vec<ServerMetric>>>),
    /// Into a file.
    Sheet(Box<Sheet<ServerMetric>>),
}

/// The server's metrics as a companion.
pub(crate) struct Metrics {
    /// The addresses. An address has a label unless it is the server's only one.
    pub(crate) endpoints: Vec<Address>,
    pub(crate) kept: Kept,
}

impl Metrics {
    /// Starts `server_metrics` in a folder.
    ///
    /// # Errors
    /// If its file cannot be created.
    pub(crate) fn new(
        folder: &Path,
        endpoints: Vec<Address>,
        interval_ms: &str,
    ) -> Result<Self, TableError> {
        let sheet = Sheet::create(folder, &[("interval_ms", interval_ms)])?;
        Ok(Self {
            endpoints,
            kept: Kept::Sheet(Box::new(sheet)),
        })
    }
}

impl Companion for Metrics {
    fn name(&self) -> &'static str {
        "server_metrics"
    }

    fn sample(&mut self, at_ns: i64) -> Result<(), String> {
        let (mut rows, mut failed) = (Vec::new(), Ok(()));
        for (label, endpoint) in &self.endpoints {
            // An address that does not answer does not stop the others.
            match (endpoint.text("text/plain"), label) {
                (Ok(text), None) => rows.extend(parse(&text, at_ns)),
                (Ok(text), Some(label)) => {
                    let named = |row| with_label(label, row);
                    rows.extend(parse(&text, at_ns).into_iter().map(named));
                }
                (Err(why), None) => failed = failed.and(Err(why)),
                (Err(why), Some((_, name))) => failed = failed.and(Err(format!("{name}: {why}"))),
            }
        }
        match &mut self.kept {
            Kept::Rows(all) => all
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(rows),
            Kept::Sheet(sheet) => {
                rows.into_iter()
                    .try_for_each(|row| sheet.push(row))
                    .map_err(|e| e.to_string())?;
            }
        }
        failed
    }

    fn finish(self: Box<Self>) -> Sampled {
        match self.kept {
            Kept::Rows(_) => Sampled::default(),
            Kept::Sheet(sheet) => Sampled::of(*sheet),
        }
    }
}

/// Adds the address's label to a row.
fn with_label((label, name): &(&'static str, String), row: ServerMetric) -> ServerMetric {
    let comma = if row.labels.trim().is_empty() {
        ""
    } else {
        ","
    };
    let labels = format!("{label}=\"{name}\"{comma}{}", row.labels);
    ServerMetric { labels, ..row }
}

/// Parses the Prometheus text format: `name{labels} value [timestamp]`. Invalid lines and samples that are not finite
/// are skipped.
pub(crate) fn parse(text: &str, at_ns: i64) -> Vec<ServerMetric> {
    let mut rows = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, labels, rest) = match line.find('{') {
            Some(open) if !line[..open].contains(char::is_whitespace) => {
                let Some(close) = closing(&line[open + 1..]).map(|at| open + 1 + at) else {
                    continue;
                };
                (&line[..open], &line[open + 1..close], &line[close + 1..])
            }
            _ => match line.split_once(char::is_whitespace) {
                Some((name, rest)) => (name, "", rest),
                None => continue,
            },
        };
        let value = rest
            .split_whitespace()
            .next()
            .and_then(|v| v.parse::<f64>().ok());
        if let Some(value) = value.filter(|v| v.is_finite()) {
            rows.push(ServerMetric {
                at_ns,
                name: name.to_owned(),
                labels: labels.to_owned(),
                value,
            });
        }
    }
    rows
}

/// Returns the position of the brace that closes a list of labels. Braces may appear inside a label's quotes, and
/// another list may follow the value (an exemplar).
fn closing(text: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = quoted,
            '"' => quoted = !quoted,
            '}' if !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_with_and_without_labels_and_timestamps_are_read() {
        let text = "# HELP a b\n# TYPE a counter\na 1\na{x=\"}{\",y=\"2\"} 2.5e3 1700000000\nb NaN\nbroken\n";
        let rows = parse(text, 7);
        let row = |labels: &str, value| ServerMetric {
            at_ns: 7,
            name: "a".into(),
            labels: labels.into(),
            value,
        };
        assert_eq!(rows, [row("", 1.0), row("x=\"}{\",y=\"2\"", 2500.0)]);
    }

    #[test]
    fn histograms_with_labels_and_exemplars_survive() {
        let text = "# TYPE vllm:e2e_seconds histogram\n\
            vllm:e2e_seconds_bucket{le=\"0.5\",model_name=\"m \\\" }\"} 3.0\n\
            vllm:e2e_seconds_bucket{le=\"+Inf\",model_name=\"m\"} 5 # {trace_id=\"x\"} 0.7 1700000000\n\
            vllm:e2e_seconds_sum{model_name=\"m\"} 2.25\nsglang:token_usage 0.01 # {a=\"b\"} 1\n\
            tgi_queue_size{ } 2\nunclosed{le=\"1 3\n";
        let rows = parse(text, 0);
        let seen: Vec<(&str, &str, f64)> = rows
            .iter()
            .map(|r| (r.name.as_str(), r.labels.as_str(), r.value))
            .collect();
        assert_eq!(
            seen,
            [
                (
                    "vllm:e2e_seconds_bucket",
                    "le=\"0.5\",model_name=\"m \\\" }\"",
                    3.0
                ),
                (
                    "vllm:e2e_seconds_bucket",
                    "le=\"+Inf\",model_name=\"m\"",
                    5.0
                ),
                ("vllm:e2e_seconds_sum", "model_name=\"m\"", 2.25),
                ("sglang:token_usage", "", 0.01),
                ("tgi_queue_size", " ", 2.0),
            ]
        );
    }
}
