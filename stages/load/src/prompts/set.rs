//! The prompts of a cell, and the table made of them.
//!
//! Measured prompt `i` is a function of the experiment's seed, the workload's content, the
//! replicate coordinates and `i`, and of nothing else; so a longer set begins with the shorter
//! one, and cells that ask for equally many requests have identical `prompts` artifacts.
//! Warm-up prompts come from a stream of their own and never equal a measured one. With
//! sessions the same holds of session `s`: its user messages and think times are drawn here,
//! the model's answers join them while the load runs.

use std::collections::BTreeSet;

use artifacts::{Column, Digest, Table, TableError};

use super::counter::{Counter, FileCounter};
use super::maker::{Draft, Maker};
use crate::random::{Origin, Stream};
use crate::rows::Phase;
use crate::workload::{OutputMode, Think, ThinkDrawn, Tokenizer, Turns, TurnsDrawn, Workload};

/// One prompt with what is asked of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// Warm-up or measured.
    pub phase: Phase,
    /// Its place among the prompts of its phase.
    pub index: u64,
    /// The session it belongs to, if any.
    pub session: Option<u64>,
    /// Its turn within the session, from 1, if any.
    pub turn: Option<u32>,
    /// How long its user thinks before sending it, after the answer to the turn before, ns.
    pub think_ns: u64,
    /// The text; of a session's turn, what the user says in it.
    pub text: String,
    /// Its length in tokens, where something counted them.
    pub tokens: Option<u32>,
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

/// What the lengths of prompts were counted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthSource {
    /// Tokens, by the tokenize endpoint of the server under load.
    ServerTokenizer,
    /// Tokens, by the tokenize endpoint of the server under load, of what its chat template makes
    /// of a prompt.
    ServerTemplate,
    /// Tokens, by a `tokenizer.json`.
    TokenizerFile,
    /// Words.
    Words,
    /// Unicode scalar values.
    Characters,
    /// Nothing: the texts were given.
    Given,
}

impl LengthSource {
    /// Returns the word used in tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::ServerTokenizer => "server-tokenizer",
            Self::ServerTemplate => "server-template",
            Self::TokenizerFile => "tokenizer-file",
            Self::Words => "words",
            Self::Characters => "characters",
            Self::Given => "given",
        }
    }
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many requests; of sessions the last may be cut short.
    Requests(usize),
    /// So many whole sessions.
    Sessions(usize),
}

/// The prompts of one cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptSet {
    /// Those sent before measuring.
    pub warmup: Vec<Prompt>,
    /// Those measured, session by session.
    pub measured: Vec<Prompt>,
    /// What their lengths were counted with.
    pub length_source: LengthSource,
    /// The digest of the tokenizer that counted, or the fingerprint of the server's.
    pub tokenizer: Option<String>,
}

impl PromptSet {
    /// Makes the prompts of a workload: `warmup` and `measured` many.
    ///
    /// # Errors
    /// If a file cannot be read or holds too little, warm-up prompts that differ from the
    /// measured ones cannot be found, or the workload's tokenizer is the server's.
    pub fn generate(
        workload: &Workload,
        origin: &Origin,
        warmup: usize,
        measured: usize,
    ) -> Result<Self, PromptError> {
        Self::with_counter(workload, origin, warmup, Amount::Requests(measured), None)
    }

    /// Makes the prompts of a workload; `server` counts where its tokenizer is to count.
    ///
    /// # Errors
    /// As [`PromptSet::generate`].
    pub(crate) fn with_counter(
        workload: &Workload,
        origin: &Origin,
        warmup: usize,
        amount: Amount,
        server: Option<&dyn Counter>,
    ) -> Result<Self, PromptError> {
        let file = match &workload.tokenizer {
            Some(Tokenizer::File(file)) => Some(FileCounter::open(&file.file, file.digest.as_deref())?),
            _ => None,
        };
        let counter: Option<&dyn Counter> = match &workload.tokenizer {
            None => None,
            Some(Tokenizer::File(_)) => file.as_ref().map(|f| f as &dyn Counter),
            Some(Tokenizer::Server(_)) => Some(server.ok_or_else(|| {
                PromptError("the server's tokenizer is to count, and there is no server here".to_owned())
            })?),
        };
        let content = content_of(workload);
        let stream = |what: &str| origin.stream(&format!("load {what}"), &content);
        let (Amount::Requests(needed) | Amount::Sessions(needed)) = amount;
        let order = stream("order v1");
        let maker = Maker::new(&workload.prompts, (warmup + needed) as u64, counter, &order)?;
        let draft = |phase, index| Draft::new(phase, index, &workload.output);
        let own = stream("prompts v1 measured");
        let (measured, used) = match &workload.sessions {
            None => {
                let one = |i: u64| maker.make(draft(Phase::Measured, i), &own, (i, i));
                ((0..needed as u64).map(one).collect::<Result<Vec<_>, _>>()?, needed as u64)
            }
            Some(_) => sessions(workload, &maker, counter, amount, &own, &stream("sessions v1"), &order)?,
        };
        let taken: BTreeSet<&str> = measured.iter().map(|p| p.text.as_str()).collect();
        let own = stream("prompts v1 warm-up");
        let mut prompts = Vec::with_capacity(warmup);
        let mut draw = 0;
        while prompts.len() < warmup {
            let index = prompts.len() as u64;
            let prompt = maker.make(draft(Phase::Warmup, index), &own, (draw, used + draw))?;
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
        Ok(Self {
            warmup: prompts,
            measured,
            length_source: maker.length_source(),
            tokenizer: counter.map(|c| c.identity().to_owned()),
        })
    }

    /// Returns the sessions as ranges of measured prompts; `None` if the workload has none.
    pub(crate) fn sessions(&self) -> Option<Vec<std::ops::Range<usize>>> {
        self.measured.first()?.session?;
        let groups = self.measured.chunk_by(|a, b| a.session == b.session);
        let mut from = 0;
        let range = |group: &[Prompt]| {
            from += group.len();
            from - group.len()..from
        };
        Some(groups.map(range).collect())
    }

    /// Returns the set as a table: one row a prompt, measured ones first.
    ///
    /// # Errors
    /// Never for a set made here.
    pub fn table(&self) -> Result<Table, TableError> {
        let all: Vec<&Prompt> = self.measured.iter().chain(&self.warmup).collect();
        let text = |f: &dyn Fn(&Prompt) -> Option<String>| all.iter().map(|p| f(p)).collect::<Vec<_>>();
        let int = |f: &dyn Fn(&Prompt) -> Option<i64>| all.iter().map(|p| f(p)).collect::<Vec<_>>();
        let length_unit = match self.length_source {
            LengthSource::ServerTokenizer | LengthSource::ServerTemplate | LengthSource::TokenizerFile => {
                "tokens"
            }
            LengthSource::Characters => "characters",
            LengthSource::Words | LengthSource::Given => "words",
        };
        let mut metadata = vec![("length_unit", length_unit), ("length_source", self.length_source.word())];
        metadata.extend(self.tokenizer.as_deref().map(|tokenizer| ("tokenizer", tokenizer)));
        Table::with_metadata(
            vec![
                Column::text("phase", text(&|p| Some(p.phase.word().to_owned())))
                    .describe("`warmup` or `measured`"),
                Column::int("prompt_index", int(&|p| Some(p.index as i64)))
                    .describe("place among the prompts of its phase"),
                Column::int("session_id", int(&|p| p.session.map(|s| s as i64)))
                    .describe("the session of a multi-turn workload; null otherwise"),
                Column::int("turn", int(&|p| p.turn.map(i64::from)))
                    .describe("the turn within its session, from 1; null without sessions"),
                Column::int("think_ns", int(&|p| p.turn.map(|_| p.think_ns as i64)))
                    .unit("ns")
                    .describe("how long its user thinks after the answer before; null without sessions"),
                Column::text("prompt_digest", text(&|p| Some(p.digest().to_string())))
                    .describe("BLAKE3 of the text"),
                Column::int("requested_output_tokens", int(&|p| Some(i64::from(p.output_tokens))))
                    .unit("tok")
                    .describe("output tokens asked for"),
                Column::text("output_mode", text(&|p| Some(mode_word(p.output_mode).to_owned())))
                    .describe("`cap`: at most so many; `exact`: end of sequence ignored"),
                Column::int("tokens", int(&|p| p.tokens.map(i64::from)))
                    .unit("tok")
                    .describe("its length as the workload's tokenizer counts it, with the chat template if `length_source` is \
                         `server-template`; null without a tokenizer"),
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
                Column::text("text", text(&|p| Some(p.text.clone())))
                    .describe("the prompt; of a session's turn, what the user says in it"),
            ],
            &metadata,
        )
    }
}

/// Returns what prompts depend on of a workload: not its description, not where files lie.
fn content_of(workload: &Workload) -> serde_json::Value {
    let mut content = workload.clone();
    content.description = None;
    if let Some(Tokenizer::File(tokenizer)) = &mut content.tokenizer {
        tokenizer.file.clear();
    }
    serde_json::to_value(&content).expect("a workload always serializes")
}

/// Makes sessions until there are enough; returns their turns and how many sessions there are.
fn sessions(
    workload: &Workload,
    maker: &Maker<'_>,
    counter: Option<&dyn Counter>,
    amount: Amount,
    first: &Stream,
    later: &Stream,
    order: &Stream,
) -> Result<(Vec<Prompt>, u64), PromptError> {
    let settings = workload.sessions.as_ref().expect("called for workloads with sessions");
    let own;
    let follow_up = match &settings.follow_up {
        Some(source) => {
            own = Maker::new(source, 0, counter, order)?;
            &own
        }
        None => maker,
    };
    let mut prompts: Vec<Prompt> = Vec::new();
    let mut session = 0;
    loop {
        match amount {
            Amount::Requests(n) if prompts.len() >= n => {
                prompts.truncate(n);
                break;
            }
            Amount::Sessions(n) if session >= n as u64 => break,
            Amount::Requests(_) | Amount::Sessions(_) => {}
        }
        let mut draws = later.at(session);
        let recorded = if settings.follow_up.is_none() { maker.conversation(session)? } else { None };
        let turns = turns(settings.turns.as_ref(), &mut draws);
        let turns = match (turns, recorded) {
            (Some(turns), Some(recorded)) => turns.min(recorded),
            (Some(turns), None) => turns,
            (None, recorded) => recorded.unwrap_or(1),
        };
        for turn in 1..=turns {
            let mut draft = Draft::new(Phase::Measured, prompts.len() as u64, &workload.output);
            (draft.session, draft.turn) = (Some(session), Some(turn));
            let prompt = if turn == 1 {
                maker.make(draft, first, (session, session))?
            } else {
                draft.think_ns = think(&settings.think_time, &mut draws);
                follow_up.make_turn(draft, &mut draws, later, session)?
            };
            prompts.push(prompt);
        }
        session += 1;
    }
    let whole = prompts.last().and_then(|p| p.session).map_or(0, |s| s + 1);
    Ok((prompts, whole))
}

fn turns(turns: Option<&Turns>, draws: &mut crate::random::Draws) -> Option<u32> {
    Some(match turns? {
        Turns::Fixed(n) => *n,
        Turns::Range(range) => draws.between(u64::from(range.from), u64::from(range.to)) as u32,
        // Inversion: the number of failures before the first success, with 1/mean for success.
        Turns::Drawn(TurnsDrawn::Geometric(mean)) if *mean <= 1.0 => 1,
        Turns::Drawn(TurnsDrawn::Geometric(mean)) => {
            let more = draws.exponential() / -(1.0 - 1.0 / mean).ln();
            1 + more.floor().min(9_999.0) as u32
        }
    })
}

fn think(think: &Think, draws: &mut crate::random::Draws) -> u64 {
    match think {
        Think::Fixed(span) => span.nanoseconds(),
        Think::Range(range) => draws.between(range.from.nanoseconds(), range.to.nanoseconds()),
        Think::Drawn(ThinkDrawn::Exponential(mean)) => {
            (draws.exponential() * mean.nanoseconds() as f64).round() as u64
        }
    }
}

fn mode_word(mode: OutputMode) -> &'static str {
    match mode {
        OutputMode::Cap => "cap",
        OutputMode::Exact => "exact",
    }
}
