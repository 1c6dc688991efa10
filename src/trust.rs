//! Whether the programs of an experiment may start. The user is asked once per folder, and the answer is remembered by
//! the digest of what would be executed.
//!
//! Each consent is a small file in the user's state folder. It names the folder and shows what the user consented to;
//! deleting it withdraws the consent.

use std::fs;
use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};

use artifacts::Digest;
use pipeline::language::{Disk, with_own_definitions};
use pipeline::{Consent, Permit, Plan, StageEffect, What};
use serde_json::json;

use crate::exit::Stop;
use crate::project::shown;
use crate::session::{Session, user_folders};
use crate::terminal::{bytes, complain, is_watched};

/// The number of script lines shown before the rest is only counted.
const SCRIPT_SHOWN: usize = 12;

/// How a missing consent may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The user gave it on the command line.
    Given,
    /// Ask, if a user can answer.
    Ask,
}

/// Returns a permit for what the cells that a plan executes may do outside of this program.
///
/// # Errors
/// If they would start something that the user has not consented to, and the user does not consent now.
pub(crate) fn permit(session: &Session, plan: &Plan, answer: Answer) -> Result<Permit, Stop> {
    let (registry, folders) = (&session.registry, user_folders());
    let vouched = with_own_definitions(registry, &folders, &Disk, engines::executed_by);
    let mut permit = Permit::for_definitions(&vouched);
    let store = &session.project.store;
    let effects = pipeline::effects(&session.experiment, registry, store, Some(plan))?;
    let kept = Kept::of(session.project.root.as_path());
    let mut asked: Vec<(&StageEffect, &Consent)> = Vec::new();
    for effect in &effects {
        let Some(consent) = &effect.effect.consent else {
            continue;
        };
        if permit.allows(consent) {
            continue;
        }
        if kept.has(consent) {
            permit.give(consent);
        } else if !asked.iter().any(|(_, other)| *other == consent) {
            asked.push((effect, consent));
        }
    }
    if asked.is_empty() {
        return Ok(permit);
    }
    let consents = |answer: Answer| answer == Answer::Given || (can_ask() && ask(session, &asked));
    if !consents(answer) {
        return Err(refused(session, &asked));
    }
    for (_, consent) in &asked {
        permit.give(consent);
        if let Err(error) = kept.keep(consent) {
            complain(&format!(
                "warning: the consent is not remembered, so the next run asks again: {error}"
            ));
        }
    }
    Ok(permit)
}

/// Returns whether a user can answer.
fn can_ask() -> bool {
    io::stdin().is_terminal() && is_watched()
}

/// Returns the folder that a consent is for, in a form that distinguishes it from others.
fn folder(session: &Session) -> PathBuf {
    let root = &session.project.root;
    let named = if root.as_os_str().is_empty() {
        Path::new(".")
    } else {
        root
    };
    named.canonicalize().unwrap_or_else(|_| named.to_owned())
}

fn ask(session: &Session, asked: &[(&StageEffect, &Consent)]) -> bool {
    complain(&format!(
        "{} starts programs that you have not approved in {}:",
        shown(&session.experiment.file),
        shown(&folder(session))
    ));
    for (effect, _) in asked {
        complain(&text(effect));
    }
    complain("start them? `yes` starts them, and is remembered for this folder [no]");
    let mut line = String::new();
    // End of input is not consent.
    let read = io::stdin().lock().read_line(&mut line);
    read.is_ok() && matches!(line.trim().to_lowercase().as_str(), "y" | "yes")
}

fn refused(session: &Session, asked: &[(&StageEffect, &Consent)]) -> Stop {
    let file = shown(&session.experiment.file);
    let shown: Vec<String> = asked.iter().map(|(effect, _)| text(effect)).collect();
    Stop::usage(format!(
        "{file} starts programs that you have not approved for this folder; nothing was \
        started\n{}",
        shown.join("\n")
    ))
    .hint(format!(
        "`benchtrail plan --commands {file}` shows all of them; if you trust the author, run \
         `benchtrail run --trust {file}`, which also remembers your consent for this folder"
    ))
}

/// Formats an effect as lines for display.
pub(crate) fn text(effect: &StageEffect) -> String {
    let cells = match effect.cells {
        1 => "1 cell".to_owned(),
        n => format!("{n} cells"),
    };
    let head = |does: &str| format!("{} ({cells}) {does}", effect.stage);
    match &effect.effect.what {
        What::Start {
            purpose,
            program,
            arguments,
            environment,
            inherits,
            script,
        } => {
            let words: Vec<String> = program.iter().chain(arguments).map(|w| quoted(w)).collect();
            let mut lines = vec![
                head(&format!("starts {purpose}")),
                format!("  {}", words.join(" ")),
            ];
            for (name, value) in environment {
                lines.push(format!("  with {name}={}", quoted(value)));
            }
            if !inherits.is_empty() {
                lines.push(format!("  inheriting {}", inherits.join(", ")));
            }
            if let Some(script) = script {
                lines.push("  where {launcher} is".to_owned());
                lines.extend(
                    script
                        .lines()
                        .take(SCRIPT_SHOWN)
                        .map(|line| format!("    {line}")),
                );
                let more = script.lines().count().saturating_sub(SCRIPT_SHOWN);
                if more > 0 {
                    lines.push(format!("    … {more} more lines; `--json` shows them"));
                }
            }
            lines.join("\n")
        }
        What::Fetch {
            registry,
            package,
            files,
            bytes: size,
        } => head(&format!(
            "fetches {package} through {registry}, at most {}\n  {}",
            bytes(*size),
            files.join("\n  ")
        )),
        What::Install {
            python,
            packages,
            overrides,
            complete,
            assertions,
        } => {
            let mut lines = vec![head(&format!(
                "installs into a venv of Python {python}, unless the store has it:"
            ))];
            lines.extend(packages.iter().map(|package| format!("  {package}")));
            if !complete {
                lines.push("  and what they need".to_owned());
            }
            lines.extend(overrides.iter().map(|package| {
                format!(
                    "  {package}, in place of any version that others \
                        request"
                )
            }));
            lines.extend(
                assertions
                    .iter()
                    .map(|text| format!("  and executes {text}")),
            );
            lines.join("\n")
        }
        What::Contain {
            image,
            pinned,
            runtime,
            arguments,
            gpus,
            mounts,
            caches,
        } => {
            let by = runtime.as_ref();
            let by = by.map_or(String::new(), |by| format!(", by {}", quoted(by)));
            let mut lines = vec![head(&format!(
                "runs the engine in a container of {image}{by}"
            ))];
            if !pinned {
                lines.push("  the image that the tag names now; the store remembers it".to_owned());
            }
            if !arguments.is_empty() {
                let words: Vec<String> = arguments.iter().map(|w| quoted(w)).collect();
                lines.push(format!("  with {}", words.join(" ")));
            }
            lines.extend(
                gpus.iter()
                    .map(|gpus| format!("  which sees the GPUs {gpus}")),
            );
            for (paths, does) in [(mounts, "reads"), (caches, "reads and writes")] {
                let told = paths.iter();
                lines.extend(
                    told.map(|(inside, here)| format!("  which {does} {here}, as {inside}")),
                );
            }
            lines.join("\n")
        }
        What::Rent {
            program,
            module,
            files,
            variables,
            cost_per_hour,
            budget,
            currency,
        } => {
            let hours = budget / cost_per_hour;
            let span = match hours {
                hours if hours < 1.0 => format!("{:.0} min", hours * 60.0),
                hours => format!("{hours:.1} h"),
            };
            let mut lines = vec![
                head(&format!(
                    "creates what the module {} describes, and destroys it afterwards, with {}",
                    quoted(module),
                    quoted(program)
                )),
                format!(
                    "  for {cost_per_hour:.2} {currency} an hour and at most {budget:.2} {currency} (that is {span})"
                ),
                format!("  from {}", files.join(", ")),
            ];
            let given = variables.iter();
            lines.extend(given.map(|(name, value)| format!("  with {name} = {value}")));
            lines.join("\n")
        }
        What::Resolve { weights, revision } => {
            let at = revision.as_ref();
            let at = at.map_or(String::new(), |revision| format!(" at {revision}"));
            head(&format!(
                "lets the engine fetch the weights {weights}{at}; their bytes are not checked"
            ))
        }
        What::Submit {
            scheduler,
            command,
            manifest,
        } => {
            let words: Vec<String> = command.iter().map(|w| quoted(w)).collect();
            let mut lines = vec![head(&format!(
                "submits {scheduler} jobs that execute this program under your name, one for each launch\n  {}",
                words.join(" ")
            ))];
            if let Some(manifest) = manifest {
                lines.push(
                    "  which reads this, with the names of the run and the launch filled in"
                        .to_owned(),
                );
                let text = serde_json::to_string_pretty(manifest).unwrap_or_default();
                lines.extend(text.lines().map(|line| format!("    {line}")));
            }
            lines.join("\n")
        }
        What::Execute { host, ssh } => head(&format!(
            "executes launches on the host {host}, under your name there\n  {}",
            ["ssh", ssh, "benchtrail"].map(quoted).join(" ")
        )),
        What::Reach { url, key: None } => head(&format!("sends requests to {url}")),
        What::Reach {
            url,
            key: Some(key),
        } => head(&format!(
            "sends requests to {url}, with the value of {key} as its key"
        )),
    }
}

/// Quotes a word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%{}".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// The remembered consents for a folder.
struct Kept {
    project: PathBuf,
    folder: Option<PathBuf>,
}

impl Kept {
    #[expect(
        clippy::disallowed_methods,
        reason = "the system determines the user's state folder"
    )]
    fn of(project: &Path) -> Self {
        let absolute = |path: PathBuf| path.is_absolute().then_some(path);
        let state = std::env::var_os("XDG_STATE_HOME")
            .map(PathBuf::from)
            .and_then(absolute)
            .or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".local/state")));
        Self {
            project: project
                .canonicalize()
                .unwrap_or_else(|_| project.to_owned()),
            folder: state.map(|folder| folder.join("benchtrail/trust")),
        }
    }

    fn file(&self, consent: &Consent) -> Option<PathBuf> {
        let project = self.project.as_os_str().as_encoded_bytes();
        let mut named = consent.digest().hex().into_bytes();
        named.extend(project);
        Some(self.folder.as_ref()?.join(Digest::of(&named).hex()))
    }

    fn has(&self, consent: &Consent) -> bool {
        self.file(consent).is_some_and(|file| file.is_file())
    }

    fn keep(&self, consent: &Consent) -> Result<(), String> {
        let file = self
            .file(consent)
            .ok_or("neither XDG_STATE_HOME nor HOME is set")?;
        let folder = file.parent().expect("a file lies in a folder");
        let fault = |e: io::Error| format!("{}: {e}", folder.display());
        fs::create_dir_all(folder).map_err(fault)?;
        let text = json!({"folder": self.project.to_string_lossy(), "consent": consent});
        let text = serde_json::to_string_pretty(&text).map_err(|e| e.to_string())?;
        // Renamed into place, because half a file would also be a consent.
        let mut whole = tempfile::NamedTempFile::new_in(folder).map_err(fault)?;
        io::Write::write_all(&mut whole, text.as_bytes()).map_err(fault)?;
        whole.persist(&file).map_err(|e| fault(e.error))?;
        Ok(())
    }
}
