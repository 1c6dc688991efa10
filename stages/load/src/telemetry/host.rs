//! The host: processors, memory, network, disks, frequency, temperature; from /proc and /sys.

use std::path::Path;

use artifacts::TableError;
use contract::HostSample;

use super::companion::{Companion, Sampled};
use super::files::Files;
use crate::sheet::Sheet;

/// The most processors whose frequency is read; each needs one read.
const PROCESSORS: usize = 64;

/// Times of all processors since boot, in ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticks {
    pub(super) all: u64,
    pub(super) idle: u64,
    pub(super) wait: u64,
    pub(super) steal: u64,
}

/// Reads the host, and remembers the previous sample.
pub(super) struct Reader {
    files: Files,
    before: Option<Ticks>,
    disks: Vec<String>,
    frequencies: Vec<String>,
    throttles: Vec<String>,
    zones: Vec<String>,
}

impl Reader {
    /// Finds the disks, processors and thermal zones once.
    pub(super) fn new(files: Files) -> Self {
        let disks = files.names("sys/block");
        let disks = disks.into_iter().filter(|name| {
            !["loop", "ram", "zram", "dm-", "md", "sr"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
        });
        let path = |cpu: &String| format!("sys/devices/system/cpu/{cpu}/cpufreq/scaling_cur_freq");
        let is_processor = |name: &&String| {
            name.strip_prefix("cpu")
                .is_some_and(|n| n.parse::<u32>().is_ok())
        };
        let processors = files.names("sys/devices/system/cpu");
        let throttle = |cpu: &String| {
            format!("sys/devices/system/cpu/{cpu}/thermal_throttle/core_throttle_count")
        };
        let throttles = processors.iter().filter(is_processor).take(PROCESSORS);
        let throttles = throttles.map(throttle);
        let throttles = throttles
            .filter(|path| files.number(path).is_some())
            .collect();
        let frequencies = processors
            .iter()
            .filter(is_processor)
            .take(PROCESSORS)
            .map(path);
        let frequencies = frequencies
            .filter(|path| files.number(path).is_some())
            .collect();
        let zones = files.names("sys/class/thermal");
        let zones = zones.iter().filter(|name| name.starts_with("thermal_zone"));
        let zones = zones.map(|name| format!("sys/class/thermal/{name}/temp"));
        let zones = zones.filter(|path| files.number(path).is_some()).collect();
        Self {
            disks: disks.collect(),
            frequencies,
            throttles,
            zones,
            files,
            before: None,
        }
    }

    pub(super) fn read(&mut self, at_ns: i64) -> Result<HostSample, String> {
        let mut row = HostSample {
            at_ns,
            ..HostSample::default()
        };
        let stat = self
            .files
            .text("proc/stat")
            .ok_or("/proc/stat cannot be read")?;
        let now = ticks(&stat).ok_or("/proc/stat has no line `cpu`")?;
        if let Some(before) = self.before.replace(now) {
            let all = now.all.saturating_sub(before.all) as f64;
            let share = |f: fn(&Ticks) -> u64| {
                (all > 0.0).then(|| (f(&now).saturating_sub(f(&before)) as f64 / all).min(1.0))
            };
            (row.cpu_wait, row.cpu_steal) = (share(|t| t.wait), share(|t| t.steal));
            row.cpu_busy = share(|t| t.all - t.idle - t.wait);
        }
        let processor = |line: &&str| {
            let name = line
                .split(' ')
                .next()
                .and_then(|name| name.strip_prefix("cpu"));
            name.is_some_and(|n| n.parse::<u32>().is_ok())
        };
        row.processors = i64::try_from(stat.lines().filter(processor).count())
            .ok()
            .filter(|n| *n > 0);
        if let Some(text) = self.files.text("proc/loadavg") {
            let mut words = text.split_whitespace();
            row.load_1 = words.next().and_then(|w| w.parse().ok());
            row.runnable = words.nth(2).and_then(|w| w.split('/').next()?.parse().ok());
        }
        self.read_memory(&mut row);
        self.read_network(&mut row);
        self.read_disks(&mut row);
        let frequencies: Vec<i64> = self
            .frequencies
            .iter()
            .filter_map(|path| self.files.number(path))
            .collect();
        if !frequencies.is_empty() {
            row.frequency_mhz =
                Some(frequencies.iter().sum::<i64>() as f64 / frequencies.len() as f64 / 1000.0);
        }
        let throttles: Vec<i64> = self
            .throttles
            .iter()
            .filter_map(|path| self.files.number(path))
            .collect();
        row.throttles = (!throttles.is_empty()).then(|| throttles.iter().sum());
        row.memory_pressure = self.files.text("proc/pressure/memory").and_then(|text| {
            let some = text.lines().find(|line| line.starts_with("some "))?;
            let word = some
                .split(' ')
                .find_map(|word| word.strip_prefix("avg10="))?;
            Some(word.parse::<f64>().ok()? / 100.0)
        });
        let zones = self.zones.iter().filter_map(|path| self.files.number(path));
        row.temperature_c = zones.max().map(|thousandths| thousandths as f64 / 1000.0);
        Ok(row)
    }

    fn read_memory(&self, row: &mut HostSample) {
        let Some(text) = self.files.text("proc/meminfo") else {
            return;
        };
        let bytes = |name: &str| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            Some(line.split_whitespace().next()?.parse::<i64>().ok()? * 1024)
        };
        row.memory_available_bytes = bytes("MemAvailable");
        row.memory_used_bytes = bytes("MemTotal")
            .zip(row.memory_available_bytes)
            .map(|(all, free)| all - free);
        row.page_cache_bytes = bytes("Cached");
        row.swap_used_bytes = bytes("SwapTotal")
            .zip(bytes("SwapFree"))
            .map(|(all, free)| all - free);
    }

    /// Reads the bytes and losses of all interfaces, and the bytes of the loopback on their own.
    fn read_network(&self, row: &mut HostSample) {
        let Some(text) = self.files.text("proc/net/dev") else {
            return;
        };
        let (mut received, mut sent, mut errors) = (0, 0, 0);
        for line in text.lines() {
            let Some((name, numbers)) = line.split_once(':') else {
                continue;
            };
            let numbers: Vec<i64> = numbers
                .split_whitespace()
                .map_while(|word| word.parse().ok())
                .collect();
            let (Some(from), Some(to)) = (numbers.first(), numbers.get(8)) else {
                continue;
            };
            if name.trim() == "lo" {
                row.loopback_bytes = Some(*to);
            } else {
                (received, sent) = (received + from, sent + to);
                // Errors and drops are the third and fourth number of each direction.
                let lost = [2, 3, 10, 11].into_iter().filter_map(|i| numbers.get(i));
                errors += lost.sum::<i64>();
            }
        }
        (row.network_received_bytes, row.network_sent_bytes) = (Some(received), Some(sent));
        row.network_errors = Some(errors);
    }

    fn read_disks(&self, row: &mut HostSample) {
        let Some(text) = self.files.text("proc/diskstats") else {
            return;
        };
        let (mut read, mut written) = (0, 0);
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let at = |i: usize| words.get(i).and_then(|w| w.parse::<i64>().ok());
            if words
                .get(2)
                .is_some_and(|name| self.disks.iter().any(|disk| disk == name))
            {
                // Sectors have 512 bytes here, whatever the disk uses.
                read += at(5).unwrap_or_default() * 512;
                written += at(9).unwrap_or_default() * 512;
            }
        }
        (row.disk_read_bytes, row.disk_written_bytes) = (Some(read), Some(written));
    }
}

/// Parses the line `cpu` of /proc/stat: user nice system idle iowait irq softirq steal (user time includes guest time).
pub(super) fn ticks(stat: &str) -> Option<Ticks> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let t: Vec<u64> = line
        .split_whitespace()
        .take(8)
        .map_while(|w| w.parse().ok())
        .collect();
    let at = |i: usize| t.get(i).copied().unwrap_or(0);
    (t.len() >= 4).then(|| Ticks {
        all: t.iter().sum(),
        idle: at(3),
        wait: at(4),
        steal: at(7),
    })
}

/// The host as a companion.
pub(crate) struct Host {
    reader: Reader,
    sheet: Sheet<HostSample>,
}

impl Host {
    /// Starts `host_telemetry`.
    ///
    /// # Errors
    /// If its file cannot be created.
    pub(crate) fn new(folder: &Path, interval_ms: &str) -> Result<Self, TableError> {
        let sheet = Sheet::create(folder, &[("interval_ms", interval_ms)])?;
        Ok(Self {
            reader: Reader::new(Files::of_this_machine()),
            sheet,
        })
    }
}

impl Companion for Host {
    fn name(&self) -> &'static str {
        "host_telemetry"
    }

    fn sample(&mut self, at_ns: i64) -> Result<(), String> {
        let row = self.reader.read(at_ns)?;
        self.sheet.push(row).map_err(|e| e.to_string())
    }

    fn finish(self: Box<Self>) -> Sampled {
        Sampled::of(self.sheet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put(
            "proc/stat",
            "cpu  100 0 100 700 50 0 0 50 0 0\ncpu0 1 2 3\n",
        );
        put("proc/loadavg", "1.50 1.20 1.00 3/456 7890\n");
        put(
            "proc/meminfo",
            "MemTotal: 1000 kB\nMemAvailable: 400 kB\nCached: 50 kB\nSwapTotal: 10 kB\nSwapFree: 4 kB\n",
        );
        put(
            "proc/net/dev",
            "Inter-| Receive | Transmit\n face |bytes\n    lo: 70 1 0 0 0 0 0 0 70 1 0 0 0 0 0 0\n  \
             eth0: 10 1 2 3 0 0 0 0 20 1 4 5 0 0 0 0\n",
        );
        put(
            "proc/diskstats",
            " 8 0 sda 1 0 4 0 2 0 6 0 0 0 0\n 8 1 sda1 1 0 4 0 2 0 6 0 0 0 0\n",
        );
        put(
            "proc/pressure/memory",
            "some avg10=2.50 avg60=0.10 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
        );
        put(
            "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count",
            "4\n",
        );
        put(
            "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count",
            "3\n",
        );
        put("sys/block/sda/size", "1\n");
        put("sys/block/loop0/size", "1\n");
        put(
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq",
            "2000000\n",
        );
        put(
            "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq",
            "3000000\n",
        );
        put("sys/devices/system/cpu/cpufreq/boost", "1\n");
        put("sys/class/thermal/thermal_zone0/temp", "41000\n");
        put("sys/class/thermal/thermal_zone1/temp", "55500\n");
        root
    }

    #[test]
    fn a_known_machine_is_read_right() {
        let root = machine();
        let mut reader = Reader::new(Files::below(root.path()));
        let first = reader.read(0).unwrap();
        assert_eq!((first.cpu_busy, first.cpu_steal), (None, None));
        assert_eq!((first.load_1, first.runnable), (Some(1.5), Some(3)));
        assert_eq!(
            (first.memory_used_bytes, first.memory_available_bytes),
            (Some(614_400), Some(409_600))
        );
        assert_eq!(first.swap_used_bytes, Some(6144));
        assert_eq!(
            (
                first.network_received_bytes,
                first.network_sent_bytes,
                first.loopback_bytes
            ),
            (Some(10), Some(20), Some(70))
        );
        assert_eq!(
            (first.disk_read_bytes, first.disk_written_bytes),
            (Some(2048), Some(3072))
        );
        assert_eq!(
            (first.frequency_mhz, first.temperature_c),
            (Some(2500.0), Some(55.5))
        );
        assert_eq!((first.processors, first.throttles), (Some(1), Some(7)));
        assert_eq!(
            (
                first.memory_pressure,
                first.page_cache_bytes,
                first.network_errors
            ),
            (Some(0.025), Some(51_200), Some(14))
        );
        // 100 more ticks: 30 user, 20 system, 25 idle, 5 waiting, 20 stolen.
        fs::write(
            root.path().join("proc/stat"),
            "cpu  130 0 120 725 55 0 0 70 0 0\n",
        )
        .unwrap();
        let second = reader.read(1).unwrap();
        assert_eq!(
            (second.cpu_busy, second.cpu_wait, second.cpu_steal),
            (Some(0.7), Some(0.05), Some(0.2))
        );
    }

    #[test]
    fn a_sample_costs_a_fixed_number_of_reads() {
        let root = machine();
        let mut reader = Reader::new(Files::below(root.path()));
        let before = reader.files.reads();
        for i in 0..10 {
            reader.read(i).unwrap();
        }
        // stat, loadavg, meminfo, net/dev, diskstats, memory pressure, two frequencies, two counts of
        // throttling, two zones.
        assert_eq!(reader.files.reads() - before, 10 * 12);
    }

    #[test]
    fn what_a_machine_does_not_tell_is_null() {
        let root = tempfile::tempdir().unwrap();
        let mut reader = Reader::new(Files::below(root.path()));
        assert_eq!(reader.read(0).unwrap_err(), "/proc/stat cannot be read");
        fs::create_dir_all(root.path().join("proc")).unwrap();
        fs::write(root.path().join("proc/stat"), "cpu  1 2 3 4\n").unwrap();
        assert_eq!(
            reader.read(5).unwrap(),
            HostSample {
                at_ns: 5,
                ..HostSample::default()
            }
        );
    }
}
