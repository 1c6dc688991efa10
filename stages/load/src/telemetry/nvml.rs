//! GPUs through NVML, the driver's library, loaded at run time.

use contract::GpuSample;
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};

use super::gpu::{GpuSampler, reasons};
use super::process::Owners;

/// The library, the number of its GPUs, and the leaders of the server's process groups.
pub(super) struct Library {
    nvml: Nvml,
    gpus: u32,
    servers: Vec<i64>,
}

impl Library {
    /// Loads the library. `servers` are the leaders of the server's process groups.
    ///
    /// # Errors
    /// If it is missing, or reports no GPU.
    pub(super) fn open(servers: Vec<i64>) -> Result<Self, String> {
        // The plain name exists only with development files.
        let nvml = Nvml::builder()
            .lib_path("libnvidia-ml.so.1".as_ref())
            .init()
            .or_else(|_| Nvml::init())
            .map_err(|e| format!("NVML: {e}"))?;
        let gpus = nvml.device_count().map_err(|e| format!("NVML: {e}"))?;
        if gpus == 0 {
            Err("NVML reports no GPU".to_owned())
        } else {
            Ok(Self {
                nvml,
                gpus,
                servers,
            })
        }
    }

    /// Returns the number of processes that compute on the GPUs; `None` if no GPU reports it.
    pub(super) fn processes(&self) -> Option<u32> {
        let count = |gpu: u32| {
            let device = self.nvml.device_by_index(gpu).ok()?;
            let running = device.running_compute_processes().ok()?;
            u32::try_from(running.len()).ok()
        };
        let counts: Vec<u32> = (0..self.gpus).filter_map(count).collect();
        (!counts.is_empty()).then(|| counts.iter().sum())
    }
}

impl GpuSampler for Library {
    fn word(&self) -> &'static str {
        "nvml"
    }

    fn rows(&mut self, at_ns: i64) -> Result<Vec<GpuSample>, String> {
        let mut rows = Vec::new();
        let owners = Owners::of_this_machine(&self.servers);
        for gpu in 0..self.gpus {
            let device = self
                .nvml
                .device_by_index(gpu)
                .map_err(|e| format!("NVML, GPU {gpu}: {e}"))?;
            // Figures that a GPU does not support are null; the others are still read.
            let busy = device.utilization_rates().ok();
            let memory = device.memory_info().ok();
            let share = |percent: u32| f64::from(percent) / 100.0;
            let computing = device.running_compute_processes().ok();
            let computing: Option<Vec<i64>> =
                computing.map(|all| all.iter().map(|one| one.pid.into()).collect());
            let count = |n: usize| i64::try_from(n).ok();
            rows.push(GpuSample {
                at_ns,
                gpu: i64::from(gpu),
                uuid: device.uuid().ok(),
                name: device.name().ok(),
                power_w: device.power_usage().ok().map(|mw| f64::from(mw) / 1000.0),
                energy_j: device
                    .total_energy_consumption()
                    .ok()
                    .map(|mj| mj as f64 / 1000.0),
                sm_clock_mhz: device.clock_info(Clock::SM).ok().map(f64::from),
                memory_clock_mhz: device.clock_info(Clock::Memory).ok().map(f64::from),
                temperature_c: device
                    .temperature(TemperatureSensor::Gpu)
                    .ok()
                    .map(f64::from),
                sm_utilisation: busy.as_ref().map(|b| share(b.gpu)),
                memory_utilisation: busy.as_ref().map(|b| share(b.memory)),
                memory_used_bytes: memory.as_ref().and_then(|m| i64::try_from(m.used).ok()),
                memory_total_bytes: memory.as_ref().and_then(|m| i64::try_from(m.total).ok()),
                throttle_reasons: device
                    .current_throttle_reasons()
                    .ok()
                    .map(|r| reasons(r.bits())),
                compute_processes: computing.as_ref().and_then(|all| count(all.len())),
                foreign_processes: computing
                    .and_then(|all| owners.foreign(&all))
                    .and_then(count),
            });
        }
        Ok(rows)
    }
}
