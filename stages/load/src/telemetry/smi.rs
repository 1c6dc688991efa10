//! GPUs through the program `nvidia-smi`, started once to print a line per GPU at every interval.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use contract::GpuSample;

use super::gpu::{GpuSampler, reasons, whole};
use crate::measure::Epoch;

/// The requested fields. A field that the program does not know is left out and not requested again.
const FIELDS: [&str; 13] = [
    "index",
    "uuid",
    "name",
    "power.draw",
    "clocks.sm",
    "clocks.mem",
    "temperature.gpu",
    "utilization.gpu",
    "utilization.memory",
    "memory.used",
    "memory.total",
    "clocks_event_reasons.active",
    // The name of the field above before driver 535, used if the new name is unknown.
    "clocks_throttle_reasons.active",
];

/// How long the first line may take.
const FIRST: Duration = Duration::from_secs(10);

/// The most lines that wait to be read. A program that prints without a pause waits for us.
const WAITING: usize = 1024;

/// The most lines that are kept of a program that prints no row.
const SAID: usize = 2;

/// A line with the time of its arrival.
type Line = (i64, String);

/// A running `nvidia-smi`.
pub(super) struct Smi {
    child: Child,
    lines: Receiver<Line>,
    /// Lines that arrived during the start.
    waiting: Vec<Line>,
    reader: Option<JoinHandle<()>>,
    fields: Vec<&'static str>,
    unknown: Vec<&'static str>,
    ended: Option<String>,
}

/// Why a start failed.
enum Refused {
    Field(&'static str),
    Other(String),
}

impl Smi {
    /// Starts the program, waits for its first line, and leaves out the fields that it does not know.
    ///
    /// # Errors
    /// If it does not start, ends, or is silent for ten seconds.
    pub(super) fn start(program: &Path, interval_ms: u64, epoch: Epoch) -> Result<Self, String> {
        Self::start_within(FIRST, program, interval_ms, epoch)
    }

    fn start_within(
        limit: Duration,
        program: &Path,
        interval_ms: u64,
        epoch: Epoch,
    ) -> Result<Self, String> {
        let mut fields: Vec<&'static str> = FIELDS[..FIELDS.len() - 1].to_vec();
        let mut unknown = Vec::new();
        loop {
            match Self::launch(limit, program, interval_ms, epoch, &fields) {
                Ok(mut smi) => {
                    smi.unknown = unknown;
                    return Ok(smi);
                }
                Err(Refused::Other(reason)) => return Err(format!("nvidia-smi: {reason}")),
                Err(Refused::Field(field)) => {
                    fields.retain(|f| *f != field);
                    unknown.push(field);
                    if field == "clocks_event_reasons.active" {
                        fields.push("clocks_throttle_reasons.active");
                    }
                    if !fields.contains(&"index") {
                        return Err("nvidia-smi reports no index for a GPU".to_owned());
                    }
                }
            }
        }
    }

    fn launch(
        limit: Duration,
        program: &Path,
        interval_ms: u64,
        epoch: Epoch,
        fields: &[&'static str],
    ) -> Result<Self, Refused> {
        let other = |e: &dyn std::fmt::Display| Refused::Other(e.to_string());
        let mut child = Command::new(program)
            .arg(format!("--query-gpu={}", fields.join(",")))
            .args([
                "--format=csv,noheader,nounits",
                &format!("--loop-ms={interval_ms}"),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| other(&e))?;
        let output = child
            .stdout
            .take()
            .ok_or_else(|| other(&"its output cannot be read"))?;
        let (sender, lines) = sync_channel(WAITING);
        let reader = std::thread::Builder::new()
            .name("nvidia-smi".to_owned())
            .spawn(move || {
                // A line has a few hundred bytes; an endless one is cut.
                let mut output = BufReader::new(output);
                loop {
                    let mut bytes = Vec::new();
                    let got = (&mut output).take(64 * 1024).read_until(b'\n', &mut bytes);
                    let at_ns = i64::try_from(epoch.now()).unwrap_or(i64::MAX);
                    let line = String::from_utf8_lossy(&bytes).trim().to_owned();
                    if !matches!(got, Ok(n) if n > 0) || sender.send((at_ns, line)).is_err() {
                        return;
                    }
                }
            })
            .map_err(|e| other(&e))?;
        let (fields, unknown, ended) = (fields.to_vec(), Vec::new(), None);
        let mut smi = Self {
            child,
            lines,
            waiting: Vec::new(),
            reader: Some(reader),
            fields,
            unknown,
            ended,
        };
        let until = Instant::now() + limit;
        let late = || Refused::Other(format!("no answer within {} s", limit.as_secs_f64()));
        let mut said = Vec::new();
        loop {
            match smi
                .lines
                .recv_timeout(until.saturating_duration_since(Instant::now()))
            {
                Ok((at_ns, line)) if smi.row(at_ns, &line).is_some() => {
                    smi.waiting.push((at_ns, line));
                    return Ok(smi);
                }
                Ok((_, line)) => {
                    // "Field "x" is not a valid field to query."
                    let quoted = line
                        .split('"')
                        .nth(1)
                        .filter(|_| line.contains("not a valid field"));
                    if let Some(field) = FIELDS.iter().find(|f| quoted == Some(**f)) {
                        return Err(Refused::Field(field));
                    }
                    // It may print something else without a pause.
                    if Instant::now() >= until {
                        return Err(late());
                    }
                    if !line.is_empty() && said.len() < SAID {
                        said.push(line.chars().take(400).collect::<String>());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    return Err(late());
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = smi
                        .child
                        .wait()
                        .map_or_else(|e| e.to_string(), |s| s.to_string());
                    return Err(Refused::Other(format!("{status}: {}", said.join(" "))));
                }
            }
        }
    }

    /// Parses one line; `None` if it does not describe a GPU.
    fn row(&self, at_ns: i64, line: &str) -> Option<GpuSample> {
        let values: Vec<&str> = line.split(',').map(str::trim).collect();
        if values.len() != self.fields.len() {
            return None;
        }
        // `[N/A]`, `[Not Supported]`, `[Unknown Error]`, `N/A` and similar texts are not values.
        let text = |field: &str| {
            let value = values[self.fields.iter().position(|f| *f == field)?];
            let nothing = value.is_empty() || value.starts_with('[') || value == "N/A";
            (!nothing).then_some(value)
        };
        let number = |field: &str| text(field)?.parse::<f64>().ok().filter(|v| v.is_finite());
        let mebibytes = |field: &str| whole(number(field)? * 1024.0 * 1024.0);
        let mask =
            text("clocks_event_reasons.active").or_else(|| text("clocks_throttle_reasons.active"));
        let mask = mask.and_then(|m| u64::from_str_radix(m.trim_start_matches("0x"), 16).ok());
        Some(GpuSample {
            at_ns,
            gpu: text("index")?.parse().ok()?,
            uuid: text("uuid").map(str::to_owned),
            name: text("name").map(str::to_owned),
            power_w: number("power.draw"),
            energy_j: None,
            sm_clock_mhz: number("clocks.sm"),
            memory_clock_mhz: number("clocks.mem"),
            temperature_c: number("temperature.gpu"),
            sm_utilisation: number("utilization.gpu").map(|p| p / 100.0),
            memory_utilisation: number("utilization.memory").map(|p| p / 100.0),
            memory_used_bytes: mebibytes("memory.used"),
            memory_total_bytes: mebibytes("memory.total"),
            throttle_reasons: mask.map(reasons),
            compute_processes: None,
            foreign_processes: None,
        })
    }
}

impl GpuSampler for Smi {
    fn word(&self) -> &'static str {
        "nvidia-smi"
    }

    fn rows(&mut self, _: i64) -> Result<Vec<GpuSample>, String> {
        let mut lines = std::mem::take(&mut self.waiting);
        // Whatever arrives meanwhile belongs to the next sample.
        for _ in 0..WAITING {
            match self.lines.try_recv() {
                Ok(line) => lines.push(line),
                Err(std::sync::mpsc::TryRecvError::Empty) => break,
                Err(std::sync::mpsc::TryRecvError::Disconnected) => {
                    if self.ended.is_none() {
                        let status = self
                            .child
                            .wait()
                            .map_or_else(|e| e.to_string(), |s| s.to_string());
                        self.ended = Some(format!("nvidia-smi ended during the run ({status})"));
                    }
                    break;
                }
            }
        }
        Ok(lines
            .iter()
            .filter_map(|(at_ns, line)| self.row(*at_ns, line))
            .collect())
    }

    fn notes(&self) -> Vec<String> {
        self.unknown
            .iter()
            .map(|field| format!("nvidia-smi does not know `{field}`"))
            .collect()
    }

    fn ended(&self) -> Option<String> {
        self.ended.clone()
    }
}

impl Drop for Smi {
    /// Ends the program and leaves nothing of it behind.
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _status = self.child.wait();
        // A child of the program may hold the pipe open. The reader ends with it, so do not wait.
        drop(self.reader.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Writes a shell script named `nvidia-smi`.
    fn fake(script: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("nvidia-smi");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        (folder, program)
    }

    fn start(script: &str) -> Result<Smi, String> {
        let (_folder, program) = fake(script);
        // A new script may be held open by another test's fork for a moment.
        loop {
            match Smi::start(&program, 100, Epoch::start()) {
                Err(e) if e.contains("Text file busy") => std::thread::yield_now(),
                started => return started,
            }
        }
    }

    /// Collects rows until there are this many.
    fn rows(smi: &mut Smi, wanted: usize) -> Vec<GpuSample> {
        let mut all = Vec::new();
        while all.len() < wanted {
            all.extend(smi.rows(0).unwrap());
            std::thread::yield_now();
        }
        all
    }

    const H200: &str =
        "0, GPU-1, NVIDIA H200, 412.50, 1980, 3201, 61, 99, 47, 70000, 143771, 0x0000000000000004";

    #[test]
    fn known_lines_give_known_rows_in_our_units() {
        let idle =
            "1, GPU-2, NVIDIA H200, 71.25, 345, 3201, 30, 0, 0, 4, 143771, 0x0000000000000001";
        let mut smi = start(&format!("echo '{H200}'; echo '{idle}'; exec sleep 60")).unwrap();
        let rows = rows(&mut smi, 2);
        let expected = GpuSample {
            at_ns: rows[0].at_ns,
            gpu: 0,
            uuid: Some("GPU-1".into()),
            name: Some("NVIDIA H200".into()),
            power_w: Some(412.5),
            energy_j: None,
            sm_clock_mhz: Some(1980.0),
            memory_clock_mhz: Some(3201.0),
            temperature_c: Some(61.0),
            sm_utilisation: Some(0.99),
            memory_utilisation: Some(0.47),
            memory_used_bytes: Some(70_000 * 1_048_576),
            memory_total_bytes: Some(143_771 * 1_048_576),
            throttle_reasons: Some("power-cap".into()),
            compute_processes: None,
            foreign_processes: None,
        };
        assert_eq!(rows[0], expected);
        assert_eq!((rows[1].gpu, rows[1].power_w), (1, Some(71.25)));
        assert_eq!(rows[1].throttle_reasons.as_deref(), Some("idle"));
        assert!(rows[0].at_ns > 0 && rows[1].at_ns >= rows[0].at_ns);
    }

    #[test]
    fn what_is_not_available_is_null() {
        let line =
            "0, GPU-1, Tesla, [N/A], [Not Supported], N/A, 40, [Unknown Error], , 1, 2, [N/A]";
        let mut smi = start(&format!("echo '{line}'; exec sleep 60")).unwrap();
        let row = rows(&mut smi, 1).remove(0);
        assert_eq!(
            (row.power_w, row.sm_clock_mhz, row.memory_clock_mhz),
            (None, None, None)
        );
        assert_eq!(
            (
                row.sm_utilisation,
                row.memory_utilisation,
                row.throttle_reasons
            ),
            (None, None, None)
        );
        assert_eq!(
            (row.temperature_c, row.memory_used_bytes),
            (Some(40.0), Some(1_048_576))
        );
    }

    #[test]
    fn a_field_the_program_does_not_know_is_gone_without() {
        let script = r#"
            case "$1" in *clocks_event_reasons*)
                echo 'Field "clocks_event_reasons.active" is not a valid field to query.'; exit 2;; esac
            case "$1" in *clocks.mem*) echo 'Field "clocks.mem" is not a valid field to query.'; exit 2;; esac
            echo '0, GPU-1, Old, 100.0, 1500, 50, 20, 10, 1, 2, 0x0000000000000020'
            exec sleep 60"#;
        let mut smi = start(script).unwrap();
        let row = rows(&mut smi, 1).remove(0);
        assert_eq!((row.power_w, row.memory_clock_mhz), (Some(100.0), None));
        assert_eq!(row.throttle_reasons.as_deref(), Some("thermal"));
        assert_eq!(smi.notes().len(), 2);
    }

    #[test]
    fn a_program_that_dies_leaves_its_rows_and_says_so() {
        let mut smi = start(&format!("echo '{H200}'; exit 9")).unwrap();
        assert_eq!(rows(&mut smi, 1).len(), 1);
        while smi.ended().is_none() {
            assert!(smi.rows(0).unwrap().is_empty());
            std::thread::yield_now();
        }
        assert!(
            smi.ended().unwrap().contains("exit status: 9"),
            "{:?}",
            smi.ended()
        );
    }

    #[test]
    fn lines_that_come_late_are_stamped_when_they_come() {
        let mut smi = start(&format!(
            "echo '{H200}'; sleep 0.3; echo '{H200}'; exec sleep 60"
        ))
        .unwrap();
        let rows = rows(&mut smi, 2);
        assert!(rows[1].at_ns - rows[0].at_ns >= 250_000_000);
    }

    #[test]
    fn a_program_that_prints_without_a_pause_stops_neither_the_start_nor_a_sample() {
        let (_folder, program) = fake("exec yes");
        let short = Duration::from_millis(300);
        let error = loop {
            match Smi::start_within(short, &program, 100, Epoch::start()).err() {
                Some(e) if e.contains("Text file busy") => std::thread::yield_now(),
                other => break other.unwrap(),
            }
        };
        assert_eq!(error, "nvidia-smi: no answer within 0.3 s");
        let mut smi = start(&format!("exec yes '{H200}'")).unwrap();
        for _ in 0..3 {
            assert!(smi.rows(0).unwrap().len() <= WAITING + 1);
        }
    }

    #[test]
    fn a_program_that_fails_is_quoted() {
        let error = start("echo 'NVIDIA-SMI has failed: no driver'; exit 9")
            .err()
            .unwrap();
        assert_eq!(
            error,
            "nvidia-smi: exit status: 9: NVIDIA-SMI has failed: no driver"
        );
    }

    #[test]
    fn lines_of_something_else_are_no_rows() {
        let mut smi = start(&format!(
            "echo '{H200}'; echo 'a, b'; echo '{H200}'; exec sleep 60"
        ))
        .unwrap();
        assert_eq!(rows(&mut smi, 2).len(), 2);
    }
}
