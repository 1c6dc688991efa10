//! `list`: lists what an experiment can name, or shows one of them in full.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::ValueEnum as _;
use contract::{Api, Word as _};
use pipeline::language::{Disk, Files as _, remedy_for_other_word};
use pipeline::suggest::remedy;
use serde_json::{Value, json};

use crate::args::{Global, ListArgs, Listed};
use crate::columns::columns;
use crate::exit::Stop;
use crate::registry::registry;
use crate::session::user_folders;
use crate::terminal::say;

/// An item that can be named.
struct Entry {
    /// A one-line summary.
    summary: String,
    /// Its origin: `shipped`, or a file.
    origin: String,
    /// The full description.
    full: String,
}

pub(super) fn list(arguments: &ListArgs, global: &Global) -> Result<(), Stop> {
    let Some(what) = arguments.what else {
        kinds(global);
        return Ok(());
    };
    let entries = match what {
        Listed::Engines => definitions("engines"),
        Listed::Models => definitions("models"),
        Listed::Workloads => definitions("workloads"),
        Listed::Templates => definitions("templates"),
        Listed::Gates => gates(),
        Listed::Operators => operators(),
        Listed::Apis => apis(),
    };
    let Some(name) = &arguments.name else {
        return all(what, &entries, global);
    };
    let Some(entry) = entries.get(name) else {
        let word = word(what);
        let other_word = word_of_other_tools(what, name);
        let mut hint =
            other_word.unwrap_or_else(|| remedy(name, word, entries.keys().map(String::as_str)));
        if what == Listed::Models {
            hint.push_str(
                "; `benchtrail init NAME --engine ENGINE --model ID` writes a study of any other",
            );
        }
        return Err(Stop::nothing(format!("there is no `{name}` among the {word}")).hint(hint));
    };
    if global.json {
        say(&json!({"name": name, "summary": entry.summary, "origin": entry.origin, "text": entry.full}).to_string());
    } else {
        say(entry.full.trim_end());
    }
    Ok(())
}

/// Returns the remedy for a word that other tools use where an experiment names a gate or an operator.
fn word_of_other_tools(what: Listed, name: &str) -> Option<String> {
    let (kind, place) = match what {
        Listed::Gates => ("verify", "/properties/gates/items/properties/gate"),
        Listed::Operators => (
            "analyze",
            "/properties/tables/additionalProperties/properties/operator",
        ),
        _ => return None,
    };
    let kinds = registry().kinds;
    let kind = kinds.iter().find(|candidate| candidate.name() == kind)?;
    remedy_for_other_word(kind.schema().as_value().pointer(place)?, name)
}

/// Prints what can be listed.
fn kinds(global: &Global) {
    let kinds = Listed::value_variants().iter().map(|what| {
        let value = what.to_possible_value();
        let help = value.as_ref().and_then(|value| value.get_help());
        let help = help.map(ToString::to_string).unwrap_or_default();
        (word(*what), help)
    });
    if global.json {
        let list = kinds.map(|(name, summary)| json!({"name": name, "summary": summary}));
        say(&Value::Array(list.collect()).to_string());
        return;
    }
    let rows: Vec<Vec<String>> = kinds
        .map(|(name, help)| vec![name.to_owned(), help])
        .collect();
    say(&columns(&["what", ""], &rows, &[]));
    say("\n`benchtrail list WHAT` lists them, as in `benchtrail list engines`.");
}

fn word(what: Listed) -> &'static str {
    match what {
        Listed::Engines => "engines",
        Listed::Models => "models",
        Listed::Workloads => "workloads",
        Listed::Gates => "gates",
        Listed::Operators => "operators",
        Listed::Templates => "templates",
        Listed::Apis => "apis",
    }
}

fn all(what: Listed, entries: &BTreeMap<String, Entry>, global: &Global) -> Result<(), Stop> {
    if global.json {
        let list = entries.iter().map(
            |(name, entry)| json!({"name": name, "summary": entry.summary, "origin": entry.origin}),
        );
        say(&Value::Array(list.collect()).to_string());
        return Ok(());
    }
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|(name, entry)| vec![name.clone(), entry.origin.clone(), entry.summary.clone()])
        .collect();
    say(&columns(
        &[
            word(what),
            if what == Listed::Gates {
                "severity"
            } else {
                "from"
            },
            "",
        ],
        &rows,
        &[],
    ));
    if let Some(name) = entries.keys().next() {
        say(&format!(
            "\n`benchtrail list {} {name}` shows one in full.",
            word(what)
        ));
    }
    Ok(())
}

/// Returns the definitions of a collection: shipped ones, the user's, and those in this folder. For each name, the
/// nearest definition counts, as for an experiment in this folder.
fn definitions(collection: &'static str) -> BTreeMap<String, Entry> {
    let shipped = registry().shipped;
    let mut entries: BTreeMap<String, Entry> = shipped
        .iter()
        .filter(|s| s.collection == collection)
        .map(|s| (s.name.to_owned(), entry(collection, s.text, "shipped")))
        .collect();
    let here = PathBuf::new();
    for folder in user_folders().into_iter().chain([here]) {
        let folder = folder.join(collection);
        for file in Disk.list(&folder) {
            let path = folder.join(&file);
            let name = match collection {
                "templates" => file.clone(),
                _ => match file.strip_suffix(".yaml") {
                    Some(name) => name.to_owned(),
                    None => continue,
                },
            };
            if let Ok(Some(text)) = Disk.read(&path) {
                let origin = path.display().to_string();
                entries.insert(name, entry(collection, &text, &origin));
            }
        }
    }
    entries
}

fn entry(collection: &str, text: &str, origin: &str) -> Entry {
    Entry {
        summary: summary(collection, text),
        origin: origin.to_owned(),
        full: text.to_owned(),
    }
}

/// Returns a one-line summary of a definition: its description, its title with version, or its leading comment.
fn summary(collection: &str, text: &str) -> String {
    let key = |key: &str| {
        let start = format!("{key}:");
        let line = text.lines().find_map(|line| line.strip_prefix(&start))?;
        let value = line.split(" #").next().unwrap_or_default();
        let value = value.trim().trim_matches(['"', '\'']);
        (!value.is_empty() && value != ">-" && value != "|").then(|| value.to_owned())
    };
    let comment = || match text.split_once("#}") {
        // A template begins with a comment of any number of lines.
        Some((comment, _)) if text.starts_with("{#") => first_sentence(&comment[2..]),
        _ => {
            let first = text.lines().next().unwrap_or_default();
            let plain = first
                .trim_start_matches(['#', '{', ' '])
                .trim_end_matches(['#', '}', ' ']);
            plain.to_owned()
        }
    };
    match collection {
        "engines" => match (key("title"), key("version")) {
            (Some(title), Some(version)) if version != "unknown" => format!("{title} {version}"),
            (Some(title), _) => title,
            (None, _) => key("extends").map_or_else(comment, |other| format!("extends {other}")),
        },
        "templates" => comment(),
        _ => key("description")
            .or_else(|| key("title"))
            .unwrap_or_else(comment),
    }
}

fn gates() -> BTreeMap<String, Entry> {
    let page = |page: verify::GatePage| {
        let heading = format!("{}\n\nDefault severity: {}", page.summary, page.severity);
        (
            page.name.to_owned(),
            Entry {
                summary: first_sentence(page.summary),
                origin: page.severity.to_owned(),
                full: format!("{heading}\n\n{}", parameters(&page.schema)),
            },
        )
    };
    verify::pages().into_iter().map(page).collect()
}

fn operators() -> BTreeMap<String, Entry> {
    let page = |page: analyze::OperatorPage| {
        (
            page.name.to_owned(),
            Entry {
                summary: first_sentence(page.summary),
                origin: "shipped".to_owned(),
                full: format!(
                    "{}\n\nCells it reads: {}\n\n{}",
                    page.summary,
                    page.reads,
                    parameters(&page.schema)
                ),
            },
        )
    };
    analyze::pages().into_iter().map(page).collect()
}

fn apis() -> BTreeMap<String, Entry> {
    let api = |word: &&str| {
        let api = Api::parse(word).expect("each is one of its own words");
        let summary = format!("POST {}", api.path(true));
        let exact = match api.can_be_exact() {
            true => "A request can demand an exact number of output tokens.",
            false if api.generates() => "A request can only cap the number of output tokens.",
            false => {
                "Nothing is generated: an answer arrives in one piece and has a latency but no first token."
            }
        };
        (
            (*word).to_owned(),
            Entry {
                full: format!("{summary}\n{exact}"),
                summary,
                origin: "shipped".to_owned(),
            },
        )
    };
    Api::EACH.iter().map(api).collect()
}

/// Returns the parameters of a schema as a table.
fn parameters(schema: &Value) -> String {
    let rows: Vec<Vec<String>> = contract::parameters(schema)
        .iter()
        .flat_map(|parameter| rows_of("", parameter))
        .collect();
    if rows.is_empty() {
        return "It has no parameters.".to_owned();
    }
    columns(&["parameter", "default", "meaning"], &rows, &[])
}

/// Returns a line for a parameter, and one for each of its keys.
fn rows_of(above: &str, parameter: &contract::Parameter) -> Vec<Vec<String>> {
    let name = format!("{above}{}", parameter.name);
    let state = match (&parameter.default, parameter.required) {
        (_, true) => "required".to_owned(),
        (None, false) => "optional".to_owned(),
        (Some(Value::String(text)), false) => text.clone(),
        (Some(default), false) => default.to_string(),
    };
    let meaning = format!("{} {}", parameter.meaning, parameter.words());
    let mut rows = vec![vec![name.clone(), state, meaning.trim().to_owned()]];
    for field in &parameter.fields {
        rows.extend(rows_of(&format!("{name}."), field));
    }
    rows
}

fn first_sentence(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = text.find(". ").map_or(text.len(), |end| end + 1);
    text[..end].to_owned()
}

/// Checks that a definition with this name exists, shipped or in this folder.
pub(super) fn is_defined(collection: &'static str, name: &str) -> Result<(), Stop> {
    let defined = definitions(collection);
    if defined.contains_key(name) {
        return Ok(());
    }
    let kind = collection.trim_end_matches('s');
    let hint = remedy(name, collection, defined.keys().map(String::as_str));
    Err(Stop::usage(format!("unknown {kind} `{name}`")).hint(hint))
}

/// Returns whether the definition of an engine says that it loads weights only from a file.
pub(super) fn needs_weights_file(engine: &str) -> bool {
    let says = |entry: &Entry| {
        let mut lines = entry.full.lines();
        lines.any(|line| line.trim_end() == "needs-weights-file: true")
    };
    definitions("engines").get(engine).is_some_and(says)
}

/// Returns the names in a collection, shipped or in this folder.
pub(super) fn names_of(collection: &'static str) -> Vec<String> {
    definitions(collection).into_keys().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_a_template_is_the_first_sentence_of_its_comment() {
        for (text, says) in [
            ("{# One line. #}\n# Title\n", "One line."),
            (
                "{# Over two\n   lines. And more. #}\nx {# other #}\n",
                "Over two lines.",
            ),
            ("# A heading\n{# late #}\n", "A heading"),
        ] {
            assert_eq!(summary("templates", text), says);
        }
    }
}
