//! The measuring path: read, stamp, append, and nothing more.
//!
//! One dedicated thread runs a single-threaded runtime with every socket of a cell. Requests are rendered to bytes
//! before their turn (`ahead`), all of them before the clock starts if they fit into bounded memory. Connections are
//! opened before the first request. Another thread parses the answers after their streams end and, unless too many
//! wait, after the whole run.
//!
//! # When another thread cannot follow
//!
//! This thread never blocks. A request that is due but not rendered yet is sent as soon as it is rendered. When more
//! than 32 MiB of answers (`answers`) are unread, further requests are held back until half of them are read. Answers
//! in flight are still read, and the wait counts as the send lag of those requests. Both events are counted, and a run
//! with either of them warns. Memory is therefore bounded by the two queues and the answers in flight.
//!
//! # How the stamps are taken
//!
//! All stamps are nanoseconds of the monotonic clock since the cell's start.
//!
//! - `sent`: read right before the `write(2)` that hands the request's first byte to the kernel.
//! - an arrival: read right after the `read(2)` that returned the bytes. All bytes of one read share its stamp; the
//!   `read` column of the table `chunks` shows which chunks share one.
//!
//! Three things happen between the wire and an arrival's stamp: the kernel receives the bytes, this thread wakes up
//! through epoll, and it serves the sockets that became ready earlier. Each such socket takes a few microseconds: one
//! `read(2)`, one clock read, one append, and the search for the end of the response, which walks the chunk sizes of
//! the transfer encoding but reads no data. Nothing else happens in between: no parsing of events, no JSON, no logging,
//! no lock shared with another thread and, once a buffer has grown, no allocation.
//!
//! # Under TLS
//!
//! An arrival is stamped when decrypted bytes are available, right after the read of the TLS stream that returned them.
//! Such a read is a `read(2)` of up to 4 KiB, the decryption of every TLS record that is then complete, and the return
//! of one record's bytes. Decryption therefore happens before the stamp, and so does the wait for the rest of a record
//! that came in parts. That wait is the server's doing: nothing of a record is known before all of it has arrived.
//! Records decrypted by one `read(2)` count as separate reads, microseconds apart. `sent` is read before the request is
//! encrypted. A handshake is part of opening a connection. It happens before the clock starts or, for connections made
//! later, within `connect_ns` and the send lag, but never within TTFT. However, it takes time of this thread, which
//! stamps nothing meanwhile. If a server wants a connection for every request, the wake lag is larger with TLS.
//!
//! The figures about TLS in `docs/load-accuracy.md` were measured against the reference server.
//!
//! # How late a stamp may be
//!
//! The thread watches itself (`health`). A probe timer shows how late it notices events from the kernel. Each read
//! records how long the thread had been awake, each write how long it took. From these, the table `cell` states the
//! largest error of a stamp, and whether the client was the bottleneck. The cost is a timer every 5 ms and, for each
//! read, a subtraction and a count.
//!
//! # Connections
//!
//! If a kept-alive connection closes within 100 ms of sending and before any byte came back, the server may have closed
//! it for being idle. It is replaced and the request is sent again: two rows, the first `superseded`. The send lag of the
//! second begins at the end of the first. A later close is that of a server that had the request. Once a server closes a connection right after an answer, every further request gets
//! a new connection, opened before `sent` is stamped. For a plain connection, "no byte came back" is exact. Under TLS
//! it means: no complete record with data. Session tickets and the closing message are not part of an answer, so they
//! are rightly not counted. But a server that dies after it sent a part of its first record looks as if it had not
//! begun, and its request is sent again.
//!
//! # Sessions
//!
//! A turn is sent with the answers before it, so its bytes cannot be rendered in advance. The thread that parses
//! answers renders them while the user thinks, and hands them back. If thinking takes no time, rendering is part of
//! that turn's send lag.
//!
//! # Limits
//!
//! A request's time limits are checked when they may have passed and at least twice a second. Each read is compared with
//! the limit on the silence before it, too, so a wait that was too long is a timeout even if its timer fires late. The *first-token* limit ends with the first byte of the
//! body, because this code does not know what a byte means. If a server sends headers or comments early, the wait moves
//! into the *inter-token* limit.
//!
//! The heartbeat ends a run in which nothing arrives. A request that waits for the first byte of its body within its
//! limit counts as a sign of life, noted twice a second. This ends when one request has used up that limit while no byte
//! arrived on any stream, and begins again with the next byte.

mod ahead;
mod answers;
mod attempt;
mod clients;
mod clock;
mod exchange;
mod health;
mod limits;
mod shared;
mod stream;
mod turns;

pub(crate) use ahead::{Ahead, Planned};
pub(crate) use answers::{AnswerReceiver, answers};
#[cfg(test)]
pub(crate) use attempt::Read;
pub(crate) use attempt::{Attempt, End};
pub(crate) use clients::{Ended, Gate, Measured, Plan, measure};
pub(crate) use clock::{Epoch, instant_and_monotonic};
pub(crate) use health::{Health, Histogram, PROBE};
pub(crate) use limits::Limits;
pub(crate) use shared::{Shared, Stop};
pub(crate) use stream::Stream;
pub(crate) use turns::Turn;
