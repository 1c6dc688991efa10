//! Prompts and texts read from files.

use pipeline::sources::NamedFiles;
use serde_json::Value;

use super::error::PromptError;
use crate::dataset::{TALKS, other_kind};
use crate::named_file;
use crate::workload::{Corpus, Dataset, Pack};

/// One recorded conversation: a person's messages with their recorded answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conversation {
    pub(super) turns: Vec<Turn>,
    /// The number of tokens that each answer should have, if the entry names it, or why it cannot be read. The reason only
    /// matters if the number is used.
    pub(super) output_tokens: Result<Option<u32>, String>,
}

/// One turn of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) said: String,
    pub(super) answered: Option<String>,
}

/// Reads a text and checks its digest; also returns its path.
fn read(
    what: &str,
    file: &str,
    digest: Option<&str>,
    files: &NamedFiles,
) -> Result<(String, String), PromptError> {
    let (file, bytes, _) =
        named_file::read(what, file, digest, files).map_err(PromptError::wrong)?;
    room(what, &file, &bytes)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok((file, text)),
        Err(e) => Err(PromptError::wrong(not_text(what, &file, e.as_bytes()))),
    }
}

/// Checks that there is memory for the contents of a file: its values, and several copies of its texts, because a text
/// grows by copying, and is stored for the load.
fn room(what: &str, file: &str, bytes: &[u8]) -> Result<(), PromptError> {
    let needed = tabular::memory(bytes).saturating_add(COPIES * bytes.len() as u64);
    artifacts::regular::room_for(needed).map_err(|e| {
        PromptError::machine(format!(
            "{what} {file}: {e} (`ulimit -v`); raise the limit, or use a part of the file"
        ))
    })
}

/// The copies of a file's texts that exist at once.
const COPIES: u64 = 5;

/// Describes a file that is not text: what it is, and how to make it text, if its first bytes show that.
pub(super) fn not_text(what: &str, file: &str, bytes: &[u8]) -> String {
    match other_kind(bytes) {
        Some((kind, remedy)) => {
            format!("{what} {file}: {kind}; {}", remedy.replace("FILE", file))
        }
        None => format!("{what} {file} is not UTF-8; save it as UTF-8"),
    }
}

/// Returns a pack's prompts in order, each with its own number of output tokens, if given.
pub(super) fn read_pack(
    pack: &Pack,
    files: &NamedFiles,
) -> Result<Vec<(String, Option<u32>)>, PromptError> {
    if pack.file.is_none() && pack.digest.is_none() {
        return Ok(pack.texts.iter().map(|text| (text.clone(), None)).collect());
    }
    let (file, text) = read(
        "prompt pack",
        pack.file.as_deref().unwrap_or_default(),
        pack.digest.as_deref(),
        files,
    )?;
    let mut prompts = Vec::new();
    for (place, value) in
        records(&text).map_err(|e| PromptError::wrong(format!("prompt pack {file}, {e}")))?
    {
        let prompt = packed(&value).map_err(|message| {
            PromptError::wrong(format!("prompt pack {file}, {place}: {message}"))
        })?;
        prompts.push(prompt);
    }
    if prompts.is_empty() {
        return Err(PromptError::wrong(format!(
            "prompt pack {file} holds no prompts"
        )));
    }
    Ok(prompts)
}

/// Names in other tools' files for the number of tokens of an answer. The first three are those of requests; the others may also
/// belong to an answer that was recorded.
const OTHER_LENGTHS: [&str; 9] = [
    "max_tokens",
    "max_new_tokens",
    "max_completion_tokens",
    "output_length",
    "output_len",
    "output_tokens_count",
    "expected_output_len",
    "osl",
    "completion_tokens",
];

/// Returns the prompt of one entry of a pack, with its number of output tokens, if given.
pub(super) fn packed(value: &Value) -> Result<(String, Option<u32>), String> {
    let prompt = value
        .as_str()
        .or_else(|| value["prompt"].as_str())
        .ok_or_else(|| match value.get("prompt") {
            Some(_) => "`prompt` is not a text".to_owned(),
            None => format!("no `prompt`; there is {}", keys(value)),
        })?;
    Ok((prompt.to_owned(), output_tokens(value, &OTHER_LENGTHS)?))
}

/// Returns the number of output tokens that an entry names, if it does. Any of the `other` names in its place is an error.
fn output_tokens(value: &Value, other: &[&str]) -> Result<Option<u32>, String> {
    let output = &value["output_tokens"];
    // Numbers in CSV are text.
    let tokens = output
        .as_u64()
        .or_else(|| output.as_str()?.trim().parse().ok())
        // A column of integers with gaps becomes one of fractions.
        .or_else(|| {
            output
                .as_f64()
                .filter(|n| n.fract() == 0.0)
                .map(|n| n as u64)
        })
        .and_then(|n| u32::try_from(n).ok())
        .filter(|n| *n > 0);
    if !output.is_null() && tokens.is_none() {
        return Err(format!("`output_tokens` is {output}"));
    }
    let other = other.iter().find(|name| !value[**name].is_null());
    if let (true, Some(name)) = (output.is_null(), other) {
        return Err(format!(
            "the number of tokens of the answer is named `output_tokens` here, not `{name}`: rename it, or remove it if \
             `--output-tokens` or the workload decides"
        ));
    }
    Ok(tokens)
}

/// Returns the records of a file of prompts or conversations, each with a description of its place: JSON Lines, one
/// JSON list, or CSV, whose rows become objects of text.
fn records(text: &str) -> Result<Vec<(String, Value)>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let unreadable = |e: tabular::Unreadable| match (e.line, e.column) {
        (Some(line), Some(column)) => {
            let of_json = match e.repeats_a_key {
                true => "",
                false => " is not JSON",
            };
            format!(
                "line {line}: column {column}{of_json}: {}; {}",
                e.message, e.hint
            )
        }
        (Some(line), None) => format!("line {line}: {}; {}", e.message, e.hint),
        _ => format!("{}; {}", e.message, e.hint),
    };
    // Strings, one per line, are also records. The heading of a CSV file may be quoted, but no line of it is a single
    // string.
    if text
        .lines()
        .find(|l| !l.trim().is_empty())
        .is_some_and(|l| serde_json::from_str::<String>(l).is_ok())
    {
        return strings(text);
    }
    if text.trim_start().starts_with(['{', '[']) {
        let records = tabular::records(text, None).map_err(unreadable)?;
        let place = |record: &tabular::Record| format!("line {}", record.lines.start + 1);
        return Ok(records.into_iter().map(|r| (place(&r), r.value)).collect());
    }
    let sheet = tabular::read_texts(text.as_bytes()).map_err(unreadable)?;
    tabular::check_objects(sheet.rows(), sheet.names.len()).map_err(unreadable)?;
    let row = |row: usize| {
        let field = |(name, column): (&String, &Vec<tabular::Field>)| {
            let (name, text) = (name.to_ascii_lowercase(), written(&column[row])?);
            // A prompt is sent as it is written.
            let text = if name == "prompt" { text } else { text.trim() };
            Some((name, Value::from(text)))
        };
        let object = sheet.names.iter().zip(&sheet.columns).filter_map(field);
        (sheet.places.words(row), Value::Object(object.collect()))
    };
    // A line without a prompt is ignored.
    let prompts = sheet
        .names
        .iter()
        .position(|name| name.eq_ignore_ascii_case("prompt"));
    let asks = |row: &usize| prompts.is_none_or(|at| written(&sheet.columns[at][*row]).is_some());
    Ok((0..sheet.rows()).filter(asks).map(row).collect())
}

/// Returns the text of a field of CSV, unless it is blank.
fn written(field: &tabular::Field) -> Option<&str> {
    match field {
        tabular::Field::Text(text) => Some(text.as_str()).filter(|text| !text.trim().is_empty()),
        _ => None,
    }
}

/// Returns texts written as JSON strings, one per line.
fn strings(text: &str) -> Result<Vec<(String, Value)>, String> {
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(i, line)| {
            let place = format!("line {}", i + 1);
            let value = serde_json::from_str(line)
                .map_err(|e| format!("{place}: column {} is not JSON", e.column()))?;
            Ok((place, value))
        })
        .collect()
}

/// The most words of a corpus. Each takes about 56 bytes of memory.
const MOST_WORDS: usize = if cfg!(test) { 1 << 16 } else { 1 << 26 };

/// Returns the words of a text.
pub(super) fn read_corpus(corpus: &Corpus, files: &NamedFiles) -> Result<Vec<String>, PromptError> {
    let (file, text) = read("corpus", &corpus.file, corpus.digest.as_deref(), files)?;
    if text.split_whitespace().nth(MOST_WORDS).is_some() {
        return Err(PromptError::wrong(format!(
            "corpus {file} holds more than {MOST_WORDS} words; use a part of the text"
        )));
    }
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    if words.is_empty() {
        return Err(PromptError::wrong(format!("corpus {file} holds no words")));
    }
    let longest = corpus.length.parts().1.ends().1 as usize;
    if corpus.length.parts().0 == crate::workload::Unit::Words && words.len() < longest {
        return Err(PromptError::wrong(format!(
            "corpus {file} holds {} words, but passages of {longest} are needed",
            words.len()
        )));
    }
    Ok(words)
}

/// Returns the conversations of a dataset that have a person's message, in order.
pub(super) fn read_dataset(
    dataset: &Dataset,
    files: &NamedFiles,
) -> Result<Vec<Conversation>, PromptError> {
    let (file, text) = read("dataset", &dataset.file, dataset.digest.as_deref(), files)?;
    let wrong = |message: String| PromptError::wrong(format!("dataset {file}: {message}"));
    let mut conversations = Vec::new();
    for (place, record) in &records(&text).map_err(wrong)? {
        let conversation = recorded(record).map_err(|e| wrong(format!("{place}: {e}")))?;
        conversations.extend(conversation);
    }
    if conversations.is_empty() {
        return Err(wrong(
            "no entry has a text of `human` or `user`, or a `prompt` that is not empty".to_owned(),
        ));
    }
    Ok(conversations)
}

/// Returns the conversation of one entry of a dataset; `None` if a person says nothing in it.
pub(super) fn recorded(record: &Value) -> Result<Option<Conversation>, String> {
    let entries = TALKS.into_iter().find_map(|key| record[key].as_array());
    let turns = match (entries, record["prompt"].as_str()) {
        (Some(entries), _) => turns(entries)?,
        // A single prompt, with its recorded answer if present.
        (None, Some(prompt)) if !prompt.trim().is_empty() => {
            let answers = ["completion", "response", "answer", "output"];
            let answered = answers.into_iter().find_map(|key| record[key].as_str());
            vec![Turn {
                said: prompt.to_owned(),
                answered: answered.map(str::to_owned),
            }]
        }
        (None, Some(_)) => Vec::new(),
        (None, None) if TALKS.into_iter().any(|key| !record[key].is_null()) => {
            let key = TALKS.into_iter().find(|key| !record[*key].is_null());
            return Err(format!(
                "`{}` is not a list of turns such as `{{\"from\": \"human\", \"value\": \"…\"}}`",
                key.unwrap_or_default()
            ));
        }
        (None, None) => {
            return Err(format!(
                "it has {}, but no value for `conversations`, `messages` or `prompt`",
                keys(record)
            ));
        }
    };
    Ok((!turns.is_empty()).then(|| Conversation {
        turns,
        output_tokens: output_tokens(record, &OTHER_LENGTHS[..3]),
    }))
}

/// Describes an entry by its keys or its type.
fn keys(entry: &Value) -> String {
    match entry {
        Value::Object(object) if !object.is_empty() => {
            let named = object.keys().take(12).map(|key| format!("`{key}`"));
            named.collect::<Vec<_>>().join(", ")
        }
        Value::Object(_) => "no keys".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::String(_) => "a text".to_owned(),
        _ => format!("`{entry}`"),
    }
}

/// Returns the human turns, each with the answer that follows it. Several in a row become one.
fn turns(entries: &[Value]) -> Result<Vec<Turn>, String> {
    let mut turns: Vec<Turn> = Vec::new();
    for entry in entries {
        let text = |keys: [&str; 2]| keys.into_iter().find_map(|key| entry[key].as_str());
        let (Some(who), said) = (text(["from", "role"]), text(["value", "content"])) else {
            continue;
        };
        let Some(said) = said else {
            // Without this message, it would be a different conversation.
            if matches!(who, "human" | "user") && entry["content"].is_array() {
                return Err("`content` is a list of parts, and only a text can be sent: write the text itself".to_owned());
            }
            continue;
        };
        match who {
            "human" | "user" if !said.trim().is_empty() => match turns.last_mut() {
                Some(turn) if turn.answered.is_none() => {
                    turn.said.push_str("\n\n");
                    turn.said.push_str(said);
                }
                _ => turns.push(Turn {
                    said: said.to_owned(),
                    answered: None,
                }),
            },
            "gpt" | "assistant" | "chatgpt" | "bing" | "bard" => {
                if let Some(turn) = turns.last_mut().filter(|turn| turn.answered.is_none()) {
                    turn.answered = Some(said.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok(turns)
}
