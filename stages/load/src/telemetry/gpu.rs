//! GPUs: power, clocks, temperature, utilisation, memory, reasons to throttle.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use artifacts::{Column, Table, TableError};

use super::companion::{Absent, Companion, Left};
use super::nvml::Library;
use super::power::Power;
use super::settings::Gpu;
use super::smi::Smi;
use crate::sheet::Sheet;

/// One sample of one GPU. What it does not tell is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(
    missing_docs,
    reason = "the columns are described once, in `gpu_table`"
)]
pub struct GpuRow {
    pub at_ns: i64,
    pub gpu: i64,
    pub uuid: Option<String>,
    pub name: Option<String>,
    pub power: Option<f64>,
    pub energy: Option<f64>,
    pub sm_clock: Option<f64>,
    pub memory_clock: Option<f64>,
    pub temperature: Option<f64>,
    pub sm_utilisation: Option<f64>,
    pub memory_utilisation: Option<f64>,
    pub memory_used: Option<i64>,
    pub memory_total: Option<i64>,
    pub throttle_reasons: Option<String>,
}

/// Makes the table `gpu_telemetry`: one row a sample and GPU, in order of time.
///
/// # Errors
/// Never for rows made here.
pub fn gpu_table(rows: &[GpuRow]) -> Result<Table, TableError> {
    let int = |name: &str, meaning: &str, f: fn(&GpuRow) -> Option<i64>| {
        Column::int(name, rows.iter().map(f)).describe(meaning)
    };
    let float = |name: &str, unit: &str, meaning: &str, f: fn(&GpuRow) -> Option<f64>| {
        Column::float(name, rows.iter().map(f))
            .unit(unit)
            .describe(meaning)
    };
    let text = |name: &str, meaning: &str, f: fn(&GpuRow) -> Option<String>| {
        Column::text(name, rows.iter().map(f)).describe(meaning)
    };
    Table::new(vec![
        int(
            "at_ns",
            "when the sample was taken (NVML) or its line came (nvidia-smi), since the cell's start",
            |r| Some(r.at_ns),
        )
        .unit("ns"),
        int("gpu", "the GPU's index on this machine", |r| Some(r.gpu)),
        text("uuid", "the GPU's own identity", |r| r.uuid.clone()),
        text("name", "its model", |r| r.name.clone()),
        float("power_w", "W", "power drawn, as the sensor averages it; null if it has none", |r| r.power),
        float(
            "energy_j",
            "J",
            "energy since the driver was loaded, by the GPU's own counter; null if untold",
            |r| r.energy,
        ),
        float("sm_clock_mhz", "MHz", "clock of its multiprocessors", |r| r.sm_clock),
        float("memory_clock_mhz", "MHz", "clock of its memory", |r| r.memory_clock),
        float("temperature_c", "°C", "its temperature", |r| r.temperature),
        float(
            "sm_utilisation",
            "1",
            "share of the driver's sampling period in which a kernel ran; a kernel that spins counts as well as \
             one that computes",
            |r| r.sm_utilisation,
        ),
        float("memory_utilisation", "1", "share of that period in which memory was read or written", |r| {
            r.memory_utilisation
        }),
        int("memory_used_bytes", "memory in use, by all", |r| r.memory_used).unit("B"),
        int("memory_total_bytes", "memory there is", |r| r.memory_total).unit("B"),
        text("throttle_reasons", "what limits its clocks, joined by `+`; empty if nothing does", |r| {
            r.throttle_reasons.clone()
        }),
    ])
}

/// The reasons of the driver's bit mask (nvml.h, `nvmlClocksEventReason…`).
const REASONS: [(u64, &str); 9] = [
    (0x001, "idle"),
    (0x002, "applications-clocks"),
    (0x004, "power-cap"),
    (0x008, "hardware-slowdown"),
    (0x010, "sync-boost"),
    (0x020, "thermal"),
    (0x040, "hardware-thermal"),
    (0x080, "power-brake"),
    (0x100, "display-clocks"),
];

/// Returns the words of a bit mask; bits not known here as a hexadecimal number.
pub(super) fn reasons(mask: u64) -> String {
    let known = REASONS.iter().filter(|(bit, _)| mask & bit != 0);
    let rest = mask & !REASONS.iter().map(|(bit, _)| bit).sum::<u64>();
    let words = known.map(|(_, word)| (*word).to_owned());
    words
        .chain((rest != 0).then(|| format!("{rest:#x}")))
        .collect::<Vec<_>>()
        .join("+")
}

/// A way to read GPUs.
pub(super) trait Source: Send {
    /// Says where the rows come from: `nvml` or `nvidia-smi`.
    fn word(&self) -> &'static str;

    /// Returns the rows since the last call, taken at `at_ns` unless they were stamped when
    /// they came.
    fn rows(&mut self, at_ns: i64) -> Result<Vec<GpuRow>, String>;

    /// Returns facts for the record.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns how it ended before the run did.
    fn ended(&self) -> Option<String> {
        None
    }
}

/// The GPUs as a companion.
pub(crate) struct Gpus {
    source: Box<dyn Source>,
    sheet: Sheet<GpuRow>,
    power: Arc<Power>,
}

/// Returns where a program is on a search path.
pub(crate) fn find_program(name: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    std::env::split_paths(path?)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

impl Gpus {
    /// Finds a way to read GPUs and begins `gpu_telemetry`. `smi` is where `nvidia-smi` is.
    ///
    /// # Errors
    /// If there is no GPU, or no way to read it.
    pub(crate) fn new(
        folder: &Path,
        choice: Gpu,
        smi: Option<&Path>,
        interval_ms: u64,
        epoch: crate::measure::Epoch,
        power: Arc<Power>,
    ) -> Result<Self, Absent> {
        let absent = |reason: String| Absent {
            table: "gpu_telemetry",
            reason,
        };
        let by_program = || match smi {
            Some(program) => {
                Smi::start(program, interval_ms, epoch).map(|smi| Box::new(smi) as Box<dyn Source>)
            }
            None => Err("no `nvidia-smi` on the search path".to_owned()),
        };
        let by_library = || Library::open().map(|library| Box::new(library) as Box<dyn Source>);
        let source = match choice {
            Gpu::None => Err("not asked for".to_owned()),
            Gpu::Nvml => by_library(),
            Gpu::NvidiaSmi => by_program(),
            Gpu::Auto => by_library()
                .or_else(|first| by_program().map_err(|then| format!("{first}; {then}"))),
        };
        let source = source.map_err(absent)?;
        let (interval, word) = (interval_ms.to_string(), source.word());
        let notes = [("interval_ms", interval.as_str()), ("source", word)];
        let sheet = Sheet::create(folder, "gpu_telemetry", gpu_table, &notes)
            .map_err(|e| absent(e.to_string()))?;
        Ok(Self {
            source,
            sheet,
            power,
        })
    }
}

impl Companion for Gpus {
    fn name(&self) -> &'static str {
        "gpu_telemetry"
    }

    fn sample(&mut self, at_ns: i64) -> Result<(), String> {
        for row in self.source.rows(at_ns)? {
            if let Some(watts) = row.power {
                self.power.note(row.gpu, row.at_ns, watts);
            }
            self.sheet.push(row).map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Left {
        let notes = self.source.notes();
        let mut left = Left::of(self.sheet);
        left.warnings.extend(self.source.ended());
        left.observations
            .insert("gpu_telemetry_source".to_owned(), self.source.word().into());
        if !notes.is_empty() {
            left.observations
                .insert("gpu_telemetry".to_owned(), notes.join("; ").into());
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_words_and_unknown_bits_are_shown() {
        assert_eq!(reasons(0), "");
        assert_eq!(reasons(0x24), "power-cap+thermal");
        assert_eq!(reasons(0x8001), "idle+0x8000");
    }

    #[test]
    fn a_program_is_found_on_the_path_given() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("nvidia-smi"), "").unwrap();
        let path = std::env::join_paths([Path::new("/nowhere"), folder.path()]).unwrap();
        assert_eq!(
            find_program("nvidia-smi", Some(&path)),
            Some(folder.path().join("nvidia-smi"))
        );
        assert_eq!(find_program("nvidia-smi-2", Some(&path)), None);
        assert_eq!(find_program("nvidia-smi", None), None);
    }
}
