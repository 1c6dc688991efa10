//! Prompt sets: generated once per cell, the same for every engine and concurrency.
//!
//! Measured prompt `i` is a function of the experiment's seed, the workload's content, the
//! replicate coordinates and `i`, and of nothing else; so a longer set begins with the shorter
//! one, and cells that ask for equally many requests have identical `prompts` artifacts.
//! Warm-up prompts come from a stream of their own and never equal a measured one. Lengths
//! count words of the shipped list, not tokens.

use std::collections::BTreeSet;

use artifacts::{Column, Digest, Table, TableError};
use serde_json::json;

use crate::random::{Draws, Origin, Stream};
use crate::rows::Phase;
use crate::trace::{Recorded, read_trace};
use crate::workload::{Count, Output, OutputMode, Pack, Source, WhenShort, Workload};

/// The words prompts are made of, one a line.
const WORDS: &str = include_str!("words.txt");

/// One prompt with what is asked of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// Warm-up or measured.
    pub phase: Phase,
    /// Its place among the prompts of its phase.
    pub index: u64,
    /// The text.
    pub text: String,
    /// How many output tokens are asked for.
    pub output_tokens: u32,
    /// Whether that is a cap or an exact demand.
    pub output_mode: OutputMode,
    /// Which shared prefix it begins with, if any.
    pub prefix: Option<u32>,
    /// The part of a mixture it comes from, if any.
    pub part: Option<String>,
}

impl Prompt {
    /// Returns the digest of the text's bytes.
    pub fn digest(&self) -> Digest {
        Digest::of(self.text.as_bytes())
    }
}

/// Prompts cannot be made as asked; whose mistake it is stands in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptError(pub String);

impl std::fmt::Display for PromptError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PromptError {}

/// The prompts of one cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptSet {
    /// Those sent before measuring.
    pub warmup: Vec<Prompt>,
    /// Those measured.
    pub measured: Vec<Prompt>,
}

impl PromptSet {
    /// Makes the prompts of a workload: `warmup` and `measured` many.
    ///
    /// # Errors
    /// If a pack cannot be read or holds too few prompts, or warm-up prompts that differ from
    /// the measured ones cannot be found.
    pub fn generate(
        workload: &Workload,
        origin: &Origin,
        warmup: usize,
        measured: usize,
    ) -> Result<Self, PromptError> {
        let mut content = workload.clone();
        content.description = None;
        let content = serde_json::to_value(&content).expect("a workload always serializes");
        let stream = |phase: &str| origin.stream(&format!("load prompts v1 {phase}"), &content);
        let maker = Maker::new(&workload.prompts, (warmup + measured) as u64)?;
        let own = stream("measured");
        let measured: Vec<Prompt> = (0..measured as u64)
            .map(|i| maker.make((Phase::Measured, i), &own, (i, i), &workload.output))
            .collect::<Result<_, _>>()?;
        let taken: BTreeSet<&str> = measured.iter().map(|p| p.text.as_str()).collect();
        let own = stream("warm-up");
        let mut prompts = Vec::with_capacity(warmup);
        let mut draw = 0;
        while prompts.len() < warmup {
            let index = prompts.len() as u64;
            let place = measured.len() as u64 + draw;
            let prompt = maker.make((Phase::Warmup, index), &own, (draw, place), &workload.output)?;
            if !taken.contains(prompt.text.as_str()) {
                prompts.push(prompt);
            }
            draw += 1;
            if draw > 1000 + 2 * warmup as u64 {
                return Err(PromptError(
                    "no warm-up prompts can be found that differ from the measured ones: make prompts longer, \
                     or set `warmup: 0`"
                        .to_owned(),
                ));
            }
        }
        Ok(Self { warmup: prompts, measured })
    }

    /// Returns the set as a table: one row a prompt, measured ones first.
    ///
    /// # Errors
    /// Never for a set made here.
    pub fn table(&self) -> Result<Table, TableError> {
        let all: Vec<&Prompt> = self.measured.iter().chain(&self.warmup).collect();
        let text = |f: &dyn Fn(&Prompt) -> Option<String>| all.iter().map(|p| f(p)).collect::<Vec<_>>();
        let int = |f: &dyn Fn(&Prompt) -> Option<i64>| all.iter().map(|p| f(p)).collect::<Vec<_>>();
        Table::with_metadata(
            vec![
                Column::text("phase", text(&|p| Some(p.phase.word().to_owned())))
                    .describe("`warmup` or `measured`"),
                Column::int("prompt_index", int(&|p| Some(p.index as i64)))
                    .describe("place among the prompts of its phase"),
                Column::text("prompt_digest", text(&|p| Some(p.digest().to_string())))
                    .describe("BLAKE3 of the text"),
                Column::int("requested_output_tokens", int(&|p| Some(i64::from(p.output_tokens))))
                    .unit("tok")
                    .describe("output tokens asked for"),
                Column::text("output_mode", text(&|p| Some(mode_word(p.output_mode).to_owned())))
                    .describe("`cap`: at most so many; `exact`: end of sequence ignored"),
                Column::int("words", int(&|p| Some(p.text.split_whitespace().count() as i64)))
                    .unit("words")
                    .describe("length of the text in words"),
                Column::int("characters", int(&|p| Some(p.text.chars().count() as i64)))
                    .unit("characters")
                    .describe("length of the text in Unicode scalar values"),
                Column::int("prefix", int(&|p| p.prefix.map(i64::from)))
                    .describe("which shared prefix it begins with; null if none"),
                Column::text("part", text(&|p| p.part.clone()))
                    .describe("the part of a mixture it comes from; null if none"),
                Column::text("text", text(&|p| Some(p.text.clone()))).describe("the prompt"),
            ],
            &[("length_unit", "words")],
        )
    }
}

fn mode_word(mode: OutputMode) -> &'static str {
    match mode {
        OutputMode::Cap => "cap",
        OutputMode::Exact => "exact",
    }
}

/// A source with its packs read.
enum Maker<'a> {
    Words(&'a Count),
    SharedPrefix { prefix: &'a Count, suffix: &'a Count, prefixes: u32 },
    Mixture { parts: Vec<(&'a crate::workload::Part, Maker<'a>)>, total: u64 },
    Pack { texts: Vec<String>, when_short: WhenShort },
    Trace { rows: Vec<Recorded>, words_per_token: f64 },
}

impl<'a> Maker<'a> {
    fn new(source: &'a Source, needed: u64) -> Result<Self, PromptError> {
        Ok(match source {
            Source::Words(words) => Self::Words(&words.length),
            Source::SharedPrefix(s) => {
                Self::SharedPrefix { prefix: &s.prefix, suffix: &s.suffix, prefixes: s.prefixes }
            }
            Source::Mixture(parts) => Self::Mixture {
                total: parts.iter().map(|p| u64::from(p.weight)).sum(),
                parts: parts
                    .iter()
                    .map(|p| Ok((p, Maker::new(&p.prompts, 0)?)))
                    .collect::<Result<_, PromptError>>()?,
            },
            Source::Trace(trace) => {
                let (rows, _) = read_trace(&trace.file, trace.digest.as_deref()).map_err(PromptError)?;
                Self::Trace { rows, words_per_token: trace.words_per_token }
            }
            Source::Pack(pack) => {
                let texts = read_pack(pack)?;
                if pack.when_short == WhenShort::Refuse && (texts.len() as u64) < needed {
                    return Err(PromptError(format!(
                        "the pack holds {} prompts and the cell needs {needed}; `when-short: repeat` allows repeats",
                        texts.len()
                    )));
                }
                Self::Pack { texts, when_short: pack.when_short }
            }
        })
    }

    /// Makes one prompt: its phase and index; the draw of its stream and, for packs, the place.
    fn make(
        &self,
        (phase, index): (Phase, u64),
        stream: &Stream,
        (draw, place): (u64, u64),
        output: &Output,
    ) -> Result<Prompt, PromptError> {
        let mut prompt = Prompt {
            phase,
            index,
            text: String::new(),
            output_tokens: 0,
            output_mode: output.mode,
            prefix: None,
            part: None,
        };
        self.fill(&mut prompt, &mut stream.at(draw + 1), stream, place, output)?;
        Ok(prompt)
    }

    fn fill(
        &self,
        prompt: &mut Prompt,
        draws: &mut Draws,
        stream: &Stream,
        place: u64,
        output: &Output,
    ) -> Result<(), PromptError> {
        if let Self::Mixture { parts, total } = self {
            let mut ticket = draws.below(*total);
            for (part, maker) in parts {
                let weight = u64::from(part.weight);
                if ticket < weight {
                    prompt.part = Some(part.name.clone());
                    return maker.fill(prompt, draws, stream, place, part.output.as_ref().unwrap_or(output));
                }
                ticket -= weight;
            }
            return Err(PromptError("a mixture without weights cannot be drawn from".to_owned()));
        }
        prompt.output_tokens = draw_count(draws, &output.tokens);
        prompt.output_mode = output.mode;
        match self {
            Self::Words(length) => {
                let length = draw_count(draws, length);
                push_words(&mut prompt.text, draws, length);
            }
            Self::SharedPrefix { prefix, suffix, prefixes } => {
                let which = draws.below(u64::from(*prefixes)) as u32;
                prompt.prefix = Some(which);
                // Prefixes count down from the last stream, prompts up from the second.
                let mut shared = stream.at(u64::MAX - u64::from(which));
                let length = draw_count(&mut shared, prefix);
                push_words(&mut prompt.text, &mut shared, length);
                let length = draw_count(draws, suffix);
                push_words(&mut prompt.text, draws, length);
            }
            Self::Pack { texts, when_short } => {
                let n = texts.len() as u64;
                if n == 0 || (place >= n && *when_short == WhenShort::Refuse) {
                    return Err(PromptError(format!("the pack holds only {n} prompts")));
                }
                prompt.text.clone_from(&texts[(place % n) as usize]);
            }
            Self::Trace { rows, words_per_token } => {
                let wrong =
                    |what: &str| PromptError(format!("request {} has no {what} in the trace", prompt.index));
                let row = rows.get(prompt.index as usize).ok_or_else(|| wrong("row"))?;
                let words = row.words(*words_per_token).ok_or_else(|| wrong("prompt length"))?;
                prompt.output_tokens = row.output_tokens.unwrap_or(prompt.output_tokens);
                push_words(&mut prompt.text, draws, words);
            }
            Self::Mixture { .. } => unreachable!("handled above"),
        }
        Ok(())
    }
}

fn draw_count(draws: &mut Draws, count: &Count) -> u32 {
    let (from, to) = count.ends();
    if from == to { from } else { draws.between(u64::from(from), u64::from(to)) as u32 }
}

/// Appends `length` words, a full stop after every twelfth.
fn push_words(text: &mut String, draws: &mut Draws, length: u32) {
    use std::sync::OnceLock;
    static LIST: OnceLock<Vec<&'static str>> = OnceLock::new();
    let list = LIST.get_or_init(|| WORDS.lines().collect());
    for i in 1..=length {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(list[draws.below(list.len() as u64) as usize]);
        if i % 12 == 0 || i == length {
            text.push('.');
        }
    }
}

/// Returns a pack's prompts in order.
fn read_pack(pack: &Pack) -> Result<Vec<String>, PromptError> {
    let Some(file) = &pack.file else {
        return Ok(pack.texts.clone());
    };
    let bytes = std::fs::read(file).map_err(|e| PromptError(format!("prompt pack {file}: {e}")))?;
    let found = Digest::of(&bytes).to_string();
    if let Some(digest) = &pack.digest
        && *digest != found
    {
        return Err(PromptError(format!("prompt pack {file} has changed: expected {digest}, found {found}")));
    }
    let text =
        String::from_utf8(bytes).map_err(|_| PromptError(format!("prompt pack {file} is not UTF-8")))?;
    let mut prompts = Vec::new();
    for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let value: serde_json::Value = serde_json::from_str(line)
            .map_err(|e| PromptError(format!("prompt pack {file}, line {}: {e}", i + 1)))?;
        let prompt = value.as_str().or_else(|| value["prompt"].as_str()).ok_or_else(|| {
            PromptError(format!("prompt pack {file}, line {}: no `prompt` in {}", i + 1, json!(value)))
        })?;
        prompts.push(prompt.to_owned());
    }
    Ok(prompts)
}

/// Returns the digest of a pack's file, for the canonical parameters.
pub(crate) fn pack_digest(file: &str) -> Result<String, PromptError> {
    let bytes = std::fs::read(file).map_err(|e| PromptError(format!("prompt pack {file}: {e}")))?;
    Ok(Digest::of(&bytes).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use artifacts::Scalar;
    use pipeline::stage::Coordinates;
    use proptest::prelude::*;

    fn origin(seed: u64, rep: i64) -> Origin {
        Origin { seed, replicate: Coordinates(vec![("rep".into(), Scalar::Int(rep))]) }
    }

    fn workload(prompts: &serde_json::Value) -> Workload {
        serde_json::from_value(json!({"prompts": prompts, "output": {"tokens": {"from": 4, "to": 9}}}))
            .unwrap()
    }

    fn words() -> Workload {
        workload(&json!({"words": {"length": {"from": 30, "to": 60}}}))
    }

    fn texts(prompts: &[Prompt]) -> Vec<&str> {
        prompts.iter().map(|p| p.text.as_str()).collect()
    }

    #[test]
    fn a_longer_set_begins_with_the_shorter_one_and_warm_up_changes_nothing() {
        let short = PromptSet::generate(&words(), &origin(1, 1), 0, 10).unwrap();
        let long = PromptSet::generate(&words(), &origin(1, 1), 7, 40).unwrap();
        assert_eq!(short.measured[..], long.measured[..10]);
    }

    #[test]
    fn seed_replicate_and_content_change_every_prompt() {
        let base = PromptSet::generate(&words(), &origin(1, 1), 0, 20).unwrap();
        let other = workload(&json!({"words": {"length": {"from": 30, "to": 61}}}));
        for (workload, origin) in [(words(), origin(2, 1)), (words(), origin(1, 2)), (other, origin(1, 1))] {
            let set = PromptSet::generate(&workload, &origin, 0, 20).unwrap();
            assert!(set.measured.iter().zip(&base.measured).all(|(a, b)| a.text != b.text));
        }
    }

    #[test]
    fn a_description_changes_no_prompt() {
        let described = Workload { description: Some("for readers".to_owned()), ..words() };
        let set = |w: &Workload| PromptSet::generate(w, &origin(1, 1), 2, 5).unwrap();
        assert_eq!(set(&described), set(&words()));
    }

    #[test]
    fn the_first_prompt_is_pinned() {
        let set =
            PromptSet::generate(&workload(&json!({"words": {"length": 6}})), &origin(164, 1), 0, 1).unwrap();
        assert_eq!(set.measured[0].text, "ice laugh young coat unit watch.");
    }

    #[test]
    fn equal_sets_are_one_artifact() {
        let bytes = || {
            let set = PromptSet::generate(&words(), &origin(1, 1), 2, 5).unwrap();
            set.table().unwrap().to_parquet().unwrap()
        };
        assert_eq!(bytes(), bytes());
    }

    #[test]
    fn shared_prefixes_are_shared_and_suffixes_are_not() {
        let shared = workload(&json!({"shared-prefix": {"prefix": 24, "suffix": 5, "prefixes": 2}}));
        let set = PromptSet::generate(&shared, &origin(1, 1), 0, 30).unwrap();
        let prefix = |p: &Prompt| p.text.split(' ').take(24).collect::<Vec<_>>().join(" ");
        let mut by_prefix = std::collections::BTreeMap::new();
        for prompt in &set.measured {
            let first = by_prefix.entry(prompt.prefix.unwrap()).or_insert_with(|| prefix(prompt));
            assert_eq!(*first, prefix(prompt));
        }
        assert_eq!(by_prefix.len(), 2);
        assert_ne!(by_prefix[&0], by_prefix[&1]);
        assert_eq!(texts(&set.measured).iter().collect::<BTreeSet<_>>().len(), 30);
    }

    #[test]
    fn a_mixture_takes_its_parts_by_weight_and_their_output() {
        let mixture = workload(&json!({"mixture": [
            {"name": "long", "weight": 1, "prompts": {"words": {"length": 50}}, "output": {"tokens": 99}},
            {"name": "short", "weight": 3, "prompts": {"words": {"length": 5}}},
        ]}));
        let set = PromptSet::generate(&mixture, &origin(1, 1), 0, 4000).unwrap();
        let long: Vec<_> = set.measured.iter().filter(|p| p.part.as_deref() == Some("long")).collect();
        assert!((900..1100).contains(&long.len()), "{}", long.len());
        assert!(long.iter().all(|p| p.output_tokens == 99 && p.text.split(' ').count() == 50));
    }

    #[test]
    fn a_pack_keeps_its_order_and_refuses_to_repeat_unless_told() {
        let pack = |more: &serde_json::Value| {
            let mut pack = json!({"texts": ["a", "b", "c"]});
            pack.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            workload(&json!({"pack": pack}))
        };
        let set = PromptSet::generate(&pack(&json!({})), &origin(1, 1), 1, 2).unwrap();
        assert_eq!((texts(&set.measured), texts(&set.warmup)), (vec!["a", "b"], vec!["c"]));
        let error = PromptSet::generate(&pack(&json!({})), &origin(1, 1), 0, 4).unwrap_err();
        assert!(error.to_string().contains("holds 3 prompts"), "{error}");
        let set = PromptSet::generate(&pack(&json!({"when-short": "repeat"})), &origin(1, 1), 0, 4).unwrap();
        assert_eq!(texts(&set.measured), ["a", "b", "c", "a"]);
    }

    #[test]
    fn a_pack_file_is_read_and_must_not_change() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "{\"prompt\": \"x\"}\n\n\"y\"\n").unwrap();
        let path = file.path().to_str().unwrap();
        let digest = pack_digest(path).unwrap();
        let pack = workload(&json!({"pack": {"file": path, "digest": digest}}));
        assert_eq!(texts(&PromptSet::generate(&pack, &origin(1, 1), 0, 2).unwrap().measured), ["x", "y"]);
        std::fs::write(file.path(), "\"z\"\n").unwrap();
        assert!(
            PromptSet::generate(&pack, &origin(1, 1), 0, 1).unwrap_err().to_string().contains("has changed")
        );
    }

    #[test]
    fn a_trace_decides_the_lengths_of_prompts_and_answers() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "timestamp_s,input_tokens,output_tokens\n0,10,33\n1,20,44\n").unwrap();
        let trace = workload(&json!({"trace": {"file": file.path(), "words-per-token": 0.5}}));
        let set = PromptSet::generate(&trace, &origin(1, 1), 1, 2).unwrap();
        let lengths = |p: &Prompt| (p.text.split(' ').count(), p.output_tokens);
        assert_eq!(set.measured.iter().map(lengths).collect::<Vec<_>>(), [(5, 33), (10, 44)]);
        assert_eq!(lengths(&set.warmup[0]), (5, 33));
        let error = PromptSet::generate(&trace, &origin(1, 1), 0, 3).unwrap_err();
        assert!(error.to_string().contains("request 2 has no row"), "{error}");
    }

    proptest! {
        #[test]
        fn warm_up_prompts_never_equal_measured_ones(length in 1_u32..3, warmup in 0_usize..6, measured in 1_usize..60) {
            let workload = workload(&json!({"words": {"length": length}}));
            let set = PromptSet::generate(&workload, &origin(9, 1), warmup, measured).unwrap();
            prop_assert_eq!((set.warmup.len(), set.measured.len()), (warmup, measured));
            prop_assert!(set.warmup.iter().all(|w| !texts(&set.measured).contains(&w.text.as_str())));
        }

        #[test]
        fn lengths_stay_within_their_range(from in 1_u32..40, more in 0_u32..40) {
            let workload = workload(&json!({"words": {"length": {"from": from, "to": from + more}}}));
            let set = PromptSet::generate(&workload, &origin(9, 1), 0, 20).unwrap();
            for prompt in &set.measured {
                let length = prompt.text.split(' ').count() as u32;
                prop_assert!((from..=from + more).contains(&length));
            }
        }
    }
}
