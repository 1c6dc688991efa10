//! The raw evidence of one attempt of one request: its bytes, when they arrived, and how it ended.

use std::time::Duration;

use super::shared::Stop;

/// One socket read: when it returned, and how many bytes of the response had arrived by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) at_ns: u64,
    pub(crate) end: usize,
}

/// A server that closed an idle connection had done so before it read the request. The close was already on its way when
/// the request was sent, so it shows within a round trip. A close after this long, ns, is that of a server that had the
/// request. To open a connection takes a round trip or more, so a far server has twice the time that took, up to the longest.
const IDLE_CLOSE_NS: u64 = 100_000_000;

/// The longest such time, ns. A connection that took longer to open waited for more than the way to the server.
const LONGEST_IDLE_CLOSE_NS: u64 = 1_000_000_000;

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The response is complete.
    Complete,
    /// The connection ended before the response did.
    Closed,
    /// The connection was reset, or the socket had another error.
    Reset(String),
    /// This client could open no connection, for lack of files or memory.
    NoConnection(String),
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
    /// became free. For a second attempt, the end of the first.
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
    /// A close within this time of sending may be that of an idle connection.
    pub(crate) idle_close_ns: u64,
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
            idle_close_ns: IDLE_CLOSE_NS,
            superseded: false,
        }
    }

    /// Records how long the connection took to open on which it is sent.
    pub(super) fn note_opening(&mut self, opened_within_ns: u64) {
        let twice = opened_within_ns.saturating_mul(2);
        self.idle_close_ns = twice.clamp(IDLE_CLOSE_NS, LONGEST_IDLE_CLOSE_NS);
    }

    /// Returns whether its connection closed without a byte so soon that the server may have closed it for being idle.
    pub(super) fn met_a_close(&self) -> bool {
        let soon = |sent: u64| self.done_ns.saturating_sub(sent) < self.idle_close_ns;
        let closed = matches!(self.end, End::Closed | End::Reset(_));
        closed && self.reads.is_empty() && self.sent_ns.is_some_and(soon)
    }

    /// Returns its size in memory, bytes.
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity() + self.reads.capacity() * size_of::<Read>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_close_right_after_sending_may_be_that_of_an_idle_connection() {
        let ended = |end: End, after_ns: u64| Attempt {
            sent_ns: Some(7),
            done_ns: 7 + after_ns,
            end,
            ..Attempt::due(0, 1, None, 0)
        };
        let reset = || End::Reset("reset".to_owned());
        for end in [End::Closed, reset()] {
            assert!(ended(end.clone(), IDLE_CLOSE_NS - 1).met_a_close());
            assert!(!ended(end, IDLE_CLOSE_NS).met_a_close());
        }
        assert!(!ended(End::Timeout("total"), 1).met_a_close());
        for (opened_ns, limit_ns) in [
            (0, IDLE_CLOSE_NS),
            (150_000_000, 300_000_000),
            (u64::MAX, LONGEST_IDLE_CLOSE_NS),
        ] {
            for (after_ns, may_be) in [(limit_ns - 1, true), (limit_ns, false)] {
                let mut far = ended(reset(), after_ns);
                far.note_opening(opened_ns);
                assert_eq!(far.met_a_close(), may_be, "{opened_ns} {after_ns}");
            }
        }
        let answering = Attempt {
            reads: vec![Read { at_ns: 8, end: 1 }],
            ..ended(reset(), 1)
        };
        assert!(!answering.met_a_close());
    }
}
