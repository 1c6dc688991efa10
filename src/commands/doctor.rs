//! `doctor`: shows what this machine has and lacks, in general and for an experiment.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use artifacts::counted;
use engines::Engine;
use pipeline::sources::NamedFiles;
use provision::{Brought, Machine, Unmet, unmet};
use serde_json::{Value, json};

use crate::args::{DoctorArgs, ExperimentArgs, Global};
use crate::columns::columns;
use crate::exit::Stop;
use crate::project::{Project, shown};
use crate::session::Session;
use crate::terminal::{bytes, say};

/// Free space below which the default engine and weights may not fit.
const LITTLE_SPACE: u64 = 1 << 30;

/// One checked item.
struct Diagnosis {
    what: String,
    state: State,
    detail: String,
    remedy: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Good,
    /// Missing, and something required depends on it.
    Lacking,
    /// Missing, and nothing required depends on it.
    Absent,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Good => "has",
            Self::Lacking => "lacks",
            Self::Absent => "absent",
        }
    }
}

impl Diagnosis {
    fn of<T, E: std::fmt::Display>(
        what: &str,
        result: &Result<T, E>,
        show: impl Fn(&T) -> String,
        missing: State,
    ) -> Self {
        let (state, detail) = match result {
            Ok(value) => (State::Good, show(value)),
            Err(error) => (missing, error.to_string()),
        };
        Self {
            what: what.to_owned(),
            state,
            detail,
            remedy: None,
        }
    }

    fn remedy(mut self, remedy: &str) -> Self {
        if self.state != State::Good {
            self.remedy = Some(remedy.to_owned());
        }
        self
    }
}

pub(super) fn doctor(arguments: &DoctorArgs, global: &Global) -> Result<(), Stop> {
    if let Some(name) = arguments
        .experiment
        .as_deref()
        .filter(|path| !path.exists())
        && let Some(name) = name.to_str()
        && engines::shipped()
            .iter()
            .any(|d| d.collection == "engines" && d.name == name)
    {
        let message = format!("`{name}` is an engine, and `doctor` takes an experiment");
        let hint = format!(
            "`benchtrail doctor EXPERIMENT` checks the engines of an experiment; `benchtrail list engines {name}` shows \
             this one"
        );
        return Err(Stop::usage(message).hint(hint));
    }
    let machine = Machine::here();
    let project = Project::of(arguments.experiment.as_deref(), global.store.as_deref())?;
    let mut findings = general(machine, &project);
    if let Some(file) = &arguments.experiment {
        findings.extend(for_experiment(file, machine, global)?);
    }
    if arguments.deep {
        findings.extend(unpacked(&project)?);
    }
    if global.json {
        let list = findings.iter().map(
            |f| json!({ "what": f.what, "state": f.state.word(), "detail": f.detail, "remedy": f.remedy }),
        );
        say(&Value::Array(list.collect()).to_string());
    } else {
        let rows: Vec<Vec<String>> = findings
            .iter()
            .map(|f| vec![f.state.word().to_owned(), f.what.clone(), f.detail.clone()])
            .collect();
        say(&columns(&["", "what", "detail"], &rows, &[]));
        for finding in &findings {
            if let Some(remedy) = &finding.remedy {
                say(&format!("{}: {remedy}", finding.what));
            }
        }
    }
    if findings.iter().any(|f| f.state == State::Lacking) {
        Err(Stop::machine_printed())
    } else {
        Ok(())
    }
}

/// Hashes the packages unpacked into the store; returns one finding per folder.
fn unpacked(project: &Project) -> Result<Vec<Diagnosis>, Stop> {
    let looked = provision::check_unpacked(&project.store)
        .map_err(|e| Stop::refused_at(project.store.display(), &e))?;
    let finding = |checked: provision::Unpacked| {
        let folder = checked.folder.file_name().unwrap_or_default();
        let name: String = folder.to_string_lossy().chars().take(12).collect();
        let good = format!(
            "{} as unpacked ({})",
            counted(checked.files, "file"),
            bytes(checked.bytes)
        );
        let outcome = match checked.wrong.as_slice() {
            [] => Ok(good),
            [one] => Err(one.clone()),
            [first, more @ ..] => Err(format!("{first}, and {}", counted(more.len(), "more file"))),
        };
        Diagnosis::of(
            &format!("unpacked {name}"),
            &outcome,
            Clone::clone,
            State::Lacking,
        )
        .remedy("`benchtrail fsck --repair` removes it, and the next run unpacks it again")
    };
    Ok(looked.into_iter().map(finding).collect())
}

fn general(machine: &Machine, project: &Project) -> Vec<Diagnosis> {
    let mut findings = vec![
        Diagnosis::of(
            "processor",
            &machine.cpu_model,
            |m| format!("{m}, {} logical cores", machine.cpus),
            State::Absent,
        ),
        Diagnosis::of(
            "memory",
            &machine.memory_bytes,
            |b| bytes(*b),
            State::Absent,
        ),
        Diagnosis::of("glibc", &machine.glibc, Clone::clone, State::Absent),
        Diagnosis::of(
            "GPU",
            &machine.gpus,
            |gpus| match gpus.as_slice() {
                [] => "none".to_owned(),
                some => some
                    .iter()
                    .map(|g| g.name.as_str())
                    .collect::<Vec<_>>()
                    .join(", "),
            },
            State::Absent,
        ),
    ];
    findings.push(
        Diagnosis::of(
            "python3",
            &version_of("python3", &["--version"]),
            Clone::clone,
            State::Lacking,
        )
        .remedy("install Python 3; on Debian: apt install python3"),
    );
    findings.push(
        Diagnosis::of(
            "pip",
            &version_of("python3", &["-m", "pip", "--version"]),
            Clone::clone,
            State::Lacking,
        )
        .remedy("install pip; on Debian: apt install python3-pip"),
    );
    findings.push(store_folder(&project.store));
    findings.push(space(project));
    findings.push(temporary_folder());
    findings
}

/// Checks that the store, or the folder in which it will be created, can be written.
fn store_folder(store: &Path) -> Diagnosis {
    let what = format!("store {}", shown(store));
    let not_folder = store
        .ancestors()
        .find(|p| p.exists())
        .filter(|p| !p.is_dir());
    let remedy = "make the folder writable for you, or put the store elsewhere with `--store DIR`";
    if let Some(file) = not_folder {
        return Diagnosis {
            what,
            state: State::Lacking,
            detail: format!("{} is not a folder", shown(file)),
            remedy: Some("name a folder with `--store DIR` or BENCHTRAIL_STORE".to_owned()),
        };
    }
    let (folder, detail) = match store.is_dir() {
        true => (store, "can be written".to_owned()),
        false => (
            existing(store),
            "can be created by the first run".to_owned(),
        ),
    };
    let tried =
        try_to_write(folder).map_err(|e| format!("{} cannot be written: {e}", shown(folder)));
    Diagnosis::of(&what, &tried, |()| detail.clone(), State::Lacking).remedy(remedy)
}

/// Checks that the folder of temporary files can be written: `load` without `--out` and dry runs need it.
fn temporary_folder() -> Diagnosis {
    let folder = tempfile::env::temp_dir();
    let tried = try_to_write(&folder).map_err(|e| format!("cannot be written: {e}"));
    let what = format!("temporary folder {}", folder.display());
    Diagnosis::of(
        &what,
        &tried,
        |()| "can be written".to_owned(),
        State::Lacking,
    )
    .remedy("name a folder that you can write: `export TMPDIR=DIR`")
}

/// Writes some bytes into a folder, in a file without a name, which leaves nothing behind.
fn try_to_write(folder: &Path) -> std::io::Result<()> {
    let mut file = tempfile::tempfile_in(folder)?;
    file.write_all(&[0; 4096])?;
    file.sync_data()
}

/// Returns the nearest folder on the way to a path that exists.
fn existing(path: &Path) -> &Path {
    let here = Path::new(".");
    let nearest = path.ancestors().find(|p| p.is_dir());
    nearest.unwrap_or(if path.is_absolute() {
        Path::new("/")
    } else {
        here
    })
}

fn version_of(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|e| format!("{program}: {e}"))?;
    let said = |bytes: &[u8]| {
        String::from_utf8_lossy(bytes)
            .lines()
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    if output.status.success() {
        Ok(said(&output.stdout))
    } else {
        Err(said(&output.stderr))
    }
}

fn space(project: &Project) -> Diagnosis {
    let folder = existing(&project.store);
    let free = rustix::fs::statvfs(folder).map(|s| s.f_bavail.saturating_mul(s.f_frsize));
    let what = format!("space for {}", shown(&project.store));
    let finding = Diagnosis::of(
        &what,
        &free,
        |b| format!("{} free", bytes(*b)),
        State::Absent,
    );
    match free {
        Ok(b) if b < LITTLE_SPACE => Diagnosis {
            state: State::Lacking,
            ..finding
        }
        .remedy("free some space, or put the store elsewhere with `--store DIR`"),
        _ => finding,
    }
}

/// The remedy for a server that should already run.
const NOT_RUNNING: &str =
    "start the server, or correct `launch.program.running` in the engine's definition";

/// Checks the engines that an experiment's cells name, and their fallbacks.
fn for_experiment(file: &Path, machine: &Machine, global: &Global) -> Result<Vec<Diagnosis>, Stop> {
    let arguments = ExperimentArgs {
        experiment: file.to_owned(),
        set: Vec::new(),
        profile: None,
        smoke: false,
    };
    let session = Session::open(&arguments, global)?;
    let mut findings = Vec::new();
    for stage in session
        .experiment
        .stages
        .iter()
        .filter(|s| s.kind == "provision")
    {
        for parameters in &stage.parameter_sets {
            let brought = Brought::by(parameters);
            // The engine first, then its fallbacks, in this order.
            let engines = parameters
                .get("engines")
                .and_then(Value::as_array)
                .map_or(&[][..], Vec::as_slice);
            for (i, named) in engines.iter().enumerate() {
                let name = named["name"].as_str().unwrap_or("engine");
                let engine = Engine::from_json(&named["definition"]).map_err(|p| {
                    Stop::usage(p.first().map_or_else(String::new, |p| p.message.clone()))
                })?;
                let missing = unmet(&engine, machine, brought);
                let module = provision::missing_module(&engine, machine)
                    .filter(|_| brought == Brought::Nothing);
                let what = || format!("engine {name} (stage `{}`)", stage.name);
                let silent = serve::silent(&engine);
                match (missing.as_slice(), module) {
                    ([], Some(failure)) => findings.push(Diagnosis {
                        what: what(),
                        state: State::Lacking,
                        detail: failure.reason,
                        remedy: failure.hint,
                    }),
                    ([], None) if !silent.is_empty() => {
                        findings.extend(silent.into_iter().map(|(url, reason)| Diagnosis {
                            what: what(),
                            state: State::Lacking,
                            detail: format!("{url}: {reason}"),
                            remedy: Some(NOT_RUNNING.to_owned()),
                        }));
                    }
                    _ => {
                        let has_stand_in = i + 1 < engines.len();
                        findings.push(engine_finding(&stage.name, name, &missing, has_stand_in));
                    }
                }
            }
        }
    }
    Ok(without_repeats(environment(&session), findings))
}

/// Returns the findings of stages and of engines. A stage's finding that only repeats one of an engine is left out.
fn without_repeats(stages: Vec<Diagnosis>, engines: Vec<Diagnosis>) -> Vec<Diagnosis> {
    let repeats = |stage: &Diagnosis, engine: &Diagnosis| {
        engine.state == State::Lacking
            && engine.remedy == stage.remedy
            && stage.detail.ends_with(&engine.detail)
    };
    let mut findings = stages;
    findings.retain(|stage| !engines.iter().any(|engine| repeats(stage, engine)));
    findings.extend(engines);
    findings
}

/// Reports what the experiment's cells take from the environment of this process and would not find, such as an API key.
/// A machine that a scheduler chooses has its own environment.
fn environment(session: &Session) -> Vec<Diagnosis> {
    let files = NamedFiles::of(&session.experiment, None);
    let mut findings = Vec::new();
    for stage in &session.experiment.stages {
        let kind = session
            .registry
            .kinds
            .iter()
            .find(|kind| kind.name() == stage.kind);
        let Some(kind) = kind.filter(|_| stage.placements.is_empty()) else {
            continue;
        };
        for problem in stage
            .parameter_sets
            .iter()
            .filter_map(|set| kind.ready(set, &files).err())
        {
            let finding = Diagnosis {
                what: format!("stage `{}`", stage.name),
                state: State::Lacking,
                detail: problem.message,
                remedy: problem.hint,
            };
            if !findings.iter().any(|other: &Diagnosis| {
                other.what == finding.what && other.detail == finding.detail
            }) {
                findings.push(finding);
            }
        }
    }
    findings
}

/// Reports whether an engine can run here. If a fallback exists, nothing is lacking yet.
fn engine_finding(stage: &str, name: &str, missing: &[Unmet], has_stand_in: bool) -> Diagnosis {
    let what = format!("engine {name} (stage `{stage}`)");
    if missing.is_empty() {
        let detail = "all requirements are met".to_owned();
        return Diagnosis {
            what,
            state: State::Good,
            detail,
            remedy: None,
        };
    }
    let detail = missing
        .iter()
        .map(|u| u.reason.as_str())
        .collect::<Vec<_>>()
        .join("; ");
    let hints: Vec<&str> = missing.iter().filter_map(|u| u.hint.as_deref()).collect();
    let remedy = (!hints.is_empty()).then(|| hints.join("; "));
    Diagnosis {
        what,
        state: if has_stand_in {
            State::Absent
        } else {
            State::Lacking
        },
        detail,
        remedy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacking(what: &str, detail: &str, remedy: &str) -> Diagnosis {
        Diagnosis {
            what: what.to_owned(),
            state: State::Lacking,
            detail: detail.to_owned(),
            remedy: Some(remedy.to_owned()),
        }
    }

    #[test]
    fn what_an_engine_lacks_is_named_once() {
        let stages = vec![
            lacking(
                "stage `m`",
                "engine `vllm`: it is not installed",
                "install it",
            ),
            lacking("stage `m`", "the key is not set", "set it"),
        ];
        let engines = vec![lacking("engine vllm", "it is not installed", "install it")];
        let findings = without_repeats(stages, engines);
        let whats: Vec<&str> = findings.iter().map(|f| f.detail.as_str()).collect();
        assert_eq!(whats, ["the key is not set", "it is not installed"]);
    }
}
