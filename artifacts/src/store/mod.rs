//! The content-addressed store on local disk.
//!
//! # Layout
//!
//! [`Store::fsck`] checks every statement of the list below.
//!
//! ```text
//! objects/ab/cdef…   an object: 2 + 62 lower-case hexadecimal digits of the BLAKE3 digest of its bytes
//! tmp/               files being written, on the same file system; gone within a day
//! imports/           the origin of each record that another party executed
//! holds/             one locked file for each live run: what `gc` must leave alone
//! roots/             the files outside the store that name records, and the journals of runs
//! quarantine/        damaged objects that `fsck` moved aside
//! index.sqlite       derived data (with its -wal and -shm): executed cells, durable objects
//! gc.lock            excludes planning and marking from each other
//! ```
//!
//! - `objects` contains folders named by two digits, which contain regular files named by 62 digits, and nothing else.
//! - The bytes of an object have the digest in its name.
//! - A file in `tmp` is younger than a day.
//! - The name of a folder in `roots` is the digest of its place.
//! - Each object that a row of the index names exists and has the size in the row.
//! - A record that the index names refers only to existing objects.
//!
//! [`Store::open`] refuses a root with links in it, or with such names but without `objects`.
//!
//! Other names under the root (prepared engines, weights) belong to other code and are left alone.
//!
//! # Writing
//!
//! An object is written to `tmp`, renamed into place, and never modified afterwards. A synced write costs milliseconds,
//! so [`Store::put`] does not sync. It remembers the digest as pending. [`Store::commit`] makes all pending objects
//! durable together, then writes one transaction to the index. This order guarantees the invariant: *the index names
//! only objects that are durable*. A power loss in between can leave an object renamed but empty or truncated. Such an
//! object has no row in the index, and an object without a row is hashed before it is trusted ([`Store::put`]) and on
//! every read ([`Store::get`]).
//!
//! # The index
//!
//! Deleting `index.sqlite` loses nothing: [`Store::rebuild`] reads it back from the records among the objects. It is
//! written with `journal_mode=WAL` and `synchronous=FULL`. The invariant above would also hold under `NORMAL` (which
//! may lose the last transactions in a power loss, never reorder them), but a cell whose commit returned would then run
//! again. All cells of a commit share the one extra sync.

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
mod own;
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
pub use record::MAX_RECORD_BYTES;
pub use record::{ReadRecord, RecordView};
pub use roots::{Journal, Noted, Root};
