//! The steps of a tokenizer before its model, so that a search that is given up is an error.
//!
//! The library of patterns gives up a search after a million steps. The tokenizer library then goes on as if nothing more
//! matched: the rest of the text stays one piece, and the number of tokens is wrong. Here, the same patterns search in the
//! same way, and the error is returned.

use std::cell::RefCell;

use fancy_regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pattern::Invert;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::{
    DecoderWrapper, Encoding, ModelWrapper, NormalizedString, Normalizer, PostProcessorWrapper,
    PreTokenizedString, PreTokenizer, SplitDelimiterBehavior, TokenizerImpl,
};

/// A tokenizer whose patterns report a search that is given up.
pub(super) type Tokenizer =
    TokenizerImpl<ModelWrapper, Normalization, Division, PostProcessorWrapper, DecoderWrapper>;

/// The pattern with which `ByteLevel` divides a text, as in the library.
const BYTE_LEVEL: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// A step that changes a text.
#[derive(Deserialize)]
#[serde(try_from = "NormalizerWrapper")]
pub(super) enum Normalization {
    Replace(Box<Regex>, String),
    Sequence(Vec<Normalization>),
    Other(Box<NormalizerWrapper>),
}

impl TryFrom<NormalizerWrapper> for Normalization {
    type Error = fancy_regex::Error;

    fn try_from(step: NormalizerWrapper) -> Result<Self, Self::Error> {
        Ok(match step {
            NormalizerWrapper::Sequence(steps) => {
                let steps = steps.into_iter().map(Self::try_from);
                Self::Sequence(steps.collect::<Result<_, _>>()?)
            }
            NormalizerWrapper::Replace(step) => match pattern(&step)? {
                Some(pattern) => Self::Replace(pattern, step.content),
                None => Self::Other(Box::new(NormalizerWrapper::Replace(step))),
            },
            other => Self::Other(Box::new(other)),
        })
    }
}

thread_local! {
    /// Why a normalizer gave up a search in this thread. The tokenizer library passes on no error of a normalizer.
    static GIVEN_UP: RefCell<Option<fancy_regex::Error>> = const { RefCell::new(None) };
}

impl Normalizer for Normalization {
    fn normalize(&self, text: &mut NormalizedString) -> tokenizers::Result<()> {
        match self {
            Self::Replace(pattern, content) => {
                let replaced = text.replace(&**pattern, content);
                replaced.inspect_err(|e| {
                    let given_up = e.downcast_ref::<fancy_regex::Error>().cloned();
                    GIVEN_UP.set(given_up);
                })
            }
            Self::Sequence(steps) => steps.iter().try_for_each(|step| step.normalize(text)),
            Self::Other(step) => step.normalize(text),
        }
    }
}

/// A step that divides a text.
#[derive(Deserialize)]
#[serde(try_from = "PreTokenizerWrapper")]
pub(super) enum Division {
    Split {
        pattern: Box<Regex>,
        behavior: SplitDelimiterBehavior,
        invert: bool,
    },
    /// `ByteLevel` with its pattern; without it, it is one of the others.
    Bytes {
        pattern: Box<Regex>,
        space: bool,
        rest: PreTokenizerWrapper,
    },
    Sequence(Vec<Division>),
    Other(PreTokenizerWrapper),
}

impl TryFrom<PreTokenizerWrapper> for Division {
    type Error = fancy_regex::Error;

    fn try_from(step: PreTokenizerWrapper) -> Result<Self, Self::Error> {
        Ok(match step {
            PreTokenizerWrapper::Sequence(steps) => {
                let steps = steps.into_iter().map(Self::try_from);
                Self::Sequence(steps.collect::<Result<_, _>>()?)
            }
            PreTokenizerWrapper::Split(step) => match pattern(&step)? {
                Some(pattern) => Self::Split {
                    pattern,
                    behavior: step.behavior,
                    invert: step.invert,
                },
                None => Self::Other(PreTokenizerWrapper::Split(step)),
            },
            PreTokenizerWrapper::ByteLevel(step) if step.use_regex => Self::Bytes {
                pattern: Box::new(Regex::new(BYTE_LEVEL)?),
                space: step.add_prefix_space,
                rest: step.use_regex(false).add_prefix_space(false).into(),
            },
            other => Self::Other(other),
        })
    }
}

impl PreTokenizer for Division {
    fn pre_tokenize(&self, text: &mut PreTokenizedString) -> tokenizers::Result<()> {
        match self {
            Self::Split {
                pattern,
                behavior,
                invert: false,
            } => text.split(|_, part| part.split(&**pattern, *behavior)),
            Self::Split {
                pattern, behavior, ..
            } => text.split(|_, part| part.split(Invert(&**pattern), *behavior)),
            Self::Bytes {
                pattern,
                space,
                rest,
            } => {
                text.split(|_, mut part| {
                    if *space && !part.get().starts_with(' ') {
                        part.prepend(" ");
                    }
                    part.split(&**pattern, SplitDelimiterBehavior::Isolated)
                })?;
                rest.pre_tokenize(text)
            }
            Self::Sequence(steps) => steps.iter().try_for_each(|step| step.pre_tokenize(text)),
            Self::Other(step) => step.pre_tokenize(text),
        }
    }
}

/// Returns the pattern of a step that has one. A fixed text needs no steps to search for it.
fn pattern(step: &impl Serialize) -> Result<Option<Box<Regex>>, fancy_regex::Error> {
    let step = serde_json::to_value(step).unwrap_or(Value::Null);
    let pattern = step["pattern"]["Regex"].as_str().map(Regex::new);
    Ok(pattern.transpose()?.map(Box::new))
}

/// Divides a text into tokens, without special ones.
///
/// # Errors
/// If a search is given up, or the text has a part that the model does not know.
pub(super) fn encode(tokenizer: &Tokenizer, text: &str) -> tokenizers::Result<Encoding> {
    GIVEN_UP.set(None);
    let encoding = tokenizer.encode_fast(text, false)?;
    match GIVEN_UP.take() {
        Some(error) => Err(error.into()),
        None => Ok(encoding),
    }
}

/// Returns whether a search was given up.
pub(super) fn is_given_up(error: &tokenizers::Error) -> bool {
    matches!(
        error.downcast_ref::<fancy_regex::Error>(),
        Some(fancy_regex::Error::RuntimeError(_))
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A pattern of which a search in many letters without an end takes endless steps.
    const ENDLESS: &str = r"(a|b|ab)*(?>c)";

    fn file(normalizer: &Value, pre_tokenizer: &Value) -> Vec<u8> {
        let vocab: serde_json::Map<String, Value> = (b'!'..=b'~')
            .map(char::from)
            .chain(['Ġ', 'Ċ', '▁'])
            .enumerate()
            .map(|(id, c)| (c.to_string(), id.into()))
            .collect();
        let file = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
            "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": null, "decoder": null,
            "model": {"type": "BPE", "vocab": vocab, "merges": [], "unk_token": "!"},
        });
        file.to_string().into_bytes()
    }

    fn split(pattern: &str, invert: bool) -> Value {
        let pattern = json!({"Regex": pattern});
        json!({"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": invert})
    }

    #[test]
    fn a_search_that_is_given_up_is_an_error_in_every_step_with_a_pattern() {
        let replace = json!({"type": "Replace", "pattern": {"Regex": ENDLESS}, "content": "b"});
        let replaces = json!({"type": "Sequence", "normalizers": [{"type": "Lowercase"}, replace]});
        let splits = |step: Value| json!({"type": "Sequence", "pretokenizers": [{"type": "Punctuation"}, step]});
        let none = Value::Null;
        let text = "ab".repeat(64);
        for (normalizer, division) in [
            (&replace, &none),
            (&replaces, &none),
            (&none, &split(ENDLESS, false)),
            (&none, &split(ENDLESS, true)),
            (&none, &splits(split(ENDLESS, false))),
        ] {
            let file = file(normalizer, division);
            // The library itself does not notice.
            let silent = tokenizers::Tokenizer::from_bytes(&file).unwrap();
            assert!(silent.encode_fast(&*text, false).is_ok());
            let ours = Tokenizer::from_bytes(&file).unwrap();
            let error = encode(&ours, &text).unwrap_err();
            assert!(is_given_up(&error), "{normalizer} {division}");
            assert!(encode(&ours, "other").is_ok());
        }
    }

    #[test]
    fn every_other_text_has_the_tokens_of_the_library() {
        let llama = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
        let bytes = |space, regex| json!({"type": "ByteLevel", "add_prefix_space": space, "trim_offsets": true, "use_regex": regex});
        let both = json!({"type": "Sequence", "pretokenizers": [split(llama, false), bytes(false, false)]});
        let fixed = json!({"type": "Split", "pattern": {"String": "."}, "behavior": "MergedWithPrevious", "invert": true});
        let replace = json!({"type": "Replace", "pattern": {"Regex": "e+"}, "content": "oo"});
        let texts = [
            "",
            " ",
            "We're  12345 of them.\n\n Été (x!=y)…\t",
            "a\u{301} 東京 🦀",
            "  lead",
        ];
        for normalizer in [Value::Null, replace] {
            for division in [
                both.clone(),
                bytes(true, true),
                bytes(false, true),
                split(llama, true),
                fixed.clone(),
                json!({"type": "Whitespace"}),
            ] {
                let file = file(&normalizer, &division);
                let theirs = tokenizers::Tokenizer::from_bytes(&file).unwrap();
                let ours = Tokenizer::from_bytes(&file).unwrap();
                for text in texts {
                    let tokens = theirs.encode_fast(text, false).unwrap();
                    let own = encode(&ours, text).unwrap();
                    assert_eq!(own.get_ids(), tokens.get_ids(), "{division} {text:?}");
                }
            }
        }
    }
}
