//! The part of a record that the store needs. The pipeline defines the format.

use super::Commit;
use crate::Digest;

/// The largest record in bytes. A larger object is never treated as a record, so that a rebuild need not read every
/// table.
pub const MAX_RECORD_BYTES: u64 = 16 << 20;

/// A record as the store sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordView {
    /// The commit for this record.
    pub commit: Commit,
    /// Orders records by age, for example nanoseconds since the epoch at the cell's end.
    pub finished: i64,
    /// The artifacts it refers to in addition to `commit.objects`: its inputs.
    pub inputs: Vec<Digest>,
    /// The records it refers to, which are followed: those of its inputs.
    pub input_records: Vec<Digest>,
    /// External files that it was made from. Those that exist are kept with the record. A missing one is not an error:
    /// a published study may leave them out.
    pub files: Vec<Digest>,
    /// The sizes in bytes that it gives for artifacts.
    pub sizes: Vec<(Digest, u64)>,
}

impl RecordView {
    /// Returns all digests that must exist with the record.
    pub fn references(&self) -> impl Iterator<Item = &Digest> {
        self.commit
            .objects
            .iter()
            .chain(&self.inputs)
            .chain(&self.input_records)
    }
}

/// Reads a record from bytes and their digest; returns `None` if the bytes are not a record.
pub trait ReadRecord: Fn(&Digest, &[u8]) -> Option<RecordView> + Sync {}

impl<F: Fn(&Digest, &[u8]) -> Option<RecordView> + Sync> ReadRecord for F {}
