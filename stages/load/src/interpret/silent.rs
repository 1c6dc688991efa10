//! Events of a stream without text. A server may generate tokens in them: special tokens after the end of sequence, tokens of a
//! call that it holds back, or reasoning that it does not show.

use apis::Step;

/// Consecutive events without text.
#[derive(Debug)]
struct Run {
    /// The index of the chunk that follows.
    next: usize,
    /// How many they are, without the event that ends the answer.
    events: usize,
    first_ns: u64,
    last_ns: u64,
    /// When the event that ends the answer arrived, if it followed.
    end_ns: Option<u64>,
}

/// The events without text of an answer.
#[derive(Debug, Default)]
pub(super) struct Silent {
    /// The events of which no count says whether they have a token.
    runs: Vec<Run>,
    /// The first event with a token, if it came before the first text.
    pub(super) first_ns: Option<u64>,
    /// The last event with a token, if it has no text.
    pub(super) last_ns: Option<u64>,
    /// The events of which it stays open whether they have a token.
    pub(super) open: usize,
}

impl Silent {
    /// Adds an event without text that comes after this many chunks. `has_token` is whether a count says that it has a token,
    /// `ends` whether it ends the answer.
    pub(super) fn add(
        &mut self,
        step: Step,
        (has_token, ends): (bool, bool),
        at_ns: u64,
        chunks: usize,
    ) {
        if has_token {
            self.has_token(at_ns, at_ns, chunks);
            return;
        }
        let is_first = chunks == 0 && self.runs.is_empty() && self.last_ns.is_none();
        if step == Step::None || (step == Step::Role && is_first) {
            return;
        }
        let run = self.runs.last_mut().filter(|run| run.next == chunks);
        match (run, ends) {
            (Some(run), true) => run.end_ns = Some(at_ns),
            (Some(run), false) => {
                run.events += 1;
                run.last_ns = at_ns;
            }
            // An event that has only the reason for the end has no token.
            (None, true) => {}
            (None, false) => self.runs.push(Run {
                next: chunks,
                events: 1,
                first_ns: at_ns,
                last_ns: at_ns,
                end_ns: None,
            }),
        }
    }

    fn has_token(&mut self, first_ns: u64, last_ns: u64, chunks: usize) {
        if chunks == 0 {
            self.first_ns.get_or_insert(first_ns);
        }
        self.last_ns = self.last_ns.max(Some(last_ns));
    }

    /// Drops the events that no count explains: the counts of the other events explain every token.
    pub(super) fn explain(&mut self) {
        self.runs.clear();
    }

    /// Drops the events before the first text: the server counts the reasoning in them.
    pub(super) fn explain_head(&mut self) {
        self.runs.retain(|run| run.next > 0);
    }

    /// Decides which of the events have tokens, for an answer of this many chunks and this many tokens, if they were counted.
    /// Returns whether each chunk and each of the events has one token.
    ///
    /// A single event without text may be an empty one that some servers send, so only several in a row count.
    pub(super) fn settle(&mut self, chunks: usize, total: Option<i64>) -> bool {
        let several = |run: &Run| run.events > 1;
        let Some(total) = total.and_then(|total| usize::try_from(total).ok()) else {
            self.runs.retain(several);
            self.open = self.events();
            self.runs.clear();
            return false;
        };
        // Otherwise every token has text.
        if total <= chunks || !self.runs.iter().any(several) {
            self.runs.clear();
            return total == chunks;
        }
        let end = self.runs.last().filter(|run| run.next == chunks);
        let ends = end.is_some_and(|run| run.end_ns.is_some());
        let fits = |events: usize| {
            let all = chunks + events;
            total == all || (ends && total == all + 1)
        };
        let mut one_each = fits(self.events());
        if !one_each {
            self.runs.retain(several);
            one_each = fits(self.events());
        }
        if total == chunks + self.events()
            && let Some(run) = self.runs.last_mut()
        {
            run.end_ns = None;
        }
        if !one_each {
            self.open = self.events();
        }
        for run in std::mem::take(&mut self.runs) {
            let last_ns = run.end_ns.unwrap_or(run.last_ns);
            self.has_token(run.first_ns, last_ns, run.next);
            if one_each {
                self.runs.push(run);
            }
        }
        one_each
    }

    /// Returns the number of events with a token that come right before a chunk.
    pub(super) fn before(&self, chunk: usize) -> i64 {
        let runs = self.runs.iter().filter(|run| run.next == chunk);
        runs.map(|run| run.events as i64).sum()
    }

    fn events(&self) -> usize {
        self.runs.iter().map(|run| run.events).sum()
    }
}
