//! What can go wrong on demand.

use std::ops::Range;

/// One way an answer goes wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// None.
    #[default]
    None,
    /// The connection is closed before any byte of the answer.
    CloseBeforeAnswer,
    /// The connection is reset before any byte of the answer.
    ResetBeforeAnswer,
    /// An HTTP error; 429 and 503 come with `Retry-After: 7`.
    Status(u16),
    /// HTTP 401 with the request's `Authorization` in the message, after 280 spaces.
    RepeatKey,
    /// Nothing comes at all.
    StallBeforeHead,
    /// The head comes, and nothing more.
    StallBeforeFirstToken,
    /// Nothing comes after so many tokens.
    StallAfter(u32),
    /// The connection is closed after so many tokens.
    CloseAfter(u32),
    /// The connection is reset after so many tokens.
    ResetAfter(u32),
    /// After so many tokens an error comes in the stream, then `[DONE]`, all under HTTP 200.
    ErrorEventAfter(u32),
    /// After so many tokens comes an event that is not JSON.
    BrokenJsonAfter(u32),
    /// What comes is not HTTP.
    Nonsense,
    /// Every byte comes by itself.
    Drip,
    /// The whole answer is held back and comes with its end, as from a proxy that buffers.
    OnePiece,
    /// Lines end with CRLF, comments come between events, data is spread over lines.
    Decorated,
    /// No `[DONE]` at the end.
    NoDone,
    /// Neither `[DONE]` nor a finish reason at the end.
    NoEnd,
    /// No usage at the end.
    NoUsage,
    /// The usage at the end claims so many output tokens.
    Claims(i64),
    /// No token at all: the end of sequence came first.
    NoTokens,
    /// Events without text among those with.
    EmptyChunks,
    /// All is sent, but the connection closes instead of ending the transfer encoding.
    CloseInsteadOfEnd,
    /// The connection is closed after a complete answer that promised to keep it.
    CloseAfterAnswer,
}

/// Which requests meet which fault: by their place in the order of arrival.
#[derive(Clone, Debug, Default)]
pub struct Faults(pub Vec<(Range<u64>, Fault)>);

impl Faults {
    /// Makes every request meet a fault.
    pub fn all(fault: Fault) -> Self {
        Self(vec![(0..u64::MAX, fault)])
    }

    /// Returns the fault of a request.
    pub(crate) fn of(&self, ordinal: u64) -> Fault {
        self.0
            .iter()
            .find(|(range, _)| range.contains(&ordinal))
            .map(|(_, f)| *f)
            .unwrap_or_default()
    }
}
