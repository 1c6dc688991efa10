//! A source with its files loaded, which makes prompts.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use contract::Phase;

use super::counter::Counter;
use super::error::PromptError;
use super::files::{Conversation, read_corpus, read_dataset, read_pack};
use super::repeated::{enough, wrapped};
use super::set::{BatchText, LINE_BREAK, LengthSource, Prompt};
use super::text::{Random, Running, WordSource, write};
use crate::random::{Draws, Stream};
use pipeline::sources::NamedFiles;

use crate::trace::{Recorded, read_trace};
use crate::workload::{
    Count, Documents, Images, Length, Output, Part, PromptSource, Unit, WhenShort, Workload,
};

/// The facts about a prompt before its text is made.
#[derive(Clone, Copy)]
pub(super) struct Draft<'a> {
    pub(super) phase: Phase,
    pub(super) index: u64,
    pub(super) session: Option<u64>,
    pub(super) turn: Option<u32>,
    pub(super) think_ns: u64,
    pub(super) output: &'a Output,
    documents: Option<&'a Documents>,
    images: Option<Images>,
    batch_size: u32,
}

impl<'a> Draft<'a> {
    pub(super) fn new(phase: Phase, index: u64, workload: &'a Workload) -> Self {
        Self {
            phase,
            index,
            session: None,
            turn: None,
            think_ns: 0,
            output: &workload.output,
            documents: workload.documents.as_ref(),
            images: workload.images,
            batch_size: workload.batch_size,
        }
    }

    fn prompt(&self) -> Prompt {
        Prompt {
            phase: self.phase,
            index: self.index,
            session: self.session,
            turn: self.turn,
            think_ns: self.think_ns,
            text: String::new(),
            tokens: None,
            output_tokens: 0,
            output_mode: self.output.mode,
            prefix: None,
            part: None,
            model: None,
            images: self.images,
            batch: Vec::new(),
        }
    }
}

/// A source with its files loaded.
pub(super) struct Maker<'a> {
    kind: Kind<'a>,
    counter: Option<&'a dyn Counter>,
    /// The units of the lengths so far.
    units: Cell<Units>,
    /// The shared prefixes made so far, because fitting one to its tokens takes a while.
    prefixes: RefCell<BTreeMap<(Stream, u32), String>>,
}

/// The units that were used.
#[derive(Clone, Copy, Debug, Default)]
struct Units {
    tokens: bool,
    characters: bool,
    words: bool,
}

enum Kind<'a> {
    Words(&'a Length),
    SharedPrefix {
        prefix: &'a Length,
        suffix: &'a Length,
        prefixes: u32,
        fraction: f64,
    },
    Mixture {
        parts: Vec<(&'a Part, Maker<'a>)>,
        total: u64,
    },
    Pack {
        prompts: Vec<(String, Option<u32>)>,
        when_short: WhenShort,
    },
    Corpus {
        words: Vec<String>,
        length: &'a Length,
    },
    Dataset {
        conversations: Vec<Conversation>,
        recorded_output: bool,
        when_short: WhenShort,
    },
    Trace {
        rows: Vec<Recorded>,
        words_per_token: f64,
        /// The number of tokens for each id of a row; 0 if ids are ignored.
        per_id: u32,
    },
}

impl<'a> Maker<'a> {
    /// Reads the files of a source that will make `needed` prompts or sessions. Datasets are shuffled with draws from
    /// `order`; `files` has the files named by digest.
    pub(super) fn new(
        source: &'a PromptSource,
        needed: u64,
        counter: Option<&'a dyn Counter>,
        order: &Stream,
        files: &NamedFiles,
    ) -> Result<Self, PromptError> {
        let kind = match source {
            PromptSource::Words(words) => Kind::Words(&words.length),
            PromptSource::SharedPrefix(s) => Kind::SharedPrefix {
                prefix: &s.prefix,
                suffix: &s.suffix,
                prefixes: s.prefixes,
                fraction: s.fraction,
            },
            PromptSource::Mixture(parts) => Kind::Mixture {
                total: parts.iter().map(|p| u64::from(p.weight)).sum(),
                parts: parts
                    .iter()
                    .map(|p| Ok((p, Maker::new(&p.prompts, 0, counter, order, files)?)))
                    .collect::<Result<_, PromptError>>()?,
            },
            PromptSource::Trace(trace) => {
                let (rows, _) = read_trace(&trace.file, trace.digest.as_deref(), files)
                    .map_err(PromptError::wrong)?;
                Kind::Trace {
                    rows,
                    words_per_token: trace.words_per_token,
                    per_id: trace.tokens_per_hash_id.unwrap_or(0),
                }
            }
            PromptSource::Pack(pack) => {
                let prompts = read_pack(pack, files)?;
                enough(pack.when_short, prompts.len(), needed, "pack", "prompts")?;
                Kind::Pack {
                    prompts,
                    when_short: pack.when_short,
                }
            }
            PromptSource::Corpus(corpus) => Kind::Corpus {
                words: read_corpus(corpus, files)?,
                length: &corpus.length,
            },
            PromptSource::Dataset(dataset) => {
                let mut conversations = read_dataset(dataset, files)?;
                enough(
                    dataset.when_short,
                    conversations.len(),
                    needed,
                    "dataset",
                    "conversations",
                )?;
                shuffle(&mut conversations, &mut order.at(0));
                Kind::Dataset {
                    conversations,
                    recorded_output: dataset.recorded_output,
                    when_short: dataset.when_short,
                }
            }
        };
        Ok(Self {
            kind,
            counter,
            units: Cell::default(),
            prefixes: RefCell::default(),
        })
    }

    /// Returns how many prompts or conversations a file holds, and this number, if it is larger.
    pub(super) fn few(&self, sent: u64) -> Option<(usize, u64)> {
        let entries = match &self.kind {
            Kind::Pack { prompts, .. } => prompts.len(),
            Kind::Dataset { conversations, .. } => conversations.len(),
            _ => return None,
        };
        ((entries as u64) < sent).then_some((entries, sent))
    }

    /// Returns how many prompts or conversations a file holds that may be sent again; `None` for other sources.
    pub(super) fn repeats_after(&self) -> Option<u64> {
        let (entries, when_short) = match &self.kind {
            Kind::Pack {
                prompts,
                when_short,
            } => (prompts.len(), when_short),
            Kind::Dataset {
                conversations,
                when_short,
                ..
            } => (conversations.len(), when_short),
            _ => return None,
        };
        (*when_short == WhenShort::Repeat).then_some(entries as u64)
    }

    /// Returns what counted the lengths.
    pub(super) fn length_source(&self) -> LengthSource {
        let units = self.all_units();
        match self.counter {
            Some(counter) if units.tokens => counter.source(),
            _ if units.characters => LengthSource::Characters,
            _ if units.words => LengthSource::Words,
            _ => LengthSource::Given,
        }
    }

    fn all_units(&self) -> Units {
        let own = self.units.get();
        let Kind::Mixture { parts, .. } = &self.kind else {
            return own;
        };
        parts
            .iter()
            .map(|(_, maker)| maker.all_units())
            .fold(own, |a, b| Units {
                tokens: a.tokens || b.tokens,
                characters: a.characters || b.characters,
                words: a.words || b.words,
            })
    }

    /// Makes one prompt from a draw of its stream. Recorded sources use the place.
    pub(super) fn make(
        &self,
        draft: Draft<'_>,
        stream: &Stream,
        (draw, place): (u64, u64),
    ) -> Result<Prompt, PromptError> {
        self.finish(draft, &mut stream.at(draw + 1), stream, place)
    }

    /// Makes a later turn of a session from the session's own draws.
    pub(super) fn make_turn(
        &self,
        draft: Draft<'_>,
        draws: &mut Draws,
        stream: &Stream,
        session: u64,
    ) -> Result<Prompt, PromptError> {
        self.finish(draft, draws, stream, session)
    }

    fn finish(
        &self,
        draft: Draft<'_>,
        draws: &mut Draws,
        stream: &Stream,
        place: u64,
    ) -> Result<Prompt, PromptError> {
        let mut prompt = draft.prompt();
        self.fill(&mut prompt, draws, stream, place, &draft)?;
        if let Some(documents) = draft.documents {
            for _ in 0..draw_count(draws, &documents.count) {
                prompt.text.push('\n');
                self.random(&mut prompt.text, draws, &documents.length)?;
            }
        }
        if let Some(counter) = self.counter {
            count_tokens(&mut prompt, counter)?;
        }
        Ok(prompt)
    }

    /// Returns the number of turns of the conversation at a place; `None` if this is not a dataset.
    pub(super) fn conversation(&self, place: u64) -> Result<Option<u32>, PromptError> {
        let Kind::Dataset {
            conversations,
            when_short,
            ..
        } = &self.kind
        else {
            return Ok(None);
        };
        let at = wrapped(
            place,
            conversations.len(),
            *when_short,
            "dataset",
            "conversations",
        )?;
        Ok(Some(
            u32::try_from(conversations[at].turns.len()).unwrap_or(u32::MAX),
        ))
    }

    fn fill(
        &self,
        prompt: &mut Prompt,
        draws: &mut Draws,
        stream: &Stream,
        place: u64,
        draft: &Draft<'_>,
    ) -> Result<(), PromptError> {
        if let Kind::Mixture { parts, total } = &self.kind {
            let (part, maker) = part_at(parts, draws.below(*total))?;
            prompt.part = Some(part.name.clone());
            prompt.model = part.model.clone().or(prompt.model.take());
            prompt.images = part.images.or(prompt.images);
            let draft = Draft {
                output: part.output.as_ref().unwrap_or(draft.output),
                ..*draft
            };
            return maker.fill(prompt, draws, stream, place, &draft);
        }
        if draft.batch_size <= 1 {
            return self.fill_text(prompt, draws, stream, place, draft.output);
        }
        // All texts of a request come from the same part of a mixture, and the request has a prefix if all have it.
        let mut all = String::new();
        let mut prefixes = Vec::new();
        for i in 0..u64::from(draft.batch_size) {
            prompt.text.clear();
            prompt.prefix = None;
            let place = place * u64::from(draft.batch_size) + i;
            self.fill_text(prompt, draws, stream, place, draft.output)?;
            if i > 0 {
                all.push(LINE_BREAK);
            }
            all.push_str(&prompt.text);
            prefixes.push(prompt.prefix);
            prompt.batch.push(BatchText {
                end: all.len(),
                tokens: None,
            });
        }
        prefixes.dedup();
        prompt.prefix = match prefixes[..] {
            [same] => same,
            _ => None,
        };
        prompt.text = all;
        Ok(())
    }

    /// Appends one text to a prompt.
    fn fill_text(
        &self,
        prompt: &mut Prompt,
        draws: &mut Draws,
        stream: &Stream,
        place: u64,
        output: &Output,
    ) -> Result<(), PromptError> {
        let asked = draw_count(draws, &output.tokens);
        prompt.output_tokens = asked;
        prompt.output_mode = output.mode;
        match &self.kind {
            Kind::Words(length) => self.random(&mut prompt.text, draws, length)?,
            Kind::SharedPrefix {
                prefix,
                suffix,
                prefixes,
                fraction,
            } => {
                let shares = *fraction >= 1.0 || draws.unit() <= *fraction;
                if shares {
                    let which = draws.below(u64::from(*prefixes)) as u32;
                    prompt.prefix = Some(which);
                    prompt.text = self.shared(which, stream, prefix)?;
                } else {
                    self.random(&mut prompt.text, draws, prefix)?;
                }
                self.random(&mut prompt.text, draws, suffix)?;
            }
            Kind::Corpus { words, length } => {
                let count = self.draw(draws, length);
                let from = draws.below(words.len() as u64) as usize;
                self.write(&mut prompt.text, &mut Running::new(words, from), count)?;
            }
            Kind::Pack {
                prompts,
                when_short,
            } => {
                let at = wrapped(place, prompts.len(), *when_short, "pack", "prompts")?;
                let (text, output_tokens) = &prompts[at];
                prompt.text.clone_from(text);
                prompt.output_tokens = output_tokens.unwrap_or(prompt.output_tokens);
            }
            Kind::Dataset {
                conversations,
                recorded_output,
                when_short,
            } => {
                let (n, what) = (conversations.len(), ("dataset", "conversations"));
                let at = wrapped(place, n, *when_short, what.0, what.1)?;
                if !output.replaces_recorded {
                    let named = conversations[at].output_tokens.clone();
                    let named = named.map_err(|e| {
                        PromptError::wrong(format!("entry {} of the dataset: {e}", at + 1))
                    })?;
                    prompt.output_tokens = named.unwrap_or(prompt.output_tokens);
                }
                self.continue_conversation(prompt, at, &conversations[at], *recorded_output)?;
            }
            Kind::Trace {
                rows,
                words_per_token,
                per_id,
            } => self.replay(
                prompt,
                draws,
                stream,
                (rows, place),
                (*words_per_token, *per_id),
            )?,
            Kind::Mixture { .. } => unreachable!("its parts fill prompts"),
        }
        if output.replaces_recorded {
            prompt.output_tokens = asked;
        }
        Ok(())
    }

    /// Fills a prompt with its turn of a recorded conversation.
    fn continue_conversation(
        &self,
        prompt: &mut Prompt,
        at: usize,
        conversation: &Conversation,
        recorded_output: bool,
    ) -> Result<(), PromptError> {
        let turn = prompt.turn.map_or(0, |turn| turn as usize - 1);
        let turn = conversation
            .turns
            .get(turn)
            .ok_or_else(|| PromptError::wrong(format!("conversation {at} is over")))?;
        prompt.text.clone_from(&turn.said);
        if let (true, Some(counter), Some(answer)) = (recorded_output, self.counter, &turn.answered)
        {
            prompt.output_tokens = counter.count(answer)?.max(1);
        }
        Ok(())
    }

    /// Fills a prompt with as many words as its row of a trace has, beginning with the blocks that the row's ids name.
    fn replay(
        &self,
        prompt: &mut Prompt,
        draws: &mut Draws,
        stream: &Stream,
        (rows, place): (&[Recorded], u64),
        (words_per_token, per_id): (f64, u32),
    ) -> Result<(), PromptError> {
        let n = prompt.index;
        let at = match prompt.phase {
            Phase::Measured => place,
            _ => n,
        };
        let row = rows.get(at as usize).ok_or_else(|| {
            let had = rows.len();
            PromptError::wrong(format!(
                "request {n} has no row in the trace, which has {had} and is never repeated; lower the number of requests to {had}"
            ))
        })?;
        prompt.output_tokens = row.output_tokens.unwrap_or(prompt.output_tokens);
        let (unit, length) = match (self.counter, row.input_tokens) {
            (Some(_), Some(tokens)) => (Unit::Tokens, tokens.round().max(1.0) as u32),
            _ => {
                let words = row.words(words_per_token).ok_or_else(|| {
                    PromptError::wrong(format!("request {n} has no prompt length in the trace"))
                })?;
                (Unit::Words, words)
            }
        };
        let per_id = match unit {
            Unit::Tokens => per_id,
            _ => (f64::from(per_id) * words_per_token).round() as u32,
        };
        let rest = self.blocks(&mut prompt.text, stream, row, (unit, length, per_id))?;
        if rest > 0 {
            self.write(&mut prompt.text, &mut Random(draws), (unit, rest))?;
        }
        Ok(())
    }

    /// Returns a shared prefix. Prefixes use streams from the last one down, prompts from the second one up.
    fn shared(&self, which: u32, stream: &Stream, length: &Length) -> Result<String, PromptError> {
        let key = (*stream, which);
        if let Some(text) = self.prefixes.borrow().get(&key) {
            return Ok(text.clone());
        }
        let mut text = String::new();
        self.random(
            &mut text,
            &mut stream.at(u64::MAX - u64::from(which)),
            length,
        )?;
        self.prefixes.borrow_mut().insert(key, text.clone());
        Ok(text)
    }

    /// Writes the blocks that the ids of a recorded prompt name, up to its length; returns the remaining length. The
    /// same id gives the same words, so prompts with the same first ids begin alike.
    fn blocks(
        &self,
        text: &mut String,
        stream: &Stream,
        row: &Recorded,
        (unit, length, per_id): (Unit, u32, u32),
    ) -> Result<u32, PromptError> {
        let mut left = length;
        for id in row.hash_ids.iter().filter(|_| per_id > 0) {
            let part = left.min(per_id);
            if part == 0 {
                break;
            }
            // Between the streams of prompts, which go up, and those of prefixes, which go down.
            let mut draws = stream.at((1 << 62) + (id & ((1 << 61) - 1)));
            self.write(text, &mut Random(&mut draws), (unit, part))?;
            left -= part;
        }
        Ok(left)
    }

    fn draw(&self, draws: &mut Draws, length: &Length) -> (Unit, u32) {
        let (unit, count) = length.parts();
        (unit, draw_count(draws, count))
    }

    /// Appends random words of a drawn length.
    fn random(
        &self,
        text: &mut String,
        draws: &mut Draws,
        length: &Length,
    ) -> Result<(), PromptError> {
        let length = self.draw(draws, length);
        self.write(text, &mut Random(draws), length)
    }

    fn write(
        &self,
        text: &mut String,
        words: &mut dyn WordSource,
        (unit, count): (Unit, u32),
    ) -> Result<(), PromptError> {
        let mut units = self.units.get();
        match unit {
            Unit::Tokens => units.tokens = true,
            Unit::Characters => units.characters = true,
            Unit::Words => units.words = true,
        }
        self.units.set(units);
        write(text, words, unit, count, self.counter)
    }
}

/// Counts the tokens of a prompt: those of all its texts.
fn count_tokens(prompt: &mut Prompt, counter: &dyn Counter) -> Result<(), PromptError> {
    let Some(texts) = prompt.batched() else {
        prompt.tokens = Some(counter.prompt_length(&prompt.text)?);
        return Ok(());
    };
    let counts: Vec<u32> = texts
        .into_iter()
        .map(|text| counter.prompt_length(text))
        .collect::<Result<_, _>>()?;
    for (text, tokens) in prompt.batch.iter_mut().zip(&counts) {
        text.tokens = Some(*tokens);
    }
    prompt.tokens = Some(counts.iter().fold(0, |sum, n| sum.saturating_add(*n)));
    Ok(())
}

/// Returns the part of a mixture that holds a ticket: each part has as many tickets as its weight.
fn part_at<'m, 'a>(
    parts: &'m [(&'a Part, Maker<'a>)],
    mut ticket: u64,
) -> Result<(&'a Part, &'m Maker<'a>), PromptError> {
    for (part, maker) in parts {
        let weight = u64::from(part.weight);
        if ticket < weight {
            return Ok((part, maker));
        }
        ticket -= weight;
    }
    let why = "a mixture without weights cannot be drawn from";
    Err(PromptError::wrong(why.to_owned()))
}

fn draw_count(draws: &mut Draws, count: &Count) -> u32 {
    let (from, to) = count.ends();
    if from == to {
        from
    } else {
        draws.between(u64::from(from), u64::from(to)) as u32
    }
}

/// Shuffles items (Fisher and Yates, Durstenfeld's form).
fn shuffle<T>(items: &mut [T], draws: &mut Draws) {
    for i in (1..items.len()).rev() {
        items.swap(i, draws.below(i as u64 + 1) as usize);
    }
}
