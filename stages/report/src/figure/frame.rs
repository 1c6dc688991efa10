//! What panels share: their place, axes and legend.

use super::scale::{Scale, tick_text};
use super::svg::{Anchor, Svg, WIDTH};

/// The place of a panel.
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// The least and the largest value.
pub(super) fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
        (low.min(v), high.max(v))
    })
}

/// Draws a line for each series, and one for the reference, into one or two rows.
pub(super) fn legend(svg: &mut Svg, series: &[String], reference: Option<&str>) {
    let (mut x, mut y) = (52.0, 34.0);
    for (number, name) in series.iter().enumerate() {
        let width = 44.0 + 7.0 * name.chars().count() as f64;
        if x + width > WIDTH && x > 52.0 {
            (x, y) = (52.0, y + 17.0);
        }
        svg.line((x, y), (x + 22.0, y), &format!("line c{}", number % 6));
        svg.mark(x + 11.0, y, number, "", "");
        svg.text(x + 28.0, y + 4.0, Anchor::Start, "", name);
        x += width;
    }
    if let Some(name) = reference {
        svg.line((x, y), (x + 22.0, y), "reference");
        svg.text(x + 28.0, y + 4.0, Anchor::Start, "", name);
    }
}

/// Draws grid, ticks and axis of a panel; the numbers of the vertical axis if `labelled`.
pub(super) fn axes(
    svg: &mut Svg,
    frame: &Frame,
    x: (&Scale, &[f64]),
    y: (&Scale, &[f64]),
    labelled: bool,
) {
    let (right, bottom) = (frame.left + frame.width, frame.top + frame.height);
    for tick in y.1 {
        let at = y.0.at(*tick);
        svg.line((frame.left, at), (right, at), "grid");
        if labelled {
            svg.text(
                frame.left - 6.0,
                at + 4.0,
                Anchor::End,
                "small muted",
                &tick_text(*tick, y.1),
            );
        }
    }
    svg.line((frame.left, bottom), (right, bottom), "axis");
    for tick in x.1 {
        let at = x.0.at(*tick);
        svg.line((at, bottom), (at, bottom + 5.0), "axis");
        let text = match tick_text(*tick, &[*tick]) {
            text if text.len() > 6 && *tick >= 1000.0 => {
                format!("{}k", tick_text(tick / 1000.0, &[tick / 1000.0]))
            }
            text => text,
        };
        svg.text(at, bottom + 18.0, Anchor::Middle, "small muted", &text);
    }
}
