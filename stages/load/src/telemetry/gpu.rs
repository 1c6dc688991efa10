//! GPUs: power, clocks, temperature, utilisation, memory, reasons to throttle.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use contract::{GpuSample, ThrottleReason};
use pipeline::executable::find;

use super::companion::{Absent, Companion, Sampled};
use super::nvml::Library;
use super::power::Power;
use super::settings::Gpu;
use super::smi::Smi;
use crate::sheet::Sheet;

/// The reasons of the driver's bit mask (nvml.h, `nvmlClocksEventReason…`).
const REASONS: [(u64, ThrottleReason); 9] = [
    (0x001, ThrottleReason::Idle),
    (0x002, ThrottleReason::ApplicationsClocks),
    (0x004, ThrottleReason::PowerCap),
    (0x008, ThrottleReason::HardwareSlowdown),
    (0x010, ThrottleReason::SyncBoost),
    (0x020, ThrottleReason::Thermal),
    (0x040, ThrottleReason::HardwareThermal),
    (0x080, ThrottleReason::PowerBrake),
    (0x100, ThrottleReason::DisplayClocks),
];

/// Returns the words of a bit mask; unknown bits become a hexadecimal number.
pub(super) fn reasons(mask: u64) -> String {
    let reasons = REASONS.iter().filter(|(bit, _)| mask & bit != 0);
    let rest = mask & !REASONS.iter().map(|(bit, _)| bit).sum::<u64>();
    let words = reasons.map(|(_, reason)| reason.word().to_owned());
    words
        .chain((rest != 0).then(|| format!("{rest:#x}")))
        .collect::<Vec<_>>()
        .join("+")
}

/// Returns a figure as a whole number; `None` if 64 bits do not hold it.
pub(super) fn whole(value: f64) -> Option<i64> {
    // From 2⁶³ on, the conversion would give the largest number instead.
    const END: f64 = -(i64::MIN as f64);
    (-END..END).contains(&value).then_some(value as i64)
}

/// A way to read GPUs.
pub(crate) trait GpuSampler: Send {
    /// Returns the source of the rows: `nvml`, `nvidia-smi` or `dcgm-exporter`.
    fn word(&self) -> &'static str;

    /// Returns the rows since the last call, stamped `at_ns` unless they were stamped on arrival.
    fn rows(&mut self, at_ns: i64) -> Result<Vec<GpuSample>, String>;

    /// Returns facts for the record.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns why it ended before the run did, if so.
    fn ended(&self) -> Option<String> {
        None
    }
}

/// The GPUs as a companion.
pub(crate) struct Gpus {
    source: Box<dyn GpuSampler>,
    sheet: Sheet<GpuSample>,
    power: Arc<Power>,
}

/// Returns the path of a program on a search path.
pub(crate) fn find_program(name: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    find(name, std::env::split_paths(path?))
}

impl Gpus {
    /// Finds a way to read GPUs and starts `gpu_telemetry`. `smi` is the path of `nvidia-smi`, and `servers` are the leaders
    /// of the server's process groups.
    ///
    /// # Errors
    /// If there is no GPU, or no way to read it.
    pub(crate) fn new(
        folder: &Path,
        choice: Gpu,
        servers: Vec<i64>,
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
            Some(program) => Smi::start(program, interval_ms, epoch)
                .map(|smi| Box::new(smi) as Box<dyn GpuSampler>),
            None => Err("no `nvidia-smi` on the search path".to_owned()),
        };
        let by_library =
            || Library::open(servers).map(|library| Box::new(library) as Box<dyn GpuSampler>);
        let source = match choice {
            Gpu::None => Err("not asked for".to_owned()),
            Gpu::Nvml => by_library(),
            Gpu::NvidiaSmi => by_program(),
            Gpu::Auto => by_library()
                .or_else(|first| by_program().map_err(|then| format!("{first}; {then}"))),
        };
        Self::read_from(source.map_err(absent)?, folder, interval_ms, power)
    }

    /// Starts `gpu_telemetry` with a way to read GPUs.
    ///
    /// # Errors
    /// If its file cannot be created.
    pub(crate) fn read_from(
        source: Box<dyn GpuSampler>,
        folder: &Path,
        interval_ms: u64,
        power: Arc<Power>,
    ) -> Result<Self, Absent> {
        let absent = |reason: String| Absent {
            table: "gpu_telemetry",
            reason,
        };
        let (interval, word) = (interval_ms.to_string(), source.word());
        let notes = [("interval_ms", interval.as_str()), ("source", word)];
        let sheet = Sheet::create(folder, &notes).map_err(|e| absent(e.to_string()))?;
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
        self.sheet.room()?;
        for row in self.source.rows(at_ns)? {
            if let Some(watts) = row.power_w {
                self.power.note(row.gpu, row.at_ns, watts);
            }
            self.sheet.push(row).map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Sampled {
        let notes = self.source.notes();
        let mut left = Sampled::of(self.sheet);
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
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn reasons_are_words_and_unknown_bits_are_shown() {
        assert_eq!(reasons(0), "");
        assert_eq!(reasons(0x24), "power-cap+thermal");
        assert_eq!(reasons(0x8001), "idle+0x8000");
        assert_eq!(
            reasons(0x1ff),
            "idle+applications-clocks+power-cap+hardware-slowdown+sync-boost+thermal+hardware-thermal+power-brake+display-clocks"
        );
    }

    #[test]
    fn a_program_is_found_on_the_path_given() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("nvidia-smi");
        std::fs::write(&program, "").unwrap();
        std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        let path = std::env::join_paths([Path::new("/nowhere"), folder.path()]).unwrap();
        assert_eq!(find_program("nvidia-smi", Some(&path)), Some(program));
        assert_eq!(find_program("nvidia-smi-2", Some(&path)), None);
        assert_eq!(find_program("nvidia-smi", None), None);
    }
}
