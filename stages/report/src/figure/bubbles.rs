//! Trade-offs: one bubble per row, with a third column as its area.

use super::Plot;
use super::error::FigureError;
use super::frame::{Frame, axes, legend, range, titles};
use super::scale::{Scale, log_ticks, ticks};
use super::svg::{Anchor, Svg, WIDTH, letter};

const TOP: f64 = 62.0;
const HEIGHT: f64 = 320.0;
/// The radius of the largest bubble.
const LARGEST: f64 = 24.0;

/// A row with both coordinates and an area.
struct Bubble {
    at: (f64, f64),
    area: f64,
    row: usize,
}

pub(super) fn draw(plot: &Plot<'_>, svg: &mut Svg) -> Result<(), FigureError> {
    let settings = plot.settings;
    let y = settings
        .y
        .as_deref()
        .expect("checked: a bubble plot has `y`");
    let size = settings
        .value
        .as_deref()
        .expect("checked: a bubble plot has `value`");
    let series = plot.labels(settings.series.as_deref())?;
    let bubbles = bubbles(plot, y, size)?;
    legend(svg, &plot.named(settings.series.as_deref(), &series), None);
    let frame = Frame {
        left: 62.0,
        top: TOP,
        width: WIDTH - 72.0,
        height: HEIGHT,
    };
    let (right, bottom) = (frame.left + frame.width, TOP + HEIGHT);
    let (low, high) = range(bubbles.iter().map(|b| b.at.0));
    let (x, x_ticks) = across(&frame, (low, high), settings.log_x && low > 0.0);
    let (low, high) = range(bubbles.iter().map(|b| b.at.1));
    let y_ticks = ticks(low.min(0.0), high * 1.06, 5);
    let scale = Scale::linear(y_ticks[0], y_ticks[y_ticks.len() - 1], bottom, TOP);
    axes(svg, &frame, (&x, &x_ticks), (&scale, &y_ticks), true);
    let most = bubbles[0].area;
    let radius = |area: f64| {
        if most > 0.0 {
            (LARGEST * (area / most).sqrt()).max(3.0)
        } else {
            5.0
        }
    };
    let mut labels = Vec::new();
    for Bubble { at, area, row } in &bubbles {
        let own = plot.label(*row, settings.series.as_deref())?;
        let color = series.iter().position(|s| *s == own).unwrap_or(0);
        let place = (x.at(at.0), scale.at(at.1));
        let text = |value: f64, column: &str| {
            let label = plot.axis_label(None, column);
            format!("{label} {}", plot.written(value, column))
        };
        let values = [text(at.0, &settings.x), text(at.1, y), text(*area, size)].join(", ");
        let hover = format!("{}: {values}", plot.key(*row));
        let class = format!("bubble c{}", color % 6);
        svg.dot(place, radius(*area), &class, &plot.mark(*row), &hover);
        // The label beside the bubble distinguishes series without relying on colour.
        let label = plot.label(*row, settings.label.as_deref())?;
        let label = [own, label].join(" ").trim().to_owned();
        labels.push(Label {
            center: place,
            radius: radius(*area),
            text: label,
        });
    }
    name_bubbles(svg, &labels, (right, bottom));
    let rightward = x.titled(plot.axis_label(settings.x_label.as_deref(), &settings.x));
    let upward = plot.axis_label(settings.y_label.as_deref(), y);
    titles(svg, &frame, &rightward, &upward);
    let note = format!(
        "Area of a bubble: {}; the largest is {}.",
        plot.axis_label(None, size),
        plot.written(most, size)
    );
    svg.text(
        frame.left,
        bottom + 58.0,
        Anchor::Start,
        "small muted",
        &note,
    );
    svg.height = bottom + 68.0;
    Ok(())
}

/// Returns the horizontal scale for values between two ends, and its ticks.
fn across(frame: &Frame, (low, high): (f64, f64), logarithmic: bool) -> (Scale, Vec<f64>) {
    let right = frame.left + frame.width;
    if logarithmic {
        let (low, high) = (low / 1.3, high * 1.3);
        let scale = Scale::logarithmic(low, high, frame.left, right);
        return (scale, log_ticks(low, high));
    }
    let marks = ticks(low.min(0.0), high * 1.06, 8);
    let scale = Scale::linear(marks[0], marks[marks.len() - 1], frame.left, right);
    (scale, marks)
}

/// The text beside a bubble.
struct Label {
    center: (f64, f64),
    radius: f64,
    text: String,
}

/// Writes the labels beside their bubbles. A label moves up or down until it overlaps nothing. If it does not fit, only
/// the bubble names its row.
fn name_bubbles(svg: &mut Svg, labels: &[Label], (right, bottom): (f64, f64)) {
    let mut taken: Vec<[f64; 4]> = Vec::new();
    for Label {
        center: (x, y),
        radius,
        text,
    } in labels
    {
        let wide = letter("small") * text.chars().count() as f64;
        let (after, before) = (right - x - radius - 4.0, x - radius - 4.0);
        let (at, anchor, room) = if wide <= after || after >= before {
            (x + radius + 4.0, Anchor::Start, after)
        } else {
            (x - radius - 4.0, Anchor::End, before)
        };
        let wide = wide.min(room);
        let from = match anchor {
            Anchor::End => at - wide,
            _ => at,
        };
        let place = [0.0, -12.0, 12.0, -24.0, 24.0].into_iter().find_map(|by| {
            let own = [from, y + by - 5.0, from + wide, y + by + 6.0];
            let meets =
                |[l, t, r, b]: &[f64; 4]| *l < own[2] && own[0] < *r && *t < own[3] && own[1] < *b;
            let outside = own[1] < TOP || own[3] > bottom;
            (!outside && !taken.iter().any(meets)).then_some(own)
        });
        if let Some(own) = place {
            taken.push(own);
            svg.label((at, own[1] + 9.0), anchor, "small", text, room);
        }
    }
}

/// The bubbles in the order of drawing: small ones last, so that none is hidden; equal ones keep their order.
fn bubbles(plot: &Plot<'_>, y: &str, size: &str) -> Result<Vec<Bubble>, FigureError> {
    let mut bubbles = Vec::new();
    for row in 0..plot.view.rows.len() {
        let place = plot.number(row, &plot.settings.x)?;
        let place = place.zip(plot.number(row, y)?);
        let (Some(at), Some(area)) = (place, plot.number(row, size)?) else {
            continue;
        };
        if area < 0.0 {
            let because = "an area cannot be negative";
            return Err(FigureError::out_of_range(size, area, because));
        }
        bubbles.push(Bubble { at, area, row });
    }
    if bubbles.is_empty() {
        return Err(FigureError::nothing_with("both coordinates and an area"));
    }
    bubbles.sort_by(|a, b| b.area.total_cmp(&a.area).then(a.row.cmp(&b.row)));
    Ok(bubbles)
}
