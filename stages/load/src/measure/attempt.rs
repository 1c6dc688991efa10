//! The raw evidence of one attempt of one request: its bytes, when they arrived, and how it ended.

use std::time::Duration;

use super::shared::Stop;

/// One socket read: when it returned, and how many bytes of the response had arrived by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) at_ns: u64,
    pub(crate) end: usize,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The response is complete.
    Complete,
    /// The connection ended before the response did.
    Closed,
    /// The connection was reset, or the socket had another error.
    Reset(String),
    /// The server took no connection, or none that can be trusted.
    Refused(String),
    /// A time limit passed: its name.
    Timeout(&'static str),
    /// The response violated HTTP, or our limits.
    Broken(String),
    /// Everything was stopped.
    Stopped(Stop),
    /// The sender gave it up after this long.
    GivenUp(Duration),
    /// It was never sent, because its session could not go on.
    NotSent,
}

/// The raw evidence of one attempt.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// Its index in the plan.
    pub(crate) request: usize,
    /// 1, or 2 for the replay of a stale connection.
    pub(crate) attempt: u32,
    /// The client of a closed loop.
    pub(crate) client: Option<u32>,
    pub(crate) scheduled_ns: u64,
    /// When it could have been sent: its due time or, with a limit on requests in flight, the time when its place
    /// became free.
    pub(crate) free_ns: u64,
    /// How long the connection took, if one was opened for this attempt.
    pub(crate) connect_ns: Option<u64>,
    pub(crate) sent_ns: Option<u64>,
    /// The bytes of the request, with its head.
    pub(crate) sent_bytes: usize,
    /// Other requests in flight when this one was sent.
    pub(crate) in_flight: u32,
    pub(crate) bytes: Vec<u8>,
    pub(crate) reads: Vec<Read>,
    pub(crate) headers_ns: Option<u64>,
    pub(crate) done_ns: u64,
    pub(crate) end: End,
    /// Whether a second attempt follows.
    pub(crate) superseded: bool,
}

impl Attempt {
    /// Makes an attempt with only its due time known.
    pub(crate) fn due(
        request: usize,
        attempt: u32,
        client: Option<u32>,
        scheduled_ns: u64,
    ) -> Self {
        Self {
            request,
            attempt,
            client,
            scheduled_ns,
            free_ns: scheduled_ns,
            connect_ns: None,
            sent_ns: None,
            sent_bytes: 0,
            in_flight: 0,
            bytes: Vec::new(),
            reads: Vec::new(),
            headers_ns: None,
            done_ns: 0,
            end: End::Closed,
            superseded: false,
        }
    }

    /// Returns its size in memory, bytes.
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity() + self.reads.capacity() * size_of::<Read>()
    }
}
