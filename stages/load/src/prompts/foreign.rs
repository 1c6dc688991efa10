//! What a `tokenizer.json` may contain. Anybody can write one, and its steps can make gigabytes of a word, or never end.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::Value;

/// The largest file, in bytes. It takes about 15 times as much memory.
const MOST_BYTES: usize = 256 << 20;

/// The most steps of the normalizer and the pre-tokenizer.
const MOST_STEPS: usize = 256;

/// The most bytes that the normalizer may make of one byte of text. Those of published models make up to a hundred.
const MOST_GROWTH: u64 = 1024;

/// What is checked of a file before the tokenizer is made.
#[derive(Deserialize)]
struct File {
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    model: Model,
}

#[derive(Default, Deserialize)]
struct Model {
    #[serde(default)]
    dropout: Option<f64>,
}

/// Checks a `tokenizer.json`.
///
/// # Errors
/// If it is too large, or makes too much of a text, or is random; one sentence.
pub(super) fn check(bytes: &[u8]) -> Result<(), String> {
    if bytes.len() > MOST_BYTES {
        return Err(format!(
            "the file has {} MiB; the limit is {} MiB",
            bytes.len() >> 20,
            MOST_BYTES >> 20
        ));
    }
    let file: File = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    if file.model.dropout.is_some_and(|share| share > 0.0) {
        return Err(
            "its model has a `dropout`, so that it counts the same text differently each time; remove `dropout`"
                .to_owned(),
        );
    }
    let mut steps = 0;
    let normalized = growth(&file.normalizer, &mut steps)?;
    let divided = growth(&file.pre_tokenizer, &mut steps)?;
    if steps > MOST_STEPS {
        return Err(format!(
            "it has {steps} steps before its model; the limit is {MOST_STEPS}"
        ));
    }
    if normalized.saturating_mul(divided) > MOST_GROWTH {
        return Err(format!(
            "its normalizer can make more than {MOST_GROWTH} bytes of one byte of text"
        ));
    }
    Ok(())
}

/// Returns how many bytes a step, and those in it, make of one byte at most. Counts the steps.
fn growth(step: &Value, steps: &mut usize) -> Result<u64, String> {
    *steps += usize::from(step.is_object());
    let length = |key: &str| step[key].as_str().map_or(0, |text| text.len() as u64);
    let inner = ["normalizers", "pretokenizers"]
        .into_iter()
        .filter_map(|key| step[key].as_array())
        .flatten();
    let own = match step["type"].as_str() {
        // A pattern can match nothing, and then the byte stays.
        Some("Replace") => 1 + length("content"),
        Some("Prepend") => 1 + length("prepend"),
        Some("Precompiled") => longest(step)?,
        // A byte above 127 becomes a letter of two bytes, every time again.
        Some("ByteLevel") => 2,
        Some("Metaspace") => 1 + length("replacement"),
        _ => 1,
    };
    inner.into_iter().try_fold(own, |so_far, step| {
        Ok(so_far.saturating_mul(growth(step, steps)?))
    })
}

/// Returns the length of the longest text that a `Precompiled` step puts in place of a character. Its map is the length
/// of a trie, the trie, and the texts, each with a NUL at its end.
fn longest(step: &Value) -> Result<u64, String> {
    let broken = || "its `precompiled_charsmap` is damaged".to_owned();
    let map = step["precompiled_charsmap"].as_str().ok_or_else(broken)?;
    let map = BASE64_STANDARD.decode(map).map_err(|_| broken())?;
    let (length, rest) = map.split_first_chunk::<4>().ok_or_else(broken)?;
    let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| broken())?;
    // The trie begins with its root.
    let texts = rest
        .get(length..)
        .filter(|_| length >= 4)
        .ok_or_else(broken)?;
    let longest = texts.split(|byte| *byte == 0).map(<[u8]>::len).max();
    Ok(longest.unwrap_or(0).max(1) as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(change: &Value) -> Result<(), String> {
        let mut file = json!({
            "added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "Whitespace"},
            "model": {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"},
        });
        for (key, value) in change.as_object().unwrap() {
            file[key] = value.clone();
        }
        check(file.to_string().as_bytes())
    }

    fn map(trie: u32, rest: &[u8]) -> Value {
        let map = [&trie.to_le_bytes()[..], rest].concat();
        json!({"normalizer": {"type": "Precompiled", "precompiled_charsmap": BASE64_STANDARD.encode(map)}})
    }

    #[test]
    fn the_steps_of_published_models_are_accepted() {
        let llama = json!({"normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ]}});
        let gpt = json!({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": r"\s+(?!\S)|\s+"}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        ]}});
        for ordinary in [json!({}), llama, gpt, map(4, b"\0\0\0\0fi\0ffi\0")] {
            assert_eq!(checked(&ordinary), Ok(()), "{ordinary}");
        }
    }

    #[test]
    fn a_file_that_makes_gigabytes_of_a_word_is_refused() {
        let double = json!({"type": "Replace", "pattern": {"Regex": "."}, "content": "aaa"});
        let bombs = [
            json!({"type": "Sequence", "normalizers": vec![&double; 6]}),
            json!({"type": "Sequence", "normalizers": [{"type": "Sequence", "normalizers": vec![&double; 6]}]}),
            json!({"type": "Prepend", "prepend": "a".repeat(1 << 20)}),
        ];
        for bomb in bombs {
            let why = checked(&json!({"normalizer": bomb})).unwrap_err();
            assert!(why.contains("more than 1024 bytes"), "{why}");
        }
        let long = [&[0; 4][..], &[b'a'; 2000]].concat();
        let why = checked(&map(4, &long)).unwrap_err();
        assert!(why.contains("more than 1024 bytes"), "{why}");
    }

    #[test]
    fn steps_without_number_a_damaged_map_and_chance_are_refused() {
        let step = json!({"type": "CharDelimiterSplit", "delimiter": " "});
        let steps = json!({"type": "Sequence", "pretokenizers": vec![step; MOST_STEPS + 1]});
        let why = checked(&json!({"pre_tokenizer": steps})).unwrap_err();
        assert!(why.contains("258 steps"), "{why}");
        let none = json!({"normalizer": {"type": "Precompiled", "precompiled_charsmap": ""}});
        for damaged in [none, map(0, b"ab"), map(u32::MAX, b"ab"), map(8, b"abcd")] {
            assert!(checked(&damaged).unwrap_err().contains("damaged"));
        }
        let random = json!({"model": {"type": "BPE", "dropout": 0.5, "vocab": {}, "merges": []}});
        assert!(checked(&random).unwrap_err().contains("`dropout`"));
        assert!(checked(&json!({"model": {"type": "BPE", "dropout": 0.0}})).is_ok());
    }
}
