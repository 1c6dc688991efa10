//! The process that makes a rented machine and destroys it. It listens on a pipe from the run. When the pipe closes or
//! falls silent, or the budget is spent, it destroys everything. A killed run therefore leaves no machine behind.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use pipeline::Json;
use pipeline::process::{Limits, ProcessId, Ran, interrupt, run_within};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::meter::{Meter, State, forget, now};
use crate::beat::{Heard, SILENCE, listen};

/// The module's copy in the folder of a machine, and the program's log.
pub(super) const MODULE: &str = "module";
pub(super) const LOG: &str = "log.txt";
const ORDER: &str = "order.json";
/// Starts the line in the log before each command.
const MARK: &str = "benchtrail: ";

const POLL: Duration = Duration::from_millis(100);
/// How often the meter is written.
const METER_EVERY: Duration = Duration::from_secs(10);
/// How long the program may take to end after an interrupt. It waits for operations in progress.
const INTERRUPTED: Duration = Duration::from_secs(15 * 60);
/// The limits of the command that prints the outputs of the module.
const OUTPUT: Limits = Limits {
    time: Duration::from_secs(10 * 60),
    output: 64 << 20,
    memory: None,
};
/// The pauses before further attempts to destroy.
const PAUSES: [Duration; 3] = [
    Duration::from_secs(2),
    Duration::from_secs(20),
    Duration::from_secs(60),
];

/// The task of a keeper.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) meter: Meter,
    /// The seconds until the budget is spent.
    pub(super) limit_s: f64,
}

impl Order {
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        fs::write(folder.join(ORDER), serde_json::to_vec(self)?)
    }
}

/// Why a keeper ends its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The run no longer wants the machine, or is gone.
    Asked,
    /// The budget is spent.
    Spent,
}

/// Makes the machine of an order, reports it, waits for the end, and destroys everything. Returns the exit code, 0 if
/// nothing is left. Each line of output is a document: `ready` with the outputs of the module, or `failed` with the
/// reason; then perhaps `ending` with the reason for an end without a request.
///
/// # Errors
/// If the order cannot be read.
pub fn keep(
    folder: &Path,
    pipe: impl Read + Send + 'static,
    mut say: impl FnMut(&Json),
) -> io::Result<u8> {
    let error = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", folder.display()));
    let bytes = fs::read(folder.join(ORDER)).map_err(error)?;
    let Order { mut meter, limit_s } =
        serde_json::from_slice(&bytes).map_err(|e| error(e.into()))?;
    meter.keeper = Some(ProcessId::own().map_err(error)?);
    meter.since = now();
    meter.until = meter.since;
    meter.write(folder).map_err(error)?;
    let spent_at = Duration::try_from_secs_f64(limit_s)
        .ok()
        .and_then(|limit| Instant::now().checked_add(limit));
    let mut heard = listen(pipe, SILENCE);
    let mut metered = Instant::now();
    let mut wait = |meter: &mut Meter| {
        let gone = heard(POLL) == Heard::Gone;
        if metered.elapsed() >= METER_EVERY {
            metered = Instant::now();
            meter.until = now();
            // The next write may succeed, and the machine matters more than its meter.
            let _unwritten = meter.write(folder);
        }
        match spent_at {
            _ if gone => Some(End::Asked),
            Some(at) if Instant::now() >= at => Some(End::Spent),
            _ => None,
        }
    };
    let made = make(folder, &mut meter, &mut wait);
    let why = match made {
        Ok(outputs) => {
            say(&json!({"ready": outputs}));
            loop {
                if let Some(end) = wait(&mut meter) {
                    break end;
                }
            }
        }
        Err(Unmade::Ended(end)) => end,
        Err(Unmade::Failed(reason)) => {
            say(&json!({"failed": reason}));
            End::Asked
        }
    };
    if why == End::Spent {
        say(&json!({"ending": "the budget is spent, and the machine is destroyed"}));
    }
    let destroyed = destroy(folder, &mut meter);
    Ok(u8::from(destroyed.is_err()))
}

/// Why the outputs are missing.
enum Unmade {
    Failed(String),
    Ended(End),
}

fn make(
    folder: &Path,
    meter: &mut Meter,
    wait: &mut dyn FnMut(&mut Meter) -> Option<End>,
) -> Result<Json, Unmade> {
    for command in ["init", "apply"] {
        let mut child = start(folder, meter, command).map_err(Unmade::Failed)?;
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) => {}
                Err(e) => return Err(Unmade::Failed(e.to_string())),
            }
            if let Some(end) = wait(meter) {
                let _whatever_it_made_is_destroyed = end_well(&mut child);
                return Err(Unmade::Ended(end));
            }
        };
        if !status.success() {
            return Err(Unmade::Failed(format!(
                "`{command}`: {}",
                last_words(folder)
            )));
        }
    }
    let mut command = Command::new(&meter.program);
    command
        .arg(chdir(folder))
        .args(["output", "-json", "-no-color"]);
    let mut end = None;
    let asked = run_within(&mut command, Stdio::null(), OUTPUT, || {
        end = wait(meter);
        end.is_none()
    });
    if let Some(end) = end {
        return Err(Unmade::Ended(end));
    }
    let failed = |why: &str| Unmade::Failed(format!("`output`: {why}"));
    let answer = match asked {
        Ok(Ran::Ended(answer)) => answer,
        Ok(Ran::Late | Ran::Stopped) => {
            let seconds = OUTPUT.time.as_secs();
            return Err(failed(&format!("no answer within {seconds} s")));
        }
        Ok(Ran::Endless) => {
            let most = OUTPUT.output >> 20;
            return Err(failed(&format!("it printed more than {most} MiB")));
        }
        Err(e) => return Err(failed(&e.to_string())),
    };
    serde_json::from_slice(&answer.stdout).map_err(|e| {
        let said = String::from_utf8_lossy(&answer.stderr);
        failed(&format!("{e} {}", said.trim()))
    })
}

fn chdir(folder: &Path) -> String {
    format!("-chdir={}", folder.join(MODULE).display())
}

/// Returns the command that destroys everything, for people and for us.
pub(super) fn destruction(folder: &Path, meter: &Meter) -> Vec<String> {
    let mut words = vec![
        meter.program.display().to_string(),
        chdir(folder),
        "destroy".to_owned(),
        "-auto-approve".to_owned(),
        "-input=false".to_owned(),
        "-no-color".to_owned(),
    ];
    words.extend(meter.variables.iter().map(|v| format!("-var={v}")));
    words
}

fn start(folder: &Path, meter: &Meter, command: &str) -> Result<Child, String> {
    let log = |e: io::Error| format!("{}: {e}", folder.join(LOG).display());
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(folder.join(LOG));
    let mut file = file.map_err(log)?;
    writeln!(file, "{MARK}{command}").map_err(log)?;
    let mut call = Command::new(&meter.program);
    if command == "destroy" {
        call.args(&destruction(folder, meter)[1..]);
    } else {
        call.args([&chdir(folder), command, "-input=false", "-no-color"]);
        if command == "apply" {
            call.arg("-auto-approve");
            call.args(meter.variables.iter().map(|v| format!("-var={v}")));
        }
    }
    call.env("TF_IN_AUTOMATION", "1")
        .stdin(Stdio::null())
        .stdout(file.try_clone().map_err(log)?)
        .stderr(file)
        // Keys that stop the run in a terminal must not reach it: the keeper ends it.
        .process_group(0);
    call.spawn()
        .map_err(|e| format!("`{}` cannot be started: {e}", meter.program.display()))
}

/// Interrupts the program, which then records what it has made, and waits for it.
fn end_well(child: &mut Child) -> io::Result<ExitStatus> {
    interrupt(child.id())?;
    let begun = Instant::now();
    while begun.elapsed() < INTERRUPTED {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(POLL);
    }
    child.kill()?;
    child.wait()
}

/// Destroys everything, in several attempts.
pub(super) fn destroy(folder: &Path, meter: &mut Meter) -> Result<(), String> {
    let mut attempt = 0;
    let ended = loop {
        // An invalid module has made nothing, so nothing must be destroyed.
        if is_untouched(folder) {
            break Ok(());
        }
        let ended = start(folder, meter, "destroy").and_then(|mut child| {
            let status = child.wait().map_err(|e| e.to_string())?;
            if status.success() {
                Ok(())
            } else {
                Err(last_words(folder))
            }
        });
        match PAUSES.get(attempt) {
            Some(pause) if ended.is_err() => std::thread::sleep(*pause),
            _ => break ended,
        }
        attempt += 1;
    };
    meter.until = now();
    meter.state = match ended {
        Ok(()) => State::Gone,
        Err(_) => State::Stuck,
    };
    let written = meter.write(folder);
    if ended.is_ok() {
        forget(folder);
        // The module's providers are large and no longer needed.
        let _stays = fs::remove_dir_all(folder.join(MODULE).join(".terraform"));
    }
    ended.and(written.map_err(|e| format!("{}: {e}", folder.display())))
}

/// Returns whether a module has made nothing so far: no state exists here or in the module's own backend.
fn is_untouched(folder: &Path) -> bool {
    let module = folder.join(MODULE);
    ["terraform.tfstate", ".terraform/terraform.tfstate"]
        .iter()
        .all(|state| !module.join(state).exists())
}

/// Returns the first error in the output of the program's last command.
pub(super) fn last_words(folder: &Path) -> String {
    const READ: u64 = 16 * 1024;
    let read = || -> io::Result<String> {
        let mut file = File::open(folder.join(LOG))?;
        let length = file.metadata()?.len();
        file.seek(io::SeekFrom::Start(length.saturating_sub(READ)))?;
        let mut bytes = Vec::new();
        file.take(READ).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    // The program prints errors in boxes.
    let plain = |line: &str| line.trim_matches(['│', '╷', '╵', ' ']).to_owned();
    let lines: Vec<String> = text.lines().map(plain).filter(|l| !l.is_empty()).collect();
    let begun = lines.iter().rposition(|line| line.starts_with(MARK));
    let lines = &lines[begun.map_or(0, |at| at + 1)..];
    let at = lines.iter().position(|line| line.starts_with("Error:"));
    let from = at.unwrap_or(lines.len().saturating_sub(2));
    lines[from..]
        .iter()
        .take(6)
        .cloned()
        .collect::<Vec<_>>()
        .join(" / ")
}
