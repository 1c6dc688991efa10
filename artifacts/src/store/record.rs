//! What the store needs to be told about records: their format is the pipeline's.

use super::Commit;
use crate::Digest;

/// The largest record in bytes; a larger object is taken for no record, so that a rebuild
/// need not read every table.
pub(crate) const MAX_RECORD_BYTES: u64 = 16 << 20;

/// A record as the store sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordView {
    /// What would be committed for it.
    pub commit: Commit,
    /// Orders records by age: for instance nanoseconds since the epoch at the cell's end.
    pub finished: i64,
    /// The artifacts it refers to beyond those in `commit.objects`: its inputs.
    pub inputs: Vec<Digest>,
    /// The records it refers to, to be followed: those of its inputs.
    pub input_records: Vec<Digest>,
    /// Files of others that it was made from. They are kept with the record where they are, and nothing is wrong
    /// where they are not: a published study may leave them out.
    pub files: Vec<Digest>,
}

impl RecordView {
    /// Returns all digests that must be there with the record.
    pub fn references(&self) -> impl Iterator<Item = &Digest> {
        self.commit
            .objects
            .iter()
            .chain(&self.inputs)
            .chain(&self.input_records)
    }
}

/// Reads a record; returns `None` for bytes that are none. The digest is that of the bytes.
pub trait ReadRecord: Fn(&Digest, &[u8]) -> Option<RecordView> + Sync {}

impl<F: Fn(&Digest, &[u8]) -> Option<RecordView> + Sync> ReadRecord for F {}
