//! The lines of a text.

use std::cell::Cell;

/// The lines of a text, for converting offsets to places.
pub(super) struct Lines<'a> {
    pub(super) text: &'a str,
    pub(super) starts: Vec<usize>,
    pub(super) first: usize,
    /// An offset that was converted before, and its column: a whole page may be one line.
    last: Cell<(usize, usize)>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str, first: usize) -> Self {
        let starts = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(at, _)| at + 1))
            .collect();
        Self {
            text,
            starts,
            first,
            last: Cell::new((0, 0)),
        }
    }

    fn index(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset).max(1) - 1
    }

    pub(super) fn place(&self, offset: usize) -> (usize, usize) {
        let index = self.index(offset);
        let start = self.starts[index];
        let (counted, column) = self.last.get();
        let (from, before) = if (start..=offset).contains(&counted) {
            (counted, column)
        } else {
            (start, 0)
        };
        let more = self.text.get(from..offset).unwrap_or("");
        let column = before + more.chars().count();
        self.last.set((offset, column));
        (self.first + index, column + 1)
    }

    pub(super) fn line(&self, offset: usize) -> &'a str {
        let index = self.index(offset);
        let end = self
            .starts
            .get(index + 1)
            .map_or(self.text.len(), |end| end - 1);
        self.text[self.starts[index]..end].trim_end_matches('\r')
    }
}
