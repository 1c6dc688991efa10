//! Machines and GPUs elsewhere, read from the exporters that monitor them: Prometheus' node exporter and NVIDIA's DCGM
//! exporter, mapped to the columns of our own samples.

use std::collections::BTreeMap;
use std::path::Path;

use artifacts::TableError;
use contract::{Exporter, GpuSample, HostSample, ServerHostSample, ServerMetric, Telling};
use net::{Site, SiteError};

use super::companion::{Companion, Sampled};
use super::gpu::{GpuSampler, reasons, whole};
use crate::get::Endpoint;
use crate::scrape::parse;
use crate::sheet::Sheet;

/// Bytes of a MiB, the unit of DCGM's memory figures.
const MIB: f64 = 1_048_576.0;

/// Returns the endpoints that provide the requested data, by name.
///
/// # Errors
/// If one cannot be queried; one sentence.
pub(crate) fn endpoints(
    exporters: &BTreeMap<String, Exporter>,
    ca_file: Option<&Path>,
    tells: Telling,
) -> Result<Vec<(String, Endpoint)>, String> {
    let wanted = exporters.iter().filter(|(_, e)| e.tells == tells);
    let endpoint = |(name, exporter): (&String, &Exporter)| {
        let (server, path) = exporter.parts();
        let site = Site::find(server, ca_file, None).map_err(|e| match e {
            SiteError::Url(message) => message,
            SiteError::Tls(error) => error.reason,
        })?;
        let path = path.to_owned();
        Ok((name.clone(), Endpoint { site, path }))
    };
    wanted.map(endpoint).collect()
}

/// A machine other than this one, read one sample at a time.
pub(crate) trait Machine: Send {
    /// Its name in the column `source`.
    fn name(&self) -> &str;

    /// Takes a sample, stamped `at_ns`.
    ///
    /// # Errors
    /// The problem in one sentence.
    fn sample(&mut self, at_ns: i64) -> Result<HostSample, String>;
}

/// The machines of the server as a companion.
pub(crate) struct ServerHosts {
    machines: Vec<Box<dyn Machine>>,
    /// The offsets of their clocks from ours, for the record.
    clocks: Vec<String>,
    sheet: Sheet<ServerHostSample>,
}

impl ServerHosts {
    /// Starts `server_host_telemetry`.
    ///
    /// # Errors
    /// If its file cannot be created.
    pub(crate) fn new(
        folder: &Path,
        machines: Vec<Box<dyn Machine>>,
        clocks: Vec<String>,
        interval_ms: &str,
    ) -> Result<Self, TableError> {
        let sheet = Sheet::create(folder, &[("interval_ms", interval_ms)])?;
        Ok(Self {
            machines,
            clocks,
            sheet,
        })
    }
}

impl Companion for ServerHosts {
    fn name(&self) -> &'static str {
        "server_host_telemetry"
    }

    fn sample(&mut self, at_ns: i64) -> Result<(), String> {
        self.sheet.room()?;
        // A machine that does not answer does not stop the others.
        let mut failed = Ok(());
        for machine in &mut self.machines {
            match machine.sample(at_ns) {
                Ok(sample) => {
                    let row = ServerHostSample::of(machine.name(), &sample);
                    self.sheet.push(row).map_err(|e| e.to_string())?;
                }
                Err(why) => failed = failed.and(Err(format!("{}: {why}", machine.name()))),
            }
        }
        failed
    }

    fn finish(self: Box<Self>) -> Sampled {
        let mut left = Sampled::of(self.sheet);
        if !self.clocks.is_empty() {
            let clocks = self.clocks.join("; ");
            left.observations
                .insert("server_host_clock".to_owned(), clocks.into());
        }
        left
    }
}

/// A machine that a node exporter monitors.
pub(crate) struct Node {
    name: String,
    endpoint: Endpoint,
    before: Option<Seconds>,
}

impl Node {
    pub(crate) fn new(name: String, endpoint: Endpoint) -> Self {
        Self {
            name,
            endpoint,
            before: None,
        }
    }
}

impl Machine for Node {
    fn name(&self) -> &str {
        &self.name
    }

    fn sample(&mut self, at_ns: i64) -> Result<HostSample, String> {
        let text = self.endpoint.text("text/plain")?;
        let series = Series::of(&text)?;
        let now = series.seconds();
        let mut row = series.host(at_ns);
        if let Some(before) = self.before.replace(now) {
            (row.cpu_wait, row.cpu_steal) = (
                now.share(&before, |t| t.wait),
                now.share(&before, |t| t.steal),
            );
            row.cpu_busy = now.share(&before, |t| t.all - t.idle - t.wait);
        }
        Ok(row)
    }
}

/// Processor time of all processors since boot, s.
#[derive(Clone, Copy, Debug, Default)]
struct Seconds {
    all: f64,
    idle: f64,
    wait: f64,
    steal: f64,
}

impl Seconds {
    /// Returns the share of a part of the time that passed since another answer. `None` if no time passed, or if a
    /// counter went back, as after a restart of the machine.
    fn share(&self, before: &Self, part: fn(&Self) -> f64) -> Option<f64> {
        let (part, all) = (part(self) - part(before), self.all - before.all);
        // The counters of a moment are rounded, so a part can go back by a hundredth of a second.
        let share = part / all;
        let possible = all > 0.0 && (-0.05..=1.05).contains(&share);
        possible.then(|| share.clamp(0.0, 1.0))
    }
}

/// The series of one answer.
struct Series(Vec<ServerMetric>);

impl Series {
    /// # Errors
    /// If the answer has none; one sentence.
    fn of(text: &str) -> Result<Self, String> {
        Ok(Self(parse(text, 0)?.rows))
    }

    fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a ServerMetric> {
        self.0.iter().filter(move |row| row.name == name)
    }

    fn one(&self, name: &str) -> Option<f64> {
        self.named(name).next().map(|row| row.value)
    }

    /// Sums the series with a wanted `device`; `None` if there is none.
    fn sum(&self, name: &str, wanted: impl Fn(&str) -> bool) -> Option<f64> {
        let values = self
            .named(name)
            .filter(|row| wanted(label(&row.labels, "device").unwrap_or_default().as_str()))
            .map(|row| row.value);
        values.reduce(|a, b| a + b)
    }

    /// Sums the modes of `node_cpu_seconds_total`. User time includes guest time, which has a separate metric.
    fn seconds(&self) -> Seconds {
        let mut seconds = Seconds::default();
        for row in self.named("node_cpu_seconds_total") {
            seconds.all += row.value;
            match label(&row.labels, "mode").as_deref() {
                Some("idle") => seconds.idle += row.value,
                Some("iowait") => seconds.wait += row.value,
                Some("steal") => seconds.steal += row.value,
                _ => {}
            }
        }
        seconds
    }

    fn host(&self, at_ns: i64) -> HostSample {
        let bytes = |name: &str| self.one(name).and_then(whole);
        let less = |a: Option<i64>, b: Option<i64>| a?.checked_sub(b?);
        let outside = |device: &str| device != "lo";
        let network = |name: &str| self.sum(name, outside).and_then(whole);
        // The sources of errors and drops, in both directions.
        let lost = [
            "node_network_receive_errs_total",
            "node_network_receive_drop_total",
            "node_network_transmit_errs_total",
            "node_network_transmit_drop_total",
        ];
        let lost = lost.iter().filter_map(|name| self.sum(name, outside));
        let disk = |name: &str| self.sum(name, is_whole_disk).and_then(whole);
        let frequencies: Vec<f64> = self
            .named("node_cpu_scaling_frequency_hertz")
            .map(|row| row.value / 1e6)
            .collect();
        let zones = self
            .named("node_thermal_zone_temp")
            .map(|row| row.value)
            .reduce(f64::max);
        let processors = self
            .named("node_cpu_seconds_total")
            .filter(|row| label(&row.labels, "mode").as_deref() == Some("idle"))
            .count();
        let throttles = self.sum("node_cpu_core_throttles_total", |_| true);
        HostSample {
            at_ns,
            load_1: self.one("node_load1"),
            runnable: bytes("node_procs_running"),
            memory_used_bytes: less(
                bytes("node_memory_MemTotal_bytes"),
                bytes("node_memory_MemAvailable_bytes"),
            ),
            memory_available_bytes: bytes("node_memory_MemAvailable_bytes"),
            swap_used_bytes: less(
                bytes("node_memory_SwapTotal_bytes"),
                bytes("node_memory_SwapFree_bytes"),
            ),
            network_received_bytes: network("node_network_receive_bytes_total"),
            network_sent_bytes: network("node_network_transmit_bytes_total"),
            loopback_bytes: self
                .sum("node_network_transmit_bytes_total", |device| device == "lo")
                .and_then(whole),
            disk_read_bytes: disk("node_disk_read_bytes_total"),
            disk_written_bytes: disk("node_disk_written_bytes_total"),
            frequency_mhz: (!frequencies.is_empty())
                .then(|| frequencies.iter().sum::<f64>() / frequencies.len() as f64)
                .filter(|mean| mean.is_finite()),
            temperature_c: zones,
            processors: i64::try_from(processors).ok().filter(|n| *n > 0),
            throttles: throttles.and_then(whole),
            page_cache_bytes: bytes("node_memory_Cached_bytes"),
            network_errors: lost.reduce(|a, b| a + b).and_then(whole),
            ..HostSample::default()
        }
    }
}

/// Devices made of others are left out, as on our own machine.
fn is_whole_disk(device: &str) -> bool {
    !["loop", "ram", "zram", "dm-", "md", "sr"]
        .iter()
        .any(|prefix| device.starts_with(prefix))
}

/// Returns the value of a label, with escapes decoded.
fn label(labels: &str, name: &str) -> Option<String> {
    let mut rest = labels;
    loop {
        let (key, after) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut escaped = false;
        let mut end = after.len();
        for (at, c) in after.char_indices() {
            match c {
                '\\' if !escaped => escaped = true,
                '"' if !escaped => {
                    end = at;
                    break;
                }
                c => {
                    value.push(if escaped && c == 'n' { '\n' } else { c });
                    escaped = false;
                }
            }
        }
        if key.trim_matches([',', ' ']) == name {
            return Some(value);
        }
        rest = after.get(end + 1..)?;
    }
}

/// The GPUs that DCGM exporters monitor, numbered in the order of the exporters' names.
pub(crate) struct Dcgm(pub(crate) Vec<(String, Endpoint)>);

impl GpuSampler for Dcgm {
    fn word(&self) -> &'static str {
        "dcgm-exporter"
    }

    fn rows(&mut self, at_ns: i64) -> Result<Vec<GpuSample>, String> {
        let mut rows = Vec::new();
        for (name, endpoint) in &self.0 {
            let text = endpoint
                .text("text/plain")
                .map_err(|e| format!("{name}: {e}"))?;
            let of_one = gpus(&text, at_ns, rows.len()).map_err(|e| format!("{name}: {e}"))?;
            if of_one.is_empty() {
                return Err(format!("{name}: it reports no GPU"));
            }
            rows.extend(of_one);
        }
        Ok(rows)
    }

    fn notes(&self) -> Vec<String> {
        let names: Vec<&str> = self.0.iter().map(|(name, _)| name.as_str()).collect();
        vec![format!("the exporters {}", names.join(", "))]
    }
}

/// Parses the GPUs of one answer; the first one gets the number `from`.
fn gpus(text: &str, at_ns: i64, from: usize) -> Result<Vec<GpuSample>, String> {
    let mut by_gpu: BTreeMap<(u32, String), GpuSample> = BTreeMap::new();
    for row in parse(text, at_ns)?.rows {
        let Some(metric) = row.name.strip_prefix("DCGM_FI_DEV_") else {
            continue;
        };
        let Some(number) = label(&row.labels, "gpu").and_then(|gpu| gpu.parse().ok()) else {
            continue;
        };
        // A part of a divided GPU (MIG) does not count as a GPU here.
        if label(&row.labels, "GPU_I_ID").is_some_and(|id| !id.is_empty()) {
            continue;
        }
        let uuid = label(&row.labels, "UUID").unwrap_or_default();
        let sample = by_gpu
            .entry((number, uuid.clone()))
            .or_insert_with(|| GpuSample {
                at_ns,
                uuid: Some(uuid).filter(|uuid| !uuid.is_empty()),
                name: label(&row.labels, "modelName"),
                ..GpuSample::default()
            });
        take(sample, metric, row.value);
    }
    let numbered = by_gpu.into_values().zip(from..);
    let numbered = numbered.map(|(sample, gpu)| GpuSample {
        gpu: i64::try_from(gpu).unwrap_or(i64::MAX),
        ..sample
    });
    Ok(numbered.collect())
}

/// Writes one DCGM figure into the sample, converted to our unit.
fn take(sample: &mut GpuSample, metric: &str, value: f64) {
    let memory = whole(value * MIB);
    let add = |to: &mut Option<i64>| {
        *to = memory.and_then(|memory| to.unwrap_or_default().checked_add(memory));
    };
    match metric {
        "SM_CLOCK" => sample.sm_clock_mhz = Some(value),
        "MEM_CLOCK" => sample.memory_clock_mhz = Some(value),
        "GPU_TEMP" => sample.temperature_c = Some(value),
        "POWER_USAGE" => sample.power_w = Some(value),
        "TOTAL_ENERGY_CONSUMPTION" => sample.energy_j = Some(value / 1000.0),
        "GPU_UTIL" => sample.sm_utilisation = Some(value / 100.0),
        "MEM_COPY_UTIL" => sample.memory_utilisation = Some(value / 100.0),
        "FB_USED" => {
            sample.memory_used_bytes = memory;
            add(&mut sample.memory_total_bytes);
        }
        "FB_FREE" | "FB_RESERVED" => add(&mut sample.memory_total_bytes),
        // Older releases use the first name.
        "CLOCK_THROTTLE_REASONS" | "CLOCKS_EVENT_REASONS" => {
            // The mask has fewer bits than a double holds exactly.
            let mask = whole(value).and_then(|mask| u64::try_from(mask).ok());
            sample.throttle_reasons = mask.map(reasons);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Lines in the format of node_exporter 1.8, from a machine with two processors.
    const NODE: &str = r#"# TYPE node_cpu_seconds_total counter
node_cpu_seconds_total{cpu="0",mode="idle"} 70
node_cpu_seconds_total{cpu="0",mode="iowait"} 5
node_cpu_seconds_total{cpu="0",mode="steal"} 5
node_cpu_seconds_total{cpu="0",mode="user"} 20
node_cpu_seconds_total{cpu="1",mode="idle"} 100
node_cpu_guest_seconds_total{cpu="0",mode="user"} 20
node_load1 1.5
node_procs_running 3
node_memory_MemTotal_bytes 1.024e+06
node_memory_MemAvailable_bytes 409600
node_memory_SwapTotal_bytes 10
node_memory_SwapFree_bytes 4
node_memory_Cached_bytes 51200
node_network_receive_bytes_total{device="lo"} 70
node_network_receive_bytes_total{device="eth0"} 1000
node_network_transmit_bytes_total{device="lo"} 71
node_network_transmit_bytes_total{device="eth0"} 2000
node_network_receive_errs_total{device="eth0"} 1
node_network_transmit_drop_total{device="eth0"} 2
node_disk_read_bytes_total{device="nvme0n1"} 4096
node_disk_read_bytes_total{device="dm-0"} 4096
node_cpu_scaling_frequency_hertz{cpu="0"} 2e+09
node_cpu_scaling_frequency_hertz{cpu="1"} 3e+09
node_thermal_zone_temp{type="x86_pkg_temp",zone="0"} 48
node_cpu_core_throttles_total{core="0",package="0"} 2
"#;

    #[test]
    fn a_machine_of_a_node_exporter_has_the_columns_and_units_of_our_own() {
        let row = Series::of(NODE).unwrap().host(7);
        let expected = HostSample {
            at_ns: 7,
            load_1: Some(1.5),
            runnable: Some(3),
            memory_used_bytes: Some(614_400),
            memory_available_bytes: Some(409_600),
            swap_used_bytes: Some(6),
            network_received_bytes: Some(1000),
            network_sent_bytes: Some(2000),
            loopback_bytes: Some(71),
            disk_read_bytes: Some(4096),
            frequency_mhz: Some(2500.0),
            temperature_c: Some(48.0),
            processors: Some(2),
            throttles: Some(2),
            page_cache_bytes: Some(51_200),
            network_errors: Some(3),
            ..HostSample::default()
        };
        assert_eq!(row, expected);
        let seconds = Series::of(NODE).unwrap().seconds();
        assert_eq!((seconds.all, seconds.idle), (200.0, 170.0));
        assert_eq!((seconds.wait, seconds.steal), (5.0, 5.0));
    }

    /// Lines in the format of dcgm-exporter 3.3.
    const DCGM: &str = r#"DCGM_FI_DEV_SM_CLOCK{gpu="1",UUID="GPU-b",pci_bus_id="0",device="nvidia1",modelName="NVIDIA H100",Hostname="n"} 1980
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-a",device="nvidia0",modelName="NVIDIA \"H100\"",Hostname="n"} 1755
DCGM_FI_DEV_MEM_CLOCK{gpu="0",UUID="GPU-a",modelName="x"} 2619
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a",modelName="x"} 41
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",modelName="x"} 350.5
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",UUID="GPU-a",modelName="x"} 2500
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",modelName="x"} 50
DCGM_FI_DEV_MEM_COPY_UTIL{gpu="0",UUID="GPU-a",modelName="x"} 25
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-a",modelName="x"} 3
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",modelName="x"} 1
DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{gpu="0",UUID="GPU-a",modelName="x"} 4
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",GPU_I_ID="2",modelName="x"} 99
DCGM_FI_PROF_DRAM_ACTIVE{gpu="0",UUID="GPU-a",modelName="x"} 0.5
"#;

    #[test]
    fn gpus_of_a_dcgm_exporter_have_the_columns_and_units_of_our_own() {
        let rows = gpus(DCGM, 7, 4).unwrap();
        let expected = GpuSample {
            at_ns: 7,
            gpu: 4,
            uuid: Some("GPU-a".into()),
            name: Some("NVIDIA \"H100\"".into()),
            power_w: Some(350.5),
            energy_j: Some(2.5),
            sm_clock_mhz: Some(1755.0),
            memory_clock_mhz: Some(2619.0),
            temperature_c: Some(41.0),
            sm_utilisation: Some(0.5),
            memory_utilisation: Some(0.25),
            memory_used_bytes: Some(1 << 20),
            memory_total_bytes: Some(4 << 20),
            throttle_reasons: Some("power-cap".into()),
            compute_processes: None,
            foreign_processes: None,
        };
        assert_eq!(rows[0], expected);
        assert_eq!((rows.len(), rows[1].gpu), (2, 5));
        assert_eq!(rows[1].sm_clock_mhz, Some(1980.0));
    }

    #[test]
    fn figures_that_no_column_holds_are_missing_and_not_the_nearest_number() {
        let node = "node_memory_MemTotal_bytes 9e18\nnode_memory_MemAvailable_bytes -9e18\n\
            node_memory_Cached_bytes 1e300\nnode_procs_running NaN\n\
            node_network_receive_errs_total{device=\"a\"} 9e18\nnode_network_receive_drop_total{device=\"a\"} 9e18\n\
            node_disk_read_bytes_total{device=\"a\"} 9.3e18\n";
        let row = Series::of(node).unwrap().host(7);
        let expected = HostSample {
            at_ns: 7,
            memory_available_bytes: Some(-9_000_000_000_000_000_000),
            ..HostSample::default()
        };
        assert_eq!(row, expected);
        let gpu = |lines: &[&str]| {
            let line = |line: &&str| line.replace(' ', "{gpu=\"0\"} ") + "\n";
            let text: String = lines.iter().map(line).collect();
            gpus(&text, 7, 0).unwrap().remove(0)
        };
        let seen = gpu(&[
            "DCGM_FI_DEV_FB_USED 8e12",
            "DCGM_FI_DEV_FB_FREE 8e12",
            "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS 1e30",
        ]);
        let expected = GpuSample {
            at_ns: 7,
            memory_used_bytes: Some(8_388_608_000_000_000_000),
            ..GpuSample::default()
        };
        assert_eq!(seen, expected);
    }

    #[test]
    fn an_answer_that_is_no_text_of_an_exporter_is_an_error_and_not_a_machine_without_figures() {
        assert!(Series::of("<html>").is_err() && gpus("{}", 0, 0).is_err());
    }

    #[test]
    fn no_share_of_a_counter_that_went_back_is_known() {
        let at = |all, idle| Seconds {
            all,
            idle,
            ..Seconds::default()
        };
        let busy = |now: Seconds, before: Seconds| now.share(&before, |t| t.all - t.idle - t.wait);
        assert_eq!(busy(at(110.0, 105.0), at(100.0, 100.0)), Some(0.5));
        assert_eq!(busy(at(110.0, 110.0), at(100.0, 99.99)), Some(0.0));
        // A restart, a processor that was taken out and one that was put in, and no time.
        assert_eq!(busy(at(1.0, 0.5), at(100.0, 100.0)), None);
        assert_eq!(busy(at(110.0, 50.0), at(100.0, 100.0)), None);
        assert_eq!(busy(at(110.0, 200.0), at(100.0, 100.0)), None);
        assert_eq!(busy(at(100.0, 100.0), at(100.0, 100.0)), None);
        assert_eq!(busy(at(f64::INFINITY, 0.0), at(0.0, 0.0)), None);
    }

    #[test]
    fn labels_are_found_whatever_stands_in_others() {
        let labels = r#"a="x,gpu=\"9\"",gpu="1", b="" "#;
        assert_eq!(label(labels, "gpu").as_deref(), Some("1"));
        assert_eq!(label(labels, "a").as_deref(), Some(r#"x,gpu="9""#));
        assert_eq!(label(labels, "b").as_deref(), Some(""));
        assert_eq!(label(labels, "c"), None);
    }

    proptest! {
        #[test]
        fn any_answer_of_an_exporter_is_refused_or_gives_figures_that_are_numbers(
            lines in vec(
                (
                    prop_oneof![
                        prop::sample::select(
                            [NODE, DCGM].iter().flat_map(|text| text.lines()).collect::<Vec<_>>(),
                        ).prop_map(|line| line.rsplit_once(' ').map_or(line, |(name, _)| name).to_owned()),
                        "DCGM_FI_DEV_[A-Z_]{0,12}\\{gpu=\"[0-9-]{0,11}\",UUID=\".{0,4}\\\\?\"?\\}",
                    ],
                    prop_oneof![
                        any::<f64>().prop_map(|value| value.to_string()),
                        prop::sample::select(vec!["NaN", "+Inf", "-1", "9.3e18", "-9.3e18", "1e308", "", "0x1"])
                            .prop_map(str::to_owned),
                    ],
                ),
                0..40,
            )
        ) {
            let text: String = lines.iter().map(|(name, value)| format!("{name} {value}\n")).collect();
            if let Ok(series) = Series::of(&text) {
                let (row, seconds) = (series.host(1), series.seconds());
                let shares = [
                    seconds.share(&Seconds::default(), |t| t.wait),
                    Seconds::default().share(&seconds, |t| t.all - t.idle),
                ];
                prop_assert!(shares.iter().flatten().all(|share| (0.0..=1.0).contains(share)));
                let figures = [row.load_1, row.frequency_mhz, row.temperature_c];
                prop_assert!(figures.iter().flatten().all(|figure| figure.is_finite()));
            }
            for gpu in gpus(&text, 1, 0).unwrap_or_default() {
                prop_assert!(gpu.power_w.is_none_or(f64::is_finite));
            }
        }
    }
}
