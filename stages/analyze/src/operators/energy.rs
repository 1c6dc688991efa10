//! `energy`: the energy of the GPUs over the measured window of a cell.

use contract::CellRows;
use pipeline::{Failure, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use artifacts::{Table, TableError};

use crate::columns::Columns;
use crate::frame::{Frame, Row, Spec, spans};
use crate::operator::{Context, Draft, Reads, TypedOperator};
use crate::operators::cells::each_cell;

pub(crate) struct Energy;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Parameters {
    /// The load stage to read, if the stage needs several.
    #[serde(default)]
    load: Option<String>,
    /// The indices of the GPUs that count; by default, all GPUs of the machine.
    #[serde(default)]
    gpus: Vec<i64>,
}

/// The energy used by one cell.
struct Taken {
    /// In joules, or the reason why it is unknown.
    energy: Result<f64, String>,
    /// The source of the figure.
    source: Option<&'static str>,
    seconds: Option<f64>,
    tokens: Option<i64>,
    gpus: usize,
    samples: usize,
    interval: Option<f64>,
}

impl Taken {
    fn energy(&self) -> Option<f64> {
        self.energy.as_ref().ok().copied()
    }

    fn tokens_per_joule(&self) -> Option<f64> {
        let energy = self.energy().filter(|e| *e > 0.0)?;
        Some(self.tokens? as f64 / energy)
    }
}

fn columns() -> Columns<'static, Taken> {
    let energy = "rise of the GPUs' own counter energy_j over the measured window, all counted \
             GPUs together; for a GPU without a counter, the trapezoid integral of its power_w; \
             null if a sensor is absent or silent";
    let source = "`counter` if all counted GPUs report an energy counter, `power` if none does, otherwise `both`; null without energy";
    let per_joule = "output tokens of ok requests ÷ energy; null if a count is unknown";
    let window = "first sent_ns to last done_ns of the measured requests";
    let samples = "samples of power within the window, all counted GPUs together";
    Columns::new()
        .with(Spec::float("energy", "J", energy), Taken::energy)
        .with(Spec::float("power_w_mean", "W", "energy ÷ window"), |t| {
            Some(t.energy()? / t.seconds?)
        })
        .with(
            Spec::float("tokens_per_joule", "tok/J", per_joule),
            Taken::tokens_per_joule,
        )
        .with(Spec::float("window_s", "s", window), |t| t.seconds)
        .with(Spec::int("gpus", "1", "GPUs counted"), |t| t.gpus)
        .with(Spec::int("n_samples", "1", samples), |t| t.samples)
        .with(
            Spec::float("interval_ms", "ms", "declared interval of the samples"),
            |t| t.interval,
        )
        .with(Spec::text("energy_from", source), |t| {
            t.energy().and(t.source).map(str::to_owned)
        })
        .with(
            Spec::text("why", "why the energy is null; null if it is not"),
            |t| t.energy.as_ref().err().cloned(),
        )
        .not_negative()
}

impl TypedOperator for Energy {
    type Parameters = Parameters;
    type Made = Frame;
    const NAME: &'static str = "energy";
    const SUMMARY: &'static str = "\
        One row per load cell: the energy of the GPUs over the measured window, and output tokens per joule.";
    const SOURCE: &'static str = "\
        The operator reads `gpu_telemetry`. A GPU's own energy counter is exact, but it is read only at the samples, \
        so its value at each end of the window is interpolated.\n\n\
        For a GPU without a counter, power is integrated by the trapezoid rule. The sensor averages power, over a \
        second on many GPUs, so in short windows it also covers the time before. Power at each end of the window is \
        interpolated, or held from a sample at most five intervals away. If a gap is longer than five intervals, the \
        energy is null.\n\n\
        The published unit \"tok/W\" means tok/s/W, which is tok/J.";
    const READS: Reads = Reads::Verified;

    fn plan(_: &mut Parameters, _: &Draft<'_>) -> Result<Vec<Spec>, Vec<Problem>> {
        Ok(columns().specs())
    }

    fn run(given: &Parameters, context: &Context<'_>) -> Result<Frame, Failure> {
        let load = context.load(given.load.as_deref())?;
        let columns = columns();
        each_cell(context, load, columns.specs(), |at, cell| {
            let row = of_cell((at, &columns), cell, &given.gpus);
            row.map_err(|e| Failure::failed(format!("`gpu_telemetry`: {e}")))
        })
    }
}

/// Returns the first `sent_ns` and the last `done_ns` of the measured requests.
pub(super) fn window(cell: &CellRows) -> Option<(i64, i64)> {
    cell.window().filter(|(from, to)| from < to)
}

/// The samples of all GPUs of a cell.
struct Samples {
    at: Vec<Option<i64>>,
    gpu: Vec<Option<i64>>,
    power: Vec<Option<f64>>,
    /// The readings of the energy counters; empty in tables of older versions.
    joules: Vec<Option<f64>>,
}

/// The energy of one GPU over the window.
struct GpuEnergy {
    /// The energy in J, or why it is undefined.
    energy: Result<f64, String>,
    /// What it was taken from: `counter` or `power`.
    source: &'static str,
    /// Samples of the power within the window.
    samples: usize,
}

impl Samples {
    fn of(table: &Table) -> Result<Self, TableError> {
        Ok(Self {
            at: table.int("at_ns")?,
            gpu: table.int("gpu")?,
            power: table.float("power_w")?,
            joules: table.float("energy_j").unwrap_or_default(),
        })
    }

    /// Returns the energy of one GPU over a window in ns, and adds the rows behind it to `used`.
    fn energy_of(
        &self,
        which: i64,
        (from, to): (i64, i64),
        interval: Option<f64>,
        used: &mut Vec<usize>,
    ) -> GpuEnergy {
        let (mut points, mut counts) = (Vec::new(), Vec::new());
        for i in (0..self.gpu.len()).filter(|i| self.gpu[*i] == Some(which)) {
            let joules = self.joules.get(i).copied().flatten();
            points.extend(self.at[i].zip(self.power[i]));
            counts.extend(self.at[i].zip(joules));
            if self.at[i].is_some() && (self.power[i].is_some() || joules.is_some()) {
                used.push(i);
            }
        }
        let inside = points.iter().filter(|(at, _)| (from..=to).contains(at));
        let samples = inside.count();
        let (source, energy) = match rise(&counts, from, to) {
            Some(joules) => ("counter", Ok(joules)),
            None => ("power", integral(&points, from, to, interval)),
        };
        GpuEnergy {
            energy,
            source,
            samples,
        }
    }
}

fn of_cell(
    (key, columns): (&[artifacts::Scalar], &Columns<'_, Taken>),
    cell: &CellRows,
    wanted: &[i64],
) -> Result<Row, TableError> {
    let window = window(cell);
    let seconds = window.map(|(from, to)| (to - from) as f64 / 1e9);
    let rows = cell
        .requests
        .iter()
        .enumerate()
        .filter(|(_, r)| r.is_measured())
        .map(|(i, _)| i);
    let mut lineage = spans(cell.requests_source(), rows);
    let mut tokens = cell
        .measured()
        .filter(|r| r.is_ok())
        .map(|r| r.output_tokens);
    let tokens: Option<i64> = tokens.try_fold(0, |sum, n| Some(sum + n?));
    let mut source = None;
    let mut row = |energy: Result<f64, String>,
                   source,
                   gpus: usize,
                   samples: usize,
                   interval: Option<f64>| {
        let taken = Taken {
            energy,
            source,
            seconds,
            tokens,
            gpus,
            samples,
            interval,
        };
        columns.row(key.to_vec(), &taken, std::mem::take(&mut lineage))
    };
    let Some((digest, table)) = cell.beside.get("gpu_telemetry") else {
        return Ok(row(Err("no GPU was sampled".to_owned()), None, 0, 0, None));
    };
    let interval = table
        .metadata("interval_ms")
        .and_then(|ms| ms.parse::<f64>().ok());
    let samples = Samples::of(table)?;
    let mut gpus: Vec<i64> = match wanted {
        [] => samples.gpu.iter().copied().flatten().collect(),
        wanted => wanted.to_vec(),
    };
    gpus.sort_unstable();
    gpus.dedup();
    let Some(window) = window else {
        let why = Err("nothing was measured".to_owned());
        return Ok(row(why, None, gpus.len(), 0, interval));
    };
    let (mut energy, mut inside, mut used) = (Ok(0.0), 0, Vec::new());
    for which in &gpus {
        let part = samples.energy_of(*which, window, interval, &mut used);
        inside += part.samples;
        source = match source {
            None => Some(part.source),
            Some(source) if source == part.source => Some(source),
            Some(_) => Some("both"),
        };
        energy = energy.and_then(|sum| {
            let joules = part.energy.map_err(|why| format!("GPU {which}: {why}"))?;
            Ok(sum + joules)
        });
    }
    if gpus.is_empty() {
        energy = Err("no GPU was sampled".to_owned());
    }
    let mut row = row(energy, source, gpus.len(), inside, interval);
    row.lineage
        .extend(spans(cell.source("gpu_telemetry", *digest), used));
    Ok(row)
}

/// Samples further apart than this many intervals leave a gap.
const GAP: f64 = 5.0;

/// Returns how much a counter (J, at stamps in ns) rose from one stamp to another, interpolated between readings.
/// `None` if it was not read before the first stamp or after the last, or was reset in between.
fn rise(counts: &[(i64, f64)], from: i64, to: i64) -> Option<f64> {
    let mut counts = counts.to_vec();
    counts.sort_by_key(|(at, _)| *at);
    let rising = counts.windows(2).all(|pair| pair[0].1 <= pair[1].1);
    let at = |t: i64| {
        let after = counts.partition_point(|(at, _)| *at < t);
        let (end, reached) = *counts.get(after)?;
        if end == t {
            return Some(reached);
        }
        let (start, had) = *counts.get(after.checked_sub(1)?)?;
        Some(had + (reached - had) * (t - start) as f64 / (end - start) as f64)
    };
    let joules = at(to)? - at(from)?;
    rising.then_some(joules)
}

/// Returns the integral of power (W, at stamps in ns) from one stamp to another, J.
///
/// # Errors
/// If there are no samples, or a gap of more than five intervals.
fn integral(
    points: &[(i64, f64)],
    from: i64,
    to: i64,
    interval_ms: Option<f64>,
) -> Result<f64, String> {
    let mut points = points.to_vec();
    points.sort_by_key(|(at, _)| *at);
    let (Some(first), Some(last)) = (points.first().copied(), points.last().copied()) else {
        return Err("no power was read".to_owned());
    };
    // Outside the first and last sample, the nearest power is held.
    points.insert(0, (first.0.min(from), first.1));
    points.push((last.0.max(to), last.1));
    let longest = interval_ms.map_or(f64::INFINITY, |ms| GAP * ms * 1e6);
    let mut joules = 0.0;
    for pair in points.windows(2) {
        let ((t0, p0), (t1, p1)) = (pair[0], pair[1]);
        let (a, b) = (t0.max(from), t1.min(to));
        if a >= b {
            continue;
        }
        if (t1 - t0) as f64 > longest {
            return Err(format!(
                "no sample for {:.1} s within the window",
                (b - a) as f64 / 1e9
            ));
        }
        let at = |t: i64| p0 + (p1 - p0) * (t - t0) as f64 / (t1 - t0) as f64;
        joules += (at(a) + at(b)) / 2.0 * (b - a) as f64 / 1e9;
    }
    Ok(joules)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    #[test]
    fn the_integral_is_the_one_by_hand() {
        // 100 W at 0 s, 200 W at 2 s, 200 W at 4 s, over 1 s to 3 s:
        // (150 + 200) / 2 · 1 + 200 · 1 = 375 J.
        let points = [(0, 100.0), (2 * S, 200.0), (4 * S, 200.0)];
        assert_eq!(integral(&points, S, 3 * S, Some(2000.0)), Ok(375.0));
        // Constant power needs one sample, held at both ends.
        assert_eq!(integral(&[(S, 50.0)], 0, 2 * S, Some(1000.0)), Ok(100.0));
        // Samples outside the window do not count.
        assert_eq!(integral(&points, 3 * S, 4 * S, None), Ok(200.0));
    }

    #[test]
    fn the_counter_is_read_between_its_samples() {
        let counts = [(0, 1000.0), (S, 1100.0), (2 * S, 1400.0)];
        assert_eq!(rise(&counts, S / 2, 2 * S), Some(350.0));
        assert_eq!(rise(&counts, 0, S), Some(100.0));
        // Not read after the end, or not before the beginning.
        assert_eq!(rise(&counts, 0, 3 * S), None);
        assert_eq!(rise(&counts[1..], 0, 2 * S), None);
        // A reloaded driver counts from zero.
        assert_eq!(
            rise(&[(0, 1000.0), (S, 10.0), (2 * S, 20.0)], 0, 2 * S),
            None
        );
    }

    #[test]
    fn a_silent_sensor_leaves_the_energy_undefined() {
        let points = [(0, 100.0), (S, 100.0)];
        assert_eq!(
            integral(&points, 0, 10 * S, Some(1000.0)),
            Err("no sample for 9.0 s within the window".to_owned())
        );
        assert_eq!(
            integral(&[], 0, S, Some(1000.0)),
            Err("no power was read".to_owned())
        );
    }
}
