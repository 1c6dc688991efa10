//! Token counters: a `tokenizer.json`, or the server under load.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use artifacts::{Digest, quietly};
use net::{ApiKey, Ask, Site};
use serde_json::{Value, json};

use super::error::PromptError;
use super::patterns;
use super::set::LengthSource;
use crate::get::LIMIT;
use crate::named_file;
use crate::peer::Peer;
use pipeline::sources::NamedFiles;

/// Counts the tokens of texts.
pub(crate) trait Counter {
    /// Returns the number of tokens of a text, without special tokens and chat template.
    ///
    /// # Errors
    /// If it cannot be determined.
    fn count(&self, text: &str) -> Result<u32, PromptError>;
    /// Returns the length of a prompt with this text: the same number, or with everything that a chat template adds.
    ///
    /// # Errors
    /// If it cannot be determined.
    fn prompt_length(&self, text: &str) -> Result<u32, PromptError> {
        self.count(text)
    }
    /// Returns the length of a prompt without text.
    fn least(&self) -> u32 {
        0
    }
    /// Returns the kind of tokenizer that counts.
    fn source(&self) -> LengthSource;
    /// Returns the digest of the tokenizer's file, or the fingerprint of the server's.
    fn identity(&self) -> &str;
}

/// A `tokenizer.json`.
pub(crate) struct FileCounter {
    tokenizer: patterns::Tokenizer,
    /// The file, for messages.
    file: String,
    digest: String,
    /// The work so far.
    work: Mutex<Work>,
}

/// The text that a tokenizer has read, and the processor time that this took.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    bytes: u64,
    time: Duration,
}

/// From this much processor time on, a tokenizer must read at least [`SLOWEST`] bytes in a second. Usual ones read
/// megabytes.
const PATIENCE: Duration = Duration::from_secs(30);
const SLOWEST: f64 = 1000.0;

impl Work {
    /// # Errors
    /// If the tokenizer is too slow to be of use; one sentence.
    fn add(&mut self, bytes: usize, time: Duration) -> Result<(), String> {
        self.bytes += bytes as u64;
        self.time += time;
        let seconds = self.time.as_secs_f64();
        if self.time < PATIENCE || self.bytes as f64 / seconds >= SLOWEST {
            return Ok(());
        }
        Err(format!(
            "the tokenizer took {seconds:.0} s of processor time for {} bytes of text; a pattern of its pre-tokenizer or normalizer may search without end",
            self.bytes
        ))
    }
}

/// Describes why a text has no number of tokens; one sentence.
fn refused(error: &tokenizers::Error) -> String {
    if patterns::is_given_up(error) {
        return format!(
            "a search for a pattern of its pre-tokenizer or normalizer was given up ({error}), so that the count would be \
             wrong; simplify the pattern, or use the tokenizer.json that its model was published with"
        );
    }
    error.to_string()
}

/// Returns the processor time of this thread.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

impl FileCounter {
    /// Reads the file, and checks its digest if given.
    pub(crate) fn open(
        file: &str,
        digest: Option<&str>,
        files: &NamedFiles,
    ) -> Result<Self, PromptError> {
        let (file, bytes, actual) =
            named_file::read("tokenizer", file, digest, files).map_err(PromptError::wrong)?;
        Self::of_bytes(&file, &bytes, actual)
    }

    /// Makes a counter of the bytes of a file, which are not checked against the digest.
    pub(crate) fn of_bytes(file: &str, bytes: &[u8], digest: String) -> Result<Self, PromptError> {
        let wrong = |message: String| PromptError::wrong(format!("tokenizer {file}: {message}"));
        super::foreign::check(bytes).map_err(wrong)?;
        // The library panics over some files.
        let mut tokenizer = quietly(|| patterns::Tokenizer::from_bytes(bytes))
            .ok_or_else(|| wrong("its contents contradict each other".to_owned()))?
            .map_err(|e| wrong(e.to_string()))?;
        // Files often contain the truncation from their training.
        tokenizer
            .with_truncation(None)
            .map_err(|e| wrong(e.to_string()))?;
        tokenizer.with_padding(None);
        // It adds special tokens, which are not counted, and could repeat the text.
        tokenizer.with_post_processor(None::<tokenizers::PostProcessorWrapper>);
        let work = Mutex::default();
        Ok(Self {
            tokenizer,
            file: file.to_owned(),
            digest,
            work,
        })
    }
}

impl Counter for FileCounter {
    fn count(&self, text: &str) -> Result<u32, PromptError> {
        let wrong =
            |message: String| PromptError::wrong(format!("tokenizer {}: {message}", self.file));
        let began = thread_time();
        let tokens = quietly(|| patterns::encode(&self.tokenizer, text))
            .ok_or_else(|| wrong("the contents of the file contradict each other".to_owned()))?
            .map_err(|e| wrong(refused(&e)))?;
        let time = thread_time().saturating_sub(began);
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        work.add(text.len(), time).map_err(wrong)?;
        drop(work);
        u32::try_from(tokens.len())
            .map_err(|_| PromptError::wrong("more than 4,294,967,295 tokens".to_owned()))
    }

    fn source(&self) -> LengthSource {
        LengthSource::TokenizerFile
    }

    fn identity(&self) -> &str {
        &self.digest
    }
}

/// The tokenize endpoint of a server.
pub(crate) struct ServerCounter {
    site: Site,
    /// Host and port, for messages.
    address: String,
    model: String,
    fingerprint: String,
    /// The chat template, if prompts go through the server's.
    template: Option<Template>,
}

/// A chat template that the server applies.
struct Template {
    /// The system message before each prompt.
    system: Option<String>,
    /// Tokens of a prompt without text.
    least: u32,
}

/// The treatment of special tokens: those that a tokenizer adds, and those spelled out in a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Special {
    LeftOut,
    Kept,
}

/// The text for the fingerprint: words, numbers, code, white space, several scripts.
const PROBE: &str = "The 3 quick brown foxes paid $1,234.56 for naïve café jazz; then\n\tif (x != y) { return \
                     x << 2; }  // übermäßig 東京 Привет 🦀 antidisestablishmentarianism\r\n";

impl ServerCounter {
    /// Asks a server for the tokens of a fixed text.
    ///
    /// # Errors
    /// If the server does not tokenize, or differs from `expected`.
    pub(crate) fn open(
        peer: &Peer,
        model: &str,
        api_key: Option<&ApiKey>,
        expected: Option<&str>,
    ) -> Result<Self, PromptError> {
        let mut counter = Self {
            site: peer
                .site(api_key)
                .map_err(|e| PromptError::wrong(e.to_string()))?,
            address: peer.address.to_string(),
            model: model.to_owned(),
            fingerprint: String::new(),
            template: None,
        };
        let tokens = counter.tokens(PROBE, Special::LeftOut)?;
        let text = serde_json::to_vec(&tokens).expect("numbers always serialize");
        counter.fingerprint = Digest::of(&text).to_string();
        match expected {
            Some(expected) if expected != counter.fingerprint => Err(PromptError::wrong(format!(
                "the server at {} tokenizes differently from the workload's declaration: \
                 fingerprint {}, expected {expected}",
                counter.address, counter.fingerprint
            ))),
            _ => Ok(counter),
        }
    }

    /// Counts prompts after the server's chat template, if the server reports them.
    ///
    /// # Errors
    /// If the server is gone.
    pub(crate) fn with_template(mut self, system: Option<String>) -> Result<Self, PromptError> {
        let mut template = Template { system, least: 0 };
        if let Some(prompt) = self.applied(&template, "")? {
            template.least = length(&self.tokens(&prompt, Special::Kept)?);
            self.template = Some(template);
        }
        Ok(self)
    }

    /// Returns a prompt as the model gets it; `None` if the server does not report it.
    fn applied(&self, template: &Template, text: &str) -> Result<Option<String>, PromptError> {
        let system = template
            .system
            .iter()
            .map(|system| json!({"role": "system", "content": system}));
        let messages: Vec<Value> = system
            .chain([json!({"role": "user", "content": text})])
            .collect();
        let body = json!({"model": self.model, "messages": messages});
        let answer = self
            .site
            .ask(&Ask::post("/apply-template", &body), LIMIT)
            .map_err(|e| {
                PromptError::wrong(format!("{}: POST /apply-template: {e}", self.address))
            })?;
        let answer = answer.json().ok().filter(|_| answer.status == 200);
        Ok(answer.and_then(|answer| answer["prompt"].as_str().map(str::to_owned)))
    }

    fn tokens(&self, text: &str, special: Special) -> Result<Vec<i64>, PromptError> {
        let kept = special == Special::Kept;
        // One body for all servers: llama.cpp reads `content`, vLLM and SGLang `prompt`, TGI `inputs`.
        let body = json!({
            "model": self.model, "content": text, "prompt": text, "inputs": text,
            "add_special": kept, "add_special_tokens": kept, "parse_special": kept,
        });
        let wrong = |message: String| {
            let message = self.site.mask(&message);
            PromptError::wrong(format!(
                "{} does not count tokens: POST /tokenize: {message}; give the workload a `tokenizer: {{file: …}}`, \
                 or lengths in words",
                self.address
            ))
        };
        let answer = self
            .site
            .ask(&Ask::post("/tokenize", &body), LIMIT)
            .map_err(|e| wrong(e.to_string()))?;
        if answer.status != 200 {
            return Err(wrong(format!("HTTP {} {}", answer.status, answer.start())));
        }
        let answer: Value =
            serde_json::from_slice(&answer.body).map_err(|e| wrong(e.to_string()))?;
        let tokens = answer["tokens"].as_array().or_else(|| answer.as_array());
        let id = |token: &Value| token.as_i64().or_else(|| token["id"].as_i64());
        tokens
            .and_then(|tokens| tokens.iter().map(id).collect())
            .ok_or_else(|| wrong("no list of tokens in the answer".to_owned()))
    }
}

impl Counter for ServerCounter {
    fn count(&self, text: &str) -> Result<u32, PromptError> {
        Ok(length(&self.tokens(text, Special::LeftOut)?))
    }

    fn prompt_length(&self, text: &str) -> Result<u32, PromptError> {
        let Some(template) = &self.template else {
            return self.count(text);
        };
        let prompt = self.applied(template, text)?.ok_or_else(|| {
            PromptError::wrong(format!(
                "{} no longer applies its chat template",
                self.address
            ))
        })?;
        Ok(length(&self.tokens(&prompt, Special::Kept)?))
    }

    fn least(&self) -> u32 {
        self.template.as_ref().map_or(0, |template| template.least)
    }

    fn source(&self) -> LengthSource {
        if self.template.is_some() {
            LengthSource::ServerTemplate
        } else {
            LengthSource::ServerTokenizer
        }
    }

    fn identity(&self) -> &str {
        &self.fingerprint
    }
}

fn length(tokens: &[i64]) -> u32 {
    u32::try_from(tokens.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(file: &Value) -> Result<FileCounter, PromptError> {
        FileCounter::of_bytes("t.json", file.to_string().as_bytes(), String::new())
    }

    fn words() -> Value {
        json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
            "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
            "model": {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 1}, "unk_token": "[UNK]"},
        })
    }

    #[test]
    fn a_file_over_which_the_library_panics_is_an_error() {
        let mut file = words();
        file["pre_tokenizer"] = json!({"type": "FixedLength", "length": 0});
        let error = counter(&file).and_then(|c| c.count("a b")).unwrap_err();
        assert!(error.message.contains("contradict"), "{error}");
        file = words();
        // A trie of one node that leads out of it.
        let map = "BAAAAP////9hAA==";
        file["normalizer"] = json!({"type": "Precompiled", "precompiled_charsmap": map});
        let error = counter(&file).and_then(|c| c.count("a b")).unwrap_err();
        assert!(error.message.contains("contradict"), "{error}");
    }

    #[test]
    fn a_search_that_is_given_up_is_an_error_and_no_count() {
        let mut file = words();
        file["pre_tokenizer"] = json!({
            "type": "Split", "pattern": {"Regex": r"(a|b|ab)*(?>c)"}, "behavior": "Isolated", "invert": false,
        });
        let counter = counter(&file).unwrap();
        assert_eq!(counter.count("a b"), Ok(1));
        let error = counter.count(&"ab".repeat(64)).unwrap_err();
        assert!(error.message.starts_with("tokenizer t.json: "), "{error}");
        assert!(error.message.contains("was given up"), "{error}");
        assert!(error.message.contains("simplify the pattern"), "{error}");
    }

    #[test]
    fn a_file_cannot_count_a_text_several_times_by_a_template() {
        let mut file = words();
        file["post_processor"] = json!({
            "type": "TemplateProcessing", "pair": [], "special_tokens": {},
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        });
        assert_eq!(counter(&file).unwrap().count("a b a"), Ok(3));
    }

    #[test]
    fn a_tokenizer_that_searches_without_end_is_given_up() {
        let mut work = Work::default();
        let second = Duration::from_secs(1);
        assert!((0..29).all(|_| work.add(1, second).is_ok()));
        let why = work.add(1, second).unwrap_err();
        assert!(
            why.contains("took 30 s of processor time for 30 bytes"),
            "{why}"
        );
        let mut busy = Work::default();
        assert!((0..10_000).all(|_| busy.add(1_000_000, second).is_ok()));
    }
}
