//! Figures of a cell, under the names and with the definitions of the columns of `cell-summary`.

use contract::{CellRows, METRICS, Metric};
use statistics::{Sample, least_for_quantile};

/// The level at which a quantile must be bounded on both sides, as in `cell-summary`.
const LEVEL: f64 = 0.95;

/// What a throughput counts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Counted {
    Requests,
    OutputTokens,
    AllTokens,
}

const THROUGHPUTS: [(&str, Counted); 3] = [
    ("request_throughput", Counted::Requests),
    ("output_throughput", Counted::OutputTokens),
    ("total_throughput", Counted::AllTokens),
];

/// The statistics of a metric; `None` for the mean.
const STATISTICS: [(&str, Option<f64>); 5] = [
    ("mean", None),
    ("p50", Some(0.5)),
    ("p90", Some(0.9)),
    ("p95", Some(0.95)),
    ("p99", Some(0.99)),
];

/// One figure of a cell.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Figure {
    /// A count of ok requests, divided by the window: first `sent_ns` to last `done_ns` of the measured requests.
    Throughput(ThroughputOf),
    /// A statistic of a metric over the ok requests.
    Statistic(&'static Metric, Option<f64>),
}

/// The numerator of a throughput.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThroughputOf(Counted);

impl Figure {
    /// Returns the figure with the name of a column.
    pub(crate) fn named(name: &str) -> Option<Self> {
        if let Some((_, counted)) = THROUGHPUTS.iter().find(|(n, _)| *n == name) {
            return Some(Self::Throughput(ThroughputOf(*counted)));
        }
        let (metric, statistic) = name.rsplit_once('_')?;
        let (_, statistic) = STATISTICS.iter().find(|(n, _)| *n == statistic)?;
        Some(Self::Statistic(contract::metric(metric)?, *statistic))
    }

    /// Returns the names of all figures.
    pub(crate) fn names() -> Vec<String> {
        let throughputs = THROUGHPUTS.iter().map(|(name, _)| (*name).to_owned());
        let statistics = METRICS.iter().flat_map(|metric| {
            let name_of = |(name, _): &(&str, _)| format!("{}_{name}", metric.name);
            STATISTICS.iter().map(name_of)
        });
        throughputs.chain(statistics).collect()
    }

    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Throughput(ThroughputOf(Counted::Requests)) => "req/s",
            Self::Throughput(_) => "tok/s",
            Self::Statistic(metric, _) => metric.unit,
        }
    }

    /// Returns the value over a cell's measured requests; `None` if it is undefined, or if a quantile has too few values
    /// to be bounded on both sides.
    pub(crate) fn of(self, rows: &CellRows) -> Option<f64> {
        match self {
            Self::Throughput(ThroughputOf(counted)) => throughput(counted, rows),
            Self::Statistic(metric, statistic) => {
                let timings = contract::timings(rows);
                let ok = timings.iter().filter(|t| t.request.is_ok());
                let sample = Sample::new(ok.filter_map(|t| metric.of(t))).ok()?;
                match statistic {
                    None => Some(sample.mean()),
                    Some(p) => {
                        (sample.len() >= least_for_quantile(p, LEVEL)).then(|| sample.quantile(p))
                    }
                }
            }
        }
    }
}

fn throughput(counted: Counted, rows: &CellRows) -> Option<f64> {
    let seconds = rows.window_s()?;
    let ok = || rows.measured().filter(|r| r.is_ok());
    let amount = match counted {
        Counted::Requests => Some(ok().count() as i64),
        Counted::OutputTokens => ok().map(|r| r.output_tokens).sum(),
        Counted::AllTokens => ok()
            .map(|r| Some(r.output_tokens? + r.prompt_tokens?))
            .sum(),
    };
    Some(amount? as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use contract::RequestStatus;
    use contract::synthetic::{self, ClosedLoop};

    use super::*;

    fn rows() -> CellRows {
        let mut requests = ClosedLoop::default().requests();
        requests[3].status = RequestStatus::Timeout;
        synthetic::rows_of(requests)
    }

    #[test]
    fn throughputs_count_ok_requests_over_the_window_of_all() {
        let rows = rows();
        let sent = rows
            .requests
            .iter()
            .filter_map(|r| r.sent_ns)
            .min()
            .unwrap();
        let done = rows
            .requests
            .iter()
            .filter_map(|r| r.done_ns)
            .max()
            .unwrap();
        let seconds = (done - sent) as f64 / 1e9;
        let value = |name: &str| Figure::named(name).unwrap().of(&rows).unwrap();
        assert!((value("request_throughput") * seconds - 39.0).abs() < 1e-9);
        assert!((value("output_throughput") * seconds - 39.0 * 17.0).abs() < 1e-6);
        assert!(value("total_throughput") > value("output_throughput"));
    }

    #[test]
    fn a_quantile_of_too_few_requests_is_unknown() {
        let value = |name: &str| Figure::named(name).unwrap().of(&rows());
        assert!(value("ttft_ms_p50").is_some() && value("ttft_ms_p90").is_some());
        assert_eq!(value("ttft_ms_p99"), None);
    }

    #[test]
    fn every_name_is_read_and_others_are_not() {
        assert!(Figure::names().iter().all(|n| Figure::named(n).is_some()));
        for wrong in ["throughput", "ttft_ms", "ttft_ms_p12", "_mean", ""] {
            assert!(Figure::named(wrong).is_none(), "{wrong}");
        }
    }
}
