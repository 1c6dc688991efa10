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

/// Rows on disk, sorted.
struct Run {
    file: BufWriter<File>,
    /// The bytes of the rows that are complete, in the file or before it.
    complete: u64,
}

impl Run {
    /// Appends rows. What was complete stays so if the disk refuses.
    fn push(&mut self, rows: &Encoded) -> io::Result<()> {
        let length = u32::try_from(rows.0.len()).map_err(io::Error::other)?;
        let bytes = [&length.to_le_bytes()[..], &rows.0].concat();
        self.file.write_all(&bytes)?;
        self.complete += bytes.len() as u64;
        Ok(())
    }

    /// Returns the rows. A full disk may have left the last of them in memory.
    fn rows(&self) -> io::Result<impl Iterator<Item = io::Result<Encoded>> + '_> {
        let mut file = self.file.get_ref();
        file.seek(SeekFrom::Start(0))?;
        let file = BufReader::with_capacity(256 * 1024, file);
        let mut all = file.chain(self.file.buffer()).take(self.complete);
        Ok(std::iter::from_fn(move || {
            Encoded::read(&mut all).transpose()
        }))
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
    runs: Vec<Run>,
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

    /// Returns whether there are no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.runs.is_empty()
    }

    /// Adds the rows of one attempt.
    ///
    /// # Errors
    /// If the disk refuses. Then the rows stay in memory.
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
            let Some(first) = self.waiting.first_entry() else {
                break;
            };
            let (run, place) = *first.key();
            if run > self.runs.len() {
                let file = tempfile::tempfile_in(&self.folder)?;
                self.runs.push(Run {
                    file: BufWriter::with_capacity(256 * 1024, file),
                    complete: 0,
                });
            }
            let file = self.runs.last_mut().expect("a run was just begun");
            file.push(first.get())?;
            self.held -= first.remove().size();
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

    /// Passes all rows to `take`, by request and attempt. It can do so again.
    ///
    /// # Errors
    /// If the disk refuses, or `take` fails.
    pub(crate) fn each(&self, take: &mut dyn FnMut(Rows) -> io::Result<()>) -> io::Result<()> {
        type Sorted<'a> = Box<dyn Iterator<Item = io::Result<Rows>> + 'a>;
        let mut sources: Vec<Sorted<'_>> = Vec::new();
        let current = self.runs.len().max(1);
        for run in &self.runs {
            sources.push(Box::new(run.rows()?.map(|rows| rows?.decode())));
        }
        // The rows that wait for the run being written, and those for the next one. Both are sorted.
        let later = (current + 1, (i64::MIN, i64::MIN));
        let waiting = [self.waiting.range(..later), self.waiting.range(later..)];
        sources.extend(
            waiting.map(|rest| Box::new(rest.map(|(_, rows)| rows.decode())) as Sorted<'_>),
        );
        let mut heads: Vec<Option<Rows>> = Vec::with_capacity(sources.len());
        let mut heap = BinaryHeap::new();
        let next_of = |source: &mut Sorted<'_>| source.next().transpose();
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

    #[test]
    fn rows_that_the_disk_refuses_stay_and_all_rows_can_be_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut ordered = Ordered::new(folder.path().to_owned(), 10_000);
        let all: Vec<Rows> = (0..2000).map(|i| rows(i, 1)).collect();
        let (first, rest) = all.split_at(1500);
        first.iter().for_each(|rows| ordered.push(rows).unwrap());
        // A device without room takes the place of the file, after what it holds is written.
        let run = &mut ordered.runs[0];
        run.file.flush().unwrap();
        let full = File::options().write(true).open("/dev/full").unwrap();
        let kept = std::mem::replace(&mut run.file, BufWriter::with_capacity(1000, full));
        let refused = rest.iter().filter(|rows| ordered.push(rows).is_err());
        assert!(refused.count() > 0);
        let run = &mut ordered.runs[0];
        let unwritten = run.file.buffer().to_vec();
        let full = std::mem::replace(&mut run.file, kept);
        // Dropping it would write again.
        drop(full.into_parts());
        run.file.write_all(&unwritten).unwrap();
        for _ in 0..2 {
            let mut again = Vec::new();
            let read = ordered.each(&mut |rows| {
                again.push(rows);
                Ok(())
            });
            read.unwrap();
            assert!(again == all, "{} of {}", again.len(), all.len());
        }
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
