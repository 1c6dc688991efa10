//! One load at several levels: the level from which more load brings no more throughput, and a figure of it.

use std::fmt::Write as _;

/// The results of a level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelFigures {
    /// Clients, or requests per second; infinite if all requests are sent at once.
    pub level: f64,
    /// Output tokens of answered requests per second.
    pub throughput: Option<f64>,
    /// The median time to first token, ms.
    pub ttft_ms: Option<f64>,
    /// Answered requests per second.
    pub requests: Option<f64>,
    /// Answered requests within the bounds per second; `None` without bounds.
    pub goodput: Option<f64>,
}

/// Returns the index of the knee: the last level up to which each step raised the throughput at least half as much as
/// the load, both as ratios: `ln(T₂/T₁) ≥ ½ · ln(L₂/L₁)`, the elasticity of throughput. `None` if no step falls short,
/// because the knee then lies beyond the last level; or with fewer than two finite levels with a throughput, in rising
/// order.
pub fn knee(levels: &[LevelFigures]) -> Option<usize> {
    let rates: Vec<(usize, f64, f64)> = levels
        .iter()
        .enumerate()
        .filter_map(|(i, at)| Some((i, at.level, at.throughput?)))
        .filter(|(_, level, throughput)| level.is_finite() && *throughput > 0.0)
        .collect();
    if rates
        .iter()
        .zip(rates.iter().skip(1))
        .any(|(a, b)| b.1 <= a.1)
    {
        return None;
    }
    rates
        .iter()
        .zip(rates.iter().skip(1))
        .find(|((_, level, before), (_, next, after))| {
            (after / before).ln() < 0.5 * (next / level).ln()
        })
        .map(|((position, ..), _)| *position)
}

const WIDTH: f64 = 640.0;
const PANEL: f64 = 200.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const BLUE: &str = "#06c";

/// Selects one of a level's figures.
type Figure = fn(&LevelFigures) -> Option<f64>;

/// A panel: its label, and its lines, each with a color and, if there are several, a name.
struct Panel {
    label: &'static str,
    lines: Vec<(&'static str, &'static str, Figure)>,
}

/// Returns the panels from top to bottom. Goodput is in one panel with the throughput that it is a part of.
fn panels(levels: &[LevelFigures]) -> Vec<Panel> {
    let one = |label: &'static str, figure: Figure| Panel {
        label,
        lines: vec![("", BLUE, figure)],
    };
    let mut panels = vec![
        one("output tok/s", |at| at.throughput),
        one("TTFT p50 (ms)", |at| at.ttft_ms),
    ];
    if levels.iter().any(|at| at.goodput.is_some()) {
        panels.push(Panel {
            label: "req/s",
            lines: vec![
                ("answered", "#888", |at| at.requests),
                ("within the bounds (goodput)", BLUE, |at| at.goodput),
            ],
        });
    }
    panels
}

/// Draws throughput and median time to first token over the levels, in panels one above the other. With bounds, goodput
/// is drawn beside the answered requests. The knee is a dashed line. Levels are at equal distances, in their order.
pub fn sweep_figure(title: &str, axis: &str, levels: &[LevelFigures]) -> String {
    let panels = panels(levels);
    let inner = panels.len() as f64 * (PANEL + 20.0);
    let height = inner + 70.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<title>{title}</title>\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n",
        title = escaped(title)
    );
    let x = |i: usize| {
        let steps = levels.len().saturating_sub(1).max(1) as f64;
        LEFT + 20.0 + (WIDTH - LEFT - RIGHT - 40.0) * i as f64 / steps
    };
    let mut add = |line: String| {
        svg.push_str(&line);
        svg.push('\n');
    };
    add(format!(
        "<text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{}</text>",
        escaped(title)
    ));
    for (i, one) in panels.iter().enumerate() {
        let top = 40.0 + i as f64 * (PANEL + 20.0);
        panel(one, top, levels, &x, &mut add);
    }
    let bottom = inner + 20.0;
    for (i, at) in levels.iter().enumerate() {
        let name = level_name(at.level);
        add(format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}</text>",
            x(i),
            bottom + 18.0
        ));
    }
    add(format!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        WIDTH / 2.0,
        bottom + 38.0,
        escaped(axis)
    ));
    if let Some(i) = knee(levels) {
        let at = x(i);
        add(format!(
            "<line x1=\"{at:.1}\" y1=\"40\" x2=\"{at:.1}\" y2=\"{bottom:.1}\" stroke=\"#b00\" stroke-dasharray=\"4 3\"/>"
        ));
        add(format!(
            "<text x=\"{:.1}\" y=\"52\" fill=\"#b00\">knee</text>",
            at + 4.0
        ));
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(
    panel: &Panel,
    top: f64,
    levels: &[LevelFigures],
    x: &dyn Fn(usize) -> f64,
    add: &mut dyn FnMut(String),
) {
    let label = panel.label;
    let values = |value: &Figure| levels.iter().filter_map(*value).fold(0.0, f64::max);
    // The lines of one panel share a scale.
    let most = panel
        .lines
        .iter()
        .map(|(_, _, value)| values(value))
        .fold(0.0, f64::max);
    let bottom = top + PANEL;
    add(format!(
        "<path d=\"M{LEFT} {top}V{bottom}H{:.1}\" fill=\"none\" stroke=\"#888\"/>",
        WIDTH - RIGHT
    ));
    add(format!(
        "<text x=\"{LEFT}\" y=\"{:.1}\" dx=\"6\" dy=\"12\">{label}</text>",
        top - 2.0
    ));
    for share in [0.0, 0.5, 1.0] {
        let y = bottom - (PANEL - 20.0) * share;
        add(format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            y + 4.0,
            rounded(most * share)
        ));
    }
    let y = |v: f64| {
        bottom
            - if most > 0.0 {
                (PANEL - 20.0) * v / most
            } else {
                0.0
            }
    };
    for (number, (name, color, value)) in panel.lines.iter().enumerate() {
        let mut path = String::new();
        for (i, v) in levels.iter().map(value).enumerate() {
            let Some(v) = v else { continue };
            let word = if path.is_empty() { 'M' } else { 'L' };
            // Writing to a string never fails.
            let _written = write!(path, "{word}{:.1} {:.1}", x(i), y(v));
            add(format!(
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"{color}\"/>",
                x(i),
                y(v)
            ));
        }
        add(format!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"1.5\"/>"
        ));
        if !name.is_empty() {
            add(format!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{color}\">{name}</text>",
                WIDTH - RIGHT,
                top + 10.0 + 16.0 * number as f64
            ));
        }
    }
}

/// Formats a level as on the command line.
pub fn level_name(level: f64) -> String {
    if level.is_finite() {
        level.to_string()
    } else {
        "inf".to_owned()
    }
}

fn rounded(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

/// Escapes text for the content of an element of SVG. It is not enough for attributes.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(pairs: &[(f64, f64)]) -> Vec<LevelFigures> {
        let figures = |(level, throughput): &(f64, f64)| LevelFigures {
            level: *level,
            throughput: Some(*throughput),
            ttft_ms: Some(10.0),
            requests: Some(*throughput / 10.0),
            goodput: None,
        };
        pairs.iter().map(figures).collect()
    }

    #[test]
    fn the_knee_is_where_more_load_stops_bringing_half_as_much_more_throughput() {
        // Twice the load must bring √2 times the throughput.
        let levels = at(&[
            (1.0, 100.0),
            (2.0, 190.0),
            (4.0, 300.0),
            (8.0, 330.0),
            (16.0, 335.0),
        ]);
        assert_eq!(knee(&levels), Some(2));
        assert_eq!(knee(&at(&[(1.0, 100.0), (8.0, 120.0)])), Some(0));
        assert_eq!(
            knee(&at(&[(1.0, 100.0), (2.0, 141.5)])),
            None,
            "√2 is enough"
        );
    }

    #[test]
    fn without_an_order_or_a_second_level_there_is_no_knee() {
        assert_eq!(knee(&at(&[(8.0, 100.0), (1.0, 50.0)])), None);
        assert_eq!(knee(&at(&[(1.0, 100.0), (f64::INFINITY, 100.0)])), None);
        let mut failed = at(&[(1.0, 100.0), (2.0, 100.0)]);
        failed[1].throughput = None;
        assert_eq!(knee(&failed), None);
    }

    #[test]
    fn the_figure_marks_the_knee_and_names_every_level() {
        let levels = at(&[(1.0, 100.0), (4.0, 110.0), (f64::INFINITY, 111.0)]);
        let svg = sweep_figure("a <b> & c", "clients", &levels);
        assert!(svg.contains(">knee</text>") && svg.contains("a &lt;b&gt; &amp; c"));
        assert_eq!(svg.matches("<circle").count(), 6);
        assert!(svg.contains(">inf</text>"));
        assert!(!sweep_figure("t", "clients", &levels[..1]).contains("knee"));
        assert!(!svg.contains("goodput"), "nobody asked for bounds");
    }

    #[test]
    fn goodput_is_drawn_beside_the_answered_requests_on_one_scale() {
        let mut levels = at(&[(1.0, 10.0), (2.0, 20.0)]);
        levels[0].goodput = Some(1.0);
        levels[1].goodput = Some(1.0);
        let svg = sweep_figure("t", "req/s", &levels);
        assert_eq!(svg.matches("<circle").count(), 8);
        assert!(svg.contains(">within the bounds (goodput)</text>"));
        // 1 of 2 requests per second: half as high as the answered ones.
        let heights: Vec<&str> = svg
            .lines()
            .filter(|line| line.starts_with("<circle"))
            .collect();
        assert!(heights[5].contains("cy=\"500.0\""), "{svg}");
        assert!(heights[7].contains("cy=\"590.0\""), "{svg}");
    }
}
