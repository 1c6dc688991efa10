//! Patterns that name cells on the command line.

use std::str::FromStr;

use artifacts::Scalar;

use super::label::unquoted;
use super::{Coordinates, PlaceError, Reader, same_label};
use crate::suggest;

/// A pattern over cells, `ladder`, `ladder[clients=8,rep=1]`, `ladder[rep=1|2].requests`: a stage,
/// labels of some of its axes, and possibly an output.
///
/// A label needs no quotes unless it contains `,`, `|`, `]` or a quote. A number or a word such as `true` stands for
/// that value, or, if no cell has the value, for the text with these letters.
#[derive(Clone, Debug, PartialEq)]
pub struct CellPattern {
    /// The stage.
    pub stage: String,
    /// The named axes, each with labels; a cell must have one of them.
    axes: Vec<(String, Vec<Wanted>)>,
    /// The output's name.
    pub output: Option<String>,
}

/// A label as typed.
#[derive(Clone, Debug, PartialEq)]
struct Wanted {
    label: Scalar,
    /// The letters as typed; `None` if they were quoted.
    letters: Option<String>,
}

impl Wanted {
    fn is_like(&self, label: &Scalar) -> bool {
        let text = |letters: &String| label.as_str() == Some(letters);
        same_label(&self.label, label) || self.letters.as_ref().is_some_and(text)
    }
}

impl CellPattern {
    /// Returns the pattern for all cells of a stage.
    pub fn of_stage(stage: &str) -> Self {
        Self {
            stage: stage.to_owned(),
            axes: Vec::new(),
            output: None,
        }
    }

    /// Returns the named axes.
    pub fn axes(&self) -> impl Iterator<Item = &str> {
        self.axes.iter().map(|(axis, _)| axis.as_str())
    }

    /// Returns the positions of the matching cells. Exact labels come first: only if no cell has them are labels
    /// compared as numbers and by their letters.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "iterators are passed by value, as everywhere"
    )]
    pub fn find<'a>(&self, cells: impl Iterator<Item = &'a Coordinates> + Clone) -> Vec<usize> {
        let exactly = |wanted: &Wanted, label: &Scalar| wanted.label == *label;
        let positions = |is: &dyn Fn(&Wanted, &Scalar) -> bool| -> Vec<usize> {
            let cells = cells.clone().enumerate();
            cells
                .filter(|(_, cell)| self.holds(cell, is))
                .map(|(i, _)| i)
                .collect()
        };
        let exact = positions(&exactly);
        if exact.is_empty() {
            positions(&Wanted::is_like)
        } else {
            exact
        }
    }

    /// Returns the remedy for a pattern that matches none of the cells of its stage: names an axis that they lack, or
    /// the labels that an axis has.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "iterators are passed by value, as everywhere"
    )]
    pub fn remedy<'a>(
        &self,
        cells: impl Iterator<Item = &'a Coordinates> + Clone,
    ) -> Option<String> {
        let labels_of = |axis: &str| -> Vec<String> {
            let mut labels: Vec<String> = Vec::new();
            for label in cells.clone().filter_map(|cell| cell.get(axis)) {
                let label = label.to_string();
                if !labels.contains(&label) {
                    labels.push(label);
                }
            }
            labels
        };
        let axes = cells
            .clone()
            .next()?
            .0
            .iter()
            .map(|(axis, _)| axis.as_str());
        let axes: Vec<&str> = axes.collect();
        self.axes.iter().find_map(|(axis, wanted)| {
            let labels = labels_of(axis);
            if labels.is_empty() {
                let remedy = match axes.is_empty() {
                    true => "it has none".to_owned(),
                    false => suggest::remedy(axis, "axes", axes.iter().copied()),
                };
                return Some(format!("`{}` has no axis `{axis}`: {remedy}", self.stage));
            }
            let is_wanted = |cell: &Coordinates| {
                cell.get(axis)
                    .is_some_and(|label| wanted.iter().any(|w| w.is_like(label)))
            };
            (!cells.clone().any(is_wanted)).then(|| {
                format!(
                    "the labels of `{axis}` are {}",
                    suggest::list(labels.iter().map(String::as_str))
                )
            })
        })
    }

    fn holds(&self, cell: &Coordinates, is: &dyn Fn(&Wanted, &Scalar) -> bool) -> bool {
        self.axes.iter().all(|(axis, wanted)| {
            cell.get(axis)
                .is_some_and(|label| wanted.iter().any(|w| is(w, label)))
        })
    }
}

impl FromStr for CellPattern {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let mut reader = Reader::new(text);
        let stage = reader.name("a stage")?;
        let mut axes = Vec::new();
        if reader.takes('[') {
            reader.skips_spaces();
            while !reader.takes(']') {
                axes.push(pair(&mut reader)?);
                if !reader.takes(',') {
                    reader.expects(']')?;
                    break;
                }
                reader.skips_spaces();
            }
        }
        let output = if reader.takes('.') {
            let name = reader.run(|_| true);
            if name.is_empty() {
                return Err(PlaceError {
                    at: text.len(),
                    message: "expected the name of an output".to_owned(),
                });
            }
            Some(name.to_owned())
        } else {
            reader.end()?;
            None
        };
        Ok(Self {
            stage,
            axes,
            output,
        })
    }
}

fn pair(reader: &mut Reader<'_>) -> Result<(String, Vec<Wanted>), PlaceError> {
    let axis = reader.name("an axis")?;
    reader.skips_spaces();
    reader.expects('=')?;
    let mut labels = vec![wanted(reader)?];
    while reader.takes('|') {
        labels.push(wanted(reader)?);
    }
    Ok((axis, labels))
}

fn wanted(reader: &mut Reader<'_>) -> Result<Wanted, PlaceError> {
    reader.skips_spaces();
    if reader.rest().starts_with('"') {
        let label = Scalar::Text(reader.string()?);
        reader.skips_spaces();
        return Ok(Wanted {
            label,
            letters: None,
        });
    }
    let letters = reader
        .run(|c| !matches!(c, ',' | '|' | ']' | '"'))
        .trim_end();
    Ok(Wanted {
        label: unquoted(letters).unwrap_or_else(|| Scalar::Text(letters.to_owned())),
        letters: Some(letters.to_owned()),
    })
}
