//! The results of a calibration: the table `calibration` and the document `instrument`.

use artifacts::{Table, TableError};
use contract::{CalibrationRow, Row as _};
use load::reference::Launcher;
use load::{LoadError, Origin, TimeSpan};
use pipeline::stage::{Control, Json};
use serde_json::json;

use crate::certificate::Certificate;
use crate::grid::{Bound, Grid};
use crate::point::{Errors, Measured, measure_point};

/// The machine that a calibration is valid for.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// The processor's model, by the kernel's name.
    pub cpu_model: Option<String>,
    /// The number of cores that this process may use.
    pub cpu_count: Option<i64>,
}

impl Host {
    /// Returns the facts of this machine.
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
    /// The bound that decides which load is covered.
    pub bound: Bound,
    /// The machine.
    pub host: Host,
    /// The core that the server was pinned to.
    pub server_core: Option<usize>,
    /// Whether the server spoke TLS.
    pub tls: bool,
}

/// Returns the last core that this process may run on, if there are at least two.
fn spare_core() -> Option<usize> {
    let allowed = rustix::thread::sched_getaffinity(None).ok()?;
    let cores: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|core| allowed.is_set(*core))
        .collect();
    if cores.len() < 2 {
        None
    } else {
        cores.last().copied()
    }
}

/// Calibrates with one run per point, one after the other.
///
/// # Errors
/// If the server cannot be started, the certificate cannot be created, or the run is stopped.
pub fn calibrate(
    grid: &Grid,
    launcher: &Launcher,
    origin: &Origin,
    control: &Control,
) -> Result<Calibration, LoadError> {
    let server_core = spare_core();
    // Removed together with the last server.
    let certificate = match grid.tls {
        true => Some(
            Certificate::throw_away().map_err(|e| LoadError::new(format!("a certificate: {e}")))?,
        ),
        false => None,
    };
    let with_tls = certificate
        .as_ref()
        .map(|made| launcher.with_certificate(&made.file(), &made.key_file()));
    let launcher = with_tls.as_ref().unwrap_or(launcher);
    let points = grid.points();
    let total = points.len() as u64;
    let mut measured = Vec::with_capacity(points.len());
    for (done, point) in (0..).zip(points) {
        control
            .check()
            .map_err(|failure| LoadError::new(failure.reason))?;
        control.progress(done, Some(total), "grid points");
        // A run reports its requests; a calibration reports its points instead.
        let inner = control.silent();
        measured.push(measure_point(
            grid,
            point,
            launcher,
            server_core,
            origin,
            &load::Generators::default(),
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
        let ms = |span: TimeSpan| span.nanoseconds() as f64 / 1e6;
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
    /// Chunks per second.
    pub chunk_rate: f64,
    /// Requests in flight.
    pub concurrency: i64,
}

impl Calibration {
    /// Returns the highest load at which the bound held: the last point, by chunk rate, before the
    /// first one that broke it. `None` if the slowest point broke it.
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
        let ms = |span: TimeSpan| span.nanoseconds() as f64 / 1e6;
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

    /// Returns the table `calibration`, with one row for each point and metric.
    ///
    /// # Errors
    /// Never for the values used here.
    pub fn table(&self) -> Result<Table, TableError> {
        let rows = self.points.iter().flat_map(|point| {
            let metrics = point.errors.iter();
            metrics.map(|(metric, errors)| self.row(point, metric, errors))
        });
        let columns = CalibrationRow::columns(&rows.collect::<Vec<_>>());
        Table::with_metadata(columns, &[("keys", "arrival,concurrency,rate,gap,metric")])
    }

    fn row(&self, point: &Measured, metric: &str, errors: &Errors) -> CalibrationRow {
        let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let health = point.health.as_ref();
        let arrival = match point.point.rate {
            Some(_) => "constant",
            None => "closed-loop",
        };
        CalibrationRow {
            arrival: arrival.to_owned(),
            concurrency: point.point.concurrency.map(i64::from),
            rate: point.point.rate,
            gap: point.point.gap.nanoseconds() as f64 / 1e6,
            metric: metric.to_owned(),
            n: i64::try_from(errors.absolute.n).ok(),
            bias: errors.bias,
            error_p50: errors.absolute.p50,
            error_p99: errors.absolute.p99,
            error_max: errors.absolute.max,
            reported_p50: errors.reported.p50,
            true_p50: errors.truth.p50,
            reported_p99: errors.reported.p99,
            true_p99: errors.truth.p99,
            requests: count(point.joined),
            lost: count(point.lost),
            chunk_rate: health.and_then(|h| h.chunk_rate),
            peak_in_flight: health.and_then(|h| h.peak_in_flight),
            cpu_per_chunk: point.cpu_per_chunk_us,
            stamp_error_bound: health.and_then(|h| h.stamp_error_bound_ms),
            bound_covers: point.bound_covers,
            client_verdict: health.and_then(|h| h.verdict),
            tls: self.tls,
            within_bound: point.within(self.bound),
            cpu_model: self.host.cpu_model.clone(),
            cpu_count: self.host.cpu_count,
        }
    }
}
