//! What a study starts, fetches, rents or contacts, as lines for its user.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use artifacts::counted;
use pipeline::place::is_hidden;
use pipeline::{Json, StageEffect, What};

use crate::terminal::bytes;

/// The number of script lines shown before the rest is only counted.
const SCRIPT_SHOWN: usize = 12;

/// Formats an effect as lines for display.
pub(crate) fn text(effect: &StageEffect) -> String {
    let cells = counted(effect.cells, "cell");
    let what = &effect.effect.what;
    let mut lines = vec![format!("{} ({cells}) {}", effect.stage, summary(what))];
    lines.extend(details(what).iter().map(|line| format!("  {line}")));
    lines.join("\n")
}

/// Returns what an effect does, as the predicate of a sentence about its stage.
fn summary(what: &What) -> String {
    match what {
        What::Start { purpose, .. } => format!("starts {purpose}"),
        What::Fetch {
            registry,
            package,
            bytes: size,
            ..
        } => {
            let size = bytes(*size);
            format!("fetches {package} through {registry}, at most {size}")
        }
        What::Install { python, .. } => {
            format!("installs into a venv of Python {python}, unless the store has it:")
        }
        What::Contain { image, runtime, .. } => {
            let by = runtime.as_ref();
            let by = by.map_or(String::new(), |by| format!(", by {}", quoted(by)));
            format!("runs the engine in a container of {image}{by}")
        }
        What::Rent {
            program, module, ..
        } => format!(
            "creates what the module {} describes, and destroys it afterwards, with {}",
            quoted(module),
            quoted(program)
        ),
        What::Resolve { weights, revision } => {
            let at = revision.as_ref();
            let at = at.map_or(String::new(), |revision| format!(" at {revision}"));
            format!("lets the engine fetch the weights {weights}{at}; their bytes are not checked")
        }
        What::Submit { scheduler, .. } => format!(
            "submits {scheduler} jobs that execute this program under your name, one for each launch"
        ),
        What::Execute { host, .. } => {
            format!("executes launches on the host {host}, under your name there")
        }
        What::Reach { url, key } => {
            let key = key.as_ref();
            let key = key.map_or(String::new(), |key| {
                format!(", with the value of {key} as its key")
            });
            format!("sends requests to {url}{key}")
        }
        What::Send { file, url } => {
            format!("sends the contents of {} to {url}", quoted(file))
        }
    }
}

/// Returns the lines of an effect's details.
fn details(what: &What) -> Vec<String> {
    match what {
        What::Start {
            program,
            arguments,
            environment,
            inherits,
            script,
            ..
        } => {
            let mut lines = vec![words(program.iter().chain(arguments))];
            let set = environment.iter();
            lines.extend(set.map(|(name, value)| format!("with {name}={}", quoted(value))));
            if !inherits.is_empty() {
                lines.push(format!("inheriting {}", inherits.join(", ")));
            }
            lines.extend(script.iter().flat_map(|script| launcher(script)));
            lines
        }
        What::Fetch { files, .. } => files.clone(),
        What::Install {
            packages,
            overrides,
            complete,
            assertions,
            ..
        } => {
            let mut lines = packages.clone();
            if !complete {
                lines.push("and what they need".to_owned());
            }
            let replaced =
                |package| format!("{package}, in place of any version that others request");
            lines.extend(overrides.iter().map(replaced));
            lines.extend(assertions.iter().map(|text| format!("and executes {text}")));
            lines
        }
        What::Contain {
            pinned,
            arguments,
            gpus,
            mounts,
            caches,
            ..
        } => {
            let mut lines = Vec::new();
            if !pinned {
                lines.push("the image that the tag names now; the store remembers it".to_owned());
            }
            if !arguments.is_empty() {
                lines.push(format!("with {}", words(arguments)));
            }
            let seen = gpus.iter();
            lines.extend(seen.map(|gpus| format!("which sees the GPUs {gpus}")));
            lines.extend(mounted("reads", mounts));
            lines.extend(mounted("reads and writes", caches));
            lines
        }
        What::Rent {
            files,
            variables,
            cost_per_hour,
            budget,
            currency,
            ..
        } => {
            let span = hours(budget / cost_per_hour);
            let mut lines = vec![
                format!(
                    "for {cost_per_hour:.2} {currency} an hour and at most {budget:.2} {currency} (that is {span})"
                ),
                format!("from {}", files.join(", ")),
            ];
            let given = variables.iter();
            lines.extend(given.map(|(name, value)| format!("with {name} = {value}")));
            lines
        }
        What::Submit {
            command, manifest, ..
        } => {
            let mut lines = vec![words(command)];
            lines.extend(manifest.iter().flat_map(document));
            lines
        }
        What::Execute { ssh, .. } => vec![words(["ssh", ssh, "benchtrail"])],
        What::Resolve { .. } | What::Reach { .. } | What::Send { .. } => Vec::new(),
    }
}

/// Returns the lines of a launcher script, at most [`SCRIPT_SHOWN`].
fn launcher(script: &str) -> Vec<String> {
    let mut lines = vec!["where {launcher} is".to_owned()];
    let shown = script.lines().take(SCRIPT_SHOWN);
    lines.extend(shown.map(|line| format!("  {line}")));
    let more = script.lines().count().saturating_sub(SCRIPT_SHOWN);
    if more > 0 {
        let more = counted(more, "more line");
        lines.push(format!("  … {more}; `--json` shows the whole script"));
    }
    lines
}

/// Returns a line for each path that a container sees.
fn mounted(does: &str, paths: &BTreeMap<String, String>) -> Vec<String> {
    let line = |(inside, here): (&String, &String)| format!("which {does} {here}, as {inside}");
    paths.iter().map(line).collect()
}

/// Returns the lines of a document that a scheduler reads.
fn document(manifest: &Json) -> Vec<String> {
    let says = "which reads this, with the names of the run and the launch filled in";
    let text = serde_json::to_string_pretty(manifest).unwrap_or_default();
    let lines = text.lines().map(|line| format!("  {line}"));
    std::iter::once(says.to_owned()).chain(lines).collect()
}

/// Formats a number of hours.
fn hours(hours: f64) -> String {
    match hours {
        hours if hours < 1.0 => format!("{:.0} min", hours * 60.0),
        hours => format!("{hours:.1} h"),
    }
}

/// Joins the words of a command line, quoted for a shell.
fn words<W: AsRef<str>>(words: impl IntoIterator<Item = W>) -> String {
    let quoted = words.into_iter().map(|word| quoted(word.as_ref()));
    quoted.collect::<Vec<_>>().join(" ")
}

/// Quotes a word for a shell, in a command to copy. Characters that a terminal does not show are written as their bytes,
/// in the form `$'…'` that bash, zsh and POSIX shells since 2024 read.
pub(crate) fn to_copy(word: &str) -> String {
    if !word.chars().any(is_hidden) {
        return quoted(word);
    }
    let mut text = String::from("$'");
    for c in word.chars() {
        match c {
            '\'' | '\\' => text.extend(['\\', c]),
            c if is_hidden(c) => {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    // Always three digits, so that a digit after the escape does not become part of it.
                    let _ = write!(text, "\\{byte:03o}");
                }
            }
            c => text.push(c),
        }
    }
    text + "'"
}

/// Quotes a word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%{}".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
