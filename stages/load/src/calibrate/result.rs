//! What a calibration leaves: the table `calibration` and the document `instrument`.

use artifacts::{Column, Table, TableError};
use pipeline::stage::{Control, Json};
use serde_json::json;

use super::certificate::Certificate;
use super::grid::{Bound, Grid};
use super::point::{Errors, Measured, measure_point};
use super::process::{Launcher, spare_core};
use crate::random::Origin;
use crate::run::LoadError;

/// The machine a calibration holds for.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// The processor's model, as the kernel names it.
    pub cpu_model: Option<String>,
    /// Cores this process may use.
    pub cpu_count: Option<i64>,
}

impl Host {
    /// Asks this machine.
    pub fn this() -> Self {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info
            .lines()
            .find_map(|line| line.strip_prefix("model name"));
        let cpu_count = std::thread::available_parallelism().ok();
        Self {
            cpu_model: model.map(|m| m.trim_start_matches(['\t', ' ', ':']).trim().to_owned()),
            cpu_count: cpu_count.and_then(|n| i64::try_from(n.get()).ok()),
        }
    }
}

/// A calibration of this load generator on this machine.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// Every point of the grid, in its order.
    pub points: Vec<Measured>,
    /// The bound that decides what is covered.
    pub bound: Bound,
    /// The machine.
    pub host: Host,
    /// The core the server was pinned to.
    pub server_core: Option<usize>,
    /// Whether it spoke TLS.
    pub tls: bool,
}

/// Calibrates: one run a point, one after the other.
///
/// # Errors
/// If the server cannot be started, no certificate can be made, or the run is stopped.
pub fn calibrate(
    grid: &Grid,
    launcher: &Launcher,
    origin: &Origin,
    control: &Control,
) -> Result<Calibration, LoadError> {
    let server_core = spare_core();
    // Gone when the last server is.
    let certificate = match grid.tls {
        true => {
            Some(Certificate::throw_away().map_err(|e| LoadError(format!("a certificate: {e}")))?)
        }
        false => None,
    };
    let with_tls = certificate
        .as_ref()
        .map(|certificate| launcher.with(certificate));
    let launcher = with_tls.as_ref().unwrap_or(launcher);
    let points = grid.points();
    let total = points.len() as u64;
    let mut measured = Vec::with_capacity(points.len());
    for (done, point) in (0..).zip(points) {
        control
            .check()
            .map_err(|failure| LoadError(failure.reason))?;
        control.progress(done, Some(total), "grid points");
        // The run tells its requests; a calibration tells its points.
        let inner = Control::new(control.stop_flag(), None, Box::new(|_| ()));
        measured.push(measure_point(
            grid,
            point,
            launcher,
            server_core,
            origin,
            &inner,
        )?);
    }
    control.progress(total, Some(total), "grid points");
    Ok(Calibration {
        points: measured,
        bound: grid.bound,
        host: Host::this(),
        server_core,
        tls: grid.tls,
    })
}

impl Measured {
    /// Returns the errors of a metric.
    pub fn errors_of(&self, metric: &str) -> Option<&Errors> {
        self.errors
            .iter()
            .find(|(name, _)| *name == metric)
            .map(|(_, errors)| errors)
    }

    /// Returns whether TTFT and E2E are within bounds and every request was answered and found.
    pub fn within(&self, bound: Bound) -> bool {
        let ms = |span: crate::Span| span.nanoseconds() as f64 / 1e6;
        let keeps = |metric: &str| {
            self.errors_of(metric)
                .is_some_and(|e| e.absolute.p50 <= ms(bound.p50) && e.absolute.p99 <= ms(bound.p99))
        };
        self.lost == 0 && keeps("ttft") && keeps("e2e")
    }

    fn chunk_rate(&self) -> f64 {
        self.health
            .as_ref()
            .and_then(|h| h.chunk_rate)
            .unwrap_or(0.0)
    }

    fn peak_in_flight(&self) -> i64 {
        self.health
            .as_ref()
            .and_then(|h| h.peak_in_flight)
            .unwrap_or(0)
    }
}

/// The highest load up to which every point keeps the bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Covered {
    /// Chunks a second.
    pub chunk_rate: f64,
    /// Requests in flight.
    pub concurrency: i64,
}

impl Calibration {
    /// Returns the highest load at which the bound held: in the order of their chunk rates, the
    /// points before the first that broke it. `None` if the slowest point did.
    pub fn covered(&self) -> Option<Covered> {
        let mut points: Vec<&Measured> = self.points.iter().collect();
        points.sort_by(|a, b| a.chunk_rate().total_cmp(&b.chunk_rate()));
        let kept: Vec<&&Measured> = points.iter().take_while(|p| p.within(self.bound)).collect();
        Some(Covered {
            chunk_rate: kept.last()?.chunk_rate(),
            concurrency: kept.iter().map(|p| p.peak_in_flight()).max()?,
        })
    }

    /// Makes the document `instrument`.
    pub fn instrument(&self) -> Json {
        let ms = |span: crate::Span| span.nanoseconds() as f64 / 1e6;
        let covered = self.covered();
        json!({
            "tool": "benchtrail",
            "version": env!("CARGO_PKG_VERSION"),
            "bound": {"metrics": ["ttft", "e2e"], "p50_ms": ms(self.bound.p50), "p99_ms": ms(self.bound.p99)},
            "covered": covered.map(|c| json!({"chunk_rate": c.chunk_rate, "concurrency": c.concurrency})),
            "points": self.points.len(),
            "points_within_bound": self.points.iter().filter(|p| p.within(self.bound)).count(),
            "host": {"cpu_model": self.host.cpu_model, "cpu_count": self.host.cpu_count},
            "server_core": self.server_core,
            "tls": self.tls,
        })
    }

    /// Makes the table `calibration`: one row for each point and metric.
    ///
    /// # Errors
    /// Never for values made here.
    pub fn table(&self) -> Result<Table, TableError> {
        type Row<'a> = (&'a Measured, &'static str, &'a Errors);
        let rows: Vec<Row<'_>> = self
            .points
            .iter()
            .flat_map(|point| {
                point
                    .errors
                    .iter()
                    .map(move |(name, errors)| (point, *name, errors))
            })
            .collect();
        let ms = |name: &str, meaning: &str, of: &dyn Fn(&Row<'_>) -> Option<f64>| {
            Column::float(name, rows.iter().map(of))
                .unit("ms")
                .describe(meaning)
        };
        let float =
            |name: &str, unit: &str, meaning: &str, of: &dyn Fn(&Row<'_>) -> Option<f64>| {
                Column::float(name, rows.iter().map(of))
                    .unit(unit)
                    .describe(meaning)
            };
        let int = |name: &str, unit: &str, meaning: &str, of: &dyn Fn(&Row<'_>) -> Option<i64>| {
            Column::int(name, rows.iter().map(of))
                .unit(unit)
                .describe(meaning)
        };
        let arrival = |r: &Row<'_>| {
            if r.0.point.rate.is_some() {
                "constant"
            } else {
                "closed-loop"
            }
        };
        Table::with_metadata(
            vec![
                Column::text("arrival", rows.iter().map(|r| Some(arrival(r)))).describe("key"),
                int(
                    "concurrency",
                    "clients",
                    "key: clients of a closed loop",
                    &|r| r.0.point.concurrency.map(i64::from),
                ),
                float("rate", "req/s", "key: rate of an open loop", &|r| {
                    r.0.point.rate
                }),
                ms("gap", "key: between the tokens of an answer", &|r| {
                    Some(r.0.point.gap.nanoseconds() as f64 / 1e6)
                }),
                Column::text("metric", rows.iter().map(|r| Some(r.1)))
                    .describe("key: `ttft`, `e2e`, `icl`, `stamp` or `send_lag`"),
                int("n", "1", "values compared", &|r| {
                    i64::try_from(r.2.absolute.n).ok()
                }),
                ms("bias", "mean of reported − true", &|r| Some(r.2.bias)),
                ms("error_p50", "median of |reported − true|", &|r| {
                    Some(r.2.absolute.p50)
                }),
                ms(
                    "error_p99",
                    "99th percentile of |reported − true|",
                    &|r| Some(r.2.absolute.p99),
                ),
                ms("error_max", "largest |reported − true|", &|r| {
                    Some(r.2.absolute.max)
                }),
                ms("reported_p50", "median reported", &|r| {
                    Some(r.2.reported.p50)
                }),
                ms("true_p50", "median by the server's log", &|r| {
                    Some(r.2.truth.p50)
                }),
                ms("reported_p99", "99th percentile reported", &|r| {
                    Some(r.2.reported.p99)
                }),
                ms("true_p99", "99th percentile by the server's log", &|r| {
                    Some(r.2.truth.p99)
                }),
                int(
                    "requests",
                    "requests",
                    "requests answered and found in the log",
                    &|r| i64::try_from(r.0.joined).ok(),
                ),
                int("lost", "requests", "requests that were not", &|r| {
                    i64::try_from(r.0.lost).ok()
                }),
                float(
                    "chunk_rate",
                    "chunks/s",
                    "chunks a second over the point",
                    &|r| r.0.health.as_ref()?.chunk_rate,
                ),
                int(
                    "peak_in_flight",
                    "requests",
                    "most requests in flight at once",
                    &|r| r.0.health.as_ref()?.peak_in_flight,
                ),
                float(
                    "cpu_per_chunk",
                    "us",
                    "CPU time of the measuring thread for each chunk",
                    &|r| r.0.cpu_per_chunk_us,
                ),
                ms("stamp_error_bound", "what the run itself stated", &|r| {
                    r.0.health.as_ref()?.stamp_error_bound_ms
                }),
                float(
                    "bound_covers",
                    "1",
                    "share of chunks stamped late by at most that",
                    &|r| r.0.bound_covers,
                ),
                Column::text(
                    "client_verdict",
                    rows.iter()
                        .map(|r| Some(r.0.health.as_ref()?.verdict?.word())),
                )
                .describe("what the run said of its client"),
                Column::boolean("tls", rows.iter().map(|_| Some(self.tls)))
                    .describe("whether the reference server spoke TLS"),
                Column::boolean(
                    "within_bound",
                    rows.iter().map(|r| Some(r.0.within(self.bound))),
                )
                .describe("whether the point keeps the declared bound"),
                Column::text(
                    "cpu_model",
                    rows.iter().map(|_| self.host.cpu_model.clone()),
                )
                .describe("the machine"),
                int("cpu_count", "1", "cores of the machine", &|_| {
                    self.host.cpu_count
                }),
            ],
            &[("keys", "arrival,concurrency,rate,gap,metric")],
        )
    }
}
