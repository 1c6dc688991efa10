//! The lines of a text.

/// The lines of a text, for converting offsets to places.
pub(super) struct Lines<'a> {
    pub(super) text: &'a str,
    pub(super) starts: Vec<usize>,
    pub(super) first: usize,
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
        }
    }

    fn index(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset).max(1) - 1
    }

    pub(super) fn place(&self, offset: usize) -> (usize, usize) {
        let index = self.index(offset);
        let before = self.text.get(self.starts[index]..offset).unwrap_or("");
        (self.first + index, before.chars().count() + 1)
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
