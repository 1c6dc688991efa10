//! Another host, sampled by our own binary there: the same readers, over a pipe, with one line per question and one per
//! answer. Samples have the time of their question, on the cell's clock.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use contract::{GpuSample, HostSample, ProcessRole, ProcessSample};
use pipeline::unix_ns;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::exporter::Machine;
use super::files::Files;
use super::gpu::GpuSampler;
use super::host;
use super::nvml::Library;
use super::process;

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(10);

/// The longest answer, in bytes, and the most answers that wait to be read. A host that writes without a pause waits
/// for us.
const LONGEST: u64 = 16 << 20;
const WAITING: usize = 16;

/// The number of exchanges that compare the clocks. The fastest one counts.
const EXCHANGES: usize = 9;

/// A host that answers questions about itself.
pub(crate) struct Sampler {
    child: Child,
    questions: ChildStdin,
    answers: Receiver<String>,
}

/// The comparison of two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clocks {
    /// How far the other clock is ahead of ours, ns.
    pub(crate) ahead_ns: i64,
    /// The largest error of that, ns: half of the duration of the exchange.
    pub(crate) bound_ns: i64,
}

impl Sampler {
    /// Starts a command that answers questions.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start(command: &[String]) -> Result<Self, String> {
        let (program, arguments) = command.split_first().ok_or("there is no command")?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("`{program}`: {e}"))?;
        let (Some(questions), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("its pipes are not available".to_owned());
        };
        let (sender, answers) = sync_channel(WAITING);
        // A separate thread reads, so that a cut link does not hold up the load.
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            while let Some(line) = next_line(&mut output, LONGEST) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            child,
            questions,
            answers,
        })
    }

    fn ask<T: DeserializeOwned>(&mut self, question: &str) -> Result<T, String> {
        // Answers that arrived too late belong to earlier questions. A host may write without a pause.
        let late = std::iter::from_fn(|| self.answers.try_recv().ok());
        let _late = late.take(2 * WAITING).count();
        writeln!(self.questions, "{question}")
            .and_then(|()| self.questions.flush())
            .map_err(|e| format!("the host is gone: {e}"))?;
        let line = self.answers.recv_timeout(LIMIT).map_err(|e| match e {
            RecvTimeoutError::Timeout => {
                format!("the host did not answer within {} s", LIMIT.as_secs())
            }
            RecvTimeoutError::Disconnected => "the host is gone".to_owned(),
        })?;
        let answer: Value = serde_json::from_str(&line).map_err(|e| {
            let start: String = line.chars().take(200).collect();
            format!("`{start}`: {e}")
        })?;
        match answer["failed"].as_str() {
            Some(why) => Err(why.to_owned()),
            None => serde_json::from_value(answer["ok"].clone()).map_err(|e| e.to_string()),
        }
    }

    /// Compares the clocks.
    ///
    /// # Errors
    /// If the host does not answer.
    #[expect(
        clippy::disallowed_methods,
        reason = "two clocks with wall time are compared"
    )]
    pub(crate) fn clocks(&mut self) -> Result<Clocks, String> {
        let mut best: Option<Clocks> = None;
        for _ in 0..EXCHANGES {
            let (asked, began) = (unix_ns(SystemTime::now()), Instant::now());
            let there: i64 = self.ask("clock")?;
            let took = i64::try_from(began.elapsed().as_nanos()).unwrap_or(i64::MAX);
            let ahead_ns = there
                .checked_sub(asked.saturating_add(took / 2))
                .ok_or_else(|| {
                    format!("its clock reports {there} ns, which is not a valid time")
                })?;
            let clocks = Clocks {
                ahead_ns,
                bound_ns: took / 2,
            };
            if best.is_none_or(|best| clocks.bound_ns < best.bound_ns) {
                best = Some(clocks);
            }
        }
        best.ok_or_else(|| "the clocks were not compared".to_owned())
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        // The program ends with its pipe. Do not wait for a client that hangs.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Reads one line; `None` at the end, or if a line is longer than `most` bytes or no text.
fn next_line(from: &mut impl BufRead, most: u64) -> Option<String> {
    let mut line = String::new();
    let read = from.take(most).read_line(&mut line).ok()?;
    (read > 0 && (read as u64) < most).then_some(line)
}

/// A sampler that several companions share.
pub(crate) type Shared = Arc<Mutex<Sampler>>;

fn ask<T: DeserializeOwned>(shared: &Shared, question: &str) -> Result<T, String> {
    let mut sampler = shared.lock().unwrap_or_else(PoisonError::into_inner);
    sampler.ask(question)
}

/// The host itself.
pub(crate) struct Elsewhere {
    pub(crate) name: String,
    pub(crate) sampler: Shared,
}

impl Machine for Elsewhere {
    fn name(&self) -> &str {
        &self.name
    }

    fn sample(&mut self, at_ns: i64) -> Result<HostSample, String> {
        ask(&self.sampler, &format!("host {at_ns}"))
    }
}

/// The GPUs of several hosts, numbered consecutively.
pub(crate) struct GpusElsewhere(pub(crate) Vec<Shared>);

impl GpuSampler for GpusElsewhere {
    fn word(&self) -> &'static str {
        "nvml there"
    }

    fn rows(&mut self, at_ns: i64) -> Result<Vec<GpuSample>, String> {
        let mut rows: Vec<GpuSample> = Vec::new();
        for shared in &self.0 {
            let of_one: Vec<GpuSample> = ask(shared, &format!("gpus {at_ns}"))?;
            let from = i64::try_from(rows.len()).unwrap_or(i64::MAX);
            rows.extend(of_one.into_iter().map(|row| GpuSample {
                gpu: row.gpu.saturating_add(from),
                ..row
            }));
        }
        Ok(rows)
    }
}

/// Returns samples of the engine's processes on the host.
///
/// # Errors
/// If the host does not answer.
pub(crate) fn processes(shared: &Shared, at_ns: i64) -> Result<Vec<ProcessSample>, String> {
    ask(shared, &format!("processes {at_ns}"))
}

/// Answers questions about this host until they end. A file names the engine's process group.
///
/// # Errors
/// If answers cannot be written.
pub fn answer_questions(
    running: &Path,
    questions: impl Read,
    mut answers: impl Write,
) -> std::io::Result<()> {
    let group = std::fs::read_to_string(running)
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let mut host = host::Reader::new(Files::of_this_machine());
    let mut processes = process::Reader::of(group.map(|pid| (None, pid)).into_iter().collect());
    let mut gpus = Library::open(group.into_iter().collect());
    for question in BufReader::new(questions).lines() {
        let question = question?;
        let (what, at) = question.split_once(' ').unwrap_or((&question, "0"));
        let at_ns = at.parse().unwrap_or_default();
        let answer: Result<Value, String> = match what {
            "clock" => Ok(now()),
            "host" => host.read(at_ns).map(|sample| json!(sample)),
            "processes" => {
                let mut rows = processes.read(at_ns);
                rows.retain(|row| row.role == ProcessRole::Server);
                Ok(json!(rows))
            }
            "gpus" => match &mut gpus {
                Ok(library) => library.rows(at_ns).map(|rows| json!(rows)),
                Err(why) => Err(why.clone()),
            },
            other => Err(format!("`{other}` is not a request")),
        };
        let line = match answer {
            Ok(value) => json!({ "ok": value }),
            Err(why) => json!({ "failed": why }),
        };
        writeln!(answers, "{line}")?;
        answers.flush()?;
    }
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "two clocks with wall time are compared"
)]
fn now() -> Value {
    json!(unix_ns(SystemTime::now()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_answers_about_itself_and_its_clock() {
        let mut answers = Vec::new();
        let questions = "clock\nhost 7\nprocesses 8\nwhat\n";
        answer_questions(Path::new("/nowhere"), questions.as_bytes(), &mut answers).unwrap();
        let answers = String::from_utf8(answers).unwrap();
        let lines: Vec<Value> = answers
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert!(lines[0]["ok"].as_i64().unwrap() > 0);
        let host: HostSample = serde_json::from_value(lines[1]["ok"].clone()).unwrap();
        assert_eq!(host.at_ns, 7);
        assert!(host.processors.unwrap() > 0);
        assert_eq!(lines[2]["ok"], json!([]), "no engine runs");
        assert_eq!(lines[3]["failed"], "`what` is not a request");
    }

    #[test]
    fn a_line_without_an_end_is_the_end() {
        let mut lines = "a\nbb".as_bytes();
        assert_eq!(next_line(&mut lines, 8).as_deref(), Some("a\n"));
        assert_eq!(next_line(&mut lines, 8).as_deref(), Some("bb"));
        assert_eq!(next_line(&mut lines, 8), None);
        assert_eq!(next_line(&mut "too long a line\n".as_bytes(), 8), None);
    }

    #[test]
    fn a_clock_that_no_machine_has_is_an_error() {
        for there in [i64::MIN, i64::MAX] {
            let script = format!("while read q; do echo '{{\"ok\": {there}}}'; done");
            let command = ["sh", "-c", &script].map(str::to_owned);
            let clocks = Sampler::start(&command).unwrap().clocks();
            // The largest one is 230 years ahead, and its distance from now is a number.
            match there {
                i64::MIN => assert!(clocks.unwrap_err().contains("is not a valid time")),
                _ => assert!(clocks.unwrap().ahead_ns > 0),
            }
        }
    }

    #[test]
    fn a_host_that_writes_without_a_pause_is_an_error_and_no_wait() {
        let command = ["yes", "nonsense"].map(str::to_owned);
        let mut sampler = Sampler::start(&command).unwrap();
        for _ in 0..3 {
            let error = sampler.ask::<i64>("clock").unwrap_err();
            assert!(
                error.contains("nonsense") || error.contains("gone"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_host_that_ends_is_an_error_and_no_wait() {
        let command = ["sh", "-c", "echo '{\"failed\": \"no card\"}'"].map(str::to_owned);
        let mut sampler = Sampler::start(&command).unwrap();
        let error = sampler.clocks().unwrap_err();
        assert!(
            error.contains("no card") || error.contains("gone") || error.contains("answer"),
            "{error}"
        );
    }
}
