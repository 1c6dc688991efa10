//! Faults on demand.

use std::ops::Range;

/// A fault of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
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
    /// No byte is sent at all.
    StallBeforeHead,
    /// The head is sent, and nothing more.
    StallBeforeFirstToken,
    /// Nothing is sent after this many tokens.
    StallAfter(u32),
    /// The connection is closed after this many tokens.
    CloseAfter(u32),
    /// The connection is reset after this many tokens.
    ResetAfter(u32),
    /// After this many tokens the stream has an error, then `[DONE]`, all under HTTP 200.
    ErrorEventAfter(u32),
    /// After this many tokens the stream has an event that is not JSON.
    BrokenJsonAfter(u32),
    /// The answer is not HTTP.
    Nonsense,
    /// Every byte is sent separately.
    Drip,
    /// The complete answer is held back and sent at its end, as from a proxy that buffers.
    OnePiece,
    /// Lines end with CRLF, there are comments between events, and data is spread over lines.
    Decorated,
    /// No `[DONE]` at the end.
    NoDone,
    /// Neither `[DONE]` nor a finish reason at the end.
    NoEnd,
    /// As [`Fault::NoEnd`], and each event has an empty finish reason, as in TGI's completions API.
    EmptyReasons,
    /// No usage at the end.
    NoUsage,
    /// The usage at the end claims this many output tokens.
    Claims(i64),
    /// The answer has no token: the end of sequence came first.
    NoTokens,
    /// The answer has one vector or score fewer than asked for.
    FewerResults,
    /// Some events have no text.
    EmptyChunks,
    /// Everything is sent, but the connection closes instead of ending the transfer encoding.
    CloseInsteadOfEnd,
    /// The connection is closed after a complete answer that promised to keep it open.
    CloseAfterAnswer,
}

/// The fault of each request, by its index in the order of arrival.
#[derive(Clone, Debug, Default)]
pub struct Faults(pub Vec<(Range<u64>, Fault)>);

impl Faults {
    /// Returns the same fault for every request.
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
