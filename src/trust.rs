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

use crate::effect_text::text;
use crate::exit::Stop;
use crate::project::{again, shown};
use crate::session::{Session, user_folders};
use crate::terminal::{complain, is_watched};

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
    let (registry, store) = (&session.registry, &session.project.store);
    let effects = pipeline::effects(&session.experiment, registry, store, Some(plan))?;
    let needs_consent = |effect: &StageEffect| effect.effect.consent.is_some();
    if !effects.iter().any(needs_consent) {
        return Ok(Permit::default());
    }
    let vouched = with_own_definitions(registry, &user_folders(), &Disk, engines::executed_by);
    let mut permit = Permit::for_definitions(&vouched);
    let kept = Kept::of(session.project.root.as_path());
    let mut asked: Vec<(&StageEffect, &Consent)> = Vec::new();
    for effect in &effects {
        let Some(consent) = &effect.effect.consent else {
            continue;
        };
        if permit.allows(consent) {
            continue;
        }
        if kept.has(consent) || sends_own_file(&effect.effect.what, &kept.project) {
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

/// Returns whether this sends a file of the project, to which the experiment belongs too. Hidden files and the files of
/// hidden folders, such as `.env`, do not count, and nothing in a home folder counts if that is the project.
fn sends_own_file(what: &What, project: &Path) -> bool {
    let What::Send { file, .. } = what else {
        return false;
    };
    let is_hidden =
        |part: std::path::Component<'_>| part.as_os_str().as_encoded_bytes().starts_with(b".");
    let inside = Path::new(file).strip_prefix(project);
    let holds_home = || {
        let home = places::user::home().and_then(|home| home.canonicalize().ok());
        home.is_some_and(|home| home.starts_with(project))
    };
    inside.is_ok_and(|inside| !inside.components().any(is_hidden)) && !holds_home()
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

/// What a user is asked to approve, in words.
struct Deed {
    what: &'static str,
    done: &'static str,
    question: &'static str,
}

impl Deed {
    fn of(asked: &[(&StageEffect, &Consent)]) -> Self {
        let contacts = |(effect, _): &(&StageEffect, &Consent)| {
            matches!(effect.effect.what, What::Reach { .. } | What::Send { .. })
        };
        match asked.iter().all(contacts) {
            true => Self {
                what: "contacts servers",
                done: "sent",
                question: "contact them? `yes` contacts them, and is remembered for this folder [no]",
            },
            false => Self {
                what: "starts programs",
                done: "started",
                question: "start them? `yes` starts them, and is remembered for this folder [no]",
            },
        }
    }
}

fn ask(session: &Session, asked: &[(&StageEffect, &Consent)]) -> bool {
    let deed = Deed::of(asked);
    complain(&format!(
        "{} {} that you have not approved in {}:",
        shown(&session.experiment.file),
        deed.what,
        shown(&folder(session))
    ));
    for (effect, _) in asked {
        complain(&text(effect));
    }
    complain(deed.question);
    let mut line = String::new();
    // End of input is not consent.
    let read = io::stdin().lock().read_line(&mut line);
    read.is_ok() && matches!(line.trim().to_lowercase().as_str(), "y" | "yes")
}

fn refused(session: &Session, asked: &[(&StageEffect, &Consent)]) -> Stop {
    let file = shown(&session.experiment.file);
    let copied = again(
        &session.experiment.file,
        session.experiment.profile.as_deref(),
    );
    let shown: Vec<String> = asked.iter().map(|(effect, _)| text(effect)).collect();
    let deed = Deed::of(asked);
    Stop::usage(format!(
        "{file} {} that you have not approved for this folder; nothing was {}\n{}",
        deed.what,
        deed.done,
        shown.join("\n")
    ))
    .hint(format!(
        "`benchtrail plan --commands {copied}` shows all of them; if you trust the author, run \
         `benchtrail run --trust {copied}`, which also remembers your consent for this folder"
    ))
}

/// The remembered consents for a folder.
struct Kept {
    project: PathBuf,
    folder: Option<PathBuf>,
}

impl Kept {
    fn of(project: &Path) -> Self {
        Self {
            project: project
                .canonicalize()
                .unwrap_or_else(|_| project.to_owned()),
            folder: places::user::state().map(|folder| folder.join("trust")),
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
            .ok_or("neither XDG_STATE_HOME nor HOME is an absolute path")?;
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
