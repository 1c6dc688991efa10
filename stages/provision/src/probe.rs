//! Host probes. Each reads one value within a time limit and reports the reason if it fails.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use std::{fmt, fs};

use pipeline::process::{Limits, Ran, run_within};
use pipeline::{Control, Failure, Json};
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(3);

/// The longest answer, in bytes.
const LONGEST: u64 = 64 << 20;

/// The values observed in one run. The value of a failed probe is null, with a reason beside it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Observations {
    pub(crate) values: BTreeMap<String, Json>,
    pub(crate) reasons: BTreeMap<String, String>,
}

type Probe = fn() -> Result<Json, String>;

const PROBES: [(&str, Probe); 11] = [
    ("cpu_governor", || {
        text(Path::new(
            "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
        ))
        .map(|t| trimmed(&t))
    }),
    ("distribution", distribution),
    ("glibc", || {
        crate::Machine::here().glibc.clone().map(Json::String)
    }),
    ("kernel", || {
        text(Path::new("/proc/sys/kernel/osrelease")).map(|t| trimmed(&t))
    }),
    ("load_average", load_average),
    ("memory_available_bytes", memory_available),
    ("pip", || {
        command("python3", &["-m", "pip", "--version"], LIMIT).map(|t| first_words(&t, 2))
    }),
    ("python", || {
        command("python3", &["--version"], LIMIT).map(|t| trimmed(&t))
    }),
    ("temperature_c", temperature),
    ("uptime_s", uptime),
    ("virtualization", virtualization),
];

/// Makes all observations at the same time.
pub(crate) fn observe() -> Observations {
    run(&PROBES, LIMIT)
}

fn run(probes: &[(&'static str, Probe)], limit: Duration) -> Observations {
    // One thread each, because a read under /sys can hang; a hanging thread is left behind.
    let (sender, receiver) = mpsc::channel();
    for (name, probe) in probes {
        let (name, probe, sender) = (*name, *probe, sender.clone());
        thread::spawn(move || drop(sender.send((name, probe()))));
    }
    drop(sender);
    let deadline = Instant::now() + limit;
    let mut answers: BTreeMap<&str, Result<Json, String>> = BTreeMap::new();
    while let Ok((name, answer)) =
        receiver.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    {
        answers.insert(name, answer);
    }
    let mut observations = Observations::default();
    for (name, _) in probes {
        let late = || Err(format!("no answer within {} s", limit.as_secs_f64()));
        let value = answers
            .remove(name)
            .unwrap_or_else(late)
            .unwrap_or_else(|reason| {
                observations.reasons.insert((*name).to_owned(), reason);
                Json::Null
            });
        observations.values.insert((*name).to_owned(), value);
    }
    observations
}

/// Returns a file's text, or the reason why it cannot be read.
pub(crate) fn text(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Returns what a program prints, or the reason why it prints nothing within the limit.
pub(crate) fn command(
    program: &str,
    arguments: &[&str],
    limit: Duration,
) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(answer(command, limit)?)
}

/// The reason why a program printed nothing usable.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// It could not be started.
    NotStarted {
        program: String,
        error: std::io::Error,
    },
    /// It did not end in time.
    Late { program: String, limit: Duration },
    /// It printed too much.
    Endless { program: String },
    /// It ended with an error.
    Failed {
        program: String,
        status: ExitStatus,
        /// The last line on its stderr; empty if there is none.
        last_line: String,
    },
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted { program, error } => write!(f, "`{program}`: {error}"),
            Self::Late { program, limit } => {
                let limit = limit.as_secs_f64();
                write!(f, "`{program}` did not end within {limit} s")
            }
            Self::Endless { program } => {
                write!(f, "`{program}` printed more than {} MiB", LONGEST >> 20)
            }
            Self::Failed {
                program,
                status,
                last_line,
            } => {
                let said = match last_line.as_str() {
                    "" => "nothing said",
                    line => line,
                };
                write!(f, "`{program}`: {status}: {said}")
            }
        }
    }
}

impl From<Unanswered> for String {
    fn from(unanswered: Unanswered) -> Self {
        unanswered.to_string()
    }
}

/// Runs a command and returns what it printed.
///
/// # Errors
/// If it cannot be run, fails, or takes longer than the limit.
pub(crate) fn answer(command: Command, limit: Duration) -> Result<String, Unanswered> {
    answer_while(command, limit, || true)
}

/// Does the same in a job.
///
/// # Errors
/// If the job is stopped meanwhile.
pub(crate) fn answer_unless(
    command: Command,
    limit: Duration,
    control: &Control,
) -> Result<Result<String, Unanswered>, Failure> {
    let said = answer_while(command, limit, || control.check().is_ok());
    control.check()?;
    Ok(said)
}

/// Does the same as long as `go_on` holds.
pub(crate) fn answer_while(
    mut command: Command,
    limit: Duration,
    go_on: impl FnMut() -> bool,
) -> Result<String, Unanswered> {
    let program = command.get_program().display().to_string();
    let limits = Limits {
        time: limit,
        output: LONGEST,
        memory: None,
    };
    let ran = run_within(&mut command, Stdio::null(), limits, go_on);
    let output = match ran {
        Ok(Ran::Ended(output)) => output,
        Ok(Ran::Late | Ran::Stopped) => return Err(Unanswered::Late { program, limit }),
        Ok(Ran::Endless) => return Err(Unanswered::Endless { program }),
        Err(error) => return Err(Unanswered::NotStarted { program, error }),
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    Err(Unanswered::Failed {
        program,
        status: output.status,
        last_line: last.unwrap_or_default().trim().to_owned(),
    })
}

fn trimmed(text: &str) -> Json {
    Json::String(text.trim().to_owned())
}

fn first_words(text: &str, n: usize) -> Json {
    Json::String(
        text.split_whitespace()
            .take(n)
            .collect::<Vec<_>>()
            .join(" "),
    )
}

fn distribution() -> Result<Json, String> {
    let text = text(Path::new("/etc/os-release"))?;
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map(|n| json!(n.trim_matches('"')))
        .ok_or_else(|| "/etc/os-release has no PRETTY_NAME".to_owned())
}

fn load_average() -> Result<Json, String> {
    let text = text(Path::new("/proc/loadavg"))?;
    let values: Option<Vec<f64>> = text
        .split_whitespace()
        .take(3)
        .map(|v| v.parse().ok())
        .collect();
    values
        .map(|v| json!(v))
        .ok_or_else(|| format!("/proc/loadavg says `{}`", text.trim()))
}

fn memory_available() -> Result<Json, String> {
    let text = text(Path::new("/proc/meminfo"))?;
    let bytes = crate::machine::meminfo_bytes(&text, "MemAvailable");
    bytes
        .map(|b| json!(b))
        .ok_or_else(|| "no MemAvailable in /proc/meminfo".to_owned())
}

fn uptime() -> Result<Json, String> {
    let text = text(Path::new("/proc/uptime"))?;
    let seconds = text
        .split_whitespace()
        .next()
        .and_then(|v| v.parse::<f64>().ok());
    seconds
        .map(|s| json!(s))
        .ok_or_else(|| format!("/proc/uptime says `{}`", text.trim()))
}

fn temperature() -> Result<Json, String> {
    let text = text(Path::new("/sys/class/thermal/thermal_zone0/temp"))?;
    let milli: f64 = text
        .trim()
        .parse()
        .map_err(|e| format!("thermal_zone0 says `{}`: {e}", text.trim()))?;
    Ok(json!(milli / 1000.0))
}

fn virtualization() -> Result<Json, String> {
    if Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists() {
        return Ok(json!("container"));
    }
    let cpuinfo = text(Path::new("/proc/cpuinfo"))?;
    let flags = crate::machine::cpuinfo_field(&cpuinfo, "flags").unwrap_or_default();
    let hypervisor = flags.split_whitespace().any(|f| f == "hypervisor");
    Ok(json!(if hypervisor {
        "virtual machine"
    } else {
        "none seen"
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_probe_is_null_with_its_reason_and_does_not_harm_the_others() {
        let observed = run(
            &[("bad", || Err("broken".into())), ("good", || Ok(json!(1)))],
            LIMIT,
        );
        assert_eq!(observed.values["bad"], Json::Null);
        assert_eq!(observed.reasons["bad"], "broken");
        assert_eq!(observed.values["good"], json!(1));
    }

    #[test]
    fn a_probe_that_hangs_is_null_and_says_so() {
        let hangs: Probe = || {
            thread::sleep(Duration::from_secs(3600));
            Ok(Json::Null)
        };
        let observed = run(&[("hangs", hangs)], Duration::from_millis(20));
        assert_eq!(observed.reasons["hangs"], "no answer within 0.02 s");
    }

    #[test]
    fn a_program_that_fails_is_quoted_and_one_that_hangs_is_killed() {
        let failed = command("sh", &["-c", "echo no such card >&2; exit 9"], LIMIT).unwrap_err();
        assert!(
            failed.contains("no such card") && failed.contains('9'),
            "{failed}"
        );
        let hung = command("sleep", &["3600"], Duration::from_millis(20)).unwrap_err();
        assert_eq!(hung, "`sleep` did not end within 0.02 s");
        assert!(command("no-such-program-here", &[], LIMIT).is_err());
    }

    #[test]
    fn a_program_with_many_messages_and_one_that_leaves_a_process_behind_are_answered() {
        let long = Duration::from_secs(20);
        let script = "head -c 200000 /dev/zero >&2; echo yes";
        assert_eq!(command("sh", &["-c", script], long), Ok("yes\n".into()));
        let script = "sleep 60 & echo yes";
        assert_eq!(command("sh", &["-c", script], long), Ok("yes\n".into()));
    }
}
