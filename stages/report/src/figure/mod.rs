//! Figures: SVG made from the same artifacts as the tables beside them, and reproducible byte for byte.
//!
//! Every mark carries `data-row`, the row of the table that `data-table` on the root names. The colours can be
//! distinguished with any colour vision, and follow the reader's dark mode. Series never differ in colour alone: their
//! markers also differ. Lines with too many points for markers have a few.

mod bars;
mod boxes;
mod bubbles;
mod curves;
mod error;
mod fitted;
mod forest;
mod frame;
mod grid;
mod scale;
mod scatter;
mod svg;
mod timeline;

use artifacts::{Digest, Scalar};
use pipeline::place::Condition;

use crate::data::{Data, Miss};
use crate::footnotes::Lacks;
use crate::format::format_value;
use crate::language::declared;
use crate::settings::{FigureKind, FigureSettings};
use crate::view::View;
use svg::Svg;

pub(crate) use error::FigureError;
pub(crate) use svg::scoped_style;
#[cfg(test)]
pub(crate) use svg::{DARK, LIGHT};

/// A drawn figure.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// The name.
    pub name: String,
    /// The standalone picture.
    pub svg: String,
    /// The table that it shows, as `stage.output`.
    pub table: String,
    /// The table's digests: one for each cell of its stage.
    pub digests: Vec<Digest>,
}

impl Drawn {
    /// Returns the picture for embedding in a page with the style and other pictures: without its own style and
    /// background, and with unique ids.
    pub(crate) fn inline(&self, id: &str) -> String {
        // A quote inside a text is written as an entity, so each of these occurs only once.
        let svg = self.svg.replacen(
            "aria-labelledby=\"t d\"",
            &format!("aria-labelledby=\"{id}-t {id}-d\""),
            1,
        );
        let svg = svg.replacen("id=\"t\"", &format!("id=\"{id}-t\""), 1);
        let svg = svg.replacen("id=\"d\"", &format!("id=\"{id}-d\""), 1);
        let ends = format!("</style>\n{}", svg::PAGE);
        let style = svg.find("<style>").zip(svg.find(&ends));
        match style {
            Some((from, to)) => format!("{}{}", &svg[..from], &svg[to + ends.len()..]),
            None => svg,
        }
    }
}

/// Draws a figure, and returns it with the digests of its table.
///
/// # Errors
/// If the table lacks a column, or no row can be drawn.
pub(crate) fn draw(
    data: &Data,
    settings: &FigureSettings,
    lacks: &Lacks,
    (title, caption): (&str, &str),
) -> Result<(String, Vec<Digest>), FigureError> {
    let view = data.view(&settings.table, &declared(&settings.only))?;
    // Simulated rows are complete, so a condition that selects none of them is a mistake. Of measured rows, gates may have
    // excluded all.
    if view.rows.is_empty() && data.is_rehearsal() {
        return Err(no_rows(&view, settings));
    }
    let digests: Vec<Digest> = view.table.parts.iter().map(|p| p.digest).collect();
    if let Some(reason) = without_values(&view, settings) {
        return Ok((empty((title, caption), &reason, &digests), digests));
    }
    let plot = Plot {
        view: &view,
        settings,
        lacks,
    };
    let mut svg = Svg::new(title, caption);
    match settings.kind {
        FigureKind::Ladder | FigureKind::Ecdf => curves::draw(&plot, &mut svg)?,
        FigureKind::HeatMap => grid::draw(&plot, &mut svg)?,
        FigureKind::Matrix => grid::matrix(&plot, &mut svg)?,
        FigureKind::Bar => bars::draw(&plot, &mut svg)?,
        FigureKind::Box => boxes::draw(&plot, &mut svg)?,
        FigureKind::Bubble => bubbles::draw(&plot, &mut svg)?,
        FigureKind::Scatter => scatter::draw(&plot, &mut svg)?,
        FigureKind::Timeline => timeline::draw(&plot, &mut svg)?,
        FigureKind::Fit => {
            let name = settings.fit.as_deref().expect("checked: a fit has `fit`");
            let fit = data
                .view(name, &declared(&settings.only))
                .or_else(|miss| match miss {
                    // The condition may use a column that only the points have.
                    Miss::Wrong(_) => data.view(name, &Condition::default()),
                    miss @ Miss::Unread => Err(miss),
                });
            fitted::draw(&plot, &fit?, &mut svg)?;
        }
        FigureKind::Forest => forest::draw(&plot, &mut svg)?,
    }
    let names: Vec<_> = digests.iter().map(ToString::to_string).collect();
    Ok((svg.finish(&names), digests))
}

/// Returns the reason why a figure has nothing to draw: its table has no rows, because gates excluded the cells or they
/// failed; or all values are unknown, such as those of a GPU on a machine without one.
pub(crate) fn without_values(view: &View, settings: &FigureSettings) -> Option<String> {
    if view.rows.is_empty() {
        return Some(no_rows(view, settings).to_string());
    }
    let rows = || 0..view.rows.len();
    let needed = needed_values(settings);
    let unknown = |column: &&&str| !rows().any(|row| has_all(view, row, &[**column]));
    if let Some(column) = needed.iter().find(unknown) {
        return Some(format!("no row has a value of `{column}`"));
    }
    let nothing = !needed.is_empty() && !rows().any(|row| has_all(view, row, &needed));
    nothing.then(|| format!("no row has values of `{}`", needed.join("` and `")))
}

/// Returns whether a row has a value in each of some columns.
fn has_all(view: &View, row: usize, columns: &[&str]) -> bool {
    let is_known = |column: &&str| !matches!(view.get(row, column), Ok(Scalar::Null));
    columns.iter().all(is_known)
}

/// Returns the columns whose values a row needs for a mark.
fn needed_values(settings: &FigureSettings) -> Vec<&str> {
    let (x, y) = (Some(settings.x.as_str()), settings.y.as_deref());
    let columns = match settings.kind {
        FigureKind::Ladder | FigureKind::Scatter | FigureKind::Fit | FigureKind::Timeline => {
            [y, x, None]
        }
        FigureKind::Bubble => [y, x, settings.value.as_deref()],
        FigureKind::Ecdf => [x, None, None],
        FigureKind::Bar
        | FigureKind::Box
        | FigureKind::HeatMap
        | FigureKind::Matrix
        | FigureKind::Forest => [y, None, None],
    };
    columns.into_iter().flatten().collect()
}

fn no_rows(view: &View, settings: &FigureSettings) -> FigureError {
    FigureError::NoRows {
        table: settings.table.clone(),
        narrowed: view.table.parts.iter().any(|part| part.content.rows() > 0),
    }
}

/// Draws an empty figure with the reason.
pub(crate) fn empty((title, caption): (&str, &str), reason: &str, digests: &[Digest]) -> String {
    let mut svg = Svg::new(title, caption);
    let text = format!("No data: {}", reason.replace('`', ""));
    svg.paragraph(
        (svg::WIDTH / 2.0, 56.0),
        svg::Anchor::Middle,
        "muted",
        &text,
    );
    svg.height = 88.0;
    let names: Vec<_> = digests.iter().map(ToString::to_string).collect();
    svg.finish(&names)
}

/// Describes how a figure marks missing data; `None` if nothing is missing, or if its kind has no such mark.
///
/// # Errors
/// If the table lacks a column of the figure.
pub(crate) fn marks_of(
    view: &View,
    settings: &FigureSettings,
    lacks: &Lacks,
) -> Result<String, FigureError> {
    let plot = Plot {
        view,
        settings,
        lacks,
    };
    let mut text = String::new();
    if settings.kind == FigureKind::Ladder && !lacks.partial.is_empty() {
        text.push_str(" Hollow mark: cells are missing from it.");
    }
    let gaps = match settings.kind {
        FigureKind::Ladder => !curves::gaps(&plot)?.is_empty(),
        FigureKind::Bar => bars::has_gaps(&plot)?,
        FigureKind::HeatMap | FigureKind::Matrix => grid::has_gaps(&plot)?,
        _ => false,
    };
    if gaps {
        text.push_str(" Cross: no value.");
    }
    // A distribution of latencies has only the requests that were answered, for instance.
    let is_silent = match settings.kind {
        FigureKind::Ecdf
        | FigureKind::Box
        | FigureKind::Bubble
        | FigureKind::Scatter
        | FigureKind::Fit => true,
        FigureKind::Ladder
        | FigureKind::Bar
        | FigureKind::HeatMap
        | FigureKind::Matrix
        | FigureKind::Forest
        | FigureKind::Timeline => false,
    };
    let needed = needed_values(settings);
    if is_silent && (0..view.rows.len()).any(|row| !has_all(view, row, &needed)) {
        text.push_str(" Rows without a value are left out.");
    }
    if settings.frontier.is_some() {
        text.push_str(" Dashed line: the frontier. Hollow mark: off the frontier.");
    }
    Ok(text)
}

/// A table and the settings to draw it.
pub(super) struct Plot<'a> {
    view: &'a View,
    settings: &'a FigureSettings,
    lacks: &'a Lacks,
}

impl Plot<'_> {
    fn scalar(&self, row: usize, column: &str) -> Result<Scalar, FigureError> {
        Ok(self.view.get(row, column)?)
    }

    fn number(&self, row: usize, column: &str) -> Result<Option<f64>, FigureError> {
        match self.scalar(row, column)? {
            Scalar::Null => Ok(None),
            value => {
                let number = value.as_f64().filter(|v| v.is_finite());
                number.map(Some).ok_or_else(|| FigureError::NotANumber {
                    column: column.to_owned(),
                    value: value.to_string(),
                })
            }
        }
    }

    fn label(&self, row: usize, column: Option<&str>) -> Result<String, FigureError> {
        column.map_or(Ok(String::new()), |c| {
            self.scalar(row, c).map(|v| v.to_string())
        })
    }

    /// The distinct values of a column in the order of the rows; a single empty label if `column` is `None`.
    fn labels(&self, column: Option<&str>) -> Result<Vec<String>, FigureError> {
        let mut labels: Vec<String> = Vec::new();
        for row in 0..self.view.rows.len() {
            let label = self.label(row, column)?;
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        Ok(labels)
    }

    /// Labels of a column for a legend or a panel; empty if `column` is `None`. A bare number gets the name of its
    /// column, without which it means nothing.
    fn named(&self, column: Option<&str>, labels: &[String]) -> Vec<String> {
        let Some(column) = column else {
            return Vec::new();
        };
        let bare = labels.iter().all(|label| label.parse::<f64>().is_ok());
        let name = |label: &String| {
            if bare {
                format!("{column} {label}")
            } else {
                label.clone()
            }
        };
        labels.iter().map(name).collect()
    }

    /// The value of `data-row` for a chosen row: its row in the artifact, preceded by the artifact if there are
    /// several.
    fn mark(&self, row: usize) -> String {
        let (part, at) = self.view.rows[row];
        if self.view.table.parts.len() == 1 {
            at.to_string()
        } else {
            format!("{part}:{at}")
        }
    }

    /// A value of a column as text, in the figure's format if that fits.
    fn written(&self, value: f64, column: &str) -> String {
        let unit = self.view.table.unit(column);
        let scalar = Scalar::Float(value);
        let plain = || format_value(&scalar, unit.as_deref(), "", "");
        format_value(&scalar, unit.as_deref(), &self.settings.format, "")
            .or_else(|_| plain())
            .unwrap_or_else(|_| value.to_string())
    }

    /// The row's key, for the tooltip of its mark.
    fn key(&self, row: usize) -> String {
        match self.view.row_key(row) {
            key if key.0.is_empty() => self.view.row_name(row),
            key => format!("{key:#}"),
        }
    }

    /// The title of an axis: the column's name and unit, as in the headings of tables.
    fn axis_label(&self, given: Option<&str>, column: &str) -> String {
        let unit = self.view.table.unit(column);
        let words = crate::tables::named(self.view, column);
        match (given, unit.as_deref()) {
            (Some(label), _) => label.to_owned(),
            (None, None | Some("1")) => words,
            (None, Some(unit)) => format!("{words} ({unit})"),
        }
    }
}
