//! Checks while planning that the files behind a workload can be read, and have enough prompts for a cell.

use std::cell::Cell;
use std::fs::File;
use std::io::{BufReader, Read as _};

use pipeline::sources::NamedFiles;
use pipeline::stage::Library;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Deserializer, Value, json};

use super::error::PromptError;
use super::files::{not_text, packed, read_corpus, read_dataset, read_pack, recorded};
use crate::trace::read_trace;
use crate::workload::{PromptSource, Tokenizer, Turns, WhenShort, Workload};

/// A larger file is read while planning only until it has enough prompts, in bytes.
const LARGE: u64 = 16 << 20;

/// What a cell takes from the files of its workload.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Demand {
    /// The number of requests to measure, if it limits the cell.
    pub(crate) requests: Option<u64>,
    /// The number of sessions to measure, if it limits the cell.
    pub(crate) sessions: Option<u64>,
    /// The number of requests of the warm-up.
    pub(crate) warmup: u64,
}

/// Why a cell cannot get its prompts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoSupply {
    /// A file cannot be used: the keys of the workload that lead to it, the reason and the remedy.
    Unusable {
        route: Vec<String>,
        message: String,
        hint: String,
    },
    /// A file has fewer entries than the cell needs.
    Short {
        /// One sentence.
        message: String,
        /// The most requests or sessions that the file allows.
        most: u64,
        /// How to allow repeats, if the source can repeat.
        repeat: Option<String>,
    },
}

/// What planning knows about one file of prompts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Holds {
    /// Why it cannot be used.
    wrong: Option<String>,
    /// The number of its entries; in a large file, of those that were read.
    entries: u64,
    /// The number of their turns, with the most turns that a session may take.
    turns: u64,
}

/// Returns what keeps a cell from its prompts. Each file is read once for a plan.
pub(crate) fn check(workload: &Workload, demand: Demand, library: &dyn Library) -> Vec<NoSupply> {
    let mut lacks = Vec::new();
    let route = vec!["prompts".to_owned()];
    source(
        &workload.prompts,
        workload,
        demand,
        library,
        route,
        &mut lacks,
    );
    let sessions = workload.sessions.as_ref();
    if let Some(later) = sessions.and_then(|sessions| sessions.follow_up.as_ref()) {
        let route = vec!["sessions".to_owned(), "follow-up".to_owned()];
        source(
            later,
            workload,
            Demand::default(),
            library,
            route,
            &mut lacks,
        );
    }
    if let Some(Tokenizer::File(tokenizer)) = &workload.tokenizer
        && let Some(digest) = &tokenizer.digest
    {
        let question = json!(["tokenizer", digest]).to_string();
        let holds = once(library, &question, |files| {
            let wrong = not_a_tokenizer(digest, files);
            Holds {
                wrong,
                ..Holds::default()
            }
        });
        let route = ["tokenizer", "file"].map(str::to_owned).to_vec();
        let hint = "name the `tokenizer.json` of the model, as Hugging Face publishes it";
        lacks.extend(holds.unusable(route, hint));
    }
    lacks
}

/// Asks the library, so that a plan reads a file once for all cells.
fn once(library: &dyn Library, question: &str, read: impl Fn(&NamedFiles) -> Holds) -> Holds {
    let answer = library.once(question, &mut || {
        serde_json::to_value(read(&library.files())).expect("facts always serialize")
    });
    serde_json::from_value(answer).unwrap_or_default()
}

impl Holds {
    fn unusable(&self, route: Vec<String>, hint: &str) -> Option<NoSupply> {
        let hint = hint.to_owned();
        self.wrong.clone().map(|message| NoSupply::Unusable {
            route,
            message,
            hint,
        })
    }
}

/// Checks one source and, for a mixture, its parts.
fn source(
    source: &PromptSource,
    workload: &Workload,
    demand: Demand,
    library: &dyn Library,
    mut route: Vec<String>,
    lacks: &mut Vec<NoSupply>,
) {
    let (form, when_short, entries, remedy) = match source {
        PromptSource::Words(_) | PromptSource::SharedPrefix(_) => return,
        PromptSource::Mixture(parts) => {
            for part in parts {
                self::source(
                    &part.prompts,
                    workload,
                    demand,
                    library,
                    route.clone(),
                    lacks,
                );
            }
            return;
        }
        PromptSource::Pack(pack) => ("pack", pack.when_short, "prompts", PACK),
        PromptSource::Dataset(dataset) => ("dataset", dataset.when_short, "conversations", DATASET),
        PromptSource::Corpus(_) => ("corpus", WhenShort::Repeat, "words", CORPUS),
        PromptSource::Trace(_) => ("trace", WhenShort::Refuse, "requests", TRACE),
    };
    // The warm-up takes the first rows of a trace again.
    let warmup = if form == "trace" { 0 } else { demand.warmup };
    let needed = needed(workload, demand, warmup);
    let most_turns = most_turns(workload);
    let question = json!([form, source, needed, most_turns, demand.requests]).to_string();
    let holds = once(library, &question, |files| {
        holds(source, needed, demand.requests, most_turns, files).unwrap_or_else(|e| Holds {
            wrong: Some(e.message),
            ..Holds::default()
        })
    });
    route.extend([form.to_owned(), "file".to_owned()]);
    if let Some(wrong) = holds.unusable(route, remedy) {
        lacks.push(wrong);
        return;
    }
    if when_short == WhenShort::Repeat {
        return;
    }
    let entries = match holds.entries {
        1 => entries.trim_end_matches('s'),
        _ => entries,
    };
    let repeat = || format!("allow repeats with `when-short: repeat` in the workload's `{form}`");
    let repeat = (form != "trace").then(repeat);
    let there = holds.entries;
    if there < needed {
        let and = match warmup {
            0 => String::new(),
            n => format!(", {n} of them for the warm-up"),
        };
        lacks.push(NoSupply::Short {
            message: format!(
                "the {form} holds {there} {entries}, but the cell needs {needed}{and}"
            ),
            most: there.saturating_sub(warmup),
            repeat,
        });
    } else if workload.sessions.is_some()
        && let (Some(requests), Some(_)) = (demand.requests, most_turns)
        && holds.turns < requests
    {
        let turns = holds.turns;
        lacks.push(NoSupply::Short {
            message: format!(
                "the {form} holds {there} {entries} for at most {turns} turns, but the cell needs {requests}"
            ),
            most: turns,
            repeat,
        });
    }
}

/// Returns the number of entries that a cell takes from a file of prompts. From the file of a part of a mixture, it takes
/// fewer, but may take any of as many: request n takes entry n.
fn needed(workload: &Workload, demand: Demand, warmup: u64) -> u64 {
    let counted = match &workload.sessions {
        None => demand.requests,
        Some(_) => demand.sessions,
    };
    counted.map_or(0, |counted| counted.saturating_add(warmup))
}

/// Returns the most turns of a session, unless it has no limit: `u32::MAX` if the conversations of a dataset decide.
fn most_turns(workload: &Workload) -> Option<u32> {
    match workload.sessions.as_ref()?.turns.as_ref() {
        None => Some(u32::MAX),
        Some(Turns::Fixed(turns)) => Some(*turns),
        Some(Turns::Range(range)) => Some(range.to),
        Some(Turns::Drawn(_)) => None,
    }
}

/// Reads the file of a source: completely if it is not large, otherwise until it has enough entries.
fn holds(
    source: &PromptSource,
    needed: u64,
    requests: Option<u64>,
    most_turns: Option<u32>,
    files: &NamedFiles,
) -> Result<Holds, PromptError> {
    let counted = |entries: usize| Holds {
        entries: entries as u64,
        turns: (entries as u64).saturating_mul(u64::from(most_turns.unwrap_or(u32::MAX))),
        wrong: None,
    };
    match source {
        PromptSource::Pack(pack) => {
            let entry = |value: &Value| packed(value).map(|_| Some(1));
            match large(pack.digest.as_deref(), "prompt pack", needed, files, &entry) {
                Some(holds) => holds,
                None => Ok(counted(read_pack(pack, files)?.len())),
            }
        }
        PromptSource::Dataset(dataset) => {
            let most = most_turns.unwrap_or(u32::MAX) as usize;
            let taken = |turns: usize| turns.min(most) as u64;
            let entry = |value: &Value| {
                recorded(value).map(|entry| entry.map(|entry| taken(entry.turns.len())))
            };
            // Turns are counted only in a file that is read to its end.
            let needed = needed.max(requests.unwrap_or_default());
            if let Some(holds) = large(dataset.digest.as_deref(), "dataset", needed, files, &entry)
            {
                return holds;
            }
            let conversations = read_dataset(dataset, files)?;
            let turns = conversations.iter().map(|c| taken(c.turns.len())).sum();
            Ok(Holds {
                turns,
                ..counted(conversations.len())
            })
        }
        PromptSource::Corpus(corpus) => match long_text(corpus.digest.as_deref(), files) {
            Some(read) => read.map(|()| counted(usize::MAX)),
            None => Ok(counted(read_corpus(corpus, files)?.len())),
        },
        PromptSource::Trace(trace) => {
            let read = read_trace(&trace.file, trace.digest.as_deref(), files);
            let (rows, _) = read.map_err(PromptError::wrong)?;
            let used = rows.iter().take(requests.unwrap_or(1) as usize);
            let bare = used.enumerate().find(|(_, row)| row.words(1.0).is_none());
            match bare {
                Some((row, _)) => Err(PromptError::wrong(format!(
                    "request {row} of the trace has no prompt length: `input_tokens`, `input_length` or `input_words`"
                ))),
                None => Ok(counted(rows.len())),
            }
        }
        PromptSource::Words(_) | PromptSource::SharedPrefix(_) | PromptSource::Mixture(_) => {
            Ok(Holds::default())
        }
    }
}

/// Checks the beginning of a text of more than a megabyte, which has enough words; `None` if the text is shorter. An
/// unchanged file of this size is not read again by a plan.
fn long_text(digest: Option<&str>, files: &NamedFiles) -> Option<Result<(), PromptError>> {
    let source = files.source(digest?).ok()?;
    let path = files.place(digest?).ok()?;
    if std::fs::metadata(&path).ok()?.len() < 1 << 20 {
        return None;
    }
    let mut bytes = Vec::new();
    let mut front = File::open(path).ok()?.take(1 << 16);
    front.read_to_end(&mut bytes).ok()?;
    let read = std::str::from_utf8(&bytes);
    // The end of the part may have cut a character.
    let is_text = read.map_or_else(|e| e.error_len().is_none(), |_| true);
    let name = source.path.display().to_string();
    Some(match is_text {
        true => Ok(()),
        false => Err(PromptError::wrong(not_text("corpus", &name, &bytes))),
    })
}

/// Reads the entries of a large file of JSON until there are enough; `None` if the file is to be read completely.
/// `entry` returns the turns of an entry, or `None` if the entry does not count.
fn large(
    digest: Option<&str>,
    what: &str,
    needed: u64,
    files: &NamedFiles,
    entry: &dyn Fn(&Value) -> Result<Option<u64>, String>,
) -> Option<Result<Holds, PromptError>> {
    let source = files.source(digest?).ok()?;
    let path = files.place(digest?).ok()?;
    if std::fs::metadata(&path).ok()?.len() <= LARGE {
        return None;
    }
    let mut reader = BufReader::new(File::open(path).ok()?);
    let mut first = [b' '];
    while first[0].is_ascii_whitespace() {
        reader.read_exact(&mut first).ok()?;
    }
    let counted = Cell::new((0, 0));
    let front = Front {
        needed: needed.max(1),
        counted: &counted,
        entry,
    };
    let whole = (&first[..]).chain(reader);
    let read = match first[0] {
        b'[' => front.deserialize(&mut Deserializer::from_reader(whole)),
        b'{' => {
            let mut values = Deserializer::from_reader(whole).into_iter::<Value>();
            values.try_for_each(|value| front.take(&value?).map_err(serde_json::Error::custom))
        }
        _ => return None,
    };
    let (entries, turns) = counted.get();
    let name = source.path.display();
    Some(match read {
        // The reader stops with an error as soon as there are enough.
        _ if entries >= needed.max(1) => Ok(Holds {
            wrong: None,
            entries,
            turns,
        }),
        Err(e) => Err(PromptError::wrong(format!("{what} {name}: {e}"))),
        Ok(()) if entries == 0 => Err(PromptError::wrong(format!(
            "{what} {name} holds no prompts"
        ))),
        Ok(()) => Ok(Holds {
            wrong: None,
            entries,
            turns,
        }),
    })
}

/// Reads a list from its front until there are enough entries.
#[derive(Clone, Copy)]
struct Front<'a> {
    needed: u64,
    /// The entries so far, and their turns.
    counted: &'a Cell<(u64, u64)>,
    entry: &'a dyn Fn(&Value) -> Result<Option<u64>, String>,
}

impl Front<'_> {
    /// Counts an entry; an error ends the reading.
    fn take(&self, value: &Value) -> Result<(), String> {
        let (entries, turns) = self.counted.get();
        if let Some(more) = (self.entry)(value)? {
            self.counted.set((entries + 1, turns + more));
        }
        if self.counted.get().0 >= self.needed {
            return Err("there are enough".to_owned());
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Front<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Front<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(value) = list.next_element::<Value>()? {
            self.take(&value).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

/// Returns why a file is not a tokenizer. Only its form is checked: building the tokenizer takes a second.
fn not_a_tokenizer(digest: &str, files: &NamedFiles) -> Option<String> {
    #[derive(Deserialize)]
    struct Form {
        #[expect(dead_code, reason = "its presence is checked")]
        model: IgnoredAny,
    }
    let (source, bytes) = match files.read(digest) {
        Ok(read) => read,
        Err(e) => return Some(format!("tokenizer {}", e.message)),
    };
    let read = serde_json::from_slice::<Form>(&bytes);
    read.err()
        .map(|e| format!("tokenizer {}: {e}", source.path.display()))
}

const PACK: &str =
    "a pack is JSON Lines, a JSON list or CSV, and the text of each entry is named `prompt`";
const DATASET: &str =
    "a dataset is JSON or JSON Lines, and each entry has `conversations`, `messages` or `prompt`";
const CORPUS: &str = "a corpus is a text in UTF-8 with more words than a prompt takes";
const TRACE: &str = "correct the trace, or use `prompts: {words: …}` for prompts of one length";
