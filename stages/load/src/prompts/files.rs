//! Prompts and texts read from files.

use serde_json::{Value, json};

use super::set::PromptError;
use crate::named_file;
use crate::workload::{Corpus, Dataset, Pack};

/// One recorded conversation: what people said, with what was answered then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conversation {
    pub(super) turns: Vec<Turn>,
}

/// One turn of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) said: String,
    pub(super) answered: Option<String>,
}

/// Reads a text and checks its digest; returns its path, too.
fn read(what: &str, file: &str, digest: Option<&str>) -> Result<(String, String), PromptError> {
    let (file, bytes, _) = named_file::read(what, file, digest).map_err(PromptError)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok((file, text)),
        Err(_) => Err(PromptError(format!("{what} {file} is not UTF-8"))),
    }
}

/// Returns a pack's prompts in order, each with the output it asks for, if it says so.
pub(super) fn read_pack(pack: &Pack) -> Result<Vec<(String, Option<u32>)>, PromptError> {
    if pack.file.is_none() && pack.digest.is_none() {
        return Ok(pack.texts.iter().map(|text| (text.clone(), None)).collect());
    }
    let (file, text) = read(
        "prompt pack",
        pack.file.as_deref().unwrap_or_default(),
        pack.digest.as_deref(),
    )?;
    let mut prompts = Vec::new();
    for (place, value) in
        records(&text).map_err(|e| PromptError(format!("prompt pack {file}, {e}")))?
    {
        let wrong =
            |message: String| PromptError(format!("prompt pack {file}, {place}: {message}"));
        let prompt = value
            .as_str()
            .or_else(|| value["prompt"].as_str())
            .ok_or_else(|| wrong(format!("no `prompt` in {}", json!(value))))?;
        let output = &value["output_tokens"];
        let tokens = output
            .as_u64()
            .and_then(|n| u32::try_from(n).ok())
            .filter(|n| *n > 0);
        if !output.is_null() && tokens.is_none() {
            return Err(wrong(format!("`output_tokens` is {output}")));
        }
        prompts.push((prompt.to_owned(), tokens));
    }
    if prompts.is_empty() {
        return Err(PromptError(format!("prompt pack {file} holds no prompts")));
    }
    Ok(prompts)
}

/// Returns the values of JSON Lines, or of one JSON array, each with its place in words.
fn records(text: &str) -> Result<Vec<(String, Value)>, String> {
    if text.trim_start().starts_with('[') {
        let values: Vec<Value> = serde_json::from_str(text).map_err(|e| e.to_string())?;
        return Ok(values
            .into_iter()
            .enumerate()
            .map(|(i, v)| (format!("entry {}", i + 1), v))
            .collect());
    }
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(i, line)| {
            let place = format!("line {}", i + 1);
            let value = serde_json::from_str(line).map_err(|e| {
                format!(
                    "{place}: column {} is not JSON; a line is {{\"prompt\": \"…\"}}",
                    e.column()
                )
            })?;
            Ok((place, value))
        })
        .collect()
}

/// Returns the words of a text.
pub(super) fn read_corpus(corpus: &Corpus) -> Result<Vec<String>, PromptError> {
    let (file, text) = read("corpus", &corpus.file, corpus.digest.as_deref())?;
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    if words.is_empty() {
        return Err(PromptError(format!("corpus {file} holds no words")));
    }
    let longest = corpus.length.parts().1.ends().1 as usize;
    if corpus.length.parts().0 == crate::workload::Unit::Words && words.len() < longest {
        return Err(PromptError(format!(
            "corpus {file} holds {} words, but passages of {longest} are needed",
            words.len()
        )));
    }
    Ok(words)
}

/// Returns the conversations of a dataset in which a person says something, in order.
pub(super) fn read_dataset(dataset: &Dataset) -> Result<Vec<Conversation>, PromptError> {
    let (file, text) = read("dataset", &dataset.file, dataset.digest.as_deref())?;
    let wrong = |message: String| PromptError(format!("dataset {file}: {message}"));
    let mut conversations = Vec::new();
    for (i, (_, record)) in records(&text).map_err(wrong)?.iter().enumerate() {
        let entries = ["conversations", "conversation", "messages"]
            .into_iter()
            .find_map(|key| record[key].as_array())
            .ok_or_else(|| {
                wrong(format!(
                    "record {} has neither `conversations` nor `messages`",
                    i + 1
                ))
            })?;
        let turns = turns(entries);
        if !turns.is_empty() {
            conversations.push(Conversation { turns });
        }
    }
    if conversations.is_empty() {
        return Err(wrong("the conversation is empty".to_owned()));
    }
    Ok(conversations)
}

/// Takes the human turns, each with the answer that follows it; several in a row are one.
fn turns(entries: &[Value]) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    for entry in entries {
        let text = |keys: [&str; 2]| keys.into_iter().find_map(|key| entry[key].as_str());
        let (Some(who), Some(said)) = (text(["from", "role"]), text(["value", "content"])) else {
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
    turns
}
