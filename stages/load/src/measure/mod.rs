//! The measuring path: read, stamp, append, and nothing else.
//!
//! One thread of its own runs a single-threaded runtime; every socket of a cell lives there.
//! Requests are rendered to bytes ahead of their turn (`ahead`), all of them before the clock
//! starts if they fit into memory of bounded size; connections are opened before the first request;
//! what comes back is parsed by another thread, after its stream ended and, unless too much
//! is waiting, after the whole run.
//!
//! # When another thread cannot follow
//!
//! This thread never blocks. A request that is due and not rendered yet is sent when it is, and
//! when more than 32 MiB of answers (`answers`) lie unread, further requests are held back until half
//! of them were taken: what is in flight is read on, and the wait is the send lag of those
//! requests. Both are counted, and a run in which either happened says so in a warning. So memory
//! is bounded by what lies in the two queues and what is in flight.
//!
//! # How the stamps are taken
//!
//! All stamps are nanoseconds of the monotonic clock since the cell's start.
//!
//! - `sent`: read right before the `write(2)` that hands the request's first byte to the kernel.
//! - an arrival: read right after the `read(2)` that returned the bytes. All bytes of one read
//!   share its stamp; the `read` column of the table `chunks` shows which chunks did.
//!
//! Between the wire and an arrival's stamp lie: the kernel's receive path, the wake-up of this
//! thread through epoll, and whatever sockets became ready before this one and are served
//! first (a few microseconds each: one `read(2)`, one clock read, one append, and the search for
//! the end of the response, which walks the chunk sizes of the transfer encoding but looks at
//! no data). No parsing of events, no JSON, no logging, no lock shared with another thread and,
//! once a buffer has grown, no allocation lies in between.
//!
//! # Under TLS
//!
//! An arrival is stamped when decrypted bytes are there: right after the read of the TLS stream
//! that returned them, which is a `read(2)` of up to 4 KiB, the decryption of every TLS record that
//! is then complete, and one record's bytes handed out. Decryption thus lies between the wire and
//! the stamp, and so does the wait for the rest of a record that came in parts, which is the
//! server's doing: nothing of a record is known before all of it is there. Records decrypted by
//! one `read(2)` are reads of their own, microseconds apart. `sent` is read before the request is
//! encrypted. A handshake is part of opening a connection: of what is done before the clock starts
//! or, where a connection is made late, of `connect_ns` and the send lag, never of TTFT. It takes
//! this thread's time, though, in which it stamps nothing else: a server that wants a connection
//! for every request makes the wake lag larger with TLS.
//!
//! What `docs/load-accuracy.md` says of TLS was measured against the reference server.
//!
//! # How late a stamp may be
//!
//! The thread watches itself (`health`): a probe timer tells how late it notices
//! what the kernel has for it, each read notes how long the thread was awake before it, each
//! write how long it took. The table `cell` states from these what the error of a stamp is at
//! most, and whether the client was the bottleneck. The cost is a timer every 5 ms and, for each
//! read, a subtraction and a count.
//!
//! # Connections
//!
//! A kept-alive connection that proves dead before any byte came back is replaced and the
//! request sent once more: two rows, the first `superseded`. A server seen to close connections
//! right after its answers gets a fresh connection for every further request, opened before
//! `sent` is stamped. Of a plain connection "no byte came back" is exact. Under TLS it means: no
//! whole record with data. Session tickets and the message that ends a connection are not an answer,
//! so they are rightly not counted; but a server that dies after it has sent a part of its first
//! record looks as if it had not begun, and its request is sent again.
//!
//! # Sessions
//!
//! A turn is sent with the answers before it, so its bytes cannot be rendered beforehand: the
//! thread that takes answers apart renders them while the user thinks, and hands them back. Where
//! thinking takes no time, rendering is part of that turn's send lag.
//!
//! # Limits
//!
//! A request's time limits are checked when they may have passed and at least twice a second;
//! so a limit takes effect up to half a second late when another limit was the nearer one.
//! The *first-token* limit ends with the first byte of the body, since what a byte means is not
//! known here; a server that sends headers or comments early moves the wait into the
//! *inter-token* limit.

mod ahead;
mod answers;
mod clients;
mod clock;
mod exchange;
mod health;
mod stream;
mod turns;

pub(crate) use ahead::{Ahead, Planned};
pub(crate) use answers::{AnswerReceiver, answers};
pub(crate) use clients::{Ended, Measured, Plan, measure};
pub(crate) use clock::{Epoch, instant_and_monotonic};
pub(crate) use exchange::{Attempt, End, Limits, Shared, Stop};
pub(crate) use health::{Health, Histogram, PROBE};
pub(crate) use stream::Stream;
pub(crate) use turns::Turn;
