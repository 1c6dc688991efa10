//! The content-addressed store on local disk.
//!
//! # Layout
//!
//! Every sentence of the list below is checked by [`Store::fsck`].
//!
//! ```text
//! objects/ab/cdef…   an object: 2 + 62 lower-case hexadecimal digits of the BLAKE3 digest of its bytes
//! tmp/               files being written, on the same file system; gone within a day
//! imports/           what is known of each record that somebody else executed
//! holds/             one locked file for each live run: what `gc` must leave alone
//! roots/             the files outside that name records, and the journals of runs
//! quarantine/        damaged objects that `fsck` moved aside
//! index.sqlite       derived data (with its -wal and -shm): what was executed, what is durable
//! gc.lock            excludes planning and marking from each other
//! ```
//!
//! - `objects` holds folders of two digits, these hold regular files of 62 digits, and nothing else is there.
//! - The bytes of an object have the digest that its name says.
//! - A file in `tmp` is younger than a day.
//! - Each row of the index that names an object names one that is there, with the size in the row.
//! - A record that the index names refers only to objects that are there.
//!
//! Other names under the root (prepared engines, weights) belong to others and are left alone.
//!
//! # Writing
//!
//! An object is written to `tmp` and renamed into place, and never modified afterwards. A
//! synced write costs milliseconds, so [`Store::put`] does not sync: it remembers the digest
//! as pending, and [`Store::commit`] makes all that is pending durable together, then writes
//! one transaction to the index. The order gives the invariant: *the index names only objects
//! that are durable*. A power loss in between can leave an object renamed but empty or
//! truncated; it has no row in the index, and what has no row is hashed before it is trusted
//! ([`Store::put`]) and on every read ([`Store::get`]).
//!
//! # The index
//!
//! Deleting `index.sqlite` loses nothing: [`Store::rebuild`] reads it back from the records
//! among the objects. It is written with `journal_mode=WAL` and `synchronous=FULL`. The
//! invariant above would also hold under `NORMAL` (which may lose the last transactions in a
//! power loss, never reorder them), but a cell whose commit returned would then run again; the
//! one extra sync is shared by all cells of the commit.

mod audit;
mod commit;
mod error;
mod fsck;
mod gc;
mod hold;
mod import;
mod index;
mod lookup;
mod objects;
mod rebuild;
mod record;
mod roots;
mod unknown;
mod walk;

pub use error::StoreError;
pub use fsck::{FsckFinding, FsckFindingKind, FsckMode, FsckOptions, FsckReport, Subset};
pub use gc::{GcMode, GcOptions, GcReport, Tally};
pub use hold::Hold;
pub use import::Maker;
pub use index::{Cached, Commit, HistoryLine};
pub use lookup::Lookup;
pub use objects::{ObjectSource, Store};
pub use rebuild::RebuildReport;
pub(crate) use record::MAX_RECORD_BYTES;
pub use record::{ReadRecord, RecordView};
pub use roots::{Journal, Noted, Root};
