//! `load --dataset FILE`: recognizes the kind of prompts in another tool's file.

use std::io::{self, Read as _};
use std::path::Path;

use pipeline::sources::instead;
use serde_json::{Deserializer, Value, json};

use crate::trace::INPUT_TOKENS;

/// How much of a file is examined to recognize its format, in bytes. The first entry may be a long conversation.
const LOOK: u64 = 4 << 20;

/// Why a file contains no prompts, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPrompts {
    /// One sentence that names the file.
    pub reason: String,
    /// The remedy.
    pub hint: String,
}

/// Returns the `prompts:` that a file stands for. It may contain conversations as in ShareGPT or as `messages`, in JSON
/// or JSON Lines; prompts (`prompt` with an optional `output_tokens`, or only texts); or lengths of a recorded trace
/// such as Mooncake's (`input_length`). It may also be a CSV file with a column `prompt` or with lengths. If there are
/// fewer prompts than requests, prompts are used again.
///
/// # Errors
/// If the file cannot be read or is none of these.
pub fn dataset_prompts(file: &str) -> Result<Value, NoPrompts> {
    prompts_of(file).map_err(|(what, hint)| NoPrompts {
        reason: format!("{file}: {what}"),
        hint: hint.replace("FILE", file),
    })
}

/// Like `dataset_prompts`. Errors are the problem and the remedy, in which `FILE` is the file.
fn prompts_of(file: &str) -> Result<Value, (String, String)> {
    let kinds = || "name a file of ShareGPT JSON, JSON Lines, CSV or a Mooncake trace".to_owned();
    let path = Path::new(file);
    if path.is_dir() {
        return Err(("this is a folder, not a file".to_owned(), kinds()));
    }
    let (opened, _) = artifacts::regular::open(path).map_err(|e| match e.kind() {
        // A FIFO or a device.
        io::ErrorKind::Other => (e.to_string(), kinds()),
        _ => not_there(file, &e),
    })?;
    let mut bytes = Vec::new();
    let taken = opened.take(LOOK).read_to_end(&mut bytes);
    taken.map_err(|e| (e.to_string(), kinds()))?;
    if let Some((what, hint)) = other_kind(&bytes) {
        return Err((what.to_owned(), hint.to_owned()));
    }
    let text = match std::str::from_utf8(&bytes) {
        Ok(text) => text,
        // The end of the part that was read may have cut a character.
        Err(e) if e.error_len().is_none() => {
            std::str::from_utf8(&bytes[..e.valid_up_to()]).unwrap_or_default()
        }
        Err(e) => {
            let line = bytes[..e.valid_up_to()]
                .iter()
                .filter(|b| **b == b'\n')
                .count()
                + 1;
            let what = format!("line {line} is not UTF-8 text");
            return Err((what, "save the file as UTF-8".to_owned()));
        }
    };
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if text.is_empty() {
        return Err(("the file is empty".to_owned(), kinds()));
    }
    let pack = || json!({ "pack": { "file": file, "when-short": "repeat" } });
    let dataset = || json!({ "dataset": { "file": file, "when-short": "repeat" } });
    let trace = || json!({ "trace": { "file": file } });
    if text.starts_with(['[', '{', '"']) {
        let listed = text.strip_prefix('[');
        let first = listed.unwrap_or(text).trim_start();
        if first.starts_with(']') {
            return Err(("the list is empty".to_owned(), kinds()));
        }
        return match Deserializer::from_str(first).into_iter::<Value>().next() {
            Some(Ok(Value::String(_))) if listed.is_some() => Ok(pack()),
            Some(Ok(Value::String(heading)))
                if first.lines().next() == Some(&format!("\"{heading}\"")) =>
            {
                Ok(pack())
            }
            Some(Ok(Value::Object(entry))) => {
                let has = |keys: &[&str]| keys.iter().any(|key| entry.contains_key(*key));
                match () {
                    () if has(&TALKS) => Ok(dataset()),
                    () if has(&["prompt"]) && (listed.is_none() || has(&["output_tokens"])) => {
                        Ok(pack())
                    }
                    () if has(&["prompt"]) => Ok(dataset()),
                    () if LENGTHS.iter().any(|names| has(names)) && listed.is_none() => Ok(trace()),
                    () => {
                        let keys = entry.keys().map(|key| format!("`{key}`"));
                        Err(lacks("its first entry", &keys.collect::<Vec<_>>()))
                    }
                }
            }
            // The code that reads the complete file reports where it is wrong.
            _ if first.starts_with('"') => csv(first).map(|has| if has { pack() } else { trace() }),
            _ => Ok(if listed.is_some() { dataset() } else { pack() }),
        };
    }
    csv(text).map(|has| if has { pack() } else { trace() })
}

/// Returns whether the heading of a CSV file has prompts, not lengths.
fn csv(text: &str) -> Result<bool, (String, String)> {
    let first = text.lines().next().unwrap_or_default();
    let names = |separator: char| -> Vec<String> {
        let names = first.split(separator);
        names
            .map(|name| name.trim_matches(['"', ' ']).to_ascii_lowercase())
            .collect()
    };
    let prompts = |names: &[String]| names.iter().any(|name| name == "prompt");
    let lengths = |names: &[String]| {
        let mut lengths = LENGTHS.iter().copied().flatten();
        lengths.any(|length| names.iter().any(|name| name.eq_ignore_ascii_case(length)))
    };
    let header = names(',');
    if prompts(&header) || lengths(&header) {
        return Ok(prompts(&header));
    }
    for (separator, called) in [(';', "semicolons"), ('\t', "tabs")] {
        let header = names(separator);
        if prompts(&header) || lengths(&header) {
            let what = format!("its columns are separated by {called}");
            return Err((what, "save it with commas between the columns".to_owned()));
        }
    }
    let header: Vec<String> = header
        .iter()
        .take(12)
        .map(|name| format!("`{}`", cut(name)))
        .collect();
    Err(lacks("its first line", &header))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Describes a file without any of the known names.
fn lacks(what: &str, names: &[String]) -> (String, String) {
    (
        format!(
            "{what} has {}, but neither `prompt`, nor `conversations` or `messages`, nor lengths such as `input_length`",
            if names.is_empty() { "no keys".to_owned() } else { names.join(", ") }
        ),
        "name a file of ShareGPT JSON, JSON Lines, CSV or a Mooncake trace; what holds the prompt must be named `prompt`"
            .to_owned(),
    )
}

/// Describes why a file cannot be opened, with advice for what other tools accept instead of a file.
fn not_there(file: &str, error: &io::Error) -> (String, String) {
    let random = "leave it out for random prompts: `--input-len N --output-len N`";
    let hint = match file {
        _ if error.kind() != io::ErrorKind::NotFound => "make it readable".to_owned(),
        _ if file.contains("://") => "download it first, and name the file".to_owned(),
        "random" | "synthetic" | "sonnet" => random.to_owned(),
        _ if file.contains("prompt_tokens=") => random.to_owned(),
        _ if !file.contains('.') => {
            "name a file: data sets are not downloaded by their name".to_owned()
        }
        _ => instead(file, Path::new(file)).unwrap_or_else(|| {
            "correct the path to a file of ShareGPT JSON, JSON Lines, CSV or a Mooncake trace"
                .to_owned()
        }),
    };
    let what = match error.kind() {
        io::ErrorKind::NotFound => "no such file".to_owned(),
        _ => error.to_string(),
    };
    (what, hint)
}

/// Returns what a file is, and how to make it readable (`FILE` stands for its name), if its first bytes show that it is
/// not text.
pub(crate) fn other_kind(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    if bytes.starts_with(b"PAR1") {
        let remedy = "write its prompts as JSON Lines, an object with `prompt` a line";
        return Some(("it is a Parquet table", remedy));
    }
    tabular::other_kind(bytes).map(|kind| (kind.what, kind.remedy))
}

/// Names for conversations.
pub(crate) const TALKS: [&str; 3] = ["conversations", "conversation", "messages"];

/// Names for the lengths of prompts in traces.
const LENGTHS: [&[&str]; 2] = [&INPUT_TOKENS, &["input_words"]];

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn each_format_is_known_by_how_it_begins() {
        let folder = tempfile::tempdir().unwrap();
        let prompts_of = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            dataset_prompts(path.to_str().unwrap())
        };
        let sharegpt = "[{\"conversations\": [{\"from\": \"human\", \"value\": \"hi\"}]}]";
        assert!(prompts_of("s.json", sharegpt).unwrap()["dataset"]["file"].is_string());
        let lines = "{\"prompt\": \"say a\", \"output_tokens\": 3}\n{\"prompt\": \"say b\"}\n";
        assert_eq!(
            prompts_of("p.jsonl", lines).unwrap()["pack"]["when-short"],
            "repeat"
        );
        let mooncake = "{\"timestamp\": 0, \"input_length\": 6758, \"output_length\": 500, \"hash_ids\": [0, 1]}\n";
        assert!(prompts_of("m.jsonl", mooncake).unwrap()["trace"]["file"].is_string());
        let csv = "id,Prompt\n1,\"one, two\"\n2,\n3,three\n";
        assert!(prompts_of("p.csv", csv).unwrap()["pack"]["file"].is_string());
        assert!(
            prompts_of("t.csv", "timestamp_s,input_tokens,output_tokens\n0,4,5\n").unwrap()["trace"]
                .is_object()
        );
        let chat = "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}\n";
        for (name, text) in [
            ("m.jsonl", chat),
            (
                "c.jsonl",
                "{\"conversations\": [{\"from\": \"human\", \"value\": \"hi\"}]}\n",
            ),
            ("l.json", "[\n  {\n \"prompt\": \"a\"}]"),
        ] {
            assert!(
                prompts_of(name, text).unwrap()["dataset"].is_object(),
                "{name}"
            );
        }
        for (name, text) in [
            ("o.json", "[{\"prompt\": \"a\", \"output_tokens\": 3}]"),
            ("t.json", "[\"a\", \"b\"]"),
            ("t.jsonl", "\"a\"\n\"b\"\n"),
            ("p.json", "{\n  \"prompt\": \"a\"\n}\n"),
            ("q.csv", "\"Prompt\"\n\"a\"\n"),
        ] {
            assert!(
                prompts_of(name, text).unwrap()["pack"].is_object(),
                "{name}"
            );
        }
    }

    #[test]
    fn the_error_for_another_kind_of_file_says_what_it_is_and_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let message_of = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            let error = dataset_prompts(path.to_str().unwrap()).unwrap_err();
            format!("{} — {}", error.reason, error.hint)
        };
        for (bytes, what, hint) in [
            (
                b"hello\n".as_slice(),
                "first line has `hello`",
                "named `prompt`",
            ),
            (
                b"{\"text\": 1}\n",
                "first entry has `text`",
                "named `prompt`",
            ),
            (
                b"[{\"items\": []}]",
                "first entry has `items`",
                "named `prompt`",
            ),
            (b"a,b\n1,2\n", "first line has `a`, `b`", "named `prompt`"),
            (
                b"id;prompt\n1;a\n",
                "separated by semicolons",
                "with commas",
            ),
            (b"id\tprompt\n1\ta\n", "separated by tabs", "with commas"),
            (b"", "is empty", "name a file"),
            (b"\n \n", "is empty", "name a file"),
            (b"[]", "the list is empty", "name a file"),
            (b"\x1f\x8b\x08", "compressed with gzip", "gunzip --keep"),
            (b"PAR1....PAR1", "a Parquet table", "JSON Lines"),
            (b"\xff\xfe{\0", "UTF-16", "save the file as UTF-8"),
            (
                b"prompt\ncaf\xe9\n",
                "line 2 is not UTF-8",
                "save the file as UTF-8",
            ),
        ] {
            let refusal = message_of(bytes);
            assert!(
                refusal.contains(what) && refusal.contains(hint),
                "{refusal}"
            );
        }
        for (name, hint) in [
            ("https://example.org/a.json", "download it first"),
            ("random", "--input-len"),
            ("prompt_tokens=256,output_tokens=128", "--input-len"),
            ("owner/name", "not downloaded by their name"),
            ("none.json", "correct the path"),
        ] {
            let error = dataset_prompts(name).unwrap_err();
            assert!(error.hint.contains(hint), "{error:?}");
        }
        let error = dataset_prompts(folder.path().to_str().unwrap()).unwrap_err();
        assert!(error.reason.contains("a folder"), "{error:?}");
    }

    #[test]
    fn a_fifo_or_a_device_is_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo.jsonl");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        let reason = |file: &str| dataset_prompts(file).unwrap_err().reason;
        let of_fifo = reason(fifo.to_str().unwrap());
        assert!(
            of_fifo.ends_with("it is a FIFO, not a regular file"),
            "{of_fifo}"
        );
        assert_eq!(
            reason("/dev/zero"),
            "/dev/zero: it is a device, not a regular file"
        );
    }
}
