//! The figure of `history`: a line over the commits for each series, with new levels marked.

use std::fmt::Write as _;

use load::escaped;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 70.0;

/// Colours that people with any type of colour vision can distinguish (Okabe and Ito, 2008).
const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444",
];

/// A series.
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    /// The position of each commit and the value.
    pub(super) points: Vec<(usize, f64)>,
    /// The positions at which a new level begins.
    pub(super) breaks: Vec<usize>,
}

/// Returns the figure as SVG. The value axis begins at 0 if no value is below 0.
pub(super) fn drawn(label: &str, ticks: &[&str], lines: &[Line<'_>]) -> String {
    let values = || {
        lines
            .iter()
            .flat_map(|line| line.points.iter().map(|(_, v)| *v))
    };
    let (least, most) = (values().fold(0.0, f64::min), values().fold(0.0, f64::max));
    let span = if most > least { most - least } else { 1.0 };
    let steps = ticks.len().saturating_sub(1).max(1) as f64;
    let x = |i: usize| LEFT + 15.0 + (WIDTH - LEFT - RIGHT - 30.0) * i as f64 / steps;
    let y = |v: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (v - least) / span;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"11\" role=\"img\">\n<title>{0}</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{0}</text>\n",
        escaped(label)
    );
    let mut add = |line: String| {
        // Writing to a string never fails.
        let _written = writeln!(svg, "{line}");
    };
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let value = least + span * share;
        add(format!(
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{1:.1}\" y2=\"{1:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{2:.1}\" y=\"{3:.1}\" text-anchor=\"end\">{4}</text>",
            WIDTH - RIGHT,
            y(value),
            LEFT - 6.0,
            y(value) + 4.0,
            rounded(value)
        ));
    }
    // Ten commit names fit next to each other.
    let every = ticks.len().div_ceil(10).max(1);
    for (i, tick) in ticks.iter().enumerate().step_by(every) {
        add(format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            x(i),
            HEIGHT - BOTTOM + 18.0,
            escaped(tick)
        ));
    }
    for (k, line) in lines.iter().enumerate() {
        let colour = COLOURS[k % COLOURS.len()];
        let mut path = String::new();
        for (i, value) in &line.points {
            let word = if path.is_empty() { 'M' } else { 'L' };
            let _written = write!(path, "{word}{:.1} {:.1}", x(*i), y(*value));
            let radius = if line.breaks.contains(i) { 6.0 } else { 3.0 };
            add(format!(
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\" fill=\"{colour}\"/>",
                x(*i),
                y(*value)
            ));
        }
        add(format!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"
        ));
        if !line.name.is_empty() && k < COLOURS.len() {
            let (column, row) = (k % 3, k / 3);
            add(format!(
                "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>",
                LEFT + 215.0 * column as f64,
                HEIGHT - 34.0 + 14.0 * row as f64,
                escaped(line.name)
            ));
        }
    }
    add(format!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">large dots: a new level begins</text>",
        WIDTH - RIGHT,
        TOP - 6.0
    ));
    svg.push_str("</svg>\n");
    svg
}

fn rounded(value: f64) -> String {
    if value.abs() >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}
