//! The only reader of the syntax that this module writes.

use std::fmt;

use artifacts::Scalar;

use super::label::{in_name, in_word, unquoted};
use super::{Condition, Coordinates};

/// The reason why a text is not a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceError {
    /// The offset in the text, in bytes from 0.
    pub at: usize,
    /// What was expected, or what is wrong at the offset.
    pub message: String,
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PlaceError {}

/// Reads places from the front of a text.
pub(crate) struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Returns the unread text.
    pub(crate) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn wrong(&self, message: impl Into<String>) -> PlaceError {
        PlaceError {
            at: self.at,
            message: message.into(),
        }
    }

    /// Skips a character if it is next.
    pub(super) fn takes(&mut self, c: char) -> bool {
        let comes = self.rest().starts_with(c);
        if comes {
            self.at += c.len_utf8();
        }
        comes
    }

    pub(super) fn skips_spaces(&mut self) {
        while self.takes(' ') {}
    }

    /// # Errors
    /// If another character comes next.
    pub(super) fn expects(&mut self, c: char) -> Result<(), PlaceError> {
        if self.takes(c) {
            return Ok(());
        }
        let there = self.rest().chars().next();
        let there = there.map_or_else(
            || "the end".to_owned(),
            |c| format!("`{}`", c.escape_debug()),
        );
        Err(self.wrong(format!("expected `{c}`, got {there}")))
    }

    /// # Errors
    /// If anything is left.
    pub(super) fn end(&self) -> Result<(), PlaceError> {
        match self.rest().chars().next() {
            None => Ok(()),
            Some(c) => Err(self.wrong(format!("unexpected `{}`", c.escape_debug()))),
        }
    }

    /// Takes characters while `of_kind` holds.
    pub(super) fn run(&mut self, of_kind: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !of_kind(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Reads the name of an axis, a column or a stage.
    ///
    /// # Errors
    /// If no name is next.
    pub(super) fn name(&mut self, what: &str) -> Result<String, PlaceError> {
        if self.rest().starts_with('"') {
            return self.string();
        }
        match self.run(in_name) {
            "" => Err(self.wrong(format!("expected the name of {what}"))),
            name => Ok(name.to_owned()),
        }
    }

    /// Reads a string quoted as in JSON.
    pub(super) fn string(&mut self) -> Result<String, PlaceError> {
        let rest = self.rest();
        let mut escaped = false;
        let closing = rest.char_indices().skip(1).find(|(_, c)| match c {
            _ if escaped => {
                escaped = false;
                false
            }
            '\\' => {
                escaped = true;
                false
            }
            c => *c == '"',
        });
        let (end, _) = closing.ok_or_else(|| self.wrong("the quote is never closed"))?;
        let text = serde_json::from_str(&rest[..=end])
            .map_err(|_| self.wrong(format!("{} is not quoted as in JSON", &rest[..=end])))?;
        self.at += end + 1;
        Ok(text)
    }

    fn label(&mut self) -> Result<Scalar, PlaceError> {
        if self.rest().starts_with('"') {
            return self.string().map(Scalar::Text);
        }
        let start = self.at;
        let word = self.run(in_word);
        let label = unquoted(word);
        label.ok_or_else(|| PlaceError {
            at: start,
            message: match word {
                "" => "expected a label".to_owned(),
                word => format!("`{word}` must be quoted"),
            },
        })
    }

    /// Reads `axis=label,axis=label`; an empty text is not valid coordinates.
    ///
    /// # Errors
    /// If an axis has no label, or more than one.
    pub(crate) fn coordinates(&mut self) -> Result<Coordinates, PlaceError> {
        let mut pairs: Vec<(String, Scalar)> = Vec::new();
        if !self.rest().starts_with(|c: char| in_name(c) || c == '"') {
            return Ok(Coordinates(pairs));
        }
        loop {
            let axis = self.name("an axis")?;
            if pairs.iter().any(|(earlier, _)| *earlier == axis) {
                return Err(self.wrong(format!("`{axis}` is named twice")));
            }
            self.expects('=')?;
            pairs.push((axis, self.label()?));
            if !self.takes(',') {
                return Ok(Coordinates(pairs));
            }
        }
    }

    /// Reads `column=label|label,column=label`; an empty text matches everything.
    ///
    /// # Errors
    /// If a column has no labels.
    pub(super) fn condition(&mut self) -> Result<Condition, PlaceError> {
        let mut pairs = Vec::new();
        if self.rest().is_empty() {
            return Ok(Condition(pairs));
        }
        loop {
            let column = self.name("a column")?;
            self.expects('=')?;
            let mut labels = Vec::new();
            if self.takes('(') {
                self.expects(')')?;
            } else {
                labels.push(self.label()?);
                while self.takes('|') {
                    labels.push(self.label()?);
                }
            }
            pairs.push((column, labels));
            if !self.takes(',') {
                return Ok(Condition(pairs));
            }
        }
    }
}
