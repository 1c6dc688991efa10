//! The common parts of panels: position, axes and legend.

use super::scale::{Scale, power_text, tick_text};
use super::svg::{Anchor, Svg, WIDTH, letter};

/// The position of a panel.
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// Writes the titles of a panel's axes: one below it, one at the left of the figure.
pub(super) fn titles(svg: &mut Svg, frame: &Frame, across: &str, upward: &str) {
    let (middle, bottom) = (frame.left + frame.width / 2.0, frame.top + frame.height);
    svg.label((middle, bottom + 38.0), Anchor::Middle, "", across, WIDTH);
    svg.vertical_text(12.0, frame.top + frame.height / 2.0, upward, frame.height);
}

/// The smallest and the largest value.
pub(super) fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
        (low.min(v), high.max(v))
    })
}

/// The width of a legend's line and of the spaces around its name.
const LINE: f64 = 44.0;

/// The most series whose names are shortened to fit into one row; more of them take two.
const IN_A_ROW: usize = 4;

/// Returns the largest width of a name such that all names fit into a row: the long ones are shortened, and the others
/// keep theirs.
fn room_for(names: &[f64], row: f64) -> f64 {
    let mut sorted = names.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut left = row;
    for (number, width) in sorted.iter().enumerate() {
        let share = left / (sorted.len() - number) as f64;
        if *width > share {
            return share;
        }
        left -= width;
    }
    f64::INFINITY
}

/// The rows of a legend for which a figure has room above its plot.
const ROWS: usize = 2;

/// Draws a legend line for each series and for the reference, and returns the number of rows that they take. The plot
/// moves down if these are more than two.
pub(super) fn legend(svg: &mut Svg, series: &[String], reference: Option<&str>) -> usize {
    let (mut x, mut y, mut rows) = (52.0, 34.0, 1);
    let wide = |name: &str| letter("") * name.chars().count() as f64;
    let widths: Vec<f64> = series.iter().map(|name| wide(name)).collect();
    let beside = reference.map_or(0.0, |name| LINE + wide(name));
    let row = WIDTH - x - beside - LINE * series.len() as f64;
    let most = match series.len() <= IN_A_ROW {
        true => room_for(&widths, row),
        false => f64::INFINITY,
    };
    for (number, (name, own)) in series.iter().zip(widths).enumerate() {
        let width = LINE + own.min(most);
        if x + width > WIDTH + 0.01 && x > 52.0 {
            (x, y, rows) = (52.0, y + 17.0, rows + 1);
        }
        svg.line((x, y), (x + 22.0, y), &format!("line c{}", number % 6));
        svg.mark(x + 11.0, y, number, "", "");
        let at = (x + 28.0, y + 4.0);
        let room = (WIDTH - x - 28.0).min(most);
        svg.label(at, Anchor::Start, "", name, room);
        x += width;
    }
    if let Some(name) = reference {
        if x + beside > WIDTH + 0.01 && x > 52.0 {
            (x, y, rows) = (52.0, y + 17.0, rows + 1);
        }
        svg.line((x, y), (x + 22.0, y), "reference");
        svg.label(
            (x + 28.0, y + 4.0),
            Anchor::Start,
            "",
            name,
            WIDTH - x - 28.0,
        );
    }
    if rows > ROWS {
        svg.lower(17.0 * (rows - ROWS) as f64);
    }
    rows
}

/// The text of a tick at the side, in thousands, millions and so on from 10,000, since a longer text would overlap the
/// title of its axis.
fn short(tick: f64, all: &[f64]) -> String {
    let sizes = || all.iter().map(|t| t.abs()).filter(|size| *size > 0.0);
    let largest = sizes().fold(0.0, f64::max);
    // The numbers of a logarithmic axis have no unit in common.
    if all.len() > 1 && sizes().fold(f64::INFINITY, f64::min) * 1e3 <= largest {
        return short(tick, &[tick]);
    }
    let (by, suffix) = match largest {
        most if most >= 1e16 => return power_text(tick),
        most if most >= 1e13 => (1e12, "T"),
        most if most >= 1e10 => (1e9, "G"),
        most if most >= 1e7 => (1e6, "M"),
        most if most >= 1e4 => (1e3, "k"),
        _ => return tick_text(tick, all),
    };
    let scaled: Vec<f64> = all.iter().map(|t| t / by).collect();
    if tick == 0.0 {
        return "0".to_owned();
    }
    tick_text(tick / by, &scaled) + suffix
}

/// Draws the grid, ticks and axis of a panel, and the numbers of the vertical axis if `labelled`.
pub(super) fn axes(
    svg: &mut Svg,
    frame: &Frame,
    x: (&Scale, &[f64]),
    y: (&Scale, &[f64]),
    labelled: bool,
) {
    let (right, bottom) = (frame.left + frame.width, frame.top + frame.height);
    // A number that would overlap the one before is omitted; its tick stays.
    let mut free = f64::INFINITY;
    for tick in y.1 {
        let at = y.0.at(*tick);
        svg.line((frame.left, at), (right, at), "grid");
        if labelled && at <= free {
            free = at - 11.0;
            svg.text(
                frame.left - 6.0,
                at + 4.0,
                Anchor::End,
                "small muted",
                &short(*tick, y.1),
            );
        }
    }
    svg.line((frame.left, bottom), (right, bottom), "axis");
    let mut free = f64::NEG_INFINITY;
    for tick in x.1 {
        let at = x.0.at(*tick);
        svg.line((at, bottom), (at, bottom + 5.0), "axis");
        let text = match tick_text(*tick, &[*tick]) {
            text if text.len() > 6 => short(*tick, &[*tick]),
            text => text,
        };
        // The last tick may be at the edge of the figure.
        let half = letter("small") * text.chars().count() as f64 / 2.0;
        let at = at.min(WIDTH - half);
        if at - half >= free {
            svg.text(at, bottom + 18.0, Anchor::Middle, "small muted", &text);
            free = at + half + 1.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_of_a_legend_share_what_the_short_ones_leave() {
        assert_eq!(room_for(&[50.0, 60.0], 200.0), f64::INFINITY);
        assert_eq!(room_for(&[50.0, 500.0, 60.0], 400.0), 290.0);
        assert_eq!(room_for(&[500.0, 500.0], 400.0), 200.0);
        assert_eq!(room_for(&[], 400.0), f64::INFINITY);
    }

    #[test]
    fn a_plot_moves_below_a_legend_of_many_rows() {
        let names = |count: usize| -> Vec<String> {
            (0..count)
                .map(|i| format!("llama-3.1-70b-instruct-variant-{i:02}"))
                .collect()
        };
        let mut svg = Svg::new("t", "d");
        assert_eq!(legend(&mut svg, &names(4), None), 1);
        assert!(!svg.finish(&[]).contains("translate"));
        let mut svg = Svg::new("t", "d");
        assert_eq!(legend(&mut svg, &names(10), Some("reference")), 5);
        svg.height = 100.0;
        let drawn = svg.finish(&[]);
        assert!(
            drawn.contains("<g transform=\"translate(0 51)\">"),
            "{drawn}"
        );
        assert!(
            drawn.contains("height=\"151\"") && drawn.ends_with("</g>\n</svg>\n"),
            "{drawn}"
        );
    }

    #[test]
    fn numbers_from_ten_thousand_on_are_short() {
        let texts = |ticks: &[f64]| -> Vec<String> {
            ticks.iter().map(|tick| short(*tick, ticks)).collect()
        };
        assert_eq!(texts(&[0.0, 2500.0, 5000.0]), ["0", "2500", "5000"]);
        assert_eq!(texts(&[0.0, 5000.0, 10_000.0]), ["0", "5k", "10k"]);
        assert_eq!(texts(&[0.0, 12_500.0, 25_000.0]), ["0", "12.5k", "25.0k"]);
        assert_eq!(texts(&[-2e7, 0.0, 2e7]), ["\u{2212}20M", "0", "20M"]);
        assert_eq!(texts(&[0.0, 1e11, 3e11]), ["0", "100G", "300G"]);
        assert_eq!(texts(&[0.0, 2e16]), ["0", "2e16"]);
        // Those of a logarithmic axis.
        assert_eq!(
            texts(&[0.5, 1.0, 5000.0, 20_000.0]),
            ["0.5", "1", "5000", "20k"]
        );
    }
}
