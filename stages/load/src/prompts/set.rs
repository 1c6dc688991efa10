//! The prompts of a cell, and the table made from them.
//!
//! Measured prompt `i` depends only on the experiment's seed, the workload's content, the replicate coordinates and
//! `i`. A longer set therefore begins with the shorter one, and cells with the same number of requests have identical
//! `prompts` artifacts. Warm-up prompts come from a separate stream and never equal a measured one. For sessions, the
//! same applies to session `s`: its user messages and think times are drawn here, and the model's answers are added
//! while the load runs.
//!
//! A set is drawn once and stored in a file, from which its prompts are read. In memory it takes eight bytes per
//! prompt, and 16 more per session. While it is drawn, it takes 16 more per prompt if there are warm-up prompts, and
//! the source's data: a complete pack, corpus, dataset or trace.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use artifacts::{Digest, Table, TableError};
pub use contract::LengthSource;
use contract::{Phase, PromptRow, Row as _};
use serde::{Deserialize, Serialize};

use super::context::Context;
use super::counter::{Counter, FileCounter};
use super::error::PromptError;
use super::maker::{Draft, Maker};
use super::repeated::alike;
use super::spool::{Spool, Spooled};
use pipeline::sources::NamedFiles;

use crate::random::{Origin, Stream};
use crate::workload::{
    DrawnBy, Images, OutputMode, Think, ThinkDrawn, Tokenizer, Turns, TurnsDrawn, Workload,
};

/// One prompt with its request to the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    /// Warm-up or measured.
    pub phase: Phase,
    /// Its index among the prompts of its phase.
    pub index: u64,
    /// The session it belongs to, if any.
    pub session: Option<u64>,
    /// Its turn within the session, from 1, if any.
    pub turn: Option<u32>,
    /// How long its user thinks after the previous answer, ns.
    pub think_ns: u64,
    /// The text; for a session's turn, the user's message.
    pub text: String,
    /// Its length in tokens, if counted.
    pub tokens: Option<u32>,
    /// The number of requested output tokens.
    pub output_tokens: u32,
    /// Whether the number is a cap or exact.
    pub output_mode: OutputMode,
    /// The number of its shared prefix, if any.
    pub prefix: Option<u32>,
    /// The part of the mixture that it comes from, if any.
    pub part: Option<String>,
    /// The requested model, if not the server's.
    pub model: Option<String>,
    /// Its images, if any.
    pub images: Option<Images>,
    /// The texts, if one request has several; otherwise empty. In `text`, a line break is between any two.
    pub batch: Vec<BatchText>,
}

/// One of several texts in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchText {
    /// Where it ends in the text of the prompt, in bytes.
    pub end: usize,
    /// Its length in tokens, if counted.
    pub tokens: Option<u32>,
}

impl Prompt {
    /// Returns the digest of the text's bytes.
    pub fn digest(&self) -> Digest {
        Digest::of(self.text.as_bytes())
    }

    /// Returns the texts, if one request has several.
    pub fn batched(&self) -> Option<Vec<&str>> {
        let mut start = 0;
        let texts = self.batch.iter().map(|text| {
            let this = &self.text[start..text.end];
            start = text.end + LINE_BREAK.len_utf8();
            this
        });
        (!self.batch.is_empty()).then(|| texts.collect())
    }

    /// Returns the tokens that must fit into a server's context at once, if counted: those of the longest text.
    pub(crate) fn tokens_at_once(&self) -> Option<u32> {
        let longest = self.batch.iter().filter_map(|text| text.tokens).max();
        longest.or(self.tokens)
    }
}

/// Separates the texts of a request.
pub(super) const LINE_BREAK: char = '\n';

/// The amount to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Amount {
    /// This many requests. The last session may be cut short.
    Requests(usize),
    /// This many complete sessions.
    Sessions(usize),
}

/// The prompts of one cell, in an unnamed file that disappears with the last clone of the set.
#[derive(Clone, Debug)]
pub struct PromptSet {
    /// Measured prompts, then those of the warm-up.
    spooled: Spooled,
    warmup: usize,
    /// The sessions as ranges of measured prompts.
    sessions: Option<Arc<[Range<usize>]>>,
    /// Whether any prompt demands an exact length of its answer.
    pub(crate) exact: bool,
    /// The context that they take.
    pub(crate) context: Context,
    /// The numbers of prompts or conversations in a file that has fewer than are sent, and of those sent.
    pub(super) few: Option<(usize, u64)>,
    /// The number of measured prompts that are the same as an earlier one. Turns of sessions do not count.
    pub(super) alike: usize,
    /// What counted their lengths.
    pub length_source: LengthSource,
    /// The digest of the tokenizer that counted, or the fingerprint of the server's.
    pub tokenizer: Option<String>,
}

impl PromptSet {
    /// Makes `warmup` and `measured` prompts of a workload, and stores them in the system's temporary folder.
    ///
    /// # Errors
    /// If a file cannot be read or has too few prompts, warm-up prompts that differ from the measured ones cannot be
    /// found, the workload's tokenizer is the server's, or the disk refuses.
    pub fn generate(
        workload: &Workload,
        origin: &Origin,
        warmup: usize,
        measured: usize,
    ) -> Result<Self, PromptError> {
        Self::with_counter(
            workload,
            origin,
            warmup,
            Amount::Requests(measured),
            None,
            &std::env::temp_dir(),
            &NamedFiles::default(),
        )
    }

    /// Makes the prompts of a workload and stores them in `folder`. `server` counts if the workload's tokenizer is the
    /// server's, and `files` has the files that the workload names by digest.
    ///
    /// # Errors
    /// As [`PromptSet::generate`].
    pub(crate) fn with_counter(
        workload: &Workload,
        origin: &Origin,
        warmup: usize,
        amount: Amount,
        server: Option<&dyn Counter>,
        folder: &Path,
        files: &NamedFiles,
    ) -> Result<Self, PromptError> {
        let file = match &workload.tokenizer {
            Some(Tokenizer::File(file)) => Some(FileCounter::open(
                &file.file,
                file.digest.as_deref(),
                files,
            )?),
            _ => None,
        };
        let counter: Option<&dyn Counter> = match &workload.tokenizer {
            None => None,
            Some(Tokenizer::File(_)) => file.as_ref().map(|f| f as &dyn Counter),
            Some(Tokenizer::Server(_)) => Some(server.ok_or_else(|| {
                PromptError::wrong(
                    "the server's tokenizer must count the tokens, but no server is available here"
                        .to_owned(),
                )
            })?),
        };
        let content = content_of(workload);
        let stream = |what: &str| origin.stream(&format!("load {what}"), &content);
        let (Amount::Requests(needed) | Amount::Sessions(needed)) = amount;
        let order = stream("order v1");
        // How many sessions a number of requests takes is known only when they are drawn.
        let needed_in_all = match (&workload.sessions, amount) {
            (Some(_), Amount::Requests(_)) => 0,
            _ => (warmup + needed) as u64 * u64::from(workload.batch_size),
        };
        let maker = Maker::new(&workload.prompts, needed_in_all, counter, &order, files)?;
        let draft = |phase, index| Draft::new(phase, index, workload);
        let own = stream("prompts v1 measured");
        let mut drawn = Drawn::new(folder, (warmup + needed) as u64)?;
        let mut ranges = None;
        match &workload.sessions {
            None => {
                for i in 0..needed as u64 {
                    drawn.push(&maker.make(draft(Phase::Measured, i), &own, (i, i))?)?;
                }
            }
            Some(_) => {
                let later = stream("sessions v1");
                ranges = Some(sessions(
                    workload, &maker, counter, amount, &own, &later, &order, files, &mut drawn,
                )?);
            }
        }
        let used = ranges.as_ref().map_or(needed, Vec::len) as u64;
        drawn.taken.sort_unstable();
        let alike = ranges.as_ref().map_or_else(|| alike(&drawn.taken), |_| 0);
        let (per_request, most) = (u64::from(workload.batch_size), 1000 + 2 * warmup as u64);
        let own = stream("prompts v1 warm-up");
        let (mut count, mut draw, mut again) = (0, 0, false);
        while count < warmup {
            let prompt = maker.make(
                draft(Phase::Warmup, count as u64),
                &own,
                (draw, used + draw),
            )?;
            // A file whose prompts may be sent again has none but these.
            again |= (maker.repeats_after())
                .is_some_and(|entries| entries <= used * per_request || draw >= entries.min(most));
            if again || drawn.taken.binary_search(&fingerprint(&prompt)).is_err() {
                drawn.push(&prompt)?;
                count += 1;
            }
            draw += 1;
            if draw > most && !again {
                return Err(PromptError::wrong(
                    "cannot find warm-up prompts that differ from the measured ones; make prompts \
                     longer, or set `warmup: 0`"
                        .to_owned(),
                ));
            }
        }
        Ok(Self {
            spooled: drawn.spool.finish().map_err(|e| unkept(folder, &e))?,
            warmup,
            sessions: ranges.map(Arc::from),
            exact: drawn.exact,
            context: drawn.context,
            few: maker.few((used + u64::from(again) * warmup as u64) * per_request),
            alike,
            length_source: maker.length_source(),
            tokenizer: counter.map(|c| c.identity().to_owned()),
        })
    }

    /// Returns the number of prompts in a phase.
    pub fn count(&self, phase: Phase) -> usize {
        match phase {
            Phase::Warmup => self.warmup,
            Phase::Measured => self.spooled.len() - self.warmup,
        }
    }

    /// Reads the prompt of the request at a place of the plan: warm-up first, then measured.
    ///
    /// # Errors
    /// If the disk refuses.
    pub(crate) fn at(&self, place: usize) -> io::Result<Prompt> {
        let measured = self.count(Phase::Measured);
        self.spooled
            .get(place.checked_sub(self.warmup).unwrap_or(measured + place))
    }

    /// Returns the prompts of a phase, in memory: for small sets.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn of(&self, phase: Phase) -> io::Result<Vec<Prompt>> {
        let from = match phase {
            Phase::Warmup => 0,
            Phase::Measured => self.warmup,
        };
        (from..from + self.count(phase))
            .map(|place| self.at(place))
            .collect()
    }

    /// Returns the sessions as ranges of measured prompts; `None` if the workload has none.
    pub(crate) fn sessions(&self) -> Option<&[Range<usize>]> {
        self.sessions.as_deref()
    }

    /// Returns the set as a table in memory: one row per prompt, measured ones first.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn table(&self) -> io::Result<Table> {
        let all: Vec<Prompt> = self
            .of(Phase::Measured)?
            .into_iter()
            .chain(self.of(Phase::Warmup)?)
            .collect();
        self.table_of(&all).map_err(io::Error::other)
    }

    /// Returns some of the set's prompts as a table, in the given order.
    ///
    /// # Errors
    /// Never for prompts made here.
    pub(crate) fn table_of(&self, all: &[Prompt]) -> Result<Table, TableError> {
        let length_unit = match self.length_source {
            LengthSource::ServerTokenizer
            | LengthSource::ServerTemplate
            | LengthSource::TokenizerFile => "tokens",
            LengthSource::Characters => "characters",
            LengthSource::Words | LengthSource::Given => "words",
        };
        let mut metadata = vec![
            ("length_unit", length_unit),
            ("length_source", self.length_source.word()),
        ];
        metadata.extend(
            self.tokenizer
                .as_deref()
                .map(|tokenizer| ("tokenizer", tokenizer)),
        );
        let rows: Vec<PromptRow> = all.iter().map(row).collect();
        Table::with_metadata(PromptRow::columns(&rows), &metadata)
    }
}

/// Prompts that come one after the other from a larger set, which were drawn elsewhere: the measured ones, then those of
/// the warm-up.
pub(crate) struct Gathered {
    spool: Spool,
    folder: PathBuf,
    warmup: usize,
    sessions: Option<Vec<Range<usize>>>,
    last: Option<u64>,
}

impl Gathered {
    /// Begins a set whose file is in `folder`.
    ///
    /// # Errors
    /// If the disk refuses.
    pub(crate) fn new(folder: &Path, in_sessions: bool) -> Result<Self, PromptError> {
        Ok(Self {
            spool: Spool::new(folder).map_err(|e| unkept(folder, &e))?,
            folder: folder.to_owned(),
            warmup: 0,
            sessions: in_sessions.then(Vec::new),
            last: None,
        })
    }

    /// Adds a prompt.
    ///
    /// # Errors
    /// If the disk refuses.
    pub(crate) fn push(&mut self, prompt: &Prompt) -> Result<(), PromptError> {
        let place = self.spool.len();
        match (prompt.phase, &mut self.sessions) {
            (Phase::Warmup, _) => self.warmup += 1,
            (Phase::Measured, None) => {}
            (Phase::Measured, Some(sessions)) => match sessions.last_mut() {
                Some(session) if self.last == prompt.session => session.end = place + 1,
                _ => sessions.push(place..place + 1),
            },
        }
        self.last = prompt.session;
        self.spool
            .push(prompt)
            .map_err(|e| unkept(&self.folder, &e))
    }

    /// Returns the set, which does not record the counter of its lengths.
    ///
    /// # Errors
    /// If the disk refuses.
    pub(crate) fn finish(self) -> Result<PromptSet, PromptError> {
        Ok(PromptSet {
            spooled: (self.spool.finish()).map_err(|e| unkept(&self.folder, &e))?,
            warmup: self.warmup,
            sessions: self.sessions.map(Arc::from),
            exact: false,
            context: Context::default(),
            few: None,
            alike: 0,
            length_source: LengthSource::Given,
            tokenizer: None,
        })
    }
}

fn row(prompt: &Prompt) -> PromptRow {
    PromptRow {
        phase: prompt.phase,
        prompt_index: prompt.index as i64,
        session_id: prompt.session.map(|session| session as i64),
        turn: prompt.turn.map(i64::from),
        think_ns: prompt.turn.map(|_| prompt.think_ns as i64),
        prompt_digest: prompt.digest().to_string(),
        requested_output_tokens: i64::from(prompt.output_tokens),
        output_mode: prompt.output_mode,
        tokens: prompt.tokens.map(i64::from),
        words: prompt.text.split_whitespace().count() as i64,
        characters: prompt.text.chars().count() as i64,
        prefix: prompt.prefix.map(i64::from),
        part: prompt.part.clone(),
        text: prompt.text.clone(),
    }
}

/// Returns the parts of a workload that prompts depend on: not its description, nor the path of its tokenizer.
fn content_of(workload: &Workload) -> serde_json::Value {
    let mut content = workload.clone();
    content.description = None;
    if let Some(Tokenizer::File(tokenizer)) = &mut content.tokenizer {
        tokenizer.file.clear();
    }
    let mut content = serde_json::to_value(&content).expect("a workload always serializes");
    if workload.drawn_by == DrawnBy::Prompts
        && let Some(settings) = content.as_object_mut()
    {
        let decides = |key: &str| ["prompts", "sessions", "documents", "tokenizer"].contains(&key);
        settings.retain(|key, _| decides(key));
    }
    content
}

/// A set of prompts while it is drawn.
struct Drawn {
    spool: Spool,
    folder: PathBuf,
    /// The planned number of prompts; with sessions, at least this many.
    planned: u64,
    /// The fingerprints of measured prompts, from which warm-up prompts must differ.
    taken: Vec<u128>,
    exact: bool,
    context: Context,
}

impl Drawn {
    fn new(folder: &Path, planned: u64) -> Result<Self, PromptError> {
        let spool = Spool::new(folder).map_err(|e| {
            let message = format!(
                "cannot store the prompts in {}: {e}; set `TMPDIR` to a folder that can be written",
                folder.display()
            );
            PromptError::caused(message, &e)
        })?;
        Ok(Self {
            spool,
            folder: folder.to_owned(),
            planned,
            taken: Vec::new(),
            exact: false,
            context: Context::default(),
        })
    }

    fn push(&mut self, prompt: &Prompt) -> Result<(), PromptError> {
        if prompt.phase == Phase::Measured {
            self.taken.push(fingerprint(prompt));
        }
        self.exact |= prompt.output_mode == OutputMode::Exact;
        self.context = self.context.with(prompt);
        self.spool
            .push(prompt)
            .map_err(|e| unkept(&self.folder, &e))?;
        match self.spool.len() {
            SAMPLED => self.check_room(),
            _ => Ok(()),
        }
    }

    /// Checks that there is room for all prompts, from the size of the first ones. A full disk harms more than this
    /// run.
    fn check_room(&self) -> Result<(), PromptError> {
        let Ok(disk) = rustix::fs::statvfs(&self.folder) else {
            return Ok(());
        };
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let needed = self.spool.bytes().saturating_mul(self.planned) / SAMPLED as u64;
        if needed <= free / 2 {
            return Ok(());
        }
        let size = |bytes: u64| match bytes {
            1_000_000_000.. => format!("{:.1} GB", bytes as f64 / 1e9),
            _ => format!("{:.1} MB", bytes as f64 / 1e6),
        };
        Err(PromptError::machine(format!(
            "the prompts of {} requests need about {}, and {} has {} free; measure fewer requests, or make room \
             there (without --out it is the folder that TMPDIR names)",
            self.planned,
            size(needed),
            self.folder.display(),
            size(free)
        )))
    }
}

/// The number of prompts after which their size is known well enough.
const SAMPLED: usize = 1000;

fn unkept(folder: &Path, error: &io::Error) -> PromptError {
    let folder = folder.display();
    PromptError::caused(
        format!("cannot store the prompts in {folder}: {error}"),
        error,
    )
}

/// Returns the fingerprint of a text: half of its digest.
fn fingerprint(prompt: &Prompt) -> u128 {
    let digest = prompt.digest();
    let (half, _) = digest
        .as_bytes()
        .split_first_chunk()
        .expect("a digest is longer than half of it");
    u128::from_le_bytes(*half)
}

/// Makes sessions until there are enough; returns them as ranges of prompts.
#[expect(
    clippy::too_many_arguments,
    reason = "a part of the drawing, separate because of its length"
)]
fn sessions(
    workload: &Workload,
    maker: &Maker<'_>,
    counter: Option<&dyn Counter>,
    amount: Amount,
    first: &Stream,
    later: &Stream,
    order: &Stream,
    files: &NamedFiles,
    drawn: &mut Drawn,
) -> Result<Vec<Range<usize>>, PromptError> {
    let settings = workload
        .sessions
        .as_ref()
        .expect("called for workloads with sessions");
    let own;
    let follow_up = match &settings.follow_up {
        Some(source) => {
            own = Maker::new(source, 0, counter, order, files)?;
            &own
        }
        None => maker,
    };
    let (requests, whole) = match amount {
        Amount::Requests(n) => (n, usize::MAX),
        Amount::Sessions(n) => (usize::MAX, n),
    };
    let mut ranges = Vec::new();
    while drawn.spool.len() < requests && ranges.len() < whole {
        let session = ranges.len() as u64;
        let mut draws = later.at(session);
        let recorded = if settings.follow_up.is_none() {
            maker.conversation(session)?
        } else {
            None
        };
        let turns = turns(settings.turns.as_ref(), &mut draws);
        let turns = match (turns, recorded) {
            (Some(turns), Some(recorded)) => turns.min(recorded),
            (Some(turns), None) => turns,
            (None, recorded) => recorded.unwrap_or(1),
        };
        let from = drawn.spool.len();
        for turn in 1..=turns {
            let mut draft = Draft::new(Phase::Measured, drawn.spool.len() as u64, workload);
            (draft.session, draft.turn) = (Some(session), Some(turn));
            let prompt = if turn == 1 {
                maker.make(draft, first, (session, session))?
            } else {
                draft.think_ns = think(&settings.think_time, &mut draws);
                follow_up.make_turn(draft, &mut draws, later, session)?
            };
            // Turns of the last session beyond the number of requests are dropped.
            if drawn.spool.len() < requests {
                drawn.push(&prompt)?;
            }
        }
        ranges.push(from..drawn.spool.len());
    }
    Ok(ranges)
}

fn turns(turns: Option<&Turns>, draws: &mut crate::random::Draws) -> Option<u32> {
    Some(match turns? {
        Turns::Fixed(n) => *n,
        Turns::Range(range) => draws.between(u64::from(range.from), u64::from(range.to)) as u32,
        // Inversion: the number of failures before the first success, whose probability is 1/mean.
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
