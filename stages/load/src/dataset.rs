//! `load --dataset FILE`: which kind of prompts a file of another tool holds.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use serde_json::{Value, json};

/// Returns the `prompts:` that a file stands for: ShareGPT conversations or `messages` in JSON, prompts in
/// JSON Lines (`prompt`, and `output_tokens` where it is there), lengths of a recorded trace such as
/// Mooncake's (`input_length`), or a CSV file with a column `prompt` or with lengths. Prompts are used again
/// where there are fewer than requests.
///
/// # Errors
/// If the file cannot be read or is none of these; one sentence.
pub fn dataset_prompts(file: &str) -> Result<Value, String> {
    let wrong = |what: &str| format!("{file}: {what}");
    let kinds = "it is neither ShareGPT JSON, nor JSON Lines with `prompt`, nor a trace or CSV with lengths or `prompt`";
    let path = Path::new(file);
    if path.is_dir() {
        return Err(wrong("this is a folder, not a file"));
    }
    let opened = fs::File::open(path).map_err(|e| wrong(&e.to_string()))?;
    let mut reader = BufReader::new(opened);
    let mut first = String::new();
    // A document of JSON may be one line of any length.
    let taken = reader.by_ref().take(1 << 20).read_line(&mut first);
    taken.map_err(|e| wrong(&e.to_string()))?;
    let start = first.trim_start_matches('\u{feff}').trim();
    if start.starts_with('[') {
        return Ok(json!({ "dataset": { "file": file, "when-short": "repeat" } }));
    }
    if start.starts_with('{') {
        let line: Value =
            serde_json::from_str(start).map_err(|e| wrong(&format!("its first line: {e}")))?;
        let has = |key: &str| line.get(key).is_some();
        if has("prompt") {
            return Ok(json!({ "pack": { "file": file, "when-short": "repeat" } }));
        }
        if LENGTHS.iter().any(|key| has(key)) {
            return Ok(json!({ "trace": { "file": file } }));
        }
        return Err(wrong(kinds));
    }
    let header: Vec<String> = start
        .split(',')
        .map(|name| name.trim_matches(['"', ' ']).to_ascii_lowercase())
        .collect();
    if header.iter().any(|name| name == "prompt") {
        return Ok(json!({ "pack": { "file": file, "when-short": "repeat" } }));
    }
    if header.iter().any(|name| LENGTHS.contains(&name.as_str())) {
        return Ok(json!({ "trace": { "file": file } }));
    }
    Err(wrong(kinds))
}

/// Names of the lengths of prompts in traces.
const LENGTHS: [&str; 3] = ["input_length", "input_tokens", "input_words"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_is_known_by_how_it_begins() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            dataset_prompts(path.to_str().unwrap())
        };
        let sharegpt = "[{\"conversations\": [{\"from\": \"human\", \"value\": \"hi\"}]}]";
        assert!(of("s.json", sharegpt).unwrap()["dataset"]["file"].is_string());
        let lines = "{\"prompt\": \"say a\", \"output_tokens\": 3}\n{\"prompt\": \"say b\"}\n";
        assert_eq!(
            of("p.jsonl", lines).unwrap()["pack"]["when-short"],
            "repeat"
        );
        let mooncake = "{\"timestamp\": 0, \"input_length\": 6758, \"output_length\": 500, \"hash_ids\": [0, 1]}\n";
        assert!(of("m.jsonl", mooncake).unwrap()["trace"]["file"].is_string());
        let csv = "id,Prompt\n1,\"one, two\"\n2,\n3,three\n";
        assert!(of("p.csv", csv).unwrap()["pack"]["file"].is_string());
        assert!(
            of("t.csv", "timestamp_s,input_tokens,output_tokens\n0,4,5\n").unwrap()["trace"]
                .is_object()
        );
        for (name, text) in [
            ("a.txt", "hello\n"),
            ("b.jsonl", "{\"text\": 1}\n"),
            ("c.csv", "a,b\n1,2\n"),
        ] {
            let error = of(name, text).unwrap_err();
            assert!(error.contains("neither ShareGPT"), "{error}");
        }
        let error = dataset_prompts(folder.path().to_str().unwrap()).unwrap_err();
        assert!(error.contains("a folder"), "{error}");
    }
}
