//! The server's own metrics beside the load: Prometheus text on the cell's clock.
//!
//! They are scraped before the first request, at the telemetry's interval while the cell runs, and after the last
//! request, on a separate thread.

use std::collections::HashSet;
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
    Rows(Arc<Mutex<Held>>),
    /// Into a file.
    Sheet(Box<Sheet<ServerMetric>>),
}

/// Samples in memory.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) rows: Vec<ServerMetric>,
    /// The memory that they take, in bytes.
    bytes: usize,
}

/// The most memory that samples take, in bytes: about two hours of a busy engine's metrics.
const MOST_HELD: usize = 2 << 30;

/// The memory of a sample beside its texts, in bytes, with the room that a growing list keeps.
const ROW_BYTES: usize = 2 * size_of::<ServerMetric>() + 32;

impl Kept {
    /// Checks, before a sample is taken, that there is room for another one.
    ///
    /// # Errors
    /// If there is none; one sentence.
    fn room(&self) -> Result<(), String> {
        match self {
            Self::Sheet(sheet) => sheet.room(),
            Self::Rows(held) => held.lock().unwrap_or_else(PoisonError::into_inner).room(),
        }
    }

    /// Keeps the samples of one address.
    fn extend(
        &mut self,
        rows: Vec<ServerMetric>,
        label: Option<&(&'static str, String)>,
    ) -> Result<(), String> {
        let mut rows = rows.into_iter().map(|row| match label {
            Some(label) => with_label(label, row),
            None => row,
        });
        match self {
            Self::Rows(held) => held
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(rows),
            Self::Sheet(sheet) => rows
                .try_for_each(|row| sheet.push(row))
                .map_err(|e| e.to_string())?,
        }
        Ok(())
    }
}

impl Held {
    fn room(&self) -> Result<(), String> {
        if self.bytes < MOST_HELD {
            return Ok(());
        }
        Err(format!(
            "the samples take {} MiB of memory, so later ones are left out: measure for a shorter time, or in an experiment, which writes them to a file",
            MOST_HELD >> 20
        ))
    }

    fn extend(&mut self, rows: impl Iterator<Item = ServerMetric>) {
        for row in rows {
            self.bytes += ROW_BYTES + row.name.capacity() + row.labels.capacity();
            self.rows.push(row);
        }
    }
}

/// The server's metrics as a companion.
pub(crate) struct Metrics {
    /// The addresses. An address has a label unless it is the server's only one.
    endpoints: Vec<Address>,
    kept: Kept,
    /// What the first odd answer had too much.
    odd: Vec<String>,
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
        Ok(Self::kept_in(endpoints, Kept::Sheet(Box::new(sheet))))
    }

    /// Starts `server_metrics` with a destination.
    pub(crate) fn kept_in(endpoints: Vec<Address>, kept: Kept) -> Self {
        Self {
            endpoints,
            kept,
            odd: Vec::new(),
        }
    }
}

impl Companion for Metrics {
    fn name(&self) -> &'static str {
        "server_metrics"
    }

    fn sample(&mut self, at_ns: i64) -> Result<(), String> {
        self.kept.room()?;
        let mut failed = Ok(());
        for (label, endpoint) in &self.endpoints {
            let named = |why: String| match label {
                Some((_, name)) => format!("{name}: {why}"),
                None => why,
            };
            let scraped = endpoint
                .text("text/plain")
                .and_then(|text| parse(&text, at_ns));
            match scraped {
                Ok(Scraped { rows, odd }) => {
                    if self.odd.is_empty() {
                        self.odd.extend(odd.into_iter().map(named));
                    }
                    self.kept.extend(rows, label.as_ref())?;
                }
                // An address that does not answer does not stop the others.
                Err(why) => failed = failed.and(Err(named(why))),
            }
        }
        failed
    }

    fn finish(self: Box<Self>) -> Sampled {
        let mut left = match self.kept {
            Kept::Rows(_) => Sampled::default(),
            Kept::Sheet(sheet) => Sampled::of(*sheet),
        };
        let odd = self.odd.into_iter();
        left.warnings
            .extend(odd.map(|why| format!("server_metrics: {why}")));
        left
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

/// The most samples of one answer.
const MOST_SAMPLES: usize = 1_000_000;

/// The samples of one answer.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Scraped {
    pub(crate) rows: Vec<ServerMetric>,
    /// What was left out of the answer and should not have been in it; sentences.
    pub(crate) odd: Vec<String>,
}

/// Parses the Prometheus text format: `name{labels} value [timestamp]`. Samples that are not finite are left out, because
/// a quantile without observations is NaN. Malformed lines and repeated samples of a series are skipped and reported.
///
/// # Errors
/// If no line is a sample although there are lines, or there are too many samples; one sentence.
pub(crate) fn parse(text: &str, at_ns: i64) -> Result<Scraped, String> {
    let (mut scraped, mut seen) = (Scraped::default(), HashSet::new());
    let (mut samples, mut wrong, mut twice) = (0_usize, Vec::new(), Vec::new());
    let lines = text.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let Some((name, labels, value)) = sample(line) else {
            wrong.push(line);
            continue;
        };
        samples += 1;
        if samples > MOST_SAMPLES {
            return Err(format!("the answer has more than {MOST_SAMPLES} samples"));
        }
        if !seen.insert((name, labels)) {
            twice.push(line);
        } else if value.is_finite() {
            scraped.rows.push(ServerMetric {
                at_ns,
                name: name.to_owned(),
                labels: labels.to_owned(),
                value,
            });
        }
    }
    if samples == 0 && !wrong.is_empty() {
        return Err(format!(
            "the answer is not in the Prometheus text format: it begins with `{}`",
            start_of(wrong[0])
        ));
    }
    for (lines, what) in [
        (wrong, "are not samples"),
        (twice, "repeat an earlier series"),
    ] {
        if let Some(first) = lines.first() {
            let (count, first) = (lines.len(), start_of(first));
            scraped.odd.push(format!(
                "an answer has lines that {what}; {count} skipped, the first `{first}`"
            ));
        }
    }
    Ok(scraped)
}

/// Parses one line into its name, its labels and its value.
fn sample(line: &str) -> Option<(&str, &str, f64)> {
    let (name, labels, rest) = match line.find('{') {
        Some(open) if !line[..open].contains(char::is_whitespace) => {
            let close = open + 1 + closing(&line[open + 1..])?;
            (&line[..open], &line[open + 1..close], &line[close + 1..])
        }
        _ => {
            let (name, rest) = line.split_once(char::is_whitespace)?;
            (name, "", rest)
        }
    };
    let value = rest.split_whitespace().next()?.parse().ok()?;
    is_name(name).then_some((name, labels, value))
}

/// Returns whether a text can be the name of a metric. Names in quotes are not part of this format.
fn is_name(text: &str) -> bool {
    let first = text.bytes().next();
    first.is_some_and(|b| b.is_ascii_alphabetic() || matches!(b, b'_' | b':'))
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':' | b'.' | b'-'))
}

/// Returns the start of a line, for messages.
fn start_of(line: &str) -> String {
    let start: String = line.chars().take(80).collect();
    match start.len() < line.len() {
        true => format!("{start}…"),
        false => start,
    }
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
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn samples_with_and_without_labels_and_timestamps_are_read() {
        let text = "# HELP a b\n# TYPE a counter\na 1\na{x=\"}{\",y=\"2\"} 2.5e3 1700000000\nb NaN\nbroken\n";
        let scraped = parse(text, 7).unwrap();
        let row = |labels: &str, value| ServerMetric {
            at_ns: 7,
            name: "a".into(),
            labels: labels.into(),
            value,
        };
        assert_eq!(
            scraped.rows,
            [row("", 1.0), row("x=\"}{\",y=\"2\"", 2500.0)]
        );
        assert_eq!(
            scraped.odd,
            ["an answer has lines that are not samples; 1 skipped, the first `broken`"]
        );
    }

    #[test]
    fn histograms_with_labels_and_exemplars_survive() {
        let text = "# TYPE vllm:e2e_seconds histogram\n\
            vllm:e2e_seconds_bucket{le=\"0.5\",model_name=\"m \\\" }\"} 3.0\n\
            vllm:e2e_seconds_bucket{le=\"+Inf\",model_name=\"m\"} 5 # {trace_id=\"x\"} 0.7 1700000000\n\
            vllm:e2e_seconds_sum{model_name=\"m\"} 2.25\nsglang:token_usage 0.01 # {a=\"b\"} 1\n\
            tgi_queue_size{ } 2\nunclosed{le=\"1 3\n";
        let rows = parse(text, 0).unwrap().rows;
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

    #[test]
    fn an_answer_without_a_sample_is_refused_and_an_empty_one_is_not() {
        for text in [
            "<html><body>404 not found</body></html>",
            "\u{1f}\u{8b}\u{8}",
            "{\"a\":1}",
            "1 2\n\"a\" 3",
        ] {
            let why = parse(text, 0).unwrap_err();
            assert!(why.contains("Prometheus text format"), "{text}: {why}");
        }
        let long = format!("<{}", "x".repeat(1 << 20));
        assert!(parse(&long, 0).unwrap_err().len() < 400);
        for text in ["", "\r\n", "# HELP a b\n# EOF\n"] {
            assert_eq!(parse(text, 0), Ok(Scraped::default()));
        }
    }

    #[test]
    fn the_first_sample_of_a_series_counts_and_the_others_are_reported() {
        let scraped = parse("a 100\r\na 5\r\na{x=\"1\"} 7\r\na 3\r\n", 0).unwrap();
        let values: Vec<f64> = scraped.rows.iter().map(|row| row.value).collect();
        assert_eq!(values, [100.0, 7.0]);
        assert_eq!(
            scraped.odd,
            ["an answer has lines that repeat an earlier series; 2 skipped, the first `a 5`"]
        );
    }

    #[test]
    fn an_answer_of_millions_of_samples_is_refused() {
        let text = "a 1\n".repeat(MOST_SAMPLES + 1);
        assert!(parse(&text, 0).unwrap_err().contains("1000000 samples"));
    }

    #[test]
    fn samples_are_left_out_once_they_fill_the_file_or_the_memory() {
        let row = |i: i64| ServerMetric {
            at_ns: i,
            name: "a".to_owned(),
            labels: format!("x=\"{i}\""),
            value: i as f64,
        };
        let folder = tempfile::tempdir().unwrap();
        let sheet = Sheet::create(folder.path(), &[]).unwrap().limited(4096);
        let mut kept = Kept::Sheet(Box::new(sheet));
        kept.room().unwrap();
        kept.extend((0..20_000).map(row).collect(), None).unwrap();
        let why = kept.room().unwrap_err();
        assert!(why.contains("`server_metrics` reached"), "{why}");

        let mut held = Held::default();
        held.extend([row(1)].into_iter());
        assert!(held.bytes > size_of::<ServerMetric>() && held.room().is_ok());
        held.bytes = MOST_HELD;
        assert!(held.room().unwrap_err().contains("2048 MiB"));
    }

    proptest! {
        #[test]
        fn any_answer_is_refused_or_read_as_it_is_written(
            lines in vec(
                prop_oneof![
                    "[a-c:]{1,2}(\\{[a-z]=\"([a-z,{} ]|\\\\\"|\\\\\\\\){0,6}\"\\})? (1|2.5e3|NaN|\\+Inf|-1e400|0x1)( 17)?( # \\{\\} 1)?",
                    any::<String>(),
                    "[a{}=\",\\\\ 1\r\n#]{0,16}",
                ],
                0..12,
            )
        ) {
            let text = lines.join("\n");
            if let Ok(scraped) = parse(&text, 3) {
                let mut seen = HashSet::new();
                for row in &scraped.rows {
                    prop_assert!(row.value.is_finite() && is_name(&row.name));
                    prop_assert!(seen.insert((row.name.clone(), row.labels.clone())));
                    // What was read means the same if it is written again.
                    let again = format!("{}{{{}}} {:e}", row.name, row.labels, row.value);
                    prop_assert_eq!(&parse(&again, 3).unwrap().rows, std::slice::from_ref(row));
                }
            }
        }
    }
}
