//! Rows in the order of requests, in bounded memory.
//!
//! Attempts end roughly, not exactly, in the order of their requests. The rows wait in memory, sorted. When they exceed
//! a limit, the smallest is written to a run on disk. A row that comes after its successors were written waits for the
//! next run (replacement selection, Knuth, The Art of Computer Programming 3, 5.4.1). Rows that are nearly in order
//! make a single run, however many they are. At the end the runs are merged. Waiting rows are encoded as in a run,
//! which takes a quarter of the memory of the rows themselves.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use contract::{Chunk, Request};
use serde::{Deserialize, Serialize};

/// The most bytes of rows that wait in memory.
pub(crate) const WAITING_BYTES: usize = 16 * 1024 * 1024;

/// One attempt with its chunks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rows {
    pub(crate) request: Request,
    pub(crate) chunks: Vec<Chunk>,
}

/// A request and its attempt.
type Place = (i64, i64);

impl Rows {
    fn place(&self) -> Place {
        (self.request.request_id, self.request.attempt)
    }

    fn encode(&self) -> io::Result<Encoded> {
        Ok(Encoded(
            postcard::to_stdvec(self).map_err(io::Error::other)?.into(),
        ))
    }
}

/// The encoded rows of one attempt, as stored in memory and in runs.
struct Encoded(Box<[u8]>);

impl Encoded {
    /// Returns their approximate size in memory, with their place.
    fn size(&self) -> usize {
        size_of::<(usize, Place, Self)>() + self.0.len()
    }

    fn decode(&self) -> io::Result<Rows> {
        postcard::from_bytes(&self.0).map_err(io::Error::other)
    }

    fn write(&self, file: &mut impl Write) -> io::Result<()> {
        let length = u32::try_from(self.0.len()).map_err(io::Error::other)?;
        file.write_all(&length.to_le_bytes())?;
        file.write_all(&self.0)
    }

    /// Reads encoded rows; `None` at the end.
    fn read(file: &mut impl Read) -> io::Result<Option<Self>> {
        let mut length = [0_u8; 4];
        match file.read_exact(&mut length) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(e) => return Err(e),
        }
        let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
        file.read_exact(&mut bytes)?;
        Ok(Some(Self(bytes.into())))
    }
}

/// Collects rows in any order and returns them sorted.
pub(crate) struct Ordered {
    folder: PathBuf,
    limit: usize,
    /// The waiting rows, by their place and the number of the run that they can still join.
    waiting: BTreeMap<(usize, Place), Encoded>,
    held: usize,
    /// The largest number of bytes that waited at once.
    most: usize,
    runs: Vec<BufWriter<File>>,
    written: Option<Place>,
}

impl Ordered {
    /// Makes a collector that keeps at most `limit` bytes in memory, the rest in `folder`.
    pub(crate) fn new(folder: PathBuf, limit: usize) -> Self {
        Self {
            folder,
            limit,
            waiting: BTreeMap::new(),
            held: 0,
            most: 0,
            runs: Vec::new(),
            written: None,
        }
    }

    /// Adds the rows of one attempt.
    ///
    /// # Errors
    /// If the disk refuses.
    pub(crate) fn push(&mut self, rows: &Rows) -> io::Result<()> {
        let (place, rows) = (rows.place(), rows.encode()?);
        let current = self.runs.len().max(1);
        // The rows join the run being written, unless it is already past them.
        let run = if self.written.is_some_and(|written| place < written) {
            current + 1
        } else {
            current
        };
        self.held += rows.size();
        self.waiting.insert((run, place), rows);
        while self.held > self.limit {
            let Some(((run, place), rows)) = self.waiting.pop_first() else {
                break;
            };
            self.held -= rows.size();
            if run > self.runs.len() {
                let file = tempfile::tempfile_in(&self.folder)?;
                self.runs.push(BufWriter::with_capacity(256 * 1024, file));
            }
            let file = self.runs.last_mut().expect("a run was just begun");
            rows.write(file)?;
            self.written = Some(place);
        }
        self.most = self.most.max(self.held);
        Ok(())
    }

    /// Returns the largest number of bytes that waited in memory, and the number of runs.
    #[cfg(test)]
    fn cost(&self) -> (usize, usize) {
        (self.most, self.runs.len())
    }

    /// Passes all rows to `take`, by request and attempt.
    ///
    /// # Errors
    /// If the disk refuses, or `take` fails.
    pub(crate) fn each(mut self, take: &mut dyn FnMut(Rows) -> io::Result<()>) -> io::Result<()> {
        type Sorted = Box<dyn Iterator<Item = io::Result<Encoded>>>;
        let mut sources: Vec<Sorted> = Vec::new();
        let current = self.runs.len().max(1);
        for run in self.runs {
            let mut file = run.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.seek(SeekFrom::Start(0))?;
            let mut reader = BufReader::with_capacity(256 * 1024, file);
            sources.push(Box::new(std::iter::from_fn(move || {
                Encoded::read(&mut reader).transpose()
            })));
        }
        // The rows that wait for the run being written, and those for the next one. Both are sorted.
        let later = self.waiting.split_off(&(current + 1, (i64::MIN, i64::MIN)));
        sources.extend(
            [self.waiting, later].map(|rest| Box::new(rest.into_values().map(Ok)) as Sorted),
        );
        let mut heads: Vec<Option<Rows>> = Vec::with_capacity(sources.len());
        let mut heap = BinaryHeap::new();
        let next_of = |source: &mut Sorted| source.next().map(|next| next?.decode()).transpose();
        for (i, source) in sources.iter_mut().enumerate() {
            let head = next_of(source)?;
            heap.extend(head.as_ref().map(|rows| Reverse((rows.place(), i))));
            heads.push(head);
        }
        while let Some(Reverse((_, i))) = heap.pop() {
            let next = next_of(&mut sources[i])?;
            heap.extend(next.as_ref().map(|rows| Reverse((rows.place(), i))));
            if let Some(rows) = std::mem::replace(&mut heads[i], next) {
                take(rows)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::synthetic::request as row;
    use proptest::prelude::*;

    fn rows(id: i64, attempt: i64) -> Rows {
        let request = Request {
            request_id: id,
            attempt,
            ..row(id)
        };
        let chunk = |at_ns| Chunk {
            request_id: id,
            attempt,
            at_ns,
            bytes: Some(1),
            tokens: None,
            read: Some(0),
        };
        Rows {
            request,
            chunks: (0..id % 5).map(chunk).collect(),
        }
    }

    fn sorted(limit: usize, all: &[Rows]) -> (Vec<Rows>, (usize, usize)) {
        let folder = tempfile::tempdir().unwrap();
        let mut ordered = Ordered::new(folder.path().to_owned(), limit);
        all.iter().for_each(|rows| ordered.push(rows).unwrap());
        let cost = ordered.cost();
        let mut out = Vec::new();
        ordered
            .each(&mut |rows| {
                out.push(rows);
                Ok(())
            })
            .unwrap();
        (out, cost)
    }

    #[test]
    fn rows_nearly_in_order_make_one_run_and_hold_no_more_than_the_limit() {
        let all: Vec<Rows> = (0..3000).map(|i: i64| rows(i ^ 7, 1)).collect();
        let (out, (most, runs)) = sorted(60_000, &all);
        assert!(out.is_sorted_by_key(Rows::place) && out.len() == all.len());
        assert!(most <= 60_000, "{most}");
        assert_eq!(runs, 1);
    }

    #[test]
    fn a_straggler_is_merged_from_another_run() {
        let all: Vec<Rows> = (1..500).chain([0]).map(|i| rows(i, 1)).collect();
        let (out, (_, runs)) = sorted(20_000, &all);
        assert_eq!(out.first().map(Rows::place), Some((0, 1)));
        assert!(out.is_sorted_by_key(Rows::place) && out.len() == 500 && runs == 1);
    }

    proptest! {
        #[test]
        fn any_order_comes_back_sorted_and_whole(
            ids in proptest::sample::subsequence((0..120_i64).collect::<Vec<_>>(), 0..120).prop_shuffle(),
            limit in 0_usize..40_000,
        ) {
            let all: Vec<Rows> = ids.iter().map(|i| rows(i / 2, 1 + i % 2)).collect();
            let mut expected = all.clone();
            expected.sort_by_key(Rows::place);
            prop_assert_eq!(sorted(limit, &all).0, expected);
        }
    }
}
