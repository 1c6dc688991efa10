//! Arithmetic in a sentence or a cell: a result beside its operands.

mod change;
mod equation;
mod patterns;

pub(crate) use change::is_change;

use crate::number::Quantity;
use crate::words::{Word, words};

/// A stretch of text with its numbers: a sentence or a cell.
pub(crate) struct Scope<'a> {
    pub(crate) text: &'a str,
    pub(crate) numbers: &'a [Quantity],
    /// Offset of the stretch in the whole text.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// A result that does not follow: the byte range, and what is wrong.
pub(crate) struct Slip {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) message: String,
}

/// Checks all arithmetic of a stretch of text.
pub(crate) fn check(scope: &Scope<'_>) -> Vec<Slip> {
    let mut slips = Vec::new();
    if scope.numbers.len() >= 2 {
        change::changes(scope, &mut slips);
        equation::equations(scope, &mut slips);
        patterns::check(scope, &mut slips);
    }
    slips
}

impl Scope<'_> {
    fn between(&self, a: &Quantity, b: &Quantity) -> &str {
        self.text.get(a.end..b.start).unwrap_or("").trim()
    }

    fn before(&self, number: &Quantity) -> &str {
        self.text.get(self.start..number.start).unwrap_or("")
    }

    fn after(&self, number: &Quantity) -> &str {
        self.text.get(number.end..self.end).unwrap_or("")
    }

    fn words_after(&self, number: &Quantity, most: usize) -> Vec<Word> {
        let mut following = words(self.after(number));
        following.truncate(most);
        following
    }

    fn quote(&self, from: usize, to: usize) -> &str {
        self.text.get(from..to).unwrap_or("")
    }
}
