//! The messages between the coordinator and a generator, over the generator's standard input and output.
//!
//! Each message is its length in four bytes (little-endian), followed by that number of bytes in the format of postcard.
//! During the measured phase, a generator sends only signs of life and figures for the terminal.

use std::io::{self, Read, Write};

use pipeline::stage::Rates;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::measure::{Measured, Stop};
use crate::ordered::Rows;
use crate::prompts::Prompt;
use crate::refused::Refusal;

/// The longest order, in bytes. A tokenizer is one order.
pub(super) const LONGEST_ORDER: u32 = 1 << 30;

/// The longest message of a generator before it is asked for its rows, in bytes.
pub(super) const LONGEST_WORD: u32 = 1 << 20;

/// The longest message of a generator with rows, in bytes. A request with its chunks is shorter, even if its answer is the longest
/// one that is read.
pub(super) const LONGEST_ROWS: u32 = 1 << 28;

/// The first message of a generator. A program that sends anything else is not a generator of this version.
pub(super) const GREETING: &str = concat!("benchtrail generator ", env!("CARGO_PKG_VERSION"));

/// An order to a generator.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// An [`Assignment`](super::assignment::Assignment) as JSON.
    Assignment(String),
    /// The bytes of the workload's own tokenizer.
    Tokenizer(Vec<u8>),
    /// The only certificates to trust, as PEM.
    Certificates(Vec<u8>),
    /// Its next prompts: first the measured ones, then those of the warm-up.
    Prompts(Vec<Prompt>),
    /// The due times of its next units, ns after the start of the measured phase.
    Due(Vec<u64>),
    /// The times at which its next measured requests are abandoned, ns after the first byte.
    GivenUp(Vec<Option<u64>>),
    /// The share is complete.
    Prepare,
    /// The cell's clock began at this time of the generator's monotonic clock, ns since boot.
    Begin(u64),
    /// The measured phase begins at this time of the cell's clock, ns.
    Measure(u64),
    /// Everything must stop.
    Stop(Stop),
    /// Asks for the time of its clock.
    Clock,
    /// Asks for its rows.
    HandOver,
}

/// A message of a generator.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Word {
    /// The first message.
    Greeting(String),
    /// A sign of life.
    Sign(Sign),
    /// Its first requests are rendered.
    Prepared,
    /// Its connections are open and its warm-up requests are answered.
    Warm,
    /// Its progress.
    Figures {
        /// Measured requests that have ended.
        done: u64,
        /// Rolling figures.
        rates: Rates,
    },
    /// The server refuses every request of this generator.
    Refused(Refusal),
    /// The time of its monotonic clock, ns since boot.
    Clock(u64),
    /// All its requests have ended.
    Sent {
        /// The place of the server that no longer accepts connections.
        gone: Option<usize>,
    },
    /// Rows, in the order of requests.
    Rows(Vec<Rows>),
    /// The last message: its account.
    Done(Box<Account>),
    /// The last message: the reason of its failure.
    Failed(String),
}

/// A sign of life.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Sign {
    /// Requests in flight.
    pub(super) in_flight: u32,
    /// The time of the last byte received or request sent, on the cell's clock, ns.
    pub(super) last_sign_ns: u64,
    /// Whether a request was answered.
    pub(super) answered: bool,
}

/// The account of a generator after its load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Account {
    /// The report of the measuring thread.
    pub(super) measured: Measured,
    /// Connections opened.
    pub(super) connections: u64,
    /// The number of measured requests planned for the time that passed.
    pub(super) expected_requests: u64,
    /// Doubts about the result.
    pub(super) warnings: Vec<String>,
}

/// Writes a message.
///
/// # Errors
/// If the other side is gone.
pub(super) fn write<M: Serialize>(out: &mut impl Write, message: &M) -> io::Result<()> {
    let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(&bytes)?;
    out.flush()
}

/// Reads a message of at most `longest` bytes; `None` if the other side has closed its end between two messages.
///
/// # Errors
/// If the input is not a message.
pub(super) fn read<M: DeserializeOwned>(
    from: &mut impl Read,
    longest: u32,
) -> io::Result<Option<M>> {
    let mut length = [0_u8; 4];
    match from.read_exact(&mut length) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(e) => return Err(e),
    }
    let nonsense = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let length = u32::from_le_bytes(length);
    if length > longest {
        return Err(nonsense("said something that is not a message".to_owned()));
    }
    // Memory grows with the bytes received, not with the announced length.
    let mut bytes = Vec::new();
    from.take(u64::from(length)).read_to_end(&mut bytes)?;
    if bytes.len() < length as usize {
        return Err(nonsense("ended within a message".to_owned()));
    }
    match postcard::take_from_bytes(&bytes) {
        Ok((message, [])) => Ok(Some(message)),
        Ok(_) => Err(nonsense("said more than a message".to_owned())),
        Err(e) => Err(nonsense(format!(
            "said something that is not a message: {e}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_come_back_as_they_were_and_the_end_is_seen() {
        let mut line = Vec::new();
        write(&mut line, &Order::Due(vec![1, 2, u64::MAX])).unwrap();
        write(&mut line, &Order::Prepare).unwrap();
        let mut from = line.as_slice();
        let order: Order = read(&mut from, LONGEST_ORDER).unwrap().unwrap();
        assert!(matches!(order, Order::Due(due) if due == [1, 2, u64::MAX]));
        let next = read(&mut from, LONGEST_ORDER).unwrap();
        assert!(matches!(next, Some(Order::Prepare)));
        assert!(read::<Order>(&mut from, LONGEST_ORDER).unwrap().is_none());
    }

    proptest! {
        #[test]
        fn whatever_comes_instead_is_an_error_and_takes_no_memory(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut from = bytes.as_slice();
            // Some bytes are messages; none may panic.
            while let Ok(Some(_)) = read::<Word>(&mut from, LONGEST_WORD) {}
        }
    }
}
