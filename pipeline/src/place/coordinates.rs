//! Coordinates, and the names of cells.

use std::fmt;
use std::str::FromStr;

use artifacts::Scalar;
use serde::{Deserialize, Serialize};

use super::label::{plain_label, push_label, push_name};
use super::{PlaceError, Reader};

/// The coordinates of a cell: axis names and labels, in the axes' declaration order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Coordinates(pub Vec<(String, Scalar)>);

impl Coordinates {
    /// Returns the label on an axis.
    pub fn get(&self, axis: &str) -> Option<&Scalar> {
        let pair = self.0.iter().find(|(name, _)| name == axis);
        pair.map(|(_, label)| label)
    }

    /// Returns the names of the axes.
    pub fn axes(&self) -> Vec<String> {
        self.0.iter().map(|(axis, _)| axis.clone()).collect()
    }

    /// Returns the labels, in the order of the axes.
    pub fn labels(&self) -> Vec<Scalar> {
        self.0.iter().map(|(_, label)| label.clone()).collect()
    }

    /// Returns the coordinates as text that depends neither on the order of the axes nor on whether 0 is written as 0.0.
    pub fn canonical(&self) -> String {
        let mut pairs = self.0.clone();
        for (_, label) in &mut pairs {
            *label = plain_label(label.clone());
        }
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        Self(pairs).to_string()
    }

    /// Returns the canonical form of coordinates that are already text. A text that is none stays as it is.
    pub fn canonical_text(text: &str) -> String {
        text.parse()
            .map_or_else(|_| text.to_owned(), |at: Self| at.canonical())
    }

    /// Returns the coordinates without the selected axes.
    #[must_use]
    pub fn without(&self, left_out: impl Fn(&str) -> bool) -> Self {
        let rest = self.0.iter().filter(|(axis, _)| !left_out(axis));
        Self(rest.cloned().collect())
    }
}

impl fmt::Display for Coordinates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for (axis, label) in &self.0 {
            if !text.is_empty() {
                text.push(',');
            }
            push_name(&mut text, axis);
            text.push('=');
            push_label(&mut text, label);
        }
        f.write_str(&text)
    }
}

impl FromStr for Coordinates {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let mut reader = Reader::new(text);
        let coordinates = reader.coordinates()?;
        reader.end()?;
        Ok(coordinates)
    }
}

/// A cell: a stage and coordinates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellName {
    /// The stage.
    pub stage: String,
    /// The coordinates; empty for a stage without axes.
    pub coordinates: Coordinates,
}

impl CellName {
    /// Returns the cell in its written form.
    pub fn written(&self) -> WrittenCell {
        WrittenCell {
            stage: self.stage.clone(),
            coordinates: self.coordinates.to_string(),
        }
    }
}

impl fmt::Display for CellName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.written().fmt(f)
    }
}

impl FromStr for CellName {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let mut reader = Reader::new(text);
        let stage = reader.name("a stage")?;
        let mut coordinates = Coordinates::default();
        if reader.takes('[') {
            coordinates = reader.coordinates()?;
            reader.expects(']')?;
        }
        reader.end()?;
        Ok(Self { stage, coordinates })
    }
}

/// A cell in its written form: the stage, and the coordinates in their canonical spelling. Two are equal exactly if
/// they are the same cell, so it can be a map key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WrittenCell<T = String> {
    /// The stage's name.
    pub stage: T,
    /// The coordinates as text; empty for a stage without axes.
    pub coordinates: T,
}

impl<T: AsRef<str>> WrittenCell<T> {
    /// Returns the cell with borrowed texts.
    pub fn as_ref(&self) -> WrittenCell<&str> {
        WrittenCell {
            stage: self.stage.as_ref(),
            coordinates: self.coordinates.as_ref(),
        }
    }
}

impl WrittenCell<&str> {
    /// Returns the cell with owned texts.
    pub fn to_owned(self) -> WrittenCell {
        WrittenCell {
            stage: self.stage.to_owned(),
            coordinates: self.coordinates.to_owned(),
        }
    }
}

impl<T: AsRef<str>> fmt::Display for WrittenCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&cell_text(self.stage.as_ref(), self.coordinates.as_ref()))
    }
}

/// Formats a cell: the stage, and its already formatted coordinates, if any.
pub fn cell_text(stage: &str, coordinates: &str) -> String {
    let mut text = String::with_capacity(stage.len() + coordinates.len() + 2);
    push_name(&mut text, stage);
    if !coordinates.is_empty() {
        text.push('[');
        text.push_str(coordinates);
        text.push(']');
    }
    text
}
