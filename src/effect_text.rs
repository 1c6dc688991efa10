//! What a study starts, fetches, rents or contacts, as lines for its user.

use std::collections::BTreeMap;

use pipeline::{Json, StageEffect, What};

use crate::terminal::{bytes, counted};

/// The number of script lines shown before the rest is only counted.
const SCRIPT_SHOWN: usize = 12;

/// Formats an effect as lines for display.
pub(crate) fn text(effect: &StageEffect) -> String {
    let cells = counted(effect.cells, "cell");
    let (does, details) = does(&effect.effect.what);
    let mut lines = vec![format!("{} ({cells}) {does}", effect.stage)];
    lines.extend(details.iter().map(|line| format!("  {line}")));
    lines.join("\n")
}

/// Returns what an effect does, and the lines of its details.
fn does(what: &What) -> (String, Vec<String>) {
    match what {
        What::Start {
            purpose,
            program,
            arguments,
            environment,
            inherits,
            script,
        } => {
            let mut details = vec![words(program.iter().chain(arguments))];
            let set = environment.iter();
            details.extend(set.map(|(name, value)| format!("with {name}={}", quoted(value))));
            if !inherits.is_empty() {
                details.push(format!("inheriting {}", inherits.join(", ")));
            }
            details.extend(script.iter().flat_map(|script| launcher(script)));
            (format!("starts {purpose}"), details)
        }
        What::Fetch {
            registry,
            package,
            files,
            bytes: size,
        } => {
            let size = bytes(*size);
            let does = format!("fetches {package} through {registry}, at most {size}");
            (does, files.clone())
        }
        What::Install {
            python,
            packages,
            overrides,
            complete,
            assertions,
        } => {
            let does = format!("installs into a venv of Python {python}, unless the store has it:");
            let mut details = packages.clone();
            if !complete {
                details.push("and what they need".to_owned());
            }
            let replaced =
                |package| format!("{package}, in place of any version that others request");
            details.extend(overrides.iter().map(replaced));
            details.extend(assertions.iter().map(|text| format!("and executes {text}")));
            (does, details)
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
            let mut details = Vec::new();
            if !pinned {
                details.push("the image that the tag names now; the store remembers it".to_owned());
            }
            if !arguments.is_empty() {
                details.push(format!("with {}", words(arguments)));
            }
            let seen = gpus.iter();
            details.extend(seen.map(|gpus| format!("which sees the GPUs {gpus}")));
            details.extend(mounted("reads", mounts));
            details.extend(mounted("reads and writes", caches));
            let does = format!("runs the engine in a container of {image}{by}");
            (does, details)
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
            let does = format!(
                "creates what the module {} describes, and destroys it afterwards, with {}",
                quoted(module),
                quoted(program)
            );
            let span = hours(budget / cost_per_hour);
            let mut details = vec![
                format!(
                    "for {cost_per_hour:.2} {currency} an hour and at most {budget:.2} {currency} (that is {span})"
                ),
                format!("from {}", files.join(", ")),
            ];
            let given = variables.iter();
            details.extend(given.map(|(name, value)| format!("with {name} = {value}")));
            (does, details)
        }
        What::Resolve { weights, revision } => {
            let at = revision.as_ref();
            let at = at.map_or(String::new(), |revision| format!(" at {revision}"));
            let does = format!(
                "lets the engine fetch the weights {weights}{at}; their bytes are not checked"
            );
            (does, Vec::new())
        }
        What::Submit {
            scheduler,
            command,
            manifest,
        } => {
            let does = format!(
                "submits {scheduler} jobs that execute this program under your name, one for each launch"
            );
            let mut details = vec![words(command)];
            details.extend(manifest.iter().flat_map(document));
            (does, details)
        }
        What::Execute { host, ssh } => {
            let does = format!("executes launches on the host {host}, under your name there");
            (does, vec![words(["ssh", ssh, "benchtrail"])])
        }
        What::Reach { url, key } => {
            let key = key.as_ref();
            let key = key.map_or(String::new(), |key| {
                format!(", with the value of {key} as its key")
            });
            (format!("sends requests to {url}{key}"), Vec::new())
        }
    }
}

/// Returns the lines of a launcher script, at most [`SCRIPT_SHOWN`].
fn launcher(script: &str) -> Vec<String> {
    let mut lines = vec!["where {launcher} is".to_owned()];
    let shown = script.lines().take(SCRIPT_SHOWN);
    lines.extend(shown.map(|line| format!("  {line}")));
    let more = script.lines().count().saturating_sub(SCRIPT_SHOWN);
    if more > 0 {
        lines.push(format!("  … {more} more lines; `--json` shows them"));
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

/// Quotes a word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%{}".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
